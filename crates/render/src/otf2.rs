//! A capture as an OTF2 archive, which Vampir, Scalasca and Score-P's tools read.
//!
//! A process is a location group, and its GPU another one, which it created. The tracks of a [`Timeline`] are
//! locations: host tracks are CPU threads, GPU tracks are accelerator streams. Each call is a region on the
//! host, and one on the GPU if it has a GPU time; kernels of windows are regions, too. A communicator is a
//! group of ranks, which are numbers in the one group of all GPUs (`COMM_LOCATIONS`), of paradigm CUDA: OTF2
//! has no paradigm for NCCL. The collective record of a call, with its bytes, is where its GPU region is, or
//! else its host region. Curves of the run and values of the node sampler are metrics.
//!
//! Rule: the events of one process are in memory at a time. Times of a location never go back, and regions
//! nest.

use crate::timeline::{Placed, Slice, Span, Timeline};
use analyze::Report;
use capture::windows::ActivityKind;
use collectives::{operation, role, ALLGATHER, BCAST, GATHER, REDUCE, REDUCE_SCATTER, SCATTER};
use format::{anchor, at_region, event, kind, record, Chunks, Fields};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use tables::calls::CallRef;

mod collectives;
mod definitions;
pub mod format;

/// `OTF2_PARADIGM_CUDA`.
const CUDA: u8 = 5;
/// `OTF2_PARADIGM_CLASS_ACCELERATOR`.
const ACCELERATOR_CLASS: u8 = 3;
/// `OTF2_LOCATION_GROUP_TYPE_…`.
const PROCESS: u8 = 1;
const ACCELERATOR: u8 = 2;
/// `OTF2_LOCATION_TYPE_…`.
const CPU_THREAD: u8 = 1;
const ACCELERATOR_STREAM: u8 = 2;
const METRIC: u8 = 3;
/// `OTF2_GROUP_TYPE_…`.
const COMM_LOCATIONS: u8 = 4;
const COMM_GROUP: u8 = 5;
/// `OTF2_REGION_ROLE_…`.
const FUNCTION: u8 = 1;
const COLL_OTHER: u8 = 26;
const DATA_TRANSFER: u8 = 30;

/// Names of attributes of calls, by their numbers, and whether their values are texts.
const ATTRIBUTES: [(&str, bool); 7] = [
    ("ticket", false),
    ("bytes", false),
    ("sequence number", false),
    ("peer", false),
    ("algorithm", true),
    ("protocol", true),
    ("datatype", true),
];

/// What an archive has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Regions of calls on the host.
    pub on_host: u64,
    /// Regions of calls on GPUs.
    pub on_gpu: u64,
    /// Regions of kernels, copies and fills.
    pub kernels: u64,
    /// Locations that are GPUs' streams.
    pub gpu_locations: u64,
}

/// The files of an archive whose anchor file is `anchor`: that file, the definitions, and the folder of the
/// locations' files.
pub fn files(anchor: &Path) -> [PathBuf; 3] {
    [
        anchor.to_owned(),
        anchor.with_extension("def"),
        anchor.with_extension(""),
    ]
}

/// Writes the archive. The file names of its other parts come from that of its anchor file ([`files`]).
///
/// # Errors
/// When a file can't be written.
pub fn write(timeline: &Timeline<'_>, report: &Report, to: &Path) -> Result<Written> {
    let [to, definitions, folder] = files(to);
    std::fs::create_dir_all(&folder)?;
    let mut archive = Archive {
        timeline,
        folder,
        names: Names::default(),
        locations: Vec::new(),
        groups: Vec::new(),
        gpus: Vec::new(),
        rank_of: BTreeMap::new(),
        comms: Vec::new(),
        first: Vec::new(),
        metrics: Vec::new(),
        from: i64::MAX,
        until: 0,
        written: Written::default(),
    };
    archive.names.text("");
    archive.layout();
    let mut calls = timeline.calls().peekable();
    for process in 0..timeline.capture().processes.len() {
        archive.process(process, &mut calls)?;
    }
    archive.curves(report)?;
    archive.samples()?;
    let count = archive.define(&definitions)?;
    let creator = format!("ncclscope {}", env!("CARGO_PKG_VERSION"));
    let about = "NCCL calls of all ranks";
    std::fs::write(
        to,
        anchor(archive.locations.len() as u64, count, &creator, about),
    )?;
    Ok(archive.written)
}

/// Numbers of texts and regions.
#[derive(Default)]
struct Names {
    texts: HashMap<String, u64>,
    regions: HashMap<(u64, u8), u64>,
}

impl Names {
    fn text(&mut self, text: &str) -> u64 {
        let next = self.texts.len() as u64;
        match self.texts.get(text) {
            Some(number) => *number,
            None => *self.texts.entry(text.to_owned()).or_insert(next),
        }
    }

    fn region(&mut self, name: &str, role: u8) -> u64 {
        let name = self.text(name);
        let next = self.regions.len() as u64;
        *self.regions.entry((name, role)).or_insert(next)
    }
}

struct Location {
    name: u64,
    kind: u8,
    events: u64,
    group: u64,
}

struct Group {
    name: u64,
    kind: u8,
    /// Host, by its place in the system tree.
    node: u64,
    creator: Option<u64>,
}

/// The unit that the end of a series' name says.
fn unit_of(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("mw") => "mW",
        Some("mj") => "mJ",
        Some("mhz") => "MHz",
        Some("c") => "degC",
        Some("bytes") => "B",
        Some("percent") => "%",
        Some("us") => "us",
        Some("ns") => "ns",
        Some("ticks") => "ticks",
        // Counts and bits.
        _ => "#",
    }
}

/// A metric with one member: its name, unit and type of values.
struct Metric {
    name: u64,
    unit: u64,
    kind: u8,
}

struct Archive<'t, 'c> {
    timeline: &'t Timeline<'c>,
    folder: PathBuf,
    names: Names,
    locations: Vec<Location>,
    groups: Vec<Group>,
    /// The locations that stand for ranks, in the order of `COMM_LOCATIONS`.
    gpus: Vec<u64>,
    /// By communicator and rank in it, the place in `gpus`.
    rank_of: BTreeMap<(u32, u32), u64>,
    /// Communicators with ranks there, in the order of their definitions.
    comms: Vec<u32>,
    /// By process, its first location.
    first: Vec<u64>,
    metrics: Vec<Metric>,
    from: i64,
    until: i64,
    written: Written,
}

/// A region on a location.
struct Region {
    span: Span,
    ticket: u64,
    region: u64,
    /// Attributes of its begin, as a record; none of kernels.
    attributes: Vec<u8>,
    /// The record of its collective operation, which it ends with.
    collective: Option<Vec<u8>>,
}

impl<'c> Archive<'_, 'c> {
    fn location(&mut self, name: &str, kind: u8, group: u64) -> u64 {
        let name = self.names.text(name);
        self.locations.push(Location {
            name,
            kind,
            events: 0,
            group,
        });
        self.locations.len() as u64 - 1
    }

    fn group(&mut self, name: &str, kind: u8, node: u64, creator: Option<u64>) -> u64 {
        let name = self.names.text(name);
        self.groups.push(Group {
            name,
            kind,
            node,
            creator,
        });
        self.groups.len() as u64 - 1
    }

    /// Numbers the hosts from 1; 0 is the job.
    fn hosts(&self) -> Vec<&'c str> {
        let capture = self.timeline.capture();
        let processes = capture.processes.iter().map(|p| p.host.as_str());
        let nodes = capture.nodes.iter().map(|node| node.host.as_str());
        let mut hosts: Vec<&str> = Vec::new();
        for host in processes.chain(nodes) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }

    /// Makes groups and locations: one for each track, and one GPU for each rank of a communicator.
    fn layout(&mut self) {
        let capture = self.timeline.capture();
        let hosts = self.hosts();
        for (index, process) in capture.processes.iter().enumerate() {
            let host = hosts.iter().position(|host| *host == process.host);
            let node = host.map_or(0, |host| host as u64 + 1);
            let title = self.timeline.title(index);
            let who = self.timeline.short_title(index);
            let group = self.group(&title, PROCESS, node, None);
            let on_gpu = self.group(&format!("GPUs of {who}"), ACCELERATOR, node, Some(group));
            self.first.push(self.locations.len() as u64);
            for track in self.timeline.tracks(index) {
                let is_gpu = track.is_gpu || track.is_kernels;
                let (kind, group) = if is_gpu {
                    (ACCELERATOR_STREAM, on_gpu)
                } else {
                    (CPU_THREAD, group)
                };
                self.location(&format!("{who}: {}", track.title), kind, group);
            }
            // A rank stands for a GPU: each device of the process has one location for that.
            let mut of_device: HashMap<Option<u32>, u64> = HashMap::new();
            let mut places: BTreeMap<(u32, u32), Option<u32>> = BTreeMap::new();
            for shape in &process.shapes {
                if let (Some(communicator), Some(rank)) = (shape.communicator, shape.rank) {
                    places.entry((communicator, rank)).or_insert(shape.device);
                }
            }
            for (key, device) in places {
                let first = self.first[index];
                let gpu = *of_device.entry(device).or_insert_with(|| {
                    // Tracks do not say their device; with one GPU a process, the first track is its.
                    let tracks = self.timeline.tracks(index).iter();
                    let mut tracks = tracks
                        .zip(first..)
                        .filter(|(t, _)| t.is_gpu && !t.is_kernels);
                    let free = tracks
                        .find(|(_, at)| !self.gpus.contains(at))
                        .map(|(_, at)| at);
                    let at = free.unwrap_or_else(|| {
                        let device = device.map_or("GPU".to_owned(), |d| format!("GPU {d}"));
                        let name = self.names.text(&format!("{who}: {device}"));
                        let kind = ACCELERATOR_STREAM;
                        self.locations.push(Location {
                            name,
                            kind,
                            events: 0,
                            group: on_gpu,
                        });
                        self.locations.len() as u64 - 1
                    });
                    self.gpus.push(at);
                    self.gpus.len() as u64 - 1
                });
                self.rank_of.entry(key).or_insert(gpu);
            }
        }
        self.comms = self.rank_of.keys().map(|(of, _)| *of).collect();
        self.comms.dedup();
        let of_gpus = self
            .locations
            .iter()
            .filter(|l| l.kind == ACCELERATOR_STREAM);
        self.written.gpu_locations = of_gpus.count() as u64;
    }

    /// Writes the files of a process's locations.
    fn process(
        &mut self,
        process: usize,
        calls: &mut Peekable<impl Iterator<Item = Placed<'c>>>,
    ) -> Result<()> {
        let first = self.first[process] as usize;
        let next = self
            .first
            .get(process + 1)
            .map_or(self.locations.len(), |at| *at as usize);
        let mut regions: Vec<Vec<Region>> = (first..next).map(|_| Vec::new()).collect();
        let timeline = self.timeline;
        while let Some(placed) = calls.next_if(|placed| placed.row.index == process) {
            let is_on_gpu = placed.gpu.is_some();
            if let Some(slice) = placed.host {
                regions[slice.track].push(self.call(&placed, slice, !is_on_gpu));
                self.written.on_host += 1;
            }
            if let Some((slice, _)) = placed.gpu {
                regions[slice.track].push(self.call(&placed, slice, true));
                self.written.on_gpu += 1;
            }
        }
        for (number, placed) in (0..).zip(timeline.kernels(process)) {
            let role = match placed.row.ran.kind {
                ActivityKind::Kernel if placed.name().starts_with("nccl") => COLL_OTHER,
                ActivityKind::Kernel => FUNCTION,
                ActivityKind::Copy | ActivityKind::Fill => DATA_TRANSFER,
            };
            let region = self.names.region(placed.name(), role);
            let Slice { track, span } = placed.slice;
            regions[track].push(Region {
                span,
                ticket: number,
                region,
                attributes: Vec::new(),
                collective: None,
            });
            self.written.kernels += 1;
        }
        for (location, regions) in (first..).zip(regions) {
            self.regions(location, regions)?;
        }
        Ok(())
    }

    /// The region of a call, with its attributes, and with its collective record.
    fn call(&mut self, placed: &Placed<'_>, slice: Slice, has_record: bool) -> Region {
        let row = &placed.row;
        let function = row.capture.names.get(row.shape.function).unwrap_or("?");
        let region = self.names.region(function, role(function));
        let operation = operation(function).filter(|_| has_record);
        let collective = operation.map(|operation| {
            let mut bytes = Vec::new();
            record(
                &mut bytes,
                event::COLLECTIVE_END,
                &self.collective_end(row, operation),
            );
            bytes
        });
        Region {
            span: slice.span,
            ticket: row.call.ticket,
            region,
            attributes: self.attributes(row),
            collective,
        }
    }

    fn attributes(&mut self, row: &CallRef<'_>) -> Vec<u8> {
        let (capture, shape) = (row.capture, row.shape);
        let numbers = [
            Some(row.call.ticket),
            capture.bytes(shape),
            row.call.seq.checked_sub(1),
            shape.peer.map(u64::from),
        ];
        let texts = [shape.algorithm, shape.protocol, shape.datatype];
        let texts = texts.map(|name| capture.names.get(name).map(|text| self.names.text(text)));
        let values = numbers.into_iter().chain(texts);
        let known: Vec<(usize, u64)> = values
            .enumerate()
            .filter_map(|(n, v)| Some((n, v?)))
            .collect();
        let mut fields = Fields::default().number(known.len() as u64);
        for (number, value) in known {
            let kind = if ATTRIBUTES[number].1 {
                kind::STRING
            } else {
                kind::UINT64
            };
            fields = fields.number(number as u64).byte(kind).number(value);
        }
        let mut bytes = Vec::new();
        record(&mut bytes, event::ATTRIBUTES, &fields);
        bytes
    }

    fn collective_end(&self, row: &CallRef<'_>, operation: u8) -> Fields {
        let shape = row.shape;
        let bytes = row.capture.bytes(shape).unwrap_or(0);
        let part = bytes / u64::from(shape.nranks.unwrap_or(1).max(1));
        let is_root = shape.root.is_some() && shape.root == shape.rank;
        let of_root = |bytes| if is_root { bytes } else { 0 };
        // As MPI counts them: what one rank gives and gets.
        let (sent, received) = match operation {
            BCAST => (of_root(bytes), bytes),
            REDUCE => (bytes, of_root(bytes)),
            GATHER => (part, of_root(bytes)),
            SCATTER => (of_root(bytes), part),
            ALLGATHER => (part, bytes),
            REDUCE_SCATTER => (bytes, part),
            _ => (bytes, bytes),
        };
        let communicator = shape.communicator;
        let communicator = communicator.and_then(|of| self.comms.binary_search(&of).ok());
        Fields::default()
            .byte(operation)
            .maybe(communicator.map(|number| number as u64))
            .maybe(self.place_of(shape.communicator, shape.root))
            .number(sent)
            .number(received)
    }

    /// Where a rank stands in the group of its communicator, which lacks ranks that recorded nothing.
    fn place_of(&self, communicator: Option<u32>, rank: Option<u32>) -> Option<u64> {
        let (communicator, rank) = (communicator?, rank?);
        self.rank_of.get(&(communicator, rank))?;
        let before = self.rank_of.range((communicator, 0)..(communicator, rank));
        Some(before.count() as u64)
    }

    fn chunks(&self, location: usize) -> Result<Chunks<BufWriter<File>>> {
        let empty = File::create(self.folder.join(format!("{location}.def")))?;
        Chunks::new(empty, format::DEFINITIONS).end()?;
        let file = File::create(self.folder.join(format!("{location}.evt")))?;
        Ok(Chunks::new(BufWriter::new(file), format::EVENTS))
    }

    /// Writes the file of a location with these regions, which don't cross.
    fn regions(&mut self, location: usize, mut regions: Vec<Region>) -> Result<()> {
        regions.sort_by_key(|r| (r.span.begin, std::cmp::Reverse(r.span.end), r.ticket));
        let mut chunks = self.chunks(location)?;
        let mut open: Vec<(i64, Region)> = Vec::new();
        let mut last = 0;
        for region in regions {
            while let Some((end, ended)) = open.pop_if(|(end, _)| *end <= region.span.begin) {
                last = end.max(last);
                leave(&mut chunks, last, &ended)?;
            }
            last = region.span.begin.max(last);
            self.from = self.from.min(last);
            enter(&mut chunks, last, &region)?;
            // One that crosses, which only damage can make, ends with the one around it.
            let end = open
                .last()
                .map_or(region.span.end, |(end, _)| region.span.end.min(*end));
            open.push((end, region));
        }
        while let Some((end, ended)) = open.pop() {
            last = end.max(last);
            leave(&mut chunks, last, &ended)?;
        }
        self.until = self.until.max(last);
        self.locations[location].events = chunks.events;
        chunks.end()
    }

    /// The curves of the run over time, on a location of their own.
    fn curves(&mut self, report: &Report) -> Result<()> {
        let Some(of) = report.timeline.as_ref() else {
            return Ok(());
        };
        let mut points = Vec::new();
        for counter in crate::counters::of(of) {
            let metric = self.metric(counter.name, counter.unit, kind::DOUBLE);
            for (us, value) in counter.values() {
                let at = of.begin_ns.saturating_add((us * 1e3) as i64);
                points.push((at, metric, value.to_bits()));
            }
        }
        let group = self.group("run over time", PROCESS, 0, None);
        self.points("run over time", group, points)
    }

    /// What the node sampler read, a location for each node.
    fn samples(&mut self) -> Result<()> {
        let capture = self.timeline.capture();
        let hosts = self.hosts();
        for node in &capture.nodes {
            let host = hosts.iter().position(|host| *host == node.host);
            let on = host.map_or(0, |host| host as u64 + 1);
            let process = capture.processes.iter().position(|p| p.host == node.host);
            let mut points = Vec::new();
            for series in &node.series {
                let name = match series.of.as_str() {
                    "" => series.name.clone(),
                    of => format!("{} of {of}", series.name),
                };
                let metric = self.metric(&name, unit_of(&series.name), kind::UINT64);
                for (at, value) in &series.points {
                    let at = process.map_or(*at, |p| self.timeline.on_one_clock(p, *at));
                    points.push((at, metric, *value));
                }
            }
            let name = format!("node sampler of {}", node.host);
            let group = self.group(&name, PROCESS, on, None);
            self.points(&name, group, points)?;
        }
        Ok(())
    }

    fn metric(&mut self, name: &str, unit: &str, kind: u8) -> u64 {
        let (name, unit) = (self.names.text(name), self.names.text(unit));
        self.metrics.push(Metric { name, unit, kind });
        self.metrics.len() as u64 - 1
    }

    fn points(&mut self, name: &str, group: u64, mut points: Vec<(i64, u64, u64)>) -> Result<()> {
        points.retain(|(at, ..)| *at > 0);
        if points.is_empty() {
            return Ok(());
        }
        points.sort_unstable();
        let location = self.location(name, METRIC, group) as usize;
        let mut chunks = self.chunks(location)?;
        self.from = self.from.min(points[0].0);
        for (at, metric, value) in points {
            let kind = self.metrics[metric as usize].kind;
            let fields = Fields::default()
                .number(metric)
                .byte(1)
                .byte(kind)
                .number(value);
            let mut bytes = Vec::new();
            record(&mut bytes, event::METRIC, &fields);
            chunks.event(time(at), &bytes)?;
            self.until = self.until.max(at);
        }
        self.locations[location].events = chunks.events;
        chunks.end()
    }
}

fn enter<W: Write>(chunks: &mut Chunks<W>, at: i64, region: &Region) -> Result<()> {
    let mut bytes = region.attributes.clone();
    at_region(&mut bytes, event::ENTER, region.region);
    chunks.event(time(at), &bytes)?;
    if region.collective.is_some() {
        bytes.clear();
        record(&mut bytes, event::COLLECTIVE_BEGIN, &Fields::default());
        chunks.event(time(at), &bytes)?;
    }
    Ok(())
}

fn leave<W: Write>(chunks: &mut Chunks<W>, at: i64, region: &Region) -> Result<()> {
    if let Some(end) = &region.collective {
        chunks.event(time(at), end)?;
    }
    let mut bytes = Vec::new();
    at_region(&mut bytes, event::LEAVE, region.region);
    chunks.event(time(at), &bytes)
}

/// Times before 1970 are damage.
fn time(at: i64) -> u64 {
    u64::try_from(at).unwrap_or(0)
}
