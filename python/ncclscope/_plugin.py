"""Where the library that NCCL loads is."""

from __future__ import annotations

import os

FILE = "libnccl-profiler-ncclscope.so"


def plugin_path() -> str:
    """The path of the profiler plugin that NCCL loads: what ``NCCLSCOPE_PLUGIN`` names, else this package's.

    For jobs that set the environment of their processes themselves:

        >>> env["NCCL_PROFILER_PLUGIN"] = ncclscope.plugin_path()

    Raises ``FileNotFoundError`` when it is not there.
    """
    named = os.environ.get("NCCLSCOPE_PLUGIN")
    path = os.path.abspath(named) if named else os.path.join(os.path.dirname(__file__), "lib", FILE)
    if os.path.isfile(path):
        return path
    hint = (
        "unset NCCLSCOPE_PLUGIN to use the package's own"
        if named
        else "`pip install --force-reinstall ncclscope`"
    )
    raise FileNotFoundError(f"no profiler plugin at `{path}`\n  hint: {hint}")
