//! The adapter of v1 (NCCL 2.23): names are numbers, and init tells nothing of the communicator.

use super::entry_points::{finalize_context, init, record_event_state, start_event, stop_event};
use super::states::old_state;
use super::{Abi, Padded};
use crate::events::{Event, Init, RawName, State, Task};
use crate::recorder::Recorder;
use nccl_abi::{event, v1 as abi};
use std::ffi::{c_char, c_int, c_void};

adapter!(
    1,
    ncclProfiler_v1,
    old_init!(1);,
    unsafe fn read(r: &Recorder, d: *const abi::Descr, kind: u64) -> (u64, Event) {
        // SAFETY: NCCL passes a descriptor of this version; only the member that its type selects is read.
        unsafe {
            let event = match kind {
                event::COLL => {
                    let c = &raw const (*d).u.coll;
                    Event::Task(Task {
                        legacy: This::VERSION < 5,
                        p2p: false,
                        func: r.known_func((*c).func),
                        datatype: r.known_datatype((*c).datatype),
                        count: (*c).count as u64,
                        root: (*c).root,
                        hash: (*c).comm_hash,
                        rank: (*d).rank,
                        sequence: Some((*c).seq_number),
                        algorithm: r.known_algo((*c).algo),
                        protocol: r.known_proto((*c).proto),
                        variant: RawName::Known(0),
                        nchannels: 0,
                        nwarps: (*c).n_warps,
                        symmetric: false,
                        user_tag: 0,
                        peer: None,
                        buffers: [(*c).send_buff as u64, (*c).recv_buff as u64],
                    })
                }
                event::P2P => {
                    let p = &raw const (*d).u.p2p;
                    Event::Task(Task {
                        legacy: This::VERSION < 5,
                        p2p: true,
                        func: r.known_func((*p).func),
                        datatype: r.known_datatype((*p).datatype),
                        count: (*p).count as u64,
                        root: -1,
                        hash: (*p).comm_hash,
                        rank: (*d).rank,
                        sequence: None,
                        algorithm: RawName::Known(0),
                        protocol: RawName::Known(0),
                        variant: RawName::Known(0),
                        nchannels: 0,
                        nwarps: 0,
                        symmetric: false,
                        user_tag: 0,
                        peer: u32::try_from((*p).peer).ok(),
                        buffers: [(*p).buff as u64; 2],
                    })
                }
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
                    upto!(d, coll)
                }
                event::P2P => {
                    text((*d).u.p2p.name);
                    upto!(d, p2p)
                }
                event::PROXY_OP => upto!(d, proxy_op),
                event::PROXY_STEP => upto!(d, proxy_step),
                _ => header_only!(d),
            }
        }
    },
    old_state
);
