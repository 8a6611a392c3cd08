//! Real jobs, recorded on H200 GPUs (`data/`), replayed through the recorder: the same calls come out.

use analyze::job::Problem;
use analyze::notes::Note;
use fake_nccl::{replay, Options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every recorded job but the killed one, whose last callbacks went with the process, with its announced
/// calls.
const JOBS: [(&str, u64); 16] = [
    ("calls_228", 160),
    ("calls_230", 160),
    ("calls_232", 160),
    ("ddp4", 176),
    ("ddp8_two_hosts", 272),
    ("flood_228", 8000),
    ("graph_host_228", 72),
    ("mix_228", 1843),
    ("mix_230", 1843),
    ("mix_232", 1843),
    ("mix_two_hosts_228", 1843),
    ("shared_two_hosts_228", 75),
    ("symmetric_230", 120),
    ("symmetric_232", 120),
    ("threads_228", 260),
    ("zero_cta_232", 160),
];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(name)
}

/// The plugin that `make` built: NCCLSCOPE_PLUGIN, else the one in the target folder of this test.
fn plugin() -> String {
    if let Ok(path) = std::env::var("NCCLSCOPE_PLUGIN") {
        return path;
    }
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.ancestors().nth(2).expect("target/<profile>/deps/test");
    let path = folder.join("libnccl_profiler_ncclscope.so");
    assert!(
        path.exists(),
        "{} is not there: run `make debug` first",
        path.display()
    );
    path.to_string_lossy().into_owned()
}

/// What was recorded of a call, in words and numbers, and its GPU time stamps. Nothing in it depends on this
/// run's host clock or string ids.
type RecordedCall = (Vec<String>, (u64, u64));

/// The calls of each process, by launcher's rank.
fn rows(capture: &tables::Capture) -> BTreeMap<Option<u32>, Vec<RecordedCall>> {
    // Host times and network waits are this run's; verdicts are judged by the recorder of the day.
    let columns: Vec<_> = tables::calls::COLUMNS
        .iter()
        .filter(|column| {
            let of_this_run = [
                "process",
                "pid",
                "host",
                "thread",
                "init_thread",
                "device",
                "untimed",
                "finished",
            ];
            let of_this_run = of_this_run.contains(&column.name);
            let of_network = column.name.starts_with("net_longest");
            !of_this_run && !of_network && !column.name.ends_with("_ns")
        })
        .collect();
    let mut all: BTreeMap<_, Vec<RecordedCall>> = BTreeMap::new();
    for row in capture.rows() {
        let values = columns
            .iter()
            .map(|column| format!("{}={:?}", column.name, (column.value)(&row)))
            .collect();
        let stamps = [row.call.gpu.start(), row.call.gpu.stop()].map(Option::unwrap_or_default);
        let rows = all.entry(row.process.rank).or_default();
        rows.push((values, stamps.into()));
    }
    all.values_mut().for_each(|rows| rows.sort());
    all
}

fn replayed(name: &str) -> (tables::Capture, tables::Capture, serde_json::Value) {
    let original = tables::Capture::open(&data(name)).expect("the recorded job opens");
    let timing = original.processes[0].fact("timing").unwrap_or("host");
    let (again, line) = replayed_as(name, timing, "trace");
    (original, again, line)
}

/// Replays a job, and what fake-nccl printed of it; the recorder has this timing and mode.
fn replayed_as(name: &str, timing: &str, mode: &str) -> (tables::Capture, serde_json::Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("capture");
    let env = [
        ("NCCLSCOPE_OUT", out.to_str().expect("utf-8")),
        ("NCCLSCOPE_TIMING", timing),
        ("NCCLSCOPE_MODE", mode),
        ("NCCLSCOPE_QUIET", "1"),
    ];
    let options = Options {
        plugin: Some(plugin()),
        env: env
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        timeout: Some(Duration::from_secs(120)),
        ..Options::default()
    };
    let outcome = replay::replay(&data(name), &options, false).expect("the job is replayed");
    let again = tables::Capture::open(&out).expect("the replay left a capture");
    (again, outcome.to_json())
}

#[test]
fn phases_of_real_kernels_say_the_same_as_the_times_of_all_ranks() {
    // Four H200: rank 1 came 3 ms after the others to each of 15 calls.
    let (capture, line) = replayed_as("phases_232", "stamps", "full");
    assert_eq!(line["announced"], 60);
    let notes = analyze::report(&capture).notes;
    let phases = notes.iter().find_map(|note| match note {
        Note::Phases(phases) => Some(phases),
        _ => None,
    });
    let of = phases.expect("phases");
    assert_eq!((of.kernels, of.matched), (60, 15));
    let share = |part: u64| (1000.0 * part as f64 / of.ran as f64).round();
    assert_eq!((share(of.waited), share(of.moved)), (993.0, 6.0));
    let ms = |ns: u64| (ns as f64 / 1e6).round();
    let waited = (ms(of.matched_waited), ms(of.matched_longer));
    assert_eq!(waited, (141.0, 141.0));
}

#[test]
fn replayed_jobs_give_the_same_rows() {
    for (name, announced) in JOBS {
        let (original, again, line) = replayed(name);
        assert_eq!(
            line["announced"], announced,
            "{name}: what fake-nccl told the plugin"
        );
        let (before, after) = (rows(&original), rows(&again));
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>(),
            "{name}: ranks"
        );
        for (rank, rows) in &before {
            let replayed = &after[rank];
            assert_eq!(
                rows.len(),
                replayed.len(),
                "{name}, rank {rank:?}: number of calls"
            );
            for ((a, of_a), (b, of_b)) in rows.iter().zip(replayed) {
                assert_eq!(a, b, "{name}, rank {rank:?}");
                let ran = |stamps: &(u64, u64)| stamps.1.wrapping_sub(stamps.0);
                assert_eq!(ran(of_a), ran(of_b), "{name}, rank {rank:?}: {a:?}");
                // The original's are on the host's clock, from which a GPU's is a few ms away; those of a
                // replay can't be.
                let apart = of_a.0.abs_diff(of_b.0);
                assert!(apart < 10_000_000, "{name}, rank {rank:?}: {a:?}");
            }
        }
    }
}

#[test]
fn recorded_jobs_are_complete() {
    // A replay sends the kernel events of the last two, which the recorder was asked to log and not to use.
    let others = [
        ("killed_228", 5500),
        ("events_228", 186),
        ("phases_232", 60),
    ];
    for (name, announced) in JOBS.into_iter().chain(others) {
        let capture = tables::Capture::open(&data(name)).expect("the recorded job opens");
        let report = analyze::report(&capture);
        let completeness = &report.completeness;
        assert_eq!(completeness.announced, announced, "{name}");
        assert_eq!(completeness.recorded, announced, "{name}");
        assert!(completeness.lost.is_empty(), "{name}");
        let file = |problem: &Problem| match problem {
            Problem::InFile(problem) => problem.file.display().to_string(),
            Problem::LastCalls { file, .. } => file.display().to_string(),
        };
        let files: Vec<String> = report.problems.iter().map(file).collect();
        // They were recorded under `ncclscope run`, and their capture.json was not kept.
        let lacks: &[&str] = match name {
            "shared_two_hosts_228" | "events_228" => &["capture.json"],
            _ => &[],
        };
        assert_eq!(files, lacks, "{name}");
    }
}
