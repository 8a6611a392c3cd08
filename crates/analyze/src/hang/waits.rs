//! Operations that can't end, and operations that do not end.
//!
//! [`waits`] compares the ranks of each communicator, lane by lane, and finds at most one operation in each:
//! the first that is open. It is a [`Wait`] if some ranks are in it and some lack it: these are the edges of
//! the wait-for graph. It is a [`Stall`] if all known ranks are in it and it is seen not to end. Sends and
//! receives that lack their other half are waits as well.
//!
//! Rule: a rank lacks an operation only if all its calls are known, so that none of them can be that
//! operation.

use super::calls::{Calls, CommunicatorCalls, Lane, RankCalls, LANES};
use super::reached::{known, newest, reached, Reached};
use std::collections::{BTreeMap, HashMap};

/// What a rank lacks of an operation that others are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// It did not make the call.
    Call,
    /// It is in the call and has not launched it.
    Launch,
    /// It launched the call, and its GPU has not begun it.
    Start,
}

/// An operation that some members of a communicator are in and some lack.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub communicator: usize,
    pub lane: Lane,
    /// The operation's number on its lane; `None` for sends and receives.
    pub ordinal: Option<u64>,
    /// What those lack that it waits for.
    pub lack: Lack,
    /// Members that are in it.
    pub waiting: Vec<usize>,
    /// Members that lack it.
    pub missing: Vec<usize>,
    /// The call as a waiting member made it: member, and index of the call.
    pub call: (usize, u32),
    /// Of a send or receive: how many between the two ranks met their other half before.
    pub met: usize,
    /// When the first of the waiting members entered, ns since 1970.
    pub since_ns: Option<i64>,
}

/// An operation that all known members of a communicator are in and that did not end.
#[derive(Clone, Debug)]
pub(super) struct Stall {
    pub communicator: usize,
    pub lane: Lane,
    /// The operation's number on its lane; `None` for sends and receives.
    pub ordinal: Option<u64>,
    /// The call as one member made it: member, and index of the call.
    pub call: (usize, u32),
    /// Newest host time of any member's call, ns since 1970.
    pub since_ns: Option<i64>,
    /// Nobody has launched it.
    pub inside: bool,
}

/// The operations of all communicators that can't end, and those that do not end.
pub(super) fn waits(calls: &Calls) -> (Vec<Wait>, Vec<Stall>) {
    let mut search = Search {
        calls,
        waits: Vec::new(),
        stalls: Vec::new(),
    };
    for (index, communicator) in calls.communicators.iter().enumerate() {
        if communicator.is_over() || !communicator.is_shared() {
            continue;
        }
        for lane in LANES {
            search.lane(index, lane);
        }
        search.pairs(index);
    }
    (search.waits, search.stalls)
}

/// A collective by its place.
#[derive(Clone, Copy)]
struct Operation {
    communicator: usize,
    lane: Lane,
    ordinal: u64,
}

struct Search<'c, 'a> {
    calls: &'c Calls<'a>,
    waits: Vec<Wait>,
    stalls: Vec<Stall>,
}

impl<'c> Search<'c, '_> {
    fn of(&self, communicator: usize) -> &'c CommunicatorCalls {
        &self.calls.communicators[communicator]
    }

    /// A member's call in an operation.
    fn call(&self, at: Operation, member: usize) -> Option<(usize, u32)> {
        let own = &self.of(at.communicator).ranks[member];
        Some((member, own.call(at.lane, at.ordinal)?))
    }

    /// How far a member came in an operation.
    fn reached(&self, at: Operation, member: usize) -> Option<Reached> {
        let (_, call) = self.call(at, member)?;
        let process = self.calls.process(at.communicator, member);
        Some(reached(process, &process.calls[call as usize]))
    }

    /// The first open operation of a lane.
    fn lane(&mut self, communicator: usize, lane: Lane) {
        let ranks = &self.of(communicator).ranks;
        let counts: Vec<(usize, u64)> = ranks
            .iter()
            .enumerate()
            .filter_map(|(member, own)| Some((member, own.entered(lane)?)))
            // Without any replay there is nothing to compare: NCCL may not show them.
            .filter(|(_, n)| lane == Lane::Eager || *n > 0)
            .collect();
        let Some(most) = counts.iter().map(|(_, n)| *n).max().filter(|n| *n > 0) else {
            return;
        };
        // A rank that may have made more calls than are known lacks none.
        let certain = |member: usize| !ranks[member].at_least;
        let least = counts.iter().filter(|(m, _)| certain(*m)).map(|(_, n)| *n);
        let least = least.min().unwrap_or(most);
        let at = |ordinal: u64| Operation {
            communicator,
            lane,
            ordinal,
        };
        // A rank in a call that it has not launched lacks that one, however far the others are ahead.
        let inside = counts.iter().filter_map(|(member, n)| {
            let back = (1..=*n).take_while(|back| {
                let level = self.reached(at(n - back), *member);
                level.is_some_and(|level| level < Reached::Launched)
            });
            Some(n - back.last()?)
        });
        let inside = inside.min();
        let unfinished = counts
            .iter()
            .filter_map(|(member, _)| self.unfinished(&ranks[*member], lane))
            .min();
        let open = [inside, unfinished].map(|ordinal| ordinal.filter(|ordinal| *ordinal < least));
        if let Some(ordinal) = open[0].or(open[1]) {
            self.all_in(at(ordinal), &counts);
        } else if least < most {
            let (missing, waiting): (Vec<_>, Vec<_>) = counts
                .iter()
                .filter(|(member, n)| *n > least || certain(*member))
                .partition(|(_, n)| *n == least);
            let members = |these: Vec<(usize, u64)>| these.into_iter().map(|(m, _)| m).collect();
            self.wait(at(least), Lack::Call, members(waiting), members(missing));
        }
    }

    /// Ordinal of a rank's first call on a lane that is seen not to have ended.
    fn unfinished(&self, own: &RankCalls, lane: Lane) -> Option<u64> {
        let calls = &own.calls[lane as usize];
        let process = &self.calls.capture.processes[own.process];
        let call = |index: usize| &process.calls[calls[index] as usize];
        let ended = (0..calls.len()).rposition(|i| reached(process, call(i)) == Reached::Finished);
        let open = (ended.map_or(0, |i| i + 1)..calls.len())
            .find(|i| self.calls.unfinished(own.process, call(*i)))?;
        let base = match lane {
            Lane::Eager => own.base?,
            Lane::Replay => 0,
        };
        Some(base + open as u64)
    }

    /// All members are in an operation: adds a wait if some come less far than others, else a stall.
    fn all_in(&mut self, at: Operation, counts: &[(usize, u64)]) {
        let ranks = &self.of(at.communicator).ranks;
        let levels: Vec<(usize, Reached)> = counts
            .iter()
            .filter_map(|(member, _)| Some((*member, self.reached(at, *member)?)))
            .collect();
        for (lack, below) in [
            (Lack::Launch, Reached::Launched),
            (Lack::Start, Reached::Started),
        ] {
            // Only stamps show that a GPU has not begun.
            let shown =
                |member: &usize| lack == Lack::Launch || self.calls.stamped[ranks[*member].process];
            let members = |missing: bool| {
                let these = levels
                    .iter()
                    .filter(|(_, level)| (*level < below) == missing);
                these.map(|(member, _)| *member).collect::<Vec<usize>>()
            };
            let (missing, waiting) = (members(true), members(false));
            if !missing.is_empty() && !waiting.is_empty() && missing.iter().all(shown) {
                self.wait(at, lack, waiting, missing);
                return;
            }
        }
        let calls: Vec<(usize, u32)> = levels
            .iter()
            .filter_map(|(member, _)| self.call(at, *member))
            .collect();
        let Some(call) = calls.first().copied() else {
            return;
        };
        let times = calls
            .iter()
            .filter_map(|call| newest(self.calls.made(at.communicator, *call).0));
        self.stalls.push(Stall {
            communicator: at.communicator,
            lane: at.lane,
            ordinal: Some(at.ordinal),
            call,
            since_ns: times.max(),
            inside: levels.iter().all(|(_, level)| *level < Reached::Launched),
        });
    }

    fn wait(&mut self, at: Operation, lack: Lack, waiting: Vec<usize>, missing: Vec<usize>) {
        let calls: Vec<(usize, u32)> = waiting
            .iter()
            .filter_map(|member| self.call(at, *member))
            .collect();
        let Some(call) = calls.first().copied() else {
            return;
        };
        let since = calls
            .iter()
            .filter_map(|call| known(self.calls.made(at.communicator, *call).0.api_ns));
        self.waits.push(Wait {
            communicator: at.communicator,
            lane: at.lane,
            ordinal: Some(at.ordinal),
            lack,
            waiting,
            missing,
            call,
            met: 0,
            since_ns: since.min(),
        });
    }

    /// Sends and receives without their other half. Those that lack the same rank are one wait, in the first
    /// such call. If there is none, the sends and receives that are seen not to end are one stall.
    fn pairs(&mut self, communicator: usize) {
        let ranks = &self.of(communicator).ranks;
        let by_rank: HashMap<u32, usize> = ranks
            .iter()
            .enumerate()
            .filter_map(|(member, own)| Some((own.rank?, member)))
            .collect();
        let mut by_missing: BTreeMap<usize, Wait> = BTreeMap::new();
        let mut open: Option<Stall> = None;
        for (member, own) in ranks.iter().enumerate() {
            let Some(rank) = own.rank.filter(|_| own.whole) else {
                continue;
            };
            for ((send, peer), calls) in &own.pairs {
                let Some(other) = by_rank.get(peer).copied().filter(|o| *o != member) else {
                    continue;
                };
                let theirs = &ranks[other];
                if !theirs.whole || theirs.at_least {
                    continue;
                }
                let met = theirs.pairs.get(&(!*send, rank)).map_or(0, Vec::len);
                let Some(call) = calls.get(met).copied() else {
                    let last = *calls.last().expect("pairs are not empty");
                    let made = self.calls.made(communicator, (member, last)).0;
                    if met == calls.len() && self.calls.unfinished(own.process, made) {
                        let since = newest(made);
                        let stall = open.get_or_insert(Stall {
                            communicator,
                            lane: Lane::Eager,
                            ordinal: None,
                            call: (member, last),
                            since_ns: since,
                            inside: false,
                        });
                        stall.since_ns = stall.since_ns.max(since);
                    }
                    continue;
                };
                // If two halves before this one differ in size, one was left out there.
                let size = |member: usize, call: u32| {
                    let shape = self.calls.made(communicator, (member, call)).1;
                    (shape.count, shape.datatype)
                };
                let differs = |number: &usize| {
                    let half = theirs.pair(!*send, rank, *number);
                    half.is_none_or(|half| size(other, half) != size(member, calls[*number]))
                };
                let met = (0..met).find(differs).unwrap_or(met);
                let call = if met < calls.len() { calls[met] } else { call };
                let since = known(self.calls.made(communicator, (member, call)).0.api_ns);
                let wait = by_missing.entry(other).or_insert(Wait {
                    communicator,
                    lane: Lane::Eager,
                    ordinal: None,
                    lack: match theirs.inside.is_empty() {
                        true => Lack::Call,
                        false => Lack::Launch,
                    },
                    waiting: Vec::new(),
                    missing: vec![other],
                    call: (member, call),
                    met,
                    since_ns: since,
                });
                if wait.waiting.last() != Some(&member) {
                    wait.waiting.push(member);
                }
                if since.is_some() && since < wait.since_ns {
                    (wait.since_ns, wait.call, wait.met) = (since, (member, call), met);
                }
            }
        }
        if by_missing.is_empty() {
            self.stalls.extend(open);
        }
        self.waits.extend(by_missing.into_values());
    }
}
