"""Builds the package for `pip install .`: the plugin and the command by cargo, then the module and wheel by
maturin.

A PEP 517 backend around maturin's, because a wheel here holds three things and maturin builds one of them.
`scripts/wheel.sh` uses :func:`place` for wheels of other targets.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = "libnccl-profiler-ncclscope.so"
SHIPPED = (
    "ncclscope-recorder",
    "ncclscope",
    "ncclscope-empty-plugin",
    "ncclscope-preload",
    "ncclscope-tuner",
)
# maturin's `data` of pyproject.toml.
SCRIPTS = ROOT / "python/wheel.data/scripts"
CARGO = os.environ.get("CARGO", "cargo")


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return []


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: dict[str, Any] | None = None
) -> str:
    """Answers what pip asks first. Without this, pip builds the whole wheel to answer it."""
    # maturin expects its folder of data also where it only answers.
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return str(maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    if shutil.which(CARGO) is None:
        raise SystemExit(
            f"error: `{CARGO}`: expected Rust 1.88 or newer, found none"
            f"\n  hint: https://rustup.rs installs it"
        )
    packages = [option for package in SHIPPED for option in ("-p", package)]
    subprocess.run([CARGO, "build", "--release", *packages], cwd=ROOT, check=True)
    described = subprocess.run(
        [CARGO, "metadata", "--no-deps", "--format-version", "1"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    place(Path(json.loads(described.stdout)["target_directory"]) / "release")
    return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    raise SystemExit(
        "error: there is no source distribution"
        "\n  hint: build from a checkout: `pip install .` or `make wheel`"
    )


def place(built: Path) -> None:
    """Puts the plugin and the command of ``built`` where maturin takes them from."""
    library = ROOT / "python/ncclscope/lib"
    for folder in (library, SCRIPTS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    shutil.copy2(built / "libnccl_profiler_ncclscope.so", library / PLUGIN)
    for name in ("libnccl_profiler_empty.so", "libncclscope_counter.so", "libnccl_tuner_ncclscope.so"):
        shutil.copy2(built / name, library / name)
    shutil.copy2(built / "ncclscope", SCRIPTS / "ncclscope")
