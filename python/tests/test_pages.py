"""Every page of every recorded job in a browser: each button, preset and section is pressed, and none of the
scripts complains. What pages say is tested beside this file; here it is that nothing breaks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ncclscope
import pytest
from conftest import BIN, ROOT, run
from test_html import browser

__all__ = ["browser"]

# `hangs` is a folder of captures.
FOLDERS = [folder.name for folder in (ROOT / "data").iterdir() if folder.is_dir()]
RECORDED = sorted(name for name in FOLDERS if name != "hangs")

# Presses what the page has, also what a press has made. A section is opened, and not closed again. Curves are
# read by keyboard, from the first bucket to the last.
PRESS = """
async () => {
    const pressed = new Set();
    const name = (e) => `${e.tagName} ${e.closest("[id]")?.id} ${e.textContent}`;
    const fresh = () =>
        [...document.querySelectorAll("button, summary, select, input, svg[tabindex], canvas[tabindex]")]
            .filter((e) => !pressed.has(name(e)) && !(e.tagName === "SUMMARY" && e.parentElement.open));
    const key = (e, key) => e.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    for (let round = 0; round < 20 && fresh().length; round++) {
        for (const element of fresh()) {
            // A press before may have drawn its figure anew.
            if (!element.isConnected) continue;
            pressed.add(name(element));
            if (element.tagName === "SELECT") {
                for (const option of element.options) {
                    element.value = option.value;
                    element.dispatchEvent(new Event("change", { bubbles: true }));
                }
            } else if (element.tagName === "INPUT") {
                element.value = "a";
                element.dispatchEvent(new Event("input", { bubbles: true }));
                element.value = "";
                element.dispatchEvent(new Event("input", { bubbles: true }));
            } else if (element.matches("svg, canvas")) {
                element.focus();
                for (const of of ["Home", "ArrowRight", "PageDown", "End", "Escape"]) key(element, of);
            } else {
                element.click();
            }
            const figure = document.querySelector("#over-time div > svg");
            if (figure && element.dataset.preset) {
                for (const of of ["Home", "PageDown", "End"]) key(figure, of);
            }
        }
        await new Promise((done) => setTimeout(done, 20));
    }
    return [...pressed];
}
"""


@pytest.fixture
def press(browser: Any) -> Iterator[Callable[[Path], list[str]]]:
    """Opens a page, presses everything and returns what was pressed. The page must not have complained."""
    contexts = []

    def pressing(file: Path) -> list[str]:
        complaints: list[str] = []
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 900}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri())
        pressed: list[str] = page.evaluate(PRESS)
        page.wait_for_timeout(50)
        assert complaints == []
        return pressed

    yield pressing
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", RECORDED)
def test_everything_on_the_page_of_a_report_can_be_pressed(
    name: str, press: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    run("ncclscope", "report", ROOT / "data" / name, "--html", tmp_path / "page.html")
    assert press(tmp_path / "page.html")


def test_everything_on_a_page_with_samples_can_be_pressed(
    press: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    # Two seconds beside a stub of NVML: power and clocks have curves.
    script = "ranks 2\nrepeat 4 {\nall_reduce 1MiB\nsleep 500ms\n}\n"
    (tmp_path / "job").write_text(script, encoding="utf-8")
    stub = BIN / "examples" / "libfake_nvml.so"
    assert stub.exists(), "`cargo build -p ncclscope-fake-cuda --examples` builds it"
    environment = {
        **os.environ,
        "NCCLSCOPE_PLUGIN": ncclscope.plugin_path(),
        "NCCLSCOPE_NVML": str(stub),
        "NCCLSCOPE_QUIET": "1",
    }
    capture = tmp_path / "capture"
    play = [str(BIN / "fake-nccl"), "play", str(tmp_path / "job")]
    run("ncclscope", "run", "-o", capture, "--", *play, env=environment)
    run("ncclscope", "report", capture, "--html", tmp_path / "page.html")
    pressed = press(tmp_path / "page.html")
    assert any("Power and hosts" in name for name in pressed), pressed


def test_everything_on_the_page_of_a_comparison_can_be_pressed(
    press: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    pairs = [("slow_plain", "slow_link"), ("decode_plain", "decode_slow_gpu"), ("mix_228", "mix_232")]
    for at, (before, after) in enumerate(pairs):
        page = tmp_path / f"{at}.html"
        run("ncclscope", "diff", ROOT / "data" / before, ROOT / "data" / after, "--html", page)
        press(page)
