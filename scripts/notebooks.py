#!/usr/bin/env python3
"""Runs the notebooks of examples/notebooks, and writes them with their outputs.

    scripts/notebooks.py [OUT]     # needs nbclient and ipykernel (python/tests/requirements.txt)

Without OUT, in place: `make notebooks`. What differs from one run to the next, such as times, is not written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).resolve().parent.parent / "examples/notebooks"


def executed(file: Path) -> dict[str, Any]:
    """A notebook with the outputs of this run. A cell that fails is an error."""
    notebook = nbformat.read(file, as_version=4)
    client = nbclient.NotebookClient(
        notebook, kernel_name="python3", record_timing=False, startup_timeout=600
    )
    client.execute(cwd=str(FOLDER))
    # The version of Python that ran it.
    notebook.metadata.language_info = {"name": "python"}
    return dict(notebook)


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted(FOLDER.glob("*.ipynb")):
        text = json.dumps(executed(file), indent=1, ensure_ascii=False, sort_keys=True)
        (out / file.name).write_text(text + "\n")


if __name__ == "__main__":
    main()
