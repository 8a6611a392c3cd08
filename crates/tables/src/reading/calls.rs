//! Decodes the calls of a process, all at once or one range of tickets after another: a [`Reader`].

use super::parts::{Live, PayloadOffset, Rows};
use crate::calls::{Call, Extra, GpuTimes};
use crate::clock::{Clock, Cursor};
use crate::files::{self, load, HeldFile, TRACE};
use crate::packs::is_compressed;
use capture::live::part;
use capture::rows::{Decoder, Rest, Sealed, Shapes, Ticks};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A call without its extra.
#[inline]
pub(super) fn call(
    r: &Sealed,
    shape: &capture::rows::Shape,
    sealed: bool,
    clock: &mut Cursor,
) -> Call {
    let mut time = |ticks: Ticks| match ticks {
        Ticks(0) => 0,
        ticks => clock.realtime(ticks).unwrap_or(0),
    };
    let gpu = if shape.parts & part::EVENTS == 0 {
        let is_length = r.stamp_start.0 == 0 && r.stamp_stop.0 == 0 && r.event_ns != 0;
        if is_length {
            GpuTimes::Length(r.event_ns)
        } else {
            GpuTimes::stamps(r.stamp_start.0, r.stamp_stop.0)
        }
    } else {
        let start = time(r.event_start);
        match start.checked_add_unsigned(r.event_ns) {
            Some(stop) if start > 0 => GpuTimes::OnHost {
                start,
                stop,
                error: r.event_error,
            },
            _ => GpuTimes::None,
        }
    };
    Call {
        ticket: r.ticket,
        group: r.group,
        seq: r.seq,
        api_ns: time(r.t_api),
        launch_start_ns: time(r.t_launch0),
        launch_end_ns: time(r.t_launch1),
        enqueue_ns: time(r.t_enqueue),
        return_ns: time(r.t_end),
        gpu,
        gpu_seen_ns: time(r.k_seen),
        shape: r.shape,
        template: r.template,
        extra: 0,
        composite: 0,
        channels_started: r.k_started,
        channels_stopped: r.k_stopped,
        verdict: r.verdict,
        driver_waited_ns: clock.duration(u64::from(r.driver) * 64),
        waiter: r.waiter,
        waited: r.waited,
        sealed,
    }
}

/// Keeps what few calls have, if there is any; returns what [`Call::extra`] is then.
pub(super) fn extra(rest: Option<&Rest>, clock: &Clock, extras: &mut Vec<Extra>) -> u32 {
    let Some(r) = rest.filter(|rest| **rest != Rest::default()) else {
        return 0;
    };
    let extra = Extra {
        user_tag: r.user_tag,
        send_buffer: r.send_buffer,
        recv_buffer: r.recv_buffer,
        phase_stop: r.phase_stop.map(|stop| stop.0),
        ops_started: r.ops_started,
        ops_stopped: r.ops_stopped,
        steps: r.steps,
        bytes_sent: r.bytes_sent,
        bytes_received: r.bytes_received,
        // Waits are in units of 64 ticks.
        waits_ns: r
            .waits
            .map(|w| clock.duration(u64::from(w) * 64).unwrap_or(0)),
        longest_ns: clock.duration(u64::from(r.net_longest) * 64).unwrap_or(0),
        longest_peer: r.net_link >> 1,
        longest_sends: r.net_link & 1 != 0,
        error: r.error,
    };
    if extra == Extra::default() {
        return 0;
    }
    extras.push(extra);
    extras.len() as u32
}

/// Where the calls of a process are.
pub(crate) struct Reader {
    /// The trace files, and those that are still open.
    pub(super) files: Vec<(PathBuf, Option<HeldFile>)>,
    pub(super) staged: Vec<u8>,
    pub(super) blocks: Vec<Rows>,
    /// Blocks whose calls are not kept, and were not counted yet.
    pub(super) forgotten: Vec<Rows>,
    pub(super) shapes: Shapes,
    pub(super) live: Live,
    /// Calls from this ticket on were born after the moment that is shown, and are left out.
    pub(super) born: Option<u64>,
}

/// Calls of a range of tickets, by ticket.
#[derive(Default)]
pub(crate) struct TicketRange {
    pub calls: Vec<Call>,
    pub extras: Vec<Extra>,
    /// Calls that were in blocks.
    pub sealed: u64,
    /// Rows of blocks that begin in the range whose shape is not known.
    pub shapeless: u64,
    /// Numbers of blocks that begin in the range and are not well formed.
    pub malformed: Vec<u32>,
}

/// Blocks that are counted at once.
const AT_ONCE: usize = 64;

/// Tickets from the first to the second, which is included.
pub(crate) type Range = (u64, u64);

impl Reader {
    /// When the first call was made that is in a block, to a few ticks.
    pub(crate) fn begins(&self, clock: &Clock) -> Option<i64> {
        let blocks = self.blocks.iter().filter(|block| block.outline.rows > 0);
        let first = blocks.map(|block| block.outline.first).min()?;
        clock.realtime(first)
    }

    /// When the newest call was made, to a block.
    pub(crate) fn newest(&self, clock: &Clock) -> Option<i64> {
        let blocks = self.blocks.iter().filter(|block| block.outline.rows > 0);
        let first = blocks.map(|block| block.outline.first).max();
        let sealed = first.and_then(|first| clock.realtime(first));
        let live = self.live.calls.iter().map(|call| call.api_ns).max();
        sealed.max(live)
    }

    /// Rows in blocks and in the live part; some may be in both.
    pub(crate) fn rows(&self) -> u64 {
        let sealed = self.blocks.iter().map(|b| u64::from(b.outline.rows));
        sealed.sum::<u64>() + self.live.calls.len() as u64
    }

    /// The tickets of calls that were in the live part.
    pub(crate) fn live_tickets(&self) -> impl Iterator<Item = u64> + '_ {
        self.live.calls.iter().map(|call| call.ticket)
    }

    /// Bytes of blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|b| u64::from(b.bytes)).sum()
    }

    /// Whether some sealed row has a GPU stamp.
    pub(crate) fn is_stamped(&self) -> bool {
        self.blocks.iter().any(|b| b.outline.stamped)
    }

    /// Ranges of about `rows` calls that hold all tickets, in order.
    pub(crate) fn ranges(&self, rows: u64) -> Vec<Range> {
        let mut order: Vec<(u64, u64)> = self
            .blocks
            .iter()
            .map(|b| (b.outline.tickets.0, b.outline.rows.into()))
            .collect();
        order.sort_unstable();
        let mut ranges: Vec<Range> = Vec::new();
        let (mut from, mut lowest, mut here) = (0, 0, 0);
        for (ticket, n) in order {
            if here == 0 {
                lowest = ticket;
            } else if here >= rows && ticket > lowest {
                ranges.push((from, ticket - 1));
                (from, lowest, here) = (ticket, ticket, 0);
            }
            here += n;
        }
        ranges.push((from, u64::MAX));
        ranges
    }

    /// Opens the file for decoding.
    pub(crate) fn open<'a>(&'a self, clock: &'a Clock) -> Opened<'a> {
        let mut opened = Opened {
            reader: self,
            clock,
            files: Vec::new(),
            decoder: Decoder::new(),
            buffer: Vec::new(),
        };
        // What can't be read a second time shows as blocks that are not well formed.
        opened.files.extend(self.files.iter().map(|(path, held)| {
            if let Some(held) = held {
                OpenFile::Held(held.file())
            } else if is_compressed(path) {
                OpenFile::Unpacked(load(path, TRACE, &mut Vec::new()))
            } else {
                files::open(path).map_or(OpenFile::Unpacked(Vec::new()), OpenFile::Plain)
            }
        }));
        opened
    }
}

/// Decodes the calls of a process.
pub(crate) struct Opened<'a> {
    reader: &'a Reader,
    clock: &'a Clock,
    /// By place in [`Reader::files`].
    files: Vec<OpenFile<'a>>,
    decoder: Decoder,
    buffer: Vec<u8>,
}

enum OpenFile<'a> {
    Held(&'a std::fs::File),
    Plain(std::fs::File),
    Unpacked(Vec<u8>),
}

impl Opened<'_> {
    /// The calls of a range of tickets, in place of what `part` held.
    pub(crate) fn read(&mut self, range: Range, part: &mut TicketRange) {
        part.extras.clear();
        part.malformed.clear();
        part.shapeless = 0;
        let last = match self.reader.born {
            Some(born) => born.checked_sub(1),
            None => Some(u64::MAX),
        };
        let Some(last) = last.filter(|last| *last >= range.0) else {
            part.calls.clear();
            part.sealed = 0;
            return;
        };
        let (from, to) = (range.0, range.1.min(last));
        self.read_blocks(&self.reader.blocks, (from, to), part);
        self.add_live((from, to), part);
    }

    /// Hands the calls that are not kept to `each`, some blocks of them at a time.
    pub(crate) fn forgotten(
        &mut self,
        part: &mut TicketRange,
        mut each: impl FnMut(&mut TicketRange),
    ) {
        for blocks in self.reader.forgotten.chunks(AT_ONCE) {
            part.extras.clear();
            self.read_blocks(blocks, (0, u64::MAX), part);
            each(part);
        }
    }

    /// The calls of some blocks with these tickets.
    fn read_blocks(&mut self, blocks: &[Rows], (from, to): Range, part: &mut TicketRange) {
        let blocks = blocks.iter().filter(|block| {
            let (low, high) = block.outline.tickets;
            block.outline.rows > 0 && low <= to && high >= from
        });
        let (mut low, mut high, mut rows) = (u64::MAX, 0, 0u64);
        for block in blocks.clone() {
            low = low.min(block.outline.tickets.0.max(from));
            high = high.max(block.outline.tickets.1.min(to));
            rows += u64::from(block.outline.rows);
        }
        let mut shelf = Shelf::new(std::mem::take(&mut part.calls), low, high, rows);
        let mut cursor = self.clock.cursor();
        for block in blocks {
            let payload = payload(self.reader, block, &self.files, &mut self.buffer);
            let (shapes, outline) = (&self.reader.shapes, &block.outline);
            let extras = &mut part.extras;
            let keep = |row: &Sealed, rest: Option<&Rest>| {
                if row.ticket < from || row.ticket > to {
                    return;
                }
                if let Some(place) = shelf.place(row.ticket) {
                    let shape = &shapes.list()[row.shape as usize];
                    *place = call(row, shape, true, &mut cursor);
                    if rest.is_some() {
                        place.extra = extra(rest, self.clock, extras);
                    }
                }
            };
            let decoded = payload.and_then(|p| self.decoder.decode(shapes, outline, p, keep));
            // Damage counts where the block begins, so once.
            if block.outline.tickets.0 >= from {
                match decoded {
                    Some(shapeless) => part.shapeless += shapeless,
                    None => part.malformed.push(block.number),
                }
            }
        }
        part.calls = shelf.into_calls();
        part.sealed = part.calls.len() as u64;
    }

    /// Hands the calls that have both stamps to `each`, with what is needed to compare clocks. These are the
    /// calls of every `of`-th block from `first` on. With the first such blocks come the calls of the live
    /// part.
    pub(crate) fn stamps(&mut self, first: usize, of: usize, mut each: impl FnMut(&Call)) {
        let mut cursor = self.clock.cursor();
        let blocks = self.reader.blocks.iter();
        for block in blocks.filter(|b| b.outline.stamped).skip(first).step_by(of) {
            let payload = payload(self.reader, block, &self.files, &mut self.buffer);
            let (shapes, outline) = (&self.reader.shapes, &block.outline);
            let stamp = |row: &Sealed, _: Option<&Rest>| {
                if row.stamp_start.0 == 0 || row.stamp_stop.0 == 0 || row.k_seen == Ticks(0) {
                    return;
                }
                let mut time = |ticks| cursor.realtime(ticks).unwrap_or(0);
                let call = Call {
                    api_ns: time(row.t_api),
                    launch_start_ns: time(row.t_launch0),
                    gpu: GpuTimes::stamps(row.stamp_start.0, row.stamp_stop.0),
                    gpu_seen_ns: time(row.k_seen),
                    shape: row.shape,
                    verdict: row.verdict,
                    ..Call::default()
                };
                if call.gpu_seen_ns != 0 {
                    each(&call);
                }
            };
            let _ = payload.and_then(|p| self.decoder.decode(shapes, outline, p, stamp));
        }
        let live = self.reader.live.calls.iter().filter(|_| first == 0);
        live.for_each(each);
    }

    /// Adds the rows of the live part that were not sealed.
    fn add_live(&self, (from, to): Range, part: &mut TicketRange) {
        let live = &self.reader.live;
        let first = live.calls.partition_point(|call| call.ticket < from);
        for call in live.calls[first..].iter().take_while(|c| c.ticket <= to) {
            let sealed = &part.calls[..part.sealed as usize];
            if sealed
                .binary_search_by_key(&call.ticket, |c| c.ticket)
                .is_ok()
            {
                continue;
            }
            let mut call = *call;
            if let Some(extra) = (call.extra as usize).checked_sub(1) {
                part.extras.push(live.extras[extra]);
                call.extra = part.extras.len() as u32;
            }
            part.calls.push(call);
        }
        // Two runs, each in order.
        if part.calls.len() as u64 > part.sealed {
            part.calls.sort_by_key(|call| call.ticket);
        }
    }
}

/// The content of a block.
fn payload<'a>(
    reader: &'a Reader,
    block: &Rows,
    files: &'a [OpenFile<'_>],
    buffer: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let len = block.bytes as usize;
    match block.place {
        PayloadOffset::Staged(at) => reader.staged.get(at..at + len),
        PayloadOffset::File(file, at) => {
            let file = match files.get(file)? {
                OpenFile::Held(file) => file,
                OpenFile::Plain(file) => file,
                OpenFile::Unpacked(bytes) => return bytes.get(at as usize..at as usize + len),
            };
            buffer.resize(len, 0);
            file.read_exact_at(buffer, at).ok()?;
            Some(buffer)
        }
    }
}

/// Calls by ticket, being put there in any order; of several with one ticket the first stays.
///
/// Tickets count calls, so each has its place from the start and nothing need be sorted. Only where most
/// tickets of the range are not there, calls are put in a row and sorted.
struct Shelf {
    calls: Vec<Call>,
    low: u64,
    /// A bit for each ticket that is there; nothing where calls are put in a row.
    there: Vec<u64>,
    n: usize,
}

impl Shelf {
    /// A shelf for about `rows` calls with tickets from `low` to `high`, on the memory of `calls`.
    fn new(mut calls: Vec<Call>, low: u64, high: u64, rows: u64) -> Shelf {
        let span = high.checked_sub(low).and_then(|n| n.checked_add(1));
        let places = span
            .filter(|span| *span <= rows.saturating_mul(2))
            .unwrap_or(0) as usize;
        // What is there of earlier calls stays until it is overwritten.
        calls.resize(places, Call::default());
        if places == 0 {
            calls.reserve(rows as usize);
        }
        Shelf {
            calls,
            low,
            there: vec![0; places.div_ceil(64)],
            n: 0,
        }
    }

    /// Where the call with this ticket goes, unless it is there.
    #[inline]
    fn place(&mut self, ticket: u64) -> Option<&mut Call> {
        if self.there.is_empty() {
            self.calls.push(Call::default());
            return self.calls.last_mut();
        }
        let at = usize::try_from(ticket.checked_sub(self.low)?).ok()?;
        let (word, bit) = (self.there.get_mut(at / 64)?, 1 << (at % 64));
        if *word & bit != 0 {
            return None;
        }
        *word |= bit;
        self.n += 1;
        self.calls.get_mut(at)
    }

    fn into_calls(mut self) -> Vec<Call> {
        if self.there.is_empty() {
            self.calls.sort_by_key(|call| call.ticket);
            self.calls.dedup_by_key(|call| call.ticket);
        } else if self.n < self.calls.len() {
            let mut at = 0;
            self.calls.retain(|_| {
                at += 1;
                self.there[(at - 1) / 64] & 1 << ((at - 1) % 64) != 0
            });
        }
        self.calls
    }
}
