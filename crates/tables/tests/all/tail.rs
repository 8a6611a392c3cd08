//! The newest span of captures that grow.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tables::sums::Sum;
use tables::{Capture, OpenError, Tail};

/// Longer than any recorded job.
const ALL: i64 = 1 << 60;

/// The files of a recorded job, unpacked.
fn unpacked(job: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(job);
    let mut found = Vec::new();
    for host in fs::read_dir(&root).expect("the job").flatten() {
        if !host.path().is_dir() {
            continue;
        }
        for file in fs::read_dir(host.path()).expect("a host").flatten() {
            let mut bytes = Vec::new();
            let packed = fs::File::open(file.path()).expect("opened");
            let name = file.file_name().into_string().expect("UTF-8");
            let Some(name) = name.strip_suffix(".zst") else {
                continue;
            };
            let mut packed = zstd::Decoder::new(packed).expect("zstd");
            packed.read_to_end(&mut bytes).expect("unpacked");
            found.push((Path::new(&host.file_name()).join(name), bytes));
        }
    }
    found.sort();
    assert!(found.len() > 1, "{job}");
    found
}

/// Writes the files up to a part of each trace file.
fn write(folder: &Path, files: &[(PathBuf, Vec<u8>)], part: f64) {
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a host")).expect("made");
        let is_trace = name.extension().is_some_and(|e| e == "trace");
        if !is_trace {
            // As of the end: with it, the counts are those of the end.
            if part >= 1.0 {
                fs::write(path, bytes).expect("written");
            }
            continue;
        }
        let there = path.metadata().map_or(0, |meta| meta.len() as usize);
        let end = (bytes.len() as f64 * part) as usize;
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .create(true)
            .append(true)
            .open(path)
            .expect("opened");
        file.write_all(&bytes[there..end]).expect("written");
    }
}

/// A folder with a whole job.
fn whole(job: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &unpacked(job), 1.0);
    folder
}

/// What a capture says of its calls.
fn calls(capture: &Capture) -> Vec<(u64, i64, i64, u64)> {
    let each = capture.processes.iter().flat_map(|process| {
        let calls = process.calls.iter();
        calls.map(|call| (call.ticket, call.api_ns, call.return_ns, call.seq))
    });
    each.collect()
}

#[test]
fn a_capture_that_is_read_as_it_grows_is_the_one_that_is_read_at_once() {
    for job in ["ddp_late_host", "slow_link", "calls_228", "decode_slow_gpu"] {
        let files = unpacked(job);
        let folder = tempfile::tempdir().expect("a folder");
        let mut tail = Tail::new(folder.path(), ALL);
        let mut before = 0;
        for part in [0.1, 0.35, 0.351, 0.8, 1.0] {
            write(folder.path(), &files, part);
            let capture = tail.newest().expect("read");
            let now = calls(&capture).len();
            assert!(now >= before, "{job}: {before} and then {now} calls");
            before = now;
        }
        let (grown, whole) = (
            tail.newest().expect("read"),
            Capture::open(folder.path()).expect("read"),
        );
        assert_eq!(calls(&grown), calls(&whole), "{job}");
        assert_eq!(grown.processes.len(), whole.processes.len());
        for (grown, whole) in grown.processes.iter().zip(&whole.processes) {
            assert_eq!(grown.forgotten, 0);
            assert_eq!(grown.facts, whole.facts);
            assert_eq!(grown.counters, whole.counters);
            assert_eq!(grown.totals, whole.totals);
            assert_eq!(grown.sealed, whole.sealed);
            assert_eq!(grown.bad_blocks, whole.bad_blocks);
            assert_eq!(grown.ended, whole.ended);
            let shapes = |of: &tables::Process| of.shapes.len();
            assert_eq!(shapes(grown), shapes(whole));
        }
        assert!(grown.problems.is_empty(), "{job}: {:?}", grown.problems);
    }
}

#[test]
fn a_short_span_has_the_newest_calls_and_counts_the_others() {
    let folder = whole("ddp_late_host");
    let whole = Capture::open(folder.path()).expect("read");
    let span = 1_000_000_000;
    let newest = Tail::new(folder.path(), span).newest().expect("read");
    let mut first = Vec::new();
    for (newest, whole) in newest.processes.iter().zip(&whole.processes) {
        let (all, kept) = (whole.calls.len(), newest.calls.len());
        assert!(kept > 0 && kept < all / 2, "{kept} of {all}");
        assert_eq!(newest.forgotten + kept as u64, all as u64);
        let own: Vec<u64> = newest.calls.iter().map(|call| call.ticket).collect();
        let last: Vec<u64> = whole.calls[all - kept..]
            .iter()
            .map(|call| call.ticket)
            .collect();
        assert_eq!(own, last);
        let call = newest.calls[0];
        first.push((newest.shapes[call.shape as usize].function, call.seq));
    }
    // All ranks begin with the same operation.
    assert!(first.windows(2).all(|pair| pair[0] == pair[1]), "{first:?}");
}

#[test]
fn launches_of_graphs_and_steps_before_the_span_are_left_out() {
    let folder = whole("decode_graphs_gpu");
    let whole = Capture::open(folder.path()).expect("read");
    let ends = whole
        .processes
        .iter()
        .flat_map(|process| &process.graphs.launches);
    let ends = ends.map(|launch| launch.at).max().expect("launches");
    let mut newest = Capture::open(folder.path()).expect("read");
    for process in &mut newest.processes {
        let step = |from| tables::marks::MarkedStep {
            from,
            to: from + 1,
            number: 0,
        };
        process.marks.steps = (0..10)
            .map(|n| step(ends - n * 100_000_000))
            .rev()
            .collect();
    }
    let from = ends - 500_000_000;
    tables::tail::leave_out_before(&mut newest, from);
    for (newest, whole) in newest.processes.iter().zip(&whole.processes) {
        let (all, kept) = (&whole.graphs.launches, &newest.graphs.launches);
        assert!(
            kept.len() < all.len() / 2,
            "{} of {}",
            kept.len(),
            all.len()
        );
        assert!(kept.iter().all(|launch| launch.at >= from));
        assert_eq!(kept[..], all[all.len() - kept.len()..]);
        // What is counted of the run is counted on.
        assert_eq!(newest.graphs.launched(), whole.graphs.launched());
        assert!(newest.marks.steps.iter().all(|step| step.from >= from));
        assert_eq!(newest.marks.steps.len(), 6);
    }
}

#[test]
fn every_call_is_counted_once_whether_it_is_kept_or_not() {
    for job in ["ddp_late_host", "slow_link", "calls_228", "killed_228"] {
        let files = unpacked(job);
        for span in [1, 50_000_000, 1_000_000_000, ALL] {
            let folder = tempfile::tempdir().expect("a folder");
            let mut tail = Tail::new(folder.path(), span).counting();
            let mut before = 0;
            for part in [0.2, 0.4, 0.41, 0.9, 1.0] {
                write(folder.path(), &files, part);
                let now = tail.newest().expect("read");
                let sums = now.processes.iter().flat_map(|process| &process.sums);
                let now = sums.map(|sum| sum.calls).sum();
                assert!(now >= before, "{job}: {before} and then {now} calls");
                before = now;
            }
            let whole = Capture::open(folder.path()).expect("read");
            let newest = tail.newest().expect("read");
            for (counted, whole) in newest.processes.iter().zip(&whole.processes) {
                let mut all = Sum::default();
                for call in &whole.calls {
                    all.add(&whole.shapes[call.shape as usize], call);
                }
                whole.totals.iter().for_each(|total| all.add_total(total));
                let mut sum = Sum::default();
                counted.sums.iter().for_each(|of| sum.merge(of));
                assert_eq!(sum, all, "{job} {span}");
                assert!(sum.calls > 0);
            }
        }
    }
}

#[test]
fn processes_come_and_go() {
    let files = unpacked("ddp_late_host");
    let folder = tempfile::tempdir().expect("a folder");
    let mut tail = Tail::new(folder.path(), ALL);
    assert!(matches!(tail.newest(), Err(OpenError::NoTrace { .. })));
    let of = |rank: &str| -> Vec<(PathBuf, Vec<u8>)> {
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let own = files
            .iter()
            .filter(|(path, _)| name(path).starts_with(rank));
        own.cloned().collect()
    };
    write(folder.path(), &of("r0"), 0.5);
    assert_eq!(tail.newest().expect("read").processes.len(), 1);
    write(folder.path(), &of("r1"), 1.0);
    assert_eq!(tail.newest().expect("read").processes.len(), 2);
    for (path, _) in of("r0") {
        let _ = fs::remove_file(folder.path().join(path));
    }
    assert_eq!(tail.newest().expect("read").processes.len(), 1);
    // The same name, written anew.
    write(folder.path(), &of("r0"), 0.3);
    let again = tail.newest().expect("read");
    assert_eq!(
        calls(&again),
        calls(&Capture::open(folder.path()).expect("read"))
    );
}

#[test]
fn whatever_is_in_the_files_is_an_answer_or_an_error() {
    let files = unpacked("slow_link");
    let (name, bytes) = files
        .iter()
        .find(|(name, _)| name.extension().is_some_and(|e| e == "trace"))
        .expect("one");
    let mut seed = 7u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for turn in 0..60 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a host")).expect("made");
        let mut bytes = bytes.clone();
        for _ in 0..turn % 7 {
            let at = random() % bytes.len();
            bytes[at] ^= 1 << (random() % 8);
        }
        if turn % 5 == 0 {
            // Another version.
            bytes[8] = 99;
        }
        let end = random() % bytes.len();
        let mut tail = Tail::new(folder.path(), ALL);
        for end in [end / 2, end, bytes.len()] {
            fs::write(&path, &bytes[..end]).expect("written");
            let _ = tail.newest();
        }
        // It can be shorter, too.
        fs::write(&path, &bytes[..end / 3]).expect("written");
        let _ = tail.newest();
    }
}
