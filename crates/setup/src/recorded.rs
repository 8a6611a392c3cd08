//! What the recorder keeps about set-up in a capture: lines of text, NCCL's and its own.
//!
//! A line of the recorder begins with [`OWN`]. All others are NCCL's debug output ([`crate::log`]).
//!
//! Rule: a block holds whole lines, and a line is never longer than a block.

use crate::comm_memory::{CommMemory, COMM_MEMORY};
use crate::counts::{Counts, COUNTS};
use crate::log::{Init, Reader};
use crate::memory::Sizes;
use crate::paths::HostFacts;
use crate::timed_calls::{self, TimedCall, TIMED_CALLS};
use crate::warnings::Warning;
use std::collections::BTreeMap;

/// How a line of the recorder begins. NCCL's never do, because a host's name has no blank.
pub const OWN: &str = "ncclscope ";
/// The recorder's line for each init of its own: this, and how many ns it took.
pub const PLUGIN_INIT: &str = "plugin_init_ns=";

/// The recorder's line about the CPUs on which the process may run: this, and the kernel's list.
pub const CPUS: &str = "cpus=";

/// The recorder's line about NCCL's activation mask: this, and `name=value` words.
pub const MASK: &str = "mask ";

/// The recorder's line about another profiler plugin behind it: this, `name=value` words, and the path.
pub const CHAIN: &str = "chain ";

/// Another profiler plugin, which runs behind the recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// As the user named its library.
    pub path: String,
    /// As it calls itself, if it was loaded.
    pub name: Option<String>,
    /// The version of its table.
    pub abi: Option<u8>,
    /// Events that NCCL was asked for on its behalf.
    pub events: Vec<String>,
    /// Why it got no calls, or none of some communicators, in a word.
    pub refused: Option<String>,
}

impl Chain {
    /// From what stands behind [`CHAIN`]; `None` without a path.
    fn parse(text: &str) -> Option<Chain> {
        // The path may have blanks.
        let (words, path) = format!(" {text}")
            .split_once(" path=")
            .map(|(words, path)| (words.to_owned(), path.to_owned()))?;
        let word = |name: &str| {
            let words = words.split_ascii_whitespace();
            let mut words = words.filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        Some(Chain {
            path,
            name: word("name").map(str::to_owned),
            abi: word("abi").and_then(|n| n.parse().ok()),
            events: word("events").map_or(Vec::new(), |list| {
                let names = list.split(',').filter(|name| !name.is_empty());
                names.map(str::to_owned).collect()
            }),
            refused: word("refused").map(str::to_owned),
        })
    }
}

/// The recorder's line about threads inside of NCCL's functions that make and end communicators: this, when
/// it was seen, and `function=since_ns:thread` words.
pub const IN_NCCL: &str = "in_nccl ";

/// The threads that were inside of such functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InNccl {
    /// When the recorder saw it, ns since 1970. Nothing changed until the recorder's newest flush.
    pub at_ns: i64,
    /// The calls, the first that began first.
    pub calls: Vec<CommunicatorCall>,
}

/// A call that makes or ends a communicator, and has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommunicatorCall {
    /// As in `nccl.h`.
    pub function: String,
    /// Since when, ns since 1970.
    pub since_ns: i64,
    /// Linux's number of the thread.
    pub thread: Option<u32>,
}

impl InNccl {
    /// From what stands behind [`IN_NCCL`]; `None` without a time. Words of another form are left out.
    fn parse(text: &str) -> Option<InNccl> {
        let words = text.split_ascii_whitespace();
        let mut words = words.filter_map(|word| word.split_once('='));
        let (_, at_ns) = words.next().filter(|(key, _)| *key == "at_ns")?;
        let call = |(function, place): (&str, &str)| {
            let (since_ns, thread) = place.split_once(':')?;
            Some(CommunicatorCall {
                function: function.to_owned(),
                since_ns: since_ns.parse().ok()?,
                thread: thread.parse().ok().filter(|thread| *thread != 0),
            })
        };
        Some(InNccl {
            at_ns: at_ns.parse().ok()?,
            calls: words.filter_map(call).collect(),
        })
    }
}

/// What NCCL announced from a moment on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// When the recorder saw it, ns since 1970.
    pub at_ns: i64,
    /// Events that the recorder asks for, as bits of NCCL's profiler.
    pub asked: u32,
    /// Events of these that NCCL did not announce any more; 0 if it announced all again.
    pub missing: u32,
}

impl Mask {
    /// From what stands behind [`MASK`]; `None` if a word is missing or is no number.
    fn parse(text: &str) -> Option<Mask> {
        let word = |name: &str| {
            let words = text.split_ascii_whitespace();
            let mut words = words.filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        Some(Mask {
            at_ns: word("at_ns")?.parse().ok()?,
            asked: word("asked")?.parse().ok()?,
            missing: word("missing")?.parse().ok()?,
        })
    }
}

/// What is known about the set-up of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// Communicators that were made.
    pub inits: Vec<Init>,
    /// What NCCL warned of.
    pub warnings: Vec<Warning>,
    /// What NCCL said of its host.
    pub hosts: BTreeMap<String, HostFacts>,
    /// What was allocated for communicators that can't be told apart, by NCCL's host and pid.
    pub unowned: BTreeMap<(String, u32), Sizes>,
    /// How long the recorder's inits took, ns, all together.
    pub plugin_ns: Option<u64>,
    /// CPUs on which its main thread may run, as the kernel lists them; the newest.
    pub cpus: Option<String>,
    /// How often the driver was called, in the order of time.
    pub counts: Vec<Counts>,
    /// The first calls of the driver that may take long; of one kind and thread in the order of time.
    pub timed_calls: Vec<TimedCall>,
    /// What NCCL counts as the memory of communicators, in the order of time.
    pub comm_memory: Vec<CommMemory>,
    /// Changes of NCCL's activation mask by somebody else, in the order of time.
    pub masks: Vec<Mask>,
    /// Another profiler plugin behind the recorder, if there was to be one.
    pub chain: Option<Chain>,
    /// The threads that were inside of NCCL's functions that make and end communicators; the newest.
    pub in_nccl: InNccl,
}

/// Reads it from blocks, in their order.
#[derive(Clone, Default)]
pub struct Blocks {
    log: Reader,
    plugin_ns: Option<u64>,
    cpus: Option<String>,
    counts: Vec<Counts>,
    timed_calls: Vec<TimedCall>,
    comm_memory: Vec<CommMemory>,
    masks: Vec<Mask>,
    chain: Option<Chain>,
    in_nccl: InNccl,
}

impl Blocks {
    /// Takes the text of the next block.
    pub fn add(&mut self, text: &str) {
        for line in text.lines() {
            match line.strip_prefix(OWN) {
                Some(own) if own.starts_with(CPUS) => {
                    self.cpus = Some(own[CPUS.len()..].trim().to_owned());
                }
                Some(own) if own.starts_with(COUNTS) => {
                    self.counts.extend(Counts::parse(&own[COUNTS.len()..]));
                }
                Some(own) if own.starts_with(TIMED_CALLS) => {
                    let calls = timed_calls::parse(&own[TIMED_CALLS.len()..]);
                    self.timed_calls.extend(calls.into_iter().flatten());
                }
                Some(own) if own.starts_with(COMM_MEMORY) => {
                    let line = CommMemory::parse(&own[COMM_MEMORY.len()..]);
                    self.comm_memory.extend(line);
                }
                Some(own) if own.starts_with(MASK) => {
                    self.masks.extend(Mask::parse(&own[MASK.len()..]));
                }
                Some(own) if own.starts_with(CHAIN) => {
                    self.chain = Chain::parse(&own[CHAIN.len()..]).or(self.chain.take());
                }
                Some(own) if own.starts_with(IN_NCCL) => {
                    let line = InNccl::parse(&own[IN_NCCL.len()..]);
                    if let Some(line) = line.filter(|line| line.at_ns >= self.in_nccl.at_ns) {
                        self.in_nccl = line;
                    }
                }
                Some(own) => {
                    let ns = own.strip_prefix(PLUGIN_INIT);
                    if let Some(ns) = ns.and_then(|ns| ns.parse::<u64>().ok()) {
                        self.plugin_ns = Some(self.plugin_ns.unwrap_or(0).saturating_add(ns));
                    }
                }
                None => self.log.add(line),
            }
        }
    }

    /// What was read.
    pub fn finish(self) -> Setup {
        let said = self.log.finish();
        Setup {
            inits: said.inits,
            warnings: said.warnings,
            hosts: said.hosts,
            unowned: said.unowned,
            plugin_ns: self.plugin_ns,
            cpus: self.cpus,
            counts: self.counts,
            timed_calls: self.timed_calls,
            comm_memory: self.comm_memory,
            masks: self.masks,
            chain: self.chain,
            in_nccl: self.in_nccl,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_recorder_and_of_nccl_are_told_apart() {
        let mut blocks = Blocks::default();
        blocks.add(
            "ncclscope plugin_init_ns=100\nn1:1:2 [0] NCCL INFO Init timings - f: rank 0 nranks 1 ",
        );
        blocks.add("ncclscope mask at_ns=5 asked=6 new=1 missing=2\n");
        blocks.add("ncclscope mask at_ns=5 asked=x missing=2\n");
        blocks
            .add("ncclscope chain refused=not_loaded path=/x.so\nncclscope chain name=A_B abi=5\n");
        blocks.add("ncclscope chain name=A_B abi=5 events=Coll,P2p new=1 path=/a b/x.so\n");
        blocks.add("ncclscope in_nccl at_ns=9 ncclCommSplit=5:77 ncclCommAbort=x new=1\n");
        blocks.add("ncclscope in_nccl at_ns=3\nncclscope in_nccl ncclCommSplit=5:77\n");
        blocks.add("ncclscope plugin_init_ns=50\nncclscope other=1\nncclscope cpus=0-3,8\n");
        blocks.add(
            "n1:1:2 [0] NCCL INFO Init timings - f: rank 0 nranks 1 total 1.00 (kernels 1.00)\n",
        );
        let setup = blocks.finish();
        assert_eq!((setup.plugin_ns, setup.inits.len()), (Some(150), 1));
        assert_eq!(setup.cpus.as_deref(), Some("0-3,8"));
        let mask = Mask {
            at_ns: 5,
            asked: 6,
            missing: 2,
        };
        assert_eq!(setup.masks, [mask]);
        let chain = Chain {
            path: "/a b/x.so".to_owned(),
            name: Some("A_B".to_owned()),
            abi: Some(5),
            events: vec!["Coll".to_owned(), "P2p".to_owned()],
            refused: None,
        };
        assert_eq!(setup.chain, Some(chain));
        let call = CommunicatorCall {
            function: "ncclCommSplit".to_owned(),
            since_ns: 5,
            thread: Some(77),
        };
        assert_eq!(
            setup.in_nccl,
            InNccl {
                at_ns: 9,
                calls: vec![call]
            }
        );
        assert_eq!(Blocks::default().finish(), Setup::default());
    }
}
