//! The process's recorder, from the first init on.
//!
//! [`get_or_make`] makes the recorder at the first init, fills in the header of its live part, lets callbacks
//! find it ([`publish`]), and starts its thread. A forked child that initialises NCCL gets a recorder of its
//! own in the same way.
//!
//! Rule: callbacks find a recorder only after its header is complete.

use crate::lock::INIT;
use crate::recorder::fork_page::{get, publish};
use crate::recorder::messages::say;
use crate::recorder::Recorder;
use crate::{clock, driver_watch, facts, place, writer};
use capture::live::{Header, HEADER_BYTES, MAGIC};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, Release},
};

/// The process's recorder. The first init of the process makes it; `None` if that fails, which the user is
/// told.
pub fn get_or_make() -> Option<&'static Recorder> {
    if let Some(recorder) = get() {
        return Some(recorder);
    }
    let _guard = INIT.lock();
    if let Some(recorder) = get() {
        return Some(recorder);
    }
    match start() {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            // Each init tries again, because what was missing may be there by then.
            if SAID.swap(true, Relaxed) {
            } else if error.kind() == std::io::ErrorKind::OutOfMemory {
                // The error's own text would need some.
                say(format_args!("recording is off: there is no memory for it"));
            } else {
                say(format_args!("recording is off: {error}"));
            }
            None
        }
    }
}

/// Recording could not begin, and the user was told.
static SAID: AtomicBool = AtomicBool::new(false);

fn start() -> std::io::Result<&'static Recorder> {
    // Before anything is allocated.
    place::spare_memory(0)?;
    look_up_a_library();
    let random = random();
    let is_first_try = !SAID.load(Relaxed);
    let recorder = Recorder::make(random, is_first_try, driver_watch::install)?;
    fill_in_header(recorder, random);
    publish(recorder)?;
    writer::start(recorder);
    Ok(recorder)
}

/// Looks up a library before anything is mapped.
///
/// If another thread of the parent was in a look-up at the fork, glibc's first one in the child unmaps the
/// place that ld.so.cache had in the parent. A mapping of ours would be there by then.
fn look_up_a_library() {
    // SAFETY: finds the program itself; nothing is loaded.
    unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        if !program.is_null() {
            libc::dlclose(program);
        }
    }
}

fn fill_in_header(recorder: &Recorder, trace_id: u64) {
    let header = recorder.header();
    header.trace_id.store(trace_id, Relaxed);
    header.pid.store(std::process::id(), Relaxed);
    header.clock.store(recorder.clock as u32, Relaxed);
    header.pid_start.store(facts::pid_start(), Relaxed);
    header.pid_namespace.store(facts::pid_namespace(), Relaxed);
    let anchor = recorder.clock.anchor();
    clock::store(&header.first, &header.anchor_version, anchor);
    clock::store(&header.last, &header.anchor_version, anchor);
    let process = facts::process_lines(recorder, recorder.live_place(), anchor.realtime);
    for (to, from) in header.process.iter().zip(process.bytes()) {
        to.store(from, Relaxed);
    }
    header
        .process_len
        .store(process.len().min(header.process.len()) as u32, Release);
    // One anchor alone tells no time, and a process may be killed before the recorder's thread makes another.
    let anchor = recorder.clock.anchor();
    clock::store(&header.last, &header.anchor_version, anchor);
    header.magic.store(MAGIC, Release);
    const { assert!(std::mem::size_of::<Header>() <= HEADER_BYTES) };
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is as long as said.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getrandom,
            bytes.as_mut_ptr(),
            bytes.len(),
            libc::GRND_NONBLOCK,
        )
    };
    let entropy = if got == 8 {
        u64::from_le_bytes(bytes)
    } else {
        0
    };
    entropy ^ clock::nanoseconds(libc::CLOCK_REALTIME) ^ u64::from(std::process::id()) << 32
}
