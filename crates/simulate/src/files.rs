//! A capture in memory, written to a folder as the recorder would have written it.
//!
//! One tick is one ns. Everything that [`crate::play::Played::capture_of`] fills in is written: calls, kernel
//! windows, driver calls and graphs.

use capture::block::{self, BlockKind};
use capture::graphs::{Contents, Executable, GraphRecord, LaunchTime, Launched};
use capture::live::{self, Image, Layout, View};
use capture::rows::{definitions, Encoder, Record, Shape, Ticks};
use capture::windows as on_disk;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use tables::{Capture, GpuTimes, Process};

/// Rows in a block.
const BATCH: usize = 1024;

/// Writes a capture into a folder, which is made.
pub fn write(capture: &Capture, folder: &Path) -> io::Result<()> {
    let mut processes = capture.processes.iter().enumerate();
    processes.try_for_each(|(index, process)| {
        let folder = folder.join(&process.host);
        std::fs::create_dir_all(&folder)?;
        one(capture, process, index as u32 + 1, &folder)
    })
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

fn live_part(capture: &Capture, process: &Process, texts: &Texts, id: u32) -> (Image, usize) {
    let layout = Layout {
        graphs: 0,
        launches: 0,
        strings: 16,
        comms: process.communicators.len().max(1) as u32,
        groups: 4,
        totals: 4,
        pages: 4,
        rows: 16,
        staging: 4096,
        net_ops: 16,
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
    header.state.store(1, Relaxed);
    for (text, stored) in texts.0.iter().zip(view.strings()) {
        for (byte, stored) in text.bytes().zip(&stored.bytes) {
            stored.store(byte, Relaxed);
        }
        stored.len.store(text.len() as u32 + 2, Relaxed);
    }
    let first = process.calls.first().map_or(0, |call| call.api_ns);
    for (local, comm) in process.communicators.iter().zip(view.comms()) {
        comm.abi.store(5, Relaxed);
        let hash = capture
            .communicators
            .get(local.uid as usize)
            .map_or(0, |c| c.hash);
        comm.hash.store(hash, Relaxed);
        comm.nranks.store(local.nranks, Relaxed);
        comm.nnodes.store(1, Relaxed);
        comm.rank.store(local.rank.unwrap_or(0), Relaxed);
        comm.device.store(local.device.unwrap_or(0), Relaxed);
        comm.t_init.store(ticks(first - 1_000_000), Relaxed);
        comm.uid.store(local.uid + 1, Relaxed);
    }
    header.magic.store(live::MAGIC, Relaxed);
    (image, layout.bytes())
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
            datatype: texts.id("ncclInt8"),
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
    let (image, len) = live_part(capture, process, &texts, id);
    let words = image.words().iter();
    let bytes: Vec<u8> = words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect();
    std::fs::write(stem.with_extension("live"), &bytes[..len])?;
    let file = std::fs::File::create(stem.with_extension("trace"))?;
    let mut trace = Trace {
        out: io::BufWriter::new(file),
        buffer: Vec::new(),
        number: 0,
    };
    trace.out.write_all(&block::file_header(id.into()))?;
    let facts = format!(
        "host={}\npid={}\nrank={}\nworld_size={}\nmode=trace\ntiming={}\nnccl=2.28.9\nclock=tsc\n",
        process.host,
        process.pid,
        process.rank.unwrap_or(0),
        capture.processes.len(),
        process.fact("timing").unwrap_or("auto"),
    );
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
    let from = process.calls.first().map_or(0, |call| call.api_ns);
    let until = process
        .calls
        .last()
        .map_or(from, |call| call.return_ns.max(call.gpu_seen_ns));
    trace.anchor(from - 2_000_000)?;
    let mut encoder = Encoder::new();
    let mut records: Vec<Record> = Vec::with_capacity(process.calls.len());
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
        records.push(Record {
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
            seq: if sends { 0 } else { *seq },
            verdict: call.verdict,
            event_start,
            event_ns,
            event_error,
            waiter: call.waiter,
            waited: call.waited,
            // A tick is a ns.
            driver: (call.driver_waited_ns / 64) as u32,
            ..Record::default()
        });
    }
    for some in records.chunks(BATCH) {
        trace.block(BlockKind::Rows, |out| encoder.encode(out, some))?;
    }
    windows(process, &mut trace)?;
    graphs(process, &shapes, &mut trace)?;
    trace.anchor(until + 1_000_000)?;
    trace.block(BlockKind::End, |_| ())?;
    trace.out.flush()
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
                returned: ticks(graph.newest.unwrap_or(0) + 1000),
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
