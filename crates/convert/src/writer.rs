//! Writes what a reader found into files of a capture, one for each process.
//!
//! ```text
//! reader ──▶ Process: facts, communicators, calls, kernels ──▶ DIR/HOST/NAME.trace
//! ```
//!
//! A [`Process`] says what the file of the other tool had, and [`write`] puts that into blocks. There is a
//! live part only if the file shows a moment of a process that goes on ([`Process::as_of`]): it has the calls
//! that were open then. Else the other tool counted nothing that NCCL announced, and the capture does not say
//! that it did.
//!
//! Rule: times are ns, and ticks of the capture are ns too. What a file does not know stays 0, which the
//! format calls "not known".

use capture::block::{self, BlockKind};
use capture::live::{flag, on_gpu, part, row_state, Layout, View, MAGIC};
use capture::rows::{definitions, Encoder, GpuTime, Record, Shape, Ticks};
use capture::windows::{self, DriverCall, GpuActivity, Window};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Communicators of a process. Calls on others count as on one that is not known.
pub const MOST_COMMUNICATORS: usize = 4096;
/// Calls that are open at the same time.
const MOST_OPEN: usize = 1 << 16;
/// Rows in a block.
const BLOCK_ROWS: usize = 4096;

/// A communicator as a process sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Communicator {
    /// Equal on all its ranks and on no other communicator; 0 not known.
    pub hash: u64,
    /// 0 not known.
    pub nranks: u32,
    /// The process's rank in it.
    pub rank: Option<u32>,
    /// CUDA's number of the GPU.
    pub device: Option<u32>,
    /// What the program calls it.
    pub name: String,
    /// The job's ranks in it in order, if `rank` is to be found by the process's; else empty.
    pub ranks: Vec<u32>,
}

/// A call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Index of its communicator.
    pub communicator: u32,
    /// As NCCL names it.
    pub function: &'static str,
    /// As NCCL names it; empty if it is not known.
    pub datatype: &'static str,
    /// Elements as NCCL counts them.
    pub count: u64,
    /// Root.
    pub root: Option<u32>,
    /// Peer of a send or receive in the communicator.
    pub peer: Option<u32>,
    /// Number of the thread, 0 not known.
    pub thread: u32,
    /// CUDA's id of the stream.
    pub stream: u64,
    /// Its number among those of its function on its communicator, equal on all ranks.
    pub seq: Option<u64>,
    /// The program called, ns; 0 not known.
    pub called: u64,
    /// The call returned, ns.
    pub returned: u64,
    /// Its launch, from and to, ns.
    pub launched: Option<(u64, u64)>,
    /// Algorithm as NCCL names it; empty if it is not known.
    pub algorithm: &'static str,
    /// Protocol as NCCL names it; empty if it is not known.
    pub protocol: &'static str,
    /// Its kernel by CUPTI, from when and for how long, ns.
    pub ran: Option<(u64, u64)>,
    /// Its kernel by NCCL's stamps.
    pub stamped: Option<Stamped>,
    /// Its GPU time by NCCL's stamps, ns, if nothing else is known of its kernel.
    pub length: Option<u64>,
    /// It had not ended when the file was written.
    pub is_open: bool,
    /// Of an open call: whether the GPU had begun it, if that is known.
    pub begun: Option<bool>,
}

/// When NCCL's stamps say that a kernel ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamped {
    /// It began, ns of the GPU's clock.
    pub start: u64,
    /// It ended, ns of the GPU's clock.
    pub stop: u64,
    /// The host was told of its end, ns.
    pub seen: u64,
    /// Its channels.
    pub channels: u16,
}

/// What a file says of one process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// What is known of it: see `crates/capture/SPEC.md`.
    pub facts: Vec<(&'static str, String)>,
    /// Added to each time, it is ns since 1970.
    pub base: i64,
    /// Its communicators.
    pub communicators: Vec<Communicator>,
    /// Its calls, in the order in which the program made them.
    pub calls: Vec<Call>,
    /// What ran on its GPUs.
    pub kernels: Vec<(u32, GpuActivity<u64>)>,
    /// Names of kernels by id - 1.
    pub names: Vec<String>,
    /// What its host asked the driver for.
    pub driver_calls: Vec<DriverCall>,
    /// A moment at which the process ran, ns, if its calls do not say one.
    pub moment: Option<u64>,
    /// When the file was written, if it shows a moment of a process that goes on, and not the end of it.
    pub as_of: Option<u64>,
}

impl Process {
    /// What is known of it by this key.
    pub fn fact(&self, key: &str) -> Option<&str> {
        let fact = self.facts.iter().find(|(known, _)| *known == key);
        fact.map(|(_, value)| value.as_str())
    }
}

/// The facts on the host of a process. If the file does not say it, the name is made up, and `which` tells
/// several such hosts apart.
pub fn host_facts(known: Option<String>, which: &str) -> Vec<(&'static str, String)> {
    match known {
        Some(host) => vec![("host", host)],
        None => vec![
            ("host_name", "unknown".to_owned()),
            ("host", format!("unknown host{which}")),
        ],
    }
}

/// By how much times of CUPTI may be off on the host's clock, ns.
const GPU_ERROR: u32 = 1000;
/// Ticks begin here, because 0 is "not known".
const FIRST: u64 = 1 << 20;

/// A trace file that is written.
struct Blocks {
    file: BufWriter<File>,
    number: u32,
    bytes: Vec<u8>,
}

impl Blocks {
    fn put(&mut self, kind: BlockKind, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.bytes.clear();
        let start = block::begin(&mut self.bytes);
        fill(&mut self.bytes);
        block::finish(&mut self.bytes, start, kind, self.number);
        self.number += 1;
        self.file.write_all(&self.bytes)
    }
}

/// Writes the `number`th process of a capture, which file `of` is about, to `folder`.
///
/// # Errors
/// If a file can't be written.
pub fn write(folder: &Path, number: usize, of: &Path, process: &Process) -> io::Result<()> {
    let name: String = of
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).take(100).collect();
    // Readers take files of one name for one recording.
    let id = trace_id(process);
    let stem = folder.join(format!("{number:05}-{name}-{id:016x}"));
    let file = File::create_new(stem.with_extension("trace"))?;
    let mut out = Blocks {
        file: BufWriter::new(file),
        number: 0,
        bytes: Vec::new(),
    };
    // From the first of all times on, so that none is 0.
    let called = process.calls.iter().map(|call| call.called);
    let firsts = [
        called.filter(|at| *at != 0).min(),
        process.moment,
        process.kernels.iter().map(|(_, ran)| ran.start).min(),
        process.driver_calls.iter().map(|call| call.at.0).min(),
    ];
    let first = firsts.into_iter().flatten().min().unwrap_or(0);
    let ticks = |ns: u64| Ticks(ns.saturating_sub(first).saturating_add(FIRST));
    out.file.write_all(&block::file_header(id))?;
    let facts = process.facts.iter().filter(|(_, value)| !value.is_empty());
    let line = |(key, value): &(&str, String)| {
        let value: String = value
            .chars()
            .filter(|c| !c.is_control())
            .take(1000)
            .collect();
        format!("{key}={value}\n")
    };
    let facts: String = facts.map(line).collect();
    out.put(BlockKind::Process, |to| {
        to.extend(format!("{facts}clock=monotonic\n").bytes());
    })?;
    let realtime = i128::from(first) + i128::from(process.base);
    let realtime = u64::try_from(realtime).ok().filter(|ns| *ns != 0);
    let anchor = [FIRST, 0, realtime.unwrap_or(FIRST)];
    out.put(BlockKind::Anchor, |to| {
        anchor
            .iter()
            .for_each(|value| to.extend(value.to_le_bytes()));
    })?;
    let image = Image::new(process);
    let view = image.view();
    definitions_of(&mut out, process, &view)?;
    rows(&mut out, process, &ticks)?;
    window(&mut out, process, &ticks)?;
    let Some(as_of) = process.as_of else {
        out.put(BlockKind::End, |_| {})?;
        return out.file.flush();
    };
    let anchors = [
        anchor,
        [
            ticks(as_of).0,
            0,
            anchor[2].saturating_add(as_of.saturating_sub(first)),
        ],
    ];
    out.put(BlockKind::Anchor, |to| {
        anchors[1]
            .iter()
            .for_each(|value| to.extend(value.to_le_bytes()));
    })?;
    live_part(&view, process, (id, out.number), anchors, &ticks);
    out.file.flush()?;
    std::fs::write(stem.with_extension("live"), image.bytes())
}

/// The trace's id, by what the process did and when: two files are the same recording only if they are equal
/// in that.
fn trace_id(process: &Process) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (&process.facts, process.base).hash(&mut hasher);
    for call in &process.calls {
        (call.function, call.count, call.called, call.ran, call.seq).hash(&mut hasher);
        (call.length, call.stamped.map(|times| times.start)).hash(&mut hasher);
    }
    for (device, ran) in &process.kernels {
        (device, ran.start, ran.ns, ran.stream).hash(&mut hasher);
    }
    hasher.finish().max(1)
}

/// Memory for a live part.
struct Image {
    pages: Vec<Page>,
    layout: Layout,
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

impl Image {
    fn new(process: &Process) -> Image {
        let open = process
            .calls
            .iter()
            .filter(|call| is_open(process, call))
            .count();
        let layout = Layout {
            strings: 255,
            comms: process.communicators.len().clamp(1, MOST_COMMUNICATORS) as u32,
            groups: 1,
            totals: 1,
            pages: 1,
            rows: open.clamp(1, MOST_OPEN) as u32,
            staging: 8,
            net_ops: 1,
            most_comms: 0,
            most_rows: 0,
            most_graphs: 0,
            graphs: 1,
            launches: 1,
        };
        let pages = layout.bytes().div_ceil(4096);
        Image {
            pages: vec![Page([0; 4096]); pages],
            layout,
        }
    }

    /// Only asked for once.
    fn view(&self) -> View<'_> {
        let base = self.pages.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: so many bytes are behind the address, page aligned and zero. They live as long as the view,
        // and are only written as the atomic integers that the view has there.
        unsafe { View::create(base, &self.layout) }
    }

    fn bytes(&self) -> Vec<u8> {
        let bytes = self.pages.iter().flat_map(|page| page.0);
        bytes.take(self.layout.bytes()).collect()
    }
}

/// Whether a call is a row of the live part.
fn is_open(process: &Process, call: &Call) -> bool {
    call.is_open && process.as_of.is_some()
}

/// The live part of a process that goes on: `id` is its trace's, and the number of the next block.
fn live_part(
    view: &View<'_>,
    process: &Process,
    id: (u64, u32),
    anchors: [[u64; 3]; 2],
    ticks: &impl Fn(u64) -> Ticks,
) {
    let header = view.header();
    header.trace_id.store(id.0, Relaxed);
    header.block_number.store(id.1, Relaxed);
    for (to, from) in [&header.first, &header.last].into_iter().zip(anchors) {
        to.ticks.store(Ticks(from[0]), Relaxed);
        to.realtime.store(from[2], Relaxed);
    }
    let strings = strings(process);
    let mut rows = view.rows().iter();
    for (ticket, call) in process.calls.iter().enumerate() {
        if !is_open(process, call) {
            continue;
        }
        let Some(row) = rows.next() else { break };
        let record = record(process, &strings, ticket, call, ticks);
        row.t_api.store(record.t_api, Relaxed);
        row.count.store(record.shape.count, Relaxed);
        row.comm.store(record.shape.comm, Relaxed);
        row.root.store(record.shape.root as u32, Relaxed);
        row.func.store(record.shape.func, Relaxed);
        row.datatype.store(record.shape.datatype, Relaxed);
        row.flags.store(record.shape.flags, Relaxed);
        row.parts.store(record.shape.parts, Relaxed);
        row.peer.store(record.shape.peer, Relaxed);
        row.seq.store(record.seq, Relaxed);
        if let Some(begun) = call.begun {
            let state = if begun {
                on_gpu::BEGUN
            } else {
                on_gpu::NOT_REACHED
            };
            row.asked.store(Ticks(anchors[1][0]), Relaxed);
            row.on_gpu.store(state, Relaxed);
        }
        row.word
            .store(row_state::word(0, ticket as u64, row_state::ALIVE), Relaxed);
    }
    let calls = process.calls.len() as u64;
    let open = process
        .calls
        .iter()
        .filter(|call| is_open(process, call))
        .count() as u64;
    header.born.store(calls, Relaxed);
    header.drained.store(calls, Relaxed);
    header.sealed.store(calls - open, Relaxed);
    header.magic.store(MAGIC, Relaxed);
}

/// Names of functions and datatypes, by their ids - 1.
fn strings(process: &Process) -> Vec<&'static str> {
    let mut strings: Vec<&str> = Vec::new();
    for call in &process.calls {
        for name in [call.function, call.datatype, call.algorithm, call.protocol] {
            if !name.is_empty() && !strings.contains(&name) {
                strings.push(name);
            }
        }
    }
    strings
}

fn definitions_of(out: &mut Blocks, process: &Process, view: &View<'_>) -> io::Result<()> {
    let strings = strings(process);
    out.put(BlockKind::Definitions, |to| {
        for (at, text) in strings.iter().enumerate().take(view.strings().len()) {
            let entry = &view.strings()[at];
            for (to, byte) in entry.bytes.iter().zip(text.bytes()) {
                to.store(byte, Relaxed);
            }
            let len = text.len().min(entry.bytes.len());
            entry.len.store(2 + len as u32, Relaxed);
            definitions::put_text(to, at as u8 + 1, entry);
        }
        let all = process.communicators.iter().zip(view.comms()).enumerate();
        for (at, (of, comm)) in all {
            comm.uid.store(at as u32 + 1, Relaxed);
            comm.hash.store(of.hash, Relaxed);
            comm.nranks.store(of.nranks, Relaxed);
            comm.rank.store(of.rank.unwrap_or(u32::MAX), Relaxed);
            comm.device.store(of.device.unwrap_or(u32::MAX), Relaxed);
            let bytes = of.name.bytes().take(comm.name.len());
            let mut len = 0;
            for (to, byte) in comm.name.iter().zip(bytes) {
                to.store(byte, Relaxed);
                len += 1;
            }
            comm.name_len.store(len, Relaxed);
            definitions::put_comm(to, at as u16, comm);
        }
    })
}

/// A call as a row of a block.
fn record(
    process: &Process,
    strings: &[&str],
    ticket: usize,
    call: &Call,
    ticks: &impl Fn(u64) -> Ticks,
) -> Record {
    let id = |name: &str| -> u8 {
        let at = strings.iter().position(|known| *known == name);
        at.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or(0)
    };
    let is_p2p = matches!(call.function, "Send" | "Recv");
    let known = |time: Option<u64>| time.map_or(Ticks(0), ticks);
    let stamped = call.stamped.unwrap_or_default();
    let mut parts = part::ENQUEUED | part::ENQUEUE_DONE;
    let has_stamps = call.stamped.is_some() || call.length.is_some();
    for (is_so, bit) in [
        (process.as_of.is_none() && !has_stamps, part::EVENTS),
        // The GPU was asked by an event.
        (call.is_open && call.begun.is_some(), part::EVENTS),
        (call.launched.is_some(), part::LAUNCHED),
    ] {
        parts |= if is_so { bit } else { 0 };
    }
    Record {
        ticket: ticket as u64,
        shape: Shape {
            comm: call.communicator.saturating_add(1),
            func: id(call.function),
            datatype: id(call.datatype),
            flags: if is_p2p { flag::P2P } else { 0 },
            parts,
            algorithm: id(call.algorithm),
            protocol: id(call.protocol),
            nchannels: stamped.channels.min(u8::MAX.into()) as u8,
            count: call.count,
            root: call.root.map_or(-1, |root| root as i32),
            peer: call.peer.map_or(0, |peer| peer.saturating_add(1)),
            stream: call.stream,
            thread: call.thread,
            ..Shape::default()
        },
        seq: call.seq.map_or(0, |seq| seq.saturating_add(1)),
        t_api: known(Some(call.called).filter(|at| *at != 0)),
        t_end: known(Some(call.returned).filter(|at| *at != 0)),
        t_launch0: known(call.launched.map(|(from, _)| from)),
        t_launch1: known(call.launched.map(|(_, to)| to)),
        event_start: known(call.ran.map(|(from, _)| from)),
        event_ns: call.ran.map(|(_, ns)| ns).or(call.length).unwrap_or(0),
        event_error: if call.ran.is_some() { GPU_ERROR } else { 0 },
        stamp_start: GpuTime(stamped.start),
        stamp_stop: GpuTime(stamped.stop),
        k_seen: known(Some(stamped.seen).filter(|at| *at != 0)),
        k_started: stamped.channels,
        k_stopped: stamped.channels,
        ..Record::default()
    }
}

fn rows(out: &mut Blocks, process: &Process, ticks: &impl Fn(u64) -> Ticks) -> io::Result<()> {
    let strings = strings(process);
    let mut encoder = Encoder::new();
    let mut records: Vec<Record> = Vec::with_capacity(BLOCK_ROWS);
    for (ticket, call) in process.calls.iter().enumerate() {
        if !is_open(process, call) {
            records.push(record(process, &strings, ticket, call, ticks));
        }
        let is_last = ticket + 1 == process.calls.len();
        if records.len() == BLOCK_ROWS || is_last && !records.is_empty() {
            out.put(BlockKind::Rows, |to| encoder.encode(to, &records))?;
            records.clear();
        }
    }
    Ok(())
}

/// One window with all that ran, if something did.
fn window(out: &mut Blocks, process: &Process, ticks: &impl Fn(u64) -> Ticks) -> io::Result<()> {
    if process.kernels.is_empty() {
        return Ok(());
    }
    let ran = process
        .kernels
        .iter()
        .map(|(_, ran)| (ran.start, ran.start.saturating_add(ran.ns)));
    let called = process.calls.iter().map(|call| call.called);
    let calls = called.filter(|at| *at != 0).map(|at| (at, at));
    let asked = process
        .driver_calls
        .iter()
        .map(|call| (call.at.0, call.at.0));
    let (mut from, mut to) = (u64::MAX, 0);
    for span in ran.chain(calls).chain(asked) {
        (from, to) = (from.min(span.0), to.max(span.1));
    }
    for (names, first) in process.names.chunks(windows::MOST / 16).zip(0u32..) {
        out.put(BlockKind::Names, |to| {
            for (name, at) in names.iter().zip(1..) {
                let id = first * (windows::MOST / 16) as u32 + at;
                windows::put_name(to, id, name.as_bytes());
            }
        })?;
    }
    let mut by_device: HashMap<u32, Vec<GpuActivity>> = HashMap::new();
    for (device, ran) in &process.kernels {
        let ran = ran.on_clock(ticks(ran.start), ran.ns);
        by_device.entry(*device).or_default().push(ran);
    }
    let mut devices: Vec<(u32, Vec<GpuActivity>)> = by_device.into_iter().collect();
    devices.sort_by_key(|(device, _)| *device);
    for (device, ran) in &devices {
        for ran in ran.chunks(windows::MOST) {
            out.put(BlockKind::GpuActivities, |to| {
                windows::put_activities(to, 1, *device, ran);
            })?;
        }
    }
    let asked = process.driver_calls.iter().map(|call| DriverCall {
        at: ticks(call.at.0),
        ..*call
    });
    let mut asked: Vec<DriverCall> = asked.collect();
    asked.sort_by_key(|call| call.at);
    for asked in asked.chunks(windows::MOST) {
        out.put(BlockKind::DriverCalls, |to| {
            windows::put_driver_calls(to, 1, asked)
        })?;
    }
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let window = Window {
        number: 1,
        planned: 1,
        opening: ticks(from),
        open: ticks(from),
        // What was launched at the very end is in it.
        closing: Ticks(ticks(to).0.saturating_add(1)),
        closed: Ticks(ticks(to).0.saturating_add(1)),
        ran: number(process.kernels.len()),
        asked: number(asked.len()),
        error: GPU_ERROR,
        ..Window::default()
    };
    out.put(BlockKind::Windows, |to| windows::put_window(to, &window))
}
