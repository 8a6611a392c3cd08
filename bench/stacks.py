"""Times calls with a stack of so many frames; see stacks.sh."""

import ctypes
import os
import sys
import threading

nccl = ctypes.CDLL(os.environ["FAKE_NCCL"])
nccl.ncclFakeInit()
thread, busy, depth = sys.argv[1] == "thread", int(sys.argv[2]), int(sys.argv[3])
# More than any cache has.
sweep = ctypes.create_string_buffer(64 << 20)
over = False


def spin():
    n = 0
    while not over:
        n += 1


def times(calls, cold):
    measured = (ctypes.c_double * calls)()
    nccl.ncclFakeTimes(calls, measured, sweep, ctypes.c_size_t(len(sweep) if cold else 0))
    ordered = sorted(measured)
    return ordered[calls // 2], ordered[calls * 99 // 100]


def at(n, *arguments):
    return at(n - 1, *arguments) if n else times(*arguments)


def main():
    # The main thread runs Python code in between, so that it can register the exit function.
    at(depth, 2000, False)
    hot, cold = at(depth, 100_000, False), at(depth, 200, True)
    print("%8.0f %8.0f %8.0f %8.0f" % (*hot, *cold))


for _ in range(busy):
    threading.Thread(target=spin, daemon=True).start()
if thread:
    worker = threading.Thread(target=main)
    worker.start()
    worker.join()
else:
    main()
over = True
