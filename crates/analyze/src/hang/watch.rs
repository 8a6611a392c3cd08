//! Watches a job for hangs, look by look.
//!
//! A stand-still is told early, and nothing is made of it: long computing, a checkpoint or a compilation
//! looks the same. A hang is told on proof, or by time. [`Watch::look`] takes the verdict of each look, and
//! says what is new.
//!
//! Rule: it follows from what it was given alone, and no clock is asked. So it can be played in virtual time.

use super::limits::{BRIEF, LONGEST_PAUSE};
use super::verdict::{Because, Verdict, VerdictKind};
use super::{Conditions, Hang, Member};
use crate::time::{HostTime, Nanos};

/// A proof counts once it has been seen for so long. A launcher that sees a rank die ends the others, and may
/// start them again. torchrun looks every 5 s at most, and until then they wait for the dead one.
const PROOF: Nanos = Nanos::from_seconds(15.0);
/// Without a proof a stand-still is a hang from here on. PyTorch ends a job whose ranks wait for 10 minutes,
/// unless the program says otherwise, so jobs have no longer pauses.
pub const PATIENCE: Nanos = Nanos::from_seconds(900.0);

/// Why a stand-still is a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A rank that others wait for is dead.
    Dead,
    /// A rank that others wait for has ended or destroyed the communicator.
    Left,
    /// A signal or a debugger has stopped a rank that others wait for.
    Stopped,
    /// Ranks made calls that do not fit, or in another order.
    Calls,
    /// Nothing is proved, and it lasts longer than jobs pause.
    Time,
}

impl Proof {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Proof::Dead => "dead",
            Proof::Left => "left",
            Proof::Stopped => "stopped",
            Proof::Calls => "calls",
            Proof::Time => "time",
        }
    }
}

/// What a look adds to what was told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Ranks are waited for, and nothing is proved.
    StandsStill,
    /// The job hangs.
    Hangs(Proof),
    /// What stood still goes on, after so long.
    GoesOn(Nanos),
    /// The job was started again, after it had stood still for so long.
    StartedAgain(Nanos),
}

/// What makes two stand-stills one: the kind of the verdict, the processes that it names by host and number,
/// and the number of the call.
type Which = (VerdictKind, Vec<(String, u32)>, Option<u64>);

/// A stand-still that was told.
#[derive(Clone, Debug)]
struct Told {
    which: Which,
    /// As of when the proof was first seen that is seen since.
    proved: Option<HostTime>,
    /// It was told as a hang.
    hangs: bool,
    lasted: Nanos,
}

/// What is remembered from look to look.
#[derive(Clone, Debug)]
pub struct Watch {
    after: Nanos,
    longest: Nanos,
    told: Option<Told>,
    is_over: bool,
}

impl Watch {
    /// Tells a hang without proof after so long at least.
    pub fn new(after: Nanos) -> Watch {
        Watch {
            after,
            longest: Nanos::ZERO,
            told: None,
            is_over: false,
        }
    }

    /// What the next verdict depends on: the job may pause for twice as long as it ever did.
    pub fn conditions(&self) -> Conditions {
        let longest = self.longest.min(LONGEST_PAUSE);
        Conditions {
            after: Some(self.after.max(longest * 2.0)),
        }
    }

    /// Whether a hang was told that has not gone on since.
    pub fn hangs(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.hangs)
    }

    /// What is new in a verdict that was made under [`Watch::conditions`].
    ///
    /// A hang is told once, until it goes on. Of a job without processes nothing is told: it has ended, or
    /// is being started again.
    pub fn look(&mut self, hang: &Hang) -> Option<News> {
        if hang.is_over {
            self.is_over = true;
            return None;
        }
        let restarted = std::mem::take(&mut self.is_over);
        self.longest = self.longest.max(hang.longest_pause);
        let Some(lasted) = stands_still(hang) else {
            let told = self.told.take()?;
            if restarted {
                return Some(News::StartedAgain(told.lasted));
            }
            self.longest = self.longest.max(told.lasted);
            return Some(News::GoesOn(told.lasted));
        };
        let which = which(hang);
        let before = self.told.take().filter(|_| !restarted);
        let proof = proof(&hang.verdict);
        let proved = proof.and(hang.as_of).map(|now| {
            let since = before.as_ref().and_then(|told| told.proved);
            since.unwrap_or(now)
        });
        let is_settled = hang
            .as_of
            .zip(proved)
            .is_some_and(|(now, since)| now - since >= PROOF);
        let proof = match proof.filter(|_| is_settled) {
            None => by_time(hang, lasted).then_some(Proof::Time),
            proof => proof,
        };
        let was_hung = before.as_ref().is_some_and(|told| told.hangs);
        let is_other = before.is_none_or(|told| told.which != which);
        self.told = Some(Told {
            which,
            proved,
            hangs: was_hung || proof.is_some(),
            lasted,
        });
        match proof {
            _ if was_hung => None,
            Some(proof) => Some(News::Hangs(proof)),
            None => is_other.then_some(News::StandsStill),
        }
    }
}

fn which(hang: &Hang) -> Which {
    let verdict = &hang.verdict;
    let name = |of: Member| {
        let rank = &hang.communicators[of.communicator].ranks[of.member];
        (rank.process.host.clone(), rank.process.pid)
    };
    (
        verdict.kind(),
        verdict.blamed().into_iter().map(name).collect(),
        verdict.call().and_then(|call| call.number),
    )
}

/// For how long the job stands still, ns; `None` if it does not, or not for long.
fn stands_still(hang: &Hang) -> Option<Nanos> {
    let verdict = &hang.verdict;
    let lasted = match verdict {
        Verdict::Quiet(quiet) => verdict.waited().or(quiet.newest_call_ago),
        _ => verdict.waited(),
    };
    let lasted = lasted.filter(|ns| *ns >= BRIEF)?;
    (verdict.hang() != Some(false)).then_some(lasted)
}

/// What proves that the job will not go on by itself.
fn proof(verdict: &Verdict) -> Option<Proof> {
    let proof = match (verdict, verdict.kind()) {
        // Others may wait in CUDA graphs, of which NCCL does not tell.
        (Verdict::Quiet(quiet), _) => {
            return match quiet.because {
                Because::Dead(_) => Some(Proof::Dead),
                Because::Stopped(_) => Some(Proof::Stopped),
                _ => None,
            };
        }
        (Verdict::Cycle(_), _) => Proof::Calls,
        (_, VerdictKind::Dead) => Proof::Dead,
        (_, VerdictKind::Left) => Proof::Left,
        (_, VerdictKind::Stopped) => Proof::Stopped,
        (_, VerdictKind::Mismatch) => Proof::Calls,
        _ => return None,
    };
    verdict.certain().then_some(proof)
}

/// Whether it stands still for longer than jobs pause.
fn by_time(hang: &Hang, lasted: Nanos) -> bool {
    match &hang.verdict {
        // Nothing shows whether GPUs have ended the last calls, or whether a process still comes.
        Verdict::Quiet(quiet) => {
            let may_wait = matches!(
                quiet.because,
                Because::NotRecorded(_)
                    | Because::Stopped(_)
                    | Because::Dead(_)
                    | Because::Silent(_)
                    | Because::Blocked(_)
            );
            let hangs = hang.verdict.hang() == Some(true);
            (may_wait || hangs) && lasted >= hang.after
        }
        verdict => verdict.hang() == Some(true) && lasted >= hang.after,
    }
}
