//! Network operations and their steps, as the proxy's thread tells of them.
//!
//! An operation is an entry of [`Network`]'s table while it is open. At each change of one of its steps, what
//! the step waited for and moved is added to the row of its call.

use super::Recorder;
use crate::handle::{Handle, HandleKind};
use crate::network::{Begun, Network, Start, RECV_FLUSH, SEND_NETWORK};
use crate::seats::Inside;
use capture::live::{Odd, Row};
use capture::net_op::NetOp;
use capture::rows::Ticks;
use std::sync::atomic::Ordering::{Relaxed, Release};

impl Recorder {
    #[inline]
    pub(super) fn start_op(
        &self,
        parent: u64,
        pid: i32,
        op: impl FnOnce(Handle, Ticks) -> Start,
    ) -> u64 {
        // With PXN, another process's operation runs here. Its context and parent are names of that process.
        if pid != self.pid {
            self.odd(Odd::ForeignPid);
            return self.ignored();
        }
        let task = self.read(parent);
        if !task.is(HandleKind::Task) {
            return self.unowned(parent, false);
        }
        let inside = self.inside();
        let Some(row) = self.row(&inside, task) else {
            return self.ignored();
        };
        let start = op(task, self.clock.ticks());
        let lives = |row: Handle| self.live_row(&inside, row).is_some();
        let Begun { name, unstopped } = self.network.begin(&inside, &self.seats, &start, lives);
        if unstopped != 0 {
            self.odds(Odd::Unstopped, unstopped);
        }
        let Some(name) = name else {
            self.odd(Odd::NetOpsFull);
            return self.ignored();
        };
        row.ops_started
            .store(row.ops_started.load(Relaxed).wrapping_add(1), Relaxed);
        self.give(name)
    }

    #[inline]
    pub(super) fn stop_op(&self, handle: Handle) {
        let inside = self.inside();
        let Some(op) = self.network.op(handle) else {
            return self.odd(Odd::DoubleStop);
        };
        if let Some(row) = self.row_of(&inside, op) {
            self.account_for(op, row);
        }
        self.network.end(&inside, handle, op);
    }

    /// Adds what a network operation that is over has moved and waited for to its row.
    #[inline]
    fn account_for(&self, op: &NetOp, row: &Row) {
        let bytes = op.bytes.load(Relaxed);
        if bytes != 0 {
            let total = if op.send.load(Relaxed) != 0 {
                &row.bytes_sent
            } else {
                &row.bytes_received
            };
            total.store(total.load(Relaxed) + bytes, Relaxed);
        }
        Network::account(op, row);
        row.net_seen
            .store((self.clock.ticks().0 >> 10) as u32, Relaxed);
        row.ops_stopped
            .store(row.ops_stopped.load(Relaxed).wrapping_add(1), Release);
    }

    /// The live row that a network operation belongs to, or belonged to until it was stopped.
    #[inline]
    fn row_of<'a>(&self, inside: &'a Inside, op: &NetOp) -> Option<&'a Row> {
        let task = Handle::read(op.row.load(Relaxed), 0);
        task.is(HandleKind::Task)
            .then(|| self.row(inside, task))
            .flatten()
    }

    #[inline]
    pub(super) fn start_step(&self, parent: u64, number: i32) -> u64 {
        // A step carries no pid. It is of this process only if its operation is.
        let owner = self.read(parent);
        if !owner.is(HandleKind::ProxyOp) {
            return self.unowned(parent, false);
        }
        let _inside = self.inside();
        let Some(op) = self.network.op(owner) else {
            self.odd(Odd::StaleHandle);
            return self.ignored();
        };
        self.give(Network::begin_step(owner, op, number, self.clock.ticks()))
    }

    /// Ends the present wait of a step; `next` is the wait that begins, or `None` at its stop.
    #[inline]
    pub(super) fn step(&self, handle: Handle, next: Option<(u8, u64)>) {
        let inside = self.inside();
        let Some((op, step)) = self.network.step(handle) else {
            return self.odd(Odd::DoubleStop);
        };
        let before = step.wait.load(Relaxed);
        // NCCL repeats a state each time that it looks, for example that a send waits for its peer. The wait
        // goes on.
        if next.is_some_and(|(wait, _)| before & 7 == u64::from(wait) + 1) {
            return;
        }
        let now = self.clock.ticks();
        if let Some(row) = self.row_of(&inside, op) {
            if let Some(total) = (before as usize & 7)
                .checked_sub(1)
                .and_then(|w| row.waits.get(w))
            {
                // An eighth of a tick is the unit here.
                let units = ((now.0 << 3).wrapping_sub(before & !7) >> 9).min(u32::MAX.into());
                total.store(total.load(Relaxed).saturating_add(units as u32), Relaxed);
            }
            match next {
                Some((SEND_NETWORK, bytes)) => {
                    row.bytes_sent
                        .store(row.bytes_sent.load(Relaxed).wrapping_add(bytes), Relaxed);
                }
                Some((RECV_FLUSH, bytes)) => {
                    row.bytes_received.store(
                        row.bytes_received.load(Relaxed).wrapping_add(bytes),
                        Relaxed,
                    );
                }
                Some(_) => {}
                None => row
                    .steps
                    .store(row.steps.load(Relaxed).wrapping_add(1), Relaxed),
            }
        }
        let wait = (before & 7).checked_sub(1);
        Network::hold(op, wait, next.map(|(wait, _)| wait), now);
        match next {
            Some((wait, _)) => step.wait.store(now.0 << 3 | (u64::from(wait) + 1), Relaxed),
            None => Network::end_step(handle, op, now),
        }
    }
}
