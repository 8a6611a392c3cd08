//! The report as one page of HTML with figures: what was recorded, how times are spread, what each profiler
//! costs, and what communication takes by each.
//!
//! The figures are those of R. Laso and others, "Where did my NCCL calls go? A profiler comparison" (2026):
//! recorded shares by function, violins of times with their means beside the benchmark's, the same for the
//! overhead, and communication time beside the time of the run.
//!
//! Rule: every figure has its numbers in a table under it, and in the text and JSON under the same names.

use crate::report::*;
use crate::text::{conclusion, event_tables, interval, OF_EVENTS};
use crate::truth::bench::size;
use render::figures::{bars, captioned, ratios, violins, Bar, Ratio, Violin};
use render::layout::plural;
use render::page::{finish, head, list, table};
use std::collections::BTreeSet;
use std::io::{Result, Write};

/// Panels of violins; more sizes are in the table.
const MOST_PANELS: usize = 40;

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut impl Write) -> Result<()> {
    let mut html = String::new();
    let answer = conclusion(report);
    let about = format!(
        "Profilers of NCCL beside the work that they watched: {} of {} (seed {}); intervals are {:.0} % over \
         rounds.",
        plural(report.rounds.into(), "round", "rounds"),
        report.work,
        report.seed,
        report.confidence * 100.0
    );
    head(
        &mut html,
        &about,
        if answer.is_empty() { "Judge" } else { &answer },
    );
    let page = Figures {
        report,
        profilers: profilers(report),
    };
    page.recorded(&mut html);
    page.completeness(&mut html);
    page.times(&mut html);
    page.accuracy(&mut html);
    page.overhead(&mut html);
    page.event_costs(&mut html);
    page.communication(&mut html);
    page.callbacks(&mut html);
    page.resources(&mut html);
    list(&mut html, "Notes", report.notes.iter().cloned());
    finish(&html, "Judge of NCCL profilers - ncclscope judge", out)
}

/// Every profiler once, `none` first: the number of one is its colour.
fn profilers(report: &Report) -> Vec<&str> {
    let of_runs = report.resources.iter().map(|row| &*row.profiler);
    let recorded = report.recorded.iter().map(|row| &*row.profiler);
    let times = report.distributions.iter().map(|row| &*row.profiler);
    let mut seen = BTreeSet::new();
    let all = std::iter::once("none")
        .chain(of_runs)
        .chain(recorded)
        .chain(times);
    all.filter(|name| seen.insert(*name)).collect()
}

/// Case, function and size.
type CaseKey<'a> = (&'a str, &'a str, u64);

struct Figures<'a> {
    report: &'a Report,
    profilers: Vec<&'a str>,
}

impl Figures<'_> {
    /// The colour of a profiler; that of none is the grey one.
    fn colour(&self, profiler: &str) -> usize {
        match self.profilers.iter().position(|name| *name == profiler) {
            Some(0) | None => 7,
            Some(at) => (at - 1) % 7,
        }
    }

    fn recorded(&self, html: &mut String) {
        let rows = &self.report.recorded;
        if rows.is_empty() {
            return;
        }
        open(
            html,
            "Recorded calls by function (percent of the calls done)",
        );
        for case in cases(rows.iter().map(|row| &*row.case)) {
            let mut of_case: Vec<&RecordedOf> = rows.iter().filter(|r| r.case == case).collect();
            of_case.sort_by(|a, b| a.function.cmp(&b.function));
            let drawn: Vec<Bar> = of_case
                .iter()
                .map(|row| Bar {
                    group: row.function.clone(),
                    name: row.profiler.clone(),
                    colour: self.colour(&row.profiler),
                    light: false,
                    value: Some(row.recorded_percent),
                    label: format!("{:.2} %", row.recorded_percent),
                })
                .collect();
            let label = format!("Share of calls that each profiler recorded, by function; {case}");
            *html += &captioned(case, &bars(&label, &drawn, 100.0));
        }
        *html += "</div>\n</section>\n";
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                vec![
                    row.case.clone(),
                    row.function.clone(),
                    row.profiler.clone(),
                    row.done.to_string(),
                    row.matched.to_string(),
                    format!("{:.2}", row.recorded_percent),
                ]
            })
            .collect();
        let names = [
            "case",
            "function",
            "profiler",
            "done",
            "matched",
            "recorded_percent",
        ];
        table(
            html,
            "Recorded calls by function, in numbers",
            &names,
            3,
            &cells,
        );
    }

    fn completeness(&self, html: &mut String) {
        let cells: Vec<Vec<String>> = self
            .report
            .completeness
            .iter()
            .map(|row| {
                let c = &row.counts;
                let counts = [c.done, c.matched, c.missing, c.duplicate, c.foreign];
                [&row.case, &row.profiler, &row.format]
                    .map(Clone::clone)
                    .into_iter()
                    .chain(counts.map(|count| count.to_string()))
                    .chain([row.admitted.map_or("-".to_owned(), |n| n.to_string())])
                    .collect()
            })
            .collect();
        let names = [
            "case",
            "profiler",
            "format",
            "done",
            "matched",
            "missing",
            "duplicate",
            "foreign",
            "admitted",
        ];
        let title = "Completeness (calls done against calls in the output)";
        table(html, title, &names, 3, &cells);
    }

    fn accuracy(&self, html: &mut String) {
        let cell = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{us:.2}"));
        let cells: Vec<Vec<String>> = self
            .report
            .accuracy
            .iter()
            .map(|row| {
                let a = &row.accuracy;
                vec![
                    row.case.clone(),
                    format!("{} {}", row.function, size(row.bytes)),
                    row.profiler.clone(),
                    format!("{}/{}", a.timed, a.done),
                    cell(a.error_p50_us),
                    cell(a.error_p95_us),
                    cell(a.error_p99_us),
                    cell(Some(a.wasserstein_us)),
                    cell(Some(a.shift_p50_us)),
                    cell(Some(a.shift_p95_us)),
                ]
            })
            .collect();
        let names = [
            "case",
            "function",
            "profiler",
            "timed",
            "error_p50",
            "p95",
            "p99",
            "w1",
            "shift_p50",
            "shift_p95",
        ];
        let title = "Accuracy (µs; the profiler's time less the benchmark's, of recorded calls)";
        table(html, title, &names, 3, &cells);
    }

    fn callbacks(&self, html: &mut String) {
        let cells: Vec<Vec<String>> = self
            .report
            .callbacks
            .iter()
            .map(|row| {
                let rate = match row.rate {
                    0 => "as fast as they go".to_owned(),
                    rate => rate.to_string(),
                };
                vec![
                    row.profiler.clone(),
                    rate,
                    row.channels.to_string(),
                    format!("{:.0}", row.call_ns),
                    format!("{:.0}", row.progress_ns),
                    format!("{:.2}", row.p9999_us),
                    format!("{:.1}", row.max_us),
                    format!("{:.2}", row.own_cpu_percent),
                ]
            })
            .collect();
        let names = [
            "profiler",
            "calls_per_s",
            "channels",
            "call_ns",
            "progress_ns",
            "p99.99_us",
            "max_us",
            "own_cpu_%",
        ];
        let title = "Callbacks (what one call costs, an empty plugin's cost subtracted)";
        table(html, title, &names, 2, &cells);
    }

    /// Violins: for accuracy each recording profiler beside the benchmark, for overhead the benchmark under
    /// each profiler.
    fn times(&self, html: &mut String) {
        let rows = &self.report.distributions;
        let mut places: Vec<CaseKey> = Vec::new();
        for row in rows {
            let place = (&*row.case, &*row.function, row.bytes);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let of = |place: CaseKey| -> Vec<&DistributionOf> {
            let is_there = |row: &&DistributionOf| (&*row.case, &*row.function, row.bytes) == place;
            rows.iter().filter(is_there).collect()
        };
        let titles = [
            (
                "Times of calls: each profiler beside the benchmark (violins; the line is the mean)",
                true,
            ),
            (
                "Overhead: times of calls by the benchmark, without a profiler and under each",
                false,
            ),
        ];
        for (title, of_accuracy) in titles {
            let wanted = |place: CaseKey| {
                if of_accuracy {
                    of(place).iter().any(|row| row.by == "profiler")
                } else {
                    of(place).iter().filter(|row| row.by == "bench").count() > 1
                }
            };
            let places: Vec<_> = places.iter().copied().filter(|p| wanted(*p)).collect();
            if places.is_empty() {
                continue;
            }
            open(html, title);
            for place in places.iter().take(MOST_PANELS) {
                let told = |profiler: &str| {
                    of(*place)
                        .iter()
                        .any(|row| row.profiler == profiler && row.by == "profiler")
                };
                let shown = of(*place).into_iter().filter(|row| {
                    if of_accuracy {
                        row.profiler == "none" || told(&row.profiler)
                    } else {
                        row.by == "bench"
                    }
                });
                let mut shown: Vec<&DistributionOf> = shown.collect();
                shown.sort_by_key(|row| self.profilers.iter().position(|p| *p == row.profiler));
                let shapes: Vec<Violin> = shown.into_iter().map(|row| self.violin(row)).collect();
                let (case, function, bytes) = place;
                let caption = format!("{function} {}, {case}", size(*bytes));
                let label = format!("Times of {caption}");
                *html += &captioned(&caption, &violins(&label, &shapes));
            }
            *html += "</div>\n";
            if places.len() > MOST_PANELS {
                let left = places.len() - MOST_PANELS;
                *html += &format!("<p class=\"about\">{left} more are in the table.</p>\n");
            }
            *html += "</section>\n";
        }
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let d = &row.distribution;
                let times = [
                    d.mean_us, d.p5_us, d.p25_us, d.p50_us, d.p75_us, d.p95_us, d.max_us,
                ];
                let names = [&row.case, &row.function].map(Clone::clone);
                names
                    .into_iter()
                    .chain([size(row.bytes), row.profiler.clone(), row.by.to_owned()])
                    .chain([d.count.to_string()])
                    .chain(times.map(|us| format!("{us:.2}")))
                    .collect()
            })
            .collect();
        let names = [
            "case", "function", "size", "profiler", "by", "calls", "mean", "p5", "p25", "p50",
            "p75", "p95", "max",
        ];
        table(html, "Times of calls, in numbers (µs)", &names, 5, &cells);
    }

    fn violin(&self, row: &DistributionOf) -> Violin {
        let d = &row.distribution;
        let by = match (&*row.profiler, row.by) {
            ("none", _) => "alone",
            (_, "bench") => "bench under it",
            _ => "by profiler",
        };
        let name = match &*row.profiler {
            "none" => "bench",
            name => name,
        };
        Violin {
            name: [name.to_owned(), by.to_owned()],
            colour: self.colour(&row.profiler),
            light: row.by == "bench" && row.profiler != "none",
            range: [d.min_us, d.max_us],
            shares: d.shares.clone(),
            mean: d.mean_us,
        }
    }

    fn overhead(&self, html: &mut String) {
        let rows = &self.report.overhead;
        if rows.is_empty() {
            return;
        }
        let title = format!(
            "Overhead: ratio to the runs without a profiler, with its interval (dashed: the limit, {})",
            self.report.limit
        );
        open(html, &title);
        for case in cases(rows.iter().map(|row| &*row.case)) {
            let drawn: Vec<Ratio> = rows
                .iter()
                .filter(|row| row.case == case)
                .map(|row| Ratio {
                    name: format!("{}, {}", row.figure, row.profiler),
                    colour: self.colour(&row.profiler),
                    ratio: row.overhead.ratio,
                    interval: row.overhead.ratio_interval,
                })
                .collect();
            let label = format!("Overhead of each profiler, as a ratio; {case}");
            *html += &captioned(case, &ratios(&label, &drawn, self.report.limit));
        }
        *html += "</div>\n</section>\n";
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let o = &row.overhead;
                let interval = o.ratio_interval.map_or("-".to_owned(), |(low, high)| {
                    format!("{low:.4} to {high:.4}")
                });
                vec![
                    row.case.clone(),
                    row.figure.clone(),
                    row.profiler.clone(),
                    o.verdict.name().to_owned(),
                    o.pairs.to_string(),
                    format!("{:.3} {}", o.without, row.unit),
                    format!("{:.3} {}", o.with, row.unit),
                    format!("{:.4}", o.ratio),
                    interval,
                ]
            })
            .collect();
        let names = [
            "case", "figure", "profiler", "verdict", "pairs", "without", "with", "ratio",
            "interval",
        ];
        table(html, "Overhead, in numbers", &names, 4, &cells);
    }

    /// What events cost small calls, as tables.
    fn event_costs(&self, html: &mut String) {
        for (number, (title, heads, rows)) in event_tables(self.report).into_iter().enumerate() {
            if number == 0 {
                open(html, "Cost of events");
                *html += &format!("<p>{}</p>\n</div>\n</section>\n", OF_EVENTS);
            }
            let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
            table(html, &title, &heads, 1, &rows);
        }
    }

    fn communication(&self, html: &mut String) {
        let rows = &self.report.communication;
        if rows.is_empty() {
            return;
        }
        open(
            html,
            "Communication time beside the time of the run (s, sum over calls, mean over ranks)",
        );
        for case in cases(rows.iter().map(|row| &*row.case)) {
            let mut drawn = Vec::new();
            for row in rows.iter().filter(|row| row.case == case) {
                let mut bar = |name: &str, light, value: Option<f64>, within| {
                    let within = match within {
                        Some(_) => format!(", 95 % {}", interval(within, |s| format!("{s:.4}"))),
                        None => String::new(),
                    };
                    drawn.push(Bar {
                        group: row.profiler.clone(),
                        name: name.to_owned(),
                        colour: self.colour(&row.profiler),
                        light,
                        value,
                        label: value.map_or("no times".to_owned(), |s| format!("{s:.4} s{within}")),
                    });
                };
                if row.profiler != "none" {
                    bar("by the profiler", false, row.told_s, row.told_interval_s);
                }
                if row.own_s.is_some() {
                    bar("by the benchmark", true, row.own_s, None);
                }
                bar("whole run", true, Some(row.wall_s), None);
            }
            let most = drawn.iter().filter_map(|bar| bar.value).fold(0.0, f64::max);
            let label = format!("Communication time by each profiler; {case}");
            *html += &captioned(case, &bars(&label, &drawn, most));
        }
        *html += "</div>\n</section>\n";
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                vec![
                    row.case.clone(),
                    row.profiler.clone(),
                    cell(row.told_s),
                    interval(row.told_interval_s, |s| format!("{s:.4}")),
                    row.timed_percent
                        .map_or("-".to_owned(), |p| format!("{p:.2}")),
                    cell(row.own_s),
                    cell(Some(row.wall_s)),
                    cell(row.told_share_of_wall),
                ]
            })
            .collect();
        let names = [
            "case",
            "profiler",
            "by_profiler_s",
            "interval",
            "calls_timed_%",
            "by_bench_s",
            "whole_run_s",
            "share_of_run",
        ];
        table(html, "Communication time, in numbers", &names, 2, &cells);
    }

    fn resources(&self, html: &mut String) {
        let cells: Vec<Vec<String>> = self
            .report
            .resources
            .iter()
            .map(|row| {
                let bytes = row.output_bytes_per_call;
                vec![
                    row.case.clone(),
                    row.profiler.clone(),
                    format!("{:.3}", row.wall_s),
                    format!("{:.3}", row.cpu_s),
                    format!("{:.1}", row.peak_mib),
                    bytes.map_or("-".to_owned(), |bytes| format!("{bytes:.1}")),
                ]
            })
            .collect();
        let names = [
            "case",
            "profiler",
            "wall_s",
            "cpu_s",
            "peak_mib",
            "output_bytes_per_call",
        ];
        table(html, "Resources (medians over rounds)", &names, 2, &cells);
    }
}

/// Each case once, in order.
fn cases<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut cases: Vec<&str> = Vec::new();
    for case in all {
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    cases
}

/// Begins a section of figures, whose title is ours.
fn open(html: &mut String, title: &str) {
    *html += &format!("<section>\n<h2>{title}</h2>\n<div class=\"figures\">\n");
}
