//! What a trial came to, as it is printed: the same names in JSON and in the tables.
//!
//! Rule: missing is null. Every figure has its unit in its name, or beside it in `unit`.

use crate::accuracy::Accuracy;
use crate::completeness::Counts;
use crate::distribution::Distribution;
use crate::overhead::Overhead;
use schemars::JsonSchema;
use serde::Serialize;

/// All answers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Report {
    /// `ncclscope.judge/1`.
    pub schema: &'static str,
    /// `fake-nccl`, `bench` or `command`.
    #[schemars(extend("enum" = ["fake-nccl", "bench", "command"]))]
    pub work: String,
    /// Rounds.
    pub rounds: u32,
    /// Of the order of runs.
    pub seed: u64,
    /// A ratio above this is too much; a share of the time without a profiler.
    pub limit: f64,
    /// How sure intervals are.
    pub confidence: f64,
    /// Calls done against calls recorded, all rounds together.
    pub completeness: Vec<CompletenessOf>,
    /// The same by function: the share of calls that each profiler recorded.
    pub recorded: Vec<RecordedOf>,
    /// Times by the profiler against times by the work.
    pub accuracy: Vec<AccuracyOf>,
    /// What the work takes longer.
    pub overhead: Vec<OverheadOf>,
    /// How times of calls are spread, by the work's own clock and by each profiler's.
    pub distributions: Vec<DistributionOf>,
    /// Communication time beside the time of the run; medians over rounds.
    pub communication: Vec<CommunicationOf>,
    /// Processor time that small calls take more, by event type, hosts and release; of fake-nccl with
    /// `--mask-bits` only.
    pub event_costs: Vec<EventCost>,
    /// What callbacks take, an empty plugin's cost subtracted; of fake-nccl only.
    pub callbacks: Vec<Callbacks>,
    /// What a profiler takes of the machine; medians over rounds.
    pub resources: Vec<Resources>,
    /// What kept an answer from being given.
    pub notes: Vec<String>,
}

/// Completeness of one profiler in one case, all rounds together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompletenessOf {
    /// Its name; `none` is the work without a profiler.
    pub profiler: String,
    /// The case, for example `single`.
    pub case: String,
    /// What its output was read as.
    pub format: String,
    /// Over all functions, sizes and ranks.
    #[serde(flatten)]
    pub counts: Counts,
    /// Matched by done; null where nothing was done.
    pub recorded_percent: Option<f64>,
    /// Calls that the profiler says it lost; null where it doesn't say.
    pub admitted: Option<u64>,
    /// Rows that can't be read.
    pub unreadable: u64,
    /// Records without function, size or rank, which are foreign too.
    pub nameless: u64,
    /// Why no call has a record, as far as that is known; null if any has.
    pub why: Option<String>,
    /// Operations judged by their sends and receives.
    pub by_pieces: Vec<String>,
    /// By function, size and rank.
    pub by: Vec<CompletenessBy>,
}

/// Calls of one function that one profiler recorded in one case, over all sizes, ranks and rounds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecordedOf {
    /// Its name; `none` is the work without a profiler.
    pub profiler: String,
    /// The case, for example `single`.
    pub case: String,
    /// NCCL's name.
    pub function: String,
    /// Calls done.
    pub done: u64,
    /// Calls recorded.
    pub matched: u64,
    /// Matched by done.
    pub recorded_percent: f64,
}

/// Times of one function and size in one case, over all ranks and rounds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DistributionOf {
    /// Under which profiler the work ran, `none` among them.
    pub profiler: String,
    /// The case, for example `single`.
    pub case: String,
    /// NCCL's name.
    pub function: String,
    /// Size by the convention of nccl-tests.
    pub bytes: u64,
    /// Who timed the calls: `bench` or `profiler`.
    #[schemars(extend("enum" = ["bench", "profiler"]))]
    pub by: &'static str,
    /// The figures.
    #[serde(flatten)]
    pub distribution: Distribution,
}

/// Communication time of one profiler in one case; medians over rounds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CommunicationOf {
    /// Its name; `none` is the work without a profiler.
    pub profiler: String,
    /// The case, for example `single`.
    pub case: String,
    /// Sum of the times of calls by the profiler, mean over ranks, s; null if it has no times. A call without
    /// a time counts as the mean of those of its function and size that have one.
    pub told_s: Option<f64>,
    /// 95 % interval of that, s: rounds differ, and calls without a time may differ from those with one; null
    /// if neither says anything.
    pub told_interval_s: Option<(f64, f64)>,
    /// Calls with a time by the profiler, of the calls done; may be above 100 where records are no calls.
    pub timed_percent: Option<f64>,
    /// The same sum by the work's own clock, s; null if the work does not time its calls.
    pub own_s: Option<f64>,
    /// Seconds of the run, start-up and all.
    pub wall_s: f64,
    /// Told as a share of the wall time. Above 1, the profiler's times can't be right, unless calls overlap.
    pub told_share_of_wall: Option<f64>,
}

/// Completeness of one function and size on one rank.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompletenessBy {
    /// NCCL's name.
    pub function: String,
    /// Size by the convention of nccl-tests.
    pub bytes: u64,
    /// The launcher's rank.
    pub rank: u32,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Accuracy of one profiler for one function and size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AccuracyOf {
    /// Its name; `none` is the work without a profiler.
    pub profiler: String,
    /// The case, for example `single`.
    pub case: String,
    /// NCCL's name.
    pub function: String,
    /// Size by the convention of nccl-tests.
    pub bytes: u64,
    /// The figures.
    #[serde(flatten)]
    pub accuracy: Accuracy,
}

/// Overhead of one profiler in one figure of the work.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OverheadOf {
    /// Its name; `none` is the work without a profiler.
    pub profiler: String,
    /// The case, for example `single`.
    pub case: String,
    /// What was measured.
    pub figure: String,
    /// What `without` and `with` are in.
    pub unit: String,
    /// The comparison.
    #[serde(flatten)]
    pub overhead: Overhead,
}

/// How much more processor time small calls take under one profiler.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EventCost {
    /// The profiler; `empty NAME` asks for the events of one type, and does nothing with them.
    pub profiler: String,
    /// The function that was called, for example `SendRecv`.
    pub function: String,
    /// Bytes of each call.
    pub bytes: u64,
    /// Simulated hosts.
    pub hosts: u32,
    /// Simulated release of NCCL.
    pub release: String,
    /// Rounds.
    pub pairs: u64,
    /// Processor time of the thread that calls NCCL, a call without a profiler, mean of the rounds.
    pub call_us: f64,
    /// What it takes more under the profiler, mean of the rounds.
    pub call_more_us: f64,
    /// Its 95 % interval; null below two rounds.
    pub call_more_interval_us: Option<(f64, f64)>,
    /// Processor time of the other threads of the process, a call without a profiler.
    pub threads_us: f64,
    /// What that is more under the profiler.
    pub threads_more_us: f64,
    /// Its 95 % interval; null below two rounds.
    pub threads_more_interval_us: Option<(f64, f64)>,
}

/// Cost of callbacks in ns of one call, with its interval over rounds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Callbacks {
    /// Its name; `none` is the work without a profiler.
    pub profiler: String,
    /// Calls a second, 0 as fast as they go.
    pub rate: u64,
    /// Channels of each call.
    pub channels: u64,
    /// On the thread that calls NCCL, a call.
    pub call_ns: f64,
    /// Its 95 % interval; null below two rounds.
    pub call_interval_ns: Option<(f64, f64)>,
    /// On NCCL's progress thread, a call.
    pub progress_ns: f64,
    /// Its 95 % interval; null below two rounds.
    pub progress_interval_ns: Option<(f64, f64)>,
    /// 99.99th percentile of one callback, median of the rounds.
    pub p9999_us: f64,
    /// Longest callback of all rounds.
    pub max_us: f64,
    /// Processor time of the profiler's own threads, median of the rounds.
    pub own_cpu_percent: f64,
    /// Growth of resident memory, the unit is MiB, largest of the rounds.
    pub rss_growth_mib: f64,
}

/// What one profiler takes of the machine in one case; medians over rounds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Resources {
    /// Its name; `none` is the work without a profiler.
    pub profiler: String,
    /// The case, for example `single`.
    pub case: String,
    /// Seconds of a run.
    pub wall_s: f64,
    /// Processor seconds of a run, all processes.
    pub cpu_s: f64,
    /// Resident memory of the largest process, the unit is MiB.
    pub peak_mib: f64,
    /// Size of files for each call done, the unit is bytes; null for no profiler, or where no call was
    /// counted.
    pub output_bytes_per_call: Option<f64>,
}
