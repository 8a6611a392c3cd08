//! The steps of the job, as text.

use crate::layout::wrap;
use analyze::ranks::Spread;
use analyze::Report;
use std::io::{Result, Write};

/// How many steps, how long, and what of them was communication.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let Some(steps) = &report.steps else {
        return Vec::new();
    };
    let (mut lines, mut parts) = (Vec::new(), Vec::new());
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
        let time = steps.step_us.map_or(String::new(), |time| {
            let ms = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{:.3}", us / 1e3));
            format!(
                "; step time {} ms (p50), {} ms (p95), {} ms (longest)",
                ms(time.p50),
                ms(time.p95),
                ms(time.max)
            )
        });
        lines.push(format!(
            "{} steps of {calls} on {ranks}{time}.",
            whole(number)
        ));
    }
    let p50 = steps.step_us.and_then(|time| time.p50);
    if let (Some(spread), Some(p50)) = (steps.communication_us, p50) {
        parts.push(format!(
            "{:.3} ms of a step in NCCL kernels ({:.0} % of it), median rank ({:.3} to {:.3} ms)",
            spread.median / 1e3,
            100.0 * spread.median / p50,
            spread.min / 1e3,
            spread.max / 1e3,
        ));
    }
    if let (Some(startup), Some(between)) = (steps.startup_us, steps.between_us) {
        parts.push(format!(
            "{:.3} s before the first, {:.3} s between others, at most",
            startup.max / 1e6,
            between.max / 1e6,
        ));
    }
    if !parts.is_empty() {
        lines.push(parts.join("; ") + ".");
    }
    lines
}

/// Writes them.
pub(crate) fn steps(report: &Report, out: &mut impl Write) -> Result<()> {
    let lines = lines(report);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(
        out,
        "Steps (calls that repeat, from the first after their longest pause)"
    )?;
    lines
        .iter()
        .try_for_each(|line| wrap(out, "  ", "    ", line))
}
