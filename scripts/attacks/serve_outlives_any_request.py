#!/usr/bin/env python3
"""Somebody who lacks the token tries to end or to block `ncclscope serve`, and so do scrapers. BIN WORK

Lengths that are no lengths, other methods, heads without an end, slow bytes, silent connections, a hundred
scrapes at once, and readers that never read. Meanwhile the job's ranks are killed and its folder vanishes.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

BIN, WORK = sys.argv[1:3]
JOB = "ranks 4\nrepeat 2000 { all_reduce 1MiB x3 ; sleep 10ms }\n"
TOKEN = "0123456789abcdef0123456789abcdef"

with open(WORK + "/job", "w") as file:
    file.write(JOB)
with open(WORK + "/token", "w") as file:
    file.write(TOKEN + "\n")
plugin = BIN + "/libnccl-profiler-ncclscope.so"
env = dict(os.environ, NCCLSCOPE_OUT=WORK + "/c", NCCLSCOPE_QUIET="1", NCCLSCOPE_FLUSH="0.05")
job = subprocess.Popen(
    [BIN + "/fake-nccl", "play", WORK + "/job", "--plugin", plugin],
    env=env,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    start_new_session=True,
)
deadline = time.monotonic() + 60
while not os.path.isdir(WORK + "/c"):
    assert time.monotonic() < deadline, "the job records nothing"
    time.sleep(0.05)
command = [BIN + "/ncclscope", "serve", WORK + "/c", "--listen", "127.0.0.1:0", "--every", "100ms"]



def started(*options):
    """A server, and its port."""
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    found = int(re.search(r":(\d+)/metrics", process.stderr.readline()).group(1))
    threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()
    return process, found


serve, port = started("--token-file", WORK + "/token")


def connect(data=b""):
    """An open connection on which this was sent."""
    stream = socket.create_connection(("127.0.0.1", port))
    stream.settimeout(120)
    try:
        stream.sendall(data)
    except ConnectionError:
        pass
    return stream


def ask(data):
    """What came back, to the end."""
    stream, parts = connect(data), []
    try:
        while part := stream.recv(1 << 16):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def request(fields=f"Authorization: Bearer {TOKEN}\r\n", method="GET", path="/metrics"):
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode()


def page():
    answer = ask(request())
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"# EOF\n"), answer[:300]
    assert serve.poll() is None
    return answer


asked = 0
deadline = time.monotonic() + 60
while b"ncclscope_rank_calls_total" not in ask(request()):
    assert time.monotonic() < deadline, "nothing is served"
    time.sleep(0.1)
with_token = f"Authorization: Bearer {TOKEN}\r\n"
for fields in ["", "Authorization: Bearer x\r\n", f"Authorization: {TOKEN}\r\n", with_token * 2]:
    for method in ["GET", "POST"]:
        answer = ask(request(fields, method))
        assert b" 401 " in answer and b"ncclscope_" not in answer, (fields, method, answer)
        asked += 1
for method in ["HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "G\0T", "get"]:
    for fields in ["", with_token]:
        answer = ask(request(fields, method))
        assert b" 40" in answer.split(b"\r\n")[0] and b"ncclscope_" not in answer, (method, answer)
        asked += 1
# With the token, a POST is read and refused, whatever length it claims.
for length in ["-1", "x", "", 2**63, 2**64, 5 << 30, 0, 1]:
    answer = ask(request(f"{with_token}Content-Length: {length}\r\n", "POST") + b"x")
    assert b" 40" in answer or b" 413 " in answer, (length, answer)
    asked += 1
for path in ["/metrics/..", "//metrics", "/metrics%00", "/../../etc/passwd", "*", "http://x/metrics", "/m" * 7000]:
    answer = ask(request(path=path))
    assert b" 40" in answer and b"ncclscope_" not in answer, (path, answer)
    asked += 1
big = ask(b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 5000)
assert big == b"" or b" 400 " in big, big
page()

# Connections that stay: silent, halves of heads, a byte now and then, and pages that nobody reads.
kept = []
for n in range(300):
    parts = [b"", b"GET /", request("")[:-2], os.urandom(200), request()]
    kept.append(connect(parts[n % len(parts)]))
    asked += 1
    if n % 60 == 59:
        page()
for _ in range(5):
    for stream in kept[1::5]:
        try:
            stream.sendall(b"x")
        except OSError:
            pass
    page()

# Where no token is needed, those who never read their page must not keep others out.
other, token_port = started(), port
(open_serve, port) = other
local = f"Host: 127.0.0.1:{port}\r\n"
whole = f"GET /metrics HTTP/1.1\r\n{local}\r\n".encode()
for n in range(300):
    kept.append(connect(whole))
    asked += 1
    if n % 60 == 59:
        answer = ask(whole)
        assert answer.endswith(b"# EOF\n") or b" 503 " in answer, answer[:300]
assert b" 404 " in ask(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n")
open_serve.kill()
open_serve.wait()
port = token_port

# A hundred scrapes at once, while ranks die and the folder goes away and comes back.
failures = []


def scrape():
    try:
        for _ in range(5):
            # Of more connections than it serves at once, some are closed. That must be all.
            answer = ask(request())
            assert answer == b"" or answer.startswith(b"HTTP/1.1 200 OK\r\n"), answer[:300]
    except AssertionError as error:
        failures.append(error)


threads = [threading.Thread(target=scrape) for _ in range(100)]
for thread in threads:
    thread.start()
ranks = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True).stdout.split()
if ranks:
    os.kill(int(ranks[0]), 9)
for _ in range(10):
    os.rename(WORK + "/c", WORK + "/away")
    time.sleep(0.1)
    os.rename(WORK + "/away", WORK + "/c")
    time.sleep(0.1)
for thread in threads:
    thread.join()
    asked += 5
assert not failures, failures[0]
os.killpg(job.pid, 9)
job.wait()
page()
shutil.rmtree(WORK + "/c")
deadline = time.monotonic() + 60
while b"ncclscope_capture_readable 0\n" not in page():
    assert time.monotonic() < deadline, "the folder is gone, and nothing says so"
    time.sleep(0.1)
serve.kill()
serve.wait()
print(f"{asked} requests: the page was served between and after them")
