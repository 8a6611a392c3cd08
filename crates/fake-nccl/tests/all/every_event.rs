//! Mode `callbacks` records what NCCL sends, no more and no less: its counts equal those of a logger that
//! sees the same calls and shares no code with the recorder.
//!
//! The logger is the example `log_plugin`. It hands every call on to the recorder, so both see one job.

use crate::common::{log_plugin, program, Log};
use capture::callback::{Callback, EntryPoint};
use fake_nccl::{play, Options};
use nccl_abi::{event, state};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The plugin that `make` built: NCCLSCOPE_PLUGIN, else the one in the target folder of this test.
pub(crate) fn plugin() -> String {
    if let Ok(path) = std::env::var("NCCLSCOPE_PLUGIN") {
        return path;
    }
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.ancestors().nth(2).expect("target/<profile>/deps/test");
    let path = folder.join("libnccl_profiler_ncclscope.so");
    assert!(path.exists(), "{}: run `make debug` first", path.display());
    path.to_string_lossy().into_owned()
}

/// Collectives, sends and receives, groups, symmetric kernels, copy engines and a graph, over a network whose
/// plugin has events of its own.
pub(crate) const SCRIPT: &str = "ranks 4
hosts 2
net_plugin
comm half split world every 2
all_reduce 4MiB channels=2 x3
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
group { all_reduce 1KiB ; all_gather 64KiB }
all_to_all 1MiB
broadcast 64KiB root=1
all_gather 1MiB ce
all_reduce 1MiB symmetric comm=half
graph step { all_reduce 1KiB x4 }
replay step x3
";

/// Calls by name: `start Coll`, `state KernelChStop`, `stop`.
type Counts = BTreeMap<String, u64>;

fn logged(log: &Log) -> Counts {
    let mut counts = Counts::new();
    for line in &log.0 {
        let call = line["call"].as_str().expect("a call");
        let what = match call {
            "start" => &line["type"],
            "state" => &line["state"],
            _ => &serde_json::Value::Null,
        };
        let name = format!("{call} {}", what.as_str().unwrap_or(""));
        *counts.entry(name.trim_end().to_owned()).or_default() += 1;
    }
    counts
}

/// The same of a recorded callback; nothing of a record that is no call.
fn name(callback: &Callback<'_>) -> Option<String> {
    let kind = || match callback.abi {
        1..=4 => u64::from(callback.payload[0]),
        _ => u64::from_le_bytes(callback.payload[..8].try_into().expect("8 bytes")),
    };
    Some(match callback.what {
        EntryPoint::Init => "init".to_owned(),
        EntryPoint::Start => format!("start {}", event::name(kind()).expect("a known type")),
        EntryPoint::Stop => "stop".to_owned(),
        EntryPoint::State => {
            let number = u32::try_from(callback.result).expect("a small number");
            format!("state {}", state::name(number).expect("a known state"))
        }
        EntryPoint::Finalize => "finalize".to_owned(),
        EntryPoint::Text | EntryPoint::Thread => return None,
    })
}

/// What both counted of each rank, by release and setting.
fn counted(nccl: &str, events: Option<&str>) -> Vec<Counts> {
    let folder: PathBuf = tempfile::tempdir().expect("a folder").keep();
    let (logs, out) = (folder.join("logs"), folder.join("capture"));
    std::fs::create_dir(&logs).expect("a folder");
    let mut env = vec![
        ("LOG_PLUGIN_OUT", logs.display().to_string()),
        ("LOG_PLUGIN_INNER", plugin()),
        ("NCCLSCOPE_OUT", out.display().to_string()),
        ("NCCLSCOPE_MODE", "callbacks".to_owned()),
        ("NCCLSCOPE_TIMING", "host".to_owned()),
        ("NCCLSCOPE_QUIET", "1".to_owned()),
    ];
    env.extend(events.map(|events| ("NCCLSCOPE_EVENTS", events.to_owned())));
    let options = Options {
        plugin: Some(log_plugin()),
        program: Some(program()),
        env: env.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        fast: true,
        ..Options::default()
    };
    let outcome = play(&format!("nccl {nccl}\n{SCRIPT}"), &options).expect("played");
    assert!(outcome.as_expected(), "{:?}", outcome.processes);

    let capture = tables::Capture::open(&out).expect("a capture");
    let mut recorded: BTreeMap<u32, Counts> = BTreeMap::new();
    let mut handles: BTreeMap<u32, Vec<(u64, bool)>> = BTreeMap::new();
    let all = capture.callbacks(|process, callback| {
        let rank = process.rank.expect("a rank");
        if let Some(name) = name(&callback) {
            *recorded.entry(rank).or_default().entry(name).or_default() += 1;
        }
        let handles = handles.entry(rank).or_default();
        match callback.what {
            EntryPoint::Start => handles.push((callback.result, true)),
            EntryPoint::Stop => handles.push((callback.subject, false)),
            _ => {}
        }
        Ok::<(), ()>(())
    });
    assert!(all.is_ok());
    let mut found = Vec::new();
    for (rank, log) in Log::all(&logs).iter().enumerate() {
        let logged = logged(log);
        assert_eq!(recorded[&(rank as u32)], logged, "{nccl}, rank {rank}");
        found.push(logged);
    }
    assert_eq!(found.len(), 4);
    // Events that are open at the same time have different handles, whatever their type.
    for (rank, handles) in handles {
        let mut open = BTreeSet::new();
        for (handle, is_start) in handles {
            let fits = if is_start {
                open.insert(handle)
            } else {
                open.remove(&handle)
            };
            assert!(fits, "{nccl}, rank {rank}: {handle:#x}, start: {is_start}");
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    found
}

pub(crate) const RELEASES: [&str; nccl_abi::NEWEST as usize] = [
    "2.23.4", "2.24.3", "2.26.2", "2.27.7", "2.28.9", "2.30.7", "2.32.3",
];

/// All types that an ABI has and the script makes NCCL send.
fn expected(abi: u8, kernel: bool) -> BTreeSet<String> {
    let known = event::known(abi).expect("known");
    let of_kernel = event::KERNEL_CH | event::KERNEL_PHASE;
    let types = event::ALL.iter().filter(|e| known & e.bit != 0);
    let types = types.filter(|e| kernel || e.bit & of_kernel == 0);
    types.map(|e| format!("start {}", e.name)).collect()
}

#[test]
fn counts_of_every_type_are_those_of_an_independent_logger() {
    for (abi, nccl) in (1..).zip(RELEASES) {
        for events in [None, Some("all")] {
            let ranks = counted(nccl, events);
            let names = ranks.iter().flat_map(|counts| counts.keys());
            let started: BTreeSet<String> = names
                .filter(|name| name.starts_with("start "))
                .cloned()
                .collect();
            assert_eq!(
                started,
                expected(abi, events.is_some()),
                "{nccl} {events:?}"
            );
        }
    }
}

#[test]
fn a_list_adds_what_it_names() {
    let ranks = counted("2.32.3", Some("KernelCh"));
    assert!(ranks.iter().all(|counts| counts["start KernelCh"] > 0));
    assert!(ranks
        .iter()
        .all(|counts| !counts.contains_key("start KernelPhase")));
}

#[test]
fn kernel_phases_are_left_out_where_they_crash() {
    let ranks = counted("2.31.2", Some("all"));
    assert!(ranks.iter().all(|counts| counts["start KernelCh"] > 0));
    assert!(ranks
        .iter()
        .all(|counts| !counts.contains_key("start KernelPhase")));
}
