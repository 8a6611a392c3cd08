//! Operations that can't end, and operations that do not end.
//!
//! [`waits`] compares the ranks of each communicator, lane by lane, and finds at most one operation in each:
//! the first that is open. It is a [`Wait`] if some ranks are in it and some lack it: these are the edges of
//! the wait-for graph. It is a [`Stall`] if all known ranks are in it and it is seen not to end. Sends and
//! receives that lack their other half are waits as well.
//!
//! A rank works off its calls on one communicator, and on one stream, in the order in which it made them. So
//! an operation is left out if a rank of it waits in an earlier one: that one explains both.
//!
//! Rule: a rank lacks an operation only if all its calls are known, so that none of them can be that
//! operation.

mod behind;
mod crossed;

use super::calls::{CaptureCalls, CommunicatorCalls, Lane, Pairs, RankCalls, LANES};
use super::reached::{known, newest, Reached};
use crate::time::HostTime;
use std::collections::{BTreeMap, HashMap};

/// Sends or receives that a host may have made beyond one that does not end: a stream takes about a thousand
/// launches.
const AHEAD: usize = 1100;
/// Of sends and receives that both ranks made, so many are looked at: a GPU stands in one of the oldest that
/// have not ended, and more than these are seldom behind it.
const BEHIND: usize = 64;
/// Earlier sends that show whether the job does the same again and again.
const HABIT: usize = 64;

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
    /// The same of each waiting member.
    pub calls: Vec<(usize, u32)>,
    /// Of a send or receive: how many between the two ranks met their other half before.
    pub met: usize,
    /// The missing members made the other half, but on the other side of a collective that does not end.
    pub is_crossed: bool,
    /// They are sends, which end without their other half if they are small.
    pub may_have_ended: bool,
    /// The later call that the first missing member is in, beside those that wait here.
    pub went_on: Option<Later>,
    /// When the first of the waiting members entered.
    pub since: Option<HostTime>,
}

/// A call that a member made later, instead of one that it lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later {
    pub at: (usize, u32),
    pub ordinal: Option<u64>,
    pub lane: Lane,
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
    /// The same of each member that is seen to be in it.
    pub calls: Vec<(usize, u32)>,
    /// A rank of it waits in an earlier operation on another communicator, and nothing shows whether this one
    /// is behind that.
    pub may_be_behind: bool,
    /// Newest host time of any member's call.
    pub since: Option<HostTime>,
    /// Nobody has launched it.
    pub inside: bool,
    /// All have launched it, and no GPU has come to it.
    pub before: bool,
}

/// Operations that can't end, and operations that do not end.
#[derive(Debug)]
pub(super) struct Waits {
    /// Those that some ranks are in and some lack.
    pub waits: Vec<Wait>,
    /// Those that all ranks are in.
    pub stalls: Vec<Stall>,
    /// Those that all ranks made, but that some have not come to, because a wait of [`Waits::waits`] holds
    /// them up.
    pub held_up: Vec<Wait>,
    /// Those that all ranks made, in an order that can't end; see [`crossed`]. Only if there is no other
    /// wait.
    pub crossed: Vec<Wait>,
}

/// The operations of all communicators that can't end, and those that do not end.
pub(super) fn waits(calls: &CaptureCalls) -> Waits {
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
        search.crossed(index);
    }
    let mut all = behind::settle(calls, search.waits, search.stalls);
    if all.waits.is_empty() {
        all.crossed = crossed::crossed(calls);
    }
    all
}

/// A collective by its place.
#[derive(Clone, Copy)]
struct Operation {
    communicator: usize,
    lane: Lane,
    ordinal: u64,
}

struct Search<'c, 'a> {
    calls: &'c CaptureCalls<'a>,
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
        let process = self.of(at.communicator).ranks[member].process;
        Some(self.calls.reached(process, call))
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
        let open = [inside, unfinished].into_iter().flatten();
        // A rank works off its calls in order, so the earlier one explains the later.
        if let Some(ordinal) = open.filter(|ordinal| *ordinal < least).min() {
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
        let has_ended =
            |index: usize| self.calls.reached(own.process, calls[index]) == Reached::Finished;
        let ended = (0..calls.len()).rposition(has_ended);
        let open = (ended.map_or(0, |i| i + 1)..calls.len())
            .find(|i| self.calls.unfinished(own.process, call(*i)))?;
        let base = match lane {
            Lane::Eager => own.base?,
            Lane::Replay => own.forgotten[1],
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
        let is_before = |member: usize| {
            let call = self.call(at, member);
            call.is_some_and(|(_, call)| self.calls.is_before(ranks[member].process, call))
        };
        let launched = |level: Reached| level >= Reached::Launched;
        let begun = |level: Reached| level >= Reached::Started;
        let members = |these: &dyn Fn(usize, Reached) -> bool| {
            let these = levels
                .iter()
                .filter(|(member, level)| these(*member, *level));
            these.map(|(member, _)| *member).collect::<Vec<usize>>()
        };
        for (lack, waiting, missing) in [
            (
                Lack::Launch,
                members(&|_, level| launched(level)),
                members(&|_, level| !launched(level)),
            ),
            (
                Lack::Start,
                members(&|_, level| begun(level)),
                members(&|member, _| is_before(member)),
            ),
        ] {
            if !missing.is_empty() && !waiting.is_empty() {
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
        let times = calls.iter().flat_map(|call| {
            let process = ranks[call.0].process;
            [
                newest(self.calls.made(at.communicator, *call).0),
                // Not before the one before had ended.
                self.calls.ended_at[process],
            ]
        });
        self.stalls.push(Stall {
            communicator: at.communicator,
            lane: at.lane,
            ordinal: Some(at.ordinal),
            call,
            since: times.flatten().max(),
            inside: levels.iter().all(|(_, level)| *level < Reached::Launched),
            before: levels.iter().all(|(member, _)| is_before(*member)),
            may_be_behind: false,
            calls,
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
        let ranks = &self.of(at.communicator).ranks;
        let since = calls.iter().filter_map(|call| {
            let entered = known(self.calls.made(at.communicator, *call).0.api_ns)?;
            // A GPU waits from when it has ended the call before.
            let before = self.calls.ended_at[ranks[call.0].process];
            Some(match lack {
                Lack::Start => before.map_or(entered, |before| before.max(entered)),
                Lack::Call | Lack::Launch => entered,
            })
        });
        self.waits.push(Wait {
            communicator: at.communicator,
            lane: at.lane,
            ordinal: Some(at.ordinal),
            lack,
            waiting,
            missing,
            call,
            met: 0,
            is_crossed: false,
            may_have_ended: false,
            went_on: None,
            since: since.min(),
            calls,
        });
    }

    /// Sends and receives without their other half. Those that lack the same rank are one wait, in the first
    /// such call. If there is none, the sends and receives that are seen not to end are one stall.
    fn pairs(&mut self, communicator: usize) {
        let ranks = &self.of(communicator).ranks;
        let by_rank = self.by_rank(communicator);
        let mut by_missing: BTreeMap<usize, Wait> = BTreeMap::new();
        let mut not_begun: BTreeMap<usize, Wait> = BTreeMap::new();
        let mut open: Option<Stall> = None;
        for (member, own) in ranks.iter().enumerate() {
            let Some(rank) = own.rank.filter(|_| own.counted) else {
                continue;
            };
            for (send, peer) in own.pairs.keys() {
                let calls = own.pairs(*send, *peer);
                let Some(other) = by_rank.get(peer).copied().filter(|o| *o != member) else {
                    continue;
                };
                let theirs = &ranks[other];
                if !theirs.counted || theirs.at_least {
                    continue;
                }
                let answers = theirs.pairs(!*send, rank);
                let size = |member: usize, call: u32| {
                    let shape = self.calls.made(communicator, (member, call)).1;
                    self.calls.capture.bytes(shape)
                };
                // If two halves differ in size, one was left out there. A rank that has gone far beyond is
                // not held up there.
                let from = calls.made().saturating_sub(AHEAD);
                let differs = |number: &usize| {
                    let both = answers.call(*number).zip(calls.call(*number));
                    both.is_some_and(|(theirs, own)| size(other, theirs) != size(member, own))
                };
                let both = calls.made().min(answers.made());
                let differ = (from..both).find(differs);
                let met = differ.or((both < calls.made()).then_some(both));
                let Some(met) = met else {
                    if let Some((met, call)) = self.not_begun((own, calls), (theirs, answers)) {
                        let halves = Halves {
                            communicator,
                            lack: Lack::Start,
                            waiting: (member, call),
                            missing: other,
                            met,
                            is_crossed: false,
                            may_have_ended: false,
                        };
                        self.add_halves(&mut not_begun, halves);
                        continue;
                    }
                    let last = *calls.calls.last().expect("pairs are not empty");
                    let made = self.calls.made(communicator, (member, last)).0;
                    if answers.made() == calls.made() && self.calls.unfinished(own.process, made) {
                        let since = newest(made);
                        let stall = open.get_or_insert(Stall {
                            communicator,
                            lane: Lane::Eager,
                            ordinal: None,
                            call: (member, last),
                            calls: Vec::new(),
                            may_be_behind: false,
                            since,
                            inside: false,
                            before: false,
                        });
                        stall.calls.push((member, last));
                        stall.since = stall.since.max(since);
                    }
                    continue;
                };
                // What it waits in may be forgotten, if it made many more since.
                let Some(waiting) = calls.call(met).or(calls.calls.first().copied()) else {
                    continue;
                };
                let halves = Halves {
                    communicator,
                    lack: if theirs.inside.is_empty() {
                        Lack::Call
                    } else {
                        Lack::Launch
                    },
                    waiting: (member, waiting),
                    missing: other,
                    met,
                    is_crossed: false,
                    may_have_ended: false,
                };
                self.add_halves(&mut by_missing, halves);
            }
        }
        for (missing, wait) in not_begun {
            by_missing.entry(missing).or_insert(wait);
        }
        if by_missing.is_empty() {
            self.stalls.extend(open);
        }
        self.waits.extend(by_missing.into_values());
    }

    /// The first send or receive that a rank's GPU is in, while that of its peer has not begun the other
    /// half: its number, and the call.
    fn not_begun(
        &self,
        (own, calls): (&RankCalls, Pairs),
        (theirs, answers): (&RankCalls, Pairs),
    ) -> Option<(usize, u32)> {
        let both = calls.made().min(answers.made());
        (both.saturating_sub(BEHIND)..both).find_map(|number| {
            let (call, answer) = calls.call(number).zip(answers.call(number))?;
            let made = &self.calls.capture.processes[own.process].calls[call as usize];
            let is_in = self.calls.reached(own.process, call) == Reached::Started
                && self.calls.unfinished(own.process, made);
            (is_in && self.calls.is_before(theirs.process, answer)).then_some((number, call))
        })
    }

    /// Members by rank, if it is known.
    fn by_rank(&self, communicator: usize) -> HashMap<u32, usize> {
        let ranks = self.of(communicator).ranks.iter().enumerate();
        let by_rank = ranks.filter_map(|(member, own)| Some((own.rank?, member)));
        by_rank.collect()
    }

    /// Sends and receives that can't meet, because a collective that does not end stands between them. One
    /// rank made its half before the collective, and the other rank made its half after it.
    fn crossed(&mut self, communicator: usize) {
        let stalled = |stall: &Stall| match (stall.lane, stall.ordinal) {
            (Lane::Eager, Some(ordinal)) if stall.communicator == communicator => Some(ordinal),
            _ => None,
        };
        let Some(ordinal) = self.stalls.iter().find_map(stalled) else {
            return;
        };
        let ranks = &self.of(communicator).ranks;
        let by_rank = self.by_rank(communicator);
        let known = |own: &RankCalls| own.counted && !own.at_least;
        let mut by_missing: BTreeMap<usize, Wait> = BTreeMap::new();
        for (member, own) in ranks.iter().enumerate().filter(|(_, own)| known(own)) {
            let (Some(rank), Some(until)) = (own.rank, own.call(Lane::Eager, ordinal)) else {
                continue;
            };
            let peers = own.pairs.keys().filter(|(send, _)| *send);
            for (_, peer) in peers {
                let sends = own.pairs(true, *peer);
                let other = by_rank.get(peer).copied().filter(|other| *other != member);
                let theirs = other.map(|other| &ranks[other]).filter(|own| known(own));
                let (Some(other), Some(theirs)) = (other, theirs) else {
                    continue;
                };
                let Some(their_until) = theirs.call(Lane::Eager, ordinal) else {
                    continue;
                };
                let receives = theirs.pairs(false, rank);
                let sent = sends.before(until);
                let received = receives.before(their_until);
                let together = |at: usize, calls: Pairs, member: usize, until: u32| {
                    let group = |call: u32| self.calls.made(communicator, (member, call)).0.group;
                    let beside = [at.checked_sub(1), Some(at)].into_iter().flatten();
                    let mut beside = beside.filter_map(|number| calls.call(number));
                    group(until) != 0 && beside.any(|call| group(call) == group(until))
                };
                // Calls of one group have no order.
                if together(sent, sends, member, until)
                    || together(received, receives, other, their_until)
                {
                    continue;
                }
                let (a, b) = (receives.call(sent), sends.call(received));
                let halves = if let Some(receive) = a.filter(|_| received > sent) {
                    Halves {
                        communicator,
                        lack: Lack::Call,
                        waiting: (other, receive),
                        missing: member,
                        met: sent,
                        is_crossed: true,
                        may_have_ended: false,
                    }
                } else if let Some(send) = b.filter(|_| {
                    sent > received && !self.is_habit(communicator, (member, other), received)
                }) {
                    Halves {
                        communicator,
                        lack: Lack::Call,
                        waiting: (member, send),
                        missing: other,
                        met: received,
                        is_crossed: true,
                        may_have_ended: true,
                    }
                } else {
                    continue;
                };
                self.add_halves(&mut by_missing, halves);
            }
        }
        self.waits.extend(by_missing.into_values());
    }

    /// Whether a send before this one was received only after a collective that came behind it, and ended all
    /// the same.
    fn is_habit(&self, communicator: usize, (from, to): (usize, usize), number: usize) -> bool {
        let ranks = &self.of(communicator).ranks;
        let (Some(sender), Some(receiver)) = (ranks[from].rank, ranks[to].rank) else {
            return false;
        };
        let before = |member: usize, call: u32| {
            ranks[member].calls[Lane::Eager as usize].partition_point(|c| *c < call)
        };
        (number.saturating_sub(HABIT)..number).any(|number| {
            let send = ranks[from].pairs(true, receiver).call(number);
            let receive = ranks[to].pairs(false, sender).call(number);
            send.zip(receive)
                .is_some_and(|(send, receive)| before(from, send) < before(to, receive))
        })
    }

    /// Adds a send or receive without its other half to those that lack the same rank.
    fn add_halves(&self, by_missing: &mut BTreeMap<usize, Wait>, halves: Halves) {
        let (member, call) = halves.waiting;
        let since = known(
            self.calls
                .made(halves.communicator, halves.waiting)
                .0
                .api_ns,
        );
        let wait = by_missing.entry(halves.missing).or_insert(Wait {
            communicator: halves.communicator,
            lane: Lane::Eager,
            ordinal: None,
            lack: halves.lack,
            waiting: Vec::new(),
            missing: vec![halves.missing],
            call: halves.waiting,
            calls: Vec::new(),
            met: halves.met,
            is_crossed: halves.is_crossed,
            may_have_ended: halves.may_have_ended,
            went_on: None,
            since,
        });
        wait.is_crossed &= halves.is_crossed;
        wait.may_have_ended &= halves.may_have_ended;
        match wait
            .calls
            .iter_mut()
            .find(|(waiting, _)| *waiting == member)
        {
            Some((_, earliest)) => *earliest = call.min(*earliest),
            None => {
                wait.waiting.push(member);
                wait.calls.push((member, call));
            }
        }
        if since.is_some() && since < wait.since {
            (wait.since, wait.call, wait.met) = (since, halves.waiting, halves.met);
        }
    }
}

/// A send or receive without its other half.
struct Halves {
    communicator: usize,
    lack: Lack,
    /// The member that waits in it, and its call.
    waiting: (usize, u32),
    /// The member that lacks the other half.
    missing: usize,
    met: usize,
    /// See [`Wait::is_crossed`].
    is_crossed: bool,
    /// See [`Wait::may_have_ended`].
    may_have_ended: bool,
}
