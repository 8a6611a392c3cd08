"""What can go wrong, each with the way out."""

from __future__ import annotations


class _WithHint(Exception):
    hint: str

    def __init__(self, message: str, hint: str) -> None:
        # The arguments are kept as given, so that the error survives pickling on its way from a worker
        # process.
        super().__init__(message, hint)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]}\n  hint: {self.hint}"


class CaptureError(_WithHint, ValueError):
    """There is no capture at a path. Damage in a capture is never an error: see :attr:`ncclscope.Capture.problems`.

    ``hint`` is the way out; it is in the text too.
    """


class RecordError(_WithHint, RuntimeError):
    """Nothing could be recorded. ``hint`` is the way out; it is in the text too."""
