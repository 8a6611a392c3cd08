//! The operations that can't end, and those that do not.
//!
//! A [`Wait`] is an operation that can't end: some ranks are in it and some lack it. A [`Stall`] is one that all ranks are
//! in and that is seen not to end.
//!
//! Rule: a rank is said to lack an operation only where all its calls are known.

use super::places::{Lane, Places, LANES};
use super::reached::{known, newest, reached, Reached};
use std::collections::{BTreeMap, HashMap};

/// What a rank lacks of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// It did not make the call.
    Call,
    /// It is in the call and has not launched it.
    Launch,
    /// It launched the call and its GPU did not begin.
    Start,
}

/// An operation that some are in and some lack. Seats are indexes into the place's.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub place: usize,
    /// The operation's number on its lane; `None` for sends and receives.
    pub ordinal: Option<u64>,
    pub lane: Lane,
    pub lack: Lack,
    /// Ranks in it.
    pub waiting: Vec<usize>,
    /// Ranks that lack it.
    pub missing: Vec<usize>,
    /// The call as a waiting seat made it: seat and index.
    pub call: (usize, u32),
    /// Of a send or receive: how many between the two ranks found their other half before.
    pub met: usize,
    /// When the first of them entered, ns since 1970.
    pub since_ns: Option<i64>,
}

/// An operation that all known ranks are in and that did not end.
#[derive(Clone, Debug)]
pub(super) struct Stall {
    pub place: usize,
    pub ordinal: Option<u64>,
    pub lane: Lane,
    pub call: (usize, u32),
    /// Newest sign of life of it, ns since 1970.
    pub since_ns: Option<i64>,
    /// Nobody has launched it.
    pub inside: bool,
}

impl Places<'_> {
    /// Operations that can't end, and those that do not.
    pub fn waits(&self) -> (Vec<Wait>, Vec<Stall>) {
        let (mut waits, mut stalls) = (Vec::new(), Vec::new());
        for (index, place) in self.places.iter().enumerate() {
            if place.is_over() || place.seats.len() as u32 + place.nabsent < 2 {
                continue;
            }
            for lane in LANES {
                self.lane(index, lane, &mut waits, &mut stalls);
            }
            self.pairs(index, &mut waits, &mut stalls);
        }
        (waits, stalls)
    }

    fn lane(&self, index: usize, lane: Lane, waits: &mut Vec<Wait>, stalls: &mut Vec<Stall>) {
        let place = &self.places[index];
        let counts: Vec<(usize, u64)> = place
            .seats
            .iter()
            .enumerate()
            .filter_map(|(seat, s)| Some((seat, s.entered(lane)?)))
            // Where replays can't be seen there is nothing to compare.
            .filter(|(_, n)| lane == Lane::Eager || *n > 0)
            .collect();
        let Some(most) = counts.iter().map(|(_, n)| *n).max().filter(|n| *n > 0) else {
            return;
        };
        // A rank that may have made more calls than are known is never said to lack one.
        let certain = |seat: usize| !place.seats[seat].at_least;
        let least = counts.iter().filter(|(s, _)| certain(*s)).map(|(_, n)| *n);
        let least = least.min().unwrap_or(most);
        let unfinished = counts.iter().filter_map(|(seat, _)| {
            let of = &place.seats[*seat];
            let calls = &of.calls[lane as usize];
            let process = &self.capture.processes[of.process];
            let ended = calls
                .iter()
                .rposition(|c| reached(process, &process.calls[*c as usize]) == Reached::Finished);
            let open = (ended.map_or(0, |i| i + 1)..calls.len())
                .find(|i| self.unfinished(of.process, &process.calls[calls[*i] as usize]))?;
            Some(if lane == Lane::Eager { of.base? } else { 0 } + open as u64)
        });
        let at = |seat: usize, ordinal: u64| {
            let call = place.seats[seat].call(lane, ordinal)?;
            let process = self.process(index, seat);
            Some(reached(process, &process.calls[call as usize]))
        };
        // A rank in a call that it has not launched lacks that one, however far others are ahead.
        let inside = counts.iter().filter_map(|(seat, n)| {
            let back = (1..=*n).take_while(|back| {
                at(*seat, n - back).is_some_and(|level| level < Reached::Launched)
            });
            Some(n - back.last()?)
        });
        if let Some(inside) = inside.min().filter(|inside| *inside < least) {
            self.all_in(index, lane, inside, &counts, at, waits, stalls);
            return;
        }
        if let Some(open) = unfinished.min().filter(|open| *open < least) {
            self.all_in(index, lane, open, &counts, at, waits, stalls);
            return;
        }
        if least < most {
            let (missing, waiting): (Vec<_>, Vec<_>) = counts
                .iter()
                .filter(|(s, n)| *n > least || certain(*s))
                .partition(|(_, n)| *n == least);
            let waiting: Vec<usize> = waiting.into_iter().map(|(s, _)| s).collect();
            let missing = missing.into_iter().map(|(s, _)| s).collect();
            self.wait(index, lane, least, Lack::Call, waiting, missing, waits);
        }
    }

    /// Adds a wait where some come less far than others, else a stall.
    #[allow(clippy::too_many_arguments)]
    fn all_in(
        &self,
        index: usize,
        lane: Lane,
        ordinal: u64,
        counts: &[(usize, u64)],
        at: impl Fn(usize, u64) -> Option<Reached>,
        waits: &mut Vec<Wait>,
        stalls: &mut Vec<Stall>,
    ) {
        let levels: Vec<(usize, Reached)> = counts
            .iter()
            .filter_map(|(seat, _)| Some((*seat, at(*seat, ordinal)?)))
            .collect();
        for (lack, below) in [
            (Lack::Launch, Reached::Launched),
            (Lack::Start, Reached::Started),
        ] {
            // Only where stamps come is it known that a GPU has not begun.
            let told = |seat: usize| {
                lack == Lack::Launch || self.stamped[self.places[index].seats[seat].process]
            };
            let (missing, waiting): (Vec<_>, Vec<_>) =
                levels.iter().partition(|(_, level)| *level < below);
            let missing: Vec<usize> = missing.into_iter().map(|(s, _)| s).collect();
            if !missing.is_empty() && !waiting.is_empty() && missing.iter().all(|s| told(*s)) {
                let waiting = waiting.into_iter().map(|(s, _)| s).collect();
                self.wait(index, lane, ordinal, lack, waiting, missing, waits);
                return;
            }
        }
        let Some((seat, call)) = levels.iter().find_map(|(seat, _)| {
            Some((*seat, self.places[index].seats[*seat].call(lane, ordinal)?))
        }) else {
            return;
        };
        let newest = levels.iter().filter_map(|(seat, _)| {
            let call = self.places[index].seats[*seat].call(lane, ordinal)?;
            newest(self.made(index, (*seat, call)).0)
        });
        stalls.push(Stall {
            place: index,
            ordinal: Some(ordinal),
            lane,
            call: (seat, call),
            since_ns: newest.max(),
            inside: levels.iter().all(|(_, level)| *level < Reached::Launched),
        });
    }

    #[allow(clippy::too_many_arguments)]
    fn wait(
        &self,
        index: usize,
        lane: Lane,
        ordinal: u64,
        lack: Lack,
        waiting: Vec<usize>,
        missing: Vec<usize>,
        waits: &mut Vec<Wait>,
    ) {
        let calls: Vec<(usize, u32)> = waiting
            .iter()
            .filter_map(|seat| Some((*seat, self.places[index].seats[*seat].call(lane, ordinal)?)))
            .collect();
        let Some(call) = calls.first().copied() else {
            return;
        };
        let since = calls
            .iter()
            .filter_map(|call| known(self.made(index, *call).0.api_ns));
        waits.push(Wait {
            place: index,
            ordinal: Some(ordinal),
            lane,
            lack,
            waiting,
            missing,
            call,
            met: 0,
            since_ns: since.min(),
        });
    }

    /// Sends and receives without their other half. Those that lack the same rank are one wait, in the first such call.
    fn pairs(&self, index: usize, waits: &mut Vec<Wait>, stalls: &mut Vec<Stall>) {
        let place = &self.places[index];
        let by_rank: HashMap<u32, usize> = place
            .seats
            .iter()
            .enumerate()
            .filter_map(|(seat, s)| Some((s.rank?, seat)))
            .collect();
        let mut by_missing: BTreeMap<usize, Wait> = BTreeMap::new();
        let mut open: Option<Stall> = None;
        for (seat, own) in place.seats.iter().enumerate() {
            let Some(rank) = own.rank.filter(|_| own.whole) else {
                continue;
            };
            for ((send, peer), calls) in &own.pairs {
                let Some(other) = by_rank.get(peer).copied().filter(|o| *o != seat) else {
                    continue;
                };
                let theirs = &place.seats[other];
                if !theirs.whole || theirs.at_least {
                    continue;
                }
                let met = theirs.pairs.get(&(!*send, rank)).map_or(0, Vec::len);
                let Some(call) = calls.get(met).copied() else {
                    let last = *calls.last().expect("pairs are not empty");
                    let made = self.made(index, (seat, last)).0;
                    if met == calls.len() && self.unfinished(own.process, made) {
                        let since = newest(made);
                        let stall = open.get_or_insert(Stall {
                            place: index,
                            ordinal: None,
                            lane: Lane::Eager,
                            call: (seat, last),
                            since_ns: since,
                            inside: false,
                        });
                        stall.since_ns = stall.since_ns.max(since);
                    }
                    continue;
                };
                // Where halves of different sizes stand together before, one was left out there.
                let size = |seat: usize, call: u32| {
                    let shape = self.made(index, (seat, call)).1;
                    (shape.count, shape.datatype)
                };
                let differs = |number: &usize| {
                    let half = theirs.pair(!*send, rank, *number);
                    half.is_none_or(|half| size(other, half) != size(seat, calls[*number]))
                };
                let met = (0..met).find(differs).unwrap_or(met);
                let call = if met < calls.len() { calls[met] } else { call };
                let since = known(self.made(index, (seat, call)).0.api_ns);
                let wait = by_missing.entry(other).or_insert(Wait {
                    place: index,
                    ordinal: None,
                    lane: Lane::Eager,
                    lack: if theirs.inside.is_empty() {
                        Lack::Call
                    } else {
                        Lack::Launch
                    },
                    waiting: Vec::new(),
                    missing: vec![other],
                    call: (seat, call),
                    met,
                    since_ns: since,
                });
                if wait.waiting.last() != Some(&seat) {
                    wait.waiting.push(seat);
                }
                if since.is_some() && since < wait.since_ns {
                    (wait.since_ns, wait.call, wait.met) = (since, (seat, call), met);
                }
            }
        }
        if by_missing.is_empty() {
            stalls.extend(open);
        }
        waits.extend(by_missing.into_values());
    }
}
