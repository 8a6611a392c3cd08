//! The table of efficiency: bandwidths as shares of ceilings.

use crate::layout::figure;
use crate::layout::{short_ids, Page, Table};
use analyze::efficiency::{CeilingSource, EfficiencyRow, Named, ShareOfCeiling};
use analyze::spelling::{datatype, size, three, Sizes};
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// An operation's efficiency.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Efficiency")]
pub(crate) struct Row<'a> {
    #[serde(flatten)]
    row: &'a EfficiencyRow,
    /// The ceilings that are known, the one that says most first.
    ceilings: Vec<ShareRow>,
    /// Of the operation: what a tool that sees host calls only does not see of its GPU time.
    blind_share: Option<f64>,
}

impl Row<'_> {
    pub(crate) fn of(row: &EfficiencyRow) -> Row<'_> {
        Row {
            row,
            ceilings: row.ceilings.iter().map(ShareRow::of).collect(),
            blind_share: row.blind_share,
        }
    }
}

/// A ceiling, and how much of it was reached.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ShareOfCeiling")]
pub(crate) struct ShareRow {
    /// Where the ceiling comes from.
    source: CeilingSource,
    /// The same for people: the option, the file, or the operation.
    named: String,
    /// The ceiling, GB/s.
    ceiling_gb_per_s: f64,
    /// `busbw_gb_per_s` of the operation by the ceiling.
    share: f64,
}

impl ShareRow {
    pub(crate) fn of(of: &ShareOfCeiling) -> ShareRow {
        ShareRow {
            source: of.source,
            named: named(&of.named),
            ceiling_gb_per_s: of.ceiling_gb_per_s,
            share: of.share,
        }
    }
}

/// What a ceiling is: the option, the file, or the operation.
pub(crate) fn named(of: &Named) -> String {
    match of {
        Named::Given(given) => given.clone(),
        Named::Bench {
            file,
            function,
            bytes,
        } => format!("{file}: {function} of {}", size(*bytes)),
        Named::Graph { algorithm, .. } => format!("{}: NCCL's {algorithm} graph", file(of)),
        Named::Links {
            file: Some(file),
            links,
        } => format!("{file}: {links}"),
        Named::Links { file: None, links } => format!("a GPU's links: {links}"),
        Named::NcclEstimate => "NCCL's own estimate".to_owned(),
        Named::BestHere { function, bytes } => {
            format!("{function} of {} in this capture", size(*bytes))
        }
    }
}

/// The file that has it.
pub(crate) fn file(of: &Named) -> &str {
    match of {
        Named::Given(file) | Named::Bench { file, .. } => file,
        Named::Graph { file, .. } | Named::Links { file, .. } => {
            file.as_deref().unwrap_or("this capture")
        }
        Named::NcclEstimate | Named::BestHere { .. } => "this capture",
    }
}

/// Rows that are printed without `--all`.
const ROWS: usize = 5;

fn share(row: &EfficiencyRow, source: CeilingSource) -> Option<f64> {
    let of = row.ceilings.iter().find(|c| c.source == source)?;
    Some(100.0 * of.share)
}

/// What the columns of ceilings hold the bandwidths against.
fn ceilings(report: &Report) -> String {
    let mut all_named = Vec::new();
    for source in CeilingSource::ALL {
        let mut all = report.efficiency.iter().flat_map(|row| &row.ceilings);
        let Some(first) = all.find(|c| c.source == source) else {
            continue;
        };
        all_named.push(match source {
            CeilingSource::Given => format!("given_%: of {}", named(&first.named)),
            CeilingSource::Link => format!("link_%: of {}", named(&first.named)),
            CeilingSource::NcclGraph => {
                let file = file(&first.named);
                format!("graph_%: of what NCCL expects of its graph in {file}")
            }
            CeilingSource::NcclEstimate => {
                "nccl_%: of what NCCL itself estimates for the call".to_owned()
            }
            CeilingSource::Bench => {
                let file = file(&first.named);
                format!("bench_%: of the same call in {file}")
            }
            CeilingSource::BestHere => {
                "best_%: of the best size of the function in this capture".to_owned()
            }
        });
    }
    all_named.join("; ")
}

/// Writes the table if a ceiling was given, or all is asked for.
pub(crate) fn efficiency(report: &Report, page: &mut Page) {
    let rows = &report.efficiency;
    let given = rows.iter().any(|row| row.from_outside().is_some());
    if rows.is_empty() || !given && !page.all {
        return;
    }
    let short = short_ids(report);
    let names = [
        "function",
        "size",
        "type",
        "comm",
        "algorithm",
        "calls",
        "busbw",
        "given_%",
        "link_%",
        "graph_%",
        "nccl_%",
        "bench_%",
        "best_%",
        "blind_%",
    ];
    let mut table = Table::new(names, "<><<<>>>>>>>>>");
    table.squeeze = &[
        "type",
        "comm",
        "calls",
        "algorithm",
        "link_%",
        "graph_%",
        "nccl_%",
        "blind_%",
    ];
    let mut sorted: Vec<&EfficiencyRow> = rows.iter().collect();
    // What moved most bytes says most about the links.
    sorted.sort_by_key(|row| std::cmp::Reverse(row.bytes.saturating_mul(row.calls)));
    let sizes = Sizes::of(rows.iter().map(|row| row.bytes));
    for row in sorted {
        let id = row.communicator.as_deref();
        let id = id.filter(|_| report.communicators.len() > 1);
        let cell = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
        let algorithm = match (&row.algorithm, &row.protocol) {
            (None, None) => "-".to_owned(),
            (algorithm, protocol) => format!("{}/{}", cell(algorithm), cell(protocol)),
        };
        table.row([
            row.function.clone(),
            sizes.spell(row.bytes),
            row.datatype.as_deref().map_or("-".to_owned(), datatype),
            id.map_or("-".to_owned(), |id| short[id].clone()),
            algorithm,
            row.calls.to_string(),
            three(row.busbw_gb_per_s),
            figure(share(row, CeilingSource::Given)),
            figure(share(row, CeilingSource::Link)),
            figure(share(row, CeilingSource::NcclGraph)),
            figure(share(row, CeilingSource::NcclEstimate)),
            figure(share(row, CeilingSource::Bench)),
            figure(share(row, CeilingSource::BestHere)),
            figure(row.blind_share.map(|share| 100.0 * share)),
        ]);
    }
    page.title(&format!(
        "Efficiency (most bytes first, busbw in GB/s; {})",
        ceilings(report)
    ));
    page.table(&table, ROWS, "operations");
}
