//! Finished calls as columns.
//!
//! A call is a [`Record`]; what many calls share (communicator, function, size, algorithm …) is its [`Shape`], written
//! once per dictionary and named by number. The rest is differences between neighbours, one column a field, in the
//! codings of [`crate::varint`]. A recorded training job takes about 10 bytes a call with host times.
//!
//! ```text
//! payload of a Rows block (all integers varint)
//!   dictionary number │ tick shift │ GPU unit │ first new shape │ n new shapes │ 14 shape columns of n
//!   n rows │ first ticket │ first t_api >> shift │ first group │ 31 columns of n, in the order of `encode`
//!   │ where times are of CUDA events: a column of n, their errors
//! ```
//!
//! Host times are kept in units of `1 << shift` ticks. GPU times are kept in units that divide all of the block's
//! stamps, so nothing of them is lost.
//!
//! Rule: a shape is defined in the block that first uses it or in an earlier one with the same dictionary number. A
//! dictionary is begun anew about every MiB, so a damaged block costs at most the rows up to there.

use crate::live::{flag, Row};
use crate::varint::{put, put_column, unzigzag, zigzag, Column, Reader};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What many calls have in common. Names are string ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Shape {
    pub comm: u32,
    pub func: u8,
    pub datatype: u8,
    pub flags: u8,
    pub parts: u8,
    pub algorithm: u8,
    pub protocol: u8,
    pub variant: u8,
    pub nchannels: u8,
    pub nwarps: u8,
    /// Elements, as the program gave them.
    pub count: u64,
    /// Root, or -1.
    pub root: i32,
    /// Peer + 1, 0 unknown.
    pub peer: u32,
    pub stream: u64,
    pub ce_batches: u16,
}

/// One rank's part in an operation, as recorded. See [`Row`] for units; 0 stands for "not known" in every time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Record {
    pub ticket: u64,
    pub shape: Shape,
    pub t_api: u64,
    pub t_launch0: u64,
    pub t_launch1: u64,
    pub t_enqueue: u64,
    pub t_end: u64,
    /// Group ticket + 1.
    pub group: u64,
    /// NCCL's seqNumber + 1.
    pub seq: u64,
    pub k_start: u64,
    pub k_stop: u64,
    pub k_seen: u64,
    pub k_error: u32,
    pub k_started: u16,
    pub k_stopped: u16,
    pub verdict: u16,
    pub template: u32,
    pub user_tag: u64,
    pub send_buffer: u64,
    pub recv_buffer: u64,
    pub phase_stop: [u64; 2],
    pub ops_started: u32,
    pub ops_stopped: u32,
    pub steps: u32,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub waits: [u32; 6],
    pub net_longest: u32,
    pub net_link: u32,
}

impl Record {
    /// The present content of a row, or `None` when no call lives there.
    pub fn load(row: &Row) -> Option<Record> {
        let word = row.word.load(Acquire);
        if word & 3 != crate::live::row_state::ALIVE {
            return None;
        }
        Some(Record {
            ticket: crate::live::row_state::ticket(word),
            shape: Shape {
                comm: row.comm.load(Relaxed),
                func: row.func.load(Relaxed),
                datatype: row.datatype.load(Relaxed),
                flags: row.flags.load(Relaxed),
                parts: row.parts.load(Acquire),
                algorithm: row.algorithm.load(Relaxed),
                protocol: row.protocol.load(Relaxed),
                variant: row.variant.load(Relaxed),
                nchannels: row.nchannels.load(Relaxed),
                nwarps: row.nwarps.load(Relaxed),
                count: row.count.load(Relaxed),
                root: row.root.load(Relaxed) as i32,
                peer: row.peer.load(Relaxed),
                stream: row.stream.load(Relaxed),
                ce_batches: row.ce_batches.load(Relaxed),
            },
            t_api: row.t_api.load(Relaxed),
            t_launch0: row.t_launch0.load(Relaxed),
            t_launch1: row.t_launch1.load(Relaxed),
            t_enqueue: row.t_enqueue.load(Relaxed),
            t_end: row.t_end.load(Acquire),
            group: row.group.load(Relaxed),
            seq: row.seq.load(Relaxed),
            k_stopped: row.k_stopped.load(Acquire),
            k_started: row.k_started.load(Relaxed),
            k_start: row.k_start.load(Relaxed),
            k_stop: row.k_stop.load(Relaxed),
            k_seen: row.k_seen.load(Relaxed),
            k_error: row.k_error.load(Relaxed),
            verdict: row.verdict.load(Relaxed),
            template: row.template.load(Relaxed),
            user_tag: row.user_tag.load(Relaxed),
            send_buffer: row.send_buffer.load(Relaxed),
            recv_buffer: row.recv_buffer.load(Relaxed),
            phase_stop: [
                row.phase_stop[0].load(Relaxed),
                row.phase_stop[1].load(Relaxed),
            ],
            ops_stopped: row.ops_stopped.load(Acquire),
            ops_started: row.ops_started.load(Relaxed),
            steps: row.steps.load(Relaxed),
            bytes_sent: row.bytes_sent.load(Relaxed),
            bytes_received: row.bytes_received.load(Relaxed),
            waits: std::array::from_fn(|i| row.waits[i].load(Relaxed)),
            net_longest: row.net_longest.load(Relaxed),
            net_link: row.net_link.load(Relaxed),
        })
    }

    /// Whether the call was a send or a receive.
    pub fn is_p2p(&self) -> bool {
        self.shape.flags & flag::P2P != 0
    }
}

/// Dictionaries are begun anew after this many bytes of blocks, or this many shapes.
const DICTIONARY_BYTES: usize = 1 << 20;
const DICTIONARY_SHAPES: usize = 1 << 16;
/// Host times lose their lowest bits: 16 ticks are 5 to 8 ns where the TSC runs, less than one callback.
const TICK_SHIFT: u32 = 4;

/// Turns records into Rows payloads.
#[derive(Default)]
pub struct Encoder {
    shapes: HashMap<Shape, u64>,
    dictionary: u64,
    written: usize,
    column: Vec<u64>,
    fresh: Vec<Shape>,
    numbers: Vec<u64>,
}

impl Encoder {
    /// An encoder with an empty dictionary.
    pub fn new() -> Self {
        Encoder::default()
    }

    /// Begins a new dictionary, so that what follows can be read without what was before.
    pub fn restart(&mut self) {
        self.shapes.clear();
        self.dictionary += 1;
        self.written = 0;
    }

    /// Appends the payload of one block to `out`.
    pub fn encode(&mut self, out: &mut Vec<u8>, records: &[Record]) {
        let start = out.len();
        if self.written > DICTIONARY_BYTES || self.shapes.len() > DICTIONARY_SHAPES {
            self.restart();
        }
        let known = self.shapes.len() as u64;
        self.fresh.clear();
        self.numbers.clear();
        for record in records {
            let next = self.shapes.len() as u64;
            let number = *self.shapes.entry(record.shape).or_insert(next);
            if number == next && number >= known + self.fresh.len() as u64 {
                self.fresh.push(record.shape);
            }
            self.numbers.push(number);
        }
        let unit = gpu_unit(records);
        for value in [
            self.dictionary,
            u64::from(TICK_SHIFT),
            unit,
            known,
            self.fresh.len() as u64,
        ] {
            put(out, value);
        }
        self.shape_columns(out);
        put(out, records.len() as u64);
        let Some(first) = records.first() else { return };
        put(out, first.ticket);
        put(out, first.t_api >> TICK_SHIFT);
        put(out, first.group);
        self.row_columns(out, records, unit);
        self.written += out.len() - start;
    }

    fn push(column: &mut Vec<u64>, out: &mut Vec<u8>, values: impl Iterator<Item = u64>) {
        column.clear();
        column.extend(values);
        put_column(out, column);
    }

    fn shape_columns(&mut self, out: &mut Vec<u8>) {
        let (column, fresh) = (&mut self.column, &self.fresh);
        let fields: [fn(&Shape) -> u64; 14] = [
            |s| s.comm.into(),
            |s| s.func.into(),
            |s| s.datatype.into(),
            |s| s.flags.into(),
            |s| s.parts.into(),
            |s| s.algorithm.into(),
            |s| s.protocol.into(),
            |s| s.variant.into(),
            |s| u64::from(s.nchannels) | u64::from(s.nwarps) << 8,
            |s| s.count,
            |s| zigzag(s.root.into()),
            |s| s.peer.into(),
            |s| s.stream,
            |s| s.ce_batches.into(),
        ];
        for field in fields {
            Self::push(column, out, fresh.iter().map(field));
        }
    }

    fn row_columns(&mut self, out: &mut Vec<u8>, records: &[Record], unit: u64) {
        let column = &mut self.column;
        let t = |ticks: u64| (ticks >> TICK_SHIFT) as i64;
        // 0 when unknown, else 1 + the difference.
        let since = |time: u64, base: i64| {
            if time == 0 {
                0
            } else {
                1 + zigzag(t(time) - base)
            }
        };
        let pairs = || {
            records
                .iter()
                .scan(&records[0], |last, r| Some((std::mem::replace(last, r), r)))
        };

        let mut expected = records[0].ticket.wrapping_sub(1);
        Self::push(
            column,
            out,
            records.iter().map(|r| {
                let delta = r.ticket.wrapping_sub(expected).wrapping_sub(1);
                expected = r.ticket;
                zigzag(delta as i64)
            }),
        );
        put_column(out, &self.numbers);
        let mut predicted: HashMap<(u32, u8), u64> = HashMap::new();
        Self::push(
            column,
            out,
            records.iter().map(|r| {
                if r.seq == 0 {
                    return 0;
                }
                let last = predicted.entry((r.shape.comm, r.shape.func)).or_insert(0);
                let delta = r.seq.wrapping_sub(*last).wrapping_sub(1);
                *last = r.seq;
                zigzag(delta as i64).wrapping_add(1)
            }),
        );
        Self::push(
            column,
            out,
            pairs().map(|(last, r)| zigzag(t(r.t_api) - t(last.t_api))),
        );
        Self::push(
            column,
            out,
            records.iter().map(|r| since(r.t_launch0, t(r.t_api))),
        );
        Self::push(
            column,
            out,
            records
                .iter()
                .map(|r| since(r.t_launch1, t(base_launch1(r)))),
        );
        Self::push(
            column,
            out,
            records
                .iter()
                .map(|r| since(r.t_enqueue, t(base_enqueue(r)))),
        );
        Self::push(
            column,
            out,
            records.iter().map(|r| since(r.t_end, t(base_end(r)))),
        );
        Self::push(
            column,
            out,
            pairs()
                .map(|(last, r)| zigzag(r.group.wrapping_sub(last.group).wrapping_sub(1) as i64)),
        );
        let mut last_start = 0i64;
        Self::push(
            column,
            out,
            records.iter().map(|r| {
                if r.k_start == 0 {
                    return 0;
                }
                let units = (r.k_start / unit) as i64;
                // Stamps may be anything. The one difference that has no number of its own reads as not known.
                let value = zigzag(units.wrapping_sub(last_start)).wrapping_add(1);
                if value != 0 {
                    last_start = units;
                }
                value
            }),
        );
        let after_start = |time: u64, r: &Record| {
            if time == 0 {
                0
            } else {
                zigzag((time as i64).wrapping_sub(r.k_start as i64) / unit as i64).wrapping_add(1)
            }
        };
        Self::push(
            column,
            out,
            records.iter().map(|r| after_start(r.k_stop, r)),
        );
        Self::push(
            column,
            out,
            records.iter().map(|r| since(r.k_seen, t(base_seen(r)))),
        );
        Self::push(
            column,
            out,
            records.iter().map(|r| {
                if r.k_started == r.k_stopped && (r.k_started == r.shape.nchannels.into()) {
                    0
                } else {
                    1 + (u64::from(r.k_started) | u64::from(r.k_stopped) << 16)
                }
            }),
        );
        Self::push(
            column,
            out,
            records.iter().map(|r| after_start(r.phase_stop[0], r)),
        );
        Self::push(
            column,
            out,
            records.iter().map(|r| after_start(r.phase_stop[1], r)),
        );
        let plain: [fn(&Record) -> u64; 16] = [
            |r| r.verdict.into(),
            |r| r.template.into(),
            |r| r.user_tag,
            |r| r.send_buffer,
            |r| r.recv_buffer,
            |r| r.ops_started.into(),
            |r| r.ops_stopped.into(),
            |r| r.steps.into(),
            |r| r.bytes_sent,
            |r| r.bytes_received,
            |r| r.waits[0].into(),
            |r| r.waits[1].into(),
            |r| r.waits[2].into(),
            |r| r.waits[3].into(),
            |r| r.waits[4].into(),
            |r| r.waits[5].into(),
        ];
        for field in plain {
            Self::push(column, out, records.iter().map(field));
        }
        // These came later: a block ends with the last that has a value.
        let linked = records.iter().any(|r| r.net_longest | r.net_link != 0);
        if linked || records.iter().any(|r| r.k_error != 0) {
            Self::push(column, out, records.iter().map(|r| r.k_error.into()));
        }
        if linked {
            Self::push(column, out, records.iter().map(|r| r.net_longest.into()));
            Self::push(column, out, records.iter().map(|r| r.net_link.into()));
        }
    }
}

// Each host time is written as the difference to the nearest one that is known before it.
fn base_launch1(r: &Record) -> u64 {
    if r.t_launch0 != 0 {
        r.t_launch0
    } else {
        r.t_api
    }
}

fn base_enqueue(r: &Record) -> u64 {
    if r.t_launch1 != 0 {
        r.t_launch1
    } else {
        r.t_api
    }
}

fn base_end(r: &Record) -> u64 {
    if r.t_enqueue != 0 {
        r.t_enqueue
    } else {
        base_enqueue(r)
    }
}

fn base_seen(r: &Record) -> u64 {
    if r.t_end != 0 {
        r.t_end
    } else {
        base_end(r)
    }
}

/// The largest power of two up to 1024 that divides every stamp of the block.
fn gpu_unit(records: &[Record]) -> u64 {
    let bits = records.iter().fold(0, |bits, r| {
        bits | r.k_start | r.k_stop | r.phase_stop[0] | r.phase_stop[1]
    });
    1 << bits.trailing_zeros().min(10)
}

/// What stands before the rows of a block.
struct Head {
    dictionary: u64,
    shift: u32,
    unit: i64,
    first_shape: u64,
    shapes: Vec<Shape>,
    rows: usize,
}

// A row costs some bits at least; a column of one value does not, hence the fixed bound. The recorder's blocks have 1024
// rows at most.
fn bounded(n: u64) -> Option<usize> {
    usize::try_from(n).ok().filter(|n| *n <= 1 << 16)
}

/// Numbers of shapes are at most this; the recorder begins a new dictionary at 2^16.
const LAST_SHAPE: u64 = 1 << 20;

impl Head {
    fn read(reader: &mut Reader) -> Option<Head> {
        let dictionary = reader.get()?;
        let shift = u32::try_from(reader.get()?).ok().filter(|s| *s < 32)?;
        let unit = reader.get()?.max(1) as i64;
        let first_shape = reader.get()?;
        let n = bounded(reader.get()?)?;
        let mut values = Vec::new();
        let columns = columns::<14>(reader, n, &mut values)?;
        let shape = |i: usize| {
            let c = |k: usize| columns[k].at(&values, i);
            Shape {
                comm: c(0) as u32,
                func: c(1) as u8,
                datatype: c(2) as u8,
                flags: c(3) as u8,
                parts: c(4) as u8,
                algorithm: c(5) as u8,
                protocol: c(6) as u8,
                variant: c(7) as u8,
                nchannels: c(8) as u8,
                nwarps: (c(8) >> 8) as u8,
                count: c(9),
                root: unzigzag(c(10)) as i32,
                peer: c(11) as u32,
                stream: c(12),
                ce_batches: c(13) as u16,
            }
        };
        let shapes = (0..n).map(shape).collect();
        Some(Head {
            dictionary,
            shift,
            unit,
            first_shape,
            shapes,
            rows: bounded(reader.get()?)?,
        })
    }
}

fn columns<const N: usize>(
    reader: &mut Reader,
    n: usize,
    values: &mut Vec<u64>,
) -> Option<[Column; N]> {
    let mut columns = [Column::default(); N];
    for column in &mut columns {
        *column = reader.column(n, values)?;
    }
    Some(columns)
}

/// What is known of a block before its rows are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Which of the file's dictionaries it uses, by [`Shapes`]'s count.
    pub dictionary: u32,
    /// Rows in it.
    pub rows: u32,
    /// Lowest and highest ticket; the first above the second where there are no rows.
    pub tickets: (u64, u64),
    /// Whether some row has a GPU stamp.
    pub stamped: bool,
}

/// The distinct shapes of a trace file, and the dictionaries that name them.
///
/// Every block is [outlined](Shapes::outline) first, in file order. After that blocks are decoded in any order, each by
/// itself, so that threads can share them.
#[derive(Debug, Default)]
pub struct Shapes {
    list: Vec<Shape>,
    ids: HashMap<Shape, u32>,
    /// By shape: the number of its communicator and function, which NCCL's sequence numbers count for.
    counters: Vec<u32>,
    counter_ids: HashMap<(u32, u8), u32>,
    dictionaries: Vec<Dictionary>,
    scratch: Vec<u64>,
}

#[derive(Debug, Default)]
struct Dictionary {
    number: u64,
    /// Index into the list + 1 by the shape's number, 0 where its definition is lost.
    ids: Vec<u32>,
}

impl Shapes {
    /// The shapes by id, in order of first definition.
    pub fn list(&self) -> &[Shape] {
        &self.list
    }

    /// The id of a shape, which is its index in the list.
    pub fn intern(&mut self, shape: Shape) -> u32 {
        if let Some(id) = self.ids.get(&shape) {
            return *id;
        }
        let id = self.list.len() as u32;
        self.list.push(shape);
        self.ids.insert(shape, id);
        let next = self.counter_ids.len() as u32;
        let counter = self.counter_ids.entry((shape.comm, shape.func));
        self.counters.push(*counter.or_insert(next));
        id
    }

    /// Takes in the shapes that a block defines, and tells what else is needed before it is decoded; `None` when the
    /// payload is not well formed (its checksum being right, a writer's fault).
    pub fn outline(&mut self, payload: &[u8]) -> Option<Outline> {
        let mut reader = Reader::new(payload);
        let head = Head::read(&mut reader)?;
        let new = self.dictionaries.last().map(|d| d.number) != Some(head.dictionary);
        if new {
            self.dictionaries.push(Dictionary {
                number: head.dictionary,
                ids: Vec::new(),
            });
        }
        if !head.shapes.is_empty() {
            let first = usize::try_from(head.first_shape.min(LAST_SHAPE + 1)).ok()?;
            if first + head.shapes.len() > LAST_SHAPE as usize + 1 {
                return None;
            }
            let ids: Vec<u32> = head.shapes.iter().map(|s| self.intern(*s) + 1).collect();
            let dictionary = &mut self.dictionaries.last_mut()?.ids;
            if dictionary.len() < first + ids.len() {
                dictionary.resize(first + ids.len(), 0);
            }
            dictionary[first..first + ids.len()].copy_from_slice(&ids);
        }
        let mut outline = Outline {
            dictionary: self.dictionaries.len() as u32 - 1,
            rows: head.rows as u32,
            tickets: (u64::MAX, 0),
            stamped: false,
        };
        if head.rows > 0 {
            let mut ticket = reader.get()?.wrapping_sub(1);
            let (_t_api, _group) = (reader.get()?, reader.get()?);
            self.scratch.clear();
            let deltas = reader.column(head.rows, &mut self.scratch)?;
            let (mut low, mut high) = outline.tickets;
            for row in 0..head.rows {
                let delta = unzigzag(deltas.at(&self.scratch, row)) as u64;
                ticket = ticket.wrapping_add(delta).wrapping_add(1);
                (low, high) = (low.min(ticket), high.max(ticket));
            }
            outline.tickets = (low, high);
            for _ in 1..STAMPS {
                reader.skip_column(head.rows)?;
            }
            outline.stamped = reader.skip_column(head.rows)?;
        }
        Some(outline)
    }
}

/// The column of GPU starts.
const STAMPS: usize = 9;

/// A row of a block: a [`Record`] whose shape has a number, without what few rows have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sealed {
    pub ticket: u64,
    /// Index into [`Shapes::list`].
    pub shape: u32,
    pub template: u32,
    pub t_api: u64,
    pub t_launch0: u64,
    pub t_launch1: u64,
    pub t_enqueue: u64,
    pub t_end: u64,
    pub group: u64,
    pub seq: u64,
    pub k_start: u64,
    pub k_stop: u64,
    pub k_seen: u64,
    pub k_error: u32,
    pub k_started: u16,
    pub k_stopped: u16,
    pub verdict: u16,
}

/// What few rows have. See [`Record`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Rest {
    pub user_tag: u64,
    pub send_buffer: u64,
    pub recv_buffer: u64,
    pub phase_stop: [u64; 2],
    pub ops_started: u32,
    pub ops_stopped: u32,
    pub steps: u32,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub waits: [u32; 6],
    pub net_longest: u32,
    pub net_link: u32,
}

/// Decodes blocks that were outlined before. Keeps its memory from block to block.
#[derive(Debug, Default)]
pub struct Decoder {
    values: Vec<u64>,
    /// Last sequence number by counter.
    last: Vec<u64>,
}

impl Decoder {
    /// A decoder.
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Hands the rows of a payload to `each`, with what few rows have where the block has any of it. Returns how many rows
    /// have no shape, because the block that defines it is damaged or missing; `None`, before any row is handed out, when
    /// the payload is not well formed.
    pub fn decode(
        &mut self,
        shapes: &Shapes,
        dictionary: u32,
        payload: &[u8],
        mut each: impl FnMut(&Sealed, Option<&Rest>),
    ) -> Option<u64> {
        let mut reader = Reader::new(payload);
        let Head {
            shift,
            unit,
            rows: n,
            ..
        } = Head::read(&mut reader)?;
        if n == 0 {
            return Some(0);
        }
        let (mut ticket, mut api, mut group) = (
            reader.get()?.wrapping_sub(1),
            reader.get()? as i64,
            reader.get()?.wrapping_sub(1),
        );
        let values = &mut self.values;
        values.clear();
        let columns = columns::<31>(&mut reader, n, values)?;
        let mut later = || match reader.remaining() {
            0 => Some(None),
            _ => Some(Some(reader.column(n, values)?)),
        };
        let (errors, longest, links) = (later()?, later()?, later()?);
        let ids = &shapes.dictionaries.get(dictionary as usize)?.ids;
        self.last.clear();
        self.last.resize(shapes.counter_ids.len(), 0);
        let rest_there = [13, 14]
            .into_iter()
            .chain(17..31)
            .any(|k| !columns[k].is_zero(values));
        let ticks = |units: i64| ((units.max(0)) as u64) << shift;
        let (mut last_start, mut shapeless) = (0i64, 0);
        // After a row without a shape it is not known whose sequence number it was that moved on.
        let mut seq_known = true;
        for i in 0..n {
            let c = |k: usize| columns[k].at(values, i);
            let since = |k: usize, base: u64| match c(k) {
                0 => 0,
                delta => ticks(unzigzag(delta - 1).wrapping_add((base >> shift) as i64)).max(1),
            };
            let after_start = |k: usize, start: u64| match c(k) {
                0 => 0,
                delta => start.wrapping_add(unzigzag(delta - 1).wrapping_mul(unit) as u64),
            };
            ticket = ticket.wrapping_add(unzigzag(c(0)) as u64).wrapping_add(1);
            api = api.wrapping_add(unzigzag(c(3)));
            // The first row's group is given whole; its column entry is relative to itself.
            let groups = if i == 0 { 0 } else { unzigzag(c(8)) as u64 };
            group = group.wrapping_add(groups).wrapping_add(1);
            let mut k_start = 0;
            if c(STAMPS) != 0 {
                last_start = last_start.wrapping_add(unzigzag(c(STAMPS) - 1));
                k_start = last_start.wrapping_mul(unit) as u64;
            }
            let id = usize::try_from(c(1))
                .ok()
                .and_then(|number| ids.get(number));
            let Some(shape) = id.and_then(|id| id.checked_sub(1)) else {
                shapeless += 1;
                seq_known &= c(2) == 0;
                continue;
            };
            let mut r = Sealed {
                ticket,
                shape,
                t_api: ticks(api),
                group,
                k_start,
                k_stop: after_start(10, k_start),
                k_error: errors.map_or(0, |errors| errors.at(values, i) as u32),
                verdict: c(15) as u16,
                template: c(16) as u32,
                ..Sealed::default()
            };
            if c(2) != 0 && seq_known {
                let last = &mut self.last[shapes.counters[shape as usize] as usize];
                r.seq = last.wrapping_add(unzigzag(c(2) - 1) as u64).wrapping_add(1);
                *last = r.seq;
            }
            r.t_launch0 = since(4, r.t_api);
            let base = known_or(r.t_launch0, r.t_api);
            r.t_launch1 = since(5, base);
            let base = known_or(r.t_launch1, r.t_api);
            r.t_enqueue = since(6, base);
            let base = known_or(r.t_enqueue, base);
            r.t_end = since(7, base);
            r.k_seen = since(11, known_or(r.t_end, base));
            (r.k_started, r.k_stopped) = match c(12) {
                0 => {
                    let channels = shapes.list[shape as usize].nchannels.into();
                    (channels, channels)
                }
                both => ((both - 1) as u16, ((both - 1) >> 16) as u16),
            };
            let rest = rest_there.then(|| Rest {
                user_tag: c(17),
                send_buffer: c(18),
                recv_buffer: c(19),
                phase_stop: [after_start(13, k_start), after_start(14, k_start)],
                ops_started: c(20) as u32,
                ops_stopped: c(21) as u32,
                steps: c(22) as u32,
                bytes_sent: c(23),
                bytes_received: c(24),
                waits: std::array::from_fn(|w| c(25 + w) as u32),
                net_longest: longest.map_or(0, |longest| longest.at(values, i) as u32),
                net_link: links.map_or(0, |links| links.at(values, i) as u32),
            });
            each(&r, rest.as_ref());
        }
        Some(shapeless)
    }
}

fn known_or(time: u64, other: u64) -> u64 {
    if time != 0 {
        time
    } else {
        other
    }
}

/// A row as it was before it was sealed.
impl From<(&Sealed, &Rest, &Shape)> for Record {
    fn from((r, rest, shape): (&Sealed, &Rest, &Shape)) -> Record {
        Record {
            ticket: r.ticket,
            shape: *shape,
            t_api: r.t_api,
            t_launch0: r.t_launch0,
            t_launch1: r.t_launch1,
            t_enqueue: r.t_enqueue,
            t_end: r.t_end,
            group: r.group,
            seq: r.seq,
            k_start: r.k_start,
            k_stop: r.k_stop,
            k_seen: r.k_seen,
            k_error: r.k_error,
            k_started: r.k_started,
            k_stopped: r.k_stopped,
            verdict: r.verdict,
            template: r.template,
            user_tag: rest.user_tag,
            send_buffer: rest.send_buffer,
            recv_buffer: rest.recv_buffer,
            phase_stop: rest.phase_stop,
            ops_started: rest.ops_started,
            ops_stopped: rest.ops_stopped,
            steps: rest.steps,
            bytes_sent: rest.bytes_sent,
            bytes_received: rest.bytes_received,
            waits: rest.waits,
            net_longest: rest.net_longest,
            net_link: rest.net_link,
        }
    }
}

impl Record {
    /// What [`Decoder::decode`] would hand out for this record with shape number `shape`.
    pub fn parts(&self, shape: u32) -> (Sealed, Rest) {
        let sealed = Sealed {
            ticket: self.ticket,
            shape,
            template: self.template,
            t_api: self.t_api,
            t_launch0: self.t_launch0,
            t_launch1: self.t_launch1,
            t_enqueue: self.t_enqueue,
            t_end: self.t_end,
            group: self.group,
            seq: self.seq,
            k_start: self.k_start,
            k_stop: self.k_stop,
            k_seen: self.k_seen,
            k_error: self.k_error,
            k_started: self.k_started,
            k_stopped: self.k_stopped,
            verdict: self.verdict,
        };
        let rest = Rest {
            user_tag: self.user_tag,
            send_buffer: self.send_buffer,
            recv_buffer: self.recv_buffer,
            phase_stop: self.phase_stop,
            ops_started: self.ops_started,
            ops_stopped: self.ops_stopped,
            steps: self.steps,
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            waits: self.waits,
            net_longest: self.net_longest,
            net_link: self.net_link,
        };
        (sealed, rest)
    }
}

/// Strings and communicators, appended to a Definitions payload.
pub mod definitions {
    use crate::live::{Comm, Text};
    use std::sync::atomic::Ordering::Relaxed;

    /// One definition read back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Definition<'a> {
        /// A string and its id.
        Text(u8, &'a [u8]),
        /// The bytes of a [`Comm`] and its place in the table.
        Comm(u16, &'a [u8]),
    }

    /// Appends string `id`.
    pub fn put_text(out: &mut Vec<u8>, id: u8, text: &Text) {
        let len = (text.len.load(Relaxed) as usize)
            .saturating_sub(2)
            .min(text.bytes.len());
        out.extend([1, id, len as u8]);
        out.extend(text.bytes[..len].iter().map(|b| b.load(Relaxed)));
    }

    /// Appends communicator `index` of the table.
    pub fn put_comm(out: &mut Vec<u8>, index: u16, comm: &Comm) {
        out.push(2);
        out.extend(index.to_le_bytes());
        out.extend((std::mem::size_of::<Comm>() as u16).to_le_bytes());
        // SAFETY: a Comm is atomics of integers without padding that matters; bytes are read one at a time.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                (comm as *const Comm).cast::<std::sync::atomic::AtomicU8>(),
                std::mem::size_of::<Comm>(),
            )
        };
        out.extend(bytes.iter().map(|b| b.load(Relaxed)));
    }

    /// The definitions of a payload, up to the first that is not well formed.
    pub fn read(mut payload: &[u8]) -> Vec<Definition<'_>> {
        let mut found = Vec::new();
        loop {
            match payload {
                [1, id, len, rest @ ..] if rest.len() >= usize::from(*len) => {
                    let (text, rest) = rest.split_at(usize::from(*len));
                    found.push(Definition::Text(*id, text));
                    payload = rest;
                }
                [2, a, b, c, d, rest @ ..]
                    if rest.len() >= usize::from(u16::from_le_bytes([*c, *d])) =>
                {
                    let (comm, rest) = rest.split_at(usize::from(u16::from_le_bytes([*c, *d])));
                    found.push(Definition::Comm(u16::from_le_bytes([*a, *b]), comm));
                    payload = rest;
                }
                _ => return found,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The records of a block and how many have no shape.
    fn decode(
        decoder: &mut Decoder,
        shapes: &Shapes,
        payload: &[u8],
        outline: Outline,
    ) -> (Vec<Record>, u64) {
        let mut records = Vec::new();
        let shapeless = decoder.decode(shapes, outline.dictionary, payload, |row, rest| {
            let rest = rest.copied().unwrap_or_default();
            records.push(Record::from((
                row,
                &rest,
                &shapes.list()[row.shape as usize],
            )));
        });
        (records, shapeless.expect("well formed"))
    }

    fn record() -> impl Strategy<Value = Record> {
        let shape = (0..3u32, 0..4u8, 0..3u8, any::<u8>(), 0..3u64, -1..3i32).prop_map(
            |(comm, func, algorithm, nchannels, count, root)| Shape {
                comm,
                func,
                algorithm,
                nchannels,
                count,
                root,
                ..Shape::default()
            },
        );
        let time = prop_oneof![
            Just(0u64),
            (1u64 << 40..1 << 41).prop_map(|t| t << 4),
            (0u64..1 << 58).prop_map(|t| t << 4)
        ];
        (
            (
                any::<u64>(),
                shape,
                time.clone(),
                time.clone(),
                time.clone(),
                time.clone(),
            ),
            (
                time.clone(),
                any::<u64>(),
                any::<u64>(),
                prop_oneof![0..u64::MAX / 4, any::<u64>()],
                time,
                any::<u16>(),
                any::<u16>(),
            ),
            prop::array::uniform6(any::<u32>()),
        )
            .prop_map(|(a, b, waits)| Record {
                ticket: a.0,
                shape: a.1,
                t_api: a.2,
                t_launch0: a.3,
                t_launch1: a.4,
                t_enqueue: a.5,
                t_end: b.0,
                group: b.1,
                seq: b.2,
                k_start: b.3,
                k_stop: match b.3 {
                    0 => 0,
                    start => start.wrapping_add(b.5.into()),
                },
                k_seen: b.4,
                k_error: waits[0] & 3,
                net_longest: waits[1] & 7,
                net_link: waits[2] & 3,
                k_started: b.5,
                k_stopped: b.6,
                waits,
                ..Record::default()
            })
    }

    proptest! {
        #[test]
        fn records_round_trip(blocks in prop::collection::vec(prop::collection::vec(record(), 0..40), 1..4)) {
            let (mut encoder, mut shapes, mut decoder) = (Encoder::new(), Shapes::default(), Decoder::new());
            for records in blocks {
                let mut payload = Vec::new();
                encoder.encode(&mut payload, &records);
                let outline = shapes.outline(&payload).expect("well formed");
                let tickets = || records.iter().map(|r| r.ticket);
                prop_assert_eq!(outline.rows as usize, records.len());
                let bounds = (tickets().min().unwrap_or(u64::MAX), tickets().max().unwrap_or(0));
                prop_assert_eq!(outline.tickets, bounds);
                prop_assert_eq!(outline.stamped, records.iter().any(|r| r.k_start != 0));
                prop_assert_eq!(decode(&mut decoder, &shapes, &payload, outline), (records, 0));
            }
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut shapes = Shapes::default();
            if let Some(outline) = shapes.outline(&bytes) {
                let _ = Decoder::new().decode(&shapes, outline.dictionary, &bytes, |_, _| ());
            }
            let _ = definitions::read(&bytes);
        }
    }

    #[test]
    fn rows_without_their_dictionary_are_counted() {
        let mut encoder = Encoder::new();
        let records = [Record {
            ticket: 1,
            ..Record::default()
        }];
        encoder.encode(&mut Vec::new(), &records);
        let mut second = Vec::new();
        encoder.encode(&mut second, &records);
        let mut shapes = Shapes::default();
        let outline = shapes.outline(&second).expect("well formed");
        let decoded = decode(&mut Decoder::new(), &shapes, &second, outline);
        assert_eq!(decoded, (vec![], 1));
    }

    #[test]
    fn a_regular_job_takes_few_bytes_a_call() {
        let records: Vec<Record> = (0..1000u64)
            .map(|i| {
                let jitter = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
                let t_api = (1 << 50) + i * 40_000_000 + (jitter << 8);
                Record {
                    ticket: i,
                    shape: Shape {
                        comm: 1,
                        func: 1,
                        count: 1 << (i % 5),
                        nchannels: 16,
                        ..Shape::default()
                    },
                    t_api,
                    t_launch0: t_api + 9_000 + (jitter >> 4),
                    t_launch1: t_api + 21_000 + (jitter >> 3),
                    t_end: t_api + 26_000 + (jitter >> 2),
                    group: i,
                    seq: i + 1,
                    ..Record::default()
                }
            })
            .collect();
        let mut payload = Vec::new();
        Encoder::new().encode(&mut payload, &records);
        assert!(
            payload.len() < 15 * records.len(),
            "{} bytes a call",
            payload.len() as f64 / 1000.0
        );
    }
}
