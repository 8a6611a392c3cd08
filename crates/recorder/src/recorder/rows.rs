//! Rows: how a call gets one, and how a handle finds it again.
//!
//! # The life of a row
//!
//! The live part has a table of rows. A row holds one call at a time, and goes round this chart once for each
//! call. Each arrow names the thread that takes it, and the function. The *caller* is the thread inside the
//! NCCL call. The *launcher* enqueues and launches the call; it is often the same thread. The *writer* is the
//! recorder's own thread.
//!
//! ```text
//!   ┌──> free          the slot waits in the ring of free slots, oldest first; its word says FREE
//!   │     │
//!   │     │ caller: `birth` takes the slot, and with it the next ticket (`FreeRing::take`)
//!   │     v
//!   │    in birth      the ticket is counted as announced, and no row says so yet
//!   │     │
//!   │     │ caller: `birth` fills in line A, then stores ALIVE (Release)
//!   │     v
//!   │    alive         callbacks find the row by its handle, and store what happens (the next chart)
//!   │     │
//!   │     │ writer: `collect` links it into the queue of its communicator, in order of tickets
//!   │     v
//!   │    queued        callbacks still store to it
//!   │     │
//!   │     │ writer: `seal_queue` copies it, once `ready` finds that its parts have come, or are given up
//!   │     v
//!   │    in the batch
//!   │     │
//!   │     ├───────────────────────────────────────────┐
//!   │     │ writer: `write_batch` stages a block      │ writer: `fold_batch` adds the call to the totals
//!   │     v                                           v
//!   │    in a block                                  in the totals (`profile` mode, size limit, full disk)
//!   │     │                                           │
//!   │     ├───────────────────────────────────────────┘
//!   │     │ writer: `retire` stores FREE and the next generation (Release)
//!   │     v
//!   │    retired      no handle finds it any more; a callback that found it before may still store to it
//!   │     │
//!   │     │ writer: `give_back` waits until all those callbacks are over, then clears lines B to E
//!   │     v
//!   │    cleared
//!   │     │
//!   └─────┘ writer: `give_back` gives the slot back to the ring (`FreeRing::give`)
//! ```
//!
//! The caller takes the row in `start_api`. Two kinds of calls have no such event, and the launcher takes
//! their row: calls below ABI v5 (`start_legacy`), and replays of captured calls (`replay`). A call that
//! finds no free slot never has a row: `rowless` counts it in the totals.
//!
//! While a row is alive, each of its five cache lines has one thread that stores to it. The first four go on
//! side by side:
//!
//! ```text
//!  line A: caller          line B: launcher           line C: kernel events       line D: network proxy
//!
//!  announced               not enqueued               no kernel seen              no operation seen
//!    │                       │                          │                           │
//!    │                       │ `start_task`, or         │ `start_kernel`, for       │ `start_op`
//!    │                       │ `start_copy_engine`      │ each channel              v
//!    │                       v                          v                         under way <─┐
//!    │ `stop_group`        enqueued                   running                       │   └──────┘ `step`
//!    │                       │                          │                           │
//!    │                       │ `stop_task`              │ `kernel_stopped`, then    │ `stop_op`
//!    v                       v                          │ `stop_kernel`             v
//!  returned                enqueue done                 v                         stopped
//!                                                     stopped
//! ```
//!
//! - Line A: in a group of several calls, `stop_group` stores the time of the return once, in the group, and
//!   the writer's `ready` reads it there. Where no group is announced (below ABI v5, replays), the launcher's
//!   `stop_task` stores it.
//! - Line B: NCCL announces a launch before the calls that are in it. So the launcher's `stop_launch` keeps
//!   the launch at the communicator, and `start_task` joins each call with it.
//! - Line E: if GPU times come from CUDA events, nobody delivers kernel events. The writer asks for the times
//!   (`time_launches`), and `join` stores them here. The launcher, or for some kinds of calls the caller
//!   (`end_bracket`), has said before which pair of events is the call's. In `full` mode the launcher has
//!   stored the addresses of the buffers here, before the call returned.
//!
//! The writer seals at a flush, or when a quarter of the rows wait. A call that has not returned keeps its
//! row. Some parts may never come: those of a kernel that was aborted, or of an operation without completion.
//! For them, `ready` waits until a later call of the communicator has run and 3 s have passed. At the end of
//! a job, or when three quarters of the rows wait, it waits only until a later call has returned.
//!
//! If the process dies, a reader finds every row as it was. A ticket without a row is a call in birth. A row
//! that is alive and also in a block is recognised by its ticket. A call that was half added to the totals is
//! taken out again with the undo record.
//!
//! A handle carries the generation of its row. After `retire`, an old handle finds no row: [`Recorder::row`]
//! counts it as stale. A callback that found the row just before may still store to it. The value is lost
//! then, and stands in no other call: the row serves again only when that callback has ended
//! ([`crate::seats`]).

use super::Recorder;
use crate::handle::{Handle, HandleKind};
use crate::seats::Inside;
use crate::totals;
use capture::live::{row_state, Cause, Odd, Row};
use capture::rows::Ticks;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What is known of a call when it is announced.
pub struct Birth {
    pub t: Ticks,
    pub count: u64,
    pub group: u64,
    pub stream: u64,
    pub root: i32,
    pub func: u8,
    pub datatype: u8,
    pub flags: u8,
    pub template: u32,
    pub stack: u32,
    /// See [`driver_time::take`](crate::driver_time::take).
    pub driver: u32,
    pub user_tag: u64,
    /// 0 for a replay: the program does not call then.
    pub thread: u32,
}

impl Recorder {
    #[inline]
    pub(super) fn row_at(&self, slot: u32) -> &'static Row {
        self.rows.at(slot as usize)
    }

    /// The live row of a handle that names one. It stays that call's as long as the caller is inside.
    #[inline]
    pub(super) fn row<'a>(&self, inside: &'a Inside, handle: Handle) -> Option<&'a Row> {
        let row = self.live_row(inside, handle);
        if row.is_none() {
            self.odd(Odd::StaleHandle);
        }
        row
    }

    /// The same; a row that is not there any more is nothing odd.
    #[inline]
    pub(super) fn live_row<'a>(&self, _: &'a Inside, handle: Handle) -> Option<&'a Row> {
        let row = self.row_at(handle.slot());
        let word = row.word.load(Acquire);
        let found = word & 3 == row_state::ALIVE
            && row_state::generation(word) as u32 == handle.generation();
        #[cfg(debug_assertions)]
        if found {
            crate::guard::forced::found();
        }
        found.then_some(row)
    }

    /// Takes a row and publishes it; the handle is of `kind`. Without a free row the call is counted in the
    /// totals.
    #[inline(always)]
    pub(super) fn birth(&self, kind: HandleKind, comm: u32, call: &Birth) -> Option<Handle> {
        let Some((ticket, slot)) = self.free.take(&self.header().born) else {
            // Field by field, so that other calls need not be built in memory.
            self.rowless(comm, call.count, [call.func, call.datatype], call.flags);
            return None;
        };
        let row = self.row_at(slot);
        let next = self.row_at(self.free.next_of(ticket));
        prefetch(&next.word);
        prefetch(&next.t_launch0);
        let generation = row_state::generation(row.word.load(Relaxed));
        row.t_api.store(call.t, Relaxed);
        row.count.store(call.count, Relaxed);
        row.group.store(call.group, Relaxed);
        row.stream.store(call.stream, Relaxed);
        row.comm.store(comm, Relaxed);
        row.root.store(call.root as u32, Relaxed);
        row.func.store(call.func, Relaxed);
        row.datatype.store(call.datatype, Relaxed);
        row.flags.store(call.flags, Relaxed);
        row.template.store(call.template, Relaxed);
        // On line E, which is the caller's alone until ALIVE.
        if call.stack != 0 {
            row.stack.store(call.stack, Relaxed);
        }
        if call.driver != 0 {
            row.driver.store(call.driver, Relaxed);
        }
        row.t_end.store(Ticks(0), Relaxed);
        row.thread.store(call.thread, Relaxed);
        if call.user_tag != 0 {
            row.user_tag.store(call.user_tag, Relaxed);
        }
        // Meets the Acquire in `row` and in the writer.
        row.word.store(
            row_state::word(generation, ticket, row_state::ALIVE),
            Release,
        );
        Some(Handle::new(kind, 0, slot, generation))
    }

    #[cold]
    fn rowless(&self, comm: u32, count: u64, names: [u8; 2], flags: u8) {
        let header = self.header();
        header.lost[Cause::RowsFull as usize].fetch_add(1, Relaxed);
        match totals::total(&self.live, &totals::key_of_birth(comm, count, names, flags)) {
            Some(total) => total.1.rowless.fetch_add(1, Relaxed),
            None => header.lost[Cause::TotalsFull as usize].fetch_add(1, Relaxed),
        };
    }
}

/// Asks for the cache line at `line`, to be written soon. What a call writes first was last touched by the
/// recorder's thread, so it is in another core's cache. The locked instruction of the next birth would wait
/// for these stores.
#[inline]
pub(super) fn prefetch<T>(line: *const T) {
    // SAFETY: a hint that never faults; CPUs without it take it for a no-op.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags))
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
