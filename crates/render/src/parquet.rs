//! The table of calls as Parquet files, one folder for each communicator.
//!
//! `FOLDER/communicator=ID/part-0.parquet`, as Hive lays tables out: DuckDB, pandas, Polars and Spark read the folder as
//! one table and take the column `communicator` from the path. Calls whose communicator is not known are under Hive's
//! name for null. The other columns are those of `docs/tables.md`, with its types and nulls.
//!
//! Rule: a row group is written column by column straight from the capture, so memory does not grow with the calls.

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::ByteArray;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use tables::calls::{Column, Row, Value, COLUMNS};
use tables::Capture;

/// Rows of a row group: DuckDB's own, and few enough that a column of it is small.
const ROW_GROUP: usize = 122_880;

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
    let schema = schema()?;
    let properties = Arc::new(properties());
    let mut written = 0;
    for (list, calls) in lists.iter().enumerate().filter(|(_, l)| !l.is_empty()) {
        let name = match capture.communicators.get(list) {
            Some(communicator) => encode(&communicator.id),
            None => "__HIVE_DEFAULT_PARTITION__".into(),
        };
        let part = folder.join(format!("{PARTITION}={name}"));
        std::fs::create_dir_all(&part)?;
        let file = File::create(part.join("part-0.parquet"))?;
        let mut writer = SerializedFileWriter::new(file, schema.clone(), properties.clone())?;
        for calls in calls.chunks(ROW_GROUP) {
            let mut group = writer.next_row_group()?;
            for column in columns() {
                let mut out = group
                    .next_column()?
                    .ok_or_else(|| ParquetError::General("no column is left".into()))?;
                fill(out.untyped(), column, rows(capture, calls))?;
                out.close()?;
            }
            group.close()?;
        }
        writer.close()?;
        written += calls.len() as u64;
    }
    Ok(written)
}

fn columns() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| column.name != PARTITION)
}

fn schema() -> Result<Arc<Type>> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            "bool" => (Physical::BOOLEAN, None),
            "text" => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            kind => (
                Physical::INT64,
                Some(LogicalType::integer(64, kind == "int")),
            ),
        };
        Type::primitive_type_builder(column.name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL)
            .build()
            .map(Arc::new)
    };
    let fields = columns().map(field).collect::<Result<_>>()?;
    let schema = Type::group_type_builder("calls").with_fields(fields);
    Ok(Arc::new(schema.build()?))
}

fn properties() -> WriterProperties {
    let units: serde_json::Map<String, serde_json::Value> = columns()
        .filter(|column| !column.unit.is_empty())
        .map(|column| (column.name.to_owned(), column.unit.into()))
        .collect();
    let units = serde_json::Value::Object(units).to_string();
    WriterProperties::builder()
        .set_created_by(format!("ncclscope {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![
            KeyValue::new("ncclscope.table".to_owned(), "calls".to_owned()),
            KeyValue::new("ncclscope.units".to_owned(), units),
        ]))
        .build()
}

fn rows<'a>(capture: &'a Capture, calls: &'a [(u32, u32)]) -> impl Iterator<Item = Row<'a>> {
    calls.iter().map(move |(index, number)| {
        let process = &capture.processes[*index as usize];
        let call = &process.calls[*number as usize];
        Row {
            capture,
            process,
            index: *index as usize,
            call,
            shape: &process.shapes[call.shape as usize],
        }
    })
}

/// Writes a column of these rows. Unsigned numbers keep their bits, as Parquet has it.
fn fill<'a>(
    out: &mut ColumnWriter<'_>,
    column: &Column,
    rows: impl Iterator<Item = Row<'a>>,
) -> Result<()> {
    fn split<'a, T>(
        values: impl Iterator<Item = Value<'a>>,
        value: impl Fn(Value<'a>) -> Option<T>,
    ) -> (Vec<T>, Vec<i16>) {
        let mut known = Vec::new();
        let levels = values.map(|v| {
            let v = value(v);
            let level = i16::from(v.is_some());
            known.extend(v);
            level
        });
        let levels = levels.collect();
        (known, levels)
    }
    let values = rows.map(|row| (column.value)(&row));
    match out {
        ColumnWriter::BoolColumnWriter(out) => {
            let (values, levels) = split(values, |value| match value {
                Value::Bool(value) => Some(value),
                _ => None,
            });
            out.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::Int64ColumnWriter(out) => {
            let (values, levels) = split(values, |value| match value {
                Value::Unsigned(value) => Some(value as i64),
                Value::Signed(value) => Some(value),
                _ => None,
            });
            out.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(out) => {
            let (values, levels) = split(values, |value| match value {
                Value::Text(value) => Some(ByteArray::from(value)),
                _ => None,
            });
            out.write_batch(&values, Some(&levels), None)?;
        }
        _ => return Err(ParquetError::NYI(format!("column `{}`", column.name))),
    }
    Ok(())
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
