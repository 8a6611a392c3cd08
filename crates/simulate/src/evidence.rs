//! What is recorded of a job: who has kernel windows, which launches are timed, what is missing.

use crate::play::SINCE_1970;
use tables::spans::keep_calls;
use tables::{Capture, GpuTimes, Process};

/// Which ranks something is true of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Of all.
    All,
    /// Of none.
    None,
    /// Of this one alone.
    Only(usize),
    /// Of all but this one.
    But(usize),
}

impl Ranks {
    /// Whether it is true of this rank.
    pub fn has(self, rank: usize) -> bool {
        match self {
            Ranks::All => true,
            Ranks::None => false,
            Ranks::Only(one) => rank == one,
            Ranks::But(one) => rank != one,
        }
    }
}

/// What of a job gets into its capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Who has kernel windows.
    pub windows: Ranks,
    /// Whether launches have GPU times at all; else there are host times only.
    pub events: bool,
    /// By rank: one in `1 << level` launches of the kind that comes most often is timed, and of others more.
    /// Ranks after the last have its level.
    pub levels: Vec<u32>,
    /// Whether it was recorded how long streams waited for calls.
    pub stream_waits: bool,
    /// Sends and receives of one launch are as NCCL announces them: sends have the time of the launch, and
    /// receives have none. Otherwise each has it.
    pub sends_as_announced: bool,
    /// This rank is not in the capture.
    pub absent: Option<usize>,
    /// This rank is in it from this part of the run on.
    pub late: Option<(usize, f64)>,
    /// By host: its clock is so far ahead, ns, and gains so many ns in a second. Hosts after the last have
    /// the true time.
    pub clocks: Vec<(i64, i64)>,
}

impl Default for Evidence {
    fn default() -> Evidence {
        Evidence {
            windows: Ranks::All,
            events: true,
            levels: vec![0],
            stream_waits: true,
            sends_as_announced: false,
            absent: None,
            late: None,
            clocks: Vec::new(),
        }
    }
}

impl Evidence {
    pub(crate) fn level(&self, rank: usize) -> u32 {
        let level = self.levels.get(rank).or(self.levels.last());
        level.copied().unwrap_or(0)
    }

    /// Sets the clocks of hosts. Leaves out the rank that is absent, and the begin of the one that is late.
    pub(crate) fn hide(&self, capture: &mut Capture, hosts: &[usize]) {
        if let Some((rank, part)) = self.late {
            let all = capture.processes.iter().flat_map(|process| &process.calls);
            let ends = all.map(|call| call.api_ns).fold(SINCE_1970, i64::max);
            let since = SINCE_1970 + (part * (ends - SINCE_1970) as f64) as i64;
            let process = capture.processes.get_mut(rank);
            process
                .into_iter()
                .for_each(|process| leave_out_before(process, since));
        }
        for (process, host) in capture.processes.iter_mut().zip(hosts) {
            if let Some((ahead, gains)) = self.clocks.get(*host) {
                each_time(process, |at| {
                    *at += ahead + (*at - SINCE_1970) / 1_000_000_000 * gains;
                });
            }
        }
        let Some(absent) = self.absent.filter(|rank| *rank < capture.processes.len()) else {
            return;
        };
        capture.processes.remove(absent);
        for communicator in &mut capture.communicators {
            communicator
                .members
                .retain(|member| member.process != absent);
            for member in &mut communicator.members {
                member.process -= usize::from(member.process > absent);
            }
        }
    }
}

/// The level of a kind of launches that comes so often, where another one comes most often: about as many of
/// each are timed, as the recorder does.
pub(crate) fn level_of(level: u32, often: u32, most_often: u32) -> u32 {
    level.saturating_sub((most_often / often.max(1)).checked_ilog2().unwrap_or(0))
}

/// Whether the `index`-th launch of its kind is timed, as the recorder decides it.
pub(crate) fn sampled(index: u32, level: u32) -> bool {
    /// The first of each kind are timed whatever the level.
    const FIRST: u32 = 8;
    let mut mixed = index.wrapping_add(0x9e37_79b9);
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    index < FIRST || (mixed ^ mixed >> 16).trailing_zeros() >= level
}

/// Leaves out what a process did before this moment, ns since 1970. Its tickets show that there were calls.
fn leave_out_before(process: &mut Process, since: i64) {
    let forgotten = process.forgotten;
    keep_calls(process, |_, call| call.api_ns >= since);
    // Nobody counted these.
    process.forgotten = forgotten;
    process.windows.list.retain(|window| window.open >= since);
    let graphs = &mut process.graphs;
    graphs.launches.retain(|launch| launch.at >= since);
    for graph in &mut graphs.executables {
        graph.launches = graphs.launches.len() as u64;
    }
}

/// All times of a process that are known.
fn each_time(process: &mut Process, set: impl Fn(&mut i64)) {
    let known = |at: &mut i64| {
        if *at != 0 {
            set(at);
        }
    };
    for call in &mut process.calls {
        for at in [
            &mut call.api_ns,
            &mut call.launch_start_ns,
            &mut call.launch_end_ns,
            &mut call.return_ns,
            &mut call.gpu_seen_ns,
        ] {
            known(at);
        }
        if let GpuTimes::OnHost { start, stop, .. } = &mut call.gpu {
            known(start);
            known(stop);
        }
    }
    for window in &mut process.windows.list {
        for at in [
            &mut window.opening,
            &mut window.open,
            &mut window.closing,
            &mut window.closed,
        ] {
            known(at);
        }
        for ran in &mut window.ran {
            known(&mut ran.start);
            known(&mut ran.end);
        }
        window
            .asked
            .iter_mut()
            .for_each(|asked| known(&mut asked.at));
    }
    let graphs = &mut process.graphs;
    for launch in &mut graphs.launches {
        known(&mut launch.at);
        launch.gpu.iter_mut().for_each(|(start, _)| known(start));
    }
    for graph in &mut graphs.executables {
        graph.instantiated.iter_mut().for_each(known);
        graph.newest.iter_mut().for_each(known);
    }
}
