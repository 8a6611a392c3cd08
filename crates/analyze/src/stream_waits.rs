//! Exposed communication, from stream waits: how long streams stood still for calls.
//!
//! A program makes its compute stream wait for a call. Of calls that CUDA events time, the recorder knows
//! the moment from which the first such stream had nothing else to do. From that moment to the call's end
//! the stream stood still: that time of the call is *exposed*. A [`Gatherer`] adds it up by operation and
//! by rank; what was timed stands for all calls of its kind.
//!
//! It is a lower end. A call that no other stream waits for may run on the compute stream itself. Then it
//! stops that stream for as long as it runs. `unwaited_us` is the GPU time of these calls. The upper end is
//! the sum of exposed time and this.
//!
//! A stream may have waited for long before the call began: behind another call, or because the launch was
//! late. That counts for the stream of a GPU that waits most often. Others may have been idle anyway, as one
//! that waits once a step for the norm of gradients. For these, only the time of the call counts.
//!
//! Rule: a call counts once, by the first stream that waited. Calls of one launch have one wait, which is the
//! first one's.

use crate::executions::{Execution, Walk};
use crate::matching::is_p2p;
use crate::sampled::Stretches;
use crate::streams::{Share, Streams};
use crate::subject::ProcessId;
use crate::time::{HostTime, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tables::calls::Waited;
use tables::{Capture, GpuTimes, Name, Process, Untimed};

/// Exposed communication, from stream waits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamWaits {
    /// By restart, rank and device.
    pub ranks: Vec<RankWaits>,
    /// By operation, most exposed first.
    pub operations: Vec<OperationWaits>,
}

/// What waits say of some calls. Warm-ups are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Exposed {
    /// Calls without warm-ups.
    pub calls: u64,
    /// Of calls: those with a GPU time of which it is known whether a stream waited, and since when.
    pub known: u64,
    /// Of these: a stream waited.
    pub waited: u64,
    /// Calls that a stream waited for, but its wait was not timed.
    pub untimed: u64,
    /// How long streams stood still, µs: of all calls, by those that are known.
    pub sum_us: f64,
    /// 95 % interval of `sum_us`; null if too few calls are known.
    pub interval_us: Option<(f64, f64)>,
    /// Of `sum_us`: before the call itself began.
    pub before_us: f64,
    /// GPU time of calls that no other stream waited for, µs: of all calls, by those that are known.
    pub unwaited_us: f64,
}

/// One GPU of a process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RankStreamWaits")]
pub struct RankWaits {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// Its calls.
    #[serde(flatten)]
    pub exposed: Exposed,
    /// Calls in CUDA graphs besides: waits tell nothing of them.
    pub in_graphs: u64,
    /// From its first call behind warm-up to the end of its last, µs.
    pub active_us: f64,
    /// Part of the time in which streams stood still for calls: `sum_us` by `active_us`.
    pub share: Share,
    /// That share with `unwaited_us`, too: the most that its communication can have stopped.
    pub at_most: f64,
    /// Exposed communication by kernel windows of the same GPU; null without any.
    pub by_windows: Option<Share>,
    /// Share less the share `by_windows`.
    pub difference: Option<f64>,
}

/// The calls of an operation on all ranks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "OperationStreamWaits")]
pub struct OperationWaits {
    /// Communicator id; null when its definition is lost.
    pub communicator: Option<String>,
    /// Function, as NCCL names it.
    pub function: Option<String>,
    /// Datatype, as NCCL names it.
    pub datatype: Option<String>,
    /// Bytes by the convention of nccl-tests.
    pub bytes: Option<u64>,
    /// Its calls.
    #[serde(flatten)]
    pub exposed: Exposed,
}

impl OperationWaits {
    /// Whether it goes from one rank to one other.
    pub fn is_p2p(&self) -> bool {
        self.function.as_deref().is_some_and(is_p2p)
    }
}

impl StreamWaits {
    /// Whether it says something of each rank: streams were seen to wait, and not for a few calls beside
    /// many in CUDA graphs.
    pub fn tells(&self) -> bool {
        let enough = |r: &RankWaits| r.exposed.waited > 0 && 10 * r.in_graphs <= r.exposed.calls;
        !self.ranks.is_empty() && self.ranks.iter().all(enough)
    }

    /// Least and most of the time that communication stopped, by rank.
    pub fn shares(&self) -> impl Iterator<Item = [f64; 2]> + '_ {
        self.ranks.iter().map(|r| [r.share.share, r.at_most])
    }
}

/// What is known of the wait for an execution.
enum Wait {
    /// A stream waited, but not with a known time.
    Untimed,
    Known {
        /// A stream waited.
        waited: bool,
        /// For how long a stream stood still, ns.
        exposed: u64,
        /// Of that: before the call began.
        before: Nanos,
        /// GPU time, if nobody waited.
        unwaited: Nanos,
    },
}

/// Waits under construction.
#[derive(Clone, Default)]
struct Sums {
    calls: u64,
    known: u64,
    waited: u64,
    untimed: u64,
    exposed: Stretches,
    exposed_in_all: Nanos,
    before: Nanos,
    unwaited: Nanos,
}

impl Sums {
    fn add(&mut self, wait: &Option<Wait>) {
        self.calls += 1;
        match wait {
            None => {}
            Some(Wait::Untimed) => self.untimed += 1,
            Some(Wait::Known {
                waited,
                exposed,
                before,
                unwaited,
            }) => {
                self.known += 1;
                self.waited += u64::from(*waited);
                self.exposed.push(*exposed);
                self.exposed_in_all += Nanos::from(*exposed);
                self.before += *before;
                self.unwaited += *unwaited;
            }
        }
    }

    fn merge(&mut self, other: Sums) {
        self.calls += other.calls;
        self.known += other.known;
        self.waited += other.waited;
        self.untimed += other.untimed;
        self.exposed.merge(other.exposed);
        self.exposed_in_all += other.exposed_in_all;
        self.before += other.before;
        self.unwaited += other.unwaited;
    }

    fn finish(&self) -> Exposed {
        let more = match self.known {
            0 => 0.0,
            known => self.calls as f64 / known as f64,
        };
        let us = |timed: Nanos| (timed * more).us();
        let sum_us = us(self.exposed_in_all);
        let interval_us = if self.known == self.calls {
            // All of them are known: nothing is estimated.
            Some((sum_us, sum_us))
        } else {
            let estimate = self.exposed.estimate(self.calls);
            estimate.map(|all| (all.sum_low_us, all.sum_high_us))
        };
        Exposed {
            calls: self.calls,
            known: self.known,
            waited: self.waited,
            untimed: self.untimed,
            sum_us,
            interval_us,
            before_us: us(self.before),
            unwaited_us: us(self.unwaited),
        }
    }
}

/// Several kinds of calls together. Slow moments are slow for all, so the intervals' widths add up.
fn together(kinds: impl Iterator<Item = Exposed>) -> Exposed {
    let nothing = Sums::default().finish();
    kinds.fold(nothing, |a, b| {
        let of = |known: u64, interval: Option<(f64, f64)>| match known {
            // A kind of which nothing is known tells nothing of its width.
            0 => Some((0.0, 0.0)),
            _ => interval,
        };
        let intervals = of(a.known, a.interval_us).zip(of(b.known, b.interval_us));
        Exposed {
            calls: a.calls + b.calls,
            known: a.known + b.known,
            waited: a.waited + b.waited,
            untimed: a.untimed + b.untimed,
            sum_us: a.sum_us + b.sum_us,
            interval_us: intervals.map(|(a, b)| (a.0 + b.0, a.1 + b.1)),
            before_us: a.before_us + b.before_us,
            unwaited_us: a.unwaited_us + b.unwaited_us,
        }
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    communicator: Option<u32>,
    function: Name,
    datatype: Name,
    bytes: Option<u64>,
}

/// What is gathered from processes.
#[derive(Default)]
pub struct Gatherer {
    operations: HashMap<Key, Sums>,
    ranks: Vec<RankWaits>,
}

/// One process under way.
pub struct ProcessWaits {
    /// By place: index into `kinds`. Timed calls and those left out of the sample have different places.
    kind_of: Vec<usize>,
    kinds: Vec<WaitedOperation>,
    /// The newest launch of several calls: it has one wait.
    launch: GpuTimes,
    /// How often which stream of which GPU waited so far. There are few.
    waiting: Vec<(Option<u32>, u32, u64)>,
}

/// The calls of an operation that a process makes on one GPU.
struct WaitedOperation {
    key: Key,
    device: Option<u32>,
    sums: Sums,
    /// Calls in CUDA graphs.
    in_graphs: u64,
    /// From when to when it was called.
    active: Option<(HostTime, HostTime)>,
}

impl ProcessWaits {
    /// Prepares for a process.
    pub fn new(capture: &Capture, process: &Process, walk: &Walk) -> ProcessWaits {
        let mut known: HashMap<(Key, Option<u32>), usize> = HashMap::new();
        let mut kinds = Vec::new();
        let kind = |place: &crate::executions::Place| {
            let local = process.communicator(place.shape.uid);
            let device = local.and_then(|local| local.device);
            let key = Key {
                communicator: place.shape.communicator,
                function: place.function,
                datatype: place.shape.datatype,
                bytes: capture.bytes_as(place.shape, place.function),
            };
            *known.entry((key, device)).or_insert_with(|| {
                kinds.push(WaitedOperation {
                    key,
                    device,
                    sums: Sums::default(),
                    in_graphs: 0,
                    active: None,
                });
                kinds.len() - 1
            })
        };
        ProcessWaits {
            kind_of: walk.places().iter().map(kind).collect(),
            kinds,
            launch: GpuTimes::None,
            waiting: Vec::new(),
        }
    }

    /// Whether no stream of the GPU waited more often so far than this one, which waits once more.
    fn waits_most(&mut self, device: Option<u32>, stream: u32) -> bool {
        let is_it = |of: &&mut (Option<u32>, u32, u64)| (of.0, of.1) == (device, stream);
        let times = match self.waiting.iter_mut().find(is_it) {
            Some(of) => {
                of.2 += 1;
                of.2
            }
            None => {
                self.waiting.push((device, stream, 1));
                1
            }
        };
        let of_device = self.waiting.iter().filter(|of| of.0 == device);
        of_device.map(|of| of.2).max() == Some(times)
    }

    /// Adds an execution; returns for how long a stream stood still for it, ns, if that is known.
    #[inline]
    pub fn add(&mut self, execution: &Execution) -> Option<u64> {
        if execution.captured || execution.warmup {
            return None;
        }
        let wait = self.wait(execution);
        let exposed = match &wait {
            Some(Wait::Known { exposed, .. }) => Some(*exposed),
            _ => None,
        };
        let kind = &mut self.kinds[self.kind_of[execution.place]];
        kind.sums.add(&wait);
        if let Some((begin, mut end)) = execution.api {
            if let Some((_, stop)) = execution.kernel.on_host() {
                end = end.max(stop);
            }
            let (begin, end) = (HostTime(begin), HostTime(end));
            let (from, to) = kind.active.unwrap_or((begin, end));
            kind.active = Some((from.min(begin), to.max(end)));
        }
        exposed
    }

    /// Counts calls of a place that have no rows.
    pub fn add_counted(&mut self, place: usize, calls: u64) {
        let kind = &mut self.kinds[self.kind_of[place]];
        kind.sums.calls = kind.sums.calls.saturating_add(calls);
    }

    /// Counts calls of a place that launches of CUDA graphs executed.
    pub fn add_in_graphs(&mut self, place: usize, calls: u64) {
        let kind = &mut self.kinds[self.kind_of[place]];
        kind.in_graphs = kind.in_graphs.saturating_add(calls);
    }

    fn wait(&mut self, execution: &Execution) -> Option<Wait> {
        let call = execution.last;
        let waited = call.waited();
        if waited == Some(Waited::Untimed) {
            return Some(Wait::Untimed);
        }
        // Stamps tell of no waits.
        let kernel = Some(execution.kernel).filter(|_| execution.shape.has_events())?;
        let length = kernel.length()?;
        let again = execution.gpu == Err(Untimed::Fused) && self.launch == kernel;
        self.launch = kernel;
        let mut exposed = call.exposed_ns().filter(|_| !again);
        if let (Some(ns), Some(stream)) = (&mut exposed, call.waiting_stream()) {
            let device = self.kinds[self.kind_of[execution.place]].device;
            if !self.waits_most(device, stream) {
                *ns = length.min(*ns);
            }
        }
        let ns = exposed.unwrap_or(0);
        Some(Wait::Known {
            waited: exposed.is_some(),
            exposed: ns,
            before: Nanos::from(ns.saturating_sub(length)),
            unwaited: if waited.is_none() && !again {
                Nanos::from(length)
            } else {
                Nanos::ZERO
            },
        })
    }
}

impl Gatherer {
    /// Takes in a process that was walked through.
    pub fn add(&mut self, process: &Process, plan: ProcessWaits) {
        let mut devices: BTreeMap<Option<u32>, Vec<&WaitedOperation>> = BTreeMap::new();
        for kind in &plan.kinds {
            devices.entry(kind.device).or_default().push(kind);
        }
        for (device, kinds) in devices {
            let exposed = together(kinds.iter().map(|kind| kind.sums.finish()));
            let active = kinds.iter().filter_map(|kind| kind.active);
            let active = active.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            let active = active.map_or(Nanos::ZERO, |(from, to)| to - from);
            let active_us = active.us();
            if exposed.known == 0 || active_us <= 0.0 {
                continue;
            }
            let share = |us: f64| (us / active_us).min(1.0);
            self.ranks.push(RankWaits {
                process: ProcessId::of(process),
                device,
                in_graphs: kinds.iter().map(|kind| kind.in_graphs).sum(),
                active_us,
                share: Share {
                    share: share(exposed.sum_us),
                    interval: exposed
                        .interval_us
                        .map(|(low, high)| (share(low), share(high))),
                }
                .of_time(),
                at_most: share(exposed.sum_us + exposed.unwaited_us),
                by_windows: None,
                difference: None,
                exposed,
            });
        }
        for kind in plan.kinds {
            if kind.sums.calls > 0 {
                let sums = self.operations.entry(kind.key).or_default();
                sums.merge(kind.sums);
            }
        }
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        for (key, sums) in later.operations {
            self.operations.entry(key).or_default().merge(sums);
        }
        self.ranks.extend(later.ranks);
    }

    /// What waits say; `None` if none were seen.
    pub fn finish(mut self, capture: &Capture, windows: Option<&Streams>) -> Option<StreamWaits> {
        let seen = |e: &Exposed| e.waited + e.untimed > 0;
        if !self.ranks.iter().any(|rank| seen(&rank.exposed)) {
            return None;
        }
        for rank in &mut self.ranks {
            let of = windows.into_iter().flat_map(|windows| &windows.ranks);
            let same = of
                .filter(|r| {
                    r.process.pid == rank.process.pid && r.process.host == rank.process.host
                })
                .find(|r| rank.device.is_none_or(|device| device == r.device));
            rank.by_windows = same.map(|r| r.exposed);
            rank.difference = same.map(|r| rank.share.share - r.exposed.share);
        }
        let name = |name: Name| capture.names.get(name).map(str::to_owned);
        let mut operations: Vec<(Key, OperationWaits)> = self
            .operations
            .iter()
            .map(|(key, sums)| {
                let communicator = key
                    .communicator
                    .and_then(|c| capture.communicators.get(c as usize));
                let operation = OperationWaits {
                    communicator: communicator.map(|c| c.id.clone()),
                    function: name(key.function),
                    datatype: name(key.datatype),
                    bytes: key.bytes,
                    exposed: sums.finish(),
                };
                (*key, operation)
            })
            .filter(|(_, operation)| operation.exposed.known > 0)
            .collect();
        operations.sort_by(|(a_key, a), (b_key, b)| {
            let by_time = b.exposed.sum_us.total_cmp(&a.exposed.sum_us);
            by_time.then(a_key.cmp(b_key))
        });
        Some(StreamWaits {
            ranks: self.ranks,
            operations: operations.into_iter().map(|(_, o)| o).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Random;
    use capture::live::{part, verdict, waiter};
    use std::iter::repeat_n;
    use tables::{Call, Shape};

    const MS: i64 = 1_000_000;

    /// Calls of a rank, one every 20 ms: for how long a stream waited, or none; and whether it was timed.
    fn process(capture: &mut Capture, rank: u32, calls: &[(Option<i64>, bool)]) -> Process {
        let mut shape = |parts| Shape {
            uid: 1,
            function: capture.names.intern("AllReduce"),
            count: 1024,
            parts,
            ..Shape::default()
        };
        let shapes = vec![shape(part::EVENTS), shape(part::UNSAMPLED)];
        let call = |(i, (waited, timed)): (usize, &(Option<i64>, bool))| {
            let at = 1_000_000_000 + i as i64 * 20 * MS;
            let times = GpuTimes::OnHost {
                start: at + MS,
                stop: at + 5 * MS,
                error: 1_000,
            };
            Call {
                ticket: i as u64,
                shape: u32::from(!*timed),
                api_ns: at,
                return_ns: at + 1_000,
                launch_start_ns: at + 100,
                launch_end_ns: at + 900,
                gpu: if *timed { times } else { GpuTimes::None },
                waiter: waited.map_or(0, |_| waiter::word(7, waiter::TIMED)),
                waited: waited.map_or(0, waiter::units),
                sealed: true,
                ..Call::default()
            }
        };
        Process {
            rank: Some(rank),
            host: "n1".into(),
            pid: 100 + rank,
            shapes,
            calls: calls.iter().enumerate().map(call).collect(),
            facts: [("timing".to_owned(), "auto".to_owned())].into(),
            ..Process::default()
        }
    }

    fn waits(processes: &[&[(Option<i64>, bool)]]) -> Option<StreamWaits> {
        let mut capture = Capture::default();
        for (rank, calls) in processes.iter().enumerate() {
            let process = process(&mut capture, rank as u32, calls);
            capture.processes.push(process);
        }
        crate::report(&capture).stream_waits
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-3 * b.abs().max(1.0)
    }

    #[test]
    fn a_stream_that_waits_is_exposed_and_one_that_computes_is_not() {
        // The first call is a warm-up.
        let beside: Vec<_> = repeat_n((Some(-6 * MS), true), 101).collect();
        let after: Vec<_> = repeat_n((Some(4 * MS), true), 101).collect();
        let waits = waits(&[&beside, &after]).expect("streams waited");
        let [beside, after] = &waits.ranks[..] else {
            panic!("{waits:?}");
        };
        assert!(waits.tells());
        assert_eq!(
            (beside.exposed.sum_us, beside.exposed.interval_us),
            (0.0, Some((0.0, 0.0)))
        );
        let exposed = after.exposed;
        assert_eq!(
            (exposed.calls, exposed.known, exposed.waited),
            (100, 100, 100)
        );
        assert!(close(exposed.sum_us, 400_000.0) && close(after.active_us, 1_985_000.0));
        assert!(close(after.share.share, 0.2015) && after.share.share == after.at_most);
        assert_eq!((exposed.before_us, exposed.unwaited_us), (0.0, 0.0));
        // Both ranks together.
        assert_eq!(waits.operations.len(), 1);
        let both = &waits.operations[0];
        assert_eq!(both.function.as_deref(), Some("AllReduce"));
        assert!(both.exposed.calls == 200 && close(both.exposed.sum_us, 400_000.0));
    }

    #[test]
    fn a_stream_may_have_waited_before_the_call_began() {
        // The call takes 4 ms.
        let calls: Vec<_> = repeat_n((Some(7 * MS), true), 11).collect();
        let waits = waits(&[&calls]).expect("streams waited");
        let exposed = waits.ranks[0].exposed;
        assert!(close(exposed.sum_us, 70_000.0) && close(exposed.before_us, 30_000.0));
    }

    #[test]
    fn a_side_stream_that_was_idle_is_not_exposed_before_the_call_began() {
        // Every tenth call, of 4 ms, is waited for by a stream that had nothing to do for 30 ms.
        let of = |call| (Some(if call % 10 == 9 { 30 * MS } else { MS }), true);
        let calls: Vec<_> = (0..101).map(of).collect();
        let mut capture = Capture::default();
        let mut process = process(&mut capture, 0, &calls);
        for call in process.calls.iter_mut().skip(9).step_by(10) {
            call.waiter = waiter::word(8, waiter::TIMED);
        }
        capture.processes.push(process);
        let waits = crate::report(&capture).stream_waits;
        let exposed = waits.expect("streams waited").ranks[0].exposed;
        assert!(
            close(exposed.sum_us, 1000.0 * (90.0 + 10.0 * 4.0)),
            "{exposed:?}"
        );
        assert_eq!(exposed.before_us, 0.0);
    }

    #[test]
    fn what_was_timed_stands_for_all_calls() {
        // One in four is timed; each is exposed for up to 8 ms.
        let mut held = 0;
        for seed in 1..=100 {
            let mut random = Random(seed);
            let all: Vec<_> = (0..801).map(|_| (8e6 * random.uniform()) as i64).collect();
            let truth = Nanos::from(all[1..].iter().sum::<i64>()).us();
            let calls = all.into_iter().enumerate().map(|(i, ns)| {
                let timed = i == 0 || random.uniform() < 0.25;
                (timed.then_some(ns), timed)
            });
            let waits = waits(&[&calls.collect::<Vec<_>>()]).expect("streams waited");
            let rank = &waits.ranks[0];
            assert!(rank.exposed.calls == 800 && rank.exposed.known < 300);
            let (low, high) = rank.exposed.interval_us.expect("enough");
            assert!(low < rank.exposed.sum_us && rank.exposed.sum_us < high);
            let (low_share, _) = rank.share.interval.expect("the same");
            assert!(close(low_share * rank.active_us, low));
            held += u32::from((low..=high).contains(&truth));
        }
        assert!(held >= 90, "{held} of 100");
    }

    #[test]
    fn calls_that_nobody_waits_for_are_at_most_exposed() {
        let calls = |waited| -> Vec<_> {
            let each = |i: i64| (waited && i % 2 == 0).then_some(2 * MS);
            (0..101).map(|i| (each(i), true)).collect()
        };
        let waits_of = waits(&[&calls(true)]).expect("streams waited");
        let rank = &waits_of.ranks[0];
        assert_eq!((rank.exposed.known, rank.exposed.waited), (100, 50));
        assert!(close(rank.exposed.sum_us, 100_000.0));
        assert!(close(rank.exposed.unwaited_us, 200_000.0));
        assert!(close(rank.at_most, 3.0 * rank.share.share));
        // Without a wait, nothing is said; and not for all ranks if one has none.
        assert!(waits(&[&calls(false)]).is_none());
        let some = waits(&[&calls(true), &calls(false)]).expect("streams waited");
        assert!(!some.tells());
    }

    #[test]
    fn waits_without_a_time_are_left_out_of_the_sample() {
        let mut capture = Capture::default();
        let calls: Vec<_> = repeat_n((Some(4 * MS), true), 101).collect();
        let mut process = process(&mut capture, 0, &calls);
        for call in process.calls.iter_mut().skip(1).step_by(2) {
            call.waiter = waiter::word(7, waiter::UNTIMED);
        }
        capture.processes.push(process);
        let waits = crate::report(&capture)
            .stream_waits
            .expect("streams waited");
        let exposed = waits.ranks[0].exposed;
        assert_eq!(
            (exposed.calls, exposed.known, exposed.untimed),
            (100, 50, 50)
        );
        assert!(close(exposed.sum_us, 400_000.0));
    }

    #[test]
    fn calls_of_one_launch_have_one_wait() {
        let mut capture = Capture::default();
        let calls: Vec<_> = repeat_n((Some(4 * MS), true), 201).collect();
        let mut process = process(&mut capture, 0, &calls);
        for pair in process.calls[1..].chunks_mut(2) {
            pair[1].gpu = pair[0].gpu;
            pair.iter_mut().for_each(|c| c.verdict = verdict::FUSED);
        }
        capture.processes.push(process);
        let waits = crate::report(&capture)
            .stream_waits
            .expect("streams waited");
        let exposed = waits.ranks[0].exposed;
        assert_eq!((exposed.known, exposed.waited), (200, 100));
        assert!(close(exposed.sum_us, 400_000.0) && exposed.unwaited_us == 0.0);
    }

    #[test]
    fn calls_in_graphs_are_not_spoken_for() {
        let mut capture = Capture::default();
        let calls: Vec<_> = repeat_n((Some(4 * MS), true), 101).collect();
        let process = process(&mut capture, 0, &calls);
        let plan = |in_graphs| {
            let walk = Walk::new(&process);
            let mut plan = ProcessWaits::new(&Capture::default(), &process, &walk);
            let mut steps = crate::executions::Steps::default();
            walk.for_each(&mut steps, |execution| {
                plan.add(execution);
            });
            plan.add_in_graphs(0, in_graphs);
            let mut gatherer = Gatherer::default();
            gatherer.add(&process, plan);
            gatherer.finish(&capture, None).expect("streams waited")
        };
        assert!(plan(10).tells() && !plan(1000).tells());
        assert_eq!(
            plan(1000).ranks[0].exposed.sum_us,
            plan(0).ranks[0].exposed.sum_us
        );
    }
}
