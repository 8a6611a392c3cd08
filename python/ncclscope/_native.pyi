"""The part in Rust, ``crates/python``."""

from __future__ import annotations

from os import PathLike
from typing import final

VERSION: str
REPORT_SCHEMA: str

@final
class Table:
    """A table of a capture, with the columns and types of docs/reference/tables.md.

    It speaks the Arrow PyCapsule interface, so ``pyarrow.table(t)``, ``polars.DataFrame(t)``,
    ``pandas.DataFrame.from_arrow(t)`` and DuckDB's ``select * from t`` read it. Rows are made while they are read, in
    batches; it can be read any number of times, and keeps its capture in memory.
    """

    def __len__(self) -> int: ...
    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""

    def select(self, names: list[str]) -> Table:
        """The table with these columns only, in this order; others are then never made.

        Raises ``KeyError`` for a name that it does not have.
        """

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Capture:
    def problems(self) -> list[str]: ...
    def nprocesses(self) -> int: ...
    def calls(self) -> Table: ...
    def operations(self) -> Table: ...
    def graphs(self) -> Table: ...
    def graph_launches(self) -> Table: ...
    def kernels(self) -> Table: ...
    def no_kernels_because(self) -> str | None: ...
    def report(self, offsets: str | PathLike[str] | None) -> Report: ...

@final
class Report:
    def json(self) -> str: ...
    def text(self, all: bool, explain: bool) -> str: ...

def open(path: str | PathLike[str]) -> Capture: ...
