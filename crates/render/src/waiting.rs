//! Waiting and links, as text.

use crate::findings::BASIS;
use crate::layout::ROWS;
use crate::layout::{plural, short_ids, Page, Table, Unit};
use analyze::arrivals::Arrivals;
use analyze::spelling::{percent, time, times};
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// Who waited and who was waited for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Arrivals")]
pub(crate) struct Row<'a> {
    /// What the waits rest on.
    basis: &'static str,
    #[serde(flatten)]
    arrivals: &'a Arrivals,
}

impl Row<'_> {
    pub(crate) fn of(arrivals: &Arrivals) -> Row<'_> {
        Row {
            basis: BASIS,
            arrivals,
        }
    }
}

/// Ranks of which it is said that their lateness was another's.
const INHERITED: usize = 3;

/// What was waiting and what was transfer; ranks that are late where other work hides it, and those late
/// because of others: a few, or `all`.
pub(crate) fn lines(report: &Report, all: bool) -> Vec<String> {
    let Some(arrivals) = &report.arrivals else {
        return Vec::new();
    };
    let share = arrivals.wait_share();
    let mut lines = vec![format!(
        "{} of the GPU time in {} was waiting for late ranks: {}, summed over ranks. The transfers took {}.",
        percent(share.unwrap_or(0.0)),
        plural(arrivals.operations, "operation", "operations"),
        time(arrivals.wait_rank_us),
        time(arrivals.transfer_wall_us)
    )];
    lines.extend(arrivals.sampled.as_ref().map(|of| {
        let interval = match of.wait_interval_us {
            Some((low, high)) => format!("95 % interval {}", times(low, high)),
            None => "too few for an interval".to_owned(),
        };
        format!(
            "These are {} of {} operations, a sample: of all, about {} was waiting ({interval}).",
            percent(of.share),
            of.operations,
            time(of.wait_rank_us)
        )
    }));
    let part = arrivals
        .part_of(&report.operations)
        .filter(|part| *part < 0.5);
    lines.extend(part.map(|part| {
        format!(
            "They are {} of the time in NCCL: how much of the rest was waiting is not known from them.",
            percent(part)
        )
    }));
    lines.extend(arrivals.over_network.as_ref().map(|network| {
        match (network.held_wall_us, network.transfer_wall_us) {
            (held, transfer) if held >= 0.995 * transfer => format!(
                "The network was busy during all {} of transfer in {} operations.",
                time(transfer),
                network.operations
            ),
            (held, transfer) => format!(
                "The network was busy for {} of the {} of transfer in {} operations.",
                time(held),
                time(transfer),
                network.operations
            ),
        }
    }));
    lines.extend(crate::findings::hidden(report));
    let inherited = crate::findings::inherited(arrivals);
    let shown = if all { inherited.len() } else { INHERITED };
    let more = inherited.len().saturating_sub(shown);
    lines.extend(inherited.into_iter().take(shown));
    if more > 0 {
        lines.push(format!(
            "So were {more} more ranks (inherited_from with --json)."
        ));
    }
    lines
}

/// Writes them; and all that is known of arrivals by rank, if all is asked for.
pub(crate) fn waiting(report: &Report, page: &mut Page) {
    let Some(arrivals) = &report.arrivals else {
        return;
    };
    page.title("Waiting");
    for line in lines(report, page.all) {
        page.line(&line);
    }
    if !page.all {
        return;
    }
    // On one host there is nothing to prove.
    let names = [
        "rank",
        "host",
        "operations",
        "last",
        "last_proved",
        "saves_wall",
        "cost_rank",
        "inherited_rank",
        "waited_rank",
        "late_launch_wall",
        "busy_gpu_wall",
    ];
    let mut table = Table::new(names, "><>>>>>>>>>");
    table.squeeze = &[
        "host",
        "operations",
        "inherited_rank",
        "cost_rank",
        "last_proved",
        "busy_gpu_wall",
        "saves_wall",
        "waited_rank",
    ];
    if report.clocks.is_none() {
        table.hidden = &["last_proved"];
    }
    let most = |row: &analyze::arrivals::RankArrivals| row.saving_wall_us.max(row.cost_rank_us);
    let unit = Unit::of(arrivals.ranks.iter().map(most));
    for row in &arrivals.ranks {
        let rank = match (row.process.rank, row.device) {
            (Some(rank), None) => rank.to_string(),
            (Some(rank), Some(device)) => format!("{rank}/{device}"),
            (None, _) => format!("pid:{}", tables::pid::shown(row.process.pid)),
        };
        let shown = |us: f64| unit.show(Some(us));
        table.row([
            rank,
            row.process.host.clone(),
            row.operations.to_string(),
            row.last.to_string(),
            row.last_proved.map_or("-".to_owned(), |n| n.to_string()),
            shown(row.saving_wall_us),
            shown(row.cost_rank_us),
            shown(row.inherited_rank_us),
            shown(row.wait_rank_us),
            unit.show(row.launched_late_us),
            unit.show(row.gpu_busy_us),
        ]);
    }
    page.title(&format!(
        "Arrivals by rank (largest saving first, in {}; wall: of the run, rank: summed over ranks; {})",
        unit.name, BASIS
    ));
    page.table(&table, ROWS, "ranks");
}

/// Writes, where a link is to blame or all is asked for, what ranks have on the network.
pub(crate) fn links(report: &Report, page: &mut Page) {
    let links = report.arrivals.as_ref().map_or(&[][..], |a| &a.links);
    let blamed = report
        .findings
        .iter()
        .any(|f| f.kind() == analyze::findings::Kind::SlowNetwork);
    if links.is_empty() || !blamed && !page.all {
        return;
    }
    let names = [
        "rank",
        "host",
        "comm",
        "state",
        "peer",
        "peer_host",
        "operations",
        "transfer",
        "held",
        "others",
        "excess",
        "loses_wall",
    ];
    let mut table = Table::new(names, "><<<><>>>>>>");
    table.squeeze = &[
        "comm",
        "host",
        "peer_host",
        "operations",
        "transfer",
        "state",
    ];
    let ids = short_ids(report);
    let most = links
        .iter()
        .map(|link| link.held_wall_us.max(link.transfer_wall_us));
    let unit = Unit::of(most);
    for link in links {
        let none = || "-".to_owned();
        let shown = |us: f64| unit.show(Some(us));
        let communicator = link.communicator.as_deref();
        table.row([
            link.process.rank.map_or(
                format!("pid:{}", tables::pid::shown(link.process.pid)),
                |rank| rank.to_string(),
            ),
            link.process.host.clone(),
            communicator
                .and_then(|id| ids.get(id).cloned())
                .unwrap_or_else(none),
            link.state.map_or_else(none, str::to_owned),
            link.peer.map_or_else(none, |peer| peer.to_string()),
            link.peer_host.clone().unwrap_or_else(none),
            link.operations.to_string(),
            shown(link.transfer_wall_us),
            shown(link.held_wall_us),
            shown(link.others_wall_us),
            shown(link.excess_wall_us),
            unit.show(link.loss_wall_us),
        ]);
    }
    page.title(&format!(
        "Links (largest excess over the median of the others first; {} of the run, in the network's hands)",
        unit.name
    ));
    page.table(&table, ROWS, "links");
}
