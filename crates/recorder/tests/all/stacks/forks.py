"""A child that initialises NCCL after a fork, and calls from two threads."""

import os
import sys
import threading

sys.path.insert(0, sys.argv[1])
import fakedist

fakedist.init()
for _ in range(2):
    fakedist.direct(10)  # parent
child = os.fork()
if child == 0:
    fakedist.init()
    for _ in range(3):
        fakedist.direct(20)  # child
    call = lambda: [fakedist.direct(30) for _ in range(4)]  # child's thread
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    fakedist.finalize()
    sys.exit(0)
_, status = os.waitpid(child, 0)
fakedist.finalize()
sys.exit(status)
