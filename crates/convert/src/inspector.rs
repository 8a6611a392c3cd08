//! Files of NCCL Inspector, NVIDIA's profiler plugin: JSON objects one after the other, one for each call
//! that ended (formats 4.0 to 4.4).
//!
//! ```text
//! header      id, rank, n_ranks                  the communicator    ┐ in each object up to 4.2;
//! metadata    hostname, pid, dump_timestamp_us   the process         ┘ from 4.3 on in the batch's first
//! coll_perf   function, number, bytes, GPU time  a collective
//! p2p_perf    the same, and the peer             a send or receive
//! event_trace_ts   (NCCL_INSPECTOR_DUMP_VERBOSE=1)  when it was called, and when its kernel was seen
//! dump_stats  calls that were overwritten before they were written
//! ```
//!
//! A [`Reader`] takes all files of a job, because a process may have written several, and several may have
//! been joined into one. [`Reader::finish`] hands out a [`Process`] for each.
//!
//! GPU times are of NCCL's stamps, and Inspector keeps their difference only. When a call was made and when
//! it ran is known only from verbose files, by what the host saw: a kernel began no later than its begin was
//! seen, and no later than its end was seen less its length.
//!
//! Rule: without such times, a call has a length and no place in time. Inspector leaves out small calls and
//! those without GPU times, so a call that is not there may have been made.

use crate::found::{ranks_of_largest, ByFile, Damage, OfJob};
use crate::json::{Fault, Json, Kind};
use crate::writer::{Call, Communicator, Process, Stamped, MOST_COMMUNICATORS};
use nccl_abi::names;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Processes of a job that are told apart.
const MOST_PROCESSES: usize = 1 << 16;

/// Whether a key at the top of a JSON object is of such a file.
pub fn is_key(key: &str) -> bool {
    matches!(key, "coll_perf" | "p2p_perf" | "dump_stats" | "proxy_trace")
}

/// Where a call belongs: the communicator's header, and the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Context {
    hash: u64,
    name: String,
    rank: Option<u32>,
    nranks: u32,
    host: String,
    pid: u64,
    dumped_us: u64,
}

/// What a call's object says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Performed {
    function: &'static str,
    algorithm: &'static str,
    protocol: &'static str,
    number: Option<u64>,
    peer: Option<u32>,
    bytes: Option<u64>,
    /// GPU time, µs, if it is of the GPU's clock.
    gpu_us: Option<u64>,
    /// The call was made, µs since 1970.
    made_us: u64,
    /// The first begin and the last end of its channels, as the host saw them, µs since 1970.
    begin_seen_us: u64,
    end_seen_us: u64,
    channels: u16,
}

/// One JSON object.
#[derive(Debug, Default)]
struct Object {
    header: bool,
    metadata: bool,
    context: Context,
    call: Option<Performed>,
    dropped: [Option<u64>; 2],
}

/// A process of the job.
#[derive(Debug, Default)]
struct Seen {
    /// The first file with it.
    file: PathBuf,
    communicators: HashMap<(u64, Option<u32>), u32>,
    process: Process,
    /// By communicator: collectives, sends and receives that were overwritten.
    dropped: BTreeMap<u32, [u64; 2]>,
}

/// Reads the files of a job.
#[derive(Debug)]
pub struct Reader {
    known: HashMap<(String, u64), usize>,
    seen: Vec<Seen>,
    /// Of the batch that is being read.
    batch: Option<Context>,
    calls: usize,
    most_calls: usize,
}

impl Reader {
    /// A reader that keeps so many calls.
    pub fn new(most_calls: usize) -> Reader {
        Reader {
            known: HashMap::new(),
            seen: Vec::new(),
            batch: None,
            calls: 0,
            most_calls,
        }
    }

    fn read_objects(&mut self, file: &Path, input: impl Read) -> Result<Vec<Damage>, Fault> {
        let mut json = Json::new(input);
        let (mut damage, mut left_out) = (Vec::new(), 0u64);
        // Lines that are damaged: the first one's place, and how many.
        let mut lines: Option<(u64, u64)> = None;
        let (mut in_list, mut first) = (false, true);
        self.batch = None;
        loop {
            let at = json.position();
            let read = if in_list {
                match json.element(&mut first) {
                    Ok(false) => {
                        (in_list, first) = (false, true);
                        continue;
                    }
                    Ok(true) => object(&mut json),
                    Err(fault) => Err(fault),
                }
            } else {
                match json.is_at_end() {
                    Ok(true) => break,
                    Ok(false) if json.kind().is_ok_and(|kind| kind == Kind::Array) => {
                        in_list = true;
                        json.enter().map(|()| None)
                    }
                    Ok(false) => object(&mut json),
                    Err(fault) => Err(fault),
                }
            };
            match read {
                Ok(None) => {}
                Ok(Some(object)) => left_out += u64::from(!self.take(file, object)),
                Err(Fault::Io(error)) => return Err(Fault::Io(error)),
                Err(Fault::Truncated) => {
                    let found = "the end of the file".to_owned();
                    damage.push((format!("byte {at}"), "the rest of a call".to_owned(), found));
                    break;
                }
                Err(Fault::Syntax { at, .. }) => {
                    // A line that two threads wrote, or of which a part is missing.
                    lines = Some(lines.map_or((at, 1), |(first, n)| (first, n + 1)));
                    json.next_line()?;
                }
            }
        }
        if let Some((at, n)) = lines {
            damage.push((
                format!("byte {at}"),
                "one JSON object a line".to_owned(),
                format!("something else in {n} lines, which are left out"),
            ));
        }
        if left_out > 0 {
            damage.push((
                "its calls".to_owned(),
                format!(
                    "{} of all files at most, on known communicators",
                    self.most_calls
                ),
                format!("{left_out} more, which are left out"),
            ));
        }
        Ok(damage)
    }

    /// Whether what an object says is kept.
    fn take(&mut self, file: &Path, object: Object) -> bool {
        let context = match (object.header, &self.batch) {
            (true, _) => object.context,
            // From format 4.3 on a batch says once whose it is.
            (false, Some(batch)) => batch.clone(),
            (false, None) => return object.call.is_none(),
        };
        if object.header {
            self.batch = Some(context.clone());
        }
        let key = (context.host.clone(), context.pid);
        let at = match self.known.get(&key) {
            Some(at) => *at,
            None if self.seen.len() >= MOST_PROCESSES => return false,
            None => {
                self.known.insert(key, self.seen.len());
                self.seen.push(Seen {
                    file: file.to_owned(),
                    ..Seen::default()
                });
                self.seen.len() - 1
            }
        };
        let seen = &mut self.seen[at];
        let process = &mut seen.process;
        let dumped = context.dumped_us.saturating_mul(1000);
        if dumped != 0 && process.moment.is_none_or(|moment| dumped < moment) {
            process.moment = Some(dumped);
        }
        if process.facts.is_empty() {
            process.facts = vec![
                ("mode", "inspector".to_owned()),
                ("tool", "NCCL Inspector".to_owned()),
                ("timing", "stamps".to_owned()),
                ("pid", context.pid.to_string()),
                ("host", context.host.clone()),
            ];
        }
        let communicator = match seen.communicators.get(&(context.hash, context.rank)) {
            Some(index) => *index,
            None if process.communicators.len() >= MOST_COMMUNICATORS => return false,
            None => {
                let index = process.communicators.len() as u32;
                process.communicators.push(Communicator {
                    hash: context.hash,
                    nranks: context.nranks,
                    rank: context.rank,
                    name: context.name,
                    ..Communicator::default()
                });
                seen.communicators
                    .insert((context.hash, context.rank), index);
                index
            }
        };
        let dropped = seen.dropped.entry(communicator).or_default();
        for (known, said) in dropped.iter_mut().zip(object.dropped) {
            // Totals since the communicator was made.
            *known = (*known).max(said.unwrap_or(0));
        }
        let Some(performed) = object.call else {
            return true;
        };
        if self.calls >= self.most_calls {
            return false;
        }
        self.calls += 1;
        process.calls.push(performed.call(communicator));
        true
    }
}

impl OfJob for Reader {
    fn read(&mut self, file: &Path, input: Box<dyn Read + '_>) -> Result<Vec<Damage>, Fault> {
        self.read_objects(file, input)
    }

    fn finish(self: Box<Self>) -> (ByFile<Process>, ByFile<Damage>) {
        let mut problems = Vec::new();
        let mut processes = Vec::with_capacity(self.seen.len());
        for mut seen in self.seen {
            once_each(&mut seen.process.calls);
            let lost = seen.dropped.values().fold([0u64; 2], |sum, of| {
                [sum[0].saturating_add(of[0]), sum[1].saturating_add(of[1])]
            });
            let kinds = [("collectives", "COLL"), ("sends and receives", "P2P")];
            for ((kind, ring), n) in kinds.into_iter().zip(lost) {
                if n > 0 {
                    let found = format!(
                        "{n} overwritten before they were written; \
                        NCCL_INSPECTOR_DUMP_{ring}_RING_SIZE keeps more"
                    );
                    let damage = ("its calls".to_owned(), format!("all {kind}"), found);
                    problems.push((seen.file.clone(), damage));
                }
            }
            processes.push((seen.file, seen.process));
        }
        ranks_of_largest(&mut processes);
        (processes, problems)
    }
}

/// Whether NCCL's numbers say that a process's first call on each communicator was the first that it made
/// there: they begin with 0.
pub fn has_first_calls(process: &Process) -> bool {
    let mut seen = HashSet::new();
    let mut firsts = process
        .calls
        .iter()
        .filter(|call| seen.insert(call.communicator));
    firsts.all(|call| call.called != 0 && call.seq == Some(0))
}

/// Puts calls in order, and leaves out those that are there twice: a process's file may have been copied.
fn once_each(calls: &mut Vec<Call>) {
    // The sort is stable: calls whose time is not known stay in the order in which they ended.
    calls.sort_by_key(|call| (call.communicator, call.function, call.seq));
    calls.dedup_by(|a, b| {
        let key = |call: &Call| (call.communicator, call.function, call.seq);
        a.seq.is_some() && key(a) == key(b)
    });
    calls.sort_by_key(|call| call.called);
    for call in calls {
        // Inspector counts sends and receives itself, so the numbers of two ranks do not fit.
        if matches!(call.function, "Send" | "Recv" | "SendRecv") {
            call.seq = None;
        }
    }
}

impl Performed {
    fn call(self, communicator: u32) -> Call {
        let made = self.made_us.saturating_mul(1000);
        let length = self.gpu_us.map(|us| us.saturating_mul(1000));
        let begin_seen = self.begin_seen_us.saturating_mul(1000);
        let end_seen = self.end_seen_us.saturating_mul(1000);
        let stamped = length.filter(|_| made != 0 && begin_seen != 0 && end_seen >= begin_seen);
        let stamped = stamped.map(|ns| {
            let start = begin_seen.min(end_seen.saturating_sub(ns)).max(made);
            Stamped {
                start,
                stop: start.saturating_add(ns),
                seen: end_seen,
                channels: self.channels,
            }
        });
        Call {
            communicator,
            function: self.function,
            // The datatype is not in the file, and bytes are.
            datatype: if self.bytes.is_some() { "bytes" } else { "" },
            count: self.bytes.unwrap_or(0),
            algorithm: self.algorithm,
            protocol: self.protocol,
            peer: self.peer,
            seq: self.number,
            called: made,
            length: length.filter(|_| stamped.is_none()),
            stamped,
            ..Call::default()
        }
    }
}

/// Reads an object; `None` if the next value is none.
fn object<R: Read>(json: &mut Json<R>) -> Result<Option<Object>, Fault> {
    if json.kind()? != Kind::Object {
        return json.fail("an object");
    }
    let (mut object, mut first, mut key) = (Object::default(), true, String::new());
    let mut value = String::new();
    json.enter()?;
    while json.key(&mut first, &mut key)? {
        let is_object = json.kind()? == Kind::Object;
        match key.as_str() {
            "header" if is_object => {
                object.header = true;
                header(json, &mut object.context, &mut value)?;
            }
            "metadata" if is_object => {
                object.metadata = true;
                metadata(json, &mut object.context, &mut value)?;
            }
            "coll_perf" if is_object => object.call = Some(performed(json, "coll_")?),
            "p2p_perf" if is_object => object.call = Some(performed(json, "p2p_")?),
            "dump_stats" if is_object => dropped(json, &mut object.dropped, &mut value)?,
            // Proxy operations, too.
            _ => json.skip()?,
        }
    }
    // A header belongs to a process only if the object says which one that is.
    object.header &= object.metadata;
    Ok(Some(object))
}

/// The fields of an object, texts and numbers; others are skipped.
fn fields<R: Read>(
    json: &mut Json<R>,
    value: &mut String,
    mut each: impl FnMut(&str, &str),
) -> Result<(), Fault> {
    let (mut first, mut key) = (true, String::new());
    json.enter()?;
    while json.key(&mut first, &mut key)? {
        if json.scalar_or_skip(value)? {
            each(&key, value);
        }
    }
    Ok(())
}

fn header<R: Read>(
    json: &mut Json<R>,
    context: &mut Context,
    value: &mut String,
) -> Result<(), Fault> {
    fields(json, value, |key, value| match key {
        "id" => {
            let digits = value.trim_start_matches("0x");
            context.hash = u64::from_str_radix(digits, 16).unwrap_or(0);
        }
        "comm_name" if value != "unknown" => context.name = value.to_owned(),
        "rank" => context.rank = value.parse().ok(),
        "n_ranks" => context.nranks = value.parse().unwrap_or(0),
        _ => {}
    })
}

fn metadata<R: Read>(
    json: &mut Json<R>,
    context: &mut Context,
    value: &mut String,
) -> Result<(), Fault> {
    fields(json, value, |key, value| match key {
        "hostname" => context.host = value.to_owned(),
        "pid" => context.pid = value.parse().unwrap_or(0),
        "dump_timestamp_us" => context.dumped_us = value.parse().unwrap_or(0),
        _ => {}
    })
}

fn dropped<R: Read>(
    json: &mut Json<R>,
    dropped: &mut [Option<u64>; 2],
    value: &mut String,
) -> Result<(), Fault> {
    fields(json, value, |key, value| match key {
        "coll_dropped_total" => dropped[0] = value.parse().ok(),
        "p2p_dropped_total" => dropped[1] = value.parse().ok(),
        _ => {}
    })
}

/// A call's object. Names of its fields begin with `prefix`.
fn performed<R: Read>(json: &mut Json<R>, prefix: &str) -> Result<Performed, Fault> {
    let mut call = Performed::default();
    let (mut first, mut key, mut value) = (true, String::new(), String::new());
    let (mut length_us, mut is_gpu) = (None, false);
    json.enter()?;
    while json.key(&mut first, &mut key)? {
        if key == "event_trace_ts" && json.kind()? == Kind::Object {
            seen(json, &mut call, &mut value)?;
            continue;
        }
        if !json.scalar_or_skip(&mut value)? {
            continue;
        }
        match key.strip_prefix(prefix).unwrap_or(&key) {
            "coll" | "p2p" => call.function = function(&value),
            "sn" => call.number = value.parse().ok(),
            "algo" => call.algorithm = known(&names::ALGOS, &value),
            "proto" => call.protocol = known(&names::PROTOS, &value),
            "peer" => call.peer = value.parse().ok(),
            // Inspector multiplies by -1 if it does not know the datatype.
            "msg_size_bytes" => {
                call.bytes = value.parse().ok().filter(|n| *n < 1 << 62);
            }
            // Whole microseconds; some derived tools write fractions.
            "exec_time_us" => {
                let us = value
                    .parse()
                    .ok()
                    .filter(|us: &f64| (0.0..1e15).contains(us));
                length_us = us.map(|us| us as u64);
            }
            "timing_source" => is_gpu = value == "kernel_gpu",
            _ => {}
        }
    }
    call.gpu_us = length_us.filter(|_| is_gpu);
    Ok(call)
}

/// When the host saw what of a call.
fn seen<R: Read>(
    json: &mut Json<R>,
    call: &mut Performed,
    value: &mut String,
) -> Result<(), Fault> {
    let (mut first, mut key) = (true, String::new());
    json.enter()?;
    while json.key(&mut first, &mut key)? {
        if key == "kernel_events" && json.kind()? == Kind::Array {
            let mut first = true;
            json.enter()?;
            while json.element(&mut first)? {
                if json.kind()? != Kind::Object {
                    json.skip()?;
                    continue;
                }
                call.channels = call.channels.saturating_add(1);
                fields(json, value, |key, value| {
                    let us: u64 = value.parse().unwrap_or(0);
                    match key {
                        _ if us == 0 => {}
                        "kernel_start_ts" => {
                            let known = call.begin_seen_us;
                            call.begin_seen_us = if known == 0 { us } else { known.min(us) };
                        }
                        "kernel_stop_ts" => call.end_seen_us = call.end_seen_us.max(us),
                        _ => {}
                    }
                })?;
            }
        } else if json.scalar_or_skip(value)? && (key == "coll_start_ts" || key == "p2p_start_ts") {
            call.made_us = value.parse().unwrap_or(0);
        }
    }
    Ok(())
}

/// NCCL's name of a function; empty if it is not known.
fn function(name: &str) -> &'static str {
    match name {
        "All2All" => "AlltoAll",
        name => known(&names::FUNCS, name),
    }
}

/// A name as it is in a list; empty if it is not there.
fn known(list: &[&'static str], name: &str) -> &'static str {
    let found = list.iter().find(|known| known.eq_ignore_ascii_case(name));
    found.copied().unwrap_or("")
}
