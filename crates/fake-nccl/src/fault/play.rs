//! Plays a fault. Each has a function of its own, in the order of [`super::FAULTS`].

use super::Fault;
use crate::event::samples::{samples, FOREIGN};
use crate::event::{Descr, Event, Handle, Seat, StateArgs, Text};
use crate::hash::mix;
use crate::plugin::PluginContext;
use nccl_abi::state;

/// Plays `fault` on a communicator. `seed` makes the random ones differ.
pub(crate) fn play(fault: Fault, profiler: &PluginContext, seed: u64) {
    let hostile = Hostile { profiler, seed };
    match fault {
        Fault::StaleStop => hostile.stale_stop(),
        Fault::DoubleStop => hostile.double_stop(),
        Fault::NullStop => hostile.null_stop(),
        Fault::ForeignStop => hostile.foreign_stop(),
        Fault::StaleState => hostile.stale_state(),
        Fault::NullState => hostile.null_state(),
        Fault::ForeignParent => hostile.foreign_parent(),
        Fault::ForeignContext => {
            hostile.context(&[FOREIGN, Handle::GARBAGE, Handle(usize::MAX)]);
        }
        Fault::NullContext => hostile.context(&[Handle::NULL]),
        Fault::UnknownType => hostile.unknown_type(),
        Fault::UnknownState => hostile.unknown_state(),
        Fault::NullArgs => hostile.null_args(),
        Fault::UnrequestedTypes => hostile.unrequested_types(),
        Fault::NullStrings => hostile.null_strings(),
        Fault::OddStrings => hostile.odd_strings(),
        Fault::ForeignPid => hostile.foreign_pid(),
        Fault::RepeatedStep => hostile.repeated_step(),
        Fault::UnstoppedOp => hostile.unstopped_op(),
        Fault::RandomHandles => hostile.random_handles(),
        Fault::LateChild => hostile.late_child(),
    }
}

/// A communicator under hostile callbacks.
struct Hostile<'p> {
    profiler: &'p PluginContext,
    seed: u64,
}

impl Hostile<'_> {
    fn start(&self, event: &Event, parent: Handle) -> Handle {
        let mut handle = Handle::GARBAGE;
        self.profiler.start(event, parent, 0, &mut handle);
        handle
    }

    /// One event of each type that announces no call.
    fn quiet(&self) -> impl Iterator<Item = Event> {
        let abi = self.profiler.table.seat.abi;
        let all = samples(abi, c"AllReduce").into_iter();
        all.filter(move |e| !announces(abi, e))
    }

    fn stale_stop(&self) {
        let table = &self.profiler.table;
        let old = self.start(&Event::Group, Handle::NULL);
        table.stop(old);
        for _ in 0..1000 {
            table.stop(self.start(&Event::Group, Handle::NULL));
        }
        table.stop(old);
    }

    fn double_stop(&self) {
        let table = &self.profiler.table;
        for event in self.quiet() {
            let handle = self.start(&event, Handle::NULL);
            table.stop(handle);
            table.stop(handle);
        }
    }

    fn null_stop(&self) {
        let table = &self.profiler.table;
        table.stop(Handle::NULL);
    }

    fn foreign_stop(&self) {
        let table = &self.profiler.table;
        for handle in [FOREIGN, Handle::GARBAGE, Handle(1), Handle(usize::MAX)] {
            table.stop(handle);
        }
    }

    fn stale_state(&self) {
        let table = &self.profiler.table;
        for event in self.quiet() {
            let handle = self.start(&event, Handle::NULL);
            table.stop(handle);
            for value in 0..32 {
                table.state_raw(handle, value, Some(&mut StateArgs::Empty.encode()));
            }
        }
    }

    fn null_state(&self) {
        let table = &self.profiler.table;
        let mut args = StateArgs::Empty.encode();
        table.state_raw(Handle::NULL, state::NET_PLUGIN_UPDATE, Some(&mut args));
    }

    fn foreign_parent(&self) {
        let table = &self.profiler.table;
        for parent in [FOREIGN, Handle::GARBAGE, Handle(1), Handle(usize::MAX)] {
            for event in self.quiet() {
                let handle = self.start(&event, parent);
                table.stop(handle);
            }
        }
    }

    fn context(&self, contexts: &[Handle]) {
        let table = &self.profiler.table;
        for context in contexts {
            for event in samples(table.seat.abi, c"AllReduce") {
                let mut handle = Handle::GARBAGE;
                table.start(*context, &event, Handle::NULL, 0, &mut handle);
                table.stop(handle);
            }
        }
    }

    fn unknown_type(&self) {
        let table = &self.profiler.table;
        // One byte holds 0 and sums of bits only; eight hold bits that no ABI has.
        let bits = match table.seat.abi {
            1..=4 => vec![0, 0x81, 0xff],
            _ => vec![0, 0x3, 1 << 16, 1 << 40, 1 << 63, u64::MAX],
        };
        for bit in bits {
            let handle = self.start(&Event::Unknown(bit), Handle::NULL);
            table.state(handle, state::KERNEL_CH_STOP, StateArgs::Empty);
            table.stop(handle);
        }
    }

    fn unknown_state(&self) {
        let table = &self.profiler.table;
        for event in self.quiet() {
            let handle = self.start(&event, Handle::NULL);
            for value in [32, 33, 1000, u32::MAX] {
                table.state_raw(handle, value, None);
            }
            table.stop(handle);
        }
    }

    fn null_args(&self) {
        let table = &self.profiler.table;
        for event in self.quiet() {
            let handle = self.start(&event, Handle::NULL);
            for value in 0..32 {
                table.state_raw(handle, value, None);
            }
            table.stop(handle);
        }
    }

    fn unrequested_types(&self) {
        let table = &self.profiler.table;
        for event in self.quiet() {
            let handle = self.start(&event, Handle::NULL);
            table.stop(handle);
        }
    }

    fn null_strings(&self) {
        let table = &self.profiler.table;
        for event in self.quiet() {
            let mut descr = without_texts(table.seat, &event);
            let mut handle = Handle::GARBAGE;
            table.start_raw(self.profiler.context, &mut handle, &mut descr);
            table.stop(handle);
        }
    }

    fn odd_strings(&self) {
        let table = &self.profiler.table;
        for text in [c"Unknown", c"Invalid", c""] {
            for event in samples(table.seat.abi, text)
                .into_iter()
                .filter(|e| !announces(table.seat.abi, e))
            {
                let handle = self.start(&event, Handle::NULL);
                table.stop(handle);
            }
        }
    }

    fn foreign_pid(&self) {
        let table = &self.profiler.table;
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

    fn repeated_step(&self) {
        let table = &self.profiler.table;
        let op = self.start(&quiet_proxy_op(), Handle::NULL);
        for _ in 0..100 {
            self.start(&Event::ProxyStep { step: 0 }, op);
        }
        let last = self.start(&Event::ProxyStep { step: 0 }, op);
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

    fn unstopped_op(&self) {
        for _ in 0..10_000 {
            self.start(&quiet_proxy_op(), Handle::NULL);
        }
    }

    fn random_handles(&self) {
        let table = &self.profiler.table;
        let mut random = self.seed;
        let mut next = || {
            random = mix(random, 1);
            random
        };
        let events: Vec<Event> = self.quiet().collect();
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
                    self.start(event, parent);
                }
            }
        }
    }

    fn late_child(&self) {
        let table = &self.profiler.table;
        let parent = self.start(&Event::Group, Handle::NULL);
        table.stop(parent);
        for event in self.quiet() {
            let handle = self.start(&event, parent);
            table.stop(handle);
        }
    }
}

/// Whether this event announces a call.
fn announces(abi: u8, event: &Event) -> bool {
    match event {
        Event::CollApi { .. } | Event::P2pApi { .. } => true,
        Event::Coll(_) | Event::P2p(_) => abi < 5,
        _ => false,
    }
}

/// A descriptor with null in place of every text.
fn without_texts(seat: Seat, event: &Event) -> Descr {
    // Encoded with a text at an address that nothing else in a descriptor has. So the pointers can be found
    // and overwritten.
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
