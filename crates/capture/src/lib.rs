//! The capture format: what the recorder leaves behind, and how to read it back.
//!
//! One process of a job leaves up to three things. `SPEC.md` beside this crate describes them byte by byte:
//!
//! - a *trace file* (`NAME.trace`): a header and checksummed [`block`]s, appended to and never rewritten. A
//!   long job has several, and an account of those that were removed ([`rotated`]);
//! - a *live part* ([`live`]): an image in memory with the open rows, totals and counters, which outlives the
//!   process;
//! - a *snapshot* (`NAME.snap`): the live part as of the last flush, in case only the capture folder
//!   survives.
//!
//! A call is in one of four places, and in no second one. These are a row in a block of a trace file, a row
//! in the live part, the live part's totals, and the account of removed trace files. Rows carry their ticket,
//! which is unique in the process. So a row that a crash left in two places is recognised and counts once.
//!
//! `fields.rs` lists the fields of a call. The structs of rows and their columns are made from that list.
//! [`mod@format`] has the number of the format, and [`v1`] what differs in files of format 1, which are still
//! read.
//!
//! Rule: writing needs no allocation beyond the caller's buffers, and reading never panics on any bytes.

pub mod block;
pub mod callback;
pub mod counts;
mod fields;
pub mod file_id;
pub mod format;
pub mod graphs;
pub mod launcher;
pub mod left;
pub mod limits;
pub mod live;
pub mod mark;
pub mod mpi;
pub mod net_op;
pub mod net_totals;
pub mod printable;
pub mod rotated;
pub mod rows;
pub mod samples;
mod shared;
pub mod snapshot;
pub mod stacks;
pub mod stamps;
pub mod stderr;
pub mod switches;
pub mod v1;
pub mod varint;
pub mod windows;
