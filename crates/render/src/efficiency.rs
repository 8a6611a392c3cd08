//! The table of efficiency: bandwidths as shares of ceilings.

use crate::layout::figure;
use crate::layout::{short_ids, Page, Table};
use analyze::efficiency::{CeilingSource, EfficiencyRow};
use analyze::spelling::{datatype, three, Sizes};
use analyze::Report;

/// Rows that are printed without `--all`.
const ROWS: usize = 5;

fn share(row: &EfficiencyRow, source: CeilingSource) -> Option<f64> {
    let of = row.ceilings.iter().find(|c| c.source == source)?;
    Some(100.0 * of.share)
}

/// What the columns of ceilings hold the bandwidths against.
fn ceilings(report: &Report) -> String {
    let mut named = Vec::new();
    for source in CeilingSource::ALL {
        let mut all = report.efficiency.iter().flat_map(|row| &row.ceilings);
        let Some(first) = all.find(|c| c.source == source) else {
            continue;
        };
        named.push(match source {
            CeilingSource::Given => format!("given_%: of {}", first.named),
            CeilingSource::Link => format!("link_%: of {}", first.named),
            CeilingSource::NcclGraph => {
                let file = first.named.split_once(": ").map_or("", |(file, _)| file);
                format!("graph_%: of what NCCL expects of its graph in {file}")
            }
            CeilingSource::NcclEstimate => {
                "nccl_%: of what NCCL itself estimates for the call".to_owned()
            }
            CeilingSource::Bench => {
                let file = first.named.split_once(": ").map_or("", |(file, _)| file);
                format!("bench_%: of the same call in {file}")
            }
            CeilingSource::BestHere => {
                "best_%: of the best size of the function in this capture".to_owned()
            }
        });
    }
    named.join("; ")
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
