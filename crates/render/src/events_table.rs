//! The callbacks of a capture as a table: the lines of [`crate::jsonl`], with what they share in columns.

use crate::batches;
use crate::jsonl::each;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use serde_json::{Map, Value};
use tables::columns::Value as Cell;
use tables::Capture;

/// Columns of the table of events: name, type and unit. Others of a line's keys are in `fields`.
pub const COLUMNS: [(&str, &str, &str); 22] = [
    ("launcher_rank", "int", ""),
    ("host", "text", ""),
    ("pid", "int", ""),
    ("thread", "int", ""),
    ("tid", "int", ""),
    ("thread_name", "text", ""),
    ("role", "text", ""),
    ("at_ns", "time", "ns since 1970"),
    ("ticks", "int", ""),
    ("abi", "int", ""),
    ("callback", "text", ""),
    ("event", "int", ""),
    ("type", "text", ""),
    ("context", "text", ""),
    ("handle", "text", ""),
    ("parent", "text", ""),
    ("parent_event", "int", ""),
    ("parent_pid", "int", ""),
    ("state", "text", ""),
    ("state_number", "int", ""),
    ("args", "bool", ""),
    ("fields", "text", ""),
];

/// Lines of a batch: each is a map, of a kilobyte or two.
const BATCH: usize = 16_384;

/// The table of events, batch by batch. `fields` is JSON text.
///
/// # Errors
/// Those of `take`.
pub(crate) fn batches(
    capture: &Capture,
    take: &mut dyn FnMut(&RecordBatch) -> std::io::Result<()>,
) -> std::io::Result<()> {
    batches_of(capture, BATCH, take)
}

/// The table of events in one batch: the callbacks of NCCL that a capture has.
///
/// # Errors
/// When there are more than 2 GiB of texts in a column, or an event can't be read.
pub fn events(capture: &Capture) -> Result<RecordBatch, ArrowError> {
    let mut all = None;
    let made = batches_of(capture, usize::MAX, &mut |batch| {
        all = Some(batch.clone());
        Ok(())
    });
    let all = made.and_then(|()| all.ok_or_else(|| std::io::Error::other("no batch was made")));
    all.map_err(|error| ArrowError::ExternalError(Box::new(error)))
}

fn batches_of(
    capture: &Capture,
    most: usize,
    take: &mut dyn FnMut(&RecordBatch) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut lines: Vec<Map<String, Value>> = Vec::new();
    let mut flush = |lines: &mut Vec<Map<String, Value>>| {
        let batch = batches::table(COLUMNS.into_iter(), lines, |column, line| {
            let key = match COLUMNS[column].0 {
                "launcher_rank" => "global_rank",
                "at_ns" => "t_ns",
                name => name,
            };
            cell(line.get(key))
        });
        lines.clear();
        take(&batch.map_err(std::io::Error::other)?)
    };
    each(capture, &mut |mut line| {
        if let Some(fields) = line.get_mut("fields") {
            *fields = fields.to_string().into();
        }
        lines.push(line);
        if lines.len() < most {
            Ok(())
        } else {
            flush(&mut lines)
        }
    })?;
    flush(&mut lines)
}

fn cell(value: Option<&Value>) -> Cell<'_> {
    match value {
        Some(Value::Bool(value)) => Cell::Bool(*value),
        Some(Value::String(text)) => Cell::Text(text),
        Some(Value::Number(number)) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Cell::Unsigned(value),
            (None, Some(value)) => Cell::Signed(value),
            _ => Cell::Null,
        },
        _ => Cell::Null,
    }
}
