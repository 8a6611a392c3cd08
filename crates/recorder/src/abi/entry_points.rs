//! The functions that stand in each table, for any version.
//!
//! They are generic over the adapter, and [`start_one`] over the event's type too. So there is one small
//! function for each type that a job sees often, in which the event exists only while compiling. The
//! `_slowly` functions do whatever else there is to do: what is rare, `callbacks` mode, which also hands on
//! the raw bytes, and [another plugin behind ours](crate::chain). They know the type only when they run.
//!
//! Rule: every entry point goes through [`guard`] or [`caught`], returns success, and writes what NCCL will
//! hand back (handle, context) whatever happens.

use super::Abi;
use crate::callbacks::Callbacks;
use crate::events::{Init, Receive};
use crate::guard::{caught, guard};
use crate::handle::HandleKind;
use crate::recorder::fork_page::{get, plain};
use crate::recorder::messages::{hello, log};
use crate::recorder::Recorder;
use crate::startup::get_or_make;
use capture::callback::EntryPoint;
use nccl_abi::{event, result, state};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Instant;

/// Handle and context while nothing is recorded. Not NULL, because NCCL up to 2.27 drops the children of a
/// NULL group.
const NOTHING: u64 = (HandleKind::Ignored as u64) << 16;

pub(super) fn init(
    context: *mut *mut c_void,
    mask: *mut c_int,
    init: Init,
    logger: nccl_abi::Logger,
) -> c_int {
    let begun = Instant::now();
    let (given, masks, more) = guard((NOTHING, None, 0), || {
        let Some(recorder) = get_or_make() else {
            return (NOTHING, None, 0);
        };
        let (given, wanted) = recorder.init(&init);
        let more = recorder.chain.as_ref().map_or(0, |chain| {
            // SAFETY: what NCCL passed.
            unsafe { chain.init(recorder.chained(given), &init, logger) }
        });
        // What follows allocates. Without memory, another init does it.
        if crate::pages::are_spare() {
            if let Some(stacks) = &recorder.stacks {
                stacks.look();
            }
            hello(recorder);
            recorder.look_for_callers(false);
            crate::mpi::look(recorder);
            // Only if memory was asked for: no GPU job has called NCCL's own count yet.
            if recorder.settings.graphs && recorder.settings.nccl_log.is_ours {
                crate::comm_memory::install();
            }
        }
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
                EntryPoint::Init,
                init.abi,
                recorder.clock.ticks(),
                0,
                given,
                &payload[..24 + name],
            );
        }
        log(logger, recorder);
        let took = begun.elapsed().as_nanos() as u64;
        recorder.writer.init_ns.fetch_add(took, Relaxed);
        (given, Some(&recorder.masks), more)
    });
    if !context.is_null() {
        // SAFETY: NCCL passes the address of its context pointer.
        unsafe { context.write(given as *mut c_void) };
    }
    if !mask.is_null() {
        // SAFETY: NCCL passes the address of its process-wide mask.
        unsafe {
            match masks {
                Some(masks) => masks.store(mask, more),
                None => AtomicI32::from_ptr(mask).store(0, Relaxed),
            }
        }
    }
    result::SUCCESS
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

/// Dispatch tables of an ABI: one function for each type of event, and one for each state that is common.
struct Ways<A>(std::marker::PhantomData<A>);

impl<A: Abi> Ways<A> {
    /// Indexed by the place of the type's bit. Each function makes sure of the type.
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
    /// Indexed by state, from [`FIRST`] on.
    const CHANGE: [ChangeOne<A>; 3] = [
        change_one::<A, { state::KERNEL_CH_STOP }>,
        change_one::<A, { state::GROUP_START_API_STOP }>,
        change_one::<A, { state::GROUP_END_API_START }>,
    ];
}

pub(super) unsafe extern "C" fn start_event<A: Abi>(
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

/// Starts an event of one type. The arguments are in startEvent's order, so that they stay in their
/// registers.
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
    d: *mut A::Descr,
) -> c_int {
    let handle = guard(NOTHING, || {
        let Some(recorder) = get() else {
            return NOTHING;
        };
        // SAFETY: as the caller promises.
        let kind = unsafe { A::kind(d) };
        let chain = recorder.chain.as_ref();
        if let Some(chain) = chain.filter(|chain| chain.alone_wants(kind, recorder.mask())) {
            let handle = recorder.only_chained(chain.next_number());
            if let Some(comm) = recorder.chained(context as u64) {
                // SAFETY: as above.
                unsafe { chain.start(comm, kind, handle, d.cast()) };
            }
            return handle;
        }
        // SAFETY: as above.
        let (parent, event) = unsafe { A::read(recorder, d, kind) };
        let mut handle = recorder.start(context as u64, kind, parent, event);
        let callbacks = recorder.callbacks.as_ref();
        let number = callbacks.map(Callbacks::next_number);
        if let Some(number) = number.or_else(|| Some(chain?.next_number())) {
            handle = recorder.told_apart(handle, number);
        }
        if let Some(callbacks) = callbacks {
            let (version, ticks) = (A::VERSION, recorder.clock.ticks());
            // SAFETY: as above; what comes back is the part of the descriptor that this event's type defines.
            let bytes = unsafe { &*A::raw(d, &mut |text| callbacks.text(version, ticks, text)) };
            callbacks.push(
                EntryPoint::Start,
                version,
                ticks,
                context as u64,
                handle,
                bytes,
            );
        }
        if let Some((chain, comm)) = chain.zip(recorder.chained(context as u64)) {
            // SAFETY: as above.
            unsafe { chain.start(comm, kind, handle, d.cast()) };
        }
        handle
    });
    answer(out, handle)
}

pub(super) unsafe extern "C" fn stop_event<A: Abi>(handle: *mut c_void) -> c_int {
    let Some(recorder) = plain() else {
        return stop_slowly::<A>(handle);
    };
    STOP[recorder.read(handle as u64).bits()](handle, recorder)
}

type StopOne = extern "C" fn(*mut c_void, &Recorder) -> c_int;

/// Dispatch table of stopEvent, indexed by the bits of the handle's kind.
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
        if !recorder.is_only_chained(handle as u64) {
            recorder.stop(handle as u64, None);
            if let Some(callbacks) = &recorder.callbacks {
                let ticks = recorder.clock.ticks();
                callbacks.push(EntryPoint::Stop, A::VERSION, ticks, handle as u64, 0, &[]);
            }
        }
        if let Some(chain) = &recorder.chain {
            chain.stop(handle as u64);
        }
    });
    result::SUCCESS
}

pub(super) unsafe extern "C" fn record_event_state<A: Abi>(
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

/// The first 8 bytes of a state's arguments. Every state that has arguments has at least 8 bytes.
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
        if !recorder.is_only_chained(handle as u64) {
            recorder.state(handle as u64, A::state(number, first(args)));
            if let Some(callbacks) = &recorder.callbacks {
                let bytes: &[u8] = if args.is_null() {
                    &[]
                } else {
                    // SAFETY: as for `first`.
                    unsafe { std::slice::from_raw_parts(args.cast(), size_of::<A::StateArgs>()) }
                };
                callbacks.push(
                    EntryPoint::State,
                    A::VERSION,
                    recorder.clock.ticks(),
                    handle as u64,
                    number.into(),
                    bytes,
                );
            }
        }
        if let Some(chain) = &recorder.chain {
            // SAFETY: NCCL's arguments, as they came.
            unsafe { chain.change(handle as u64, number, args.cast()) };
        }
    });
    result::SUCCESS
}

pub(super) unsafe extern "C" fn finalize_context<A: Abi>(context: *mut c_void) -> c_int {
    guard((), || {
        let Some(recorder) = get() else { return };
        if let Some((chain, comm)) = recorder
            .chain
            .as_ref()
            .zip(recorder.chained(context as u64))
        {
            chain.finalize(comm);
        }
        if let Some(callbacks) = &recorder.callbacks {
            let ticks = recorder.clock.ticks();
            callbacks.push(
                EntryPoint::Finalize,
                A::VERSION,
                ticks,
                context as u64,
                0,
                &[],
            );
        }
        recorder.finalize(context as u64);
    });
    result::SUCCESS
}
