#!/usr/bin/env python3
"""Counts the calls in NCCL's own log: what a job did, from a source that is not a profiler.

    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL NCCL_DEBUG_FILE=/tmp/log/nccl.%p torchrun … train.py
    count_nccl_log.py /tmp/log/nccl.*   # JSON: for each file and communicator, calls by function × count

NCCL writes the line on entry, so a call that never returned is in it. A replay of a CUDA graph is not.
"""

import collections
import json
import re
import sys

BYTES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 1, 11: 1}  # ncclDataType_t
LINE = re.compile(
    r"NCCL INFO (\w+): opCount \w+ sendbuff \S+ recvbuff \S+ count (\d+) datatype (\d+) op \d+ root -?\d+ "
    r"comm (\S+) \[nranks=(\d+)\]"
)


def count(path):
    calls, comms = collections.Counter(), {}
    with open(path, errors="replace") as log:
        for line in log:
            found = LINE.search(line)
            if found:
                func, number, datatype, comm, nranks = found.groups()
                name = comms.setdefault(comm, f"comm{len(comms)}({nranks})")
                calls[f"{name} {func} count={number} bytes={int(number) * BYTES.get(int(datatype), 0)}"] += 1
    return calls


def main():
    entries = []
    for path in sys.argv[1:]:
        calls = count(path)
        same = [entry for entry in entries if entry["calls"] == calls]
        if same:
            same[0]["files"].append(path)
        else:
            entries.append({"files": [path], "total": sum(calls.values()), "calls": calls})
    print(
        json.dumps(
            {"total": sum(entry["total"] * len(entry["files"]) for entry in entries), "processes": entries}
        )
    )


if __name__ == "__main__":
    main()
