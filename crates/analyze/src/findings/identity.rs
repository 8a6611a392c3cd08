//! What makes two findings of different runs the same one.
//!
//! Rule: that is the kind and whom it is about in the terms of the program: ranks of the launcher, the role
//! of the communicator, and the calls on it. Hosts, processes and GPUs differ from run to run, and figures
//! always do.

use super::{CallId, Finding, Kind, RankId, Way};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The kind.
    pub kind: Kind,
    /// The launcher's ranks. A process without one is known by its GPU's number.
    pub ranks: Vec<(Option<u32>, Option<u32>)>,
    /// The communicator's role: its name and the launcher's ranks of its members.
    pub role: Option<(Option<String>, Vec<u32>)>,
    /// The calls on it.
    pub call: Option<CallId>,
    /// The launcher's rank at the other end, and which way.
    pub link: Option<(Option<u32>, Way)>,
    /// Stage and group.
    pub part: (Option<u32>, Option<String>),
}

impl Finding {
    /// What makes it the same finding in another run.
    pub fn identity(&self) -> Identity {
        let subject = &self.subject;
        let of = |rank: &RankId| match rank.process.rank {
            Some(number) => (Some(number), None),
            None => (None, rank.device),
        };
        let communicator = subject.communicator.as_ref();
        let peer = subject.peer.as_ref();
        Identity {
            kind: self.kind(),
            ranks: subject.ranks.iter().map(of).collect(),
            role: communicator.map(|of| (of.name.clone(), of.ranks.clone())),
            call: subject.call.clone(),
            link: subject
                .way
                .map(|way| (peer.and_then(|peer| peer.rank), way)),
            part: (subject.stage, subject.group.clone()),
        }
    }

    /// Whether the other one is the same finding, maybe in another run.
    pub fn is_same(&self, other: &Finding) -> bool {
        self.identity() == other.identity()
    }
}
