//! The adapter of v4 (NCCL 2.27): init tells who the communicator is, and KernelCh has the GPU's stamp.

use super::entry_points::{finalize_context, init, record_event_state, start_event, stop_event};
use super::states::new_state;
use super::{Abi, Padded};
use crate::events::{Event, Init, RawName, State, Task};
use crate::recorder::Recorder;
use capture::rows::GpuTime;
use nccl_abi::{event, state, v4 as abi};
use std::ffi::{c_char, c_int, c_void};

adapter!(
    4,
    ncclProfiler_v4,
    #[allow(clippy::too_many_arguments)]
    unsafe extern "C" fn init_context(
        context: *mut *mut c_void,
        mask: *mut c_int,
        name: *const c_char,
        hash: u64,
        nnodes: c_int,
        nranks: c_int,
        rank: c_int,
        logger: nccl_abi::Logger,
    ) -> c_int {
        init(
            context,
            mask,
            Init {
                abi: 4,
                hash,
                name,
                nnodes,
                nranks,
                rank,
            },
            logger,
        )
    },
    unsafe fn read(_: &Recorder, d: *const abi::Descr, kind: u64) -> (u64, Event) {
        // SAFETY: NCCL passes a descriptor of this version; only the member that its type selects is read.
        unsafe {
            let event = match kind {
                event::COLL => {
                    let c = &raw const (*d).u.coll;
                    coll_task!(c, hash: 0, rank: (*d).rank, channels: (*c).n_channels)
                }
                event::P2P => {
                    let p = &raw const (*d).u.p2p;
                    // NCCL's v4 shim (2.28 on) leaves the channels as garbage.
                    p2p_task!(p, hash: 0, rank: (*d).rank, channels: 0, tag: 0)
                }
                event::KERNEL_CH => {
                    let k = &raw const (*d).u.kernel_ch;
                    Event::KernelCh {
                        channel: (*k).channel_id,
                        stamp: GpuTime((*k).p_timer),
                    }
                }
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
                event::COLL => text_coll!(d, text),
                event::P2P => text_p2p!(d, text),
                event::PROXY_OP => upto!(d, proxy_op),
                event::PROXY_STEP => upto!(d, proxy_step),
                event::KERNEL_CH => upto!(d, kernel_ch),
                event::NET_PLUGIN => upto!(d, net_plugin),
                _ => header_only!(d),
            }
        }
    },
    |number, args| new_state(number, args, state::KERNEL_CH_STOP)
);
