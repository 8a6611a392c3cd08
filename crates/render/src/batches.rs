//! The tables as Arrow record batches: what the Parquet export writes and what Python hands to dataframe libraries.
//!
//! A [`Calls`] is a choice of columns of the table of calls, made into batches of a range of rows. [`operations`] is the
//! table of operations as one batch, with the columns that the report's JSON Schema gives it: statistics are flattened
//! (`time_us_p50`), maps stay maps.
//!
//! Rule: a column's type depends on its declaration alone, never on the values of a capture.

use crate::json::SCHEMA;
use analyze::streams::kernels;
use analyze::Report;
use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, MapBuilder, MapFieldNames, StringBuilder,
    StringDictionaryBuilder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use serde_json::{json, Value as Json};
use std::collections::HashMap;
use std::sync::Arc;
use tables::calls::{CallRef, Column, Value};

/// Rows of a batch, and of a row group in Parquet: DuckDB's own, and few enough that a batch is tens of megabytes.
pub const ROWS: usize = 122_880;

/// Columns of the table of calls.
#[derive(Clone)]
pub struct Calls {
    columns: Vec<&'static Column>,
    schema: SchemaRef,
}

impl Calls {
    /// The table with these columns. Units are in the metadata of the fields.
    pub fn new(columns: Vec<&'static Column>) -> Calls {
        let field = |column: &&Column| {
            let field = Field::new(column.name, type_of(column), true);
            match column.unit {
                "" => field,
                unit => field.with_metadata(HashMap::from([("unit".into(), unit.into())])),
            }
        };
        let fields: Fields = columns.iter().map(field).collect();
        Calls {
            schema: Arc::new(Schema::new(fields)),
            columns,
        }
    }

    /// Its schema.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The rows of `capture` from `first` on, at most `count`, in the order of [`tables::Capture::rows`].
    ///
    /// # Errors
    /// As [`Calls::batch`].
    pub fn range(
        &self,
        capture: &tables::Capture,
        first: usize,
        count: usize,
    ) -> Result<RecordBatch, ArrowError> {
        let mut rows = Vec::with_capacity(count.min(ROWS));
        let mut skip = first;
        for (index, process) in capture.processes.iter().enumerate() {
            let calls = process.calls.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(process.calls.len());
            rows.extend(calls.iter().take(count - rows.len()).map(|call| CallRef {
                capture,
                process,
                index,
                call,
                shape: &process.shapes[call.shape as usize],
            }));
        }
        self.batch(&rows)
    }

    /// These rows as a batch.
    ///
    /// # Errors
    /// When the texts of a column are longer than 2 GiB together.
    pub fn batch(&self, rows: &[CallRef<'_>]) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.iter().map(|column| array(column, rows));
        RecordBatch::try_new_with_options(
            self.schema.clone(),
            arrays.collect(),
            &arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len())),
        )
    }
}

fn type_of(column: &Column) -> DataType {
    match column.kind {
        "bool" => DataType::Boolean,
        "text" => DataType::Utf8,
        "int" => DataType::Int64,
        _ => DataType::UInt64,
    }
}

fn array(column: &Column, rows: &[CallRef<'_>]) -> ArrayRef {
    let values = rows.iter().map(|row| (column.value)(row));
    match column.kind {
        "bool" => {
            let mut builder = BooleanBuilder::with_capacity(rows.len());
            values.for_each(|value| match value {
                Value::Bool(value) => builder.append_value(value),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
        "text" => {
            let mut builder = StringBuilder::with_capacity(rows.len(), rows.len() * 8);
            values.for_each(|value| match value {
                Value::Text(value) => builder.append_value(value),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
        "int" => {
            let mut builder = Int64Builder::with_capacity(rows.len());
            values.for_each(|value| match value {
                Value::Signed(value) => builder.append_value(value),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = UInt64Builder::with_capacity(rows.len());
            values.for_each(|value| match value {
                Value::Unsigned(value) => builder.append_value(value),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
    }
}

/// The table of operations of a report.
///
/// # Errors
/// Never for a report whose JSON is as its schema says.
pub fn operations(report: &Report) -> Result<RecordBatch, ArrowError> {
    of_report("operations", &report.operations)
}

/// The table of CUDA graphs of a report; the calls of one launch stay JSON.
///
/// # Errors
/// As [`operations`].
pub fn graphs(report: &Report) -> Result<RecordBatch, ArrowError> {
    of_report("graphs", &report.graphs)
}

/// The launches of CUDA graphs of a capture, one by one.
///
/// # Errors
/// Never.
pub fn graph_launches(capture: &tables::Capture) -> Result<RecordBatch, ArrowError> {
    let launches = || {
        let processes = capture.processes.iter();
        processes.flat_map(|process| process.graphs.launches.iter().map(move |l| (process, l)))
    };
    let unsigned = |value: &dyn Fn(&tables::Process, &tables::graphs::Launch) -> Option<u64>| {
        let values = launches().map(|(process, launch)| value(process, launch));
        Arc::new(values.collect::<arrow_array::UInt64Array>()) as ArrayRef
    };
    let at = launches().map(|(_, launch)| Some(launch.at));
    let hosts = launches().map(|(process, _)| Some(process.host.as_str()));
    RecordBatch::try_from_iter_with_nullable([
        (
            "rank",
            unsigned(&|process, _| process.rank.map(u64::from)),
            true,
        ),
        (
            "host",
            Arc::new(hosts.collect::<arrow_array::StringArray>()) as ArrayRef,
            true,
        ),
        (
            "pid",
            unsigned(&|process, _| Some(process.pid.into())),
            true,
        ),
        (
            "graph",
            unsigned(&|_, launch| Some(launch.graph.into())),
            true,
        ),
        (
            "calls",
            unsigned(&|process, launch| process.graphs.calls_of(launch.graph)),
            true,
        ),
        (
            "launch_ns",
            Arc::new(at.collect::<arrow_array::Int64Array>()) as ArrayRef,
            true,
        ),
        ("took_ns", unsigned(&|_, launch| Some(launch.took)), true),
        ("stream", unsigned(&|_, launch| Some(launch.stream)), true),
    ])
}

/// Everything that ran in kernel windows of a capture.
///
/// # Errors
/// As [`kernels_of`].
pub fn kernels(capture: &tables::Capture) -> Result<RecordBatch, ArrowError> {
    let processes = 0..capture.processes.len();
    let rows = processes.flat_map(|process| kernels::of_process(capture, process));
    kernels_of(&rows.collect::<Vec<_>>())
}

/// These rows of the table of kernels.
///
/// # Errors
/// When the texts of a column are longer than 2 GiB together.
pub fn kernels_of(rows: &[kernels::Row<'_>]) -> Result<RecordBatch, ArrowError> {
    let column = |column: &kernels::Column| -> ArrayRef {
        let values = rows.iter().map(|row| (column.value)(row));
        match column.kind {
            "bool" => Arc::new(arrow_array::BooleanArray::from_iter(values.map(
                |value| match value {
                    Value::Bool(value) => Some(value),
                    _ => None,
                },
            ))),
            "text" => {
                // Names of kernels are long, and few.
                let mut builder = StringDictionaryBuilder::<Int32Type>::new();
                values.for_each(|value| match value {
                    Value::Text(value) => builder.append_value(value),
                    _ => builder.append_null(),
                });
                Arc::new(builder.finish())
            }
            "int" => Arc::new(arrow_array::Int64Array::from_iter(values.map(
                |value| match value {
                    Value::Signed(value) => Some(value),
                    _ => None,
                },
            ))),
            _ => Arc::new(arrow_array::UInt64Array::from_iter(values.map(
                |value| match value {
                    Value::Unsigned(value) => Some(value),
                    _ => None,
                },
            ))),
        }
    };
    let arrays = kernels::COLUMNS.iter().map(column).collect();
    RecordBatch::try_new(kernels_schema(), arrays)
}

/// The schema of the table of kernels. Units are in the metadata of the fields.
pub fn kernels_schema() -> SchemaRef {
    let field = |column: &kernels::Column| {
        let kind = match column.kind {
            "bool" => DataType::Boolean,
            "text" => DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()),
            "int" => DataType::Int64,
            _ => DataType::UInt64,
        };
        let field = Field::new(column.name, kind, true);
        match column.unit {
            "" => field,
            unit => field.with_metadata(HashMap::from([("unit".into(), unit.into())])),
        }
    };
    let fields: Fields = kernels::COLUMNS.iter().map(field).collect();
    Arc::new(Schema::new(fields))
}

/// An array of the report's JSON as a table.
fn of_report(name: &str, rows: &impl serde::Serialize) -> Result<RecordBatch, ArrowError> {
    let json = |error: serde_json::Error| ArrowError::JsonError(error.to_string());
    let schema: Json = serde_json::from_str(SCHEMA).map_err(json)?;
    let rows = serde_json::to_value(rows).map_err(json)?;
    let rows: Vec<&Json> = rows.as_array().into_iter().flatten().collect();
    let mut columns = Vec::new();
    flatten(
        &schema,
        &schema["properties"][name]["items"],
        "",
        &rows,
        &mut columns,
    );
    let fields: Fields = columns.iter().map(|(field, _)| field.clone()).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// Appends the columns of what `declared` declares, with `values` in them.
fn flatten(
    schema: &Json,
    declared: &Json,
    name: &str,
    values: &[&Json],
    columns: &mut Vec<(Field, ArrayRef)>,
) {
    if let Some(path) = declared["$ref"].as_str() {
        let target = schema.pointer(path.trim_start_matches('#'));
        return flatten(schema, target.unwrap_or(&Json::Null), name, values, columns);
    }
    if let Some(parts) = declared["properties"].as_object() {
        for (part, declared) in parts {
            let name = match name {
                "" => part.clone(),
                name => format!("{name}_{part}"),
            };
            let values: Vec<&Json> = values.iter().map(|value| &value[part]).collect();
            flatten(schema, declared, &name, &values, columns);
        }
        return;
    }
    let array: ArrayRef = if has_type(declared, "object") {
        counts(values)
    } else if has_type(declared, "integer") && declared["minimum"] == json!(0) {
        Arc::new(
            values
                .iter()
                .map(|v| v.as_u64())
                .collect::<arrow_array::UInt64Array>(),
        )
    } else if has_type(declared, "integer") {
        Arc::new(
            values
                .iter()
                .map(|v| v.as_i64())
                .collect::<arrow_array::Int64Array>(),
        )
    } else if has_type(declared, "number") {
        let mut builder = Float64Builder::with_capacity(values.len());
        values
            .iter()
            .for_each(|v| builder.append_option(v.as_f64()));
        Arc::new(builder.finish())
    } else if has_type(declared, "boolean") {
        Arc::new(
            values
                .iter()
                .map(|v| v.as_bool())
                .collect::<arrow_array::BooleanArray>(),
        )
    } else {
        // What has no type of its own here stays JSON.
        let text = |value: &&Json| match value {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            value => Some(value.to_string()),
        };
        Arc::new(
            values
                .iter()
                .map(text)
                .collect::<arrow_array::StringArray>(),
        )
    };
    columns.push((Field::new(name, array.data_type().clone(), true), array));
}

fn has_type(declared: &Json, name: &str) -> bool {
    match &declared["type"] {
        Json::String(one) => one == name,
        Json::Array(any) => any.iter().any(|one| one == name),
        _ => false,
    }
}

/// Objects with counts under any names.
fn counts(values: &[&Json]) -> ArrayRef {
    let names = MapFieldNames {
        entry: "entries".into(),
        key: "key".into(),
        value: "value".into(),
    };
    let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), UInt64Builder::new());
    for value in values {
        for (key, count) in value.as_object().into_iter().flatten() {
            builder.keys().append_value(key);
            builder.values().append_option(count.as_u64());
        }
        // Fails only where keys and values differ in number.
        let _ = builder.append(value.is_object());
    }
    Arc::new(builder.finish())
}
