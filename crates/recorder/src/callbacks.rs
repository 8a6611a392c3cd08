//! `callbacks` mode: every callback verbatim, through a byte ring to the recorder's thread.
//!
//! A caller reserves its record's place with a compare-and-swap, fills it in, and stores the first word last
//! (Release). The thread takes records in order, and stops at the first that is not committed. A full ring
//! drops the record and counts it: this mode may be slower than the others but still never waits.

use crate::intern::read;
use crate::pages;
use capture::callback::{record_bytes, Callback, EntryPoint, HEADER};
use capture::rows::Ticks;
use std::cell::Cell;
use std::ffi::c_char;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Bytes of the ring.
pub const RING: usize = 32 << 20;
const SEEN: usize = 1024;

/// The ring.
pub struct Callbacks {
    words: &'static [AtomicU64],
    head: AtomicU64,
    tail: AtomicU64,
    seen: Box<[AtomicU64]>,
    threads: AtomicU32,
    /// Handles that name no row or entry, and were told apart by a number.
    told_apart: AtomicU64,
    /// Records dropped because the ring or the trace file was full.
    pub dropped: AtomicU64,
}

thread_local! {
    // The calling thread in the ring that it last called. A plain cell needs no destructor, so this pins
    // nothing.
    static THREAD: Cell<Caller> = const { Cell::new(Caller { ring: 0, number: 0, is_told: false }) };
}

/// A thread that calls.
#[derive(Clone, Copy)]
struct Caller {
    /// The ring that it has a number in, by its address. A forked child has a ring of its own, in which its
    /// one thread must not keep the number that it had in the parent's.
    ring: usize,
    number: u32,
    /// Whether the ring has its id and name.
    is_told: bool,
}

/// Whether `words` more fit behind `at`. `at` may be an old head, which others have passed since.
fn has_room(at: u64, words: u64, tail: u64, capacity: u64) -> bool {
    at.wrapping_add(words).wrapping_sub(tail) as i64 <= capacity as i64
}

impl Callbacks {
    /// Maps the ring; pages are touched as they are used.
    pub fn new() -> std::io::Result<Self> {
        let base = pages::map(RING)?;
        // SAFETY: RING zeroed bytes, aligned, valid as atomics, for the life of the process.
        let words = unsafe { std::slice::from_raw_parts(base.cast::<AtomicU64>(), RING / 8) };
        Ok(Callbacks {
            words,
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            seen: (0..SEEN).map(|_| AtomicU64::new(0)).collect(),
            threads: AtomicU32::new(0),
            told_apart: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// A number that no event of this process had before.
    pub fn next_number(&self) -> u64 {
        self.told_apart.fetch_add(1, Relaxed)
    }

    /// The calling thread's number. Its first record is its id and name: two system calls for each thread.
    fn thread(&self, abi: u8, ticks: Ticks) -> u32 {
        let ring = self.words.as_ptr() as usize;
        let mut caller = THREAD.get();
        if caller.ring != ring {
            caller = Caller {
                ring,
                number: self.threads.fetch_add(1, Relaxed),
                is_told: false,
            };
        }
        if !caller.is_told {
            let mut name = [0u8; 16];
            // SAFETY: the kernel writes at most 16 bytes with a zero at the end.
            let id = unsafe {
                libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
                libc::syscall(libc::SYS_gettid)
            };
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            let name = &name[..end];
            caller.is_told = self.append(
                EntryPoint::Thread,
                abi,
                caller.number,
                ticks,
                id as u64,
                0,
                name,
            );
        }
        THREAD.set(caller);
        caller.number
    }

    /// Appends one record. False if it was dropped, because there is no room for it.
    pub fn push(
        &self,
        what: EntryPoint,
        abi: u8,
        ticks: Ticks,
        subject: u64,
        result: u64,
        payload: &[u8],
    ) -> bool {
        let thread = self.thread(abi, ticks);
        self.append(what, abi, thread, ticks, subject, result, payload)
    }

    #[allow(clippy::too_many_arguments)] // The fields of a record.
    fn append(
        &self,
        what: EntryPoint,
        abi: u8,
        thread: u32,
        ticks: Ticks,
        subject: u64,
        result: u64,
        payload: &[u8],
    ) -> bool {
        let words = record_bytes(payload.len()) as u64 / 8;
        let capacity = self.words.len() as u64;
        let mut at = self.head.load(Relaxed);
        loop {
            if !has_room(at, words, self.tail.load(Acquire), capacity) {
                self.dropped.fetch_add(1, Relaxed);
                return false;
            }
            match self
                .head
                .compare_exchange_weak(at, at + words, AcqRel, Relaxed)
            {
                Ok(_) => break,
                Err(now) => at = now,
            }
        }
        let header = Callback {
            what,
            abi,
            thread,
            ticks,
            subject,
            result,
            payload,
        }
        .header();
        let word = |i: u64| &self.words[((at + i) % capacity) as usize];
        let eight = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        for (i, chunk) in header[8..].chunks(8).chain(payload.chunks(8)).enumerate() {
            word(i as u64 + 1).store(eight(chunk), Relaxed);
        }
        word(0).store(eight(&header[..8]), Release);
        true
    }

    /// Records the text behind a pointer, once in a while again.
    pub fn text(&self, abi: u8, ticks: Ticks, pointer: *const c_char) {
        let address = pointer as u64;
        if address == 0 {
            return;
        }
        let seen = &self.seen[(address >> 3 ^ address >> 13) as usize % SEEN];
        if seen.load(Relaxed) == address {
            return;
        }
        let mut bytes = [0u8; 64];
        let text = read(pointer, &mut bytes);
        if self.push(EntryPoint::Text, abi, ticks, address, 0, text) {
            seen.store(address, Relaxed);
        }
    }

    /// Moves committed records to `out`, up to about `limit` bytes, and returns how many; only the recorder's
    /// thread calls this.
    pub fn take(&self, out: &mut Vec<u8>, limit: usize) -> u64 {
        let capacity = self.words.len() as u64;
        let (start, mut taken) = (out.len(), 0);
        let mut tail = self.tail.load(Relaxed);
        while tail != self.head.load(Acquire) && out.len() - start < limit {
            let first = self.words[(tail % capacity) as usize].load(Acquire);
            if first == 0 {
                break;
            }
            let words = ((first & 0xffff).max(HEADER as u64)).div_ceil(8);
            for i in 0..words {
                let word = &self.words[((tail + i) % capacity) as usize];
                out.extend(word.load(Relaxed).to_le_bytes());
                word.store(0, Relaxed);
            }
            tail += words;
            self.tail.store(tail, Release);
            taken += 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<&[u8]> {
        capture::callback::read(bytes)
            .filter(|record| record.what == EntryPoint::Text)
            .map(|record| record.payload)
            .collect()
    }

    #[test]
    fn a_text_that_was_dropped_is_recorded_at_its_next_use() {
        let ring = Callbacks::new().expect("memory");
        for payload in [60_000, 0] {
            let before = ring.dropped.load(Relaxed);
            while ring.dropped.load(Relaxed) == before {
                ring.push(EntryPoint::Stop, 5, Ticks(1), 2, 3, &vec![0; payload]);
            }
        }
        let text = || ring.text(5, Ticks(1), c"AllReduce".as_ptr());
        text();
        let mut out = Vec::new();
        while ring.take(&mut out, 1 << 20) != 0 {}
        assert_eq!(texts(&out).len(), 0);
        text();
        text();
        ring.take(&mut out, 1 << 20);
        assert_eq!(texts(&out), [b"AllReduce"]);
    }

    #[test]
    fn each_thread_says_once_who_it_is() {
        let ring = Callbacks::new().expect("memory");
        let twice = || {
            ring.push(EntryPoint::Stop, 5, Ticks(1), 2, 3, &[]);
            ring.push(EntryPoint::Stop, 5, Ticks(1), 2, 3, &[]);
        };
        twice();
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name("NCCL Progress 0".into());
            let thread = named.spawn_scoped(scope, twice).expect("a thread");
            thread.join().expect("no panic");
        });
        let mut out = Vec::new();
        assert_eq!(ring.take(&mut out, 1 << 20), 6);
        let told: Vec<_> = capture::callback::read(&out)
            .filter(|record| record.what == EntryPoint::Thread)
            .collect();
        let numbers: Vec<u32> = told.iter().map(|record| record.thread).collect();
        assert_eq!(numbers, [0, 1]);
        // SAFETY: a plain system call.
        let own = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
        assert_eq!(told[0].subject, own);
        assert_ne!(told[1].subject, own);
        assert_eq!(told[1].payload, b"NCCL Progress 0");
    }

    #[test]
    fn an_old_head_is_no_full_ring() {
        // Others have appended since, and the thread has taken all that.
        assert!(has_room(0, 4, 100, 64));
        assert!(has_room(u64::MAX - 1, 4, 100, 64));
        assert!(has_room(100, 64, 100, 64) && !has_room(101, 64, 100, 64));
    }
}
