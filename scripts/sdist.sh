#!/usr/bin/env bash
# Makes the source distribution of this checkout, as `python -m build --sdist` does, and says its name.
# usage: sdist.sh VIRTUAL_ENVIRONMENT_WITH_MATURIN FOLDER_TO_WRITE_TO
set -euo pipefail
venv=$(realpath "${1:?virtual environment}")
out=$(realpath "${2:?folder}")
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
PATH="$venv/bin:$PATH" PYTHONPATH=python "$venv/bin/python" -c \
    'import build_backend, sys; print(build_backend.build_sdist(sys.argv[1]))' "$out" >"$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
# maturin's own words come first.
tail -1 "$log"
