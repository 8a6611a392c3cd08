//! Macros that define the plugin struct and check layouts while compiling.
//!
//! [`plugin_struct!`] expands to a version's `Profiler`, from that module's own `Init`, `Descr` and
//! `StateArgs`. [`layout!`] states size, alignment, and each field's type and offset; a difference is a
//! compile error.
//!
//! Rule: the offsets in `layout!` are typed in from the measured tables, never computed from the structs they
//! check.

/// Defines `Profiler`, `StartEvent` and `RecordEventState` of the module it is used in.
macro_rules! plugin_struct {
    ($symbol:literal) => {
        /// Starts an event: fills `*handle`, which NCCL hands back to the other calls.
        ///
        /// Store to `*handle` on every call, also for an event that isn't wanted: NCCL passes the address of
        /// uninitialised memory for some of them.
        pub type StartEvent = unsafe extern "C" fn(
            context: *mut core::ffi::c_void,
            handle: *mut *mut core::ffi::c_void,
            descr: *mut Descr,
        ) -> core::ffi::c_int;

        /// Records a [`state`](crate::state) value of an event. `args` may be null for any state.
        pub type RecordEventState = unsafe extern "C" fn(
            handle: *mut core::ffi::c_void,
            state: u32,
            args: *mut StateArgs,
        ) -> core::ffi::c_int;

        #[doc = concat!("The plugin struct, exported as the data object `", $symbol, "`.")]
        ///
        /// NCCL calls every entry without a null check, so an exported table has all of them. They are
        /// `Option` so that a program that loads plugins can look before it calls.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct Profiler {
            /// NUL-terminated name for NCCL's log. Read again at unload, so it points to static memory.
            pub name: *const core::ffi::c_char,
            /// Called for each communicator, possibly in parallel.
            pub init: Option<Init>,
            /// Called where an event starts.
            pub start_event: Option<StartEvent>,
            /// Called where an event stops, possibly on another thread than its start.
            pub stop_event: Option<crate::StopEvent>,
            /// Called where an event changes state.
            pub record_event_state: Option<RecordEventState>,
            /// Called by ncclCommDestroy and ncclCommAbort only.
            pub finalize: Option<crate::Finalize>,
        }

        // SAFETY: the struct is plain data with no interior mutability, so shared references only read it.
        // Following `name` or calling an entry is an unsafe act of its own, with its own reason.
        unsafe impl Sync for Profiler {}

        layout! { Profiler, size 48, align 8;
            name: *const core::ffi::c_char = 0,
            init: Option<Init> = 8,
            start_event: Option<StartEvent> = 16,
            stop_event: Option<crate::StopEvent> = 24,
            record_event_state: Option<RecordEventState> = 32,
            finalize: Option<crate::Finalize> = 40,
        }
    };
}

/// Asserts the size and alignment of a type, and the type and offset of fields reached by a dotted path.
///
/// The type is compared besides the offset because a `u8` before a pointer sits where a pointer would.
macro_rules! layout {
    ($of:ty, size $size:literal, align $align:literal;
     $($first:ident $(. $rest:ident)* : $field:ty = $offset:literal),* $(,)?) => {
        const _: () = {
            assert!(core::mem::size_of::<$of>() == $size);
            assert!(core::mem::align_of::<$of>() == $align);
            $(
                assert!(core::mem::offset_of!($of, $first $(. $rest)*) == $offset);
                let memory = core::mem::MaybeUninit::<$of>::uninit();
                // SAFETY: `memory` is allocated with the size of the type; only an address is taken, nothing
                // is read.
                let _: *const $field = unsafe { &raw const (*memory.as_ptr()).$first $(. $rest)* };
            )*
        };
    };
}
