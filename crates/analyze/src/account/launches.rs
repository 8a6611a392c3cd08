//! What is kept of each launch while a capture is read.
//!
//! All sends and receives of one launch are one operation: NCCL runs them as one kernel. Other calls are one
//! operation each, also if they share a launch.

use crate::executions::{Execution, Walk};
use crate::streams::ShownKernel;
use crate::subject::ProcessId;
use capture::live::flag;
use std::collections::{BTreeMap, HashMap};
use tables::calls::Untimed;
use tables::{Call, Capture, Name, Process, Shape};

/// Upper limit on launches: at 104 bytes each they take 3.3 GiB. Beyond it, there is no account.
const MOST: u64 = 1 << 25;

/// One launch of one GPU. Times are ns since 1970 on the host's clock; 0 is not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Launch {
    /// Index in [`Lane::kinds`].
    pub kind: u32,
    /// When the program called.
    pub api: i64,
    /// When the launch was over.
    pub launched: i64,
    /// When it began on the GPU.
    pub start: i64,
    /// When it ended there.
    pub stop: i64,
    /// Time on the GPU on whichever clock, ns, to 24 bits; NaN is not known.
    pub ns: f32,
    /// How long its kernel waited for other ranks by NCCL's own phases ([`crate::phases`]), ns + 1; 0 is not
    /// known.
    pub synced: u32,
    /// For how long the program waited in the driver since the launch before, ns; 0 if it did not call it.
    pub driver_waited: f32,
    /// The handle of the stream that it ran on; 0 is the default stream.
    pub on: u64,
    /// The first stream that waited for it; 0 is not known.
    pub stream: u32,
    /// From when that stream had nothing else to do; 0 is not known.
    pub from: i64,
    /// It had ended when the stream came to wait.
    pub ended: bool,
    /// It ran on the default stream, so nothing computed behind it until it ended.
    pub on_default: bool,
    /// From when on nothing but NCCL ran on its GPU until it ended, by a kernel window; 0 is not known.
    pub shown: i64,
    /// A launch of a CUDA graph, which is so many calls; 0 is none. The calls that windows show have launches
    /// of their own.
    pub graph: u32,
    /// It is a call in a CUDA graph, which a window shows.
    pub in_graph: bool,
    /// Channels that NCCL uses for it; 0 is not known.
    pub channels: u8,
    /// It has a send.
    pub sends: bool,
    /// It has a receive.
    pub receives: bool,
    /// No stream was seen to wait for it, though streams were seen to wait for others. [`super::exposed`]
    /// sets it.
    pub is_alone: bool,
    /// For how long the computing stream stood still until its end, ns; NaN is not known. [`super::exposed`]
    /// sets it.
    pub still: f64,
    /// From when the computing stream stood still for it, or would have if it had taken longer; 0 is not
    /// known. [`super::exposed`] sets it.
    pub stands: i64,
}

/// What launches have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Index of the communicator in the capture; `u32::MAX` if that is not known.
    pub communicator: u32,
    /// Function; none for sends and receives.
    pub function: Name,
    /// Bytes; of all sends and receives of a launch.
    pub bytes: u64,
    /// A launch of a CUDA graph has so many calls, of this communicator and others; 0 is none.
    pub graph: u32,
}

impl Kind {
    /// Whether it is of sends and receives.
    pub fn is_exchange(self) -> bool {
        self.function == Name::NONE && self.graph == 0
    }

    /// The same in every step: sends and receives differ in size from step to step.
    pub fn of_place(self) -> Kind {
        Kind {
            bytes: if self.is_exchange() { 0 } else { self.bytes },
            ..self
        }
    }
}

/// Which launches of a lane are the same in each step: those of a kind are counted from the step's begin.
pub struct Ordinals {
    /// By kind of the lane: the first one that is the same in each step.
    first: Vec<u32>,
    /// By that: the newest step with such a launch, and how many there were in it.
    newest: Vec<(usize, u32)>,
}

impl Ordinals {
    /// Of a lane with these kinds.
    pub fn new(kinds: &[Kind]) -> Ordinals {
        let mut known: HashMap<Kind, u32> = HashMap::new();
        let first = |(number, kind): (u32, &Kind)| *known.entry(kind.of_place()).or_insert(number);
        Ordinals {
            first: (0..).zip(kinds).map(first).collect(),
            newest: vec![(usize::MAX, 0); kinds.len()],
        }
    }

    /// How many launches like one of this kind came before in the step. Steps are asked for in order.
    pub fn next(&mut self, step: usize, kind: u32) -> u32 {
        let (newest, before) = &mut self.newest[self.first[kind as usize] as usize];
        if *newest != step {
            (*newest, *before) = (step, 0);
        }
        *before += 1;
        *before - 1
    }
}

/// A send or receive of a launch, by ranks of the communicator.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// Index in [`Lane::launches`].
    pub launch: u32,
    /// Index of the communicator in the capture.
    pub communicator: u32,
    /// Who sends; `u32::MAX` in an operation of all ranks.
    pub from: u32,
    /// Who receives; the same.
    pub to: u32,
    /// The lane's own rank.
    pub own: Option<u32>,
}

/// One GPU of a process.
#[derive(Default)]
pub struct Lane {
    /// Its process.
    pub process: ProcessId,
    /// The host whose clock its times are on.
    pub clock: String,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// Multiprocessors of the GPU.
    pub multiprocessors: Option<u32>,
    /// What its launches are.
    pub kinds: Vec<Kind>,
    /// By time of the call.
    pub launches: Vec<Launch>,
    /// Sends and receives.
    pub exchanges: Vec<Exchange>,
    /// Its communicators, by their index in the capture.
    pub groups: HashMap<u32, Group>,
    /// Its first calls are not in the capture, so it begins later than others.
    pub begins_late: bool,
    /// If so: how many collectives of a communicator and function came before the first one that is here, by
    /// NCCL's numbers.
    pub before: HashMap<(u32, Name), u32>,
}

/// A communicator.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// How many ranks it has.
    pub ranks: u32,
    /// Its id.
    pub id: String,
}

impl Lane {
    fn sort(&mut self) {
        if self.launches.is_sorted_by_key(|launch| launch.api) {
            return;
        }
        let mut order: Vec<usize> = (0..self.launches.len()).collect();
        order.sort_by_key(|index| self.launches[*index].api);
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new as u32;
        }
        self.launches = order.iter().map(|index| self.launches[*index]).collect();
        for exchange in &mut self.exchanges {
            exchange.launch = place[exchange.launch as usize];
        }
        self.exchanges.sort_by_key(|exchange| exchange.launch);
    }
}

/// What is gathered.
#[derive(Default)]
pub struct Gatherer {
    lanes: Vec<Lane>,
    seen: u64,
}

/// Where the executions of a process go, and its launches of sends and receives that may go on.
pub struct ProcessLaunches {
    /// By shape: a send.
    sends: Vec<bool>,
    ways: Vec<Way>,
    lanes: Vec<Lane>,
    known: Vec<HashMap<Kind, u32>>,
    /// By communicator of the process: lane and index of the last launch of sends and receives, its group,
    /// and its bytes.
    open: Vec<Option<Open>>,
    /// When windows are open.
    windows: Vec<(i64, i64)>,
    /// By ticket of a call that was launched in a window: lane and index of its launch.
    tickets: HashMap<u64, (u32, u32)>,
}

#[derive(Clone, Copy)]
struct Way {
    lane: u32,
    local: u32,
    kind: Kind,
    /// Sends and receives of it: nothing of a collective.
    exchange: Option<Exchanges>,
    left_out: bool,
}

/// Whom the sends and receives of an execution tie together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exchanges {
    /// Each of them two ranks.
    Peers,
    /// All ranks of the communicator.
    All,
}

#[derive(Clone, Copy)]
struct Open {
    at: usize,
    group: u64,
    kind: Kind,
}

impl Gatherer {
    /// Prepares for a process.
    pub fn plan(&self, capture: &Capture, process: &Process, walk: &Walk) -> ProcessLaunches {
        let mut by_device: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        let mut lanes: Vec<Lane> = Vec::new();
        let id = |communicator: u32| {
            let of = capture.communicators.get(communicator as usize);
            of.map_or(String::new(), |of| of.id.clone())
        };
        let ways = walk.places().iter().map(|place| {
            let local = process.communicator(place.shape.uid);
            let device = local.and_then(|local| local.device);
            let lane = *by_device.entry(device).or_insert_with(|| {
                lanes.push(Lane {
                    process: ProcessId::of(process),
                    clock: process.clock_host().to_owned(),

                    device,
                    multiprocessors: process.fact("gpus").and_then(multiprocessors),
                    ..Lane::default()
                });
                lanes.len() as u32 - 1
            });
            if let (Some(communicator), Some(local)) = (place.shape.communicator, local) {
                let groups = &mut lanes[lane as usize].groups;
                groups.entry(communicator).or_insert_with(|| Group {
                    ranks: local.nranks,
                    id: id(communicator),
                });
            }
            let of = |name: Name| capture.names.get(name);
            // Which piece of an AlltoAll, Gather or Scatter goes where is told by its name.
            let exchange = match (of(place.shape.function), of(place.function)) {
                (Some("Send" | "Recv"), Some("Send" | "Recv" | "SendRecv")) => {
                    Some(Exchanges::Peers)
                }
                (Some("Send" | "Recv"), _) => Some(Exchanges::All),
                _ => None,
            };
            Way {
                lane,
                local: place.local,
                kind: Kind {
                    communicator: place.shape.communicator.unwrap_or(u32::MAX),
                    function: if exchange.is_some() {
                        Name::NONE
                    } else {
                        place.function
                    },
                    bytes: capture.bytes_as(place.shape, place.function).unwrap_or(0),
                    graph: 0,
                },
                exchange,
                left_out: place.shape.is(flag::REPLAY) || place.shape.is(flag::CAPTURED),
            }
        });
        let ways: Vec<Way> = ways.collect();
        let send = |shape: &Shape| capture.names.get(shape.function) == Some("Send");
        ProcessLaunches {
            sends: process.shapes.iter().map(send).collect(),
            ways,
            known: lanes.iter().map(|_| HashMap::new()).collect(),
            lanes,
            open: vec![None; walk.locals()],
            windows: process
                .windows
                .list
                .iter()
                .map(|w| (w.open, w.closing))
                .collect(),
            tickets: HashMap::new(),
        }
    }

    /// Takes in a process that was walked through.
    pub fn add(&mut self, process: ProcessLaunches) {
        self.seen += process
            .lanes
            .iter()
            .map(|l| l.launches.len() as u64)
            .sum::<u64>();
        self.lanes.extend(process.lanes);
        if self.seen > MOST {
            self.lanes.clear();
        }
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        self.seen += later.seen;
        self.lanes.extend(later.lanes);
        if self.seen > MOST {
            self.lanes.clear();
        }
    }

    /// The lanes that launched, each by time; `None` if none of them has another rank to wait for.
    pub(super) fn lanes(self) -> Option<Vec<Lane>> {
        let mut lanes = self.lanes;
        lanes.retain(|lane| !lane.launches.is_empty());
        for lane in &mut lanes {
            lane.sort();
        }
        let shares = |lane: &Lane| lane.groups.values().any(|group| group.ranks > 1);
        (lanes.len() > 1 || lanes.iter().any(shares)).then_some(lanes)
    }
}

impl ProcessLaunches {
    /// Adds an execution. Those of CUDA graphs and those without a host time are left out.
    pub fn add(&mut self, process: &Process, execution: &Execution) {
        let way = self.ways[execution.place];
        let call = execution.call;
        if way.left_out || execution.captured || call.api_ns == 0 {
            return;
        }
        let last = execution.last;
        let times = match execution.gpu {
            Ok(_) | Err(Untimed::Fused) => execution.kernel,
            Err(_) => tables::GpuTimes::None,
        };
        let (start, stop) = times.on_host().unwrap_or((0, 0));
        let waited = last.waited();
        let timed = stop != 0;
        let mut launch = Launch {
            kind: 0,
            api: call.api_ns,
            launched: last.launch_end_ns,
            start,
            stop,
            ns: times.length().map_or(f32::NAN, |ns| ns as f32),
            // Pieces of one operation have a kernel each, or share one.
            synced: match (way.exchange, execution.pieces) {
                (None, 1) => process.phases_ns(call).map_or(0, |[waited, ..]| {
                    u32::try_from(waited).map_or(0, |ns| ns.saturating_add(1))
                }),
                _ => 0,
            },
            driver_waited: call.driver_waited_ns as f32,
            on: execution.shape.stream,
            stream: last.waiting_stream().unwrap_or(0),
            from: last.waited_from().filter(|_| timed).unwrap_or(0),
            ended: timed && waited == Some(tables::calls::Waited::Ended),
            on_default: timed && execution.shape.has_events() && execution.shape.stream == 0,
            channels: execution.shape.nchannels,
            sends: false,
            receives: false,
            is_alone: false,
            still: f64::NAN,
            stands: 0,
            shown: 0,
            graph: 0,
            in_graph: false,
        };
        let at = way.lane as usize;
        let lane = &mut self.lanes[at];
        if lane.launches.is_empty() {
            lane.begins_late = !execution.whole && call.ticket > 0;
        }
        if lane.begins_late && way.exchange.is_none() {
            let of = (way.kind.communicator, way.kind.function);
            let before = call.seq.saturating_sub(1).try_into().unwrap_or(u32::MAX);
            lane.before.entry(of).or_insert(before);
        }
        if let Some(of) = way.exchange {
            let open = &mut self.open[way.local as usize];
            let communicator = way.kind.communicator;
            let sends = &self.sends;
            let pair = execution.pieces > 1 || of == Exchanges::All;
            launch.sends = pair || sends[call.shape as usize];
            launch.receives = pair || !sends[call.shape as usize];
            let mut exchange = |launch: usize| {
                let mut push = |own, from, to| {
                    lane.exchanges.push(Exchange {
                        launch: launch as u32,
                        communicator,
                        from,
                        to,
                        own,
                    });
                };
                let mut piece = |call: &Call| {
                    let shape = &process.shapes[call.shape as usize];
                    let (Some(own), Some(peer)) = (shape.rank, shape.peer) else {
                        return;
                    };
                    match sends[call.shape as usize] {
                        _ if own == peer => {}
                        true => push(Some(own), own, peer),
                        false => push(Some(own), peer, own),
                    }
                };
                match (of, (call.composite as usize).checked_sub(1)) {
                    (Exchanges::All, _) => push(None, u32::MAX, u32::MAX),
                    (_, None) => piece(call),
                    (_, Some(composite)) => {
                        let calls = &process.composites[composite].calls;
                        let calls = calls.iter().map(|call| &process.calls[*call as usize]);
                        calls.for_each(&mut piece);
                    }
                }
            };
            if let Some(open) = open {
                let before = &mut lane.launches[open.at];
                let same = match (before.launched, launch.launched) {
                    // NCCL launches after the last call of a group, and announces that for one of them.
                    (launched, 0) if launch.api <= launched => true,
                    (0, _) | (_, 0) => open.group == call.group && call.group != 0,
                    (a, b) => a == b,
                };
                if same {
                    exchange(open.at);
                    remember(&mut self.tickets, &self.windows, process, call, at, open.at);
                    open.kind.bytes = open.kind.bytes.saturating_add(way.kind.bytes);
                    before.join(&launch);
                    before.kind = kind(&mut lane.kinds, &mut self.known[at], open.kind);
                    return;
                }
            }
            exchange(lane.launches.len());
            *open = Some(Open {
                at: lane.launches.len(),
                group: call.group,
                kind: way.kind,
            });
        }
        let kind = kind(&mut lane.kinds, &mut self.known[at], way.kind);
        let index = lane.launches.len();
        lane.launches.push(Launch { kind, ..launch });
        remember(&mut self.tickets, &self.windows, process, call, at, index);
    }

    /// Takes in what windows show.
    pub fn show(&mut self, process: &Process, kernels: &[ShownKernel]) {
        self.add_graphs(process);
        for kernel in kernels {
            let known = kernel.call.and_then(|ticket| self.tickets.get(&ticket));
            if let Some((lane, index)) = known {
                let Lane {
                    kinds, launches, ..
                } = &mut self.lanes[*lane as usize];
                let launch = &mut launches[*index as usize];
                if launch.stop == 0 {
                    (launch.start, launch.stop) = (kernel.start, kernel.stop);
                    launch.ns = (kernel.stop - kernel.start) as f32;
                }
                // The computing stands still for what is received, and not for a send beside that.
                let is_send = kinds[launch.kind as usize].is_exchange();
                launch.shown = if is_send && !launch.receives {
                    launch.stop
                } else {
                    kernel.from
                };
                continue;
            }
            let Some(way) = kernel.captured_as.map(|shape| self.ways[shape as usize]) else {
                continue;
            };
            let at = way.lane as usize;
            let lane = &mut self.lanes[at];
            let launch = Launch {
                kind: kind(&mut lane.kinds, &mut self.known[at], way.kind),
                api: kernel.launched,
                launched: kernel.launched,
                start: kernel.start,
                stop: kernel.stop,
                ns: (kernel.stop - kernel.start) as f32,
                on: u64::from(kernel.stream),
                shown: kernel.from,
                in_graph: true,
                still: f64::NAN,
                ..Launch::default()
            };
            lane.launches.push(launch);
        }
    }

    /// Launches of graphs with calls of NCCL, of a process with one GPU. There are too many of their calls to
    /// keep, but they mark the steps, and say when the GPU came to them. Each is of the largest communicator
    /// in it.
    fn add_graphs(&mut self, process: &Process) {
        let [lane] = &mut self.lanes[..] else { return };
        let graphs = &process.graphs;
        let mut kinds: HashMap<u32, Kind> = HashMap::new();
        for graph in &graphs.executables {
            let Some(content) = graph.content.and_then(|at| graphs.contents.get(at)) else {
                continue;
            };
            let communicator = |run: &(u32, u32)| {
                let shape = *graphs.shapes.get(run.0 as usize)?;
                Some(self.ways[shape as usize].kind.communicator)
            };
            let ranks = |of: &u32| lane.groups.get(of).map_or(0, |group| group.ranks);
            let all = content.runs.iter().filter_map(communicator);
            let of = Kind {
                communicator: all.max_by_key(ranks).unwrap_or(u32::MAX),
                function: Name::NONE,
                bytes: 0,
                graph: u32::try_from(content.calls()).unwrap_or(u32::MAX),
            };
            kinds.insert(graph.number, of);
        }
        for launch in &graphs.launches {
            let Some(of) = kinds.get(&launch.graph).filter(|of| of.graph > 0) else {
                continue;
            };
            let (start, stop, ns) = match launch.gpu {
                Some((start, ns)) => (start, start.saturating_add_unsigned(ns), ns as f32),
                None => (0, 0, f32::NAN),
            };
            lane.launches.push(Launch {
                kind: kind(&mut lane.kinds, &mut self.known[0], *of),
                api: launch.at,
                launched: launch.at + launch.took as i64,
                start,
                stop,
                graph: of.graph,
                ns,
                still: f64::NAN,
                ..Launch::default()
            });
        }
    }
}

/// Multiprocessors of GPUs with NVLink by name, from NVIDIA's data sheets. Of two names that a model has, the
/// first one counts.
const MULTIPROCESSORS: [(&str, u32); 9] = [
    ("V100", 80),
    ("A100", 108),
    ("A800", 108),
    ("H100 PCIe", 114),
    ("H100", 132),
    ("H800", 132),
    ("H200", 132),
    ("H20", 78),
    ("B200", 148),
];

/// Multiprocessors of a host's GPUs (`2 x NVIDIA H200`); `None` if the GPUs differ or are not known.
fn multiprocessors(gpus: &str) -> Option<u32> {
    let known = MULTIPROCESSORS.iter().find(|(name, _)| gpus.contains(name));
    known
        .filter(|_| !gpus.contains(','))
        .map(|(_, count)| *count)
}

/// Remembers the launch of a call, if a window may show it.
fn remember(
    tickets: &mut HashMap<u64, (u32, u32)>,
    windows: &[(i64, i64)],
    process: &Process,
    call: &Call,
    lane: usize,
    index: usize,
) {
    let at = match call.launch_start_ns {
        0 => call.api_ns,
        at => at,
    };
    let window = windows.partition_point(|window| window.1 < at);
    if windows.get(window).is_none_or(|window| at < window.0) {
        return;
    }
    let place = (lane as u32, index as u32);
    tickets.insert(call.ticket, place);
    if let Some(composite) = (call.composite as usize).checked_sub(1) {
        let calls = process.composites[composite].calls.iter();
        tickets.extend(calls.map(|call| (process.calls[*call as usize].ticket, place)));
    }
}

fn kind(kinds: &mut Vec<Kind>, known: &mut HashMap<Kind, u32>, kind: Kind) -> u32 {
    *known.entry(kind).or_insert_with(|| {
        kinds.push(kind);
        kinds.len() as u32 - 1
    })
}

impl Launch {
    /// Takes in another call of the same launch.
    fn join(&mut self, other: &Launch) {
        let first = |a: i64, b: i64| if a == 0 || (b != 0 && b < a) { b } else { a };
        self.launched = self.launched.max(other.launched);
        self.start = first(self.start, other.start);
        self.stop = self.stop.max(other.stop);
        self.driver_waited += other.driver_waited;
        // Of a number and NaN, this is the number.
        self.ns = self.ns.max(other.ns);
        if self.start != 0 && self.stop != 0 {
            self.ns = (self.stop - self.start) as f32;
        }
        self.stream = self.stream.max(other.stream);
        self.from = self.from.max(other.from);
        self.ended |= other.ended;
        self.sends |= other.sends;
        self.receives |= other.receives;
        self.on_default &= other.on_default;
    }

    /// Whether each of its ranks needs the others: in a send alone or a receive alone, one does not wait.
    pub fn is_mutual(&self) -> bool {
        self.sends == self.receives
    }

    /// Whether it is known for how long the computing stream stood still for it. What is received is waited
    /// for, so then that wait was not seen.
    pub fn is_known(&self) -> bool {
        !self.still.is_nan() || self.is_alone && !self.receives
    }

    /// How long its kernel waited for other ranks by NCCL's own phases, ns.
    pub fn synced(&self) -> Option<f64> {
        (self.synced != 0).then(|| f64::from(self.synced - 1))
    }

    /// For how long the host was in the call, as far as that is known, ns: NCCL launches there, and may find
    /// no room.
    pub fn in_call(&self) -> f64 {
        (self.launched.max(self.api) - self.api) as f64
    }

    /// Whether anything is known of its time on the GPU.
    pub fn is_timed(&self) -> bool {
        self.is_known() || self.stop != 0 || self.length().is_some()
    }

    /// Time on the GPU, ns.
    pub fn length(&self) -> Option<f64> {
        (!self.ns.is_nan()).then_some(f64::from(self.ns))
    }
}
