//! What happens to single ranks: late, killed, hanging, and so on.

use super::driver::Driver;
use super::job::{Flow, Stuck};
use crate::script::{Act, Statement};

/// Whether a rank of the script ends or forks its process.
pub(super) fn ends_process(body: &[Statement]) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Rank(_, act) => matches!(
            act,
            Act::Kill | Act::Exit(_) | Act::QuickExit(_) | Act::Abort | Act::Fork
        ),
        Statement::Repeat(_, body) | Statement::Only(_, body) => ends_process(body),
        _ => false,
    })
}

impl Driver<'_> {
    /// `act` happens to these ranks.
    pub(super) fn rank(&mut self, ranks: &[usize], act: Act) -> Flow {
        for rank in ranks {
            self.act(*rank, act)?;
        }
        Flow::Continue(())
    }

    fn act(&mut self, rank: usize, act: Act) -> Flow {
        if self.schedule.gone(rank) {
            return Flow::Continue(());
        }
        self.schedule.act(rank, act);
        if !self.mine.contains(&rank) {
            return Flow::Continue(());
        }
        match act {
            // The schedule has noted it for the rank's calls.
            Act::Late(_)
            | Act::Slow(_)
            | Act::Skip
            | Act::HangInside
            | Act::Stuck(_)
            | Act::Drag(_) => {}
            Act::Hang => return Flow::Break(Stuck),
            Act::Fork => {
                self.catch_up(rank);
                fork_and_wait();
            }
            Act::Kill | Act::Abort | Act::Exit(_) | Act::QuickExit(_) => {
                self.catch_up(rank);
                self.job.report(Some(ending(act)));
                end(act);
            }
        }
        Flow::Continue(())
    }

    /// Waits until all that was launched before is done, and the rank's host is due.
    fn catch_up(&mut self, rank: usize) {
        self.host_callbacks.drain();
        self.wait_host(rank);
    }
}

/// How a process ends by this, as its parent sees it.
fn ending(act: Act) -> String {
    match act {
        Act::Kill => "signal 9".into(),
        Act::Abort => "signal 6".into(),
        Act::Exit(status) | Act::QuickExit(status) => format!("exit {status}"),
        _ => "exit 0".into(),
    }
}

/// Ends the process, if `act` does.
fn end(act: Act) {
    // SAFETY: each is a plain system or C library call without memory of ours.
    unsafe {
        match act {
            Act::Kill => {
                libc::kill(libc::getpid(), libc::SIGKILL);
            }
            Act::Abort => libc::abort(),
            Act::Exit(status) => libc::exit(status),
            Act::QuickExit(status) => libc::_exit(status),
            _ => {}
        }
    }
}

/// Forks a child that exits at once, and waits for it.
fn fork_and_wait() {
    // SAFETY: the child makes no call but `exit`; its handlers are the thing under test.
    unsafe {
        match libc::fork() {
            0 => libc::exit(0),
            child => {
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
    }
}
