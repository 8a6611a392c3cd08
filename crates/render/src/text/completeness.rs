//! How much was recorded, and why the rest was not.

use super::LINES;
use crate::completeness::{counted, in_launches, missing, remedies};
use crate::layout::FEW_RANKS;
use crate::layout::{plural, Page};
use analyze::completeness::RankCompleteness;
use analyze::Report;
use std::collections::BTreeMap;

/// Ranks that are not complete, if those of many are not.
const FEWEST: usize = 2;

pub(super) fn completeness(report: &Report, page: &mut Page) {
    let c = &report.completeness;
    page.title("Completeness");
    let shown = if page.all { usize::MAX } else { LINES };
    let missing = missing(c);
    for sentence in missing.iter().take(shown) {
        page.line(sentence);
    }
    if missing.len() > shown {
        let more = missing.len() - shown;
        page.line(&format!(
            "… {more} more lines about ranks that lack calls (--all)"
        ));
    }
    let remedies = remedies(c);
    let remedy = |cause: &String| remedies.get(cause.as_str()).copied().unwrap_or_default();
    page.line(&counted(c));
    for (cause, n) in &c.unseen {
        page.line(&format!("{n} {cause}: {}", remedy(cause)));
    }
    if let Some(sentence) = in_launches(c) {
        page.line(&sentence);
    }
    for (cause, n) in &c.lost {
        page.line(&format!("{n} lost, {cause}: {}", remedy(cause)));
    }
    if !c.adds_up && !c.lost.contains_key("unexplained") {
        page.line(
            "More calls are recorded than were announced: the figures do not add up, please report it.",
        );
    }
    // A note says why, if it is one cause for the whole job.
    if report.no_times.is_none() || c.timed > 0 {
        let mut causes: Vec<(&String, &u64)> = c.untimed.iter().collect();
        causes.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        if page.all {
            for (cause, n) in causes {
                page.line(&format!("{n} not timed, {cause}: {}", remedy(cause)));
            }
        } else if let Some((first, _)) = causes.first() {
            let all: u64 = causes.iter().fold(0, |sum, (_, n)| sum.saturating_add(**n));
            let each: Vec<String> = causes
                .iter()
                .map(|(cause, n)| format!("{n} {cause}"))
                .collect();
            let calls = plural(all, "call has", "calls have");
            page.line(&format!(
                "{calls} no GPU time: {} (ncclscope explain {first}).",
                each.join(", ")
            ));
        }
    }
    if !c.odd.is_empty() {
        let first = c.odd.keys().next().map_or("", String::as_str);
        page.line(&format!(
            "Callbacks without effect: {} (ncclscope explain {first}).",
            counts(&c.odd)
        ));
    }
    incomplete_ranks(report, page);
    // Callbacks alone are a line too much for most.
    let cost = report.cost.as_ref();
    if let Some(cost) = cost.filter(|cost| page.all || cost.has_gpu_part()) {
        page.line(&crate::cost::sentence(cost));
    }
}

/// Ranks that are not complete, the worst first.
fn incomplete_ranks(report: &Report, page: &mut Page) {
    let mut worst: Vec<&RankCompleteness> = report.completeness.ranks.iter().collect();
    // Callbacks without effect did no harm, and their sum is there.
    worst.retain(|rank| page.all || rank.lacks());
    let not_recorded = |r: &RankCompleteness| r.announced.saturating_sub(r.recorded);
    let most = if page.all { usize::MAX } else { FEW_RANKS };
    if worst.len() > most {
        worst
            .sort_by_key(|r| std::cmp::Reverse(not_recorded(r).saturating_add(r.missing_at_least)));
    }
    let shown = if worst.len() > most {
        FEWEST
    } else {
        worst.len()
    };
    for rank in &worst[..shown] {
        let name = rank.process.rank.map_or(
            format!("pid {}", tables::pid::shown(rank.process.pid)),
            |r| format!("rank {r}"),
        );
        let mut text = format!(
            "{name} on {}: {} of {} recorded, {} timed, live part {}",
            rank.process.host, rank.recorded, rank.announced, rank.timed, rank.live
        );
        for counts_of in [&rank.lost, &rank.odd] {
            if !counts_of.is_empty() {
                text += &format!("; {}", counts(counts_of));
            }
        }
        if rank.missing_at_least > 0 {
            text += &format!("; at least {} more missing", rank.missing_at_least);
        }
        if let Some(failure) = rank.recorder {
            text += &format!("; {}", crate::completeness::failure(failure));
        }
        page.line(&text);
    }
    let mut missing: Vec<u64> = worst[shown..].iter().map(|r| not_recorded(r)).collect();
    missing.sort_unstable();
    if let [least, .., most] = missing.as_slice() {
        let median = missing[(missing.len() - 1) / 2].midpoint(missing[missing.len() / 2]);
        page.line(&format!(
            "… {} more ranks (--all), not recorded on each: min {least}, median {median}, max {most}",
            missing.len()
        ));
    }
}

pub(crate) fn counts(of: &BTreeMap<String, u64>) -> String {
    of.iter()
        .map(|(cause, n)| format!("{n} {cause}"))
        .collect::<Vec<_>>()
        .join(", ")
}
