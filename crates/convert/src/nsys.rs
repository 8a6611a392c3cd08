//! SQLite exports of Nsight Systems (`nsys export --type sqlite`): kernels, calls of CUDA, and NCCL's own
//! NVTX ranges, of one process or several.
//!
//! ```text
//! CUPTI_ACTIVITY_KIND_KERNEL  ─┐ correlationId ── CUPTI_ACTIVITY_KIND_RUNTIME
//!   when it ran                ├▶ a call                 │ when it was launched, by which thread
//! NVTX_EVENTS "ncclAllReduce" ─┘ the range in which ─────┘ that thread launched it
//!   communicator and bytes (payload), when the program called
//! ```
//!
//! Rows become events as Kineto has them, and [`crate::kineto::Reader`] puts calls together. Calls of a group
//! (`ncclGroupStart` to `ncclGroupEnd`) share its kernels. NCCL adds communicator, bytes, peer and root to
//! its ranges as a payload: 32 bytes of header, then the fields that `NVTX_PAYLOAD_SCHEMA_ENTRIES` describes.
//! What a file has without payloads has no size and no communicator.
//!
//! Rule: the file is opened read-only. Columns differ from version to version, so what a table does not have
//! is not known. Tables that are views, and values of another type, are left out.

use crate::found::{ranks_of_largest, ByFile, Damage, OfJob};
use crate::json::Fault;
use crate::kineto::event::{Args, Event};
use crate::kineto::{self, Noted};
use crate::writer::{host_facts, Process};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::Path;

/// How a file begins.
pub const MAGIC: &[u8] = b"SQLite format 3\0";
/// Processes of a file with something on a GPU.
const MOST_PROCESSES: usize = 4096;
/// Rows of one table that are read: of several processes together.
const MOST_ROWS: usize = 1 << 25;
/// Bytes of a packed file when it is unpacked.
const MOST_UNPACKED: u64 = 1 << 36;
/// Names that are kept.
const MOST_NAMES: usize = 1 << 16;
/// A payload's bytes before its fields.
const HEADER: usize = 32;
/// NVTX's push and pop ranges.
const PUSH_POP: i64 = 59;
/// Steps of SQLite's machine for one row, before a query is given up: a file can't keep it busy for ever.
const MOST_STEPS: i32 = 1 << 28;

/// Reads the exports of a job.
#[derive(Debug, Default)]
pub struct Reader {
    processes: ByFile<Process>,
}

impl OfJob for Reader {
    fn read(&mut self, file: &Path, input: Box<dyn Read + '_>) -> Result<Vec<Damage>, Fault> {
        // SQLite wants a file that is not packed.
        let mut unpacked = None;
        if !is_plain_file(file).map_err(Fault::Io)? {
            let mut to = tempfile::NamedTempFile::new().map_err(Fault::Io)?;
            io::copy(&mut input.take(MOST_UNPACKED), &mut to).map_err(Fault::Io)?;
            unpacked = Some(to);
        }
        let path = unpacked.as_ref().map_or(file, |to| to.path());
        let bad = |error: rusqlite::Error| {
            Fault::Io(io::Error::new(
                io::ErrorKind::InvalidData,
                error.to_string(),
            ))
        };
        let mut found = Export::open(path).map_err(bad)?;
        found.all();
        let (processes, damage) = found.finish();
        for process in processes {
            self.processes.push((file.to_owned(), process));
        }
        Ok(damage)
    }

    fn finish(mut self: Box<Self>) -> (ByFile<Process>, ByFile<Damage>) {
        ranks_of_largest(&mut self.processes);
        (self.processes, Vec::new())
    }
}

/// Whether a file is not packed.
fn is_plain_file(file: &Path) -> io::Result<bool> {
    let mut begin = [0; 16];
    let n = std::fs::File::open(file)?.read(&mut begin)?;
    Ok(begin[..n] == *MAGIC)
}

/// A range of NCCL on a thread.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// The number that calls and kernels of it share.
    id: u64,
}

/// What is read of one process.
#[derive(Default)]
struct Own {
    reader: kineto::Reader,
    /// By thread, in order.
    ranges: HashMap<u32, Vec<Range>>,
    /// Launches by correlation: thread and time.
    launches: HashMap<u64, (u32, u64)>,
    /// By communicator: ranks and own rank, as its init says.
    inits: BTreeMap<u64, (u32, u32)>,
    has_calls: bool,
}

/// A range of NCCL as the file has it.
struct Pushed {
    /// Process and thread.
    thread: i64,
    start: u64,
    end: u64,
    /// As PyTorch names it; `init` is about a communicator. `init`, `GroupStart` and `GroupEnd`
    /// are no calls.
    function: &'static str,
    fields: Vec<(String, u64)>,
}

impl Pushed {
    /// A field of its payload.
    fn field(&self, name: &str) -> Option<u64> {
        let mut fields = self.fields.iter();
        fields
            .find(|(known, _)| known == name)
            .map(|(_, value)| *value)
    }
}

/// What a range of NCCL is, by its name without `nccl`.
fn function(name: &str) -> Option<&'static str> {
    Some(match name {
        "AllReduce" => "allreduce",
        "AllGather" => "allgather",
        "ReduceScatter" => "reduce_scatter",
        "Broadcast" | "Bcast" => "broadcast",
        "Reduce" => "reduce",
        "Send" => "send",
        "Recv" => "recv",
        "AlltoAll" => "alltoall",
        "Gather" => "gather",
        "Scatter" => "scatter",
        "GroupStart" => "GroupStart",
        "GroupEnd" => "GroupEnd",
        _ if name.starts_with("Comm") => "init",
        _ => return None,
    })
}

/// A field of a payload.
#[derive(Clone, Debug)]
struct Field {
    name: String,
    at: usize,
    /// 4 or 8 bytes.
    size: usize,
}

struct Export {
    db: Connection,
    /// Columns by table.
    tables: HashMap<String, Vec<String>>,
    names: HashMap<i64, String>,
    fields: HashMap<i64, Vec<Field>>,
    own: BTreeMap<u64, Own>,
    damage: Vec<Damage>,
    host: Option<String>,
    driver: Option<String>,
    gpus: String,
    began: i64,
}

impl Export {
    fn open(file: &Path) -> rusqlite::Result<Export> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(file, flags)?;
        // Nothing in the file may run anything, and a damaged page is an error.
        db.pragma_update(None, "trusted_schema", false)?;
        db.pragma_update(None, "cell_size_check", true)?;
        db.pragma_update(None, "query_only", true)?;
        db.progress_handler(MOST_STEPS, Some(|| true));
        let mut export = Export {
            db,
            tables: HashMap::new(),
            names: HashMap::new(),
            fields: HashMap::new(),
            own: BTreeMap::new(),
            damage: Vec::new(),
            host: None,
            driver: None,
            gpus: String::new(),
            began: 0,
        };
        let mut tables: Vec<String> = Vec::new();
        {
            let sql = "SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 4096";
            let mut found = export.db.prepare(sql)?;
            let mut rows = found.query([])?;
            while let Some(row) = rows.next()? {
                tables.extend(text(row, 0));
            }
        }
        for table in tables.into_iter().filter(|table| is_plain(table)) {
            let mut columns = Vec::new();
            let mut found = export
                .db
                .prepare(&format!("PRAGMA table_info(\"{table}\")"))?;
            let mut rows = found.query([])?;
            while let Some(row) = rows.next()? {
                columns.extend(text(row, 1));
            }
            export.tables.insert(table, columns);
        }
        Ok(export)
    }

    /// Goes over a table; columns that it does not have are null. What is damaged is noted.
    fn each(&mut self, table: &str, columns: &[&str], mut take: impl FnMut(&mut Self, &[Value])) {
        let Some(has) = self.tables.get(table) else {
            return;
        };
        let named = columns.iter().map(|column| {
            if has.iter().any(|known| known == column) {
                format!("\"{column}\"")
            } else {
                "NULL".to_owned()
            }
        });
        let named: Vec<String> = named.collect();
        let sql = format!(
            "SELECT rowid, {} FROM \"{table}\" WHERE rowid > ?1 ORDER BY rowid LIMIT {BATCH}",
            named.join(", ")
        );
        // In batches, so that names can be looked up in between.
        let (mut last, mut n) = (i64::MIN, 0usize);
        let read =
            |db: &Connection, into: &mut Vec<Vec<Value>>, last: &mut i64| -> rusqlite::Result<()> {
                let mut found = db.prepare(&sql)?;
                let mut rows = found.query([*last])?;
                while let Some(row) = rows.next()? {
                    *last = row.get(0)?;
                    into.push((1..=columns.len()).map(|at| Value::of(row, at)).collect());
                }
                Ok(())
            };
        loop {
            let mut batch = Vec::new();
            let failed = read(&self.db, &mut batch, &mut last).err();
            for row in &batch {
                take(self, row);
            }
            n += batch.len();
            if let Some(error) = failed {
                let place = format!("table {table}, after {n} rows");
                self.damage
                    .push((place, "rows that can be read".to_owned(), error.to_string()));
                return;
            }
            if batch.len() < BATCH {
                return;
            }
            if n >= MOST_ROWS {
                let found = "more, which are left out".to_owned();
                self.damage.push((
                    format!("table {table}"),
                    format!("{MOST_ROWS} rows at most"),
                    found,
                ));
                return;
            }
        }
    }

    /// A text by its number.
    fn name(&mut self, id: Option<i64>) -> String {
        let Some(id) = id else { return String::new() };
        if let Some(name) = self.names.get(&id) {
            return name.clone();
        }
        let sql = "SELECT value FROM StringIds WHERE id = ?1";
        let found: Option<String> = self
            .db
            .prepare_cached(sql)
            .and_then(|mut found| found.query_row([id], |row| Ok(text(row, 0))))
            .ok()
            .flatten();
        let name = found.unwrap_or_default();
        if self.names.len() < MOST_NAMES {
            self.names.insert(id, name.clone());
        }
        name
    }

    fn of(&mut self, global: Option<i64>) -> Option<&mut Own> {
        let pid = (global? as u64) >> 24 & 0xff_ffff;
        if !self.own.contains_key(&pid) && self.own.len() >= MOST_PROCESSES {
            return None;
        }
        Some(self.own.entry(pid).or_default())
    }

    fn all(&mut self) {
        self.facts();
        self.payloads();
        self.ranges();
        self.asked();
        self.ran();
    }

    fn facts(&mut self) {
        self.each(
            "TARGET_INFO_SESSION_START_TIME",
            &["utcEpochNs"],
            |this, row| {
                this.began = row[0].int().unwrap_or(0);
            },
        );
        self.each(
            "TARGET_INFO_SYSTEM_ENV",
            &["name", "value"],
            |this, row| match row[0].text() {
                Some("Hostname") => this.host = row[1].text().map(str::to_owned),
                Some("NvDriverVersion") => this.driver = row[1].text().map(str::to_owned),
                _ => {}
            },
        );
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        self.each("TARGET_INFO_GPU", &["name"], |_, row| {
            if let Some(name) = row[0].text().filter(|_| counts.len() < 64) {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        });
        let gpus: Vec<String> = counts
            .iter()
            .map(|(name, n)| format!("{n} x {name}"))
            .collect();
        self.gpus = gpus.join(", ");
    }

    /// The fields of payloads, of which NCCL's have names of their own.
    fn payloads(&mut self) {
        let columns = ["schemaId", "type", "name", "offset"];
        self.each("NVTX_PAYLOAD_SCHEMA_ENTRIES", &columns, |this, row| {
            let (Some(schema), Some(name)) = (row[0].int(), row[2].text()) else {
                return;
            };
            let size = match row[1].int() {
                Some(5) => 4,
                Some(18 | 22) => 8,
                _ => return,
            };
            // The first field has none.
            let at = usize::try_from(row[3].int().unwrap_or(0)).unwrap_or(usize::MAX);
            let fields = this.fields.entry(schema).or_default();
            if at < 4096 && fields.len() < 64 {
                fields.push(Field {
                    name: name.to_owned(),
                    at,
                    size,
                });
            }
        });
    }

    /// A payload's fields.
    fn payload(&self, bytes: &[u8]) -> Vec<(String, u64)> {
        let number = |at: usize, size: usize| -> Option<u64> {
            let part = bytes.get(at..at.checked_add(size)?)?;
            let mut all = [0; 8];
            all[..size].copy_from_slice(part);
            Some(u64::from_le_bytes(all))
        };
        let schema = number(8, 4).and_then(|id| i64::try_from(id).ok());
        let fields = schema.and_then(|schema| self.fields.get(&schema));
        let value =
            |field: &Field| Some((field.name.clone(), number(HEADER + field.at, field.size)?));
        fields.into_iter().flatten().filter_map(value).collect()
    }

    /// NCCL's ranges: calls, groups and inits.
    fn ranges(&mut self) {
        let columns = [
            "start",
            "end",
            "text",
            "textId",
            "globalTid",
            "binaryData",
            "eventType",
        ];
        let mut found: Vec<Pushed> = Vec::new();
        self.each("NVTX_EVENTS", &columns, |this, row| {
            if row[6].int() != Some(PUSH_POP) {
                return;
            }
            let name = match row[2].text() {
                Some(text) => text.to_owned(),
                None => this.name(row[3].int()),
            };
            let function = name.strip_prefix("nccl").and_then(function);
            let (Some(start), Some(end), Some(thread)) =
                (row[0].time(), row[1].time(), row[4].int())
            else {
                return;
            };
            if let Some(function) = function {
                let bytes = row[5].bytes();
                let fields = bytes.map(|bytes| this.payload(&bytes)).unwrap_or_default();
                found.push(Pushed {
                    thread,
                    start,
                    end,
                    function,
                    fields,
                });
            }
        });
        found.sort_by_key(|range| (range.thread, range.start));
        // Calls may be on other threads, and a profiler that began later only sees the end of a communicator.
        for range in &found {
            self.init(range);
        }
        // The group that is open on a thread: its number, and how often it was begun.
        let (mut of_thread, mut group) = (i64::MIN, (0u64, 0u32));
        for (id, range) in (1u64..).zip(found) {
            if range.thread != of_thread {
                (of_thread, group) = (range.thread, (0, 0));
            }
            let is_open = group.1 > 0;
            match range.function {
                "GroupStart" => {
                    group = (if is_open { group.0 } else { id }, group.1 + 1);
                    continue;
                }
                "GroupEnd" => group.1 = group.1.saturating_sub(1),
                _ => {}
            }
            let id = if is_open { group.0 } else { id };
            self.call(&range, id);
        }
    }

    /// Notes size and own rank of a communicator.
    fn init(&mut self, range: &Pushed) {
        let small = |name: &str| {
            range
                .field(name)
                .and_then(|value| u32::try_from(value).ok())
        };
        let about = small("No. of ranks").zip(small("Rank"));
        let communicator = range.field("NCCL communicator ID").filter(|id| *id != 0);
        if let Some((communicator, about)) = communicator.zip(about) {
            if let Some(own) = self.of(Some(range.thread)) {
                own.inits.insert(communicator, about);
            }
        }
    }

    /// A range of NCCL, which shares `id` with its kernels.
    fn call(&mut self, range: &Pushed, id: u64) {
        let field = |name: &str| range.field(name);
        let communicator = field("NCCL communicator ID").filter(|id| *id != 0);
        let tid = range.thread as u64 as u32 & 0xff_ffff;
        let Some(own) = self.of(Some(range.thread)) else {
            return;
        };
        if range.function == "init" {
            return;
        }
        let Pushed { start, end, .. } = *range;
        own.ranges
            .entry(tid)
            .or_default()
            .push(Range { start, end, id });
        if range.function == "GroupEnd" {
            return;
        }
        let known = communicator
            .and_then(|communicator| own.inits.get(&communicator))
            .copied();
        let bytes = field("Message size [bytes]");
        let (given, got) = match range.function {
            "reduce_scatter" | "scatter" | "recv" => (None, bytes),
            // NCCL says what goes to one peer.
            "alltoall" => {
                let all =
                    |(bytes, (ranks, _)): (u64, (u32, u32))| bytes.saturating_mul(ranks.into());
                (bytes.zip(known).map(all), None)
            }
            _ => (bytes, None),
        };
        let peer = field("Peer rank");
        let args = Args {
            external: Some(id),
            collective: range.function.to_owned(),
            given,
            got,
            datatype: "bytes".to_owned(),
            group: communicator.map_or(String::new(), |id| format!("{id:x}")),
            size: known.map(|(ranks, _)| u64::from(ranks)),
            first_rank: Some(0),
            stride: Some(1),
            source: peer,
            destination: peer,
            ..Args::default()
        };
        own.reader.note(Noted {
            external: Some(id),
            at: start,
            ns: end.saturating_sub(start),
            thread: tid,
            args: Box::new(args),
        });
    }

    /// Calls of CUDA.
    fn asked(&mut self) {
        let columns = ["start", "end", "globalTid", "correlationId", "nameId"];
        let mut event = Event::of("cuda_runtime");
        self.each("CUPTI_ACTIVITY_KIND_RUNTIME", &columns, |this, row| {
            let (Some(start), Some(end)) = (row[0].time(), row[1].time()) else {
                return;
            };
            event.name = this.name(row[4].int());
            let (thread, correlation) = (row[2].int(), row[3].int().map(|id| id as u64));
            let Some(own) = this.of(thread) else { return };
            event.thread = thread.unwrap_or(0) as u64 as u32 & 0xff_ffff;
            (event.start, event.ns) = (start, end.saturating_sub(start));
            event.args.correlation = correlation;
            if let Some(correlation) = correlation.filter(|_| event.name.contains("Launch")) {
                if own.launches.len() < MOST_ROWS {
                    own.launches.insert(correlation, (event.thread, start));
                }
            }
            own.reader.take(&event);
        });
    }

    /// What ran on GPUs.
    fn ran(&mut self) {
        let columns = [
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "demangledName",
            "shortName",
            "gridX",
            "gridY",
            "gridZ",
            "graphId",
            "graphNodeId",
            "bytes",
        ];
        for (table, category) in [
            ("CUPTI_ACTIVITY_KIND_KERNEL", "kernel"),
            ("CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy"),
            ("CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset"),
        ] {
            let mut event = Event::of(category);
            self.each(table, &columns, |this, row| {
                let (Some(start), Some(end)) = (row[0].time(), row[1].time()) else {
                    return;
                };
                let number = |at: usize| row[at].int().and_then(|n| u64::try_from(n).ok());
                event.name = match row[6].int() {
                    Some(id) => this.name(Some(id)),
                    None => this.name(row[7].int()),
                };
                (event.start, event.ns) = (start, end.saturating_sub(start));
                let blocks = [8, 9, 10].map(|at| number(at).unwrap_or(1));
                let is_nccl = event.name.starts_with("nccl");
                let Some(own) = this.of(row[5].int()) else {
                    return;
                };
                let correlation = number(4);
                event.args = Args {
                    correlation,
                    device: number(2),
                    stream: number(3),
                    blocks: Some(blocks.iter().fold(1, |all, n| n.saturating_mul(all))),
                    bytes: number(13),
                    graph: number(11),
                    node: number(12),
                    external: correlation.filter(|_| is_nccl).and_then(|id| own.range(id)),
                    ..Args::default()
                };
                own.has_calls = true;
                own.reader.take(&event);
            });
        }
    }

    fn finish(self) -> (Vec<Process>, Vec<Damage>) {
        let (mut processes, mut damage) = (Vec::new(), self.damage);
        for (pid, own) in self.own {
            if !own.has_calls {
                continue;
            }
            let left_out = own.reader.left_out();
            if left_out > 0 {
                let found = format!("{left_out} more, which are left out");
                let most = "so many events of a process as are kept".to_owned();
                damage.push((format!("process {pid}"), most, found));
            }
            let mut process = own.reader.finish(Vec::new()).process;
            process.base = self.began;
            process
                .facts
                .retain(|(key, _)| !matches!(*key, "mode" | "tool" | "pid"));
            process.facts.extend([
                ("mode", "nsys".to_owned()),
                ("tool", "Nsight Systems".to_owned()),
                ("pid", pid.to_string()),
                ("driver_version", self.driver.clone().unwrap_or_default()),
                ("gpus", self.gpus.clone()),
            ]);
            process.facts.extend(host_facts(self.host.clone(), ""));
            for communicator in &mut process.communicators {
                // NCCL's own number of it, which is its name here.
                let Ok(hash) = u64::from_str_radix(&communicator.name, 16) else {
                    continue;
                };
                communicator.hash = hash;
                communicator.name.clear();
                if let Some((nranks, rank)) = own.inits.get(&hash) {
                    communicator.nranks = *nranks;
                    communicator.rank = Some(*rank);
                }
            }
            processes.push(process);
        }
        (processes, damage)
    }
}

impl Own {
    /// The range in which a kernel was launched.
    fn range(&self, correlation: u64) -> Option<u64> {
        let (thread, at) = self.launches.get(&correlation)?;
        let ranges = self.ranges.get(thread)?;
        let next = ranges.partition_point(|range| range.start <= *at);
        let range = ranges.get(next.checked_sub(1)?)?;
        (*at <= range.end).then_some(range.id)
    }
}

/// Rows that are in memory at a time.
const BATCH: usize = 1 << 16;

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    fn of(row: &Row, at: usize) -> Value {
        match row.get_ref(at) {
            Ok(ValueRef::Integer(n)) => Value::Int(n),
            Ok(ValueRef::Text(text)) if text.len() < 1 << 16 => {
                Value::Text(String::from_utf8_lossy(text).into_owned())
            }
            Ok(ValueRef::Blob(bytes)) if bytes.len() < 1 << 12 => Value::Bytes(bytes.to_vec()),
            _ => Value::Null,
        }
    }

    fn int(&self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// A time that is not before the session.
    fn time(&self) -> Option<u64> {
        self.int().and_then(|n| u64::try_from(n).ok())
    }

    fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes, also as hex digits.
    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::Text(text) => {
                let digit = |at: usize| {
                    let pair = text.get(2 * at..2 * at + 2)?;
                    u8::from_str_radix(pair, 16).ok()
                };
                (0..text.len() / 2).map(digit).collect()
            }
            _ => None,
        }
    }
}

fn text(row: &Row, at: usize) -> Option<String> {
    match Value::of(row, at) {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// Whether a name can stand in a query as it is.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
