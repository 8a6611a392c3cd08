#!/usr/bin/env bash
# Builds a manylinux2014 wheel from the plugin and the command that `make portable` or `make cross` has built.
# usage: wheel.sh RUST_TARGET FOLDER_WITH_THE_BUILT_PROGRAMS
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?Rust target}
built=$(realpath "${2:?folder of the built programs}")
export PATH="$PWD/.tools/venv/bin:$PATH"
(cd python && python3 -c \
    'import build_backend, pathlib, sys; build_backend.place(pathlib.Path(sys.argv[1]))' "$built")
maturin build --quiet --release --zig --compatibility manylinux2014 --target "$target" --out dist
