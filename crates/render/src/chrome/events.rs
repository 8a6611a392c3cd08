//! Every event of a capture as Chrome Trace Event JSON.
//!
//! Each process is a process, and its lanes ([`crate::events`]) are threads. A bar is a slice of the category
//! `event`, a state an instant of the category `state`. Flows of the category `parent` lead from parents to
//! children, and those of `operation` through the parts of an operation on all ranks.
//!
//! Rule: flows come behind all slices, because readers bind a flow to the slice that is there.

use super::EXACT;
use crate::events::{Bar, Events};
use flate2::write::GzEncoder;
use flate2::Compression;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::io::{Result, Write};

/// Writes the trace and returns how many bars it has.
///
/// # Errors
/// Those of `out`.
pub fn write(events: &Events<'_>, out: &mut impl Write) -> Result<u64> {
    let about = json!({"version": format!("ncclscope {}", env!("CARGO_PKG_VERSION"))});
    write!(
        out,
        "{{\"schemaVersion\":1,\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":{},\"otherData\":{about},\
         \"traceEvents\":[",
        events.base_ns
    )?;
    let mut writer = Writer {
        out,
        base_ns: events.base_ns,
        first: true,
    };
    writer.names(events)?;
    for bar in &events.bars {
        writer.bar(events, bar)?;
    }
    for (id, link) in (1..).zip(events.links()) {
        let (from, to) = (&events.bars[link.from], &events.bars[link.to]);
        writer.flow("s", "parent", id, from)?;
        writer.flow("f", "parent", id, to)?;
    }
    let mut operations: BTreeMap<u64, Vec<&Bar>> = BTreeMap::new();
    for bar in &events.bars {
        if let Some(operation) = bar.operation {
            operations.entry(operation).or_default().push(bar);
        }
    }
    for (id, mut parts) in operations {
        parts.sort_by_key(|bar| bar.span.begin);
        let last = parts.len() - 1;
        for (place, bar) in parts.into_iter().enumerate() {
            let phase = match place {
                0 => "s",
                place if place == last => "f",
                _ => "t",
            };
            writer.flow(phase, "operation", id, bar)?;
        }
    }
    writer.out.write_all(b"\n]}\n")?;
    Ok(events.bars.len() as u64)
}

/// As [`write`], compressed with gzip.
///
/// # Errors
/// Those of `out`.
pub fn write_gzip(events: &Events<'_>, out: impl Write) -> Result<u64> {
    let mut out = GzEncoder::new(out, Compression::default());
    let bars = write(events, &mut out)?;
    out.finish()?;
    Ok(bars)
}

struct Writer<'a, W> {
    out: &'a mut W,
    base_ns: i64,
    first: bool,
}

impl<W: Write> Writer<'_, W> {
    fn names(&mut self, events: &Events<'_>) -> Result<()> {
        for (pid, process) in events.capture().processes.iter().enumerate() {
            let name = format!("{}, {}", process.host, process.title());
            self.put(
                &json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}),
            )?;
            let order = json!({"sort_index": pid});
            self.put(&json!({"ph": "M", "name": "process_sort_index", "pid": pid, "args": order}))?;
        }
        for (tid, lane) in (1..).zip(&events.lanes) {
            let (pid, title) = (lane.process, &lane.title);
            let name = match lane.further {
                0 => title.clone(),
                further => format!("{title} ({})", further + 1),
            };
            let args = json!({"name": name});
            self.put(
                &json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": args}),
            )?;
            let args = json!({"sort_index": tid});
            self.put(&json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": args}))?;
        }
        Ok(())
    }

    fn bar(&mut self, events: &Events<'_>, bar: &Bar) -> Result<()> {
        self.event("X", "event", &events.name(bar), bar, bar.span.begin)?;
        let length = bar.span.end - bar.span.begin;
        let arguments = plain(events.arguments(bar));
        write!(
            self.out,
            ",\"dur\":{}.{:03},\"args\":{arguments}}}",
            length / 1000,
            length % 1000
        )?;
        for state in &bar.states {
            let mut arguments = state.fields.clone();
            arguments.insert("event".to_owned(), bar.number.into());
            self.event("i", "state", &state.name, bar, state.at)?;
            write!(self.out, ",\"s\":\"t\",\"args\":{}}}", plain(arguments))?;
        }
        Ok(())
    }

    fn flow(&mut self, phase: &str, category: &str, id: u64, bar: &Bar) -> Result<()> {
        self.event(phase, category, category, bar, bar.span.begin)?;
        write!(self.out, ",\"bp\":\"e\",\"id\":{id}}}")
    }

    /// Opens an event up to its time.
    fn event(&mut self, phase: &str, category: &str, name: &str, bar: &Bar, at: i64) -> Result<()> {
        self.next()?;
        let (pid, tid, ns) = (bar.process, bar.lane + 1, at - self.base_ns);
        let name = json!(name);
        write!(
            self.out,
            "{{\"ph\":\"{phase}\",\"cat\":\"{category}\",\"name\":{name},\"pid\":{pid},\"tid\":{tid}",
        )?;
        write!(self.out, ",\"ts\":{}.{:03}", ns / 1000, ns % 1000)
    }

    fn put(&mut self, event: &Value) -> Result<()> {
        self.next()?;
        write!(self.out, "{event}")
    }

    fn next(&mut self) -> Result<()> {
        let separator: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(separator)
    }
}

fn plain(mut arguments: Map<String, Value>) -> Value {
    make_exact(&mut arguments);
    arguments.into()
}

/// Integers that a double can't hold become decimal strings.
pub(crate) fn make_exact(arguments: &mut Map<String, Value>) {
    for value in arguments.values_mut() {
        let is_large = value.as_u64().is_some_and(|n| n > EXACT)
            || value.as_i64().is_some_and(|n| n.unsigned_abs() > EXACT);
        if is_large {
            *value = Value::String(value.to_string());
        }
    }
}
