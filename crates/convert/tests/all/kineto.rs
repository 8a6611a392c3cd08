//! Traces of torch.profiler: made here with a known straggler, and one that it wrote itself.
//!
//! What is made here has the shape of such files; names and figures are invented. `fsdp2_traced` is a run of
//! 2 H200 that this project's recorder and torch.profiler recorded at the same time.

use analyze::recommendations::{Grounds, Rule};
use analyze::Report;
use render::problems::rows;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tables::{ReadProgress, Which};

/// A job whose steps compute and then call an AllReduce on each of two GPUs.
struct Job {
    ranks: u64,
    steps: u64,
    /// Extra computing of the last rank, µs.
    late: u64,
    /// PyTorch's sequence numbers.
    seq: bool,
    /// Steps that the profiler of the last rank missed.
    missed: u64,
}

const STEP: u64 = 10_000;
const TRANSFER: u64 = 1_000;
const BASE: u64 = 1_790_857_026_000_000_000;

impl Job {
    /// The trace of a rank.
    fn trace(&self, rank: u64) -> String {
        let is_last = rank + 1 == self.ranks;
        let ranks: Vec<String> = (0..self.ranks).map(|rank| rank.to_string()).collect();
        let ranks = format!("[{}]", ranks.join(", "));
        let mut text = format!(
            r#"{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {rank},
            "world_size": {n}, "pg_count": 1, "pg_config": [{{"pg_name": "0", "pg_desc": "default_pg",
            "backend_config": "cuda:nccl", "pg_size": {n}, "ranks": {ranks}}}], "nccl_version": "2.28.9"}},
            "traceEvents": ["#,
            n = self.ranks,
        );
        let first = if is_last { self.missed } else { 0 };
        for step in first..self.steps {
            let begin = 1_000_000 + step * STEP;
            let computing = 4_000 + if is_last { self.late } else { 0 };
            let end = begin + 4_000 + self.late + TRANSFER;
            let (gemm, reduce) = (100 * step + 1, 100 * step + 2);
            let group = format!(
                r#""Collective name": "allreduce", "In msg nelems": 1048576, "Out msg nelems": 1048576,
                "Group size": {}, "dtype": "BFloat16", "Process Group Name": "0",
                "Process Group Description": "default_pg", "Process Group Ranks": "{ranks}"{}"#,
                self.ranks,
                if self.seq {
                    format!(r#", "Seq": {}"#, step + 7)
                } else {
                    String::new()
                },
            );
            let _ = write!(
                text,
                r#"
{{"ph": "X", "cat": "python_function", "name": "a\"b", "pid": 5, "tid": 6, "ts": 1, "dur": 2,
  "args": {{"x": [1]}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {pid}, "tid": 77, "ts": {at}.5,
  "dur": 5, "args": {{"External id": {gemm}, "cbid": 211, "correlation": {gemm}}}}},
{{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": {pid}, "tid": 77, "ts": {noted}, "dur": 50,
  "args": {{"External id": {reduce}, {group}}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": {pid}, "tid": 77, "ts": {launch},
  "dur": 5, "args": {{"External id": {reduce}, "cbid": 430, "correlation": {reduce}}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": {pid}, "tid": 77, "ts": {sync},
  "dur": {waits}, "args": {{"cbid": 165, "correlation": {sync}}}}},
{{"ph": "X", "cat": "kernel", "name": "gemm<int>(int*)", "pid": {rank}, "tid": 7, "ts": {begin}.250,
  "dur": {computing}, "args": {{"device": {rank}, "stream": 7, "correlation": {gemm}, "grid": [11, 2, 1]}}}},
{{"ph": "X", "cat": "kernel",
  "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": {rank},
  "tid": 20, "ts": {begun}.250, "dur": {took}, 
  "args": {{"External id": {reduce}, "device": {rank}, "stream": 20, "correlation": {reduce}, {group}}}}},"#,
                pid = 4000 + rank,
                at = begin - 500,
                noted = begin - 450,
                launch = begin - 430,
                // The host waits for its GPU until shortly before the next step.
                sync = begin - 400,
                waits = STEP - 200,
                begun = begin + computing,
                took = end - begin - computing,
            );
        }
        let _ = write!(
            text,
            r#"{{"ph": "M", "name": "process_name", "ts": 1}}], "baseTimeNanoseconds": {BASE}}}"#
        );
        text
    }

    fn write(&self, folder: &Path) {
        for rank in 0..self.ranks {
            let file = folder.join(format!("rank{rank}.json"));
            std::fs::write(file, self.trace(rank)).expect("written");
        }
    }
}

const JOB: Job = Job {
    ranks: 2,
    steps: 40,
    late: 2_000,
    seq: true,
    missed: 0,
};

fn report(path: &Path) -> Report {
    let progress = ReadProgress::default();
    let (source, held) = convert::open(path, &progress, Which::Last).expect("opened");
    assert!(held.is_converted());
    analyze::report_from(source, None, &progress)
}

fn of(job: &Job) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    job.write(folder.path());
    report(folder.path())
}

fn close(found: f64, truth: f64) {
    assert!(
        (found - truth).abs() < 0.01 * truth.abs().max(0.01),
        "{found} for {truth}"
    );
}

#[test]
fn sizes_groups_and_times_are_those_of_the_file() {
    let report = of(&JOB);
    assert_eq!(
        (report.completeness.recorded, report.completeness.timed),
        (80, 80)
    );
    assert!(report.completeness.announced_is_lower_bound && report.completeness.lost.is_empty());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let [communicator] = &report.communicators[..] else {
        panic!("{:?}", report.communicators);
    };
    assert_eq!(
        (communicator.nranks, communicator.name.as_deref()),
        (Some(2), Some("default_pg"))
    );
    let [operation] = &report.operations[..] else {
        panic!("{:?}", report.operations);
    };
    assert_eq!(
        (operation.function.as_deref(), operation.bytes),
        (Some("AllReduce"), Some(2 << 20))
    );
    // A trace begins in the middle of a run: its first call is a call like the others.
    assert_eq!((operation.calls, operation.matched), (80, 40));
    assert!(operation.algorithm.is_none() && operation.protocol.is_none());
}

#[test]
fn exposed_communication_and_the_straggler_are_found() {
    let report = of(&JOB);
    let streams = report.streams.as_ref().expect("kernels");
    let exposed: Vec<f64> = streams
        .ranks
        .iter()
        .map(|rank| rank.exposed.share)
        .collect();
    // Of 10 ms, rank 0 has 3 ms of AllReduce, 2 of them waiting, and rank 1 has 1 ms.
    close(exposed[0], 0.3);
    close(exposed[1], 0.1);
    let waiting: Vec<f64> = streams
        .ranks
        .iter()
        .map(|rank| rank.exposed_waiting.expect("known").share)
        .collect();
    close(waiting[0], 0.2);
    close(waiting[1], 0.0);
    let account = report.account.as_ref().expect("steps");
    close(account.answers[0].share, 0.2);
    assert_eq!(
        report.findings.first().and_then(|finding| finding.rank()),
        Some(1),
        "{:?}",
        report.findings
    );
    let fair = of(&Job { late: 0, ..JOB });
    assert!(fair.findings.is_empty(), "{:?}", fair.findings);
}

#[test]
fn exposed_communication_of_one_rank_alone_is_no_gain() {
    let folder = tempfile::tempdir().expect("a folder");
    JOB.write(folder.path());
    let report = report(&folder.path().join("rank0.json"));
    let mut all = report.recommendations.iter();
    let found = all.find_map(|one| match &one.rule {
        Rule::Own {
            evidence: Grounds::Exposed { knows_waiting, .. },
            ..
        } => Some((&one.gain, *knows_waiting)),
        _ => None,
    });
    let (gain, knows_waiting) = found.expect("30 % of the time");
    // All of it may be waiting for rank 1.
    assert_eq!((gain.us, gain.at_most_us), (None, None));
    assert!(!knows_waiting);
}

/// The traces of a job without what PyTorch 2.4 and later say of process groups; `moved` for each rank.
fn without_groups(job: &Job, moved: impl Fn(u64) -> u64) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..job.ranks {
        let text = job.trace(rank);
        let mut text = text.replace("\"distributedInfo\"", "\"of\"");
        for name in [
            "Process Group Name",
            "Process Group Description",
            "Process Group Ranks",
            "Group size",
            "Seq",
        ] {
            text = text.replace(&format!("\"{name}\""), "\"x\"");
        }
        let text = text.replace(&BASE.to_string(), &(BASE + moved(rank)).to_string());
        std::fs::write(folder.path().join(format!("rank{rank}.json")), text).expect("written");
    }
    report(folder.path())
}

#[test]
fn the_one_group_of_files_without_names_of_groups_is_joined_if_its_calls_end_together() {
    let job = Job { seq: false, ..JOB };
    let joined = without_groups(&job, |_| 0);
    let sizes = |report: &Report| -> Vec<Option<u32>> {
        report.communicators.iter().map(|of| of.nranks).collect()
    };
    assert_eq!(sizes(&joined), [Some(2)]);
    let first = joined.findings.first();
    assert_eq!(
        first.and_then(|first| first.rank()),
        Some(1),
        "{:?}",
        joined.findings
    );
    assert!(
        rows(&joined.problems)[0]
            .found
            .contains("taken for those of one group"),
        "{:?}",
        joined.problems
    );
    // As two groups, or two clocks.
    let apart = without_groups(&job, |rank| rank * 3_000_000);
    assert_eq!(sizes(&apart), [None, None]);
    assert!(
        rows(&apart.problems)[0].found.contains("is not known"),
        "{:?}",
        apart.problems
    );
}

#[test]
fn ranks_are_matched_without_sequence_numbers_and_from_different_beginnings() {
    let without = of(&Job {
        seq: false,
        missed: 5,
        ..JOB
    });
    let [operation] = &without.operations[..] else {
        panic!("{:?}", without.operations);
    };
    assert_eq!((operation.calls, operation.matched), (75, 35));
    let first = without.findings.first();
    assert_eq!(first.and_then(|first| first.rank()), Some(1));
}

#[test]
fn traces_of_two_runs_are_two_recordings() {
    let run = |job: &Job| {
        let folder = tempfile::tempdir().expect("a folder");
        job.write(folder.path());
        let progress = ReadProgress::default();
        let opened = convert::open(folder.path(), &progress, Which::Last);
        let (source, _held) = opened.expect("opened");
        analyze::diff::Run::of(&source.load(&progress))
    };
    assert!(run(&JOB).is_same_recording(&run(&JOB)));
    assert!(!run(&JOB).is_same_recording(&run(&Job { late: 0, ..JOB })));
}

#[test]
fn one_file_is_a_capture_too_and_so_is_a_packed_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, JOB.trace(1).as_bytes()).expect("packed");
    std::fs::write(&path, packed.finish().expect("packed")).expect("written");
    let report = report(&path);
    assert_eq!(report.completeness.recorded, 40);
    // Nobody knows how long a rank waited from its own trace.
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.operations[0].matched, 0);
}

#[test]
fn what_is_before_the_damage_is_there_and_the_damage_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = JOB.trace(0);
    let path = folder.path().join("trace.json");
    std::fs::write(&path, &text[..text.len() / 2]).expect("written");
    let report = report(&path);
    assert!(
        (15..25).contains(&report.completeness.recorded),
        "{}",
        report.completeness.recorded
    );
    let [problem] = &rows(&report.problems)[..] else {
        panic!("{:?}", report.problems);
    };
    assert!(problem.found.contains("the end of the file"), "{problem:?}");
}

#[test]
fn no_damage_is_too_odd() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = Job { steps: 3, ..JOB }.trace(0).into_bytes();
    let path = folder.path().join("trace.json");
    crate::damage::read_damaged(&path, &text, b"\0{}[]\",:\\9-eE.x", 1);
}

#[test]
fn what_is_no_trace_is_an_error_with_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    for (text, part) in [
        (r#"{"traceEvents": []}"#, "a trace of torch.profiler"),
        (r#"{"other": []}"#, "a capture folder or a trace file"),
        ("", "a capture folder or a trace file"),
        ("[1, 2]", "a capture folder or a trace file"),
    ] {
        std::fs::write(&path, text).expect("written");
        let error = convert::open(&path, &ReadProgress::default(), Which::Last)
            .err()
            .expect("an error");
        assert!(error.to_string().contains(part), "{text}: {error}");
        assert!(!error.hint().is_empty());
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_run_of_fsdp_has_the_parts_that_its_own_capture_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        let name = format!("fsdp2_traced.{rank}.json.gz");
        let from = repository().join("python/tests/torch_profiler").join(&name);
        std::fs::copy(from, folder.path().join(&name)).expect("copied");
    }
    let theirs = report(folder.path());
    let progress = ReadProgress::default();
    let source = tables::Source::open(&repository().join("data/fsdp2_traced"), &progress);
    let ours = analyze::report_from(source.expect("a capture"), None, &progress);
    let (theirs, ours) = (
        theirs.streams.expect("kernels"),
        ours.streams.expect("windows"),
    );
    assert_eq!(theirs.ranks.len(), 2);
    for (theirs, ours) in theirs.ranks.iter().zip(&ours.ranks) {
        assert_eq!(theirs.process.rank, ours.process.rank);
        // In the first step of the trace ranks wait for each other's profiler, beside what they compute.
        let parts = |rank: &analyze::streams::RankStreams| {
            let computes = rank.computing.share + rank.beside.share;
            [
                computes,
                rank.exposed.share + rank.copies.share,
                rank.idle.share,
            ]
        };
        for (a, b) in parts(theirs).iter().zip(parts(ours)) {
            assert!(
                (a - b).abs() < 0.01,
                "{:?} and {:?}",
                parts(theirs),
                parts(ours)
            );
        }
    }
}

#[test]
fn a_trace_begins_in_the_middle_of_a_run() {
    let report = of(&JOB);
    // No call is known to be the first, so none is left out as a warm-up.
    assert!(report.warmup.is_empty(), "{:?}", report.warmup);
    let operation = &report.operations[0];
    let timed = operation.time_us.as_ref().map(|time| time.n);
    assert_eq!((operation.calls, timed), (80, Some(80)));
    let steps = report.steps.as_ref().expect("steps");
    assert_eq!(steps.startup_us, None);
    // The time is that of the trace: from the first launch to the end of the last kernel.
    let wall = report.ranks.wall_us.expect("known").max;
    let first_to_last = (STEP * (JOB.steps - 1) + 4_000 + JOB.late + TRANSFER + 500) as f64;
    close(wall, first_to_last);
}

#[test]
fn what_one_rank_alone_waited_is_not_known_and_not_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rank0.json");
    std::fs::write(&file, JOB.trace(0)).expect("written");
    let report = report(&file);
    let streams = report.streams.as_ref().expect("kernels");
    assert!(streams.ranks[0].exposed_waiting.is_none());
    let json = render::report_json::value(&report).expect("JSON");
    let rank = &json["streams"]["ranks"][0];
    assert!(rank["exposed_waiting"].is_null(), "{rank}");
    // The same kernels never took less time alone.
    let page = text_of(&report);
    assert!(!page.contains("take up to -"), "{page}");
}

fn lead(report: &Report) -> String {
    render::verdict::lead(report, &report.verdict.lead)
}

fn text_of(report: &Report) -> String {
    let mut bytes = Vec::new();
    render::text::write(report, render::text::Options::default(), &mut bytes).expect("text");
    String::from_utf8(bytes).expect("UTF-8")
}

/// Traces of two ranks that compute, with these events; `PID` in them is the rank's.
fn traces_with(events: &str) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        let kernels: Vec<String> = (0..8)
            .map(|i| {
                format!(
                    r#"{{"ph": "X", "cat": "kernel", "name": "gemm", "pid": {rank}, "tid": 7, "ts": {},
                    "dur": 50, "args": {{"device": {rank}, "stream": 7, "correlation": {i}}}}}"#,
                    1000 + 100 * i
                )
            })
            .collect();
        let text = format!(
            r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{}{}]}}"#,
            kernels.join(","),
            events.replace("PID", &(4000 + rank).to_string())
        );
        std::fs::write(folder.path().join(format!("rank{rank}.json")), text).expect("written");
    }
    report(folder.path())
}

#[test]
fn a_trace_without_a_kernel_of_nccl_says_nothing_about_communication() {
    let none = traces_with("");
    assert!(
        lead(&none).starts_with("No NCCL call is here"),
        "{}",
        lead(&none)
    );
    let call = r#", {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": PID, "tid": 9,
        "ts": 1100, "dur": 5, "args": {"External id": 3, "Collective name": "allreduce", "In msg nelems": 4,
        "Out msg nelems": 4, "Group size": 2, "dtype": "Float", "Process Group Name": "0"}}"#;
    let calls = traces_with(call);
    let words = lead(&calls);
    assert!(
        words.contains("is not known: the file has 2 NCCL calls, and no kernel of NCCL"),
        "{words}"
    );
    for of in [none, calls] {
        let page = text_of(&of);
        assert!(!page.contains("exposed communication 0.0 %"), "{page}");
    }
}

#[test]
fn ranks_without_a_pid_are_told_apart_and_have_none() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        // Of a trace of its GPU alone, the host's pid is nowhere.
        let events: Vec<String> = (0..8)
            .map(|i| {
                format!(
                    r#"{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
                    "pid": {rank}, "tid": 7, "ts": {}, "dur": 50,
                    "args": {{"device": {rank}, "stream": 7, "correlation": {i}}}}}"#,
                    1000 + 100 * i
                )
            })
            .collect();
        let text = format!(
            r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{}]}}"#,
            events.join(",")
        );
        std::fs::write(folder.path().join(format!("rank{rank}.json")), text).expect("written");
    }
    let report = report(folder.path());
    let json = render::report_json::value(&report).expect("JSON");
    for row in json["ranks"]["rows"].as_array().expect("ranks") {
        assert!(row["pid"].is_null(), "{row}");
    }
    let page = text_of(&report);
    // `0/0` would be one process with two GPUs.
    assert!(!page.contains("0/0") && !page.contains("1/1"), "{page}");
}
