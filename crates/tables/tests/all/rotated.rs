//! Processes with several trace files: some are there, and an account tells of the others.

use capture::block::{self, BlockKind};
use capture::rotated::{Account, Bounds, CallTimes, Key, Rotated};
use capture::rows::{Encoder, Record, Shape, Ticks};
use std::path::Path;
use tables::{Capture, Source};

const BOUNDS: Bounds = Bounds {
    entries: 16,
    buckets: 64,
};

/// The `number`-th trace file: ten calls in two blocks, after who that is or an account of files 1 to `gone`.
fn file(id: u64, number: u32, gone: u32) -> Vec<u8> {
    let mut out = block::file_header(id).to_vec();
    let first = number * 3;
    let start = block::begin(&mut out);
    if number == 0 {
        out.extend(b"host=h\npid=7\nrank=0\nmode=trace\nclock=monotonic\n");
        block::finish(&mut out, start, BlockKind::Process, first);
    } else {
        let mut account = Account::default();
        for i in 0..10 * u64::from(gone) {
            let times = CallTimes {
                gpu: None,
                host: 100 + i,
                shown: 100 + i,
            };
            account.add(Key::default(), times, BOUNDS);
        }
        let rotated = Rotated {
            first_kept: gone + 1,
            first_block: 3,
            blocks: gone * 3,
            account,
        };
        rotated.put(&mut out);
        block::finish(&mut out, start, BlockKind::Rotated, first);
    }
    let mut encoder = Encoder::new();
    (0..number).for_each(|_| encoder.restart());
    for half in 0..2 {
        let start = block::begin(&mut out);
        let from = u64::from(number) * 10 + half * 5;
        let rows: Vec<Record> = (from..from + 5)
            .map(|ticket| Record {
                ticket,
                shape: Shape {
                    count: 64 + u64::from(number),
                    root: -1,
                    ..Shape::default()
                },
                t_api: Ticks(16 * (ticket + 1)),
                t_end: Ticks(16 * (ticket + 2)),
                ..Record::default()
            })
            .collect();
        encoder.encode(&mut out, &rows);
        block::finish(&mut out, start, BlockKind::Rows, first + 1 + half as u32);
    }
    out
}

fn open(files: &[(&str, &[u8])]) -> Capture {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files {
        let path = folder.path().join("h").join(name);
        std::fs::create_dir_all(path.parent().expect("inside")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }
    Capture::open(folder.path()).expect("opens")
}

/// Numbers of the files that the calls are from, each with ten.
fn seen(capture: &Capture) -> Vec<u64> {
    let process = &capture.processes[0];
    let mut numbers = Vec::new();
    for ten in process.calls.chunks(10) {
        let number = ten[0].ticket / 10;
        for (i, call) in ten.iter().enumerate() {
            assert_eq!(call.ticket, number * 10 + i as u64);
            assert_eq!(process.shapes[call.shape as usize].count, 64 + number);
        }
        numbers.push(number);
    }
    numbers
}

fn folded(capture: &Capture) -> u64 {
    capture.processes[0].totals.iter().map(|t| t.folded).sum()
}

#[test]
fn files_that_are_there_and_the_account_of_the_others_make_a_process() {
    let capture = open(&[
        ("a.trace", &file(1, 0, 0)),
        ("a.3.trace", &file(1, 3, 1)),
        ("a.4.trace", &file(1, 4, 2)),
    ]);
    assert_eq!(capture.processes.len(), 1);
    assert_eq!(capture.problems, []);
    assert_eq!(seen(&capture), [0, 3, 4]);
    let process = &capture.processes[0];
    assert_eq!((process.rotated, folded(&capture)), (20, 20));
    let durations = process.totals[0].histogram.iter();
    assert_eq!(durations.map(|(_, n)| n).sum::<u64>(), 20);
    assert_eq!(process.file, Path::new("h/a.trace"));
}

#[test]
fn packed_files_are_read_as_plain_ones() {
    let packed = |bytes: &[u8]| zstd::encode_all(bytes, 1).expect("packed");
    let capture = open(&[
        ("a.trace.zst", &packed(&file(1, 0, 0))),
        ("a.1.trace", &file(1, 1, 0)),
        ("a.2.trace.zst", &packed(&file(1, 2, 0))),
    ]);
    assert_eq!((seen(&capture), capture.problems), (vec![0, 1, 2], vec![]));
}

#[test]
fn a_file_that_is_accounted_for_is_left_out_though_it_is_there() {
    let capture = open(&[
        ("a.trace", &file(1, 0, 0)),
        ("a.1.trace", &file(1, 1, 0)),
        ("a.2.trace", &file(1, 2, 0)),
        ("a.3.trace", &file(1, 3, 1)),
    ]);
    assert_eq!((seen(&capture), folded(&capture)), (vec![0, 2, 3], 10));
    assert_eq!(capture.problems, []);
}

#[test]
fn a_file_that_was_being_made_is_no_damage() {
    let whole = file(1, 2, 1);
    for cut in [0, 7, block::FILE_HEADER, block::FILE_HEADER + 30] {
        let capture = open(&[
            ("a.trace", &file(1, 0, 0)),
            ("a.1.trace", &file(1, 1, 0)),
            ("a.2.trace", &whole[..cut]),
        ]);
        assert_eq!((seen(&capture), folded(&capture)), (vec![0, 1], 0), "{cut}");
        assert_eq!(capture.problems, [], "{cut}");
    }
}

#[test]
fn a_file_that_is_missing_is_said() {
    let capture = open(&[("a.trace", &file(1, 0, 0)), ("a.3.trace", &file(1, 3, 1))]);
    assert_eq!(seen(&capture), [0, 3]);
    let [problem] = &capture.problems[..] else {
        panic!("{:?}", capture.problems);
    };
    assert_eq!(problem.found, "3 missing");
    assert_eq!(problem.file, Path::new("h/a.3.trace"));
    assert_eq!(capture.processes[0].bad_blocks, 3);
    // The first one too: who that was is not known then.
    let capture = open(&[("a.1.trace", &file(1, 1, 0)), ("a.2.trace", &file(1, 2, 0))]);
    assert_eq!(seen(&capture), [1, 2]);
    assert_eq!(capture.processes[0].bad_blocks, 3);
}

#[test]
fn a_damaged_account_is_said_and_an_older_one_counts() {
    let mut newest = file(1, 4, 2);
    newest[block::FILE_HEADER + block::BLOCK_HEADER + 3] ^= 1;
    let capture = open(&[
        ("a.trace", &file(1, 0, 0)),
        ("a.3.trace", &file(1, 3, 1)),
        ("a.4.trace", &newest),
    ]);
    assert_eq!((seen(&capture), folded(&capture)), (vec![0, 3, 4], 10));
    // The account itself, and the three blocks that it alone knows to be gone.
    assert_eq!(capture.processes[0].bad_blocks, 4, "{:?}", capture.problems);
}

#[test]
fn another_process_s_file_is_named_and_left_out() {
    let capture = open(&[("a.trace", &file(1, 0, 0)), ("a.1.trace", &file(2, 1, 0))]);
    assert_eq!(seen(&capture), [0]);
    assert_eq!(capture.problems.len(), 1);
    assert!(capture.problems[0].found.contains("another process"));
}

#[test]
fn any_of_its_files_opens_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..3 {
        let name = format!("a{}", capture::rotated::file_ending(number));
        std::fs::write(folder.path().join(name), file(1, number, 0)).expect("written");
    }
    for name in ["a.trace", "a.2.trace"] {
        let source = Source::open(&folder.path().join(name), &tables::ReadProgress::default());
        assert_eq!(source.expect("opens").rows(), 30, "{name}");
    }
}

#[test]
fn files_that_a_running_job_removes_while_they_are_read_are_read_to_their_end() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in [0, 2, 3] {
        let name = match number {
            0 => "a.trace".to_owned(),
            n => format!("a.{n}.trace"),
        };
        let bytes = file(1, number, 1);
        std::fs::write(folder.path().join(name), bytes).expect("written");
    }
    let progress = tables::ReadProgress::default();
    let source = Source::open(folder.path(), &progress).expect("opens");
    std::fs::remove_file(folder.path().join("a.2.trace")).expect("removed");
    let capture = source.load(&progress);
    assert_eq!(capture.problems, []);
    assert_eq!(seen(&capture), [0, 2, 3]);
}
