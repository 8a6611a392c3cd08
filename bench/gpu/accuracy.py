#!/usr/bin/env python3
"""Compares the GPU times in captures with those that `nccl_calls.py held` took itself, call by call.

    accuracy.py CAPTURE TRUTH [CAPTURE TRUTH …]

TRUTH is the folder given as `--truth`. Prints, for each function and size, the median, 95th and 99th
percentile of the error (capture minus truth, µs) over all calls of all ranks that were made behind the gate,
and how many calls had no trusted time. Needs `import ncclscope` and pyarrow.
"""

import glob
import json
import os
import sys

import ncclscope
import pyarrow as pa

NAMES = {"SendRecv": ("Send", "Recv")}


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def of_rank(table, rank, function, size, nranks):
    """GPU times (µs, None where untrusted) of one rank's calls of one kind, in order; a pair's are those of
    its launch.
    """
    rows = [r for r in table if r["rank"] == rank and not r["captured"]]
    if function == "SendRecv":
        groups = {}
        for row in rows:
            if row["function"] in ("Send", "Recv") and row["bytes"] == size:
                groups.setdefault(row["group_id"], []).append(row)
        return [span(parts) for _, parts in sorted(groups.items())]
    return [span([r]) for r in rows if r["function"] == function and r["bytes"] == size]


def span(rows):
    """From first start to last stop; a batch's time is that of the pair it is made of."""
    if any(r["untimed"] not in (None, "fused") or not r["gpu_start_ns"] for r in rows):
        return None
    return (max(r["gpu_stop_ns"] for r in rows) - min(r["gpu_start_ns"] for r in rows)) / 1e3


def main():
    pairs = list(zip(sys.argv[1::2], sys.argv[2::2]))
    print(
        f"{'capture':<22} {'function':<14} {'bytes':>11} {'calls':>6} {'none':>5} {'p50 err us':>11} "
        f"{'p95':>8} {'p99':>8} {'p50 err %':>10} {'truth p50':>10}"
    )
    for capture, truth in pairs:
        table = pa.table(ncclscope.open(capture).calls)
        for name in ("gpu_start_ns", "gpu_stop_ns"):
            table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))
        table = table.to_pylist()
        found = {}
        ranks = sorted(glob.glob(os.path.join(truth, "rank-*.truth.json")))
        for rank, path in enumerate(ranks):
            wanted = {}
            for function, size, took in json.load(open(path)):
                wanted.setdefault((function, size), []).append(took)
            for (function, size), times in wanted.items():
                mine = of_rank(table, rank, function, size, len(ranks))
                if len(mine) != len(times):
                    sys.exit(
                        f"{capture}: rank {rank} made {len(times)} {function} of {size} bytes, and "
                        f"the capture has {len(mine)}"
                    )
                entry = found.setdefault((function, size), [])
                entry += [(m, t) for m, t in zip(mine, times) if t is not None]
        for (function, size), both in found.items():
            errors = [m - t for m, t in both if m is not None]
            share = [abs(m - t) / t * 100 for m, t in both if m is not None]
            if not errors:
                print(
                    f"{os.path.basename(capture):<22} {function:<14} {size:>11} {len(both):>6} {len(both):>5}"
                )
                continue
            absolute = [abs(e) for e in errors]
            print(
                f"{os.path.basename(capture):<22} {function:<14} {size:>11} {len(both):>6} "
                f"{len(both) - len(errors):>5} "
                f"{percentile(errors, 0.5):>11.2f} {percentile(absolute, 0.95):>8.2f} "
                f"{percentile(absolute, 0.99):>8.2f} {percentile(share, 0.5):>10.2f} "
                f"{percentile([t for _, t in both], 0.5):>10.1f}"
            )


if __name__ == "__main__":
    main()
