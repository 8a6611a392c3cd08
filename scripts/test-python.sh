#!/usr/bin/env bash
# Tests the Python package, and the exports with the readers that users have.
# usage: test-python.sh FOLDER_WITH_THE_BUILT_PROGRAMS [FOLDER_WITH_THE_PACKAGE [ARGUMENTS OF PYTEST]]
set -euo pipefail
cd "$(dirname "$0")/.."
built=$(realpath "${1:?folder of the built programs}")
package=${2:-}
if [ -z "$package" ]; then
    package=$built/python
    scripts/stage-python.sh "$built" "$package"
fi
# The Perfetto UI is opened in a real browser, where there is one or one can be had.
scripts/test-tools.sh
env -u NCCL_PROFILER_PLUGIN -u NCCLSCOPE_PLUGIN NCCLSCOPE_BIN="$built" PYTHONPATH="$package" \
    PYTHONDONTWRITEBYTECODE=1 \
    "${PYTHON:-.tools/python/bin/python}" -m pytest -q "${@:3}"
