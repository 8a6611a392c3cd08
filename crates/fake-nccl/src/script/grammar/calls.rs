//! Calls, and groups of them.

use crate::event;
use crate::script::call::{Call, Op, Path, Peer};
use crate::script::error::Error;
use crate::script::parser::Parser;
use crate::script::statement::Statement;
use crate::script::values::{bytes, count, datatype, nanos, peer_word};

const LONGEST_GROUP: usize = 100_000;

impl Parser {
    pub(super) fn flatten(
        &self,
        line: usize,
        body: &[Statement],
        out: &mut Vec<Call>,
    ) -> Result<(), Error> {
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

    pub(super) fn call(&mut self, op: Op) -> Result<(Call, u64), Error> {
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
