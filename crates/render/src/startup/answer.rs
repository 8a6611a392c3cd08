//! The first sentences of a start-up: what failed, who was late, or what took longest, and what to do.
//!
//! Rule: a failure comes before a late rank, and a late rank before a phase, because waiting for either is
//! counted in the phases of the others.

use super::advice::{after_warning, phase_advice};
use super::{millis, named, seconds, used};
use crate::layout::plural;
use analyze::spelling::{capital, ranges, size};
use analyze::startup::{ProcessRow, Startup, Whole};
use setup::failure::Failure;
use setup::late::Late;
use setup::startup::{Cause, CommunicatorStartup, Leg, PhaseRow, RankInit, Together, LATE};
use setup::warnings::Gravity;
use std::collections::BTreeSet;

/// Other ranks took as long as the one on the critical path if they took this part of its time at least.
const ALIKE: f64 = 0.5;
/// Several communicators are the answer if they took this much more than the slowest of them.
const SEVERAL: f64 = 1.5;
/// A cause of less than this part of the time of several communicators is not named.
const PART: f64 = 0.2;
/// Causes that a sentence names.
const CAUSES: usize = 2;
/// A rank with this part of a cause is named alone.
const ALL: f64 = 0.9;
/// Hosts that a sentence names one by one.
const HOSTS: usize = 4;
/// Less time is not worth a word of advice, in seconds.
pub(super) const WORTH_S: f64 = 1.0;
/// Ranks that a sentence names one by one.
const NAMED: usize = 8;

/// What is said first.
pub(crate) enum Answer<'a> {
    /// NCCL said why ranks did not end.
    Failed(&'a Failure),
    /// Ranks of this communicator did not end.
    Unfinished(&'a CommunicatorStartup),
    /// The others waited for a rank.
    Late(&'a CommunicatorStartup, &'a Late),
    /// Many communicators, one after the other.
    Together(&'a Together),
    /// A phase on a rank.
    Phase(&'a CommunicatorStartup, &'a Leg),
}

impl<'a> Answer<'a> {
    /// The answer; nothing if nothing failed and no phases are known.
    pub(crate) fn of(startup: &'a Startup) -> Option<Answer<'a>> {
        if let Some(failure) = &startup.failure {
            return Some(Answer::Failed(failure));
        }
        let mut all = startup.communicators.iter();
        // That of the most ranks: others wait for it.
        let open = all
            .clone()
            .filter(|communicator| !communicator.unfinished.is_empty());
        if let Some(open) = open.reduce(|a, b| if b.nranks > a.nranks { b } else { a }) {
            return Some(Answer::Unfinished(open));
        }
        let slowest = all.next()?;
        let longest = longest(slowest);
        let leg_s = longest.map_or(0.0, |leg| leg.time_s);
        let total_s = total_s(slowest);
        let late = slowest.late.as_ref().filter(|late| late.by_s > leg_s);
        let several = startup.together.as_ref();
        let several = several.filter(|all| all.time_s >= SEVERAL * total_s);
        match (several, late, longest) {
            (Some(several), _, _) => Some(Answer::Together(several)),
            (None, Some(late), _) => Some(Answer::Late(slowest, late)),
            (None, None, longest) => Some(Answer::Phase(slowest, longest?)),
        }
    }

    /// In sentences.
    pub(crate) fn sentence(&self, startup: &Startup) -> String {
        match self {
            Answer::Failed(failure) => failed(failure, startup),
            Answer::Unfinished(communicator) => unfinished(communicator, startup),
            Answer::Late(communicator, late) => was_late(communicator, late),
            Answer::Together(several) => together(several, startup),
            Answer::Phase(communicator, leg) => phase(communicator, leg, startup),
        }
    }

    /// How long what it names took, s; nothing for a failure, which always matters.
    pub(super) fn time_s(&self) -> Option<f64> {
        match self {
            Answer::Failed(_) | Answer::Unfinished(_) => None,
            Answer::Late(_, late) => Some(late.by_s),
            Answer::Together(several) => several.causes.first().map(|cause| cause.time_s),
            Answer::Phase(_, leg) => Some(leg.time_s),
        }
    }

    /// What helps; nothing if it took little.
    pub(super) fn advice(&self) -> Option<String> {
        if self.time_s().is_some_and(|time_s| time_s < WORTH_S) {
            return None;
        }
        let advice = match self {
            Answer::Failed(failure) => after_warning(&failure.warning),
            Answer::Unfinished(communicator) => ask(communicator),
            Answer::Late(_, late) => late_advice(&whom(late)),
            Answer::Together(several) => {
                let advice = named_causes(several).filter_map(|cause| match cause.phase {
                    LATE => Some(late_advice(&format!("rank {}", cause.rank))),
                    phase => phase_advice(phase).map(str::to_owned),
                });
                let all: Vec<String> = advice.collect();
                (!all.is_empty()).then(|| all.join(" "))?
            }
            Answer::Phase(_, leg) => phase_advice(leg.phase)?.to_owned(),
        };
        Some(advice)
    }
}

/// How long the slowest rank took.
fn total_s(communicator: &CommunicatorStartup) -> f64 {
    communicator.phases.last().map_or(0.0, |row| row.slowest_s)
}

/// The longest leg of a communicator's critical path; the first of several.
fn longest(communicator: &CommunicatorStartup) -> Option<&Leg> {
    let path = communicator.critical_path.iter();
    path.reduce(|a, b| if b.time_s > a.time_s { b } else { a })
}

fn failed(failure: &Failure, startup: &Startup) -> String {
    let warning = &failure.warning;
    let mut place = Vec::new();
    if warning.pid != 0 {
        place.push(format!("process {}", warning.pid));
    }
    if !warning.host.is_empty() {
        place.push(format!("on {}", warning.host));
    }
    let device = warning.device.map(|device| format!("GPU {device}"));
    let who = match failure
        .rank
        .filter(|_| failure.nranks.is_some_and(|n| n > 1))
    {
        Some(rank) => {
            let place = [place.join(" ")].into_iter().filter(|p| !p.is_empty());
            let place: Vec<String> = place.chain(device).collect();
            if place.is_empty() {
                format!("Rank {rank}")
            } else {
                format!("Rank {rank} ({})", place.join(", "))
            }
        }
        None => {
            if warning.pid == 0 {
                place.insert(0, "a process".to_owned());
            }
            let device = device.map_or(String::new(), |device| format!(" ({device})"));
            capital(format!("{}{device}", place.join(" ")))
        }
    };
    let from = match (warning.source.as_str(), through(failure)) {
        ("", None) => String::new(),
        (source, None) => format!(" ({source})"),
        ("", Some(through)) => format!(" ({through})"),
        (source, Some(through)) => format!(" ({source}, {through})"),
    };
    let what = match failure.bytes {
        Some(bytes) => {
            let gpu = if warning.text.to_ascii_lowercase().contains("cuda") {
                " of GPU memory"
            } else {
                ""
            };
            format!("failed to allocate {}{gpu}{from}", size(bytes))
        }
        None if warning.gravity() == Gravity::Consequence => {
            format!(
                "lost the connection to another process: `{}`{from}",
                warning.text
            )
        }
        None => format!("failed: `{}`{from}", warning.text),
    };
    let ended = match failure.rank {
        Some(_) => "and did not end its init",
        None => "and nothing says that it got ready",
    };
    let others = others(startup);
    format!("{who} {what}, {ended}.{others}")
}

/// For what NCCL needed what it did not get.
fn through(failure: &Failure) -> Option<String> {
    let place = failure.warning.through.first()?;
    let what = match place.split(':').next()? {
        "transport/net.cc" => "for the buffers of the network, ",
        "transport/shm.cc" => "for shared memory between processes, ",
        "transport/p2p.cc" => "for buffers between GPUs, ",
        "transport/nvls.cc" => "for NVLink SHARP, ",
        _ => "",
    };
    Some(format!("{what}called from {place}"))
}

/// How the other communicators fared.
fn others(startup: &Startup) -> String {
    let is_ready = |c: &&CommunicatorStartup| {
        c.unfinished.is_empty() && c.silent.is_empty() && c.cut.is_empty()
    };
    let ready = startup.communicators.iter().filter(is_ready).count();
    match ready {
        0 => String::new(),
        n => format!(
            " {} made.",
            plural(
                n as u64,
                "other communicator was",
                "other communicators were"
            )
        ),
    }
}

/// Ranks that said that they were ready.
fn ready(communicator: &CommunicatorStartup) -> Vec<u32> {
    let open = [&communicator.unfinished, &communicator.cut];
    let ranks = communicator.ranks.iter().map(|row| row.rank);
    ranks
        .filter(|rank| open.iter().all(|of| !of.contains(rank)))
        .collect()
}

/// `Ranks 0, 2 are`.
fn are(ranks: &[u32], begins: bool) -> String {
    let is = if ranks.len() == 1 { "is" } else { "are" };
    format!("{} {is}", some(ranks, begins))
}

fn unfinished(communicator: &CommunicatorStartup, startup: &Startup) -> String {
    let open = &communicator.unfinished;
    let ready = ready(communicator);
    let of = plural(communicator.nranks.into(), "rank", "ranks");
    let last = startup.communicators.iter().map(|c| c.attempt).max();
    let attempt = match last.unwrap_or(1) {
        1 => String::new(),
        last => format!(" (attempt {} of {last})", communicator.attempt),
    };
    let said = match (ready.is_empty(), communicator.silent.is_empty()) {
        (true, true) => format!(
            "All {of} began to make the communicator{attempt}, and none said that it was ready."
        ),
        (true, false) => format!(
            "{} never came to the communicator of {of}{attempt}: there is no line of it, and {} began and \
             did not end.",
            some(&communicator.silent, true),
            some(open, false)
        ),
        (false, _) => format!(
            "{} began to make the communicator of {of}{attempt} and did not end. {} ready.",
            some(open, true),
            are(&ready, true)
        ),
    };
    said + &unknown(communicator, ready.is_empty()) + &others(startup)
}

/// Of which ranks nothing or not all is known; `is_said` is whether that nobody came is said already.
fn unknown(communicator: &CommunicatorStartup, is_said: bool) -> String {
    let mut said = String::new();
    if !communicator.silent.is_empty() && !is_said {
        let silent = some(&communicator.silent, false);
        said += &format!(" There is no line about {silent}.");
    }
    if !communicator.cut.is_empty() {
        said += &format!(
            " The output of {} ends in the middle of a line, so what came behind it is lost.",
            some(&communicator.cut, false)
        );
    }
    said
}

/// What to do about ranks that began and did not end.
fn ask(communicator: &CommunicatorStartup) -> String {
    // If a rank is ready, all have come.
    if !communicator.silent.is_empty() && ready(communicator).is_empty() {
        let (run, reach, whose) = match communicator.silent.len() {
            1 => ("runs", "reaches", "its process"),
            _ => ("run", "reach", "a process"),
        };
        return format!(
            "See if {} {run} at all and {reach} the others: {whose} may have ended or may still load, the \
             number of ranks may be wrong, or its output may be elsewhere.",
            some(&communicator.silent, false)
        );
    }
    let open = |rank: u32| communicator.unfinished.contains(&rank);
    let row = communicator.ranks.iter().find(|row| open(row.rank));
    match row.filter(|row| row.pid != 0) {
        Some(row) => format!(
            "Look into one of these processes while it waits: `py-spy dump --pid {}` or `gdb -p {} -batch \
             -ex 'thread apply all bt'` on {}. If it has ended, its own output says why.",
            row.pid, row.pid, row.host
        ),
        None => "See if these processes still run. If one has ended, its own output says why.".to_owned(),
    }
}

/// `Ranks 1, 3, 5, 7`.
fn some(ranks: &[u32], begins: bool) -> String {
    let list = if ranks.len() <= NAMED {
        let all: Vec<String> = ranks.iter().map(u32::to_string).collect();
        all.join(", ")
    } else {
        ranges(ranks.iter().copied())
    };
    let word = match (begins, ranks.len()) {
        (true, 1) => "Rank",
        (true, _) => "Ranks",
        (false, 1) => "rank",
        (false, _) => "ranks",
    };
    format!("{word} {list}")
}

/// `rank 3`, `ranks 3, 5`, or `all 8 ranks of n1 (8-15)`.
fn whom(late: &Late) -> String {
    match late.ranks.len() {
        0 | 1 => format!("rank {}", late.rank),
        n if late.are_whole_hosts => {
            let hosts = match late.hosts.as_slice() {
                hosts if hosts.len() <= HOSTS => hosts.join(", "),
                hosts => format!("{} hosts", hosts.len()),
            };
            let numbers = ranges(late.ranks.iter().copied());
            let all = match n {
                2 => "both".to_owned(),
                n => format!("all {n}"),
            };
            format!("{all} ranks of {hosts} ({numbers})")
        }
        _ => some(&late.ranks, false),
    }
}

fn was_late(communicator: &CommunicatorStartup, late: &Late) -> String {
    let of = plural(communicator.nranks.into(), "rank", "ranks");
    let on = match late.hosts.as_slice() {
        [host] if !host.is_empty() && !late.are_whole_hosts => format!(" on {host}"),
        _ => String::new(),
    };
    let who = format!("{}{on}", whom(late));
    let is_one = late.ranks.len() < 2;
    let own = late.own_s.map_or(String::new(), |own_s| {
        let whose = if is_one {
            "Its own init".to_owned()
        } else {
            format!("The init of rank {}", late.rank)
        };
        format!(" {whose} took {} s.", seconds(own_s))
    });
    // NCCL's figures have 10 ms, and three are added.
    let by = if late.by_s - late.least_s < 0.05 {
        seconds(late.by_s)
    } else {
        format!("{} to {}", seconds(late.least_s), seconds(late.by_s))
    };
    let them = if is_one { "it" } else { "them" };
    let total_s = total_s(communicator);
    if total_s <= 0.0 {
        format!(
            "{} began to make a communicator of {of} {by} s after the first rank, which waited for {them}.",
            capital(&who)
        )
    } else {
        format!(
            "Making the slowest communicator ({of}) took {} s, because {who} began {by} s after the first \
             rank. The others waited for {them} in bootstrap.{own}",
            seconds(total_s)
        )
    }
}

/// The causes of several communicators' time that matter; one at least, if any is known.
fn named_causes(several: &Together) -> impl Iterator<Item = &Cause> {
    let counts = |(at, cause): &(usize, &Cause)| *at == 0 || cause.time_s >= PART * several.time_s;
    let causes = several.causes.iter().enumerate().filter(counts);
    causes.map(|(_, cause)| cause).take(CAUSES)
}

fn together(several: &Together, startup: &Startup) -> String {
    let slowest = startup.communicators.first();
    let slowest = slowest.map_or(String::new(), |slowest| {
        format!(
            " The slowest one ({}) took {} s.",
            plural(slowest.nranks.into(), "rank", "ranks"),
            seconds(total_s(slowest))
        )
    });
    let where_ = match (several.pid, several.host.as_str()) {
        (0, _) => String::new(),
        (pid, host) => format!(" (process {pid} on {host})"),
    };
    let causes: Vec<String> = named_causes(several).map(|c| caused(c, several)).collect();
    format!(
        "Making {} communicators one after the other took {} s on rank {}{where_}.{}{slowest}{}",
        several.communicators,
        seconds(several.time_s),
        several.rank,
        causes.concat(),
        in_vain(startup),
    )
}

/// That some communicators were made and are hardly used.
fn in_vain(startup: &Startup) -> String {
    let timed = startup.hardly_used.iter().filter_map(|of| of.time_s);
    let time_s: f64 = timed.clone().sum();
    if time_s < WORTH_S {
        return String::new();
    }
    let n = plural(
        timed.count() as u64,
        "communicator has",
        "communicators have",
    );
    format!(
        " {n} two calls or fewer on each rank in this run, and took {} s.",
        seconds(time_s)
    )
}

/// ` 12.50 s of it was a wait for rank 3, which began late (in 1 of them).`
fn caused(cause: &Cause, several: &Together) -> String {
    let in_ = match cause.communicators {
        0 => String::new(),
        n if n == several.communicators => " (in all of them)".to_owned(),
        n => format!(" (in {n} of them)"),
    };
    let time = seconds(cause.time_s);
    let rank = cause.rank;
    let is_one = cause.rank_s >= ALL * cause.time_s;
    let most = format!("{} s of that", seconds(cause.rank_s));
    match (cause.phase, is_one) {
        (LATE, true) => {
            format!(" {time} s of it was a wait for rank {rank}, which began late{in_}.")
        }
        (LATE, false) => {
            format!(" {time} s of it was a wait for ranks that began late{in_}, {most} for rank {rank}.")
        }
        (phase, true) => format!(" {time} s of it was {} on rank {rank}{in_}.", named(phase)),
        (phase, false) if cause.rank_s >= ALIKE * cause.time_s => {
            format!(
                " {time} s of it was {}{in_}, {most} on rank {rank}.",
                named(phase)
            )
        }
        (phase, false) => format!(" {time} s of it was {}{in_}.", named(phase)),
    }
}

fn phase(communicator: &CommunicatorStartup, leg: &Leg, startup: &Startup) -> String {
    let of = plural(communicator.nranks.into(), "rank", "ranks");
    let row = |row: &&PhaseRow| row.phase == leg.phase;
    let shortest = communicator.phases.iter().find(row);
    let shortest = shortest.map_or(0.0, |row| row.shortest_s);
    let others = if communicator.ranks_known > 1 && shortest >= ALIKE * leg.time_s {
        format!(", and {} s or more on each other", seconds(shortest))
    } else {
        String::new()
    };
    let is_wait = leg.phase == "bootstrap" && leg.time_s >= WORTH_S;
    let known = match (communicator.ranks_known == communicator.nranks, is_wait) {
        (true, _) => String::new(),
        (false, false) => format!(
            " Only {} of the {of} said how long it took. So another one may have been slower.",
            communicator.ranks_known
        ),
        (false, true) => {
            let missing = communicator.nranks.saturating_sub(communicator.ranks_known);
            let who = match missing {
                1 => "the one".to_owned(),
                n => format!("one of the {n}"),
            };
            format!(" There they wait for the last rank to begin: probably {who} without times.")
        }
    };
    let row = communicator.ranks.iter().find(|row| row.rank == leg.rank);
    let own_s = row.and_then(|row| plugin_s(startup, row)).unwrap_or(0.0);
    let what = if leg.phase == "rest" && own_s >= ALIKE * leg.time_s {
        "the init of ncclscope's own plugin, which NCCL counts in no phase"
    } else {
        named(leg.phase)
    };
    // The rest of the start is worth a word only if it is more.
    let is_more = |of: &Whole| of.total_s >= SEVERAL * total_s(communicator);
    let more = startup.whole.as_ref().filter(|of| is_more(of));
    let whole = more
        .and_then(|_| whole(startup))
        .map_or(String::new(), |whole| format!(" {whole}"));
    format!(
        "{}Making the slowest communicator ({of}) took {} s. The largest part of it was {what}: {} s on rank \
         {}{others}.{known}{whole}",
        alone(startup),
        seconds(total_s(communicator)),
        seconds(leg.time_s),
        leg.rank,
    )
}

/// How long the recorder took in the process of a rank, s.
fn plugin_s(startup: &Startup, of: &RankInit) -> Option<f64> {
    let is_its = |row: &&ProcessRow| row.process.pid == of.pid && row.process.host == of.host;
    startup.processes.iter().find(is_its)?.plugin_init_s
}

/// What is said if nothing failed and no phases are known.
pub(super) fn nothing(startup: &Startup) -> String {
    let communicators = &startup.communicators;
    let said = match communicators.as_slice() {
        [] => String::new(),
        [one] => {
            let of = plural(one.nranks.into(), "rank", "ranks");
            let ready = ready(one);
            let said = match ready.len() {
                0 => format!("No rank of {of} said that it was ready."),
                n if n == one.nranks as usize => format!("All {of} are ready."),
                _ => format!("{} ready, of a communicator of {of}.", are(&ready, true)),
            };
            format!("{said}{} ", unknown(one, false))
        }
        several => format!("{} communicators are ready. ", several.len()),
    };
    let alone = alone(startup);
    if let Some(whole) = whole(startup) {
        return format!("{alone}{said}{whole}");
    }
    let why = if communicators.is_empty() {
        "The phases of start-up are not known: there is no line `Init timings` of NCCL."
    } else {
        "The phases of start-up are not known: NCCL prints them from 2.22 on (`Init timings`), and this \
         output has none."
    };
    format!("{alone}{said}{why}")
}

/// The start of the process that took longest, and what of it did, if a capture has it.
fn whole(startup: &Startup) -> Option<String> {
    let whole = startup.whole.as_ref()?;
    let longest = whole
        .parts
        .iter()
        .reduce(|a, b| if b.time_s > a.time_s { b } else { a })?;
    let who = super::tree::who(whole);
    let uses = longest.first_uses.iter().map(|of| &of.first);
    let most = uses.filter(|of| of.in_start);
    let most = most.clone().find_map(|of| Some((of, of.longer_s?)));
    let what = match (longest.part, most) {
        ("to_init", _) => "was before NCCL's first init was done".to_owned(),
        ("to_first_call", _) => "was between NCCL's first init and the first call".to_owned(),
        ("later_inits", _) => "went into making communicators after the first call".to_owned(),
        (_, Some((of, time_s))) => format!(
            "went into first uses: the {} took {} s longer than later calls",
            used(of),
            millis(time_s)
        ),
        (_, None) => "went into first uses".to_owned(),
    };
    Some(format!(
        "The start of {who} took longest, {} s. {} s of it {what}.",
        millis(whole.total_s),
        millis(longest.time_s)
    ))
}

/// That processes made communicators of their own, if that is all they made.
fn alone(startup: &Startup) -> String {
    let all = &startup.communicators;
    let places = all.iter().flat_map(|of| &of.ranks);
    let processes: BTreeSet<(&str, u32)> = places.map(|row| (row.host.as_str(), row.pid)).collect();
    if processes.len() < 2 || all.iter().any(|of| of.nranks != 1) {
        return String::new();
    }
    format!(
        "Each of {} processes made a communicator of its own with one rank, so they do not communicate. ",
        processes.len()
    )
}

/// What helps if these ranks began late.
fn late_advice(who: &str) -> String {
    let they = if who.starts_with("rank ") {
        "it loaded data or a model, compiled, or its node"
    } else {
        "they loaded data or a model, compiled, or their node"
    };
    format!(
        "See what {who} did before the call of NCCL: {they} started late. `py-spy dump --pid PID` shows it \
         while the others wait."
    )
}
