//! The script: a job on one screen.
//!
//! [`Script::parse`] turns the text into [`Statement`]s with every name resolved, so that playing it can't fail on a
//! word. The grammar is in `docs/fake-nccl.md`.
//!
//! Rule: a script says the same to every rank. Whatever only some ranks do is said by naming them, so each process can
//! follow the whole job and knows what the others did.

use crate::event::{self, Text};
use crate::plugin::Version;
use crate::stuck::{self, Drag, Stop, Wait};
use std::collections::HashMap;

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found {found}")]
pub struct Error {
    /// From 1.
    pub line: usize,
    /// What could have stood there.
    pub expected: String,
    /// What stood there.
    pub found: String,
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The release that the script asks for.
    pub nccl: Version,
    /// Ranks of the job.
    pub ranks: usize,
    /// Hosts; ranks are dealt out in blocks.
    pub hosts: usize,
    /// Ranks of one process.
    pub per_process: usize,
    /// The ranks of a process are driven by one thread, in one group per call.
    pub one_thread: bool,
    /// How far the virtual GPU runs behind the host, so that a late process still launches before its stamps.
    pub lead_ns: u64,
    /// How long ranks that wait for ever are left alone before they are ended.
    pub linger_ns: u64,
    /// Host time of one call.
    pub host_cost_ns: u64,
    /// Offset of each rank's GPU clock.
    pub gpu_offset_ns: Vec<i64>,
    /// How far each host's clock is ahead; empty where all are on this machine's clock, under its name.
    pub host_clock_ns: Vec<i64>,
    /// What communicator names mean.
    pub comms: Vec<Comm>,
    /// Names of graphs.
    pub graphs: Vec<String>,
    /// What happens.
    pub body: Vec<Statement>,
    /// Destroy the communicators at the end.
    pub destroy: bool,
}

/// One name in the script; a split gives it several communicators, of which a rank is in at most one.
#[derive(Clone, Debug, PartialEq)]
pub struct Comm {
    /// Name in the script.
    pub name: String,
    /// commName, if any.
    pub label: Option<String>,
    /// Communicators.
    pub instances: Vec<Instance>,
}

/// One communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The hash that its ranks share.
    pub hash: u64,
    /// Job ranks in order of communicator rank.
    pub members: Vec<usize>,
}

/// One step of the job.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// Calls between group start and end; one call alone is an implicit group.
    Group {
        /// In order.
        calls: Vec<Call>,
        /// Written as `group`.
        explicit: bool,
    },
    /// Several times.
    Repeat(u64, Vec<Statement>),
    /// Only these ranks do this.
    Only(Vec<usize>, Vec<Statement>),
    /// Something befalls these ranks.
    Rank(Vec<usize>, Act),
    /// A graph is captured.
    Graph(usize, Vec<Statement>),
    /// A graph is launched.
    Replay(usize, u64),
    /// The host does something else.
    Sleep(u64),
    /// Least host time from call to call.
    Pace(u64),
    /// The host waits for its GPU.
    Sync,
    /// The GPU has a kernel of the program's own, beside the operations.
    Compute(u64),
    /// What the GPU computes next waits for the operations before.
    Join,
    /// A communicator begins.
    Create(usize),
    /// A communicator is destroyed.
    Destroy(usize),
    /// A communicator is destroyed and made again with the same hash.
    Reinit(usize),
    /// Hostile callbacks.
    Fault(Fault),
}

/// What befalls a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Late for its next call.
    Late(u64),
    /// Late for each call from now on.
    Slow(u64),
    /// SIGKILL.
    Kill,
    /// `exit` without destroying anything.
    Exit(i32),
    /// `_exit`.
    QuickExit(i32),
    /// `abort`.
    Abort,
    /// Makes no further call, and lives until the others have ended.
    Hang,
    /// As `Hang`, inside its next call.
    HangInside,
    /// Forks a child that exits at once; waits for it.
    Fork,
    /// Leaves its next call out.
    Skip,
    /// Its sends or receives of the next call stop on the way.
    Stuck(Stop),
    /// Its sends or receives take longer from now on.
    Drag(Drag),
}

/// Callbacks that a good NCCL would not make, and real ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // One line each in FAULTS, from which the words and docs are printed.
pub enum Fault {
    StaleStop,
    DoubleStop,
    NullStop,
    ForeignStop,
    StaleState,
    NullState,
    ForeignParent,
    ForeignContext,
    NullContext,
    UnknownType,
    UnknownState,
    NullArgs,
    UnrequestedTypes,
    NullStrings,
    OddStrings,
    ForeignPid,
    RepeatedStep,
    UnstoppedOp,
    RandomHandles,
    LateChild,
}

/// Every fault: its word and what it does.
pub const FAULTS: [(Fault, &str, &str); 20] = [
    (
        Fault::StaleStop,
        "stale_stop",
        "stops a handle whose event ended long ago, after its slot may have been reused",
    ),
    (
        Fault::DoubleStop,
        "double_stop",
        "stops an event twice in a row",
    ),
    (Fault::NullStop, "null_stop", "stops a null handle"),
    (
        Fault::ForeignStop,
        "foreign_stop",
        "stops a handle that the plugin never gave",
    ),
    (
        Fault::StaleState,
        "stale_state",
        "records a state of an event that was stopped",
    ),
    (
        Fault::NullState,
        "null_state",
        "records NetPlugin's state 21 on a null handle",
    ),
    (
        Fault::ForeignParent,
        "foreign_parent",
        "starts events whose parent the plugin never gave",
    ),
    (
        Fault::ForeignContext,
        "foreign_context",
        "starts an event with a context the plugin never gave",
    ),
    (
        Fault::NullContext,
        "null_context",
        "starts an event with a null context",
    ),
    (
        Fault::UnknownType,
        "unknown_type",
        "starts events of type bits that no ABI has (0 and 0x80 up on one byte, bit 40 on eight)",
    ),
    (
        Fault::UnknownState,
        "unknown_state",
        "records state numbers that no ABI has",
    ),
    (
        Fault::NullArgs,
        "null_args",
        "records every state with null arguments",
    ),
    (
        Fault::UnrequestedTypes,
        "unrequested",
        "starts, moves and stops an event of every type, asked for or not",
    ),
    (
        Fault::NullStrings,
        "null_strings",
        "passes null for every text",
    ),
    (
        Fault::OddStrings,
        "odd_strings",
        "passes `Unknown`, `Invalid` and empty texts",
    ),
    (
        Fault::ForeignPid,
        "foreign_pid",
        "starts a ProxyOp of another process, with that process's context and parent",
    ),
    (
        Fault::RepeatedStep,
        "repeated_step",
        "starts a receive step again and again before one stop",
    ),
    (
        Fault::UnstoppedOp,
        "unstopped_op",
        "starts ProxyOps that never stop",
    ),
    (
        Fault::RandomHandles,
        "random_handles",
        "10 000 calls with random words as handles and parents",
    ),
    (
        Fault::LateChild,
        "late_child",
        "starts children of a call that is over, of every child type",
    ),
];

/// A user's call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// What is called.
    pub op: Op,
    /// By nccl-tests' size convention.
    pub bytes: u64,
    /// NCCL's name of the datatype.
    pub datatype: Text,
    /// Index in [`Script::comms`].
    pub comm: usize,
    /// Root rank in the communicator.
    pub root: i32,
    /// The other side of a send or receive.
    pub peer: Peer,
    /// Algorithm.
    pub algo: Text,
    /// Protocol; `None` for the model's choice.
    pub proto: Option<Text>,
    /// Channels; `None` for the model's choice.
    pub channels: Option<u8>,
    /// From the last arrival to the end; `None` for the model's.
    pub time_ns: Option<u64>,
    /// Send and receive buffer are one.
    pub in_place: bool,
    /// The caller's tag.
    pub tag: u64,
    /// How it is done.
    pub path: Path,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AlltoAll,
    Gather,
    Scatter,
    Send,
    Recv,
}

impl Op {
    const ALL: [(Op, &'static str, Text); 10] = [
        (Op::AllReduce, "all_reduce", c"AllReduce"),
        (Op::AllGather, "all_gather", c"AllGather"),
        (Op::ReduceScatter, "reduce_scatter", c"ReduceScatter"),
        (Op::Broadcast, "broadcast", c"Broadcast"),
        (Op::Reduce, "reduce", c"Reduce"),
        (Op::AlltoAll, "all_to_all", c"AlltoAll"),
        (Op::Gather, "gather", c"Gather"),
        (Op::Scatter, "scatter", c"Scatter"),
        (Op::Send, "send", c"Send"),
        (Op::Recv, "recv", c"Recv"),
    ];

    /// NCCL's name.
    pub fn func(self) -> Text {
        Op::ALL[self as usize].2
    }

    /// Made of sends and receives.
    pub fn is_p2p(self) -> bool {
        matches!(
            self,
            Op::AlltoAll | Op::Gather | Op::Scatter | Op::Send | Op::Recv
        )
    }

    /// By how much the communicator's size divides nccl-tests' size to give the call's count.
    pub fn divisor(self, ranks: usize) -> u64 {
        match self {
            Op::AllGather | Op::ReduceScatter | Op::AlltoAll | Op::Gather | Op::Scatter => {
                ranks as u64
            }
            _ => 1,
        }
    }
}

/// The other side of a send or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A communicator rank.
    Rank(usize),
    /// So many ranks on, round the communicator.
    Next(i64),
}

impl Peer {
    /// The communicator rank it is for `rank` of `ranks`.
    pub fn of(self, rank: usize, ranks: usize) -> usize {
        match self {
            Peer::Rank(peer) => peer % ranks,
            Peer::Next(by) => (rank as i64 + by).rem_euclid(ranks as i64) as usize,
        }
    }
}

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// An ordinary kernel.
    Kernel,
    /// A symmetric kernel.
    Symmetric,
    /// Copy engines.
    CopyEngine,
}

/// A stable 64-bit mix, for hashes that every process of a run agrees on.
pub fn mix(seed: u64, value: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(value)
        .wrapping_add(0x632B_E59B_D9B4_E019);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The hash that NCCL gives a child communicator: of its parent's hash, its number among the splits of that parent (from
/// 1, and 0 for a shrunk one) and its colour. A profiler can prove parents by it.
fn child_hash(parent: u64, ordinal: u32, color: u32) -> u64 {
    let mut state = [1u64; 2];
    for (value, bytes) in [(parent, 8u64), (ordinal.into(), 4), (color.into(), 4)] {
        let [a, b] = state;
        let a = (a ^ bytes).wrapping_add(b);
        let b = b ^ a;
        state = [
            (a ^ (a >> 31))
                .wrapping_mul(0x9de6_2bbc_8cef_3ce3)
                .wrapping_add(value),
            (b ^ (b >> 32)).wrapping_mul(0x485c_d631_1b59_9e79),
        ];
    }
    let [a, b] = state;
    let h = (a ^ (a >> 31))
        .wrapping_mul(0xbac3_bd56_2846_de6b)
        .wrapping_add(b);
    (h ^ (h >> 32)).wrapping_mul(0x995a_187a_14e7_b445)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    line: usize,
    text: String,
}

fn tokens(source: &str) -> Vec<Token> {
    let mut out = Vec::new();
    for (index, text) in source.lines().enumerate() {
        let line = index + 1;
        let mut push = |text: &str| {
            out.push(Token {
                line,
                text: text.to_string(),
            })
        };
        let mut word = String::new();
        let mut quoted = false;
        for c in text.chars() {
            match c {
                '"' => {
                    quoted = !quoted;
                    word.push(c);
                }
                _ if quoted => word.push(c),
                '#' => break,
                '{' | '}' | ';' => {
                    if !word.is_empty() {
                        push(&std::mem::take(&mut word));
                    }
                    push(c.encode_utf8(&mut [0; 4]));
                }
                c if c.is_whitespace() => {
                    if !word.is_empty() {
                        push(&std::mem::take(&mut word));
                    }
                }
                c => word.push(c),
            }
        }
        if !word.is_empty() {
            push(&word);
        }
        push(";");
    }
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    script: Script,
    names: HashMap<String, usize>,
    /// How often each communicator was split so far.
    splits: HashMap<usize, u32>,
    destroyed_by_hand: bool,
}

const WORDS: &str = "a statement (nccl, ranks, hosts, per_process, one_thread, gpu_offset, host_clock, lead, linger, host_cost, comm, repeat, group, rank, graph, replay, sleep, rate, sync, destroy, reinit, no_destroy, fault) or a call (all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, gather, scatter, send, recv)";
const LONGEST_GROUP: usize = 100_000;

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first line that can't be read, with what was expected there.
    pub fn parse(source: &str) -> Result<Script, Error> {
        let script = Script {
            nccl: Version(22809),
            ranks: 1,
            hosts: 1,
            per_process: 1,
            one_thread: false,
            lead_ns: 50_000_000,
            linger_ns: 0,
            host_cost_ns: 10_000,
            gpu_offset_ns: vec![0],
            host_clock_ns: Vec::new(),
            comms: Vec::new(),
            graphs: Vec::new(),
            body: Vec::new(),
            destroy: true,
        };
        let mut parser = Parser {
            tokens: tokens(source),
            at: 0,
            script,
            names: HashMap::new(),
            splits: HashMap::new(),
            destroyed_by_hand: false,
        };
        let body = parser.statements(false)?;
        let mut script = parser.script;
        script.body.extend(body);
        Ok(script)
    }

    /// The host of a rank.
    pub fn host(&self, rank: usize) -> usize {
        rank * self.hosts / self.ranks
    }

    /// Ranks of the process that drives `first`.
    pub fn process_ranks(&self, first: usize) -> std::ops::Range<usize> {
        first..(first + self.per_process).min(self.ranks)
    }
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |t| t.line)
    }

    fn fail<T>(&self, line: usize, expected: impl Into<String>, found: &str) -> Result<T, Error> {
        let found = match found {
            ";" => "the end of the statement".into(),
            found => format!("`{found}`"),
        };
        Err(Error {
            line,
            expected: expected.into(),
            found,
        })
    }

    /// The next word of this statement, read by `read`.
    fn word<T>(&mut self, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
        match self.next() {
            Some(token) => match read(&token.text) {
                Some(value) => Ok(value),
                None => self.fail(token.line, expected, &token.text),
            },
            None => self.fail(self.line(), expected, ";"),
        }
    }

    /// The next word if it isn't the end of the statement.
    fn more(&mut self) -> Option<Token> {
        match self.peek()?.text.as_str() {
            ";" | "{" | "}" => None,
            _ => self.next(),
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.peek().map(|t| (t.line, t.text.clone())) {
            None => Ok(()),
            Some((_, text)) if text == ";" || text == "}" => Ok(()),
            Some((line, text)) => self.fail(line, "the end of the statement", &text),
        }
    }

    fn block(&mut self) -> Result<Vec<Statement>, Error> {
        self.word("`{`", |w| (w == "{").then_some(()))?;
        self.statements(true)
    }

    fn statements(&mut self, nested: bool) -> Result<Vec<Statement>, Error> {
        let mut out = Vec::new();
        loop {
            let Some(token) = self.next() else {
                return if nested {
                    self.fail(self.line(), "`}`", "the end of the script")
                } else {
                    Ok(out)
                };
            };
            match token.text.as_str() {
                ";" => {}
                "}" if nested => return Ok(out),
                word => {
                    let word = word.to_string();
                    self.statement(&word, token.line, nested, &mut out)?;
                }
            }
        }
    }

    fn statement(
        &mut self,
        word: &str,
        line: usize,
        nested: bool,
        out: &mut Vec<Statement>,
    ) -> Result<(), Error> {
        if let Some((op, ..)) = Op::ALL.iter().find(|(_, w, _)| *w == word) {
            let (call, times) = self.call(*op)?;
            let group = Statement::Group {
                calls: vec![call],
                explicit: false,
            };
            out.push(match times {
                1 => group,
                times => Statement::Repeat(times, vec![group]),
            });
            return self.end();
        }
        let header = !nested && out.is_empty() && self.script.comms.is_empty();
        match word {
            "nccl" | "ranks" | "hosts" | "per_process" | "one_thread" | "lead" | "linger"
            | "host_cost" | "gpu_offset" | "host_clock"
                if !header =>
            {
                return self.fail(
                    line,
                    "job settings before the first communicator or call",
                    word,
                );
            }
            "nccl" => {
                let expected = format!("an examined release ({})", Version::known());
                self.script.nccl = self.word(&expected, |w| {
                    Version::parse(w).filter(|v| v.native_abi().is_some())
                })?;
            }
            "ranks" => {
                self.script.ranks = self.word("a number of ranks from 1 to 4096", |w| {
                    w.parse().ok().filter(|n| (1..=4096).contains(n))
                })?;
                self.script.gpu_offset_ns = vec![0; self.script.ranks];
            }
            "hosts" => {
                let ranks = self.script.ranks;
                self.script.hosts = self
                    .word("a number of hosts, from 1 to the number of ranks", |w| {
                        w.parse().ok().filter(|n| (1..=ranks).contains(n))
                    })?;
            }
            "per_process" => {
                let ranks = self.script.ranks;
                self.script.per_process = self
                    .word("ranks per process, from 1 to the number of ranks", |w| {
                        w.parse().ok().filter(|n| (1..=ranks).contains(n))
                    })?;
            }
            "one_thread" => self.script.one_thread = true,
            "lead" => self.script.lead_ns = self.word("a time like 50ms", nanos)?,
            "linger" => self.script.linger_ns = self.word("a time like 2s", nanos)?,
            "host_cost" => self.script.host_cost_ns = self.word("a time like 10us", nanos)?,
            "gpu_offset" => {
                let ranks = self.ranks()?;
                let by = self.word("a time like -850us", signed_nanos)?;
                for rank in ranks {
                    self.script.gpu_offset_ns[rank] = by;
                }
            }
            "host_clock" => {
                let limit = self.script.hosts;
                let expected =
                    format!("hosts below {limit}, like 1, 0..3 or 0,2; say `hosts` before");
                let hosts = self.word(&expected, |w| rank_list(w, limit))?;
                let by = self.word("a time like -70ms", signed_nanos)?;
                self.script.host_clock_ns.resize(limit, 0);
                for host in hosts {
                    self.script.host_clock_ns[host] = by;
                }
            }
            "comm" => self.comm(out)?,
            "repeat" => {
                let times = self.word("a number", count)?;
                let body = self.block()?;
                out.push(Statement::Repeat(times, body));
                return Ok(());
            }
            "group" => {
                let body = self.block()?;
                let mut calls = Vec::new();
                self.flatten(line, &body, &mut calls)?;
                if !calls.is_empty() {
                    out.push(Statement::Group {
                        calls,
                        explicit: true,
                    });
                }
                return Ok(());
            }
            "rank" => {
                let ranks = self.ranks()?;
                if self.peek().is_some_and(|t| t.text == "{") {
                    let body = self.block()?;
                    out.push(Statement::Only(ranks, body));
                    return Ok(());
                }
                let act = self.act()?;
                out.push(Statement::Rank(ranks, act));
            }
            "graph" => {
                let name = self.word("the graph's name", name)?;
                let body = self.block()?;
                if !body.iter().all(|s| {
                    matches!(s, Statement::Group { .. })
                        || matches!(s, Statement::Repeat(_, b) if b.iter().all(|s| matches!(s, Statement::Group { .. })))
                }) {
                    return self.fail(line, "only calls, groups and repeats of them in a graph", "graph");
                }
                let id = match self.script.graphs.iter().position(|g| *g == name) {
                    Some(id) => id,
                    None => {
                        self.script.graphs.push(name);
                        self.script.graphs.len() - 1
                    }
                };
                out.push(Statement::Graph(id, body));
                return Ok(());
            }
            "replay" => {
                let graphs = self.script.graphs.clone();
                let id = self.word("the name of a graph captured before", |w| {
                    graphs.iter().position(|g| g == w)
                })?;
                let times = match self.more() {
                    None => 1,
                    Some(t) => match t.text.strip_prefix('x').and_then(count) {
                        Some(n) => n,
                        None => return self.fail(t.line, "a count like x10", &t.text),
                    },
                };
                out.push(Statement::Replay(id, times));
            }
            "sleep" => out.push(Statement::Sleep(self.word("a time like 10ms", nanos)?)),
            "rate" => {
                let gap = self.word("a rate like 10000/s, or `off`", |w| match w {
                    "off" => Some(0),
                    w => {
                        let rate: f64 = w.strip_suffix("/s")?.parse().ok()?;
                        (rate > 0.0).then_some((1e9 / rate) as u64)
                    }
                })?;
                out.push(Statement::Pace(gap));
            }
            "sync" => out.push(Statement::Sync),
            "compute" => out.push(Statement::Compute(self.word("a time like 10ms", nanos)?)),
            "join" => out.push(Statement::Join),
            "no_destroy" => self.script.destroy = false,
            "destroy" | "reinit" => {
                let id = self.known_comm()?;
                self.destroyed_by_hand = true;
                out.push(match word {
                    "destroy" => Statement::Destroy(id),
                    _ => Statement::Reinit(id),
                });
            }
            "fault" => {
                let words = FAULTS.map(|f| f.1).join(", ");
                let fault = self.word(&format!("a fault: {words}"), |w| {
                    FAULTS.iter().find(|f| f.1 == w).map(|f| f.0)
                })?;
                self.world_if_none();
                out.push(Statement::Fault(fault));
            }
            found => return self.fail(line, WORDS, found),
        }
        self.end()
    }

    fn flatten(&self, line: usize, body: &[Statement], out: &mut Vec<Call>) -> Result<(), Error> {
        for statement in body {
            match statement {
                Statement::Group { calls, .. } => out.extend(calls),
                Statement::Repeat(times, body) => {
                    for _ in 0..*times {
                        self.flatten(line, body, out)?;
                    }
                }
                _ => return self.fail(line, "only calls and repeats of calls in a group", "group"),
            }
            if out.len() > LONGEST_GROUP {
                return self.fail(line, "at most 100000 calls in a group", "more");
            }
        }
        Ok(())
    }

    fn act(&mut self) -> Result<Act, Error> {
        let expected = "late TIME, slow TIME, kill, exit [STATUS], _exit [STATUS], abort, hang, hang_inside, stuck STATE, drag STATE TIME, fork, skip or a block";
        let word = self.word(expected, |w| Some(w.to_string()))?;
        let status = |parser: &mut Self| match parser.more() {
            None => Ok(0),
            Some(t) => match t.text.parse() {
                Ok(status) => Ok(status),
                Err(_) => parser.fail(t.line, "an exit status", &t.text),
            },
        };
        Ok(match word.as_str() {
            "late" => Act::Late(self.word("a time like 5ms", nanos)?),
            "slow" => Act::Slow(self.word("a time like 5ms", nanos)?),
            "kill" => Act::Kill,
            "exit" => Act::Exit(status(self)?),
            "_exit" => Act::QuickExit(status(self)?),
            "abort" => Act::Abort,
            "hang" => Act::Hang,
            "hang_inside" => Act::HangInside,
            "fork" => Act::Fork,
            "skip" => Act::Skip,
            "stuck" => Act::Stuck(self.stop()?),
            "drag" => Act::Drag(self.drag()?),
            found => return self.fail(self.line(), expected, found),
        })
    }

    fn stop(&mut self) -> Result<Stop, Error> {
        let words: Vec<&str> = stuck::WORDS.iter().map(|w| w.0).collect();
        let (_, send, wait) = self.word(&format!("one of {}", words.join(", ")), |word| {
            stuck::WORDS.into_iter().find(|w| w.0 == word)
        })?;
        let mut stop = Stop {
            send,
            wait,
            step: 0,
            channel: None,
        };
        while let Some(token) = self.more() {
            let known = match token.text.split_once('=') {
                Some(("step", n)) => n.parse().map(|n| stop.step = n).is_ok(),
                Some(("channel", n)) => n.parse().map(|n| stop.channel = Some(n)).is_ok(),
                _ => false,
            };
            if !known {
                return self.fail(token.line, "step=N or channel=N", &token.text);
            }
        }
        Ok(stop)
    }

    fn drag(&mut self) -> Result<Drag, Error> {
        let states = || {
            stuck::WORDS
                .into_iter()
                .filter_map(|(word, send, wait)| match wait {
                    Wait::State(state) => Some((word, send, state)),
                    Wait::Queued => None,
                })
        };
        let words: Vec<&str> = states().map(|(word, ..)| word).collect();
        let expected = format!("one of {}", words.join(", "));
        let (_, send, state) = self.word(&expected, |word| states().find(|s| s.0 == word))?;
        let ns = self.word("a time like 5ms", nanos)?;
        Ok(Drag { send, state, ns })
    }

    fn ranks(&mut self) -> Result<Vec<usize>, Error> {
        let limit = self.script.ranks;
        let expected = format!("ranks below {limit}, like 2, 0..7 or 0,3,4");
        self.word(&expected, |w| rank_list(w, limit))
    }

    fn known_comm(&mut self) -> Result<usize, Error> {
        if self.peek().is_some_and(|t| t.text == "world") {
            self.world();
        }
        let names = self.names.clone();
        self.word("the name of a communicator made before", |w| {
            names.get(w).copied()
        })
    }

    fn add(&mut self, name: String, label: Option<String>, instances: Vec<Instance>) -> usize {
        let id = self.script.comms.len();
        let comm = Comm {
            name: name.clone(),
            label,
            instances,
        };
        self.names.insert(name, id);
        self.script.comms.push(comm);
        id
    }

    /// A communicator that was made from a unique id, which is random in NCCL and of the script here.
    fn rooted(&self, members: Vec<usize>) -> Instance {
        let seed = mix(self.script.comms.len() as u64 + 1, 0);
        Instance {
            hash: members.iter().fold(seed, |h, m| mix(h, *m as u64)),
            members,
        }
    }

    /// The default communicator, made before all else on its first use.
    fn world(&mut self) -> usize {
        if let Some(id) = self.names.get("world") {
            return *id;
        }
        let world = self.rooted((0..self.script.ranks).collect());
        let id = self.add("world".into(), None, vec![world]);
        self.script.body.push(Statement::Create(id));
        id
    }

    fn world_if_none(&mut self) {
        if self.names.is_empty() {
            self.world();
        }
    }

    fn comm(&mut self, out: &mut Vec<Statement>) -> Result<(), Error> {
        let name = self.word("the communicator's name", name)?;
        if self.names.contains_key(&name) {
            return self.fail(self.line(), "a new communicator name", &name);
        }
        let limit = self.script.ranks;
        let (mut instances, mut label, mut hash) = (None, None, None);
        while let Some(token) = self.more() {
            match token.text.as_str() {
                "ranks" => {
                    let members = self.ranks()?;
                    instances = Some(vec![self.rooted(members)]);
                }
                "split" | "shrink" => {
                    let id = self.known_comm()?;
                    let parents = self.script.comms[id].instances.clone();
                    let of: Vec<usize> = parents.iter().flat_map(|i| i.members.clone()).collect();
                    let (ordinal, colored) = if token.text == "split" {
                        let splits = self.splits.entry(id).or_insert(0);
                        *splits += 1;
                        (*splits, self.split(&of)?)
                    } else {
                        self.word("`without`", |w| (w == "without").then_some(()))?;
                        let gone = self.word("ranks to leave out", |w| rank_list(w, limit))?;
                        let left = |i: &Instance| i.members.iter().filter(|r| !gone.contains(r)).copied().collect();
                        (0, parents.iter().map(|i| (0, left(i))).collect())
                    };
                    let children = colored.into_iter().filter(|(_, members)| !members.is_empty());
                    let children = children.map(|(color, members): (u32, Vec<usize>)| {
                        let parent = parents.iter().find(|p| members.iter().all(|m| p.members.contains(m)));
                        let hash = child_hash(parent?.hash, ordinal, color);
                        Some(Instance { hash, members })
                    });
                    instances = children.collect();
                    if instances.is_none() {
                        return self.fail(token.line, "ranks of one parent in each communicator", &token.text);
                    }
                }
                "name" => {
                    label = Some(self.word("a name in quotes", |w| {
                        let inner = w.strip_prefix('"')?.strip_suffix('"')?;
                        (!inner.contains('\0')).then(|| inner.to_string())
                    })?)
                }
                "hash" => {
                    hash = Some(self.word("a hash like 0x1f", |w| {
                        u64::from_str_radix(w.strip_prefix("0x")?, 16).ok()
                    })?)
                }
                found => {
                    return self.fail(
                        token.line,
                        "ranks LIST, split COMM colors LIST, split COMM every N, split COMM stride N, shrink COMM without LIST, name \"…\" or hash 0x…",
                        found,
                    )
                }
            }
        }
        let instances = match instances {
            Some(instances) => instances,
            None => vec![self.rooted((0..limit).collect())],
        };
        let id = self.add(name, label, instances);
        if let Some(hash) = hash {
            for instance in &mut self.script.comms[id].instances {
                instance.hash = hash;
            }
        }
        out.push(Statement::Create(id));
        Ok(())
    }

    /// Colours and the ranks that have them.
    fn split(&mut self, of: &[usize]) -> Result<Vec<(u32, Vec<usize>)>, Error> {
        let how = self.word("`colors`, `every` or `stride`", |w| {
            matches!(w, "colors" | "every" | "stride").then(|| w.to_string())
        })?;
        let mut colors: Vec<Option<u32>> = Vec::new();
        if how == "colors" {
            for _ in of {
                colors.push(self.word(
                    "a color (a number, or `-` for none) for each rank",
                    |w| match w {
                        "-" => Some(None),
                        w => w.parse().ok().map(Some),
                    },
                )?);
            }
        } else {
            let n = self.word("a number of at least 1", count)? as usize;
            let color = |i: usize| if how == "every" { i / n } else { i % n };
            colors.extend((0..of.len()).map(|i| Some(color(i) as u32)));
        }
        let mut distinct: Vec<u32> = colors.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let with = |color: u32| {
            let pairs = of.iter().zip(&colors);
            let members = pairs.filter(|(_, c)| **c == Some(color)).map(|(r, _)| *r);
            (color, members.collect())
        };
        Ok(distinct.into_iter().map(with).collect())
    }

    fn call(&mut self, op: Op) -> Result<(Call, u64), Error> {
        let line = self.line();
        let bytes = self.word("a size like 64MiB", bytes)?;
        let mut call = Call {
            op,
            bytes,
            datatype: c"ncclFloat32",
            comm: 0,
            root: 0,
            peer: Peer::Next(1),
            algo: c"RING",
            proto: None,
            channels: None,
            time_ns: None,
            in_place: false,
            tag: 0,
            path: Path::Kernel,
        };
        let (mut times, mut comm, mut peer) = (1, None, false);
        while let Some(token) = self.more() {
            let (key, value) = match token.text.split_once('=') {
                Some((key, value)) => (key, value),
                None => (token.text.as_str(), ""),
            };
            let expected = match (key, value) {
                ("comm", name) => {
                    comm = match name {
                        "world" => Some(self.world()),
                        name => self.names.get(name).copied(),
                    };
                    comm.is_none()
                        .then_some("comm= with the name of a communicator made before")
                }
                ("root", n) => store(&mut call.root, n.parse().ok(), "root= with a rank"),
                ("to", n) if op == Op::Send => {
                    peer = true;
                    store(&mut call.peer, peer_word(n), "to= with a rank, or +1 or -1")
                }
                ("from", n) if op == Op::Recv => {
                    peer = true;
                    store(&mut call.peer, peer_word(n), "from= with a rank, or +1 or -1")
                }
                ("algo", n) => {
                    let known = nccl_abi::names::ALGOS.contains(&n);
                    let found = known.then(|| event::text(n)).flatten();
                    store(&mut call.algo, found, "algo= with NCCL's name, like RING or NVLS_TREE")
                }
                ("proto", n) => {
                    let known = nccl_abi::names::PROTOS.contains(&n);
                    let found = known.then(|| event::text(n)).flatten();
                    store(&mut call.proto, found.map(Some), "proto= with LL, LL128 or SIMPLE")
                }
                ("channels", n) => {
                    let channels = n.parse().ok().filter(|n| (1..=64).contains(n));
                    store(&mut call.channels, channels.map(Some), "channels= with 1 to 64")
                }
                ("time", n) => store(&mut call.time_ns, nanos(n).map(Some), "time= with a time like 1.2ms"),
                ("tag", n) => store(&mut call.tag, n.parse().ok(), "tag= with a number"),
                ("inplace", "") => store(&mut call.in_place, Some(true), ""),
                ("symmetric", "") if !op.is_p2p() => store(&mut call.path, Some(Path::Symmetric), ""),
                ("ce", "") if matches!(op, Op::AllGather | Op::AlltoAll | Op::Gather | Op::Scatter) => {
                    store(&mut call.path, Some(Path::CopyEngine), "")
                }
                (word, "") if datatype(word).is_some() => store(&mut call.datatype, datatype(word), ""),
                (word, "") => store(
                    &mut times,
                    word.strip_prefix('x').and_then(count),
                    "a datatype (f32, f16, bf16, f64, i8, u8, i32, u32, i64, u64, e4m3, e5m2), a count like x16, key=value (comm root to from algo proto channels time tag), inplace, symmetric, or ce (AllGather, AlltoAll, Gather, Scatter)",
                ),
                _ => Some("one of comm= root= to= (send) from= (recv) algo= proto= channels= time= tag="),
            };
            if let Some(expected) = expected {
                return self.fail(token.line, expected, &token.text);
            }
        }
        if matches!(op, Op::Send | Op::Recv) && !peer {
            let expected = if op == Op::Send { "to=" } else { "from=" };
            return self.fail(line, expected, ";");
        }
        call.comm = match comm {
            Some(comm) => comm,
            None => self.world(),
        };
        Ok((call, times))
    }
}

/// Stores a value that was read; else says what was expected.
fn store<T>(place: &mut T, value: Option<T>, expected: &'static str) -> Option<&'static str> {
    match value {
        Some(value) => {
            *place = value;
            None
        }
        None => Some(expected),
    }
}

fn peer_word(text: &str) -> Option<Peer> {
    if text.starts_with(['+', '-']) {
        text.parse().ok().map(Peer::Next)
    } else {
        text.parse().ok().map(Peer::Rank)
    }
}

fn name(text: &str) -> Option<String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    text.chars().all(sound).then(|| text.to_string())
}

fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| *n > 0)
}

fn datatype(word: &str) -> Option<Text> {
    Some(match word {
        "f32" => c"ncclFloat32",
        "f16" => c"ncclFloat16",
        "bf16" => c"ncclBfloat16",
        "f64" => c"ncclFloat64",
        "i8" => c"ncclInt8",
        // NCCL's table lacks it and says so.
        "u8" => c"Unknown",
        "i32" => c"ncclInt32",
        "u32" => c"ncclUint32",
        "i64" => c"ncclInt64",
        "u64" => c"ncclUint64",
        "e4m3" => c"ncclFloat8e4m3",
        "e5m2" => c"ncclFloat8e5m2",
        _ => return None,
    })
}

fn rank_list(text: &str, limit: usize) -> Option<Vec<usize>> {
    let mut ranks = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, last)) => {
                let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                if first > last || last >= limit {
                    return None;
                }
                ranks.extend(first..=last);
            }
            None => ranks.push(part.parse().ok()?),
        }
    }
    ranks.iter().all(|r| *r < limit).then_some(ranks)
}

/// A size: a number and B, KiB, MiB, GiB, or KB, MB, GB.
///
/// Not [`units::bytes`]: a script says exactly what a job does, so KB is 1000 here and a fraction is one. Options and
/// settings follow nccl-tests, where K, KB and KiB are all 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    Some((number * unit as f64) as u64)
}

/// A time: a number and ns, us, ms, s, min or h.
pub fn nanos(text: &str) -> Option<u64> {
    units::nanos(text, None).map(|ns| ns.round() as u64)
}

fn signed_nanos(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(rest) => nanos(rest).map(|n| -(n as i64)),
        None => nanos(text.strip_prefix('+').unwrap_or(text)).map(|n| n as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_grammar_on_one_screen() {
        let script = Script::parse(
            "nccl 2.30.7
             ranks 8
             hosts 2
             per_process 2 ; one_thread
             gpu_offset 3 -850us
             host_clock 1 -70ms
             comm dp ranks 0..7 name \"data parallel\"   # a comment
             comm tp split dp every 2
             comm odd split dp colors 0 1 - 1 0 1 0 1
             comm less shrink dp without 3,5 hash 0x1f
             repeat 45 { all_reduce 64MiB bf16 comm=dp algo=TREE proto=SIMPLE channels=16 time=1.2ms }
             rank 2 late 5ms
             rank 3 slow 1ms
             group { send 1MiB to=+1 ; recv 1MiB from=-1 }
             all_to_all 4MiB inplace ; gather 1MiB root=1 ; scatter 1MiB comm=tp
             graph g { all_reduce 1KiB x16 }
             replay g x10
             rate 10000/s ; sleep 10ms ; sync ; rate off
             rank 0..3 { broadcast 1KiB comm=tp tag=7 }
             fault stale_stop
             reinit tp ; destroy dp
             rank 2 stuck send_network step=5 channel=1
             rank 3 drag recv_flush 2ms
             rank 3 kill ; rank 4 exit 3 ; no_destroy",
        )
        .unwrap();
        assert_eq!(script.nccl.to_string(), "2.30.7");
        assert_eq!(script.comms.len(), 5);
        assert_eq!(script.comms[1].instances.len(), 4);
        assert_eq!(script.comms[2].instances[1].members, [1, 3, 5, 7]);
        assert_eq!(script.comms[3].instances[0].members, [0, 1, 2, 4, 6, 7]);
        assert_eq!(script.comms[3].instances[0].hash, 0x1f);
        assert_eq!(script.gpu_offset_ns[3], -850_000);
        assert_eq!(script.host_clock_ns, [0, -70_000_000]);
        assert!(!script.destroy && script.one_thread);
        assert_eq!((script.host(3), script.host(4)), (0, 1));
    }

    #[test]
    fn errors_name_line_expectation_and_finding() {
        let error = |source| Script::parse(source).unwrap_err().to_string();
        assert!(error("ranks 2\nall_redcue 1MiB").starts_with("line 2: expected a statement"));
        assert!(error("ranks 2\nall_redcue 1MiB").ends_with("found `all_redcue`"));
        assert_eq!(
            error("all_reduce"),
            "line 1: expected a size like 64MiB, found the end of the statement"
        );
        assert_eq!(
            error("ranks 4\nrank 5 kill"),
            "line 2: expected ranks below 4, like 2, 0..7 or 0,3,4, found `5`"
        );
        assert!(error("ranks 2\nhosts 2\nhost_clock 2 1ms").contains("hosts below 2"));
        assert!(error("nccl 2.28.8").contains("an examined release (2.23.4"));
        assert_eq!(
            error("send 1KiB"),
            "line 1: expected to=, found the end of the statement"
        );
        assert!(error("all_reduce 1KiB comm=dp").contains("found `comm=dp`"));
        assert!(error("repeat 3 {\nall_reduce 1KiB").contains("expected `}`"));
        assert!(error("all_reduce 1KiB\nranks 4").contains("job settings before"));
        assert!(error("fault nothing").contains("stale_stop, double_stop"));
        assert!(error("rank 0 drag send_queued 1ms").contains("recv_flush, recv_gpu, found"));
        assert!(error("rank 0 stuck wire").contains("one of send_gpu, send_peer, send_network"));
        assert!(error("rank 0 stuck send_gpu steps=1").contains("expected step=N or channel=N"));
    }

    #[test]
    fn every_fault_has_its_word_once() {
        for (i, (fault, word, _)) in FAULTS.iter().enumerate() {
            assert_eq!(*fault as usize, i);
            assert_eq!(FAULTS.iter().filter(|f| f.1 == *word).count(), 1);
        }
        for (i, (op, _, _)) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, i);
        }
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(bytes("1.5KiB"), Some(1536));
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("1XB"), None);
        assert_eq!(nanos("1.2ms"), Some(1_200_000));
        assert_eq!(nanos("5"), None);
        assert_eq!(Peer::Next(-1).of(0, 8), 7);
    }
}
