//! The calling side: a communicator at any ABI, and the events that a test sends to it.

use crate::job::table;
use fake_nccl::event::{Coll, Event, Handle, P2p};
use fake_nccl::plugin::{Identity, Table};
use std::ffi::CString;
use std::sync::atomic::AtomicI32;

pub const ABIS: std::ops::RangeInclusive<u8> = 1..=nccl_abi::NEWEST;

pub static MASK: AtomicI32 = AtomicI32::new(0);

/// A communicator at any ABI.
pub struct Comm {
    pub table: Table,
    pub context: Handle,
    /// The communicator's hash. v1 to v3 tell it with each call, the others at init.
    pub hash: u64,
}

impl Comm {
    pub fn new(abi: u8, hash: u64, rank: i32) -> Comm {
        Comm::named(abi, hash, rank, None)
    }

    pub fn named(abi: u8, hash: u64, rank: i32, name: Option<CString>) -> Comm {
        let table = table(abi);
        let identity = Identity {
            name,
            hash,
            nodes: 3,
            ranks: 24,
            rank,
        };
        let (result, context) = table.init(&MASK, &identity);
        assert_eq!(result, nccl_abi::result::SUCCESS);
        assert_ne!(context, Handle::NULL);
        Comm {
            table,
            context,
            hash,
        }
    }

    pub fn start(&self, event: &Event, parent: Handle) -> Handle {
        let mut handle = Handle::GARBAGE;
        assert!(self
            .table
            .start(self.context, event, parent, 5, &mut handle));
        assert_ne!(handle, Handle::GARBAGE, "the handle was not written");
        handle
    }

    pub fn has_api_events(&self) -> bool {
        self.table.seat.abi >= 5
    }

    /// A collective up to its Coll event, in the order of the ABI's own NCCL; its handles for the API and the
    /// Coll.
    pub fn coll(&self, coll: Coll) -> (Handle, Handle) {
        let coll = Coll {
            comm_hash: self.hash,
            ..coll
        };
        let (mut group, mut api) = (Handle::NULL, Handle::NULL);
        if self.has_api_events() {
            group = self.start(
                &Event::GroupApi {
                    captured: false,
                    depth: 1,
                },
                Handle::NULL,
            );
            let announced = Event::CollApi {
                func: coll.func,
                count: coll.count,
                datatype: coll.datatype,
                root: coll.root,
                stream: 0x57,
                captured: false,
                tag: 0,
            };
            api = self.start(&announced, group);
            self.table.stop(api);
        }
        let plan = self.start(&Event::Group, Handle::NULL);
        let parent = if self.has_api_events() { api } else { plan };
        let handle = self.start(
            &Event::Coll(Coll {
                group: plan,
                ..coll
            }),
            parent,
        );
        self.table.stop(handle);
        self.table.stop(plan);
        if self.has_api_events() {
            self.table.stop(group);
        }
        (api, handle)
    }

    /// A send or receive, likewise.
    pub fn p2p(&self, p2p: P2p) -> Handle {
        let p2p = P2p {
            comm_hash: self.hash,
            ..p2p
        };
        let (mut group, mut api) = (Handle::NULL, Handle::NULL);
        if self.has_api_events() {
            group = self.start(
                &Event::GroupApi {
                    captured: false,
                    depth: 1,
                },
                Handle::NULL,
            );
            let announced = Event::P2pApi {
                func: p2p.func,
                count: p2p.count,
                datatype: p2p.datatype,
                stream: 0x57,
                captured: false,
                tag: 0,
            };
            api = self.start(&announced, group);
            self.table.stop(api);
        }
        let plan = self.start(&Event::Group, Handle::NULL);
        let parent = if self.has_api_events() { api } else { plan };
        let handle = self.start(&Event::P2p(P2p { group: plan, ..p2p }), parent);
        self.table.stop(handle);
        self.table.stop(plan);
        if self.has_api_events() {
            self.table.stop(group);
        }
        handle
    }

    pub fn finalize(self) {
        self.table.finalize(self.context);
    }
}

pub const REDUCE: Coll = Coll {
    comm_name: std::ptr::null(),
    comm_hash: 0,
    seq: 0,
    func: c"Reduce",
    send: 0x5e5e,
    recv: 0xdede,
    count: 1000,
    root: 3,
    datatype: c"ncclFloat16",
    channels: 4,
    max_channels: 4,
    warps: 7,
    algo: c"TREE",
    proto: c"LL128",
    group: Handle::NULL,
    variant: None,
    tag: 0,
};

pub const SEND: P2p = P2p {
    comm_name: std::ptr::null(),
    comm_hash: 0,
    func: c"Send",
    buff: 0xb0ff,
    datatype: c"ncclInt64",
    count: 77,
    peer: 9,
    channels: 2,
    group: Handle::NULL,
    tag: 0,
};

/// One event of each type that an ABI has. Each comes after those that could be its parent.
pub fn one_of_each(abi: u8) -> Vec<Event> {
    let all = [
        Event::Group,
        Event::Coll(REDUCE),
        Event::P2p(SEND),
        Event::ProxyOp {
            pid: std::process::id() as i32,
            channel: 1,
            peer: 2,
            steps: 3,
            chunk: 4,
            send: true,
        },
        Event::ProxyStep { step: 0 },
        Event::ProxyCtrl,
        Event::KernelCh {
            channel: 0,
            stamp: 1 << 40,
        },
        Event::NetPlugin {
            id: 0x3_0001,
            data: 8,
        },
        Event::GroupApi {
            captured: false,
            depth: 1,
        },
        Event::KernelLaunch { stream: 0 },
        Event::CeSync {
            complete: false,
            ranks: 8,
        },
        Event::KernelPhase {
            channel: 0,
            phase: 0,
            name: c"sync",
            stamp: 1 << 40,
        },
    ];
    let known = nccl_abi::event::known(abi).expect("an ABI");
    all.into_iter().filter(|e| known & e.bit() != 0).collect()
}
