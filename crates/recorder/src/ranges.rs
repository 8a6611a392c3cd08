//! Calls of NCCL as ranges in another tool that watches the process: NVTX, for Nsight Systems, and regions of
//! Score-P.
//!
//! ```text
//! start of an API event ──▶ begin: text in a buffer of the stack ──▶ the tool's push
//! stop of its group     ──▶ end:   as many pops as the thread pushed for this group
//! ```
//!
//! A range goes from the call to the return of its group, so calls of one group are nested. Push and pop act
//! on the calling thread. A nonblocking communicator may end its group on another thread. So each thread
//! keeps what it pushed, and pops that before it pushes for another group.
//!
//! Nothing of this happens unless the user asks for it: callbacks then run the tool's code. What the tools
//! offer is looked for once, when the recorder is made.
//!
//! Rule: pushes and pops of a thread balance, whatever NCCL calls.

use nccl_abi::names;
use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

mod nvtx;
mod scorep;

/// Functions that calls are counted of, per communicator: NCCL's, and all others.
pub const FUNCTIONS: usize = names::FUNCS.len() + 1;

/// The tools that take ranges.
pub struct Ranges {
    nvtx: Option<nvtx::Tool>,
    scorep: Option<scorep::Tool>,
}

/// The first version of NCCL that announces when a call begins and returns.
const ANNOUNCES_CALLS: i32 = 22_800;

/// A tool that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Nvtx,
    ScoreP,
}

/// Why a tool that was asked for gets no ranges.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRanges {
    tool: Asked,
    pub why: String,
}

impl NoRanges {
    /// The line for the user.
    pub fn line(&self) -> String {
        let variable = match self.tool {
            Asked::Nvtx => "NCCLSCOPE_NVTX",
            Asked::ScoreP => "NCCLSCOPE_SCOREP",
        };
        format!("{variable}=on has no effect: {}", self.why)
    }

    /// The key of the fact that says so in the capture.
    pub fn fact(&self) -> &'static str {
        match self.tool {
            Asked::Nvtx => "nvtx_because",
            Asked::ScoreP => "scorep_because",
        }
    }
}

/// A call, as a range has it.
pub struct Call {
    /// The function, as an index of [`names::FUNCS`]; beyond them if it is none of these.
    pub function: usize,
    /// As the program gave it to NCCL: elements times their size.
    pub bytes: u64,
    /// NCCL's hash of the communicator.
    pub communicator: u64,
    /// Calls of this function that the communicator had before.
    pub number: u32,
}

/// The group for which a thread has open ranges, by its word.
#[derive(Clone, Copy)]
struct Open {
    group: u64,
    ranges: u32,
    /// The functions of the first of them. Score-P wants to know what ends, and gets no more than these.
    functions: [u8; 52],
}

const NONE: Open = Open {
    group: 0,
    ranges: 0,
    functions: [0; 52],
};

thread_local! {
    static OPEN: Cell<Open> = const { Cell::new(NONE) };
}

impl Ranges {
    /// The tools that were asked for and are there, and why others get no ranges. `nccl` is NCCL's version.
    pub fn find(nvtx: bool, scorep: bool, nccl: Option<i32>) -> (Option<Ranges>, Vec<NoRanges>) {
        let mut none = Vec::new();
        let mut found = |asked: &mut bool, tool: Asked, why: String| {
            *asked = false;
            none.push(NoRanges { tool, why });
        };
        let (mut wants_nvtx, mut wants_scorep) = (nvtx, scorep);
        // Before, NCCL tells of a call when it is enqueued, and not when it begins and returns.
        if let Some(old) = nccl.filter(|version| *version < ANNOUNCES_CALLS) {
            let why = format!(
                "NCCL {}.{} does not say when a call begins and returns; 2.28 and newer do",
                old / 10_000,
                old / 100 % 100
            );
            for (asked, tool) in [
                (&mut wants_nvtx, Asked::Nvtx),
                (&mut wants_scorep, Asked::ScoreP),
            ] {
                if *asked {
                    found(asked, tool, why.clone());
                }
            }
        }
        let nvtx = wants_nvtx.then(nvtx::Tool::find).transpose();
        let nvtx = nvtx.unwrap_or_else(|why| {
            found(&mut wants_nvtx, Asked::Nvtx, why);
            None
        });
        let scorep = wants_scorep.then(scorep::Tool::find).flatten();
        if wants_scorep && scorep.is_none() {
            let why = "Score-P's user instrumentation is not in this process";
            found(&mut wants_scorep, Asked::ScoreP, why.to_owned());
        }
        let any = nvtx.is_some() || scorep.is_some();
        (any.then_some(Ranges { nvtx, scorep }), none)
    }

    /// A call began in the group with this word.
    #[cold]
    #[inline(never)]
    pub fn begin(&self, group: u64, call: &Call) {
        let Ok(mut open) = OPEN.try_with(Cell::get) else {
            return;
        };
        if open.group != group {
            self.pop(&open);
            open = Open { group, ..NONE };
        }
        if let Some(nvtx) = &self.nvtx {
            nvtx.push(call);
        }
        if let Some(place) = open.functions.get_mut(open.ranges as usize) {
            *place = call.function.min(FUNCTIONS - 1) as u8;
            if let Some(scorep) = &self.scorep {
                scorep.begin(*place);
            }
        }
        open.ranges = open.ranges.saturating_add(1);
        let _ = OPEN.try_with(|place| place.set(open));
    }

    /// The group with this word has returned.
    #[cold]
    #[inline(never)]
    pub fn end(&self, group: u64) {
        let open = OPEN.try_with(|open| (open.get().group == group).then(|| open.replace(NONE)));
        if let Ok(Some(open)) = open {
            self.pop(&open);
        }
    }

    fn pop(&self, open: &Open) {
        for at in (0..open.ranges as usize).rev() {
            if let (Some(scorep), Some(function)) = (&self.scorep, open.functions.get(at)) {
                scorep.end(*function);
            }
            if let Some(nvtx) = &self.nvtx {
                nvtx.pop();
            }
        }
    }
}

/// How many calls of a function the communicator had before.
pub fn number(counts: &[AtomicU32; FUNCTIONS], function: usize) -> u32 {
    counts[function.min(FUNCTIONS - 1)].fetch_add(1, Relaxed)
}

/// A text that ends in 0, in a buffer of its own. What does not fit is left out.
struct Line {
    bytes: [u8; 128],
    len: usize,
}

impl Line {
    fn of(call: &Call) -> Line {
        let mut line = Line {
            bytes: [0; 128],
            len: 0,
        };
        let Call {
            function,
            bytes,
            communicator,
            number,
        } = call;
        let function = names::FUNCS.get(*function).unwrap_or(&"Call");
        // Of integers and short texts: it fits, and allocates nothing.
        let _ = write!(
            line,
            "{function} {bytes} B, communicator {communicator:016x}, call {number}"
        );
        line
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        // The last byte stays 0.
        let room = self.bytes.len() - 1 - self.len;
        let text = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn what_nccl_does_not_announce_is_no_range_and_is_said() {
        let find = |nccl| {
            let (ranges, none) = Ranges::find(true, true, nccl);
            assert!(ranges.is_none());
            none.iter().map(NoRanges::line).collect::<Vec<String>>()
        };
        let why = "NCCL 2.27 does not say when a call begins and returns; 2.28 and newer do";
        let expected =
            ["NVTX", "SCOREP"].map(|of| format!("NCCLSCOPE_{of}=on has no effect: {why}"));
        assert_eq!(find(Some(22_707)), expected);
        // In this process is no tool.
        for nccl in [None, Some(22_800)] {
            assert_eq!(find(nccl).len(), 2);
            assert!(find(nccl).iter().all(|line| !line.contains("does not say")));
        }
        assert!(Ranges::find(false, false, Some(22_707)).1.is_empty());
    }

    #[test]
    fn a_line_has_all_that_tells_a_call() {
        let call = Call {
            function: 4,
            bytes: 4096,
            communicator: 0xab,
            number: 12,
        };
        let line = Line::of(&call);
        let text = CStr::from_bytes_until_nul(&line.bytes).expect("an end");
        let expected = c"AllReduce 4096 B, communicator 00000000000000ab, call 12";
        assert_eq!(text, expected);
        let longest = Call {
            function: FUNCTIONS,
            bytes: u64::MAX,
            communicator: u64::MAX,
            number: u32::MAX,
        };
        let mut line = Line::of(&longest);
        assert!(line.len < 100);
        let _ = line.write_str(&"x".repeat(100));
        assert!(CStr::from_bytes_until_nul(&line.bytes).is_ok());
    }
}
