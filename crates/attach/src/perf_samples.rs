//! Probes without BPF: perf events that sample the registers at entry and return of functions.
//!
//! ```text
//! place ─▶ name in tracefs ─▶ a perf event for each CPU ─▶ that CPU's ring ─▶ sorted by time ─▶ events
//!          (tracefs.rs)       counts, and samples                             (the bytes of event.rs)
//! ```
//!
//! The kernel copies registers and a piece of the stack into a ring. This file does afterwards
//! what a program of BPF does in the kernel: it leaves out processes that are not watched, and joins entry
//! and return. The rest of the job's memory may have changed by then. So what a function put where its
//! argument points is sure only if that place is in the piece of the stack. Otherwise it is read from the
//! process's memory, and [`CallTracker`](crate::calls::CallTracker) checks it.
//!
//! Rule: events of one thread come out in their order. A thread may change its CPU, and so its ring, between
//! two events. So each turn notes the time before it looks at the first ring, and hands out only events from
//! before that time. All earlier events of the same thread are in some ring by then.
//!
//! Rule: a perf event counts every hit, also if the ring has no room for its sample. So what is lost is what
//! was counted and not taken, for each function apart. The kernel does not say of which process.

use crate::perf_ring::{self, PerfRing, Sampled};
use crate::probes::Losses;
use crate::sys::ProbePoint;
use crate::tracefs::Names;
use crate::writer::now;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::rc::{Rc, Weak};

/// Registers of a sample, as numbers of the kernel's `perf_regs.h`, and where they are in a sample, which has
/// them in the order of their numbers.
#[cfg(not(target_arch = "aarch64"))]
mod registers {
    /// cx, dx, si, di, sp, r8, r9.
    pub const ENTRY: u64 = 0b11_0000_0000_1011_1100;
    pub const ARGUMENTS: [usize; 6] = [3, 2, 1, 0, 5, 6];
    pub const STACK_AT_ENTRY: usize = 4;
    /// ax, sp.
    pub const RETURN: u64 = 0b1000_0001;
    /// The return address, and two arguments.
    pub const STACK_BYTES: u32 = 24;
}
#[cfg(target_arch = "aarch64")]
mod registers {
    /// x0 to x7, sp.
    pub const ENTRY: u64 = 0xff | 1 << 31;
    pub const ARGUMENTS: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
    pub const STACK_AT_ENTRY: usize = 8;
    /// x0, sp.
    pub const RETURN: u64 = 1 | 1 << 31;
    pub const STACK_BYTES: u32 = 0;
}
use registers::{ARGUMENTS, ENTRY, RETURN, STACK_AT_ENTRY, STACK_BYTES};

/// Bytes of the stack that are copied if something that an argument points to is of interest: enough for
/// variables of a few callers. Only functions that are called once a job need it.
const DEEP_STACK: u32 = 8 << 10;
/// Bytes of a unique id.
const ID: usize = 128;
/// The smallest ring of a CPU: some hundred calls.
const LEAST_RING: usize = 64 << 10;
/// What every user may map for each CPU without CAP_IPC_LOCK (`kernel.perf_event_mlock_kb`).
const FREE_RING: usize = 512 << 10;
/// Kinds of events: see `event.rs`.
const ENTERED: u16 = 1;
const ENTERED_WITH_ID: u16 = 2;
const RETURNED: u16 = 3;
const RETURNED_LATE: u16 = 6;

/// What a cookie says (see `bpf/calls.bpf.c`).
#[derive(Clone, Copy)]
struct Wants {
    cookie: u64,
    is_return: bool,
}

impl Wants {
    fn function(self) -> u16 {
        self.cookie as u16
    }

    fn given(self) -> u32 {
        (self.cookie >> 32) as u32
    }

    /// The number of the argument that points to where the function puts a result.
    fn result(self) -> Option<usize> {
        ((self.cookie >> 16 & 15) as usize).checked_sub(1)
    }

    fn only_watched(self) -> bool {
        self.cookie >> 22 & 1 != 0
    }

    /// Where the unique id is.
    fn id(self, arguments: &[u64; 8], stack: u64) -> Option<u64> {
        let on_arm = (self.cookie >> 24 & 15) as usize;
        match (self.cookie >> 20 & 1, self.cookie >> 21 & 1, on_arm) {
            (1, ..) => stack.checked_add(8),
            (_, 1, _) => Some(arguments[4]),
            (.., 0) => None,
            (.., number) => arguments.get(number - 1).copied(),
        }
    }

    /// Bytes of the stack that a sample needs.
    fn stack(self) -> u32 {
        let points = self.cookie >> 21 & 1 != 0 || self.cookie >> 24 & 15 != 0;
        match (self.is_return, self.result()) {
            (true, Some(_)) => DEEP_STACK,
            (true, None) => 0,
            (false, _) if points => DEEP_STACK,
            (false, _) if self.cookie >> 20 & 1 != 0 => 8 + ID as u32,
            (false, _) => STACK_BYTES,
        }
    }
}

/// What belongs to the number by which samples name their perf event.
struct Source {
    wants: Wants,
    window: Rc<Cell<Window>>,
    taken: u64,
}

/// When the probes of a library counted: from when all were there, until the first was taken away.
#[derive(Clone, Copy)]
struct Window {
    from: u64,
    until: u64,
}

/// What perf events have counted, by their numbers.
type Counted = Rc<RefCell<HashMap<u64, u64>>>;

/// Probes at one library's places. They are there for as long as this is.
pub struct Sampling(Rc<Events>);

impl Sampling {
    /// No call begins any more.
    pub fn close_entries(&self) {
        self.0.close_entries();
    }
}

/// Perf events of one library's places.
struct Events {
    window: Rc<Cell<Window>>,
    names: Rc<Names>,
    entry: Vec<PerfEvent>,
    at_return: Vec<PerfEvent>,
    counted: Counted,
}

struct PerfEvent {
    descriptor: OwnedFd,
    id: u64,
}

impl Events {
    fn close_entries(&self) {
        let Window { from, until } = self.window.get();
        let until = until.min(now());
        self.window.set(Window { from, until });
        self.entry
            .iter()
            .for_each(|event| perf_ring::disable(&event.descriptor));
    }

    fn count(&self) {
        let mut counted = self.counted.borrow_mut();
        for event in self.entry.iter().chain(&self.at_return) {
            if let Ok(count) = perf_ring::count(&event.descriptor) {
                counted.insert(event.id, count);
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.close_entries();
        self.at_return
            .iter()
            .for_each(|event| perf_ring::disable(&event.descriptor));
        self.count();
        self.entry.clear();
        self.at_return.clear();
        self.names.clear();
    }
}

/// A sample that was not handed out yet.
struct Pending {
    time: u64,
    process: u32,
    thread: u32,
    source: u64,
    registers: [u64; 9],
    stack: Vec<u8>,
}

/// Rings, and what is known of the samples in them.
pub struct Samples {
    names: Rc<Names>,
    cpus: Vec<(u32, PerfRing)>,
    sources: HashMap<u64, Source>,
    links: Vec<Weak<Events>>,
    counted: Counted,
    /// Numbers of names so far.
    defined: usize,
    watched: HashSet<u32>,
    /// Processes that hit a probe.
    seen: BTreeSet<u32>,
    pending: Vec<Pending>,
    /// Where a function of this thread puts its result.
    results: HashMap<(u32, u32), (u16, u64)>,
    /// A ring was full.
    any_lost: bool,
    event: Vec<u8>,
}

/// CPUs that run, such as `0-3,8`.
fn online() -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?)
    };
    Ok(text.trim().split(',').filter_map(range).flatten().collect())
}

/// As many descriptors as this process may have: each place needs two for each CPU.
fn raise_limit() {
    // SAFETY: a struct of numbers, which is ours.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

impl Samples {
    /// Makes the rings, which have so many bytes in all.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(ring_bytes: usize) -> io::Result<Samples> {
        raise_limit();
        let online = online()?;
        let each = (ring_bytes / online.len().max(1)).max(LEAST_RING);
        let each = (each + 1).next_power_of_two() / 2;
        let rings = |bytes: usize| -> io::Result<Vec<(u32, PerfRing)>> {
            let ring = |cpu: &u32| Ok((*cpu, PerfRing::new(*cpu, bytes)?));
            online.iter().map(ring).collect()
        };
        let cpus = rings(each).or_else(|error| match error.raw_os_error() {
            Some(libc::EPERM) if each > FREE_RING => rings(FREE_RING),
            _ => Err(error),
        })?;
        Ok(Samples {
            names: Rc::new(Names::new()?),
            cpus,
            sources: HashMap::new(),
            links: Vec::new(),
            counted: Rc::default(),
            defined: 0,
            watched: HashSet::new(),
            seen: BTreeSet::new(),
            pending: Vec::new(),
            results: HashMap::new(),
            any_lost: false,
            event: Vec::new(),
        })
    }

    /// Sets probes at these places of a file. They count once all are there.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn link(&mut self, path: &str, places: &[ProbePoint]) -> io::Result<Sampling> {
        let window = Rc::new(Cell::new(Window {
            from: u64::MAX,
            until: u64::MAX,
        }));
        let mut events = Events {
            window: window.clone(),
            names: self.names.clone(),
            entry: Vec::new(),
            at_return: Vec::new(),
            counted: self.counted.clone(),
        };
        let lock = self.names.lock()?;
        for is_return in [true, false] {
            for place in places {
                let wants = Wants {
                    cookie: place.cookie,
                    is_return,
                };
                let name = format!("{}{}", if is_return { 'r' } else { 'p' }, self.defined);
                self.defined += 1;
                let names = &self.names;
                let number = names.define(&lock, &name, path, place.offset, is_return)?;
                let what = Sampled {
                    tracepoint: number,
                    registers: if is_return { RETURN } else { ENTRY },
                    stack: wants.stack(),
                };
                for (cpu, ring) in &self.cpus {
                    let descriptor = ring.sample(*cpu, &what)?;
                    let id = perf_ring::id(&descriptor)?;
                    let source = Source {
                        wants,
                        window: window.clone(),
                        taken: 0,
                    };
                    self.sources.insert(id, source);
                    let to = if is_return {
                        &mut events.at_return
                    } else {
                        &mut events.entry
                    };
                    to.push(PerfEvent { descriptor, id });
                }
            }
        }
        drop(lock);
        let until = u64::MAX;
        window.set(Window { from: now(), until });
        let events = Rc::new(events);
        self.links.push(Rc::downgrade(&events));
        Ok(Sampling(events))
    }

    /// Forgets all that was so far, when nothing has probes.
    pub fn restart(&mut self) {
        self.take();
        self.pending.clear();
        self.sources.clear();
        self.counted.borrow_mut().clear();
        self.seen.clear();
        self.any_lost = false;
    }

    /// Lets calls of a process count.
    pub fn watch(&mut self, process: u32) {
        self.watched.insert(process);
    }

    /// Takes that back.
    pub fn forget(&mut self, process: u32) {
        self.watched.remove(&process);
        self.results.retain(|(of, _), _| *of != process);
    }

    /// Takes samples out of the rings.
    fn take(&mut self) {
        let Samples {
            cpus,
            sources,
            pending,
            any_lost,
            seen,
            ..
        } = self;
        for (_, ring) in cpus {
            *any_lost |= ring.drain(|bytes| {
                let Some(sample) = read(bytes, sources) else {
                    return;
                };
                seen.insert(sample.process);
                pending.push(sample);
            });
        }
    }

    /// Hands out the events that are there.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let before = now();
        self.take();
        let mut pending = std::mem::take(&mut self.pending);
        // Stable, so that what has the same time stays as one ring has it.
        pending.sort_by_key(|sample| sample.time);
        let ready = pending.partition_point(|sample| sample.time < before);
        self.pending = pending.split_off(ready);
        for sample in &pending {
            if self.event(sample) {
                each(&self.event);
            }
        }
        pending.len()
    }

    /// Makes an event of a sample; whether it is one.
    fn event(&mut self, sample: &Pending) -> bool {
        let Some(source) = self.sources.get(&sample.source) else {
            return false;
        };
        let (wants, who) = (source.wants, (sample.process, sample.thread));
        if wants.only_watched() && !self.watched.contains(&sample.process) {
            return false;
        }
        let put = |event: &mut Vec<u8>, values: &[u64]| {
            values
                .iter()
                .for_each(|value| event.extend(value.to_le_bytes()));
        };
        self.event.clear();
        put(&mut self.event, &[sample.time]);
        for value in [sample.process, sample.thread, wants.given()] {
            self.event.extend(value.to_le_bytes());
        }
        self.event.extend(wants.function().to_le_bytes());
        if wants.is_return {
            let stack = Stack(sample.registers[1], &sample.stack);
            let place = self.results.remove(&who);
            let place = place.filter(|(function, _)| *function == wants.function());
            let (result, kind) = match (wants.result(), place) {
                (Some(_), Some((_, at))) => {
                    match stack.get(at, 8).and_then(|b| b.try_into().ok()) {
                        Some(bytes) => (u64::from_le_bytes(bytes), RETURNED),
                        None => (read_memory(sample.process, at).unwrap_or(0), RETURNED_LATE),
                    }
                }
                _ => (0, RETURNED),
            };
            self.event.extend(kind.to_le_bytes());
            put(&mut self.event, &[sample.registers[0], result]);
            return true;
        }
        let Window { from, until } = source.window.get();
        if !(from..until).contains(&sample.time) {
            return false;
        }
        let mut arguments = [0; 8];
        for (to, at) in arguments.iter_mut().zip(ARGUMENTS) {
            *to = sample.registers[at];
        }
        let pointer = sample.registers[STACK_AT_ENTRY];
        let stack = Stack(pointer, &sample.stack);
        for (to, at) in arguments.iter_mut().skip(ARGUMENTS.len()).zip([8, 16]) {
            let bytes = stack.get(pointer.wrapping_add(at), 8);
            *to = bytes
                .and_then(|b| b.try_into().ok())
                .map_or(0, u64::from_le_bytes);
        }
        if let Some(result) = wants.result() {
            self.results
                .insert(who, (wants.function(), arguments[result]));
        }
        let id = wants
            .id(&arguments, pointer)
            .and_then(|at| stack.get(at, ID));
        let kind = if id.is_some() {
            ENTERED_WITH_ID
        } else {
            ENTERED
        };
        self.event.extend(kind.to_le_bytes());
        put(&mut self.event, &arguments);
        self.event.extend(id.unwrap_or(&[]));
        true
    }

    /// What the rings had no room for so far, by what the caller gave with the probe and by process. The
    /// process is 0 if it is not known.
    pub fn losses(&mut self) -> Vec<((u32, u32), Losses)> {
        // To ask an event for its count interrupts its CPU, so that is only done if a ring says that it was
        // full, and at the end: what was lost last, no ring says.
        if self.any_lost {
            let links = self.links.iter().filter_map(Weak::upgrade);
            links.for_each(|events| events.count());
        }
        if self.counted.borrow().is_empty() {
            return Vec::new();
        }
        // Whatever was counted is in a ring by now, or lost.
        self.take();
        let counted = self.counted.borrow();
        let mut losses = Losses::default();
        for (id, source) in &self.sources {
            let count = counted.get(id).copied().unwrap_or(0);
            let lost = count.saturating_sub(source.taken);
            if source.wants.is_return {
                losses.returns += lost
            } else {
                losses.entries += lost
            }
        }
        let mut seen = self.seen.iter();
        let process = match (seen.next(), seen.next()) {
            (Some(only), None) => *only,
            _ => 0,
        };
        vec![((u32::MAX, process), losses)]
    }
}

/// A piece of a thread's stack, and where it begins.
struct Stack<'a>(u64, &'a [u8]);

impl<'a> Stack<'a> {
    fn get(&self, at: u64, bytes: usize) -> Option<&'a [u8]> {
        let from = usize::try_from(at.checked_sub(self.0)?).ok()?;
        self.1.get(from..from.checked_add(bytes)?)
    }
}

fn read_memory(process: u32, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Reads the body of a sample:
///
/// ```text
/// id u64 │ process u32, thread u32 │ time u64 │ kind of registers u64, and one u64 each │
/// size of the stack u64, and if that is not 0: the stack, then how much of it is real u64
/// ```
fn read(bytes: &[u8], sources: &mut HashMap<u64, Source>) -> Option<Pending> {
    /// Registers of a program of 64 bits.
    const WIDE: u64 = 2;
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let id = u64_at(0)?;
    let source = sources.get_mut(&id)?;
    source.taken += 1;
    let who = u64_at(8)?;
    let mut sample = Pending {
        time: u64_at(16)?,
        process: who as u32,
        thread: (who >> 32) as u32,
        source: id,
        registers: [0; 9],
        stack: Vec::new(),
    };
    let mut at = 32;
    let wanted = if source.wants.is_return {
        RETURN
    } else {
        ENTRY
    };
    if u64_at(24)? != WIDE {
        return None;
    }
    for to in sample
        .registers
        .iter_mut()
        .take(wanted.count_ones() as usize)
    {
        *to = u64_at(at)?;
        at += 8;
    }
    if source.wants.stack() > 0 {
        let size = u64_at(at)? as usize;
        let stack = bytes.get(at + 8..at.checked_add(8)?.checked_add(size)?)?;
        let real = if size > 0 { u64_at(at + 8 + size)? } else { 0 };
        sample.stack = stack[..size.min(real as usize)].to_vec();
    }
    Some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(cookie: u64, is_return: bool) -> Wants {
        Wants { cookie, is_return }
    }

    fn words(values: &[u64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn a_sample_is_read_and_what_is_cut_is_none() {
        let window = Rc::new(Cell::new(Window { from: 0, until: 9 }));
        let source = |wants| Source {
            wants,
            window: window.clone(),
            taken: 0,
        };
        // The second one has a result, so a piece of the stack.
        let mut sources = HashMap::from([
            (7, source(wants(5, true))),
            (8, source(wants(5 | 1 << 16, true))),
        ]);
        let head = [4 | 3 << 32, 55, 2, 6, 0x1000];
        let mut plain = words(&[7]);
        plain.extend(words(&head));
        let sample = read(&plain, &mut sources).expect("a sample");
        assert_eq!((sample.time, sample.process, sample.thread), (55, 4, 3));
        assert_eq!(sample.registers[..2], [6, 0x1000]);
        assert_eq!(sources[&7].taken, 1);

        let mut deep = words(&[8]);
        deep.extend(words(&head));
        // Room for 24 bytes, of which 16 are real.
        deep.extend(words(&[24, 11, 12, 13, 16]));
        let sample = read(&deep, &mut sources).expect("a sample");
        let stack = Stack(sample.registers[1], &sample.stack);
        assert_eq!(stack.get(0x1008, 8), Some(&words(&[12])[..]));
        for (at, bytes) in [(0x1010, 8), (0xfff, 8), (0x100c, 8), (u64::MAX, 1)] {
            assert_eq!(stack.get(at, bytes), None, "{at:x}");
        }
        for (whole, id) in [(plain, 7), (deep, 8)] {
            for cut in 0..whole.len() {
                assert!(read(&whole[..cut], &mut sources).is_none(), "{cut} of {id}");
            }
        }
        // A program of 32 bits has other registers; nobody asked for the last one.
        let mut narrow = words(&[7]);
        narrow.extend(words(&[4, 55, 1, 6, 0x1000]));
        assert!(read(&narrow, &mut sources).is_none());
        assert!(read(&words(&[9, 0, 0, 2, 0, 0]), &mut sources).is_none());
    }

    #[test]
    fn only_functions_that_need_it_have_a_deep_stack_copied() {
        assert_eq!(wants(0, false).stack(), STACK_BYTES);
        assert_eq!(wants(0, true).stack(), 0);
        let by_value = 1 << 20 | 1 << 16;
        assert_eq!(wants(by_value, false).stack(), 8 + 128);
        assert_eq!(wants(by_value, true).stack(), DEEP_STACK);
        let arguments = [0, 1, 2, 3, 40, 5, 6, 7];
        assert_eq!(wants(by_value, false).id(&arguments, 100), Some(108));
        assert_eq!(wants(1 << 21, false).id(&arguments, 100), Some(40));
        assert_eq!(wants(3 << 24, false).id(&arguments, 100), Some(2));
        assert_eq!(wants(0, false).id(&arguments, 100), None);
    }

    #[test]
    fn this_machine_has_a_cpu() {
        assert!(!online().expect("listed").is_empty());
    }
}
