//! Starts the processes of a job, lets them begin together, and gathers what they report.
//!
//! `run_processes` takes a `Start` for each process. Parent and child talk over a socket. The child finds
//! it as its standard input (`control.rs`). Each message is one line of JSON: the order,
//! `ready`, `go`, and the result.
//!
//! Rule: if a process crashes and nobody asked for it, the outcome says so.

use crate::announced::Announced;
use crate::control::realtime_ns;
use crate::lock::lock;
use crate::outcome::Process;
use crate::plugin::Version;
use anyhow::Context;
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tells ncclscope that stamps have a time of their own. Other plugins ignore it.
pub const STAMPS: (&str, &str) = ("NCCLSCOPE_STAMPS", "replayed");

/// Tells ncclscope to read the clock that this program can set. Other plugins ignore it.
pub const CLOCK: (&str, &str) = ("NCCLSCOPE_CLOCK", "system");

/// The hidden word that makes the program a rank's process.
pub const RANK_PROCESS: &str = "rank-process";

/// How to play, beside the script.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `NCCL_PROFILER_PLUGIN`; `None` takes this process's environment.
    pub plugin: Option<String>,
    /// The release, if it isn't the script's.
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

/// The path of a program beside the running one, or one folder up, where tests find it.
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

/// A process that was started.
struct Running {
    rank: usize,
    child: Child,
    control: UnixStream,
    heard: Arc<Mutex<Heard>>,
    listener: JoinHandle<()>,
    /// How it ended.
    ended: Option<ExitStatus>,
}

/// What a process reported.
#[derive(Default)]
struct Heard {
    ready: Option<Result<u8, String>>,
    announced: Option<Announced>,
    ending: Option<String>,
    stuck: bool,
}

/// Starts processes, lets them begin together, and gathers what they report. If only processes are left that
/// wait for ever, they are ended after `linger`, but not before their progress threads have delivered what is
/// due.
pub(crate) fn run_processes(
    starts: Vec<Start>,
    timeout: Option<Duration>,
    linger: Duration,
) -> anyhow::Result<(Result<u8, String>, Vec<Process>)> {
    let began = Instant::now();
    let late = || timeout.is_some_and(|limit| began.elapsed() > limit);
    let mut running = Vec::new();
    for start in starts {
        running.push(Running::new(start)?);
    }
    begin_together(&mut running, late);
    wait(&mut running, late, linger.max(Duration::from_millis(200)))?;
    let mut abi = Err("no process was ready".to_string());
    let mut processes = Vec::new();
    for process in running {
        let (ready, process) = process.outcome();
        abi = ready.unwrap_or(abi);
        processes.push(process);
    }
    Ok((abi, processes))
}

/// Waits until each process is ready or dead, and tells them when to begin.
fn begin_together(running: &mut [Running], late: impl Fn() -> bool) {
    while running.iter_mut().any(Running::gets_ready) && !late() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begin = realtime_ns() + 2_000_000;
    for process in running {
        // A process that died before this shows in its status.
        let _ = writeln!(&process.control, "{}", json!({"go": begin}));
    }
}

/// Waits until all have ended. When only processes that wait for ever have been left for `linger`, it ends
/// them. When it is too late, it kills all.
fn wait(running: &mut [Running], late: impl Fn() -> bool, linger: Duration) -> std::io::Result<()> {
    let mut stuck_since: Option<Instant> = None;
    while running.iter().any(|process| process.ended.is_none()) {
        let mut all_stuck = true;
        for process in running.iter_mut().filter(|p| p.ended.is_none()) {
            process.ended = process.child.try_wait()?;
            all_stuck &= process.ended.is_some() || lock(&process.heard).stuck;
        }
        let signal = if late() { libc::SIGKILL } else { libc::SIGTERM };
        if all_stuck {
            stuck_since.get_or_insert_with(Instant::now);
        }
        if stuck_since.is_some_and(|since| since.elapsed() >= linger) || late() {
            // As a launcher does when the rest of the job is over.
            for process in running.iter_mut().filter(|p| p.ended.is_none()) {
                // SAFETY: our child, which we haven't waited for, so its id is still its own.
                unsafe { libc::kill(process.child.id() as i32, signal) };
                process.ended = Some(process.child.wait()?);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

impl Running {
    /// Starts a process, and gives it its order.
    fn new(mut start: Start) -> anyhow::Result<Running> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = start
            .command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Our standard output is the result. What a plugin prints must not mix with it.
            .stdout(std::io::stderr())
            .spawn()
            .with_context(|| format!("could not start {:?}", start.command.get_program()))?;
        // The command holds our copy of the child's end, which must close for the child's death to show.
        drop(start.command);
        writeln!(&ours, "{}", start.order)?;
        let heard = Arc::<Mutex<Heard>>::default();
        let (lines, hears) = (BufReader::new(ours.try_clone()?), heard.clone());
        Ok(Running {
            rank: start.rank,
            child,
            control: ours,
            heard,
            listener: std::thread::spawn(move || listen(lines, &hears)),
            ended: None,
        })
    }

    /// Whether it lives, and has not said yet that it is ready.
    fn gets_ready(&mut self) -> bool {
        let dead = matches!(self.child.try_wait(), Ok(Some(_)));
        lock(&self.heard).ready.is_none() && !dead
    }

    /// The ABI that it called its plugin with, if it reported one, and how it ended.
    fn outcome(self) -> (Option<Result<u8, String>>, Process) {
        // A panic of the listener is on standard error already.
        let _ = self.listener.join();
        let heard = std::mem::take(&mut *lock(&self.heard));
        let status = self.ended.map(|status| (status.code(), status.signal()));
        let ended = match status {
            Some((Some(code), _)) => format!("exit {code}"),
            Some((None, Some(signal))) => format!("signal {signal}"),
            _ => "unknown".into(),
        };
        let asked = match heard.ending {
            Some(ending) => ending,
            None if heard.stuck => "signal 15".into(),
            None => "exit 0".into(),
        };
        let process = Process {
            rank: self.rank,
            pid: self.child.id(),
            expected: asked == ended,
            ended,
            announced: heard.announced,
        };
        (heard.ready, process)
    }
}

/// Notes what a process reports, until its end of the socket closes.
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
