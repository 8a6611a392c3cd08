"""Builds the package for `pip install .`: the plugin and the command by cargo, then the module and wheel by
maturin.

A PEP 517 backend around maturin's, because a wheel here holds three things and maturin builds one of them.
`scripts/wheel.sh` uses :func:`place` for wheels of other targets.
"""

from __future__ import annotations

import email
import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = "libnccl-profiler-ncclscope.so"
SHIPPED = (
    "ncclscope-recorder",
    "ncclscope",
    "ncclscope-fake-nccl",
    "ncclscope-empty-plugin",
    "ncclscope-preload",
    "ncclscope-tuner",
)
# maturin's `data` of pyproject.toml.
SCRIPTS = ROOT / "python/wheel.data/scripts"
# What nobody needs who builds: recorded jobs, their pictures, what CI does.
NOT_IN_SDIST = ("data/", "fuzz/", ".ci/", ".github/", "docs/report.png", "docs/viewer-")
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
    """A source distribution of what git knows of this checkout, without recorded jobs and pictures.

    Equal commits make equal archives: times are those of the commit.
    """
    git = ["git", "-C", str(ROOT)]
    try:
        listed = subprocess.run([*git, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
        seconds = subprocess.run(
            [*git, "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        raise SystemExit(
            f"error: a source distribution is made of what git knows, and `git` said: {e}"
            "\n  hint: make it in a checkout; a wheel can be built anywhere"
        ) from e
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / prepare_metadata_for_build_wheel(folder, config_settings) / "METADATA"
        metadata = described.read_bytes()
    version = email.message_from_bytes(metadata)["Version"]
    name = f"ncclscope-{version}"

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid = int(seconds), 0, 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.mode & 0o100 else 0o644
        return member

    out = Path(sdist_directory) / f"{name}.tar.gz"
    with open(out, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=int(seconds)) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(filter(None, listed.split("\0"))):
                if not path.startswith(NOT_IN_SDIST) and (ROOT / path).is_file():
                    archive.add(ROOT / path, f"{name}/{path}", filter=plain)
            information = plain(tarfile.TarInfo(f"{name}/PKG-INFO"))
            information.size = len(metadata)
            archive.addfile(information, io.BytesIO(metadata))
    return out.name


def place(built: Path) -> None:
    """Puts the plugins and the commands of ``built`` where maturin takes them from."""
    library = ROOT / "python/ncclscope/lib"
    for folder in (library, SCRIPTS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    shutil.copy2(built / "libnccl_profiler_ncclscope.so", library / PLUGIN)
    for name in ("libnccl_profiler_empty.so", "libncclscope_counter.so", "libnccl_tuner_ncclscope.so"):
        shutil.copy2(built / name, library / name)
    for name in ("ncclscope", "fake-nccl"):
        shutil.copy2(built / name, SCRIPTS / name)
