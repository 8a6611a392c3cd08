//! Why calls took long, for `--sched`: what the scheduler did with the threads that were in them.
//!
//! The kernel's context switches come as events of the thread, between entry and return of its call. So a
//! [`Why`] knows for each call how its time falls into [`Parts`]:
//!
//! ```text
//! │ on a CPU ───────────────│ asleep ──────────────│ in the run queue │ on a CPU ─│ in the run queue │ …
//!   of it: soft interrupts    waits for something    woken, no CPU yet             preempted
//! ```
//!
//! What a thread's calls need is also written as the node sampler's Switches blocks, so that `report` knows
//! it (crates/capture/src/switches.rs).
//!
//! Rule: a stretch of less than 20 µs counts as time on a CPU. A span of time in which events were lost is
//! not written.

use crate::event::Stretch;
use capture::switches::Off;
use std::collections::{BTreeMap, HashMap};

/// Calls that are kept one by one: the longest of a process.
const LONGEST: usize = 10;
/// Stretches of one thread in one span, as the node sampler has them.
const MOST: usize = 1000;

/// What the time of a call went into, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// All of it.
    pub took: u64,
    /// The thread waited for something, such as a lock, a file or the GPU.
    pub asleep: u64,
    /// It was ready, and others ran on its CPU.
    pub queued: u64,
    /// It had the CPU, and the kernel used it for soft interrupts: network, timers.
    pub softirq: u64,
    /// Stretches off the CPU.
    pub switches: u64,
}

impl Parts {
    /// Time on a CPU without soft interrupts.
    pub fn ran(&self) -> u64 {
        self.took
            .saturating_sub(self.asleep + self.queued + self.softirq)
    }

    fn add(&mut self, other: &Parts) {
        self.took += other.took;
        self.asleep += other.asleep;
        self.queued += other.queued;
        self.softirq += other.softirq;
        self.switches += other.switches;
    }

    /// Adds a stretch that ends at `to`, as far as it lies behind `since`.
    fn add_stretch(&mut self, stretch: &Stretch, since: u64, to: u64) {
        let from = stretch.from.max(since);
        let woken = match stretch.preempted {
            true => from,
            false if stretch.woken == 0 => to,
            false => stretch.woken.clamp(from, to.max(from)),
        };
        self.asleep += woken - from;
        self.queued += to.saturating_sub(woken);
        self.switches += 1;
    }
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Long {
    pub function: &'static str,
    pub thread: u32,
    /// CLOCK_MONOTONIC, ns.
    pub began: u64,
    /// It has not returned: these are its parts up to the end of the session.
    pub open: bool,
    pub parts: Parts,
}

/// Calls of one function on one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sum {
    pub calls: u64,
    pub parts: Parts,
    /// The longest one, ns.
    pub longest: u64,
}

/// A span of time of a thread, for a Switches block: CLOCK_MONOTONIC.
pub type Span = (u32, (u64, u64), Vec<Off>);

struct Thread {
    /// The call that it is in.
    call: Option<(u64, Parts)>,
    /// From when on all its stretches are known, and those that are not written.
    since: u64,
    off: Vec<Off>,
}

/// What the scheduler did with the threads of one process.
#[derive(Default)]
pub struct Why {
    threads: HashMap<u32, Thread>,
    /// By function and thread.
    pub sums: BTreeMap<(&'static str, u32), Sum>,
    /// The longest first.
    pub longest: Vec<Long>,
    /// Stretches that were lost so far.
    lost: u64,
}

impl Why {
    /// A thread has called NCCL, and is in no other call.
    pub fn entered(&mut self, thread: u32, time: u64) {
        let thread = self.threads.entry(thread).or_insert(Thread {
            call: None,
            since: time,
            off: Vec::new(),
        });
        thread.call = Some((time, Parts::default()));
    }

    /// A thread was off its CPU up to `time`.
    pub fn switched(&mut self, thread: u32, stretch: &Stretch, time: u64) {
        let Some(thread) = self.threads.get_mut(&thread) else {
            return;
        };
        if let Some((began, parts)) = &mut thread.call {
            parts.add_stretch(stretch, *began, time);
        }
        thread.off.push(Off {
            from: stretch.from.max(thread.since),
            to: time,
            preempted: stretch.preempted,
        });
    }

    /// Soft interrupts had a thread's CPU for so long.
    pub fn interrupted(&mut self, thread: u32, ns: u64) {
        let call = self.threads.get_mut(&thread).and_then(|t| t.call.as_mut());
        if let Some((_, parts)) = call {
            parts.softirq += ns;
        }
    }

    /// The call of a thread has returned.
    pub fn returned(&mut self, thread: u32, function: &'static str, time: u64) {
        let call = self.threads.get_mut(&thread).and_then(|t| t.call.take());
        let Some((began, mut parts)) = call else {
            return;
        };
        parts.took = time.saturating_sub(began);
        let sum = self.sums.entry((function, thread)).or_default();
        sum.calls += 1;
        sum.parts.add(&parts);
        sum.longest = sum.longest.max(parts.took);
        self.keep(Long {
            function,
            thread,
            began,
            open: false,
            parts,
        });
    }

    fn keep(&mut self, call: Long) {
        let is_short = |last: &Long| last.parts.took >= call.parts.took;
        if self.longest.len() == LONGEST && self.longest.last().is_some_and(is_short) {
            return;
        }
        let took = |long: &Long| long.parts.took >= call.parts.took;
        let at = self.longest.partition_point(took);
        self.longest.insert(at, call);
        self.longest.truncate(LONGEST);
    }

    /// A call of a thread that has not returned at `now`, in a stretch that has not ended, if it is in one.
    pub fn left_open(
        &mut self,
        thread: u32,
        function: &'static str,
        now: u64,
        off: Option<Stretch>,
    ) {
        let call = self.threads.get_mut(&thread).and_then(|t| t.call.take());
        let Some((began, mut parts)) = call else {
            return;
        };
        parts.took = now.saturating_sub(began);
        if let Some(stretch) = off {
            parts.add_stretch(&stretch, began, now);
        }
        self.keep(Long {
            function,
            thread,
            began,
            open: true,
            parts,
        });
    }

    /// Threads that have called NCCL.
    pub fn threads(&self) -> Vec<u32> {
        let mut threads: Vec<u32> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        threads
    }

    /// What is known of each thread up to `until`, since it was taken the last time. `off` says which stretch
    /// a thread is in at that time. `lost` stretches have been lost since the begin: if there are more by
    /// now, nothing is handed out.
    pub fn take(
        &mut self,
        until: u64,
        lost: u64,
        off: impl Fn(u32) -> Option<Stretch>,
    ) -> Vec<Span> {
        let was_lost = lost > self.lost;
        self.lost = lost;
        let mut spans = Vec::new();
        for id in self.threads() {
            let Some(thread) = self.threads.get_mut(&id).filter(|t| t.since < until) else {
                continue;
            };
            let since = std::mem::replace(&mut thread.since, until);
            let is_before = |off: &Off| off.from < until;
            let all = std::mem::take(&mut thread.off);
            let (mut now, later): (Vec<Off>, Vec<Off>) = all.into_iter().partition(is_before);
            thread.off = later;
            for off in &mut now {
                if off.to > until {
                    // It goes on in the next span.
                    thread.off.insert(
                        0,
                        Off {
                            from: until,
                            ..*off
                        },
                    );
                    off.to = until;
                }
            }
            let reaches = now.last().is_some_and(|off| off.to == until);
            if let Some(stretch) = off(id).filter(|s| s.from < until && !reaches) {
                let from = stretch.from.max(since);
                now.push(Off {
                    from,
                    to: until,
                    preempted: stretch.preempted,
                });
            }
            if now.len() > MOST {
                now.sort_by_key(|off| std::cmp::Reverse(off.to - off.from));
                now.truncate(MOST);
                now.sort_by_key(|off| off.from);
            }
            if !was_lost {
                spans.push((id, (since, until), now));
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: u64, woken: u64, preempted: bool) -> Stretch {
        Stretch {
            from,
            woken,
            preempted,
        }
    }

    #[test]
    fn the_time_of_a_call_falls_into_its_parts() {
        let mut why = Why::default();
        // Not in a call.
        why.switched(7, &stretch(1, 2, false), 3);
        why.entered(7, 1_000);
        why.switched(7, &stretch(1_100, 1_600, false), 1_700);
        why.switched(7, &stretch(1_800, 0, true), 1_850);
        why.interrupted(7, 40);
        why.returned(7, "ncclAllReduce", 2_000);
        why.switched(7, &stretch(2_100, 2_200, false), 2_300);
        why.entered(7, 3_000);
        why.returned(7, "ncclAllReduce", 3_100);
        let sum = why.sums[&("ncclAllReduce", 7)];
        let expected = Parts {
            took: 1_100,
            asleep: 500,
            queued: 150,
            softirq: 40,
            switches: 2,
        };
        assert_eq!((sum.calls, sum.parts, sum.longest), (2, expected, 1_000));
        assert_eq!(sum.parts.ran(), 410);
        assert_eq!(why.longest.len(), 2);
        assert_eq!(why.longest[0].parts.took, 1_000);
    }

    #[test]
    fn a_call_that_is_open_says_what_its_thread_waits_for() {
        let mut why = Why::default();
        why.entered(7, 1_000);
        why.left_open(7, "ncclAllReduce", 9_000, Some(stretch(2_000, 0, false)));
        let long = why.longest[0];
        assert!(long.open);
        assert_eq!((long.parts.took, long.parts.asleep), (8_000, 7_000));
    }

    #[test]
    fn only_the_longest_calls_are_kept() {
        let mut why = Why::default();
        for n in 0..100u64 {
            let at = n * 1_000;
            why.entered(1, at);
            why.returned(1, "ncclSend", at + (n * 37) % 100);
        }
        let took: Vec<u64> = why.longest.iter().map(|long| long.parts.took).collect();
        assert_eq!(took, (90..100).rev().collect::<Vec<u64>>());
    }

    #[test]
    fn a_stretch_across_two_spans_is_in_both() {
        let mut why = Why::default();
        why.entered(7, 100);
        why.switched(7, &stretch(200, 0, true), 400);
        let none = |_| None;
        let off = |from, to| Off {
            from,
            to,
            preempted: true,
        };
        // Its end was seen before the span was taken.
        assert_eq!(
            why.take(300, 0, none),
            [(7, (100, 300), vec![off(200, 300)])]
        );
        assert_eq!(
            why.take(500, 0, none),
            [(7, (300, 500), vec![off(300, 400)])]
        );
        // It is off now.
        let now = |_| Some(stretch(600, 0, true));
        assert_eq!(
            why.take(700, 0, now),
            [(7, (500, 700), vec![off(600, 700)])]
        );
        why.switched(7, &stretch(600, 0, true), 800);
        assert_eq!(
            why.take(900, 0, none),
            [(7, (700, 900), vec![off(700, 800)])]
        );
        // Something was lost: nothing is known of that span, and of the next one everything.
        assert_eq!(why.take(1_000, 3, none), []);
        assert_eq!(why.take(1_100, 3, none), [(7, (1_000, 1_100), vec![])]);
    }
}
