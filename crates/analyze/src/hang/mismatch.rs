//! Ranks that made different calls at the same place of a communicator.
//!
//! [`first_mismatch`] compares the collectives of all ranks by ordinal: their function, datatype, count and,
//! where that matters, root. It gives the first place at which some differ, with the ranks that made what
//! most made and the odd ones. If all calls of all ranks are known, it does the same with collectives and the
//! operations that come in pieces (AlltoAll, Gather, Scatter) in one sequence.
//!
//! Rule: NCCL orders the calls of a group itself, so calls of one group that are the same set on two ranks do
//! not differ.

use super::calls::{CaptureCalls, CommunicatorCalls, Lane, RankCalls};
use super::case::Case;
use super::pattern::strayed;
use super::progress::CallRow;
use capture::live::flag;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use tables::{Call, Capture, Name, Process, Shape};

/// Calls after a difference that must fit for "left out" to explain it.
const COMPARED: u64 = 64;
/// Operations that a host may have made beyond one that does not end: a stream takes about a thousand
/// launches.
const AHEAD: u64 = 1100;

/// How the calls of ranks come to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
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

/// Which calls of a communicator's ranks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
    /// Collectives, by ordinal.
    Collectives,
    /// Collectives and operations in pieces, by place in [`RankCalls::units`].
    Units,
}

impl Sequence {
    fn call(self, own: &RankCalls, place: u64) -> Option<u32> {
        match self {
            Sequence::Collectives => own.call(Lane::Eager, place),
            Sequence::Units => own.units.get(usize::try_from(place).ok()?).copied(),
        }
    }
}

/// A place at which the calls of a communicator's ranks differ.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub communicator: usize,
    sequence: Sequence,
    place: u64,
    /// Members that made what most made.
    pub most: Vec<usize>,
    /// The other members.
    pub odd: Vec<usize>,
    /// Nothing shows which of the two went astray.
    pub tied: bool,
    pub how: MismatchKind,
}

impl Difference {
    /// The call of a member there.
    pub fn call(&self, case: &Case, member: usize) -> Option<u32> {
        let own = case.member(self.communicator, member);
        self.sequence.call(own, self.place)
    }

    /// The call of a member before.
    fn before(&self, case: &Case, member: usize) -> Option<u32> {
        let own = case.member(self.communicator, member);
        self.sequence.call(own, self.place.checked_sub(1)?)
    }
}

/// The first place at which ranks made different calls, of communicators that are not over.
pub(super) fn first_mismatch(case: &Case) -> Option<Difference> {
    let keys = Keys::new(case.capture);
    let of = |(index, ranks): (usize, &CommunicatorCalls)| {
        let compare = |sequence: Sequence| Compared {
            calls: &case.calls,
            keys: &keys,
            index,
            ranks,
            sequence,
        };
        let collectives = compare(Sequence::Collectives).difference();
        let whole = |own: &RankCalls| own.whole && !own.at_least;
        let units = || compare(Sequence::Units).difference();
        let units = ranks.ranks.iter().all(whole).then(units).flatten();
        let found = match (&collectives, &units) {
            (Some(a), Some(b)) => {
                let at = |found: &Difference| found.call(case, a.most[0]);
                let earlier = at(b).is_some_and(|units| Some(units) < at(a));
                if earlier {
                    units
                } else {
                    collectives
                }
            }
            _ => collectives.or(units),
        };
        found.filter(|_| !ranks.is_over())
    };
    let all = case.calls.communicators.iter().enumerate();
    let first = all.filter_map(of).min_by_key(|difference| {
        let most = difference.most[0];
        let call = difference.call(case, most);
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
        let before = difference.before(case, *member);
        let process = &case.capture.processes[own.process];
        let call = difference.call(case, *member);
        call.is_some_and(|call| strayed(process, before, call))
    };
    let most = difference.most.iter().any(new);
    match (most, difference.odd.iter().any(new)) {
        (true, false) => {
            std::mem::swap(&mut difference.most, &mut difference.odd);
            difference.how = MismatchKind::Differs;
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

/// What calls are, as numbers that are the same for calls that fit.
struct Keys {
    /// By process and shape.
    calls: Vec<Vec<u32>>,
    /// By process and operation in pieces.
    in_pieces: Vec<Vec<u32>>,
}

impl Keys {
    fn new(capture: &Capture) -> Keys {
        let mut known: HashMap<Key, u32> = HashMap::new();
        let mut number = |function: Name, shape: &Shape, root: Option<u32>| {
            let next = known.len() as u32;
            let key = Key {
                function,
                datatype: shape.datatype,
                count: shape.count,
                root,
            };
            *known.entry(key).or_insert(next)
        };
        let (mut calls, mut in_pieces) = (Vec::new(), Vec::new());
        for process in &capture.processes {
            let shapes = process.shapes.iter().map(|shape| {
                let function = capture.names.get(shape.function);
                let rooted = function
                    .is_some_and(|f| matches!(f, "Broadcast" | "Reduce" | "Gather" | "Scatter"));
                number(shape.function, shape, shape.root.filter(|_| rooted))
            });
            calls.push(shapes.collect());
            let pieces = process.composites.iter().map(|composite| {
                let first = &process.calls[composite.calls[0] as usize];
                // Who its root is shows at the root alone.
                number(
                    composite.function,
                    &process.shapes[first.shape as usize],
                    None,
                )
            });
            in_pieces.push(pieces.collect());
        }
        Keys { calls, in_pieces }
    }
}

/// A communicator under comparison.
struct Compared<'c> {
    calls: &'c CaptureCalls<'c>,
    keys: &'c Keys,
    index: usize,
    ranks: &'c CommunicatorCalls,
    sequence: Sequence,
}

impl Compared<'_> {
    /// Key and group of a member's call.
    fn of(&self, member: usize, place: u64) -> Option<(u32, u64)> {
        let own = &self.ranks.ranks[member];
        let call = self.sequence.call(own, place)? as usize;
        let call = &self.calls.capture.processes[own.process].calls[call];
        let key = match (call.composite as usize).checked_sub(1) {
            None => self.keys.calls[own.process][call.shape as usize],
            Some(composite) => self.keys.in_pieces[own.process][composite],
        };
        Some((key, call.group))
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
        if self.sequence == Sequence::Units && !self.proves(ordinal, &odd, &most) {
            return None;
        }
        Some(Difference {
            communicator: self.index,
            sequence: self.sequence,
            place: ordinal,
            how: self.how(ordinal, &most, &odd)?,
            most,
            odd,
            tied: false,
        })
    }

    /// Whether a place at which operations in pieces differ from others proves that ranks went astray. Sends
    /// and receives there may be such an operation that was not recognised, and a rank that has made many
    /// calls since is not held up there.
    fn proves(&self, place: u64, odd: &[usize], most: &[usize]) -> bool {
        let sound = |member: &usize| {
            let own = &self.ranks.ranks[*member];
            let process = &self.calls.capture.processes[own.process];
            let at = |place: u64| self.sequence.call(own, place).map(|call| call as usize);
            let Some(to) = at(place) else {
                return false;
            };
            let from = place
                .checked_sub(1)
                .and_then(at)
                .map_or(0, |before| before + 1);
            let plain = |call: &Call| {
                let shape = &process.shapes[call.shape as usize];
                shape.uid == own.uid && shape.is(flag::P2P) && self.is_plain(process, call)
            };
            own.units.len() as u64 <= place + AHEAD && !process.calls[from..to].iter().any(plain)
        };
        odd.iter().chain(most).all(sound)
    }

    /// Whether a send or receive is no part of an operation that all ranks take part in.
    fn is_plain(&self, process: &Process, call: &Call) -> bool {
        let composite = (call.composite as usize).checked_sub(1);
        let function = composite.map(|index| process.composites[index].function);
        let name = function.and_then(|name| self.calls.capture.names.get(name));
        name.is_none_or(|name| name == "SendRecv")
    }

    /// The first ordinal at which some member's call differs from that of the member with most calls.
    fn first(&self) -> Option<u64> {
        let ranks = &self.ranks.ranks;
        let members = 0..ranks.len();
        let (begin, made): (Vec<Option<u64>>, Vec<usize>) = match self.sequence {
            Sequence::Collectives => ranks
                .iter()
                .map(|own| (own.base, own.calls[0].len()))
                .unzip(),
            Sequence::Units => ranks.iter().map(|own| (Some(0), own.units.len())).unzip(),
        };
        let reference = members
            .clone()
            .filter(|member| begin[*member].is_some())
            .max_by_key(|member| (made[*member], Reverse(*member)))?;
        let mut first: Option<u64> = None;
        for member in members.filter(|member| *member != reference) {
            let Some(base) = begin[member] else {
                continue;
            };
            let mut ordinal = base.max(begin[reference]?);
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
    fn how(&self, ordinal: u64, most: &[usize], odd: &[usize]) -> Option<MismatchKind> {
        let made = |member: &&usize| {
            let own = &self.ranks.ranks[**member];
            match self.sequence {
                Sequence::Collectives => own.entered(Lane::Eager),
                Sequence::Units => Some(own.units.len() as u64),
            }
        };
        let sample = *most.iter().max_by_key(made)?;
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
            MismatchKind::Swapped
        } else if odd.iter().all(left_out) {
            MismatchKind::LeftOut
        } else {
            MismatchKind::Differs
        })
    }
}
