//! What the user is told: lines on stderr, and one line in NCCL's own log.
//!
//! Rule: none of these is called from an event callback.

use super::Recorder;
use crate::chain::Chain;
use crate::settings::Timing;
use std::sync::atomic::Ordering::Relaxed;

/// One line on stderr.
pub fn say(line: &str) {
    // One write, so that lines of many ranks do not mix.
    let mut whole = format!("ncclscope: {line}\n");
    // Paths and settings may hold control characters, which a terminal obeys.
    if line.contains(char::is_control) {
        whole = whole.trim_end().replace(char::is_control, "?") + "\n";
    }
    // If nobody reads the pipe, the job must not wait; if the reader has gone, the job must not die of
    // SIGPIPE.
    let mut stderr = libc::pollfd {
        fd: 2,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one pollfd; the buffer is valid for its length.
    unsafe {
        if libc::poll(&mut stderr, 1, 100) == 1 && stderr.revents == libc::POLLOUT {
            libc::write(2, whole.as_ptr().cast(), whole.len());
        }
    }
}

/// Where GPU times come from in this process.
fn times(recorder: &Recorder) -> String {
    let settings = &recorder.settings;
    let events = recorder.ring_of(0).is_some();
    match settings.timing {
        Timing::Host => "host times only".to_owned(),
        Timing::Stamps => "GPU times from NCCL's stamps".to_owned(),
        Timing::Auto if events => format!(
            "GPU times from CUDA events for at most {} % of the time",
            settings.budget * 100.0
        ),
        Timing::Events if events => "GPU times from CUDA events".to_owned(),
        _ if recorder.driver().is_none() => {
            "host times only: this process has no CUDA driver".to_owned()
        }
        _ => "host times only: CUDA events need NCCL 2.28 or later".to_owned(),
    }
}

/// Says once in a process, and on the first rank only, that recording has begun. If nothing can be written,
/// the user has another line already.
pub fn hello(recorder: &Recorder) {
    if recorder.said_hello.swap(true, Relaxed) {
        return;
    }
    if recorder.header().write_errno.load(Relaxed) != 0 {
        return;
    }
    let rank = capture::launcher::rank(&|name| std::env::var(name).ok());
    if rank.is_none_or(|rank| rank == "0") && std::env::var_os("NCCLSCOPE_QUIET").is_none() {
        let settings = &recorder.settings;
        say(&format!(
            "recording to {} (mode {}, {})",
            recorder.names.folder.display(),
            format!("{:?}", settings.mode).to_lowercase(),
            times(recorder)
        ));
        settings.notes.iter().for_each(|note| say(note));
        let behind = recorder.chain.as_ref().and_then(Chain::note);
        behind.iter().for_each(|note| say(note));
    }
}

/// Says in NCCL's own log where the capture is. At INFO only, because WARN overwrites the error text that
/// users see.
pub fn log(logger: nccl_abi::Logger, recorder: &Recorder) {
    let Some(logger) = logger else { return };
    let Ok(text) = std::ffi::CString::new(format!(
        "ncclscope: recording to {}",
        recorder.names.stem.display()
    )) else {
        return;
    };
    let flags = nccl_abi::log::INIT | nccl_abi::log::PROFILE;
    // SAFETY: NCCL's logger takes a printf format and its arguments; both strings outlive the call.
    unsafe {
        logger(
            nccl_abi::log::LEVEL_INFO,
            flags,
            c"ncclscope".as_ptr(),
            0,
            c"%s".as_ptr(),
            text.as_ptr(),
        )
    };
}
