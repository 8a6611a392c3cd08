"""The modules of the pages: the linter has nothing to say, and their unit tests pass, in the Node that
Playwright brings.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from playwright._impl._driver import compute_driver_executable

TESTS = sorted((ROOT / "crates/render/tests/html").glob("*.test.js"))


def test_the_linter_finds_nothing() -> None:
    biome = Path(sys.executable).parent / "biome"
    if not biome.exists():
        pytest.skip("Biome is not installed: PyPI has it for x86-64 alone")
    lint = subprocess.run([biome, "ci"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    assert "No fixes applied" in lint.stdout


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name.removesuffix(".test.js"))
def test_modules_do_what_their_tests_say(test: Path) -> None:
    node, _ = compute_driver_executable()
    tests = subprocess.run([node, "--test", test], cwd=ROOT, capture_output=True, text=True, check=False)
    assert tests.returncode == 0, tests.stdout + tests.stderr
    # A file without tests would pass, too.
    assert "pass 0" not in tests.stdout
