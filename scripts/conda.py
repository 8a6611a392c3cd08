#!/usr/bin/env python3
"""Makes conda packages of the wheels in a folder, beside them, and tries the one of this machine.

    scripts/conda.py FOLDER [CHANNEL]     # needs py-rattler-build and py-rattler

The package is installed into an empty environment, as conda, mamba and pixi do it: solved, then linked.
Python comes from CHANNEL, for example conda-forge. Without one, the Python that runs this stands for it.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import rattler
import rattler_build

RECIPES = Path(__file__).resolve().parent / "conda"
PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}


def build(recipe: str, target: str, out: Path, **variables: str) -> Path:
    """The package that a recipe makes, in the channel `out`."""
    os.environ.update(variables)
    config = rattler_build.RenderConfig(platform=rattler_build.PlatformConfig(target_platform=target))
    stage = rattler_build.Stage0Recipe.from_file(RECIPES / recipe)
    (variant,) = stage.render(rattler_build.VariantConfig(), config)
    # No channel is asked for anything: the recipes need no other package.
    built = variant.run_build(rattler_build.ToolConfiguration(), output_dir=out, channels=[])
    (package,) = built.packages
    return Path(package)


async def install(channels: list[str], prefix: Path) -> None:
    """Makes an environment with ncclscope and what it needs."""
    records = await rattler.solve(
        channels, ["ncclscope"], virtual_packages=rattler.VirtualPackage.detect(), timeout=None
    )
    cache = prefix.with_name("cache")
    await rattler.install(records, target_prefix=prefix, cache_dir=cache, show_progress=False)


def said(*command: str | Path) -> str:
    """What a program prints, which is started by its path alone, without the caller's variables."""
    return subprocess.run(command, env={}, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        channel = work / "channel"
        for wheel in sorted(folder.glob("ncclscope-*.whl")):
            version = wheel.name.split("-")[1]
            (machine,) = (name for name in PLATFORMS if wheel.stem.endswith(name))
            archive = shutil.copy(wheel, work / f"{machine}.zip")
            variables = {"NCCLSCOPE_VERSION": version, "NCCLSCOPE_WHEEL": str(archive)}
            package = build("recipe.yaml", PLATFORMS[machine], channel, **variables)
            shutil.copyfile(package, folder / package.name)
            print(f"{package.name}: {package.stat().st_size} bytes")
        channels = [channel.as_uri()]
        if len(sys.argv) > 2:
            channels.append(sys.argv[2])
        else:
            own = {"NCCLSCOPE_PYTHON": sys.executable, "NCCLSCOPE_PYTHON_VERSION": platform.python_version()}
            build("python.yaml", PLATFORMS[platform.machine()], channel, **own)
        prefix = work / "environment"
        asyncio.run(install(channels, prefix))
        command, python = prefix / "bin/ncclscope", prefix / "bin/python"
        assert said(command, "--version") == f"ncclscope {version}"
        plugin = said(python, "-c", "import ncclscope; print(ncclscope.plugin_path())")
        assert Path(plugin).is_relative_to(prefix), plugin
        assert os.path.samefile(said(command, "plugin-path"), plugin)
        print(f"a conda package was installed: ncclscope {version}")


if __name__ == "__main__":
    main()
