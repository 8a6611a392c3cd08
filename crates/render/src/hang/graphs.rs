//! Sentences about launches of CUDA graphs.

use super::names::span;
use analyze::hang::Launches;
use analyze::spelling::ranges;

/// What is told of launches: nothing if there were none.
pub(super) fn sentences(launches: &[Launches]) -> Vec<String> {
    let (Some(least), Some(most)) = (
        launches.iter().map(|of| of.launches).min(),
        launches.iter().map(|of| of.launches).max(),
    ) else {
        return Vec::new();
    };
    let who = |with: u64| {
        let of: Vec<&Launches> = launches.iter().filter(|of| of.launches == with).collect();
        let ranks: Option<Vec<u32>> = of.iter().map(|of| of.rank).collect();
        match ranks.as_deref() {
            Some([one]) => format!("rank {one}"),
            Some(ranks) => format!("ranks {}", ranges(ranks.iter().copied())),
            None => format!("{} processes", of.len()),
        }
    };
    let newest = launches.iter().filter(|of| of.launches == most);
    let newest = newest.filter_map(|of| of.newest_ago).min();
    let ago = newest.map_or(String::new(), |ns| format!(", the newest {} ago", span(ns)));
    let calls = launches.iter().find_map(|of| of.calls);
    let calls = calls.map_or(String::new(), |n| format!(" Its graph has {n} NCCL calls."));
    let mut sentences = Vec::new();
    if least == most {
        sentences.push(format!(
            "Graphs were launched {most} times on {}{ago}.{calls} How far that launch came on the GPU, NCCL \
            does not tell.",
            who(most)
        ));
    } else {
        let late = who(least);
        sentences.push(format!(
            "Graphs were launched {most} times on {}{ago}, and {least} times on {late}: if ranks launch in \
            step, the others wait for it in launch {}, at the first NCCL call that it has part in.{calls}",
            who(most),
            least + 1
        ));
    }
    let under_way: Vec<u32> = launches
        .iter()
        .filter(|of| of.launching)
        .filter_map(|of| of.rank)
        .collect();
    if !under_way.is_empty() {
        sentences.push(format!(
            "The launch has not returned on rank {}.",
            ranges(under_way)
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rank: u32, launches: u64, launching: bool) -> Launches {
        Launches {
            rank: Some(rank),
            pid: 100 + rank,
            launches,
            newest_ago: Some(analyze::time::Nanos::from_seconds(12.0)),
            launching,
            calls: Some(24),
        }
    }

    #[test]
    fn a_rank_that_lacks_launches_is_named() {
        assert!(sentences(&[]).is_empty());
        let equal = sentences(&[of(0, 9, false), of(1, 9, false)]);
        assert_eq!(equal.len(), 1);
        assert!(
            equal[0].starts_with("Graphs were launched 9 times on ranks 0-1, the newest "),
            "{equal:?}"
        );
        let behind = sentences(&[of(0, 9, true), of(1, 8, false), of(2, 9, false)]);
        assert!(
            behind[0].contains("9 times on ranks 0,2") && behind[0].contains("8 times on rank 1"),
            "{behind:?}"
        );
        // It lacks the ninth, so the others can't have come further than its first call.
        let place =
            "the others wait for it in launch 9, at the first NCCL call that it has part in.";
        assert!(behind[0].contains(place), "{behind:?}");
        assert_eq!(behind[1], "The launch has not returned on rank 0.");
    }
}
