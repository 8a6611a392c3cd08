#!/usr/bin/env bash
# Installs this machine's wheel from dist/ into an empty environment and tries what it brings there.
# usage: test-wheel.sh FOLDER_WITH_FAKE_NCCL
set -euo pipefail
cd "$(dirname "$0")/.."
built=$(realpath "${1:?folder of the built programs}")
for wheel in dist/*.whl; do
    .tools/venv/bin/auditwheel show "$wheel" | tr '\n' ' ' | grep -q '"manylinux_2_17_' ||
        { echo "error: $wheel needs more than glibc 2.17"; exit 1; }
    echo "$(basename "$wheel"): glibc 2.17"
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
printf 'ranks 2\nall_reduce 1MiB x3\n' >job
run "$bin/ncclscope" run -o capture -- "$built/fake-nccl" play job >announced
run "$bin/ncclscope" report capture | grep '6 of 6 announced calls recorded'
run "$bin/python" - "$built/fake-nccl" <<'END'
import subprocess, sys
import ncclscope
with ncclscope.record("recorded") as recording:
    subprocess.run([sys.argv[1], "play", "job"], check=True, stdout=subprocess.DEVNULL)
print(recording.open(), repr(recording.open().report()), sep="\n")
END
# The package that was installed, before all the readers that the tests know.
packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
cd - >/dev/null
scripts/test-python.sh "$built" "$packages" -k "not test_export"
