//! A report as JSON, in the format of `schema/report-1.json`.

use crate::problems::{self, ProblemRow};
use crate::recommendations::{self, RecommendationRow};
use crate::streams;
use crate::{
    clocks, completeness, critical_path, driver_calls, efficiency, findings, nodes, notes,
    settings, verdict, waiting,
};
use analyze::timeline::curves::{Curves, SampledCurve};
use analyze::timeline::{Band, Curve, InWindows, LateRank, StepMarks, Timeline};
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;

/// The JSON Schema of a report.
pub const SCHEMA: &str = crate::meanings::REPORT;

/// A report with the words of its findings, as JSON has it.
#[derive(Serialize, JsonSchema)]
pub struct ReportJson<'a> {
    schema: &'static str,
    /// What matters most, in one sentence.
    verdict: String,
    /// What was recorded, and how.
    job: &'a analyze::job::Job,
    /// What was announced, recorded and timed.
    completeness: completeness::Row<'a>,
    /// Ranks that died while others went on, the first first.
    deaths: &'a [analyze::deaths::Death],
    /// Processes that ended by a signal or with an error, the first first.
    exits: &'a [analyze::exits::ExitRow],
    /// What `ncclscope hang` said while the job ran, the oldest first.
    sightings: &'a [analyze::sightings::SightingRow],
    /// How much of the run each rank spent in NCCL, and which differ.
    ranks: &'a analyze::ranks::Ranks,
    /// The communicators, by first use.
    communicators: &'a [analyze::job::CommunicatorRow],
    /// Collectives against point-to-point.
    kinds: &'a [analyze::functions::KindRow],
    /// What each function did in all, and the parts of its calls, largest time first.
    functions: &'a [analyze::functions::FunctionRow],
    /// What each line of the program called, largest GPU time first; empty without recorded stacks.
    callers: &'a [analyze::callers::CallerRow],
    /// Parts of calls by function and size (from one power of two to the next), most calls first.
    parts: &'a [analyze::functions::PartsRow],
    /// What was done on the communicators, largest total time first.
    operations: &'a [analyze::operations::Operation],
    /// The bandwidths of operations as shares of ceilings, in the order of `operations`.
    efficiency: Vec<efficiency::Row<'a>>,
    /// CUDA graphs with NCCL calls, most calls executed first.
    graphs: &'a [analyze::graphs::GraphRow],
    /// The first calls on the communicators, longest first.
    warmup: &'a [analyze::warmup::WarmupRow],
    /// Which settings of algorithm and protocol took effect.
    settings: Vec<settings::Row<'a>>,
    /// What the network did for them, most bytes first; empty where no call used it or it was not recorded.
    network: &'a [analyze::network::NetworkRow],
    /// The run over time, in at most 256 buckets; null without a single time. docs/reference/report.md says
    /// what is counted where.
    timeline: Option<TimelineJson<'a>>,
    /// The steps of the job: as the program marked them, or calls that repeat; null without either. `step_us`
    /// is of the rank named.
    steps: Option<&'a analyze::steps::Steps>,
    /// The phases that the program marked, the largest median time of a rank first.
    phases: &'a [analyze::steps::marked::PhaseRow],
    /// The critical path of a step, over all ranks; null if no step has a GPU time of every call.
    critical_path: Option<critical_path::Row<'a>>,
    /// What the GPUs did, from kernel windows; null where there were none.
    streams: Option<&'a analyze::streams::Streams>,
    /// Power, energy, CPU time, memory, disks and networks, from the node sampler of ncclscope run.
    nodes: nodes::Row<'a>,
    /// Time in MPI; null where no process was seen to call it.
    mpi: Option<&'a analyze::mpi::Mpi>,
    /// What recording cost this job; null where no time passed between calls.
    cost: Option<&'a analyze::cost::Cost>,
    /// How often the CUDA driver was called, by NCCL and by the program; null if no process counted.
    driver_calls: Option<driver_calls::Row<'a>>,
    /// Exposed communication, from streams that waited for calls; null where none was seen to wait.
    stream_waits: Option<&'a analyze::stream_waits::StreamWaits>,
    /// Who waited and who was waited for; null where no operation has a GPU time on every rank. _rank_us:
    /// summed over ranks; _wall_us: of the wall.
    arrivals: Option<waiting::Row<'a>>,
    /// Where the wall time of the steps goes; null without steps.
    account: Option<&'a analyze::account::Account>,
    /// How the hosts' clocks stand to each other; null for one host. docs/concepts/clocks.md says what the
    /// words mean.
    clocks: Option<clocks::Row<'a>>,
    /// What the figures mean here, and what can't be seen.
    notes: Vec<String>,
    /// What was wrong with files that were read.
    problems: Vec<ProblemRow>,
    /// What is wrong, the costliest first.
    findings: Vec<findings::Row>,
    /// What to change, what saves most first.
    recommendations: Vec<RecommendationRow>,
    /// Whether the recording is complete, and what the figures are of.
    summary: String,
    /// What to run next.
    next: String,
}

/// The run over time, with the sentences of what happened.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Timeline")]
struct TimelineJson<'a> {
    #[serde(flatten)]
    timeline: &'a Timeline,
    /// The same from kernel windows, if there are some, for the time that these show.
    exposed_in_windows: InWindowsJson<'a>,
    /// Share of the time that a call's data was in the network's hands: of each call, its longest network
    /// operation. Null where that was not recorded.
    nic: Option<&'a Curve>,
    /// What the node sampler saw: power, clocks, CPU time and the like.
    sampled: CurvesJson<'a>,
    /// Which part of the time threads of a rank were inside of MPI; null if no process was seen to call it.
    mpi: Option<&'a SampledCurve>,
    /// How long calls that began in a bucket took on the GPU; null without GPU times.
    durations_us: Option<&'a Band>,
    /// Ranks that are late more than chance gives, and how long operations waited for them alone.
    late: &'a [LateRank],
    /// When steps began.
    steps: Option<&'a StepMarks>,
    /// What happened at a moment.
    marks: Vec<MarkJson>,
}

/// Exposed communication by kernel windows, which show a part of the time only.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InWindows")]
struct InWindowsJson<'a> {
    #[serde(flatten)]
    of: &'a InWindows,
    /// Why buckets are null; null if none is.
    why_null: Option<String>,
}

/// Sampled figures over time, a value for each bucket.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SampledCurves")]
struct CurvesJson<'a> {
    /// Why all figures are null; null if some are not.
    why_null: Option<&'static str>,
    #[serde(flatten)]
    of: &'a Curves,
}

/// Something that happened at a moment.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Mark")]
struct MarkJson {
    /// `dead_rank`.
    #[schemars(extend("enum" = ["dead_rank"]))]
    kind: &'static str,
    /// After the begin of the timeline.
    at_us: f64,
    /// What it was, in a sentence.
    text: String,
}

impl TimelineJson<'_> {
    fn of<'a>(timeline: &'a Timeline, report: &Report) -> TimelineJson<'a> {
        // A timeline marks deaths only.
        let marks = timeline.marks.iter().zip(&report.deaths);
        let marks = marks.map(|(mark, death)| MarkJson {
            kind: mark.kind,
            at_us: mark.at_us,
            text: findings::died(death),
        });
        TimelineJson {
            timeline,
            exposed_in_windows: InWindowsJson {
                of: &timeline.exposed_in_windows,
                why_null: timeline
                    .exposed_in_windows
                    .why_null
                    .as_ref()
                    .map(streams::no_windows),
            },
            nic: timeline.nic.as_ref(),
            sampled: CurvesJson {
                why_null: timeline.sampled.why_null.map(nodes::not_sampled),
                of: &timeline.sampled,
            },
            mpi: timeline.mpi.as_ref(),
            durations_us: timeline.durations_us.as_ref(),
            late: &timeline.late,
            steps: timeline.steps.as_ref(),
            marks: marks.collect(),
        }
    }
}

fn whole(report: &Report) -> ReportJson<'_> {
    ReportJson {
        schema: report.schema,
        verdict: verdict::sentence(report),
        job: &report.job,
        completeness: completeness::Row::of(&report.completeness),
        deaths: &report.deaths,
        exits: &report.exits,
        sightings: &report.sightings,
        ranks: &report.ranks,
        communicators: &report.communicators,
        kinds: &report.kinds,
        functions: &report.functions,
        callers: &report.callers,
        parts: &report.parts,
        operations: &report.operations,
        efficiency: report.efficiency.iter().map(efficiency::Row::of).collect(),
        graphs: &report.graphs,
        warmup: &report.warmup,
        settings: report.settings.iter().map(settings::Row::of).collect(),
        network: &report.network,
        timeline: report
            .timeline
            .as_ref()
            .map(|of| TimelineJson::of(of, report)),
        steps: report.steps.as_ref(),
        phases: &report.phases,
        critical_path: report.critical_path.as_ref().map(critical_path::Row::of),
        streams: report.streams.as_ref(),
        nodes: nodes::Row::of(&report.nodes),
        mpi: report.mpi.as_ref(),
        cost: report.cost.as_ref(),
        driver_calls: report.driver_calls.as_ref().map(driver_calls::Row::of),
        stream_waits: report.stream_waits.as_ref(),
        arrivals: report.arrivals.as_ref().map(waiting::Row::of),
        account: report.account.as_ref(),
        clocks: report.clocks.as_ref().map(clocks::Row::of),
        notes: notes::sentences(report),
        problems: problems::rows(&report.problems),
        findings: findings::rows(report),
        recommendations: recommendations::rows(report),
        summary: verdict::summary(&report.summary),
        next: verdict::next(report),
    }
}

/// Writes `report`, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    crate::json::pretty(&whole(report), out)
}

/// The same as a value.
///
/// # Errors
/// Never, as long as the names of all objects are texts.
pub fn value(report: &Report) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(whole(report))
}
