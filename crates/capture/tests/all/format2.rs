//! The bytes of format 2, kept as they were first written: `format2_rows.hex` is never made again.
//!
//! The rows begin as live rows of arbitrary bytes and as records that name their fields. So each byte of a
//! live row and each named field has its place in the hex, and one that is mixed up with another shows.

use crate::records::{of_a_regular_job, of_cuda_events, payloads};
use capture::format::FORMAT;
use capture::live::{row_state, Layout, Section, View};
use capture::rows::{Decoder, Encoder, GpuTime, Record, Shape, Shapes, Ticks};

const ROW: usize = std::mem::size_of::<capture::live::Row>();

/// Bytes that look random and are the same on every run.
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..ROW).map(|_| next()).collect()
}

/// Bytes of a live row that no field of format 2.0 has.
const SPARE: [std::ops::Range<usize>; 8] = [
    51..52,
    113..114,
    118..120,
    124..128,
    158..160,
    176..192,
    276..280,
    296..320,
];

/// Live rows of arbitrary bytes, but for the word that says that they are alive, and for the spare bytes.
fn of_live_rows() -> Vec<Record> {
    let layout = Layout::for_memory(0);
    let image = capture::live::Image::zeroed(layout.bytes());
    // SAFETY: the image is zeroed, long enough and outlives the view.
    let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
    let [rows, _] = layout.sections()[Section::Rows as usize];
    for at in 0..3 {
        let mut row = bytes(at + 1);
        let word = row_state::word(at, 70 + at, row_state::ALIVE);
        row[..8].copy_from_slice(&word.to_le_bytes());
        SPARE.iter().for_each(|spare| row[spare.clone()].fill(0));
        image.write(rows as usize + at as usize * ROW, &row);
    }
    let records: Vec<Record> = view.rows().iter().filter_map(Record::load).collect();
    assert_eq!(records.len(), 3);
    records
}

/// Every field of format 2.0 set, to a number of its own.
// Fields that come later are 0.
#[allow(clippy::needless_update)]
fn of_the_network() -> Vec<Record> {
    vec![Record {
        ticket: 300,
        shape: Shape {
            comm: 1,
            func: 2,
            datatype: 3,
            flags: 4,
            parts: 0x105,
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
            ..Shape::default()
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
        event_start: Ticks(0x1c00),
        event_ns: 24,
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

/// The blocks by name; what begins a new dictionary says so.
fn blocks() -> [(&'static str, bool, Vec<Record>); 4] {
    [
        ("live rows", false, of_live_rows()),
        ("a regular job", false, of_a_regular_job()),
        ("CUDA events", true, of_cuda_events(0x20_c840)),
        ("the network", false, of_the_network()),
    ]
}

/// Payloads by name: what follows `// NAME`, up to the next such line.
fn kept() -> Vec<(&'static str, Vec<u8>)> {
    let kept = payloads(include_str!("../format2_rows.hex"));
    assert_eq!(kept.len(), blocks().len());
    kept
}

#[test]
fn rows_are_written_as_they_were() {
    let mut encoder = Encoder::new();
    for ((name, restart, records), (kept_name, kept)) in blocks().into_iter().zip(kept()) {
        if restart {
            encoder.restart();
        }
        let mut payload = Vec::new();
        encoder.encode(&mut payload, &records);
        let line = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x} ")).collect();
        let hex: Vec<String> = payload.chunks(32).map(line).collect();
        assert_eq!(
            (name, &payload),
            (kept_name, &kept),
            "the code writes\n{}",
            hex.join("\n")
        );
    }
}

#[test]
fn rows_read_as_they_were_meant() {
    let (mut shapes, mut decoder) = (Shapes::default(), Decoder::new());
    for ((name, _, mut expected), (_, payload)) in blocks().into_iter().zip(kept()) {
        // Host times lose their lowest four bits.
        for r in &mut expected {
            let times = [
                &mut r.t_api,
                &mut r.t_launch0,
                &mut r.t_launch1,
                &mut r.t_enqueue,
            ];
            for time in times
                .into_iter()
                .chain([&mut r.t_end, &mut r.k_seen, &mut r.event_start])
            {
                time.0 &= !15;
            }
        }
        let outline = shapes.outline(FORMAT.major, &payload).expect("well formed");
        let mut found = Vec::new();
        let shapeless = decoder.decode(&shapes, &outline, &payload, |row, rest| {
            let (rest, shape) = (rest.copied().unwrap_or_default(), row.shape as usize);
            found.push(Record::from((row, &rest, &shapes.list()[shape])));
        });
        assert_eq!((shapeless, found), (Some(0), expected), "{name}");
    }
}
