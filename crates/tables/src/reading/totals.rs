//! The totals of a live part: calls that were counted and have no row.

use crate::clock::Clock;
use crate::process::{HistogramOf, Total};
use capture::live::{self, View};
use capture::rows::Shapes;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The totals. A fold that the process's death cut short is taken back when its row is still there, because
/// the row then counts.
pub(super) fn totals(view: &View, clock: &Clock, shapes: &mut Shapes) -> Vec<Total> {
    let undo = &view.header().undo;
    let word = undo.ticket.load(Acquire);
    let half_done = word.checked_sub(1).filter(|ticket| {
        view.rows().iter().any(|row| {
            let word = row.word.load(Acquire);
            live::row_state::ticket(word) == *ticket && word & 3 == live::row_state::ALIVE
        })
    });
    let undone_entry = half_done.map(|_| undo.entry.load(Relaxed) as usize);
    let undone_bucket = half_done
        .and_then(|_| undo.bucket.load(Relaxed).checked_sub(64))
        .map(|b| (b as usize / 64, b as usize % 64));
    let mut found = Vec::new();
    for (index, total) in view.totals().iter().enumerate() {
        if total.state.load(Acquire) != 2 {
            continue;
        }
        let undone = undone_entry == Some(index);
        let before = |field: usize, now: u64| {
            if undone {
                undo.before[field].load(Relaxed)
            } else {
                now
            }
        };
        let mut histogram = Vec::new();
        for (octave, page) in total.pages.iter().enumerate() {
            let Some(number) = usize::from(page.load(Relaxed)).checked_sub(1) else {
                continue;
            };
            let Some(page) = view.pages().get(number) else {
                continue;
            };
            for (bucket, count) in page.iter().enumerate() {
                let count = match undone_bucket {
                    Some(place) if place == (number, bucket) => undo.bucket_before.load(Relaxed),
                    _ => count.load(Relaxed).into(),
                };
                if count != 0 {
                    histogram.push((live::bucket_middle(octave, bucket), count));
                }
            }
        }
        let text = |i: usize| total.names[i].load(Relaxed);
        let shape = capture::rows::Shape {
            comm: total.comm.load(Relaxed),
            count: total.count.load(Relaxed),
            func: text(0),
            datatype: text(1),
            algorithm: text(2),
            protocol: text(3),
            flags: total.flags.load(Relaxed),
            nchannels: total.nchannels.load(Relaxed),
            root: -1,
            ..capture::rows::Shape::default()
        };
        found.push(Total {
            shape: shapes.intern(shape),
            folded: before(0, total.calls.load(Relaxed)),
            rowless: total.rowless.load(Relaxed),
            timed: before(1, total.timed.load(Relaxed)),
            sum: before(2, total.sum.load(Relaxed)),
            min: before(3, total.min.load(Relaxed)),
            max: before(4, total.max.load(Relaxed)),
            host_ns: clock.duration(before(5, total.host.load(Relaxed))),
            histogram,
            histogram_of: match (
                before(0, total.calls.load(Relaxed)),
                before(1, total.timed.load(Relaxed)),
            ) {
                (_, 0) => HistogramOf::Host,
                (calls, timed) if calls == timed => HistogramOf::Gpu,
                _ => HistogramOf::Both,
            },
        });
    }
    found
}
