//! Dumps of PyTorch's flight recorder, which says which collectives each rank has made: pickles or JSON, one
//! file for each rank (`TORCH_FR_BUFFER_SIZE`, `TORCH_NCCL_TRACE_BUFFER_SIZE`).
//!
//! ```text
//! pg_config    name ──▶ description, ranks          the communicators
//! entries      the newest calls, with state         calls: open ones as in the live part of a process
//! file name    nccl_trace_rank_3                    the rank, which the dump itself does not say
//! ```
//!
//! The buffer keeps the newest calls. Calls before them are in no file, and nothing says that they are
//! missing.
//!
//! Rule: a call is over only if the dump says `completed`. When it ended on the GPU is not known: the dump
//! has the time at which a thread noticed it. `started` is known with `TORCH_NCCL_ENABLE_TIMING` only.
//! Without it a call stays `scheduled` until it is completed, so `scheduled` says that the GPU has not begun
//! a call only in a dump with a start of another call.
//!
//! Gloo gives the flight recorder no events, so its calls stay `scheduled` for ever. They are over if they
//! are `retired`: Gloo's thread retires a call when its work has ended. NCCL's watchdog also retires calls
//! that failed, so there `retired` says nothing. Gloo's dumps do not say which ranks are in a group, nor that
//! there were sends and receives.

use crate::found::Found;
use crate::json::{Fault, Json};
use crate::pickle;
use crate::torch::{self, Group};
use crate::value::{Id, Node, Tree};
use crate::writer::{Call, Communicator, Process, MOST_COMMUNICATORS};
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// Bytes of a dump that are read.
const MOST_BYTES: u64 = 1 << 28;
/// A job's last call is not longer before its dumps, ns: 24 hours.
const DUMPED_WITHIN: u64 = 86_400_000_000_000;
/// Calls of a dump that are kept: the newest.
pub const MOST_CALLS: usize = 1 << 18;

/// Whether the keys at the top of a JSON file are of such a dump.
pub fn is_key(key: &str) -> bool {
    matches!(key, "pg_config" | "pg_status" | "entries")
}

/// Reads the dump that `input` hands out.
///
/// # Errors
/// If the file can't be read.
pub fn read(input: impl Read) -> Result<Found, Fault> {
    let mut bytes = Vec::new();
    input
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .map_err(Fault::Io)?;
    let mut tree = Tree::default();
    let root = if pickle::is_pickle(&bytes) {
        pickle::read(&bytes, &mut tree).map_err(|bad| {
            let text = format!("byte {}: {}", bad.at, bad.found);
            Fault::Io(io::Error::new(io::ErrorKind::InvalidData, text))
        })?
    } else {
        tree.from_json(&mut Json::new(&bytes[..]))?
    };
    drop(bytes);
    let dump = Dump { tree, root };
    Ok(dump.found())
}

/// Finishes the dumps of a job, which were written at about the same time: gives each its ranks, and says
/// when that was, if the files tell.
pub fn complete(processes: &mut [Process], paths: &[PathBuf]) {
    let newest = processes
        .iter()
        .flat_map(|process| &process.calls)
        .map(|call| call.called)
        .max();
    let newest = newest.unwrap_or(0);
    // Copies that keep times have the moment of the dump; others have one that is much later.
    let written = |path: &PathBuf| {
        let modified = path.metadata().ok()?.modified().ok()?;
        u64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
    };
    let written = paths.iter().filter_map(written).filter(|at| *at > newest);
    let as_of = written.min().filter(|at| at - newest < DUMPED_WITHIN);
    begin_together(processes);
    for process in processes {
        process.as_of = Some(as_of.unwrap_or(newest));
        if as_of.is_none() {
            process.facts.push(("as_of", "unknown".to_owned()));
        }
        let rank: Option<u32> = process.fact("rank").and_then(|rank| rank.parse().ok());
        for communicator in &mut process.communicators {
            let at = communicator
                .ranks
                .iter()
                .position(|member| Some(*member) == rank);
            communicator.rank = at.and_then(|at| u32::try_from(at).ok());
        }
    }
}

/// Leaves out calls that are older than the oldest one in the buffer of another rank of their group. Calls
/// of different ranks are matched by their order from the first on.
fn begin_together(processes: &mut [Process]) {
    let mut oldest: HashMap<u64, u64> = HashMap::new();
    for process in processes.iter() {
        let mut own: HashMap<u64, u64> = HashMap::new();
        for (hash, seq) in process
            .calls
            .iter()
            .filter_map(|call| numbered(process, call))
        {
            let known = own.entry(hash).or_insert(seq);
            *known = seq.min(*known);
        }
        for (hash, seq) in own {
            let known = oldest.entry(hash).or_insert(seq);
            *known = seq.max(*known);
        }
    }
    for process in processes {
        let calls = std::mem::take(&mut process.calls);
        let is_kept = |call: &Call| {
            let number = numbered(process, call).filter(|_| !call.is_open);
            number.is_none_or(|(hash, seq)| oldest.get(&hash).is_none_or(|oldest| seq >= *oldest))
        };
        let kept = calls.into_iter().filter(is_kept).collect();
        process.calls = kept;
    }
}

/// The group and the number of a call that has one.
fn numbered(process: &Process, call: &Call) -> Option<(u64, u64)> {
    let communicator = process.communicators.get(call.communicator as usize)?;
    Some((communicator.hash, call.seq?)).filter(|(hash, _)| *hash != 0)
}

struct Dump {
    tree: Tree,
    root: Id,
}

impl Dump {
    fn field(&self, of: Id, key: &str) -> Option<&str> {
        self.tree.text(self.tree.field(of, key)?)
    }

    fn number(&self, of: Id, key: &str) -> Option<u64> {
        u64::try_from(self.tree.int(self.tree.field(of, key)?)?).ok()
    }

    fn flag(&self, of: Id, key: &str) -> Option<bool> {
        match self.tree.get(self.tree.field(of, key)?) {
            Node::Bool(is) => Some(*is),
            _ => None,
        }
    }

    fn groups(&self) -> HashMap<String, Group> {
        let mut groups = HashMap::new();
        let config = self.tree.field(self.root, "pg_config");
        let Some(Node::Map(pairs)) = config.map(|id| self.tree.get(id)) else {
            return groups;
        };
        for (key, value) in pairs {
            let name = self
                .field(*value, "name")
                .or(self.tree.text(*key))
                .unwrap_or("");
            let ranks = self.tree.field(*value, "ranks");
            let listed = |id: Id| -> Option<Vec<u32>> {
                let ids = self.tree.list(id).iter();
                ids.map(|id| u32::try_from(self.tree.int(*id)?).ok())
                    .collect()
            };
            let ranks = ranks.and_then(|id| match self.tree.text(id) {
                Some(text) => torch::ranks(text),
                None => listed(id),
            });
            let ranks = ranks.unwrap_or_default();
            let group = Group {
                name: name.to_owned(),
                description: self.field(*value, "desc").unwrap_or("").to_owned(),
                size: ranks.len() as u32,
                ranks,
                ..Group::default()
            };
            groups.insert(name.to_owned(), group);
        }
        groups
    }

    fn found(&self) -> Found {
        let groups = self.groups();
        let rank = self
            .number(self.root, "rank")
            .and_then(|rank| u32::try_from(rank).ok());
        let entries = self.tree.field(self.root, "entries");
        let entries = entries.map_or(&[][..], |id| self.tree.list(id));
        let mut found = Found {
            rank,
            host: self.field(self.root, "hostname").map(str::to_owned),
            ..Found::default()
        };
        let left_out = entries.len().saturating_sub(MOST_CALLS);
        if left_out > 0 {
            found.damage.push((
                "its entries".to_owned(),
                format!("{MOST_CALLS} at most"),
                format!("{left_out} more, the oldest, which are left out"),
            ));
        }
        if entries.is_empty() {
            found.damage.push((
                "its entries".to_owned(),
                "calls of this rank".to_owned(),
                "none, so what the rank did is not known".to_owned(),
            ));
        }
        let has_starts = entries.iter().any(|entry| self.has_start(*entry));
        let process = &mut found.process;
        let mut known: HashMap<String, u32> = HashMap::new();
        for entry in &entries[left_out..] {
            if let Some(mut call) = self.call(*entry, &groups, process, &mut known) {
                call.begun = call.begun.filter(|begun| *begun || has_starts);
                process.calls.push(call);
            }
        }
        process.calls.sort_by_key(|call| call.called);
        let version = self
            .field(self.root, "nccl_version")
            .or(self.field(self.root, "comm_lib_version"));
        process.facts = vec![
            ("mode", "flight-recorder".to_owned()),
            ("tool", "PyTorch's flight recorder".to_owned()),
            ("timing", "host".to_owned()),
            ("timing_because", "the flight recorder has none".to_owned()),
            ("ends", "gpu".to_owned()),
            ("nccl", version.unwrap_or("").to_owned()),
        ];
        found
    }

    /// Whether the dump knows that the GPU has begun a call.
    fn has_start(&self, entry: Id) -> bool {
        self.field(entry, "state") == Some("started")
            // JSON has 0 if it is not known.
            || self
                .number(entry, "time_discovered_started_ns")
                .is_some_and(|ns| ns != 0)
    }

    fn call(
        &self,
        entry: Id,
        groups: &HashMap<String, Group>,
        process: &mut Process,
        known: &mut HashMap<String, u32>,
    ) -> Option<Call> {
        let title = self.field(entry, "profiling_name")?;
        // `nccl:send 0->1`, `nccl:recv 1<-0`
        let (name, peers) = title.split_once(' ').unwrap_or((title, ""));
        let (backend, name) = name.rsplit_once(':').unwrap_or(("", name));
        let function = torch::function(name)?;
        let peer = peers.split_once("->").or(peers.split_once("<-"));
        let peer = peer.and_then(|(_, peer)| peer.trim().parse().ok());
        let of = self
            .tree
            .field(entry, "process_group")
            .map_or(&[][..], |id| self.tree.list(id));
        let text = |at: usize| of.get(at).and_then(|id| self.tree.text(*id)).unwrap_or("");
        let mut group = groups.get(text(0)).cloned().unwrap_or_default();
        if group.name.is_empty() {
            group.name = text(0).to_owned();
            group.description = text(1).to_owned();
        }
        let index = match known.get(&group.name) {
            Some(index) => *index,
            None if process.communicators.len() >= MOST_COMMUNICATORS => u32::MAX,
            None => {
                let index = process.communicators.len() as u32;
                process.communicators.push(Communicator {
                    hash: group.hash(),
                    nranks: group.size,
                    name: group.title().to_owned(),
                    ranks: group.ranks.clone(),
                    ..Communicator::default()
                });
                known.insert(group.name.clone(), index);
                index
            }
        };
        let elements = |key: &str| -> Option<u64> {
            let lists = self.tree.list(self.tree.field(entry, key)?);
            let product = |id: &Id| {
                let sizes = self.tree.list(*id).iter();
                sizes.fold(1u64, |n, id| {
                    let size = self.tree.int(*id).and_then(|n| u64::try_from(n).ok());
                    n.saturating_mul(size.unwrap_or(0))
                })
            };
            Some(lists.iter().map(product).fold(0, u64::saturating_add))
        };
        let datatype = ["input_dtypes", "output_dtypes"].iter().find_map(|key| {
            let list = self.tree.list(self.tree.field(entry, key)?);
            self.tree.text(*list.first()?)
        });
        let (given, got) = (elements("input_sizes"), elements("output_sizes"));
        let is_p2p = matches!(function, "Send" | "Recv");
        let time = |key| self.number(entry, key).filter(|ns| *ns != 0);
        let called = time("time_created_ns")?;
        let state = self.field(entry, "state");
        let is_over = match backend {
            "gloo" => self.flag(entry, "retired") == Some(true),
            _ => state == Some("completed"),
        };
        let begun = match state {
            // Nobody tells when Gloo begins a call.
            _ if backend == "gloo" => None,
            Some("started") => Some(true),
            // Parts of a batch have no events of their own.
            Some("scheduled") if !is_p2p => Some(false),
            _ => None,
        };
        Some(Call {
            communicator: index,
            function,
            datatype: datatype.map_or("", torch::datatype),
            count: torch::count(function, given.unwrap_or(0), got.unwrap_or(0), group.size),
            peer: peer.filter(|_| is_p2p),
            seq: self.number(entry, "collective_seq_id").filter(|_| !is_p2p),
            called,
            is_open: !is_over,
            begun,
            ..Call::default()
        })
    }
}
