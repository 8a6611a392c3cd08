//! Which launches are timed, so that timing them keeps to its budget.
//!
//! Of the kind of launch that comes most often, one in `1 << level` is timed. Of a kind that comes less
//! often, about as many are timed in the same time, and so are all of those that come once in a step. The
//! launching thread asks [`Switch::wants`] for each launch; it notices a flood at once, because its credit
//! runs out. The poller looks at the rate of launches some milliseconds later, and sets level and credit by
//! it ([`Pace::keep`]).
//!
//! The switch also says whether CUDA may be called at all.

use std::sync::atomic::{
    fence, AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::time::{Duration, Instant};

/// What it costs a GPU's busy stream to time a launch, ns: 5.4 us were measured on H200, for every size.
const COST_NS: f64 = 5_400.0;
/// What the event of a stream that waits costs, as a share of that: it is one event instead of two.
const WAIT_COST: f64 = 0.5;
/// Launches that are timed after a calm time before anybody looks at the rate: a step's calls come in bursts.
const BURST: u32 = 256;
/// The same after the burst is used up: the sample of a flood gets sparser after each so many.
const FLOOD: u32 = 32;
/// Between looks at the rate.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The first calls of each kind are timed whatever the rate.
const FIRST: u32 = 8;
/// The highest level with a budget of 1 %, whatever the rate. A flood of launches on the fastest machine seen
/// (one each 9 us) then costs 0.9 %. A smaller budget may go deeper.
const DEEPEST: u32 = 6;

/// The sample of launches of graphs is no sparser than one in `1 << MOST_SPARSE`.
const MOST_SPARSE: u32 = 10;

/// How often kinds come is the mean of about so many looks: steps may take seconds.
const REMEMBERED: f64 = 50.0;
/// No kind is rarer than this.
const RAREST: u32 = 31;

/// Launches of one function and class of size on a communicator.
#[derive(Default)]
pub(super) struct Kind {
    /// So far; wraps round.
    launches: AtomicU32,
    /// The kind that comes most often comes `1 << rarer` times as often, or more.
    rarer: AtomicU32,
}

impl Kind {
    /// The number of a launch; only the launching thread takes them.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        let number = self.launches.load(Relaxed);
        self.launches.store(number.wrapping_add(1), Relaxed);
        number
    }

    /// As new.
    pub(super) fn reset(&self) {
        self.launches.store(0, Relaxed);
        self.rarer.store(0, Relaxed);
    }
}

/// Whether this process may still call CUDA, and which share of the launches is timed.
pub struct Switch {
    /// True once no CUDA function may be called any more.
    off: AtomicBool,
    /// No launch is timed for a while, to see what timing costs.
    quiet: AtomicBool,
    /// CUDA's error that ended it; 0 none.
    pub error: AtomicU32,
    /// The poller is in a CUDA function.
    pub(super) polling: AtomicBool,
    /// One in `1 << level` launches of the most frequent kind is timed.
    level: AtomicU32,
    /// More launches come than that can keep to the budget, until the poller looks again: all kinds are
    /// thinned out alike.
    flood: AtomicBool,
    /// Launches that may be timed before the poller looks again.
    credit: AtomicU32,
    /// Launches that were timed, and events that were recorded on streams that wait for them; both wrap
    /// round.
    timed: AtomicU32,
    waits: AtomicU32,
    /// Launches that may be timed per second, as long as that leaves a sample; 0 no limit.
    limit: f64,
    /// The level is at most this.
    deepest: u32,
}

impl Switch {
    /// `budget` is the share of the GPU's time that timing may take; `None` times every launch.
    pub fn new(budget: Option<f64>) -> Switch {
        Switch {
            off: AtomicBool::new(false),
            quiet: AtomicBool::new(false),
            error: AtomicU32::new(0),
            polling: AtomicBool::new(false),
            level: AtomicU32::new(0),
            flood: AtomicBool::new(false),
            credit: AtomicU32::new(BURST),
            timed: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            limit: budget.map_or(0.0, |share| share * 1e9 / COST_NS),
            deepest: budget.map_or(0, |share| {
                (f64::from(DEEPEST) + (0.01 / share).log2())
                    .ceil()
                    .clamp(0.0, 31.0) as u32
            }),
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.off.load(Acquire)
    }

    /// From now on no CUDA function is called. Waits until the poller is out of CUDA, at most 100
    /// ms.
    pub fn end(&self) {
        self.off.store(true, Release);
        fence(SeqCst);
        for _ in 0..1000 {
            if !self.polling.load(Acquire) {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// From now on no launch is timed, or as many as before again. Where every launch is to be timed, it
    /// stays so.
    pub fn quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Relaxed);
    }

    #[cold]
    pub(super) fn fail(&self, code: u32) {
        self.error.store(code, Relaxed);
        self.off.store(true, Release);
    }

    /// Whether the `index`-th launch of its kind is in the sample, which is one in `1 << least` at most.
    #[inline]
    pub(super) fn wants(&self, kind: &Kind, index: u32, least: u32) -> bool {
        if self.limit == 0.0 {
            return true;
        }
        if self.quiet.load(Relaxed) {
            return false;
        }
        let level = self.level.load(Relaxed);
        let level = if self.flood.load(Relaxed) {
            level
        } else {
            level.saturating_sub(kind.rarer.load(Relaxed))
        };
        let level = level.max(least);
        let first = index < FIRST;
        if !first && !sampled(index, level) {
            return false;
        }
        self.timed
            .store(self.timed.load(Relaxed).wrapping_add(1), Relaxed);
        self.pay();
        true
    }

    /// Whether an event may be recorded on a stream that waits for a launch of the sample. There is at most
    /// one for each launch, so a flood costs half as much again until the poller looks at the
    /// rate.
    pub(super) fn wants_wait(&self) -> bool {
        if self.limit == 0.0 {
            return true;
        }
        if self.quiet.load(Relaxed) {
            return false;
        }
        if self.waits.fetch_add(1, Relaxed) % 2 == 1 {
            self.pay();
        }
        true
    }

    /// Takes from the credit what a pair of events costs.
    fn pay(&self) {
        // The rate is known only some milliseconds later, so a flood must be noticed here.
        let level = self.level.load(Relaxed);
        let credit = self.credit.load(Relaxed);
        if credit == 0 {
            if level < self.deepest {
                self.level.store(level + 1, Relaxed);
            } else {
                self.flood.store(true, Relaxed);
            }
            self.credit.store(FLOOD, Relaxed);
        } else {
            self.credit.store(credit - 1, Relaxed);
        }
    }
}

/// Launches of graphs may take this part of the budget. They follow each other at once, so what timing them
/// costs is all added to the step: 7.6 us on H200, where a step of decoding takes 0.7 ms.
const OF_GRAPHS: f64 = 0.125;

/// The poller's part: it looks at the rate of launches, and sets the level by it.
#[derive(Default)]
pub(super) struct Pace {
    /// As `since`, of launches of graphs.
    graphs: Option<(Instant, u32)>,
    /// Since when launches are counted for the rate, and how many there were then.
    since: Option<(Instant, u32)>,
    /// Timed launches and events of waiting streams at that time.
    events: [u32; 2],
    /// What a timed launch costs besides its pair, as a share of that: events of streams that wait for it.
    besides: f64,
    /// Looks in a row at which a denser sample would have kept to the budget.
    calm: u32,
    /// By ring and kind: launches at the last look that had to thin out, and how many come from look to look.
    often: Vec<Vec<(u32, f64)>>,
}

/// By how rare kinds are: how often they come together.
type Often = [f64; RAREST as usize + 1];

/// The part of all launches that is timed at this level, if no kind is rarer than `most`.
fn timed_part(often: &Often, level: u32, most: u32) -> f64 {
    let all: f64 = often.iter().sum();
    let timed = (0..).zip(often).map(|(rarer, often): (u32, _)| {
        let level = level.saturating_sub(rarer.min(most));
        often / f64::from(1u32 << level.min(31))
    });
    if all > 0.0 {
        timed.sum::<f64>() / all
    } else {
        1.0 / f64::from(1u32 << level.min(31))
    }
}

impl Pace {
    /// Sets how sparse the sample must be, by the rate since the last look. `kinds` are those of each ring.
    pub(super) fn keep<'k>(
        &mut self,
        switch: &Switch,
        launches: impl FnOnce() -> u32,
        kinds: impl FnOnce() -> Vec<&'k [Kind]>,
    ) {
        if switch.limit == 0.0 {
            return;
        }
        let launches = launches();
        let Some((since, before)) = self.since else {
            self.since = Some((Instant::now(), launches));
            return;
        };
        let passed = since.elapsed();
        if passed < LOOK_EVERY {
            return;
        }
        self.since = Some((Instant::now(), launches));
        let events = [switch.timed.load(Relaxed), switch.waits.load(Relaxed)];
        let [timed, waits] = [0, 1].map(|i| f64::from(events[i].wrapping_sub(self.events[i])));
        self.events = events;
        if timed > 0.0 {
            self.besides = WAIT_COST * (waits / timed).min(1.0);
        }
        let rate = f64::from(launches.wrapping_sub(before)) / passed.as_secs_f64();
        let rate = rate * (1.0 + self.besides);
        // Of two powers of two, the one nearer in cost: up to a quarter above the budget, or well below it.
        let most = 1.25 * switch.limit;
        let level = switch.level.load(Relaxed);
        let sparse = if rate > most || level > 0 {
            self.thin_out(rate, most, switch.deepest, &kinds())
        } else {
            0
        };
        if sparse >= level {
            self.calm = 0;
            switch.level.store(sparse.min(switch.deepest), Relaxed);
        } else {
            // A step's calls come in bursts: the level falls slowly.
            self.calm += 1;
            if self.calm >= 10 {
                self.calm = 0;
                switch.level.store(level - 1, Relaxed);
            }
        }
        let usual = 2.0 * switch.limit * LOOK_EVERY.as_secs_f64();
        let credit = if switch.level.load(Relaxed) == 0 {
            BURST
        } else {
            (usual as u32).max(FLOOD)
        };
        switch.credit.store(credit, Relaxed);
        switch.flood.store(false, Relaxed);
    }

    /// Says how rare each kind is, and at which level no more than `most` of so many launches in a second
    /// are timed. At the deepest level rare kinds are thinned out, too, if they must be.
    fn thin_out(&mut self, rate: f64, most: f64, deepest: u32, kinds: &[&[Kind]]) -> u32 {
        self.often.resize_with(kinds.len(), Vec::new);
        let mut most_often = 0.0f64;
        for (often, kinds) in self.often.iter_mut().zip(kinds) {
            often.resize(kinds.len(), (0, 0.0));
            for (often, kind) in often.iter_mut().zip(*kinds) {
                let launches = kind.launches.load(Relaxed);
                // Another communicator may have the ring since.
                let came = f64::from(launches.checked_sub(often.0).unwrap_or(launches));
                *often = (launches, often.1 + (came - often.1) / REMEMBERED);
                most_often = most_often.max(often.1);
            }
        }
        let rarer = |often: f64| {
            let times = (most_often / often).log2();
            // What never came is 0 of 0, or infinitely rare.
            times.clamp(0.0, f64::from(RAREST)) as u32
        };
        let mut by_rarity = [0.0; RAREST as usize + 1];
        for often in self.often.iter().flatten().filter(|often| often.1 > 0.0) {
            by_rarity[rarer(often.1) as usize] += often.1;
        }
        let keeps = |level: u32, rarest: u32| rate * timed_part(&by_rarity, level, rarest) <= most;
        let sparse = (0..=deepest).find(|level| keeps(*level, RAREST));
        let rarest = match sparse {
            Some(_) => RAREST,
            None => (0..RAREST).rev().find(|r| keeps(deepest, *r)).unwrap_or(0),
        };
        for (often, kinds) in self.often.iter().zip(kinds) {
            for (often, kind) in often.iter().zip(*kinds) {
                kind.rarer.store(rarer(often.1).min(rarest), Relaxed);
            }
        }
        sparse.unwrap_or(deepest)
    }

    /// How sparse the sample of launches of graphs must be, of which there were so many; `None` if it is as
    /// before.
    pub(super) fn of_graphs(&mut self, switch: &Switch, launches: u32) -> Option<u32> {
        if switch.limit == 0.0 {
            return None;
        }
        let (since, before) = *self.graphs.get_or_insert((Instant::now(), launches));
        let passed = since.elapsed();
        if passed < LOOK_EVERY {
            return None;
        }
        self.graphs = Some((Instant::now(), launches));
        let rate = f64::from(launches.wrapping_sub(before)) / passed.as_secs_f64();
        let sparse = (rate / (OF_GRAPHS * switch.limit)).log2().ceil().max(0.0);
        Some((sparse as u32).min(MOST_SPARSE))
    }
}

/// Whether an index is in the sample of one in `1 << level`. The samples are nested: what is in a sparser one
/// is in each denser one. So ranks with the same level take the same calls, and ranks with different levels
/// share those of the sparser sample. The index is mixed, so that no stride of a model's layers can line up
/// with the sample.
fn sampled(index: u32, level: u32) -> bool {
    let mut mixed = index.wrapping_add(0x9e37_79b9);
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    (mixed ^ mixed >> 16).trailing_zeros() >= level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_nested_and_of_the_right_size() {
        for level in 0..10 {
            let of = |level| (0..1 << 16).filter(|i| sampled(*i, level)).count() as f64;
            let expected = f64::from(1 << (16 - level));
            assert!((of(level) / expected - 1.0).abs() < 0.25, "level {level}");
            assert!((0..1 << 16).all(|i| !sampled(i, level + 1) || sampled(i, level)));
        }
    }

    #[test]
    fn no_stride_of_layers_is_left_out_or_taken_alone() {
        for stride in 2..=64u32 {
            let mut seen = vec![0; stride as usize];
            for i in (0..1 << 16).filter(|i| sampled(*i, 5)) {
                seen[(i % stride) as usize] += 1;
            }
            let (least, most) = (seen.iter().min(), seen.iter().max());
            assert!(
                least > Some(&0) && most < Some(&(3 * 2048 / stride + 30)),
                "{stride}: {seen:?}"
            );
        }
    }

    #[test]
    fn streams_that_wait_take_their_part_of_the_budget() {
        let level_with = |waits: bool| {
            let switch = Switch::new(Some(0.01));
            let mut pace = Pace::default();
            pace.keep(&switch, || 0, Vec::new);
            let (mut launches, kind) = (0, Kind::default());
            for _ in 0..3 {
                std::thread::sleep(LOOK_EVERY);
                // A little below the rate up to which every launch is timed.
                launches +=
                    (1.1 * switch.limit * pace.since.map_or(0.0, |s| s.0.elapsed().as_secs_f64()))
                        as u32;
                for i in 0..100 {
                    if switch.wants(&kind, i, 0) && waits {
                        assert!(switch.wants_wait());
                    }
                }
                pace.keep(&switch, || launches, Vec::new);
            }
            switch.level.load(Relaxed)
        };
        assert_eq!((level_with(false), level_with(true)), (0, 1));
        let switch = Switch::new(Some(0.01));
        switch.quiet(true);
        assert!(!switch.wants_wait());
        assert!(Switch::new(None).wants_wait());
    }

    #[test]
    fn what_comes_once_in_a_step_is_timed_each_time() {
        let switch = Switch::new(Some(0.01));
        let mut pace = Pace::default();
        let kinds: Vec<Kind> = (0..3).map(|_| Kind::default()).collect();
        let launched = || [0, 1, 2].map(|kind: usize| kinds[kind].launches.load(Relaxed));
        let (mut launches, mut timed, mut before) = (0, [0; 3], [0; 3]);
        pace.keep(&switch, || 0, || vec![&kinds]);
        let begun = Instant::now();
        for look in 0..40 {
            std::thread::sleep(LOOK_EVERY);
            // 8 times as many as may be timed: 256 launches for each of the second kind, and 512 for one of
            // the third, which comes from the eleventh look on.
            let due = (8.0 * switch.limit * begun.elapsed().as_secs_f64()) as u32;
            let mut launch = |kind: usize| {
                let wants = switch.wants(&kinds[kind], kinds[kind].next(), 0);
                timed[kind] += u32::from(wants && look >= 20);
            };
            while launches < due {
                launch(0);
                if launches % 256 == 0 {
                    launch(1);
                }
                if launches % 512 == 0 && look > 10 {
                    launch(2);
                }
                launches += 1;
            }
            pace.keep(&switch, || launches, || vec![&kinds]);
            if look == 19 {
                before = launched();
            }
        }
        let now = launched();
        let of = |kind: usize| now[kind] - before[kind];
        assert_eq!([timed[1], timed[2]], [of(1), of(2)]);
        assert!(of(2) > 10);
        assert!(timed[0] < of(0) / 4, "{timed:?} of {now:?} less {before:?}");
    }

    #[test]
    fn many_rare_kinds_keep_to_the_budget_together() {
        let kinds: Vec<Kind> = (0..100).map(|_| Kind::default()).collect();
        let mut pace = Pace::default();
        for (number, kind) in kinds.iter().enumerate() {
            kind.launches
                .store(if number == 0 { 1600 } else { 100 }, Relaxed);
        }
        // Nearly all launches are of kinds that are 16 times as rare as one.
        let level = pace.thin_out(100_000.0, 2_000.0, 5, &[&kinds]);
        let rarer = kinds[1].rarer.load(Relaxed);
        assert_eq!((level, rarer), (5, 0));
        let level = pace.thin_out(10_000.0, 2_000.0, 9, &[&kinds]);
        assert_eq!((level, kinds[1].rarer.load(Relaxed)), (7, 4));
    }

    #[test]
    fn a_flood_is_thinned_out_before_the_rate_is_known() {
        let switch = Switch::new(Some(0.01));
        // Also of a kind that never came before.
        let new = Kind::default();
        new.rarer.store(RAREST, Relaxed);
        let timed = (0..100_000).filter(|i| switch.wants(&new, *i, 0)).count();
        let least = 100_000 >> DEEPEST;
        let most = least * 5 / 4 + (BURST + (DEEPEST + 1) * FLOOD) as usize;
        assert!((least * 3 / 4..most).contains(&timed), "{timed}");
        let sparse = Switch::new(Some(0.001));
        assert_eq!((sparse.deepest, Switch::new(Some(0.3)).deepest), (10, 2));
        assert!(Switch::new(None).wants(&new, 99_999, 0));
        let of_graphs = (0..100_000).filter(|i| Switch::new(Some(0.01)).wants(&new, *i, 7));
        assert!((500..1200).contains(&of_graphs.count()));
    }

    #[test]
    fn launches_of_graphs_take_a_small_part_of_the_budget() {
        let switch = Switch::new(Some(0.01));
        let mut pace = Pace::default();
        assert_eq!(pace.of_graphs(&switch, 7), None);
        std::thread::sleep(LOOK_EVERY);
        // 1400 in a second.
        let passed = pace.graphs.map_or(0.0, |of| of.0.elapsed().as_secs_f64());
        let level = pace.of_graphs(&switch, 7 + (1400.0 * passed) as u32);
        assert_eq!(level, Some(3));
        std::thread::sleep(LOOK_EVERY);
        assert_eq!(
            pace.of_graphs(&switch, 7 + (1400.0 * passed) as u32),
            Some(0)
        );
        assert_eq!(pace.of_graphs(&Switch::new(None), 1 << 20), None);
    }
}
