//! The steps of the job, as text.

use crate::layout::Page;
use analyze::ranks::Spread;
use analyze::spelling::{percent, time, times};
use analyze::Report;

/// How many steps, how long, and what of them was communication.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let Some(steps) = &report.steps else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if let (Some(number), Some(calls)) = (steps.steps, steps.calls) {
        let whole = |s: Spread| match s.min == s.max {
            true => format!("{:.0}", s.max),
            false => format!("{:.0} to {:.0}", s.min, s.max),
        };
        let ranks = match (number.n, steps.without) {
            (1, 0) => "the only rank".to_owned(),
            (n, 0) => format!("each of {n} ranks"),
            (n, without) => format!("{n} ranks, and none on {without} more"),
        };
        let calls = match calls.max {
            1.0 => "1 call".to_owned(),
            _ => format!("{} calls", whole(calls)),
        };
        let times = steps.step_us.map_or(String::new(), |of| {
            let known = |us: Option<f64>| us.map_or("-".to_owned(), time);
            format!(
                "; p50 {}, p95 {}, longest {}",
                known(of.p50),
                known(of.p95),
                known(of.max)
            )
        });
        lines.push(format!(
            "{} steps of {calls} on {ranks}{times}.",
            whole(number)
        ));
    }
    let p50 = steps.step_us.and_then(|time| time.p50);
    if let (Some(spread), Some(p50)) = (steps.communication_us, p50) {
        let over = match time(spread.min) == time(spread.max) {
            true => String::new(),
            false => format!("; {} over ranks", times(spread.min, spread.max)),
        };
        lines.push(format!(
            "Of a step, {} ({}) is in NCCL kernels on the median rank{over}.",
            time(spread.median),
            percent(spread.median / p50),
        ));
    }
    if let (Some(startup), Some(between)) = (steps.startup_us, steps.between_us) {
        let between = match between.max {
            us if us < 1.0 => "no gaps between steps".to_owned(),
            us => format!("{} between other steps", time(us)),
        };
        lines.push(format!(
            "Start-up before step 1: {}; {between}.",
            time(startup.max)
        ));
    }
    lines
}

/// Writes them.
pub(crate) fn steps(report: &Report, page: &mut Page) {
    let lines = lines(report);
    if lines.is_empty() {
        return;
    }
    page.title("Steps (calls that repeat, from the first after their longest pause)");
    lines.iter().for_each(|line| page.line(line));
}
