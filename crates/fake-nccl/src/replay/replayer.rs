//! Makes recorded calls in this process, with its own handles, contexts and texts.

use crate::announced::{Announced, Operation, Times};
use crate::event::offsets::{captured, count_of, pointers, word};
use crate::event::{Descr, Handle, StateArgs, DESCR_BYTES};
use crate::plugin::{Identity, Loader, PluginContext};
use capture::callback::{self, EntryPoint};
use core::mem::offset_of;
use nccl_abi::{event, names, v1, v3, v5};
use std::collections::HashMap;
use std::ffi::CString;

/// What a plugin gets in place of a recorded pointer to memory that no longer exists, if no text was
/// recorded.
static NOWHERE: [u64; 8] = [0; 8];

/// What is known of a recorded handle.
#[derive(Clone, Copy)]
struct Known {
    handle: Handle,
    captured: bool,
    thread: u32,
}

/// What is known of a recorded context.
struct Comm {
    profiler: PluginContext,
    hash: u64,
    ranks: usize,
}

/// The maps from the recorded process to this one. Threads take turns with it.
pub(super) struct Replayer {
    pub(super) loader: Loader,
    own_pid: i32,
    recorded_pid: i32,
    texts: HashMap<u64, CString>,
    handles: HashMap<u64, Known>,
    comms: HashMap<u64, Comm>,
    pub(super) announced: Announced,
    /// The functions that are called. All communicators of a process share them.
    pub(super) any: Option<PluginContext>,
}

impl Replayer {
    /// `recorded_pid` is the id that the recorded process had.
    pub(super) fn new(loader: Loader, recorded_pid: i32) -> Replayer {
        Replayer {
            loader,
            own_pid: std::process::id() as i32,
            recorded_pid,
            texts: HashMap::new(),
            handles: HashMap::new(),
            comms: HashMap::new(),
            announced: Announced::default(),
            any: None,
        }
    }

    pub(super) fn play(&mut self, record: &callback::Callback) {
        match record.what {
            EntryPoint::Init => self.init(record),
            EntryPoint::Start => self.start(record),
            EntryPoint::Stop => {
                let handle = self.handle(record.subject);
                if let Some(any) = &self.any {
                    any.table.stop(handle);
                }
            }
            EntryPoint::State => {
                let handle = self.handle(record.subject);
                let Some(any) = &self.any else { return };
                // Two words hold any version's arguments; a recording may have fewer bytes.
                let mut args = StateArgs::Empty.encode();
                for (word, bytes) in args.iter_mut().zip(record.payload.chunks(8)) {
                    let mut full = word.to_le_bytes();
                    full[..bytes.len()].copy_from_slice(bytes);
                    *word = u64::from_le_bytes(full);
                }
                let args = (!record.payload.is_empty()).then_some(&mut args);
                any.table.state_raw(handle, record.result as u32, args);
            }
            EntryPoint::Finalize => {
                if let Some(comm) = self.comms.remove(&record.subject) {
                    self.loader.finalize(comm.profiler);
                }
            }
            EntryPoint::Text => {
                // NCCL's texts are literals: one pointer always leads to the same text, which a plugin may
                // rely on.
                let fresh = text(record.payload);
                if self.texts.get(&record.subject) != Some(&fresh) {
                    std::mem::forget(self.texts.insert(record.subject, fresh));
                }
            }
            // Threads of this process stand for those that were recorded.
            EntryPoint::Thread => {}
        }
    }

    fn init(&mut self, record: &callback::Callback) {
        let p = record.payload;
        let int = |at: usize| {
            p.get(at..at + 4)
                .map_or(0, |b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        };
        let identity = Identity {
            name: p.get(24..).filter(|n| !n.is_empty()).map(text),
            hash: word(p, 0).unwrap_or(0),
            nodes: int(8),
            ranks: int(12),
            rank: int(16),
        };
        let Some(profiler) = self.loader.init(&identity) else {
            return;
        };
        self.any = Some(profiler.clone());
        let comm = Comm {
            profiler,
            hash: identity.hash,
            ranks: identity.ranks.max(1) as usize,
        };
        self.comms.insert(record.result, comm);
    }

    /// The plugin's handle for a recorded one. A handle that was never given stays as it was.
    fn handle(&self, recorded: u64) -> Handle {
        let known = self.handles.get(&recorded);
        known.map_or(Handle(recorded as usize), |k| k.handle)
    }

    fn start(&mut self, record: &callback::Callback) {
        let Some(any) = self.any.clone() else { return };
        let abi = record.abi;
        let mut descr = Descr::default();
        let len = record.payload.len().min(DESCR_BYTES[usize::from(abi) - 1]);
        descr.0[..len].copy_from_slice(&record.payload[..len]);
        let header = word(&descr.0, 0).unwrap_or(0);
        let bit = if abi < 5 { header & 0xff } else { header };
        let recorded_parent = word(&descr.0, 8).unwrap_or(0);
        let (texts, handles) = pointers(abi, bit);
        let called = self.called(abi, bit, record.payload);
        let mut patch =
            |at: usize, value: u64| descr.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
        patch(8, self.handle(recorded_parent).0 as u64);
        for at in handles {
            let recorded = word(record.payload, *at).unwrap_or(0);
            patch(*at, self.handle(recorded).0 as u64);
        }
        for at in texts {
            let recorded = word(record.payload, *at).unwrap_or(0);
            let ours = self.texts.get(&recorded).map_or(0, |t| t.as_ptr() as u64);
            patch(*at, ours);
        }
        match bit {
            event::PROXY_OP => {
                let at = offset_of!(v5::Descr, u.proxy_op.pid);
                let pid = &mut descr.0[at..at + 4];
                if pid == self.recorded_pid.to_le_bytes() {
                    pid.copy_from_slice(&self.own_pid.to_le_bytes());
                } else if pid == self.own_pid.to_le_bytes() {
                    // It then was another process's, and must stay so.
                    pid.copy_from_slice(&self.recorded_pid.to_le_bytes());
                }
            }
            event::NET_PLUGIN if abi >= 3 => {
                // What it pointed to was only there during the call.
                patch(
                    offset_of!(v5::Descr, u.net_plugin.data),
                    NOWHERE.as_ptr() as u64,
                );
            }
            _ => {}
        }
        let captured = captured(abi, bit, record.payload);
        self.count(record, bit, recorded_parent, called);
        let context = match self.comms.get(&record.subject) {
            Some(comm) => comm.profiler.context,
            None => Handle(record.subject as usize),
        };
        let mut handle = Handle::NULL;
        any.table.start_raw(context, &mut handle, &mut descr);
        let known = Known {
            handle,
            captured,
            thread: record.thread,
        };
        self.handles.insert(record.result, known);
    }

    /// Function and datatype of an event that announces a call; empty for the others.
    fn called(&self, abi: u8, bit: u64, payload: &[u8]) -> (String, String) {
        macro_rules! at {
            ($v:ident: $member:ident) => {
                (
                    offset_of!($v::Descr, u.$member.func),
                    offset_of!($v::Descr, u.$member.datatype),
                )
            };
        }
        let (func, datatype) = match (abi, bit) {
            (1, event::COLL) => at!(v1: coll),
            (1, event::P2P) => at!(v1: p2p),
            (2 | 3, event::COLL) => at!(v3: coll),
            (2 | 3, event::P2P) => at!(v3: p2p),
            (4.., event::COLL) => at!(v5: coll),
            (4.., event::P2P) => at!(v5: p2p),
            (5.., event::COLL_API) => at!(v5: coll_api),
            (5.., event::P2P_API) => at!(v5: p2p_api),
            _ => return Default::default(),
        };
        if abi == 1 {
            let name = |of: fn(u8) -> Option<&'static str>, at: usize| {
                let number = payload.get(at).copied();
                number.and_then(of).unwrap_or_default().to_string()
            };
            return (name(names::func, func), name(names::datatype, datatype));
        }
        let name = |at: usize| {
            let text = word(payload, at).and_then(|address| self.texts.get(&address));
            text.map_or_else(String::new, |t| t.to_string_lossy().into_owned())
        };
        (name(func), name(datatype))
    }

    /// Counts a start that announces a call: see [`crate::announced`].
    fn count(
        &mut self,
        record: &callback::Callback,
        bit: u64,
        parent: u64,
        (function, datatype): (String, String),
    ) {
        let api = matches!(bit, event::COLL_API | event::P2P_API) && record.abi >= 5;
        let task = matches!(bit, event::COLL | event::P2P);
        // At capture, Coll comes on the thread of its API call. At a replay it comes on another thread.
        let replay = task
            && record.abi >= 5
            && self
                .handles
                .get(&parent)
                .is_some_and(|p| p.captured && p.thread != record.thread);
        if !(api || replay || (task && record.abi < 5)) {
            return;
        }
        let comm = self.comms.get(&record.subject);
        let ranks = comm.map_or(1, |c| c.ranks);
        let count = count_of(record.abi, bit, record.payload).unwrap_or(0);
        let scaled = match function.as_str() {
            "AllGather" | "ReduceScatter" | "AlltoAll" | "Gather" | "Scatter" => ranks as u64,
            _ => 1,
        };
        let operation = Operation {
            communicator: comm.map_or(0, |c| c.hash),
            name: String::new(),
            nranks: ranks,
            bytes: count * scaled * names::datatype_size(&datatype) as u64,
            function: function.clone(),
            datatype,
        };
        let times: &mut Times = self.announced.operations.entry(operation).or_default();
        if replay {
            times.replays += 1;
        } else {
            times.calls += 1;
            times.announced += 1;
        }
        *self.announced.functions.entry(function).or_default() += 1;
    }
}

/// NUL-terminated bytes; a text ends at a NUL anyway.
fn text(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}
