//! Sections and tables of the page: every cell comes from a field of the JSON report.

use super::columns::{field, Column, Show};
use super::Page;
use crate::escape::{escaped, marked};
use crate::meanings::Meaning;
use serde_json::Value;
use std::fmt::Write as _;

/// A table of the page.
pub(super) struct HtmlTable<'a> {
    /// What it is called where it is not seen, and its id.
    pub(super) name: &'a str,
    /// The array in the report whose elements `rows` are; nothing where they are not from the report as they
    /// are.
    pub(super) from: Option<&'a str>,
    pub(super) columns: &'a [&'a [Column]],
    /// Numbers in that array, and the rows.
    pub(super) rows: Vec<(usize, &'a Value)>,
    /// By which column they are ordered, largest first.
    pub(super) sorted: &'a str,
    /// Of which columns the foot has the sum.
    pub(super) sums: &'a [&'a str],
}

impl<'a> HtmlTable<'a> {
    pub(super) fn new(name: &'a str, columns: &'a [&'a [Column]]) -> HtmlTable<'a> {
        HtmlTable {
            name,
            from: None,
            columns,
            rows: Vec::new(),
            sorted: "",
            sums: &[],
        }
    }
}

impl<'a> Page<'a> {
    /// The elements of an array of the report.
    pub(super) fn elements(&self, path: &str) -> Vec<(usize, &'a Value)> {
        let list = field(self.data, path).and_then(Value::as_array);
        list.into_iter().flatten().enumerate().collect()
    }

    /// A table of all elements of an array of the report.
    pub(super) fn table_of(&mut self, path: &str, name: &str, columns: &[&[Column]], sorted: &str) {
        let rows = self.elements(path);
        self.table(&HtmlTable {
            from: Some(path),
            rows,
            sorted,
            ..HtmlTable::new(name, columns)
        });
    }

    /// Writes a table, if it has rows.
    pub(super) fn table(&mut self, table: &HtmlTable) {
        if table.rows.is_empty() {
            return;
        }
        // Nobody looks for the interval of what is no estimate.
        let is_there = |column: &&Column| {
            let mut rows = table.rows.iter();
            !column.is_of_sample() || rows.any(|(_, row)| field(row, column.path).is_some())
        };
        let shown: Vec<&Column> = table
            .columns
            .iter()
            .copied()
            .flatten()
            .filter(is_there)
            .collect();
        let columns = || shown.iter().copied();
        let title = |text: &str| escaped(&text.replace('`', ""));
        let meanings = columns()
            .map(Column::meaning)
            .map(Option::unwrap_or_default);
        let meanings: Vec<Meaning> = meanings.collect();
        let from = table
            .from
            .map_or(String::new(), |from| format!(" data-rows=\"{from}\""));
        if let Some(all) = table.from.and_then(|from| self.cut.get(from)) {
            let _ = writeln!(
                self.html,
                "<p class=\"about\">The first {} of {all} rows: all of them make the page too large. \
                 <code>ncclscope report --json</code> has them.</p>",
                self.elements(table.from.unwrap_or_default()).len(),
            );
        }
        let _ = writeln!(
            self.html,
            "<div class=\"frame\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table{from} \
             aria-label=\"{0}\">\n<thead><tr>",
            escaped(table.name)
        );
        for (column, meaning) in columns().zip(&meanings) {
            let path = match column.path {
                "" => String::new(),
                path => format!(" data-path=\"{path}\""),
            };
            let class = if column.show.is_text() {
                " class=\"t\""
            } else {
                ""
            };
            let sorted = if column.path == table.sorted && !table.sorted.is_empty() {
                " aria-sort=\"descending\""
            } else {
                ""
            };
            let unit = match column.unit {
                "" => String::new(),
                unit => format!("<span>{unit}</span>"),
            };
            let _ = writeln!(
                self.html,
                "<th scope=\"col\"{class}{path}{sorted} title=\"{}\">{}{unit}</th>",
                title(&meaning.text),
                column.name
            );
        }
        self.html += "</tr></thead>\n<tbody>\n";
        for (index, row) in &table.rows {
            let _ = write!(self.html, "<tr data-i=\"{index}\">");
            for (column, meaning) in columns().zip(&meanings) {
                let class = match column.show {
                    Show::Wide => " class=\"w\"",
                    show if show.is_text() => " class=\"t\"",
                    _ => "",
                };
                let _ = match self.cell(row, column) {
                    Some(text) if column.show == Show::Wide => {
                        write!(self.html, "<td{class}>{}</td>", marked(&text))
                    }
                    Some(text) => write!(self.html, "<td{class}>{}</td>", escaped(&text)),
                    None => write!(
                        self.html,
                        "<td{class}><span class=\"none\" title=\"{}\">-</span></td>",
                        title(&meaning.none)
                    ),
                };
            }
            self.html += "</tr>\n";
        }
        self.html += "</tbody>\n";
        if !table.sums.is_empty() && table.rows.len() > 1 {
            self.html += "<tfoot><tr>";
            for (at, column) in columns().enumerate() {
                let known = || {
                    table
                        .rows
                        .iter()
                        .filter_map(|(_, row)| field(row, column.path))
                };
                let sum = if !table.sums.contains(&column.path) {
                    None
                } else if known().all(Value::is_u64) {
                    known()
                        .filter_map(Value::as_u64)
                        .reduce(u64::saturating_add)
                        .map(Value::from)
                } else {
                    known()
                        .filter_map(Value::as_f64)
                        .reduce(|a, b| a + b)
                        .map(Value::from)
                };
                let text = sum.and_then(|sum| column.show.text(&sum));
                let text = text.unwrap_or_else(|| {
                    if at == 0 {
                        "all".to_owned()
                    } else {
                        String::new()
                    }
                });
                let class = if column.show.is_text() {
                    " class=\"t\""
                } else {
                    ""
                };
                let _ = write!(self.html, "<td{class}>{text}</td>");
            }
            self.html += "</tr></tfoot>\n";
        }
        self.html += "</table></div>\n";
    }

    /// What a row has in a column.
    pub(super) fn cell(&self, row: &Value, column: &Column) -> Option<String> {
        match column.show {
            Show::Algorithm => {
                let [algorithm, protocol] = ["algorithm", "protocol"].map(|name| field(row, name));
                let name =
                    |of: Option<&Value>| of.and_then(Value::as_str).unwrap_or("-").to_owned();
                (algorithm.is_some() || protocol.is_some())
                    .then(|| format!("{}/{}", name(algorithm), name(protocol)))
            }
            Show::Communicator => {
                let id = field(row, column.path)?.as_str()?;
                let short = self.short.get(id)?;
                let of = |c: &&analyze::job::CommunicatorRow| c.communicator == id;
                let name = self.report.communicators.iter().find(of)?.name.as_deref();
                Some(name.map_or_else(|| short.clone(), |name| format!("{short} {name}")))
            }
            Show::Length => {
                let list = column.path.strip_suffix(".length")?;
                Some(field(row, list)?.as_array()?.len().to_string())
            }
            show => show.text(field(row, column.path)?),
        }
    }

    pub(super) fn lines(&mut self, title: &str, id: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.section(id, title, "");
        self.list(lines);
        self.end();
    }

    pub(super) fn list(&mut self, lines: &[String]) {
        self.html += "<ul class=\"lines\">\n";
        for line in lines {
            let _ = writeln!(self.html, "<li>{}</li>", marked(line));
        }
        self.html += "</ul>\n";
    }
}
