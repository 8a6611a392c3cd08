//! Which line of the program made which calls: the table by call site.
//!
//! A [`Gatherer`] adds up the calls of each row of the operations table by their caller. Sums of times come
//! from the operations table, and a caller has the part of them that its own calls have. So callers and
//! functions have the same sums.
//!
//! Rule: calls without a recorded caller are a row, too. These are calls in launches of CUDA graphs, calls
//! that were only counted, and calls of processes without stacks. Without a single caller there is no table.

use crate::executions::{Execution, Walk};
use crate::operations::Operation;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tables::{Capture, Name};

/// The calls of a function from a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallerRow {
    /// `FILE:LINE FUNCTION` of the program; null for calls without a recorded caller.
    pub caller: Option<String>,
    /// NCCL's function; operations that came in pieces under their own name.
    pub function: Option<String>,
    /// Executions, one rank's part each.
    pub calls: u64,
    /// Bytes of all executions; null when some size is not known.
    pub bytes: Option<u64>,
    /// GPU time of all executions on all ranks.
    pub sum_over_ranks_us: Option<f64>,
    /// Whether that is estimated from a sample.
    pub sampled: bool,
    /// Part of the GPU time of all calls, 0 to 1.
    pub share_of_time: Option<f64>,
    /// Host time of all executions on all ranks.
    pub host_sum_over_ranks_us: Option<f64>,
    /// How long streams stood still for these calls, summed over ranks; null where no wait is known.
    pub exposed_us: Option<f64>,
    /// How long ranks waited in these calls for the last rank, summed over ranks; null where no operation has
    /// a time on every rank.
    pub wait_rank_us: Option<f64>,
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
    timed: u64,
    ns: u64,
    host_ns: u64,
    /// Calls of which it is known whether a stream waited, and for how long one did.
    exposed: (u64, u64),
}

/// How long ranks waited in calls of an operation from a line: calls, and ns.
pub(crate) type Waits = HashMap<(u32, Name), (u64, u64)>;

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
            site.timed += 1;
            site.ns = site.ns.saturating_add(ns);
        }
        site.host_ns = site.host_ns.saturating_add(execution.host().unwrap_or(0));
        if let Some(ns) = exposed {
            site.exposed.0 += 1;
            site.exposed.1 = site.exposed.1.saturating_add(ns);
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
            into.timed += from.timed;
            into.ns = into.ns.saturating_add(from.ns);
            into.host_ns = into.host_ns.saturating_add(from.host_ns);
            into.exposed.0 += from.exposed.0;
            into.exposed.1 = into.exposed.1.saturating_add(from.exposed.1);
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
        let mut table: BTreeMap<Key, (CallerRow, Vec<Name>)> = BTreeMap::new();
        for operation in operations.iter().filter(|o| o.calls > 0) {
            let sites = by_row.get(&operation.gathered_as);
            for part in parts(operation, sites.map_or(&[], Vec::as_slice), waits) {
                let caller = capture.names.get(part.caller);
                let function = operation.function.as_deref();
                let (row, stacks) = table
                    .entry((caller, function))
                    .or_insert_with(|| (empty(caller, function), Vec::new()));
                add(row, operation, &part);
                stacks.extend(part.stacks);
            }
        }
        let time: f64 = operations.iter().filter_map(Operation::gpu_sum_us).sum();
        let finish = |(mut row, mut stacks): (CallerRow, Vec<Name>)| {
            stacks.sort_unstable();
            stacks.dedup();
            row.stacks = stacks.len() as u64;
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

/// What is not known of callers, a sentence for each cause.
pub(crate) fn notes(callers: &[CallerRow]) -> Vec<String> {
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for row in callers {
        let caller = row.caller.as_deref().unwrap_or("");
        if let Some(why) = caller.strip_prefix("unknown: ") {
            let calls = causes.entry(why).or_default();
            *calls = calls.saturating_add(row.calls);
        }
    }
    let causes = causes.into_iter();
    let sentence = |(why, calls)| match calls {
        1 => format!("1 call has no line of the program: {why}."),
        calls => format!("{calls} calls have no line of the program: {why}."),
    };
    causes.map(sentence).collect()
}

/// What a caller has of an operation.
struct SitePart<'a> {
    caller: Name,
    calls: u64,
    gpu_us: Option<f64>,
    host_us: Option<f64>,
    exposed_us: Option<f64>,
    wait_us: Option<f64>,
    stacks: &'a [Name],
}

/// Deals an operation out to its callers; what is left is nobody's.
fn parts<'a>(operation: &Operation, sites: &[&'a Site], waits: &Waits) -> Vec<SitePart<'a>> {
    let sum = operation.gpu_sum_us();
    let host = operation.host_us.map(|host| host.sum);
    let mean_ns = {
        let timed: u64 = sites.iter().map(|site| site.timed).sum();
        let ns: u64 = sites.iter().map(|site| site.ns).sum();
        ns as f64 / timed.max(1) as f64
    };
    let of_sites = sites.iter().map(|site| site.calls).sum::<u64>();
    let left = operation.calls.saturating_sub(of_sites);
    // Of a sample, each caller has what its calls would take at its own mean.
    let weight = |site: &Site| match (operation.sampled.is_some(), site.timed) {
        (false, _) => site.ns as f64,
        (true, 0) => site.counted as f64 * mean_ns,
        (true, timed) => site.ns as f64 * site.counted as f64 / timed as f64,
    };
    let weights: f64 = sites.iter().map(|site| weight(site)).sum();
    let of_left = if operation.sampled.is_some() {
        left as f64 * mean_ns
    } else {
        (sum.unwrap_or(0.0) * 1e3 - weights).max(0.0)
    };
    let all = weights + of_left;
    let share = |weight: f64| sum.map(|sum| if all > 0.0 { sum * weight / all } else { 0.0 });
    let mut parts: Vec<SitePart> = sites
        .iter()
        .filter(|site| site.calls > 0)
        .map(|site| {
            let (known, exposed) = site.exposed;
            let more = |n: u64| site.counted as f64 / n as f64;
            let wait = waits.get(&(site.row, site.caller));
            SitePart {
                caller: site.caller,
                calls: site.calls,
                gpu_us: share(weight(site)),
                host_us: host.map(|_| site.host_ns as f64 / 1e3),
                exposed_us: (known > 0).then(|| exposed as f64 / 1e3 * more(known)),
                wait_us: wait.map(|(n, ns)| {
                    let more = match operation.sampled {
                        Some(_) => more(*n).max(1.0),
                        None => 1.0,
                    };
                    *ns as f64 / 1e3 * more
                }),
                stacks: &site.stacks,
            }
        })
        .collect();
    let host_left = host.map(|host| {
        let of_sites: u64 = sites.iter().map(|site| site.host_ns).sum();
        (host - of_sites as f64 / 1e3).max(0.0)
    });
    if left > 0 {
        parts.push(SitePart {
            caller: Name::NONE,
            calls: left,
            gpu_us: share(of_left),
            host_us: host_left,
            exposed_us: None,
            wait_us: None,
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
        share_of_time: None,
        host_sum_over_ranks_us: None,
        exposed_us: None,
        wait_rank_us: None,
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
    for (into, from) in [
        (&mut row.sum_over_ranks_us, part.gpu_us),
        (&mut row.host_sum_over_ranks_us, part.host_us),
        (&mut row.exposed_us, part.exposed_us),
        (&mut row.wait_rank_us, part.wait_us),
    ] {
        if let Some(from) = from {
            *into = Some(into.unwrap_or(0.0) + from);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::report;
    use tables::{Call, Capture, GpuTimes, Name, Process, Shape};

    /// Two ranks that call from two lines, and once from a place that nobody recorded.
    fn capture() -> Capture {
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
                calls: (0..60).map(call).collect(),
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
    fn without_a_caller_there_is_no_table() {
        let mut capture = capture();
        for shape in capture.processes.iter_mut().flat_map(|p| &mut p.shapes) {
            shape.caller = Name::NONE;
        }
        assert_eq!(report(&capture).callers, []);
    }
}
