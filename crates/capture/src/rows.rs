//! Finished calls as columns.
//!
//! A call is a [`Record`]; what many calls share (communicator, function, size, algorithm …) is its [`Shape`], written
//! once per dictionary and named by number. The rest is differences between neighbours, one column a field, in the
//! codings of [`crate::varint`]. A recorded training job takes about 10 bytes a call with host times.
//!
//! ```text
//! payload of a Rows block (all integers varint)
//!   dictionary number │ tick shift │ GPU unit │ first new shape │ n new shapes │ 14 shape columns of n
//!   n rows │ first ticket │ first t_api >> shift │ first group │ 31 columns of n, in the order of `encode`
//!   │ where times are of CUDA events: a column of n, their errors
//! ```
//!
//! Host times are kept in units of `1 << shift` ticks. GPU times are kept in units that divide all of the block's
//! stamps, so nothing of them is lost.
//!
//! Rule: a shape is defined in the block that first uses it or in an earlier one with the same dictionary number. A
//! dictionary is begun anew about every MiB, so a damaged block costs at most the rows up to there.

mod columns;
mod decode;
pub mod definitions;
mod encode;
mod record;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, Outline, Shapes};
pub use encode::Encoder;
pub use record::{Record, Rest, Sealed, Shape};

/// A time, or another one if it is not known.
fn known_or(time: u64, other: u64) -> u64 {
    if time != 0 {
        time
    } else {
        other
    }
}
