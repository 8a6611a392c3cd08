"""A reader of captures in plain Python, written from crates/capture/SPEC.md and from nothing else.

It reads calls with their GPU times: from blocks, and from live parts that were adopted or written as
snapshots. So a sentence of SPEC.md that is wrong or missing shows in `test_spec.py`. It leaves out what that
test does not need: totals, later trace files, graphs, kernel windows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CUDA_EVENTS = 64
WRAP = 1 << 64


@dataclass
class Call:
    """What a row says, in ticks and in ns of the GPU's clock."""

    ticket: int
    function: int
    count: int
    parts: int
    t_api: int
    stamp_start: int
    stamp_stop: int
    event_start: int
    event_ns: int
    event_error: int

    def gpu_ns(self) -> int | None:
        """Its GPU time, by the section "GPU times"."""
        if self.parts & CUDA_EVENTS:
            return self.event_ns if self.event_start else None
        return self.stamp_stop - self.stamp_start if self.stamp_start and self.stamp_stop else None


@dataclass
class Process:
    """What the files of a process say."""

    facts: dict[str, str] = field(default_factory=dict)
    strings: dict[int, str] = field(default_factory=dict)
    anchors: list[tuple[int, int]] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    blocks: set[int] = field(default_factory=set)
    shapes: dict[int, list[int]] = field(default_factory=dict)
    dictionary: int = -1

    def realtime(self, ticks: int) -> int:
        """Ticks as ns of CLOCK_REALTIME, by the section "Anchors and ticks"."""
        anchors = sorted(set(self.anchors))
        before = [a for a in anchors if a[0] <= ticks]
        after = [a for a in anchors if a[0] > ticks]
        pair = (before[-1], after[0]) if before and after else (anchors[0], anchors[-1])
        base = before[-1] if before else anchors[0]
        (from_ticks, from_ns), (to_ticks, to_ns) = pair
        return base[1] + (ticks - base[0]) * (to_ns - from_ns) // (to_ticks - from_ticks)


class Numbers:
    """The base-128 integers and columns of a payload."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.at = payload, 0

    def next(self) -> int:
        value = shift = 0
        while True:
            byte = self.payload[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def column(self, n: int) -> list[int]:
        how = self.payload[self.at]
        self.at += 1
        if how == 0:
            return [0] * n
        if how == 1:
            return [self.next()] * n
        if how == 2:
            return [self.next() for _ in range(n)]
        assert how == 3
        values: list[int] = []
        while len(values) < n:
            run = self.next()
            values += [self.next()] * run
        return values

    def columns(self, n: int) -> list[list[int]]:
        """All columns that are there; what is behind them is 0."""
        there = [self.column(n) for _ in range(self.next())]
        return there + [[0] * n] * (36 - len(there))


def unzigzag(value: int) -> int:
    return value >> 1 if value & 1 == 0 else -(value >> 1) - 1


def since(value: int, base: int) -> int:
    """Of a column "since X"."""
    return 0 if value == 0 else (base + unzigzag(value - 1)) % WRAP


def read_rows(process: Process, payload: bytes) -> None:
    numbers = Numbers(payload)
    dictionary, shift, unit, first_shape, new = (numbers.next() for _ in range(5))
    if dictionary != process.dictionary:
        process.dictionary, process.shapes = dictionary, {}
    shapes = numbers.columns(new)
    for i in range(new):
        process.shapes[first_shape + i] = [column[i] for column in shapes]
    rows = numbers.next()
    if rows == 0:
        return
    ticket, t_api, _group = numbers.next(), numbers.next(), numbers.next()
    columns = numbers.columns(rows)
    stamp = 0
    for i in range(rows):
        value = [column[i] for column in columns]
        ticket = ticket if i == 0 else (ticket + 1 + unzigzag(value[0])) % WRAP
        t_api += unzigzag(value[3])
        launch = since(value[4], t_api)
        start = 0
        if value[9]:
            stamp = (stamp + unzigzag(value[9] - 1)) % WRAP
            start = stamp
        shape = process.shapes[value[1]]
        process.calls[ticket] = Call(
            ticket=ticket,
            function=shape[1],
            count=shape[9],
            parts=shape[4],
            t_api=t_api << shift,
            stamp_start=start * unit,
            stamp_stop=since(value[10], start) * unit,
            event_start=since(value[34], launch or t_api) << shift,
            event_ns=value[35],
            event_error=value[31],
        )


def read_definitions(process: Process, payload: bytes) -> None:
    at = 0
    while at < len(payload):
        if payload[at] == 1:
            number, length = payload[at + 1], payload[at + 2]
            process.strings[number] = payload[at + 3 : at + 3 + length].decode()
            at += 3 + length
        else:
            assert payload[at] == 2
            at += 5 + struct.unpack_from("<H", payload, at + 3)[0]


def blocks(data: bytes, at: int) -> Iterator[tuple[int, int, bytes]]:
    """Kind, number and payload of each block."""
    while at + 24 <= len(data):
        magic, kind, major, number, length, crc, header_crc = struct.unpack_from("<4sHHIIII", data, at)
        assert (magic, major) == (b"NCSB", 2)
        assert header_crc == zlib.crc32(data[at : at + 20])
        payload = data[at + 24 : at + 24 + length]
        assert crc == zlib.crc32(payload)
        yield kind, number, payload
        at += (24 + length + 7) // 8 * 8


def read_blocks(process: Process, data: bytes, at: int) -> None:
    for kind, number, payload in blocks(data, at):
        if number in process.blocks:
            continue
        process.blocks.add(number)
        if kind == 1:
            for line in payload.decode().splitlines():
                key, _, fact = line.partition("=")
                process.facts[key] = fact
        elif kind == 2:
            read_definitions(process, payload)
        elif kind == 3:
            read_rows(process, payload)
        elif kind == 4:
            ticks, _monotonic, realtime = struct.unpack("<QQQ", payload)
            process.anchors.append((ticks, realtime))


def header(data: bytes) -> tuple[int, int]:
    """The trace id of a trace file, and where its blocks begin."""
    magic, major, _minor, length, trace_id, required, _optional = struct.unpack_from("<8sHHIQII", data)
    assert (magic, major, required) == (b"NCSTRACE", 2, 0)
    assert struct.unpack_from("<I", data, length - 8)[0] == zlib.crc32(data[: length - 8])
    return trace_id, length


def image(slot: bytes) -> tuple[int, bytearray] | None:
    """Sequence and content of a slot; nothing if it is not sound."""
    if slot[:8] != b"NCSSNAP1":
        return None
    sequence, bytes_of_image = struct.unpack_from("<QI", slot, 8)
    length, crc = struct.unpack_from("<II", slot, 24)
    if crc != zlib.crc32(slot[32 : 32 + length], zlib.crc32(slot[8:28])):
        return None
    content, at = bytearray(bytes_of_image), 32
    while at < 32 + length:
        offset, span = struct.unpack_from("<II", slot, at)
        content[offset : offset + span] = slot[at + 8 : at + 8 + span]
        at += 8 + span
    return sequence, content


def snapshot(data: bytes) -> bytearray:
    """The newest sound slot of a snapshot file."""
    places = [128 * 1024 * (2**c - 1) + turn * 64 * 1024 * 2**c for c in range(12) for turn in (0, 1)]
    sound = [found for at in places if (found := image(data[at:]))]
    return max(sound, key=lambda found: found[0])[1]


def read_live(process: Process, live: bytes | bytearray) -> None:
    magic, major, _minor = struct.unpack_from("<8sHH", live)
    assert (magic, major) == (b"NCSLIVE1", 2)
    assert struct.unpack_from("<I", live, 3232)[0] == 0, "required features"
    for at in (104, 128):
        ticks, _monotonic, realtime = struct.unpack_from("<QQQ", live, at)
        if ticks:
            process.anchors.append((ticks, realtime))
    pairs = struct.unpack_from("<14I", live, 16)
    (strings_at, strings), (rows_at, rows), (staging_at, _) = pairs[0:2], pairs[10:12], pairs[12:14]
    for i in range(strings):
        length = struct.unpack_from("<I", live, strings_at + 48 * i)[0]
        if length >= 2:
            at = strings_at + 48 * i + 4
            process.strings[i + 1] = bytes(live[at : at + length - 2]).decode()
    # Blocks that were not written to the trace file yet. A snapshot says how many there were, and has none.
    staged = struct.unpack_from("<Q", live, 456)[0]
    if live[staging_at : staging_at + 4] == b"NCSB":
        read_blocks(process, bytes(live[staging_at : staging_at + staged]), 0)
    for at in range(rows_at, rows_at + 320 * rows, 320):
        word, t_api, count = struct.unpack_from("<QQQ", live, at)
        ticket = word >> 2 & (1 << 44) - 1
        if word & 3 == 2 and ticket not in process.calls:
            stamps = struct.unpack_from("<QQ", live, at + 128)
            events = struct.unpack_from("<QQI", live, at + 256)
            parts = struct.unpack_from("<H", live, at + 114)[0]
            process.calls[ticket] = Call(ticket, live[at + 48], count, parts, t_api, *stamps, *events)


def read(trace: Path) -> Process:
    """The process of a trace file, with its live part."""
    process = Process()
    data = trace.read_bytes()
    trace_id, at = header(data)
    read_blocks(process, data, at)
    adopted, snap = trace.with_suffix(".live"), trace.with_suffix(".snap")
    if adopted.exists():
        found = image(adopted.read_bytes())
        assert found
        live = found[1]
    else:
        live = snapshot(snap.read_bytes())
    assert struct.unpack_from("<Q", live, 72)[0] == trace_id
    read_live(process, live)
    return process
