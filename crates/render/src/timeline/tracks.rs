//! Lays intervals on tracks, so that none crosses another.

use super::Span;
use std::collections::HashMap;

/// What times are read in, ns: GPUs' stamps were seen in steps of 1024.
const RESOLUTION_NS: i64 = 1_024;

/// Lets intervals, each with its ticket, begin where the one before it ends, if they overlap by no more than
/// their errors.
pub(super) fn trim(
    spans: &mut [(Span, u64)],
    error: impl Fn(u64) -> i64,
    trimmed: &mut HashMap<u64, i64>,
) {
    spans.sort_by_key(|(span, ticket)| (span.begin, span.end, *ticket));
    let mut before: Option<(i64, u64)> = None;
    for (span, ticket) in spans {
        if let Some((end, other)) = before.filter(|(end, _)| (span.begin..span.end).contains(end)) {
            let most = error(*ticket) + error(other) + RESOLUTION_NS;
            if end > span.begin && end - span.begin <= most {
                trimmed.insert(*ticket, end);
                span.begin = end;
            }
        }
        if before.is_none_or(|(end, _)| end <= span.end) {
            before = Some((span.end, *ticket));
        }
    }
}

/// Lays intervals, each with its ticket, on as few tracks as go without crossing, or without nesting too.
/// Calls `further` for those that are not on the first track, and returns how many tracks there are.
///
/// Files have slices in the order of tickets and readers sort them by time, so where times are equal it is
/// the tickets that decide what comes first.
pub(super) fn lay(
    spans: &[(Span, u64)],
    may_nest: bool,
    mut further: impl FnMut(u64, usize),
) -> usize {
    let mut order: Vec<&(Span, u64)> = spans.iter().collect();
    order.sort_by_key(|(span, ticket)| (span.begin, std::cmp::Reverse(span.end), *ticket));
    // Open intervals of each track, the innermost last.
    let mut tracks: Vec<Vec<(Span, u64)>> = Vec::new();
    for (span, ticket) in order {
        let fits = |open: &mut Vec<(Span, u64)>| {
            while open
                .pop_if(|(o, t)| (o.end, *t) < (span.begin, *ticket))
                .is_some()
            {}
            open.last().is_none_or(|(outer, t)| {
                may_nest && outer.end >= span.end && (outer.begin, *t) < (span.begin, *ticket)
            })
        };
        let track = tracks.iter_mut().position(fits).unwrap_or(tracks.len());
        if track == tracks.len() {
            tracks.push(Vec::new());
        }
        if track > 0 {
            further(*ticket, track);
        }
        tracks[track].push((*span, *ticket));
    }
    tracks.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The track of each interval.
    fn laid(spans: &[(i64, i64)], may_nest: bool) -> Vec<usize> {
        let spans: Vec<_> = (0..)
            .zip(spans)
            .map(|(ticket, (begin, end))| {
                let (begin, end) = (*begin, *end);
                (Span { begin, end }, ticket)
            })
            .collect();
        let mut tracks = vec![0; spans.len()];
        lay(&spans, may_nest, |ticket, track| {
            tracks[ticket as usize] = track;
        });
        tracks
    }

    #[test]
    fn what_overlaps_by_its_error_begins_later() {
        let spans = [
            (0, 10_000),
            (9_500, 20_000),
            (15_000, 30_000),
            (29_000, 29_500),
        ];
        let mut spans: Vec<(Span, u64)> = (0..)
            .zip(spans)
            .map(|(ticket, (begin, end))| (Span { begin, end }, ticket))
            .collect();
        let mut trimmed = HashMap::new();
        trim(&mut spans, |ticket| 200 * ticket as i64, &mut trimmed);
        // 5000 ns are more than the errors of times, and what lies in another is left as it is.
        assert_eq!(trimmed, HashMap::from([(1, 10_000)]));
    }

    #[test]
    fn what_crosses_goes_to_another_track() {
        assert_eq!(laid(&[(1, 5), (3, 8), (5, 9), (8, 9)], false), [0, 1, 0, 1]);
        assert_eq!(laid(&[(1, 5), (3, 8)], true), [0, 1]);
    }

    #[test]
    fn a_group_nests_on_the_host_only() {
        assert_eq!(laid(&[(1, 9), (2, 9), (3, 4)], true), [0, 0, 0]);
        assert_eq!(laid(&[(1, 9), (2, 9), (3, 4)], false), [0, 1, 2]);
    }

    #[test]
    fn equal_times_follow_the_order_in_the_file() {
        assert_eq!(laid(&[(1, 5), (5, 9)], false), [0, 0]);
        assert_eq!(laid(&[(5, 9), (1, 5)], false), [1, 0]);
        assert_eq!(laid(&[(1, 9), (1, 5)], true), [0, 0]);
        assert_eq!(laid(&[(1, 5), (1, 9)], true), [1, 0]);
    }
}
