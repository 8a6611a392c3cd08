//! NCCL's debug output: what each rank says while it makes a communicator.
//!
//! [`LogLine::parse`] takes a line apart: host, process, thread, device, and what NCCL said. A [`Reader`]
//! takes lines in their order and gathers one [`Init`] for each communicator that a thread made. The lines of
//! all ranks may be in one file, in any mixture.
//!
//! Rule: a line belongs to the init of its own thread that has its communicator and rank. So two threads that
//! make communicators at the same time are told apart, and so are containers with equal names and numbers.

use crate::log_line::{cut, without_colours};
use crate::memory::{Ledger, Memory, Sizes};
use crate::paths::{reducing, Hop, HostFacts};
use crate::warnings::{Warning, Warnings};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::log_line::{Level, LogLine};

/// Phases of an init, in the order in which NCCL prints them.
pub const PHASES: [&str; 8] = [
    "kernels",
    "alloc",
    "bootstrap",
    "allgathers",
    "topo",
    "graphs",
    "connections",
    "rest",
];

/// One rank's way through the making of one communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Init {
    /// Host name, as NCCL has it.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// The thread that made it.
    pub tid: u32,
    /// CUDA device.
    pub device: Option<u32>,
    /// The GPU by NVML's number, which nvidia-smi uses.
    pub nvml: Option<u32>,
    /// NCCL's function that made it, such as `ncclCommInitRankConfig`.
    pub function: String,
    /// Its rank.
    pub rank: u32,
    /// Ranks in the communicator.
    pub nranks: u32,
    /// On how many hosts NCCL takes them to be.
    pub nodes: Option<u32>,
    /// NCCL's pointer to it, which only tells communicators of a process apart.
    pub comm: Option<u64>,
    /// NCCL's id, the same on all ranks; nothing for a communicator that was split from another.
    pub id: Option<u64>,
    /// Pointer to the communicator that it was split from, how many had been split from that before, and the
    /// colour.
    pub split: Option<(u64, i64, i64)>,
    /// Whether it shares that one's buffers, so that NCCL counts the memory of both together.
    pub shares: bool,
    /// The GPU's address on the PCI bus.
    pub bus: Option<u64>,
    /// When NCCL began to connect the ranks, seconds since 1970.
    pub started_s: Option<f64>,
    /// When it was done.
    pub completed_s: Option<f64>,
    /// Whether NCCL said that it was done.
    pub is_complete: bool,
    /// Whether the last line of its process was cut, so that what came behind it is lost.
    pub is_cut: bool,
    /// What NCCL said at last about the times of the phases.
    pub timings: Option<Timings>,
    /// What NCCL allocated for it, if it said so.
    pub memory: Memory,
    /// How it is connected, as this rank said.
    pub hops: Vec<Hop>,
    /// Whether it is connected through the NVLink switch, which reduces and sends to all GPUs (NVLS).
    pub nvls: bool,
    /// The network that reduces on its way, if it is connected to one (SHARP).
    pub collnet: Option<String>,
}

/// Times of the phases of an init, in seconds. NCCL prints them with a resolution of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// All of it.
    pub total_s: f64,
    /// By [`PHASES`].
    pub phases_s: [f64; PHASES.len()],
}

impl Timings {
    /// Of the text `total 54.93 (kernels 52.94, alloc 0.38, ...)`. A phase that it does not have is 0.
    ///
    /// Several processes may write into one file, so a line may be cut, or go on with another's. NCCL's
    /// `rest` is the total less all others, so phases that add up to something else are none.
    fn parse(text: &str) -> Option<Timings> {
        /// Each of at most ten figures is rounded to 10 ms.
        const ROUNDING_S: f64 = 0.05;
        let (total, phases) = text.split_once('(')?;
        let total_s: f64 = total.trim().strip_prefix("total")?.trim().parse().ok()?;
        let mut phases_s = [0.0; PHASES.len()];
        for part in phases.split_once(')')?.0.split(',') {
            let (name, seconds) = part.trim().split_once(' ')?;
            let seconds: f64 = seconds.trim().parse().ok()?;
            if let Some(at) = PHASES.iter().position(|phase| *phase == name) {
                phases_s[at] = seconds;
            }
        }
        let sum: f64 = phases_s.iter().sum();
        ((sum - total_s).abs() <= ROUNDING_S).then_some(Timings { total_s, phases_s })
    }

    /// Seconds of a phase.
    pub fn phase(&self, name: &str) -> f64 {
        let at = PHASES.iter().position(|phase| *phase == name);
        at.map_or(0.0, |at| self.phases_s[at])
    }
}

/// What NCCL says before an init begins, if the communicator shares its parent's buffers (`splitShare`).
const SHARED: &str = "MemManager: Shared from parent";

/// Host, process, thread.
type Thread = (String, u32, u32);

/// Inits of a thread that wait for more lines, at most. Several containers may look like one thread.
const OPEN: usize = 64;

/// Hosts of which facts are kept, at most.
const HOSTS: usize = 1 << 16;
/// Connections that are kept, at most: those of 1024 ranks with 32 channels to 30 others each.
const HOPS: usize = 1 << 20;

/// Processes whose lines were cut that are kept, at most.
const MOST_CUT: usize = 1 << 16;

/// Inits that are looked through for the one of a connection, and connections that wait for theirs.
const NEWEST: usize = 4096;

/// Gathers inits from lines.
#[derive(Clone, Default)]
pub struct Reader {
    inits: Vec<Init>,
    /// Inits of a thread of which not every line has come, in the order of their first lines.
    open: BTreeMap<Thread, Vec<usize>>,
    warnings: Warnings,
    /// What is known about each host.
    hosts: BTreeMap<String, HostFacts>,
    /// Inits of a process, in the order of their first lines.
    of_process: BTreeMap<(String, u32), Vec<usize>>,
    /// Connections of processes of which no init has the rank yet.
    unplaced: BTreeMap<(String, u32), Vec<Hop>>,
    /// Connections that are kept.
    hops: usize,
    /// Processes whose last line was cut.
    cut: BTreeSet<(String, u32)>,
    lines: u64,
    /// Processes that wrote lines of level INFO.
    speakers: BTreeSet<(String, u32)>,
    /// The one that wrote the last of them.
    speaker: (String, u32),
    left_out: u64,
    version: Option<String>,
    /// Threads whose next init is of a communicator that shares its parent's buffers.
    sharing: BTreeSet<Thread>,
    memory: Ledger,
    /// The ledger's number of an init, if NCCL said when it began.
    numbers: BTreeMap<usize, usize>,
}

/// What lines tell of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// Communicators that were made, in the order of their first lines.
    pub inits: Vec<Init>,
    /// Connections of ranks without a line about their init, as in a piece of a log: `nranks` is 0.
    pub apart: Vec<Init>,
    /// What was allocated in a process, by host and pid, for communicators that can't be told apart.
    pub unowned: BTreeMap<(String, u32), Sizes>,
    /// What NCCL warned of, in the order of lines; the first of many.
    pub warnings: Vec<Warning>,
    /// How often it warned.
    pub warned: u64,
    /// What NCCL said of each host; of one without a name, if lines have lost theirs.
    pub hosts: BTreeMap<String, HostFacts>,
    /// Lines of level INFO.
    pub lines: u64,
    /// The processes that wrote such lines, by host and number.
    pub speakers: BTreeSet<(String, u32)>,
    /// Lines that Ray left out because they were like others.
    pub left_out: u64,
    /// NCCL's version, which it prints also without level INFO.
    pub version: Option<String>,
}

/// Inits of ranks that only their connections tell of, by host and process.
fn apart(unplaced: BTreeMap<(String, u32), Vec<Hop>>) -> Vec<Init> {
    let mut inits = Vec::new();
    for ((host, pid), hops) in unplaced {
        let mut ranks: BTreeMap<u32, Vec<Hop>> = BTreeMap::new();
        for hop in hops {
            ranks.entry(hop.speaker()).or_default().push(hop);
        }
        inits.extend(ranks.into_iter().map(|(rank, hops)| Init {
            host: host.clone(),
            pid,
            rank,
            hops,
            ..Init::default()
        }));
    }
    inits
}

/// The inits that a text tells of, in the order of their first lines.
pub fn read(text: &str) -> Vec<Init> {
    let mut reader = Reader::default();
    text.lines().for_each(|line| reader.add(line));
    reader.finish().inits
}

impl Reader {
    /// Takes the next line.
    pub fn add(&mut self, line: &str) {
        let line = without_colours(line);
        let Some(line) = LogLine::parse(&line) else {
            self.version(&line);
            let cut = cut(&line).filter(|_| self.cut.len() < MOST_CUT);
            self.cut
                .extend(cut.map(|(host, pid)| (host.to_owned(), pid)));
            return;
        };
        if !self.cut.is_empty() {
            self.cut.remove(&(line.host.to_owned(), line.pid));
        }
        self.left_out = self.left_out.saturating_add(line.left_out.into());
        if let Some(hop) = Hop::parse(line.text.trim_end()) {
            self.hop(&line, hop);
        } else if self.hosts.len() < HOSTS || self.hosts.contains_key(line.host) {
            let facts = self.hosts.entry(line.host.to_owned()).or_default();
            facts.add(&line);
        }
        if line.level == Level::Warn {
            return self.warnings.add(&line);
        }
        self.version(line.text);
        self.lines += 1;
        if (self.speaker.0.as_str(), self.speaker.1) != (line.host, line.pid) {
            self.speaker = (line.host.to_owned(), line.pid);
            self.speakers.insert(self.speaker.clone());
        }
        self.warnings.follow(&line);
        let text = line.text.trim_end();
        // Tables and pages put marks behind a line.
        if let Some((text, _)) = text.split_once("- Init START") {
            self.state(&line, text, false);
        } else if let Some((text, _)) = text.split_once("- Init COMPLETE") {
            self.state(&line, text, true);
        } else if let Some(text) = text.strip_prefix("Init timings") {
            self.timings(&line, text);
        } else if let Some(text) = text.strip_prefix("NVLS comm ") {
            self.nvls(&line, text);
            // It has sizes, too.
            self.memory.add(&line);
        } else if let Some(text) = text
            .strip_prefix("comm ")
            .filter(|of| of.contains(" nNodes "))
        {
            self.nodes(&line, text);
        } else if let Some((rank, network)) = reducing(text) {
            self.collnet(&line, rank, network);
        } else if text.starts_with(SHARED) {
            self.sharing.insert(Self::thread(&line));
        } else {
            self.memory.add(&line);
        }
    }

    /// What they said.
    pub fn finish(self) -> Said {
        let (mut memories, unowned) = self.memory.finish();
        let (warnings, warned) = self.warnings.finish();
        let apart = apart(self.unplaced);
        let mut inits = self.inits;
        for init in &mut inits {
            let process = (init.host.clone(), init.pid);
            init.is_cut = !init.is_complete && self.cut.contains(&process);
        }
        for (init, number) in self.numbers {
            if let Some(memory) = memories.get_mut(number) {
                inits[init].memory = std::mem::take(memory);
            }
        }
        Said {
            inits,
            apart,
            unowned,
            warnings,
            warned,
            hosts: self.hosts,
            lines: self.lines,
            speakers: self.speakers,
            left_out: self.left_out,
            version: self.version,
        }
    }

    /// A line that has lost its numbers is of the thread that uses its device.
    fn thread(line: &LogLine) -> Thread {
        let thread = match (line.pid, line.tid) {
            (0, 0) => line.device.unwrap_or(0),
            (_, tid) => tid,
        };
        (line.host.to_owned(), line.pid, thread)
    }

    /// `NCCL version 2.26.2+cuda12.4`, in a line of its own or behind a launcher's words.
    fn version(&mut self, text: &str) {
        if self.version.is_some() {
            return;
        }
        let version = text.split_once("NCCL version ").and_then(|(_, rest)| {
            let word = rest.split_whitespace().next()?;
            word.starts_with(|c: char| c.is_ascii_digit())
                .then_some(word)
        });
        self.version = version.map(str::to_owned);
    }

    /// A connection belongs to the newest communicator of its process in which its rank is an end of it.
    fn hop(&mut self, line: &LogLine, hop: Hop) {
        if self.hops >= HOPS {
            return;
        }
        self.hops += 1;
        let process = (line.host.to_owned(), line.pid);
        match self.home(&process, &hop) {
            Some(at) => self.inits[at].hops.push(hop),
            None => self.unplaced.entry(process).or_default().push(hop),
        }
    }

    fn home(&self, process: &(String, u32), hop: &Hop) -> Option<usize> {
        self.newest(process, |init| {
            init.rank == hop.speaker() && init.nranks > hop.from.max(hop.to)
        })
    }

    /// The newest init of a process that `fits`.
    fn newest(&self, process: &(String, u32), fits: impl Fn(&Init) -> bool) -> Option<usize> {
        let mut newest = self.of_process.get(process)?.iter().rev().take(NEWEST);
        newest.find(|at| fits(&self.inits[**at])).copied()
    }

    /// `0x5643896e6e10 headRank 2 nHeads 6 nvlsRanks 6 buffSize 1048576 …`.
    fn nvls(&mut self, line: &LogLine, text: &str) {
        if let Some(at) = self.by_pointer(line, text) {
            self.inits[at].nvls = true;
        }
    }

    /// `0xe3cb4f0 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0`.
    fn nodes(&mut self, line: &LogLine, text: &str) {
        let mut words = text.split_whitespace().skip_while(|word| *word != "nNodes");
        let nodes = words.nth(1).and_then(|word| word.parse().ok());
        if let Some(at) = self.by_pointer(line, text) {
            self.inits[at].nodes = nodes;
        }
    }

    /// The newest init of a line's process with the pointer that a text begins with.
    fn by_pointer(&self, line: &LogLine, text: &str) -> Option<usize> {
        let word = text.split_whitespace().next()?;
        let comm = u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()?;
        let process = (line.host.to_owned(), line.pid);
        self.newest(&process, |init| init.comm == Some(comm))
    }

    fn collnet(&mut self, line: &LogLine, rank: u32, network: &str) {
        let process = (line.host.to_owned(), line.pid);
        if let Some(at) = self.newest(&process, |init| init.rank == rank) {
            self.inits[at].collnet = Some(network.to_owned());
        }
    }

    /// Connections may come before the first line about their init.
    fn place(&mut self, line: &LogLine) {
        let process = (line.host.to_owned(), line.pid);
        let Some(waiting) = self.unplaced.remove(&process) else {
            return;
        };
        let waits = waiting.len() <= NEWEST;
        for hop in waiting {
            match self.home(&process, &hop) {
                Some(at) => self.inits[at].hops.push(hop),
                None if !waits => {}
                None => self.unplaced.entry(process.clone()).or_default().push(hop),
            }
        }
    }

    /// The last init of the thread that `fits`, or another.
    fn open(&mut self, line: &LogLine, fits: impl Fn(&Init) -> bool) -> usize {
        let thread = Self::thread(line);
        let (inits, open) = (&mut self.inits, self.open.entry(thread).or_default());
        open.retain(|at| !inits[*at].is_complete || inits[*at].timings.is_none());
        let found = open.iter().rev().copied().find(|at| fits(&inits[*at]));
        found.unwrap_or_else(|| {
            if open.len() == OPEN {
                open.remove(0);
            }
            open.push(inits.len());
            let process = (line.host.to_owned(), line.pid);
            self.of_process
                .entry(process)
                .or_default()
                .push(inits.len());
            inits.push(Init {
                host: line.host.to_owned(),
                pid: line.pid,
                tid: line.tid,
                device: line.device,
                ..Init::default()
            });
            inits.len() - 1
        })
    }

    /// `[Rank 0] ncclCommInitRank comm 0x55 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 18000 commId 0x2f`.
    fn state(&mut self, line: &LogLine, text: &str, complete: bool) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let after = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1).copied()
        };
        // `key 0- Init START` has no blank there.
        let number = |name: &str| after(name)?.trim_end_matches('-').parse::<i64>().ok();
        let hex = |name: &str| {
            let word = after(name)?;
            u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
        };
        let (Some(comm), Some(rank), Some(nranks)) =
            (hex("comm"), number("rank"), number("nranks"))
        else {
            return;
        };
        let (Ok(rank), Ok(nranks)) = (u32::try_from(rank), u32::try_from(nranks)) else {
            return;
        };
        let function = words.iter().position(|word| *word == "comm");
        let function = function.and_then(|at| words.get(at.checked_sub(1)?));
        let fits = |init: &Init| {
            complete && init.comm == Some(comm) && init.rank == rank && !init.is_complete
        };
        let at = self.open(line, fits);
        let init = &mut self.inits[at];
        init.function = function.copied().unwrap_or_default().to_owned();
        (init.rank, init.nranks) = (rank, nranks);
        init.comm = Some(comm);
        init.nvml = number("nvmlDev").and_then(|n| n.try_into().ok());
        init.id = hex("commId").filter(|id| *id != 0);
        init.split = hex("parent").filter(|parent| *parent != 0).map(|parent| {
            // Before 2.25 it was the count of splits.
            let count = number("childCount").or(number("splitCount"));
            let color = number("color");
            (parent, count.unwrap_or(-1), color.unwrap_or(-1))
        });
        init.bus = hex("busId");
        init.device = number("cudaDev")
            .and_then(|n| n.try_into().ok())
            .or(line.device);
        if !complete {
            init.shares = self.sharing.remove(&Self::thread(line));
        }
        if complete {
            (init.is_complete, init.completed_s) = (true, line.at_s);
        } else {
            init.started_s = line.at_s;
        }
        let device = init.device;
        self.place(line);
        match (complete, self.numbers.get(&at)) {
            (false, _) => {
                let number = self.memory.begin(line, device, comm);
                self.numbers.insert(at, number);
            }
            (true, Some(number)) => self.memory.end(line, *number),
            (true, None) => {}
        }
    }

    /// ` - ncclCommInitRankConfig: rank 4 nranks 8 total 54.93 (kernels 52.94, ...)`.
    fn timings(&mut self, line: &LogLine, text: &str) {
        let Some((function, text)) = text.split_once(": rank ") else {
            return;
        };
        let Some((rank, text)) = text.split_once(" nranks ") else {
            return;
        };
        let Some((nranks, text)) = text.split_once(' ') else {
            return;
        };
        let (Ok(rank), Ok(nranks)) = (rank.trim().parse(), nranks.trim().parse()) else {
            return;
        };
        let Some(timings) = Timings::parse(text) else {
            return;
        };
        let fits =
            |init: &Init| init.rank == rank && init.nranks == nranks && init.timings.is_none();
        let at = self.open(line, fits);
        let init = &mut self.inits[at];
        // NCCL 2.22 does not say it.
        if let Some(function) = function.strip_prefix(" - ") {
            init.function = function.to_owned();
        }
        (init.rank, init.nranks) = (rank, nranks);
        init.timings = Some(timings);
        // Nothing else says that it is done, if only the subsystem PROFILE was asked for.
        init.is_complete = true;
        init.completed_s = init.completed_s.or(line.at_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_a_launcher_are_passed_over() {
        let line =
            "n1:9:9 [4] NCCL INFO Init timings - f: rank 4 nranks 8 total 1.00 (kernels 1.00)";
        let plain = read(line);
        assert_eq!(plain[0].host, "n1");
        for coloured in [
            format!("\u{1b}[32m{line}\u{1b}[0m"),
            format!("\u{1b}[36m(RayTrainWorker pid=7)\u{1b}[0m {line}"),
            format!("\u{1b}[1;38;5;208m{}", line.replace(" [4]", "\u{1b}[m [4]")),
        ] {
            assert_eq!(read(&coloured), plain, "{coloured:?}");
        }
    }

    #[test]
    fn other_lines_are_none() {
        assert!(
            read("n1:1:1 [0] NCCL INFO Init timings - f: rank 0 nranks 2 total x (").is_empty()
        );
        assert!(read("n1:1:1 [0] NCCL INFO comm 0x1 rank 0 - Init START").is_empty());
    }

    #[test]
    fn two_threads_that_initialise_at_once_are_told_apart() {
        let line = |tid: u32, text: &str| format!("n1:100:{tid} [0] NCCL INFO {text}\n");
        let of = |rank: u32, comm: &str| {
            format!("ncclCommInitRank comm {comm} rank {rank} nranks 2 cudaDev {rank} nvmlDev 0 busId 18000")
        };
        let timings = |rank: u32, kernels: &str, bootstrap: &str| {
            format!(
                "Init timings - ncclCommInitRank: rank {rank} nranks 2 total 3.00 (kernels {kernels}, alloc \
                 0.10, bootstrap {bootstrap}, allgathers 0.00, topo 0.10, graphs 0.00, connections 0.10, \
                 rest 0.00)"
            )
        };
        let text = [
            line(
                7,
                &format!("[Rank 0] {} commId 0xa - Init START", of(0, "0x10")),
            ),
            line(
                8,
                &format!("[Rank 1] {} commId 0xa - Init START", of(1, "0x20")),
            ),
            line(8, &format!("{} commId 0xa - Init COMPLETE", of(1, "0x20"))),
            line(7, &format!("{} commId 0xa - Init COMPLETE", of(0, "0x10"))),
            line(8, &timings(1, "2.50", "0.20")),
            line(7, &timings(0, "1.25", "1.45")),
        ]
        .concat();
        let inits = read(&text);
        let seen: Vec<_> = inits
            .iter()
            .map(|init| {
                let kernels = init.timings.expect("timings").phase("kernels");
                (init.tid, init.rank, init.comm, init.id, kernels)
            })
            .collect();
        assert_eq!(
            seen,
            [
                (7, 0, Some(16), Some(10), 1.25),
                (8, 1, Some(32), Some(10), 2.5)
            ]
        );
    }

    #[test]
    fn lines_that_are_cut_or_mixed_are_left_out() {
        let line = "n1:9:9 [4] NCCL INFO Init timings - f: rank 4 nranks 8 total 54.93 (kernels 52.94, alloc \
                    0.38, bootstrap 0.03, allgathers 0.08, topo 1.10, graphs 0.01, connections 0.39, rest \
                    0.00)";
        assert_eq!(read(line)[0].timings.map(|t| t.total_s), Some(54.93));
        for end in 0..line.len() {
            assert!(read(&line[..end]).is_empty(), "{}", &line[..end]);
        }
        // Another process wrote into it, or some of it was lost.
        for (from, to) in [
            (
                "52.94, ",
                "52n1:8:8 [3] NCCL INFO Connected all rings\n.94, ",
            ),
            ("kernels 52.94, alloc", "alloc"),
            ("1.10", "11.10"),
            ("54.93", "4.93"),
        ] {
            let mixed = line.replace(from, to);
            assert!(
                read(&mixed).iter().all(|init| init.timings.is_none()),
                "{mixed}"
            );
        }
    }

    #[test]
    fn a_split_has_a_count_and_an_id_by_its_release() {
        let of = |words: &str| {
            let read = read(&format!(
                "n1:1:2 [0] NCCL INFO g comm 0x2 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 {words}"
            ));
            (read[0].id, read[0].split)
        };
        let split = |count| Some((0x10, count, 5));
        let cases = [
            ("parent 0x10 color 5 key 0- Init START", (None, split(-1))),
            (
                "parent 0x10 splitCount 3 color 5 key 0- Init START",
                (None, split(3)),
            ),
            (
                "parent 0x10 childCount 3 color 5 key 0- Init START",
                (None, split(3)),
            ),
            (
                "commId 0xab parent 0x10 childCount 3 color 5 key 0 - Init START",
                (Some(0xab), split(3)),
            ),
        ];
        for (words, expected) in cases {
            assert_eq!(of(words), expected, "{words}");
        }
    }

    #[test]
    fn a_communicator_that_shares_its_parent_s_buffers_says_so_before_it_begins() {
        let start = |tid: u32, comm: &str| {
            format!(
                "n1:1:{tid} [0] NCCL INFO g comm {comm} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 parent \
                 0x1 childCount 1 color 5 key 0- Init START\n"
            )
        };
        let shared = "n1:1:7 [0] NCCL INFO MemManager: Shared from parent, refCount=2\n";
        let text = [shared, &start(8, "0x3"), &start(7, "0x2"), &start(7, "0x4")].concat();
        let shares: Vec<_> = read(&text).iter().map(|i| (i.comm, i.shares)).collect();
        assert_eq!(
            shares,
            [(Some(3), false), (Some(2), true), (Some(4), false)]
        );
    }

    #[test]
    fn nccl_2_22_does_not_name_the_function() {
        let inits = read(
            "n1:1:2 [0] NCCL INFO Init timings: rank 1 nranks 2 total 1.50 (kernels 1.00, bootstrap 0.25, \
             allgathers 0.00, topo 0.10, graphs 0.01, connections 0.12, rest 0.02)",
        );
        let timings = inits[0].timings.expect("timings");
        assert_eq!(
            (inits[0].rank, timings.total_s, timings.phase("alloc")),
            (1, 1.5, 0.0)
        );
        assert_eq!(
            (timings.phase("rest"), inits[0].function.as_str()),
            (0.02, "")
        );
    }

    #[test]
    fn containers_with_equal_names_and_numbers_are_told_apart_by_rank() {
        let line = |text: &str| format!("localhost:57:57 [0] NCCL INFO {text}\n");
        let of = |rank: u32, end: &str| {
            line(&format!(
                "f comm 0x5570 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0xabba - Init {end}"
            ))
        };
        let timings = |rank: u32| {
            line(&format!(
                "Init timings - f: rank {rank} nranks 2 total {rank}.50 (kernels {rank}.50, rest 0.00)"
            ))
        };
        let text = [
            of(0, "START"),
            of(1, "START"),
            of(0, "COMPLETE"),
            of(1, "COMPLETE"),
            timings(0),
            timings(1),
        ]
        .concat();
        let seen = read(&text);
        let seen = seen
            .iter()
            .map(|i| (i.rank, i.is_complete, i.timings.map(|t| t.total_s)));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [(0, true, Some(0.5)), (1, true, Some(1.5))]
        );
    }

    #[test]
    fn warnings_are_kept_with_the_way_of_the_error() {
        let mut reader = Reader::default();
        for line in [
            "NCCL version 2.26.2+cuda12.4",
            "b:905:985 [5] include/alloc.h:334 NCCL WARN Failed to CUDA calloc 536870912 bytes",
            "b:905:985 [5] NCCL INFO transport/net.cc:561 -> 1",
            "b:906:986 [6] NCCL INFO transport/net.cc:999 -> 1",
            "b:905:985 [5] NCCL INFO Connected all rings",
            "b:905:985 [5] NCCL INFO init.cc:12 -> 1 [repeated 3x across cluster]",
        ] {
            reader.add(line);
        }
        let said = reader.finish();
        assert_eq!(said.version.as_deref(), Some("2.26.2+cuda12.4"));
        assert_eq!((said.warned, said.left_out, said.warnings.len()), (1, 3, 1));
        let warning = &said.warnings[0];
        assert_eq!((warning.pid, warning.device), (905, Some(5)));
        assert_eq!(warning.source, "include/alloc.h:334");
        assert_eq!(warning.text, "Failed to CUDA calloc 536870912 bytes");
        assert_eq!(warning.through, ["transport/net.cc:561"]);
    }

    #[test]
    fn a_process_whose_last_line_was_cut_may_have_gone_on() {
        let start = |pid: u32| {
            let at = format!("n1:{pid}:7 [0] NCCL INFO f comm 0x{pid} rank {pid}");
            format!("{at} nranks 4 busId 1 commId 0xa - Init START\n")
        };
        let text = start(1)
            + &start(2)
            + "n1:1:7 [0] NCCL INFO Connn1:2:7 [0] NCCL INFO nected\n"
            + "n1:2:7 [0] NCCL INFO Trn1:3:7 [0] NCCL INFO ees\n"
            + "n1:2:7 [0] NCCL INFO whole again\n";
        let seen = read(&text);
        let cut = seen.iter().map(|init| (init.pid, init.is_cut));
        assert_eq!(cut.collect::<Vec<_>>(), [(1, true), (2, false)]);
    }

    #[test]
    fn a_thread_that_makes_two_communicators_has_two_inits() {
        let line = |text: &str| format!("n1:100:7 [0] NCCL INFO {text}\n");
        let text = [
            line("[Rank 0] f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0xa - Init START"),
            line("f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0xa - Init COMPLETE"),
            line("Init timings - f: rank 0 nranks 2 total 1.00 (kernels 1.00, rest 0.00)"),
            line("g comm 0x2 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 parent 0x1 childCount 1 color 5 key \
                  0- Init START"),
            line("g comm 0x2 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 parent 0x1 childCount 1 color 5 key \
                  0 - Init COMPLETE"),
            line("Init timings - g: rank 0 nranks 2 total 0.50 (kernels 0.00, rest 0.50)"),
        ]
        .concat();
        let inits = read(&text);
        assert_eq!(inits.len(), 2);
        assert_eq!((inits[1].id, inits[1].split), (None, Some((1, 1, 5))));
        assert_eq!(inits[1].timings.expect("timings").total_s, 0.5);
        assert!(inits[1].is_complete);
    }
}
