//! Ranks that made different calls at the same place of a communicator.
//!
//! [`first_mismatch`] compares the collectives of all ranks by ordinal: their function, datatype, count and,
//! where that matters, root. It gives the first place at which some differ, with the ranks that made what
//! most made and the odd ones.
//!
//! Rule: NCCL orders the calls of a group itself, so calls of one group that are the same set on two ranks do
//! not differ.

use super::calls::{Calls, CommunicatorCalls, Lane};
use super::case::Case;
use super::pattern::strayed;
use super::progress::CallRow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use tables::{Name, Shape};

/// Calls after a difference that must fit for "left out" to explain it.
const COMPARED: u64 = 64;

/// How the calls of ranks come to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The odd ones left a call out.
    LeftOut,
    /// The odd ones made two calls in the other order.
    Swapped,
    /// Not known.
    Differs,
}

/// What differs between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Their functions.
    Function,
    /// Their sizes in bytes.
    Size,
    /// Their datatypes.
    Datatype,
    /// Their roots.
    Root,
}

/// What differs between two calls that ranks made at the same place.
pub(super) fn differing(a: &CallRow, b: &CallRow) -> Vec<Aspect> {
    let all = [
        (Aspect::Function, a.function != b.function),
        (Aspect::Size, a.bytes != b.bytes),
        (Aspect::Datatype, a.datatype != b.datatype),
        (Aspect::Root, a.root != b.root),
    ];
    let differs = all.into_iter().filter(|(_, differs)| *differs);
    differs.map(|(aspect, _)| aspect).collect()
}

/// A place at which the calls of a communicator's ranks differ.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub communicator: usize,
    pub ordinal: u64,
    /// Members that made what most made.
    pub most: Vec<usize>,
    /// The other members.
    pub odd: Vec<usize>,
    /// Nothing shows which of the two went astray.
    pub tied: bool,
    pub how: How,
}

/// The first place at which ranks made different calls, of communicators that are not over.
pub(super) fn first_mismatch(case: &Case) -> Option<Difference> {
    let keys = keys(&case.calls);
    let of = |(index, ranks): (usize, &CommunicatorCalls)| {
        let communicator = Compared {
            calls: &case.calls,
            keys: &keys,
            index,
            ranks,
        };
        communicator.difference().filter(|_| !ranks.is_over())
    };
    let all = case.calls.communicators.iter().enumerate();
    let first = all.filter_map(of).min_by_key(|difference| {
        let most = difference.most[0];
        let own = case.member(difference.communicator, most);
        let call = own.call(Lane::Eager, difference.ordinal);
        let made = call.map(|call| case.calls.made(difference.communicator, (most, call)).0);
        (made.map(|made| made.api_ns), difference.communicator)
    })?;
    Some(settle(case, first))
}

/// If as many ranks made one call as another, those are the odd ones that came to it in a new order.
fn settle(case: &Case, mut difference: Difference) -> Difference {
    if difference.odd.len() != difference.most.len() {
        return difference;
    }
    let new = |member: &usize| {
        let own = case.member(difference.communicator, *member);
        let call = |ordinal: u64| own.call(Lane::Eager, ordinal);
        let before = difference.ordinal.checked_sub(1).and_then(call);
        let process = &case.capture.processes[own.process];
        call(difference.ordinal).is_some_and(|call| strayed(process, before, call))
    };
    let most = difference.most.iter().any(new);
    match (most, difference.odd.iter().any(new)) {
        (true, false) => {
            std::mem::swap(&mut difference.most, &mut difference.odd);
            difference.how = How::Differs;
        }
        (false, true) => {}
        _ => difference.tied = true,
    }
    difference
}

/// What makes calls of several ranks one operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    function: Name,
    datatype: Name,
    count: u64,
    root: Option<u32>,
}

/// By process and shape: a number that is the same for calls that fit.
fn keys(calls: &Calls) -> Vec<Vec<u32>> {
    let mut known: HashMap<Key, u32> = HashMap::new();
    let mut key = |shape: &Shape| {
        let function = calls.capture.names.get(shape.function);
        let rooted =
            function.is_some_and(|f| matches!(f, "Broadcast" | "Reduce" | "Gather" | "Scatter"));
        let next = known.len() as u32;
        let key = Key {
            function: shape.function,
            datatype: shape.datatype,
            count: shape.count,
            root: shape.root.filter(|_| rooted),
        };
        *known.entry(key).or_insert(next)
    };
    let processes = calls.capture.processes.iter();
    processes
        .map(|process| process.shapes.iter().map(&mut key).collect())
        .collect()
}

/// A communicator under comparison.
struct Compared<'c> {
    calls: &'c Calls<'c>,
    /// See [`keys`].
    keys: &'c [Vec<u32>],
    index: usize,
    ranks: &'c CommunicatorCalls,
}

impl Compared<'_> {
    /// Key and group of a member's call.
    fn of(&self, member: usize, ordinal: u64) -> Option<(u32, u64)> {
        let own = &self.ranks.ranks[member];
        let call = own.call(Lane::Eager, ordinal)? as usize;
        let call = &self.calls.capture.processes[own.process].calls[call];
        Some((self.keys[own.process][call.shape as usize], call.group))
    }

    fn key(&self, member: usize, ordinal: u64) -> Option<u32> {
        Some(self.of(member, ordinal)?.0)
    }

    /// The first place at which members differ.
    fn difference(&self) -> Option<Difference> {
        let ordinal = self.first()?;
        let members = 0..self.ranks.ranks.len();
        let mut by_key: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for member in members.clone() {
            if let Some(key) = self.key(member, ordinal) {
                by_key.entry(key).or_default().push(member);
            }
        }
        let size = |members: &&Vec<usize>| (members.len(), Reverse(members[0]));
        let most = by_key.values().max_by_key(size)?.clone();
        let expected = self.key(most[0], ordinal);
        let is_odd = |member: &usize| {
            let made = self.key(*member, ordinal);
            made.is_some() && made != expected
        };
        let odd: Vec<usize> = members.filter(is_odd).collect();
        Some(Difference {
            communicator: self.index,
            ordinal,
            how: self.how(ordinal, &most, &odd)?,
            most,
            odd,
            tied: false,
        })
    }

    /// The first ordinal at which some member's call differs from that of the member with most calls.
    fn first(&self) -> Option<u64> {
        let ranks = &self.ranks.ranks;
        let members = 0..ranks.len();
        let reference = members
            .clone()
            .filter(|member| ranks[*member].base.is_some())
            .max_by_key(|member| (ranks[*member].calls[0].len(), Reverse(*member)))?;
        let mut first: Option<u64> = None;
        for member in members.filter(|member| *member != reference) {
            let Some(base) = ranks[member].base else {
                continue;
            };
            let mut ordinal = base.max(ranks[reference].base?);
            while let (Some(ours), Some(theirs)) =
                (self.key(reference, ordinal), self.key(member, ordinal))
            {
                if first.is_some_and(|first| ordinal >= first) {
                    break;
                }
                if ours == theirs {
                    ordinal += 1;
                } else if let Some(next) = self.same_group(reference, member, ordinal) {
                    ordinal = next;
                } else {
                    first = Some(ordinal);
                    break;
                }
            }
        }
        first
    }

    /// If the calls around `ordinal` are the same set in one group on both members, the ordinal after that
    /// group.
    fn same_group(&self, a: usize, b: usize, ordinal: u64) -> Option<u64> {
        let extent = |member: usize| {
            let (_, group) = self.of(member, ordinal).filter(|(_, group)| *group != 0)?;
            let inside = |at: &u64| self.of(member, *at).is_some_and(|(_, g)| g == group);
            let mut begin = ordinal;
            while begin > 0 && inside(&(begin - 1)) {
                begin -= 1;
            }
            let end = (ordinal..).take_while(inside).last()? + 1;
            let keys = (begin..end).filter_map(|at| self.key(member, at));
            let mut keys: Vec<u32> = keys.collect();
            keys.sort_unstable();
            Some((begin, end, keys))
        };
        let (one, other) = (extent(a)?, extent(b)?);
        (one == other && one.1 - one.0 > 1).then_some(one.1)
    }

    /// How the odd members come to differ from the others.
    fn how(&self, ordinal: u64, most: &[usize], odd: &[usize]) -> Option<How> {
        let entered = |member: &&usize| self.ranks.ranks[**member].entered(Lane::Eager);
        let sample = *most.iter().max_by_key(entered)?;
        let swapped = |member: &usize| {
            self.key(*member, ordinal) == self.key(sample, ordinal + 1)
                && self.key(*member, ordinal + 1) == self.key(sample, ordinal)
        };
        let left_out = |member: &usize| {
            let mut compared = 0;
            for at in ordinal..ordinal + COMPARED {
                match (self.key(*member, at), self.key(sample, at + 1)) {
                    (Some(a), Some(b)) if a == b => compared += 1,
                    (Some(_), Some(_)) => return false,
                    _ => break,
                }
            }
            compared > 0
        };
        Some(if odd.iter().all(swapped) {
            How::Swapped
        } else if odd.iter().all(left_out) {
            How::LeftOut
        } else {
            How::Differs
        })
    }
}
