//! The structs as a plugin and NCCL use them: a static table, and a descriptor full of garbage read by its
//! type.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::mem::MaybeUninit;
use nccl_abi::{event, result, v1, v4, v5, v7, Logger};

unsafe extern "C" fn init(
    context: *mut *mut c_void,
    comm_id: u64,
    mask: *mut c_int,
    _comm_name: *const c_char,
    _n_nodes: c_int,
    _n_ranks: c_int,
    _rank: c_int,
    _logger: Logger,
) -> c_int {
    // SAFETY: the test passes pointers to its own locals.
    unsafe {
        *context = comm_id as *mut c_void;
        *mask = event::KERNEL_CH as c_int;
    }
    result::SUCCESS
}

static TABLE: v7::Profiler = v7::Profiler {
    name: c"test".as_ptr(),
    init: Some(init),
    start_event: None,
    stop_event: None,
    record_event_state: None,
    finalize: None,
};

#[test]
fn a_table_is_a_static_shared_by_threads() {
    let thread = std::thread::spawn(|| {
        let mut context = core::ptr::null_mut();
        let mut mask = 0;
        let init = TABLE.init.expect("set above");
        let name = core::ptr::null();
        // SAFETY: `init` above writes to the two locals only.
        let rc = unsafe { init(&mut context, 7, &mut mask, name, 1, 8, 3, None) };
        (rc, context as usize, mask)
    });
    assert_eq!(thread.join().unwrap(), (result::SUCCESS, 7, 0x40));
}

#[test]
fn a_logger_fits_the_alias() {
    type Plain = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);
    assert_eq!(size_of::<Logger>(), size_of::<Plain>());
}

/// Memory for a descriptor, every byte garbage.
fn poisoned<T>() -> MaybeUninit<T> {
    let mut memory = MaybeUninit::<T>::uninit();
    // SAFETY: writes exactly the bytes of `memory`.
    unsafe { core::ptr::write_bytes(memory.as_mut_ptr(), 0xa5, 1) };
    memory
}

/// Writes bytes where the measured layout has them, as NCCL's compiler does.
fn poke<T, const N: usize>(memory: &mut MaybeUninit<T>, at: usize, bytes: [u8; N]) {
    assert!(at + N <= size_of::<T>());
    // SAFETY: in bounds by the line above; bytes have no alignment.
    unsafe {
        memory
            .as_mut_ptr()
            .cast::<u8>()
            .add(at)
            .cast::<[u8; N]>()
            .write(bytes)
    };
}

#[test]
fn one_byte_type_ignores_the_bytes_behind_it() {
    let mut memory = poisoned::<v1::Descr>();
    poke(&mut memory, 0, [event::COLL as u8]);
    poke(&mut memory, 48, [4]);
    poke(&mut memory, 72, 1024usize.to_ne_bytes());
    poke(&mut memory, 107, [2]);
    let descr = memory.as_ptr();
    // SAFETY: all bytes are initialised, and integers have no invalid values.
    unsafe {
        assert_eq!(u64::from((*descr).type_), event::COLL);
        assert_eq!(
            nccl_abi::names::func((*descr).u.coll.func),
            Some("AllReduce")
        );
        assert_eq!((*descr).u.coll.count, 1024);
        assert_eq!(
            nccl_abi::names::proto((*descr).u.coll.proto),
            Some("SIMPLE")
        );
    }
}

#[test]
fn eight_byte_type_reads_all_of_it() {
    let mut memory = poisoned::<v5::Descr>();
    poke(&mut memory, 0, event::GROUP_API.to_ne_bytes());
    poke(&mut memory, 24, [0xff]);
    poke(&mut memory, 28, 2i32.to_ne_bytes());
    let descr = memory.as_ptr();
    // SAFETY: as above; `graph_captured` is a `u8`, so that 0xff is a value like any other.
    unsafe {
        assert_eq!((*descr).type_, event::GROUP_API);
        assert_ne!((*descr).u.group_api.graph_captured, 0);
        assert_eq!((*descr).u.group_api.group_depth, 2);
    }
}

#[test]
fn kernel_channel_stamp_is_eight_bytes_in() {
    let mut memory = poisoned::<v4::Descr>();
    poke(&mut memory, 24, [11]);
    poke(&mut memory, 32, 1_700_000_000_000_000_032u64.to_ne_bytes());
    let descr = memory.as_ptr();
    // SAFETY: as above.
    unsafe {
        assert_eq!((*descr).u.kernel_ch.channel_id, 11);
        assert_eq!((*descr).u.kernel_ch.p_timer, 1_700_000_000_000_000_032);
    }
}
