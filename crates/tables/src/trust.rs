//! Finds stamps that are not their call's.
//!
//! NCCL's device and host count works to find a work's stamps, and after some calls they no longer agree: an
//! all-to-all with itself in 2.26 to 2.30, a Broadcast from 2.31 on. From then on another kernel's stamps are
//! delivered without a word. Calls made after such a one are marked [`DESYNCHRONISED`].
//!
//! Two bounds find others: a kernel can't end after the host was told of its end, and can't start before its
//! launch. The first gives, by GPU and window of time, the smallest distance of the clocks that the host saw.
//! With it, a start well before the launch shows that the stamp is another kernel's, or that the GPU's timer
//! stepped: [`STALE`].
//!
//! Rule: the distance is taken too large rather than too small, so a sound stamp is never called stale by a
//! late poll. Replays of CUDA graphs have no launch to compare with and are left to the checks that the
//! recorder makes.

use crate::calls::{Call, Extra, GpuTimes, Untimed, DESYNCHRONISED, STALE};
use crate::gpu_clock::{self, Bounds, GpuClock, TOLERANCE_NS};
use crate::{Names, Process, Shape};
use capture::live::{flag, part, verdict};
use capture::rows::GpuTime;
use capture::stamps;
use std::collections::HashMap;

/// Checks the stamps of one process. All calls are [looked at](StampCheck::look), in any order, before the
/// first is [checked](StampCheck::check), which goes by ticket.
#[derive(Debug, Default)]
pub(crate) struct StampCheck {
    /// A replayed or simulated job's stamps are of another time than its launches.
    compares: bool,
    /// By shape: index of its device.
    devices: Vec<u32>,
    bounds: Vec<Bounds>,
    /// By device, once all calls have been looked at.
    clocks: Vec<GpuClock>,
    /// By shape: whether such a call puts NCCL's counters out of step; nothing where none does.
    spoils: Vec<bool>,
    /// By communicator, the group of the first such call: what is launched with it is still in step.
    spoilt: HashMap<u32, u64>,
}

impl StampCheck {
    /// A check for this process, whose calls need not be there.
    pub(crate) fn new(process: &Process, names: &Names) -> StampCheck {
        let known: HashMap<u32, Option<u32>> = process
            .communicators
            .iter()
            .map(|c| (c.uid, c.device))
            .collect();
        let mut indexes = HashMap::new();
        let devices = process
            .shapes
            .iter()
            .map(|shape| {
                let next = indexes.len() as u32;
                let device = known.get(&shape.uid).copied().flatten();
                *indexes.entry(device).or_insert(next)
            })
            .collect();
        StampCheck {
            compares: process.fact("env.NCCLSCOPE_STAMPS") != Some("replayed"),
            devices,
            bounds: indexes.iter().map(|_| Bounds::default()).collect(),
            clocks: Vec::new(),
            spoils: spoils(process, names),
            spoilt: HashMap::new(),
        }
    }

    /// Whether looking at the calls is of any use.
    pub(crate) fn compares(&self) -> bool {
        self.compares
    }

    /// Learns how near the clocks are.
    pub(crate) fn look(&mut self, shapes: &[Shape], calls: &[Call]) {
        if !self.compares {
            return;
        }
        for call in calls {
            self.look_at(&shapes[call.shape as usize], call);
        }
    }

    /// As [`StampCheck::look`], at one call of this shape; no more is asked of it than its stamps and when it
    /// was launched and seen.
    pub(crate) fn look_at(&mut self, shape: &Shape, call: &Call) {
        let GpuTimes::Stamps { start, stop } = call.gpu else {
            return;
        };
        if start == GpuTime(0) || stop == GpuTime(0) || call.gpu_seen_ns == 0 {
            return;
        }
        let device = self.devices[call.shape as usize] as usize;
        let back = verdict::BACKWARDS | verdict::NEGATIVE;
        if call.verdict & back != 0 || stop < start {
            return self.bounds[device].step(call.gpu_seen_ns);
        }
        let launch = known_launch(shape, call).filter(|_| call.verdict == 0);
        self.bounds[device].look(start.0, stop.0, call.gpu_seen_ns, launch);
    }

    /// Takes in what another check of the same process saw.
    pub(crate) fn merge(&mut self, other: StampCheck) {
        for (into, from) in self.bounds.iter_mut().zip(other.bounds) {
            into.merge(from);
        }
    }

    /// Marks the calls whose stamps can't be, or can't be known to be, their own. Of the others it puts the
    /// stamps on the host's clock, where it is known how.
    pub(crate) fn check(&mut self, shapes: &[Shape], calls: &mut [Call], extras: &mut [Extra]) {
        if self.compares {
            for call in calls.iter_mut() {
                let shape = &shapes[call.shape as usize];
                let stale = if shape.has_events() {
                    precedes_call(shape, call)
                } else {
                    self.is_stale(shape, call)
                };
                if stale {
                    call.verdict |= STALE;
                }
            }
        }
        self.mark_desynchronised(shapes, calls);
        if self.compares {
            self.place(shapes, calls, extras);
        }
    }

    fn mark_desynchronised(&mut self, shapes: &[Shape], calls: &mut [Call]) {
        if self.spoils.is_empty() {
            return;
        }
        for call in calls {
            let shape = &shapes[call.shape as usize];
            match self.spoilt.get(&shape.uid) {
                // What has no stamp has none that could be another's.
                Some(group)
                    if call.channels_started != 0 && (call.group == 0 || call.group != *group) =>
                {
                    call.verdict |= DESYNCHRONISED
                }
                Some(_) => {}
                None if self.spoils[call.shape as usize] => {
                    self.spoilt.insert(shape.uid, call.group);
                }
                None => {}
            }
        }
    }

    /// Puts stamps that can be believed on the host's clock.
    fn place(&mut self, shapes: &[Shape], calls: &mut [Call], extras: &mut [Extra]) {
        if self.clocks.is_empty() {
            self.clocks = self.bounds.iter_mut().map(Bounds::clock).collect();
        }
        for call in calls.iter_mut() {
            let Some((start, stop)) = call.stamped() else {
                continue;
            };
            let shape = &shapes[call.shape as usize];
            let is_own = matches!(
                call.gpu_ns(shape),
                Ok(_) | Err(Untimed::Fused | Untimed::EarlyStop)
            );
            if !is_own {
                continue;
            }
            let device = self.devices[call.shape as usize] as usize;
            let Some((distance, error)) = self.clocks[device].distance(call.gpu_seen_ns) else {
                continue;
            };
            let moved = |stamp: GpuTime| {
                let moved = i64::try_from(stamp.0).ok()?.checked_add(distance)?;
                (moved > 0).then_some(moved)
            };
            let (Some(start), Some(stop)) = (moved(start), moved(stop)) else {
                continue;
            };
            // It was seen late, and the distance is that of when it was seen.
            let late = call.gpu_seen_ns.saturating_sub(start);
            let error = error + gpu_clock::drift(late);
            let precedes = |launch| start.saturating_add(error) < launch;
            if known_launch(shape, call).is_some_and(precedes) {
                continue;
            }
            let Ok(error) = u32::try_from(error) else {
                continue;
            };
            call.gpu = GpuTimes::OnHost { start, stop, error };
            let extra = (call.extra as usize).checked_sub(1);
            if let Some(extra) = extra.and_then(|index| extras.get_mut(index)) {
                for phase in extra.phase_stop.iter_mut().filter(|stop| **stop != 0) {
                    *phase = phase.wrapping_add_signed(distance);
                }
            }
        }
    }

    /// Whether it has stamps, and they precede the launch.
    fn is_stale(&mut self, shape: &Shape, call: &Call) -> bool {
        let (Some((start, _)), Some(launch)) = (call.stamped(), known_launch(shape, call)) else {
            return false;
        };
        let device = self.devices[call.shape as usize] as usize;
        let distance = self.bounds[device].around(call.gpu_seen_ns);
        let start = distance.and_then(|d| (start.0 as i64).checked_add(d));
        start.is_some_and(|start| start < launch - TOLERANCE_NS)
    }
}

/// The earliest moment that a call can have begun on the GPU, as far as the host knows; nothing where the
/// launch is not the call's own for certain.
fn known_launch(shape: &Shape, call: &Call) -> Option<i64> {
    let is_own = !shape.is(flag::REPLAY) && shape.parts & part::LAUNCH_AMBIGUOUS == 0;
    let launch = match call.launch_start_ns {
        0 => call.api_ns,
        launch => launch,
    };
    (is_own && launch != 0).then_some(launch)
}

/// Whether the first of the CUDA events around a launch is earlier than the call that it belongs to: the
/// GPU's clock stepped behind it. The launch is no measure, as the event is recorded before its time is read,
/// and the thread may be interrupted in between.
fn precedes_call(shape: &Shape, call: &Call) -> bool {
    let begun = match call.api_ns {
        0 => call.launch_start_ns,
        api => api,
    };
    let GpuTimes::OnHost { start, error, .. } = call.gpu else {
        return false;
    };
    let is_known = begun != 0 && shape.parts & part::LAUNCH_AMBIGUOUS == 0;
    is_known && start.saturating_add(error.into()) < begun - TOLERANCE_NS
}

/// By shape, whether such a call puts NCCL's counters of stamps out of step; nothing where none does.
fn spoils(process: &Process, names: &Names) -> Vec<bool> {
    let Some(nccl) = process.nccl_version() else {
        return Vec::new();
    };
    let spoils: Vec<bool> = process
        .shapes
        .iter()
        .map(|shape| {
            let is_broadcast = names.get(shape.function) == Some("Broadcast");
            let is_to_itself = shape.peer.is_some() && shape.peer == shape.rank;
            stamps::spoils(nccl, is_broadcast, is_to_itself, shape.flags, shape.parts)
        })
        .collect();
    if spoils.contains(&true) {
        spoils
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `offset` is host minus GPU clock; the poll is `late` after the end.
    fn call(launch: i64, run: i64, offset: i64, late: i64) -> Call {
        let (start, stop) = (launch + 5_000, launch + 5_000 + run);
        Call {
            api_ns: launch - 10_000,
            launch_start_ns: launch,
            gpu: GpuTimes::stamps((start - offset) as u64, (stop - offset) as u64),
            gpu_seen_ns: stop + late,
            channels_started: 1,
            channels_stopped: 1,
            sealed: true,
            ..Call::default()
        }
    }

    fn process(calls: Vec<Call>) -> Process {
        Process {
            calls,
            shapes: vec![Shape::default()],
            ..Process::default()
        }
    }

    fn check_all(process: &mut Process) {
        let mut check = StampCheck::new(process, &Names::default());
        check.look(&process.shapes, &process.calls);
        check.check(&process.shapes, &mut process.calls, &mut process.extras);
    }

    #[test]
    fn late_polls_taint_nothing() {
        let calls = (0..200)
            .map(|i| {
                call(
                    1_000_000_000_000 + i * 30_000,
                    9_000,
                    -850_000,
                    1_000 + i * 25_000,
                )
            })
            .collect();
        let mut healthy = process(calls);
        check_all(&mut healthy);
        assert!(healthy.calls.iter().all(|c| c.verdict == 0));
    }

    #[test]
    fn a_thread_that_is_interrupted_in_a_launch_makes_no_event_stale() {
        let with = |api: i64, launch: i64| {
            let mut process = process(vec![Call {
                api_ns: 1_000_000_000_000 + api,
                launch_start_ns: 1_000_000_000_000 + launch,
                gpu: GpuTimes::OnHost {
                    start: 1_000_000_000_000,
                    stop: 1_000_000_070_000,
                    error: 4_096,
                },
                sealed: true,
                ..Call::default()
            }]);
            process.shapes[0].parts = part::EVENTS;
            check_all(&mut process);
            process.calls[0].gpu_ns(&process.shapes[0])
        };
        assert_eq!(with(-3_000, 65_000), Ok(70_000));
        assert_eq!(with(60_000, 65_000), Err(Untimed::Stale));
    }

    #[test]
    fn stamps_of_an_earlier_kernel_are_found() {
        let mut calls: Vec<Call> = (0..200)
            .map(|i| call(1_000_000_000_000 + i * 300_000, 9_000, 70_000, 2_000))
            .collect();
        for i in (100..200).rev() {
            calls[i].gpu = calls[i - 1].gpu;
        }
        let mut desynchronised = process(calls);
        check_all(&mut desynchronised);
        let verdict = |i: usize| desynchronised.calls[i].gpu_ns(&desynchronised.shapes[0]);
        assert!((0..100).all(|i| verdict(i) == Ok(9_000)));
        assert!((100..200).all(|i| verdict(i) == Err(Untimed::Stale)));
    }
}
