//! The figures of [`Arrivals`], worked out from operations.

use super::chain::{Busy, Chains};
use super::operations::{Operations, PartIndex};
use super::sampled::Scale;
use super::stalls::{stalls, Last};
use super::what_if::loss::Loss;
use super::{hosts, links, what_if, Arrivals, RankArrivals, LEVEL, MOST_LATE};
use crate::interval::{beyond_chance, Batches};
use crate::time::{HostTime, Nanos};
use tables::Capture;

/// Why a rank came last.
#[derive(Clone, Copy)]
enum Reason {
    LateLaunch,
    BusyGpu,
}

/// Who came last to an operation, by how much of itself, and why.
#[derive(Clone, Copy)]
struct Late {
    lane: u32,
    own: Nanos,
    reason: Option<Reason>,
}

impl Operations {
    /// By lane and part: for how long its rank was late by itself as the last of the operation, ns. `busy` is
    /// by lane.
    fn own(&self, busy: &[Busy]) -> Vec<Vec<u64>> {
        let mut own: Vec<Vec<u64>> = self.lanes.iter().map(|l| vec![0; l.parts.len()]).collect();
        for operation in &self.whole {
            let (mut last, mut before) = ((u64::MAX, (0, 0)), u64::MAX);
            for place in self.of(operation) {
                // Of equals the later place counts as last, as where costs are shared.
                let this = (self.part(place).ns, place);
                if this.0 <= last.0 {
                    before = last.0;
                    last = this;
                } else {
                    before = before.min(this.0);
                }
            }
            let (lane, index) = last.1;
            own[lane as usize][index as usize] = before - last.0;
        }
        for ((lane, own), busy) in self.lanes.iter().zip(&mut own).zip(busy) {
            let mut order: Vec<u32> = (0..lane.parts.len() as u32)
                .filter(|index| own[*index as usize] > 0)
                .collect();
            order.sort_unstable_by_key(|index| (lane.parts[*index as usize].start, *index));
            let mut charged = 0;
            for index in order {
                let (start, late) = (lane.parts[index as usize].start, &mut own[index as usize]);
                let from = start.saturating_sub(*late).max(charged);
                *late = busy.free(from, start);
                charged = start;
            }
        }
        own
    }

    /// `unsampled` are calls by row; `what_if` is the run to play again, if it was made before.
    pub(super) fn figures(
        self,
        capture: &Capture,
        proof: &hosts::Proof,
        unsampled: &[u64],
        mut what_if: Option<what_if::WhatIf>,
    ) -> Option<Arrivals> {
        let longest = self.whole.iter().map(|o| o.3 as usize).max()?;
        let busy: Vec<Busy> = self
            .lanes
            .iter()
            .map(|lane| Busy::of(&lane.parts))
            .collect();
        let own = self.own(&busy);
        let held = links::held(&self);
        let mut chains = Chains::new(&self, held.as_deref());
        let mut batches: Vec<[Option<Batches>; 2]> = (0..self.lanes.len())
            .map(|_| [Batches::new(longest), Batches::new(longest)])
            .collect();
        let mut ranks: Vec<RankArrivals> = self
            .lanes
            .iter()
            .map(|lane| RankArrivals {
                process: lane.process.clone(),

                device: lane.device,
                launched_late_us: Some(0.0),
                gpu_busy_us: Some(0.0),
                ..RankArrivals::default()
            })
            .collect();
        let (mut transfer, mut wait, mut saving) = (0.0, 0.0, 0.0);
        let mut arrivals: Vec<(u64, PartIndex)> = Vec::new();
        let mut costs: Vec<Nanos> = Vec::new();
        let us = |ns: u64| Nanos::from(ns).us();
        let mut scale = Scale::default();
        let mut late: Vec<Late> = Vec::with_capacity(self.whole.len());
        for operation in &self.whole {
            arrivals.clear();
            arrivals.extend(self.of(operation).map(|place| (self.part(place).ns, place)));
            // By arrival: the longest time came first.
            arrivals.sort_unstable_by_key(|(ns, place)| (std::cmp::Reverse(*ns), *place));
            let (n, first) = (arrivals.len(), arrivals[0].0);
            let (shortest, (_, last)) = (arrivals[n - 1].0, arrivals[n - 1]);
            shares(&arrivals, &mut costs);
            let waits = arrivals.iter().map(|(ns, _)| ns - shortest).sum();
            let later = arrivals[n - 2].0 - shortest;
            scale.add(self.part(last).row, n, waits, later);
            for ((ns, (lane, index)), cost) in arrivals.iter().zip(&costs) {
                let row = &mut ranks[*lane as usize];
                row.operations += 1;
                row.wait_rank_us += us(ns - shortest);
                row.cost_rank_us += cost.us();
                if first > *ns {
                    let start = self.part((*lane, *index)).start;
                    let late = first - ns;
                    let each = *cost / Nanos::from(late);
                    let busy = &busy[*lane as usize];
                    let from = start.saturating_sub(late);
                    let inherited = chains.add(*lane, busy.within(from, start), each);
                    row.inherited_rank_us += inherited.us();
                }
                wait += us(ns - shortest);
            }
            let margin = Nanos::from(arrivals[n - 2].0 - shortest);
            let own = Nanos::from(own[last.0 as usize][last.1 as usize]);
            transfer += us(shortest);
            saving += margin.us();
            let row = &mut ranks[last.0 as usize];
            let over_hosts = proof.is_over_hosts(&arrivals);
            let lateness = over_hosts
                .then(|| self.lateness(&arrivals, proof))
                .flatten();
            if margin > Nanos::ZERO {
                row.last += 1;
                if over_hosts {
                    row.last_over_hosts += 1;
                    if let Some(late) = lateness {
                        let (least, most) = late.arrival;
                        *row.last_proved.get_or_insert(0) += u64::from(least > Nanos::ZERO);
                        *row.last_refuted.get_or_insert(0) += u64::from(most < Nanos::ZERO);
                        *row.late_proved_us.get_or_insert(0.0) += least.max(Nanos::ZERO).us();
                    }
                }
            }
            row.saving_wall_us += own.us();
            let launch = if over_hosts {
                lateness.and_then(|late| late.launch)
            } else {
                self.launch_lateness(&arrivals).map(|late| (late, late))
            };
            // A kernel that was launched before others waited for it is not late because of its launch.
            let part = self.part(last);
            let start = HostTime(i64::try_from(part.start).unwrap_or(i64::MAX));
            let in_time = part.error > 0
                && part.launch_ns != 0
                && start - HostTime(part.launch_ns) >= own.max(Nanos(1.0));
            let reason = match launch {
                Some(_) if in_time => Some(Reason::BusyGpu),
                Some((least, _)) if least >= own * 0.5 => Some(Reason::LateLaunch),
                Some((_, most)) if most < own * 0.5 => Some(Reason::BusyGpu),
                // Over hosts the clocks may leave it open.
                _ => None,
            };
            late.push(Late {
                lane: last.0,
                own,
                reason,
            });
            for (_, (lane, _)) in &arrivals {
                let mine = if *lane == last.0 { own } else { Nanos::ZERO };
                let others = (own - mine) / (n - 1) as f64;
                ranks[*lane as usize].excess_wall_us += (mine - others).us();
                let [plain, excess] = &mut batches[*lane as usize];
                let (index, length) = (operation.2 as usize, operation.3 as usize);
                if let (Some(plain), Some(excess)) = (plain, excess) {
                    plain.add(index, length, mine.us(), 1.0);
                    excess.add(index, length, (mine - others).us(), 1.0);
                }
            }
        }
        intervals(&mut ranks, batches);
        chains.finish(capture, &mut ranks);
        self.losses(&mut ranks, &mut late, &mut what_if);
        let last = late.iter().map(|late| Last {
            lane: late.lane,
            own: late.own,
            launched_late: matches!(late.reason, Some(Reason::LateLaunch)),
            gpu_busy: matches!(late.reason, Some(Reason::BusyGpu)),
        });
        let stalls = stalls(&self, &last.collect::<Vec<_>>(), &mut what_if);
        // By lane: whether a reason is known of any operation in which it came last.
        let mut explained: Vec<Option<bool>> = vec![None; ranks.len()];
        for Late { lane, own, reason } in late {
            let row = &mut ranks[lane as usize];
            *explained[lane as usize].get_or_insert(false) |= reason.is_some();
            let part = match reason {
                Some(Reason::LateLaunch) => &mut row.launched_late_us,
                Some(Reason::BusyGpu) => &mut row.gpu_busy_us,
                None => continue,
            };
            *part = part.map(|us| us + own.us());
        }
        for (row, explained) in ranks.iter_mut().zip(explained) {
            if explained == Some(false) {
                (row.launched_late_us, row.gpu_busy_us) = (None, None);
            }
        }
        let links = links::links(&self, capture, &mut what_if);
        ranks.retain(|row| row.operations > 0);
        ranks.sort_by(|a, b| {
            let by_cost = b.cost_rank_us.total_cmp(&a.cost_rank_us);
            b.saving_wall_us
                .total_cmp(&a.saving_wall_us)
                .then(by_cost)
                .then((a.process.rank, a.process.pid, a.device).cmp(&(
                    b.process.rank,
                    b.process.pid,
                    b.device,
                )))
        });
        Some(Arrivals {
            operations: self.whole.len() as u64,
            differing: self.differing,
            transfer_wall_us: transfer,
            wait_rank_us: wait,
            saving_wall_us: saving,
            sampled: scale.estimate(unsampled),
            ranks,
            stalls,
            over_network: held.map(|held| links::over_network(&self, &held)),
            links,
        })
    }

    /// What the run loses by ranks that are late more than chance gives, for the latest of them, and why they
    /// are late. `ranks` are by lane, `last` by operation.
    fn losses(
        &self,
        ranks: &mut [RankArrivals],
        last: &mut [Late],
        what_if: &mut Option<what_if::WhatIf>,
    ) {
        let mut late = beyond_chance(0..ranks.len(), |lane| ranks[*lane].saving_p, LEVEL);
        late.retain(|lane| ranks[*lane].is_beyond_spread());
        late.sort_by(|a, b| {
            let saving = |lane: &usize| ranks[*lane].saving_wall_us;
            saving(b).total_cmp(&saving(a)).then(a.cmp(b))
        });
        late.truncate(MOST_LATE);
        if late.is_empty() {
            return;
        }
        let what_if = what_if.get_or_insert_with(|| what_if::WhatIf::new(self));
        for lane in late {
            let loss = what_if.loss(lane as u32);
            ranks[lane].loss_wall_us = Some(loss.time.us());
            ranks[lane].loss_interval_us = loss.interval_us();
            // Of the others, the one that ranks waited most for beside it.
            let own = |of: &RankArrivals| of.cost_rank_us - of.inherited_rank_us;
            let others = (0..ranks.len()).filter(|other| *other != lane);
            let next = others.max_by(|a, b| own(&ranks[*a]).total_cmp(&own(&ranks[*b])));
            let both = next.map(|next| (next, what_if.loss_of_both((lane as u32, next as u32))));
            let is_more = |both: &Loss| both.interval.is_some_and(|(low, _)| low > loss.time);
            let more = both.filter(|(_, both)| is_more(both));
            ranks[lane].with_other =
                more.map(|(next, both)| (ranks[next].process.rank, both.time.us()));
            let held = |operation: u32| last[operation as usize].own;
            for (operation, origin) in what_if.origins(lane as u32, held) {
                let first = last[origin as usize];
                let this = &mut last[operation as usize];
                if this.lane as usize == lane && this.lane == first.lane {
                    this.reason = first.reason.or(this.reason);
                }
            }
        }
    }

    /// By how much the last to arrive was launched after all others, where one host's clock tells.
    fn launch_lateness(&self, arrivals: &[(u64, PartIndex)]) -> Option<Nanos> {
        let (_, last) = arrivals.last()?;
        let clock = &self.lanes[last.0 as usize].clock;
        let mut others = HostTime(i64::MIN);
        for (_, place) in &arrivals[..arrivals.len() - 1] {
            let launch = self.part(*place).launch_ns;
            if launch == 0 || self.lanes[place.0 as usize].clock != *clock {
                return None;
            }
            others = others.max(HostTime(launch));
        }
        let launch = self.part(*last).launch_ns;
        (launch != 0).then(|| HostTime(launch) - others)
    }
}

/// The cost of each of these ranks, in order of arrival (falling time). The wait between one arrival and the
/// next is shared by the ranks that are not there yet.
fn shares(arrivals: &[(u64, PartIndex)], costs: &mut Vec<Nanos>) {
    costs.clear();
    costs.resize(arrivals.len(), Nanos::ZERO);
    let mut charged = Nanos::ZERO;
    for k in 1..arrivals.len() {
        let gap = Nanos::from(arrivals[k - 1].0 - arrivals[k].0);
        charged += gap * k as f64 / (arrivals.len() - k) as f64;
        costs[k] = charged;
    }
}

/// Works out how sure savings are; `batches` are those of a rank, and of what it has more than the others.
fn intervals(ranks: &mut [RankArrivals], batches: Vec<[Option<Batches>; 2]>) {
    for (row, batches) in ranks.iter_mut().zip(batches) {
        let [saving, excess] = batches.map(|batches| batches?.mean(0.0));
        let n = row.operations as f64;
        let interval = saving.and_then(|mean| mean.interval());
        row.saving_interval_us = interval.map(|(low, high)| (n * low, n * high));
        row.saving_p = excess.and_then(|mean| mean.p_by_chance());
    }
}
