//! Random callback programs: bytes that say which callbacks come, at any ABI, with any handles, in any order.
//!
//! [`play`] reads a program from any bytes, so that a fuzzer's input and a property test's are the same
//! thing, and drives the exported tables with it. Descriptors are made by fake-nccl, which poisons every byte
//! that the event and the version do not define. Texts are valid C strings, as NCCL's are; everything else
//! may be anything.
//!
//! Rule: a program announces as many calls as [`Announced`] says, whatever else it does.
#![allow(dead_code)]

use crate::job::table;
use fake_nccl::event::{CeColl, Coll, Event, Handle, P2p, Text};
use fake_nccl::plugin::{Identity, Table};
use std::ffi::CString;
use std::sync::atomic::AtomicI32;

static MASK: AtomicI32 = AtomicI32::new(0);

/// Communicators that one program begins at most: fewer than the recorder has places for.
const COMMS: usize = 12;
/// Handles that are remembered.
const HANDLES: usize = 64;

const TEXTS: [Text; 14] = [
    c"AllReduce",
    c"Broadcast",
    c"ReduceScatter",
    c"AllGather",
    c"Send",
    c"Recv",
    c"ncclFloat32",
    c"ncclInt8",
    c"RING",
    c"LL",
    c"",
    c"Unknown",
    c"\x1b[31m\x07\n\xff\xfe\"\\",
    c"a text that is longer than any that NCCL has, longer than the sixty bytes that the table of strings \
        keeps of it",
];

/// How many calls a program announced: at least, and at most (a replay is announced by a Coll whose parent
/// was captured).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    pub least: u64,
    pub most: u64,
}

/// The bytes of a program, read from the front; zeros beyond the end.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                *first
            }
            [] => 0,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Small values, those at the ends of the types, and any other.
    fn word(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=127 => small.into(),
            128 => u64::MAX,
            129 => 1 << 63,
            130 => u32::MAX.into(),
            131 => i32::MAX as u64,
            shift @ 132..=191 => u64::from(self.byte()) << (shift - 132),
            _ => (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte())),
        }
    }

    fn text(&mut self) -> Text {
        TEXTS[self.below(TEXTS.len())]
    }
}

struct Comm {
    table: Table,
    context: Handle,
    live: bool,
}

struct Player<'a> {
    bytes: Reader<'a>,
    comms: Vec<Comm>,
    handles: Vec<Handle>,
    announced: Announced,
}

/// Plays the program on this thread. It ends by finalizing what it began, unless its last byte is odd.
pub fn play(program: &[u8]) -> Announced {
    let mut player = Player {
        bytes: Reader(program),
        comms: Vec::new(),
        handles: Vec::new(),
        announced: Announced::default(),
    };
    player.begin();
    while !player.bytes.0.is_empty() {
        player.step();
    }
    if program.last().is_none_or(|last| last % 2 == 0) {
        for comm in player.comms.iter().filter(|c| c.live) {
            comm.table.finalize(comm.context);
        }
    }
    player.announced
}

impl Player<'_> {
    fn begin(&mut self) {
        if self.comms.len() == COMMS {
            return;
        }
        let bytes = &mut self.bytes;
        let table = table(1 + bytes.below(7) as u8);
        let name = bytes.flag().then(|| CString::from(bytes.text()));
        let identity = Identity {
            name,
            hash: bytes.word(),
            nodes: bytes.word() as i32,
            ranks: bytes.word() as i32,
            rank: bytes.word() as i32,
        };
        let (result, context) = table.init(&MASK, &identity);
        assert_eq!(result, nccl_abi::result::SUCCESS);
        assert_ne!(context, Handle::NULL);
        self.comms.push(Comm {
            table,
            context,
            live: true,
        });
    }

    /// One that was given, or a word that never was.
    fn handle(&mut self) -> Handle {
        let n = self.handles.len();
        match self.bytes.byte() {
            0..=200 if n > 0 => self.handles[n - 1 - self.bytes.below(n.min(HANDLES))],
            201..=215 => Handle::NULL,
            216..=225 => self.comms[self.bytes.below(self.comms.len())].context,
            226..=240 if n > 0 => {
                let one = self.handles[self.bytes.below(n)];
                Handle(one.0 ^ 1 << self.bytes.below(64))
            }
            _ => Handle(self.bytes.word() as usize),
        }
    }

    fn event(&mut self) -> Event {
        let b = &mut self.bytes;
        match b.below(17) {
            0 => Event::Group,
            1 | 2 => Event::Coll(Coll {
                comm_name: std::ptr::null(),
                comm_hash: b.word(),
                seq: b.word(),
                func: b.text(),
                send: b.word() as usize,
                recv: b.word() as usize,
                count: b.word() as usize,
                root: b.word() as i32,
                datatype: b.text(),
                channels: b.byte(),
                max_channels: b.byte(),
                warps: b.byte(),
                algo: b.text(),
                proto: b.text(),
                group: Handle(b.word() as usize),
                variant: b.flag().then(|| b.text()),
                tag: b.word(),
            }),
            3 => Event::P2p(P2p {
                comm_name: std::ptr::null(),
                comm_hash: b.word(),
                func: b.text(),
                buff: b.word() as usize,
                datatype: b.text(),
                count: b.word() as usize,
                peer: b.word() as i32,
                channels: b.byte(),
                group: Handle(b.word() as usize),
                tag: b.word(),
            }),
            4 => Event::ProxyOp {
                pid: if b.flag() {
                    std::process::id() as i32
                } else {
                    b.word() as i32
                },
                channel: b.byte(),
                peer: b.word() as i32,
                steps: b.word() as i32,
                chunk: b.word() as i32,
                send: b.flag(),
            },
            5 => Event::ProxyStep {
                step: b.word() as i32,
            },
            6 => Event::ProxyCtrl,
            7 | 8 => Event::KernelCh {
                channel: b.byte(),
                stamp: b.word(),
            },
            9 => Event::NetPlugin {
                id: b.word() as i64,
                data: b.word() as usize,
            },
            10 => Event::GroupApi {
                captured: b.flag(),
                depth: b.word() as i32,
            },
            11 => Event::CollApi {
                func: b.text(),
                count: b.word() as usize,
                datatype: b.text(),
                root: b.word() as i32,
                stream: b.word() as usize,
                captured: b.flag(),
                tag: b.word(),
            },
            12 => Event::P2pApi {
                func: b.text(),
                count: b.word() as usize,
                datatype: b.text(),
                stream: b.word() as usize,
                captured: b.flag(),
                tag: b.word(),
            },
            13 => Event::KernelLaunch {
                stream: b.word() as usize,
            },
            14 => match b.below(3) {
                0 => Event::CeColl(CeColl {
                    seq: b.word(),
                    func: b.text(),
                    count: b.word() as usize,
                    root: b.word() as i32,
                    datatype: b.text(),
                    strategy: b.text(),
                    stream: b.word() as usize,
                    tag: b.word(),
                }),
                1 => Event::CeSync {
                    complete: b.flag(),
                    ranks: b.word() as i32,
                },
                _ => Event::CeBatch {
                    ops: b.word() as i32,
                    bytes: b.word() as usize,
                    sync: b.flag(),
                },
            },
            15 => Event::KernelPhase {
                channel: b.byte(),
                phase: b.byte(),
                name: b.text(),
                stamp: b.word(),
            },
            // None that a version has, whatever that is.
            _ => Event::Unknown(1 << (20 + b.below(40))),
        }
    }

    /// Starts an event of `comm` and counts what it announces.
    fn start(&mut self, comm: usize, event: Event, parent: Handle) -> Handle {
        let Comm {
            table,
            context,
            live,
        } = &self.comms[comm];
        let abi = table.seat.abi;
        let known = nccl_abi::event::known(abi).expect("an ABI") & event.bit() != 0;
        // A version's types are encoded as it has them, and any others not at all.
        if !known && !matches!(event, Event::Unknown(_)) {
            return parent;
        }
        let mut handle = Handle::GARBAGE;
        assert!(table.start(*context, &event, parent, 5, &mut handle));
        assert!(handle != Handle::GARBAGE && handle != Handle::NULL);
        let task = matches!(event, Event::Coll(_) | Event::P2p(_));
        let api = matches!(event, Event::CollApi { .. } | Event::P2pApi { .. });
        if *live && (api || task && abi < 5) {
            self.announced.least += 1;
        }
        self.announced.most += 1;
        self.handles.push(handle);
        handle
    }

    fn step(&mut self) {
        let comm = self.bytes.below(self.comms.len());
        let table = self.comms[comm].table;
        match self.bytes.byte() {
            0..=119 => {
                let (event, parent) = (self.event(), self.handle());
                self.start(comm, event, parent);
            }
            120..=159 => {
                let handle = self.handle();
                table.stop(handle);
            }
            160..=199 => {
                let (handle, number) = (self.handle(), self.bytes.word() as u32 % 64);
                let mut args = [self.bytes.word(), self.bytes.word()];
                let args = self.bytes.flag().then_some(&mut args);
                table.state_raw(handle, number, args);
            }
            200..=209 => self.begin(),
            210..=219 => {
                let comm = &mut self.comms[comm];
                comm.live = false;
                comm.table.finalize(comm.context);
            }
            220..=224 => {
                // A context that is none.
                let (context, event, parent) = (self.handle(), self.event(), self.handle());
                let ours = self.comms.iter().any(|c| c.context == context);
                let known = nccl_abi::event::known(table.seat.abi).expect("an ABI");
                if !ours && known & event.bit() != 0 {
                    let mut handle = Handle::GARBAGE;
                    table.start(context, &event, parent, 5, &mut handle);
                }
            }
            225..=229 => std::thread::yield_now(),
            // A call in NCCL's own order, so that later steps find rows in every state.
            _ => {
                let captured = self.bytes.flag();
                let group = self.start(comm, Event::GroupApi { captured, depth: 1 }, Handle::NULL);
                let announced = Event::CollApi {
                    func: self.bytes.text(),
                    count: self.bytes.word() as usize,
                    datatype: c"ncclFloat32",
                    root: 0,
                    stream: 1,
                    captured,
                    tag: 0,
                };
                let api = self.start(comm, announced, group);
                table.stop(api);
                let launch = self.start(comm, Event::KernelLaunch { stream: 1 }, group);
                table.stop(launch);
                let plan = self.start(comm, Event::Group, Handle::NULL);
                let parent = if table.seat.abi < 5 { plan } else { api };
                let coll = Event::Coll(Coll {
                    comm_name: std::ptr::null(),
                    comm_hash: 1,
                    seq: self.bytes.word(),
                    func: c"AllReduce",
                    send: 0,
                    recv: 0,
                    count: 1,
                    root: 0,
                    datatype: c"ncclFloat32",
                    channels: 2,
                    max_channels: 2,
                    warps: 4,
                    algo: c"RING",
                    proto: c"LL",
                    group: plan,
                    variant: None,
                    tag: 0,
                });
                let coll = self.start(comm, coll, parent);
                for channel in 0..2 {
                    let stamp = self.bytes.word();
                    let kernel = self.start(comm, Event::KernelCh { channel, stamp }, coll);
                    table.state_raw(kernel, 22, Some(&mut [stamp.wrapping_add(100), 0]));
                    table.stop(kernel);
                }
                table.stop(coll);
                table.stop(plan);
                table.stop(group);
            }
        }
    }
}
