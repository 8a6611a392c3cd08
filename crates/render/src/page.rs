//! A page of HTML that needs nothing else and runs no script: its frame, and sections of tables and lines.
//!
//! It has the look of the report's page ([`crate::html`]), light and dark. Figures are drawn by
//! [`crate::figures`].
//!
//! Rule: whatever a program or a host chose is escaped here.

use crate::escape::{escaped, hash};
use crate::html::STYLE;
use crate::layout::held;
use std::fmt::Write as _;
use std::io::{Result, Write};

/// Letters of a cell that fit into a line.
const LONG: usize = 40;
const FIGURES: &str = include_str!("../html/figures.css");

/// Where sections go: a page of HTML, or [Markdown](crate::markdown::Markdown).
pub trait Sections {
    /// Begins: the answer, and what it is of.
    fn head(&mut self, name: &str, summary: &str);
    /// A section with a table, of which the first `texts` columns hold text; nothing without rows.
    fn table(&mut self, name: &str, names: &[&str], texts: usize, rows: &[Vec<String>]);
    /// A section with lines of text; nothing if there is none.
    fn list(&mut self, name: &str, lines: &mut dyn Iterator<Item = String>);
}

impl Sections for String {
    fn head(&mut self, name: &str, summary: &str) {
        head(self, name, summary);
    }

    fn table(&mut self, name: &str, names: &[&str], texts: usize, rows: &[Vec<String>]) {
        table(self, name, names, texts, rows);
    }

    fn list(&mut self, name: &str, lines: &mut dyn Iterator<Item = String>) {
        list(self, name, lines);
    }
}

/// Begins the page: its answer, and what it is of.
pub fn head(html: &mut String, name: &str, summary: &str) {
    let _ = writeln!(
        html,
        "<header>\n<h1 class=\"lead\">{}</h1>\n<p>{}</p>\n</header>\n<main>",
        escaped(&held(summary)),
        escaped(name)
    );
}

/// A section with a table, of which the first `texts` columns and the last hold text.
pub fn table(html: &mut String, name: &str, names: &[&str], texts: usize, rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let name = escaped(name);
    let class = |column: usize| if column < texts { " class=\"t\"" } else { "" };
    // Text that would be cut has several lines.
    let of_cell = |column: usize, cell: &str| {
        if cell.chars().count() > LONG && column < texts {
            " class=\"w\""
        } else {
            class(column)
        }
    };
    let _ = write!(
        html,
        "<section>\n<h2>{name}</h2>\n<div class=\"frame\" tabindex=\"0\" role=\"region\" \
         aria-label=\"{name}\">\n<table aria-label=\"{name}\"><thead><tr>"
    );
    for (column, head) in names.iter().enumerate() {
        let _ = write!(
            html,
            "<th scope=\"col\"{}>{}</th>",
            class(column),
            escaped(head)
        );
    }
    *html += "</tr></thead><tbody>\n";
    for row in rows {
        *html += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(html, "<td{}>{}</td>", of_cell(column, cell), escaped(cell));
        }
        *html += "</tr>\n";
    }
    *html += "</tbody></table></div>\n</section>\n";
}

/// A section with lines of text; nothing if there is none.
pub fn list(html: &mut String, name: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(
        html,
        "<section>\n<h2>{}</h2>\n<ul class=\"lines\">",
        escaped(name)
    );
    for line in lines {
        let _ = writeln!(html, "<li>{}</li>", escaped(&line));
    }
    *html += "</ul>\n</section>\n";
}

/// Writes the page, which [`head`] and the sections made.
///
/// # Errors
/// Those of `out`.
pub fn finish(html: &str, name: &str, out: &mut impl Write) -> Result<()> {
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}' \
         '{}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n<style>{FIGURES}</style>\n</head>\n\
         <body>\n{html}</main>\n</body>\n</html>\n",
        hash(STYLE),
        hash(FIGURES),
        escaped(name),
    )
}
