//! The table of kernels as Parquet files or JSON lines: everything that ran on GPUs in kernel windows.
//!
//! Columns are those of docs/reference/tables.md. In JSON lines, what is null there is left out.
//!
//! Rule: the rows of one process are in memory at a time.

use crate::batches;
use crate::parquet::with_units;
use ::parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use ::parquet::errors::Result;
use analyze::streams::kernels::{of_process, COLUMNS};
use serde_json::{Map, Value as Json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use tables::calls::Value;
use tables::Capture;

/// Writes `FOLDER/part-PROCESS.parquet` for each process, and returns how many rows they have. A process
/// without kernels has an empty table if no process has any, so that readers find the columns.
///
/// # Errors
/// When a file can't be written.
pub fn parquet(capture: &Capture, folder: &Path) -> Result<u64> {
    std::fs::create_dir_all(folder)?;
    let mut written = 0;
    for process in 0..capture.processes.len() {
        let rows = of_process(capture, process);
        let last = process + 1 == capture.processes.len();
        if rows.is_empty() && !(last && written == 0) {
            continue;
        }
        let file = File::create(folder.join(format!("part-{process}.parquet")))?;
        let units = COLUMNS.iter().map(|column| (column.name, column.unit));
        let options = ArrowWriterOptions::new().with_properties(with_units("kernels", units));
        let schema = batches::kernels_schema();
        let mut writer = ArrowWriter::try_new_with_options(file, schema, options)?;
        for rows in rows.chunks(batches::ROWS) {
            writer.write(&batches::kernels_of(rows)?)?;
        }
        writer.close()?;
        written += rows.len() as u64;
    }
    Ok(written)
}

/// Writes one JSON object a line, and returns how many.
///
/// # Errors
/// Those of `out`.
pub fn jsonl(capture: &Capture, out: &mut impl Write) -> std::io::Result<u64> {
    let mut written = 0;
    for process in 0..capture.processes.len() {
        for row in of_process(capture, process) {
            let values = COLUMNS.iter().filter_map(|column| {
                let value = match (column.value)(&row) {
                    Value::Null => return None,
                    Value::Bool(value) => Json::from(value),
                    Value::Unsigned(value) => Json::from(value),
                    Value::Signed(value) => Json::from(value),
                    Value::Text(value) => Json::from(value),
                };
                Some((column.name.to_owned(), value))
            });
            let object: Map<String, Json> = values.collect();
            serde_json::to_writer(&mut *out, &object)?;
            out.write_all(b"\n")?;
            written += 1;
        }
    }
    Ok(written)
}
