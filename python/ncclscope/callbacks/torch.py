"""Steps from torch's optimizers, for loops of one's own: plain PyTorch, Accelerate, FSDP, Megatron."""

from __future__ import annotations

from .._marks import drop_step, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def steps_of_optimizer(optimizer: Any) -> Callable[[], None]:
    """Marks a step of the program after each step of ``optimizer``; returns a function that ends this.

        >>> steps_of_optimizer(optimizer)

    ``optimizer`` is one of ``torch.optim``, or what wraps one as ``.optimizer``, as Accelerate and DeepSpeed
    do. With gradient accumulation, a step has all batches between two steps of the optimizer. The first step
    begins now: call this right before the loop.
    """
    inner = optimizer
    # A wrapper of Accelerate is an optimizer of torch, too, but for its hooks.
    while hasattr(inner, "optimizer"):
        inner = inner.optimizer
    if not hasattr(inner, "register_step_post_hook"):
        raise TypeError(f"{type(optimizer).__name__} is no optimizer of torch and wraps none")

    def next_step(*_: Any) -> None:
        step()

    step()
    handle = inner.register_step_post_hook(next_step)

    def stop() -> None:
        handle.remove()
        # Behind the last step of the optimizer comes none.
        drop_step()

    return stop
