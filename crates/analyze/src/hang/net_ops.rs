//! The network operations of a call that does not end.
//!
//! `Judge::open` gives those of a [`Stall`] that are open, each an [`Open`]; `roots` follows them.
//!
//! Rule: how many a rank has is known only where as many are there as were counted when they began and ended.

use super::judge::Judge;
use super::waits::Stall;
use capture::live::{flag, Odd};
use std::collections::BTreeMap;
use tables::process::Counters;
use tables::{Call, NetOp, Process};

/// NCCL's bit of ProxyStep events in a mask.
const PROXY_STEP: u64 = 16;

/// A network operation and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open<'a> {
    pub member: usize,
    /// RankCalls of the peer, if the capture has it.
    pub peer: Option<usize>,
    pub op: &'a NetOp,
    /// Below ABI v4 a send does not say that it waits for its peer: it seems to wait for its GPU.
    pub vague: bool,
}

/// An index into `capture::live::WAITS`, by name.
pub(super) mod wait {
    pub const SEND_GPU: Option<u8> = Some(0);
    pub const SEND_PEER: Option<u8> = Some(1);
    pub const SEND_NETWORK: Option<u8> = Some(2);
    pub const RECV_NETWORK: Option<u8> = Some(3);
    pub const RECV_FLUSH: Option<u8> = Some(4);
    pub const RECV_GPU: Option<u8> = Some(5);
}

impl<'a> Judge<'a> {
    /// The open network operations of a stalled operation, by member, channel and direction.
    pub(super) fn open(&self, stall: &Stall) -> Vec<Open<'a>> {
        let communicator = &self.calls.communicators[stall.communicator];
        let member_of: BTreeMap<u32, usize> = communicator
            .ranks
            .iter()
            .enumerate()
            .filter_map(|(member, own)| Some((own.rank?, member)))
            .collect();
        let mut all = Vec::new();
        for (member, own) in communicator.ranks.iter().enumerate() {
            let process = &self.capture.processes[own.process];
            let local = process.communicators.iter().find(|l| l.uid == own.uid);
            let vague = local.is_none_or(|local| local.abi < 4);
            for op in self.of_member(stall, member) {
                all.push(Open {
                    member,
                    peer: op.peer.and_then(|peer| member_of.get(&peer).copied()),
                    op,
                    vague,
                });
            }
        }
        all
    }

    /// The open network operations of a member that belong to a stalled operation.
    fn of_member(&self, stall: &Stall, member: usize) -> Vec<&'a NetOp> {
        let own = &self.calls.communicators[stall.communicator].ranks[member];
        let process: &'a Process = &self.capture.processes[own.process];
        let of = |ticket: u64| {
            let first = process.net_ops.partition_point(|t| t.ticket < ticket);
            let rest = process.net_ops[first..].iter();
            rest.take_while(move |t| t.ticket == ticket)
        };
        match stall.ordinal {
            Some(ordinal) => match own.call(stall.lane, ordinal) {
                Some(call) => of(process.calls[call as usize].ticket).collect(),
                None => Vec::new(),
            },
            // Sends and receives: all that are open, as each may hold up the others of its group.
            None => process
                .net_ops
                .iter()
                .filter(|op| {
                    let calls = &process.calls;
                    let call = calls.binary_search_by_key(&op.ticket, |c| c.ticket);
                    call.is_ok_and(|call| {
                        let shape = &process.shapes[calls[call].shape as usize];
                        shape.uid == own.uid && shape.is(flag::P2P)
                    })
                })
                .collect(),
        }
    }

    /// The newest time at which a network operation of a stalled operation got further, ns since 1970.
    pub(super) fn moved(&self, stall: &Stall) -> Option<i64> {
        (0..self.calls.communicators[stall.communicator].ranks.len())
            .flat_map(|member| self.of_member(stall, member))
            .map(|op| op.since_ns)
            .filter(|since| *since != 0)
            .max()
    }

    /// By member, the first of those whose GPUs pass data to each other without the network: those of a host, as NCCL
    /// sees hosts.
    pub(super) fn hosts(&self, stall: &Stall) -> Vec<usize> {
        let calls = &self.calls.communicators[stall.communicator];
        let communicator = &self.capture.communicators[stall.communicator];
        let members = 0..calls.ranks.len();
        if communicator.nnodes.is_some() && communicator.nnodes == communicator.nranks {
            return members.collect();
        }
        let mut first = BTreeMap::new();
        members
            .map(|member| {
                let process = &self.capture.processes[calls.ranks[member].process];
                let host = (&process.host, process.fact("env.NCCL_HOSTID"));
                *first.entry(host).or_insert(member)
            })
            .collect()
    }

    /// Whether the proxy of a process runs network operations of others (PXN), which are not recorded.
    pub(super) fn serves_others(&self, process: usize) -> bool {
        let counters = self.capture.processes[process].counters.as_ref();
        let foreign = |c: &Counters| c.odd.get(Odd::ForeignPid as usize) != Some(&0);
        counters.is_none_or(foreign)
    }

    /// How many network operations a member has had of a stalled operation; `None` unless all that are open are known.
    pub(super) fn counted(&self, stall: &Stall, member: usize) -> Option<u64> {
        let own = &self.calls.communicators[stall.communicator].ranks[member];
        let process = &self.capture.processes[own.process];
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
        let (started, open) = match stall.ordinal {
            Some(ordinal) => ops(&process.calls[own.call(stall.lane, ordinal)? as usize]),
            None => {
                let pieces = process.calls.iter().filter(|call| {
                    let shape = &process.shapes[call.shape as usize];
                    !call.sealed && shape.uid == own.uid && shape.is(flag::P2P)
                });
                let sum = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
                pieces.map(ops).fold((0, 0), sum)
            }
        };
        (open == self.of_member(stall, member).len() as u64).then_some(started)
    }
}

/// Whether a process recorded what the steps of its network operations wait for.
pub(super) fn steps_are_recorded(process: &Process) -> bool {
    let mask = process
        .fact("mask")
        .and_then(|mask| u64::from_str_radix(mask.trim_start_matches("0x"), 16).ok());
    mask.is_none_or(|mask| mask & PROXY_STEP != 0)
}
