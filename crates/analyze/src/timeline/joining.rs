//! Joins the bins of all GPUs to buckets of one width, and makes curves of them.

use super::bins::{split, Bins};
use super::curves::Curves;
use super::gathering::{Lane, Sum, SUMS};
use super::{Active, Band, Buckets, Curve, InWindows, LateRank, StepMarks, Timeline};
use crate::arrivals::over_time::{GpuKey, OverTime};
use crate::arrivals::Arrivals;
use crate::clocks::ClockLine;
use crate::operations::Operation;
use crate::steps::Steps;
use crate::stream_waits::StreamWaits;
use crate::streams::Exposure;
use crate::streams::NoWindows;
use crate::time::{HostTime, Moment, Nanos};
use std::collections::HashMap;

/// Begins of so many steps are shown at most.
const MOST_STEP_MARKS: usize = 400;

/// Where buckets lie.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) begin: Moment,
    /// The width of a bucket: a power of two, in ns.
    pub(super) shift: u32,
    pub(super) n: usize,
}

impl Grid {
    fn bucket(&self, at: Moment) -> usize {
        let last = self.n - 1;
        let bucket = at.0.saturating_sub(self.begin.0) >> self.shift;
        usize::try_from(bucket.max(0)).map_or(last, |bucket| bucket.min(last))
    }

    /// The width of a bucket.
    fn width(&self) -> Nanos {
        Nanos::from(1u64 << self.shift)
    }

    /// Adds an amount that is spread over a time.
    fn spread(&self, into: &mut [u64], begin: Moment, end: Moment, amount: u64) {
        let from = begin.0.saturating_sub(self.begin.0);
        let to = end.0.saturating_sub(self.begin.0);
        let last = self.n as i64 - 1;
        split(from, to, self.shift, amount, |bucket, part| {
            let sum = &mut into[bucket.clamp(0, last) as usize];
            *sum = sum.saturating_add(part);
        });
    }

    fn us(&self, at: Moment) -> f64 {
        (at - self.begin).us()
    }
}

/// What operations say, by lane and bucket, ns.
pub(super) struct Waiting {
    wait: Vec<Vec<u64>>,
    transfer: Vec<Vec<u64>>,
    /// When all others had arrived, until this one did.
    held_up: Vec<Vec<u64>>,
}

/// The buckets of a run, while they are filled.
pub(crate) struct Over {
    pub(super) grid: Grid,
    pub(super) lanes: Vec<Lane>,
    pub(super) lines: Vec<ClockLine>,
    pub(super) waiting: Option<Waiting>,
    /// By bucket, ns.
    pub(super) durations: Option<Vec<Vec<u64>>>,
}

impl Over {
    /// Takes in kernels and operations.
    pub(crate) fn look(&mut self, of: &OverTime) {
        let mut known: HashMap<GpuKey, usize> = HashMap::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            known.entry(gpu(lane)).or_insert(index);
        }
        let lanes: Option<Vec<usize>> = of.gpus().map(|gpu| known.get(&gpu).copied()).collect();
        let Some(lanes) = lanes else {
            return;
        };
        let on_one_clock = |lane: usize, ns: u64| {
            let at = HostTime(self.lanes[lane].on_host(ns));
            self.lines[lane].on_reference(at)
        };
        let mut durations = vec![Vec::new(); self.grid.n];
        of.timed(|part| {
            let at = on_one_clock(lanes[part.gpu], part.start);
            durations[self.grid.bucket(at)].push(part.ns);
        });
        if durations.iter().any(|of| !of.is_empty()) {
            self.durations = Some(durations);
        }
        if of.is_empty() {
            return;
        }
        let empty = || vec![vec![0u64; self.grid.n]; self.lanes.len()];
        let mut waiting = Waiting {
            wait: empty(),
            transfer: empty(),
            held_up: empty(),
        };
        of.operations(|parts| {
            let [.., before, last] = parts else {
                return;
            };
            for part in parts {
                let lane = lanes[part.gpu];
                let begin = on_one_clock(lane, part.start);
                let waited = part.ns - last.ns;
                let arrived = begin + Nanos::from(waited);
                let end = arrived + Nanos::from(last.ns);
                self.grid
                    .spread(&mut waiting.wait[lane], begin, arrived, waited);
                self.grid
                    .spread(&mut waiting.transfer[lane], arrived, end, last.ns);
            }
            let lane = lanes[last.gpu];
            let (arrived, alone) = (on_one_clock(lane, last.start), before.ns - last.ns);
            let from = arrived - Nanos::from(alone);
            self.grid
                .spread(&mut waiting.held_up[lane], from, arrived, alone);
        });
        self.waiting = Some(waiting);
    }

    /// The timeline; `operations`, `steps` and the others are those of the report.
    pub(crate) fn finish(
        self,
        operations: &[Operation],
        arrivals: Option<&Arrivals>,
        waits: Option<&StreamWaits>,
        steps: Option<&Steps>,
    ) -> Timeline {
        let curve = |of: Sum, unit: Unit| {
            let mut curve = Under::new(self.grid, unit);
            for lane in 0..self.lanes.len() {
                let by_bucket = self.by_bucket(lane, |bins, each| bins.each(of as usize, each));
                let in_all = match of {
                    Sum::Nccl => self.lanes[lane].nccl_in_all.map(|ns| ns as f64),
                    Sum::Exposed => exposed_in_all(&self.lanes[lane], waits),
                    _ => None,
                };
                let Some(in_all) = in_all else {
                    curve.add(by_bucket.iter().map(|sum| *sum as f64));
                    continue;
                };
                let untimed =
                    self.by_bucket(lane, |bins, each| bins.each(Sum::Untimed as usize, each));
                let width = self.grid.width().0;
                curve.add(with_untimed(&by_bucket, in_all, &untimed, width).into_iter());
            }
            curve.finish(self.lanes.len())
        };
        let of_waiting = |of: fn(&Waiting) -> &Vec<Vec<u64>>| {
            self.waiting.as_ref().map(|waiting| {
                let mut curve = Under::new(self.grid, Unit::Ns);
                for by_bucket in of(waiting) {
                    curve.add(by_bucket.iter().map(|ns| *ns as f64));
                }
                curve.finish(self.lanes.len())
            })
        };
        let gpu_times = self.lanes.iter().any(|lane| lane.has_gpu_times);
        let has_bytes = !self.lanes.iter().any(|lane| lane.lacks_bytes);
        let has_nccl = self.lanes.iter().any(|lane| lane.nccl_in_all.is_some());
        let network = self.lanes.iter().any(|lane| lane.has_steps);
        let network = |of, unit| network.then(|| curve(of, unit));
        Timeline {
            begin_ns: self.grid.begin.0,
            bucket_us: self.grid.width().us(),
            buckets: self.grid.n as u64,
            ranks: self.lanes.len() as u64,
            without_time: self.lanes.iter().map(|lane| lane.without_time).sum(),
            calls: curve(Sum::Calls, Unit::Number),
            collectives: curve(Sum::Collectives, Unit::Number),
            sends: curve(Sum::Sends, Unit::Number),
            recvs: curve(Sum::Recvs, Unit::Number),
            untimed: gpu_times.then(|| curve(Sum::Untimed, Unit::Number)),
            bytes: has_bytes.then(|| curve(Sum::Bytes, Unit::Number)),
            bytes_sent: network(Sum::Sent, Unit::Number),
            bytes_received: network(Sum::Received, Unit::Number),
            nccl: has_nccl.then(|| curve(Sum::Nccl, Unit::Ns)),
            waiting: of_waiting(|waiting| &waiting.wait),
            transfer: of_waiting(|waiting| &waiting.transfer),
            exposed_in_windows: InWindows::default(),
            exposed: waits.map(|_| curve(Sum::Exposed, Unit::Ns)),
            sampled: Curves::default(),
            mpi: None,
            nic: network(Sum::Nic, Unit::Ns).filter(|nic| nic.sum.iter().any(|us| *us > 0.0)),
            durations_us: self.durations.as_ref().map(|of| band(of)),
            late: self.late(arrivals),
            steps: steps.and_then(|steps| self.steps(steps)),
            marks: Vec::new(),
            active: self.active(operations),
        }
    }

    /// What kernel windows show of exposed communication, by bucket; `why_none` says why there are none.
    pub(crate) fn in_windows(
        &self,
        windows: &[Exposure],
        why_none: Option<NoWindows>,
    ) -> InWindows {
        let empty = || vec![0u64; self.grid.n];
        let (mut seen, mut exposed) = (empty(), empty());
        for window in windows {
            let of = GpuKey {
                rank: window.process.rank,
                host: &window.process.host,
                pid: window.process.pid,
                device: Some(window.device),
            };
            let Some(lane) = self.lanes.iter().position(|lane| gpu(lane) == of) else {
                continue;
            };
            let spread = |into: &mut [u64], (from, to): (i64, i64)| {
                let begin = self.lines[lane].on_reference(HostTime(from));
                let length = u64::try_from(to - from).unwrap_or(0);
                self.grid
                    .spread(into, begin, begin + Nanos::from(length), length);
            };
            spread(&mut seen, window.span);
            for span in &window.exposed {
                spread(&mut exposed, *span);
            }
        }
        let us = |ns: u64| Nanos::from(ns).us();
        let known = || {
            seen.iter()
                .zip(&exposed)
                .map(|(seen, of)| (*seen > 0).then_some((*seen, *of)))
        };
        let why_null = why_none.or_else(|| {
            let is_dark = seen.contains(&0);
            is_dark.then_some(NoWindows::InBuckets)
        });
        InWindows {
            seen_us: seen.iter().map(|ns| us(*ns)).collect(),
            exposed_us: known()
                .map(|of| of.map(|(_, exposed)| us(exposed)))
                .collect(),
            share: known()
                .map(|of| of.map(|(seen, exposed)| rounded(exposed as f64 / seen as f64)))
                .collect(),
            why_null,
        }
    }

    /// What the bins of a lane have, by bucket.
    fn by_bucket(
        &self,
        lane: usize,
        bins: impl FnOnce(&Bins<SUMS>, &mut dyn FnMut(i64, u64)),
    ) -> Vec<u64> {
        let mut by_bucket = vec![0u64; self.grid.n];
        let line = &self.lines[lane];
        bins(&self.lanes[lane].bins, &mut |at, sum| {
            let at = line.on_reference(HostTime(at));
            let into = &mut by_bucket[self.grid.bucket(at)];
            *into = into.saturating_add(sum);
        });
        by_bucket
    }

    fn late(&self, arrivals: Option<&Arrivals>) -> Vec<LateRank> {
        let Some((waiting, arrivals)) = self.waiting.as_ref().zip(arrivals) else {
            return Vec::new();
        };
        let late = arrivals
            .ranks
            .iter()
            .filter(|rank| rank.loss_wall_us.is_some());
        late.filter_map(|rank| {
            let of = GpuKey {
                rank: rank.process.rank,
                host: &rank.process.host,
                pid: rank.process.pid,
                device: rank.device,
            };
            let lane = self.lanes.iter().position(|lane| gpu(lane) == of)?;
            let held_up = &waiting.held_up[lane];
            Some(LateRank {
                process: rank.process.clone(),

                device: rank.device,
                held_up_us: held_up.iter().map(|ns| Nanos::from(*ns).us()).collect(),
            })
        })
        .collect()
    }

    fn steps(&self, steps: &Steps) -> Option<StepMarks> {
        let row = steps.reference()?;
        let of = |lane: &Lane| {
            (lane.process.rank, lane.process.pid, &lane.process.host)
                == (row.process.rank, row.process.pid, &row.process.host)
        };
        let lane = self.lanes.iter().position(of)?;
        let at = |ns: i64| self.lines[lane].on_reference(HostTime(ns));
        let every = row.each.len().div_ceil(MOST_STEP_MARKS).max(1);
        let begins = row.each.iter().step_by(every);
        let begins = begins.filter_map(|step| step.start_ns);
        Some(StepMarks {
            rank: row.process.rank,
            every: every as u64,
            begins_us: begins.map(|ns| self.grid.us(at(ns))).collect(),
        })
    }

    fn active(&self, operations: &[Operation]) -> Active {
        let rows: HashMap<u32, usize> = operations
            .iter()
            .enumerate()
            .map(|(index, operation)| (operation.gathered_as, index))
            .collect();
        let mut active = Active {
            operations: vec![Buckets::default(); operations.len()],
            ranks: vec![Buckets::default(); self.lanes.len()],
        };
        for (index, lane) in self.lanes.iter().enumerate() {
            let line = &self.lines[index];
            for place in 0..lane.bins.marked() {
                let row = lane.rows.get(place).and_then(|row| rows.get(row));
                lane.bins.each_marked(place, |at| {
                    let at = line.on_reference(HostTime(at));
                    let bucket = self.grid.bucket(at);
                    let bit = 1u64 << (bucket % 64);
                    active.ranks[index][bucket / 64] |= bit;
                    if let Some(row) = row {
                        active.operations[*row][bucket / 64] |= bit;
                    }
                });
            }
        }
        active
    }
}

fn gpu(lane: &Lane) -> GpuKey<'_> {
    GpuKey {
        rank: lane.process.rank,
        host: &lane.process.host,
        pid: lane.process.pid,
        device: lane.device,
    }
}

/// A time by bucket: in each what was timed there, and the rest of `in_all` by how many calls had no time.
/// A bucket is filled up to `width` before what is left goes to others, as long as there is room.
///
/// Buckets in which every call was timed keep their own time. They do not if no bucket has an untimed call,
/// or the estimate `in_all` is less than what was timed: then all buckets change by one factor.
fn with_untimed(own: &[u64], in_all: f64, untimed: &[u64], width: f64) -> Vec<f64> {
    let mut all: Vec<f64> = own.iter().map(|ns| *ns as f64).collect();
    let timed: f64 = all.iter().sum();
    let mut rest = in_all - timed;
    let calls = |of: &dyn Fn(usize) -> bool| -> f64 {
        let of = (0..untimed.len()).filter(|bucket| of(*bucket));
        of.map(|bucket| untimed[bucket] as f64).sum()
    };
    if rest < 0.0 || calls(&|_| true) == 0.0 {
        let factor = in_all / timed.max(1.0);
        return all.iter().map(|ns| ns * factor).collect();
    }
    // Each turn fills a bucket, or shares out all that is left.
    for _ in 0..=all.len() {
        let room: Vec<f64> = all.iter().map(|ns| (width - ns).max(0.0)).collect();
        let open = calls(&|bucket| room[bucket] > 0.0);
        if rest <= 0.0 || open == 0.0 {
            break;
        }
        let each = rest / open;
        for bucket in (0..all.len()).filter(|bucket| room[*bucket] > 0.0) {
            let part = (each * untimed[bucket] as f64).min(room[bucket]);
            all[bucket] += part;
            rest -= part;
        }
    }
    // More than the buckets hold: the sum is kept.
    if rest > 0.0 {
        let each = rest / calls(&|_| true);
        for (ns, untimed) in all.iter_mut().zip(untimed) {
            *ns += each * *untimed as f64;
        }
    }
    all
}

/// For how long streams stood still for all calls of a GPU, ns; `None` if that is known of no call.
fn exposed_in_all(lane: &Lane, waits: Option<&StreamWaits>) -> Option<f64> {
    let ranks = waits.into_iter().flat_map(|waits| &waits.ranks);
    let mut own = ranks.filter(|rank| {
        let of = GpuKey {
            rank: rank.process.rank,
            host: &rank.process.host,
            pid: rank.process.pid,
            device: rank.device,
        };
        of == gpu(lane)
    });
    own.next().map(|rank| Nanos::from_us(rank.exposed.sum_us).0)
}

/// What sums are of.
#[derive(Clone, Copy)]
enum Unit {
    Number,
    Ns,
}

/// A curve under construction.
struct Under {
    grid: Grid,
    unit: Unit,
    sum: Vec<f64>,
    min: Vec<f64>,
    max: Vec<f64>,
}

impl Under {
    fn new(grid: Grid, unit: Unit) -> Under {
        Under {
            grid,
            unit,
            sum: vec![0.0; grid.n],
            min: vec![f64::INFINITY; grid.n],
            max: vec![0.0; grid.n],
        }
    }

    /// Adds a rank's.
    fn add(&mut self, by_bucket: impl Iterator<Item = f64>) {
        for (bucket, sum) in by_bucket.enumerate() {
            self.sum[bucket] += sum;
            self.min[bucket] = self.min[bucket].min(sum);
            self.max[bucket] = self.max[bucket].max(sum);
        }
    }

    fn finish(self, ranks: usize) -> Curve {
        let width = self.grid.width();
        let (unit, per) = match self.unit {
            Unit::Number => (1.0, width.seconds()),
            Unit::Ns => (Nanos::US.0, width.0),
        };
        let rate = |of: &[f64]| of.iter().map(|sum| rounded(sum / per)).collect();
        let mean: Vec<f64> = self.sum.iter().map(|sum| sum / ranks as f64).collect();
        Curve {
            min: rate(&self.min),
            mean: rate(&mean),
            max: rate(&self.max),
            // To a thousandth: ns of µs.
            sum: self
                .sum
                .iter()
                .map(|sum| (sum * THOUSANDTHS / unit).round() / THOUSANDTHS)
                .collect(),
        }
    }
}

/// Sums are told to a thousandth.
const THOUSANDTHS: f64 = 1e3;

/// To four digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn band(of: &[Vec<u64>]) -> Band {
    let mut band = Band::default();
    for durations in of {
        let mut durations = durations.clone();
        durations.sort_unstable();
        // The nearest rank.
        let at = |tenths: usize| {
            let index = (durations.len() * tenths).div_ceil(10).checked_sub(1)?;
            Some(Nanos::from(durations[index]).us())
        };
        band.n.push(durations.len() as u64);
        band.p10.push(at(1));
        band.p50.push(at(5));
        band.p90.push(at(9));
    }
    band
}

#[cfg(test)]
mod tests {
    use super::with_untimed;

    #[test]
    fn timed_buckets_keep_their_time_and_the_rest_goes_to_untimed_calls() {
        // Of 100 ns in all, 40 were timed. 60 belong to six calls in two buckets.
        let found = with_untimed(&[30, 0, 10, 0], 100.0, &[0, 2, 4, 0], 1000.0);
        assert_eq!(found, [30.0, 20.0, 50.0, 0.0]);
    }

    #[test]
    fn a_bucket_holds_no_more_than_its_width_while_others_have_room() {
        let found = with_untimed(&[30, 0, 10, 0], 120.0, &[0, 1, 7, 0], 50.0);
        assert_eq!(found, [30.0, 40.0, 50.0, 0.0]);
        // If there is no room, the sum is kept.
        let found = with_untimed(&[50, 0], 200.0, &[0, 3], 50.0);
        assert_eq!(found, [50.0, 150.0]);
    }

    #[test]
    fn without_untimed_calls_all_buckets_change_by_one_factor() {
        assert_eq!(with_untimed(&[30, 10], 80.0, &[0, 0], 100.0), [60.0, 20.0]);
        assert_eq!(with_untimed(&[30, 10], 20.0, &[0, 5], 100.0), [15.0, 5.0]);
        assert_eq!(with_untimed(&[0, 0], 0.0, &[0, 0], 100.0), [0.0, 0.0]);
    }
}
