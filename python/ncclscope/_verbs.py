"""The command's verbs as functions: does it hang, what changed, and a capture in another format.

Each takes open captures or paths. :class:`Hang` and :class:`Diff` have the fields of the command's
``--json``, and their text is what the command prints.
"""

from __future__ import annotations

import json
import os
import warnings

from ._capture import Capture
from ._capture import open as open_capture
from .report import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal, Union

    from . import _native

    Source = Union[Capture, str, os.PathLike[str]]


class _Answer(Record):
    """An answer with the text that the command prints."""

    __slots__ = ("_source",)
    _source: _native.Answer

    def text(self, *, all: bool = False) -> str:
        """As the command prints it; ``all`` is its option."""
        return self._source.all if all else self._source.text

    def __str__(self) -> str:
        return self.text()


class Hang(_Answer):
    """What ``ncclscope hang`` says. ``hang`` is True, False, or None if it can't be told."""

    __slots__ = ()
    schema: str
    hang: bool | None
    verdict: str
    certain: bool
    sentence: str
    details: list[str]
    next: str
    blamed: list[dict[str, Any]]
    call: dict[str, Any] | None
    cause: dict[str, Any] | None
    net_ops: list[dict[str, Any]]
    waited_s: float | None
    after_s: float | None
    as_of_ns: int | None
    communicators: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"<ncclscope.Hang {self.verdict}: {self.sentence}>"


class Diff(_Answer):
    """What ``ncclscope diff`` says of two runs; nested fields are plain dicts and lists, as in its JSON."""

    __slots__ = ()
    schema: str
    summary: str
    run: list[dict[str, Any]]
    new_findings: list[dict[str, Any]]
    gone_findings: list[dict[str, Any]]
    verdict: dict[str, Any]
    recommendations: list[dict[str, Any]]
    environment: list[dict[str, Any]]
    operations: list[dict[str, Any]]
    notes: list[str]

    def __repr__(self) -> str:
        return f"<ncclscope.Diff: {self.summary}>"


def _native_of(source: Source) -> _native.Capture:
    return (source if isinstance(source, Capture) else open_capture(source))._native


def hang(capture: Source, *, after: float | None = None) -> Hang:
    """Says whether a job hangs, running or dead, and where.

    ``after`` is from how many seconds on a wait is a hang; without it the job's own pauses decide.

        >>> answer = ncclscope.hang("run-0412")
        >>> if answer.hang:
        ...     print(answer.sentence)
    """
    source = _native_of(capture).hang(after)
    answer = Hang(json.loads(source.json))
    answer._source = source
    return answer


def diff(a: Source, b: Source, *, fail_on: Iterable[str] = ()) -> Diff:
    """Compares two runs; the first is what the second is measured by.

    ``fail_on`` are criteria of ``ncclscope diff --fail-on``; the ``verdict`` says which of them are the case.
    Raises ``ValueError`` for one that does not exist.

        >>> changes = ncclscope.diff("before", "after", fail_on=["slower=5%"])
        >>> assert changes.verdict["exit_status"] == 0, str(changes)
    """
    source = _native_of(a).diff(_native_of(b), list(fail_on))
    answer = Diff(json.loads(source.json))
    answer._source = source
    return answer


def export(
    capture: Source,
    to: Literal["perfetto", "chrome", "parquet", "csv", "jsonl"],
    output: str | os.PathLike[str],
    *,
    table: Literal[
        "calls",
        "operations",
        "arrivals",
        "steps",
        "ranks",
        "findings",
        "graphs",
        "account",
        "graph_launches",
        "kernels",
        "samples",
        "switches",
        "mpi",
        "events",
    ]
    | None = None,
    events: bool = False,
    force: bool = False,
    partition: Sequence[Literal["communicator", "host", "day", "hour"]] = (),
) -> int:
    """Writes a capture in another format into the file ``output``, and returns how many rows or slices there
    were.

    Parquet writes one file if the name ends in ``.parquet``, and else needs a new or an empty folder.
    ``table`` chooses the table for ``parquet`` and ``csv`` (calls by default) and ``jsonl`` (every callback
    by default). ``partition`` divides Parquet in a folder by these columns, as ``host=NAME/day=2026-11-27/``
    (calls are divided by communicator without it). ``events`` draws every event of NCCL with ``perfetto`` and
    ``chrome``, if the capture was made in mode ``callbacks``. Warns of calls that are left out, for example
    those in CUDA graphs. Raises ``FileExistsError`` if the file is there and ``force`` is not given,
    ``ValueError`` for what can't be written so, and ``OSError`` if the file can't be.

        >>> ncclscope.export("run-0412", "perfetto", "run-0412.pftrace")
    """
    native = _native_of(capture)
    written = native.export(to, os.fspath(output), (table, list(partition)), events, force)
    is_calls = table == "calls" or (table is None and to != "jsonl")
    if is_calls and not events:
        for said in native.left_out():
            warnings.warn(said, stacklevel=2)
    return written
