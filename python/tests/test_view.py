"""The viewer in a browser: who is waited for, with the figures of the export, and without asking anybody
else.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import axe_playwright_python
import duckdb
import ncclscope
import pytest
from conftest import BIN, job, run
from test_html import browser, report_on, show

__all__ = ["browser", "show"]


@pytest.fixture
def serve(served: Callable[..., str]) -> Callable[[Path], str]:
    """Starts the viewer on a capture, and returns its address."""
    return lambda capture: served("view", capture)


@pytest.fixture
def view(browser: Any, serve: Callable[[Path], str]) -> Iterator[Callable[..., Any]]:
    """Opens the viewer. At the end it must have asked for nothing elsewhere and complained of nothing."""
    complaints: list[str] = []
    elsewhere: list[str] = []
    contexts = []

    def opened(capture: Path, place: str = "", **context: Any) -> Any:
        address = serve(capture)
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}))
        page = contexts[-1].new_page()

        def asked(request: Any) -> None:
            if not request.url.startswith(address):
                elsewhere.append(request.url)

        page.on("request", asked)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        # Tests that say no place begin with the whole run.
        page.goto(address + (place or "#from=0"))
        settled(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert (elsewhere, complaints) == ([], [])


def settled(page: Any) -> None:
    """Waits until what was asked for last is drawn."""
    page.wait_for_function("() => document.querySelector('#viewer canvas')?.dataset.ready")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(250)


def get(address: str, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers


def waiting_by_lane(page: Any) -> list[float]:
    """For each lane, the share of its pixels that have more of the colour of waiting than of the others'."""
    shares: list[float] = page.evaluate(
        """() => {
            const canvas = document.querySelector("canvas");
            const lanes = Number(canvas.dataset.lanes);
            const [left, top, bottom] = canvas.dataset.place.split(" ").map(Number);
            const scale = canvas.width / canvas.clientWidth;
            const tall = (bottom - top) / lanes;
            const style = getComputedStyle(document.getElementById("viewer"));
            const wait = style.getPropertyValue("--wait").trim();
            const wanted = [1, 3, 5].map((at) => parseInt(wait.slice(at, at + 2), 16));
            const wide = canvas.width - Math.ceil((left + 6) * scale);
            const same = new OffscreenCanvas(canvas.width, canvas.height);
            const copy = same.getContext("2d", { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            return Array.from({ length: lanes }, (_, lane) => {
                const y = Math.round((top + (lane + 0.75) * tall) * scale);
                const { data } = copy.getImageData(Math.ceil(left * scale), y, wide, 1);
                let near = 0;
                for (let i = 0; i < data.length; i += 4) {
                    near += Math.hypot(...wanted.map((c, k) => c - data[i + k])) < 90;
                }
                return near / wide;
            });
        }"""
    )
    return shares


@pytest.mark.parametrize("name", ["slow_host", "slow_gpu", "slow_link", "ddp_slow_gpu"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_culprit_is_seen_without_zooming(name: str, scheme: str, view: Callable[..., Any]) -> None:
    culprit = report_on(job(name))["findings"][0]["rank"]
    assert culprit is not None
    page = view(job(name), color_scheme=scheme)
    lanes = page.evaluate(
        "async () => (await (await fetch('data.json')).json()).lanes.map((lane) => lane.rank)"
    )
    shares: dict[int, float] = {}
    for rank, share in zip(lanes, waiting_by_lane(page), strict=True):
        shares[rank] = shares.get(rank, 0) + share
    others = [share for rank, share in shares.items() if rank != culprit]
    assert shares[culprit] < 0.5 * min(others), shares
    assert min(others) > 0.02, shares


def test_hovered_values_are_those_of_the_parquet_export(view: Callable[..., Any], tmp_path: Path) -> None:
    run("ncclscope", "export", job("slow_host"), "--to", "parquet", "-o", tmp_path / "calls")
    # Start-up is left out: the steps that the account skips, and what was before.
    report = report_on(job("slow_host"))
    timeline = report["timeline"]
    warm = timeline["begin_ns"] + 1000 * timeline["steps"]["begins_us"][report["account"]["skipped"]]
    waits = duckdb.execute(
        f"""with calls as (
                select * from read_parquet('{tmp_path}/calls/*/*.parquet', hive_partitioning = true)
                where gpu_start_ns >= {warm:.0f}),
        ops as (select communicator, function, seq, min(gpu_time_ns) shortest from calls
                where function in ('AllReduce', 'AllGather') and seq is not null
                group by all having count(gpu_time_ns) = 2)
        select function, rank, gpu_time_ns - shortest, shortest
        from calls join ops using (communicator, function, seq)
        where gpu_time_ns > shortest order by 3 desc limit 3"""
    ).fetchall()
    page = view(job("slow_host"))
    for function, rank, waited, transfer in waits:
        page.keyboard.press("w")
        settled(page)
        # The call is in the middle of the picture.
        page.mouse.move(*call_at(page, rank, 2))
        tip = page.locator(".tip").inner_text()
        assert tip.startswith(function) and f"rank {rank}" in tip.split("\n")[0]
        said = re.search(r"Waited ([\d.]+) (\S+) for rank (\d+), then transfer ([\d.]+) (\S+)", tip)
        assert said is not None, tip
        by = {"s": 1e9, "ms": 1e6, "µs": 1e3}
        assert float(said[1]) * by[said[2]] == pytest.approx(waited, rel=5e-3)
        assert float(said[4]) * by[said[5]] == pytest.approx(transfer, rel=5e-3)
        assert int(said[3]) == 1 - rank
        sentence = page.locator(".one-call p").first.text_content()
        assert sentence.startswith(f"Rank {rank} waited {said[1]} {said[2]} for rank {said[3]}.")


def test_the_keyboard_goes_everywhere_and_the_address_holds_the_place(view: Callable[..., Any]) -> None:
    page = view(job("slow_host"))
    # The longest wait of all is in a call that has no like.
    for _ in range(2):
        page.keyboard.press("w")
        settled(page)
    assert page.locator(".one-call tbody tr").count() == 2
    first = page.url
    page.keyboard.press("n")
    settled(page)
    second = page.url
    assert first != second and "call=" in second
    page.keyboard.press("p")
    settled(page)
    assert page.url.split("call=")[1] == first.split("call=")[1]
    where = page.locator(".where").text_content()
    page.reload()
    settled(page)
    assert page.locator(".where").text_content() == where and page.locator(".one-call").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("0")
    settled(page)
    assert not page.locator(".one-call").is_visible()
    assert page.locator(".where").text_content().startswith("The whole run, ")
    # A finding is flown to, and its rank can be had alone.
    page.locator(".findings button").first.focus()
    page.keyboard.press("Enter")
    settled(page)
    assert not page.locator(".where").text_content().startswith("The whole run, ")
    page.keyboard.press("/")
    page.keyboard.type("rank 1")
    settled(page)
    assert "1 of 2 lanes" in page.locator(".where").text_content()


def call_at(page: Any, row: int, rows: int, share: float = 0.5) -> tuple[float, float]:
    """A place on a row of the picture: in its middle, or where `share` says."""
    box = page.locator("canvas").bounding_box()
    left, top, bottom = map(float, page.locator("canvas").get_attribute("data-place").split())
    y = top + (bottom - top) * (row + 0.5) / rows
    return box["x"] + left + (box["width"] - left - 6) * share, box["y"] + y


def test_a_click_marks_the_operation_on_every_rank(view: Callable[..., Any]) -> None:
    page = view(job("ddp8_two_hosts"))
    page.keyboard.press("w")
    settled(page)
    # Where its begin is drawn, and on which lane of how many.
    share, lane, lanes = page.evaluate(
        """async () => {
            const data = await (await fetch("data.json")).json();
            const place = new URLSearchParams(location.hash.slice(1));
            const call = await (await fetch(`call?call=${place.get("call")}`)).json();
            const [from, to] = [+place.get("from"), +place.get("to")];
            const share = (call.begin_us + 0.1 * call.length_us - from) / (to - from);
            // Lanes of events are not shown at first.
            const shown = [...data.lanes.keys()].filter((lane) => !data.lanes[lane].events);
            return [share, shown.indexOf(call.lane), shown.length];
        }"""
    )
    page.keyboard.press("Escape")
    settled(page)
    assert page.locator("canvas").get_attribute("data-marked") == "0"
    page.mouse.click(*call_at(page, lane, lanes, share))
    settled(page)
    assert page.locator("canvas").get_attribute("data-marked") == "8"
    ranks = page.locator(".one-call tbody tr")
    assert ranks.count() == 8
    # Down goes to the same operation on the next lane.
    before = page.locator(".one-call tr.picked").text_content()
    page.keyboard.press("ArrowDown" if lane + 1 < lanes else "ArrowUp")
    settled(page)
    assert page.locator(".one-call tr.picked").text_content() != before
    assert page.locator("canvas").get_attribute("data-marked") == "8"


def test_an_operation_says_skew_bandwidth_network_and_its_parts(view: Callable[..., Any]) -> None:
    page = view(job("mix_two_hosts_228"))
    page.keyboard.press("w")
    settled(page)
    names = page.locator(".one-call > dl dt").all_text_contents()
    values = page.locator(".one-call > dl dd").all_text_contents()
    said = dict(zip(names, values, strict=True))
    assert re.match(r"[\d.]+ \S+$", said["Skew, first to last rank"])
    assert "GB/s of payload" in said["Bandwidth of the transfer"]
    # What is not known says why.
    assert all(value for value in values)
    tree = page.locator(".one-call .tree")
    top = tree.locator("> li > .part").all_text_contents()
    assert [text.split(":")[0] for text in top] == ["API call"]
    launch = tree.locator("> li > ul > li > .part", has_text="Launch of its kernel")
    assert launch.count() == 1
    kernel = tree.locator("> li > ul > li > ul > li > .part", has_text="Kernel on the GPU")
    assert kernel.count() == 1
    assert tree.get_by_text("Operations of the network proxy").count() == 1


def test_network_operations_of_a_call_are_its_own_events(view: Callable[..., Any]) -> None:
    page = view(job("ddp8_two_hosts"))
    calls = page.evaluate(
        """async () => {
            const data = await (await fetch("data.json")).json();
            const lanes = [...data.lanes.keys()].filter((lane) => !data.lanes[lane].events);
            const asked = { method: "POST", body: JSON.stringify(lanes) };
            const { calls } = await (await fetch(`calls?from=0&to=${data.length_us}`, asked)).json();
            const found = [];
            for (const [call] of calls) found.push(await (await fetch(`call?call=${call}`)).json());
            return found;
        }"""
    )
    operations = steps = 0
    for call in calls:
        parts = {part["part"]: part for part in call["parts"]}
        count = Counter(part["name"].split()[0] for part in parts.values() if "event" in part)
        columns = call["columns"]
        assert count["ProxyOp"] == columns.get("net_ops_started", 0)
        assert count["ProxyStep"] == columns.get("net_steps", 0)
        assert count["KernelCh"] == columns["channels_started"]
        for part in parts.values():
            if part["name"].startswith("ProxyStep"):
                assert parts[part["parent"]]["name"].startswith("ProxyOp")
        operations += count["ProxyOp"]
        steps += count["ProxyStep"]
    # All that the capture has.
    assert (operations, steps) == (180, 3724)
    most = max(calls, key=lambda call: len(call["parts"]))
    page.evaluate("(call) => (location.hash = `#call=${call}&from=0`)", most["call"])
    settled(page)
    # A part of many parts is closed at first.
    step = page.locator(".tree .part", has_text="ProxyStep").first
    assert not step.is_visible()
    page.locator(".tree summary").first.press("Enter")
    page.locator(".tree details[open] summary").nth(1).press("Enter")
    assert "after the begin" in step.text_content()


def microseconds(text: str) -> float:
    """The first time in a line, as it is spelled for people."""
    found = re.search(r"([\d.]+) (s|ms|µs)\b", text)
    assert found is not None, text
    return float(found[1]) * {"s": 1e6, "ms": 1e3, "µs": 1}[found[2]]


# What is said of a call that is pointed at, by what is known of it: the line, and the figure in it.
HOVERED: dict[str, tuple[Callable[[Any], bool], str, Callable[[Any], float]]] = {
    "open": (lambda c: c["kind"] == "open", "Not finished when the recording", lambda c: c["length_us"]),
    "host": (lambda c: c["kind"] == "host", "API call of", lambda c: c["length_us"]),
    "kernel": (lambda c: c["kind"] == "kernel", "Ran for", lambda c: c["length_us"]),
    "not known": (
        lambda c: c["kind"] == "gpu" and c["waited_us"] is None,
        "how much of it was waiting is not known",
        lambda c: c["length_us"],
    ),
    "last": (lambda c: c["waited_us"] == 0, "Arrived last", lambda c: c["transfer_us"]),
    "waited": (lambda c: (c["waited_us"] or 0) > 0, "Waited ", lambda c: c["waited_us"]),
    "skew": (lambda c: c.get("skew_us") is not None, "to arrive; skew", lambda c: c["skew_us"]),
    "exposed": (lambda c: mine(c, "exposed_us"), "Exposed: ", lambda c: mine(c, "exposed_us")),
    "network": (lambda c: mine(c, "nic_us"), "Data in the network's hands", lambda c: mine(c, "nic_us")),
    "error": (lambda c: bool(c["error_us"]), "right to ±", lambda c: c["error_us"]),
}


def mine(call: Any, figure: str) -> Any:
    """A figure of this rank in its operation."""
    of_rank = [rank for rank in call.get("ranks", []) if rank["call"] == call["call"]]
    return of_rank[0][figure] if of_rank else None


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("killed_228", ["open", "host"]),
        ("ddp_slow_gpu", ["kernel", "last", "waited", "skew", "exposed", "error"]),
        ("slow_link", ["not known", "network"]),
    ],
)
def test_what_is_said_of_a_call_is_what_is_known_of_it(
    name: str, lines: list[str], view: Callable[..., Any]
) -> None:
    page = view(job(name))
    calls = page.evaluate(
        """async () => {
            const data = await (await fetch("data.json")).json();
            const lanes = [...data.lanes.keys()].filter((lane) => !data.lanes[lane].events);
            // What each row has in common, and the rows from top to bottom.
            const key = (at) => {
                const lane = data.lanes[at];
                return `${lane.who} ${lane.kernels} ${lane.role}`;
            };
            const rows = [...new Set(lanes.map(key))];
            const found = [];
            for (const lane of lanes) {
                const asked = { method: "POST", body: JSON.stringify([lane]) };
                const by_number = new Map();
                // A part of the run at a time, so that no answer is too long. Long calls are in several.
                for (let part = 0; part < 20 && by_number.size < 2000; part++) {
                    const [from, to] = [part, part + 1].map((n) => (n * data.length_us) / 20);
                    const answer = await fetch(`calls?from=${from}&to=${to}`, asked);
                    for (const call of (await answer.json()).calls) by_number.set(call[0], call);
                }
                const calls = [...by_number.values()];
                // Those that are the shortest at their middle, which a pointer there finds; some of them.
                const apart = ([, , begin, length], at) => !calls.some(
                    ([, , b, l], k) => k !== at && l <= length
                        && b <= begin + length / 2 && b + l >= begin + length / 2,
                );
                const of_kind = {};
                for (const call of calls.filter(apart)) (of_kind[call[6]] ??= []).push(call);
                const some = Object.values(of_kind).flatMap((all) =>
                    all.filter((_, at) => at % Math.ceil(all.length / 30) === 0));
                for (const [call] of some)
                    found.push({ ...(await (await fetch(`call?call=${call}`)).json()),
                        row: rows.indexOf(key(lane)), rows: rows.length });
            }
            return found;
        }"""
    )
    for line in lines:
        is_it, words, figure = HOVERED[line]
        call = next(filter(is_it, calls), None)
        assert call is not None, line
        begin, length = call["begin_us"], max(call["length_us"], 0.5)
        page.evaluate("(hash) => (location.hash = hash)", f"#from={begin}&to={begin + length}")
        settled(page)
        page.mouse.move(*call_at(page, call["row"], call["rows"], 0.45))
        page.wait_for_timeout(700)
        page.mouse.move(*call_at(page, call["row"], call["rows"], 0.5))
        tip = page.locator(".tip").inner_text().splitlines()
        assert tip[0].startswith(call["name"]), (line, tip)
        found = [text for text in tip if words in text]
        assert len(found) == 1, (line, tip)
        assert microseconds(found[0]) == pytest.approx(figure(call), rel=6e-3), (line, tip)
        if call.get("algbw_gb_per_s"):
            assert any(text.startswith("Bandwidth ") for text in tip), (line, tip)


def test_rows_are_grouped_sorted_and_put_together(view: Callable[..., Any]) -> None:
    page = view(job("ddp8_two_hosts"))
    lanes = int(page.locator("canvas").get_attribute("data-lanes"))
    page.get_by_label("A row per").select_option("rank")
    settled(page)
    assert int(page.locator("canvas").get_attribute("data-lanes")) == 8 < lanes + 1
    page.get_by_label("Groups").select_option("host")
    settled(page)
    # A heading for each host.
    hosts = page.evaluate(
        "async () => (await (await fetch('data.json')).json()).lanes.map((lane) => lane.host)"
    )
    assert int(page.locator("canvas").get_attribute("data-lanes")) == 8 + len(set(hosts))
    assert "group=host" in page.url and "by=rank" in page.url
    page.get_by_label("Groups").select_option("communicator")
    settled(page)
    page.get_by_label("Groups").select_option("")
    page.get_by_label("A row per").select_option("communicator")
    page.get_by_role("button", name="Late ranks first").click()
    settled(page)
    assert "sort=late" in page.url
    waited = page.evaluate(
        "async () => (await (await fetch('data.json')).json()).lanes.map((lane) => lane.waited_us)"
    )
    shares = waiting_by_lane(page)
    # The lane that waited least is the first, and the one that waited most is the last.
    assert shares[0] == min(shares) and waited.index(min(waited)) >= 0
    assert shares[-1] == max(shares)


def test_kernels_of_windows_have_lanes(view: Callable[..., Any]) -> None:
    page = view(job("ddp_slow_gpu"))
    lanes = page.evaluate(
        "async () => (await (await fetch('data.json')).json()).lanes.filter((lane) => lane.kernels).length"
    )
    all_lanes = int(page.locator("canvas").get_attribute("data-lanes"))
    assert 0 < lanes < all_lanes
    page.keyboard.press("k")
    settled(page)
    assert int(page.locator("canvas").get_attribute("data-lanes")) == all_lanes - lanes
    assert "kernels=off" in page.url


def test_the_critical_path_is_drawn_from_rank_to_rank(view: Callable[..., Any]) -> None:
    page = view(job("slow_link"))
    path = page.evaluate("async () => (await (await fetch('data.json')).json()).path")
    critical = ncclscope.open(job("slow_link")).report().critical_path
    assert critical is not None
    step = critical.step
    segments = path["segments"]
    assert (path["step"], len(segments)) == (step.number, len(step.segments))
    for drawn, known in zip(segments, step.segments, strict=True):
        assert (drawn["what"], drawn["rank"]) == (known.what, known.rank)
        assert drawn["to_us"] - drawn["from_us"] == pytest.approx(known.time_us, abs=0.01)
    for before, after in itertools.pairwise(segments):
        assert after["from_us"] == pytest.approx(before["to_us"], abs=0.01)
    # Rank 0 joins the last operation last.
    assert [segments[0]["rank"], segments[-1]["rank"]] == [1, 0]
    # A step is too narrow to be drawn in the whole run.
    canvas = page.locator("canvas")
    assert canvas.get_attribute("data-path") == "0"
    page.get_by_role("button", name="Critical path of step").click()
    settled(page)
    assert canvas.get_attribute("data-path") == str(len(segments))
    page.get_by_text("Segments, in order").click()
    page.get_by_role("button", name="AllReduce 1.51 MiB on rank 0", exact=False).last.click()
    settled(page)
    shown = urllib.parse.parse_qs(page.url.partition("#")[2])
    last = segments[-1]
    assert float(shown["from"][0]) < last["from_us"] < last["to_us"] < float(shown["to"][0])


def test_an_open_call_is_hatched_and_says_so(view: Callable[..., Any]) -> None:
    page = view(job("killed_228"))
    open_calls = page.evaluate(
        """async () => {
            const data = await (await fetch("data.json")).json();
            const lanes = [...data.lanes.keys()].filter((lane) => !data.lanes[lane].events);
            const asked = { method: "POST", body: JSON.stringify(lanes) };
            const { calls } = await (await fetch(`calls?from=0&to=${data.length_us}`, asked)).json();
            return calls.filter((call) => call[6] === "open");
        }"""
    )
    assert open_calls
    page.evaluate("(call) => (location.hash = `#call=${call}&from=0`)", open_calls[0][0])
    settled(page)
    assert "not finished when the recording ended" in page.locator(".one-call p").first.text_content()


AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"


def hindrances(page: Any) -> list[str]:
    """What axe-core finds. It runs in the page's world, whatever the page's policy says."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = page.evaluate(
        """async () => {
            const { violations } = await axe.run();
            return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}`));
        }"""
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_axe_finds_nothing(
    scheme: str, width: int, view: Callable[..., Any], show: Callable[..., Any]
) -> None:
    at = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    page = view(job("slow_host"), **at)
    page.keyboard.press("w")
    settled(page)
    page.locator(".one-call summary").click()
    assert hindrances(page) == []
    page = show(job("slow_host"), **at)
    settled(page)
    assert hindrances(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_carries_the_lanes(scheme: str, show: Callable[..., Any]) -> None:
    page = show(job("slow_host"), color_scheme=scheme)
    settled(page)
    page.get_by_role("button", name="Whole run").click()
    page.evaluate("() => document.activeElement.blur()")
    settled(page)
    assert page.locator("canvas").get_attribute("data-lanes") == "2"
    late, other = waiting_by_lane(page)
    assert late < 0.5 * other and other > 0.02
    # Keys are those of the viewer while the focus is in it.
    page.keyboard.press("w")
    settled(page)
    assert not page.locator("#viewer .one-call").is_visible()
    page.locator("canvas").focus()
    for _ in range(2):
        page.keyboard.press("w")
        settled(page)
    assert page.locator("#viewer .one-call tbody tr").count() == 2
    assert "waited" in page.locator("#viewer .one-call p").first.text_content()
    assert page.locator("#viewer .tree li").count() > 3
    first = page.url
    page.keyboard.press("n")
    settled(page)
    assert page.url != first and "call=" in page.url
    sentence = page.locator("#viewer .one-call p").first.text_content()
    place = page.evaluate("() => location.hash")
    page.keyboard.press("Escape")
    settled(page)
    assert not page.locator("#viewer .one-call").is_visible()
    page.evaluate("(place) => (location.hash = place)", place)
    settled(page)
    assert page.locator("#viewer .one-call p").first.text_content() == sentence


def test_the_page_of_a_large_capture_stays_small(many: Path, tmp_path: Path) -> None:
    run("ncclscope", "report", many, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(page.encode()) <= 10_000_000
    kept = json.loads(page.split('id="viewer-data">')[1].split("</script>")[0])
    # The calls of some steps are in it, and not those of all.
    assert kept["levels"] and kept["chunks"] and not kept["whole"]


@pytest.mark.parametrize("name", ["mix_two_hosts_228", "killed_228", "graph_host_228", "ddp8_two_hosts"])
def test_it_fits_a_phone_and_draws_what_there_is(name: str, view: Callable[..., Any]) -> None:
    page = view(job(name), viewport={"width": 375, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") == 375
    assert page.locator("#verdict").text_content() == report_on(job(name))["verdict"]
    page.mouse.move(200, page.locator("canvas").bounding_box()["y"] + 100)
    calls = page.locator("canvas").get_attribute("data-calls")
    assert calls == "too many" or int(calls) > 0


def test_connections_that_come_at_once_are_all_answered(serve: Callable[[Path], str]) -> None:
    address = urlsplit(serve(job("ddp4")))
    question = f"GET {address.path}data.json HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()

    def ask() -> None:
        """As a browser does: it closes a connection that it was asked to close, and no other."""
        connection = socket.create_connection((address.hostname, address.port), timeout=20)
        connection.sendall(question)
        answer = connection.makefile("rb")
        assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
        headers = dict(line.rstrip().split(b": ", 1) for line in iter(answer.readline, b"\r\n"))
        json.loads(answer.read(int(headers[b"Content-Length"])))
        if headers.get(b"Connection") == b"close":
            connection.close()

    for _ in range(20):
        with ThreadPoolExecutor(12) as clients:
            list(clients.map(lambda _: ask(), range(12)))


def test_only_this_machine_s_browser_may_ask(serve: Callable[[Path], str]) -> None:
    address = serve(job("ddp4"))
    root = address[: address.index("/", 8)]
    status, headers = get(address)
    assert status == 200 and headers["Content-Security-Policy"].startswith(
        "default-src 'none'; script-src 'self'"
    )
    token = address.rstrip("/").rsplit("/", 1)[1]
    assert len(token) == 32
    for wrong in (
        root,
        f"{root}/",
        f"{root}/data.json",
        f"{root}/{'0' * 32}/data.json",
        address + "../../etc/passwd",
    ):
        assert get(wrong)[0] == 404, wrong
    assert get(address + "data.json")[0] == 200
    # A page of another site, by a name that leads here.
    assert get(address, Host="evil.example")[0] == 404
    for strange in (
        "heat?from=NaN&to=inf",
        "heat?from=9e99&to=-9e99&bins=9e99",
        "calls?from=1e300&to=2e300",
        "call?call=-1",
        "call?call=1e18",
    ):
        assert get(address + strange)[0] in (200, 404), strange
    assert get(address)[0] == 200
    other = serve(job("ddp4"))
    assert other.rstrip("/").rsplit("/", 1)[1] != token


def test_what_has_no_calls_says_so(tmp_path: Path) -> None:
    done = subprocess.run([BIN / "ncclscope", "view", tmp_path], text=True, capture_output=True)
    assert done.returncode == 2 and "hint" in done.stderr


def test_lanes_of_events_show_every_field(view: Callable[..., Any], tmp_path: Path) -> None:
    page = view(job("ddp8_two_hosts"))
    canvas = page.locator("#viewer canvas")
    before = int(canvas.get_attribute("data-lanes"))
    names = page.evaluate("async () => (await (await fetch('data.json')).json())")
    lanes = [lane for lane in names["lanes"] if lane["events"]]
    roles = {re.sub(r"(number )?\d+( \(\d+\))?$", "", lane["role"]) for lane in lanes}
    assert roles == {f"ranks 0-7, {who}" for who in ("caller thread ", "proxy thread ", "GPU ")}
    # Types can be chosen only while events are shown.
    chips = page.locator("#viewer .types")
    assert not chips.is_visible()
    page.get_by_role("button", name="Events").click()
    assert chips.is_visible()
    page.get_by_label("Ranks ", exact=True).fill("rank 0")
    settled(page)
    of_rank_0 = sum(lane["who"] == "rank 0" for lane in lanes)
    assert int(canvas.get_attribute("data-lanes")) == of_rank_0 + before // 8
    assert "events=on" in page.url
    # Bars and states of the export, by what they are called.
    run("ncclscope", "export", job("ddp8_two_hosts"), "--events", "--to", "chrome", "-o", tmp_path / "a.json")
    traced = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    wanted = Counter(e["name"] for e in traced if e["ph"] in ("X", "i"))
    asked = """async (lanes) => {
        const answer = await fetch(`calls?from=-1e9&to=1e9`, { method: "POST", body: JSON.stringify(lanes) });
        return answer.json();
    }"""
    found: Counter[str] = Counter()
    numbers = [at for at, lane in enumerate(names["lanes"]) if lane["events"]]
    step = None
    for at in range(0, len(numbers), 20):
        answer = page.evaluate(asked, numbers[at : at + 20])
        assert not answer["too_many"]
        found += Counter(names["names"][row[5]] for row in answer["calls"])
        steps = (row for row in answer["calls"] if names["names"][row[5]] == "ProxyStep 3")
        first = next(steps, None)
        if step is None and first:
            step = first
            states = sorted(r[2] for r in answer["calls"] if r[1] == first[1] and r[6] == "state")
    assert found == wanted
    # Hovering a bar, where no state is near, shows all that the export has of it.
    assert step is not None
    number, _, begin, length = step[:4]
    moments = [begin, *(at for at in states if begin < at < begin + length), begin + length]
    gap, at = max((b - a, (a + b) / 2) for a, b in zip(moments, moments[1:]))
    who = names["lanes"][step[1]]["who"].replace(" ", "+")
    page.goto(page.url.split("#")[0] + f"#from={at - gap}&to={at + gap}&events=on&ranks={who}")
    page.reload()
    settled(page)
    rows = int(canvas.get_attribute("data-lanes"))
    left, top, bottom = map(float, canvas.get_attribute("data-place").split())
    of_rank = [k for k, other in enumerate(names["lanes"]) if other["who"] == who.replace("+", " ")]
    row = of_rank.index(step[1])
    box = canvas.bounding_box()
    y = top + (row + 0.5) * (bottom - top) / rows
    page.mouse.move(box["x"] + left + (box["width"] - 6 - left) * 0.5, box["y"] + y)
    page.wait_for_timeout(600)
    tip = page.locator("#viewer .tip").inner_text().splitlines()
    assert tip[0].startswith("ProxyStep 3, rank "), tip
    columns = page.evaluate(f"async () => (await (await fetch('call?call={number}')).json()).columns")
    some = {"type", "event", "parent_event", "pid", "role", "started_ns", "stopped_ns", "step"}
    assert some <= set(columns)
    assert [f"{name}: {value}" for name, value in columns.items()] == tip[-len(columns) :]
    bar = next(e for e in traced if e["ph"] == "X" and e["args"].get("started_ns") == columns["started_ns"])
    assert bar["args"] == columns


def test_events_lead_to_parent_children_and_other_ranks(view: Callable[..., Any]) -> None:
    page = view(job("ddp8_two_hosts"))
    data = page.evaluate("async () => (await (await fetch('data.json')).json())")
    lanes = [at for at, lane in enumerate(data["lanes"]) if lane["events"] and lane["who"] == "rank 0"]
    asked = """async (lanes) => {
        const answer = await fetch(`calls?from=-1e9&to=1e9`, { method: "POST", body: JSON.stringify(lanes) });
        return (await answer.json()).calls;
    }"""
    rows = page.evaluate(asked, lanes)
    spans: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for row in rows:
        assert row[9] in data["lanes"][row[1]]["types"]
        spans.setdefault((row[1], row[6]), []).append((row[2], row[2] + row[3]))
    # A row has no two events at a time, and none lies in nothing: the row above has one around it.
    for (lane, kind), of_lane in spans.items():
        of_lane.sort()
        if kind == "event":
            assert all(a[1] <= b[0] + 1e-6 for a, b in zip(of_lane, of_lane[1:])), data["lanes"][lane]
            depth = data["lanes"][lane]["depth"]
            above = spans[lane - 1, "event"] if depth else []
            for begin, end in of_lane if depth else []:
                assert any(a - 1e-6 <= begin and end <= b + 1e-6 for a, b in above), (lane, begin, end)
    assert {data["lanes"][lane]["depth"] for lane, _ in spans} >= {0, 1, 2}
    # States are segments: from one to the next, the last until the event's end.
    assert any(end > begin for (_, kind), of in spans.items() if kind == "state" for begin, end in of)
    step = next(row for row in rows if row[9] == "ProxyStep" and row[6] == "event")
    begin, length = step[2], step[3]
    place = f"#from={begin - length}&to={begin + 2 * length}&events=on&call={step[0]}"
    page.goto(page.url.split("#")[0] + place)
    page.reload()
    settled(page)
    panel = page.locator("#viewer .one-call")
    assert "an event of NCCL" in panel.inner_text() and "never_stopped" not in panel.inner_text()
    parent = panel.get_by_role("button", name="ProxyOp ")
    assert parent.count() == 1
    parent.click()
    settled(page)
    assert "channel " in panel.locator("p").first.inner_text()
    assert panel.get_by_role("button", name="ProxyStep ").count() > 1
    # The call on the GPU that this network operation is for.
    on_gpu = panel.locator("dt", has_text="On the GPU").locator("xpath=following-sibling::dd[1]")
    assert on_gpu.get_by_role("button").count() == 1
    address = page.url
    on_gpu.get_by_role("button").click()
    settled(page)
    assert re.search(r" on the GPU|arrived last|waited", panel.locator("p").first.inner_text())
    page.goto(address)
    page.reload()
    settled(page)
    others = panel.get_by_role("button", name=re.compile(r"^rank \d+: .* after the first$"))
    assert others.count() == 8
    others.nth(5).click()
    settled(page)
    assert panel.locator("p").first.inner_text().startswith("Rank ")
    assert int(page.locator("#viewer canvas").get_attribute("data-marked")) >= 1
    # A type that is switched off goes with its rows, also in the address.
    before = int(page.locator("#viewer canvas").get_attribute("data-lanes"))
    page.get_by_role("button", name="ProxyStep", exact=True).click()
    settled(page)
    assert "hide=ProxyStep" in page.url
    assert int(page.locator("#viewer canvas").get_attribute("data-lanes")) < before
    page.reload()
    settled(page)
    off = page.get_by_role("button", name="ProxyStep", exact=True)
    assert off.get_attribute("aria-pressed") == "false"
