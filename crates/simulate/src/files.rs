//! A capture in memory, written to a folder as the recorder would have written it.
//!
//! One tick is one ns. Everything that [`crate::play::Played::capture_of`] fills in is written: calls, kernel
//! windows, driver calls and graphs. Of a job that runs ([`crate::hanging::Trial::as_of`]), a process has a
//! snapshot of its live part besides: calls that are open, how far the GPU has come with them, network
//! operations, and when its recorder wrote last. [`look`] writes what `ncclscope hang` kept beside that.
//!
//! Rule: nothing is written that a recorder or `ncclscope hang` does not write.

use capture::block::{self, BlockKind};
use capture::graphs::{Contents, Executable, GraphRecord, LaunchTime, Launched};
use capture::live::{self, on_gpu, row_state, Image, Layout, View};
use capture::rows::{definitions, Encoder, Record, Shape, Ticks};
use capture::windows as on_disk;
use capture::{mpi, snapshot};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, Release};
use tables::sightings::{Looked, Sighting};
use tables::{Capture, GpuTimes, Life, LiveSource, Process};

/// Rows in a block.
const BATCH: usize = 1024;
/// Before its first call a process has been there for so long, ns.
const BEFORE: i64 = 2_000_000;

/// Writes a capture into a folder, which is made.
pub fn write(capture: &Capture, folder: &Path) -> io::Result<()> {
    let mut processes = capture.processes.iter().enumerate();
    processes.try_for_each(|(index, process)| {
        let folder = folder.join(&process.host);
        std::fs::create_dir_all(&folder)?;
        one(capture, process, index as u32 + 1, &folder)
    })
}

/// Keeps in a capture on disk what was seen of its processes at a moment, ns since 1970, and what the verdict
/// was then. Only processes are asked that are on the watcher's host.
pub fn look(
    capture: &Capture,
    at_ns: i64,
    (hang, verdict, sentence): (Option<bool>, &str, &str),
    folder: &Path,
) -> io::Result<()> {
    let here = |process: &&Process| process.life != Life::Unknown;
    let Some(host) = capture.processes.iter().find(here).map(|of| &of.host) else {
        return Ok(());
    };
    let looked = |process: &Process| {
        let known = Process {
            facts: who(process),
            ..process.clone()
        };
        Looked::at(&known, at_ns)
    };
    let sighting = Sighting {
        at_ns,
        host: host.clone(),
        boot_id: boot_id(host),
        hang,
        verdict: verdict.to_owned(),
        sentence: sentence.to_owned(),
        processes: capture.processes.iter().filter_map(looked).collect(),
        ..Sighting::default()
    };
    let text = format!("{:#}\n", sighting.json());
    std::fs::write(folder.join(host).join(sighting.name()), text)
}

/// Whether a process was read while it ran. One of a job that is over has all its calls in the trace file.
fn is_of_a_moment(process: &Process) -> bool {
    process.live != LiveSource::None
}

/// A machine that no capture of a real one is of.
fn boot_id(host: &str) -> String {
    let number: u32 = host.bytes().fold(0x5eed, |number, byte| {
        number.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("{number:08x}-0000-4000-8000-000000000000")
}

/// The facts by which a process of a job that runs is known.
fn who(process: &Process) -> BTreeMap<String, String> {
    let facts = [
        ("boot_id", boot_id(&process.host)),
        ("pid_start", (1000 + process.pid).to_string()),
        ("pid_namespace", "4026531836".to_owned()),
        ("live", format!("/dev/shm/ncclscope-0/{}.live", process.pid)),
    ];
    facts.map(|(key, value)| (key.to_owned(), value)).into()
}

fn ticks(ns: i64) -> Ticks {
    Ticks(ns.max(0) as u64)
}

/// The texts of a process's calls, and their numbers.
struct Texts(Vec<String>);

impl Texts {
    fn id(&mut self, text: &str) -> u8 {
        if text.is_empty() {
            return 0;
        }
        let known = self.0.iter().position(|t| t == text);
        let at = known.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        at as u8 + 1
    }
}

fn live_part(
    capture: &Capture,
    process: &Process,
    texts: &Texts,
    (open, id): (&[Record], u32),
) -> (Image, usize) {
    let at_least_16 = |n: usize| n.max(16).next_power_of_two() as u32;
    let layout = Layout {
        graphs: 0,
        launches: 0,
        strings: 16,
        comms: process.communicators.len().max(1) as u32,
        groups: 4,
        totals: 4,
        pages: 4,
        rows: at_least_16(open.len()),
        staging: 4096,
        net_ops: at_least_16(process.net_ops.len()),
        most_comms: 0,
        most_rows: 0,
        most_graphs: 0,
    };
    let image = Image::zeroed(layout.bytes());
    // SAFETY: the image is zeroed, long enough and outlives the view.
    let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
    let header = view.header();
    header.trace_id.store(id.into(), Relaxed);
    header.clock.store(1, Relaxed);
    header.born.store(process.calls.len() as u64, Relaxed);
    let sealed = process.calls.len() - open.len();
    header.sealed.store(sealed as u64, Relaxed);
    let has_ended = process.ended || !is_of_a_moment(process);
    header.state.store(has_ended.into(), Relaxed);
    if is_of_a_moment(process) {
        let (from, until) = span(process);
        for (anchor, at) in [(&header.first, from), (&header.last, until)] {
            anchor.ticks.store(ticks(at), Relaxed);
            anchor.monotonic.store(at as u64, Relaxed);
            anchor.realtime.store(at as u64, Relaxed);
        }
        put_open(process, open, &view);
    }
    for (text, stored) in texts.0.iter().zip(view.strings()) {
        for (byte, stored) in text.bytes().zip(&stored.bytes) {
            stored.store(byte, Relaxed);
        }
        stored.len.store(text.len() as u32 + 2, Relaxed);
    }
    let first = span(process).0 + BEFORE;
    for (local, comm) in process.communicators.iter().zip(view.comms()) {
        comm.abi.store(5, Relaxed);
        let of = capture.communicators.get(local.uid as usize);
        comm.hash.store(of.map_or(0, |c| c.hash), Relaxed);
        comm.nranks.store(local.nranks, Relaxed);
        let nnodes = of.and_then(|c| c.nnodes).unwrap_or(1);
        comm.nnodes.store(nnodes, Relaxed);
        comm.rank.store(local.rank.unwrap_or(0), Relaxed);
        comm.device.store(local.device.unwrap_or(0), Relaxed);
        comm.t_init.store(ticks(first - BEFORE / 2), Relaxed);
        if let Some(ended) = local.ended_ns {
            comm.finalized.store(1, Relaxed);
            comm.t_final.store(ticks(ended), Relaxed);
        }
        comm.uid.store(local.uid + 1, Relaxed);
    }
    header.magic.store(live::MAGIC, Relaxed);
    (image, layout.bytes())
}

/// Puts calls that have not ended into the live part, and what is known of them.
fn put_open(process: &Process, open: &[Record], view: &View) {
    for (record, row) in open.iter().zip(view.rows()) {
        let Record { shape, .. } = record;
        row.t_api.store(record.t_api, Relaxed);
        row.count.store(shape.count, Relaxed);
        row.group.store(record.group, Relaxed);
        row.stream.store(shape.stream, Relaxed);
        row.comm.store(shape.comm, Relaxed);
        row.root.store(shape.root as u32, Relaxed);
        row.func.store(shape.func, Relaxed);
        row.datatype.store(shape.datatype, Relaxed);
        row.flags.store(shape.flags, Relaxed);
        row.t_end.store(record.t_end, Relaxed);
        row.t_launch0.store(record.t_launch0, Relaxed);
        row.t_launch1.store(record.t_launch1, Relaxed);
        row.seq.store(record.seq, Relaxed);
        row.peer.store(shape.peer, Relaxed);
        row.algorithm.store(shape.algorithm, Relaxed);
        row.parts.store(shape.parts, Relaxed);
        row.ops_started.store(record.ops_started, Relaxed);
        row.ops_stopped.store(record.ops_stopped, Relaxed);
        row.driver.store(record.driver, Relaxed);
        let asked = process.on_gpu.iter().find(|of| of.ticket == record.ticket);
        if let Some(asked) = asked {
            row.asked.store(ticks(asked.asked_ns), Relaxed);
            let state = if asked.begun {
                on_gpu::BEGUN
            } else {
                on_gpu::NOT_REACHED
            };
            row.on_gpu.store(state, Relaxed);
        }
        let word = row_state::word(0, record.ticket, row_state::ALIVE);
        row.word.store(word, Release);
    }
    for (op, place) in process.net_ops.iter().zip(view.net_ops()) {
        let row = open.iter().position(|record| record.ticket == op.ticket);
        let Some(row) = row else { continue };
        place.row.store((row as u64) << 28, Relaxed);
        place.t_start.store(ticks(op.since_ns), Relaxed);
        let peer = op.peer.unwrap_or(u32::MAX);
        place.peer.store(peer, Relaxed);
        place.nsteps.store(op.steps, Relaxed);
        place.done.store(op.done, Relaxed);
        place.channel.store(op.channel, Relaxed);
        place.send.store(op.send.into(), Relaxed);
        place.begun.store(op.begun.into(), Relaxed);
        if let Some(wait) = op.wait {
            // The step after those that are done is the oldest that is open.
            let step = &place.steps[op.done as usize % place.steps.len()];
            let number = u64::from(op.done) / place.steps.len() as u64;
            step.word.store(number << 46 | 1, Relaxed);
            let since = ticks(op.since_ns).0 << 3;
            step.wait.store(since | (u64::from(wait) + 1), Relaxed);
            let at = op.done as usize % place.steps.len();
            place.open.store(1 << at, Relaxed);
        }
        place.word.store(1, Release);
    }
}

/// From when to when a process was there: of one that runs, up to the moment at which its recorder wrote
/// last.
fn span(process: &Process) -> (i64, i64) {
    let newest = process.clock.newest().filter(|_| is_of_a_moment(process));
    let first = process.calls.first().map(|call| call.api_ns);
    let from = first.or(newest).unwrap_or(0) - BEFORE;
    let last = process.calls.last();
    let last = last.map_or(from, |call| call.return_ns.max(call.gpu_seen_ns));
    (from, newest.unwrap_or(last + BEFORE / 2))
}

/// A trace file that is being written.
struct Trace {
    out: io::BufWriter<std::fs::File>,
    buffer: Vec<u8>,
    number: u32,
}

impl Trace {
    fn block(&mut self, kind: BlockKind, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.buffer.clear();
        let start = block::begin(&mut self.buffer);
        fill(&mut self.buffer);
        block::finish(&mut self.buffer, start, kind, self.number);
        self.number += 1;
        self.out.write_all(&self.buffer)
    }

    fn anchor(&mut self, ns: i64) -> io::Result<()> {
        self.block(BlockKind::Anchor, |out| {
            for _ in 0..3 {
                out.extend(ns.to_le_bytes());
            }
        })
    }
}

fn one(capture: &Capture, process: &Process, id: u32, folder: &Path) -> io::Result<()> {
    let mut texts = Texts(Vec::new());
    let text = |name: tables::Name| capture.names.get(name).unwrap_or_default().to_owned();
    let shapes: Vec<Shape> = process
        .shapes
        .iter()
        .map(|shape| Shape {
            comm: shape.uid + 1,
            func: texts.id(&text(shape.function)),
            datatype: texts.id(&text(shape.datatype)),
            algorithm: texts.id(&text(shape.algorithm)),
            flags: shape.flags,
            parts: shape.parts,
            count: shape.count,
            root: -1,
            stream: 0x5555_0000,
            peer: shape.peer.map_or(0, |peer| peer + 1),
            ..Shape::default()
        })
        .collect();
    let stem = folder.join(format!(
        "r{}-p{}-{id:016x}",
        process.rank.unwrap_or(0),
        process.pid
    ));
    let (sealed, open) = records(process, &shapes);
    let (image, len) = live_part(capture, process, &texts, (&open, id));
    if is_of_a_moment(process) {
        let slot = snapshot::whole(&image, len);
        let mut file = vec![0; snapshot::slot_offset(0, slot.len()) as usize];
        file.extend(slot);
        std::fs::write(stem.with_extension("snap"), file)?;
    } else {
        let words = image.words().iter();
        let bytes: Vec<u8> = words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect();
        std::fs::write(stem.with_extension("live"), &bytes[..len])?;
    }
    let file = std::fs::File::create(stem.with_extension("trace"))?;
    let mut trace = Trace {
        out: io::BufWriter::new(file),
        buffer: Vec::new(),
        number: 0,
    };
    trace.out.write_all(&block::file_header(id.into()))?;
    let mut facts = format!(
        "host={}\npid={}\nrank={}\nworld_size={}\nmode=trace\ntiming={}\nnccl=2.28.9\nclock=tsc\n",
        process.host,
        process.pid,
        process.rank.unwrap_or(0),
        capture.processes.len(),
        process.fact("timing").unwrap_or("auto"),
    );
    if is_of_a_moment(process) {
        let lines = who(process).into_iter();
        facts.extend(lines.map(|(key, value)| format!("{key}={value}\n")));
    }
    trace.block(BlockKind::Process, |out| out.extend(facts.bytes()))?;
    let view = image.view().ok_or(io::ErrorKind::InvalidData)?;
    trace.block(BlockKind::Definitions, |out| {
        for (index, text) in view.strings().iter().take(texts.0.len()).enumerate() {
            definitions::put_text(out, index as u8 + 1, text);
        }
        for (index, comm) in view.comms().iter().enumerate() {
            definitions::put_comm(out, index as u16, comm);
        }
    })?;
    let (from, until) = span(process);
    trace.anchor(from)?;
    let mut encoder = Encoder::new();
    for some in sealed.chunks(BATCH) {
        trace.block(BlockKind::Rows, |out| encoder.encode(out, some))?;
    }
    windows(process, &mut trace)?;
    graphs(process, &shapes, &mut trace)?;
    in_mpi(process, &mut trace)?;
    trace.anchor(until)?;
    if process.ended || !is_of_a_moment(process) {
        trace.block(BlockKind::End, |_| ())?;
    }
    trace.out.flush()
}

/// The calls of a process: those that are in its trace file, and those that are still in its live part.
fn records(process: &Process, shapes: &[Shape]) -> (Vec<Record>, Vec<Record>) {
    let (mut sealed, mut open) = (Vec::with_capacity(process.calls.len()), Vec::new());
    let mut of_comms: HashMap<(u32, bool), u64> = HashMap::new();
    for call in &process.calls {
        let shape = shapes[call.shape as usize];
        let (event_start, event_ns, event_error) = match call.gpu {
            GpuTimes::OnHost { start, stop, error } => (ticks(start), (stop - start) as u64, error),
            _ => (Ticks(0), 0, 0),
        };
        let sends = shape.peer != 0;
        let seq = of_comms.entry((shape.comm, sends)).or_default();
        *seq += u64::from(!sends);
        let extra = (call.extra as usize).checked_sub(1);
        let extra = extra.and_then(|extra| process.extras.get(extra));
        let record = Record {
            ticket: call.ticket,
            shape,
            t_api: ticks(call.api_ns),
            t_launch0: ticks(call.launch_start_ns),
            t_launch1: ticks(call.launch_end_ns),
            t_end: ticks(call.return_ns),
            k_seen: ticks(call.gpu_seen_ns),
            // The first call of a launch gives its group a number.
            group: match call.composite {
                0 => call.ticket + 1,
                number => u64::from(process.composites[number as usize - 1].calls[0]) + 1,
            },
            seq: match (sends, call.seq) {
                (true, _) => 0,
                (false, 0) => *seq,
                (false, known) => known,
            },
            verdict: call.verdict,
            event_start,
            event_ns,
            event_error,
            waiter: call.waiter,
            waited: call.waited,
            // A tick is a ns.
            driver: (call.driver_waited_ns / 64) as u32,
            ops_started: extra.map_or(0, |extra| extra.ops_started),
            ops_stopped: extra.map_or(0, |extra| extra.ops_stopped),
            ..Record::default()
        };
        if call.sealed || !is_of_a_moment(process) {
            sealed.push(record);
        } else {
            open.push(record);
        }
    }
    (sealed, open)
}

/// The calls of MPI that a process is in.
fn in_mpi(process: &Process, trace: &mut Trace) -> io::Result<()> {
    let open = process.mpi.spans.iter().filter(|span| span.open);
    let inside: Vec<mpi::ThreadInside> = open
        .map(|span| mpi::ThreadInside {
            thread: span.thread.unwrap_or(0),
            since: ticks(span.from),
            name: process.mpi.name(span).to_owned(),
        })
        .collect();
    if inside.is_empty() {
        return Ok(());
    }
    let (from, until) = span(process);
    trace.block(BlockKind::Mpi, |out| {
        mpi::put_mpi(
            out,
            &mpi::Mpi {
                since: ticks(from),
                now: ticks(until),
                open: inside,
                ..mpi::Mpi::default()
            },
        );
    })
}

fn windows(process: &Process, trace: &mut Trace) -> io::Result<()> {
    if process.windows.list.is_empty() {
        return Ok(());
    }
    trace.block(BlockKind::Names, |out| {
        for (id, name) in process.windows.names.iter().enumerate().skip(1) {
            on_disk::put_name(out, id as u32, name.as_bytes());
        }
    })?;
    for window in &process.windows.list {
        trace.block(BlockKind::Windows, |out| {
            on_disk::put_window(
                out,
                &on_disk::Window {
                    number: window.number,
                    planned: window.planned,
                    opening: ticks(window.opening),
                    open: ticks(window.open),
                    closing: ticks(window.closing),
                    closed: ticks(window.closed),
                    ran: window.ran.len() as u32,
                    asked: window.asked.len() as u32,
                    ..on_disk::Window::default()
                },
            );
        })?;
        let ran = window.ran.iter().map(|r| on_disk::GpuActivity {
            start: ticks(r.start),
            ns: (r.end - r.start) as u64,
            name: r.name,
            stream: r.stream,
            correlation: r.correlation,
            graph: r.graph,
            node: r.node,
            kind: r.kind,
            size: r.size,
        });
        let ran: Vec<on_disk::GpuActivity> = ran.collect();
        let device = window.ran.first().map_or(0, |r| r.device);
        for some in ran.chunks(BATCH) {
            trace.block(BlockKind::GpuActivities, |out| {
                on_disk::put_activities(out, window.number, device, some);
            })?;
        }
        let asked = window.asked.iter().map(|a| on_disk::DriverCall {
            at: ticks(a.at),
            took: a.took,
            kind: a.kind,
            thread: a.thread,
            stream: a.stream,
            object: a.object,
        });
        let asked: Vec<on_disk::DriverCall> = asked.collect();
        for some in asked.chunks(BATCH) {
            trace.block(BlockKind::DriverCalls, |out| {
                on_disk::put_driver_calls(out, window.number, some);
            })?;
        }
    }
    Ok(())
}

fn graphs(process: &Process, shapes: &[Shape], trace: &mut Trace) -> io::Result<()> {
    let graphs = &process.graphs;
    if graphs.shapes.is_empty() {
        return Ok(());
    }
    trace.block(BlockKind::Graphs, |out| {
        let captured = graphs.shapes.iter().map(|index| {
            let shape = shapes[*index as usize];
            capture::graphs::Shape {
                comm: shape.comm,
                func: shape.func,
                datatype: shape.datatype,
                flags: shape.flags,
                count: shape.count,
                root: shape.root,
            }
        });
        capture::graphs::put_record(out, &GraphRecord::Shapes(0, captured.collect()));
        for (index, content) in graphs.contents.iter().enumerate() {
            let contents = Contents {
                number: index as u32 + 1,
                flags: 0,
                runs: content.runs.clone(),
            };
            capture::graphs::put_record(out, &GraphRecord::Contents(contents));
        }
        for graph in &graphs.executables {
            let executable = Executable {
                number: graph.number,
                contents: graph.content.map_or(0, |index| index as u32 + 1),
                instantiated: ticks(graph.instantiated.unwrap_or(0)),
                launches: graph.launches,
                entered: ticks(graph.newest.unwrap_or(0)),
                returned: if graph.launching {
                    Ticks(0)
                } else {
                    ticks(graph.newest.unwrap_or(0) + 1000)
                },
                ..Executable::default()
            };
            capture::graphs::put_record(out, &GraphRecord::Executable(executable));
        }
    })?;
    let launches = graphs.launches.iter().map(|launch| Launched {
        exec: launch.graph,
        entered: ticks(launch.at),
        took: launch.took as u32,
        stream: launch.stream,
        gpu: launch.gpu.map(|(start, ns)| LaunchTime {
            start: ticks(start),
            ns,
            error: 0,
        }),
    });
    let launches: Vec<Launched> = launches.collect();
    for some in launches.chunks(BATCH) {
        trace.block(BlockKind::Launches, |out| {
            capture::graphs::put_launches(out, some)
        })?;
    }
    Ok(())
}
