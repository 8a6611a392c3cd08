//! Reads the files of one process, in two steps.
//!
//! [`scan`] goes once over everything and learns all but the sealed calls: facts, communicators, shapes, the clock, what is
//! in the live part, and where which rows are. A [`Reader`] then decodes the calls, all at once or one range of tickets
//! after another, each independent of the others.
//!
//! Both put together the trace file's blocks, the staged ones of the live part, the rows that were never sealed, and the
//! totals, in this order of trust: a block of the file over a staged one with the same number, a sealed row over a live
//! one with the same ticket.
//!
//! Rule: no bytes make it panic; what is unsound is left out and becomes a [`Problem`].

use crate::births;
use crate::calls::{Call, Extra, Shape};
use crate::clock::{Anchor, Clock, Cursor};
use crate::communicators::Local;
use crate::files::{self, load, Files, Held};
use crate::names::{Name, Names};
use crate::net_ops;
use crate::problem::Problem;
use crate::process::{Counters, HistogramOf, LiveSource, Process, Total};
use crate::rotation;
use crate::trace::{Trace, TraceFile};
use capture::block::{self, Damage, Kind};
use capture::live::{self, flag, part, Comm, Image, View};
use capture::rotated::Rotated;
use capture::rows::definitions::{self, Definition};
use capture::rows::{Decoder, Outline, Record, Rest, Sealed, Shapes};
use capture::{snapshot, stamps};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The sound blocks of the trace files by number, staged ones included.
struct Blocks<'a> {
    /// Kind and content by number.
    sound: BTreeMap<u32, (u16, &'a [u8])>,
    /// Blocks that are damaged or not there.
    bad: u64,
}

/// All sound blocks of the trace files and of the live part's staging area.
///
/// A write that was cut short left a part of a block at the end of the file; the staging area has it whole, and then it
/// is no damage.
fn blocks<'a>(trace: &'a Trace, open: &'a Open, problems: &mut Vec<Problem>) -> Blocks<'a> {
    let mut sound = BTreeMap::new();
    let mut damages: Vec<(&TraceFile, Damage)> = Vec::new();
    let mut next_number = 0;
    for file in &trace.files {
        if file.bytes.is_empty() && !open.staged.is_empty() {
            continue;
        }
        let keep = |b: block::Block<'a>| {
            sound.insert(b.number, (b.kind, b.payload));
        };
        block::read_on(&file.bytes, &mut next_number, keep, |d| {
            damages.push((file, d));
        });
    }
    // Staged blocks have no file header before them.
    let add = |b: block::Block<'a>| {
        sound.entry(b.number).or_insert((b.kind, b.payload));
    };
    block::read(&open.staged, add, |_| ());
    let staged_to = open.staged_base + open.staged.len();
    let made_good = |file: &TraceFile, at: u64, end: u64| {
        !open.staged.is_empty()
            && file.number == open.staged_for
            && at >= open.staged_base as u64
            && end <= staged_to.max(file.bytes.len()) as u64
    };
    let mut bad = 0;
    for (file, damage) in damages {
        let (place, expected, found) = match damage {
            Damage::FileHeader if file.bytes.is_empty() => (
                "byte 0".into(),
                "a trace file's header".into(),
                "an empty file".into(),
            ),
            Damage::FileHeader => (
                "byte 0".into(),
                "a trace file's header".into(),
                "other bytes".into(),
            ),
            Damage::Format { found } => {
                let expected = format!("format {}, which this ncclscope reads", capture::FORMAT);
                (
                    "byte 8".into(),
                    expected,
                    format!("format {found}; a newer ncclscope may read it"),
                )
            }
            Damage::Skipped { at, bytes } if !made_good(file, at, at + bytes) => (
                format!("byte {at}"),
                "a block".into(),
                format!("{bytes} bytes that are none"),
            ),
            Damage::Truncated { at } if !made_good(file, at, file.bytes.len() as u64) => (
                format!("byte {at}"),
                "a whole block".into(),
                "the end of the file".into(),
            ),
            Damage::Payload { at, number, .. } if !sound.contains_key(&number) => {
                bad += 1;
                (
                    format!("byte {at}, block {number}"),
                    "content that matches its checksum".into(),
                    "damaged content".into(),
                )
            }
            Damage::Missing { first, count } => {
                // A damaged header also shows as a number that is not there; the staging area may have it.
                let last = first.saturating_add(count);
                let there = sound.range(first..last).count() as u64 + trace.gone(first, last);
                let gone = u64::from(count).saturating_sub(there);
                bad += gone;
                if gone == 0 {
                    continue;
                }
                let place = format!("block {first}");
                (
                    place,
                    "blocks numbered without a gap".into(),
                    format!("{gone} missing"),
                )
            }
            _ => continue,
        };
        problems.push(Problem {
            file: file.path.clone(),
            place,
            expected,
            found,
        });
    }
    Blocks { sound, bad }
}

/// The live part that belongs to a trace file: the first of its places that has its id.
fn find_live(
    files: &Files,
    facts: &BTreeMap<String, String>,
    trace_id: Option<u64>,
    problems: &mut Vec<Problem>,
) -> Option<(Image, LiveSource)> {
    let here = facts
        .get("live")
        .filter(|path| {
            path.starts_with('/') && facts.get("boot_id").is_some_and(|id| *id == boot_id())
        })
        .map(PathBuf::from)
        .filter(|path| path.is_file());
    let places = [
        (files.live.as_ref(), LiveSource::Adopted),
        (here.as_ref(), LiveSource::Here),
        (files.snapshot.as_ref(), LiveSource::Snapshot),
    ];
    for (path, source) in places {
        let Some(path) = path else { continue };
        let bytes = load(path, problems);
        let image = match source {
            LiveSource::Snapshot => snapshot::read(&bytes),
            _ => Some(Image::copy(&bytes)),
        };
        let found = match image.as_ref().and_then(|image| image.view()) {
            None if bytes.is_empty() => "an empty file".to_owned(),
            None => "bytes that are none".to_owned(),
            Some(view) => match (trace_id, view.header().trace_id.load(Relaxed)) {
                (Some(wanted), found) if wanted != found => {
                    format!("one of another trace file ({found:016x})")
                }
                _ => return image.map(|image| (image, source)),
            },
        };
        let expected = "the live part of this trace file".to_owned();
        problems.push(Problem {
            file: path.clone(),
            place: "its header".into(),
            expected,
            found,
        });
    }
    None
}

/// The id of this boot of this host, empty where there is none.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn parse_facts(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// What [`LiveSource`] found, and the bytes that complete the trace file.
struct Open {
    image: Option<Image>,
    source: LiveSource,
    staged: Vec<u8>,
    staged_base: usize,
    /// Number of the trace file that these are of.
    staged_for: u32,
}

fn open_live(
    files: &Files,
    facts: &BTreeMap<String, String>,
    trace: &Trace,
    problems: &mut Vec<Problem>,
) -> Open {
    let mut open = Open {
        image: None,
        source: LiveSource::None,
        staged: Vec::new(),
        staged_base: 0,
        staged_for: 0,
    };
    let Some((image, source)) = find_live(files, facts, trace.id(), problems) else {
        return open;
    };
    if let Some(view) = image.view() {
        let header = view.header();
        let len = (header.staged_len.load(Acquire) as usize).min(view.staging().len());
        open.staged = view.staging()[..len]
            .iter()
            .map(|b| b.load(Relaxed))
            .collect();
        open.staged_base = usize::try_from(header.staged_base.load(Relaxed))
            .map_or(usize::MAX / 2, |n| n.min(usize::MAX / 2));
        open.staged_for = header.trace_number.load(Acquire);
    }
    (open.image, open.source) = (Some(image), source);
    open
}

/// The facts of the first Process block.
fn first_facts(file: &[u8]) -> BTreeMap<String, String> {
    let within = |file: &[u8]| {
        let mut facts = BTreeMap::new();
        let process = |b: block::Block| {
            if b.kind == Kind::Process as u16 && facts.is_empty() {
                facts = parse_facts(&String::from_utf8_lossy(b.payload));
            }
        };
        block::read(file, process, |_| ());
        facts
    };
    // It is the first of all, but where that is damaged.
    let facts = within(&file[..file.len().min(64 << 10)]);
    if facts.is_empty() {
        within(file)
    } else {
        facts
    }
}

/// A process, read but for its sealed calls.
pub(crate) struct Scan {
    /// Without shapes, calls and extras.
    pub process: Process,
    pub reader: Reader,
    /// Strings and their ids, in the order in which they were met.
    texts: Vec<(u8, String)>,
}

/// The trace files and the live part of one process. A job that goes on makes trace files and removes others meanwhile; then
/// all is done again, a few times at most.
fn opened(files: &Files, problems: &mut Vec<Problem>) -> (Trace, BTreeMap<String, String>, Open) {
    let mut newer = None;
    for turn in 0.. {
        let files = newer.as_ref().unwrap_or(files);
        let mut found = Vec::new();
        let trace = Trace::load(files, &mut found);
        let facts = first_facts(&trace.files[0].bytes);
        let open = open_live(files, &facts, &trace, &mut found);
        let newest = trace.files.last().map_or(0, |file| file.number);
        let moved = open.staged_for > newest || files.later.values().any(|path| !path.exists());
        if moved && turn < 5 {
            let again = files::find(files.path(), &mut Vec::new())
                .into_iter()
                .next();
            let again = again.filter(|again| again != files);
            if again.is_some() {
                newer = again;
                continue;
            }
        }
        problems.append(&mut found);
        return (trace, facts, open);
    }
    unreachable!("the last turn returns")
}

/// Goes over the files of one process; `None` when nothing in them is sound.
pub(crate) fn scan(files: &Files, problems: &mut Vec<Problem>) -> Option<Scan> {
    let path = files.path();
    let (trace, facts, open) = opened(files, problems);
    let view = open.image.as_ref().and_then(Image::view);
    let found = blocks(&trace, &open, problems);
    if found.sound.is_empty() && view.is_none() && trace.id().is_none() {
        return None;
    }
    let mut process = Process {
        file: path.to_owned(),
        restart: files.restart(),
        live: open.source,
        bad_blocks: found.bad,
        ended: found
            .sound
            .last_key_value()
            .is_some_and(|(_, (kind, _))| *kind == Kind::End as u16),
        facts,
        ..Process::default()
    };
    let mut parts = Parts::default();
    if let Some(view) = &view {
        parts.of_live(view, &mut process);
    }
    for (number, (kind, payload)) in &found.sound {
        let place = || {
            // A payload lies in a file or in the staging area.
            let within = |bytes: &[u8]| {
                let at = (payload.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
                (at + payload.len() <= bytes.len()).then_some(at)
            };
            let files = trace.files.iter().enumerate();
            let in_file = || {
                let mut found = files.filter_map(|(file, f)| Some((file, within(&f.bytes)?)));
                found.next().unwrap_or((0, 0))
            };
            match within(&open.staged) {
                Some(at) => Place::Staged(at),
                None => {
                    let (file, at) = in_file();
                    Place::File(file, at as u64)
                }
            }
        };
        if !parts.of_block(*number, *kind, payload, place, &mut process) {
            problems.push(malformed(path, *number));
            process.bad_blocks += 1;
        }
    }
    identify(&mut process, files, view.as_ref());
    let texts = std::mem::take(&mut parts.texts);
    let (blocks, shapes, live) = parts.finish(&mut process, view.as_ref(), trace.rotated.as_ref());
    let reader = Reader {
        files: trace.files.into_iter().map(|f| (f.path, f.held)).collect(),
        staged: open.staged,
        blocks,
        shapes,
        live,
    };
    Some(Scan {
        process,
        reader,
        texts,
    })
}

impl Scan {
    /// Gives the process its shapes, now that names can be interned.
    pub(crate) fn name(mut self, names: &mut Names) -> (Process, Reader) {
        let mut texts = vec![Name::NONE; 256];
        let mut early = Vec::new();
        for (id, text) in &self.texts {
            texts[usize::from(*id)] = names.intern(text);
            if stamps::stops_early(text) {
                early.push(texts[usize::from(*id)]);
            }
        }
        let communicators = &self.process.communicators;
        let shapes = self.reader.shapes.list().iter();
        self.process.shapes = shapes
            .map(|s| named(s, &texts, &early, communicators))
            .collect();
        (self.process, self.reader)
    }
}

pub(crate) fn malformed(path: &Path, number: u32) -> Problem {
    Problem {
        file: path.to_owned(),
        place: format!("block {number}"),
        expected: "well-formed rows".into(),
        found: "bytes that no recorder writes".into(),
    }
}

/// Host, pid and rank: from the facts, else from where the file is and what it is called.
fn identify(process: &mut Process, files: &Files, view: Option<&View>) {
    let number = |key: &str| process.fact(key).and_then(|v| v.parse::<u32>().ok());
    let stem = files
        .stem
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or("");
    let part = |letter: char| {
        stem.split('-')
            .find_map(|p| p.strip_prefix(letter)?.parse::<u32>().ok())
    };
    let folder = files
        .stem
        .parent()
        .and_then(Path::file_name)
        .map(|n| n.to_string_lossy().into_owned());
    let rank = number("rank").or_else(|| part('r'));
    let pid = number("pid")
        .or_else(|| view.map(|v| v.header().pid.load(Relaxed)))
        .or_else(|| part('p'));
    let host = process.fact("host").map(str::to_owned).or(folder);
    (process.rank, process.pid, process.host) = (rank, pid.unwrap_or(0), host.unwrap_or_default());
}

/// What is gathered from the blocks and the live part before it can be put together.
#[derive(Default)]
struct Parts {
    texts: Vec<(u8, String)>,
    anchors: Vec<Anchor>,
    nanoseconds: bool,
    comms: BTreeMap<u32, RawComm>,
    blocks: Vec<Rows>,
    shapes: Shapes,
}

/// A sound block of rows.
struct Rows {
    number: u32,
    place: Place,
    bytes: u32,
    outline: Outline,
}

/// Offset of a payload.
enum Place {
    /// In which of [`Reader::files`].
    File(usize, u64),
    Staged(usize),
}

/// Calls that were in the live part, by ticket; with what few of them have.
#[derive(Default)]
struct Live {
    calls: Vec<Call>,
    extras: Vec<Extra>,
}

/// A communicator with its times still in ticks.
#[derive(Default)]
struct RawComm {
    local: Local,
    t_init: u64,
    t_final: u64,
}

impl Parts {
    /// Definitions, anchors and counters of the live part.
    fn of_live(&mut self, view: &View, process: &mut Process) {
        let header = view.header();
        let len = (header.process_len.load(Acquire) as usize).min(header.process.len());
        if process.facts.is_empty() {
            let text: Vec<u8> = header.process[..len]
                .iter()
                .map(|b| b.load(Relaxed))
                .collect();
            process.facts = parse_facts(&String::from_utf8_lossy(&text));
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
            // As `Header::announced`, but garbage must not overflow.
            announced: header
                .born
                .load(Relaxed)
                .saturating_add(header.lost[live::Cause::RowsFull as usize].load(Relaxed)),
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
            in_birth: match process.live {
                LiveSource::Adopted | LiveSource::Here => births::count(view),
                // It has the rows that the recorder's thread had seen.
                LiveSource::Snapshot | LiveSource::None => 0,
            },
        });
    }

    /// One block; false when its content is not well formed.
    fn of_block(
        &mut self,
        number: u32,
        kind: u16,
        payload: &[u8],
        place: impl Fn() -> Place,
        process: &mut Process,
    ) -> bool {
        match Kind::from_u16(kind) {
            Some(Kind::Process) if process.facts.is_empty() => {
                process.facts = parse_facts(&String::from_utf8_lossy(payload));
            }
            Some(Kind::Anchor) => self.anchors.push(Anchor {
                ticks: u64_at(payload, 0),
                realtime: u64_at(payload, 16),
                monotonic: u64_at(payload, 8),
            }),
            Some(Kind::Definitions) => {
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
            Some(Kind::Rows) => match self.shapes.outline(payload) {
                Some(outline) => self.blocks.push(Rows {
                    number,
                    place: place(),
                    bytes: payload.len() as u32,
                    outline,
                }),
                None => return false,
            },
            _ => {}
        }
        true
    }

    /// The bytes of a [`Comm`]. A communicator is defined again when more is known, so the last word counts, but an end
    /// that was seen stays.
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
            created_ns: None,
            ended_ns: None,
        };
    }

    /// Puts the process together.
    fn finish(
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
                created_ns: clock.realtime(raw.t_init),
                ended_ns: clock.realtime(raw.t_final),
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
                if record.t_end == 0 {
                    record.t_end = group_end(view, record.group);
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
        }
        if let Some(rotated) = rotated {
            rotation::add(rotated, &clock, &mut self.shapes, process);
        }
        process.clock = clock;
        (self.blocks, self.shapes, live)
    }
}

/// When the group with this ticket + 1 returned, if the live part still knows; 0 otherwise.
fn group_end(view: &View, word: u64) -> u64 {
    let groups = view.groups();
    let Some(index) = word
        .checked_sub(1)
        .and_then(|ticket| ticket.checked_rem(groups.len() as u64))
    else {
        return 0;
    };
    let group = &groups[index as usize];
    if group.word.load(Acquire) == word {
        group.t_stop.load(Relaxed)
    } else {
        0
    }
}

fn named(
    shape: &capture::rows::Shape,
    texts: &[Name],
    early: &[Name],
    communicators: &[Local],
) -> Shape {
    let name = |id: u8| texts[usize::from(id)];
    let local = communicators.iter().find(|c| c.uid == shape.comm);
    Shape {
        uid: shape.comm,
        communicator: None,
        rank: local.and_then(|l| l.rank),
        nranks: local.map(|l| l.nranks).filter(|n| *n != 0),
        function: name(shape.func),
        datatype: name(shape.datatype),
        algorithm: name(shape.algorithm),
        protocol: name(shape.protocol),
        variant: name(shape.variant),
        flags: shape.flags,
        parts: shape.parts,
        nchannels: shape.nchannels,
        nwarps: shape.nwarps,
        count: shape.count,
        root: u32::try_from(shape.root).ok(),
        peer: shape.peer.checked_sub(1),
        stream: shape.stream,
        ce_batches: shape.ce_batches,
        stops_early: shape.flags & flag::P2P != 0 || early.contains(&name(shape.algorithm)),
    }
}

/// A call without its extra.
#[inline]
fn call(r: &Sealed, shape: &capture::rows::Shape, sealed: bool, clock: &mut Cursor) -> Call {
    let mut time = |ticks: u64| match ticks {
        0 => 0,
        ticks => clock.realtime(ticks).unwrap_or(0),
    };
    let (mut gpu_start, mut gpu_stop) = (r.k_start, r.k_stop);
    if shape.parts & part::EVENTS != 0 {
        let start = u64::try_from(time(r.k_start)).unwrap_or(0);
        let length = r.k_stop.wrapping_sub(r.k_start);
        let known = start != 0 && r.k_stop != 0;
        gpu_start = if known { start } else { 0 };
        gpu_stop = if known { start.wrapping_add(length) } else { 0 };
    }
    Call {
        ticket: r.ticket,
        group: r.group,
        seq: r.seq,
        api_ns: time(r.t_api),
        launch_start_ns: time(r.t_launch0),
        launch_end_ns: time(r.t_launch1),
        enqueue_ns: time(r.t_enqueue),
        return_ns: time(r.t_end),
        gpu_start,
        gpu_stop,
        gpu_seen_ns: time(r.k_seen),
        gpu_error: r.k_error,
        shape: r.shape,
        template: r.template,
        extra: 0,
        composite: 0,
        channels_started: r.k_started,
        channels_stopped: r.k_stopped,
        verdict: r.verdict,
        sealed,
    }
}

/// Keeps what few calls have, if there is any; returns what [`Call::extra`] is then.
fn extra(rest: Option<&Rest>, clock: &Clock, extras: &mut Vec<Extra>) -> u32 {
    let Some(r) = rest.filter(|rest| **rest != Rest::default()) else {
        return 0;
    };
    let extra = Extra {
        user_tag: r.user_tag,
        send_buffer: r.send_buffer,
        recv_buffer: r.recv_buffer,
        phase_stop: r.phase_stop,
        ops_started: r.ops_started,
        ops_stopped: r.ops_stopped,
        steps: r.steps,
        bytes_sent: r.bytes_sent,
        bytes_received: r.bytes_received,
        // Waits are in units of 64 ticks.
        waits_ns: r
            .waits
            .map(|w| clock.duration(u64::from(w) * 64).unwrap_or(0)),
        longest_ns: clock.duration(u64::from(r.net_longest) * 64).unwrap_or(0),
        longest_peer: r.net_link >> 1,
        longest_sends: r.net_link & 1 != 0,
    };
    if extra == Extra::default() {
        return 0;
    }
    extras.push(extra);
    extras.len() as u32
}

/// Where the calls of a process are.
pub(crate) struct Reader {
    /// The trace files, and those that are still open.
    files: Vec<(PathBuf, Option<Held>)>,
    staged: Vec<u8>,
    blocks: Vec<Rows>,
    shapes: Shapes,
    live: Live,
}

/// Calls of a range of tickets, by ticket.
#[derive(Default)]
pub(crate) struct Part {
    pub calls: Vec<Call>,
    pub extras: Vec<Extra>,
    /// Calls that were in blocks.
    pub sealed: u64,
    /// Rows of blocks that begin in the range whose shape is not known.
    pub shapeless: u64,
    /// Numbers of blocks that begin in the range and are not well formed.
    pub malformed: Vec<u32>,
}

/// Tickets from the first to the second, which is included.
pub(crate) type Range = (u64, u64);

impl Reader {
    /// Rows in blocks and in the live part; some may be in both.
    pub(crate) fn rows(&self) -> u64 {
        let sealed = self.blocks.iter().map(|b| u64::from(b.outline.rows));
        sealed.sum::<u64>() + self.live.calls.len() as u64
    }

    /// Bytes of blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|b| u64::from(b.bytes)).sum()
    }

    /// Whether some sealed row has a GPU stamp.
    pub(crate) fn is_stamped(&self) -> bool {
        self.blocks.iter().any(|b| b.outline.stamped)
    }

    /// Ranges of about `rows` calls that hold all tickets, in order.
    pub(crate) fn ranges(&self, rows: u64) -> Vec<Range> {
        let mut order: Vec<(u64, u64)> = self
            .blocks
            .iter()
            .map(|b| (b.outline.tickets.0, b.outline.rows.into()))
            .collect();
        order.sort_unstable();
        let mut ranges: Vec<Range> = Vec::new();
        let (mut from, mut lowest, mut here) = (0, 0, 0);
        for (ticket, n) in order {
            if here == 0 {
                lowest = ticket;
            } else if here >= rows && ticket > lowest {
                ranges.push((from, ticket - 1));
                (from, lowest, here) = (ticket, ticket, 0);
            }
            here += n;
        }
        ranges.push((from, u64::MAX));
        ranges
    }

    /// Opens the file for decoding.
    pub(crate) fn open<'a>(&'a self, clock: &'a Clock) -> Opened<'a> {
        let mut opened = Opened {
            reader: self,
            clock,
            files: Vec::new(),
            decoder: Decoder::new(),
            buffer: Vec::new(),
        };
        // What can't be read a second time shows as blocks that are not well formed.
        opened.files.extend(self.files.iter().map(|(path, held)| {
            if let Some(held) = held {
                OpenFile::Held(held.file())
            } else if path.extension().is_some_and(|e| e == "zst") {
                OpenFile::Unpacked(load(path, &mut Vec::new()))
            } else {
                files::open(path).map_or(OpenFile::Unpacked(Vec::new()), OpenFile::Plain)
            }
        }));
        opened
    }
}

/// Decodes the calls of a process.
pub(crate) struct Opened<'a> {
    reader: &'a Reader,
    clock: &'a Clock,
    /// By place in [`Reader::files`].
    files: Vec<OpenFile<'a>>,
    decoder: Decoder,
    buffer: Vec<u8>,
}

enum OpenFile<'a> {
    Held(&'a std::fs::File),
    Plain(std::fs::File),
    Unpacked(Vec<u8>),
}

impl Opened<'_> {
    /// The calls of a range of tickets, in place of what `part` held.
    pub(crate) fn read(&mut self, range: Range, part: &mut Part) {
        let (from, to) = range;
        part.extras.clear();
        part.malformed.clear();
        part.shapeless = 0;
        let blocks = self.reader.blocks.iter().filter(|block| {
            let (low, high) = block.outline.tickets;
            block.outline.rows > 0 && low <= to && high >= from
        });
        let (mut low, mut high, mut rows) = (u64::MAX, 0, 0u64);
        for block in blocks.clone() {
            low = low.min(block.outline.tickets.0.max(from));
            high = high.max(block.outline.tickets.1.min(to));
            rows += u64::from(block.outline.rows);
        }
        let mut shelf = Shelf::new(std::mem::take(&mut part.calls), low, high, rows);
        let mut cursor = self.clock.cursor();
        for block in blocks {
            let payload = payload(self.reader, block, &self.files, &mut self.buffer);
            let (shapes, dictionary) = (&self.reader.shapes, block.outline.dictionary);
            let extras = &mut part.extras;
            let keep = |row: &Sealed, rest: Option<&Rest>| {
                if row.ticket < from || row.ticket > to {
                    return;
                }
                if let Some(place) = shelf.place(row.ticket) {
                    let shape = &shapes.list()[row.shape as usize];
                    *place = call(row, shape, true, &mut cursor);
                    if rest.is_some() {
                        place.extra = extra(rest, self.clock, extras);
                    }
                }
            };
            let decoded = payload.and_then(|p| self.decoder.decode(shapes, dictionary, p, keep));
            // Damage counts where the block begins, so once.
            if block.outline.tickets.0 >= from {
                match decoded {
                    Some(shapeless) => part.shapeless += shapeless,
                    None => part.malformed.push(block.number),
                }
            }
        }
        part.calls = shelf.into_calls();
        part.sealed = part.calls.len() as u64;
        self.add_live(range, part);
    }

    /// Hands the calls that have both stamps to `each`, with what is needed to compare clocks: those of every `of`-th block from `first` on, and with the
    /// first ones those of the live part.
    pub(crate) fn stamps(&mut self, first: usize, of: usize, mut each: impl FnMut(&Call)) {
        let mut cursor = self.clock.cursor();
        let blocks = self.reader.blocks.iter();
        for block in blocks.filter(|b| b.outline.stamped).skip(first).step_by(of) {
            let payload = payload(self.reader, block, &self.files, &mut self.buffer);
            let (shapes, dictionary) = (&self.reader.shapes, block.outline.dictionary);
            let stamp = |row: &Sealed, _: Option<&Rest>| {
                if row.k_start == 0 || row.k_stop == 0 || row.k_seen == 0 {
                    return;
                }
                let mut time = |ticks| cursor.realtime(ticks).unwrap_or(0);
                let call = Call {
                    api_ns: time(row.t_api),
                    launch_start_ns: time(row.t_launch0),
                    gpu_start: row.k_start,
                    gpu_stop: row.k_stop,
                    gpu_seen_ns: time(row.k_seen),
                    shape: row.shape,
                    verdict: row.verdict,
                    ..Call::default()
                };
                if call.gpu_seen_ns != 0 {
                    each(&call);
                }
            };
            let _ = payload.and_then(|p| self.decoder.decode(shapes, dictionary, p, stamp));
        }
        let live = self.reader.live.calls.iter().filter(|_| first == 0);
        live.for_each(each);
    }

    /// Adds the rows of the live part that were not sealed.
    fn add_live(&self, (from, to): Range, part: &mut Part) {
        let live = &self.reader.live;
        let first = live.calls.partition_point(|call| call.ticket < from);
        for call in live.calls[first..].iter().take_while(|c| c.ticket <= to) {
            let sealed = &part.calls[..part.sealed as usize];
            if sealed
                .binary_search_by_key(&call.ticket, |c| c.ticket)
                .is_ok()
            {
                continue;
            }
            let mut call = *call;
            if let Some(extra) = (call.extra as usize).checked_sub(1) {
                part.extras.push(live.extras[extra]);
                call.extra = part.extras.len() as u32;
            }
            part.calls.push(call);
        }
        // Two runs, each in order.
        if part.calls.len() as u64 > part.sealed {
            part.calls.sort_by_key(|call| call.ticket);
        }
    }
}

/// The content of a block.
fn payload<'a>(
    reader: &'a Reader,
    block: &Rows,
    files: &'a [OpenFile<'_>],
    buffer: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let len = block.bytes as usize;
    match block.place {
        Place::Staged(at) => reader.staged.get(at..at + len),
        Place::File(file, at) => {
            let file = match files.get(file)? {
                OpenFile::Held(file) => file,
                OpenFile::Plain(file) => file,
                OpenFile::Unpacked(bytes) => return bytes.get(at as usize..at as usize + len),
            };
            buffer.resize(len, 0);
            file.read_exact_at(buffer, at).ok()?;
            Some(buffer)
        }
    }
}

/// Calls by ticket, being put there in any order; of several with one ticket the first stays.
///
/// Tickets count calls, so each has its place from the start and nothing need be sorted. Only where most tickets of the
/// range are not there, calls are put in a row and sorted.
struct Shelf {
    calls: Vec<Call>,
    low: u64,
    /// A bit for each ticket that is there; nothing where calls are put in a row.
    there: Vec<u64>,
    n: usize,
}

impl Shelf {
    /// A shelf for about `rows` calls with tickets from `low` to `high`, on the memory of `calls`.
    fn new(mut calls: Vec<Call>, low: u64, high: u64, rows: u64) -> Shelf {
        let span = high.checked_sub(low).and_then(|n| n.checked_add(1));
        let places = span
            .filter(|span| *span <= rows.saturating_mul(2))
            .unwrap_or(0) as usize;
        // What is there of earlier calls stays until it is overwritten.
        calls.resize(places, Call::default());
        if places == 0 {
            calls.reserve(rows as usize);
        }
        Shelf {
            calls,
            low,
            there: vec![0; places.div_ceil(64)],
            n: 0,
        }
    }

    /// Where the call with this ticket goes, unless it is there.
    #[inline]
    fn place(&mut self, ticket: u64) -> Option<&mut Call> {
        if self.there.is_empty() {
            self.calls.push(Call::default());
            return self.calls.last_mut();
        }
        let at = usize::try_from(ticket.checked_sub(self.low)?).ok()?;
        let (word, bit) = (self.there.get_mut(at / 64)?, 1 << (at % 64));
        if *word & bit != 0 {
            return None;
        }
        *word |= bit;
        self.n += 1;
        self.calls.get_mut(at)
    }

    fn into_calls(mut self) -> Vec<Call> {
        if self.there.is_empty() {
            self.calls.sort_by_key(|call| call.ticket);
            self.calls.dedup_by_key(|call| call.ticket);
        } else if self.n < self.calls.len() {
            let mut at = 0;
            self.calls.retain(|_| {
                at += 1;
                self.there[(at - 1) / 64] & 1 << ((at - 1) % 64) != 0
            });
        }
        self.calls
    }
}

/// The totals. A fold that the process's death cut short is taken back when its row is still there, because the row
/// then counts.
fn totals(view: &View, clock: &Clock, shapes: &mut Shapes) -> Vec<Total> {
    let undo = &view.header().undo;
    let word = undo.ticket.load(Acquire);
    let half_done = word.checked_sub(1).filter(|ticket| {
        view.rows().iter().any(|row| {
            let word = row.word.load(Acquire);
            live::row_state::ticket(word) == *ticket && word & 3 == live::row_state::ALIVE
        })
    });
    let undone_entry = half_done.map(|_| undo.entry.load(Relaxed) as usize);
    let undone_bucket = half_done
        .and_then(|_| undo.bucket.load(Relaxed).checked_sub(64))
        .map(|b| (b as usize / 64, b as usize % 64));
    let mut found = Vec::new();
    for (index, total) in view.totals().iter().enumerate() {
        if total.state.load(Acquire) != 2 {
            continue;
        }
        let undone = undone_entry == Some(index);
        let before = |field: usize, now: u64| {
            if undone {
                undo.before[field].load(Relaxed)
            } else {
                now
            }
        };
        let mut histogram = Vec::new();
        for (octave, page) in total.pages.iter().enumerate() {
            let Some(number) = usize::from(page.load(Relaxed)).checked_sub(1) else {
                continue;
            };
            let Some(page) = view.pages().get(number) else {
                continue;
            };
            for (bucket, count) in page.iter().enumerate() {
                let count = match undone_bucket {
                    Some(place) if place == (number, bucket) => undo.bucket_before.load(Relaxed),
                    _ => count.load(Relaxed).into(),
                };
                if count != 0 {
                    histogram.push((live::bucket_middle(octave, bucket), count));
                }
            }
        }
        let text = |i: usize| total.names[i].load(Relaxed);
        let shape = capture::rows::Shape {
            comm: total.comm.load(Relaxed),
            count: total.count.load(Relaxed),
            func: text(0),
            datatype: text(1),
            algorithm: text(2),
            protocol: text(3),
            flags: total.flags.load(Relaxed),
            nchannels: total.nchannels.load(Relaxed),
            root: -1,
            ..capture::rows::Shape::default()
        };
        found.push(Total {
            shape: shapes.intern(shape),
            folded: before(0, total.calls.load(Relaxed)),
            rowless: total.rowless.load(Relaxed),
            timed: before(1, total.timed.load(Relaxed)),
            sum: before(2, total.sum.load(Relaxed)),
            min: before(3, total.min.load(Relaxed)),
            max: before(4, total.max.load(Relaxed)),
            host_ns: clock.duration(before(5, total.host.load(Relaxed))),
            histogram,
            histogram_of: match (
                before(0, total.calls.load(Relaxed)),
                before(1, total.timed.load(Relaxed)),
            ) {
                (_, 0) => HistogramOf::Host,
                (calls, timed) if calls == timed => HistogramOf::Gpu,
                _ => HistogramOf::Both,
            },
        });
    }
    found
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

/// Hands the content of every Callbacks block of a process to `each`, staged ones included, in order.
pub(crate) fn callback_blocks(path: &Path, mut each: impl FnMut(&[u8])) {
    let mut ignored = Vec::new();
    let Some(files) = crate::files::find(path, &mut ignored).into_iter().next() else {
        return;
    };
    let trace = Trace::load(&files, &mut ignored);
    let facts = first_facts(&trace.files[0].bytes);
    let open = open_live(&files, &facts, &trace, &mut ignored);
    for (kind, payload) in blocks(&trace, &open, &mut ignored).sound.values() {
        if *kind == Kind::Callbacks as u16 {
            each(payload);
        }
    }
}
