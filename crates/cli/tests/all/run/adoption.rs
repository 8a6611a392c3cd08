//! Live parts of processes that were killed: `ncclscope run` adopts them.

use crate::run::client::{shared_memory, CLIENT};
use crate::run::collect::killed_alone;
use crate::run::place::{stderr, RunFolder};
use capture::live::{row_state, Layout};
use capture::{block, snapshot};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::Ordering::Relaxed;

pub fn assert_adopted(place: &RunFolder, count: usize) {
    let live = place.files("live");
    assert_eq!((live.len(), place.files("trace").len()), (count, count));
    for live in live {
        let bytes = fs::read(&live).expect("read");
        let (image, size) = snapshot::read_whole(&bytes).expect("sound");
        assert_eq!(size, Layout::for_memory(0).bytes());
        let view = image.view().expect("a live part");
        assert_eq!(view.rows()[7].word.load(Relaxed), 7 << 2 | row_state::ALIVE);
        let trace = fs::read(live.with_extension("trace")).expect("there");
        assert_eq!(
            block::trace_id(&trace),
            Ok(view.header().trace_id.load(Relaxed))
        );
        assert_eq!(fs::metadata(&live).expect("there").mode() & 0o777, 0o600);
        assert!(bytes.len() < size / 10, "zeros are left out");
    }
}

#[test]
fn a_killed_process_among_others_leaves_its_live_part() {
    let place = RunFolder::new();
    let done = place.run_playing("play killed & play killed & play ended & wait; exit 0");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(
        stderr(&done).ends_with("capture in c: 3 processes, 15 calls; next: ncclscope report c\n"),
        "{}",
        stderr(&done)
    );
    assert_eq!(
        (
            place.files("live").len(),
            place.files("trace").len(),
            place.files("snap").len()
        ),
        (2, 3, 1)
    );
}

#[test]
fn the_killed_program_itself_leaves_its_live_part() {
    let place = RunFolder::new();
    let done = place.run_playing(&format!(
        "PLAY=killed exec \"$CLIENT\" --exact {CLIENT} --ignored --nocapture"
    ));
    assert_eq!(done.status.code(), Some(128 + 9));
    assert_adopted(&place, 1);
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

#[test]
fn a_process_killed_before_its_trace_file_was_made_gets_one() {
    let place = RunFolder::new();
    place.run_playing("play killed-before-its-trace-file");
    assert_adopted(&place, 1);
}

#[test]
fn what_an_earlier_job_left_of_a_folder_of_this_name_is_not_taken() {
    let place = RunFolder::new();
    killed_alone(&place);
    fs::remove_dir_all(place.path().join("c")).expect("removed");
    place.run_playing("play ended");
    let (traces, adopted) = (place.files("trace").len(), place.files("live").len());
    assert_eq!((traces, adopted, in_shared_memory(&place).len()), (1, 0, 1));
    place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

#[test]
fn what_dies_while_the_program_runs_does_not_stay_in_memory() {
    let place = RunFolder::new();
    // Until the capture has it. The program would otherwise never end.
    let script =
        "play killed; while ! ls c/host0/*.live >/dev/null 2>&1; do sleep 0.05; done; exit 0";
    let done = place.run_playing(script);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_adopted(&place, 1);
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

#[test]
fn a_kill_of_run_together_with_its_ranks_loses_nothing() {
    let place = RunFolder::new();
    let built = Path::new(env!("CARGO_BIN_EXE_ncclscope"));
    let built = built.parent().expect("target/PROFILE");
    let (fake, plugin) = (
        built.join("fake-nccl"),
        built.join("libnccl-profiler-ncclscope.so"),
    );
    assert!(
        fake.is_file() && plugin.is_file(),
        "`make debug` builds them"
    );
    fs::write(
        place.path().join("job"),
        "ranks 2\nall_reduce 1KiB x177\nsleep 60s\nall_reduce 4KiB",
    )
    .expect("written");
    // The whole process group, as a terminal, a batch system or a container's end would.
    let script = "$FAKE play job & while [ ! -e go ]; do sleep 0.05; done; kill -9 0";
    let mut command = place.ncclscope(&["run", "-o", "c", "--", "sh", "-c", script]);
    command
        .env("FAKE", fake)
        .env("NCCLSCOPE_PLUGIN", plugin)
        // Nothing is in the folder but what was written first.
        .env("NCCLSCOPE_FLUSH", "3600")
        .env("NCCLSCOPE_TIMING", "host")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().expect("started");
    let completeness = || {
        let done = place
            .ncclscope(&["report", "c", "--json"])
            .output()
            .expect("started");
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
        report["completeness"].clone()
    };
    let began = std::time::Instant::now();
    while completeness()["announced"] != 2 * 177 && began.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fs::write(place.path().join("go"), "").expect("written");
    let status = child.wait().expect("ended");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
    let left = in_shared_memory(&place).len();
    let found = completeness();
    let collected = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!((left, collected.status.code()), (2, Some(0)), "{found}");
    for found in [found, completeness()] {
        let counts = ["announced", "recorded"].map(|key| found[key].as_u64());
        assert_eq!(counts, [Some(2 * 177); 2], "{found}");
        assert_eq!(found["lost"], serde_json::json!({}), "{found}");
    }
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

/// Live parts in shared memory that belong to `place`.
pub fn in_shared_memory(place: &RunFolder) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(shared_memory())
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    let here = place.path().to_string_lossy().into_owned();
    found.retain(|p| {
        // Other jobs of this machine make theirs meanwhile, which begin empty.
        let mut head = Vec::new();
        let read = fs::File::open(p).and_then(|file| file.take(4096).read_to_end(&mut head));
        read.is_ok_and(|n| n == 4096) && String::from_utf8_lossy(&head).contains(&here)
    });
    found
}
