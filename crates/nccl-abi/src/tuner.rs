//! The C layouts of NCCL's tuner plugin API, versions 2 to 7.
//!
//! A tuner exports one struct for each name in [`SYMBOLS`]; NCCL takes the newest it knows. Versions differ
//! in what `init` and `getCollInfo` take. [`V2`] answers with an algorithm and a protocol. From [`V3`] on
//! NCCL hands over its table of costs, an array of `numAlgo` rows of `numProto` floats, and takes the
//! cheapest entry that the tuner leaves. [`V4`] has `regBuff` besides, [`V5`] the communicator's id, and
//! [`V6`] an optional `getChunkSize`.
//!
//! Rule: an entry that is [`IGNORE`] can't run here, or a variable of the user's forbids it. It stays what it
//! is: NCCL takes whatever is cheapest, without looking again.

use core::ffi::{c_char, c_int, c_void};

/// Data symbols NCCL looks up, oldest first: the entry for version `n` is at `n - 2`.
pub const SYMBOLS: [&str; 6] = [
    "ncclTunerPlugin_v2",
    "ncclTunerPlugin_v3",
    "ncclTunerPlugin_v4",
    "ncclTunerPlugin_v5",
    "ncclTunerPlugin_v6",
    "ncclTunerPlugin_v7",
];

/// What NCCL can't run, or may not, costs this.
pub const IGNORE: f32 = -1.0;

/// Makes the tuner of a communicator, versions 2 to 4.
pub type InitShort = unsafe extern "C" fn(
    ranks: usize,
    nodes: usize,
    logger: crate::Logger,
    context: *mut *mut c_void,
) -> c_int;

/// The same from version 5 on. `domain` and `constants` are NCCL's own, and may be left alone.
pub type InitLong = unsafe extern "C" fn(
    context: *mut *mut c_void,
    comm_id: u64,
    ranks: usize,
    nodes: usize,
    logger: crate::Logger,
    domain: *mut c_void,
    constants: *mut c_void,
) -> c_int;

/// Chooses for a collective, version 2: what is not stored is NCCL's own choice.
pub type ChooseV2 = unsafe extern "C" fn(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    collnet: c_int,
    nvls: c_int,
    pipe_ops: c_int,
    algorithm: *mut c_int,
    protocol: *mut c_int,
    channels: *mut c_int,
) -> c_int;

/// Chooses for a collective, version 3. `costs` is the table itself, in spite of its type in C.
pub type ChooseV3 = unsafe extern "C" fn(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    pipe_ops: c_int,
    costs: *mut f32,
    algorithms: c_int,
    protocols: c_int,
    channels: *mut c_int,
) -> c_int;

/// The same from version 4 on.
pub type ChooseV4 = unsafe extern "C" fn(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    pipe_ops: c_int,
    costs: *mut f32,
    algorithms: c_int,
    protocols: c_int,
    registered: c_int,
    channels: *mut c_int,
) -> c_int;

/// Ends a communicator's tuner: `destroy` up to version 4, `finalize` from 5 on.
pub type End = unsafe extern "C" fn(context: *mut c_void) -> c_int;

/// Overrides a chunk size, from version 6 on.
pub type ChunkSize = unsafe extern "C" fn(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    algorithm: c_int,
    protocol: c_int,
    channels: c_int,
    chunk: *mut usize,
) -> c_int;

/// Defines a version's struct.
macro_rules! tuner_struct {
    ($name:ident, $symbol:literal, $init:ty, $choose:ty) => {
        #[doc = concat!("The tuner struct, exported as the data object `", $symbol, "`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            /// NUL-terminated name for NCCL's log, in static memory.
            pub name: *const c_char,
            /// Called for each communicator.
            pub init: Option<$init>,
            /// Called for each collective that is not yet decided, at its enqueueing.
            pub get_coll_info: Option<$choose>,
            /// Called where the communicator ends.
            pub end: Option<End>,
        }

        // SAFETY: plain data that nobody changes; following a pointer of it is an unsafe act of its own.
        unsafe impl Sync for $name {}

        layout! { $name, size 32, align 8;
            name: *const c_char = 0,
            init: Option<$init> = 8,
            get_coll_info: Option<$choose> = 16,
            end: Option<End> = 24,
        }
    };
}

/// The same with `getChunkSize`.
macro_rules! tuner_struct_with_chunks {
    ($name:ident, $symbol:literal) => {
        #[doc = concat!("The tuner struct, exported as the data object `", $symbol, "`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            /// NUL-terminated name for NCCL's log, in static memory.
            pub name: *const c_char,
            /// Called for each communicator.
            pub init: Option<InitLong>,
            /// Called for each collective that is not yet decided, at its enqueueing.
            pub get_coll_info: Option<ChooseV4>,
            /// Called where the communicator ends.
            pub end: Option<End>,
            /// Null leaves NCCL's chunk sizes.
            pub get_chunk_size: Option<ChunkSize>,
        }

        // SAFETY: plain data that nobody changes; following a pointer of it is an unsafe act of its own.
        unsafe impl Sync for $name {}

        layout! { $name, size 40, align 8;
            name: *const c_char = 0,
            init: Option<InitLong> = 8,
            get_coll_info: Option<ChooseV4> = 16,
            end: Option<End> = 24,
            get_chunk_size: Option<ChunkSize> = 32,
        }
    };
}

tuner_struct!(V2, "ncclTunerPlugin_v2", InitShort, ChooseV2);
tuner_struct!(V3, "ncclTunerPlugin_v3", InitShort, ChooseV3);
tuner_struct!(V4, "ncclTunerPlugin_v4", InitShort, ChooseV4);
tuner_struct!(V5, "ncclTunerPlugin_v5", InitLong, ChooseV4);
tuner_struct_with_chunks!(V6, "ncclTunerPlugin_v6");
tuner_struct_with_chunks!(V7, "ncclTunerPlugin_v7");
