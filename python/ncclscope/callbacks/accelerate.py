"""Steps and results for loops that use Hugging Face Accelerate."""

from __future__ import annotations

from .._marks import is_recorded
from .._results import Result, log_result, log_to
from .torch import steps_of_optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any


class Steps:
    """Marks the steps of a loop with Accelerate, and logs the verdict to its trackers at the end.

        >>> model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        >>> with Steps(accelerator, optimizer):
        ...     for batch in loader:
        ...         with accelerator.accumulate(model):
        ...             ...
        >>> accelerator.end_training()

    A step is one of the optimizer, so it has all batches that are accumulated. The main process logs to the
    trackers of ``accelerator.init_trackers``, unless ``log`` is False.
    """

    def __init__(self, accelerator: Any, optimizer: Any, *, log: bool = True) -> None:
        self._accelerator = accelerator
        self._optimizer = optimizer
        self._log = log
        self._stop: Callable[[], None] | None = None

    def __enter__(self) -> Steps:
        if is_recorded():
            self._stop = steps_of_optimizer(self._optimizer)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stop is None:
            return
        self._stop()
        self._stop = None
        if self._log and kind is None and self._accelerator.is_main_process:
            log_result(lambda result: _to_trackers(self._accelerator, result))


def _to_trackers(accelerator: Any, result: Result) -> None:
    for tracker in accelerator.trackers:
        if tracker.name in ("wandb", "tensorboard"):
            log_to(tracker.tracker, result, None)
        elif tracker.name == "mlflow":
            import mlflow

            log_to(mlflow, result, None)
        else:
            tracker.log({f"ncclscope/{name}": value for name, value in result.figures.items()}, step=None)
