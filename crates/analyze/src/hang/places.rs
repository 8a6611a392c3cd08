//! Where each rank stands on each communicator.
//!
//! A [`Place`] is a communicator with a [`Seat`] for each rank that the capture holds. A seat has the rank's calls in the
//! order they were made: collectives, replays of captured ones (a lane of their own, because NCCL shows them when the GPU
//! reaches them), and sends and receives by peer. The k-th collective of every rank is one operation, since NCCL wants
//! all ranks to make them in one order; the k-th send from a to b meets the k-th receive at b from a.
//!
//! Rule: a rank is said to lack an operation only where all its calls are known. After lost rows, NCCL's sequence numbers
//! must put its calls beside another rank's; else it counts as absent.

use super::reached::{reached, Reached};
use capture::live::{flag, part, Cause};
use std::collections::{BTreeMap, HashMap};
use tables::{Call, Capture, Name, Process, Shape};

/// A damaged file may tell of any number of ranks; more than these are not named one by one.
const MOST_RANKS: u32 = 1 << 20;

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
    pub pairs: BTreeMap<(bool, u32), Vec<u32>>,
    /// Sends and receives that were entered, whose peer NCCL has not told.
    pub inside: Vec<u32>,
    /// All calls since the communicator's beginning are known.
    pub whole: bool,
    /// Newer calls may have been made than are known.
    pub at_least: bool,
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

/// A capture's places.
pub(super) struct Places<'a> {
    pub capture: &'a Capture,
    pub places: Vec<Place>,
    /// How many nodes there are.
    pub nodes: usize,
    /// By process: whether kernel stamps are delivered.
    pub stamped: Vec<bool>,
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
}
