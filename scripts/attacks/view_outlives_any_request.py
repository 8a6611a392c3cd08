#!/usr/bin/env python3
"""Another user of this machine, who lacks the token, tries to end or to block `ncclscope view`. BIN WORK

Lengths that are no lengths, bodies that never come, connections that say nothing, heads without an end.
"""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

BIN, WORK = sys.argv[1:3]
JOB = "ranks 2\nall_reduce 1MiB x20\n"

with open(WORK + "/job", "w") as file:
    file.write(JOB)
plugin = BIN + "/libnccl-profiler-ncclscope.so"
env = dict(os.environ, NCCLSCOPE_OUT=WORK + "/c", NCCLSCOPE_QUIET="1", NCCLSCOPE_TIMING="stamps")
subprocess.run([BIN + "/fake-nccl", "play", WORK + "/job", "--plugin", plugin], env=env, check=True)
view = subprocess.Popen([BIN + "/ncclscope", "view", WORK + "/c"], stderr=subprocess.PIPE, text=True)
url = re.search(r"http://\S+", view.stderr.readline()).group()
port = int(re.search(r":(\d+)/", url).group(1))


def ask(data, wait=True):
    """Sends bytes; the open connection, or what came back."""
    stream = socket.create_connection(("127.0.0.1", port))
    stream.settimeout(60)
    try:
        stream.sendall(data)
        if not wait:
            return stream
        return stream.recv(100)
    except ConnectionError:
        return b""


def page():
    with urllib.request.urlopen(url, timeout=120) as answer:
        assert answer.status == 200
        return answer.read()


def post(length, path="/"):
    return f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n\r\nx".encode()


expected = page()
asked = 0
lengths = ["-1", "x", "", 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 99999999999999999999, 5 << 20]
token = url.split("/")[3]
for length in lengths:
    for path in ("/", "/x", f"/{token}/heat"):
        if length == 5 << 20 and token in path:
            continue
        answer = ask(post(length, path))
        assert b" 404 " in answer or b" 413 " in answer, (length, path, answer)
        asked += 1
    assert view.poll() is None and page() == expected, length

# Many that stay: silent ones, halves of heads, and bodies that never come. Each is held open.
kept = []
for n in range(300):
    parts = [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: x\r\n", post(5 << 20), os.urandom(200)]
    kept.append(ask(parts[n % len(parts)], wait=False))
    asked += 1
    if n % 60 == 59:
        assert page() == expected
head = ask(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000)
assert head == b"" or b" 400 " in head, head
time.sleep(0.1)
assert page() == expected and view.poll() is None
view.kill()
view.wait()
print(f"{asked} requests without the token: the page was served between and after them")
