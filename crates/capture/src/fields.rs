//! Every field of a call, in one list: [`call_fields`].
//!
//! A call is a [`Row`](crate::live::Row) of the live part while it runs. Once it is sealed, it is a row of
//! columns in a block. The structs of both, what copies one into the other, and the numbers of the columns
//! are made from the list. An entry of it, which has one line of doc:
//!
//! ```text
//! /// Error of `event_start`, ns.
//! sealed event_error: u32 = 31 plain;
//!    |      |      |     |   '--- how the column is written, see below
//!    |      |      |     '------- number of its column in a block
//!    |      |      '------------- its type; a live row has the atomic integer of the same size
//!    |      '-------------------- its name, the same everywhere
//!    '--------------------------- who has it
//! ```
//!
//! The live row has every field. Who has it besides:
//! - `live`: nobody. It goes when the row is sealed.
//! - `shape`: [`Shape`](crate::rows::Shape), which many calls share. Columns of shapes are numbered by
//!   themselves.
//! - `sealed`: [`Sealed`](crate::rows::Sealed), what every row has.
//! - `rest`: [`Rest`](crate::rows::Rest), what few rows have.
//!
//! How a column is written:
//! - `plain`: the values as they are. Columns of shapes always are; two small fields share one by `<< bits`.
//! - `relative`: by the difference to another row, to another time or to the shape. `rows/encode.rs` and
//!   `rows/decode.rs` have code for each of these columns.
//!
//! An array takes a column for each of its elements, from its number on.
//!
//! A moment on the host is in [`Ticks`], and a moment on the GPU's own clock is a [`GpuTime`]. So the
//! compiler keeps the two clocks apart, and both from lengths in ns.
//!
//! To add a field: find the cache line of the thread that writes it, and put the field where a `spare` is.
//! Give it the next free column number and `plain`, and say in `SPEC.md` what it means. Nothing else needs to
//! change: a block says how many columns it has, so readers of the same major number leave out what they do
//! not know.
//!
//! Rule: the order is that of the bytes in a live row, and a column keeps its number. Both are the format.

use crate::varint::{unzigzag, zigzag};
use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{self, Relaxed},
};

/// Calls the macro `$make` with the fields of a call.
macro_rules! call_fields {
    ($make:ident) => {
        $make! {
            // Line A: the calling thread. `word` is before these.

            /// The program called NCCL, ticks.
            sealed t_api: Ticks = 3 relative;
            /// Elements, as the program gave them.
            shape count: u64 = 9;
            /// Ticket of its group + 1; 0 none.
            sealed group: u64 = 8 relative;
            /// cudaStream_t, as a number.
            shape stream: u64 = 12;
            /// Uid of its communicator.
            shape comm: u32 = 0;
            /// Root, or -1.
            shape root: i32 = 10;
            /// String id of the function.
            shape func: u8 = 1;
            /// String id of the datatype.
            shape datatype: u8 = 2;
            /// What kind of call it is: [`flag`](crate::live::flag) bits.
            shape flags: u8 = 3;
            /// 0.
            live spare_a: u8;
            /// For a replay of a CUDA graph: its template's number + 1.
            sealed template: u32 = 16 plain;
            /// The call returned (below v5: its group stopped), ticks; 0 not yet, or its group has it.
            sealed t_end: Ticks = 7 relative;

            // Line B: the thread that launches.

            /// KernelLaunch start, ticks; 0 not known.
            sealed t_launch0: Ticks = 4 relative;
            /// KernelLaunch stop, ticks; 0 not known.
            sealed t_launch1: Ticks = 5 relative;
            /// Coll, P2p or CeColl start, ticks; 0 not yet.
            sealed t_enqueue: Ticks = 6 relative;
            /// NCCL's seqNumber + 1; 0 none.
            sealed seq: u64 = 2 relative;
            /// ABI v7: the program's userTag.
            rest user_tag: u64 = 17 plain;
            /// Peer of a send or receive + 1; 0 not known.
            shape peer: u32 = 11;
            /// String id of the algorithm.
            shape algorithm: u8 = 5;
            /// String id of the protocol.
            shape protocol: u8 = 6;
            /// ABI v7: string id of the kernelVariant.
            shape variant: u8 = 7;
            /// Channels that NCCL says it uses.
            shape nchannels: u8 = 8;
            /// Warps per channel.
            shape nwarps: u8 = 8 << 8;
            /// NCCL's return code, as `ncclscope attach` saw it; 0 success or not known.
            rest error: u8 = 38 plain;
            /// What NCCL has said about the call since its birth: [`part`](crate::live::part) bits.
            shape parts: u16 = 4;
            /// Batches of a copy-engine collective.
            shape ce_batches: u16 = 13;
            /// 0.
            live spare_b2: u16;
            /// Number of the CUDA events around its launch, if it has [`EVENTS`](crate::live::part::EVENTS).
            live event: u32;
            /// Linux's number of the thread that called, stored at birth; 0 not known.
            shape thread: u32 = 14;

            // Line C: the thread that delivers kernel events.

            /// Earliest start that NCCL stamped over its channels; 0 none.
            sealed stamp_start: GpuTime = 9 relative;
            /// Latest stop that NCCL stamped over its channels; 0 none.
            sealed stamp_stop: GpuTime = 10 relative;
            /// Host time of the newest kernel callback, ticks.
            sealed k_seen: Ticks = 11 relative;
            /// Channels started. It shares its column with `k_stopped`.
            sealed k_started: u16 = 12 relative;
            /// Channels stopped.
            sealed k_stopped: u16 = 12 relative;
            /// Evidence against its stamps: [`verdict`](crate::live::verdict) bits.
            sealed verdict: u16 = 15 plain;
            /// 0.
            live spare_c: u16;
            /// ABI v7: latest end of initial sync and of compute over channels; 0 none.
            rest phase_stop: [GpuTime; 2] = 13 relative;
            /// 0.
            live spare_c2: [u64; 2];

            // Line D: the network proxy's thread.

            /// ProxyOps started.
            rest ops_started: u32 = 20 plain;
            /// ProxyOps stopped.
            rest ops_stopped: u32 = 21 plain;
            /// Network steps finished.
            rest steps: u32 = 22 plain;
            /// Host time of the newest network callback, ticks >> 10.
            live net_seen: u32;
            /// Bytes that the network has accepted.
            rest bytes_sent: u64 = 23 plain;
            /// Bytes received.
            rest bytes_received: u64 = 24 plain;
            /// Time in each of [`WAITS`](crate::live::WAITS), summed over steps, in units of 64 ticks.
            rest waits: [u32; 6] = 25 plain;
            /// Longest [`held`](crate::net_op::NetOp::held) of its network operations, in units of 64 ticks.
            rest net_longest: u32 = 32 plain;
            /// The operation with that: peer + 1, << 1 | 1 if it sends; 0 none.
            rest net_link: u32 = 33 plain;

            // Line E: the recorder's thread. The buffers are the launching thread's, which writes them before
            // the call returns, and the recorder's thread writes after that.

            /// When the first of its two CUDA events ran, ticks; 0 not known. Stored after the next two.
            sealed event_start: Ticks = 34 relative;
            /// Time between the two CUDA events, ns.
            sealed event_ns: u64 = 35 plain;
            /// Error of `event_start`, ns.
            sealed event_error: u32 = 31 plain;
            /// The first stream that waited for it: its id << 2 | a kind of [`waiter`](crate::live::waiter).
            sealed waiter: u32 = 36 plain;
            /// Send buffer (`full` mode).
            rest send_buffer: u64 = 18 plain;
            /// Receive buffer (`full` mode).
            rest recv_buffer: u64 = 19 plain;
            /// From the moment at which that stream had nothing else to do to the end, units of 16 ns.
            sealed waited: i32 = 37 plain;
            /// The [stack](crate::stacks) that made the call, stored at birth; 0 not recorded.
            shape stack: u32 = 15;
            /// How far the GPU had come with it when it was asked: [`on_gpu`](crate::live::on_gpu).
            live on_gpu: u32;
            /// How long the program waited in the CUDA driver since the call before, units of 64 ticks.
            sealed driver: u32 = 39 plain;
            /// When the GPU was asked last, ticks; 0 never. Stored before `on_gpu`.
            live asked: Ticks;
        }
    };
}
pub(crate) use call_fields;

/// A moment on the recorder's clock on the host, in its ticks; 0 is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// How many ticks have passed since then; 0 if that is later.
    #[inline]
    pub fn since(self, then: Ticks) -> u64 {
        self.0.saturating_sub(then.0)
    }

    /// How many ticks this is after the other; negative if it is before.
    #[inline]
    pub fn after(self, other: Ticks) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// So many ticks later; earlier if negative.
    #[inline]
    pub fn plus(self, ticks: i64) -> Ticks {
        Ticks(self.0.wrapping_add_signed(ticks))
    }
}

/// A moment on the GPU's clock, in its nanoseconds, which begin anywhere; 0 is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuTime(pub u64);

macro_rules! moments {
    ($($type:ident $live:ident;)*) => { $(
        #[doc = concat!("A [`", stringify!($type), "`] in memory that several threads and processes use.")]
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $live(AtomicU64);

        impl $live {
            /// As of an atomic integer.
            #[inline]
            pub fn load(&self, order: Ordering) -> $type {
                $type(self.0.load(order))
            }

            /// As of an atomic integer.
            #[inline]
            pub fn store(&self, time: $type, order: Ordering) {
                self.0.store(time.0, order);
            }

            /// As of an atomic integer; a failure to exchange is relaxed.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $type,
                new: $type,
                success: Ordering,
            ) -> Result<$type, $type> {
                let found = self.0.compare_exchange(current.0, new.0, success, Relaxed);
                found.map($type).map_err($type)
            }
        }

        impl Field for $type {
            type Live = $live;
            const COLUMNS: usize = 1;
            #[inline]
            fn load(live: &$live) -> $type {
                live.load(Relaxed)
            }
            #[inline]
            fn number(&self, _: usize) -> u64 {
                self.0
            }
            #[inline]
            fn from_numbers(number: impl Fn(usize) -> u64) -> $type {
                $type(number(0))
            }
        }
    )* };
}

moments! {
    Ticks AtomicTicks;
    GpuTime AtomicGpuTime;
}

/// A type that a field may have.
pub trait Field: Copy {
    /// What a live row has in its place.
    type Live;
    /// How many columns it takes.
    const COLUMNS: usize;
    /// Its value in a live row.
    fn load(live: &Self::Live) -> Self;
    /// What stands in the `i`th of its columns, if that is plain.
    fn number(&self, i: usize) -> u64;
    /// The value from what stands in its columns.
    fn from_numbers(number: impl Fn(usize) -> u64) -> Self;
}

/// What a live row has in place of a `T`: the atomic value of the same size, or an array of them.
pub type Live<T> = <T as Field>::Live;

macro_rules! unsigned {
    ($($type:ty, $live:ty;)*) => { $(
        impl Field for $type {
            type Live = $live;
            const COLUMNS: usize = 1;
            #[inline]
            fn load(live: &$live) -> $type {
                live.load(Relaxed)
            }
            #[inline]
            fn number(&self, _: usize) -> u64 {
                (*self).into()
            }
            #[inline]
            fn from_numbers(number: impl Fn(usize) -> u64) -> $type {
                number(0) as $type
            }
        }
    )* };
}

unsigned! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// A small number of either sign; in columns by [`zigzag`].
impl Field for i32 {
    type Live = AtomicU32;
    const COLUMNS: usize = 1;
    #[inline]
    fn load(live: &AtomicU32) -> i32 {
        live.load(Relaxed) as i32
    }
    #[inline]
    fn number(&self, _: usize) -> u64 {
        zigzag((*self).into())
    }
    #[inline]
    fn from_numbers(number: impl Fn(usize) -> u64) -> i32 {
        unzigzag(number(0)) as i32
    }
}

impl<T: Field, const N: usize> Field for [T; N] {
    type Live = [T::Live; N];
    const COLUMNS: usize = N;
    #[inline]
    fn load(live: &[T::Live; N]) -> [T; N] {
        std::array::from_fn(|i| T::load(&live[i]))
    }
    #[inline]
    fn number(&self, i: usize) -> u64 {
        self[i].number(0)
    }
    #[inline]
    fn from_numbers(number: impl Fn(usize) -> u64) -> [T; N] {
        std::array::from_fn(|i| T::from_numbers(|_| number(i)))
    }
}
