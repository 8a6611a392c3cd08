//! When watched threads were off their CPUs, from the kernel's records of context switches.
//!
//! The kernel writes a record into a ring of memory whenever a thread leaves its CPU, and one when it is back
//! (`PERF_RECORD_SWITCH`). [`Switches`] has a ring for each watched thread and reads it at ticks. A user may
//! ask for the records of own processes, unless `kernel.perf_event_paranoid` is 3 or higher, or a container
//! forbids the call. Then [`Switches::new`] says why, and the counters of [`crate::processes`] are all there
//! is.
//!
//! ```text
//! ring    first page (the kernel's head, our tail) │ 8 pages of records, 16 bytes each
//! record  type u32 (14)   misc u16: bit 13 leaves, bit 14 was preempted   bytes u16   CLOCK_MONOTONIC ns u64
//! ```
//!
//! Being watched costs a thread 1.6 µs for each switch away and back (bench/README.md). So a thread that
//! switches often is watched for a part of the time: it rests when it has paid [`SHARE`] of its time in
//! advance.
//!
//! Rule: a span of time is handed out only if all of its records were read.

use capture::switches::{Off, LEAST_NS};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{fence, Ordering};

/// Pages of a ring, besides the first: 1000 switches away and back between two ticks.
const PAGES: usize = 8;
/// Stretches of one thread that are kept between two readings, at most.
const MOST: usize = 1000;
/// What a switch away and back costs a thread that is watched, ns.
const COST_NS: f64 = 2_000.0;
/// The share of its time that a thread may pay for being watched.
const SHARE: f64 = 0.002;
/// It rests once it has paid for so long in advance, ns.
const ADVANCE_NS: f64 = 1e9;

/// Places in the ring's first page, as the kernel's `struct perf_event_mmap_page` has them.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// Bytes of a record of a switch.
const RECORD: usize = 16;
const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
const LEAVES: u16 = 1 << 13;
const PREEMPTED: u16 = 1 << 14;

/// The kernel's `struct perf_event_attr`, as of Linux 4.1.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
}

const _: () = assert!(std::mem::size_of::<Attributes>() == 96);

/// The rings of all watched threads.
pub struct Switches {
    rings: BTreeMap<String, Ring>,
    /// Until when threads rest.
    resting: BTreeMap<String, u64>,
}

/// What a ring says of one thread up to now.
struct Seen {
    /// Up to when records were read.
    until: u64,
    /// Whether the thread is on a CPU; not known before its first switch.
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Runs,
    /// Left its CPU at this time.
    Off {
        from: u64,
        preempted: bool,
    },
}

/// One record.
#[derive(Clone, Copy)]
struct Switch {
    at: u64,
    leaves: bool,
    preempted: bool,
}

impl Switches {
    /// No thread yet.
    ///
    /// # Errors
    /// Why the kernel gives no such records.
    pub fn new() -> Result<Switches, String> {
        // This thread stands for others.
        match Ring::open(0) {
            Ok(_) => Ok(Switches {
                rings: BTreeMap::new(),
                resting: BTreeMap::new(),
            }),
            Err(error) => Err(format!(
                "the kernel gives no records of context switches ({error}): kernel.perf_event_paranoid \
                 is above 2, or a container forbids perf_event_open"
            )),
        }
    }

    /// Watches these threads, by number and name, and no others.
    pub fn watch<'a>(&mut self, threads: impl Iterator<Item = (u32, &'a str)>) {
        let now = clock(libc::CLOCK_MONOTONIC);
        self.resting.retain(|_, until| *until > now);
        let mut before = std::mem::take(&mut self.rings);
        for (tid, name) in threads.filter(|(_, name)| !self.resting.contains_key(*name)) {
            // A thread that ended meanwhile, or no more memory for rings: it is not watched.
            let ring = before.remove(name).or_else(|| Ring::open(tid as i32).ok());
            self.rings.extend(ring.map(|ring| (name.to_owned(), ring)));
        }
    }

    /// Reads all rings. Hands what is known since the last reading to `each`: the thread's name, a span, and
    /// when it was off its CPU.
    pub fn read(&mut self, mut each: impl FnMut(&str, (u64, u64), &[Off])) {
        let resting = &mut self.resting;
        self.rings.retain(|name, ring| {
            let now = clock(libc::CLOCK_MONOTONIC);
            let elapsed = now.saturating_sub(ring.seen.until);
            let (switches, whole) = ring.records();
            let mut records = switches.len() as f64;
            if let Some(last) = switches.last().filter(|_| !whole) {
                // The ring was full by then, and the thread went on as it did.
                let until_full = last.at.saturating_sub(ring.seen.until).max(1);
                records *= (elapsed as f64 / until_full as f64).max(1.0);
            }
            let rest = ring.account.pay(records, elapsed);
            if let Some(ns) = rest {
                resting.insert(name.clone(), now.saturating_add(ns));
            }
            if !whole {
                ring.seen = Seen {
                    until: now,
                    state: State::Unknown,
                };
                return rest.is_none();
            };
            if let Some((span, off)) = ring.seen.add(&switches, now) {
                let ahead = clock(libc::CLOCK_REALTIME).wrapping_sub(clock(libc::CLOCK_MONOTONIC));
                let real = |at: u64| at.wrapping_add(ahead);
                let off = off.iter().map(|off| Off {
                    from: real(off.from),
                    to: real(off.to),
                    ..*off
                });
                each(name, (real(span.0), real(span.1)), &off.collect::<Vec<_>>());
            }
            rest.is_none()
        });
    }
}

/// What a thread has paid for being watched, less what it may have paid by now, ns.
#[derive(Default)]
struct Account(f64);

impl Account {
    /// Enters the records of a time that is so long, ns. If the thread has paid too much, for how long it
    /// rests.
    fn pay(&mut self, records: f64, elapsed: u64) -> Option<u64> {
        let paid = records / 2.0 * COST_NS;
        // What it did not pay before is no credit: a burst would cost more than the share then.
        self.0 = (self.0 + paid - SHARE * elapsed as f64).max(0.0);
        (self.0 > SHARE * ADVANCE_NS).then(|| (self.0 / SHARE) as u64)
    }
}

impl Seen {
    /// Takes in what was recorded up to `now`; the span that is known by that, and the stretches off in it.
    fn add(&mut self, switches: &[Switch], now: u64) -> Option<((u64, u64), Vec<Off>)> {
        let begin = self.until;
        let mut all = Vec::new();
        for switch in switches {
            // A record of before the ring was asked for.
            let at = switch.at.max(begin);
            self.state = match (self.state, switch.leaves) {
                (State::Off { .. }, true) => continue,
                (_, true) => State::Off {
                    from: at,
                    preempted: switch.preempted,
                },
                (State::Off { from, preempted }, false) => {
                    all.push(Off {
                        from,
                        to: at,
                        preempted,
                    });
                    State::Runs
                }
                // It was off when it was first watched.
                (State::Unknown, false) => {
                    all.push(Off {
                        from: begin,
                        to: at,
                        preempted: false,
                    });
                    State::Runs
                }
                (State::Runs, false) => State::Runs,
            };
        }
        if self.state == State::Unknown {
            return None;
        }
        let end = switches.last().map_or(now, |last| now.max(last.at));
        if let State::Off { from, preempted } = self.state {
            all.push(Off {
                from,
                to: end,
                preempted,
            });
            self.state = State::Off {
                from: end,
                preempted,
            };
        }
        self.until = end;
        let is_long = |off: &Off| {
            off.to - off.from >= LEAST_NS
                || off.to > off.from && (off.from == begin || off.to == end)
        };
        all.retain(is_long);
        if all.len() > MOST {
            all.sort_unstable_by_key(|off| std::cmp::Reverse(off.to - off.from));
            all.truncate(MOST);
            all.sort_unstable_by_key(|off| off.from);
        }
        Some(((begin, end), all))
    }
}

/// Memory that the kernel writes records of one thread into.
struct Ring {
    memory: *mut u8,
    bytes: usize,
    page: usize,
    seen: Seen,
    account: Account,
    /// Closed last.
    _event: OwnedFd,
}

// SAFETY: the mapping is the process's, and only this value points to it.
unsafe impl Send for Ring {}

impl Ring {
    fn open(tid: i32) -> std::io::Result<Ring> {
        const SOFTWARE: u32 = 1;
        const DUMMY: u64 = 9;
        const SAMPLE_TIME: u64 = 1 << 2;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        const TIME_IN_ALL: u64 = 1 << 18;
        const OWN_CLOCK: u64 = 1 << 25;
        const CONTEXT_SWITCH: u64 = 1 << 26;
        const CLOSE_ON_EXEC: u64 = 1 << 3;
        let attributes = Attributes {
            kind: SOFTWARE,
            size: std::mem::size_of::<Attributes>() as u32,
            config: DUMMY,
            sample_type: SAMPLE_TIME,
            // Without these two, the call needs a privilege.
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | TIME_IN_ALL | OWN_CLOCK | CONTEXT_SWITCH,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let until = clock(libc::CLOCK_MONOTONIC);
        // SAFETY: the kernel reads `size` bytes of a struct on our stack. -1 is any CPU, and no group.
        let event = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &attributes,
                tid,
                -1,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        if event < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, which nobody else closes.
        let event = unsafe { OwnedFd::from_raw_fd(event as i32) };
        // SAFETY: asks for a constant.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let bytes = (1 + PAGES) * page;
        // SAFETY: a new mapping of that descriptor at a place of the kernel's choice.
        let memory = unsafe {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                both,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Ring {
            memory: memory.cast(),
            bytes,
            page,
            seen: Seen {
                until,
                state: State::Unknown,
            },
            account: Account::default(),
            _event: event,
        })
    }

    /// Takes all records out, and says whether none was lost.
    fn records(&mut self) -> (Vec<Switch>, bool) {
        let size = self.bytes - self.page;
        // SAFETY: both lie in the first page, aligned; the kernel stores to the one and loads the other.
        let (head, tail) = unsafe {
            let head = self.memory.add(HEAD_AT).cast::<u64>();
            (head, self.memory.add(TAIL_AT).cast::<u64>())
        };
        // SAFETY: as said.
        let (end, mut at) = unsafe { (head.read_volatile(), tail.read_volatile()) };
        // Meets the kernel's barrier before it stores the head: records before it are whole.
        fence(Ordering::Acquire);
        // A record that did not fit was dropped, and the kernel only says so with the next one.
        let mut whole = end.wrapping_sub(at) as usize + RECORD <= size;
        let word = |at: u64| {
            // Records are made of words, and so is the ring: no word is at both of its ends.
            let place = self.page + at as usize % size / 8 * 8;
            // SAFETY: within the mapping, and aligned.
            unsafe { self.memory.add(place).cast::<u64>().read_volatile() }
        };
        let mut switches = Vec::new();
        while end.wrapping_sub(at) >= 8 {
            let first = word(at).to_ne_bytes();
            let kind = u32::from_ne_bytes([first[0], first[1], first[2], first[3]]);
            let misc = u16::from_ne_bytes([first[4], first[5]]);
            let length = u64::from(u16::from_ne_bytes([first[6], first[7]]));
            if length < 8 || length > end.wrapping_sub(at) {
                whole = false;
                at = end;
                break;
            }
            match kind {
                RECORD_SWITCH if length >= RECORD as u64 => switches.push(Switch {
                    at: word(at.wrapping_add(8)),
                    leaves: misc & LEAVES != 0,
                    preempted: misc & PREEMPTED != 0,
                }),
                RECORD_LOST => whole = false,
                _ => {}
            }
            at = at.wrapping_add(length);
        }
        // Meets the kernel's load of the tail before it writes over what we read.
        fence(Ordering::Release);
        // SAFETY: as said.
        unsafe { tail.write_volatile(at) };
        (switches, whole)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps only what `open` mapped; nobody else has the address.
        unsafe { libc::munmap(self.memory.cast(), self.bytes) };
    }
}

/// A clock, ns.
fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills in a struct on our stack.
    unsafe { libc::clock_gettime(which, &mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(at: u64, preempted: bool) -> Switch {
        Switch {
            at,
            leaves: true,
            preempted,
        }
    }

    fn comes(at: u64) -> Switch {
        Switch {
            at,
            leaves: false,
            preempted: false,
        }
    }

    #[test]
    fn a_stretch_goes_on_over_readings() {
        let mut seen = Seen {
            until: 1_000_000,
            state: State::Unknown,
        };
        // Nothing is known before the first switch.
        assert_eq!(seen.add(&[], 2_000_000), None);
        let (span, off) = seen
            .add(&[leaves(2_500_000, true)], 3_000_000)
            .expect("known");
        let piece = |from, to, preempted| Off {
            from,
            to,
            preempted,
        };
        assert_eq!(span, (1_000_000, 3_000_000));
        assert_eq!(off, [piece(2_500_000, 3_000_000, true)]);
        let switches = [
            comes(3_001_000),
            leaves(3_100_000, false),
            comes(3_110_000),
            leaves(3_200_000, false),
            comes(3_300_000),
        ];
        let (span, off) = seen.add(&switches, 3_250_000).expect("known");
        // 10 us are too short to be noted. A record may be younger than the reading.
        assert_eq!(span, (3_000_000, 3_300_000));
        assert_eq!(
            off,
            [
                piece(3_000_000, 3_001_000, true),
                piece(3_200_000, 3_300_000, false)
            ]
        );
    }

    #[test]
    fn a_thread_that_switches_often_rests() {
        const TICK: u64 = 100_000_000;
        // 900 switches a second are watched for ever.
        let mut quiet = Account::default();
        assert!((0..10_000).all(|_| quiet.pay(180.0, TICK).is_none()));
        // 10 000 a second cost 2 %, so a tenth of the time is watched.
        let mut busy = Account::default();
        let rests: Vec<_> = (0..2).map(|_| busy.pay(2_000.0, TICK)).collect();
        assert_eq!(rests, [None, Some(1_800_000_000)]);
    }

    #[test]
    fn a_thread_that_sleeps_and_runs_is_seen_to() {
        let mut switches = match Switches::new() {
            Ok(switches) => switches,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        };
        let (tell, hear) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: always succeeds.
            tell.send(unsafe { libc::gettid() }).expect("heard");
            wait.recv().expect("told");
            std::thread::sleep(std::time::Duration::from_millis(50));
        });
        let tid = hear.recv().expect("told");
        switches.watch([(tid as u32, "it")].into_iter());
        go.send(()).expect("heard");
        thread.join().expect("ended");
        let mut found = Vec::new();
        switches.read(|name, span, off| found.push((name.to_owned(), span, off.to_vec())));
        let [(name, span, off)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(name, "it");
        let slept = off
            .iter()
            .filter(|off| !off.preempted)
            .map(|off| off.to - off.from);
        assert!(slept.max() >= Some(50_000_000), "{off:?}");
        assert!(off.iter().all(|off| span.0 <= off.from && off.to <= span.1));
        // It is on the clock of samples.
        let now = clock(libc::CLOCK_REALTIME);
        assert!(now.abs_diff(span.1) < 60_000_000_000);
    }
}
