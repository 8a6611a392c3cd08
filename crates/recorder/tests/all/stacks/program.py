"""Calls NCCL from lines that the test knows by their comments."""

import sys
import threading

sys.path.insert(0, sys.argv[1])
import fakedist


def step(calls):
    for _ in range(calls):
        fakedist.all_reduce(10)  # step


def other():
    fakedist.all_reduce(  # other
        20,
    )


class Worker:
    def run(self):
        [fakedist.direct(30) for _ in range(5)]  # run


def generator():
    yield fakedist.direct(60)  # generator


def deep(n):
    return deep(n - 1) if n else fakedist.direct(70)  # deep


fakedist.init()
step(3)
other()
other()
thread = threading.Thread(target=Worker().run)
thread.start()
thread.join()
fakedist.native_thread(40, 7, b"pt_autograd_0")
fakedist.native_thread(50, 2, b"pool-1")
list(generator())
deep(200)
# Code objects at addresses that were used before, in files and lines that differ.
for n in range(200):
    code = compile("\n" * n + "f(1000 + n)", "made-%d.py" % n, "exec")
    exec(code, {"f": lambda n: None, "n": n})
code = None
for _ in range(4):
    fakedist.direct(80)  # again
fakedist.finalize()
