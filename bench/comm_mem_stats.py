#!/usr/bin/env python3
"""Asks a real NCCL's `ncclCommMemStats` without a GPU, about a communicator that is made by hand.

    pip download --no-deps nvidia-nccl-cu12==2.32.3 && unzip nvidia_nccl_cu12-*.whl
    bench/comm_mem_stats.py nvidia/nccl/lib/libnccl.so.2

NCCL only checks two magic numbers, an abort flag and a state, and then reads counters of the communicator's
memory manager. Where these lie is read from the library's machine code with objdump, so this works for x86-64
libraries with their symbols, as PyPI has them. It prints NCCL's result and value for each question.
"""

import ctypes
import re
import subprocess
import sys
import time

MAGIC = 0x0280028002800280
SUSPENDABLE, IS_SUSPENDED, PERSISTENT, TOTAL, UNKNOWN = range(5)
# Places in the memory manager, which NCCL 2.29.7 to 2.32.3 have in common.
SUSPENDED_AT, PERSISTENT_AT, SCRATCH_AT, OFFLOAD_AT = 0x38, 0x48, 0x58, 0x68


def offset(library, function, pattern):
    """The first offset in the machine code of a function that fits."""
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    starts = [line.split()[0] for line in symbols.splitlines() if re.search(function, line)]
    start = int(starts[0], 16)
    span = [f"--start-address={start}", f"--stop-address={start + 0x300}"]
    code = subprocess.run(["objdump", "-d", *span, library], capture_output=True, text=True, check=True)
    return int(re.search(pattern, code.stdout)[1], 16)


class Communicator:
    """What NCCL takes for a communicator, whose counters can be set."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.memory = ctypes.create_string_buffer(4 << 20)
        self.manager = ctypes.create_string_buffer(256)
        self.flag = ctypes.c_uint32(0)
        self.at = ctypes.addressof(self.memory)
        end = offset(library, r" _Z9CommCheckP8ncclComm", r"cmp +%r\w+,(0x\w+)\(%rdi\)")
        flag = offset(library, r" _Z19ncclCommEnsureReady", r"mov +(0x\w{5,})\(%rdi\),%rax")
        self.manager_at = offset(library, r" pncclCommMemStats$", r"mov +(0x\w{6,})\(%r14\),%rax")
        self.state_at = offset(library, r" pncclCommGetAsyncError$", r"mov +(0x\w{6,})\(%r12\),%ebx")
        self.word(0, MAGIC)
        self.word(end, MAGIC)
        self.word(flag, ctypes.addressof(self.flag))
        self.word(self.manager_at, ctypes.addressof(self.manager))
        self.set(persistent=1000, scratch=200, offload=30)

    def word(self, offset, value, base=None):
        ctypes.c_uint64.from_address((base or self.at) + offset).value = value

    def set(self, persistent, scratch, offload, suspended=0):
        manager = ctypes.addressof(self.manager)
        for place, value in [(PERSISTENT_AT, persistent), (SCRATCH_AT, scratch), (OFFLOAD_AT, offload)]:
            self.word(place, value, manager)
        ctypes.c_int32.from_address(manager + SUSPENDED_AT).value = suspended

    def state(self, state):
        ctypes.c_int32.from_address(self.at + self.state_at).value = state

    def ask(self, kind, comm=None):
        value = ctypes.c_uint64(0)
        comm = self.at if comm is None else comm
        result = self.library.ncclCommMemStats(ctypes.c_void_p(comm), kind, ctypes.byref(value))
        return result, value.value


def main():
    comm = Communicator(sys.argv[1])
    version = ctypes.c_int()
    comm.library.ncclGetVersion(ctypes.byref(version))
    kinds = [SUSPENDABLE, IS_SUSPENDED, PERSISTENT, TOTAL, UNKNOWN]
    print("NCCL", version.value)
    print("suspendable, suspended, persistent, total, unknown:", [comm.ask(kind) for kind in kinds])
    comm.set(1000, 200, 30, suspended=1)
    print("the same while suspended:", [comm.ask(kind) for kind in kinds[:4]])
    comm.set((1 << 64) - 5000, 200, 30)
    print("persistent below zero:", comm.ask(PERSISTENT), comm.ask(TOTAL))
    comm.set(1000, 200, 30)
    for state, what in [(7, "something pending"), (6, "a remote error")]:
        comm.state(state)
        print(f"{what}:", comm.ask(TOTAL))
    comm.state(0)
    comm.word(comm.manager_at, 0)
    print("no memory manager:", comm.ask(TOTAL))
    comm.word(comm.manager_at, ctypes.addressof(comm.manager))
    comm.word(0, 0)
    print("destroyed:", comm.ask(TOTAL))
    comm.word(0, MAGIC)
    print("null:", comm.ask(TOTAL, 0))
    begin, n = time.perf_counter(), 100_000
    value = ctypes.c_uint64()
    question, at, to = comm.library.ncclCommMemStats, ctypes.c_void_p(comm.at), ctypes.byref(value)
    for _ in range(n):
        question(at, TOTAL, to)
    print(f"{(time.perf_counter() - begin) / n * 1e9:.0f} ns for a question, Python's call included")


if __name__ == "__main__":
    main()
