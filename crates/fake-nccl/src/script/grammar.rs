//! The words that begin a statement, and the function that reads each statement.
//!
//! [`STATEMENTS`] is the table of all of them. The functions are in files by subject. Each reads up to the
//! end of its statement and returns what happens in the job. `script.rs` says how to add one.

mod calls;
mod communicators;
mod faults;
mod graphs;
mod hosts;
mod ranks;
mod settings;
mod streams;

use super::call::Op;
use super::parser::{Parser, Said};
use super::tokens::Token;

/// A word that begins a statement.
struct Word {
    word: &'static str,
    /// It sets something of the whole job, so it stands before the first communicator or call.
    setting: bool,
    /// Reads the rest of the statement.
    read: fn(&mut Parser) -> Said,
}

const fn setting(word: &'static str, read: fn(&mut Parser) -> Said) -> Word {
    Word {
        word,
        setting: true,
        read,
    }
}

const fn does(word: &'static str, read: fn(&mut Parser) -> Said) -> Word {
    Word {
        word,
        setting: false,
        read,
    }
}

/// Every statement but the calls. The words of calls are in [`Op`].
const STATEMENTS: [Word; 32] = [
    setting("nccl", settings::nccl),
    setting("ranks", settings::ranks),
    setting("hosts", settings::hosts),
    setting("per_process", settings::per_process),
    setting("one_thread", settings::one_thread),
    setting("net_plugin", settings::net_plugin),
    setting("cuda", settings::cuda),
    setting("virtual_time", settings::virtual_time),
    setting("gpu_offset", settings::gpu_offset),
    setting("host_clock", settings::host_clock),
    setting("lead", settings::lead),
    setting("linger", settings::linger),
    setting("host_cost", settings::host_cost),
    setting("load_kernels", settings::load_kernels),
    setting("choice", settings::choice),
    setting("noise", settings::noise),
    does("comm", communicators::comm),
    does("repeat", hosts::repeat),
    does("group", calls::group),
    does("rank", ranks::rank),
    does("graph", graphs::graph),
    does("replay", graphs::replay),
    does("sleep", hosts::sleep),
    does("rate", hosts::rate),
    does("sync", hosts::sync),
    does("compute", streams::compute),
    does("join", streams::join),
    does("destroy", communicators::destroy),
    does("reinit", communicators::reinit),
    does("no_destroy", communicators::no_destroy),
    does("fault", faults::fault),
    does("mask", faults::mask),
];

/// The words of all statements but the calls.
pub fn statements() -> Vec<&'static str> {
    STATEMENTS.iter().map(|s| s.word).collect()
}

/// The words of all calls.
pub fn calls() -> Vec<&'static str> {
    Op::ALL.iter().map(|(_, word, _)| *word).collect()
}

/// Reads the statement that begins with `word`. `first` says that no statement came before it.
pub(super) fn statement(parser: &mut Parser, word: &Token, first: bool) -> Said {
    if let Some((op, ..)) = Op::ALL.iter().find(|(_, w, _)| *w == word.text) {
        return calls::call(parser, *op);
    }
    let Some(known) = STATEMENTS.iter().find(|s| s.word == word.text) else {
        let (statements, calls) = (statements().join(", "), calls().join(", "));
        let expected = format!("a statement ({statements}) or a call ({calls})");
        return parser.fail(word.line, expected, &word.text);
    };
    if known.setting && !(first && parser.script.comms.is_empty()) {
        let expected = "job settings before the first communicator or call";
        return parser.fail(word.line, expected, &word.text);
    }
    (known.read)(parser)
}
