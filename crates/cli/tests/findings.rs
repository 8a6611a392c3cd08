//! On 50 healthy jobs no rank is blamed: 15 recorded on GPUs, 35 played from scripts. And one that is late is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tables::Capture;

/// All but the one in which a rank was killed.
const RECORDED: [&str; 15] = [
    "calls_228",
    "calls_230",
    "calls_232",
    "ddp4",
    "ddp8_two_hosts",
    "flood_228",
    "graph_host_228",
    "mix_228",
    "mix_230",
    "mix_232",
    "mix_two_hosts_228",
    "symmetric_230",
    "symmetric_232",
    "threads_228",
    "zero_cta_232",
];

fn blamed(capture: &Path) -> Vec<String> {
    let capture = Capture::open(capture).expect("it opens");
    let findings = analyze::report(&capture).findings;
    findings.into_iter().map(|f| f.sentence).collect()
}

/// Plays a script, with these options, and looks at the capture.
fn played<T>(script: &str, options: &[&str], look: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().expect("a folder");
    let (job, capture) = (folder.path().join("job"), folder.path().join("capture"));
    std::fs::write(&job, script).expect("written");
    let built = Path::new(env!("CARGO_BIN_EXE_ncclscope"));
    let built = built.parent().expect("target/PROFILE");
    let places = ["", "deps"].map(|f| built.join(f).join("libnccl_profiler_ncclscope.so"));
    let plugin = std::env::var_os("NCCLSCOPE_PLUGIN").map(PathBuf::from);
    let plugin = plugin.or_else(|| places.into_iter().find(|p| p.is_file()));
    let status = Command::new(built.join("fake-nccl"))
        .args(["play", "--timeout", "60"])
        .args(options)
        .arg(&job)
        .env(
            "NCCL_PROFILER_PLUGIN",
            plugin.expect("`make debug` builds it"),
        )
        .env("NCCLSCOPE_OUT", &capture)
        .env("NCCLSCOPE_TIMING", "stamps")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("fake-nccl, which `make debug` builds");
    assert!(status.success(), "{script}");
    look(&capture)
}

/// What is found in a script.
fn found(script: &str) -> Vec<String> {
    played(script, &["--fast"], blamed)
}

#[test]
fn no_rank_is_blamed_on_fifteen_recorded_jobs() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    for name in RECORDED {
        assert_eq!(blamed(&data.join(name)), Vec::<String>::new(), "{name}");
    }
}

/// 35 scripts: ranks, hosts and what they do by number, with lateness that hits every rank in turn.
fn healthy(number: usize) -> String {
    let ranks = [2, 4, 8][number % 3];
    let hosts = if number % 5 == 4 { 2 } else { 1 };
    let calls = [
        "all_reduce 1MiB",
        "all_gather 4MiB ; reduce_scatter 4MiB",
        "all_reduce 1KiB x3 ; broadcast 1MiB",
        "all_to_all 1MiB",
        "all_reduce 8MiB bf16 ; group { send 1KiB to=+1 ; recv 1KiB from=-1 }",
        "all_reduce 64KiB comm=half ; all_reduce 1MiB",
        "all_reduce 1MiB ; sync",
    ][number % 7];
    let mut script = format!("ranks {ranks}\nhosts {hosts}\n");
    if calls.contains("half") {
        script += &format!("comm half split world every {}\n", ranks / 2);
    }
    let mut random = number as u64 + 1;
    for round in 0..24 * ranks {
        // Every rank is late as often as any other, in an order of no pattern, by an amount of its own.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let rank = (round + (random >> 40) as usize) % ranks;
        if number % 2 == 1 {
            script += &format!("rank {rank} late {}us\n", 20 + (random >> 50) % 200);
        }
        script += &format!("{}\n", calls.replace(" ; ", "\n"));
    }
    // A statement in braces stays on one line.
    script.replace("1KiB to=+1\nrecv", "1KiB to=+1 ; recv")
}

#[test]
fn no_rank_is_blamed_on_thirty_five_scripted_jobs() {
    for number in 0..35 {
        let script = healthy(number);
        assert_eq!(found(&script), Vec::<String>::new(), "{number}:\n{script}");
    }
}

#[test]
fn a_rank_that_is_late_more_than_others_is_blamed() {
    for number in [0, 5, 6, 7, 14] {
        // Hosts must keep the script's pace: what the run loses rests on when calls were launched.
        let late = healthy(number).replace("all_reduce 1MiB", "rank 1 late 10ms\nall_reduce 1MiB");
        let found = played(&late, &[], blamed);
        assert_eq!(found.len(), 1, "{number}: {found:?}");
        assert!(found[0].starts_with("Rank 1 arrived last in "), "{found:?}");
    }
}
