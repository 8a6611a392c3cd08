//! `ncclscope hang`: does the job hang, and if so, which rank in which call?

mod before_first;
mod doing;
mod py_spy;
mod ras;
mod traffic;
mod watch;

use crate::progress;
use crate::report::{print, source};
use crate::run::adopt::Here;
use analyze::hang::{Conditions, Hang, PATIENCE};
use analyze::time::Nanos;
use anyhow::bail;
use render::hang::Answer;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tables::sightings::{folders, Looked, Sighting};
use tables::{Capture, Life, Process, ReadProgress, Source};

/// Say whether a job hangs, running or dead: which rank is missing in which call, or which network operation
/// is stuck
///
/// The first sentence is the verdict. Exit status: 0 no hang, 1 hang, 2 can't tell (or an error). While
/// processes of the job run on this machine and someone waits, what was seen is kept in the capture, for the
/// time after their end. If a rank that it names runs on this machine, it says what its thread does; py-spy,
/// if it is installed, tells the line of the program.
///
/// With --watch, it looks at a running job until its end, and prints a line for each piece of news. First
/// that the job stands still, from 5 s on. Then that it hangs: on proof, which has to stand for 15 s (a rank
/// is dead, has left or is stopped, or calls do not fit), or after --after. Then the whole answer is kept in
/// the capture as hung-TIME.json, and the command of --exec runs.
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder, the folder of one host in it, or one trace file; of a running job, too; or dumps of
    /// PyTorch's flight recorder, answers of NCCL's RAS, or HOST:PORT of RAS itself (localhost:28028)
    capture: PathBuf,
    /// What another tool saw of the same job: dumps of PyTorch's flight recorder, answers of NCCL's RAS, or
    /// HOST:PORT of RAS itself. If that says more than the capture, the verdict is by it; may be given
    /// several times
    #[arg(long, value_name = "FILE|DIR|HOST:PORT", conflicts_with = "watch")]
    with: Vec<PathBuf>,
    /// The shortest wait that is a hang, like 10s, 500ms or 5min [default: 120s, and at least twice the
    /// longest pause of a rank between two calls; with --watch: 15min, and always at least twice that pause]
    #[arg(long, value_name = "TIME", value_parser = time)]
    after: Option<i64>,
    /// Print JSON (ncclscope.hang/1) instead of text; with --watch, a line for each piece of news
    #[arg(long)]
    json: bool,
    /// Print every rank instead of the first of each communicator
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Look at a running job until it ends, and say when it stands still, hangs, or goes on
    #[arg(long, conflicts_with_all = ["all", "attempt"])]
    watch: bool,
    /// How often to look, at most
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch",
        value_parser = crate::top::time)]
    every: i64,
    /// Command for the shell to run once for each hang; its output goes to standard error.
    /// NCCLSCOPE_HANG_RANKS, _HOSTS and _PIDS name the ranks that the verdict names, in one order; _SENTENCE,
    /// _PROOF, _EVIDENCE (a file) and _CAPTURE say more
    #[arg(long, value_name = "CMD", requires = "watch")]
    exec: Option<String>,
    #[command(flatten)]
    look: crate::look::Look,
    #[command(flatten)]
    attempt: crate::attempt::Attempt,
}

/// A time in ns, or in seconds where it has no unit.
fn time(text: &str) -> anyhow::Result<i64> {
    // A year is more than any job waits.
    match units::nanos(text, Some(1e9)).filter(|ns| *ns <= 3.2e16) {
        Some(ns) => Ok(ns as i64),
        None => bail!("expected a time like 10s, 500ms or 5min, found `{text}`"),
    }
}

/// Prints the verdict.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    if args.watch {
        return watch::watch(&watch::Order {
            folder: args.capture,
            after: args.after.map_or(PATIENCE, Nanos::from),
            every: Duration::from_nanos(args.every.unsigned_abs()),
            command: args.exec,
            json: args.json,
        });
    }
    let (mut hang, capture) = match of(&args.capture, &args) {
        Ok(found) => found,
        Err(error) => match before_first::look(&args.capture, args.after.map(Nanos::from)) {
            Some(hang) => (hang, Capture::default()),
            None => return Err(error),
        },
    };
    crate::attempt::tell(&capture);
    keep(&capture, &Answer::new(&hang));
    look_at(&mut hang, &capture, true);
    drop(capture);
    for other in &args.with {
        hang.others.push(of(other, &args)?.0);
    }
    let answer = Answer::new(&hang);
    print(|out| {
        if args.json {
            render::hang::json(&hang, out)
        } else {
            render::hang::text(&hang, args.all, args.look.of_stdout(), out)
        }
    })?;
    Ok(exit_status(answer.hang))
}

/// Looks at the processes of a capture that run on this machine, with py-spy if `asks`.
fn look_at(hang: &mut Hang, capture: &Capture, asks: bool) {
    let is_here = here(capture);
    doing::look(hang, &is_here, asks);
    traffic::look(hang, &is_here);
}

/// Tells processes of a capture that run on this machine, with the numbers that they have for us.
fn here(capture: &Capture) -> impl Fn(u32) -> bool {
    let here = Here::ask();
    let own = here.pid_namespace.to_string();
    let is_here = |process: &&Process| {
        process.life == Life::Running
            && process.fact("boot_id") == Some(&here.boot_id)
            && process.fact("pid_namespace") == Some(&own)
    };
    let pids = capture.processes.iter().filter(is_here).map(|of| of.pid);
    let pids: BTreeSet<u32> = pids.collect();
    move |pid| pids.contains(&pid)
}

fn exit_status(hang: Option<bool>) -> ExitCode {
    ExitCode::from(match hang {
        Some(false) => 0,
        Some(true) => 1,
        None => 2,
    })
}

/// What a capture or another tool says; RAS is asked if `path` is its address.
fn of(path: &Path, args: &Args) -> anyhow::Result<(Hang, Capture)> {
    let address = path
        .to_str()
        .filter(|_| !path.exists())
        .and_then(ras::address);
    if let Some(address) = address {
        return ras::ask(address, args.after, |folder| look(folder, path, args));
    }
    look(path, path, args)
}

/// Opens `path`, which the user calls `name`.
fn look(path: &Path, name: &Path, args: &Args) -> anyhow::Result<(Hang, Capture)> {
    progress::show("reading", |progress| {
        let (source, _held) = source(path, progress, args.attempt.which())?;
        of_source(source, name, args, progress)
    })
}

/// The same of what was opened.
fn of_source(
    source: Source,
    name: &Path,
    args: &Args,
    progress: &ReadProgress,
) -> anyhow::Result<(Hang, Capture)> {
    let capture = source.capture();
    let without_open_calls = [
        (
            "nsys",
            "of Nsight Systems, which does not say which calls never ended",
        ),
        (
            "nccl-tests",
            "of nccl-tests, which prints calls that have ended",
        ),
        (
            "kineto",
            "a trace of torch.profiler, which does not say which calls never ended",
        ),
        (
            "inspector",
            "of NCCL Inspector, which writes calls that have ended, and not those that never do",
        ),
    ];
    if let Some((_, what)) = without_open_calls
        .iter()
        .find(|(mode, _)| capture.has_mode(mode))
    {
        anyhow::bail!(
            "`{}` is {what}\n  hint: record with `ncclscope run`, give the folder with the dumps of \
            PyTorch's flight recorder, or ask NCCL's RAS: `ncclscope hang localhost:28028`",
            name.display()
        );
    }
    // A dump of PyTorch's flight recorder is a moment: nobody sees how long a wait has lasted since.
    let is_dump = capture.has_mode("flight-recorder");
    let conditions = Conditions {
        after: args.after.or(is_dump.then_some(0)).map(Nanos::from),
    };
    let (mut hang, capture) = analyze::standstill::hang_from(source, &conditions, progress);
    hang.capture = name.to_owned();
    Ok((hang, capture))
}

/// Keeps what was seen beside the trace files of this machine, because nobody can ask a process after its
/// end. A capture that can't be written to stays as it is, and so does one in which nobody waits.
fn keep(capture: &Capture, answer: &Answer) {
    let here = Here::ask();
    let of_here = |process: &&Process| process.fact("boot_id") == Some(&here.boot_id);
    let processes = || capture.processes.iter().filter(of_here);
    if !processes().any(|process| process.life.is_there()) {
        return;
    }
    let sighting = Sighting {
        at_ns: here.now_ns,
        host: here.host.clone(),
        boot_id: here.boot_id.clone(),
        hang: answer.hang,
        verdict: answer.verdict.to_owned(),
        sentence: answer.sentence.clone(),
        processes: processes()
            .filter_map(|process| Looked::at(process, here.now_ns))
            .collect(),
        ..Sighting::default()
    };
    let Ok(mut text) = serde_json::to_string_pretty(&sighting.json()) else {
        return;
    };
    text.push('\n');
    for folder in folders(processes()) {
        let folder = capture.root().join(folder);
        let place = folder.join(sighting.name());
        // What was said before is not true any more.
        if answer.hang != Some(false) || place.symlink_metadata().is_ok() {
            let _ = replace(&folder, &place, text.as_bytes());
        }
    }
}

/// Puts a file in the place of another, whole or not at all. A link in its place is not followed.
pub(crate) fn replace(folder: &Path, place: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.persist(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_users_write_them() {
        for (text, ns) in [
            ("10s", 10_000_000_000),
            ("10", 10_000_000_000),
            ("500ms", 500_000_000),
            ("1.5min", 90_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(time(text).ok(), Some(ns), "{text}");
        }
        for text in ["", "s", "-1s", "5 parsecs", "1e9s", "999999999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
