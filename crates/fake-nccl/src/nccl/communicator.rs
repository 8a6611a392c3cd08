//! One rank's part in a communicator: ncclCommInit, ncclCommDestroy, and its threads.

use super::progress::Progress;
use super::timeline::VirtualClock;
use super::work::Work;
use super::worker::Worker;
use crate::event::{Event, Handle, StateArgs, Text};
use crate::gpu;
use crate::lock::lock;
use crate::plugin::{Identity, Loader, PluginContext};
use crate::script::{Call, Path};
use std::ffi::CString;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed},
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One rank's part in a communicator.
pub struct Communicator {
    /// Index of its name in the script.
    pub id: usize,
    /// Its link to the plugin, if there is one.
    pub profiler: Option<PluginContext>,
    pub(super) identity: Identity,
    pub(super) label: String,
    pub(super) hosts: Vec<usize>,
    /// The stream of its calls.
    pub stream: usize,
    pub(super) timeline: VirtualClock,
    pub(super) seq: [AtomicU64; 15],
    pub(super) ce_seq: AtomicU64,
    pub(super) progress: Option<Arc<Progress>>,
    pub(super) proxy: Option<Arc<Worker>>,
    pub(super) profiler_thread: Option<Arc<Worker>>,
    pub(super) version: u32,
    pub(super) native: u8,
    pub(super) all_gather_v: bool,
    /// What it is connected for.
    connected: Mutex<Vec<Connection>>,
}

/// What ranks are connected for at the first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Algorithm(Text),
    SendTo(usize),
    RecvFrom(usize),
}

impl Communicator {
    /// ncclCommInit: calls the plugin's `init`, then starts the threads.
    ///
    /// `hosts` has the host of each member. `net_plugin`: the network plugin has events of its own. `parent`
    /// lends its threads.
    #[allow(clippy::too_many_arguments)]
    pub fn init(
        loader: &Loader,
        id: usize,
        label: &str,
        identity: Identity,
        hosts: Vec<usize>,
        timeline: VirtualClock,
        net_plugin: bool,
        parent: Option<&Communicator>,
    ) -> Communicator {
        let (version, native) = (loader.version().0, loader.native());
        let profiler = loader.init(&identity);
        let progress = profiler.clone().map(|profiler| {
            Arc::new(Progress {
                version,
                native,
                profiler,
                rank: identity.rank,
                net_plugin,
                timeline: timeline.clone(),
                pending: AtomicUsize::new(0),
            })
        });
        let spawn = |name: &str, network: bool| {
            let progress = progress.clone()?;
            Some(Worker::spawn(name, move |works| {
                progress.run(works, network)
            }))
        };
        let lent = |worker: &Option<Arc<Worker>>| worker.as_ref().map(Worker::share);
        let (proxy, profiler_thread) = match parent {
            Some(parent) => (lent(&parent.proxy), lent(&parent.profiler_thread)),
            // The profiler thread has no name of its own in NCCL either; it inherits the creator's.
            None => (
                spawn("NCCL Progress", true),
                (version >= 23100)
                    .then(|| spawn("fake-nccl", false))
                    .flatten(),
            ),
        };
        Communicator {
            id,
            label: label.into(),
            hosts,
            stream: 0x7f55_0000_0000 + id * 0x100,
            timeline,
            seq: Default::default(),
            ce_seq: AtomicU64::new(0),
            progress,
            proxy,
            profiler_thread,
            profiler,
            identity,
            version,
            native,
            all_gather_v: std::env::var("NCCL_ALLGATHERV_ENABLE").as_deref() != Ok("0"),
            connected: Mutex::default(),
        }
    }

    /// Connects the rank for what it uses, if it did not before.
    pub(super) fn connect(&self, what: Connection) {
        let Some(gpu) = gpu::get() else { return };
        let mut connected = lock(&self.connected);
        if connected.contains(&what) {
            return;
        }
        connected.push(what);
        let (rank, ranks) = (self.rank(), self.size());
        let is_local = |peer: usize| self.hosts[peer] == self.hosts[rank];
        match what {
            Connection::Algorithm(_) => {
                let neighbours = [(rank + 1) % ranks, (rank + ranks - 1) % ranks];
                gpu.connect(&neighbours.map(is_local));
            }
            Connection::SendTo(peer) | Connection::RecvFrom(peer) if peer != rank => {
                gpu.reach(is_local(peer));
            }
            Connection::SendTo(_) | Connection::RecvFrom(_) => {}
        }
    }

    /// ncclCommDestroy: waits for the threads, then calls the plugin's `finalize`.
    pub fn destroy(&self, loader: &Loader) {
        self.drain();
        if let Some(profiler) = self.profiler.clone() {
            loader.finalize(profiler);
        }
    }

    /// Waits until GPU and network have delivered everything, and ends the threads.
    pub fn drain(&self) {
        for worker in [&self.proxy, &self.profiler_thread].into_iter().flatten() {
            worker.leave();
        }
        // Others may go on using the threads.
        self.wait();
    }

    /// Waits until its threads have done what they were given.
    pub fn wait(&self) {
        let pending = || {
            self.progress
                .as_ref()
                .map_or(0, |of| of.pending.load(Acquire))
        };
        while pending() > 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// When its GPU is at this time; `None` for never.
    pub(super) fn until(&self, at: Option<u64>) -> Option<Instant> {
        self.timeline.instant(at?)
    }

    /// Hands work to the threads: network operations to the proxy, and KernelCh events to the profiler thread
    /// if there is one.
    pub(super) fn post(&self, work: Work) {
        let seen = work.kernel.is_some();
        let pending = &work.of.clone().pending;
        match (&self.proxy, &self.profiler_thread) {
            (Some(proxy), Some(profiler)) => {
                if !work.sides.is_empty() {
                    pending.fetch_add(1, Relaxed);
                    proxy.send(Work {
                        kernel: None,
                        ..work.clone()
                    });
                }
                if seen {
                    pending.fetch_add(1, Relaxed);
                    profiler.send(Work {
                        sides: Vec::new(),
                        ..work
                    });
                }
            }
            (Some(proxy), None) if seen || !work.sides.is_empty() => {
                pending.fetch_add(1, Relaxed);
                proxy.send(work);
            }
            _ => {}
        }
    }

    /// The events wanted at this moment, of those that the release knows.
    pub(super) fn mask(&self) -> u64 {
        let known = nccl_abi::event::known(self.native).unwrap_or(0);
        self.profiler.as_ref().map_or(0, PluginContext::mask) & known
    }

    /// Whether events say that the kernel is symmetric; they do from 2.31 on.
    pub(super) fn symmetric(&self, call: &Call) -> bool {
        call.path == Path::Symmetric && self.version >= 23100
    }

    pub(super) fn size(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn rank(&self) -> usize {
        self.identity.rank as usize
    }

    /// The rank in events of API calls, which NCCL fills in from 2.32 on.
    pub(super) fn api_rank(&self) -> i32 {
        match self.version {
            23200.. => self.identity.rank,
            _ => 0,
        }
    }

    pub(super) fn start(
        &self,
        event: &Event,
        parent: Handle,
        rank: i32,
        slot: &mut Handle,
    ) -> bool {
        let profiler = self.profiler.as_ref();
        profiler.is_some_and(|p| p.start(event, parent, rank, slot))
    }

    pub(super) fn stop(&self, handle: Handle) {
        if let Some(profiler) = &self.profiler {
            // 2.23 to 2.25 stop a null handle too.
            if handle != Handle::NULL || self.version < 22600 {
                profiler.table.stop(handle);
            }
        }
    }

    pub(super) fn state(&self, handle: Handle, value: u32) {
        if let Some(profiler) = &self.profiler {
            if handle != Handle::NULL {
                profiler.table.state(handle, value, StateArgs::Null);
            }
        }
    }
}

/// The name of a communicator as `init` gets it.
pub fn comm_name(label: Option<&str>) -> Option<CString> {
    label.map(|l| CString::new(l).expect("checked when parsed"))
}
