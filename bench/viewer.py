#!/usr/bin/env python3
"""How quickly the viewer opens and moves on a job of many ranks: bench/viewer.py [RANKS [CALLS [RUNS]]]

Writes a capture of so many ranks with so many calls each into a temporary folder (BENCH_FOLDER), and serves
it with `ncclscope view` of the release build. Opens it in headless chromium, which draws in software. Prints
how long building the pyramid takes, how long a page takes from its address to the first whole picture, and
how many frames a second there are while the picture is moved: with all ranks, and zoomed in. At last it
prints how large the HTML report of the same capture is.

Needs what the tests of the Python package need (`make test-python` installs it): run it with
.tools/python/bin/python.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"

# Moves by some pixels in each frame, for so many ms, and returns how long each frame took. The next frame
# begins when this one was drawn, so the time of drawing is in it.
PAN = """async (ms) => {
    const canvas = document.querySelector("canvas");
    const next = () => new Promise((done) => requestAnimationFrame(done));
    await next();
    const begin = performance.now();
    const frames = [];
    let [before, forward] = [begin, true];
    while (performance.now() - begin < ms) {
        const shift = forward ? 8 : -8;
        canvas.dispatchEvent(new WheelEvent("wheel", { deltaX: shift, bubbles: true, cancelable: true }));
        await next();
        const now = performance.now();
        frames.push(now - before);
        before = now;
        if (frames.length % 60 === 0) forward = !forward;
    }
    return frames;
}"""


def spread(values: list[float], digits: int = 2) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def opened(browser: Any, address: str) -> tuple[Any, float]:
    """A page with its first picture, and how long that took, s."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    begin = time.monotonic()
    page.goto(address)
    page.wait_for_function("() => document.querySelector('#viewer canvas')?.dataset.ready")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page, time.monotonic() - begin


def main() -> None:
    ranks, calls, runs = (int(word) for word in [*sys.argv[1:], *["10000", "1000", "5"][len(sys.argv) - 1 :]])
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
        capture = Path(folder) / "capture"
        command = [str(BUILT / "examples/synthesize"), str(capture), str(ranks), str(calls), "stamps"]
        subprocess.run(command, check=True)
        begin = time.monotonic()
        server = subprocess.Popen([BUILT / "ncclscope", "view", capture], stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        address = next(line for line in server.stderr if line.startswith("http://")).strip()
        print(f"{ranks} ranks x {calls} calls: served after {time.monotonic() - begin:.1f} s", flush=True)
        peak = next(
            line for line in Path(f"/proc/{server.pid}/status").read_text().splitlines() if "VmHWM" in line
        )
        print(f"memory of the server: {int(peak.split()[1]) / 1024:.0f} MiB")
        opens: list[float] = []
        pans: dict[str, list[float]] = {"half of the run, all ranks": [], "a sixteenth of both": []}
        with sync_playwright() as playwright:
            software = ["--no-sandbox", "--disable-gpu"]
            browser = playwright.chromium.launch(executable_path=chromium, args=software)
            for _ in range(runs):
                page, seconds = opened(browser, address)
                opens.append(seconds)
                whole = page.evaluate("async () => (await (await fetch('data.json')).json()).length_us")
                page.evaluate(f"() => (location.hash = '#from={whole / 4}&to={3 * whole / 4}')")
                for where, rates in pans.items():
                    page.wait_for_load_state("networkidle")
                    page.wait_for_timeout(1500)
                    frames = page.evaluate(PAN, 3000)
                    rates.append(1000 * len(frames) / sum(frames))
                    for _ in range(3):
                        page.keyboard.press("+")
                page.close()
            browser.close()
        server.kill()
        server.wait()
        page_of_report = Path(folder) / "report.html"
        begin = time.monotonic()
        subprocess.run(
            [BUILT / "ncclscope", "report", capture, "--html", page_of_report],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        seconds = time.monotonic() - begin
        print(f"report --html: {page_of_report.stat().st_size / 1e6:.2f} MB, written in {seconds:.1f} s")
    print(f"opens in s, {runs} runs: {spread(opens)}")
    for where, rates in pans.items():
        print(f"frames a second while it is moved, {where}: {spread(rates, 0)}")


if __name__ == "__main__":
    main()
