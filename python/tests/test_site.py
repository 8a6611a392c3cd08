"""The pages as a site: links lead somewhere, and its search finds pages."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, loaded
from test_html import browser

SCRIPT = ROOT / "scripts/docs_site.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, SCRIPT, out], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    return out


def test_every_page_is_there_and_every_guide_is_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT).with_suffix(".html")
        if page.name == "README.md":
            place = place.with_name("index.html")
        assert (site / place).exists(), place
        if page.parent.name in ("guides", "concepts", "decisions"):
            assert f'href="{place}"' in menu, place
    pictures = re.findall(r'src(?:set)?="([^":]+\.svg)"', menu)
    assert pictures and all((site / picture).exists() for picture in pictures)
    # Notebooks are pages with their outputs.
    for notebook in (ROOT / "examples/notebooks").glob("*.ipynb"):
        page_of_it = site / notebook.relative_to(ROOT).with_suffix(".html")
        assert f'href="{page_of_it.name}"' in (site / "examples/notebooks/index.html").read_text()
        assert "launcher_rank" in page_of_it.read_text()
    assert list((site / "examples/notebooks").glob("slow_rank-*.svg"))
    # The lists of a page are lists, though no blank line is before them.
    assert "\n- " not in (site / "docs/guides/hang.html").read_text()


def test_a_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", ROOT.as_uri(), copy], check=True)
    (copy / "scripts").mkdir(exist_ok=True)
    shutil.copy(SCRIPT, copy / "scripts/docs_site.py")
    page = copy / "docs/guides/hang.md"
    page.write_text(page.read_text() + "\n[nothing](nowhere.md) [no heading](record.md#nothing)\n")
    command: list[str | Path] = [sys.executable, copy / "scripts/docs_site.py", tmp_path / "out"]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode != 0
    assert "'nowhere.md'" in done.stderr and "'#nothing'" in done.stderr


def test_search_finds_a_page_and_asks_no_other_site(site: Path, browser: Any) -> None:
    asked: list[str] = []
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.locator("input.md-search__input").fill("flight recorder")
    found = page.locator(".md-search-result__link").first
    found.wait_for(timeout=60_000)
    found.click()
    page.wait_for_url("**/docs/**")
    page.close()
    server.shutdown()
    assert [url for url in asked if not url.startswith((address, "blob:", "data:"))] == []


def test_names_of_headings_are_those_of_the_repository_s_links() -> None:
    module = loaded(SCRIPT)
    assert module.SLUG("ncclscope attach --json", "-") == "ncclscope-attach---json"
    assert module.as_markdown("text\n- a\n- b\n# h\n") == "text\n\n- a\n- b\n\n# h\n"
    assert module.as_markdown("```\ntext\n- a\n```\n") == "```\ntext\n- a\n```\n"
    assert module.as_markdown("- a\n  more\n- b\n") == "- a\n  more\n- b\n"
