//! Takes events and losses to the processes that they are of, and writes what came together.

use super::watched::Watched;
use super::{Session, ANY};
use crate::calls::CallTracker;
use crate::event::{BpfEvent, Stretch};
use crate::net::Who;
use crate::probes::Losses;
use crate::processes::{self, Memory};
use crate::readers::Facts;
use crate::writer::{clock, now};
use std::collections::HashMap;
use std::time::Duration;

/// For how long the first call of a process waits for what is known of the process.
const STRANGER: Duration = Duration::from_millis(100);
/// In place of a process if it is not known which one lost something.
const NOBODY: u32 = 0;

/// What a process has lost.
fn losses_of(all: &[((u32, u32), Losses)], index: usize, pid: u32) -> Option<Losses> {
    let is_it = |given: u32, process: u32| match given {
        ANY => process == pid,
        given => given as usize == index,
    };
    let of = all
        .iter()
        .filter(|((given, process), _)| is_it(*given, *process));
    of.map(|(_, losses)| *losses).reduce(|a, b| Losses {
        entries: a.entries + b.entries,
        returns: a.returns + b.returns,
        switches: a.switches + b.switches,
    })
}

impl Session {
    /// Takes what is in the ring.
    pub(super) fn drain(&mut self) -> usize {
        let (watched, by_pid) = (&mut self.watched, &self.by_pid);
        let mut strangers: Vec<(u32, Vec<u8>)> = Vec::new();
        let taken = self.probes.drain(|bytes| {
            let Some(event) = BpfEvent::read(bytes) else {
                return;
            };
            let index = match event.given {
                ANY => by_pid.get(&event.process).copied(),
                index => Some(index as usize),
            };
            match index.and_then(|index| watched.get_mut(index)) {
                Some(Some(watched)) => watched.take(&event),
                _ if event.given == ANY => strangers.push((event.process, bytes.to_vec())),
                _ => {}
            }
        });
        for (pid, bytes) in strangers {
            self.stranger(pid, &bytes);
        }
        taken
    }

    /// An event of a process that was not looked at yet. If it is of no function of NCCL, it is nobody's: a
    /// session beside this one measured what a call costs.
    pub(super) fn stranger(&mut self, pid: u32, bytes: &[u8]) {
        if !BpfEvent::read(bytes).is_some_and(|event| event.is_of_nccl()) {
            return;
        }
        let known = self.by_pid.contains_key(&pid);
        if let Some(stat) = processes::stat(pid).filter(|_| !known) {
            let process = (pid, stat.start);
            // Its file was read, or there were no probe in it. Only its user's other files may take long.
            let is_quick = !self.readers.is_busy_for(pid);
            if self.readers.ask(process) && is_quick {
                self.take_answers(Some(process), STRANGER);
            }
            if !self.by_pid.contains_key(&pid) {
                // It called NCCL, so it has it, whether its mappings can be read or not.
                self.add(pid, stat.start, &[], Facts::of(process, &Memory::default()));
            }
        }
        let index = self.by_pid.get(&pid).copied();
        match (
            index.and_then(|index| self.watched[index].as_mut()),
            BpfEvent::read(bytes),
        ) {
            (Some(watched), Some(event)) => watched.take(&event),
            _ => self.unseen += 1,
        }
    }

    /// Tells each process what of it was lost.
    pub(super) fn take_losses(&mut self) {
        let losses = self.probes.losses();
        for (index, watched) in self.watched.iter_mut().enumerate() {
            let Some(watched) = watched else { continue };
            if let Some(losses) = losses_of(&losses, index, watched.pid) {
                watched.lost(losses);
            }
        }
        let Some(all) = losses_of(&losses, usize::MAX, NOBODY) else {
            return;
        };
        // Any of them may have lost calls, so none may number them.
        self.shared_losses |= all != Losses::default();
        let rest = Losses {
            entries: all.entries.saturating_sub(self.shared_ended.entries),
            returns: all.returns.saturating_sub(self.shared_ended.returns),
            switches: 0,
        };
        let made = |watched: &Watched| (watched.made(), std::cmp::Reverse(watched.seen.index));
        let most = self.watched.iter().flatten().map(made).max();
        for watched in self.watched.iter_mut().flatten() {
            watched.numbers_end(all);
            if Some(made(watched)) == most {
                watched.lost(rest)
            } else {
                watched.lost(Losses::default())
            }
        }
    }

    pub(super) fn flush(&mut self) {
        self.take_losses();
        for watched in self.watched.iter_mut().flatten() {
            if let Some(Err(error)) = watched.calls.as_mut().map(CallTracker::flush) {
                watched.error = Some(error.to_string());
            }
            if let Some(error) = watched.error.take() {
                self.write_error = Some(error);
            }
        }
        self.note_switches(None);
        if let Some(samples) = &mut self.samples {
            samples.flush(false);
        }
    }

    /// Writes what the scheduler did with threads up to now: those of one process, or all.
    pub(super) fn note_switches(&mut self, only: Option<usize>) {
        if !self.options.sched {
            return;
        }
        let until = now();
        let is_asked = |index: usize| only.is_none_or(|only| only == index);
        let indices = (0..self.watched.len()).filter(|index| is_asked(*index));
        let indices: Vec<usize> = indices.collect();
        let mut off: HashMap<u32, Stretch> = HashMap::new();
        for index in &indices {
            let calls = self.watched[*index].as_ref().and_then(|w| w.calls.as_ref());
            for thread in calls.map(|calls| calls.why.threads()).unwrap_or_default() {
                off.extend(self.probes.off_now(thread).map(|stretch| (thread, stretch)));
            }
        }
        // Who is back since is in the ring by now.
        self.drain();
        let Some(samples) = &mut self.samples else {
            return;
        };
        samples.tick();
        for index in indices {
            let Some(watched) = &mut self.watched[index] else {
                continue;
            };
            let (pid, own, lost) = (watched.pid, watched.own, watched.seen.losses.switches);
            let Some(calls) = &mut watched.calls else {
                continue;
            };
            for span in calls
                .why
                .take(until, lost, |thread| off.get(&thread).copied())
            {
                samples.put_span(pid, own, span);
            }
        }
    }

    /// Asks for connections, and writes what they have by now.
    pub(super) fn ask_net(&mut self) {
        let (Some(net), Some(samples)) = (&mut self.net, &mut self.samples) else {
            return;
        };
        let who = |(index, watched): (usize, &Option<Watched>)| {
            let watched = watched.as_ref()?;
            Some(Who {
                index,
                pid: watched.pid,
                calls: watched.made(),
            })
        };
        let processes: Vec<Who> = self.watched.iter().enumerate().filter_map(who).collect();
        samples.tick();
        let own = |index: usize| self.watched[index].as_ref().map(|watched| watched.own);
        net.tick(now(), &processes, |connection| {
            if let Some(own) = own(connection.process) {
                samples.put_connection(own, connection);
            }
        });
        samples.put_devices();
        for trouble in &net.troubles {
            if !self.troubles.contains(trouble) {
                self.troubles.push(trouble.clone());
            }
        }
        if let Some(adapters) = self.adapters.as_ref().filter(|all| all.are_there()) {
            for watched in self.watched.iter_mut().flatten() {
                for adapter in adapters.of_process(watched.pid) {
                    if !watched.seen.adapters.contains(&adapter) {
                        watched.seen.adapters.push(adapter);
                    }
                }
            }
        }
    }

    /// Ends one process's part.
    pub(super) fn end(&mut self, index: usize, ended: bool) {
        self.note_switches(Some(index));
        self.take_losses();
        let Some(mut watched) = self.watched[index].take() else {
            return;
        };
        self.shared_ended.entries += watched.seen.losses.entries;
        self.shared_ended.returns += watched.seen.losses.returns;
        self.by_pid.remove(&watched.pid);
        self.probes.forget(watched.pid);
        let mut seen = std::mem::take(&mut watched.seen);
        seen.ended = ended;
        if let Some(mut calls) = watched.calls.take() {
            if self.options.sched {
                calls.leave_open(now(), |thread| self.probes.off_now(thread));
                for thread in calls.why.threads() {
                    self.probes.forget_thread(thread);
                }
            }
            if let Err(error) = calls.finish(ended) {
                watched.error = Some(error.to_string());
            }
            seen.open = calls.open();
            seen.rank = seen.rank.or_else(|| Some(calls.rank()?.to_string()));
            seen.counts = calls.counts;
            seen.sums = calls.why.sums;
            seen.longest = calls.why.longest;
            let ahead = clock(libc::CLOCK_REALTIME).wrapping_sub(now());
            for long in &mut seen.longest {
                long.began = long.began.wrapping_add(ahead);
            }
            seen.inits = calls.steps.finish();
        }
        self.write_error = watched.error.take().or(self.write_error.take());
        self.done.push(seen);
    }
}
