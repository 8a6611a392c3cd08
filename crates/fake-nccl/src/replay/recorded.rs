//! A script of the calls that a capture has, if it has no callbacks.
//!
//! ```text
//! calls ──▶ groups of each rank ──▶ operations of all ranks, in an order that each rank keeps ──▶ script
//! ```
//!
//! A rank makes each group at its recorded time. Its GPU is busy until the recorded start, if that was later
//! than the launch, and the operation takes as long as on the rank that waited least.
//!
//! Rule: an operation that a member did not record is left out, because it would never end. What is left out
//! is counted.

use super::operations::{operations, Group, Operation};
use crate::play::Options;
use crate::plugin::Version;
use crate::script::{self, Op};
use capture::live::flag;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use tables::{Call, Capture, Name, Shape};

/// Host time of a call, ns. What a call really took is in the time of the next one.
const HOST_COST: i64 = 2_000;
/// From a call's end to its kernel's start on an idle GPU, ns; see [`crate::schedule`].
const LAUNCH: i64 = 5_000;
/// A GPU that begins so much later than after a launch was busy, ns.
const BUSY: i64 = 20_000;

/// What is played of a capture.
pub(super) struct Recorded {
    pub(super) script: String,
    /// What is not, in words.
    pub(super) left_out: Vec<String>,
}

/// The calls of a capture as a script. With `real_pace`, GPUs have a driver whose streams keep the recorded
/// times; without it, clocks show the script's.
pub(super) fn script(capture: &Capture, options: &Options, real_pace: bool) -> Option<Recorded> {
    let mut job = Job::new(capture)?;
    let groups = job.groups();
    let (operations, incomplete) = operations(groups, &job.members);
    if operations.is_empty() {
        return None;
    }
    let mut out = String::new();
    job.settings(&mut out, options, real_pace);
    job.communicators(&mut out);
    job.play(&mut out, &operations);
    let graphs: u64 = capture
        .processes
        .iter()
        .map(|of| of.graphs.launches.len() as u64)
        .sum();
    let left_out = [
        (
            incomplete,
            "calls of operations that not all ranks recorded",
        ),
        (job.captured, "calls that were captured into CUDA graphs"),
        (graphs, "launches of CUDA graphs"),
        (
            job.unknown,
            "calls of functions or communicators that are not known",
        ),
    ];
    let left_out = left_out.into_iter().filter(|(n, _)| *n > 0);
    let left_out = left_out.map(|(n, what)| format!("{n} {what}"));
    Some(Recorded {
        script: out,
        left_out: left_out.collect(),
    })
}

struct Job<'c> {
    capture: &'c Capture,
    /// Ranks of the script, each a GPU of a process: the process of each.
    lanes: Vec<usize>,
    numbers: HashMap<(usize, u32), usize>,
    /// By communicator: its members' lanes, by rank.
    members: Vec<Vec<usize>>,
    /// Calls that are left out.
    captured: u64,
    unknown: u64,
}

impl<'c> Job<'c> {
    fn new(capture: &'c Capture) -> Option<Job<'c>> {
        let mut lanes = Vec::new();
        let mut numbers = HashMap::new();
        for (process, of) in capture.processes.iter().enumerate() {
            let mut devices: Vec<u32> = of
                .communicators
                .iter()
                .map(|local| local.device.unwrap_or(0))
                .collect();
            devices.sort_unstable();
            devices.dedup();
            for device in devices {
                numbers.insert((process, device), lanes.len());
                lanes.push(process);
            }
        }
        let members = capture.communicators.iter().map(|of| {
            let mut members: Vec<(Option<u32>, usize)> = of
                .members
                .iter()
                .filter_map(|member| {
                    let local = capture.processes[member.process].communicator(member.uid)?;
                    let lane = numbers.get(&(member.process, local.device.unwrap_or(0)))?;
                    Some((member.rank, *lane))
                })
                .collect();
            members.sort_unstable();
            let members: Vec<usize> = members.into_iter().map(|(_, lane)| lane).collect();
            let distinct: BTreeSet<&usize> = members.iter().collect();
            // The same GPU twice is nothing that a script can say.
            if distinct.len() < members.len() {
                return Vec::new();
            }
            members
        });
        let members = members.collect();
        (!lanes.is_empty()).then_some(Job {
            capture,
            lanes,
            numbers,
            members,
            captured: 0,
            unknown: 0,
        })
    }

    fn word(&self, name: Name) -> &'c str {
        self.capture.names.get(name).unwrap_or("")
    }

    fn shape(&self, lane: usize, call: usize) -> (&'c Shape, &'c Call) {
        let process = &self.capture.processes[self.lanes[lane]];
        let call = &process.calls[call];
        (&process.shapes[call.shape as usize], call)
    }

    /// The groups of all lanes, those of a lane in order.
    fn groups(&mut self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (index, process) in self.capture.processes.iter().enumerate() {
            // By lane, the group that it makes.
            let mut newest: HashMap<usize, (u64, usize)> = HashMap::new();
            let mut counts: HashMap<(usize, u32, u32, Name), u64> = HashMap::new();
            for (place, call) in process.calls.iter().enumerate() {
                let shape = &process.shapes[call.shape as usize];
                if shape.is(flag::CAPTURED) {
                    self.captured += 1;
                    continue;
                }
                let times = [call.api_ns, call.launch_start_ns, call.enqueue_ns];
                let begin = times.into_iter().find(|at| *at != 0);
                let lane = self.numbers.get(&(index, shape.device.unwrap_or(0)));
                let communicator = shape.communicator.filter(|of| {
                    let members = self.members.get(*of as usize);
                    members.is_some_and(|members| !members.is_empty())
                });
                let function = Op::of_nccl(self.word(shape.function));
                let (Some(begin), Some(lane), Some(communicator), Some(function)) =
                    (begin, lane.copied(), communicator, function)
                else {
                    self.unknown += 1;
                    continue;
                };
                let own = shape.rank.unwrap_or(0);
                let key = match function {
                    Op::Send | Op::Recv => {
                        let peer = shape.peer.unwrap_or(own);
                        let n = counts
                            .entry((lane, communicator, peer, shape.function))
                            .or_insert(0);
                        *n += 1;
                        let (from, to) = match function {
                            Op::Send => (own, peer),
                            _ => (peer, own),
                        };
                        (
                            communicator,
                            None,
                            u64::from(from) << 32 | u64::from(to),
                            *n,
                        )
                    }
                    _ => {
                        let copied = u64::from(shape.by_copy_engines());
                        (communicator, Some(shape.function), copied, call.seq)
                    }
                };
                let gpu = call.gpu.on_host();
                let length = call
                    .gpu
                    .on_either_clock()
                    .map(|(from, to)| (to - from) as i64);
                let one = Group {
                    lane,
                    begin,
                    launched: Some(call.launch_end_ns).filter(|at| *at != 0),
                    calls: vec![place],
                    keys: vec![key],
                    gpu,
                    length,
                };
                match newest.get(&lane) {
                    Some((group, at)) if *group == call.group && call.group != 0 => {
                        groups[*at].add(one);
                    }
                    _ => {
                        newest.insert(lane, (call.group, groups.len()));
                        groups.push(one);
                    }
                }
            }
        }
        groups
    }

    fn settings(&self, out: &mut String, options: &Options, real_pace: bool) {
        let processes = &self.capture.processes;
        let said = processes.iter().find_map(|of| of.fact("nccl"));
        let recorded = said.and_then(Version::parse);
        let version = options.nccl.or(recorded);
        let version = version.filter(|of| of.native_abi().is_some());
        let _ = writeln!(out, "nccl {}", version.unwrap_or(super::process::newest()));
        let ranks = self.lanes.len();
        let _ = writeln!(out, "ranks {ranks}");
        let in_first = self.lanes.iter().filter(|process| **process == 0).count();
        let is_even = |(at, process): (usize, &usize)| *process == at / in_first;
        if in_first > 1 && self.lanes.iter().enumerate().all(is_even) {
            let _ = writeln!(out, "per_process {in_first}");
        }
        let mut hosts: Vec<&str> = Vec::new();
        for lane in &self.lanes {
            let host = processes[*lane].host.as_str();
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        let n = hosts.len();
        let is_in_block = |(at, process): (usize, &usize)| {
            processes[*process].host.as_str() == hosts[at * n / ranks]
        };
        if n > 1 && self.lanes.iter().enumerate().all(is_in_block) {
            let _ = writeln!(out, "hosts {n}\nhost_clock 0..{} 0us", n - 1);
        }
        let pace = if real_pace { "cuda" } else { "virtual_time" };
        let _ = writeln!(out, "{pace}\nhost_cost {HOST_COST}ns");
    }

    fn communicators(&self, out: &mut String) {
        let mut hashes: BTreeMap<u64, usize> = BTreeMap::new();
        for of in &self.capture.communicators {
            *hashes.entry(of.hash).or_default() += 1;
        }
        for (index, of) in self.capture.communicators.iter().enumerate() {
            if self.members[index].is_empty() {
                continue;
            }
            let ranks: Vec<String> = self.members[index].iter().map(usize::to_string).collect();
            let _ = write!(out, "comm c{index} ranks {}", ranks.join(","));
            if let Some(name) = &of.name {
                let plain = |c: char| c == '"' || c == '#' || tables::obeyed(c);
                let name: String = name.chars().filter(|c| !plain(*c)).collect();
                let _ = write!(out, " name \"{name}\"");
            }
            if of.hash != 0 && hashes.get(&of.hash) == Some(&1) {
                let _ = write!(out, " hash {:#x}", of.hash);
            }
            out.push('\n');
        }
    }

    /// How far the clock of each lane is ahead of that of the first: the end of a collective is one moment.
    fn ahead(&self, operations: &[Operation]) -> Vec<i64> {
        let host = |lane: usize| self.capture.processes[self.lanes[lane]].clock_host();
        let first = host(0);
        let mut seen: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for operation in operations.iter().filter(|of| of.is_collective()) {
            let end = |group: &Group| group.gpu.map(|(_, stop)| stop);
            let mut here = operation.groups.iter().filter(|of| host(of.lane) == first);
            let Some(reference) = here.find_map(end) else {
                continue;
            };
            for group in &operation.groups {
                if let Some(stop) = end(group).filter(|_| host(group.lane) != first) {
                    seen.entry(host(group.lane))
                        .or_default()
                        .push(stop - reference);
                }
            }
        }
        let mut median = |of: &str| {
            let all = seen.get_mut(of)?;
            all.sort_unstable();
            Some(all[all.len() / 2])
        };
        let lanes = 0..self.lanes.len();
        lanes.map(|lane| median(host(lane)).unwrap_or(0)).collect()
    }

    fn play(&self, out: &mut String, operations: &[Operation]) {
        let ahead = self.ahead(operations);
        let begins = operations.iter().flat_map(|of| &of.groups);
        let origin = begins
            .map(|of| of.begin - ahead[of.lane])
            .min()
            .unwrap_or(0);
        let since = |lane: usize, at: i64| at - ahead[lane] - origin;
        let lengths = self.lengths(operations);
        let n = self.lanes.len();
        // What the schedule does with what is written, ns.
        let (mut host, mut computed) = (vec![0i64; n], vec![0i64; n]);
        let mut streams: HashMap<(u32, usize), i64> = HashMap::new();
        for operation in operations {
            let mut last = 0;
            for group in &operation.groups {
                let lane = group.lane;
                let begin = since(lane, group.begin);
                if begin > host[lane] {
                    let _ = writeln!(out, "rank {lane} {{ sleep {}ns }}", begin - host[lane]);
                    host[lane] = begin;
                }
                let before = computed[lane].max(host[lane] + LAUNCH);
                let launched = host[lane] + group.calls.len() as i64 * HOST_COST + LAUNCH;
                let free = streams
                    .get(&(group.communicator(), lane))
                    .copied()
                    .unwrap_or(0);
                let mut arrival = launched.max(free).max(computed[lane]);
                if let Some(start) = group.gpu.map(|(start, _)| since(lane, start)) {
                    let on_time = group.launched.map(|at| since(lane, at));
                    if start > arrival.max(on_time.unwrap_or(0)) + BUSY {
                        let _ = writeln!(out, "rank {lane} {{ compute {}ns }}", start - before);
                        (computed[lane], arrival) = (start, start);
                    }
                }
                host[lane] = launched - LAUNCH;
                last = last.max(arrival);
            }
            let length = operation.length.or_else(|| {
                let (shape, _) = self.shape(operation.groups[0].lane, operation.groups[0].calls[0]);
                lengths.get(&self.kind(shape)).copied()
            });
            self.statement(out, operation, length);
            for group in &operation.groups {
                let stop = last + length.unwrap_or(0);
                streams.insert((group.communicator(), group.lane), stop);
            }
        }
        out.push_str("sync\n");
    }

    fn kind(&self, shape: &Shape) -> (Option<u32>, Name, Option<u64>) {
        let bytes = self.capture.bytes(shape);
        (shape.communicator, shape.function, bytes)
    }

    /// How long operations of a kind took, for those of which that was not recorded: the median, ns.
    fn lengths(&self, operations: &[Operation]) -> HashMap<(Option<u32>, Name, Option<u64>), i64> {
        let mut all: HashMap<_, Vec<i64>> = HashMap::new();
        for operation in operations {
            let first = &operation.groups[0];
            if let (Some(length), [call]) = (operation.length, first.calls.as_slice()) {
                let (shape, _) = self.shape(first.lane, *call);
                all.entry(self.kind(shape)).or_default().push(length);
            }
        }
        let median = all.into_iter().map(|(kind, mut lengths)| {
            lengths.sort_unstable();
            (kind, lengths[lengths.len() / 2])
        });
        median.collect()
    }

    /// The calls of an operation. Of a collective, those of one rank are those of all.
    fn statement(&self, out: &mut String, operation: &Operation, length: Option<i64>) {
        let is_collective = operation.is_collective();
        let groups = if is_collective {
            &operation.groups[..1]
        } else {
            &operation.groups[..]
        };
        let calls: usize = groups.iter().map(|group| group.calls.len()).sum();
        // Collectives of a group run one after the other, sends and receives side by side.
        let parts = if is_collective { calls as i64 } else { 1 };
        let length = length.map(|ns| (ns / parts).max(1));
        if calls > 1 {
            out.push_str("group { ");
        }
        for group in groups {
            for call in &group.calls {
                self.call(out, group.lane, *call, length);
                out.push_str(if calls > 1 { "; " } else { "" });
            }
        }
        out.push_str(if calls > 1 { "}\n" } else { "\n" });
    }

    fn call(&self, out: &mut String, lane: usize, call: usize, length: Option<i64>) {
        let (shape, _) = self.shape(lane, call);
        let Some(op) = Op::of_nccl(self.word(shape.function)) else {
            return;
        };
        let bytes = self.capture.bytes(shape).unwrap_or(0);
        let _ = write!(out, "{} {bytes}", op.word());
        if let Some(word) = script::datatype_word(self.word(shape.datatype)) {
            let _ = write!(out, " {word}");
        }
        let _ = write!(out, " comm=c{}", shape.communicator.unwrap_or(0));
        let peer = shape.peer.or(shape.rank).unwrap_or(0);
        match op {
            Op::Send => drop(write!(out, " to={peer} by={lane}")),
            Op::Recv => drop(write!(out, " from={peer} by={lane}")),
            _ => {
                if let Some(root) = shape.root {
                    let _ = write!(out, " root={root}");
                }
                let algorithm = self.word(shape.algorithm);
                if nccl_abi::names::ALGOS.contains(&algorithm) {
                    let _ = write!(out, " algo={algorithm}");
                }
                let protocol = self.word(shape.protocol);
                if nccl_abi::names::PROTOS.contains(&protocol) {
                    let _ = write!(out, " proto={protocol}");
                }
            }
        }
        if (1..=64).contains(&shape.nchannels) {
            let _ = write!(out, " channels={}", shape.nchannels);
        }
        if let Some(length) = length {
            let _ = write!(out, " time={length}ns");
        }
    }
}
