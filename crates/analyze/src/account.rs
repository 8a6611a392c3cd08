//! The account of time: where the wall time of each rank's steps goes, and what late ranks cost.
//!
//! A [`Gatherer`] keeps one small row per launch ([`launches`]). [`Gatherer::finish`] finds the steps
//! ([`frame`]), for how long each rank's computing stream stood still in each launch ([`exposed`]), and which
//! launches of different ranks are one operation ([`places`]). [`division`] splits the wall into work, waits,
//! transfer and unknown time. [`habit`] says what ranks cost in all steps: by a [`replay`] of the run if
//! nearly all launches were timed, else by the paired [`difference`]. [`stalls`] says what single long steps
//! cost, [`hosts`] how much faster hosts could be, and [`cause`] if a host or a GPU was late. [`Answer`] is
//! the result.
//!
//! Rule: the wall is the frame. Samples are scaled by place in the step to all launches of that place, and
//! what no evidence covers is `unknown`: it is never dropped and never guessed.

pub mod cause;
pub mod difference;
pub mod division;
pub mod efficiencies;
pub mod exposed;
pub mod frame;
pub mod habit;
pub mod hosts;
pub mod launches;
pub mod places;
pub mod replay;
pub mod slowing;
pub mod stalls;
#[cfg(test)]
mod tests;

pub use division::RankAccount;
pub use efficiencies::Efficiencies;
pub use habit::Source;
pub use launches::Gatherer;

use crate::findings::{Cause, LEAST_SHARE};
use crate::streams::Streams;
use launches::Lane;
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
    /// The part of the time that ranks stood still in operations in which all ranks need each other, 0 to 1;
    /// null if they did not.
    pub together_share: Option<f64>,
    /// Which part of the ranks' time is work, and why the rest is not; null if exposed times of some rank are
    /// not known.
    pub efficiencies: Option<Efficiencies>,
    /// Whether it says what late ranks cost.
    pub settles: bool,
    /// What late ranks cost, largest first; empty if that is not known from the account.
    pub answers: Vec<Answer>,
}

impl Account {
    /// The ranks that cost so much that it matters, beyond the error of that; none if the account does not
    /// settle. A stall is far out of what is usual, so less of it is no chance.
    pub fn late(&self) -> impl Iterator<Item = &Answer> {
        let matters = |answer: &&Answer| {
            let is_stall = 2.0 * answer.stalls_us > answer.loss_us;
            let least = if is_stall { LEAST_SHARE } else { MATTERS };
            answer.interval_us.0 >= least * self.wall_us
        };
        let answers = self.answers.iter().filter(|_| self.settles);
        answers.filter(matters)
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

/// What late ranks cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Which of [`Account::ranks`] are to blame, by their place there: one, or the ranks of a group; none if
    /// ranks are late in turns.
    pub ranks: Vec<usize>,
    /// What the steps would take less without them, µs of the wall.
    pub loss_us: f64,
    /// The same as a share of the steps' wall.
    pub share: f64,
    /// Interval of the loss, µs.
    pub interval_us: (f64, f64),
    /// Another rank that is late, and what both cost, µs; null if none costs so much that it matters.
    pub with_other: Option<(usize, f64)>,
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
    /// The account; `None` if no steps are found, or no launch was seen on two ranks. `streams` says how much
    /// faster hosts could be.
    pub fn finish(self, streams: Option<&Streams>) -> Option<Account> {
        let mut lanes = self.lanes()?;
        for lane in &mut lanes {
            exposed::of_lane(lane);
        }
        let frame = frame::Frame::find(&lanes)?;
        let hosts = hosts::Hosts::of(&lanes, &frame);
        let places = places::Places::new(&lanes, &frame);
        let stalls = stalls::find(&places, &frame);
        let division = division::divide(&lanes, &places, &frame);
        let regular = stalls.regular(&frame);
        let habit = habit::find(&lanes, &places, &frame, &hosts, &regular, streams);
        let settles = habit
            .as_ref()
            .is_some_and(|habit| habit.settles(&frame, &places));
        Some(Account {
            steps: frame.wall.len() as u64,
            skipped: frame.skipped as u64,
            wall_us: frame.total() / 1e3,
            efficiencies: Efficiencies::of(
                &division,
                frame.total() / 1e3,
                places.together() >= Some(habit::LEAST_TOGETHER),
            ),
            ranks: division,
            together_share: places.together(),
            settles,
            answers: answers(&lanes, &places, &frame, &stalls, habit),
        })
    }
}

/// What ranks cost in all steps, and what others' stalls cost.
fn answers(
    lanes: &[Lane],
    places: &places::Places,
    frame: &frame::Frame,
    stalls: &stalls::Stalls,
    habit: Option<habit::Habit>,
) -> Vec<Answer> {
    let Some(habit) = habit else {
        return Vec::new();
    };
    let source = habit.source;
    let stalled = (0..lanes.len()).max_by(|a, b| stalls.ns[*a].total_cmp(&stalls.ns[*b]));
    let others = stalled.filter(|lane| habit.lanes != [*lane] && stalls.ns[*lane] > 0.0);
    let others = others.map(|lane| habit::Habit::none(lane, source));
    let answer = |habit: habit::Habit| {
        let total = frame.total();
        let first = habit.lanes.first().copied();
        let one = first.filter(|_| habit.lanes.len() == 1);
        let stalled = one.map_or(0.0, |lane| stalls.ns[lane]);
        // Host times of calls may overlap the steps before, and no rank costs more than there is.
        let loss = (habit.loss.max(0.0) + stalled).min(total);
        let least = LEAST_HALF * loss;
        let (low, high) = habit.interval;
        let late = first.map(|lane| cause::of(places, lane));
        Answer {
            loss_us: loss / 1e3,
            share: loss / total,
            interval_us: (
                (low + stalled).min(loss - least) / 1e3,
                (high + stalled).max(loss + least).min(total) / 1e3,
            ),
            with_other: habit
                .with
                .map(|(lane, loss)| (lane, (loss + stalled) / 1e3)),
            stalls_us: stalled / 1e3,
            stalls: one.map_or(0, |lane| stalls.count[lane]),
            longest_us: one.and_then(|lane| {
                let (ns, step) = stalls.longest[lane]?;
                let began = frame.begins[lane][step] - lanes[lane].launches[0].api;
                Some((ns / 1e3, began as f64 / 1e3))
            }),
            cause: late.map_or(Cause::Unknown, |late| late.cause),
            source: habit.source,
            last: late.map_or((0, 0), |late| late.last),
            ranks: habit.lanes,
        }
    };
    let mut answers: Vec<Answer> = [habit].into_iter().chain(others).map(answer).collect();
    answers.sort_by(|a, b| b.loss_us.total_cmp(&a.loss_us));
    answers
}
