//! One event of each type, for trying what a plugin bears.

use super::types::{CeColl, Coll, Event, Handle, P2p, Text};
use nccl_abi::event;

/// A handle that no plugin of this process gave, unless it gives such on purpose.
pub(crate) const FOREIGN: Handle = Handle(0x7fab_1234_5678_9ab0);

fn coll(text: Text) -> Coll {
    Coll {
        comm_name: std::ptr::null(),
        comm_hash: 0,
        seq: 0,
        func: text,
        send: 0,
        recv: 0,
        count: 1,
        root: 0,
        datatype: text,
        channels: 1,
        max_channels: 1,
        warps: 1,
        algo: text,
        proto: text,
        group: FOREIGN,
        variant: None,
        tag: 0,
    }
}

/// One event of each type that `abi` knows.
pub(crate) fn samples(abi: u8, text: Text) -> Vec<Event> {
    let all = [
        Event::Group,
        Event::Coll(coll(text)),
        Event::P2p(P2p {
            comm_name: std::ptr::null(),
            comm_hash: 0,
            func: text,
            buff: 0,
            datatype: text,
            count: 1,
            peer: 0,
            channels: 1,
            group: FOREIGN,
            tag: 0,
        }),
        Event::ProxyOp {
            pid: std::process::id() as i32,
            channel: 0,
            peer: 0,
            steps: 1,
            chunk: 1,
            send: true,
        },
        Event::ProxyStep { step: 0 },
        Event::ProxyCtrl,
        Event::KernelCh {
            channel: 0,
            stamp: 0,
        },
        Event::NetPlugin {
            id: 0x7fff_0001,
            data: 0,
        },
        Event::GroupApi {
            captured: false,
            depth: 1,
        },
        Event::CollApi {
            func: text,
            count: 1,
            datatype: text,
            root: 0,
            stream: 0,
            captured: false,
            tag: 0,
        },
        Event::P2pApi {
            func: text,
            count: 1,
            datatype: text,
            stream: 0,
            captured: false,
            tag: 0,
        },
        Event::KernelLaunch { stream: 0 },
        Event::CeColl(CeColl {
            seq: 0,
            func: text,
            count: 1,
            root: 0,
            datatype: text,
            strategy: text,
            stream: 0,
            tag: 0,
        }),
        Event::CeSync {
            complete: true,
            ranks: 1,
        },
        Event::CeBatch {
            ops: 1,
            bytes: 1,
            sync: false,
        },
        Event::KernelPhase {
            channel: 0,
            phase: 1,
            name: text,
            stamp: 0,
        },
    ];
    let known = event::known(abi).unwrap_or(0);
    all.into_iter().filter(|e| e.bit() & known != 0).collect()
}
