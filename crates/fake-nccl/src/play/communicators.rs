//! Communicators: make and destroy them.

use super::driver::Driver;
use super::job::{Flow, Stuck};
use crate::gpu::{self, Gpu};
use crate::nccl::{comm_name, Communicator};
use crate::nccl_log::Init;
use crate::plugin::Identity;
use crate::schedule::{self, instance};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Driver<'_> {
    pub(super) fn create(&mut self, id: usize, who: &[bool]) {
        let script = &self.job.script;
        let comm = &script.comms[id];
        for rank in self.mine.clone() {
            let Some((at, index)) = instance(script, id, rank).filter(|_| who[rank]) else {
                continue;
            };
            let of = &comm.instances[at];
            let identity = Identity {
                name: comm_name(comm.label.as_deref()),
                hash: of.hash,
                nodes: schedule::nodes(script, &of.members) as i32,
                ranks: of.members.len() as i32,
                rank: index as i32,
            };
            if let Some(tuner) = &self.job.tuner {
                let context = tuner.begin(of.hash, of.members.len(), identity.nodes as usize);
                self.tuned.insert((id, rank), context);
            }
            let hosts = of.members.iter().map(|m| script.host(*m)).collect();
            let parent = comm
                .shares
                .and_then(|parent| self.open.get(&(parent, rank)));
            let parent = parent.map(|index| self.launcher.comms[*index].clone());
            let kernels = |m: &usize| script.load_kernels_ns.get(*m).copied().unwrap_or(0);
            let said = identity.clone();
            let log = Init {
                identity: &said,
                device: rank,
                comm: id,
                kernels_ns: of.members.iter().map(kernels).collect(),
            };
            log.start();
            let loading = took(Gpu::load_kernels);
            let made = Communicator::init(
                &self.job.loader,
                id,
                &comm.name,
                identity,
                hosts,
                self.timeline(rank),
                script.net_plugin,
                parent.as_deref(),
            );
            log.complete(loading, took(Gpu::make_channels));
            self.open.insert((id, rank), self.launcher.comms.len());
            self.launcher.comms.push(Arc::new(made));
        }
    }

    pub(super) fn destroy(&mut self, id: usize, who: &[bool]) -> Flow {
        self.host_callbacks.drain();
        for rank in self.mine.clone() {
            if !who[rank] {
                continue;
            }
            if let (Some(tuner), Some(context)) = (&self.job.tuner, self.tuned.remove(&(id, rank)))
            {
                tuner.end(context);
            }
            if let Some(index) = self.open.remove(&(id, rank)) {
                if self.schedule.stuck(rank) {
                    return Flow::Break(Stuck);
                }
                self.launcher.comms[index].destroy(&self.job.loader);
            }
        }
        Flow::Continue(())
    }

    /// Destroys a communicator of `who`, and makes it again.
    pub(super) fn reinit(&mut self, id: usize, who: &[bool]) -> Flow {
        self.destroy(id, who)?;
        self.create(id, who);
        Flow::Continue(())
    }
}

/// How long the GPU's driver took for it; nothing without a GPU.
fn took(what: impl FnOnce(&Gpu)) -> Duration {
    let begun = Instant::now();
    gpu::get().map_or(Duration::ZERO, |gpu| {
        what(gpu);
        begun.elapsed()
    })
}
