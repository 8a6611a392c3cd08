//! Operations that NCCL announces as several sends and receives, put together again.
//!
//! AlltoAll, Gather and Scatter reach a profiler as point-to-point calls in one group, without the name of
//! the API call. Each process's groups are looked at by themselves first ([`classify`]). One send and one
//! receive per peer, itself included, is an AlltoAll. A receive from every rank and one's own send is the
//! root of a Gather, and the mirror image the root of a Scatter. One send and one receive is a SendRecv. The
//! other ranks of a Gather or Scatter make only one call, which is recognised by its partner. The k-th send
//! from a to b matches the k-th receive at b from a.
//!
//! A peer is known from the P2p event only. It is missing for a pair with oneself in place, and for every
//! call if P2p events were not recorded. Then the numbers of calls decide, if more than two ranks leave no
//! doubt.
//!
//! Rule: a call belongs to at most one composite, and only calls of equal size make one. What does not fit
//! stays a send or a receive.

use crate::calls::Call;
use crate::communicators::Communicator;
use crate::names::{Name, Names};
use crate::process::Process;
use crate::Shape;
use capture::live::flag;
use std::collections::{HashMap, HashSet};

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
enum CompositeKind {
    AlltoAll,
    Gather,
    Scatter,
    SendRecv,
}

impl CompositeKind {
    fn name(self) -> &'static str {
        match self {
            CompositeKind::AlltoAll => "AlltoAll",
            CompositeKind::Gather => "Gather",
            CompositeKind::Scatter => "Scatter",
            CompositeKind::SendRecv => "SendRecv",
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
) -> Option<(CompositeKind, Vec<Vec<u32>>)> {
    let side = |send: bool| pieces.iter().filter(move |p| p.send == send);
    let (sends, recvs) = (side(true).count(), side(false).count());
    if let [a, b] = pieces {
        return (sends == 1 && a.size == b.size)
            .then(|| (CompositeKind::SendRecv, vec![vec![a.call, b.call]]));
    }
    // Every rank but this one has a piece at least. A number that damage made would take memory and time
    // without bound.
    let n = nranks.filter(|n| *n > 1 && *n as usize <= pieces.len() + 1)? as usize;
    if pieces.iter().all(|p| p.peer.is_none()) {
        // No P2p events at all. With two ranks, two exchanges would look the same.
        let rounds = sends / n;
        let fits = n > 2 && rounds > 0 && sends == rounds * n && recvs == sends;
        return fits
            .then(|| rounds_of(pieces, rounds, |_| 0, n))
            .flatten()
            .map(|r| (CompositeKind::AlltoAll, r));
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
            Some(CompositeKind::AlltoAll)
        } else if all(received, k) && own(sent, k) {
            Some(CompositeKind::Gather)
        } else if all(sent, k) && own(received, k) {
            Some(CompositeKind::Scatter)
        } else {
            None
        }
    };
    let kind = kind(rounds)?;
    rounds_of(pieces, rounds, peer, n).map(|calls| (kind, calls))
}

/// The pieces dealt out to rounds: the i-th of each direction and peer goes to round i; without peers, each
/// round takes the next `each` of a direction. `None` unless every round is all of one size.
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

/// The names that operations go by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Words {
    send: Name,
    recv: Name,
    alltoall: Name,
    gather: Name,
    scatter: Name,
    sendrecv: Name,
}

impl Words {
    pub(crate) fn new(names: &mut Names) -> Words {
        Words {
            send: names.intern("Send"),
            recv: names.intern("Recv"),
            alltoall: names.intern(CompositeKind::AlltoAll.name()),
            gather: names.intern(CompositeKind::Gather.name()),
            scatter: names.intern(CompositeKind::Scatter.name()),
            sendrecv: names.intern(CompositeKind::SendRecv.name()),
        }
    }

    fn kind(&self, kind: CompositeKind) -> Name {
        match kind {
            CompositeKind::AlltoAll => self.alltoall,
            CompositeKind::Gather => self.gather,
            CompositeKind::Scatter => self.scatter,
            CompositeKind::SendRecv => self.sendrecv,
        }
    }

    /// Whether calls of this shape may be pieces.
    pub(crate) fn is_piece(&self, shape: &Shape) -> bool {
        shape.function == self.send || shape.function == self.recv
    }

    fn piece(&self, process: &Process, index: usize) -> Option<Piece> {
        let call = &process.calls[index];
        let shape = &process.shapes[call.shape as usize];
        self.is_piece(shape).then_some(Piece {
            call: index as u32,
            send: shape.function == self.send,
            peer: shape.peer,
            size: (shape.count, shape.datatype),
        })
    }
}

/// Whether a process may be the root of a Gather or Scatter, by the shapes of its calls alone. A root has
/// received from each other rank of a communicator, or has sent to each.
pub(crate) fn may_be_rooted(process: &Process, words: &Words) -> bool {
    let mut peers: HashMap<(u32, Name), HashSet<u32>> = HashMap::new();
    process.shapes.iter().any(|shape| {
        let (Some(nranks), Some(peer)) = (shape.nranks, shape.peer) else {
            return false;
        };
        if !words.is_piece(shape) || shape.rank == Some(peer) {
            return false;
        }
        let others = peers.entry((shape.uid, shape.function)).or_default();
        others.insert(peer);
        others.len() as u64 + 1 >= nranks.into()
    })
}

/// Groups of pieces and how many they have, in order of group.
pub(crate) type Sizes = Vec<(Group, u32)>;

/// Puts the operations together that a process's own calls tell of.
pub(crate) fn put_together(process: &mut Process, words: &Words) -> Sizes {
    let turns = turns(process);
    let mut pieces: Vec<(Group, Piece)> = Vec::new();
    for (index, call) in process.calls.iter().enumerate() {
        let group = group(process, call, turns[index]);
        pieces.extend(group.and_then(|group| Some((group, words.piece(process, index)?))));
    }
    // Both lists are nearly in order, as calls of a group follow each other.
    pieces.sort_by_key(|(group, _)| *group);
    let mut of_group: Vec<(u64, u32)> = Vec::new();
    if !pieces.is_empty() {
        let group = |(call, turn): (&Call, &u32)| (call.group, *turn);
        of_group.extend(process.calls.iter().zip(&turns).map(group));
        of_group.sort();
    }
    let mut groups: Vec<(Group, Vec<Piece>)> = pieces
        .chunk_by(|(a, _), (b, _)| a == b)
        .map(|run| (run[0].0, run.iter().map(|(_, piece)| *piece).collect()))
        .collect();
    let sizes = groups.iter().map(|(g, p)| (*g, p.len() as u32)).collect();
    groups.sort_unstable_by_key(|(_, pieces)| pieces[0].call);
    for (group, pieces) in groups {
        let shape = &process.shapes[process.calls[pieces[0].call as usize].shape as usize];
        let silent = shape.flags & (flag::REPLAY | flag::LEGACY) != 0;
        let Some((kind, rounds)) = classify(&pieces, shape.nranks, shape.rank, silent) else {
            continue;
        };
        let key = (group.number, group.turn);
        let first = of_group.partition_point(|of| *of < key);
        let alone = rounds.len() == 1
            && of_group.get(first + pieces.len() - 1) == Some(&key)
            && of_group.get(first + pieces.len()) != Some(&key);
        for calls in rounds {
            add(process, words.kind(kind), calls, alone);
        }
    }
    sizes
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    number: u64,
    /// For replays, which one: they carry the number of the group that was captured.
    turn: u32,
    uid: u32,
    flags: u8,
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
        turn,
        uid: shape.uid,
        flags,
    })
}

/// Sends or receives of one rank to or from one peer, in order.
type Queue = HashMap<(bool, u32, u32, u8), Vec<u32>>;

fn queue(process: &Process, words: &Words) -> Queue {
    let mut queue = Queue::new();
    for (index, call) in process.calls.iter().enumerate() {
        let shape = &process.shapes[call.shape as usize];
        let Some(piece) = words.piece(process, index) else {
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

/// What another rank's call must be to answer a piece of a rooted operation: the `nth` of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partner {
    queue: (bool, u32, u32, u8),
    nth: usize,
    size: (u64, Name),
    function: Name,
}

/// Whose calls answer the rooted operations of a process that was put together: (process, its part). Needs
/// communicators to be united.
pub(crate) fn partners(
    process: &Process,
    communicators: &[Communicator],
    words: &Words,
) -> Vec<(usize, Partner)> {
    let rooted = |function: Name| function == words.gather || function == words.scatter;
    if !process.composites.iter().any(|c| rooted(c.function)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for ((sends, _, peer, captured), calls) in &queue(process, words) {
        for (nth, index) in calls.iter().enumerate() {
            let call = &process.calls[*index as usize];
            let Some(composite) = process
                .composites
                .get((call.composite as usize).wrapping_sub(1))
            else {
                continue;
            };
            // Receives of a Gather's root and sends of a Scatter's are what the others answer to.
            let answered = if *sends { words.scatter } else { words.gather };
            let shape = &process.shapes[call.shape as usize];
            let (Some(communicator), Some(me)) = (shape.communicator, shape.rank) else {
                continue;
            };
            if composite.function != answered || *peer == me {
                continue;
            }
            let members = &communicators[communicator as usize].members;
            if let Some(member) = members.iter().find(|m| m.rank == Some(*peer)) {
                let partner = Partner {
                    queue: (!sends, member.uid, me, *captured),
                    nth,
                    size: (shape.count, shape.datatype),
                    function: composite.function,
                };
                found.push((member.process, partner));
            }
        }
    }
    found
}

/// Makes operations of the lone calls of a process that answer to rooted ones of others. `sizes` is what
/// [`put_together`] returned for it.
pub(crate) fn answer(process: &mut Process, words: &Words, sizes: &Sizes, partners: &[Partner]) {
    if partners.is_empty() {
        return;
    }
    let queue = queue(process, words);
    let turns = turns(process);
    let mut found = Vec::new();
    for partner in partners {
        let index = queue.get(&partner.queue).and_then(|q| q.get(partner.nth));
        let Some(&index) = index else { continue };
        let call = &process.calls[index as usize];
        let shape = &process.shapes[call.shape as usize];
        let lone = group(process, call, turns[index as usize]).is_none_or(|group| {
            let at = sizes.binary_search_by_key(&group, |(group, _)| *group);
            at.is_ok_and(|at| sizes[at].1 == 1)
        });
        let equal = (shape.count, shape.datatype) == partner.size;
        if call.composite == 0 && lone && equal {
            found.push((index, partner.function));
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|(index, _)| *index);
    for (index, function) in found {
        add(process, function, vec![index], true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn kind(
        list: &[(bool, Option<u32>)],
        nranks: u32,
        me: Option<u32>,
    ) -> Option<(CompositeKind, usize)> {
        classify(&pieces(list), Some(nranks), me, false).map(|(kind, rounds)| (kind, rounds.len()))
    }

    const S: bool = true;
    const R: bool = false;

    #[test]
    fn one_of_each_per_peer_is_alltoall() {
        let all: Vec<_> = (0..4).flat_map(|p| [(S, Some(p)), (R, Some(p))]).collect();
        assert_eq!(kind(&all, 4, Some(2)), Some((CompositeKind::AlltoAll, 1)));
        assert_eq!(
            kind(&[all.clone(), all.clone()].concat(), 4, Some(2)),
            Some((CompositeKind::AlltoAll, 2))
        );
        assert_eq!(kind(&all[1..], 4, Some(2)), None);
        assert_eq!(kind(&all, 5, Some(2)), None);
    }

    #[test]
    fn an_in_place_pair_has_no_peer_and_still_counts() {
        let all: Vec<_> = (0..4)
            .flat_map(|p| [(S, (p != 2).then_some(p)), (R, (p != 2).then_some(p))])
            .collect();
        assert_eq!(kind(&all, 4, Some(2)), Some((CompositeKind::AlltoAll, 1)));
        // Below ABI v4 the rank is not known, and the peer that never shows is oneself.
        assert_eq!(kind(&all, 4, None), Some((CompositeKind::AlltoAll, 1)));
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
        assert_eq!(
            (kind(true), kind(false)),
            (Some((CompositeKind::AlltoAll, 1)), None)
        );
    }

    #[test]
    fn without_peers_the_numbers_decide() {
        let blind: Vec<_> = (0..4).flat_map(|_| [(S, None), (R, None)]).collect();
        assert_eq!(kind(&blind, 4, Some(0)), Some((CompositeKind::AlltoAll, 1)));
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
            Some((CompositeKind::SendRecv, _))
        ));
    }

    #[test]
    fn roots_are_told_from_peers() {
        assert_eq!(
            kind(&[(R, Some(0)), (R, Some(1)), (S, Some(0))], 2, Some(0)),
            Some((CompositeKind::Gather, 1))
        );
        assert_eq!(
            kind(&[(S, Some(0)), (S, Some(1)), (R, Some(0))], 2, Some(0)),
            Some((CompositeKind::Scatter, 1))
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
        let words = Words::new(&mut names);
        let sizes: Vec<Sizes> = processes
            .iter_mut()
            .map(|process| put_together(process, &words))
            .collect();
        for process in &processes {
            let rooted = |c: &Composite| {
                c.calls.len() > 1 && [words.gather, words.scatter].contains(&c.function)
            };
            assert!(!process.composites.iter().any(rooted) || may_be_rooted(process, &words));
        }
        let partners: Vec<_> = processes
            .iter()
            .flat_map(|process| partners(process, &communicators, &words))
            .collect();
        for (index, (process, sizes)) in processes.iter_mut().zip(&sizes).enumerate() {
            let own = partners.iter().filter(|(of, _)| *of == index);
            let own: Vec<Partner> = own.map(|(_, partner)| *partner).collect();
            answer(process, &words, sizes, &own);
        }
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
    fn who_never_hears_from_some_rank_is_no_root() {
        let may = |peers: &[u32]| {
            let calls: Vec<_> = peers.iter().map(|peer| (1, R, *peer)).collect();
            let (processes, mut names) = job(&[&calls, &[], &[]]);
            may_be_rooted(&processes[0], &Words::new(&mut names))
        };
        assert_eq!(
            [may(&[1, 2]), may(&[0, 1]), may(&[2, 2])],
            [true, false, false]
        );
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
