//! Finished calls as columns: the payload of a Rows block.
//!
//! ```text
//! live row ──▶ Record ──▶ Encoder ──▶ payload ──▶ Shapes, Decoder ──▶ Sealed and Rest
//!          load        (encode.rs)                 (decode.rs)
//! ```
//!
//! A call is a [`Record`] (`record.rs`). What many calls share (communicator, function, size, algorithm …)
//! is its [`Shape`]. A shape is written once per dictionary, and calls name it by number. All else is
//! written as differences between neighbours, in the codings of [`crate::varint`], one column after
//! another. Which column a field has is in `columns.rs`. A recorded training job takes about 10 bytes a
//! call with host times.
//!
//! The recorder gives records to an [`Encoder`]. A reader shows [`Shapes`] the blocks in the order of the
//! file. Then it may give them to [`Decoder`]s in any order, one for each thread. Names that shapes have as
//! numbers are in blocks of their own, the [`definitions`].
//!
//! Rule: a shape is defined in the block that first uses it, or in an earlier one with the same dictionary
//! number. A new dictionary begins about every MiB, so a damaged block costs at most the rows up to there.

mod columns;
mod decode;
pub mod definitions;
mod encode;
mod record;
#[cfg(test)]
mod tests;

pub use crate::fields::{AtomicGpuTime, AtomicTicks, GpuTime, Ticks};
pub use decode::{Decoder, Outline, Shapes};
pub use encode::Encoder;
pub use record::{Record, Rest, Sealed, Shape};

/// A time, or another one if it is not known.
fn known_or(time: Ticks, other: Ticks) -> Ticks {
    if time != Ticks::default() {
        time
    } else {
        other
    }
}
