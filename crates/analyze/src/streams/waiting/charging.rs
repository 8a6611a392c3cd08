//! Who is behind a wait.
//!
//! Rule: the parts of a wait sum to at most 1.

use super::super::causes::{self, Causes, Still};
use super::super::intervals::{length, Span, Union};
use super::super::Lane;
use super::{Direct, Waits};
use crate::time::Nanos;
use std::collections::HashMap;

/// What of a span others do not cover.
pub fn without(span: Span, others: &Union) -> Vec<Span> {
    let mut left = Vec::new();
    let mut at = span.0;
    for (from, to) in others.within(span).spans() {
        left.push((at, *from));
        at = *to;
    }
    left.push((at, span.1));
    left.retain(|(from, to)| from < to);
    left
}

/// Who kept a lane from coming in this span: the lane itself, but where it stood still for another. `on`
/// says for whom a wait was.
fn culprit(
    still: &[Vec<Still>],
    on: &dyn Fn(usize) -> usize,
    lane: usize,
    span: Span,
    depth: usize,
    found: &mut Vec<(usize, Span)>,
) {
    let mut at = span.0;
    // Waits of a lane overlap if it has several streams; the first counts.
    let first = still[lane].partition_point(|((_, to), _)| *to <= span.0);
    for ((from, to), wait) in &still[lane][first..] {
        if *from >= span.1 || depth == 0 {
            break;
        }
        let part = ((*from).max(at), (*to).min(span.1));
        if part.0 >= part.1 {
            continue;
        }
        found.push((lane, (at, part.0)));
        culprit(still, on, on(*wait), part, depth - 1, found);
        at = part.1;
    }
    found.push((lane, (at, span.1)));
    found.retain(|(_, (from, to))| from < to);
}

/// The causes of a wait by who stood still while it lasted.
fn at_the_same_time(
    wait: &Direct,
    direct: &[Direct],
    still: &[Vec<Still>],
    lanes: usize,
) -> Causes {
    let mut found = Vec::new();
    let on = |wait: usize| direct[wait].last;
    culprit(still, &on, wait.last, wait.whole, lanes, &mut found);
    let whole = length(wait.whole).max(Nanos(1.0));
    let parts = found.into_iter();
    let parts = parts.map(|(lane, span)| (lane, length(span) / whole));
    parts.filter(|(lane, _)| *lane != wait.lane).collect()
}

impl Waits {
    /// Sums the waits up, and says who is behind each.
    pub(super) fn charge(&mut self, lanes: &[Lane]) {
        let direct = std::mem::take(&mut self.direct);
        let mut spans: HashMap<usize, Vec<Span>> = HashMap::new();
        // When each lane stood still, and in which wait.
        let mut still: Vec<Vec<Still>> = vec![Vec::new(); lanes.len()];
        for (index, wait) in direct.iter().enumerate() {
            spans.entry(wait.lane).or_default().push(wait.whole);
            let computes = &lanes[wait.lane].at(wait.window).computes;
            let exposed = without(wait.whole, computes);
            still[wait.lane].extend(exposed.into_iter().map(|span| (span, index)));
        }
        still.iter_mut().for_each(|of| of.sort_unstable());
        let mut order: Vec<usize> = (0..direct.len()).collect();
        order.sort_by_key(|index| (direct[*index].whole.1, *index));
        let mut causes: Vec<Causes> = vec![Causes::new(); direct.len()];
        for index in order {
            let wait = &direct[index];
            let seen = lanes[wait.lane].at(wait.window);
            let exposed = seen.without_computing(wait.whole);
            causes[index] = causes::causes(wait, exposed, &still, &causes)
                .unwrap_or_else(|| at_the_same_time(wait, &direct, &still, lanes.len()));
        }
        // Kernels of several streams may wait at the same time.
        for (lane, still) in still.iter().enumerate() {
            let still = Union::of(still.iter().map(|(span, _)| *span).collect());
            for (piece, span) in self.own[lane].iter().enumerate() {
                self.all.insert((lane, piece), still.covers(*span));
            }
        }
        let spans = spans.into_iter();
        self.waiting = spans
            .map(|(lane, spans)| (lane, Union::of(spans)))
            .collect();
        (self.direct, self.causes) = (direct, causes);
    }
}
