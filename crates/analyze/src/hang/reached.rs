//! How far a call came on one rank.
//!
//! Rule: a stage is reached only if something was recorded that proves it. What the timing of the run does
//! not record, the GPU's part above all, leaves a call at an earlier stage.

use crate::time::HostTime;
use capture::live::part;
use tables::{Call, Process};

/// How far a call came on one rank, by what was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// The program is in it; NCCL has not planned it.
    Entered,
    /// NCCL has planned it.
    Enqueued,
    /// Its kernel was launched, or the call returned.
    Launched,
    /// The GPU began it.
    Started,
    /// The GPU ended it.
    Finished,
}

/// A host time that is known.
pub(super) fn known(time: i64) -> Option<HostTime> {
    (time != 0).then_some(HostTime(time))
}

/// The newest host time of a call.
pub(super) fn newest(call: &Call) -> Option<HostTime> {
    let times = [
        call.api_ns,
        call.launch_start_ns,
        call.launch_end_ns,
        call.enqueue_ns,
        call.return_ns,
        call.gpu_seen_ns,
    ];
    times.into_iter().filter_map(known).max()
}

/// How far a call came.
pub(super) fn reached(process: &Process, call: &Call) -> Reached {
    let shape = &process.shapes[call.shape as usize];
    let (started, stopped) = (call.channels_started, call.channels_stopped);
    let stamped = started > 0 && stopped >= started;
    if stamped && (call.sealed || started >= u16::from(shape.nchannels))
        || shape.has_events() && call.gpu.stop().is_some()
    {
        Reached::Finished
    } else if started > 0 {
        Reached::Started
    } else if call.sealed
        || call.return_ns != 0
        || call.launch_end_ns != 0
        // When the call returned is forgotten early; it goes on to its launch from there without waiting for
        // anybody.
        || shape.parts & part::ENQUEUE_DONE != 0
    {
        Reached::Launched
    } else if shape.parts & part::ENQUEUED != 0 || call.launch_start_ns != 0 {
        Reached::Enqueued
    } else {
        Reached::Entered
    }
}
