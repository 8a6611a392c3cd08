#!/usr/bin/env bash
# Builds what `bench/gpu/reliability.sh` plays on a larger machine that has no toolchain, and packs it:
#
#     bench/gpu/carry-reliability.sh FOLDER        # FOLDER gets binaries.tar.xz and root
#
# Needs a nightly compiler with rust-src, and cargo-fuzz (CARGO_FUZZ, else .tools/bin/cargo-fuzz; `make fuzz`
# installs it). `root` is where the tests were built, which is where they look for the repository's data.
set -euo pipefail
folder=$(realpath -m "$1")
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
fuzz=$(realpath "${CARGO_FUZZ:-.tools/bin/cargo-fuzz}")
host=x86_64-unknown-linux-gnu
pack=$target/carry
rm -rf "$pack"
mkdir -p "$pack"/{fast,release,fuzz} "$folder"

scripts/build-sanitized.sh thread "$target/thread" "$pack/thread"
scripts/build-sanitized.sh address "$target/address" "$pack/address"
# Names take half of the room: a report of that machine has addresses, which are those of the tests in
# $target.
find "$pack/thread" "$pack/address" -type f -exec strip --strip-all {} +

# The damaged captures, the kills and the soak: optimized, with the checks of a debug build, as `make damage`
# does.
tests_of() { # CRATE: builds its tests, and says where they are
    CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=1 CARGO_INCREMENTAL=0 cargo test --no-run \
        --message-format=json --target-dir "$target/fast" -p "ncclscope-$1" --test all |
        sed -n "s/.*\"executable\":\"\([^\"]*\/deps\/all-[^\"]*\)\".*/\1/p"
}
for crate in render recorder; do
    strip --strip-all -o "$pack/fast/$crate" "$(tests_of "$crate")"
done

# What users get, for the rate.
CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=1 CARGO_INCREMENTAL=0 cargo build --target-dir \
    "$target/fast" -p ncclscope
strip --strip-all -o "$pack/fast/ncclscope" "$target/fast/debug/ncclscope"

cargo build --release -p ncclscope-recorder -p ncclscope-fake-nccl
for file in fake-nccl libnccl_profiler_ncclscope.so; do
    strip --strip-all -o "$pack/release/$file" "$target/release/$file"
done

(cd fuzz && RUSTUP_TOOLCHAIN=nightly CARGO_INCREMENTAL=0 "$fuzz" fuzz build)
for name in callbacks damaged; do
    strip --strip-all -o "$pack/fuzz/$name" "fuzz/target/$host/release/$name"
done

pwd -P > "$folder/root"
tar -C "$pack" -cf - . | xz --x86 --lzma2=preset=2,dict=128MiB > "$folder/binaries.tar.xz"
du -h "$folder/binaries.tar.xz"
