//! Is everything here? What NCCL announced against what was recorded and timed.
//!
//! A call that NCCL announced is either recorded or lost. A recorded call has a row, or an entry in the
//! totals if only totals were asked for. Lost calls are counted by cause. The recorder's causes are
//! [`capture::live::CAUSES`]; reading adds:
//!
//! - `rotated`: in a trace file that was removed to stay within `NCCLSCOPE_MAX_SIZE`; counted in the totals;
//! - `damaged`: in a block that is damaged or missing;
//! - `elsewhere`: announced after the last flush, and the live part that holds them is on another host;
//! - `running`: announced after the last flush, and the live part that holds them is with a job that still
//!   runs;
//! - `gone`: announced after the last flush, and the live part that held them is nowhere any more;
//! - `moving`: the recorder was folding calls into the totals while they were read;
//! - `in_birth`: its number was taken and its row not there yet when the process ended or was stopped;
//! - `unexplained`: none of the above, so the figures do not add up, and the report says so.
//!
//! Calls that no recorder here knows of are counted apart, in `missing_at_least`. These are calls of ranks
//! that are not here, and calls that a rank made after the end of its recording. Other ranks' operations
//! prove them.
//!
//! Rule: `announced` = `recorded` + all of `lost`, for each process and for the job. Where more is recorded
//! than was announced, `adds_up` is false.

use crate::absent::AbsentRow;
use crate::evidence::Found;
use crate::executions::{ByCause, Steps, CAUSES as UNTIMED};
use crate::graphs;
use crate::subject::ProcessId;
use capture::counts::ONE_SIDED as ONE_SIDED_CALLS;
use capture::live::{Cause, CAUSES, ODDS};
use schemars::JsonSchema;
use serde::Serialize;
use setup::recorded::Mask;
use std::collections::{BTreeMap, HashMap};
use tables::{Capture, LiveSource, Newest, Process};

/// What was announced, recorded, timed and lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Completeness {
    /// Calls that NCCL announced.
    pub announced: u64,
    /// Calls with all that was asked for.
    pub recorded: u64,
    /// Calls with a GPU time.
    pub timed: u64,
    /// Calls without a row, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Ranks that are not here.
    pub absent: Vec<AbsentRow>,
    /// Calls beyond `announced` that ranks made for certain, whether they are here or not.
    pub missing_at_least: u64,
    /// Whether `announced` is known: without its live part, a process may have announced more.
    pub announced_is_lower_bound: bool,
    /// Whether the figures add up.
    pub adds_up: bool,
    /// Recorded calls without a GPU time, by cause; `captured` are templates, which are not executed.
    pub untimed: BTreeMap<String, u64>,
    /// Whether there is something to do: no setting of ours gives a file of another tool more.
    #[serde(skip)]
    pub has_remedies: bool,
    /// Launches of CUDA graphs with NCCL calls; null if files of another tool do not show them.
    pub graph_launches: Option<u64>,
    /// Calls that these executed, each captured call once a launch. They are not among `announced`, because
    /// NCCL announces a captured call once. Null as `graph_launches`.
    pub in_graphs: Option<u64>,
    /// Why calls were not counted or have no row, with a number: NCCL did not announce them, they are
    /// one-sided, or they ran in CUDA graphs. Empty if all were.
    pub unseen: BTreeMap<String, u64>,
    /// Callbacks without effect, by cause.
    pub odd: BTreeMap<String, u64>,
    /// Processes that are not complete, or differ otherwise.
    #[serde(skip)]
    pub ranks: Vec<RankCompleteness>,
    /// Whether another host may have calls that `ncclscope collect` brings.
    #[serde(skip)]
    pub collectable: bool,
    /// Whether calls found no row because the user allowed the live part less than the recorder would take.
    #[serde(skip)]
    pub small_memory: bool,
}

/// What happened to the recorder of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// NCCL did not announce all kinds of events that were asked for.
    Mask {
        /// The kinds that were asked for, as NCCL's mask.
        asked: u32,
        /// The kinds that were missing.
        missing: u32,
        /// From when on, ns since 1970.
        from_ns: i64,
        /// Until when; `None` is the end of the process.
        until_ns: Option<i64>,
    },
    /// Its trace file could not be written: the error of the system.
    Write(u32),
    /// It switched itself off after a failure.
    Off,
}

/// One process that is not complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RankCompleteness {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// Calls that NCCL announced to it.
    pub announced: u64,
    /// Calls with all that was asked for.
    pub recorded: u64,
    /// Calls with a GPU time.
    pub timed: u64,
    /// Calls without a row, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Callbacks without effect, by cause.
    pub odd: BTreeMap<String, u64>,
    /// Calls beyond `announced` that it made for certain: operations that ended on other ranks prove them.
    pub missing_at_least: u64,
    /// Where its open rows and counters were read; without them, where they are.
    #[schemars(extend("enum" = [
        "adopted", "here", "snapshot", "other tool", "elsewhere", "running", "gone", "unreadable", "unknown"
    ]))]
    pub live: &'static str,
    /// What happened to its recorder, if not the usual.
    #[serde(skip)]
    pub recorder: Option<Failure>,
    /// Its trace file, relative to the capture.
    #[serde(skip)]
    pub file: String,
    /// Whether this says something.
    #[serde(skip)]
    differs: bool,
}

impl RankCompleteness {
    /// Whether something of it is missing, or happened to its recorder.
    pub fn lacks(&self) -> bool {
        let calls = !self.lost.is_empty() || self.missing_at_least > 0;
        let files = !matches!(self.live, "adopted" | "here" | "snapshot" | "other tool");
        calls || files || self.recorded != self.announced || self.recorder.is_some()
    }
}

/// Causes for which a call is lost for good.
pub const LASTING: [&str; 9] = [
    "rows_full",
    "size_limit",
    "write_failed",
    "totals_full",
    "communicators_full",
    "stale_context",
    "ring_full",
    "rotated",
    "gone",
];
/// Causes for which a call may still turn up at a later look, while a job runs.
pub const PASSING: [&str; 6] = [
    "damaged",
    "elsewhere",
    "running",
    "moving",
    "in_birth",
    "unexplained",
];
/// Why calls are not here though their rank is.
const NOT_HERE: [&str; 4] = ["damaged", "elsewhere", "gone", "unexplained"];
/// Where live parts are with calls that nobody can count any more.
const UNKNOWABLE: [&str; 2] = ["gone", "unreadable"];
/// Of a rank's calls, such a part must be missing before that is said first.
const LEAST_MISSING: f64 = 0.01;

/// The largest NCCLSCOPE_MEMORY, which is its default.
const MOST_MEMORY: u64 = 64 << 20;

/// Cause of calls that NCCL made and did not announce.
pub const MASKED: &str = "mask_changed";
/// Cause of calls that NCCL tells no profiler of: its one-sided calls, of which only the number is known.
pub const ONE_SIDED: &str = "one_sided";

/// Why not all calls were counted, or why some were only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// NCCL made calls and did not announce them, because somebody changed the mask of its profiler.
    Masked,
    /// Calls ran in CUDA graphs that were not seen.
    InGraphs,
    /// So many one-sided calls are only counted.
    OneSided(u64),
}

/// Calls that are not here though their ranks are: in damaged files, or in a memory that is not here.
#[derive(Clone, Debug, PartialEq)]
pub struct CallsNotHere<'a> {
    /// The ranks that lack a part of their calls that matters.
    pub ranks: Vec<&'a RankCompleteness>,
    /// Calls of them that are not here.
    pub calls: u64,
    /// All calls of them.
    pub of: u64,
    /// Why.
    pub causes: Vec<&'static str>,
}

impl Completeness {
    /// Whether ranks are not here, or lack calls that others prove.
    pub fn lacks_ranks(&self) -> bool {
        !self.absent.is_empty() || self.ranks.iter().any(|rank| rank.missing_at_least > 0)
    }

    /// What the ranks that are here lack. `None` if no rank lacks a part of its calls that matters.
    pub fn not_here(&self) -> Option<CallsNotHere<'_>> {
        let missing = |rank: &RankCompleteness| -> u64 {
            let causes = NOT_HERE.iter().filter_map(|cause| rank.lost.get(*cause));
            causes.copied().fold(0, u64::saturating_add)
        };
        let matters = |rank: &&RankCompleteness| {
            missing(rank) as f64 >= LEAST_MISSING * rank.announced as f64 && missing(rank) > 0
        };
        let ranks: Vec<&RankCompleteness> = self.ranks.iter().filter(matters).collect();
        ranks.first()?;
        let sum = |of: &dyn Fn(&RankCompleteness) -> u64| {
            ranks
                .iter()
                .map(|rank| of(rank))
                .fold(0, u64::saturating_add)
        };
        let (calls, of) = (sum(&missing), sum(&|rank| rank.announced));
        let held = |cause: &&&str| ranks.iter().any(|rank| rank.lost.contains_key(**cause));
        let causes = NOT_HERE.iter().filter(held).copied().collect();
        Some(CallsNotHere {
            causes,
            calls,
            of,
            ranks,
        })
    }

    /// The ranks of which the last calls may be lost: their live parts are gone or can't be read. Nobody
    /// knows how many calls were only there.
    pub fn last_calls_unknown(&self) -> Vec<&RankCompleteness> {
        let lacks = |rank: &&RankCompleteness| UNKNOWABLE.contains(&rank.live);
        self.ranks.iter().filter(lacks).collect()
    }

    /// Why calls were not counted, or only counted; `None` if all were recorded.
    pub fn not_counted(&self) -> Option<NotCounted> {
        if self.unseen.contains_key(MASKED) {
            return Some(NotCounted::Masked);
        }
        if self.unseen.keys().any(|why| why != ONE_SIDED) {
            return Some(NotCounted::InGraphs);
        }
        self.unseen
            .get(ONE_SIDED)
            .copied()
            .map(NotCounted::OneSided)
    }

    /// The account of nothing, to begin with.
    pub fn new() -> Completeness {
        Completeness {
            adds_up: true,
            graph_launches: Some(0),
            in_graphs: Some(0),
            ..Completeness::default()
        }
    }

    /// Adds a process that was walked, with announced calls that have a GPU time, that have none by cause,
    /// and that were captured.
    pub fn add(
        &mut self,
        process: &Process,
        steps: &Steps,
        timed: u64,
        untimed: &ByCause,
        captured: u64,
    ) {
        let account = account(process, steps.calls(), steps.tickets());
        let odd = odd(process);
        self.announced = self.announced.saturating_add(account.announced);
        self.recorded = self.recorded.saturating_add(account.recorded);
        self.timed = self.timed.saturating_add(timed);
        let open = !process.is_whole() && process.newest != Newest::Here;
        // Another tool shows some of the calls, and does not say how many there were.
        let is_part = process.counters.is_none() || process.other_tool().is_some();
        self.announced_is_lower_bound |= is_part || open;
        self.collectable |= process.is_collectable();
        let memory = process.fact("env.NCCLSCOPE_MEMORY").and_then(units::bytes);
        self.small_memory |= account.lost.contains_key(CAUSES[Cause::RowsFull as usize])
            && memory.is_some_and(|bytes| bytes < MOST_MEMORY);
        self.adds_up &= account.adds_up;
        add_all(&mut self.lost, &account.lost);
        add_all(&mut self.odd, &odd);
        add(&mut self.untimed, "captured", captured);
        for (cause, n) in UNTIMED.iter().zip(untimed) {
            add(&mut self.untimed, cause.name(), *n);
        }
        let graphs = graphs::seen(process);
        let known = process.knows_graphs();
        self.graph_launches = plus(self.graph_launches, known.then_some(graphs.launches));
        self.in_graphs = plus(self.in_graphs, known.then_some(graphs.executions));
        for (cause, n) in graphs.unseen {
            add(&mut self.unseen, cause, n);
        }
        if let Some(counts) = process.setup.counts.last() {
            let calls = ONE_SIDED_CALLS.iter().map(|name| counts.get(name));
            add(
                &mut self.unseen,
                ONE_SIDED,
                calls.fold(0, u64::saturating_add),
            );
        }
        if is_masked(process) {
            add(&mut self.unseen, MASKED, 1);
            self.announced_is_lower_bound = true;
        }
        let recorder = recorder(process);
        let differs = !account.lost.is_empty()
            || !account.adds_up
            || !odd.is_empty()
            || process.live == LiveSource::None
            || recorder.is_some();
        // Others may prove that it made more calls.
        if differs || !process.is_whole() {
            self.ranks.push(RankCompleteness {
                process: ProcessId::of(process),
                announced: account.announced,
                recorded: account.recorded,
                timed,
                lost: account.lost,
                odd,
                missing_at_least: 0,
                live: match process.live {
                    LiveSource::Adopted => "adopted",
                    LiveSource::Here => "here",
                    LiveSource::Snapshot => "snapshot",
                    LiveSource::OtherTool => "other tool",
                    LiveSource::None => match process.newest {
                        Newest::Elsewhere => "elsewhere",
                        Newest::Running => "running",
                        Newest::Gone => "gone",
                        Newest::Unreadable => "unreadable",
                        Newest::Here | Newest::Unknown => "unknown",
                    },
                },
                recorder,
                file: process.file.display().to_string(),
                differs,
            });
        }
    }

    /// Adds the ranks that are not here, and the calls that others prove.
    pub fn absent(&mut self, rows: Vec<AbsentRow>, found: &Found, capture: &Capture) {
        let missing = rows.iter().map(|row| row.calls_at_least);
        self.missing_at_least = missing.fold(0, u64::saturating_add);
        self.announced_is_lower_bound |= !rows.is_empty();
        self.absent = rows;
        let processes = capture.processes.iter();
        let partial: HashMap<String, u64> = processes
            .zip(&found.partial)
            .map(|(process, n)| (process.file.display().to_string(), *n))
            .collect();
        for rank in &mut self.ranks {
            let proved = partial.get(&rank.file).copied().unwrap_or(0);
            // What is known to be lost is counted already.
            let known = rank.lost.values().copied().fold(0, u64::saturating_add);
            rank.missing_at_least = proved.saturating_sub(known);
            self.missing_at_least = self.missing_at_least.saturating_add(rank.missing_at_least);
        }
        self.ranks
            .retain(|rank| rank.differs || rank.missing_at_least > 0);
    }

    /// Adds calls in graphs that were not seen, and that other ranks prove.
    pub fn more_in_graphs(&mut self, calls: u64) {
        add(&mut self.unseen, graphs::MORE_ON_OTHERS, calls);
    }

    /// Takes in the account of later processes.
    pub fn merge(&mut self, later: Completeness) {
        self.announced = self.announced.saturating_add(later.announced);
        self.recorded = self.recorded.saturating_add(later.recorded);
        self.timed = self.timed.saturating_add(later.timed);
        self.announced_is_lower_bound |= later.announced_is_lower_bound;
        self.collectable |= later.collectable;
        self.small_memory |= later.small_memory;
        self.adds_up &= later.adds_up;
        add_all(&mut self.lost, &later.lost);
        add_all(&mut self.odd, &later.odd);
        add_all(&mut self.untimed, &later.untimed);
        add_all(&mut self.unseen, &later.unseen);
        self.graph_launches = plus(self.graph_launches, later.graph_launches);
        self.in_graphs = plus(self.in_graphs, later.in_graphs);
        self.ranks.extend(later.ranks);
    }
}

fn add(to: &mut BTreeMap<String, u64>, cause: &str, n: u64) {
    if n > 0 {
        let count = to.entry(cause.to_owned()).or_insert(0);
        *count = count.saturating_add(n);
    }
}

/// A sum that is known only if both parts are.
fn plus(sum: Option<u64>, part: Option<u64>) -> Option<u64> {
    Some(sum?.saturating_add(part?))
}

fn add_all(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    from.iter().for_each(|(cause, n)| add(to, cause, *n));
}

/// Takes up to `n` from a cause; returns how many that were.
fn take(from: &mut BTreeMap<String, u64>, cause: &str, n: u64) -> u64 {
    let Some(count) = from.get_mut(cause) else {
        return 0;
    };
    let taken = n.min(*count);
    *count -= taken;
    if *count == 0 {
        from.remove(cause);
    }
    taken
}

struct Account {
    announced: u64,
    recorded: u64,
    lost: BTreeMap<String, u64>,
    adds_up: bool,
}

/// The account of one process with `rows` rows and tickets below `seen`.
fn account(process: &Process, rows: u64, seen: u64) -> Account {
    let counters = process.counters.as_ref();
    let cause = |cause: Cause| {
        counters
            .and_then(|c| c.lost.get(cause as usize))
            .copied()
            .unwrap_or(0)
    };
    let folded = process
        .totals
        .iter()
        .fold(0u64, |sum, t| sum.saturating_add(t.folded));
    let rowless = process
        .totals
        .iter()
        .fold(0u64, |sum, t| sum.saturating_add(t.rowless));
    // Calls that found the totals full too. Such a call is counted twice: here, and as a call without a row,
    // or under the cause for which its row was to be folded. Profile mode asks for folding, so its calls have
    // no second cause.
    let totals_full = cause(Cause::TotalsFull);
    let full_at_birth = cause(Cause::RowsFull)
        .saturating_sub(rowless)
        .min(totals_full);
    let full_at_fold = totals_full - full_at_birth;
    let rotated = process.rotated;
    let unwanted = cause(Cause::SizeLimit)
        .saturating_add(cause(Cause::WriteFailed))
        .saturating_add(rotated.saturating_sub(process.rotated_unlisted));
    let asked = process.fact("mode") == Some("profile");
    let wanted = folded.saturating_add(full_at_fold).saturating_sub(unwanted);
    let wanted_full = if asked { full_at_fold.min(wanted) } else { 0 };
    let rows = rows.saturating_add(process.forgotten);
    let recorded = rows.saturating_add(wanted - wanted_full);
    let mut lost = BTreeMap::new();
    add(
        &mut lost,
        CAUSES[Cause::RowsFull as usize],
        cause(Cause::RowsFull) - full_at_birth,
    );
    for plain in [
        Cause::SizeLimit,
        Cause::WriteFailed,
        Cause::CommsFull,
        Cause::StaleContext,
        Cause::RingFull,
    ] {
        add(&mut lost, CAUSES[plain as usize], cause(plain));
    }
    add(&mut lost, "rotated", rotated);
    add(
        &mut lost,
        CAUSES[Cause::TotalsFull as usize],
        full_at_birth + wanted_full,
    );
    // Tickets count up from 0, so the highest is a lower bound where the counter is not here or is from
    // before it.
    let mut announced = counters.map_or(0, |c| c.announced).max(seen);
    let sum = |lost: &BTreeMap<String, u64>| {
        let lost = lost.values();
        lost.fold(recorded, |sum, n| sum.saturating_add(*n))
    };
    // The recorder counts a batch of calls as lost before it folds them, so their rows may still be here.
    let mut twice = sum(&lost).saturating_sub(announced);
    twice = twice.min(unwanted.saturating_sub(folded.saturating_add(full_at_fold)));
    for early in [Cause::WriteFailed, Cause::SizeLimit] {
        twice -= take(&mut lost, CAUSES[early as usize], twice);
    }
    let explained = sum(&lost);
    if process.moving {
        announced = announced.max(explained);
    }
    let gap = announced.saturating_sub(explained);
    let in_birth = counters.map_or(0, |c| c.in_birth).min(gap);
    add(&mut lost, "in_birth", in_birth);
    let gap = gap - in_birth;
    if gap > 0 {
        let damaged = process.shapeless > 0 || process.bad_blocks > 0;
        let why = match process.live {
            _ if damaged => "damaged",
            _ if process.moving => "moving",
            LiveSource::None | LiveSource::OtherTool | LiveSource::Snapshot => match process.newest
            {
                Newest::Elsewhere | Newest::Unknown => "elsewhere",
                Newest::Running => "running",
                Newest::Gone => "gone",
                Newest::Unreadable => "damaged",
                // An ended process leaves a snapshot beside its trace file; this one was removed or can't be
                // read.
                Newest::Here if process.live == LiveSource::None => "damaged",
                Newest::Here => "unexplained",
            },
            _ => "unexplained",
        };
        add(&mut lost, why, gap);
    }
    Account {
        announced,
        recorded,
        adds_up: explained <= announced && !lost.contains_key("unexplained"),
        lost,
    }
}

fn odd(process: &Process) -> BTreeMap<String, u64> {
    let mut odd = BTreeMap::new();
    let Some(counters) = &process.counters else {
        return odd;
    };
    for (name, n) in ODDS.iter().zip(&counters.odd) {
        add(&mut odd, name, *n);
    }
    // These calls have rows; their replays have none.
    let templates = counters
        .lost
        .get(Cause::TemplatesFull as usize)
        .copied()
        .unwrap_or(0);
    add(&mut odd, CAUSES[Cause::TemplatesFull as usize], templates);
    odd
}

/// Whether NCCL did not announce all calls of a process, because somebody changed its profiler's mask.
pub(crate) fn is_masked(process: &Process) -> bool {
    process.setup.masks.iter().any(hides_calls)
}

/// Whether NCCL makes calls then that it does not announce.
fn hides_calls(mask: &Mask) -> bool {
    // Coll, P2p, CollApi and P2pApi, as NCCL numbers them.
    mask.missing & (1 << 1 | 1 << 2 | 1 << 9 | 1 << 10) != 0
}

/// What happened to the recorder of a process.
fn recorder(process: &Process) -> Option<Failure> {
    if let Some(first) = process.setup.masks.first() {
        let last = process.setup.masks.last().unwrap_or(first);
        return Some(Failure::Mask {
            asked: first.asked,
            missing: first.missing,
            from_ns: first.at_ns,
            until_ns: (last.missing == 0).then_some(last.at_ns),
        });
    }
    let counters = process.counters.as_ref()?;
    match counters.write_errno {
        0 => (counters.state == 2).then_some(Failure::Off),
        errno => Some(Failure::Write(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_lasting_or_passing() {
        // A template is no call that ran.
        let templates = CAUSES[Cause::TemplatesFull as usize];
        for cause in CAUSES.iter().filter(|cause| **cause != templates) {
            assert!(LASTING.contains(cause), "{cause}");
        }
        let source = include_str!("completeness.rs");
        let listed = source
            .lines()
            .filter_map(|line| line.strip_prefix("//! - `"));
        let listed: Vec<&str> = listed.filter_map(|line| line.split('`').next()).collect();
        assert_eq!(listed.len(), 8);
        for cause in listed {
            assert!(
                LASTING.contains(&cause) != PASSING.contains(&cause),
                "{cause}"
            );
        }
    }
    use tables::process::Counters;
    use tables::{Call, Total};

    /// A process with `rows` rows, (folded, rowless) in the totals and counters.
    fn process(rows: u64, totals: (u64, u64), announced: u64, lost: [u64; 5]) -> Process {
        Process {
            calls: (0..rows)
                .map(|ticket| Call {
                    ticket,
                    ..Call::default()
                })
                .collect(),
            totals: vec![Total {
                folded: totals.0,
                rowless: totals.1,
                ..Total::default()
            }],
            counters: Some(Counters {
                announced,
                lost: lost.into(),
                ..Counters::default()
            }),
            live: LiveSource::Adopted,
            ..Process::default()
        }
    }

    fn accounted(process: &Process) -> (u64, u64, Vec<(String, u64)>, bool) {
        let rows = process.calls.len() as u64;
        let account = account(process, rows, rows);
        (
            account.announced,
            account.recorded,
            account.lost.into_iter().collect(),
            account.adds_up,
        )
    }

    fn lost(list: &[(&str, u64)]) -> Vec<(String, u64)> {
        list.iter()
            .map(|(cause, n)| ((*cause).to_owned(), *n))
            .collect()
    }

    #[test]
    fn all_rows_there_is_complete() {
        assert_eq!(
            accounted(&process(9, (0, 0), 9, [0; 5])),
            (9, 9, vec![], true)
        );
    }

    #[test]
    fn calls_without_rows_are_lost_by_cause() {
        // 4 found no row, one of them found the totals full as well; 2 rows could not be written.
        let process = process(5, (2, 3), 11, [4, 0, 2, 0, 1]);
        assert_eq!(
            accounted(&process),
            (
                11,
                5,
                lost(&[("rows_full", 3), ("totals_full", 1), ("write_failed", 2)]),
                true
            )
        );
    }

    #[test]
    fn calls_that_attach_was_too_slow_for_are_lost_by_that_cause() {
        let mut process = process(5, (0, 0), 12, [0; 5]);
        let counters = process.counters.as_mut().expect("counters");
        counters.lost = vec![0, 0, 0, 0, 0, 0, 0, 7];
        let expected = lost(&[("ring_full", 7)]);
        assert_eq!(accounted(&process), (12, 5, expected, true));
    }

    #[test]
    fn in_profile_mode_totals_are_what_was_asked_for() {
        let mut process = process(0, (7, 0), 8, [0, 0, 0, 0, 1]);
        process.facts.insert("mode".into(), "profile".into());
        assert_eq!(
            accounted(&process),
            (8, 7, lost(&[("totals_full", 1)]), true)
        );
    }

    #[test]
    fn a_gap_is_named_or_said_not_to_add_up() {
        let mut process = process(5, (0, 0), 8, [0; 5]);
        assert_eq!(
            accounted(&process),
            (8, 5, lost(&[("unexplained", 3)]), false)
        );
        process.live = LiveSource::Snapshot;
        for (newest, cause) in [
            (Newest::Elsewhere, "elsewhere"),
            (Newest::Unknown, "elsewhere"),
            (Newest::Running, "running"),
            (Newest::Gone, "gone"),
            (Newest::Unreadable, "damaged"),
            (Newest::Here, "unexplained"),
        ] {
            process.newest = newest;
            assert_eq!(accounted(&process).2, lost(&[(cause, 3)]));
        }
        process.live = LiveSource::None;
        assert_eq!(accounted(&process).2, lost(&[("damaged", 3)]));
        process.bad_blocks = 1;
        assert_eq!(accounted(&process).2, lost(&[("damaged", 3)]));
    }

    #[test]
    fn a_call_in_its_birth_is_named_and_no_more_than_that() {
        let mut process = process(5, (0, 0), 6, [0; 5]);
        process.counters.as_mut().expect("counters").in_birth = 1;
        assert_eq!(accounted(&process), (6, 5, lost(&[("in_birth", 1)]), true));
        process.counters.as_mut().expect("counters").announced = 7;
        let both = lost(&[("in_birth", 1), ("unexplained", 1)]);
        assert_eq!(accounted(&process), (7, 5, both, false));
        process.counters.as_mut().expect("counters").announced = 5;
        assert_eq!(accounted(&process), (5, 5, vec![], true));
    }

    #[test]
    fn a_batch_that_is_being_folded_counts_once() {
        // 4 could not be written and were counted; 1 is folded, and 3 rows are still there.
        let process = process(6, (1, 0), 7, [0, 0, 4, 0, 0]);
        let expected = lost(&[("write_failed", 1)]);
        assert_eq!(accounted(&process), (7, 6, expected, true));
    }

    #[test]
    fn calls_that_move_while_they_are_read_are_said_to() {
        let mut moving = process(5, (0, 0), 8, [0; 5]);
        moving.moving = true;
        let expected = lost(&[("moving", 3)]);
        assert_eq!(accounted(&moving), (8, 5, expected, true));
        // A row that was folded meanwhile counts twice.
        let mut twice = process(5, (3, 0), 7, [0; 5]);
        twice.moving = true;
        assert_eq!(accounted(&twice), (8, 8, vec![], true));
    }

    #[test]
    fn rotated_calls_are_lost_and_in_the_totals() {
        // 20 were rotated away, 3 of them found no entry; 2 more could not be written.
        let mut process = process(5, (19, 0), 27, [0, 0, 2, 0, 0]);
        (process.rotated, process.rotated_unlisted) = (20, 3);
        let expected = lost(&[("rotated", 20), ("write_failed", 2)]);
        assert_eq!(accounted(&process), (27, 5, expected.clone(), true));
        // Without a live part the account of the files is all there is.
        process.counters = None;
        process.live = LiveSource::None;
        process.totals[0].folded = 17;
        let account = account(&process, 5, 25);
        assert_eq!((account.recorded, account.announced), (5, 25));
        assert_eq!(account.lost.get("rotated"), Some(&20));
        assert!(account.adds_up);
    }

    #[test]
    fn more_than_announced_does_not_add_up() {
        let process = process(5, (3, 0), 5, [0; 5]);
        assert!(!accounted(&process).3);
    }
}
