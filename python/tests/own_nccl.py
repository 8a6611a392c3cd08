"""A process that calls NCCL, without NCCL: this Python loads the recorder and reports calls to it, as NCCL
2.23 does (version 1 of the profiler's interface, ``crates/nccl-abi/src/v1.rs``). So the program's own steps
and the calls of its ranks are in one process, as in a real job.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p


class Coll(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("comm_hash", c_uint64),
        ("seq_number", c_uint64),
        ("func", c_uint8),
        ("send_buff", c_void_p),
        ("recv_buff", c_void_p),
        ("count", c_size_t),
        ("root", c_int32),
        ("datatype", c_uint8),
        ("op", c_uint32),
        ("traffic_bytes", c_size_t),
        ("n_max_channels", c_uint8),
        ("n_warps", c_uint8),
        ("algo", c_uint8),
        ("proto", c_uint8),
        ("is_collnet", c_int32),
        ("is_nvls", c_int32),
    )


class Descr(ctypes.Structure):
    _fields_ = (
        ("type", c_uint8),
        ("parent", c_void_p),
        ("rank", c_int32),
        ("coll", Coll),
    )


COLL = 2
ALL_REDUCE = 4
FLOAT32 = 7


class Nccl:
    """NCCL with one communicator; this process is ``rank`` in it."""

    def __init__(self, plugin: str, rank: int = 0) -> None:
        table = (c_void_p * 16).in_dll(ctypes.CDLL(plugin), "ncclProfiler_v1")
        function = ctypes.CFUNCTYPE
        init = function(c_int32, POINTER(c_void_p), POINTER(c_int32))(table[1] or 0)
        self._start = function(c_int32, c_void_p, POINTER(c_void_p), POINTER(Descr))(table[2] or 0)
        self._stop = function(c_int32, c_void_p)(table[3] or 0)
        self._finalize = function(c_int32, c_void_p)(table[5] or 0)
        self._context = c_void_p()
        # NCCL has one mask for the process, which stays where it is.
        self._mask = c_int32()
        assert init(byref(self._context), byref(self._mask)) == 0
        self._rank = rank
        self._sequence = 0

    def all_reduce(self, count: int = 1024) -> None:
        """One call, which returns."""
        coll = Coll(
            name=b"comm",
            comm_hash=1,
            seq_number=self._sequence,
            func=ALL_REDUCE,
            count=count,
            datatype=FLOAT32,
            n_max_channels=1,
            n_warps=1,
        )
        self._sequence += 1
        handle = c_void_p()
        descr = Descr(type=COLL, parent=None, rank=self._rank, coll=coll)
        assert self._start(self._context, byref(handle), byref(descr)) == 0
        assert self._stop(handle) == 0

    def close(self) -> None:
        assert self._finalize(self._context) == 0
