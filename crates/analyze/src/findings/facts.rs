//! What a finding consists of: facts, and no words.
//!
//! A [`Finding`] says whom it is about ([`Subject`]), what the run loses ([`Loss`]), when, why ([`Cause`]),
//! on which figures that rests ([`Evidence`]) and what to do ([`Advice`]). Sentences are made of these in
//! `render::findings`, a file for each [`Kind`].
//!
//! Rule: nothing here is text for people. What a program compares, sorts or joins is a field.

use super::BusyGpu;
use crate::account::{Cause, Source};
use crate::arrivals::InheritedFrom;
use crate::deaths::Death;
use crate::efficiency::ShareOfCeiling;
use crate::mismatch::Differing;
use crate::standstill::Standstill;
use crate::subject::Subject;
use schemars::JsonSchema;
use serde::Serialize;
use setup::{paths, topology};
use std::fmt;

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FindingKind")]
pub enum Kind {
    /// A rank died while others went on.
    DeadRank,
    /// Ranks waited for another one to the end of the recording.
    Standstill,
    /// The others wait for a rank, as a habit.
    LateRank,
    /// A rank came late once, a few times, or while the job started.
    Stall,
    /// A link of the network is slower than the others.
    SlowNetwork,
    /// Calls reach far less bandwidth than is possible.
    BelowCeiling,
    /// Ranks made different calls at the same place.
    DifferingOperations,
    /// The clocks of two hosts moved against each other.
    ClockStep,
    /// NCCL takes much of a GPU's memory.
    NcclMemory,
    /// GPUs have fewer NVLinks than others of their host.
    MissingNvlink,
    /// A GPU uses a network card on another socket.
    FarNetworkCard,
    /// A process runs on CPUs that are not beside its GPU.
    FarCpus,
}

impl Kind {
    /// All of them, in the order of the documentation.
    pub const ALL: [Kind; 12] = [
        Kind::DeadRank,
        Kind::Standstill,
        Kind::LateRank,
        Kind::Stall,
        Kind::SlowNetwork,
        Kind::BelowCeiling,
        Kind::DifferingOperations,
        Kind::ClockStep,
        Kind::NcclMemory,
        Kind::MissingNvlink,
        Kind::FarNetworkCard,
        Kind::FarCpus,
    ];

    /// As in JSON and `ncclscope explain`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::DeadRank => "dead_rank",
            Kind::Standstill => "standstill",
            Kind::LateRank => "late_rank",
            Kind::Stall => "stall",
            Kind::SlowNetwork => "slow_network",
            Kind::BelowCeiling => "below_ceiling",
            Kind::DifferingOperations => "differing_operations",
            Kind::ClockStep => "clock_step",
            Kind::NcclMemory => "nccl_memory",
            Kind::MissingNvlink => "missing_nvlink",
            Kind::FarNetworkCard => "far_network_card",
            Kind::FarCpus => "far_cpus",
        }
    }

    /// The job did not come to its end, or its results are doubtful: before anything that costs time.
    pub const fn is_doubtful(self) -> bool {
        matches!(
            self,
            Kind::DeadRank | Kind::Standstill | Kind::DifferingOperations
        )
    }

    /// The job did not come to its end.
    pub const fn is_broken(self) -> bool {
        matches!(self, Kind::DeadRank | Kind::Standstill)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a loss was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A replay of the run without the lateness.
    WhatIf,
    /// The account of the steps: by how much longer the others stood still than the rank.
    Account,
    /// The time that calls took beyond a ceiling, as far as GPUs stood still for them.
    Ceiling,
}

impl Method {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Method::WhatIf => "what_if",
            Method::Account => "account",
            Method::Ceiling => "ceiling",
        }
    }
}

/// What the job would take less.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The loss, µs of the wall.
    pub wall_us: f64,
    /// Its 95 % interval.
    pub interval_us: Option<(f64, f64)>,
    /// No more than this is possible, µs.
    pub at_most_us: Option<f64>,
    /// How it was found.
    pub method: Method,
    /// The part of the run, or of its operations, that this rests on; `None` where that is not known.
    pub coverage: Option<f64>,
    /// So many calls in CUDA graphs have no time, and what they lose comes on top.
    pub untimed_in_graphs: Option<u64>,
    /// The length of the run of which it is a part, µs; `None` where that is not known.
    pub run_us: Option<f64>,
}

/// What the hosts' clocks prove about who came last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockProof {
    /// Operations over several hosts in which the rank was last.
    pub operations: u64,
    /// Those of them in which the clocks prove it; `None` if nothing bounds the clocks' offset.
    pub proved: Option<u64>,
    /// By how much it was later than all others in those, at least, µs.
    pub late_us: f64,
}

/// What the account of the steps says about a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InSteps {
    /// Steps that it is of.
    pub steps: u64,
    /// Their wall time, µs.
    pub wall_us: f64,
    /// Stalls of the rank.
    pub stalls: u64,
    /// What these cost, µs of the wall.
    pub stalls_us: f64,
    /// What kernels of the others lose beside calls that wait for it, µs of the wall.
    pub slowing_us: f64,
    /// The shares of the wall that the rank stood still in operations, and the others on average.
    pub still: (f64, f64),
    /// The part of the launches of which that is known, on the rank with the smallest one.
    pub timed: f64,
    /// Which part of what others waited had passed when its host launched, 0 to 1.
    pub launched_share: Option<f64>,
    /// How much longer its host works in a step than that of who waits, µs.
    pub host_longer_us: Option<f64>,
    /// How long hosts need for a step also if nobody is late, µs; `None` if that does not limit the loss.
    pub hosts_need_us: Option<f64>,
}

/// Figures about a rank that is late as a habit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Late {
    /// Operations in which it came last.
    pub last: u64,
    /// Operations that it was in.
    pub operations: u64,
    /// Operations that the method looked at, on any rank.
    pub of_all: u64,
    /// Most of these operations are sends and receives.
    pub in_sends: bool,
    /// Another rank that is late too, and what the run loses by both, µs.
    pub with_other: Option<(Option<u32>, f64)>,
    /// What clocks prove; no operations if none of these was over hosts.
    pub clocks: ClockProof,
    /// The account of the steps; `None` if something else tells.
    pub steps: Option<InSteps>,
    /// GPU times of calls; `None` if something else tells.
    pub arrivals: Option<LateByArrivals>,
    /// Why its GPU is busy; `None` if kernel windows don't explain most of the cost.
    pub busy_gpu: Option<BusyGpu>,
}

/// What the GPU times of calls say about a rank that is late.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LateByArrivals {
    /// For how long it held the others up, µs of the wall.
    pub held_up_us: f64,
    /// How long the others waited for it, µs summed over ranks.
    pub waited_rank_us: f64,
    /// What it inherited from other operations, largest first; empty if that is the smaller part.
    pub inherited: Vec<InheritedFrom>,
    /// The part of all operations that was timed, if it is a sample.
    pub sampled: Option<f64>,
}

/// Figures about stalls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Operations that they held up.
    pub operations: u64,
    /// Operations in all.
    pub of_all: u64,
    /// Stretches of operations that follow each other.
    pub times: u64,
    /// All of them are at the start.
    pub at_start: bool,
    /// How long they held the others up, µs of the wall.
    pub held_up_us: f64,
    /// The same of the longest stretch.
    pub longest_us: f64,
    /// What is usual, µs: the lateness of the last rank, or the length of a step.
    pub usual_us: f64,
    /// The account of the steps; `None` if GPU times of calls tell.
    pub steps: Option<InSteps>,
}

/// Ranks with more work than others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unequal {
    /// What shows it.
    pub source: Source,
    /// Ranks of the job.
    pub ranks: u64,
    /// Steps that it is shown of.
    pub steps: u64,
    /// Their wall time, µs.
    pub wall_us: f64,
    /// Another rank is late in each step.
    pub in_turns: bool,
}

/// Figures about a slow link, µs of the wall.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowLink {
    /// Operations in which it was compared.
    pub operations: u64,
    /// Their transfers.
    pub transfer_us: f64,
    /// The time in the network's hands.
    pub held_us: f64,
    /// The same of the median of the others.
    pub others_us: f64,
}

/// Why calls may reach less than their ceiling.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidate {
    /// A variable of NCCL: its name and value.
    Setting {
        /// What it limits.
        limits: Limit,
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// They used LL, whose bandwidth is at most half.
    Protocol,
    /// Their buffers were not registered with NCCL, and NVLS can run.
    Buffers,
    /// Below so many bytes, latency is most of the time.
    Size(u64),
    /// Data goes another way than it could, for this reason.
    Path(paths::Reason),
    /// GPUs lack links that others have.
    Links(topology::Remark),
    /// Kernels that compute run beside this part of their time, 0 to 1.
    Computing(f64),
}

/// What a variable of NCCL limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Algorithms.
    Algorithm,
    /// Protocols.
    Protocol,
    /// Channels, or their threads.
    Channels,
    /// NCCL's buffers.
    Buffers,
    /// The way between ranks.
    Path,
}

impl Candidate {
    /// As in JSON.
    pub const fn name(&self) -> CandidateName {
        match self {
            Candidate::Setting { limits, .. } => match limits {
                Limit::Algorithm => CandidateName::Algorithm,
                Limit::Protocol => CandidateName::Protocol,
                Limit::Channels => CandidateName::Channels,
                Limit::Buffers => CandidateName::Buffers,
                Limit::Path => CandidateName::Path,
            },
            Candidate::Protocol => CandidateName::Protocol,
            Candidate::Buffers => CandidateName::Buffers,
            Candidate::Size(_) => CandidateName::Size,
            Candidate::Path(_) | Candidate::Links(_) => CandidateName::Path,
            Candidate::Computing(_) => CandidateName::Computing,
        }
    }
}

/// What a candidate is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CandidateName {
    /// The algorithm.
    Algorithm,
    /// The protocol.
    Protocol,
    /// The channels.
    Channels,
    /// The buffers.
    Buffers,
    /// The size of the calls.
    Size,
    /// The way of the data.
    Path,
    /// Kernels beside them.
    Computing,
}

/// Figures about calls that reach less than a ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct BelowCeiling {
    /// Ranks of their communicator.
    pub nranks: Option<u32>,
    /// Operations in all: calls of each rank.
    pub operations: f64,
    /// Operations that were timed on all ranks.
    pub compared: u64,
    /// What the shortest rank of the median one took, µs.
    pub time_us: f64,
    /// The same at the ceiling.
    pub ceiling_us: f64,
    /// Bus bandwidth of the first, GB/s.
    pub busbw_gb_per_s: f64,
    /// The ceiling.
    pub ceiling: ShareOfCeiling,
    /// Other ceilings that are known.
    pub others: Vec<ShareOfCeiling>,
    /// How long these operations took, one after the other, µs.
    pub transfer_us: f64,
    /// For how long all GPUs stood still for them meanwhile, µs; `None` if that is not known.
    pub exposed_us: Option<f64>,
    /// More can't be gained, µs.
    pub at_most_us: f64,
    /// Why that may be.
    pub candidates: Vec<Candidate>,
    /// More kinds of calls like it, without a finding of their own.
    pub more: usize,
}

/// What a finding rests on.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// A rank died, and so many more that have no finding of their own.
    Death {
        /// It.
        death: Death,
        /// More deaths.
        more: usize,
    },
    /// Ranks waited.
    Standstill(Standstill),
    /// A rank is late.
    Late(Late),
    /// Ranks have more work than others.
    Unequal(Unequal),
    /// A rank stalled.
    Stalls(Stalls),
    /// A link is slow.
    Link(SlowLink),
    /// Calls reach less than a ceiling.
    BelowCeiling(Box<BelowCeiling>),
    /// Ranks made different calls.
    Differing {
        /// The first place.
        first: Differing,
        /// More communicators on which ranks differ, without a finding of their own.
        more: usize,
        /// Ranks waited in the last part of the recording, ns.
        stood_still_ns: Option<i64>,
    },
    /// In so many operations, ranks differ in size, datatype, algorithm or protocol.
    DifferingSettings(u64),
    /// A clock was set.
    Clocks {
        /// By so much or more, µs.
        least_us: f64,
        /// When, in seconds after the first operation.
        between_s: (f64, f64),
        /// More windows of time in which that is so.
        more: usize,
        /// Clocks run apart by so much at most, parts in a million.
        frequency_error_ppm: f64,
    },
    /// NCCL's buffers.
    Memory {
        /// On the GPU, bytes.
        gpu_bytes: u64,
        /// The GPU's memory, bytes.
        total_bytes: u64,
        /// Communicators on that GPU.
        communicators: u32,
        /// The largest communicator, bytes after its init; `None` if NCCL counts it itself.
        init_bytes: Option<u64>,
        /// The same in all.
        largest_bytes: u64,
    },
    /// Something about the links of a host.
    Topology {
        /// `missing_nvlink`, `far_network_card` or `far_cpus`.
        kind: Kind,
        /// What [`setup::topology`] says about it.
        remark: topology::Remark,
        /// More cases like it.
        more: usize,
    },
}

/// What to do. Each has one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Look at how the process ended.
    SeeHowItEnded,
    /// Look at what the process did then.
    SeeWhatItDid,
    /// Look at what its process does before the calls.
    ProfileHost,
    /// Look at what the rank does before its calls, host or GPU.
    ProfileRank,
    /// Compare its GPU with another's.
    CompareGpu,
    /// Look for what launches kernels on its GPU that the others run less.
    FindKernels,
    /// Look for what slows kernels on its GPU.
    CheckGpu,
    /// Compare its kernels with those of others on the same GPU.
    CompareKernels,
    /// Give all ranks as much work in each step.
    EqualWork,
    /// Look at what its process did at that time.
    SeeStallOnHost,
    /// Look at what its GPU ran at that time.
    SeeStallOnGpu,
    /// Look at network cards and what is between them.
    CheckNetwork,
    /// Look at the way from the network card to the GPU.
    CheckGpuPath,
    /// Look for what limits the bandwidth of calls.
    RaiseBandwidth,
    /// Make the same calls, with the same settings.
    SameSettings,
    /// Make the same calls in the same order.
    SameOrder,
    /// Look at what sets the clocks.
    CheckClocks,
    /// Make fewer communicators, or share buffers.
    ShareBuffers,
    /// Ask for the state of the NVLinks.
    CheckNvlink,
    /// Use network cards beside the GPUs.
    UseNearCards,
    /// Bind ranks to CPUs beside their GPUs.
    BindCpus,
}

impl Advice {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Advice::SeeHowItEnded => "see_how_it_ended",
            Advice::SeeWhatItDid => "see_what_it_did",
            Advice::ProfileHost => "profile_host",
            Advice::ProfileRank => "profile_rank",
            Advice::CompareGpu => "compare_gpu",
            Advice::FindKernels => "find_kernels",
            Advice::CheckGpu => "check_gpu",
            Advice::CompareKernels => "compare_kernels",
            Advice::EqualWork => "equal_work",
            Advice::SeeStallOnHost => "see_stall_on_host",
            Advice::SeeStallOnGpu => "see_stall_on_gpu",
            Advice::CheckNetwork => "check_network",
            Advice::CheckGpuPath => "check_gpu_path",
            Advice::RaiseBandwidth => "raise_bandwidth",
            Advice::SameSettings => "same_settings",
            Advice::SameOrder => "same_order",
            Advice::CheckClocks => "check_clocks",
            Advice::ShareBuffers => "share_buffers",
            Advice::CheckNvlink => "check_nvlink",
            Advice::UseNearCards => "use_near_cards",
            Advice::BindCpus => "bind_cpus",
        }
    }
}

impl Advice {
    /// Whether its text names a process, so that it is another one for another rank.
    pub const fn names_process(self) -> bool {
        matches!(
            self,
            Advice::SeeHowItEnded | Advice::SeeWhatItDid | Advice::FindKernels | Advice::CheckGpu
        )
    }
}

/// Where a gain comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GainSource {
    /// It was measured.
    Measured,
    /// A replay of the run.
    WhatIf,
    /// A cost model.
    Model,
    /// What calls would take at a ceiling of their bandwidth.
    Ceiling,
}

impl GainSource {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            GainSource::Measured => "measured",
            GainSource::WhatIf => "what_if",
            GainSource::Model => "model",
            GainSource::Ceiling => "ceiling",
        }
    }
}

/// What the run would take less if advice was followed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// µs of the wall; `None` where that is not known.
    pub us: Option<f64>,
    /// 95 % interval of that.
    pub interval_us: Option<(f64, f64)>,
    /// No more than this can be gained, µs.
    pub at_most_us: Option<f64>,
    /// Where it comes from; `None` without a gain.
    pub source: Option<GainSource>,
}

/// A claim with its evidence, as facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Whom it is about.
    pub subject: Subject,
    /// What the job would take less; `None` where that is not known.
    pub loss: Option<Loss>,
    /// From when to when, µs since the first kernel of the rank that it is about; `None` where it is all the
    /// time.
    pub when_us: Option<(f64, f64)>,
    /// Why; `None` where that makes no sense.
    pub cause: Option<Cause>,
    /// What it rests on.
    pub evidence: Evidence,
    /// What to do.
    pub advice: Advice,
}

impl Finding {
    /// Which kind of finding it is.
    pub fn kind(&self) -> Kind {
        match &self.evidence {
            Evidence::Death { .. } => Kind::DeadRank,
            Evidence::Standstill(_) => Kind::Standstill,
            Evidence::Late(_) | Evidence::Unequal(_) => Kind::LateRank,
            Evidence::Stalls(_) => Kind::Stall,
            Evidence::Link(_) => Kind::SlowNetwork,
            Evidence::BelowCeiling(_) => Kind::BelowCeiling,
            Evidence::Differing { .. } | Evidence::DifferingSettings(_) => {
                Kind::DifferingOperations
            }
            Evidence::Clocks { .. } => Kind::ClockStep,
            Evidence::Memory { .. } => Kind::NcclMemory,
            Evidence::Topology { kind, .. } => *kind,
        }
    }

    /// The launcher's rank of the first rank that is to blame.
    pub fn rank(&self) -> Option<u32> {
        self.subject.rank()?.process.rank
    }

    /// What the run loses, µs of the wall.
    pub fn wall_us(&self) -> Option<f64> {
        Some(self.loss.as_ref()?.wall_us)
    }

    /// What following the advice gains.
    pub fn gain(&self) -> Gain {
        match (&self.loss, &self.evidence) {
            (Some(loss), _) => Gain {
                us: Some(loss.wall_us),
                interval_us: loss.interval_us,
                at_most_us: loss.at_most_us,
                source: Some(match loss.method {
                    Method::Account => GainSource::Measured,
                    Method::WhatIf => GainSource::WhatIf,
                    Method::Ceiling => GainSource::Ceiling,
                }),
            },
            (None, Evidence::BelowCeiling(of)) => Gain {
                at_most_us: Some(of.at_most_us),
                source: Some(GainSource::Ceiling),
                ..Gain::default()
            },
            (None, _) => Gain::default(),
        }
    }
}
