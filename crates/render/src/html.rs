//! A report as one HTML file that needs nothing else: no network, no fonts, no files beside it.
//!
//! Every table is in the page as it is, from [`columns`] that name a field of the JSON report, so it reads
//! without JavaScript. The page carries the JSON report and the histograms, which the JSON report has not.
//! From these its script sorts and draws.
//!
//! Rule: whatever a program, a user or a host chose is escaped where it is written: by [`escaped`] in the
//! page, and by [`embedded_json`] in its data. The page's policy runs the scripts that it lists by their
//! hashes, and no other.

use crate::escape::{embedded_json, escaped, hash, marked};
use crate::layout::short_ids;
use crate::picture::Picture;
use crate::view::{embedded, View};
use crate::words::{self, Word};
use analyze::Report;
use columns::SETTING;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

mod across;
mod calls;
pub(crate) mod columns;
mod critical_path;
mod folds;
mod gpus;
mod head;
mod hosts;
mod job;
mod lanes;
mod models;
mod startup;
mod table;
mod timeline;
mod topology;

pub(crate) const STYLE: &str = concat!(
    include_str!("../html/palette.css"),
    include_str!("../html/style.css")
);
/// The page's script: the modules in `html/report`, as one.
const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/report.js"));

/// Bytes of a page at most.
pub const MOST_BYTES: usize = 10_000_000;
/// Of these, the tables and their figures take so many at most.
const MOST_OF_TABLES: usize = MOST_BYTES / 2;
/// Rows of a table, if that is not too much for the page; else half as many, and so on down to the fewest.
const MOST_ROWS: usize = 2000;
const FEWEST_ROWS: usize = 8;

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
    let picture = Picture::of(report, view.map(View::timeline));
    let mut page = tables_page(report, &picture, view, rows)?;
    while page.len() > MOST_OF_TABLES && rows > FEWEST_ROWS {
        rows /= 2;
        page = tables_page(report, &picture, view, rows)?;
    }
    let left = MOST_BYTES.saturating_sub(page.len() + lanes::AROUND);
    let lanes = view.and_then(|view| embedded::within(view, left));
    lanes::insert(&mut page, view.is_some(), lanes.as_deref());
    out.write_all(page.as_bytes())
}

/// The page with tables of so many rows at most, and a place for lanes.
fn tables_page(
    report: &Report,
    picture: &Picture<'_>,
    view: Option<&View<'_>>,
    rows: usize,
) -> std::io::Result<String> {
    let has_lanes = view.is_some();
    let mut data = crate::report_json::value(report)?;
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
        picture,
        data: &data,
        has_lanes,
        cut,
        short,
        html: String::new(),
        typical_us: view.and_then(View::typical_us),
        is_folded: false,
        rows,
    };
    let title = escaped(&report.job.capture);
    let mut scripts = vec![hash(SCRIPT)];
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
         <script type=\"module\">{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        timeline::STYLE,
        lanes::style(has_lanes),
        page.body(),
        embedded_json(&data),
        embedded_json(&more),
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

/// A page under construction.
struct Page<'a> {
    report: &'a Report,
    picture: &'a Picture<'a>,
    /// The report as JSON, with as many rows as the page has.
    data: &'a Value,
    /// Whether there is a viewer of single calls.
    has_lanes: bool,
    /// By path of a list in it, how many elements there were, if some are left out.
    cut: BTreeMap<String, usize>,
    /// Communicators by id, in few digits.
    short: BTreeMap<&'a str, String>,
    html: String,
    /// From when to when the step of the picture is in the viewer.
    typical_us: Option<(f64, f64)>,
    /// The section that was begun is folded.
    is_folded: bool,
    /// Rows of a table at most.
    rows: usize,
}

impl<'a> Page<'a> {
    fn body(mut self) -> String {
        self.header();
        self.html += "<main>\n";
        self.picture();
        self.findings();
        self.timeline();
        self.html += "<h2>Details</h2>\n";
        self.account();
        self.lanes();
        self.ranks();
        self.waiting();
        self.steps();
        self.critical_path();
        self.operations();
        self.streams();
        self.stream_waits();
        self.driver_calls();
        self.graphs();
        self.callers();
        self.phases();
        self.network();
        self.hosts();
        self.mpi();
        self.start_up();
        self.warmup();
        self.models();
        self.functions();
        self.communicators();
        self.settings();
        self.topology();
        self.clocks();
        self.job();
        self.completeness();
        self.problems();
        self.lines("Notes", "notes", &crate::notes::sentences(self.report));
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

    fn picture(&mut self) {
        if self.picture.is_empty() {
            return;
        }
        self.html += "<section id=\"picture\" aria-label=\"Where the time went\">\n";
        self.html += &self.picture.section("");
        if let Some((from, to)) = self.typical_us {
            let around = (to - from) / 20.0;
            let _ = writeln!(
                self.html,
                "<p><a href=\"#from={:.3}&amp;to={:.3}\">Open this step in the viewer</a></p>",
                from - around,
                to + around
            );
        }
        self.html += "</section>\n";
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
            .map(crate::settings::summary)
            .collect();
        self.list(&lines);
        self.table_of("settings", "Settings", &[SETTING], "");
        self.end();
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
