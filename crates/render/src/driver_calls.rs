//! How often the CUDA driver was called, as text.

use crate::layout::figure;
use crate::layout::{plural, Page, Table};
use analyze::driver_calls::{DriverCallRow, DriverCalls, NoFigure};
use analyze::spelling::size;
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// The driver calls of a job.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DriverCalls")]
pub(crate) struct Row<'a> {
    #[serde(flatten)]
    calls: &'a DriverCalls,
    /// One for each counter.
    rows: Vec<Counter<'a>>,
}

/// A counter.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DriverCallRow")]
struct Counter<'a> {
    #[serde(flatten)]
    row: &'a DriverCallRow,
    /// Why `nccl` or `program` is null.
    why_null: Option<&'static str>,
}

impl Row<'_> {
    pub(crate) fn of(calls: &DriverCalls) -> Row<'_> {
        fn counter(row: &DriverCallRow) -> Counter<'_> {
            Counter {
                row,
                why_null: row.why_null.map(no_figure),
            }
        }
        Row {
            calls,
            rows: calls.rows.iter().map(counter).collect(),
        }
    }
}

/// Why a counter has no figure.
fn no_figure(of: NoFigure) -> &'static str {
    match of {
        NoFigure::NotToldApart => {
            "NCCL is no library of its own in this program: its calls are among the program's"
        }
        NoFigure::NotCounted => "an older recorder did not count it",
        NoFigure::NoProxies => {
            "no thread has the name of a proxy of NCCL's: NCCL made none, or NCCL_SET_THREAD_NAME was 0"
        }
        NoFigure::OfNcclOnly => "proxy threads are NCCL's",
    }
}

/// Writes the section, in the long report.
pub(crate) fn driver_calls(report: &Report, page: &mut Page) {
    let Some(calls) = report.driver_calls.as_ref().filter(|_| page.all) else {
        return;
    };
    page.title(&format!(
        "Calls of the CUDA driver (of {}; per step: the median rank's)",
        plural(calls.processes, "process", "processes")
    ));
    let names = [
        "counter",
        "by_nccl",
        "by_nccl/step",
        "nccl_s",
        "by_program",
        "by_program/step",
        "program_s",
    ];
    let mut table = Table::new(names, "<>>>>>>");
    table.squeeze = &["program_s", "nccl_s"];
    for row in &calls.rows {
        let is_bytes = row.counter.ends_with("_bytes");
        let count = |n: Option<u64>| match n {
            Some(n) if is_bytes => size(n),
            Some(n) => n.to_string(),
            None => "-".to_owned(),
        };
        let per_step = |n: Option<f64>| match n {
            Some(n) if is_bytes => size(n as u64),
            n => figure(n),
        };
        let time = |s: Option<f64>| s.map_or("-".to_owned(), |s| format!("{s:.3}"));
        table.row([
            row.counter.to_owned(),
            count(row.nccl),
            per_step(row.nccl_per_step),
            time(row.nccl_s),
            count(row.program),
            per_step(row.program_per_step),
            time(row.program_s),
        ]);
    }
    page.table(&table, usize::MAX, "counters");
    let mut said = Vec::new();
    for row in &calls.rows {
        let is_known = row.nccl.is_some() && row.counter == "proxy_wakeups";
        let Some(why) = row.why_null.filter(|why| !is_known && !said.contains(why)) else {
            continue;
        };
        said.push(why);
        page.line(&format!("No figure (`-`): {}.", no_figure(why)));
    }
    if let Some(why) = why_none_per_step(report) {
        page.line(why);
    }
}

/// Why nothing is known per step, and the way out.
pub(crate) fn why_none_per_step(report: &Report) -> Option<&'static str> {
    let calls = report.driver_calls.as_ref()?;
    let mut all = calls.rows.iter();
    if all.any(|row| row.nccl_per_step.is_some() || row.program_per_step.is_some()) {
        return None;
    }
    Some(if report.steps.is_some() {
        "Nothing is known per step: between no two readings of the counters was there nothing but steps. \
         Readings are a second apart or more, so record more steps without pauses."
    } else {
        "Nothing is known per step, because no steps were found. If all calls of a step are alike, let \
         one of each step differ, such as a sum of one number."
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Look;
    use setup::counts::Counts;
    use tables::{Capture, Process};

    fn text(counts: &str, all: bool) -> String {
        let mut process = Process::default();
        process.setup.counts.extend(Counts::parse(counts));
        let capture = Capture {
            processes: vec![process],
            ..Capture::default()
        };
        let mut page = Page::new(Look::default(), all);
        driver_calls(&analyze::report(&capture), &mut page);
        let mut out = Vec::new();
        page.finish(&mut out).expect("in memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn counts_of_nccl_and_of_the_program_stand_side_by_side() {
        let counts = "at_ns=1 told_apart=1 timed=1 copies=7 nccl.copies=3 nccl.gpu_bytes=4194304 \
                      nccl.mappings=2 nccl.mappings_ns=1500000 proxies=1 proxy_wakeups=12";
        let page = text(counts, true);
        let has = |words: &[&str]| {
            let mut lines = page.lines();
            lines.any(|line| line.split_whitespace().eq(words.iter().copied()))
        };
        assert!(has(&["copies", "3", "-", "-", "7", "-", "-"]), "{page}");
        assert!(
            has(&["mappings", "2", "-", "0.002", "0", "-", "0.000"]),
            "{page}"
        );
        assert!(
            has(&["gpu_bytes", "4", "MiB", "-", "-", "0", "B", "-", "-"]),
            "{page}"
        );
        assert!(
            has(&["proxy_wakeups", "12", "-", "-", "-", "-", "-"]),
            "{page}"
        );
        assert!(!page.contains("No figure"), "{page}");
        assert!(page.contains("because no steps were found"), "{page}");
        assert_eq!(text(counts, false), "");
    }

    #[test]
    fn what_is_not_known_has_its_reason() {
        let page = text("at_ns=1 told_apart=0 copies=7", true);
        assert!(page.contains("NCCL is no library of its own"), "{page}");
        assert!(
            page.contains("an older recorder did not count it"),
            "{page}"
        );
        assert!(page.contains("no thread has the name of a proxy"), "{page}");
    }
}
