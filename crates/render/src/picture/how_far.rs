//! The picture of a job that died or hung: how far each rank came, in calls of one communicator.
//!
//! Rule: calls take the place of time, because no step ended in which time could be lost. All ranks have one
//! axis. It is broken if the calls after the one that is missing would be too small to see, and shows that.

use super::{cut, plural, width, Face, Picture};
use super::{title, whereabouts, Canvas, Frame, LEAST_PITCH, MOST_BARS};
use crate::escape::escaped;
use analyze::findings::Kind;
use analyze::how_far::{Does, HowFar, Reached};
use analyze::rank_time::Part;
use analyze::spelling::{ranges, time};
use analyze::Report;
use std::fmt::Write as _;

/// The part of the axis that calls after the missing one take at least.
const LEAST_AFTER: f64 = 0.3;
/// Where the axis ends if it is broken: behind it is room for words.
const END: f64 = 0.96;
/// The height of its title and its axis.
pub(super) const AROUND: f64 = 45.0 + 34.0;

/// Ranks that share a line: one, or those that did the same.
struct Line<'a> {
    ranks: Vec<&'a Reached>,
    does: Does,
    /// The fewest and the most calls of one of them; `None` if that is not known.
    calls: Option<(u64, u64)>,
}

/// Which calls are where.
struct Axis {
    f: Frame,
    /// Calls before the missing one, and the most calls of a rank.
    before: u64,
    most: u64,
}

impl Axis {
    /// The part of its length at which the missing call is, and whether the axis is broken before it.
    fn split(&self) -> (f64, bool) {
        let after = (self.most - self.before) as f64 / self.most.max(1) as f64;
        if after >= LEAST_AFTER {
            (END * (1.0 - after), false)
        } else {
            (END * (1.0 - LEAST_AFTER), true)
        }
    }

    /// Where so many calls end.
    fn at(&self, calls: u64) -> f64 {
        let (split, _) = self.split();
        let part = match calls.checked_sub(self.before).filter(|after| *after > 0) {
            Some(after) => {
                let whole = (self.most - self.before).max(1);
                split + (END - split) * after as f64 / whole as f64
            }
            None => split * calls as f64 / self.before.max(1) as f64,
        };
        self.f.bars + self.f.long() * part
    }
}

/// How far the ranks came, if that is what the first finding is about.
pub(crate) fn of(report: &Report) -> Option<&HowFar> {
    let first = report.findings.first()?;
    let is_broken = matches!(first.kind(), Kind::DeadRank | Kind::Standstill);
    report.how_far.as_ref().filter(|_| is_broken)
}

/// For how long ranks waited.
pub(super) fn waited(of: &HowFar) -> String {
    format!(
        "Ranks waited in call {} for {}, until the recording ended.",
        of.call,
        time(of.lasted.us())
    )
}

/// What is beside the figures of the picture.
pub(super) fn source(of: &HowFar) -> String {
    let absent = match of.absent {
        Some(n) if n > 0 => format!(
            " {} of the communicator {} not recorded.",
            plural(u64::from(n), "rank", "ranks"),
            if n == 1 { "was" } else { "were" }
        ),
        _ => String::new(),
    };
    format!(
        "Calls: collectives of communicator {}.{absent}",
        of.communicator
    )
}

/// The same in words, line by line.
pub(super) fn said(of: &HowFar) -> String {
    let said = lines(of, MOST_BARS)
        .iter()
        .map(|line| format!("{}: {}.", whole_name(line), tip(line, of)))
        .collect::<Vec<_>>();
    said.join(" ")
}

/// How many lines there are, of at most so many.
pub(super) fn count(of: &HowFar, most: usize) -> usize {
    lines(of, most).len()
}

/// Who is on each line, and where.
pub(super) fn names(of: &HowFar, f: Frame) -> Vec<(String, String)> {
    let lines = lines(of, MOST_BARS);
    lines.iter().map(|line| name(line, f)).collect()
}

impl Picture<'_> {
    /// Draws how far each rank came; where that ends.
    pub(super) fn how_far(
        &self,
        to: &mut Canvas,
        f: Frame,
        of: &HowFar,
        y: f64,
        (most, pitch): (usize, f64),
    ) -> f64 {
        let mut y = y + 32.0;
        let what = "How far each rank came";
        to.text(f.left, y, 16.0, what, Face::Bold, to.c.text);
        let on = match &of.name {
            Some(name) => format!("in calls of {name} ({})", of.communicator),
            None => format!("in calls of communicator {}", of.communicator),
        };
        let by = width(what, 16.0, Face::Bold) + 12.0;
        let (x, room) = if f.is_narrow() {
            y += 18.0;
            (f.left, f.long())
        } else {
            (f.left + by, f.right - f.left - by)
        };
        let on = cut(&on, 13.0, Face::Plain, room);
        to.text(x, y, 13.0, &on, Face::Plain, to.c.soft);
        y += 13.0;
        let lines = lines(of, most);
        let calls = lines.iter().filter_map(|line| line.calls);
        let axis = Axis {
            f,
            before: of.call.saturating_sub(1),
            most: calls.map(|(_, most)| most).max().unwrap_or(0).max(of.call),
        };
        let high = pitch - if pitch > 30.0 { 8.0 } else { 4.0 };
        for (place, line) in lines.iter().enumerate() {
            let (name, rest) = name(line, f);
            if f.is_narrow() {
                y += 15.0;
                to.name(f.left, y, 14.0, &name, &rest, f.long());
                y += 5.0;
            } else {
                let size = if high > 24.0 { 16.0 } else { 13.0 };
                let middle = y + high / 2.0 + 0.36 * size;
                to.name(f.left, middle, size, &name, &rest, f.bars - f.left - 8.0);
            }
            draw(to, &axis, of, line, (y, high), place == 0);
            y += pitch;
        }
        axis_below(to, &axis, y);
        y + 30.0
    }
}

/// The bar of a line, and what its ranks did then.
fn draw(
    to: &mut Canvas,
    axis: &Axis,
    of: &HowFar,
    line: &Line,
    (y, high): (f64, f64),
    first: bool,
) {
    let f = axis.f;
    let size = if high > 24.0 { 14.0 } else { 12.0 };
    let middle = y + high / 2.0 + 0.36 * size;
    let tip = format!("{}: {}", whole_name(line), tip(line, of));
    let block = |to: &mut Canvas, from: f64, until: f64, fill: &str| {
        let _ = writeln!(
            to.svg,
            "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{high:.1}\" fill=\"{fill}\">\
             <title>{}</title></rect>",
            (until - from).max(0.5),
            escaped(&tip)
        );
    };
    let texts = does(line, of);
    let says = |room: f64| {
        let mut fit = texts.iter();
        fit.find(|text| width(text, size, Face::Bold) <= room)
    };
    block(to, f.bars, f.right, to.c.track);
    let Some((least, most)) = line.calls else {
        let fill = to.fill(Part::Unknown, to.c.unknown);
        block(to, f.bars, f.right, &fill);
        let ink = to.c.on_unknown;
        if let Some(text) = says(f.long() - 12.0) {
            to.on(Part::Unknown, f.bars + 6.0, middle, size, text, ink);
        }
        return;
    };
    let end = axis.at(least.min(axis.before));
    if least > 0 && axis.before > 0 {
        block(to, f.bars, end, to.c.computing);
        let text = match axis.before {
            1 => "call 1".to_owned(),
            n => format!("calls 1 to {n}"),
        };
        if first && width(&text, size, Face::Bold) + 12.0 <= end - f.bars {
            to.text(f.bars + 6.0, middle, size, &text, Face::Bold, to.c.ink);
        }
    }
    marks(to, axis, y, high);
    if line.does != Does::Waits {
        let (mut x, is_culprit) = (end + 8.0, line.does != Does::LacksToo);
        if matches!(line.does, Does::Died | Does::Left) {
            let long = 0.36 * high;
            let top = y + (high - long) / 2.0;
            let _ = writeln!(
                to.svg,
                "<path d=\"M{x:.1} {top:.1}l{long:.1} {long:.1}m0 -{long:.1}l-{long:.1} {long:.1}\" \
                 fill=\"none\" stroke=\"{}\" stroke-width=\"3\"/>",
                to.c.bad
            );
            x += long + 8.0;
        }
        let ink = if is_culprit { to.c.bad } else { to.c.text };
        if let Some(text) = says(f.right - x) {
            to.text(x, middle, size, text, Face::Bold, ink);
        }
        return;
    }
    let from = end + 1.0;
    let until = axis.at(most).max(from + 3.0);
    block(to, from, until, to.c.waiting);
    let inside = says(until - from - 12.0).filter(|text| **text == texts[0]);
    let behind = says(f.right - until - 12.0).filter(|text| **text == texts[0]);
    match (inside, behind, says(until - from - 12.0)) {
        (None, Some(text), _) => {
            to.text(until + 6.0, middle, size, text, Face::Bold, to.c.text);
        }
        (Some(text), ..) | (None, None, Some(text)) => {
            to.text(from + 6.0, middle, size, text, Face::Bold, to.c.ink);
        }
        (None, None, None) => {}
    }
}

/// Marks on a bar: where the missing call is, and that the axis is broken.
fn marks(to: &mut Canvas, axis: &Axis, y: f64, high: f64) {
    let f = axis.f;
    let (_, is_broken) = axis.split();
    let missing = axis.at(axis.before);
    if is_broken {
        let x = (f.bars + missing) / 2.0 - 3.0;
        let _ = writeln!(
            to.svg,
            "<path d=\"M{x:.1} {:.1}l6 -{high:.1}\" stroke=\"{}\" stroke-width=\"4\" fill=\"none\">\
             <title>The axis is broken here</title></path>",
            y + high,
            to.c.track
        );
    }
    let _ = writeln!(
        to.svg,
        "<path d=\"M{missing:.1} {:.1}v{:.1}\" stroke=\"{}\" stroke-width=\"1.5\" fill=\"none\"/>",
        y - 3.0,
        high + 6.0,
        to.c.text
    );
}

/// The axis below the bars, and its figures.
fn axis_below(to: &mut Canvas, axis: &Axis, y: f64) {
    let f = axis.f;
    let (missing, end) = (axis.at(axis.before), axis.at(axis.most));
    let line = to.c.line;
    let _ = writeln!(
        to.svg,
        "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"{line}\" fill=\"none\"/>",
        f.bars, f.right
    );
    let calls = |n: u64| plural(n, "call", "calls");
    let last = calls(axis.most);
    let by = |text: &str| width(text, 13.0, Face::Plain);
    let last_at = (end - by(&last) / 2.0).min(f.right - by(&last));
    let at = missing - by(&axis.before.to_string()) / 2.0;
    let mut ticks = vec![(end, last_at, last.clone())];
    if axis.before > 0 {
        let text = axis.before.to_string();
        if at + by(&text) + 8.0 < last_at {
            ticks.push((missing, at.max(f.bars), text));
        }
        if f.bars + 16.0 < at {
            ticks.push((f.bars, f.bars, "0".to_owned()));
        }
    }
    for (tick, x, text) in ticks {
        let _ = writeln!(
            to.svg,
            "<path d=\"M{tick:.1} {y:.1}v4\" stroke=\"{line}\" fill=\"none\"/>"
        );
        to.text(x, y + 19.0, 13.0, &text, Face::Plain, to.c.soft);
    }
}

/// What the ranks of a line did then, the longest way of saying it first.
fn does(line: &Line, of: &HowFar) -> Vec<String> {
    let call = of.call;
    let (lacks, has, waits) = match line.ranks.len() {
        1 => ("lacks", "has", "waits"),
        _ => ("lack", "have", "wait"),
    };
    let waited = time(of.lasted.us());
    match line.does {
        Does::Died => vec![format!("died: no call {call}"), "died".to_owned()],
        Does::Left => vec![format!("left: no call {call}"), "left".to_owned()],
        Does::Lacks => vec![
            format!("{has} not made call {call} for {waited}"),
            format!("no call {call} for {waited}"),
            format!("no call {call}"),
            "missing".to_owned(),
        ],
        Does::LacksToo => vec![
            format!("{lacks} call {call}, too"),
            format!("{lacks} it, too"),
        ],
        Does::Waits => vec![format!("{waits} in call {call}"), waits.to_owned()],
        Does::Unknown => vec!["calls are missing: not known".to_owned(), "?".to_owned()],
    }
}

/// The same with the calls that they made.
fn tip(line: &Line, of: &HowFar) -> String {
    let does = does(line, of).swap_remove(0);
    match line.calls {
        None => does,
        Some((least, most)) if least == most => {
            format!("{does}; {} made", plural(most, "call", "calls"))
        }
        Some((least, most)) => format!("{does}; {least} to {most} calls made"),
    }
}

/// Who is on a line, and where, as it fits before a bar.
fn name(line: &Line, f: Frame) -> (String, String) {
    let whole = whole_name(line);
    match &line.ranks[..] {
        [one] => (whole, whereabouts(&one.id)),
        all => {
            let count = plural(all.len() as u64, "rank", "ranks");
            let room = if f.is_narrow() {
                f.long()
            } else {
                f.bars - f.left
            };
            let fits = width(&whole, 16.0, Face::Bold) + 13.0 <= room;
            (if fits { whole } else { count }, String::new())
        }
    }
}

fn whole_name(line: &Line) -> String {
    match &line.ranks[..] {
        [one] => title(&one.id),
        all => {
            let numbers = all.iter().filter_map(|of| of.id.process.rank);
            if all.iter().all(|of| of.id.process.rank.is_some()) {
                format!("ranks {}", ranges(numbers))
            } else {
                format!("pids {}", ranges(all.iter().map(|of| of.id.process.pid)))
            }
        }
    }
}

/// Whether a rank shares a line.
type Joins = fn(&Line, &Reached) -> bool;

/// The lines: a rank each. If these are too many, those that did the same and made as many calls share one,
/// and if these are still too many, all that did the same.
fn lines(of: &HowFar, most: usize) -> Vec<Line<'_>> {
    let all = of.ranks.iter();
    let same: Joins = |a, b| a.does == b.does;
    let alike: Joins = |a, b| a.does == b.does && a.calls == b.calls.map(|n| (n, n));
    let none: Joins = |_, _| false;
    let mut lines: Vec<Line> = Vec::new();
    for joins in [none, alike, same] {
        lines.clear();
        for rank in all.clone() {
            let calls = rank.calls.map(|n| (n, n));
            match lines.iter_mut().find(|line| joins(line, rank)) {
                Some(line) => {
                    line.ranks.push(rank);
                    line.calls = line
                        .calls
                        .zip(calls)
                        .map(|(of, n)| (of.0.min(n.0), of.1.max(n.1)));
                }
                None => lines.push(Line {
                    ranks: vec![rank],
                    does: rank.does,
                    calls,
                }),
            }
        }
        if lines.len() <= most {
            break;
        }
    }
    if lines.len() < of.ranks.len() {
        // Who is missing stands first.
        lines.sort_by_key(|line| (line.does, line.calls));
    }
    lines
}

/// The height of a line, if so much room is for so many.
pub(super) fn pitch(room: f64, lines: usize) -> f64 {
    (room / lines.max(1) as f64).clamp(LEAST_PITCH, super::PITCH)
}
