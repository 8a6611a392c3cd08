#!/usr/bin/env bash
# Builds what `sanitize.sh` plays, with a sanitizer, and puts it into one folder that needs no toolchain:
#
#     scripts/build-sanitized.sh address|thread TARGET-DIR FOLDER
#
# fake-nccl, the plugin, the stand-in for CUDA, a plugin with faults, and in deps/ the recorder's tests (which
# look for the others where cargo puts them, one folder up). The sanitizer's functions are in the programs,
# which export them for the libraries. The thread sanitizer must know the standard library, so that is built
# too. Line tables stay in TARGET-DIR: `llvm-symbolizer` finds what a report's addresses are.
set -euo pipefail
sanitizer=$1 target=$2 folder=$3
cd "$(dirname "$0")/.."
host=x86_64-unknown-linux-gnu
build=(--target "$host" --target-dir "$target")
[ "$sanitizer" = address ] || build+=(-Zbuild-std)
case $sanitizer in
address) prefix=__asan ;;
thread) prefix=__tsan ;;
esac
export RUSTFLAGS="-Zsanitizer=$sanitizer"
for symbol in "${prefix}_*" __interceptor_pthread_create; do
    RUSTFLAGS+=" -Clink-arg=-Wl,--export-dynamic-symbol=$symbol"
done
# Optimized a little, or the plays take minutes; what the debug build checks stays on.
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only CARGO_INCREMENTAL=0
cargo +nightly build "${build[@]}" -p ncclscope-recorder -p ncclscope-fake-nccl -p ncclscope-fake-cuda
# The names of the tests' files have a hash: cargo says which are today's.
tests=$(cargo +nightly test --no-run --message-format=json "${build[@]}" -p ncclscope-recorder |
    sed -n 's/.*"executable":"\([^"]*\/deps\/[^"]*\)".*/\1/p')
built=$target/$host/debug
rm -rf "$folder"
mkdir -p "$folder/deps"
for file in "$built"/fake-nccl "$built"/libnccl_profiler_ncclscope.so "$built"/libfake_cuda.so $tests; do
    to=$folder/$(basename "$file")
    [[ $file != */deps/* ]] || to=$folder/deps/$(basename "${file%-*}")
    strip --strip-debug -o "$to" "$file"
done
ln -sf ../libnccl_profiler_ncclscope.so "$folder/deps/libnccl_profiler_ncclscope.so"
RUSTFLAGS='' rustc +nightly --edition 2021 --crate-type cdylib --target "$host" -O -C panic=abort \
    -Zsanitizer="$sanitizer" -C unsafe-allow-abi-mismatch=sanitizer -C strip=debuginfo \
    -o "$folder/libbroken.so" scripts/broken_plugin.rs
# Unit tests of the recorder play no job.
rm -f "$folder"/deps/nccl_profiler_ncclscope
