//! `export --anonymous`: the files of a capture with stand-ins for all names. Times and numbers stay.
//!
//! Payloads without names are copied as they are. Of the others, [`payload`] says what is a name. Kinds of
//! blocks that this version does not know are left out, because they may have names.
//!
//! Rule: what is not known to be harmless is replaced or left out.

use super::names::{is_public_library, Kind, Names};
use capture::block::{Block, BlockKind};
use capture::callback::{self, Callback, EntryPoint};
use capture::live::{Comm, Image};
use capture::rows::definitions::{self, Definition};
use capture::stacks::{self, Code, StackRecord};
use capture::{samples, windows};
use serde_json::{json, Value};
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Relaxed, Release};
use tables::communication::Pattern;

/// Words in names of communicators that are those of everybody.
const GROUPS: &[&str] = &[
    "default",
    "pg",
    "process",
    "group",
    "mesh",
    "dp",
    "tp",
    "pp",
    "cp",
    "ep",
    "sp",
    "edp",
    "world",
    "data",
    "tensor",
    "pipeline",
    "context",
    "expert",
    "model",
    "sequence",
    "parallel",
    "undefined",
    "fsdp",
    "ddp",
    "hsdp",
    "replicate",
    "shard",
    "dim",
    "embedding",
    "comm",
    "nccl",
    "gloo",
    "cuda",
    "ranks",
    "rank",
];
/// Words in names of phases.
pub const PHASES: &[&str] = &[
    "forward",
    "backward",
    "optimizer",
    "optim",
    "step",
    "data",
    "loading",
    "loader",
    "load",
    "checkpoint",
    "save",
    "eval",
    "evaluation",
    "validation",
    "loss",
    "epoch",
    "train",
    "training",
    "zero",
    "grad",
    "prefill",
    "decode",
    "sampling",
    "sample",
    "logging",
    "log",
    "warmup",
];
/// Words in names of threads.
const THREADS: &[&str] = &[
    "nccl",
    "progress",
    "service",
    "proxy",
    "python",
    "pt",
    "autograd",
    "main",
    "cuda",
    "evthandlr",
    "ncclscope",
    "gpu",
    "data",
    "worker",
    "udma",
    "ras",
    "ib",
    "async",
    "uds",
    "w",
    "pin",
    "memory",
];
/// Begins of kernels' names that are those of everybody: NCCL, PyTorch, and NVIDIA's libraries.
const KERNELS: &[&str] = &[
    "nccl",
    "at::native::",
    "at::cuda::",
    "cutlass",
    "nvjet_",
    "cublas",
    "cudnn",
    "sm90_",
    "sm80_",
    "ampere_",
    "volta_",
    "turing_",
    "gemv",
    "splitKreduce",
    "nvshmem",
];
/// Facts without names, by key.
const FACTS: &[&str] = &[
    "ncclscope",
    "platform",
    "pid",
    "pid_start",
    "process_age_ms",
    "pid_namespace",
    "world_size",
    "local_rank",
    "rank",
    "mode",
    "timing",
    "timing_because",
    "budget",
    "stacks",
    "mask",
    "nccl",
    "driver",
    "driver_version",
    "gpus",
    "clock",
    "started",
    "flush",
    "tool",
    "host_name",
    "life",
    "not_recorded",
    "nccl_build_id",
    "period_ms",
    "cpus",
];
/// And by the part of the key before the number of the GPU.
const FACTS_OF_GPUS: &[&str] = &[
    "gpu_memory",
    "cpus",
    "links",
    "nvlinks",
    "pcie",
    "device",
    "numa",
];

/// Where the names of a job are: those who speak of it in sentences use the same.
pub fn know(names: &mut Names, capture: &tables::Capture) -> anyhow::Result<()> {
    let hosts = capture.processes.iter().map(|p| p.host.as_str());
    let hosts = hosts.chain(capture.nodes.iter().map(|node| node.host.as_str()));
    let facts = capture.processes.iter().flat_map(|p| &p.facts);
    let facts = facts.chain(capture.nodes.iter().flat_map(|node| &node.facts));
    let facts: Vec<(&String, &String)> = facts.collect();
    let named = |key: &str| {
        let of = facts.iter().filter(move |(of, _)| of.as_str() == key);
        of.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    let mut hosts: Vec<&str> = hosts.chain(named("host")).collect();
    hosts.extend(capture.sightings.iter().map(|seen| seen.host.as_str()));
    hosts.sort_unstable();
    hosts.dedup();
    names.digits = hosts.len().to_string().len();
    for host in hosts.into_iter().filter(|host| !host.is_empty()) {
        names.of(Kind::Host, host);
    }
    for boot in named("boot_id") {
        names.of(Kind::Boot, boot);
    }
    for job in named("job") {
        if job != "none" {
            names.of(Kind::Job, job);
        }
    }
    facts.iter().for_each(|(_, value)| names.note_users(value));
    let tables = nccl_abi::names::FUNCS.iter().chain(&nccl_abi::names::ALGOS);
    let tables = tables.chain(&nccl_abi::names::PROTOS).copied();
    let datatypes = nccl_abi::names::DATATYPES.iter().map(|of| of.name);
    let said = capture.names.all();
    let words = tables.chain(datatypes).chain(said).map(str::to_owned);
    names.words = words.collect();
    names.note_users(&capture.job.to_string());
    names.search()
}

/// A block's payload without names; the same one if it has none; nothing if it may have some that are not
/// known.
pub fn payload(names: &mut Names, patterns: &[Pattern], block: &Block<'_>) -> Option<Vec<u8>> {
    use BlockKind::*;
    let bytes = block.payload;
    let mut out = Vec::new();
    match BlockKind::from_u16(block.kind)? {
        Rows | Anchor | End | Rotated | Graphs | Launches | Windows | GpuActivities
        | DriverCalls | NetTotals | Samples | Switches | Mpi => return Some(bytes.to_vec()),
        Process => out.extend(facts(names, &String::from_utf8_lossy(bytes)).into_bytes()),
        Definitions => {
            for definition in definitions::read(bytes) {
                match definition {
                    Definition::Text(id, text) => {
                        out.extend([1, id, text.len() as u8]);
                        out.extend(text);
                    }
                    Definition::Comm(place, of) => {
                        let of = communicator(names, of);
                        out.push(2);
                        out.extend(place.to_le_bytes());
                        out.extend((of.len() as u16).to_le_bytes());
                        out.extend(of);
                    }
                }
            }
        }
        Callbacks => {
            callback::read(bytes).for_each(|record| put_callback(names, &mut out, &record))
        }
        Names => {
            for (id, name) in windows::names(bytes)? {
                let name = kernel(names, patterns, &String::from_utf8_lossy(name));
                windows::put_name(&mut out, id, name.as_bytes());
            }
        }
        Stacks => {
            for record in stacks::read(bytes)? {
                put_stack(names, &mut out, record);
            }
        }
        Series => {
            let each = |id: u64, name: &str, of: &str| {
                let id = usize::try_from(id).unwrap_or(usize::MAX);
                samples::put_series(&mut out, id, name, &subject(names, name, of));
            };
            samples::read_series(bytes, each)?;
        }
        Setup => {
            for line in String::from_utf8_lossy(bytes).lines() {
                let line = log_line(names, line);
                out.extend(names.text(&line).into_bytes());
                out.push(b'\n');
            }
        }
    }
    Some(out)
}

/// A line of a log whose host may be one that no process told of.
fn log_line(names: &mut Names, line: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let mut parts = line.splitn(3, ':');
    let (Some(begin), Some(pid), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return line.to_owned();
    };
    let tid = rest.split_whitespace().next().unwrap_or("");
    if !is_number(pid) || !is_number(tid) {
        return line.to_owned();
    }
    let (before, host) = begin.rsplit_once(' ').unwrap_or(("", begin));
    let blank = if before.is_empty() { "" } else { " " };
    format!("{before}{blank}{}:{pid}:{rest}", names.of(Kind::Host, host))
}

/// The facts of a process without names.
pub fn facts(names: &mut Names, text: &str) -> String {
    let mut out = String::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let (of, number) = key.split_once('.').unwrap_or((key, ""));
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let value = match key {
            _ if FACTS.contains(&key) || is_number && FACTS_OF_GPUS.contains(&of) => {
                value.to_owned()
            }
            "host" => names.of(Kind::Host, value),
            "boot_id" => names.of(Kind::Boot, value),
            "job" if value == "none" => value.to_owned(),
            "job" => names.of(Kind::Job, value),
            "command" => names.of(Kind::Command, value),
            "live" | "trace" | "nccl_path" => names.of(Kind::Path, value),
            "python" => value.split_whitespace().next().unwrap_or("").to_owned(),
            // Where people are.
            "zone" | "utc_offset" => continue,
            _ if of == "env" => names.value(value),
            _ if of == "gpu" && is_number => {
                let (uuid, model) = value.split_once(' ').unwrap_or((value, ""));
                format!("{} {model}", gpu(names, uuid))
            }
            _ => names.value(value),
        };
        // The names of NCCL's variables are public, but those of a plugin behind it need not be.
        out.push_str(&format!("{key}={value}\n"));
    }
    out
}

/// A GPU's UUID.
fn gpu(names: &mut Names, uuid: &str) -> String {
    let digits: String = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    let digits = digits
        .strip_prefix(|_: char| digits.len() == 33)
        .unwrap_or(&digits);
    let stands = names.of(Kind::Gpu, digits);
    let part = |from: usize, to: usize| stands.get(from..to).unwrap_or_default();
    let parts = [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ];
    format!("GPU-{}", parts.join("-"))
}

/// What a series is of.
fn subject(names: &mut Names, name: &str, of: &str) -> String {
    use samples::SeriesOf::*;
    match samples::kind(name).map(|kind| kind.of) {
        Some(Gpu) => gpu(names, of),
        Some(Link) => match of.rsplit_once('/') {
            Some((uuid, link)) => format!("{}/{link}", gpu(names, uuid)),
            None => gpu(names, of),
        },
        Some(Node | Process | Sampler | Device) => of.to_owned(),
        Some(Thread) => match of.rsplit_once('/') {
            Some((numbers, thread)) => format!("{numbers}/{}", self::thread(names, thread)),
            None => of.to_owned(),
        },
        Some(Connection) => {
            let Some((pid, ends)) = of.split_once('/') else {
                return of.to_owned();
            };
            let ends = ends.split('-').map(|end| match end.rsplit_once(':') {
                Some((address, port)) => {
                    let bare = address.trim_matches(['[', ']']);
                    let stands = names.address(bare);
                    format!("{}:{port}", address.replace(bare, &stands))
                }
                None => names.address(end),
            });
            let ends: Vec<String> = ends.collect();
            format!("{pid}/{}", ends.join("-"))
        }
        None => names.of(Kind::Value, of),
    }
}

fn thread(names: &mut Names, name: &str) -> String {
    names.unless_public(Kind::Thread, name, THREADS)
}

/// The name of a kernel. One that communicates keeps the part that says so.
fn kernel(names: &mut Names, patterns: &[Pattern], mangled: &str) -> String {
    let name = tables::windows::demangled(mangled);
    if let Some(pattern) = patterns.iter().find(|of| name.contains(&of.part)) {
        let stands = names.of(Kind::Kernel, mangled);
        return format!("{} {stands}", communicating(names, &pattern.part));
    }
    let name = name.strip_prefix("void ").unwrap_or(&name);
    if KERNELS.iter().any(|begin| name.starts_with(begin)) {
        return mangled.to_owned();
    }
    let stands = names.of(Kind::Kernel, mangled);
    match analyze::streams::communicating_part(name) {
        Some(part) => format!("{part} {stands}"),
        None => stands,
    }
}

/// What stands for the part of a kernel's name by which the user knows that it communicates.
fn communicating(names: &mut Names, part: &str) -> String {
    format!("communicates_{}", names.of(Kind::Value, part))
}

/// The user's file of kernels that communicate.
pub fn patterns(names: &mut Names, patterns: &[Pattern]) -> String {
    let lines = patterns.iter().map(|of| {
        let library = names.of(Kind::Library, of.library);
        format!("{:?}  {library}\n", communicating(names, &of.part))
    });
    lines.collect()
}

fn communicator(names: &mut Names, of: &[u8]) -> Vec<u8> {
    let mut out = of.to_vec();
    const NAME: usize = offset_of!(Comm, name);
    const LEN: usize = offset_of!(Comm, name_len);
    const GPU: usize = offset_of!(Comm, gpu);
    let Some(len) = of.get(LEN..LEN + 4).and_then(|len| len.try_into().ok()) else {
        return Vec::new();
    };
    let len = (u32::from_le_bytes(len) as usize).min(96);
    if let Some(place) = out.get_mut(NAME..NAME + 96) {
        let name = names.unless_public(
            Kind::Communicator,
            &String::from_utf8_lossy(&place[..len]),
            GROUPS,
        );
        let name = &name.as_bytes()[..name.len().min(96)];
        place.fill(0);
        place[..name.len()].copy_from_slice(name);
        out[LEN..LEN + 4].copy_from_slice(&(name.len() as u32).to_le_bytes());
    }
    // Bytes that a newer recorder has behind it.
    out.truncate(size_of::<Comm>());
    if let Some(place) = out
        .get_mut(GPU..GPU + 16)
        .filter(|uuid| uuid.iter().any(|b| *b != 0))
    {
        let digits: String = place.iter().map(|byte| format!("{byte:02x}")).collect();
        let stands = u128::from_str_radix(&names.of(Kind::Gpu, &digits), 16).unwrap_or(0);
        place.copy_from_slice(&stands.to_be_bytes());
    }
    out
}

fn put_callback(names: &mut Names, out: &mut Vec<u8>, record: &Callback<'_>) {
    /// Bytes of an init before its name.
    const INIT: usize = 24;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let replaced = match record.what {
        EntryPoint::Init => record
            .payload
            .split_at_checked(INIT)
            .map(|(numbers, name)| {
                let (name, end) =
                    name.split_at(name.iter().position(|b| *b == 0).unwrap_or(name.len()));
                let name = names.unless_public(Kind::Communicator, &text(name), GROUPS);
                [numbers, name.as_bytes(), end].concat()
            }),
        EntryPoint::Text => Some(known_text(names, &text(record.payload)).into_bytes()),
        EntryPoint::Thread => Some(thread(names, &text(record.payload)).into_bytes()),
        EntryPoint::Start | EntryPoint::Stop | EntryPoint::State | EntryPoint::Finalize => None,
    };
    let record = Callback {
        payload: replaced.as_deref().unwrap_or(record.payload),
        ..*record
    };
    let start = out.len();
    out.extend(record.header());
    out.extend(record.payload);
    out.resize(start + callback::record_bytes(record.payload.len()), 0);
}

/// A text that NCCL handed to the profiler: a name of NCCL's, or that of a communicator.
fn known_text(names: &mut Names, text: &str) -> String {
    if names.words.contains(text) {
        text.to_owned()
    } else {
        names.unless_public(Kind::Communicator, text, GROUPS)
    }
}

fn put_stack(names: &mut Names, out: &mut Vec<u8>, record: StackRecord<'_>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (first, second);
    let mut record = record;
    match &mut record {
        StackRecord::Module { build_id, path, .. } => {
            let whole = text(path);
            let name = whole.rsplit('/').next().unwrap_or_default();
            first = if is_public_library(name) {
                name.to_owned()
            } else {
                *build_id = &[];
                names.of(Kind::File, &whole)
            };
            *path = first.as_bytes();
        }
        StackRecord::Frame {
            code: Code::Python { file, function, .. },
            ..
        } => {
            let path = text(file);
            first = match () {
                () if path.starts_with('<') => path,
                () if tables::stacks::is_library(&path) => {
                    format!(
                        "/lib/python3/site-packages/{}.py",
                        names.of(Kind::File, &path)
                    )
                }
                () => format!("{}.py", names.of(Kind::File, &path)),
            };
            second = names.of(Kind::Function, &text(function));
            (*file, *function) = (first.as_bytes(), second.as_bytes());
        }
        StackRecord::Stack { thread, .. } if !thread.is_empty() => {
            first = self::thread(names, &text(thread));
            *thread = first.as_bytes();
        }
        StackRecord::Frame { .. } | StackRecord::Stack { .. } => {}
    }
    stacks::put_record(out, &record);
}

/// Takes the names out of a live part. What was staged is left out: it belongs into the trace file.
pub fn live_part(names: &mut Names, image: &Image) -> Option<()> {
    let view = image.view()?;
    let header = view.header();
    let mut facts = facts(names, &String::from_utf8_lossy(&header.process_text()));
    // Cut at the end of a line, as the recorder does.
    if facts.len() > header.process.len() {
        let end = facts.as_bytes()[..header.process.len()]
            .iter()
            .rposition(|b| *b == b'\n');
        facts.truncate(end.map_or(0, |at| at + 1));
    }
    let padded = facts.bytes().chain(std::iter::repeat(0));
    for (to, from) in header.process.iter().zip(padded) {
        to.store(from, Relaxed);
    }
    header.process_len.store(facts.len() as u32, Release);
    for comm in view
        .comms()
        .iter()
        .filter(|comm| comm.uid.load(Relaxed) != 0)
    {
        let mut of = Vec::new();
        definitions::put_comm(&mut of, 0, comm);
        let of = communicator(names, &of[5..]);
        let (name, gpu) = (offset_of!(Comm, name), offset_of!(Comm, gpu));
        for (to, from) in comm.name.iter().zip(&of[name..]) {
            to.store(*from, Relaxed);
        }
        let word = |at: usize| of.get(at..at + 8).and_then(|word| word.try_into().ok());
        for (i, to) in comm.gpu.iter().enumerate() {
            to.store(word(gpu + 8 * i).map_or(0, u64::from_le_bytes), Relaxed);
        }
        let len = offset_of!(Comm, name_len);
        let len = of.get(len..len + 4).and_then(|len| len.try_into().ok());
        comm.name_len
            .store(len.map_or(0, u32::from_le_bytes), Relaxed);
    }
    view.staging()
        .iter()
        .for_each(|byte| byte.store(0, Relaxed));
    Some(())
}

/// `capture.json` without names.
pub fn job(names: &mut Names, job: &Value) -> String {
    let mut out = serde_json::Map::new();
    for key in [
        "schema",
        "id",
        "started",
        "ncclscope",
        "ended",
        "exit_status",
    ] {
        if let Some(value) = job.get(key) {
            let value = match (key, value.as_str()) {
                ("started" | "ended", Some(moment)) => json!(in_utc(moment)),
                _ => value.clone(),
            };
            out.insert(key.into(), value);
        }
    }
    let words = job["command"].as_array().into_iter().flatten();
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    out.insert(
        "command".into(),
        json!([names.of(Kind::Command, &words.join(" "))]),
    );
    if let Some(samples) = job["samples"].as_object() {
        let samples = samples.iter().map(|(file, blocks)| {
            let (folder, name) = file.split_once('/').unwrap_or(("", file));
            (
                format!("{}/{name}", names.of(Kind::Host, folder)),
                blocks.clone(),
            )
        });
        out.insert("samples".into(), Value::Object(samples.collect()));
    }
    format!("{:#}\n", Value::Object(out))
}

/// A moment without the offset of a time zone.
fn in_utc(moment: &str) -> String {
    let parsed = moment.parse::<jiff::Timestamp>();
    parsed.map_or_else(|_| String::new(), |moment| moment.to_string())
}

/// What `ncclscope hang` saw, without names.
pub fn sighting(names: &mut Names, text: &str) -> Option<String> {
    let mut seen: Value = serde_json::from_str(text).ok()?;
    let of = seen.as_object_mut()?;
    for (key, value) in of.iter_mut() {
        let text = value.as_str().map(str::to_owned);
        *value = match (key.as_str(), text) {
            ("host", Some(host)) => json!(names.of(Kind::Host, &host)),
            ("boot_id", Some(boot)) => json!(names.of(Kind::Boot, &boot)),
            ("sentence", Some(sentence)) => json!(names.text(&sentence)),
            ("schema" | "verdict" | "at_ns" | "hang" | "processes", _) => continue,
            _ => Value::Null,
        };
    }
    Some(format!("{seen:#}\n"))
}

/// The steps and phases that the program marked.
pub fn marks(names: &mut Names, text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let Ok(mut mark) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        match mark.as_array_mut().map(Vec::as_mut_slice) {
            None => {}
            Some([kind, _, _, _]) if *kind == json!("step") => {}
            Some([kind, name, _, _]) if *kind == json!("phase") => {
                let of = name.as_str().unwrap_or_default().to_owned();
                *name = json!(names.unless_public(Kind::Phase, &of, PHASES));
            }
            Some(_) => continue,
        }
        out.push_str(&format!("{mark}\n"));
    }
    out
}

/// One of NCCL's files of topology.
pub fn topology(names: &mut Names, text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    // Hashes and numbers that name a host or a card.
    while let Some((at, key)) = ["host_hash=\"", "guid=\""]
        .iter()
        .filter_map(|key| Some((rest.find(key)?, *key)))
        .min()
    {
        let (before, value) = rest.split_at(at + key.len());
        let (value, after) = value.split_at(value.find('"').unwrap_or(value.len()));
        out.push_str(&names.text(before));
        if value.trim_start_matches("0x").bytes().all(|b| b == b'0') {
            out.push_str(value)
        } else {
            out.push_str(&names.of(Kind::Hash, value))
        }
        rest = after;
    }
    out.push_str(&names.text(rest));
    out
}
