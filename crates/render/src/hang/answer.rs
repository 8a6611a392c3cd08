//! The answer to `ncclscope hang` as rows: what JSON has, and what the tables show.
//!
//! [`Answer::new`] makes them from the facts, in the format `ncclscope.hang/1` (`schema/hang-1.json`).
//!
//! Rule: units stand in the names, times are seconds to the millisecond, and what is not known is null.

use super::doing;
use super::graphs;
use super::names::{numbers, of, rank, seconds};
use super::phrases::Words;
use super::quiet::said;
use super::traffic;
use super::words::{next, words};
use crate::problems::{self, ProblemRow};
use crate::{behind, exits, sightings};
use analyze::exits::ExitRow;
use analyze::hang::{
    Because, CallRow, Cause, CommunicatorProgress, Does, Doing, Hang, Lack, Liveness, Member,
    NetOpRow, RankProgress, Stage, Starting, StuckConnection, Unknown, Verdict, WaitRow,
};
use analyze::sightings::SightingRow;
use analyze::spelling::ranges;
use analyze::subject::ProcessId;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The format of [`Answer`].
const FORMAT: &str = "ncclscope.hang/1";

/// Rows of network operations at most; they are those that matter most.
const NET_OPS: usize = 1024;

/// The answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The format.
    pub schema: &'static str,
    /// Whether the job hangs; null when it can't be told.
    pub hang: Option<bool>,
    /// What kind of verdict.
    #[schemars(extend("enum" = [
        "no_hang", "mismatch", "missing", "inside", "not_begun", "no_progress", "cycle", "dead", "left",
        "stopped", "silent", "unknown"
    ]))]
    pub verdict: &'static str,
    /// Whether nothing that is missing could name another rank or call.
    pub certain: bool,
    /// The verdict.
    pub sentence: String,
    /// What belongs to it.
    pub details: Vec<String>,
    /// What to do.
    pub next: String,
    /// The ranks that it names.
    pub blamed: Vec<Blamed>,
    /// The call that they lack, or are in.
    pub call: Option<Call>,
    /// Of a call that all are in and that does not end: why its network operations do not; null where that
    /// can't be told, or it has none.
    #[schemars(extend("enum" = ["network", "receiver", "flush", "gpu", "proxy", "unknown", null]))]
    pub cause: Option<&'static str>,
    /// Its open network operations, those first that wait for no other.
    pub net_ops: Vec<NetOp>,
    /// For how long others have waited, s; null when nobody does or times are not known.
    pub waited_s: Option<f64>,
    /// From how long on that is a hang, s.
    pub after_s: f64,
    /// The newest evidence: ns since 1970.
    pub as_of_ns: Option<i64>,
    /// Where each rank stands.
    pub communicators: Vec<Communicator>,
    /// The edges of the wait-for graph: operations that some ranks are in and others lack, calls that do not
    /// fit, and functions outside of communicators (ncclCommInitRank, ncclCommSplit, MPI_Barrier), which have
    /// no communicator.
    pub waits: Vec<Wait>,
    /// What `ncclscope hang` said while the job ran, the oldest first; empty while processes of it are there.
    pub sightings: Vec<SightingRow>,
    /// Processes that ended by a signal or with an error, the first first.
    pub exits: Vec<ExitRow>,
    /// What the threads do that others wait for, of ranks that run on the machine of `hang`: five looks
    /// within 40 ms, of which four show the same.
    pub doing: Vec<DoingRow>,
    /// TCP connections of ranks on the machine of `hang` that have something to send and do not get on within
    /// 0.3 s, if an operation does not end that all ranks are in.
    pub connections: Vec<ConnectionRow>,
    /// What was unsound in the capture.
    pub problems: Vec<ProblemRow>,
    /// The tool by which the verdict is, if another one says more than the capture; else null.
    pub by: Option<String>,
    /// What the capture and other tools say, each by itself; empty if no other tool was asked.
    pub evidence: Vec<Evidence>,
}

/// What one witness says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The tool; null of the capture.
    pub tool: Option<String>,
    /// Where it is.
    pub file: String,
    /// Whether the job hangs; null when it can't be told.
    pub hang: Option<bool>,
    /// What kind of verdict.
    pub verdict: &'static str,
    /// The verdict.
    pub sentence: String,
}

/// A rank that a verdict names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blamed {
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    #[serde(serialize_with = "tables::pid::serialize")]
    #[schemars(with = "Option<u32>")]
    pub pid: u32,
    /// Its state.
    #[schemars(extend("enum" = ["running", "stopped", "ended", "dead", "silent"]))]
    pub state: &'static str,
}

/// A call, named.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Call {
    /// Communicator.
    pub communicator: Option<String>,
    /// Number of the call on the communicator from 1, replays apart; null for sends, receives and after lost
    /// rows.
    pub number: Option<u64>,
    /// Whether it replays a captured call.
    pub replay: bool,
    /// Function; `AlltoAll` and the like for those that come in pieces.
    pub function: Option<String>,
    /// Datatype.
    pub datatype: Option<String>,
    /// Bytes by nccl-tests' convention.
    pub bytes: Option<u64>,
    /// Root.
    pub root: Option<u32>,
    /// Peer of a send or receive.
    pub peer: Option<u32>,
    /// NCCL's sequence number.
    pub seq: Option<u64>,
    /// The line of the program that made it; null without recorded stacks.
    pub caller: Option<String>,
    /// How long ago it was entered, s, as of the newest evidence.
    pub age_s: Option<f64>,
}

/// A network operation that is not over: one channel of one call, to or from one peer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NetOp {
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// `send` or `receive`.
    #[schemars(extend("enum" = ["send", "receive"]))]
    pub direction: &'static str,
    /// Peer's rank in the communicator.
    pub peer: Option<u32>,
    /// Channel.
    pub channel: u8,
    /// What its oldest open step waits for, as in the table of calls. If no step has come that far:
    /// `not_begun` by the network proxy, or `not_taken` by the network. Null if steps are not recorded.
    #[schemars(extend("enum" = [
        "send_gpu", "send_peer", "send_network", "recv_network", "recv_flush", "recv_gpu", "not_taken",
        "not_begun", null
    ]))]
    pub state: Option<&'static str>,
    /// Since when, s.
    pub for_s: Option<f64>,
    /// Steps done.
    pub steps_done: u32,
    /// Steps that it consists of.
    pub steps: u32,
    /// Why it does not go on; null: it waits for another network operation, or that can't be told.
    #[schemars(extend("enum" = ["network", "receiver", "flush", "gpu", "proxy", "unknown", null]))]
    pub cause: Option<&'static str>,
    /// The rank's number in sentences and tables: see `names`.
    #[serde(skip)]
    pub number: Option<u32>,
    /// The same of the peer.
    #[serde(skip)]
    pub peer_number: Option<u32>,
}

/// What the thread of a rank that calls NCCL does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoingRow {
    /// The rank, as in `waits`.
    pub rank: Option<u32>,
    /// Process.
    pub pid: u32,
    /// It is the thread that made the newest call; if not, the first of the process.
    pub calls_nccl: bool,
    /// `runs`, `sleeps`, `waits_for_file`, `waits_for_thread`, `waits_for_connection`, `waits_for_child` or
    /// `in_driver`; null if that can't be told.
    #[schemars(extend("enum" = [
        "runs", "sleeps", "waits_for_file", "waits_for_thread", "waits_for_connection", "waits_for_child",
        "in_driver", null
    ]))]
    pub does: Option<&'static str>,
    /// The file that it waits for.
    pub file: Option<String>,
    /// Another thread of the process that runs, if it waits for a thread: name and number.
    pub other_thread: Option<String>,
    /// The lines of the Python program at which it stands, the innermost first; empty without py-spy.
    pub frames: Vec<String>,
    /// Another thread that has the interpreter's lock, by py-spy.
    pub lock_is_with: Option<String>,
}

/// A TCP connection of which nothing was sent although there is something to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConnectionRow {
    /// The rank, as in `waits`.
    pub rank: Option<u32>,
    /// Process.
    pub pid: u32,
    /// The network interface.
    pub interface: Option<String>,
    /// Address and port.
    pub local: String,
    /// Those of the other side.
    pub remote: String,
    /// The rank on the other side, if it runs on this machine.
    pub peer: Option<u32>,
    /// Bytes that wait to be sent, or are not acknowledged.
    pub unsent_bytes: u64,
    /// Segments that were sent again, since the connection was made.
    pub retransmits: u64,
    /// The other side takes no more: its program does not read.
    pub other_side_full: bool,
}

/// A communicator's ranks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Communicator {
    /// Its id.
    pub communicator: String,
    /// Name given by the program.
    pub name: Option<String>,
    /// Ranks.
    pub nranks: Option<u32>,
    /// Ranks of which the capture holds nothing, as `0-7`; null if they can't be named.
    pub absent: Option<String>,
    /// Whether all its ranks in the capture have destroyed it.
    pub over: bool,
    /// Its ranks.
    pub ranks: Vec<Rank>,
}

/// The last call of each kind on one rank. What was not recorded is null.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rank {
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    #[serde(serialize_with = "tables::pid::serialize")]
    #[schemars(with = "Option<u32>")]
    pub pid: u32,
    /// Its state.
    #[schemars(extend("enum" = ["running", "stopped", "ended", "dead", "silent"]))]
    pub state: &'static str,
    /// How old the newest evidence of it is, s, by that of the capture.
    pub evidence_age_s: Option<f64>,
    /// The function of MPI that the rank is in; null if it is in none, or if that was not seen.
    pub in_mpi: Option<String>,
    /// For how long, s.
    pub in_mpi_s: Option<f64>,
    /// The function of NCCL's that the rank is in, and that makes or ends a communicator; null if it is in
    /// none, or if that was not seen.
    pub in_nccl: Option<String>,
    /// For how long, s.
    pub in_nccl_s: Option<f64>,
    /// The call that it entered last.
    pub entered: Option<Call>,
    /// The last that NCCL enqueued.
    pub enqueued: Option<Call>,
    /// The last whose kernel was launched.
    pub launched: Option<Call>,
    /// The last that the GPU began.
    pub started: Option<Call>,
    /// The last that the GPU ended.
    pub finished: Option<Call>,
    /// Its number in sentences and tables: see `names`.
    #[serde(skip)]
    pub number: Option<u32>,
}

/// An operation that some are in and others lack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Wait {
    /// The operation.
    pub call: Call,
    /// What those lack that are missing: the call, its launch, or its start on the GPU.
    #[schemars(extend("enum" = ["call", "launch", "start"]))]
    pub lack: &'static str,
    /// Launcher's ranks, else ranks of the communicator, that are in it.
    pub waiting: String,
    /// Ranks that they wait for.
    pub missing: String,
    /// Since the first of them entered, s.
    pub for_s: Option<f64>,
}

impl Answer {
    /// The answer that these facts give.
    pub fn new(hang: &Hang) -> Answer {
        let best = hang.best();
        let own = Answer::alone(hang);
        if hang.others.is_empty() {
            return own;
        }
        let others: Vec<Answer> = hang.others.iter().map(Answer::alone).collect();
        let evidence = |(hang, answer): (&Hang, &Answer)| Evidence {
            tool: hang.tool.clone(),
            file: hang.capture.display().to_string(),
            hang: answer.hang,
            verdict: answer.verdict,
            sentence: answer.sentence.clone(),
        };
        let all = std::iter::once((hang, &own)).chain(hang.others.iter().zip(&others));
        let evidence = all.map(evidence).collect();
        let found = others.iter().flat_map(|answer| answer.problems.clone());
        let mut problems = own.problems.clone();
        problems.extend(found);
        let answer = if std::ptr::eq(best, hang) {
            own
        } else {
            Answer {
                communicators: own.communicators,
                sightings: own.sightings,
                exits: own.exits,
                doing: own.doing,
                connections: own.connections,
                by: best.tool.clone(),
                ..Answer::alone(best)
            }
        };
        let strange = hang
            .others
            .iter()
            .filter(|other| hang.is_another_job(other));
        let strange = strange.map(|other| {
            format!(
                "{} ({}) says nothing of this job: none of its processes and communicators is in the \
                 capture.",
                other.tool.as_deref().unwrap_or("Another capture"),
                other.capture.display()
            )
        });
        let details = answer.details.into_iter().chain(strange).collect();
        Answer {
            details,
            evidence,
            problems,
            ..answer
        }
    }

    /// Of one witness.
    fn alone(hang: &Hang) -> Answer {
        let Words {
            sentence,
            mut details,
        } = words(hang);
        details.extend(doing::sentences(hang));
        details.extend(traffic::sentences(hang));
        details.extend(exits::sentence(&hang.exits));
        details.extend(said(hang));
        details.extend(hang.inside.iter().map(behind::sentence));
        let beside = |row: &SightingRow| sightings::beside(row, hang.verdict.kind());
        details.extend(hang.sightings.iter().map(beside));
        // Of a job that has ended, nothing is open.
        if hang.communicators.iter().any(|of| !of.over) {
            details.extend(graphs::sentences(&hang.launches));
        }
        let verdict = &hang.verdict;
        let communicators = hang.communicators.iter();
        Answer {
            schema: FORMAT,
            hang: verdict.hang(),
            verdict: verdict.kind().name(),
            certain: verdict.certain(),
            sentence,
            details,
            next: next(hang),
            blamed: all_blamed(hang),
            call: verdict.call().map(|row| call(hang, row)),
            cause: verdict.cause().map(cause),
            net_ops: net_ops(hang),
            waited_s: verdict.waited().map(seconds),
            after_s: seconds(hang.after),
            as_of_ns: hang.as_of.map(|at| at.0),
            communicators: communicators.map(|row| communicator(hang, row)).collect(),
            waits: waits(hang),
            sightings: hang.sightings.clone(),
            exits: hang.exits.clone(),
            doing: hang.doing.iter().map(doing).collect(),
            connections: connections(hang),
            problems: problems::rows(&hang.problems),
            by: None,
            evidence: Vec::new(),
        }
    }
}

fn connections(hang: &Hang) -> Vec<ConnectionRow> {
    let row = |of: &StuckConnection| ConnectionRow {
        rank: of.number,
        pid: of.pid,
        interface: of.interface.clone(),
        local: of.local.clone(),
        remote: of.remote.clone(),
        peer: of.peer,
        unsent_bytes: of.unsent,
        retransmits: of.retransmits,
        other_side_full: of.is_other_full,
    };
    let traffic = hang.traffic.iter();
    traffic
        .flat_map(|traffic| &traffic.connections)
        .map(row)
        .collect()
}

fn doing(of: &Doing) -> DoingRow {
    let stands = of.stands.as_ref();
    DoingRow {
        rank: of.number,
        pid: of.pid,
        calls_nccl: of.calls_nccl,
        does: of.does.as_ref().map(Does::name),
        file: of.does.as_ref().and_then(Does::file).map(str::to_owned),
        other_thread: of.runs.clone(),
        frames: stands.map_or(Vec::new(), |stands| stands.frames.clone()),
        lock_is_with: stands.and_then(|stands| stands.lock_is_with.clone()),
    }
}

fn state(state: Liveness) -> &'static str {
    match state {
        Liveness::Running => "running",
        Liveness::Stopped => "stopped",
        Liveness::Ended => "ended",
        Liveness::Dead => "dead",
        Liveness::Silent => "silent",
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Network => "network",
        Cause::Receiver => "receiver",
        Cause::Flush => "flush",
        Cause::Gpu => "gpu",
        Cause::Proxy => "proxy",
        Cause::Unknown => "unknown",
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::NotBegun => "not_begun",
        Stage::NotTaken => "not_taken",
        Stage::Waits(wait) => wait.name(),
    }
}

fn lack(lack: Lack) -> &'static str {
    match lack {
        Lack::Call => "call",
        Lack::Launch => "launch",
        Lack::Start => "start",
    }
}

fn all_blamed(hang: &Hang) -> Vec<Blamed> {
    // A process without a communicator is no member of one.
    let starting = |of: &Starting| Blamed {
        global_rank: of.name.rank,
        rank: None,
        host: of.name.host.clone(),
        pid: of.name.pid,
        state: state(if of.is_stopped {
            Liveness::Stopped
        } else {
            Liveness::Running
        }),
    };
    match hang.before_first() {
        Some(found) => found.awaited().into_iter().map(starting).collect(),
        None => {
            let members = hang.verdict.blamed().into_iter();
            members.map(|member| blamed(hang, member)).collect()
        }
    }
}

fn blamed(hang: &Hang, member: Member) -> Blamed {
    let rank = rank(hang, member.communicator, member.member);
    Blamed {
        global_rank: rank.global_rank,
        rank: rank.process.rank,
        host: rank.process.host.clone(),
        pid: rank.process.pid,
        state: state(rank.state),
    }
}

fn call(hang: &Hang, row: &CallRow) -> Call {
    Call {
        communicator: Some(hang.communicators[row.communicator].id.clone()),
        number: row.number,
        replay: row.replay,
        function: row.function.clone(),
        datatype: row.datatype.clone(),
        bytes: row.bytes,
        root: row.root,
        peer: row.peer,
        seq: row.seq,
        caller: row.caller.clone(),
        age_s: row.age.map(seconds),
    }
}

/// The open network operations of a stalled call, those first that wait for no other.
fn net_ops(hang: &Hang) -> Vec<NetOp> {
    let Verdict::Stall(stall) = &hang.verdict else {
        return Vec::new();
    };
    let network = &stall.network;
    let causes: BTreeMap<usize, Cause> = network.sinks.iter().map(|s| (s.op, s.cause)).collect();
    let communicator = stall.ranks.communicator;
    let row = |index: usize| {
        let op: &NetOpRow = &network.open[index];
        let rank = rank(hang, communicator, op.member);
        let mut all = of(hang, communicator).ranks.iter();
        let peer = op
            .peer
            .and_then(|peer| all.find(|of| of.process.rank == Some(peer)));
        NetOp {
            number: rank.number,
            peer_number: peer.and_then(|peer| peer.number),
            global_rank: rank.global_rank,
            rank: rank.process.rank,
            host: rank.process.host.clone(),
            direction: if op.send { "send" } else { "receive" },
            peer: op.peer,
            channel: op.channel,
            state: op.stage.map(stage),
            for_s: op.lasted.map(seconds),
            steps_done: op.steps_done,
            steps: op.steps,
            cause: causes.get(&index).copied().map(cause),
        }
    };
    let sinks = network.sinks.iter().map(|sink| sink.op);
    let others = (0..network.open.len()).filter(|index| !causes.contains_key(index));
    sinks.chain(others).take(NET_OPS).map(row).collect()
}

fn communicator(hang: &Hang, row: &CommunicatorProgress) -> Communicator {
    Communicator {
        communicator: row.id.clone(),
        name: row.name.clone(),
        nranks: row.nranks,
        absent: match &row.unknown {
            Some(Unknown::Absent { ranks, .. }) if ranks.is_empty() => None,
            Some(Unknown::Absent { ranks, .. }) => Some(ranges(ranks.iter().copied())),
            _ => Some(String::new()),
        },
        over: row.over,
        ranks: row.ranks.iter().map(|of| progress(hang, of)).collect(),
    }
}

fn progress(hang: &Hang, row: &RankProgress) -> Rank {
    let call = |row: &Option<CallRow>| row.as_ref().map(|row| call(hang, row));
    Rank {
        number: row.number,
        rank: row.process.rank,
        global_rank: row.global_rank,
        host: row.process.host.clone(),
        pid: row.process.pid,
        state: state(row.state),
        evidence_age_s: row.evidence_age.map(seconds),
        in_mpi: row.in_mpi.as_ref().map(|inside| inside.function.clone()),
        in_mpi_s: row.in_mpi.as_ref().map(|inside| seconds(inside.lasted)),
        in_nccl: row.in_nccl.as_ref().map(|inside| inside.function.clone()),
        in_nccl_s: row.in_nccl.as_ref().map(|inside| seconds(inside.lasted)),
        entered: call(&row.entered),
        enqueued: call(&row.enqueued),
        launched: call(&row.launched),
        started: call(&row.started),
        finished: call(&row.finished),
    }
}

/// The edges of the wait-for graph.
fn waits(hang: &Hang) -> Vec<Wait> {
    let mut all: Vec<Wait> = hang.waits.iter().map(|row| wait(hang, row)).collect();
    let Verdict::Quiet(quiet) = &hang.verdict else {
        return all;
    };
    match &quiet.because {
        Because::Blocked(found) => {
            let outside = &found.outside;
            for (at, of) in found.inside.iter().enumerate() {
                let others = found
                    .inside
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != at);
                let others = others.flat_map(|(_, of)| &of.ranks);
                let missing: Vec<&ProcessId> = outside.iter().chain(others).collect();
                let waiting: Vec<&ProcessId> = of.ranks.iter().collect();
                let for_s = Some(seconds(found.lasted));
                all.push(inside(&of.function, &waiting, &missing, for_s));
            }
        }
        Because::BeforeFirst(found) if found.waits_in_init() => {
            let name = |of: &&Starting| of.in_init;
            let waiting = found.processes.iter().filter(name).map(|of| &of.name);
            let waiting: Vec<&ProcessId> = waiting.collect();
            let missing = found.awaited().into_iter().map(|of| &of.name);
            let missing: Vec<&ProcessId> = missing.collect();
            let for_s = found.in_init_for.map(seconds);
            let wait = inside("ncclCommInitRank", &waiting, &missing, for_s);
            let gone = ranges(found.gone.iter().copied());
            let missing = if gone.is_empty() { wait.missing } else { gone };
            all.push(Wait { missing, ..wait });
        }
        _ => {}
    }
    all
}

/// Ranks that are inside of a function that is no call of a communicator.
fn inside(
    function: &str,
    waiting: &[&ProcessId],
    missing: &[&ProcessId],
    for_s: Option<f64>,
) -> Wait {
    let numbers = |these: &[&ProcessId]| ranges(these.iter().filter_map(|of| of.rank));
    Wait {
        call: Call {
            communicator: None,
            number: None,
            replay: false,
            function: Some(function.to_owned()),
            datatype: None,
            bytes: None,
            root: None,
            peer: None,
            seq: None,
            caller: None,
            age_s: for_s,
        },
        lack: lack(Lack::Call),
        waiting: numbers(waiting),
        missing: numbers(missing),
        for_s,
    }
}

fn wait(hang: &Hang, row: &WaitRow) -> Wait {
    Wait {
        call: call(hang, &row.call),
        lack: lack(row.lack),
        waiting: numbers(hang, &row.waiting),
        missing: numbers(hang, &row.missing),
        for_s: row.lasted.map(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::hang::{NetWait, VerdictKind};
    use std::collections::BTreeSet;

    /// The names that the schema allows at a place.
    fn allowed(pointer: &str) -> BTreeSet<String> {
        let schema: serde_json::Value = serde_json::from_str(crate::hang::SCHEMA).expect("JSON");
        let names = schema.pointer(pointer).and_then(|names| names.as_array());
        let names = names.expect("an enum").iter();
        names
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    }

    fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> BTreeSet<String> {
        all.iter().map(|one| name(*one).to_owned()).collect()
    }

    #[test]
    fn the_schema_allows_every_name_and_no_other() {
        let kinds = [
            VerdictKind::NoHang,
            VerdictKind::Mismatch,
            VerdictKind::Missing,
            VerdictKind::Inside,
            VerdictKind::NotBegun,
            VerdictKind::NoProgress,
            VerdictKind::Cycle,
            VerdictKind::Dead,
            VerdictKind::Left,
            VerdictKind::Stopped,
            VerdictKind::Silent,
            VerdictKind::Unknown,
        ];
        assert_eq!(
            names(&kinds, VerdictKind::name),
            allowed("/properties/verdict/enum")
        );
        let states = [
            Liveness::Running,
            Liveness::Stopped,
            Liveness::Ended,
            Liveness::Dead,
            Liveness::Silent,
        ];
        let blamed = "/properties/blamed/items/properties/state/enum";
        assert_eq!(names(&states, state), allowed(blamed));
        let causes = [
            Cause::Network,
            Cause::Receiver,
            Cause::Flush,
            Cause::Gpu,
            Cause::Proxy,
            Cause::Unknown,
        ];
        assert_eq!(names(&causes, cause), allowed("/properties/cause/enum"));
        let lacks = [Lack::Call, Lack::Launch, Lack::Start];
        let wait = "/properties/waits/items/properties/lack/enum";
        assert_eq!(names(&lacks, lack), allowed(wait));
        let stages = [
            Stage::NotBegun,
            Stage::NotTaken,
            Stage::Waits(NetWait::SendGpu),
            Stage::Waits(NetWait::SendPeer),
            Stage::Waits(NetWait::SendNetwork),
            Stage::Waits(NetWait::RecvNetwork),
            Stage::Waits(NetWait::RecvFlush),
            Stage::Waits(NetWait::RecvGpu),
        ];
        let net_op = "/properties/net_ops/items/properties/state/enum";
        assert_eq!(names(&stages, stage), allowed(net_op));
    }
}
