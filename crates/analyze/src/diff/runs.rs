//! What a run is as a whole, and several runs or variants beside each other.
//!
//! A [`Figures`] is what a report's first lines say of one run. [`changed`] names what went from one run to
//! another and why; [`side_by_side`] sets any number of runs side by side, with repeats of one variant as one
//! column.
//!
//! Rule: the best of several is only named if its interval lies apart from every other's, and one run has
//! none.

use super::{Lack, Run};
use crate::environment::{self, Change, FactKind};
use crate::findings::Finding;
use crate::interval::of_runs;
use crate::summary::{exposed_shares, waiting_share};
use crate::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// The format of [`Variants`].
pub const SCHEMA: &str = "ncclscope.variants/1";

/// What a run is as a whole. What is not known is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// Mean time of a step.
    pub step_us: Option<f64>,
    /// From the first communicator to the last call, on the longest rank.
    pub wall_us: Option<f64>,
    /// Exposed communication of the rank that has most: the part of its time in which nothing computed beside
    /// it.
    pub exposed_share: Option<f64>,
    /// Part of the GPU time in matched operations that was waiting for late ranks.
    pub waiting_share: Option<f64>,
    /// busbw of the operation that moved most bytes, 10⁹ bytes a second.
    pub busbw_gb_per_s: Option<f64>,
    /// Energy of the GPUs that were sampled, from launch to exit, joules.
    pub energy_j: Option<f64>,
    /// Mean energy of a step on all of them, joules.
    pub step_energy_j: Option<f64>,
}

/// One figure in two runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FigureRow {
    /// Its name.
    #[schemars(extend("enum" = [
        "step_us", "wall_us", "exposed_share", "waiting_share", "busbw_gb_per_s", "energy_j", "step_energy_j"
    ]))]
    pub figure: &'static str,
    /// In A, in the unit of the figure.
    pub a: Option<f64>,
    /// In B, in the unit of the figure.
    pub b: Option<f64>,
}

/// The figures by name, in the order of a page.
pub const FIGURES: [&str; 7] = [
    "step_us",
    "wall_us",
    "exposed_share",
    "waiting_share",
    "busbw_gb_per_s",
    "energy_j",
    "step_energy_j",
];

impl Figures {
    pub(super) fn of(report: &Report) -> Figures {
        let moved =
            |o: &&crate::operations::Operation| o.bytes.unwrap_or(0).saturating_mul(o.calls);
        let with = report.operations.iter();
        let with = with.filter(|o| o.busbw_gb_per_s.is_some());
        let energy = report.nodes.energy.as_ref();
        Figures {
            energy_j: energy.map(|energy| energy.energy_j),
            step_energy_j: energy.and_then(|energy| Some(energy.step.as_ref()?.mean_j)),
            step_us: report.steps.as_ref().and_then(|steps| steps.mean_us()),
            wall_us: report.ranks.wall_us.map(|wall| wall.max),
            exposed_share: exposed_shares(report)
                .and_then(|shares| shares.into_iter().max_by(f64::total_cmp)),
            waiting_share: waiting_share(report),
            busbw_gb_per_s: with.rev().max_by_key(moved).and_then(|o| o.busbw_gb_per_s),
        }
    }

    /// A figure by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        match name {
            "step_us" => self.step_us,
            "wall_us" => self.wall_us,
            "exposed_share" => self.exposed_share,
            "waiting_share" => self.waiting_share,
            "busbw_gb_per_s" => self.busbw_gb_per_s,
            "energy_j" => self.energy_j,
            "step_energy_j" => self.step_energy_j,
            _ => None,
        }
    }
}

/// The figures of both, in the order of a page, without those that neither has.
pub(super) fn rows(a: &Figures, b: &Figures) -> Vec<FigureRow> {
    let row = |figure| FigureRow {
        figure,
        a: a.get(figure),
        b: b.get(figure),
    };
    let known = |row: &FigureRow| row.a.is_some() || row.b.is_some();
    FIGURES.into_iter().map(row).filter(known).collect()
}

/// Those of `of` that `than` has not.
pub(super) fn only(of: &[Finding], than: &[Finding]) -> Vec<Finding> {
    let known = |one: &&Finding| than.iter().any(|other| other.is_same(one));
    of.iter().filter(|one| !known(one)).cloned().collect()
}

/// A change of less than this part is not said to be one.
pub const LEAST_CHANGE: f64 = 0.02;

/// Two runs, and what differs between them.
pub(super) struct Compared<'a> {
    /// A and B.
    pub runs: [&'a Run; 2],
    /// Findings that only B has.
    pub new: &'a [Finding],
    /// Findings that only A has.
    pub gone: &'a [Finding],
    /// What changed around them.
    pub environment: &'a [Change],
    /// Some kind of operation is in both.
    pub common: bool,
}

/// Which of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first.
    A,
    /// The second.
    B,
}

/// What changed from A to B, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// What changed.
    pub what: What,
    /// What one of the runs lacks, if it is not complete and if that matters.
    pub incomplete: Vec<(Which, Lack)>,
}

/// What changed.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A run did not come to its end. That comes before all else, because its times are of a part of the job.
    Broken(Which, Box<Finding>),
    /// Both are the same recording.
    SameRecording,
    /// How long a step or the run took is not known of both.
    Unknown,
    /// The time of a step or of the run.
    Time(TimeChange),
}

/// How a time changed.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeChange {
    /// It is the time of a step, not of the run.
    pub of_step: bool,
    /// In A and in B, µs.
    pub us: (f64, f64),
    /// Why.
    pub why: Why,
    /// A finding that costs time or makes results doubtful, which only B has and `why` does not name.
    pub new: Option<Box<Finding>>,
    /// The same that only A has.
    pub gone: Option<Box<Finding>>,
}

/// Why a time changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// It changed by less than [`LEAST_CHANGE`].
    Same,
    /// The runs have no kind of operation in common.
    NothingInCommon,
    /// The run got slower with this finding, which only B has.
    New(Box<Finding>),
    /// The run got faster without this finding, which only A has.
    Gone(Box<Finding>),
    /// No finding says why, but this changed.
    Environment(Change),
    /// No finding says why. These facts of the environment changed, which need not be the reason: another
    /// command, host or GPU, or what one recording does not say. Most often none.
    Nothing(Vec<String>),
}

impl TimeChange {
    /// B / A − 1.
    pub fn share(&self) -> f64 {
        self.us.1 / self.us.0 - 1.0
    }
}

/// What changed from A to B, and why.
pub(super) fn changed(of: &Compared) -> Changed {
    let [a, b] = of.runs;
    let both = [(Which::B, b), (Which::A, a)];
    let same = a.is_same_recording(b);
    let broken = both.into_iter().find_map(|(which, run)| {
        let mut findings = run.row.findings.iter();
        let stopped = findings.find(|finding| finding.kind().is_broken())?;
        Some(What::Broken(which, Box::new(stopped.clone())))
    });
    if let Some(what) = broken.filter(|_| !same) {
        return Changed {
            what,
            incomplete: Vec::new(),
        };
    }
    let lacks = |(which, run): (Which, &Run)| Some((which, run.row.incomplete.first()?.clone()));
    Changed {
        what: if same {
            What::SameRecording
        } else {
            time_change(of).map_or(What::Unknown, What::Time)
        },
        incomplete: both.into_iter().rev().filter_map(lacks).collect(),
    }
}

/// How the time of a step or of the run changed, and why.
fn time_change(of: &Compared) -> Option<TimeChange> {
    let same_steps = of.runs[0].has_steps_of(of.runs[1]);
    let [a, b] = of.runs.map(|run| &run.row.figures);
    let steps = a.step_us.zip(b.step_us).filter(|_| same_steps);
    let steps = steps.map(|both| (true, both));
    let walls = a.wall_us.zip(b.wall_us).map(|both| (false, both));
    let (of_step, us) = steps.or(walls).filter(|(_, (from, _))| *from > 0.0)?;
    let mut change = TimeChange {
        of_step,
        us,
        why: Why::Same,
        new: None,
        gone: None,
    };
    let share = change.share();
    // A fact that one recording lacks need not have changed.
    let known = |change: &Change| change.a.is_some() && change.b.is_some();
    let counts = |change: &&Change| match change.kind {
        FactKind::Placement => false,
        FactKind::Variable => true,
        _ => known(change),
    };
    let first = |of: &[Finding]| of.first().map(|first| Box::new(first.clone()));
    change.why = if !of.common {
        Why::NothingInCommon
    } else if share.abs() < LEAST_CHANGE {
        Why::Same
    } else if let Some(new) = first(of.new).filter(|_| share > 0.0) {
        Why::New(new)
    } else if let Some(gone) = first(of.gone).filter(|_| share <= 0.0) {
        Why::Gone(gone)
    } else {
        let environment = of.environment.iter().find(counts);
        let others = of.environment.iter().map(|change| change.key.clone());
        match environment {
            Some(change) => Why::Environment(change.clone()),
            None => Why::Nothing(others.collect()),
        }
    };
    let matters = |finding: &&Finding| finding.loss.is_some() || finding.kind().is_doubtful();
    let also = |of: &[Finding]| of.iter().find(matters).cloned().map(Box::new);
    if of.common {
        let (is_new, is_gone) = match change.why {
            Why::New(_) => (true, false),
            Why::Gone(_) => (false, true),
            _ => (false, false),
        };
        change.new = also(of.new).filter(|_| !is_new);
        change.gone = also(of.gone).filter(|_| !is_gone);
    }
    Some(change)
}

/// Runs that differ in nothing but when they ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// How it is called: its name if it was given one, else the folder of its first run.
    pub name: String,
    /// Its captures.
    pub captures: Vec<String>,
    /// What differs from the first variant.
    pub differs: Vec<Change>,
    /// The mean over its runs.
    pub mean: Figures,
    /// Lower ends of 95 % intervals over its runs; null for one run.
    pub low: Figures,
    /// Upper ends.
    pub high: Figures,
    /// Findings of all its runs, each once.
    pub findings: Vec<Finding>,
}

/// Any number of runs side by side.
#[derive(Clone, Debug)]
pub struct Variants {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// By the order in which their first runs were named.
    pub variants: Vec<Variant>,
    /// For each figure, the number of the variant that is better than every other beyond its interval; null
    /// where intervals overlap or there are none.
    pub best: Vec<(&'static str, Option<usize>)>,
    /// Which of them is the fastest.
    pub fastest: Fastest,
}

/// Which of several variants is the fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fastest {
    /// By which figure: `step_us`, or `wall_us` if the steps of some are not known.
    pub figure: &'static str,
    /// Which, by their numbers.
    pub which: WhichIsFastest,
}

/// Which variant is the fastest, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichIsFastest {
    /// There is only one.
    OneVariant,
    /// This one, beyond noise.
    Sure(usize),
    /// This one, but some ran once, so it may be chance. `None` if the figure is known of none.
    Unrepeated(Option<usize>),
    /// No one is faster than another beyond noise.
    Open,
    /// The first ones differ by no more than noise, and the others are slower beyond that; fastest first.
    Several {
        /// Those that may be the fastest.
        equal: Vec<usize>,
        /// The others.
        slower: Vec<usize>,
    },
}

/// Sets `runs` side by side; repeats of one variant are one column, in whatever order they come.
pub fn side_by_side(runs: &[Run]) -> Variants {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        let same = |group: &&mut Vec<&Run>| is_repeat(group[0], run);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let variants: Vec<Variant> = groups
        .iter()
        .map(|group| variant(group, groups[0][0]))
        .collect();
    let best: Vec<(&'static str, Option<usize>)> = FIGURES
        .into_iter()
        .map(|figure| (figure, best(&variants, figure)))
        .collect();
    Variants {
        schema: SCHEMA,
        fastest: fastest(&variants, &best),
        variants,
        best,
    }
}

/// Whether two runs are the same thing done twice: they have one name, or neither has a name and nothing but
/// GPUs and hosts differs.
fn is_repeat(a: &Run, b: &Run) -> bool {
    if a.variant.is_some() || b.variant.is_some() {
        return a.variant == b.variant;
    }
    let changes = environment::changes(&a.facts, &b.facts);
    a.row.command == b.row.command
        && changes
            .iter()
            .all(|change| change.kind == FactKind::Placement)
}

fn variant(runs: &[&Run], first: &Run) -> Variant {
    let (mut mean, mut low, mut high) =
        (Figures::default(), Figures::default(), Figures::default());
    for figure in FIGURES {
        let values: Vec<f64> = runs
            .iter()
            .filter_map(|run| run.row.figures.get(figure))
            .collect();
        let of = of_runs(&values);
        let whole = if values.is_empty() {
            None
        } else {
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        for (into, value) in [
            (&mut mean, whole),
            (&mut low, of.map(|of| of.low)),
            (&mut high, of.map(|of| of.high)),
        ] {
            into.set(figure, value);
        }
    }
    let mut findings: Vec<Finding> = Vec::new();
    for run in runs {
        findings.extend(only(&run.row.findings, &findings));
    }
    Variant {
        name: runs[0]
            .variant
            .clone()
            .unwrap_or(runs[0].row.capture.clone()),
        captures: runs.iter().map(|run| run.row.capture.clone()).collect(),
        differs: environment::changes(&first.facts, &runs[0].facts),
        mean,
        low,
        high,
        findings,
    }
}

impl Figures {
    fn set(&mut self, name: &str, value: Option<f64>) {
        match name {
            "step_us" => self.step_us = value,
            "wall_us" => self.wall_us = value,
            "exposed_share" => self.exposed_share = value,
            "waiting_share" => self.waiting_share = value,
            "energy_j" => self.energy_j = value,
            "step_energy_j" => self.step_energy_j = value,
            _ => self.busbw_gb_per_s = value,
        }
    }
}

/// The variant whose figure is better than every other's, beyond all intervals. More bandwidth is better,
/// less of anything else.
fn best(variants: &[Variant], figure: &str) -> Option<usize> {
    let sign = if figure == "busbw_gb_per_s" {
        -1.0
    } else {
        1.0
    };
    let ends = |variant: &Variant| {
        let (low, high) = (variant.low.get(figure)?, variant.high.get(figure)?);
        let (a, b) = (sign * low, sign * high);
        Some((a.min(b), a.max(b)))
    };
    let all: Option<Vec<(f64, f64)>> = variants.iter().map(ends).collect();
    let all = all.filter(|all| all.len() > 1)?;
    (0..all.len()).find(|this| {
        let others = all.iter().enumerate().filter(|(other, _)| other != this);
        others.clone().count() > 0 && others.into_iter().all(|(_, other)| all[*this].1 < other.0)
    })
}

fn fastest(variants: &[Variant], best: &[(&'static str, Option<usize>)]) -> Fastest {
    let of_step = variants.iter().all(|v| v.mean.step_us.is_some());
    let figure = if of_step { "step_us" } else { "wall_us" };
    let which = if variants.len() < 2 {
        WhichIsFastest::OneVariant
    } else if let Some(index) = best
        .iter()
        .find_map(|(name, best)| best.filter(|_| *name == figure))
    {
        WhichIsFastest::Sure(index)
    } else if variants.iter().any(|v| v.captures.len() < 2) {
        let known = variants.iter().enumerate();
        let known = known.filter_map(|(index, v)| Some((index, v.mean.get(figure)?)));
        let shortest = known.min_by(|(_, a), (_, b)| a.total_cmp(b));
        WhichIsFastest::Unrepeated(shortest.map(|(index, _)| index))
    } else {
        leaders(variants, figure).unwrap_or(WhichIsFastest::Open)
    };
    Fastest { figure, which }
}

/// Of variants of which none is best: those that may be, and those that are slower beyond noise; `None` if
/// there are none of these.
fn leaders(variants: &[Variant], figure: &str) -> Option<WhichIsFastest> {
    let known = variants.iter().enumerate().map(|(index, variant)| {
        let ends = (variant.low.get(figure)?, variant.high.get(figure)?);
        Some((index, variant.mean.get(figure)?, ends))
    });
    let mut known = known.collect::<Option<Vec<_>>>()?;
    known.sort_by(|(_, a, _), (_, b, _)| a.total_cmp(b));
    let (_, _, (_, first_high)) = *known.first()?;
    let (equal, slower): (Vec<_>, Vec<_>) =
        (known.iter()).partition(|(_, _, (low, _))| *low <= first_high);
    let numbers =
        |of: Vec<&(usize, f64, (f64, f64))>| of.iter().map(|(index, ..)| *index).collect();
    (!slower.is_empty()).then(|| WhichIsFastest::Several {
        equal: numbers(equal),
        slower: numbers(slower),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(name: &str, mean: f64, half: f64) -> Variant {
        let of = |step_us| Figures {
            step_us: Some(step_us),
            ..Figures::default()
        };
        Variant {
            name: name.to_owned(),
            captures: vec!["1".to_owned(), "2".to_owned()],
            differs: Vec::new(),
            mean: of(mean),
            low: of(mean - half),
            high: of(mean + half),
            findings: Vec::new(),
        }
    }

    #[test]
    fn two_equal_winners_stand_before_the_slower_ones() {
        let variants = [
            variant("default", 18_700.0, 128.0),
            variant("a", 10_900.0, 62.0),
            variant("b", 50_000.0, 289.0),
            variant("c", 10_940.0, 82.0),
        ];
        let found = fastest(&variants, &[("step_us", best(&variants, "step_us"))]);
        let (equal, slower) = (vec![1, 3], vec![0, 2]);
        assert_eq!(found.which, WhichIsFastest::Several { equal, slower });
        assert_eq!(found.figure, "step_us");
    }

    #[test]
    fn variants_that_all_overlap_have_no_winner() {
        let variants = [
            variant("a", 100.0, 20.0),
            variant("b", 110.0, 20.0),
            variant("c", 115.0, 20.0),
        ];
        let found = fastest(&variants, &[("step_us", None)]);
        assert_eq!(found.which, WhichIsFastest::Open);
    }
}
