//! The table by line of the program.

use crate::layout::figure;
use crate::layout::{Page, Table, Unit, ESTIMATED};
use analyze::callers::CallerRow;
use analyze::spelling::size;
use analyze::Report;

/// Lines that are printed.
const LINES: usize = 5;
/// What stands for calls without a recorded caller.
pub(crate) const NOBODY: &str = "(not recorded)";

/// A caller with the last two parts of its path: `/home/me/job/train.py:12 step` is `job/train.py:12 step`.
pub(crate) fn short(caller: &str) -> &str {
    let path = caller.split(' ').next().unwrap_or(caller);
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    // What is no path (`autograd (C++)`, `unknown: ...`) has a slash nowhere, or is no longer for it.
    match (slashes.next(), slashes.next()) {
        (Some(_), Some(at)) => &caller[at + 1..],
        _ => caller,
    }
}

pub(crate) fn callers(report: &Report, page: &mut Page) {
    if report.callers.is_empty() {
        return;
    }
    let names = [
        "line", "function", "calls", "bytes", "gpu", "gpu_%", "exposed", "waiting", "host",
    ];
    let mut table = Table::new(names, "<<>>>>>>>");
    table.squeeze = &["bytes", "host", "gpu_%", "calls"];
    let unit =
        |pick: fn(&CallerRow) -> Option<f64>| Unit::of(report.callers.iter().filter_map(pick));
    let gpu = unit(|c| c.sum_over_ranks_us);
    let host = unit(|c| c.host_sum_over_ranks_us);
    // Of one kind, so that they compare.
    let parts = unit(|c| {
        Some(
            c.exposed_us
                .unwrap_or(0.0)
                .max(c.wait_rank_us.unwrap_or(0.0)),
        )
    });
    for row in &report.callers {
        table.row([
            row.caller.as_deref().map_or(NOBODY, short).to_owned(),
            row.function.clone().unwrap_or_else(|| "-".to_owned()),
            row.calls.to_string(),
            row.bytes.map_or("-".to_owned(), size),
            gpu.estimated(row.sum_over_ranks_us, row.sum_interval_us),
            figure(row.share_of_time.map(|share| 100.0 * share)),
            parts.estimated(row.exposed_us, row.exposed_interval_us),
            parts.estimated(row.wait_rank_us, row.wait_interval_us),
            host.show(row.host_sum_over_ranks_us),
        ]);
    }
    let is_estimate = |c: &CallerRow| {
        c.sum_interval_us.is_some()
            || c.exposed_interval_us.is_some()
            || c.wait_interval_us.is_some()
    };
    let sample = if report.callers.iter().any(is_estimate) {
        ESTIMATED
    } else {
        ""
    };
    let has_gpu = report.callers.iter().any(|c| c.sum_over_ranks_us.is_some());
    let title = if has_gpu {
        format!(
        "Calls by line of the program (largest GPU time first; sums over ranks: gpu in {}, exposed and \
         waiting in {}, host in {}{sample})",
        gpu.name, parts.name, host.name
    )
    } else {
        format!(
            "Calls by line of the program (no GPU time; largest sum over ranks first, host in {})",
            host.name
        )
    };
    page.title(&title);
    page.table(&table, LINES, "lines");
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_path_is_cut_and_nothing_else_is() {
        assert_eq!(
            short("/home/me/job/train.py:12 step"),
            "job/train.py:12 step"
        );
        assert_eq!(short("train.py:12 a/b/c"), "train.py:12 a/b/c");
        assert_eq!(short("/train.py:1"), "/train.py:1");
        assert_eq!(short("autograd (C++)"), "autograd (C++)");
    }
}
