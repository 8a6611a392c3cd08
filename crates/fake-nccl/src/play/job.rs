//! One process's part of a job.

use crate::announced::Announced;
use crate::bench::cpu_ns;
use crate::control::{monotonic_ns, realtime_ns, Control};
use crate::lock::lock;
use crate::machine;
use crate::nccl::{Origin, Pace};
use crate::plugin::Loader;
use crate::script::Script;
use crate::tuner::Tuner;
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A thread that waits for ever.
pub(super) struct Stuck;

pub(super) type Flow = ControlFlow<Stuck>;

/// One process's part of a job.
pub(super) struct Job {
    pub(super) script: Script,
    pub(super) loader: Loader,
    /// Of `NCCL_TUNER_PLUGIN`, if collectives have a choice.
    pub(super) tuner: Option<Tuner>,
    pub(super) announced: Arc<Mutex<Announced>>,
    pub(super) origin: Arc<OnceLock<Origin>>,
    pub(super) abi: OnceLock<Result<u8, String>>,
    pub(super) control: Option<Control>,
    pub(super) fast: bool,
    /// Processor time of this process when the first call was due, ns.
    begun_cpu_ns: OnceLock<u64>,
    /// That of the threads that make calls, since then.
    pub(super) calling_cpu_ns: AtomicU64,
}

impl Job {
    pub(super) fn new(script: Script, loader: Loader, control: Option<Control>, fast: bool) -> Job {
        let has_choice = !script.choices.is_empty();
        Job {
            tuner: has_choice.then(|| Tuner::load(script.nccl.0)).flatten(),
            script,
            loader,
            announced: Arc::default(),
            origin: Arc::default(),
            abi: OnceLock::new(),
            control,
            fast,
            begun_cpu_ns: OnceLock::new(),
            calling_cpu_ns: AtomicU64::new(0),
        }
    }

    /// Waits for the other processes. One thread calls it, when the first communicators are made.
    pub(super) fn begin(&self) {
        let abi = self.loader.abi().map_err(|why| why.to_string());
        let begin = match &self.control {
            Some(control) => control.begin(abi.clone()).unwrap_or_else(|_| realtime_ns()),
            None => realtime_ns() + 1_000_000,
        };
        let _ = self.abi.set(abi);
        // The other processes begin by the machine's clock.
        let now = realtime_ns().saturating_add_signed(machine::clock_ns().saturating_neg());
        let left = Duration::from_nanos(begin.saturating_sub(now));
        let origin = Origin {
            pace: match () {
                () if self.script.virtual_time => Pace::Virtual(monotonic_at(begin)),
                () if self.fast => Pace::Fast,
                () => Pace::Kept(Instant::now() + left),
            },
            realtime_ns: begin,
        };
        let _ = self.origin.set(origin);
        let _ = self
            .begun_cpu_ns
            .set(cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID));
    }

    /// Reports what was announced, and how the process is about to end if not by itself.
    pub(super) fn report(&self, ending: Option<String>) {
        if let Some(begun) = self.begun_cpu_ns.get() {
            let spent = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(*begun);
            let calling = self.calling_cpu_ns.load(Relaxed);
            let took = &mut lock(&self.announced).took;
            (took.calls_ns, took.other_ns) = (calling, spent.saturating_sub(calling));
        }
        if let Some(control) = &self.control {
            control.say(&json!({"result": lock(&self.announced).to_json(), "ending": ending}));
        }
    }
}

/// CLOCK_MONOTONIC when the machine's wall clock shows `realtime`. Between two readings the machine may do
/// something else, so the closest of several counts.
fn monotonic_at(realtime: u64) -> u64 {
    let read = || {
        let before = monotonic_ns();
        let wall = realtime_ns().saturating_add_signed(machine::clock_ns().saturating_neg());
        let after = monotonic_ns();
        (after - before, before + (after - before) / 2, wall)
    };
    let closest = (0..32).map(|_| read()).min();
    closest.map_or(0, |(_, monotonic, wall)| {
        monotonic.saturating_add_signed(realtime as i64 - wall as i64)
    })
}
