"""A callback for Lightning, both as ``lightning`` and as ``pytorch_lightning``."""

from __future__ import annotations

from .._marks import Span, end_step, is_recorded, phase, step
from .._results import Result, log_result, log_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback


class NcclscopeCallback(Callback):  # type: ignore[misc,unused-ignore]
    """Marks optimizer steps, and the phases ``validation``, ``test`` and ``checkpoint``.

        >>> trainer = Trainer(callbacks=[NcclscopeCallback()])

    A step has all batches that ``accumulate_grad_batches`` puts together. After training, rank 0 logs the
    verdict to the trainer's loggers, unless ``log`` is False.
    """

    def __init__(self, *, log: bool = True) -> None:
        super().__init__()
        self._log = log
        self._steps = -1
        self._phases: dict[str, Span] = {}

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        # The number of optimizer steps goes up behind the last batch of each.
        if trainer.global_step != self._steps:
            self._steps = trainer.global_step
            step(self._steps)

    def on_train_epoch_end(self, *_: Any) -> None:
        end_step()
        self._steps = -1

    def on_validation_start(self, trainer: Any, *_: Any) -> None:
        self._begin("sanity check" if trainer.sanity_checking else "validation")

    def on_validation_end(self, *_: Any) -> None:
        self._end("validation")
        self._end("sanity check")

    def on_test_start(self, *_: Any) -> None:
        self._begin("test")

    def on_test_end(self, *_: Any) -> None:
        self._end("test")

    def on_fit_start(self, trainer: Any, *_: Any) -> None:
        if not is_recorded():
            return
        save = trainer.save_checkpoint

        def save_checkpoint(*given: Any, **named: Any) -> Any:
            with phase("checkpoint"):
                return save(*given, **named)

        # Lightning has no callback around a checkpoint: `on_save_checkpoint` comes before it is written.
        trainer.save_checkpoint = save_checkpoint

    def on_fit_end(self, trainer: Any, *_: Any) -> None:
        end_step()
        # The method of the class is behind the one that was put there.
        trainer.__dict__.pop("save_checkpoint", None)
        if self._log and is_recorded() and trainer.is_global_zero:
            log_result(lambda result: _to_loggers(trainer, result), step=trainer.global_step)

    def on_exception(self, trainer: Any, *_: Any) -> None:
        end_step()
        trainer.__dict__.pop("save_checkpoint", None)

    def _begin(self, name: str) -> None:
        # What is between two steps is no part of the one before.
        end_step()
        self._steps = -1
        self._phases[name] = phase(name)

    def _end(self, name: str) -> None:
        span = self._phases.pop(name, None)
        if span is not None:
            span.end()


def _to_loggers(trainer: Any, result: Result) -> None:
    for logger in trainer.loggers:
        kind = type(logger).__name__
        if kind == "MLFlowLogger":
            log_to((logger.experiment, logger.run_id), result, trainer.global_step)
        elif kind in ("WandbLogger", "TensorBoardLogger"):
            log_to(logger.experiment, result, trainer.global_step)
        else:
            # Any other logger takes numbers.
            figures = {f"ncclscope/{name}": value for name, value in result.figures.items()}
            logger.log_metrics(figures, step=trainer.global_step)
            logger.save()
