#!/usr/bin/env python3
"""Which questions about streams break the CUDA graph that the asking thread captures in mode "global".

    capture_questions.py   # one GPU

For each function of the driver and each stream: its result during the capture, and what became of the
capture.
"""

import ctypes

import torch

driver = ctypes.CDLL("libcuda.so.1")
QUESTIONS = {
    "cuStreamGetId": ctypes.c_uint64,
    "cuStreamGetCtx": ctypes.c_void_p,
    "cuStreamGetFlags": ctypes.c_uint,
    "cuStreamGetPriority": ctypes.c_int,
    "cuStreamIsCapturing": ctypes.c_int,
}


def after(name, stream, relaxed):
    """Results of the question and of the capture."""
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    x, answer, mode = torch.zeros(64, device="cuda"), QUESTIONS[name](), ctypes.c_int(2)
    torch.cuda.synchronize()
    asked = None
    try:
        with torch.cuda.graph(graph, stream=side):
            x.add_(1)
            handle = {"captured": side.cuda_stream, "legacy": 0, "legacy, named": 1, "thread": 2}.get(stream)
            handle = OTHER.cuda_stream if handle is None else handle
            if relaxed:
                driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
            asked = getattr(driver, name)(ctypes.c_void_p(handle), ctypes.byref(answer))
            if relaxed:
                driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
            x.add_(1)
        graph.replay()
        torch.cuda.synchronize()
        return asked, "good"
    except Exception as error:
        return asked, str(error).splitlines()[0]


OTHER = torch.cuda.Stream()
warm = torch.zeros(64, device="cuda").add_(1)
for name in QUESTIONS:
    for stream in ("captured", "other", "legacy", "legacy, named", "thread"):
        for relaxed in (False, True):
            result, became = after(name, stream, relaxed)
            mode = "relaxed" if relaxed else "global"
            print(f"{name:20} {stream:14} {mode:8} result {result}, {became}", flush=True)
