//! Captures with every kind of damage open without a panic, and say what is missing.

use capture::block::{self, BlockKind};
use capture::format::FORMAT;
use capture::live::{self, row_state, Image, Layout, View};
use capture::rows::{definitions, Encoder, GpuTime, Record, Shape, Shapes, Ticks};
use capture::snapshot;
use proptest::prelude::*;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use tables::{Capture, LiveSource, Newest, OpenError};

const TRACE_ID: u64 = 0x1234;

fn layout() -> Layout {
    Layout {
        graphs: 4,
        launches: 8,
        strings: 8,
        comms: 4,
        groups: 4,
        totals: 4,
        pages: 4,
        rows: 16,
        staging: 4096,
        net_ops: 16,
        most_comms: 0,
        most_rows: 0,
        most_graphs: 0,
    }
}

/// A live part with two strings, a communicator, `announced` calls and an open row for ticket 6.
fn live_part(announced: u64) -> Image {
    let image = Image::zeroed(layout().bytes());
    // SAFETY: the image is zeroed, long enough and outlives the view.
    let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout()) };
    let header = view.header();
    header.trace_id.store(TRACE_ID, Relaxed);
    header.pid.store(77, Relaxed);
    for (i, text) in ["AllReduce", "ncclFloat32"].into_iter().enumerate() {
        for (byte, stored) in text.bytes().zip(&view.strings()[i].bytes) {
            stored.store(byte, Relaxed);
        }
        view.strings()[i].len.store(text.len() as u32 + 2, Relaxed);
    }
    let comm = &view.comms()[0];
    comm.hash.store(0xabc, Relaxed);
    comm.nranks.store(2, Relaxed);
    comm.rank.store(1, Relaxed);
    comm.t_init.store(Ticks(1_000), Relaxed);
    comm.uid.store(1, Relaxed);
    header.first.ticks.store(Ticks(1_000), Relaxed);
    header.first.realtime.store(1_000_000, Relaxed);
    header.born.store(announced, Relaxed);
    let row = &view.rows()[6];
    row.comm.store(1, Relaxed);
    row.func.store(1, Relaxed);
    row.datatype.store(2, Relaxed);
    row.count.store(100, Relaxed);
    row.t_api.store(Ticks(5_000), Relaxed);
    row.word
        .store(row_state::word(0, 6, row_state::ALIVE), Relaxed);
    header.magic.store(live::MAGIC, Relaxed);
    image
}

fn bytes_of(image: &Image, len: usize) -> Vec<u8> {
    let bytes: Vec<u8> = image
        .words()
        .iter()
        .flat_map(|w| w.load(Relaxed).to_le_bytes())
        .collect();
    bytes[..len].to_vec()
}

fn rows(tickets: std::ops::Range<u64>) -> Vec<Record> {
    tickets
        .map(|ticket| Record {
            ticket,
            shape: Shape {
                comm: 1,
                func: 1,
                datatype: 2,
                count: 100,
                root: -1,
                ..Shape::default()
            },
            t_api: Ticks(2_000 + 16 * ticket),
            t_end: Ticks(2_160 + 16 * ticket),
            stamp_start: GpuTime(1_000_000 + ticket * 1_024),
            stamp_stop: GpuTime(1_000_512 + ticket * 1_024),
            ..Record::default()
        })
        .collect()
}

/// Process, definitions, two blocks of three rows; returns the file and where its last block begins.
fn trace_file() -> (Vec<u8>, usize) {
    let mut out = block::file_header(TRACE_ID).to_vec();
    let image = live_part(7);
    let view = image.view().expect("a live part");
    let mut encoder = Encoder::new();
    let mut last = 0;
    for number in 0..4 {
        last = out.len();
        let start = block::begin(&mut out);
        let kind = match number {
            0 => {
                out.extend(
                    b"host=node-1\npid=77\nrank=1\nmode=trace\ntiming=stamps\nnccl=2.28.9\n\
                      clock=monotonic\n",
                );
                BlockKind::Process
            }
            1 => {
                for id in 1..=2u8 {
                    definitions::put_text(&mut out, id, &view.strings()[usize::from(id) - 1]);
                }
                definitions::put_comm(&mut out, 0, &view.comms()[0]);
                BlockKind::Definitions
            }
            _ => {
                let first = u64::from(number - 2) * 3;
                encoder.encode(&mut out, &rows(first..first + 3));
                BlockKind::Rows
            }
        };
        block::finish(&mut out, start, kind, number);
    }
    (out, last)
}

/// The same as the file of another process.
fn with_id(mut trace: Vec<u8>, id: u64) -> Vec<u8> {
    trace[..block::FILE_HEADER].copy_from_slice(&block::file_header(id));
    trace
}

fn snapshot_file(image: &Image, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    snapshot::begin(&mut out);
    let words: Vec<AtomicU64> = image.words()[..len / 8]
        .iter()
        .map(|w| AtomicU64::new(w.load(Relaxed)))
        .collect();
    snapshot::span(&mut out, 0, &words);
    snapshot::finish(&mut out, 0, len);
    out
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &[u8])]) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        for (name, bytes) in files {
            folder.write(name, bytes);
        }
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("inside")).expect("a folder");
        std::fs::write(path, bytes).expect("written");
    }

    fn open(&self) -> Capture {
        Capture::open(self.0.path()).expect("a capture")
    }
}

fn live_bytes() -> Vec<u8> {
    bytes_of(&live_part(7), layout().bytes())
}

#[test]
fn rows_of_blocks_and_live_part_count_once() {
    let (trace, _) = trace_file();
    let folder = Folder::new(&[
        ("node-1/r1-p77-aa.trace", &trace),
        ("node-1/r1-p77-aa.live", &live_bytes()),
    ]);
    let capture = folder.open();
    assert_eq!(capture.problems, []);
    let process = &capture.processes[0];
    assert_eq!(
        (process.host.as_str(), process.pid, process.rank),
        ("node-1", 77, Some(1))
    );
    assert_eq!(process.live, LiveSource::Adopted);
    let tickets: Vec<u64> = process.calls.iter().map(|c| c.ticket).collect();
    assert_eq!(tickets, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!((process.sealed, process.calls[6].sealed), (6, false));
    assert_eq!(capture.communicators[0].id, "0000000000000abc");
    let call = &process.calls[0];
    assert_eq!((call.api_ns, call.host_ns()), (1_001_000, Some(160)));
    assert_eq!(call.gpu_ns(&process.shapes[call.shape as usize]), Ok(512));
}

#[test]
fn a_single_file_and_a_host_folder_are_captures() {
    let (trace, _) = trace_file();
    let folder = Folder::new(&[
        ("node-1/r1-p77-aa.trace", &trace),
        ("node-2/r0-p5-bb.trace", &with_id(trace.clone(), 5)),
    ]);
    let root = folder.0.path();
    let count = |path: &Path| Capture::open(path).map(|c| c.processes.len()).ok();
    assert_eq!(count(root), Some(2));
    assert_eq!(count(&root.join("node-1")), Some(1));
    assert_eq!(count(&root.join("node-1/r1-p77-aa.trace")), Some(1));
    assert_eq!(count(&root.join("nothing")), None);
}

#[test]
fn copies_of_a_process_count_once_and_are_named() {
    let (trace, last) = trace_file();
    let name = "r1-p77-aa";
    let at = |folder: &str, kind: &str| format!("{folder}/{name}.{kind}");
    let folder = Folder::new(&[
        (&at("copy", "trace"), &trace[..last]),
        (&at("node-1", "trace"), &trace),
        (&at("node-1", "live"), &live_bytes()),
        (&at("old", "trace"), &trace),
        // A live part by itself is a copy too.
        (&at("stray", "live"), &live_bytes()),
    ]);
    let capture = folder.open();
    let files: Vec<_> = capture.processes.iter().map(|p| p.file.clone()).collect();
    assert_eq!(files, [Path::new("node-1/r1-p77-aa.trace")]);
    assert_eq!(capture.processes[0].calls.len(), 7);
    let said: Vec<String> = capture.problems.iter().map(ToString::to_string).collect();
    let copy = |folder: &str, kind: &str| {
        format!(
            "{}, its header: expected each process once in a capture, found a copy of node-1/r1-p77-aa.trace \
             (trace 0000000000001234), which is left out",
            at(folder, kind)
        )
    };
    assert_eq!(
        said,
        [
            copy("copy", "trace"),
            copy("old", "trace"),
            "stray/r1-p77-aa.live, its trace file: expected it beside this file, found none".into(),
            copy("stray", "live")
        ]
    );
}

#[test]
fn a_live_part_in_another_folder_is_worth_less_than_the_trace_file() {
    let (trace, _) = trace_file();
    let folder = Folder::new(&[
        ("collected/r1-p77-aa-bb.live", &live_bytes()),
        ("node-1/r1-p77-aa.trace", &trace),
    ]);
    let files: Vec<_> = folder
        .open()
        .processes
        .iter()
        .map(|p| p.file.clone())
        .collect();
    assert_eq!(files, [Path::new("node-1/r1-p77-aa.trace")]);
}

#[test]
fn compressed_copies_read_the_same() {
    let (trace, _) = trace_file();
    let pack = |bytes: &[u8]| zstd::encode_all(bytes, 3).expect("packed");
    let folder = Folder::new(&[
        ("h/a.trace.zst", &pack(&trace)),
        ("h/a.live.zst", &pack(&live_bytes())),
    ]);
    let capture = folder.open();
    assert_eq!(
        (capture.processes[0].calls.len(), capture.problems.len()),
        (7, 0)
    );
}

#[test]
fn a_write_cut_short_is_made_good_from_the_live_part() {
    let (trace, last) = trace_file();
    let image = live_part(7);
    let view = image.view().expect("a live part");
    view.header().staged_base.store(last as u64, Relaxed);
    view.header()
        .staged_len
        .store((trace.len() - last) as u64, Relaxed);
    for (byte, stored) in trace[last..].iter().zip(view.staging()) {
        stored.store(*byte, Relaxed);
    }
    let live = bytes_of(&image, layout().bytes());
    for cut in [last, last + 10, last + 40, trace.len()] {
        let capture = Folder::new(&[("h/a.trace", &trace[..cut]), ("h/a.live", &live)]).open();
        assert_eq!(capture.problems, [], "cut at {cut}");
        assert_eq!(capture.processes[0].calls.len(), 7, "cut at {cut}");
    }
}

#[test]
fn the_snapshot_stands_in_for_a_live_part_of_another_trace() {
    let (trace, _) = trace_file();
    let stranger = live_part(9);
    stranger
        .view()
        .expect("a live part")
        .header()
        .trace_id
        .store(1, Relaxed);
    let folder = Folder::new(&[
        ("h/a.trace", &trace),
        ("h/a.live", &bytes_of(&stranger, layout().bytes())),
        ("h/a.snap", &snapshot_file(&live_part(7), layout().bytes())),
    ]);
    let capture = folder.open();
    assert_eq!(capture.processes[0].live, LiveSource::Snapshot);
    assert!(
        capture.problems[0].found.contains("another trace"),
        "{:?}",
        capture.problems
    );
}

#[test]
fn a_damaged_block_is_named_and_the_rest_is_read() {
    let (mut trace, last) = trace_file();
    trace[last + 30] ^= 1;
    let capture = Folder::new(&[("h/a.trace", &trace), ("h/a.live", &live_bytes())]).open();
    let tickets: Vec<u64> = capture.processes[0]
        .calls
        .iter()
        .map(|c| c.ticket)
        .collect();
    assert_eq!(tickets, [0, 1, 2, 6]);
    assert_eq!(capture.problems.len(), 1);
    assert!(capture.problems[0].place.contains("block 3"));
}

#[test]
fn a_block_that_was_staged_when_the_process_was_killed_and_not_counted_yet_is_read() {
    let (trace, last) = trace_file();
    let image = live_part(7);
    let view = image.view().expect("a live part");
    for (to, from) in view.staging().iter().zip(&trace[last..]) {
        to.store(*from, Relaxed);
    }
    let header = view.header();
    header.staged_base.store(last as u64, Relaxed);
    header
        .staged_len
        .store((trace.len() - last) as u64, Relaxed);
    header.block_number.store(3, Relaxed);
    let live = bytes_of(&image, layout().bytes());
    let read = |trace: &[u8]| Folder::new(&[("h/a.trace", trace), ("h/a.live", &live)]).open();
    let whole = read(&trace);
    let staged = read(&trace[..last]);
    assert_eq!((&whole.problems, &staged.problems), (&vec![], &vec![]));
    let calls = |capture: &Capture| capture.processes[0].calls.len();
    assert!(calls(&staged) > 4);
    assert_eq!(calls(&staged), calls(&whole));
}

#[test]
fn a_trace_file_cut_between_two_blocks_is_damaged() {
    let (trace, last) = trace_file();
    let image = live_part(7);
    let header = image.view().expect("a live part").header();
    header.block_number.store(4, Relaxed);
    header.state.store(1, Relaxed);
    let live = bytes_of(&image, layout().bytes());
    let snap = snapshot_file(&image, layout().bytes());
    for (name, bytes) in [("h/a.live", &live), ("h/a.snap", &snap)] {
        let folder = |cut: usize| Folder::new(&[("h/a.trace", &trace[..cut]), (name, bytes)]);
        let whole = folder(trace.len()).open();
        assert_eq!((whole.problems, whole.processes[0].bad_blocks), (vec![], 0));
        let cut = folder(last).open();
        assert_eq!(
            (cut.processes[0].bad_blocks, cut.processes[0].calls.len()),
            (1, 4)
        );
        assert_eq!(
            cut.problems[0].to_string(),
            "h/a.trace, its end: expected 4 blocks, as the live part says, found 1 less"
        );
        assert_eq!(cut.processes[0].newest, Newest::Here);
    }
}

#[test]
fn files_with_nothing_sound_in_them_are_of_a_process_all_the_same() {
    let (trace, _) = trace_file();
    let folder = Folder::new(&[
        ("node-1/r1-p77-aaaaaaaa.trace", &trace),
        ("node-2/r3-p99-bbbbbbbb.trace", b""),
        ("node-2/notes.trace", b"of another program"),
    ]);
    let capture = folder.open();
    assert_eq!(capture.processes.len(), 1);
    let [unreadable] = &capture.unreadable[..] else {
        panic!("{:?}", capture.unreadable)
    };
    assert_eq!(
        (
            unreadable.rank,
            unreadable.host.as_str(),
            unreadable.pid,
            unreadable.found.as_str()
        ),
        (Some(3), "node-2", 99, "an empty file")
    );
}

#[test]
fn blocks_of_a_kind_that_is_not_known_are_named() {
    let (mut trace, _) = trace_file();
    for number in 4..6 {
        let start = trace.len();
        block::begin(&mut trace);
        trace.extend(b"of the future");
        block::finish(&mut trace, start, BlockKind::End, number);
        // The kind, and with it the header's checksum.
        trace[start + 4..start + 6].copy_from_slice(&999u16.to_le_bytes());
        let crc = crc32fast::hash(&trace[start..start + 20]);
        trace[start + 20..start + 24].copy_from_slice(&crc.to_le_bytes());
    }
    let capture = Folder::new(&[("h/a.trace", &trace), ("h/a.live", &live_bytes())]).open();
    assert_eq!(capture.processes[0].calls.len(), 7);
    let said: Vec<String> = capture.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        ["h/a.trace, its blocks: expected kinds of blocks that this ncclscope knows, found 2 of kind 999, \
          left out; a newer ncclscope may read it"]
    );
}

/// A trace file whose header has these features, and its checksum set right.
fn with_features(required: u32, optional: u32) -> Vec<u8> {
    let (mut trace, _) = trace_file();
    trace[24..28].copy_from_slice(&required.to_le_bytes());
    trace[28..32].copy_from_slice(&optional.to_le_bytes());
    let crc = crc32fast::hash(&trace[..32]);
    trace[32..36].copy_from_slice(&crc.to_le_bytes());
    trace
}

#[test]
fn features_that_are_not_known_are_named() {
    let said = |trace: &[u8], live: &[u8]| {
        let capture = Folder::new(&[("h/a.trace", trace), ("h/a.live", live)]).open();
        let calls = capture
            .processes
            .iter()
            .map(|p| p.calls.len())
            .sum::<usize>();
        let said: Vec<String> = capture.problems.iter().map(ToString::to_string).collect();
        (calls, said)
    };
    let image = live_part(7);
    let header = image.view().expect("a live part").header();
    let live = || bytes_of(&image, layout().bytes());
    let of_trace = "h/a.trace, its header: expected features that this ncclscope knows, found";
    let newer = "a newer ncclscope may read it";
    let (calls, found) = said(&with_features(0, 1 << 3), &live());
    assert_eq!(
        (calls, found),
        (7, vec![format!("{of_trace} feature 3, left out; {newer}")])
    );
    header.optional.store(1 << 3 | 1, Relaxed);
    let (calls, found) = said(&with_features(0, 1 << 3), &live());
    let of_live =
        "h/a.trace, its live part's header: expected features that this ncclscope knows, found";
    let expected = [
        format!("{of_trace} feature 3, left out; {newer}"),
        format!("{of_live} feature 0, left out; {newer}"),
    ];
    assert_eq!((calls, found), (7, expected.to_vec()));
    header.optional.store(0, Relaxed);
    // The calls of the live part are still there.
    let (calls, found) = said(&with_features(1 << 5, 0), &live());
    let expected = format!("{of_trace} format 2.0 with required feature 5; {newer}");
    assert_eq!((calls, found), (1, vec![expected]));
    header.required.store(1 << 4, Relaxed);
    let (calls, found) = said(&trace_file().0, &live());
    let of_live = "h/a.live, its header: expected features that this ncclscope knows, found";
    let expected = format!("{of_live} format 2.0 with required feature 4; {newer}");
    assert_eq!((calls, found), (6, vec![expected]));
}

#[test]
fn columns_that_are_not_known_are_named_and_the_others_are_read() {
    let (trace, last) = trace_file();
    let payload = &trace[last + block::BLOCK_HEADER..];
    // The number of columns stands somewhere before them: what adds two and is still well formed has found
    // it.
    let with_more = (0..payload.len()).find_map(|at| {
        let mut more = payload.to_vec();
        let written = more[at];
        more[at] = 100;
        more.extend(vec![0; 100usize.checked_sub(written.into())?]);
        let outline = Shapes::default().outline(FORMAT.major, &more)?;
        (outline.unknown > 0 && outline.rows == 3).then_some(more)
    });
    let mut newer = trace[..last].to_vec();
    let start = block::begin(&mut newer);
    newer.extend(with_more.expect("a block of rows"));
    block::finish(&mut newer, start, BlockKind::Rows, 3);
    let capture = Folder::new(&[("h/a.trace", &newer), ("h/a.live", &live_bytes())]).open();
    assert_eq!(capture.processes[0].calls.len(), 7);
    let [problem] = &capture.problems[..] else {
        panic!("{:?}", capture.problems)
    };
    assert_eq!(problem.expected, "columns that this ncclscope knows");
    assert!(problem
        .found
        .ends_with(" more, left out; a newer ncclscope may read it"));
}

#[test]
fn a_live_part_of_another_format_is_named() {
    let (trace, _) = trace_file();
    let image = live_part(7);
    let view = image.view().expect("a live part");
    view.header().major.store(77, Relaxed);
    let live = bytes_of(&image, layout().bytes());
    for name in ["h/a.live", "h/a.snap"] {
        let snap = snapshot_file(&image, layout().bytes());
        let bytes = if name.ends_with("snap") { &snap } else { &live };
        let capture = Folder::new(&[("h/a.trace", &trace), (name, bytes)]).open();
        let [problem] = &capture.problems[..] else {
            panic!("{:?}", capture.problems)
        };
        assert_eq!(problem.found, "format 77.0; a newer ncclscope may read it");
        assert_eq!(
            problem.expected,
            "format 1 or 2, which this ncclscope reads"
        );
    }
}

#[test]
fn a_half_done_fold_is_taken_back_while_its_row_is_there() {
    let image = live_part(7);
    let view = image.view().expect("a live part");
    let total = &view.totals()[1];
    total.comm.store(1, Relaxed);
    total.names[0].store(1, Relaxed);
    total.calls.store(5, Relaxed);
    total.timed.store(5, Relaxed);
    total.sum.store(500, Relaxed);
    total.pages[2].store(1, Relaxed);
    view.pages()[0][3].store(5, Relaxed);
    total.state.store(2, Relaxed);
    let undo = &view.header().undo;
    undo.entry.store(1, Relaxed);
    undo.bucket.store(1 << 6 | 3, Relaxed);
    undo.bucket_before.store(4, Relaxed);
    for (before, value) in undo.before.iter().zip([4, 4, 400, 0, 0, 0]) {
        before.store(value, Relaxed);
    }
    let (trace, _) = trace_file();
    let total = |undone_ticket: u64| {
        undo.ticket.store(undone_ticket, Relaxed);
        let live = bytes_of(&image, layout().bytes());
        let capture = Folder::new(&[("h/a.trace", &trace), ("h/a.live", &live)]).open();
        let total = &capture.processes[0].totals[0];
        (total.folded, total.timed, total.sum, total.histogram[0].1)
    };
    assert_eq!(total(7), (4, 4, 400, 4));
    assert_eq!(total(6), (5, 5, 500, 5));
    assert_eq!(total(0), (5, 5, 500, 5));
}

#[test]
fn nothing_readable_is_an_error_that_says_what_was_expected() {
    let folder = Folder::new(&[("h/a.trace", b"not a trace file")]);
    let error = Capture::open(folder.0.path())
        .expect_err("nothing sound")
        .to_string();
    assert!(
        error.contains("readable trace file") && error.contains("h/a.trace"),
        "{error}"
    );
    let empty = Folder::new(&[]);
    assert!(Capture::open(empty.0.path())
        .expect_err("empty")
        .to_string()
        .contains("no trace file"));
}

#[test]
fn what_is_no_capture_is_told_from_what_may_not_be_read() {
    let error = |path: &Path| Capture::open(path).expect_err("no capture");
    let folder = Folder::new(&[("h/notes.txt", b"hello")]);
    let at = |name: &str| folder.0.path().join(name);
    assert!(matches!(error(&at("nowhere")), OpenError::NotFound { .. }));
    for other in [at("h/notes.txt"), "/dev/null".into()] {
        assert!(matches!(error(&other), OpenError::OtherFile { .. }));
    }
    // A link to itself can't be followed by any user.
    std::os::unix::fs::symlink(at("loop"), at("loop")).expect("linked");
    assert!(matches!(error(&at("loop")), OpenError::Unreadable { .. }));
}

#[test]
fn folders_that_may_not_be_listed_are_named() {
    let (trace, _) = trace_file();
    let folder = Folder::new(&[
        ("h/a.trace", &trace),
        ("h/a.live", &live_bytes()),
        ("other/b.trace", &trace),
    ]);
    let mode = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("set");
    };
    let (root, other) = (folder.0.path(), folder.0.path().join("other"));
    for open in ["", "h"] {
        mode(&root.join(open), 0o755);
    }
    for open in ["h/a.trace", "h/a.live"] {
        mode(&root.join(open), 0o644);
    }
    mode(&other, 0o000);
    // Nothing is closed to root, but to a thread of root's that reads files as somebody else.
    let reads = || {
        // SAFETY: plain calls; the thread ends after.
        unsafe {
            if libc::geteuid() == 0 {
                libc::setfsuid(65534);
            }
        }
        if std::fs::read_dir(root).is_err() {
            eprintln!("skipped: the folder of temporary files is closed to others");
            return None;
        }
        Some((Capture::open(root), Capture::open(&other)))
    };
    let read = std::thread::scope(|scope| scope.spawn(reads).join().expect("no panic"));
    mode(&other, 0o700);
    let Some((whole, part)) = read else { return };
    let whole = whole.expect("what may be read");
    assert_eq!(whole.processes.len(), 1);
    let [problem] = &whole.problems[..] else {
        panic!("{:?}", whole.problems)
    };
    assert_eq!(
        problem.to_string(),
        "other, its names: expected a folder that can be listed, found Permission denied (os error 13)"
    );
    let error = part.expect_err("nothing may be read");
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error}");
    assert!(error.hint().contains("the user who ran the job"));
}

#[test]
fn what_is_no_regular_file_is_named_and_not_waited_for() {
    let (trace, _) = trace_file();
    let folder = Folder::new(&[("h/a.trace", &trace), ("h/a.live", &live_bytes())]);
    let fifo = folder.0.path().join("h/b.trace");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    std::os::unix::fs::symlink("/dev/zero", folder.0.path().join("h/c.trace")).expect("linked");
    let capture = folder.open();
    assert_eq!(capture.processes.len(), 1);
    let odd = capture.problems.iter();
    let odd = odd.filter(|p| p.found == "no regular file");
    let named: Vec<_> = odd.map(|p| p.file.clone()).collect();
    assert_eq!(named, [Path::new("h/b.trace"), Path::new("h/c.trace")]);
}

#[test]
fn a_capture_json_that_is_a_pipe_is_named_and_not_waited_for() {
    let (trace, _) = trace_file();
    let folder = Folder::new(&[("h/a.trace", &trace), ("h/a.live", &live_bytes())]);
    let fifo = folder.0.path().join("capture.json");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    let capture = folder.open();
    assert_eq!(capture.processes.len(), 1);
    assert_eq!(
        capture.problems[0].to_string(),
        "capture.json, its content: expected JSON as `ncclscope run` writes it, found no regular file"
    );
    // A file of a terabyte of holes takes as little.
    std::fs::remove_file(&fifo).expect("removed");
    let file = std::fs::File::create(&fifo).expect("made");
    file.set_len(1 << 40).expect("holes");
    let capture = folder.open();
    assert!(capture.problems[0].found.starts_with("more than"));
}

/// What this process may have in memory from here on.
fn limit_memory(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a plain system call on a local.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

#[test]
fn files_of_holes_take_no_memory_and_are_named() {
    let (trace, _) = trace_file();
    let packed = zstd::encode_all(std::io::repeat(0).take(32 << 20), 3).expect("packed");
    let folder = Folder::new(&[
        ("h/a.trace", &trace),
        ("h/a.live", &live_bytes()),
        ("h/b.trace", &trace),
        ("h/c.live", b"NCSLIVE1"),
        ("h/d.snap", b"NCSSNAP1"),
        ("h/e.trace.zst", &packed),
    ]);
    for sparse in ["h/b.trace", "h/c.live", "h/d.snap"] {
        let path = folder.0.path().join(sparse);
        let file = std::fs::OpenOptions::new().write(true).open(path);
        file.expect("open").set_len(12 << 30).expect("holes");
    }
    // The limit holds for all tests of a process, so this one gets a process of its own.
    let exe = std::env::current_exe().expect("this test");
    if std::env::var_os("NCCLSCOPE_TEST_HOLES").is_none() {
        let mut child = std::process::Command::new(exe);
        child.args([
            "--exact",
            "damage::files_of_holes_take_no_memory_and_are_named",
        ]);
        child.env("NCCLSCOPE_TEST_HOLES", "1");
        let output = child.output().expect("started");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    limit_memory(4 << 30);
    let capture = folder.open();
    let named = |name: &str| {
        let mut problems = capture.problems.iter();
        problems.any(|p| p.file == Path::new(name) && p.found.contains("not read"))
    };
    for name in ["h/b.trace", "h/c.live", "h/d.snap", "h/e.trace.zst"] {
        assert!(named(name), "{name}: {:#?}", capture.problems);
    }
    assert_eq!(capture.processes[0].calls.len(), 7);
}

#[test]
fn columns_have_a_value_for_every_call() {
    let (trace, _) = trace_file();
    let capture = Folder::new(&[("h/a.trace", &trace), ("h/a.live", &live_bytes())]).open();
    let row = capture.rows().next().expect("a call");
    let value = |name: &str| {
        let column = tables::calls::COLUMNS
            .iter()
            .find(|c| c.name == name)
            .expect("a column");
        (column.value)(&row)
    };
    use tables::calls::Value::{Null, Text, Unsigned};
    assert_eq!(value("function"), Text("AllReduce"));
    assert_eq!(value("bytes"), Unsigned(400));
    assert_eq!(value("gpu_time_ns"), Unsigned(512));
    assert_eq!(
        (value("peer"), value("root"), value("untimed")),
        (Null, Null, Null)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damage_anywhere_never_panics(
        cut in prop::option::of(0usize..2000),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        live_cut in prop::option::of(any::<prop::sample::Index>()),
        live_flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        header_flips in prop::collection::vec((0usize..1200, any::<u8>()), 0..20),
        snap in any::<bool>(),
    ) {
        let (mut trace, _) = trace_file();
        for (at, byte) in flips {
            let at = at.index(trace.len());
            trace[at] = byte;
        }
        trace.truncate(cut.unwrap_or(trace.len()));
        let mut live = live_bytes();
        for (at, byte) in live_flips {
            let at = at.index(live.len());
            live[at] = byte;
        }
        for (at, byte) in header_flips {
            // The magic stays, or nothing behind it would be read.
            live[8 + at] = byte;
        }
        if let Some(cut) = live_cut {
            live.truncate(cut.index(live.len()));
        }
        let name = if snap { "h/a.snap" } else { "h/a.live" };
        let folder = Folder::new(&[("h/a.trace", &trace), (name, &live)]);
        if let Ok(capture) = Capture::open(folder.0.path()) {
            for row in capture.rows() {
                for column in tables::calls::COLUMNS {
                    let _ = (column.value)(&row);
                }
            }
        }
    }
}
