//! `ncclscope top`: what a running job waits for, on a terminal.
//!
//! A thread reads the newest span of the capture again and again ([`watch`]). The screen ([`screen`]) shows
//! the newest answer, or an older one ([`state`]).
//!
//! Rule: the job does not notice. Files and live parts are only read, and reading takes at most a tenth of
//! one CPU.

mod screen;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

use crate::look::is_coloured;
use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::Terminal;
use render::top::Now;
use state::{State, View};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{sync_channel, TryRecvError};
use std::time::Duration;
use watch::Watch;

/// Watch a running job: which rank it waits for, where each rank's time goes, what is in flight
///
/// Shows the newest span of a capture while the job runs, with the same judgement as `report` and `hang`.
/// Other nodes may write to the folder, too. Press ? for the keys. If standard output is no terminal, prints
/// one screen.
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder; without it, the job of yours that runs on this node
    #[arg(value_name = "DIR")]
    capture: Option<PathBuf>,
    /// How much is looked at, up to the newest call, like 60s or 5min
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    span: i64,
    /// How often to look, at most
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    every: i64,
    /// Print one screen and end
    #[arg(long)]
    once: bool,
    /// Print JSON (ncclscope.top/1), a line for each look
    #[arg(long)]
    json: bool,
}

/// A time in ns, or in seconds where it has no unit.
pub(crate) fn time(text: &str) -> anyhow::Result<i64> {
    match units::nanos(text, Some(1e9)).filter(|ns| (1e8..=3.2e16).contains(ns)) {
        Some(ns) => Ok(ns as i64),
        None => anyhow::bail!("expected a time of 100ms or more, like 1s or 5min, found `{text}`"),
    }
}

/// How often the keys are looked at.
const KEYS: Duration = Duration::from_millis(100);

/// Watches a job.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let capture = match args.capture {
        Some(folder) => folder,
        None => watch::running()?,
    };
    let mut watch = Watch::new(&capture, args.span, args.every);
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.once || (!args.json && !is_terminal) {
        let now = watch.look().map_err(crate::report::hinted)?.now;
        return crate::report::print(|out| {
            if args.json {
                render::top::json(&now, out)
            } else {
                out.write_all(once(now).as_bytes())
            }
        });
    }
    if args.json {
        let mut is_readable = false;
        loop {
            match watch.look() {
                Ok(look) => {
                    is_readable = true;
                    let mut out = std::io::stdout().lock();
                    let written = render::top::json(&look.now, &mut out);
                    if written.and_then(|()| out.flush()).is_err() {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                // Nothing to read yet, or for a moment, is no reason to stop.
                Err(tables::OpenError::NoTrace { .. }) => {}
                Err(error) if !is_readable => return Err(crate::report::hinted(error)),
                Err(_) => {}
            }
            watch.pause();
        }
    }
    // What can't be read at all is said before the screen is taken.
    let first = watch.look();
    let first = match first {
        Err(tables::OpenError::NoTrace { .. }) => None,
        other => Some(other.map_err(crate::report::hinted)?),
    };
    live(watch, first.map(|first| first.now))
}

/// One screen as text, as wide as the terminal.
fn once(now: Now) -> String {
    let size = terminal_size::terminal_size();
    let size = size.map_or((80, 24), |(width, height)| (width.0, height.0));
    let mut state = State::new(false, screen::Glyphs::of_locale());
    state.add(now);
    state.keys = false;
    screen::text(&state, size.0.clamp(40, 240), size.1.clamp(10, 200))
}

/// Shows the screen until `q`.
fn live(mut watch: Watch, first: Option<Now>) -> anyhow::Result<ExitCode> {
    let (send, seen) = sync_channel::<Now>(4);
    let folder = watch.folder().to_owned();
    std::thread::Builder::new()
        .name("watch".into())
        .spawn(move || loop {
            watch.pause();
            // Nothing to read yet, or for a moment, is no reason to stop.
            if let Ok(look) = watch.look() {
                if send.send(look.now).is_err() {
                    return;
                }
            }
        })
        .context("a thread that reads")?;
    let mut state = State::new(is_coloured(&std::io::stdout()), screen::Glyphs::of_locale());
    state.folder = folder.display().to_string();
    if let Some(first) = first {
        state.add(first);
    }
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let done = shown(&mut terminal, &mut state, &seen);
    ratatui::restore();
    done?;
    Ok(ExitCode::SUCCESS)
}

fn shown(
    terminal: &mut Terminal<impl ratatui::backend::Backend<Error = std::io::Error>>,
    state: &mut State,
    seen: &std::sync::mpsc::Receiver<Now>,
) -> anyhow::Result<()> {
    let mut has_changed = true;
    loop {
        match seen.try_recv() {
            Ok(now) => {
                state.add(now);
                has_changed = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        if std::mem::take(&mut has_changed) {
            terminal.draw(|frame| screen::draw(state, frame.area(), frame.buffer_mut()))?;
        }
        if !event::poll(KEYS)? {
            continue;
        }
        has_changed = true;
        let Event::Key(key) = event::read()? else {
            continue;
        };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        if !state.key(key) {
            return Ok(());
        }
        if state.view == View::Copy {
            state.view = View::Ranks;
            let size = terminal.size()?;
            let text = screen::text(state, size.width, size.height);
            state.message = Some(match copy(&text) {
                Ok(name) => format!("copied to {name}"),
                Err(error) => format!("can't be copied: {error}"),
            });
        }
    }
}

/// Writes a screen to a file of this folder.
fn copy(text: &str) -> anyhow::Result<String> {
    let at = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    let name = format!("ncclscope-top-{at}.txt");
    crate::report::replace(std::path::Path::new(&name), text.as_bytes())?;
    Ok(name)
}
