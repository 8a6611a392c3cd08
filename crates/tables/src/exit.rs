//! How a process ended, as `ncclscope run` saw it.

use std::fmt;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// When, ns since 1970.
    pub at_ns: i64,
    /// How; `None` if nobody was quick enough to ask.
    pub how: Option<HowEnded>,
    /// SIGKILL ended it while the kernel ended processes of its machine for lack of memory.
    pub out_of_memory: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowEnded {
    /// With this exit status.
    Status(u8),
    /// By this signal.
    Signal(u8),
}

impl HowEnded {
    /// As `wait` of the system gives it.
    pub fn of_wait_status(status: i32) -> HowEnded {
        if libc::WIFSIGNALED(status) {
            HowEnded::Signal(libc::WTERMSIG(status) as u8)
        } else {
            HowEnded::Status(libc::WEXITSTATUS(status) as u8)
        }
    }

    /// Whether that is more than the end of a program's work.
    pub fn is_error(self) -> bool {
        self != HowEnded::Status(0)
    }

    /// The exit status, if no signal ended it.
    pub fn exit_status(self) -> Option<u8> {
        match self {
            HowEnded::Status(status) => Some(status),
            HowEnded::Signal(_) => None,
        }
    }

    /// The signal that ended it.
    pub fn signal(self) -> Option<u8> {
        match self {
            HowEnded::Signal(signal) => Some(signal),
            HowEnded::Status(_) => None,
        }
    }

    /// The exit status that a shell gives for it: 128+n for signal n.
    pub fn status(self) -> u8 {
        match self {
            HowEnded::Status(status) => status,
            HowEnded::Signal(signal) => 128 | signal,
        }
    }
}

/// Signals that end processes, as `signal.h` calls them.
const SIGNALS: [(i32, &str); 13] = [
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGXCPU, "SIGXCPU"),
];

/// `exit status 1` or `SIGSEGV`.
impl fmt::Display for HowEnded {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            HowEnded::Status(status) => write!(f, "exit status {status}"),
            HowEnded::Signal(signal) => {
                let known = SIGNALS.iter().find(|(n, _)| *n == i32::from(*signal));
                match known {
                    Some((_, name)) => f.write_str(name),
                    None => write!(f, "signal {signal}"),
                }
            }
        }
    }
}

/// `SIGKILL, out of memory`.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let why = if self.out_of_memory {
            ", out of memory"
        } else {
            ""
        };
        match self.how {
            Some(how) => write!(f, "{how}{why}"),
            None => f.write_str("how is not known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_an_exit_status_or_a_signal() {
        for (status, how, said, shell) in [
            (0, HowEnded::Status(0), "exit status 0", 0),
            (0x0300, HowEnded::Status(3), "exit status 3", 3),
            (9, HowEnded::Signal(9), "SIGKILL", 137),
            // With a core dump.
            (0x80 | 11, HowEnded::Signal(11), "SIGSEGV", 139),
            (64, HowEnded::Signal(64), "signal 64", 192),
        ] {
            let found = HowEnded::of_wait_status(status);
            assert_eq!((found, found.status()), (how, shell));
            assert_eq!(found.to_string(), said);
            assert_eq!(found.is_error(), status != 0);
        }
    }
}
