//! Captures of any size, without playing a job.
//!
//! Each process makes 80 000 calls a second: three AllReduces of five sizes on one communicator to one
//! AllGather on another, with launch times and, if asked for, GPU times. Blocks, order of rows and number of
//! anchors are as the recorder makes them.
//!
//! Rule: the same arguments give the same bytes.

use capture::block::{self, BlockKind};
use capture::live::{self, part, Image, Layout, View};
use capture::rows::{definitions, Encoder, GpuTime, Record, Shape, Ticks};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Rows in a block and calls between two turns of the recorder's thread.
const BATCH: usize = 1024;
const TURN: u64 = 8192;
/// Calls between two flushes, which is a second.
const FLUSH: u64 = 10 * TURN;
/// 2.6 GHz ticks in a call's 12.2 µs.
const TICKS_PER_CALL: u64 = 31_738;
const TICKS_PER_US: u64 = 2_600;
const FIRST_TICK: u64 = 1 << 50;
const FIRST_NS: u64 = 1_790_000_000_000_000_000;

/// Numbers that look random and are the same on every run.
struct Jitter(u64);

impl Jitter {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn realtime(ticks: u64) -> u64 {
    FIRST_NS + (ticks - FIRST_TICK) * 1000 / TICKS_PER_US
}

fn live_part(rank: u32, ranks: u32, calls: u64) -> (Image, usize) {
    let layout = Layout {
        graphs: 0,
        launches: 0,
        strings: 8,
        comms: 4,
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
    header.trace_id.store(u64::from(rank) + 1, Relaxed);
    header.clock.store(1, Relaxed);
    header.born.store(calls, Relaxed);
    header.state.store(1, Relaxed);
    let names = ["AllReduce", "AllGather", "ncclFloat32", "RING", "LL"];
    for (text, stored) in names.into_iter().zip(view.strings()) {
        for (byte, stored) in text.bytes().zip(&stored.bytes) {
            stored.store(byte, Relaxed);
        }
        stored.len.store(text.len() as u32 + 2, Relaxed);
    }
    for (index, comm) in view.comms()[..2].iter().enumerate() {
        comm.abi.store(5, Relaxed);
        comm.hash.store(0xabc0 + index as u64, Relaxed);
        comm.nranks.store(ranks, Relaxed);
        comm.nnodes.store(1, Relaxed);
        comm.rank.store(rank, Relaxed);
        comm.device.store(rank, Relaxed);
        comm.t_init.store(Ticks(FIRST_TICK - 1_000_000), Relaxed);
        comm.uid.store(index as u32 + 1, Relaxed);
    }
    header.magic.store(live::MAGIC, Relaxed);
    (image, layout.bytes())
}

fn record(ticket: u64, stamps: bool, jitter: &mut Jitter) -> Record {
    let gather = ticket % 4 == 3;
    let t_api = FIRST_TICK + ticket * TICKS_PER_CALL + jitter.below(20 * TICKS_PER_US / 4);
    let t_launch0 = t_api + 2 * TICKS_PER_US + jitter.below(TICKS_PER_US);
    let t_launch1 = t_launch0 + TICKS_PER_US + jitter.below(2 * TICKS_PER_US);
    let t_end = t_launch1 + jitter.below(TICKS_PER_US);
    let mut record = Record {
        ticket,
        shape: Shape {
            comm: 1 + u32::from(gather),
            func: 1 + u8::from(gather),
            datatype: 3,
            parts: part::ENQUEUED | part::ENQUEUE_DONE | part::LAUNCHED,
            algorithm: 4,
            protocol: 5,
            nchannels: 4,
            nwarps: 8,
            count: 1024 << (2 * (ticket / 4 % 5)),
            root: -1,
            stream: 0x5555_0000,
            ..Shape::default()
        },
        t_api: Ticks(t_api),
        t_launch0: Ticks(t_launch0),
        t_launch1: Ticks(t_launch1),
        t_enqueue: Ticks(t_launch0 - TICKS_PER_US),
        t_end: Ticks(t_end),
        group: ticket + 1,
        seq: 1 + if gather {
            ticket / 4
        } else {
            ticket / 4 * 3 + ticket % 4
        },
        ..Record::default()
    };
    if stamps {
        // The GPU's clock counts in units of 32 ns and is 5 ms off.
        let start = realtime(t_launch1) + 5_000_000 + jitter.below(2_000);
        let stop = (start + 3_000 + jitter.below(5_000)) / 32 * 32;
        record.stamp_start = GpuTime(start / 32 * 32);
        record.stamp_stop = GpuTime(stop);
        let seen = (stop - 5_000_000 - FIRST_NS) * TICKS_PER_US / 1000 + FIRST_TICK;
        record.k_seen = Ticks(seen + jitter.below(10 * TICKS_PER_US));
        (record.k_started, record.k_stopped) = (4, 4);
    }
    record
}

/// A trace file under construction.
struct Trace {
    out: std::io::BufWriter<std::fs::File>,
    buffer: Vec<u8>,
    number: u32,
}

impl Trace {
    fn block(&mut self, kind: BlockKind, fill: impl FnOnce(&mut Vec<u8>)) -> std::io::Result<()> {
        self.buffer.clear();
        let start = block::begin(&mut self.buffer);
        fill(&mut self.buffer);
        block::finish(&mut self.buffer, start, kind, self.number);
        self.number += 1;
        self.out.write_all(&self.buffer)
    }

    fn anchor(&mut self, ticks: u64) -> std::io::Result<()> {
        self.block(BlockKind::Anchor, |out| {
            for word in [ticks, realtime(ticks) - FIRST_NS + 1, realtime(ticks)] {
                out.extend(word.to_le_bytes());
            }
        })
    }
}

fn process(folder: &Path, rank: u32, ranks: u32, calls: u64, stamps: bool) -> std::io::Result<()> {
    let stem = folder.join(format!("r{rank}-p{}-{:016x}", 100 + rank, rank + 1));
    let (image, len) = live_part(rank, ranks, calls);
    let bytes: Vec<u8> = image
        .words()
        .iter()
        .flat_map(|w| w.load(Relaxed).to_le_bytes())
        .collect();
    std::fs::write(stem.with_extension("live"), &bytes[..len])?;
    let view = image.view().expect("just made");
    let file = std::fs::File::create(stem.with_extension("trace"))?;
    let mut trace = Trace {
        out: std::io::BufWriter::with_capacity(1 << 20, file),
        buffer: Vec::new(),
        number: 0,
    };
    trace
        .out
        .write_all(&block::file_header(u64::from(rank) + 1))?;
    let timing = if stamps { "stamps" } else { "host" };
    let facts = format!(
        "host=node-1\npid={}\nrank={rank}\nworld_size={ranks}\nmode=trace\ntiming={timing}\nnccl=2.28.9\n\
         clock=tsc\n",
        100 + rank
    );
    trace.block(BlockKind::Process, |out| out.extend(facts.bytes()))?;
    trace.block(BlockKind::Definitions, |out| {
        for id in 1..=5u8 {
            definitions::put_text(out, id, &view.strings()[usize::from(id) - 1]);
        }
        for (index, comm) in view.comms()[..2].iter().enumerate() {
            definitions::put_comm(out, index as u16, comm);
        }
    })?;
    trace.anchor(FIRST_TICK)?;
    let mut encoder = Encoder::new();
    let mut jitter = Jitter(u64::from(rank));
    let mut from = 0;
    while from < calls {
        let to = calls.min(from + TURN);
        let mut queues = [Vec::new(), Vec::new()];
        for ticket in from..to {
            let record = record(ticket, stamps, &mut jitter);
            queues[record.shape.comm as usize - 1].push(record);
        }
        for records in queues.concat().chunks(BATCH) {
            trace.block(BlockKind::Rows, |out| encoder.encode(out, records))?;
        }
        from = to;
        if from % FLUSH == 0 || from == calls {
            trace.anchor(FIRST_TICK + from * TICKS_PER_CALL)?;
        }
    }
    trace.block(BlockKind::End, |_| ())?;
    trace.out.flush()
}

/// Writes the capture of a job of `ranks` processes with `calls` calls each into a folder, which is made.
pub fn write(folder: &Path, ranks: u32, calls: u64, stamps: bool) -> std::io::Result<()> {
    let folder = folder.join("node-1");
    std::fs::create_dir_all(&folder)?;
    (0..ranks).try_for_each(|rank| process(&folder, rank, ranks, calls, stamps))
}
