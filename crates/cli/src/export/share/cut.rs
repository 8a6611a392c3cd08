//! Which part of a run is written, and blocks without the rest.
//!
//! Calls outside of the part are left out of blocks of rows and of callbacks. Blocks of other kinds, live
//! parts and samples are written whole: `part.json` says which spans of time count, and readers leave out
//! what else is there.
//!
//! Rule: all calls of a group are written if one of them is in the part, so that operations of several calls
//! are put together as before.

use anyhow::anyhow;
use capture::block::{Block, BlockKind};
use capture::callback::{self, Callback, EntryPoint};
use capture::format::FORMAT;
use capture::rows::{Decoder, Encoder, Record, Rest, Sealed, Shapes};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use tables::clock::Clock;
use tables::part::{OfProcess, Part};
use tables::spans::{self, Spans};
use tables::{whole, Capture};

/// What is written of a run, by the files of a process without their endings.
pub struct Cut {
    /// In words of the original.
    pub said: String,
    begins_together: bool,
    processes: BTreeMap<PathBuf, OfOne>,
}

struct OfOne {
    spans: Spans,
    forgotten: u64,
    tickets: BTreeSet<u64>,
    clock: Clock,
    shapes: Shapes,
    encoder: Encoder,
    decoder: Decoder,
    /// Events that began in the part, by the plugin's handles.
    open: HashSet<u64>,
}

impl Cut {
    /// Finds the part in a capture.
    pub fn new(mut capture: Capture, asked: &analyze::spans::Part) -> anyhow::Result<Cut> {
        let no = |no: analyze::spans::NoPart| anyhow!("{no}\n  hint: {}", no.hint);
        let (spans, said) = asked.spans(&capture).map_err(no)?;
        // By process, the groups of calls by ticket.
        let groups: Vec<BTreeMap<u64, u64>> = capture
            .processes
            .iter()
            .map(|of| of.calls.iter().map(|c| (c.ticket, c.group)).collect())
            .collect();
        spans::keep(&mut capture, &spans);
        let tickets = capture
            .processes
            .iter()
            .zip(groups)
            .map(|(process, groups)| {
                let known = process.calls.iter().filter(|call| call.group != 0);
                let whole: BTreeSet<u64> = known.map(|call| call.group).collect();
                let mates = groups.iter().filter(|(_, group)| whole.contains(group));
                let kept = process.calls.iter().map(|call| call.ticket);
                kept.chain(mates.map(|(ticket, _)| *ticket)).collect()
            });
        let tickets: Vec<BTreeSet<u64>> = tickets.collect();
        // Readers do the same, with all calls of the spans.
        if asked.begins_together() {
            spans::begin_together(&mut capture);
        }
        let processes = capture.processes.iter().zip(spans).zip(tickets);
        let processes = processes.filter_map(|((process, spans), tickets)| {
            let of = OfOne {
                tickets,
                spans,
                forgotten: process.forgotten,
                clock: process.clock.clone(),
                shapes: Shapes::default(),
                encoder: Encoder::new(),
                decoder: Decoder::new(),
                open: HashSet::new(),
            };
            Some((whole::process_of(&process.file)?, of))
        });
        Ok(Cut {
            said,
            begins_together: asked.begins_together(),
            processes: processes.collect(),
        })
    }

    /// Whether files with this stem are of a process that is in the part.
    pub fn has(&self, stem: &Path) -> bool {
        self.processes.contains_key(stem)
    }

    /// What readers must know, with the names that files have now.
    pub fn part(&self, said: String, place: impl FnMut(&PathBuf) -> PathBuf) -> Part {
        let places = self.processes.keys().map(place);
        let of = self.processes.values().map(|of| OfProcess {
            spans: of.spans.clone(),
            forgotten: of.forgotten,
        });
        Part {
            said,
            begins_together: self.begins_together,
            processes: places.zip(of).collect(),
        }
    }

    /// The payload of a block without what is outside of the part, and the major number of its format;
    /// nothing if it is not well formed.
    pub fn payload(&mut self, stem: &Path, block: &Block<'_>) -> Option<(u16, Vec<u8>)> {
        let whole = || Some((block.major, block.payload.to_vec()));
        let Some(of) = self.processes.get_mut(stem) else {
            return whole();
        };
        match BlockKind::from_u16(block.kind) {
            Some(BlockKind::Rows) => Some((FORMAT.major, of.rows(block)?)),
            Some(BlockKind::Callbacks) => Some((block.major, of.callbacks(block.payload))),
            _ => whole(),
        }
    }
}

impl OfOne {
    fn rows(&mut self, block: &Block<'_>) -> Option<Vec<u8>> {
        let outline = self.shapes.outline(block.major, block.payload)?;
        let (shapes, tickets) = (&self.shapes, &self.tickets);
        let mut records = Vec::new();
        let none = Rest::default();
        let keep = |row: &Sealed, rest: Option<&Rest>| {
            if tickets.contains(&row.ticket) {
                let shape = &shapes.list()[row.shape as usize];
                records.push(Record::from((row, rest.unwrap_or(&none), shape)));
            }
        };
        self.decoder.decode(shapes, &outline, block.payload, keep)?;
        let mut out = Vec::new();
        // Each block says its shapes itself: those before it may be left out or damaged.
        self.encoder.restart();
        self.encoder.encode(&mut out, &records);
        Some(out)
    }

    fn callbacks(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for record in callback::read(bytes) {
            if self.is_written(&record) {
                let start = out.len();
                out.extend(record.header());
                out.extend(record.payload);
                out.resize(start + callback::record_bytes(record.payload.len()), 0);
            }
        }
        out
    }

    fn is_written(&mut self, record: &Callback<'_>) -> bool {
        match record.what {
            EntryPoint::Start => {
                let at = self.clock.realtime(record.ticks).unwrap_or(0);
                let is_in = self.spans.iter().any(|span| span.contains(&at));
                if is_in {
                    self.open.insert(record.result);
                } else {
                    // The plugin gives handles out again.
                    self.open.remove(&record.result);
                }
                is_in
            }
            EntryPoint::Stop | EntryPoint::State => self.open.contains(&record.subject),
            EntryPoint::Init | EntryPoint::Finalize | EntryPoint::Text | EntryPoint::Thread => true,
        }
    }
}
