//! Turns records into the payload of a Rows block: an [`Encoder`].

use super::{Record, Shape};
use crate::varint::{put, put_column, zigzag};
use std::collections::HashMap;

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
