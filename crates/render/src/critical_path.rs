//! The critical path of a step, as text.

use crate::layout::{short_ids, Page, Table, Unit};
use analyze::critical_path::On;
use analyze::spelling::three;
use analyze::Report;

/// Why work ended when it did.
pub(crate) fn why(word: &str) -> &'static str {
    match word {
        "launch" => "launched then",
        _ => "GPU was busy",
    }
}

/// Writes one line below the section on steps: what a step's time consists of. With `--all`, writes a section
/// with each part, and the segments of one step.
pub(crate) fn critical_path(report: &Report, page: &mut Page) {
    let Some(path) = &report.critical_path else {
        return;
    };
    if !page.all {
        // Below the lines on steps: there are some, if there is a path.
        page.line(&path.line());
        return;
    }
    let short = short_ids(report);
    let communicator = |on: &On| {
        let id = on.communicator.as_deref();
        let id = id.filter(|_| report.communicators.len() > 1);
        id.map_or("-".to_owned(), |id| short[id].clone())
    };
    let rank = |on: &On| on.rank.map_or("-".to_owned(), |rank| rank.to_string());
    let why = |on: &On| on.why.map_or("-", why).to_owned();
    let steps = path.steps as f64;
    let unit = Unit::of(path.rows.iter().map(|row| row.sum_us / steps));
    page.title(&format!(
        "Critical path of a step (largest part first, time per step in {})",
        unit.name
    ));
    path.lines().iter().for_each(|line| page.line(line));
    let mut table = Table::new(
        ["segment", "comm", "why", "rank", "time", "%", "segments"],
        "<<<>>>>",
    );
    table.squeeze = &["comm", "why"];
    for row in &path.rows {
        table.row([
            row.on.what.clone(),
            communicator(&row.on),
            why(&row.on),
            rank(&row.on),
            unit.show(Some(row.sum_us / steps)),
            three(100.0 * row.share),
            three(row.count as f64 / steps),
        ]);
    }
    page.table(&table, usize::MAX, "segments");
    let step = &path.step;
    let unit = Unit::of(std::iter::once(step.time_us));
    page.line(&format!(
        "Step {}, the one of median time ({} {}), in order:",
        step.number,
        unit.show(Some(step.time_us)),
        unit.name
    ));
    let mut table = Table::new(["at", "time", "rank", "segment", "comm", "why"], ">>><<<");
    table.squeeze = &["comm", "why"];
    for segment in &step.segments {
        table.row([
            unit.show(Some(segment.at_us)),
            unit.show(Some(segment.time_us)),
            rank(&segment.on),
            segment.on.what.clone(),
            communicator(&segment.on),
            why(&segment.on),
        ]);
    }
    page.table(&table, usize::MAX, "segments");
    if step.beyond > 0 {
        page.line(&format!("… {} segments more", step.beyond));
    }
}
