//! What of a job is here and what is not, in words.

use analyze::absent::AbsentRow;
use analyze::completeness::{Completeness, NotCounted, RankCompleteness};
use analyze::spelling::{plural, ranges};

/// Ranks that are not here, and those that lack calls that others prove, a sentence or two each.
pub(crate) fn missing(of: &Completeness) -> Vec<String> {
    let absent = of.absent.iter().map(AbsentRow::sentence);
    let partial = of.ranks.iter().filter(|rank| rank.missing_at_least > 0);
    absent.chain(partial.map(partly)).collect()
}

/// What other ranks prove that a rank lacks.
fn partly(rank: &RankCompleteness) -> String {
    let who = match rank.rank {
        Some(rank) => format!("Rank {rank}"),
        None => format!("Process {} on {}", rank.pid, rank.host),
    };
    let n = rank.missing_at_least;
    format!(
        "{who} made at least {n} more calls than are here: operations that ended on other ranks prove {}.",
        if n == 1 { "it" } else { "them" }
    )
}

/// What the ranks that are here lack; `None` if that is no part that matters.
pub(crate) fn not_here(of: &Completeness) -> Option<String> {
    let lack = of.not_here()?;
    Some(format!(
        "{} of {} calls of {} are not here ({}).",
        lack.calls,
        lack.of,
        names(&lack.ranks),
        lack.causes.join(", ")
    ))
}

/// That the last calls of ranks may be lost; `None` if they are not.
pub(crate) fn last_calls(of: &Completeness) -> Option<String> {
    let ranks = of.last_calls_unknown();
    let mut why: Vec<&str> = ranks.iter().map(|rank| rank.live).collect();
    why.sort_unstable();
    why.dedup();
    let why = why.iter().map(|why| {
        if *why == "gone" {
            "gone"
        } else {
            "not readable"
        }
    });
    let why = why.collect::<Vec<_>>().join(" or ");
    let (its, part) = match &ranks[..] {
        [] => return None,
        [_] => ("its", "live part, which is"),
        _ => ("their", "live parts, which are"),
    };
    let who = names(&ranks);
    Some(format!(
        "How many calls {who} made last is not known: calls after the last flush were only in {its} {part} \
         {why}."
    ))
}

/// That calls were not counted, or only counted.
pub(crate) fn not_counted(of: NotCounted) -> String {
    match of {
        NotCounted::Masked => {
            "Not all calls were counted: somebody changed the mask of NCCL's profiler while the job ran."
                .to_owned()
        }
        NotCounted::InGraphs => {
            "Not all calls were counted: some ran in CUDA graphs that were not seen.".to_owned()
        }
        NotCounted::OneSided(n) => format!(
            "{} (ncclPutSignal, ncclSignal, ncclWaitSignal) are only counted: NCCL tells no profiler of \
             them.",
            plural(n, "one-sided call", "one-sided calls")
        ),
    }
}

/// How many calls were announced, recorded and timed; two sentences if some were not counted.
pub(crate) fn counted(of: &Completeness) -> String {
    let least = if of.announced_is_lower_bound {
        "at least "
    } else {
        ""
    };
    let announced = of.announced.saturating_add(of.missing_at_least);
    let (recorded, timed) = (of.recorded, of.timed);
    match of.not_counted().map(not_counted) {
        None => format!("{recorded} of {least}{announced} announced calls recorded, {timed} timed."),
        Some(said) => format!(
            "{said} Of the others, {least}{announced} were announced, {recorded} recorded, {timed} timed."
        ),
    }
}

/// What launches of CUDA graphs executed; `None` without any.
pub(crate) fn in_launches(of: &Completeness) -> Option<String> {
    let (launches, calls) = of.graph_launches.zip(of.in_graphs)?;
    let text = || format!("{launches} launches of CUDA graphs executed {calls} calls more.");
    (launches > 0).then(text)
}

/// These ranks, at least one, as sentences name them.
fn names(ranks: &[&RankCompleteness]) -> String {
    let numbers: Option<Vec<u32>> = ranks.iter().map(|rank| rank.rank).collect();
    match (numbers, ranks) {
        (Some(numbers), [_, _, ..]) => format!("ranks {}", ranges(numbers)),
        (Some(numbers), _) => format!("rank {}", ranges(numbers)),
        (None, [only]) => format!("pid {} on {}", only.pid, only.host),
        (None, _) => format!("{} processes", ranks.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_calls_that_nobody_can_count_are_said() {
        let rank = |rank, live| {
            let mut of = RankCompleteness::default();
            (of.rank, of.live) = (Some(rank), live);
            of
        };
        let said = |ranks: &[(u32, &'static str)]| {
            let ranks = ranks.iter().map(|(number, live)| rank(*number, live));
            let of = Completeness {
                ranks: ranks.collect(),
                ..Completeness::new()
            };
            last_calls(&of)
        };
        assert_eq!(
            said(&[(0, "adopted"), (1, "elsewhere"), (2, "running")]),
            None
        );
        let one = said(&[(0, "here"), (3, "gone")]).expect("one");
        assert_eq!(
            one,
            "How many calls rank 3 made last is not known: calls after the last flush were only in its live \
             part, which is gone."
        );
        let both = said(&[(0, "unreadable"), (1, "gone")]).expect("two");
        assert!(both.contains("ranks 0-1 made last"), "{both}");
        assert!(
            both.ends_with("live parts, which are gone or not readable."),
            "{both}"
        );
    }
}
