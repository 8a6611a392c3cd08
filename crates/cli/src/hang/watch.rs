//! `ncclscope hang --watch`: tells when a running job stands still, and when it hangs.
//!
//! Rule: the job does not notice. Looks take at most a twentieth of one CPU. Nothing is executed until a hang
//! is told. Then the evidence is kept, and the user's command runs beside the watch.

use super::{before_first, exit_status, keep, look_at};
use crate::pace::Pace;
use analyze::hang::{hang, Hang, News, Proof, Watch};
use analyze::time::Nanos;
use anyhow::Context;
use render::hang::{Answer, Blamed};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tables::{Capture, Life, OpenError, Tail};

/// The newest calls of so long decide, ns: hosts are seldom further ahead of what stands still.
const SPAN_NS: i64 = 60_000_000_000;
/// A look may take one in so many parts of the time.
const PART: u32 = 20;
/// A job that has no process any more may be started again within this time, if no `ncclscope run` says that
/// it has ended or goes on.
const RESTARTS: Duration = Duration::from_secs(60);

/// What is watched, and what is done about a hang.
pub(super) struct Order {
    pub folder: PathBuf,
    /// A hang without proof is told after so long at least.
    pub after: Nanos,
    pub every: Duration,
    /// A command of the shell.
    pub command: Option<String>,
    pub json: bool,
}

/// Watches until the job is over, or nobody reads what is told.
pub(super) fn watch(order: &Order) -> anyhow::Result<ExitCode> {
    // Sends and receives that are forgotten count: the newest ones stand where the others stand.
    let mut tail = Tail::new(&order.folder, SPAN_NS).counting();
    let mut watch = Watch::new(order.after);
    let mut pace = Pace::new(order.every, PART);
    let mut run = Run::default();
    let mut gone: Option<Instant> = None;
    let mut stopped = Vec::new();
    let (mut is_readable, mut is_said) = (false, false);
    loop {
        pace.begin();
        run.look();
        match tail.newest() {
            Ok(capture) => {
                is_readable = true;
                let mut hang = hang(&capture, &watch.conditions());
                let news = watch.look(&hang);
                if matches!(news, Some(News::StandsStill | News::Hangs(_))) {
                    look_at(&mut hang, &capture, false);
                }
                // Whether a process is stopped can't be asked after its end.
                let now_stopped = stopped_in(&capture);
                if news.is_some() || now_stopped != stopped {
                    keep(&capture, &Answer::new(&hang));
                    stopped = now_stopped;
                }
                if !tell_news(order, &mut run, news, &capture, &hang)? {
                    return Ok(ExitCode::SUCCESS);
                }
                if !hang.is_over {
                    gone = None;
                } else if gone.get_or_insert_with(Instant::now).elapsed() >= wait(order, &capture) {
                    let hung = watch.hangs().then_some(ExitCode::from(1));
                    return Ok(hung.unwrap_or_else(|| exit_status(hang.verdict.hang())));
                }
            }
            Err(_) if is_readable && !order.folder.exists() => {
                if gone.get_or_insert_with(Instant::now).elapsed() >= RESTARTS {
                    tell!("`{}` is not there any more", order.folder.display());
                    return Ok(ExitCode::from(if watch.hangs() { 1 } else { 2 }));
                }
            }
            // It has not begun, or its files are being made.
            Err(OpenError::NotFound { .. } | OpenError::NoTrace { .. }) => {
                let conditions = watch.conditions();
                if let Some(hang) = before_first::look(&order.folder, conditions.after) {
                    let news = watch.look(&hang);
                    let capture = Capture {
                        path: order.folder.clone(),
                        ..Capture::default()
                    };
                    if !tell_news(order, &mut run, news, &capture, &hang)? {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                if let Some(ended) = ended(&order.folder) {
                    tell!("the job ended {ended}, and no process of it has made a communicator");
                    return Ok(ExitCode::from(2));
                }
                if !is_said && !is_readable {
                    tell!("waiting for a capture in `{}`", order.folder.display());
                    is_said = true;
                }
            }
            Err(error) if !is_readable => return Err(crate::report::hinted(error)),
            // For a moment.
            Err(_) => {}
        }
        pace.rest();
    }
}

/// When the job of a capture ended, as `ncclscope run` wrote it.
fn ended(folder: &Path) -> Option<String> {
    let job = tables::job(folder).ok()??;
    let ended = tables::printable(job["ended"].as_str()?).into_owned();
    Some(format!("at {ended}"))
}

/// Tells what is new, and acts on a hang. `false` if nobody reads it.
fn tell_news(
    order: &Order,
    run: &mut Run,
    news: Option<News>,
    capture: &Capture,
    hang: &Hang,
) -> anyhow::Result<bool> {
    let Some(news) = news else { return Ok(true) };
    if !say(order, news, hang)? {
        return Ok(false);
    }
    if let News::Hangs(proof) = news {
        act(order, run, proof, capture, hang);
    }
    Ok(true)
}

/// How long to wait for processes of a job that has none.
fn wait(order: &Order, capture: &Capture) -> Duration {
    match capture.job.is_object() {
        true if capture.job["ended"].is_null() => {
            RESTARTS.max(Duration::from_nanos(order.after.whole_unsigned()))
        }
        true => Duration::ZERO,
        false => RESTARTS,
    }
}

fn stopped_in(capture: &Capture) -> Vec<u32> {
    let all = capture.processes.iter();
    let stopped = all.filter(|process| process.life == Life::Stopped);
    stopped.map(|process| process.pid).collect()
}

/// Prints what is new. `false` if nobody reads it.
fn say(order: &Order, news: News, hang: &Hang) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    let written = if order.json {
        render::hang::watch::json(news, hang, &mut out)
    } else {
        let now = jiff::Zoned::now();
        let line = render::hang::watch::line(news, hang);
        let line = tables::printable_lines(&line);
        writeln!(out, "{} {line}", now.strftime("%Y-%m-%d %H:%M:%S"))
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("writing the output"),
    }
}

/// Keeps the evidence of a hang, and runs the user's command.
fn act(order: &Order, run: &mut Run, proof: Proof, capture: &Capture, hang: &Hang) {
    let now = jiff::Zoned::now();
    let name = format!("hung-{}.json", now.strftime("%Y%m%d-%H%M%S"));
    let evidence = capture.root().join(name);
    let mut text = Vec::new();
    let kept = render::hang::json(hang, &mut text).map_err(anyhow::Error::from);
    let kept = match kept.and_then(|()| crate::report::replace(&evidence, &text)) {
        Ok(()) => {
            tell!("Evidence: {}", evidence.display());
            Some(evidence)
        }
        Err(error) => {
            tell!("The evidence can't be kept: {error:#}");
            None
        }
    };
    if let Some(command) = &order.command {
        run.start(command, variables(kept.as_deref(), proof, capture, hang));
    }
}

/// What the user's command is told.
fn variables(
    evidence: Option<&Path>,
    proof: Proof,
    capture: &Capture,
    hang: &Hang,
) -> Vec<(&'static str, String)> {
    let answer = Answer::new(hang);
    let list = |text: &dyn Fn(&Blamed) -> String| {
        let all: Vec<String> = answer.blamed.iter().map(text).collect();
        all.join(" ")
    };
    let rank = |of: &Blamed| of.global_rank.or(of.rank).map(|rank| rank.to_string());
    let evidence = evidence.map(|path| path.display().to_string());
    vec![
        (
            "NCCLSCOPE_HANG_CAPTURE",
            capture.root().display().to_string(),
        ),
        ("NCCLSCOPE_HANG_EVIDENCE", evidence.unwrap_or_default()),
        ("NCCLSCOPE_HANG_HOSTS", list(&|of| of.host.clone())),
        ("NCCLSCOPE_HANG_PIDS", list(&|of| of.pid.to_string())),
        ("NCCLSCOPE_HANG_PROOF", proof.name().to_owned()),
        (
            "NCCLSCOPE_HANG_RANKS",
            list(&|of| rank(of).unwrap_or("-".to_owned())),
        ),
        ("NCCLSCOPE_HANG_SENTENCE", answer.sentence.clone()),
    ]
}

/// The user's command, once it runs. The watch does not wait for it.
#[derive(Default)]
struct Run {
    running: Option<(Child, String)>,
}

impl Run {
    /// Starts it, unless it still runs for an earlier hang.
    fn start(&mut self, command: &str, variables: Vec<(&'static str, String)>) {
        self.look();
        if self.running.is_some() {
            tell!("`{command}` still runs for the hang before, and is not run again");
            return;
        }
        let started = Command::new("/bin/sh")
            .arg("-c")
            .arg(command)
            .stdin(Stdio::null())
            // Standard output has what the watch tells.
            .stdout(Stdio::from(std::io::stderr()))
            .envs(variables)
            .spawn();
        match started {
            Ok(child) => self.running = Some((child, command.to_owned())),
            Err(error) => tell!("`{command}` can't be run: {error}"),
        }
    }

    /// Says how it ended, if it failed.
    fn look(&mut self) {
        let Some((child, command)) = &mut self.running else {
            return;
        };
        match child.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => tell!("`{command}` ended with {status}"),
            Err(error) => tell!("`{command}` can't be waited for: {error}"),
        }
        self.running = None;
    }
}
