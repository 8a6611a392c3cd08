"""Marks a step of the program after each step of its first optimizer (`ncclscope run --steps torch`).

torch calls `_before` and `_after` around `step` of any optimizer. A step lasts from the end of one call to
the end of the next, so there is one step less than calls. `marks`, which is `python/ncclscope/_marks.py`,
writes them into `NAME.1.marks`.

What counts:

- The first optimizer that stepped. Others step within the same step of the program, as in a GAN. If the
  first one is gone, the next one that steps takes its place, and so does one that has stepped `_ALONE` times
  without it.
- Of this optimizer, calls with the same first parameter. DeepSpeed gives an optimizer its groups one by one.
  Another first parameter takes its place if it comes twice without it.
- One call, if a class calls the `step` of its base class and torch has wrapped both.

Rule: no exception leaves this file, and a call never waits. torch is not imported here.
"""

import os
import weakref
from time import monotonic_ns

# A GAN's critic may step some ten times for each step of its generator.
_ALONE = 100
# More optimizers and groups than a step has.
_MOST_SEEN = 1 << 16


def _nobody():
    return None


_marks = None
# The optimizer that counts, as long as it is there.
_first = _nobody
# Whether it is in its `step`.
_is_in = False
# Which of its parameters is the first one where it counts.
_part = None
# What has stepped since the newest step and does not count, and how often.
_seen = {}
# When the newest step ended, or 0; and the number of the next step.
_last = _number = 0


def begin(optimizers, marks):
    """`optimizers` is `torch.optim.optimizer`."""
    global _marks
    _marks = marks
    optimizers.register_optimizer_step_pre_hook(_before)
    optimizers.register_optimizer_step_post_hook(_after)
    os.register_at_fork(after_in_child=_in_child)


def _comes(what, times):
    """Something steps that does not count; whether it did so often enough to count from now on."""
    if len(_seen) >= _MOST_SEEN:
        _seen.clear()
    so_far = _seen[what] = _seen.get(what, 0) + 1
    return so_far >= times


def _before(optimizer, args, kwargs):
    global _first, _is_in, _part
    try:
        first = _first()
        if first is not optimizer:
            if first is not None and not _comes(id(optimizer), _ALONE):
                return
            if _first is _nobody:
                head = {"from": "torch", "optimizer": type(optimizer).__name__}
                _marks.not_by_program(".1.marks", head)
            _first = weakref.ref(optimizer)
            _part = None
        _is_in = True
    except Exception:
        pass


def _after(optimizer, args, kwargs):
    global _is_in, _part, _last, _number
    if not _is_in or _first() is not optimizer:
        return
    try:
        _is_in = False
        part = None
        for group in optimizer.param_groups:
            parameters = group["params"]
            if parameters:
                part = id(parameters[0])
                break
        if part != _part:
            if _part is not None and not _comes(part, 2):
                return
            _part = part
        if _seen:
            _seen.clear()
        begin, _last = _last, monotonic_ns()
        if begin:
            _marks.note_step(_number, begin, _last)
            _number += 1
    except Exception:
        pass


def _in_child():
    """In a forked child: the parent's steps are no part of its own."""
    global _is_in, _last, _number
    _is_in = False
    _last = _number = 0
