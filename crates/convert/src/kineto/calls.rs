//! Puts calls together: NCCL's kernels, their launches, and what PyTorch noted of them.

use super::event::Args;
use super::{NcclKernel, Noted, Reader};
use crate::torch::{self, Group};
use crate::writer::{Call, Communicator, MOST_COMMUNICATORS};
use capture::windows::{DriverCall, DriverCallKind};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Calls and the communicators that they are of.
#[derive(Default)]
pub struct Made {
    pub calls: Vec<Call>,
    pub communicators: Vec<Communicator>,
    /// Communicators by their group and GPU.
    known: HashMap<(u64, u32, Option<u32>), u32>,
}

/// The calls of a file whose process has this rank.
pub fn make(reader: &Reader, rank: Option<u32>) -> Made {
    let mut made = Made::default();
    let launches = reader.launches.iter().filter(|(_, call)| {
        matches!(
            call.kind,
            DriverCallKind::Launch | DriverCallKind::LaunchGraph
        )
    });
    let launches: HashMap<u64, &DriverCall> = launches.map(|(id, call)| (*id, call)).collect();
    let mut noted: HashMap<u64, Vec<&Noted>> = HashMap::new();
    for note in &reader.noted {
        if let Some(id) = note.external {
            noted.entry(id).or_default().push(note);
        }
    }
    let mut used: std::collections::HashSet<*const Noted> = std::collections::HashSet::new();
    for kernel in &reader.nccl {
        let launch = launches.get(&kernel.correlation);
        if launch.is_some_and(|launch| launch.kind == DriverCallKind::LaunchGraph) {
            // Nobody called it: a graph ran it again.
            continue;
        }
        let of = kernel.external.and_then(|id| noted.get(&id));
        // One call may need several kernels; then the first notes go with the first of them.
        let is_free = |note: &&&Noted| !used.contains(&std::ptr::from_ref(**note));
        let note = of
            .and_then(|of| of.iter().find(is_free).or(of.last()))
            .copied();
        if let Some(note) = note {
            used.insert(std::ptr::from_ref(note));
        }
        let args = kernel.args.as_deref().or(note.map(|note| &*note.args));
        let call = made.call(reader, rank, args, Some(kernel), note);
        let Some(mut call) = call else { continue };
        call.launched = launch.map(|launch| (launch.at.0, launch.at.0.saturating_add(launch.took)));
        let called = note
            .map(|note| note.at)
            .or(call.launched.map(|(from, _)| from));
        call.called = called.unwrap_or(kernel.start);
        call.returned = note.map_or(0, |note| note.at.saturating_add(note.ns));
        call.thread = note.map_or(launch.map_or(0, |launch| launch.thread), |note| note.thread);
        made.calls.push(call);
    }
    for note in &reader.noted {
        if used.contains(&std::ptr::from_ref(note)) {
            continue;
        }
        if let Some(mut call) = made.call(reader, rank, Some(&note.args), None, Some(note)) {
            (call.called, call.returned) = (note.at, note.at.saturating_add(note.ns));
            call.thread = note.thread;
            made.calls.push(call);
        }
    }
    made.put_in_order();
    made
}

impl Made {
    /// Puts the calls into the order in which the program made them. What was launched before the file begins
    /// came before all that was launched later on its stream, because kernels run in the order of their
    /// launches. When it was called is not known.
    fn put_in_order(&mut self) {
        let is_seen = |call: &Call| call.launched.is_some() || call.returned != 0;
        let mut by_end: Vec<usize> = (0..self.calls.len()).collect();
        by_end.sort_by_key(|at| self.calls[*at].ran.map(|(from, _)| Reverse(from)));
        let mut next: HashMap<(Option<u32>, u64), u64> = HashMap::new();
        for at in by_end {
            let call = &mut self.calls[at];
            if call.ran.is_none() {
                continue;
            }
            let communicator = self.communicators.get(call.communicator as usize);
            let device = communicator.and_then(|communicator| communicator.device);
            let next = next.entry((device, call.stream)).or_insert(u64::MAX);
            if !is_seen(call) {
                call.called = call.called.min(*next);
            }
            *next = call.called.min(*next);
        }
        let start = |call: &Call| call.ran.map(|(from, _)| from);
        self.calls
            .sort_by_key(|call| (call.called, is_seen(call), start(call)));
        for call in self.calls.iter_mut().filter(|call| !is_seen(call)) {
            call.called = 0;
        }
    }

    fn call(
        &mut self,
        reader: &Reader,
        rank: Option<u32>,
        args: Option<&Args>,
        kernel: Option<&NcclKernel>,
        note: Option<&Noted>,
    ) -> Option<Call> {
        let empty = Args::default();
        let args = args.unwrap_or(&empty);
        // A coalesced group has one kernel, and its own name says nothing.
        let function = torch::function(&args.collective).or(kernel.map(|kernel| kernel.function));
        let function = function.filter(|function| !function.is_empty());
        let function = match (function, kernel) {
            (Some(function), _) => function,
            (None, Some(_)) => "Unknown",
            (None, None) => return None,
        };
        let group = group(reader, args);
        if kernel.is_none() && !group.may_be_nccl() {
            return None;
        }
        let size = args.size.and_then(|size| u32::try_from(size).ok());
        let size = size.or(Some(group.size).filter(|size| *size != 0));
        let nranks = size.unwrap_or(group.ranks.len() as u32);
        let device = kernel.map(|kernel| kernel.device);
        let own = rank.and_then(|rank| group.place_of(rank));
        let communicator = self.communicator(&group, nranks, own, device);
        let peer = match function {
            "Send" => args.destination,
            "Recv" => args.source,
            _ => None,
        };
        let peer = peer.and_then(|peer| u32::try_from(peer).ok());
        let known = args.given.is_some() || args.got.is_some();
        Some(Call {
            communicator,
            function,
            datatype: if known {
                torch::datatype(&args.datatype)
            } else {
                ""
            },
            count: torch::count(
                function,
                args.given.unwrap_or(0),
                args.got.unwrap_or(0),
                nranks,
            ),
            peer: peer.and_then(|peer| group.place_of(peer)),
            stream: kernel.map_or(0, |kernel| kernel.stream),
            seq: args.seq.or(note.and_then(|note| note.args.seq)),
            ran: kernel.map(|kernel| (kernel.start, kernel.ns)),
            ..Call::default()
        })
    }

    fn communicator(
        &mut self,
        group: &Group,
        nranks: u32,
        rank: Option<u32>,
        device: Option<u32>,
    ) -> u32 {
        let hash = group.hash();
        // A call without a kernel does not say its GPU: that is the one of the others.
        let same = |key: &(u64, u32, Option<u32>)| key.0 == hash && key.1 == nranks;
        if device.is_none() {
            let known = self.known.iter().filter(|(key, _)| same(key));
            if let Some(index) = known.map(|(_, index)| *index).min() {
                return index;
            }
        }
        if let Some(index) = self.known.get(&(hash, nranks, device)) {
            return *index;
        }
        if self.communicators.len() >= MOST_COMMUNICATORS {
            return u32::MAX;
        }
        let index = self.communicators.len() as u32;
        self.communicators.push(Communicator {
            hash,
            nranks,
            rank,
            device,
            name: group.title().to_owned(),
            ranks: Vec::new(),
        });
        self.known.insert((hash, nranks, device), index);
        index
    }
}

/// The process group of a call.
fn group(reader: &Reader, args: &Args) -> Group {
    let known = if !args.group.is_empty() {
        reader.groups.get(&args.group)
    } else {
        reader.only_group()
    };
    let mut group = known.cloned().unwrap_or_default();
    if group.name.is_empty() {
        group.name.clone_from(&args.group);
    }
    if !args.description.is_empty() {
        group.description.clone_from(&args.description);
    }
    let size = args
        .size
        .and_then(|size| u32::try_from(size).ok())
        .unwrap_or(group.size);
    group.size = size;
    if let Some(ranks) = torch::ranks(&args.ranks) {
        group.ranks = ranks;
    } else if group.ranks.is_empty() {
        // At equal distances, if the program made it so.
        if let (Some(first), Some(stride)) = (args.first_rank, args.stride) {
            let size = u64::from(size.min(1 << 20));
            let rank = |at| u32::try_from(first.checked_add(stride.checked_mul(at)?)?).ok();
            group.ranks = (0..size)
                .map(rank)
                .collect::<Option<_>>()
                .unwrap_or_default();
        }
    }
    group
}
