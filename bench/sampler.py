#!/usr/bin/env python3
"""A job for bench/sampler.sh: PROCESSES processes with THREADS threads each, for SECONDS.

One thread of each process is busy half of the time. The others sleep, as most of a training process do.
"""

import os
import sys
import threading
import time

processes, threads, seconds = (int(word) for word in sys.argv[1:4])
children = []
for _ in range(processes):
    child = os.fork()
    if child == 0:
        end = time.monotonic() + seconds
        for _ in range(threads - 1):
            threading.Thread(target=time.sleep, args=(seconds,), daemon=True).start()
        while time.monotonic() < end:
            busy = time.monotonic() + 0.005 / processes
            while time.monotonic() < busy:
                pass
            time.sleep(0.005)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
