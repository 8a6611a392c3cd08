//! Plays hostile sequences to any plugin, on each ABI that it exports, and says which it bears.
//!
//! [`check`] runs each item in a process of its own, so that a crash or a hang is a result like another. The
//! items are all [`FAULTS`] and all [`ITEMS`].
//!
//! Rule: an item fails if the process dies, if it hangs for [`LIMIT`], if a callback returns an error, or if
//! a handle or context is not written. What the plugin records is not judged here.

mod items;
mod process;

use crate::fault::FAULTS;
use anyhow::{bail, Context};
use items::ABSENT;
use process::SAID;
use serde_json::{json, Value};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub use items::{Item, ITEMS};
pub use process::item_process;

/// The hidden word that makes the program an item's process.
pub const ITEM_PROCESS: &str = "item-process";

/// How long an item may take.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What an item came to.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The item's word.
    pub item: &'static str,
    /// What it does.
    pub what: &'static str,
    /// The ABI.
    pub abi: u8,
    /// `None` is a pass.
    pub failure: Option<String>,
}

impl Verdict {
    /// Whether it failed.
    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// For `--json`.
    pub fn to_json(&self) -> Value {
        json!({
            "item": self.item, "abi": self.abi, "passed": !self.failed(), "failure": self.failure,
            "what": self.what,
        })
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.failure {
            None => write!(f, "pass  v{}  {:<18}  {}", self.abi, self.item, self.what),
            Some(why) => write!(
                f,
                "FAIL  v{}  {:<18}  {}: {why}",
                self.abi, self.item, self.what
            ),
        }
    }
}

/// What to check.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// As NCCL_PROFILER_PLUGIN; `None` takes this process's environment.
    pub plugin: Option<String>,
    /// Only this ABI.
    pub abi: Option<u8>,
    /// Only this item.
    pub item: Option<String>,
    /// The fake-nccl program; `None` looks beside the running one.
    pub program: Option<PathBuf>,
}

/// Plays every item on every ABI that the plugin exports, and gives each verdict to `each` at once.
///
/// # Errors
/// When the plugin can't be loaded at all, or the program isn't found.
pub fn check(
    selection: &Selection,
    mut each: impl FnMut(&Verdict),
) -> anyhow::Result<Vec<Verdict>> {
    let plugin = selection.plugin.as_deref();
    let program = match &selection.program {
        Some(program) => program.clone(),
        None => crate::processes::beside("fake-nccl")?,
    };
    let mut verdicts = Vec::new();
    let words = ITEMS.iter().map(|i| (i.word, i.what));
    let words = words.chain(FAULTS.iter().map(|f| (f.1, f.2)));
    let chosen = |word: &str| selection.item.as_ref().is_none_or(|item| item == word);
    let words: Vec<_> = words.filter(|(word, _)| chosen(word)).collect();
    if words.is_empty() {
        let known: Vec<_> = ITEMS
            .iter()
            .map(|i| i.word)
            .chain(FAULTS.iter().map(|f| f.1))
            .collect();
        bail!("expected one of {}", known.join(", "));
    }
    let mut why = String::new();
    for abi in (1..=nccl_abi::NEWEST).filter(|abi| selection.abi.is_none_or(|only| only == *abi)) {
        match run(&program, plugin, "load", abi)? {
            Some(absent) if absent.starts_with(ABSENT) => {
                why = absent;
                continue;
            }
            _ => {}
        }
        for (item, what) in &words {
            let verdict = Verdict {
                item,
                what,
                abi,
                failure: run(&program, plugin, item, abi)?,
            };
            each(&verdict);
            verdicts.push(verdict);
        }
    }
    if verdicts.is_empty() {
        bail!(
            "expected a plugin of any ABI; {}",
            why.trim_start_matches(ABSENT)
        );
    }
    Ok(verdicts)
}

/// Runs one item's process. Gives what failed, if anything.
fn run(
    program: &std::path::Path,
    plugin: Option<&str>,
    item: &str,
    abi: u8,
) -> anyhow::Result<Option<String>> {
    let mut command = Command::new(program);
    command
        .args([ITEM_PROCESS, item, &abi.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(plugin) = plugin {
        command.env("NCCL_PROFILER_PLUGIN", plugin);
    }
    let mut child = command
        .spawn()
        .with_context(|| format!("could not start `{}`", program.display()))?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(Some(format!("hung for {} s", LIMIT.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut said = Vec::new();
    child
        .stdout
        .take()
        .context("a pipe")?
        .read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    // What the plugin prints comes before; our word is the last line.
    let last = said.lines().last().unwrap_or_default();
    Ok(match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(1), _) if last.starts_with(SAID) => Some(last.trim_start_matches(SAID).to_string()),
        (Some(code), _) => Some(format!("ended with exit status {code}")),
        (None, signal) => Some(format!("killed by signal {}", signal.unwrap_or(0))),
    })
}
