//! `ncclscope list`: the captures below a folder, each with its verdict.

use crate::report::print;
use render::list::{Item, List, State};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::{Life, ReadProgress, Which};

/// List captures: when, which command, how many ranks, whether it still runs, and the verdict
///
///   ncclscope list
///   ncclscope list runs --json
///
/// The newest comes first. `report` and `view` take the newest capture of the current folder, if none is
/// named.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Where to look; captures may lie four folders deep
    #[arg(default_value = ".", value_name = "FOLDER")]
    folder: PathBuf,
    /// So many captures at most, the newest
    #[arg(short = 'n', long = "most", default_value_t = 20)]
    most: usize,
    /// Leave the verdicts out: they need the whole of each capture to be read
    #[arg(long)]
    quick: bool,
    /// Print JSON (ncclscope.list/1) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints it.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    if !args.folder.is_dir() {
        anyhow::bail!(
            "`{}` is not a folder\n  hint: name a folder that has captures in it",
            args.folder.display()
        );
    }
    let (found, is_whole) = crate::captures::below(&args.folder);
    if !is_whole {
        tell!("warning: this folder has too many files, and not all were looked at");
    }
    let more = found.len().saturating_sub(args.most) as u64;
    let captures = found.into_iter().take(args.most);
    let captures = captures.map(|found| item(found, args.quick)).collect();
    let list = List {
        schema: render::list::TITLE,
        captures,
        more,
    };
    print(|out| {
        if args.json {
            render::list::json(&list, out)
        } else {
            render::list::text(&list, args.look.of_stdout(), out)
        }
    })
}

/// What is known of a capture. One that can't be read says why in the place of its verdict.
fn item(found: crate::captures::Found, is_quick: bool) -> Item {
    let job = found.job.unwrap_or_default();
    let words = job["command"].as_array().into_iter().flatten();
    let words: Vec<String> = words
        .filter_map(|word| Some(word.as_str()?.to_owned()))
        .collect();
    let started = found
        .started
        .and_then(|at| jiff::Timestamp::try_from(at).ok());
    let zone = job["zone"]
        .as_str()
        .and_then(|zone| jiff::tz::TimeZone::get(zone).ok());
    let started = started.map(|at| at.to_zoned(zone.unwrap_or(jiff::tz::TimeZone::UTC)));
    let mut item = Item {
        capture: found.path.display().to_string(),
        started: started.map(|at| at.strftime("%Y-%m-%d %H:%M:%S %:z").to_string()),
        command: (!words.is_empty()).then_some(words),
        ranks: found.processes as u64,
        state: State::Unknown,
        exit_status: job["exit_status"].as_i64(),
        verdict: None,
        problem: None,
    };
    match look(&found.path, is_quick) {
        Ok((life, verdict)) => {
            item.state = match (life, job["ended"].is_null()) {
                (Some(Life::Running | Life::Stopped), _) => State::Running,
                (Some(Life::Gone), _) | (_, false) => State::Ended,
                _ => State::Unknown,
            };
            item.verdict = verdict;
        }
        Err(error) => {
            item.problem = Some(error.to_string());
            item.state = if job["ended"].is_null() {
                State::Unknown
            } else {
                State::Ended
            };
        }
    }
    item
}

/// Whether a process of the capture runs, or all are known to be gone; and the verdict.
fn look(path: &Path, is_quick: bool) -> anyhow::Result<(Option<Life>, Option<String>)> {
    let progress = ReadProgress::default();
    let (source, _held) = crate::report::source(path, &progress, Which::Last)?;
    let lives = source
        .capture()
        .processes
        .iter()
        .map(|process| process.life);
    let lives: Vec<Life> = lives.collect();
    let runs = |life: &Life| matches!(life, Life::Running | Life::Stopped);
    let life = match lives.iter().find(|life| runs(life)) {
        Some(life) => Some(*life),
        None => lives
            .iter()
            .all(|life| *life == Life::Gone)
            .then_some(Life::Gone),
    };
    if is_quick {
        return Ok((life, None));
    }
    let report = analyze::report_from(source, None, &progress);
    Ok((life, Some(render::verdict::sentence(&report))))
}
