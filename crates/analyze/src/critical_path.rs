//! The critical path of a step: the chain of work and transfers, over all ranks, that the step's time
//! consists of.
//!
//! [`find`] takes the path of the whole run from [`crate::arrivals`]. That goes back from the end of the last
//! operation: through an operation's transfer to the rank that arrived last. Then it goes through that rank's
//! work to the operation that the work waited for, and so on. [`find`] cuts the path where steps end on the
//! rank that [`Steps`] are of. [`CriticalPath::rows`] sums it up over steps, and [`CriticalPath::step`] has
//! the pieces of one step.
//!
//! Only steps count in which every call has a GPU time: between others, work and untimed calls look alike.
//! What is not on the path costs the step nothing by itself. What is on it saves at most its time, because
//! another chain may be nearly as long.
//!
//! Rule: the segments of a step sum to the step's time.

use crate::arrivals::over_time::{GpuKey, OverTime, Passed, Piece};
use crate::operations::Operation;
use crate::steps::{Step, Steps};
use crate::subject::ProcessId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Segments of a step that are kept.
const MOST_SEGMENTS: usize = 1000;
/// A rank that does so much of the work on the path is named.
const MOSTLY: f64 = 0.8;
/// Of more parts of operations no path is looked for: it takes some 100 bytes for each.
const MOST_PARTS: usize = 1 << 24;

/// The critical path of the job's steps.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CriticalPath {
    /// The rank at whose last call a step ends.
    pub rank: Option<u32>,
    /// Steps that the path is known of: every call in them was timed.
    pub steps: u64,
    /// Their time, µs. It is the sum of all segments.
    pub sum_us: f64,
    /// What it consists of, largest first.
    #[serde(skip)]
    pub rows: Vec<PathRow>,
    /// The step of median time.
    #[serde(skip)]
    pub step: PathStep,
}

/// What segments are.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct On {
    /// `work` of a rank, an `operation` from its last arrival to its end, or an `other_kernel` of NCCL. The
    /// last is a send, a receive, a call of a root, or one without a time on every rank.
    #[schemars(extend("enum" = ["work", "operation", "other_kernel"]))]
    pub kind: &'static str,
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// Why it ended then. Of an operation, because its transfer was over. Of work: `launch` if the kernel
    /// began when its host launched it. `busy_gpu` if it was launched long before, and its GPU did something
    /// else. Null if not known.
    #[schemars(extend("enum" = ["launch", "busy_gpu", null]))]
    pub why: Option<&'static str>,
    /// The operation, or that to which the work led: its function.
    pub function: Option<String>,
    /// Its datatype, as NCCL names it.
    pub datatype: Option<String>,
    /// Its bytes, by the convention of nccl-tests.
    pub bytes: Option<u64>,
    /// Its communicator.
    pub communicator: Option<String>,
}

/// Segments of one kind, over all steps.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PathRow {
    /// What they are.
    #[serde(flatten)]
    pub on: On,
    /// How many segments, over all steps of the path.
    pub count: u64,
    /// Time of these segments, µs.
    pub sum_us: f64,
    /// Their time as a share of the steps' time, 0 to 1.
    pub share: f64,
}

/// The path of one step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PathStep {
    /// Which step of the rank, from 1.
    pub number: u64,
    /// From the end of the last kernel of the step before to that of this step, µs.
    pub time_us: f64,
    /// In order; they sum to the step's time.
    #[serde(skip)]
    pub segments: Vec<Segment>,
    /// Segments after these, which are left out.
    #[serde(skip)]
    pub beyond: u64,
}

/// A segment of the path.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Segment {
    /// What it is.
    #[serde(flatten)]
    pub on: On,
    /// Begin, from the begin of the step, µs.
    pub at_us: f64,
    /// How long it takes, µs.
    pub time_us: f64,
}

impl CriticalPath {
    /// Mean time of a step, µs.
    pub fn mean_us(&self) -> f64 {
        self.sum_us / (self.steps as f64).max(1.0)
    }

    /// The share of a kind of segments, 0 to 1.
    pub fn share(&self, kind: &str) -> f64 {
        let of = self.rows.iter().filter(|row| row.on.kind == kind);
        // The sum of nothing is -0 otherwise.
        of.map(|row| row.share).fold(0.0, |a, b| a + b)
    }

    /// The rank that does most of the work on the path, if one does nearly all of it, and its share of that.
    pub fn worker(&self) -> Option<(u32, f64)> {
        let mut ranks: BTreeMap<Option<u32>, f64> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.on.kind == "work") {
            *ranks.entry(row.on.process.rank).or_insert(0.0) += row.share;
        }
        let work = self.share("work");
        let most = ranks.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let (rank, share) = most.filter(|(_, share)| **share >= MOSTLY * work)?;
        Some(((*rank)?, share / work))
    }
}

/// What is summed up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    what: Passed,
    gpu: usize,
    row: u32,
}

/// Says what segments are.
struct Naming<'a> {
    gpus: Vec<GpuKey<'a>>,
    operations: HashMap<u32, &'a Operation>,
}

impl Naming<'_> {
    fn on(&self, key: Key) -> On {
        let gpu = self.gpus[key.gpu];
        let operation = self.operations.get(&key.row);
        On {
            kind: match key.what {
                Passed::Transfer => "operation",
                Passed::OtherKernel => "other_kernel",
                Passed::WorkToLaunch | Passed::WorkOfGpu | Passed::Work => "work",
            },
            process: ProcessId {
                rank: gpu.rank,
                host: gpu.host.to_owned(),
                pid: gpu.pid,
            },

            device: gpu.device,
            why: match key.what {
                Passed::WorkToLaunch => Some("launch"),
                Passed::WorkOfGpu => Some("busy_gpu"),
                _ => None,
            },
            function: operation.and_then(|o| o.function.clone()),
            datatype: operation.and_then(|o| o.datatype.clone()),
            bytes: operation.and_then(|o| o.bytes),
            communicator: operation.and_then(|o| o.communicator.clone()),
        }
    }
}

/// A step, and what of the path is in it.
struct StepOnPath {
    time: Nanos,
    /// From 1.
    number: u64,
    /// Pieces, and how much of each lies in the step.
    pieces: Vec<(Piece, Nanos)>,
}

/// The path of the job's steps; `None` without steps of which every call was timed.
pub(crate) fn find(
    of: &OverTime,
    steps: Option<&Steps>,
    operations: &[Operation],
) -> Option<CriticalPath> {
    let reference = steps?.reference()?;
    let gpus: Vec<GpuKey> = of.gpus().collect();
    let mut own = (0..gpus.len()).filter(|gpu| {
        let gpu = gpus[*gpu];
        (gpu.rank, gpu.host, gpu.pid)
            == (
                reference.process.rank,
                &reference.process.host[..],
                reference.process.pid,
            )
    });
    // A process with several GPUs has no one clock for its steps.
    let (Some(gpu), None) = (own.next(), own.next()) else {
        return None;
    };
    let pairs = || reference.each.windows(2).zip(2u64..);
    if of.is_empty() || of.parts() > MOST_PARTS || !pairs().any(|(pair, _)| span(pair).is_some()) {
        return None;
    }
    let pieces = of.path(gpu);
    let known: HashMap<u32, &Operation> = operations.iter().map(|o| (o.gathered_as, o)).collect();
    let places = Places::new(of, gpu, &pieces)?;
    let mut found: Vec<StepOnPath> = Vec::new();
    for (pair, number) in pairs() {
        let Some((from, to)) = span(pair) else {
            continue;
        };
        let (from, to) = (places.of(from), places.of(to));
        // The path begins at its first operation.
        if from >= Nanos::ZERO && from < to && to <= places.end() {
            found.push(StepOnPath {
                time: to - from,
                number,
                pieces: places.between(&pieces, from, to),
            });
        }
    }
    let naming = Naming {
        gpus,
        operations: known,
    };
    let key = |piece: &Piece| Key {
        what: piece.what,
        gpu: piece.lane,
        row: of.row(piece.operation),
    };
    let sum: Nanos = found.iter().map(|step| step.time).sum();
    let mut sums: BTreeMap<Key, (u64, Nanos)> = BTreeMap::new();
    for (piece, time) in found.iter().flat_map(|step| &step.pieces) {
        let of_key = sums.entry(key(piece)).or_default();
        *of_key = (of_key.0 + 1, of_key.1 + *time);
    }
    let mut rows: Vec<(Key, (u64, Nanos))> = sums.into_iter().collect();
    rows.sort_by_key(|(key, (_, time))| (std::cmp::Reverse(*time), *key));
    let row = |(key, (count, time)): (Key, (u64, Nanos))| PathRow {
        on: naming.on(key),
        count,
        sum_us: time.us(),
        share: time / sum,
    };
    let rows = rows.into_iter().map(row).collect();
    let steps = found.len() as u64;
    found.sort_by_key(|step| (step.time, step.number));
    let median = found.get((found.len().max(1) - 1) / 2)?;
    let mut at = Nanos::ZERO;
    let segment = |(piece, time): &(Piece, Nanos)| {
        let begin = at;
        at += *time;
        Segment {
            on: naming.on(key(piece)),
            at_us: begin.us(),
            time_us: time.us(),
        }
    };
    Some(CriticalPath {
        rank: reference.process.rank,
        steps,
        sum_us: sum.us(),
        rows,
        step: PathStep {
            number: median.number,
            time_us: median.time.us(),
            segments: median
                .pieces
                .iter()
                .take(MOST_SEGMENTS)
                .map(segment)
                .collect(),
            beyond: median.pieces.len().saturating_sub(MOST_SEGMENTS) as u64,
        },
    })
}

/// From when to when a step lasts that follows another at once, ns.
fn span(pair: &[Step]) -> Option<(i64, i64)> {
    pair[0].time_ns?;
    let end = |step: &Step| i64::try_from(step.end_ns?).ok();
    end(&pair[0]).zip(end(&pair[1]))
}

/// Places on the path, by the clock of one GPU. A place is the time from the path's begin.
struct Places {
    /// At the end of operations that the GPU has a part in: its clock, ns, and the place.
    known: Vec<(i64, Nanos)>,
    /// By piece: the place of its begin; and of the path's end.
    begins: Vec<Nanos>,
}

impl Places {
    fn new(of: &OverTime, gpu: usize, pieces: &[Piece]) -> Option<Places> {
        let (mut at, mut begins, mut known) = (Nanos::ZERO, vec![Nanos::ZERO], Vec::new());
        for piece in pieces {
            at += Nanos::from(piece.to - piece.from);
            begins.push(at);
            if piece.what == Passed::Transfer {
                known.extend(of.end(piece.operation, gpu).map(|end| (end, at)));
            }
        }
        // By the error of clocks, an operation that ended later may have come before.
        known.sort_unstable();
        (!known.is_empty()).then_some(Places { known, begins })
    }

    fn end(&self) -> Nanos {
        self.begins.last().copied().unwrap_or_default()
    }

    /// The place of a time, from the nearest known one at or before it.
    fn of(&self, time: i64) -> Nanos {
        let after = self.known.partition_point(|(clock, _)| *clock <= time);
        let (clock, place) = self.known[after.saturating_sub(1)];
        place + Nanos::from(time - clock)
    }

    /// What of the path is between two places, and how much of each piece.
    fn between(&self, pieces: &[Piece], from: Nanos, to: Nanos) -> Vec<(Piece, Nanos)> {
        let first = self.begins.partition_point(|begin| *begin <= from) - 1;
        let part = |(at, piece): (usize, &Piece)| {
            let (begin, end) = (self.begins[at].max(from), self.begins[at + 1].min(to));
            (begin < end).then_some((*piece, end - begin))
        };
        let rest = pieces.iter().enumerate().skip(first);
        rest.take_while(|(at, _)| self.begins[*at] < to)
            .filter_map(part)
            .collect()
    }
}

#[cfg(test)]
mod tests;
