//! What a source shows in parts is what opening the whole capture gives, whatever the order of the rows.

use capture::block::{self, BlockKind};
use capture::live::{self, row_state, Image, Layout, View};
use capture::rows::{Encoder, GpuTime, Record, Shape, Ticks};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;
use tables::source::{ReadOptions, Shown};
use tables::{Call, Capture, Process, ReadProgress, Source};

fn record(ticket: u64) -> Record {
    let start = 1_000_000 + ticket * 1024;
    Record {
        ticket,
        shape: Shape {
            comm: 1,
            count: ticket % 5,
            nchannels: 1,
            root: -1,
            ..Shape::default()
        },
        t_api: Ticks(2_000 + 160 * ticket),
        t_end: Ticks(2_160 + 160 * ticket),
        stamp_start: GpuTime(start),
        stamp_stop: GpuTime(start + 512),
        // Some starts are another kernel's.
        k_seen: Ticks(2_000 + 160 * (ticket + ticket % 7 * 2_000)),
        user_tag: ticket % 3,
        ..Record::default()
    }
}

fn trace_file(id: u64, blocks: &[Vec<u64>]) -> Vec<u8> {
    let mut out = block::file_header(id).to_vec();
    let mut put = |kind, number, fill: &mut dyn FnMut(&mut Vec<u8>)| {
        let start = block::begin(&mut out);
        fill(&mut out);
        block::finish(&mut out, start, kind, number);
    };
    let facts = b"host=h\npid=1\nrank=0\nclock=monotonic\n";
    put(BlockKind::Process, 0, &mut |out| out.extend(facts));
    put(BlockKind::Anchor, 1, &mut |out| {
        for word in [1_000u64, 0, 1_000_000_000] {
            out.extend(word.to_le_bytes());
        }
    });
    let mut encoder = Encoder::new();
    for (number, tickets) in blocks.iter().enumerate() {
        let records: Vec<Record> = tickets.iter().map(|ticket| record(*ticket)).collect();
        put(BlockKind::Rows, number as u32 + 2, &mut |out| {
            encoder.encode(out, &records)
        });
    }
    out
}

fn live_part(id: u64, tickets: &[u64]) -> Vec<u8> {
    let layout = Layout {
        graphs: 0,
        launches: 0,
        strings: 2,
        comms: 2,
        groups: 2,
        totals: 2,
        pages: 2,
        rows: 32,
        staging: 64,
        net_ops: 16,
        most_comms: 0,
        most_rows: 0,
        most_graphs: 0,
    };
    let image = Image::zeroed(layout.bytes());
    // SAFETY: the image is zeroed, long enough and outlives the view.
    let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
    view.header().trace_id.store(id, Relaxed);
    for (row, ticket) in view.rows().iter().zip(tickets) {
        row.comm.store(1, Relaxed);
        row.t_api.store(Ticks(2_000 + 160 * ticket), Relaxed);
        row.t_end.store(Ticks(2_000 + 176 * ticket), Relaxed);
        row.user_tag.store(77, Relaxed);
        let word = row_state::word(0, *ticket, row_state::ALIVE);
        row.word.store(word, Relaxed);
    }
    view.header().magic.store(live::MAGIC, Relaxed);
    let words = image.words().iter();
    words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect()
}

/// A call, its user tag, and its shape's count.
type Seen = (Call, u64, u64);

fn seen(process: &Process) -> Vec<Seen> {
    let seen = |call: &Call| {
        let extra = (call.extra as usize).checked_sub(1);
        let tag = extra.map_or(0, |index| process.extras[index].user_tag);
        let call = Call { extra: 0, ..*call };
        (call, tag, process.shapes[call.shape as usize].count)
    };
    process.calls.iter().map(seen).collect()
}

/// The calls that are shown of each process, and the capture that remains.
fn shown(folder: &Path, how: ReadOptions) -> (Vec<Vec<Seen>>, Capture) {
    let progress = ReadProgress::default();
    let all = Mutex::new(BTreeMap::new());
    let source = Source::open_as(folder, &progress, how).expect("a capture");
    let (_, capture) = source.fold(
        &progress,
        || (),
        |_, capture, process: &Process, shown: Shown| {
            let index = capture
                .processes
                .iter()
                .position(|p| p.file == process.file);
            let mut all = all.lock().expect("no panic");
            let calls: &mut Vec<Seen> = all.entry(index).or_default();
            assert_eq!(shown.first, calls.is_empty());
            calls.extend(seen(process));
        },
    );
    (
        all.into_inner().expect("no panic").into_values().collect(),
        capture,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_put_together_are_the_whole(
        // Near each other, far away, and some of them twice.
        blocks in prop::collection::vec(
            prop::collection::vec(prop_oneof![9 => 0u64..200, 1 => 1u64 << 40..1 << 41], 1..60), 1..8),
        live in prop::collection::vec(0u64..220, 0..8),
        part in 1u64..100,
        threads in 1usize..4,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        for (id, name) in [(7, "a"), (8, "b")] {
            let path = folder.path().join(name);
            std::fs::write(path.with_extension("trace"), trace_file(id, &blocks)).expect("written");
            std::fs::write(path.with_extension("live"), live_part(id, &live)).expect("written");
        }
        let capture = Capture::open(folder.path()).expect("a capture");
        let whole: Vec<Vec<Seen>> = capture.processes.iter().map(seen).collect();
        prop_assert!(whole[0].is_sorted_by(|a, b| a.0.ticket < b.0.ticket));
        let how = ReadOptions { threads, whole: 0, part, ..ReadOptions::default() };
        let (parts, rest) = shown(folder.path(), how);
        prop_assert_eq!(&parts, &whole);
        prop_assert_eq!(&rest.problems, &capture.problems);
        prop_assert_eq!(rest.processes[1].sealed, capture.processes[1].sealed);
        let (at_once, _) = shown(folder.path(), ReadOptions { whole: u64::MAX, ..how });
        prop_assert_eq!(&at_once, &whole);
    }
}
