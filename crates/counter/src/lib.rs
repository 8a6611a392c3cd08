//! How a process counts its NCCL calls in a file, and how that is read.
//!
//! A [`Counter`] is the file, mapped: a header and a table of [`SLOTS`] kinds of calls, to which any thread
//! adds at any time. A [`CounterFile`] is what a reader finds in it. The library that is preloaded into
//! programs is the crate `preload`.
//!
//! The layout, version 1, in the machine's own byte order, as both ends are on one host:
//!
//! ```text
//! header, 64 bytes:  0 magic u64 · 8 version u32 · 12 pid u32 · 16 launcher's rank + 1, 0 none, u32
//!                    24 lost u64
//! slot, 64 bytes:    0 state u32 (0 free, 1 being made, 2 made) · 4 function u32 · 8 datatype u32
//!                    12 ranks u32 · 16 rank u32 · 24 count u64 · 32 number u64
//! ```
//!
//! Rule: what was counted is there whatever becomes of the process, because the mapping is shared with the
//! file. A call that found no room is counted as lost, never dropped silently.

use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// The environment variable that names the folder for the files.
pub const FOLDER: &str = "NCCLSCOPE_COUNTER_DIR";
/// Kinds of calls that a process can count.
pub const SLOTS: usize = 8192;
const MAGIC: u64 = u64::from_le_bytes(*b"ncclcnt\0");
const VERSION: u32 = 1;
const SLOT: usize = 64;
const LEN: usize = SLOT * (1 + SLOTS);

/// NCCL's names of what is counted; a call's function is its index.
pub const FUNCTIONS: [&str; 10] = [
    "AllReduce",
    "Broadcast",
    "Reduce",
    "AllGather",
    "ReduceScatter",
    "Send",
    "Recv",
    "AlltoAll",
    "Gather",
    "Scatter",
];
/// Bytes of an element by ncclDataType_t.
pub const DATATYPE_SIZES: [u64; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// Index into [`FUNCTIONS`].
    pub function: u32,
    /// ncclDataType_t.
    pub datatype: u32,
    /// Ranks of the communicator, 0 not known.
    pub nranks: u32,
    /// Rank in it, `u32::MAX` not known.
    pub rank: u32,
    /// Elements as the program gave them.
    pub count: u64,
}

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    pid: AtomicU32,
    rank: AtomicU32,
    _pad: u32,
    lost: AtomicU64,
}

#[repr(C, align(64))]
struct Slot {
    state: AtomicU32,
    function: AtomicU32,
    datatype: AtomicU32,
    nranks: AtomicU32,
    rank: AtomicU32,
    _pad: u32,
    count: AtomicU64,
    number: AtomicU64,
}

const _: () = assert!(size_of::<Header>() == SLOT && size_of::<Slot>() == SLOT);
const FREE: u32 = 0;
const MAKING: u32 = 1;
const MADE: u32 = 2;

#[repr(C)]
struct Mapped {
    header: Header,
    slots: [Slot; SLOTS],
}

/// The file of this process.
pub struct Counter {
    mapped: &'static Mapped,
}

impl Counter {
    /// Makes the file of process `pid` in `folder`, for the launcher's `rank`. It stays mapped as long as the
    /// process lives.
    pub fn create(folder: &Path, pid: u32, rank: Option<u32>) -> std::io::Result<Counter> {
        // A process id comes again in a long job.
        let file = (0..).find_map(|n| {
            let path = folder.join(format!("{pid}-{n}.counts"));
            let options = &mut std::fs::OpenOptions::new();
            match options.read(true).write(true).create_new(true).open(path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
                other => Some(other),
            }
        });
        let file = file.unwrap_or_else(|| Err(std::io::ErrorKind::AlreadyExists.into()))?;
        file.set_len(LEN as u64)?;
        // SAFETY: a new shared mapping of a file of that length.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: mapped for good, page-aligned and of this size; all zeros is valid, and everything in it is
        // atomic.
        let mapped: &'static Mapped = unsafe { &*base.cast() };
        mapped.header.version.store(VERSION, Relaxed);
        mapped.header.pid.store(pid, Relaxed);
        mapped
            .header
            .rank
            .store(rank.map_or(0, |r| r.saturating_add(1)), Relaxed);
        mapped.header.magic.store(MAGIC, Release);
        Ok(Counter { mapped })
    }

    /// Counts one call.
    pub fn count(&self, kind: &CallShape) {
        let slots = &self.mapped.slots;
        let first = hash(kind) as usize % SLOTS;
        for step in 0..SLOTS {
            let slot = &slots[(first + step) % SLOTS];
            // Pairs with the Release below: what a made slot says is there.
            let mut state = slot.state.load(Acquire);
            if state == FREE {
                match slot.state.compare_exchange(FREE, MAKING, Acquire, Acquire) {
                    Ok(_) => {
                        slot.function.store(kind.function, Relaxed);
                        slot.datatype.store(kind.datatype, Relaxed);
                        slot.nranks.store(kind.nranks, Relaxed);
                        slot.rank.store(kind.rank, Relaxed);
                        slot.count.store(kind.count, Relaxed);
                        slot.state.store(MADE, Release);
                        state = MADE;
                    }
                    Err(other) => state = other,
                }
            }
            while state == MAKING {
                // Five stores of another thread.
                std::hint::spin_loop();
                state = slot.state.load(Acquire);
            }
            if slot.kind() == *kind {
                slot.number.fetch_add(1, Relaxed);
                return;
            }
        }
        self.mapped.header.lost.fetch_add(1, Relaxed);
    }
}

impl Slot {
    fn kind(&self) -> CallShape {
        CallShape {
            function: self.function.load(Relaxed),
            datatype: self.datatype.load(Relaxed),
            nranks: self.nranks.load(Relaxed),
            rank: self.rank.load(Relaxed),
            count: self.count.load(Relaxed),
        }
    }
}

fn hash(kind: &CallShape) -> u64 {
    let words = [
        u64::from(kind.function) << 32 | u64::from(kind.datatype),
        u64::from(kind.nranks) << 32 | u64::from(kind.rank),
        kind.count,
    ];
    words.iter().fold(0, |hash: u64, word| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    })
}

/// One kind of call and how often it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// NCCL's name.
    pub function: &'static str,
    /// Bytes of an element.
    pub datatype_size: u64,
    /// Ranks of the communicator, 0 not known.
    pub nranks: u32,
    /// Rank in it.
    pub rank: Option<u32>,
    /// Elements.
    pub count: u64,
    /// Calls.
    pub number: u64,
}

/// A file as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterFile {
    /// Process id.
    pub pid: u32,
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Calls that had no room.
    pub lost: u64,
    /// Each kind.
    pub rows: Vec<CallCount>,
}

impl CounterFile {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// What was expected and what was found.
    pub fn read(bytes: &[u8]) -> Result<CounterFile, String> {
        let u32_at =
            |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let u64_at =
            |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if bytes.len() != LEN {
            return Err(format!(
                "expected {LEN} bytes of counts, found {}",
                bytes.len()
            ));
        }
        if u64_at(0) != MAGIC || u32_at(8) != VERSION {
            return Err(format!(
                "expected counts of version {VERSION}, found something else"
            ));
        }
        let mut rows = Vec::new();
        for slot in (SLOT..LEN).step_by(SLOT) {
            if u32_at(slot) != MADE || u64_at(slot + 32) == 0 {
                continue;
            }
            let (function, datatype) = (u32_at(slot + 4), u32_at(slot + 8));
            rows.push(CallCount {
                function: FUNCTIONS.get(function as usize).ok_or_else(|| {
                    format!(
                        "expected a function below {}, found {function}",
                        FUNCTIONS.len()
                    )
                })?,
                datatype_size: *DATATYPE_SIZES
                    .get(datatype as usize)
                    .ok_or_else(|| format!("expected a datatype of NCCL, found {datatype}"))?,
                nranks: u32_at(slot + 12),
                rank: Some(u32_at(slot + 16)).filter(|rank| *rank != u32::MAX),
                count: u64_at(slot + 24),
                number: u64_at(slot + 32),
            });
        }
        Ok(CounterFile {
            pid: u32_at(12),
            rank: u32_at(16).checked_sub(1),
            lost: u64_at(24),
            rows,
        })
    }
}

/// The index of a function by the name that a program calls, such as `ncclAllReduce`.
pub fn function(name: &CStr) -> Option<u32> {
    let name = name.to_str().ok()?.strip_prefix("nccl")?;
    let known = match name {
        "Bcast" => "Broadcast",
        other => other,
    };
    FUNCTIONS.iter().position(|f| *f == known).map(|i| i as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(count: u64) -> CallShape {
        CallShape {
            function: 0,
            datatype: 7,
            nranks: 8,
            rank: 3,
            count,
        }
    }

    #[test]
    fn threads_count_every_call_once_by_kind() {
        let folder = std::env::temp_dir().join(format!("ncclscope-counter-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        let counter = Counter::create(&folder, 41, Some(5)).expect("made");
        let again = Counter::create(&folder, 41, None).expect("a file of its own");
        again.count(&kind(1));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000u64).for_each(|i| counter.count(&kind(i % 50))));
            }
        });
        let bytes = std::fs::read(folder.join("41-0.counts")).expect("read");
        let table = CounterFile::read(&bytes).expect("sound");
        assert_eq!((table.pid, table.rank, table.lost), (41, Some(5), 0));
        assert_eq!(table.rows.len(), 50);
        assert!(table.rows.iter().all(|row| row.number == 800));
        let row = table.rows[0];
        assert_eq!((row.function, row.datatype_size), ("AllReduce", 4));
        assert_eq!((row.nranks, row.rank), (8, Some(3)));
        // More kinds than there is room for.
        (0..SLOTS as u64 + 10).for_each(|i| again.count(&kind(i)));
        let bytes = std::fs::read(folder.join("41-1.counts")).expect("read");
        let table = CounterFile::read(&bytes).expect("sound");
        assert_eq!((table.rows.len(), table.lost), (SLOTS, 10));
        assert_eq!(table.rank, None);
        assert!(
            CounterFile::read(&bytes[1..]).is_err() && CounterFile::read(&vec![0; LEN]).is_err()
        );
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn names_of_calls_have_their_function() {
        assert_eq!(function(c"ncclAllReduce"), Some(0));
        assert_eq!(function(c"ncclBcast"), function(c"ncclBroadcast"));
        for other in [c"ncclCommInitRank", c"AllReduce", c"ncclReduceScatterX"] {
            assert_eq!(function(other), None);
        }
    }
}
