//! The adapter of v5 (NCCL 2.28): API calls and kernel launches are announced.

use super::entry_points::{finalize_context, init, record_event_state, start_event, stop_event};
use super::states::new_state;
use super::{Abi, Padded};
use crate::events::{Api, Event, Init, RawName, State, Task};
use crate::recorder::Recorder;
use nccl_abi::{event, state, v5 as abi};
use std::ffi::{c_char, c_int, c_void};

adapter!(
    5,
    ncclProfiler_v5,
    new_init!(5);,
    unsafe fn read(_: &Recorder, d: *const abi::Descr, kind: u64) -> (u64, Event) {
        // SAFETY: NCCL passes a descriptor of this version; only the member that its type selects is read.
        unsafe {
            let event = match kind {
                event::COLL => {
                    let c = &raw const (*d).u.coll;
                    coll_task!(c, hash: 0, rank: (*d).rank, channels: (*c).n_channels)
                }
                _ => api_events!(d, kind, m => { let _ = m; 0 }),
            };
            ((*d).parent_obj as u64, event)
        }
    },
    unsafe fn raw(d: *const abi::Descr, text: &mut dyn FnMut(*const c_char)) -> *const [u8] {
        // SAFETY: as for `read`.
        unsafe { text_api!(d, text, (*d).type_) }
    },
    |number, args| new_state(number, args, state::GROUP_END_API_START)
);
