//! What a pipeline's schedule takes back: its steps played again with one stage as fast as the others.
//!
//! A slow stage hides waiting that its schedule has anyway. With the stage faster, that comes back. So the
//! sends and receives of each window are followed again ([`shorter`]), with a faster lane. It computes for as
//! little time as the median of the others. For everything else it needs no more than they do (nothing, if
//! its host is late). A receive goes on when its rank and its sender are there. Everything else takes the
//! time that it took.
//!
//! Rule: with nobody faster, every receive goes on when it did.

use super::causes::{stood, Still};
use super::interference::taken;
use super::intervals::{Span, Union};
use super::waiting::{without, Direct, Late, Waits};
use super::Lane;
use std::collections::HashMap;

/// A receive that was matched, or a send that held its rank up.
#[derive(Clone, Copy, Debug)]
pub struct Meet {
    /// Whose it is.
    pub lane: usize,
    /// Who sends, or receives.
    pub sender: usize,
    /// From when on the rank had nothing else to do.
    pub needed: i64,
    /// When that one was there.
    pub came: i64,
    /// Its kernel was queued behind one with the same peer: then it could begin as that one ended.
    pub queued: bool,
}

/// The receives of a job, and the sends that kept their rank from going on; by time. `None` if ranks waited
/// in collectives too, which are not followed here, or some have no windows.
pub fn meets(lanes: &[Lane], waits: &Waits) -> Option<Vec<Meet>> {
    let all_shown = lanes.iter().all(|lane| !lane.windows.is_empty());
    if !all_shown || waits.direct.iter().any(|wait| wait.late == Late::Rank) {
        return None;
    }
    let mut meets = waits.meets.clone();
    let exposed = |wait: &Direct| {
        let seen = lanes[wait.lane].at(wait.window);
        without(wait.whole, &seen.computes)
    };
    let mut receives: Vec<Vec<Span>> = vec![Vec::new(); lanes.len()];
    let of = |late: Late| waits.direct.iter().filter(move |wait| wait.late == late);
    of(Late::Sender).for_each(|wait| receives[wait.lane].extend(exposed(wait)));
    let receives: Vec<Union> = receives.into_iter().map(Union::of).collect();
    for wait in of(Late::Receiver) {
        let length = |spans: &[Span]| spans.iter().map(|(from, to)| to - from).sum::<i64>();
        let all = exposed(wait);
        // A stream of its own sends while the rank waits to receive: that does not hold it up.
        let alone = all.iter();
        let alone = alone.flat_map(|span| without(*span, &receives[wait.lane]));
        let alone = length(&alone.collect::<Vec<_>>());
        if 2 * alone > length(&all) {
            meets.push(Meet {
                lane: wait.lane,
                sender: wait.last,
                needed: wait.whole.1 - alone,
                came: wait.whole.1,
                queued: false,
            });
        }
    }
    meets.sort_by_key(|meet| meet.needed.max(meet.came));
    Some(meets)
}

/// What a lane's kernels take longer than the same ones of the others, or in all if these have none like it:
/// when each ended, and the sum up to there, ns.
fn longer(lanes: &[Lane], slow: usize) -> Vec<(i64, f64)> {
    let others = lanes.iter().enumerate().filter(|(lane, _)| *lane != slow);
    let others = others.flat_map(|(_, lane)| &lane.windows);
    let usual = taken(others.map(|window| &window.named[..]));
    let kernels = lanes[slow].windows.iter().flat_map(|window| &window.named);
    let mut longer: Vec<(i64, f64)> = kernels
        .map(|(same, (from, to))| {
            let usual = usual
                .get(same)
                .map_or(0.0, |(n, ns)| *ns as f64 / *n as f64);
            (*to, (to - from) as f64 - usual)
        })
        .collect();
    longer.sort_by_key(|(end, _)| *end);
    let mut sum = 0.0;
    for (_, ns) in &mut longer {
        sum += *ns;
        *ns = sum;
    }
    longer
}

/// What a lane did.
struct Did<'a> {
    still: &'a [Still],
    computes: Union,
}

impl Did<'_> {
    /// How long it computed in a span, and how long it did neither that nor stand still.
    fn within(&self, span: Span) -> [i64; 2] {
        let stood: i64 = stood(self.still, span).iter().map(|(_, ns)| ns).sum();
        let computed = self.computes.covers(span);
        [computed, span.1 - span.0 - stood - computed]
    }
}

/// By how much the steps of windows would be shorter if lane `slow` took as little as the median of the
/// others, to compute and for what it does else. It is a part of their time, for the lane that gains least.
/// `windows` are the times that count, and `meets` are by time. `None` if the lane takes no longer than the
/// others, or if windows of all lanes show no whole step together: then what comes back is not known.
pub fn shorter(
    lanes: &[Lane],
    waits: &Waits,
    meets: &[Meet],
    windows: &[Span],
    slow: usize,
) -> Option<f64> {
    let did = lanes.iter().zip(&waits.still).map(|(lane, still)| {
        let computes = lane.windows.iter().map(|w| &w.seen.computes);
        let computes = computes.flat_map(|computes| computes.spans().iter().copied());
        Did {
            still,
            computes: Union::of(computes.collect()),
        }
    });
    let did: Vec<Did> = did.collect();
    let whole = |lane: usize| {
        let spans = windows.iter().map(|span| did[lane].within(*span));
        spans.fold([0, 0], |sum, of| [sum[0] + of[0], sum[1] + of[1]])
    };
    let others: Vec<[i64; 2]> = (0..did.len()).filter(|l| *l != slow).map(whole).collect();
    let own = whole(slow);
    let less = [0, 1].map(|kind| {
        let mut others: Vec<i64> = others.iter().map(|of| of[kind]).collect();
        others.sort_unstable();
        let median = others.get(others.len() / 2).copied().unwrap_or(0);
        (1.0 - median as f64 / own[kind].max(1) as f64).max(0.0)
    });
    if less == [0.0, 0.0] || windows.is_empty() {
        return None;
    }
    // What it computes less is where it takes longer than the others. If that is not all, the rest is
    // everywhere.
    let longer = longer(lanes, slow);
    let before = |time: i64| {
        let at = longer.partition_point(|(end, _)| *end <= time);
        at.checked_sub(1).map_or(0.0, |at| longer[at].1)
    };
    let known: f64 = windows
        .iter()
        .map(|span| before(span.1) - before(span.0))
        .sum();
    let wanted = less[0] * own[0] as f64;
    let there = if known > 0.0 {
        (wanted / known).min(1.0)
    } else {
        0.0
    };
    let everywhere = (wanted - there * known) / own[0].max(1) as f64;
    let length: i64 = windows.iter().map(|span| span.1 - span.0).sum();
    let mut earlier = vec![0.0; lanes.len()];
    for span in windows {
        let first = meets.partition_point(|meet| meet.needed.max(meet.came) < span.0);
        let within = meets[first..].iter();
        let within = within.take_while(|meet| meet.needed.max(meet.came) < span.1);
        // By lane: by how much it is earlier, and since when that is so.
        let mut by = vec![(0.0, span.0); lanes.len()];
        // By pair of lanes: by how much their last kernel ended earlier.
        let mut ended: HashMap<(usize, usize), f64> = HashMap::new();
        let at = |by: &[(f64, i64)], lane: usize, time: i64| {
            let (earlier, since) = by[lane];
            match lane == slow && since < time {
                true => {
                    let [computed, rest] = did[lane].within((since, time));
                    let computed = everywhere * computed as f64;
                    let longer = there * (before(time) - before(since));
                    earlier + longer + computed + less[1] * rest as f64
                }
                false => earlier,
            }
        };
        for meet in within {
            let met = meet.needed.max(meet.came);
            let ready = meet.needed as f64 - at(&by, meet.lane, meet.needed);
            let pair = (meet.lane.min(meet.sender), meet.lane.max(meet.sender));
            let before = ended.get(&pair).copied().filter(|_| meet.queued);
            let sent = at(&by, meet.sender, meet.came).max(before.unwrap_or(0.0));
            let sent = meet.came as f64 - sent;
            let earlier = met as f64 - ready.max(sent);
            by[meet.lane] = (earlier, met);
            ended.insert(pair, earlier);
        }
        for (lane, sum) in earlier.iter_mut().enumerate() {
            *sum += at(&by, lane, span.1);
        }
    }
    let others = earlier.iter().enumerate().filter(|(lane, _)| *lane != slow);
    let least = others.map(|(_, sum)| *sum).fold(f64::INFINITY, f64::min);
    Some((least / length.max(1) as f64).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_not_known_without_a_step_that_all_show() {
        let lanes = [Lane::with(Vec::new()), Lane::with(Vec::new())];
        let mut waits = Waits::default();
        waits.still = vec![Vec::new(); 2];
        assert_eq!(shorter(&lanes, &waits, &[], &[], 1), None);
    }
}
