//! ProxyOps and ProxySteps: the network side of a call, folded into its row as bytes and waits.
//!
//! [`Network`] hands out the entries of the live part's table of open network operations, round, oldest
//! first. NCCL starts operations that it never stops (transports without completion). Once its row is sealed,
//! the entry of such an operation is revoked, and serves again when no callback can be at it any more
//! ([`crate::seats`]). When all entries are open, the oldest are revoked, and the operation that begins has
//! none.
//!
//! A step has its place in its operation's entry, where NCCL too keeps it: by its number modulo 8. One that
//! is started again, as NCCL does with receives that the network does not take yet, is the same step.
//!
//! Rule: an entry is written by the one thread that works on its operation, from the start of the operation
//! to its stop. [`Network::uses`] says whose turn it is in between.

use crate::handle::{Handle, HandleKind};
use crate::round::Round;
use crate::seats::{Inside, Seats};
use capture::live::Row;
use capture::net_op::{NetOp, NetStep, STEPS};
use capture::rows::Ticks;
use std::sync::atomic::{
    fence, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};

/// Index of "send_network" and "recv_flush" in `live::WAITS`: NCCL refreshes a chunk's size just before these
/// two, in which it is the network's turn.
pub const SEND_NETWORK: u8 = 2;
/// See [`SEND_NETWORK`].
pub const RECV_FLUSH: u8 = 4;

/// The table, and whose turn it is.
pub struct Network {
    net_ops: Round<NetOp>,
    /// By entry: generation << 46 | [`FREE`], [`TAKEN`], or the epoch in which it was revoked.
    uses: Round<AtomicU64>,
    /// The entry that is likely to be the next: a hint, which any thread may set back.
    next: AtomicUsize,
    /// Entries that were revoked so far.
    pub revoked: AtomicU64,
}

const FREE: u64 = 0;
const TAKEN: u64 = (1 << GENERATION) - 1;
const GENERATION: u32 = 46;
/// Entries that are looked at for one that is free.
const PROBES: usize = 16;

/// What a network operation begins with.
pub struct Start {
    /// The handle of its row.
    pub row: Handle,
    pub channel: u8,
    pub send: bool,
    pub peer: i32,
    pub steps: i32,
    pub now: Ticks,
}

/// What came of [`Network::begin`].
pub struct Begun {
    /// The operation's name; `None` if no entry is free.
    pub name: Option<Handle>,
    /// Operations that were never stopped, of which the entries were taken back.
    pub unstopped: u64,
}

impl Network {
    /// `None` unless there are 2^n entries.
    pub fn new(net_ops: &'static [NetOp]) -> Option<Self> {
        let uses: Box<[AtomicU64]> = net_ops.iter().map(|_| AtomicU64::new(FREE)).collect();
        Some(Network {
            net_ops: Round::new(net_ops)?,
            // Leaked like the recorder, which is never dropped.
            uses: Round::new(Box::leak(uses))?,
            next: AtomicUsize::new(0),
            revoked: AtomicU64::new(0),
        })
    }

    /// Takes the oldest entry that is free. `lives` says whether the row of another operation is still there.
    #[inline]
    pub fn begin(
        &self,
        _: &Inside,
        seats: &Seats,
        start: &Start,
        lives: impl Fn(Handle) -> bool,
    ) -> Begun {
        let first = self.next.load(Relaxed);
        // Long before its turn comes, so that it serves again by then.
        let mut unstopped = self.age(seats, first.wrapping_add(self.uses.len() / 2), lives);
        for at in (0..PROBES).map(|probe| first.wrapping_add(probe)) {
            let place = self.uses.at(at);
            let used = place.load(Acquire);
            let state = used & TAKEN;
            if state == TAKEN || state != FREE && !seats.is_safe(state) {
                continue;
            }
            let taken = (used & !TAKEN).wrapping_add(TAKEN + 1) | TAKEN;
            if place.compare_exchange(used, taken, AcqRel, Relaxed).is_ok() {
                self.next.store(at.wrapping_add(1), Relaxed);
                let name = Some(self.make(at, taken >> GENERATION, start));
                return Begun { name, unstopped };
            }
        }
        // All of them are open. The oldest make room, for those that begin a little later.
        for at in (0..PROBES).map(|probe| first.wrapping_add(probe)) {
            unstopped += self.age(seats, at, |_| false);
        }
        self.next.store(first.wrapping_add(PROBES), Relaxed);
        Begun {
            name: None,
            unstopped,
        }
    }

    /// Takes an entry from an operation that was not stopped, if its row does not live; 1 if so.
    #[inline]
    fn age(&self, seats: &Seats, at: usize, lives: impl Fn(Handle) -> bool) -> u64 {
        let used = self.uses.at(at).load(Acquire);
        if used & TAKEN != TAKEN {
            return 0;
        }
        let row = Handle::read(self.net_ops.at(at).row.load(Relaxed), 0);
        u64::from(!lives(row) && self.revoke(seats, at, used))
    }

    /// Takes an entry from the operation that has it, if that is not just being made or stopped.
    #[cold]
    fn revoke(&self, seats: &Seats, at: usize, used: u64) -> bool {
        let op = self.net_ops.at(at);
        let word = op.word.load(Relaxed);
        // 0: its operation is being made, or was revoked by another thread.
        if word == 0 || op.word.compare_exchange(word, 0, AcqRel, Relaxed).is_err() {
            return false;
        }
        // After the word is 0, so that who sits down in a later epoch sees that.
        fence(SeqCst);
        let revoked = used & !TAKEN | seats.now();
        // Not if its own thread has just given it back.
        let _ = self
            .uses
            .at(at)
            .compare_exchange(used, revoked, AcqRel, Relaxed);
        self.revoked.fetch_add(1, Relaxed);
        true
    }

    /// Fills an entry in.
    #[inline]
    fn make(&self, at: usize, generation: u64, start: &Start) -> Handle {
        let op = self.net_ops.at(at);
        // A reader that sees the new fields sees that the entry is being made: its word is 0.
        fence(Release);
        op.row.store(start.row.raw(), Relaxed);
        op.t_start.store(start.now, Relaxed);
        op.t_step.store(Ticks(0), Relaxed);
        op.bytes.store(0, Relaxed);
        op.held.store(0, Relaxed);
        op.peer.store(start.peer as u32, Relaxed);
        op.nsteps.store(start.steps.max(0) as u32, Relaxed);
        op.done.store(0, Relaxed);
        op.channel.store(start.channel, Relaxed);
        op.send.store(start.send.into(), Relaxed);
        op.begun.store(0, Relaxed);
        op.open.store(0, Relaxed);
        // There are 2^n entries.
        let slot = at & (self.net_ops.len() - 1);
        let name = Handle::new(HandleKind::ProxyOp, start.channel, slot as u32, generation);
        op.word.store(name.raw(), Release);
        name
    }

    /// Gives the entry of an operation back, which is over.
    #[inline]
    pub fn end(&self, _: &Inside, handle: Handle, op: &NetOp) {
        op.word.store(0, Relaxed);
        let place = self.uses.at(handle.slot() as usize);
        // Also if it was revoked meanwhile: then nobody took it, because this callback is inside.
        place.store(place.load(Relaxed) & !TAKEN | FREE, Release);
    }

    /// The network operation that a handle names, if its entry still holds that one.
    #[inline]
    pub fn op(&self, handle: Handle) -> Option<&NetOp> {
        let op = self.net_ops.at(handle.slot() as usize);
        (op.word.load(Relaxed) == handle.raw()).then_some(op)
    }

    /// Opens step `number` of a network operation; gives its name.
    #[inline]
    pub fn begin_step(owner: Handle, op: &NetOp, number: i32, now: Ticks) -> Handle {
        let at = number as usize % STEPS;
        // Eight bits of the operation's generation tell a step from one of the entry's last operation.
        let turn = u64::from(owner.generation()) << 10 | (number as u64 / STEPS as u64) & 1023;
        let slot = owner.slot() * STEPS as u32 + at as u32;
        let name = Handle::new(HandleKind::ProxyStep, owner.channel(), slot, turn);
        let step = &op.steps[at];
        let open = op.open.load(Relaxed);
        // Started again it has waited since its first start.
        if open >> at & 1 == 0 || step.word.load(Relaxed) != name.raw() {
            step.word.store(name.raw(), Relaxed);
            step.wait.store(now.0 << 3, Relaxed);
            op.open.store(open | 1 << at, Release);
        }
        name
    }

    /// The open step that a handle names, and its network operation.
    #[inline]
    pub fn step(&self, handle: Handle) -> Option<(&NetOp, &NetStep)> {
        let op = self.net_ops.at(handle.slot() as usize / STEPS);
        let at = handle.slot() as usize % STEPS;
        let step = &op.steps[at];
        // Once the operation is over, another thread may take its entry.
        let open = op.word.load(Relaxed) != 0 && op.open.load(Relaxed) >> at & 1 == 1;
        (open && step.word.load(Relaxed) == handle.raw()).then_some((op, step))
    }

    /// A step goes from one wait to the next, `None` before the first and behind the last: for how long some
    /// step of the operation is in the network's hands.
    #[inline]
    pub fn hold(op: &NetOp, from: Option<u64>, to: Option<u8>, now: Ticks) {
        let is = |wait: u64| wait == SEND_NETWORK.into() || wait == RECV_FLUSH.into();
        let (was, will) = (from.is_some_and(is), to.is_some_and(|to| is(to.into())));
        if was == will {
            return;
        }
        let held = op.held.load(Relaxed);
        let held = match (will, held & 15) {
            // A step that was never begun, or begun twice, can't be accounted for.
            (false, 0) | (true, 15) => return,
            (true, 0) => held.wrapping_sub(now.0 << 4) + 1,
            (true, _) => held + 1,
            (false, 1) => (held - 1).wrapping_add(now.0 << 4),
            (false, _) => held - 1,
        };
        op.held.store(held, Relaxed);
    }

    /// If an operation that is over was in the network's hands longer than all others of its row, stores that
    /// in the row.
    #[inline]
    pub fn account(op: &NetOp, row: &Row) {
        let held = op.held.load(Relaxed);
        let longest = (held >> 10).min(u32::MAX.into()) as u32;
        if held & 15 == 0 && longest > row.net_longest.load(Relaxed) {
            row.net_longest.store(longest, Relaxed);
            let peer = op.peer.load(Relaxed).wrapping_add(1) << 1;
            let send = u32::from(op.send.load(Relaxed) != 0);
            row.net_link.store(peer | send, Relaxed);
        }
    }

    /// Closes the step that a handle names.
    #[inline]
    pub fn end_step(handle: Handle, op: &NetOp, now: Ticks) {
        let open = op.open.load(Relaxed);
        let at = handle.slot() as usize % STEPS;
        op.t_step.store(now, Relaxed);
        let done = op.done.load(Relaxed).wrapping_add(1);
        op.done.store(done, Relaxed);
        op.open.store(open & !(1 << at), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::seats::Keeper;

    /// A table of two entries.
    struct Table {
        network: Network,
        seats: Seats,
        keeper: Keeper,
        row_lives: bool,
    }

    impl std::ops::Deref for Table {
        type Target = Network;
        fn deref(&self) -> &Network {
            &self.network
        }
    }

    fn network() -> Table {
        let ops: Vec<NetOp> = (0..2).map(|_| NetOp::default()).collect();
        Table {
            network: Network::new(ops.leak()).expect("a power of two"),
            seats: Seats::new(),
            keeper: Keeper::new(0),
            row_lives: true,
        }
    }

    /// In a callback of its own.
    fn try_begin(table: &Table) -> Begun {
        let start = Start {
            row: Handle::new(HandleKind::Task, 0, 77, 5),
            channel: 3,
            send: false,
            peer: 6,
            steps: 20,
            now: Ticks(100),
        };
        let inside = table.seats.enter();
        table
            .network
            .begin(&inside, &table.seats, &start, |_| table.row_lives)
    }

    fn begin(table: &Table) -> (Handle, u64) {
        let begun = try_begin(table);
        (begun.name.expect("a free entry"), begun.unstopped)
    }

    fn end(table: &Table, name: Handle) {
        let inside = table.seats.enter();
        let op = table.network.op(name).expect("open");
        table.network.end(&inside, name, op);
    }

    #[test]
    fn a_step_started_again_is_the_same_and_has_waited_since_its_first_start() {
        let network = network();
        let (name, _) = begin(&network);
        let op = network.op(name).expect("open");
        let step = Network::begin_step(name, op, 9, Ticks(200));
        for now in [300, 400] {
            assert_eq!(Network::begin_step(name, op, 9, Ticks(now)), step);
        }
        let open = op.open().expect("open");
        assert_eq!((open.row, open.generation), (77, 5));
        assert_eq!((open.peer, open.channel, open.send), (Some(6), 3, false));
        assert_eq!(
            open.oldest.map(|s| (s.wait, s.since)),
            Some((None, Ticks(200)))
        );
        Network::end_step(step, op, Ticks(500));
        assert!(network.step(step).is_none(), "it is over");
        let open = op.open().expect("open");
        assert_eq!(
            (open.done, open.t_step, open.oldest),
            (1, Some(Ticks(500)), None)
        );
    }

    #[test]
    fn what_is_in_the_network_s_hands_at_a_time_counts_once() {
        let network = network();
        // SAFETY: every field is an atomic integer, for which 0 is a value.
        let row: Row = unsafe { std::mem::zeroed() };
        let play = |moves: &[(Option<u8>, Option<u8>, u64)]| {
            let (name, _) = begin(&network);
            let op = network.op(name).expect("open");
            for (from, to, now) in moves {
                Network::hold(op, from.map(u64::from), *to, Ticks(*now << 6));
            }
            Network::account(op, &row);
            end(&network, name);
            (row.net_longest.load(Relaxed), row.net_link.load(Relaxed))
        };
        // Two steps, from 100 to 150 and from 120 to 170; then one from 200 to 210: 80 units. Peer 6,
        // receiving.
        let (flush, gpu) = (Some(RECV_FLUSH), Some(5));
        let two = [
            (Some(3), flush, 100),
            (Some(3), flush, 120),
            (flush, gpu, 150),
            (flush, gpu, 170),
            (Some(3), flush, 200),
            (flush, None, 210),
            (gpu, None, 300),
        ];
        assert_eq!(play(&two), (80, 7 << 1));
        // A shorter one changes nothing, nor one that is not accounted for: a step that was never over.
        assert_eq!(play(&[(None, flush, 5), (flush, None, 9)]).0, 80);
        assert_eq!(play(&[(None, flush, 5)]).0, 80);
        assert_eq!(play(&[(flush, None, 500)]).0, 80);
        let send = Some(SEND_NETWORK);
        assert_eq!(play(&[(Some(1), send, 5), (send, None, 95)]).0, 90);
    }

    #[test]
    fn names_of_earlier_operations_and_steps_open_nothing() {
        let network = network();
        let (first, _) = begin(&network);
        let op = network.op(first).expect("open");
        let step = Network::begin_step(first, op, 0, Ticks(200));
        let (second, _) = begin(&network);
        end(&network, first);
        end(&network, second);
        // The third takes the first one's entry.
        let (third, unstopped) = begin(&network);
        assert_eq!((third.slot(), unstopped), (first.slot(), 0));
        assert!(network.op(first).is_none() && network.step(step).is_none());
        let op = network.op(third).expect("open");
        let again = Network::begin_step(third, op, 0, Ticks(300));
        assert!(network.step(step).is_none() && network.step(again).is_some());
    }

    #[test]
    fn an_operation_that_never_stops_makes_room_when_no_callback_can_be_at_it() {
        let mut table = network();
        let (first, _) = begin(&table);
        begin(&table);
        // Its thread has found the first operation, and is slow to store to it.
        let (arrived, waits) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let inside = table.seats.enter();
                arrived.wait();
                waits.wait();
                drop(inside);
            });
            arrived.wait();
            for _ in 0..20 {
                assert_eq!(try_begin(&table).name, None);
            }
            assert!(table.network.op(first).is_none(), "it is revoked");
            table.keeper.look(&table.seats);
            assert_eq!(try_begin(&table).name, None);
            waits.wait();
        });
        table.keeper.look(&table.seats);
        begin(&table);
        begin(&table);
    }

    #[test]
    fn an_operation_of_a_call_that_is_sealed_makes_room_early() {
        let mut table = network();
        begin(&table);
        table.row_lives = false;
        let (_, unstopped) = begin(&table);
        assert_eq!(unstopped, 1);
        table.keeper.look(&table.seats);
        begin(&table);
    }
}
