//! Which line of the program made which calls: the table by call site.
//!
//! A [`Gatherer`] adds up the calls of each row of the operations table by their caller. Sums of times come
//! from the operations table, and a caller has the part of them that its own calls have. So callers and
//! functions have the same sums.
//!
//! Rule: calls without a recorded caller are a row, too. These are calls in launches of CUDA graphs, calls
//! that were only counted, and calls of processes without stacks. Without a single caller there is no table.

use crate::executions::{Execution, Walk};
use crate::functions::{interval_of, GpuSum as Sum};
use crate::operations::Operation;
use crate::sampled::Stretches;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tables::{Capture, Name};

/// The calls of a function from a line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Caller")]
pub struct CallerRow {
    /// The line of the program that made the calls, as `FILE:LINE FUNCTION`: the innermost frame that is in
    /// no library (`ncclscope run --stacks`). `autograd (C++)` is PyTorch's autograd, and `unknown:` says why
    /// there is none. Null if nothing is recorded: launched in a CUDA graph, counted only, or of a process
    /// without stacks.
    pub caller: Option<String>,
    /// NCCL's function; operations that came in pieces under their own name.
    pub function: Option<String>,
    /// Executions, one rank's part each.
    pub calls: u64,
    /// Bytes of all executions; null when some size is not known.
    pub bytes: Option<u64>,
    /// GPU time of all executions on all ranks; null if no call but warm-ups has one that can be believed.
    pub sum_over_ranks_us: Option<f64>,
    /// Whether that is estimated from a sample.
    pub sampled: bool,
    /// 95 % interval of an estimate from a sample; null if all calls were timed, or too few for an estimate.
    pub sum_interval_us: Option<(f64, f64)>,
    /// Part of the GPU time of all calls, 0 to 1.
    pub share_of_time: Option<f64>,
    /// Host time of all executions on all ranks; null if no call but warm-ups has one. Replays and ABI v1 to
    /// v4 have none.
    pub host_sum_over_ranks_us: Option<f64>,
    /// How long streams stood still for these calls, summed over ranks; null where no wait is known.
    pub exposed_us: Option<f64>,
    /// 95 % interval of `exposed_us`, if it is known of some of the calls.
    pub exposed_interval_us: Option<(f64, f64)>,
    /// How long ranks waited in these calls for the last rank, summed over ranks; null where no operation has
    /// a time on every rank.
    pub wait_rank_us: Option<f64>,
    /// 95 % interval of `wait_rank_us`, if it is known of some of the calls.
    pub wait_interval_us: Option<(f64, f64)>,
    /// Different stacks that lead to the line.
    pub stacks: u64,
}

/// Calls of an operation from a line.
#[derive(Clone, Debug, Default)]
struct Site {
    row: u32,
    caller: Name,
    /// Places of their stacks.
    stacks: Vec<Name>,
    calls: u64,
    /// Behind warm-up.
    counted: u64,
    timed: Stretches,
    host_ns: u64,
    /// How long a stream waited, of the calls of which it is known whether one did.
    exposed: Stretches,
}

/// How long ranks waited in calls of an operation from a line.
pub(crate) type Waits = HashMap<(u32, Name), Stretches>;

/// The table under construction.
#[derive(Default)]
pub struct Gatherer {
    known: HashMap<(u32, Name), u32>,
    sites: Vec<Site>,
}

/// Caller and function of a row.
type Key<'a> = (Option<&'a str>, Option<&'a str>);
/// A place without a caller.
const NOWHERE: u32 = u32::MAX;

impl Gatherer {
    /// The site of each place of `walk`, of which `rows` are the rows of operations.
    pub fn plan(&mut self, walk: &Walk, rows: &[u32]) -> Vec<u32> {
        let places = walk.places().iter().zip(rows);
        places
            .map(|(place, row)| {
                if place.shape.caller == Name::NONE {
                    return NOWHERE;
                }
                let site = self.site(*row, place.shape.caller);
                let stacks = &mut self.sites[site as usize].stacks;
                if !stacks.contains(&place.shape.stack) {
                    stacks.push(place.shape.stack);
                }
                site
            })
            .collect()
    }

    fn site(&mut self, row: u32, caller: Name) -> u32 {
        *self.known.entry((row, caller)).or_insert_with(|| {
            self.sites.push(Site {
                row,
                caller,
                ..Site::default()
            });
            self.sites.len() as u32 - 1
        })
    }

    /// Adds an execution. `exposed`: how long a stream stood still for it, if that is known.
    #[inline]
    pub fn add(&mut self, site: u32, execution: &Execution, exposed: Option<u64>) {
        let Some(site) = self.sites.get_mut(site as usize) else {
            return;
        };
        if execution.captured {
            return;
        }
        site.calls += 1;
        if execution.warmup {
            return;
        }
        site.counted += 1;
        if let Ok(ns) = execution.gpu {
            site.timed.push(ns);
        }
        site.host_ns = site.host_ns.saturating_add(execution.host().unwrap_or(0));
        if let Some(ns) = exposed {
            site.exposed.push(ns);
        }
    }

    /// Takes in what was gathered from later processes, whose rows are ours by `rows`.
    pub fn merge(&mut self, later: Gatherer, rows: &[u32]) {
        for from in later.sites {
            let site = self.site(rows[from.row as usize], from.caller) as usize;
            let into = &mut self.sites[site];
            let new = from.stacks.iter().filter(|s| !into.stacks.contains(s));
            let new: Vec<Name> = new.copied().collect();
            into.stacks.extend(new);
            into.calls += from.calls;
            into.counted += from.counted;
            into.timed.merge(from.timed);
            into.host_ns = into.host_ns.saturating_add(from.host_ns);
            into.exposed.merge(from.exposed);
        }
    }

    /// The table, largest GPU time first, then largest host time.
    pub(crate) fn finish(
        self,
        capture: &Capture,
        operations: &[Operation],
        waits: &Waits,
    ) -> Vec<CallerRow> {
        let mut by_row: BTreeMap<u32, Vec<&Site>> = BTreeMap::new();
        for site in &self.sites {
            by_row.entry(site.row).or_default().push(site);
        }
        if self.sites.iter().all(|site| site.calls == 0) {
            return Vec::new();
        }
        let mut table: BTreeMap<Key, Gathered> = BTreeMap::new();
        for operation in operations.iter().filter(|o| o.calls > 0) {
            let sites = by_row.get(&operation.gathered_as);
            for part in parts(operation, sites.map_or(&[], Vec::as_slice), waits) {
                let caller = capture.names.get(part.caller);
                let function = operation.function.as_deref();
                let of = table.entry((caller, function)).or_insert_with(|| Gathered {
                    row: empty(caller, function),
                    sums: Default::default(),
                    stacks: Vec::new(),
                });
                add(&mut of.row, operation, &part);
                for (sums, sum) in of.sums.iter_mut().zip([part.gpu, part.exposed, part.wait]) {
                    sums.push(sum);
                }
                of.stacks.extend(part.stacks);
            }
        }
        let time: f64 = operations.iter().filter_map(Operation::gpu_sum_us).sum();
        let finish = |of: Gathered| {
            let Gathered {
                mut row,
                sums: [gpu, exposed, wait],
                mut stacks,
            } = of;
            stacks.sort_unstable();
            stacks.dedup();
            row.stacks = stacks.len() as u64;
            (row.sum_over_ranks_us, row.sum_interval_us) = together(&gpu);
            (row.exposed_us, row.exposed_interval_us) = together(&exposed);
            (row.wait_rank_us, row.wait_interval_us) = together(&wait);
            let sum = row.sum_over_ranks_us.filter(|_| time > 0.0);
            row.share_of_time = sum.map(|sum| sum / time);
            row
        };
        let mut rows: Vec<CallerRow> = table.into_values().map(finish).collect();
        let sum = |us: Option<f64>| us.unwrap_or(0.0);
        // Sorted by name before, so that equal times give one order.
        rows.sort_by(|a, b| {
            sum(b.sum_over_ranks_us)
                .total_cmp(&sum(a.sum_over_ranks_us))
                .then(sum(b.host_sum_over_ranks_us).total_cmp(&sum(a.host_sum_over_ranks_us)))
                .then(b.calls.cmp(&a.calls))
        });
        rows
    }
}

/// A row of the table under construction.
struct Gathered<'a> {
    row: CallerRow,
    /// GPU times, exposed times and waits of its parts.
    sums: [Vec<Sum>; 3],
    stacks: Vec<&'a Name>,
}

/// What sums are together.
fn together(sums: &[Sum]) -> Sum {
    let known = || sums.iter().filter(|sum| sum.0.is_some()).copied();
    let sum = known().filter_map(|sum| sum.0).reduce(|a, b| a + b);
    (sum, interval_of(known()))
}

/// What all `calls` calls have by a sample of them, in µs, with its interval if not all are known. Few of
/// them may be next to nothing, or all of `most_us`.
fn estimate(sample: &Stretches, calls: u64, most_us: f64) -> Sum {
    let (timed, n) = sample.total();
    if n == 0.0 {
        return (None, None);
    }
    let us = timed.us() * (calls as f64 / n).max(1.0);
    let few = (0.0, most_us.max(us));
    let interval = || match sample.estimate(calls) {
        Some(of) => (of.sum_low_us, of.sum_high_us),
        None => few,
    };
    (Some(us), (n < calls as f64).then(interval))
}

/// What a caller has of an operation.
struct SitePart<'a> {
    caller: Name,
    calls: u64,
    gpu: Sum,
    host_us: Option<f64>,
    exposed: Sum,
    wait: Sum,
    stacks: &'a [Name],
}

/// Deals an operation out to its callers; what is left is nobody's.
fn parts<'a>(operation: &Operation, sites: &[&'a Site], waits: &Waits) -> Vec<SitePart<'a>> {
    let sum = operation.gpu_sum_us();
    let host = operation.host_us.map(|host| host.sum);
    let is_sampled = operation.sampled.is_some();
    let totals = || sites.iter().map(|site| site.timed.total());
    let timed: f64 = totals().map(|(_, n)| n).sum();
    let mean = totals().map(|(time, _)| time).sum::<Nanos>() / timed.max(1.0);
    let of_sites = sites.iter().map(|site| site.calls).sum::<u64>();
    let left = operation.calls.saturating_sub(of_sites);
    // Of a sample, each caller has what its calls would take at its own mean.
    let weight = |site: &Site| match (is_sampled, site.timed.total()) {
        (false, (time, _)) => time,
        (true, (_, 0.0)) => mean * site.counted as f64,
        (true, (time, timed)) => time * site.counted as f64 / timed,
    };
    let weights: Nanos = sites.iter().map(|site| weight(site)).sum();
    let of_left = if is_sampled {
        mean * left as f64
    } else {
        (Nanos::from_us(sum.unwrap_or(0.0)) - weights).max(Nanos::ZERO)
    };
    let all = weights + of_left;
    let share = |weight: Nanos| {
        let of = |sum: f64| sum * weight.0 / all.0;
        sum.map(|sum| if all > Nanos::ZERO { of(sum) } else { 0.0 })
    };
    // Calls of which few or none were timed may be all that the operation took.
    let most_us = operation.sampled.map_or(0.0, |s| s.sum_high_us);
    let gpu = |site: &Site| {
        let us = share(weight(site));
        let interval = || match (site.timed.estimate(site.counted), us) {
            (Some(of), Some(us)) if of.sum_us > 0.0 => {
                let scale = us / of.sum_us;
                (of.sum_low_us * scale, of.sum_high_us * scale)
            }
            _ => (0.0, most_us),
        };
        (us, is_sampled.then(interval))
    };
    let mut parts: Vec<SitePart> = sites
        .iter()
        .filter(|site| site.calls > 0)
        .map(|site| SitePart {
            caller: site.caller,
            calls: site.calls,
            gpu: gpu(site),
            host_us: host.map(|_| Nanos::from(site.host_ns).us()),
            exposed: estimate(&site.exposed, site.counted, most_us),
            wait: match waits.get(&(site.row, site.caller)) {
                Some(of) if is_sampled => estimate(of, site.counted, most_us),
                Some(of) => (Some(of.total().0.us()), None),
                None => (None, None),
            },
            stacks: &site.stacks,
        })
        .collect();
    let host_left = host.map(|host| {
        let of_sites: u64 = sites.iter().map(|site| site.host_ns).sum();
        (host - Nanos::from(of_sites).us()).max(0.0)
    });
    if left > 0 {
        parts.push(SitePart {
            caller: Name::NONE,
            calls: left,
            gpu: (share(of_left), is_sampled.then_some((0.0, most_us))),
            host_us: host_left,
            exposed: (None, None),
            wait: (None, None),
            stacks: &[],
        });
    }
    parts
}

fn empty(caller: Option<&str>, function: Option<&str>) -> CallerRow {
    CallerRow {
        caller: caller.map(str::to_owned),
        function: function.map(str::to_owned),
        calls: 0,
        bytes: Some(0),
        sum_over_ranks_us: None,
        sampled: false,
        sum_interval_us: None,
        share_of_time: None,
        host_sum_over_ranks_us: None,
        exposed_us: None,
        exposed_interval_us: None,
        wait_rank_us: None,
        wait_interval_us: None,
        stacks: 0,
    }
}

fn add(row: &mut CallerRow, operation: &Operation, part: &SitePart) {
    row.calls = row.calls.saturating_add(part.calls);
    row.bytes = row
        .bytes
        .zip(operation.bytes)
        .map(|(sum, bytes)| sum.saturating_add(bytes.saturating_mul(part.calls)));
    row.sampled |= operation.sampled.is_some();
    if let Some(host) = part.host_us {
        *row.host_sum_over_ranks_us.get_or_insert(0.0) += host;
    }
}

#[cfg(test)]
mod tests {
    use crate::report;
    use crate::time::Nanos;
    use capture::live::part;
    use tables::{Call, Capture, GpuTimes, Name, Process, Shape};

    fn capture() -> Capture {
        capture_of(60)
    }

    /// Two ranks that call so often, from two lines and from a place that nobody recorded.
    fn capture_of(calls: u64) -> Capture {
        let mut capture = Capture::default();
        let function = capture.names.intern("AllReduce");
        let datatype = capture.names.intern("ncclFloat32");
        let lines = ["a.py:1 f", "b.py:2 g"].map(|line| capture.names.intern(line));
        for rank in 0..2u64 {
            let shape = |i: usize| Shape {
                uid: 1,
                function,
                datatype,
                count: 1024 << (i / 2),
                nranks: Some(2),
                caller: lines.get(i % 3).copied().unwrap_or(Name::NONE),
                stack: lines.get(i % 3).copied().unwrap_or(Name::NONE),
                ..Shape::default()
            };
            let call = |ticket: u64| Call {
                ticket,
                seq: ticket + 1,
                shape: (ticket % 6) as u32,
                api_ns: 1_000 + 100_000 * ticket as i64,
                return_ns: 1_050 + 100_000 * ticket as i64,
                gpu: GpuTimes::stamps(
                    5_000 + 100_000 * ticket,
                    5_000 + 100_000 * ticket + 1000 * (ticket % 7 + 1) * (rank + 1),
                ),
                channels_started: 1,
                channels_stopped: 1,
                sealed: true,
                ..Call::default()
            };
            capture.processes.push(Process {
                rank: Some(rank as u32),
                shapes: (0..6).map(shape).collect(),
                calls: (0..calls).map(call).collect(),
                ..Process::default()
            });
        }
        capture
    }

    #[test]
    fn sums_by_caller_are_those_of_the_functions() {
        let report = report(&capture());
        let callers = &report.callers;
        let names: Vec<Option<&str>> = callers.iter().map(|c| c.caller.as_deref()).collect();
        assert_eq!(names.len(), 3, "{callers:?}");
        assert!(names.contains(&None) && names.contains(&Some("a.py:1 f")));
        let function = &report.functions[0];
        let calls: u64 = callers.iter().map(|c| c.calls).sum();
        assert_eq!(calls, function.calls);
        let bytes: Option<u64> = callers.iter().map(|c| c.bytes).sum();
        assert_eq!(bytes, function.bytes);
        let close = |a: Option<f64>, b: Option<f64>| {
            let (a, b) = (a.expect("known"), b.expect("known"));
            assert!((a - b).abs() < 1e-6 * b, "{a} {b}");
        };
        let sum = |pick: fn(&super::CallerRow) -> Option<f64>| callers.iter().map(pick).sum();
        close(sum(|c| c.sum_over_ranks_us), function.sum_over_ranks_us);
        close(
            sum(|c| c.host_sum_over_ranks_us),
            function.host_sum_over_ranks_us,
        );
        close(sum(|c| c.share_of_time), Some(1.0));
    }

    #[test]
    fn a_sample_says_between_what_the_sum_of_a_line_is() {
        let mut capture = capture_of(6000);
        let mut truth = [0.0; 2];
        for process in &mut capture.processes {
            process.facts.insert("timing".into(), "auto".into());
            let shapes = process.shapes.len() as u32;
            let not_timed: Vec<Shape> = process
                .shapes
                .iter()
                .map(|shape| Shape {
                    parts: part::UNSAMPLED,
                    ..*shape
                })
                .collect();
            process
                .shapes
                .iter_mut()
                .for_each(|shape| shape.parts = part::EVENTS);
            process.shapes.extend(not_timed);
            for call in &mut process.calls {
                let ns = 1000 * (call.ticket as i64 % 7 + 1);
                call.gpu = GpuTimes::OnHost {
                    start: call.return_ns + 1000,
                    stop: call.return_ns + 1000 + ns,
                    error: 0,
                };
                if let Some(sum) = truth.get_mut(call.shape as usize % 3) {
                    // Its first call on the communicator is a warm-up.
                    *sum += if call.ticket == 0 {
                        0.0
                    } else {
                        Nanos::from(ns).us()
                    };
                }
                if call.ticket / 6 % 2 != 0 {
                    call.gpu = GpuTimes::None;
                    call.shape += shapes;
                }
            }
        }
        let report = report(&capture);
        for (line, truth) in ["a.py:1 f", "b.py:2 g"].into_iter().zip(truth) {
            let mut rows = report.callers.iter();
            let row = rows.find(|c| c.caller.as_deref() == Some(line));
            let row = row.expect("a row");
            let (low, high) = row.sum_interval_us.expect("a sample");
            assert!(low < truth && truth < high, "{line}: {truth} {row:?}");
            assert!(row.sampled && low > 0.0 && high < 2.0 * truth, "{row:?}");
        }
    }

    #[test]
    fn without_a_caller_there_is_no_table() {
        let mut capture = capture();
        for shape in capture.processes.iter_mut().flat_map(|p| &mut p.shapes) {
            shape.caller = Name::NONE;
        }
        assert_eq!(report(&capture).callers, []);
    }
}
