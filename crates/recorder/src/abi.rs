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
