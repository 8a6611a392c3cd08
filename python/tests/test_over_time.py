"""The run over time in the HTML report: its values are those of the calls, and a span filters tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import job, run
from test_html import OPERATIONS, browser, report_on, show

__all__ = ["browser", "show"]

FIGURE = "#over-time div > svg"
TABLES = ["operations", "ranks.rows", "functions", "communicators"]


def chosen(page: Any, preset: str) -> None:
    page.locator(f'#over-time button[data-preset="{preset}"]').click()


def told(page: Any) -> list[str]:
    """What is said of the bucket that is pointed at."""
    lines: list[str] = page.locator("#over-time .tip > *").all_text_contents()
    return lines


def go(page: Any, bucket: int) -> list[str]:
    """Goes to a bucket by keyboard."""
    page.locator(FIGURE).focus()
    page.keyboard.press("Home")
    for _ in range(bucket // 10):
        page.keyboard.press("PageDown")
    for _ in range(bucket % 10):
        page.keyboard.press("ArrowRight")
    return told(page)


def figures(text: str) -> list[float]:
    """The figures of a line, without prefixes of units."""
    by = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}
    found = re.findall(r"([\d.e+-]+) ([kMG]?)(?:B/s|/s|%|)", text.split(": ")[1])
    return [float(number) * by[prefix] for number, prefix in found]


def drag(page: Any, from_bucket: int, to_bucket: int, buckets: int) -> None:
    """Drags from the middle of one bucket to the middle of another."""
    # The mouse reaches what is on the screen.
    page.locator(FIGURE).scroll_into_view_if_needed()
    box = page.locator(FIGURE).bounding_box()
    wide = page.locator(FIGURE).evaluate("(svg) => svg.viewBox.baseVal.width")
    left, right = box["x"] + 4 * box["width"] / wide, box["x"] + (wide - 4) * box["width"] / wide

    def x(bucket: int) -> float:
        return float(left + (right - left) * (bucket + 0.5) / buckets)

    y = box["y"] + box["height"] / 2
    page.mouse.move(x(from_bucket), y)
    page.mouse.down()
    page.mouse.move(x(to_bucket), y, steps=4)
    page.mouse.up()


def shown(page: Any, table: str) -> list[int]:
    """The rows of a table of the report that are seen, by their index."""
    rows = page.locator(f'table[data-rows="{table}"] > tbody > tr')
    seen: list[int] = rows.evaluate_all(
        "(rows) => rows.filter((r) => r.checkVisibility()).map((r) => Number(r.dataset.i))"
    )
    return sorted(seen)


def test_hovered_values_are_those_of_the_parquet_export(show: Callable[..., Any], tmp_path: Path) -> None:
    name = "slow_host"
    run("ncclscope", "export", job(name), "--to", "parquet", "-o", tmp_path / "calls")
    calls = f"read_parquet('{tmp_path}/calls/*/*.parquet', hive_partitioning = true)"
    timeline = report_on(job(name))["timeline"]
    width = round(timeline["bucket_us"] * 1000)
    page = show(job(name))
    chosen(page, "collectives")
    compared = 0
    for bucket in (20, 40, 77, 120, 150):
        begin = timeline["begin_ns"] + bucket * width
        query = f"""select process, count(*) from {calls}
            where gpu_start_ns >= {begin} and gpu_start_ns < {begin + width} group by 1"""
        by_rank = dict(duckdb.execute(query).fetchall())
        counts = [by_rank.get(rank, 0) for rank in range(timeline["ranks"])]
        title, *lines = go(page, bucket)
        line = next(line for line in lines if line.startswith("Collectives of a rank"))
        rates = [n / (width / 1e9) for n in (sum(counts) / len(counts), min(counts), max(counts))]
        found = figures(line)
        assert found[0] == pytest.approx(rates[0], rel=0.01), title
        assert found[1:] in ([], [pytest.approx(rates[1], rel=0.01), pytest.approx(rates[2], rel=0.01)])
        compared += sum(counts)
        # The time in NCCL, of kernels that begin before the bucket too.
        chosen(page, "waiting")
        start, stop = "gpu_start_ns", "gpu_stop_ns"
        query = f"""select process, sum(least({stop}, {begin + width}) - greatest({start}, {begin}))
            from {calls}
            where {stop} > {begin} and {start} < {begin + width} group by 1"""
        by_rank = {rank: float(ns) for rank, ns in duckdb.execute(query).fetchall()}
        most = max(by_rank.values(), default=0.0) / width
        line = next(line for line in go(page, bucket)[1:] if line.startswith("In NCCL"))
        assert figures(line)[-1] == pytest.approx(100 * most, abs=0.6), title
        chosen(page, "collectives")
    assert compared > 5


def test_an_idle_span_leaves_no_rows(show: Callable[..., Any]) -> None:
    report = report_on(job("mix_two_hosts_228"))
    timeline = report["timeline"]
    calls, buckets = timeline["calls"]["sum"], timeline["buckets"]
    nccl = timeline["nccl"]["sum"]
    # The longest idle span.
    idle = max(
        (
            (a, b)
            for a in range(buckets)
            for b in range(a, buckets)
            if not any(calls[a : b + 1]) and not any(nccl[a : b + 1])
        ),
        key=lambda span: span[1] - span[0],
    )
    page = show(job("mix_two_hosts_228"))
    before = {table: shown(page, table) for table in TABLES}
    assert all(len(rows) > 0 for rows in before.values())
    drag(page, idle[0] + 1, idle[1] - 1, buckets)
    assert page.locator("#over-time .selected").text_content().split(": ")[1].startswith("0 calls")
    assert {table: shown(page, table) for table in TABLES} == {table: [] for table in TABLES}
    assert "0 of" in page.locator("#operations .span-note").first.text_content()
    assert page.get_by_text("it does not follow the span").first.is_visible()
    assert page.get_by_text("has calls in the span").count() == 1, "the plot by size follows"
    page.locator(FIGURE).focus()
    page.keyboard.press("Escape")
    assert {table: shown(page, table) for table in TABLES} == before
    assert not page.locator("#operations .span-note").first.is_visible()


def test_a_span_leaves_the_rows_with_calls_in_it(show: Callable[..., Any], tmp_path: Path) -> None:
    name = "ddp4"
    run("ncclscope", "export", job(name), "--to", "parquet", "-o", tmp_path / "calls")
    report = report_on(job(name))
    timeline = report["timeline"]
    buckets, width = timeline["buckets"], round(timeline["bucket_us"] * 1000)
    busy = [bucket for bucket, calls in enumerate(timeline["calls"]["sum"]) if calls > 0]
    page = show(job(name))

    def rows() -> set[tuple[str, int]]:
        operations = [report["operations"][i] for i in shown(page, "operations")]
        return {(operation["function"], operation["bytes"]) for operation in operations}

    before = rows()
    drag(page, busy[0], busy[0] + 3, buckets)
    begin = timeline["begin_ns"] + busy[0] * width
    found = duckdb.execute(
        f"""select distinct function, bytes
            from read_parquet('{tmp_path}/calls/*/*.parquet', hive_partitioning = true)
        where gpu_time_ns is not null and gpu_error_ns is not null
        and gpu_stop_ns >= {begin} and gpu_start_ns < {begin + 4 * width}"""
    ).fetchall()
    # First calls are in a table of their own.
    left = rows()
    assert left == set(found) & before and 0 < len(left) < len(before)
    assert (
        page.locator(f"{OPERATIONS} >> tfoot").count() == 0
        or not page.locator(f"{OPERATIONS} >> tfoot").is_visible()
    )
    # The same by keyboard.
    page.keyboard.press("Escape")
    go(page, busy[0])
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    assert rows() == left


def test_findings_steps_and_deaths_are_marked(show: Callable[..., Any]) -> None:
    page = show(job("slow_host"))
    report = report_on(job("slow_host"))
    pin = page.locator("#over-time .pin")
    assert pin.count() == 1
    pin.focus()
    assert report["findings"][0]["sentence"] in page.locator("#over-time .tip").text_content()
    assert page.locator("#over-time .step").count() == len(report["timeline"]["steps"]["begins_us"])
    page = show(job("killed_228"))
    assert page.locator("#over-time .death").count() == len(report_on(job("killed_228"))["deaths"]) == 1


@pytest.mark.parametrize(
    "name", ["slow_host", "ddp8_two_hosts", "killed_228", "graph_host_228", "decode_plain"]
)
def test_curves_are_within_the_drawing(name: str, show: Callable[..., Any]) -> None:
    page = show(job(name), viewport={"width": 375, "height": 800})
    presets = page.locator("#over-time button[data-preset]")
    assert presets.count() > 0
    for preset in presets.all():
        preset.click()
        frame = page.locator(FIGURE).evaluate("(e) => e.getBoundingClientRect().toJSON()")
        for box in page.locator("#over-time .curve > *").evaluate_all(
            "(all) => all.map((e) => e.getBoundingClientRect().toJSON())"
        ):
            assert frame["left"] - 1 <= box["left"] and box["right"] <= frame["right"] + 1
            assert frame["top"] - 1 <= box["top"] and box["bottom"] <= frame["bottom"] + 1
    assert page.evaluate("() => document.documentElement.scrollWidth") == 375


def test_power_above_nccl_and_what_a_span_has_of_it(show: Callable[..., Any]) -> None:
    name = "everything_228"
    page = show(job(name))
    report = report_on(job(name))
    timeline = report["timeline"]
    figure = page.locator("#over-time")
    own = figure.locator(".curve").count()
    # What is said of a span has the means of what is shown, and the energy of all GPUs.
    power = [watts for watts in timeline["sampled"]["power_w"]["mean"] if watts is not None]
    gpus, seconds = report["nodes"]["energy"]["gpus"], timeline["bucket_us"] / 1e6
    said = figure.locator(".selected").inner_text()
    joules = re.search(rf"([\d.]+) (k?)J by {gpus} GPUs", said)
    assert joules, said
    energy = float(joules[1]) * (1000 if joules[2] else 1)
    assert energy == pytest.approx(sum(power) * gpus * seconds, rel=0.01)
    assert "Power of a GPU" not in said
    figure.get_by_label("Add a curve above these").select_option("Power of a GPU")
    assert figure.locator(".curve").count() == own + 1
    assert figure.locator(".curve .title").first.text_content() == "Power of a GPU"
    watts = re.search(r"Power of a GPU ([\d.]+) W", figure.locator(".selected").inner_text())
    assert watts and float(watts[1]) == pytest.approx(sum(power) / len(power), rel=0.01)
    # It stays while another group is shown, and a pointer reads both.
    chosen(page, "collectives")
    assert any(line.startswith("Power of a GPU: ") for line in go(page, 90))
    drag(page, 60, 80, timeline["buckets"])
    of_span = re.search(r"Power of a GPU ([\d.]+) W", figure.locator(".selected").inner_text())
    some = [watts for watts in timeline["sampled"]["power_w"]["mean"][60:81] if watts is not None]
    assert of_span and float(of_span[1]) == pytest.approx(sum(some) / len(some), rel=0.01)
    # In one plot, all curves have one base.
    together = figure.get_by_role("button", name="In one plot")
    bases = """(all) => new Set(all.map((e) => e.getBoundingClientRect().bottom.toFixed(1))).size"""
    assert figure.locator(".curve .axis").evaluate_all(bases) > 1
    together.click()
    assert together.get_attribute("aria-pressed") == "true"
    assert figure.locator(".curve .axis").evaluate_all(bases) == 1
    page.get_by_role("button", name="\u2715 Power of a GPU").click()
    assert "Power of a GPU" not in figure.locator(".curve .title").all_text_contents()


@pytest.mark.parametrize("name", ["slow_host", "ddp_late_host", "graph_host_228"])
def test_shares_have_one_scale_that_a_thousandth_does_not_fill(name: str, show: Callable[..., Any]) -> None:
    page = show(job(name))
    timeline = report_on(job(name))["timeline"]
    names = {"nccl": "In NCCL", "waiting": "Waiting for the last rank", "transfer": "Transfer"}
    dark = [
        bool(timeline["untimed"]) and untimed > calls / 2
        for untimed, calls in zip(
            (timeline["untimed"] or timeline["calls"])["sum"], timeline["calls"]["sum"]
        )
    ]
    found = page.locator("#over-time .curve").evaluate_all(
        """(all) => Object.fromEntries(all.map((curve) => {
            const top = curve.querySelector(".band, .held").getBBox().y;
            const axis = curve.querySelector(".axis").getBBox().y;
            return [curve.querySelector(".title").textContent, axis - top];
        }))"""
    )
    ends = set()
    for field, title in names.items():
        if title not in found:
            continue
        most = max(v for v, is_dark in zip(timeline[field]["max"], dark) if not is_dark)
        if most > 0.001:
            ends.add(round(74 * most / found[title], 2))
    assert len(ends) == 1 and ends <= {0.1, 0.2, 0.5, 1.0}, (ends, found)
