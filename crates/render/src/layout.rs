//! Lines and tables of text, as wide as the terminal and in colour if that is wanted. Ids short enough for a
//! column.
//!
//! A [`Page`] gathers lines with their [`Style`]; [`Page::finish`] writes them. What a program or a host
//! chose is made printable there, before colour is added.
//!
//! Rule: colour adds and is never the only carrier; a table that does not fit says which columns it left out.

pub use analyze::spelling::plural;
use analyze::spelling::three;
use analyze::streams::Share;
use analyze::Report;
use std::collections::BTreeMap;
use std::io::{Result, Write};
use tables::printable;

/// Columns of a line where nobody says otherwise.
pub const WIDTH: usize = 120;
/// Columns of a line at least.
pub const LEAST_WIDTH: usize = 60;
/// A job of so many ranks has a row for each.
pub(crate) const FEW_RANKS: usize = 8;
/// Rows of a table where not all are asked for.
pub(crate) const ROWS: usize = 3;

/// Three digits of a figure, or `-`.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), three)
}

/// Units of figures in headlines.
const UNITS: [&str; 14] = [
    "%",
    "s",
    "ms",
    "µs",
    "min",
    "h",
    "B",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "MB/s",
    "GB/s",
    "GPU-hours",
];

/// Text in which no line ends between a figure and its unit: a no-break space stands there.
pub(crate) fn held(text: &str) -> String {
    let mut held = String::with_capacity(text.len());
    for word in text.split(' ') {
        let unit = word.trim_end_matches(['.', ',', ';', ':', ')', ']']);
        let follows = held.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit);
        if follows {
            held.push('\u{a0}');
        } else if !held.is_empty() {
            held.push(' ');
        }
        held.push_str(word);
    }
    held
}

/// How wide a page is, and whether it has colours.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns of a line.
    pub width: usize,
    /// Whether there are escape sequences for colours.
    pub colour: bool,
}

impl Default for Look {
    fn default() -> Look {
        Look {
            width: WIDTH,
            colour: false,
        }
    }
}

/// What a line of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A verdict, if something is wrong.
    Bad,
    /// A verdict, if nothing is.
    Good,
    /// A verdict, if that is not known.
    Open,
    /// The title of a section.
    Title,
    /// What may be typed next.
    Next,
}

impl Style {
    /// The escape sequence that begins it.
    fn begin(self) -> &'static str {
        match self {
            Style::Bad => "\x1b[1;31m",
            Style::Good => "\x1b[1;32m",
            Style::Open => "\x1b[1;33m",
            Style::Title => "\x1b[1m",
            Style::Next => "\x1b[36m",
        }
    }
}

/// A page of text under construction.
pub struct Page {
    look: Look,
    /// Whether every row and column is wanted.
    pub(crate) all: bool,
    text: Vec<u8>,
    /// Styles, by the bytes of the text that have them.
    styles: Vec<(std::ops::Range<usize>, Style)>,
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.text.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Page {
    /// An empty page.
    pub fn new(look: Look, all: bool) -> Page {
        Page {
            look: Look {
                width: look.width.max(LEAST_WIDTH),
                ..look
            },
            all,
            text: Vec::new(),
            styles: Vec::new(),
        }
    }

    /// Columns of a line.
    pub(crate) fn width(&self) -> usize {
        self.look.width
    }

    /// Writes `text` after `first`, broken between words; later lines begin with `rest`.
    pub fn wrap(&mut self, first: &str, rest: &str, text: &str) {
        let width = self.look.width;
        // Writing to memory can't fail.
        let _ = wrap_to(self, width, first, rest, text);
    }

    /// Writes a paragraph in a style.
    pub fn styled(&mut self, style: Style, text: &str) {
        let begin = self.text.len();
        self.wrap("", "", text);
        self.styles.push((begin..self.text.len(), style));
    }

    /// The command that helps next, on a line that can be copied.
    pub fn next(&mut self, command: &str) {
        let begin = self.text.len();
        self.text.extend(format!("Next: {command}\n").bytes());
        self.styles.push((begin..self.text.len(), Style::Next));
    }

    /// Begins a section: an empty line, and its title.
    pub fn title(&mut self, text: &str) {
        self.text.push(b'\n');
        let begin = self.text.len();
        self.wrap("", "  ", text);
        self.styles.push((begin..self.text.len(), Style::Title));
    }

    /// A sentence of a section.
    pub(crate) fn line(&mut self, text: &str) {
        self.wrap("  ", "    ", text);
    }

    /// A line as it is, such as one of a plot.
    pub(crate) fn plain(&mut self, text: &str) {
        self.text.extend(text.bytes().chain([b'\n']));
    }

    /// An empty line.
    pub fn gap(&mut self) {
        self.text.push(b'\n');
    }

    /// Writes the first `shown` rows of `table`, and how many more of `what` there are.
    pub(crate) fn table(&mut self, table: &Table, shown: usize, what: &str) {
        let (width, all) = (self.look.width, self.all);
        let shown = if all { usize::MAX } else { shown };
        let _ = table.write_to(self, width, all, shown, what);
    }

    /// The same, with the columns in which no row has anything: that they are empty says something.
    pub(crate) fn whole_table(&mut self, table: &Table, shown: usize, what: &str) {
        let (width, all) = (self.look.width, self.all);
        let shown = if all { usize::MAX } else { shown };
        let _ = table.write_to(self, width, true, shown, what);
    }

    /// Writes `text` after `first`, which has a style; later lines begin with `rest`.
    pub fn labelled(&mut self, style: Style, first: &str, rest: &str, text: &str) {
        let begin = self.text.len();
        self.wrap(first, rest, text);
        self.styles.push((begin..begin + first.len(), style));
    }

    /// Hands the page to `out`, with escapes in place of what a terminal obeys.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(&self, out: &mut impl Write) -> Result<()> {
        let mut at = 0;
        for line in String::from_utf8_lossy(&self.text).lines() {
            let of_this = |(range, _): &&(std::ops::Range<usize>, Style)| range.contains(&at);
            let style = self
                .styles
                .iter()
                .find(of_this)
                .filter(|_| self.look.colour);
            match style.filter(|_| !line.is_empty()) {
                Some((range, style)) => {
                    let (styled, rest) = line.split_at(line.len().min(range.end - at));
                    let (begin, styled) = (style.begin(), printable(styled));
                    writeln!(out, "{begin}{styled}\x1b[0m{}", printable(rest))?;
                }
                None => writeln!(out, "{}", printable(line))?,
            }
            at += line.len() + 1;
        }
        Ok(())
    }
}

/// At most so many characters of a text.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Says how many more there are than are shown.
///
/// # Errors
/// Those of `out`.
pub(crate) fn more(out: &mut impl Write, there: usize, shown: usize, what: &str) -> Result<()> {
    if there > shown {
        writeln!(out, "  … {} more {what} (--all)", there - shown)?;
    }
    Ok(())
}

/// Ids cut to the digits that tell them apart.
pub(crate) fn short_ids(report: &Report) -> BTreeMap<&str, String> {
    let cut = |id: &str, digits: usize| match id.split_once('#') {
        Some((hash, nth)) => format!("{}#{nth}", &hash[..digits.min(hash.len())]),
        None => id[..digits.min(id.len())].to_owned(),
    };
    let ids: Vec<&str> = report
        .communicators
        .iter()
        .map(|c| c.communicator.as_str())
        .collect();
    let fits = |digits: &usize| {
        let mut short: Vec<String> = ids.iter().map(|id| cut(id, *digits)).collect();
        short.sort_unstable();
        short.windows(2).all(|pair| pair[0] != pair[1])
    };
    let digits = [4, 8, 12].into_iter().find(fits).unwrap_or(16);
    ids.into_iter().map(|id| (id, cut(id, digits))).collect()
}

/// Writes `text` after `first`, broken between words; later lines begin with `rest`.
///
/// # Errors
/// Those of `out`.
pub fn wrap(out: &mut impl Write, first: &str, rest: &str, text: &str) -> Result<()> {
    wrap_to(out, WIDTH, first, rest, text)
}

fn wrap_to(out: &mut impl Write, width: usize, first: &str, rest: &str, text: &str) -> Result<()> {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let len = line.chars().count() + word.chars().count() + usize::from(!empty);
        if !empty && len > width {
            writeln!(out, "{line}")?;
            line = rest.to_owned();
        } else if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    writeln!(out, "{line}")
}

#[cfg(debug_assertions)]
thread_local! {
    /// Headings of all tables that this thread made, for the test that `explain` knows them.
    static HEADINGS: std::cell::RefCell<std::collections::BTreeSet<String>> =
        const { std::cell::RefCell::new(std::collections::BTreeSet::new()) };
}

/// Headings of all tables that this thread made so far.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub fn headings() -> Vec<String> {
    HEADINGS.with_borrow(|seen| seen.iter().cloned().collect())
}

/// Columns that hold names are not cut to less than this.
const LEAST_NAME: usize = 8;

/// A table with a header and columns aligned left (`<`) or right (`>`).
pub struct Table {
    align: &'static str,
    rows: Vec<Vec<String>>,
    /// Last rows, which are always shown.
    pub(crate) foot: Vec<Vec<String>>,
    /// Columns that can be left out where the table is too wide, first to last.
    pub(crate) squeeze: &'static [&'static str],
    /// Columns that this page has not.
    pub(crate) hidden: &'static [&'static str],
}

impl Table {
    /// A table with these column names; `align` has a character for each.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, align: &'static str) -> Table {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        #[cfg(debug_assertions)]
        HEADINGS.with_borrow_mut(|seen| seen.extend(names.iter().cloned()));
        Table {
            align,
            rows: vec![names],
            foot: Vec::new(),
            squeeze: &[],
            hidden: &[],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A line end in a name would break the table.
        let cells = cells.into_iter();
        self.rows
            .push(cells.map(|cell| printable(&cell).into_owned()).collect());
    }

    /// Writes the first `shown` rows, and how many more of `what` there are.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write, shown: usize, what: &str) -> Result<()> {
        self.write_to(out, WIDTH, true, shown, what)
    }

    /// The same, at most `limit` columns wide, without columns that have nothing in them unless `empty` ones
    /// are wanted.
    fn write_to(
        &self,
        out: &mut impl Write,
        limit: usize,
        empty: bool,
        shown: usize,
        what: &str,
    ) -> Result<()> {
        let shown_rows = &self.rows[..self.rows.len().min(shown.saturating_add(1))];
        let width = |column: usize| {
            let cells = shown_rows.iter().chain(&self.foot).map(|row| &row[column]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut columns: Vec<(usize, char, usize)> = self
            .align
            .chars()
            .enumerate()
            .map(|(column, align)| (column, align, width(column)))
            .collect();
        columns.retain(|(column, ..)| !self.hidden.contains(&self.rows[0][*column].as_str()));
        if !empty {
            let cells = |column: usize| shown_rows[1..].iter().map(move |row| &row[column]);
            columns.retain(|(column, ..)| shown_rows.len() < 2 || cells(*column).any(|c| c != "-"));
        }
        let wide = |columns: &[(usize, char, usize)]| {
            1 + columns.iter().map(|(_, _, width)| width + 1).sum::<usize>()
        };
        let mut left_out = Vec::new();
        for name in self.squeeze {
            if wide(&columns) > limit && columns.len() > 2 {
                let before = columns.len();
                columns.retain(|(column, ..)| self.rows[0][*column] != *name);
                if columns.len() < before {
                    left_out.push(*name);
                }
            }
        }
        // Long names are cut at last.
        while wide(&columns) > limit {
            let texts = columns.iter_mut().filter(|(_, align, _)| *align == '<');
            match texts.max_by_key(|(.., width)| *width) {
                Some((.., width)) if *width > LEAST_NAME => *width -= 1,
                _ => break,
            }
        }
        let line = |row: &Vec<String>| {
            let mut line = " ".to_owned();
            for (column, align, width) in &columns {
                let (cell, width) = (cut(&row[*column], *width), *width);
                line += &if *align == '<' {
                    format!(" {cell:<width$}")
                } else {
                    format!(" {cell:>width$}")
                };
            }
            line
        };
        for row in shown_rows {
            writeln!(out, "{}", line(row).trim_end())?;
        }
        more(out, self.rows.len() - 1, shown, what)?;
        for row in &self.foot {
            writeln!(out, "{}", line(row).trim_end())?;
        }
        if !left_out.is_empty() {
            let text = format!("(no room for {}; --json has it)", left_out.join(", "));
            wrap_to(out, limit, "  ", "  ", &text)?;
        }
        Ok(())
    }
}

/// The unit of the times of a column: the largest that its largest time fills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    /// `s`, `ms` or `µs`.
    pub(crate) name: &'static str,
    us: f64,
}

impl Unit {
    /// The unit of these times in µs.
    pub(crate) fn of(us: impl Iterator<Item = f64>) -> Unit {
        let (name, us) = match us.fold(0.0, f64::max) {
            most if most >= 999_500.0 => ("s", 1e6),
            most if most >= 999.5 => ("ms", 1e3),
            _ => ("µs", 1.0),
        };
        Unit { name, us }
    }

    /// A time in µs as a cell, with four digits behind the point at most: a small one need not be told in
    /// digits.
    pub(crate) fn show(&self, us: Option<f64>) -> String {
        let Some(value) = us.map(|us| us / self.us) else {
            return "-".to_owned();
        };
        match value.abs() {
            v if v >= 0.01 || v == 0.0 => three(value),
            v if v >= 0.000_1 => format!("{value:.4}"),
            _ => "<0.0001".to_owned(),
        }
    }

    /// The same of an estimate: with half of its interval, if it has one, in % of it.
    pub(crate) fn estimated(&self, us: Option<f64>, interval: Option<(f64, f64)>) -> String {
        let shown = self.show(us);
        let Some((us, (low, high))) = us.zip(interval) else {
            return shown;
        };
        let percent = 50.0 * (high - low) / us.max(f64::MIN_POSITIVE);
        format!("~{shown}±{percent:.0}%")
    }
}

/// What a table's title says of [`Unit::estimated`].
pub(crate) const ESTIMATED: &str = "; ~ estimated from a sample ± its 95 % interval";

/// A share in % with its 95 % interval: half of its width, or both ends where that would go beyond 0 or 100.
pub(crate) fn share_with_interval(share: &Share) -> String {
    const SHOWN: f64 = 0.0005;
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let of = percent(share.share);
    let Some((low, high)) = share.interval.filter(|(low, high)| high > low) else {
        return of;
    };
    let half = (high - low) / 2.0;
    if share.share - half < -SHOWN || share.share + half > 1.0 + SHOWN {
        format!("{of} [{:.0}, {:.0}]", 100.0 * low, 100.0 * high)
    } else {
        format!("{of}±{}", percent(half))
    }
}
