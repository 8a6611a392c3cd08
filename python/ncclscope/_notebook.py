"""What notebooks show of a report: the verdict, one picture, the findings, and the operations if opened.

The picture has a bar for each rank. With kernel windows it is what the rank's GPU did; without them, how much
of the rank's time was NCCL's and how much of that was waiting for other ranks.

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
BARS = 16
"""As many ranks are drawn: of more, those that wait least and most."""

# Dark enough for white pages and light enough for dark ones; told apart without red and green.
_COLOURS = {
    "computing": "#2f6fb7",
    "both at once": "#a9cbef",
    "exposed communication": "#12a08a",
    "in NCCL": "#12a08a",
    "waiting for other ranks": "#cc4309",
    "copies": "#8a78b8",
    "idle": "#b9b9b9",
    "not in NCCL": "#b9b9b9",
}


def page(report: Report) -> str:
    """The display of a report."""
    done = report.completeness
    at_least = "at least " if done.announced_is_lower_bound else ""
    parts = [
        f"<p><b>{html.escape(report.verdict)}</b></p>",
        picture(report),
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


def picture(report: Report) -> str:
    """A bar for each rank, as SVG; nothing for a report without times."""
    bars, title = _gpus(report)
    if not bars:
        bars, title = _times(report)
    if not bars:
        return ""
    left_out = len(bars) - BARS
    if left_out > 0:
        by_wait = sorted(range(len(bars)), key=lambda i: bars[i][1].get("waiting for other ranks", 0.0))
        shown = sorted(by_wait[: BARS // 2] + by_wait[-(BARS - BARS // 2) :])
        bars = [bars[i] for i in shown]
        title += f"; {left_out} ranks between those that wait least and most are left out"
    names = [name for name in _COLOURS if any(shares.get(name, 0.0) > 0 for _, shares in bars)]
    height, top, left, width = 18, 44, 90, 560
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="680" '
        f'height="{top + height * len(bars) + 6}" '
        'font-family="sans-serif" font-size="12" fill="currentColor">',
        f"<title>{html.escape(title)}</title>",
        f'<text x="0" y="12">{html.escape(title)}</text>',
    ]
    x = 0.0
    for name in names:
        parts.append(f'<rect x="{x:.0f}" y="22" width="10" height="10" fill="{_COLOURS[name]}"/>')
        parts.append(f'<text x="{x + 14:.0f}" y="31">{name}</text>')
        x += 26 + 6.6 * len(name)
    for row, (label, shares) in enumerate(bars):
        y = top + height * row
        parts.append(f'<text x="0" y="{y + 12}">{html.escape(label)}</text>')
        at = 0.0
        for name in names:
            share = min(max(shares.get(name, 0.0), 0.0), 1 - at)
            if share > 0:
                parts.append(
                    f'<rect x="{left + at * width:.1f}" y="{y}" '
                    f'width="{share * width:.1f}" height="{height - 4}" '
                    f'fill="{_COLOURS[name]}"><title>{html.escape(label)}: {name} {share:.1%}</title></rect>'
                )
            at += share
    return "".join([*parts, "</svg>"])


def _label(rank: int | None, device: int | None, several: bool) -> str:
    name = "rank ?" if rank is None else f"rank {rank}"
    return f"{name}/{device}" if several and device is not None else name


def _gpus(report: Report) -> tuple[list[tuple[str, dict[str, float]]], str]:
    """What each GPU did, from kernel windows: shares of the time in them."""
    rows = report.streams.ranks if report.streams is not None else []
    ranks = [row.rank for row in rows]
    bars = [
        (
            _label(row.rank, row.device, ranks.count(row.rank) > 1),
            {
                "computing": row.computing.share,
                "both at once": row.beside.share,
                "exposed communication": row.exposed.share - row.exposed_waiting.share,
                "waiting for other ranks": row.exposed_waiting.share,
                "copies": row.copies.share,
                "idle": row.idle.share,
            },
        )
        for row in rows
    ]
    return bars, "What the GPUs did, in kernel windows"


def _times(report: Report) -> tuple[list[tuple[str, dict[str, float]]], str]:
    """How much of each rank's time was NCCL's, and how much of that was waiting."""
    arrivals = report.arrivals.ranks if report.arrivals is not None else []
    waits = {(row.host, row.pid, row.device): row.wait_rank_us for row in arrivals}
    ranks = [row.rank for row in report.ranks.rows]
    bars = []
    for row in report.ranks.rows:
        if row.nccl_us is None or not row.wall_us:
            continue
        waiting = min(waits.get((row.host, row.pid, row.device), 0.0), row.nccl_us)
        shares = {
            "waiting for other ranks": waiting / row.wall_us,
            "in NCCL": (row.nccl_us - waiting) / row.wall_us,
        }
        shares["not in NCCL"] = max(1 - row.nccl_us / row.wall_us, 0.0)
        bars.append((_label(row.rank, row.device, ranks.count(row.rank) > 1), shares))
    return bars, "Each rank's time, from its first call to its last"


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
