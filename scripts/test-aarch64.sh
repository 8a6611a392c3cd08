#!/usr/bin/env bash
# Runs the tests of the file format and of the ABI tables as aarch64 code under emulation, where the emulator
# can be had.
set -euo pipefail
cd "$(dirname "$0")/.."
# musl: the programs are then static, and need no aarch64 libc here.
target=aarch64-unknown-linux-musl
scripts/test-tools.sh
if ! command -v qemu-aarch64-static >/dev/null; then
    echo "aarch64: built, not run: there is no qemu-aarch64-static (Debian's package qemu-user-static)"
    exit 0
fi
rustup target add "$target"
export PATH="$PWD/.tools/venv/bin:$PATH"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64-static
cargo-zigbuild test --quiet -p ncclscope-capture -p ncclscope-nccl-abi --target "$target"
