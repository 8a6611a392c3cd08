#!/usr/bin/env python3
"""A program closes all descriptors that it does not know, as daemons do, and opens files of its own.

These get the numbers that the recorder's files had. Nothing may be written into them, and all calls before
and after are in the capture. descriptors... BIN WORK
"""

import ctypes
import json
import os
import subprocess
import sys
import time

BIN, WORK = sys.argv[1:3]
API, CALLS, FILES, ROUNDS = 512, 200, 24, 6
CONTENT = b"a checkpoint of the program's own\n" * 4000
os.environ.update(NCCLSCOPE_OUT=WORK + "/capture", NCCLSCOPE_QUIET="1")

pointer, number = ctypes.c_void_p, ctypes.c_int
INIT = ctypes.CFUNCTYPE(
    number,
    ctypes.POINTER(pointer),
    ctypes.c_uint64,
    ctypes.POINTER(number),
    ctypes.c_char_p,
    number,
    number,
    number,
    pointer,
)


class Plugin(ctypes.Structure):
    """ncclProfiler_v5_t."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("init", INIT),
        ("start", ctypes.CFUNCTYPE(number, pointer, ctypes.POINTER(pointer), pointer)),
        ("stop", ctypes.CFUNCTYPE(number, pointer)),
        ("record", pointer),
        ("finalize", ctypes.CFUNCTYPE(number, pointer)),
    ]


class Call(ctypes.Structure):
    """ncclProfilerEventDescr_v5_t of a collective's API event, with room for the largest event."""

    _fields_ = [
        ("type", ctypes.c_uint64),
        ("parent", pointer),
        ("rank", number),
        ("function", ctypes.c_char_p),
        ("count", ctypes.c_size_t),
        ("datatype", ctypes.c_char_p),
        ("root", number),
        ("stream", pointer),
        ("captured", ctypes.c_uint8),
        ("room", ctypes.c_char * 160),
    ]


plugin = Plugin.in_dll(ctypes.CDLL(BIN + "/libnccl-profiler-ncclscope.so"), "ncclProfiler_v5")
context, mask = pointer(), number(0)
assert plugin.init(ctypes.byref(context), 0x42, ctypes.byref(mask), b"", 1, 1, 0, None) == 0
made = 0


def calls():
    global made
    for _ in range(CALLS):
        of, handle = Call(API, None, 0, b"AllReduce", 4, b"ncclFloat32", 0, None, 0), pointer()
        plugin.start(context, ctypes.byref(handle), ctypes.byref(of))
        plugin.stop(handle)
        made += 1


calls()
# The recorder has made its files by then.
until = time.monotonic() + 60
while not any(name.endswith(".trace") for _, _, names in os.walk(WORK + "/capture") for name in names):
    assert time.monotonic() < until, "no file of the recorder's"
    time.sleep(0.1)
os.closerange(3, 1024)
opened = {}
for index in range(FILES):
    path = f"{WORK}/checkpoint{index}"
    with open(path, "wb") as file:
        file.write(CONTENT)
    opened[path] = os.open(path, os.O_RDWR)
for _ in range(ROUNDS):
    calls()
    # Longer than it takes until the recorder writes again.
    time.sleep(0.6)
plugin.finalize(context)
for path, descriptor in opened.items():
    os.fstat(descriptor)
    with open(path, "rb") as file:
        assert file.read() == CONTENT, f"{path} (descriptor {descriptor}) is not what the program wrote"
done = subprocess.run(
    [BIN + "/ncclscope", "report", WORK + "/capture", "--json"], capture_output=True, text=True
)
account = json.loads(done.stdout)["completeness"]
assert (account["announced"], account["recorded"]) == (made, made), account
print(f"{FILES} files of the program stayed as they were, and {made} of {made} calls are recorded")
