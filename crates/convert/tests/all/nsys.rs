//! Exports of Nsight Systems, made here with a known straggler.
//!
//! What is made here has the tables, columns and payloads of version 2026.2; names and figures are invented.

use analyze::Report;
use rusqlite::{params, Connection};
use std::path::Path;
use tables::{ReadProgress, Which};

const STEP: i64 = 10_000_000;
const TRANSFER: i64 = 1_000_000;
const BYTES: u64 = 4 << 20;
const COMMUNICATOR: u64 = 0xad56_c683_b0c4_ef00;

/// NVTX's header of a payload, and its fields.
fn payload(schema: u32, fields: &[(usize, u64, usize)]) -> Vec<u8> {
    let size = fields
        .iter()
        .map(|(at, _, size)| at + size)
        .max()
        .unwrap_or(0);
    let mut bytes = vec![0; 32 + size];
    bytes[0] = 1;
    bytes[8..12].copy_from_slice(&schema.to_le_bytes());
    bytes[16..24].copy_from_slice(&(size as u64).to_le_bytes());
    for (at, value, size) in fields {
        bytes[32 + at..32 + at + size].copy_from_slice(&value.to_le_bytes()[..*size]);
    }
    bytes
}

/// A job of so many ranks with one AllReduce a step; the last rank computes longer.
struct Job {
    ranks: u32,
    steps: i64,
    late: i64,
    payloads: bool,
    /// Two calls in one group.
    group: bool,
    /// The profiler began after `ncclCommInitRank`. It saw `ncclCommDestroy`, on another thread.
    began_later: bool,
}

const JOB: Job = Job {
    ranks: 2,
    steps: 30,
    late: 0,
    payloads: true,
    group: false,
    began_later: false,
};

impl Job {
    /// Adds a rank to a file.
    fn add(&self, db: &Connection, rank: u32) {
        let pid = 500 + i64::from(rank);
        let (process, thread) = (pid << 24, pid << 24 | 7);
        let own = if rank + 1 == self.ranks { self.late } else { 0 };
        let with = |bytes: Vec<u8>| self.payloads.then_some(bytes);
        let on = |thread: i64, name: &str, start: i64, end: i64, bytes: Option<Vec<u8>>| {
            let id = name_of(db, name);
            db.execute(
                "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, NULL, ?3, ?4, 1, ?5)",
                params![start, end, thread, id, bytes],
            )
            .expect("added");
        };
        let range = |name: &str, start, end, bytes| on(thread, name, start, end, bytes);
        let about = [
            (0, COMMUNICATOR, 8),
            (8, self.ranks.into(), 4),
            (12, rank.into(), 4),
            (16, rank.into(), 4),
        ];
        let about = with(payload(16_777_218, &about));
        if self.began_later {
            let end = 1_000_000 + self.steps * STEP;
            on(thread + 1, "ncclCommDestroy", end, end + 10, about);
        } else {
            range("ncclCommInitRankConfig", 10, 20, about);
        }
        let mut correlation = 0;
        let mut launch = |name: &str, at: i64, ran: i64, took: i64| {
            correlation += 1;
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    at,
                    at + 5_000,
                    thread,
                    correlation,
                    name_of(db, "cudaLaunchKernelExC_v11060")
                ],
            )
            .expect("added");
            let id = name_of(db, name);
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 7, ?4, ?5, ?6, ?6, 24, 1, 1)",
                params![ran, ran + took, rank, correlation, process, id],
            )
            .expect("added");
        };
        for step in 0..self.steps {
            let begin = 1_000_000 + step * STEP;
            // All leave when the last one came.
            let came = begin + 2_000_000 + own;
            let end = begin + 2_000_000 + self.late + TRANSFER;
            launch(
                "gemm(float*, float*)",
                begin,
                begin + 10_000,
                1_900_000 + own,
            );
            let call = begin + 100_000;
            let fields = [(0, COMMUNICATOR, 8), (8, BYTES, 8), (16, 0, 4)];
            if self.group {
                range("ncclGroupStart", call, call + 1_000, None);
                range(
                    "ncclAllReduce",
                    call + 2_000,
                    call + 4_000,
                    with(payload(16_777_221, &fields)),
                );
                range(
                    "ncclAllReduce",
                    call + 5_000,
                    call + 7_000,
                    with(payload(16_777_221, &fields)),
                );
                range("ncclGroupEnd", call + 8_000, call + 30_000, None);
            } else {
                range(
                    "ncclAllReduce",
                    call,
                    call + 30_000,
                    with(payload(16_777_221, &fields)),
                );
            }
            launch(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
                call + 10_000,
                came,
                end - came,
            );
        }
    }

    fn write(&self, path: &Path, ranks: std::ops::Range<u32>) {
        let db = Connection::open(path).expect("made");
        db.execute_batch(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT UNIQUE);
            CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT);
            INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1790857026000000000, '');
            CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
            INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node-1');
            CREATE TABLE TARGET_INFO_GPU (name TEXT);
            INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100'), ('NVIDIA H100');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (\"start\" INTEGER, \"end\" INTEGER, deviceId INTEGER,
                streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,
                shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (\"start\" INTEGER, \"end\" INTEGER, globalTid INTEGER,
                correlationId INTEGER, nameId INTEGER);
            CREATE TABLE NVTX_EVENTS (\"start\" INTEGER, \"end\" INTEGER, eventType INTEGER, text TEXT,
                globalTid INTEGER, textId INTEGER, domainId INTEGER, binaryData TEXT);
            CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER,
                type INTEGER, name TEXT, offset INTEGER);
            INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES
                (1, 16777218, 0, 18, 'NCCL communicator ID', NULL), (1, 16777218, 1, 5, 'No. of ranks', 8),
                (1, 16777218, 2, 5, 'Rank', 12), (1, 16777218, 3, 5, 'CUDA device', 16),
                (1, 16777221, 0, 18, 'NCCL communicator ID', NULL),
                (1, 16777221, 1, 22, 'Message size [bytes]', 8),
                (1, 16777221, 2, 16777240, 'Reduction operation', 16);
            BEGIN",
        )
        .expect("made");
        for rank in ranks {
            self.add(&db, rank);
        }
        db.execute_batch("COMMIT").expect("written");
    }

    fn report(&self) -> Report {
        let folder = tempfile::tempdir().expect("a folder");
        for rank in 0..self.ranks {
            let file = folder.path().join(format!("rank{rank}.sqlite"));
            self.write(&file, rank..rank + 1);
        }
        report(folder.path())
    }
}

/// The number of a text, which is added if it is new.
fn name_of(db: &Connection, text: &str) -> i64 {
    db.execute(
        "INSERT OR IGNORE INTO StringIds (value) VALUES (?1)",
        [text],
    )
    .expect("added");
    let found = db.query_row("SELECT id FROM StringIds WHERE value = ?1", [text], |row| {
        row.get(0)
    });
    found.expect("there")
}

fn report(path: &Path) -> Report {
    let progress = ReadProgress::default();
    let (source, _held) = convert::open(path, &progress, Which::Last).expect("opened");
    analyze::report_from(source, None, &progress)
}

#[test]
fn sizes_communicators_and_times_are_those_of_the_file() {
    let found = JOB.report();
    let row = &found.operations[0];
    assert_eq!(
        (row.function.as_deref(), row.bytes),
        (Some("AllReduce"), Some(BYTES))
    );
    // An export may begin in the middle of a run, so no call is known to be a warm-up.
    assert_eq!((row.calls, row.matched, row.nranks), (60, 30, Some(2)));
    let communicator = row.communicator.as_deref().unwrap_or("");
    assert!(
        communicator.starts_with("ad56c683b0c4ef00"),
        "{communicator}"
    );
    assert_eq!(found.job.gpu, ["2 x NVIDIA H100"]);
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}

#[test]
fn the_straggler_is_found_over_several_files_and_in_one() {
    let job = Job {
        late: 800_000,
        ..JOB
    };
    let blamed = |found: &Report| found.findings.first().and_then(|f| f.rank());
    assert_eq!(blamed(&job.report()), Some(1));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("all.sqlite");
    job.write(&file, 0..2);
    assert_eq!(blamed(&report(&file)), Some(1));
    // Packed, too.
    let packed = folder.path().join("all.sqlite.gz");
    let out = std::fs::File::create(&packed).expect("made");
    let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
    std::io::copy(&mut std::fs::File::open(&file).expect("there"), &mut out).expect("packed");
    out.finish().expect("packed");
    assert_eq!(blamed(&report(&packed)), Some(1));
}

#[test]
fn the_end_of_a_communicator_says_who_was_in_it() {
    let found = Job {
        began_later: true,
        ..JOB
    }
    .report();
    let row = &found.operations[0];
    assert_eq!((row.nranks, row.matched), (Some(2), 30));
}

#[test]
fn calls_of_a_group_share_its_kernel() {
    let found = Job { group: true, ..JOB }.report();
    let row = &found.operations[0];
    assert_eq!((row.calls, row.timed), (120, 60));
}

#[test]
fn without_payloads_neither_size_nor_communicator_is_made_up() {
    let found = Job {
        payloads: false,
        ..JOB
    }
    .report();
    let row = &found.operations[0];
    assert_eq!(
        (row.function.as_deref(), row.bytes),
        (Some("AllReduce"), None)
    );
    assert_eq!(row.nranks, None);
}

#[test]
fn damaged_files_are_read_to_their_damage_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rank0.sqlite");
    Job { steps: 4, ..JOB }.write(&file, 0..1);
    let bytes = std::fs::read(&file).expect("there");
    let damaged = folder.path().join("damaged.sqlite");
    crate::damage::read_damaged(&damaged, &bytes, b"\0\x01\x02\xff\x0d\x05SQLite", 21);
    for cut in [100, 4096, bytes.len() / 2] {
        std::fs::write(&damaged, &bytes[..cut]).expect("written");
        let progress = ReadProgress::default();
        if let Ok((source, _held)) = convert::open(&damaged, &progress, Which::Last) {
            let _ = analyze::report_from(source, None, &progress);
        }
    }
}

#[test]
fn a_table_that_is_a_view_without_an_end_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rank0.sqlite");
    JOB.write(&file, 0..1);
    let db = Connection::open(&file).expect("open");
    db.execute_batch(
        "DROP TABLE NVTX_EVENTS;
        CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
            SELECT x AS \"start\", x AS \"end\", 59 AS eventType, 'ncclAllReduce' AS text,
            x AS globalTid, 0 AS textId, 1 AS domainId, NULL AS binaryData, x AS rowid FROM n",
    )
    .expect("made");
    drop(db);
    let found = report(&file);
    assert_eq!(found.operations[0].bytes, None);
}
