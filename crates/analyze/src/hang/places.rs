//! Where each rank stands on each communicator, and who waits for whom.
//!
//! A [`Place`] is a communicator with a [`Seat`] for each rank that the capture holds. A seat has the rank's calls in the
//! order they were made: collectives, replays of captured ones (a lane of their own, because NCCL shows them when the GPU
//! reaches them), and sends and receives by peer. The k-th collective of every rank is one operation, since NCCL wants
//! all ranks to make them in one order; the k-th send from a to b meets the k-th receive at b from a.
//!
//! A [`Wait`] is an operation that can't end: some ranks are in it and some lack it. A [`Stall`] is one that all ranks are
//! in and that is seen not to end.
//!
//! Rule: a rank is said to lack an operation only where all its calls are known. After lost rows, NCCL's sequence numbers
//! must put its calls beside another rank's; else it counts as absent.

use capture::live::{flag, part, Cause};
use std::collections::{BTreeMap, HashMap};
use tables::{Call, Capture, Name, Process, Shape};

/// A damaged file may tell of any number of ranks; more than these are not named one by one.
const MOST_RANKS: u32 = 1 << 20;

/// How far a call came on one rank, by what was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reached {
    /// The program is in it; NCCL has not planned it.
    Entered,
    /// NCCL has planned it.
    Enqueued,
    /// Its kernel was launched, or the call returned.
    Launched,
    /// The GPU began it.
    Started,
    /// The GPU ended it.
    Finished,
}

/// Lanes of calls that are made in the same order by all ranks.
pub(super) const LANES: [Lane; 2] = [Lane::Eager, Lane::Replay];

/// See [`LANES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    Eager = 0,
    Replay = 1,
}

/// One rank of a communicator.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// Index of the process.
    pub process: usize,
    /// The communicator's number in the process.
    pub uid: u32,
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// Who waits: a process, or one GPU of a process with several.
    pub node: usize,
    /// When it destroyed the communicator.
    pub ended_ns: Option<i64>,
    /// Indexes of calls, by lane.
    pub calls: [Vec<u32>; 2],
    /// Ordinal of the first call of the eager lane; `None` when that can't be told.
    pub base: Option<u64>,
    /// Sends (`true`) and receives by peer.
    pairs: BTreeMap<(bool, u32), Vec<u32>>,
    /// Sends and receives that were entered, whose peer NCCL has not told.
    pub inside: Vec<u32>,
    /// All calls since the communicator's beginning are known.
    whole: bool,
    /// Newer calls may have been made than are known.
    at_least: bool,
}

impl Seat {
    /// Number of operations it entered on a lane, where that is known.
    pub fn entered(&self, lane: Lane) -> Option<u64> {
        let calls = self.calls[lane as usize].len() as u64;
        match lane {
            Lane::Eager => Some(self.base? + calls),
            Lane::Replay => self.whole.then_some(calls),
        }
    }

    /// Its newest send or receive that came this far.
    pub fn newest_piece(&self, process: &Process, at_least: Reached) -> Option<u32> {
        let all = self.pairs.values().flatten().chain(&self.inside);
        all.copied()
            .filter(|call| reached(process, &process.calls[*call as usize]) >= at_least)
            .max()
    }

    /// Of its sends to (`true`) or receives from a peer, the one with this number.
    pub fn pair(&self, send: bool, peer: u32, number: usize) -> Option<u32> {
        self.pairs.get(&(send, peer))?.get(number).copied()
    }

    /// Its call with this ordinal.
    pub fn call(&self, lane: Lane, ordinal: u64) -> Option<u32> {
        let base = match lane {
            Lane::Eager => self.base?,
            Lane::Replay => 0,
        };
        let index = usize::try_from(ordinal.checked_sub(base)?).ok()?;
        self.calls[lane as usize].get(index).copied()
    }
}

/// A communicator.
#[derive(Debug)]
pub(super) struct Place {
    /// Index in the capture.
    pub communicator: usize,
    pub seats: Vec<Seat>,
    /// Ranks of which the capture holds nothing, where they can be named.
    pub absent: Vec<u32>,
    /// How many there are.
    pub nabsent: u32,
    /// Whether ordinals count from the communicator's first call.
    pub numbered: bool,
}

impl Place {
    /// Whether something of some rank is not known.
    pub fn is_partial(&self) -> bool {
        self.nabsent > 0
            || self
                .seats
                .iter()
                .any(|s| s.base.is_none() || s.at_least || s.calls[1].len() > 1 && !s.whole)
    }

    /// Whether all its ranks have destroyed it.
    pub fn is_over(&self) -> bool {
        self.seats.iter().all(|seat| seat.ended_ns.is_some())
    }
}

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
    pub place: usize,
    pub ordinal: u64,
    /// Those that made what most made, by seat.
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

/// A capture's places.
pub(super) struct Places<'a> {
    pub capture: &'a Capture,
    pub places: Vec<Place>,
    /// How many nodes there are.
    pub nodes: usize,
    /// By process: whether kernel stamps are delivered.
    stamped: Vec<bool>,
}

impl<'a> Places<'a> {
    pub fn new(capture: &'a Capture) -> Places<'a> {
        let mut places: Vec<Place> = Vec::with_capacity(capture.communicators.len());
        let mut seats: HashMap<(usize, u32), (usize, usize)> = HashMap::new();
        let mut nodes = 0;
        let mut node_of: HashMap<(usize, Option<u32>), usize> = HashMap::new();
        for (index, communicator) in capture.communicators.iter().enumerate() {
            let mut place = Place {
                communicator: index,
                seats: Vec::with_capacity(communicator.members.len()),
                absent: Vec::new(),
                nabsent: 0,
                numbered: true,
            };
            for member in &communicator.members {
                let process = &capture.processes[member.process];
                let local = process.communicators.iter().find(|l| l.uid == member.uid);
                let device = local.and_then(|l| l.device);
                let node = *node_of.entry((member.process, device)).or_insert_with(|| {
                    nodes += 1;
                    nodes - 1
                });
                seats.insert((member.process, member.uid), (index, place.seats.len()));
                place.seats.push(Seat {
                    process: member.process,
                    uid: member.uid,
                    rank: member.rank,
                    node,
                    ended_ns: local.and_then(|l| l.ended_ns),
                    ..Seat::default()
                });
            }
            if let Some(nranks) = communicator.nranks {
                place.nabsent = nranks.saturating_sub(place.seats.len() as u32);
                let named = nranks <= MOST_RANKS && place.seats.iter().all(|s| s.rank.is_some());
                if place.nabsent > 0 && named {
                    let mut there = vec![false; nranks as usize];
                    for rank in place.seats.iter().filter_map(|s| s.rank) {
                        if let Some(there) = there.get_mut(rank as usize) {
                            *there = true;
                        }
                    }
                    let absent = there.iter().enumerate().filter(|(_, there)| !**there);
                    place.absent = absent.map(|(rank, _)| rank as u32).collect();
                }
            }
            places.push(place);
        }
        let mut all = Places {
            capture,
            places,
            nodes,
            stamped: capture
                .processes
                .iter()
                .map(|p| {
                    p.fact("timing") == Some("stamps")
                        && p.calls.iter().any(|c| c.channels_started > 0)
                })
                .collect(),
        };
        for (index, process) in capture.processes.iter().enumerate() {
            all.seat(index, process, &seats);
        }
        for place in &mut all.places {
            align(capture, place);
        }
        all
    }

    /// Deals the calls of a process out to its seats.
    fn seat(
        &mut self,
        index: usize,
        process: &Process,
        seats: &HashMap<(usize, u32), (usize, usize)>,
    ) {
        let whole = process
            .calls
            .iter()
            .enumerate()
            .all(|(i, call)| call.ticket == i as u64)
            && process.shapeless == 0;
        let rowless = process
            .counters
            .as_ref()
            .is_some_and(|c| c.lost.get(Cause::RowsFull as usize).is_some_and(|n| *n > 0));
        let of_shape: Vec<Option<(usize, usize)>> = process
            .shapes
            .iter()
            .map(|shape| seats.get(&(index, shape.uid)).copied())
            .collect();
        for (place, seat) in process
            .communicators
            .iter()
            .filter_map(|local| seats.get(&(index, local.uid)))
        {
            let seat = &mut self.places[*place].seats[*seat];
            (seat.whole, seat.at_least) = (whole, rowless);
        }
        for (number, call) in process.calls.iter().enumerate() {
            let shape = &process.shapes[call.shape as usize];
            let Some((place, seat)) = of_shape[call.shape as usize] else {
                continue;
            };
            if shape.is(flag::CAPTURED) {
                continue;
            }
            let seat = &mut self.places[place].seats[seat];
            let number = number as u32;
            if shape.is(flag::REPLAY) {
                seat.calls[Lane::Replay as usize].push(number);
            } else if !shape.is(flag::P2P) {
                seat.calls[Lane::Eager as usize].push(number);
            } else if let Some(peer) = shape.peer {
                let send = self.capture.names.get(shape.function) == Some("Send");
                seat.pairs.entry((send, peer)).or_default().push(number);
            } else if reached(process, call) < Reached::Launched {
                seat.inside.push(number);
            }
        }
    }

    pub fn process(&self, place: usize, seat: usize) -> &'a Process {
        &self.capture.processes[self.places[place].seats[seat].process]
    }

    pub fn made(&self, place: usize, (seat, call): (usize, u32)) -> (&'a Call, &'a Shape) {
        let process = self.process(place, seat);
        let call = &process.calls[call as usize];
        (call, &process.shapes[call.shape as usize])
    }

    /// Function of the operation that a call is a part of.
    pub fn function(&self, place: usize, (seat, call): (usize, u32)) -> Name {
        let process = self.process(place, seat);
        let call = &process.calls[call as usize];
        let composite = (call.composite as usize).wrapping_sub(1);
        process
            .composites
            .get(composite)
            .map_or(process.shapes[call.shape as usize].function, |composite| {
                composite.function
            })
    }

    /// Whether a call is seen not to have ended.
    pub fn unfinished(&self, process: usize, call: &Call) -> bool {
        let of = &self.capture.processes[process];
        let shape = &of.shapes[call.shape as usize];
        if call.sealed || shape.parts & part::ENQUEUED == 0 {
            return false;
        }
        let no_kernel = part::COPY_ENGINE | part::SYMMETRIC;
        let stamps = self.stamped[process] && shape.parts & no_kernel == 0;
        let network = (call.extra as usize)
            .checked_sub(1)
            .and_then(|extra| of.extras.get(extra))
            .is_some_and(|extra| extra.ops_started > extra.ops_stopped);
        network || stamps && reached(of, call) != Reached::Finished
    }

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
        (0..self.places.len())
            .filter_map(|place| self.mismatch(place, &keys))
            .collect()
    }

    fn mismatch(&self, index: usize, keys: &[Vec<u32>]) -> Option<Mismatch> {
        let place = &self.places[index];
        let lane = Lane::Eager;
        let of = |seat: usize, ordinal: u64| {
            let s = &place.seats[seat];
            let call = &self.capture.processes[s.process].calls[s.call(lane, ordinal)? as usize];
            Some((keys[s.process][call.shape as usize], call.group))
        };
        let reference = (0..place.seats.len())
            .filter(|s| place.seats[*s].base.is_some())
            .max_by_key(|s| (place.seats[*s].calls[0].len(), std::cmp::Reverse(*s)))?;
        let mut first: Option<u64> = None;
        for seat in (0..place.seats.len()).filter(|s| *s != reference) {
            let Some(base) = place.seats[seat].base else {
                continue;
            };
            let mut ordinal = base.max(place.seats[reference].base?);
            while let (Some(a), Some(b)) = (of(reference, ordinal), of(seat, ordinal)) {
                if first.is_some_and(|first| ordinal >= first) {
                    break;
                }
                if a.0 != b.0 {
                    match same_group(&of, reference, seat, ordinal) {
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
        for seat in 0..place.seats.len() {
            if let Some((key, _)) = of(seat, ordinal) {
                by_key.entry(key).or_default().push(seat);
            }
        }
        let most = by_key
            .values()
            .max_by_key(|seats| (seats.len(), std::cmp::Reverse(seats[0])))?
            .clone();
        let odd: Vec<usize> = by_key
            .values()
            .flatten()
            .copied()
            .filter(|seat| !most.contains(seat))
            .collect();
        let mut odd = odd;
        odd.sort_unstable();
        let key = |seat: usize, ordinal: u64| of(seat, ordinal).map(|(key, _)| key);
        let sample = *most.iter().max_by_key(|s| place.seats[**s].entered(lane))?;
        let swapped = |seat: usize| {
            key(seat, ordinal) == key(sample, ordinal + 1)
                && key(seat, ordinal + 1) == key(sample, ordinal)
        };
        let left_out = |seat: usize| {
            let mut compared = 0;
            for at in ordinal..ordinal + 64 {
                match (key(seat, at), key(sample, at + 1)) {
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
            place: index,
            ordinal,
            most,
            odd,
            tied: false,
            how,
        })
    }
}

/// If the calls around `ordinal` are the same set in one group on both seats, the ordinal after that group.
fn same_group(
    of: &impl Fn(usize, u64) -> Option<(u32, u64)>,
    a: usize,
    b: usize,
    ordinal: u64,
) -> Option<u64> {
    let extent = |seat: usize| {
        let (_, group) = of(seat, ordinal).filter(|(_, group)| *group != 0)?;
        let inside = |at: &u64| of(seat, *at).is_some_and(|(_, g)| g == group);
        let mut begin = ordinal;
        while begin > 0 && inside(&(begin - 1)) {
            begin -= 1;
        }
        let end = (ordinal..).take_while(inside).last()? + 1;
        let mut keys: Vec<u32> = (begin..end)
            .filter_map(|at| Some(of(seat, at)?.0))
            .collect();
        keys.sort_unstable();
        Some((begin, end, keys))
    };
    let (one, other) = (extent(a)?, extent(b)?);
    (one == other && one.1 - one.0 > 1).then_some(one.1)
}

/// A host time that is known.
pub(super) fn known(time: i64) -> Option<i64> {
    (time != 0).then_some(time)
}

/// The newest host time of a call.
pub(super) fn newest(call: &Call) -> Option<i64> {
    let times = [
        call.api_ns,
        call.launch_start_ns,
        call.launch_end_ns,
        call.enqueue_ns,
        call.return_ns,
        call.gpu_seen_ns,
    ];
    times.into_iter().filter_map(known).max()
}

/// How far a call came.
pub(super) fn reached(process: &Process, call: &Call) -> Reached {
    let shape = &process.shapes[call.shape as usize];
    let (started, stopped) = (call.channels_started, call.channels_stopped);
    let stamped = started > 0 && stopped >= started;
    if stamped && (call.sealed || started >= u16::from(shape.nchannels))
        || shape.has_events() && call.gpu_stop != 0
    {
        Reached::Finished
    } else if started > 0 {
        Reached::Started
    } else if call.sealed
        || call.return_ns != 0
        || call.launch_end_ns != 0
        // When the call returned is forgotten early; it goes on to its launch from there without waiting for anybody.
        || shape.parts & part::ENQUEUE_DONE != 0
    {
        Reached::Launched
    } else if shape.parts & part::ENQUEUED != 0 || call.launch_start_ns != 0 {
        Reached::Enqueued
    } else {
        Reached::Entered
    }
}

/// Gives every seat the ordinal of its first call, by order where all calls are known, else by sequence numbers.
fn align(capture: &Capture, place: &mut Place) {
    let partial = |seat: &Seat| !seat.whole || seat.at_least;
    for seat in &mut place.seats {
        if !partial(seat) {
            seat.base = Some(0);
        } else {
            let from = unbroken(&capture.processes[seat.process], &seat.calls[0]);
            seat.calls[0].drain(..from);
        }
    }
    if !place.seats.iter().any(partial) {
        return;
    }
    let length = |seat: &Seat| (seat.base.is_some(), seat.calls[0].len());
    let Some(reference) =
        (0..place.seats.len()).max_by_key(|i| (length(&place.seats[*i]), std::cmp::Reverse(*i)))
    else {
        return;
    };
    if place.seats[reference].base.is_none() {
        place.seats[reference].base = Some(0);
        place.numbered = false;
    }
    let numbers = |seat: &Seat| -> Vec<(usize, (Name, u64))> {
        let process = &capture.processes[seat.process];
        let number = |(index, call): (usize, &u32)| {
            let call = &process.calls[*call as usize];
            (call.seq != 0).then(|| {
                let function = process.shapes[call.shape as usize].function;
                (index, (function, call.seq))
            })
        };
        seat.calls[0]
            .iter()
            .enumerate()
            .filter_map(number)
            .collect()
    };
    let ordinals: HashMap<(Name, u64), usize> = numbers(&place.seats[reference])
        .into_iter()
        .map(|(index, number)| (number, index))
        .collect();
    let (mut bases, mut lowest) = (Vec::new(), 0i64);
    let reference_base = place.seats[reference].base.unwrap_or(0) as i64;
    for (index, seat) in place.seats.iter().enumerate() {
        if seat.base.is_some() {
            continue;
        }
        let found = numbers(seat)
            .into_iter()
            .rev()
            .find_map(|(own, number)| Some((own, *ordinals.get(&number)?)));
        if let Some((own, theirs)) = found {
            let base = reference_base + theirs as i64 - own as i64;
            lowest = lowest.min(base);
            bases.push((index, base));
        }
    }
    // Ordinals count from the first call of any seat.
    for seat in &mut place.seats {
        seat.base = seat.base.map(|base| base + lowest.unsigned_abs());
    }
    for (index, base) in bases {
        place.seats[index].base = u64::try_from(base - lowest).ok();
    }
}

/// From which of these calls on none is missing, by NCCL's sequence numbers.
fn unbroken(process: &Process, calls: &[u32]) -> usize {
    let mut next: HashMap<Name, u64> = HashMap::new();
    for (index, call) in calls.iter().enumerate().rev() {
        let call = &process.calls[*call as usize];
        let function = process.shapes[call.shape as usize].function;
        match (call.seq, next.get(&function)) {
            // Newest calls have no number yet; among others one that has none proves nothing.
            (0, _) if next.is_empty() => {}
            (0, _) => return index + 1,
            (seq, Some(next)) if seq + 1 != *next => return index + 1,
            (seq, _) => {
                next.insert(function, seq);
            }
        }
    }
    if next.is_empty() {
        calls.len()
    } else {
        0
    }
}
