//! A tuner plugin of NCCL that tries settings within one run, in blocks of calls.
//!
//! NCCL asks a tuner before each collective. This one counts the collectives of each communicator, and cuts
//! them into blocks. In each block it asks NCCL for one of the experiment's [`arms`], and in some blocks for
//! nothing: that is the default. A round has one block of each arm, in an order that looks random. [`log`]
//! keeps which arm began when, and `ncclscope tune --within` holds the job's steps against it.
//!
//! Without an experiment it leaves all to NCCL. If [`costs::VARIABLE`] names a folder, [`costs`] keeps what
//! NCCL itself expects of each kind of call.
//!
//! Rule: what a call gets depends only on data that is equal on all ranks. These are the variables of the
//! experiment, the communicator's id and size, and the number of its collectives so far. No clock, no
//! address, no rank. Ranks that decide differently would hang.
//!
//! Rule: an entry of NCCL's table that is ignored stays so. So the tuner never asks for what NCCL can't run
//! here, and `NCCL_ALGO` or `NCCL_PROTO`, which make NCCL ignore all else, beat it.
//!
//! What NCCL decides once and keeps (calls in a captured CUDA graph) keeps the arm of that moment.
//!
//! The library runs in the training process. A call into it takes no lock, allocates nothing, opens no file
//! and never panics outward. Once a block it stores 32 bytes into a file that is mapped and whose pages are
//! there.

pub mod arms;
pub mod costs;
pub mod log;
mod plan;

use arms::{Arm, Experiment};
use nccl_abi::result::SUCCESS;
use nccl_abi::tuner::{V2, V3, V4, V5, V6, V7};
use nccl_abi::Logger;
use plan::{KnownCommunicator, TunedCommunicator};
use std::ffi::{c_int, c_void};
use std::io::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;

/// The process's experiment.
struct Process {
    experiment: Experiment,
    log: log::Log,
}

static PROCESS: OnceLock<Option<Process>> = OnceLock::new();

/// The experiment, if there is one. A log that can't be written ends no experiment: that would be so on some
/// ranks only.
fn process() -> Option<&'static Process> {
    let make = || {
        let env = |name: &str| std::env::var(name).ok();
        let Some(experiment) = Experiment::of(env) else {
            if env(arms::VARIABLE).is_some() {
                // A full or closed standard error is no reason to end a job.
                let _ = writeln!(
                    std::io::stderr(),
                    "ncclscope: {} can't be read: nothing is tuned",
                    arms::VARIABLE
                );
            }
            return None;
        };
        let log = log::Log::create(&experiment);
        Some(Process { experiment, log })
    };
    PROCESS.get_or_init(make).as_ref()
}

/// Runs `work`; a panic of it is nothing that NCCL hears of.
fn guard<T>(or: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(or)
}

/// A communicator begins. What NCCL keeps of it is the address of its place, or null if nothing is to be done
/// for it. A place is never given back: an address that NCCL hands over once too often must stay sound.
fn begin(comm_id: u64, ranks: usize, nodes: usize) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        let process = process().filter(|process| process.experiment.tunes(ranks));
        let tuned = process.map(|process| {
            TunedCommunicator::new(comm_id, process.log.communicator(comm_id, ranks, nodes))
        });
        if tuned.is_none() && costs::costs().is_none() {
            return std::ptr::null_mut();
        }
        let place = KnownCommunicator {
            tuned,
            id: comm_id,
            ranks: u32::try_from(ranks).unwrap_or(0),
            nodes: u32::try_from(nodes).unwrap_or(0),
        };
        std::ptr::from_mut(Box::leak(Box::new(place))).cast()
    })
}

/// The communicator of a context.
fn of(context: *mut c_void) -> Option<&'static KnownCommunicator> {
    // SAFETY: NCCL hands back what `begin` gave it: null, or the address of a place that is never freed and
    // changes through atomics only.
    unsafe { context.cast::<KnownCommunicator>().as_ref() }
}

/// The arm of the next collective; `None` leaves it to NCCL.
fn next(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
) -> Option<(&'static Arm, &'static TunedCommunicator)> {
    let communicator = of(context)?.tuned.as_ref()?;
    let process = process()?;
    if !process.experiment.takes(function, bytes) {
        return None;
    }
    let arm = communicator.next(&process.experiment, &process.log);
    let arm = process
        .experiment
        .arms
        .get(arm)
        .filter(|arm| !arm.is_default())?;
    Some((arm, communicator))
}

/// Versions 2 to 4.
unsafe extern "C" fn init_short(
    ranks: usize,
    nodes: usize,
    _logger: Logger,
    context: *mut *mut c_void,
) -> c_int {
    // SAFETY: NCCL passes a place for the context.
    unsafe { *context = begin(0, ranks, nodes) };
    SUCCESS
}

/// From version 5 on.
unsafe extern "C" fn init_long(
    context: *mut *mut c_void,
    comm_id: u64,
    ranks: usize,
    nodes: usize,
    _logger: Logger,
    _domain: *mut c_void,
    _constants: *mut c_void,
) -> c_int {
    // SAFETY: NCCL passes a place for the context.
    unsafe { *context = begin(comm_id, ranks, nodes) };
    SUCCESS
}

/// Version 2, which has no table: only what every NCCL can run is asked for.
#[allow(clippy::too_many_arguments)] // NCCL's signature.
unsafe extern "C" fn choose_v2(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    _collnet: c_int,
    _nvls: c_int,
    _pipe_ops: c_int,
    algorithm: *mut c_int,
    protocol: *mut c_int,
    channels: *mut c_int,
) -> c_int {
    guard((), || {
        let Some((arm, communicator)) = next(context, function, bytes) else {
            return;
        };
        // Version 2 takes a tuner's word before the user's variables.
        let forced = process().is_some_and(|process| process.experiment.is_forced());
        let wanted = arm.everywhere(function).filter(|_| !forced);
        let Some((wanted_algorithm, wanted_protocol)) = wanted else {
            communicator.refuse();
            return;
        };
        // SAFETY: NCCL passes places for what is chosen.
        unsafe {
            *algorithm = wanted_algorithm;
            *protocol = wanted_protocol;
            if let Some(wanted) = arm.channels {
                *channels = wanted;
            }
        }
    });
    SUCCESS
}

/// What a tuner with a table of costs is asked.
struct Question {
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    joined: c_int,
    costs: *mut f32,
    algorithms: c_int,
    protocols: c_int,
    registered: Option<bool>,
    channels: *mut c_int,
}

/// Keeps NCCL's costs, and then asks for the arm of the experiment.
fn choose(of_call: &Question) {
    let rows = usize::try_from(of_call.algorithms).unwrap_or(0);
    let columns = usize::try_from(of_call.protocols).unwrap_or(0);
    if of_call.costs.is_null() {
        return;
    }
    // SAFETY: NCCL's table has so many rows and columns, one after the other, and is this call's alone.
    let table = unsafe { std::slice::from_raw_parts_mut(of_call.costs, rows * columns) };
    if let Some((place, costs)) = of(of_call.context).zip(costs::costs()) {
        let kind = costs::CallKind {
            id: place.id,
            ranks: place.ranks,
            nodes: place.nodes,
            function: of_call.function,
            bytes: of_call.bytes,
            joined: of_call.joined,
            registered: of_call.registered,
        };
        costs.keep(&kind, table, rows, columns);
    }
    let Some((arm, communicator)) = next(of_call.context, of_call.function, of_call.bytes) else {
        return;
    };
    let Some(cheapest) = arm.cheapest(table, columns) else {
        communicator.refuse();
        return;
    };
    table[cheapest] = 0.0;
    if let Some(wanted) = arm.channels {
        // SAFETY: NCCL passes a place for the channels.
        unsafe { *of_call.channels = wanted };
    }
}

/// What NCCL calls; from version 4 on it also says whether the buffers are registered.
macro_rules! entry_point {
    ($name:ident $(, $registered:ident)?) => {
        #[allow(clippy::too_many_arguments)] // NCCL's signature.
        unsafe extern "C" fn $name(
            context: *mut c_void,
            function: c_int,
            bytes: usize,
            joined: c_int,
            costs: *mut f32,
            algorithms: c_int,
            protocols: c_int,
            $($registered: c_int,)?
            channels: *mut c_int,
        ) -> c_int {
            let registered: &[c_int] = &[$($registered)?];
            let question = Question {
                context,
                function,
                bytes,
                joined,
                costs,
                algorithms,
                protocols,
                registered: registered.first().map(|is| *is != 0),
                channels,
            };
            guard((), || choose(&question));
            SUCCESS
        }
    };
}
entry_point!(choose_v3);
entry_point!(choose_v4, registered);

/// A communicator ends.
unsafe extern "C" fn end(_context: *mut c_void) -> c_int {
    SUCCESS
}

/// One version.
macro_rules! version {
    ($name:ident, $type:ident, $symbol:literal, $init:expr, $choose:expr $(, $chunks:ident)?) => {
        #[doc = "The struct that NCCL looks up."]
        #[unsafe(export_name = $symbol)]
        pub static $name: $type = $type {
            name: c"ncclscope".as_ptr(),
            init: Some($init),
            get_coll_info: Some($choose),
            end: Some(end),
            $($chunks: None,)?
        };
    };
}

version!(TUNER_V2, V2, "ncclTunerPlugin_v2", init_short, choose_v2);
version!(TUNER_V3, V3, "ncclTunerPlugin_v3", init_short, choose_v3);
version!(TUNER_V4, V4, "ncclTunerPlugin_v4", init_short, choose_v4);
version!(TUNER_V5, V5, "ncclTunerPlugin_v5", init_long, choose_v4);
version!(
    TUNER_V6,
    V6,
    "ncclTunerPlugin_v6",
    init_long,
    choose_v4,
    get_chunk_size
);
version!(
    TUNER_V7,
    V7,
    "ncclTunerPlugin_v7",
    init_long,
    choose_v4,
    get_chunk_size
);
