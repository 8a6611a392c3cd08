//! Memory that NCCL holds: for each communicator and rank, what it was allocated for, and what more would
//! cost.
//!
//! [`of_capture`] takes what NCCL's debug output says ([`setup::memory`]), and finds the communicators of the
//! capture that it is about. NVML's own figure stands beside it as a check, if the node was sampled.
//! [`Memory::project`] says what more communicators or more ranks would hold.
//!
//! Rule: figures are what NCCL allocated and said so. It says nothing of frees, so they are never too small
//! by what was freed. A model is called one and stands beside what was measured.

use crate::findings::Finding;
use crate::spelling::{percent, size};
use serde::Serialize;
use setup::log::Init;
use setup::memory::{Buffers, Connection, Sizes, PAIRS};
use std::collections::{BTreeMap, BTreeSet};
use tables::communicators::Local;
use tables::{Capture, Node, Process};

/// The format of [`Memory`].
pub const SCHEMA: &str = "ncclscope.memory/1";

/// A GPU's share of memory from which on NCCL's part is a finding.
const WORTH: f64 = 0.05;
/// So long before and after the allocations NVML's figures may be from, ns. They are read ten times a second
/// at best.
const NVML_FAR_NS: i64 = 1_000_000_000;

/// What NCCL holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The communicators, the largest first.
    pub communicators: Vec<CommunicatorRow>,
    /// Each GPU with all communicators on it, the largest first.
    pub gpus: Vec<GpuRow>,
    /// What more communicators or ranks would hold; null if that was not asked for.
    pub projection: Option<Projection>,
    /// What is not known, and why.
    pub notes: Vec<String>,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommunicatorRow {
    /// Its id in the capture, or NCCL's id; null for one that was split from another and is in no capture.
    pub communicator: Option<String>,
    /// Ranks in it.
    pub nranks: u32,
    /// Its ranks, the largest first.
    pub ranks: Vec<RankRow>,
}

/// A rank of a communicator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankRow {
    /// Its rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// CUDA device.
    pub device: Option<u32>,
    /// GPU memory after its init, bytes.
    pub init_gpu_bytes: u64,
    /// All GPU memory, bytes.
    pub gpu_bytes: u64,
    /// Pinned memory of the host, bytes.
    pub pinned_bytes: u64,
    /// Memory in /dev/shm, bytes.
    pub shared_bytes: u64,
    /// By how much the GPU's memory in use grew meanwhile, as NVML has it, bytes: of all processes together.
    pub nvml_bytes: Option<i64>,
    /// What it was allocated for, in the order of time.
    pub steps: Vec<StepRow>,
    /// Connections to other ranks by way and kind.
    pub connections: Vec<ConnectionRow>,
}

/// What was allocated for one thing.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionRow {
    /// NCCL's name for the way, such as `P2P/CUMEM`.
    pub way: String,
    /// `collectives` or `send and receive`.
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuRow {
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Projection {
    /// Communicators like the largest.
    pub communicators: u32,
    /// Ranks in each.
    pub nranks: u32,
    /// GPU memory of one after its init, bytes.
    pub init_gpu_bytes: u64,
    /// GPU memory of one for collectives, bytes.
    pub collectives_gpu_bytes: u64,
    /// GPU memory of one for sends to and receives from each other rank, bytes.
    pub pairs_gpu_bytes: u64,
    /// All together, bytes.
    pub gpu_bytes: u64,
    /// Share of the GPU's memory, if that is known.
    pub share: Option<f64>,
}

/// An init, and what the capture knows of it.
struct Of<'a> {
    init: &'a Init,
    process: Option<&'a Process>,
    communicator: Option<String>,
    gpu: Option<String>,
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
    for (index, process) in capture.processes.iter().enumerate() {
        let locals = locals(process);
        process.setup.unowned.values().for_each(|s| unowned.add(*s));
        for (init, local) in process.setup.inits.iter().zip(locals) {
            let uid = local.map(|local| local.uid);
            let of = capture.communicators.iter().find(|communicator| {
                let mut members = communicator.members.iter();
                members.any(|m| m.process == index && Some(m.uid) == uid)
            });
            all.push(Of {
                init,
                process: Some(process),
                communicator: of.map(|of| of.id.clone()),
                gpu: local.and_then(|local| local.gpu.clone()),
            });
        }
    }
    let mut memory = memory(&all, &capture.nodes, unowned);
    if memory.communicators.is_empty() && !capture.processes.is_empty() {
        memory.notes.push(why_none(capture).to_owned());
    }
    memory
}

/// The memory that lines of NCCL's debug output tell of.
pub fn of_inits(inits: &[Init], unowned: Sizes) -> Memory {
    let id = |init: &Init| init.id.map(|id| format!("0x{id:x}"));
    let all: Vec<Of> = inits
        .iter()
        .map(|init| Of {
            init,
            process: None,
            communicator: id(init),
            gpu: None,
        })
        .collect();
    memory(&all, &[], unowned)
}

/// The process's own view of the communicator that each of its inits made.
fn locals(process: &Process) -> Vec<Option<&Local>> {
    let mut left: Vec<&Local> = process.communicators.iter().collect();
    left.sort_by_key(|local| local.created_ns);
    let find = |init: &Init| {
        let fits = |local: &Local| {
            local.nranks == init.nranks && local.rank.is_none_or(|rank| rank == init.rank)
        };
        let same = |local: &Local| fits(local) && init.id == Some(local.hash);
        // Of one that was split from another NCCL prints no id.
        let at = left.iter().position(|local| same(local)).or_else(|| {
            let mut left = left.iter();
            left.position(|local| init.id.is_none() && fits(local))
        });
        at.map(|at| left.remove(at))
    };
    let inits = process.setup.inits.iter();
    inits.map(find).collect()
}

fn memory(all: &[Of], nodes: &[Node], unowned: Sizes) -> Memory {
    let mut communicators: BTreeMap<(Option<&String>, u32), Vec<RankRow>> = BTreeMap::new();
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
        let key = (of.communicator.as_ref(), of.init.nranks);
        communicators.entry(key).or_default().push(row);
    }
    let mut communicators: Vec<CommunicatorRow> = communicators
        .into_iter()
        .map(|((communicator, nranks), mut ranks)| {
            ranks.sort_by_key(|row| (std::cmp::Reverse(row.gpu_bytes), row.rank));
            CommunicatorRow {
                communicator: communicator.cloned(),
                nranks,
                ranks,
            }
        })
        .collect();
    communicators.sort_by_key(|row| std::cmp::Reverse(row.largest()));
    let mut gpus: Vec<GpuRow> = gpus
        .into_iter()
        .map(|((host, gpu), held)| {
            let (communicators, gpu_bytes) = at_once(&held.inits);
            let total_bytes = held.total_bytes;
            GpuRow {
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
    if !communicators.is_empty() {
        notes.push(
            "NCCL says what it allocates, and nothing of frees, so these figures may be too large by what it \
             freed. They have GPU memory of kernels and of user buffers in none of them."
                .to_owned(),
        );
    }
    if unowned != Sizes::default() {
        notes.push(format!(
            "NCCL allocated {} of GPU memory, {} pinned and {} in /dev/shm for communicators that its output \
             does not tell apart.",
            size(unowned.gpu),
            size(unowned.pinned),
            size(unowned.shared)
        ));
    }
    Memory {
        schema: SCHEMA,
        communicators,
        gpus,
        projection: None,
        notes,
    }
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

fn why_none(capture: &Capture) -> &'static str {
    let timed = |process: &Process| process.setup.inits.iter().any(|i| i.timings.is_some());
    match capture.processes.iter().any(timed) {
        true => {
            "NCCL said nothing of its allocations. It does so with NCCL_DEBUG=INFO and the subsystems INIT \
             and ALLOC."
        }
        false => {
            "The memory that NCCL holds is not recorded. `NCCLSCOPE_NCCL_LOG=on ncclscope run` records it \
             (docs/guides/memory.md)."
        }
    }
}

/// The node, UUID and memory of an init's GPU.
fn gpu<'a>(of: &Of, nodes: &'a [Node]) -> Option<(&'a Node, String, Option<u64>)> {
    let process = of.process?;
    let wanted = of.gpu.as_deref()?;
    let node = nodes.iter().find(|node| node.host == process.host)?;
    let plain = |uuid: &str| {
        uuid.trim_start_matches("GPU-")
            .replace('-', "")
            .to_lowercase()
    };
    let (index, uuid) = node
        .gpus()
        .map(|(uuid, _)| uuid)
        .enumerate()
        .find(|(_, uuid)| plain(uuid) == plain(wanted))?;
    let total = node.fact(&format!("gpu_memory.{index}"));
    Some((node, uuid.to_owned(), total.and_then(|n| n.parse().ok())))
}

fn row(of: &Of, all: &[Of], nodes: &[Node]) -> RankRow {
    let (init, memory) = (of.init, &of.init.memory);
    let total = memory.total();
    RankRow {
        rank: init.rank,
        host: of
            .process
            .map_or(&init.host, |process| &process.host)
            .clone(),
        pid: init.pid,
        device: init.device,
        init_gpu_bytes: memory.step("init").gpu,
        gpu_bytes: total.gpu,
        pinned_bytes: total.pinned,
        shared_bytes: total.shared,
        nvml_bytes: nvml(of, nodes),
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

/// By how much the GPU's memory in use grew between the first and the last allocation.
fn nvml(of: &Of, nodes: &[Node]) -> Option<i64> {
    let (node, uuid, _) = gpu(of, nodes)?;
    let (first, last) = of.init.memory.between_s?;
    let ns = |s: f64| (s * 1e9) as i64;
    let points = &node.of("gpu_memory_bytes", &uuid)?.points;
    let before = points.iter().rev().find(|(at, _)| *at <= ns(first))?;
    let after = points.iter().find(|(at, _)| *at >= ns(last))?;
    let is_near = ns(first) - before.0 <= NVML_FAR_NS && after.0 - ns(last) <= NVML_FAR_NS;
    let is_there = of.init.memory.gone_s.is_none_or(|gone| after.0 < ns(gone));
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
        other.communicator == of.communicator
            && other.init.nranks == of.init.nranks
            && other.init.rank != rank
    };
    let others: Vec<&Of> = match of.communicator {
        Some(_) => all.iter().filter(same).collect(),
        None => Vec::new(),
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

impl CommunicatorRow {
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
        row.map(CommunicatorRow::largest)
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
        let pairs: u64 = steps(rank, |name| name == PAIRS);
        let of_pairs = rank.connections.iter().filter(|c| c.used_for == PAIRS);
        let peers = of_pairs.map(|c| u64::from(c.peers)).sum::<u64>().max(1);
        let nranks = nranks.unwrap_or(row.nranks);
        let pairs_gpu_bytes = (pairs / peers).saturating_mul(u64::from(nranks.saturating_sub(1)));
        let collectives_gpu_bytes = steps(rank, |name| name != PAIRS && name != "init");
        let one = rank
            .init_gpu_bytes
            .saturating_add(collectives_gpu_bytes)
            .saturating_add(pairs_gpu_bytes);
        let gpu_bytes = one.saturating_mul(u64::from(communicators));
        let total = self.gpus.iter().find_map(|gpu| gpu.total_bytes);
        self.projection = Some(Projection {
            communicators,
            nranks,
            init_gpu_bytes: rank.init_gpu_bytes,
            collectives_gpu_bytes,
            pairs_gpu_bytes,
            gpu_bytes,
            share: total.map(|total| gpu_bytes as f64 / total as f64),
        });
    }
}

fn steps(rank: &RankRow, fits: impl Fn(&str) -> bool) -> u64 {
    let steps = rank.steps.iter().filter(|step| fits(&step.step));
    steps
        .map(|step| step.gpu_bytes)
        .fold(0, u64::saturating_add)
}

/// That NCCL takes much of a GPU: of the GPU on which it takes most.
pub fn finding(memory: &Memory) -> Option<Finding> {
    let share = |gpu: &GpuRow| gpu.share.unwrap_or(0.0);
    let most = memory
        .gpus
        .iter()
        .reduce(|a, b| if share(b) > share(a) { b } else { a })?;
    let (of, total) = most.share.zip(most.total_bytes)?;
    let first = memory.communicators.first()?.ranks.first()?;
    (of >= WORTH).then(|| Finding {
        kind: "nccl_memory",
        sentence: format!(
            "NCCL's buffers take {} of a GPU's {} ({}): {} on {}.",
            size(most.gpu_bytes),
            size(total),
            percent(of),
            communicators(most.communicators),
            most.host
        ),
        wall_us: None,
        wall_interval_us: None,
        wall_at_most_us: None,
        when_us: None,
        evidence: format!(
            "NCCL's own output sums up to that; frees are not seen. The largest communicator takes {} after \
             its init and {} in all.",
            size(first.init_gpu_bytes),
            size(first.gpu_bytes)
        ),
        advice: "Make fewer communicators, or split them with `splitShare`, which shares their buffers. \
                 NCCL_MAX_NCHANNELS and NCCL_BUFFSIZE make each smaller, and may cost bandwidth. `ncclscope \
                 memory` says which communicator takes what."
            .to_owned(),
    })
}

fn communicators(n: u32) -> String {
    match n {
        1 => "1 communicator".to_owned(),
        n => format!("{n} communicators"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use setup::log::{read, Reader};
    use tables::nodes::Series;

    /// NCCL 2.28.9 on two H200: a ring of sends and receives, then collectives.
    const TWO_H200: &str = include_str!("../../setup/tests/two_h200.log");
    const MIB: u64 = 1 << 20;

    #[test]
    fn the_model_of_buffers_gives_what_a_real_job_s_connections_took() {
        let memory = of_inits(&read(TWO_H200), Sizes::default());
        let [row] = memory.communicators.as_slice() else {
            panic!("{memory:?}");
        };
        for rank in &row.ranks {
            let modelled: Vec<u64> = rank
                .connections
                .iter()
                .filter_map(|row| row.modelled_gpu_bytes)
                .collect();
            assert_eq!(modelled, [288 * MIB, 384 * MIB]);
            assert_eq!(
                rank.gpu_bytes,
                rank.init_gpu_bytes + modelled.iter().sum::<u64>()
            );
        }
    }

    #[test]
    fn more_communicators_add_up_and_more_ranks_need_more_pairs() {
        let mut memory = of_inits(&read(TWO_H200), Sizes::default());
        memory.project(3, Some(5));
        let projection = memory.projection.expect("a projection");
        // 32 channels to each of four others.
        assert_eq!(projection.pairs_gpu_bytes, 4 * 384 * MIB);
        assert_eq!(projection.gpu_bytes, 3 * (196 + 288 + 4 * 384) * MIB);
    }

    /// A process on a node with one GPU, which NVML saw with these MiB in use every 100 ms from 100 s on.
    fn capture(log: &str, total: u64, used: &[u64]) -> Capture {
        let mut reader = Reader::default();
        log.lines().for_each(|line| reader.add(line));
        let said = reader.finish();
        let mut capture = Capture::default();
        let mut process = Process {
            host: "n1".to_owned(),
            communicators: vec![Local {
                uid: 1,
                hash: 10,
                nranks: 2,
                rank: Some(0),
                gpu: Some("00000000000000000000000000000abc".to_owned()),
                ..Local::default()
            }],
            ..Process::default()
        };
        process.setup.inits = said.inits;
        capture.processes.push(process);
        let points = used.iter().enumerate();
        let points = points.map(|(at, mib)| (100_000_000_000 + 100_000_000 * at as i64, mib * MIB));
        let mut node = Node {
            host: "n1".to_owned(),
            series: vec![Series {
                name: "gpu_memory_bytes".to_owned(),
                of: "GPU-00000000-0000-0000-0000-000000000abc".to_owned(),
                points: points.collect(),
            }],
            ..Node::default()
        };
        let facts = [
            (
                "gpu.0",
                "GPU-00000000-0000-0000-0000-000000000abc H200".to_owned(),
            ),
            ("gpu_memory.0", total.to_string()),
        ];
        node.facts = facts.map(|(k, v)| (k.to_owned(), v)).into();
        capture.nodes.push(node);
        capture
    }

    const LOG: &str = "\
[100.250000] n1:7:7 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 commId 0xa - Init START
[100.260000] n1:7:7 [0] NCCL INFO x.cc:1 Cuda Alloc Size 6291456000 pointer 0x200000
[100.340000] n1:7:7 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 commId 0xa - Init COMPLETE
";

    #[test]
    fn nvml_s_change_stands_beside_what_nccl_said() {
        let nvml = |log: &str, used: &[u64]| {
            let memory = of_capture(&capture(log, 1, used));
            memory.communicators[0].ranks[0].nvml_bytes
        };
        let used = [500, 500, 500, 6500, 6500];
        assert_eq!(nvml(LOG, &used), Some(6000 * MIB as i64));
        // Nothing was read in time, or only after it was destroyed.
        assert_eq!(nvml(LOG, &used[..3]), None);
        let gone = format!(
            "{LOG}[100.290000] n1:7:7 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Destroy COMPLETE\n"
        );
        assert_eq!(nvml(&gone, &used), None);
    }

    #[test]
    fn much_of_a_gpu_s_memory_is_a_finding() {
        let found = |total: u64| {
            let memory = of_capture(&capture(LOG, total, &[]));
            assert_eq!(memory.gpus[0].total_bytes, Some(total));
            finding(&memory)
        };
        let much = found(100_000 * MIB).expect("a finding");
        assert!(much.sentence.contains("(6.0 %)"), "{}", much.sentence);
        assert_eq!(found(130_000 * MIB), None);
    }

    #[test]
    fn communicators_that_were_not_there_at_once_do_not_add_up() {
        let init = |first: f64, gone: Option<f64>| {
            let mut init = read(LOG).remove(0);
            (init.memory.between_s, init.memory.gone_s) = (Some((first, first)), gone);
            init
        };
        let all = [init(1.0, Some(2.0)), init(2.0, None), init(3.0, None)];
        let (n, bytes) = at_once(&all.iter().collect::<Vec<_>>());
        assert_eq!((n, bytes), (2, 2 * 6000 * MIB));
    }
}
