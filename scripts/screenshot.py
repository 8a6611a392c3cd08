#!/usr/bin/env python3
"""Writes docs/screenshot.svg: the beginning of a report on a recorded job, as a terminal shows it.

    scripts/screenshot.py target/debug/ncclscope

The picture is text, so it is sharp at any size, and a test compares it with what the command prints.
"""

from __future__ import annotations

import html
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOB = "data/slow_host"
PICTURE = ROOT / "docs/screenshot.svg"
# Of the font's size: what a letter of a monospaced font takes.
SIZE, ADVANCE, LINE, MARGIN = 14, 8.43, 20, 18


def shown(ncclscope: Path) -> list[str]:
    """The lines of the report down to the first section about the recording: verdict, figures, evidence,
    advice.
    """
    command = [ncclscope.resolve(), "report", JOB]
    report = subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True
    ).stdout.splitlines()
    end = next(i for i, line in enumerate(report) if line.startswith(("Job ", "Capture ")))
    return "\n".join(report[:end]).rstrip().split("\n")


def picture(lines: list[str]) -> str:
    """These lines on a dark screen, under the command that printed them."""
    width = round(max(map(len, lines)) * ADVANCE + 2 * MARGIN)
    height = (len(lines) + 2) * LINE + 2 * MARGIN - 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="{SIZE}" '
        "font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\">",
        f"<title>ncclscope report {JOB}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#14181f"/>',
    ]

    def line(number: int, text: str, style: str) -> None:
        y = MARGIN + SIZE + LINE * number
        # Told how long it is, a line has the same width in every font.
        length = f'textLength="{len(text) * ADVANCE:.0f}" lengthAdjust="spacingAndGlyphs" '
        parts.append(
            f'<text x="{MARGIN}" y="{y}" xml:space="preserve" {length}{style}>{html.escape(text)}</text>'
        )

    line(0, f"$ ncclscope report {JOB}", 'fill="#8b98a9"')
    verdict, before = True, ""
    for number, text in enumerate(lines, start=2):
        # The figures follow the verdict; a heading follows an empty line, at the margin.
        verdict = verdict and bool(text) and " · " not in text
        style = 'fill="#ffffff" font-weight="bold"' if verdict else 'fill="#c9d4e0"'
        if not verdict and not before and not text.startswith(" "):
            style = 'fill="#e0a030" font-weight="bold"'
        if text:
            line(number, text, style)
        before = text
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(shown(Path(sys.argv[1]))))
