//! Files of NCCL Inspector: the shapes of formats 4.0 to 4.4 as its source writes them; names and figures are
//! invented.

use analyze::Report;
use convert::found::OfJob;
use render::problems::rows;
use std::fmt::Write as _;
use std::path::Path;
use tables::{ReadProgress, Which};

/// The first call, µs since 1970.
const BEGAN: u64 = 1_790_857_026_000_000;
/// Between two calls, µs.
const STEP: u64 = 10_000;
const BYTES: u64 = 4 << 20;

/// A job whose last rank comes late to every call.
#[derive(Clone, Copy)]
struct Job {
    ranks: u32,
    calls: u64,
    /// µs.
    late: u64,
    /// Channels come with their times.
    verbose: bool,
    /// From 4.3 on a batch has one header.
    format: &'static str,
    source: &'static str,
    algorithm: &'static str,
}

const JOB: Job = Job {
    ranks: 4,
    calls: 40,
    late: 2_000,
    verbose: true,
    format: "v4.2",
    source: "kernel_gpu",
    algorithm: "RING",
};

/// An object of Inspector's stands in one line, and in a test in several.
fn in_one_line(text: &str) -> String {
    text.lines().map(str::trim).collect()
}

impl Job {
    fn context(&self, rank: u32, dumped: u64) -> String {
        in_one_line(&format!(
            r#""header":{{"id":"0xad56c683b0c4ef","comm_name":"DP Group 0","rank":{rank},"n_ranks":{n},
            "nnodes":1}},"metadata":{{"inspector_output_format_version":"{format}","git_rev":"",
            "rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{dumped},"hostname":"node-1",
            "pid":{pid}}}"#,
            n = self.ranks,
            format = self.format,
            pid = 4000 + rank,
        ))
    }

    fn perf(&self, rank: u32, call: u64) -> String {
        let begin = BEGAN + call * STEP;
        let late = if rank + 1 == self.ranks { self.late } else { 0 };
        let (start, end) = (begin + 500 + late, begin + 3_500);
        let mut text = format!(
            r#""coll_perf":{{"coll":"AllReduce","coll_algo":"{algorithm}","coll_proto":"SIMPLE",
            "coll_sn":{call},"coll_msg_size_bytes":{BYTES},"coll_exec_time_us":{us},
            "coll_timing_source":"{source}","coll_algobw_gbs":2.1,"coll_busbw_gbs":"nan""#,
            algorithm = self.algorithm,
            source = self.source,
            us = end - start,
        );
        if self.verbose {
            let channel = |at: u64| {
                format!(
                    r#"{{"channel_id":{at},"kernel_start_ts":{},"kernel_stop_ts":{end},
                    "kernel_record_ts":{end}}}"#,
                    start + at
                )
            };
            let _ = write!(
                text,
                r#","event_trace_sn":{{"coll_start_sn":1,"coll_stop_sn":2,"kernel_events":[]}},
                "event_trace_ts":{{"coll_start_ts":{made},"coll_stop_ts":{made},
                "kernel_events":[{},{}]}}"#,
                channel(0),
                channel(1),
                made = begin + late,
            );
        }
        in_one_line(&text) + "}"
    }

    fn file(&self, rank: u32) -> String {
        let is_batch = self.format >= "v4.3";
        let mut text = String::new();
        for call in 0..self.calls {
            let context = self.context(rank, BEGAN + call * STEP + 5_000);
            if is_batch && call % 8 == 0 {
                let stats = format!(
                    r#"{{{context},"dump_stats":{{"coll_records":8,"coll_dropped_total":0,
                    "coll_dropped_since_last_dump":0,"p2p_records":0,"p2p_dropped_total":0,
                    "p2p_dropped_since_last_dump":0}}}}"#
                );
                let _ = writeln!(text, "{}", in_one_line(&stats));
            }
            let _ = if is_batch {
                writeln!(text, "{{{}}}", self.perf(rank, call))
            } else {
                writeln!(text, "{{{context},{}}}", self.perf(rank, call))
            };
        }
        text
    }

    fn write(&self, folder: &Path) {
        for rank in 0..self.ranks {
            let file = folder.join(format!("node-1-pid{}.log", 4000 + rank));
            std::fs::write(file, self.file(rank)).expect("written");
        }
    }

    fn report(&self) -> Report {
        let folder = tempfile::tempdir().expect("a folder");
        self.write(folder.path());
        report(folder.path())
    }
}

fn report(path: &Path) -> Report {
    let progress = ReadProgress::default();
    let (source, held) = convert::open(path, &progress, Which::Last).expect("opened");
    assert!(held.is_converted());
    analyze::report_from(source, None, &progress)
}

/// The report on a file with this content.
fn of(text: &str) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("node-1-pid4000.log");
    std::fs::write(&file, text).expect("written");
    report(&file)
}

fn close(found: f64, truth: f64) {
    assert!((found - truth).abs() < 0.01 * truth, "{found} for {truth}");
}

#[test]
fn a_verbose_file_says_who_is_late() {
    for format in ["v4.0", "v4.2", "v4.4"] {
        let report = Job { format, ..JOB }.report();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let [operation] = &report.operations[..] else {
            panic!("{:?}", report.operations);
        };
        assert_eq!(
            (
                operation.function.as_deref(),
                operation.bytes,
                operation.calls
            ),
            (Some("AllReduce"), Some(BYTES), 160)
        );
        assert_eq!(operation.algorithm.as_deref(), Some("RING"));
        assert_eq!(
            (report.completeness.recorded, report.completeness.timed),
            (160, 160)
        );
        assert!(report.completeness.announced_is_lower_bound);
        let arrivals = report.arrivals.as_ref().expect("times of all ranks");
        let last = &arrivals.ranks[0];
        assert_eq!((last.process.rank, last.last), (Some(3), 39), "{format}");
        // The first call is a warm-up.
        close(last.cost_rank_us, 39.0 * 3.0 * 2_000.0);
        let blamed = report.findings.first().expect("a finding");
        assert_eq!(blamed.subject.ranks[0].process.rank, Some(3), "{blamed:?}");
    }
}

#[test]
fn without_times_a_call_has_a_length_and_nobody_is_blamed() {
    let report = Job {
        verbose: false,
        ..JOB
    }
    .report();
    assert_eq!(report.completeness.timed, 160);
    let time = report.operations[0].time_us.as_ref().expect("lengths");
    close(time.p50.expect("a median"), 3_000.0);
    assert!(
        report.arrivals.is_none() && report.findings.is_empty(),
        "{:?}",
        report.findings
    );
    assert!(report.steps.is_none(), "{:?}", report.steps);
    assert!(report.only_lengths);
}

#[test]
fn ranks_that_are_even_are_not_blamed() {
    let report = Job { late: 0, ..JOB }.report();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn stamps_that_end_too_early_are_no_times_and_those_of_the_host_neither() {
    for job in [
        Job {
            algorithm: "NVLS",
            ..JOB
        },
        Job {
            algorithm: "TREE",
            verbose: false,
            ..JOB
        },
        Job {
            source: "kernel_cpu",
            ..JOB
        },
        Job {
            source: "collective_cpu",
            verbose: false,
            ..JOB
        },
    ] {
        let report = job.report();
        assert_eq!(
            (report.completeness.recorded, report.completeness.timed),
            (160, 0)
        );
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

#[test]
fn a_call_that_one_rank_did_not_write_is_not_called_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    Job { late: 0, ..JOB }.write(folder.path());
    // A ring that ran over, or calls that were too small.
    let file = folder.path().join("node-1-pid4001.log");
    let text = std::fs::read_to_string(&file).expect("read");
    let lines = text
        .lines()
        .enumerate()
        .filter(|(at, _)| !(20..30).contains(at));
    let kept: String = lines.map(|(_, line)| format!("{line}\n")).collect();
    std::fs::write(&file, kept).expect("written");
    let report = report(folder.path());
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.operations[0].matched, 29);
    assert!(
        report.completeness.lost.is_empty(),
        "{:?}",
        report.completeness.lost
    );
}

#[test]
fn calls_that_inspector_overwrote_are_told() {
    let text = Job {
        format: "v4.3",
        ..JOB
    }
    .file(0);
    let report = of(&text.replace("\"coll_dropped_total\":0", "\"coll_dropped_total\":512"));
    let [problem] = &rows(&report.problems)[..] else {
        panic!("{:?}", report.problems);
    };
    assert!(problem.found.contains("512 overwritten"), "{problem:?}");
    assert!(problem.found.contains("NCCL_INSPECTOR_DUMP_COLL_RING_SIZE"));
}

#[test]
fn joined_copied_listed_and_spread_out_files_are_read_once() {
    let whole = JOB.file(0);
    let joined = format!("{whole}{}", JOB.file(1));
    assert_eq!(of(&joined).completeness.recorded, 80);
    assert_eq!(of(&format!("{whole}{whole}")).completeness.recorded, 40);
    let list = format!("[{}]", whole.trim_end().replace('\n', ","));
    assert_eq!(of(&list).completeness.recorded, 40);
    let pretty = whole.replace(',', ",\n  ");
    assert_eq!(of(&pretty).completeness.recorded, 40);
}

#[test]
fn sends_and_receives_have_peers_and_no_number_in_common() {
    let mut text = String::new();
    for (at, kind) in ["Send", "Recv", "Send"].into_iter().enumerate() {
        let call = format!(
            r#"{{{},"p2p_perf":{{"p2p":"{kind}","p2p_sn":{},"p2p_peer":2,"p2p_msg_size_bytes":65536,
            "p2p_exec_time_us":70,"p2p_timing_source":"kernel_gpu","p2p_algobw_gbs":0.9,
            "p2p_busbw_gbs":0.9}}}}"#,
            JOB.context(1, BEGAN),
            at + 1,
        );
        let _ = writeln!(text, "{}", in_one_line(&call));
    }
    let report = of(&text);
    assert_eq!(report.completeness.recorded, 3);
    // NCCL's stamps of these come too early.
    assert_eq!(report.completeness.timed, 0);
    let functions: Vec<_> = report
        .operations
        .iter()
        .map(|of| of.function.as_deref())
        .collect();
    assert!(functions.contains(&Some("Send")), "{functions:?}");
}

#[test]
fn damaged_lines_are_left_out_and_told() {
    let whole = JOB.file(0);
    let cut = &whole[..whole.len() - 300];
    let report = of(cut);
    assert_eq!(report.completeness.recorded, 39);
    assert!(
        rows(&report.problems)[0].found.contains("end of the file"),
        "{:?}",
        report.problems
    );
    let lines: Vec<&str> = whole.lines().collect();
    let mut torn = lines.clone();
    torn[7] = &torn[7][..200];
    let report = of(&torn.join("\n"));
    // The line behind the torn one is part of it.
    assert!(
        report.completeness.recorded >= 38,
        "{}",
        report.completeness.recorded
    );
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(
        rows(&report.problems)[0].found.contains("left out"),
        "{:?}",
        report.problems
    );
}

#[test]
fn a_file_of_a_rank_that_is_none_of_inspector_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    JOB.write(folder.path());
    let first = folder.path().read_dir().expect("listed").flatten();
    let mut names: Vec<_> = first.map(|entry| entry.path()).collect();
    names.sort();
    std::fs::write(&names[2], [0, 255, 10]).expect("written");
    std::fs::write(folder.path().join("notes.txt"), "x").expect("written");
    let report = report(folder.path());
    let problems = rows(&report.problems);
    let files: Vec<&str> = problems.iter().map(|row| row.file.as_str()).collect();
    assert_eq!(files, [names[2].to_str().expect("UTF-8")]);
}

#[test]
fn no_damage_is_too_odd() {
    let text = Job {
        calls: 6,
        format: "v4.4",
        ..JOB
    }
    .file(3)
    .into_bytes();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("node-1-pid4003.log");
    crate::damage::read_damaged(&path, &text, b"\0{}[]\",:\\9-eE.x\n", 7);
}

#[test]
fn beyond_the_limit_of_calls_the_rest_is_left_out_and_told() {
    let text = Job { calls: 5, ..JOB }.file(0);
    for (most, kept, damaged) in [(5, 5, 0), (4, 4, 1)] {
        let mut reader = Box::new(convert::inspector::Reader::new(most));
        let damage = reader
            .read(Path::new("a.log"), Box::new(text.as_bytes()))
            .expect("read");
        assert_eq!(damage.len(), damaged, "{damage:?}");
        let (processes, _) = reader.finish();
        assert_eq!(processes[0].1.calls.len(), kept);
    }
}

#[test]
fn a_file_without_a_call_is_an_error_with_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.log");
    let text = Job {
        calls: 1,
        format: "v4.3",
        ..JOB
    }
    .file(0);
    std::fs::write(&path, text.lines().next().expect("a line")).expect("written");
    let error = convert::open(&path, &ReadProgress::default(), Which::Last)
        .err()
        .expect("an error");
    assert!(error.to_string().contains("NCCL Inspector"), "{error}");
    assert!(error.hint().contains("NCCL_INSPECTOR_DUMP_VERBOSE"));
}
