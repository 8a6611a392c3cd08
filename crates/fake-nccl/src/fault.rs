//! Hostile callbacks: what a good NCCL would not send, and real ones do.
//!
//! [`play`] plays one [`Fault`] on a communicator, on the calling thread. Handles and contexts are bare
//! words, so nothing here can crash but the plugin.
//!
//! Rule: a fault announces no call of its own, so a plugin's count of calls must be the same with and without
//! it. Events that announce (CollApi and P2pApi from ABI v5 on, Coll and P2p below) are left out, or have a
//! context that the plugin never gave.

mod play;

pub(crate) use play::play;

/// Callbacks that a good NCCL would not make, and real ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // One line each in FAULTS, from which the words and docs are printed.
pub enum Fault {
    StaleStop,
    DoubleStop,
    NullStop,
    ForeignStop,
    StaleState,
    NullState,
    ForeignParent,
    ForeignContext,
    NullContext,
    UnknownType,
    UnknownState,
    NullArgs,
    UnrequestedTypes,
    NullStrings,
    OddStrings,
    ForeignPid,
    RepeatedStep,
    UnstoppedOp,
    RandomHandles,
    LateChild,
}

/// Every fault: its word and what it does.
pub const FAULTS: [(Fault, &str, &str); 20] = [
    (
        Fault::StaleStop,
        "stale_stop",
        "stops a handle whose event ended long ago, after its slot may have been reused",
    ),
    (
        Fault::DoubleStop,
        "double_stop",
        "stops an event twice in a row",
    ),
    (Fault::NullStop, "null_stop", "stops a null handle"),
    (
        Fault::ForeignStop,
        "foreign_stop",
        "stops a handle that the plugin never gave",
    ),
    (
        Fault::StaleState,
        "stale_state",
        "records a state of an event that was stopped",
    ),
    (
        Fault::NullState,
        "null_state",
        "records NetPlugin's state 21 on a null handle",
    ),
    (
        Fault::ForeignParent,
        "foreign_parent",
        "starts events whose parent the plugin never gave",
    ),
    (
        Fault::ForeignContext,
        "foreign_context",
        "starts an event with a context the plugin never gave",
    ),
    (
        Fault::NullContext,
        "null_context",
        "starts an event with a null context",
    ),
    (
        Fault::UnknownType,
        "unknown_type",
        "starts events of type bits that no ABI has (0 and 0x80 up on one byte, bit 40 on eight)",
    ),
    (
        Fault::UnknownState,
        "unknown_state",
        "records state numbers that no ABI has",
    ),
    (
        Fault::NullArgs,
        "null_args",
        "records every state with null arguments",
    ),
    (
        Fault::UnrequestedTypes,
        "unrequested",
        "starts, moves and stops an event of every type, asked for or not",
    ),
    (
        Fault::NullStrings,
        "null_strings",
        "passes null for every text",
    ),
    (
        Fault::OddStrings,
        "odd_strings",
        "passes `Unknown`, `Invalid` and empty texts",
    ),
    (
        Fault::ForeignPid,
        "foreign_pid",
        "starts a ProxyOp of another process, with that process's context and parent",
    ),
    (
        Fault::RepeatedStep,
        "repeated_step",
        "starts a receive step again and again before one stop",
    ),
    (
        Fault::UnstoppedOp,
        "unstopped_op",
        "starts ProxyOps that never stop",
    ),
    (
        Fault::RandomHandles,
        "random_handles",
        "10 000 calls with random words as handles and parents",
    ),
    (
        Fault::LateChild,
        "late_child",
        "starts children of a call that is over, of every child type",
    ),
];
