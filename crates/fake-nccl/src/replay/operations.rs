//! Which groups of calls of different ranks are one operation, and in which order these are played.
//!
//! Groups with a collective in common, or with the two sides of a send, are one operation. A rank has one
//! group in each. If that does not fit together, each call is taken as a group of its own.
//!
//! Rule: each rank makes its groups in the recorded order, unless ranks wait for each other in a circle.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use tables::Name;

/// What makes calls of different ranks one: communicator, function of a collective, which of its counters or
/// which pair of ranks, and number.
pub(super) type Key = (u32, Option<Name>, u64, u64);

/// Calls that one rank makes at once.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) lane: usize,
    /// When that is, ns since 1970 on the clock of its host.
    pub(super) begin: i64,
    /// When the last kernel had been launched, on the same clock.
    pub(super) launched: Option<i64>,
    /// Places among the calls of its process.
    pub(super) calls: Vec<usize>,
    /// By call.
    pub(super) keys: Vec<Key>,
    /// When it ran on the GPU, on the same clock.
    pub(super) gpu: Option<(i64, i64)>,
    /// How long it ran there, ns.
    pub(super) length: Option<i64>,
}

impl Group {
    /// Another call of the group. They run as one, so the times are from the first begin to the last end.
    pub(super) fn add(&mut self, other: Group) {
        self.calls.extend(other.calls);
        self.keys.extend(other.keys);
        self.launched = self.launched.max(other.launched);
        self.gpu = match (self.gpu, other.gpu) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (a, b) => a.or(b),
        };
        self.length = match self.gpu {
            Some((start, stop)) => Some(stop - start),
            None => self.length.max(other.length),
        };
    }

    /// The communicator of its first call.
    pub(super) fn communicator(&self) -> u32 {
        self.keys[0].0
    }

    /// A group for each of its calls. The time is divided among them.
    fn split(&self) -> impl Iterator<Item = Group> + '_ {
        let n = self.calls.len() as i64;
        let calls = self.calls.iter().zip(&self.keys).zip(0..);
        calls.map(move |((call, key), at)| Group {
            lane: self.lane,
            begin: self.begin,
            launched: self.launched,
            calls: vec![*call],
            keys: vec![*key],
            gpu: self.gpu.map(|(start, stop)| {
                let part = (stop - start) / n;
                (start + at * part, start + (at + 1) * part)
            }),
            length: self.length.map(|length| length / n),
        })
    }
}

/// What the groups of some ranks do together.
#[derive(Debug)]
pub(super) struct Operation {
    /// By lane.
    pub(super) groups: Vec<Group>,
    /// From the last arrival to the end, ns.
    pub(super) length: Option<i64>,
}

impl Operation {
    fn new(mut groups: Vec<Group>) -> Operation {
        groups.sort_by_key(|group| group.lane);
        // Whoever waited least waited for nobody.
        let length = groups.iter().filter_map(|group| group.length).min();
        Operation { groups, length }
    }

    /// Whether all of a communicator make the same calls in it.
    pub(super) fn is_collective(&self) -> bool {
        self.groups[0].keys.iter().all(|key| key.1.is_some())
    }

    fn calls(&self) -> u64 {
        self.groups
            .iter()
            .map(|group| group.calls.len() as u64)
            .sum()
    }

    /// Whether it can be played as one: a rank has one group in it, and collectives have all their members
    /// with the same calls.
    fn fits(&self, members: &[Vec<usize>]) -> bool {
        if self.groups.windows(2).any(|two| two[0].lane == two[1].lane) {
            return false;
        }
        let all = || self.groups.iter().flat_map(|group| &group.keys);
        if all().all(|key| key.1.is_none()) {
            return true;
        }
        let first = &self.groups[0];
        let lanes: Vec<usize> = self.groups.iter().map(|group| group.lane).collect();
        let is_same = |key: &Key| {
            let mut of: Vec<usize> = members.get(key.0 as usize).cloned().unwrap_or_default();
            of.sort_unstable();
            of == lanes
        };
        all().all(|key| key.1.is_some())
            && self.groups.iter().all(|group| group.keys == first.keys)
            && first.keys.iter().all(is_same)
    }
}

/// The operations in the order in which they are played, and how many calls are left out because an operation
/// lacks some rank's. `members` has the lanes of each communicator.
pub(super) fn operations(groups: Vec<Group>, members: &[Vec<usize>]) -> (Vec<Operation>, u64) {
    let (mut fit, mut others) = (Vec::new(), Vec::new());
    for operation in united(groups) {
        if operation.fits(members) {
            fit.push(operation);
        } else {
            others.extend(operation.groups.iter().flat_map(Group::split));
        }
    }
    let mut left_out = 0;
    for operation in united(others) {
        if operation.fits(members) {
            fit.push(operation);
        } else {
            left_out += operation.calls();
        }
    }
    (in_order(fit), left_out)
}

/// Groups with a key in common.
fn united(groups: Vec<Group>) -> Vec<Operation> {
    let mut parents: Vec<usize> = (0..groups.len()).collect();
    fn root(parents: &mut [usize], mut of: usize) -> usize {
        while parents[of] != of {
            parents[of] = parents[parents[of]];
            of = parents[of];
        }
        of
    }
    let mut first: HashMap<Key, usize> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        for key in &group.keys {
            let other = *first.entry(*key).or_insert(at);
            let (a, b) = (root(&mut parents, at), root(&mut parents, other));
            parents[a.max(b)] = a.min(b);
        }
    }
    let mut by_root: HashMap<usize, Vec<Group>> = HashMap::new();
    let mut order = Vec::new();
    for (at, group) in groups.into_iter().enumerate() {
        let of = root(&mut parents, at);
        let all = by_root.entry(of).or_insert_with(|| {
            order.push(of);
            Vec::new()
        });
        all.push(group);
    }
    let operations = order.into_iter().filter_map(|of| by_root.remove(&of));
    operations.map(Operation::new).collect()
}

/// Operations so that each lane makes its groups in the recorded order.
fn in_order(operations: Vec<Operation>) -> Vec<Operation> {
    let begin = |of: &Operation| of.groups.iter().map(|group| group.begin).min();
    // By lane, its operations in order.
    let mut lanes: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    for (at, operation) in operations.iter().enumerate() {
        for group in &operation.groups {
            let all = lanes.entry(group.lane).or_default();
            all.push((group.calls[0], at));
        }
    }
    let mut waits = vec![0usize; operations.len()];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); operations.len()];
    for all in lanes.values_mut() {
        all.sort_unstable();
        for two in all.windows(2) {
            waits[two[1].1] += 1;
            next[two[0].1].push(two[1].1);
        }
    }
    let mut by_time: Vec<usize> = (0..operations.len()).collect();
    by_time.sort_by_key(|at| begin(&operations[*at]));
    let mut by_time = by_time.into_iter();
    let free = (0..operations.len()).filter(|at| waits[*at] == 0);
    let mut ready: BinaryHeap<Reverse<(Option<i64>, usize)>> = free
        .map(|at| Reverse((begin(&operations[at]), at)))
        .collect();
    let mut operations: Vec<Option<Operation>> = operations.into_iter().map(Some).collect();
    let mut out = Vec::with_capacity(operations.len());
    loop {
        let at = match ready.pop() {
            Some(Reverse((_, at))) => at,
            // A circle: the earliest begins.
            None => match by_time.find(|at| operations[*at].is_some()) {
                Some(at) => at,
                None => return out,
            },
        };
        let Some(operation) = operations[at].take() else {
            continue;
        };
        out.push(operation);
        for later in std::mem::take(&mut next[at]) {
            waits[later] = waits[later].saturating_sub(1);
            if let (0, Some(of)) = (waits[later], &operations[later]) {
                ready.push(Reverse((begin(of), later)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of a lane at a time, by the numbers of their collectives.
    fn group(lane: usize, begin: i64, numbers: &[u64]) -> Group {
        let function = tables::Names::default().intern("AllReduce");
        Group {
            lane,
            begin,
            launched: None,
            calls: vec![begin as usize; numbers.len()],
            keys: numbers
                .iter()
                .map(|of| (0, Some(function), 0, *of))
                .collect(),
            gpu: Some((begin, begin + 10)),
            length: Some(10),
        }
    }

    fn numbers(operations: &[Operation]) -> Vec<u64> {
        let keys = operations.iter().flat_map(|of| &of.groups[0].keys);
        keys.map(|key| key.3).collect()
    }

    #[test]
    fn operations_keep_the_order_of_each_rank() {
        // Rank 1 is much earlier with the second one.
        let groups = vec![
            group(0, 10, &[1]),
            group(0, 20, &[2]),
            group(1, 1, &[1]),
            group(1, 2, &[2]),
        ];
        let (operations, left_out) = operations(groups, &[vec![0, 1]]);
        assert_eq!((numbers(&operations), left_out), (vec![1, 2], 0));
        assert_eq!(operations[0].groups.len(), 2);
    }

    #[test]
    fn groups_that_differ_are_played_call_by_call_and_what_lacks_a_rank_is_left_out() {
        let groups = vec![
            group(0, 10, &[1, 2]),
            group(1, 10, &[1]),
            group(1, 20, &[2]),
            group(1, 30, &[3]),
        ];
        let (operations, left_out) = operations(groups, &[vec![0, 1]]);
        assert_eq!((numbers(&operations), left_out), (vec![1, 2], 1));
    }
}
