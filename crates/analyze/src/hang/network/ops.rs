//! The network operations of a stalled operation that are not over, as the recorder kept them.
//!
//! [`Gathered`] has each open one as an [`Open`], and what is known of the processes that run them. It
//! follows nothing: that is `graph`'s part.
//!
//! Rule: how many network operations a rank has had is known only if as many are open as were counted when
//! they began and ended.

use crate::hang::case::Case;
use crate::hang::reached::known;
use crate::hang::waits::Stall;
use crate::time::HostTime;
use capture::live::{flag, Odd, WAITS};
use std::collections::BTreeMap;
use tables::process::Counters;
use tables::{Call, NetOp, Process};

/// NCCL's bit of ProxyStep events in a mask.
const PROXY_STEP: u64 = 16;

/// What the oldest open step of a network operation waits for, in the order of [`WAITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetWait {
    /// A send for its GPU's data.
    SendGpu,
    /// A send for its receiver.
    SendPeer,
    /// A send for the network.
    SendNetwork,
    /// A receive for data from the network.
    RecvNetwork,
    /// A receive for the flush of its data to the GPU.
    RecvFlush,
    /// A receive for its GPU to take the data.
    RecvGpu,
}

impl NetWait {
    const ALL: [NetWait; WAITS.len()] = [
        NetWait::SendGpu,
        NetWait::SendPeer,
        NetWait::SendNetwork,
        NetWait::RecvNetwork,
        NetWait::RecvFlush,
        NetWait::RecvGpu,
    ];

    /// The wait with this place in [`WAITS`].
    pub(super) fn at(index: usize) -> Option<NetWait> {
        NetWait::ALL.get(index).copied()
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        WAITS[self as usize]
    }
}

/// Where a network operation stands that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The network proxy has not begun it.
    NotBegun,
    /// The proxy has begun it, and the network has not taken it.
    NotTaken,
    /// Its oldest open step waits.
    Waits(NetWait),
}

/// A network operation that is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open<'a> {
    /// The member of the communicator that it belongs to.
    pub member: usize,
    /// The member that is its peer, if the capture has it.
    pub peer: Option<usize>,
    pub op: &'a NetOp,
    /// Where it stands; `None` if steps are not recorded.
    pub stage: Option<Stage>,
    /// Below ABI v4 a send does not say that it waits for its peer: it seems to wait for its GPU.
    pub vague: bool,
}

impl Open<'_> {
    /// What it waits for; `None` if it is not begun or not taken.
    pub fn wait(&self) -> Option<NetWait> {
        match self.stage {
            Some(Stage::Waits(wait)) => Some(wait),
            _ => None,
        }
    }
}

/// The open network operations of a stalled operation and what is known beside them.
pub(super) struct Gathered<'a> {
    case: &'a Case<'a>,
    stall: &'a Stall,
    /// By member, channel and direction.
    pub open: Vec<Open<'a>>,
}

impl<'a> Gathered<'a> {
    pub fn new(case: &'a Case<'a>, stall: &'a Stall) -> Gathered<'a> {
        let ranks = &case.of(stall.communicator).ranks;
        let of_rank = |(member, rank): (usize, Option<u32>)| Some((rank?, member));
        let members: BTreeMap<u32, usize> = (0..)
            .zip(ranks.iter().map(|own| own.rank))
            .filter_map(of_rank)
            .collect();
        let mut open = Vec::new();
        for (member, own) in ranks.iter().enumerate() {
            let process = &case.capture.processes[own.process];
            let local = process.communicator(own.uid);
            let vague = local.is_none_or(|local| local.abi < 4);
            for op in ops_of(case, stall, member) {
                let wait = op.wait.and_then(|wait| NetWait::at(wait.into()));
                let idle = if op.begun {
                    Stage::NotTaken
                } else {
                    Stage::NotBegun
                };
                open.push(Open {
                    member,
                    peer: op.peer.and_then(|peer| members.get(&peer).copied()),
                    op,
                    stage: match wait {
                        Some(wait) => Some(Stage::Waits(wait)),
                        None => steps_are_recorded(process).then_some(idle),
                    },
                    vague,
                });
            }
        }
        Gathered { case, stall, open }
    }

    /// Whether the processes of all open ones recorded what their steps wait for.
    pub fn are_recorded(&self) -> bool {
        let process = |open: &Open| {
            self.case
                .calls
                .process(self.stall.communicator, open.member)
        };
        self.open
            .iter()
            .all(|open| steps_are_recorded(process(open)))
    }

    /// For each member, the first member of its host. GPUs of one host, as NCCL sees hosts, pass data to each
    /// other without the network.
    pub fn hosts(&self) -> Vec<usize> {
        let communicator = &self.case.capture.communicators[self.stall.communicator];
        let members = 0..self.case.of(self.stall.communicator).ranks.len();
        if communicator.nnodes.is_some() && communicator.nnodes == communicator.nranks {
            return members.collect();
        }
        let mut first = BTreeMap::new();
        members
            .map(|member| {
                let process = self.case.calls.process(self.stall.communicator, member);
                let host = (&process.host, process.fact("env.NCCL_HOSTID"));
                *first.entry(host).or_insert(member)
            })
            .collect()
    }

    /// How many network operations each member has had of the stalled operation; `None` unless all its open
    /// ones are known.
    pub fn counts(&self) -> Vec<Option<u64>> {
        let ranks = &self.case.of(self.stall.communicator).ranks;
        let process = |own: usize| &self.case.capture.processes[own];
        // Which rank's operations such a proxy runs is not recorded, so nothing is known of any of them.
        if ranks.iter().any(|own| serves_others(process(own.process))) {
            return vec![None; ranks.len()];
        }
        (0..ranks.len()).map(|member| self.count(member)).collect()
    }

    fn count(&self, member: usize) -> Option<u64> {
        let own = self.case.member(self.stall.communicator, member);
        let process = &self.case.capture.processes[own.process];
        if !steps_are_recorded(process) {
            return None;
        }
        let ops = |call: &Call| {
            let extra = (call.extra as usize).checked_sub(1);
            extra.map_or((0, 0), |extra| {
                let extra = &process.extras[extra];
                let open = extra.ops_started.wrapping_sub(extra.ops_stopped);
                (u64::from(extra.ops_started), u64::from(open))
            })
        };
        let (started, open) = match self.stall.ordinal {
            Some(ordinal) => ops(&process.calls[own.call(self.stall.lane, ordinal)? as usize]),
            None => {
                let pieces = process.calls.iter().filter(|call| {
                    let shape = &process.shapes[call.shape as usize];
                    !call.sealed && shape.uid == own.uid && shape.is(flag::P2P)
                });
                let sum = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
                pieces.map(ops).fold((0, 0), sum)
            }
        };
        let known = ops_of(self.case, self.stall, member).len() as u64;
        (open == known).then_some(started)
    }
}

/// The newest time at which a network operation of a stalled operation got further.
pub(in crate::hang) fn moved(case: &Case, stall: &Stall) -> Option<HostTime> {
    (0..case.of(stall.communicator).ranks.len())
        .flat_map(|member| ops_of(case, stall, member))
        .filter_map(|op| known(op.since_ns))
        .max()
}

/// The open network operations of a member that belong to a stalled operation.
fn ops_of<'a>(case: &Case<'a>, stall: &Stall, member: usize) -> Vec<&'a NetOp> {
    let own = case.member(stall.communicator, member);
    let process: &'a Process = &case.capture.processes[own.process];
    match stall.ordinal {
        Some(ordinal) => {
            let Some(call) = own.call(stall.lane, ordinal) else {
                return Vec::new();
            };
            let ticket = process.calls[call as usize].ticket;
            let first = process.net_ops.partition_point(|op| op.ticket < ticket);
            let rest = process.net_ops[first..].iter();
            rest.take_while(|op| op.ticket == ticket).collect()
        }
        // Of sends and receives all that are open, because each may hold up the others of its group.
        None => {
            let is_piece = |op: &&NetOp| {
                let calls = &process.calls;
                let call = calls.binary_search_by_key(&op.ticket, |call| call.ticket);
                call.is_ok_and(|call| {
                    let shape = &process.shapes[calls[call].shape as usize];
                    shape.uid == own.uid && shape.is(flag::P2P)
                })
            };
            process.net_ops.iter().filter(is_piece).collect()
        }
    }
}

/// Whether the proxy of a process runs network operations of others (PXN), which are not recorded.
fn serves_others(process: &Process) -> bool {
    let foreign = |counters: &Counters| counters.odd.get(Odd::ForeignPid as usize) != Some(&0);
    process.counters.as_ref().is_none_or(foreign)
}

/// Whether a process recorded what the steps of its network operations wait for.
fn steps_are_recorded(process: &Process) -> bool {
    let mask = process
        .fact("mask")
        .and_then(|mask| u64::from_str_radix(mask.trim_start_matches("0x"), 16).ok());
    mask.is_none_or(|mask| mask & PROXY_STEP != 0)
}
