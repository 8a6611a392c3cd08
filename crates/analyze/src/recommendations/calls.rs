//! Calls that could be made in a better way.

use super::{advice, Action, FewP2p, Grounds, Level, LlChosen, Recommendation};
use crate::arrivals::RankArrivals;
use crate::findings::{Gain, GainSource};
use crate::models::{fit, of_operations, CostModel};
use crate::notes::Note;
use crate::operations::Operation;
use crate::settings::wish;
use crate::spelling::size;
use crate::stream_waits::RankWaits;
use crate::streams::RankStreams;
use crate::time::Nanos;
use crate::Report;
use std::collections::BTreeMap;
use tables::costs::Cost;

/// A gain of less than this part of the run is none.
const LEAST_SHARE: f64 = 0.01;
/// From this size on, LL can't be the faster protocol: its bandwidth is at most half of Simple's.
const LARGE: u64 = 16 << 20;
/// Calls up to this size can be joined into buckets.
const SMALL: u64 = 1 << 20;
/// What a bucket holds: DDP's default.
const BUCKET: f64 = 25e6;
/// So many small calls of one kind in a step are many.
const MANY: f64 = 8.0;
/// And so many in a run without steps.
const MANY_IN_ALL: f64 = 100.0;
/// Exposed communication below this share of the time is left alone.
const EXPOSED: f64 = 0.1;

/// What calls should be made otherwise.
pub(super) fn recommendations(report: &Report) -> Vec<Recommendation> {
    let wall_us = report.ranks.wall_us.map(|wall| wall.max);
    let mut found = slow_protocol(report);
    if let Some(wall_us) = wall_us.filter(|wall| *wall > 0.0) {
        found.extend(small_calls(report, wall_us));
        found.extend(exposed(report, wall_us));
    }
    found.extend(few_p2p(report));
    found
}

/// How long an operation's transfers took, one after the other, µs.
fn transfer_us(operation: &Operation) -> Option<f64> {
    let times = operation.calls as f64 / f64::from(operation.nranks.filter(|n| *n > 0)?);
    Some(operation.shortest_us?.p50? * times)
}

/// LL at sizes at which it halves the bandwidth.
fn slow_protocol(report: &Report) -> Vec<Recommendation> {
    let is_ll = |o: &&Operation| o.protocol.as_deref() == Some("LL") && o.calls > 0;
    let large = report.operations.iter().filter(is_ll);
    let large = large.filter(|o| o.bytes.is_some_and(|bytes| bytes >= LARGE));
    let one = |of: &Operation| {
        let (function, bytes) = (of.function.clone()?, of.bytes?);
        let taken = transfer_us(of);
        // What the same function did by another protocol at such a size.
        let other = report.operations.iter().filter(|other| {
            let near = other
                .bytes
                .is_some_and(|b| (bytes / 2..=bytes.saturating_mul(2)).contains(&b));
            (&other.function, &other.communicator) == (&of.function, &of.communicator)
                && other.protocol.as_deref().is_some_and(|p| p != "LL")
                && near
        });
        let best = other.filter_map(|o| o.busbw_gb_per_s).reduce(f64::max);
        let faster = of
            .busbw_gb_per_s
            .zip(best)
            .filter(|(here, best)| best > here);
        let gain_us = taken
            .zip(faster)
            .map(|(us, (here, best))| us * (1.0 - here / best));
        Some(Recommendation {
            // What another protocol would take is not known, so neither is a limit.
            gain: Gain {
                us: gain_us,
                interval_us: None,
                at_most_us: None,
                source: gain_us.map(|_| GainSource::Measured),
            },
            effort: Level::Low,
            risk: Level::Low,
            ..advice(
                &format!("{function} of {}", size(bytes)),
                Action::AvoidLl {
                    chosen: who_chose_ll(report, &function),
                    function,
                    bytes,
                },
                Grounds::UsedLl {
                    calls: of.calls,
                    bytes,
                    busbw_gb_per_s: faster,
                },
            )
        })
    };
    large.filter_map(one).collect()
}

fn who_chose_ll(report: &Report, function: &str) -> LlChosen {
    let value = |name: &str| report.job.environment.get(name)?.iter().flatten().next();
    let set = value("NCCL_PROTO").and_then(|value| Some((value.clone(), wish(value, function)?)));
    let tuner = ["NCCL_TUNER_CONFIG_FILE", "NCCL_TUNER_PLUGIN"];
    let tuner = tuner
        .into_iter()
        .find_map(|name| Some((name, value(name)?)));
    match (set.filter(|(_, wish)| wish.allows("LL")), tuner) {
        (Some((value, wish)), _) if wish.asks_for("LL") => LlChosen::BySetting { value },
        (Some((value, _)), _) => LlChosen::AsAllowed { value },
        (None, Some((variable, value))) => LlChosen::ByTuner {
            variable,
            value: value.clone(),
        },
        (None, None) => LlChosen::ByNccl {
            command: report.job.command.clone().filter(|c| c.len() < 60),
        },
    }
}

/// Many small calls of one kind in a step, which a bucket could join.
fn small_calls(report: &Report, wall_us: f64) -> Vec<Recommendation> {
    let models = fit(&of_operations(&report.operations, &report.communicators));
    let steps = report
        .steps
        .as_ref()
        .and_then(|steps| Some(steps.steps?.median));
    let steps = steps.filter(|steps| *steps >= 1.0).unwrap_or(1.0);
    let many = if steps > 1.0 { MANY } else { MANY_IN_ALL };
    let joinable = |function: &str| {
        matches!(
            function,
            "AllReduce" | "AllGather" | "ReduceScatter" | "Broadcast"
        )
    };
    // Number of calls on a rank and their bytes, by communicator and function.
    let mut small: BTreeMap<(&str, &str), (f64, f64, &CostModel)> = BTreeMap::new();
    for of in report
        .operations
        .iter()
        .filter(|o| o.calls_past_warmup() > 0 && o.replays.unwrap_or(0) == 0)
    {
        let known = of.function.as_deref().zip(of.communicator.as_deref());
        let (Some((function, id)), Some(bytes)) = (known, of.bytes) else {
            continue;
        };
        let Some(nranks) = of
            .nranks
            .filter(|n| *n > 1 && bytes <= SMALL && joinable(function))
        else {
            continue;
        };
        let model = models.iter().find(|model| {
            let same = (model.of.function.as_str(), model.of.communicator.as_deref());
            same == (function, Some(id))
                && (model.of.protocol.is_none() || model.of.protocol == of.protocol)
                && model.half_bytes.is_some_and(|half| (bytes as f64) < half)
        });
        let Some(model) = model else { continue };
        let calls = of.calls as f64 / f64::from(nranks);
        let sum = small.entry((id, function)).or_insert((0.0, 0.0, model));
        sum.0 += calls;
        sum.1 += calls * bytes as f64;
    }
    let one = |((_, function), (calls, bytes, model)): ((&str, &str), (f64, f64, &CostModel))| {
        let in_step = calls / steps;
        let buckets = (bytes / steps / BUCKET).ceil().max(1.0);
        let saved = (in_step - buckets).max(0.0) * steps;
        let gain_us = saved * model.latency_us;
        let (low, high) = model.latency_interval_us?;
        (in_step >= many && gain_us >= LEAST_SHARE * wall_us && low > 0.0).then(|| Recommendation {
            gain: Gain {
                us: Some(gain_us),
                interval_us: Some((saved * low, saved * high)),
                at_most_us: None,
                source: Some(GainSource::Model),
            },
            effort: Level::Medium,
            risk: Level::Medium,
            ..advice(
                &format!("{function} over {} ranks", model.of.nranks),
                Action::JoinSmallCalls {
                    function: function.to_owned(),
                },
                Grounds::SmallCalls {
                    function: function.to_owned(),
                    calls: in_step,
                    in_steps: steps > 1.0,
                    bytes: (bytes / calls) as u64,
                    latency_us: model.latency_us,
                    residual_p50_share: model.residual_p50_share,
                },
            )
        })
    };
    small.into_iter().filter_map(one).collect()
}

/// Exposed communication that is no waiting for late ranks.
fn exposed(report: &Report, wall_us: f64) -> Option<Recommendation> {
    let shares: Vec<f64> = match &report.streams {
        Some(streams) => {
            let share = |rank: &RankStreams| {
                rank.exposed.share - rank.exposed_waiting.map_or(0.0, |of| of.share)
            };
            streams.ranks.iter().map(share).collect()
        }
        None => exposed_by_waits(report)?,
    };
    // Where all ranks compute less than they could, the least exposed one bounds what overlap gives.
    let least = shares.into_iter().reduce(f64::min);
    let least = least.filter(|share| *share >= EXPOSED)?;
    // A rank that is not here may be the late one.
    let matched = report.arrivals.as_ref().is_some_and(|of| of.operations > 0);
    let knows_waiting = matched && report.completeness.absent.is_empty();
    Some(Recommendation {
        gain: Gain {
            us: None,
            interval_us: None,
            at_most_us: knows_waiting.then_some(least * wall_us),
            source: knows_waiting.then_some(GainSource::Measured),
        },
        effort: Level::High,
        risk: Level::Medium,
        ..advice(
            "exposed communication",
            Action::Overlap,
            Grounds::Exposed {
                least_share: least,
                by_windows: report.streams.is_some(),
                knows_waiting,
            },
        )
    })
}

/// By rank, the share of the time that streams stood still for calls, without its waiting for late ranks.
fn exposed_by_waits(report: &Report) -> Option<Vec<f64>> {
    let waits = report.stream_waits.as_ref().filter(|waits| waits.tells())?;
    let late = report.arrivals.as_ref();
    let share = |rank: &RankWaits| {
        let same = |of: &&RankArrivals| {
            (of.process.pid, &of.process.host, of.device)
                == (rank.process.pid, &rank.process.host, rank.device)
        };
        let waited = late.and_then(|late| late.ranks.iter().find(same));
        // Waits are known of timed calls; the others waited as long.
        let all = rank.exposed.calls as f64 / (rank.exposed.known as f64).max(1.0);
        let waited = waited.map_or(0.0, |of| of.wait_rank_us * all);
        rank.share.share - waited / rank.active_us
    };
    Some(waits.ranks.iter().map(share).collect())
}

/// First calls on communicators that lie in the first step, so that figures over all steps have them.
/// Nothing about the job is wrong then, so this is a note and no advice.
pub(crate) fn warm_up_in_steps(report: &Report) -> Option<Note> {
    let steps = report.steps.as_ref()?.reference()?;
    // The first step begins with the first call.
    steps.startup_us.filter(|us| *us <= 0.0)?;
    let all = steps.step_us?;
    let first = Nanos::from(steps.each.first()?.time_ns?).us();
    let p50 = all.p50?;
    let share = (first - p50) / (all.sum - first + p50);
    (share >= LEAST_SHARE && !report.warmup.is_empty()).then_some(Note::WarmUpInSteps {
        first_us: first,
        p50_us: p50,
        steps: all.n,
        share,
    })
}

/// Calls that NVLS could run on registered buffers without a copy, and that had others.
pub(super) fn unregistered(costs: &[Cost]) -> Option<Recommendation> {
    let by_nvls = |cost: &&Cost| cost.us.iter().any(|(algorithm, ..)| *algorithm == "NVLS");
    let large = costs.iter().filter(|cost| cost.bytes >= SMALL);
    let without = large.filter(|cost| cost.registered == Some(false));
    let mut calls: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for cost in without.filter(by_nvls) {
        *calls.entry((cost.function, cost.bytes)).or_default() += cost.calls;
    }
    let all: u64 = calls.values().sum();
    let ((function, bytes), most) = calls
        .into_iter()
        .max_by_key(|((_, bytes), calls)| bytes.saturating_mul(*calls))?;
    let evidence = Grounds::Unregistered {
        calls: all,
        function,
        bytes,
        most,
    };
    Some(Recommendation {
        effort: Level::Medium,
        ..advice("buffers", Action::RegisterBuffers, evidence)
    })
}

/// A job with so many collectives to a send or receive is one that otherwise has none.
const FEW_P2P: u64 = 100;

/// A few sends and receives in a job of collectives: a pipeline's edge, a debugging aid, or a mistake.
fn few_p2p(report: &Report) -> Option<Recommendation> {
    let of = |kind| report.kinds.iter().find(|k| k.kind == kind);
    let calls = |kind| of(kind).map_or(0, |k| k.calls);
    let (collective, p2p) = (calls("collective"), calls("p2p"));
    if p2p == 0 || collective / p2p < FEW_P2P {
        return None;
    }
    let rows = report.ranks.rows.iter();
    let with = rows.filter(|row| row.p2p.unwrap_or(0) > 0);
    let few = FewP2p {
        p2p,
        collective,
        ranks: with.map(|row| row.process.rank).collect(),
    };
    let evidence = Grounds::FewP2p(few);
    Some(advice("sends and receives", Action::LeaveOutP2p, evidence))
}
