//! What each function did in all, and where one call's time goes: the function table.
//!
//! A [`Gatherer`] adds up the parts of a call: the API call, enqueueing, the launch, the kernel, the network
//! proxy. It has a row for each function and class of sizes. A class goes from one power of two to the next,
//! so that few rows hold any number of sizes. Numbers of calls and sums of times come from the operations
//! table, so that both agree.
//!
//! Rule: a part is over the calls that have it, and says how many those are. Warm-ups are in no part. The
//! median comes from a histogram whose error is below 1 %, so memory doesn't grow with calls.

use crate::executions::Execution;
use crate::operations::Operation;
use crate::time::Nanos;
use capture::live::{bucket, bucket_middle};
use schemars::JsonSchema;
use serde::Serialize;
use tables::{Capture, Name};

/// Parts that calls have.
const PARTS: usize = 5;

/// A part of the calls of a function, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Part")]
pub struct CallPart {
    /// Calls that have it.
    pub n: u64,
    /// Mean.
    pub mean: f64,
    /// Median, with an error below 1 %.
    pub p50: f64,
    /// Share of its mean in that of `api`, for the parts within it; null for others, if some call has only
    /// one of both, and if calls are enqueued when their group ends.
    pub share_of_api: Option<f64>,
}

/// What of a call took how long, in the order in which it happens; null for a part that no call has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Parts {
    /// From the entry of the API call to its return.
    pub api: Option<CallPart>,
    /// From the entry of the API call to the launch of the kernel, or to the event of enqueueing.
    pub enqueue: Option<CallPart>,
    /// The launch of the kernel on the host.
    pub launch: Option<CallPart>,
    /// Time on the GPU.
    pub kernel: Option<CallPart>,
    /// Waits of the steps of NCCL's network proxy, summed over steps and channels.
    pub proxy: Option<CallPart>,
}

/// A function.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Function")]
pub struct FunctionRow {
    /// NCCL's name; operations that came in pieces under their own name.
    pub function: Option<String>,
    /// `collective` or `p2p`.
    #[schemars(extend("enum" = ["collective", "p2p"]))]
    pub kind: &'static str,
    /// Executions, one rank's part each.
    pub calls: u64,
    /// Part of all executions, 0 to 1.
    pub share_of_calls: f64,
    /// Bytes of all executions; null when some size is not known.
    pub bytes: Option<u64>,
    /// GPU time of all executions on all ranks; null if no call but warm-ups has one that can be believed.
    pub sum_over_ranks_us: Option<f64>,
    /// Whether that is estimated from a sample.
    pub sampled: bool,
    /// 95 % interval of an estimate from a sample, µs; null if all calls were timed, or too few for an
    /// estimate. Operations are slow at the same moments, so their intervals add up.
    pub sum_interval_us: Option<(f64, f64)>,
    /// Part of the GPU time of all functions, 0 to 1.
    pub share_of_time: Option<f64>,
    /// Host time of all executions on all ranks; null if no call but warm-ups has one. Replays and ABI v1 to
    /// v4 have none.
    pub host_sum_over_ranks_us: Option<f64>,
    /// What of a call took how long.
    pub parts_us: Parts,
}

#[derive(Clone, Default)]
struct Sum {
    n: u64,
    ns: u64,
    /// Counts by bucket, grown as needed.
    buckets: Vec<u64>,
}

impl Sum {
    #[inline]
    fn add(&mut self, ns: u64) {
        let (octave, index) = bucket(ns);
        let place = octave * 64 + index;
        if place >= self.buckets.len() {
            self.buckets.resize(place + 1, 0);
        }
        self.buckets[place] += 1;
        self.n += 1;
        self.ns = self.ns.saturating_add(ns);
    }

    fn merge(&mut self, other: &Sum) {
        self.n += other.n;
        self.ns = self.ns.saturating_add(other.ns);
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (into, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *into += from;
        }
    }

    fn part(&self) -> Option<CallPart> {
        let at = |rank: u64| {
            let mut left = rank;
            let place = self.buckets.iter().position(|n| {
                let found = left <= *n;
                left = left.saturating_sub(*n);
                found
            });
            let place = place.filter(|_| self.n > 0)?;
            Some(Nanos::from(bucket_middle(place / 64, place % 64)).us())
        };
        let median = at(self.n.div_ceil(2)).zip(at(self.n / 2 + 1));
        Some(CallPart {
            n: self.n,
            mean: (Nanos::from(self.ns) / self.n as f64).us(),
            p50: median.map(|(lower, upper)| lower.midpoint(upper))?,
            share_of_api: None,
        })
    }
}

/// The parts of the calls of a function whose sizes are alike.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PartsOfCalls")]
pub struct PartsRow {
    /// NCCL's name; operations that came in pieces under their own name.
    pub function: Option<String>,
    /// The smallest size, by the convention of nccl-tests; null where sizes are not known.
    pub least_bytes: Option<u64>,
    /// The largest: at most twice the smallest.
    pub most_bytes: Option<u64>,
    /// Calls that have a part, warm-ups left out.
    pub calls: u64,
    /// What of a call took how long.
    pub parts_us: Parts,
}

/// The calls of a function whose sizes lie between the same powers of two.
struct Class {
    function: Name,
    /// The power of two that no size exceeds; nothing where sizes are not known.
    power: Option<u32>,
    bytes: Option<(u64, u64)>,
    calls: u64,
    sums: [Sum; PARTS],
}

/// The parts by function and size, under construction.
#[derive(Default)]
pub struct Gatherer {
    classes: Vec<Class>,
}

fn parts(sums: &[Sum; PARTS]) -> Parts {
    let [api, enqueue, launch, kernel, proxy] = sums.each_ref().map(Sum::part);
    let within_api = |part: Option<CallPart>| {
        let part = part?;
        // Calls of a group are enqueued when it ends, which is not within them.
        let whole = api.filter(|api| part.n == api.n && part.mean <= api.mean && api.mean > 0.0);
        let share_of_api = whole.map(|api| part.mean / api.mean);
        Some(CallPart {
            share_of_api,
            ..part
        })
    };
    Parts {
        api,
        enqueue: within_api(enqueue),
        launch: within_api(launch),
        kernel,
        proxy,
    }
}

impl Gatherer {
    /// The index of the class that calls of a function with this size are in.
    pub fn index(&mut self, function: Name, bytes: Option<u64>) -> u32 {
        let power = bytes.map(|bytes| u64::BITS - bytes.saturating_sub(1).leading_zeros());
        let known = self
            .classes
            .iter()
            .position(|class| (class.function, class.power) == (function, power));
        let index = known.unwrap_or_else(|| {
            self.classes.push(Class {
                function,
                power,
                bytes: None,
                calls: 0,
                sums: Default::default(),
            });
            self.classes.len() - 1
        });
        let class = &mut self.classes[index];
        if let Some(bytes) = bytes {
            let (least, most) = class.bytes.unwrap_or((bytes, bytes));
            class.bytes = Some((least.min(bytes), most.max(bytes)));
        }
        index as u32
    }

    /// The classes that have calls, by function, most calls first.
    pub fn parts(&self, capture: &Capture) -> Vec<PartsRow> {
        let there = self.classes.iter().filter(|class| class.calls > 0);
        let mut rows: Vec<PartsRow> = there
            .map(|class| PartsRow {
                function: capture.names.get(class.function).map(str::to_owned),
                least_bytes: class.bytes.map(|(least, _)| least),
                most_bytes: class.bytes.map(|(_, most)| most),
                calls: class.calls,
                parts_us: parts(&class.sums),
            })
            .collect();
        rows.sort_by(|a, b| {
            let key = |row: &PartsRow| (row.function.clone(), row.least_bytes);
            b.calls.cmp(&a.calls).then(key(a).cmp(&key(b)))
        });
        rows
    }

    /// Adds an execution of the class at `index`.
    #[inline]
    pub fn add(&mut self, index: u32, execution: &Execution) {
        if execution.captured || execution.warmup {
            return;
        }
        let class = &mut self.classes[index as usize];
        class.calls += 1;
        let parts = [
            execution.host(),
            execution.enqueue,
            execution.launch,
            execution.gpu.ok(),
            execution.proxy,
        ];
        for (sum, part) in class.sums.iter_mut().zip(parts) {
            if let Some(ns) = part {
                sum.add(ns);
            }
        }
    }

    /// Takes in what another gathered.
    pub fn merge(&mut self, other: Gatherer) {
        for class in other.classes {
            let (least, most) = class.bytes.unzip();
            let index = self.index(class.function, most) as usize;
            self.index(class.function, least);
            let into = &mut self.classes[index];
            into.calls += class.calls;
            for (into, from) in into.sums.iter_mut().zip(&class.sums) {
                into.merge(from);
            }
        }
    }

    /// The functions of `operations`, largest GPU time first, then largest host time.
    pub fn finish(&self, capture: &Capture, operations: &[Operation]) -> Vec<FunctionRow> {
        let mut rows: Vec<FunctionRow> = Vec::new();
        for operation in operations.iter().filter(|o| o.calls > 0) {
            let known = rows
                .iter_mut()
                .find(|row| row.function == operation.function);
            let row = match known {
                Some(row) => row,
                None => {
                    rows.push(self.row(capture, operation));
                    rows.last_mut().expect("just pushed")
                }
            };
            row.calls = row.calls.saturating_add(operation.calls);
            row.bytes = row
                .bytes
                .zip(operation.bytes)
                .map(|(sum, bytes)| sum.saturating_add(bytes.saturating_mul(operation.calls)));
            let host = operation.host_us.map(|time| time.sum);
            for (into, from) in [
                (&mut row.sum_over_ranks_us, operation.gpu_sum_us()),
                (&mut row.host_sum_over_ranks_us, host),
            ] {
                if let Some(sum) = from {
                    *into = Some(into.unwrap_or(0.0) + sum);
                }
            }
            row.sampled |= operation.sampled.is_some();
        }
        for row in &mut rows {
            let own = operations.iter().filter(|o| o.function == row.function);
            row.sum_interval_us =
                interval_of(own.map(|o| (o.gpu_sum_us(), o.gpu_sum_interval_us())));
        }
        let calls = rows.iter().map(|r| r.calls).fold(0, u64::saturating_add);
        let time: f64 = rows.iter().filter_map(|r| r.sum_over_ranks_us).sum();
        for row in &mut rows {
            row.share_of_calls = row.calls as f64 / calls.max(1) as f64;
            row.share_of_time = row
                .sum_over_ranks_us
                .filter(|_| time > 0.0)
                .map(|sum| sum / time);
        }
        let sum = |us: Option<f64>| us.unwrap_or(0.0);
        rows.sort_by(|a, b| {
            sum(b.sum_over_ranks_us)
                .total_cmp(&sum(a.sum_over_ranks_us))
                .then(sum(b.host_sum_over_ranks_us).total_cmp(&sum(a.host_sum_over_ranks_us)))
                .then(b.calls.cmp(&a.calls))
                .then(a.function.cmp(&b.function))
        });
        rows
    }

    fn row(&self, capture: &Capture, operation: &Operation) -> FunctionRow {
        let mut sums: [Sum; PARTS] = Default::default();
        let of_this =
            |class: &&Class| capture.names.get(class.function) == operation.function.as_deref();
        for class in self.classes.iter().filter(of_this) {
            for (into, from) in sums.iter_mut().zip(&class.sums) {
                into.merge(from);
            }
        }
        FunctionRow {
            function: operation.function.clone(),
            kind: if operation.is_p2p() {
                "p2p"
            } else {
                "collective"
            },
            calls: 0,
            share_of_calls: 0.0,
            bytes: Some(0),
            sum_over_ranks_us: None,
            sampled: false,
            sum_interval_us: None,
            share_of_time: None,
            host_sum_over_ranks_us: None,
            parts_us: parts(&sums),
        }
    }
}

impl FunctionRow {
    /// GPU time of all executions.
    pub fn gpu_sum(&self) -> GpuSum {
        (self.sum_over_ranks_us, self.sum_interval_us)
    }
}

/// What all functions of a kind did.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Kind")]
pub struct KindRow {
    /// `collective` or `p2p`.
    #[schemars(extend("enum" = ["collective", "p2p"]))]
    pub kind: &'static str,
    /// Executions, one rank's part each.
    pub calls: u64,
    /// Bytes of all executions; null when some size is not known.
    pub bytes: Option<u64>,
    /// GPU time of all executions on all ranks; null if no call but warm-ups has one that can be believed.
    pub sum_over_ranks_us: Option<f64>,
    /// 95 % interval of an estimate from a sample; null if all calls were timed, or too few for an estimate.
    pub sum_interval_us: Option<(f64, f64)>,
    /// Host time of all executions on all ranks; null if no call but warm-ups has one. Replays and ABI v1 to
    /// v4 have none.
    pub host_sum_over_ranks_us: Option<f64>,
}

/// A sum in µs, with its interval if it is an estimate.
pub type GpuSum = (Option<f64>, Option<(f64, f64)>);

/// The interval of what these sums are together; `None` if none of them is an estimate.
pub fn interval_of(sums: impl Iterator<Item = GpuSum>) -> Option<(f64, f64)> {
    let (mut all, mut is_estimate) = ((0.0, 0.0), false);
    for (sum, interval) in sums {
        is_estimate |= interval.is_some();
        let (low, high) = interval.or(sum.map(|sum| (sum, sum))).unwrap_or_default();
        all = (all.0 + low, all.1 + high);
    }
    is_estimate.then_some(all)
}

/// Collectives against point-to-point; one row for each kind that occurs.
pub fn kinds(functions: &[FunctionRow]) -> Vec<KindRow> {
    let kind = |kind| {
        let of: Vec<&FunctionRow> = functions.iter().filter(|f| f.kind == kind).collect();
        let sum = |pick: fn(&FunctionRow) -> Option<f64>| {
            of.iter().filter_map(|f| pick(f)).reduce(|a, b| a + b)
        };
        (!of.is_empty()).then(|| KindRow {
            kind,
            calls: of.iter().map(|f| f.calls).fold(0, u64::saturating_add),
            bytes: of
                .iter()
                .try_fold(0, |sum: u64, f| Some(sum.saturating_add(f.bytes?))),
            sum_over_ranks_us: sum(|f| f.sum_over_ranks_us),
            sum_interval_us: interval_of(of.iter().map(|f| f.gpu_sum())),
            host_sum_over_ranks_us: sum(|f| f.host_sum_over_ranks_us),
        })
    };
    ["collective", "p2p"].into_iter().filter_map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_within_a_percent_and_none_of_none_is_nothing() {
        let mut sums = [Sum::default(), Sum::default()];
        assert_eq!(sums[0].part(), None);
        for i in 1..=1001u64 {
            sums[i as usize % 2].add(i * 1000);
        }
        let [mut a, b] = sums;
        a.merge(&b);
        let part = a.part().expect("some");
        assert_eq!((part.n, part.mean), (1001, 501.0));
        assert!((part.p50 / 501.0 - 1.0).abs() < 0.01, "{}", part.p50);
    }

    #[test]
    fn shares_of_the_api_call_are_of_the_same_calls() {
        let mut sums: [Sum; PARTS] = Default::default();
        for _ in 0..4 {
            sums[0].add(10_000);
            sums[1].add(2_500);
            sums[3].add(90_000);
        }
        sums[2].add(5_000);
        let parts = parts(&sums);
        let share = |part: Option<CallPart>| part.expect("some").share_of_api;
        assert_eq!(share(parts.enqueue), Some(0.25));
        // Three calls have no launch, and the kernel runs on the GPU.
        assert_eq!(
            [parts.launch, parts.kernel, parts.api].map(share),
            [None; 3]
        );
        assert_eq!(parts.proxy, None);
        // Enqueued when the group ends, long after the call has returned.
        sums[1].add(90_000);
        sums[0].add(10_000);
        assert_eq!(share(super::parts(&sums).enqueue), None);
    }
}
