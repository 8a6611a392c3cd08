//! What a tuning experiment found, as text and JSON.

use crate::layout::{plural, Look, Page, Style, Table};
use crate::settings;
use analyze::spelling::{percent, sizes_apart, time, word};
use analyze::tune::blocks::ArmBlocks;
use analyze::tune::{
    Against, AskedSetting, OtherWork, Ranked, Ranking, Standing, Unused, Used, DEFAULT,
    LEAST_ROUNDS,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{Result, Write};

/// The format of [`json`].
pub const SCHEMA: &str = "ncclscope.tune/1";

/// Settings as fast as the winner that a sentence names.
const NAMED: usize = 3;

/// What `ncclscope tune` says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// runs: each setting in runs of its own; blocks: all in one run, by blocks of calls.
    pub way: &'static str,
    /// What it says, in one sentence or two.
    pub summary: String,
    /// Which time is compared: the median step of a run, or the run from the first communicator to the last
    /// call, or the whole command. Null if there is no time.
    pub measure: Option<&'static str>,
    /// Rounds.
    pub rounds: u64,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Number of the setting to take, 0 is the default; null if none can be told.
    pub winner: Option<usize>,
    /// Numbers of settings that can't be told from the winner.
    pub as_fast: Vec<usize>,
    /// Rounds after which the fastest setting would be told from the default, if its mean stays; null if that
    /// is not known.
    pub rounds_needed: Option<u64>,
    /// Lines for a shell that set the winner; empty of the default.
    pub exports: Vec<String>,
    /// NVIDIA's tuner file with the winner; null of runs, of the default, and if the file can't say it.
    pub csv: Option<String>,
    /// What limits the experiment.
    pub notes: Vec<String>,
    /// The settings, the fastest first.
    pub settings: Vec<Setting>,
    /// The runs, in their order.
    pub runs: Vec<RunRow>,
}

/// A setting that was tried.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Setting {
    /// Its variables, or default.
    pub name: String,
    /// Where its captures are.
    pub folder: String,
    /// Why it is not judged; null if it is.
    pub left_out: Option<String>,
    /// What became of its variables, the worst of its runs.
    pub asked: Vec<AskedRow>,
    /// Its blocks in the process that was judged; null of runs.
    pub blocks: Option<ArmBlocks>,
    /// The times that are compared, µs.
    #[serde(skip)]
    pub times_us: Vec<f64>,
    /// Function, bytes, algorithm and protocol of what its runs called; empty of blocks.
    #[serde(skip)]
    pub used: Vec<String>,
    /// Energy of a run of it, mean, J; `None` if it was not measured.
    #[serde(skip)]
    pub energy_j: Option<f64>,
    /// Its times, and how it stands to the default.
    #[serde(flatten)]
    pub ranked: Ranked,
}

/// A variable that was asked for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AskedSetting")]
pub struct AskedRow {
    /// `NCCL_ALGO` and the like.
    pub variable: String,
    /// yes: all calls that it says something about used it; `not_told`: NCCL does not tell, as of most
    /// variables; partly: some calls used it; no: none did, or the processes do not have it.
    pub used: Used,
    /// The same in a sentence; empty if there is nothing to say.
    pub sentence: String,
}

impl AskedRow {
    /// The row of a variable.
    pub fn of(asked: &AskedSetting) -> AskedRow {
        let name = &asked.variable;
        AskedRow {
            variable: name.clone(),
            used: asked.used,
            sentence: match &asked.why {
                Unused::Set(other) => format!("The program set {name}={other} itself."),
                Unused::NotThere => format!("{name} did not reach the program."),
                Unused::By(rows) => {
                    let sentences: Vec<String> = rows.iter().map(settings::summary).collect();
                    sentences.join(" ")
                }
            },
        }
    }
}

/// One run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunRow {
    /// Round, from 1.
    pub round: u64,
    /// Number of its setting.
    pub arm: usize,
    /// Its capture; null if nothing was recorded.
    pub capture: Option<String>,
    /// Why it failed; null if it did not.
    pub failed: Option<String>,
    /// Median time of a step.
    pub step_us: Option<f64>,
    /// From the first communicator to the last call, on the longest rank.
    pub wall_us: Option<f64>,
    /// From the start of the command to its end.
    pub process_us: f64,
    /// NCCL calls of all ranks, those in CUDA graphs included; null if nothing was recorded.
    pub calls: Option<u64>,
    /// Their bytes; null if that is not known of all of them.
    pub bytes: Option<u64>,
}

impl Answer {
    /// Puts the answer together; `names` are those of the settings, by their number.
    pub fn say(&mut self, names: &[String], ranking: &Ranking) {
        self.winner = ranking.winner;
        self.as_fast.clone_from(&ranking.as_fast);
        self.rounds_needed = ranking.rounds_needed;
        self.summary = self.sentence(names, ranking);
    }

    fn sentence(&self, names: &[String], ranking: &Ranking) -> String {
        let what = match self.measure {
            Some("step") => "step",
            _ => "run",
        };
        let mean = |arm: usize| {
            let of = ranking.arms.iter().find(|of| of.arm == arm);
            of.and_then(|of| of.mean_us)
                .map_or("unknown".to_owned(), time)
        };
        let judged = |of: &&Ranked| !matches!(of.standing, Standing::Default | Standing::NotJudged);
        let tried = ranking.arms.iter().filter(judged).count();
        let rounds = plural(self.rounds, "round", "rounds");
        match ranking.winner {
            _ if tried == 0 => {
                "Nothing can be told: no setting differs from the default and has a time."
                    .to_owned()
            }
            _ if ranking.arms.iter().all(|of| of.against.is_none()) => {
                format!(
                    "Nothing can be told: it takes {LEAST_ROUNDS} rounds with times, and this has \
                     {rounds}. Give it more: with --rounds, or within one run by a longer job, a \
                     smaller --block or fewer settings."
                )
            }
            Some(DEFAULT) => format!(
                "Leave the default: with every other setting the {what} takes longer, beyond noise \
                 ({rounds})."
            ),
            Some(winner) => {
                let of = ranking.arms.iter().find(|of| of.arm == winner);
                let against = of.and_then(|of| of.against);
                let others = ranking.as_fast.iter().map(|arm| names[*arm].as_str());
                let named: Vec<&str> = others.take(NAMED).collect();
                let others = match ranking.as_fast.len().saturating_sub(NAMED) {
                    _ if named.is_empty() => String::new(),
                    0 => format!(" As fast, as far as this tells: {}.", named.join("; ")),
                    more => format!(
                        " As fast, as far as this tells: {}; and {more} more.",
                        named.join("; ")
                    ),
                };
                format!(
                    "{} makes the {what} shorter: {} instead of {} ({}, {rounds}).{others}",
                    names[winner],
                    mean(winner),
                    mean(DEFAULT),
                    against.map_or(String::new(), change),
                )
            }
            None => {
                let more = match ranking.rounds_needed {
                    Some(rounds) => format!(
                        " If the difference of the fastest is real, about {rounds} rounds show it."
                    ),
                    None => String::new(),
                };
                format!(
                    "Leave the default: no setting makes the {what} shorter beyond noise ({rounds}).{more}"
                )
            }
        }
    }
}

/// `-13.8 % [-14.9 %, -12.7 %]`.
pub(crate) fn change(of: Against) -> String {
    let signed = |ratio: f64| {
        let share = ratio - 1.0;
        format!("{}{}", if share < 0.0 { "" } else { "+" }, percent(share))
    };
    format!(
        "{} [{}, {}]",
        signed(of.ratio),
        signed(of.low),
        signed(of.high)
    )
}

/// What a run did that the runs of the default did not, in a sentence.
pub fn other_work(of: &OtherWork) -> String {
    match of {
        OtherWork::Nothing(default) => {
            format!("It made no NCCL call, and the default {default}.")
        }
        OtherWork::Calls(own, default) => {
            format!("It did other work: {own} NCCL calls, and the default {default}.")
        }
        OtherWork::Function(function, own, default) => {
            format!("It did other work: {own} calls of {function}, and the default {default}.")
        }
        OtherWork::Bytes(own, default) => {
            let (own, default) = sizes_apart(*own, *default);
            format!("It did other work: calls of {own} in all, and the default of {default}.")
        }
    }
}

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(answer: &Answer, out: &mut impl Write) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer)?;
    writeln!(out)
}

/// Writes it as text.
///
/// # Errors
/// Those of `out`.
pub fn text(answer: &Answer, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, true);
    let style = match answer.winner {
        Some(_) => Style::Good,
        None => Style::Open,
    };
    page.styled(style, &answer.summary);
    if !answer.exports.is_empty() {
        page.gap();
        for export in &answer.exports {
            page.plain(export);
        }
    }
    if let Some(csv) = &answer.csv {
        page.gap();
        page.wrap(
            "",
            "",
            &format!(
                "{} says the same to NVIDIA's example tuner (NCCL_TUNER_CONFIG_FILE).",
                word(csv)
            ),
        );
    }
    page.title(&format!(
        "Settings (fastest first; mean over {} of: {}; change with intervals that are 95 % sure \
         together)",
        answer.way,
        of_what(answer)
    ));
    let mut table = Table::new(
        ["setting", answer.way, "time", "change", "verdict"],
        "<>>><",
    );
    for setting in &answer.settings {
        let of = &setting.ranked;
        table.row([
            setting.name.clone(),
            of.trials.to_string(),
            of.mean_us.map_or("-".to_owned(), time),
            of.against.map_or("-".to_owned(), change),
            verdict(of.standing).to_owned(),
        ]);
    }
    page.table(&table, usize::MAX, "settings");
    let told = |setting: &&Setting| !reasons(setting).is_empty();
    let mut told = answer.settings.iter().filter(told).peekable();
    if told.peek().is_some() {
        page.title("Asked but not used, or not judged");
    }
    for setting in told {
        page.line(&format!("{}: {}", setting.name, reasons(setting).join(" ")));
    }
    if !answer.notes.is_empty() {
        page.title("Notes");
        answer.notes.iter().for_each(|note| page.line(note));
    }
    // One run has no interval, and a variant without one hides which is the best.
    let repeated = |setting: &&Setting| setting.ranked.trials > 1;
    let mut repeated: Vec<&Setting> = answer.settings.iter().filter(repeated).collect();
    repeated.sort_by_key(|setting| setting.ranked.arm != DEFAULT);
    let recorded = answer.runs.iter().any(|run| run.capture.is_some());
    if recorded && repeated.len() > 1 {
        let of = |setting: &Setting| format!(" {}/round-*", word(&setting.folder));
        let folders: Vec<String> = repeated.into_iter().map(of).collect();
        page.gap();
        page.next(&format!("ncclscope diff{}", folders.concat()));
    }
    page.finish(out)
}

/// Which time is compared.
pub(crate) fn of_what(answer: &Answer) -> &'static str {
    match answer.measure {
        Some("step") if answer.way == "blocks" => "median step of a block",
        Some("step") => "median step of a run",
        Some("wall") => "from the first communicator to the last call",
        _ => "from the start of the command to its end",
    }
}

pub(crate) fn verdict(of: Standing) -> &'static str {
    match of {
        Standing::Default => "-",
        Standing::Faster => "faster",
        Standing::Slower => "slower",
        Standing::NotApart => "can't be told apart",
        Standing::NotJudged => "not judged",
    }
}

/// Why a setting is not judged, and which variables did not take effect everywhere.
pub(crate) fn reasons(setting: &Setting) -> Vec<&str> {
    let told = setting
        .asked
        .iter()
        .filter(|asked| asked.used >= Used::Partly);
    let why = setting.left_out.iter().map(String::as_str);
    why.chain(told.map(|asked| asked.sentence.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_work_is_said_with_what_the_default_did() {
        assert_eq!(
            other_work(&OtherWork::Nothing(48)),
            "It made no NCCL call, and the default 48."
        );
        assert_eq!(
            other_work(&OtherWork::Bytes(48 << 20, 96 << 20)),
            "It did other work: calls of 48 MiB in all, and the default of 96 MiB."
        );
    }
}
