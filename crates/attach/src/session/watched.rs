//! A process that is watched.

use super::Seen;
use crate::calls::{Ask, CallTracker};
use crate::event::BpfEvent;
use crate::library::Library;
use crate::probes::{Links, Losses};
use crate::writer::Writer;
use std::path::PathBuf;
use std::sync::Arc;

/// What is needed to write a process's calls once it makes one.
pub(super) struct Plan {
    pub(super) stem: PathBuf,
    pub(super) id: u64,
    pub(super) facts: String,
    /// Its own number, its start, and its name space.
    pub(super) who: [u64; 3],
}

/// Its probes, and what takes its calls.
pub(super) struct Watched {
    pub(super) pid: u32,
    /// As it numbers itself.
    pub(super) own: u32,
    pub(super) start: u64,
    /// As long as it has made no call. A process that only loaded NCCL is no part of the capture: the agent
    /// of torchrun is none of the job's ranks.
    pub(super) plan: Option<Plan>,
    pub(super) calls: Option<CallTracker>,
    pub(super) libraries: Vec<Arc<Library>>,
    /// Probes for this process alone.
    pub(super) links: Vec<Links>,
    pub(super) seen: Seen,
    pub(super) error: Option<String>,
}

impl Watched {
    /// What takes its calls.
    pub(super) fn calls(&mut self) -> Option<&mut CallTracker> {
        if let Some(plan) = self.plan.take() {
            // Only now: what records nothing leaves no folder.
            let folder = plan.stem.parent().map_or(Ok(()), std::fs::create_dir_all);
            match folder.and_then(|()| Writer::make(&plan.stem, plan.id, &plan.facts, plan.who)) {
                Ok(writer) => {
                    self.seen.trace = Some(plan.stem.with_extension("trace"));
                    self.calls = Some(CallTracker::new(
                        writer,
                        ask(self.pid, self.libraries.first()),
                    ));
                }
                Err(error) => self.error = Some(error.to_string()),
            }
        }
        self.calls.as_mut()
    }

    pub(super) fn take(&mut self, event: &BpfEvent) {
        if let Some(calls) = self.calls() {
            calls.take(event);
        }
    }

    /// What of it was lost so far.
    pub(super) fn lost(&mut self, losses: Losses) {
        self.seen.losses = losses;
        let any = losses.entries + losses.returns;
        if self.calls.is_none() && any == 0 {
            return;
        }
        if let Some(calls) = self.calls() {
            calls.lost(losses.entries, any);
        }
    }

    /// Something was lost, and it is not known whose it is.
    pub(super) fn numbers_end(&mut self, losses: Losses) {
        if let Some(calls) = &mut self.calls {
            calls.numbers_end(losses.entries + losses.returns);
        }
    }

    pub(super) fn open(&self) -> usize {
        self.calls.as_ref().map_or(0, CallTracker::open)
    }

    pub(super) fn made(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.counts.all())
    }
}

/// How to read a process's communicators, if its memory may be read and its NCCL says where.
fn ask(pid: u32, library: Option<&Arc<Library>>) -> Option<Ask> {
    let fields = library?.fields?;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    Some(Box::new(move |address| fields.read(&memory, address)))
}
