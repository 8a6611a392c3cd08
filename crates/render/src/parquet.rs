//! How a table is written as a Parquet file: compression, row groups, and what the file says of its columns.

use crate::batches;
use ::parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use arrow_schema::{DataType, Schema, SchemaRef};
use serde_json::json;
use std::io::Write;

/// A writer of one file of `table`, with this schema.
///
/// # Errors
/// Those of `out`.
pub(crate) fn writer<W: Write + Send>(
    out: W,
    table: &str,
    schema: SchemaRef,
) -> Result<ArrowWriter<W>> {
    // Beside Arrow's own schema, pandas would not look at what is written for it.
    let options = ArrowWriterOptions::new()
        .with_properties(properties(table, &schema))
        .with_skip_arrow_metadata(true);
    ArrowWriter::try_new_with_options(out, schema, options)
}

fn properties(table: &str, schema: &Schema) -> WriterProperties {
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
