"""A callback for the Trainer of Hugging Face Transformers, and for TRL's trainers, which build on it."""

from __future__ import annotations

import glob
import os
import sys

from transformers import TrainerCallback

from .._marks import Span, end_step, is_recorded, phase, step
from .._results import log_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NcclscopeCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Marks optimizer steps, and the phases ``eval`` and ``checkpoint``.

        >>> trainer = Trainer(..., callbacks=[NcclscopeCallback()])

    A step has all batches of ``gradient_accumulation_steps``. After training, rank 0 logs the verdict to W&B,
    MLflow and TensorBoard, as far as ``report_to`` names them, unless ``log`` is False.
    """

    def __init__(self, *, log: bool = True) -> None:
        self._log = log
        self._phase: Span | None = None
        self._mlflow_run: str | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # The Trainer's own callbacks come first. Theirs for MLflow has begun a run now, and ends it before
        # `on_train_end` is called here.
        mlflow = sys.modules.get("mlflow")
        run = mlflow.active_run() if mlflow is not None and "mlflow" in args.report_to else None
        self._mlflow_run = run.info.run_id if run else None

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # The first step after an evaluation or a checkpoint: the Trainer says only when these are over.
        self._end_phase()
        step(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # Logging, evaluation and checkpoint come next, in this order, and are begun as `control` says.
        if control.should_evaluate or control.should_save:
            end_step()
            self._phase = phase("eval" if control.should_evaluate else "checkpoint")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._end_phase()
        if control.should_save:
            self._phase = phase("checkpoint")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._end_phase()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        end_step()
        if self._phase is None and (control.should_evaluate or control.should_save):
            self._phase = phase("eval" if control.should_evaluate else "checkpoint")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        end_step()
        self._end_phase()
        if self._log and is_recorded() and state.is_world_process_zero:
            log_result(*self._trackers(args), step=state.global_step)

    def _end_phase(self) -> None:
        span, self._phase = self._phase, None
        if span is not None:
            span.end()

    def _trackers(self, args: Any) -> list[object]:
        """The trackers that the Trainer reports to."""
        found: list[object] = []
        wandb, mlflow = sys.modules.get("wandb"), sys.modules.get("mlflow")
        if "wandb" in args.report_to and wandb is not None:
            found.append(wandb.run)
        if self._mlflow_run and mlflow is not None:
            found.append((mlflow.MlflowClient(), self._mlflow_run))
        if "tensorboard" in args.report_to:
            folder = _tensorboard(args)
            if folder:
                from torch.utils.tensorboard import SummaryWriter

                # The Trainer has closed its writer. TensorBoard reads all files of a folder as one run.
                found.append(SummaryWriter(log_dir=folder))
        return found


def _tensorboard(args: Any) -> str | None:
    """The folder of the Trainer's TensorBoard: there lies a file of events of this process."""
    named = (getattr(args, "logging_dir", None), os.environ.get("TENSORBOARD_LOGGING_DIR"), args.output_dir)
    for folder in filter(None, named):
        pattern = os.path.join(glob.escape(folder), "**", f"events.out.tfevents.*.{os.getpid()}.*")
        files = glob.glob(pattern, recursive=True)
        if files:
            return os.path.dirname(max(files, key=os.path.getmtime))
    return None
