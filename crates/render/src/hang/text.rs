//! The answer as text: the verdict first, then what it rests on.
//!
//! [`page`] prints the sentences of an [`Answer`], and its rows as tables. One has the network operations of
//! the call that does not end. The other says how far the ranks of each communicator got. Ranks that stand at
//! the same calls share a line.
//!
//! Rule: the tables show what JSON has, and what is left out is counted.

use super::answer::{Answer, Call, Communicator, NetOp, Rank};
use crate::layout::{Look, Page, Style, Table};
use analyze::spelling::ranges;
use analyze::spelling::{size, three};
use std::collections::BTreeMap;

/// Lines of ranks that are printed for a communicator, and communicators, unless all are asked for.
const LINES: usize = 8;
const COMMUNICATORS: usize = 6;

/// The page of an answer; `all` leaves no rank out.
pub(super) fn page(answer: &Answer, all: bool, look: Look) -> Page {
    let mut page = Page::new(look, all);
    let style = match answer.hang {
        Some(true) => Style::Bad,
        Some(false) => Style::Good,
        None => Style::Open,
    };
    match &answer.by {
        Some(tool) => page.styled(style, &format!("By {tool}: {}", answer.sentence)),
        None => page.styled(style, &answer.sentence),
    };
    for detail in &answer.details {
        page.line(detail);
    }
    net_ops(&answer.net_ops, &mut page);
    // Where somebody waits comes first, then by first use.
    let waits = |c: &Communicator| {
        let here = |id: &Option<String>| id.as_ref() == Some(&c.communicator);
        answer
            .waits
            .iter()
            .any(|wait| here(&wait.call.communicator))
            || answer
                .call
                .as_ref()
                .is_some_and(|call| here(&call.communicator))
    };
    let mut order: Vec<&Communicator> = answer.communicators.iter().collect();
    order.sort_by_key(|c| (c.over, !waits(c)));
    let shown = if all { order.len() } else { COMMUNICATORS };
    for communicator in order.iter().take(shown) {
        state(communicator, &mut page);
    }
    if order.len() > shown {
        page.gap();
        page.wrap(
            "",
            "",
            &format!("{} more communicators: --all", order.len() - shown),
        );
    }
    if !answer.evidence.is_empty() {
        page.title("What each one says");
    }
    for said in &answer.evidence {
        let who = said.tool.as_deref().unwrap_or("the capture");
        page.line(&format!("{who} ({}): {}", said.file, said.sentence));
    }
    if !answer.problems.is_empty() {
        page.title("Problems");
        let shown = if all { usize::MAX } else { 4 };
        for p in answer.problems.iter().take(shown) {
            page.line(&crate::problems::line(p));
        }
    }
    page.gap();
    page.next(&answer.next);
    page
}

fn state(of: &Communicator, page: &mut Page) {
    let mut title = format!("Communicator {}", of.communicator);
    if let Some(name) = &of.name {
        title += &format!(" ({name})");
    }
    if let Some(nranks) = of.nranks {
        title += &format!(", {nranks} ranks");
    }
    if of.over {
        title += ", destroyed by all";
    }
    match &of.absent {
        Some(absent) if !absent.is_empty() => title += &format!("; not in the capture: {absent}"),
        None => title += "; some are not in the capture",
        _ => {}
    }
    title += " (last call of each rank, and how far it came, as call numbers; seconds)";
    page.title(&title);
    let names = [
        "ranks",
        "state",
        "last_call",
        "entered_ago",
        "entered",
        "enqueued",
        "launched",
        "started",
        "finished",
        "seen_ago",
    ];
    let mut table = Table::new(names, "<<<>>>>>>>");
    table.squeeze = &["seen_ago", "enqueued", "launched"];
    for group in groups(&of.ranks) {
        let (first, rest) = (group[0], &group[1..]);
        let newest = |pick: fn(&Rank) -> Option<f64>| {
            let all = std::iter::once(&first).chain(rest);
            let oldest = all.filter_map(|rank| pick(rank)).reduce(f64::max);
            oldest.map_or("-".to_owned(), age)
        };
        let ranks: Option<Vec<u32>> = group.iter().map(|r| r.number).collect();
        table.row([
            ranks.map_or(format!("pid:{}", tables::pid::shown(first.pid)), ranges),
            first.state.to_owned(),
            first.entered.as_ref().map_or("-".to_owned(), name),
            newest(|r| r.entered.as_ref()?.age_s),
            number(&first.entered),
            number(&first.enqueued),
            number(&first.launched),
            number(&first.started),
            number(&first.finished),
            newest(|r| r.evidence_age_s),
        ]);
    }
    page.whole_table(&table, LINES, "lines of ranks");
    callers(&of.ranks, page);
    inside(&of.ranks, page);
}

/// Which ranks are inside of which function of MPI or NCCL, and for how long at most.
fn inside(ranks: &[Rank], page: &mut Page) {
    let mut by_function: BTreeMap<&str, (Vec<&Rank>, f64)> = BTreeMap::new();
    for rank in ranks {
        let calls = [
            (&rank.in_mpi, rank.in_mpi_s),
            (&rank.in_nccl, rank.in_nccl_s),
        ];
        for (function, s) in calls
            .into_iter()
            .filter_map(|(function, s)| Some((function.as_ref()?, s?)))
        {
            let (of, longest) = by_function.entry(function).or_default();
            of.push(rank);
            *longest = longest.max(s);
        }
    }
    for (function, (of, longest)) in by_function {
        let at_most = if of.len() > 1 { "up to " } else { "" };
        let text = format!(
            "Inside of {function}: {}, for {at_most}{} s",
            who(&of),
            age(longest)
        );
        page.wrap("  ", "    ", &text);
    }
}

/// `rank 3`, `ranks 0-2`, `pid 71`.
fn who(of: &[&Rank]) -> String {
    let numbers: Option<Vec<u32>> = of.iter().map(|rank| rank.number).collect();
    numbers.map_or(
        format!("pid {}", tables::pid::shown(of[0].pid)),
        |numbers| {
            let name = if numbers.len() == 1 { "rank" } else { "ranks" };
            format!("{name} {}", ranges(numbers))
        },
    )
}

/// Seconds. What a process does now is a little old when it is read, so that is not told in digits.
fn age(s: f64) -> String {
    if s < 0.1 {
        "<0.1".to_owned()
    } else {
        three(s)
    }
}

/// In which line of the program each rank made its last call, if stacks are recorded.
fn callers(ranks: &[Rank], page: &mut Page) {
    let mut by_line: Vec<(&str, Vec<&Rank>)> = Vec::new();
    for rank in ranks {
        let entered = rank.entered.as_ref();
        let Some(caller) = entered.and_then(|call| call.caller.as_deref()) else {
            continue;
        };
        match by_line.iter_mut().find(|(line, _)| *line == caller) {
            Some((_, of)) => of.push(rank),
            None => by_line.push((caller, vec![rank])),
        }
    }
    let shown = if page.all { by_line.len() } else { LINES };
    for (line, of) in by_line.iter().take(shown) {
        let text = format!("Last call of {}: {line}", who(of));
        page.wrap("  ", "    ", &text);
    }
    if by_line.len() > shown {
        let more = by_line.len() - shown;
        page.line(&format!("  {more} more lines of the program: --all"));
    }
}

/// The open network operations of the call that does not end.
fn net_ops(rows: &[NetOp], page: &mut Page) {
    if rows.is_empty() {
        return;
    }
    let title =
        "Network operations of the call that are not over (those first that wait for no other; seconds)";
    page.title(title);
    let names = [
        "rank",
        "direction",
        "peer",
        "channel",
        "state",
        "for",
        "steps_done",
        "steps",
        "cause",
    ];
    let mut table = Table::new(names, "><>><>>><");
    table.squeeze = &["steps", "steps_done", "cause"];
    for row in rows {
        let number = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
        table.row([
            number(row.number),
            row.direction.to_owned(),
            number(row.peer_number),
            row.channel.to_string(),
            row.state.unwrap_or("-").to_owned(),
            row.for_s.map_or("-".to_owned(), age),
            row.steps_done.to_string(),
            row.steps.to_string(),
            row.cause.unwrap_or("-").to_owned(),
        ]);
    }
    page.whole_table(&table, LINES, "net_ops");
}

/// Ranks that stand at the same calls in the same state, by first of them.
fn groups(ranks: &[Rank]) -> Vec<Vec<&Rank>> {
    let same = |a: &Rank, b: &Rank| {
        let calls = |r: &Rank| {
            [
                &r.entered,
                &r.enqueued,
                &r.launched,
                &r.started,
                &r.finished,
            ]
            .map(|call| {
                call.as_ref()
                    .map(|c| (number_of(c), c.function.clone(), c.bytes))
            })
        };
        a.state == b.state && calls(a) == calls(b)
    };
    let mut groups: Vec<Vec<&Rank>> = Vec::new();
    for rank in ranks {
        match groups.iter_mut().find(|group| same(group[0], rank)) {
            Some(group) => group.push(rank),
            None => groups.push(vec![rank]),
        }
    }
    groups
}

fn name(call: &Call) -> String {
    let function = call.function.as_deref().unwrap_or("unknown");
    let bytes = call
        .bytes
        .map_or(String::new(), |b| format!(" {}", size(b)));
    format!("{function}{bytes}")
}

fn number_of(call: &Call) -> Option<u64> {
    call.number.or(call.seq)
}

fn number(call: &Option<Call>) -> String {
    match call {
        None => "-".to_owned(),
        Some(call) => match number_of(call) {
            Some(number) if call.replay => format!("r{number}"),
            Some(number) => number.to_string(),
            None => "yes".to_owned(),
        },
    }
}
