//! Where every event lies on a time line: what the exports of events have in common.
//!
//! An [`Events`] has a [`Bar`] for each event of a capture in `callbacks` mode. A bar has its states as
//! moments in time, its parent, and the operation that it is a part of on other ranks. Bars lie on [`Lane`]s:
//! one for each process, communicator and thread, and further ones of the same name if bars cross.
//!
//! A bar goes from the callback of the start to that of the stop. Kernel events are the exception. NCCL
//! announces them late, so they are drawn at their stamps, on lanes of the GPU. The stamps are in the clock
//! of the GPU. They are moved by the smallest distance from a stop's stamp to its callback in the process. So
//! their lengths are exact, and they lie late by the smallest delay of a callback.
//!
//! Rule: each start is one bar. An event that was never stopped goes to the end of its process, and says so.

use crate::fields::{self, Texts};
use crate::timeline::{self, Span};
use analyze::clocks::{ClockLine, Clocks};
use analyze::time::HostTime;
use capture::callback::{Callback, EntryPoint};
use capture::rows::Ticks;
use nccl_abi::{event, state};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use tables::communicators::{Communicator, Local};
use tables::events::{self, Index, ThreadRole};
use tables::Capture;

/// A line of bars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Index of its process.
    pub process: usize,
    /// Host, rank, communicator, and the thread or GPU.
    pub title: String,
    /// The same without host and rank.
    pub role: String,
    /// Place among the lanes with this title, from 0.
    pub further: usize,
}

/// A state of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When, ns since 1970.
    pub at: i64,
    /// NCCL's name of it.
    pub name: String,
    /// What it says.
    pub fields: Map<String, Value>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Index of its process.
    pub process: usize,
    /// Its number in the process, from 1.
    pub number: u64,
    /// Its type, one bit.
    pub kind: u64,
    /// Index of its lane.
    pub lane: usize,
    /// From when to when.
    pub span: Span,
    /// When `startEvent` was called, ns since 1970.
    pub started: i64,
    /// When `stopEvent` was called; nothing if it never was.
    pub stopped: Option<i64>,
    /// Index of its parent.
    pub parent: Option<usize>,
    /// Number of its operation, from 1, if other ranks have parts of it.
    pub operation: Option<u64>,
    /// Index of the process that it was done for, if that is another (PXN).
    pub origin: Option<usize>,
    /// Number of its thread in the process.
    pub thread: u32,
    /// Its states.
    pub states: Vec<Moment>,
    handle: u64,
    context: u64,
    abi: u8,
    /// Index of the texts that its pointers lead to.
    texts: usize,
    descriptor: Box<[u8]>,
}

/// A parent and its child, as indexes of bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentLink {
    /// What begins first, as most parents do.
    pub from: usize,
    /// What begins later.
    pub to: usize,
}

/// All events of a capture.
pub struct Events<'a> {
    capture: &'a Capture,
    index: Index,
    /// Index in the capture, by process and number there.
    communicators: HashMap<(usize, u32), usize>,
    texts: Vec<Texts>,
    /// Lanes in order from top to bottom.
    pub lanes: Vec<Lane>,
    /// Process by process, in order of their numbers.
    pub bars: Vec<Bar>,
    /// Operations with parts on several ranks.
    pub operations: u64,
    /// States and stops of handles that no start gave, and starts without a time.
    pub loose: u64,
    /// The earliest begin, ns since 1970.
    pub base_ns: i64,
}

/// What tells lanes apart, in their order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaneKey {
    process: usize,
    /// Of which process its communicator is.
    of: usize,
    communicator: Option<u32>,
    runner: Runner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Runner {
    Thread(ThreadRole, u32),
    Gpu,
}

/// Types that bracket what one thread does, so that those within another lie in it.
const BRACKETS: u64 = event::GROUP
    | event::COLL
    | event::P2P
    | event::GROUP_API
    | event::COLL_API
    | event::P2P_API
    | event::KERNEL_LAUNCH
    | event::CE_COLL
    | event::CE_SYNC
    | event::CE_BATCH;
const KERNEL: u64 = event::KERNEL_CH | event::KERNEL_PHASE;

impl<'a> Events<'a> {
    /// The events of a capture, all times on one clock if `clocks` says how the hosts' clocks stand.
    pub fn new(capture: &'a Capture, clocks: Option<&Clocks>) -> Events<'a> {
        let members = |(index, communicator): (usize, &'a Communicator)| {
            let members = communicator.members.iter();
            members.map(move |member| ((member.process, member.uid), index))
        };
        let communicators = capture.communicators.iter().enumerate();
        let mut all = Events {
            capture,
            index: capture.events(),
            communicators: communicators.flat_map(members).collect(),
            texts: Vec::new(),
            lanes: Vec::new(),
            bars: Vec::new(),
            operations: 0,
            loose: 0,
            base_ns: 0,
        };
        // Bars by process and number of event.
        let mut place: Vec<HashMap<u64, usize>> = Vec::new();
        let mut parents: Vec<Option<(usize, u64)>> = Vec::new();
        for (number, process) in capture.processes.iter().enumerate() {
            let line = ClockLine::of(process.clock_host(), clocks);
            place.push(all.read(number, &line, &mut parents));
        }
        for (bar, parent) in all.bars.iter_mut().zip(parents) {
            bar.parent = parent.and_then(|(process, number)| place[process].get(&number).copied());
        }
        all.join_operations();
        all.lay();
        all.base_ns = all.bars.iter().map(|bar| bar.span.begin).min().unwrap_or(0);
        all
    }

    /// The capture.
    pub fn capture(&self) -> &'a Capture {
        self.capture
    }

    /// Reads one process, and gives its bars by number of event.
    fn read(
        &mut self,
        process: usize,
        line: &ClockLine,
        parents: &mut Vec<Option<(usize, u64)>>,
    ) -> HashMap<u64, usize> {
        let of = &self.capture.processes[process];
        let on_one_clock = |ns: i64| line.on_reference(HostTime(ns)).0;
        let at = |ticks: Ticks| of.clock.realtime(ticks).map(on_one_clock);
        let first = self.bars.len();
        let mut place = HashMap::new();
        self.texts.push(Texts::new());
        let Ok(()) = self.capture.follow(process, |callback, link| {
            let bar = || link.event.and_then(|number| place.get(&number).copied());
            match callback.what {
                EntryPoint::Text => self.learn(&callback),
                EntryPoint::Start => {
                    let (Some(number), Some(started)) = (link.event, at(callback.ticks)) else {
                        self.loose += 1;
                        return Ok(());
                    };
                    let elsewhere = self.index.processes[process].foreign.get(&number);
                    let parent = match elsewhere {
                        Some(of) => of.process.zip(of.event),
                        None => link.parent.map(|parent| (process, parent)),
                    };
                    place.insert(number, self.bars.len());
                    parents.push(parent);
                    self.bars.push(Bar {
                        process,
                        number,
                        kind: events::kind(&callback),
                        lane: 0,
                        span: Span {
                            begin: started,
                            end: started,
                        },
                        started,
                        stopped: None,
                        parent: None,
                        operation: None,
                        origin: elsewhere.and_then(|of| of.process),
                        thread: callback.thread,
                        states: Vec::new(),
                        handle: callback.result,
                        context: callback.subject,
                        abi: callback.abi,
                        texts: self.texts.len() - 1,
                        descriptor: callback.payload.into(),
                    });
                }
                EntryPoint::State => {
                    let Some((bar, at)) = bar().zip(at(callback.ticks)) else {
                        self.loose += 1;
                        return Ok(());
                    };
                    let number = u32::try_from(callback.result).ok();
                    let name = number.and_then(state::name);
                    let unknown = || format!("state {}", callback.result);
                    let fields = fields::of(&callback, &self.texts[self.bars[bar].texts]);
                    self.bars[bar].states.push(Moment {
                        at,
                        name: name.map_or_else(unknown, str::to_owned),
                        fields,
                    });
                }
                EntryPoint::Stop => match bar() {
                    Some(bar) => self.bars[bar].stopped = at(callback.ticks),
                    None => self.loose += 1,
                },
                EntryPoint::Init | EntryPoint::Finalize | EntryPoint::Thread => {}
            }
            Ok::<(), std::convert::Infallible>(())
        });
        let end = at(self.index.processes[process].last_ticks);
        self.place_kernels(first);
        for bar in &mut self.bars[first..] {
            if bar.kind & KERNEL == 0 || bar.span.end == bar.span.begin {
                let end = bar.stopped.or(end).unwrap_or(bar.started);
                bar.span = Span {
                    begin: bar.started,
                    end: end.max(bar.started),
                };
            }
        }
        place
    }

    /// Takes the text behind a pointer, for the events that follow.
    fn learn(&mut self, callback: &Callback<'_>) {
        let text = String::from_utf8_lossy(callback.payload).into_owned();
        let newest = self.texts.len() - 1;
        let known = self.texts[newest].get(&callback.subject);
        // A library that was loaded again may have another text there. Events before keep the old one.
        if known.is_some_and(|known| *known != text) {
            self.texts.push(self.texts[newest].clone());
        }
        if let Some(texts) = self.texts.last_mut() {
            texts.insert(callback.subject, text);
        }
    }

    /// Lays the kernel events of a process where their stamps say.
    fn place_kernels(&mut self, first: usize) {
        let stamp = |map: &Map<String, Value>| {
            let stamp = map.get("p_timer").and_then(Value::as_u64);
            stamp
                .filter(|ns| *ns != 0)
                .and_then(|ns| i64::try_from(ns).ok())
        };
        let mut spans = Vec::new();
        for (number, bar) in self.bars.iter().enumerate().skip(first) {
            if bar.kind & KERNEL == 0 {
                continue;
            }
            let ends = bar
                .states
                .iter()
                .find_map(|s| Some((s.at, stamp(&s.fields)?)));
            let begin = stamp(&fields::of(&self.start(bar), &self.texts[bar.texts]));
            if let Some((begin, (at, end))) = begin.zip(ends).filter(|(b, (_, e))| b <= e) {
                spans.push((number, begin, end, at));
            }
        }
        let offset = spans
            .iter()
            .map(|(_, _, end, at)| at - end)
            .min()
            .unwrap_or(0);
        for (number, begin, end, _) in spans {
            let bar = &mut self.bars[number];
            bar.span = Span {
                begin: begin + offset,
                end: end + offset,
            };
            for state in bar
                .states
                .iter_mut()
                .filter(|state| stamp(&state.fields).is_some())
            {
                state.at = end + offset;
            }
        }
    }

    /// The start of an event, as it was recorded.
    fn start<'b>(&self, bar: &'b Bar) -> Callback<'b> {
        Callback {
            what: EntryPoint::Start,
            abi: bar.abi,
            thread: bar.thread,
            ticks: Ticks(0),
            subject: bar.context,
            result: bar.handle,
            payload: &bar.descriptor,
        }
    }

    /// The operating system's id of the thread that started an event, if it is recorded.
    pub fn thread(&self, bar: &Bar) -> Option<u32> {
        let threads = &self.index.processes[bar.process].threads;
        threads.get(&bar.thread).and_then(|thread| thread.id)
    }

    /// What an event says.
    pub fn fields(&self, bar: &Bar) -> Map<String, Value> {
        fields::of(&self.start(bar), &self.texts[bar.texts])
    }

    /// Communicator of an event: the process that knows it, its number there, and its index in the capture.
    fn communicator(&self, bar: &Bar) -> (usize, Option<u32>, Option<usize>) {
        let process = bar.origin.unwrap_or(bar.process);
        let context = |context| self.index.communicator(process, context);
        // A step for another process has a context of that process, and no pid that says so.
        let uid = context(bar.context);
        let index = uid.and_then(|uid| self.communicators.get(&(process, uid)).copied());
        (process, uid, index)
    }

    /// Numbers operations: the same communicator, function and sequence number.
    fn join_operations(&mut self) {
        let mut found: BTreeMap<(usize, bool, String, u64), Vec<usize>> = BTreeMap::new();
        for (number, bar) in self.bars.iter().enumerate() {
            let (is_copy, sequence) = match bar.kind {
                event::COLL => (false, "seq_number"),
                event::CE_COLL => (true, "ce_seq_num"),
                _ => continue,
            };
            // Replays of a graph share the number of the call that was captured.
            let parent = bar.parent.map(|parent| self.fields(&self.bars[parent]));
            let is_captured = |fields: &Map<String, Value>| fields["graph_captured"] == true;
            let is_api = |parent: usize| self.bars[parent].kind == event::COLL_API;
            if bar.parent.is_some_and(is_api) && parent.as_ref().is_some_and(is_captured) {
                continue;
            }
            let fields = self.fields(bar);
            let function = fields["func"].as_str().unwrap_or("").to_owned();
            let (_, _, communicator) = self.communicator(bar);
            if let (Some(communicator), Some(sequence)) = (communicator, fields[sequence].as_u64())
            {
                let key = (communicator, is_copy, function, sequence);
                found.entry(key).or_default().push(number);
            }
        }
        let mut all: Vec<Vec<usize>> = found
            .into_values()
            .filter(|parts| parts.len() > 1)
            .collect();
        all.sort_by_key(|parts| parts.iter().map(|p| self.bars[*p].span.begin).min());
        self.operations = all.len() as u64;
        for (number, parts) in (1..).zip(all) {
            for part in parts {
                self.bars[part].operation = Some(number);
            }
        }
    }

    /// Gives each bar its lane.
    fn lay(&mut self) {
        let mut lanes: BTreeMap<LaneKey, Vec<usize>> = BTreeMap::new();
        for number in 0..self.bars.len() {
            // Parents come first, so theirs is known: a step is for whom its operation is.
            if let (None, Some(parent)) = (self.bars[number].origin, self.bars[number].parent) {
                let parent = &self.bars[parent];
                if parent.process == self.bars[number].process {
                    self.bars[number].origin = parent.origin;
                }
            }
            let bar = &self.bars[number];
            let (of, communicator, _) = self.communicator(bar);
            let threads = &self.index.processes[bar.process].threads;
            let role = threads
                .get(&bar.thread)
                .map_or(ThreadRole::Setup, |t| t.role);
            let is_placed = bar.kind & KERNEL != 0 && bar.span.begin != bar.started;
            let key = LaneKey {
                process: bar.process,
                of,
                communicator,
                runner: if is_placed {
                    Runner::Gpu
                } else {
                    Runner::Thread(role, bar.thread)
                },
            };
            lanes.entry(key).or_default().push(number);
        }
        let titles = self.titles(lanes.keys());
        for ((key, mut bars), role) in lanes.into_iter().zip(titles) {
            let process = &self.capture.processes[key.process];
            let who = match process.rank {
                Some(rank) => format!("rank {rank}"),
                None => format!("pid {}", tables::pid::shown(process.pid)),
            };
            let title = format!("{}, {who}, {role}", process.host);
            let first = self.lanes.len();
            // As many as are open at a time: bars on each, the innermost last.
            let mut open: Vec<Vec<usize>> = Vec::new();
            bars.sort_by_key(|number| {
                let bar = &self.bars[*number];
                (bar.span.begin, std::cmp::Reverse(bar.span.end), bar.number)
            });
            for number in bars {
                let bar = &self.bars[number];
                for stack in &mut open {
                    while stack
                        .pop_if(|o| self.bars[*o].span.end <= bar.span.begin)
                        .is_some()
                    {}
                }
                let fits = |stack: &Vec<usize>| match stack.last() {
                    None => true,
                    Some(outer) => self.lies_in(number, *outer),
                };
                // Beside its parent, if it can be.
                let inside = open
                    .iter()
                    .position(|stack| !stack.is_empty() && fits(stack));
                let on = inside.or_else(|| open.iter().position(Vec::is_empty));
                let on = on.unwrap_or(open.len());
                if on == open.len() {
                    open.push(Vec::new());
                }
                open[on].push(number);
                self.bars[number].lane = first + on;
            }
            self.lanes.extend((0..open.len()).map(|further| Lane {
                process: key.process,
                title: title.clone(),
                role: role.clone(),
                further,
            }));
        }
    }

    /// How many bars of its lane each bar lies in.
    pub fn depths(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.bars.len()).collect();
        order.sort_by_key(|number| {
            let bar = &self.bars[*number];
            let outer_first = std::cmp::Reverse(bar.span.end);
            (bar.lane, bar.span.begin, outer_first, bar.number)
        });
        let mut depths = vec![0; self.bars.len()];
        let mut open: Vec<usize> = Vec::new();
        for number in order {
            let bar = &self.bars[number];
            let is_over = |other: &mut usize| {
                let other = &self.bars[*other];
                other.lane != bar.lane || other.span.end <= bar.span.begin
            };
            while open.pop_if(is_over).is_some() {}
            depths[number] = open.len();
            open.push(number);
        }
        depths
    }

    /// Whether a bar can be drawn inside another one: it is a descendant, or both bracket what one thread
    /// does.
    fn lies_in(&self, inner: usize, outer: usize) -> bool {
        let (of, around) = (&self.bars[inner], &self.bars[outer]);
        if around.span.end < of.span.end || around.stopped.is_none() {
            return false;
        }
        if of.kind & BRACKETS != 0 && around.kind & BRACKETS != 0 {
            return true;
        }
        let mut ancestor = of.parent;
        while let Some(number) = ancestor {
            if number == outer {
                return true;
            }
            ancestor = self.bars[number].parent;
        }
        false
    }

    /// What lanes are called in their process. Communicators that would have one name get the first digits of
    /// their ids.
    fn titles<'k>(&self, keys: impl Iterator<Item = &'k LaneKey>) -> Vec<String> {
        let keys: Vec<&LaneKey> = keys.collect();
        let plain: Vec<String> = keys.iter().map(|key| self.title(key, false)).collect();
        let mut counts: HashMap<(usize, &str), usize> = HashMap::new();
        for (key, title) in keys.iter().zip(&plain) {
            *counts.entry((key.process, title)).or_default() += 1;
        }
        let titles = keys.iter().zip(&plain).map(|(key, title)| {
            match counts[&(key.process, title.as_str())] {
                1 => title.clone(),
                _ => self.title(key, true),
            }
        });
        titles.collect()
    }

    fn title(&self, key: &LaneKey, with_id: bool) -> String {
        let local = |l: &&Local| Some(l.uid) == key.communicator;
        let known = &self.capture.processes[key.of].communicators;
        let device = known.iter().find(local).and_then(|l| l.device);
        let communicator = match key.communicator {
            Some(uid) => {
                let index = self.communicators.get(&(key.of, uid)).copied();
                let purpose = timeline::purpose(self.capture, index, uid);
                match index.map(|index| &self.capture.communicators[index].id) {
                    // An id such as `c2ad…#2` is told apart by its end, too.
                    Some(id) if with_id => match id.split_once('#') {
                        Some((hash, nth)) => {
                            format!("{purpose} {}#{nth}", &hash[..hash.len().min(6)])
                        }
                        None => format!("{purpose} {}", &id[..id.len().min(6)]),
                    },
                    _ => purpose,
                }
            }
            None => "no communicator".to_owned(),
        };
        let thread = match key.runner {
            Runner::Gpu => device.map_or("GPU".to_owned(), |device| format!("GPU {device}")),
            Runner::Thread(role, number) => {
                let threads = &self.index.processes[key.process].threads;
                let id = threads.get(&number).and_then(|t| t.id);
                let id = id.map_or(format!("number {number}"), |id| id.to_string());
                format!("{} thread {id}", role.name())
            }
        };
        let other = if key.of == key.process {
            String::new()
        } else {
            format!(" for {}", self.capture.processes[key.of].title())
        };
        format!("{communicator}, {thread}{other}")
    }

    /// What a bar is called: its type, and what tells it from others.
    pub fn name(&self, bar: &Bar) -> String {
        let kind = event::name(bar.kind).unwrap_or("event");
        let fields = self.fields(bar);
        let of = |name: &str| fields.get(name);
        let text = |name: &str| of(name).and_then(Value::as_str).unwrap_or("?");
        let int = |name: &str| of(name).and_then(Value::as_i64).unwrap_or(-1);
        match bar.kind {
            event::COLL | event::P2P | event::COLL_API | event::P2P_API | event::CE_COLL => {
                format!("{kind} {}", text("func"))
            }
            event::PROXY_OP if int("is_send") == 1 => format!("{kind} to {}", int("peer")),
            event::PROXY_OP => format!("{kind} from {}", int("peer")),
            event::PROXY_STEP => format!("{kind} {}", int("step")),
            event::KERNEL_CH => format!("{kind} {}", int("channel_id")),
            event::KERNEL_PHASE => format!("{kind} {}", text("phase_name")),
            event::NET_PLUGIN => format!("{kind} {}", int("id")),
            _ => kind.to_owned(),
        }
    }

    /// All that is known of a bar, by name: who, when and where first, and then its fields. What is not known
    /// is left out.
    pub fn arguments(&self, bar: &Bar) -> Map<String, Value> {
        let process = &self.capture.processes[bar.process];
        let thread = self.index.processes[bar.process].threads.get(&bar.thread);
        let parent = bar.parent.map(|parent| &self.bars[parent]);
        let origin = bar.origin.map(|origin| &self.capture.processes[origin]);
        let (of, uid, communicator) = self.communicator(bar);
        let local = uid.and_then(|uid| self.capture.processes[of].communicator(uid));
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                all.insert(name.to_owned(), value);
            }
        };
        put("type", event::name(bar.kind).into());
        put("event", bar.number.into());
        put("parent_event", parent.map(|parent| parent.number).into());
        let other = parent.filter(|parent| parent.process != bar.process);
        put(
            "parent_pid",
            other.map(|p| self.capture.processes[p.process].pid).into(),
        );
        put("operation", bar.operation.into());
        put("host", process.host.as_str().into());
        put("pid", tables::pid::known(process.pid).into());
        put("global_rank", process.rank.into());
        put("for_global_rank", origin.and_then(|p| p.rank).into());
        let communicator = communicator.map(|c| &self.capture.communicators[c]);
        put("communicator", communicator.map(|c| c.id.as_str()).into());
        put("communicator_rank", local.and_then(|l| l.rank).into());
        put("tid", thread.and_then(|t| t.id).into());
        put("thread_name", thread.and_then(|t| t.name.as_deref()).into());
        put("role", thread.map(|t| t.role.name()).into());
        put("started_ns", bar.started.into());
        put("stopped_ns", bar.stopped.into());
        if bar.stopped.is_none() {
            put("never_stopped", true.into());
        }
        put("abi", bar.abi.into());
        put("context", fields::hex(bar.context));
        put("handle", fields::hex(bar.handle));
        for (name, value) in self.fields(bar) {
            put(&name, value);
        }
        all
    }

    /// Every parent with each of its children, by begin.
    pub fn links(&self) -> impl Iterator<Item = ParentLink> + '_ {
        let children = self.bars.iter().enumerate();
        children.filter_map(|(child, bar)| {
            let parent = bar.parent?;
            // The stamps of a kernel may be earlier than the callback of its call.
            let first = self.bars[parent].span.begin <= bar.span.begin;
            let (from, to) = if first {
                (parent, child)
            } else {
                (child, parent)
            };
            Some(ParentLink { from, to })
        })
    }

    /// States of all events.
    pub fn states(&self) -> usize {
        self.bars.iter().map(|bar| bar.states.len()).sum()
    }

    /// Network operations and steps that processes did for others.
    pub fn for_others(&self) -> usize {
        self.bars.iter().filter(|bar| bar.origin.is_some()).count()
    }
}
