//! Puts an adapter and its table together. Each version's file uses `adapter!` once.

/// One ABI's adapter (`This`) and the table that NCCL looks up. The file names its descriptors `abi`.
macro_rules! adapter {
    ($version:literal, $symbol:ident, $init:item, $read:item, $raw:item, $state:expr) => {
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
        pub static $symbol: Padded<abi::Profiler> = Padded::new(abi::Profiler {
            name: crate::chain::OUR_NAME.as_ptr(),
            init: Some(init_context),
            start_event: Some(start_event::<This>),
            stop_event: Some(stop_event::<This>),
            record_event_state: Some(record_event_state::<This>),
            finalize: Some(finalize_context::<This>),
        });
    };
}

/// The init of v1 to v3, which tells nothing of the communicator.
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

/// The init from v5 on. That of v4 has its arguments in another order.
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
