"""Recording from inside a program.

:func:`record` sets the environment variables that NCCL and the recorder read when the process makes its first
communicator. That is why it must come before, and why one process records into one capture.

Rule: the environment is changed only after every check has passed, and :meth:`Recording.stop` puts it back.
"""

from __future__ import annotations

import glob
import os
import sys
import warnings

from ._errors import RecordError
from ._marks import look_again
from ._plugin import FILE, plugin_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal

    from ._capture import Capture

_MODES = ("profile", "trace", "full", "callbacks")
_TIMINGS = ("auto", "events", "stamps", "host")

_active: Recording | None = None


class Recording:
    """A recording that this process makes, from :func:`record`; as a context manager it stops at the end.

    ``os.fspath`` gives its folder, so that ``ncclscope.open(recording)`` works.
    """

    def __init__(self, path: str, variables: dict[str, str]) -> None:
        self._path = path
        self._before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        look_again()

    @property
    def path(self) -> str:
        """The capture folder, absolute."""
        return self._path

    def stop(self) -> str:
        """Stops recording new processes, and returns the capture folder.

        The environment is as it was, so no process that starts from now on is recorded. Communicators that
        this process has are recorded until they end. Warns when no process has recorded anything.
        """
        global _active
        if _active is not self:
            return self._path
        _active = None
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if not _traces(self._path):
            warnings.warn(
                f"`{self._path}`: expected the trace of a process, found none: NCCL made "
                f"no communicator here after "
                "`ncclscope.record`\n  hint: call it before the process's first communicator; "
                "NCCL_DEBUG=INFO says what "
                "NCCL did with the plugin",
                RuntimeWarning,
                stacklevel=2,
            )
        return self._path

    def open(self) -> Capture:
        """Opens what has been recorded up to now."""
        from ._capture import open as open_capture

        return open_capture(self._path)

    def __fspath__(self) -> str:
        return self._path

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<ncclscope.Recording {self._path!r}{'' if _active is self else ', stopped'}>"


def record(
    out: str | os.PathLike[str],
    *,
    mode: Literal["profile", "trace", "full", "callbacks"] | None = None,
    timing: Literal["auto", "events", "stamps", "host"] | None = None,
    replace_plugin: bool = False,
) -> Recording:
    """Records the NCCL calls of this process, and of the processes that it starts, into the capture folder
    ``out``.

        >>> with ncclscope.record("run-0412") as recording:
        ...     train()
        >>> print(recording.open().report())

    Call it before the process's first communicator, on every rank with the same folder and a new one for each
    run: each process makes files of its own in it. ``mode`` and ``timing`` are the recorder's
    ``NCCLSCOPE_MODE`` and ``NCCLSCOPE_TIMING``; without them the environment decides. It need not be stopped:
    the recorder writes to the end of the process.

    Raises :class:`ncclscope.RecordError` when nothing can be recorded because NCCL has started in this
    process, because another profiler plugin is set (``replace_plugin=True`` records in its place), or because
    the process is recorded already; and ``ValueError`` for a value that is none of those above.
    """
    global _active
    for name, value, known in (("mode", mode, _MODES), ("timing", timing, _TIMINGS)):
        if value is not None and value not in known:
            raise ValueError(f"{name} is {value!r}; expected one of {', '.join(known)}")
    plugin = plugin_path()
    _refuse(plugin, replace_plugin)
    path = os.path.abspath(os.fspath(out))
    variables = {
        "NCCL_PROFILER_PLUGIN": plugin,
        # The recorder fills in %h and the like, and a path given here is meant as it stands.
        "NCCLSCOPE_OUT": path.replace("%", "%%"),
    }
    if mode is not None:
        variables["NCCLSCOPE_MODE"] = mode
    if timing is not None:
        variables["NCCLSCOPE_TIMING"] = timing
    _active = Recording(path, variables)
    return _active


def _refuse(plugin: str, replace_plugin: bool) -> None:
    """Raises if nothing would be recorded, or not what was meant."""
    if os.environ.get("NCCLSCOPE_RUN"):
        raise RecordError(
            "this process is already recorded by `ncclscope run`",
            "leave out either `ncclscope run` or `ncclscope.record`",
        )
    if _active is not None:
        raise RecordError(
            f"this process already records into `{_active.path}`",
            "stop that recording first; a process that has made a communicator records "
            "into one capture to its end",
        )
    mapped = _mapped()
    if any(os.path.basename(file) in (FILE, os.path.basename(plugin)) for file in mapped):
        raise RecordError(
            "NCCL has the recorder loaded in this process, which records into one capture to its end",
            "record each run in a process of its own, or keep one recording over all of them",
        )
    started = _nccl_has_started(mapped)
    if started:
        raise RecordError(
            f"NCCL looks for a profiler once, and has started in this process ({started})",
            "call `ncclscope.record` before the first communicator (in PyTorch: before "
            "`init_process_group`), or use "
            "`ncclscope run`",
        )
    named = os.environ.get("NCCL_PROFILER_PLUGIN")
    ours = named in (None, "", "none", "ncclscope", plugin) or os.path.basename(named or "") == FILE
    if not ours and not replace_plugin:
        raise RecordError(
            f"NCCL_PROFILER_PLUGIN is `{named}`, and NCCL loads one profiler plugin",
            "`replace_plugin=True` records in its place; or unset it",
        )


def _mapped() -> list[str]:
    """The files that this process has mapped."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            lines = maps.read().splitlines()
    except OSError:
        return []
    return sorted({parts[5] for parts in (line.split(maxsplit=5) for line in lines) if len(parts) == 6})


def _nccl_has_started(mapped: list[str]) -> str | None:
    """What shows that NCCL has made a communicator in this process.

    That its library is loaded does not: PyTorch loads it when it is imported. Where nothing shows it, a
    recording that stays empty is what :meth:`Recording.stop` warns of.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        # "cpu:gloo,cuda:nccl" where there are several.
        if "nccl" in str(distributed.get_backend()):
            return "torch.distributed has an NCCL process group"
    # Shared memory between NCCL's ranks and with its proxy, mapped from the first communicator on.
    segment = next((file for file in mapped if file.startswith("/dev/shm/nccl-")), None)
    return f"it has mapped {segment}" if segment else None


def _traces(folder: str) -> bool:
    pattern = os.path.join(glob.escape(folder), "**", "*.trace")
    return next(glob.iglob(pattern, recursive=True), None) is not None
