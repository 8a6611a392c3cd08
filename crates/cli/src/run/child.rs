//! The program: started with the terminal, the standard streams and the process group that `ncclscope run`
//! has, sent the signals that are meant for it, and waited for.
//!
//! Signals are blocked and read from a descriptor. So no signal is lost between the start of `run` and that
//! of the program. What the caller has set to be ignored (`nohup`) stays ignored in the program.
//!
//! Rule: a signal reaches the program once. What the terminal generates goes to the whole process group, the
//! program among it, and is not forwarded; neither is what the program or its children send.

use nix::errno::Errno;
use nix::sys::signal::{self, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{siginfo, SignalFd};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tables::exit::HowEnded;

/// What is forwarded.
const FORWARDED: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGQUIT,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

/// `si_code` of signals that the kernel sends, the terminal's among them.
const SI_KERNEL: i32 = 0x80;

/// Has writes beyond the limit of file sizes fail instead of ending this process, which has a program to wait
/// for. Returns the mask that we were started with.
///
/// # Errors
/// Never, with a signal that is known.
pub fn outlive_size_limit() -> nix::Result<SigSet> {
    SigSet::from(Signal::SIGXFSZ).thread_swap_mask(SigmaskHow::SIG_BLOCK)
}

/// Whether SIGPIPE was ignored when this process was started, as systemd has it for its services. Rust's
/// start-up ignores it in any case, and `Command` gives its default to programs.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Called before Rust's start-up.
#[used]
#[link_section = ".init_array"]
static ASK: extern "C" fn() = {
    extern "C" fn ask() {
        // SAFETY: nothing is changed, and the zeroed struct is filled in.
        unsafe {
            let mut found: libc::sigaction = std::mem::zeroed();
            let asked = libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut found);
            PIPE_IGNORED.store(asked == 0 && found.sa_sigaction == libc::SIG_IGN, Relaxed);
        }
    }
    ask
};

/// The signals of this process, blocked. Made before any thread is, which then has them blocked too.
pub struct Signals {
    blocked: SignalFd,
    /// The mask that we were started with, which the program gets.
    before: SigSet,
}

impl Signals {
    /// Blocks the forwarded signals and SIGCHLD. The program gets the mask `before`.
    pub fn block(before: SigSet) -> io::Result<Signals> {
        // An inherited SIG_IGN would reap the program behind our back and lose its exit status.
        // SAFETY: the default action runs no code of ours.
        unsafe { signal::signal(Signal::SIGCHLD, SigHandler::SigDfl)? };
        let mut set: SigSet = FORWARDED.into_iter().collect();
        set.add(Signal::SIGCHLD);
        set.thread_block()?;
        Ok(Signals {
            blocked: SignalFd::new(&set)?,
            before,
        })
    }

    /// Starts the program, and returns its pid and how it ended.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn run(&self, command: &mut Command) -> io::Result<(u32, HowEnded)> {
        let before = self.before;
        let start = move || {
            if PIPE_IGNORED.load(Relaxed) {
                // SAFETY: ignoring runs no code of ours.
                unsafe { signal::signal(Signal::SIGPIPE, SigHandler::SigIgn)? };
            }
            Ok(before.thread_set_mask()?)
        };
        // SAFETY: between fork and exec this makes two system calls and allocates nothing.
        unsafe { command.pre_exec(start) };
        let pid = command.spawn()?.id();
        let child = Pid::from_raw(pid as i32);
        loop {
            match self.blocked.read_signal() {
                Ok(Some(info)) if info.ssi_signo == Signal::SIGCHLD as u32 => {
                    if let Some(how) = reap(child)? {
                        return Ok((pid, how));
                    }
                }
                Ok(Some(info)) => forward(&info, child),
                Ok(None) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How the program ended, once it has.
fn reap(child: Pid) -> nix::Result<Option<HowEnded>> {
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED))? {
            WaitStatus::Exited(_, status) => return Ok(Some(HowEnded::Status(status as u8))),
            WaitStatus::Signaled(_, signal, _) => return Ok(Some(HowEnded::Signal(signal as u8))),
            // Stopped from the terminal: the shell waits for us to stop with it, and wakes both. A SIGSTOP
            // from elsewhere is not followed, because whoever wakes the program would not think of us.
            WaitStatus::Stopped(_, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU) => {
                signal::raise(Signal::SIGSTOP)?
            }
            WaitStatus::Stopped(..) => {}
            _ => return Ok(None),
        }
    }
}

fn forward(info: &siginfo, child: Pid) {
    let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else {
        return;
    };
    // One wake-up more than needed does nothing.
    if signal == Signal::SIGCONT
        || (info.ssi_code != SI_KERNEL && !descends(info.ssi_pid as i32, child.as_raw()))
    {
        // It may have died meanwhile; SIGCHLD says so.
        let _ = signal::kill(child, signal);
    }
}

/// Whether `pid` is `ancestor` or one of its descendants: it signalled a group that we are in.
fn descends(mut pid: i32, ancestor: i32) -> bool {
    while pid > 1 {
        if pid == ancestor {
            return true;
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The command may hold anything, but for the last parenthesis: state and parent follow it.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        pid = parent.unwrap_or(0);
    }
    false
}
