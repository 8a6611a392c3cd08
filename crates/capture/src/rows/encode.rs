//! Turns records into the payload of a Rows block: an [`Encoder`].
//!
//! All integers are of base 128 ([`put`]). A column is one byte for its coding and then its values
//! ([`put_column`]).
//!
//! ```text
//! dictionary number │ tick shift │ GPU unit │ number of the first new shape │ new shapes n
//! 14 columns of n values: the new shapes
//! rows m │ first ticket │ first t_api >> shift │ first group
//! 31 to 34 columns of m values: the rows
//! ```
//!
//! Host times are in units of `1 << shift` ticks. GPU times are in units that divide all stamps of the
//! block, so they lose nothing.
//!
//! Example: one AllReduce of 1024 elements, ticket 5. It is entered at tick 0x10000 and returns 0x100 ticks
//! later. It runs on 2 channels from 0x200000 to 0x200400 ns of the GPU's clock. `SPEC.md` has the same
//! block, and a test holds it against this code.
//!
//! ```text
//! 00  04  80 08  00  01    dictionary 0, units of 2^4 ticks and 1024 ns, new shapes from 0 on: 1
//! 01 01  01 01  00 00 00   its columns 0 to 4: all values 1 (uid), all 1 (function), all 0
//! 00 00 00  01 02          5 to 8: no names of algorithm, protocol and variant; 2 channels of 0 warps
//! 01 80 08  01 01          9 and 10: 1024 elements; root -1 by zigzag
//! 00 00 00                 11 to 13: no peer, stream, batches
//! 01  05  80 20  06        1 row, ticket 5, t_api of 4096 units, group ticket 5 + 1
//! 00  00  01 07  00        columns 0 to 3: as above; shape 0; seq 1 + zigzag(4 - 0 - 1); as above
//! 00 00 00  01 21  01 01   4 to 8: no launch, no enqueue; return 1 + zigzag(16 units); group as above
//! 01 81 20  01 03          9 and 10: GPU start 1 + zigzag(2048 units), stop 1 + zigzag(1 unit)
//! 00  00                   11 and 12: no kernel callback; started and stopped channels are the shape's
//! 00 (18 times)            13 to 30: all values 0; columns 31 to 33 have none, so they are left out
//! ```

use super::columns::{column, ALWAYS, PLAIN, SHAPE_COLUMNS};
use super::{known_or, Record, Shape};
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
        for column in &self.fresh {
            put_column(out, column);
        }
        put(out, records.len() as u64);
        let Some(first) = records.first() else { return };
        put(out, first.ticket);
        put(out, first.t_api >> TICK_SHIFT);
        put(out, first.group);
        self.row_columns(out, records, unit);
        self.written += out.len() - start;
    }

    fn row_columns(&mut self, out: &mut Vec<u8>, records: &[Record], unit: u64) {
        let t = |ticks: u64| (ticks >> TICK_SHIFT) as i64;
        // 0 if not known, else 1 + the difference.
        let since = |time: u64, base: u64| {
            if time == 0 {
                0
            } else {
                1 + zigzag(t(time) - t(base))
            }
        };
        let after_start = |time: u64, r: &Record| {
            if time == 0 {
                0
            } else {
                zigzag((time as i64).wrapping_sub(r.k_start as i64) / unit as i64).wrapping_add(1)
            }
        };
        let pairs = || {
            records
                .iter()
                .scan(&records[0], |last, r| Some((std::mem::replace(last, r), r)))
        };
        let mut columns = Columns {
            out: &mut *out,
            values: &mut self.column,
            next: 0,
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
            column::k_start,
            records.iter().map(|r| {
                if r.k_start == 0 {
                    return 0;
                }
                let units = (r.k_start / unit) as i64;
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
            column::k_stop,
            records.iter().map(|r| after_start(r.k_stop, r)),
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
        // The others are plain. Some came later: of these, all after the last one that has a value are
        // taken back.
        let mut end = columns.out.len();
        for (k, plain) in PLAIN.iter().enumerate() {
            let Some(plain) = plain else { continue };
            let before = columns.out.len();
            let has_value = columns.put_filled(k, |to| plain.put(records, to));
            // The network's two columns came together.
            let belongs = k == column::net_link && end == before;
            if k < ALWAYS || has_value || belongs {
                end = columns.out.len();
            }
        }
        out.truncate(end);
    }
}

/// The columns of rows under construction, in order.
struct Columns<'a> {
    out: &'a mut Vec<u8>,
    values: &'a mut Vec<u64>,
    /// Number of the next one.
    next: usize,
}

impl Columns<'_> {
    fn put(&mut self, column: usize, values: impl Iterator<Item = u64>) {
        self.put_filled(column, |to| to.extend(values));
    }

    /// Appends a column with the values that `fill` puts into an empty list. Returns whether any is not 0.
    fn put_filled(&mut self, column: usize, fill: impl FnOnce(&mut Vec<u64>)) -> bool {
        debug_assert_eq!(column, self.next, "columns are written in order");
        self.next += 1;
        self.values.clear();
        fill(self.values);
        put_column(self.out, self.values);
        self.values.iter().any(|value| *value != 0)
    }
}

// Each host time is written as the difference to the nearest one that is known before it.
fn base_launch1(r: &Record) -> u64 {
    known_or(r.t_launch0, r.t_api)
}

fn base_enqueue(r: &Record) -> u64 {
    known_or(r.t_launch1, r.t_api)
}

fn base_end(r: &Record) -> u64 {
    known_or(r.t_enqueue, base_enqueue(r))
}

fn base_seen(r: &Record) -> u64 {
    known_or(r.t_end, base_end(r))
}

/// The largest power of two up to 1024 that divides every stamp of the block.
fn gpu_unit(records: &[Record]) -> u64 {
    let bits = records.iter().fold(0, |bits, r| {
        bits | r.k_start | r.k_stop | r.phase_stop[0] | r.phase_stop[1]
    });
    1 << bits.trailing_zeros().min(10)
}
