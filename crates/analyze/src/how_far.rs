//! How far each rank came on the communicator on which a rank died, or on which ranks stood still to the end.
//!
//! [`Gatherer::how_far`] takes the first of [`crate::deaths`], else the [`crate::standstill`], and puts every
//! member of the communicator beside it: the calls that it made, and what it did then.
//!
//! Rule: of a process that lacks calls, nothing is said. Its count would be too low.

use crate::deaths::Death;
use crate::progress::Gatherer;
use crate::standstill::Standstill;
use crate::subject::ProcessId;
use crate::subject::{gpu, RankId};
use crate::time::Nanos;
use tables::{Capture, Process};

/// How far the ranks of a communicator came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HowFar {
    /// Id of the communicator.
    pub communicator: String,
    /// Its name by the program.
    pub name: Option<String>,
    /// The number of the call that can't end, from 1.
    pub call: u64,
    /// For how long ranks waited in it when the recording ended.
    pub lasted: Nanos,
    /// Its members that were recorded, by rank.
    pub ranks: Vec<Reached>,
    /// Members that were not recorded; `None` if that is not known.
    pub absent: Option<u32>,
}

/// How far a rank came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Which rank.
    pub id: RankId,
    /// Collectives that it made there; `None` if calls of it are missing.
    pub calls: Option<u64>,
    /// What it did then.
    pub does: Does,
}

/// What a rank did at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    /// It died.
    Died,
    /// It ended its recording itself, before the others.
    Left,
    /// The others waited for it, and it waited for nobody.
    Lacks,
    /// It has not made the call either.
    LacksToo,
    /// It waited in the call.
    Waits,
    /// Calls of it are missing.
    Unknown,
}

impl Gatherer {
    /// How far the ranks came; `None` if the job ended as it should.
    pub fn how_far(
        &self,
        capture: &Capture,
        deaths: &[Death],
        standstill: Option<&Standstill>,
    ) -> Option<HowFar> {
        let standstill = standstill.filter(|of| of.is_lacked && of.call.is_some());
        let (id, lasted) = match (deaths.first(), standstill) {
            (Some(death), _) => (&death.communicator, Nanos::from(death.before_others_ns)),
            (None, Some(of)) => (&of.communicator, of.lasted),
            (None, None) => return None,
        };
        let mut all = capture.communicators.iter().enumerate();
        let (index, communicator) = all.find(|(_, of)| of.id == *id)?;
        let last = match deaths.first() {
            Some(death) => death.calls,
            None => self.least(capture, index, &standstill?.missing)?,
        };
        let call = last.saturating_add(1);
        let ranks = communicator.members.iter().filter_map(|member| {
            let process = capture.processes.get(member.process)?;
            let local = process.communicator(member.uid);
            let calls = self.made(member.process, index as u32, member.uid);
            let lacks = calls.is_some_and(|calls| calls < call);
            let is = |pid: u32, host: &str| (pid, host) == (process.pid, process.host.as_str());
            let death = deaths
                .iter()
                .find(|death| is(death.process.pid, &death.process.host));
            let missing = standstill.map_or(&[][..], |of| &of.missing);
            let does = match (calls, death) {
                (_, Some(death)) if death.exited => Does::Left,
                (_, Some(_)) => Does::Died,
                (None, _) => Does::Unknown,
                _ if lacks
                    && missing
                        .iter()
                        .any(|id| is(id.process.pid, &id.process.host)) =>
                {
                    Does::Lacks
                }
                _ if lacks => Does::LacksToo,
                _ => Does::Waits,
            };
            let id = identity(process, local.and_then(|local| local.device), capture);
            Some(Reached { id, calls, does })
        });
        let mut ranks: Vec<Reached> = ranks.collect();
        ranks.sort_by_key(|of| (of.id.process.rank, of.id.process.pid, of.id.device));
        let recorded = ranks.len() as u32;
        Some(HowFar {
            communicator: id.clone(),
            name: communicator.name.clone(),
            call,
            lasted,
            absent: communicator.nranks.map(|n| n.saturating_sub(recorded)),
            ranks,
        })
    }

    /// The fewest collectives that one of these ranks made on a communicator, with operations in pieces.
    fn least(&self, capture: &Capture, index: usize, ranks: &[RankId]) -> Option<u64> {
        let members = capture.communicators[index].members.iter();
        let is_one = |process: usize| {
            let of = capture.processes.get(process);
            of.is_some_and(|of| {
                ranks
                    .iter()
                    .any(|id| of.is(&id.process.host, id.process.pid))
            })
        };
        let ones = members.filter(|member| is_one(member.process));
        let made = ones.map(|member| self.made(member.process, index as u32, member.uid));
        made.min().flatten()
    }

    /// Collectives that a process made on a communicator, by one of its ranks there.
    fn made(&self, process: usize, communicator: u32, uid: u32) -> Option<u64> {
        let own = self.progress.get(process)?;
        let mut at = own
            .iter()
            .filter(|of| (of.communicator, of.uid) == (Some(communicator), uid));
        let made = at.next().map(|of| of.calls);
        // One that made no call is proved by the count of all its calls only.
        made.or_else(|| self.complete.get(process)?.then_some(0))
    }
}

fn identity(process: &Process, device: Option<u32>, capture: &Capture) -> RankId {
    let id = RankId::new(ProcessId::of(process), device);
    RankId {
        gpu: gpu(&id, capture),
        ..id
    }
}
