//! A profiler plugin that lies in a known way, for the judge to find out.
//!
//! It writes NCCL Inspector's format, a line for each Coll event, to `<LOSSY_OUT>/<pid>.log`. Of every
//! communicator's collectives, counted from 1, it leaves out every 7th and writes every 100th twice; and when
//! the communicator ends it adds one AllReduce of 1 KiB that never was. Of `n` collectives a truthful judge
//! says: n / 7 missing, n / 100 - n / 700 duplicate, one foreign.

use nccl_abi::{event, v5};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::io::Write;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// One communicator.
struct Communicator {
    hash: u64,
    ranks: c_int,
    rank: c_int,
    calls: u64,
    lines: String,
}

unsafe extern "C" fn init(
    context: *mut *mut c_void,
    hash: u64,
    mask: *mut c_int,
    _name: *const c_char,
    _nodes: c_int,
    ranks: c_int,
    rank: c_int,
    _logger: nccl_abi::Logger,
) -> c_int {
    let own = Box::new(Mutex::new(Communicator {
        hash,
        ranks,
        rank,
        calls: 0,
        lines: String::new(),
    }));
    // SAFETY: NCCL passes both places, and reads the mask atomically.
    unsafe {
        *context = Box::into_raw(own).cast();
        AtomicI32::from_ptr(mask).store(event::COLL as c_int, Relaxed);
    }
    0
}

impl Communicator {
    fn write(&mut self, function: &str, seq: u64, bytes: u64) {
        self.lines += &format!(
            "{{\"header\":{{\"id\":\"{:#x}\",\"rank\":{},\"n_ranks\":{},\"nnodes\":1}},\"metadata\":{{\
             \"inspector_output_format_version\":\"v4.0\",\"pid\":{}}},\
             \"coll_perf\":{{\"coll\":\"{function}\",\
             \"coll_sn\":{seq},\"coll_msg_size_bytes\":{bytes},\"coll_exec_time_us\":10}}}}\n",
            self.hash,
            self.rank,
            self.ranks,
            std::process::id(),
        );
    }
}

unsafe extern "C" fn start(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descr: *mut v5::Descr,
) -> c_int {
    // SAFETY: NCCL passes a place for the handle, our own context, and a descriptor whose member goes by its
    // type.
    unsafe {
        *handle = std::ptr::without_provenance_mut(1);
        if (*descr).type_ != event::COLL {
            return 0;
        }
        let coll = (*descr).u.coll;
        let own = &*context.cast::<Mutex<Communicator>>();
        let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
        own.calls += 1;
        if own.calls % 7 == 0 {
            return 0;
        }
        let text = |t: *const c_char| CStr::from_ptr(t).to_string_lossy().into_owned();
        let (function, datatype) = (text(coll.func), text(coll.datatype));
        // Of one rank, as Inspector has it.
        let bytes = coll.count as u64 * nccl_abi::names::datatype_size(&datatype) as u64;
        let times = if own.calls % 100 == 0 { 2 } else { 1 };
        for _ in 0..times {
            own.write(&function, coll.seq_number, bytes);
        }
    }
    0
}

unsafe extern "C" fn state(_: *mut c_void, _: u32, _: *mut v5::StateArgs) -> c_int {
    0
}

unsafe extern "C" fn stop(_: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    // SAFETY: our own context, which NCCL gives back once.
    let own = unsafe { Box::from_raw(context.cast::<Mutex<Communicator>>()) };
    let mut own = own.into_inner().unwrap_or_else(PoisonError::into_inner);
    own.write("AllReduce", 1 << 40, 1024);
    let folder = std::env::var("LOSSY_OUT").unwrap_or_else(|_| ".".into());
    let path = format!("{folder}/{}.log", std::process::id());
    let file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path);
    if file.is_ok_and(|mut file| file.write_all(own.lines.as_bytes()).is_ok()) {
        0
    } else {
        nccl_abi::result::SYSTEM_ERROR
    }
}

/// The struct that NCCL looks up.
#[unsafe(export_name = "ncclProfiler_v5")]
pub static PROFILER: v5::Profiler = v5::Profiler {
    name: c"lossy".as_ptr(),
    init: Some(init),
    start_event: Some(start),
    stop_event: Some(stop),
    record_event_state: Some(state),
    finalize: Some(finalize),
};
