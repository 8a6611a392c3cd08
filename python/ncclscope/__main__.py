"""``python -m ncclscope``: the command ``ncclscope`` that was installed with this package."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def command() -> str | None:
    """Where the command is: among the scripts of this environment or of this user, or else on the path."""
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    return shutil.which("ncclscope", path=os.pathsep.join(folders)) or shutil.which("ncclscope")


def main() -> None:
    """Goes on as the command, with the same arguments."""
    found = command()
    if found is None:
        hint = "`pip install --force-reinstall ncclscope`"
        sys.exit(f"error: the command `ncclscope` of this package is not there\n  hint: {hint}")
    os.execv(found, [found, *sys.argv[1:]])


if __name__ == "__main__":
    main()
