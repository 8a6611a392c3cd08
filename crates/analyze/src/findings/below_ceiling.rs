//! Calls that reach far less bandwidth than is possible, and what the job would gain.
//!
//! [`below_ceiling`] compares what the shortest rank of an operation took with what the same bytes take at a
//! ceiling ([`crate::efficiency`]). Waiting for late ranks is in neither. A benchmark of this machine is the
//! best ceiling, so if it has the call, it decides alone. Of the others, the one decides by which most is
//! lost.
//!
//! Rule: calls are below their ceiling if nearly all of them are so by more than the ceiling's own error
//! ([`Margin`]), beyond chance. A faster call that other work hides gains nothing, so the gain is of the part
//! of these calls for which all GPUs stood still, by the account of the steps. At most, it is all of that
//! part. If the account does not know it, there is no gain, and only its limit is said.

use super::{
    Advice, BelowCeiling, CallId, Candidate, CommunicatorId, Evidence, Finding, Kind, Limit, Loss,
    Method, Subject,
};
use crate::account::LEAST_SHARE;
use crate::account::{Account, MATTERS};
use crate::efficiency::{CeilingSource, EfficiencyRow, ShareOfCeiling};
use crate::models::{fit, of_operations};
use crate::operations::Operation;
use crate::settings::wish;
use crate::statistics::Histogram;
use crate::Report;
use tables::costs::Cost;
use tables::Capture;

/// Kinds of calls that a report names.
const MOST: usize = 3;

/// Standard deviations of the number of slow operations, if half of them were: one in 30 000 is beyond that,
/// so a report on 30 kinds of calls has a false one in a thousand.
const BEYOND: f64 = 4.0;

/// How far below a ceiling is no news.
struct Margin {
    /// The share of the ceiling that calls usually reach.
    usual: f64,
    /// Calls below this share are slow for sure.
    sure: f64,
    /// What calls take beside that, µs.
    latency_us: f64,
}

/// A kernel's launch and its end, which differ by a few µs between ranks.
const AROUND_US: f64 = 5.0;

/// A rate knows no latency. AllReduce of 1 KiB takes 9.2 µs on 4 H200 (bench/README.md), and more ranks take
/// longer: this leaves room for five times that.
const LATENCY_US: f64 = 50.0;

impl Margin {
    /// `None` of what is no ceiling from outside.
    fn of(source: CeilingSource) -> Option<Margin> {
        let (usual, sure, latency_us) = match source {
            // Beside kernels that compute, the median AllReduce of 32 MiB took 34 % longer than the quickest
            // (`ddp_checkpoints` in data/). The benchmark's own spread is in its lowest rate, and starts of
            // nccl-tests differ by 3 µs (bench/README.md).
            CeilingSource::Bench => (1.0, 0.7, AROUND_US),
            // 2 to 23 % wrong for 1 GiB on H100, and 3 to 4 times too long for 1 KiB (bench/README.md).
            CeilingSource::NcclEstimate => (0.8, 0.5, AROUND_US),
            // AllReduce of 1 GiB reached 91 % of the graph, and 73 % of the links (the same). LL, the slowest
            // protocol, reaches half.
            CeilingSource::NcclGraph => (0.9, 0.5, LATENCY_US),
            CeilingSource::Link | CeilingSource::Given => (0.7, 0.5, LATENCY_US),
            CeilingSource::BestHere => return None,
        };
        Some(Margin {
            usual,
            sure,
            latency_us,
        })
    }
}

/// What calls would take otherwise, µs.
#[derive(Clone, Copy)]
struct Times {
    /// The longest that is no news.
    limit: f64,
    /// What is usual by this ceiling.
    usual: f64,
    /// At the ceiling.
    least: f64,
}

impl Times {
    fn by(ceiling: &ShareOfCeiling, took_us: f64) -> Option<Times> {
        let margin = Margin::of(ceiling.source)?;
        let least = took_us * ceiling.share;
        let own = least * ceiling.ceiling_gb_per_s / ceiling.lowest_gb_per_s;
        Some(Times {
            limit: own / margin.sure + 2.0 * margin.latency_us,
            usual: own / margin.usual + margin.latency_us,
            least,
        })
    }
}

/// Whether so many of the operations took longer than this that it is no chance.
fn mostly_slow(operations: u64, spread: Option<&Histogram>, us: f64) -> bool {
    let n = operations as f64;
    let slow = spread.map_or(0, |spread| spread.above(us)) as f64;
    n > 0.0 && slow >= 0.5 * n + BEYOND * 0.5 * n.sqrt()
}

/// What one kind of calls takes.
struct Kinds<'a> {
    row: &'a EfficiencyRow,
    operation: &'a Operation,
    /// Of the median operation's shortest rank, µs.
    took_us: f64,
    /// Operations.
    number: f64,
}

impl<'a> Kinds<'a> {
    fn of(operation: &'a Operation, report: &'a Report) -> Option<Kinds<'a>> {
        // The time of a send has the wait for its peer in it.
        if operation.is_p2p() {
            return None;
        }
        let row = report.efficiency.iter().find(|row| row.is_of(operation))?;
        let nranks = operation.nranks.filter(|n| *n > 1)?;
        // Nothing is known of how these compare with calls in graphs.
        let calls = operation
            .calls_past_warmup()
            .saturating_sub(operation.replays.unwrap_or(0));
        Some(Kinds {
            row,
            operation,
            took_us: operation.shortest_us?.p50?,
            number: calls as f64 / f64::from(nranks),
        })
    }

    fn transfer_us(&self) -> f64 {
        self.number * self.took_us
    }

    /// Whether the account has these calls together with the others.
    fn is_with(&self, other: &Kinds) -> bool {
        let (a, b) = (self.row, other.row);
        (&a.communicator, &a.function, a.bytes) == (&b.communicator, &b.function, b.bytes)
    }

    /// The ceiling that decides, and what calls would take by it.
    fn slow_by(&self) -> Option<(&'a ShareOfCeiling, Times)> {
        let ceilings = || self.row.ceilings.iter();
        let bench = |of: &&ShareOfCeiling| of.source == CeilingSource::Bench;
        let has_bench = ceilings().any(|of| bench(&of));
        let decide = ceilings().filter(|of| !has_bench || bench(of));
        let slow = decide.filter_map(|of| {
            let times = Times::by(of, self.took_us)?;
            let spread = self.operation.histograms.shortest.as_ref();
            let operations = self.operation.shortest_us?.n;
            let slow = self.took_us > times.limit && mostly_slow(operations, spread, times.limit);
            slow.then_some((of, times))
        });
        slow.min_by(|a, b| a.1.usual.total_cmp(&b.1.usual))
    }
}

/// What the account knows of how long all GPUs stood still for the transfers of calls.
struct Still {
    /// µs of the wall.
    us: f64,
    /// Other work ran beside this part of their time, 0 to 1.
    hidden: f64,
}

impl Still {
    fn of(
        of: &Kinds,
        all: &[Kinds],
        account: Option<&Account>,
        capture: &Capture,
    ) -> Option<Still> {
        let exposed = account?.exposed.iter().find(|exposed| {
            Some(&exposed.communicator) == of.row.communicator.as_ref()
                && capture.names.get(exposed.function) == Some(&*of.row.function)
                && exposed.bytes == of.row.bytes
        })?;
        // The account does not know calls by protocol or datatype.
        let together = all.iter().filter(|other| other.is_with(of));
        let together: f64 = together.map(Kinds::transfer_us).sum();
        Some(Still {
            us: exposed.exposed_us * of.transfer_us() / together,
            hidden: 1.0 - exposed.exposed_us / exposed.transfer_us.max(f64::MIN_POSITIVE),
        })
    }
}

/// The findings, the largest gain first. `costs` are NCCL's own estimates, as far as they were recorded.
pub(crate) fn below_ceiling(report: &Report, capture: &Capture, costs: &[Cost]) -> Vec<Finding> {
    let Some(run_us) = report.ranks.wall_us.map(|wall| wall.max) else {
        return Vec::new();
    };
    let operations = report.operations.iter();
    let all: Vec<Kinds> = operations.filter_map(|of| Kinds::of(of, report)).collect();
    let mut found: Vec<Finding> = Vec::new();
    for of in &all {
        let Some((ceiling, times)) = of.slow_by() else {
            continue;
        };
        let still = Still::of(of, &all, report.account.as_ref(), capture);
        let exposed_us = still.as_ref().map(|still| still.us);
        let faster = |us: f64| of.number * (of.took_us - us);
        let part = exposed_us.map_or(1.0, |exposed| (exposed / of.transfer_us()).min(1.0));
        // Ceilings are of calls alone. What runs beside other work may be slow for that reason.
        let gain = |us: f64| part * faster(us);
        let at_most_us = faster(times.least).min(exposed_us.unwrap_or(f64::INFINITY));
        let least = if exposed_us.is_some() {
            LEAST_SHARE
        } else {
            // Less of it may be hidden.
            MATTERS
        };
        if gain(times.usual) < least * run_us {
            continue;
        }
        let hidden = still.map(|still| still.hidden);
        let ceilings = of.row.ceilings.iter();
        let others = ceilings
            .filter(|other| *other != ceiling && other.source != CeilingSource::BestHere)
            .cloned()
            .collect();
        found.push(Finding {
            subject: Subject {
                communicator: of.row.communicator.as_deref().map(CommunicatorId::of),
                call: Some(CallId {
                    function: of.row.function.clone(),
                    bytes: of.row.bytes,
                }),
                ..Subject::default()
            },
            loss: exposed_us.map(|_| Loss {
                wall_us: gain(times.usual),
                interval_us: Some((gain(times.limit), at_most_us)),
                at_most_us: None,
                method: Method::Ceiling,
                coverage: Some(of.operation.matched as f64 / of.number.max(1.0))
                    .filter(|c| *c <= 1.0),
                untimed_in_graphs: None,
                run_us: Some(run_us),
            }),
            when_us: None,
            cause: None,
            evidence: Evidence::BelowCeiling(Box::new(BelowCeiling {
                nranks: of.row.nranks,
                operations: of.number,
                compared: of.operation.matched,
                time_us: of.took_us,
                ceiling_us: times.least,
                busbw_gb_per_s: of.row.busbw_gb_per_s,
                ceiling: ceiling.clone(),
                others,
                transfer_us: of.transfer_us(),
                exposed_us,
                at_most_us,
                candidates: candidates(of, hidden, report, capture, costs),
                more: 0,
            })),
            advice: Advice::RaiseBandwidth,
        });
    }
    // What may be gained, if the gain is not known.
    let most = |of: &Finding| of.wall_us().or(of.gain().at_most_us).unwrap_or(0.0);
    found.sort_by(|a, b| most(b).total_cmp(&most(a)));
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if let Some(Evidence::BelowCeiling(last)) = found.last_mut().map(|of| &mut of.evidence) {
        last.more = more;
    }
    found
}

/// Variables that limit the bandwidth, if they are set: all but those values.
const SETTINGS: [(&str, Limit, &[&str]); 14] = [
    ("NCCL_ALGO", Limit::Algorithm, &[]),
    ("NCCL_NVLS_ENABLE", Limit::Algorithm, &["1", "2"]),
    ("NCCL_PROTO", Limit::Protocol, &[]),
    ("NCCL_MAX_NCHANNELS", Limit::Channels, &[]),
    ("NCCL_MAX_CTAS", Limit::Channels, &[]),
    ("NCCL_NTHREADS", Limit::Channels, &[]),
    ("NCCL_BUFFSIZE", Limit::Buffers, &[]),
    ("NCCL_P2P_DISABLE", Limit::Path, &["0"]),
    ("NCCL_P2P_LEVEL", Limit::Path, &["SYS", "5"]),
    ("NCCL_SHM_DISABLE", Limit::Path, &["0"]),
    ("NCCL_IB_DISABLE", Limit::Path, &["0"]),
    ("NCCL_NET_GDR_LEVEL", Limit::Path, &["SYS", "5"]),
    ("NCCL_IB_HCA", Limit::Path, &[]),
    ("NCCL_SOCKET_NTHREADS", Limit::Path, &[]),
];

/// Between small and large calls: from here on, LL is not the faster protocol for its latency.
const LARGE: u64 = 1 << 20;

/// Less computing beside calls does not slow them.
const HIDDEN: f64 = 0.1;

/// Why calls may reach less, as far as the capture knows.
fn candidates(
    of: &Kinds,
    hidden: Option<f64>,
    report: &Report,
    capture: &Capture,
    costs: &[Cost],
) -> Vec<Candidate> {
    let mut found = Vec::new();
    let function = of.row.function.as_str();
    for (name, limits, harmless) in SETTINGS {
        let values = report.job.environment.get(name);
        let value = values.and_then(|values| values.iter().flatten().next());
        let counts = |value: &&String| {
            // NCCL_ALGO and NCCL_PROTO may be of other functions only.
            let by_function = matches!(name, "NCCL_ALGO" | "NCCL_PROTO");
            let own = !by_function || wish(value, function).is_some();
            own && !harmless.iter().any(|of| of.eq_ignore_ascii_case(value))
        };
        found.extend(value.filter(counts).map(|value| Candidate::Setting {
            limits,
            name,
            value: value.clone(),
        }));
    }
    let is_large = of.row.bytes >= LARGE;
    let is_ll = of.row.protocol.as_deref() == Some("LL");
    found.extend((is_ll && is_large).then_some(Candidate::Protocol));
    let unregistered = |cost: &Cost| {
        (cost.function, cost.bytes, cost.registered) == (function, of.row.bytes, Some(false))
            && cost.us.iter().any(|(algorithm, ..)| *algorithm == "NVLS")
    };
    found.extend(costs.iter().any(unregistered).then_some(Candidate::Buffers));
    found.extend(half_bytes(of, report).map(Candidate::Size));
    let reason = report.paths.reasons.iter().find(|reason| reason.is_known());
    found.extend(reason.map(|reason| Candidate::Path(reason.clone())));
    let links = crate::findings::topology(&report.topologies, capture);
    found.extend(links.into_iter().find_map(|link| match link.evidence {
        Evidence::Topology {
            kind: Kind::MissingNvlink,
            remark,
            ..
        } => Some(Candidate::Links(remark)),
        _ => None,
    }));
    let beside = hidden.filter(|hidden| *hidden >= HIDDEN);
    found.extend(beside.map(Candidate::Computing));
    found
}

/// The size at which latency is half of the time, if these calls are below it.
fn half_bytes(of: &Kinds, report: &Report) -> Option<u64> {
    let models = fit(&of_operations(&report.operations, &report.communicators));
    let model = models.iter().find(|model| {
        model.of.communicator == of.row.communicator
            && model.of.function == of.row.function
            && (model.of.protocol.is_none() || model.of.protocol == of.row.protocol)
    })?;
    let half = model
        .half_bytes
        .filter(|half| (of.row.bytes as f64) < *half)?;
    Some(half as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::efficiency::Named;
    use crate::statistics::Sample;

    fn ceiling(source: CeilingSource, gb_per_s: [f64; 2], busbw: f64) -> ShareOfCeiling {
        ShareOfCeiling {
            source,
            named: Named::Given(String::new()),
            ceiling_gb_per_s: gb_per_s[0],
            share: busbw / gb_per_s[0],
            lowest_gb_per_s: gb_per_s[1],
        }
    }

    #[test]
    fn a_ceiling_s_own_error_is_no_news() {
        let slow = |source, rates, busbw| {
            let times = Times::by(&ceiling(source, rates, busbw), 1000.0);
            times.is_some_and(|times| 1000.0 > times.limit)
        };
        // One measurement of the benchmark was as slow as that.
        assert!(!slow(CeilingSource::Bench, [100.0, 70.0], 50.0));
        assert!(slow(CeilingSource::Bench, [100.0, 100.0], 50.0));
        assert!(!slow(CeilingSource::NcclEstimate, [100.0; 2], 50.0));
        assert!(slow(CeilingSource::NcclEstimate, [100.0; 2], 35.0));
        assert!(slow(CeilingSource::Link, [100.0; 2], 35.0));
        assert!(!slow(CeilingSource::BestHere, [100.0; 2], 1.0));
        // A rate knows no latency.
        let small = Times::by(&ceiling(CeilingSource::Link, [100.0; 2], 10.0), 80.0);
        assert!(small.is_some_and(|times| 80.0 < times.limit));
        let times = Times::by(&ceiling(CeilingSource::Bench, [100.0, 80.0], 40.0), 1000.0);
        let times = times.expect("a ceiling");
        assert!(times.least < times.usual && times.usual < times.limit);
        assert_eq!((times.least, times.usual), (400.0, 505.0));
    }

    #[test]
    fn a_few_slow_operations_are_chance() {
        let of = |slow: u64, quick: u64| {
            let mut all = Sample::default();
            (0..slow).for_each(|_| all.push(2_000_000));
            (0..quick).for_each(|_| all.push(500_000));
            let histogram = all.histogram();
            let shortest = all.statistics();
            let n = shortest.map_or(0, |of| of.n);
            (mostly_slow(n, histogram.as_ref(), 1000.0), n)
        };
        assert_eq!(of(16, 0), (true, 16));
        assert_eq!(of(15, 0), (false, 15));
        assert_eq!(of(58, 22), (true, 80));
        assert_eq!(of(57, 23), (false, 80));
    }
}
