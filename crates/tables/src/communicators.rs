//! Which communicators of different processes are one.
//!
//! Every process tells its own view, a [`Local`]; those that belong together become one [`Communicator`].
//! They share NCCL's hash, the size, the generation (how often their process had that rank of that hash
//! before) and the restart of the job, and have different ranks. A hash comes back when a communicator is
//! made anew or shrunk twice. So views with ranks that clash, or that begin after all others have ended, are
//! another communicator.
//!
//! Rule: an id names one communicator of the capture, over hosts and time.

use crate::lineage;
use crate::process::Process;
use std::collections::{HashMap, HashSet};

/// A communicator as one process sees it. 0, and for a rank or device nothing, stands for "not known".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// Its number in the process.
    pub uid: u32,
    /// ABI version that NCCL chose.
    pub abi: u32,
    /// NCCL's commId or commHash.
    pub hash: u64,
    /// Ranks.
    pub nranks: u32,
    /// Nodes.
    pub nnodes: u32,
    /// The process's rank in it.
    pub rank: Option<u32>,
    /// How many communicators with this hash, size and rank the process had before.
    pub generation: u32,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// The GPU's UUID as 32 hex digits.
    pub gpu: Option<String>,
    /// Name given by the program.
    pub name: Option<String>,
    /// The thread that made it, by Linux's number.
    pub thread: Option<u32>,
    /// Made at, ns since 1970.
    pub created_ns: Option<i64>,
    /// Ended at, ns since 1970; nothing while it lives.
    pub ended_ns: Option<i64>,
}

/// The first with this number. Recorders give numbers out in order, so it is found without a search through
/// all, if it is there.
pub(crate) fn with_uid(all: &[Local], uid: u32) -> Option<&Local> {
    let at = all.partition_point(|local| local.uid < uid);
    let found = all.get(at).filter(|local| local.uid == uid);
    found.or_else(|| all.iter().find(|local| local.uid == uid))
}

/// One rank of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Index of the process in the capture.
    pub process: usize,
    /// The communicator's number in that process.
    pub uid: u32,
    /// Its rank; nothing below ABI v4.
    pub rank: Option<u32>,
}

/// Where a communicator came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Index of the parent in the capture.
    pub communicator: usize,
    /// Why it is the parent.
    pub evidence: String,
}

/// A communicator of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Communicator {
    /// The hash as hex, with `#2` and so on for later ones with the same hash.
    pub id: String,
    /// NCCL's hash; 0 when not known.
    pub hash: u64,
    /// Ranks, if it is known which views belong together.
    pub nranks: Option<u32>,
    /// Nodes, if known.
    pub nnodes: Option<u32>,
    /// Name given by the program.
    pub name: Option<String>,
    /// Ranks that the capture holds, by rank.
    pub members: Vec<Member>,
    /// Made at, ns since 1970, on the first rank.
    pub created_ns: Option<i64>,
    /// The communicator it was split or shrunk from, where that is proved.
    pub parent: Option<Parent>,
}

/// An instance under construction.
struct Instance {
    key: (u64, u32, u32, u32),
    locals: Vec<(usize, Local)>,
    /// Its known ranks.
    ranks: HashSet<u32>,
    /// Its processes, and those whose rank is not known.
    processes: HashSet<usize>,
    unranked: HashSet<usize>,
    all_ended: bool,
    last_ended: Option<i64>,
}

impl Instance {
    fn new(key: (u64, u32, u32, u32)) -> Instance {
        Instance {
            key,
            locals: Vec::new(),
            ranks: HashSet::new(),
            processes: HashSet::new(),
            unranked: HashSet::new(),
            all_ended: true,
            last_ended: None,
        }
    }

    fn takes(&self, process: usize, local: &Local) -> bool {
        let clash = match local.rank {
            Some(rank) => self.ranks.contains(&rank) || self.unranked.contains(&process),
            None => self.processes.contains(&process),
        };
        // Where ranks are not known, time has to tell. (Ranks of one communicator live at the same time, but
        // their hosts' clocks need not agree, so ranks are the better witness.)
        let over = local.rank.is_none()
            && self.all_ended
            && matches!((self.last_ended, local.created_ns), (Some(end), Some(begin)) if begin > end);
        !clash && !over
    }

    fn put(&mut self, process: usize, local: &Local) {
        match local.rank {
            Some(rank) => self.ranks.insert(rank),
            None => self.unranked.insert(process),
        };
        self.processes.insert(process);
        self.all_ended &= local.ended_ns.is_some();
        self.last_ended = self.last_ended.max(local.ended_ns);
        self.locals.push((process, local.clone()));
    }
}

/// How many communicators with its hash, size and rank a process had before each of its own. Counted here
/// rather than read, because below ABI v4 the recorder learns hash and rank after it has numbered them.
fn generations(processes: &[Process]) -> HashMap<(usize, u32), u32> {
    let mut generations = HashMap::new();
    for (p, process) in processes.iter().enumerate() {
        let mut locals: Vec<&Local> = process.communicators.iter().collect();
        locals.sort_by_key(|l| l.uid);
        let mut seen = HashMap::new();
        for local in locals {
            let before = seen
                .entry((local.hash, local.nranks, local.rank))
                .or_insert(0);
            generations.insert((p, local.uid), *before);
            *before += 1;
        }
    }
    generations
}

/// The communicators of all processes, and where the process's own numbers lead.
pub(crate) fn unite(processes: &[Process]) -> (Vec<Communicator>, HashMap<(usize, u32), usize>) {
    let mut locals: Vec<(usize, &Local)> = processes
        .iter()
        .enumerate()
        .flat_map(|(p, process)| process.communicators.iter().map(move |l| (p, l)))
        .collect();
    let generations = generations(processes);
    let generation = |p: usize, l: &Local| generations[&(p, l.uid)];
    locals.sort_by_key(|(p, l)| (l.created_ns, generation(*p, l), *p, l.uid));
    let mut instances: Vec<Instance> = Vec::new();
    let mut by_key: HashMap<_, Vec<usize>> = HashMap::new();
    for (process, local) in locals {
        let key = (
            local.hash,
            local.nranks,
            generation(process, local),
            processes[process].restart,
        );
        let known = by_key.entry(key).or_default();
        // Without a hash nothing ties the views of two processes together.
        let tied = (local.hash != 0).then_some(&known[..]);
        let mut tied = tied.unwrap_or_default().iter().copied();
        let index = tied
            .find(|i| instances[*i].takes(process, local))
            .unwrap_or_else(|| {
                instances.push(Instance::new(key));
                known.push(instances.len() - 1);
                instances.len() - 1
            });
        instances[index].put(process, local);
    }
    let mut seen: HashMap<u64, u32> = HashMap::new();
    let mut united = HashMap::new();
    let mut communicators: Vec<Communicator> = instances
        .into_iter()
        .enumerate()
        .map(|(index, mut instance)| {
            instance
                .locals
                .sort_by_key(|(process, local)| (local.rank, *process, local.uid));
            let (hash, nranks, ..) = instance.key;
            let nth = seen.entry(hash).and_modify(|n| *n += 1).or_insert(1);
            let base = if hash == 0 {
                "unknown".to_owned()
            } else {
                format!("{hash:016x}")
            };
            let known = |n: u32| (n != 0).then_some(n);
            let locals = &instance.locals;
            Communicator {
                id: if *nth == 1 {
                    base
                } else {
                    format!("{base}#{nth}")
                },
                hash,
                // Without a hash the others may be here, as communicators of their own: none is missing.
                nranks: known(nranks).filter(|n| hash != 0 || *n == 1),
                nnodes: locals.iter().find_map(|(_, l)| known(l.nnodes)),
                name: locals.iter().find_map(|(_, l)| l.name.clone()),
                created_ns: locals.iter().filter_map(|(_, l)| l.created_ns).min(),
                members: locals
                    .iter()
                    .map(|(process, local)| {
                        united.insert((*process, local.uid), index);
                        Member {
                            process: *process,
                            uid: local.uid,
                            rank: local.rank,
                        }
                    })
                    .collect(),
                parent: None,
            }
        })
        .collect();
    name_parents(&mut communicators);
    (communicators, united)
}

/// How many ranks of a communicator each process has, by process.
fn ranks_by_process(of: &Communicator) -> Vec<(usize, u32)> {
    let mut processes: Vec<usize> = of.members.iter().map(|member| member.process).collect();
    processes.sort_unstable();
    let same = processes.chunk_by(|a, b| a == b);
    same.map(|same| (same[0], same.len() as u32)).collect()
}

/// Whether each process has at least as many ranks in `parent` as in `child`; and how many were compared.
fn holds(parent: &[(usize, u32)], child: &[(usize, u32)]) -> (bool, u64) {
    let mut compared = 1;
    let holds = child.iter().all(|(process, ranks)| {
        compared += 1;
        let at = parent.binary_search_by_key(process, |(process, _)| *process);
        at.is_ok_and(|at| parent[at].1 >= *ranks)
    });
    (holds, compared)
}

/// Bound on the comparisons of a child with a possible parent, over a capture: 1000 communicators are all
/// compared with each other. With more, each is compared with an equal share of the others.
const MOST_COMPARED: u64 = 1 << 20;

/// Names the parents that are proved. Possible parents of a communicator are tried from the one with most
/// ranks on, because most are split off the largest, and each hash once.
fn name_parents(communicators: &mut [Communicator]) {
    let ranks: Vec<Vec<(usize, u32)>> = communicators.iter().map(ranks_by_process).collect();
    let mut largest: Vec<usize> = (0..communicators.len()).collect();
    largest.retain(|p| communicators[*p].hash != 0);
    largest.sort_by_key(|p| (std::cmp::Reverse(communicators[*p].nranks), *p));
    // One communicator that is made again and again has one hash.
    let mut seen = HashSet::new();
    let (first, again): (Vec<usize>, Vec<usize>) = largest.into_iter().partition(|p| {
        let of = &communicators[*p];
        seen.insert((of.hash, of.nranks))
    });
    let share = MOST_COMPARED / (first.len() + again.len()).max(1) as u64;
    let mut pairs = Vec::new();
    for (c, child) in communicators.iter().enumerate() {
        if child.hash == 0 {
            continue;
        }
        let mut left = share.max(8);
        let mut hashes = HashSet::new();
        let large = |list: &'_ [usize]| -> usize {
            list.partition_point(|p| communicators[*p].nranks >= child.nranks)
        };
        let candidates = first[..large(&first)].iter().chain(&again[..large(&again)]);
        for p in candidates {
            let parent = &communicators[*p];
            if left == 0 {
                break;
            }
            left -= 1;
            let older = match (parent.created_ns, child.created_ns) {
                (Some(a), Some(b)) => a <= b,
                _ => true,
            };
            if c == *p || !older || parent.hash == child.hash || hashes.contains(&parent.hash) {
                continue;
            }
            let (holds, compared) = holds(&ranks[*p], &ranks[c]);
            left = left.saturating_sub(compared);
            if holds {
                hashes.insert(parent.hash);
                pairs.push((c, *p));
            }
        }
    }
    // Colours come first by their smallest ordinal; every pair gets the same share of the trials.
    let trials = lineage::TRIALS / pairs.len().max(1) as u64;
    let ordinals = trials.clamp(1, 4096) as u32;
    for (c, p) in pairs {
        if communicators[c].parent.is_some() {
            continue;
        }
        let (parent, child) = (&communicators[p], &communicators[c]);
        let proof = if lineage::child_hash(parent.hash, 0, 0) == child.hash {
            Some(format!("hash of parent {}, shrunk", parent.id))
        } else {
            (1..=ordinals).find_map(|ordinal| {
                let color = lineage::color(parent.hash, ordinal, child.hash)?;
                Some(format!(
                    "hash of parent {}, child {ordinal}, colour {color}",
                    parent.id
                ))
            })
        };
        communicators[c].parent = proof.map(|evidence| Parent {
            communicator: p,
            evidence,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(locals: Vec<Local>) -> Process {
        Process {
            communicators: locals,
            ..Process::default()
        }
    }

    fn local(uid: u32, hash: u64, rank: u32, created: i64, ended: Option<i64>) -> Local {
        Local {
            uid,
            hash,
            nranks: 2,
            rank: Some(rank),
            created_ns: Some(created),
            ended_ns: ended,
            ..Local::default()
        }
    }

    fn ids(processes: &[Process]) -> Vec<(String, usize)> {
        unite(processes)
            .0
            .into_iter()
            .map(|c| (c.id, c.members.len()))
            .collect()
    }

    #[test]
    fn ranks_of_two_hosts_are_one_communicator() {
        let all = [
            process(vec![local(1, 0xab, 1, 12, None)]),
            process(vec![local(9, 0xab, 0, 10, None)]),
        ];
        assert_eq!(ids(&all), [("00000000000000ab".to_owned(), 2)]);
        let (communicators, united) = unite(&all);
        assert_eq!(
            communicators[0].members[0],
            Member {
                process: 1,
                uid: 9,
                rank: Some(0)
            }
        );
        assert_eq!(united[&(0, 1)], 0);
    }

    #[test]
    fn without_a_hash_no_rank_is_missing() {
        let all = [0, 1].map(|rank| process(vec![local(1, 0, rank, 10, None)]));
        let (communicators, _) = unite(&all);
        let known: Vec<_> = communicators
            .iter()
            .map(|c| (c.members.len(), c.nranks))
            .collect();
        assert_eq!(known, [(1, None), (1, None)]);
    }

    #[test]
    fn several_ranks_of_one_process_are_one_communicator() {
        let ranks = (0..4).map(|rank| local(rank + 1, 0xab, rank, 10, None));
        assert_eq!(
            ids(&[process(ranks.collect())]),
            [("00000000000000ab".to_owned(), 4)]
        );
    }

    #[test]
    fn a_second_generation_is_another_communicator() {
        let again = |rank| {
            let second = Local {
                generation: 1,
                ..local(2, 0xab, rank, 30, None)
            };
            process(vec![local(1, 0xab, rank, 10, Some(20)), second])
        };
        let first = "00000000000000ab".to_owned();
        assert_eq!(
            ids(&[again(0), again(1)]),
            [(first.clone(), 2), (format!("{first}#2"), 2)]
        );
    }

    #[test]
    fn clashing_ranks_are_kept_apart() {
        let all: Vec<Process> = [0, 1, 0, 1]
            .map(|rank| process(vec![local(1, 5, rank, 10, None)]))
            .into();
        assert_eq!(
            ids(&all).iter().map(|(_, n)| *n).collect::<Vec<_>>(),
            [2, 2]
        );
    }

    #[test]
    fn a_hash_used_after_its_end_is_another_communicator() {
        let all = [
            process(vec![local(1, 5, 0, 10, Some(20))]),
            process(vec![local(1, 5, 0, 50, None)]),
        ];
        assert_eq!(ids(&all).len(), 2);
    }

    #[test]
    fn without_a_hash_nothing_is_united() {
        let unknown = || {
            process(vec![Local {
                uid: 1,
                ..Local::default()
            }])
        };
        assert_eq!(
            ids(&[unknown(), unknown()]),
            [("unknown".to_owned(), 1), ("unknown#2".to_owned(), 1)]
        );
    }

    #[test]
    fn very_many_communicators_are_compared_within_bounds() {
        // As many as a recorder allows at once, made one after the other: of one hash, of a hash each, and
        // without one. With all pairs this would need 64 GiB.
        type Hash = fn(u32) -> u64;
        let hashes = [((|_| 5) as Hash, 1), (|n| u64::from(n) + 1, 1), (|_| 0, 2)];
        for (hash, each) in hashes {
            let rank = |rank: u32| {
                let made = |n: u32| local(n, hash(n), rank, n.into(), Some(n.into()));
                process((0..65_536).map(made).collect())
            };
            assert_eq!(unite(&[rank(0), rank(1)]).0.len(), each * 65_536);
        }
        // The world is still found as the parent of the last.
        let world = 0x1122_3344_5566_7788;
        let child = lineage::child_hash(world, 1, 7);
        let mut locals = vec![local(0, world, 0, 0, None)];
        let small = |n: u32| Local {
            nranks: 1,
            ..local(n, 0xdead_0000 + u64::from(n), 0, n.into(), None)
        };
        locals.extend((1..20_000).map(small));
        locals.push(Local {
            hash: child,
            ..small(20_000)
        });
        let (communicators, _) = unite(&[process(locals)]);
        let last = communicators.last().expect("there");
        assert_eq!(last.parent.as_ref().map(|p| p.communicator), Some(0));
    }

    #[test]
    fn parents_are_proved_by_the_hash() {
        let world = 0x1122_3344_5566_7788;
        let child = lineage::child_hash(world, 3, 1_800_000_000);
        let shrunk = lineage::child_hash(world, 0, 0);
        let mut of_rank = [0, 1].map(|rank| process(vec![local(1, world, rank, 10, None)]));
        of_rank[0].communicators.push(Local {
            nranks: 1,
            ..local(2, child, 0, 20, None)
        });
        of_rank[0].communicators.push(Local {
            nranks: 1,
            ..local(3, shrunk, 0, 30, None)
        });
        of_rank[1].communicators.push(local(2, 0xdddd, 1, 20, None));
        let (communicators, _) = unite(&of_rank);
        let evidence = |hash| {
            let found = communicators
                .iter()
                .find(|c| c.hash == hash)
                .expect("there");
            found
                .parent
                .as_ref()
                .map(|p| (p.communicator, p.evidence.clone()))
        };
        assert_eq!(
            evidence(child),
            Some((
                0,
                "hash of parent 1122334455667788, child 3, colour 1800000000".to_owned()
            ))
        );
        assert_eq!(
            evidence(shrunk),
            Some((0, "hash of parent 1122334455667788, shrunk".to_owned()))
        );
        assert_eq!((evidence(world), evidence(0xdddd)), (None, None));
    }
}
