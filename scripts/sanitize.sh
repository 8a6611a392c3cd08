#!/usr/bin/env bash
# Plays jobs and all items of `fake-nccl check` with the recorder loaded, both built with a sanitizer; fails when it
# reports anything, and also when it does not find the faults of a plugin that has them.
#
#     scripts/sanitize.sh address|thread TARGET-DIR [options of cargo build]
#
# Both are programs and a library with few dependencies, so that they and the standard library are built in minutes. The
# sanitizer's functions are in the program; -rdynamic lets the library find them there.
set -euo pipefail
sanitizer=$1 target=$2
shift 2
cd "$(dirname "$0")/.."
host=x86_64-unknown-linux-gnu
RUSTFLAGS="-Zsanitizer=$sanitizer -Clink-arg=-rdynamic" cargo +nightly build --target "$host" --target-dir "$target" \
    -p fake-nccl -p recorder "$@"
built=$(realpath "$target")/$host/debug
plugin=$built/libnccl_profiler_ncclscope.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rustc +nightly --edition 2021 --crate-type cdylib --target "$host" -O -C panic=abort -Zsanitizer="$sanitizer" \
    -C unsafe-allow-abi-mismatch=sanitizer -o "$work/libbroken.so" scripts/broken_plugin.rs
cd "$work"
export NCCLSCOPE_OUT=$work/capture NCCLSCOPE_QUIET=1 NCCLSCOPE_FLUSH=0.05 NCCLSCOPE_MEMORY=1MiB NCCLSCOPE_MAX_SIZE=64KiB
# A process that a sanitizer has reported something of ends with this, which fake-nccl then says.
export TSAN_OPTIONS=exitcode=66 ASAN_OPTIONS=exitcode=66:detect_leaks=0

cat > threads.job <<'JOB'
ranks 4
per_process 4
comm pair split world every 2
repeat 200 { all_reduce 1KiB x5 ; all_reduce 64KiB comm=pair ; group { send 1MiB to=+1 ; recv 1MiB from=-1 } }
graph step { all_reduce 1KiB x4 }
replay step x20
destroy pair
all_reduce 1KiB x10
JOB
cat > hosts.job <<'JOB'
ranks 4
hosts 2
per_process 4
repeat 100 { all_reduce 1MiB x3 }
JOB

# Runs a command; its words on stderr are shown when it fails or the sanitizer spoke.
clean() {
    local said=$work/said
    if ! "$@" > "$work/result" 2> "$said" || grep -q 'Sanitizer' "$said"; then
        grep -v '^pass' "$work/result" | cut -c1-400
        cat "$said"
        echo "$sanitizer: failed: ${*##*/}" >&2
        exit 1
    fi
}

if "$built/fake-nccl" play threads.job --fast --plugin "$work/libbroken.so" > /dev/null 2> broken; then
    echo "$sanitizer: the faults of broken_plugin were not found, so nothing would be" >&2
    exit 1
fi
grep -m 1 'Sanitizer' broken | cut -c1-120 | sed "s/^/$sanitizer: finds what broken_plugin does: /"
for mode in trace profile full callbacks; do
    for timing in host stamps; do
        for job in threads hosts; do
            rm -rf "$NCCLSCOPE_OUT"
            NCCLSCOPE_MODE=$mode NCCLSCOPE_TIMING=$timing clean "$built/fake-nccl" play "$job.job" --fast --plugin "$plugin"
        done
    done
done
echo "$sanitizer: 16 plays, nothing found"
# `unstopped` takes minutes and measures memory, of which a sanitizer takes more.
faults="stale_stop double_stop null_stop foreign_stop stale_state null_state foreign_parent foreign_context null_context unknown_type unknown_state null_args unrequested null_strings odd_strings foreign_pid repeated_step unstopped_op random_handles late_child"
items="load reload poor_environment name parallel_init late_callbacks exit fork handles every_byte threads many_communicators net_plugin"
for item in ${ITEMS:-$faults $items}; do
    clean "$built/fake-nccl" check --plugin "$plugin" --item "$item"
    echo "$sanitizer: check $item, nothing found"
done
