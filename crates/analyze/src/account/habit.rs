//! What late ranks cost in the steps that are no stalls.
//!
//! If nearly all launches were timed, the run is played again ([`replay`]). Else the exposed times of the
//! ranks are compared ([`difference`]), which needs operations in which all ranks need each other. Where they
//! don't, the steps that windows show are played again, or a [`typical`] one.
//!
//! Rule: nobody costs more than the hosts of the others could be faster. If they were not late, the step
//! would still take what any host needs for it. Waits in the CUDA driver show that, or else kernel windows,
//! or the times of all calls.

use super::difference;
use super::frame::Frame;
use super::hosts;
use super::launches::Lane;
use super::pace::Paces;
use super::places::Places;
use super::turns::{self, Turns};
use super::work::Work;
use super::{replay, slowing, typical, BY_CHANCE, LEAST_HALF, MATTERS};
use crate::streams::{RankStreams, Share, Streams};
use schemars::JsonSchema;
use serde::Serialize;

/// What a loss rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The run was played again over the dependencies of its operations.
    Replay,
    /// The same of the steps that kernel windows show.
    Windows,
    /// The same of a typical step, from all launches that were timed.
    Sample,
    /// Exposed times of the rank and of others.
    Waits,
    /// Exposed times of some ranks, and bounds of the others.
    SomeWaits,
    /// The GPU times of the calls: bounds.
    CallTimes,
    /// The walls of steps, for stalls alone.
    Walls,
}

/// Ranks that are late, and what they cost, ns of the wall.
#[derive(Clone, Debug)]
pub struct Habit {
    /// Their lanes: one or those of a group; none if lanes are late in turns.
    pub lanes: Vec<usize>,
    /// What they cost.
    pub loss: f64,
    /// Interval of that.
    pub interval: (f64, f64),
    /// What they cost beyond the error of what was measured. Unlike the interval's lower end, this has the
    /// likely part of [`slowing`]: how large that is may be unknown, that it is there is not.
    pub sure: f64,
    /// Of the loss: what kernels of the others lose beside calls that wait for it, by [`slowing`].
    pub slowing: f64,
    /// Another lane that is late, and what both cost.
    pub with: Option<(usize, f64)>,
    /// What that rests on.
    pub source: Source,
    /// The part of the time that hosts need also if nobody is late, if the loss would be larger otherwise.
    pub hosts_need: Option<f64>,
}

/// Operations in which all ranks need each other are at least this part, if exposed times are compared.
pub const LEAST_TOGETHER: f64 = 0.9;

/// A host that waits for its GPU works longer for the same: its caches are cold, and it has to be woken. And
/// if nobody is late, hosts wait for each other now and then. Twelve slowed jobs on H200 have hosts that are
/// the next limit. These took 0.85 to 1.13 times as long as a step of the healthy job, and 1.02 times in the
/// mean (bench/README.md). The mean is likely, and the largest is the most.
const WAITING_HOST: (f64, f64) = (1.02, 1.13);

/// A host that waited for less of the time, in windows, did not wait.
const LEAST_WAITED: f64 = 1e-6;

impl Habit {
    /// Of lanes that cost nothing.
    pub fn none(lanes: Vec<usize>, source: Source) -> Habit {
        Habit {
            lanes,
            loss: 0.0,
            interval: (0.0, 0.0),
            sure: 0.0,
            slowing: 0.0,
            with: None,
            source,
            hosts_need: None,
        }
    }

    /// From shares of so much time, in steps of which all take `total`. Another lane that adds too little to
    /// matter is left out.
    fn of_time(self, of: f64, total: f64) -> Habit {
        let loss = self.loss * of;
        let with = self.with.map(|(lane, share)| (lane, share * of));
        Habit {
            loss,
            interval: (self.interval.0 * of, self.interval.1 * of),
            sure: self.sure * of,
            with: with.filter(|(_, both)| both - loss >= MATTERS * total),
            ..self
        }
    }

    /// Whether lanes that are late in turns cost more than what was found of one. What may be nothing is no
    /// habit.
    fn explains_more_than(&self, one: &Habit, total: f64) -> bool {
        let of_one = if one.interval.0 <= 0.0 { 0.0 } else { one.loss };
        self.sure > 0.0 && self.loss >= MATTERS * total && of_one < replay::IN_TURNS * self.loss
    }

    /// Whether it says what stalls cost if it is of all steps: few steps, or a typical one, don't have them.
    pub fn has_stalls(&self) -> bool {
        !matches!(self.source, Source::Windows | Source::Sample)
    }

    /// Whether it says what late ranks cost, or that none does: exposed times of all ranks are known, or what
    /// is not known can't change that one matters.
    pub fn settles(&self, frame: &Frame, places: &Places) -> bool {
        // What is in graphs can't change that a lane comes to them so much later.
        let matters = || {
            let least = MATTERS * frame.total();
            self.loss >= least && self.sure >= least.min(BY_CHANCE * self.loss)
        };
        if places.unseen && !(places.bounded && matters()) {
            return false;
        }
        let together = || places.together().is_none_or(|part| part >= LEAST_TOGETHER);
        match self.source {
            Source::Replay | Source::Windows | Source::Sample => true,
            Source::Waits => together(),
            Source::SomeWaits => matters() && together(),
            Source::CallTimes | Source::Walls => false,
        }
    }
}

/// Finds them; `regular` says which steps are no stalls, and `waits` for how long the GPU of any lane waited
/// for others, ns: at least, and at most.
pub fn find(
    lanes: &[Lane],
    places: &Places,
    frame: &Frame,
    work: &Work,
    regular: &[bool],
    waits: (f64, f64),
    streams: Option<&Streams>,
) -> Option<Habit> {
    let total = frame.total();
    let (known, whole) = replay::known_steps(lanes, frame);
    let gpu = |lane: usize| (&lanes[lane].process.host, lanes[lane].device);
    let share_gpu = |a: usize, b: usize| gpu(a) == gpu(b);
    let paces = Paces::new(lanes, frame, streams);
    let of_all_steps = of_all(regular.iter().copied());
    let compared = || {
        let found = difference::find(places, frame, regular, share_gpu, &paces)?;
        let of = of_all_steps * frame.total_of(regular);
        let shares = Habit {
            loss: found.share,
            interval: found.interval,
            sure: found.interval.0,
            with: found.with,
            ..Habit::none(vec![found.lane], found.source)
        };
        Some(shares.of_time(of, total))
    };
    let played = || {
        let run = replay::Run::new(lanes, frame, &known, regular, &paces)?;
        let found = run.is_as_measured().then(|| run.equal())?;
        let is_known = |of: &(&bool, &bool)| *of.1;
        let of_known = regular.iter().zip(&known).filter(is_known);
        let of = of_all(of_known.map(|of| *of.0)) * total;
        let source = if whole {
            Source::Replay
        } else {
            Source::Windows
        };
        let shares = Habit {
            loss: found.share,
            interval: found.interval,
            sure: found.interval.0,
            with: found.with,
            ..Habit::none(found.lanes, source)
        };
        Some(shares.of_time(of, total))
    };
    let mut shorter = None;
    let mut of_sample = || {
        let found = typical::find(lanes, frame, places, regular, &paces)?;
        shorter = Some(found.shorter);
        let (equal, of) = (found.equal?, found.wall * of_all_steps);
        let shares = Habit {
            loss: equal.share,
            interval: equal.interval,
            sure: equal.interval.0,
            with: equal.with,
            ..Habit::none(equal.lanes, Source::Sample)
        };
        Some(shares.of_time(of, total))
    };
    // What a stage of a pipeline hides of the others' bubbles, only a replay shows.
    let meet = places.passed_on() <= 1.0 - LEAST_TOGETHER;
    let is_enough =
        |habit: &Habit| meet && habit.source == Source::Waits && habit.settles(frame, places);
    let mut habit = if whole {
        played().or_else(compared)?
    } else {
        match compared() {
            Some(habit) if is_enough(&habit) => habit,
            habit => closest(played(), of_sample()).or(habit)?,
        }
    };
    let turns = || {
        let is_seen = !places.unseen || places.bounded;
        is_seen.then(|| turns::find(lanes, places, frame, regular))?
    };
    let in_turns = match places.together() {
        Some(part) if part >= LEAST_TOGETHER => turns().map(together_in_turns),
        _ => shorter.and_then(|part| apart_in_turns(turns()?, part * total, waits, total)),
    };
    if let Some(turns) = in_turns.filter(|turns| turns.explains_more_than(&habit, total)) {
        habit = turns;
    }
    let slowed = slowing::of(lanes, places, &habit.lanes, regular, streams).times(of_all_steps);
    // Its bounds have the error of the rest, too.
    habit.interval.1 = habit.interval.1.max((1.0 + LEAST_HALF) * habit.loss) + slowed.interval.1;
    habit.interval.0 += slowed.interval.0;
    habit.sure += slowed.likely;
    habit.slowing = slowed.likely;
    habit.loss += slowed.likely;
    // An interval that holds both nothing and all of the loss says nothing. A host that never waits in
    // windows may be filling its queue there: then the calls of all of the run say more.
    let says = |(share, (low, high)): &(f64, (f64, f64))| {
        *share > LEAST_WAITED && (*low > 0.0 || high * total < habit.loss)
    };
    let ends = |most: Share| Some((most.share, most.interval?));
    let by_windows = streams.and_then(|streams| ends(faster(lanes, &habit, streams)?));
    let by_calls = || ends(hosts::faster(lanes, frame, &habit.lanes)?);
    let by_driver = || {
        let shorter = work.shorter_without(&habit.lanes, frame);
        let (share, (least, most)) = ends(shorter?)?;
        let without_waits = |share: f64, slower: f64| 1.0 - (1.0 - share) / slower;
        let (likely, at_most) = WAITING_HOST;
        let share = match habit.lanes[..] {
            // Hosts that are late in turns wait for each other in each step because of that.
            [] => most,
            _ => share,
        };
        Some((
            without_waits(share, likely),
            (least, without_waits(most, at_most)),
        ))
    };
    let floor = by_driver()
        .or(by_windows.filter(says))
        .or_else(by_calls)
        .or(by_windows);
    if let Some((share, (low, high))) = floor {
        let most = share.max(0.0) * total;
        // Less is within the error of any price.
        habit.hosts_need = (habit.loss > (1.0 + LEAST_HALF) * most).then_some(1.0 - share.max(0.0));
        habit.loss = habit.loss.min(most);
        habit.interval.0 = habit.interval.0.min(low * total);
        habit.sure = habit.sure.min(low * total);
        habit.slowing = habit.slowing.min(habit.loss);
        habit.interval.1 = habit.interval.1.min(high.max(0.0) * total);
    }
    Some(habit)
}

/// Which of two answers is known better.
fn closest(one: Option<Habit>, other: Option<Habit>) -> Option<Habit> {
    let width = |habit: &Habit| habit.interval.1 - habit.interval.0;
    let both = one.into_iter().chain(other);
    both.min_by(|a, b| width(a).total_cmp(&width(b)))
}

/// How many steps there are for each that is regular. A lane is as late as usual in the others, too: stalls
/// only cost what they took longer than that.
fn of_all(regular: impl Iterator<Item = bool>) -> f64 {
    let (all, regular) = regular.fold((0.0, 0.0), |(all, regular), is| {
        (all + 1.0, regular + f64::from(u8::from(is)))
    });
    if regular > 0.0 {
        all / regular
    } else {
        1.0
    }
}

/// What lanes that are late in turns cost, if all lanes meet in the same operations.
fn together_in_turns(turns: Turns) -> Habit {
    Habit {
        loss: turns.loss,
        interval: (turns.loss - turns.half, turns.loss + turns.half),
        sure: turns.loss - turns.half,
        ..Habit::none(Vec::new(), Source::Waits)
    }
}

/// The same if they don't, in steps that take `total`. Two things must show it: a typical step is `shorter`
/// than the steps are, and single operations have lanes that are late in turns. The price is between the
/// lesser of these and all that lanes waited, of which they would wait a part by the schedule.
fn apart_in_turns(turns: Turns, shorter: f64, waits: (f64, f64), total: f64) -> Option<Habit> {
    let least = shorter.min(turns.loss - turns.half);
    (least >= MATTERS * total).then(|| Habit {
        loss: (shorter + waits.0.max(shorter)) / 2.0,
        interval: (least, waits.1.max(shorter)),
        sure: least,
        ..Habit::none(Vec::new(), Source::Sample)
    })
}

/// By which part of the time the hosts of the other lanes could be faster; `None` if that is not known.
fn faster(lanes: &[Lane], habit: &Habit, streams: &Streams) -> Option<Share> {
    let waited = |lane: usize| row(&lanes[lane], streams)?.host_waited;
    let others = (0..lanes.len()).filter(|lane| !habit.lanes.contains(lane));
    let all = others.filter_map(waited);
    all.min_by(|a, b| a.share.total_cmp(&b.share))
}

/// What windows show of a lane.
pub fn row<'s>(lane: &Lane, streams: &'s Streams) -> Option<&'s RankStreams> {
    let is = |row: &&RankStreams| {
        (&row.process.host, row.process.pid, Some(row.device))
            == (&lane.process.host, lane.process.pid, lane.device)
    };
    streams.ranks.iter().find(is)
}
