//! Two runs side by side: what became slower or faster, what changed around it, what appeared or vanished.
//!
//! [`Run::of`] takes from a capture what a comparison needs, so that only one capture is in memory at a time.
//! [`diff`] compares two of them and judges [`Criterion`]s.
//!
//! Operations are compared by kind: function, datatype, bytes, ranks and the communicator's [`Role`]. Another
//! algorithm, protocol or number of channels is a change of the kind, not another kind. Compared is the time
//! per call of each rank: GPU time where both runs have it, else host time. The first call of each rank in a
//! kind (per communicator) is set aside as warm-up where there are more, because it loads kernels and makes
//! connections. Intervals are those of [`crate::interval`]. Verdicts are on many kinds at once, so they use
//! Holm's method. If the runs are equal, the probability of any false alarm is at most that of a single test.
//!
//! Rule: one definition, printed: [`DEFINITION`]. A GPU time is never compared with a host time, and what has
//! no interval is never called faster or slower.

use crate::absent::AbsentRow;
use crate::environment::{self, Facts};
use crate::findings::Finding;
use crate::interval::{holm, Comparison, Mean, CONFIDENCE};
use crate::recommendations::{self, Recommendation};
use crate::roles::{align, Pair, Role};
use crate::subject::ProcessId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

mod gathering;
mod moved;
mod runs;
mod verdict;

pub(crate) use gathering::recorded_as;
use gathering::{Gathered, KindKey, SOURCES};
pub use moved::{Moved, Stayed};
pub use runs::{
    side_by_side, Changed, Fastest, FigureRow, Figures, TimeChange, Variant, Variants, What, Which,
    WhichIsFastest, Why, FIGURES, LEAST_CHANGE,
};
use verdict::judge;
pub use verdict::{Change, Criterion, Judgement, KindName, Reason, Slower, Status, Verdict};

/// The format of [`Diff`].
pub const SCHEMA: &str = "ncclscope.diff/1";
/// What ratio and percent mean.
pub const DEFINITION: &str =
    "ratio = B / A of the mean time per call; percent = (ratio − 1) × 100; negative is faster";
/// NCCL's stamps count in steps of this, ns.
const STAMP_STEP: f64 = 32.0;

/// What a comparison needs of a capture.
#[derive(Clone, Debug)]
pub struct Run {
    row: RunRow,
    /// Of which variant it is a run, if that was said.
    variant: Option<String>,
    facts: Facts,
    roles: Vec<Role>,
    ids: Vec<String>,
    kinds: BTreeMap<KindKey, Gathered>,
    /// Mean time of a step, ns, if there are enough steps for an interval.
    step: Option<Mean>,
    /// Steps of the rank that has most.
    nsteps: usize,
    /// Calls of a step, and the bytes that they move on a rank.
    step_size: Option<(f64, f64)>,
    /// Most calls ran in CUDA graphs, where none has a time of its own.
    mostly_in_graphs: bool,
    /// How long NCCL's kernels ran in a step, by kernel windows: the mean over ranks, with its interval, µs.
    in_windows: Option<(f64, (f64, f64))>,
    recommendations: Vec<Recommendation>,
    replays_hidden: bool,
    /// The names that its recorders gave its files, which no other recording has.
    recorded_as: BTreeSet<String>,
    /// Whether GPU times were turned off that this NCCL and these processes can have.
    host_asked: bool,
}

/// One of the two runs in a diff.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunRow {
    /// Where the capture is.
    pub capture: String,
    /// The command that was run.
    pub command: Option<String>,
    /// Start, RFC 3339, in the recording's time zone.
    pub started: Option<String>,
    /// Versions of NCCL.
    pub nccl: Vec<String>,
    /// Jobs in the folder.
    pub njobs: usize,
    /// Processes with a trace.
    pub nprocesses: usize,
    /// Hosts.
    pub nhosts: usize,
    /// Recording modes and time sources.
    pub recording: Vec<String>,
    /// Calls that NCCL announced.
    pub announced: u64,
    /// Calls with all that was asked for.
    pub recorded: u64,
    /// Calls beyond `announced` that ranks made for certain, whether they are here or not.
    pub missing_at_least: u64,
    /// Whether NCCL may have announced more.
    #[serde(skip)]
    pub is_least: bool,
    /// Why calls are not there, or may not be.
    #[serde(skip)]
    pub incomplete: Vec<Lack>,
    /// What the run is as a whole.
    #[serde(skip)]
    pub figures: Figures,
    /// What its report found.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// Calls that a run made, or may have made, and that are not in its capture.
#[derive(Clone, Debug, PartialEq)]
pub enum Lack {
    /// Ranks are not here.
    Ranks(AbsentRow),
    /// So many calls of a process at least.
    Calls(u64, ProcessId),
    /// So many calls were lost by this cause.
    Lost(u64, String),
    /// Calls were not counted by this cause.
    NotCounted(String),
    /// The last calls of a process.
    LastCalls,
    /// The figures do not add up, so some are.
    Sum,
}

/// Why a kind of operation has no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoInterval {
    /// No times of one source are in both runs.
    TwoSources,
    /// Its calls were counted without rows.
    WithoutRows,
    /// It has too few operations.
    Few,
    /// Too few of its operations have a time.
    FewWithTime,
}

/// One kind, or all of them, in one run. Times in µs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// Executions, one rank's part each.
    pub calls: u64,
    /// Calls whose time is compared: without the first of each rank.
    pub compared: u64,
    /// Their mean.
    pub mean_us: Option<f64>,
    /// Their median, without warm-up: as in a report.
    pub p50_us: Option<f64>,
    /// Sum of the times of all calls that have one, warm-up included.
    pub sum_us: Option<f64>,
    /// Algorithm, protocol and channels, and how many calls had them.
    pub how: BTreeMap<String, u64>,
}

/// What is said of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffFinding {
    /// Slower, by Holm's method over all kinds.
    Slower,
    /// Faster, likewise.
    Faster,
    /// The difference can't be told from noise.
    NoneFound,
    /// There is no interval.
    Unknown,
    /// Only in B.
    Appeared,
    /// Only in A.
    Vanished,
}

/// B against A. Times in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Versus {
    /// B / A of the mean time per call.
    pub ratio: Option<f64>,
    /// Ends of its 95 % interval.
    pub ratio_interval: Option<[f64; 2]>,
    /// (ratio − 1) × 100; negative is faster.
    pub percent: Option<f64>,
    /// Ends of its 95 % interval.
    pub percent_interval: Option<[f64; 2]>,
    /// B − A of the mean time per call.
    pub difference_us: Option<f64>,
    /// Ends of its 95 % interval.
    pub difference_interval_us: Option<[f64; 2]>,
    /// B / A of the median.
    pub p50_ratio: Option<f64>,
}

/// One kind of operation in both runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KindOfOperation {
    /// Number of the role in `communicators`; null where the communicator's definition is lost.
    pub role: Option<usize>,
    /// Ranks.
    pub nranks: Option<u32>,
    /// Function, as NCCL names it.
    pub function: Option<String>,
    /// Datatype, as NCCL names it.
    pub datatype: Option<String>,
    /// Bytes by the convention of nccl-tests.
    pub bytes: Option<u64>,
    /// What is said of it.
    pub finding: DiffFinding,
    /// `gpu` or `host`: the times compared.
    #[schemars(extend("enum" = ["gpu", "host", null]))]
    pub time_source: Option<&'static str>,
    /// In A.
    pub a: Option<Side>,
    /// In B.
    pub b: Option<Side>,
    /// B against A.
    #[serde(flatten)]
    pub versus: Versus,
    /// Why there is no interval.
    #[serde(skip)]
    pub no_interval: Option<NoInterval>,
    /// Whether algorithm, protocol or channels differ.
    #[serde(skip)]
    pub how_changed: bool,
    #[serde(skip)]
    comparison: Option<Comparison>,
    #[serde(skip)]
    means: Option<(Mean, Mean)>,
    /// Time of A's calls by each source, ns, whether it is compared or not.
    #[serde(skip)]
    a_times: [f64; 2],
}

/// All kinds with an interval, as if B had made A's calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Total {
    /// `gpu` or `host`.
    #[schemars(extend("enum" = ["gpu", "host"]))]
    pub time_source: &'static str,
    /// Kinds in it.
    pub kinds: usize,
    /// A's compared calls in them.
    pub calls: u64,
    /// Their part of A's time of this source in all kinds that are in both runs. A kind with GPU times in A
    /// counts as GPU time, also where B has none and host times are compared.
    pub share: f64,
    /// Time of A's calls at A's mean times.
    pub a_us: f64,
    /// Time of as many calls at B's mean times.
    pub b_us: f64,
    /// What is said of it.
    pub finding: DiffFinding,
    /// B against A, per call.
    #[serde(flatten)]
    pub versus: Versus,
    #[serde(skip)]
    comparison: Comparison,
}

/// A role in both runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RoleRow {
    /// Its number.
    pub role: usize,
    /// Name given by the program.
    pub name: Option<String>,
    /// Ranks.
    pub nranks: Option<u32>,
    /// Nodes in A and B.
    pub nnodes: [Option<u32>; 2],
    /// Launcher's ranks of the members of its lowest communicator.
    pub members: Vec<u32>,
    /// A's communicators.
    pub a: Vec<String>,
    /// B's communicators.
    pub b: Vec<String>,
    /// By what they were paired; null for a role of one run.
    pub paired_by: Option<&'static str>,
}

/// Two runs side by side.
#[derive(Clone, Debug)]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`DEFINITION`].
    pub definition: &'static str,
    /// How sure intervals are.
    pub confidence: f64,
    /// The first run.
    pub a: RunRow,
    /// The second run.
    pub b: RunRow,
    /// What was asked, and the answer.
    pub verdict: Verdict,
    /// The runs as a whole.
    pub run: Vec<FigureRow>,
    /// Findings that B has and A has not.
    pub new_findings: Vec<Finding>,
    /// Findings that A has and B has not.
    pub gone_findings: Vec<Finding>,
    /// Faults that are in both, and stayed with a rank or with a node.
    pub moved_findings: Vec<Moved>,
    /// What the report on A recommends, and what became of it in B: `done`, `better` or `unchanged`.
    pub recommendations: Vec<Recommendation>,
    /// What changed and why.
    pub changed: Changed,
    /// What changed around it.
    pub environment: Vec<environment::Change>,
    /// What communicators were paired.
    pub communicators: Vec<RoleRow>,
    /// All kinds together, one for each source of times.
    pub totals: Vec<Total>,
    /// Kinds of operations, largest change of the total time first, then those that are not compared.
    pub operations: Vec<KindOfOperation>,
    /// What limits the comparison.
    pub notes: Vec<DiffNote>,
}

/// What limits a comparison of two runs.
#[derive(Clone, Debug, PartialEq)]
pub enum DiffNote {
    /// An interval knows the noise within these runs only.
    NoiseWithin,
    /// A run is several jobs.
    SeveralJobs(Which, usize),
    /// Times are of GPUs, and have waiting in them.
    GpuTimes,
    /// Times are of hosts.
    HostTimes,
    /// GPU timing was switched off in these runs.
    TimingOff(Vec<Which>),
    /// So many kinds have fewer than [`crate::interval::LEAST_OPERATIONS`] operations.
    Few(usize),
    /// So many kinds have calls that were counted without rows.
    WithoutRows(usize),
    /// So many kinds have GPU times in A alone.
    FallenBack(usize),
    /// A run is not complete.
    Incomplete(Which, Vec<Lack>),
    /// What replays of CUDA graphs did does not show in a run.
    ReplaysHidden(Which),
}

/// Sets two runs side by side and judges `criteria`.
pub fn diff(a: &Run, b: &Run, criteria: &[Criterion]) -> Diff {
    let pairs = align(&a.roles, &b.roles);
    let mut rows = compare_kinds(a, b, &pairs);
    let totals = totals(&rows);
    find(&mut rows);
    sort(&mut rows);
    let environment = environment::changes(&a.facts, &b.facts);
    let new_findings = runs::only(&b.row.findings, &a.row.findings);
    let gone_findings = runs::only(&a.row.findings, &b.row.findings);
    let (of_a, of_b) = (&a.row.figures, &b.row.figures);
    let common = rows.iter().any(|row| row.a.is_some() && row.b.is_some());
    let compared = runs::Compared {
        runs: [a, b],
        new: &new_findings,
        gone: &gone_findings,
        environment: &environment,
        common,
    };
    let changed = runs::changed(&compared);
    let criteria: Vec<Judgement> = criteria
        .iter()
        .map(|criterion| {
            let judgement = judge(*criterion, a, b, &rows, &totals, &environment);
            // That a copy does not differ is no answer.
            if judgement.status == Status::Passed && a.is_same_recording(b) {
                Judgement {
                    status: Status::Undecided,
                    reasons: vec![Reason::SameRecording],
                    ..judgement
                }
            } else {
                judgement
            }
        })
        .collect();
    let status = criteria.iter().map(|c| c.status).max();
    Diff {
        schema: SCHEMA,
        definition: DEFINITION,
        confidence: CONFIDENCE,
        notes: notes(a, b, &rows),
        a: a.row.clone(),
        b: b.row.clone(),
        verdict: Verdict {
            status,
            exit_status: match status {
                None | Some(Status::Passed) => 0,
                Some(Status::Failed) => 1,
                Some(Status::Undecided) => 2,
            },
            criteria,
        },
        run: runs::rows(of_a, of_b),
        new_findings,
        gone_findings,
        moved_findings: moved::moved(&a.row, &b.row),
        recommendations: recommendations::compare(&a.recommendations, &b.recommendations),
        changed,
        environment,
        communicators: role_rows(a, b, &pairs),
        totals,
        operations: rows,
    }
}

fn role_rows(a: &Run, b: &Run, pairs: &[Pair]) -> Vec<RoleRow> {
    let row = |(role, pair): (usize, &Pair)| {
        let of_a = pair.a.map(|i| &a.roles[i]);
        let of_b = pair.b.map(|i| &b.roles[i]);
        let either = of_a.or(of_b);
        let ids = |role: Option<&Role>, run: &Run| {
            let communicators = role.map_or(&[][..], |r| &r.communicators);
            communicators.iter().map(|c| run.ids[*c].clone()).collect()
        };
        RoleRow {
            role,
            name: either.and_then(|r| r.name.clone()),
            nranks: either.and_then(|r| r.nranks),
            nnodes: [of_a, of_b].map(|r| r.and_then(|r| r.nnodes)),
            members: either.map(|r| r.members.clone()).unwrap_or_default(),
            a: ids(of_a, a),
            b: ids(of_b, b),
            paired_by: pair.by,
        }
    };
    pairs.iter().enumerate().map(row).collect()
}

fn compare_kinds(a: &Run, b: &Run, pairs: &[Pair]) -> Vec<KindOfOperation> {
    let common = |side: fn(&Pair) -> Option<usize>| -> HashMap<usize, usize> {
        let known = pairs
            .iter()
            .enumerate()
            .filter_map(|(common, pair)| Some((side(pair)?, common)));
        known.collect()
    };
    let (of_a, of_b) = (common(|p| p.a), common(|p| p.b));
    let mut kinds: BTreeMap<KindKey, [Option<&Gathered>; 2]> = BTreeMap::new();
    for (side, run, numbers) in [(0, a, &of_a), (1, b, &of_b)] {
        for ((role, function, datatype, bytes), gathered) in &run.kinds {
            let role = role.and_then(|role| numbers.get(&role).copied());
            let key = (role, function.clone(), datatype.clone(), *bytes);
            // A kind that was only captured into graphs has no calls.
            kinds.entry(key).or_default()[side] = Some(gathered).filter(|g| g.calls > 0);
        }
    }
    let nranks = |role: Option<usize>| {
        let pair = pairs.get(role?)?;
        let role = pair
            .a
            .map(|i| &a.roles[i])
            .or(pair.b.map(|i| &b.roles[i]))?;
        role.nranks
    };
    let there = kinds
        .into_iter()
        .filter(|(_, sides)| sides.iter().any(Option::is_some));
    there
        .map(|((role, function, datatype, bytes), [a, b])| {
            let row = KindOfOperation {
                role,
                nranks: nranks(role),
                function,
                datatype,
                bytes,
                finding: DiffFinding::Unknown,
                time_source: None,
                a: None,
                b: None,
                versus: Versus::default(),
                no_interval: None,
                how_changed: false,
                comparison: None,
                means: None,
                a_times: [0.0; 2],
            };
            compare(row, a, b)
        })
        .collect()
}

fn compare(
    mut row: KindOfOperation,
    a: Option<&Gathered>,
    b: Option<&Gathered>,
) -> KindOfOperation {
    let there: Vec<&Gathered> = a.into_iter().chain(b).collect();
    let source = (0..2).find(|source| there.iter().all(|g| g.compared(*source).0 > 0));
    row.time_source = source.map(|source| SOURCES[source]);
    row.a_times = [0, 1].map(|source| a.map_or(0.0, |a| a.compared(source).1 as f64));
    if row.a_times[0] > 0.0 {
        // Its host time is not what is to be judged.
        row.a_times[1] = 0.0;
    }
    let (a, b) = match (a.map(|g| g.times(source)), b.map(|g| g.times(source))) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => {
            row.finding = if a.is_some() {
                DiffFinding::Vanished
            } else {
                DiffFinding::Appeared
            };
            (row.a, row.b) = (a.map(|t| t.side), b.map(|t| t.side));
            return row;
        }
    };
    row.no_interval = a.no_interval.or(b.no_interval);
    row.means = a.mean.zip(b.mean);
    row.comparison = row.means.as_ref().map(|(a, b)| Comparison::new(a, b));
    let ratio =
        |a: Option<f64>, b: Option<f64>| a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
    row.versus = versus(
        ratio(a.side.mean_us, b.side.mean_us),
        a.side.mean_us.zip(b.side.mean_us).map(|(a, b)| b - a),
        row.comparison.as_ref(),
        1e3,
    );
    row.versus.p50_ratio = ratio(a.side.p50_us, b.side.p50_us);
    // What was never said has not changed.
    let said = |side: &Side| side.how.keys().cloned().collect::<BTreeSet<_>>();
    let (how_a, how_b) = (said(&a.side), said(&b.side));
    row.how_changed = !how_a.is_empty() && !how_b.is_empty() && how_a != how_b;
    (row.a, row.b) = (Some(a.side), Some(b.side));
    row
}

/// `per_us` of the comparison's unit are a µs.
fn versus(
    ratio: Option<f64>,
    difference: Option<f64>,
    c: Option<&Comparison>,
    per_us: f64,
) -> Versus {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let interval = c.map(|c| c.ratio_interval);
    Versus {
        ratio,
        ratio_interval: interval.map(|(low, high)| [low, high]),
        percent: ratio.map(percent),
        percent_interval: interval.map(|(low, high)| [percent(low), percent(high)]),
        difference_us: difference,
        difference_interval_us: c.map(|c| {
            let (low, high) = c.difference_interval;
            [low / per_us, high / per_us]
        }),
        p50_ratio: None,
    }
}

/// All kinds of each source of times, as if B had made A's calls.
fn totals(rows: &[KindOfOperation]) -> Vec<Total> {
    let of_source = |(number, source): (usize, &'static str)| {
        let kinds = || rows.iter().filter(move |r| r.time_source == Some(source));
        let both = rows.iter().filter(|r| r.a.is_some() && r.b.is_some());
        let all: f64 = both.map(|r| r.a_times[number]).sum();
        let parts: Vec<(f64, (Mean, Mean))> = kinds()
            .filter_map(|r| Some((r.a.as_ref()?.compared as f64, r.means?)))
            .collect();
        let a = Mean::total(&parts.iter().map(|(n, (a, _))| (*n, *a)).collect::<Vec<_>>())?;
        let b = Mean::total(&parts.iter().map(|(n, (_, b))| (*n, *b)).collect::<Vec<_>>())?;
        let comparison = Comparison::new(&a, &b);
        let calls: f64 = parts.iter().map(|(n, _)| n).sum();
        Some(Total {
            time_source: source,
            kinds: parts.len(),
            calls: calls as u64,
            share: if all > 0.0 {
                (a.mean / all).min(1.0)
            } else {
                0.0
            },
            a_us: Nanos(a.mean).us(),
            b_us: Nanos(b.mean).us(),
            finding: finding(&comparison, comparison.p_different() <= 1.0 - CONFIDENCE),
            versus: versus(
                Some(comparison.ratio),
                Some(Nanos(comparison.difference / calls).us()),
                Some(&comparison),
                calls * Nanos::US.0,
            ),
            comparison,
        })
    };
    SOURCES
        .into_iter()
        .enumerate()
        .filter_map(of_source)
        .collect()
}

fn finding(comparison: &Comparison, different: bool) -> DiffFinding {
    match different {
        false => DiffFinding::NoneFound,
        true if comparison.ratio > 1.0 => DiffFinding::Slower,
        true => DiffFinding::Faster,
    }
}

/// What is said of each kind.
fn find(rows: &mut [KindOfOperation]) {
    let p: Vec<f64> = rows
        .iter()
        .filter_map(|r| Some(r.comparison?.p_different()))
        .collect();
    let mut different = holm(&p, 1.0 - CONFIDENCE).into_iter();
    for row in rows {
        if let Some(comparison) = &row.comparison {
            row.finding = finding(comparison, different.next() == Some(true));
        }
    }
}

/// Largest change of A's total time first, then what is not compared by its time.
fn sort(rows: &mut [KindOfOperation]) {
    let change = |r: &KindOfOperation| {
        let a = r.a.as_ref()?;
        Some(r.versus.difference_us?.abs() * a.compared as f64)
    };
    let time = |r: &KindOfOperation| {
        let side = r.a.as_ref().or(r.b.as_ref());
        side.and_then(|s| s.sum_us).unwrap_or(0.0)
    };
    let group = |r: &KindOfOperation| match (r.finding, change(r)) {
        (DiffFinding::Vanished, _) => 3,
        (DiffFinding::Appeared, _) => 4,
        (_, None) => 2,
        (_, Some(_)) => 1,
    };
    // Stable, so equals stay in order of their keys.
    rows.sort_by(|x, y| {
        let by_change = change(y)
            .unwrap_or(0.0)
            .total_cmp(&change(x).unwrap_or(0.0));
        group(x)
            .cmp(&group(y))
            .then(by_change)
            .then(time(y).total_cmp(&time(x)))
    });
}

fn notes(a: &Run, b: &Run, rows: &[KindOfOperation]) -> Vec<DiffNote> {
    let mut notes = vec![DiffNote::NoiseWithin];
    let both = [(Which::A, a), (Which::B, b)];
    let several = both.iter().filter(|(_, run)| run.row.njobs > 1);
    notes.extend(several.map(|(which, run)| DiffNote::SeveralJobs(*which, run.row.njobs)));
    let are_by = |source: &str| {
        let mut in_both = rows.iter().filter(|r| r.a.is_some() && r.b.is_some());
        in_both.any(|r| r.time_source == Some(source))
    };
    if are_by("gpu") {
        notes.push(DiffNote::GpuTimes);
    }
    if are_by("host") {
        notes.push(DiffNote::HostTimes);
        let off = both.iter().filter(|(_, run)| run.host_asked);
        let off: Vec<Which> = off.map(|(which, _)| *which).collect();
        if !off.is_empty() {
            notes.push(DiffNote::TimingOff(off));
        }
    }
    let without = |why| rows.iter().filter(|r| r.no_interval == Some(why)).count();
    let fallen_back = rows
        .iter()
        .filter(|r| r.b.is_some() && r.time_source == Some("host") && r.a_times[0] > 0.0);
    let counted = [
        DiffNote::Few(without(NoInterval::Few)),
        DiffNote::WithoutRows(without(NoInterval::WithoutRows)),
        DiffNote::FallenBack(fallen_back.count()),
    ];
    let is_any = |note: &DiffNote| {
        !matches!(
            note,
            DiffNote::Few(0) | DiffNote::WithoutRows(0) | DiffNote::FallenBack(0)
        )
    };
    notes.extend(counted.into_iter().filter(is_any));
    for (which, run) in both {
        if !run.row.incomplete.is_empty() {
            notes.push(DiffNote::Incomplete(which, run.row.incomplete.clone()));
        }
        if run.replays_hidden {
            notes.push(DiffNote::ReplaysHidden(which));
        }
    }
    notes
}
