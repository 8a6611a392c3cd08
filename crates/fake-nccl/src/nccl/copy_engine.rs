//! CeColl, CeSync and CeBatch: collectives that copy engines do, without a kernel.

use super::communicator::Communicator;
use super::plan::{count, Planned};
use crate::event::{CeColl, Event, Handle};
use crate::script::Call;
use nccl_abi::event::because::FOR_CE;
use nccl_abi::event::{CE_BATCH, CE_SYNC};
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn copy_engine(comm: &Communicator, call: &Call, p: &Planned) {
    if comm.native < 6 || p.mask & FOR_CE == 0 {
        return;
    }
    let ranks = comm.identity.ranks;
    let mut coll = Handle::NULL;
    let event = Event::CeColl(CeColl {
        seq: comm.ce_seq.load(Relaxed),
        func: call.op.func(),
        count: count(*call, comm) as usize,
        root: call.root,
        datatype: call.datatype,
        strategy: c"Barrier",
        stream: comm.stream,
        tag: call.tag,
    });
    comm.start(&event, p.api, comm.identity.rank, &mut coll);
    // If the plugin gave no handle, the parts make no events.
    if coll == Handle::NULL {
        return;
    }
    let sync = |complete: bool| {
        comm.ce_seq.fetch_add(1, Relaxed);
        if comm.mask() & CE_SYNC != 0 {
            let mut handle = Handle::NULL;
            let event = Event::CeSync { complete, ranks };
            comm.start(&event, coll, comm.identity.rank, &mut handle);
            comm.stop(handle);
        }
    };
    sync(false);
    if comm.mask() & CE_BATCH != 0 {
        let mut handle = Handle::NULL;
        let event = Event::CeBatch {
            ops: ranks - 1,
            bytes: call.bytes as usize,
            sync: false,
        };
        comm.start(&event, coll, comm.identity.rank, &mut handle);
        comm.stop(handle);
    }
    sync(true);
    comm.stop(coll);
}
