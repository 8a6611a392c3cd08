//! Every call as a Parquet file.
//!
//! One row for each call of each rank, in the order of the run. Calls that are not timed have rows, too, so
//! that a profiler's count can be compared with them. `mode` tells them apart: `warmup` and `check` have no
//! time.
//!
//! Rule: one batch of rows is in memory at a time, so memory does not grow with the calls.

use anyhow::{Context, Result};
use arrow_array::builder::{
    BooleanBuilder, Int64Builder, StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// What calls of a batch have in common.
#[derive(Clone, Debug)]
pub struct BatchShape<'a> {
    /// Name of the function.
    pub function: &'a str,
    /// Bytes, by nccl-tests' convention.
    pub bytes: u64,
    /// Elements, as the API takes them.
    pub count: u64,
    /// NCCL's name of the datatype.
    pub datatype: &'a str,
    /// In one buffer.
    pub in_place: bool,
    /// `single`, `back-to-back`, `warmup` or `check`.
    pub mode: &'a str,
    /// Calls in a group.
    pub group: u32,
    /// Rank that made them.
    pub rank: u32,
    /// Its process: some profilers name nothing else.
    pub pid: u32,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// Counts the calls of a kind.
    pub iteration: u64,
    /// Host time of the start, ns.
    pub start_ns: Option<i64>,
    /// After the first rank of this host, ns.
    pub skew_ns: Option<i64>,
    /// GPU time, ns.
    pub time_ns: Option<i64>,
    /// Host time inside it, ns.
    pub host_ns: Option<i64>,
}

/// The file.
pub struct CallsFile {
    writer: ArrowWriter<File>,
    schema: Arc<Schema>,
    run: String,
}

impl CallsFile {
    /// A new file; `run` names the run in every row.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn create(path: &Path, run: &str) -> Result<CallsFile> {
        let named = || format!("the table of calls `{}`", path.display());
        let field = |name: &str, kind: DataType, nullable: bool| Field::new(name, kind, nullable);
        let schema = Arc::new(Schema::new(vec![
            field("run", DataType::Utf8, false),
            field("function", DataType::Utf8, false),
            field("bytes", DataType::UInt64, false),
            field("count", DataType::UInt64, false),
            field("datatype", DataType::Utf8, false),
            field("in_place", DataType::Boolean, false),
            field("mode", DataType::Utf8, false),
            field("group", DataType::UInt32, false),
            field("iteration", DataType::UInt64, false),
            field("rank", DataType::UInt32, false),
            field("start_ns", DataType::Int64, true),
            field("skew_ns", DataType::Int64, true),
            field("time_ns", DataType::Int64, true),
            field("host_ns", DataType::Int64, true),
            field("pid", DataType::UInt32, false),
        ]));
        let properties = WriterProperties::builder()
            .set_created_by(format!("ncclscope {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(vec![KeyValue::new(
                "ncclscope.table".to_owned(),
                "bench_calls".to_owned(),
            )]))
            .build();
        let file = File::create(path).with_context(named)?;
        let writer =
            ArrowWriter::try_new(file, schema.clone(), Some(properties)).with_context(named)?;
        Ok(CallsFile {
            writer,
            schema,
            run: run.to_owned(),
        })
    }

    /// Appends calls.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn push(&mut self, kind: &BatchShape, calls: impl Iterator<Item = Made>) -> Result<()> {
        let calls: Vec<Made> = calls.collect();
        let text = |value: &str| -> ArrayRef {
            let mut column = StringBuilder::new();
            calls.iter().for_each(|_| column.append_value(value));
            Arc::new(column.finish())
        };
        let long = |value: &dyn Fn(&Made) -> u64| -> ArrayRef {
            let mut column = UInt64Builder::new();
            calls
                .iter()
                .for_each(|call| column.append_value(value(call)));
            Arc::new(column.finish())
        };
        let int = |value: u32| -> ArrayRef {
            let mut column = UInt32Builder::new();
            calls.iter().for_each(|_| column.append_value(value));
            Arc::new(column.finish())
        };
        let time = |value: &dyn Fn(&Made) -> Option<i64>| -> ArrayRef {
            let mut column = Int64Builder::new();
            calls
                .iter()
                .for_each(|call| column.append_option(value(call)));
            Arc::new(column.finish())
        };
        let mut in_place = BooleanBuilder::new();
        calls
            .iter()
            .for_each(|_| in_place.append_value(kind.in_place));
        let columns = vec![
            text(&self.run),
            text(kind.function),
            long(&|_| kind.bytes),
            long(&|_| kind.count),
            text(kind.datatype),
            Arc::new(in_place.finish()) as ArrayRef,
            text(kind.mode),
            int(kind.group),
            long(&|call| call.iteration),
            int(kind.rank),
            time(&|call| call.start_ns),
            time(&|call| call.skew_ns),
            time(&|call| call.time_ns),
            time(&|call| call.host_ns),
            int(kind.pid),
        ];
        let batch =
            RecordBatch::try_new(self.schema.clone(), columns).context("the table of calls")?;
        self.writer
            .write(&batch)
            .context("the table of calls can't be written")
    }

    /// Completes the file.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn finish(self) -> Result<()> {
        self.writer
            .close()
            .context("the table of calls can't be written")?;
        Ok(())
    }
}
