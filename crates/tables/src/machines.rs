//! Gives machines with equal host names different ones.
//!
//! Everything that belongs to a machine goes by [`Process::host`] in reports: clocks above all. Virtual machines
//! and containers of several nodes often have one host name. The boot id tells them apart, so [`name`] appends the
//! beginning of it to each name that several machines have.
//!
//! Rule: two processes with known boot ids have equal hosts only if they ran on one boot of one machine.

use crate::process::Process;
use std::collections::{BTreeMap, BTreeSet};

/// Digits of the boot id that are appended; more if these are equal.
const DIGITS: usize = 4;

/// Makes the hosts of processes unique by machine.
pub(crate) fn name(processes: &mut [Process]) {
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
    fn a_process_that_knows_no_boot_id_keeps_its_name() {
        let known = [("node", "aaaa-1"), ("node", "bbbb-2"), ("node", "")];
        assert_eq!(named(&known), ["node#aaaa", "node#bbbb", "node"]);
    }
}
