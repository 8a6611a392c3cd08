//! What the job loses by each GPU that others wait for.
//!
//! Rule: a loss is no more than the others' communication is more exposed than the late rank's own, and no
//! more than the others' hosts could be faster.

use super::interference::{slowed, Alone};
use super::intervals::Union;
use super::waiting::Waits;
use super::{host_waited, schedule, share, Lane, RankStreams, Share, WaitedFor};

/// The ends of an operation on its ranks are apart by so much, ns: a wait is not known better.
const ENDS_NS: f64 = 500.0;

/// The smaller of two shares, and of the ends of their intervals.
fn smaller(a: Share, b: Share) -> Share {
    let interval = a.interval.map(|(low, high)| {
        let other = b.interval.unwrap_or((b.share, b.share));
        (low.min(other.0), high.min(other.1))
    });
    Share {
        share: a.share.min(b.share),
        interval,
    }
}

/// By lane: which part of the computing beside kernels that waited was lost to that.
fn lost_beside_waiting(lanes: &[Lane], waits: &Waits, own: &[Alone], all: &Alone) -> Vec<f64> {
    let nothing = Union::default();
    let lost = |(index, (lane, own)): (usize, (&Lane, &Alone))| {
        let waiting = waits.waiting.get(&index).unwrap_or(&nothing);
        let windows = lane.windows.iter().map(|w| (&w.computed[..], waiting));
        slowed(windows, own, all).lost()
    };
    lanes.iter().zip(own).enumerate().map(lost).collect()
}

/// Who was waited for, by loss.
pub fn waited_for(
    lanes: &[Lane],
    ranks: &[RankStreams],
    waits: &Waits,
    own: &[Alone],
    all: &Alone,
) -> Vec<WaitedFor> {
    let others_idle = |but: usize| {
        let of = ranks.iter().enumerate().filter(|(i, _)| *i != but);
        let mut of: Vec<f64> = of.map(|(_, rank)| rank.idle.share).collect();
        of.sort_by(f64::total_cmp);
        of.get(of.len() / 2).copied().unwrap_or(0.0)
    };
    // Beside what waits, kernels are slowed otherwise than beside what moves data.
    let lost = lost_beside_waiting(lanes, waits, own, all);
    let common = waits.common();
    let waited =
        |a: usize, b: usize, piece: usize| waits.by.get(&(a, b, piece)).copied().unwrap_or((0, 0));
    let meets = schedule::meets(lanes, waits).filter(|meets| !meets.is_empty());
    let whole = Union::of(waits.pieces.clone());
    let mut found = Vec::new();
    for (index, (lane, rank)) in lanes.iter().zip(ranks).enumerate() {
        // What each other rank lost by waiting for this one, less what this one lost by waiting for it.
        let mut losses: Vec<Share> = Vec::new();
        for (other, lost) in lost.iter().enumerate().filter(|(other, _)| *other != index) {
            if !(0..waits.pieces.len()).any(|piece| waited(other, index, piece) != (0, 0)) {
                continue;
            }
            let pieces = |of: &dyn Fn(usize) -> f64| {
                let pieces = waits.pieces.iter().enumerate();
                share(pieces.map(|(at, piece)| (of(at), (piece.1 - piece.0) as f64)))
            };
            let hidden = |at| lost * waited(other, index, at).1 as f64;
            let by_it = pieces(&|at| {
                let (exposed, back) = (waited(other, index, at).0, waited(index, other, at).0);
                exposed as f64 - back as f64 + hidden(at)
            });
            let exposed = |lane: usize, at: usize| waits.exposed(&lanes[lane], at) as f64;
            let more = pieces(&|at| exposed(other, at) - exposed(index, at) + hidden(at));
            let loss = smaller(by_it, more);
            losses.push(match host_waited(&lanes[other]) {
                Some(host) => smaller(loss, host),
                // How fast its host could be is not known.
                None => Share {
                    interval: None,
                    ..loss
                },
            });
        }
        // The rank that waited least would be waited for next.
        losses.sort_by(|a, b| a.share.total_cmp(&b.share));
        let Some(loss) = losses.first().filter(|loss| loss.share > 0.0) else {
            continue;
        };
        let of_schedule = meets
            .as_ref()
            .and_then(|meets| schedule::shorter(lanes, waits, meets, whole.spans(), index));
        let loss = &match of_schedule {
            Some(most) if most < loss.share => {
                let part = most / loss.share;
                let interval = loss.interval.map(|(low, high)| (part * low, part * high));
                Share {
                    share: most,
                    interval,
                }
            }
            _ => *loss,
        };
        let last = waits.last.get(&index).copied().unwrap_or(0);
        let ends = last as f64 * ENDS_NS / common.max(1) as f64;
        let loss = &Share {
            interval: loss.interval.map(|(low, high)| (low - ends, high + ends)),
            ..*loss
        };
        found.push(WaitedFor {
            rank: lane.rank,
            host: lane.host.clone(),
            pid: lane.pid,
            device: lane.device,
            last,
            operations: waits.operations,
            loss: *loss,
            loss_us: loss.share * lane.active as f64 / 1e3,
            loss_interval_us: loss.interval.map(|(low, high)| {
                let us = |share: f64| share.clamp(0.0, 1.0) * lane.active as f64 / 1e3;
                (us(low), us(high))
            }),
            host_late: rank.idle.share - others_idle(index) >= loss.share / 2.0,
        });
    }
    found.sort_by(|a, b| b.loss.share.total_cmp(&a.loss.share));
    found
}
