//! What was seen around the calls, as Parquet files or JSON lines. There are values of the node sampler's
//! series, the times when threads were off their CPUs, and the times when they were inside of MPI.
//!
//! Columns are those of docs/reference/tables.md. In JSON lines, what is null there is left out.
//!
//! Rule: both formats have the rows of the Arrow table, in its order.

use crate::batches;
use crate::parquet::with_units;
use ::parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use ::parquet::errors::Result;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use serde_json::{Map, Value as Json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use tables::mpi::MpiSpan;
use tables::nodes::{Off, Series, Switches};
use tables::{Capture, Node, Process};

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleTable {
    /// A row for each value of each series.
    Samples,
    /// A row for each stretch in which a thread was off its CPU.
    Switches,
    /// A row for each time in which a thread was inside of MPI.
    Mpi,
}

impl SampleTable {
    /// The table of a capture.
    ///
    /// # Errors
    /// When there are more than 2 GiB of texts.
    pub fn of(self, capture: &Capture) -> std::result::Result<RecordBatch, ArrowError> {
        match self {
            SampleTable::Samples => batches::samples(capture),
            SampleTable::Switches => batches::switches(capture),
            SampleTable::Mpi => batches::mpi(capture),
        }
    }

    fn name(self) -> &'static str {
        match self {
            SampleTable::Samples => "samples",
            SampleTable::Switches => "switches",
            SampleTable::Mpi => "mpi",
        }
    }

    /// Writes `FOLDER/part-0.parquet`, and returns how many rows it has.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn parquet(self, capture: &Capture, folder: &Path) -> Result<u64> {
        std::fs::create_dir_all(folder)?;
        let batch = self.of(capture)?;
        let file = File::create(folder.join("part-0.parquet"))?;
        let units = match self {
            SampleTable::Samples => &batches::SAMPLES[..],
            SampleTable::Switches => &batches::SWITCHES[..],
            SampleTable::Mpi => &batches::MPI[..],
        };
        let units = units.iter().map(|(name, _, unit)| (*name, *unit));
        let options = ArrowWriterOptions::new().with_properties(with_units(self.name(), units));
        let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options)?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(batch.num_rows() as u64)
    }

    /// Writes one JSON object a line, and returns how many.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn jsonl(self, capture: &Capture, out: &mut impl Write) -> std::io::Result<u64> {
        let mut written = 0;
        let mut line = |object: Map<String, Json>| {
            written += 1;
            serde_json::to_writer(&mut *out, &object)?;
            out.write_all(b"\n")
        };
        if self == SampleTable::Mpi {
            for process in &capture.processes {
                for span in &process.mpi.spans {
                    line(inside(process, span))?;
                }
            }
        }
        for node in &capture.nodes {
            match self {
                SampleTable::Mpi => {}
                SampleTable::Samples => {
                    for series in &node.series {
                        for point in &series.points {
                            line(value(node, series, *point))?;
                        }
                    }
                }
                SampleTable::Switches => {
                    for thread in &node.switches {
                        for off in &thread.off {
                            line(stretch(node, thread, off))?;
                        }
                    }
                }
            }
        }
        Ok(written)
    }
}

fn object<const N: usize>(fields: [(&str, Json); N]) -> Map<String, Json> {
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn value(node: &Node, series: &Series, (at, value): (i64, u64)) -> Map<String, Json> {
    let of = Some(series.of.as_str()).filter(|of| !of.is_empty());
    object([
        ("host", node.host.as_str().into()),
        ("name", series.name.as_str().into()),
        ("of", of.into()),
        ("at_ns", at.into()),
        ("value", value.into()),
        ("counts_up", series.kind().map(|kind| kind.counts).into()),
    ])
}

fn stretch(node: &Node, thread: &Switches, off: &Off) -> Map<String, Json> {
    let ids = thread.thread();
    object([
        ("host", node.host.as_str().into()),
        ("pid", ids.map(|ids| ids.0).into()),
        ("tid", ids.map(|ids| ids.1).into()),
        ("thread", thread.name().into()),
        ("off_ns", off.from.into()),
        ("time_ns", off.to.saturating_sub(off.from).into()),
        ("preempted", off.preempted.into()),
    ])
}

fn inside(process: &Process, span: &MpiSpan) -> Map<String, Json> {
    object([
        ("launcher_rank", process.rank.into()),
        ("host", process.host.as_str().into()),
        ("pid", process.pid.into()),
        ("tid", span.thread.into()),
        ("function", process.mpi.name(span).into()),
        ("calls", span.calls.into()),
        ("mpi_ns", span.from.into()),
        ("time_ns", (span.to - span.from).into()),
        ("inside_ns", span.inside.into()),
        ("open", span.open.into()),
    ])
}
