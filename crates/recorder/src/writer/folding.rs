//! Folds calls into the totals, with a histogram of their times.
//!
//! [`Totals`] judges which time of a call can be believed ([`Totals::times`]) and adds the call to its entry
//! ([`Totals::fold`]).
//!
//! Rule: a time goes into a sum only if it can be believed. This file sees one call at a time. So it does not
//! know what only all calls of a process together show, for example a start before the launch.

use crate::cuda;
use crate::recorder::Recorder;
use crate::totals::total;
use capture::live::{bucket, flag, part, verdict, Cause, Total};
use capture::rotated::{CallTimes, Key};
use capture::rows::{GpuTime, Record, Ticks};
use capture::stamps;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

/// See the module.
pub struct Totals {
    recorder: &'static Recorder,
    /// Ids of the algorithms for which NCCL stamps the end too early.
    early: Vec<u8>,
    /// NCCL's release, once it is known.
    nccl: Option<u32>,
    /// Communicators with stamps of other kernels from some call on, and the group of that call.
    spoilt: Vec<(u32, u64)>,
}

impl Totals {
    /// With no call folded yet.
    pub fn new(recorder: &'static Recorder) -> Totals {
        Totals {
            recorder,
            early: recorder.early_algorithms(),
            nccl: None,
            spoilt: Vec::new(),
        }
    }

    /// The times of a call, as the totals count them. A communicator's calls come in the order in which they
    /// are sealed.
    pub fn times(&mut self, r: &Record, ns_per_tick: f64) -> CallTimes {
        let bad = verdict::REPEATED
            | verdict::BACKWARDS
            | verdict::NEGATIVE
            | verdict::MISSING
            | verdict::FUSED;
        let (is_timed, length) = if r.shape.parts & part::EVENTS != 0 {
            (r.event_start != Ticks(0), r.event_ns)
        } else {
            let (start, stop) = (r.stamp_start, r.stamp_stop);
            let is_sound = self.has_sound_stamps(r) && start != GpuTime(0);
            (is_sound, stop.0.saturating_sub(start.0))
        };
        let gpu = (is_timed && length != 0 && r.verdict & bad == 0).then_some(length);
        let host = r.t_end.since(r.t_api);
        CallTimes {
            gpu,
            host,
            shown: gpu.unwrap_or((host as f64 * ns_per_tick) as u64),
        }
    }

    fn has_sound_stamps(&mut self, r: &Record) -> bool {
        let s = &r.shape;
        let spoilt = self.spoilt.iter().find(|(comm, _)| *comm == s.comm);
        if let Some((_, group)) = spoilt {
            // The calls that are launched together with it still have their own stamps.
            if r.group == 0 || r.group != *group {
                return false;
            }
        } else if self.spoils(r) {
            self.spoilt.push((s.comm, r.group));
        }
        s.flags & flag::P2P == 0 && !self.early.contains(&s.algorithm)
    }

    fn spoils(&mut self, r: &Record) -> bool {
        let s = &r.shape;
        let is_broadcast = s.func == self.recorder.broadcast();
        let is_to_itself = s.flags & flag::P2P != 0 && {
            let slot = self.recorder.slot_of(s.comm).map(usize::from);
            let comm = slot.and_then(|slot| self.recorder.live.comms().get(slot));
            comm.is_some_and(|c| s.peer != 0 && c.rank.load(Relaxed) == s.peer - 1)
        };
        if !is_broadcast && !is_to_itself {
            return false;
        }
        if self.nccl.is_none() {
            self.nccl = cuda::nccl_version().and_then(|v| u32::try_from(v).ok());
        }
        self.nccl
            .is_some_and(|nccl| stamps::spoils(nccl, is_broadcast, is_to_itself, s.flags, s.parts))
    }

    /// Adds a call to the totals. The undo record is set first, so that a reader after a crash can take back
    /// a half-done fold.
    pub fn fold(&mut self, r: &Record, ns_per_tick: f64) {
        let times = self.times(r, ns_per_tick);
        let live = &self.recorder.live;
        let header = self.recorder.header();
        let CallTimes { gpu, host, shown } = times;
        let Some((at, entry)) = total(live, &key_of_record(r, &times)) else {
            header.lost[Cause::TotalsFull as usize].fetch_add(1, Relaxed);
            return;
        };
        let (octave, index) = bucket(shown);
        let counter = self
            .page(entry, octave)
            .map(|page| (page, &live.pages()[page][index]));
        let fields = [
            &entry.calls,
            &entry.timed,
            &entry.sum,
            &entry.min,
            &entry.max,
            &entry.host,
        ];
        for (before, field) in header.undo.before.iter().zip(fields) {
            before.store(field.load(Relaxed), Relaxed);
        }
        header.undo.entry.store(at as u32, Relaxed);
        header.undo.bucket.store(
            counter.map_or(0, |(page, _)| ((page + 1) << 6 | index) as u32),
            Relaxed,
        );
        header
            .undo
            .bucket_before
            .store(counter.map_or(0, |(_, c)| c.load(Relaxed).into()), Relaxed);
        header.undo.ticket.store(r.ticket + 1, Release);
        let add =
            |field: &AtomicU64, n: u64| field.store(field.load(Relaxed).wrapping_add(n), Relaxed);
        add(&entry.calls, 1);
        add(&entry.host, host);
        if let Some(gpu) = gpu {
            add(&entry.timed, 1);
            add(&entry.sum, gpu);
            entry.min.store(entry.min.load(Relaxed).min(gpu), Relaxed);
            entry.max.store(entry.max.load(Relaxed).max(gpu), Relaxed);
        }
        match counter {
            Some((_, counter)) => counter.store(counter.load(Relaxed).saturating_add(1), Relaxed),
            None => add(&header.pages_full, 1),
        }
    }

    /// The histogram page of an entry's octave, taken from the pool if need be.
    fn page(&self, entry: &Total, octave: usize) -> Option<usize> {
        let place = &entry.pages[octave];
        let taken = place.load(Relaxed);
        if taken != 0 {
            return Some(usize::from(taken) - 1);
        }
        let used = self.recorder.header().pages_used.load(Relaxed);
        if used as usize >= self.recorder.live.pages().len() {
            return None;
        }
        self.recorder.header().pages_used.store(used + 1, Relaxed);
        place.store(used as u16 + 1, Relaxed);
        Some(used as usize)
    }
}

/// The key of a call with these times.
pub fn key_of_record(r: &Record, times: &CallTimes) -> Key {
    let s = &r.shape;
    let timed = if times.gpu.is_some() { flag::TIMED } else { 0 };
    Key {
        comm: s.comm,
        count: s.count,
        names: [s.func, s.datatype, s.algorithm, s.protocol],
        flags: s.flags | timed,
        nchannels: s.nchannels,
    }
}
