"""Steps of torch's optimizers under ``ncclscope run --steps torch``, with a package ``torch`` that has the
public functions of the real one (``test_frameworks.py`` has the real one). Its process makes calls as NCCL
does (``own_nccl.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from conftest import BIN

import ncclscope

HERE = Path(__file__).parent

# As torch's, as far as hooks go.
OPTIMIZER = """
from functools import wraps
pre, post = [], []
def register_optimizer_step_pre_hook(hook): pre.append(hook)
def register_optimizer_step_post_hook(hook): post.append(hook)
def hooked(step):
    @wraps(step)
    def wrapper(self, *args, **kwargs):
        for hook in pre: assert hook(self, args, kwargs) is None
        out = step(self, *args, **kwargs)
        for hook in post: hook(self, args, kwargs)
        return out
    return wrapper
class Optimizer:
    def __init__(self, *groups):
        self.param_groups = [{"params": list(group)} for group in groups]
    @hooked
    def step(self): return 7
class AdamW(Optimizer):
    pass
class Own(AdamW):
    @hooked
    def step(self): return super().step()
"""
LOOP = f"""
import gc, os, sys, time
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
from own_nccl import Nccl
nccl = Nccl(os.environ["NCCL_PROFILER_PLUGIN"])
def batch(number):
    # By the calls alone, a step has two of these.
    for part in range(3 + number % 2):
        nccl.all_reduce(1000 * (part + 1))
"""
TRAIN = LOOP + "from torch.optim.optimizer import AdamW, Optimizer, Own\n"


def outside(folder: Path) -> dict[str, str]:
    """The environment without what the tests themselves run under, and with the package of the tests and
    `torch`.
    """
    optim = folder / "packages" / "torch" / "optim"
    if not optim.exists():
        optim.mkdir(parents=True)
        (optim.parent / "__init__.py").touch()
        (optim / "__init__.py").write_text("from torch.optim.optimizer import Optimizer\n")
        (optim / "optimizer.py").write_text(OPTIMIZER)
    env = {k: v for k, v in os.environ.items() if not k.startswith("NCCL")}
    path = f"{folder / 'packages'}:{env.get('PYTHONPATH', '')}"
    more = {"RANK": "0", "NCCLSCOPE_QUIET": "1", "NCCLSCOPE_PLUGIN": ncclscope.plugin_path()}
    return env | more | {"PYTHONPATH": path}


def program(text: str, folder: Path, *options: str, steps: str = "torch") -> subprocess.CompletedProcess[str]:
    """Runs a program below `ncclscope run`."""
    command = [str(BIN / "ncclscope"), "run", "-o", "capture", "--no-sampler", "--steps", steps, "--"]
    done = subprocess.run(
        [*command, sys.executable, *options, "-c", text],
        cwd=folder,
        env=outside(folder),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def marks(folder: Path) -> list[list[int]]:
    (file,) = (folder / "capture").rglob("*.1.marks")
    return [json.loads(line) for line in file.read_text().splitlines()[1:]]


def notes(folder: Path) -> str:
    return " ".join(ncclscope.open(folder / "capture").report().notes)


def test_steps_of_the_optimizer_are_the_program_s(tmp_path: Path) -> None:
    text = """
optimizer = AdamW("ab", "c")
for number in range(41):
    batch(number)
    assert optimizer.step() == 7
nccl.close()
"""
    program(TRAIN + text, tmp_path)
    report = ncclscope.open(tmp_path / "capture").report()
    assert report.steps is not None
    assert (report.steps.source, report.steps.rows[0].steps, report.problems) == ("program", 40, [])
    assert "Steps (as the program marked them)\n  40 steps of 4 calls" in str(report)
    assert "Steps are those of torch's optimizer `AdamW`" in notes(tmp_path)
    # What is before the first step is no part of one, and a step ends with the next one's begin.
    found = marks(tmp_path)
    assert all(one[3] == next_[2] for one, next_ in zip(found, found[1:]))
    # The files for the program's Python go with the program.
    assert not (tmp_path / "capture" / ".torch-steps").exists()


def test_the_file_is_as_the_specification_says(tmp_path: Path) -> None:
    program(TRAIN + "x = Own('a')\nfor number in range(4): batch(number); x.step()\nnccl.close()\n", tmp_path)
    (file,) = (tmp_path / "capture").rglob("*.marks")
    (trace,) = (tmp_path / "capture").rglob("*.trace")
    assert (file.name, file.stat().st_mode & 0o777) == (f"{trace.stem}.1.marks", 0o600)
    head = json.loads(file.read_text().splitlines()[0])
    assert f"-p{head.pop('pid')}-" in file.name
    clock = {"schema": "ncclscope.marks/1", "clock": "CLOCK_MONOTONIC"}
    assert head == clock | {"from": "torch", "optimizer": "Own"}
    assert [mark[:2] for mark in marks(tmp_path)] == [["step", number] for number in range(3)]


def test_several_optimizers_make_one_step(tmp_path: Path) -> None:
    text = """
# Of the same class, one for each parameter, and one that steps several times.
generator, critic = AdamW("a"), AdamW("b")
each = [Optimizer("p") for _ in range(20)]
for number in range(10):
    batch(number)
    generator.step()
    for _ in range(5): critic.step()
    for one in each: one.step()
nccl.close()
"""
    program(TRAIN + text, tmp_path)
    assert len(marks(tmp_path)) == 9


def test_an_optimizer_that_gets_its_groups_one_by_one_makes_one_step(tmp_path: Path) -> None:
    text = """
optimizer = AdamW("abc", "de")
groups = optimizer.param_groups
def train(groups, steps):
    for number in range(steps):
        batch(number)
        # As DeepSpeed's optimizers with ZeRO 1 and 2, and with ZeRO 3.
        for group in groups:
            optimizer.param_groups = [group]
            optimizer.step()
        optimizer.param_groups = groups
train(groups, 10)
# Other parameters from here on.
train([{"params": ["x"]}], 10)
nccl.close()
"""
    program(TRAIN + text, tmp_path)
    # The first step with other parameters can't be told from one of a second group.
    assert len(marks(tmp_path)) == 18


def test_a_class_that_calls_the_step_of_its_base_makes_one_step(tmp_path: Path) -> None:
    text = "x = Own('a')\nfor number in range(10): batch(number); x.step()\nnccl.close()\n"
    program(TRAIN + text, tmp_path)
    assert len(marks(tmp_path)) == 9


def test_the_next_optimizer_takes_the_place_of_one_that_steps_no_more(tmp_path: Path) -> None:
    text = """
def train(optimizer, steps):
    for number in range(steps):
        batch(number)
        optimizer.step()
warm_up, kept = AdamW("a"), AdamW("b")
train(warm_up, 3)
del warm_up
gc.collect()
other = AdamW("c")
for _ in range(3):
    train(kept, 1)
    train(other, 1)
# From the hundredth step on.
train(AdamW("d"), 103)
nccl.close()
"""
    program(TRAIN + text, tmp_path)
    assert len(marks(tmp_path)) == 2 + 3 + 4


def test_marks_of_the_program_count_before_those_of_its_optimizer(tmp_path: Path) -> None:
    text = """
import ncclscope
optimizer = AdamW("a")
for number in range(20):
    with ncclscope.step():
        for part in range(2):
            batch(number)
            optimizer.step()
nccl.close()
"""
    program(TRAIN + text, tmp_path)
    report = ncclscope.open(tmp_path / "capture").report()
    assert report.steps is not None and report.steps.rows[0].steps == 20
    assert "by `ncclscope.step()`, so those of torch's optimizers do not count" in notes(tmp_path)
    assert len(list((tmp_path / "capture").rglob("*.marks"))) == 2


def test_processes_that_the_program_starts_have_steps_too(tmp_path: Path) -> None:
    # As torchrun starts its workers. The first one forks, as a loader of data does.
    worker = """
optimizer = AdamW("a")
for number in range(6):
    batch(number)
    optimizer.step()
child = os.fork()
if child == 0:
    optimizer.step()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
nccl.close()
"""
    text = f"""
import os, subprocess, sys
for rank in "01":
    subprocess.run([sys.executable, "-c", {TRAIN + worker!r}], env={{**os.environ, "RANK": rank}}, check=True)
"""
    program(text, tmp_path)
    files = list((tmp_path / "capture").rglob("*.1.marks"))
    assert sorted(file.name.split("-")[0] for file in files) == ["r0", "r1"]
    assert {len(file.read_text().splitlines()) for file in files} == {1 + 5}


def test_without_steps_the_report_says_so(tmp_path: Path) -> None:
    text = LOOP + "for number in range(40): batch(number)\nnccl.close()\n"
    for at, (options, more) in enumerate([([], "import torch.optim.optimizer\n"), ([], ""), (["-E"], "")]):
        folder = tmp_path / str(at)
        folder.mkdir()
        program(more + text, folder, *options)
        assert list((folder / "capture").rglob("*.marks")) == []
        assert "torch's optimizers marked no steps: no optimizer stepped three times" in notes(folder)


def test_the_program_runs_as_without_it(tmp_path: Path) -> None:
    # Its own `sitecustomize` runs, fails as ever, and has the name.
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("NAME = 'own'\nprint('own ran')\nraise ValueError('mine')\n")
    text = """
import sys
print([place for place in sys.path if "torch-steps" in place], "sitecustomize" in sys.modules)
print([name for name in sys.modules if "ncclscope" in name or name.startswith("torch")])
import torch.optim.optimizer as optimizer
print(type(optimizer.__loader__).__name__, optimizer.__spec__.loader is optimizer.__loader__)
"""
    env = outside(tmp_path)
    env["PYTHONPATH"] = f"{own}:{env['PYTHONPATH']}"
    command = [str(BIN / "ncclscope"), "run", "-o", "capture", "--no-sampler", "--steps", "torch", "--"]
    python = [sys.executable, "-c", text]
    ways = [
        subprocess.run(of, cwd=tmp_path, env=env, text=True, capture_output=True, check=True)
        for of in (python, command + python)
    ]
    assert ways[0].stdout == ways[1].stdout
    assert ways[0].stdout.startswith("own ran\n[] False\n[]\nSourceFileLoader True")
    errors = [way.stderr.split("ncclscope: nothing")[0] for way in ways]
    assert errors[0] == errors[1] and "ValueError: mine" in errors[0]


def test_a_torch_without_the_functions_is_left_alone(tmp_path: Path) -> None:
    outside(tmp_path)
    file = tmp_path / "packages" / "torch" / "optim" / "optimizer.py"
    file.write_text(OPTIMIZER.replace("def register_", "def register_as_before_"))
    done = program("from torch.optim.optimizer import AdamW\nprint(AdamW('a').step())\n", tmp_path)
    assert done.stdout == "7\n" and "Traceback" not in done.stderr
