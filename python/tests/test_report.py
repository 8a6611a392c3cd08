"""The report as objects."""

from __future__ import annotations

import html
import json
import re
import struct
import typing
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import job, run

import ncclscope
from ncclscope.report import Report


@pytest.mark.parametrize("name", ["ddp4", "mix_two_hosts_228", "killed_228"])
def test_it_is_the_command_s_report(name: str) -> None:
    report = ncclscope.open(job(name)).report()
    assert report.to_dict() == json.loads(run("ncclscope", "report", job(name), "--json"))
    assert str(report) == run("ncclscope", "report", job(name))
    assert report.text(all=True, explain=True) == run("ncclscope", "report", job(name), "--all", "--explain")


def test_fields_are_attributes_all_the_way() -> None:
    report = ncclscope.open(job("mix_two_hosts_228")).report()
    plain = report.to_dict()
    first = plain["operations"][0]
    assert report.operations[0].time_us is not None
    assert report.operations[0].time_us.p50 == first["time_us"]["p50"] > 0
    assert report.network[0].wait_us.send_gpu == plain["network"][0]["wait_us"]["send_gpu"]
    assert report.communicators[0].members[-1].rank == plain["communicators"][0]["members"][-1]["rank"]
    # Causes are keys, not names that a report always has.
    assert report.completeness.untimed == plain["completeness"]["untimed"]
    assert list(report.job) == list(plain["job"])
    assert "completeness" in dir(report)
    assert report.job == ncclscope.open(job("mix_two_hosts_228")).report().job
    assert repr(report.operations[0].time_us).startswith("Statistics(n=")


def test_a_wrong_field_is_answered_with_the_right_ones() -> None:
    report = ncclscope.open(job("ddp4")).report()
    with pytest.raises(AttributeError, match="Report has no field 'operation'; it has schema, .* operations"):
        report.operation  # type: ignore[attr-defined]


def test_what_is_not_known_is_none() -> None:
    report = ncclscope.open(job("graph_host_228")).report()
    assert report.completeness.timed == 0
    assert all(operation.time_us is None and operation.time_source is None for operation in report.operations)


def test_offsets_of_clocks_may_be_given(play: Callable[..., Path], tmp_path: Path) -> None:
    script = (
        "ranks 2\nhosts 2\nhost_clock 1 3s\nlead 200ms\n"
        "repeat 40 { all_reduce 1MiB time=1ms ; sleep 5ms }\nsync\n"
    )
    capture = ncclscope.open(play(script, NCCLSCOPE_TIMING="stamps"))
    found, given = capture.report().clocks, capture.report(offsets="within=1us").clocks
    assert found is not None and given is not None
    assert given != found and given.hosts[-1].offset_us == 0.0
    offsets = tmp_path / "offsets.csv"
    offsets.write_text(
        "host,offset_ns,error_ns\n" + "".join(f"fake-host-{n},{3 * n}000000000,1000\n" for n in (0, 1))
    )
    exact = capture.report(offsets=offsets)
    assert exact.clocks is not None and [h.offset_us for h in exact.clocks.hosts] == [3e6]
    assert exact.text() != capture.report().text()
    for wrong, hint in (
        ("within=soon", "units"),
        (tmp_path / "none.csv", "name a file"),
        (__file__, "docs/concepts/clocks.md"),
    ):
        with pytest.raises(ncclscope.CaptureError, match=hint):
            capture.report(offsets=wrong)


def test_notebooks_show_the_verdict_and_one_picture(play: Callable[..., Path]) -> None:
    for name, bars in (("mix_228", 4), ("slow_host", 2), ("ddp4", 4), ("ddp_slow_host", 2)):
        capture = ncclscope.open(job(name))
        report = capture.report()
        shown = report._repr_html_()
        assert shown == capture._repr_html_()
        assert shown.startswith(report.svg())
        assert f">{report.verdict}</title>" in html.unescape(shown)
        for dark in (False, True):
            svg = ElementTree.fromstring(report.svg(dark=dark))
            parts = [title.text or "" for title in svg.iter("{http://www.w3.org/2000/svg}title")]
            of = {part.split(": ")[0] for part in parts if re.match(r"rank \d+: ", part)}
            assert len(of) == bars, (name, parts)
            # As pixels, it has the same size.
            png = report.png(dark=dark)
            assert png.startswith(b"\x89PNG\r\n\x1a\n")
            assert struct.unpack(">II", png[16:24]) == (1200, 630)
        assert (
            f"{report.completeness.recorded} of {report.completeness.announced} announced calls recorded"
            in shown
        )
        assert all(html.escape(finding.advice) in shown for finding in report.findings)
    # The rank that the others wait for waits least itself.
    late = ncclscope.open(job("slow_host")).report().svg()
    waits = {rank: float(share) for rank, share in re.findall(r"(rank \d): waiting ([\d.]+) %", late)}
    assert waits.get("rank 0", 0.0) < waits["rank 1"]
    report = ncclscope.open(job("mix_228")).report()
    shown = report._repr_html_()
    rows = re.findall(r"<tr>(.*?)</tr>", shown)
    assert len(rows) == 1 + len(report.operations)
    first = report.operations[0]
    assert first.time_us is not None and first.time_us.p99 is not None
    assert f"<td>{first.function}</td>" in rows[1] and f">{first.time_us.p99:.1f}</td>" in rows[1]
    # What a job calls its communicators and files is text, not markup.
    played = play("ranks 2\nall_reduce 1KiB\n")
    renamed = played.with_name("<b>&")
    played.rename(renamed)
    shown = ncclscope.open(renamed).report()._repr_html_()
    assert "&lt;b&gt;&amp;" in shown and "<b>&" not in shown


def test_a_part_of_a_run_is_looked_at_alone() -> None:
    whole = ncclscope.open(job("ddp_late_host"))
    part = ncclscope.open(job("ddp_late_host"), steps=range(100, 400))
    assert part.report().job.part == "steps 100 to 399 of 504"
    assert whole.report().job.part is None
    assert 0.55 < len(part.calls) / len(whole.calls) < 0.65
    assert part.report().findings[0].rank == whole.report().findings[0].rank
    as_text = ncclscope.open(job("ddp_late_host"), steps="100..400")
    assert len(as_text.calls) == len(part.calls)
    last = ncclscope.open(job("ddp_late_host"), last_s=2)
    assert 0 < len(last.calls) < len(whole.calls)
    wrong: list[dict[str, typing.Any]] = [
        {"steps": range(0, 9, 2)},
        {"steps": "x"},
        {"last_s": 0},
        {"last_s": 1, "phase": "a"},
    ]
    for part_of in wrong:
        with pytest.raises(ValueError, match="expected"):
            ncclscope.open(job("ddp_late_host"), **part_of)
    with pytest.raises(ncclscope.CaptureError, match="expected a phase `eval`, found none"):
        ncclscope.open(job("ddp_late_host"), phase="eval")
