"""The viewer in a browser: who is waited for, with the figures of the export, and without asking anybody
else.
"""

from __future__ import annotations

import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import BIN, job, run
from test_html import browser, report_on

__all__ = ["browser"]


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """Starts the viewer on a capture, and returns its address."""
    started = []

    def serving(capture: Path) -> str:
        process = subprocess.Popen([BIN / "ncclscope", "view", capture], stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("http://127.0.0.1:"):
                return line.strip()
        raise AssertionError("it ended before it served")

    yield serving
    for process in started:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


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
        page.goto(address + place)
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
    finding = report_on(job(name))["findings"][0]
    found = re.search(r"[Rr]ank (\d+)", finding["sentence"])
    assert found is not None
    culprit = int(found[1])
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
    waits = duckdb.execute(
        f"""with calls as (
                select * from read_parquet('{tmp_path}/calls/*/*.parquet', hive_partitioning = true)),
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
        box = page.locator("canvas").bounding_box()
        left, top, bottom = map(float, page.locator("canvas").get_attribute("data-place").split())
        y = top + (bottom - top) * (rank + 0.5) / 2
        page.mouse.move(box["x"] + left + (box["width"] - left) / 2, box["y"] + y)
        tip = page.locator(".tip").inner_text()
        assert tip.startswith(function) and f"rank {rank}" in tip.split("\n")[0]
        said = re.search(r"Waited ([\d.]+) (\S+) for rank (\d+), then transfer ([\d.]+) (\S+)", tip)
        assert said is not None, tip
        by = {"s": 1e9, "ms": 1e6, "µs": 1e3}
        assert float(said[1]) * by[said[2]] == pytest.approx(waited, rel=1e-3)
        assert float(said[4]) * by[said[5]] == pytest.approx(transfer, rel=1e-3)
        assert int(said[3]) == 1 - rank
        sentence = page.locator(".one-call p").first.text_content()
        assert sentence.startswith(f"rank {rank} waited {said[1]} {said[2]} for rank {said[3]}.")


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
    assert page.locator(".where").text_content().startswith("0 µs to ")
    # A finding is flown to, and its rank can be had alone.
    page.locator(".findings button").focus()
    page.keyboard.press("Enter")
    settled(page)
    assert not page.locator(".where").text_content().startswith("0 µs to ")
    page.keyboard.press("/")
    page.keyboard.type("rank 1")
    settled(page)
    assert "1 of 2 lanes" in page.locator(".where").text_content()


@pytest.mark.parametrize("name", ["mix_two_hosts_228", "killed_228", "graph_host_228", "ddp8_two_hosts"])
def test_it_fits_a_phone_and_draws_what_there_is(name: str, view: Callable[..., Any]) -> None:
    page = view(job(name), viewport={"width": 375, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") == 375
    assert page.locator("#verdict").text_content() == report_on(job(name))["verdict"]
    page.mouse.move(200, page.locator("canvas").bounding_box()["y"] + 100)
    calls = page.locator("canvas").get_attribute("data-calls")
    assert calls == "too many" or int(calls) > 0


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
