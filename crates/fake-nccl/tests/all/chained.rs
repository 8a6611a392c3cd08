//! A plugin behind the recorder (`NCCLSCOPE_CHAIN`) sees what it would see alone.
//!
//! The plugin is the example `log_plugin`. Each job is played twice: with the logger as NCCL's plugin, and
//! with it behind the recorder. Then both logs have the same events, with the same parents, states and stops.

use crate::common::{log_plugin, program, Log};
use crate::every_event::{plugin, RELEASES, SCRIPT};
use fake_nccl::{play, Options};
use serde_json::Value;
use std::collections::BTreeMap;

/// The logs of a job's ranks, and its calls as announced.
fn logs(nccl: &str, env: &[(&str, &str)], own_plugin: &str) -> (Vec<Log>, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("logs");
    std::fs::create_dir(&out).expect("a folder");
    let capture = folder.path().join("capture");
    let mut all = vec![
        ("LOG_PLUGIN_OUT", out.display().to_string()),
        ("NCCLSCOPE_OUT", capture.display().to_string()),
        ("NCCLSCOPE_QUIET", "1".to_owned()),
    ];
    all.extend(env.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let options = Options {
        plugin: Some(own_plugin.to_owned()),
        program: Some(program()),
        env: all.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        fast: true,
        ..Options::default()
    };
    let outcome = play(&format!("nccl {nccl}\n{SCRIPT}"), &options).expect("played");
    assert!(outcome.as_expected(), "{:?}", outcome.processes);
    if let Ok(capture) = tables::Capture::open(&capture) {
        // The recorder's own account holds, whatever runs behind it.
        let counters = capture.processes.iter().map(|p| p.counters.as_ref());
        let recorded: u64 = counters.map(|c| c.expect("a live part").announced).sum();
        assert_eq!(recorded, outcome.announced().total(), "{nccl} {env:?}");
        for process in &capture.processes {
            let counters = process.counters.as_ref().expect("a live part");
            assert_eq!(counters.unrequested, 0, "{nccl} {env:?}");
            assert!(counters.odd.iter().all(|n| *n == 0), "{:?}", counters.odd);
            assert_eq!(
                process.setup.chain.as_ref().and_then(|c| c.refused.clone()),
                None
            );
        }
    }
    (Log::all(&out), outcome.announced().total())
}

/// What is the same in every run of a job: an event's fields but for its times, handles and process.
fn fields(line: &Value) -> String {
    let mut line = line.clone();
    let fields = line.as_object_mut().expect("an object");
    for varies in [
        "handle",
        "context",
        "parent",
        "parent_group",
        "raw",
        "thread",
        "pid",
        "p_timer",
        "call",
    ] {
        fields.remove(varies);
    }
    line.to_string()
}

/// How often each event came, with its parents, states and stops. Threads take turns, so the order of
/// different events is not the same in every run; that of an event's own states is.
fn told(log: &Log) -> BTreeMap<String, u64> {
    // Handles count up, so each names one event of the log.
    let mut events: BTreeMap<u64, (String, Vec<String>)> = BTreeMap::new();
    let mut others = Vec::new();
    for line in &log.0 {
        let handle = || line["handle"].as_u64().expect("a handle");
        let named = |of: &Value, events: &BTreeMap<u64, (String, Vec<String>)>| {
            let parent = of.as_u64().filter(|handle| *handle != 0);
            parent.map_or("nothing".to_owned(), |handle| {
                events.get(&handle).map_or("unknown", |e| &e.0).to_owned()
            })
        };
        match line["call"].as_str().expect("a call") {
            "start" => {
                let mut name = format!("{} of {}", fields(line), named(&line["parent"], &events));
                if !line["parent_group"].is_null() {
                    name += &format!(" and {}", named(&line["parent_group"], &events));
                }
                events.insert(handle(), (name, Vec::new()));
            }
            "state" => {
                // The stamp is a time.
                let stamped = line["state"]
                    .as_str()
                    .is_some_and(|s| s.starts_with("Kernel"));
                let args = if stamped { &Value::Null } else { &line["args"] };
                let text = format!("{} {args}", line["state"]);
                events.get_mut(&handle()).expect("an event").1.push(text);
            }
            "stop" => {
                let event = events.get_mut(&handle());
                event.expect("an event").1.push("stop".to_owned());
            }
            call => others.push(format!("{call} {}", fields(line))),
        }
    }
    let mut counts = BTreeMap::new();
    // How often the proxy thread falls asleep depends on the machine.
    let whole = events.into_values();
    let whole = whole.filter(|(name, _)| !name.contains("\"ProxyCtrl\""));
    let whole = whole.map(|(name, then)| format!("{name}: {then:?}"));
    for event in whole.chain(others) {
        *counts.entry(event).or_default() += 1;
    }
    counts
}

/// Plays a job in both ways, and compares what the plugin was told.
fn compare(nccl: &str, mask: &str, mode: &str, log: &str) {
    let mask = ("LOG_PLUGIN_MASK", mask);
    let (alone, announced) = logs(nccl, &[mask], log);
    let mode = ("NCCLSCOPE_MODE", mode);
    let (behind, now) = logs(nccl, &[mask, mode, ("NCCLSCOPE_CHAIN", log)], &plugin());
    // What NCCL announces is what either asks for.
    assert!(now >= announced, "{nccl} {mask:?}");
    assert_eq!(behind.len(), alone.len());
    // Logs come in the order of process numbers, and ranks may not.
    let of_ranks = |logs: &[Log]| {
        let mut all: Vec<_> = logs.iter().map(told).collect();
        all.sort();
        all
    };
    let (behind, alone) = (of_ranks(&behind), of_ranks(&alone));
    for (number, (behind, alone)) in behind.iter().zip(&alone).enumerate() {
        let only = |a: &BTreeMap<String, u64>, b: &BTreeMap<String, u64>| {
            let differs = a.iter().filter(|(event, n)| b.get(*event) != Some(n));
            let lines = differs.map(|(event, n)| format!("{n} {event}"));
            lines.take(8).collect::<Vec<_>>().join("\n")
        };
        assert!(
            behind == alone,
            "{nccl} {mask:?} {mode:?} log {number}\nbehind:\n{}\nalone:\n{}",
            only(behind, alone),
            only(alone, behind)
        );
    }
}

#[test]
fn it_sees_what_it_would_see_alone() {
    for nccl in RELEASES {
        // All; what NCCL Inspector asks for; children without their parents; nothing.
        for mask in ["ffff", "42", "90", "1800", "0"] {
            compare(nccl, mask, "trace", &log_plugin());
        }
        compare(nccl, "ffff", "callbacks", &log_plugin());
    }
}

/// From v5 on, descriptors only grew. NCCL has a shim for an older table, and the recorder needs none.
#[test]
fn a_table_of_v5_sees_the_same_on_newer_releases() {
    let mut library = std::fs::read(log_plugin()).expect("read");
    for newer in [&b"ncclProfiler_v6\0"[..], b"ncclProfiler_v7\0"] {
        let at = library.windows(newer.len()).position(|w| w == newer);
        library[at.expect("its name")] = b'x';
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("libold.so");
    std::fs::write(&path, library).expect("written");
    for nccl in ["2.28.9", "2.30.7", "2.32.3"] {
        for mask in ["fff", "42"] {
            compare(nccl, mask, "trace", &path.display().to_string());
        }
    }
}
