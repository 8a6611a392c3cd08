//! The live part: one process's open rows, totals, counters and unwritten blocks, in memory that outlives the process.
//!
//! ```text
//! Header 4096 B │ Strings │ Comms │ Groups │ Totals │ Histogram pages │ Rows │ Network operations │ Staging
//! ```
//!
//! Every field is an atomic that one thread at a time stores to, so a reader (the recorder's own thread, another
//! process, or a report after the writer's death) sees whole values. What orders them is said at each field; the
//! life of a row is at [`Row::word`].
//!
//! The logical trace file is the bytes of the newest file up to [`Header::staged_base`], then the first
//! [`Header::staged_len`] bytes of the staging area, so a write that was cut short is made good from the live part.

mod causes;
mod layout;
mod row;
mod totals;
mod view;

pub use causes::{Cause, Odd, CAUSES, ODDS};
pub use layout::{
    facts, Anchor, Comm, Group, Header, Layout, Section, Text, COMMS, GROUPS, HEADER_BYTES, MAGIC,
};
pub use row::{flag, part, row_state, verdict, Row, WAITS};
pub use totals::{bucket, bucket_middle, Page, Total, Undo};
pub use view::{Image, View};
