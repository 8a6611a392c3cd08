//! Ranks that disagree about an operation.

use super::calls::{Calls, Lane};
use super::judge::{Found, Judge};
use std::collections::{BTreeMap, HashMap};
use tables::{Name, Shape};

/// What makes calls one operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    function: Name,
    datatype: Name,
    count: u64,
    root: Option<u32>,
}

/// Ranks that disagree about an operation.
#[derive(Clone, Debug)]
pub(super) struct Mismatch {
    pub communicator: usize,
    pub ordinal: u64,
    /// Those that made what most made, by member.
    pub most: Vec<usize>,
    /// The others.
    pub odd: Vec<usize>,
    /// There is nothing by which to tell which of them went astray.
    pub tied: bool,
    pub how: How,
}

/// How calls come to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The odd ones left a call out.
    LeftOut,
    /// The odd ones made two calls in the other order.
    Swapped,
    /// Not known.
    Differs,
}

impl Calls<'_> {
    /// The first operation of each communicator about which its ranks disagree.
    pub fn mismatches(&self) -> Vec<Mismatch> {
        let mut known: HashMap<Key, u32> = HashMap::new();
        let mut keys: Vec<Vec<u32>> = Vec::with_capacity(self.capture.processes.len());
        for process in &self.capture.processes {
            let key = |shape: &Shape| {
                let rooted =
                    self.capture.names.get(shape.function).is_some_and(|f| {
                        matches!(f, "Broadcast" | "Reduce" | "Gather" | "Scatter")
                    });
                let next = known.len() as u32;
                *known
                    .entry(Key {
                        function: shape.function,
                        datatype: shape.datatype,
                        count: shape.count,
                        root: shape.root.filter(|_| rooted),
                    })
                    .or_insert(next)
            };
            keys.push(process.shapes.iter().map(key).collect());
        }
        (0..self.communicators.len())
            .filter_map(|communicator| self.mismatch(communicator, &keys))
            .collect()
    }

    fn mismatch(&self, index: usize, keys: &[Vec<u32>]) -> Option<Mismatch> {
        let communicator = &self.communicators[index];
        let lane = Lane::Eager;
        let of = |member: usize, ordinal: u64| {
            let s = &communicator.ranks[member];
            let call = &self.capture.processes[s.process].calls[s.call(lane, ordinal)? as usize];
            Some((keys[s.process][call.shape as usize], call.group))
        };
        let reference = (0..communicator.ranks.len())
            .filter(|s| communicator.ranks[*s].base.is_some())
            .max_by_key(|s| (communicator.ranks[*s].calls[0].len(), std::cmp::Reverse(*s)))?;
        let mut first: Option<u64> = None;
        for member in (0..communicator.ranks.len()).filter(|s| *s != reference) {
            let Some(base) = communicator.ranks[member].base else {
                continue;
            };
            let mut ordinal = base.max(communicator.ranks[reference].base?);
            while let (Some(a), Some(b)) = (of(reference, ordinal), of(member, ordinal)) {
                if first.is_some_and(|first| ordinal >= first) {
                    break;
                }
                if a.0 != b.0 {
                    match same_group(&of, reference, member, ordinal) {
                        // Within a group NCCL puts calls into an order of its own.
                        Some(next) => {
                            ordinal = next;
                            continue;
                        }
                        None => {
                            first = Some(ordinal);
                            break;
                        }
                    }
                }
                ordinal += 1;
            }
        }
        let ordinal = first?;
        let mut by_key: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for member in 0..communicator.ranks.len() {
            if let Some((key, _)) = of(member, ordinal) {
                by_key.entry(key).or_default().push(member);
            }
        }
        let most = by_key
            .values()
            .max_by_key(|ranks| (ranks.len(), std::cmp::Reverse(ranks[0])))?
            .clone();
        let odd: Vec<usize> = by_key
            .values()
            .flatten()
            .copied()
            .filter(|member| !most.contains(member))
            .collect();
        let mut odd = odd;
        odd.sort_unstable();
        let key = |member: usize, ordinal: u64| of(member, ordinal).map(|(key, _)| key);
        let sample = *most
            .iter()
            .max_by_key(|s| communicator.ranks[**s].entered(lane))?;
        let swapped = |member: usize| {
            key(member, ordinal) == key(sample, ordinal + 1)
                && key(member, ordinal + 1) == key(sample, ordinal)
        };
        let left_out = |member: usize| {
            let mut compared = 0;
            for at in ordinal..ordinal + 64 {
                match (key(member, at), key(sample, at + 1)) {
                    (Some(a), Some(b)) if a == b => compared += 1,
                    (Some(_), Some(_)) => return false,
                    _ => break,
                }
            }
            compared > 0
        };
        let how = if odd.iter().all(|s| swapped(*s)) {
            How::Swapped
        } else if odd.iter().all(|s| left_out(*s)) {
            How::LeftOut
        } else {
            How::Differs
        };
        Some(Mismatch {
            communicator: index,
            ordinal,
            most,
            odd,
            tied: false,
            how,
        })
    }
}

/// If the calls around `ordinal` are the same set in one group on both ranks, the ordinal after that group.
fn same_group(
    of: &impl Fn(usize, u64) -> Option<(u32, u64)>,
    a: usize,
    b: usize,
    ordinal: u64,
) -> Option<u64> {
    let extent = |member: usize| {
        let (_, group) = of(member, ordinal).filter(|(_, group)| *group != 0)?;
        let inside = |at: &u64| of(member, *at).is_some_and(|(_, g)| g == group);
        let mut begin = ordinal;
        while begin > 0 && inside(&(begin - 1)) {
            begin -= 1;
        }
        let end = (ordinal..).take_while(inside).last()? + 1;
        let mut keys: Vec<u32> = (begin..end)
            .filter_map(|at| Some(of(member, at)?.0))
            .collect();
        keys.sort_unstable();
        Some((begin, end, keys))
    };
    let (one, other) = (extent(a)?, extent(b)?);
    (one == other && one.1 - one.0 > 1).then_some(one.1)
}

impl Judge<'_> {
    pub(super) fn mismatch(&self) -> Option<Found> {
        let mismatches = self.calls.mismatches();
        let quiet = |m: &Mismatch| {
            let ranks = &self.calls.communicators[m.communicator].ranks;
            let active = ranks.iter().filter_map(|s| self.active[s.vertex]).max();
            self.ago(active)
        };
        let open = |m: &&Mismatch| !self.calls.communicators[m.communicator].is_over();
        let first = mismatches
            .iter()
            .filter(open)
            .min_by_key(|m| {
                let call = self.calls.communicators[m.communicator].ranks[m.most[0]]
                    .call(Lane::Eager, m.ordinal)
                    .map(|call| self.calls.made(m.communicator, (m.most[0], call)).0.api_ns);
                (call, m.communicator)
            })?
            .clone();
        let first = self.settle(first);
        let lasted = quiet(&first);
        let hang = lasted.filter(|ns| *ns >= self.brief_ns).map(|_| true);
        Some(self.say_mismatch(&first, hang, lasted))
    }

    /// Where as many made one call as another, those are the odd ones whose order is new.
    fn settle(&self, mut mismatch: Mismatch) -> Mismatch {
        if mismatch.odd.len() != mismatch.most.len() {
            return mismatch;
        }
        let new = |ranks: &[usize]| {
            ranks.iter().any(|member| {
                let own = &self.calls.communicators[mismatch.communicator].ranks[*member];
                let call = own.call(Lane::Eager, mismatch.ordinal);
                let before = mismatch.ordinal.checked_sub(1);
                let before = before.and_then(|before| own.call(Lane::Eager, before));
                call.is_some_and(|call| self.strayed(own.process, before, call))
            })
        };
        match (new(&mismatch.most), new(&mismatch.odd)) {
            (true, false) => {
                std::mem::swap(&mut mismatch.most, &mut mismatch.odd);
                mismatch.how = How::Differs;
            }
            (false, true) => {}
            _ => mismatch.tied = true,
        }
        mismatch
    }
}
