#!/usr/bin/env python3
"""Writes the pictures of the docs: pages and the viewer on recorded jobs, in headless chromium.

    scripts/pictures.py target/debug/ncclscope

`make screenshot` calls it with the Python of the tests, which has Playwright. First pictures (SVG) are
written by `make golden`, which needs no browser.

A picture has in its file what the same command says in text first, so that a test
(`docs::pictures_show_what_the_tool_says`) sees when it shows other figures than the tool.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
WIDTH = 1100


def describe(picture: Path, command: list[str]) -> None:
    """Puts the first paragraph that a command prints, and its arguments, into a picture."""
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    said = " ".join(command[1:]) + "\n" + done.stdout.split("\n\n")[0]
    chunk = b"iTXtncclscope" + bytes(5) + said.encode()
    data = picture.read_bytes()
    # Behind the signature and the header, which has 13 bytes.
    at = 8 + 12 + 13
    text = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    picture.write_bytes(data[:at] + text + data[at:])


def settled(page: Any) -> None:
    """Waits until what was asked for last is drawn."""
    page.wait_for_function("() => document.querySelector('#viewer canvas')?.dataset.ready")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)


def viewer(browser: Any, ncclscope: Path, job: str, name: str, keys: list[str]) -> None:
    """A picture of the viewer on a job, after these keys."""
    command = [str(ncclscope), "view", f"data/{job}"]
    server = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = next(line for line in server.stderr if line.startswith("http://")).strip()
        page = browser.new_page(viewport={"width": WIDTH, "height": 700})
        page.goto(address)
        settled(page)
        for key in keys:
            page.keyboard.press(key)
            settled(page)
        page.screenshot(path=DOCS / name, full_page=True)
        describe(DOCS / name, [str(ncclscope), "report", f"data/{job}"])
    finally:
        server.kill()
        server.wait()


def page(
    browser: Any, command: list[str], name: str, width: int, height: int, dark: bool = False, opened: str = ""
) -> None:
    """A picture of the first screen of a page that a command writes, with one section unfolded."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        subprocess.run([*command, "--html", str(file)], cwd=ROOT, check=True, capture_output=True)
        scheme = "dark" if dark else "light"
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.goto(file.as_uri())
        if opened:
            section = page.locator("summary", has_text=opened).first
            section.click()
            section.scroll_into_view_if_needed()
            section.evaluate("summary => summary.scrollIntoView()")
        page.wait_for_timeout(1000)
        page.screenshot(path=DOCS / name)
        describe(DOCS / name, command)


def experiments(browser: Any, programs: Path, name: str) -> None:
    """A picture of the page of bench/linaro.sh, played."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{programs}:{os.environ['PATH']}"
        command = [ROOT / "bench/linaro.sh", folder]
        subprocess.run(command, env={**os.environ, "PATH": path}, check=True, capture_output=True)
        shot = browser.new_page(viewport={"width": WIDTH, "height": 1000})
        shot.goto((Path(folder) / "page.html").as_uri())
        shot.wait_for_timeout(1000)
        shot.screenshot(path=DOCS / name)


def main() -> None:
    ncclscope = Path(sys.argv[1]).resolve()
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        sys.exit("no browser: install chromium (Debian's package chromium)")
    program_name = str(ncclscope)
    late = "data/ddp_late_host"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        viewer(browser, ncclscope, "slow_host", "viewer-run.png", [])
        viewer(browser, ncclscope, "ddp8_two_hosts", "viewer-operation.png", ["w"])
        viewer(browser, ncclscope, "fsdp2_slow_gpu", "gallery/viewer-step.png", [])
        page(browser, [program_name, "report", "data/slow_host"], "report.png", WIDTH, 1240)
        page(browser, [program_name, "report", late], "gallery/report-dark.png", WIDTH, 900, dark=True)
        page(browser, [program_name, "report", late], "gallery/report-phone.png", 375, 812)
        compared = [program_name, "diff", "data/slow_plain", "data/slow_host"]
        page(browser, compared, "gallery/diff.png", WIDTH, 900)
        experiments(browser, ncclscope.parent, "gallery/tune-linaro.png")
        browser.close()


if __name__ == "__main__":
    main()
