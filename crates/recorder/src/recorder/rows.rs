//! Rows: how one is taken, and how its handle finds it again.

use super::Recorder;
use crate::handle::{Handle, Kind};
use crate::totals;
use capture::live::{row_state, Cause, Odd, Row};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What is known of a call when it is announced.
pub struct Birth {
    pub t: u64,
    pub count: u64,
    pub group: u64,
    pub stream: u64,
    pub root: i32,
    pub func: u8,
    pub datatype: u8,
    pub flags: u8,
    pub template: u32,
}

impl Recorder {
    #[inline]
    pub(super) fn row_at(&self, slot: u32) -> &'static Row {
        self.rows.at(slot as usize)
    }

    /// The live row of a handle that names one.
    #[inline]
    pub(super) fn row(&self, handle: Handle) -> Option<&'static Row> {
        let row = self.row_at(handle.slot());
        let word = row.word.load(Acquire);
        if word & 3 == row_state::ALIVE && row_state::generation(word) as u32 == handle.generation()
        {
            return Some(row);
        }
        self.odd(Odd::StaleHandle);
        None
    }

    /// Takes a row and publishes it; the handle is of `kind`. Without a free row the call is counted in the totals.
    #[inline(always)]
    pub(super) fn birth(
        &self,
        kind: Kind,
        comm: u32,
        call: &Birth,
    ) -> Option<(Handle, &'static Row)> {
        let Some((ticket, slot)) = self.free.take(&self.header().born) else {
            // One by one, so that the call needn't be in memory on the way that calls take.
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
        row.t_end.store(0, Relaxed);
        // Meets the Acquire in `row` and in the writer.
        row.word.store(
            row_state::word(generation, ticket, row_state::ALIVE),
            Release,
        );
        Some((Handle::new(kind, 0, slot, generation), row))
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

/// Asks for the cache line at `line`, to be written soon. What a call writes first was last touched by the recorder's
/// thread, so it is in another core's cache; and the locked instruction of the next birth would wait for the stores.
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
