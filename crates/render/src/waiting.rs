//! Waiting and findings, as text.

use crate::layout::{short_ids, wrap, Table};
use analyze::Report;
use std::io::{Result, Write};

/// Ranks of which it is said that their lateness was another's.
const INHERITED: usize = 3;

/// What was waiting and what was transfer; ranks that are late where other work hides it, and those late because of others: a few, or
/// `all`.
pub(crate) fn lines(report: &Report, all: bool) -> Vec<String> {
    let Some(arrivals) = &report.arrivals else {
        return Vec::new();
    };
    let wait = arrivals.wait_rank_us;
    let ranks_in: f64 = arrivals.ranks.iter().map(|r| r.operations as f64).sum();
    let each = ranks_in / (arrivals.operations as f64).max(1.0);
    let time = wait + arrivals.transfer_wall_us * each;
    let percent = if time > 0.0 { 100.0 * wait / time } else { 0.0 };
    let mut lines = vec![format!(
        "{percent:.0} % of the GPU time in {} matched operations was waiting: {:.3} rank-ms; transfer took {:.3} ms of the wall.",
        arrivals.operations,
        wait / 1e3,
        arrivals.transfer_wall_us / 1e3
    )];
    lines.extend(arrivals.sampled.as_ref().map(|all| {
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        let interval = match all.wait_interval_us {
            Some((low, high)) => format!("95 % interval {} to {}", ms(low), ms(high)),
            None => "too few for an interval".to_owned(),
        };
        format!(
            "These are {:.2} % of {} operations, a sample: of all, about {} rank-ms was waiting ({interval}).",
            100.0 * all.share,
            all.operations,
            ms(all.wait_rank_us)
        )
    }));
    lines.extend(arrivals.over_network.as_ref().map(|network| {
        format!(
            "Of {:.3} ms of transfer in {} operations over the network, data was in the network's hands for {:.3} ms, at the rank where it was \
             longest in each.",
            network.transfer_wall_us / 1e3,
            network.operations,
            network.held_wall_us / 1e3
        )
    }));
    let wall_us = report.ranks.wall_us.map(|wall| wall.max);
    lines.extend(analyze::findings::hidden(arrivals, wall_us));
    let inherited = analyze::arrivals::inherited(arrivals);
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

/// Writes them; and where a rank is to blame, or `all` is asked for, by rank.
pub(crate) fn waiting(
    report: &Report,
    ranks: usize,
    all: bool,
    out: &mut impl Write,
) -> Result<()> {
    let Some(arrivals) = &report.arrivals else {
        return Ok(());
    };
    writeln!(out)?;
    writeln!(out, "Waiting for the last rank ({})", arrivals.basis)?;
    for line in lines(report, all) {
        wrap(out, "  ", "    ", &line)?;
    }
    let blamed = report.findings.iter().any(|f| f.kind == "late_rank");
    if !blamed && !all {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(
        out,
        "Arrivals by rank (largest saving first; wall: ms of the wall, rank: ms summed over ranks; the run loses loses_wall)"
    )?;
    // On one host there is nothing to prove.
    let proved = report.clocks.is_some();
    let names = [
        "rank",
        "host",
        "operations",
        "last",
        "last_proved",
        "saves_wall",
        "loses_wall",
        "cost_rank",
        "inherited_rank",
        "waited_rank",
        "late_launch_wall",
        "busy_gpu_wall",
    ];
    let shown = |name: &&str| proved || *name != "last_proved";
    let align = if proved {
        "><>>>>>>>>>>"
    } else {
        "><>>>>>>>>>"
    };
    let mut table = Table::new(names.into_iter().filter(shown), align);
    for row in &arrivals.ranks {
        let rank = match (row.rank, row.device) {
            (Some(rank), None) => rank.to_string(),
            (Some(rank), Some(device)) => format!("{rank}/{device}"),
            (None, _) => format!("pid:{}", row.pid),
        };
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        let cells = [
            rank,
            row.host.clone(),
            row.operations.to_string(),
            row.last.to_string(),
            row.last_proved.map_or("-".to_owned(), |n| n.to_string()),
            ms(row.saving_wall_us),
            row.loss_wall_us.map_or("-".to_owned(), ms),
            ms(row.cost_rank_us),
            ms(row.inherited_rank_us),
            ms(row.wait_rank_us),
            ms(row.launched_late_us),
            ms(row.gpu_busy_us),
        ];
        let cells = names.into_iter().zip(cells);
        table.row(cells.filter(|(name, _)| shown(name)).map(|(_, cell)| cell));
    }
    table.write(out, ranks, "ranks")
}

/// Writes, where a link is to blame or `all` is asked for, what ranks have on the network.
pub(crate) fn links(report: &Report, ranks: usize, all: bool, out: &mut impl Write) -> Result<()> {
    let links = report.arrivals.as_ref().map_or(&[][..], |a| &a.links);
    let blamed = report.findings.iter().any(|f| f.kind == "slow_network");
    if links.is_empty() || !blamed && !all {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(
        out,
        "Links (largest excess over the median of the others first; ms of the wall, in the network's hands)"
    )?;
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
    let ids = short_ids(report);
    for link in links {
        let none = || "-".to_owned();
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        let communicator = link.communicator.as_deref();
        table.row([
            link.rank
                .map_or(format!("pid:{}", link.pid), |rank| rank.to_string()),
            link.host.clone(),
            communicator
                .and_then(|id| ids.get(id).cloned())
                .unwrap_or_else(none),
            link.state.map_or_else(none, str::to_owned),
            link.peer.map_or_else(none, |peer| peer.to_string()),
            link.peer_host.clone().unwrap_or_else(none),
            link.operations.to_string(),
            ms(link.transfer_wall_us),
            ms(link.held_wall_us),
            ms(link.others_wall_us),
            ms(link.excess_wall_us),
            link.loss_wall_us.map_or_else(none, ms),
        ]);
    }
    table.write(out, ranks, "links")
}

/// Writes the findings, each with its evidence and advice.
pub(crate) fn findings(report: &Report, shown: usize, out: &mut impl Write) -> Result<()> {
    if report.findings.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "Findings (largest wall time first)")?;
    for finding in report.findings.iter().take(shown) {
        wrap(out, "  ", "  ", &finding.sentence)?;
        wrap(
            out,
            "    ",
            "    ",
            &format!("Evidence: {}.", finding.evidence),
        )?;
        wrap(out, "    ", "    ", &finding.advice)?;
    }
    if report.findings.len() > shown {
        writeln!(out, "  {} more: --all", report.findings.len() - shown)?;
    }
    Ok(())
}
