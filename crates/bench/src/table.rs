//! The table of a benchmark, whoever measured it.
//!
//! A [`Table`] has one [`Row`] for each function and size, with [`Figures`] for each side: two buffers, or
//! one. Ours have [`Spread`] beside them, those of nccl-tests do not.
//!
//! Rule: what was not measured is `None`; a bandwidth of 0 is one that was measured over one rank.

use crate::function::Function;
use crate::summary::{self, OverStarts, Stress};
use analyze::bandwidth::Bandwidth;
use analyze::spelling::size;
use analyze::statistics::nearest_rank;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A benchmark's results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Lines of the header, without `#`.
    pub about: Vec<String>,
    /// As ncclGetVersion gives it.
    pub nccl_version: Option<u32>,
    /// GPUs, one for each rank.
    pub devices: Vec<Device>,
    /// Results in order.
    pub rows: Vec<TableRow>,
    /// The average bus bandwidth that was read with them, GB/s: nccl-tests' own has more digits and more
    /// iterations in it than its lines.
    pub read_average: Option<f64>,
    /// Runs without a wait between calls, if there were any.
    pub stress: Vec<Stress>,
    /// How far starts differ, if there were several.
    pub starts: Vec<OverStarts>,
    /// What the program said when it failed, if it did.
    pub failed: Option<String>,
    /// What was read has the beginning of a run and not its end.
    pub is_cut: bool,
}

/// A rank's GPU, with nccl-tests' fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Device {
    /// Rank.
    pub rank: u32,
    /// Number of its group: the groups of NCCL_TESTS_SPLIT communicate each by itself, at the same time.
    pub group: u32,
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub hostname: String,
    /// Number of the GPU in its process.
    pub device: u32,
    /// PCI address.
    pub device_hex: String,
    /// Name of the GPU.
    pub device_info: String,
}

/// A function at a size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// The function; `None` where nccl-tests' output does not tell, or has one that we do not know.
    pub function: Option<Function>,
    /// Ranks that communicated with each other; `None` if the table's devices say it, or it is not known.
    pub nranks: Option<u32>,
    /// From which on and up to which of the table's devices ran it; `(0, 0)` if that is not known.
    pub devices: (usize, usize),
    /// Bytes.
    pub size: u64,
    /// Elements, as the API takes them.
    pub count: u64,
    /// nccl-tests' name of the datatype.
    pub datatype: String,
    /// nccl-tests' name of the reduction, or `none`.
    pub redop: String,
    /// Root, or −1.
    pub root: i64,
    /// With two buffers.
    pub out_of_place: Option<Figures>,
    /// In one buffer.
    pub in_place: Option<Figures>,
}

/// What was measured on one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Mean time of a call, µs; `None` where every call was set apart.
    pub time_us: Option<f64>,
    /// GB/s.
    pub algbw: Option<f64>,
    /// GB/s.
    pub busbw: Option<f64>,
    /// Wrong elements over all ranks; `None` when not checked.
    pub wrong: Option<u64>,
    /// What nccl-tests does not have.
    pub spread: Option<Spread>,
}

/// Times beside the mean, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Calls in the mean, each over all ranks; `None` in a table read from text.
    pub calls: Option<u64>,
    /// How far the ranks of a host started apart: median over calls, or over batches that were made back to
    /// back. `None` where every rank is alone on its host.
    pub skew_us: Option<f64>,
    /// Calls that were set apart because their ranks started too far from each other.
    pub skewed: u64,
    /// Median, 95th and 99th percentile and maximum; single mode only.
    pub percentiles: Option<[f64; 4]>,
    /// Standard deviation of the calls; single mode only.
    pub deviation_us: Option<f64>,
    /// GPU time of a call; mean over ranks. `None` in a table read from text.
    pub gpu_us: Option<f64>,
    /// Time that a host spends inside a call; mean over ranks.
    pub host_us: f64,
}

impl Figures {
    /// Of a mean time; the bandwidths follow.
    pub fn new(function: Function, ranks: u32, bytes: u64, time_us: Option<f64>) -> Figures {
        // A time that contradicts the size has no bandwidth.
        let bandwidth =
            time_us.and_then(|us| Bandwidth::of(function.name(), Some(ranks), bytes, us).ok());
        let bandwidth = bandwidth.unwrap_or_default();
        Figures {
            time_us,
            algbw: bandwidth.algbw_gb_per_s,
            // `Bandwidth` has none over one rank, where nccl-tests has 0.
            busbw: bandwidth
                .busbw_gb_per_s
                .or(bandwidth.algbw_gb_per_s.filter(|_| ranks == 1).map(|_| 0.0)),
            ..Figures::default()
        }
    }
}

/// Median, 95th and 99th percentile and maximum, by nearest rank.
pub fn percentiles(mut values: Vec<f64>) -> Option<[f64; 4]> {
    values.sort_by(f64::total_cmp);
    let at = |percent| nearest_rank(&values, percent);
    Some([at(50)?, at(95)?, at(99)?, at(100)?])
}

impl TableRow {
    /// Both sides that were measured.
    pub fn sides(&self) -> impl Iterator<Item = &Figures> {
        self.out_of_place.iter().chain(&self.in_place)
    }
}

/// How the ranks of a benchmark communicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    /// Ranks that communicated with each other.
    pub nranks: u32,
    /// So many groups did so at the same time.
    pub groups: u32,
    /// So many programs ran that did not know of each other.
    pub runs: u32,
}

/// How these ranks communicated; `None` if that is not known, or not the same for all.
pub fn together(devices: &[Device]) -> Option<Together> {
    let mut ranks: BTreeMap<u32, u32> = BTreeMap::new();
    let mut groups: BTreeMap<u32, u32> = BTreeMap::new();
    for device in devices {
        *ranks.entry(device.rank).or_default() += 1;
        *groups.entry(device.group).or_default() += 1;
    }
    let same = |counts: &BTreeMap<u32, u32>| {
        let first = *counts.values().next()?;
        counts.values().all(|n| *n == first).then_some(first)
    };
    // Ranks of one program have numbers of their own.
    let runs = same(&ranks)?;
    let groups_of_a_run = u32::try_from(groups.len()).ok()?;
    Some(Together {
        nranks: same(&groups)? / runs,
        groups: groups_of_a_run,
        runs,
    })
}

/// A version as ncclGetVersion gives it: `2.28.9`. Up to 2.8 it had two digits less.
pub fn dotted(version: u32) -> String {
    let (major, rest) = if version < 10_000 {
        (1000, 100)
    } else {
        (10_000, 100)
    };
    format!(
        "{}.{}.{}",
        version / major,
        version / rest % (major / rest),
        version % rest
    )
}

impl Table {
    /// Ranks that communicated with each other for a row, if that is known.
    pub fn nranks_of(&self, row: &TableRow) -> Option<u32> {
        row.nranks.or_else(|| Some(together(&self.devices)?.nranks))
    }

    /// Sizes at which elements were wrong, in order.
    pub fn wrong_sizes(&self) -> Vec<u64> {
        let is_wrong = |row: &&TableRow| row.sides().any(|side| side.wrong.is_some_and(|n| n > 0));
        let mut sizes: Vec<u64> = self
            .rows
            .iter()
            .filter(is_wrong)
            .map(|row| row.size)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// That elements were wrong, in words; `None` if none were.
    pub fn wrong_data(&self) -> Option<String> {
        let wrong = self.wrong_sizes();
        let first = wrong.first()?;
        let n = wrong.len();
        let sizes = if n == 1 { "size" } else { "sizes" };
        Some(format!(
            "wrong data at {n} {sizes}, from {} on",
            size(*first)
        ))
    }

    /// The average that was read, else the mean of all bus bandwidths; `None` without any.
    pub fn average_busbw(&self) -> Option<f64> {
        self.read_average.or_else(|| self.mean_busbw())
    }

    /// Mean of the rows' bus bandwidths.
    pub(crate) fn mean_busbw(&self) -> Option<f64> {
        mean(
            self.rows
                .iter()
                .flat_map(TableRow::sides)
                .filter_map(|f| f.busbw),
        )
    }

    /// Wrong elements over all rows; `None` when none was checked.
    pub fn wrong(&self) -> Option<u64> {
        self.rows
            .iter()
            .flat_map(TableRow::sides)
            .filter_map(|f| f.wrong)
            .reduce(|a, b| a + b)
    }

    /// Functions in order of their first row.
    pub fn functions(&self) -> Vec<Option<Function>> {
        let mut functions: Vec<Option<Function>> = Vec::new();
        for row in &self.rows {
            if !functions.contains(&row.function) {
                functions.push(row.function);
            }
        }
        functions
    }

    /// The text, as nccl-tests prints it.
    pub fn text(&self) -> String {
        let mut text = self.head();
        for function in self.functions() {
            let rows: Vec<&TableRow> = self
                .rows
                .iter()
                .filter(|r| r.function == function)
                .collect();
            let ours = rows.iter().any(|r| r.sides().any(|f| f.spread.is_some()));
            text += &header(function, ours);
            for row in rows {
                text += &line(row);
            }
        }
        text + &self.foot()
    }

    /// What stands above the rows.
    pub fn head(&self) -> String {
        let mut text = String::new();
        for about in &self.about {
            text += &format!("# {about}\n");
        }
        text += "#\n";
        if !self.devices.is_empty() {
            text += "# Using devices\n";
        }
        for d in &self.devices {
            let _ = writeln!(
                text,
                "#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}",
                d.rank, d.group, d.pid, d.hostname, d.device, d.device_hex, d.device_info
            );
        }
        text
    }

    /// What stands below them.
    pub fn foot(&self) -> String {
        let wrong = match self.wrong() {
            // What was right until then says nothing of the run.
            _ if self.failed.is_some() => "not known, the run failed".to_owned(),
            None => "not checked".to_owned(),
            Some(0) => "0 OK".to_owned(),
            Some(wrong) => format!("{wrong} FAILED"),
        };
        let busbw = self.average_busbw().map_or("N/A".to_owned(), short);
        let more = summary::text(self);
        format!("# Out of bounds values : {wrong}\n# Avg bus bandwidth    : {busbw}\n{more}")
    }
}

/// The head of one function's rows; `ours` is whether they have more than nccl-tests'.
pub fn header(function: Option<Function>, ours: bool) -> String {
    let mut text = String::from("#\n");
    if let Some(function) = function {
        text += &format!("# Collective test starting: {}\n", function.option());
    }
    let lines = [
        (["", "", "", "", ""], ["", "", "", ""]),
        (
            ["size", "count", "type", "redop", "root"],
            ["time", "algbw", "busbw", "#wrong"],
        ),
        (
            ["(B)", "(elements)", "", "", ""],
            ["(us)", "(GB/s)", "(GB/s)", ""],
        ),
    ];
    let more = [
        ["", "", "", "", "", "", ""],
        ["p50", "p95", "p99", "max", "host", "skew", "skewed"],
        ["(us)", "(us)", "(us)", "(us)", "(us)", "(us)", "(calls)"],
    ];
    for (index, (left, side)) in lines.iter().enumerate() {
        let mut line = format!(
            "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}",
            left[0], left[1], left[2], left[3], left[4]
        );
        let titled = |line: &mut String, width: usize, title: &str| {
            let _ = write!(line, "{title:^width$}");
        };
        if index == 0 {
            for title in ["out-of-place", "in-place"] {
                titled(&mut line, 33, title);
            }
            if ours {
                for title in ["out-of-place", "in-place"] {
                    titled(&mut line, 63, title);
                }
            }
        } else {
            for _ in 0..2 {
                let _ = write!(
                    line,
                    "  {:>7}  {:>6}  {:>6}  {:>6}",
                    side[0], side[1], side[2], side[3]
                );
            }
            for _ in 0..if ours { 2 } else { 0 } {
                more[index].iter().for_each(|name| {
                    let _ = write!(line, "  {name:>7}");
                });
            }
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}

/// One row.
pub fn line(row: &TableRow) -> String {
    let mut text = format!(
        "{:12}  {:12}  {:>8}  {:>6}  {:6}",
        row.size, row.count, row.datatype, row.redop, row.root
    );
    let number = |value: Option<f64>, width: usize| {
        let text = value.map_or("N/A".to_owned(), |value| fit(value, width));
        format!("  {text:>width$}")
    };
    let sides = [&row.out_of_place, &row.in_place];
    for figures in sides {
        let figures = figures.as_ref();
        text += &number(figures.and_then(|f| f.time_us), 7);
        text += &number(figures.and_then(|f| f.algbw), 6);
        text += &number(figures.and_then(|f| f.busbw), 6);
        let wrong = figures.and_then(|f| f.wrong);
        let _ = write!(
            text,
            "  {:>6}",
            wrong.map_or("N/A".to_owned(), |w| w.to_string())
        );
    }
    if row.sides().any(|f| f.spread.is_some()) {
        for figures in sides {
            let spread = figures.as_ref().and_then(|f| f.spread);
            let percentiles = spread.and_then(|s| s.percentiles);
            for index in 0..4 {
                text += &number(percentiles.map(|p| p[index]), 7);
            }
            text += &number(spread.map(|s| s.host_us), 7);
            text += &number(spread.and_then(|s| s.skew_us), 7);
            let skewed = spread.map_or("N/A".to_owned(), |s| s.skewed.to_string());
            let _ = write!(text, "  {skewed:>7}");
        }
    }
    text + "\n"
}

/// A number in so many columns, with two decimals where they fit.
pub(crate) fn fit(value: f64, width: usize) -> String {
    [2, 1, 0]
        .into_iter()
        .map(|decimals| format!("{value:.decimals$}"))
        .find(|text| text.len() <= width)
        .unwrap_or_else(|| format!("{value:.1e}"))
}

/// Six digits, without zeros at the end.
fn short(value: f64) -> String {
    let whole = value.abs().max(1.0).log10() as usize + 1;
    let text = format!("{value:.*}", 6usize.saturating_sub(whole));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Standard deviation of a sample; `None` below two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values.iter().copied()).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The mean; `None` of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        assert_eq!(percentiles(vec![]), None);
        assert_eq!(percentiles(vec![3.0]), Some([3.0; 4]));
        let hundred = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentiles(hundred), Some([50.0, 95.0, 99.0, 100.0]));
        assert_eq!(percentiles(vec![1.0, 2.0, 3.0]), Some([2.0, 3.0, 3.0, 3.0]));
    }

    #[test]
    fn numbers_fit_their_columns() {
        for (value, text) in [
            (1.234, "1.23"),
            (1234.5, "1234.50"),
            (123456.7, "123456.7"),
            (0.0, "0.00"),
        ] {
            assert_eq!(fit(value, 8), text);
        }
        assert_eq!(fit(12345.67, 6), "12346");
        assert_eq!(fit(12345678.0, 6), "1.2e7");
        assert_eq!(
            (short(123.456789), short(0.0), short(0.5)),
            ("123.457".into(), "0".into(), "0.5".into())
        );
    }

    #[test]
    fn one_rank_has_a_bus_bandwidth_of_zero() {
        let one = Figures::new(Function::AllReduce, 1, 1 << 20, Some(10.0));
        assert_eq!(one.busbw, Some(0.0));
        let none = Figures::new(Function::AllReduce, 4, 1 << 20, None);
        assert_eq!((none.algbw, none.busbw), (None, None));
    }
}
