#!/usr/bin/env bash
# Installs this machine's wheel from dist/ into empty environments, with pip, uvx and pipx, and tries what it
# brings.
# usage: test-wheel.sh FOLDER_WITH_THE_BUILT_PROGRAMS
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
built=$(realpath "${1:?folder of the built programs}")
for wheel in dist/*.whl; do
    .tools/venv/bin/auditwheel show "$wheel" | tr '\n' ' ' | grep -q '"manylinux_2_17_' ||
        { echo "error: $wheel needs more than glibc 2.17"; exit 1; }
    echo "$(basename "$wheel"): glibc 2.17"
    # Command and module each have all readers of captures. A wheel that is much larger has something that
    # nobody needs, such as debug information.
    python3 - "$wheel" 40000000 <<'END'
import os, sys, zipfile

wheel, most = sys.argv[1], int(sys.argv[2])
for part in sorted(zipfile.ZipFile(wheel).infolist(), key=lambda part: -part.compress_size)[:5]:
    print(f"{part.compress_size:10} bytes packed, {part.file_size:10} unpacked: {part.filename}")
size = os.stat(wheel).st_size
sys.exit(f"error: {size} bytes are more than {most}" if size > most else None)
END
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-index --no-deps dist/ncclscope-*"$(uname -m)".whl
# By its path alone, without an activated environment, from elsewhere.
bin=$work/venv/bin
cd "$work"
run() { env -i HOME="$work" NCCLSCOPE_QUIET=1 "$@"; }
run "$bin/ncclscope" --version
plugin=$(run "$bin/ncclscope" plugin-path)
[ "$plugin" -ef "$(run "$bin/python" -c 'import ncclscope; print(ncclscope.plugin_path())')" ]
"$root/scripts/try-installed.sh" "$bin"
printf 'ranks 2\nall_reduce 1MiB x3\n' >job
# As a tool of its own: the command finds the plugin that came with it, wherever it was put.
wheel=$(ls "$root"/dist/ncclscope-*"$(uname -m)".whl)
tool() { env -i HOME="$work" PATH="$PATH" XDG_CACHE_HOME="$work/cache" PIPX_HOME="$work/pipx" \
    PIPX_BIN_DIR="$work/pipx-bin" "$@"; }
uvx() { tool "$root/.tools/venv/bin/uvx" --quiet --no-index --python "$(command -v python3)" --from "$wheel" \
    "$@"; }
[ "$(uvx ncclscope --version)" = "$(run "$bin/ncclscope" --version)" ]
[ -f "$(uvx ncclscope plugin-path)" ]
uvx ncclscope run -o by-uvx -- fake-nccl play job >announced
uvx ncclscope report by-uvx | grep '6 of 6 announced calls recorded'
[ "$(tool "$root/.tools/venv/bin/pipx" run --quiet --pip-args='--no-index --no-deps' --spec "$wheel" \
    ncclscope --version)" = "$(run "$bin/ncclscope" --version)" ]
tool "$root/.tools/venv/bin/pipx" install --quiet --pip-args='--no-index --no-deps' "$wheel"
[ -f "$(tool "$work/pipx-bin/ncclscope" plugin-path)" ]
tool "$work/pipx-bin/ncclscope" run -o by-pipx -- "$work/pipx-bin/fake-nccl" play job >announced
tool "$work/pipx-bin/ncclscope" report by-pipx | grep '6 of 6 announced calls recorded'
# The package that was installed, before all the readers that the tests know.
packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
cd "$root"
scripts/test-python.sh "$built" "$packages" -k "not test_export"
