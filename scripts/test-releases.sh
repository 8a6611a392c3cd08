#!/usr/bin/env bash
# Tries the plugin with releases of NCCL as PyPI has them, without a GPU.
#
# usage: scripts/test-releases.sh [PACKAGE==VERSION…]
#
# Without arguments: all releases with a profiler interface, of nvidia-nccl-cu12 and nvidia-nccl-cu13. For
# each one:
#
# 1. Its library is downloaded (about 300 MB; one at a time, and removed after that).
# 2. The ABIs that it looks up are those that crates/nccl-abi/src/release.rs lists.
# 3. fake-nccl plays a job of that release through the plugin.
# 4. The library's own host side runs two ranks on this CPU, over stubs of CUDA (scripts/releases). It loads
#    the plugin by itself, and the report has every call that the ranks made.
# 5. The same with another plugin behind ncclscope's. It gets the events that it gets alone.
#
# `make tests-built` comes first. Each line of the output is a release.
set -euo pipefail
cd "$(dirname "$0")/.."

built=${BUILT:-$PWD/target/debug}
plugin=$built/libnccl-profiler-ncclscope.so
log=$built/examples/liblog_plugin.so
place=$PWD/target/releases
mkdir -p "$place"
rm -f "$place"/*.whl

cc -O1 -Wall -Wextra -Werror -o "$place/host_side" scripts/releases/host_side.c -ldl
cc -shared -fPIC -Wall -Wextra -Werror -o "$place/libnvidia-ml.so.1" scripts/releases/nvml.c

releases=("$@")
if [ ${#releases[@]} = 0 ]; then
    for package in nvidia-nccl-cu12 nvidia-nccl-cu13; do
        for version in $(python3 -m pip index versions "$package" 2> /dev/null |
            sed -n 's/^Available versions: //p' | tr -d ',' | tr ' ' '\n' | grep -v post | sort -V); do
            if [ "$(printf '2.23\n%s\n' "$version" | sort -V | head -1)" = 2.23 ]; then
                releases+=("$package==$version")
            fi
        done
    done
fi

fail() {
    echo "$release: $1" >&2
    failed=1
}

# Two ranks of the library's host side; the rest are variables for them. Both must end well.
host_side() {
    local folder=$place/ranks status=0 pids=()
    rm -rf "$folder"
    mkdir "$folder"
    for rank in 0 1; do
        env RANK=$rank NCCLSCOPE_QUIET=1 LD_LIBRARY_PATH="$place:$built:$built/examples" \
            NCCL_TOPO_FILE="$PWD/scripts/releases/gpus.xml" NCCL_P2P_DISABLE=1 \
            NCCL_CUMEM_ENABLE=0 NCCL_CUMEM_HOST_ENABLE=0 NCCL_NVLS_ENABLE=0 NCCL_IB_DISABLE=1 \
            NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,PROFILE "$@" \
            timeout 60 "$place/host_side" "$library" $rank 2 "$folder" > "$folder/out.$rank" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=$?
    done
    return $status
}

# What the logging plugin was told by all ranks: kinds of events, and how often.
told() {
    cat "$1"/*.jsonl | grep -oE '"call":"[a-z]*"|"type":"[A-Za-z]*"|"state":"[A-Za-z]*"' | sort | uniq -c
}

failed=0
for release in "${releases[@]}"; do
    version=${release#*==}
    rm -rf "$place/wheel"
    python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$place/wheel" "$release"
    python3 -m zipfile -e "$place"/wheel/*.whl "$place/wheel"
    rm -f "$place"/wheel/*.whl
    library=$(echo "$place"/wheel/nvidia/*/lib/libnccl.so.2)

    native=$(grep -aoE 'ncclProfiler_v[0-9]+' "$library" | sort -Vu | tail -1)
    native=${native#ncclProfiler_v}
    IFS=. read -r major minor patch <<< "$version"
    number=$((10#$major * 10000 + 10#$minor * 100 + 10#$patch))
    grep -qE "row\($number, $native\)" crates/nccl-abi/src/release.rs ||
        fail "it looks up v$native, and release.rs does not say so"

    capture=$place/capture
    rm -rf "$capture"
    printf 'nccl %s\nranks 2\nhosts 2\nall_reduce 1MiB x10\n%s\n' "$version" \
        'group { send 1MiB to=+1 ; recv 1MiB from=-1 }' |
        env NCCL_PROFILER_PLUGIN="$plugin" NCCLSCOPE_OUT="$capture" NCCLSCOPE_QUIET=1 \
            "$built/fake-nccl" play - > /dev/null || fail "fake-nccl did not play it"
    "$built/ncclscope" report "$capture" > "$place/report" || true
    grep -q '24 of 24 announced calls recorded' "$place/report" || fail "a played job is not whole"

    named=$plugin named_log=$log
    if [ "$version" = 2.27.3 ]; then
        # NVIDIA/nccl#1732: this release does not load a plugin that is given by its path.
        named=ncclscope named_log=liblog_plugin.so
    fi
    rm -rf "$capture"
    host_side NCCL_PROFILER_PLUGIN="$named" NCCLSCOPE_OUT="$capture" ||
        { tail -n 5 "$place"/ranks/out.* >&2; fail "the host side failed"; }
    "$built/ncclscope" report "$capture" > "$place/report" || true
    whole=$(sed -n 's/^ *\([0-9]* of [0-9]* announced calls recorded\).*/\1/p' "$place/report")
    [ "$whole" = '40 of 40 announced calls recorded' ] || fail "the host side's calls: ${whole:-none}"
    grep -q "NCCL $version" "$place/report" || fail "the report does not say which release it was"

    # Everything but KernelCh and KernelPhase: no kernel runs that could stamp them.
    rm -rf "$capture" "$place/alone" "$place/behind"
    mkdir "$place/alone" "$place/behind"
    host_side NCCL_PROFILER_PLUGIN="$named_log" LOG_PLUGIN_MASK=7f1f LOG_PLUGIN_OUT="$place/alone" ||
        fail "the host side failed with another plugin alone"
    host_side NCCL_PROFILER_PLUGIN="$named" NCCLSCOPE_OUT="$capture" NCCLSCOPE_CHAIN="$log" \
        LOG_PLUGIN_MASK=7f1f LOG_PLUGIN_OUT="$place/behind" ||
        fail "the host side failed with a plugin behind"
    diff <(told "$place/alone") <(told "$place/behind") >&2 ||
        fail "a plugin behind got other events than alone"

    echo "$release: ABI v$native; played; host side: $whole; plugin behind: $(told "$place/behind" |
        awk '/"start"/ { print $1 }') events, as alone"
done
rm -rf "$place/wheel"
exit $failed
