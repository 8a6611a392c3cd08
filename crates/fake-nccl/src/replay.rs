//! Replays a `callbacks` capture of a real job to a plugin.
//!
//! [`replay`] finds the trace files, and starts a process for each with the launcher's variables as they were. The process
//! reads its records, maps what belongs to the recorded process (handles, contexts, texts, its process id) to what
//! belongs to this one, and makes the calls in the recorded order, each on the thread that stands for the recorded one.
//!
//! Rule: bytes that aren't mapped are passed on as they were recorded, and what was not recorded is poison. The plugin is
//! called at the recorded ABI, so no shim comes between: what was recorded is what a shim, if any, let through.

use crate::announced::{Announced, Operation, Times};
use crate::control::Control;
use crate::event::{Descr, Handle, StateArgs, DESCR_BYTES};
use crate::lock::lock;
use crate::outcome::{Outcome, Process};
use crate::plugin::{Choice, Identity, Loader, Profiler, Version};
use crate::processes::{beside, run_processes, Options, Start, RANK_PROCESS, STAMPS};
use anyhow::{bail, Context};
use capture::block::{self, Kind};
use capture::callback::{self, What};
use core::mem::offset_of;
use nccl_abi::{event, names, v1, v2, v3, v4, v5, v6, v7};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a plugin gets where a recorded pointer led to memory that no longer exists and no text was recorded.
static NOWHERE: [u64; 8] = [0; 8];

/// What is read from a trace file before it is played.
struct Trace {
    process: HashMap<String, String>,
    /// Callback records, back to back.
    records: Vec<u8>,
    /// (ticks, CLOCK_MONOTONIC ns) pairs.
    anchors: Vec<(u64, u64)>,
    /// What could not be read.
    damage: Vec<String>,
}

fn read_file(path: &Path) -> anyhow::Result<Trace> {
    let file = std::fs::File::open(path)
        .with_context(|| format!("could not read `{}`", path.display()))?;
    let bytes = if path.extension().is_some_and(|e| e == "zst") {
        zstd::decode_all(file)?
    } else {
        std::fs::read(path)?
    };
    let mut trace = Trace {
        process: HashMap::new(),
        records: Vec::new(),
        anchors: Vec::new(),
        damage: Vec::new(),
    };
    let mut damage = Vec::new();
    let each = |block: block::Block| match Kind::from_u16(block.kind) {
        Some(Kind::Process) => {
            let text = String::from_utf8_lossy(block.payload);
            let pairs = text.lines().filter_map(|l| l.split_once('='));
            trace
                .process
                .extend(pairs.map(|(k, v)| (k.to_string(), v.to_string())));
        }
        Some(Kind::Callbacks) => trace.records.extend(block.payload),
        Some(Kind::Anchor) => {
            let word = |i: usize| {
                let bytes = block.payload.get(8 * i..8 * i + 8)?;
                Some(u64::from_le_bytes(bytes.try_into().ok()?))
            };
            trace.anchors.extend(word(0).zip(word(1)));
        }
        _ => {}
    };
    block::read(&bytes, each, |d| damage.push(format!("{d:?}")));
    trace.damage = damage;
    Ok(trace)
}

/// The trace files of a capture: `*.trace` and `*.trace.zst` in a folder and below, or one file. Those with callbacks have
/// no later files.
fn trace_files(capture: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if capture.is_file() {
        return Ok(vec![capture.into()]);
    }
    let mut files = Vec::new();
    let mut folders = vec![capture.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("could not read `{}`", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".trace") || name.ends_with(".trace.zst") {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        bail!(
            "expected `.trace` or `.trace.zst` files under `{}`, found none",
            capture.display()
        );
    }
    Ok(files)
}

/// Replays a capture: a folder, or one trace file. `real_pace` keeps the recorded times between the calls.
///
/// # Errors
/// When there is nothing to replay, or a process can't be started.
pub fn replay(capture: &Path, options: &Options, real_pace: bool) -> anyhow::Result<Outcome> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => beside("fake-nccl")?,
    };
    let mut starts = Vec::new();
    let mut nccl = None;
    for (index, path) in trace_files(capture)?.into_iter().enumerate() {
        let trace = read_file(&path)?;
        for damage in &trace.damage {
            eprintln!("fake-nccl: `{}` is damaged: {damage}", path.display());
        }
        if trace.records.is_empty() {
            eprintln!("fake-nccl: no callback records in `{}`", path.display());
            continue;
        }
        let recorded = trace.process.get("nccl").and_then(|v| Version::parse(v));
        nccl = options.nccl.or(recorded).or(nccl);
        let mut command = Command::new(&program);
        command.arg(RANK_PROCESS);
        command.env(STAMPS.0, STAMPS.1);
        for (key, variable) in [
            ("rank", "RANK"),
            ("world_size", "WORLD_SIZE"),
            ("local_rank", "LOCAL_RANK"),
        ] {
            match trace.process.get(key) {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        if let Some(plugin) = &options.plugin {
            command.env("NCCL_PROFILER_PLUGIN", plugin);
        }
        command.envs(options.env.iter().map(|(k, v)| (k, v)));
        let order = json!({"replay": {
            "file": path, "real_pace": real_pace, "verbose": options.verbose, "nccl": options.nccl.map(|v| v.0),
        }});
        let rank = trace.process.get("rank").and_then(|r| r.parse().ok());
        starts.push(Start {
            rank: rank.unwrap_or(index),
            command,
            order,
        });
    }
    if starts.is_empty() {
        bail!(
            "expected callback records in `{}`, found none; record with NCCLSCOPE_MODE=callbacks",
            capture.display()
        );
    }
    let (abi, processes): (_, Vec<Process>) =
        run_processes(starts, options.timeout, Duration::ZERO)?;
    Ok(Outcome {
        nccl: nccl.unwrap_or(newest()),
        abi,
        processes,
    })
}

fn newest() -> Version {
    Version(nccl_abi::release::ALL[nccl_abi::release::ALL.len() - 1].version)
}

/// Offsets of the texts and of the handles in an event's descriptor, beside `parent_obj`.
pub(crate) fn pointers(abi: u8, bit: u64) -> (&'static [usize], &'static [usize]) {
    macro_rules! at {
        ($v:ident: $($member:ident . $field:ident),*) => { const { &[$(offset_of!($v::Descr, u.$member.$field)),*] } };
    }
    match (abi, bit) {
        (1, event::COLL) => (at!(v1: coll.name), &[]),
        (1, event::P2P) => (at!(v1: p2p.name), &[]),
        (2, event::COLL) => (
            at!(v2: coll.name, coll.func, coll.datatype, coll.algo, coll.proto),
            &[],
        ),
        (2, event::P2P) => (at!(v2: p2p.name, p2p.func, p2p.datatype), &[]),
        (3, event::COLL) => (
            at!(v3: coll.name, coll.func, coll.datatype, coll.algo, coll.proto),
            &[],
        ),
        (3, event::P2P) => (at!(v3: p2p.name, p2p.func, p2p.datatype), &[]),
        (4, event::COLL) => (
            at!(v4: coll.func, coll.datatype, coll.algo, coll.proto),
            &[],
        ),
        (4, event::P2P) => (at!(v4: p2p.func, p2p.datatype), &[]),
        (5 | 6, event::COLL) => (
            at!(v5: coll.func, coll.datatype, coll.algo, coll.proto),
            at!(v5: coll.parent_group),
        ),
        (5 | 6, event::P2P) => (at!(v5: p2p.func, p2p.datatype), at!(v5: p2p.parent_group)),
        (7, event::COLL) => (
            at!(v7: coll.func, coll.datatype, coll.algo, coll.proto, coll.kernel_variant),
            at!(v7: coll.parent_group),
        ),
        (7, event::P2P) => (at!(v7: p2p.func, p2p.datatype), at!(v7: p2p.parent_group)),
        (5.., event::COLL_API) => (at!(v5: coll_api.func, coll_api.datatype), &[]),
        (5.., event::P2P_API) => (at!(v5: p2p_api.func, p2p_api.datatype), &[]),
        (6.., event::CE_COLL) => (
            at!(v6: ce_coll.func, ce_coll.datatype, ce_coll.sync_strategy),
            &[],
        ),
        (7, event::KERNEL_PHASE) => (at!(v7: kernel_phase.phase_name), &[]),
        _ => (&[], &[]),
    }
}

/// What is known of a recorded handle.
#[derive(Clone, Copy)]
struct Known {
    handle: Handle,
    captured: bool,
    thread: u32,
}

/// What is known of a recorded context.
struct Comm {
    profiler: Profiler,
    hash: u64,
    ranks: usize,
}

/// The maps from the recorded process to this one. Threads take turns with it.
struct Replayer {
    loader: Loader,
    own_pid: i32,
    recorded_pid: i32,
    texts: HashMap<u64, CString>,
    handles: HashMap<u64, Known>,
    comms: HashMap<u64, Comm>,
    announced: Announced,
    /// Whose functions are called; all communicators of a process share them.
    any: Option<Profiler>,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Replayer {
    fn play(&mut self, record: &callback::Callback) {
        match record.what {
            What::Init => self.init(record),
            What::Start => self.start(record),
            What::Stop => {
                let handle = self.handle(record.subject);
                if let Some(any) = &self.any {
                    any.table.stop(handle);
                }
            }
            What::State => {
                let handle = self.handle(record.subject);
                let Some(any) = &self.any else { return };
                // Two words hold any version's arguments; a recording may have fewer bytes.
                let mut args = StateArgs::Empty.encode();
                for (word, bytes) in args.iter_mut().zip(record.payload.chunks(8)) {
                    let mut full = word.to_le_bytes();
                    full[..bytes.len()].copy_from_slice(bytes);
                    *word = u64::from_le_bytes(full);
                }
                let args = (!record.payload.is_empty()).then_some(&mut args);
                any.table.state_raw(handle, record.result as u32, args);
            }
            What::Finalize => {
                if let Some(comm) = self.comms.remove(&record.subject) {
                    self.loader.finalize(comm.profiler);
                }
            }
            What::Text => {
                // NCCL's texts are literals: one pointer always leads to the same text, which a plugin may rely on.
                let fresh = text(record.payload);
                if self.texts.get(&record.subject) != Some(&fresh) {
                    std::mem::forget(self.texts.insert(record.subject, fresh));
                }
            }
        }
    }

    fn init(&mut self, record: &callback::Callback) {
        let p = record.payload;
        let int = |at: usize| {
            p.get(at..at + 4)
                .map_or(0, |b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        };
        let identity = Identity {
            name: p.get(24..).filter(|n| !n.is_empty()).map(text),
            hash: word(p, 0).unwrap_or(0),
            nodes: int(8),
            ranks: int(12),
            rank: int(16),
        };
        let Some(profiler) = self.loader.init(&identity) else {
            return;
        };
        self.any = Some(profiler.clone());
        let comm = Comm {
            profiler,
            hash: identity.hash,
            ranks: identity.ranks.max(1) as usize,
        };
        self.comms.insert(record.result, comm);
    }

    /// The plugin's handle for a recorded one; one that was never given stays as it was.
    fn handle(&self, recorded: u64) -> Handle {
        let known = self.handles.get(&recorded);
        known.map_or(Handle(recorded as usize), |k| k.handle)
    }

    fn start(&mut self, record: &callback::Callback) {
        let Some(any) = self.any.clone() else { return };
        let abi = record.abi;
        let mut descr = Descr::default();
        let len = record.payload.len().min(DESCR_BYTES[usize::from(abi) - 1]);
        descr.0[..len].copy_from_slice(&record.payload[..len]);
        let header = word(&descr.0, 0).unwrap_or(0);
        let bit = if abi < 5 { header & 0xff } else { header };
        let recorded_parent = word(&descr.0, 8).unwrap_or(0);
        let (texts, handles) = pointers(abi, bit);
        let called = self.called(abi, bit, record.payload);
        let mut patch =
            |at: usize, value: u64| descr.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
        patch(8, self.handle(recorded_parent).0 as u64);
        for at in handles {
            let recorded = word(record.payload, *at).unwrap_or(0);
            patch(*at, self.handle(recorded).0 as u64);
        }
        for at in texts {
            let recorded = word(record.payload, *at).unwrap_or(0);
            let ours = self.texts.get(&recorded).map_or(0, |t| t.as_ptr() as u64);
            patch(*at, ours);
        }
        match bit {
            event::PROXY_OP => {
                let at = offset_of!(v5::Descr, u.proxy_op.pid);
                let pid = &mut descr.0[at..at + 4];
                if pid == self.recorded_pid.to_le_bytes() {
                    pid.copy_from_slice(&self.own_pid.to_le_bytes());
                } else if pid == self.own_pid.to_le_bytes() {
                    // Another process's then, and so it stays.
                    pid.copy_from_slice(&self.recorded_pid.to_le_bytes());
                }
            }
            event::NET_PLUGIN if abi >= 3 => {
                // What it pointed to was only there during the call.
                patch(
                    offset_of!(v5::Descr, u.net_plugin.data),
                    NOWHERE.as_ptr() as u64,
                );
            }
            _ => {}
        }
        let captured = captured(abi, bit, record.payload);
        self.count(record, bit, recorded_parent, called);
        let context = match self.comms.get(&record.subject) {
            Some(comm) => comm.profiler.context,
            None => Handle(record.subject as usize),
        };
        let mut handle = Handle::NULL;
        any.table.start_raw(context, &mut handle, &mut descr);
        let known = Known {
            handle,
            captured,
            thread: record.thread,
        };
        self.handles.insert(record.result, known);
    }

    /// Function and datatype of an event that announces a call; empty for the others.
    fn called(&self, abi: u8, bit: u64, payload: &[u8]) -> (String, String) {
        macro_rules! at {
            ($v:ident: $member:ident) => {
                (
                    offset_of!($v::Descr, u.$member.func),
                    offset_of!($v::Descr, u.$member.datatype),
                )
            };
        }
        let (func, datatype) = match (abi, bit) {
            (1, event::COLL) => at!(v1: coll),
            (1, event::P2P) => at!(v1: p2p),
            (2 | 3, event::COLL) => at!(v3: coll),
            (2 | 3, event::P2P) => at!(v3: p2p),
            (4.., event::COLL) => at!(v5: coll),
            (4.., event::P2P) => at!(v5: p2p),
            (5.., event::COLL_API) => at!(v5: coll_api),
            (5.., event::P2P_API) => at!(v5: p2p_api),
            _ => return Default::default(),
        };
        if abi == 1 {
            let name = |of: fn(u8) -> Option<&'static str>, at: usize| {
                let number = payload.get(at).copied();
                number.and_then(of).unwrap_or_default().to_string()
            };
            return (name(names::func, func), name(names::datatype, datatype));
        }
        let name = |at: usize| {
            let text = word(payload, at).and_then(|address| self.texts.get(&address));
            text.map_or_else(String::new, |t| t.to_string_lossy().into_owned())
        };
        (name(func), name(datatype))
    }

    /// Counts a start that announces a call: see [`crate::announced`].
    fn count(
        &mut self,
        record: &callback::Callback,
        bit: u64,
        parent: u64,
        (function, datatype): (String, String),
    ) {
        let api = matches!(bit, event::COLL_API | event::P2P_API) && record.abi >= 5;
        let task = matches!(bit, event::COLL | event::P2P);
        // At capture, Coll comes on the thread of its API call; a replay's comes from another.
        let replay = task
            && record.abi >= 5
            && self
                .handles
                .get(&parent)
                .is_some_and(|p| p.captured && p.thread != record.thread);
        if !(api || replay || (task && record.abi < 5)) {
            return;
        }
        let comm = self.comms.get(&record.subject);
        let ranks = comm.map_or(1, |c| c.ranks);
        let count = count_of(record.abi, bit, record.payload).unwrap_or(0);
        let scaled = match function.as_str() {
            "AllGather" | "ReduceScatter" | "AlltoAll" | "Gather" | "Scatter" => ranks as u64,
            _ => 1,
        };
        let operation = Operation {
            communicator: comm.map_or(0, |c| c.hash),
            name: String::new(),
            nranks: ranks,
            bytes: count * scaled * names::datatype_size(&datatype) as u64,
            function: function.clone(),
            datatype,
        };
        let times: &mut Times = self.announced.operations.entry(operation).or_default();
        if replay {
            times.replays += 1;
        } else {
            times.calls += 1;
            times.announced += 1;
        }
        *self.announced.functions.entry(function).or_default() += 1;
    }
}

/// NUL-terminated bytes; a text ends at a NUL anyway.
fn text(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

fn captured(abi: u8, bit: u64, payload: &[u8]) -> bool {
    let at = match bit {
        event::COLL_API if abi >= 5 => offset_of!(v5::Descr, u.coll_api.graph_captured),
        event::P2P_API if abi >= 5 => offset_of!(v5::Descr, u.p2p_api.graph_captured),
        _ => return false,
    };
    payload.get(at).is_some_and(|c| *c != 0)
}

fn count_of(abi: u8, bit: u64, payload: &[u8]) -> Option<u64> {
    let at = match (abi, bit) {
        (1..=3, event::COLL) => offset_of!(v3::Descr, u.coll.count),
        (1..=3, event::P2P) => offset_of!(v3::Descr, u.p2p.count),
        (4.., event::COLL) => offset_of!(v5::Descr, u.coll.count),
        (4.., event::P2P) => offset_of!(v5::Descr, u.p2p.count),
        (_, event::COLL_API) => offset_of!(v5::Descr, u.coll_api.count),
        (_, event::P2P_API) => offset_of!(v5::Descr, u.p2p_api.count),
        _ => return None,
    };
    word(payload, at)
}

/// Consecutive records of one thread: its number and the first and last byte of them.
fn turns(records: &[u8]) -> Vec<(u32, std::ops::Range<usize>)> {
    let mut turns: Vec<(u32, std::ops::Range<usize>)> = Vec::new();
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

/// Nanoseconds for each tick, from the first and last anchor.
fn scale(anchors: &[(u64, u64)]) -> Option<f64> {
    let (first, last) = (anchors.first()?, anchors.last()?);
    let ticks = last.0.checked_sub(first.0).filter(|t| *t > 0)?;
    Some(last.1.saturating_sub(first.1) as f64 / ticks as f64)
}

/// What the process of a replayed trace file does.
pub(crate) fn process(
    control: &Control,
    order: &Value,
    told: impl Fn(Version),
) -> anyhow::Result<()> {
    let path = Path::new(order["file"].as_str().context("expected a file")?);
    let trace = read_file(path)?;
    let recorded_version = trace.process.get("nccl").and_then(|v| Version::parse(v));
    let abi = callback::read(&trace.records)
        .find(|r| r.what == What::Init)
        .map(|r| r.abi)
        .with_context(|| {
            format!(
                "expected the record of an init in `{}`, found none",
                path.display()
            )
        })?;
    let asked = order["nccl"].as_u64().map(|v| Version(v as u32));
    let version = asked.or(recorded_version).unwrap_or(newest());
    let native = version.native_abi().unwrap_or(0);
    let version = if native < abi { newest() } else { version };
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
    let replayer = Mutex::new(Replayer {
        loader,
        own_pid: std::process::id() as i32,
        recorded_pid: pid.unwrap_or(0),
        texts: HashMap::new(),
        handles: HashMap::new(),
        comms: HashMap::new(),
        announced: Announced::default(),
        any: None,
    });
    // The plugin is loaded by the first init, among the rest; who waits for us only needs to know that we live.
    control.begin(Ok(abi))?;
    let turns = turns(&trace.records);
    let pace = match order["real_pace"].as_bool() {
        Some(true) => Some(
            scale(&trace.anchors)
                .context("expected two clock anchors for `--pace real`, found fewer")?,
        ),
        _ => None,
    };
    let first_tick = callback::read(&trace.records)
        .map(|r| r.ticks)
        .min()
        .unwrap_or(0);
    let began = Instant::now();
    let play = |range: std::ops::Range<usize>| {
        for record in callback::read(&trace.records[range]) {
            if let Some(scale) = pace {
                let at = Duration::from_nanos(
                    (record.ticks.saturating_sub(first_tick) as f64 * scale) as u64,
                );
                let left = at.saturating_sub(began.elapsed());
                if left > Duration::from_micros(200) {
                    std::thread::sleep(left);
                }
            }
            lock(&replayer).play(&record);
        }
    };
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
    let replayer = replayer
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let loaded = match replayer.loader.abi() {
        _ if replayer.any.is_none() => Err(match replayer.loader.abi() {
            Err(why) => why.to_string(),
            Ok(_) => "its init failed".into(),
        }),
        Ok(found) if found != abi => Err(format!(
            "the capture is of ABI v{abi}, the plugin exports v{found} at most"
        )),
        _ => Ok(abi),
    };
    match loaded {
        Ok(_) => control.say(&json!({"result": replayer.announced.to_json()})),
        Err(why) => control.say(
            &json!({"ready": null, "no_plugin": why, "result": Announced::default().to_json()}),
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_each_version_are_where_the_encoder_puts_them() {
        use crate::event::Seat;
        let marker = c"marker";
        for abi in 2..=7 {
            for event in crate::fault::samples(abi, marker) {
                let seat = Seat {
                    abi,
                    native: abi,
                    version: 0,
                };
                let mut descr = Descr::default();
                descr.encode(seat, &event, Handle::NULL, 0);
                let address = marker.as_ptr() as u64;
                let (texts, _) = pointers(abi, event.bit());
                let found: Vec<usize> = (0..17)
                    .map(|i| i * 8)
                    .filter(|at| word(&descr.0, *at) == Some(address))
                    .collect();
                let listed: Vec<usize> = texts
                    .iter()
                    .copied()
                    .filter(|at| word(&descr.0, *at) == Some(address))
                    .collect();
                assert_eq!(
                    found,
                    {
                        let mut l = listed;
                        l.sort_unstable();
                        l
                    },
                    "v{abi} {event:?}"
                );
            }
        }
    }
}
