//! What is gathered from the blocks and the live part of a process, and put together at the end: [`Parts`].

use super::calls::{call, extra};
use super::live_part::parse_facts;
use super::totals::totals;
use crate::births;
use crate::calls::{Call, Extra};
use crate::clock::{Anchor, Clock};
use crate::communicators::Local;
use crate::graphs::Gathered;
use crate::mpi;
use crate::net_ops;
use crate::on_gpu;
use crate::process::{Counters, LiveSource, NetTotal, Process};
use crate::rotation;
use crate::stacks;
use crate::windows;
use capture::block::{Block, BlockKind};
use capture::live::{self, flag, Comm, View};
use capture::net_totals::{self, NetSum, NetSums};
use capture::rotated::Rotated;
use capture::rows::definitions::{self, Definition};
use capture::rows::{Outline, Record, Shapes, Ticks};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What is gathered from the blocks and the live part before it can be put together.
#[derive(Clone, Default)]
pub(super) struct Parts {
    /// See [`Open::born`](super::Open::born).
    pub(super) born: Option<u64>,
    pub(super) texts: Vec<(u8, String)>,
    /// Columns of rows that are not known.
    pub(super) columns: u32,
    pub(super) anchors: Vec<Anchor>,
    pub(super) nanoseconds: bool,
    comms: BTreeMap<u32, RawComm>,
    pub(super) blocks: Vec<Rows>,
    shapes: Shapes,
    pub(super) graphs: Gathered,
    pub(super) windows: windows::Gathered,
    net_totals: NetSums,
    stacks: stacks::Gathered,
    pub(super) mpi: mpi::Gathered,
    setup: setup::recorded::Blocks,
}

/// A sound block of rows.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) number: u32,
    pub(super) place: PayloadOffset,
    pub(super) bytes: u32,
    pub(super) outline: Outline,
}

/// Offset of a payload.
#[derive(Clone, Copy)]
pub(super) enum PayloadOffset {
    /// In which of [`Reader::files`].
    File(usize, u64),
    Staged(usize),
}

/// Calls that were in the live part, by ticket; with what few of them have.
#[derive(Default)]
pub(super) struct Live {
    pub(super) calls: Vec<Call>,
    pub(super) extras: Vec<Extra>,
}

/// A communicator with its times still in ticks.
#[derive(Clone, Default)]
struct RawComm {
    local: Local,
    t_init: u64,
    t_final: u64,
}

impl Parts {
    /// Definitions, anchors and counters of the live part.
    pub(super) fn of_live(&mut self, view: &View, process: &mut Process) {
        let header = view.header();
        if process.facts.is_empty() {
            process.facts = parse_facts(&String::from_utf8_lossy(&header.process_text()));
        }
        self.nanoseconds = header.clock.load(Relaxed) == 0;
        // An odd version says that the newest anchor was being changed when the process died.
        let torn = header.anchor_version.load(Acquire) % 2 == 1;
        for anchor in [Some(&header.first), (!torn).then_some(&header.last)]
            .into_iter()
            .flatten()
        {
            self.anchors.push(Anchor {
                ticks: anchor.ticks.load(Relaxed),
                realtime: anchor.realtime.load(Relaxed),
                monotonic: anchor.monotonic.load(Relaxed),
            });
        }
        for id in 1..=255u8 {
            if let Some(text) = view.text(id) {
                self.texts.push((id, text));
            }
        }
        for comm in view.comms() {
            let mut payload = Vec::new();
            definitions::put_comm(&mut payload, 0, comm);
            if let Some(Definition::Comm(_, bytes)) = definitions::read(&payload).first() {
                self.comm(bytes);
            }
        }
        process.counters = Some(Counters {
            announced: header.announced(),
            lost: header.lost[..live::CAUSES.len()]
                .iter()
                .map(|n| n.load(Relaxed))
                .collect(),
            odd: header.odd[..live::ODDS.len()]
                .iter()
                .map(|n| n.load(Relaxed))
                .collect(),
            unrequested: header.unrequested.load(Relaxed),
            pages_full: header.pages_full.load(Relaxed),
            write_errno: header.write_errno.load(Relaxed),
            state: header.state.load(Relaxed),
            cuda_error: header.cuda_error.load(Relaxed),
            chain: [
                header.chain_inside.load(Relaxed),
                header.chain_thread.load(Relaxed),
                header.chain_errors.load(Relaxed),
            ],
            in_birth: match process.live {
                LiveSource::Adopted | LiveSource::Here => births::count(view),
                // It has the rows that the recorder's thread had seen.
                LiveSource::Snapshot | LiveSource::None | LiveSource::OtherTool => 0,
            },
        });
    }

    /// One block; false when its content is not well formed.
    pub(super) fn of_block(
        &mut self,
        block: &Block,
        place: impl Fn() -> PayloadOffset,
        process: &mut Process,
    ) -> bool {
        let Block {
            number,
            major,
            payload,
            ..
        } = *block;
        match BlockKind::from_u16(block.kind) {
            Some(BlockKind::Process) if process.facts.is_empty() => {
                process.facts = parse_facts(&String::from_utf8_lossy(payload));
            }
            Some(BlockKind::Anchor) => self.anchors.push(Anchor {
                ticks: Ticks(u64_at(payload, 0)),
                realtime: u64_at(payload, 16),
                monotonic: u64_at(payload, 8),
            }),
            Some(BlockKind::Definitions) => {
                for definition in definitions::read(payload) {
                    match definition {
                        Definition::Text(id, text) => {
                            let text = String::from_utf8_lossy(text).into_owned();
                            self.texts.push((id, text));
                        }
                        Definition::Comm(_, bytes) => self.comm(bytes),
                    }
                }
            }
            Some(BlockKind::Rows) => match self.shapes.outline(major, payload) {
                // Its calls were born after the moment that is shown.
                Some(outline) if self.born.is_some_and(|born| outline.tickets.0 >= born) => {}
                Some(outline) => {
                    self.columns = self.columns.max(outline.unknown);
                    self.blocks.push(Rows {
                        number,
                        place: place(),
                        bytes: payload.len() as u32,
                        outline,
                    });
                }
                None => return false,
            },
            Some(BlockKind::NetTotals) => match net_totals::read(payload) {
                Some(sums) => self.net_totals = sums,
                None => return false,
            },
            Some(BlockKind::Setup) => self.setup.add(&String::from_utf8_lossy(payload)),
            Some(BlockKind::Stacks) => return self.stacks.of_block(payload),
            Some(BlockKind::Mpi) => return self.mpi.of_block(payload),
            Some(BlockKind::Graphs) => return self.graphs.of_graphs(payload),
            Some(BlockKind::Launches) => return self.graphs.of_launches(payload),
            Some(
                kind @ (BlockKind::Windows
                | BlockKind::Names
                | BlockKind::GpuActivities
                | BlockKind::DriverCalls),
            ) => {
                return self.windows.of_block(kind, payload);
            }
            _ => {}
        }
        true
    }

    /// The bytes of a [`Comm`]. A communicator is defined again when more is known, so the last word counts,
    /// but an end that was seen stays.
    fn comm(&mut self, bytes: &[u8]) {
        macro_rules! word {
            ($field:ident) => {
                u32_at(bytes, offset_of!(Comm, $field))
            };
        }
        let uid = word!(uid);
        if uid == 0 {
            return;
        }
        let at = offset_of!(Comm, name);
        let name = bytes.get(at..).unwrap_or(&[]);
        let name =
            String::from_utf8_lossy(&name[..name.len().min(word!(name_len) as usize)]).into_owned();
        let gpu = bytes
            .get(offset_of!(Comm, gpu)..offset_of!(Comm, gpu) + 16)
            .unwrap_or(&[]);
        let known = |n: u32| (n != u32::MAX).then_some(n);
        let t_final = u64_at(bytes, offset_of!(Comm, t_final));
        let entry = self.comms.entry(uid).or_default();
        entry.t_init = u64_at(bytes, offset_of!(Comm, t_init));
        entry.t_final = entry.t_final.max(t_final);
        entry.local = Local {
            uid,
            abi: word!(abi),
            hash: u64_at(bytes, offset_of!(Comm, hash)),
            nranks: word!(nranks),
            nnodes: word!(nnodes),
            rank: known(word!(rank)),
            generation: word!(generation),
            device: known(word!(device)),
            gpu: gpu
                .iter()
                .any(|b| *b != 0)
                .then(|| gpu.iter().map(|b| format!("{b:02x}")).collect()),
            name: (!name.is_empty()).then_some(name),
            thread: Some(word!(tid)).filter(|tid| *tid != 0),
            created_ns: None,
            ended_ns: None,
        };
    }

    /// Puts the process together.
    pub(super) fn finish(
        mut self,
        process: &mut Process,
        view: Option<&View>,
        rotated: Option<&Rotated>,
    ) -> (Vec<Rows>, Shapes, Live) {
        if view.is_none() {
            // Only the recorder's own word tells whether ticks are nanoseconds.
            self.nanoseconds = process
                .fact("clock")
                .is_some_and(|clock| clock.contains("mono") || clock.contains("vdso"));
        }
        let clock = Clock::new(self.anchors, self.nanoseconds);
        process.communicators = self
            .comms
            .into_values()
            .map(|raw| Local {
                created_ns: clock.realtime(Ticks(raw.t_init)),
                ended_ns: clock.realtime(Ticks(raw.t_final)),
                ..raw.local
            })
            .collect();
        let mut live = Live::default();
        if let Some(view) = view {
            let mut cursor = clock.cursor();
            for row in view.rows() {
                let Some(mut record) = Record::load(row) else {
                    continue;
                };
                if self.born.is_some_and(|born| record.ticket >= born) {
                    continue;
                }
                if record.t_end == Ticks(0) && record.shape.flags & flag::UNGROUPED == 0 {
                    record.t_end = group_end(view, record.group, record.t_api);
                }
                let (row, rest) = record.parts(self.shapes.intern(record.shape));
                let mut call = call(&row, &record.shape, false, &mut cursor);
                call.extra = extra(Some(&rest), &clock, &mut live.extras);
                live.calls.push(call);
            }
            live.calls.sort_by_key(|call| call.ticket);
            live.calls.dedup_by_key(|call| call.ticket);
            process.totals = totals(view, &clock, &mut self.shapes);
            process.net_ops = net_ops::open(view, &clock);
            process.on_gpu = on_gpu::open(view, &clock);
        }
        if let Some(view) = view {
            self.graphs.of_live(view);
            self.windows.of_live(view);
        }
        process.windows = self.windows.finish(&clock);
        process.mpi = self.mpi.finish(&clock);
        let shapes = &mut self.shapes;
        let captured = shapes.list().iter().any(|s| s.flags & flag::CAPTURED != 0);
        process.graphs = self.graphs.finish(&clock, captured, |shape| {
            shapes.intern(capture::rows::Shape {
                comm: shape.comm,
                func: shape.func,
                datatype: shape.datatype,
                flags: shape.flags,
                count: shape.count,
                root: shape.root,
                ..Default::default()
            })
        });
        process.graphs.hold_against(&process.windows);
        if let Some(rotated) = rotated {
            rotation::add(rotated, &clock, &mut self.shapes, process);
        }
        process.setup = self.setup.finish();
        process.stacks = self.stacks.finish(process.fact("python"));
        process.net_totals = net(&self.net_totals, &clock, &mut self.shapes);
        process.clock = clock;
        (self.blocks, self.shapes, live)
    }
}

/// What the network did for folded calls, each with a shape of its communicator and function.
fn net(sums: &NetSums, clock: &Clock, shapes: &mut Shapes) -> Vec<NetTotal> {
    let mut total = |((comm, func), sum): (&(u32, u8), &NetSum)| {
        let mut list = shapes.list().iter();
        let known = list.position(|s| (s.comm, s.func) == (*comm, *func));
        let shape = known.map_or_else(
            || {
                shapes.intern(capture::rows::Shape {
                    comm: *comm,
                    func: *func,
                    root: -1,
                    ..Default::default()
                })
            },
            |index| index as u32,
        );
        NetTotal {
            shape,
            calls: sum.calls,
            operations: [sum.started, sum.stopped],
            steps: sum.steps,
            bytes: sum.bytes,
            // Waits are in units of 64 ticks.
            waits_ns: sum
                .waits
                .map(|w| clock.duration(w.saturating_mul(64)).unwrap_or(0)),
        }
    };
    sums.iter().map(&mut total).collect()
}

/// When the group with this ticket + 1 returned, if the live part still knows; 0 otherwise. A time before
/// that of its call is a late word of the group that had the entry before.
fn group_end(view: &View, word: u64, t_api: Ticks) -> Ticks {
    let groups = view.groups();
    let Some(index) = word
        .checked_sub(1)
        .and_then(|ticket| ticket.checked_rem(groups.len() as u64))
    else {
        return Ticks(0);
    };
    let group = &groups[index as usize];
    let t_stop = group.t_stop.load(Acquire);
    if group.word.load(Acquire) == word && t_stop >= t_api {
        t_stop
    } else {
        Ticks(0)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |b| u32::from_le_bytes(b.try_into().expect("4 bytes")))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .map_or(0, |b| u64::from_le_bytes(b.try_into().expect("8 bytes")))
}
