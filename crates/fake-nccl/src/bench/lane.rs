//! One plugin under the benchmark's driver: the callbacks of an AllReduce.

use super::tail::Watch;
use crate::event::{Coll, Event, Handle, StateArgs};
use crate::plugin::PluginContext;
use nccl_abi::event::*;
use nccl_abi::state;

/// One plugin under the driver.
pub(super) struct Lane {
    pub(super) profiler: PluginContext,
    pub(super) mask: u64,
    pub(super) seq: u64,
    pub(super) channels: u8,
    pub(super) proxy_ops: bool,
}

impl Lane {
    /// The calling thread's callbacks of one AllReduce. Gives the Coll handle.
    pub(super) fn call(&mut self, watch: &mut impl Watch) -> Handle {
        let p = &self.profiler;
        let api = p.table.seat.abi >= 5;
        let start = |watch: &mut dyn FnMut(&mut dyn FnMut()), event: &Event, parent: Handle| {
            let mut handle = Handle::NULL;
            watch(&mut || {
                p.start(event, parent, 0, &mut handle);
            });
            handle
        };
        let mut each = |call: &mut dyn FnMut()| watch.callback(call);
        let mut group_api = Handle::NULL;
        let mut coll_api = Handle::NULL;
        if api && self.mask & 0x7fdf != 0 {
            let event = Event::GroupApi {
                captured: false,
                depth: 1,
            };
            group_api = start(&mut each, &event, Handle::NULL);
            each(&mut || {
                p.table
                    .state(group_api, state::GROUP_START_API_STOP, StateArgs::Null)
            });
            if self.mask & (COLL_API | COLL | PROXY_OP | PROXY_STEP | KERNEL_CH | CE_COLL) != 0 {
                let event = Event::CollApi {
                    func: c"AllReduce",
                    count: 262_144,
                    datatype: c"ncclFloat32",
                    root: 0,
                    stream: 0x7f00_0000_1000,
                    captured: false,
                    tag: 0,
                };
                coll_api = start(&mut each, &event, group_api);
                each(&mut || p.table.stop(coll_api));
            }
            each(&mut || {
                p.table
                    .state(group_api, state::GROUP_END_API_START, StateArgs::Null)
            });
            if self.mask & KERNEL_LAUNCH != 0 {
                let event = Event::KernelLaunch {
                    stream: 0x7f00_0000_1000,
                };
                let launch = start(&mut each, &event, group_api);
                each(&mut || p.table.stop(launch));
            }
        }
        let mut coll = Handle::NULL;
        let below = self.mask & (COLL | PROXY_OP | PROXY_STEP | KERNEL_CH) != 0;
        if below || self.mask & (GROUP | P2P) != 0 {
            let group = start(&mut each, &Event::Group, Handle::NULL);
            if below {
                let event = Event::Coll(Coll {
                    comm_name: std::ptr::null(),
                    comm_hash: 1,
                    seq: self.seq,
                    func: c"AllReduce",
                    send: 0x7f00_0000_0000,
                    recv: 0x7f00_1000_0000,
                    count: 262_144,
                    root: 0,
                    datatype: c"ncclFloat32",
                    channels: self.channels,
                    max_channels: self.channels,
                    warps: 16,
                    algo: c"RING",
                    proto: c"LL128",
                    group,
                    variant: None,
                    tag: 0,
                });
                coll = start(&mut each, &event, if api { coll_api } else { group });
                each(&mut || p.table.stop(coll));
            }
            each(&mut || p.table.stop(group));
        }
        self.seq += 1;
        if group_api != Handle::NULL {
            each(&mut || p.table.stop(group_api));
        }
        coll
    }

    /// Whether the progress thread has anything to do.
    pub(super) fn progresses(&self) -> bool {
        self.kernel_ch() || (self.proxy_ops && self.mask & (PROXY_OP | PROXY_STEP) != 0)
    }

    fn kernel_ch(&self) -> bool {
        self.mask & KERNEL_CH != 0 && self.profiler.table.seat.abi >= 3
    }

    /// The progress thread's callbacks of one operation, which ran `at` on the GPU.
    pub(super) fn progress(&self, coll: Handle, at: u64, watch: &mut impl Watch) {
        let p = &self.profiler;
        let mut handle = Handle::NULL;
        for channel in 0..self.channels {
            if self.kernel_ch() {
                let event = Event::KernelCh { channel, stamp: at };
                watch.callback(|| {
                    p.start(&event, coll, 0, &mut handle);
                });
                let args = StateArgs::KernelCh { stamp: at + 20_000 };
                watch.callback(|| p.table.state(handle, state::KERNEL_CH_STOP, args));
                watch.callback(|| p.table.stop(handle));
            }
            if self.proxy_ops && self.mask & (PROXY_OP | PROXY_STEP) != 0 {
                self.network(coll, channel, watch);
            }
        }
    }

    fn network(&self, coll: Handle, channel: u8, watch: &mut impl Watch) {
        let p = &self.profiler;
        let event = Event::ProxyOp {
            pid: std::process::id() as i32,
            channel,
            peer: 1,
            steps: 2,
            chunk: 1 << 19,
            send: true,
        };
        let mut op = Handle::NULL;
        watch.callback(|| {
            p.start(&event, coll, 0, &mut op);
        });
        watch.callback(|| {
            p.table
                .state(op, state::PROXY_OP_IN_PROGRESS, StateArgs::Null)
        });
        if self.mask & PROXY_STEP != 0 {
            for step in 0..2 {
                let mut handle = Handle::NULL;
                watch.callback(|| {
                    p.start(&Event::ProxyStep { step }, op, 0, &mut handle);
                });
                for value in [
                    state::PROXY_STEP_SEND_GPU_WAIT,
                    state::PROXY_STEP_SEND_PEER_WAIT,
                    state::PROXY_STEP_SEND_WAIT,
                ] {
                    let args = StateArgs::ProxyStep { bytes: 1 << 19 };
                    watch.callback(|| p.table.state(handle, value, args));
                }
                watch.callback(|| p.table.stop(handle));
            }
        }
        watch.callback(|| p.table.stop(op));
    }
}
