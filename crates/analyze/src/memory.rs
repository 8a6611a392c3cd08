//! Memory that NCCL holds: for each communicator and rank, what it was allocated for, and what more would
//! cost.
//!
//! [`of_capture`] takes what NCCL's debug output says ([`setup::memory`]), and finds the communicators of the
//! capture that it is about. What NCCL itself counts ([`setup::comm_memory`]) stands beside it, and is all
//! there is without that output. NVML's own figure is a check, if the node was sampled. [`Memory::project`]
//! says what more communicators or more ranks would hold.
//!
//! Rule: figures are what NCCL allocated and said so. Its output says nothing of frees, so they are never too
//! small by what was freed. A model is called one and stands beside what was measured.

mod counts;

use crate::inits::{id, locals, only_local};
use crate::startup::Startup;
use crate::subject::plain_uuid;
use crate::time::{HostTime, Nanos};
use counts::{counted_only, counts, is_of, IN_ALL};
use schemars::JsonSchema;
use serde::Serialize;
use setup::log::Init;
use setup::memory::{Buffers, Connection, Sizes, PAIRS};
use setup::startup::group;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Capture, Node, Process};

/// The format of [`Memory`].
pub const SCHEMA: &str = "ncclscope.memory/1";

/// So long before and after the allocations NVML's figures may be from, ns. They are read ten times a second
/// at best.
const NVML_FAR: Nanos = Nanos::SECOND;
/// NVML confirms a figure that differs by no more than this share.
const NVML_AGREES: f64 = 0.1;

/// What NCCL holds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Memory {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The communicators, the largest first.
    pub communicators: Vec<CommunicatorMemory>,
    /// Each GPU with all communicators on it, the largest first.
    pub gpus: Vec<GpuMemory>,
    /// What more communicators or ranks would hold on each GPU, modelled; null if that was not asked for.
    pub projection: Option<Projection>,
    /// What is not known, and why. `render` writes it.
    #[serde(skip)]
    pub notes: Vec<Note>,
}

/// What the figures mean, or why some are not known.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// Of some communicators, only what NCCL itself counts is known.
    OnlyCounted,
    /// Frees are unseen.
    UnseenFrees,
    /// Some communicators share their buffers, and are counted together.
    SharedBuffers,
    /// How far NVML confirms the figures.
    Nvml(ByNvml),
    /// NCCL allocated so much for communicators that its output does not tell apart.
    Unowned(Sizes),
    /// NCCL said nothing of its allocations.
    NotSaid,
    /// What NCCL said was not recorded.
    NotRecorded,
    /// So many communicators of one rank hold memory, the largest so much, bytes.
    Lone {
        /// Communicators.
        communicators: u64,
        /// All of them hold as much.
        are_equal: bool,
        /// The most that one holds.
        most_bytes: u64,
    },
    /// The job failed in NCCL's init.
    InitFailed(Box<Startup>),
    /// What more ranks would take is not known, because nobody knows what the memory is for.
    NoProjection,
}

/// How far NVML confirms figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByNvml {
    /// Ranks of communicators of which NVML says something.
    pub known: usize,
    /// Those for which it agrees.
    pub agree: usize,
    /// By how much it has more for the first communicators of processes, if it does not agree: the median,
    /// bytes.
    pub more_for_first: Option<u64>,
    /// The same for others.
    pub more_for_others: Option<u64>,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CommunicatorMemory {
    /// Its id in the capture, or NCCL's id; null for one that was split from another and is in no capture.
    pub communicator: Option<String>,
    /// Ranks in it.
    pub nranks: u32,
    /// Its ranks, the largest first.
    pub ranks: Vec<RankMemory>,
}

/// A rank of a communicator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RankMemory {
    /// Its rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process.
    #[serde(serialize_with = "tables::pid::serialize")]
    #[schemars(with = "Option<u32>")]
    pub pid: u32,
    /// CUDA device.
    pub device: Option<u32>,
    /// GPU memory after its init, bytes; null if NCCL's output was not recorded.
    pub init_gpu_bytes: Option<u64>,
    /// All GPU memory, bytes: by NCCL's output, or else the most that NCCL counted.
    pub gpu_bytes: u64,
    /// What NCCL itself counts (`ncclCommMemStats`, 2.29.7 and later), frees included; null if it was not
    /// asked.
    pub counted: Option<NcclCount>,
    /// Pinned memory of the host, bytes.
    pub pinned_bytes: u64,
    /// Memory in /dev/shm, bytes.
    pub shared_bytes: u64,
    /// By how much the GPU's memory in use grew meanwhile, as NVML has it, bytes: of all processes together.
    pub nvml_bytes: Option<i64>,
    /// Whether that is within 10 % of `gpu_bytes`; null without it.
    pub nvml_agrees: Option<bool>,
    /// Whether it is the first communicator of its process.
    pub is_first: bool,
    /// What it was allocated for, in the order of time.
    pub steps: Vec<StepRow>,
    /// Connections to other ranks by way and kind.
    pub connections: Vec<ConnectionRow>,
}

/// GPU memory that NCCL itself counts (`ncclCommMemStats`, 2.29.7 and later), frees included, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NcclCount {
    /// When it was asked for the first time.
    pub first_gpu_bytes: u64,
    /// The most.
    pub most_gpu_bytes: u64,
    /// When it was asked for the last time.
    pub last_gpu_bytes: u64,
    /// What it would give back then if it was suspended.
    pub suspendable_gpu_bytes: u64,
    /// Whether NCCL counts communicators that share buffers (`splitShare`) with it, too.
    pub is_shared: bool,
}

/// What was allocated for one thing.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepRow {
    /// `init`, then what was used for the first time: `rings`, `trees`, `send and receive`; or `later`.
    pub step: String,
    /// GPU memory, bytes.
    pub gpu_bytes: u64,
    /// Pinned memory of the host, bytes.
    pub pinned_bytes: u64,
    /// Memory in /dev/shm, bytes.
    pub shared_bytes: u64,
}

/// Connections of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConnectionRow {
    /// NCCL's name for the way, such as `P2P/CUMEM`.
    pub way: String,
    /// `collectives` or `send and receive`.
    #[schemars(extend("enum" = ["collectives", "send and receive"]))]
    pub used_for: &'static str,
    /// Ranks at their other ends.
    pub peers: u32,
    /// Channels.
    pub channels: u32,
    /// Connections to other ranks.
    pub outgoing: u32,
    /// Connections from other ranks; null if these said nothing.
    pub incoming: Option<u32>,
    /// GPU memory that they take by NCCL's sizes of buffers, bytes; null for a way without a model.
    pub modelled_gpu_bytes: Option<u64>,
}

/// All communicators on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GpuMemory {
    /// Host.
    pub host: String,
    /// The GPU: NVML's UUID, or else the CUDA device of a process.
    pub gpu: String,
    /// Communicators that were there when they held most.
    pub communicators: u32,
    /// Their GPU memory, bytes.
    pub gpu_bytes: u64,
    /// The GPU's memory in all, bytes.
    pub total_bytes: Option<u64>,
    /// The communicators' share of it.
    pub share: Option<f64>,
}

/// What more communicators or ranks would hold on each GPU, modelled.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Projection {
    /// Communicators like the largest.
    pub communicators: u32,
    /// Ranks in each.
    pub nranks: u32,
    /// GPU memory of one after its init, bytes; null, as the next two, if only the sum is known.
    pub init_gpu_bytes: Option<u64>,
    /// GPU memory of one for collectives, bytes.
    pub collectives_gpu_bytes: Option<u64>,
    /// GPU memory of one for sends to and receives from each other rank, bytes.
    pub pairs_gpu_bytes: Option<u64>,
    /// All together, bytes.
    pub gpu_bytes: u64,
    /// Share of the GPU's memory, if that is known.
    pub share: Option<f64>,
}

/// An init, and what the capture knows of it.
struct Of<'a> {
    init: &'a Init,
    process: Option<&'a Process>,
    /// Which communicator of NCCL's output it is; nothing in a capture.
    number: Option<usize>,
    communicator: Option<String>,
    gpu: Option<String>,
    counted: Option<NcclCount>,
}

/// The communicators on a GPU, and its memory in all.
#[derive(Default)]
struct Held<'a> {
    inits: Vec<&'a Init>,
    total_bytes: Option<u64>,
}

/// The memory of a capture's communicators.
pub fn of_capture(capture: &Capture) -> Memory {
    let mut all = Vec::new();
    let mut unowned = Sizes::default();
    let counted: Vec<Vec<(Init, NcclCount)>> = capture.processes.iter().map(counted_only).collect();
    for (index, process) in capture.processes.iter().enumerate() {
        let locals = locals(process);
        let counts = counts(process);
        for (init, counted) in &counted[index] {
            let local = only_local(process, init);
            all.push(Of {
                init,
                process: Some(process),
                number: None,
                communicator: local.and_then(|local| id(capture, index, local)),
                gpu: local.and_then(|local| local.gpu.clone()),
                counted: Some(*counted),
            });
        }
        process.setup.unowned.values().for_each(|s| unowned.add(*s));
        for (init, local) in process.setup.inits.iter().zip(locals) {
            let counted = counts.iter().find(|count| is_of(init, count));
            all.push(Of {
                init,
                process: Some(process),
                number: None,
                communicator: local.and_then(|local| id(capture, index, local)),
                gpu: local.and_then(|local| local.gpu.clone()),
                counted: counted.map(|count| count.counted),
            });
        }
    }
    let mut memory = memory(&all, &capture.nodes, unowned);
    if memory.communicators.is_empty() && !capture.processes.is_empty() {
        memory.notes.push(why_none(capture));
    }
    memory
}

/// The memory that lines of NCCL's debug output tell of.
pub fn of_inits(inits: &[Init], unowned: Sizes) -> Memory {
    let mut all = Vec::new();
    for (number, members) in group(inits).into_iter().enumerate() {
        let id = members.iter().find_map(|init| init.id);
        all.extend(members.into_iter().map(|init| Of {
            init,
            process: None,
            number: Some(number),
            communicator: id.map(|id| format!("0x{id:x}")),
            gpu: None,
            counted: None,
        }));
    }
    let mut memory = memory(&all, &[], unowned);
    memory.notes.extend(lone_note(&memory.communicators));
    memory
}

/// Communicators of one rank, which hold memory although nobody is there to communicate with.
fn lone_note(communicators: &[CommunicatorMemory]) -> Option<Note> {
    let lone = communicators.iter().filter(|one| one.nranks == 1);
    let held: Vec<u64> = lone
        .flat_map(|one| one.ranks.iter().map(|rank| rank.gpu_bytes))
        .filter(|bytes| *bytes > 0)
        .collect();
    let most_bytes = *held.iter().max()?;
    Some(Note::Lone {
        communicators: held.len() as u64,
        are_equal: held.iter().all(|bytes| *bytes == most_bytes),
        most_bytes,
    })
}

fn memory(all: &[Of], nodes: &[Node], unowned: Sizes) -> Memory {
    let mut communicators: BTreeMap<_, Vec<RankMemory>> = BTreeMap::new();
    let mut gpus: BTreeMap<(String, String), Held> = BTreeMap::new();
    for of in all.iter().filter(|of| !of.init.memory.steps.is_empty()) {
        let row = row(of, all, nodes);
        let gpu = gpu(of, nodes);
        let name = gpu.as_ref().map(|(_, uuid, _)| uuid.clone());
        let name = name.or_else(|| row.device.map(|device| format!("device {device}")));
        if let Some(name) = name {
            let held = gpus.entry((row.host.clone(), name)).or_default();
            held.inits.push(of.init);
            held.total_bytes = gpu.and_then(|(_, _, total)| total);
        }
        let key = (of.number, of.communicator.as_ref(), of.init.nranks);
        communicators.entry(key).or_default().push(row);
    }
    let mut communicators: Vec<CommunicatorMemory> = communicators
        .into_iter()
        .map(|((_, communicator, nranks), mut ranks)| {
            ranks.sort_by_key(|row| (std::cmp::Reverse(row.gpu_bytes), row.rank));
            CommunicatorMemory {
                communicator: communicator.cloned(),
                nranks,
                ranks,
            }
        })
        .collect();
    communicators.sort_by_key(|row| std::cmp::Reverse(row.largest()));
    let mut gpus: Vec<GpuMemory> = gpus
        .into_iter()
        .map(|((host, gpu), held)| {
            let (communicators, gpu_bytes) = at_once(&held.inits);
            let total_bytes = held.total_bytes;
            GpuMemory {
                host,
                gpu,
                communicators,
                gpu_bytes,
                total_bytes,
                share: total_bytes.map(|total| gpu_bytes as f64 / total as f64),
            }
        })
        .collect();
    gpus.sort_by_key(|gpu| std::cmp::Reverse(gpu.gpu_bytes));
    let mut notes = Vec::new();
    let rows = || communicators.iter().flat_map(|row| &row.ranks);
    if rows().any(|rank| rank.init_gpu_bytes.is_none()) {
        notes.push(Note::OnlyCounted);
    }
    if rows().any(|rank| rank.init_gpu_bytes.is_some()) {
        notes.push(Note::UnseenFrees);
    }
    if rows().any(|rank| rank.counted.is_some_and(|counted| counted.is_shared)) {
        notes.push(Note::SharedBuffers);
    }
    notes.extend(by_nvml(&communicators).map(Note::Nvml));
    if unowned != Sizes::default() {
        notes.push(Note::Unowned(unowned));
    }
    Memory {
        schema: SCHEMA,
        communicators,
        gpus,
        projection: None,
        notes,
    }
}

/// How far NVML confirms the figures.
fn by_nvml(communicators: &[CommunicatorMemory]) -> Option<ByNvml> {
    let rows = || communicators.iter().flat_map(|row| &row.ranks);
    let more = |is_first: bool| {
        let mut more: Vec<i64> = rows()
            .filter(|rank| rank.is_first == is_first && rank.nvml_agrees == Some(false))
            .filter_map(|rank| Some(rank.nvml_bytes? - i64::try_from(rank.gpu_bytes).ok()?))
            .filter(|more| *more > 0)
            .collect();
        more.sort_unstable();
        more.get(more.len() / 2).map(|more| more.unsigned_abs())
    };
    let found = ByNvml {
        known: rows().filter(|rank| rank.nvml_agrees.is_some()).count(),
        agree: rows().filter(|rank| rank.nvml_agrees == Some(true)).count(),
        more_for_first: more(true),
        more_for_others: more(false),
    };
    (found.known > 0).then_some(found)
}

/// How many of these communicators were there at once when they held most, and how much that was. Without
/// times of day, all are taken to be.
fn at_once(inits: &[&Init]) -> (u32, u64) {
    let mut ends: Vec<(f64, i64, u64)> = Vec::new();
    for init in inits {
        let (memory, bytes) = (&init.memory, init.memory.total().gpu);
        let made = memory.between_s.map_or(f64::MIN, |(first, _)| first);
        ends.push((made, 1, bytes));
        ends.extend(memory.gone_s.map(|gone| (gone, -1, bytes)));
    }
    // What goes goes first, if something comes at that time.
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut there, mut held, mut most) = (0u32, 0u64, (0, 0));
    for (_, sign, bytes) in ends {
        (there, held) = match sign {
            1 => (there + 1, held.saturating_add(bytes)),
            _ => (there.saturating_sub(1), held.saturating_sub(bytes)),
        };
        if held > most.1 {
            most = (there, held);
        }
    }
    most
}

fn why_none(capture: &Capture) -> Note {
    let timed = |process: &Process| process.setup.inits.iter().any(|i| i.timings.is_some());
    if capture.processes.iter().any(timed) {
        Note::NotSaid
    } else {
        Note::NotRecorded
    }
}

/// The node, UUID and memory of an init's GPU.
fn gpu<'a>(of: &Of, nodes: &'a [Node]) -> Option<(&'a Node, String, Option<u64>)> {
    let process = of.process?;
    let wanted = of.gpu.as_deref()?;
    let node = nodes.iter().find(|node| node.host == process.host)?;
    let (index, uuid) = node
        .gpus()
        .map(|(uuid, _)| uuid)
        .enumerate()
        .find(|(_, uuid)| plain_uuid(uuid) == plain_uuid(wanted))?;
    let total = node.fact(&format!("gpu_memory.{index}"));
    Some((node, uuid.to_owned(), total.and_then(|n| n.parse().ok())))
}

fn row(of: &Of, all: &[Of], nodes: &[Node]) -> RankMemory {
    let (init, memory) = (of.init, &of.init.memory);
    let total = memory.total();
    let nvml_bytes = nvml(of, nodes);
    RankMemory {
        rank: init.rank,
        host: of
            .process
            .map_or(&init.host, |process| &process.host)
            .clone(),
        pid: init.pid,
        device: init.device,
        init_gpu_bytes: (!is_sum_only(init)).then(|| memory.step("init").gpu),
        gpu_bytes: total.gpu,
        counted: of.counted,
        pinned_bytes: total.pinned,
        shared_bytes: total.shared,
        nvml_bytes,
        nvml_agrees: nvml_bytes.map(|nvml| {
            let apart = nvml.abs_diff(i64::try_from(total.gpu).unwrap_or(i64::MAX));
            apart as f64 <= NVML_AGREES * total.gpu as f64
        }),
        is_first: is_first(of, all),
        steps: memory
            .steps
            .iter()
            .map(|step| StepRow {
                step: step.name.clone(),
                gpu_bytes: step.sizes.gpu,
                pinned_bytes: step.sizes.pinned,
                shared_bytes: step.sizes.shared,
            })
            .collect(),
        connections: connections(of, all),
    }
}

/// Whether its process made no communicator before, as far as is known.
fn is_first(of: &Of, all: &[Of]) -> bool {
    let process = |of: &Of| (of.init.host.clone(), of.init.pid);
    let begun = |of: &Of| {
        of.init
            .memory
            .between_s
            .map_or(f64::MAX, |(first, _)| first)
    };
    let others = all
        .iter()
        .filter(|other| !std::ptr::eq(other.init, of.init) && process(other) == process(of));
    others.into_iter().all(|other| begun(of) < begun(other))
}

/// Whether only NCCL's count is known.
fn is_sum_only(init: &Init) -> bool {
    init.memory.steps.iter().any(|step| step.name == IN_ALL)
}

/// By how much the GPU's memory in use grew between the first and the last allocation.
fn nvml(of: &Of, nodes: &[Node]) -> Option<i64> {
    let (node, uuid, _) = gpu(of, nodes)?;
    let (first, last) = of.init.memory.between_s?;
    let (first, last) = (HostTime::from_seconds(first), HostTime::from_seconds(last));
    let points = &node.of("gpu_memory_bytes", &uuid)?.points;
    let points = points.iter().map(|(at, bytes)| (HostTime(*at), *bytes));
    let before = points.clone().rev().find(|(at, _)| *at <= first)?;
    let after = points.clone().find(|(at, _)| *at >= last)?;
    let is_near = first - before.0 <= NVML_FAR && after.0 - last <= NVML_FAR;
    let gone = of.init.memory.gone_s.map(HostTime::from_seconds);
    let is_there = gone.is_none_or(|gone| after.0 < gone);
    (is_near && is_there).then(|| after.1 as i64 - before.1 as i64)
}

/// Connections of a rank, with those that the other ranks of the communicator speak of.
fn connections(of: &Of, all: &[Of]) -> Vec<ConnectionRow> {
    let set = |name: &str| {
        let value = of.process?.fact(&format!("env.{name}"))?;
        value.parse().ok()
    };
    let (buffers, rank) = (Buffers::new(set), of.init.rank);
    let same = |other: &&Of| {
        other.number == of.number
            && other.communicator == of.communicator
            && other.init.nranks == of.init.nranks
            && other.init.rank != rank
    };
    let others: Vec<&Of> = if of.number.is_some() || of.communicator.is_some() {
        all.iter().filter(same).collect()
    } else {
        Vec::new()
    };
    let is_whole = others.len() + 1 == of.init.nranks as usize;
    let mut rows = Vec::new();
    let own = &of.init.memory.connections;
    let kinds: BTreeSet<(bool, &str)> = own.iter().map(|c| (c.index > 0, way(c))).collect();
    for (is_pair, name) in kinds {
        let fits = |c: &&Connection| (c.index > 0, way(c)) == (is_pair, name);
        let outgoing: Vec<&Connection> =
            own.iter().filter(fits).filter(|c| c.from == rank).collect();
        let incoming: Vec<&Connection> = others
            .iter()
            .flat_map(|other| &other.init.memory.connections)
            .filter(fits)
            .filter(|c| c.to == rank)
            .collect();
        let modelled = || {
            let sent = outgoing.iter().map(|c| Some(buffers.of(c)?.0));
            let received = incoming.iter().map(|c| Some(buffers.of(c)?.1));
            sent.chain(received).sum::<Option<u64>>()
        };
        rows.push(ConnectionRow {
            way: name.to_owned(),
            used_for: if is_pair { PAIRS } else { "collectives" },
            peers: outgoing.iter().map(|c| c.to).collect::<BTreeSet<_>>().len() as u32,
            channels: outgoing
                .iter()
                .map(|c| c.channel)
                .collect::<BTreeSet<_>>()
                .len() as u32,
            outgoing: outgoing.len() as u32,
            incoming: is_whole.then_some(incoming.len() as u32),
            modelled_gpu_bytes: is_whole.then(modelled).flatten(),
        });
    }
    rows
}

/// `P2P/CUMEM` of `P2P/CUMEM/read`, `NET/Socket` of `NET/Socket/0`.
fn way(connection: &Connection) -> &str {
    let way = connection.way.as_str();
    let second = way.match_indices('/').nth(1);
    second.map_or(way, |(at, _)| &way[..at])
}

impl CommunicatorMemory {
    /// GPU memory of its largest rank, bytes.
    pub fn largest(&self) -> u64 {
        self.ranks.first().map_or(0, |rank| rank.gpu_bytes)
    }
}

impl Memory {
    /// GPU memory of the largest rank of a communicator by its id in the capture, bytes.
    pub fn of(&self, communicator: &str) -> Option<u64> {
        let mut rows = self.communicators.iter();
        let row = rows.find(|row| row.communicator.as_deref() == Some(communicator));
        row.map(CommunicatorMemory::largest)
    }

    /// Adds what so many communicators like the largest would hold, with so many ranks.
    ///
    /// Every rank has its own buffers, so communicators add up. Rings and trees connect a rank to as many
    /// others, however many ranks there are. The first send to each other rank takes as much again, if NCCL
    /// connects them in the same way, as within a host.
    pub fn project(&mut self, communicators: u32, nranks: Option<u32>) {
        let Some((row, rank)) = self
            .communicators
            .first()
            .and_then(|row| Some((row, row.ranks.first()?)))
        else {
            return;
        };
        let nranks = nranks.unwrap_or(row.nranks);
        let total = self.gpus.iter().find_map(|gpu| gpu.total_bytes);
        let projection = |parts: Option<[u64; 3]>, one: u64| {
            let gpu_bytes = one.saturating_mul(u64::from(communicators));
            Projection {
                communicators,
                nranks,
                init_gpu_bytes: parts.map(|parts| parts[0]),
                collectives_gpu_bytes: parts.map(|parts| parts[1]),
                pairs_gpu_bytes: parts.map(|parts| parts[2]),
                gpu_bytes,
                share: total.map(|total| gpu_bytes as f64 / total as f64),
            }
        };
        let Some(init) = rank.init_gpu_bytes else {
            // What more ranks would need is in no sum.
            if nranks == row.nranks {
                self.projection = Some(projection(None, rank.gpu_bytes));
            } else {
                self.notes.push(Note::NoProjection);
            }
            return;
        };
        let pairs: u64 = steps(rank, |name| name == PAIRS);
        let of_pairs = rank.connections.iter().filter(|c| c.used_for == PAIRS);
        let peers = of_pairs.map(|c| u64::from(c.peers)).sum::<u64>().max(1);
        let pairs_gpu_bytes = (pairs / peers).saturating_mul(u64::from(nranks.saturating_sub(1)));
        let collectives_gpu_bytes = steps(rank, |name| name != PAIRS && name != "init");
        let parts = [init, collectives_gpu_bytes, pairs_gpu_bytes];
        let one = parts.iter().copied().fold(0, u64::saturating_add);
        self.projection = Some(projection(Some(parts), one));
    }
}

fn steps(rank: &RankMemory, fits: impl Fn(&str) -> bool) -> u64 {
    let steps = rank.steps.iter().filter(|step| fits(&step.step));
    steps
        .map(|step| step.gpu_bytes)
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
