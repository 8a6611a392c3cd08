//! Hostile callbacks: what a good NCCL would not send, and real ones do.
//!
//! [`play`] plays one [`Fault`] on a communicator, on the calling thread. Each passes handles and contexts as bare words,
//! so nothing here can crash but the plugin.
//!
//! Rule: a fault announces no call of its own; a plugin's count of calls must be the same with and without it. So the
//! events that do announce (CollApi and P2pApi from ABI v5 on, Coll and P2p below) are left out, or come with a context
//! that the plugin never gave.

use crate::event::samples::{samples, FOREIGN};
use crate::event::{Descr, Event, Handle, Seat, StateArgs, Text};
use crate::hash::mix;
use crate::plugin::Profiler;
use nccl_abi::state;

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

/// Whether this event announces a call.
pub(crate) fn announces(abi: u8, event: &Event) -> bool {
    match event {
        Event::CollApi { .. } | Event::P2pApi { .. } => true,
        Event::Coll(_) | Event::P2p(_) => abi < 5,
        _ => false,
    }
}

/// Descriptors with null in place of every text: encoded, then the pointers overwritten.
pub(crate) fn without_texts(seat: Seat, event: &Event) -> Descr {
    // A text at an address that nothing else in a descriptor has, so that its places can be found again.
    let marker: Text = c"marker";
    let marked = samples(seat.abi, marker)
        .into_iter()
        .find(|e| e.bit() == event.bit())
        .unwrap_or(*event);
    let mut descr = Descr::default();
    descr.encode(seat, &marked, Handle::NULL, 0);
    let address = (marker.as_ptr() as usize).to_ne_bytes();
    for word in descr.0.chunks_exact_mut(8) {
        if word == address {
            word.fill(0);
        }
    }
    descr
}

/// Plays `fault` on a communicator. `seed` makes the random ones differ.
pub(crate) fn play(fault: Fault, profiler: &Profiler, seed: u64) {
    let table = &profiler.table;
    let seat = table.seat;
    let abi = seat.abi;
    let started = |event: &Event, parent: Handle| {
        let mut handle = Handle::GARBAGE;
        profiler.start(event, parent, 0, &mut handle);
        handle
    };
    let quiet = || {
        samples(abi, c"AllReduce")
            .into_iter()
            .filter(|e| !announces(abi, e))
    };
    match fault {
        Fault::StaleStop => {
            let old = started(&Event::Group, Handle::NULL);
            table.stop(old);
            for _ in 0..1000 {
                table.stop(started(&Event::Group, Handle::NULL));
            }
            table.stop(old);
        }
        Fault::DoubleStop => {
            for event in quiet() {
                let handle = started(&event, Handle::NULL);
                table.stop(handle);
                table.stop(handle);
            }
        }
        Fault::NullStop => table.stop(Handle::NULL),
        Fault::ForeignStop => {
            for handle in [FOREIGN, Handle::GARBAGE, Handle(1), Handle(usize::MAX)] {
                table.stop(handle);
            }
        }
        Fault::StaleState => {
            for event in quiet() {
                let handle = started(&event, Handle::NULL);
                table.stop(handle);
                for value in 0..32 {
                    table.state_raw(handle, value, Some(&mut StateArgs::Empty.encode()));
                }
            }
        }
        Fault::NullState => {
            let mut args = StateArgs::Empty.encode();
            table.state_raw(Handle::NULL, state::NET_PLUGIN_UPDATE, Some(&mut args));
        }
        Fault::ForeignParent => {
            for parent in [FOREIGN, Handle::GARBAGE, Handle(1), Handle(usize::MAX)] {
                for event in quiet() {
                    let handle = started(&event, parent);
                    table.stop(handle);
                }
            }
        }
        Fault::ForeignContext | Fault::NullContext => {
            let contexts = match fault {
                Fault::NullContext => vec![Handle::NULL],
                _ => vec![FOREIGN, Handle::GARBAGE, Handle(usize::MAX)],
            };
            for context in contexts {
                for event in samples(abi, c"AllReduce") {
                    let mut handle = Handle::GARBAGE;
                    table.start(context, &event, Handle::NULL, 0, &mut handle);
                    table.stop(handle);
                }
            }
        }
        Fault::UnknownType => {
            // One byte holds 0 and sums of bits only; eight hold bits that no ABI has.
            let bits = match abi {
                1..=4 => vec![0, 0x81, 0xff],
                _ => vec![0, 0x3, 1 << 16, 1 << 40, 1 << 63, u64::MAX],
            };
            for bit in bits {
                let handle = started(&Event::Unknown(bit), Handle::NULL);
                table.state(handle, state::KERNEL_CH_STOP, StateArgs::Empty);
                table.stop(handle);
            }
        }
        Fault::UnknownState => {
            for event in quiet() {
                let handle = started(&event, Handle::NULL);
                for value in [32, 33, 1000, u32::MAX] {
                    table.state_raw(handle, value, None);
                }
                table.stop(handle);
            }
        }
        Fault::NullArgs => {
            for event in quiet() {
                let handle = started(&event, Handle::NULL);
                for value in 0..32 {
                    table.state_raw(handle, value, None);
                }
                table.stop(handle);
            }
        }
        Fault::UnrequestedTypes => {
            for event in quiet() {
                let handle = started(&event, Handle::NULL);
                table.stop(handle);
            }
        }
        Fault::NullStrings => {
            for event in quiet() {
                let mut descr = without_texts(seat, &event);
                let mut handle = Handle::GARBAGE;
                table.start_raw(profiler.context, &mut handle, &mut descr);
                table.stop(handle);
            }
        }
        Fault::OddStrings => {
            for text in [c"Unknown", c"Invalid", c""] {
                for event in samples(abi, text)
                    .into_iter()
                    .filter(|e| !announces(abi, e))
                {
                    let handle = started(&event, Handle::NULL);
                    table.stop(handle);
                }
            }
        }
        Fault::ForeignPid => {
            let event = Event::ProxyOp {
                // Not this process; the kernel's first is never a rank.
                pid: 1,
                channel: 0,
                peer: 0,
                steps: 4,
                chunk: 1 << 19,
                send: true,
            };
            let mut handle = Handle::GARBAGE;
            table.start(FOREIGN, &event, FOREIGN, 0, &mut handle);
            for step in 0..4 {
                let mut child = Handle::GARBAGE;
                table.start(FOREIGN, &Event::ProxyStep { step }, handle, 0, &mut child);
                table.stop(child);
            }
            table.stop(handle);
        }
        Fault::RepeatedStep => {
            let op = started(&quiet_proxy_op(), Handle::NULL);
            for _ in 0..100 {
                started(&Event::ProxyStep { step: 0 }, op);
            }
            let last = started(&Event::ProxyStep { step: 0 }, op);
            for _ in 0..10 {
                table.state(
                    last,
                    state::PROXY_STEP_RECV_WAIT,
                    StateArgs::ProxyStep { bytes: 1 },
                );
            }
            table.stop(last);
            table.stop(op);
        }
        Fault::UnstoppedOp => {
            for _ in 0..10_000 {
                started(&quiet_proxy_op(), Handle::NULL);
            }
        }
        Fault::RandomHandles => {
            let mut random = seed;
            let mut next = || {
                random = mix(random, 1);
                random
            };
            let events: Vec<Event> = quiet().collect();
            for _ in 0..10_000 {
                let (handle, parent) = (Handle(next() as usize), Handle(next() as usize));
                let event = &events[next() as usize % events.len()];
                match next() % 3 {
                    0 => table.stop(handle),
                    1 => {
                        let mut args = StateArgs::KernelCh { stamp: next() }.encode();
                        table.state_raw(handle, next() as u32 % 40, Some(&mut args));
                    }
                    _ => {
                        started(event, parent);
                    }
                }
            }
        }
        Fault::LateChild => {
            let parent = started(&Event::Group, Handle::NULL);
            table.stop(parent);
            for event in quiet() {
                let handle = started(&event, parent);
                table.stop(handle);
            }
        }
    }
}

fn quiet_proxy_op() -> Event {
    Event::ProxyOp {
        pid: std::process::id() as i32,
        channel: 0,
        peer: 1,
        steps: 1,
        chunk: 1,
        send: false,
    }
}
