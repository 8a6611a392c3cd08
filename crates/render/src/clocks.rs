//! How the hosts' clocks stand to each other, as text.

use crate::layout::ROWS;
use crate::layout::{Page, Table};
use analyze::clocks::{Clocks, HostClock, Note};
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// Clocks with the words of their notes, as JSON has them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Clocks")]
pub(crate) struct Row<'a> {
    #[serde(flatten)]
    clocks: &'a Clocks,
    /// What is unusual about them, a sentence or two each.
    notes: Vec<String>,
}

impl Row<'_> {
    pub(crate) fn of(clocks: &Clocks) -> Row<'_> {
        let notes = notes(clocks);
        Row { clocks, notes }
    }
}

/// What is unusual about clocks, a sentence or two each.
pub fn notes(clocks: &Clocks) -> Vec<String> {
    let note = |of: &Note| note(of, &clocks.reference);
    clocks.notes.iter().map(note).collect()
}

fn note(of: &Note, reference: &str) -> String {
    match of {
        Note::Contradicted {
            host,
            offset_us,
            error_us,
            against,
            windows,
        } => format!(
            "The offset given for {host}, {offset_us:.1} ± {error_us:.1} µs against {reference}, contradicts \
             the operations of {against} of {windows} windows: it is not believed in these."
        ),
        Note::Unbounded(hosts) => {
            let named = match &hosts[..] {
                [first, second, third, rest @ ..] if !rest.is_empty() => {
                    format!("{first}, {second}, {third} and {} more", rest.len())
                }
                all => all.join(", "),
            };
            format!(
                "Of {named} nothing bounds the offset: that needs GPU times by CUDA events, or stamps of \
                 RING, of an AllReduce, AllGather, ReduceScatter or AlltoAll on both hosts. Host times \
                 enclose no kernel."
            )
        }
        Note::NoSuchHost(host) => {
            format!("An offset was given for {host}, which is no host of this job.")
        }
    }
}

/// What the figures are of, and what is to be said about them.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let Some(clocks) = &report.clocks else {
        return Vec::new();
    };
    let mut lines = notes(clocks);
    if !clocks.steps.is_empty() {
        lines.push(format!(
            "{} times no offset fits all operations: see Findings.",
            clocks.steps.len()
        ));
    }
    lines
}

/// What offsets and bounds are against, and when they hold.
pub(crate) fn about(clocks: &Clocks) -> String {
    format!(
        "µs against {}; bounds hold within {} s, if clocks run apart by {} ppm at most",
        clocks.reference, clocks.window_s, clocks.frequency_error_ppm
    )
}

/// All hosts in one sentence.
fn in_brief(clocks: &Clocks) -> String {
    let half = |row: &HostClock| row.low_us.zip(row.high_us).map(|(l, h)| (h - l) / 2.0);
    let halves: Vec<f64> = clocks.hosts.iter().filter_map(half).collect();
    match halves.iter().copied().reduce(f64::max) {
        Some(most) => format!(
            "Clocks of the hosts: how far they are from that of {} is bounded to ± {most:.1} µs or better, \
            for {} of {} hosts (--all)",
            clocks.reference,
            halves.len(),
            clocks.hosts.len()
        ),
        None => "Clocks of the hosts: nothing bounds how far they are apart (--all says why)".to_owned(),
    }
}

/// Writes them, a row for each host but the one that the others are compared with.
pub(crate) fn clocks(report: &Report, page: &mut Page) {
    let Some(clocks) = &report.clocks else {
        return;
    };
    if !page.all && clocks.hosts.len() > ROWS {
        page.gap();
        return page.wrap("", "  ", &in_brief(clocks));
    }
    page.title(&format!("Clocks of the hosts ({})", about(clocks)));
    for line in lines(report) {
        page.line(&line);
    }
    if clocks.hosts.iter().all(|row| row.source.is_none()) {
        return;
    }
    let names = [
        "host",
        "offset",
        "low",
        "high",
        "from",
        "operations",
        "windows",
        "drift_ppm_low",
        "drift_ppm_high",
    ];
    let mut table = Table::new(names, "<>>><>>>>");
    table.squeeze = &[
        "drift_ppm_low",
        "drift_ppm_high",
        "windows",
        "operations",
        "from",
    ];
    for row in &clocks.hosts {
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let error = row
            .given_error_us
            .map_or(String::new(), |error| format!(" ± {error:.1}"));
        table.row([
            row.host.clone(),
            figure(row.offset_us),
            figure(row.low_us),
            figure(row.high_us),
            format!("{}{error}", row.source.unwrap_or("-")),
            row.operations.to_string(),
            row.windows.to_string(),
            figure(row.drift_low_ppm),
            figure(row.drift_high_ppm),
        ]);
    }
    page.table(&table, ROWS, "hosts");
}
