//! Blocks of rows of format 1, which `format1_rows.hex` keeps as they were first written, read as they were
//! meant.
//!
//! What they were made from stands here as format 1 had it: rows by their bytes, and records with one pair of
//! GPU times. Whole files of format 1 are in `crates/tables/tests/all/formats.rs`, and in `data/`.

use crate::records::{of_a_regular_job, of_cuda_events, payloads};
use capture::live::part;
use capture::rows::{Decoder, GpuTime, Record, Shape, Shapes, Ticks};

/// Bytes of a row of the live part, which look random and are the same on every run.
fn bytes(seed: u64) -> [u8; 256] {
    let mut state = seed;
    std::array::from_fn(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
}

/// Rows of arbitrary bytes, field by field as format 1 had them.
fn of_live_rows() -> Vec<Record> {
    let row = |seed: u64| {
        let row = bytes(seed);
        let u64_at = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(row[at..at + 4].try_into().expect("4 bytes"));
        let u16_at = |at: usize| u16::from_le_bytes(row[at..at + 2].try_into().expect("2 bytes"));
        let record = Record {
            ticket: 69 + seed,
            shape: Shape {
                count: u64_at(16),
                stream: u64_at(32),
                comm: u32_at(40),
                root: u32_at(44) as i32,
                func: row[48],
                datatype: row[49],
                flags: row[50],
                peer: u32_at(104),
                algorithm: row[108],
                protocol: row[109],
                variant: row[110],
                parts: row[111].into(),
                nchannels: row[112],
                nwarps: row[113],
                ce_batches: u16_at(114),
                thread: 0,
                stack: 0,
            },
            t_api: Ticks(u64_at(8)),
            group: u64_at(24),
            template: u32_at(52),
            t_end: Ticks(u64_at(56)),
            t_launch0: Ticks(u64_at(64)),
            t_launch1: Ticks(u64_at(72)),
            t_enqueue: Ticks(u64_at(80)),
            seq: u64_at(88),
            user_tag: u64_at(96),
            send_buffer: u64_at(120),
            k_seen: Ticks(u64_at(144)),
            k_started: u16_at(152),
            k_stopped: u16_at(154),
            verdict: u16_at(156),
            phase_stop: [160, 168].map(|at| GpuTime(u64_at(at))),
            recv_buffer: u64_at(176),
            event_error: u32_at(184),
            ops_started: u32_at(192),
            ops_stopped: u32_at(196),
            steps: u32_at(200),
            bytes_sent: u64_at(208),
            bytes_received: u64_at(216),
            waits: std::array::from_fn(|i| u32_at(224 + 4 * i)),
            net_longest: u32_at(248),
            net_link: u32_at(252),
            ..Record::default()
        };
        with_times(record, u64_at(128), u64_at(136))
    };
    (1..4).map(row).collect()
}

/// A record with the GPU times that format 1 had in one pair of fields.
fn with_times(mut record: Record, k_start: u64, k_stop: u64) -> Record {
    if record.shape.parts & part::EVENTS == 0 {
        (record.stamp_start, record.stamp_stop) = (GpuTime(k_start), GpuTime(k_stop));
    } else {
        (record.event_start, record.event_ns) = (Ticks(k_start), k_stop.wrapping_sub(k_start));
    }
    record
}

/// Every field of format 1 set, to a number of its own.
fn of_the_network() -> Vec<Record> {
    vec![Record {
        ticket: 300,
        shape: Shape {
            comm: 1,
            func: 2,
            datatype: 3,
            flags: 4,
            parts: 5,
            algorithm: 6,
            protocol: 7,
            variant: 8,
            nchannels: 9,
            nwarps: 10,
            count: 11,
            root: 12,
            peer: 13,
            stream: 14,
            ce_batches: 15,
            thread: 0,
            stack: 0,
        },
        t_api: Ticks(0x1600),
        t_launch0: Ticks(0x1710),
        t_launch1: Ticks(0x1830),
        t_enqueue: Ticks(0x1960),
        t_end: Ticks(0x1aa0),
        group: 21,
        seq: 22,
        stamp_start: GpuTime(23),
        stamp_stop: GpuTime(47),
        k_seen: Ticks(0x1bf0),
        event_error: 25,
        k_started: 26,
        k_stopped: 27,
        verdict: 28,
        template: 29,
        user_tag: 30,
        send_buffer: 31,
        recv_buffer: 32,
        phase_stop: [GpuTime(56), GpuTime(57)],
        ops_started: 35,
        ops_stopped: 36,
        steps: 37,
        bytes_sent: 38,
        bytes_received: 39,
        waits: [40, 41, 42, 43, 44, 45],
        net_longest: 46,
        net_link: 48,
        ..Record::default()
    }]
}

#[test]
fn rows_read_as_they_were_meant() {
    let expected = [
        ("live rows", of_live_rows()),
        ("a regular job", of_a_regular_job()),
        ("CUDA events", of_cuda_events(0x20_0040)),
        ("the network", of_the_network()),
    ];
    let kept = payloads(include_str!("../format1_rows.hex"));
    assert_eq!(kept.len(), expected.len());
    let (mut shapes, mut decoder) = (Shapes::default(), Decoder::new());
    for ((name, mut expected), (_, payload)) in expected.into_iter().zip(kept) {
        // Host times lose their lowest four bits, but for the start of CUDA events.
        for r in &mut expected {
            let times = [&mut r.t_api, &mut r.t_launch0, &mut r.t_launch1];
            let later = [&mut r.t_enqueue, &mut r.t_end, &mut r.k_seen];
            times
                .into_iter()
                .chain(later)
                .for_each(|time| time.0 &= !15);
        }
        let outline = shapes.outline(1, &payload).expect("well formed");
        let mut found = Vec::new();
        let shapeless = decoder.decode(&shapes, &outline, &payload, |row, rest| {
            let (rest, shape) = (rest.copied().unwrap_or_default(), row.shape as usize);
            found.push(Record::from((row, &rest, &shapes.list()[shape])));
        });
        assert_eq!((shapeless, found), (Some(0), expected), "{name}");
    }
}
