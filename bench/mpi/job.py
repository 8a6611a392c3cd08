#!/usr/bin/env python3
"""Two ranks that call a known number of MPI functions: mpiexec -n 2 python job.py PLUGIN

Loads the plugin as NCCL does, after MPI was opened by mpi4py, and prints what the program did and measured.
"""

import ctypes
import json
import sys
import tempfile
import time

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI  # noqa: E402

MPI.Init_thread()
comm = MPI.COMM_WORLD
rank, other = comm.rank, 1 - comm.rank
plugin = ctypes.CDLL(sys.argv[1])
table = (ctypes.c_void_p * 6).in_dll(plugin, "ncclProfiler_v1")
context, mask = ctypes.c_void_p(), ctypes.c_int()
init = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(table[1])
assert init(ctypes.addressof(context), ctypes.addressof(mask)) == 0

comm.Barrier()
if rank == 1:
    time.sleep(0.5)
begin = time.perf_counter()
comm.Barrier()
took = time.perf_counter() - begin
for _ in range(98):
    comm.Barrier()
buffer = bytearray(1 << 20)
for _ in range(50):
    (comm.Send if rank else comm.Recv)(buffer, other)
    comm.Allreduce(MPI.IN_PLACE, [buffer, 1024, MPI.BYTE], MPI.BOR)
for _ in range(100_000):
    comm.Iprobe()
path = comm.bcast(tempfile.mktemp() if rank == 0 else None)
file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_WRONLY | MPI.MODE_DELETE_ON_CLOSE)
file.Write_at_all(rank << 20, buffer)
file.Close()
time.sleep(1.5)
library = MPI.Get_library_version().split("\n")[0][:40]
MPI.Finalize()
print(json.dumps({"rank": rank, "library": library, "barriers": 100, "second_barrier_s": round(took, 4)}))
ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(table[5])(context)
