"""The callbacks with the real Lightning, Transformers and Accelerate, and the real W&B, MLflow and
TensorBoard, offline. `make test-frameworks` installs them (6 GB, because of PyTorch); elsewhere these tests
are skipped.

Each program trains on the CPU, and makes calls as NCCL does (``own_nccl.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import BIN

import ncclscope

HERE = Path(__file__).parent

BEGIN = f"""
import json, os, sys
sys.path.insert(0, {str(HERE)!r})
import torch, ncclscope
from own_nccl import Nccl
nccl = Nccl(ncclscope.plugin_path())
"""


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}: `make test-frameworks`")


def trained(text: str, folder: Path, **more: str) -> tuple[list[list[object]], str]:
    """Runs a program in `folder`; the marks that it left, without their times, and what it printed last."""
    others = ("NCCL_", "NCCLSCOPE_RUN", "WANDB", "MLFLOW")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    environment = {
        "NCCLSCOPE_OUT": str(folder / "capture"),
        "RANK": "0",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        # A folder: mlflow-skinny has no database.
        "MLFLOW_TRACKING_URI": f"file:{folder}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_EXPERIMENT_NAME": "run",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning:ncclscope", "-c", BEGIN + text],
        cwd=folder,
        env={**kept, **environment, **more},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = (folder / "capture").rglob("*.marks")
    marks = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    assert all(begin <= end for _, _, begin, end in marks)
    return [mark[:2] for mark in marks], done.stdout.splitlines()[-1]


def logged(folder: Path) -> dict[str, str]:
    """The verdict as it is in the files of TensorBoard and MLflow below `folder`."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, str] = {}
    for file in folder.rglob("events.out.tfevents.*"):
        events = EventAccumulator(str(file))
        events.Reload()
        for tag in events.Tags()["tensors"]:
            if tag.startswith("ncclscope/verdict"):
                found["tensorboard"] = events.Tensors(tag)[0].tensor_proto.string_val[0].decode()
        if "ncclscope/steps" in events.Tags()["scalars"]:
            found["steps"] = str(events.Scalars("ncclscope/steps")[0].value)
    for tags in folder.glob("mlruns/*/*/tags"):
        if (tags / "ncclscope" / "verdict").exists():
            found["mlflow"] = (tags / "ncclscope" / "verdict").read_text()
    return found


def steps(*numbers: int) -> list[list[object]]:
    return [["step", number] for number in numbers]


EVAL, SAVE = ["phase", "eval"], ["phase", "checkpoint"]
VALIDATION = ["phase", "validation"]


@needs("lightning", "wandb", "mlflow", "tensorboard")
def test_lightning(tmp_path: Path) -> None:
    marks, last = trained(
        """
import lightning.pytorch as L
import wandb
from lightning.pytorch.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger
from ncclscope.callbacks.lightning import NcclscopeCallback
from torch.utils.data import DataLoader, TensorDataset

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        nccl.all_reduce()
        return self.layer(batch[0]).mean()
    def validation_step(self, batch, index):
        nccl.all_reduce(7)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

def data(rows):
    return DataLoader(TensorDataset(torch.randn(rows, 4)), batch_size=4)

loggers = [TensorBoardLogger("logs"), MLFlowLogger("run"), WandbLogger(offline=True)]
trainer = L.Trainer(
    max_epochs=1, logger=loggers, callbacks=[NcclscopeCallback()], accelerator="cpu",
    accumulate_grad_batches=2, val_check_interval=10, enable_progress_bar=False, log_every_n_steps=1,
)
trainer.fit(Model(), data(80), data(8))
assert "save_checkpoint" not in vars(trainer)
print(json.dumps(dict(wandb.run.summary)))
""",
        tmp_path,
    )
    # Two batches for each step, and a validation after each five steps.
    sanity = ["phase", "sanity check"]
    first = [sanity, *steps(0, 1, 2, 3, 4), VALIDATION, SAVE]
    assert marks == [*first, *steps(5, 6, 7, 8, 9), VALIDATION, SAVE]
    summary = json.loads(last)
    verdict = summary["ncclscope/verdict"]
    assert summary["ncclscope/steps"] == 10
    assert logged(tmp_path) == {"tensorboard": verdict, "mlflow": verdict, "steps": "10.0"}
    report = ncclscope.open(tmp_path / "capture").report()
    assert report.steps is not None and (report.steps.source, report.steps.rows[0].calls) == ("program", 2)


@needs("transformers", "accelerate", "wandb", "mlflow", "tensorboard")
def test_transformers(tmp_path: Path) -> None:
    marks, last = trained(
        """
import wandb
from ncclscope.callbacks.transformers import NcclscopeCallback
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        nccl.all_reduce()
        out = self.layer(x)
        return {"loss": out.mean(), "logits": out}

data = [{"x": torch.randn(4), "labels": torch.tensor(0.0)} for _ in range(40)]
arguments = TrainingArguments(
    "out", max_steps=8, per_device_train_batch_size=2, gradient_accumulation_steps=2, eval_strategy="steps",
    eval_steps=4, save_steps=6, logging_steps=2, report_to=["wandb", "mlflow", "tensorboard"], use_cpu=True,
    disable_tqdm=True,
)
trainer = Trainer(
    Model(), arguments, train_dataset=data, eval_dataset=data[:8], callbacks=[NcclscopeCallback()]
)
trainer.train()
print(json.dumps({k: v for k, v in dict(wandb.run.summary).items() if k.startswith("ncclscope")}))
""",
        tmp_path,
    )
    # The Trainer saves at the end, too.
    between = [*steps(4, 5), SAVE, *steps(6, 7), EVAL, SAVE]
    assert marks == [*steps(0, 1, 2, 3), EVAL, *between]
    summary = json.loads(last)
    verdict = summary["ncclscope/verdict"]
    assert summary["ncclscope/steps"] == 8
    assert logged(tmp_path) == {"tensorboard": verdict, "mlflow": verdict, "steps": "8.0"}


@needs("accelerate", "wandb", "mlflow", "tensorboard")
def test_accelerate(tmp_path: Path) -> None:
    marks, last = trained(
        """
import wandb
from accelerate import Accelerator
from ncclscope.callbacks.accelerate import Steps

accelerator = Accelerator(
    cpu=True, gradient_accumulation_steps=2, log_with=["tensorboard", "wandb", "mlflow"], project_dir="logs"
)
accelerator.init_trackers("run")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
with Steps(accelerator, optimizer):
    for batch in loader:
        with accelerator.accumulate(model):
            nccl.all_reduce()
            accelerator.backward(model(batch).mean())
            optimizer.step()
            optimizer.zero_grad()
print(json.dumps(dict(wandb.run.summary)))
accelerator.end_training()
""",
        tmp_path,
    )
    assert marks == steps(0, 1, 2, 3, 4)
    verdict = json.loads(last)["ncclscope/verdict"]
    assert logged(tmp_path) == {"tensorboard": verdict, "mlflow": verdict, "steps": "5.0"}


@needs("torch")
def test_a_loop_of_one_s_own(tmp_path: Path) -> None:
    marks, _ = trained(
        """
from ncclscope.callbacks.torch import steps_of_optimizer
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
stop = steps_of_optimizer(optimizer)
for _ in range(5):
    nccl.all_reduce()
    model(torch.randn(2, 4)).mean().backward()
    optimizer.step()
stop()
optimizer.step()
try:
    steps_of_optimizer(model)
except TypeError as error:
    print(error)
""",
        tmp_path,
    )
    assert marks == steps(0, 1, 2, 3, 4)


@needs("torch")
def test_ranges_that_torch_pushes(tmp_path: Path) -> None:
    import torch

    if torch.version.cuda is None:
        pytest.skip("this PyTorch has no NVTX")
    plugin = ncclscope.plugin_path()
    marks, _ = trained(
        """
# There is no GPU to wait for.
torch.cuda.synchronize = lambda: None
model = torch.nn.Linear(4, 1)
optimizers = [torch.optim.AdamW(model.parameters()), torch.optim.SGD(model.parameters())]
def train(steps):
    for _ in range(steps):
        nccl.all_reduce()
        model(torch.randn(2, 4)).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
train(2)
with torch.autograd.profiler.emit_nvtx():
    train(6)
print("done")
""",
        tmp_path,
        NCCLSCOPE_STEPS="nvtx",
        NVTX_INJECTION64_PATH=plugin,
    )
    # From the end of the first step within `emit_nvtx` on.
    assert marks == steps(0, 1, 2, 3, 4)
    assert any("`Optimizer.step#*`" in note for note in ncclscope.open(tmp_path / "capture").report().notes)


# Without a change of the program, and without the package in it.
UNCHANGED = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
import torch
from own_nccl import Nccl
nccl = Nccl(os.environ["NCCL_PROFILER_PLUGIN"])
model = torch.nn.Linear(4, 1)
def train(steps, optimizer, step=None, scaler=None):
    for _ in range(steps):
        nccl.all_reduce()
        optimizer.zero_grad()
        loss = model(torch.randn(2, 4)).mean()
        (scaler.scale(loss) if scaler else loss).backward()
        scaler.step(optimizer) if scaler else (step or optimizer.step)()
        scaler and scaler.update()
"""


def unchanged(text: str, folder: Path) -> tuple[int, str]:
    """How many steps of torch's optimizers are in the capture, and what the program printed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NCCL") and k != "PYTHONPATH"}
    run = [str(BIN / "ncclscope"), "run", "-o", "capture", "--no-sampler", "--steps", "torch", "--"]
    done = subprocess.run(
        [*run, sys.executable, "-c", UNCHANGED + text + "nccl.close()\n"],
        cwd=folder,
        env=kept | {"NCCLSCOPE_PLUGIN": ncclscope.plugin_path(), "RANK": "0", "CUDA_VISIBLE_DEVICES": ""},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = (folder / "capture").rglob("*.1.marks")
    return len(file.read_text().splitlines()) - 1, done.stdout


@needs("torch")
def test_steps_of_torch_in_an_unchanged_program(tmp_path: Path) -> None:
    text = """
train(5, torch.optim.AdamW(model.parameters()))
# Infinite gradients: the scaler steps twice, and leaves one out.
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
train(1, optimizer, scaler=scaler)
model.weight.register_hook(lambda gradient: gradient * float("inf"))
train(1, optimizer, scaler=scaler)
model.weight._backward_hooks.clear()
train(1, optimizer, scaler=scaler)
"""
    assert unchanged(text, tmp_path)[0] == 4 + 2
    notes = ncclscope.open(tmp_path / "capture").report().notes
    assert any("torch's optimizer `AdamW`" in note for note in notes)


@needs("torch")
def test_a_compiled_step_has_the_graphs_that_it_has_without(tmp_path: Path) -> None:
    text = """
from torch._dynamo.utils import counters
optimizer = torch.optim.AdamW(model.parameters())
torch._dynamo.config.error_on_recompile = True
train(20, optimizer, step=torch.compile(optimizer.step, backend="eager"))
print(dict(counters["stats"]))
"""
    steps, said = unchanged(text, tmp_path)
    assert steps == 19
    assert "'unique_graphs': 1" in said
