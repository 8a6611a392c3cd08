#!/usr/bin/env python3
"""Makes known NCCL calls on real GPUs and prints, as one JSON line, exactly which calls each rank made.

The parent starts one process per rank (`threads` is one process for all GPUs), watches them, and reads their
tallies. A tally lives in a file mapped by the rank, so it is exact however the rank ends, SIGKILL included: a
call counts once it has returned, and `inside` names one that never did.

The library is called through ctypes, without torch, so that start-up is quick and nothing else talks to NCCL.

Rule: NVLink multicast stays off. `NCCL_NVLS_ENABLE=0` is set here for every rank, whatever the environment
says.
"""

import argparse
import collections
import ctypes
import glob
import json
import lzma
import mmap
import os
import shutil
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FLOAT32, SUM = 7, 0  # ncclFloat32, ncclSum
IN_PROGRESS = 7  # ncclInProgress
CAPTURE_THREAD_LOCAL = 1
SYMMETRIC = 1  # NCCL_WIN_COLL_SYMMETRIC
NON_BLOCKING_STREAM = 1


class Failure(Exception):
    pass


# ---------------------------------------------------------------- libraries


def site_packages():
    return dict.fromkeys(
        [sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], *filter(os.path.isdir, sys.path)]
    )


def unpack(path):
    """Path of the library in `path`, unpacked to /tmp/nccl-*/libnccl.so.2 where `path` ends in .xz."""
    if not path.endswith(".xz"):
        return os.path.abspath(path)
    folder = os.path.join("/tmp", os.path.basename(path).removesuffix(".xz").removesuffix(".so"))
    library = os.path.join(folder, "libnccl.so.2")
    if not os.path.exists(library):
        os.makedirs(folder, exist_ok=True)
        part = f"{library}.{os.getpid()}"
        with lzma.open(path) as packed, open(part, "wb") as out:
            shutil.copyfileobj(packed, out, 1 << 24)
        os.chmod(part, 0o755)
        os.rename(part, library)
    return library


def find_nccl(wanted):
    preloaded = mapped("libnccl.so")
    if wanted and preloaded and not os.path.samefile(unpack(wanted), preloaded):
        raise Failure(f"--nccl {wanted} and the preloaded {preloaded} would mix; use one of them")
    if wanted:
        return unpack(wanted)
    if preloaded:
        return preloaded
    for site in site_packages():
        for found in sorted(glob.glob(f"{site}/nvidia/nccl/lib/libnccl.so.2")):
            return found
    return "libnccl.so.2"


def find_cudart(wanted):
    if wanted:
        return wanted
    patterns = [
        f"{site}/nvidia/{sub}/lib/libcudart.so.1*"
        for site in site_packages()
        for sub in ("cu13", "cuda_runtime", "cu12")
    ]
    for pattern in patterns + [
        "/usr/local/cuda/lib64/libcudart.so.1?",
        "/usr/local/cuda*/lib64/libcudart.so.1?",
    ]:
        for found in sorted(glob.glob(pattern), reverse=True):
            return found
    return "libcudart.so.13"


def mapped(name):
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(None, 5)[5].strip() if line.count("/") else ""
            if os.path.basename(path).startswith(name):
                return path
    return None


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class OldConfig(ctypes.Structure):
    """ncclConfig_t as of 2.14: newer libraries take defaults for what it lacks, going by `version`."""

    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int)]


class SharingConfig(ctypes.Structure):
    """ncclConfig_t as of 2.27, up to the last field that is used here."""
    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int),
                ("cga_cluster_size", c_int), ("min_ctas", c_int), ("max_ctas", c_int), ("net_name", c_char_p),
                ("split_share", c_int), ("traffic_class", c_int), ("comm_name", c_char_p),
                ("collnet_enable", c_int), ("cta_policy", c_int), ("shrink_share", c_int),
                ("nvls_ctas", c_int)]

    def __init__(self, name):
        super().__init__()
        for field, kind in self._fields_:
            if kind is c_int:
                setattr(self, field, -(1 << 31))  # not set
        self.size, self.magic, self.version = ctypes.sizeof(self), 0xCAFEBEEF, 22700
        self.split_share = self.shrink_share = 1
        self.comm_name = name


class Cuda:
    SIGNATURES = {
        "cudaGetDeviceCount": [POINTER(c_int)],
        "cudaSetDevice": [c_int],
        "cudaMalloc": [POINTER(c_void_p), c_size_t],
        "cudaMemset": [c_void_p, c_int, c_size_t],
        "cudaDeviceSynchronize": [],
        "cudaStreamCreateWithFlags": [POINTER(c_void_p), c_uint],
        "cudaStreamSynchronize": [c_void_p],
        "cudaStreamBeginCapture": [c_void_p, c_int],
        "cudaStreamEndCapture": [c_void_p, POINTER(c_void_p)],
        "cudaGraphInstantiateWithFlags": [POINTER(c_void_p), c_void_p, c_ulonglong],
        "cudaGraphLaunch": [c_void_p, c_void_p],
        "cudaGraphExecDestroy": [c_void_p],
        "cudaGraphDestroy": [c_void_p],
        "cudaHostAlloc": [POINTER(c_void_p), c_size_t, c_uint],
        "cudaEventCreateWithFlags": [POINTER(c_void_p), c_uint],
        "cudaEventRecord": [c_void_p, c_void_p],
        "cudaEventElapsedTime": [POINTER(c_float), c_void_p, c_void_p],
    }

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.cudaGetErrorString.restype, self.lib.cudaGetErrorString.argtypes = c_char_p, [c_int]
        for name, args in self.SIGNATURES.items():
            getattr(self.lib, name).argtypes, getattr(self.lib, name).restype = args, c_int

    def __getattr__(self, short):  # cuda.SetDevice(0): calls cudaSetDevice and checks its answer
        name = "cuda" + short
        raw = getattr(self.lib, name)

        def call(*args):
            rc = raw(*args)
            if rc:
                raise Failure(f"{name} returned {rc} ({self.lib.cudaGetErrorString(rc).decode()})")

        setattr(self, short, call)
        return call

    def malloc(self, size):
        at = c_void_p()
        self.Malloc(byref(at), size)
        self.Memset(at, 0, size)
        return at.value

    def stream(self):
        at = c_void_p()
        self.StreamCreateWithFlags(byref(at), NON_BLOCKING_STREAM)
        return at


class Nccl:
    SIGNATURES = {
        "ncclGetVersion": [POINTER(c_int)],
        "ncclGetUniqueId": [POINTER(UniqueId)],
        "ncclCommInitRank": [POINTER(c_void_p), c_int, UniqueId, c_int],
        "ncclCommInitRankConfig": [POINTER(c_void_p), c_int, UniqueId, c_int, c_void_p],
        "ncclCommInitAll": [POINTER(c_void_p), c_int, POINTER(c_int)],
        "ncclCommSplit": [c_void_p, c_int, c_int, POINTER(c_void_p), c_void_p],
        "ncclCommShrink": [c_void_p, POINTER(c_int), c_int, POINTER(c_void_p), c_void_p, c_int],
        "ncclCommGetAsyncError": [c_void_p, POINTER(c_int)],
        "ncclCommFinalize": [c_void_p],
        "ncclCommDestroy": [c_void_p],
        "ncclGroupStart": [],
        "ncclGroupEnd": [],
        "ncclAllReduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "ncclReduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p],
        "ncclBroadcast": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "ncclAllGather": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p],
        "ncclReduceScatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "ncclAlltoAll": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p],
        "ncclGather": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "ncclScatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "ncclSend": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "ncclRecv": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    }

    def __init__(self, path):
        self.path = path
        self.lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)  # as in a program linked with it
        self.lib.ncclGetErrorString.restype, self.lib.ncclGetErrorString.argtypes = c_char_p, [c_int]
        self.lib.ncclGetLastError.restype, self.lib.ncclGetLastError.argtypes = c_char_p, [c_void_p]
        for name, args in self.SIGNATURES.items():
            if self.has(name):
                getattr(self.lib, name).argtypes, getattr(self.lib, name).restype = args, c_int
        code = c_int()
        self.check("ncclGetVersion", self.lib.ncclGetVersion(byref(code)))
        self.version = f"{code.value // 10000}.{code.value // 100 % 100}.{code.value % 100}"

    def has(self, name):
        return hasattr(self.lib, name)

    def check(self, name, rc, comm=None):
        if rc:
            last = self.lib.ncclGetLastError(comm) or b""
            raise Failure(
                f"{name} returned {rc} ({self.lib.ncclGetErrorString(rc).decode()}) "
                f"{last.decode(errors='replace')}"
            )

    def call(self, name, *args):
        self.check(name, getattr(self.lib, name)(*args))

    def unique_id(self, path, makes):
        """The id of a communicator: one rank `makes` it, and all read it from the file."""
        if makes:
            new = UniqueId()
            self.call("ncclGetUniqueId", byref(new))
            with open(path + ".part", "wb") as file:
                file.write(bytes(new))
            os.rename(path + ".part", path)
        while not os.path.exists(path):
            time.sleep(0.0002)
        with open(path, "rb") as file:
            return UniqueId.from_buffer_copy(file.read())


# ---------------------------------------------------------------- what a rank did


class Tally:
    """Counts of one rank in a mapped file of 64-bit slots: 0 inside (key + 1, 0 outside), 1 calls returned,
    8… one per key.
    """

    SLOTS = 512

    def __init__(self, folder, rank, kill_at=0):
        self.rank, self.kill_at, self.keys, self.base = (
            rank,
            kill_at,
            {},
            os.path.join(folder, f"rank-{rank}"),
        )
        with open(self.base + ".counts", "w+b") as file:
            file.truncate(8 * self.SLOTS)
            self.map = mmap.mmap(file.fileno(), 8 * self.SLOTS)
        self.slots = (ctypes.c_longlong * self.SLOTS).from_buffer(self.map)
        self.comms, self.extra = {}, {}
        self.phase("start")

    def phase(self, text):
        with open(self.base + ".phase", "w") as file:
            file.write(text)

    def key(self, comm, func, size, count, how):
        """Slot for one kind of call. `size` in bytes as nccl-tests counts it, `count` is the API's own
        argument.
        """
        name = f"{comm} {func} bytes={size} count={count} {how}"
        if name not in self.keys:
            self.keys[name] = 8 + len(self.keys)
            if self.keys[name] >= self.SLOTS:
                raise Failure("too many kinds of calls for one tally")
            with open(self.base + ".keys", "a") as file:
                file.write(name + "\n")
        return self.keys[name]

    def comm(self, name, nranks):
        self.comms[name] = nranks
        self.note("comms", self.comms)

    def note(self, name, value):
        """Something to report beside the counts, such as times. Written at once."""
        self.extra[name] = value
        with open(self.base + ".part", "w") as file:
            json.dump(self.extra, file)
        os.rename(self.base + ".part", self.base + ".json")

    def returned(self, slot):
        slots = self.slots
        slots[slot] += 1
        slots[1] += 1
        slots[0] = 0
        if slots[1] == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def read_tally(folder, rank):
    base = os.path.join(folder, f"rank-{rank}")
    if not os.path.exists(base + ".counts"):
        return {"phase": "never started", "inside": None, "total": 0, "calls": {}, "extra": {}}
    with open(base + ".counts", "rb") as file:
        slots = memoryview(file.read()).cast("q")
    keys = open(base + ".keys").read().splitlines() if os.path.exists(base + ".keys") else []
    inside = keys[slots[0] - 8] if 8 <= slots[0] < 8 + len(keys) else None
    extra = json.load(open(base + ".json")) if os.path.exists(base + ".json") else {}
    return {
        "phase": open(base + ".phase").read(),
        "inside": inside,
        "total": slots[1],
        "calls": {key: slots[8 + i] for i, key in enumerate(keys) if slots[8 + i]},
        "extra": extra,
    }


# ---------------------------------------------------------------- one rank


Comm = collections.namedtuple("Comm", "name handle rank nranks stream")


class Rank:
    """One rank on one GPU. In `threads` several live in one process."""

    def __init__(self, cuda, nccl, tally, folder, rank, nranks, device, largest):
        self.cuda, self.nccl, self.tally, self.folder = cuda, nccl, tally, folder
        self.rank, self.nranks, self.device, self.comms, self.legacy = rank, nranks, device, [], False
        cuda.SetDevice(device)
        self.room = max(largest, MIB)
        self.send, self.recv = cuda.malloc(self.room), cuda.malloc(self.room)
        cuda.DeviceSynchronize()

    def meet(self, name):
        """Waits until every rank got here. Files, because NCCL is what is being tested."""
        open(os.path.join(self.folder, f"meet-{name}-{self.rank}"), "w").close()
        others = [os.path.join(self.folder, f"meet-{name}-{r}") for r in range(self.nranks)]
        while not all(map(os.path.exists, others)):
            time.sleep(0.0005)

    def unique_id(self, name):
        return self.nccl.unique_id(os.path.join(self.folder, f"id-{name}"), self.rank == 0)

    def adopt(self, name, handle, rank, nranks):
        comm = Comm(name, handle, rank, nranks, c_void_p(None) if self.legacy else self.cuda.stream())
        self.comms.append(comm)
        self.tally.comm(name, nranks)
        return comm

    def init(self, name):
        self.tally.phase(f"ncclCommInitRank {name}")
        handle = c_void_p()
        self.nccl.call("ncclCommInitRank", byref(handle), self.nranks, self.unique_id(name), self.rank)
        return self.adopt(name, handle, self.rank, self.nranks)

    def split(self, name, parent, color, nranks):
        self.tally.phase(f"ncclCommSplit {name}")
        handle = c_void_p()
        self.nccl.call("ncclCommSplit", parent.handle, color, parent.rank, byref(handle), None)
        return self.adopt(name, handle, None, nranks)

    def sync(self, comm):
        self.cuda.StreamSynchronize(comm.stream)

    def prepare(self, comm, func, size, how="eager", root=0, peer=0, at=0):
        """A function that makes this call once and counts it.

        `size` follows nccl-tests: the total for AllGather and ReduceScatter and the native AlltoAll, Gather,
        Scatter; the message for everything else.
        """
        shared = func in ("AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter")
        count = size // 4 // comm.nranks & ~3 if shared else size // 4
        if count == 0 or at + size > self.room:
            raise Failure(
                f"{func} of {size} bytes at {at} does not fit {comm.nranks} ranks and buffers of {self.room}"
            )
        n, send, recv, handle, stream = (
            c_size_t(count),
            c_void_p(self.send + at),
            c_void_p(self.recv + at),
            comm.handle,
            comm.stream,
        )
        args = {
            "AllReduce": (send, recv, n, FLOAT32, SUM, handle, stream),
            "ReduceScatter": (send, recv, n, FLOAT32, SUM, handle, stream),
            "Reduce": (send, recv, n, FLOAT32, SUM, root, handle, stream),
            "Broadcast": (send, recv, n, FLOAT32, root, handle, stream),
            "AllGather": (send, recv, n, FLOAT32, handle, stream),
            "AlltoAll": (send, recv, n, FLOAT32, handle, stream),
            "Gather": (send, recv, n, FLOAT32, root, handle, stream),
            "Scatter": (send, recv, n, FLOAT32, root, handle, stream),
            "Send": (send, n, FLOAT32, peer, handle, stream),
            "Recv": (recv, n, FLOAT32, peer, handle, stream),
        }[func]
        raw, check, name, tally = (
            getattr(self.nccl.lib, "nccl" + func),
            self.nccl.check,
            "nccl" + func,
            self.tally,
        )
        slot, slots = tally.key(comm.name, func, size, count, how), tally.slots
        allowed = (0, IN_PROGRESS) if comm.name == "nonblocking" else (0,)

        def call():
            slots[0] = slot
            rc = raw(*args)
            if rc not in allowed:
                check(name, rc, handle)
            tally.returned(slot)

        return call

    def group(self, comm, calls, how="eager"):
        """Makes `calls` inside ncclGroupStart and ncclGroupEnd. Groups are counted apart, as `Group`."""
        slot = self.tally.key(comm.name, "Group", 0, len(calls), how)
        self.nccl.call("ncclGroupStart")
        for call in calls:
            call()
        rc = self.nccl.lib.ncclGroupEnd()
        if rc and not (rc == IN_PROGRESS and comm.name == "nonblocking"):
            self.nccl.check("ncclGroupEnd", rc)
        self.tally.slots[slot] += 1

    def destroy(self, opts):
        for comm in self.comms:
            self.sync(comm)
        self.meet("end")
        if not opts.no_destroy:
            for comm in reversed(self.comms):
                self.tally.phase(f"ncclCommDestroy {comm.name}")
                rc = self.nccl.lib.ncclCommDestroy(comm.handle)
                if not (rc == IN_PROGRESS and comm.name == "nonblocking"):
                    self.nccl.check("ncclCommDestroy", rc)
        self.tally.phase("done")


def case_paper(rank, opts):
    world = rank.init("world")
    for func in opts.functions.split(","):
        for size in (KIB, 32 * KIB, MIB, 32 * MIB, GIB):
            if size > opts.max_bytes:
                continue
            rank.tally.phase(f"{func} {size}")
            call = rank.prepare(world, func, size)
            times = []
            for _ in range(opts.iterations):
                began = time.perf_counter()
                call()
                rank.sync(world)
                times.append((time.perf_counter() - began) * 1e6)
            rank.tally.note(f"{func} {size} p50_us", round(statistics.median(times[len(times) // 9 :]), 1))


def case_flood(rank, opts):
    world = rank.init("world")
    call = rank.prepare(world, "AllReduce", opts.bytes)
    rank.tally.phase("flood")
    began = time.perf_counter()
    for _ in range(opts.calls):
        call()
    rank.tally.phase("flood: all enqueued")
    rank.sync(world)
    rank.tally.note("us_per_op", round((time.perf_counter() - began) / opts.calls * 1e6, 2))


def case_steps(rank, opts):
    """Steps of many equal AllReduces in a row, as tensor parallelism makes them, and two sums that the host
    waits for."""
    world = rank.init("world")
    layer = rank.prepare(world, "AllReduce", opts.bytes)
    sums = [rank.prepare(world, "AllReduce", size) for size in (12, 20)]
    rank.tally.phase("steps")
    times = []
    for _ in range(opts.steps):
        began = time.perf_counter()
        for _ in range(opts.calls):
            layer()
        for call in sums:
            call()
        rank.sync(world)
        times.append((time.perf_counter() - began) * 1e6)
    rank.tally.note("step_us", round(statistics.median(times), 1))


class Graph:
    def __init__(self, rank, comm, calls):
        self.cuda, self.comm = rank.cuda, comm
        graph, self.exec = c_void_p(), c_void_p()
        rank.cuda.StreamBeginCapture(comm.stream, CAPTURE_THREAD_LOCAL)
        for call in calls:
            call()
        rank.cuda.StreamEndCapture(comm.stream, byref(graph))
        self.graph = graph
        rank.cuda.GraphInstantiateWithFlags(byref(self.exec), graph, 0)

    def launch(self):
        self.cuda.GraphLaunch(self.exec, self.comm.stream)

    def destroy(self):  # before ncclCommDestroy, which waits for it
        self.cuda.GraphExecDestroy(self.exec)
        self.cuda.GraphDestroy(self.graph)


MIX_PARTS = ("fused", "multi", "ring", "alltoall", "gather", "scatter", "after", "graph", "comms")
MIX_EXTRA = ("broadcast", "native", "nonblocking", "shared", "engines", "symmetric")


def case_mix(rank, opts):
    """Every part has sizes and repetitions of its own, so that a wrong count names its part."""
    parts = opts.parts.split(",")
    unknown = set(parts) - set(MIX_PARTS + MIX_EXTRA)
    if unknown:
        raise Failure(f"unknown parts {sorted(unknown)}")
    world = rank.init("world")
    me, n = rank.rank, rank.nranks

    def repeat(times, calls, comm=world):
        for _ in range(times):
            rank.group(comm, calls)
            rank.sync(comm)

    def p2p(func, size, peer):
        return rank.prepare(world, func, size, peer=peer, at=peer * size)

    for part in parts:
        rank.tally.phase(f"mix {part}")
        if part == "fused":
            repeat(11, [rank.prepare(world, "AllReduce", KIB, at=i * KIB) for i in range(8)])
        elif part == "multi":
            repeat(
                6,
                [
                    rank.prepare(world, func, 2 * KIB, at=i * 4 * KIB)
                    for i, func in enumerate(("AllReduce", "AllGather", "ReduceScatter", "Reduce"))
                ],
            )
        elif part == "ring":
            repeat(7, [p2p("Send", 64 * KIB, (me + 1) % n), p2p("Recv", 64 * KIB, (me - 1) % n)])
        elif part == "alltoall":  # self pair included, out of place
            repeat(5, [p2p(func, 16 * KIB, peer) for peer in range(n) for func in ("Send", "Recv")])
        elif part == "gather":
            repeat(
                3, [p2p("Send", 8 * KIB, 0)] + [p2p("Recv", 8 * KIB, peer) for peer in range(n) if me == 0]
            )
        elif part == "scatter":
            repeat(
                4,
                [p2p("Send", 12 * KIB, peer) for peer in range(n) if me == n - 1]
                + [p2p("Recv", 12 * KIB, n - 1)],
            )
        elif part == "after":  # are stamps still right after self pairs?
            call = rank.prepare(world, "AllReduce", 6 * KIB)
            for _ in range(9):
                call()
                rank.sync(world)
        elif part == "broadcast":
            call = rank.prepare(world, "Broadcast", 10 * KIB, root=n - 1)
            for _ in range(8):
                call()
                rank.sync(world)
        elif part == "native":
            for func, times in (("AlltoAll", 2), ("Gather", 3), ("Scatter", 4)):
                if rank.nccl.has("nccl" + func):
                    call = rank.prepare(world, func, 16 * KIB * n)
                    for _ in range(times):
                        call()
                        rank.sync(world)
                else:
                    rank.tally.note("lacks " + func, True)
        elif part == "graph":
            mix_graph(rank)
        elif part == "comms":
            mix_comms(rank)
        elif part == "nonblocking":
            mix_nonblocking(rank)
        elif part == "shared":
            mix_shared(rank)
        elif part == "engines":
            mix_engines(rank)
        elif part == "symmetric":
            mix_symmetric(rank)


def mix_graph(rank):
    comm = rank.init("graph")
    warm = rank.prepare(comm, "AllReduce", 4 * KIB)
    for _ in range(2):
        warm()
    rank.sync(comm)
    rank.tally.phase("mix graph capture")
    graph = Graph(rank, comm, [rank.prepare(comm, "AllReduce", 4 * KIB, how="captured")] * 16)
    replayed = rank.tally.key(comm.name, "AllReduce", 4 * KIB, KIB, "replayed")
    rank.tally.phase("mix graph replay")
    for _ in range(10):
        graph.launch()
        rank.tally.slots[replayed] += 16
    rank.sync(comm)
    graph.destroy()


def mix_comms(rank):
    """Four communicators at once, each on its own stream, then one without the last rank."""
    me, n = rank.rank, rank.nranks
    a, b = rank.init("a"), rank.init("b")
    odd = rank.split("split-odd", a, me % 2, (n + 1 - me % 2) // 2)
    half = n // 2 or 1
    high = rank.split("split-half", a, me // half, min(half, n - me // half * half))
    rank.tally.phase("mix comms")
    left = [
        (13, a, rank.prepare(a, "AllReduce", 20 * KIB)),
        (17, b, rank.prepare(b, "AllReduce", 32 * KIB, at=64 * KIB)),
        (19, odd, rank.prepare(odd, "AllGather", 24 * KIB, at=128 * KIB)),
        (23, high, rank.prepare(high, "ReduceScatter", 48 * KIB, at=192 * KIB)),
    ]
    for turn in range(max(times for times, _, _ in left)):
        for times, _, call in left:
            if turn < times:
                call()
        for _, comm, _ in left:
            rank.sync(comm)
    if not rank.nccl.has("ncclCommShrink"):
        rank.tally.note("lacks CommShrink", True)
    elif n > 2 and me < n - 1:
        rank.tally.phase("ncclCommShrink")
        handle, gone = c_void_p(), (c_int * 1)(n - 1)
        rank.nccl.call("ncclCommShrink", b.handle, gone, 1, byref(handle), None, 0)
        small = rank.adopt("shrunk", handle, me, n - 1)
        call = rank.prepare(small, "AllReduce", 28 * KIB)
        for _ in range(29):
            call()
            rank.sync(small)
    rank.meet("comms")


def mix_shared(rank):
    """A communicator with which a split and a shrunk one share their resources, and so its proxy threads."""
    me, n = rank.rank, rank.nranks
    handle, config = c_void_p(), SharingConfig(b"sharing")
    rank.nccl.call(
        "ncclCommInitRankConfig", byref(handle), n, rank.unique_id("sharing"), me, byref(config)
    )
    parent = rank.adopt("sharing", handle, me, n)
    odd = rank.split("share-odd", parent, me % 2, (n + 1 - me % 2) // 2)
    left = [(5, parent, rank.prepare(parent, "AllReduce", 64 * KIB)),
            (7, odd, rank.prepare(odd, "AllReduce", 128 * KIB, at=128 * KIB))]
    if n > 2 and me < n - 1:
        rank.tally.phase("ncclCommShrink")
        shrunk, gone = c_void_p(), (c_int * 1)(n - 1)
        rank.nccl.call("ncclCommShrink", parent.handle, gone, 1, byref(shrunk), None, 0)
        small = rank.adopt("share-shrunk", shrunk, me, n - 1)
        left.append((9, small, rank.prepare(small, "AllReduce", 256 * KIB, at=512 * KIB)))
    rank.tally.phase("mix shared")
    for times, comm, call in left:
        for _ in range(times):
            call()
            rank.sync(comm)
    rank.meet("shared")


def in_windows(rank, name, functions, late=0.0):
    """Collectives on buffers in symmetric windows; rank 1 comes `late` seconds after the others to each."""
    comm, size = rank.init(name), 8 * MIB
    buffers = (c_void_p(), c_void_p())
    for buffer in buffers:
        rank.nccl.call("ncclMemAlloc", byref(buffer), c_size_t(size))
        window = c_void_p()
        rank.tally.phase("ncclCommWindowRegister")
        rank.nccl.call(
            "ncclCommWindowRegister", comm.handle, buffer, c_size_t(size), byref(window), c_int(SYMMETRIC)
        )
    plain = rank.send, rank.recv, rank.room
    rank.send, rank.recv, rank.room = buffers[0].value, buffers[1].value, size
    rank.tally.phase(f"mix {name}")
    for func in functions:
        if rank.nccl.has("nccl" + func):
            for times, bytes in ((3, 64 * KIB), (2, 4 * MIB)):
                call = rank.prepare(comm, func, bytes)
                for _ in range(times):
                    if rank.rank == 1:
                        time.sleep(late)
                    call()
                    if late:
                        rank.sync(comm)
                rank.sync(comm)
    rank.send, rank.recv, rank.room = plain
    rank.meet(name)


def mix_engines(rank):
    """Collectives by the GPUs' copy engines: NCCL 2.29 or later, `NCCL_CTA_POLICY=2`."""
    in_windows(rank, "engines", ("AllGather", "AlltoAll", "Gather", "Scatter"))


def mix_symmetric(rank):
    """Symmetric kernels: NCCL 2.27 or later. The others wait for rank 1, 3 ms in each call."""
    in_windows(rank, "symmetric", ("AllReduce", "AllGather", "ReduceScatter"), late=3e-3)


def mix_nonblocking(rank):
    config = OldConfig(ctypes.sizeof(OldConfig), 0xCAFEBEEF, 21400, 0)
    handle, state = c_void_p(), c_int(IN_PROGRESS)

    def settle(rc):
        if rc not in (0, IN_PROGRESS):
            rank.nccl.check("nonblocking call", rc, handle)
        state.value = IN_PROGRESS
        while state.value == IN_PROGRESS:
            rank.nccl.call("ncclCommGetAsyncError", handle, byref(state))
        rank.nccl.check("nonblocking communicator", state.value, handle)

    settle(
        rank.nccl.lib.ncclCommInitRankConfig(
            byref(handle), rank.nranks, rank.unique_id("nonblocking"), rank.rank, byref(config)
        )
    )
    comm = rank.adopt("nonblocking", handle, rank.rank, rank.nranks)
    call = rank.prepare(comm, "AllReduce", 36 * KIB)
    for _ in range(12):
        call()
        settle(0)
        rank.sync(comm)
    rank.tally.phase("ncclCommFinalize nonblocking")
    settle(rank.nccl.lib.ncclCommFinalize(handle))


def case_overhead(rank, opts):
    """µs per op of loaded streams, and host µs per call in bursts that fit the launch queue. Run it with and
    without a plugin in turns: two runs alike differ by a few per cent."""
    world = rank.init("world")
    met = iter(range(1 << 30))

    def timed(name, ops, work, warm):
        rank.tally.phase(f"overhead {name}")
        rounds = []
        for index in range(opts.repeats + 1):
            rank.meet(f"overhead-{next(met)}")
            for _ in range(warm):
                work()
            rank.sync(world)
            began = time.perf_counter()
            for _ in range(ops):
                work()
            enqueued = time.perf_counter()
            rank.sync(world)
            if index:  # the first round warms up
                rounds.append(((time.perf_counter() - began) / ops * 1e6, (enqueued - began) / ops * 1e6))
        return [sorted(round(r[i], 3) for r in rounds) for i in (0, 1)]

    result = {}
    small = rank.prepare(world, "AllReduce", KIB)
    for name, size, ops in (("1KiB", KIB, opts.calls), ("1MiB", MIB, opts.calls)):
        call = rank.prepare(world, "AllReduce", size)
        result[f"{name} us_per_op"], _ = timed(name, ops, call, 20)
        _, result[f"{name} host_us_per_call_burst300"] = timed(name + " burst", 300, call, 1)
    fused = [rank.prepare(world, "AllReduce", KIB, at=i * KIB) for i in range(8)]
    per_group, _ = timed("group8", opts.calls // 8, lambda: rank.group(world, fused), 5)
    result["group8x1KiB us_per_op"] = [round(t / 8, 3) for t in per_group]

    for _ in range(20):
        small()
    rank.sync(world)
    graph = Graph(rank, world, [rank.prepare(world, "AllReduce", KIB, how="captured")] * 16)
    replayed = rank.tally.key(world.name, "AllReduce", KIB, KIB // 4, "replayed")

    def replay():
        graph.launch()
        rank.tally.slots[replayed] += 16

    per_launch, _ = timed("graph16", opts.calls // 16, replay, 5)
    result["graph16x1KiB us_per_op"] = [round(t / 16, 3) for t in per_launch]
    graph.destroy()
    rank.tally.note(
        "overhead", {name: {"median": statistics.median(v), "all": v} for name, v in result.items()}
    )


class Gate:
    """Holds a stream until all ranks have queued their work behind it: what runs then starts at once, on an
    idle GPU.
    """

    def __init__(self, rank, comm):
        self.rank, self.stream, self.turn = rank, comm.stream, 0
        driver = ctypes.CDLL("libcuda.so.1")
        self.wait = getattr(driver, "cuStreamWaitValue32_v2", None) or driver.cuStreamWaitValue32
        self.wait.argtypes, self.wait.restype = [c_void_p, c_ulonglong, c_uint, c_uint], c_int
        at = c_void_p()
        rank.cuda.HostAlloc(byref(at), 4096, 2)  # mapped; one address for both
        self.flag = ctypes.cast(at, POINTER(c_uint))
        self.address = at.value
        self.flag[0] = 0

    def close(self):
        self.turn += 1
        if self.wait(self.stream, self.address, self.turn, 0):  # until *flag >= turn
            raise Failure("cuStreamWaitValue32 failed")

    def open(self):
        self.flag[0] = self.turn


def case_held(rank, opts):
    """One call at a time behind a gate, between two CUDA events of this program: the times to compare a
    profiler's with.
    """
    world = rank.init("world")
    gate = Gate(rank, world)
    events = []
    for _ in range(2):
        event = c_void_p()
        rank.cuda.EventCreateWithFlags(byref(event), 0)
        events.append(event)
    me, n = rank.rank, rank.nranks
    truth = []
    met = 0
    # What puts NCCL's own stamps out of step up to 2.30; from 2.31 on, a Broadcast does, which is
    # among the functions.
    if opts.spoil:
        pairs = [
            rank.prepare(world, func, 16 * KIB, peer=peer, at=peer * 16 * KIB)
            for peer in range(n)
            for func in ("Send", "Recv")
        ]
        for _ in range(5):
            rank.group(world, pairs)
            rank.sync(world)
    for func in opts.functions.split(",") + ["SendRecv"]:
        for size in (KIB, 32 * KIB, MIB, 32 * MIB, GIB):
            if size > opts.max_bytes:
                continue
            rank.tally.phase(f"held {func} {size}")
            if func == "SendRecv":
                pair = [
                    rank.prepare(world, "Send", size, peer=(me + 1) % n),
                    rank.prepare(world, "Recv", size, peer=(me - 1) % n),
                ]
                work = lambda pair=pair: rank.group(world, pair)
            else:
                work = rank.prepare(world, func, size)
            for _ in range(2):  # NCCL connects in the first call, and waits for the GPU there
                work()
                rank.sync(world)
                truth.append([func, size, None])
            for _ in range(opts.iterations if size < GIB else min(opts.iterations, 8)):
                gate.close()
                rank.cuda.EventRecord(events[0], world.stream)
                work()
                rank.cuda.EventRecord(events[1], world.stream)
                met += 1
                rank.meet(f"held-{met}")
                gate.open()
                rank.sync(world)
                took = c_float()
                rank.cuda.EventElapsedTime(byref(took), *events)
                truth.append([func, size, round(took.value * 1e3, 3)])
    with open(os.path.join(opts.truth or opts.folder, f"rank-{me}.truth.json"), "w") as file:
        json.dump(truth, file)


CASES = {
    "paper": case_paper,
    "flood": case_flood,
    "steps": case_steps,
    "mix": case_mix,
    "overhead": case_overhead,
    "held": case_held,
}


def largest_buffer(opts):
    ranks = opts.ranks
    return {
        "paper": opts.max_bytes,
        "held": opts.max_bytes,
        "flood": opts.bytes,
        "steps": opts.bytes,
        "mix": max(ranks * 64 * KIB, MIB),
        "overhead": MIB,
        "threads": MIB,
    }[opts.case]


def child(opts):
    """One rank; in `threads`, all of them."""
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive the parent
    cuda, nccl = Cuda(find_cudart(opts.cudart)), Nccl(find_nccl(opts.nccl))
    gpus = c_int()
    cuda.GetDeviceCount(byref(gpus))
    about = {
        "nccl": nccl.version,
        "library": mapped("libnccl.so") or nccl.path,
        "gpus": gpus.value,
        "python": sys.version.split()[0],
    }
    if opts.case == "threads":
        return threads(cuda, nccl, opts, gpus.value, about)
    me = int(os.environ["RANK"])
    tally = Tally(opts.folder, me, opts.kill_after if me == opts.kill_rank else 0)
    tally.note("about", about)
    tally.note("pid", os.getpid())
    rank = Rank(cuda, nccl, tally, opts.folder, me, opts.ranks, me % gpus.value, largest_buffer(opts))
    rank.legacy = opts.legacy_stream
    CASES[opts.case](rank, opts)
    rank.destroy(opts)


def threads(cuda, nccl, opts, gpus, about):
    """One process, all GPUs: first one thread for all of them, then one thread for each."""
    n = min(opts.ranks, gpus)
    ranks = []
    for r in range(opts.ranks):
        tally = Tally(opts.folder, r)
        tally.note("about", about)
        if r < n:
            ranks.append(Rank(cuda, nccl, tally, opts.folder, r, n, r, MIB))
        else:
            tally.phase("done")

    ranks[0].tally.phase("ncclCommInitAll")
    handles = (c_void_p * n)()
    nccl.call("ncclCommInitAll", handles, n, (c_int * n)(*range(n)))
    one = []
    for rank in ranks:
        cuda.SetDevice(rank.device)
        one.append(rank.adopt("initall", c_void_p(handles[rank.rank]), rank.rank, n))
    ranks[0].tally.phase("one thread, all GPUs")
    for func, size, times in (
        ("AllReduce", 2 * KIB, 15),
        ("AllGather", 64 * KIB, 10),
        ("ReduceScatter", MIB, 5),
    ):
        calls = [rank.prepare(comm, func, size) for rank, comm in zip(ranks, one)]
        slots = [rank.tally.key("initall", "Group", 0, 1, "eager") for rank in ranks]
        for _ in range(times):
            nccl.call("ncclGroupStart")
            for call in calls:
                call()
            nccl.call("ncclGroupEnd")
            ranks[0].tally.slots[slots[0]] += 1  # one group for all, counted on rank 0
            for rank, comm in zip(ranks, one):
                cuda.SetDevice(rank.device)
                rank.sync(comm)

    problems = []

    def work(rank):
        try:
            cuda.SetDevice(rank.device)
            comm = rank.init("thread")
            rank.tally.phase("one thread per GPU")
            for func, size, times in (("AllReduce", 3 * KIB, 21), ("Reduce", 128 * KIB, 14)):
                call = rank.prepare(comm, func, size)
                for _ in range(times):
                    call()
                rank.sync(comm)
            rank.tally.phase("one thread per GPU: done")
        except Exception as problem:
            problems.append(f"thread {rank.rank}: {problem}")

    workers = [
        threading.Thread(target=work, args=(rank,), name=f"gpu-{rank.device}", daemon=True) for rank in ranks
    ]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers) and not problems:
        time.sleep(0.01)
    if problems:
        raise Failure("; ".join(problems))
    if not opts.no_destroy:
        for name in ("thread", "initall"):
            ranks[0].tally.phase(f"ncclCommDestroy {name}")
            for rank in ranks:  # one after the other, as nccl-tests does
                cuda.SetDevice(rank.device)
                for comm in rank.comms:
                    if comm.name == name:
                        nccl.call("ncclCommDestroy", comm.handle)
    for rank in ranks:
        rank.tally.phase("done")


# ---------------------------------------------------------------- the parent


def say(text):
    print(f"nccl_calls: {text}", file=sys.stderr, flush=True)


def environment(opts, index):
    env = dict(os.environ, NCCL_NVLS_ENABLE="0", PYTHONUNBUFFERED="1")
    processes = 1 if opts.case == "threads" else opts.ranks
    host = index * opts.hosts // processes
    members = [r for r in range(processes) if r * opts.hosts // processes == host]
    env.update(
        RANK=str(index),
        WORLD_SIZE=str(processes),
        LOCAL_RANK=str(index - members[0]),
        LOCAL_WORLD_SIZE=str(len(members)),
        GROUP_RANK=str(host),
        GROUP_WORLD_SIZE=str(opts.hosts),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29500",
    )
    if opts.hosts > 1:
        env["NCCL_HOSTID"] = f"simulated-host-{host}"
    env.setdefault("NCCL_SOCKET_IFNAME", "lo")
    env.setdefault("NCCL_IB_DISABLE", "1")
    return env


def parent(opts):
    opts.folder = tempfile.mkdtemp(prefix="nccl-calls-")
    if opts.nccl:
        opts.nccl = unpack(opts.nccl)
    handed = base_arguments(opts) + ["--folder", opts.folder]
    processes = 1 if opts.case == "threads" else opts.ranks
    began = time.monotonic()
    children = [
        subprocess.Popen([sys.executable, os.path.abspath(__file__), *handed], env=environment(opts, index))
        for index in range(processes)
    ]
    ended, verdict, stop_at, asked, step = {}, "ok", began + opts.timeout, False, None
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        while len(ended) < processes:
            for index, process in enumerate(children):
                if index not in ended and process.poll() is not None:
                    ended[index] = process.returncode
                    planned = index == opts.kill_rank and process.returncode == -signal.SIGKILL
                    if process.returncode and not asked:
                        say(
                            f"rank {index} killed itself as planned"
                            if planned
                            else f"rank {index} ended with {process.returncode}, {where(opts.folder, index)}"
                        )
                        if not planned:
                            verdict = "failed"
                        stop_at = min(stop_at, time.monotonic() + opts.linger)
            if time.monotonic() > stop_at:
                if not asked and not any(ended.values()):
                    verdict = "timeout"
                    for index in range(opts.ranks if opts.case == "threads" else processes):
                        say(f"after {opts.timeout} s rank {index}: {where(opts.folder, index)}")
                # As torchrun does: SIGTERM first, SIGKILL later.
                for index, process in enumerate(children):
                    if index not in ended:
                        process.send_signal(signal.SIGKILL if asked else signal.SIGTERM)
                asked, stop_at = True, time.monotonic() + 5
            time.sleep(0.01)
    finally:
        for process in children:
            if process.poll() is None:
                process.kill()
    if verdict == "ok" and opts.kill_rank is not None and ended.get(opts.kill_rank) != -signal.SIGKILL:
        verdict = "failed"
        say(f"rank {opts.kill_rank} should have killed itself after {opts.kill_after} calls and did not")
    print(json.dumps(report(opts, verdict, ended, time.monotonic() - began)), flush=True)
    if opts.keep:
        say(f"tallies are in {opts.folder}")
    else:
        shutil.rmtree(opts.folder, ignore_errors=True)
    return {"ok": 0, "failed": 1, "timeout": 124}[verdict]


def where(folder, rank):
    tally = read_tally(folder, rank)
    return f"phase '{tally['phase']}', {tally['total']} calls returned" + (
        f", inside {tally['inside']}" if tally["inside"] else ""
    )


def report(opts, verdict, ended, seconds):
    """Ranks that did the same share an entry, so that the line stays short."""
    tallies = {rank: read_tally(opts.folder, rank) for rank in range(opts.ranks)}
    work = []
    for rank, tally in tallies.items():
        did = {"comms": tally["extra"].get("comms", {}), "calls": tally["calls"], "total": tally["total"]}
        if tally["inside"]:
            did["inside"] = tally["inside"]
        if tally["phase"] != "done":
            did["phase"] = tally["phase"]
        same = [entry for entry in work if {k: v for k, v in entry.items() if k != "ranks"} == did]
        if same:
            same[0]["ranks"].append(rank)
        else:
            work.append({"ranks": [rank], **did})
    first = tallies[0]["extra"]
    notes = {name: value for name, value in first.items() if name not in ("comms", "about", "pid")}
    return {
        "case": opts.case,
        "verdict": verdict,
        "ranks": opts.ranks,
        "hosts": opts.hosts,
        **first.get("about", {}),
        "plugin": os.environ.get("NCCL_PROFILER_PLUGIN"),
        "destroy": not opts.no_destroy,
        "seconds": round(seconds, 1),
        "exit_codes": [ended.get(i) for i in sorted(ended)],
        "pids": [t["extra"].get("pid") for t in tallies.values()],
        "calls_all_ranks": sum(t["total"] for t in tallies.values()),
        "work": work,
        "rank0": notes,
    }


def parse(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "case",
        choices=[*CASES, "threads", "unpack"],
        help="`unpack` prints where --nccl was unpacked, for LD_PRELOAD",
    )
    parser.add_argument(
        "--ranks", type=int, default=len(glob.glob("/dev/nvidia[0-9]*")), help="default: one per GPU"
    )
    parser.add_argument(
        "--hosts", type=int, default=1, help="simulated hosts: consecutive ranks get one NCCL_HOSTID per host"
    )
    parser.add_argument(
        "--nccl", help="libnccl.so.2 to call, or one packed as .xz; default: LD_PRELOAD's, then this Python's"
    )
    parser.add_argument("--cudart", help="libcudart.so to use; default: this Python's nvidia packages")
    parser.add_argument(
        "--timeout", type=float, default=110, help="seconds until everything is stopped (%(default)s)"
    )
    parser.add_argument(
        "--linger", type=float, default=3, help="seconds left to the others once a rank is gone (%(default)s)"
    )
    parser.add_argument("--no-destroy", action="store_true", help="exit without ncclCommDestroy")
    parser.add_argument("--exit-with", choices=("exit", "_exit"), default="exit")
    parser.add_argument("--kill-rank", type=int)
    parser.add_argument(
        "--kill-after", type=int, default=0, help="calls (not groups) of that rank before its SIGKILL"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder of tallies")
    parser.add_argument("--iterations", type=int, default=45, help="paper: calls per size (%(default)s)")
    parser.add_argument("--max-bytes", type=int, default=GIB, help="paper: largest size (%(default)s)")
    parser.add_argument(
        "--functions", default="AllReduce,AllGather,ReduceScatter,Broadcast,Reduce", help="paper"
    )
    parser.add_argument(
        "--calls", type=int, help="flood: 112800; overhead: 5000 per round; steps: 100 per step"
    )
    parser.add_argument("--bytes", type=int, default=KIB, help="flood, steps")
    parser.add_argument("--steps", type=int, default=1000, help="steps (%(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="overhead: rounds (%(default)s)")
    parser.add_argument(
        "--parts", default=",".join(MIX_PARTS), help="mix: default %(default)s; also " + ",".join(MIX_EXTRA)
    )
    parser.add_argument(
        "--truth", help="held: folder for rank-N.truth.json, a list of function, bytes and µs"
    )
    parser.add_argument("--spoil", action="store_true", help="held: an all-to-all with oneself first")
    parser.add_argument("--legacy-stream", action="store_true", help="all calls on stream 0")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    opts = parser.parse_args(argv)
    opts.calls = opts.calls or {"flood": 112800, "steps": 100}.get(opts.case, 5000)
    if opts.case != "unpack":
        if opts.ranks < 1:
            parser.error("no /dev/nvidia* here: say --ranks")
        if not 1 <= opts.hosts <= opts.ranks or (opts.case == "threads" and opts.hosts > 1):
            parser.error("--hosts lies between 1 and --ranks, and is 1 for `threads`")
        if (opts.kill_rank is None) != (opts.kill_after <= 0):
            parser.error("--kill-rank and --kill-after go together")
        if opts.kill_rank is not None and (opts.case == "threads" or not 0 <= opts.kill_rank < opts.ranks):
            parser.error("--kill-rank must be one of the ranks, and `threads` has one process only")
    elif not opts.nccl:
        parser.error("unpack needs --nccl")
    return opts


def base_arguments(opts):
    """The command line of a rank: every option as the parent understood it."""
    line = [opts.case]
    for name, value in vars(opts).items():
        if name in ("case", "folder", "keep") or value is None or value is False:
            continue
        line += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return line


def main():
    opts = parse(sys.argv[1:])
    if opts.case == "unpack":
        print(unpack(opts.nccl))
        return 0
    if not opts.folder:
        return parent(opts)
    try:
        child(opts)
    except (Failure, OSError) as failure:
        say(f"rank {os.environ.get('RANK')}: {failure}")
        os._exit(1)  # without waiting for threads stuck in NCCL
    if opts.exit_with == "_exit":
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
