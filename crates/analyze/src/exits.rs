//! Which processes ended by a signal, with an error or without ending their recording, in which order, and
//! after which call.
//!
//! [`rows`] has them as `ncclscope run` saw them, the first first.
//!
//! Rule: order proves something only if the ends are farther apart than they are known to
//! ([`ExitRow::is_near`]).

use crate::moments::Zone;
use crate::subject::ProcessId;
use crate::time::{HostTime, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use tables::calls::Shape;
use tables::exit::{Exit, HowEnded};
use tables::names::Name;
use tables::Capture;

/// `ncclscope run` is woken at each end. On a busy machine it may look this much later.
const APART: Nanos = Nanos::from_ms(10.0);
/// The same between hosts, whose clocks may differ.
const APART_OVER_HOSTS: Nanos = Nanos::from_seconds(2.0);

/// A process that ended by a signal, with an error or without ending its recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Exit")]
pub struct ExitRow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// When it ended, ns since 1970.
    pub at_ns: i64,
    /// Its exit status; null if a signal ended it, or if nobody was quick enough to ask.
    pub exit_status: Option<u8>,
    /// The signal that ended it; null if none did, or if nobody was quick enough to ask.
    pub signal: Option<u8>,
    /// SIGKILL ended it while the kernel ended processes of its machine for lack of memory.
    pub out_of_memory: bool,
    /// Function of the last call that it made; null if that is not known.
    pub last_function: Option<String>,
    /// Bytes of that call.
    pub last_bytes: Option<u64>,
    /// The line of the program that made it; null without recorded stacks.
    pub last_caller: Option<String>,
    /// How it ended.
    #[serde(skip)]
    pub exit: Exit,
    /// When, as people read it.
    #[serde(skip)]
    pub at: String,
    /// Of the first: nobody is known to have ended, or may have ended, before it.
    #[serde(skip)]
    pub is_first: bool,
    /// Whose clock that is.
    #[serde(skip)]
    clock_host: String,
}

/// The last call of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastCall {
    /// Function.
    pub function: Option<String>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// The line of the program.
    pub caller: Option<String>,
}

impl LastCall {
    /// A call of this shape, and of this function.
    pub fn of(capture: &Capture, shape: &Shape, function: Name) -> LastCall {
        let name = |name| capture.names.get(name).map(str::to_owned);
        LastCall {
            function: name(function),
            bytes: capture.bytes_as(shape, function),
            caller: name(shape.caller),
        }
    }
}

impl ExitRow {
    /// Whether the order of this end and a later one is not known.
    pub fn is_near(&self, later: &ExitRow) -> bool {
        let apart = if self.clock_host == later.clock_host {
            APART
        } else {
            APART_OVER_HOSTS
        };
        HostTime(later.at_ns) - HostTime(self.at_ns) < apart
    }
}

/// Those of `capture`; `last` has the last call of a process by its index.
pub fn rows(capture: &Capture, last: impl Fn(usize) -> Option<LastCall>) -> Vec<ExitRow> {
    let zone = Zone::of(capture);
    let row = |(index, process): (usize, &tables::Process)| {
        // A process that ends well ends its recording before.
        let failed = |exit: &Exit| exit.how.is_none_or(HowEnded::is_error) || !process.ended;
        let exit = process.exit.filter(failed)?;
        let last = last(index).unwrap_or_default();
        Some(ExitRow {
            process: ProcessId::of(process),
            at_ns: exit.at_ns,
            exit_status: exit.how.and_then(HowEnded::exit_status),
            signal: exit.how.and_then(HowEnded::signal),
            out_of_memory: exit.out_of_memory,
            last_function: last.function,
            last_bytes: last.bytes,
            last_caller: last.caller,
            exit,
            is_first: false,
            at: zone.spelled(exit.at_ns, 3),
            clock_host: process.clock_host().to_owned(),
        })
    };
    let mut rows: Vec<ExitRow> = capture
        .processes
        .iter()
        .enumerate()
        .filter_map(row)
        .collect();
    rows.sort_by_key(|row| (row.at_ns, row.process.rank, row.process.pid));
    if let Some(first) = rows.first_mut() {
        // Of a process whose end nobody saw, only what it wrote last is known.
        let unseen = capture.processes.iter().filter(|of| of.exit.is_none());
        let may_be_before = |of: &tables::Process| {
            let newest = of.clock.newest().map(HostTime);
            newest.is_none_or(|newest| newest < HostTime(first.at_ns) - APART)
        };
        let mut over = unseen.filter(|of| !of.life.is_there());
        first.is_first = !over.any(may_be_before);
    }
    rows
}
