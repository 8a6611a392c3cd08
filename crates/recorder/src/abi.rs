//! The seven symbols that NCCL looks up, and the adapters behind them.
//!
//! NCCL takes the newest ABI that both sides know, so each version's entry points only ever see that
//! version's layout. Each version has a file: its adapter ([`Abi`]) reads the one union member that the type
//! selects, field by field, as an [`Event`]. Unused bytes are garbage, and a descriptor is never copied
//! whole.
//!
//! What the versions share:
//!
//! - `entry_points`: the functions that stand in the tables, for any adapter
//! - `adapter`: the macro that puts an adapter and its table together, and the two shapes of init
//! - `reading`: descriptors read as events
//! - `raw`: the bytes that an event's type defines, and its texts, for `callbacks` mode
//! - `states`: what the number of a state means
//!
//! Rule: an adapter reads only what its version and the event's type define.

use crate::events::{Event, State};
use crate::recorder::Recorder;
use std::ffi::c_char;

#[macro_use]
mod adapter;
#[macro_use]
mod raw;
#[macro_use]
mod reading;

mod entry_points;
mod states;
mod v1;
mod v2;
mod v3;
mod v4;
mod v5;
mod v6;
mod v7;

/// A table and null words behind it. A release of NCCL may add a pointer to a table under the same name, and
/// look whether it is null before it calls. Without these words, it would read whatever lies behind.
#[repr(C)]
struct Padded<T> {
    table: T,
    spare: [usize; SPARE],
}

/// Null words behind each table.
const SPARE: usize = 10;

impl<T> Padded<T> {
    const fn new(table: T) -> Padded<T> {
        Padded {
            table,
            spare: [0; SPARE],
        }
    }
}

/// One ABI version: how to read what its NCCL passes.
trait Abi {
    /// Its number.
    const VERSION: u8;
    /// Its descriptor.
    type Descr;
    /// Its recordEventState's arguments.
    type StateArgs;

    /// The type of an event, one bit of [`nccl_abi::event`].
    ///
    /// # Safety
    /// `d` points to a descriptor of this version; the same holds for the other functions.
    unsafe fn kind(d: *const Self::Descr) -> u64;
    /// The parent and the event, given its type. Inlined, so that the event is never built in memory.
    unsafe fn read(recorder: &Recorder, d: *const Self::Descr, kind: u64) -> (u64, Event);
    /// The bytes that the event's type defines; its texts go to `text`.
    unsafe fn raw(d: *const Self::Descr, text: &mut dyn FnMut(*const c_char)) -> *const [u8];
    /// A state, given the first 8 bytes of its arguments, if there are any.
    fn state(number: u32, first: Option<u64>) -> State;
}
