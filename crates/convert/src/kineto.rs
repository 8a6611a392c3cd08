//! Traces of Kineto, which torch.profiler writes: one JSON file for each rank, in Chrome's format.
//!
//! ```text
//! kernel  "ncclDevKernel_…"  ─┐ correlation ── cuda_runtime  "cudaLaunchKernelExC": when it was launched
//!   when it ran, size, group  ├▶ a call
//! cpu_op "record_param_comms" ─┘ External id: when the program called, size, group, sequence number
//! kernel, gpu_memcpy, gpu_memset, cuda_runtime, cuda_sync ──▶ a kernel window of the whole file
//! ```
//!
//! [`Reader`] goes over the file once, keeps what is about GPUs and communication ([`event`]), and puts calls
//! together at the end ([`calls`]). Python frames and operators are skipped.
//!
//! Rule: a file that is cut off or damaged gives what is before that place. What has no entry in the file is
//! not made up: a call without a kernel has no GPU time, and one without a size has none.

mod calls;
pub(crate) mod event;

use crate::found::Found;
use crate::json::{Fault, Json, Kind};
use crate::torch::Group;
use crate::writer::Process;
use capture::rows::Ticks;
use capture::windows::{ActivityKind, DriverCall, DriverCallKind, GpuActivity};
use event::{Args, Event};
use std::collections::HashMap;
use std::io::Read;

/// Entries of one kind that are kept of a file; what follows is left out, and that is said.
const MOST: usize = 1 << 23;
/// Names of kernels that are told apart.
const MOST_NAMES: usize = 1 << 16;

/// Something NCCL ran.
struct NcclKernel {
    correlation: u64,
    external: Option<u64>,
    device: u32,
    stream: u64,
    start: u64,
    ns: u64,
    args: Option<Box<Args>>,
    /// By its name.
    function: &'static str,
}

/// What PyTorch says of a call of NCCL.
pub(crate) struct Noted {
    pub external: Option<u64>,
    pub at: u64,
    pub ns: u64,
    pub thread: u32,
    pub args: Box<Args>,
}

/// Reads one file.
#[derive(Default)]
pub struct Reader {
    kernels: Vec<(u32, GpuActivity<u64>)>,
    nccl: Vec<NcclKernel>,
    noted: Vec<Noted>,
    launches: Vec<(u64, DriverCall)>,
    names: HashMap<String, u32>,
    names_by_id: Vec<String>,
    groups: HashMap<String, Group>,
    facts: HashMap<&'static str, String>,
    base: i64,
    pid: Option<u64>,
    /// Events that were left out because there were too many.
    left_out: u64,
    /// Events of CUDA that a wait refers to, by the correlation of their record.
    waits: Vec<(u64, u64, u32, u32)>,
}

/// Whether the keys at the top of a JSON file are of such a trace.
pub fn is_key(key: &str) -> bool {
    matches!(
        key,
        "traceEvents" | "deviceProperties" | "distributedInfo" | "schemaVersion" | "cupti_version"
    )
}

/// Reads the trace that `input` hands out.
///
/// # Errors
/// If the file can't be read, and if there is nothing in it.
pub fn read(input: impl Read) -> Result<Found, Fault> {
    let mut json = Json::new(input);
    let mut reader = Reader::default();
    let fault = reader.whole(&mut json).err();
    let mut damage = Vec::new();
    match fault {
        None => {}
        Some(Fault::Io(error)) if reader.is_empty() => return Err(Fault::Io(error)),
        Some(fault) => {
            let at = json.position();
            let (expected, found) = match fault {
                Fault::Io(error) => ("a file that can be read", error.to_string()),
                Fault::Truncated => ("the rest of the trace", "the end of the file".to_owned()),
                Fault::Syntax { expected, .. } => (expected, "something else".to_owned()),
            };
            damage.push((format!("byte {at}"), expected.to_owned(), found));
        }
    }
    if reader.left_out > 0 {
        damage.push((
            "its events".to_owned(),
            format!("{MOST} of a kind at most"),
            format!("{} more, which are left out", reader.left_out),
        ));
    }
    Ok(reader.finish(damage))
}

impl Reader {
    fn is_empty(&self) -> bool {
        self.kernels.is_empty() && self.noted.is_empty() && self.launches.is_empty()
    }

    fn whole<R: Read>(&mut self, json: &mut Json<R>) -> Result<(), Fault> {
        if json.kind()? == Kind::Array {
            // Chrome's other form: only the events.
            return self.events(json);
        }
        let (mut first, mut key, mut value) = (true, String::new(), String::new());
        json.enter()?;
        while json.key(&mut first, &mut key)? {
            match key.as_str() {
                "traceEvents" => match json.kind()? {
                    Kind::Array => self.events(json)?,
                    _ => json.skip()?,
                },
                "distributedInfo" => self.distributed(json)?,
                "deviceProperties" => self.devices(json)?,
                _ if json.scalar_or_skip(&mut value)? => match key.as_str() {
                    "baseTimeNanoseconds" => self.base = value.parse().unwrap_or(0),
                    "host_name" | "hostname" => self.fact("host", &value),
                    "cuda_driver_version" => self.fact("driver", &version(&value)),
                    _ => {}
                },
                _ => {}
            }
        }
        Ok(())
    }

    fn fact(&mut self, key: &'static str, value: &str) {
        if !value.is_empty() {
            self.facts.insert(key, value.to_owned());
        }
    }

    /// GPUs of the host by name.
    fn devices<R: Read>(&mut self, json: &mut Json<R>) -> Result<(), Fault> {
        if json.kind()? != Kind::Array {
            return json.skip();
        }
        let mut counts: Vec<(String, usize)> = Vec::new();
        let (mut first, mut key, mut value) = (true, String::new(), String::new());
        json.enter()?;
        while json.element(&mut first)? {
            if json.kind()? != Kind::Object {
                json.skip()?;
                continue;
            }
            let mut first = true;
            json.enter()?;
            while json.key(&mut first, &mut key)? {
                if json.scalar_or_skip(&mut value)?
                    && key == "name"
                    && !value.is_empty()
                    && counts.len() < 64
                {
                    match counts.iter_mut().find(|(name, _)| *name == value) {
                        Some((_, n)) => *n += 1,
                        None => counts.push((value.clone(), 1)),
                    }
                }
            }
        }
        let gpus = counts.iter().map(|(name, n)| format!("{n} x {name}"));
        let gpus = gpus.collect::<Vec<_>>().join(", ");
        self.fact("gpus", &gpus);
        Ok(())
    }

    fn distributed<R: Read>(&mut self, json: &mut Json<R>) -> Result<(), Fault> {
        if json.kind()? != Kind::Object {
            return json.skip();
        }
        let (mut first, mut key, mut value) = (true, String::new(), String::new());
        json.enter()?;
        while json.key(&mut first, &mut key)? {
            if key == "pg_config" && json.kind()? == Kind::Array {
                let mut first = true;
                json.enter()?;
                while json.element(&mut first)? {
                    self.group(json)?;
                }
                continue;
            }
            if !json.scalar_or_skip(&mut value)? {
                continue;
            }
            match key.as_str() {
                "rank" => self.fact("rank", &value),
                "world_size" => self.fact("world_size", &value),
                "nccl_version" => self.fact("nccl", &value),
                _ => {}
            }
        }
        Ok(())
    }

    /// One entry of the table of process groups.
    fn group<R: Read>(&mut self, json: &mut Json<R>) -> Result<(), Fault> {
        if json.kind()? != Kind::Object {
            return json.skip();
        }
        let (mut group, mut first) = (Group::default(), true);
        let (mut key, mut value) = (String::new(), String::new());
        json.enter()?;
        while json.key(&mut first, &mut key)? {
            if key == "ranks" && json.kind()? == Kind::Array {
                let (mut first, mut whole) = (true, true);
                json.enter()?;
                while json.element(&mut first)? {
                    let is_scalar = json.scalar_or_skip(&mut value)?;
                    match value
                        .parse()
                        .ok()
                        .filter(|_| is_scalar && group.ranks.len() < MOST)
                    {
                        Some(rank) => group.ranks.push(rank),
                        None => whole = false,
                    }
                }
                if !whole {
                    group.ranks.clear();
                }
                continue;
            }
            if !json.scalar_or_skip(&mut value)? {
                continue;
            }
            match key.as_str() {
                "pg_name" => group.name = value.clone(),
                "pg_desc" => group.description = value.clone(),
                "backend_config" => group.backend = value.clone(),
                "pg_size" => group.size = value.parse().unwrap_or(0),
                "ranks" => group.ranks = crate::torch::ranks(&value).unwrap_or_default(),
                _ => {}
            }
        }
        if self.groups.len() < MOST_NAMES {
            self.groups.insert(group.name.clone(), group);
        }
        Ok(())
    }

    fn events<R: Read>(&mut self, json: &mut Json<R>) -> Result<(), Fault> {
        let (mut event, mut first) = (Event::default(), true);
        json.enter()?;
        while json.element(&mut first)? {
            if json.kind()? != Kind::Object {
                json.skip()?;
                continue;
            }
            event.read(json)?;
            self.take(&event);
        }
        Ok(())
    }

    /// The number of a kernel's name, from 1.
    fn name(&mut self, name: &str) -> u32 {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        if self.names.len() >= MOST_NAMES {
            return 0;
        }
        let short = event::without_parameters(name);
        let id = self.names_by_id.len() as u32 + 1;
        self.names_by_id.push(short.to_owned());
        self.names.insert(name.to_owned(), id);
        id
    }

    /// Takes in what is known of a call.
    pub(crate) fn note(&mut self, noted: Noted) {
        if self.noted.len() >= MOST {
            self.left_out += 1;
            return;
        }
        self.noted.push(noted);
    }

    /// Events that were left out because there were too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Takes in an event.
    pub(crate) fn take(&mut self, event: &Event) {
        if !event.is_complete {
            return;
        }
        match event.category.as_str() {
            "kernel" => self.ran(event, ActivityKind::Kernel),
            "gpu_memcpy" | "memcpy" => self.ran(event, ActivityKind::Copy),
            "gpu_memset" | "memset" => self.ran(event, ActivityKind::Fill),
            "cuda_runtime" | "cuda_driver" | "runtime" => self.asked(event),
            "cuda_sync" => self.synchronised(event),
            "cpu_op" | "operator" if event.name == "record_param_comms" => {
                self.pid = self.pid.or(event.pid);
                self.note(Noted {
                    external: event.args.external,
                    at: event.start,
                    ns: event.ns,
                    thread: event.thread,
                    args: Box::new(event.args.clone()),
                });
            }
            _ => {}
        }
    }

    fn ran(&mut self, event: &Event, kind: ActivityKind) {
        if self.kernels.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let args = &event.args;
        let device = args.device.or(event.pid).unwrap_or(0) as u32;
        let stream = args.stream.unwrap_or(u64::from(event.thread));
        let name = match kind {
            ActivityKind::Kernel => self.name(&event.name),
            _ => 0,
        };
        self.kernels.push((
            device,
            GpuActivity {
                start: event.start,
                ns: event.ns,
                name,
                stream: stream as u32,
                correlation: args.correlation.unwrap_or(0) as u32,
                graph: args.graph.unwrap_or(0) as u32,
                node: args.node.unwrap_or(0),
                kind,
                size: match kind {
                    ActivityKind::Kernel => args.blocks.unwrap_or(0),
                    _ => args.bytes.unwrap_or(0),
                },
            },
        ));
        if kind == ActivityKind::Kernel && event.name.starts_with("nccl") {
            self.nccl.push(NcclKernel {
                correlation: args.correlation.unwrap_or(0),
                external: args.external,
                device,
                stream,
                start: event.start,
                ns: event.ns,
                args: (!args.collective.is_empty()).then(|| Box::new(args.clone())),
                function: event::function(&event.name),
            });
        }
    }

    fn asked(&mut self, event: &Event) {
        let Some(kind) = event::driver_call(&event.name) else {
            return;
        };
        self.pid = self.pid.or(event.pid);
        if self.launches.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let call = DriverCall {
            at: Ticks(event.start),
            took: event.ns,
            kind,
            thread: event.thread,
            stream: 0,
            object: 0,
        };
        self.launches
            .push((event.args.correlation.unwrap_or(0), call));
    }

    /// Which stream waits for which event: only if the profiler was asked for it.
    fn synchronised(&mut self, event: &Event) {
        let args = &event.args;
        let ids = args.correlation.zip(args.waits_for_record);
        let streams = args.stream.zip(args.waits_for_stream);
        if let (Some((wait, record)), Some((stream, other))) = (ids, streams) {
            if self.waits.len() < MOST {
                self.waits.push((wait, record, stream as u32, other as u32));
            }
        }
    }

    pub(crate) fn finish(mut self, damage: Vec<(String, String, String)>) -> Found {
        self.graphs();
        let driver_calls = self.driver_calls();
        let rank: Option<u32> = self.facts.get("rank").and_then(|rank| rank.parse().ok());
        let made = calls::make(&self, rank);
        let mut devices: Vec<u32> = self.kernels.iter().map(|(device, _)| *device).collect();
        devices.sort_unstable();
        devices.dedup();
        let host = self.facts.remove("host");
        let mut facts: Vec<(&'static str, String)> = self.facts.into_iter().collect();
        facts.sort();
        facts.push(("mode", "kineto".to_owned()));
        facts.push(("tool", "torch.profiler (Kineto)".to_owned()));
        facts.push(("timing", "events".to_owned()));
        if let Some(pid) = self.pid {
            facts.push(("pid", pid.to_string()));
        }
        Found {
            process: Process {
                facts,
                base: self.base,
                communicators: made.communicators,
                calls: made.calls,
                kernels: self.kernels,
                names: self.names_by_id,
                driver_calls,
                moment: None,
                as_of: None,
            },
            devices,
            rank,
            host,
            damage,
        }
    }

    /// The process group of all calls, if there is only one that has several ranks.
    fn only_group(&self) -> Option<&Group> {
        let mut groups = self.groups.values();
        let mut groups = groups
            .by_ref()
            .filter(|group| group.size != 1 && group.may_be_nccl());
        groups.next().filter(|_| groups.next().is_none())
    }

    /// Kernels of a graph's launch are known by its correlation, if the file does not say it.
    fn graphs(&mut self) {
        let of_graph = |(id, call): &(u64, DriverCall)| {
            (call.kind == DriverCallKind::LaunchGraph).then_some(*id as u32)
        };
        let graphs: std::collections::HashSet<u32> =
            self.launches.iter().filter_map(of_graph).collect();
        let mut nodes: HashMap<u32, u64> = HashMap::new();
        self.kernels
            .sort_by_key(|(device, ran)| (*device, ran.start));
        for (_, ran) in &mut self.kernels {
            if ran.graph == 0 && graphs.contains(&ran.correlation) {
                ran.graph = 1;
                let node = nodes.entry(ran.correlation).or_insert(0);
                *node += 1;
                ran.node = *node;
            }
        }
    }

    /// The host's calls, as far as it is known what they are of.
    fn driver_calls(&self) -> Vec<DriverCall> {
        use DriverCallKind::{Record, Wait};
        let streams = self
            .kernels
            .iter()
            .map(|(_, ran)| (ran.correlation, ran.stream));
        let streams: HashMap<u32, u32> = streams.collect();
        let waits = self
            .waits
            .iter()
            .map(|(wait, record, stream, _)| (*wait, (*stream, *record)));
        let waits: HashMap<u64, (u32, u64)> = waits.collect();
        let records = self
            .waits
            .iter()
            .map(|(_, record, _, stream)| (*record, *stream));
        let records: HashMap<u64, u32> = records.collect();
        let known = |(id, call): &(u64, DriverCall)| {
            let (stream, object) = match call.kind {
                Wait => *waits.get(id)?,
                Record => (*records.get(id)?, *id),
                _ => (streams.get(&(*id as u32)).copied().unwrap_or(0), 0),
            };
            Some(DriverCall {
                stream,
                object,
                ..*call
            })
        };
        self.launches.iter().filter_map(known).collect()
    }
}

/// `13000` as `CUDA 13.0`: the newest version that the driver supports.
fn version(number: &str) -> String {
    match number.parse::<u32>() {
        Ok(n) => format!("CUDA {}.{}", n / 1000, n % 1000 / 10),
        Err(_) => String::new(),
    }
}
