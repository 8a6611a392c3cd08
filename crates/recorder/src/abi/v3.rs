//! The adapter of v3 (NCCL 2.26): KernelCh comes, without a stamp.

use super::entry_points::{finalize_context, init, record_event_state, start_event, stop_event};
use super::states::old_state;
use super::{Abi, Padded};
use crate::events::{Event, Init, RawName, State, Task};
use crate::recorder::Recorder;
use capture::rows::GpuTime;
use nccl_abi::{event, v3 as abi};
use std::ffi::{c_char, c_int, c_void};

adapter!(
    3,
    ncclProfiler_v3,
    old_init!(3);,
    unsafe fn read(_: &Recorder, d: *const abi::Descr, kind: u64) -> (u64, Event) {
        // SAFETY: NCCL passes a descriptor of this version; only the member that its type selects is read.
        unsafe {
            let event = match kind {
                event::COLL => {
                    let c = &raw const (*d).u.coll;
                    coll_task!(c, hash: (*c).comm_hash, rank: (*d).rank, channels: 0)
                }
                event::P2P => {
                    let p = &raw const (*d).u.p2p;
                    p2p_task!(p, hash: (*p).comm_hash, rank: (*d).rank, channels: 0, tag: 0)
                }
                // This version has no stamps.
                event::KERNEL_CH => Event::KernelCh {
                    channel: (*d).u.kernel_ch.channel_id,
                    stamp: GpuTime(0),
                },
                event::NET_PLUGIN => Event::Ignored,
                _ => proxy_events!(d, kind),
            };
            ((*d).parent_obj as u64, event)
        }
    },
    unsafe fn raw(d: *const abi::Descr, text: &mut dyn FnMut(*const c_char)) -> *const [u8] {
        // SAFETY: as for `read`.
        unsafe {
            match u64::from((*d).type_) {
                event::COLL => {
                    text((*d).u.coll.name);
                    text_coll!(d, text)
                }
                event::P2P => {
                    text((*d).u.p2p.name);
                    text_p2p!(d, text)
                }
                event::PROXY_OP => upto!(d, proxy_op),
                event::PROXY_STEP => upto!(d, proxy_step),
                event::KERNEL_CH => upto!(d, kernel_ch),
                event::NET_PLUGIN => upto!(d, net_plugin),
                _ => header_only!(d),
            }
        }
    },
    old_state
);
