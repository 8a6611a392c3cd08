//! What sends and receives of the ranks that are here prove of the other side.
//!
//! Rule: a send may end in buffers before there is a receive, so only a receive proves its other half.

use super::Member;
use std::collections::{BTreeMap, HashMap};

/// What the sends and receives of the ranks of a communicator say of a rank.
#[derive(Clone, Copy, Default)]
pub(super) struct Side {
    /// Its calls that others have the other half of.
    pub(super) begun: u64,
    /// Those of them that are proved.
    pub(super) proved: u64,
    /// Those of the proved ones that are not here.
    pub(super) missing: u64,
}

/// By rank that others sent to or received from.
#[derive(Default)]
pub(super) struct Pairs(pub(super) BTreeMap<u32, Side>);

#[derive(Clone, Copy, Default)]
struct Half {
    made: u64,
    /// For how many of them the other side has its half for certain.
    proves: u64,
}

impl Pairs {
    pub(super) fn of(members: &[(usize, Option<u32>, &Member, bool)]) -> Pairs {
        // By sender and receiver: what the sender made, and the receiver.
        let mut of: HashMap<(u32, u32), [Half; 2]> = HashMap::new();
        for (_, rank, member, ended) in members {
            let Some(own) = *rank else { continue };
            for ((sends, peer), pair) in member.pairs.iter().filter(|((_, peer), _)| *peer != own) {
                let (key, half) = match sends {
                    true => ((own, *peer), 0),
                    false => ((*peer, own), 1),
                };
                // A send may end in buffers, before there is a receive.
                let timed = if *sends { 0 } else { pair.timed };
                let proves = if *ended { pair.made } else { timed };
                let made = pair.made;
                of.entry(key).or_default()[half] = Half { made, proves };
            }
        }
        let mut sides: BTreeMap<u32, Side> = BTreeMap::new();
        for ((from, to), [send, receive]) in of {
            for (rank, own, other) in [(from, send, receive), (to, receive, send)] {
                let side = sides.entry(rank).or_default();
                side.begun = side.begun.saturating_add(other.made);
                side.proved = side.proved.saturating_add(other.proves);
                let missing = other.proves.saturating_sub(own.made);
                side.missing = side.missing.saturating_add(missing);
            }
        }
        Pairs(sides)
    }

    /// What is said of these ranks together.
    pub(super) fn within(&self, ranks: std::ops::RangeInclusive<u32>) -> Side {
        let sides = self.0.range(ranks).map(|(_, side)| side);
        sides.fold(Side::default(), |sum, side| Side {
            begun: sum.begun.saturating_add(side.begun),
            proved: sum.proved.saturating_add(side.proved),
            missing: sum.missing.saturating_add(side.missing),
        })
    }
}
