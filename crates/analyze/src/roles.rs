//! What a communicator is for, so that communicators of two runs can be set side by side.
//!
//! NCCL's hash is another one in every run. A [`Role`] is what stays: name, ranks, nodes, and which of the
//! job's ranks are members, relative to the first. The eight tensor-parallel groups of a job are one role,
//! and its data-parallel groups are another. Communicators that live at the same time with the very same
//! members are different roles (the first, the second, …). One that is made anew after its predecessor has
//! ended keeps the role. [`align`] pairs the roles of two runs, by all of this first and by less where that
//! finds no partner, and says by what.
//!
//! Rule: a role has at most one partner, and the same two captures always give the same pairs.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use tables::{Capture, Communicator};

/// Communicators of one run that do the same job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Name given by the program.
    pub name: Option<String>,
    /// Ranks.
    pub nranks: Option<u32>,
    /// Nodes.
    pub nnodes: Option<u32>,
    /// Launcher's ranks of the members relative to the first's, by rank in the communicator; nothing when not
    /// known.
    pub pattern: Option<Vec<i64>>,
    /// How many communicators with the same members lived when this one was made.
    pub nth: usize,
    /// Launcher's ranks of the members of one of its communicators: the one with the lowest.
    pub members: Vec<u32>,
    /// Its communicators by first use, as indexes into the capture.
    pub communicators: Vec<usize>,
}

/// The roles of a capture by first use, and the role of each of its communicators.
pub fn roles(capture: &Capture) -> (Vec<Role>, Vec<usize>) {
    let mut roles: Vec<Role> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    // Ends of the communicators with the same members; nothing while one lives.
    let mut same: HashMap<_, Vec<Option<i64>>> = HashMap::new();
    let mut of_communicator = Vec::new();
    for (index, c) in capture.communicators.iter().enumerate() {
        let processes = || {
            c.members
                .iter()
                .filter_map(|m| capture.processes.get(m.process))
        };
        let members: Option<Vec<u32>> = processes().map(|p| p.rank).collect();
        let restart = processes().next().map_or(0, |p| p.restart);
        let slots = same
            .entry((restart, c.name.clone(), c.nranks, members.clone()))
            .or_default();
        let free = slots
            .iter()
            .position(|end| matches!((end, c.created_ns), (Some(end), Some(made)) if *end <= made));
        let nth = free.unwrap_or(slots.len());
        match slots.get_mut(nth) {
            Some(slot) => *slot = ended(capture, c),
            None => slots.push(ended(capture, c)),
        }
        let pattern = members.as_ref().map(|members| {
            let first = members.first().copied().unwrap_or(0);
            members
                .iter()
                .map(|m| i64::from(*m) - i64::from(first))
                .collect::<Vec<i64>>()
        });
        let key = (c.name.clone(), c.nranks, c.nnodes, pattern.clone(), nth);
        let mut lowest = members;
        let role = match known.entry(key) {
            Entry::Occupied(role) => {
                lowest = lowest.filter(|members| *members < roles[*role.get()].members);
                *role.get()
            }
            Entry::Vacant(new) => {
                roles.push(Role {
                    name: c.name.clone(),
                    nranks: c.nranks,
                    nnodes: c.nnodes,
                    pattern,
                    nth,
                    members: Vec::new(),
                    communicators: Vec::new(),
                });
                *new.insert(roles.len() - 1)
            }
        };
        if let Some(members) = lowest {
            roles[role].members = members;
        }
        roles[role].communicators.push(index);
        of_communicator.push(role);
    }
    (roles, of_communicator)
}

/// When the last member left a communicator.
fn ended(capture: &Capture, communicator: &Communicator) -> Option<i64> {
    let ends = communicator.members.iter().map(|member| {
        let process = capture.processes.get(member.process)?;
        process.communicator(member.uid)?.ended_ns
    });
    ends.collect::<Option<Vec<i64>>>()?.into_iter().max()
}

/// A role of A, a role of B, or both, and by what they were paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index into A's roles.
    pub a: Option<usize>,
    /// Index into B's roles.
    pub b: Option<usize>,
    /// What they have in common; nothing for one without a partner.
    pub by: Option<&'static str>,
}

type Key<'a> = (
    Option<&'a str>,
    Option<u32>,
    Option<u32>,
    Option<&'a [i64]>,
    usize,
);
/// What is said of a pair, and what must agree for it.
type Pass = (&'static str, fn(&Role) -> Key<'_>);
/// What must agree, strictest first. The last two leave the order of first use to decide.
const PASSES: [Pass; 5] = [
    ("name, ranks, nodes, members", |r| {
        (
            r.name.as_deref(),
            r.nranks,
            r.nnodes,
            r.pattern.as_deref(),
            r.nth,
        )
    }),
    ("name, ranks, members", |r| {
        (
            r.name.as_deref(),
            r.nranks,
            None,
            r.pattern.as_deref(),
            r.nth,
        )
    }),
    ("ranks, members", |r| {
        (None, r.nranks, None, r.pattern.as_deref(), r.nth)
    }),
    ("name, ranks, order of first use", |r| {
        (r.name.as_deref(), r.nranks, None, None, 0)
    }),
    ("ranks, order of first use", |r| {
        (None, r.nranks, None, None, 0)
    }),
];

/// Pairs the roles of two runs: A's in their order, then those that only B has.
pub fn align(a: &[Role], b: &[Role]) -> Vec<Pair> {
    let mut partner: Vec<Option<(usize, &'static str)>> = vec![None; a.len()];
    let mut taken = vec![false; b.len()];
    for (by, key) in PASSES {
        let mut free: HashMap<Key<'_>, Vec<usize>> = HashMap::new();
        for (index, role) in b.iter().enumerate().rev().filter(|(i, _)| !taken[*i]) {
            free.entry(key(role)).or_default().push(index);
        }
        for (role, partner) in a.iter().zip(&mut partner).filter(|(_, p)| p.is_none()) {
            if let Some(index) = free.get_mut(&key(role)).and_then(Vec::pop) {
                *partner = Some((index, by));
                taken[index] = true;
            }
        }
    }
    let of_a = partner.iter().enumerate().map(|(a, partner)| Pair {
        a: Some(a),
        b: partner.map(|(b, _)| b),
        by: partner.map(|(_, by)| by),
    });
    let only_b = (0..b.len()).filter(|b| !taken[*b]).map(|b| Pair {
        a: None,
        b: Some(b),
        by: None,
    });
    of_a.chain(only_b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::communicators::{Local, Member};
    use tables::Process;

    /// A job of four ranks with communicators of (hash, members, made, ended).
    fn capture(communicators: &[(u64, &[u32], i64, Option<i64>)]) -> Capture {
        let mut capture = Capture {
            processes: (0..4)
                .map(|rank| Process {
                    rank: Some(rank),
                    ..Process::default()
                })
                .collect(),
            ..Capture::default()
        };
        for (hash, members, made, ended) in communicators {
            let uid = capture.communicators.len() as u32 + 1;
            for process in *members {
                capture.processes[*process as usize]
                    .communicators
                    .push(Local {
                        uid,
                        ended_ns: *ended,
                        ..Local::default()
                    });
            }
            capture.communicators.push(Communicator {
                id: format!("{hash:016x}"),
                hash: *hash,
                nranks: Some(members.len() as u32),
                nnodes: Some(1),
                name: None,
                members: members
                    .iter()
                    .map(|process| Member {
                        process: *process as usize,
                        uid,
                        rank: None,
                    })
                    .collect(),
                created_ns: Some(*made),
                parent: None,
            });
        }
        capture
    }

    const WORLD: &[u32] = &[0, 1, 2, 3];

    #[test]
    fn groups_side_by_side_are_one_role_and_groups_across_another() {
        let job = capture(&[
            (1, WORLD, 10, None),
            (2, &[0, 1], 20, None),
            (3, &[2, 3], 21, None),
            (4, &[0, 2], 30, None),
            (5, &[1, 3], 31, None),
        ]);
        let (roles, of) = roles(&job);
        assert_eq!(of, [0, 1, 1, 2, 2]);
        assert_eq!(roles[1].communicators, [1, 2]);
        assert_eq!(
            (roles[2].members.as_slice(), roles[2].nth),
            (&[0, 2][..], 0)
        );
    }

    #[test]
    fn one_made_anew_keeps_the_role_and_a_second_at_a_time_has_its_own() {
        let job = capture(&[
            (1, WORLD, 10, Some(20)),
            (1, WORLD, 30, Some(60)),
            (2, WORLD, 40, None),
        ]);
        assert_eq!(roles(&job).1, [0, 0, 1]);
    }

    #[test]
    fn roles_are_paired_by_what_they_have_most_in_common() {
        let named = |name: &str, nranks: u32, nnodes: u32| Role {
            name: Some(name.to_owned()),
            nranks: Some(nranks),
            nnodes: Some(nnodes),
            pattern: Some((0..i64::from(nranks)).collect()),
            ..Role::default()
        };
        let a = [
            named("tp", 2, 1),
            named("dp", 4, 1),
            named("old", 8, 1),
            named("gone", 3, 1),
        ];
        let b = [
            named("new", 8, 1),
            named("dp", 4, 2),
            named("tp", 2, 1),
            named("more", 5, 1),
        ];
        let pairs: Vec<_> = align(&a, &b)
            .into_iter()
            .map(|p| (p.a, p.b, p.by))
            .collect();
        assert_eq!(
            pairs,
            [
                (Some(0), Some(2), Some("name, ranks, nodes, members")),
                (Some(1), Some(1), Some("name, ranks, members")),
                (Some(2), Some(0), Some("ranks, members")),
                (Some(3), None, None),
                (None, Some(3), None),
            ]
        );
        // Members differ: the order of first use decides.
        let split = |stride: i64| Role {
            nranks: Some(2),
            pattern: Some(vec![0, stride]),
            ..Role::default()
        };
        let pairs = align(&[split(1), split(2)], &[split(4), split(8)]);
        let by = Some("name, ranks, order of first use");
        assert_eq!(
            pairs[0],
            Pair {
                a: Some(0),
                b: Some(0),
                by
            }
        );
        assert_eq!(
            pairs[1],
            Pair {
                a: Some(1),
                b: Some(1),
                by
            }
        );
    }
}
