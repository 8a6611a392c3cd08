//! Every table of a capture, and the files that can hold one: Parquet, CSV and JSON lines.
//!
//! A [`Table`] names a table, and [`Rows`] hands out its rows as Arrow batches. [`parquet`], [`csv`] and
//! [`jsonl`] write what they get, so that a table has the same columns and values in each format. Columns are
//! those of `docs/reference/tables.md`.
//!
//! Rule: at least one batch is handed out, so that an empty table has its columns. No more than one batch is
//! in memory, except for tables of the report.

use crate::batches::{self, CallsTable};
use crate::{events_table, parquet};
use analyze::operation_ids::OperationIds;
use analyze::streams::kernels;
use analyze::Report;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use serde_json::{Map, Value as Json};
use std::cell::OnceCell;
use std::io::{Error, Result, Write};
use tables::calls::COLUMNS;
use tables::Capture;

/// A table of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Table {
    Calls,
    Operations,
    Arrivals,
    Steps,
    Ranks,
    Findings,
    Account,
    Graphs,
    GraphLaunches,
    Kernels,
    Samples,
    Switches,
    Mpi,
    Events,
}

impl Table {
    /// All of them, in the order of `docs/reference/tables.md`.
    pub const ALL: [Table; 14] = [
        Table::Calls,
        Table::Operations,
        Table::Arrivals,
        Table::Steps,
        Table::Ranks,
        Table::Findings,
        Table::Account,
        Table::Graphs,
        Table::GraphLaunches,
        Table::Kernels,
        Table::Samples,
        Table::Switches,
        Table::Mpi,
        Table::Events,
    ];

    /// Its name in options, in files and in `docs/reference/tables.md`.
    pub fn name(self) -> &'static str {
        match self {
            Table::Calls => "calls",
            Table::Operations => "operations",
            Table::Arrivals => "arrivals",
            Table::Steps => "steps",
            Table::Ranks => "ranks",
            Table::Findings => "findings",
            Table::Account => "account",
            Table::Graphs => "graphs",
            Table::GraphLaunches => "graph_launches",
            Table::Kernels => "kernels",
            Table::Samples => "samples",
            Table::Switches => "switches",
            Table::Mpi => "mpi",
            Table::Events => "events",
        }
    }

    /// What its rows are called in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Table::Account => "ranks' accounts",
            Table::GraphLaunches => "launches of graphs",
            Table::Kernels => "kernels, copies and fills",
            Table::Mpi => "times in MPI",
            table => table.name(),
        }
    }

    /// The table with this name.
    pub fn of_name(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Why it has no rows in this capture, if the capture lacks what the table is made of.
    pub fn why_empty(self, capture: &Capture) -> Option<String> {
        let sampled = "no node was sampled. `ncclscope run` samples nodes";
        match self {
            Table::Kernels => kernels::why_none(capture).map(crate::streams::no_kernels),
            Table::Samples | Table::Switches if capture.nodes.is_empty() => {
                Some(sampled.to_owned())
            }
            Table::Mpi if capture.processes.iter().all(|p| p.mpi.spans.is_empty()) => {
                Some("no process was seen inside of MPI".to_owned())
            }
            Table::Events if !capture.has_mode("callbacks") => Some(
                "events need a recording with `ncclscope run --mode callbacks -- COMMAND`"
                    .to_owned(),
            ),
            Table::Graphs | Table::GraphLaunches => {
                let none = capture.processes.iter().all(|p| p.graphs.is_empty());
                none.then(|| "no CUDA graph with NCCL calls was seen".to_owned())
            }
            _ => None,
        }
    }
}

/// The rows of the tables of a capture. What is made of the whole capture is made when it is first needed.
pub struct Rows<'a> {
    capture: &'a Capture,
    report: OnceCell<Report>,
    ids: OnceCell<OperationIds>,
}

impl<'a> Rows<'a> {
    /// Of this capture.
    pub fn new(capture: &'a Capture) -> Rows<'a> {
        Rows {
            capture,
            report: OnceCell::new(),
            ids: OnceCell::new(),
        }
    }

    /// Why a table has no rows; `None` if it has some.
    pub fn why_empty(&self, table: Table) -> Option<String> {
        let capture = self.capture;
        if let Some(why) = table.why_empty(capture) {
            return Some(why);
        }
        let rows = |batch: std::result::Result<RecordBatch, ArrowError>| {
            // What can't be made fails when it is written.
            batch.map_or(1, |batch| batch.num_rows())
        };
        let (rows, why) = match table {
            Table::Calls => {
                let calls = capture.processes.iter().map(|process| process.calls.len());
                (calls.sum(), "no call has a row here")
            }
            Table::Operations => (
                rows(batches::operations(self.report())),
                "no call was executed",
            ),
            Table::Arrivals => (
                rows(batches::arrivals(capture)),
                "no operation has a GPU time on every rank",
            ),
            Table::Steps => (
                rows(batches::steps(self.report())),
                "no pattern of calls repeats",
            ),
            Table::Ranks => (
                rows(batches::ranks(self.report())),
                "no process made a communicator",
            ),
            Table::Findings => (
                rows(batches::findings(self.report())),
                "the report has no finding",
            ),
            Table::Account => (
                rows(batches::account(self.report())),
                "the time of the steps can't be divided; `ncclscope report` says what is missing",
            ),
            Table::Graphs => (
                rows(batches::graphs(self.report())),
                "no CUDA graph was launched",
            ),
            Table::GraphLaunches => (
                rows(batches::graph_launches(capture)),
                "no launch of a CUDA graph is here",
            ),
            Table::Samples => (
                rows(batches::samples(capture)),
                "the samples of nodes are empty",
            ),
            Table::Switches => (
                rows(batches::switches(capture)),
                "the kernel gave the node sampler no context switches",
            ),
            // These say it themselves, and are large.
            Table::Kernels | Table::Mpi | Table::Events => return None,
        };
        (rows == 0).then(|| why.to_owned())
    }

    /// The capture.
    pub(crate) fn capture(&self) -> &'a Capture {
        self.capture
    }

    /// The numbers of its operations.
    pub(crate) fn ids(&self) -> &OperationIds {
        self.ids.get_or_init(|| OperationIds::of(self.capture))
    }

    /// Its report.
    pub fn report(&self) -> &Report {
        self.report.get_or_init(|| analyze::report(self.capture))
    }

    /// Hands out a table, batch by batch.
    ///
    /// # Errors
    /// Those of `take`; and when the texts of a column are longer than 2 GiB together.
    pub fn each(
        &self,
        table: Table,
        take: &mut dyn FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let capture = self.capture;
        let one = |batch: std::result::Result<RecordBatch, ArrowError>| batch.map_err(Error::other);
        let batch = match table {
            Table::Calls => return self.calls(take),
            Table::Kernels => {
                for process in 0..capture.processes.len() {
                    let rows = kernels::of_process(capture, process);
                    for rows in rows.chunks(batches::ROWS) {
                        take(&one(batches::kernels_of(rows))?)?;
                    }
                }
                batches::kernels_of(&[])
            }
            Table::Events => return events_table::batches(capture, take),
            Table::Operations => batches::operations(self.report()),
            Table::Arrivals => batches::arrivals(capture),
            Table::Steps => batches::steps(self.report()),
            Table::Ranks => batches::ranks(self.report()),
            Table::Findings => batches::findings(self.report()),
            Table::Account => batches::account(self.report()),
            Table::Graphs => batches::graphs(self.report()),
            Table::GraphLaunches => batches::graph_launches(capture),
            Table::Samples => batches::samples(capture),
            Table::Switches => batches::switches(capture),
            Table::Mpi => batches::mpi(capture),
        };
        take(&one(batch)?)
    }

    fn calls(&self, take: &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let table = CallsTable::new(COLUMNS.iter().collect());
        let ids = self.ids();
        let rows: usize = self.capture.processes.iter().map(|p| p.calls.len()).sum();
        for first in (0..rows.max(1)).step_by(batches::ROWS) {
            let batch = table.range(self.capture, Some(ids), first, batches::ROWS);
            take(&batch.map_err(Error::other)?)?;
        }
        Ok(())
    }
}

/// Writes a table as one Parquet file, and returns how many rows it has.
///
/// # Errors
/// Those of `out`, and of [`Rows::each`].
pub fn parquet(rows: &Rows<'_>, table: Table, out: impl Write + Send) -> Result<u64> {
    let mut out = Some(out);
    let mut writer = None;
    let mut written = 0;
    rows.each(table, &mut |batch| {
        if let Some(out) = out.take() {
            let made = parquet::writer(out, table.name(), batch.schema());
            writer = Some(made.map_err(Error::other)?);
        }
        written += batch.num_rows() as u64;
        let writer = writer.as_mut().ok_or_else(|| Error::other("no writer"))?;
        writer.write(batch).map_err(Error::other)
    })?;
    if let Some(writer) = writer {
        writer.close().map_err(Error::other)?;
    }
    Ok(written)
}

/// Writes a table as CSV: a line with the names of the columns, then a line for each row. Null is an empty
/// cell, and an empty text is `""`. Returns how many rows there are.
///
/// # Errors
/// Those of `out`, and of [`Rows::each`].
pub fn csv(rows: &Rows<'_>, table: Table, out: &mut dyn Write) -> Result<u64> {
    let mut written = 0;
    let mut has_head = false;
    let mut line = String::new();
    rows.each(table, &mut |batch| {
        if !std::mem::replace(&mut has_head, true) {
            let schema = batch.schema();
            let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            writeln!(out, "{}", names.join(","))?;
        }
        for row in 0..batch.num_rows() {
            line.clear();
            for (index, column) in batch.columns().iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                match Cell::of(column.as_ref(), row) {
                    Cell::Null => {}
                    Cell::Bool(value) => line.push_str(if value { "true" } else { "false" }),
                    Cell::Signed(value) => line.push_str(&value.to_string()),
                    Cell::Unsigned(value) => line.push_str(&value.to_string()),
                    Cell::Float(value) => line.push_str(&value.to_string()),
                    Cell::Text(text) => quote(text, &mut line),
                    Cell::Map(map) => quote(&Json::Object(map).to_string(), &mut line),
                }
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
            written += 1;
        }
        Ok(())
    })?;
    Ok(written)
}

/// A text as RFC 4180 has it.
fn quote(text: &str, line: &mut String) {
    if !text.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        line.push_str(text);
        return;
    }
    line.push('"');
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

/// Writes a table as JSON lines: one object for each row, without columns that are null. Returns how many
/// rows there are.
///
/// # Errors
/// Those of `out`, and of [`Rows::each`].
pub fn jsonl(rows: &Rows<'_>, table: Table, mut out: &mut dyn Write) -> Result<u64> {
    let mut written = 0;
    rows.each(table, &mut |batch| {
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let cells = schema.fields().iter().zip(batch.columns());
            let cells = cells.filter_map(|(field, column)| {
                let value = match Cell::of(column.as_ref(), row) {
                    Cell::Null => return None,
                    Cell::Bool(value) => Json::from(value),
                    Cell::Signed(value) => Json::from(value),
                    Cell::Unsigned(value) => Json::from(value),
                    Cell::Float(value) => Json::from(value),
                    Cell::Text(text) => Json::from(text),
                    Cell::Map(map) => Json::Object(map),
                };
                Some((field.name().clone(), value))
            });
            let object: Map<String, Json> = cells.collect();
            serde_json::to_writer(&mut out, &object)?;
            out.write_all(b"\n")?;
            written += 1;
        }
        Ok(())
    })?;
    Ok(written)
}

/// One value of a batch.
pub(crate) enum Cell<'a> {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(&'a str),
    Map(Map<String, Json>),
}

impl Cell<'_> {
    pub(crate) fn of(array: &dyn Array, row: usize) -> Cell<'_> {
        if array.is_null(row) {
            return Cell::Null;
        }
        match array.data_type() {
            DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
            DataType::Int64 => Cell::Signed(array.as_primitive::<Int64Type>().value(row)),
            DataType::UInt64 => Cell::Unsigned(array.as_primitive::<UInt64Type>().value(row)),
            DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row)),
            DataType::Dictionary(..) => {
                let texts = array.as_dictionary::<Int32Type>();
                let text = texts
                    .key(row)
                    .map(|key| texts.values().as_string::<i32>().value(key));
                text.map_or(Cell::Null, Cell::Text)
            }
            DataType::Map(..) => {
                let entries = array.as_map().value(row);
                let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1));
                let entry = |index: usize| {
                    let value = match Cell::of(values.as_ref(), index) {
                        Cell::Signed(value) => Json::from(value),
                        Cell::Float(value) => Json::from(value),
                        _ => Json::Null,
                    };
                    (keys.value(index).to_owned(), value)
                };
                Cell::Map((0..entries.len()).map(entry).collect())
            }
            _ => Cell::Null,
        }
    }
}
