//! Turns records into the payload of a Rows block: an [`Encoder`].
//!
//! All integers are of base 128 ([`put`]). A column is one byte for its coding and then its values
//! ([`put_column`]).
//!
//! ```text
//! dictionary number │ tick shift │ GPU unit │ number of the first new shape │ new shapes n
//! columns of a shape k │ k columns of n values: the new shapes
//! rows m │ first ticket │ first t_api >> shift │ first group
//! columns of a row k │ k columns of m values: the rows
//! ```
//!
//! Host times are in units of `1 << shift` ticks. NCCL's stamps are in units that divide all stamps of the
//! block, so they lose nothing. The columns behind the last one that has a value are left out. A reader takes
//! a column that is not there for 0, and skips a column that it does not know.
//!
//! Example: one AllReduce of 1024 elements on 2 channels, ticket 5. It is entered at tick 0x10000, launched
//! at 0x10020, and returns at 0x10100. Of the CUDA events around its launch, the first runs at 0x10400, which
//! may be wrong by 600 ns, and the second 1024 ns later. `SPEC.md` has the same block, and a test holds it
//! against this code.
//!
//! ```text
//! 00  04  80 08  00  01    dictionary 0, units of 2^4 ticks and 1024 ns, new shapes from 0 on: 1
//! 0b                       11 columns of shapes follow: what is behind has no value
//! 01 01  01 01  00 00      columns 0 to 3: all values 1 (uid), all 1 (function), all 0
//! 01 47                    4: parts 1, 2, 4 and 64
//! 00 00 00  01 02          5 to 8: no names of algorithm, protocol and variant; 2 channels of 0 warps
//! 01 80 08  01 01          9 and 10: 1024 elements; root -1 by zigzag
//! 01  05  80 20  06        1 row, ticket 5, t_api of 4096 units, group ticket 5 + 1
//! 24                       36 columns of rows follow
//! 00  00  01 07  00        columns 0 to 3: as above; shape 0; seq 1 + zigzag(4 - 0 - 1); as above
//! 01 05  00 00  01 21      4 to 7: launched 1 + zigzag(2 units) after; no end, no enqueue; return after 16
//! 01 01  00 00 00  01 01   8 to 12: group as above; no stamps, no kernel callback; no channel started
//! 00 (18 times)            13 to 30: all values 0
//! 01 d8 04  00 00          31 to 33: error of 600 ns; nothing of the network
//! 01 7d  01 80 08          34 and 35: the first event 1 + zigzag(62 units) after the launch began; 1024 ns
//! ```

use super::columns::{column, PLAIN, SHAPE_COLUMNS};
use super::{known_or, GpuTime, Record, Shape, Ticks};
use crate::varint::{put, put_column, zigzag};
use std::collections::HashMap;

/// A new dictionary begins after this many bytes of blocks, or this many shapes.
const DICTIONARY_BYTES: usize = 1 << 20;
const DICTIONARY_SHAPES: usize = 1 << 16;
/// Host times lose this many of their lowest bits: 16 ticks of a TSC are 5 to 8 ns, less than one callback.
const TICK_SHIFT: u32 = 4;

/// Turns records into Rows payloads.
#[derive(Default)]
pub struct Encoder {
    /// Numbers of the shapes in the dictionary.
    shapes: HashMap<Shape, u64>,
    /// Number of the dictionary.
    dictionary: u64,
    /// Bytes written since the dictionary began.
    written: usize,
    /// Columns of the shapes that the present block defines.
    fresh: [Vec<u64>; SHAPE_COLUMNS],
    /// For each row of the present block, the number of its shape.
    numbers: Vec<u64>,
    /// Values of the column that is being written.
    column: Vec<u64>,
}

impl Encoder {
    /// An encoder with an empty dictionary.
    pub fn new() -> Self {
        Encoder::default()
    }

    /// Begins a new dictionary, so that later blocks can be read without earlier ones.
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
        self.fresh.iter_mut().for_each(Vec::clear);
        self.numbers.clear();
        for record in records {
            let next = self.shapes.len() as u64;
            let number = *self.shapes.entry(record.shape).or_insert(next);
            if number == next && number >= known + self.fresh[0].len() as u64 {
                let values = record.shape.to_columns();
                let columns = self.fresh.iter_mut().zip(values);
                columns.for_each(|(column, value)| column.push(value));
            }
            self.numbers.push(number);
        }
        let unit = gpu_unit(records);
        for value in [
            self.dictionary,
            u64::from(TICK_SHIFT),
            unit,
            known,
            self.fresh[0].len() as u64,
        ] {
            put(out, value);
        }
        let has_value = |column: &Vec<u64>| column.iter().any(|value| *value != 0);
        let filled = self.fresh.iter().rposition(has_value);
        let filled = filled.map_or(0, |last| last + 1);
        put(out, filled as u64);
        for column in &self.fresh[..filled] {
            put_column(out, column);
        }
        put(out, records.len() as u64);
        let Some(first) = records.first() else { return };
        put(out, first.ticket);
        put(out, first.t_api.0 >> TICK_SHIFT);
        put(out, first.group);
        self.row_columns(out, records, unit);
        self.written += out.len() - start;
    }

    fn row_columns(&mut self, out: &mut Vec<u8>, records: &[Record], unit: u64) {
        let t = |ticks: Ticks| (ticks.0 >> TICK_SHIFT) as i64;
        // 0 if not known, else 1 + the difference.
        let since = |time: Ticks, base: Ticks| {
            if time.0 == 0 {
                0
            } else {
                1 + zigzag(t(time) - t(base))
            }
        };
        let after_start = |time: GpuTime, r: &Record| {
            if time.0 == 0 {
                0
            } else {
                let units = (time.0 as i64).wrapping_sub(r.stamp_start.0 as i64) / unit as i64;
                zigzag(units).wrapping_add(1)
            }
        };
        let pairs = || {
            records
                .iter()
                .scan(&records[0], |last, r| Some((std::mem::replace(last, r), r)))
        };
        let counted = out.len();
        out.push(0);
        let mut columns = Columns {
            end: out.len(),
            out: &mut *out,
            values: &mut self.column,
            next: 0,
            filled: 0,
        };

        let mut expected = records[0].ticket.wrapping_sub(1);
        columns.put(
            column::ticket,
            records.iter().map(|r| {
                let delta = r.ticket.wrapping_sub(expected).wrapping_sub(1);
                expected = r.ticket;
                zigzag(delta as i64)
            }),
        );
        columns.put(column::shape, self.numbers.iter().copied());
        let mut predicted: HashMap<(u32, u8), u64> = HashMap::new();
        columns.put(
            column::seq,
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
        columns.put(
            column::t_api,
            pairs().map(|(last, r)| zigzag(t(r.t_api) - t(last.t_api))),
        );
        columns.put(
            column::t_launch0,
            records.iter().map(|r| since(r.t_launch0, r.t_api)),
        );
        columns.put(
            column::t_launch1,
            records.iter().map(|r| since(r.t_launch1, base_launch1(r))),
        );
        columns.put(
            column::t_enqueue,
            records.iter().map(|r| since(r.t_enqueue, base_enqueue(r))),
        );
        columns.put(
            column::t_end,
            records.iter().map(|r| since(r.t_end, base_end(r))),
        );
        columns.put(
            column::group,
            pairs()
                .map(|(last, r)| zigzag(r.group.wrapping_sub(last.group).wrapping_sub(1) as i64)),
        );
        let mut last_start = 0i64;
        columns.put(
            column::stamp_start,
            records.iter().map(|r| {
                if r.stamp_start.0 == 0 {
                    return 0;
                }
                let units = (r.stamp_start.0 / unit) as i64;
                // Stamps may be any number. One difference has no number of its own and is read as "not
                // known".
                let value = zigzag(units.wrapping_sub(last_start)).wrapping_add(1);
                if value != 0 {
                    last_start = units;
                }
                value
            }),
        );
        columns.put(
            column::stamp_stop,
            records.iter().map(|r| after_start(r.stamp_stop, r)),
        );
        columns.put(
            column::k_seen,
            records.iter().map(|r| since(r.k_seen, base_seen(r))),
        );
        columns.put(
            column::k_started,
            records.iter().map(|r| {
                if r.k_started == r.k_stopped && r.k_started == r.shape.nchannels.into() {
                    0
                } else {
                    1 + (u64::from(r.k_started) | u64::from(r.k_stopped) << 16)
                }
            }),
        );
        for phase in 0..2 {
            columns.put(
                column::phase_stop + phase,
                records.iter().map(|r| after_start(r.phase_stop[phase], r)),
            );
        }
        // The others are plain, but for the start of CUDA events.
        for (k, plain) in PLAIN.iter().enumerate().skip(columns.next) {
            match plain {
                Some(plain) => columns.put_filled(k, |to| plain.put(records, to)),
                None => columns.put(
                    column::event_start,
                    records
                        .iter()
                        .map(|r| since(r.event_start, base_launch1(r))),
                ),
            }
        }
        let (end, filled) = (columns.end, columns.filled);
        out.truncate(end);
        out[counted] = filled as u8;
    }
}

/// The columns of rows under construction, in order.
struct Columns<'a> {
    out: &'a mut Vec<u8>,
    values: &'a mut Vec<u64>,
    /// Number of the next one.
    next: usize,
    /// Columns up to the last one that has a value, and where that one ends.
    filled: usize,
    end: usize,
}

impl Columns<'_> {
    fn put(&mut self, column: usize, values: impl Iterator<Item = u64>) {
        self.put_filled(column, |to| to.extend(values));
    }

    /// Appends a column with the values that `fill` puts into an empty list.
    fn put_filled(&mut self, column: usize, fill: impl FnOnce(&mut Vec<u64>)) {
        debug_assert_eq!(column, self.next, "columns are written in order");
        self.next += 1;
        self.values.clear();
        fill(self.values);
        put_column(self.out, self.values);
        if self.values.iter().any(|value| *value != 0) {
            (self.filled, self.end) = (self.next, self.out.len());
        }
    }
}

// Each host time is written as the difference to the nearest one that is known before it.
fn base_launch1(r: &Record) -> Ticks {
    known_or(r.t_launch0, r.t_api)
}

fn base_enqueue(r: &Record) -> Ticks {
    known_or(r.t_launch1, r.t_api)
}

fn base_end(r: &Record) -> Ticks {
    known_or(r.t_enqueue, base_enqueue(r))
}

fn base_seen(r: &Record) -> Ticks {
    known_or(r.t_end, base_end(r))
}

/// The largest power of two up to 1024 that divides every stamp of the block.
fn gpu_unit(records: &[Record]) -> u64 {
    let bits = records.iter().fold(0, |bits, r| {
        let [sync, compute] = r.phase_stop;
        bits | r.stamp_start.0 | r.stamp_stop.0 | sync.0 | compute.0
    });
    1 << bits.trailing_zeros().min(10)
}
