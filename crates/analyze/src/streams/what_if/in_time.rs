//! What a late lane has to do more than the others, and where.
//!
//! It computes in all for so much longer than the median of the others, and is idle for so much longer. That
//! much is taken off, where it differs from them: kernels that they do not run, or not as often, go; the same
//! kernels take as long as theirs. Kernels are the same by name and size. Which of them the others do not run
//! shows by their place, the two kernels before them on the stream.
//!
//! Rule: no more is taken off than the lane computes and is idle longer in all.

use super::{median, Node};
use std::collections::BTreeMap;

/// How often something ran, and for how long in all, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    times: f64,
    ns: f64,
}

/// What a lane did in the time that counts.
#[derive(Default)]
pub(super) struct Did {
    /// By which are the same.
    kinds: BTreeMap<u64, Work>,
    /// How often, by which are the same and by place.
    places: BTreeMap<(u64, u64), f64>,
    /// By the place of what began then: for how long nothing ran, ns.
    idle_before: BTreeMap<u64, f64>,
    /// The same before kernels of NCCL. Others may have begun at the same time.
    idle_before_nccl: BTreeMap<u64, f64>,
    /// In all, ns.
    pub computed: f64,
    /// Nothing ran, ns.
    pub idle: f64,
}

impl Did {
    /// Adds a kernel that computed, `ns` long if nobody waited, of which `inside` of 1 counts.
    pub fn computed(&mut self, node: &Node, inside: f64, ns: f64) {
        let work = self.kinds.entry(node.same).or_default();
        (work.times, work.ns) = (work.times + inside, work.ns + inside * ns);
        *self.places.entry((node.same, node.place)).or_default() += inside;
        self.computed += inside * ns;
    }

    /// Adds the time before a kernel in which nothing ran.
    pub fn was_idle(&mut self, node: &Node) {
        let before = match node.nccl {
            true => &mut self.idle_before_nccl,
            false => &mut self.idle_before,
        };
        *before.entry(node.place).or_default() += node.idle as f64;
    }
}

/// Idle times of a lane, by place.
type Before = fn(&Did) -> &BTreeMap<u64, f64>;

/// What is to be taken off from a late lane, by part of what it does.
pub(super) struct InTime {
    /// By which are the same: the part of each of them at a place, and for how much longer each takes.
    kinds: BTreeMap<u64, (f64, f64)>,
    /// By place: how many of those that run there the others do not have.
    places: BTreeMap<(u64, u64), f64>,
    /// Which part of that, and which of all that it computes.
    computes: (f64, f64),
    /// By place: which part of the time before it.
    idle_before: BTreeMap<u64, f64>,
    idle: (f64, f64),
    /// Which part of all the time in which nothing runs.
    pub less_idle: f64,
}

/// How much of what is known where to take off, and of everything, so that it is `more` in all.
fn spread(more: f64, known: f64, all: f64) -> (f64, f64) {
    let there = if known > 0.0 {
        (more / known).min(1.0)
    } else {
        0.0
    };
    (there, (more - there * known.max(0.0)) / all.max(1.0))
}

impl InTime {
    /// `None` if the lane neither computes nor is idle for longer than the others.
    pub fn new(did: &[Did], late: usize) -> Option<InTime> {
        let own = &did[late];
        let others: Vec<&Did> = (did.iter().enumerate())
            .filter(|(lane, _)| *lane != late)
            .map(|(_, did)| did)
            .collect();
        let usual = |of: &dyn Fn(&Did) -> f64| median(others.iter().map(|did| of(did)).collect());
        let longer = (own.computed - usual(&|did| did.computed)).max(0.0);
        let idler = (own.idle - usual(&|did| did.idle)).max(0.0);
        if longer == 0.0 && idler == 0.0 {
            return None;
        }
        // The places at which it runs more often than on the others.
        let times_at = |did: &Did, at: &(u64, u64)| did.places.get(at).copied().unwrap_or(0.0);
        let often = own.places.iter().map(|(at, times)| {
            let more = times - usual(&|did| times_at(did, at));
            (*at, more.max(0.0))
        });
        let mut places: BTreeMap<(u64, u64), f64> = often.collect();
        let mut in_places: BTreeMap<u64, f64> = BTreeMap::new();
        for ((same, _), more) in &places {
            *in_places.entry(*same).or_default() += more;
        }
        let mut known = 0.0;
        let mut kinds = BTreeMap::new();
        for (same, work) in &own.kinds {
            let of = |did: &Did| did.kinds.get(same).copied().unwrap_or_default();
            let all = others.iter().fold(Work::default(), |sum, did| Work {
                times: sum.times + of(did).times,
                ns: sum.ns + of(did).ns,
            });
            let extra = 1.0 - usual(&|did| of(did).times) / work.times;
            let longer = match all.times > 0.0 {
                true => 1.0 - all.ns / all.times * work.times / work.ns.max(1.0),
                false => 0.0,
            };
            known += work.ns * (extra + (1.0 - extra) * longer);
            kinds.insert(*same, (extra, longer));
        }
        for (at, more) in &mut places {
            let extra = kinds.get(&at.0).map_or(0.0, |(extra, _)| *extra);
            let all = in_places[&at.0];
            let here = own.places[at];
            *more = match extra > 0.0 && all > 0.0 {
                true => (extra * own.kinds[&at.0].times * *more / all / here).min(1.0),
                false => extra,
            };
        }
        let idle_at = |of: &BTreeMap<u64, f64>, at: &u64| of.get(at).copied().unwrap_or(0.0);
        let more_idle = |of: Before, at: &u64| {
            idle_at(of(own), at) - median(others.iter().map(|did| idle_at(of(did), at)).collect())
        };
        let work: Before = |did| &did.idle_before;
        let nccl: Before = |did| &did.idle_before_nccl;
        let idle_known: f64 = own.idle_before.keys().map(|at| more_idle(work, at)).sum();
        let of_work = own.idle_before.iter();
        let of_work = of_work.map(|(at, ns)| (*at, more_idle(work, at) / ns.max(1.0)));
        let of_nccl = own.idle_before_nccl.iter();
        let of_nccl = of_nccl.map(|(at, ns)| (*at, more_idle(nccl, at) / ns.max(1.0)));
        let idle_before = of_work.chain(of_nccl);
        Some(InTime {
            kinds,
            places,
            computes: spread(longer, known, own.computed),
            idle_before: idle_before.collect(),
            idle: spread(idler, idle_known, own.idle),
            less_idle: idler / own.idle.max(1.0),
        })
    }

    /// Which part of a kernel is taken off.
    pub fn shorter(&self, node: &Node) -> f64 {
        let Some((extra, longer)) = self.kinds.get(&node.same) else {
            return self.computes.1;
        };
        let here = self.places.get(&(node.same, node.place));
        let extra = here.copied().unwrap_or(*extra);
        self.computes.0 * (extra + (1.0 - extra) * longer) + self.computes.1
    }

    /// Which part of the time before a kernel in which nothing ran is taken off.
    pub fn sooner(&self, node: &Node) -> f64 {
        let more = self.idle_before.get(&node.place).copied().unwrap_or(0.0);
        (self.idle.0 * more + self.idle.1).min(1.0)
    }
}
