//! Two tables of benchmarks, such as logs of nccl-tests: which is slower, by how much, and how much of what
//! the machine can do each reaches.
//!
//! [`compare`] lays rows of the same function, size and number of ranks beside each other. A [`Part`] is a
//! function's small or large messages: up to the size at which a call of A takes twice as long as its
//! shortest one, latency is most of the time, and beyond it bandwidth is (R. W. Hockney, "The communication
//! challenge for MPP", Parallel Computing 20(3), 1994, calls that size n½). A machine may lose one and not
//! the other.
//!
//! Rule: a table has one mean for each size, and nothing says how much it varies. So the sizes of a part are
//! its sample, and B is slower only if the 95 % interval of their mean ratio says so. Both sides of a size
//! (in place and out of place) are one value, because they are measured one after the other.

use crate::efficiency::{hold_against, Ceiling, EfficiencyRow, ShareOfCeiling};
use crate::interval::{ratio_of_runs, OfRuns};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BenchmarkRow {
    /// Function, as captures name it; `None` if the table does not say it.
    pub function: Option<String>,
    /// Ranks, if they are known.
    pub nranks: Option<u32>,
    /// nccl-tests' name of the datatype.
    pub datatype: String,
    /// Bytes by nccl-tests' convention.
    pub bytes: u64,
    /// Mean time of a call on each side that was timed, µs.
    pub times_us: Vec<f64>,
    /// Bus bandwidth on each side, GB/s.
    pub busbw: Vec<f64>,
}

/// What is known of the run that made a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct BenchmarkRun {
    /// The table's file.
    pub file: String,
    /// GPUs, as `8 x NVIDIA H200`.
    pub gpus: Vec<String>,
    /// NCCL's release.
    pub nccl: Option<String>,
    /// The average bus bandwidth that the program printed, GB/s.
    pub average_gb_per_s: Option<f64>,
    /// Why the run failed; null if it did not.
    pub failed: Option<String>,
    /// Bytes of sizes with wrong data, which are left out.
    pub wrong_sizes: Vec<u64>,
    /// What else is to be said of it.
    pub about: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Benchmark {
    /// What made it.
    pub run: BenchmarkRun,
    /// Its rows.
    pub rows: Vec<BenchmarkRow>,
}

impl Benchmark {
    /// The rows of sizes with right data.
    fn right_rows(&self) -> impl Iterator<Item = &BenchmarkRow> {
        let is_right = |row: &&BenchmarkRow| !self.run.wrong_sizes.contains(&row.bytes);
        self.rows.iter().filter(is_right)
    }
}

/// What is known of one table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BenchmarkSide {
    /// What made it.
    #[serde(flatten)]
    pub run: BenchmarkRun,
    /// Rows that the other one lacks.
    pub alone: u64,
    /// The size at which it comes closest to a ceiling; null without --ceiling.
    #[serde(skip)]
    pub best: Option<BestShare>,
}

/// How close a table comes to a ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BestShare {
    /// Function.
    pub function: String,
    /// Bytes.
    pub bytes: u64,
    /// GB/s.
    pub busbw_gb_per_s: f64,
    /// The ceiling.
    #[serde(skip)]
    pub ceiling: ShareOfCeiling,
}

/// A function at a size, in both tables.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BenchmarkPair {
    /// Function.
    pub function: Option<String>,
    /// Ranks.
    pub nranks: Option<u32>,
    /// nccl-tests' name of the datatype.
    pub datatype: String,
    /// Bytes.
    pub bytes: u64,
    /// Mean time of a call in A, in place and out of place together, µs.
    pub a_us: f64,
    /// Mean time of a call in B, in place and out of place together, µs.
    pub b_us: f64,
    /// `b_us` by `a_us`.
    pub ratio: f64,
    /// Bus bandwidth of the better side in A, GB/s.
    pub a_busbw_gb_per_s: Option<f64>,
    /// Bus bandwidth of the better side in B, GB/s.
    pub b_busbw_gb_per_s: Option<f64>,
    /// A's bus bandwidth as a share of the first ceiling that is known for the row.
    pub a_share: Option<f64>,
    /// B's bus bandwidth as a share of the first ceiling that is known for the row.
    pub b_share: Option<f64>,
}

/// Which messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Messages {
    /// Latency is most of the time.
    Small,
    /// Bandwidth is.
    Large,
}

/// What the sizes of a part say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// B takes longer.
    Slower,
    /// B takes less time.
    Faster,
    /// Not more than the sizes differ among each other.
    Same,
    /// Nothing: there are too few sizes.
    Unknown,
}

/// The small or the large messages of a function.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Part {
    /// Function.
    pub function: Option<String>,
    /// Ranks.
    pub nranks: Option<u32>,
    /// small: a call takes up to twice the shortest time of A.
    pub messages: Messages,
    /// The smallest size.
    pub from_bytes: u64,
    /// The largest size.
    pub to_bytes: u64,
    /// Sizes.
    pub sizes: u64,
    /// Geometric mean of the ratios of its sizes: time of B by that of A.
    pub ratio: f64,
    /// The lower end of the 95 % interval of `ratio`, as a share of A's time; null below two sizes.
    pub ratio_low: Option<f64>,
    /// The upper end of the 95 % interval of `ratio`, as a share of A's time; null below two sizes.
    pub ratio_high: Option<f64>,
    /// What they say.
    pub said: Said,
}

/// Both tables.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BenchmarkDiff {
    /// The first log.
    #[serde(skip)]
    pub a: BenchmarkSide,
    /// The second log.
    #[serde(skip)]
    pub b: BenchmarkSide,
    /// By function, small messages first.
    pub parts: Vec<Part>,
    /// Rows that are in both, in A's order.
    pub rows: Vec<BenchmarkPair>,
    /// Whether there was a ceiling to hold them against.
    #[serde(skip)]
    pub has_ceiling: bool,
}

/// What rows of one kind are.
type Key = (Option<String>, Option<u32>, String, u64);

/// Times and bandwidths of each kind; a table may have it more than once.
fn by_kind(of: &Benchmark) -> BTreeMap<Key, (Vec<f64>, Vec<f64>)> {
    let mut all: BTreeMap<Key, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for row in of.right_rows() {
        let times = row.times_us.iter().copied().filter(|us| *us > 0.0);
        let (known, busbw) = all.entry(key(row)).or_default();
        known.extend(times);
        busbw.extend(&row.busbw);
    }
    all.retain(|_, (times, _)| !times.is_empty());
    all
}

fn key(row: &BenchmarkRow) -> Key {
    (
        row.function.clone(),
        row.nranks,
        row.datatype.clone(),
        row.bytes,
    )
}

/// Compares two tables, and holds both against these ceilings.
pub fn compare(a: &Benchmark, b: &Benchmark, ceilings: &[Ceiling]) -> BenchmarkDiff {
    let (of_a, of_b) = (by_kind(a), by_kind(b));
    let mut order: Vec<Key> = a.rows.iter().map(key).collect();
    let mut seen = std::collections::BTreeSet::new();
    order.retain(|key| seen.insert(key.clone()));
    let best = |busbw: &[f64]| busbw.iter().copied().filter(|x| *x > 0.0).reduce(f64::max);
    let share = |key: &Key, busbw: Option<f64>| first_share(key, busbw?, ceilings);
    let mut rows = Vec::new();
    for key in &order {
        let (Some(in_a), Some(in_b)) = (of_a.get(key), of_b.get(key)) else {
            continue;
        };
        let (a_us, b_us) = (geometric_mean(&in_a.0), geometric_mean(&in_b.0));
        let (a_busbw, b_busbw) = (best(&in_a.1), best(&in_b.1));
        rows.push(BenchmarkPair {
            function: key.0.clone(),
            nranks: key.1,
            datatype: key.2.clone(),
            bytes: key.3,
            a_us,
            b_us,
            ratio: b_us / a_us,
            a_busbw_gb_per_s: a_busbw,
            b_busbw_gb_per_s: b_busbw,
            a_share: share(key, a_busbw).map(|of| of.share),
            b_share: share(key, b_busbw).map(|of| of.share),
        });
    }
    let side = |of: &Benchmark, own: &BTreeMap<Key, _>, other: &BTreeMap<Key, _>| BenchmarkSide {
        run: of.run.clone(),
        alone: own.keys().filter(|key| !other.contains_key(*key)).count() as u64,
        best: best_share(of, ceilings),
    };
    BenchmarkDiff {
        has_ceiling: !ceilings.is_empty(),
        a: side(a, &of_a, &of_b),
        b: side(b, &of_b, &of_a),
        parts: parts(&rows),
        rows,
    }
}

fn geometric_mean(of: &[f64]) -> f64 {
    let sum: f64 = of.iter().map(|value| value.ln()).sum();
    (sum / of.len() as f64).exp()
}

/// The share of the first ceiling that is known for this kind.
fn first_share(key: &Key, busbw: f64, ceilings: &[Ceiling]) -> Option<ShareOfCeiling> {
    let mut row = [EfficiencyRow {
        communicator: None,
        nranks: key.1,
        function: key.0.clone()?,
        datatype: None,
        bytes: key.3,
        algorithm: None,
        protocol: None,
        calls: 1,
        busbw_gb_per_s: busbw,
        ceilings: Vec::new(),
        blind_share: None,
    }];
    hold_against(&mut row, ceilings);
    let [row] = row;
    row.ceilings.into_iter().next()
}

fn best_share(of: &Benchmark, ceilings: &[Ceiling]) -> Option<BestShare> {
    let all = of.right_rows().filter_map(|row| {
        let busbw = row.busbw.iter().copied().reduce(f64::max)?;
        Some(BestShare {
            function: row.function.clone()?,
            bytes: row.bytes,
            busbw_gb_per_s: busbw,
            ceiling: first_share(&key(row), busbw, ceilings)?,
        })
    });
    all.reduce(|best, one| {
        if one.ceiling.share > best.ceiling.share {
            one
        } else {
            best
        }
    })
}

/// The parts of each function.
fn parts(rows: &[BenchmarkPair]) -> Vec<Part> {
    let mut of: Vec<(Option<&String>, Option<u32>)> = Vec::new();
    for row in rows {
        let key = (row.function.as_ref(), row.nranks);
        if !of.contains(&key) {
            of.push(key);
        }
    }
    let mut parts = Vec::new();
    for (function, nranks) in of {
        let own = |row: &&BenchmarkPair| (row.function.as_ref(), row.nranks) == (function, nranks);
        let own: Vec<&BenchmarkPair> = rows.iter().filter(own).collect();
        let shortest = own.iter().map(|row| row.a_us).fold(f64::INFINITY, f64::min);
        let bandwidth = own.iter().filter(|row| row.a_us > 2.0 * shortest);
        let mut from = bandwidth.map(|row| row.bytes).min().unwrap_or(u64::MAX);
        if latency_share(&own).is_some_and(|share| share < 0.5) {
            from = 0;
        }
        for messages in [Messages::Small, Messages::Large] {
            let is_in =
                |row: &&&BenchmarkPair| (row.bytes >= from) == (messages == Messages::Large);
            let of: Vec<&BenchmarkPair> = own.iter().filter(is_in).copied().collect();
            parts.extend(part(messages, &of));
        }
    }
    parts
}

/// How much of A's time at the smallest size is latency: what a line through this size and the next one has
/// at 0 bytes. `None` for one size.
fn latency_share(rows: &[&BenchmarkPair]) -> Option<f64> {
    let time = |bytes: u64| {
        let times = rows
            .iter()
            .filter(|row| row.bytes == bytes)
            .map(|row| row.a_us);
        times.fold(f64::INFINITY, f64::min)
    };
    let first = rows.iter().map(|row| row.bytes).min()?;
    let next = rows
        .iter()
        .map(|row| row.bytes)
        .filter(|bytes| *bytes > first)
        .min()?;
    let (at_first, at_next) = (time(first), time(next));
    let by_byte = (at_next - at_first) / (next - first) as f64;
    Some(1.0 - by_byte * first as f64 / at_first)
}

fn part(messages: Messages, rows: &[&BenchmarkPair]) -> Option<Part> {
    let ratios: Vec<f64> = rows.iter().map(|row| row.ratio).collect();
    let interval = ratio_of_runs(&ratios);
    let said = |of: OfRuns| match of {
        of if of.low > 1.0 => Said::Slower,
        of if of.high < 1.0 => Said::Faster,
        _ => Said::Same,
    };
    Some(Part {
        function: rows.first()?.function.clone(),
        nranks: rows.first()?.nranks,
        messages,
        from_bytes: rows.iter().map(|row| row.bytes).min()?,
        to_bytes: rows.iter().map(|row| row.bytes).max()?,
        sizes: rows.len() as u64,
        ratio: geometric_mean(&ratios),
        ratio_low: interval.map(|of| of.low),
        ratio_high: interval.map(|of| of.high),
        said: interval.map_or(Said::Unknown, said),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::BYTES_PER_US_AT_GB_PER_S;

    /// 20 µs of latency, and so many GB/s.
    fn benchmark(latency: f64, gb_per_s: f64) -> Benchmark {
        let row = |power: u32| {
            let bytes = 1u64 << power;
            let us = latency + bytes as f64 / gb_per_s / BYTES_PER_US_AT_GB_PER_S;
            // The last digit that is printed.
            let odd = 1.0 + 0.002 * f64::from(power % 3);
            BenchmarkRow {
                function: Some("AllReduce".to_owned()),
                nranks: Some(8),
                datatype: "float".to_owned(),
                bytes,
                times_us: vec![us * odd, us],
                busbw: vec![bytes as f64 / us / BYTES_PER_US_AT_GB_PER_S * 1.75],
            }
        };
        Benchmark {
            run: BenchmarkRun {
                file: "log".to_owned(),
                ..BenchmarkRun::default()
            },
            rows: (10..31).map(row).collect(),
        }
    }

    fn said(a: &Benchmark, b: &Benchmark) -> Vec<(Messages, Said)> {
        let diff = compare(a, b, &[]);
        diff.parts
            .iter()
            .map(|part| (part.messages, part.said))
            .collect()
    }

    #[test]
    fn latency_and_bandwidth_are_judged_apart() {
        let (small, large) = (Messages::Small, Messages::Large);
        let a = benchmark(20.0, 200.0);
        let slow_link = benchmark(20.0, 150.0);
        let slow_host = benchmark(26.0, 200.0);
        assert_eq!(said(&a, &a), [(small, Said::Same), (large, Said::Same)]);
        let found = compare(&a, &slow_link, &[]);
        let large = &found.parts[1];
        assert_eq!(large.said, Said::Slower);
        assert!((1.2..1.34).contains(&large.ratio), "{large:?}");
        assert_eq!(said(&a, &slow_host)[0], (small, Said::Slower));
        assert_eq!(said(&slow_host, &a)[0], (small, Said::Faster));
    }

    #[test]
    fn a_table_that_begins_with_large_messages_has_no_small_ones() {
        let from_large = |gb_per_s: f64| {
            let mut of = benchmark(20.0, gb_per_s);
            of.rows.retain(|row| row.bytes >= 512 << 20);
            of
        };
        let found = compare(&from_large(200.0), &from_large(150.0), &[]);
        let parts: Vec<(Messages, u64)> = found
            .parts
            .iter()
            .map(|part| (part.messages, part.from_bytes))
            .collect();
        assert_eq!(parts, [(Messages::Large, 512 << 20)]);
    }

    #[test]
    fn what_one_lacks_and_what_is_wrong_is_left_out_and_counted() {
        let a = benchmark(20.0, 200.0);
        let mut b = benchmark(20.0, 200.0);
        b.rows.truncate(5);
        b.run.wrong_sizes = vec![1 << 11];
        let diff = compare(&a, &b, &[]);
        assert_eq!((diff.rows.len(), diff.a.alone, diff.b.alone), (4, 17, 0));
    }

    #[test]
    fn both_are_held_against_a_ceiling() {
        let (a, b) = (benchmark(20.0, 200.0), benchmark(20.0, 150.0));
        let ceiling = Ceiling::Rate(400.0, "--ceiling 400GB/s".to_owned());
        let diff = compare(&a, &b, &[ceiling]);
        let best = |side: &BenchmarkSide| side.best.as_ref().map(|best| best.ceiling.share);
        assert!(best(&diff.a).is_some_and(|share| (0.86..0.88).contains(&share)));
        assert!(best(&diff.b).is_some_and(|share| (0.64..0.66).contains(&share)));
        assert_eq!(diff.b.best.as_ref().map(|best| best.bytes), Some(1 << 30));
    }
}
