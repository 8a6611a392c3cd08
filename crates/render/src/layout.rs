//! Lines and tables of plain text: no colour, at most [`WIDTH`] columns where words allow it.

use std::io::{Result, Write};

/// Columns of a line.
pub const WIDTH: usize = 120;

/// A size as users say it, where that is exact.
pub fn size(bytes: u64) -> String {
    let units = [
        (1u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

/// `1 call`, `2 calls`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
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
}

impl Table {
    /// A table with these column names; `align` has a character for each.
    pub fn new<const N: usize>(names: [&str; N], align: &'static str) -> Table {
        Table {
            align,
            rows: vec![names.iter().map(|n| (*n).to_owned()).collect()],
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Writes the first `shown` rows, and how many more of `what` there are.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write, shown: usize, what: &str) -> Result<()> {
        let rows = &self.rows[..self.rows.len().min(shown.saturating_add(1))];
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        for row in rows {
            let mut line = " ".to_owned();
            for ((cell, width), align) in row.iter().zip(&widths).zip(self.align.chars()) {
                line += &if align == '<' {
                    format!(" {cell:<width$}")
                } else {
                    format!(" {cell:>width$}")
                };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        let there = self.rows.len() - 1;
        if there > shown {
            writeln!(out, "  … {} more {what} (--all)", there - shown)?;
        }
        Ok(())
    }
}
