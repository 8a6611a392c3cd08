//! The judge of a plugin that lies in a known way, and of ncclscope's own, on simulated jobs.
//!
//! Needs `fake-nccl` and the plugins beside the tests, as `make debug` leaves them.

use judge::completeness::Counts;
use judge::plan::{Events, JudgePlan, Profiler, Work};
use judge::report::Report;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn built() -> PathBuf {
    let tests = std::env::current_exe().expect("a path");
    tests.ancestors().nth(2).expect("target/PROFILE").to_owned()
}

fn there(name: &str) -> PathBuf {
    let path = built().join(name);
    assert!(
        path.is_file(),
        "expected {}; `make debug` and `cargo build -p ncclscope-judge -p ncclscope-preload --examples` \
        build it",
        path.display()
    );
    path
}

fn profiler(name: &str, path: &Path, env: &str) -> Profiler {
    Profiler::parse(&format!("{name}={}{env}", path.display()), None).expect("sound")
}

fn lossy() -> Profiler {
    let path = there("examples/liblossy_plugin.so");
    profiler("lossy", &path, ",LOSSY_OUT={out}")
}

fn own() -> Profiler {
    profiler("ncclscope", &there("libnccl_profiler_ncclscope.so"), "")
}

fn plan(work: Work, profilers: Vec<Profiler>, rounds: u32) -> JudgePlan {
    JudgePlan {
        work,
        profilers,
        rounds,
        seed: 5,
        limit: 1.02,
        step: None,
        counter: None,
        check_counter: false,
        timeout: Duration::from_secs(120),
        stopped: || false,
        folder: None,
        callbacks: false,
    }
}

fn judge(script: &str, profilers: Vec<Profiler>, rounds: u32) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    judge_in(folder.path(), script, profilers, rounds)
}

fn judge_in(folder: &Path, script: &str, profilers: Vec<Profiler>, rounds: u32) -> Report {
    let path = folder.join("job");
    std::fs::write(&path, script).expect("written");
    let work = Work::FakeNccl {
        program: there("fake-nccl"),
        script: Some(path),
        rates: vec![0],
        ranks: vec![2],
        channels: vec![1],
        calls: 100,
        events: None,
    };
    let plan = JudgePlan {
        folder: Some(folder.join("runs")),
        ..plan(work, profilers, rounds)
    };
    judge::trial::run(&plan, &mut |_, _| {}).expect("run")
}

fn counts(report: &Report, profiler: &str) -> Counts {
    let row = report
        .completeness
        .iter()
        .find(|row| row.profiler == profiler);
    row.unwrap_or_else(|| panic!("{profiler} in {report:#?}"))
        .counts
}

#[test]
fn what_a_lossy_plugin_drops_doubles_and_invents_is_found_exactly() {
    // 1500 collectives on each of 3 ranks: 214 are each a 7th, 15 a 100th, of which 2 are dropped.
    let script = "ranks 3\nrepeat 300 { all_reduce 1KiB; all_gather 3KiB; reduce_scatter 3KiB; \
                  broadcast 1KiB; reduce 4KiB }\n";
    let report = judge(script, vec![lossy(), own()], 2);
    assert_eq!(report.notes, Vec::<String>::new());
    let runs = 2 * 3;
    let lossy = counts(&report, "lossy");
    let expected = Counts {
        done: runs * 1500,
        found: runs * (1500 - 214 + 13 + 1),
        matched: runs * (1500 - 214),
        missing: runs * 214,
        duplicate: runs * 13,
        foreign: runs,
    };
    assert_eq!(lossy, expected);
    let own = counts(&report, "ncclscope");
    assert!(own.whole() && own.done == runs * 1500, "{own:?}");
    // The one that never was has the size and function of real ones: only its sequence number gives it away.
    let row = report
        .completeness
        .iter()
        .find(|row| row.profiler == "lossy");
    let by = &row.expect("there").by;
    let foreign: Vec<_> = by.iter().filter(|b| b.counts.foreign > 0).collect();
    assert_eq!(foreign.len(), 3);
    assert!(foreign
        .iter()
        .all(|b| b.function == "AllReduce" && b.bytes == 1024 && b.counts.done == 600));
}

#[test]
fn operations_in_pieces_and_graphs_are_whole_in_ncclscope_s_captures() {
    let script =
        "ranks 4\nrepeat 5 { all_to_all 4KiB; gather 4KiB; scatter 4KiB; all_reduce 1KiB }\n\
                  group { send 1MiB to=+1 ; recv 1MiB from=-1 }\n\
                  comm tp split world every 2\nall_reduce 2KiB comm=tp x3\n";
    let report = judge(script, vec![own()], 1);
    let row = &report.completeness[0];
    assert!(row.counts.whole(), "{:#?}", row.by);
    // A ring of sends and receives that the program made itself counts as these.
    let of = |function: &str| {
        row.by
            .iter()
            .filter(|b| b.function == function)
            .map(|b| b.counts.matched)
            .sum::<u64>()
    };
    assert_eq!(
        (of("AlltoAll"), of("Gather"), of("AllReduce")),
        (20, 20, 32)
    );
}

#[test]
fn replays_that_nccl_does_not_show_are_missing() {
    let script = "ranks 2\ngraph step { all_reduce 2KiB x3 }\nreplay step x4\nsync\n";
    let path = there("libnccl_profiler_ncclscope.so");
    let with = |timing: &str| profiler(timing, &path, &format!(",NCCLSCOPE_TIMING={timing}"));
    let report = judge(script, vec![with("host"), with("stamps")], 1);
    let host = counts(&report, "host");
    // Captured calls and their replays, on two ranks.
    assert_eq!(
        (host.done, host.missing, host.found),
        (2 * 15, 2 * 12, 2 * 3)
    );
    assert!(counts(&report, "stamps").whole());
}

#[test]
fn a_killed_rank_leaves_every_call_in_ncclscope_s_capture_and_none_in_the_lossy_one_s() {
    let script = "ranks 2\nlinger 100ms\nrepeat 50 { all_reduce 1KiB }\nsync\nrank 1 kill\nall_reduce 1KiB\n";
    let runs = tempfile::tempdir().expect("a folder");
    let report = judge_in(runs.path(), script, vec![lossy(), own()], 1);
    let own = counts(&report, "ncclscope");
    assert!(own.whole() && own.done == 101, "{own:?} {:?}", report.notes);
    assert_eq!(counts(&report, "lossy").matched, 0);
    assert!(report
        .resources
        .iter()
        .all(|r| r.peak_mib > 1.0 && r.wall_s > 0.0));
    // What is kept is the capture with all of that in it, and not what is left of it without the shared
    // memory.
    let kept = runs.path().join("runs/case-0/round-0/2/out");
    let kept = judge::readers::read(&kept, Some(2), true).expect("read");
    assert_eq!((kept.rows.len(), kept.unreadable), (101, 0));
    // Nothing of these runs is left in shared memory. What other tests run at the same time has its own
    // there.
    let runs = runs.path().display().to_string();
    // SAFETY: a plain query.
    let folder = format!("/dev/shm/ncclscope-{}", unsafe { libc::geteuid() });
    for live in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let mut head = Vec::new();
        let file = std::fs::File::open(live.path());
        let _ = file.and_then(|file| file.take(4096).read_to_end(&mut head));
        let head = String::from_utf8_lossy(&head).into_owned();
        assert!(!head.contains(&runs), "{head}");
    }
}

#[test]
fn a_plugin_that_is_not_one_is_said_to_be_none() {
    let program = there("fake-nccl");
    let report = judge(
        "ranks 2\nall_reduce 1KiB x3\n",
        vec![profiler("none-at-all", &program, "")],
        1,
    );
    assert_eq!(counts(&report, "none-at-all").missing, 6);
    let why = report.completeness[0].why.as_deref().expect("a reason");
    assert!(why.starts_with("it wrote no file; one more run"), "{why}");
    assert!(
        why.contains("PROFILER/Plugin: ") && why.contains("cannot"),
        "{why}"
    );
    let mut text = Vec::new();
    judge::text::write(&report, false, &mut text).expect("written");
    let text = String::from_utf8(text).expect("text").replace('\n', " ");
    assert!(
        text.contains("none-at-all recorded none of 6 calls: it wrote no file"),
        "{text}"
    );
    let mut page = Vec::new();
    judge::html::write(&report, &mut page).expect("written");
    assert!(String::from_utf8(page)
        .expect("text")
        .contains("it wrote no file"));
    assert!(
        report.notes.iter().any(|n| n.contains("had no plugin")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_plugin_that_can_t_be_opened_is_told_with_the_linker_s_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let cut = folder.path().join("libcut.so");
    std::fs::write(
        &cut,
        "no library, but long enough to be looked at".repeat(9),
    )
    .expect("written");
    let report = judge(
        "ranks 2\nall_reduce 1KiB\n",
        vec![profiler("cut", &cut, ""), own()],
        1,
    );
    let row = &report.completeness[0];
    let why = row.why.as_deref().expect("a reason");
    assert_eq!((&*row.profiler, row.counts.matched), ("cut", 0));
    assert!(why.contains("libcut.so: invalid ELF header"), "{why}");
    assert_eq!(report.completeness[1].why, None);
}

#[test]
fn what_fails_without_a_profiler_is_not_run_again_and_a_used_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("ran");
    let script = format!("echo >>'{}'; exit 3", runs.display());
    let work = Work::Command {
        command: ["sh", "-c", &script].map(str::to_owned).into(),
    };
    let mut plan = plan(work, vec![own()], 20);
    plan.folder = Some(folder.path().join("kept"));
    let report = judge::trial::run(&plan, &mut |_, _| {}).expect("run");
    let ran = std::fs::read_to_string(runs).expect("run").lines().count();
    assert!((1..=2).contains(&ran), "{ran}");
    let last = report.notes.last().expect("notes");
    assert_eq!(
        last,
        "command: not run any more, as it fails without a profiler"
    );
    assert!(report.resources.is_empty());
    let again = judge::trial::run(&plan, &mut |_, _| {}).expect_err("used");
    assert!(
        again.to_string().contains("a new or an empty folder"),
        "{again}"
    );
}

#[test]
fn a_command_is_counted_from_outside_and_its_steps_are_compared() {
    // A program that calls a mock of NCCL (100 AllReduces, one AlltoAll and one AllGather, and an AllReduce
    // in a forked child) and, where it has a profiler, writes what one would have of the AllReduces: 97 of
    // them. Its steps take longer then.
    let folder = tempfile::tempdir().expect("a folder");
    let nccl = folder.path().join("libnccl.so.2");
    std::fs::copy(there("examples/libmock_nccl.so"), &nccl).expect("copied");
    let script = format!(
        r#"'{}' '{}' >/dev/null || exit 1
        if [ "$NCCL_PROFILER_PLUGIN" = none ]; then echo 10; echo 10.2; exit; fi
        seq 0 96 | while read -r n; do
            echo '{{"header":{{"id":"0x1","rank":0,"n_ranks":8}},"metadata":{{"pid":1}},'
            echo '"coll_perf":{{"coll":"AllReduce",'
            echo '"coll_sn":'$n',"coll_msg_size_bytes":1024}}}}'
        done >"$NCCL_INSPECTOR_DUMP_DIR/1.log"
        echo 15; echo "step 3 of 4"; echo 15.3"#,
        there("examples/mock_program").display(),
        nccl.display()
    );
    let work = Work::Command {
        command: ["env", "RANK=0", "sh", "-c", &script]
            .map(str::to_owned)
            .into(),
    };
    let profiler = Profiler::parse("inspector=anything", None).expect("sound");
    let mut plan = plan(work, vec![profiler], 2);
    plan.counter = Some(there("libncclscope_counter.so"));
    plan.step = Some(format!("RANK=0; export RANK; {script}"));
    let report = judge::trial::run(&plan, &mut |_, _| {}).expect("run");
    assert_eq!(report.notes, Vec::<String>::new());
    for case in ["command", "step"] {
        let row = report.completeness.iter().find(|row| row.case == case);
        let counts = row.expect("judged").counts;
        let each = [counts.done, counts.matched, counts.missing, counts.foreign];
        assert_eq!(each, [2 * 103, 2 * 97, 2 * 6, 0], "{case}");
    }
    let figures: Vec<_> = report
        .overhead
        .iter()
        .map(|o| (&*o.figure, &*o.unit))
        .collect();
    assert_eq!(figures, [("whole run", "s"), ("step", "ms")]);
    let step = &report.overhead[1].overhead;
    assert_eq!((step.without, step.with, step.pairs), (10.0, 15.0, 2));
    assert_eq!(step.verdict, judge::overhead::Verdict::Above);
}

#[test]
fn a_torch_profiler_trace_of_a_run_is_judged_without_sizes() {
    // A program that calls the mock of NCCL as above. Under the profiler it leaves a trace in the form that
    // torch.profiler's own has, which the reader's test reads: 90 kernels of AllReduce, 2 ms each.
    let folder = tempfile::tempdir().expect("a folder");
    let nccl = folder.path().join("libnccl.so.2");
    std::fs::copy(there("examples/libmock_nccl.so"), &nccl).expect("copied");
    let script = format!(
        r#"'{}' '{}' >/dev/null || exit 1
        [ -n "$TRACE" ] || exit 0
        {{
            echo '{{"distributedInfo":{{"backend":"nccl","rank":0,"world_size":8}},"traceEvents":['
            seq 1 90 | while read -r n; do
                echo '{{"ph":"X","cat":"kernel","dur":2000.0,"pid":0,'
                echo '"name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"}},'
            done
            echo '{{"ph":"X","cat":"kernel","dur":5.0,"name":"void at::native::fill()"}}]}}'
        }} >"$NCCLSCOPE_OUT/trace.json""#,
        there("examples/mock_program").display(),
        nccl.display()
    );
    let work = Work::Command {
        command: ["env", "RANK=0", "sh", "-c", &script]
            .map(str::to_owned)
            .into(),
    };
    let profiler = Profiler::parse("torch=none,TRACE=1", None).expect("sound");
    let mut plan = plan(work, vec![profiler], 2);
    plan.counter = Some(there("libncclscope_counter.so"));
    let report = judge::trial::run(&plan, &mut |_, _| {}).expect("run");
    assert_eq!(report.notes, Vec::<String>::new());
    assert_eq!(report.completeness[0].format, "torch.profiler");
    let of = |function: &str| {
        let row = report.recorded.iter().find(|row| row.function == function);
        let row = row.unwrap_or_else(|| panic!("{:?}", report.recorded));
        (row.done, row.matched)
    };
    assert_eq!(of("AllReduce"), (2 * 101, 2 * 90));
    assert_eq!(of("AllGather"), (2, 0));
    let communication = &report.communication[0];
    let told = communication.told_s.expect("times");
    assert!((told - 0.18).abs() < 1e-9, "{communication:?}");
    assert_eq!(communication.told_interval_s, None, "{communication:?}");
    assert!(
        (told / communication.wall_s - communication.told_share_of_wall.expect("it")).abs() < 1e-9
    );
}

#[test]
fn what_events_cost_small_calls_is_a_table_of_types_hosts_and_releases() {
    let folder = tempfile::tempdir().expect("a folder");
    let work = Work::FakeNccl {
        program: there("fake-nccl"),
        script: None,
        rates: vec![0],
        ranks: vec![2],
        channels: vec![1],
        calls: 200,
        events: Some(Events {
            hosts: vec![1, 2],
            releases: vec!["2.27.7".into(), "2.28.9".into()],
        }),
    };
    let empty = there("libnccl_profiler_empty.so");
    use nccl_abi::event::{COLL, COLL_API};
    let profilers = vec![
        Profiler::empty(&empty, None),
        Profiler::empty(&empty, Some(("Coll", COLL))),
        Profiler::empty(&empty, Some(("CollApi", COLL_API))),
    ];
    let plan = JudgePlan {
        folder: Some(folder.path().join("runs")),
        ..plan(work, profilers, 3)
    };
    let report = judge::trial::run(&plan, &mut |_, _| {}).expect("run");
    assert_eq!(report.notes, [""; 0]);
    let of = |profiler: &str, release: &str| {
        let costs = report.event_costs.iter();
        costs
            .filter(|of| of.profiler == profiler && of.release == release)
            .map(|of| (of.function.as_str(), of.hosts, of.pairs))
            .collect::<Vec<_>>()
    };
    let all = [
        ("AllReduce", 1, 3),
        ("SendRecv", 1, 3),
        ("AllReduce", 2, 3),
        ("SendRecv", 2, 3),
    ];
    assert_eq!(of("empty", "2.28.9"), all);
    assert_eq!(of("empty Coll", "2.27.7"), all);
    assert_eq!(of("empty CollApi", "2.28.9"), all);
    // Events that the release does not have.
    assert_eq!(of("empty CollApi", "2.27.7"), []);
    for cost in &report.event_costs {
        assert!(
            cost.call_us > 0.0 && cost.call_more_interval_us.is_some(),
            "{cost:?}"
        );
    }
    let mut text = Vec::new();
    judge::text::write(&report, true, &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    let title = "NCCL 2.27.7, calls of 64 B, on the thread that calls NCCL";
    assert!(text.contains(title), "{text}");
    let mut page = Vec::new();
    judge::html::write(&report, &mut page).expect("written");
    assert!(String::from_utf8(page).expect("text").contains(title));
}
