//! How to move times of one host onto another's clock: what is known along a way over hosts, and lines
//! through it.
//!
//! Rule: a line is an estimate; its error says how far the truth may be from it where it is bounded.

use super::{drift, Offset, Offsets, FREQUENCY_ERROR_PPM, WINDOW_NS};

/// The windows on the way from the first host of `path` to its last, as moments on the first one's clock.
/// With each come the last one's clock less the first one's, and how many operations the last leg has. A leg
/// counts where the one before it has a window at that time.
pub(super) fn along(offsets: &Offsets, path: &[u32]) -> Vec<(i64, Offset, u64)> {
    let mut legs = path.windows(2).map(|leg| offsets.stretch(leg[0], leg[1]));
    let mut known = legs.next().unwrap_or_default();
    for leg in legs {
        let mut on_the_way = known.iter();
        let mut next = on_the_way.next();
        let mut joined = Vec::new();
        for (at, offset, operations) in leg {
            // The clock of the host between, at the middle of the window so far.
            let moment = |of: &(i64, Offset, u64)| of.0.saturating_add(of.1.estimate());
            while next.is_some_and(|of| moment(of) < at.saturating_sub(WINDOW_NS / 2)) {
                next = on_the_way.next();
            }
            let Some(of) = next else {
                break;
            };
            let apart = at.saturating_sub(moment(of));
            if apart.saturating_abs() <= WINDOW_NS / 2 {
                let so_far = of.1.widened(drift(apart));
                let first = at.saturating_sub(of.1.estimate());
                joined.push((first, so_far.plus(&offset), operations));
            }
        }
        known = joined;
    }
    known
}

/// By how much the clock runs faster, in millionths, between the best windows of the first half of the run
/// and of the second.
pub(super) fn drift_ppm(known: &[(i64, Offset, u64)]) -> Option<(f64, f64)> {
    let best = |of: &[(i64, Offset, u64)]| {
        let width = |(at, of, _): &&(i64, Offset, u64)| (of.high.saturating_sub(of.low), *at);
        of.iter().min_by_key(width).copied()
    };
    let (first, second) = known.split_at(known.len() / 2);
    let (from, to) = (best(first)?, best(second)?);
    let passed = to.0.saturating_sub(from.0);
    let ppm = |ns: i64| ns as f64 / passed as f64 * 1e6;
    (passed > 0).then(|| {
        (
            ppm(to.1.low.saturating_sub(from.1.high)),
            ppm(to.1.high.saturating_sub(from.1.low)),
        )
    })
}

/// A clock less the reference's over the run, in pieces between steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockLine {
    pieces: Vec<Piece>,
    /// How far the truth may be from it, ns; null where that is not known.
    pub error_ns: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Piece {
    /// On the host's own clock, ns: it holds from here on.
    from: i64,
    /// The offset at that moment, and how much of it comes with each ns.
    offset: i64,
    rate: f64,
}

impl ClockLine {
    /// The line of the reference itself.
    pub(super) fn reference() -> ClockLine {
        ClockLine::given(0, 0)
    }

    /// The line of a clock that is off by as much always.
    pub(super) fn given(offset: i64, error: i64) -> ClockLine {
        let piece = Piece {
            from: 0,
            offset,
            rate: 0.0,
        };
        ClockLine {
            pieces: vec![piece],
            error_ns: Some(error),
        }
    }

    /// The lines through the estimates, with the least squares, between `breaks` on the reference's clock.
    pub(super) fn through(known: &[(i64, Offset, u64)], breaks: &[i64]) -> ClockLine {
        let piece_of = |at: i64| breaks.iter().filter(|until| **until <= at).count();
        let mut line = ClockLine {
            pieces: Vec::new(),
            error_ns: None,
        };
        for of in known.chunk_by(|a, b| piece_of(a.0) == piece_of(b.0)) {
            let moment = |(at, of, _): &(i64, Offset, u64)| at.saturating_add(of.estimate());
            let from = moment(&of[0]);
            let points = || {
                let one = |of: &(i64, Offset, u64)| {
                    let x = moment(of).saturating_sub(from) as f64;
                    (x, of.1.estimate() as f64)
                };
                of.iter().map(one)
            };
            let n = of.len() as f64;
            let (x, y) = points().fold((0.0, 0.0), |a, p| (a.0 + p.0 / n, a.1 + p.1 / n));
            let (square, product) = points().fold((0.0, 0.0), |a, p| {
                (a.0 + (p.0 - x) * (p.0 - x), a.1 + (p.0 - x) * (p.1 - y))
            });
            let most = FREQUENCY_ERROR_PPM as f64 / 1e6;
            let rate = if square > 0.0 { product / square } else { 0.0 };
            let rate = rate.clamp(-most, most);
            line.pieces.push(Piece {
                from,
                offset: (y - rate * x).round() as i64,
                rate,
            });
        }
        let far = known.iter().map(|(at, of, _)| {
            let here = line.offset(at.saturating_add(of.estimate()));
            let (above, below) = (of.high.saturating_sub(here), here.saturating_sub(of.low));
            above.max(below).max(0)
        });
        line.error_ns = far.max();
        line
    }

    /// The offset at this moment of the host's own clock, ns.
    fn offset(&self, at: i64) -> i64 {
        let after = self.pieces.partition_point(|piece| piece.from <= at);
        let Some(piece) = self.pieces.get(after.saturating_sub(1)) else {
            return 0;
        };
        let since = at.saturating_sub(piece.from) as f64;
        piece
            .offset
            .saturating_add((piece.rate * since).round() as i64)
    }

    /// A moment of the host's own clock on the reference's clock, ns since 1970.
    pub fn on_reference(&self, at: i64) -> i64 {
        at.saturating_sub(self.offset(at))
    }

    /// The offset at the line's beginning, ns: what was applied there.
    pub fn first_offset_ns(&self) -> i64 {
        self.pieces.first().map_or(0, |piece| piece.offset)
    }
}
