"""Ends while other threads call NCCL."""

import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import fakedist


def forever():
    while True:
        fakedist.direct(10)  # call


fakedist.init()
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
