//! The steps of the job, as text.

use crate::layout::{plural, wrap};
use analyze::ranks::Spread;
use analyze::Report;
use std::io::{Result, Write};

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
            (n, without) => format!("{n} ranks; no pattern on {without} more"),
        };
        let each = match calls.max {
            1.0 => "1 call each".to_owned(),
            _ => format!("{} calls each", whole(calls)),
        };
        lines.push(format!(
            "{} of {each} on {ranks}.",
            plural_of(number, whole)
        ));
    }
    if let Some(time) = steps.step_us {
        let ms = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{:.3}", us / 1e3));
        lines.push(format!(
            "Step time {} ms (p50), {} ms (p95), {} ms (longest) over {} that another follows at once.",
            ms(time.p50),
            ms(time.p95),
            ms(time.max),
            plural(time.n, "step", "steps"),
        ));
        if let (Some(spread), Some(p50)) = (steps.communication_us, time.p50) {
            lines.push(format!(
                "Of a step, a GPU is in NCCL kernels for {:.3} ms ({:.0} %), waiting included (median rank; {:.3} to {:.3} ms).",
                spread.median / 1e3,
                100.0 * spread.median / p50,
                spread.min / 1e3,
                spread.max / 1e3,
            ));
        }
    }
    if let (Some(startup), Some(between)) = (steps.startup_us, steps.between_us) {
        lines.push(format!(
            "From the first call to the first step {:.3} s went by, between steps that do not follow each other {:.3} s (longest rank).",
            startup.max / 1e6,
            between.max / 1e6,
        ));
    }
    lines
}

fn plural_of(number: Spread, whole: impl Fn(Spread) -> String) -> String {
    let word = if number.max == 1.0 { "step" } else { "steps" };
    format!("{} {word}", whole(number))
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
