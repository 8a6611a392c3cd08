//! The account of time: where the wall time of each rank's steps goes, and what late ranks cost.
//!
//! A [`Gatherer`] keeps one small row per launch ([`launches`]). [`Gatherer::finish`] finds the steps
//! ([`frame`]), for how long each rank's computing stream stood still in each launch ([`exposed`]), and which
//! launches of different ranks are one operation ([`places`]). [`division`] splits the wall into work, waits,
//! transfer and unknown time. [`habit`] says what ranks cost in all steps: by a [`replay`] of the run if
//! nearly all launches were timed, else by the paired [`difference`], or by the replay of a [`typical`] step.
//! [`stalls`] says what single long steps cost, [`hosts`] how much faster hosts could be, and [`cause`] if a
//! host or a GPU was late, by launches and by the hosts' [`work`]. [`Answer`] is the result. If there is
//! none, [`late_host`] may have a bound.
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
pub mod late_host;
pub mod launches;
pub mod links;
pub mod noise;
pub mod pace;
pub mod places;
pub mod replay;
pub mod settled;
pub mod slowing;
pub mod stalls;
#[cfg(test)]
mod tests;
pub mod turns;
pub mod typical;
pub mod work;

pub use cause::Cause;
pub use division::RankAccount;
pub use efficiencies::Efficiencies;
pub use habit::Source;
pub use launches::Gatherer;

use crate::streams::{Busier, Streams};
use crate::time::Nanos;
use launches::{Lane, Launch};
use schemars::JsonSchema;
use serde::Serialize;

/// An interval is at least this part of the price wide, to each side. A sample of steps alone held the truth
/// in 30 % of 30 slowed jobs. With this, it is 15 of 17 on GPUs, and 135 of 163 random ones.
pub const LEAST_HALF: f64 = 0.28;

/// Below this share of the steps, a late rank is no problem.
pub const MATTERS: f64 = 0.05;
/// Less of the run is not worth a finding.
pub(crate) const LEAST_SHARE: f64 = 0.01;

/// A price is no chance if it is three standard errors from nothing: one in 700 is by chance, of a rank that
/// is the latest of a few. The lower end of its interval is two of them lower: that is at least this part of
/// the price.
const BY_CHANCE: f64 = 1.0 / 3.0;
/// Of the steps, this part is left at least without late ranks: no slowdown is more than a hundredfold.
const LEAST_LEFT: f64 = 0.01;

/// The account of a job's steps.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Account {
    /// Steps that the account is of; those of the start-up are left out.
    pub steps: u64,
    /// Steps of the start-up, which are left out.
    pub skipped: u64,
    /// The wall time of these steps, µs.
    pub wall_us: f64,
    /// Of each, ns.
    #[serde(skip)]
    pub walls_ns: Vec<u64>,
    /// Whether hosts say how long steps are, because too few calls have GPU times.
    #[serde(skip)]
    pub by_hosts: bool,
    /// The launches of a step are so many times the same ones, so a step of the program may be shorter; 1 if
    /// they are not.
    #[serde(skip)]
    pub(crate) equal_parts: u64,
    /// By rank: when its host began each step, those of the start-up left out, and ended the last one, ns.
    #[serde(skip)]
    pub begins_ns: Vec<Vec<i64>>,
    /// By rank: its launches in a step, on average.
    #[serde(skip)]
    pub launches: Vec<u64>,
    /// Each rank's: work, wait, transfer and unknown sum to the wall time.
    pub ranks: Vec<RankAccount>,
    /// The part of the time that ranks stood still in operations in which all ranks need each other, 0 to 1;
    /// null if they did not.
    pub together_share: Option<f64>,
    /// POP's efficiencies: the parallel one is the product of the next three; null if exposed times of some
    /// rank are not known.
    pub efficiencies: Option<Efficiencies>,
    /// Whether the account says what late ranks cost.
    pub settles: bool,
    /// For which part of the wall ranks stood still in operations, on average: at least, and at most.
    #[serde(skip)]
    pub still_between: (f64, f64),
    /// The part of the launches, those of graphs included, of which it is known for how long the rank stood
    /// still, 0 to 1: on the rank with the smallest one.
    #[serde(skip)]
    pub timed: f64,
    /// Why it does not say all about late ranks; `None` if it does.
    #[serde(skip)]
    pub open: Option<Open>,
    /// What late ranks cost, largest first; empty if that is not known from the account.
    pub answers: Vec<Answer>,
    /// For how long all ranks stood still for the transfers of calls, if that is known: without waiting for
    /// late ranks.
    #[serde(skip)]
    pub exposed: Vec<ExposedCalls>,
    /// Slow transfers and what they cost, largest first.
    #[serde(skip)]
    pub slow_links: Vec<SlowLink>,
    /// The host that is later than all others, if nothing else is known of late ranks.
    #[serde(skip)]
    pub late_host: Option<LateHost>,
}

impl Account {
    /// The ranks that cost so much that it matters, and more than by chance. What they cost as a habit must
    /// settle. What stalls cost is known of the walls of their steps. A stall is far out of what is usual, so
    /// less of it is told.
    pub fn late(&self) -> impl Iterator<Item = &Answer> {
        let matters = |answer: &&Answer| {
            let is_known = self.settles || answer.loss_us <= answer.stalls_us;
            let is_stall = 2.0 * answer.stalls_us > answer.loss_us;
            let least = if is_stall && self.settles {
                LEAST_SHARE
            } else {
                MATTERS
            };
            let least_us = least * self.wall_us;
            is_known && answer.loss_us >= least_us && self.is_no_chance(answer, least_us)
        };
        self.answers.iter().filter(matters)
    }

    /// Whether what is lost beyond its error is so much, µs. If ranks were compared, the error is of the
    /// sample alone: then it is enough that the loss is no chance. A replay also has errors of its model.
    fn is_no_chance(&self, answer: &Answer, least_us: f64) -> bool {
        let is_compared = matches!(answer.source, Source::Waits | Source::SomeWaits);
        let by_chance = BY_CHANCE * answer.loss_us;
        let least_us = if is_compared {
            by_chance.min(least_us)
        } else {
            least_us
        };
        answer.sure_us >= least_us.max(LEAST_SHARE * self.wall_us)
    }

    /// The slow transfers that cost so much that it matters.
    pub fn slow(&self) -> impl Iterator<Item = &SlowLink> {
        let matters = |slow: &&SlowLink| slow.loss_us >= MATTERS * self.wall_us;
        self.slow_links.iter().filter(matters)
    }

    /// If late ranks are named, steps are slower by what these cost, and by nothing else.
    fn slowdown_by_prices(&mut self) {
        let sum = |us: fn(&Answer) -> f64| self.late().map(us).sum::<f64>();
        let (low, high) = (sum(|of| of.interval_us.0), sum(|of| of.interval_us.1));
        let wall = self.wall_us;
        let times = |us: f64| wall / (wall - us.max(0.0)).max(LEAST_LEFT * wall);
        if let Some(of) = self.efficiencies.as_mut().filter(|_| high > 0.0) {
            of.slowdown = Some((times(low), times(high)));
        }
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

/// Why an account does not say all that late ranks cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// So many ranks are not in the capture.
    Absent(u32),
    /// Calls in CUDA graphs were not timed.
    Graphs,
    /// The same, but launches of graphs were, and no rank comes to them so late that it matters.
    InGraphs,
    /// No evidence shows on all ranks for how long computing stood still.
    Hidden,
    /// Ranks do not all meet in the same operations, and too few calls were timed to play the run again.
    Apart,
}

/// A rank whose host is later than those of all others, where nothing shows for how long GPUs stood still.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LateHost {
    /// Which of [`Account::ranks`], by its place there.
    pub rank: usize,
    /// What it costs at most, µs of the wall of the steps: no more than the GPU of any other rank waits.
    pub most_us: f64,
    /// By how much its host is later, µs, in sum over the steps.
    pub later_us: f64,
    /// Its host works longer. Else it begins steps later.
    pub by_work: bool,
    /// It may explain at least half of the time for which the GPU of another rank waits at most, and does not
    /// wait longer than that itself.
    pub leads: bool,
}

/// A communicator whose transfers take longer than usual: for a part of the run, or than those of others.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SlowLink {
    /// Id of the communicator.
    pub communicator: String,
    /// Which of [`Account::ranks`] are its members, by their place there.
    pub ranks: Vec<usize>,
    /// What the steps would take less without that, µs of the wall.
    pub loss_us: f64,
    /// Interval of that, µs.
    pub interval_us: (f64, f64),
    /// How long a slow transfer takes, and a usual one, µs.
    pub transfer_us: (f64, f64),
    /// Slow transfers, and all of that part of the run, of those that were timed.
    pub transfers: (u64, u64),
    /// From when to when, after the first launch, µs; null if it is slow all the time.
    pub when_us: Option<(f64, f64)>,
}

/// For how long all ranks stood still for the transfers of calls of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ExposedCalls {
    /// Id of the communicator.
    pub communicator: String,
    /// Function.
    pub function: tables::Name,
    /// Bytes by the convention of nccl-tests.
    pub bytes: u64,
    /// µs of the wall of the steps.
    pub exposed_us: f64,
    /// How long these transfers took, one after the other, µs.
    pub transfer_us: f64,
}

/// What late ranks cost.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AccountAnswer")]
pub struct Answer {
    /// Which of `account.ranks` are to blame, by their place there: one, or the ranks of a group; none if
    /// ranks are late in turns.
    pub ranks: Vec<usize>,
    /// What the steps would take less without their lateness, µs of the wall.
    pub loss_us: f64,
    /// The same as a share of the steps' wall time.
    pub share: f64,
    /// Interval of the loss, µs.
    pub interval_us: (f64, f64),
    /// What is lost beyond the error of what was measured, µs: [`habit::Habit::sure`].
    #[serde(skip)]
    pub sure_us: f64,
    /// Of the loss: what kernels lose beside calls that wait, µs: [`habit::Habit::slowing`].
    #[serde(skip)]
    pub slowing_us: f64,
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
    /// What the loss rests on. That is a replay of the run, of the steps that kernel windows show, or of a
    /// typical step from all calls that were timed. Else it is exposed times of all ranks, of some, GPU times
    /// of calls only, or only how long steps took.
    pub source: Source,
    /// Launches in which it came last, of those that were timed on it and another rank.
    pub last: (u64, u64),
    /// How many of these are sends and receives.
    #[serde(skip)]
    pub sends: u64,
    /// Which part of what others waited had passed when its host launched, 0 to 1.
    #[serde(skip)]
    pub launched_share: Option<f64>,
    /// How much longer its host works in a step than that of who waits, µs.
    #[serde(skip)]
    pub host_longer_us: Option<f64>,
    /// How long hosts need for a step also if nobody is late, µs; `None` if that does not limit the loss.
    #[serde(skip)]
    pub hosts_need_us: Option<f64>,
}

impl Account {
    /// The median step, µs.
    pub(crate) fn usual_us(&self) -> f64 {
        frame::median(
            self.walls_ns
                .iter()
                .map(|ns| Nanos::from(*ns).us())
                .collect(),
        )
    }

    /// After how many of its steps their times come again, 1 if they don't; `None` if hosts say how long they
    /// are.
    pub(crate) fn times_repeat(&self) -> Option<u64> {
        let times: Vec<f64> = self.walls_ns.iter().map(|ns| *ns as f64).collect();
        (!self.by_hosts).then(|| crate::steps::repeat_after(&times) as u64)
    }
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
        let places = places::Places::new(&lanes, &frame);
        let (slow, exposed) = links::find(&lanes, &places, &frame);
        let work = work::Work::of(&lanes, &frame);
        let stalls = stalls::find(&places, &frame, &work, &links::usual_steps(&slow, &frame));
        let division = division::divide(&lanes, &places, &frame);
        let waits = division.iter().map(|rank| Nanos::from_us(rank.wait_us).0);
        let waits = waits.fold((f64::INFINITY, 0.0f64), |(least, most), ns| {
            (least.min(ns), most.max(ns))
        });
        let regular = stalls.regular(&frame);
        let most_waits = division::most_waits(&places, &frame);
        let is_timed = |lane: &Lane| lane.launches.iter().any(Launch::is_timed);
        let is_known = lanes.len() > 1 && lanes.iter().any(is_timed);
        let find = |steps: &[bool]| {
            let habit = || habit::find(&lanes, &places, &frame, &work, steps, waits, streams);
            is_known.then(habit).flatten()
        };
        let of_all = stalls
            .are_many(&frame)
            .then(|| find(&vec![true; frame.wall.len()]))
            .flatten()
            .filter(|habit| habit.has_stalls() && habit.settles(&frame, &places));
        let has_stalls = of_all.is_some();
        let habit = of_all.or_else(|| find(&regular));
        let settles = habit
            .as_ref()
            .is_some_and(|habit| habit.settles(&frame, &places));
        let together = places.together();
        let late_host = match settles {
            true => None,
            // A host that is late comes late to its graphs.
            false if places.bounded => None,
            false => late_host::find(&lanes, &frame, &work, &regular, &most_waits),
        };
        let launches = |(lane, begins): (&Lane, &Vec<i64>)| {
            let all = lane.launches.iter().filter(|launch| !launch.in_graph);
            let within = all
                .filter(|launch| (begins[0]..*begins.last().unwrap_or(&0)).contains(&launch.api));
            (within.count() as f64 / frame.wall.len() as f64).round() as u64
        };
        let launches = lanes.iter().zip(&frame.begins).map(launches).collect();
        let shown = |lane: usize| habit::row(&lanes[lane], streams?)?.busier.as_ref();
        let answers = answers(
            &lanes, &places, &frame, &stalls, &work, habit, has_stalls, &shown,
        );
        let mut account = Account {
            launches,
            still_between: still_between(&division, &places, &frame),
            timed: timed(&places, &frame),
            open: match absent(&lanes) {
                0 if settles => None,
                0 if places.bounded => Some(Open::InGraphs),
                0 if places.unseen => Some(Open::Graphs),
                0 if together.is_some_and(|part| part < habit::LEAST_TOGETHER) => Some(Open::Apart),
                0 => Some(Open::Hidden),
                ranks => Some(Open::Absent(ranks)),
            },
            steps: frame.wall.len() as u64,
            skipped: frame.skipped as u64,
            wall_us: Nanos(frame.total()).us(),
            walls_ns: frame.wall.iter().map(|ns| ns.max(0.0) as u64).collect(),
            by_hosts: frame.by_hosts,
            equal_parts: frame.equal_parts as u64,
            efficiencies: Efficiencies::of(
                &division,
                Nanos(frame.total()).us(),
                together >= Some(habit::LEAST_TOGETHER),
            )
            .filter(|_| lanes.len() > 1),
            ranks: division,
            together_share: together,
            settles,
            answers,
            late_host,
            exposed: exposed
                .into_iter()
                .map(|of| exposed_calls(of, &lanes))
                .collect(),
            slow_links: slow
                .into_iter()
                .map(|slow| slow_link(slow, &lanes, &frame))
                .collect(),
            begins_ns: frame.begins,
        };
        account.slowdown_by_prices();
        Some(account)
    }
}

/// How many ranks of the largest communicator are not here.
fn absent(lanes: &[Lane]) -> u32 {
    let groups = lanes.iter().flat_map(|lane| &lane.groups);
    let most = groups.max_by_key(|(_, group)| group.ranks);
    most.map_or(0, |(communicator, group)| {
        let is_in = |lane: &&Lane| lane.groups.contains_key(communicator);
        let here = lanes.iter().filter(is_in).count() as u32;
        group.ranks.saturating_sub(here)
    })
}

/// For which part of the wall lanes stood still, on average. Of launches without any time, nothing is known.
fn still_between(
    ranks: &[RankAccount],
    places: &places::Places,
    frame: &frame::Frame,
) -> (f64, f64) {
    let all = vec![true; frame.wall.len()];
    let seen = places.scaled(&all, |cell| cell.still().or(cell.launch.length()));
    let n = Nanos(ranks.len() as f64 * frame.total()).us();
    let low = ranks.iter().map(|rank| rank.still_us()).sum::<f64>() / n;
    let high = ranks.iter().zip(&seen).map(|(rank, seen)| {
        if places.is_dark(seen) {
            Nanos(frame.total()).us()
        } else {
            rank.still_us() + rank.unknown_us
        }
    });
    (low, high.sum::<f64>() / n)
}

/// See [`Account::timed`].
fn timed(places: &places::Places, frame: &frame::Frame) -> f64 {
    let all = vec![true; frame.wall.len()];
    let known = places.scaled(&all, |cell| cell.still().map(|_| 1.0));
    let parts = known
        .iter()
        .map(|of| of.known as f64 / of.operations.max(1.0));
    parts.fold(1.0, f64::min)
}

fn exposed_calls(of: links::Exposed, lanes: &[Lane]) -> ExposedCalls {
    let group = lanes[of.lane].groups.get(&of.communicator);
    ExposedCalls {
        communicator: group.map_or(String::new(), |group| group.id.clone()),
        function: of.function,
        bytes: of.bytes,
        exposed_us: Nanos(of.still).us(),
        transfer_us: Nanos(of.ns).us(),
    }
}

fn slow_link(slow: links::Slow, lanes: &[Lane], frame: &frame::Frame) -> SlowLink {
    let loss_us = Nanos(slow.share * frame.total()).us();
    let at = |step: usize| {
        let (lane, last) = (slow.lanes[0], frame.begins[0].len() - 1);
        let since = lanes[lane].launches[0].api;
        Nanos::from(frame.begins[lane][step.min(last)] - since).us()
    };
    SlowLink {
        communicator: lanes[slow.lanes[0]]
            .groups
            .get(&slow.communicator)
            .map_or(String::new(), |group| group.id.clone()),
        loss_us,
        interval_us: ((1.0 - LEAST_HALF) * loss_us, (1.0 + LEAST_HALF) * loss_us),
        transfer_us: (Nanos(slow.took.0).us(), Nanos(slow.took.1).us()),
        transfers: slow.slow,
        when_us: slow.steps.map(|(from, to)| (at(from), at(to + 1))),
        ranks: slow.lanes,
    }
}

/// Why a rank is late that costs this part of the time, if kernel windows show most of it.
fn by_windows(of: &Busier, lost: f64) -> Option<Cause> {
    let cause = if of.computes() >= of.idle {
        Cause::Gpu
    } else {
        Cause::Host
    };
    of.explains(lost).then_some(cause)
}

/// What ranks cost in all steps, and what others' stalls cost. `has_stalls` if the habit is of all steps,
/// stalls too. `shown` is what kernel windows show of a lane.
#[allow(clippy::too_many_arguments)]
fn answers<'s>(
    lanes: &[Lane],
    places: &places::Places,
    frame: &frame::Frame,
    stalls: &stalls::Stalls,
    work: &work::Work,
    habit: Option<habit::Habit>,
    has_stalls: bool,
    shown: &dyn Fn(usize) -> Option<&'s Busier>,
) -> Vec<Answer> {
    let source = habit.as_ref().map_or(Source::Walls, |habit| habit.source);
    let beyond = |lane: usize| stalls.beyond_others(lane);
    let stalled = (0..lanes.len()).max_by(|a, b| beyond(*a).total_cmp(&beyond(*b)));
    let is_other = |lane: &usize| habit.as_ref().is_none_or(|habit| habit.lanes != [*lane]);
    let others = stalled.filter(|lane| is_other(lane) && beyond(*lane) > 0.0 && !has_stalls);
    let others = others.map(|lane| habit::Habit::none(vec![lane], source));
    let answer = |habit: habit::Habit| {
        let total = frame.total();
        let one = match habit.lanes[..] {
            [one] => Some(one),
            _ => None,
        };
        let stalled = one.map_or(0.0, beyond);
        let one_stalled = one.filter(|_| stalled > 0.0);
        let added = if has_stalls { 0.0 } else { stalled };
        // Host times of calls may overlap the steps before, and no rank costs more than there is.
        let loss = (habit.loss.max(0.0) + added).min(total);
        let stalled = stalled.min(loss);
        let least = LEAST_HALF * loss;
        let (low, high) = habit.interval;
        let late = cause::of(places, work, frame, &habit.lanes);
        // What the steps between stalls show says nothing of these, and windows seldom have one.
        let mostly_stalls = !has_stalls && 2.0 * stalled >= loss;
        let by_stalls = one.and_then(|lane| {
            let by_host = 2.0 * stalls.by_host[lane] >= stalls.ns[lane];
            (mostly_stalls && by_host).then_some(Cause::Host)
        });
        let by_windows = late
            .filter(|_| !mostly_stalls)
            .and_then(|late| by_windows(shown(late.lane)?, (loss - stalled) / total));
        Answer {
            loss_us: Nanos(loss).us(),
            share: loss / total,
            interval_us: (
                Nanos((low + added).min(loss - least)).us(),
                Nanos((high + added).max(loss + least).min(total)).us(),
            ),
            slowing_us: Nanos(habit.slowing).us(),
            sure_us: Nanos((habit.sure + added).min(loss)).us(),
            with_other: habit
                .with
                .map(|(lane, loss)| (lane, Nanos(loss + added).us())),
            stalls_us: Nanos(stalled).us(),
            stalls: one_stalled.map_or(0, |lane| stalls.count[lane]),
            longest_us: one_stalled.and_then(|lane| {
                let (ns, step) = stalls.longest[lane]?;
                let began = frame.begins[lane][step] - lanes[lane].launches[0].api;
                Some((Nanos(ns).us(), Nanos::from(began).us()))
            }),
            cause: by_stalls
                .or(by_windows)
                .or(late.map(|late| late.cause))
                .unwrap_or(Cause::Unknown),
            source: habit.source,
            last: late.map_or((0, 0), |late| late.last),
            sends: late.map_or(0, |late| late.sends),
            launched_share: late.and_then(|late| late.launched),
            host_longer_us: late
                .and_then(|late| late.host_longer)
                .map(|ns| Nanos(ns).us()),
            hosts_need_us: habit
                .hosts_need
                .map(|share| Nanos(share * total / frame.wall.len().max(1) as f64).us()),
            ranks: habit.lanes,
        }
    };
    let mut answers: Vec<Answer> = habit.into_iter().chain(others).map(answer).collect();
    answers.sort_by(|a, b| b.loss_us.total_cmp(&a.loss_us));
    answers
}
