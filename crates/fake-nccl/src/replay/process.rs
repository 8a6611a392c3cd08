//! The process of a replayed trace file: its threads take turns.

use super::pace::Pace;
use super::replayer::Replayer;
use super::trace::{read_file, Trace};
use crate::announced::Announced;
use crate::control::Control;
use crate::lock::lock;
use crate::plugin::{Choice, Loader, Version};
use anyhow::Context;
use capture::callback::{self, EntryPoint};
use capture::rows::Ticks;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

pub(super) fn newest() -> Version {
    Version(nccl_abi::release::ALL[nccl_abi::release::ALL.len() - 1].version)
}

/// Consecutive records of one thread: the thread's number, and where their bytes are.
fn turns(records: &[u8]) -> Vec<(u32, Range<usize>)> {
    let mut turns: Vec<(u32, Range<usize>)> = Vec::new();
    let mut at = 0;
    for record in callback::read(records) {
        let end = at + callback::record_bytes(record.payload.len());
        match turns.last_mut() {
            Some((thread, range)) if *thread == record.thread => range.end = end,
            _ => turns.push((record.thread, at..end)),
        }
        at = end;
    }
    turns
}

/// What the process of a replayed trace file does.
pub(crate) fn process(
    control: &Control,
    order: &Value,
    told: impl Fn(Version),
) -> anyhow::Result<()> {
    let path = Path::new(order["file"].as_str().context("expected a file")?);
    let trace = read_file(path)?;
    let abi = callback::read(&trace.records)
        .find(|r| r.what == EntryPoint::Init)
        .map(|r| r.abi)
        .with_context(|| {
            format!(
                "expected the record of an init in `{}`, found none",
                path.display()
            )
        })?;
    let version = version(order, &trace, abi);
    told(version);
    let loader = Loader::new(Choice {
        version,
        plugin: std::env::var("NCCL_PROFILER_PLUGIN").ok(),
        highest_abi: abi,
        log_level: match order["verbose"].as_bool() {
            Some(true) => nccl_abi::log::LEVEL_INFO,
            _ => nccl_abi::log::LEVEL_WARN,
        },
    });
    let pid = trace.process.get("pid").and_then(|p| p.parse().ok());
    let replayer = Mutex::new(Replayer::new(loader, pid.unwrap_or(0)));
    // The first init loads the plugin, later. The parent only needs to know that this process lives.
    control.begin(Ok(abi))?;
    let pace = match order["real_pace"].as_bool() {
        Some(true) => Some(Pace::new(&trace, order)?),
        _ => None,
    };
    in_turns(turns(&trace.records), |range| {
        for record in callback::read(&trace.records[range]) {
            if let Some(pace) = &pace {
                pace.wait(record.ticks);
            }
            lock(&replayer).play(&record);
        }
    });
    let replayer = replayer
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    control.say(&match loaded(&replayer, abi) {
        Ok(()) => json!({"result": replayer.announced.to_json()}),
        Err(why) => {
            let nothing = Announced::default().to_json();
            json!({"ready": null, "no_plugin": why, "result": nothing})
        }
    });
    if trace.killed {
        // It lived on without a call, as long as its recorder read the time.
        if let Some((pace, newest)) = pace.as_ref().zip(trace.anchors.last()) {
            pace.wait(Ticks(newest.0));
        }
        control.say(&json!({"ending": "signal 9"}));
        // SAFETY: plain system calls. What the recorder does at `exit` it did not do then.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    Ok(())
}

/// The release that was asked for, or else the recorded one. The newest if that one does not know the ABI.
fn version(order: &Value, trace: &Trace, abi: u8) -> Version {
    let asked = order["nccl"].as_u64().map(|v| Version(v as u32));
    let recorded = trace.process.get("nccl").and_then(|v| Version::parse(v));
    let version = asked.or(recorded).unwrap_or(newest());
    let native = version.native_abi().unwrap_or(0);
    if native < abi {
        newest()
    } else {
        version
    }
}

/// Why the plugin was not called as recorded, if it wasn't.
fn loaded(replayer: &Replayer, abi: u8) -> Result<(), String> {
    match replayer.loader.abi() {
        Err(why) if replayer.any.is_none() => Err(why.to_string()),
        Ok(_) if replayer.any.is_none() => Err("its init failed".into()),
        Ok(found) if found != abi => Err(format!(
            "the capture is of ABI v{abi}, the plugin exports v{found} at most"
        )),
        _ => Ok(()),
    }
}

/// Gives each turn to the thread that stands for the recorded one, and waits until it is over.
fn in_turns(turns: Vec<(u32, Range<usize>)>, play: impl Fn(Range<usize>) + Sync) {
    std::thread::scope(|scope| {
        let mut threads = HashMap::new();
        let (done, finished) = channel();
        for (thread, range) in turns {
            let sender = threads.entry(thread).or_insert_with(|| {
                let (sender, ranges) = channel();
                let (done, play) = (done.clone(), &play);
                scope.spawn(move || {
                    for range in ranges {
                        play(range);
                        // The scope's owner waits for each turn.
                        let _ = done.send(());
                    }
                });
                sender
            });
            // The thread ends only when its sender does.
            let _ = sender.send(range);
            let _ = finished.recv();
        }
    });
}
