//! A report as one HTML file that needs nothing else: no network, no fonts, no files beside it.
//!
//! Every table is in the page as it is, from [`columns`] that name a field of the JSON report, so it reads
//! without JavaScript. The page carries the JSON report, from which `tables.js` sorts and `plots.js` draws,
//! and the histograms, which the JSON report has not.
//!
//! Rule: whatever a program, a user or a host chose is escaped where it is written: by [`escaped`] in the
//! page, and by [`embedded_json`] in its data. The page's policy runs the scripts that it lists by their
//! hashes, and no other.

use crate::layout::{plural, short_ids};
use crate::text::{begun, counts, outlier};
use crate::view::{embedded, View};
use analyze::moments::spelled;
use analyze::spelling::time;
use analyze::words::{self, Word};
use analyze::Report;
use base64::prelude::{Engine, BASE64_STANDARD};
use columns::*;
use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

mod across;
pub(crate) mod columns;
mod critical_path;
mod hosts;
mod lanes;
mod models;
mod startup;
mod timeline;
mod topology;

pub(crate) const STYLE: &str = include_str!("../html/style.css");
const TABLES: &str = include_str!("../html/tables.js");
const PLOTS: &str = concat!(
    include_str!("../html/shapes.js"),
    include_str!("../html/spelling.js"),
    include_str!("../html/plots.js")
);

/// Bytes of a page at most.
pub const MOST_BYTES: usize = 10_000_000;
/// Of these, the tables and their figures take so many at most.
const MOST_OF_TABLES: usize = MOST_BYTES / 2;
/// Rows of a table, if that is not too much for the page; else half as many, and so on down to the fewest.
const MOST_ROWS: usize = 2000;
const FEWEST_ROWS: usize = 8;

/// What tables of functions sum.
const SUMS: &[&str] = &[
    "calls",
    "bytes",
    "sum_over_ranks_us",
    "host_sum_over_ranks_us",
];

/// Writes `report`, without single calls.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    write_with(report, None, out)
}

/// Writes `report`, with as much of the viewer's lanes as fits into [`MOST_BYTES`].
///
/// # Errors
/// Those of `out`.
pub fn write_with(
    report: &Report,
    view: Option<&View<'_>>,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let mut rows = MOST_ROWS;
    let mut page = tables_page(report, view.is_some(), rows)?;
    while page.len() > MOST_OF_TABLES && rows > FEWEST_ROWS {
        rows /= 2;
        page = tables_page(report, view.is_some(), rows)?;
    }
    let left = MOST_BYTES.saturating_sub(page.len() + lanes::AROUND);
    let lanes = view.and_then(|view| embedded::within(view, left));
    lanes::insert(&mut page, view.is_some(), lanes.as_deref());
    out.write_all(page.as_bytes())
}

/// The page with tables of so many rows at most, and a place for lanes.
fn tables_page(report: &Report, has_lanes: bool, rows: usize) -> std::io::Result<String> {
    let mut data = serde_json::to_value(report)?;
    let mut cut = BTreeMap::new();
    shorten(&mut data, "", rows, &mut cut);
    let data = data;
    let short = short_ids(report);
    let histograms: Vec<_> = report.operations.iter().map(|o| &o.histograms).collect();
    let histograms = &histograms[..histograms.len().min(rows)];
    let active = timeline::active(report);
    let more = json!({ "histograms": histograms, "short_ids": short, "active": active });
    let page = Page {
        report,
        data: &data,
        has_lanes,
        cut,
        short,
        html: String::new(),
    };
    let title = escaped(&report.job.capture);
    let mut scripts = vec![hash(TABLES), hash(PLOTS), hash(timeline::SCRIPT)];
    let mut styles = vec![hash(STYLE), hash(timeline::STYLE)];
    if has_lanes {
        scripts.push(hash(crate::view::SCRIPT));
        styles.push(hash(crate::view::STYLE));
    }
    let all = |hashes: Vec<String>| -> String {
        let quoted: Vec<String> = hashes.iter().map(|hash| format!("'{hash}'")).collect();
        quoted.join(" ")
    };
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; \
         form-action 'none'",
        all(scripts),
        all(styles),
    );
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"ncclscope {}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title} - ncclscope report</title>\n\
         <style>{STYLE}</style>\n<style>{}</style>\n{}</head>\n\
         <body>\n{}\
         <script type=\"application/json\" id=\"report\">{}</script>\n\
         <script type=\"application/json\" id=\"more\">{}</script>\n\
         <script type=\"module\">{TABLES}</script>\n<script type=\"module\">{PLOTS}</script>\n\
         <script type=\"module\">{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        timeline::STYLE,
        lanes::style(has_lanes),
        page.body(),
        embedded_json(&data),
        embedded_json(&more),
        timeline::SCRIPT,
    );
    Ok(out)
}

/// Leaves the first elements of every list, and says by path how many there were if some are left out. What
/// is over time has as many elements as buckets, and stays.
fn shorten(value: &mut Value, path: &str, most: usize, cut: &mut BTreeMap<String, usize>) {
    match value {
        Value::Array(all) => {
            if all.len() > most && all.len() > analyze::timeline::MOST {
                cut.insert(path.to_owned(), all.len());
                all.truncate(most);
            }
            for element in all {
                shorten(element, path, most, cut);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut().filter(|(name, _)| *name != "timeline") {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                shorten(field, &path, most, cut);
            }
        }
        _ => {}
    }
}

/// The name by which the page's policy knows a script or style.
pub(crate) fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// `text` for the inside of an element or of a quoted attribute. Control characters, which HTML can't have,
/// show as `\u{1b}`.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        // A browser obeys what turns the direction of text, as a terminal does.
        for c in tables::printable(line).chars() {
            match c {
                '&' => out += "&amp;",
                '<' => out += "&lt;",
                '>' => out += "&gt;",
                '"' => out += "&quot;",
                '\'' => out += "&#39;",
                c => out.push(c),
            }
        }
    }
    out
}

/// `text` for the inside of an element, with what stands in backquotes as code.
fn marked(text: &str) -> String {
    let text = escaped(text);
    let mut parts = text.split('`');
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        let _ = match parts.next() {
            Some(rest) => write!(out, "<code>{code}</code>{rest}"),
            None => write!(out, "`{code}"),
        };
    }
    out
}

/// JSON for the inside of a script element: what could end it, or a line, or turn text, is written by its
/// number. These characters stand in strings only.
pub(crate) fn embedded_json(data: &Value) -> String {
    let json = data.to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if matches!(c, '<' | '>' | '&') || tables::obeyed(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// A table of the page.
struct Table<'a> {
    /// What it is called where it is not seen, and its id.
    name: &'a str,
    /// The array in the report whose elements `rows` are; nothing where they are not from the report as they
    /// are.
    from: Option<&'a str>,
    columns: &'a [&'a [Column]],
    /// Numbers in that array, and the rows.
    rows: Vec<(usize, &'a Value)>,
    /// By which column they are ordered, largest first.
    sorted: &'a str,
    /// Of which columns the foot has the sum.
    sums: &'a [&'a str],
}

impl<'a> Table<'a> {
    fn new(name: &'a str, columns: &'a [&'a [Column]]) -> Table<'a> {
        Table {
            name,
            from: None,
            columns,
            rows: Vec::new(),
            sorted: "",
            sums: &[],
        }
    }
}

/// A page under construction.
struct Page<'a> {
    report: &'a Report,
    /// The report as JSON, with as many rows as the page has.
    data: &'a Value,
    /// Whether there is a viewer of single calls.
    has_lanes: bool,
    /// By path of a list in it, how many elements there were, if some are left out.
    cut: BTreeMap<String, usize>,
    /// Communicators by id, in few digits.
    short: BTreeMap<&'a str, String>,
    html: String,
}

impl<'a> Page<'a> {
    fn body(mut self) -> String {
        self.header();
        self.html += "<main>\n";
        self.findings();
        self.timeline();
        self.lanes();
        self.job();
        self.completeness();
        self.topology();
        self.start_up();
        self.steps();
        self.critical_path();
        self.ranks();
        self.operations();
        self.models();
        self.callers();
        self.graphs();
        self.streams();
        self.stream_waits();
        self.driver_calls();
        self.waiting();
        self.clocks();
        self.hosts();
        self.mpi();
        self.settings();
        self.communicators();
        self.functions();
        self.warmup();
        self.network();
        self.lines("Notes", "notes", &self.report.notes);
        self.problems();
        self.definitions();
        let _ = writeln!(
            self.html,
            "</main>\n<footer>{}, written by ncclscope {}. <code>ncclscope report --json</code> gives the \
             same figures to programs.</footer>",
            escaped(self.report.schema),
            env!("CARGO_PKG_VERSION")
        );
        self.html
    }

    fn header(&mut self) {
        let (report, job) = (self.report, &self.report.job);
        let _ = writeln!(
            self.html,
            "<header>\n<h1 class=\"lead\">{}</h1>\n<p>{}</p>\n\
             <p class=\"next\">NCCL calls of {}. Next: <code>{}</code></p>",
            escaped(&report.verdict),
            escaped(&analyze::summary::figures(report).join(" · ")),
            escaped(&job.capture),
            escaped(&report.next)
        );
        let c = &report.completeness;
        let least = if c.announced_is_lower_bound {
            "at least "
        } else {
            ""
        };
        let announced = c.announced.saturating_add(c.missing_at_least);
        let lost = announced.saturating_sub(c.recorded);
        let recorded = match (lost, c.adds_up) {
            (0, true) if !c.absent.is_empty() => {
                "<small class=\"bad\">ranks are missing</small>".to_owned()
            }
            (0, true) if !c.unseen.is_empty() => {
                "<small class=\"bad\">CUDA graphs not counted</small>".to_owned()
            }
            (0, true) => "<small class=\"good\">none lost</small>".to_owned(),
            (_, false) => "<small class=\"bad\">the figures do not add up</small>".to_owned(),
            (lost, _) if c.missing_at_least > 0 => {
                format!("<small class=\"bad\">at least {lost} missing</small>")
            }
            (lost, _) => format!("<small class=\"bad\">{lost} lost</small>"),
        };
        let without = c.recorded.saturating_sub(c.timed);
        let hosts = match job.hosts.as_slice() {
            [] => "hosts not known".to_owned(),
            [one] => format!("on {one}"),
            hosts => format!("on {} hosts", hosts.len()),
        };
        let share = report.ranks.share.map(|s| {
            let spread = format!(
                "{:.1} to {:.1} % of the time over ranks",
                100.0 * s.min,
                100.0 * s.max
            );
            (format!("{:.1} %", 100.0 * s.median), spread)
        });
        let (share, spread) =
            share.unwrap_or(("-".to_owned(), "no rank has both times".to_owned()));
        // Where windows tell it, what communication costs says more than how long it ran.
        let in_nccl = match analyze::summary::exposed(report) {
            Some((exposed, from)) => (
                "Exposed communication",
                exposed,
                small(match from {
                    None => "of the time, nothing computed beside it",
                    Some(_) => "of the time, by stream waits",
                }),
            ),
            None => ("In NCCL, median rank", share, small(&spread)),
        };
        // All % are of the first.
        let wall = report
            .ranks
            .wall_us
            .map_or("-".to_owned(), |wall| time(wall.max));
        let mut end = format!("from {} to the last call", crate::text::first(job));
        if let (Some(_), Some(_), Some(all)) = (&job.started, &job.ended, job.wall_us) {
            end += &match crate::text::is_from_outside(job) {
                true => format!("; recorded from outside for {}", time(all)),
                false => format!("; {} from launch to exit", time(all)),
            };
        }
        match job.exit_status {
            Some(0) => {}
            Some(status) => end += &format!(", exit status {status}"),
            None => {}
        }
        let tiles = [
            (
                "Calls recorded",
                format!("{} of {least}{announced}", c.recorded),
                recorded,
            ),
            (
                "Calls with a GPU time",
                c.timed.to_string(),
                small(&format!("{without} without")),
            ),
            in_nccl,
            ("Processes", job.nprocesses.to_string(), small(&hosts)),
            ("Time", wall, small(&end)),
        ];
        self.html += "<dl class=\"tiles\">\n";
        for (name, figure, below) in tiles {
            let _ = writeln!(
                self.html,
                "<div><dt>{name}</dt><dd>{}{below}</dd></div>",
                escaped(&figure)
            );
        }
        self.html += "</dl>\n</header>\n<nav aria-label=\"Sections\"><ul>\n";
        let there = |there: bool, id: &'static str, name: &'static str| there.then_some((id, name));
        let has_models = !models::of(report).is_empty();
        let sections = [
            there(!report.recommendations.is_empty(), "findings", "Evidence"),
            there(report.timeline.is_some(), "timeline", "Over time"),
            there(self.has_lanes, "lanes", "Lanes"),
            Some(("job", "Job")),
            Some(("completeness", "Completeness")),
            there(!report.topologies.is_empty(), "topology", "Topology"),
            there(startup::slowest(report).is_some(), "start-up", "Start-up"),
            there(report.steps.is_some(), "steps", "Steps"),
            there(
                report.critical_path.is_some(),
                "critical-path",
                "Critical path",
            ),
            there(!report.ranks.rows.is_empty(), "ranks", "Ranks"),
            Some(("operations", "Operations")),
            there(has_models, "models", "Cost models"),
            there(
                !report.callers.is_empty(),
                "callers",
                "Lines of the program",
            ),
            there(!report.graphs.is_empty(), "graphs", "CUDA graphs"),
            there(report.streams.is_some(), "streams", "What the GPUs did"),
            there(
                report.streams.iter().any(|s| !s.bubbles.is_empty()),
                "bubbles",
                "Pipeline bubbles",
            ),
            there(
                report.stream_waits.is_some(),
                "stream-waits",
                "Stream waits",
            ),
            there(
                report.driver_calls.is_some(),
                "driver-calls",
                "Driver calls",
            ),
            there(report.arrivals.is_some(), "waiting", "Waiting"),
            there(report.clocks.is_some(), "clocks", "Clocks"),
            there(self.has_hosts(), "hosts", "Power and hosts"),
            there(report.mpi.is_some(), "mpi", "MPI"),
            there(!report.settings.is_empty(), "settings", "Settings"),
            Some(("communicators", "Communicators")),
            there(!report.functions.is_empty(), "functions", "Functions"),
            there(!report.warmup.is_empty(), "warmup", "Warm-up"),
            there(!report.network.is_empty(), "network", "Network"),
            there(!report.notes.is_empty(), "notes", "Notes"),
            there(!report.problems.is_empty(), "problems", "Problems"),
            Some(("definitions", "Definitions")),
        ];
        for (id, name) in sections.into_iter().flatten() {
            let _ = writeln!(self.html, "<li><a href=\"#{id}\">{name}</a></li>");
        }
        self.html += "</ul></nav>\n";
    }

    /// Begins a section, which the caller ends.
    fn section(&mut self, id: &str, title: &str, about: &str) {
        let _ = writeln!(self.html, "<section id=\"{id}\">\n<h2>{title}</h2>");
        if !about.is_empty() {
            let _ = writeln!(self.html, "<p class=\"about\">{}</p>", marked(about));
        }
    }

    fn end(&mut self) {
        self.html += "</section>\n";
    }

    /// The elements of an array of the report.
    fn elements(&self, path: &str) -> Vec<(usize, &'a Value)> {
        let list = field(self.data, path).and_then(Value::as_array);
        list.into_iter().flatten().enumerate().collect()
    }

    /// A table of all elements of an array of the report.
    fn table_of(&mut self, path: &str, name: &str, columns: &[&[Column]], sorted: &str) {
        let rows = self.elements(path);
        self.table(&Table {
            from: Some(path),
            rows,
            sorted,
            ..Table::new(name, columns)
        });
    }

    fn table(&mut self, table: &Table) {
        let columns = || table.columns.iter().copied().flatten();
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
        for column in columns() {
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
                escaped(column.help),
                column.name
            );
        }
        self.html += "</tr></thead>\n<tbody>\n";
        for (index, row) in &table.rows {
            let _ = write!(self.html, "<tr data-i=\"{index}\">");
            for column in columns() {
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
                        escaped(column.missing)
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
    fn cell(&self, row: &Value, column: &Column) -> Option<String> {
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

    fn completeness(&mut self) {
        let c = &self.report.completeness;
        self.section("completeness", "Completeness", "");
        for sentence in c.missing() {
            let _ = writeln!(self.html, "<p class=\"bad\">{}</p>", escaped(&sentence));
        }
        let sound = if c.adds_up {
            ""
        } else {
            " The figures do not add up, please report it."
        };
        let _ = writeln!(self.html, "<p>{}{sound}</p>", c.counted());
        if let Some(sentence) = c.in_launches() {
            let _ = writeln!(self.html, "<p>{sentence}</p>");
        }
        if let Some(cost) = &self.report.cost {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&cost.sentence()));
        }
        if !c.odd.is_empty() {
            let _ = writeln!(
                self.html,
                "<p>Callbacks without effect: {}.</p>",
                escaped(&counts(&c.odd))
            );
        }
        let remedy = |cause: &String| c.remedies.get(cause);
        let lost = c.lost.iter().map(|(cause, n)| {
            json!({"calls": n, "what": "lost", "cause": cause,
            "remedy": remedy(cause)})
        });
        let untimed = c.untimed.iter().map(|(cause, n)| {
            json!({"calls": n, "what": "not timed", "cause": cause,
            "remedy": remedy(cause)})
        });
        let unseen = c.unseen.iter().map(|(cause, n)| {
            json!({"calls": n, "what": "not counted", "cause": cause,
            "remedy": remedy(cause)})
        });
        let mut causes: Vec<Value> = lost.chain(unseen).chain(untimed).collect();
        // What is lost stands first.
        causes.sort_by_key(|row| {
            (
                row["what"] == "not timed",
                std::cmp::Reverse(row["calls"].as_u64()),
            )
        });
        if !causes.is_empty() {
            self.table(&Table {
                rows: causes.iter().enumerate().collect(),
                ..Table::new("Calls that were lost or not timed", &[CAUSE])
            });
        }
        if !c.ranks.is_empty() {
            self.html += "<h3>Processes that are not complete, or differ otherwise</h3>\n";
            self.table_of(
                "completeness.ranks",
                "Completeness by process",
                &[PROCESS, COMPLETENESS],
                "",
            );
        }
        self.end();
    }

    fn job(&mut self) {
        let job = &self.report.job;
        self.section("job", "Job", "");
        let some = |list: &[String]| match list {
            [] => "not known".to_owned(),
            list => list.join(", "),
        };
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
        let mut ranks = plural(job.nprocesses as u64, "process", "processes");
        if let Some(size) = job.world_size {
            ranks += &format!(" of {}", plural(size.into(), "rank", "ranks"));
        }
        if job.restarts > 0 {
            ranks += &format!(", {}", plural(job.restarts.into(), "restart", "restarts"));
        }
        let run = match (&job.started, &job.ended) {
            (Some(started), Some(ended)) => {
                format!("{} to {}", begun(job, started), spelled(ended, 0))
            }
            (Some(started), None) => {
                format!("since {}; its end was not recorded", begun(job, started))
            }
            _ => "not known when".to_owned(),
        };
        let mut facts = vec![
            ("command".to_owned(), known(&job.command)),
            ("job".to_owned(), ranks),
            ("hosts".to_owned(), some(&job.hosts)),
            ("NCCL".to_owned(), some(&job.nccl)),
            ("GPU".to_owned(), some(&job.gpu)),
            ("driver".to_owned(), some(&job.driver)),
            ("run".to_owned(), run),
            (
                "recorded".to_owned(),
                format!("mode {}, timing {}", some(&job.mode), some(&job.timing)),
            ),
        ];
        if let Some(id) = &job.id {
            facts.push(("id".to_owned(), id.clone()));
        }
        for (name, values) in &job.environment {
            let values: Vec<&str> = values
                .iter()
                .map(|v| v.as_deref().unwrap_or("(not set)"))
                .collect();
            facts.push((name.clone(), values.join(" or ")));
        }
        self.html += "<dl class=\"facts\">\n";
        for (name, value) in facts {
            let _ = writeln!(
                self.html,
                "<dt>{}</dt><dd>{}</dd>",
                escaped(&name),
                escaped(&value)
            );
        }
        self.html += "</dl>\n";
        self.end();
    }

    fn ranks(&mut self) {
        let ranks = &self.report.ranks;
        if ranks.rows.is_empty() {
            return;
        }
        self.section(
            "ranks",
            "Ranks",
            "In NCCL is the union of a rank's NCCL intervals, so no moment counts twice. A rank that differs \
             much from the median is named: less time in NCCL than the others means that they wait for it.",
        );
        if ranks.rows.len() > 1 {
            let spreads = [
                ("calls", ranks.calls, 1.0, 0),
                ("in NCCL, ms", ranks.nccl_us, 1e-3, 3),
                ("wall, ms", ranks.wall_us, 1e-3, 3),
                ("share of the run, %", ranks.share, 100.0, 2),
            ];
            self.html += "<div class=\"frame\" tabindex=\"0\" role=\"region\" \
                          aria-label=\"Figures over ranks\"><table aria-label=\"Figures over ranks\">\n\
                          <thead><tr><th scope=\"col\" class=\"t\">over ranks</th><th \
                          scope=\"col\">ranks</th><th scope=\"col\">min</th><th scope=\"col\">median</th><th \
                          scope=\"col\">max</th></tr></thead>\n<tbody>\n";
            for (name, spread, factor, digits) in spreads {
                let Some(s) = spread else { continue };
                let _ = write!(self.html, "<tr><td class=\"t\">{name}</td><td>{}</td>", s.n);
                for value in [s.min, s.median, s.max] {
                    let _ = write!(self.html, "<td>{:.digits$}</td>", value * factor);
                }
                self.html += "</tr>\n";
            }
            self.html += "</tbody></table></div>\n";
        }
        if !ranks.outliers.is_empty() {
            self.html += "<h3>Ranks that differ</h3>\n";
            let line = |of| {
                let (name, how) = outlier(ranks, of);
                format!("{name}: {how}")
            };
            let lines: Vec<String> = ranks.outliers.iter().map(line).collect();
            self.list(&lines);
        }
        self.html += "<h3>All ranks</h3>\n";
        self.table_of("ranks.rows", "All ranks", &[PROCESS, RANK], "");
        self.end();
    }

    fn communicators(&mut self) {
        self.section("communicators", "Communicators", "By first use.");
        if self.report.communicators.is_empty() {
            self.html += "<p>No communicator was made.</p>\n";
        } else {
            self.table_of("communicators", "Communicators", &[COMMUNICATORS], "");
        }
        self.end();
    }

    fn functions(&mut self) {
        if self.report.functions.is_empty() {
            return;
        }
        self.section(
            "functions",
            "Functions",
            "Largest GPU time first; sums are over ranks.",
        );
        let rows = self.elements("functions");
        self.table(&Table {
            from: Some("functions"),
            rows,
            sorted: "sum_over_ranks_us",
            sums: SUMS,
            ..Table::new("Functions", &[FUNCTION])
        });
        self.html += "<h3>Parts of one call, by function and size</h3>\n";
        self.table_of("parts", "Parts of one call", &[PARTS], "");
        self.html += "<h3>Collectives against point-to-point</h3>\n";
        let rows = self.elements("kinds");
        self.table(&Table {
            from: Some("kinds"),
            rows,
            sums: SUMS,
            ..Table::new("Collectives against point-to-point", &[KIND])
        });
        self.end();
    }

    fn callers(&mut self) {
        if self.report.callers.is_empty() {
            return;
        }
        self.section(
            "callers",
            "Calls by line of the program",
            "Largest GPU time first; sums are over ranks. The line is the innermost one that is in no \
             library.",
        );
        let rows = self.elements("callers");
        self.table(&Table {
            from: Some("callers"),
            rows,
            sorted: "sum_over_ranks_us",
            sums: &[
                "calls",
                "bytes",
                "sum_over_ranks_us",
                "host_sum_over_ranks_us",
                "exposed_us",
                "wait_rank_us",
            ],
            ..Table::new("Calls by line of the program", &[CALLER])
        });
        self.end();
    }

    fn operations(&mut self) {
        self.section("operations", "Operations", "");
        let all = self.elements("operations");
        if all.is_empty() {
            self.html += "<p>No call was recorded.</p>\n";
            return self.end();
        }
        self.html += "<div id=\"plots\" hidden>\n<div class=\"plots\">\n\
                      <figure id=\"by-size\"><figcaption>By size</figcaption></figure>\n\
                      <figure id=\"spread\"><figcaption>How the times of one operation are \
                      spread</figcaption></figure>\n\
                      </div>\n<div id=\"detail\" aria-live=\"polite\"></div>\n</div>\n\
                      <p id=\"without\" class=\"about\">Plots, sorting and filters need JavaScript; every \
                      figure is in the tables.</p>\n";
        let count = |row: &Value, name: &str| field(row, name).and_then(Value::as_u64).unwrap_or(0);
        let (timed, others): (Vec<_>, Vec<_>) = all
            .into_iter()
            // What was a warm-up and nothing else stands under Warm-up.
            .filter(|(_, o)| count(o, "calls") == 0 || count(o, "calls") > count(o, "warmup"))
            .partition(|(_, o)| field(o, "time_us").is_some());
        if !timed.is_empty() {
            self.html += "<h3>By GPU time</h3>\n\
                          <p class=\"about\">Largest sum over ranks first. GPU time is from first start to \
                          last stop on one rank, waiting for peers included. busbw is of the operation's \
                          shortest rank, close to the transfer; call_busbw is of the median call, \
                          waiting included.</p>\n";
            self.table(&Table {
                from: Some("operations"),
                rows: timed,
                sorted: "time_us.sum",
                sums: &["calls", "timed", "time_us.sum"],
                ..Table::new("Operations by GPU time", &[OPERATION, GPU_TIME])
            });
        }
        if !others.is_empty() {
            self.html += "<h3>By host time</h3>\n\
                <p class=\"about\">These have no GPU time. Largest sum over ranks first; \
                from API entry to return.</p>\n";
            self.table(&Table {
                from: Some("operations"),
                rows: others,
                sorted: "host_us.sum",
                sums: &["calls", "host_us.sum"],
                ..Table::new("Operations by host time", &[OPERATION, HOST_TIME])
            });
        }
        self.end();
    }

    fn graphs(&mut self) {
        if self.report.graphs.is_empty() {
            return;
        }
        self.section(
            "graphs",
            "CUDA graphs",
            "Graphs with NCCL calls, most calls first. Each launch executes the calls that \
             were captured into the graph.",
        );
        self.table_of("graphs", "CUDA graphs", &[GRAPH], "");
        self.end();
    }

    fn streams(&mut self) {
        let Some(streams) = &self.report.streams else {
            return;
        };
        self.section(
            "streams",
            "What the GPUs did",
            "From kernel windows: for a few steps at a time, every kernel, copy and fill of a GPU. \
             Shares of the time that windows show.",
        );
        for line in crate::streams::lines(streams) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&line));
        }
        self.table_of("streams.ranks", "By rank", &[STREAMS], "");
        self.idle_causes();
        self.table_of(
            "streams.communication",
            "NCCL's kernels by function",
            &[NCCL_KERNELS],
            "",
        );
        self.table_of(
            "streams.waited_for",
            "Who was waited for",
            &[WAITED_FOR],
            "",
        );
        self.table_of("streams.replays", "Replays of CUDA graphs", &[REPLAYS], "");
        self.table_of("streams.kernels", "Kernels", &[KERNELS], "");
        let by_rank = &[KERNELS_BY_RANK];
        self.table_of("streams.kernels_by_rank", "Kernels by rank", by_rank, "");
        self.end();
        self.bubbles();
    }

    fn stream_waits(&mut self) {
        let Some(waits) = &self.report.stream_waits else {
            return;
        };
        self.section(
            "stream-waits",
            "Exposed communication, from stream waits",
            "From the moment at which a stream had nothing to do but to wait for a call, to the call's end.",
        );
        for line in crate::stream_waits::lines(waits) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&line));
        }
        self.table_of("stream_waits.ranks", "By rank", &[RANK_WAITS], "");
        self.table_of(
            "stream_waits.operations",
            "By operation",
            &[OPERATION_WAITS],
            "",
        );
        self.end();
    }

    fn driver_calls(&mut self) {
        let Some(calls) = &self.report.driver_calls else {
            return;
        };
        self.section(
            "driver-calls",
            "Calls of the CUDA driver",
            &format!(
                "What {} asked the driver for, NCCL and the rest of the program apart.",
                plural(calls.processes, "process", "processes")
            ),
        );
        self.table_of(
            "driver_calls.rows",
            "Calls of the CUDA driver",
            &[DRIVER_CALL],
            "",
        );
        self.end();
    }

    fn warmup(&mut self) {
        if self.report.warmup.is_empty() {
            return;
        }
        self.section(
            "warmup",
            "Warm-up",
            "The first call of each rank on a communicator, when NCCL connects ranks and loads kernels. In \
             `calls` above and in no other figure there. Longest first.",
        );
        self.table_of("warmup", "Warm-up", &[ON_COMMUNICATOR, FIRST_CALLS], "");
        self.end();
    }

    fn settings(&mut self) {
        if self.report.settings.is_empty() {
            return;
        }
        self.section(
            "settings",
            "Settings",
            "Which settings of algorithm and protocol took effect, by what NCCL told of each call.",
        );
        let lines: Vec<String> = self
            .report
            .settings
            .iter()
            .map(|s| s.summary.clone())
            .collect();
        self.list(&lines);
        self.table_of("settings", "Settings", &[SETTING], "");
        self.end();
    }

    fn network(&mut self) {
        if self.report.network.is_empty() {
            return;
        }
        self.section("network", "Network",
            "Most bytes first; waits are summed over steps and channels, so they may exceed the run.");
        self.table_of("network", "Network", &[ON_COMMUNICATOR, NETWORK], "");
        self.end();
    }

    fn problems(&mut self) {
        if self.report.problems.is_empty() {
            return;
        }
        self.section("problems", "Problems", "What was unsound in the capture.");
        self.table_of("problems", "Problems", &[PROBLEM], "");
        self.end();
    }

    fn lines(&mut self, title: &str, id: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.section(id, title, "");
        self.list(lines);
        self.end();
    }

    fn list(&mut self, lines: &[String]) {
        self.html += "<ul class=\"lines\">\n";
        for line in lines {
            let _ = writeln!(self.html, "<li>{}</li>", marked(line));
        }
        self.html += "</ul>\n";
    }

    fn definitions(&mut self) {
        self.section("definitions", "Definitions", "");
        for (title, words) in [
            ("", words::DEFINITIONS),
            ("Why calls are lost", words::LOST),
            ("Why calls are not timed", words::UNTIMED),
        ] {
            if !title.is_empty() {
                let _ = writeln!(self.html, "<h3>{title}</h3>");
            }
            self.html += "<dl class=\"facts words\">\n";
            for Word { name, text } in words {
                let _ = writeln!(
                    self.html,
                    "<dt>{}</dt><dd>{}</dd>",
                    escaped(name),
                    marked(text)
                );
            }
            self.html += "</dl>\n";
        }
        self.end();
    }
}

fn small(text: &str) -> String {
    format!("<small>{}</small>", escaped(text))
}
