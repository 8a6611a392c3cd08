//! Bubbles: for how long of a step each rank that passes data on computes nothing, and for whom it waits.
//!
//! A pipeline's stage has a *bubble* while its GPU computes nothing. [`bubbles`] cuts it into waiting for
//! late senders, for late receivers and in collectives, transfers, and the rest, in which nothing ran. It
//! also says for whom. [`For::late_sender_us`] and [`For::late_receiver_us`] name the rank at the other end.
//! [`For::behind_us`] names the rank that was behind by its own work ([`super::causes`]).
//!
//! Rule: the parts of a bubble sum to it, and with the time in which the GPU computed to the step. Time that
//! is in two parts counts in the first.

use super::causes::Late;
use super::intervals::{length, Span, Union};
use super::lane::Lane;
use super::share::share;
use super::share::Share;
use super::share::LEAST_MATCHED;
use super::waiting::{without, Waits};
use crate::subject::ProcessId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The bubble of a rank that passes data on to others.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Bubble {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: u32,
    /// Whole steps in which the windows of all GPUs show what ran.
    pub steps: u64,
    /// How long such a step is, µs.
    pub step_us: f64,
    /// The part of a step in which the GPU computed nothing.
    pub bubble: Share,
    /// The bubble of a step, µs: how long the GPU computed nothing.
    pub bubble_us: f64,
    /// The bubble of the time from the process's first call to the last, µs: what it costs.
    pub bubble_run_us: f64,
    /// Of the bubble of a step: it waited to receive, µs.
    pub late_sender_us: f64,
    /// Of the bubble of a step: it waited to send, µs.
    pub late_receiver_us: f64,
    /// Of the bubble of a step: it waited for the last rank of a collective, µs.
    pub collective_us: f64,
    /// Of the bubble of a step: it communicated without waiting, µs.
    pub transfer_us: f64,
    /// Of the bubble of a step: nothing ran, or only copies and fills did, µs.
    pub idle_us: f64,
    /// Whom it waited for in sends and receives, largest first.
    pub waits_for: Vec<For>,
}

/// A rank that another waited for, of a step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "BubbleFor")]
pub struct For {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: u32,
    /// It sent late, µs.
    pub late_sender_us: f64,
    /// It received late, µs.
    pub late_receiver_us: f64,
    /// Of all waiting: that is by what it worked longer, µs. What no rank is the cause of is the schedule's.
    pub behind_us: f64,
}

/// What of a step a rank waits for another, over all pieces.
#[derive(Clone, Copy, Default)]
struct OfOther {
    late_sender: Nanos,
    late_receiver: Nanos,
    behind: Nanos,
}

/// One lane.
#[derive(Default)]
struct Parts {
    /// By piece.
    bubble: Vec<Nanos>,
    late_sender: Nanos,
    late_receiver: Nanos,
    collective: Nanos,
    transfer: Nanos,
    idle: Nanos,
}

/// The bubbles of all lanes; empty for a job that is no pipeline.
pub(super) fn bubbles(lanes: &[Lane], waits: &Waits) -> Vec<Bubble> {
    if waits.passed_on < LEAST_MATCHED || waits.steps == 0 {
        return Vec::new();
    }
    let bubbles = (0..lanes.len()).map(|index| bubble(index, lanes, waits));
    bubbles.collect()
}

fn bubble(index: usize, lanes: &[Lane], waits: &Waits) -> Bubble {
    let lane = &lanes[index];
    let parts = parts(index, lane, waits);
    let bubble = share(
        waits
            .pieces
            .iter()
            .zip(&parts.bubble)
            .map(|(piece, time)| (*time, length(*piece))),
    )
    .of_time();
    let of_step = |time: Nanos| time.us() / waits.steps as f64;
    let others = others(index, lanes, waits).into_iter();
    let mut waits_for: Vec<For> = others
        .map(|(other, of)| For {
            process: lanes[other].process.clone(),

            device: lanes[other].device,
            late_sender_us: of_step(of.late_sender),
            late_receiver_us: of_step(of.late_receiver),
            behind_us: of_step(Nanos::from(of.behind.whole())),
        })
        .collect();
    // Others in the order of lanes if they are equal.
    waits_for.sort_by(|a, b| {
        let all = |of: &For| of.late_sender_us + of.late_receiver_us;
        (all(b).total_cmp(&all(a))).then(b.behind_us.total_cmp(&a.behind_us))
    });
    Bubble {
        process: lane.process.clone(),

        device: lane.device,
        steps: waits.steps,
        step_us: of_step(waits.common()),
        bubble,
        bubble_us: of_step(parts.bubble.iter().sum()),
        bubble_run_us: (lane.active * bubble.share).us(),
        late_sender_us: of_step(parts.late_sender),
        late_receiver_us: of_step(parts.late_receiver),
        collective_us: of_step(parts.collective),
        transfer_us: of_step(parts.transfer),
        idle_us: of_step(parts.idle),
        waits_for,
    }
}

/// When a lane waited like this and computed nothing.
fn waited(index: usize, lane: &Lane, waits: &Waits, late: Late) -> Union {
    let these = waits.direct.iter();
    let these = these.filter(|wait| wait.lane == index && wait.late == late);
    let exposed = these.flat_map(|wait| without(wait.whole, &lane.at(wait.window).computes));
    Union::of(exposed.collect())
}

fn parts(index: usize, lane: &Lane, waits: &Waits) -> Parts {
    let whole = |of: &dyn Fn(&super::window::Seen) -> Vec<Span>| {
        Union::of(lane.windows.iter().flat_map(|w| of(&w.seen)).collect())
    };
    let computes = whole(&|seen| seen.computes.spans().to_vec());
    let communicates = whole(&|seen| seen.communicates().spans().to_vec());
    let of = |late| waited(index, lane, waits, late);
    let (sender, receiver, rank) = (of(Late::Sender), of(Late::Receiver), of(Late::Rank));
    let mut parts = Parts::default();
    for piece in &waits.pieces {
        let empty = Union::of(without(*piece, &computes));
        let mut so_far = Union::default();
        // What is in these spans, and in none before.
        let mut add = |spans: &Union| {
            let with = so_far.or(&spans.and(&empty));
            let more = with.length() - so_far.length();
            so_far = with;
            more
        };
        parts.late_sender += add(&sender);
        parts.late_receiver += add(&receiver);
        parts.collective += add(&rank);
        parts.transfer += add(&communicates);
        parts.idle += add(&empty);
        parts.bubble.push(empty.length());
    }
    parts
}

/// By other lane: for how long this one waited for it in sends and receives, and computed nothing. What is
/// waited in two kernels at a time counts in that which receives.
fn others(index: usize, lanes: &[Lane], waits: &Waits) -> BTreeMap<usize, OfOther> {
    let mut others: BTreeMap<usize, OfOther> = BTreeMap::new();
    let senders = waited(index, &lanes[index], waits, Late::Sender);
    let nothing = Union::default();
    for (late, before) in [(Late::Sender, &nothing), (Late::Receiver, &senders)] {
        let these = waits.direct.iter().zip(&waits.causes);
        let these = these.filter(|(wait, _)| wait.lane == index && wait.late == late);
        let mut these: Vec<_> = these.collect();
        these.sort_by_key(|(wait, _)| wait.whole);
        let mut until = i64::MIN;
        for (wait, causes) in these {
            let computes = &lanes[index].at(wait.window).computes;
            let span = (wait.whole.0.max(until), wait.whole.1);
            until = until.max(wait.whole.1);
            let pieces = waits.overlaps_common(span).map(|(_, span)| span);
            let exposed = pieces.flat_map(|span| without(span, computes));
            let exposed: Vec<Span> = exposed.flat_map(|span| without(span, before)).collect();
            let exposed: Nanos = exposed.into_iter().map(length).sum();
            let direct = others.entry(wait.last).or_default();
            match late {
                Late::Sender => direct.late_sender += exposed,
                _ => direct.late_receiver += exposed,
            }
            for (other, part) in causes {
                others.entry(*other).or_default().behind += exposed * *part;
            }
        }
    }
    others
}
