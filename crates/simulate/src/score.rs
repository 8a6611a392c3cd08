//! What a report says of random jobs, held against the truth.
//!
//! A [`Told`] is what the first finding about lost time says, whoever read it from whatever. [`Matrix::add`]
//! files it under its cause and evidence.
//!
//! Rule: a cause that costs less than 5 % of the run need not be told, and a finding that costs less than
//! that blames nobody.

use crate::cause::{Does, Why};
use crate::drawn::{Culprit, Drawn, Outcome};
use crate::evidence::Ranks;
use crate::play::Played;
use std::collections::BTreeMap;
use std::fmt;

/// What must be told, and what must not be told without reason: a part of the run.
pub const MATTERS: f64 = 0.05;
/// Bounds that are further apart say nothing: a part of the run.
const WIDE: f64 = 0.5;
/// A price is right within this part of the truth, or within [`MATTERS`] of the run.
const CLOSE: f64 = 0.15;
/// A step is right within this part of the truth.
const STEP_CLOSE: f64 = 0.01;

/// What a report says first about lost time.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Whom it names.
    pub ranks: Vec<usize>,
    /// Why; `None` if it says that it is not known.
    pub why: Option<Why>,
    /// The price, s.
    pub loss: Option<f64>,
    /// Its interval, s.
    pub interval: Option<(f64, f64)>,
    /// Why its GPU is busy: it runs more kernels (true), or the same kernels take longer.
    pub more_kernels: Option<bool>,
}

/// What a report says of the steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToldSteps {
    /// How many they are, up to the end of the run.
    pub n: u64,
    /// The mean step, s.
    pub mean: f64,
    /// So many of them may be a step of the program.
    pub times_repeat: u64,
    /// So many steps of the program may be one of them.
    pub equal_parts: u64,
}

/// How the steps of a report are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepsAre {
    /// As long as those of the program.
    Right,
    /// Parts or multiples, and the report says so.
    Labelled,
    /// So many times as long.
    Wrong(f64),
    /// Not told.
    Untold,
}

impl StepsAre {
    /// Holds what a report says of the steps against the same steps of the program. A report leaves out those
    /// of the start-up, and those before the last rank joined. What it takes for the end of a step may be
    /// anywhere in a step, so its last one may be the one before the program's.
    pub fn new(told: Option<ToldSteps>, played: &Played) -> StepsAre {
        let Some(told) = told else {
            return StepsAre::Untold;
        };
        // How many times as long one is, if so many steps of the program make so many of these.
        let times = |program: u64, these: u64| {
            let (program, these) = (program as f64, these as f64);
            let n = (told.n as f64 * program / these).round() as usize;
            let truths = played
                .mean_of_steps(n)
                .or(played.mean_of_steps(played.steps - 1))?;
            let times = truths.map(|truth| told.mean / truth * these / program);
            times
                .into_iter()
                .min_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()))
        };
        let is =
            |program, these| times(program, these).is_some_and(|of| (of - 1.0).abs() <= STEP_CLOSE);
        match () {
            () if is(1, 1) => StepsAre::Right,
            () if is(1, told.times_repeat) || is(told.equal_parts, 1) => StepsAre::Labelled,
            () => times(1, 1).map_or(StepsAre::Untold, StepsAre::Wrong),
        }
    }
}

/// How a report did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The right rank and cause, or rightly nothing.
    Right,
    /// It names another rank.
    WrongRank,
    /// The right rank, and another cause.
    WrongCause,
    /// It blames nobody, and says between which parts of the run GPUs stand still, or what the late host
    /// costs at most: the truth is in that.
    Bounds,
    /// It says nothing of what matters.
    Silent,
    /// It blames somebody, and nothing matters.
    FalseAlarm,
}

/// What is known of one job and its report.
#[derive(Clone, Debug)]
pub struct Scored {
    /// The row of the matrix.
    pub cause: &'static str,
    /// What the report was made from.
    pub evidence: &'static str,
    /// How it did.
    pub verdict: Verdict,
    /// Price and truth, s, if both are there and the verdict is right.
    pub price: Option<(f64, f64)>,
    /// Whether the interval of the price holds the truth, and its half width as a part of the price.
    pub interval: Option<(bool, f64)>,
    /// Length of the run, s.
    pub run: f64,
    /// How its steps are.
    pub steps: StepsAre,
    /// Whether it is right why a GPU is busy, if it says that of the right rank.
    pub kernels: Option<bool>,
}

/// What a report is made from, in a few words.
fn evidence(drawn: &Drawn) -> &'static str {
    let evidence = &drawn.evidence;
    if evidence.absent.is_some() {
        return "a rank is absent";
    }
    if evidence.late.is_some() {
        return "a rank joined late";
    }
    if drawn.hosts > 1 && !evidence.clocks.is_empty() {
        return "hosts with other clocks";
    }
    match (evidence.events, evidence.windows) {
        (_, Ranks::All) => "windows of all ranks",
        (_, Ranks::Only(_) | Ranks::But(_)) => "windows of some ranks",
        (false, Ranks::None) => "host times only",
        (true, Ranks::None) if evidence.stream_waits => "stream waits, no windows",
        (true, Ranks::None) => "GPU times only",
    }
}

/// Holds what a report says against the truth. `still` is between which parts of the run GPUs stand still, if
/// it says that and blames nobody.
pub fn score(
    drawn: &Drawn,
    outcome: &Outcome,
    told: Option<&Told>,
    still: Option<(f64, f64)>,
    steps: StepsAre,
) -> Scored {
    let run = outcome.played.seconds;
    let matters = |culprit: &&Culprit| culprit.loss >= MATTERS * run;
    let first = outcome.culprits.first();
    let cause = match (first, first.filter(matters)) {
        (None, _) => "none",
        (Some(_), None) => "hidden",
        (Some(_), Some(_)) if outcome.culprits.iter().filter(matters).count() > 1 => "two causes",
        (_, Some(culprit)) => culprit.cause.name(),
    };
    let names = |culprit: &&Culprit| match culprit.why {
        Why::InTurns => told.is_some_and(|told| told.why == Some(Why::InTurns)),
        _ => told.is_some_and(|told| told.ranks.iter().any(|rank| culprit.ranks.contains(rank))),
    };
    let agrees = |culprit: &&Culprit| told.is_some_and(|told| told.why == Some(culprit.why));
    let real = || outcome.culprits.iter().filter(matters);
    let named = real()
        .find(|c| names(c) && agrees(c))
        .or_else(|| real().find(names));
    // A price below this says that there is no problem.
    let told =
        told.filter(|told| named.is_some() || told.loss.is_none_or(|loss| loss >= MATTERS * run));
    let verdict = match (first.filter(matters), told, named) {
        (None, None, _) => Verdict::Right,
        // What costs a little less than what matters may be told all the same.
        (None, Some(told), _) => {
            let known = |c: &Culprit| c.ranks.iter().any(|rank| told.ranks.contains(rank));
            let close = told.loss.is_some_and(|loss| loss <= 2.0 * MATTERS * run);
            if outcome.culprits.iter().any(known) && close {
                Verdict::Right
            } else {
                Verdict::FalseAlarm
            }
        }
        (Some(culprit), None, _) => {
            let holds = |(low, high): &(f64, f64)| high - low <= WIDE && culprit.loss <= high * run;
            still
                .filter(holds)
                .map_or(Verdict::Silent, |_| Verdict::Bounds)
        }
        (Some(_), Some(_), None) => Verdict::WrongRank,
        (Some(_), Some(_), Some(culprit)) if agrees(&culprit) => Verdict::Right,
        (Some(_), Some(_), Some(_)) => Verdict::WrongCause,
    };
    let price = named.and_then(|culprit| Some((told?.loss?, culprit.loss)));
    let interval = price.and_then(|(loss, truth)| {
        let (low, high) = told?.interval?;
        Some(((low..=high).contains(&truth), (high - low) / 2.0 / loss))
    });
    let kernels = named.and_then(|culprit| {
        let more = told?.more_kernels?;
        let slower = matches!(culprit.cause.does, Does::Clock(_));
        Some(more != slower)
    });
    Scored {
        kernels,
        cause,
        evidence: evidence(drawn),
        verdict,
        price,
        interval,
        run,
        steps,
    }
}

impl Scored {
    /// Whether the price is as right as it is to be.
    pub fn is_close(&self) -> Option<bool> {
        let (price, truth) = self.price?;
        Some((price - truth).abs() <= (CLOSE * truth).max(MATTERS * self.run))
    }
}

#[derive(Clone, Debug, Default)]
struct Row {
    jobs: usize,
    verdicts: BTreeMap<Verdict, usize>,
    errors: Vec<f64>,
    close: usize,
    intervals: usize,
    hold: usize,
    widths: Vec<f64>,
}

impl Row {
    fn add(&mut self, scored: &Scored) {
        self.jobs += 1;
        *self.verdicts.entry(scored.verdict).or_default() += 1;
        if let Some((price, truth)) = scored.price {
            self.errors.push((price / truth - 1.0).abs());
            self.close += usize::from(scored.is_close() == Some(true));
        }
        if let Some((holds, width)) = scored.interval {
            self.intervals += 1;
            self.hold += usize::from(holds);
            self.widths.push(width);
        }
    }
}

/// Reports of many jobs, by cause and by evidence.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    causes: BTreeMap<&'static str, Row>,
    evidence: BTreeMap<&'static str, Row>,
    all: Row,
    steps: Vec<StepsAre>,
    kernels: Vec<bool>,
}

impl Matrix {
    /// Adds a job.
    pub fn add(&mut self, scored: &Scored) {
        self.causes.entry(scored.cause).or_default().add(scored);
        self.evidence
            .entry(scored.evidence)
            .or_default()
            .add(scored);
        self.all.add(scored);
        self.steps.push(scored.steps);
        self.kernels.extend(scored.kernels);
    }

    /// How many jobs have this verdict.
    pub fn with(&self, verdict: Verdict) -> usize {
        self.all.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// How many jobs there are.
    pub fn jobs(&self) -> usize {
        self.all.jobs
    }

    /// How many prices are as right as they are to be, and how many there are.
    pub fn prices(&self) -> (usize, usize) {
        (self.all.close, self.all.errors.len())
    }

    /// How many say rightly why a GPU is busy, and how many say it.
    pub fn kernels(&self) -> (usize, usize) {
        let right = self.kernels.iter().filter(|right| **right);
        (right.count(), self.kernels.len())
    }

    /// How many jobs have right steps, labelled ones, wrong ones, and none.
    pub fn steps(&self) -> [usize; 4] {
        let of = |is: fn(&StepsAre) -> bool| self.steps.iter().filter(|steps| is(steps)).count();
        [
            of(|steps| *steps == StepsAre::Right),
            of(|steps| *steps == StepsAre::Labelled),
            of(|steps| matches!(steps, StepsAre::Wrong(_))),
            of(|steps| *steps == StepsAre::Untold),
        ]
    }
}

fn median(of: &[f64]) -> Option<f64> {
    let mut of = of.to_vec();
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied()
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let percent =
            |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{:.0}", 100.0 * of));
        let row = |f: &mut fmt::Formatter, name: &str, row: &Row| {
            let of = |verdict| row.verdicts.get(&verdict).copied().unwrap_or(0);
            writeln!(
                f,
                "| {name} | {} | {} | {} | {} | {} | {} | {} | {} of {} | {} | {} of {} | {} |",
                row.jobs,
                of(Verdict::Right),
                of(Verdict::WrongRank),
                of(Verdict::WrongCause),
                of(Verdict::Bounds),
                of(Verdict::Silent),
                of(Verdict::FalseAlarm),
                row.close,
                row.errors.len(),
                percent(median(&row.errors)),
                row.hold,
                row.intervals,
                percent(median(&row.widths)),
            )
        };
        let head = |f: &mut fmt::Formatter, by: &str| {
            writeln!(
                f,
                "| {by} | jobs | right | wrong rank | wrong cause | bounds | silent | false alarm | \
                 price right | median error, % | interval holds | half width, % |"
            )?;
            writeln!(f, "|---|---|---|---|---|---|---|---|---|---|---|---|")
        };
        head(f, "cause")?;
        for (name, of) in &self.causes {
            row(f, name, of)?;
        }
        row(f, "all", &self.all)?;
        writeln!(f)?;
        head(f, "evidence")?;
        for (name, of) in &self.evidence {
            row(f, name, of)?;
        }
        let [right, labelled, wrong, untold] = self.steps();
        writeln!(
            f,
            "\nSteps: {right} right, {labelled} labelled as parts or multiples, {wrong} wrong, {untold} not \
             told."
        )?;
        let (right, told) = self.kernels();
        writeln!(f, "Why a GPU is busy: {right} of {told} are right.")
    }
}
