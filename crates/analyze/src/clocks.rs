//! The clocks of the hosts of a job against each other: bounds that are proved, and an estimate that is not.
//!
//! No rank can leave an AllReduce, AllGather, ReduceScatter or AlltoAll before the last has arrived. So if
//! intervals enclose the kernels (CUDA events, or stamps of RING), each rank's begin is before each rank's
//! end in true time, whatever the hosts' clocks say. The latest begin on one host and the earliest end on
//! another bound how far their clocks are apart, from both sides. An [`Observations`] takes a [`Side`] per
//! host of each operation. By pair of hosts and window of time ([`WINDOW`]), it keeps the offsets that are
//! left when all these bounds hold at once. [`Offsets`] hands them out, and [`Clocks`] is what a report says.
//!
//! **Bound.** All times are widened by their error on the host's clock and by the timer's resolution. Within
//! a window, clocks may run apart by [`FREQUENCY_ERROR_PPM`]. Bounds of different windows are compared, and
//! never joined.
//!
//! **Step.** If no offset fits all operations of a window, or none that follows from the windows before, a
//! clock was set or a stamp is bad. That is a [`ClockStep`]. A window that contradicts itself tells nothing.
//!
//! **Estimate.** Ranks of such an operation end within a few µs. So the median difference of the ends is
//! close to the offset, unless one host always leaves later. It is moved into the bound if it lies outside. A
//! rank that is always late changes neither: it makes the bound wide on one side.
//!
//! Rule: a bound never rests on the assumption of common ends, and an estimate never narrows a bound. Only a
//! [`ClockLine`] turns the time of a host into a moment that all hosts share.
//!
//! Source: that messages in both directions bound an offset from both sides is from A. Duda, G. Harrus,
//! Y. Haddad and G. Bernard, "Estimating global time in distributed systems", ICDCS 1987. A collective is a
//! message from each rank to each other one.

mod given;
mod lines;
#[cfg(test)]
mod tests;

pub use given::{Given, GivenError};
pub use lines::ClockLine;

use crate::time::{HostTime, Moment, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A bound holds for operations within a window of this length.
pub const WINDOW: Nanos = Nanos::SECOND;
/// By how much two hosts' clocks may run apart: parts per million. Crystals of servers are within 50, and NTP
/// corrects most of that.
pub const FREQUENCY_ERROR_PPM: f64 = 50.0;
/// What a timer may leave out: GPUs' stamps were seen in steps of 32 and of 1024 ns.
pub(crate) const RESOLUTION: Nanos = Nanos(1_024.0);

/// What an estimate by ends assumes.
pub const COMMON_ENDS: &str = "common ends";

/// What the ranks of one host tell of an operation, on that host's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// Index of the host.
    pub host: u32,
    /// No later than the moment at which the last of its ranks began.
    pub begin: HostTime,
    /// No earlier than the moment at which the first of its ranks ended.
    pub end: HostTime,
    /// That moment as it was measured.
    pub ended: HostTime,
}

/// Operations of one pair of hosts in one window.
#[derive(Clone, Debug)]
struct ClockWindow {
    /// The clock of the second host less that of the first at the middle of the window.
    low: Nanos,
    high: Nanos,
    /// The same if ends are common, by operation until all are there, then the median alone.
    ends: Vec<Nanos>,
    operations: u64,
}

impl ClockWindow {
    /// Whether an offset fits all of its operations.
    fn is_sound(&self) -> bool {
        self.low <= self.high
    }
}

/// What operations say, by pair of hosts (the lower index first) and window of the first one's clock.
#[derive(Debug, Default)]
pub(crate) struct Observations(BTreeMap<(u32, u32), BTreeMap<i64, ClockWindow>>);

/// What two clocks may run apart in this time, and in a ms more.
pub(crate) fn drift(time: Nanos) -> Nanos {
    // One millionth of a ms is one ns.
    Nanos(FREQUENCY_ERROR_PPM) * ((time.abs() / Nanos::MS).floor() + 1.0)
}

/// The number of the window in which a moment lies.
fn window_of(at: HostTime) -> i64 {
    at.0.div_euclid(WINDOW.whole())
}

fn beginning(window: i64) -> HostTime {
    HostTime(window.saturating_mul(WINDOW.whole()))
}

fn middle(window: i64) -> HostTime {
    beginning(window) + WINDOW / 2.0
}

/// What the clock of one host says less what another's says. Only this compares times of two hosts before
/// they are on one clock.
pub(crate) fn ahead(host: HostTime, base: HostTime) -> Nanos {
    host - base
}

impl Observations {
    /// Adds an operation; `sides` are by host, at most one of each.
    pub fn add(&mut self, sides: &[Side]) {
        let Some((base, others)) = sides.split_first() else {
            return;
        };
        let window = window_of(base.end);
        // What each side proves is of the moment on the first host that it was taken with.
        let slack = |at: HostTime| drift(at - middle(window));
        let (at_end, at_begin) = (slack(base.end), slack(base.begin));
        for other in others {
            let low = ahead(other.begin, base.end) - at_end;
            let high = ahead(other.end, base.begin) + at_begin;
            let pair = self.0.entry((base.host, other.host)).or_default();
            let of = pair.entry(window).or_insert(ClockWindow {
                low,
                high,
                ends: Vec::new(),
                operations: 0,
            });
            (of.low, of.high) = (of.low.max(low), of.high.min(high));
            of.ends.push(ahead(other.ended, base.ended));
            of.operations += 1;
        }
    }

    /// What can be told from them.
    pub fn finish(mut self) -> Offsets {
        let mut steps = Vec::new();
        for (pair, windows) in &mut self.0 {
            for of in windows.values_mut() {
                of.ends.sort_unstable();
                of.ends = vec![of.ends[of.ends.len() / 2]];
            }
            // What the offset may be by all windows since the last step, at the middle of the last of them.
            let mut so_far: Option<(Nanos, Nanos, HostTime)> = None;
            for (window, of) in windows {
                let begin = beginning(*window);
                if !of.is_sound() {
                    steps.push(Contradiction {
                        pair: *pair,
                        from: begin,
                        until: begin + WINDOW,
                        by: of.low - of.high,
                    });
                    so_far = None;
                    continue;
                }
                let now = middle(*window);
                let expected = so_far.map(|(low, high, at)| {
                    let slack = drift(now - at);
                    (low - slack, high + slack, at)
                });
                so_far = match expected {
                    None => Some((of.low, of.high, now)),
                    Some((low, high, at)) => {
                        let both = (low.max(of.low), high.min(of.high));
                        if both.0 > both.1 {
                            steps.push(Contradiction {
                                pair: *pair,
                                from: at - WINDOW / 2.0,
                                until: begin + WINDOW,
                                by: both.0 - both.1,
                            });
                            Some((of.low, of.high, now))
                        } else {
                            Some((both.0, both.1, now))
                        }
                    }
                };
            }
        }
        Offsets {
            pairs: self.0,
            steps,
        }
    }
}

/// No offset fits what lies before and behind.
#[derive(Clone, Copy, Debug)]
struct Contradiction {
    pair: (u32, u32),
    /// On the clock of the first of the pair.
    from: HostTime,
    until: HostTime,
    by: Nanos,
}

/// How far hosts' clocks are apart, by pair and window.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    pairs: BTreeMap<(u32, u32), BTreeMap<i64, ClockWindow>>,
    steps: Vec<Contradiction>,
}

impl Offsets {
    /// Bounds on the clock of `host` less that of `base`, at an operation that ended at `at` on `base`. The
    /// index of `base` is the lower one.
    pub fn between(&self, base: u32, host: u32, at: HostTime) -> Option<(Nanos, Nanos)> {
        if base == host {
            return Some((Nanos::ZERO, Nanos::ZERO));
        }
        let window = window_of(at);
        let of = self.pairs.get(&(base, host))?.get(&window)?;
        let slack = drift(at - middle(window));
        of.is_sound().then(|| (of.low - slack, of.high + slack))
    }

    /// The tree over hosts with the narrowest bounds: by host, the one before it on the way to the first
    /// host.
    fn tree(&self, hosts: usize) -> Vec<Option<u32>> {
        let width = |windows: &BTreeMap<i64, ClockWindow>| {
            let sound = windows.values().filter(|w| w.is_sound());
            sound.map(|w| w.high - w.low).min()
        };
        let mut edges: Vec<Vec<(u32, Nanos)>> = vec![Vec::new(); hosts];
        for ((a, b), windows) in &self.pairs {
            if let Some(width) = width(windows) {
                edges[*a as usize].push((*b, width));
                edges[*b as usize].push((*a, width));
            }
        }
        let mut before = vec![None; hosts];
        let mut far = vec![Nanos(f64::INFINITY); hosts];
        let mut open = std::collections::BTreeSet::from([(Nanos::ZERO, 0u32)]);
        far.iter_mut().take(1).for_each(|far| *far = Nanos::ZERO);
        while let Some((distance, host)) = open.pop_first() {
            for (next, width) in edges.get(host as usize).into_iter().flatten() {
                let through = distance + *width;
                if through < far[*next as usize] {
                    open.remove(&(far[*next as usize], *next));
                    far[*next as usize] = through;
                    before[*next as usize] = Some(host);
                    open.insert((through, *next));
                }
            }
        }
        before
    }

    /// The sound windows between two hosts: moments on the clock of `from`, the clock of `to` less that of
    /// `from`, and the number of operations.
    fn stretch(&self, from: u32, to: u32) -> Vec<(HostTime, Offset, u64)> {
        let Some(windows) = self.pairs.get(&(from.min(to), from.max(to))) else {
            return Vec::new();
        };
        let sound = windows.iter().filter(|(_, w)| w.is_sound());
        sound
            .map(|(window, of)| {
                let offset = Offset {
                    low: of.low,
                    high: of.high,
                    ends: of.ends[0],
                };
                let at = middle(*window);
                if from < to {
                    (at, offset, of.operations)
                } else {
                    (at + offset.estimate(), offset.turned(), of.operations)
                }
            })
            .collect()
    }
}

/// One clock less another: proved bounds, and what it is if ends are common.
#[derive(Clone, Copy, Debug)]
struct Offset {
    low: Nanos,
    high: Nanos,
    ends: Nanos,
}

impl Offset {
    fn estimate(&self) -> Nanos {
        self.ends.clamp(self.low, self.high)
    }

    fn width(&self) -> Nanos {
        self.high - self.low
    }

    fn turned(&self) -> Offset {
        Offset {
            low: -self.high,
            high: -self.low,
            ends: -self.ends,
        }
    }

    fn plus(&self, other: &Offset) -> Offset {
        Offset {
            low: self.low + other.low,
            high: self.high + other.high,
            // Where one of them is moved into its bound, the sum counts it so.
            ends: self.estimate() + other.estimate(),
        }
    }

    fn widened(&self, by: Nanos) -> Offset {
        Offset {
            low: self.low - by,
            high: self.high + by,
            ends: self.ends,
        }
    }
}

/// What is known of the clock of a host at a moment.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: Moment,
    /// Its clock less the reference's.
    offset: Offset,
    /// Operations that say so.
    operations: u64,
}

/// The way from the reference to a host.
struct Way {
    /// The reference first. Without a way, it is the host alone.
    hosts: Vec<u32>,
    /// What is known of the host's clock by the windows on it.
    known: Vec<Known>,
}

impl Way {
    /// `before` is by host the one before it, as in [`Offsets::tree`].
    fn to(host: u32, before: &[Option<u32>], offsets: &Offsets) -> Way {
        let mut hosts = vec![host];
        while let Some(before) = before[hosts[hosts.len() - 1] as usize] {
            hosts.push(before);
        }
        hosts.reverse();
        let known = match hosts[0] {
            0 => lines::along(offsets, &hosts),
            _ => Vec::new(),
        };
        Way { hosts, known }
    }
}

/// The hosts' clocks against that of one of them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Clocks {
    /// The host that the others are compared with: the first rank's.
    pub reference: String,
    /// A bound holds within so many seconds.
    pub window_s: f64,
    /// If clocks run apart by no more than so many millionths.
    pub frequency_error_ppm: f64,
    /// By first rank, without the reference.
    pub hosts: Vec<HostClock>,
    /// Where no offset fits the operations, by host and time.
    pub steps: Vec<ClockStep>,
    /// What is unusual about it. `render` writes it.
    #[serde(skip)]
    pub notes: Vec<Note>,
    /// How to move times of each host onto the reference's clock; `None` for a host if nothing is known.
    #[serde(skip)]
    pub lines: BTreeMap<String, ClockLine>,
}

/// What is unusual about clocks.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// An offset that was given contradicts operations.
    Contradicted {
        /// Of this host.
        host: String,
        /// The offset, µs.
        offset_us: f64,
        /// Its error, µs.
        error_us: f64,
        /// Windows of operations that it contradicts.
        against: usize,
        /// All windows.
        windows: usize,
    },
    /// Nothing bounds the offsets of these hosts.
    Unbounded(Vec<String>),
    /// An offset was given for a host that the job does not have.
    NoSuchHost(String),
}

/// The clock of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HostClock {
    /// Host.
    pub host: String,
    /// Its clock less the reference's, as it was `at_s`, µs; null where nothing bounds it.
    pub offset_us: Option<f64>,
    /// What the offset is at least, µs; null without bounds.
    pub low_us: Option<f64>,
    /// What the offset is at most, µs; null without bounds.
    pub high_us: Option<f64>,
    /// What the offset rests on: `common ends`; `bounds`, where that lay outside of them and was moved to the
    /// nearest; `given`. Null without an offset.
    #[schemars(extend("enum" = ["common ends", "bounds", "given", null]))]
    pub source: Option<&'static str>,
    /// The error of an offset that was given, µs; null if none was given.
    pub given_error_us: Option<f64>,
    /// Whether that contradicts the bounds; null without one of them.
    pub contradicted: Option<bool>,
    /// The window with the narrowest bounds: its middle, in seconds after the first operation that was
    /// compared.
    pub at_s: Option<f64>,
    /// By how much its clock runs faster over the run at least, millionths; null with fewer than two windows,
    /// or a step between.
    pub drift_low_ppm: Option<f64>,
    /// By how much its clock runs faster over the run at most, millionths; null with fewer than two windows,
    /// or a step between.
    pub drift_high_ppm: Option<f64>,
    /// Operations that were compared.
    pub operations: u64,
    /// Windows of a second each that have bounds.
    pub windows: u64,
}

/// Where no offset of two clocks fits all operations: one of them was set, or a stamp is bad.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClockStep {
    /// Host.
    pub host: String,
    /// The other host.
    pub against: String,
    /// Not before, in seconds after the first operation that was compared.
    pub from_s: f64,
    /// And not after.
    pub until_s: f64,
    /// By how much the bounds contradict each other: the clock was set by at least so much, µs.
    pub least_us: f64,
}

impl Clocks {
    /// What a report says of these hosts; null for fewer than two. `hosts` are as operations number them.
    pub(crate) fn new(
        hosts: &[String],
        offsets: &Offsets,
        given: Option<&Given>,
    ) -> Option<Clocks> {
        let (reference, others) = hosts
            .split_first()
            .filter(|(_, others)| !others.is_empty())?;
        // On the reference's clock, which is in every pair that it has windows with.
        let of_reference = offsets.pairs.iter().filter(|((base, _), _)| *base == 0);
        let began = of_reference
            .filter_map(|(_, windows)| windows.keys().next())
            .min();
        let began = began.map_or(HostTime(0), |first| beginning(*first));
        let began = ClockLine::reference().on_reference(began);
        let seconds = |at: Moment| (at - began).seconds();
        let mut clocks = Clocks {
            reference: reference.clone(),
            window_s: WINDOW.seconds(),
            frequency_error_ppm: FREQUENCY_ERROR_PPM,
            hosts: Vec::new(),
            steps: Vec::new(),
            notes: Vec::new(),
            lines: BTreeMap::from([(reference.clone(), ClockLine::reference())]),
        };
        let before = offsets.tree(hosts.len());
        let ways = (0..hosts.len() as u32).map(|host| Way::to(host, &before, offsets));
        let ways: Vec<Way> = ways.collect();
        // When steps were over. To tell windows apart, lines that go through steps are exact enough.
        let rough: Vec<ClockLine> = (ways.iter())
            .map(|way| ClockLine::through(&way.known, &[]))
            .collect();
        let ends = offsets.steps.iter().map(|step| {
            let line = &rough[step.pair.0 as usize];
            (step.pair, line.on_reference(step.until))
        });
        let ends: Vec<((u32, u32), Moment)> = ends.collect();
        for (host, way) in others.iter().zip(&ways[1..]) {
            clocks.add(host, way, &ends, seconds);
            if let Some(given) = given {
                clocks.give(host, &way.known, given);
            }
        }
        for step in &offsets.steps {
            let [base, host] = [step.pair.0, step.pair.1].map(|host| &hosts[host as usize]);
            let line = ClockLine::of(base, Some(&clocks));
            clocks.steps.push(ClockStep {
                host: host.clone(),
                against: base.clone(),
                from_s: seconds(line.on_reference(step.from)),
                until_s: seconds(line.on_reference(step.until)),
                least_us: step.by.us(),
            });
        }
        clocks.say(given, hosts);
        Some(clocks)
    }

    /// Adds a host. `ends` are when steps were over, by pair of hosts.
    fn add(
        &mut self,
        host: &str,
        way: &Way,
        ends: &[((u32, u32), Moment)],
        seconds: impl Fn(Moment) -> f64,
    ) {
        let known = &way.known[..];
        let mut row = HostClock {
            host: host.to_owned(),
            operations: known.iter().map(|of| of.operations).sum(),
            windows: known.len() as u64,
            ..HostClock::default()
        };
        if let Some(Known { at, offset, .. }) = lines::narrowest(known) {
            let estimate = offset.estimate();
            row.offset_us = Some(estimate.us());
            (row.low_us, row.high_us) = (Some(offset.low.us()), Some(offset.high.us()));
            row.source = Some(if estimate == offset.ends {
                COMMON_ENDS
            } else {
                "bounds"
            });
            row.at_s = Some(seconds(at));
            let on_the_way = |(a, b): (u32, u32)| way.hosts.contains(&a) && way.hosts.contains(&b);
            let breaks = ends.iter().filter(|(pair, _)| on_the_way(*pair));
            let breaks: Vec<Moment> = breaks.map(|(_, end)| *end).collect();
            if breaks.is_empty() {
                (row.drift_low_ppm, row.drift_high_ppm) = lines::drift_ppm(known).unzip();
            }
            let line = ClockLine::through(known, &breaks);
            self.lines.insert(host.to_owned(), line);
        }
        self.hosts.push(row);
    }

    /// Puts what was given in the place of what was estimated for the last host.
    fn give(&mut self, host: &str, known: &[Known], given: &Given) {
        let (Some(row), Some((offset, error))) =
            (self.hosts.last_mut(), given.between(&self.reference, host))
        else {
            return;
        };
        let out = |of: &&Known| offset + error < of.offset.low || offset - error > of.offset.high;
        row.contradicted = (!known.is_empty()).then(|| known.iter().any(|of| out(&of)));
        row.offset_us = Some(offset.us());
        row.given_error_us = Some(error.us());
        row.source = Some("given");
        self.lines
            .insert(host.to_owned(), ClockLine::given(offset, error));
        let against = known.iter().filter(out).count();
        if against > 0 {
            self.notes.push(Note::Contradicted {
                host: host.to_owned(),
                offset_us: offset.us(),
                error_us: error.us(),
                against,
                windows: known.len(),
            });
        }
    }

    fn say(&mut self, given: Option<&Given>, hosts: &[String]) {
        let without: Vec<String> = self
            .hosts
            .iter()
            .filter(|row| row.windows == 0)
            .map(|row| row.host.clone())
            .collect();
        if !without.is_empty() {
            self.notes.push(Note::Unbounded(without));
        }
        let unknown = given.map_or(Vec::new(), |given| given.unknown(hosts));
        let unknown = unknown
            .into_iter()
            .map(|host| Note::NoSuchHost(host.to_owned()));
        self.notes.extend(unknown);
    }
}
