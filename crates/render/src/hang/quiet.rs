//! Words for a job in which nobody is seen to wait: why that is no hang, or what hides whether it is one.

use super::names::{are, capital, communicator, have, is_of_ras, of, rank, span, unknown};
use super::phrases::{stopped, Words};
use analyze::hang::{
    Because, BeforeFirst, Blocked, CommunicatorProgress, Hang, Inside, Quiet, Said, SaidState,
    Starting, Verdict,
};
use analyze::spelling::ranges;
use analyze::subject::ProcessId;
use analyze::time::Nanos;

/// From here on a wait in MPI is worth a sentence.
const LONG: Nanos = Nanos::SECOND;
/// Processes that are named one by one.
const NAMED: usize = 8;

pub(super) fn words(hang: &Hang, quiet: &Quiet) -> Words {
    let newest = quiet.newest_call_ago;
    let last = newest.map_or("at an unknown time".to_owned(), |ns| {
        format!("{} ago", span(ns))
    });
    let sentence = match &quiet.because {
        Because::Over => "No hang: all communicators that are in the capture have ended.".to_owned(),
        Because::FromOutside(None) => format!(
            "Can't tell: no process is in a call of NCCL that `ncclscope attach` saw begin; the newest call \
             was {last}."
        ),
        Because::FromOutside(Some((process, ns))) => format!(
            "Can't tell: {} in a call of NCCL for {}, and for whom is not known.",
            are(&names(std::slice::from_ref(process)), 1),
            span(*ns)
        ),
        Because::Stopped(these) => {
            let first = quiet.named[0];
            let first = rank(hang, first.communicator, first.member);
            let is = if these.len() == 1 { "is" } else { "are" };
            format!(
                "Can't tell: {} {}, and nobody is seen to wait for it; the newest call was {last}.",
                names(these),
                stopped(hang, first, is)
            )
        }
        Because::Dead(these) if is_of_ras(hang) => format!(
            "{} dead: RAS can't reach the process any more. Whether others wait for it is not known.",
            are(&names(these), these.len())
        ),
        Because::Said(said) => said_sentence(said),
        Because::BeforeFirst(found) => before_first(found),
        Because::Blocked(found) => blocked(found),
        Because::Dead(these) => format!(
            "Can't tell: {} dead, and nobody is seen to wait for it; the newest call was {last}.",
            are(&names(these), these.len())
        ),
        Because::Active { all_killed: false } => {
            format!("No hang: nobody waits for another; the newest call was {last}.")
        }
        Because::Active { all_killed: true } => format!(
            "No hang: nobody waited for another when all processes were killed; the newest call was {last}."
        ),
        Because::Silent(these) => format!(
            "Can't tell: {} written nothing for long, and nobody is seen to wait for it; the newest \
             call was {last}.",
            have(&names(these), these.len())
        ),
        Because::Partial(index) => format!(
            "Can't tell: the {} known ranks of {} have made the same calls, the newest {last}; \
             what {} did is not known.",
            of(hang, *index).ranks.len(),
            communicator(hang, *index),
            unknown(hang, *index)
        ),
        Because::Finished(ranks, lately) => {
            let no_hang = if *lately { "No hang" } else { "Can't tell" };
            format!(
                "{no_hang}: nobody waits in NCCL. All {ranks} ranks have made the same calls, the newest \
                 {last}, and their GPUs have ended them."
            )
        }
        Because::NotAnnounced => "Can't tell: somebody changed the mask of NCCL's profiler (for example with \
             `ncclras CONTROL PROFILER_MASK`), so calls are missing that ranks made."
            .to_owned(),
        Because::NotRecorded(ranks) => format!(
            "Can't tell: all {ranks} ranks have made the same calls, the newest {last}, and whether \
             their GPUs have ended them is not recorded."
        ),
    };
    let details = match &quiet.because {
        Because::FromOutside(_) => vec![
            "`ncclscope attach` came after the communicators were made. It does not know which ranks belong \
             together, and sees no call that began before."
                .to_owned(),
        ],
        Because::Said(said) => said_details(said),
        Because::BeforeFirst(found) => before_first_details(found),
        Because::Blocked(found) => vec![blocked_details(found).to_owned()],
        Because::Partial(_) | Because::NotRecorded(_) if is_of_ras(hang) => vec![
            "RAS counts launches, and does not say whether GPUs have ended them. Ask it again some seconds \
             later, and give a folder with all answers: counts that stand still show a hang."
                .to_owned(),
        ],
        Because::Partial(_) | Because::NotRecorded(_) if hang.tool.is_some() => {
            vec!["A job that computes or is idle looks the same.".to_owned()]
        }
        Because::Partial(_) | Because::NotRecorded(_) => vec![
            "A job that computes or is idle looks the same. GPU times (NCCLSCOPE_TIMING) show which \
             calls have ended."
                .to_owned(),
        ],
        Because::Finished(_, false) => vec![
            "A job that computes for long looks the same as one that hangs outside of NCCL.".to_owned(),
        ],
        _ => Vec::new(),
    };
    // A rank in MPI does not compute, and the table says who is there.
    let is_told = matches!(quiet.because, Because::Blocked(_));
    let details = if !is_told && hang.communicators.iter().any(has_rank_in_mpi) {
        vec!["Ranks are inside of MPI: they wait there, outside of NCCL.".to_owned()]
    } else {
        details
    };
    Words {
        sentence: capital(sentence),
        details,
    }
}

/// Ranks that make or end a communicator, or are in MPI.
fn blocked(found: &Blocked) -> String {
    let span = span(found.lasted);
    // `Hang:` stands before other sentences in the same way.
    let begins = match found.by_time.hang() {
        Some(true) => "",
        Some(false) => "No hang: ",
        None => "Can't tell yet: ",
    };
    let first = &found.inside[0];
    if let ([_], []) = (&found.inside[..], &found.outside[..]) {
        let all = match first.ranks.len() {
            1 => are(&names(&first.ranks), 1),
            all => format!("all {all} ranks are"),
        };
        let function = &first.function;
        return format!("{begins}{all} inside of {function}, and nothing has happened for {span}.");
    }
    let inside = are(&names(&first.ranks), first.ranks.len());
    let mut all = vec![format!("{inside} inside of {} for {span}", first.function)];
    let others = found.inside[1..].iter().take(NAMED);
    all.extend(others.map(|of| {
        format!(
            "{} inside of {}",
            are(&names(&of.ranks), of.ranks.len()),
            of.function
        )
    }));
    if !found.outside.is_empty() {
        let outside = are(&names(&found.outside), found.outside.len());
        all.push(format!("{outside} not"));
    }
    let (last, before) = (all.pop().unwrap_or_default(), all.join(", "));
    format!(
        "{begins}{before}, and {last}: each call ends when all ranks of its communicator have come."
    )
}

fn blocked_details(found: &Blocked) -> &'static str {
    match (&found.inside[..], &found.outside[..]) {
        ([of], []) if of.function.starts_with("MPI") => {
            "What MPI waits for there is not recorded."
        }
        ([_], []) => {
            "What NCCL waits for there is not recorded: a host's address or port, a network card, or a rank \
             that is not in this capture. NCCL_DEBUG=INFO tells how far each rank came."
        }
        (_, []) => {
            "Ranks that belong together call the same function. Which ranks belong to a communicator that is \
             not made yet, or to one of MPI, is not recorded, so others may be awaited, too."
        }
        _ => {
            "Which ranks belong to a communicator that is not made yet, or to one of MPI, is not recorded, \
             so not all of those may be awaited."
        }
    }
}

/// What the machine shows of processes before their first communicator.
fn before_first(found: &BeforeFirst) -> String {
    let awaited = found.awaited();
    let all = found.processes.len();
    let time = found
        .running_for
        .map_or(String::new(), |ns| format!(" in {}", span(ns)));
    let of_these = |these: &[&Starting]| -> Vec<ProcessId> {
        these.iter().map(|of| of.name.clone()).collect()
    };
    // `Hang:` stands before other sentences in the same way.
    let cant_tell = match found.by_time.hang() {
        Some(true) => "",
        _ => "Can't tell: ",
    };
    let in_init = found.in_init_for.map(|ns| {
        let all: Vec<&Starting> = found.processes.iter().filter(|of| of.in_init).collect();
        let who = have(&names(&of_these(&all)), all.len());
        let time = span(ns);
        format!("{who} been in the init of a communicator for {time} (NCCL's log)")
    });
    if !found.gone.is_empty() {
        let (rank, has, it) = match found.gone.len() {
            1 => ("rank", "has", "it"),
            _ => ("ranks", "have", "them"),
        };
        let gone = ranges(found.gone.iter().copied());
        let they_wait = match &in_init {
            Some(in_init) => in_init.clone(),
            None => {
                format!("the others may wait for {it}. None here has made a communicator{time}")
            }
        };
        return format!(
            "{cant_tell}{rank} {gone} {has} no process on this machine any more, or never had one, and \
             {they_wait}."
        );
    }
    match awaited.first() {
        None if all == 0 => "Can't tell: no process of this job runs on this machine any more, and none had \
                             made a communicator."
            .to_owned(),
        None if all == 1 => format!(
            "Can't tell: one process of this job runs on this machine, and has made no communicator{time}."
        ),
        None => format!(
            "Can't tell: {all} processes of this job run on this machine, and none has made a \
             communicator{time}."
        ),
        Some(first) if first.is_stopped => format!(
            "Can't tell: {} stopped by a signal or a debugger, and no process of this job on this machine \
             has made a communicator{time}.",
            are(&names(&of_these(&awaited)), awaited.len())
        ),
        Some(_) if found.is_in_init() => {
            let who = have(&names(&of_these(&awaited)), awaited.len());
            let in_init = in_init.unwrap_or_else(|| "others have, by NCCL's log".to_owned());
            format!("{cant_tell}{who} not begun to make a communicator, and {in_init}.")
        }
        Some(_) => {
            let others = all - awaited.len();
            let others = if others == 1 { "1 other has" } else { &format!("{others} others have") };
            format!(
                "Can't tell: {} not loaded NCCL, and {others}, so they may wait for it. None on this \
                 machine has made a communicator{time}.",
                have(&names(&of_these(&awaited)), awaited.len()),
            )
        }
    }
}

fn before_first_details(found: &BeforeFirst) -> Vec<String> {
    let with: Vec<ProcessId> = found
        .processes
        .iter()
        .filter(|of| of.has_nccl)
        .map(|of| of.name.clone())
        .collect();
    let loaded = match (with.len(), found.processes.len()) {
        (_, 0) => None,
        (0, 1) => Some("It has not loaded NCCL.".to_owned()),
        (0, _) => Some("None of them has loaded NCCL.".to_owned()),
        _ => Some(format!("NCCL is loaded in {}.", names(&with))),
    };
    let log = match &found.said {
        Some(said) => format!("NCCL's log: {said}"),
        None => "With `NCCLSCOPE_NCCL_LOG=on ncclscope run`, NCCL's log shows how far each rank's init came."
            .to_owned(),
    };
    let looks = "Loading a model, or compiling, before the first communicator looks the same.";
    let may_end = found.by_time.hang() != Some(true) && !found.processes.is_empty();
    let looks = may_end.then(|| looks.to_owned());
    loaded.into_iter().chain([log]).chain(looks).collect()
}

/// What another tool says of processes, beside a verdict that is about something else.
pub(super) fn said(hang: &Hang) -> Vec<String> {
    let own = match &hang.verdict {
        Verdict::Quiet(Quiet {
            because: Because::Said(own),
            ..
        }) => Some(own),
        _ => None,
    };
    let others = hang.said.iter().filter(|said| Some(*said) != own);
    others.map(|said| capital(said_sentence(said))).collect()
}

fn said_sentence(said: &Said) -> String {
    let who = names(&said.of);
    match said.state {
        SaidState::Failed => format!("{who} reported an {}.", said.text),
        SaidState::InInit if said.of.len() > 1 => {
            format!("{} ranks are still in ncclCommInit: {who}.", said.of.len())
        }
        SaidState::InInit => format!("{who} is still in ncclCommInit."),
        SaidState::NoAnswer => format!("{who} gave {}.", said.text),
    }
}

fn said_details(said: &Said) -> Vec<String> {
    let text = match said.state {
        SaidState::Failed => {
            "NCCL returns that error to the program, and calls on that communicator do not end any more. The \
             rank's log has the reason if NCCL_DEBUG is WARN or INFO."
        }
        SaidState::InInit => {
            "They wait there for each other, or for a rank that has not come. If that lasts, NCCL_DEBUG=INFO \
             shows how far each rank came."
        }
        SaidState::NoAnswer => "A process that is stopped, or that has no time for RAS, looks the same.",
    };
    vec![text.to_owned()]
}

fn has_rank_in_mpi(of: &CommunicatorProgress) -> bool {
    let long = |inside: &Inside| inside.lasted >= LONG;
    !of.over
        && of
            .ranks
            .iter()
            .any(|rank| rank.in_mpi.as_ref().is_some_and(long))
}

/// `ranks 3,5`, `rank 3`, `pid 71 on node-2`.
fn names(processes: &[ProcessId]) -> String {
    let ranks: Option<Vec<u32>> = processes.iter().map(|process| process.rank).collect();
    match ranks {
        Some(ranks) if ranks.len() > 1 => format!("ranks {}", ranges(ranks)),
        _ => {
            let name = |process: &ProcessId| match process.rank {
                Some(rank) => format!("rank {rank}"),
                None => format!(
                    "pid {} on {}",
                    tables::pid::shown(process.pid),
                    process.host
                ),
            };
            let names: Vec<String> = processes.iter().take(NAMED).map(name).collect();
            names.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::hang::{ByTime, InFunction};

    fn rank(rank: u32) -> ProcessId {
        ProcessId {
            rank: Some(rank),
            host: "node-1".to_owned(),
            pid: 100 + rank,
        }
    }

    #[test]
    fn ranks_in_a_split_are_told_with_those_that_are_not() {
        let group = |function: &str, ranks: &[u32]| InFunction {
            function: function.to_owned(),
            ranks: ranks.iter().copied().map(rank).collect(),
        };
        let mut found = Blocked {
            inside: vec![group("ncclCommSplit", &[0, 1])],
            outside: vec![rank(2)],
            names_some: true,
            lasted: Nanos::from_seconds(130.0),
            by_time: ByTime::Hang,
        };
        let said = "ranks 0-1 are inside of ncclCommSplit for 2.17 min, and rank 2 is not: each call ends \
            when all ranks of its communicator have come.";
        assert_eq!(blocked(&found), said);
        found.by_time = ByTime::TooEarly;
        assert_eq!(blocked(&found), format!("Can't tell yet: {said}"));
        found.outside.clear();
        found.inside.push(group("MPI_Recv", &[2]));
        assert_eq!(
            blocked(&found),
            "Can't tell yet: ranks 0-1 are inside of ncclCommSplit for 2.17 min, and rank 2 is inside of \
             MPI_Recv: each call ends when all ranks of its communicator have come."
        );
        found.inside = vec![group("ncclCommSplit", &[0, 1, 2])];
        assert_eq!(
            blocked(&found),
            "Can't tell yet: all 3 ranks are inside of ncclCommSplit, and nothing has happened for 2.17 min."
        );
    }
}
