//! Calls, and groups of them.

use crate::script::call::{Call, Op, Path, Peer};
use crate::script::error::Error;
use crate::script::parser::{Parser, Said};
use crate::script::statement::Statement;
use crate::script::values::{bytes, count, datatype, nanos, peer_word, static_text};

const LONGEST_GROUP: usize = 100_000;

/// `group { CALLS }`
pub(super) fn group(parser: &mut Parser) -> Said {
    let line = parser.line();
    let body = parser.block()?;
    let mut calls = Vec::new();
    flatten(parser, line, &body, &mut calls)?;
    Ok((!calls.is_empty()).then_some(Statement::Group {
        calls,
        explicit: true,
    }))
}

fn flatten(
    parser: &Parser,
    line: usize,
    body: &[Statement],
    out: &mut Vec<Call>,
) -> Result<(), Error> {
    for statement in body {
        match statement {
            Statement::Group { calls, .. } => out.extend(calls),
            Statement::Repeat(times, body) => {
                for _ in 0..*times {
                    flatten(parser, line, body, out)?;
                }
            }
            _ => return parser.fail(line, "only calls and repeats of calls in a group", "group"),
        }
        if out.len() > LONGEST_GROUP {
            return parser.fail(line, "at most 100000 calls in a group", "more");
        }
    }
    Ok(())
}

/// `OP SIZE [WORDS]`
pub(super) fn call(parser: &mut Parser, op: Op) -> Said {
    let line = parser.line();
    let bytes = parser.word("a size like 64MiB", bytes)?;
    let mut said = Options {
        call: Call {
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
            by: None,
            path: Path::Kernel,
        },
        times: 1,
        comm: None,
        has_peer: false,
    };
    while let Some(token) = parser.more() {
        let (key, value) = token.text.split_once('=').unwrap_or((&token.text, ""));
        if let Some(expected) = said.take(parser, key, value) {
            return parser.fail(token.line, expected, &token.text);
        }
    }
    if matches!(op, Op::Send | Op::Recv) && !said.has_peer {
        let expected = if op == Op::Send { "to=" } else { "from=" };
        return parser.fail(line, expected, ";");
    }
    said.call.comm = match said.comm {
        Some(comm) => comm,
        None => parser.world(),
    };
    let group = Statement::Group {
        calls: vec![said.call],
        explicit: false,
    };
    parser.ends(match said.times {
        1 => group,
        times => Statement::Repeat(times, vec![group]),
    })
}

const OPTIONS: &str = "a datatype (f32, f16, bf16, f64, i8, u8, i32, u32, i64, u64, e4m3, e5m2), \
                       a count like x16, key=value (comm root to from by algo proto channels time tag), \
                       inplace, symmetric, or ce (AllGather, AlltoAll, Gather, Scatter)";
const KEYS: &str =
    "one of comm= root= to= (send) from= (recv) by= (both) algo= proto= channels= time= tag=";

/// What the words after a call's size say.
struct Options {
    call: Call,
    times: u64,
    comm: Option<usize>,
    has_peer: bool,
}

impl Options {
    /// Takes `key=value`, or a word alone. If it can't, it gives what was expected.
    fn take(&mut self, parser: &mut Parser, key: &str, value: &str) -> Option<&'static str> {
        let call = &mut self.call;
        let op = call.op;
        match (key, value) {
            ("comm", name) => {
                self.comm = match name {
                    "world" => Some(parser.world()),
                    name => parser.names.get(name).copied(),
                };
                let expected = "comm= with the name of a communicator made before";
                self.comm.is_none().then_some(expected)
            }
            ("root", n) => store(&mut call.root, n.parse().ok(), "root= with a rank"),
            ("to", n) if op == Op::Send => {
                self.has_peer = true;
                let expected = "to= with a rank, or +1 or -1";
                store(&mut call.peer, peer_word(n), expected)
            }
            ("from", n) if op == Op::Recv => {
                self.has_peer = true;
                let expected = "from= with a rank, or +1 or -1";
                store(&mut call.peer, peer_word(n), expected)
            }
            ("by", n) if matches!(op, Op::Send | Op::Recv) => {
                let rank = n.parse().ok().filter(|rank| *rank < parser.script.ranks);
                store(&mut call.by, rank.map(Some), "by= with a rank of the job")
            }
            ("algo", n) => {
                let found = static_text(n, &nccl_abi::names::ALGOS);
                let expected = "algo= with NCCL's name, like RING or NVLS_TREE";
                store(&mut call.algo, found, expected)
            }
            ("proto", n) => {
                let found = static_text(n, &nccl_abi::names::PROTOS);
                let expected = "proto= with LL, LL128 or SIMPLE";
                store(&mut call.proto, found.map(Some), expected)
            }
            ("channels", n) => {
                let channels = n.parse().ok().filter(|n| (1..=64).contains(n));
                let expected = "channels= with 1 to 64";
                store(&mut call.channels, channels.map(Some), expected)
            }
            ("time", n) => {
                let expected = "time= with a time like 1.2ms";
                store(&mut call.time_ns, nanos(n).map(Some), expected)
            }
            ("tag", n) => store(&mut call.tag, n.parse().ok(), "tag= with a number"),
            ("inplace", "") => store(&mut call.in_place, Some(true), ""),
            ("symmetric", "") if !op.is_p2p() => store(&mut call.path, Some(Path::Symmetric), ""),
            ("ce", "") if op.has_copy_engine() => store(&mut call.path, Some(Path::CopyEngine), ""),
            (word, "") => match datatype(word) {
                Some(datatype) => store(&mut call.datatype, Some(datatype), ""),
                None => {
                    let times = word.strip_prefix('x').and_then(count);
                    store(&mut self.times, times, OPTIONS)
                }
            },
            _ => Some(KEYS),
        }
    }
}

/// Stores a value that was read. If there is none, it gives what was expected.
fn store<T>(place: &mut T, value: Option<T>, expected: &'static str) -> Option<&'static str> {
    match value {
        Some(value) => {
            *place = value;
            None
        }
        None => Some(expected),
    }
}
