//! What the screen shows in place of the rows of ranks, if a key asks for it.

use super::{seconds, tail, word, Page};
use analyze::spelling::{percent, plural, size, three, time};
use render::top::{Now, RankNow};
use std::collections::BTreeMap;

impl Page<'_> {
    pub(super) fn nodes(&mut self, now: &Now, height: usize) {
        let mut nodes: BTreeMap<&str, Vec<&RankNow>> = BTreeMap::new();
        for row in &now.ranks {
            nodes
                .entry(row.process.host.as_str())
                .or_default()
                .push(row);
        }
        self.plain(&format!(
            "{:<24} {:>5} {:>6} {:>6} {:>8}  {}",
            "node", "ranks", "wait", "worst", "W", "states"
        ));
        let room = height.saturating_sub(self.lines.len() + 2);
        let count = nodes.len();
        for (host, rows) in nodes.into_iter().take(room) {
            let waits: Vec<f64> = rows.iter().filter_map(|row| row.wait_share).collect();
            let mean = (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / waits.len() as f64);
            let worst = waits.iter().copied().reduce(f64::max);
            let share = |share: Option<f64>| {
                share.map_or("?".to_owned(), |share| format!("{:.0}%", 100.0 * share))
            };
            let power = rows
                .iter()
                .filter_map(|row| row.power_w)
                .reduce(|a, b| a + b);
            let mut states: BTreeMap<&str, usize> = BTreeMap::new();
            for row in &rows {
                *states.entry(row.state).or_default() += 1;
            }
            let states: Vec<String> = states
                .iter()
                .map(|(state, n)| format!("{n} {state}"))
                .collect();
            self.plain(&format!(
                "{:<24} {:>5} {:>6} {:>6} {:>8}  {}",
                tail(host, 24, self.state.glyphs.cut),
                rows.len(),
                share(mean),
                share(worst),
                power.map_or("-".to_owned(), |w| format!("{w:.0}")),
                states.join(", "),
            ));
        }
        if count > room {
            self.dim(&format!("{} more", count - room));
        }
    }

    pub(super) fn links(&mut self, now: &Now, _: usize) {
        if now.links.is_empty() {
            self.paragraph(
                "No link can be compared: the network was not recorded, or too few links are of a kind.",
            );
            return;
        }
        self.plain("Links by what they cost, largest first:");
        for link in &now.links {
            self.plain(&format!("  {}", slowest(link)));
        }
    }

    pub(super) fn in_flight(&mut self, now: &Now, _: usize) {
        self.plain(&in_flight(now));
        let rows = self.state.rows(now);
        self.plain(&format!(
            "{:>4} {:<24} {:>8} {:>12} {:<8}",
            "rank", "host", "pid", "newest call", "state"
        ));
        for row in rows {
            let number = row
                .process
                .rank
                .map_or("-".to_owned(), |rank| rank.to_string());
            let call = row.call.map_or("-".to_owned(), |call| call.to_string());
            let host = tail(&row.process.host, 24, self.state.glyphs.cut);
            self.plain(&format!(
                "{number:>4} {host:<24} {:>8} {call:>12} {:<8}",
                row.process.pid, row.state
            ));
        }
        self.plain(&format!("More: ncclscope hang {}", now.capture));
    }

    pub(super) fn details(&mut self, now: &Now, _: usize) {
        let rows = self.state.rows(now);
        let Some(row) = rows.get(self.state.marked).copied() else {
            return;
        };
        let number = row
            .process
            .rank
            .map_or("-".to_owned(), |rank| rank.to_string());
        self.plain(&format!(
            "Rank {number}, process {} on {}: {}",
            row.process.pid, row.process.host, row.state
        ));
        let parts: Vec<String> = row
            .parts
            .iter()
            .map(|of| format!("{} {}", percent(of.share), word(of.part)))
            .collect();
        if !parts.is_empty() {
            let source = match row.source {
                Some("account") => "its steps",
                _ => "its time",
            };
            self.paragraph(&format!("Of {source}: {}", parts.join(", ")));
        }
        let curve = self.curve(&self.state.history(row, 60), Some(1.0));
        self.plain(&format!("Waiting over time: {curve}"));
        let power = row
            .power_w
            .map_or("not sampled".to_owned(), |w| format!("{w:.0} W"));
        let call = row
            .call
            .map_or("not known".to_owned(), |call| call.to_string());
        self.plain(&format!(
            "Newest call: {call}. Lost calls: {}. Power: {power}.",
            row.lost
        ));
        self.plain("");
        self.plain("Operations of all ranks:");
        for of in now.operations.iter().take(10) {
            self.plain(&format!(
                "  {:<14} {:>10} {:<10} {:>9} calls/s {:>10} {:>12}",
                of.function.as_deref().unwrap_or("?"),
                of.bytes.map_or("?".to_owned(), size),
                of.datatype
                    .as_deref()
                    .map_or(String::new(), analyze::spelling::datatype),
                of.calls_per_s.map_or("?".to_owned(), three),
                of.mean_us.map_or("-".to_owned(), time),
                of.busbw_gb_per_s
                    .map_or("-".to_owned(), render::top::gb_per_s),
            ));
        }
    }

    pub(super) fn help(&mut self, _: &Now, _: usize) {
        for line in [
            "q, Esc       quit; Esc also leaves a view",
            "s, S         next and previous order of rows: price, wait, rank, power",
            "/            filter: a rank's number, or a part of a host or state; Enter, Esc",
            "space        pause and go on; the verdict and the job go on",
            "left, right  10 s back and forward; Home, End: oldest, newest",
            "up, down     mark a row; Enter: its details",
            "n            by node",
            "l            links of the network",
            "h            calls that are in flight",
            "c            copy the screen to a text file of this folder",
            "",
        ] {
            self.plain(line);
        }
        self.paragraph(
            "wait: share of the time that a rank stood still for others (?: not known). for: whom (mix: no \
             single one). costs: what the job would gain in each step. Rows keep their order for 10 s.",
        );
    }
}

/// What is in flight, in one line.
pub(super) fn in_flight(now: &Now) -> String {
    let found = &now.in_flight;
    if found.calls == 0 {
        return "in flight nothing".to_owned();
    }
    let mut text = format!("in flight {}", plural(found.calls, "call", "calls"));
    if let Some(age) = found.oldest_s {
        text += &format!(", oldest {}", seconds(age));
    }
    let Some(function) = &found.function else {
        return text;
    };
    let bytes = found
        .bytes
        .map_or(String::new(), |bytes| format!(" {}", size(bytes)));
    text += &format!(" ({function}{bytes}");
    match &found.ranks {
        Some(ranks) if ranks.parse::<u32>().is_ok() => text += &format!(", rank {ranks}"),
        Some(ranks) => text += &format!(", ranks {ranks}"),
        None => {}
    }
    text + ")"
}

/// A link, in one line.
pub(super) fn slowest(link: &render::top::LinkNow) -> String {
    let end = |rank: Option<u32>, host: &str| match rank {
        Some(rank) => format!("rank {rank} ({host})"),
        None => host.to_owned(),
    };
    let peer = match &link.peer_host {
        Some(host) => format!(" to {}", end(link.peer, host)),
        None => String::new(),
    };
    let times = link
        .of_the_median_ratio
        .map_or("not compared".to_owned(), |times| {
            format!("{} times the median", three(times))
        });
    let costs = link
        .cost_step_us
        .map_or(String::new(), |us| format!(", {} a step", time(us)));
    format!("{}{peer}: {times}{costs}", end(link.rank, &link.host))
}
