//! The run over time: what happened in each of some 200 buckets, over all ranks.
//!
//! A [`Gatherer`] takes one process at a time: a [`ProcessBins`] adds the process's calls to the bins of
//! their GPUs. [`Gatherer::finish`] puts all bins on the clock of the first host, and joins them to buckets
//! of one width. The width in ns is a power of two.
//!
//! Calls are counted at their begin. Bytes and times are split over the buckets in which the call's kernel
//! ran, by their share of time. If the kernel's time on the host's clock is not known, the call lies where
//! the host saw the kernel end. A call without a kernel lies at its API call. A GPU that is on another host's
//! clock is moved by whole bins, to a quarter of a bucket.
//!
//! Time in NCCL that was estimated because calls were not timed lies in the buckets with such calls.
//!
//! Rule: the sum of a curve over all buckets is the sum in the report's tables. What has no time is in no
//! bucket, and [`Timeline::without_time`] counts it.

use crate::clocks::{ClockLine, Clocks};
use crate::deaths::Death;
use crate::streams::NoWindows;
use crate::subject::ProcessId;
use crate::time::{HostTime, Moment, Nanos};
use curves::{Curves, SampledCurve};
use schemars::JsonSchema;
use serde::Serialize;

pub use gathering::{Gatherer, ProcessBins};

mod bins;
pub mod curves;
mod gathering;
mod joining;

/// Buckets at most: fewer than half as many are in no run that is longer than a millisecond.
pub const MOST: usize = 256;

/// Which buckets have something: one bit each, the first bucket's the lowest.
pub type Buckets = [u64; MOST / 64];

/// The run over time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Timeline {
    /// Begin of the first bucket, ns since 1970, on the clock of the first host.
    pub begin_ns: i64,
    /// Width of a bucket.
    pub bucket_us: f64,
    /// Buckets.
    pub buckets: u64,
    /// GPUs that rates and shares are over.
    pub ranks: u64,
    /// Calls of which no time is known: in no bucket.
    pub without_time: u64,
    /// Calls per second, counted at their begin.
    pub calls: Curve,
    /// Of these: collectives.
    pub collectives: Curve,
    /// Of these: sends. A SendRecv is one, and a receive too.
    pub sends: Curve,
    /// Of these: receives.
    pub recvs: Curve,
    /// Of all calls: those without a GPU time, which are in no time below. Null where no call has one.
    pub untimed: Option<Curve>,
    /// Bytes of calls per second; null if the size of some call is not known.
    pub bytes: Option<Curve>,
    /// Bytes per second that the network accepted; null where no steps were recorded.
    pub bytes_sent: Option<Curve>,
    /// Bytes per second that came over the network.
    pub bytes_received: Option<Curve>,
    /// Share of the time in NCCL: kernels, or API calls where no call has a GPU time. Null if no call has a
    /// length.
    pub nccl: Option<Curve>,
    /// Share of the time that operations with a GPU time on every rank waited for their last one; null
    /// without any.
    pub waiting: Option<Curve>,
    /// Share of the time in these operations after the last rank's arrival.
    pub transfer: Option<Curve>,
    /// Share of the time that streams stood still for calls; null where none was seen to wait.
    pub exposed: Option<Curve>,
    /// The same from kernel windows, if there are some, for the time that these show.
    #[serde(skip)]
    pub exposed_in_windows: InWindows,
    /// Share of the time that a call's data was in the network's hands: of each call, its longest network
    /// operation. Null where that was not recorded.
    #[serde(skip)]
    pub nic: Option<Curve>,
    /// What the node sampler saw: power, clocks, CPU time and the like.
    #[serde(skip)]
    pub sampled: Curves,
    /// Which part of the time threads of a rank were inside of MPI; null if no process was seen to call it.
    #[serde(skip)]
    pub mpi: Option<SampledCurve>,
    /// How long calls that began in a bucket took on the GPU; null without GPU times.
    #[serde(skip)]
    pub durations_us: Option<Band>,
    /// Ranks that are late more than chance gives, and how long operations waited for them alone.
    #[serde(skip)]
    pub late: Vec<LateRank>,
    /// When steps began.
    #[serde(skip)]
    pub steps: Option<StepMarks>,
    /// When ranks died.
    #[serde(skip)]
    pub marks: Vec<Mark>,
    /// What each row of the report's tables was active in; for pages that filter by time.
    #[serde(skip)]
    pub active: Active,
}

/// A figure over time, a value for each bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// Over all ranks: a number, bytes, or µs.
    pub sum: Vec<f64>,
    /// Of the rank with least: per second, or share of the time; four digits.
    pub min: Vec<f64>,
    /// Mean over ranks, in the unit of `min`.
    pub mean: Vec<f64>,
    /// Of the rank with most, in the unit of `min`.
    pub max: Vec<f64>,
}

/// How something is spread, a value for each bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Band {
    /// How many.
    pub n: Vec<u64>,
    /// A tenth is below it; null where there is none.
    pub p10: Vec<Option<f64>>,
    /// Median.
    pub p50: Vec<Option<f64>>,
    /// A tenth is above it.
    pub p90: Vec<Option<f64>>,
}

/// Exposed communication by kernel windows, which show a part of the time only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct InWindows {
    /// How long windows show each bucket, summed over GPUs, µs.
    pub seen_us: Vec<f64>,
    /// For how long of that kernels communicated and nothing computed, µs; null if no window shows the
    /// bucket.
    pub exposed_us: Vec<Option<f64>>,
    /// The one by the other.
    pub share: Vec<Option<f64>>,
    /// Why buckets are null; null if none is.
    #[serde(skip)]
    pub why_null: Option<NoWindows>,
}

/// A rank that is late more than chance gives.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LateRank {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// How long operations waited for this rank alone, when all others had arrived.
    pub held_up_us: Vec<f64>,
}

/// When steps began.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepMarks {
    /// The rank.
    pub rank: Option<u32>,
    /// Every such step is here: 1 is all of them.
    pub every: u64,
    /// After the begin of the timeline.
    pub begins_us: Vec<f64>,
}

/// Something that happened at a moment. `render` says what.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// `dead_rank`.
    pub kind: &'static str,
    /// After the begin of the timeline.
    pub at_us: f64,
}

/// In which buckets rows of tables have calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Active {
    /// By row of the operations table.
    pub operations: Vec<Buckets>,
    /// By row of the ranks table.
    pub ranks: Vec<Buckets>,
}

/// Bytes of a GB.
const GB: f64 = 1e9;

impl Timeline {
    /// Where a bucket begins, and the one before it ends.
    pub(crate) fn edge(&self, bucket: u64) -> Moment {
        Moment(self.begin_ns) + Nanos::from_us(bucket as f64 * self.bucket_us)
    }

    /// GB of all calls, if the sizes are known.
    pub(crate) fn gb(&self) -> Option<f64> {
        let bytes = self.bytes.as_ref()?;
        Some(bytes.sum.iter().sum::<f64>() / GB)
    }

    /// Marks when ranks died, in the order of the deaths.
    pub(crate) fn mark_deaths(&mut self, deaths: &[Death], clocks: Option<&Clocks>) {
        self.marks.extend(deaths.iter().map(|death| {
            let line = ClockLine::of(&death.process.host, clocks);
            let at = line.on_reference(HostTime(death.seen_ns));
            Mark {
                kind: "dead_rank",
                at_us: (at - Moment(self.begin_ns)).us(),
            }
        }));
    }
}

/// A timeline without buckets.
#[cfg(test)]
pub(crate) fn empty() -> Timeline {
    Timeline {
        begin_ns: 0,
        bucket_us: 0.0,
        buckets: 0,
        ranks: 0,
        without_time: 0,
        calls: Curve::default(),
        collectives: Curve::default(),
        sends: Curve::default(),
        recvs: Curve::default(),
        untimed: None,
        bytes: None,
        bytes_sent: None,
        bytes_received: None,
        nccl: None,
        waiting: None,
        transfer: None,
        exposed: None,
        exposed_in_windows: InWindows::default(),
        nic: None,
        sampled: Curves::default(),
        mpi: None,
        durations_us: None,
        late: Vec::new(),
        steps: None,
        marks: Vec::new(),
        active: Active::default(),
    }
}
