//! Calls in their birth when the live part was left: their number is taken, and their row is not there yet.
//!
//! A thread takes a number, fills the row in, and publishes it. Killed or stopped in between, it leaves a
//! number that no row has. Numbers below `drained` had their rows seen by the recorder's thread, so only
//! those from there on are looked at.
//!
//! Rule: there is one at most for each thread that makes a call, and NCCL lets one thread at a time call on a
//! communicator. Where more numbers are without rows, that is no birth, and nothing is said.

use capture::live::{row_state, View};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How many calls were in their birth.
pub(crate) fn count(view: &View) -> u64 {
    let header = view.header();
    let (drained, born) = (header.drained.load(Acquire), header.born.load(Relaxed));
    let words = view.rows().iter().map(|row| row.word.load(Acquire));
    let there = words.filter(|word| {
        let ticket = row_state::ticket(*word);
        word & 3 == row_state::ALIVE && (drained..born).contains(&ticket)
    });
    let without = born
        .checked_sub(drained)
        .and_then(|n| n.checked_sub(there.count() as u64));
    let open = |comm: &&capture::live::Comm| {
        comm.uid.load(Acquire) != 0 && comm.finalized.load(Relaxed) == 0
    };
    let callers = view.comms().iter().filter(open).count() as u64;
    without.filter(|n| *n <= callers).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::live::{Image, Layout};

    /// What is found in a live part with these rows and communicators, 10 rows looked at and 10 + `taken`
    /// numbers taken.
    fn found(taken: u64, rows: &[u64], communicators: usize) -> u64 {
        let layout = Layout::for_memory(0);
        let image = Image::zeroed(layout.bytes());
        // SAFETY: the image is zeroed, long enough and outlives the view.
        let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
        view.header().drained.store(10, Relaxed);
        view.header().born.store(10 + taken, Relaxed);
        for ticket in rows {
            let word = row_state::word(3, *ticket, row_state::ALIVE);
            view.rows()[*ticket as usize].word.store(word, Relaxed);
        }
        for comm in &view.comms()[..communicators] {
            comm.uid.store(1, Relaxed);
        }
        count(&view)
    }

    #[test]
    fn a_number_without_a_row_is_a_birth() {
        assert_eq!(found(0, &[4, 9], 1), 0);
        assert_eq!(found(1, &[4, 9], 1), 1);
        assert_eq!(found(3, &[9, 10, 11], 1), 1);
        // The one in the middle.
        assert_eq!(found(3, &[10, 12], 1), 1);
        assert_eq!(found(3, &[10, 11, 12], 1), 0);
    }

    #[test]
    fn more_than_may_call_at_a_time_are_none() {
        assert_eq!(found(2, &[], 1), 0);
        assert_eq!(found(2, &[], 2), 2);
        assert_eq!(found(u64::MAX - 10, &[], 2), 0);
    }
}
