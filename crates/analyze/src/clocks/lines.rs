//! How to move times of one host onto another's clock: what is known along a way over hosts, and lines
//! through it.
//!
//! Rule: a line is an estimate; its error says how far the truth may be from it where it is bounded.

use super::{drift, Clocks, Known, Offset, Offsets, FREQUENCY_ERROR_PPM, WINDOW};
use crate::time::{HostTime, Moment, Nanos};

/// Millionths of a whole.
const PPM: f64 = 1e6;

impl Known {
    /// The same moment on the clock of the host.
    fn on_host(&self) -> HostTime {
        HostTime((self.at + self.offset.estimate()).0)
    }
}

/// What is known on the way from the reference, which is the first host of `path`, to its last. The number of
/// operations is that of the last leg. A leg counts where the one before it has a window at that time.
pub(super) fn along(offsets: &Offsets, path: &[u32]) -> Vec<Known> {
    let mut legs = path.windows(2).map(|leg| offsets.stretch(leg[0], leg[1]));
    let first = legs.next().unwrap_or_default().into_iter();
    let known = first.map(|(at, offset, operations)| Known {
        // It is the reference's own clock.
        at: Moment(at.0),
        offset,
        operations,
    });
    let mut known: Vec<Known> = known.collect();
    for leg in legs {
        let mut on_the_way = known.iter();
        let mut next = on_the_way.next();
        let mut joined = Vec::new();
        // `at` is on the clock of the host between.
        for (at, offset, operations) in leg {
            while next.is_some_and(|of| of.on_host() < at - WINDOW / 2.0) {
                next = on_the_way.next();
            }
            let Some(of) = next else {
                break;
            };
            let apart = at - of.on_host();
            if apart.abs() <= WINDOW / 2.0 {
                joined.push(Known {
                    at: of.at + apart,
                    offset: of.offset.widened(drift(apart)).plus(&offset),
                    operations,
                });
            }
        }
        known = joined;
    }
    known
}

/// The window with the narrowest bounds, the first of equals.
pub(super) fn narrowest(known: &[Known]) -> Option<Known> {
    let width = |of: &&Known| (of.offset.width(), of.at);
    known.iter().min_by_key(width).copied()
}

/// By how much the clock runs faster, in millionths, between the best windows of the first half of the run
/// and of the second.
pub(super) fn drift_ppm(known: &[Known]) -> Option<(f64, f64)> {
    let (first, second) = known.split_at(known.len() / 2);
    let (from, to) = (narrowest(first)?, narrowest(second)?);
    let passed = to.at - from.at;
    let ppm = |more: Nanos| more / passed * PPM;
    (passed > Nanos::ZERO).then(|| {
        (
            ppm(to.offset.low - from.offset.high),
            ppm(to.offset.high - from.offset.low),
        )
    })
}

/// A clock less the reference's over the run, in pieces between steps. Without a piece, nothing is known of
/// the clock, and it is taken for the reference's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockLine {
    pieces: Vec<Piece>,
    /// How far the truth may be from it; `None` if that is not known.
    pub error: Option<Nanos>,
}

#[derive(Clone, Debug, PartialEq)]
struct Piece {
    /// It holds from here on.
    from: HostTime,
    /// The offset at that moment, and how much of it comes with each ns.
    offset: Nanos,
    rate: f64,
}

impl ClockLine {
    /// The line of a host. If nothing is known of its clock, it is taken for the reference's.
    pub fn of(host: &str, clocks: Option<&Clocks>) -> ClockLine {
        let line = clocks.and_then(|clocks| clocks.lines.get(host));
        line.cloned().unwrap_or_default()
    }

    /// The line of the reference itself.
    pub(super) fn reference() -> ClockLine {
        ClockLine::given(Nanos::ZERO, Nanos::ZERO)
    }

    /// The line of a clock that is off by as much always.
    pub(super) fn given(offset: Nanos, error: Nanos) -> ClockLine {
        let piece = Piece {
            from: HostTime(0),
            offset,
            rate: 0.0,
        };
        ClockLine {
            pieces: vec![piece],
            error: Some(error),
        }
    }

    /// The lines through the estimates, with the least squares, between `breaks`.
    pub(super) fn through(known: &[Known], breaks: &[Moment]) -> ClockLine {
        let piece_of = |at: Moment| breaks.iter().filter(|until| **until <= at).count();
        let mut line = ClockLine {
            pieces: Vec::new(),
            error: None,
        };
        for of in known.chunk_by(|a, b| piece_of(a.at) == piece_of(b.at)) {
            let from = of[0].on_host();
            let points = || {
                let one = |of: &Known| ((of.on_host() - from).0, of.offset.estimate().0);
                of.iter().map(one)
            };
            let n = of.len() as f64;
            let (x, y) = points().fold((0.0, 0.0), |a, p| (a.0 + p.0 / n, a.1 + p.1 / n));
            let (square, product) = points().fold((0.0, 0.0), |a, p| {
                (a.0 + (p.0 - x) * (p.0 - x), a.1 + (p.0 - x) * (p.1 - y))
            });
            let most = FREQUENCY_ERROR_PPM / PPM;
            let rate = if square > 0.0 { product / square } else { 0.0 };
            let rate = rate.clamp(-most, most);
            line.pieces.push(Piece {
                from,
                offset: Nanos((y - rate * x).round()),
                rate,
            });
        }
        let far = known.iter().map(|of| {
            let here = line.offset(of.on_host());
            let Offset { low, high, .. } = of.offset;
            (high - here).max(here - low).max(Nanos::ZERO)
        });
        line.error = far.max();
        line
    }

    /// The offset at this moment, in whole ns.
    fn offset(&self, at: HostTime) -> Nanos {
        let after = self.pieces.partition_point(|piece| piece.from <= at);
        let Some(piece) = self.pieces.get(after.saturating_sub(1)) else {
            return Nanos::ZERO;
        };
        piece.offset + Nanos(((at - piece.from) * piece.rate).0.round())
    }

    /// A moment of the host's own clock on the reference's clock.
    pub fn on_reference(&self, at: HostTime) -> Moment {
        Moment((at - self.offset(at)).0)
    }

    /// A moment of the reference's clock on the host's own.
    pub fn on_host(&self, at: Moment) -> HostTime {
        // Lines are almost parallel to the reference, so one step back is exact enough.
        let there = HostTime(at.0);
        there + self.offset(there)
    }

    /// The offset at the line's beginning: what was applied there.
    pub fn first_offset(&self) -> Nanos {
        self.pieces
            .first()
            .map_or(Nanos::ZERO, |piece| piece.offset)
    }
}
