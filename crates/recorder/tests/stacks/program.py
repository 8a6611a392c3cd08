import sys
import threading

sys.path.insert(0, sys.argv[1])  # a folder called site-packages
import fakedist


def step(calls):
    for _ in range(calls):
        fakedist.all_reduce(10)  # step: 3


def other():
    fakedist.all_reduce(
        20,
    )  # other: 2 (first line of the call)


class Worker:
    def run(self):
        [fakedist.direct(30) for _ in range(5)]  # Worker.run: 5


def generator():
    yield fakedist.direct(60)  # generator: 1


fakedist.init()
step(3)
other()
other()
thread = threading.Thread(target=Worker().run)
thread.start()
thread.join()
fakedist.native_thread(40, 7, b"pt_autograd_0")
fakedist.native_thread(50, 2, b"pool-1")
list(generator())


def deep(n):
    return deep(n - 1) if n else fakedist.direct(70)  # deep: 1


deep(200)
fakedist.finalize()
