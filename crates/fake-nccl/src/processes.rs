//! Starts the processes of a job, lets them begin together, and gathers what they say.
//!
//! [`run_processes`] takes a [`Start`] for each process. Parent and child talk over a socket, which the child finds as
//! its standard input ([`crate::control::Control`]): one JSON line each for the order, `ready`, `go`, and the result.
//!
//! Rule: a crash that nobody asked for is reported as one.

use crate::announced::Announced;
use crate::control::realtime_ns;
use crate::lock::lock;
use crate::outcome::Process;
use crate::plugin::Version;
use anyhow::Context;
use serde_json::{json, Value};
use std::collections::hash_map::{Entry, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Tells ncclscope that stamps are of a time of their own; other plugins ignore it.
pub const STAMPS: (&str, &str) = ("NCCLSCOPE_STAMPS", "replayed");

/// The hidden word that makes the program a rank's process.
pub const RANK_PROCESS: &str = "rank-process";

/// How to play, beside the script.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `NCCL_PROFILER_PLUGIN`; `None` takes this process's environment.
    pub plugin: Option<String>,
    /// The release, where it isn't the script's.
    pub nccl: Option<Version>,
    /// Symbols above this ABI are taken as absent; 0 is no limit.
    pub highest_abi: u8,
    /// Don't wait for virtual time. Stamps then lie ahead of the host's clock.
    pub fast: bool,
    /// All ranks are threads of this process.
    pub in_process: bool,
    /// Print what the plugin logs at INFO.
    pub verbose: bool,
    /// Kill what still runs after this time, as a plugin that deadlocks does.
    pub timeout: Option<Duration>,
    /// Environment of the processes, beside what is inherited.
    pub env: Vec<(String, String)>,
    /// The fake-nccl program; `None` looks beside the running one.
    pub program: Option<PathBuf>,
}

/// A program beside the running one, or above it where tests run.
///
/// # Errors
/// When it isn't there.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let running = std::env::current_exe()?;
    let folders = running.ancestors().skip(1).take(2);
    let found = folders.map(|f| f.join(name)).find(|p| p.is_file());
    found.with_context(|| {
        format!(
            "expected the program `{name}` beside `{}`, found none; build it, or name it",
            running.display()
        )
    })
}

/// A process to start.
pub(crate) struct Start {
    /// Its first rank.
    pub rank: usize,
    /// What to run.
    pub command: Command,
    /// What to tell it.
    pub order: Value,
}

struct Running {
    rank: usize,
    child: Child,
    control: UnixStream,
    result: Arc<Mutex<Heard>>,
    listener: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Heard {
    ready: Option<Result<u8, String>>,
    announced: Option<Announced>,
    ending: Option<String>,
    stuck: bool,
}

/// Starts processes, lets them begin together, and gathers what they say. When only processes are left that wait for
/// ever, they are ended after `linger`, but not before their progress threads have delivered what is due.
pub(crate) fn run_processes(
    starts: Vec<Start>,
    timeout: Option<Duration>,
    linger: Duration,
) -> anyhow::Result<(Result<u8, String>, Vec<Process>)> {
    let began = Instant::now();
    let late = || timeout.is_some_and(|limit| began.elapsed() > limit);
    let mut running = Vec::new();
    for mut start in starts {
        let (ours, theirs) = UnixStream::pair()?;
        let child = start
            .command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Our standard output is the announcement; what a plugin prints must not mix with it.
            .stdout(std::io::stderr())
            .spawn()
            .with_context(|| format!("could not start {:?}", start.command.get_program()))?;
        // The command holds our copy of the child's end, which must close for the child's death to show.
        drop(start.command);
        writeln!(&ours, "{}", start.order)?;
        let result = Arc::<Mutex<Heard>>::default();
        let (lines, heard) = (BufReader::new(ours.try_clone()?), result.clone());
        let listener = std::thread::spawn(move || listen(lines, &heard));
        running.push(Running {
            rank: start.rank,
            child,
            control: ours,
            result,
            listener: Some(listener),
        });
    }
    // Begin together: when each is ready, or dead.
    loop {
        let waiting = running.iter_mut().any(|r| {
            let dead = matches!(r.child.try_wait(), Ok(Some(_)));
            lock(&r.result).ready.is_none() && !dead
        });
        if !waiting || late() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let begin = realtime_ns() + 2_000_000;
    for r in &running {
        // A process that died before this shows in its status.
        let _ = writeln!(&r.control, "{}", json!({"go": begin}));
    }
    let linger = linger.max(Duration::from_millis(200));
    let mut ended = HashMap::new();
    let mut stuck_since: Option<Instant> = None;
    while ended.len() < running.len() {
        let mut all_stuck = true;
        for r in &mut running {
            if ended.contains_key(&r.child.id()) {
                continue;
            }
            match r.child.try_wait()? {
                Some(status) => {
                    ended.insert(r.child.id(), status);
                }
                None => all_stuck &= lock(&r.result).stuck,
            }
        }
        let signal = if late() { libc::SIGKILL } else { libc::SIGTERM };
        if all_stuck {
            stuck_since.get_or_insert_with(Instant::now);
        }
        if stuck_since.is_some_and(|since| since.elapsed() >= linger) || late() {
            // As a launcher does when the rest of the job is over.
            for r in &mut running {
                if let Entry::Vacant(place) = ended.entry(r.child.id()) {
                    // SAFETY: our child, which we haven't waited for, so its id is still its own.
                    unsafe { libc::kill(r.child.id() as i32, signal) };
                    place.insert(r.child.wait()?);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut abi = Err("no process was ready".to_string());
    let mut processes = Vec::new();
    for mut r in running {
        if let Some(listener) = r.listener.take() {
            let _ = listener.join();
        }
        let heard = std::mem::take(&mut *lock(&r.result));
        if let Some(ready) = heard.ready {
            abi = ready;
        }
        let status = ended[&r.child.id()];
        let status = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown".into(),
        };
        let asked = match heard.ending {
            Some(ending) => ending,
            None if heard.stuck => "signal 15".into(),
            None => "exit 0".into(),
        };
        processes.push(Process {
            rank: r.rank,
            pid: r.child.id(),
            expected: asked == status,
            ended: status,
            announced: heard.announced,
        });
    }
    Ok((abi, processes))
}

fn listen(lines: BufReader<UnixStream>, heard: &Mutex<Heard>) {
    for line in lines.lines() {
        let Some(said) = line
            .ok()
            .and_then(|l| serde_json::from_str::<Value>(&l).ok())
        else {
            return;
        };
        let mut heard = lock(heard);
        if let Some(abi) = said.get("ready") {
            let why = said["no_plugin"].as_str().unwrap_or("unknown").to_string();
            heard.ready = Some(abi.as_u64().map(|a| a as u8).ok_or(why));
        }
        if let Some(result) = said.get("result") {
            heard.announced = Announced::from_json(result);
        }
        if let Some(ending) = said["ending"].as_str() {
            heard.ending = Some(ending.into());
        }
        heard.stuck |= said.get("stuck").is_some();
    }
}
