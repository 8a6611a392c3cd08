//! The adapter of v7 (NCCL 2.31 and 2.32): kernel phases, user tags and the variant of a kernel come.

use super::entry_points::{finalize_context, init, record_event_state, start_event, stop_event};
use super::states::new_state;
use super::{Abi, Padded};
use crate::events::{Api, Event, Init, RawName, State, Task};
use crate::recorder::Recorder;
use nccl_abi::{event, v7 as abi};
use std::ffi::{c_char, c_int, c_void};

adapter!(
    7,
    ncclProfiler_v7,
    new_init!(7);,
    unsafe fn read(_: &Recorder, d: *const abi::Descr, kind: u64) -> (u64, Event) {
        // SAFETY: NCCL passes a descriptor of this version; only the member that its type selects is read.
        unsafe {
            let event = match kind {
                event::COLL => {
                    let c = &raw const (*d).u.coll;
                    Event::Task(Task {
                        legacy: This::VERSION < 5,
                        p2p: false,
                        func: text!((*c).func),
                        datatype: text!((*c).datatype),
                        count: (*c).count as u64,
                        root: (*c).root,
                        hash: 0,
                        rank: (*d).rank,
                        sequence: Some((*c).seq_number),
                        algorithm: text!((*c).algo),
                        protocol: text!((*c).proto),
                        variant: text!((*c).kernel_variant),
                        nchannels: (*c).n_channels,
                        nwarps: (*c).n_warps,
                        symmetric: (*c).is_sym_coll != 0,
                        user_tag: (*c).user_tag,
                        peer: None,
                        buffers: [(*c).send_buff as u64, (*c).recv_buff as u64],
                    })
                }
                event::CE_COLL => ce_event!(d, c => (*c).user_tag),
                event::CE_SYNC | event::CE_BATCH => Event::Ignored,
                event::KERNEL_PHASE => Event::KernelPhase { phase: (*d).u.kernel_phase.phase_id },
                _ => api_events!(d, kind, m => (*m).user_tag),
            };
            ((*d).parent_obj as u64, event)
        }
    },
    unsafe fn raw(d: *const abi::Descr, text: &mut dyn FnMut(*const c_char)) -> *const [u8] {
        // SAFETY: as for `read`.
        unsafe {
            match (*d).type_ {
                event::COLL => {
                    text((*d).u.coll.kernel_variant);
                    text_coll!(d, text)
                }
                event::CE_COLL => text_ce!(d, text),
                event::CE_SYNC => upto!(d, ce_coll_sync),
                event::CE_BATCH => upto!(d, ce_coll_batch),
                event::KERNEL_PHASE => {
                    text((*d).u.kernel_phase.phase_name);
                    upto!(d, kernel_phase)
                }
                kind => text_api!(d, text, kind),
            }
        }
    },
    |number, args| new_state(number, args, 31)
);
