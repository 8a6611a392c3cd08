//! Another profiler plugin behind the recorder (`NCCLSCOPE_CHAIN`): what it got, and whether a process ended
//! inside of it.
//!
//! Rule: that a thread was inside the other plugin is a fact of the live part. It proves no fault, because a
//! process may be killed at any moment. So a row has it, and nobody is blamed.

use crate::subject::ProcessId;
use crate::subject::RankId;
use setup::recorded::Chain;
use std::collections::BTreeMap;
use tables::{Capture, LiveSource, Process};

/// What is known of another plugin and some processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Of these processes.
    pub processes: Vec<RankId>,
    /// What.
    pub what: What,
}

/// What is known of another plugin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// It ran behind the recorder.
    Ran {
        /// As it calls itself.
        name: String,
        /// As the user named its library.
        path: String,
        /// The version of its table.
        abi: Option<u8>,
        /// Events that NCCL was asked for on its behalf.
        events: Vec<String>,
    },
    /// It was refused events.
    Refused {
        /// As the user named its library.
        path: String,
        /// It got no events at all; else it did not get those of some communicators.
        got_none: bool,
        /// Why, in the recorder's word.
        why: String,
    },
    /// It returned so many errors.
    Errors(u32),
    /// A process was inside of it when it was last seen.
    Inside {
        /// How.
        inside: Inside,
        /// Its live part is that of this moment.
        is_now: bool,
    },
}

/// That a process was inside the other plugin when it was last seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inside {
    /// As the user named the plugin's library; `None` if nothing says it.
    pub path: Option<String>,
    /// Threads inside of it.
    pub threads: u32,
    /// The thread that entered it last.
    pub newest: u32,
}

/// Whether a process was inside the other plugin when it was last seen. A process that ended as it should is
/// not asked.
pub fn inside(process: &Process) -> Option<Inside> {
    let counters = process.counters.as_ref()?;
    let [threads, newest, _] = counters.chain;
    let path = || {
        let told = process.setup.chain.as_ref().map(|chain| &*chain.path);
        // It may have died before the recorder's thread could write.
        told.or_else(|| process.fact("env.NCCLSCOPE_CHAIN"))
    };
    (threads > 0 && counters.state != 1).then(|| Inside {
        path: path().map(str::to_owned),
        threads,
        newest,
    })
}

/// All that is known of other plugins. Processes with the same plugin have one row.
pub fn rows(capture: &Capture) -> Vec<Behind> {
    let mut alike: BTreeMap<What, Vec<RankId>> = BTreeMap::new();
    for process in &capture.processes {
        for what in process.setup.chain.iter().flat_map(of_chain) {
            alike.entry(what).or_default().push(id(process));
        }
    }
    let alike = alike.into_iter();
    let mut all: Vec<Behind> = alike
        .map(|(what, processes)| Behind { processes, what })
        .collect();
    for process in &capture.processes {
        let errors = process.counters.as_ref().map_or(0, |c| c.chain[2]);
        if errors > 0 {
            all.push(Behind {
                processes: vec![id(process)],
                what: What::Errors(errors),
            });
        }
    }
    all.extend(insides(capture));
    all
}

/// Which processes were inside the other plugin, a row each.
pub fn insides(capture: &Capture) -> Vec<Behind> {
    let row = |process: &Process| {
        Some(Behind {
            processes: vec![id(process)],
            what: What::Inside {
                inside: inside(process)?,
                is_now: process.live == LiveSource::Here,
            },
        })
    };
    capture.processes.iter().filter_map(row).collect()
}

fn of_chain(chain: &Chain) -> Vec<What> {
    let ran = chain.name.clone().map(|name| What::Ran {
        name,
        path: chain.path.clone(),
        abi: chain.abi,
        events: chain.events.clone(),
    });
    let refused = chain.refused.clone().map(|why| What::Refused {
        path: chain.path.clone(),
        got_none: chain.name.is_none(),
        why,
    });
    ran.into_iter().chain(refused).collect()
}

fn id(process: &Process) -> RankId {
    RankId::new(ProcessId::of(process), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(rank: u32, chain: Chain, counters: [u32; 3], state: u32) -> Process {
        let mut process = Process {
            rank: Some(rank),
            host: "n1".to_owned(),
            pid: 70 + rank,
            counters: Some(tables::process::Counters {
                chain: counters,
                state,
                ..Default::default()
            }),
            ..Process::default()
        };
        process.setup.chain = Some(chain);
        process
    }

    #[test]
    fn plugins_are_named_once_and_deaths_inside_of_them_for_each_process() {
        let chain = Chain {
            path: "/x.so".to_owned(),
            name: Some("Inspector".to_owned()),
            abi: Some(5),
            events: vec!["Coll".to_owned(), "KernelCh".to_owned()],
            refused: None,
        };
        let refused = Chain {
            path: "/y.so".to_owned(),
            refused: Some("no_table".to_owned()),
            ..Chain::default()
        };
        let capture = Capture {
            processes: vec![
                process(0, chain.clone(), [0, 7, 0], 0),
                process(1, chain.clone(), [1, 7, 3], 0),
                // It ended as it should.
                process(2, chain, [1, 7, 0], 1),
                process(3, refused, [0; 3], 0),
            ],
            ..Capture::default()
        };
        let rows = rows(&capture);
        let whats: Vec<(Vec<Option<u32>>, &What)> = rows
            .iter()
            .map(|row| {
                (
                    row.processes.iter().map(|of| of.process.rank).collect(),
                    &row.what,
                )
            })
            .collect();
        let [(all, What::Ran { name, .. }), (third, What::Refused { got_none, .. }), errors, inside] =
            &whats[..]
        else {
            panic!("{rows:?}");
        };
        assert_eq!(
            (&all[..], &**name),
            (&[Some(0), Some(1), Some(2)][..], "Inspector")
        );
        assert_eq!((&third[..], *got_none), (&[Some(3)][..], true));
        assert_eq!(*errors, (vec![Some(1)], &What::Errors(3)));
        let (threads, newest) = (1, 7);
        let path = Some("/x.so".to_owned());
        let is_inside = What::Inside {
            inside: Inside {
                path,
                threads,
                newest,
            },
            is_now: false,
        };
        assert_eq!(*inside, (vec![Some(1)], &is_inside));
    }
}
