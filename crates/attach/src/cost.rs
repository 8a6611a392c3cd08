//! What a probed call costs here: measured on a function of this process, before any other is probed.
//!
//! The cost of a probe depends on the kernel, the processor and the virtual machine, by a factor of ten. So
//! it is measured rather than stated: the same programs, the same ring, entry and return.
//!
//! Rule: the function begins with the instruction that NCCL's begin with. On x86-64 the kernel emulates it.

use crate::event::BpfEvent;
use crate::functions::{cookie, Common};
use crate::probes::Probes;
use crate::sys::ProbePoint;
use std::collections::HashSet;
use std::io;
use std::time::Instant;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".p2align 4",
    ".globl ncclscope_attach_probed",
    "ncclscope_attach_probed:",
    "push rbp",
    "mov rbp, rsp",
    "pop rbp",
    "xor eax, eax",
    "ret",
);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
extern "C" {
    fn ncclscope_attach_probed() -> u64;
}

// As NCCL's functions begin there. The kernel single-steps it, as nearly every instruction.
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".p2align 4",
    ".globl ncclscope_attach_probed",
    "ncclscope_attach_probed:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "ldp x29, x30, [sp], #16",
    "mov x0, #0",
    "ret",
);

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe extern "C" fn ncclscope_attach_probed() -> u64 {
    0
}

/// Calls in a round, and rounds.
const CALLS: u32 = 2000;
const ROUNDS: usize = 7;
/// No function has this number, so that its events are nothing to anybody.
const NO_FUNCTION: usize = 0xffff;

/// The median of some rounds, ns a call.
fn round() -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                // SAFETY: it takes nothing and returns 0.
                std::hint::black_box(unsafe { ncclscope_attach_probed() });
            }
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Where the function is: offset in the file, and a path to the file.
fn place() -> Option<(String, u64)> {
    let address = ncclscope_attach_probed as *const () as usize as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (range, _, offset) = (words.next()?, words.next()?, words.next()?);
        let (start, end) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (hex(start)?, hex(end)?, hex(offset)?);
        let path = words.nth(2)?;
        let is_here = (start..end).contains(&address) && path.starts_with('/');
        is_here.then(|| (path.to_owned(), address - start + offset))
    })
}

/// What entry and return of one call cost, ns; `None` if it could not be measured.
///
/// # Errors
/// If no probe can be set.
pub fn measure(probes: &mut Probes) -> io::Result<Option<f64>> {
    let Some((path, offset)) = place() else {
        return Ok(None);
    };
    let without = round();
    let me = std::process::id();
    let place = ProbePoint {
        offset,
        cookie: cookie(
            NO_FUNCTION,
            Common {
                given: u32::MAX,
                only_watched: false,
                sched: probes.has_scheduler(),
            },
        ),
    };
    let one = if probes.by_process { me } else { 0 };
    let links = probes.link(&path, &[place], one)?;
    let with = round();
    drop(links);
    // Also threads of another session, in this process or of this program, that measured at the same time.
    let mut threads = HashSet::new();
    let events = probes.drain(|bytes| threads.extend(BpfEvent::read(bytes).map(|of| of.thread)));
    threads
        .iter()
        .for_each(|thread| probes.forget_thread(*thread));
    probes.restart();
    Ok((events > 0).then_some((with - without).max(0.0)))
}
