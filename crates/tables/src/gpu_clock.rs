//! From a GPU's own clock, which NCCL's stamps are in, to the host's.
//!
//! Nobody reads both clocks at once, but every call bounds the distance between them (host less GPU). A
//! kernel can't have ended after the host heard of its end, and can't have begun before its launch.
//! [`Bounds`] keeps the two tightest of every window of time, and [`GpuClock`] joins them. At any moment the
//! distance lies between what its neighbours allow, if the clocks drift apart by no more than [`DRIFT_PPM`].
//! Where they allow nothing, or stamps go back, the GPU's clock stepped, and what lies on the two sides is
//! kept apart.
//!
//! Rule: an error is a bound, never a spread. A moment whose distance is not bounded from both sides has no
//! place on the host's clock. Two kinds of steps can't be seen, and may be missing in the error. One is a
//! step forward by less than launches are ahead of their kernels, while callbacks are late by more than the
//! step. The other is smaller than what the bounds of two neighbours and the drift between them leave open
//! (40 us if launches and callbacks are 10 us away).

use std::collections::HashMap;

/// Windows are short against what a clock drifts in them (5 us at most), and long enough to have a tight
/// bound each.
const WINDOW_NS: i64 = 100_000_000;
/// Most that the clocks of the host and a GPU gain on each other, the host's being set right by NTP included:
/// 1e-6.
const DRIFT_PPM: i64 = 100;
/// A launch that looks this much later than its kernel is no rounding: the stamps are another kernel's.
pub(crate) const TOLERANCE_NS: i64 = 50_000;
/// The highest lower bounds are kept, in classes of 2^13 ns. Classes that turn out to be of stale stamps are
/// left out whole. So the rest does not depend on the order in which calls come.
const CLASS: u32 = 13;
const LOWS: usize = 16;

/// What the calls of a window say of the distance between the clocks, ns.
#[derive(Clone, Debug)]
struct Window {
    /// The distance is no larger, and when that was seen, by the host.
    high: i64,
    high_at: i64,
    /// It is no smaller, and when: the largest of each class, largest first.
    lows: Vec<(i64, i64)>,
    /// The GPU's clock was seen to go back.
    stepped: bool,
}

impl Window {
    fn new(high: i64, at: i64) -> Window {
        Window {
            high,
            high_at: at,
            lows: Vec::new(),
            stepped: false,
        }
    }

    fn raise(&mut self, low: i64, at: i64) {
        let class = |low: i64| low >> CLASS;
        let place = self.lows.partition_point(|(l, _)| class(*l) > class(low));
        match self.lows.get_mut(place) {
            Some(same) if class(same.0) == class(low) => *same = (*same).max((low, at)),
            _ if place < LOWS => {
                self.lows.insert(place, (low, at));
                self.lows.truncate(LOWS);
            }
            _ => {}
        }
    }

    fn lower(&mut self, high: i64, at: i64) {
        (self.high, self.high_at) = (self.high, self.high_at).min((high, at));
    }

    fn merge(&mut self, other: &Window) {
        self.stepped |= other.stepped;
        self.lower(other.high, other.high_at);
        for (low, at) in &other.lows {
            self.raise(*low, *at);
        }
    }

    /// The largest lower bound that is no stale stamp's.
    fn low(&self) -> Option<(i64, i64)> {
        let most = self.high.saturating_add(TOLERANCE_NS) >> CLASS;
        self.lows
            .iter()
            .find(|(low, _)| low >> CLASS < most)
            .copied()
    }
}

/// The bounds of one GPU.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    windows: HashMap<i64, Window>,
    /// The window at hand: calls of one window mostly follow each other.
    open: Option<(i64, Window)>,
    /// The window that was asked for last, and what was told.
    told: Option<(i64, Option<i64>)>,
}

impl Bounds {
    /// A call's stamps, when the host was told of its end, and its launch where that is known.
    pub(crate) fn look(&mut self, start: u64, stop: u64, seen_ns: i64, launch_ns: Option<i64>) {
        let window = self.window(seen_ns.wrapping_sub(stop as i64), seen_ns);
        if let Some(launch) = launch_ns {
            window.raise(launch.wrapping_sub(start as i64), launch);
        }
    }

    /// The stamps of a call that was seen then go back behind those of the one before, or behind themselves.
    pub(crate) fn step(&mut self, seen_ns: i64) {
        self.window(i64::MAX, seen_ns).stepped = true;
    }

    /// The window of that moment, with this bound.
    fn window(&mut self, high: i64, seen_ns: i64) -> &mut Window {
        let number = seen_ns.div_euclid(WINDOW_NS);
        match self.open.take() {
            Some((open, mut window)) if open == number => {
                window.lower(high, seen_ns);
                &mut self.open.insert((open, window)).1
            }
            other => {
                self.open = other;
                self.close();
                &mut self.open.insert((number, Window::new(high, seen_ns))).1
            }
        }
    }

    /// Takes in what another saw of the same GPU.
    pub(crate) fn merge(&mut self, mut other: Bounds) {
        self.close();
        other.close();
        for (number, window) in other.windows {
            self.put(number, window);
        }
    }

    fn close(&mut self) {
        if let Some((number, window)) = self.open.take() {
            self.put(number, window);
        }
    }

    fn put(&mut self, number: i64, window: Window) {
        match self.windows.get_mut(&number) {
            Some(there) => there.merge(&window),
            None => {
                self.windows.insert(number, window);
            }
        }
    }

    /// The smallest upper bound in the window of that moment and its neighbours.
    pub(crate) fn around(&mut self, seen_ns: i64) -> Option<i64> {
        let number = seen_ns.div_euclid(WINDOW_NS);
        match self.told {
            Some((told, distance)) if told == number => distance,
            _ => {
                self.close();
                let numbers = number.saturating_sub(1)..=number.saturating_add(1);
                let windows = numbers.filter_map(|n| self.windows.get(&n));
                let distance = windows.map(|w| w.high).min();
                self.told = Some((number, distance));
                distance
            }
        }
    }

    /// The clock that these bounds make.
    pub(crate) fn clock(&mut self) -> GpuClock {
        self.close();
        let mut points: Vec<Point> = self.windows.values().map(Point::of).collect();
        points.sort_unstable_by_key(|p| p.at);
        GpuClock::new(points)
    }
}

/// Bounds of the distance at a moment, ns; a low of `i64::MIN` is none, and one above the high says that
/// nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    at: i64,
    low: i64,
    high: i64,
    /// Number of the stretch without a step that it is in.
    piece: u32,
}

impl Point {
    fn of(window: &Window) -> Point {
        if window.stepped {
            return Point {
                at: window.high_at,
                low: i64::MAX,
                high: i64::MIN,
                piece: 0,
            };
        }
        Point {
            at: window.high_at,
            low: window.low().map_or(i64::MIN, |(low, at)| {
                low.saturating_sub(drift(window.high_at.saturating_sub(at)))
            }),
            high: window.high,
            piece: 0,
        }
    }

    /// What it says of another moment.
    fn reach(&self, at: i64) -> (i64, i64) {
        let drift = drift(self.at.saturating_sub(at));
        (
            self.low.saturating_sub(drift),
            self.high.saturating_add(drift),
        )
    }
}

/// What the clocks gain on each other in that time, at most.
pub(crate) fn drift(ns: i64) -> i64 {
    (ns.saturating_abs() / 1_000_000).saturating_mul(DRIFT_PPM) + DRIFT_PPM
}

/// A GPU's clock on the host's.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpuClock {
    points: Vec<Point>,
    /// The point after the moment that was asked for last.
    after: usize,
}

impl GpuClock {
    fn new(mut points: Vec<Point>) -> GpuClock {
        let mut piece = 0;
        for i in 0..points.len() {
            if points[i].low > points[i].high {
                // It stepped within the window: nothing is known there, nor what it has to do with the
                // others.
                piece += 1;
                points[i].piece = piece;
                piece += 1;
                continue;
            }
            if let Some(before) = i.checked_sub(1).map(|b| points[b]) {
                let (low, high) = before.reach(points[i].at);
                let joined = (low.max(points[i].low), high.min(points[i].high));
                if before.piece == piece && joined.0 <= joined.1 {
                    (points[i].low, points[i].high) = joined;
                } else if before.piece == piece {
                    piece += 1;
                }
            }
            points[i].piece = piece;
        }
        for i in (1..points.len()).rev() {
            let (before, after) = (points[i - 1], points[i]);
            if before.piece == after.piece {
                let (low, high) = after.reach(before.at);
                points[i - 1].low = before.low.max(low);
                points[i - 1].high = before.high.min(high);
            }
        }
        GpuClock { points, after: 0 }
    }

    /// The distance of the clocks at a moment of the host's, and its error, ns.
    pub(crate) fn distance(&mut self, at: i64) -> Option<(i64, i64)> {
        // Calls come in order, more or less.
        let is_after = |i: usize| self.points.get(i).is_none_or(|p| p.at > at);
        let is_before = |i: usize| i == 0 || self.points[i - 1].at <= at;
        if !(is_after(self.after) && is_before(self.after)) {
            self.after = self.points.partition_point(|p| p.at <= at);
        }
        let before = self.after.checked_sub(1).map(|i| self.points[i]);
        let after = self.points.get(self.after).copied();
        let (low, high) = match (before, after) {
            (Some(before), Some(after)) if before.piece == after.piece => {
                let (a, b) = (before.reach(at), after.reach(at));
                (a.0.max(b.0), a.1.min(b.1))
            }
            // Between two stretches lies a step, and when is not known.
            (Some(_), Some(_)) => return None,
            (Some(end), None) | (None, Some(end)) => end.reach(at),
            (None, None) => return None,
        };
        if low == i64::MIN {
            return None;
        }
        let width = high.checked_sub(low).filter(|w| *w >= 0)?;
        Some((low + width / 2, width / 2 + 1))
    }

    /// How often the GPU's clock was found to have stepped.
    #[cfg(test)]
    fn steps(&self) -> usize {
        self.points
            .windows(2)
            .filter(|pair| pair[0].piece != pair[1].piece)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;
    const BEGIN: i64 = 1_700_000_000_000_000_000;

    /// Host less GPU at a moment: a distance that drifts, and steps.
    struct Truth {
        distance: i64,
        ppm: i64,
        steps: Vec<(i64, i64)>,
    }

    impl Truth {
        fn at(&self, host: i64) -> i64 {
            let steps = self.steps.iter().filter(|(at, _)| *at <= host);
            self.distance + (host - BEGIN) / MS * self.ppm + steps.map(|s| s.1).sum::<i64>()
        }

        /// Looks at a kernel that began at `start`; it was launched and seen so much earlier and later.
        fn show(&self, bounds: &mut Bounds, start: i64, run: i64, early: i64, late: i64) {
            let gpu = |host: i64| (host - self.at(host)) as u64;
            let stop = start + run;
            bounds.look(gpu(start), gpu(stop), stop + late, Some(start - early));
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_within_the_error(
            distance in -2_000_000i64..2_000_000,
            ppm in -DRIFT_PPM..=DRIFT_PPM,
            calls in prop::collection::vec(
                (10_000i64..30 * MS, 1_000i64..200_000, 4_000i64..9 * MS, 1_000i64..5 * MS), 1..300),
            asked in prop::collection::vec(0i64..4_000, 1..20),
        ) {
            let truth = Truth { distance, ppm, steps: Vec::new() };
            let mut bounds = Bounds::default();
            let mut at = BEGIN;
            for (pause, run, early, late) in calls {
                at += pause;
                truth.show(&mut bounds, at, run, early, late);
            }
            let mut clock = bounds.clock();
            prop_assert_eq!(clock.steps(), 0);
            for ms in asked {
                let moment = BEGIN + (at - BEGIN) * ms / 4_000;
                if let Some((found, error)) = clock.distance(moment) {
                    prop_assert!((found - truth.at(moment)).abs() <= error);
                }
            }
        }

        // Larger than launches and callbacks that are 9 us away, and what clocks drift in two windows, leave
        // open.
        #[test]
        fn a_step_is_never_averaged_away(
            step in prop_oneof![-5 * MS..-45_000, 45_000..5 * MS],
            at in 300i64..1_700,
            early in 4_000i64..9_000,
            late in 1_000i64..9_000,
        ) {
            let stepped = BEGIN + at * MS + 77_777;
            let truth = Truth { distance: 12_345, ppm: 3, steps: vec![(stepped, step)] };
            let mut bounds = Bounds::default();
            for call in 0..1_000 {
                truth.show(&mut bounds, BEGIN + call * 2 * MS, 30_000, early, late);
            }
            let mut clock = bounds.clock();
            prop_assert!(clock.steps() > 0);
            let mut known = 0;
            for call in 0..1_000 {
                let moment = BEGIN + call * 2 * MS;
                if let Some((found, error)) = clock.distance(moment) {
                    prop_assert!((found - truth.at(moment)).abs() <= error, "{call}");
                    known += 1;
                }
            }
            // What is lost are the windows beside it.
            prop_assert!(known >= 800, "{known}");
        }
    }

    #[test]
    fn a_step_that_drift_may_be_is_missing_in_the_error_at_most() {
        let step = 20_000;
        let stepped = BEGIN + 300 * MS + 77_777;
        let truth = Truth {
            distance: 12_345,
            ppm: 3,
            steps: vec![(stepped, step)],
        };
        let mut bounds = Bounds::default();
        for call in 0..1_000 {
            truth.show(&mut bounds, BEGIN + call * 2 * MS, 30_000, 5_018, 5_476);
        }
        let mut clock = bounds.clock();
        for call in 0..1_000 {
            let moment = BEGIN + call * 2 * MS;
            let (found, error) = clock.distance(moment).expect("a distance");
            assert!((found - truth.at(moment)).abs() <= error + step, "{call}");
        }
    }

    #[test]
    fn a_step_that_late_callbacks_hide_shows_as_stamps_that_go_back() {
        // As seen on H200: the GPU's clock went back by 2.84 ms while callbacks were late by as much.
        let stepped = BEGIN + 2 * MS;
        let truth = Truth {
            distance: 0,
            ppm: 0,
            steps: vec![(stepped, 2_840_000)],
        };
        let mut bounds = Bounds::default();
        for call in 0..20_000 {
            let at = BEGIN + call * 44_000;
            let late = if at < stepped {
                stepped + 3 * MS - at
            } else {
                5_000
            };
            truth.show(&mut bounds, at, 3_000, 4_000, late);
        }
        let hidden = bounds.clock().distance(BEGIN + MS).expect("a distance");
        assert!((hidden.0 - truth.at(BEGIN + MS)).abs() > 2 * MS);
        bounds.step(stepped + 3 * MS);
        let mut clock = bounds.clock();
        assert_eq!(clock.distance(BEGIN + MS), None);
        let (found, error) = clock.distance(BEGIN + 500 * MS).expect("known");
        assert!((found - truth.at(BEGIN + 500 * MS)).abs() <= error);
    }

    #[test]
    fn launches_on_an_idle_stream_make_the_error_small() {
        let truth = Truth {
            distance: -850_000,
            ppm: 4,
            steps: Vec::new(),
        };
        let mut bounds = Bounds::default();
        // One call in fifty finds the stream idle, and one is seen at once.
        for call in 0..2_000 {
            let early = if call % 50 == 0 { 5_000 } else { 3 * MS };
            let late = if call % 50 == 1 { 2_000 } else { 400_000 };
            truth.show(&mut bounds, BEGIN + call * MS, 200_000, early, late);
        }
        let mut clock = bounds.clock();
        let (found, error) = clock.distance(BEGIN + 1_000 * MS).expect("known");
        assert!((found - truth.at(BEGIN + 1_000 * MS)).abs() <= error);
        assert!(error < 12_000, "{error}");
    }

    #[test]
    fn without_launches_nothing_is_known() {
        let mut bounds = Bounds::default();
        for call in 0..100 {
            bounds.look(
                5_000 + call * 1_000,
                5_500 + call * 1_000,
                BEGIN + call as i64 * 1_000,
                None,
            );
        }
        assert_eq!(bounds.clock().distance(BEGIN), None);
    }

    #[test]
    fn stale_stamps_do_not_make_the_lower_bound() {
        let truth = Truth {
            distance: 70_000,
            ppm: 0,
            steps: Vec::new(),
        };
        let mut bounds = Bounds::default();
        for call in 0..200 {
            let at = BEGIN + call * 300_000;
            truth.show(&mut bounds, at, 9_000, 5_000, 2_000);
            // The stamps of a kernel 7 ms ago.
            let old = (at - 7 * MS - truth.distance) as u64;
            bounds.look(old, old + 9_000, at + 11_000, Some(at - 5_000));
        }
        let mut clock = bounds.clock();
        let (found, error) = clock.distance(BEGIN + 30 * MS).expect("known");
        assert!((found - truth.distance).abs() <= error && error < 12_000);
        assert_eq!(clock.steps(), 0);
    }
}
