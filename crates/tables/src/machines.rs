//! Gives machines with equal host names different ones, and containers on one machine one clock.
//!
//! Everything that belongs to a host goes by [`Process::host`] in reports. Virtual machines
//! and containers of several nodes often have one host name. The boot id tells them apart, so [`name`]
//! appends the beginning of it to each name that several machines have. The other way round, containers on
//! one machine have different names, and the machine's clock: they go by the first of them there
//! ([`Process::clock_host`]).
//!
//! Rule: two processes with known boot ids have equal hosts only if they ran on one boot of one machine.
//! Hosts have one clock only if their boot is the same, and what their processes read of its clocks agrees.

use crate::process::Process;
use std::collections::{BTreeMap, BTreeSet};

/// Digits of the boot id that are appended; more if these are equal.
const DIGITS: usize = 4;

/// Makes the hosts of processes unique by machine, and finds those that have one clock.
pub(crate) fn name(processes: &mut [Process]) {
    distinguish(processes);
    unite(processes);
}

/// Says which hosts have the clock of another.
fn unite(processes: &mut [Process]) {
    // By boot, its hosts by first process, each with the first host that has the same clock.
    let mut boots: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    let mut same: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, process) in processes.iter().enumerate() {
        let Some(boot) = process.fact("boot_id") else {
            continue;
        };
        let hosts = boots.entry(boot).or_default();
        let first = |&&(first, _): &&(usize, usize)| processes[first].host == process.host;
        let clock = hosts.iter().find(first).or_else(|| {
            let is_one =
                |&&(other, _): &&(usize, usize)| processes[other].clock.is_one_with(&process.clock);
            hosts.iter().find(is_one)
        });
        let clock = clock.map_or(index, |(_, clock)| *clock);
        if !hosts
            .iter()
            .any(|(first, _)| processes[*first].host == process.host)
        {
            hosts.push((index, clock));
        }
        same.insert(index, clock);
    }
    for (index, clock) in same {
        if processes[clock].host != processes[index].host {
            processes[index].same_clock_as = Some(processes[clock].host.clone());
        }
    }
}

/// Makes the hosts of processes unique by machine.
fn distinguish(processes: &mut [Process]) {
    let mut boots: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for process in processes.iter() {
        if let Some(boot) = process.fact("boot_id") {
            let of = boots.entry(process.host.clone()).or_default();
            of.insert(boot.to_owned());
        }
    }
    for process in processes {
        let Some(boots) = boots.get(&process.host).filter(|boots| boots.len() > 1) else {
            continue;
        };
        if let Some(boot) = process.fact("boot_id") {
            let host = format!("{}#{}", process.host, shortest(boot, boots));
            process.host = host;
        }
    }
}

/// The beginning of a boot id that no other has, of four digits or more.
fn shortest<'b>(boot: &'b str, boots: &BTreeSet<String>) -> &'b str {
    let ends = boot.char_indices().map(|(at, _)| at).skip(DIGITS);
    let mut beginnings = ends.map(|end| &boot[..end]);
    let unique = |beginning: &&str| {
        boots
            .iter()
            .filter(|other| other.starts_with(*beginning))
            .count()
            == 1
    };
    beginnings.find(unique).unwrap_or(boot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Anchor, Clock};
    use capture::rows::Ticks;

    fn named(processes: &[(&str, &str)]) -> Vec<String> {
        let process = |(host, boot): &(&str, &str)| Process {
            host: (*host).to_owned(),
            facts: BTreeMap::from([("boot_id".to_owned(), (*boot).to_owned())]),
            ..Process::default()
        };
        let mut processes: Vec<Process> = processes.iter().map(process).collect();
        name(&mut processes);
        processes.into_iter().map(|process| process.host).collect()
    }

    #[test]
    fn machines_with_one_name_get_the_beginning_of_their_boot_ids() {
        let same = [("node", "aaaa-1"), ("node", "aaaa-1"), ("other", "bbbb-2")];
        assert_eq!(named(&same), ["node", "node", "other"]);
        let different = [("node", "aaaa-1"), ("node", "bbbb-2"), ("node", "aaaa-1")];
        assert_eq!(named(&different), ["node#aaaa", "node#bbbb", "node#aaaa"]);
        let alike = [("node", "aaaa-11"), ("node", "aaaa-12")];
        assert_eq!(named(&alike), ["node#aaaa-11", "node#aaaa-12"]);
    }

    #[test]
    fn containers_on_one_machine_have_one_clock() {
        // Name, boot, and by how much the wall clock is ahead of the monotonic one.
        let of = |processes: &[(&str, &str, u64)]| -> Vec<String> {
            let process = |(host, boot, ahead): &(&str, &str, u64)| Process {
                host: (*host).to_owned(),
                facts: BTreeMap::from([("boot_id".to_owned(), (*boot).to_owned())]),
                clock: Clock::new(
                    [5, 9].map(|ticks| Anchor {
                        ticks: Ticks(ticks),
                        realtime: 1000 * ticks + ahead,
                        monotonic: 1000 * ticks,
                    }),
                    true,
                ),
                ..Process::default()
            };
            let mut processes: Vec<Process> = processes.iter().map(process).collect();
            name(&mut processes);
            let clocks = processes.iter().map(|p| p.clock_host().to_owned());
            clocks.collect()
        };
        const DAY: u64 = 86_400_000_000_000;
        let containers = [
            ("c1", "aa", DAY),
            ("c2", "aa", DAY + 300),
            ("c1", "aa", DAY + 50_000),
        ];
        assert_eq!(of(&containers), ["c1", "c1", "c1"]);
        // Another machine's clock may be as far ahead; and a container may have a clock of its own.
        let machines = [
            ("c1", "aa", DAY),
            ("c2", "bb", DAY),
            ("c3", "aa", DAY + 70_000),
        ];
        assert_eq!(of(&machines), ["c1", "c2", "c3"]);
        assert_eq!(of(&[("c1", "", DAY), ("c2", "", DAY)]), ["c1", "c2"]);
    }

    #[test]
    fn a_process_that_knows_no_boot_id_keeps_its_name() {
        let known = [("node", "aaaa-1"), ("node", "bbbb-2"), ("node", "")];
        assert_eq!(named(&known), ["node#aaaa", "node#bbbb", "node"]);
    }
}
