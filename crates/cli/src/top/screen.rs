//! The screen: the verdict, a row for each rank, what is in flight.
//!
//! [`draw`] draws a [`State`] into a buffer; [`text`] is the same without colours. Names come out of files,
//! so all of them are made printable.
//!
//! Rule: no colour carries a meaning alone, and 80 x 24 is enough. If rows do not fit, the worst ones are
//! shown and the rest is summed up in one line.

mod views;

use super::state::{State, View};
use analyze::spelling::{percent, plural, three, time};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use render::top::{Now, Part, RankNow, Share};
use tables::printable;
use views::{in_flight, slowest};

/// How bars and curves are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Glyphs {
    /// By [`Part`].
    parts: [char; 4],
    /// From low to high.
    levels: &'static [char],
    rule: char,
    cut: char,
    /// Of the arrows to the sides, and of Enter.
    keys: (&'static str, &'static str),
}

impl Glyphs {
    /// Of most terminals.
    pub const UNICODE: Glyphs = Glyphs {
        parts: ['╌', '▒', '░', '?'],
        levels: &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        rule: '─',
        cut: '…',
        keys: ("← →", "↵"),
    };

    /// Without UTF-8.
    pub const ASCII: Glyphs = Glyphs {
        parts: ['-', '=', 'w', '?'],
        levels: &['_', '.', ':', '-', '=', '+', '*', '#'],
        rule: '-',
        cut: '~',
        keys: ("arrows", "Enter"),
    };

    /// As the locale allows. Without any, as in a cron job, UTF-8 is assumed.
    pub fn of_locale() -> Glyphs {
        let named = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        match named.map(|name| name.to_ascii_lowercase()) {
            Some(name) if !name.contains("utf-8") && !name.contains("utf8") => Glyphs::ASCII,
            _ => Glyphs::UNICODE,
        }
    }
}

const PARTS: [Part; 4] = [
    Part::WorkOrHost,
    Part::Transfer,
    Part::Waiting,
    Part::Unknown,
];

fn colour(part: Part) -> Color {
    match part {
        Part::WorkOrHost => Color::Blue,
        Part::Transfer => Color::Cyan,
        Part::Waiting => Color::Red,
        Part::Unknown => Color::Reset,
    }
}

/// The screen as text.
pub fn text(state: &State, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(state, area, &mut buffer);
    let mut text = String::new();
    for y in 0..height {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        let line: String = cells.collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let end = text.trim_end().len();
    text.truncate(end);
    text.push('\n');
    text
}

/// Draws it.
pub fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let mut page = Page {
        state,
        width: usize::from(area.width),
        lines: Vec::new(),
    };
    let height = usize::from(area.height);
    match state.shown() {
        None => page.waiting(),
        Some(now) => {
            page.head(now);
            page.rule();
            let body = match state.view {
                View::Help => Page::help,
                View::Links => Page::links,
                View::Hang => Page::in_flight,
                View::Nodes => Page::nodes,
                View::Details => Page::details,
                View::Ranks | View::Copy => Page::ranks,
            };
            body(&mut page, now, height);
        }
    }
    let keys = page.keys();
    let room = height.saturating_sub(keys.len());
    page.lines.truncate(room);
    let lines = page.lines;
    buffer.set_style(area, Style::reset());
    for (y, line) in lines.into_iter().enumerate() {
        let row = Rect::new(area.x, area.y + y as u16, area.width, 1);
        line.render(row, buffer);
    }
    for (y, line) in keys.into_iter().enumerate() {
        let row = Rect::new(area.x, area.y + (room + y) as u16, area.width, 1);
        if row.bottom() <= area.bottom() {
            line.render(row, buffer);
        }
    }
}

/// Lines of the screen.
struct Page<'a> {
    state: &'a State,
    width: usize,
    lines: Vec<Line<'static>>,
}

/// A text as wide as a column: cut at its end, and printable.
fn cut(text: &str, width: usize, mark: char) -> String {
    let text = printable(text);
    if text.chars().count() <= width {
        return text.into_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(std::iter::once(mark)).collect()
}

/// The same, cut at its beginning: hosts differ at their ends.
fn tail(text: &str, width: usize, mark: char) -> String {
    let text = printable(text);
    let length = text.chars().count();
    if length <= width {
        return text.into_owned();
    }
    let kept = text.chars().skip(length - width.saturating_sub(1));
    std::iter::once(mark).chain(kept).collect()
}

fn seconds(s: f64) -> String {
    time(s * 1e6)
}

impl Page<'_> {
    fn style(&self, style: Style) -> Style {
        if self.state.colour {
            style
        } else {
            Style::default()
        }
    }

    fn plain(&mut self, text: &str) {
        let text = cut(text, self.width, self.state.glyphs.cut);
        self.lines.push(Line::raw(text));
    }

    /// A text in as many lines as it takes.
    fn paragraph(&mut self, text: &str) {
        let lines = wrapped(text, self.width, usize::MAX, self.state.glyphs.cut);
        self.lines.extend(lines.into_iter().map(Line::raw));
    }

    fn dim(&mut self, text: &str) {
        let text = cut(text, self.width, self.state.glyphs.cut);
        let style = self.style(Style::new().add_modifier(Modifier::DIM));
        self.lines.push(Line::styled(text, style));
    }

    fn rule(&mut self) {
        let line: String = std::iter::repeat_n(self.state.glyphs.rule, self.width).collect();
        self.dim(&line);
    }

    /// Two texts at the ends of a line.
    fn ends(&mut self, left: &str, right: &str) {
        let right = cut(right, self.width / 2, self.state.glyphs.cut);
        let room = self.width.saturating_sub(right.chars().count() + 1);
        let left = cut(left, room, self.state.glyphs.cut);
        let style = self.style(Style::new().add_modifier(Modifier::BOLD));
        self.lines
            .push(Line::styled(format!("{left:<room$} {right}"), style));
    }

    fn waiting(&mut self) {
        self.ends("ncclscope top", "waiting");
        let text = format!("Nothing was recorded in {} yet.", self.state.folder);
        self.plain(&text);
        self.plain("A trace file appears with the first communicator of a process.");
    }

    fn head(&mut self, now: &Now) {
        let mut left = format!(
            "{} · {}, {}",
            now.job.as_deref().unwrap_or("job"),
            plural(now.processes, "process", "processes"),
            plural(now.nodes, "node", "nodes"),
        );
        if let Some(step) = now.step_us {
            left += &format!(" · step {}", time(step));
        }
        if let Some(rate) = now.steps_per_s.filter(|rate| *rate > 0.0) {
            left += &format!(" · {} steps/s", three(rate));
        }
        let at = now.at_clock.clone().unwrap_or_default();
        let right = match (self.state.paused, now.state) {
            (Some(_), _) => format!("paused {at}"),
            (None, "silent") => format!("silent since {at}"),
            (None, state) => format!("{state} {at}"),
        };
        self.ends(&left, right.trim_end());
        // The verdict goes on while the rest is paused.
        let newest = self.state.looks.back().unwrap_or(now);
        let bold = match newest.verdict {
            "even" => Style::new().fg(Color::Green),
            "unknown" => Style::new().fg(Color::Yellow),
            _ => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        };
        let style = self.style(bold);
        let mut lines = wrapped(
            &printable(&newest.sentence),
            self.width,
            3,
            self.state.glyphs.cut,
        );
        if lines.len() < 2 {
            lines.extend(
                newest
                    .remark
                    .as_deref()
                    .map(|text| cut(text, self.width, self.state.glyphs.cut)),
            );
        }
        for line in lines {
            self.lines.push(Line::styled(line, style));
        }
    }

    fn span(now: &Now) -> String {
        now.span_s
            .map_or("last calls".to_owned(), |s| format!("last {} s", three(s)))
    }

    fn ranks(&mut self, now: &Now, height: usize) {
        let wide = self.width >= 120;
        let host = if self.width >= 100 { 14 } else { 8 };
        let curve = if wide { 20 } else { 9 };
        // rank 4, wait 5, for 4, costs 8, W 5, and a space before each column but the first.
        let others = 4 + 1 + host + 1 + 1 + 4 + 4 + 8 + 1 + curve + 5 + if wide { 22 } else { 0 };
        let bar = self.width.saturating_sub(others).max(10);
        let head = format!(
            "{:>4} {:<host$} {:<bar$} {:>4}{:>4}{:>8} {:<curve$}{:>5}{}",
            "rank",
            "host:gpu",
            cut(&Self::span(now), bar, self.state.glyphs.cut),
            "wait",
            "for",
            "costs",
            cut("history", curve, self.state.glyphs.cut),
            "W",
            if wide {
                format!("{:>8}{:>6} {:<7}", "call", "MHz", "state")
            } else {
                String::new()
            },
        );
        self.plain(&head);
        let rows = self.state.rows(now);
        let below = self.foot(now);
        let taken = self.lines.len() + below.len() + self.keys().len() + 1;
        let room = height.saturating_sub(taken).max(3);
        let marked = self.state.marked;
        // The first ones, and those around the one that is marked.
        let (from, shown) = if rows.len() <= room {
            (0, rows.len())
        } else {
            let shown = room.saturating_sub(1);
            (marked.saturating_sub(shown.saturating_sub(1)), shown)
        };
        for (index, row) in rows.iter().enumerate().skip(from).take(shown) {
            let mut line = self.rank(row, host, bar, curve, wide);
            if index == marked && marked > 0 {
                line = line.style(Style::new().add_modifier(Modifier::REVERSED));
            }
            self.lines.push(line);
        }
        if rows.len() > shown {
            let left: Vec<&&RankNow> = rows
                .iter()
                .enumerate()
                .filter(|(index, _)| *index < from || *index >= from + shown)
                .map(|(_, row)| row)
                .collect();
            let text = rest(&left);
            self.dim(&text);
        }
        if rows.is_empty() {
            self.plain(&format!(
                "no rank has `{}` in its number, host or state",
                self.state.filter
            ));
        }
        self.legend();
        self.rule();
        self.lines.extend(below);
    }

    fn rank(
        &self,
        row: &RankNow,
        host: usize,
        bar: usize,
        curve: usize,
        wide: bool,
    ) -> Line<'static> {
        let mark = self.state.glyphs.cut;
        let number = row
            .process
            .rank
            .map_or("-".to_owned(), |rank| rank.to_string());
        let device = row
            .device
            .map_or(String::new(), |device| format!(":{device}"));
        let name = format!(
            "{}{device}",
            tail(&row.process.host, host - device.len(), mark)
        );
        let mut spans = vec![Span::raw(format!(
            "{:>4} {name:<host$} ",
            cut(&number, 4, mark)
        ))];
        spans.extend(self.bar(&row.parts, bar));
        let wait = row
            .wait_share
            .map_or("?".to_owned(), |share| format!("{:.0}%", 100.0 * share));
        let of = match (row.waits_for, row.wait_share) {
            (Some(rank), _) => rank.to_string(),
            (None, Some(share)) if share >= 0.01 => "mix".to_owned(),
            _ => "-".to_owned(),
        };
        let costs = match (row.cost_step_us, row.state) {
            (Some(us), _) => time(us),
            (None, "died" | "stopped" | "missing") => row.state.to_owned(),
            (None, _) => "-".to_owned(),
        };
        let history = self.curve(&self.state.history(row, curve), Some(1.0));
        let power = row.power_w.map_or("-".to_owned(), |w| format!("{w:.0}"));
        let mut text = format!(
            " {wait:>4}{:>4}{costs:>8} {history}{power:>5}",
            cut(&of, 3, mark)
        );
        if wide {
            let call = row.call.map_or("-".to_owned(), |call| call.to_string());
            let mhz = row.sm_mhz.map_or("-".to_owned(), |mhz| format!("{mhz:.0}"));
            text += &format!("{call:>8}{mhz:>6} {:<7}", row.state);
        }
        let bad = matches!(row.state, "late" | "died" | "missing" | "stopped");
        let style = if bad {
            self.style(Style::new().add_modifier(Modifier::BOLD))
        } else {
            Style::default()
        };
        spans.push(Span::styled(text, style));
        Line::from(spans)
    }

    /// A bar of the parts. Cells are shared out by largest remainder, so that it is exactly as wide.
    fn bar(&self, parts: &[Share], width: usize) -> Vec<Span<'static>> {
        if parts.is_empty() {
            return vec![Span::raw(" ".repeat(width))];
        }
        let exact: Vec<f64> = parts.iter().map(|of| of.share * width as f64).collect();
        let mut cells: Vec<usize> = exact.iter().map(|cells| *cells as usize).collect();
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
        let left = width.saturating_sub(cells.iter().sum());
        for index in order.into_iter().cycle().take(left) {
            cells[index] += 1;
        }
        let span = |(of, cells): (&Share, usize)| {
            let place = PARTS.iter().position(|part| *part == of.part).unwrap_or(3);
            let text: String = std::iter::repeat_n(self.state.glyphs.parts[place], cells).collect();
            Span::styled(text, self.style(Style::new().fg(colour(of.part))))
        };
        parts.iter().zip(cells).map(span).collect()
    }

    /// A curve: full is `most`, or the largest value.
    fn curve(&self, values: &[Option<f64>], most: Option<f64>) -> String {
        let levels = self.state.glyphs.levels;
        let largest = values.iter().flatten().fold(0.0, |a: f64, b| a.max(*b));
        let most = most.unwrap_or(largest);
        let cell = |value: &Option<f64>| match value {
            Some(value) if most > 0.0 => {
                let level = (value / most * levels.len() as f64) as usize;
                levels[level.min(levels.len() - 1)]
            }
            Some(_) => levels[0],
            None => ' ',
        };
        values.iter().map(cell).collect()
    }

    fn legend(&mut self) {
        let [work, transfer, waiting, unknown] = self.state.glyphs.parts;
        let text = format!(
            "{work} work or host {transfer} transfer {waiting} waiting {unknown} not known"
        );
        self.dim(&text);
    }

    /// The lines below the rows.
    fn foot(&self, now: &Now) -> Vec<Line<'static>> {
        let mut page = Page {
            state: self.state,
            width: self.width,
            lines: Vec::new(),
        };
        page.plain(&in_flight(now));
        if let Some(link) = now.links.first() {
            page.plain(&format!("link      {}", slowest(link)));
        }
        let power = now.power_w.map(|w| {
            if w >= 1000.0 {
                format!("{} kW", three(w / 1e3))
            } else {
                format!("{} W", three(w))
            }
        });
        page.plain(&format!(
            "power     {}",
            power.unwrap_or("not sampled".to_owned())
        ));
        let steps = self.state.steps(30);
        if steps.iter().flatten().count() > 1 {
            page.plain(&format!("step time {}", self.curve(&steps, None)));
        }
        let lost: u64 = now.lost.values().sum();
        let mut text = format!("lost {lost} of {}", plural(now.announced, "call", "calls"));
        if let Some(share) = now.recording_share {
            text += &format!(" · recording costs {}", percent(share.max(0.0)));
        }
        if let Some(share) = now.view_share {
            text += &format!(" · this view {} of a CPU", percent(share));
        }
        if let Some((cause, n)) = now
            .lost
            .iter()
            .max_by_key(|(_, n)| **n)
            .filter(|_| lost > 0)
        {
            text += &format!(" · most: {n} {cause}");
        }
        page.plain(&text);
        page.lines
    }

    fn keys(&self) -> Vec<Line<'static>> {
        if !self.state.keys {
            return Vec::new();
        }
        let text = if self.state.typing {
            format!("filter: {}_", self.state.filter)
        } else if let Some(message) = &self.state.message {
            message.clone()
        } else {
            let filter = match self.state.filter.as_str() {
                "" => "/ filter".to_owned(),
                text => format!("/ {text}"),
            };
            let (back, enter) = self.state.glyphs.keys;
            format!(
                "q quit  s sort ({})  {filter}  space pause  {back} back  {enter} details  ? help",
                self.state.sort.name()
            )
        };
        let text = cut(&text, self.width, self.state.glyphs.cut);
        vec![Line::styled(
            text,
            self.style(Style::new().add_modifier(Modifier::DIM)),
        )]
    }
}

/// Rows that do not fit, in one line.
fn rest(rows: &[&&RankNow]) -> String {
    let waits: Vec<f64> = rows.iter().filter_map(|row| row.wait_share).collect();
    let range = waits
        .iter()
        .copied()
        .reduce(f64::min)
        .zip(waits.iter().copied().reduce(f64::max));
    let more = plural(rows.len() as u64, "more rank", "more ranks");
    match range {
        Some((low, high)) => {
            format!(
                "     {more}, waiting {:.0} to {:.0}%",
                100.0 * low,
                100.0 * high
            )
        }
        None => format!("     {more}"),
    }
}

fn word(part: Part) -> &'static str {
    match part {
        Part::WorkOrHost => "work or host",
        Part::Transfer => "transfer",
        Part::Waiting => "waiting",
        Part::Unknown => "not known",
    }
}

/// A text in lines, the last of them cut if there would be more.
fn wrapped(text: &str, width: usize, most: usize, mark: char) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(last) = lines.last_mut() else { break };
        let length = last.chars().count() + 1 + word.chars().count();
        if last.is_empty() || length <= width {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    if lines.len() > most {
        let left = lines.split_off(most);
        if let Some(last) = lines.last_mut() {
            last.push(' ');
            last.push_str(&left.join(" "));
        }
    }
    lines.iter().map(|line| cut(line, width, mark)).collect()
}
