//! What of a job is here and what is not, in words.

use crate::words::remedy;
use analyze::absent::AbsentRow;
use analyze::completeness::{Completeness, Failure, NotCounted, RankCompleteness};
use analyze::moments::Zone;
use analyze::spelling::{plural, ranges};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was announced, recorded and timed, and what to do, as JSON has it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Completeness")]
pub(crate) struct Row<'a> {
    #[serde(flatten)]
    completeness: &'a Completeness,
    /// Processes that are not complete, or differ otherwise.
    ranks: Vec<RankRow<'a>>,
    /// What to do about each cause in `lost` and `untimed`.
    remedies: BTreeMap<&'a str, &'static str>,
}

/// One process that is not complete.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RankCompleteness")]
struct RankRow<'a> {
    #[serde(flatten)]
    rank: &'a RankCompleteness,
    /// What happened to its recorder, if not the usual.
    recorder: Option<String>,
}

impl Row<'_> {
    pub(crate) fn of(completeness: &Completeness) -> Row<'_> {
        fn row(rank: &RankCompleteness) -> RankRow<'_> {
            RankRow {
                rank,
                recorder: rank.recorder.map(failure),
            }
        }
        Row {
            completeness,
            ranks: completeness.ranks.iter().map(row).collect(),
            remedies: remedies(completeness),
        }
    }
}

/// What happened to a recorder.
pub(crate) fn failure(of: Failure) -> String {
    match of {
        Failure::Mask {
            asked,
            missing,
            from_ns,
            until_ns,
        } => {
            let moment = |ns| Zone::UTC.spelled(ns, 1);
            let until = until_ns.map_or("until its end".to_owned(), |ns| {
                format!("until {}", moment(ns))
            });
            format!(
                "NCCL did not announce all that was asked for (mask {asked:#x}): {missing:#x} was missing \
                 from {} on, {until}",
                moment(from_ns)
            )
        }
        Failure::Write(errno) => {
            let error = std::io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
            format!("its trace file could not be written: {error}")
        }
        Failure::Off => "it switched itself off after a failure".to_owned(),
    }
}

/// Ranks that are not here, and those that lack calls that others prove, a sentence or two each.
pub(crate) fn missing(of: &Completeness) -> Vec<String> {
    let absent = of.absent.iter().map(absent);
    let partial = of.ranks.iter().filter(|rank| rank.missing_at_least > 0);
    absent.chain(partial.map(partly)).collect()
}

/// What to do about each cause that occurs.
pub(crate) fn remedies(of: &Completeness) -> BTreeMap<&str, &'static str> {
    let causes = of.lost.keys().chain(of.untimed.keys());
    let causes = causes.chain(of.unseen.keys()).filter(|_| of.has_remedies);
    causes
        .filter_map(|cause| Some((cause.as_str(), remedy(cause)?)))
        .collect()
}

/// Which ranks are missing, why, and what is known of their calls.
pub fn absent(of: &AbsentRow) -> String {
    let several = of.nranks != 1;
    let place = of.communicators.first();
    let who = match (&of.ranks, place) {
        (Some(ranks), _) if several => format!("Ranks {ranks} are missing"),
        (Some(rank), _) => format!("Rank {rank} is missing"),
        (None, Some(place)) => {
            let size = place.of.map_or(String::new(), |n| format!(" of {n}"));
            let of_communicator = format!("of communicator {}", place.communicator);
            match &place.ranks {
                Some(ranks) if several => {
                    format!("Ranks {ranks}{size} {of_communicator} are missing")
                }
                Some(rank) => format!("Rank {rank}{size} {of_communicator} is missing"),
                None if several => {
                    format!("{} ranks{size} {of_communicator} are missing", of.nranks)
                }
                None => format!("1 rank{size} {of_communicator} is missing"),
            }
        }
        (None, None) => "A process is missing".to_owned(),
    };
    let restart = match of.restart {
        None | Some(0) => String::new(),
        Some(n) => format!(" in restart {n}"),
    };
    let (no_file, its, it) = if several {
        ("no file of them is here", "their", "they")
    } else {
        ("no file of it is here", "its", "it")
    };
    let why = match of.unreadable.as_slice() {
        [] if of.undefined => {
            "no file of the capture says that it took part, and the block that says so may be \
            damaged"
                .to_owned()
        }
        [] => no_file.to_owned(),
        [file] if several => format!(
            "no file of them is here but {}, in which nothing can be read (found {})",
            file.file, file.found
        ),
        [file] => format!(
            "nothing in its file {} can be read (found {})",
            file.file, file.found
        ),
        [file, rest @ ..] => format!(
            "nothing in {} of {its} files can be read (in {} found {})",
            rest.len() + 1,
            file.file,
            file.found
        ),
    };
    let calls = match (of.calls_at_least, of.calls_begun) {
        (0, 0) => format!("Nothing here shows that {it} made calls."),
        (0, n) => format!(
            "The other ranks began {n} of {its} calls; how many of these {it} made can't be proved."
        ),
        (n, _) => format!(
            "At least {n} of {its} calls are missing: operations that ended on other ranks prove {}.",
            if n == 1 { "it" } else { "them" }
        ),
    };
    format!("{who}{restart}: {why}. {calls}")
}

/// What other ranks prove that a rank lacks.
fn partly(rank: &RankCompleteness) -> String {
    let who = match rank.process.rank {
        Some(rank) => format!("Rank {rank}"),
        None => format!("Process {} on {}", rank.process.pid, rank.process.host),
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
    let numbers: Option<Vec<u32>> = ranks.iter().map(|rank| rank.process.rank).collect();
    match (numbers, ranks) {
        (Some(numbers), [_, _, ..]) => format!("ranks {}", ranges(numbers)),
        (Some(numbers), _) => format!("rank {}", ranges(numbers)),
        (None, [only]) => format!("pid {} on {}", only.process.pid, only.process.host),
        (None, _) => format!("{} processes", ranks.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::absent::{AbsentMember, UnreadableRow};

    #[test]
    fn absent_ranks_are_named_by_the_launcher_or_by_a_communicator() {
        let row = AbsentRow {
            ranks: Some("2-3".to_owned()),
            nranks: 2,
            calls_at_least: 25,
            ..AbsentRow::default()
        };
        assert_eq!(
            absent(&row),
            "Ranks 2-3 are missing: no file of them is here. At least 25 of their calls are missing: \
             operations that ended on other ranks prove them."
        );
        let member = AbsentMember {
            communicator: "c0".to_owned(),
            ranks: Some("2".to_owned()),
            of: Some(3),
            calls_at_least: 1,
        };
        let mut row = AbsentRow {
            nranks: 1,
            calls_at_least: 1,
            communicators: vec![member],
            ..AbsentRow::default()
        };
        assert_eq!(
            absent(&row),
            "Rank 2 of 3 of communicator c0 is missing: no file of it is here. At least 1 of its calls are \
             missing: operations that ended on other ranks prove it."
        );
        row.undefined = true;
        let why =
            ": no file of the capture says that it took part, and the block that says so may be \
                   damaged. ";
        assert!(absent(&row).contains(why), "{}", absent(&row));
    }

    #[test]
    fn what_absent_ranks_did_is_said_as_far_as_it_is_known() {
        let mut row = AbsentRow {
            ranks: Some("0".to_owned()),
            nranks: 1,
            restart: Some(1),
            ..AbsentRow::default()
        };
        let said = absent(&row);
        assert!(
            said.starts_with("Rank 0 is missing in restart 1: "),
            "{said}"
        );
        assert!(
            said.ends_with("Nothing here shows that it made calls."),
            "{said}"
        );
        row.calls_begun = 7;
        let said = absent(&row);
        assert!(
            said.contains("The other ranks began 7 of its calls"),
            "{said}"
        );
        row.unreadable.push(UnreadableRow {
            file: "node/r0.trace".to_owned(),
            found: "nothing".to_owned(),
            ..UnreadableRow::default()
        });
        let why = "nothing in its file node/r0.trace can be read (found nothing). ";
        assert!(absent(&row).contains(why), "{}", absent(&row));
    }

    #[test]
    fn last_calls_that_nobody_can_count_are_said() {
        let rank = |rank, live| {
            let mut of = RankCompleteness::default();
            (of.process.rank, of.live) = (Some(rank), live);
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
