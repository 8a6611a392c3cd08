use super::columns::column;
use super::*;
use crate::format::FORMAT;
use crate::live::{row_state, Row};
use proptest::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

/// Rows of a block, at most. Miri takes seconds for each.
const MOST: usize = if cfg!(miri) { 3 } else { 20 };

/// The records of a block and how many have no shape.
fn decode(
    decoder: &mut Decoder,
    shapes: &Shapes,
    payload: &[u8],
    outline: Outline,
) -> (Vec<Record>, u64) {
    let mut records = Vec::new();
    let shapeless = decoder.decode(shapes, &outline, payload, |row, rest| {
        let rest = rest.copied().unwrap_or_default();
        records.push(Record::from((
            row,
            &rest,
            &shapes.list()[row.shape as usize],
        )));
    });
    (records, shapeless.expect("well formed"))
}

fn record() -> impl Strategy<Value = Record> {
    let shape = (0..3u32, 0..4u8, 0..3u8, any::<u8>(), 0..3u64, -1..3i32).prop_map(
        |(comm, func, algorithm, nchannels, count, root)| Shape {
            comm,
            func,
            algorithm,
            nchannels,
            count,
            root,
            ..Shape::default()
        },
    );
    let time = prop_oneof![
        Just(0u64),
        (1u64 << 40..1 << 41).prop_map(|t| t << 4),
        (0u64..1 << 58).prop_map(|t| t << 4)
    ];
    (
        (
            any::<u64>(),
            shape,
            time.clone(),
            time.clone(),
            time.clone(),
            time.clone(),
        ),
        (
            time.clone(),
            any::<u64>(),
            any::<u64>(),
            prop_oneof![0..u64::MAX / 4, any::<u64>()],
            time,
            any::<u16>(),
            any::<u16>(),
        ),
        prop::array::uniform6(any::<u32>()),
    )
        .prop_map(|(a, b, waits)| Record {
            ticket: a.0,
            shape: a.1,
            t_api: Ticks(a.2),
            t_launch0: Ticks(a.3),
            t_launch1: Ticks(a.4),
            t_enqueue: Ticks(a.5),
            t_end: Ticks(b.0),
            group: b.1,
            seq: b.2,
            stamp_start: GpuTime(b.3),
            stamp_stop: GpuTime(match b.3 {
                0 => 0,
                start => start.wrapping_add(b.5.into()),
            }),
            k_seen: Ticks(b.4),
            event_start: Ticks(b.4),
            event_ns: b.3,
            event_error: waits[0] & 3,
            net_longest: waits[1] & 7,
            net_link: waits[2] & 3,
            waiter: waits[3] & 5,
            waited: (waits[4] >> 24) as i32 - 128,
            k_started: b.5,
            k_stopped: b.6,
            waits,
            ..Record::default()
        })
}

/// A live row of any bytes, as a record: whatever fields there are have any values.
fn live_record() -> impl Strategy<Value = Record> {
    let word = prop_oneof![Just(0u64), 0..100u64, any::<u64>()];
    (0..1000u64, prop::collection::vec(word, 40)).prop_map(|(ticket, words)| {
        let words: [u64; 40] = words.try_into().expect("40 of them");
        // SAFETY: a Row is 320 bytes of atomic integers, for which any bytes are values.
        let row: Row = unsafe { std::mem::transmute(words) };
        let word = row_state::word(0, ticket, row_state::ALIVE);
        row.word.store(word, Relaxed);
        let mut r = Record::load(&row).expect("alive");
        // Host times lose their lowest four bits.
        let times = [&mut r.t_api, &mut r.t_launch0, &mut r.t_launch1];
        let later = [&mut r.t_enqueue, &mut r.t_end, &mut r.k_seen];
        let times = times.into_iter().chain(later);
        times
            .chain([&mut r.event_start])
            .for_each(|time| time.0 &= !15);
        r
    })
}

proptest! {
    #[test]
    fn live_rows_round_trip(records in prop::collection::vec(live_record(), 1..MOST)) {
        let mut payload = Vec::new();
        Encoder::new().encode(&mut payload, &records);
        let mut shapes = Shapes::default();
        let outline = shapes.outline(FORMAT.major, &payload).expect("well formed");
        prop_assert_eq!(decode(&mut Decoder::new(), &shapes, &payload, outline), (records, 0));
    }

    #[test]
    fn records_round_trip(
        blocks in prop::collection::vec(prop::collection::vec(record(), 0..2 * MOST), 1..4),
    ) {
        let (mut encoder, mut shapes, mut decoder) = (Encoder::new(), Shapes::default(), Decoder::new());
        for records in blocks {
            let mut payload = Vec::new();
            encoder.encode(&mut payload, &records);
            let outline = shapes.outline(FORMAT.major, &payload).expect("well formed");
            let tickets = || records.iter().map(|r| r.ticket);
            prop_assert_eq!(outline.rows as usize, records.len());
            let bounds = (tickets().min().unwrap_or(u64::MAX), tickets().max().unwrap_or(0));
            prop_assert_eq!(outline.tickets, bounds);
            prop_assert_eq!(outline.stamped, records.iter().any(|r| r.stamp_start.0 != 0));
            prop_assert_eq!(decode(&mut decoder, &shapes, &payload, outline), (records, 0));
        }
    }

    #[test]
    fn any_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut shapes = Shapes::default();
        for major in [1, 2] {
            if let Some(outline) = shapes.outline(major, &bytes) {
                let _ = Decoder::new().decode(&shapes, &outline, &bytes, |_, _| ());
            }
        }
        let _ = definitions::read(&bytes);
    }
}

#[test]
fn the_spec_has_every_column() {
    of_spec("| | column | value |", columns::COLUMNS);
    of_spec("| | shape column | value |", columns::SHAPE_COLUMNS);
}

/// The table of SPEC.md below this line has so many columns.
fn of_spec(title: &str, columns: usize) {
    let spec = include_str!("../../SPEC.md");
    let (_, table) = spec.split_once(title).expect("a table");
    let (table, _) = table.split_once("\n\n").expect("its end");
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let mut found = Vec::new();
    for cell in table.lines().filter_map(|line| line.split('|').nth(1)) {
        match cell.split_once(" to ") {
            Some((first, last)) => {
                found.extend(number(first).expect("a number")..=number(last).expect("one"))
            }
            None => found.extend(cell.split(',').filter_map(number)),
        }
    }
    assert_eq!(found, Vec::from_iter(0..columns));
}

/// A block of a writer that knows three columns more.
#[test]
fn columns_that_are_not_known_are_counted_and_left_out() {
    let record = Record {
        ticket: 1,
        event_start: Ticks(32),
        event_ns: 7,
        ..Record::default()
    };
    let mut payload = Vec::new();
    Encoder::new().encode(&mut payload, &[record]);
    // The number stands before the columns. A column takes a byte, and one with a value another: the group
    // and these two. What is behind them is not written.
    let written = column::event_ns + 1;
    let count = payload.len() - (written + 3) - 1;
    assert_eq!(usize::from(payload[count]), written);
    let mut newer = payload.clone();
    newer[count] = (columns::COLUMNS + 3) as u8;
    newer.extend(std::iter::repeat_n(0, columns::COLUMNS - written));
    newer.extend([1, 9, 0, 2, 9]);
    let mut shapes = Shapes::default();
    for (bytes, unknown) in [(&payload, 0), (&newer, 3)] {
        let outline = shapes.outline(FORMAT.major, bytes).expect("well formed");
        assert_eq!(outline.unknown, unknown);
        let decoded = decode(&mut Decoder::new(), &shapes, bytes, outline);
        assert_eq!(decoded, (vec![record], 0));
    }
}

/// What only few rows have, and of that only a late column.
#[test]
fn a_row_with_nothing_but_a_late_column_keeps_it() {
    let record = Record {
        ticket: 1,
        net_longest: 7,
        ..Record::default()
    };
    let mut payload = Vec::new();
    Encoder::new().encode(&mut payload, &[record]);
    let mut shapes = Shapes::default();
    let outline = shapes.outline(FORMAT.major, &payload).expect("well formed");
    let decoded = decode(&mut Decoder::new(), &shapes, &payload, outline);
    assert_eq!(decoded, (vec![record], 0));
}

#[test]
fn rows_without_their_dictionary_are_counted() {
    let mut encoder = Encoder::new();
    let records = [Record {
        ticket: 1,
        ..Record::default()
    }];
    encoder.encode(&mut Vec::new(), &records);
    let mut second = Vec::new();
    encoder.encode(&mut second, &records);
    let mut shapes = Shapes::default();
    let outline = shapes.outline(FORMAT.major, &second).expect("well formed");
    let decoded = decode(&mut Decoder::new(), &shapes, &second, outline);
    assert_eq!(decoded, (vec![], 1));
}

#[test]
fn a_regular_job_takes_few_bytes_a_call() {
    let n = if cfg!(miri) { 50 } else { 1000u64 };
    let records: Vec<Record> = (0..n)
        .map(|i| {
            let jitter = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
            let t_api = (1 << 50) + i * 40_000_000 + (jitter << 8);
            Record {
                ticket: i,
                shape: Shape {
                    comm: 1,
                    func: 1,
                    count: 1 << (i % 5),
                    nchannels: 16,
                    ..Shape::default()
                },
                t_api: Ticks(t_api),
                t_launch0: Ticks(t_api + 9_000 + (jitter >> 4)),
                t_launch1: Ticks(t_api + 21_000 + (jitter >> 3)),
                t_end: Ticks(t_api + 26_000 + (jitter >> 2)),
                group: i,
                seq: i + 1,
                ..Record::default()
            }
        })
        .collect();
    let mut payload = Vec::new();
    Encoder::new().encode(&mut payload, &records);
    assert!(
        payload.len() < 15 * records.len(),
        "{} bytes a call",
        payload.len() as f64 / n as f64
    );
}

#[test]
fn a_record_that_has_returned_has_all_that_came_before() {
    use crate::live::{row_state, Row};
    use std::sync::atomic::{AtomicBool, Ordering::*};
    // SAFETY: every field is an atomic integer, for which 0 is a value.
    let row: Row = unsafe { std::mem::zeroed() };
    row.word
        .store(row_state::word(1, 1, row_state::ALIVE), Release);
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while going.load(Relaxed) {
                // NCCL enqueues the call, and it returns; then the test begins anew.
                row.parts.store(1, Release);
                row.t_end.store(Ticks(1), Release);
                while row.t_end.load(Acquire) != Ticks(0) && going.load(Relaxed) {
                    std::thread::yield_now();
                }
            }
        });
        let begin_anew = || {
            row.parts.store(0, Relaxed);
            row.t_end.store(Ticks(0), Release);
        };
        for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let record = loop {
                let record = Record::load(&row).expect("alive");
                if record.t_end != Ticks(0) {
                    break record;
                }
            };
            if record.shape.parts != 1 {
                going.store(false, Relaxed);
            }
            assert_eq!(record.shape.parts, 1);
            begin_anew();
        }
        going.store(false, Relaxed);
    });
}
