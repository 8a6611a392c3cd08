//! A table as a data set: Parquet files in folders that are named after what their rows have in common.
//!
//! `FOLDER/host=NAME/day=2026-11-27/part-0.parquet`, as Hive lays tables out: DuckDB, pandas, Polars and
//! Spark read the folder as one table and take the columns `host` and `day` from the path. A [`Key`] is such
//! a column. A value that is not known has Hive's name for null. The other columns are those of
//! `docs/reference/tables.md`, with its types and nulls.
//!
//! Several files are written at the same time. Which rows are in which file depends on the capture alone, and
//! not on the number of cores.
//!
//! Rule: each thread has one row group in memory; of a call, only the number of its operation is kept beside
//! it. Of other tables, at most [`WAITING`] rows and one batch wait for their file.

use crate::batches::{self, CallsTable};
use crate::parquet;
use crate::table::{Cell, Rows, Table};
use analyze::operation_ids::OperationIds;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::take::take_record_batch;
use jiff::tz::Offset;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use tables::calls::{CallRef, Column, COLUMNS};
use tables::{parallel, Capture};

/// Calls of a file at most: enough for a query to read one file after another at full speed, and few enough
/// that a large folder is written and read by several threads.
const PART: usize = 8 * batches::ROWS;
/// Rows of other tables that wait for their file at most.
const WAITING: usize = 4 * batches::ROWS;
/// Files that are written at the same time at most. Each takes tens of megabytes.
const AT_ONCE: usize = 8;
/// Hive's name for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// ns.
const HOUR: i64 = 3600 * 1_000_000_000;

/// A column that names folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The column `communicator`.
    Communicator,
    /// The column `host`.
    Host,
    /// The day of the table's time, in UTC: `2026-11-27`.
    Day,
    /// Its hour, in UTC: `2026-11-27T14`.
    Hour,
}

impl Key {
    /// All of them.
    pub const ALL: [Key; 4] = [Key::Communicator, Key::Host, Key::Day, Key::Hour];

    /// Its name in options and paths.
    pub fn name(self) -> &'static str {
        match self {
            Key::Communicator => "communicator",
            Key::Host => "host",
            Key::Day => "day",
            Key::Hour => "hour",
        }
    }

    /// The key with this name.
    pub fn of_name(name: &str) -> Option<Key> {
        Key::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Whether the rows of a table have it.
    pub fn is_of(self, table: Table) -> bool {
        match self {
            Key::Communicator => matches!(
                table,
                Table::Calls
                    | Table::Operations
                    | Table::Arrivals
                    | Table::Findings
                    | Table::Kernels
            ),
            Key::Host => !matches!(table, Table::Operations | Table::Graphs),
            Key::Day | Key::Hour => time_of(table).is_some(),
        }
    }
}

/// The column with the time of a row, of tables that have one.
pub fn time_of(table: Table) -> Option<&'static str> {
    match table {
        Table::Calls | Table::Arrivals => Some("api_ns"),
        Table::Steps | Table::Kernels => Some("start_ns"),
        Table::GraphLaunches => Some("launch_ns"),
        Table::Samples | Table::Events => Some("at_ns"),
        Table::Switches => Some("off_ns"),
        Table::Mpi => Some("mpi_ns"),
        Table::Operations | Table::Ranks | Table::Findings | Table::Account | Table::Graphs => None,
    }
}

/// Fails if a table can't be partitioned by these keys, with what it can be partitioned by.
///
/// # Errors
/// A sentence for people.
pub fn check(table: Table, keys: &[Key]) -> std::result::Result<(), String> {
    let mut seen = Vec::new();
    for key in keys {
        if seen.contains(key) {
            return Err(format!(
                "expected each column once, found `{}` twice",
                key.name()
            ));
        }
        seen.push(*key);
    }
    let Some(lacking) = keys.iter().find(|key| !key.is_of(table)) else {
        return Ok(());
    };
    let has = Key::ALL.into_iter().filter(|key| key.is_of(table));
    let has: Vec<&str> = has.map(Key::name).collect();
    let has = match has.as_slice() {
        [] => "nothing".to_owned(),
        has => format!("`{}`", has.join("`, `")),
    };
    Err(format!(
        "expected what the table of {} can be divided by ({has}), found `{}`",
        table.name(),
        lacking.name()
    ))
}

/// Writes a table into `folder`, in folders by `keys`, the first one outermost. Returns how many rows it has.
///
/// # Errors
/// When a file can't be written; those of [`Rows::each`]; if the table lacks a key ([`check`]).
pub fn write(rows: &Rows<'_>, table: Table, keys: &[Key], folder: &Path) -> Result<u64> {
    check(table, keys).map_err(Error::other)?;
    std::fs::create_dir_all(folder)?;
    match table {
        Table::Calls => calls(rows, keys, folder, PART),
        table => others(rows, table, keys, folder, WAITING),
    }
}

/// What the rows of a folder have in common; what is no key, or not known, is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place<'a> {
    communicator: Option<&'a str>,
    host: Option<&'a str>,
    /// Since 1970; the first one of the day if hours are no key.
    hour: Option<i64>,
}

impl<'a> Place<'a> {
    fn of(
        keys: &[Key],
        communicator: Option<&'a str>,
        host: Option<&'a str>,
        at_ns: Option<i64>,
    ) -> Place<'a> {
        let has = |key| keys.contains(&key);
        let hour = at_ns.map(|ns| ns.div_euclid(HOUR));
        Place {
            communicator: communicator.filter(|_| has(Key::Communicator)),
            host: host.filter(|host| has(Key::Host) && !host.is_empty()),
            hour: if has(Key::Hour) {
                hour
            } else {
                hour.filter(|_| has(Key::Day))
                    .map(|hour| hour.div_euclid(24) * 24)
            },
        }
    }

    /// Its folder in that of the data set.
    fn folder(&self, keys: &[Key]) -> PathBuf {
        let time = |form: &str| {
            let at = Timestamp::from_second(self.hour? * 3600).ok()?;
            Some(Offset::UTC.to_datetime(at).strftime(form).to_string())
        };
        let name = |key: &Key| {
            let value = match key {
                Key::Communicator => self.communicator.map(encode),
                Key::Host => self.host.map(encode),
                Key::Day => time("%Y-%m-%d"),
                Key::Hour => time("%Y-%m-%dT%H"),
            };
            format!("{}={}", key.name(), value.as_deref().unwrap_or(NULL))
        };
        keys.iter().map(name).collect()
    }
}

/// The name of a file in its folder.
fn part_name(number: usize) -> String {
    format!("part-{number}.parquet")
}

/// Whether this is the name of a file in a folder of a data set.
pub fn is_part(name: &str) -> bool {
    let number = name.strip_prefix("part-");
    let number = number.and_then(|name| name.strip_suffix(".parquet"));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether this is the name of a folder in a data set.
pub fn is_folder(name: &str) -> bool {
    let key = name.split_once('=').map(|(key, _)| key);
    key.is_some_and(|key| Key::of_name(key).is_some())
}

/// Writes one file and returns how many rows it has.
fn file(
    path: &Path,
    table: Table,
    schema: SchemaRef,
    batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
) -> Result<u64> {
    let write = || -> Result<u64> {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let writer = parquet::writer(File::create(path)?, table.name(), schema);
        let mut writer = writer.map_err(Error::other)?;
        let mut written = 0;
        for batch in batches {
            let batch = batch.map_err(Error::other)?;
            writer.write(&batch).map_err(Error::other)?;
            written += batch.num_rows() as u64;
        }
        writer.close().map_err(Error::other)?;
        Ok(written)
    };
    write().map_err(|error| Error::new(error.kind(), format!("`{}`: {error}", path.display())))
}

/// Writes several files at the same time.
fn files<T: Send>(parts: Vec<T>, write: impl Fn(T) -> Result<u64> + Sync) -> Result<u64> {
    let threads = parallel::cores().min(AT_ONCE);
    parallel::map(threads, parts, write).into_iter().sum()
}

/// The calls of a folder: indexes of their processes, and of the calls in these.
type Calls = Vec<(u32, u32)>;

/// `most` is [`PART`], but in tests.
fn calls(rows: &Rows<'_>, keys: &[Key], folder: &Path, most: usize) -> Result<u64> {
    let (capture, ids) = (rows.capture(), rows.ids());
    let mut places: HashMap<Place<'_>, Calls> = HashMap::new();
    for (index, process) in capture.processes.iter().enumerate() {
        for (number, call) in process.calls.iter().enumerate() {
            let communicator = process.shapes[call.shape as usize].communicator;
            let communicator = communicator.and_then(|c| capture.communicators.get(c as usize));
            let communicator = communicator.map(|communicator| communicator.id.as_str());
            let at = Some(call.api_ns).filter(|ns| *ns != 0);
            let place = Place::of(keys, communicator, Some(&process.host), at);
            let calls = places.entry(place).or_default();
            calls.push((index as u32, number as u32));
        }
    }
    let parts = places.iter().flat_map(|(place, calls)| {
        let folder = folder.join(place.folder(keys));
        let parts = calls.chunks(most).enumerate();
        parts.map(move |(number, calls)| (folder.join(part_name(number)), calls))
    });
    let mut parts: Vec<(PathBuf, &[(u32, u32)])> = parts.collect();
    // The large ones first, so that no thread has one of them left when the others have nothing to do.
    parts.sort_by_key(|(_, calls)| Reverse(calls.len()));
    let is_in_path = |column: &&Column| keys.iter().any(|key| key.name() == column.name);
    let columns = COLUMNS.iter().filter(|column| !is_in_path(column));
    let table = CallsTable::new(columns.collect());
    files(parts, |(path, calls)| {
        let batches = calls.chunks(batches::ROWS).map(|calls| {
            let rows: Vec<CallRef<'_>> = call_refs(capture, ids, calls).collect();
            table.batch(&rows)
        });
        file(&path, Table::Calls, table.schema(), batches)
    })
}

fn call_refs<'a>(
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

/// Rows that wait for their file.
#[derive(Default)]
struct Waiting {
    folders: BTreeMap<PathBuf, Folder>,
    rows: usize,
}

#[derive(Default)]
struct Folder {
    waiting: Vec<RecordBatch>,
    rows: usize,
    /// Files that are written.
    parts: usize,
}

impl Folder {
    /// The next file, and what is to be in it.
    fn take(&mut self, at: &Path) -> Option<(PathBuf, Vec<RecordBatch>)> {
        let rows = std::mem::take(&mut self.waiting);
        if rows.is_empty() {
            return None;
        }
        let path = at.join(part_name(self.parts));
        self.parts += 1;
        self.rows = 0;
        Some((path, rows))
    }
}

/// `most` is [`WAITING`], but in tests.
fn others(rows: &Rows<'_>, table: Table, keys: &[Key], folder: &Path, most: usize) -> Result<u64> {
    let mut waiting = Waiting::default();
    let (mut written, mut empty) = (0, None);
    let write = |(path, batches): (PathBuf, Vec<RecordBatch>)| {
        let schema = batches.first().map(RecordBatch::schema);
        let schema = schema.ok_or_else(|| Error::other("no rows"))?;
        file(&path, table, schema, batches.into_iter().map(Ok))
    };
    rows.each(table, &mut |batch| {
        empty.get_or_insert_with(|| batch.slice(0, 0));
        for (place, indexes) in divided(batch, table, keys)? {
            let rows = kept(batch, keys, indexes).map_err(Error::other)?;
            let folder = waiting.folders.entry(folder.join(place)).or_default();
            folder.rows += rows.num_rows();
            waiting.rows += rows.num_rows();
            folder.waiting.push(rows);
        }
        while waiting.rows > most {
            let mut folders = waiting.folders.iter_mut();
            let first = folders.next();
            let largest = folders.fold(first, |most, next| match most {
                Some(most) if most.1.rows >= next.1.rows => Some(most),
                _ => Some(next),
            });
            let Some((at, folder)) = largest else { break };
            waiting.rows -= folder.rows;
            written += folder.take(at).map_or(Ok(0), write)?;
        }
        Ok(())
    })?;
    let folders = waiting.folders.iter_mut();
    let rest = folders.filter_map(|(at, folder)| folder.take(at));
    written += files(rest.collect(), write)?;
    // An empty table still has its columns.
    match empty {
        Some(empty) if written == 0 => write((folder.join(part_name(0)), vec![empty])),
        _ => Ok(written),
    }
}

/// The rows of a batch by their folders: their indexes.
fn divided(batch: &RecordBatch, table: Table, keys: &[Key]) -> Result<Vec<(PathBuf, Vec<u32>)>> {
    let column = |key: Key, name: &str| match batch.column_by_name(name) {
        Some(column) => Ok(Some(column)),
        None if keys.contains(&key) => Err(Error::other(format!("no column `{name}`"))),
        None => Ok(None),
    };
    let communicator = column(Key::Communicator, Key::Communicator.name())?;
    let host = column(Key::Host, Key::Host.name())?;
    let at = match time_of(table) {
        Some(name) => column(Key::Day, name)?,
        None => None,
    };
    let mut places: HashMap<Place<'_>, Vec<u32>> = HashMap::new();
    for row in 0..batch.num_rows() {
        let at = at.and_then(|column| match Cell::of(column.as_ref(), row) {
            Cell::Signed(ns) => Some(ns),
            _ => None,
        });
        let place = Place::of(keys, text(communicator, row), text(host, row), at);
        places.entry(place).or_default().push(row as u32);
    }
    let places = places.into_iter();
    Ok(places
        .map(|(place, rows)| (place.folder(keys), rows))
        .collect())
}

fn text(column: Option<&ArrayRef>, row: usize) -> Option<&str> {
    match Cell::of(column?.as_ref(), row) {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

/// These rows of a batch, without the columns that are in the path.
fn kept(
    batch: &RecordBatch,
    keys: &[Key],
    rows: Vec<u32>,
) -> std::result::Result<RecordBatch, ArrowError> {
    let is_in_path = |name: &str| keys.iter().any(|key| key.name() == name);
    let schema = batch.schema();
    let columns = (0..schema.fields().len()).filter(|at| !is_in_path(schema.field(*at).name()));
    let batch = batch.project(&columns.collect::<Vec<_>>())?;
    take_record_batch(&batch, &UInt32Array::from(rows))
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
    use super::*;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    fn folder(keys: &[Key], host: &str, at: Option<i64>) -> String {
        let place = Place::of(keys, Some("8fe72aa4#2"), Some(host), at);
        place.folder(keys).display().to_string()
    }

    #[test]
    fn a_later_communicator_with_the_same_hash_has_a_path_of_its_own() {
        let found = folder(&[Key::Communicator], "vm", None);
        assert_eq!(found, "communicator=8fe72aa4%232");
    }

    #[test]
    fn folders_are_in_the_order_of_the_keys_and_times_in_utc() {
        let keys = [Key::Host, Key::Day, Key::Hour];
        let at = 1_764_201_599_999_999_999;
        assert_eq!(
            folder(&keys, "node/1", Some(at)),
            "host=node%2F1/day=2025-11-26/hour=2025-11-26T23"
        );
        assert_eq!(
            folder(&[Key::Hour, Key::Host], "vm", Some(at + 1)),
            "hour=2025-11-27T00/host=vm"
        );
        assert_eq!(folder(&[Key::Day], "vm", Some(-1)), "day=1969-12-31");
        let unknown = format!("host={NULL}/day={NULL}");
        assert_eq!(folder(&[Key::Host, Key::Day], "", None), unknown);
    }

    /// Rows of each file in a folder, by number.
    fn parts(folder: &Path) -> Vec<i64> {
        let part = |number| {
            let file = File::open(folder.join(part_name(number))).ok()?;
            let reader = SerializedFileReader::new(file).expect("Parquet");
            Some(reader.metadata().file_metadata().num_rows())
        };
        (0..).map_while(part).collect()
    }

    #[test]
    fn large_folders_are_several_files() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
        let capture = Capture::open(&data.join("ddp8_two_hosts")).expect("a recorded job");
        let rows = Rows::new(&capture);
        let count = capture
            .processes
            .iter()
            .map(|p| p.calls.len())
            .sum::<usize>();
        let to = tempfile::tempdir().expect("a folder");
        let written = calls(&rows, &[], to.path(), count / 2 - 1).expect("written");
        assert_eq!(written, count as u64);
        let half = count as i64 / 2 - 1;
        assert_eq!(parts(to.path()), [half, half, count as i64 - 2 * half]);
        // Two batches are two files, if no more rows than one batch may wait.
        let capture = Capture::open(&data.join("fsdp2_slow_gpu")).expect("a recorded job");
        let rows = Rows::new(&capture);
        let to = tempfile::tempdir().expect("a folder");
        let written = others(&rows, Table::Kernels, &[Key::Host], to.path(), 1);
        let parts = parts(&to.path().join("host=vm"));
        assert!(
            parts.len() == 2 && parts.iter().all(|rows| *rows > 1),
            "{parts:?}"
        );
        assert_eq!(parts.iter().sum::<i64>() as u64, written.expect("written"));
    }

    #[test]
    fn names_of_files_and_folders_are_known_again() {
        assert!(is_part("part-0.parquet") && is_part("part-17.parquet"));
        assert!(!is_part("part-.parquet") && !is_part("part-x.parquet") && !is_part("part-1"));
        assert!(is_folder("host=a") && is_folder("communicator=") && !is_folder("mine=1"));
    }
}
