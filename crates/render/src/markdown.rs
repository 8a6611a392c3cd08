//! Sections of tables and lines as Markdown, for pull requests and chats.
//!
//! Rule: whatever a program or a host chose is text, and neither markup nor a mention of somebody.

use crate::page::Sections;
use std::fmt::Write as _;

/// Rows of a table: a comment of a pull request holds 65 536 characters.
const ROWS: usize = 16;

/// Markdown under construction.
#[derive(Default)]
pub struct Markdown(String);

impl Markdown {
    /// What was written.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// `text` within a line or a cell.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in tables::printable(&text.replace('\n', " ")).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '@' => out += "&#64;",
            '|' | '*' | '_' | '[' | ']' | '\\' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

impl Sections for Markdown {
    fn head(&mut self, name: &str, summary: &str) {
        let _ = writeln!(self.0, "**{}**\n\n{}", escaped(summary), escaped(name));
    }

    fn table(&mut self, name: &str, names: &[&str], texts: usize, rows: &[Vec<String>]) {
        if rows.is_empty() {
            return;
        }
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let _ = writeln!(self.0, "\n### {}\n", escaped(name));
        self.0 += &line(&mut names.iter().map(|name| escaped(name)));
        let mut sides = (0..names.len()).map(|column| {
            if column < texts {
                ":---".to_owned()
            } else {
                "---:".to_owned()
            }
        });
        self.0 += &line(&mut sides);
        for row in rows.iter().take(ROWS) {
            self.0 += &line(&mut row.iter().map(|cell| escaped(cell)));
        }
        if rows.len() > ROWS {
            let _ = writeln!(self.0, "\n… {} rows more", rows.len() - ROWS);
        }
    }

    fn list(&mut self, name: &str, lines: &mut dyn Iterator<Item = String>) {
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(self.0, "\n### {}\n", escaped(name));
        for line in lines {
            let _ = writeln!(self.0, "- {}", escaped(&line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup_and_no_mention() {
        let mut page = Markdown::default();
        let rows = vec![vec!["<b>@all | x_y*</b>\n# no".to_owned(), "1".to_owned()]];
        page.table("Runs", &["run", "n"], 1, &rows);
        let shown = page.text().lines().last().unwrap_or_default();
        assert_eq!(
            shown,
            "| &lt;b&gt;&#64;all \\| x\\_y\\*&lt;/b&gt; # no | 1 |"
        );
    }

    #[test]
    fn a_long_table_says_what_it_leaves_out() {
        let mut page = Markdown::default();
        page.table("Kinds", &["kind"], 1, &vec![vec!["a".to_owned()]; ROWS + 3]);
        assert!(
            page.text().ends_with("\n… 3 rows more\n"),
            "{}",
            page.text()
        );
    }
}
