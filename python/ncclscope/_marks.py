"""Steps and phases that the program marks itself.

:func:`step` and :func:`phase` note two times of CLOCK_MONOTONIC. A thread of Python appends them once a
second to ``NAME.marks``, the file beside the trace of this process (``crates/capture/SPEC.md`` has its
format). The recorder need not know: the file is found through the descriptor by which the recorder keeps its
trace open.

`ncclscope run --steps torch` has a copy of this file in the program's process, which need not have the
package (`crates/cli/src/run/steps/torch_steps.py`). So this file is one that Python 3.8 reads, and imports
from Python's own library only.

Rule: in a process that is not recorded, a mark is two reads of a clock, and there is no thread and no file. A
mark never waits for a file, and never raises.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import threading
from collections import deque
from time import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import TypeVar

    S = TypeVar("S", bound="Span")

SCHEMA = "ncclscope.marks/1"
# How often marks are written, seconds: what is lost at most if the process is killed.
_EVERY = 1.0
# How often the trace is looked for at least, seconds: a program may have no communicator for long, or never.
_LOOK = 16.0
# Marks that wait to be written. If a file system takes none for long, later ones are counted.
_MOST_WAITING = 1 << 16
# A file is no larger. A step takes about 50 bytes.
_MOST_BYTES = 64 << 20
_TRACE = re.compile(r"(.*-p(\d+)-[0-9a-f]{8})(?:\.\d+)?\.trace")
# How the file's name ends, and what its first line says beside the usual.
_ending = ".marks"
_more_of_head: dict[str, object] = {}


class Span:
    """A step or a phase that the program marks; as a context manager it ends with the block."""

    __slots__ = ("_kind", "_name", "_begin")

    def __init__(self, kind: str, name: int | str) -> None:
        self._kind = kind
        self._name = name
        self._begin: int | None = monotonic_ns()

    def end(self) -> None:
        """Ends it now, if it has not ended."""
        begin, self._begin = self._begin, None
        if begin is not None:
            _note((self._kind, self._name, begin, monotonic_ns()))

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def __repr__(self) -> str:
        return f"<ncclscope.Span {self._kind} {self._name}{', ended' if self._begin is None else ''}>"


_newest: Span | None = None
_next = 0


def step(number: int | None = None) -> Span:
    """Begins a step of the program, and ends the step before it.

        >>> for batch in loader:
        ...     with ncclscope.step():
        ...         train(batch)

    The report then has the program's steps, and need not find them from a pattern of calls. Mark them on all
    ranks. Without ``with``, a step ends when the next one begins. ``number`` is the program's own number for
    the step; without it, steps are counted from 0.

    In a process that is not recorded, this does nothing, and costs about a microsecond. That is found out at
    the first mark; ``ncclscope.record`` may come later.
    """
    global _newest, _next
    if _newest is not None:
        _newest.end()
    number = _next if number is None else int(number)
    _next = number + 1
    _newest = Span("step", number)
    return _newest


def end_step() -> None:
    """Ends the newest step, if it has not ended."""
    if _newest is not None:
        _newest.end()


def drop_step() -> None:
    """Forgets the newest step, if it has not ended: there is none."""
    global _newest
    if _newest is not None and _newest._begin is not None:
        _newest._begin = None
        _newest = None


def phase(name: str) -> Span:
    """Begins a phase of the program, such as ``eval`` or ``checkpoint``; a context manager, or ended by
    ``end``.

        >>> with ncclscope.phase("eval"):
        ...     evaluate(model)

    A phase may lie between steps or within one, and phases may nest. The report has the time of each by name,
    with the calls in it.
    """
    return Span("phase", str(name))


def not_by_program(ending: str, head: dict[str, object]) -> None:
    """The marks that this module gets are not the program's own, so they have a file of their own."""
    global _ending, _more_of_head
    _ending, _more_of_head = ending, head


def note_step(number: int, begin: int, end: int) -> None:
    """A step from and to these times of CLOCK_MONOTONIC, ns."""
    _note(("step", number, begin, end))


def is_recorded() -> bool:
    """Whether this process is set up to be recorded: by ``ncclscope run``, ``ncclscope.record`` or its
    environment.
    """
    environ = os.environ
    return "NCCLSCOPE_OUT" in environ or "ncclscope" in environ.get("NCCL_PROFILER_PLUGIN", "")


class _Writer:
    """Writes the marks of this process. A forked child has a writer of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._waiting: deque[tuple[str, int | str, int, int]] = deque()
        self._dropped = 0
        self._written = 0
        self._file: int | None = None
        # Whether marks are taken; for ever false after a failure.
        self._takes = True
        self._thread: threading.Thread | None = None

    def add(self, mark: tuple[str, int | str, int, int]) -> None:
        if not self._takes:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._dropped += 1
            return
        self._waiting.append(mark)
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="ncclscope-marks", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # No more threads, or the interpreter ends: what waits is written at the exit.
                pass

    def _run(self) -> None:
        try:
            import signal

            # Signals are the program's: none is delivered to this thread.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        except (OSError, ValueError, AttributeError):
            pass
        pause = _EVERY
        while self._takes and not self._wake.wait(pause):
            self.flush()
            pause = min(2 * pause, _LOOK) if self._file is None else _EVERY

    def stop(self) -> None:
        """Writes what is left; the thread ends."""
        self._wake.set()
        self.flush()

    def forget(self) -> None:
        """In a forked child: the marks and the file are the parent's."""
        if self._file is not None:
            os.close(self._file)
        self._takes = False

    def flush(self) -> None:
        """Writes what waits, if the recorder has made its trace."""
        with self._lock:
            if not self._takes or not (self._waiting or self._dropped):
                return
            try:
                self._write()
            except Exception as error:
                self._takes = False
                _say(f"steps of the program are not recorded any more: {error}")

    def _write(self) -> None:
        lines: list[object] = []
        if self._file is None:
            stem = own_trace()
            if stem is None:
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(stem + _ending, flags, 0o600)
            head = {"schema": SCHEMA, "clock": "CLOCK_MONOTONIC", "pid": os.getpid()}
            lines.append({**head, **_more_of_head})
        waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
        lines.extend(waiting)
        if self._dropped:
            lines.append({"dropped": self._dropped})
            self._dropped = 0
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        left = text.encode()
        self._written += len(left)
        if self._written > _MOST_BYTES:
            self._takes = False
            left = json.dumps({"dropped": len(waiting)}).encode() + b"\n"
            _say(f"steps beyond {_MOST_BYTES >> 20} MiB are not recorded")
        while left:
            left = left[os.write(self._file, left) :]


def own_trace() -> str | None:
    """The path of the trace that the recorder has open in this process, without its extension."""
    own = os.getpid()
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return None
    for number in numbers:
        try:
            file = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        found = _TRACE.fullmatch(file)
        # A forked child has its parent's files open, too.
        if found and int(found[2]) == own:
            return found[1]
    return None


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"ncclscope: {text}\n")
    except (OSError, ValueError, AttributeError):
        pass


_writer: _Writer | None = None
# Whether this process was found not to be recorded.
_is_off = False


def look_again() -> None:
    """The environment has changed, so marks may count from now on."""
    global _is_off
    _is_off = False


def _note(mark: tuple[str, int | str, int, int]) -> None:
    global _writer, _is_off
    if _is_off:
        return
    if _writer is None:
        if not is_recorded():
            _is_off = True
            return
        _writer = _Writer()
        atexit.register(_stop)
    _writer.add(mark)


def flush() -> None:
    """Writes the marks that wait."""
    if _writer is not None:
        _writer.flush()


def _stop() -> None:
    if _newest is not None:
        _newest.end()
    if _writer is not None:
        _writer.stop()


def _in_child() -> None:
    global _writer, _newest
    if _writer is not None:
        _writer.forget()
        atexit.unregister(_stop)
    _writer = _newest = None


os.register_at_fork(after_in_child=_in_child)
