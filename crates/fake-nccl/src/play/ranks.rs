//! What befalls ranks.

use super::driver::Driver;
use super::job::{Flow, Stuck};
use crate::script::{Act, Statement};

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
    pub(super) fn act(&mut self, rank: usize, act: Act) -> Flow {
        if self.schedule.gone(rank) {
            return Flow::Continue(());
        }
        self.schedule.act(rank, act);
        if !self.mine.contains(&rank) {
            return Flow::Continue(());
        }
        let ends = match act {
            Act::Late(_)
            | Act::Slow(_)
            | Act::Skip
            | Act::HangInside
            | Act::Stuck(_)
            | Act::Drag(_) => {
                return Flow::Continue(());
            }
            Act::Fork => None,
            Act::Hang => return Flow::Break(Stuck),
            Act::Kill => Some("signal 9".into()),
            Act::Abort => Some("signal 6".into()),
            Act::Exit(status) | Act::QuickExit(status) => Some(format!("exit {status}")),
        };
        self.drain_host_callbacks();
        self.wait_host(rank);
        if ends.is_some() {
            self.job.report(ends);
        }
        // SAFETY: each is a plain system or C library call without memory of ours; the child of the fork makes no call but
        // `exit`, whose handlers are the very thing under test.
        unsafe {
            match act {
                Act::Kill => {
                    libc::kill(libc::getpid(), libc::SIGKILL);
                }
                Act::Abort => libc::abort(),
                Act::Exit(status) => libc::exit(status),
                Act::QuickExit(status) => libc::_exit(status),
                _ => match libc::fork() {
                    0 => libc::exit(0),
                    child => {
                        libc::waitpid(child, std::ptr::null_mut(), 0);
                    }
                },
            }
        }
        Flow::Continue(())
    }
}
