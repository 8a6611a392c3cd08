//! The answer to `ncclscope hang`: the verdict first, then what it rests on.
//!
//! `words` turns the facts of [`analyze::hang`] into sentences, with a file for each kind of verdict; `names`
//! and `phrases` are shared by all. [`Answer`] has the sentences and the rows in the format of
//! `schema/hang-1.json`, and `text` prints it with tables.
//!
//! Rule: nothing is decided here. Every sentence and every row follows from the facts.

mod answer;
mod cycle;
mod doing;
mod graphs;
mod inside;
mod mismatch;
mod names;
mod network;
mod phrases;
mod quiet;
mod sink;
mod stall;
mod text;
mod traffic;
pub mod watch;
mod words;

use crate::layout::Look;
use analyze::hang::Hang;
use std::io::{Result, Write};

pub(crate) use phrases::UNSEEN_END;
pub(crate) use words::words;

pub use answer::{Answer, Blamed, Call, Communicator, Evidence, NetOp, Rank, Wait};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/hang-1.json");

/// Writes `hang` as JSON, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn json(hang: &Hang, out: &mut impl Write) -> Result<()> {
    crate::json::pretty(&Answer::new(hang), out)
}

/// Writes `hang` as a page of text; `all` leaves no rank out.
///
/// # Errors
/// Those of `out`.
pub fn text(hang: &Hang, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    text::page(&Answer::new(hang), all, look).finish(out)
}
