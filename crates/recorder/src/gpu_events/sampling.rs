//! Which launches are timed, so that timing them keeps to its budget.
//!
//! One in `1 << level` launches is timed. The launching thread asks [`Switch::wants`] for each launch; it
//! notices a flood at once, because its credit runs out. The poller looks at the rate of launches
//! some milliseconds later, and sets level and credit by it ([`Pace::keep`]).
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
/// (one each 9 us) then costs 1.8 %. A smaller budget may go deeper.
const DEEPEST: u32 = 5;

/// The sample of launches of graphs is no sparser than one in `1 << MOST_SPARSE`.
const MOST_SPARSE: u32 = 10;

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
    /// One in `1 << level` launches is timed.
    level: AtomicU32,
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
    pub(super) fn wants(&self, index: u32, least: u32) -> bool {
        if self.limit == 0.0 {
            return true;
        }
        if self.quiet.load(Relaxed) {
            return false;
        }
        let level = self.level.load(Relaxed).max(least);
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
            self.level.store((level + 1).min(self.deepest), Relaxed);
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
}

impl Pace {
    /// Sets how sparse the sample must be, by the rate since the last look.
    pub(super) fn keep(&mut self, switch: &Switch, launches: impl FnOnce() -> u32) {
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
        let sparse = (rate / (1.25 * switch.limit)).log2().ceil().max(0.0) as u32;
        let level = switch.level.load(Relaxed);
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
            pace.keep(&switch, || 0);
            let mut launches = 0;
            for _ in 0..3 {
                std::thread::sleep(LOOK_EVERY);
                // A little below the rate up to which every launch is timed.
                launches +=
                    (1.1 * switch.limit * pace.since.map_or(0.0, |s| s.0.elapsed().as_secs_f64()))
                        as u32;
                for i in 0..100 {
                    if switch.wants(i, 0) && waits {
                        assert!(switch.wants_wait());
                    }
                }
                pace.keep(&switch, || launches);
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
    fn a_flood_is_thinned_out_before_the_rate_is_known() {
        let switch = Switch::new(Some(0.01));
        let timed = (0..100_000).filter(|i| switch.wants(*i, 0)).count();
        let least = 100_000 >> DEEPEST;
        let most = least * 5 / 4 + (BURST + DEEPEST * FLOOD) as usize;
        assert!((least * 3 / 4..most).contains(&timed), "{timed}");
        let sparse = Switch::new(Some(0.001));
        assert_eq!((sparse.deepest, Switch::new(Some(0.3)).deepest), (9, 1));
        assert!(Switch::new(None).wants(99_999, 0));
        let of_graphs = (0..100_000).filter(|i| Switch::new(Some(0.01)).wants(*i, 7));
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
