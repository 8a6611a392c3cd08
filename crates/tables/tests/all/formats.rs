//! Captures of every format read as they did when the format was the newest one.
//!
//! `formatN/events` and `formatN/graphs` are captures of two processes that were killed, made by a recorder
//! of format N on a simulated GPU. The first has GPU times of CUDA events, the second launches of CUDA
//! graphs. The adopted live part is one slot with a checksum; `data/` has adopted live parts that are raw
//! images, by older recorders. `formatN/*.txt` was written by the reader of that time and is never made
//! again.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use tables::calls::{CallRef, Value, COLUMNS};
use tables::Capture;

const FORMATS: [u32; 2] = [1, 2];

fn folder(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/format{format}"))
}

/// The capture of that name in a folder of its own, its files given to `change` by their endings. One that
/// comes back empty is left out.
fn capture(
    format: u32,
    name: &str,
    change: impl Fn(&str, Vec<u8>) -> Vec<u8>,
) -> (tempfile::TempDir, Capture) {
    let place = tempfile::tempdir().expect("a folder");
    let host = place.path().join("vm");
    std::fs::create_dir(&host).expect("made");
    for entry in std::fs::read_dir(folder(format).join(name).join("vm")).expect("there") {
        let path = entry.expect("listed").path();
        let packed = std::fs::File::open(&path).expect("opened");
        let bytes = zstd::decode_all(packed).expect("sound");
        let to = host.join(path.file_stem().expect("its name without .zst"));
        let ending = to.extension().and_then(|e| e.to_str()).expect("an ending");
        let bytes = change(ending, bytes);
        if !bytes.is_empty() {
            std::fs::write(&to, bytes).expect("written");
        }
    }
    let capture = Capture::open(place.path()).expect("a capture");
    (place, capture)
}

/// What is read: every 25th call with these columns, a checksum over all calls, and what else the process
/// has.
fn told(capture: &Capture, columns: &str) -> String {
    let process = &capture.processes[0];
    let mut text = format!("{columns}\n");
    let mut all = String::new();
    for (index, call) in process.calls.iter().enumerate() {
        let row = CallRef {
            capture,
            process,
            index: 0,
            call,
            shape: &process.shapes[call.shape as usize],
            operation: None,
        };
        let value = |name: &str| {
            let column = COLUMNS.iter().find(|column| column.name == name);
            match (column.unwrap_or_else(|| panic!("no column {name}")).value)(&row) {
                Value::Null => "-".to_owned(),
                Value::Bool(value) => value.to_string(),
                Value::Unsigned(value) => value.to_string(),
                Value::Signed(value) => value.to_string(),
                Value::Text(value) => value.to_owned(),
            }
        };
        let line: Vec<String> = columns.split(' ').map(value).collect();
        let line = line.join(" ") + "\n";
        if index % 25 == 0 {
            text += &line;
        }
        all += &line;
    }
    let counters = process.counters.as_ref().expect("a live part");
    let launches: Vec<u64> = process
        .graphs
        .executables
        .iter()
        .map(|e| e.launches)
        .collect();
    writeln!(
        text,
        "{} calls, {:08x}",
        process.calls.len(),
        crc32fast::hash(all.as_bytes())
    )
    .expect("text");
    writeln!(
        text,
        "{} sealed, {} announced, lost {:?}",
        process.sealed, counters.announced, counters.lost
    )
    .expect("text");
    writeln!(
        text,
        "graphs launched {launches:?}, unseen {:?}",
        process.graphs.unseen
    )
    .expect("text");
    writeln!(text, "problems {:?}", capture.problems).expect("text");
    text
}

/// Holds what is read against `formatN/NAME.txt`. Its first line names the columns of that time. With
/// `NCCLSCOPE_GOLDEN=write` what is read becomes the text: read the diff like code.
fn check(format: u32, name: &str, capture: &Capture) {
    let path = folder(format).join(format!("{name}.txt"));
    let expected = std::fs::read_to_string(&path).expect("read");
    let found = told(capture, expected.lines().next().unwrap_or_default());
    if std::env::var("NCCLSCOPE_GOLDEN").is_ok_and(|how| how == "write") {
        std::fs::write(&path, &found).expect("written");
        return;
    }
    assert_eq!(found, expected, "{}", path.display());
}

/// Reads both captures of every format, changed, and holds each against the text with this ending.
fn check_all(ending: &str, change: impl Fn(&str, Vec<u8>) -> Vec<u8>) {
    for format in FORMATS {
        for name in ["events", "graphs"] {
            let (_place, capture) = capture(format, name, &change);
            check(format, &format!("{name}{ending}"), &capture);
        }
    }
}

#[test]
fn a_killed_process() {
    check_all("", |_, bytes| bytes);
}

#[test]
fn a_snapshot_in_place_of_a_live_part() {
    check_all("_snapshot", |ending, bytes| match ending {
        "live" => Vec::new(),
        _ => bytes,
    });
}

#[test]
fn a_live_part_as_it_was_in_memory() {
    check_all("", |ending, bytes| {
        if ending != "live" {
            return bytes;
        }
        let (image, size) = capture::snapshot::read_whole(&bytes).expect("sound");
        let words = image.words()[..size / 8].iter();
        let words = words.map(|word| word.load(std::sync::atomic::Ordering::Relaxed));
        words.flat_map(u64::to_le_bytes).collect()
    });
}
