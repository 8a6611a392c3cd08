"""The part in Rust, ``crates/python``."""

from __future__ import annotations

from os import PathLike
from typing import final

import pandas
import polars
import pyarrow

VERSION: str

@final
class Table:
    """A table of a capture, with the columns and types of docs/reference/tables.md.

    :meth:`to_polars`, :meth:`to_pandas` and :meth:`to_arrow` make a frame of it. It also speaks the Arrow
    PyCapsule interface, so DuckDB's ``select * from t`` reads it, and so do ``polars.DataFrame(t)`` and the
    like. Rows are made while they are read, in batches; it can be read any number of times, and keeps its
    capture in memory.
    """

    def __len__(self) -> int: ...
    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""

    def select(self, names: list[str]) -> Table:
        """The table with these columns only, in this order; others are then never made.

        Raises ``KeyError`` for a name that it does not have.
        """

    def to_arrow(self) -> pyarrow.Table:
        """As a ``pyarrow.Table``. Needs pyarrow."""

    def to_polars(self) -> polars.DataFrame:
        """As a ``polars.DataFrame``. Needs polars."""

    def to_pandas(self) -> pandas.DataFrame:
        """As a ``pandas.DataFrame``. Needs pandas and pyarrow.

        Whole numbers stay whole where some are null: their columns are of pandas's types ``Int64`` and
        ``UInt64``. Times are whole numbers of ns.
        """

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Capture:
    def problems(self) -> list[str]: ...
    def nprocesses(self) -> int: ...
    def calls(self) -> Table: ...
    def operations(self) -> Table: ...
    def arrivals(self) -> Table: ...
    def steps(self) -> Table: ...
    def ranks(self) -> Table: ...
    def findings(self) -> Table: ...
    def account(self) -> Table: ...
    def events(self) -> Table: ...
    def graphs(self) -> Table: ...
    def graph_launches(self) -> Table: ...
    def samples(self) -> Table: ...
    def switches(self) -> Table: ...
    def mpi(self) -> Table: ...
    def kernels(self) -> Table: ...
    def no_kernels_because(self) -> str | None: ...
    def report(self, offsets: str | PathLike[str] | None, ceilings: list[str]) -> Report: ...
    def hang(self, after: float | None) -> Answer: ...
    def diff(self, other: Capture, fail_on: list[str]) -> Answer: ...
    def export(
        self,
        to: str,
        output: str,
        table: tuple[str | None, list[str]],
        events: bool,
        force: bool,
    ) -> int: ...
    def left_out(self) -> list[str]: ...

@final
class Report:
    def json(self) -> str: ...
    def text(self, all: bool, explain: bool) -> str: ...
    def svg(self, dark: bool) -> str: ...
    def png(self, dark: bool) -> bytes | None: ...

@final
class Answer:
    json: str
    text: str
    all: str

def open(
    path: str | PathLike[str],
    attempt: int | None = None,
    *,
    steps: str | None = None,
    last_s: float | None = None,
    phase: str | None = None,
) -> Capture: ...
