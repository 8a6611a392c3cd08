"""A report as objects.

:class:`Report` and what it holds have the fields of ``ncclscope report --json`` as attributes, under the same
names and in the same units. Their classes are made from the types of Rust, as
``crates/render/schema/report-1.json`` is.

Rule: what is not known is None, as it is null there. Nothing is computed here.
"""

from __future__ import annotations

import json

from ._record import Record as Record
from ._records import *
from ._records import ReportFields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import _native


class Report(ReportFields):
    """What ``ncclscope report`` says. ``str()`` is its text; notebooks show the verdict and a picture."""

    __slots__ = ("_source",)
    _source: _native.Report

    @classmethod
    def _of(cls, native: _native.Report) -> Report:
        report = cls(json.loads(native.json()))
        report._source = native
        return report

    def text(self, *, all: bool = False, explain: bool = False) -> str:
        """As ``ncclscope report`` prints it; ``all`` and ``explain`` are its options."""
        return self._source.text(all, explain)

    def svg(self, *, dark: bool = False) -> str:
        """The first picture: the answer, where the time of each rank went, and a typical step.

        ``Path("first.svg").write_text(report.svg())`` is ``ncclscope report --svg first.svg``.
        """
        return self._source.svg(dark)

    def png(self, *, dark: bool = False) -> bytes:
        """The same picture as PNG, 1200 x 630, for what shows no SVG.

        ``Path("first.png").write_bytes(report.png())`` is ``ncclscope report --png first.png``.
        """
        picture = self._source.png(dark)
        if picture is None:
            raise RuntimeError("the picture can't be drawn")
        return picture

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        done = self.completeness
        at_least = "at least " if done.announced_is_lower_bound else ""
        announced = done.announced + done.missing_at_least
        return (
            f"<ncclscope.Report on {self.job.capture!r}: {done.recorded} of {at_least}{announced} "
            f"announced calls recorded, {done.timed} timed, {len(self.operations)} operations>"
        )

    def _repr_html_(self) -> str:
        from .._notebook import page

        return page(self)
