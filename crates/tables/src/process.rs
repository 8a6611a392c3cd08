//! One process of a capture: who it was, what it called, and what its recorder counted.
//!
//! Rule: what is not known is `None` or left out; a count is 0 only where 0 was counted.

use crate::calls::{Call, Extra, Shape};
use crate::clock::Clock;
use crate::communicators::{self, Local};
use crate::composites::Composite;
use crate::exit::Exit;
use crate::graphs::Graphs;
use crate::life::{Life, Newest};
use crate::marks::Marks;
use crate::mpi::Mpi;
use crate::net_ops::NetOp;
use crate::on_gpu::OnGpu;
use crate::sightings::LastSeen;
use crate::stacks::CallStack;
use crate::windows::Windows;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the open rows, totals and counters of a process were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiveSource {
    /// `NAME.live`, taken over after the process's end.
    Adopted,
    /// The live part itself, on this host.
    Here,
    /// `NAME.snap`: as of the last flush.
    Snapshot,
    /// None was found; [`Process::newest`] says where it is.
    #[default]
    None,
    /// There never was one: the process is known from a file of another tool, which counted nothing that NCCL
    /// announced.
    OtherTool,
}

/// Which durations a histogram holds: the recorder puts in the GPU time of a call, or its host time if it has
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistogramOf {
    /// Of calls without a GPU time.
    #[default]
    Host,
    /// Of calls that all have a GPU time.
    Gpu,
    /// Some of each, of no use.
    Both,
}

/// Calls that have no row, by what they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Index into [`Process::shapes`].
    pub shape: u32,
    /// Calls whose rows were folded into the totals.
    pub folded: u64,
    /// Calls that never had a row.
    pub rowless: u64,
    /// Folded calls with a GPU time.
    pub timed: u64,
    /// Sum of GPU times, ns.
    pub sum: u64,
    /// Shortest GPU time, ns.
    pub min: u64,
    /// Longest GPU time, ns.
    pub max: u64,
    /// Sum of host times of the folded calls, ns; nothing without a clock.
    pub host_ns: Option<u64>,
    /// Middle of a bucket in ns and how many durations it holds, ascending.
    pub histogram: Vec<(u64, u64)>,
    /// What durations these are.
    pub histogram_of: HistogramOf,
}

/// What the network did for calls without rows, of one function on one communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetTotal {
    /// Index into [`Process::shapes`], of which communicator and function count alone.
    pub shape: u32,
    /// Calls that used the network.
    pub calls: u64,
    /// Proxy operations started, and stopped.
    pub operations: [u64; 2],
    /// Steps.
    pub steps: u64,
    /// Bytes sent, and received.
    pub bytes: [u64; 2],
    /// Waits of steps, ns, in the order of [`capture::live::WAITS`].
    pub waits_ns: [u64; 6],
}

/// What the recorder counted; nothing without a live part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls announced by NCCL.
    pub announced: u64,
    /// Calls without a row by [`capture::live::CAUSES`].
    pub lost: Vec<u64>,
    /// Calls that had their numbers, but not yet their rows, when the live part was left.
    pub in_birth: u64,
    /// Callbacks without effect by [`capture::live::ODDS`].
    pub odd: Vec<u64>,
    /// Events that the recorder had not asked for.
    pub unrequested: u64,
    /// Times that are in totals and not in their histogram.
    pub pages_full: u64,
    /// errno of the last failed write, 0 if none.
    pub write_errno: u32,
    /// 0 recording, 1 ended, 2 off after a failure.
    pub state: u32,
    /// CUDA's error that ended the timing of launches by its events, 0 if none.
    pub cuda_error: u32,
    /// The plugin behind the recorder: threads inside of it, the thread that entered it last, and calls for
    /// which it returned an error.
    pub chain: [u32; 3],
}

/// One process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its trace file, relative to the capture.
    pub file: PathBuf,
    /// Host name.
    pub host: String,
    /// The first host with the same clock, if that is another: containers on one machine have names of their
    /// own.
    pub same_clock_as: Option<String>,
    /// Process id, 0 when not known.
    pub pid: u32,
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Number of the torchrun restart, 0 for the first start.
    pub restart: u32,
    /// Everything that the recorder wrote about the process, by key.
    pub facts: BTreeMap<String, String>,
    /// Where the live part was read.
    pub live: LiveSource,
    /// Where its calls since the last flush are, if they are not here.
    pub newest: Newest,
    /// Whether it is still there.
    pub life: Life,
    /// What `ncclscope hang` or `ncclscope run` saw of it last, as far as it is not older than what it wrote
    /// itself.
    pub seen: Option<LastSeen>,
    /// How it ended, if `ncclscope run` saw that, and if it was not well.
    pub exit: Option<Exit>,
    /// Whether the recorder folded calls into the totals while its live part was copied, however often that
    /// was tried. A call may then be counted twice, or not at all.
    pub moving: bool,
    /// What was counted; nothing without a live part.
    pub counters: Option<Counters>,
    /// Its communicators.
    pub communicators: Vec<Local>,
    /// What calls have in common.
    pub shapes: Vec<Shape>,
    /// Its calls by ticket.
    pub calls: Vec<Call>,
    /// What few calls have; see [`Call::extra`].
    pub extras: Vec<Extra>,
    /// Network operations that were not over, by ticket of their calls.
    pub net_ops: Vec<NetOp>,
    /// How far the GPU had come with calls that were open for long, by ticket.
    pub on_gpu: Vec<OnGpu>,
    /// Its CUDA graphs with captured calls.
    pub graphs: Graphs,
    /// Its kernel windows.
    pub windows: Windows,
    /// Its time in MPI.
    pub mpi: Mpi,
    /// Steps and phases that the program marked.
    pub marks: Marks,
    /// Operations made of several calls.
    pub composites: Vec<Composite>,
    /// The stacks that its calls name, by id.
    pub stacks: BTreeMap<u32, CallStack>,
    /// Calls without rows.
    pub totals: Vec<Total>,
    /// What the network did for them.
    pub net_totals: Vec<NetTotal>,
    /// Calls whose trace files were removed to stay within `NCCLSCOPE_MAX_SIZE`.
    pub rotated: u64,
    /// Those of them that are not in [`Process::totals`] either, for want of an entry.
    pub rotated_unlisted: u64,
    /// Calls that are in its files, and older than the span that was asked for ([`crate::tail`]).
    pub forgotten: u64,
    /// All calls since the start, by shape; empty unless a [`crate::Tail`] counts them.
    pub sums: Vec<crate::sums::Sum>,
    /// Rows that were in blocks.
    pub sealed: u64,
    /// Sealed rows that can't be told apart any more, because a block before them is damaged.
    pub shapeless: u64,
    /// Blocks that are damaged or missing.
    pub bad_blocks: u64,
    /// Whether the recorder ended the file.
    pub ended: bool,
    /// What NCCL said about its set-up.
    pub setup: setup::recorded::Setup,
    /// Ticks to time.
    pub clock: Clock,
    /// By number of a communicator: the ticket from which on its calls can't have completed, because another
    /// rank never made them. Known once all calls are in memory.
    pub stuck_from: BTreeMap<u32, u64>,
}

impl Process {
    /// Whether it is the process with this id on this host. A host gives an id to one process at a time, so
    /// within an attempt of a job the two name one.
    pub fn is(&self, host: &str, pid: u32) -> bool {
        self.pid == pid && self.host == host
    }

    /// The communicator with this number, as the process sees it.
    pub fn communicator(&self, uid: u32) -> Option<&Local> {
        communicators::with_uid(&self.communicators, uid)
    }

    /// How long a call's kernel waited for other ranks, moved bytes, and waited at its end, by NCCL's kernel
    /// phases, ns. They are recorded with `NCCLSCOPE_MODE=full` and stamps, from NCCL 2.31 on.
    pub fn phases_ns(&self, call: &Call) -> Option<[u64; 3]> {
        let extra = &self.extras[(call.extra as usize).checked_sub(1)?];
        let [synced, computed] = extra.phase_stop;
        let (start, stop) = call.gpu.on_either_clock()?;
        let in_order = start <= synced && synced <= computed && computed <= stop;
        (synced != 0 && in_order).then(|| [synced - start, computed - synced, stop - computed])
    }

    /// Whether `ncclscope attach` recorded it.
    pub fn is_attached(&self) -> bool {
        self.fact("mode") == Some("attach")
    }

    /// A fact by key, if it is there and not empty.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts
            .get(key)
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// The host by which its clock goes. Containers on one machine are hosts of their own and have one clock.
    pub fn clock_host(&self) -> &str {
        self.same_clock_as.as_deref().unwrap_or(&self.host)
    }

    /// Whether `ncclscope collect` on another host may bring its newest calls. A damaged file may lack what
    /// says where they are; nobody can bring them then.
    pub fn is_collectable(&self) -> bool {
        match self.newest {
            Newest::Elsewhere => true,
            Newest::Unknown => !self.facts.is_empty(),
            _ => false,
        }
    }

    /// Whether a call was written as finished, and nothing shows that it can't have completed.
    pub fn has_finished(&self, call: &Call) -> bool {
        let shape = &self.shapes[call.shape as usize];
        let stuck = self.stuck_from.get(&shape.uid);
        let stuck = stuck.is_some_and(|from| call.ticket >= *from);
        call.sealed && (!stuck || call.gpu_ns(shape).is_ok())
    }

    /// NCCL's version as its own number (2.28.9 is 22809), if known.
    pub fn nccl_version(&self) -> Option<u32> {
        let mut parts = self
            .fact("nccl")?
            .split(['.', '-', '+'])
            .map(|p| p.parse::<u32>().ok());
        let (major, minor, patch) = (
            parts.next()??,
            parts.next()??,
            parts.next().flatten().unwrap_or(0),
        );
        Some(major.checked_mul(10_000)? + minor.checked_mul(100)? + patch)
    }

    /// Whether all that its recorder ever counted is known: nothing was announced beyond that.
    pub fn is_whole(&self) -> bool {
        let ended = self.counters.as_ref().is_some_and(|c| c.state == 1);
        match self.live {
            LiveSource::Adopted | LiveSource::Here => true,
            LiveSource::Snapshot => ended,
            LiveSource::None | LiveSource::OtherTool => false,
        }
    }

    /// The tool that wrote the file from which it is known, if that was no recorder of ours.
    pub fn other_tool(&self) -> Option<&str> {
        self.fact("tool")
    }

    /// Whether nobody knows its host. [`Process::host`] then is a name that `ncclscope` made up.
    pub fn is_host_unknown(&self) -> bool {
        self.fact("host_name") == Some("unknown")
    }

    /// Whether the calls that are here begin with the first one that it made. What another tool wrote may
    /// begin in the middle of a run.
    pub fn begins_with_first_call(&self) -> bool {
        self.fact("first_calls") != Some("unknown")
    }

    /// Whether it is known what CUDA graphs executed. Files of other tools have kernels of graphs at most,
    /// and not which calls these were of.
    pub fn knows_graphs(&self) -> bool {
        self.other_tool().is_none()
    }

    /// Whether sends and receives were counted. NCCL's RAS counts collectives only.
    pub fn knows_p2p(&self) -> bool {
        self.fact("p2p") != Some("unknown")
    }

    /// What was seen of it when it was stopped, if it has done nothing since and can't be asked any more. A
    /// process that is killed may take seconds to die, with a driver to close. It counts as running until
    /// then, but it writes nothing into its live part, as one does that was let go.
    pub fn was_stopped(&self) -> Option<LastSeen> {
        let can_be_asked = match self.life {
            Life::Stopped => true,
            Life::Running => self.live != LiveSource::Here,
            Life::Gone | Life::Unknown => false,
        };
        let stopped = |seen: &LastSeen| seen.life == Life::Stopped && !can_be_asked;
        self.seen.filter(stopped)
    }

    /// How reports call it: `rank 3` or `pid 71 on node-2`.
    pub fn title(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("pid {} on {}", crate::pid::shown(self.pid), self.host),
        }
    }
}
