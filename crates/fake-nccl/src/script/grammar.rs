//! The statements, by their first words.

mod calls;
mod communicators;
mod ranks;

use super::call::Op;
use super::error::Error;
use super::parser::Parser;
use super::statement::Statement;
use super::values::{count, name, nanos, rank_list, signed_nanos};
use crate::fault::FAULTS;
use crate::plugin::Version;

const WORDS: &str = "a statement (nccl, ranks, hosts, per_process, one_thread, gpu_offset, host_clock, lead, linger, host_cost, comm, repeat, group, rank, graph, replay, sleep, rate, sync, destroy, reinit, no_destroy, fault) or a call (all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, gather, scatter, send, recv)";

impl Parser {
    pub(super) fn statement(
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
}
