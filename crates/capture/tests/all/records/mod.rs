//! Records that the tests of both formats write or read.

use capture::live::part;
use capture::rows::{GpuTime, Record, Shape, Ticks};

/// Two communicators, launch times and stamps in units of 32 ns.
pub fn of_a_regular_job() -> Vec<Record> {
    let record = |i: u64| Record {
        ticket: 100 + i,
        shape: Shape {
            comm: 1 + (i % 2) as u32,
            func: 1 + (i % 2) as u8,
            datatype: 3,
            parts: part::ENQUEUED | part::ENQUEUE_DONE | part::LAUNCHED,
            algorithm: 4,
            protocol: 5,
            variant: 6,
            nchannels: 4,
            nwarps: 16,
            count: 1 << (10 + i % 2),
            root: -1,
            stream: 0x5000,
            ..Shape::default()
        },
        t_api: Ticks(0x10_0000 + 0x8000 * i),
        t_launch0: Ticks(0x10_1000 + 0x8000 * i),
        t_launch1: Ticks(0x10_2000 + 0x8010 * i),
        t_enqueue: Ticks(0x10_0800 + 0x8000 * i),
        t_end: Ticks(0x10_3000 + 0x8020 * i),
        group: 51 + i,
        seq: 1 + i / 2,
        stamp_start: GpuTime((1 << 40) + 5000 * 32 * i),
        stamp_stop: GpuTime((1 << 40) + 5000 * 32 * i + 96 + 32 * i),
        k_seen: Ticks(0x10_5000 + 0x8000 * i),
        k_started: 4,
        k_stopped: 4,
        ..Record::default()
    };
    (0..6).map(record).collect()
}

/// A time of CUDA events, which has an error, and a call that was not timed.
pub fn of_cuda_events(event_start: u64) -> Vec<Record> {
    let record = |ticket, event_start, event_ns, event_error| Record {
        ticket,
        shape: Shape {
            comm: 1,
            func: 1,
            parts: part::ENQUEUED | part::EVENTS,
            ..Shape::default()
        },
        t_api: Ticks(0x20_0000 + (ticket << 8)),
        t_end: Ticks(0x20_0080 + (ticket << 8)),
        event_start,
        event_ns,
        event_error,
        ..Record::default()
    };
    vec![
        record(200, Ticks(event_start), 3, 17),
        record(201, Ticks(0), 0, 0),
    ]
}

/// Payloads by name: what follows `// NAME` in the hex, up to the next such line.
pub fn payloads(hex: &'static str) -> Vec<(&'static str, Vec<u8>)> {
    let payload = |part: &'static str| {
        let (name, hex) = part.split_once('\n').expect("a line with the name");
        let byte = |digits| u8::from_str_radix(digits, 16).expect("a byte in hex");
        (name, hex.split_whitespace().map(byte).collect())
    };
    hex.split("// ").skip(1).map(payload).collect()
}
