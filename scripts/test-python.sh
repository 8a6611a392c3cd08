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
if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$(id -u)" = 0 ] &&
    command -v apt-get >/dev/null; then
    (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium) >/dev/null 2>&1 || true
fi
env -u NCCL_PROFILER_PLUGIN -u NCCLSCOPE_PLUGIN NCCLSCOPE_BIN="$built" PYTHONPATH="$package" \
    PYTHONDONTWRITEBYTECODE=1 \
    .tools/python/bin/python -m pytest -q "${@:3}"
