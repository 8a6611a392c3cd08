//! The account of time: where the wall time of each rank's steps goes, and what late ranks cost.
//!
//! A [`Gatherer`] keeps one small row per launch ([`launches`]). [`Gatherer::finish`] finds the steps
//! ([`frame`]), for how long each rank's computing stream stood still in each launch ([`exposed`]), and which
//! launches of different ranks are one operation ([`places`]). [`division`] splits the wall into work, waits,
//! transfer and unknown time. [`difference`] says what a rank costs, [`stalls`] what single long steps cost,
//! and [`cause`] if a host or a GPU was late. [`Answer`] is the result.
//!
//! Rule: the wall is the frame. Samples are scaled by place in the step to all launches of that place, and
//! what no evidence covers is `unknown`: it is never dropped and never guessed.

pub mod cause;
pub mod difference;
pub mod division;
pub mod efficiencies;
pub mod exposed;
pub mod frame;
pub mod launches;
pub mod places;
pub mod replay;
pub mod stalls;
#[cfg(test)]
mod tests;

pub use difference::Source;
pub use division::RankAccount;
pub use launches::Gatherer;

use crate::findings::Cause;
use serde::Serialize;

/// An interval is at least this part of the price wide, to each side. A sample of steps alone held the truth
/// in 30 % of 30 slowed jobs; with this in 70 %.
pub(crate) const LEAST_HALF: f64 = 0.15;

/// Below this share of the steps, a late rank is no problem.
pub const MATTERS: f64 = 0.05;

/// The account of a job's steps.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// Steps that the account is of; those of the start-up are left out.
    pub steps: u64,
    /// Steps of the start-up.
    pub skipped: u64,
    /// The wall time of these steps, µs.
    pub wall_us: f64,
    /// Each rank's, by restart and rank.
    pub ranks: Vec<RankAccount>,
    /// The part of the time that ranks stood still in operations of all ranks, 0 to 1; null if none did.
    pub together_share: Option<f64>,
    /// What the rank that costs most costs; null if no rank can be compared with another.
    pub answer: Option<Answer>,
    /// If not all ranks meet in the same operations: what equal ranks would save; null if that is not known.
    pub equal: Option<Equal>,
}

/// What equal ranks would save.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equal {
    /// The share of the steps' wall time.
    pub share: f64,
    /// The same, µs.
    pub loss_us: f64,
    /// Which of [`Account::ranks`] are to blame, by their place there; empty if ranks are late in turns.
    pub late: Vec<usize>,
    /// Why the first of them is late.
    pub cause: Cause,
}

impl Account {
    /// Whether it says what late ranks cost: exposed times of all ranks are known, or what is not known
    /// can't change that one matters; and all ranks meet in the operations for which they stand still. In
    /// a pipeline they don't.
    pub fn settles(&self) -> bool {
        let known = |answer: &Answer| match answer.source {
            Source::Waits => true,
            Source::SomeWaits => answer.interval_us.0 >= MATTERS * self.wall_us,
            Source::CallTimes => false,
        };
        self.answer.as_ref().is_some_and(known)
            && self
                .together_share
                .is_none_or(|part| part >= LEAST_TOGETHER)
    }

    /// The rank that costs so much that it matters, beyond the error of that. If ranks are late in turns, one
    /// of them is last more often by chance, but the lower end is small.
    pub fn late(&self) -> Option<&Answer> {
        let answer = self.answer.as_ref().filter(|_| self.settles());
        answer.filter(|answer| answer.interval_us.0 >= MATTERS * self.wall_us)
    }

    /// The least and the most of the shares of the wall that ranks stood still in operations.
    pub fn still(&self) -> Option<(f64, f64)> {
        let share = |rank: &RankAccount| rank.still_us() / self.wall_us;
        let shares = self.ranks.iter().map(share);
        shares.fold(None, |range, share| match range {
            None => Some((share, share)),
            Some((low, high)) => Some((share.min(low), share.max(high))),
        })
    }
}

/// All ranks meet if this part of the time that they stand still is in operations of all of them.
const LEAST_TOGETHER: f64 = 0.9;

/// What a late rank costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// What the steps would take less without it, µs of the wall.
    pub loss_us: f64,
    /// The same as a share of the steps' wall.
    pub share: f64,
    /// Interval of the loss, µs.
    pub interval_us: (f64, f64),
    /// Of the loss: in steps that stalled, µs.
    pub stalls_us: f64,
    /// How many stalls these are.
    pub stalls: u64,
    /// The longest of them: what it costs, and when its step began after the first launch, µs; null without
    /// a stall.
    pub longest_us: Option<(f64, f64)>,
    /// Why it is late.
    pub cause: Cause,
    /// What the loss outside of stalls rests on.
    pub source: Source,
    /// Launches in which it came last, of those that were timed on it and another rank.
    pub last: (u64, u64),
}

impl Gatherer {
    /// The account; `None` if no steps are found, or no launch was seen on two ranks.
    pub fn finish(self) -> Option<Account> {
        let mut lanes = self.lanes()?;
        for lane in &mut lanes {
            exposed::of_lane(lane);
        }
        let frame = frame::Frame::find(&lanes)?;
        let places = places::Places::new(&lanes, &frame);
        let stalls = stalls::find(&places, &frame);
        let division = division::divide(&lanes, &places, &frame);
        // Where all meet, the difference tells.
        let chain =
            places.together().is_none_or(|part| part < LEAST_TOGETHER) && !places.all_meet();
        let equal = chain.then(|| replay::find(&lanes, &frame)).flatten();
        let equal = equal.map(|equal| Equal {
            share: equal.share,
            loss_us: equal.share * frame.total() / 1e3,
            cause: equal
                .lanes
                .first()
                .map_or(Cause::Unknown, |lane| cause::of(&places, *lane).cause),
            late: equal.lanes,
        });
        let answer = answer(&lanes, &places, &frame, &stalls);
        Some(Account {
            steps: frame.wall.len() as u64,
            skipped: frame.skipped as u64,
            wall_us: frame.total() / 1e3,
            ranks: division,
            together_share: places.together(),
            equal,
            answer,
        })
    }
}

fn answer(
    lanes: &[launches::Lane],
    places: &places::Places,
    frame: &frame::Frame,
    stalls: &stalls::Stalls,
) -> Option<Answer> {
    let regular = stalls.regular(frame);
    let found = difference::find(places, frame, &regular)?;
    let total = frame.total();
    let regular_ns: f64 = frame
        .wall
        .iter()
        .zip(&regular)
        .map(|(ns, is)| if *is { *ns } else { 0.0 })
        .sum();
    // By rank: what the habit costs, and what stalls cost.
    let of = |lane: usize| {
        let habit = if lane == found.lane {
            found.share.max(0.0) * regular_ns
        } else {
            0.0
        };
        habit + stalls.ns[lane]
    };
    let late = (0..lanes.len()).max_by(|a, b| of(*a).total_cmp(&of(*b)).then(b.cmp(a)))?;
    // Host times of calls may overlap the steps before, and no rank costs more than there is.
    let loss = of(late).min(total);
    let (low, high) = match late == found.lane {
        true => (found.interval.0 * regular_ns, found.interval.1 * regular_ns),
        false => (0.0, 0.0),
    };
    let least = LEAST_HALF * loss;
    let stalled = stalls.ns[late];
    let interval = (
        (low + stalled).min(loss - least),
        (high + stalled).max(loss + least).min(total),
    );
    let lane = &lanes[late];
    let late_by = cause::of(places, late);
    Some(Answer {
        rank: lane.rank,
        host: lane.host.clone(),
        pid: lane.pid,
        device: lane.device,
        loss_us: loss / 1e3,
        share: loss / total,
        interval_us: (interval.0 / 1e3, interval.1 / 1e3),
        stalls_us: stalled / 1e3,
        stalls: stalls.count[late],
        longest_us: stalls.longest[late].map(|(ns, step)| {
            let began = frame.begins[late][step] - lane.launches[0].api;
            (ns / 1e3, began as f64 / 1e3)
        }),
        cause: late_by.cause,
        source: found.source,
        last: late_by.last,
    })
}
