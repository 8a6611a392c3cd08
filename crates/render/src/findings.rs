//! Findings and recommendations in words: a file for each kind of finding.
//!
//! [`sentence`], [`evidence`] and [`advice`] are of any finding, and so are the figures by name; what
//! `ncclscope explain` says is of a kind. [`Row`] is a finding as JSON and tables have it: words and facts.
//!
//! Rule: all words about a finding are here, and nothing reads them back.

use analyze::findings::{Evidence, Finding, Kind, Loss};
use analyze::Report;

pub(crate) mod account;
mod below_ceiling;
mod busy_gpu;
mod changed;
mod clock_step;
mod dead_rank;
mod differing_operations;
mod late_rank;
mod nccl_memory;
mod row;
mod slow_network;
mod stall;
mod standstill;
mod topology;
mod words;

pub use changed::{changed, moved};
pub use dead_rank::died;
pub(crate) use late_rank::{hidden, inherited};
pub use row::{rows, Row};
pub(crate) use words::BASIS;

/// Numbers by name.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// What a kind is, for `ncclscope explain`.
pub(crate) fn about(kind: Kind) -> &'static str {
    match kind {
        Kind::DeadRank => dead_rank::ABOUT,
        Kind::Standstill => standstill::ABOUT,
        Kind::LateRank => late_rank::ABOUT,
        Kind::Stall => stall::ABOUT,
        Kind::SlowNetwork => slow_network::ABOUT,
        Kind::BelowCeiling => below_ceiling::ABOUT,
        Kind::DifferingOperations => differing_operations::ABOUT,
        Kind::ClockStep => clock_step::ABOUT,
        Kind::NcclMemory => nccl_memory::ABOUT,
        Kind::MissingNvlink => topology::MISSING_NVLINK,
        Kind::FarNetworkCard => topology::FAR_NETWORK_CARD,
        Kind::FarCpus => topology::FAR_CPUS,
    }
}

/// The claim.
pub fn sentence(of: &Finding) -> String {
    match &of.evidence {
        Evidence::Death { death, .. } => died(death),
        Evidence::Standstill(found) => standstill::sentence(found),
        Evidence::Late(late) => late_rank::sentence(of, late),
        Evidence::Unequal(by) => account::unequal(of, by),
        Evidence::Stalls(stalls) => stall::sentence(of, stalls),
        Evidence::Link(link) => slow_network::sentence(of, link),
        Evidence::BelowCeiling(below) => below_ceiling::sentence(of, below),
        Evidence::Differing { first, .. } => differing_operations::sentence(of, first),
        Evidence::DifferingSettings(operations) => differing_operations::settings(*operations),
        Evidence::Clocks {
            least_us,
            between_s,
            ..
        } => clock_step::sentence(of, *least_us, *between_s),
        Evidence::Memory {
            gpu_bytes,
            total_bytes,
            communicators,
            ..
        } => nccl_memory::sentence(of, *gpu_bytes, *total_bytes, *communicators),
        Evidence::Topology { remark, more, .. } => topology::sentence(of, &remark.sentence, *more),
    }
}

/// What it rests on.
pub fn evidence(of: &Finding) -> String {
    match &of.evidence {
        Evidence::Death { death, more } => dead_rank::evidence(death, *more),
        Evidence::Standstill(found) => standstill::evidence(found),
        Evidence::Late(late) => late_rank::evidence(of, late),
        Evidence::Unequal(by) => account::replayed(of, by),
        Evidence::Stalls(stalls) => stall::evidence(of, stalls),
        Evidence::Link(link) => slow_network::evidence(of, link),
        Evidence::BelowCeiling(below) => below_ceiling::evidence(of, below),
        Evidence::Differing {
            first,
            more,
            stood_still_ns,
        } => differing_operations::evidence(first, *more, *stood_still_ns),
        Evidence::DifferingSettings(_) => differing_operations::SETTINGS.to_owned(),
        Evidence::Clocks {
            more,
            frequency_error_ppm,
            ..
        } => clock_step::evidence(*more, *frequency_error_ppm),
        Evidence::Memory {
            init_bytes,
            largest_bytes,
            ..
        } => nccl_memory::evidence(*init_bytes, *largest_bytes),
        Evidence::Topology { .. } => topology::EVIDENCE.to_owned(),
    }
}

/// What it rests on, as numbers by name.
fn figures(of: &Finding) -> Figures {
    match &of.evidence {
        Evidence::Death { death, more } => dead_rank::figures(death, *more),
        Evidence::Standstill(found) => standstill::figures(found),
        Evidence::Late(late) => late_rank::figures(late),
        Evidence::Unequal(by) => account::figures(by),
        Evidence::Stalls(stalls) => stall::figures(stalls),
        Evidence::Link(link) => slow_network::figures(link),
        Evidence::BelowCeiling(below) => below_ceiling::figures(below),
        Evidence::Differing { first, more, .. } => differing_operations::figures(first, *more),
        Evidence::DifferingSettings(operations) => vec![("operations", *operations as f64)],
        Evidence::Clocks {
            least_us,
            between_s,
            more,
            frequency_error_ppm,
        } => clock_step::figures(*least_us, *between_s, *more, *frequency_error_ppm),
        Evidence::Memory {
            gpu_bytes,
            total_bytes,
            communicators,
            init_bytes,
            largest_bytes,
        } => nccl_memory::figures(
            (*gpu_bytes, *total_bytes),
            *communicators,
            *init_bytes,
            *largest_bytes,
        ),
        Evidence::Topology { more, .. } => vec![("more", *more as f64)],
    }
}

/// The same for a page: a list that ends it stands apart.
pub fn evidence_and_list(of: &Finding) -> (String, Vec<String>) {
    match &of.evidence {
        Evidence::BelowCeiling(below) => below_ceiling::parts(of, below),
        _ => (evidence(of), Vec::new()),
    }
}

/// What to do.
pub fn advice(of: &Finding) -> String {
    words::advice(of)
}

/// What is wrong, to follow "because".
pub fn cause(of: &Finding) -> String {
    let claim = match &of.evidence {
        Evidence::Late(late) => late_rank::cause(of, late),
        Evidence::Stalls(_) => stall::cause(of),
        Evidence::Link(link) => slow_network::cause(of, link),
        Evidence::BelowCeiling(below) => below_ceiling::cause(of, below),
        _ => sentence(of).trim_end_matches('.').to_owned(),
    };
    words::lower(&claim)
}

/// What it is about, in a list of recommendations.
pub fn subject(of: &Finding) -> String {
    match &of.evidence {
        Evidence::Late(_) | Evidence::Unequal(_) | Evidence::Stalls(_) => words::who(of),
        Evidence::Link(_) => slow_network::subject(of),
        Evidence::BelowCeiling(below) => below_ceiling::subject(of, below),
        // Else the kind is enough.
        _ => of.kind().name().to_owned(),
    }
}

/// The wall time of the steps of which a loss is a part, µs.
pub(crate) fn steps_of(of: &Finding, report: &Report) -> Option<f64> {
    let steps = match &of.evidence {
        Evidence::Late(late) => late.steps.map(|steps| steps.wall_us),
        Evidence::Unequal(by) => Some(by.wall_us),
        _ => None,
    };
    steps.or_else(|| Some(report.steps.as_ref()?.step_us.as_ref()?.sum))
}

/// A loss on all GPUs of the job, hours.
pub(crate) fn gpu_hours(of: &Loss, report: &Report) -> f64 {
    of.wall_us * report.ranks.rows.len() as f64 / 3.6e9
}

#[cfg(test)]
mod tests;
