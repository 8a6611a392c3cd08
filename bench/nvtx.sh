#!/usr/bin/env bash
# What NCCLSCOPE_NVTX=on adds to a call, without a GPU: `fake-nccl bench` with and without it, in turns, under
# a tool that takes ranges and does nothing with them. A real tool's own time comes on top.
#
#     bench/nvtx.sh [ROUNDS]   # 5, of 20 s each; FOLDER has fake-nccl and the plugin (target/release)
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5} folder=${FOLDER:-target/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/tool.c" <<'C'
#include <stdint.h>
struct callbacks { size_t size; int (*table)(uint32_t, void ****, unsigned *); };
static void *create(const char *name) { return (void *)name; }
static int push(void *domain, const void *attributes) { return 0; }
static int pop(void *domain) { return 0; }
int InitializeInjectionNvtx2(const struct callbacks *(*export)(uint32_t)) {
    void ***table;
    unsigned n;
    if (!export(1)->table(5, &table, &n)) return 0;
    *table[4] = (void *)push;
    *table[5] = (void *)pop;
    *table[12] = (void *)create;
    return 1;
}
C
cc -shared -fPIC -O2 -w -include stddef.h -o "$work/tool.so" "$work/tool.c"
for round in $(seq "$rounds"); do
    for nvtx in off on; do
        NCCLSCOPE_OUT="$work/$round.$nvtx" NCCLSCOPE_QUIET=1 NCCLSCOPE_TIMING=stamps NCCLSCOPE_NVTX=$nvtx \
            NVTX_INJECTION64_PATH="$work/tool.so" "$folder/fake-nccl" bench --json --no-kernel-ch \
            --plugin "$folder/libnccl_profiler_ncclscope.so" --rate 10000 --channels 1 --seconds 2 |
            sed "s/^/$nvtx /" >>"$work/all"
        rm -rf "$work/$round.$nvtx"
    done
done
python3 - "$work/all" <<'PYTHON'
import json
import statistics
import sys

ns = {"off": [], "on": []}
for line in open(sys.argv[1]):
    mode, row = line.split(" ", 1)
    ns[mode].append(json.loads(row)["call_ns"])
for mode, values in ns.items():
    print(f"{mode}: {statistics.median(values):.0f} ns a call, {min(values):.0f} to {max(values):.0f}")
more = [on - off for off, on in zip(ns["off"], ns["on"])]
print(f"on more than off: {statistics.median(more):.0f} ns, {min(more):.0f} to {max(more):.0f}")
PYTHON
