//! The table of calls as Parquet files, one folder for each communicator.
//!
//! `FOLDER/communicator=ID/part-0.parquet`, as Hive lays tables out: DuckDB, pandas, Polars and Spark read
//! the folder as one table and take the column `communicator` from the path. Calls whose communicator is not
//! known are under Hive's name for null. The other columns are those of `docs/reference/tables.md`, with its
//! types and nulls.
//!
//! Rule: one row group is in memory at a time; of a call, only the number of its operation is kept beside it.

use crate::batches::{self, CallsTable};
use ::parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use analyze::operation_ids::OperationIds;
use arrow_schema::{DataType, Schema};
use serde_json::json;
use std::fs::File;
use std::path::Path;
use tables::calls::{CallRef, Column, COLUMNS};
use tables::Capture;

/// The column that the path holds.
const PARTITION: &str = "communicator";

/// Writes the folder and returns how many calls are in it.
///
/// # Errors
/// When a file can't be written.
pub fn write(capture: &Capture, folder: &Path) -> Result<u64> {
    // The last list is of calls on unknown communicators.
    let mut lists: Vec<Vec<(u32, u32)>> = vec![Vec::new(); capture.communicators.len() + 1];
    let unknown = capture.communicators.len();
    for (index, process) in capture.processes.iter().enumerate() {
        for (number, call) in process.calls.iter().enumerate() {
            let communicator = process.shapes[call.shape as usize].communicator;
            let list = communicator.map_or(unknown, |c| (c as usize).min(unknown));
            lists[list].push((index as u32, number as u32));
        }
    }
    let table = CallsTable::new(columns().collect());
    let ids = OperationIds::of(capture);
    let mut written = 0;
    for (list, calls) in lists.iter().enumerate().filter(|(_, l)| !l.is_empty()) {
        let name = match capture.communicators.get(list) {
            Some(communicator) => encode(&communicator.id),
            None => "__HIVE_DEFAULT_PARTITION__".into(),
        };
        let part = folder.join(format!("{PARTITION}={name}"));
        std::fs::create_dir_all(&part)?;
        let file = File::create(part.join("part-0.parquet"))?;
        let options = ArrowWriterOptions::new()
            .with_properties(properties("calls", &table.schema()))
            .with_skip_arrow_metadata(true);
        let mut writer = ArrowWriter::try_new_with_options(file, table.schema(), options)?;
        for calls in calls.chunks(batches::ROWS) {
            let rows: Vec<CallRef<'_>> = rows(capture, &ids, calls).collect();
            writer.write(&table.batch(&rows)?)?;
        }
        writer.close()?;
        written += calls.len() as u64;
    }
    Ok(written)
}

fn columns() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| column.name != PARTITION)
}

/// How the files of a table with this schema are written.
pub(crate) fn properties(table: &str, schema: &Schema) -> WriterProperties {
    let units = schema.fields().iter().filter_map(|field| {
        let unit = field.metadata().get("unit")?;
        Some((field.name().clone(), unit.as_str().into()))
    });
    let units = serde_json::Value::Object(units.collect()).to_string();
    WriterProperties::builder()
        .set_created_by(format!("ncclscope {}", env!("CARGO_PKG_VERSION")))
        .set_max_row_group_row_count(Some(batches::ROWS))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![
            KeyValue::new("ncclscope.table".to_owned(), table.to_owned()),
            KeyValue::new("ncclscope.units".to_owned(), units),
            KeyValue::new("pandas".to_owned(), for_pandas(schema)),
        ]))
        .build()
}

/// What pandas writes about its own types. Without it, pandas reads whole numbers as doubles if some are
/// null, and a handle or a time since 1970 loses its last digits.
fn for_pandas(schema: &Schema) -> String {
    let columns = schema.fields().iter().filter_map(|field| {
        let (pandas, numpy) = match field.data_type() {
            DataType::Int64 => ("int64", "Int64"),
            DataType::UInt64 => ("uint64", "UInt64"),
            DataType::Boolean => ("bool", "boolean"),
            _ => return None,
        };
        Some(json!({
            "name": field.name(),
            "field_name": field.name(),
            "pandas_type": pandas,
            "numpy_type": numpy,
            "metadata": null,
        }))
    });
    json!({
        "index_columns": [],
        "column_indexes": [],
        "columns": columns.collect::<Vec<_>>(),
        "creator": { "library": "ncclscope", "version": env!("CARGO_PKG_VERSION") },
        "pandas_version": "2.0.0",
    })
    .to_string()
}

fn rows<'a>(
    capture: &'a Capture,
    ids: &'a OperationIds,
    calls: &'a [(u32, u32)],
) -> impl Iterator<Item = CallRef<'a>> {
    calls.iter().map(move |(index, number)| {
        let process = &capture.processes[*index as usize];
        let call = &process.calls[*number as usize];
        CallRef {
            capture,
            process,
            index: *index as usize,
            call,
            shape: &process.shapes[call.shape as usize],
            operation: ids.get(*index as usize, *number as usize),
        }
    })
}

/// A value in a path: what could be read as something else there is written %XX, as Hive does.
fn encode(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' => {
                encoded.push(byte.into())
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_later_communicator_with_the_same_hash_has_a_path_of_its_own() {
        assert_eq!(super::encode("8fe72aa4#2"), "8fe72aa4%232");
    }
}
