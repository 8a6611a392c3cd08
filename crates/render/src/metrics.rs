//! Metrics of a running job, for Prometheus, OpenTelemetry and what reads their formats.
//!
//! A [`Metrics`] is asked again and again. Each time it makes families ([`Family`]) of a [`Now`] and of the
//! sums of all calls since the start ([`Process::sums`]). [`text`] writes families as OpenMetrics, or in the
//! older text format that node_exporter takes from files; [`otlp`] writes them for OpenTelemetry.
//!
//! Names are in base units: seconds, bytes, ratios ([`own`]). Or they are those of NCCL Inspector's exporter
//! ([`inspector`]), for dashboards that are there already.
//!
//! Rule: a job of any size has a bounded number of series. Whoever has a series keeps it ([`Admitted`]), and
//! a counter never falls while the same attempt of the job runs ([`counted`]).
//!
//! [`Process::sums`]: tables::Process::sums

mod counted;
mod inspector;
pub mod otlp;
mod own;
pub mod text;

use crate::top::Now;
use counted::{Counted, Highest};
use std::collections::{BTreeMap, BTreeSet};
use tables::{printable, Capture};

/// Combinations of communicator, function and size that have series of their own.
const MOST_KEYS: usize = 200;
/// Ranks that have series of their own. Each has some 15 samples.
const MOST_RANKS: usize = 2048;
/// Bytes of a label's value.
const MOST_LABEL: usize = 128;

/// Whose names metrics have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// `ncclscope_…`.
    #[default]
    Own,
    /// Those of NCCL Inspector's exporter.
    Inspector,
}

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows.
    Counter,
    /// Counts of times by length, which only grow.
    Histogram,
}

/// Metrics of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// With its unit at the end, and without `_total`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Unit as OpenMetrics spells it; empty for none.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
    /// No two with the same labels.
    pub samples: Vec<Sample>,
}

/// Names and values of labels.
pub type Labels = Vec<(&'static str, String)>;

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Values are printable, and of a bounded length.
    pub labels: Labels,
    /// Its value.
    pub value: Value,
}

/// What a series has.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A finite number.
    Number(f64),
    /// Times: how many are up to each of [`tables::sums::BOUNDS_NS`] and above the one before, and how many
    /// are above all.
    Times {
        /// One more than there are bounds.
        buckets: Vec<u64>,
        /// All of them.
        count: u64,
        /// Their sum, ns.
        sum_ns: u64,
    },
}

impl Family {
    fn new(name: &'static str, kind: Kind, unit: &'static str, help: &'static str) -> Family {
        Family {
            name,
            kind,
            unit,
            help,
            samples: Vec::new(),
        }
    }

    /// Adds a series. What is no finite number is not known, so it has no series.
    fn add(&mut self, labels: &[(&'static str, &str)], value: Value) {
        if matches!(value, Value::Number(number) if !number.is_finite()) {
            return;
        }
        let labels = labels.iter().map(|(key, value)| (*key, label(value)));
        self.samples.push(Sample {
            labels: labels.collect(),
            value,
        });
    }

    /// Of series with the same labels, the first stays; their counts are added up.
    fn tidied(mut self) -> Family {
        let mut seen: BTreeMap<Labels, usize> = BTreeMap::new();
        let mut kept: Vec<Sample> = Vec::with_capacity(self.samples.len());
        for sample in self.samples {
            match seen.get(&sample.labels) {
                None => {
                    seen.insert(sample.labels.clone(), kept.len());
                    kept.push(sample);
                }
                Some(first) => {
                    if let (Value::Count(into), Value::Count(n)) =
                        (&mut kept[*first].value, &sample.value)
                    {
                        *into = into.saturating_add(*n);
                    }
                }
            }
        }
        self.samples = kept;
        self
    }
}

/// The value of a label: printable, of a bounded length.
fn label(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().find(|(at, _)| *at >= MOST_LABEL) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.into_owned(),
    }
}

/// Who has series: the first that came, for as long as they are asked for.
#[derive(Debug)]
struct Admitted<K> {
    known: BTreeSet<K>,
    most: usize,
    /// Who came later.
    others: BTreeSet<K>,
}

impl<K: Ord + Clone> Admitted<K> {
    fn new(most: usize) -> Admitted<K> {
        Admitted {
            known: BTreeSet::new(),
            most,
            others: BTreeSet::new(),
        }
    }

    /// Whether this one has series of its own.
    fn admits(&mut self, key: &K) -> bool {
        if self.known.contains(key) {
            return true;
        }
        if self.known.len() < self.most {
            self.known.insert(key.clone());
            return true;
        }
        // So that what nobody bounds (names that a program makes up) takes no memory without a bound either.
        if self.others.len() < 64 * self.most {
            self.others.insert(key.clone());
        }
        false
    }

    /// How many have none.
    fn left_out(&self) -> u64 {
        self.others.len() as u64
    }
}

/// See the module.
#[derive(Debug)]
pub struct Metrics {
    names: Names,
    keys: Admitted<counted::Key>,
    ranks: Admitted<[String; 3]>,
    counted: Counted,
    highest: Highest,
    of_gpus: Admitted<inspector::Key>,
}

impl Metrics {
    /// Of a job that was not looked at before.
    pub fn new(names: Names) -> Metrics {
        Metrics {
            names,
            keys: Admitted::new(MOST_KEYS),
            ranks: Admitted::new(MOST_RANKS),
            counted: Counted::default(),
            highest: Highest::default(),
            of_gpus: Admitted::new(inspector::MOST_KEYS),
        }
    }

    /// What is to be said now. `capture` has the newest span.
    pub fn families(&mut self, now: &Now, capture: &Capture) -> Vec<Family> {
        if self.counted.look(capture) {
            self.highest.clear();
        }
        let families = match self.names {
            Names::Own => own::families(self, now),
            Names::Inspector => inspector::families(self, now, capture),
        };
        let mut families: Vec<Family> = families.into_iter().map(Family::tidied).collect();
        self.highest.raise(&mut families);
        families
    }
}

/// What is said if the capture can't be read any more: the same as before, and that.
pub fn unreadable(mut families: Vec<Family>) -> Vec<Family> {
    for family in &mut families {
        if family.name == own::READABLE {
            for sample in &mut family.samples {
                sample.value = Value::Count(0);
            }
        }
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_series_keeps_it_whatever_comes() {
        let mut admitted = Admitted::new(2);
        assert!(admitted.admits(&5) && admitted.admits(&7));
        assert!(!admitted.admits(&1) && !admitted.admits(&1));
        assert!(admitted.admits(&7) && admitted.admits(&5));
        assert_eq!(admitted.left_out(), 1);
    }

    #[test]
    fn a_name_that_a_program_made_up_is_cut_between_two_letters() {
        let long = "é".repeat(200);
        assert_eq!(label(&long).len(), MOST_LABEL);
        assert_eq!(label("a\n\"b\u{1b}[0m").find('\n'), None);
    }

    #[test]
    fn counts_with_the_same_labels_are_added_up_and_gauges_are_not() {
        let mut family = Family::new("x", Kind::Counter, "", "X.");
        family.add(&[("rank", "")], Value::Count(2));
        family.add(&[("rank", "")], Value::Count(3));
        family.add(&[("rank", "1")], Value::Number(f64::NAN));
        let family = family.tidied();
        assert_eq!(family.samples.len(), 1);
        assert_eq!(family.samples[0].value, Value::Count(5));
    }
}
