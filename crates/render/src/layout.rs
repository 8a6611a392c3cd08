//! Lines and tables of plain text: no colour, at most [`WIDTH`] columns if words allow it. Ids short enough for
//! a column.

use analyze::Report;
use std::collections::BTreeMap;
use std::io::{Result, Write};
use tables::printable;

/// Columns of a line.
pub const WIDTH: usize = 120;

/// Writes the lines of `text`, with escapes in place of what a terminal obeys.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write_printable(text: &[u8], out: &mut impl Write) -> Result<()> {
    for line in String::from_utf8_lossy(text).lines() {
        writeln!(out, "{}", printable(line))?;
    }
    Ok(())
}

/// `1 call`, `2 calls`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
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
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let len = line.chars().count() + word.chars().count() + usize::from(!empty);
        if !empty && len > WIDTH {
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

/// A table with a header and columns aligned left (`<`) or right (`>`).
pub struct Table {
    align: &'static str,
    rows: Vec<Vec<String>>,
    /// Last rows, which are always shown.
    pub(crate) foot: Vec<Vec<String>>,
    /// Columns that can be left out where the table is too wide, first to last.
    pub(crate) squeeze: &'static [&'static str],
}

impl Table {
    /// A table with these column names; `align` has a character for each.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, align: &'static str) -> Table {
        Table {
            align,
            rows: vec![names.into_iter().map(str::to_owned).collect()],
            foot: Vec::new(),
            squeeze: &[],
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
        let mut left_out = Vec::new();
        for name in self.squeeze {
            if 1 + columns.iter().map(|(_, _, width)| width + 1).sum::<usize>() > WIDTH {
                columns.retain(|(column, ..)| self.rows[0][*column] != *name);
                left_out.push(*name);
            }
        }
        let line = |row: &Vec<String>| {
            let mut line = " ".to_owned();
            for (column, align, width) in &columns {
                let (cell, width) = (&row[*column], *width);
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
            writeln!(
                out,
                "  (no room for {}; --json has it)",
                left_out.join(", ")
            )?;
        }
        Ok(())
    }
}
