//! Kernel windows and the GPU times of launches, as a part of each turn of the recorder's thread.

use super::gpu_thread::Turn;
use super::Writer;
use crate::windows::{self, Progress};
use capture::graphs::Launched;
use std::sync::atomic::Ordering::Relaxed;

/// Sizes of communicators that are counted apart.
const SIZES: usize = 16;
/// A search for callers may stop launches for 50 ms (measured), so there are few.
const MOST_SEARCHES: u32 = 2;
/// A communicator is used if one of so many calls is made on it.
const USED: u64 = 64;
/// Sends and receives of a pipeline, at least.
const PIPELINE: u64 = 32;
/// A stage of a pipeline exchanges data with so many at most: two on each side, for interleaved stages. An
/// all-to-all of more ranks has more.
const STAGES: u32 = 4;

/// The calls of this process, as far as they decide when windows begin.
#[derive(Default)]
pub(super) struct Traffic {
    /// Calls by the number of ranks of their communicator.
    calls: Vec<(u32, u64)>,
    /// Sends and receives.
    sends: u64,
    /// With whom: a bit for each peer, modulo 64.
    peers: u64,
    /// Windows begin by the clock, because this rank is a stage of a pipeline.
    by_time: bool,
    /// Searches for callers of the driver that were made because launches were not seen.
    searches: u32,
}

impl Traffic {
    /// Counts a call on a communicator with so many ranks; `peer` is 0 for a collective, else the other rank
    /// and 1.
    pub(super) fn count(&mut self, nranks: u32, peer: u32) {
        if peer != 0 {
            self.sends += 1;
            self.peers |= 1 << (peer % 64);
        }
        if let Some((_, calls)) = self.calls.iter_mut().find(|(n, _)| *n == nranks) {
            *calls += 1;
        } else if self.calls.len() < SIZES {
            self.calls.push((nranks, 1));
        }
    }

    /// Whether this rank sends and receives as a stage of a pipeline does, to and from few others. Stages
    /// make different numbers of calls in a step, so their windows begin by the clock, which is the same on
    /// all to some ms.
    fn is_pipeline(&self) -> bool {
        let all: u64 = self.calls.iter().map(|(_, calls)| calls).sum();
        self.sends >= PIPELINE && self.sends * USED >= all && self.peers.count_ones() <= STAGES
    }

    /// Calls on the communicators with the most ranks of those that are used: the same on all their ranks.
    /// One that only starts and ends a job is not used.
    fn shared(&self) -> u64 {
        let all: u64 = self.calls.iter().map(|(_, calls)| calls).sum();
        let used = self.calls.iter().filter(|(_, calls)| calls * USED >= all);
        used.max().map_or(0, |(_, calls)| *calls)
    }
}

impl Writer {
    /// Has the driver asked for the times of launches, and for what the newest window had; stages the latter.
    /// Returns how many launches have no times yet.
    pub(super) fn ask_gpu(&mut self, at_once: bool, last: bool) -> usize {
        let step = self.steps.longest(self.ns_per_tick);
        if let Some(windows) = self.gpu.windows() {
            if let Some(step) = step {
                windows.step(step);
            }
            if !self.traffic.by_time && self.traffic.is_pipeline() {
                self.traffic.by_time = true;
                windows.recount();
            }
        }
        let launches = self.recorder.header().graph_launches.load(Relaxed);
        let calls = self.traffic.shared().saturating_add(launches);
        let at = if self.traffic.by_time {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |now| now.as_millis() as u64)
        } else {
            calls
        };
        let turn = Turn {
            ns_per_tick: self.ns_per_tick,
            at_once,
            progress: Progress {
                calls,
                at,
                ahead: false,
                in_launches: self.in_launches.waited(),
                last,
            },
        };
        let answer = self.gpu.take_turn(turn);
        let missed = match self.gpu.windows() {
            Some(windows) => {
                self.recorder.switch.quiet(windows.is_quiet());
                windows.misses_callers()
            }
            None => false,
        };
        // cuBLAS and others look the driver's functions up when they are first used, long after they were
        // loaded. When calls repeat, the program has used them all.
        let repeats = self.traffic.searches == 0 && step.is_some();
        if (missed || repeats) && self.traffic.searches < MOST_SEARCHES && !last {
            self.traffic.searches += 1;
            self.recorder.look_for_callers(true);
        }
        for (kind, payload) in answer.blocks {
            if self.size() < self.recorder.settings.max_size {
                self.block(kind, |out| out.extend(payload));
            }
        }
        answer.under_way
    }

    /// A new trace file begins: windows in it use names that were written before.
    pub(super) fn begin_windows(&mut self) {
        for (kind, payload) in windows::names() {
            self.block(kind, |out| out.extend(payload));
        }
    }

    /// Notes when calls were made.
    pub(super) fn note_steps(&mut self) {
        for r in &self.records {
            let with_before = r.group != 0 && r.group == self.group_before;
            self.group_before = r.group;
            let of = &r.shape;
            let kind = (of.comm, of.func, of.count, of.peer, with_before);
            self.steps.call(kind, r.t_api);
        }
    }

    /// Notes when graphs were launched, and for how long that waited.
    pub(super) fn note_launches(&mut self, launches: &[Launched]) {
        for launch in launches {
            self.in_launches.add(launch);
            self.steps
                .call((u32::MAX, 0, launch.exec.into(), 0, false), launch.entered);
        }
    }
}
