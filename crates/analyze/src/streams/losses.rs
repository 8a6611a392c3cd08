//! What the job loses by each GPU that others wait for.
//!
//! If windows show all GPUs at the same time, they are played again with the late one in time
//! ([`super::what_if`]). Else the loss is what the rank that lost least waited, wait by wait
//! ([`Losses::least`]).
//!
//! Rule: a loss is no more than the others' hosts could be faster. One that is summed up wait by wait is no
//! more than the others' communication is more exposed than the late rank's own.

use super::interference::{slowed, taken, Alone, Slowed};
use super::intervals::{Span, Union};
use super::schedule::Meet;
use super::waiting::Waits;
use super::what_if::{Pace, WhatIf};
use super::{host_waited, schedule, share, Lane, Share, WaitedFor};
use crate::interval::{waits_by_chance, LEAST_STRETCHES};

/// The ends of an operation on its ranks are apart by so much, ns: a wait is not known better.
const ENDS_NS: f64 = 500.0;
/// A kernel that begins so soon after another of NCCL was queued behind it, ns.
pub(super) const QUEUED_NS: i64 = 10_000;

/// Upper limit on the lanes that windows are played again without: each takes a pass over all kernels.
const MOST_LATE: usize = 8;

/// The smaller of two shares, and of the ends of their intervals.
pub(super) fn smaller(a: Share, b: Share) -> Share {
    let interval = a.interval.map(|(low, high)| {
        let other = b.interval.unwrap_or((b.share, b.share));
        (low.min(other.0), high.min(other.1))
    });
    Share {
        share: a.share.min(b.share),
        interval,
    }
}

/// One share less another, of which the errors are independent.
fn less(a: Share, b: Share) -> Share {
    let share = a.share - b.share;
    let half = |of: &Share| of.interval.map(|(low, high)| (high - low) / 2.0);
    let half = half(&a).zip(half(&b)).map(|(a, b)| a.hypot(b));
    Share {
        share,
        interval: half.map(|half| (share - half, share + half)),
    }
}

/// By how many times as long kernels take on one lane as the same kernels take on another; `None` if none are
/// the same.
fn speed(one: &Alone, other: &Alone) -> Option<f64> {
    let same = one.iter().filter_map(|(same, (n, ns))| {
        let (of_n, of_ns) = other.get(same)?;
        Some((*ns as f64, *n as f64 * *of_ns as f64 / *of_n as f64))
    });
    let (one, other) = same.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    (other > 0.0).then(|| one / other)
}

/// What a loss in windows rests on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Half of the interval that the sample alone gives.
    pub(super) half: f64,
    /// What pieces of windows show, ns.
    pub(super) pieces: Vec<((i64, i64), f64)>,
}

impl Sample {
    /// Which part of the time so many others would wait by chance if the late rank were as early as they are.
    /// Pieces have several cycles, which are this long, and are as apart as their number makes them.
    fn by_chance(&self, cycle_ns: f64, others: usize) -> f64 {
        let long = |span: &(i64, i64)| (span.1 - span.0) as f64;
        let length: f64 = self.pieces.iter().map(|(span, _)| long(span)).sum();
        let cycles = length / self.pieces.len().max(1) as f64 / cycle_ns;
        let part = self
            .pieces
            .iter()
            .map(|(span, lost)| lost / long(span).max(1.0));
        let part: Vec<f64> = part.collect();
        match cycles.is_finite() {
            true => waits_by_chance(&part, others) * cycles.max(1.0).sqrt(),
            false => 0.0,
        }
    }
}

/// A loss, and what it rests on.
struct SampledLoss {
    share: Share,
    sample: Sample,
}

/// What the others lose by a lane.
struct Found {
    /// Which of them it is told by.
    other: usize,
    of: SampledLoss,
    /// How much faster hosts could be, if that is known.
    host: Option<Share>,
}

/// No loss is more than hosts could be faster. How fast they are need not be known.
fn bound(loss: Share, host: Option<Share>) -> Share {
    match host {
        Some(host) => smaller(loss, host),
        None => Share {
            interval: None,
            ..loss
        },
    }
}

/// A lane, and something of each of its pieces.
type OfPieces<'a> = (usize, &'a dyn Fn(usize) -> f64);

/// What the job's lanes lost by waiting for each other.
struct Losses<'a> {
    lanes: &'a [Lane],
    waits: &'a Waits,
    /// By lane: what its kernels take without communication, and what they take in all.
    alone: &'a [Alone],
    taken: Vec<Alone>,
    /// What kernels of any lane take without communication.
    all: &'a Alone,
}

impl<'a> Losses<'a> {
    fn new(lanes: &'a [Lane], waits: &'a Waits, alone: &'a [Alone], all: &'a Alone) -> Losses<'a> {
        let windows = |lane: &Lane| taken(lane.windows.iter().map(|w| &w.computed[..]));
        Losses {
            lanes,
            waits,
            alone,
            taken: lanes.iter().map(windows).collect(),
            all,
        }
    }

    /// Which part of the computing of a lane beside kernels that wait was lost to that. Nothing waits on the
    /// lane that came last, and its kernels run beside transfers as those of this lane would. Kernels that it
    /// does not show are compared with the same without communication.
    fn beside_waiting(&self, waiting: usize, last: usize) -> Slowed {
        let nothing = Union::default();
        let when = self.waits.waiting.get(&waiting).unwrap_or(&nothing);
        let windows = self.lanes[waiting].windows.iter();
        let windows = windows.map(|w| (&w.computed[..], when));
        slowed(
            windows,
            &[&self.taken[last], &self.alone[waiting], self.all],
        )
    }

    /// What of the time of one lane, less what of the time of another; by piece. What is `measured` is known
    /// of all of a piece, and waiting only of the operations that were found on all ranks.
    fn difference(&self, a: OfPieces, b: OfPieces, measured: bool) -> Share {
        let each = |lane: usize, of: &dyn Fn(usize) -> f64| {
            let all: Vec<(f64, f64)> = match measured {
                true => self.waits.each_whole(lane, of).collect(),
                false => self.waits.each(lane, of).collect(),
            };
            share(all.into_iter())
        };
        match self.waits.shared {
            true => each(a.0, &|at| a.1(at) - b.1(at)),
            false => less(each(a.0, a.1), each(b.0, b.1)),
        }
    }

    /// The time of a lane in which it communicated and computed nothing.
    fn exposed(&self, lane: usize, piece: usize) -> f64 {
        self.waits.exposed(self.lanes, lane, piece) as f64
    }

    /// The time of a lane in which it computed nothing.
    fn not_computing(&self, lane: usize, piece: usize) -> f64 {
        let span = self.waits.own[lane][piece];
        let windows = self.lanes[lane].windows.iter();
        let computed = windows.map(|w| w.seen.computes.covers(span)).sum::<i64>();
        (span.1 - span.0 - computed) as f64
    }

    /// What a lane that waits would compute for longer if it did not: a GPU that waits is cooler, and so runs
    /// faster than one that has more to do. Of the time in which it computes.
    ///
    /// The same kernels without communication on both say by how much. If the late lane has no more to do and
    /// is only slower, that is why it is late, and nothing would change for the other.
    fn cooler(&self, other: usize, late: usize, slowed: f64) -> f64 {
        let speed = speed(&self.alone[other], &self.alone[late]);
        let Some(speed) = speed.filter(|speed| *speed < 1.0) else {
            return 0.0;
        };
        let computes = |lane: usize| {
            let pieces = self.waits.own[lane].iter().enumerate();
            let sum = pieces.fold((0.0, 0.0), |(computes, length), (at, piece)| {
                let long = (piece.1 - piece.0) as f64;
                (
                    computes + long - self.not_computing(lane, at),
                    length + long,
                )
            });
            sum.0 / sum.1.max(1.0)
        };
        let (late, other) = (computes(late), computes(other) - slowed);
        if late <= other {
            return 0.0;
        }
        let more_to_do = (late * speed - other) / (late - other);
        more_to_do.clamp(0.0, 1.0) * (1.0 / speed - 1.0)
    }

    fn waited(&self, a: usize, b: usize, piece: usize) -> (i64, i64) {
        self.waits.by.get(&(a, b, piece)).copied().unwrap_or((0, 0))
    }

    /// What a lane lost by waiting for `late`, less what that one lost by waiting for it, whatever its host;
    /// `None` if it never waited for it. `host_late` says that the late one's GPU stood idle.
    fn of(
        &self,
        other: usize,
        late: usize,
        host_late: impl Fn(f64) -> bool,
    ) -> Option<SampledLoss> {
        if !self.waits.shows_cycles(other)
            || !(0..self.waits.own[other].len()).any(|at| self.waited(other, late, at) != (0, 0))
        {
            return None;
        }
        let slowed = self.beside_waiting(other, late);
        let hidden = |at: usize| slowed.lost() * self.waited(other, late, at).1 as f64;
        // A transfer that is less exposed than the other's is no loss.
        let back = |at: usize| self.waited(late, other, at).0.max(0) as f64;
        let by_it = |at: usize| self.waited(other, late, at).0 as f64 + hidden(at);
        let mut loss = self.difference((other, &by_it), (late, &back), false);
        let half = |of: &Share| of.interval.map_or(0.0, |(low, high)| (high - low) / 2.0);
        // What each piece shows of that, if both lanes have the same.
        let pieces = self.waits.own[other].iter().enumerate();
        let pieces = pieces.map(|(at, span)| {
            let back = if self.waits.shared { back(at) } else { 0.0 };
            (*span, by_it(at) - back)
        });
        let sample = Sample {
            half: half(&loss),
            pieces: pieces.collect(),
        };
        if self.waits.shows_cycles(late) {
            let more = |of: &dyn Fn(usize, usize) -> f64| {
                let of_other = |at: usize| of(other, at) + hidden(at);
                self.difference((other, &of_other), (late, &|at| of(late, at)), true)
            };
            loss = smaller(loss, more(&|lane, at| self.exposed(lane, at)));
            let idle_too = more(&|lane, at| self.not_computing(lane, at));
            if !host_late(loss.share) && idle_too.share < loss.share {
                // What else keeps the late one's GPU from computing is a part of why it was late, or would
                // keep the other's GPU as well. Which of them is not known.
                loss = Share {
                    share: (loss.share + idle_too.share) / 2.0,
                    interval: loss
                        .interval
                        .zip(idle_too.interval)
                        .map(|(a, b)| (b.0, a.1)),
                };
            }
        } else {
            // Waits of several streams overlap, and the other stood still once.
            let exposed = |at: usize| self.exposed(other, at) + hidden(at);
            loss = smaller(loss, share(self.waits.each_whole(other, exposed)));
        }
        if self.waits.shows_cycles(late) && !host_late(loss.share) {
            let slower = self.cooler(other, late, share(self.waits.each(other, hidden)).share);
            let gained = self.waits.each(other, |at| {
                let span = self.waits.own[other][at];
                let computed = (span.1 - span.0) as f64 - self.not_computing(other, at);
                slower * (computed - self.waited(other, late, at).1 as f64).max(0.0)
            });
            let gained = share(gained).share;
            loss = Share {
                share: loss.share - gained,
                interval: loss
                    .interval
                    .map(|(low, high)| (low - gained, high - gained)),
            };
        }
        // What kernels of NCCL take away is at most half of what runs beside them: where a kernel has too few
        // multiprocessors left for one round, it takes two.
        let more = slowed.unknown() / 2.0;
        let more = share(
            self.waits
                .each(other, |at| more * self.waited(other, late, at).1 as f64),
        );
        let interval = loss.interval.map(|(low, high)| (low, high + more.share));
        let share = Share { interval, ..loss };
        Some(SampledLoss { share, sample })
    }

    /// What the others lose by `late`, played again; and the one that waited most for it.
    fn again(&self, what_if: &WhatIf, late: usize) -> Option<Found> {
        let nothing = Union::default();
        let slowed: Vec<Slowed> = (0..self.lanes.len())
            .map(|lane| self.beside_waiting(lane, late))
            .collect();
        let waits = |lane: usize| self.waits.waiting.get(&lane).unwrap_or(&nothing);
        let paces = slowed.iter().enumerate().map(|(lane, slowed)| {
            let hidden = self.lanes[lane].windows.iter();
            let hidden = hidden.flat_map(|w| w.computed.iter().map(|(_, span)| *span));
            let hidden: i64 = hidden.map(|span| waits(lane).covers(span)).sum();
            let length: i64 = self.waits.pieces.iter().map(|p| p.1 - p.0).sum();
            let share = slowed.lost() * hidden as f64 / length.max(1) as f64;
            Pace {
                waits: waits(lane),
                lost: slowed.lost(),
                slower: self.cooler(lane, late, share),
            }
        });
        let paces: Vec<Pace> = paces.collect();
        let others = (0..self.lanes.len()).filter(|other| *other != late);
        // All lose the same. The run's events tell most of one that waited for it itself.
        let waited = |other: usize| self.waits.times.contains_key(&(other, late));
        let other = others.max_by_key(|other| (waited(*other), what_if.shown(*other)))?;
        let lost = what_if.loss(late, other, &paces)?;
        let pieces = lost.by_cycle;
        let long = |span: &Span| (span.1 - span.0) as f64;
        let loss = share(pieces.iter().map(|(span, lost)| (*lost, long(span))));
        let half = loss.interval.map_or(0.0, |(low, high)| (high - low) / 2.0);
        // What kernels of NCCL take away is at most half of what runs beside them: where a kernel has too few
        // multiprocessors left for one round, it takes two.
        let unknown = slowed[other].unknown() / 2.0;
        let more = share(
            self.waits
                .each(other, |at| unknown * self.waited(other, late, at).1 as f64),
        );
        // Whether the late rank has more to do is a sample, too. An interval is of a mean above zero.
        let left = share(lost.left.iter().map(|(more, long)| (long + more, *long)));
        let apart = left.interval.map_or(0.0, |(low, high)| (high - low) / 2.0);
        let wider = half.hypot(apart) - half;
        let interval = loss.interval;
        let interval = interval.map(|(low, high)| (low - wider, high + wider + more.share));
        let share = Share { interval, ..loss };
        let others = (0..self.lanes.len()).filter(|other| *other != late);
        let hosts = others.map(|other| host_waited(&self.lanes[other]));
        let hosts = hosts.collect::<Option<Vec<Share>>>();
        let host = hosts.and_then(|hosts| hosts.into_iter().reduce(smaller));
        let of = SampledLoss {
            share,
            sample: Sample { half, pieces },
        };
        (share.share > 0.0).then_some(Found { other, of, host })
    }

    /// The same where windows do not show all lanes at the same time: what the rank lost that waited least.
    fn least(
        &self,
        late: usize,
        host_late: impl Fn(f64) -> bool + Copy,
        meets: Option<&[Meet]>,
    ) -> Option<Found> {
        let others = (0..self.lanes.len()).filter(|other| *other != late);
        let of = |other: usize| Some((other, self.of(other, late, host_late)?));
        let by_other: Vec<(usize, SampledLoss)> = others.filter_map(of).collect();
        // The rank that waited least would be waited for next.
        let bounded =
            |of: &(usize, SampledLoss)| bound(of.1.share, host_waited(&self.lanes[of.0])).share;
        let by_other = by_other.into_iter();
        let least = by_other.min_by(|a, b| bounded(a).total_cmp(&bounded(b)));
        let (other, mut of) = least.filter(|least| bounded(least) > 0.0)?;
        let whole = Union::of(self.waits.pieces.clone());
        let loss = of.share;
        let of_schedule =
            |windows: &[Span]| schedule::shorter(self.lanes, self.waits, meets?, windows, late);
        if let Some(most) = of_schedule(whole.spans()).filter(|most| *most < loss.share) {
            let part = most / loss.share;
            let long = |window: &Span| (window.1 - window.0) as f64;
            let each = |window: &Span| {
                let most = of_schedule(std::slice::from_ref(window)).unwrap_or(0.0);
                (most * long(window), long(window))
            };
            // What comes back differs from window to window, too.
            let windows = match whole.spans().len() >= LEAST_STRETCHES {
                true => whole.spans(),
                false => &self.waits.pieces[..],
            };
            let sample = share(windows.iter().map(each)).interval;
            let apart = sample.map_or(most, |(low, high)| (high - low) / 2.0);
            let interval = loss.interval.map(|(low, high)| {
                let (low, high) = (part * low, part * high);
                (low.min(most - apart), high.max(most + apart))
            });
            of.share = Share {
                share: most,
                interval,
            };
        }
        let host = host_waited(&self.lanes[other]);
        Some(Found { other, of, host })
    }

    /// By how much ends of operations that are apart widen an interval.
    fn ends(&self, other: usize, late: usize) -> f64 {
        let times = self.waits.times.get(&(other, late)).copied().unwrap_or(0);
        let pieces = self.waits.own[other].iter();
        let length: i64 = pieces.map(|piece| piece.1 - piece.0).sum();
        times as f64 * ENDS_NS / length.max(1) as f64
    }

    /// Whether a lane without windows was late because its host was. Until the kernel that others waited for
    /// was launched, they waited for the host, and from then on for the GPU. A kernel that was queued behind
    /// another one does not say since when its rank was ready, so it is not asked.
    fn launched_late(&self, late: usize) -> bool {
        let ends = |lane: &Lane| {
            let kernels = lane.all().flat_map(|window| &window.seen.nccl);
            let mut ends: Vec<i64> = kernels.map(|kernel| kernel.end).collect();
            ends.sort_unstable();
            ends
        };
        let ends: Vec<Vec<i64>> = self.lanes.iter().map(ends).collect();
        let (mut by_host, mut by_gpu) = (0.0, 0.0);
        for (wait, causes) in self.waits.direct.iter().zip(&self.waits.causes) {
            let before = ends[wait.lane].partition_point(|end| *end <= wait.whole.0);
            let ended = before.checked_sub(1).map(|at| ends[wait.lane][at]);
            if wait.last != late || ended.is_some_and(|end| wait.whole.0 - end < QUEUED_NS) {
                continue;
            }
            let waited = wait.whole.1 - wait.whole.0;
            // Of a sender or receiver, what it worked longer.
            let own = causes.iter().flatten().filter(|(lane, _)| *lane == late);
            let part = match wait.since {
                Some(_) => own.map(|(_, part)| part).sum(),
                None => 1.0,
            };
            if let Some(queued) = wait.queued {
                let of_gpu = queued.clamp(0, waited);
                by_gpu += part * of_gpu as f64;
                by_host += part * (waited - of_gpu) as f64;
            }
        }
        by_host > by_gpu
    }
}

/// By lane: which part of the time of its kernels is lost beside kernels of NCCL that wait. They are compared
/// with those of the lane that came last most often.
pub fn waiting_slows(
    lanes: &[Lane],
    waits: &Waits,
    alone: &[Alone],
    all: &Alone,
) -> Vec<Option<f64>> {
    let losses = Losses::new(lanes, waits, alone, all);
    // Of equals the first, so that a report is the same each time.
    let last = waits.last.iter();
    let last = last.max_by_key(|(lane, times)| (**times, std::cmp::Reverse(**lane)));
    let last = last.map_or(0, |(lane, _)| *lane);
    let lost = |lane: usize| {
        let slowed = losses.beside_waiting(lane, last);
        slowed.ratio().map(|_| slowed.lost())
    };
    (0..lanes.len()).map(lost).collect()
}

/// Who was waited for, by loss. By lane, `idle` is for which part of the time nothing ran, if that is known,
/// and `alone` what its kernels take without communication; `all` is what they take on any.
pub fn waited_for(
    lanes: &[Lane],
    idle: &[Option<f64>],
    waits: &Waits,
    alone: &[Alone],
    all: &Alone,
) -> Vec<WaitedFor> {
    let others_idle = |but: usize| {
        let of = idle.iter().enumerate().filter(|(i, _)| *i != but);
        let mut of: Vec<f64> = of.filter_map(|(_, idle)| *idle).collect();
        of.sort_by(f64::total_cmp);
        of.get(of.len() / 2).copied().unwrap_or(0.0)
    };
    let losses = Losses::new(lanes, waits, alone, all);
    let meets = schedule::meets(lanes, waits).filter(|meets| !meets.is_empty());
    let what_if = WhatIf::new(lanes, waits);
    let looked_at = match &what_if {
        Some(what_if) => what_if.with_most_to_do(MOST_LATE),
        None => (0..lanes.len()).collect(),
    };
    let mut found = Vec::new();
    for index in looked_at {
        let lane = &lanes[index];
        let host_late = |loss: f64| match idle[index] {
            Some(idle) => idle - others_idle(index) >= loss / 2.0,
            None => losses.launched_late(index),
        };
        let loss = match &what_if {
            Some(what_if) => losses.again(what_if, index),
            None => losses.least(index, host_late, meets.as_deref()),
        };
        let Some(Found { other, of, host }) = loss else {
            continue;
        };
        let loss = of.share;
        let ends = losses.ends(other, index);
        // Ranks that are tied to each other count as one: there are two at least, and all of them at most.
        let by_chance = |others: usize| of.sample.by_chance(lanes[other].cycle_ns(), others);
        let (most, chance) = match what_if {
            // What is chance stayed as it is.
            Some(_) => (0.0, 0.0),
            None => (by_chance(1), by_chance(lanes.len() - 1)),
        };
        let in_windows = Share {
            share: (loss.share - chance).max(0.0),
            interval: loss
                .interval
                .map(|(low, high)| (low - ends - most, high + ends)),
        };
        let loss = bound(in_windows, host);
        found.push(WaitedFor {
            rank: lane.rank,
            host: lane.host.clone(),
            pid: lane.pid,
            device: lane.device,
            last: waits.last.get(&index).copied().unwrap_or(0),
            operations: waits.operations,
            by_events: lane.windows.is_empty(),
            loss,
            loss_us: loss.share * lane.active as f64 / 1e3,
            loss_interval_us: loss.interval.map(|(low, high)| {
                let us = |share: f64| share.clamp(0.0, 1.0) * lane.active as f64 / 1e3;
                (us(low), us(high))
            }),
            host_late: host_late(loss.share),
            other: {
                let other = &lanes[other];
                (other.host.clone(), other.pid, other.device)
            },
            host_most: host,
            in_windows,
            sample: of.sample,
            of_both: waits.of_both(lanes, other, index),
            active_ns: lane.active as f64,
            by_run: false,
            again: what_if.is_some(),
            steady: false,
            cycle_ns: lanes[other].cycle_ns(),
        });
    }
    found.sort_by(|a, b| b.loss.share.total_cmp(&a.loss.share));
    found
}

#[cfg(test)]
mod tests {
    use super::super::intervals::Span;
    use super::super::kinds::Names;
    use super::super::waiting::waits;
    use super::super::window::Seen;
    use super::super::LaneWindow;
    use super::*;
    use std::sync::Arc;

    /// One GPU with a window of two cycles of 100 ns, in each of which it computes in `span`.
    fn lane(span: Span) -> Lane {
        let computes = [span, (span.0 + 100, span.1 + 100)];
        let seen = Seen {
            span: (0, 200),
            known: (0, 200),
            marks: vec![0, 100, 200],
            computes: Union::of(computes.to_vec()),
            ..Seen::default()
        };
        let names = Arc::new(Names::new(&[String::new()], &[]));
        Lane::with(vec![LaneWindow::with(seen, names)])
    }

    /// What a lane that computes for 40 of 100 ns would compute for longer, beside one that computes for so
    /// long, and takes 10 ns for what the first does in 8.
    fn cooler(late: i64) -> f64 {
        let lanes = [lane((0, 40)), lane((0, late))];
        let waits = waits(&lanes, &[2]);
        let took = |ns: i64| Alone::from([(1, (10, 10 * ns))]);
        let losses = Losses {
            lanes: &lanes,
            waits: &waits,
            alone: &[took(8), took(10)],
            taken: Vec::new(),
            all: &Alone::new(),
        };
        losses.cooler(0, 1, 0.0)
    }

    #[test]
    fn a_gpu_that_waits_for_one_with_more_to_do_is_faster_meanwhile() {
        // 90 ns are 72 at the speed of the other: of 50 more, 32 are more to do.
        assert!((cooler(90) - 0.25 * 32.0 / 50.0).abs() < 1e-9);
        // The same work, only slower: the other would not change.
        assert_eq!(cooler(50), 0.0);
        // It does not wait for one that has less to do.
        assert_eq!(cooler(30), 0.0);
    }
}
