//! The seven symbols that NCCL looks up, and the adapters behind them.
//!
//! NCCL takes the newest ABI that both sides know, so each version's entry points only ever see that version's layout.
//! An adapter ([`Abi`]) reads the one union member that the type selects, field by field (unused bytes are garbage, and a
//! descriptor is never copied whole), as an [`Event`].
//!
//! The entry points are generic over the adapter, and [`start_one`] over the event's type too: one small function for each
//! type that a job sees often, in which the event exists only while compiling. Whatever else there is to do, because it is
//! rare or because of `callbacks` mode (which also hands on the raw bytes), is done by the `_slowly` functions, which know
//! the type only when they run.
//!
//! Rule: every entry point goes through [`guard`] or [`caught`], returns success, and writes what NCCL will hand back (handle, context)
//! whatever happens.

use crate::events::{Api, Event, Init, Name, Receive, State, Task};
use crate::guard::{caught, guard};
use crate::handle::Kind;
use crate::recorder::fork_page::{get, plain};
use crate::recorder::making::get_or_make;
use crate::recorder::Recorder;
use capture::callback::What;
use nccl_abi::{event, result, state};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Handle and context while nothing is recorded; not NULL, because NCCL up to 2.27 drops a NULL group's children.
const NOTHING: u64 = (Kind::Ignored as u64) << 16;

fn init(
    context: *mut *mut c_void,
    mask: *mut c_int,
    init: Init,
    logger: nccl_abi::Logger,
) -> c_int {
    let (given, wanted) = guard((NOTHING, 0), || {
        let Some(recorder) = get_or_make() else {
            return (NOTHING, 0);
        };
        let (given, wanted) = recorder.init(&init);
        if let Some(callbacks) = &recorder.callbacks {
            let mut payload = [0u8; 24 + 96];
            payload[..8].copy_from_slice(&init.hash.to_le_bytes());
            for (i, value) in [init.nnodes, init.nranks, init.rank, wanted as i32]
                .into_iter()
                .enumerate()
            {
                payload[8 + 4 * i..12 + 4 * i].copy_from_slice(&value.to_le_bytes());
            }
            let name = if init.name.is_null() {
                0
            } else {
                crate::intern::read(init.name, &mut payload[24..]).len()
            };
            callbacks.push(
                What::Init,
                init.abi,
                recorder.clock.ticks(),
                0,
                given,
                &payload[..24 + name],
            );
        }
        log(logger, recorder);
        (given, wanted)
    });
    if !context.is_null() {
        // SAFETY: NCCL passes the address of its context pointer.
        unsafe { context.write(given as *mut c_void) };
    }
    if !mask.is_null() {
        // SAFETY: NCCL passes the address of its process-wide mask, which its threads read with atomic loads.
        unsafe { AtomicI32::from_ptr(mask) }.store(wanted as i32, Relaxed);
    }
    result::SUCCESS
}

/// Tells NCCL's own log where the capture is. At INFO only: its WARN overwrites the error text that users see.
fn log(logger: nccl_abi::Logger, recorder: &Recorder) {
    let Some(logger) = logger else { return };
    let Ok(text) = std::ffi::CString::new(format!(
        "ncclscope: recording to {}",
        recorder.names.stem.display()
    )) else {
        return;
    };
    let flags = nccl_abi::log::INIT | nccl_abi::log::PROFILE;
    // SAFETY: NCCL's logger takes a printf format and its arguments; both strings outlive the call.
    unsafe {
        logger(
            nccl_abi::log::LEVEL_INFO,
            flags,
            c"ncclscope".as_ptr(),
            0,
            c"%s".as_ptr(),
            text.as_ptr(),
        )
    };
}

/// One ABI version: how to read what its NCCL passes.
trait Abi {
    /// Its number.
    const VERSION: u8;
    /// Its descriptor.
    type Descr;
    /// Its recordEventState's arguments.
    type StateArgs;

    /// The type of an event, one bit of [`event`].
    ///
    /// # Safety
    /// `d` points to a descriptor of this version; so for the others.
    unsafe fn kind(d: *const Self::Descr) -> u64;
    /// The parent and the event, given its type. Inlined, so that the event is never built in memory.
    unsafe fn read(recorder: &Recorder, d: *const Self::Descr, kind: u64) -> (u64, Event);
    /// The bytes that the event's type defines; its texts go to `text`.
    unsafe fn raw(d: *const Self::Descr, text: &mut dyn FnMut(*const c_char)) -> *const [u8];
    /// A state, given the first 8 bytes of its arguments, if there are any.
    fn state(number: u32, first: Option<u64>) -> State;
}

/// Writes the handle that NCCL will hand back.
#[inline(always)]
fn answer(out: *mut *mut c_void, handle: u64) -> c_int {
    if !out.is_null() {
        // SAFETY: NCCL passes the address of its handle.
        unsafe { out.write(handle as *mut c_void) };
    }
    result::SUCCESS
}

type StartOne<A> =
    unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut <A as Abi>::Descr, &Recorder) -> c_int;

/// An ABI's functions by what they are for. They are gone to through tables, as a jump.
struct Ways<A>(std::marker::PhantomData<A>);

impl<A: Abi> Ways<A> {
    /// By the place of the type's bit; each makes sure of the type.
    const START: [StartOne<A>; 16] = [
        start_one::<A, { event::GROUP }>,
        start_one::<A, { event::COLL }>,
        start_one::<A, { event::P2P }>,
        start_one::<A, { event::PROXY_OP }>,
        start_one::<A, { event::PROXY_STEP }>,
        start_any::<A>,
        start_one::<A, { event::KERNEL_CH }>,
        start_any::<A>,
        start_one::<A, { event::GROUP_API }>,
        start_one::<A, { event::COLL_API }>,
        start_one::<A, { event::P2P_API }>,
        start_one::<A, { event::KERNEL_LAUNCH }>,
        start_any::<A>,
        start_any::<A>,
        start_any::<A>,
        start_one::<A, { event::KERNEL_PHASE }>,
    ];
    /// By state, from [`FIRST`] on.
    const CHANGE: [ChangeOne<A>; 3] = [
        change_one::<A, { state::KERNEL_CH_STOP }>,
        change_one::<A, { state::GROUP_START_API_STOP }>,
        change_one::<A, { state::GROUP_END_API_START }>,
    ];
}

unsafe extern "C" fn start_event<A: Abi>(
    context: *mut c_void,
    out: *mut *mut c_void,
    d: *mut A::Descr,
) -> c_int {
    // SAFETY: NCCL passes a descriptor of the version whose table it took.
    unsafe {
        let Some(recorder) = plain() else {
            return start_slowly::<A>(context, out, d);
        };
        let place = (A::kind(d) | 1 << 31).trailing_zeros() as usize % 16;
        Ways::<A>::START[place](context, out, d, recorder)
    }
}

/// The arguments in startEvent's order, so that they stay where they are.
///
/// # Safety
/// `d` is a descriptor of the version.
unsafe extern "C" fn start_one<A: Abi, const KIND: u64>(
    context: *mut c_void,
    out: *mut *mut c_void,
    d: *mut A::Descr,
    recorder: &Recorder,
) -> c_int {
    // SAFETY: as the caller promises.
    if unsafe { A::kind(d) } != KIND {
        // SAFETY: as above.
        return unsafe { start_slowly::<A>(context, out, d) };
    }
    let handle = caught(NOTHING, || {
        // SAFETY: as the caller promises.
        let (parent, event) = unsafe { A::read(recorder, d, KIND) };
        recorder.start(context as u64, KIND, parent, event)
    });
    answer(out, handle)
}

/// # Safety
/// `d` is a descriptor of the version.
unsafe extern "C" fn start_any<A: Abi>(
    context: *mut c_void,
    out: *mut *mut c_void,
    d: *mut A::Descr,
    _: &Recorder,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { start_slowly::<A>(context, out, d) }
}

/// # Safety
/// `d` is a descriptor of the version.
#[inline(never)]
unsafe extern "C" fn start_slowly<A: Abi>(
    context: *mut c_void,
    out: *mut *mut c_void,
    d: *const A::Descr,
) -> c_int {
    let handle = guard(NOTHING, || {
        let Some(recorder) = get() else {
            return NOTHING;
        };
        // SAFETY: as the caller promises.
        let kind = unsafe { A::kind(d) };
        // SAFETY: as above.
        let (parent, event) = unsafe { A::read(recorder, d, kind) };
        let handle = recorder.start(context as u64, kind, parent, event);
        if let Some(callbacks) = &recorder.callbacks {
            let (version, ticks) = (A::VERSION, recorder.clock.ticks());
            // SAFETY: as above; what comes back is the part of the descriptor that this event's type defines.
            let bytes = unsafe { &*A::raw(d, &mut |text| callbacks.text(version, ticks, text)) };
            callbacks.push(What::Start, version, ticks, context as u64, handle, bytes);
        }
        handle
    });
    answer(out, handle)
}

unsafe extern "C" fn stop_event<A: Abi>(handle: *mut c_void) -> c_int {
    let Some(recorder) = plain() else {
        return stop_slowly::<A>(handle);
    };
    STOP[recorder.read(handle as u64).bits()](handle, recorder)
}

type StopOne = extern "C" fn(*mut c_void, &Recorder) -> c_int;

/// By the bits of the handle's kind.
const STOP: [StopOne; 16] = [
    stop_one::<0>,
    stop_one::<1>,
    stop_one::<2>,
    stop_one::<3>,
    stop_one::<4>,
    stop_one::<5>,
    stop_one::<6>,
    stop_one::<7>,
    stop_one::<8>,
    stop_one::<9>,
    stop_one::<10>,
    stop_one::<11>,
    stop_one::<12>,
    stop_one::<13>,
    stop_one::<14>,
    stop_one::<15>,
];

extern "C" fn stop_one<const BITS: usize>(handle: *mut c_void, recorder: &Recorder) -> c_int {
    caught((), || recorder.stop(handle as u64, Some(BITS)));
    result::SUCCESS
}

#[cold]
fn stop_slowly<A: Abi>(handle: *mut c_void) -> c_int {
    guard((), || {
        let Some(recorder) = get() else { return };
        recorder.stop(handle as u64, None);
        if let Some(callbacks) = &recorder.callbacks {
            let ticks = recorder.clock.ticks();
            callbacks.push(What::Stop, A::VERSION, ticks, handle as u64, 0, &[]);
        }
    });
    result::SUCCESS
}

unsafe extern "C" fn record_event_state<A: Abi>(
    handle: *mut c_void,
    number: u32,
    args: *mut A::StateArgs,
) -> c_int {
    let Some(recorder) = plain() else {
        return change_slowly::<A>(handle, number, args);
    };
    match Ways::<A>::CHANGE.get(number.wrapping_sub(FIRST) as usize) {
        Some(change) => change(handle, number, args, recorder),
        None => change_slowly::<A>(handle, number, args),
    }
}

type ChangeOne<A> = extern "C" fn(*mut c_void, u32, *mut <A as Abi>::StateArgs, &Recorder) -> c_int;
/// The first of the states that have a function of their own.
const FIRST: u32 = state::KERNEL_CH_STOP;

/// Every state that has arguments has 8 bytes of them first.
#[inline(always)]
fn first<T>(args: *mut T) -> Option<u64> {
    const { assert!(std::mem::size_of::<T>() >= 8) };
    // SAFETY: non-null arguments are whole; all of their bytes are readable.
    (!args.is_null()).then(|| unsafe { args.cast::<u64>().read_unaligned() })
}

extern "C" fn change_one<A: Abi, const NUMBER: u32>(
    handle: *mut c_void,
    _: u32,
    args: *mut A::StateArgs,
    recorder: &Recorder,
) -> c_int {
    caught((), || {
        recorder.state(handle as u64, A::state(NUMBER, first(args)))
    });
    result::SUCCESS
}

#[inline(never)]
extern "C" fn change_slowly<A: Abi>(
    handle: *mut c_void,
    number: u32,
    args: *mut A::StateArgs,
) -> c_int {
    guard((), || {
        let Some(recorder) = get() else { return };
        recorder.state(handle as u64, A::state(number, first(args)));
        if let Some(callbacks) = &recorder.callbacks {
            let bytes: &[u8] = if args.is_null() {
                &[]
            } else {
                // SAFETY: as for `first`.
                unsafe { std::slice::from_raw_parts(args.cast(), size_of::<A::StateArgs>()) }
            };
            callbacks.push(
                What::State,
                A::VERSION,
                recorder.clock.ticks(),
                handle as u64,
                number.into(),
                bytes,
            );
        }
    });
    result::SUCCESS
}

unsafe extern "C" fn finalize_context<A: Abi>(context: *mut c_void) -> c_int {
    guard((), || {
        let Some(recorder) = get() else { return };
        if let Some(callbacks) = &recorder.callbacks {
            let ticks = recorder.clock.ticks();
            callbacks.push(What::Finalize, A::VERSION, ticks, context as u64, 0, &[]);
        }
        recorder.finalize(context as u64);
    });
    result::SUCCESS
}

/// A step's state as an index into `live::WAITS`.
#[inline(always)]
fn wait(number: u32) -> Option<u8> {
    Some(match number {
        state::PROXY_STEP_SEND_GPU_WAIT => 0,
        state::PROXY_STEP_SEND_PEER_WAIT => 1,
        state::PROXY_STEP_SEND_WAIT => 2,
        state::PROXY_STEP_RECV_WAIT => 3,
        state::PROXY_STEP_RECV_FLUSH_WAIT => 4,
        state::PROXY_STEP_RECV_GPU_WAIT => 5,
        _ => return None,
    })
}

/// The state of an ABI up to v3; `moved` is the operation's transSize, if arguments came.
#[inline(always)]
fn old_state(number: u32, moved: Option<u64>) -> State {
    match (number, moved) {
        (0..=7, Some(bytes)) => State::OpProgress { bytes },
        (_, _) if wait(number).is_some() => State::Step {
            wait: wait(number).unwrap_or(0),
            bytes: 0,
        },
        (0..=18, _) => State::Ignored,
        _ => State::Unknown,
    }
}

/// The state of an ABI from v4 on; the arguments' first 8 bytes serve every state that has any.
#[inline(always)]
fn new_state(number: u32, args: Option<u64>, newest: u32) -> State {
    let value = args.unwrap_or(0);
    if number > newest {
        return State::Unknown;
    }
    match number {
        state::KERNEL_CH_STOP => State::KernelStop { stamp: value },
        state::PROXY_OP_IN_PROGRESS => State::OpBegun,
        state::GROUP_START_API_STOP => State::GroupOpened,
        state::GROUP_END_API_START => State::GroupClosing,
        31 => State::PhaseStop { stamp: value },
        _ => match wait(number) {
            Some(wait) => State::Step { wait, bytes: value },
            None => State::Ignored,
        },
    }
}

/// Bytes of a descriptor up to the end of a union member.
macro_rules! upto {
    ($d:ident, $member:ident) => {{
        let end = (&raw const (*$d).u.$member).add(1) as usize;
        std::ptr::slice_from_raw_parts($d.cast::<u8>(), end - $d as usize)
    }};
}

/// Bytes before the union.
macro_rules! header_only {
    ($d:ident) => {
        std::ptr::slice_from_raw_parts($d.cast::<u8>(), 24)
    };
}

/// One ABI's adapter and the table that NCCL looks up.
macro_rules! adapter {
    ($version:literal, $module:ident, $symbol:ident, $init:item, $read:item, $raw:item, $state:expr) => {
        mod $module {
            use super::*;
            use nccl_abi::$module as abi;

            struct This;

            impl Abi for This {
                const VERSION: u8 = $version;
                type Descr = abi::Descr;
                type StateArgs = abi::StateArgs;

                #[inline(always)]
                unsafe fn kind(d: *const abi::Descr) -> u64 {
                    // SAFETY: NCCL passes a descriptor of this version.
                    unsafe { (*d).type_.into() }
                }
                #[inline(always)]
                $read
                $raw
                #[inline(always)]
                fn state(number: u32, first: Option<u64>) -> State {
                    ($state)(number, first)
                }
            }

            $init

            /// Looked up by NCCL under this very name.
            #[no_mangle]
            #[allow(non_upper_case_globals)]
            pub static $symbol: abi::Profiler = abi::Profiler {
                name: c"ncclscope".as_ptr(),
                init: Some(init_context),
                start_event: Some(start_event::<This>),
                stop_event: Some(stop_event::<This>),
                record_event_state: Some(record_event_state::<This>),
                finalize: Some(finalize_context::<This>),
            };
        }
    };
}

macro_rules! old_init {
    ($version:literal) => {
        unsafe extern "C" fn init_context(context: *mut *mut c_void, mask: *mut c_int) -> c_int {
            let told = Init {
                abi: $version,
                hash: 0,
                name: std::ptr::null(),
                nnodes: 0,
                nranks: 0,
                rank: -1,
            };
            init(context, mask, told, None)
        }
    };
}

macro_rules! new_init {
    ($version:literal) => {
        #[allow(clippy::too_many_arguments)]
        unsafe extern "C" fn init_context(
            context: *mut *mut c_void,
            comm_id: u64,
            mask: *mut c_int,
            name: *const c_char,
            nnodes: c_int,
            nranks: c_int,
            rank: c_int,
            logger: nccl_abi::Logger,
        ) -> c_int {
            init(
                context,
                mask,
                Init {
                    abi: $version,
                    hash: comm_id,
                    name,
                    nnodes,
                    nranks,
                    rank,
                },
                logger,
            )
        }
    };
}

/// The events that all versions share.
macro_rules! proxy_events {
    ($d:ident, $kind:expr) => {
        match $kind {
            event::GROUP => Event::Group,
            event::PROXY_OP => {
                let op = &raw const (*$d).u.proxy_op;
                Event::ProxyOp {
                    pid: (*op).pid,
                    channel: (*op).channel_id,
                    send: (*op).is_send != 0,
                    peer: (*op).peer,
                    steps: (*op).n_steps,
                }
            }
            event::PROXY_STEP => Event::ProxyStep {
                number: (*$d).u.proxy_step.step,
            },
            event::PROXY_CTRL => Event::Ignored,
            _ => Event::Unknown,
        }
    };
}

macro_rules! text {
    ($field:expr) => {
        Name::Text($field)
    };
}

/// Coll of v2 to v4, P2p likewise: what they lack is given.
macro_rules! coll_task {
    ($c:ident, hash: $hash:expr, rank: $rank:expr, channels: $channels:expr) => {
        Event::Task(Task {
            legacy: This::VERSION < 5,
            p2p: false,
            func: text!((*$c).func),
            datatype: text!((*$c).datatype),
            count: (*$c).count as u64,
            root: (*$c).root,
            hash: $hash,
            rank: $rank,
            sequence: Some((*$c).seq_number),
            algorithm: text!((*$c).algo),
            protocol: text!((*$c).proto),
            variant: Name::Known(0),
            nchannels: $channels,
            nwarps: (*$c).n_warps,
            symmetric: false,
            user_tag: 0,
            peer: None,
            buffers: [(*$c).send_buff as u64, (*$c).recv_buff as u64],
        })
    };
}

macro_rules! p2p_task {
    ($p:ident, hash: $hash:expr, rank: $rank:expr, channels: $channels:expr, tag: $tag:expr) => {
        Event::Task(Task {
            legacy: This::VERSION < 5,
            p2p: true,
            func: text!((*$p).func),
            datatype: text!((*$p).datatype),
            count: (*$p).count as u64,
            root: -1,
            hash: $hash,
            rank: $rank,
            sequence: None,
            algorithm: Name::Known(0),
            protocol: Name::Known(0),
            variant: Name::Known(0),
            nchannels: $channels,
            nwarps: 0,
            symmetric: false,
            user_tag: $tag,
            peer: u32::try_from((*$p).peer).ok(),
            buffers: [(*$p).buff as u64; 2],
        })
    };
}

adapter!(
    1,
    v1,
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
                        variant: Name::Known(0),
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
                        algorithm: Name::Known(0),
                        protocol: Name::Known(0),
                        variant: Name::Known(0),
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

macro_rules! text_coll {
    ($d:ident, $text:ident) => {{
        let c = &raw const (*$d).u.coll;
        [(*c).func, (*c).datatype, (*c).algo, (*c).proto]
            .into_iter()
            .for_each(&mut *$text);
        upto!($d, coll)
    }};
}

macro_rules! text_p2p {
    ($d:ident, $text:ident) => {{
        let p = &raw const (*$d).u.p2p;
        [(*p).func, (*p).datatype].into_iter().for_each(&mut *$text);
        upto!($d, p2p)
    }};
}

adapter!(
    2,
    v2,
    ncclProfiler_v2,
    old_init!(2);,
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
                _ => header_only!(d),
            }
        }
    },
    old_state
);

adapter!(
    3,
    v3,
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
                event::KERNEL_CH => Event::KernelCh { channel: (*d).u.kernel_ch.channel_id, stamp: 0 },
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

adapter!(
    4,
    v4,
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
                        stamp: (*k).p_timer,
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

/// The events of v5 and up that the versions share; `$tag` is the userTag of a member where there is one.
macro_rules! api_events {
    ($d:ident, $kind:expr, $member:ident => $tag:expr) => {
        match $kind {
            event::GROUP_API => {
                let g = &raw const (*$d).u.group_api;
                Event::GroupApi { captured: (*g).graph_captured != 0, depth: (*g).group_depth }
            }
            event::COLL_API => {
                let $member = &raw const (*$d).u.coll_api;
                Event::Api(Api {
                    p2p: false,
                    func: text!((*$member).func),
                    datatype: text!((*$member).datatype),
                    count: (*$member).count as u64,
                    root: (*$member).root,
                    stream: (*$member).stream as u64,
                    captured: (*$member).graph_captured != 0,
                    user_tag: $tag,
                })
            }
            event::P2P_API => {
                let $member = &raw const (*$d).u.p2p_api;
                Event::Api(Api {
                    p2p: true,
                    func: text!((*$member).func),
                    datatype: text!((*$member).datatype),
                    count: (*$member).count as u64,
                    root: -1,
                    stream: (*$member).stream as u64,
                    captured: (*$member).graph_captured != 0,
                    user_tag: $tag,
                })
            }
            event::P2P => {
                let $member = &raw const (*$d).u.p2p;
                p2p_task!($member, hash: 0, rank: (*$d).rank, channels: (*$member).n_channels, tag: $tag)
            }
            event::KERNEL_LAUNCH => {
                let launch = &raw const (*$d).u.kernel_launch;
                Event::KernelLaunch { stream: (*launch).stream as u64 }
            }
            event::KERNEL_CH => {
                let k = &raw const (*$d).u.kernel_ch;
                Event::KernelCh { channel: (*k).channel_id, stamp: (*k).p_timer }
            }
            event::NET_PLUGIN => Event::Ignored,
            _ => proxy_events!($d, $kind),
        }
    };
}

macro_rules! text_api {
    ($d:ident, $text:ident, $kind:expr) => {
        match $kind {
            event::COLL => text_coll!($d, $text),
            event::P2P => text_p2p!($d, $text),
            event::COLL_API => {
                let c = &raw const (*$d).u.coll_api;
                [(*c).func, (*c).datatype].into_iter().for_each(&mut *$text);
                upto!($d, coll_api)
            }
            event::P2P_API => {
                let p = &raw const (*$d).u.p2p_api;
                [(*p).func, (*p).datatype].into_iter().for_each(&mut *$text);
                upto!($d, p2p_api)
            }
            event::GROUP_API => upto!($d, group_api),
            event::KERNEL_LAUNCH => upto!($d, kernel_launch),
            event::PROXY_OP => upto!($d, proxy_op),
            event::PROXY_STEP => upto!($d, proxy_step),
            event::KERNEL_CH => upto!($d, kernel_ch),
            event::NET_PLUGIN => upto!($d, net_plugin),
            _ => header_only!($d),
        }
    };
}

adapter!(
    5,
    v5,
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

macro_rules! ce_event {
    ($d:ident, $c:ident => $tag:expr) => {{
        let $c = &raw const (*$d).u.ce_coll;
        Event::CeColl {
            sequence: (*$c).seq_number,
            batches: (*$c).num_batches,
            buffers: [(*$c).send_buff as u64, (*$c).recv_buff as u64],
            user_tag: $tag,
        }
    }};
}

macro_rules! text_ce {
    ($d:ident, $text:ident) => {{
        let c = &raw const (*$d).u.ce_coll;
        [(*c).func, (*c).datatype, (*c).sync_strategy]
            .into_iter()
            .for_each(&mut *$text);
        upto!($d, ce_coll)
    }};
}

adapter!(
    6,
    v6,
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

adapter!(
    7,
    v7,
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
