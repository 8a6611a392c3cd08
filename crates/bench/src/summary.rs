//! What stands below the rows of a table: the peak of each function, all sizes in one table, the stress run,
//! and how far starts differ.
//!
//! Rule: every line begins with `#`, so whatever reads nccl-tests' output passes over it.

use crate::function::Function;
use crate::json::name;
use crate::table::{fit, mean, Figures, Spread, Table, TableRow};
use analyze::interval::of_runs;
use analyze::spelling::three;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;

/// The largest bus bandwidth of a function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Peak {
    /// NCCL's name; null if a table that was read does not say it.
    #[serde(serialize_with = "name")]
    #[schemars(with = "Option<String>")]
    pub function: Option<Function>,
    /// Bytes of the call that reached it.
    pub size: u64,
    /// Whether in one buffer.
    pub in_place: bool,
    /// Bus bandwidth, the unit is GB/s.
    #[serde(rename = "bus_bw")]
    pub busbw: f64,
    /// Mean time of a call, µs.
    #[serde(rename = "time")]
    pub time_us: f64,
}

/// Calls of one function without a wait between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stress {
    /// The function.
    pub function: Function,
    /// Bytes of a call.
    pub size: u64,
    /// Calls.
    pub operations: u64,
    /// Host time from the first call to the end of the last one's work, on the slowest rank, s.
    pub time_s: f64,
}

impl Stress {
    /// Bytes of all calls.
    pub fn bytes(&self) -> u64 {
        self.operations * self.size
    }

    /// Calls by time.
    pub fn operations_per_s(&self) -> f64 {
        self.operations as f64 / self.time_s
    }
}

/// One function, size and placement over several starts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OverStarts {
    /// NCCL's name; null if a table that was read does not say it.
    #[serde(serialize_with = "name")]
    #[schemars(with = "Option<String>")]
    pub function: Option<Function>,
    /// Bytes.
    pub size: u64,
    /// Whether in one buffer.
    pub in_place: bool,
    /// Mean time of each start, µs.
    pub means_us: Vec<f64>,
    /// Mean over the starts, µs.
    pub mean_us: f64,
    /// Ends of its 95 % interval, µs.
    pub interval_us: [f64; 2],
    /// Standard deviation of the starts' means, by their mean.
    pub between_share: f64,
    /// Standard deviation of the calls of a start by their mean, median over starts; null if calls were not
    /// timed one by one.
    pub within_share: Option<f64>,
    /// How many times wider the starts are spread than calls alone explain; 1 if starts are alike.
    #[serde(rename = "beyond_calls_ratio")]
    pub beyond_calls: Option<f64>,
}

/// The best row of each function.
pub fn peaks(table: &Table) -> Vec<Peak> {
    let best = |function: Option<Function>| {
        let rows = table.rows.iter().filter(|row| row.function == function);
        let sides = rows.flat_map(|row| {
            let sides = [(&row.out_of_place, false), (&row.in_place, true)];
            sides.into_iter().filter_map(|(figures, in_place)| {
                let figures = figures.as_ref()?;
                Some(Peak {
                    function,
                    busbw: figures.busbw.filter(|busbw| *busbw > 0.0)?,
                    size: row.size,
                    time_us: figures.time_us?,
                    in_place,
                })
            })
        });
        sides.max_by(|a, b| a.busbw.total_cmp(&b.busbw))
    };
    table.functions().into_iter().filter_map(best).collect()
}

/// All of it as text.
pub(crate) fn text(table: &Table) -> String {
    let mut text = String::new();
    for peak in peaks(table) {
        let _ = writeln!(
            text,
            "# Peak {:<15} : busbw {} GB/s at {} bytes, {}, {} us",
            option(peak.function),
            three(peak.busbw),
            peak.size,
            place(peak.in_place),
            three(peak.time_us)
        );
    }
    for stress in &table.stress {
        let _ = writeln!(
            text,
            "# Stress {:<13} : {} operations of {} bytes in {} s, {} GB, {} operations/s",
            stress.function.option(),
            stress.operations,
            stress.size,
            three(stress.time_s),
            three(stress.bytes() as f64 / 1e9),
            three(stress.operations_per_s())
        );
    }
    if table.functions().len() > 1 {
        by_size(table, &mut text);
    }
    over_starts(table, &mut text);
    text + "#\n"
}

fn option(function: Option<Function>) -> &'static str {
    function.map_or("", Function::option)
}

fn place(in_place: bool) -> &'static str {
    if in_place {
        "in-place"
    } else {
        "out-of-place"
    }
}

/// Sizes down, functions across: time, and bus bandwidth.
fn by_size(table: &Table, text: &mut String) {
    let functions = table.functions();
    let mut sizes: Vec<u64> = table.rows.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let any_out = table.rows.iter().any(|row| row.out_of_place.is_some());
    let _ = writeln!(
        text,
        "#\n# All sizes, {}: time (us) and busbw (GB/s)",
        place(!any_out)
    );
    let mut line = format!("# {:>12}", "bytes");
    for function in &functions {
        let _ = write!(line, "  {:>20}", option(*function));
    }
    *text += &line;
    for size in sizes {
        let _ = write!(text, "\n# {size:>12}");
        for function in &functions {
            let row = table
                .rows
                .iter()
                .find(|row| row.size == size && row.function == *function);
            let figures = row.and_then(|row| {
                if any_out {
                    row.out_of_place.as_ref()
                } else {
                    row.in_place.as_ref()
                }
            });
            let cell = |value: Option<f64>, width| {
                let text = value.map_or("-".to_owned(), |value| fit(value, width));
                format!("{text:>width$}")
            };
            let _ = write!(
                text,
                "  {}  {}",
                cell(figures.and_then(|f| f.time_us), 10),
                cell(figures.and_then(|f| f.busbw), 8)
            );
        }
    }
    *text += "\n";
}

fn over_starts(table: &Table, text: &mut String) {
    let Some(first) = table.starts.first() else {
        return;
    };
    let _ = writeln!(
        text,
        "#\n# Over {} starts: mean time with its 95 % interval; standard deviation between the starts' means \
         and\n# within a start, in percent of the mean; beyond: how many times more starts differ than calls \
         explain",
        first.means_us.len()
    );
    let _ = writeln!(
        text,
        "# {:>12}  {:>14}  {:>12}  {:>9}  {:>9}  {:>9}  {:>8}  {:>8}  {:>7}",
        "bytes", "function", "placement", "mean(us)", "from", "to", "between", "within", "beyond"
    );
    for row in &table.starts {
        let share = |share: Option<f64>| share.map_or("-".into(), |share| fit(share * 100.0, 8));
        let _ = writeln!(
            text,
            "# {:>12}  {:>14}  {:>12}  {:>9}  {:>9}  {:>9}  {:>8}  {:>8}  {:>7}",
            row.size,
            option(row.function),
            place(row.in_place),
            fit(row.mean_us, 9),
            fit(row.interval_us[0], 9),
            fit(row.interval_us[1], 9),
            share(Some(row.between_share)),
            share(row.within_share),
            row.beyond_calls.map_or("-".into(), |beyond| fit(beyond, 7)),
        );
    }
}

/// One table of several starts: means over the starts, and how far they differ. `None` of nothing. A row that
/// a start lacks is left out.
pub fn of_starts(tables: &[Table]) -> Option<Table> {
    let mut all = tables.first()?.clone();
    all.stress = Vec::new();
    if tables.len() < 2 {
        all.stress.clone_from(&tables[0].stress);
        return Some(all);
    }
    let ranks = all.devices.len() as u32;
    all.rows.retain_mut(|row| {
        let others: Vec<&TableRow> = tables
            .iter()
            .filter_map(|table| {
                let same =
                    |other: &&TableRow| (other.function, other.size) == (row.function, row.size);
                table.rows.iter().find(same)
            })
            .collect();
        if others.len() < tables.len() {
            return false;
        }
        for in_place in [false, true] {
            let side = |row: &TableRow| {
                if in_place {
                    row.in_place.clone()
                } else {
                    row.out_of_place.clone()
                }
            };
            let sides: Vec<Figures> = others.iter().filter_map(|row| side(row)).collect();
            all.starts.extend(over(row, in_place, &sides));
            let joined = joined(row, ranks, &sides);
            if in_place {
                row.in_place = joined
            } else {
                row.out_of_place = joined
            }
        }
        true
    });
    for first in &tables[0].stress {
        let same: Vec<&Stress> = tables
            .iter()
            .flat_map(|table| &table.stress)
            .filter(|stress| (stress.function, stress.size) == (first.function, first.size))
            .collect();
        let time_s = mean(same.iter().map(|stress| stress.time_s));
        all.stress.push(Stress {
            time_s: time_s.unwrap_or(first.time_s),
            ..*first
        });
    }
    Some(all)
}

/// The figures of a row over its starts: means, except for what counts.
fn joined(row: &TableRow, ranks: u32, sides: &[Figures]) -> Option<Figures> {
    let first = sides.first()?;
    let time_us = mean(sides.iter().filter_map(|side| side.time_us));
    let bandwidths = match row.function {
        Some(function) => Figures::new(function, ranks, row.size, time_us),
        None => Figures::default(),
    };
    let spreads: Vec<Spread> = sides.iter().filter_map(|side| side.spread).collect();
    let of = |get: &dyn Fn(&Spread) -> Option<f64>| mean(spreads.iter().filter_map(get));
    let at = |index: usize| of(&|spread| spread.percentiles.map(|p| p[index]));
    Some(Figures {
        time_us,
        wrong: first
            .wrong
            .map(|_| sides.iter().filter_map(|side| side.wrong).sum()),
        spread: (!spreads.is_empty()).then(|| Spread {
            calls: spreads.iter().map(|spread| spread.calls).sum(),
            skew_us: of(&|spread| spread.skew_us),
            skewed: spreads.iter().map(|spread| spread.skewed).sum(),
            percentiles: match [at(0), at(1), at(2), at(3)] {
                [Some(a), Some(b), Some(c), Some(d)] => Some([a, b, c, d]),
                _ => None,
            },
            deviation_us: of(&|spread| spread.deviation_us),
            gpu_us: of(&|spread| spread.gpu_us),
            host_us: of(&|spread| Some(spread.host_us)).unwrap_or(0.0),
        }),
        ..bandwidths
    })
}

fn over(row: &TableRow, in_place: bool, sides: &[Figures]) -> Option<OverStarts> {
    let means_us: Vec<f64> = sides.iter().filter_map(|side| side.time_us).collect();
    let runs = of_runs(&means_us)?;
    let n = means_us.len() as f64;
    let squares: f64 = means_us.iter().map(|us| (us - runs.mean).powi(2)).sum();
    let between = (squares / (n - 1.0)).sqrt();
    let mut within: Vec<f64> = sides
        .iter()
        .filter_map(|side| Some(side.spread?.deviation_us? / side.time_us?))
        .collect();
    within.sort_by(f64::total_cmp);
    let within_share = analyze::statistics::nearest_rank(&within, 50);
    let calls = mean(
        sides
            .iter()
            .filter_map(|side| Some(side.spread?.calls? as f64)),
    );
    let beyond_calls = within_share
        .zip(calls)
        .filter(|(within, calls)| *within > 0.0 && *calls > 0.0)
        .map(|(within, calls)| between / runs.mean / (within / calls.sqrt()));
    Some(OverStarts {
        function: row.function,
        size: row.size,
        in_place,
        mean_us: runs.mean,
        // Student's t does not know that no time is below 0.
        interval_us: [runs.low.max(0.0), runs.high],
        between_share: between / runs.mean,
        within_share,
        beyond_calls,
        means_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(time_us: f64, deviation_us: f64) -> Option<Figures> {
        Some(Figures {
            wrong: Some(1),
            spread: Some(Spread {
                calls: Some(100),
                deviation_us: Some(deviation_us),
                ..Spread::default()
            }),
            ..Figures::new(Function::AllReduce, 2, 1 << 20, Some(time_us))
        })
    }

    fn table(time_us: f64) -> Table {
        let row = |function, size, time_us| TableRow {
            function: Some(function),
            size,
            datatype: "float".to_owned(),
            redop: "sum".to_owned(),
            out_of_place: side(time_us, 0.05 * time_us),
            ..TableRow::default()
        };
        Table {
            devices: vec![Default::default(), Default::default()],
            rows: vec![
                row(Function::AllReduce, 1 << 20, time_us),
                row(Function::AllReduce, 1 << 21, 1000.0),
                row(Function::Broadcast, 1 << 20, 50.0),
            ],
            stress: vec![Stress {
                function: Function::AllReduce,
                size: 1 << 20,
                operations: 1000,
                time_s: 0.25,
            }],
            ..Table::default()
        }
    }

    #[test]
    fn the_peak_is_the_largest_bandwidth_of_each_function() {
        let peaks = peaks(&table(100.0));
        assert_eq!(peaks.len(), 2);
        assert_eq!((peaks[0].size, peaks[0].time_us), (1 << 20, 100.0));
        assert!((peaks[0].busbw - 10.48576).abs() < 1e-9, "{peaks:?}");
        assert_eq!(peaks[1].function, Some(Function::Broadcast));
    }

    #[test]
    fn the_text_has_all_sizes_in_one_table_and_readers_pass_over_it() {
        let table = table(100.0);
        let text = table.text();
        assert!(
            text.contains("# Peak all_reduce      : busbw 10.5 GB/s at 1048576 bytes"),
            "{text}"
        );
        assert!(
            text.contains(
                "# Stress all_reduce    : 1000 operations of 1048576 bytes in 0.250 s, 1.05 GB"
            ),
            "{text}"
        );
        assert!(
            text.contains("\n#      2097152     1000.00      1.05           -         -\n"),
            "{text}"
        );
        let again = crate::nccl_tests::read(&text).expect("read");
        assert_eq!(again.rows.len(), 3);
        assert_eq!(again.rows[2].function, Some(Function::Broadcast));
    }

    #[test]
    fn starts_that_differ_show_beside_calls_that_do_not() {
        let tables: Vec<Table> = [90.0, 110.0, 100.0, 95.0, 105.0].map(table).into();
        let all = of_starts(&tables).expect("a table");
        let row = &all.starts[0];
        assert_eq!(row.means_us, [90.0, 110.0, 100.0, 95.0, 105.0]);
        assert!((row.mean_us - 100.0).abs() < 1e-9);
        assert!((row.between_share - 0.0790569).abs() < 1e-6, "{row:?}");
        assert!((row.within_share.expect("calls") - 0.05).abs() < 1e-9);
        // 7.9 % between starts, where 5 % in 100 calls explain 0.5 %.
        assert!((row.beyond_calls.expect("calls") - 15.81).abs() < 0.01);
        // Student's t with 4 degrees of freedom: 2.776.
        assert!((row.interval_us[0] - (100.0 - 2.7764 * 7.90569 / 5f64.sqrt())).abs() < 1e-3);
        let mean = all.rows[0].out_of_place.as_ref().expect("a side");
        assert_eq!((mean.time_us, mean.wrong), (Some(100.0), Some(5)));
        assert_eq!(mean.spread.expect("ours").calls, Some(500));
        assert_eq!(all.rows.len(), 3);
        assert!(all.text().contains("# Over 5 starts"));
    }

    #[test]
    fn one_start_is_what_it_was() {
        let one = table(100.0);
        assert_eq!(of_starts(std::slice::from_ref(&one)), Some(one));
        assert_eq!(of_starts(&[]), None);
    }
}
