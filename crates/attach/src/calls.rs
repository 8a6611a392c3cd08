//! Makes calls, groups and communicators of one process from the events of its threads.
//!
//! Events of a thread come in order. An entry goes on the thread's stack of open calls, and a return takes it
//! off. A call within `ncclGroupStart` and `ncclGroupEnd` ends when its group ends, as in what the recorder
//! writes.
//!
//! Communicators are pointers here. If their init was seen, rank and size are known, and a hash of the unique
//! id, which all ranks share: so ranks of several processes can be matched. The number of a call is then its
//! place among the calls of its function on the communicator. Otherwise rank and size are read from the
//! process's memory, if NCCL's own code says where ([`Fields`](crate::library::Fields)).
//!
//! Rule: after a loss, no call gets a number any more: ranks are never matched by a wrong count.

use crate::event::{BpfEvent, What};
use crate::functions::{datatype, Arguments, Kind, Told, FUNCTIONS};
use crate::inner::{self, Steps, INNER};
use crate::sched::Why;
use crate::writer::{About, Begun, Slot, Writer};
use capture::counts::ONE_SIDED;
use capture::live::flag;
use std::collections::{BTreeMap, HashMap};

/// Rows of the writer's table of communicators.
const MOST_COMMUNICATORS: u32 = 4096;

/// What a process did, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls by function and thread: entries that were taken.
    pub calls: BTreeMap<(&'static str, u32), u64>,
    /// Calls that did not return success, by NCCL's return code.
    pub failed: BTreeMap<i32, u64>,
    /// Returns of calls that began before the probes were there.
    pub begun_before: u64,
    /// Calls that had not returned when the thread made its next one: their returns were lost.
    pub unreturned: u64,
    /// Probes that ran.
    pub events: u64,
}

impl Counts {
    /// All calls.
    pub fn all(&self) -> u64 {
        self.calls.values().sum()
    }
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Open {
    function: usize,
    /// Of operations.
    slot: Option<Slot>,
    time: u64,
    /// The communicator that an argument gave, and the one from which another is derived.
    pointer: u64,
    hash: u64,
    nranks: u32,
    rank: u32,
}

#[derive(Default)]
struct Thread {
    open: Vec<Open>,
    /// Groups that are open, one in the other.
    depth: u32,
    /// Ticket of the outermost one + 1.
    group: u64,
    /// Its calls.
    calls: Vec<Slot>,
}

struct Communicator {
    uid: u32,
    about: About,
    /// Calls by function, if its init was seen.
    numbers: Option<HashMap<&'static str, u64>>,
    /// How often its memory was asked for rank and size.
    asked: u32,
}

/// A communicator that a split makes may not be ready at its first call.
const MOST_ASKED: u32 = 3;

impl Communicator {
    fn needs_asking(&self) -> bool {
        self.about.nranks == 0 && self.asked < MOST_ASKED
    }
}

/// Reads rank, size and device of the communicator at an address of the process.
pub type Ask = Box<dyn Fn(u64) -> Option<(u32, u32, Option<u32>)>>;

/// One process.
pub struct CallTracker {
    writer: Writer,
    threads: HashMap<u32, Thread>,
    /// By pointer.
    communicators: HashMap<u64, Communicator>,
    made: u32,
    /// Something was lost: nothing is numbered any more.
    lossy: bool,
    /// What was counted.
    pub counts: Counts,
    /// One-sided calls that are written.
    one_sided: [u64; 3],
    /// Lines about inits and ends of communicators.
    setup: String,
    ask: Option<Ask>,
    /// What the scheduler did with the threads.
    pub why: Why,
    /// What went on inside inits.
    pub steps: Steps,
}

/// A hash of a unique id, which all ranks of a communicator share (FNV-1a). NCCL's own is another in each
/// release, so captures of the plugin have another hash of the same communicator.
fn hash(id: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    id.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl CallTracker {
    /// Of a process that `writer` writes.
    pub fn new(writer: Writer, ask: Option<Ask>) -> CallTracker {
        CallTracker {
            writer,
            threads: HashMap::new(),
            communicators: HashMap::new(),
            made: 0,
            lossy: false,
            counts: Counts::default(),
            one_sided: [0; 3],
            setup: String::new(),
            ask,
            why: Why::default(),
            steps: Steps::default(),
        }
    }

    /// Takes an event.
    pub fn take(&mut self, event: &BpfEvent) {
        match event.what {
            What::Switched(stretch) => {
                return self.why.switched(event.thread, &stretch, event.time);
            }
            What::Interrupted(ns) => return self.why.interrupted(event.thread, ns),
            _ => {}
        }
        if event.function.wrapping_sub(inner::FIRST) < INNER.len() {
            self.counts.events += 1;
            return match event.what {
                What::Entered { .. } => {
                    self.steps.entered(event.thread, event.function, event.time);
                }
                _ => self.step_ended(event),
            };
        }
        let Some(function) = FUNCTIONS.get(event.function) else {
            return;
        };
        self.counts.events += 1;
        match event.what {
            What::Entered { arguments, id } => {
                if !self.is_within(event) {
                    let key = (function.symbol, event.thread);
                    *self.counts.calls.entry(key).or_insert(0) += 1;
                }
                self.entered(event, &arguments, id);
            }
            What::Returned {
                code,
                result,
                is_late,
            } => self.returned(event, code, result, is_late),
            What::Switched(_) | What::Interrupted(_) => {}
        }
    }

    /// A function inside an init has returned.
    fn step_ended(&mut self, event: &BpfEvent) {
        use std::fmt::Write;
        let Some(step) = self
            .steps
            .returned(event.thread, event.function, event.time)
        else {
            return;
        };
        let _ = writeln!(
            self.setup,
            "ncclscope attach_step={} thread={} began_ns={} took_ns={} depth={}",
            step.function, event.thread, step.began, step.took, step.depth,
        );
    }

    /// Whether a public function of NCCL carries out its work by this one, which is then the same call:
    /// `ncclBcast` calls `ncclBroadcast`. No function calls itself: if it seems so, the return of the call
    /// before was lost, which is not known until losses are counted. After a loss, any outer one may have
    /// returned unseen.
    fn is_within(&self, event: &BpfEvent) -> bool {
        let outer = self
            .threads
            .get(&event.thread)
            .and_then(|thread| thread.open.last());
        let name = |index: usize| FUNCTIONS[index].name;
        outer.is_some_and(|outer| {
            !self.lossy
                && outer.function != event.function
                && name(outer.function) == name(event.function)
        })
    }

    fn entered(&mut self, event: &BpfEvent, arguments: &[u64; 8], id: Option<&[u8]>) {
        let mut open = Open {
            function: event.function,
            slot: None,
            time: event.time,
            pointer: arguments[0],
            hash: 0,
            nranks: 0,
            rank: 0,
        };
        match FUNCTIONS[event.function].kind {
            Kind::Collective(_) | Kind::PointToPoint(_) if self.is_within(event) => {}
            Kind::Collective(places) => {
                open.slot = self.begin(event, arguments, places, false);
            }
            Kind::PointToPoint(places) => {
                open.slot = self.begin(event, arguments, places, true);
            }
            Kind::Init { nranks, rank, .. } => {
                open.hash = id.map_or(0, hash);
                (open.nranks, open.rank) = (arguments[nranks] as u32, arguments[rank] as u32);
            }
            _ => {}
        }
        let thread = self.threads.entry(event.thread).or_default();
        if thread.open.is_empty() {
            self.why.entered(event.thread, event.time);
        }
        let kind = FUNCTIONS[event.function].kind;
        match kind {
            Kind::Init { .. } | Kind::InitAll | Kind::Derive { .. }
                if FUNCTIONS[event.function].makes_communicator() =>
            {
                self.steps.init(event.time);
            }
            Kind::GroupStart => {
                if thread.depth == 0 {
                    thread.group = self.writer.group(event.time);
                }
                thread.depth += 1;
            }
            Kind::GroupEnd if thread.depth == 1 => {
                self.writer.close_group(thread.group, event.time, 0);
            }
            _ => {}
        }
        thread.open.push(open);
    }

    fn begin(
        &mut self,
        event: &BpfEvent,
        arguments: &[u64; 8],
        places: Arguments,
        is_p2p: bool,
    ) -> Option<Slot> {
        let name = FUNCTIONS[event.function].name;
        self.close_stale(event.thread);
        let thread = self.threads.entry(event.thread).or_default();
        let group = if thread.depth > 0 { thread.group } else { 0 };
        let communicator = self.communicator(arguments[places.communicator], event);
        let seq = match communicator.and_then(|c| c.numbers.as_mut()) {
            Some(numbers) if !is_p2p => {
                let next = numbers.entry(name).or_insert(0);
                *next += 1;
                *next
            }
            _ => 0,
        };
        let seq = if self.lossy { 0 } else { seq };
        let uid = self.communicators.get(&arguments[places.communicator]);
        let uid = uid.map_or(0, |communicator| communicator.uid);
        let root = places.root.map(|at| arguments[at] as u32);
        let function = self.writer.string(name);
        let datatype = datatype(arguments[places.count + 1] & 0xffff_ffff);
        let datatype = datatype.map_or(0, |name| self.writer.string(name));
        self.writer.begin(&Begun {
            time: event.time,
            function,
            datatype,
            count: arguments[places.count],
            root: root.filter(|_| !is_p2p).map_or(-1, |root| root as i32),
            peer: root
                .filter(|_| is_p2p)
                .map_or(0, |peer| peer.wrapping_add(1)),
            communicator: uid,
            stream: arguments[places.communicator + 1],
            thread: event.thread,
            flags: if is_p2p { flag::P2P } else { 0 },
            seq,
            group,
        })
    }

    /// An operation is made within another one only if both are the same call
    /// ([`CallTracker::is_within`]). So what is still open on the thread has returned, and its event was
    /// lost.
    fn close_stale(&mut self, thread: u32) {
        let Some(thread) = self.threads.get_mut(&thread) else {
            return;
        };
        while let Some(last) = thread.open.pop() {
            self.counts.unreturned += 1;
            if let Some(slot) = last.slot {
                match thread.depth {
                    0 => self.writer.end(slot, 0),
                    _ => thread.calls.push(slot),
                }
            }
        }
    }

    /// The communicator behind a pointer, which may be met for the first time.
    fn communicator(&mut self, pointer: u64, event: &BpfEvent) -> Option<&mut Communicator> {
        if !self.communicators.contains_key(&pointer) {
            let about = About {
                thread: event.thread,
                ..About::default()
            };
            self.add(pointer, about, false);
        }
        let communicator = self.communicators.get_mut(&pointer)?;
        if let (true, Some(ask)) = (communicator.needs_asking(), &self.ask) {
            communicator.asked += 1;
            if let Some((rank, nranks, device)) = ask(pointer) {
                let about = &mut communicator.about;
                (about.rank, about.nranks) = (Some(rank), nranks);
                about.device = about.device.or(device);
                self.writer.communicator(communicator.uid, about);
            }
        }
        Some(communicator)
    }

    fn add(&mut self, pointer: u64, about: About, is_new: bool) {
        if pointer == 0 || self.made >= MOST_COMMUNICATORS {
            return;
        }
        self.made += 1;
        let communicator = Communicator {
            uid: self.made,
            about,
            numbers: is_new.then(HashMap::new),
            asked: 0,
        };
        self.writer.communicator(communicator.uid, &about);
        self.communicators.insert(pointer, communicator);
    }

    fn returned(&mut self, event: &BpfEvent, code: i32, result: u64, is_late: bool) {
        let thread = self.threads.entry(event.thread).or_default();
        let Some(at) = thread
            .open
            .iter()
            .rposition(|open| open.function == event.function)
        else {
            self.counts.begun_before += 1;
            // It may be the end of a group that began before.
            return;
        };
        let is_within = at > 0
            && FUNCTIONS[thread.open[at - 1].function].name == FUNCTIONS[event.function].name;
        if code != 0 && !is_within {
            *self.counts.failed.entry(code).or_insert(0) += 1;
        }
        // What was called within, and is still open, has returned without an event.
        let within = thread.open.split_off(at + 1);
        let open = thread
            .open
            .pop()
            .unwrap_or_else(|| unreachable!("there is one at `at`"));
        if at == 0 {
            let symbol = FUNCTIONS[event.function].symbol;
            self.why.returned(event.thread, symbol, event.time);
        }
        for lost in within {
            self.counts.unreturned += 1;
            if let Some(slot) = lost.slot {
                self.writer.end(slot, 0);
            }
        }
        let result = if is_late {
            self.checked(&open, result)
        } else {
            result
        };
        let thread = self.threads.entry(event.thread).or_default();
        match FUNCTIONS[event.function].kind {
            Kind::Collective(_) | Kind::PointToPoint(_) => {
                let Some(slot) = open.slot else { return };
                if code != 0 {
                    self.writer.returned(slot, code);
                }
                match thread.depth {
                    0 => self.writer.end(slot, event.time),
                    _ => thread.calls.push(slot),
                }
            }
            Kind::OneSided | Kind::GroupStart => {}
            Kind::GroupEnd => {
                // 0: the group began before the probes were there.
                thread.depth = thread.depth.saturating_sub(1);
                if thread.depth == 0 && thread.group != 0 {
                    self.writer.close_group(thread.group, open.time, event.time);
                    thread.group = 0;
                    for slot in thread.calls.drain(..) {
                        if code != 0 {
                            self.writer.returned(slot, code);
                        }
                        self.writer.end(slot, event.time);
                    }
                }
            }
            Kind::Init { .. } => {
                self.note(&open, event, code);
                if code == 0 || code == IN_PROGRESS {
                    let is_sound = open.rank < open.nranks;
                    let about = About {
                        hash: open.hash,
                        nranks: if is_sound { open.nranks } else { 0 },
                        rank: is_sound.then_some(open.rank),
                        made: open.time,
                        thread: event.thread,
                        ..About::default()
                    };
                    self.add(result, about, true);
                }
            }
            Kind::Derive { .. } => {
                self.note(&open, event, code);
                if code == 0 || code == IN_PROGRESS {
                    let about = About {
                        made: open.time,
                        thread: event.thread,
                        ..About::default()
                    };
                    self.add(result, about, true);
                }
            }
            Kind::InitAll => self.note(&open, event, code),
            Kind::End => {
                self.note(&open, event, code);
                if let Some(communicator) = self.communicators.get_mut(&open.pointer) {
                    communicator.about.ended = event.time;
                    self.writer
                        .communicator(communicator.uid, &communicator.about);
                    if FUNCTIONS[event.function].symbol != "ncclCommFinalize" {
                        // Another one may get the same address.
                        self.communicators.remove(&open.pointer);
                    }
                }
            }
            Kind::Tells(told) if code == 0 && !is_late => {
                self.tell(open.pointer, told, result as u32, event)
            }
            Kind::Tells(_) => {}
        }
    }

    /// Checks what an init put where its argument points, because it was read later and may be something
    /// else by now. It is right if it is a communicator that is not known yet, with the rank and size that
    /// the init was given. 0 otherwise.
    fn checked(&self, open: &Open, result: u64) -> u64 {
        let has = self.ask.as_ref().and_then(|ask| ask(result));
        let is_it = match (FUNCTIONS[open.function].kind, has) {
            (Kind::Init { .. }, Some((rank, nranks, _))) => {
                (rank, nranks) == (open.rank, open.nranks)
            }
            (Kind::Derive { .. }, has) => has.is_some(),
            _ => false,
        };
        if is_it && !self.communicators.contains_key(&result) {
            result
        } else {
            0
        }
    }

    /// The program asked NCCL about a communicator.
    fn tell(&mut self, pointer: u64, told: Told, value: u32, event: &BpfEvent) {
        let Some(communicator) = self.communicator(pointer, event) else {
            return;
        };
        let before = communicator.about;
        match told {
            Told::Ranks => communicator.about.nranks = value,
            Told::Rank => communicator.about.rank = Some(value),
            Told::Device => communicator.about.device = Some(value),
        }
        if communicator.about != before {
            let (uid, about) = (communicator.uid, communicator.about);
            self.writer.communicator(uid, &about);
        }
    }

    /// Keeps when a call that is no operation was made, and how long it took.
    fn note(&mut self, open: &Open, event: &BpfEvent, code: i32) {
        use std::fmt::Write;
        let _ = writeln!(
            self.setup,
            "ncclscope attach_call={} thread={} began_ns={} took_ns={} code={code}",
            FUNCTIONS[open.function].symbol,
            event.thread,
            open.time,
            event.time.saturating_sub(open.time),
        );
    }

    /// Keeps how many one-sided calls there were, in the line that the recorder has for that.
    fn note_one_sided(&mut self) {
        use std::fmt::Write;
        let of = |kind: &str| {
            let calls = self.counts.calls.iter();
            calls
                .filter(|((symbol, _), _)| *symbol == kind)
                .map(|(_, n)| n)
                .sum()
        };
        let now: [u64; 3] = ["ncclPutSignal", "ncclSignal", "ncclWaitSignal"].map(of);
        if now != self.one_sided {
            self.one_sided = now;
            let at_ns = crate::writer::clock(libc::CLOCK_REALTIME);
            let _ = write!(self.setup, "ncclscope counts at_ns={at_ns}");
            for (name, n) in ONE_SIDED.iter().zip(now) {
                let _ = write!(self.setup, " {name}={n}");
            }
            self.setup.push('\n');
        }
    }

    /// What the kernel had no room for so far: `entries` calls have no entry, and `any` events are lost in
    /// all.
    pub fn lost(&mut self, entries: u64, any: u64) {
        self.numbers_end(any);
        self.writer.lost(entries);
    }

    /// Gives no call a number any more if something was lost, whoever lost it.
    pub fn numbers_end(&mut self, any: u64) {
        self.lossy |= any > 0;
    }

    /// Takes in what the scheduler does now with threads in calls that have not returned.
    pub fn leave_open(&mut self, now: u64, off: impl Fn(u32) -> Option<crate::event::Stretch>) {
        for (id, thread) in &self.threads {
            if let Some(open) = thread.open.first() {
                let symbol = FUNCTIONS[open.function].symbol;
                self.why.left_open(*id, symbol, now, off(*id));
            }
        }
    }

    /// Writes what is finished.
    ///
    /// # Errors
    /// If the files can't be written.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.note_one_sided();
        if !self.setup.is_empty() {
            let lines = std::mem::take(&mut self.setup);
            self.writer.setup(&lines)?;
        }
        self.writer.flush()
    }

    /// The process's rank in its largest communicator, if that is known.
    pub fn rank(&self) -> Option<u32> {
        self.writer.rank()
    }

    /// Writes all, at the end of the session or of the process.
    ///
    /// # Errors
    /// If the files can't be written.
    pub fn finish(&mut self, has_ended: bool) -> std::io::Result<()> {
        self.flush()?;
        self.writer.finish(has_ended)
    }

    /// Calls that have not returned.
    pub fn open(&self) -> usize {
        self.threads.values().map(|thread| thread.open.len()).sum()
    }
}

/// NCCL's return code of a call that goes on in the background.
const IN_PROGRESS: i32 = 7;
