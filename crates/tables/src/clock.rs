//! From the recorder's ticks to CLOCK_REALTIME.
//!
//! A [`Clock`] is a list of anchors, moments at which both clocks were read. Between two anchors time is
//! linear. Before the first and after the last it goes on at the rate of the whole capture. The rate of two
//! anchors that are close together would be too rough.
//!
//! A clock that was set while the job ran (back, or by hours) must not bend the times between.
//! CLOCK_MONOTONIC was read at every anchor, too. Nobody can set it, so it shows such a step.
//!
//! Rule: a time without two anchors, or one and a clock that counts nanoseconds, is not known. It is never
//! guessed.

use capture::rows::Ticks;

/// The two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// The recorder's clock.
    pub ticks: Ticks,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime: u64,
    /// CLOCK_MONOTONIC, ns; 0 when not known.
    pub monotonic: u64,
}

/// CLOCK_REALTIME and CLOCK_MONOTONIC of two anchors differ by less than this unless the clock was set, ns.
const SET: i128 = 1_000_000;

/// By so much anchors of two processes differ at most if both read one machine's clocks, ns: the two are not
/// read at once.
const SAME: i128 = 10_000;

/// Turns ticks into time.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    anchors: Vec<Anchor>,
    nanoseconds: bool,
    /// The newest wall time of an anchor; 0 without one. Asked for each communicator, and a process that
    /// makes many has as many anchors.
    newest: u64,
}

impl Clock {
    /// A clock through these anchors, in any order; those with a zero are left out. `nanoseconds` says that a
    /// tick is one.
    pub fn new(anchors: impl IntoIterator<Item = Anchor>, nanoseconds: bool) -> Clock {
        let mut anchors: Vec<Anchor> = anchors
            .into_iter()
            .filter(|a| a.ticks != Ticks(0) && a.realtime != 0)
            .collect();
        anchors.sort_unstable();
        anchors.dedup_by_key(|a| a.ticks);
        ignore_steps(&mut anchors);
        let newest = anchors.iter().map(|a| a.realtime).max();
        Clock {
            anchors,
            nanoseconds,
            newest: newest.unwrap_or(0),
        }
    }

    /// Whether times can be told at all.
    pub fn is_known(&self) -> bool {
        self.anchors.len() > 1 || (self.nanoseconds && !self.anchors.is_empty())
    }

    /// The moment of `ticks`, ns since 1970; `None` for 0, which stands for "not known", and when there are
    /// no anchors.
    pub fn realtime(&self, ticks: Ticks) -> Option<i64> {
        if ticks == Ticks(0) || !self.is_known() {
            return None;
        }
        let after = self.anchors.partition_point(|a| a.ticks <= ticks);
        let (base, (from, to)) = match after {
            0 => (self.anchors[0], self.whole()),
            n if n == self.anchors.len() => (self.anchors[n - 1], self.whole()),
            n => (self.anchors[n - 1], (self.anchors[n - 1], self.anchors[n])),
        };
        let moved = i128::from(ticks.0) - i128::from(base.ticks.0);
        i64::try_from(i128::from(base.realtime) + scale(moved, from, to)).ok()
    }

    /// For the moments of many ticks that are mostly near each other.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            clock: self,
            from: Ticks(0),
            length: 0,
            base: 0,
            rate: 0,
            span: 1,
            ratio: 0.0,
        }
    }

    /// The moment of this CLOCK_MONOTONIC of the same process, ns since 1970.
    pub fn of_monotonic(&self, ns: u64) -> Option<i64> {
        let known = self.anchors.iter().filter(|a| a.monotonic != 0);
        // Both clocks are slewed alike, so any anchor would do but for its rounding.
        let near = known.min_by_key(|a| a.monotonic.abs_diff(ns))?;
        let moved = i128::from(ns) - i128::from(near.monotonic);
        i64::try_from(i128::from(near.realtime) + moved).ok()
    }

    /// The length of `ticks` in ns, at the rate of the whole capture.
    pub fn duration(&self, ticks: u64) -> Option<u64> {
        let (from, to) = self.is_known().then(|| self.whole())?;
        u64::try_from(scale(i128::from(ticks), from, to)).ok()
    }

    /// The newest anchor's wall time, ns since 1970: until then the recorder's thread is known to have lived.
    /// Known also where one anchor alone tells no other time.
    pub fn newest(&self) -> Option<i64> {
        i64::try_from(self.newest)
            .ok()
            .filter(|newest| *newest != 0)
    }

    /// Whether both are the wall clock of one machine: CLOCK_REALTIME was ahead of CLOCK_MONOTONIC by the
    /// same time. For processes of one boot.
    pub(crate) fn is_one_with(&self, other: &Clock) -> bool {
        let ahead = |clock: &Clock| -> Vec<i128> {
            let anchors = clock.anchors.iter().filter(|a| a.monotonic != 0);
            let ahead = |a: &Anchor| i128::from(a.realtime) - i128::from(a.monotonic);
            anchors.map(ahead).collect()
        };
        let (own, others) = (ahead(self), ahead(other));
        let mut own = own.iter();
        own.any(|a| others.iter().any(|b| (a - b).abs() <= SAME))
    }

    fn whole(&self) -> (Anchor, Anchor) {
        match (self.anchors.first(), self.anchors.last()) {
            (Some(first), Some(last)) if first.ticks < last.ticks => (*first, *last),
            _ => (
                Anchor {
                    ticks: Ticks(0),
                    realtime: 0,
                    monotonic: 0,
                },
                Anchor {
                    ticks: Ticks(1),
                    realtime: 1,
                    monotonic: 0,
                },
            ),
        }
    }
}

/// Numbers up to here are exact as floats, and so are small multiples of their products modulo 2^64.
const EXACT: u64 = 1 << 53;

/// Tells what [`Clock::realtime`] does, without a search and a division of 128 bits for each time.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    clock: &'a Clock,
    /// The stretch at hand: its first tick and how many there are; none at first.
    from: Ticks,
    length: u64,
    base: i64,
    /// It moves on by `rate` ns in `span` ticks.
    rate: u64,
    span: u64,
    ratio: f64,
}

impl Cursor<'_> {
    /// As [`Clock::realtime`].
    #[inline]
    pub fn realtime(&mut self, ticks: Ticks) -> Option<i64> {
        let moved = ticks.after(self.from) as u64;
        if moved >= self.length {
            return self.moved_out(ticks);
        }
        // The float is a few units off at most; the remainder says how many, and is small, so it survives
        // wrapping around.
        let mut ns = (moved as f64 * self.ratio) as i64;
        let product = moved.wrapping_mul(self.rate);
        let mut rest = product.wrapping_sub((ns as u64).wrapping_mul(self.span)) as i64;
        while rest < 0 {
            ns -= 1;
            rest += self.span as i64;
        }
        while rest >= self.span as i64 {
            ns += 1;
            rest -= self.span as i64;
        }
        Some(self.base + ns)
    }

    /// How long so many ticks are where the last time was, ns; 0 before any.
    #[inline]
    pub fn duration(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ratio) as u64
    }

    /// Takes up the stretch of `ticks`, where it is one that is quick to reckon with.
    #[cold]
    fn moved_out(&mut self, ticks: Ticks) -> Option<i64> {
        let anchors = &self.clock.anchors;
        let after = anchors.partition_point(|a| a.ticks <= ticks);
        let (from, to) = match anchors.get(after) {
            Some(next) if after > 0 => (anchors[after - 1], *next),
            _ => self.clock.whole(),
        };
        if let (Some(base), true) = (
            after.checked_sub(1),
            ticks != Ticks(0) && self.clock.is_known(),
        ) {
            let base = anchors[base];
            let length = match anchors.get(after) {
                Some(next) => next.ticks.since(base.ticks),
                None => EXACT.min(u64::MAX - base.ticks.0),
            };
            let rate = to.realtime.checked_sub(from.realtime);
            let span = to.ticks.since(from.ticks);
            let realtime = i64::try_from(base.realtime).ok();
            if let (Some(rate), Some(realtime)) = (rate, realtime) {
                // The product of length and ratio must be exact and leave room above `base`.
                let ratio = rate as f64 / span.max(1) as f64;
                let small = length <= EXACT && rate < EXACT && (1..EXACT).contains(&span);
                if small && length as f64 * ratio < EXACT as f64 && realtime < i64::MAX / 2 {
                    (self.from, self.length, self.base) = (base.ticks, length, realtime);
                    (self.rate, self.span, self.ratio) = (rate, span, ratio);
                }
            }
        }
        self.clock.realtime(ticks)
    }
}

/// Where the clock was set, counts on from the first anchor by CLOCK_MONOTONIC.
fn ignore_steps(anchors: &mut [Anchor]) {
    let wide = |n: u64| i128::from(n);
    let stepped = |a: &Anchor, b: &Anchor| {
        let (monotonic, realtime) = (
            wide(b.monotonic) - wide(a.monotonic),
            wide(b.realtime) - wide(a.realtime),
        );
        (realtime - monotonic).abs() > SET
    };
    let sound = |w: &[Anchor]| w[0].monotonic != 0 && w[0].monotonic <= w[1].monotonic;
    if !anchors.windows(2).any(|w| stepped(&w[0], &w[1])) || !anchors.windows(2).all(sound) {
        return;
    }
    let first = anchors[0];
    for anchor in anchors {
        let passed = anchor.monotonic - first.monotonic;
        anchor.realtime = first.realtime.saturating_add(passed);
    }
}

fn scale(ticks: i128, from: Anchor, to: Anchor) -> i128 {
    let rate = i128::from(to.realtime) - i128::from(from.realtime);
    // Both factors are below 2^64 in size, so the product fits but for the sign's bit.
    ticks.saturating_mul(rate) / (i128::from(to.ticks.0) - i128::from(from.ticks.0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_tells_the_same(
            anchors in prop::collection::vec((0u64..1 << 62, 0u64..1 << 62), 0..4),
            near in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40), 0..4),
            odd in prop::collection::vec((any::<u64>(), any::<u64>()), 0..2),
            nanoseconds: bool,
            offsets in prop::collection::vec((any::<prop::sample::Index>(), -2i64..1 << 44), 1..40),
        ) {
            let near = near.into_iter().map(|(t, r)| ((1 << 50) + t, (1 << 60) + r));
            let all: Vec<_> = anchors.into_iter().chain(near).chain(odd).collect();
            let clock = Clock::new(all.iter().map(|(t, r)| anchor(*t, *r)), nanoseconds);
            let mut cursor = clock.cursor();
            for (index, offset) in offsets {
                let base = if all.is_empty() { 0 } else { all[index.index(all.len())].0 };
                for ticks in [0, base.wrapping_add_signed(offset), base.wrapping_add_signed(offset >> 20)] {
                    prop_assert_eq!(cursor.realtime(Ticks(ticks)), clock.realtime(Ticks(ticks)));
                }
            }
        }
    }

    fn anchor(ticks: u64, realtime: u64) -> Anchor {
        Anchor {
            ticks: Ticks(ticks),
            realtime,
            monotonic: 0,
        }
    }

    #[test]
    fn a_clock_that_is_set_back_bends_no_time() {
        const S: u64 = 1_000_000_000;
        let set = |steps: [u64; 4]| {
            let anchors = (0..4u64).map(|i| Anchor {
                ticks: Ticks(1 + i * 2 * S),
                monotonic: 7 + i * S,
                realtime: 5000 * S + i * S - steps[i as usize],
            });
            let clock = Clock::new(anchors, false);
            let times = [1, 1 + S, 1 + 3 * S, 1 + 6 * S].map(|t| clock.realtime(Ticks(t)));
            (times, clock.duration(2 * S))
        };
        let expected = set([0; 4]);
        assert_eq!(expected.1, Some(S));
        assert_eq!(set([0, 0, 3600 * S, 3600 * S]), expected);
        assert_eq!(set([0, 0, 2 * S, 0]), expected);
        // What NTP corrects while the clock runs on is the better time.
        assert_ne!(set([0, 100, 200, 300]), expected);
    }

    #[test]
    fn each_stretch_has_its_own_rate() {
        let clock = Clock::new(
            [
                anchor(300, 10_300),
                anchor(100, 10_000),
                anchor(200, 10_200),
            ],
            false,
        );
        assert_eq!(clock.realtime(Ticks(150)), Some(10_100));
        assert_eq!(clock.realtime(Ticks(250)), Some(10_250));
        // The rate of the whole is 1.5 ns a tick.
        assert_eq!(clock.realtime(Ticks(320)), Some(10_330));
        assert_eq!(clock.realtime(Ticks(80)), Some(9_970));
        assert_eq!(clock.duration(20), Some(30));
    }

    #[test]
    fn one_anchor_is_enough_for_a_clock_of_nanoseconds_only() {
        assert_eq!(
            Clock::new([anchor(5, 1005)], true).realtime(Ticks(7)),
            Some(1007)
        );
        assert_eq!(
            Clock::new([anchor(5, 1005)], false).realtime(Ticks(7)),
            None
        );
        assert_eq!(Clock::new([], true).realtime(Ticks(7)), None);
        assert_eq!(
            Clock::new([anchor(0, 0), anchor(5, 1005)], true).realtime(Ticks(0)),
            None
        );
    }

    #[test]
    fn garbage_anchors_do_not_overflow() {
        let clock = Clock::new(
            [
                anchor(1, u64::MAX),
                anchor(2, 1),
                anchor(u64::MAX, u64::MAX),
            ],
            false,
        );
        for ticks in [1, 2, 3, u64::MAX / 2, u64::MAX] {
            let _ = (clock.realtime(Ticks(ticks)), clock.duration(ticks));
        }
    }
}
