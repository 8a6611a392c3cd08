//! Gives the calls of all ranks on a communicator numbers that are equal for one operation.
//!
//! A profiler of one rank begins in the middle of a job, and not in the same call as on the others. If the
//! tool wrote sequence numbers, they are taken. Else the sequences are laid over each other: of all shifts in
//! which every pair has the same function, datatype and size, the one counts in which the pairs ended closest
//! together. The ranks of a collective end together, and not with the one before.
//!
//! If no file names process groups, and each has one group, these are taken for one ([`join_unnamed`]), as
//! long as its operations then end together on all ranks.
//!
//! Rule: a rank whose calls fit in no shift is not matched at all, and that is said.

use crate::writer::{Call, Process};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How far the beginnings of two ranks may be apart, in calls of a communicator.
const APART: i64 = 256;
/// So many pairs tell how well a shift fits.
const PAIRS: usize = 256;
/// Of the shorter sequence, this part must have a partner: one of so many.
const COMMON: usize = 2;

/// A rank of a communicator: index of its process, and of the communicator there.
type Member = (usize, usize);

/// Numbers the calls of `processes`; returns what could not be matched, in words, with the process's index.
pub fn number(processes: &mut [Process]) -> Vec<(usize, String)> {
    let mut members: HashMap<u64, Vec<Member>> = HashMap::new();
    for (at, process) in processes.iter().enumerate() {
        for (index, communicator) in process.communicators.iter().enumerate() {
            if communicator.hash != 0 {
                members
                    .entry(communicator.hash)
                    .or_default()
                    .push((at, index));
            }
        }
    }
    let mut found: Vec<Vec<Member>> = members.into_values().collect();
    found.sort();
    let calls: Vec<HashMap<usize, Vec<usize>>> = processes.iter().map(by_communicator).collect();
    let mut unmatched = Vec::new();
    for members in found {
        let of = |member: &Member| -> Vec<usize> {
            calls[member.0].get(&member.1).cloned().unwrap_or_default()
        };
        let numbered = members.iter().all(|member| {
            let calls = &processes[member.0].calls;
            of(member).iter().all(|at| calls[*at].seq.is_some())
        });
        if numbered {
            make_unique(processes, &members, &of);
        } else {
            by_time(processes, &members, &of, &mut unmatched);
        }
        by_function(processes, &members, &of);
    }
    unmatched
}

/// The operations of one group end within this time on all ranks, ns, or within this part of the longest.
const TOGETHER_NS: u64 = 100_000;
const TOGETHER_SHARE: u64 = 10;

/// Takes the groups that files do not name for one, if each file has one, and the files are those of all
/// ranks from 0 on. Whether that was right is known by [`split_unnamed`], after [`number`].
pub fn join_unnamed(processes: &mut [Process]) -> bool {
    let ranks: BTreeSet<u32> = processes.iter().filter_map(rank).collect();
    let nranks = u32::try_from(processes.len()).unwrap_or(u32::MAX);
    let is_all = nranks > 1 && ranks.iter().copied().eq(0..nranks);
    if !is_all || !processes.iter().all(is_unnamed) {
        return false;
    }
    for process in processes {
        let rank = rank(process);
        let communicator = &mut process.communicators[0];
        (communicator.hash, communicator.nranks, communicator.rank) = (UNNAMED, nranks, rank);
    }
    true
}

/// Takes them for groups of their own again, if their operations do not end together.
pub fn split_unnamed(processes: &mut [Process]) -> bool {
    let mut ends: HashMap<(&str, u64), Vec<(i128, u64)>> = HashMap::new();
    for process in processes.iter() {
        for call in process.calls.iter().filter(|call| !is_p2p(call)) {
            if let (Some(seq), Some((from, ns))) = (call.seq, call.ran) {
                let end = i128::from(from) + i128::from(ns) + i128::from(process.base);
                ends.entry((call.function, seq))
                    .or_default()
                    .push((end, ns));
            }
        }
    }
    ends.retain(|_, of| of.len() == processes.len());
    let is_together = |of: &Vec<(i128, u64)>| {
        let all = || of.iter().map(|(end, _)| *end);
        let longest = of.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
        let apart = all()
            .max()
            .zip(all().min())
            .map_or(0, |(last, first)| last - first);
        apart <= i128::from(TOGETHER_NS.max(longest / TOGETHER_SHARE))
    };
    let together = ends.values().filter(|of| is_together(of)).count();
    // A profiler may begin or end within an operation.
    if together > 0 && together * 10 >= ends.len() * 9 {
        return false;
    }
    for process in processes {
        let communicator = &mut process.communicators[0];
        (communicator.hash, communicator.nranks, communicator.rank) = (0, 0, None);
        process.calls.iter_mut().for_each(|call| call.seq = None);
    }
    true
}

/// For what stands for the group that no file names.
const UNNAMED: u64 = 1;

fn is_unnamed(process: &Process) -> bool {
    let [communicator] = &process.communicators[..] else {
        return false;
    };
    let n = communicator.nranks;
    communicator.hash == 0 && n == 0 && process.calls.iter().all(|call| call.communicator == 0)
}

fn rank(process: &Process) -> Option<u32> {
    process.fact("rank")?.parse().ok()
}

/// NCCL counts each function by itself, and numbers begin with the first call that a file has. What was
/// before is not missing: nobody recorded it.
fn by_function(processes: &mut [Process], members: &[Member], of: &dyn Fn(&Member) -> Vec<usize>) {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for member in members {
        all.extend(of(member).into_iter().map(|at| (member.0, at)));
    }
    let mut numbers: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (process, at) in &all {
        let call = &processes[*process].calls[*at];
        numbers.entry(call.function).or_default().extend(call.seq);
    }
    let places = |numbers: BTreeSet<u64>| numbers.into_iter().zip(0..).collect();
    let numbers = numbers.into_iter();
    let places: HashMap<&str, HashMap<u64, u64>> = numbers
        .map(|(function, numbers)| (function, places(numbers)))
        .collect();
    for (process, at) in all {
        let call = &mut processes[process].calls[at];
        let seq = call.seq.and_then(|seq| places[call.function].get(&seq));
        call.seq = seq.copied();
    }
}

/// The collectives of each communicator, by time.
fn by_communicator(process: &Process) -> HashMap<usize, Vec<usize>> {
    let mut calls: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, call) in process.calls.iter().enumerate() {
        if !is_p2p(call) {
            calls
                .entry(call.communicator as usize)
                .or_default()
                .push(at);
        }
    }
    calls
}

fn is_p2p(call: &Call) -> bool {
    matches!(call.function, "Send" | "Recv" | "SendRecv")
}

/// Calls that were made together share PyTorch's number: then they are numbered anew, in its order.
fn make_unique(processes: &mut [Process], members: &[Member], of: &dyn Fn(&Member) -> Vec<usize>) {
    let mut keys: BTreeSet<(u64, u32)> = BTreeSet::new();
    let mut by_call: Vec<(usize, usize, (u64, u32))> = Vec::new();
    let mut is_shared = false;
    for member in members {
        let mut seen: HashMap<u64, u32> = HashMap::new();
        for at in of(member) {
            let seq = processes[member.0].calls[at].seq.unwrap_or(0);
            let nth = seen.entry(seq).or_insert(0);
            is_shared |= *nth > 0;
            keys.insert((seq, *nth));
            by_call.push((member.0, at, (seq, *nth)));
            *nth += 1;
        }
    }
    if !is_shared {
        return;
    }
    let places: HashMap<(u64, u32), u64> = keys.into_iter().zip(0..).collect();
    for (process, at, key) in by_call {
        processes[process].calls[at].seq = places.get(&key).copied();
    }
}

/// When a call ended, ns since 1970.
fn ended(process: &Process, call: &Call) -> i64 {
    let end = match call.ran {
        Some((from, ns)) => from.saturating_add(ns),
        None => call.called.max(call.returned),
    };
    process.base.saturating_add_unsigned(end)
}

fn by_time(
    processes: &mut [Process],
    members: &[Member],
    of: &dyn Fn(&Member) -> Vec<usize>,
    unmatched: &mut Vec<(usize, String)>,
) {
    // The one with the most calls has partners for all others.
    let longest = members
        .iter()
        .max_by_key(|member| (of(member).len(), std::cmp::Reverse(**member)));
    let Some(longest) = longest.copied() else {
        return;
    };
    let reference = of(&longest);
    for member in members {
        let own = of(member);
        let shift = if *member == longest {
            Some(0)
        } else {
            let first = &processes[longest.0];
            fits(first, &reference, &processes[member.0], &own)
        };
        let process = &mut processes[member.0];
        match shift {
            Some(shift) => {
                for (place, at) in own.iter().enumerate() {
                    let number = place as i64 + shift + APART;
                    process.calls[*at].seq = u64::try_from(number).ok();
                }
            }
            None if own.is_empty() => {}
            None => {
                // Without a hash nothing ties it to the others.
                let communicator = &mut process.communicators[member.1];
                communicator.hash = 0;
                let text = format!(
                    "{} calls on `{}` that do not follow in the order of the other ranks'",
                    own.len(),
                    communicator.name
                );
                unmatched.push((member.0, text));
            }
        }
    }
}

/// By how many calls the second sequence begins after the first; `None` if they do not fit.
fn fits(first: &Process, of_first: &[usize], second: &Process, of_second: &[usize]) -> Option<i64> {
    let least = (of_first.len().min(of_second.len()) / COMMON).max(1) as i64;
    let (a, b) = (of_first.len() as i64, of_second.len() as i64);
    let mut best: Option<(i64, i64, i64)> = None;
    for shift in -APART..=APART {
        // Call i of the second is call i + shift of the first.
        let (from, to) = ((-shift).max(0), (a - shift).min(b));
        if to - from < least {
            continue;
        }
        let pair = |i: i64| {
            let call = &first.calls[of_first[(i + shift) as usize]];
            (call, &second.calls[of_second[i as usize]])
        };
        let is_alike = (from..to).all(|i| {
            let (a, b) = pair(i);
            let size = |call: &Call| (call.function, call.datatype, call.count);
            // AlltoAll may have another size on each rank.
            size(a) == size(b) || a.function == "AlltoAll" && b.function == "AlltoAll"
        });
        if !is_alike {
            continue;
        }
        let step = ((to - from) as usize).div_ceil(PAIRS).max(1);
        let apart = (from..to).step_by(step).map(|i| {
            let (a, b) = pair(i);
            ended(first, a).abs_diff(ended(second, b))
        });
        let mut apart: Vec<u64> = apart.collect();
        apart.sort_unstable();
        let middle = i64::try_from(apart[apart.len() / 2]).unwrap_or(i64::MAX);
        let found = (middle, shift.abs(), shift);
        best = Some(best.map_or(found, |best| best.min(found)));
    }
    best.map(|(.., shift)| shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::Communicator;

    /// A process whose calls end at these times.
    fn process(ends: impl Iterator<Item = (u64, u64)>) -> Process {
        let call = |(end, count): (u64, u64)| Call {
            function: "AllReduce",
            count,
            called: end - 5,
            ran: Some((end - 3, 3)),
            ..Call::default()
        };
        let communicator = Communicator {
            hash: 7,
            nranks: 2,
            ..Communicator::default()
        };
        Process {
            communicators: vec![communicator],
            calls: ends.map(call).collect(),
            ..Process::default()
        }
    }

    fn numbers(process: &Process) -> Vec<Option<u64>> {
        process.calls.iter().map(|call| call.seq).collect()
    }

    #[test]
    fn a_profiler_that_began_later_has_the_later_numbers() {
        // All alike, so only time tells.
        let mut both = [
            process((1..=50).map(|i| (100 * i, 8))),
            process((4..=50).map(|i| (100 * i + 7, 8))),
        ];
        assert_eq!(number(&mut both), []);
        assert_eq!(numbers(&both[0])[3..], numbers(&both[1])[..]);
        // The other way round.
        both.reverse();
        assert_eq!(number(&mut both), []);
        assert_eq!(numbers(&both[1])[3..], numbers(&both[0])[..]);
    }

    #[test]
    fn each_function_is_counted_by_itself() {
        let mut both = [
            process((1..=6).map(|i| (100 * i, 8))),
            process((2..=6).map(|i| (100 * i, 8))),
        ];
        for (process, first) in both.iter_mut().zip([1, 2]) {
            for (call, seq) in process.calls.iter_mut().zip(first..) {
                call.seq = Some(seq + 40);
                call.function = if seq % 3 == 0 {
                    "Broadcast"
                } else {
                    "AllReduce"
                };
            }
        }
        assert_eq!(number(&mut both), []);
        let numbers = both.each_ref().map(numbers);
        assert_eq!(numbers[0], [0, 1, 0, 2, 3, 1].map(Some));
        assert_eq!(numbers[1], numbers[0][1..]);
    }

    #[test]
    fn calls_of_another_job_are_not_matched() {
        let mut both = [
            process((1..=50).map(|i| (100 * i, 8))),
            process((1..=50).map(|i| (100 * i, 9))),
        ];
        let unmatched = number(&mut both);
        assert_eq!(unmatched.len(), 1);
        assert_eq!(both[unmatched[0].0].communicators[0].hash, 0);
    }

    #[test]
    fn calls_that_share_a_number_get_their_own() {
        let mut both = [
            process((1..=6).map(|i| (100 * i, 8))),
            process((3..=6).map(|i| (100 * i, 8))),
        ];
        for (process, first) in both.iter_mut().zip([40, 41]) {
            for (at, call) in process.calls.iter_mut().enumerate() {
                call.seq = Some(first + at as u64 / 2);
            }
        }
        assert_eq!(number(&mut both), []);
        assert_eq!(numbers(&both[0])[2..], numbers(&both[1])[..]);
        let unique: BTreeSet<_> = numbers(&both[0]).into_iter().collect();
        assert_eq!(unique.len(), 6);
    }
}
