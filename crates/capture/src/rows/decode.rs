//! Reads the payloads of Rows blocks: [`Shapes`] takes in what they define, a [`Decoder`] hands out their
//! rows.
//!
//! `encode.rs` draws the bytes.
//!
//! Rule: no bytes make it panic, and damaged ones take no more memory than sound ones.

use super::columns::{column, COLUMNS, REST, SHAPE_COLUMNS};
use super::{known_or, GpuTime, Rest, Sealed, Shape, Ticks};
use crate::v1;
use crate::varint::{unzigzag, Column, Reader};
use std::collections::HashMap;

/// What stands before the rows of a block.
struct Head {
    dictionary: u64,
    shift: u32,
    unit: i64,
    first_shape: u64,
    shapes: Vec<Shape>,
    rows: usize,
}

/// A number of rows or shapes, if it may be true. A column of equal values is short however many there are,
/// so the payload's length is no bound. The recorder's blocks have 1024 rows at most.
fn bounded(n: u64) -> Option<usize> {
    usize::try_from(n).ok().filter(|n| *n <= 1 << 16)
}

/// Highest number of a shape. The recorder begins a new dictionary at 2^16.
const LAST_SHAPE: u64 = 1 << 20;

impl Head {
    fn read(major: u16, reader: &mut Reader) -> Option<Head> {
        let dictionary = reader.get()?;
        let shift = u32::try_from(reader.get()?).ok().filter(|s| *s < 32)?;
        let unit = reader.get()?.max(1) as i64;
        let first_shape = reader.get()?;
        let n = bounded(reader.get()?)?;
        let there = match major {
            1 => v1::SHAPE_COLUMNS,
            _ => reader.get()?,
        };
        let mut values = Vec::new();
        let columns: [Column; SHAPE_COLUMNS] = columns(reader, there, n, &mut values)?;
        let shape = |i: usize| Shape::from_columns(|k| columns[k].at(&values, i));
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

/// Reads `there` columns of `n` values. Those that are not there have 0, and those that are not known are
/// left out.
fn columns<const KNOWN: usize>(
    reader: &mut Reader,
    there: u64,
    n: usize,
    values: &mut Vec<u64>,
) -> Option<[Column; KNOWN]> {
    // A column that is not there stays at the default, the first of these values: 0.
    values.clear();
    values.push(0);
    let mut columns = [Column::default(); KNOWN];
    for k in 0..there {
        match columns.get_mut(k as usize) {
            Some(column) => *column = reader.column(n, values)?,
            None => {
                reader.skip_column(n)?;
            }
        }
    }
    Some(columns)
}

/// How many columns the rows of a block have.
fn row_columns(major: u16, reader: &mut Reader, n: usize) -> Option<u64> {
    match major {
        1 => v1::row_columns(reader.clone(), n),
        _ => reader.get(),
    }
}

/// What is known of a block before its rows are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Major number of its format.
    pub major: u16,
    /// The dictionary that it uses, as [`Shapes`] counts them.
    pub dictionary: u32,
    /// Rows in it.
    pub rows: u32,
    /// Lowest and highest ticket; without rows the first is above the second.
    pub tickets: (u64, u64),
    /// When the program entered NCCL for the first row, to a few ticks; 0 without rows.
    pub first: Ticks,
    /// Whether some row has a GPU stamp.
    pub stamped: bool,
    /// Columns that this reader does not know, and leaves out.
    pub unknown: u32,
}

/// The distinct shapes of a trace file, and the dictionaries that name them.
///
/// Every block is [outlined](Shapes::outline) first, in the order of the file. After that each block can be
/// decoded by itself, so that threads can share the work.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    list: Vec<Shape>,
    ids: HashMap<Shape, u32>,
    /// For each shape, the number of its pair of communicator and function: NCCL numbers calls for each
    /// such pair.
    counters: Vec<u32>,
    counter_ids: HashMap<(u32, u8), u32>,
    dictionaries: Vec<Dictionary>,
    scratch: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Dictionary {
    number: u64,
    /// For each number of a shape, its index in the list + 1; 0 if its definition is lost.
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

    /// Takes in the shapes that a block of a format with this major number defines, and returns what must be
    /// known before it is decoded. `None` if the payload is not well formed; since its checksum was right,
    /// that is the writer's fault.
    pub fn outline(&mut self, major: u16, payload: &[u8]) -> Option<Outline> {
        let mut reader = Reader::new(payload);
        let head = Head::read(major, &mut reader)?;
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
            major,
            dictionary: self.dictionaries.len() as u32 - 1,
            rows: head.rows as u32,
            tickets: (u64::MAX, 0),
            first: Ticks(0),
            stamped: false,
            unknown: 0,
        };
        if head.rows > 0 {
            let mut ticket = reader.get()?.wrapping_sub(1);
            let (t_api, _group) = (reader.get()?, reader.get()?);
            outline.first = Ticks(t_api << head.shift);
            let there = row_columns(major, &mut reader, head.rows)?;
            outline.unknown = there.saturating_sub(COLUMNS as u64).min(u32::MAX.into()) as u32;
            self.scratch.clear();
            self.scratch.push(0);
            let deltas = match there {
                0 => Column::default(),
                _ => reader.column(head.rows, &mut self.scratch)?,
            };
            let (mut low, mut high) = outline.tickets;
            for row in 0..head.rows {
                let delta = unzigzag(deltas.at(&self.scratch, row)) as u64;
                ticket = ticket.wrapping_add(delta).wrapping_add(1);
                (low, high) = (low.min(ticket), high.max(ticket));
            }
            outline.tickets = (low, high);
            if there > column::stamp_start as u64 {
                for _ in column::ticket + 1..column::stamp_start {
                    reader.skip_column(head.rows)?;
                }
                outline.stamped = reader.skip_column(head.rows)?;
            }
        }
        Some(outline)
    }
}

/// Decodes blocks that were outlined before. It keeps its memory from block to block.
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

    /// Hands the rows of a payload to `each`, with their [`Rest`] if any row of the block has one.
    ///
    /// Returns how many rows were left out because the block that defines their shape is damaged or
    /// missing. `None` if the payload is not well formed; then no row has been handed out.
    pub fn decode(
        &mut self,
        shapes: &Shapes,
        outline: &Outline,
        payload: &[u8],
        mut each: impl FnMut(&Sealed, Option<&Rest>),
    ) -> Option<u64> {
        let mut reader = Reader::new(payload);
        let Head {
            shift,
            unit,
            rows: n,
            ..
        } = Head::read(outline.major, &mut reader)?;
        if n == 0 {
            return Some(0);
        }
        let (mut ticket, mut api, mut group) = (
            reader.get()?.wrapping_sub(1),
            reader.get()? as i64,
            reader.get()?.wrapping_sub(1),
        );
        let there = row_columns(outline.major, &mut reader, n)?;
        let values = &mut self.values;
        let columns: [Column; COLUMNS] = columns(&mut reader, there, n, values)?;
        let ids = &shapes.dictionaries.get(outline.dictionary as usize)?.ids;
        self.last.clear();
        self.last.resize(shapes.counter_ids.len(), 0);
        let is_there = |k: usize| !columns[k].is_zero(values);
        let rest_there = REST
            .iter()
            .any(|(first, n)| (*first..first + n).any(is_there));
        let ticks = |units: i64| Ticks(((units.max(0)) as u64) << shift);
        let (mut last_start, mut shapeless) = (0i64, 0);
        // A row without a shape has moved on the sequence number of some function, and it is not known which.
        let mut seq_known = true;
        for i in 0..n {
            let c = |k: usize| columns[k].at(values, i);
            let since = |k: usize, base: Ticks| match c(k) {
                0 => Ticks(0),
                delta => {
                    let units = unzigzag(delta - 1).wrapping_add((base.0 >> shift) as i64);
                    ticks(units).max(Ticks(1))
                }
            };
            let after_start = |k: usize, start: GpuTime| match c(k) {
                0 => GpuTime(0),
                delta => {
                    let since = unzigzag(delta - 1).wrapping_mul(unit) as u64;
                    GpuTime(start.0.wrapping_add(since))
                }
            };
            ticket = ticket
                .wrapping_add(unzigzag(c(column::ticket)) as u64)
                .wrapping_add(1);
            api = api.wrapping_add(unzigzag(c(column::t_api)));
            // The first row's group stands before the columns, so its entry in the column has no meaning.
            let groups = if i == 0 {
                0
            } else {
                unzigzag(c(column::group)) as u64
            };
            group = group.wrapping_add(groups).wrapping_add(1);
            let mut stamp_start = GpuTime(0);
            if c(column::stamp_start) != 0 {
                last_start = last_start.wrapping_add(unzigzag(c(column::stamp_start) - 1));
                stamp_start = GpuTime(last_start.wrapping_mul(unit) as u64);
            }
            let id = usize::try_from(c(column::shape))
                .ok()
                .and_then(|number| ids.get(number));
            let Some(shape) = id.and_then(|id| id.checked_sub(1)) else {
                shapeless += 1;
                seq_known &= c(column::seq) == 0;
                continue;
            };
            let mut r = Sealed {
                ticket,
                shape,
                t_api: ticks(api),
                group,
                stamp_start,
                stamp_stop: after_start(column::stamp_stop, stamp_start),
                ..Sealed::default()
            };
            if c(column::seq) != 0 && seq_known {
                let last = &mut self.last[shapes.counters[shape as usize] as usize];
                let delta = unzigzag(c(column::seq) - 1) as u64;
                r.seq = last.wrapping_add(delta).wrapping_add(1);
                *last = r.seq;
            }
            r.t_launch0 = since(column::t_launch0, r.t_api);
            let base = known_or(r.t_launch0, r.t_api);
            r.event_start = since(column::event_start, base);
            r.t_launch1 = since(column::t_launch1, base);
            let base = known_or(r.t_launch1, r.t_api);
            r.t_enqueue = since(column::t_enqueue, base);
            let base = known_or(r.t_enqueue, base);
            r.t_end = since(column::t_end, base);
            r.k_seen = since(column::k_seen, known_or(r.t_end, base));
            (r.k_started, r.k_stopped) = match c(column::k_started) {
                0 => {
                    let channels = shapes.list[shape as usize].nchannels.into();
                    (channels, channels)
                }
                both => ((both - 1) as u16, ((both - 1) >> 16) as u16),
            };
            r.read_plain(c);
            if outline.major == 1 {
                v1::times(&mut r, shapes.list[shape as usize].parts);
            }
            let rest = rest_there.then(|| {
                let phase_stop = |i| after_start(column::phase_stop + i, stamp_start);
                let mut rest = Rest {
                    phase_stop: std::array::from_fn(phase_stop),
                    ..Rest::default()
                };
                rest.read_plain(c);
                rest
            });
            each(&r, rest.as_ref());
        }
        Some(shapeless)
    }
}
