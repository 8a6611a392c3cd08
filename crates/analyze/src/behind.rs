//! Another profiler plugin behind the recorder (`NCCLSCOPE_CHAIN`): what it got, and whether a process ended
//! inside of it.
//!
//! Rule: that a thread was inside the other plugin is a fact of the live part. It proves no fault, because a
//! process may be killed at any moment. So it is told, and nobody is blamed.

use crate::spelling::ranges;
use std::collections::BTreeMap;
use tables::{Capture, LiveSource, Process};

/// That a process was inside the other plugin when it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// As the user named the plugin's library.
    pub path: String,
    /// Threads inside of it.
    pub threads: u32,
    /// The thread that entered it last.
    pub newest: u32,
}

impl Inside {
    /// As it follows a process's name.
    pub fn words(&self) -> String {
        let Inside {
            path,
            threads,
            newest,
        } = self;
        let what = match threads {
            1 => format!("one thread ({newest})"),
            n => format!("{n} threads (the newest is {newest})"),
        };
        format!("{what} was inside the profiler plugin `{path}` of NCCLSCOPE_CHAIN")
    }
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
        path: path().unwrap_or("of an unknown path").to_owned(),
        threads,
        newest,
    })
}

/// What there is to say about other plugins, a sentence each.
pub fn sentences(capture: &Capture) -> Vec<String> {
    let mut alike: BTreeMap<String, Vec<&Process>> = BTreeMap::new();
    for process in &capture.processes {
        let chain = process.setup.chain.as_ref();
        for sentence in chain.map(of_chain).unwrap_or_default() {
            alike.entry(sentence).or_default().push(process);
        }
    }
    let told = alike
        .into_iter()
        .map(|(sentence, of)| sentence.replace(WHO, &who(&of)));
    let mut all: Vec<String> = told.collect();
    for process in &capture.processes {
        let errors = process.counters.as_ref().map_or(0, |c| c.chain[2]);
        if errors > 0 {
            let who = who(&[process]);
            let calls = if errors == 1 { "call" } else { "calls" };
            all.push(format!(
                "The other profiler plugin of {who} returned an error for {errors} {calls}."
            ));
        }
    }
    all.extend(inside_sentences(capture));
    all
}

/// Which processes were inside the other plugin, a sentence each.
pub fn inside_sentences(capture: &Capture) -> Vec<String> {
    let sentence = |process: &Process| {
        let when = match process.live {
            LiveSource::Here => "at this moment",
            _ => "at its end, or when it was last seen",
        };
        let (who, inside) = (who(&[process]), inside(process)?);
        Some(format!("Of {who}, {} {when}.", inside.words()))
    };
    capture.processes.iter().filter_map(sentence).collect()
}

/// Stands for the ranks in a sentence.
const WHO: &str = "\u{0}";

fn of_chain(chain: &setup::recorded::Chain) -> Vec<String> {
    let path = &chain.path;
    let mut all = Vec::new();
    if let Some(name) = &chain.name {
        let asked = if chain.events.is_empty() {
            "no events".to_owned()
        } else {
            chain.events.join(", ")
        };
        let abi = chain
            .abi
            .map_or(String::new(), |abi| format!(", ABI v{abi}"));
        all.push(format!(
            "Another profiler plugin ran behind ncclscope on {WHO}: {name} (`{path}`{abi}). It asked for \
            {asked}. What it cost is a part of the job's times, and no part of what recording cost."
        ));
    }
    if let Some(refused) = &chain.refused {
        let why = match &**refused {
            "not_loaded" => "it could not be loaded",
            "no_table" => "it has no table of a version that fits this NCCL",
            "half_a_table" => "its table has null entries",
            "is_ncclscope" => "it is ncclscope itself",
            "other_version" => "the process has two releases of NCCL",
            "init_failed" => "its init returned an error",
            other => other,
        };
        let what = match chain.name {
            Some(_) => "did not get all events",
            None => "got no events",
        };
        all.push(format!(
            "The profiler plugin `{path}` of NCCLSCOPE_CHAIN {what} on {WHO}: {why}."
        ));
    }
    all
}

fn who(of: &[&Process]) -> String {
    let numbers: Option<Vec<u32>> = of.iter().map(|process| process.rank).collect();
    match (numbers, of) {
        (Some(numbers), [one]) => format!("rank {} (pid {} on {})", numbers[0], one.pid, one.host),
        (Some(numbers), _) => format!("ranks {}", ranges(numbers)),
        (None, [one]) => format!("pid {} on {}", one.pid, one.host),
        (None, _) => format!("{} processes", of.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use setup::recorded::Chain;

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
        assert_eq!(
            sentences(&capture),
            [
                "Another profiler plugin ran behind ncclscope on ranks 0-2: Inspector (`/x.so`, ABI v5). It \
                asked for Coll, KernelCh. What it cost is a part of the job's times, and no part of what \
                recording cost.",
                "The profiler plugin `/y.so` of NCCLSCOPE_CHAIN got no events on rank 3 (pid 73 on n1): it \
                has no table of a version that fits this NCCL.",
                "The other profiler plugin of rank 1 (pid 71 on n1) returned an error for 3 calls.",
                "Of rank 1 (pid 71 on n1), one thread (7) was inside the profiler plugin `/x.so` of \
                NCCLSCOPE_CHAIN at its end, or when it was last seen.",
            ]
        );
    }
}
