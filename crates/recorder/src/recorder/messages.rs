//! What the user is told: lines on stderr, and one line in NCCL's own log.
//!
//! Rule: none of these is called from an event callback, and a line needs no memory of the heap. Nothing is
//! written to a descriptor 2 that is not the one that the plugin was loaded with.

use super::Recorder;
use crate::chain::Chain;
use crate::settings::Timing;
use capture::printable::obeyed;
use capture::stderr;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// A line, in memory of its own: messages are also about memory that is used up. Of what does not fit, the
/// middle is left out, because a long line has a path there, and the reason at its end.
struct Line {
    bytes: [u8; Line::MOST],
    used: usize,
    /// Bytes that came so far.
    came: usize,
    left_out: Range<usize>,
    is_cut: bool,
}

impl Line {
    /// A pipe takes so much at once.
    const MOST: usize = 4096;
    /// What stands for what is left out.
    const CUT: &str = "...";
    /// Of a long line, at each end.
    const END: usize = 2000;

    fn of(text: fmt::Arguments) -> Line {
        let mut length = Length(0);
        let _ = fmt::write(&mut length, text);
        let mut line = Line {
            bytes: [0; Line::MOST],
            used: 0,
            came: 0,
            // A line end and a zero follow.
            left_out: if length.0 + 2 > Line::MOST {
                Line::END..length.0 - Line::END
            } else {
                0..0
            },
            is_cut: false,
        };
        let _ = fmt::write(&mut line, text);
        line
    }

    fn put(&mut self, text: &str) {
        let end = self.used + text.len();
        // A text that is longer than it was at first is cut.
        if end < Line::MOST {
            self.bytes[self.used..end].copy_from_slice(text.as_bytes());
            self.used = end;
        }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        each_shown(text, |c| {
            let at = self.came;
            self.came += c.len_utf8();
            if !self.left_out.contains(&at) {
                self.put(c.encode_utf8(&mut [0; 4]));
            } else if !std::mem::replace(&mut self.is_cut, true) {
                self.put(Line::CUT);
            }
        });
        Ok(())
    }
}

/// How long a line is.
struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        each_shown(text, |c| self.0 += c.len_utf8());
        Ok(())
    }
}

/// Paths and settings may hold characters that a terminal obeys. They are shown as readers show them.
fn each_shown(text: &str, mut show: impl FnMut(char)) {
    for c in text.chars() {
        if obeyed(c) {
            c.escape_default().for_each(&mut show);
        } else {
            show(c);
        }
    }
}

/// NCCL may load the plugin long before anything is to be said.
#[used]
#[cfg_attr(not(miri), link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        stderr::note();
    }
    at_load
};

/// One line on stderr.
pub fn say(line: fmt::Arguments) {
    let mut line = Line::of(format_args!("ncclscope: {line}"));
    line.put("\n");
    // One write, so that lines of many ranks do not mix.
    let whole = &line.bytes[..line.used];
    // If nobody reads the pipe, the job must not wait; if the reader has gone, the job must not die of
    // SIGPIPE.
    let mut poll = libc::pollfd {
        fd: 2,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one pollfd; the buffer is valid for its length.
    unsafe {
        let has_room = libc::poll(&mut poll, 1, 100) == 1 && poll.revents == libc::POLLOUT;
        // Just before: the program may have closed it, and opened a file that got its number.
        if has_room && stderr::is_the_one() {
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
        say(format_args!(
            "recording to {} (mode {}, {})",
            recorder.names.folder.display(),
            format!("{:?}", settings.mode).to_lowercase(),
            times(recorder)
        ));
        let notes = settings.notes.iter();
        notes.for_each(|note| say(format_args!("{note}")));
        let behind = recorder.chain.as_ref().and_then(Chain::note);
        behind.iter().for_each(|note| say(format_args!("{note}")));
    }
}

/// Says in NCCL's own log where the capture is. At INFO only, because WARN overwrites the error text that
/// users see.
pub fn log(logger: nccl_abi::Logger, recorder: &Recorder) {
    let Some(logger) = logger else { return };
    // It ends in a zero.
    let stem = recorder.names.stem.display();
    let text = Line::of(format_args!("ncclscope: recording to {stem}"));
    let flags = nccl_abi::log::INIT | nccl_abi::log::PROFILE;
    // SAFETY: NCCL's logger takes a printf format and its arguments; both strings outlive the call.
    unsafe {
        logger(
            nccl_abi::log::LEVEL_INFO,
            flags,
            c"ncclscope".as_ptr(),
            0,
            c"%s".as_ptr(),
            text.bytes.as_ptr().cast::<std::ffi::c_char>(),
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &Line) -> &str {
        std::str::from_utf8(&line.bytes[..line.used]).expect("text")
    }

    #[test]
    fn what_a_terminal_obeys_is_shown_as_readers_show_it() {
        let name = "a\u{1b}[31m\u{202e}b\u{61c}\n";
        let line = Line::of(format_args!("{name}"));
        assert_eq!(shown(&line), capture::printable::printable(name));
        assert!(!shown(&line).contains(obeyed));
    }

    #[test]
    fn of_a_line_that_is_too_long_the_ends_are_shown_and_a_zero_follows() {
        let short = Line::of(format_args!("to {} of {}", "a", 3));
        assert_eq!(shown(&short), "to a of 3");
        for c in ["a", "\u{e9}", "\u{1f600}", "\u{202e}"] {
            for n in [400, 4080, 4090, 5000] {
                let path = c.repeat(n);
                let mut line = Line::of(format_args!("cannot write {path}: too long"));
                let text = shown(&line);
                assert!(text.starts_with("cannot write ") && text.ends_with(": too long"));
                let whole = capture::printable::printable(&path).len() + 30 < Line::MOST;
                assert_eq!(text.contains("..."), !whole, "{n} {c}");
                line.put("\n");
                assert_eq!(line.bytes[line.used - 1], b'\n');
                assert_eq!(line.bytes[line.used], 0);
            }
        }
    }
}
