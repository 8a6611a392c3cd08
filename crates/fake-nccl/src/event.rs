//! Events as NCCL's core has them, and their bytes in each ABI version.
//!
//! An [`Event`] holds every field that any version carries. [`Descr::encode`] lays it out for one version: as
//! the core does if that version is the release's own, and as its compatibility shim does if not ([`Seat`]).
//! `offsets` has where fields lie, and `samples` has one event of each type.
//!
//! Rule: every byte that the event and the version do not define is [`POISON`]. A plugin that reads a wrong
//! member, a wrong width or a padding byte sees it.

mod descr;
pub(crate) mod offsets;
pub(crate) mod samples;
mod seat;
mod state_args;
mod types;

pub use descr::{Descr, DESCR_BYTES, POISON};
pub use seat::Seat;
pub use state_args::StateArgs;
pub use types::{text, CeColl, Coll, Event, Handle, P2p, Text};
