"""Calls NCCL from code that is made, freed and made again: cells, a module that is reloaded, exec.

Prints count, file, line and function of each call.
"""

import gc
import importlib
import os
import sys

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, "")
import fakedist

call = fakedist.told


def run(text, file):
    exec(compile(text, file, "exec"), {"call": call})
    gc.collect()


def reloaded(lines):
    with open("remade_module.py", "w") as file:
        file.write("def step(call):\n" + "    # more\n" * lines + "    call()\n")
    # Its time is what the import system looks at.
    os.utime("remade_module.py", (100 * lines, 100 * lines))
    module = importlib.import_module("remade_module")
    importlib.reload(module).step(call)


fakedist.init()
for n in range(30):
    # The same text in other files, which have names of the same length.
    run("call()", "/tmp/cells/%03d.py" % n)
for n in range(30):
    # Other lines of one file.
    run("\n" * n + "call()", "/tmp/cell.py")
for n in range(30):
    # Other lines of one function, with and without more instructions.
    run("def train():\n" + " # more\n" * n + " call()\ntrain()", "/tmp/train.py")
for n in range(30):
    run("def train():\n" + " x = 1\n" * n + " call()\ntrain()", "/tmp/longer.py")
for n in range(30):
    # Other names of one function.
    run("def step_%02d():\n call()\nstep_%02d()" % (n, n), "/tmp/name.py")
for n in range(6):
    reloaded(n)


def replaced():
    call()


def other():
    pass
    call()


replaced()
replaced.__code__ = other.__code__
replaced()
replaced.__code__ = other.__code__.replace(co_filename="moved.py", co_firstlineno=500)
replaced()
# One line of code that is made more often than there is room for stacks.
text = "f(80)"
for _ in range(9000):
    exec(compile(text, "again.py", "exec"), {"f": fakedist.all_reduce})
run("\n\ncall()", "last.py")
fakedist.finalize()
