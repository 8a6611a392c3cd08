//! Which ranks died or left while others went on: when, and after which call.
//!
//! [`Gatherer::deaths`] compares a process that is gone with the others of its communicators. It is a
//! [`Death`] if its recorder stopped before theirs, and if others made later calls there, which now can't
//! complete. A process that ended its recording itself left: by an exception, by exit, or at the end of its
//! work.
//!
//! Rule: a process that may still live is no death. After a long wait, the order in which processes were
//! ended proves nothing. So the others must have made a call shortly before the end of the first, or later,
//! unless somebody saw that it was gone while they were there.

use crate::behind::{inside, Inside};
use crate::moments::Zone;
use crate::progress::{Gatherer, Progress};
use crate::subject::ProcessId;
use crate::time::{HostTime, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use tables::exit::Exit;
use tables::{Capture, Communicator, Life, LiveSource, Process};

/// A recorder writes the time into its live part 25 times a second: three of those times.
const FIRST: Nanos = Nanos::from_ms(120.0);
/// The same if the two ran on different hosts, which may differ in their clocks.
const FIRST_OVER_HOSTS: Nanos = Nanos::from_seconds(2.0);
/// Others wait for a rank since its death only if they made their newest call there after this time before
/// it. A death that was seen needs no such call.
const BRIEF: Nanos = Nanos::from_seconds(5.0);
/// Nobody stops a process for less.
const LEAST_PAUSE: Nanos = Nanos::from_seconds(2.0);

/// A process that died or left while others went on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Death {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// It ended its recording itself: by an exception, by exit, or at the end of its work.
    pub exited: bool,
    /// Its exit status; null if a signal ended it, or if nobody saw how it ended.
    pub exit_status: Option<u8>,
    /// The signal that ended it; null if none did, or if nobody saw how it ended.
    pub signal: Option<u8>,
    /// SIGKILL ended it while the kernel ended processes of its machine for lack of memory.
    pub out_of_memory: bool,
    /// The newest time that its recorder wrote, ns since 1970.
    pub seen_ns: i64,
    /// How long the newest of those went on that it left behind, ns.
    pub before_others_ns: i64,
    /// Id of the communicator.
    pub communicator: String,
    /// Collectives that it made there.
    pub calls: u64,
    /// Function of the last of them.
    pub last_function: Option<String>,
    /// Bytes of the last of them.
    pub last_bytes: Option<u64>,
    /// The launcher's ranks that made later calls there; the pids of those that have none.
    pub left: Vec<u32>,
    /// The most collectives that one of these made there.
    pub most_calls: u64,
    /// Nobody saw it die: it may have been stopped until all were killed.
    #[serde(skip)]
    pub has_unseen_end: bool,
    /// It was inside another profiler plugin.
    #[serde(skip)]
    pub inside: Option<Inside>,
    /// How it ended, if somebody saw that.
    #[serde(skip)]
    pub exit: Option<Exit>,
    /// When it ended, or else when its recorder last wrote a time, as people read it.
    #[serde(skip)]
    pub seen: String,
}

/// Whether a process is known not to run any more.
pub(crate) fn is_over(capture: &Capture, process: &Process) -> bool {
    let ended = capture.job.get("ended");
    match process.life {
        Life::Running | Life::Stopped => false,
        Life::Gone => true,
        Life::Unknown => {
            ended.is_some_and(|ended| !ended.is_null()) || process.live == LiveSource::Adopted
        }
    }
}

/// When the last process of a job was killed, as people read it; `None` if one ended its recording itself, or
/// may still live.
pub fn killed(capture: &Capture) -> Option<String> {
    let all = &capture.processes;
    let is_killed = |of: &Process| {
        !of.ended && of.other_tool().is_none() && is_over(capture, of) && ends_exactly(of)
    };
    let newest = all
        .iter()
        .filter(|of| is_killed(of))
        .map(|of| of.clock.newest());
    let newest: Vec<i64> = newest.collect::<Option<_>>()?;
    let last = *newest.iter().max().filter(|_| newest.len() == all.len())?;
    Some(Zone::of(capture).spelled(last, 3))
}

impl Gatherer {
    /// Those that died, the first first.
    pub fn deaths(&self, capture: &Capture) -> Vec<Death> {
        let is_gone = |index: usize| {
            let process = &capture.processes[index];
            let gone = is_over(capture, process);
            // One that was stopped wrote nothing any more, and died later.
            let stopped = process.was_stopped().is_some();
            gone && !stopped && !process.ended && ends_exactly(process)
                || process.ended && !matches!(process.life, Life::Running | Life::Stopped)
        };
        let gone =
            (0..self.progress.len().min(capture.processes.len())).filter(|index| is_gone(*index));
        let gone: Vec<usize> = gone.collect();
        if gone.is_empty() {
            return Vec::new();
        }
        let all = capture.communicators.iter().enumerate();
        let meetings: Vec<Meeting> = all
            .map(|(number, of)| self.meeting(capture, number as u32, of))
            .collect();
        let mut joined: Vec<Vec<u32>> = vec![Vec::new(); capture.processes.len()];
        for (communicator, of) in (0..).zip(&capture.communicators) {
            for member in &of.members {
                let of = &mut joined[member.process];
                if of.last() != Some(&communicator) {
                    of.push(communicator);
                }
            }
        }
        let zone = Zone::of(capture);
        let mut deaths: Vec<Death> = Vec::new();
        for index in gone {
            let own = self.progress[index].iter();
            // It may have died before its first call there.
            let is_new = |communicator: &&u32| self.on(index, **communicator).next().is_none();
            let without_call = joined[index].iter().filter(is_new);
            let without_call: Vec<Progress> = without_call
                .map(|communicator| Progress {
                    communicator: Some(*communicator),
                    ..Progress::NONE
                })
                .collect();
            let of = |own: &Progress| {
                let meeting = &meetings[own.communicator? as usize];
                death(capture, meeting, index, own, &zone)
            };
            let found = own.chain(&without_call).filter_map(of);
            deaths.extend(found.max_by_key(|death| death.left.len()));
        }
        deaths.sort_by_key(|death| (death.seen_ns, death.process.rank, death.process.pid));
        deaths
    }

    /// What is known of the members of a communicator.
    fn meeting<'a>(
        &'a self,
        capture: &Capture,
        number: u32,
        communicator: &'a Communicator,
    ) -> Meeting<'a> {
        let mut lacking = 0;
        let mut members = Vec::new();
        for (at, member) in communicator.members.iter().enumerate() {
            let newest = capture.processes[member.process].clock.newest();
            let progress = self.on(member.process, number).next();
            match newest.map(HostTime).zip(progress) {
                Some((newest, progress)) => members.push((at, newest, progress)),
                None => lacking += 1,
            }
        }
        members.sort_by_key(|(at, _, progress)| (Reverse(progress.calls), *at));
        Meeting {
            communicator,
            lacking,
            members,
        }
    }
}

/// The members of a communicator.
struct Meeting<'a> {
    communicator: &'a Communicator,
    /// How many of them have no calls there, or nothing says when they were seen last.
    lacking: usize,
    /// The others, by their place among all: when they were seen last, and their calls; those with the most
    /// calls first.
    members: Vec<(usize, HostTime, &'a Progress)>,
}

/// What shows that a process died while others of a communicator went on.
fn death(
    capture: &Capture,
    meeting: &Meeting,
    index: usize,
    own: &Progress,
    zone: &Zone,
) -> Option<Death> {
    let process = &capture.processes[index];
    let seen = HostTime(process.clock.newest()?);
    let all = meeting.communicator;
    let of = |at: usize| all.members[at].process;
    // Nothing is proved if something is not known of another member.
    let own_lacks = || meeting.members.iter().all(|(at, ..)| of(*at) != index);
    if meeting.lacking > 1 || meeting.lacking == 1 && !own_lacks() {
        return None;
    }
    let mut left: Vec<&(usize, HostTime, &Progress)> = Vec::new();
    let more = |member: &&(usize, HostTime, &Progress)| member.2.calls > own.calls;
    for member in meeting.members.iter().take_while(more) {
        let (at, newest, progress) = member;
        if of(*at) == index {
            continue;
        }
        let other = &capture.processes[of(*at)];
        let first = match other.clock_host() == process.clock_host() {
            // What kills the others spares nobody, so one that ended by itself was before it.
            true if process.ended && !other.ended => Nanos::ZERO,
            true => FIRST,
            false => FIRST_OVER_HOSTS,
        };
        let apart = *newest - seen;
        let is_brief = progress.newest_time >= seen - BRIEF;
        if apart < first || !is_brief && !is_seen_gone(process) {
            return None;
        }
        left.push(member);
    }
    let newest = left.iter().map(|(_, newest, _)| *newest).max()?;
    let before_others = newest - seen;
    let most_calls = left.first().map_or(0, |(.., progress)| progress.calls);
    left.sort_by_key(|(at, ..)| *at);
    let name = |at: usize| {
        let process = &capture.processes[of(at)];
        process.rank.unwrap_or(process.pid)
    };
    let exit = process.exit;
    let last = own.last.clone().unwrap_or_default();
    Some(Death {
        process: ProcessId::of(process),
        exited: process.ended,
        has_unseen_end: has_unseen_end(capture, index, before_others),
        inside: inside(process),
        seen_ns: seen.0,
        exit_status: exit.and_then(|exit| exit.how?.exit_status()),
        signal: exit.and_then(|exit| exit.how?.signal()),
        out_of_memory: exit.is_some_and(|exit| exit.out_of_memory),
        exit,
        seen: zone.spelled(exit.map_or(seen.0, |exit| exit.at_ns), 3),
        before_others_ns: before_others.whole(),
        communicator: all.id.clone(),
        calls: own.calls,
        last_function: last.function,
        last_bytes: last.bytes,
        left: left.iter().map(|(at, ..)| name(*at)).collect(),
        most_calls,
    })
}

/// Whether a process that wrote nothing any more for so long may have been stopped until all were killed. A
/// pause of less than that is none that somebody makes.
pub(crate) fn has_unseen_end(capture: &Capture, index: usize, behind: Nanos) -> bool {
    let process = &capture.processes[index];
    let mut all = capture.processes.iter();
    let someone_is_there = all.any(|process| process.life.is_there());
    behind >= LEAST_PAUSE && !process.ended && !is_seen_gone(process) && !someone_is_there
}

/// Whether somebody saw that a process was gone, while others were there.
fn is_seen_gone(process: &Process) -> bool {
    process.seen.is_some_and(|seen| seen.life == Life::Gone)
}

/// Whether the end of a process is known to a fraction of a second.
fn ends_exactly(process: &Process) -> bool {
    matches!(process.live, LiveSource::Here | LiveSource::Adopted)
}
