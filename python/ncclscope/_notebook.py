"""What notebooks show of a report: the first picture, what to do, and the operations if opened.

The picture begins with the verdict. It is the same that ``ncclscope report --svg`` writes.

Rule: everything that came from the job (names, hosts, commands) is escaped, and nothing is loaded from
elsewhere.
"""

from __future__ import annotations

import html

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .report import Finding, Operation, Report

ROWS = 30
"""As many operations, notes and problems are shown."""


def page(report: Report) -> str:
    """The display of a report."""
    done = report.completeness
    at_least = "at least " if done.announced_is_lower_bound else ""
    parts = [
        report.svg(),
        *(f"<p>{html.escape(_told(finding))}</p>" for finding in report.findings),
        f"<p>{html.escape(report.job.capture)}: {done.recorded} of "
        f"{at_least}{done.announced + done.missing_at_least} "
        f"announced calls recorded, {done.timed} timed.",
        *(f" {count} lost: {html.escape(cause)}." for cause, count in done.lost.items()),
        "</p>",
        _table(report.operations),
    ]
    problems = [f"{p.file}, {p.place}: expected {p.expected}, found {p.found}" for p in report.problems]
    for title, lines in (("Notes", report.notes), ("Problems", problems)):
        if lines:
            items = "".join(f"<li>{html.escape(line)}</li>" for line in lines[:ROWS])
            parts.append(f"<details><summary>{title}</summary><ul>{items}</ul>{_more(len(lines))}</details>")
    return "".join(parts)


def _told(finding: Finding) -> str:
    """A finding with what to do; the verdict need not be said twice."""
    return finding.advice if finding.is_verdict else f"{finding.sentence} {finding.advice}"


def _more(count: int) -> str:
    return f"<p>{count - ROWS} more</p>" if count > ROWS else ""


def _table(operations: list[Operation]) -> str:
    def cell(value: object) -> str:
        if isinstance(value, float):
            return f'<td style="text-align: right">{value:.1f}</td>'
        if isinstance(value, int):
            return f'<td style="text-align: right">{value}</td>'
        return f"<td>{'-' if value is None else html.escape(str(value))}</td>"

    names = ("function", "bytes", "datatype", "communicator", "algorithm", "protocol", "calls", "timed")
    figures = ("sum", "p50", "p95", "p99", "max")
    head = [*names, "time", *(f"{name}_us" for name in figures)]
    rows = []
    for operation in operations[:ROWS]:
        # Host time where no call has a GPU time, and it says so.
        time, source = operation.time_us, "gpu"
        if time is None:
            time, source = operation.host_us, "host"
        values = [getattr(operation, name) for name in names]
        values += ["-" if time is None else source, *(getattr(time, name, None) for name in figures)]
        rows.append(f"<tr>{''.join(map(cell, values))}</tr>")
    heads = "".join(f"<th>{name}</th>" for name in head)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    title = "Operations, largest total time first"
    return f"<details><summary>{title}</summary>{table}{_more(len(operations))}</details>"
