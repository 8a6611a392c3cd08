//! The adapter of v6 (NCCL 2.29 and 2.30): collectives of the copy engines come.

use super::entry_points::{finalize_context, init, record_event_state, start_event, stop_event};
use super::states::new_state;
use super::{Abi, Padded};
use crate::events::{Api, Event, Init, RawName, State, Task};
use crate::recorder::Recorder;
use nccl_abi::{event, v6 as abi};
use std::ffi::{c_char, c_int, c_void};

adapter!(
    6,
    ncclProfiler_v6,
    new_init!(6);,
    unsafe fn read(_: &Recorder, d: *const abi::Descr, kind: u64) -> (u64, Event) {
        // SAFETY: NCCL passes a descriptor of this version; only the member that its type selects is read.
        unsafe {
            let event = match kind {
                event::COLL => {
                    let c = &raw const (*d).u.coll;
                    coll_task!(c, hash: 0, rank: (*d).rank, channels: (*c).n_channels)
                }
                event::CE_COLL => ce_event!(d, c => 0),
                event::CE_SYNC | event::CE_BATCH => Event::Ignored,
                _ => api_events!(d, kind, m => { let _ = m; 0 }),
            };
            ((*d).parent_obj as u64, event)
        }
    },
    unsafe fn raw(d: *const abi::Descr, text: &mut dyn FnMut(*const c_char)) -> *const [u8] {
        // SAFETY: as for `read`.
        unsafe {
            match (*d).type_ {
                event::CE_COLL => text_ce!(d, text),
                event::CE_SYNC => upto!(d, ce_coll_sync),
                event::CE_BATCH => upto!(d, ce_coll_batch),
                kind => text_api!(d, text, kind),
            }
        }
    },
    |number, args| new_state(number, args, 30)
);
