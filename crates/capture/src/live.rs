//! The live part of a process: its open rows, totals, counters and unwritten blocks, in memory that
//! outlives it.
//!
//! ```text
//! Header 4096 B │ Strings │ Comms │ Groups │ Totals │ Histogram pages │ Rows │ Network operations │ Staging
//! ```
//!
//! `layout.rs` has the [`Header`] and the sections, `row.rs` one call, `totals.rs` the calls without a row,
//! `causes.rs` why calls and callbacks were lost. A [`View`] of `view.rs` finds all of them in bytes.
//!
//! Every field is an atomic that one thread at a time stores to. So a reader sees whole values, whether it
//! is the recorder's own thread, another process, or a report after the writer's death. Each field says
//! what orders it; the life of a row is at [`Row::word`].
//!
//! The logical trace file is the bytes of the newest file up to [`Header::staged_base`], then the first
//! [`Header::staged_len`] bytes of the staging area. So the live part completes a write that was cut short.

mod causes;
mod layout;
mod row;
mod totals;
mod view;

pub use causes::{Cause, Odd, CAUSES, ODDS};
pub use layout::{
    dense, relocate, start, Comm, Group, Header, Layout, LiveAnchor, Section, Start, Text, GROUPS,
    HEADER_BYTES, MAGIC, MOST_COMMS, MOST_GRAPHS,
};
pub(crate) use layout::{stored_in, ELEMENT, SECTIONS};
pub use row::{flag, on_gpu, part, row_state, verdict, waiter, Row, WAITS};
pub use totals::{bucket, bucket_middle, HistogramPage, Total, Undo};
pub use view::{Image, View};
