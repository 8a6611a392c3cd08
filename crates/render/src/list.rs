//! A list of captures, as text and as JSON.

use crate::layout::{plural, Look, Page, Style};
use analyze::spelling::word;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{Result, Write};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/list-1.json");
/// Its name.
pub const TITLE: &str = "ncclscope.list/1";

/// The captures below a folder.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct List {
    /// [`TITLE`].
    pub schema: &'static str,
    /// The captures, the newest first.
    pub captures: Vec<Item>,
    /// Older captures that are left out, in units of one.
    pub more: u64,
}

/// Whether a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// A process of it runs on this machine.
    Running,
    /// It has ended.
    Ended,
    /// Its processes are on other machines, and nobody wrote down its end.
    Unknown,
}

/// A capture.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Item {
    /// Its folder.
    pub capture: String,
    /// When its job, or the first process that is here, started, in the time zone of its machine.
    pub started: Option<String>,
    /// Command and arguments; null if `ncclscope run` did not record it.
    pub command: Option<Vec<String>>,
    /// Processes that have a trace file, in units of one.
    pub ranks: u64,
    /// Whether it runs.
    pub state: State,
    /// The command's exit status; null if it is not known.
    pub exit_status: Option<i64>,
    /// The first line of its report; null if it was not asked for, or can't be read.
    pub verdict: Option<String>,
    /// Why it can't be read.
    pub problem: Option<String>,
}

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(list: &List, out: &mut impl Write) -> Result<()> {
    crate::json::pretty(list, out)
}

/// Writes it as a page of text.
///
/// # Errors
/// Those of `out`.
pub fn text(list: &List, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, true);
    if list.captures.is_empty() {
        page.line("No captures here. `ncclscope run -- COMMAND` records one.");
        return page.finish(out);
    }
    for item in &list.captures {
        let status = match (item.state, item.exit_status) {
            (State::Running, _) => "running".to_owned(),
            (State::Ended, Some(0)) | (State::Ended, None) => "ended".to_owned(),
            (State::Ended, Some(status)) => format!("ended with exit status {status}"),
            (State::Unknown, _) => "end not known".to_owned(),
        };
        page.styled(Style::Title, &item.capture);
        let started = item.started.as_deref().unwrap_or("start not known");
        let ranks = plural(item.ranks, "rank", "ranks");
        page.wrap("  ", "  ", &format!("{started}, {ranks}, {status}"));
        if let Some(command) = &item.command {
            let words: Vec<String> = command.iter().map(|part| word(part).into_owned()).collect();
            page.wrap("  ", "  ", &words.join(" "));
        }
        for said in item.verdict.iter().chain(&item.problem) {
            page.wrap("  ", "  ", said);
        }
    }
    if list.more > 0 {
        let older = plural(list.more, "older capture", "older captures");
        page.line(&format!("… {older} (-n)"));
    }
    page.gap();
    page.next(&format!(
        "ncclscope report {}",
        word(&list.captures[0].capture)
    ));
    page.finish(out)
}
