//! Two runs side by side: what became slower or faster, what changed around it, what appeared or vanished.
//!
//! [`Run::of`] takes from a capture what a comparison needs, so that one capture is in memory at a time; [`diff`] sets two
//! of them side by side and judges [`Criterion`]s.
//!
//! Operations are compared by kind: function, datatype, bytes, ranks and the communicator's [`Role`]. Another algorithm,
//! protocol or number of channels is a change of the kind, not another kind. Compared is the time per call of each rank:
//! GPU time where both runs have it, else host time. The first call of each rank in a kind (per communicator) is set aside
//! as warm-up where there are more, because it loads kernels and makes connections. Intervals are those of
//! [`crate::interval`]. Verdicts judge many kinds at once, so they use Holm's method: if the runs are equal, a false
//! alarm of any kind has the probability of one at most.
//!
//! Rule: one definition, printed: [`DEFINITION`]. A GPU time is never compared with a host time, and what has no
//! interval is never called faster or slower.

use crate::completeness::Completeness;
use crate::environment::{self, Change, Facts, Kind};
use crate::executions::{Steps, Walk};
use crate::interval::{holm, Batches, Comparison, Mean, CONFIDENCE, LEAST_OPERATIONS};
use crate::roles::{align, roles, Pair, Role};
use capture::live::{flag, part};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use tables::{Capture, Name, Process, Shape};

/// The format of [`Diff`].
pub const SCHEMA: &str = "ncclscope.diff/1";
/// What ratio and percent mean.
pub const DEFINITION: &str =
    "ratio = B / A of the mean time per call; percent = (ratio − 1) × 100; negative is faster";
/// NCCL's stamps count in steps of this, ns.
const STAMP_STEP: f64 = 32.0;
/// A false alarm of any kind in a verdict has at most this probability; one-sided, as the end of a 95 % interval.
const VERDICT_LEVEL: f64 = (1.0 - CONFIDENCE) / 2.0;
/// Kinds with an interval must hold this share of the compared time, or a verdict can't be given.
const JUDGED_SHARE: f64 = 0.8;

/// A verdict needs an interval that is not wider than what was asked for, or than this.
const LEAST_SLOWER: f64 = 0.05;

/// What `--fail-on` may ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Criterion {
    /// A kind of operation, or all of them, is slower by more than this ratio − 1.
    Slower(f64),
    /// A kind of operation is in A and not in B.
    Missing,
    /// Software, variables, topology or recording differ.
    Environment,
    /// An algorithm, protocol or number of channels differs.
    Algorithm,
    /// A or B lacks calls.
    Incomplete,
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Criterion::Slower(by) => write!(f, "slower={}%", round(by * 100.0)),
            Criterion::Missing => write!(f, "missing"),
            Criterion::Environment => write!(f, "environment"),
            Criterion::Algorithm => write!(f, "algorithm"),
            Criterion::Incomplete => write!(f, "incomplete"),
        }
    }
}

/// Without the digits that binary fractions bring.
fn round(x: f64) -> f64 {
    (x * 1e9).round() / 1e9
}

impl std::str::FromStr for Criterion {
    type Err = String;

    fn from_str(text: &str) -> Result<Criterion, String> {
        let expected = "expected slower=N%, missing, environment, algorithm or incomplete";
        match text.split_once('=') {
            None => match text {
                "missing" => Ok(Criterion::Missing),
                "environment" => Ok(Criterion::Environment),
                "algorithm" => Ok(Criterion::Algorithm),
                "incomplete" => Ok(Criterion::Incomplete),
                _ => Err(expected.to_owned()),
            },
            Some(("slower", by)) => {
                let percent = by
                    .strip_suffix('%')
                    .and_then(|p| p.trim().parse::<f64>().ok());
                match percent {
                    Some(percent) if (0.0..=1e6).contains(&percent) => {
                        Ok(Criterion::Slower(percent / 100.0))
                    }
                    _ => Err("expected a percentage, like slower=5%".to_owned()),
                }
            }
            Some(_) => Err(expected.to_owned()),
        }
    }
}

/// All ranks' parts in one operation of a series.
#[derive(Clone, Copy, Debug, Default)]
struct Operation {
    gpu: (u64, u32),
    host: (u64, u32),
}

/// The operations of one kind on one communicator, in order.
#[derive(Clone, Debug, Default)]
struct Series {
    operations: Vec<Operation>,
    /// ns of calls that are not the first of their rank, GPU and host.
    values: [Vec<u64>; 2],
    /// ns of calls that are.
    first: [Vec<u64>; 2],
}

/// What `Run` knows of one kind.
#[derive(Clone, Debug, Default)]
struct Gathered {
    calls: u64,
    /// Number and ns of calls that were counted without rows, GPU and host.
    summed: [(u64, u64); 2],
    how: BTreeMap<String, u64>,
    series: Vec<Series>,
}

/// A kind within one run: role, function, datatype, bytes.
type KindKey = (Option<usize>, Option<String>, Option<String>, Option<u64>);

/// What a comparison needs of a capture.
#[derive(Clone, Debug)]
pub struct Run {
    row: RunRow,
    facts: Facts,
    roles: Vec<Role>,
    ids: Vec<String>,
    kinds: BTreeMap<KindKey, Gathered>,
    replays_hidden: bool,
}

/// One of the two runs in a diff.
#[derive(Clone, Debug, Serialize)]
pub struct RunRow {
    /// Where the capture is.
    pub capture: String,
    /// The command that was run.
    pub command: Option<String>,
    /// Start, RFC 3339.
    pub started: Option<String>,
    /// Versions of NCCL.
    pub nccl: Vec<String>,
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
    /// Why calls are not there, or may not be.
    pub incomplete: Vec<String>,
}

/// One kind, or all of them, in one run. Times in µs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Executions, one rank's part each.
    pub calls: u64,
    /// Those whose time is compared.
    pub compared: u64,
    /// Their mean.
    pub mean_us: Option<f64>,
    /// Their median, nearest rank.
    pub p50_us: Option<f64>,
    /// Sum of the times of all calls that have one, warm-up included.
    pub sum_us: Option<f64>,
    /// Algorithm, protocol and channels, and how many calls had them.
    pub how: BTreeMap<String, u64>,
}

/// What is said of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Versus {
    /// See [`DEFINITION`].
    pub ratio: Option<f64>,
    /// Ends of its 95 % interval.
    pub ratio_interval: Option<[f64; 2]>,
    /// See [`DEFINITION`].
    pub percent: Option<f64>,
    /// Ends of its 95 % interval.
    pub percent_interval: Option<[f64; 2]>,
    /// B − A of the mean.
    pub difference_us: Option<f64>,
    /// Ends of its 95 % interval.
    pub difference_interval_us: Option<[f64; 2]>,
    /// B / A of the median.
    pub p50_ratio: Option<f64>,
}

/// One kind of operation in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Number of the role in [`Diff::communicators`]; null where the communicator's definition is lost.
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
    pub finding: Finding,
    /// `gpu` or `host`: the times compared.
    pub time_source: Option<&'static str>,
    /// In A.
    pub a: Option<Side>,
    /// In B.
    pub b: Option<Side>,
    /// B against A.
    #[serde(flatten)]
    pub versus: Versus,
    /// Why there is no interval.
    pub no_interval: Option<&'static str>,
    /// Whether algorithm, protocol or channels differ.
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
#[derive(Clone, Debug, Serialize)]
pub struct Total {
    /// `gpu` or `host`.
    pub time_source: &'static str,
    /// Kinds in it.
    pub kinds: usize,
    /// A's compared calls in them.
    pub calls: u64,
    /// Their part of A's time of this source in all kinds that are in both runs. A kind with GPU times in A counts as GPU
    /// time, also where B has none and host times are compared.
    pub share: f64,
    /// Time of A's calls at A's mean times.
    pub a_us: f64,
    /// Time of as many calls at B's mean times.
    pub b_us: f64,
    /// What is said of it.
    pub finding: Finding,
    /// B against A, per call.
    #[serde(flatten)]
    pub versus: Versus,
    #[serde(skip)]
    comparison: Comparison,
}

/// A role in both runs.
#[derive(Clone, Debug, Serialize)]
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

/// Whether a criterion is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is not.
    Passed,
    /// It can't be told.
    Undecided,
    /// It is.
    Failed,
}

/// The answer to one `--fail-on`.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// As it was asked.
    pub fail_on: String,
    /// The answer.
    pub status: Status,
    /// Why.
    pub reasons: Vec<String>,
}

/// The answer to all of them.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The worst of the answers; null when nothing was asked.
    pub status: Option<Status>,
    /// 0 passed or not asked, 1 failed, 2 undecided.
    pub exit_status: u8,
    /// One by one.
    pub criteria: Vec<Judgement>,
}

/// Two runs side by side.
#[derive(Clone, Debug, Serialize)]
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
    /// What changed around it.
    pub environment: Vec<Change>,
    /// What communicators were paired.
    pub communicators: Vec<RoleRow>,
    /// All kinds together, one for each source of times.
    pub totals: Vec<Total>,
    /// Kinds of operations, largest change of the total time first, then those that are not compared.
    pub operations: Vec<Row>,
    /// What limits the comparison.
    pub notes: Vec<String>,
}

impl Run {
    /// What a comparison needs of a capture.
    pub fn of(capture: &Capture) -> Run {
        let report = crate::report(capture);
        let (roles, role_of) = roles(capture);
        let job = &report.job;
        let mut recording: Vec<String> =
            job.mode.iter().map(|mode| format!("mode {mode}")).collect();
        recording.extend(job.timing.iter().map(|timing| format!("timing {timing}")));
        let (kinds, replays_hidden) = gather(capture, &role_of);
        Run {
            row: RunRow {
                capture: job.capture.clone(),
                command: job.command.clone(),
                started: job.started.clone(),
                nccl: job.nccl.clone(),
                nprocesses: job.nprocesses,
                nhosts: job.hosts.len(),
                recording,
                announced: report.completeness.announced,
                recorded: report.completeness.recorded,
                incomplete: incomplete(&report.completeness),
            },
            facts: environment::facts(capture),
            ids: capture.communicators.iter().map(|c| c.id.clone()).collect(),
            roles,
            kinds,
            replays_hidden,
        }
    }
}

fn incomplete(c: &Completeness) -> Vec<String> {
    let mut why: Vec<String> = c
        .lost
        .iter()
        .map(|(cause, n)| format!("{n} calls {cause}"))
        .collect();
    if c.announced_is_lower_bound {
        why.push("the last calls of a process are not here".to_owned());
    }
    if !c.adds_up && why.is_empty() {
        why.push("the figures do not add up".to_owned());
    }
    why
}

/// How a call was done, as one text.
fn how(capture: &Capture, shape: &Shape, in_pieces: bool) -> Option<String> {
    let names: Vec<&str> = [shape.algorithm, shape.protocol]
        .into_iter()
        .filter_map(|name| capture.names.get(name))
        .collect();
    let mut text = names.join("/");
    if shape.parts & part::COPY_ENGINE != 0 {
        "copy engines".clone_into(&mut text);
    }
    // Pieces have channels each.
    if !in_pieces && shape.parts & part::ENQUEUED != 0 && shape.nchannels > 0 {
        let comma = if text.is_empty() { "" } else { " " };
        text += &format!("{comma}{}ch", shape.nchannels);
    }
    (!text.is_empty()).then_some(text)
}

/// Numbers the series by communicator, function, datatype and bytes.
#[derive(Default)]
struct Numbers {
    series: HashMap<(Option<u32>, Name, Name, Option<u64>), usize>,
    gathered: Vec<Gathered>,
}

impl Numbers {
    fn of(&mut self, capture: &Capture, shape: &Shape, function: Name) -> usize {
        let bytes = capture.bytes_as(shape, function);
        let key = (shape.communicator, function, shape.datatype, bytes);
        let next = self.gathered.len();
        let number = *self.series.entry(key).or_insert(next);
        if number == next {
            self.gathered.push(Gathered {
                series: vec![Series::default()],
                ..Gathered::default()
            });
        }
        number
    }
}

/// A pass over all calls. Also says whether captured calls were never seen to be replayed.
fn gather(capture: &Capture, role_of: &[usize]) -> (BTreeMap<KindKey, Gathered>, bool) {
    let mut numbers = Numbers::default();
    for process in &capture.processes {
        rows(capture, process, &mut numbers);
        for total in &process.totals {
            let Some(shape) = process.shapes.get(total.shape as usize) else {
                continue;
            };
            if shape.is(flag::CAPTURED) {
                continue;
            }
            let number = numbers.of(capture, shape, shape.function);
            let gathered = &mut numbers.gathered[number];
            let calls = total.folded.saturating_add(total.rowless);
            gathered.calls = gathered.calls.saturating_add(calls);
            let host = total
                .host_ns
                .filter(|_| !shape.is(flag::REPLAY) && !shape.is(flag::LEGACY));
            let sums = [
                (total.timed, total.sum),
                host.map_or((0, 0), |sum| (total.folded, sum)),
            ];
            for (to, (n, sum)) in gathered.summed.iter_mut().zip(sums) {
                // Counters of a damaged live part may be anything.
                *to = (to.0.saturating_add(n), to.1.saturating_add(sum));
            }
            if let Some(how) = how(capture, shape, false) {
                *gathered.how.entry(how).or_insert(0) += calls;
            }
        }
    }
    let mut kinds: BTreeMap<KindKey, Gathered> = BTreeMap::new();
    let mut ordered: Vec<_> = numbers.series.into_iter().collect();
    // By communicator, so that the order does not hang on the hash map.
    ordered.sort_unstable();
    for ((communicator, function, datatype, bytes), number) in ordered {
        let text = |name: Name| capture.names.get(name).map(str::to_owned);
        let role = communicator.and_then(|c| role_of.get(c as usize).copied());
        let kind = kinds
            .entry((role, text(function), text(datatype), bytes))
            .or_default();
        let gathered = std::mem::take(&mut numbers.gathered[number]);
        kind.calls = kind.calls.saturating_add(gathered.calls);
        for (to, from) in kind.summed.iter_mut().zip(gathered.summed) {
            *to = (to.0.saturating_add(from.0), to.1.saturating_add(from.1));
        }
        for (how, n) in gathered.how {
            *kind.how.entry(how).or_insert(0) += n;
        }
        kind.series.extend(gathered.series);
    }
    let shapes = || {
        let calls = capture
            .processes
            .iter()
            .flat_map(|p| p.calls.iter().map(move |c| (p, c)));
        calls.map(|(process, call)| &process.shapes[call.shape as usize])
    };
    let hidden = shapes().any(|s| s.is(flag::CAPTURED)) && !shapes().any(|s| s.is(flag::REPLAY));
    (kinds, hidden)
}

/// The rows of one process.
fn rows(capture: &Capture, process: &Process, numbers: &mut Numbers) {
    let walk = Walk::new(process);
    // Where the executions of each place go: a kind, and which of the ranks and communicators of this process counts.
    let mut slots: HashMap<(usize, u32), usize> = HashMap::new();
    let mut of_place: Vec<Option<(usize, usize)>> = vec![None; walk.places().len()];
    let mut executions: Vec<u64> = vec![0; walk.places().len()];
    // The next operation at each slot.
    let mut next: Vec<usize> = Vec::new();
    walk.for_each(&mut Steps::default(), |execution| {
        if execution.captured {
            return;
        }
        let place = &walk.places()[execution.place];
        let (number, slot) = *of_place[execution.place].get_or_insert_with(|| {
            let number = numbers.of(capture, place.shape, place.function);
            let slot = *slots.entry((number, place.local)).or_insert(next.len());
            if slot == next.len() {
                next.push(0);
            }
            (number, slot)
        });
        executions[execution.place] += 1;
        let index = next[slot];
        next[slot] += 1;
        numbers.gathered[number].series[0].add(index, execution.gpu.ok(), execution.host());
    });
    for (place, n) in executions.into_iter().enumerate() {
        let Some((number, _)) = of_place[place] else {
            continue;
        };
        let gathered = &mut numbers.gathered[number];
        gathered.calls += n;
        // The places of operations in pieces come after those of the shapes.
        let in_pieces = place >= process.shapes.len();
        if let Some(how) = how(capture, walk.places()[place].shape, in_pieces) {
            *gathered.how.entry(how).or_insert(0) += n;
        }
    }
}

const SOURCES: [&str; 2] = ["gpu", "host"];

/// A kind's times of one source.
struct Times {
    side: Side,
    mean: Option<Mean>,
    no_interval: Option<&'static str>,
}

impl Gathered {
    /// Number and sum of the compared calls: without the first of each rank in a series that has more.
    fn compared(&self, source: usize) -> (u64, u128) {
        let (mut n, mut sum) = (self.summed[source].0, u128::from(self.summed[source].1));
        for series in &self.series {
            for values in series.parts(source) {
                n += values.len() as u64;
                sum += values.iter().map(|v| u128::from(*v)).sum::<u128>();
            }
        }
        (n, sum)
    }

    fn times(&self, source: Option<usize>) -> Times {
        let mut side = Side {
            calls: self.calls,
            compared: 0,
            mean_us: None,
            p50_us: None,
            sum_us: None,
            how: self.how.clone(),
        };
        let Some(source) = source else {
            return Times {
                side,
                mean: None,
                no_interval: Some("no times of one source in both"),
            };
        };
        let (n, sum) = self.compared(source);
        side.compared = n;
        side.mean_us = (n > 0).then(|| sum as f64 / n as f64 / 1e3);
        let mut values: Vec<u64> = self
            .series
            .iter()
            .flat_map(|s| s.parts(source))
            .flatten()
            .copied()
            .collect();
        if self.summed[source].0 == 0 && !values.is_empty() {
            let middle = values.len().div_ceil(2) - 1;
            side.p50_us = Some(*values.select_nth_unstable(middle).1 as f64 / 1e3);
        }
        let all = |values: &Series| -> u128 {
            let both = values.first[source].iter().chain(&values.values[source]);
            both.map(|v| u128::from(*v)).sum()
        };
        let all = self.series.iter().map(all).sum::<u128>() + u128::from(self.summed[source].1);
        side.sum_us = (n > 0).then_some(all as f64 / 1e3);
        let (mean, no_interval) = match self.mean(source) {
            Ok(mean) => (Some(mean), None),
            Err(why) => (None, Some(why)),
        };
        Times {
            side,
            mean,
            no_interval,
        }
    }

    /// The mean with its error, in ns; or why there is none.
    fn mean(&self, source: usize) -> Result<Mean, &'static str> {
        if self.summed[source].0 > 0 {
            return Err("calls counted without rows");
        }
        let longest = self
            .series
            .iter()
            .map(|s| s.operations.len().saturating_sub(1))
            .max();
        let mut batches = Batches::new(longest.unwrap_or(0)).ok_or("too few operations")?;
        for series in &self.series {
            let length = series.operations.len();
            let warm = usize::from(length > 1);
            for (index, operation) in series.operations.iter().enumerate().skip(warm) {
                let (sum, n) = [operation.gpu, operation.host][source];
                batches.add(index - warm, length - warm, sum as f64, f64::from(n));
            }
        }
        let step = if source == 0 { STAMP_STEP } else { 0.0 };
        batches.mean(step).ok_or("too few operations with a time")
    }
}

impl Series {
    /// Adds a rank's part in operation `index`, ns.
    fn add(&mut self, index: usize, gpu: Option<u64>, host: Option<u64>) {
        if self.operations.len() <= index {
            self.operations.resize(index + 1, Operation::default());
        }
        let operation = &mut self.operations[index];
        let values = if index == 0 {
            &mut self.first
        } else {
            &mut self.values
        };
        for ((to, values), ns) in [&mut operation.gpu, &mut operation.host]
            .into_iter()
            .zip(values)
            .zip([gpu, host])
        {
            if let Some(ns) = ns {
                *to = (to.0.saturating_add(ns), to.1 + 1);
                values.push(ns);
            }
        }
    }

    /// The compared values.
    fn parts(&self, source: usize) -> impl Iterator<Item = &Vec<u64>> {
        let alone = self.operations.len() == 1;
        let first = alone.then_some(&self.first[source]);
        first.into_iter().chain([&self.values[source]])
    }
}

/// Sets two runs side by side and judges `criteria`.
pub fn diff(a: &Run, b: &Run, criteria: &[Criterion]) -> Diff {
    let pairs = align(&a.roles, &b.roles);
    let mut rows = compare_kinds(a, b, &pairs);
    let totals = totals(&rows);
    find(&mut rows);
    sort(&mut rows);
    let environment = environment::changes(&a.facts, &b.facts);
    let criteria: Vec<Judgement> = criteria
        .iter()
        .map(|criterion| judge(*criterion, a, b, &rows, &totals, &environment))
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

fn compare_kinds(a: &Run, b: &Run, pairs: &[Pair]) -> Vec<Row> {
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
            let row = Row {
                role,
                nranks: nranks(role),
                function,
                datatype,
                bytes,
                finding: Finding::Unknown,
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

fn compare(mut row: Row, a: Option<&Gathered>, b: Option<&Gathered>) -> Row {
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
                Finding::Vanished
            } else {
                Finding::Appeared
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
fn totals(rows: &[Row]) -> Vec<Total> {
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
            a_us: a.mean / 1e3,
            b_us: b.mean / 1e3,
            finding: finding(&comparison, comparison.p_different() <= 1.0 - CONFIDENCE),
            versus: versus(
                Some(comparison.ratio),
                Some(comparison.difference / calls / 1e3),
                Some(&comparison),
                calls * 1e3,
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

fn finding(comparison: &Comparison, different: bool) -> Finding {
    match different {
        false => Finding::NoneFound,
        true if comparison.ratio > 1.0 => Finding::Slower,
        true => Finding::Faster,
    }
}

/// What is said of each kind.
fn find(rows: &mut [Row]) {
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
fn sort(rows: &mut [Row]) {
    let change = |r: &Row| {
        let a = r.a.as_ref()?;
        Some(r.versus.difference_us?.abs() * a.compared as f64)
    };
    let time = |r: &Row| {
        let side = r.a.as_ref().or(r.b.as_ref());
        side.and_then(|s| s.sum_us).unwrap_or(0.0)
    };
    let group = |r: &Row| match (r.finding, change(r)) {
        (Finding::Vanished, _) => 3,
        (Finding::Appeared, _) => 4,
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

/// A kind in a sentence.
fn title(row: &Row) -> String {
    let function = row.function.as_deref().unwrap_or("an unnamed function");
    let bytes = row
        .bytes
        .map_or(String::new(), |b| format!(" of {b} bytes"));
    let datatype = row
        .datatype
        .as_deref()
        .unwrap_or("")
        .trim_start_matches("nccl");
    let role = row
        .role
        .map_or(String::new(), |r| format!(", communicator role {r}"));
    format!("{function}{bytes} {datatype}{role}")
        .trim_end()
        .replace(" ,", ",")
}

fn judge(
    criterion: Criterion,
    a: &Run,
    b: &Run,
    rows: &[Row],
    totals: &[Total],
    changes: &[Change],
) -> Judgement {
    let (status, reasons) = match criterion {
        Criterion::Slower(by) => slower(by, rows, totals),
        Criterion::Missing => listed(
            rows.iter()
                .filter(|r| r.finding == Finding::Vanished)
                .map(title),
        ),
        Criterion::Algorithm => listed(rows.iter().filter(|r| r.how_changed).map(title)),
        Criterion::Environment => listed(
            changes
                .iter()
                .filter(|c| c.kind != Kind::Placement)
                .map(|c| c.key.clone()),
        ),
        Criterion::Incomplete => {
            let of = |name: &str, run: &Run| -> Vec<String> {
                let why = run.row.incomplete.iter();
                why.map(|why| format!("{name}: {why}")).collect()
            };
            listed(of("A", a).into_iter().chain(of("B", b)))
        }
    };
    Judgement {
        fail_on: criterion.to_string(),
        status,
        reasons,
    }
}

fn listed(reasons: impl Iterator<Item = String>) -> (Status, Vec<String>) {
    let reasons: Vec<String> = reasons.collect();
    let status = if reasons.is_empty() {
        Status::Passed
    } else {
        Status::Failed
    };
    (status, reasons)
}

fn slower(by: f64, rows: &[Row], totals: &[Total]) -> (Status, Vec<String>) {
    let limit = 1.0 + by;
    let kinds = rows
        .iter()
        .filter_map(|r| Some((title(r), r.comparison?, r.versus)));
    let whole = totals.iter().map(|t| {
        (
            format!("all operations together ({} time)", t.time_source),
            t.comparison,
            t.versus,
        )
    });
    let tests: Vec<(String, Comparison, Versus)> = kinds.chain(whole).collect();
    let p: Vec<f64> = tests.iter().map(|(_, c, _)| c.p_above(limit)).collect();
    let failed: Vec<String> = tests
        .iter()
        .zip(holm(&p, VERDICT_LEVEL))
        .filter(|(_, failed)| *failed)
        .map(|((title, _, versus), _)| {
            let [low, high] = versus.percent_interval.unwrap_or_default();
            let percent = versus.percent.unwrap_or(0.0);
            format!("{title}: {percent:+.1} % [{low:+.1}, {high:+.1}]")
        })
        .collect();
    if !failed.is_empty() {
        return (Status::Failed, failed);
    }
    // What can't be seen through the noise was not looked for.
    let blurred = totals.iter().find_map(|t| {
        let [low, high] = t.versus.percent_interval?;
        let width = (high - t.versus.percent?) / 100.0;
        (width > by.max(LEAST_SLOWER)).then_some((t, low, high))
    });
    if let Some((t, low, high)) = blurred {
        let percent = t.versus.percent.unwrap_or(0.0);
        let why = format!(
            "too noisy for it: all operations together ({} time) {percent:+.1} % [{low:+.1}, {high:+.1}]",
            t.time_source
        );
        return (Status::Undecided, vec![why]);
    }
    match totals.iter().map(|t| t.share).reduce(f64::min) {
        Some(share) if share >= JUDGED_SHARE => (Status::Passed, Vec::new()),
        Some(share) => {
            let why = format!(
                "kinds that can be compared with an interval hold {:.0} % of A's time; {:.0} % are needed",
                share * 100.0,
                JUDGED_SHARE * 100.0
            );
            (Status::Undecided, vec![why])
        }
        None => {
            let why = format!("no kind of operation has an interval (it takes rows of {} operations in both runs, after the first)", LEAST_OPERATIONS);
            (Status::Undecided, vec![why])
        }
    }
}

fn notes(a: &Run, b: &Run, rows: &[Row]) -> Vec<String> {
    let mut notes = vec![
        "An interval knows the noise within these two runs only. What differs from start to start (placement, clocks, other \
         jobs) shows when two equal runs are compared."
            .to_owned(),
    ];
    if rows
        .iter()
        .any(|r| r.time_source == Some("gpu") && r.b.is_some() && r.a.is_some())
    {
        notes.push("GPU time is from a rank's start to its stop and includes waiting for ranks that come later.".to_owned());
    }
    if rows
        .iter()
        .any(|r| r.time_source == Some("host") && r.b.is_some() && r.a.is_some())
    {
        notes.push(
            "Host time is from API entry to return: it says what the calls cost the program, not how long the operations \
             took. Without NCCLSCOPE_TIMING=host there are GPU times."
                .to_owned(),
        );
    }
    let few = rows
        .iter()
        .filter(|r| r.no_interval == Some("too few operations"))
        .count();
    if few > 0 {
        notes.push(format!(
            "Kinds with less than {LEAST_OPERATIONS} operations after the first in a run have no interval and no finding: {few}."
        ));
    }
    let rowless = rows
        .iter()
        .filter(|r| r.no_interval == Some("calls counted without rows"));
    let rowless = rowless.count();
    if rowless > 0 {
        notes.push(format!(
            "Kinds with calls that were counted without rows have no interval and no finding: {rowless}. NCCLSCOPE_MODE=trace keeps rows."
        ));
    }
    let fallen_back = rows
        .iter()
        .filter(|r| r.b.is_some() && r.time_source == Some("host") && r.a_times[0] > 0.0);
    let fallen_back = fallen_back.count();
    if fallen_back > 0 {
        notes.push(format!(
            "Kinds with GPU times in A and none in B, so compared by host time: {fallen_back}. `ncclscope report` on B says why."
        ));
    }
    for (name, run) in [("A", a), ("B", b)] {
        if !run.row.incomplete.is_empty() {
            notes.push(format!(
                "{name} is not complete: {}.",
                run.row.incomplete.join(", ")
            ));
        }
        if run.replays_hidden {
            notes.push(format!(
                "Replays of CUDA graphs do not show in {name}, so what they did is not compared."
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_are_read_as_they_are_written() {
        for text in [
            "slower=5%",
            "slower=0.5%",
            "missing",
            "environment",
            "algorithm",
            "incomplete",
        ] {
            let criterion: Criterion = text.parse().expect("a criterion");
            assert_eq!(criterion.to_string(), text);
        }
        for wrong in [
            "slower",
            "slower=5",
            "slower=x%",
            "slower=-1%",
            "faster=5%",
            "nothing",
            "",
        ] {
            assert!(wrong.parse::<Criterion>().is_err(), "{wrong}");
        }
    }
}
