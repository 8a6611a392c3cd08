//! What NCCL's RAS answers, as text (NCCL 2.24 on) or JSON (2.28.7 on): how many operations of each kind
//! every rank of a communicator has launched, who did not answer, and who reported an error.
//!
//! ```text
//! JSON     communicators[] ▶ ranks[] ▶ collective_counts    every rank of every communicator
//!                          ▶ missing_ranks[]                unresponsive, considered dead
//! text     #0-0 (fa93daea854b060b) MISMATCH                 only communicators that stand out
//!            30 ranks have launched up to operation 640     ranks of small groups by name, others counted
//!            Rank 12 -- GPU 4 managed by process 2012 on node 10.0.0.2
//! ```
//!
//! A [`Reader`] takes all files of a job. Each answer is a moment. RAS has no times of calls, so one answer
//! does not say how long anybody has waited: the time from which on a count stands still is that of the first
//! answer that has it.
//!
//! Operations that all ranks have launched are given to each rank as the last one of that kind. Operations
//! beyond are open on the ranks that have launched them: a collective can't end without all ranks. RAS counts
//! each function by itself, so the order of two functions is found from the ranks: those that came to the
//! later operation are among those that came to the earlier one.
//!
//! Rule: a rank of which the answer says nothing has no calls here, and a count that the text gives for ranks
//! that it does not name counts only if no other ranks could be meant.

use crate::found::{ranks_of_largest, ByFile, Damage, OfJob};
use crate::json::{Fault, Json};
use crate::value::{Id, Tree};
use crate::writer::{host_facts, Call, Communicator, Process, MOST_COMMUNICATORS};
use nccl_abi::names;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Bytes of a file that are read.
const MOST_BYTES: u64 = 1 << 28;
/// Answers of a job that are kept: the newest.
const MOST_ANSWERS: usize = 64;
/// Ranks of all communicators of an answer.
const MOST_RANKS: usize = 1 << 20;
/// Operations of a function between the first rank and the last that are shown one by one.
const MOST_AHEAD: u64 = 256;
/// Lines about ranks with an error.
const MOST_LINES: usize = 64;

/// Whether a key at the top of a JSON object is of such an answer.
pub fn is_key(key: &str) -> bool {
    key == "communicators_count"
}

/// Whether a text is such an answer.
pub fn is_text(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| line == "Job summary" || line.starts_with("Communicators... ("))
}

/// A rank of a communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Member {
    pid: Option<u32>,
    host: Option<String>,
    device: Option<u32>,
    /// Operations by function.
    counts: BTreeMap<&'static str, u64>,
    /// It did not answer.
    is_missing: bool,
    /// RAS considers its process dead.
    is_dead: bool,
    /// What is wrong with it, in RAS's words.
    says: Vec<String>,
}

impl Member {
    /// Whether its process did not answer.
    fn is_silent(&self) -> bool {
        self.is_dead || self.says.iter().any(|says| says == UNRESPONSIVE)
    }

    /// What its process is, if it is not well: the facts `state` and `said`.
    fn state(&self) -> Option<(&'static str, &str)> {
        let failed = self.says.iter().find(|says| says.contains(ERROR));
        let in_init = self.says.iter().find(|says| *says == IN_INIT);
        match (failed, in_init) {
            _ if self.is_dead => None,
            _ if self.is_silent() => Some(("no_answer", UNRESPONSIVE)),
            (Some(says), _) => Some(("failed", says)),
            (None, Some(says)) => Some(("in_init", says)),
            (None, None) => None,
        }
    }
}

/// A communicator.
#[derive(Clone, Debug, Default)]
struct Seen {
    nranks: u32,
    members: BTreeMap<u32, Member>,
    /// Functions whose counts are not known for all ranks that answered.
    unclear: BTreeSet<&'static str>,
}

/// One answer.
#[derive(Clone, Debug, Default)]
struct Answer {
    file: PathBuf,
    /// When RAS was asked, ns since 1970.
    at: u64,
    nccl: String,
    /// By hash; the second number tells apart what has one hash.
    communicators: BTreeMap<(u64, u64), Seen>,
    /// Ranks in all its communicators, by the summary.
    ranks_in_text: u64,
}

/// Reads the answers of a job.
#[derive(Debug, Default)]
pub struct Reader {
    answers: Vec<Answer>,
}

impl Reader {
    fn read_json(&mut self, bytes: &[u8], damage: &mut Vec<Damage>) -> Result<(), Fault> {
        let mut json = Json::new(bytes);
        while !json.is_at_end()? {
            let (mut tree, at) = (Tree::default(), json.position());
            match tree.from_json(&mut json) {
                Ok(root) => self.answers.push(of_json(&tree, root)),
                Err(Fault::Truncated) => {
                    let found = "the end of the file".to_owned();
                    damage.push((format!("byte {at}"), "the rest of an answer".into(), found));
                    break;
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    fn read_text(&mut self, text: &str) {
        let mut parsing = Parsing::default();
        for line in text.lines() {
            if line.trim().starts_with("NCCL version ") && parsing.has_lines {
                self.answers.push(std::mem::take(&mut parsing).finish());
            }
            parsing.line(line.trim());
        }
        self.answers.push(parsing.finish());
    }

    /// From when on a rank is known to have launched an operation that not all have launched: the first of
    /// the answers without a break in which it is so. 0, not known, if that is the last one.
    fn since(&self, key: (u64, u64), rank: u32, step: &Step) -> u64 {
        let is_so = |answer: &&Answer| {
            let Some(seen) = answer.communicators.get(&key) else {
                return false;
            };
            let count = |member: &Member| member.counts.get(step.function).copied();
            let own = seen.members.get(&rank).and_then(count);
            let all = seen.members.values().filter_map(count);
            own.is_some_and(|n| n >= step.number) && all.min().is_some_and(|n| n < step.number)
        };
        let so = self.answers.iter().rev().take_while(is_so);
        let times: Vec<u64> = so.map(|answer| answer.at).collect();
        match (step.by_all, &times[..]) {
            (false, [_, .., first]) => *first,
            _ => 0,
        }
    }
}

impl OfJob for Reader {
    fn read(&mut self, file: &Path, input: Box<dyn Read + '_>) -> Result<Vec<Damage>, Fault> {
        let mut bytes = Vec::new();
        let mut input = input.take(MOST_BYTES);
        input.read_to_end(&mut bytes).map_err(Fault::Io)?;
        let mut damage = Vec::new();
        let first = self.answers.len();
        let is_json = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        if is_json {
            self.read_json(&bytes, &mut damage)?
        } else {
            self.read_text(&String::from_utf8_lossy(&bytes))
        }
        for answer in &mut self.answers[first..] {
            answer.file = file.to_owned();
            if answer.at == 0 {
                answer.at = written(file).unwrap_or(1);
            }
        }
        Ok(damage)
    }

    fn finish(mut self: Box<Self>) -> (ByFile<Process>, ByFile<Damage>) {
        self.answers.sort_by_key(|answer| answer.at);
        let old = self.answers.len().saturating_sub(MOST_ANSWERS);
        self.answers.drain(..old);
        let Some(last) = self.answers.last() else {
            return (Vec::new(), Vec::new());
        };
        let mut problems = Vec::new();
        if last.communicators.is_empty() {
            let found = format!(
                "{} ranks in step: as text, RAS names only ranks that stand out, and `ncclras -f json` (NCCL \
                2.28.7) all",
                last.ranks_in_text
            );
            let expected = "a communicator with ranks that stand out".to_owned();
            problems.push((
                last.file.clone(),
                ("its content".to_owned(), expected, found),
            ));
        }
        let mut processes = Processes::default();
        for (key, seen) in &last.communicators {
            let steps = steps(seen);
            for (rank, member) in &seen.members {
                // Who is no member did not answer here, and may have answered for another communicator.
                if member.is_missing && !member.is_silent() {
                    continue;
                }
                let Some(process) = processes.of(last, *key, *rank, member) else {
                    continue;
                };
                let communicator = process.communicators.len() as u32;
                process.communicators.push(Communicator {
                    hash: key.0,
                    nranks: seen.nranks,
                    rank: Some(*rank),
                    device: member.device,
                    ..Communicator::default()
                });
                // Nothing is known of the calls of who did not answer, but that others wait for the dead.
                let is_known = !member.is_missing || member.is_dead;
                for step in steps.iter().filter(|_| is_known) {
                    let is_open = !step.by_all;
                    if is_open && !step.ranks.contains(rank) {
                        continue;
                    }
                    process.calls.push(Call {
                        communicator,
                        function: step.function,
                        seq: Some(step.number),
                        called: self.since(*key, *rank, step),
                        is_open,
                        ..Call::default()
                    });
                }
            }
            problems.extend(said(last, *key, seen));
        }
        let moment = self.answers.first().map(|first| first.at);
        let mut processes = processes.all;
        for (_, process) in &mut processes {
            process.as_of = Some(last.at);
            process.moment = moment;
        }
        ranks_of_largest(&mut processes);
        // Without an answer a rank has no place beside the calls of the others.
        for (_, process) in &mut processes {
            if process.fact("state") == Some("no_answer") {
                process.communicators.clear();
            }
        }
        (processes, problems)
    }
}

/// When a file was written, ns since 1970.
fn written(file: &Path) -> Option<u64> {
    let modified = file.metadata().ok()?.modified().ok()?;
    u64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// An operation of a communicator.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    function: &'static str,
    number: u64,
    /// All ranks that answered have launched it.
    by_all: bool,
    /// Those that have.
    ranks: BTreeSet<u32>,
}

/// The newest operations that all ranks have launched, one for each function, and those beyond, in the order
/// in which they were launched.
fn steps(seen: &Seen) -> Vec<Step> {
    let answered = || seen.members.iter().filter(|(_, of)| !of.is_missing);
    let functions: BTreeSet<&'static str> = answered()
        .flat_map(|(_, of)| of.counts.keys().copied())
        .collect();
    let (mut all, mut beyond) = (Vec::new(), Vec::new());
    for function in functions.difference(&seen.unclear) {
        let count = |of: &Member| of.counts.get(function).copied().unwrap_or(0);
        let counts: Vec<(u32, u64)> = answered().map(|(rank, of)| (*rank, count(of))).collect();
        let least = counts.iter().map(|(_, n)| *n).min().unwrap_or(0);
        let most = counts.iter().map(|(_, n)| *n).max().unwrap_or(0);
        let step = |number: u64, by_all: bool| Step {
            function,
            number,
            by_all,
            ranks: counts
                .iter()
                .filter(|(_, n)| *n >= number)
                .map(|(rank, _)| *rank)
                .collect(),
        };
        if least > 0 {
            all.push(step(least, true));
        }
        let ahead = (least..most).map(|n| n + 1).take(MOST_AHEAD as usize);
        beyond.extend(ahead.map(|number| step(number, false)));
    }
    // The sort is stable: operations of one function stay in their order.
    beyond.sort_by_key(|step| std::cmp::Reverse(step.ranks.len()));
    all.extend(beyond);
    all
}

/// Processes, found by host and number, or, if the text does not name them, by their rank.
#[derive(Debug, Default)]
struct Processes {
    all: ByFile<Process>,
    known: HashMap<(String, u64), usize>,
}

impl Processes {
    fn of(
        &mut self,
        answer: &Answer,
        key: (u64, u64),
        rank: u32,
        member: &Member,
    ) -> Option<&mut Process> {
        let on_host = host_facts(member.host.clone(), &format!(" of rank {rank}"));
        let host = on_host.last().map_or("", |(_, host)| host.as_str());
        let id = match member.pid {
            Some(pid) => (host.to_owned(), u64::from(pid)),
            None => (format!("{:x} {:x} {host}", key.0, key.1), 1 << 32),
        };
        let next = self.all.len();
        let at = *self.known.entry(id).or_insert(next);
        if at == next {
            let mut facts = vec![
                ("mode", "ras".to_owned()),
                ("tool", "NCCL's RAS".to_owned()),
                ("timing", "host".to_owned()),
                ("timing_because", "RAS has no times of calls".to_owned()),
                ("nccl", answer.nccl.clone()),
                (
                    "pid",
                    member.pid.map_or(String::new(), |pid| pid.to_string()),
                ),
            ];
            facts.extend(on_host);
            let process = Process {
                facts,
                ..Process::default()
            };
            self.all.push((answer.file.clone(), process));
        }
        let process = &mut self.all[at].1;
        if member.is_dead && process.fact("life").is_none() {
            process.facts.push(("life", "gone".to_owned()));
        }
        if let Some((state, said)) = member.state() {
            // Its other communicators may be well.
            if process.fact("state").is_none() {
                process.facts.push(("state", state.to_owned()));
                process.facts.push(("said", said.to_owned()));
            }
        }
        (process.communicators.len() < MOST_COMMUNICATORS).then_some(process)
    }
}

/// What RAS says is wrong with a communicator, as problems of the file.
fn said(answer: &Answer, key: (u64, u64), seen: &Seen) -> Vec<(PathBuf, Damage)> {
    let mut by_text: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, member) in &seen.members {
        for text in &member.says {
            by_text.entry(text).or_default().push(*rank);
        }
    }
    let place = |ranks: &[u32]| {
        let s = if ranks.len() == 1 { "" } else { "s" };
        let numbers: Vec<String> = ranks.iter().take(8).map(u32::to_string).collect();
        let more = match ranks.len() {
            n if n > 8 => format!(" and {} more", n - 8),
            _ => String::new(),
        };
        format!(
            "rank{s} {}{more} of communicator {:x}",
            numbers.join(","),
            key.0
        )
    };
    let mut all: Vec<(PathBuf, Damage)> = Vec::new();
    for (text, ranks) in by_text.into_iter().take(MOST_LINES) {
        let damage = (
            place(&ranks),
            "an answer without error".into(),
            text.to_owned(),
        );
        all.push((answer.file.clone(), damage));
    }
    for function in &seen.unclear {
        let damage = (
            format!("communicator {:x}", key.0),
            format!("how many {function} each rank has launched"),
            "numbers without all ranks; `ncclras -v` or `ncclras -f json` names them".to_owned(),
        );
        all.push((answer.file.clone(), damage));
    }
    all
}

/// Adds what is said of a member once.
fn note(member: &mut Member, text: &str) {
    if !member.says.iter().any(|known| known == text) {
        member.says.push(text.to_owned());
    }
}

/// In what RAS says of a rank that reported one.
const ERROR: &str = " error: ";
const IN_INIT: &str = "its initialization is in progress";
const UNRESPONSIVE: &str = "no answer: its process is unresponsive";
const DEAD: &str = "no answer: RAS considers its process dead";
const NO_MEMBER: &str =
    "no answer: its process is no member of the communicator, not yet or not any more";

/// An NCCL result, in NCCL's words.
fn result(code: i64) -> String {
    let names = [
        "success",
        "unhandled CUDA error",
        "unhandled system error",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "in progress",
    ];
    let name = usize::try_from(code).ok().and_then(|code| names.get(code));
    name.map_or(format!("error {code}"), |name| (*name).to_owned())
}

/// NCCL's name of a function; `None` if it is not known.
fn function(name: &str) -> Option<&'static str> {
    names::FUNCS.iter().find(|known| **known == name).copied()
}

fn of_json(tree: &Tree, root: Id) -> Answer {
    let number = |of: Id, key: &str| u64::try_from(tree.int(tree.field(of, key)?)?).ok();
    let small = |of: Id, key: &str| u32::try_from(number(of, key)?).ok();
    let text = |of: Id, key: &str| tree.text(tree.field(of, key)?);
    let is = |of: Option<Id>, key: &str| {
        let value = of.and_then(|of| tree.field(of, key));
        value.is_some_and(|id| *tree.get(id) == crate::value::Node::Bool(true))
    };
    let hash = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
    let list = |of: Id, key: &str| tree.field(of, key).map_or(&[][..], |id| tree.list(id));
    let mut answer = Answer {
        at: text(root, "timestamp").and_then(moment).unwrap_or(0),
        nccl: text(root, "nccl_version").unwrap_or_default().to_owned(),
        ..Answer::default()
    };
    let mut ranks = 0;
    for communicator in list(root, "communicators") {
        let first = hash(text(*communicator, "hash").unwrap_or_default());
        let second = text(*communicator, "secondary_hash").unwrap_or_default();
        let second = second
            .split(':')
            .map(hash)
            .fold(0, |all, part| u64::rotate_left(all, 7) ^ part);
        let mut seen = Seen {
            nranks: small(*communicator, "size").unwrap_or(0),
            ..Seen::default()
        };
        let all = [("ranks", false), ("missing_ranks", true)];
        for (key, is_missing) in all {
            for id in list(*communicator, key) {
                let Some(rank) = small(*id, "rank").filter(|_| ranks < MOST_RANKS) else {
                    continue;
                };
                ranks += 1;
                let status = tree.field(*id, "status");
                let mut member = Member {
                    pid: small(*id, "pid"),
                    host: text(*id, "host").map(str::to_owned),
                    device: small(*id, "nvml_dev").or(small(*id, "cuda_dev")),
                    is_missing,
                    is_dead: is(status, "considered_dead"),
                    ..Member::default()
                };
                if is_missing {
                    let says = match (member.is_dead, is(status, "unresponsive")) {
                        (true, _) => DEAD,
                        (_, true) => UNRESPONSIVE,
                        _ => NO_MEMBER,
                    };
                    note(&mut member, says);
                } else {
                    let code = |key: &str| tree.int(tree.field(status?, key)?);
                    match code("init_state") {
                        Some(7) => note(&mut member, IN_INIT),
                        Some(0) | None => {}
                        Some(other) => {
                            note(
                                &mut member,
                                &format!("initialization error: {}", result(other)),
                            );
                        }
                    }
                    if let Some(error) = code("async_error").filter(|code| !matches!(code, 0 | 7)) {
                        note(
                            &mut member,
                            &format!("asynchronous error: {}", result(error)),
                        );
                    }
                    for (key, says) in [
                        ("finalize_called", "it has called ncclCommFinalize"),
                        ("destroy_flag", "it has called ncclCommDestroy"),
                        ("abort_flag", "it has called ncclCommAbort"),
                    ] {
                        if is(status, key) {
                            note(&mut member, says);
                        }
                    }
                }
                if let Some(counts) = tree.field(*id, "collective_counts") {
                    if let crate::value::Node::Map(pairs) = tree.get(counts) {
                        for (key, value) in pairs {
                            let name = tree.text(*key).and_then(function);
                            let count = tree.int(*value).and_then(|n| u64::try_from(n).ok());
                            if let (Some(name), Some(count)) = (name, count) {
                                member.counts.insert(name, count);
                            }
                        }
                    }
                }
                seen.members.insert(rank, member);
            }
        }
        answer.communicators.insert((first, second), seen);
    }
    answer.ranks_in_text = ranks as u64;
    answer
}

/// `2025-12-19 13:06:53`, ns since 1970; the time zone is not said, so only differences count.
fn moment(text: &str) -> Option<u64> {
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    // Signed 64 bits of ns end in 2262.
    let ranges = (1970..2262).contains(&year) && (1..=12).contains(&month);
    if !ranges || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970 of the Gregorian calendar, in years that begin in March.
    let (y, m) = (year - u64::from(month <= 2), (month + 9) % 12);
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000)
}

/// What a line below a communicator's name is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum About {
    #[default]
    Nothing,
    /// Processes: dead, or unresponsive.
    Processes(bool),
    /// Ranks that did not answer.
    Missing,
    Counts(Option<&'static str>),
    Status,
    Errors(&'static str),
}

/// Ranks with one count.
#[derive(Clone, Debug, Default)]
struct Group {
    count: u64,
    /// How many the text says that there are.
    size: usize,
    named: BTreeSet<u32>,
}

/// A text that is being read.
#[derive(Debug, Default)]
struct Parsing {
    answer: Answer,
    has_lines: bool,
    /// Size of the communicators of a row of the table.
    sizes: Vec<u32>,
    communicator: Option<(u64, u64)>,
    about: About,
    /// Before the names of several ranks: what they say.
    says: Option<String>,
    groups: BTreeMap<((u64, u64), &'static str), Vec<Group>>,
    ranks: usize,
    /// Processes by number and node that did not answer; whether they are dead.
    silent: HashMap<(u32, String), bool>,
}

impl Parsing {
    fn line(&mut self, line: &str) {
        self.has_lines |= !line.is_empty();
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(rest) = line.strip_prefix("NCCL version ") {
            let version = rest.split_whitespace().next().unwrap_or_default();
            self.answer.nccl = version.to_owned();
        } else if let Some(header) = line.strip_prefix('#') {
            self.header(header);
        } else if line == "DEAD" || line == "INCOMPLETE" {
            self.about = About::Processes(line == "DEAD");
        } else if line == "TIMEOUT" {
            self.about = About::Nothing;
        } else if let ["Process", pid, "on", "node", node, ..] = words[..] {
            if let (About::Processes(is_dead), Ok(pid)) = (&self.about, pid.parse()) {
                let known = self.silent.entry((pid, node.to_owned())).or_default();
                *known |= is_dead;
            }
        } else if self.is_row(&words) {
        } else if self.communicator.is_some() {
            self.below(line, &words);
        }
    }

    /// A row of the table of communicators.
    fn is_row(&mut self, words: &[&str]) -> bool {
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
        let (Some(group), Some(_), Some(nranks)) = (number(0), number(1), number(4)) else {
            return false;
        };
        if words.len() < 8 || group as usize != self.sizes.len() {
            return false;
        }
        self.sizes.push(nranks);
        self.answer.ranks_in_text += number(5).map_or(0, u64::from);
        true
    }

    /// `0-0 (fa93daea854b060b) MISMATCH`
    fn header(&mut self, text: &str) {
        self.about = About::Nothing;
        self.communicator = None;
        let parts = text.split_once(" (").and_then(|(number, rest)| {
            let (hash, _) = rest.split_once(')')?;
            let (group, _) = number.split_once('-')?;
            let hash = u64::from_str_radix(hash, 16).ok()?;
            Some((group.trim().parse::<usize>().ok()?, hash))
        });
        let Some((group, hash)) = parts else { return };
        let key = (hash, 0);
        let nranks = self.sizes.get(group).copied().unwrap_or(0);
        let seen = self.answer.communicators.entry(key).or_default();
        seen.nranks = nranks;
        self.communicator = Some(key);
    }

    fn below(&mut self, line: &str, words: &[&str]) {
        if let Some(rest) = line.strip_prefix("Communicator ranks have different ") {
            self.says = None;
            self.about = match rest.strip_suffix(" operation counts") {
                Some(name) => About::Counts(function(name)),
                None => About::Status,
            };
        } else if line.starts_with("Missing communicator data") {
            (self.about, self.says) = (About::Missing, Some(UNRESPONSIVE.to_owned()));
        } else if let Some(rest) = line
            .strip_prefix("The missing rank: ")
            .or_else(|| line.strip_prefix("The missing ranks: "))
        {
            let ranks = rest.split(|c: char| !c.is_ascii_digit());
            for rank in ranks.filter_map(|rank| rank.parse().ok()) {
                self.member(rank, &[], |member| {
                    member.is_missing = true;
                    note(member, UNRESPONSIVE);
                });
            }
        } else if line.starts_with("Initialization error") {
            self.about = About::Errors("initialization error");
        } else if line.starts_with("Asynchronous error") {
            self.about = About::Errors("asynchronous error");
        } else if let ["Rank", rank, rest @ ..] = words {
            if let Ok(rank) = rank.parse() {
                self.rank(rank, line, rest);
            }
        } else if let [size, "ranks", ..] = words {
            if let Ok(size) = size.parse() {
                self.group(size, line);
            }
        }
    }

    /// `30 ranks have launched up to operation 640`
    fn group(&mut self, size: usize, line: &str) {
        self.says = said_by_all(line);
        if let (About::Counts(Some(function)), Some(count)) = (&self.about, count_in(line)) {
            if let Some(key) = self.communicator {
                let group = Group {
                    count,
                    size,
                    ..Group::default()
                };
                self.groups.entry((key, *function)).or_default().push(group);
            }
        }
    }

    /// `Rank 12 -- GPU 4 …` below a group, or `Rank 12 has launched up to operation 3 -- GPU 4 …`
    fn rank(&mut self, rank: u32, line: &str, rest: &[&str]) {
        let is_alone = rest.first() != Some(&"--");
        let (head, _) = line.split_once(" -- ").unwrap_or((line, ""));
        let says = if is_alone {
            said_by_all(head)
        } else {
            self.says.clone()
        };
        match self.about.clone() {
            About::Counts(Some(function)) => {
                let Some(key) = self.communicator else { return };
                let groups = self.groups.entry((key, function)).or_default();
                if let (true, Some(count)) = (is_alone, count_in(head)) {
                    groups.push(Group {
                        count,
                        size: 1,
                        ..Group::default()
                    });
                }
                if let Some(group) = groups.last_mut() {
                    group.named.insert(rank);
                }
                self.member(rank, rest, |_| {});
            }
            About::Missing => self.member(rank, rest, |member| {
                member.is_missing = true;
                note(member, UNRESPONSIVE);
            }),
            About::Status => self.member(rank, rest, |member| {
                if let Some(status) = says.as_deref().filter(|status| *status != "RUNNING") {
                    if status == "NOCOMM" {
                        member.is_missing = true;
                        note(member, NO_MEMBER);
                    } else {
                        note(member, &format!("status {status}"));
                    }
                }
            }),
            About::Errors(kind) => self.member(rank, rest, |member| {
                let said = says.as_deref().unwrap_or("not known");
                note(member, &format!("{kind}: {said}"));
            }),
            _ => {}
        }
    }

    /// A member of the communicator, with what the line says of its process.
    fn member(&mut self, rank: u32, words: &[&str], change: impl FnOnce(&mut Member)) {
        let Some(seen) = self
            .communicator
            .and_then(|key| self.answer.communicators.get_mut(&key))
        else {
            return;
        };
        if !seen.members.contains_key(&rank) {
            if self.ranks >= MOST_RANKS {
                return;
            }
            self.ranks += 1;
        }
        let member = seen.members.entry(rank).or_default();
        let after = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1).copied()
        };
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        member.pid = member.pid.or(number(after("process")));
        member.host = member.host.take().or(after("node").map(str::to_owned));
        member.device = member.device.or(number(after("GPU")));
        change(member);
    }

    /// Gives ranks that the text does not name what is said of the rest.
    fn finish(mut self) -> Answer {
        for ((key, function), groups) in std::mem::take(&mut self.groups) {
            let Some(seen) = self.answer.communicators.get_mut(&key) else {
                continue;
            };
            let named: BTreeSet<u32> = groups
                .iter()
                .flat_map(|g| g.named.iter().copied())
                .collect();
            let unnamed: Vec<&Group> = groups.iter().filter(|g| g.named.len() < g.size).collect();
            for group in &groups {
                for rank in &group.named {
                    let member = seen.members.entry(*rank).or_default();
                    member.counts.insert(function, group.count);
                }
            }
            let missing = |rank: &u32| seen.members.get(rank).is_some_and(|of| of.is_missing);
            let most = u32::try_from(MOST_RANKS).unwrap_or(u32::MAX);
            let rest = || (0..seen.nranks.min(most)).filter(|rank| !named.contains(rank));
            let rest: Vec<u32> = rest().filter(|rank| !missing(rank)).collect();
            match unnamed[..] {
                [] => {}
                [group] if group.named.is_empty() && group.size == rest.len() => {
                    if self.ranks.saturating_add(rest.len()) > MOST_RANKS {
                        seen.unclear.insert(function);
                        continue;
                    }
                    self.ranks += rest.len();
                    for rank in rest {
                        let member = seen.members.entry(rank).or_default();
                        member.counts.insert(function, group.count);
                    }
                }
                _ => {
                    seen.unclear.insert(function);
                }
            }
        }
        for seen in self.answer.communicators.values_mut() {
            // The ranks may stand there without their processes. If no other process is silent, it is theirs.
            let unnamed = |member: &Member| member.is_missing && member.pid.is_none();
            let unnamed = seen.members.values_mut().filter(|member| unnamed(member));
            let mut unnamed: Vec<&mut Member> = unnamed.collect();
            let all_dead = self.silent.values().all(|is_dead| *is_dead);
            if let ([member], 1) = (&mut unnamed[..], self.silent.len()) {
                for (pid, host) in self.silent.keys() {
                    (member.pid, member.host) = (Some(*pid), Some(host.clone()));
                }
            } else if all_dead && unnamed.len() == self.silent.len() {
                for member in unnamed {
                    member.is_dead = true;
                    member.says.retain(|says| says != UNRESPONSIVE);
                    note(member, DEAD);
                }
            }
            for member in seen.members.values_mut() {
                let id = member.pid.zip(member.host.clone());
                let silent = id.and_then(|id| self.silent.get(&id));
                if silent == Some(&true) && member.is_missing {
                    member.is_dead = true;
                    member.says.retain(|says| says != UNRESPONSIVE);
                    note(member, DEAD);
                }
            }
        }
        self.answer
    }
}

/// The count in a line of counts.
fn count_in(line: &str) -> Option<u64> {
    if line.ends_with("not launched any operations") {
        return Some(0);
    }
    let (_, count) = line.split_once("launched up to operation ")?;
    count.split_whitespace().next()?.parse().ok()
}

/// The status or error in a line.
fn said_by_all(line: &str) -> Option<String> {
    let at = ["have status ", "has status ", "reported "];
    at.iter()
        .find_map(|words| line.split_once(words))
        .map(|(_, said)| said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let seconds = |text: &str| moment(text).map(|ns| ns / 1_000_000_000);
        assert_eq!(seconds("1970-01-01 00:00:00"), Some(0));
        assert_eq!(seconds("2000-03-01 00:00:01"), Some(951_868_801));
        assert_eq!(seconds("2025-12-19 13:06:53"), Some(1_766_149_613));
        for text in ["", "2025-13-01 00:00:00", "yesterday", "2025-12-19"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn the_order_of_two_functions_is_that_in_which_ranks_come_to_them() {
        let member = |gathers: u64, reduces: u64| Member {
            counts: BTreeMap::from([("AllGather", gathers), ("AllReduce", reduces)]),
            ..Member::default()
        };
        let seen = Seen {
            nranks: 3,
            members: BTreeMap::from([(0, member(5, 9)), (1, member(4, 9)), (2, member(4, 8))]),
            ..Seen::default()
        };
        let found: Vec<(&str, u64, bool)> = steps(&seen)
            .iter()
            .map(|step| (step.function, step.number, step.by_all))
            .collect();
        let expected = [
            ("AllGather", 4, true),
            ("AllReduce", 8, true),
            ("AllReduce", 9, false),
            ("AllGather", 5, false),
        ];
        assert_eq!(found, expected);
    }
}
