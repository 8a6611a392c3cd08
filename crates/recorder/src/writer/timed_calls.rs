//! Writes the first calls of the driver that may take long, one by one ([`crate::timed_calls`]).
//!
//! A line has calls of one kind by one thread, each with its distance from the line's first, how long it
//! took, and its bytes:
//!
//! ```text
//! ncclscope timed_calls of=nccl.gpu_allocations thread=4711 at_ns=1795413000000000000 calls=0:12000:2097152
//! ```
//!
//! Rule: a call is written once, and calls of one kind and thread are in their order.

use super::Writer;
use crate::timed_calls::{noted, take, Noted};
use capture::block::BlockKind;
use capture::counts::{NAMES, OF_NCCL};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Calls of a block at most, so that it fits in the staging area.
const OF_BLOCK: usize = 512;

/// How far both logs are written, by whether NCCL called.
#[derive(Default)]
pub(super) struct Written([usize; 2]);

impl Written {
    /// A forked child leaves out what its parent did.
    pub(super) fn new() -> Written {
        Written([noted(false), noted(true)])
    }
}

impl Writer {
    /// Stages the calls that are new.
    pub(super) fn write_timed_calls(&mut self) {
        let rate = self.ns_per_tick;
        let ns = |ticks: u64| (ticks as f64 * rate) as u64;
        for nccl in [false, true] {
            loop {
                let mut new = take(nccl, self.timed_calls.0[usize::from(nccl)]);
                new.truncate(OF_BLOCK);
                if new.is_empty() {
                    break;
                }
                let now = self.recorder.clock.anchor();
                let since_1970 = |call: &Noted| {
                    let ago = ns(now.ticks.0.saturating_sub(call.at.0));
                    now.realtime.saturating_sub(ago)
                };
                let text = lines(&new, nccl, &since_1970, &ns);
                if !self.block(BlockKind::Setup, |out| out.extend(text.as_bytes())) {
                    break;
                }
                self.timed_calls.0[usize::from(nccl)] += new.len();
            }
        }
    }
}

fn lines(
    calls: &[Noted],
    nccl: bool,
    since_1970: &dyn Fn(&Noted) -> u64,
    ns: &dyn Fn(u64) -> u64,
) -> String {
    let mut kinds: BTreeMap<(usize, u32), Vec<&Noted>> = BTreeMap::new();
    for call in calls {
        kinds
            .entry((call.count, call.thread))
            .or_default()
            .push(call);
    }
    let prefix = if nccl { OF_NCCL } else { "" };
    let mut text = String::new();
    for ((count, thread), calls) in kinds {
        let (name, first) = (NAMES[count], since_1970(calls[0]));
        let _ = write!(
            text,
            "ncclscope timed_calls of={prefix}{name} thread={thread} at_ns={first} calls="
        );
        for (number, call) in calls.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let at = since_1970(call).saturating_sub(first);
            let _ = write!(text, "{comma}{at}:{}:{}", ns(call.took), call.bytes);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::rows::Ticks;

    #[test]
    fn a_line_has_calls_of_one_kind_and_thread() {
        let call = |count: usize, thread: u32, at: u64| Noted {
            count,
            thread,
            at: Ticks(at),
            took: 10,
            bytes: at,
        };
        let calls = [
            call(3, 7, 100),
            call(7, 7, 101),
            call(3, 7, 102),
            call(3, 8, 103),
        ];
        let text = lines(&calls, true, &|call| 1000 + call.at.0, &|ticks| 2 * ticks);
        let expected = "ncclscope timed_calls of=nccl.gpu_allocations thread=7 at_ns=1100 \
                        calls=0:20:100,2:20:102\n\
                        ncclscope timed_calls of=nccl.gpu_allocations thread=8 at_ns=1103 calls=0:20:103\n\
                        ncclscope timed_calls of=nccl.ipc_opens thread=7 at_ns=1101 calls=0:20:101\n";
        assert_eq!(text, expected);
    }
}
