"""The notebooks show what they show when they are run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT, loaded

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_its_outputs_are_those_of_a_run(file: Path) -> None:
    committed = json.loads(file.read_text())
    again = loaded(ROOT / "scripts/notebooks.py").executed(file)
    assert again == committed, "`make notebooks` writes them"
    # Each one shows something, and no more than a repository should hold.
    shown = [cell for cell in committed["cells"] if cell["cell_type"] == "code"]
    assert shown and all(cell["outputs"] for cell in shown)
    assert file.stat().st_size < 100_000


def test_every_notebook_is_listed() -> None:
    readme = (ROOT / "examples/notebooks/README.md").read_text()
    assert NOTEBOOKS and all(f"]({file.name})" in readme for file in NOTEBOOKS)
