//! What kernel windows of recorded jobs in `data/` say beside who is late.

use analyze::{report, Report};
use std::path::{Path, PathBuf};
use tables::Capture;

fn recorded(name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    data.join(name)
}

fn report_on(capture: &Path) -> Report {
    report(&Capture::open(capture).expect("it opens"))
}

/// The same files in a folder of their own.
fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copied(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

#[test]
fn a_job_that_mostly_communicates_without_nccl_is_told_so_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("job");
    copied(&recorded("decode_plain"), &capture);
    let before = report_on(&capture);
    assert_eq!(before.verdict.beside, None);
    // The job's matrix products stand for a library that the report does not know.
    std::fs::write(
        capture.join(tables::communication::FILE),
        "# test\nnvjet our collectives\n",
    )
    .expect("written");
    let after = report_on(&capture);
    let beside = after.verdict.beside.as_ref().expect("other communication");
    assert!(beside.other_us > beside.nccl_us && !after.verdict.ended);
    assert_eq!(beside.library, "our collectives");
    let of = |report: Report| report.streams.expect("windows");
    let (before, after) = (of(before), of(after));
    assert_eq!(before.other_communication.len(), 0);
    assert_eq!(after.other_communication[0].library, "our collectives");
    for (before, after) in before.ranks.iter().zip(&after.ranks) {
        assert!(after.exposed.share > before.exposed.share + 0.2);
        assert!(after.computing.share < before.computing.share);
    }
    let is_ours = |kernel: &&analyze::streams::KernelRow| kernel.name.contains("nvjet");
    let ours: Vec<_> = after.kernels.iter().filter(is_ours).collect();
    assert!(!ours.is_empty() && ours.iter().all(|kernel| kernel.kind == "communication"));
}

#[test]
fn a_replay_of_a_decode_graph_has_its_calls_and_what_they_take() {
    let of = |name: &str| report_on(&recorded(name)).streams.expect("windows").replays;
    let (plain, slowed) = (of("decode_plain"), of("decode_slow_gpu"));
    for replay in plain.iter().chain(&slowed) {
        // Twelve layers of two AllReduces each, which run between the layers' kernels on one stream.
        assert_eq!(
            replay.calls.iter().next(),
            Some((&"AllReduce".to_owned(), &24))
        );
        assert!(replay.replays > 100);
        assert!(replay.exposed_us > 0.999 * replay.communication_us);
        let (low, high) = replay.exposed_interval_us.expect("enough");
        assert!(low <= replay.exposed_us && replay.exposed_us <= high);
    }
    // A step takes 540 µs (data/README.md); windows make it up to 5 % longer.
    assert!(
        plain
            .iter()
            .all(|of| (540.0..570.0).contains(&of.replay_us)),
        "{plain:?}"
    );
    // Rank 0 waits in its AllReduces for rank 1, which has 0.2 ms more to do.
    let exposed = |of: &[analyze::streams::Replay], rank| {
        let row = of.iter().find(|replay| replay.process.rank == Some(rank));
        row.expect("both ranks").exposed_us
    };
    let longer = exposed(&slowed, 0) - exposed(&plain, 0);
    assert!((170.0..230.0).contains(&longer), "{longer}");
}

#[test]
fn kernels_of_nccl_that_wait_take_about_what_their_channels_keep() {
    // 24 channels keep 24 of 132 multiprocessors of an H200 each time. Without windows, the account takes
    // this part for the likely loss, 0.3 of it for the least and twice of it for the most.
    let kept = 24.0 / 132.0;
    let of = |name: &str| {
        let streams = report_on(&recorded(name)).streams.expect("windows");
        let shown = streams.ranks.iter().find_map(|rank| rank.waiting_slows);
        shown.expect(name) / kept
    };
    let ratios = [
        "ddp_late_host",
        "ddp_slow_gpu",
        "ddp_slow_host",
        "fsdp2_slow_gpu",
        "short_fsdp2_gpu",
        "short_fsdp2_host",
    ]
    .map(|name| (name, of(name)));
    println!("{ratios:.2?}");
    assert!(
        ratios.iter().all(|(_, ratio)| (0.25..2.0).contains(ratio)),
        "{ratios:.2?}"
    );
    let mean = ratios.iter().map(|(_, ratio)| ratio).sum::<f64>() / ratios.len() as f64;
    assert!((0.75..1.25).contains(&mean), "{mean:.2}: {ratios:.2?}");
}

/// What programs printed as the mean time of a step, ms (`data/README.md`).
#[test]
fn a_step_takes_as_long_as_the_program_says() {
    let truth = [
        ("decode_plain", 0.540),
        ("decode_slow_gpu", 0.7435),
        ("decode_graphs_host", 1.7043),
        ("short_decode_gpu", 1.275),
        ("ddp_slow_host", 27.7),
        ("ddp_slow_gpu", 31.05),
        ("ddp_late_host", 26.2),
        ("ddp_busier_gpu", 29.17),
        ("ddp_beside_program", 22.45),
        ("ddp_checkpoints", 49.72),
        ("ddp8_late_host", 56.35),
        ("ddp8_busier_gpu", 69.58),
        ("eager_busier_gpu", 4.15),
        ("fsdp1_late_host", 62.09),
        ("fsdp2_slow_gpu", 69.9),
        ("fsdp2_traced", 76.2),
        ("short_fsdp2_host", 163.4),
        ("short_fsdp2_gpu", 135.9),
        ("pipe_slow_gpu", 98.6),
        ("short_pipe_stage", 98.7),
        ("shared_gpu_fsdp2", 57.15),
        ("shared_gpu_experts", 23.58),
        ("deepspeed_late_host", 198.5),
        // A micro-batch is half of a step.
        ("megatron_late_host", 136.8 / 2.0),
    ];
    for (name, ms) in truth {
        let report = report_on(&recorded(name));
        let steps = report.steps.expect("steps");
        let told = steps.mean_us().expect("times") / 1e3;
        assert!((told / ms - 1.0).abs() < 0.02, "{name}: {told} for {ms}");
        let account = report.account.expect("an account");
        let of_account = account.wall_us / account.steps as f64 / 1e3;
        assert!(
            (of_account / told - 1.0).abs() < 1e-6,
            "{name}: {of_account} and {told}"
        );
    }
    let steps = report_on(&recorded("megatron_late_host")).steps;
    let repeat = steps.and_then(|steps| Some(steps.reference()?.times_repeat));
    assert_eq!(repeat, Some(2));
}
