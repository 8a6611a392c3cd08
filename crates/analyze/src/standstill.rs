//! Did ranks wait for another rank when the recording ended?
//!
//! A job that hangs is often ended from outside: by a watchdog, by the user, at the end of its time. All of
//! its processes then end within moments, so none of them died first. But some ranks have made a collective
//! that others never made, and they waited in it until the end. [`Gatherer::standstill`] finds that.
//! `ncclscope hang` follows waits further: over sends and receives, networks and graphs.
//!
//! Rule: only what is proved. All members of the communicator must be here, with all their calls, and no call
//! may be put together by guess. A job that is ended in the middle of a step has unfinished calls, too. So
//! the wait must be longer than any pause between two calls that a rank of this job came back from. And it
//! must be beyond chance, by the pauses of the rank that waits, and long enough to matter beside the run:
//! with many short pauses, a wait of a second may be. Else it must last for 5 s.

use crate::account::MATTERS;
use crate::findings::RankId;
use crate::progress::{Gatherer, Progress};
use std::collections::BTreeSet;
use tables::{Capture, Communicator};

/// Waits up to this long are part of any job whose pace is not known; `ncclscope hang` has the same limit.
const BRIEF_NS: i64 = 5_000_000_000;
/// A wait that is less probable than this is no pause of the job: as for the intervals of 95 %.
const CHANCE: f64 = 0.05;
/// Collectives that no rank can leave before all have come.
const NEED_ALL: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// Ranks that waited for others when the recording ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// For how long, ns.
    pub for_ns: i64,
    /// Id of the communicator.
    pub communicator: String,
    /// The ranks that have not made the call, and wait for nobody.
    pub missing: Vec<RankId>,
    /// The ranks that are in it.
    pub waiting: Vec<RankId>,
    /// Ranks have numbers of the launcher.
    pub numbered: bool,
    /// The number of the call on the communicator, from 1.
    pub call: u64,
    /// Its function and bytes; `None` if those that are in it have made later calls, too.
    pub function: Option<(String, Option<u64>)>,
}

/// The members of a communicator of which some have made fewer calls.
struct Uneven<'a> {
    communicator: &'a Communicator,
    /// By member.
    made: Vec<&'a Progress>,
    least: u64,
}

impl Uneven<'_> {
    /// For how long a member has waited in a call, ns; nothing if it does not wait.
    fn waited(&self, member: usize, capture: &Capture) -> Option<i64> {
        let made = self.made[member];
        let function = made.last.as_ref().map(|(function, _)| function.as_str());
        let needs_all = function.is_some_and(|function| NEED_ALL.contains(&function));
        if made.calls == self.least || !needs_all {
            return None;
        }
        // A process that is younger than the second reading of its clock has no times.
        let since = Some(made.newest_ns).filter(|at| *at != 0)?;
        let process = &capture.processes[self.communicator.members[member].process];
        Some(process.clock.newest()?.saturating_sub(since))
    }

    /// By process and device: those that have made fewer.
    fn missing(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let members = self.communicator.members.iter().zip(&self.made);
        let missing = members.filter(|(_, made)| made.calls == self.least);
        missing.map(|(member, _)| (member.process, member.uid))
    }
}

impl Gatherer {
    /// The longest wait; `None` if there is none, or if nobody is seen to be its cause.
    pub fn standstill(&self, capture: &Capture) -> Option<Standstill> {
        let uneven: Vec<Uneven> = capture
            .communicators
            .iter()
            .enumerate()
            .filter_map(|(index, communicator)| self.uneven(index as u32, communicator))
            .collect();
        let longest = self.pauses.iter().map(|pauses| pauses.longest_ns);
        let longest = longest.max().unwrap_or(0);
        let is_no_pause = |process: usize, waited: i64| {
            let own = self.pauses.get(process).copied().unwrap_or_default();
            // A launcher does not end all ranks at once: what is short beside the run says nothing of it.
            let matters = waited as f64 >= MATTERS * own.sum_ns as f64;
            waited > longest && (waited >= BRIEF_NS || matters && own.chance(waited) < CHANCE)
        };
        // A process that waits on one communicator is late on the others because of that.
        let mut waiting = BTreeSet::new();
        for of in &uneven {
            for (member, at) in of.communicator.members.iter().enumerate() {
                if of.waited(member, capture).is_some() {
                    waiting.insert(at.process);
                }
            }
        }
        let found = uneven.iter().filter_map(|of| {
            let causes: Vec<usize> = of
                .missing()
                .map(|(process, _)| process)
                .filter(|process| !waiting.contains(process))
                .collect();
            let waits = (0..of.made.len()).filter_map(|member| {
                let waited = of.waited(member, capture)?;
                Some((of.communicator.members[member].process, waited))
            });
            let waits: Vec<(usize, i64)> = waits.collect();
            let (longest, for_ns) = waits.iter().copied().max_by_key(|(_, waited)| *waited)?;
            let waits = waits.into_iter().map(|(process, _)| process).collect();
            if !is_no_pause(longest, for_ns) {
                return None;
            }
            (!causes.is_empty()).then(|| standstill(capture, of, for_ns, (causes, waits)))
        });
        // Of equals the one on the communicator that was made first.
        found.reduce(|a, b| if b.for_ns > a.for_ns { b } else { a })
    }

    /// What the members made, if it differs and all of it is known.
    fn uneven<'a>(&'a self, index: u32, communicator: &'a Communicator) -> Option<Uneven<'a>> {
        static NONE: Progress = Progress::NONE;
        let members = &communicator.members;
        if communicator.nranks != Some(members.len() as u32) || members.len() < 2 {
            return None;
        }
        let made = members.iter().map(|member| {
            let complete = *self.complete.get(member.process)?;
            // Of what lacks calls nothing is kept.
            self.progress.get(member.process)?;
            let mut own = self
                .on(member.process, index)
                .filter(|of| of.uid == member.uid);
            complete.then(|| own.next().unwrap_or(&NONE))
        });
        let made: Vec<&Progress> = made.collect::<Option<_>>()?;
        let least = made.iter().map(|made| made.calls).min()?;
        let uneven = made.iter().any(|made| made.calls > least);
        let guessed = made.iter().any(|made| made.guessed);
        (uneven && !guessed).then_some(Uneven {
            communicator,
            made,
            least,
        })
    }
}

/// That `causes` held up `waits`, both by process.
fn standstill(
    capture: &Capture,
    of: &Uneven,
    for_ns: i64,
    (causes, waits): (Vec<usize>, Vec<usize>),
) -> Standstill {
    let mut all = causes.iter().chain(&waits);
    let numbered = all.all(|index| capture.processes[*index].rank.is_some());
    let ids = |of: &[usize]| -> Vec<RankId> {
        let id = |index: &usize| {
            let process = &capture.processes[*index];
            RankId {
                rank: process.rank.filter(|_| numbered),
                host: process.host.clone(),
                pid: process.pid,
                ..RankId::default()
            }
        };
        let mut ids: Vec<RankId> = of.iter().map(id).collect();
        ids.sort_by_key(|id| (id.rank, id.pid));
        ids.dedup();
        ids
    };
    let next = of.made.iter().find(|made| made.calls == of.least + 1);
    let newest = of.made.iter().all(|made| made.calls <= of.least + 1);
    Standstill {
        for_ns,
        communicator: of.communicator.id.clone(),
        waiting: ids(&waits),
        missing: ids(&causes),
        numbered,
        call: of.least + 1,
        function: next.filter(|_| newest).and_then(|made| made.last.clone()),
    }
}
