//! Who is charged for a wait.
//!
//! Rule: no wait is charged for more than once.

use super::super::causes::{self, Causes, Still};
use super::super::intervals::{Span, Union};
use super::super::Lane;
use super::{Direct, Waits};
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
    let length = (wait.whole.1 - wait.whole.0).max(1) as f64;
    let parts = found.into_iter();
    let parts = parts.map(|(lane, (from, to))| (lane, (to - from) as f64 / length));
    parts.filter(|(lane, _)| *lane != wait.lane).collect()
}

impl Waits {
    /// Sums the waits up, each charged to whom it was for.
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
        let mut causes: Vec<Option<Causes>> = vec![None; direct.len()];
        for index in order {
            let wait = &direct[index];
            let seen = lanes[wait.lane].at(wait.window);
            let exposed = seen.without_computing(wait.whole);
            causes[index] = causes::causes(wait, exposed, &still, &causes);
            if causes[index].is_none() {
                causes[index] = Some(at_the_same_time(wait, &direct, &still, lanes.len()));
            }
        }
        for (index, wait) in direct.iter().enumerate() {
            let seen = lanes[wait.lane].at(wait.window);
            let exposed = seen.without_computing(wait.charged).max(1);
            let part = (wait.least_exposed as f64 / exposed as f64).min(1.0);
            let within = |span: Span| {
                let exposed = seen.without_computing(span);
                let hidden = span.1 - span.0 - exposed;
                ((part * exposed as f64).round() as i64, hidden)
            };
            let pieces: Vec<(usize, Span)> = self.overlaps(wait.lane, wait.whole).collect();
            if !pieces.is_empty() {
                *self.times.entry((wait.lane, wait.last)).or_default() += 1;
            }
            for (piece, span) in pieces {
                let span = (span.0.max(wait.charged.0), span.1);
                if span.0 >= span.1 {
                    continue;
                }
                let mut charge = |lane: usize, exposed: i64, hidden: i64| {
                    let sum = self.by.entry((wait.lane, lane, piece)).or_default();
                    *sum = (sum.0 + exposed, sum.1 + hidden);
                };
                if wait.since.is_some() {
                    let (exposed, hidden) = within(span);
                    let of = |ns: i64, part: f64| (ns as f64 * part).round() as i64;
                    for (lane, part) in causes[index].iter().flatten() {
                        charge(*lane, of(exposed, *part), of(hidden, *part));
                    }
                    continue;
                }
                let mut culprits = Vec::new();
                let on = |wait: usize| direct[wait].last;
                culprit(&still, &on, wait.last, span, lanes.len(), &mut culprits);
                for (lane, span) in culprits.into_iter().filter(|(lane, _)| *lane != wait.lane) {
                    let (exposed, hidden) = within(span);
                    charge(lane, exposed, hidden);
                }
            }
        }
        for wait in &direct {
            self.charge_transfer(lanes, wait);
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
        (self.direct, self.causes, self.still) = (direct, causes, still);
        self.meets.sort_by_key(|meet| meet.needed.max(meet.came));
    }

    /// Charges the last lane for what the transfer after a wait is more exposed than it would be without the
    /// wait. That is as much as the last lane's own, if windows show what that one computed. Else the
    /// transfer would begin where the wait does, beside what was computed then.
    fn charge_transfer(&mut self, lanes: &[Lane], wait: &Direct) {
        let exposed =
            |lane: usize, window: usize, span: Span| lanes[lane].at(window).without_computing(span);
        let transfer = exposed(wait.lane, wait.window, (wait.whole.1, wait.end));
        let more = match lanes[wait.last].shows_computing(wait.other.0) {
            true => transfer - exposed(wait.last, wait.other.0, wait.other.1),
            false => {
                let (from, to) = wait.charged;
                transfer.min(to - from - exposed(wait.lane, wait.window, wait.charged))
            }
        };
        let piece = self.overlaps(wait.lane, wait.whole).last();
        if let Some((piece, _)) = piece.filter(|_| wait.charged.0 < wait.charged.1) {
            let sum = self.by.entry((wait.lane, wait.last, piece)).or_default();
            sum.0 += more;
        }
    }
}
