//! The stacks, frames and texts that were met so far. Each has a number, and none is ever removed.
//!
//! A [`StackTable`] has room for so many of each, from the start. Callbacks enter what is new and never wait
//! for each other: a thread takes the next number, fills the entry in, and then offers it to the [`Index`].
//! If another thread has offered the same in the meantime, its entry counts, and this one stays unused.
//!
//! The index knows entries by what they say. A [`Cache`] knows them by the identity of what was walked, so
//! that a stack that was met a moment ago need not be described again. A program that makes the same code
//! over and over has a new identity each time, and one entry.
//!
//! Rule: an entry is complete before its number is in the index or the cache (Release), so whoever finds a
//! number may read the entry (Acquire).

use crate::array;
use capture::stacks::{Why, DEPTH};
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

/// Room for stacks. A number takes 16 bits.
const STACKS: usize = 8192;
/// Room for frames.
const FRAMES: usize = 32_768;
/// Room for texts, and for their bytes.
const TEXTS: usize = 16_384;
const TEXT_BYTES: usize = 1 << 20;
/// Room for the frames of all stacks together.
const LISTED: usize = STACKS * 24;
/// A text is cut to so many bytes: of a path, the end counts.
pub const LONGEST: usize = 255;
/// Places of an index that are looked at.
const PROBES: usize = 64;

/// Adds a number to a hash.
#[inline(always)]
pub fn mix(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(7) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The hash of some bytes.
pub fn hash_of(bytes: &[u8]) -> u64 {
    let hash = |hash, byte: &u8| mix(hash, u64::from(*byte) + 1);
    bytes.iter().fold(0x5eed, hash)
}

/// Numbers by hash. Of a hash, 48 bits count: with all tables full, two of 8192 stacks have the same with a
/// probability of 1 in 8 million.
struct Index {
    /// `hash & !0xffff | number`; 0 free. A power of two of them, with room to spare.
    places: &'static [AtomicU64],
}

/// What [`Index::enter`] found.
enum Entered {
    Mine,
    Other(u32),
    Full,
}

impl Index {
    fn new(room: usize) -> Option<Index> {
        // SAFETY: zeros are values of atomic integers.
        let places = unsafe { array::zeros((2 * room).next_power_of_two()) }?;
        Some(Index { places })
    }

    #[inline(always)]
    fn probes(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        let mask = self.places.len() - 1;
        // The index is less than 2^17 long, and these bits are in the 48.
        let first = (hash >> 40) as usize;
        (0..PROBES).map(move |i| &self.places[(first + i) & mask])
    }

    #[inline(always)]
    fn find(&self, hash: u64) -> Option<u32> {
        for place in self.probes(hash) {
            // Meets the Release in `enter`.
            let entry = place.load(Acquire);
            if entry & !0xffff == hash & !0xffff && entry != 0 {
                return Some((entry & 0xffff) as u32);
            }
            if entry == 0 {
                return None;
            }
        }
        None
    }

    fn enter(&self, hash: u64, number: u32) -> Entered {
        let entry = hash & !0xffff | u64::from(number);
        for place in self.probes(hash) {
            match place.compare_exchange(0, entry, Release, Acquire) {
                Ok(_) => return Entered::Mine,
                Err(other) if other & !0xffff == hash & !0xffff => {
                    return Entered::Other((other & 0xffff) as u32);
                }
                Err(_) => {}
            }
        }
        Entered::Full
    }
}

/// Places of a cache that an identity may have: a cache line.
const WAYS: usize = 8;

/// Numbers by identity, as far as there is room: what is newest takes a place from what is older.
struct Cache {
    /// As in [`Index::places`]. A power of two of them.
    places: &'static [AtomicU64],
}

impl Cache {
    fn new(room: usize) -> Option<Cache> {
        // SAFETY: zeros are values of atomic integers.
        let places = unsafe { array::zeros((2 * room).next_power_of_two()) }?;
        Some(Cache { places })
    }

    #[inline(always)]
    fn ways(&self, identity: u64) -> &[AtomicU64] {
        // At most 2^16 places, and these bits are in the 48.
        let first = (identity >> 40) as usize & (self.places.len() - 1) & !(WAYS - 1);
        &self.places[first..first + WAYS]
    }

    #[inline(always)]
    fn find(&self, identity: u64) -> Option<u32> {
        self.ways(identity).iter().find_map(|place| {
            // Meets the Release in `enter`.
            let entry = place.load(Acquire);
            let is_it = entry & !0xffff == identity & !0xffff && entry != 0;
            is_it.then_some((entry & 0xffff) as u32)
        })
    }

    fn enter(&self, identity: u64, number: u32) {
        let ways = self.ways(identity);
        let free = ways.iter().position(|place| place.load(Relaxed) == 0);
        // Any of them, by bits that did not choose the line.
        let way = free.unwrap_or((identity >> 20) as usize & (WAYS - 1));
        ways[way].store(identity & !0xffff | u64::from(number), Release);
    }
}

/// A frame as the table has it. Texts are numbers of [`StackTable::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Line (0 not known), file and function.
    Python(u32, u32, u32),
    /// A return address.
    Native(u64),
}

/// A stack as the table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub why: Why,
    pub flags: u64,
    pub thread: u32,
    /// Innermost first.
    pub frames: Vec<u32>,
}

#[derive(Default)]
struct FrameEntry {
    /// 1 once the entry is complete.
    ready: AtomicU32,
    line: AtomicU32,
    /// For a return address, 0.
    file: AtomicU32,
    function: AtomicU32,
    address: AtomicU64,
}

#[derive(Default)]
struct StackEntry {
    /// 1 once the entry is complete.
    ready: AtomicU32,
    why: AtomicU8,
    flags: AtomicU8,
    len: AtomicU8,
    /// Its first frame in `listed`.
    first: AtomicU32,
    thread: AtomicU32,
}

/// See the module.
pub struct StackTable {
    recent_stacks: Cache,
    recent_frames: Cache,
    stacks: Index,
    stack_entries: &'static [StackEntry],
    next_stack: AtomicU32,
    frames: Index,
    frame_entries: &'static [FrameEntry],
    next_frame: AtomicU32,
    texts: Index,
    /// Where each text begins in `bytes`: its length, and then itself.
    text_entries: &'static [AtomicU32],
    next_text: AtomicU32,
    bytes: &'static [AtomicU8],
    next_byte: AtomicU32,
    listed: &'static [AtomicU32],
    next_listed: AtomicU32,
}

impl StackTable {
    /// The stack of calls that found the table full. It is always there.
    pub const FULL: u32 = 1;

    pub fn new() -> Option<StackTable> {
        // SAFETY: zeros are values of atomic integers, and of structs of these.
        let table = unsafe {
            StackTable {
                recent_stacks: Cache::new(STACKS)?,
                recent_frames: Cache::new(FRAMES)?,
                stacks: Index::new(STACKS)?,
                stack_entries: array::zeros(STACKS)?,
                next_stack: AtomicU32::new(1),
                frames: Index::new(FRAMES)?,
                frame_entries: array::zeros(FRAMES)?,
                next_frame: AtomicU32::new(1),
                texts: Index::new(TEXTS)?,
                text_entries: array::zeros(TEXTS)?,
                next_text: AtomicU32::new(1),
                bytes: array::zeros(TEXT_BYTES)?,
                next_byte: AtomicU32::new(0),
                listed: array::zeros(LISTED)?,
                next_listed: AtomicU32::new(0),
            }
        };
        table.enter_stack(hash_of(b"full"), Why::Full, 0, 0, &[]);
        Some(table)
    }

    /// The stack of this identity, if it was met lately.
    #[inline(always)]
    pub fn find(&self, identity: u64) -> Option<u32> {
        self.recent_stacks.find(identity)
    }

    /// The number of a text; 0 for an empty one, or if there is no room.
    pub fn text(&self, text: &[u8]) -> u32 {
        // The end of a path says more than its beginning.
        let text = &text[text.len().saturating_sub(LONGEST)..];
        if text.is_empty() {
            return 0;
        }
        let hash = hash_of(text);
        if let Some(number) = self.texts.find(hash) {
            return number;
        }
        let Some(number) = take(&self.next_text, 1, TEXTS) else {
            return 0;
        };
        let Some(at) = take(&self.next_byte, 1 + text.len(), TEXT_BYTES) else {
            return 0;
        };
        self.bytes[at].store(text.len() as u8, Relaxed);
        for (to, from) in self.bytes[at + 1..].iter().zip(text) {
            to.store(*from, Relaxed);
        }
        self.text_entries[number].store(at as u32, Relaxed);
        match self.texts.enter(hash, number as u32) {
            Entered::Mine => number as u32,
            Entered::Other(number) => number,
            Entered::Full => 0,
        }
    }

    /// The bytes of a text.
    pub fn text_of(&self, number: u32) -> Vec<u8> {
        if number == 0 {
            return Vec::new();
        }
        let at = self.text_entries[number as usize].load(Relaxed) as usize;
        let len = usize::from(self.bytes[at].load(Relaxed));
        let bytes = &self.bytes[at + 1..at + 1 + len];
        bytes.iter().map(|byte| byte.load(Relaxed)).collect()
    }

    /// The number of the frame of this identity; a new one is described. `None` if there is no room.
    pub fn frame(
        &self,
        identity: u64,
        describe: impl FnOnce(&StackTable) -> Option<Frame>,
    ) -> Option<u32> {
        if let Some(number) = self.recent_frames.find(identity) {
            return Some(number);
        }
        let frame = describe(self)?;
        let number = self.enter_frame(frame)?;
        self.recent_frames.enter(identity, number);
        Some(number)
    }

    /// The number of a frame, which is entered if it is new.
    fn enter_frame(&self, frame: Frame) -> Option<u32> {
        let hash = match frame {
            Frame::Python(line, file, function) => [1, line, file, function]
                .into_iter()
                .fold(0, |hash, part| mix(hash, part.into())),
            Frame::Native(address) => mix(2, address),
        };
        if let Some(number) = self.frames.find(hash) {
            return Some(number);
        }
        let number = take(&self.next_frame, 1, FRAMES)?;
        let entry = &self.frame_entries[number];
        match frame {
            Frame::Python(line, file, function) => {
                entry.line.store(line, Relaxed);
                entry.file.store(file, Relaxed);
                entry.function.store(function, Relaxed);
            }
            Frame::Native(address) => entry.address.store(address, Relaxed),
        }
        entry.ready.store(1, Release);
        match self.frames.enter(hash, number as u32) {
            Entered::Mine => Some(number as u32),
            Entered::Other(number) => Some(number),
            Entered::Full => None,
        }
    }

    /// The id of a stack of this identity, which is entered if it is new. Its frames are numbers that
    /// [`StackTable::frame`] gave.
    pub fn stack(&self, identity: u64, why: Why, flags: u64, thread: &[u8], frames: &[u32]) -> u32 {
        let frames = &frames[..frames.len().min(DEPTH)];
        let thread = self.text(thread);
        let hash = [why as u32, flags as u32, thread]
            .iter()
            .chain(frames)
            .fold(0x57ac, |hash, part| mix(hash, u64::from(*part) + 1));
        let found = self.stacks.find(hash);
        let id = found.unwrap_or_else(|| self.enter_stack(hash, why, flags, thread, frames));
        self.recent_stacks.enter(identity, id);
        id
    }

    fn enter_stack(&self, hash: u64, why: Why, flags: u64, thread: u32, frames: &[u32]) -> u32 {
        let Some(first) = take(&self.next_listed, frames.len(), LISTED) else {
            return StackTable::FULL;
        };
        let Some(id) = take(&self.next_stack, 1, STACKS) else {
            return StackTable::FULL;
        };
        for (to, from) in self.listed[first..].iter().zip(frames) {
            to.store(*from, Relaxed);
        }
        let entry = &self.stack_entries[id];
        entry.why.store(why as u8, Relaxed);
        entry.flags.store(flags as u8, Relaxed);
        entry.len.store(frames.len() as u8, Relaxed);
        entry.first.store(first as u32, Relaxed);
        entry.thread.store(thread, Relaxed);
        // Meets the Acquire in `stack_of`.
        entry.ready.store(1, Release);
        match self.stacks.enter(hash, id as u32) {
            Entered::Mine => id as u32,
            Entered::Other(id) => id,
            Entered::Full => StackTable::FULL,
        }
    }

    /// One more than the highest number that a stack has.
    pub fn stacks_end(&self) -> u32 {
        self.next_stack.load(Acquire).min(STACKS as u32)
    }

    /// One more than the highest number that a frame has.
    pub fn frames_end(&self) -> u32 {
        self.next_frame.load(Acquire).min(FRAMES as u32)
    }

    /// A stack that is complete.
    pub fn stack_of(&self, id: u32) -> Option<Stack> {
        let entry = self.stack_entries.get(id as usize)?;
        if entry.ready.load(Acquire) == 0 {
            return None;
        }
        let first = entry.first.load(Relaxed) as usize;
        let frames = &self.listed[first..first + usize::from(entry.len.load(Relaxed))];
        Some(Stack {
            why: Why::from_u64(entry.why.load(Relaxed).into())?,
            flags: entry.flags.load(Relaxed).into(),
            thread: entry.thread.load(Relaxed),
            frames: frames.iter().map(|frame| frame.load(Relaxed)).collect(),
        })
    }

    /// A frame that is complete.
    pub fn frame_of(&self, number: u32) -> Option<Frame> {
        let entry = self.frame_entries.get(number as usize)?;
        if entry.ready.load(Acquire) == 0 {
            return None;
        }
        Some(match entry.address.load(Relaxed) {
            0 => Frame::Python(
                entry.line.load(Relaxed),
                entry.file.load(Relaxed),
                entry.function.load(Relaxed),
            ),
            address => Frame::Native(address),
        })
    }
}

/// The next `n` of so many, if they are there. A counter may run past the end, and never around.
fn take(next: &AtomicU32, n: usize, room: usize) -> Option<usize> {
    let at = next.load(Relaxed) as usize;
    if at + n > room {
        return None;
    }
    let at = next.fetch_add(n as u32, Relaxed) as usize;
    (at + n <= room).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_entered_is_found_by_any_thread_with_one_number() {
        let table = StackTable::new().expect("memory");
        let enter = || {
            let frame = |line: u32| {
                let number = table.frame(mix(7, line.into()), |table| {
                    Some(Frame::Python(line, table.text(b"a.py"), table.text(b"f")))
                });
                number.expect("room")
            };
            let frames: Vec<u32> = (0..100).map(frame).collect();
            (0..100u32)
                .map(|n| {
                    let hash = mix(9, n.into());
                    let found = table.find(hash);
                    found.unwrap_or_else(|| {
                        table.stack(hash, Why::HasFrames, 0, b"", &frames[..n as usize % 64])
                    })
                })
                .collect::<Vec<u32>>()
        };
        let ids = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(enter)).collect();
            let ids: Vec<Vec<u32>> = threads
                .into_iter()
                .map(|t| t.join().expect("ran"))
                .collect();
            ids
        });
        assert!(ids.iter().all(|other| *other == ids[0]));
        let stack = table.stack_of(ids[0][50]).expect("complete");
        assert_eq!(stack.frames.len(), 50);
        let Some(Frame::Python(49, file, function)) = table.frame_of(stack.frames[49]) else {
            panic!("{stack:?}");
        };
        assert_eq!(table.text_of(file), b"a.py");
        assert_eq!(table.text_of(function), b"f");
    }

    #[test]
    fn code_that_is_made_again_and_again_takes_no_room() {
        let table = StackTable::new().expect("memory");
        let mut met = std::collections::BTreeSet::new();
        for n in 0..1_000_000u64 {
            let frame = table.frame(mix(1, n), |table| {
                Some(Frame::Python(7, table.text(b"made.py"), 0))
            });
            let frames = [frame.expect("room")];
            met.insert(table.stack(mix(2, n), Why::HasFrames, 0, b"", &frames));
            // The newest is always there.
            assert_eq!(table.find(mix(2, n)).as_ref(), met.first());
        }
        assert_eq!(
            (met.len(), table.stacks_end(), table.frames_end()),
            (1, 3, 2)
        );
    }

    #[test]
    fn a_full_table_says_so_and_the_end_of_a_path_counts() {
        let table = StackTable::new().expect("memory");
        for n in 0..20_000u64 {
            let id = table.stack(mix(1, n), Why::NoFrames, 0, b"x", &[n as u32]);
            assert_eq!(id == StackTable::FULL, n >= STACKS as u64 - 2, "{n}");
        }
        let full = table.stack_of(StackTable::FULL).expect("always there");
        assert_eq!(full.why, Why::Full);
        let path = [vec![b'a'; 300], b"/end.py".to_vec()].concat();
        let text = table.text_of(table.text(&path));
        assert_eq!((text.len(), text.ends_with(b"aa/end.py")), (255, true));
        for n in 0..40_000u64 {
            let frame = table.frame(mix(2, n), |_| Some(Frame::Native(n + 1)));
            assert_eq!(frame.is_none(), n >= FRAMES as u64 - 1, "{n}");
        }
    }
}
