"""The HTML report in a browser: it opens from a file, without a network, sorts, filters and draws."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, job, run

EVIL = "</script><img src=x onerror=\"document.title='owned'\">"
OPERATIONS = 'table[data-rows="operations"] >> nth=0'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no browser: chromium is not installed and could not be (Debian's package chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Writes the report on a capture and opens it; at the end it must have asked for nothing and complained
    of nothing.
    """
    asked: list[str] = []
    complaints: list[str] = []
    contexts = []
    file = tmp_path / "report.html"

    def shown(capture: Path, unfolds: bool = True, **context: Any) -> Any:
        run("ncclscope", "report", capture, "--html", file)
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}))
        page = contexts[-1].new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri())
        if unfolds and context.get("java_script_enabled", True):
            unfold(page)
        return page

    yield shown
    for context in contexts:
        context.close()
    assert asked == [file.as_uri()] * len(contexts)
    assert complaints == []


def unfold(page: Any) -> None:
    """Opens all folded sections."""
    page.evaluate("() => document.querySelectorAll('details.fold').forEach((fold) => (fold.open = true))")


def report_on(capture: Path) -> Any:
    return json.loads(run("ncclscope", "report", capture, "--json"))


def column(page: Any, table: str, head: str) -> list[str]:
    """The cells of the rows that are seen."""
    texts: list[str] = page.locator(table).evaluate(
        """(table, head) => {
            const cells = [...table.tHead.rows[0].cells];
            const heads = cells.map((cell) => cell.firstElementChild.firstChild.textContent);
            const rows = [...table.tBodies[0].rows].filter((row) => row.checkVisibility());
            return rows.map((row) => row.cells[heads.indexOf(head)].textContent);
        }""",
        head,
    )
    return texts


def sort_by(page: Any, table: str, head: str) -> str | None:
    """Sorts by a column, and returns in which direction it says to be sorted."""
    button = page.locator(table).get_by_role("button", name=head).first
    button.focus()
    page.keyboard.press("Enter")
    direction: str | None = button.locator("xpath=..").get_attribute("aria-sort")
    assert page.locator(f"{table} >> th[aria-sort]").count() == 1
    return direction


@pytest.mark.parametrize("name", ["ddp8_two_hosts", "mix_230", "flood_228", "killed_228", "zero_cta_232"])
def test_it_opens_and_draws(name: str, show: Callable[..., Any]) -> None:
    page = show(job(name))
    report = report_on(job(name))
    # A figure and its unit are on one line.
    assert page.locator(".lead").text_content().replace("\u00a0", " ") == report["verdict"]
    drawn = page.locator("#by-size svg .dot").count() - page.locator("#by-size .legend .dot").count()
    figure = "time_us" if any(o["time_us"] for o in report["operations"]) else "host_us"
    assert drawn == sum(1 for o in report["operations"] if o["bytes"] and o[figure])
    assert page.locator("#spread svg .bar").count() > 0
    # Marks and bars are within the drawing.
    for inner, outer in [
        ("#by-size > div > svg .dot", "#by-size > div > svg"),
        ("#spread .bar", "#spread svg"),
    ]:
        frame = page.locator(outer).bounding_box()
        for box in page.locator(inner).evaluate_all(
            "(all) => all.map((e) => e.getBoundingClientRect().toJSON())"
        ):
            at = page.evaluate("() => scrollY")
            assert frame["x"] <= box["left"] and box["right"] <= frame["x"] + frame["width"]
            assert (
                frame["y"] <= box["top"] + at + 1
                and box["bottom"] + at <= frame["y"] + frame["height"] + at + 1
            )


@pytest.mark.parametrize("name", ["slow_gpu", "fsdp2_slow_gpu", "slow_plain", "ddp8_late_host"])
def test_the_answer_and_its_picture_come_first_and_the_rest_is_folded(
    name: str, show: Callable[..., Any]
) -> None:
    page = show(job(name), unfolds=False, viewport={"width": 1440, "height": 900})
    cards = page.locator(".tiles dt").all_text_contents()
    report = report_on(job(name))
    if report["findings"]:
        assert cards[:4] == ["Lost", "Step", "Who", "Cause"]
        lost = page.locator("h1.lead").get_attribute("title")
        assert lost.endswith(" GPU-hours lost") and report["findings"][0]["lost_gpu_hours"] > 0
    picture = page.locator(".first-picture .wide svg")
    assert picture.is_visible() and not page.locator(".first-picture .narrow").is_visible()
    assert picture.bounding_box()["y"] < 500
    assert page.evaluate("() => document.documentElement.scrollHeight") <= 3500
    assert page.locator("details.fold[open]").count() == 0
    # Each fold says its result, and a link into one opens it.
    assert all(page.locator("details.fold > summary span").all_text_contents())
    page.evaluate("() => (location.hash = 'steps')")
    page.wait_for_selector("#steps[open]")
    page.get_by_role("link", name="Open this step in the viewer").click()
    page.wait_for_selector("#lanes[open]")
    page.wait_for_function("() => document.querySelector('#viewer canvas').dataset.place")
    assert int(page.locator("#viewer canvas").get_attribute("data-calls")) > 0
    # On a phone, the picture is the narrow one, and nothing is wider than the screen.
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.locator(".first-picture .narrow svg").is_visible() and not picture.is_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 375


def test_tables_sort_by_what_figures_are(show: Callable[..., Any]) -> None:
    page = show(job("mix_230"))
    timed = [o for o in report_on(job("mix_230"))["operations"] if o["time_us"] and o["calls"] > o["warmup"]]
    known = sorted((o["busbw_gb_per_s"] for o in timed if o["busbw_gb_per_s"] is not None), reverse=True)
    assert len(known) <= len(timed)

    def figures(head: str) -> list[float | None]:
        return [None if text == "-" else float(text) for text in column(page, OPERATIONS, head)]

    assert sort_by(page, OPERATIONS, "busbw GB/s") == "descending"
    found = figures("busbw")
    # What is missing stands last, whatever the direction.
    assert found[: len(known)] == pytest.approx(known, rel=0.01)
    assert set(found[len(known) :]) <= {None}
    assert sort_by(page, OPERATIONS, "busbw GB/s") == "ascending"
    found = figures("busbw")
    assert found[0] == pytest.approx(known[-1], rel=0.01)
    assert (found[-1] is None) == (len(known) < len(timed))

    # Sizes sort by bytes, not by how they are written.
    sort_by(page, OPERATIONS, "bytes")
    sizes = column(page, OPERATIONS, "bytes")
    unit = {"B": 1, "KiB": 1024, "MiB": 1024**2}
    numbers = [int(text.split()[0]) * unit[text.split()[1]] for text in sizes]
    assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) > 3
    assert sort_by(page, OPERATIONS, "function") == "ascending"
    functions = column(page, OPERATIONS, "function")
    assert functions == sorted(functions)


def test_a_filter_leaves_the_rows_with_its_words(show: Callable[..., Any]) -> None:
    page = show(job("mix_230"))
    before = column(page, OPERATIONS, "function")
    box = page.get_by_role("searchbox", name="Operations by GPU time")
    box.fill("allred 8095")
    found = column(page, OPERATIONS, "function")
    assert found == ["AllReduce"] * len(found) and 0 < len(found) < len(before)
    assert set(column(page, OPERATIONS, "comm")) == {"8095"}
    assert (
        page.locator("#operations .filter output").first.text_content()
        == f"{len(found)} of {len(before)} rows"
    )
    # Sorting keeps it so.
    sort_by(page, OPERATIONS, "p50")
    assert len(column(page, OPERATIONS, "function")) == len(found)
    box.fill("")
    assert sorted(column(page, OPERATIONS, "function")) == sorted(before)


def test_the_plots_answer(show: Callable[..., Any]) -> None:
    page = show(job("ddp8_two_hosts"))
    operations = report_on(job("ddp8_two_hosts"))["operations"]
    detail = page.locator("#detail h3")
    first = detail.text_content()
    assert "AllReduce" in first and "3.91 MiB · float32" in first

    # A row picks, by keyboard too.
    row = page.locator(f"{OPERATIONS} >> tr[data-i]").nth(2)
    row.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert detail.text_content().startswith("Broadcast · 327 KiB")
    assert "picked" in row.get_attribute("class")
    shown = page.locator("#spread .hint").text_content()
    assert shown.startswith(f"{operations[2]['time_us']['n']} calls")

    # A mark tells its row, and picks it.
    mark = page.locator("#by-size > div > svg .dot").first
    mark.hover(force=True)
    tip = page.locator("#by-size .tip")
    assert "p50" in tip.text_content() and "busbw" in tip.text_content()
    told = tip.locator("b").text_content()
    mark.click(force=True)
    assert detail.text_content() == told
    page.locator("#by-size > div > svg").focus()
    page.keyboard.press("ArrowRight")
    assert detail.text_content() != told

    # The bars are all durations that the chosen figure has.
    page.get_by_label("Figure of the operation").select_option("shortest")
    assert page.locator("#spread .hint").text_content().split()[1].startswith("operations")
    page.get_by_label("Figure by size").select_option("busbw")
    sizes = {o["bytes"] for o in operations if o["busbw_gb_per_s"] and o["bytes"]}
    assert page.locator("#by-size > div > svg .dot").count() >= len(sizes)
    page.get_by_label("Functions by size").select_option("Broadcast")
    broadcasts = [o for o in operations if o["function"] == "Broadcast" and o["busbw_gb_per_s"]]
    assert page.locator("#by-size > div > svg .dot").count() == len(broadcasts)


def test_a_name_of_markup_is_shown_as_text(play: Callable[..., Path], show: Callable[..., Any]) -> None:
    name = EVIL.replace('"', "`")
    capture = play(
        f'ranks 2\ncomm evil name "{name}"\nall_reduce 1KiB x5 comm=evil\n',
        NCCLSCOPE_TIMING="stamps",
        NCCL_ALGO='<b onclick="x">RING</b>',
    )
    page = show(capture)
    assert name in page.locator("#communicators").inner_text()
    assert '<b onclick="x">RING</b>' in page.locator("#job").inner_text()
    assert page.locator("img, #job b").count() == 0
    assert page.title() != "owned"


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen(width: int, scheme: str, show: Callable[..., Any]) -> None:
    page = show(job("mix_230"), viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    red = int(page.evaluate("() => getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"))
    assert (red < 64) == (scheme == "dark")
    # The plots follow the width.
    page.set_viewport_size({"width": 700, "height": 800})
    page.wait_for_function("() => document.querySelector('#spread svg').viewBox.baseVal.width > 500")


@pytest.mark.parametrize("width", [375, 1440])
def test_the_start_of_a_process_unfolds_down_to_its_parts(width: int, show: Callable[..., Any]) -> None:
    page = show(job("everything_228"), viewport={"width": width, "height": 800})
    tree = page.locator("#start-up .tree")
    lines = tree.locator(".leaf, summary")
    folded = tree.locator("details:not([open])")
    assert folded.count() > 0
    seen = lines.filter(visible=True).count()
    # With the keyboard, as any fold.
    folded.first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert lines.filter(visible=True).count() > seen
    page.evaluate("() => document.querySelectorAll('.tree details').forEach((part) => (part.open = true))")
    # Figures of all depths stand below each other, and no name runs into them.
    boxes = lines.evaluate_all(
        """(lines) => lines.map((line) => [...line.querySelectorAll(":scope > span")].map((cell) => {
            const box = cell.getBoundingClientRect();
            return [Math.round(box.left), Math.round(box.right), cell.scrollWidth <= cell.clientWidth + 1];
        }))"""
    )
    assert len({(time[1], share[1]) for _, time, share in boxes}) == 1
    assert all(name[1] <= time[0] and name[2] for name, time, _ in boxes)
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    # On paper, all of it is there.
    page.evaluate("() => document.querySelectorAll('.tree details').forEach((part) => (part.open = false))")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert lines.filter(visible=True).count() == lines.count()


def test_it_reads_without_scripts_and_on_paper(show: Callable[..., Any]) -> None:
    page = show(job("ddp8_two_hosts"), java_script_enabled=False)
    assert page.locator(f"{OPERATIONS} >> tbody tr").count() == 8
    page.locator("#operations > summary").click()
    assert page.get_by_text("Plots, sorting and filters need JavaScript").is_visible()
    assert not page.locator("#plots").is_visible()
    page = show(job("ddp8_two_hosts"))
    assert not page.get_by_text("Plots, sorting and filters need JavaScript").is_visible()
    page.emulate_media(media="print")
    assert page.locator("#by-size svg").first.is_visible()
    assert len(page.pdf()) > 10_000
