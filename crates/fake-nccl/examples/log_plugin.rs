//! A profiler plugin that writes down every callback, one JSON object a line: to look at what NCCL or
//! fake-nccl does.
//!
//! It exports all seven ABI versions. `LOG_PLUGIN_OUT` is the folder for `<rank>.<pid>.jsonl` (default: the
//! working folder; `none` writes nothing), `LOG_PLUGIN_MASK` the activation mask in hex (default: every
//! event). With `LOG_PLUGIN_CLOCK`, each line has the clock that the callback read. With `LOG_PLUGIN_INNER`,
//! another plugin's library, every call goes on to that plugin, and NCCL gets its answers; so two plugins see
//! the same job. `LOG_PLUGIN_FAULT` makes it a bad plugin: `init` returns an error, `errors` returns one from
//! each start, `abort N` and `hang N` do that in the start of event N. It is for learning and testing: it
//! formats and writes under a lock inside the callbacks, which a plugin for real jobs must not do.
//!
//! ```text
//! cargo build -p ncclscope-fake-nccl --example log_plugin
//! fake-nccl play job.txt --plugin target/debug/examples/liblog_plugin.so
//! ```
//!
//! Handles count from 0x1000, contexts from 1. `raw` is the descriptor's bytes in hex, so that also what a
//! version leaves undefined can be seen.

use nccl_abi::{event, state};
use serde_json::{json, Value};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::io::Write;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

/// Whether there is anything to write to.
static ON: LazyLock<bool> =
    LazyLock::new(|| !std::env::var("LOG_PLUGIN_OUT").is_ok_and(|f| f == "none"));
static FILE: Mutex<Option<std::fs::File>> = Mutex::new(None);
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0x1000);
static NEXT_CONTEXT: AtomicUsize = AtomicUsize::new(1);

/// The plugin that calls go on to.
static INNER: LazyLock<Option<libloading::Library>> = LazyLock::new(|| {
    let path = std::env::var_os("LOG_PLUGIN_INNER")?;
    // SAFETY: who sets the variable wants this library to be loaded.
    Some(unsafe { libloading::Library::new(path) }.expect("the plugin of LOG_PLUGIN_INNER"))
});

/// The inner plugin's struct of an ABI version. All versions have the same six words.
fn inner(abi: u8) -> Option<nccl_abi::v5::Profiler> {
    let symbol = nccl_abi::SYMBOLS[usize::from(abi) - 1];
    // SAFETY: the symbol is the struct that its name promises, and the library is never unloaded.
    let found = unsafe {
        INNER
            .as_ref()?
            .get::<*const nccl_abi::v5::Profiler>(symbol.as_bytes())
    };
    // SAFETY: as above.
    Some(unsafe { **found.expect("a table of this version") })
}

/// The ABI that NCCL chose, for calls that do not say.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// What `LOG_PLUGIN_FAULT` says, and its number.
static FAULT: LazyLock<(String, u64)> = LazyLock::new(|| {
    let text = std::env::var("LOG_PLUGIN_FAULT").unwrap_or_default();
    let (what, number) = text.split_once(' ').unwrap_or((&text, "0"));
    (what.to_owned(), number.parse().expect("a number"))
});
static STARTS: AtomicUsize = AtomicUsize::new(0);

/// The result of a start, if there is one.
fn fault_of_start() -> c_int {
    let number = STARTS.fetch_add(1, Relaxed) as u64 + 1;
    match FAULT.0.as_str() {
        "errors" => 3,
        "abort" if number == FAULT.1 => std::process::abort(),
        "hang" if number == FAULT.1 => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        _ => 0,
    }
}

fn write(mut line: Value) {
    // SAFETY: a plain system call.
    line["thread"] = json!(unsafe { libc::gettid() });
    if std::env::var_os("LOG_PLUGIN_CLOCK").is_some() {
        line["clock_ns"] = json!(clock_ns());
    }
    let mut file = FILE.lock().unwrap_or_else(|e| e.into_inner());
    let file = file.get_or_insert_with(|| {
        let folder = std::env::var("LOG_PLUGIN_OUT").unwrap_or_else(|_| ".".into());
        // By the launcher's rank first: process ids begin anew when they have reached the largest.
        let rank: u64 = std::env::var("RANK").map_or(0, |rank| rank.parse().unwrap_or(0));
        let path = format!("{folder}/{rank:06}.{}.jsonl", std::process::id());
        std::fs::File::options()
            .create(true)
            .append(true)
            .open(path)
            .expect("a log file")
    });
    writeln!(file, "{line}").expect("a written line");
}

/// A text of NCCL's, or null.
/// CLOCK_MONOTONIC, as a plugin reads it.
fn clock_ns() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills what it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn text(pointer: *const c_char) -> Value {
    if pointer.is_null() {
        return Value::Null;
    }
    // SAFETY: only called for text fields of the event's own union member, which NCCL fills with static
    // strings.
    json!(unsafe { CStr::from_ptr(pointer) }.to_string_lossy())
}

/// Answers an init. `inner` is the inner plugin's, if there is one, and has answered already.
fn init(
    abi: u8,
    context: *mut *mut c_void,
    mask: *mut c_int,
    inner: Option<c_int>,
    mut line: Value,
) -> c_int {
    CHOSEN.store(abi, Relaxed);
    if FAULT.0 == "init" {
        return 3;
    }
    if let Some(result) = inner {
        if *ON {
            // SAFETY: the inner plugin has written both.
            let (context, mask) = unsafe { (*context as usize, *mask) };
            line["call"] = json!("init");
            line["abi"] = json!(abi);
            line["context"] = json!(context);
            line["mask"] = json!(mask);
            write(line);
        }
        return result;
    }
    let wanted = std::env::var("LOG_PLUGIN_MASK").ok();
    let wanted = wanted.and_then(|m| u64::from_str_radix(m.trim_start_matches("0x"), 16).ok());
    let wanted = wanted.unwrap_or(u64::MAX) & event::known(abi).unwrap_or(0);
    let own = NEXT_CONTEXT.fetch_add(1, Relaxed);
    // SAFETY: NCCL passes valid places for both, and reads the mask atomically.
    unsafe {
        *context = own as *mut c_void;
        AtomicI32::from_ptr(mask).store(wanted as i32, Relaxed);
    }
    if *ON {
        line["call"] = json!("init");
        line["abi"] = json!(abi);
        line["context"] = json!(own);
        write(line);
    }
    0
}

unsafe extern "C" fn stop(handle: *mut c_void) -> c_int {
    if *ON {
        write(json!({"call": "stop", "handle": handle as usize}));
    }
    match inner(CHOSEN.load(Relaxed)).and_then(|inner| inner.stop_event) {
        // SAFETY: the caller's own argument.
        Some(stop) => unsafe { stop(handle) },
        None => 0,
    }
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    if *ON {
        write(json!({"call": "finalize", "context": context as usize}));
    }
    match inner(CHOSEN.load(Relaxed)).and_then(|inner| inner.finalize) {
        // SAFETY: the caller's own argument.
        Some(finalize) => unsafe { finalize(context) },
        None => 0,
    }
}

fn hex(bytes: *const u8, len: usize) -> String {
    // SAFETY: NCCL passes a whole descriptor, of the version's length.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Text fields are pointers from v2 on and numbers in v1.
trait Field {
    fn value(self) -> Value;
}

impl Field for *const c_char {
    fn value(self) -> Value {
        text(self)
    }
}

impl Field for u8 {
    fn value(self) -> Value {
        json!(self)
    }
}

impl Field for *mut c_void {
    fn value(self) -> Value {
        json!(self as usize)
    }
}

macro_rules! plain {
    ($($t:ty),*) => { $(impl Field for $t { fn value(self) -> Value { json!(self) } })* };
}
plain!(i32, i64, u32, u64, usize);

/// Logs the named fields of the event's union member.
macro_rules! fields {
    ($line:ident, $descr:ident, $member:ident: $($field:ident)*) => {
        // SAFETY: `type_` selects this member, and NCCL filled these fields of it.
        unsafe { $( $line[stringify!($field)] = (*$descr).u.$member.$field.value(); )* }
    };
}

/// One ABI version: its start and state entries and its exported struct.
macro_rules! version {
    (
        $module:ident, $abi:literal, $symbol:ident, $init:expr;
        $($event:ident $member:ident: $($field:ident)*;)*
    ) => {
        mod $module {
            use super::*;

            unsafe extern "C" fn start(
                context: *mut c_void,
                handle: *mut *mut c_void,
                descr: *mut nccl_abi::$module::Descr,
            ) -> c_int {
                let result = fault_of_start();
                let go_on = inner($abi).and_then(|inner| inner.start_event);
                // SAFETY: NCCL passes a place for the handle and a descriptor whose header is filled. The
                // inner plugin's entry takes this version's descriptor.
                let (own, bit, parent, rank) = unsafe {
                    match go_on {
                        Some(start) => { start(context, handle, descr.cast()); }
                        None => *handle = NEXT_HANDLE.fetch_add(1, Relaxed) as *mut c_void,
                    }
                    let bit = u64::from((*descr).type_);
                    (*handle as usize, bit, (*descr).parent_obj as usize, (*descr).rank)
                };
                if !*ON {
                    return result;
                }
                let mut line = json!({
                    "call": "start", "handle": own, "context": context as usize,
                    "type": event::name(bit).map_or(json!(bit), |n| json!(n)), "parent": parent, "rank": rank,
                });
                match bit {
                    $( event::$event => { fields!(line, descr, $member: $($field)*); } )*
                    _ => {}
                }
                line["raw"] = json!(hex(descr.cast(), size_of::<nccl_abi::$module::Descr>()));
                write(line);
                result
            }

            unsafe extern "C" fn record(
                handle: *mut c_void,
                value: u32,
                args: *mut nccl_abi::$module::StateArgs,
            ) -> c_int {
                if let Some(record) = inner($abi).and_then(|inner| inner.record_event_state) {
                    // SAFETY: the caller's own arguments, and the entry takes this version's.
                    unsafe { record(handle, value, args.cast()) };
                }
                if !*ON {
                    return 0;
                }
                let mut line = json!({
                    "call": "state", "handle": handle as usize,
                    "state": state::name(value).map_or(json!(value), |n| json!(n)),
                });
                line["args"] = match args.is_null() {
                    true => Value::Null,
                    false => json!(hex(args.cast(), size_of::<nccl_abi::$module::StateArgs>())),
                };
                write(line);
                0
            }

            #[doc = "The struct that NCCL looks up."]
            #[unsafe(export_name = stringify!($symbol))]
            pub static PROFILER: nccl_abi::$module::Profiler = nccl_abi::$module::Profiler {
                name: c"log".as_ptr(),
                init: Some($init),
                start_event: Some(start),
                stop_event: Some(stop),
                record_event_state: Some(record),
                finalize: Some(finalize),
            };
        }
    };
}

unsafe extern "C" fn init_short<const ABI: u8>(
    context: *mut *mut c_void,
    mask: *mut c_int,
) -> c_int {
    let inner = inner(ABI).and_then(|inner| inner.init).map(|init| {
        // SAFETY: the entry has the signature of its version; the arguments are the caller's own.
        unsafe {
            std::mem::transmute::<nccl_abi::v5::Init, nccl_abi::v1::Init>(init)(context, mask)
        }
    });
    init(ABI, context, mask, inner, json!({}))
}

#[allow(clippy::too_many_arguments)] // NCCL's signature.
unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    hash: u64,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: nccl_abi::Logger,
) -> c_int {
    let line =
        json!({"name": text(name), "hash": hash, "nodes": nodes, "ranks": ranks, "rank": rank});
    let inner = inner(4).and_then(|inner| inner.init).map(|init| {
        // SAFETY: as in `init_short`.
        unsafe {
            let init = std::mem::transmute::<nccl_abi::v5::Init, nccl_abi::v4::Init>(init);
            init(context, mask, name, hash, nodes, ranks, rank, logger)
        }
    });
    init(4, context, mask, inner, line)
}

#[allow(clippy::too_many_arguments)] // NCCL's signature.
unsafe extern "C" fn init_long<const ABI: u8>(
    context: *mut *mut c_void,
    hash: u64,
    mask: *mut c_int,
    name: *const c_char,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: nccl_abi::Logger,
) -> c_int {
    let line =
        json!({"name": text(name), "hash": hash, "nodes": nodes, "ranks": ranks, "rank": rank});
    if let Some(logger) = logger {
        let (info, flag) = (nccl_abi::log::LEVEL_INFO, nccl_abi::log::INIT);
        // SAFETY: the format takes one string, which is NUL-terminated.
        unsafe {
            logger(
                info,
                flag,
                c"log_plugin".as_ptr(),
                0,
                c"%s".as_ptr(),
                c"log plugin is on".as_ptr(),
            )
        };
    }
    let inner = inner(ABI).and_then(|inner| inner.init).map(|init| {
        // SAFETY: as in `init_short`.
        unsafe { init(context, hash, mask, name, nodes, ranks, rank, logger) }
    });
    init(ABI, context, mask, inner, line)
}

version! { v1, 1, ncclProfiler_v1, init_short::<1>;
    COLL coll: comm_hash seq_number func count root datatype n_max_channels algo proto;
    P2P p2p: comm_hash func count datatype peer;
    PROXY_OP proxy_op: pid channel_id peer n_steps is_send;
    PROXY_STEP proxy_step: step;
}
version! { v2, 2, ncclProfiler_v2, init_short::<2>;
    COLL coll: name comm_hash seq_number func count root datatype n_max_channels algo proto;
    P2P p2p: name comm_hash func count datatype peer;
    PROXY_OP proxy_op: pid channel_id peer n_steps is_send;
    PROXY_STEP proxy_step: step;
}
version! { v3, 3, ncclProfiler_v3, init_short::<3>;
    COLL coll: name comm_hash seq_number func count root datatype n_max_channels algo proto;
    P2P p2p: name comm_hash func count datatype peer;
    PROXY_OP proxy_op: pid channel_id peer n_steps is_send;
    PROXY_STEP proxy_step: step;
    NET_PLUGIN net_plugin: id;
    KERNEL_CH kernel_ch: channel_id;
}
version! { v4, 4, ncclProfiler_v4, init_v4;
    COLL coll: seq_number func count root datatype n_channels algo proto;
    P2P p2p: func count datatype peer;
    PROXY_OP proxy_op: pid channel_id peer n_steps is_send;
    PROXY_STEP proxy_step: step;
    NET_PLUGIN net_plugin: id;
    KERNEL_CH kernel_ch: channel_id p_timer;
}
version! { v5, 5, ncclProfiler_v5, init_long::<5>;
    COLL coll: seq_number func count root datatype n_channels algo proto parent_group;
    P2P p2p: func count datatype peer n_channels parent_group;
    PROXY_OP proxy_op: pid channel_id peer n_steps is_send;
    PROXY_STEP proxy_step: step;
    NET_PLUGIN net_plugin: id;
    KERNEL_CH kernel_ch: channel_id p_timer;
    GROUP_API group_api: graph_captured group_depth;
    COLL_API coll_api: func count datatype root graph_captured;
    P2P_API p2p_api: func count datatype graph_captured;
    KERNEL_LAUNCH kernel_launch: stream;
}
version! { v6, 6, ncclProfiler_v6, init_long::<6>;
    COLL coll: seq_number func count root datatype n_channels algo proto parent_group;
    P2P p2p: func count datatype peer n_channels parent_group;
    PROXY_OP proxy_op: pid channel_id peer n_steps is_send;
    PROXY_STEP proxy_step: step;
    NET_PLUGIN net_plugin: id;
    KERNEL_CH kernel_ch: channel_id p_timer;
    GROUP_API group_api: graph_captured group_depth;
    COLL_API coll_api: func count datatype root graph_captured;
    P2P_API p2p_api: func count datatype graph_captured;
    KERNEL_LAUNCH kernel_launch: stream;
    CE_COLL ce_coll: seq_number func count root datatype sync_strategy;
    CE_SYNC ce_coll_sync: is_complete n_ranks;
    CE_BATCH ce_coll_batch: num_ops total_bytes;
}
version! { v7, 7, ncclProfiler_v7, init_long::<7>;
    COLL coll: seq_number func count root datatype n_channels algo proto parent_group
        kernel_variant is_sym_coll user_tag;
    P2P p2p: func count datatype peer n_channels parent_group user_tag;
    PROXY_OP proxy_op: pid channel_id peer n_steps is_send;
    PROXY_STEP proxy_step: step;
    NET_PLUGIN net_plugin: id;
    KERNEL_CH kernel_ch: channel_id p_timer;
    GROUP_API group_api: graph_captured group_depth;
    COLL_API coll_api: func count datatype root graph_captured user_tag;
    P2P_API p2p_api: func count datatype graph_captured user_tag;
    KERNEL_LAUNCH kernel_launch: stream;
    CE_COLL ce_coll: seq_number func count root datatype sync_strategy user_tag;
    CE_SYNC ce_coll_sync: is_complete n_ranks;
    CE_BATCH ce_coll_batch: num_ops total_bytes;
    KERNEL_PHASE kernel_phase: channel_id phase_id phase_name p_timer;
}
