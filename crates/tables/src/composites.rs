//! Operations that NCCL announces as several sends and receives, put together again.
//!
//! AlltoAll, Gather and Scatter reach a profiler as point-to-point calls in one group, without the name of the API call.
//! Each process's groups are looked at by themselves first ([`classify`]): one send and one receive per peer, itself
//! included, is an AlltoAll; a receive from every rank and one's own send is the root of a Gather; the mirror image is
//! the root of a Scatter; one send and one receive is a SendRecv. The other ranks of a Gather or Scatter only make one
//! call, recognised by its partner: the k-th send from a to b matches the k-th receive at b from a.
//!
//! A peer is known from the P2p event only. It is missing for a pair with oneself in place, and for every call when P2p
//! events were not recorded; then the numbers of calls decide, if more than two ranks leave no doubt.
//!
//! Rule: a call belongs to at most one composite, and only calls of equal size make one. What does not fit stays a send
//! or a receive.

use crate::calls::Call;
use crate::communicators::Communicator;
use crate::names::{Name, Names};
use crate::process::Process;
use capture::live::flag;
use std::collections::HashMap;

/// An operation made of several calls of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// `AlltoAll`, `Gather`, `Scatter` or `SendRecv`.
    pub function: Name,
    /// Its calls, as indexes into [`Process::calls`], by ticket.
    pub calls: Vec<u32>,
    /// Whether the group had no other call, so that a time of the whole batch is this operation's.
    pub alone: bool,
}

/// What a group of calls by one rank on one communicator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AlltoAll,
    Gather,
    Scatter,
    SendRecv,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::AlltoAll => "AlltoAll",
            Kind::Gather => "Gather",
            Kind::Scatter => "Scatter",
            Kind::SendRecv => "SendRecv",
        }
    }
}

/// A send or receive in a group.
#[derive(Clone, Copy, Debug)]
struct Piece {
    call: u32,
    send: bool,
    peer: Option<u32>,
    /// Equal for calls that move equally much: count and datatype.
    size: (u64, Name),
}

/// What rounds of `pieces` are operations of which kind; `None` when they are just sends and receives.
///
/// `silent` says that calls with oneself in place do not show at all: at replays, and below ABI v5.
fn classify(
    pieces: &[Piece],
    nranks: Option<u32>,
    me: Option<u32>,
    silent: bool,
) -> Option<(Kind, Vec<Vec<u32>>)> {
    let side = |send: bool| pieces.iter().filter(move |p| p.send == send);
    let (sends, recvs) = (side(true).count(), side(false).count());
    if let [a, b] = pieces {
        return (sends == 1 && a.size == b.size)
            .then(|| (Kind::SendRecv, vec![vec![a.call, b.call]]));
    }
    let n = nranks.filter(|n| *n > 1)? as usize;
    if pieces.iter().all(|p| p.peer.is_none()) {
        // No P2p events at all. With two ranks, two exchanges would look the same.
        let rounds = sends / n;
        let fits = n > 2 && rounds > 0 && sends == rounds * n && recvs == sends;
        return fits
            .then(|| rounds_of(pieces, rounds, |_| 0, n))
            .flatten()
            .map(|r| (Kind::AlltoAll, r));
    }
    // Calls without a peer are those with oneself.
    let me = me.or_else(|| {
        let mut others = (0..n as u32).filter(|rank| pieces.iter().all(|p| p.peer != Some(*rank)));
        others.next().filter(|_| others.next().is_none())
    });
    let peer = |p: &Piece| p.peer.or(me).map_or(usize::MAX, |peer| peer as usize);
    let mut counts = [vec![0usize; n], vec![0usize; n]];
    for piece in pieces {
        *counts[usize::from(piece.send)].get_mut(peer(piece))? += 1;
    }
    let rounds = counts[1]
        .iter()
        .chain(&counts[0])
        .copied()
        .max()
        .unwrap_or(0);
    if let Some(me) = me
        .map(|me| me as usize)
        .filter(|me| silent && *me < n && counts[0][*me] + counts[1][*me] == 0)
    {
        // What can't show is taken as there if everything else is.
        if counts.iter().all(|side| {
            side.iter()
                .enumerate()
                .all(|(rank, count)| *count == rounds || rank == me)
        }) {
            counts.iter_mut().for_each(|side| side[me] = rounds);
        }
    }
    let all = |side: &[usize], k: usize| side.iter().all(|count| *count == k);
    let own = |side: &[usize], k: usize| {
        side.iter()
            .enumerate()
            .all(|(rank, count)| *count == if Some(rank as u32) == me { k } else { 0 })
    };
    let [received, sent] = &counts;
    let kind = |k: usize| {
        if k == 0 {
            None
        } else if all(sent, k) && all(received, k) {
            Some(Kind::AlltoAll)
        } else if all(received, k) && own(sent, k) {
            Some(Kind::Gather)
        } else if all(sent, k) && own(received, k) {
            Some(Kind::Scatter)
        } else {
            None
        }
    };
    let kind = kind(rounds)?;
    rounds_of(pieces, rounds, peer, n).map(|calls| (kind, calls))
}

/// The pieces dealt out to rounds: the i-th of each direction and peer goes to round i; without peers, each round takes
/// the next `each` of a direction. `None` unless every round is all of one size.
fn rounds_of(
    pieces: &[Piece],
    rounds: usize,
    peer: impl Fn(&Piece) -> usize,
    each: usize,
) -> Option<Vec<Vec<u32>>> {
    let blind = pieces.iter().all(|p| p.peer.is_none());
    let mut dealt: Vec<Vec<&Piece>> = vec![Vec::new(); rounds];
    let mut seen: HashMap<(bool, usize), usize> = HashMap::new();
    for piece in pieces {
        let nth = seen.entry((piece.send, peer(piece))).or_insert(0);
        let round = if blind { *nth / each } else { *nth };
        dealt.get_mut(round)?.push(piece);
        *nth += 1;
    }
    let even = dealt
        .iter()
        .all(|round| round.iter().all(|p| p.size == round[0].size));
    even.then(|| {
        dealt
            .iter()
            .map(|round| round.iter().map(|p| p.call).collect())
            .collect()
    })
}

/// Puts the operations of all processes together. Needs communicators to be united.
pub(crate) fn put_together(
    processes: &mut [Process],
    communicators: &[Communicator],
    names: &mut Names,
) {
    let send = names.intern("Send");
    let recv = names.intern("Recv");
    let name_of = [Kind::AlltoAll, Kind::Gather, Kind::Scatter, Kind::SendRecv]
        .map(|k| (k, names.intern(k.name())));
    let name = |kind: Kind| {
        name_of
            .iter()
            .find(|(k, _)| *k == kind)
            .map_or(Name::NONE, |(_, n)| *n)
    };
    // Group sizes say whether a lone send or receive may be a part of something.
    let mut sizes: Vec<HashMap<Group, u32>> = Vec::new();
    let mut rooted = false;
    for process in processes.iter_mut() {
        let mut groups: HashMap<Group, Vec<Piece>> = HashMap::new();
        let mut group_calls: HashMap<(u64, u32), u32> = HashMap::new();
        let turns = turns(process);
        for (index, call) in process.calls.iter().enumerate() {
            *group_calls.entry((call.group, turns[index])).or_insert(0) += 1;
            let Some(group) = group(process, call, turns[index]) else {
                continue;
            };
            if let Some(piece) = piece(process, index, send, recv) {
                groups.entry(group).or_default().push(piece);
            }
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_unstable_by_key(|(_, pieces)| pieces[0].call);
        for (group, pieces) in &groups {
            let shape = &process.shapes[process.calls[pieces[0].call as usize].shape as usize];
            let silent = shape.flags & (flag::REPLAY | flag::LEGACY) != 0;
            let Some((kind, rounds)) = classify(pieces, shape.nranks, shape.rank, silent) else {
                continue;
            };
            rooted |= matches!(kind, Kind::Gather | Kind::Scatter);
            let alone = rounds.len() == 1
                && group_calls.get(&(group.number, group.turn)) == Some(&(pieces.len() as u32));
            for calls in rounds {
                add(process, name(kind), calls, alone);
            }
        }
        sizes.push(
            groups
                .into_iter()
                .map(|(group, pieces)| (group, pieces.len() as u32))
                .collect(),
        );
    }
    if rooted {
        let gather = name(Kind::Gather);
        let scatter = name(Kind::Scatter);
        for (process, index, function) in partners(
            processes,
            communicators,
            send,
            recv,
            gather,
            scatter,
            &sizes,
        ) {
            add(&mut processes[process], function, vec![index], true);
        }
    }
}

fn add(process: &mut Process, function: Name, calls: Vec<u32>, alone: bool) {
    process.composites.push(Composite {
        function,
        calls,
        alone,
    });
    let number = process.composites.len() as u32;
    for index in &process.composites[number as usize - 1].calls {
        process.calls[*index as usize].composite = number;
    }
}

/// Calls made together on one communicator. Captured calls and replays are groups of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Group {
    number: u64,
    uid: u32,
    flags: u8,
    /// For replays, which one: they carry the number of the group that was captured.
    turn: u32,
}

/// For each call that is a replay, how many of its template came before; else 0.
fn turns(process: &Process) -> Vec<u32> {
    let mut seen: HashMap<u32, u32> = HashMap::new();
    let turn = |call: &Call| match call.template {
        0 => 0,
        template => {
            let next = seen.entry(template).or_insert(0);
            *next += 1;
            *next - 1
        }
    };
    process.calls.iter().map(turn).collect()
}

fn group(process: &Process, call: &Call, turn: u32) -> Option<Group> {
    let shape = &process.shapes[call.shape as usize];
    let flags = shape.flags & (flag::CAPTURED | flag::REPLAY);
    (call.group != 0 && shape.is(flag::P2P)).then_some(Group {
        number: call.group,
        uid: shape.uid,
        flags,
        turn,
    })
}

fn piece(process: &Process, index: usize, send: Name, recv: Name) -> Option<Piece> {
    let call = &process.calls[index];
    let shape = &process.shapes[call.shape as usize];
    (shape.function == send || shape.function == recv).then_some(Piece {
        call: index as u32,
        send: shape.function == send,
        peer: shape.peer,
        size: (shape.count, shape.datatype),
    })
}

/// Sends or receives of one rank to or from one peer, in order.
type Queue = HashMap<(bool, u32, u32, u8), Vec<u32>>;

fn queue(process: &Process, send: Name, recv: Name) -> Queue {
    let mut queue = Queue::new();
    for (index, call) in process.calls.iter().enumerate() {
        let shape = &process.shapes[call.shape as usize];
        let Some(piece) = piece(process, index, send, recv) else {
            continue;
        };
        if let Some(peer) = piece.peer {
            queue
                .entry((piece.send, shape.uid, peer, shape.flags & flag::CAPTURED))
                .or_default()
                .push(index as u32);
        }
    }
    queue
}

/// The lone calls whose partner is a piece of a rooted operation: (process, call, function).
fn partners(
    processes: &[Process],
    communicators: &[Communicator],
    send: Name,
    recv: Name,
    gather: Name,
    scatter: Name,
    sizes: &[HashMap<Group, u32>],
) -> Vec<(usize, u32, Name)> {
    let queues: Vec<Queue> = processes.iter().map(|p| queue(p, send, recv)).collect();
    let all_turns: Vec<Vec<u32>> = processes.iter().map(turns).collect();
    let mut found = Vec::new();
    for (root_process, root_queue) in processes.iter().zip(&queues) {
        for ((root_sends, _, peer, captured), calls) in root_queue {
            for (nth, index) in calls.iter().enumerate() {
                let call = &root_process.calls[*index as usize];
                let Some(composite) = root_process
                    .composites
                    .get((call.composite as usize).wrapping_sub(1))
                else {
                    continue;
                };
                // Receives of a Gather's root and sends of a Scatter's are what the others answer to.
                let rooted = if *root_sends {
                    composite.function == scatter
                } else {
                    composite.function == gather
                };
                let shape = &root_process.shapes[call.shape as usize];
                let (Some(communicator), Some(me)) = (shape.communicator, shape.rank) else {
                    continue;
                };
                if !rooted || *peer == me {
                    continue;
                }
                let members = &communicators[communicator as usize].members;
                let Some(member) = members.iter().find(|m| m.rank == Some(*peer)) else {
                    continue;
                };
                let other = &processes[member.process];
                let answer = queues[member.process]
                    .get(&(!root_sends, member.uid, me, *captured))
                    .and_then(|q| q.get(nth));
                let Some(&answer) = answer else { continue };
                let answer_call = &other.calls[answer as usize];
                let answer_shape = &other.shapes[answer_call.shape as usize];
                let turn = all_turns[member.process][answer as usize];
                let lone = group(other, answer_call, turn)
                    .is_none_or(|g| sizes[member.process].get(&g) == Some(&1));
                let equal =
                    (answer_shape.count, answer_shape.datatype) == (shape.count, shape.datatype);
                if answer_call.composite == 0 && lone && equal {
                    found.push((member.process, answer, composite.function));
                }
            }
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|(process, call, _)| (*process, *call));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Shape;
    use crate::communicators::{self, Local};

    fn pieces(list: &[(bool, Option<u32>)]) -> Vec<Piece> {
        let piece = |(i, (send, peer)): (usize, &(bool, Option<u32>))| Piece {
            call: i as u32,
            send: *send,
            peer: *peer,
            size: (4, Name::NONE),
        };
        list.iter().enumerate().map(piece).collect()
    }

    fn kind(list: &[(bool, Option<u32>)], nranks: u32, me: Option<u32>) -> Option<(Kind, usize)> {
        classify(&pieces(list), Some(nranks), me, false).map(|(kind, rounds)| (kind, rounds.len()))
    }

    const S: bool = true;
    const R: bool = false;

    #[test]
    fn one_of_each_per_peer_is_alltoall() {
        let all: Vec<_> = (0..4).flat_map(|p| [(S, Some(p)), (R, Some(p))]).collect();
        assert_eq!(kind(&all, 4, Some(2)), Some((Kind::AlltoAll, 1)));
        assert_eq!(
            kind(&[all.clone(), all.clone()].concat(), 4, Some(2)),
            Some((Kind::AlltoAll, 2))
        );
        assert_eq!(kind(&all[1..], 4, Some(2)), None);
        assert_eq!(kind(&all, 5, Some(2)), None);
    }

    #[test]
    fn an_in_place_pair_has_no_peer_and_still_counts() {
        let all: Vec<_> = (0..4)
            .flat_map(|p| [(S, (p != 2).then_some(p)), (R, (p != 2).then_some(p))])
            .collect();
        assert_eq!(kind(&all, 4, Some(2)), Some((Kind::AlltoAll, 1)));
        // Below ABI v4 the rank is not known, and the peer that never shows is oneself.
        assert_eq!(kind(&all, 4, None), Some((Kind::AlltoAll, 1)));
    }

    #[test]
    fn a_replay_does_not_show_the_in_place_pair() {
        let others: Vec<_> = (0..4)
            .filter(|p| *p != 2)
            .flat_map(|p| [(S, Some(p)), (R, Some(p))])
            .collect();
        let kind = |silent| {
            classify(&pieces(&others), Some(4), Some(2), silent)
                .map(|(kind, rounds)| (kind, rounds.len()))
        };
        assert_eq!((kind(true), kind(false)), (Some((Kind::AlltoAll, 1)), None));
    }

    #[test]
    fn without_peers_the_numbers_decide() {
        let blind: Vec<_> = (0..4).flat_map(|_| [(S, None), (R, None)]).collect();
        assert_eq!(kind(&blind, 4, Some(0)), Some((Kind::AlltoAll, 1)));
        assert_eq!(kind(&blind, 2, Some(0)), None);
        assert_eq!(kind(&blind, 3, Some(0)), None);
    }

    #[test]
    fn unequal_sizes_stay_apart() {
        let mut all = pieces(&[(S, Some(0)), (R, Some(0)), (S, Some(1)), (R, Some(1))]);
        all[3].size.0 = 5;
        assert_eq!(classify(&all, Some(2), Some(0), false), None);
        assert_eq!(classify(&all[2..], Some(2), Some(0), false), None);
        assert!(matches!(
            classify(&all[..2], Some(2), Some(0), false),
            Some((Kind::SendRecv, _))
        ));
    }

    #[test]
    fn roots_are_told_from_peers() {
        assert_eq!(
            kind(&[(R, Some(0)), (R, Some(1)), (S, Some(0))], 2, Some(0)),
            Some((Kind::Gather, 1))
        );
        assert_eq!(
            kind(&[(S, Some(0)), (S, Some(1)), (R, Some(0))], 2, Some(0)),
            Some((Kind::Scatter, 1))
        );
        assert_eq!(
            kind(&[(R, Some(0)), (R, Some(1)), (S, Some(1))], 2, Some(0)),
            None
        );
        assert_eq!(
            kind(&[(S, Some(9)), (R, Some(0)), (S, Some(0))], 2, Some(0)),
            None
        );
    }

    /// Ranks of one communicator and their sends and receives: (group, send, peer).
    fn job(ranks: &[&[(u64, bool, u32)]]) -> (Vec<Process>, Names) {
        let mut names = Names::default();
        let (send, recv) = (names.intern("Send"), names.intern("Recv"));
        let process = |(rank, list): (usize, &&[(u64, bool, u32)])| {
            let rank = rank as u32;
            let nranks = ranks.len() as u32;
            let mut process = Process {
                communicators: vec![Local {
                    uid: 1,
                    hash: 7,
                    nranks,
                    rank: Some(rank),
                    ..Local::default()
                }],
                ..Process::default()
            };
            for (ticket, (group, sends, peer)) in list.iter().enumerate() {
                process.shapes.push(Shape {
                    uid: 1,
                    communicator: Some(0),
                    rank: Some(rank),
                    nranks: Some(nranks),
                    function: if *sends { send } else { recv },
                    flags: flag::P2P,
                    count: 4,
                    peer: Some(*peer),
                    ..Shape::default()
                });
                let call = Call {
                    ticket: ticket as u64,
                    group: *group,
                    shape: ticket as u32,
                    ..Call::default()
                };
                process.calls.push(call);
            }
            process
        };
        let mut processes: Vec<Process> = ranks.iter().enumerate().map(process).collect();
        let (communicators, _) = communicators::unite(&processes);
        put_together(&mut processes, &communicators, &mut names);
        (processes, names)
    }

    fn found<'a>(process: &Process, names: &'a Names) -> Vec<(&'a str, Vec<u32>)> {
        process
            .composites
            .iter()
            .map(|c| (names.get(c.function).expect("named"), c.calls.clone()))
            .collect()
    }

    #[test]
    fn the_other_ranks_of_a_gather_are_found_through_the_root() {
        // Rank 1 first sends something else to rank 0, so its part in the Gather is its second send.
        let root: &[(u64, bool, u32)] = &[(1, R, 1), (2, R, 0), (2, R, 1), (2, R, 2), (2, S, 0)];
        let (processes, names) = job(&[root, &[(1, S, 0), (2, S, 0)], &[(1, S, 0)]]);
        assert_eq!(found(&processes[0], &names), [("Gather", vec![1, 2, 3, 4])]);
        assert_eq!(found(&processes[1], &names), [("Gather", vec![1])]);
        assert_eq!(found(&processes[2], &names), [("Gather", vec![0])]);
        assert!(processes[0].composites[0].alone);
    }

    #[test]
    fn a_ring_is_sendrecv_and_a_lone_send_stays_one() {
        let (processes, names) = job(&[
            &[(1, S, 1), (1, R, 1), (2, S, 1)],
            &[(1, S, 0), (1, R, 0), (2, R, 0)],
        ]);
        for process in &processes {
            assert_eq!(found(process, &names), [("SendRecv", vec![0, 1])]);
            assert_eq!(process.calls[2].composite, 0);
        }
    }
}
