//! A capture as a CUBE4 profile (`.cubex`), which CubeGUI, Scalasca's tools and pycubexr read.
//!
//! ```text
//! anchor.xml       metrics, call tree (job > communicator > operation), hosts > processes > GPUs
//! N.index, N.data  the values of metric N: for each node of the call tree that has some, one per GPU
//! ```
//!
//! [`Profile::of`] sums calls up, and [`Profile::write`] puts them into a tar file.
//!
//! Rule: a value is of its own node of the call tree only, and CUBE sums over nodes and GPUs. What is a share
//! of the job has the type `MAXDOUBLE`, of which CUBE takes the largest and not the sum.

use analyze::account::{Account, RankAccount};
use analyze::arrivals::table;
use analyze::executions::{Steps, Walk};
use analyze::spelling::{datatype, size};
use analyze::Report;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Result, Write};
use tables::{Capture, Name, Shape};

mod archive;

/// How a metric's values are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Seconds,
    Count,
    Bytes,
    /// A share of the job, 0 to 1.
    Share,
}

/// A metric: name, title, kind, description; and how many of the metrics before it are around it.
struct Metric {
    name: &'static str,
    title: &'static str,
    kind: Kind,
    about: &'static str,
    depth: usize,
}

const CALLS: usize = 0;
const UNTIMED: usize = 1;
const BYTES: usize = 2;
const HOST: usize = 3;
const GPU: usize = 4;
const WAITING: usize = 5;
const WALL: usize = 6;
const SHARES: usize = 11;

const fn metric(
    depth: usize,
    name: &'static str,
    title: &'static str,
    kind: Kind,
    about: &'static str,
) -> Metric {
    Metric {
        name,
        title,
        kind,
        about,
        depth,
    }
}

/// Their number is the place here. A metric includes those that are deeper behind it.
const METRICS: [Metric; 16] = [
    metric(
        0,
        "calls",
        "Calls",
        Kind::Count,
        "NCCL calls of a rank that have a row of their own",
    ),
    metric(
        1,
        "calls_untimed",
        "Calls without a GPU time",
        Kind::Count,
        "Not in the GPU time",
    ),
    metric(
        0,
        "bytes",
        "Bytes",
        Kind::Bytes,
        "By nccl-tests' convention; of calls with known sizes",
    ),
    metric(
        0,
        "host_time",
        "Host time",
        Kind::Seconds,
        "From the call to its return on the host",
    ),
    metric(
        0,
        "gpu_time",
        "GPU time",
        Kind::Seconds,
        "In NCCL's kernels, waiting included",
    ),
    metric(
        1,
        "waiting",
        "Waiting for late ranks",
        Kind::Seconds,
        "GPU time above the shortest of all ranks",
    ),
    metric(
        0,
        "steps",
        "Wall time of the steps",
        Kind::Seconds,
        "Of the account of the steps",
    ),
    metric(
        1,
        "steps_work",
        "Work",
        Kind::Seconds,
        "Computing, or nothing launched",
    ),
    metric(
        1,
        "steps_wait",
        "Waiting",
        Kind::Seconds,
        "Standing still for ranks that had not come",
    ),
    metric(
        1,
        "steps_transfer",
        "Transfer",
        Kind::Seconds,
        "Standing still while bytes moved",
    ),
    metric(
        1,
        "steps_unknown",
        "Not known",
        Kind::Seconds,
        "In operations; standing still is not known",
    ),
    metric(
        0,
        "parallel_efficiency",
        "Parallel efficiency",
        Kind::Share,
        "Mean work of ranks / wall time",
    ),
    metric(
        0,
        "load_balance",
        "Load balance",
        Kind::Share,
        "Mean work of ranks / most work",
    ),
    metric(
        0,
        "communication_efficiency",
        "Communication efficiency",
        Kind::Share,
        "Most work / wall time: serialisation x transfer",
    ),
    metric(
        0,
        "serialisation_efficiency",
        "Serialisation",
        Kind::Share,
        "Most work / wall time without that rank's transfers",
    ),
    metric(
        0,
        "transfer_efficiency",
        "Transfer",
        Kind::Share,
        "Wall time without transfers of the rank with most work / wall time",
    ),
];

/// Efficiencies that are not known better than this are left out.
const MOST_UNKNOWN: f64 = 0.05;

/// What a profile has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Calls.
    pub calls: u64,
    /// Nodes of the call tree.
    pub nodes: u64,
    /// GPUs, or processes of which no GPU is known.
    pub locations: u64,
}

/// What calls have in common: communicator, function, bytes and datatype.
type Operation = (Option<u32>, Name, Option<u64>, Name);

/// A GPU of a process.
type Location = (usize, Option<u32>);

/// Sums of all calls, by node of the call tree and GPU.
pub struct Profile<'c> {
    capture: &'c Capture,
    locations: Vec<Location>,
    /// By metric: by node and place in `locations`.
    values: Vec<BTreeMap<(usize, usize), f64>>,
    /// The operations under each communicator, whose nodes are numbered in this order.
    operations: BTreeMap<Option<u32>, BTreeMap<Operation, usize>>,
    /// Calls that were captured into CUDA graphs: rows, but no executions.
    captured: u64,
    /// The account's efficiencies are known too badly.
    is_unsure: bool,
}

/// The node of the whole job.
const JOB: usize = 0;

impl<'c> Profile<'c> {
    /// Sums up what `report` is about.
    pub fn of(capture: &'c Capture, report: &Report) -> Profile<'c> {
        let mut profile = Profile {
            capture,
            locations: Vec::new(),
            values: METRICS.iter().map(|_| BTreeMap::new()).collect(),
            operations: BTreeMap::new(),
            captured: 0,
            is_unsure: false,
        };
        profile.layout();
        profile.calls();
        profile.waits();
        if let Some(account) = &report.account {
            profile.account(account);
        }
        profile
    }

    /// What the capture and its report have, and the profile has not, in sentences.
    pub fn left_out(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.captured > 0 {
            said.push(format!(
                "{} calls with a row are left out, because they were captured into CUDA graphs: only \
                 launches execute them",
                self.captured
            ));
        }
        if self.is_unsure {
            said.push(format!(
                "efficiencies are left out, because more than {} of the steps' time is not known\
                 \n  hint: `ncclscope report` has them as intervals",
                analyze::spelling::percent(MOST_UNKNOWN)
            ));
        }
        said
    }

    fn operation(&self, shape: &Shape, function: Name) -> Operation {
        let bytes = self.capture.bytes_as(shape, function);
        (shape.communicator, function, bytes, shape.datatype)
    }

    /// Finds GPUs and nodes, and numbers both.
    fn layout(&mut self) {
        let mut locations = Vec::new();
        for (index, process) in self.capture.processes.iter().enumerate() {
            let before = locations.len();
            for place in Walk::new(process).places() {
                let operation = self.operation(place.shape, place.function);
                let of = self.operations.entry(operation.0).or_default();
                of.insert(operation, 0);
                locations.push((index, place.shape.device));
            }
            if locations.len() == before {
                locations.push((index, None));
            }
        }
        locations.sort_unstable();
        locations.dedup();
        self.locations = locations;
        // A node comes before those in it: the job, then each communicator with its operations.
        let mut next = JOB + 1;
        for operations in self.operations.values_mut() {
            next += 1;
            for number in operations.values_mut() {
                *number = next;
                next += 1;
            }
        }
    }

    fn node(&self, operation: &Operation) -> usize {
        let of = self.operations.get(&operation.0);
        of.and_then(|of| of.get(operation)).copied().unwrap_or(JOB)
    }

    fn location(&self, index: usize, device: Option<u32>) -> usize {
        let found = self.locations.binary_search(&(index, device));
        found.unwrap_or_else(|next| next.min(self.locations.len().saturating_sub(1)))
    }

    fn add(&mut self, metric: usize, node: usize, location: usize, value: f64) {
        *self.values[metric].entry((node, location)).or_default() += value;
    }

    fn calls(&mut self) {
        let capture = self.capture;
        for (index, process) in capture.processes.iter().enumerate() {
            let walk = Walk::new(process);
            let places = walk.places().iter().map(|place| {
                let operation = self.operation(place.shape, place.function);
                let location = self.location(index, place.shape.device);
                (self.node(&operation), location, operation.2)
            });
            let places: Vec<(usize, usize, Option<u64>)> = places.collect();
            walk.for_each(&mut Steps::default(), |execution| {
                // What was captured into a graph was not executed then.
                if execution.captured {
                    self.captured += execution.pieces;
                    return;
                }
                let (node, location, bytes) = places[execution.place];
                self.add(CALLS, node, location, 1.0);
                match execution.gpu {
                    Ok(ns) => self.add(GPU, node, location, ns as f64 / 1e9),
                    Err(_) => self.add(UNTIMED, node, location, 1.0),
                }
                if let Some(bytes) = bytes {
                    self.add(BYTES, node, location, bytes as f64);
                }
                if let Some(ns) = execution.host() {
                    self.add(HOST, node, location, ns as f64 / 1e9);
                }
            });
        }
    }

    fn waits(&mut self) {
        for row in table::rows(self.capture) {
            let node = self.node(&self.operation(row.shape, row.function));
            let location = self.location(row.index, row.shape.device);
            self.add(
                WAITING,
                node,
                location,
                (row.time - row.range.0) as f64 / 1e9,
            );
        }
    }

    fn account(&mut self, account: &Account) {
        let mut known = Vec::new();
        for rank in &account.ranks {
            let Some(location) = self.location_of(rank) else {
                continue;
            };
            known.push(location);
            let lines = [
                account.wall_us,
                rank.work_us,
                rank.wait_us,
                rank.transfer_us,
                rank.unknown_us,
            ];
            for (at, us) in lines.into_iter().enumerate() {
                self.add(WALL + at, JOB, location, us / 1e6);
            }
        }
        let Some(of) = account.efficiencies else {
            return;
        };
        if !of.are_within(MOST_UNKNOWN) {
            self.is_unsure = true;
            return;
        }
        let communication = of.serialisation.0 * of.transfer.0;
        let shares = [
            of.parallel.0,
            of.load_balance.0,
            communication,
            of.serialisation.0,
            of.transfer.0,
        ];
        for (at, share) in shares.into_iter().enumerate() {
            for location in &known {
                self.add(SHARES + at, JOB, *location, share);
            }
        }
    }

    fn location_of(&self, rank: &RankAccount) -> Option<usize> {
        self.locations.iter().position(|(index, device)| {
            let process = &self.capture.processes[*index];
            let is_process = (process.rank, process.pid) == (rank.process.rank, rank.process.pid);
            is_process
                && process.host == rank.process.host
                && (rank.device.is_none() || *device == rank.device)
        })
    }

    /// Writes the profile.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl Write) -> Result<Written> {
        let mut files = archive::Archive::new(out);
        files.file("anchor.xml", self.anchor().as_bytes())?;
        for (number, values) in self.values.iter().enumerate() {
            // A metric without a value is in no file.
            if values.is_empty() {
                continue;
            }
            let mut nodes: Vec<usize> = values.keys().map(|(node, _)| *node).collect();
            nodes.dedup();
            files.file(&format!("{number}.index"), &archive::index(&nodes))?;
            let value = |node: &usize, location: usize| values.get(&(*node, location)).copied();
            let rows = nodes.iter().flat_map(|node| {
                (0..self.locations.len()).map(move |location| value(node, location).unwrap_or(0.0))
            });
            files.file(
                &format!("{number}.data"),
                &archive::data(rows, METRICS[number].kind),
            )?;
        }
        files.end()?;
        let calls = self.values[CALLS].values().sum::<f64>();
        let operations: usize = self.operations.values().map(|of| of.len() + 1).sum();
        Ok(Written {
            calls: calls as u64,
            nodes: operations as u64 + 1,
            locations: self.locations.len() as u64,
        })
    }

    fn anchor(&self) -> String {
        let mut text =
            String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<cube version=\"4.4\">\n");
        let creator = format!("ncclscope {}", env!("CARGO_PKG_VERSION"));
        let _ = writeln!(text, "<attr key=\"Creator\" value=\"{creator}\"/>");
        text.push_str("<attr key=\"CUBE_CT_AGGR\" value=\"SUM\"/>\n");
        self.metrics(&mut text);
        self.program(&mut text);
        self.system(&mut text);
        text.push_str("</cube>\n");
        text
    }

    fn metrics(&self, text: &mut String) {
        text.push_str("<metrics title=\"Metrics\">\n");
        let mut open = 0;
        for (number, metric) in METRICS.iter().enumerate() {
            for _ in metric.depth..open {
                text.push_str("</metric>\n");
            }
            let (kind, unit) = match metric.kind {
                Kind::Seconds => ("DOUBLE", "sec"),
                Kind::Count => ("UINT64", "occ"),
                Kind::Bytes => ("UINT64", "bytes"),
                Kind::Share => ("MAXDOUBLE", ""),
            };
            let _ = writeln!(
                text,
                "<metric id=\"{number}\" type=\"EXCLUSIVE\"><disp_name>{}</disp_name>\
                 <uniq_name>{}</uniq_name><dtype>{kind}</dtype><uom>{unit}</uom><val></val><url></url>\
                 <descr>{}</descr>",
                metric.title, metric.name, metric.about
            );
            open = metric.depth + 1;
        }
        for _ in 0..open {
            text.push_str("</metric>\n");
        }
        text.push_str("</metrics>\n");
    }

    /// The call tree. A region has the number of its node.
    fn program(&self, text: &mut String) {
        let mut regions = String::new();
        let mut nodes = String::from("<cnode id=\"0\" calleeId=\"0\">\n");
        let region = |to: &mut String, number: usize, name: &str, role: &str| {
            let name = escaped(name);
            let _ = writeln!(
                to,
                "<region id=\"{number}\" mod=\"\" begin=\"-1\" end=\"-1\"><name>{name}</name>\
                 <mangled_name>{name}</mangled_name><paradigm>cuda</paradigm><role>{role}</role>\
                 <url></url><descr></descr></region>"
            );
        };
        region(&mut regions, JOB, "job", "artificial");
        let mut next = JOB + 1;
        for (communicator, operations) in &self.operations {
            region(
                &mut regions,
                next,
                &self.communicator(*communicator),
                "artificial",
            );
            let _ = writeln!(nodes, "<cnode id=\"{next}\" calleeId=\"{next}\">");
            next += 1;
            for (operation, number) in operations {
                region(&mut regions, *number, &self.title(operation), "function");
                let _ = writeln!(
                    nodes,
                    "<cnode id=\"{number}\" calleeId=\"{number}\"></cnode>"
                );
                next += 1;
            }
            nodes.push_str("</cnode>\n");
        }
        let _ = writeln!(text, "<program>\n{regions}{nodes}</cnode>\n</program>");
    }

    fn communicator(&self, number: Option<u32>) -> String {
        let of = number.and_then(|number| self.capture.communicators.get(number as usize));
        match of {
            Some(of) => {
                let name = of.name.as_ref().map(|name| format!(" ({name})"));
                format!("communicator {}{}", of.id, name.unwrap_or_default())
            }
            None => "communicator not known".to_owned(),
        }
    }

    fn title(&self, (_, function, bytes, of): &Operation) -> String {
        let names = &self.capture.names;
        let mut title = names.get(*function).unwrap_or("?").to_owned();
        if let Some(bytes) = bytes {
            let _ = write!(title, " {}", size(*bytes));
        }
        if let Some(of) = names.get(*of) {
            let _ = write!(title, " {}", datatype(of));
        }
        title
    }

    fn system(&self, text: &mut String) {
        text.push_str(
            "<system>\n<systemtreenode Id=\"0\"><name>job</name><class>machine</class>\n",
        );
        let mut hosts: Vec<&str> = self
            .capture
            .processes
            .iter()
            .map(|p| p.host.as_str())
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        for (at, host) in hosts.iter().enumerate() {
            let (id, name) = (at + 1, escaped(host));
            let _ = writeln!(
                text,
                "<systemtreenode Id=\"{id}\"><name>{name}</name><class>node</class>"
            );
            let of_host = |index: &usize| self.capture.processes[*index].host == *host;
            for index in (0..self.capture.processes.len()).filter(of_host) {
                self.process(text, index);
            }
            text.push_str("</systemtreenode>\n");
        }
        text.push_str("</systemtreenode>\n</system>\n");
    }

    fn process(&self, text: &mut String, index: usize) {
        let process = &self.capture.processes[index];
        let rank = process.rank.map_or(index as u64, u64::from);
        let _ = writeln!(
            text,
            "<locationgroup Id=\"{index}\"><name>{}</name><rank>{rank}</rank><type>process</type>",
            escaped(&process.title())
        );
        for (at, (of, device)) in self.locations.iter().enumerate() {
            if *of == index {
                let name = device.map_or("GPU".to_owned(), |device| format!("GPU {device}"));
                let _ = writeln!(
                    text,
                    "<location Id=\"{at}\"><name>{name}</name><rank>{}</rank><type>gpu</type></location>",
                    device.unwrap_or(0)
                );
            }
        }
        text.push_str("</locationgroup>\n");
    }
}

/// Text for XML. Characters that XML can't have are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}
