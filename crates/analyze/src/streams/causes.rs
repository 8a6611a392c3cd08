//! Why a sender or receiver was late: by its own work, or because it had waited itself.
//!
//! Since the two passed on data in the same direction before, both have done the work of one micro-batch.
//! What the late one worked longer than the one that waits, it was late by itself. The rest of its lateness
//! is what it waited meanwhile, and whoever it waited for is charged for that, in the same way. In a
//! pipeline of equal stages nobody works longer than the others, so nobody is charged for the bubble of its
//! schedule.
//!
//! Rule: the causes of a wait sum to at most 1. What comes back to the rank that waits is charged to nobody.

use super::intervals::{length, Span};
use crate::time::Nanos;

/// Whom a kernel waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// The last rank of a collective.
    Rank,
    /// The one that it received from.
    Sender,
    /// The one that it sent to.
    Receiver,
}

/// A kernel that waited for another GPU.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// Of the kernel.
    pub lane: usize,
    /// Of the kernel.
    pub window: usize,
    /// Who came last.
    pub last: usize,
    /// As what.
    pub late: Late,
    /// From when to when it waited.
    pub whole: Span,
    /// When the two passed on data in the same direction before, in the same window; of a collective, when
    /// both went on at the end of the same one before.
    pub since: Option<i64>,
}

/// A lane stood still from when to when, and which wait that was.
pub type Still = (Span, usize);

/// Who a wait is charged to, and which part of it.
pub type Causes = Vec<(usize, f64)>;

/// The time in which a lane stood still within `span`, by wait. Waits overlap if a lane has several streams;
/// the first counts.
pub fn stood(still: &[Still], span: Span) -> Vec<(usize, Nanos)> {
    let mut at = span.0;
    let mut found = Vec::new();
    let first = still.partition_point(|((_, to), _)| *to <= span.0);
    for ((from, to), wait) in &still[first..] {
        if *from >= span.1 {
            break;
        }
        let part = ((*from).max(at), (*to).min(span.1));
        if part.0 < part.1 {
            found.push((*wait, length(part)));
            at = part.1;
        }
    }
    found
}

/// The causes of the wait, of which `exposed` was exposed. `still` is by lane, and `known` has the
/// causes of the waits that ended before. `None` if the two did not pass on data before in this window.
pub fn causes(
    wait: &Direct,
    exposed: Nanos,
    still: &[Vec<Still>],
    known: &[Causes],
) -> Option<Causes> {
    let (since, came) = (wait.since?, wait.whole.1);
    let needed = (came - exposed.whole()).max(since);
    let sum = |stood: &[(usize, Nanos)]| stood.iter().map(|(_, time)| time).sum::<Nanos>();
    let theirs = stood(&still[wait.last], (since, came));
    let worked = length((since, came)) - sum(&theirs);
    let own = length((since, needed)) - sum(&stood(&still[wait.lane], (since, needed)));
    let late = length((needed, came)).max(Nanos(1.0));
    let by_itself = (worked - own).clamp(Nanos::ZERO, late) / late;
    let mut causes = vec![(wait.last, by_itself)];
    let all = sum(&theirs);
    for (other, time) in theirs {
        let part = time * (1.0 - by_itself) / all;
        for (lane, of_it) in &known[other] {
            causes.push((*lane, part * of_it));
        }
    }
    causes.retain(|(lane, part)| *lane != wait.lane && *part > 0.0);
    Some(causes)
}
