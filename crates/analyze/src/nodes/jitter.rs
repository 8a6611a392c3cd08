//! Scheduler jitter: calls that took long on the host, and what their threads did meanwhile.
//!
//! A call is long if its thread needed more than [`LONG`] from API entry to return. The sampler saw when
//! watched threads were off their CPUs ([`tables::nodes::Switches`]). So the time of a long call falls into
//! three parts:
//!
//! - the thread ran;
//! - it was *preempted*: it was ready, and the scheduler ran others;
//! - it was *asleep*, which ends with a wait for a CPU, too.
//!
//! A [`Gatherer`] takes the calls process by process.
//!
//! If the kernel gave no records of context switches, the counter of the time for which a thread was ready is
//! all there is. It was read at ticks, so it only bounds the part of calls between two ticks from above.
//!
//! Rule: only calls in spans that were watched are counted. Time that calls of a group have in common counts
//! once. A rank's first call on a communicator is no matter of jitter: NCCL connects the ranks in it.

use crate::executions::{Execution, Walk};
use crate::subject::ProcessId;
use crate::time::{HostTime, Nanos};
use capture::samples::THREAD_READY;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use tables::nodes::{Series, Switches};
use tables::{Capture, Process};

/// A call that took its thread longer is long. Most take less than 10 µs.
pub const LONG: Nanos = Nanos::from_us(50.0);

/// The calls of a thread that was watched.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JitterRow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// Number of the thread.
    pub tid: u32,
    /// `switches`: the kernel's records of context switches. `schedstat`: its counters, read at ticks.
    #[schemars(extend("enum" = ["switches", "schedstat"]))]
    pub source: &'static str,
    /// Calls while the thread was watched, but for the first on each communicator.
    pub calls: u64,
    /// Calls that took their thread longer than 50 µs on the host, from API entry to return.
    pub long: u64,
    /// Time of the long calls, µs.
    pub long_us: f64,
    /// The longest call, µs.
    pub longest_us: f64,
    /// Share of `long_us` in which the thread was ready, and the scheduler ran others; at most, by schedstat;
    /// null without long calls.
    pub preempted: Option<f64>,
    /// Share of `long_us` in which the thread slept, or waited for a CPU after it slept; null without long
    /// calls or by schedstat.
    pub asleep: Option<f64>,
    /// Share of `long_us` in which the thread ran; null without long calls or by schedstat.
    pub running: Option<f64>,
}

/// What is gathered from processes, in their order.
#[derive(Default)]
pub struct Gatherer {
    rows: Vec<JitterRow>,
}

/// Calls of a process, by thread.
#[derive(Default)]
pub struct ProcessCalls {
    threads: Vec<ThreadCalls>,
    /// By number of the thread; nothing for one that was not watched.
    known: HashMap<u32, Option<usize>>,
}

/// Where what is known of a thread lies in the capture.
#[derive(Clone, Copy)]
enum Watched {
    /// Node, and index of its switches.
    Switches(usize, usize),
    /// Node, and index of the series of its ready time.
    Counter(usize, usize),
}

struct ThreadCalls {
    tid: u32,
    watched: Watched,
    calls: u64,
    long: u64,
    longest: Nanos,
    /// Time of long calls, and of it: preempted, asleep.
    time: Nanos,
    off: [Nanos; 2],
    /// Where the last long call ended.
    end: i64,
    /// For a counter: the last pair of ticks, and what calls had of its ready time.
    taken: (usize, i64),
}

impl ProcessCalls {
    /// The threads of the calls at the places of `walk`, place by place; nothing for one that was not
    /// watched.
    pub fn plan(
        &mut self,
        capture: &Capture,
        process: &Process,
        walk: &Walk<'_>,
    ) -> Vec<Option<usize>> {
        let places = walk.places().iter();
        places
            .map(|place| {
                let tid = place.shape.thread?;
                if let Some(known) = self.known.get(&tid) {
                    return *known;
                }
                let thread = watched(capture, process, tid).map(|watched| {
                    self.threads.push(ThreadCalls {
                        tid,
                        watched,
                        calls: 0,
                        long: 0,
                        longest: Nanos::ZERO,
                        time: Nanos::ZERO,
                        off: [Nanos::ZERO; 2],
                        end: i64::MIN,
                        taken: (0, 0),
                    });
                    self.threads.len() - 1
                });
                self.known.insert(tid, thread);
                thread
            })
            .collect()
    }

    /// Adds an execution of the thread at this index.
    #[inline]
    pub fn add(&mut self, capture: &Capture, thread: Option<usize>, execution: &Execution<'_>) {
        let (Some(thread), Some((from, to))) = (thread, execution.api) else {
            return;
        };
        if !execution.captured && !execution.warmup {
            self.threads[thread].add(capture, from, to);
        }
    }
}

/// How a thread was watched; switches are better.
fn watched(capture: &Capture, process: &Process, tid: u32) -> Option<Watched> {
    let nodes = capture.nodes.iter().enumerate();
    let mut nodes = nodes.filter(|(_, node)| node.host == process.host);
    nodes.find_map(|(index, node)| {
        let is_it = |thread: Option<(u32, u32)>| thread == Some((process.pid, tid));
        let prefix = format!("{}/{tid}/", process.pid);
        let is_ready = |of: &Series| of.name == THREAD_READY && of.of.starts_with(&prefix);
        let switches = node.switches.iter().position(|of| is_it(of.thread()));
        let counter = || node.series.iter().position(is_ready);
        let switches = switches.map(|at| Watched::Switches(index, at));
        switches.or_else(|| Some(Watched::Counter(index, counter()?)))
    })
}

impl ThreadCalls {
    fn add(&mut self, capture: &Capture, from: i64, to: i64) {
        match self.watched {
            Watched::Switches(node, at) => {
                let switches = &capture.nodes[node].switches[at];
                self.add_watched(switches, from, to);
            }
            Watched::Counter(node, at) => {
                let series = &capture.nodes[node].series[at];
                self.add_counted(series, from, to);
            }
        }
    }

    /// Counts a call. What of its time no other long call has had, if it is long.
    fn count(&mut self, from: i64, to: i64) -> Option<(i64, i64)> {
        self.calls += 1;
        let took = HostTime(to) - HostTime(from);
        if took <= LONG {
            return None;
        }
        self.long += 1;
        self.longest = self.longest.max(took);
        let from = from.max(self.end);
        self.end = self.end.max(to);
        self.time += (HostTime(to) - HostTime(from)).max(Nanos::ZERO);
        (from < to).then_some((from, to))
    }

    fn add_watched(&mut self, switches: &Switches, from: i64, to: i64) {
        if !switches.covers(from, to) {
            return;
        }
        if let Some((from, to)) = self.count(from, to) {
            let off = switches.off_between(from, to).map(Nanos::from);
            self.off[0] += off[0];
            self.off[1] += off[1];
        }
    }

    fn add_counted(&mut self, series: &Series, from: i64, to: i64) {
        let points = &series.points;
        let first = points.partition_point(|(at, _)| *at <= from);
        let last = points.partition_point(|(at, _)| *at < to);
        if first == 0 || last == points.len() {
            return;
        }
        let Some((from, to)) = self.count(from, to) else {
            return;
        };
        for pair in first..=last {
            let (a, b) = (points[pair - 1], points[pair]);
            if self.taken.0 != pair {
                self.taken = (pair, 0);
            }
            let ready = i64::try_from(b.1.saturating_sub(a.1)).unwrap_or(i64::MAX);
            let inside = (to.min(b.0) - from.max(a.0)).max(0);
            let part = inside.min(ready.saturating_sub(self.taken.1)).max(0);
            self.taken.1 += part;
            self.off[0] += Nanos::from(part);
        }
    }
}

impl Gatherer {
    /// Adds the calls of the next process.
    pub fn add(&mut self, process: &Process, calls: ProcessCalls) {
        let rows = calls.threads.into_iter().filter(|thread| thread.calls > 0);
        self.rows.extend(rows.map(|thread| {
            let is_watched = matches!(thread.watched, Watched::Switches(..));
            let share = |of: Nanos| (thread.time > Nanos::ZERO).then(|| of / thread.time);
            let [preempted, asleep] = thread.off;
            JitterRow {
                process: ProcessId::of(process),
                tid: thread.tid,
                source: if is_watched { "switches" } else { "schedstat" },
                calls: thread.calls,
                long: thread.long,
                long_us: thread.time.us(),
                longest_us: thread.longest.us(),
                preempted: share(preempted),
                asleep: share(asleep).filter(|_| is_watched),
                running: share((thread.time - preempted - asleep).max(Nanos::ZERO))
                    .filter(|_| is_watched),
            }
        }));
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        self.rows.extend(later.rows);
    }

    /// The rows, by rank, those with most time in long calls first.
    pub fn finish(mut self) -> Vec<JitterRow> {
        self.rows.sort_by(|a, b| {
            (a.process.rank.is_none(), a.process.rank)
                .cmp(&(b.process.rank.is_none(), b.process.rank))
                .then(b.long_us.total_cmp(&a.long_us))
                .then((a.process.pid, a.tid).cmp(&(b.process.pid, b.tid)))
        });
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::nodes::Off;
    use tables::{Call, Node, Shape};

    const US: i64 = 1_000;

    /// A process with a call in each of these spans (µs) on thread 9, after a first call that does not count.
    fn capture(calls: &[(i64, i64)], node: Node) -> Capture {
        let first = (0, 40);
        let call = |(ticket, (from, to)): (usize, &(i64, i64))| Call {
            ticket: ticket as u64,
            api_ns: 1 + from * US,
            return_ns: 1 + to * US,
            sealed: true,
            ..Call::default()
        };
        Capture {
            nodes: vec![node],
            processes: vec![Process {
                pid: 7,
                rank: Some(3),
                host: "node".to_owned(),
                shapes: vec![Shape {
                    uid: 1,
                    thread: Some(9),
                    ..Shape::default()
                }],
                calls: [first].iter().chain(calls).enumerate().map(call).collect(),
                ..Process::default()
            }],
            ..Capture::default()
        }
    }

    fn switches(spans: &[(i64, i64)], off: &[(i64, i64, bool)]) -> Node {
        let off = off.iter().map(|(from, to, preempted)| Off {
            from: 1 + (from * US) as u64,
            to: 1 + (to * US) as u64,
            preempted: *preempted,
        });
        Node {
            host: "node".to_owned(),
            switches: vec![Switches {
                of: "7/9/python".to_owned(),
                spans: spans
                    .iter()
                    .map(|(from, to)| (1 + from * US, 1 + to * US))
                    .collect(),
                off: off.collect(),
            }],
            ..Node::default()
        }
    }

    fn rows(capture: &Capture) -> Vec<JitterRow> {
        crate::report(capture).nodes.jitter
    }

    #[test]
    fn the_time_of_long_calls_is_what_the_thread_did() {
        let calls = [(100, 110), (200, 1_200), (2_000, 2_500), (9_000, 9_900)];
        let off = [(120, 190, true), (250, 1_150, true), (2_100, 2_200, false)];
        let rows = rows(&capture(&calls, switches(&[(50, 5_000)], &off)));
        let row = &rows[0];
        assert_eq!(
            (row.process.rank, row.tid, row.source),
            (Some(3), 9, "switches")
        );
        // The last call was not watched, and what lies between calls does not count.
        assert_eq!(
            (row.calls, row.long, row.long_us, row.longest_us),
            (3, 2, 1_500.0, 1_000.0)
        );
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-9);
        assert!(
            near(row.preempted, 0.6) && near(row.running, 1.0 - 0.6 - 1.0 / 15.0),
            "{row:?}"
        );
        assert!(near(row.asleep, 1.0 / 15.0), "{row:?}");
    }

    #[test]
    fn quiet_calls_have_no_time_off_a_cpu() {
        let calls: Vec<(i64, i64)> = (1..100).map(|n| (100 * n, 100 * n + 12)).collect();
        // The thread sleeps between its calls.
        let off: Vec<_> = (1..100)
            .map(|n| (100 * n + 15, 100 * n + 99, false))
            .collect();
        let rows = rows(&capture(&calls, switches(&[(50, 20_000)], &off)));
        assert_eq!((rows[0].calls, rows[0].long, rows[0].long_us), (99, 0, 0.0));
        assert_eq!((rows[0].preempted, rows[0].asleep), (None, None));
    }

    #[test]
    fn calls_in_a_group_share_their_time() {
        let calls = [(100, 300), (150, 300)];
        let rows = rows(&capture(
            &calls,
            switches(&[(50, 5_000)], &[(200, 300, true)]),
        ));
        assert_eq!(
            (rows[0].long, rows[0].long_us, rows[0].preempted),
            (2, 200.0, Some(0.5))
        );
    }

    #[test]
    fn a_counter_bounds_the_time_between_two_ticks() {
        let point = |(at, ready): (i64, i64)| (1 + at * US, (ready * US) as u64);
        let node = Node {
            host: "node".to_owned(),
            series: vec![Series {
                name: THREAD_READY.to_owned(),
                of: "7/9/python".to_owned(),
                points: [(50, 7), (1_050, 107), (2_050, 1_007)].map(point).to_vec(),
            }],
            ..Node::default()
        };
        // The two in the first tick have 100 us between them; the third has all of its time, and the last one
        // is not over at the last tick.
        let calls = [(100, 180), (200, 280), (1_100, 1_500), (2_000, 2_100)];
        let rows = rows(&capture(&calls, node));
        let row = &rows[0];
        assert_eq!((row.source, row.long, row.long_us), ("schedstat", 3, 560.0));
        assert_eq!((row.preempted, row.asleep), (Some(500.0 / 560.0), None));
    }
}
