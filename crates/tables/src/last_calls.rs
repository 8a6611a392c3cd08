//! The newest calls of processes whose calls are shown part by part.
//!
//! [`LastCalls`] takes the parts of one process, and keeps so many calls. [`lend`] puts them into the capture
//! while something looks at it. Calls before them are only counted, as in the capture of a
//! [`Tail`](crate::Tail).
//!
//! Rule: if a process has no more calls than are kept, it is lent as [`Source::load`](crate::Source::load)
//! gives it.

use crate::calls::Extra;
use crate::composites::Composite;
use crate::sums::Sum;
use crate::{Call, Capture, Process};

/// See the module.
#[derive(Debug, Default)]
pub struct LastCalls {
    calls: Vec<Call>,
    extras: Vec<Extra>,
    composites: Vec<Composite>,
    /// Calls by shape, with those that are not kept.
    made: Vec<u64>,
    left_out: u64,
}

impl LastCalls {
    /// Takes the next part of a process, and keeps the `most` newest calls. Operations in pieces that are cut
    /// apart are left out. A process with such operations has one part.
    pub fn add(&mut self, process: &Process, most: usize) {
        let (made, new) = (&mut self.made, &process.calls);
        made.resize(process.shapes.len().max(made.len()), 0);
        for call in new {
            made[call.shape as usize] += 1;
        }
        let first = new.len().saturating_sub(most);
        let old = (self.calls.len() + new.len() - first).saturating_sub(most);
        self.left_out += (first + old) as u64;
        self.calls.drain(..old);
        self.drop_extras(2 * most);
        let mut numbers = vec![0; process.composites.len()];
        for (number, composite) in numbers.iter_mut().zip(&process.composites) {
            let place = |call: &u32| {
                let at = (*call as usize).checked_sub(first)?;
                u32::try_from(self.calls.len() + at).ok()
            };
            let Some(calls) = composite.calls.iter().map(place).collect() else {
                continue;
            };
            let (function, alone) = (composite.function, composite.alone);
            self.composites.push(Composite {
                function,
                calls,
                alone,
            });
            *number = self.composites.len() as u32;
        }
        let of = |number: u32| (number as usize).checked_sub(1);
        for call in &new[first..] {
            let mut call = *call;
            let extra = of(call.extra).and_then(|at| process.extras.get(at));
            call.extra = extra.map_or(0, |extra| {
                self.extras.push(*extra);
                self.extras.len() as u32
            });
            let composite = of(call.composite).and_then(|at| numbers.get(at));
            call.composite = composite.copied().unwrap_or(0);
            self.calls.push(call);
        }
    }

    /// Keeps the `least` newest calls, and all from the first on that the recorder held open: a GPU may stand
    /// in a call far behind those that its host makes.
    pub fn shrink(&mut self, least: usize) {
        let newest = self.calls.len().saturating_sub(least);
        let open = self.calls.iter().position(|call| !call.sealed);
        let first = open.map_or(newest, |open| open.min(newest));
        self.calls.drain(..first);
        self.left_out += first as u64;
        self.drop_extras(0);
        for (number, composite) in (1..).zip(&mut self.composites) {
            let place = |call: &u32| call.checked_sub(first as u32);
            match composite.calls.iter().map(place).collect() {
                Some(calls) => composite.calls = calls,
                None => {
                    composite.calls.clear();
                    let cut = self.calls.iter_mut();
                    let cut = cut.filter(|call| call.composite == number);
                    cut.for_each(|call| call.composite = 0);
                }
            }
        }
        self.calls.shrink_to_fit();
    }

    /// Drops the extras of calls that are not kept, once there are more than so many in all.
    fn drop_extras(&mut self, most: usize) {
        if self.extras.len() <= most {
            return;
        }
        let all = std::mem::take(&mut self.extras);
        for call in self.calls.iter_mut().filter(|call| call.extra != 0) {
            self.extras.push(all[call.extra as usize - 1]);
            call.extra = self.extras.len() as u32;
        }
    }

    /// Changes places with what the process has.
    fn swap(&mut self, process: &mut Process) {
        std::mem::swap(&mut self.calls, &mut process.calls);
        std::mem::swap(&mut self.extras, &mut process.extras);
        std::mem::swap(&mut self.composites, &mut process.composites);
    }
}

/// What `look` says of the capture with these calls, by process.
pub fn lend<T>(
    capture: &mut Capture,
    mut last: Vec<LastCalls>,
    look: impl FnOnce(&Capture) -> T,
) -> T {
    for (process, last) in capture.processes.iter_mut().zip(&mut last) {
        last.swap(process);
        process.forgotten += last.left_out;
        if last.left_out == 0 {
            continue;
        }
        let sum = |calls: &u64| Sum {
            calls: *calls,
            ..Sum::default()
        };
        process.sums = last.made.iter().map(sum).collect();
        process.sums.resize(process.shapes.len(), Sum::default());
        for total in &process.totals {
            process.sums[total.shape as usize].add_total(total);
        }
    }
    let found = look(capture);
    for (process, last) in capture.processes.iter_mut().zip(&mut last) {
        last.swap(process);
        process.forgotten -= last.left_out;
        process.sums = Vec::new();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    /// Calls with these tickets, each with an extra that has its ticket; every other one has another shape.
    fn part(tickets: std::ops::Range<u64>) -> Process {
        let mut part = Process {
            shapes: vec![Shape::default(); 2],
            ..Process::default()
        };
        for ticket in tickets {
            part.extras.push(Extra {
                bytes_sent: ticket,
                ..Extra::default()
            });
            part.calls.push(Call {
                ticket,
                shape: (ticket % 2) as u32,
                extra: part.extras.len() as u32,
                ..Call::default()
            });
        }
        part
    }

    /// Tickets that are kept, those of their extras, how many are left out, and calls by shape.
    fn lent(parts: &[Process], most: usize) -> (Vec<u64>, Vec<u64>, u64, Vec<u64>) {
        let mut last = LastCalls::default();
        for part in parts {
            last.add(part, most);
        }
        let mut capture = Capture::default();
        capture.processes.push(Process {
            calls: Vec::new(),
            extras: Vec::new(),
            ..part(0..0)
        });
        let found = lend(&mut capture, vec![last], |capture| {
            let process = &capture.processes[0];
            let extra = |call: &Call| process.extras[call.extra as usize - 1].bytes_sent;
            (
                process.calls.iter().map(|call| call.ticket).collect(),
                process.calls.iter().map(extra).collect(),
                process.forgotten,
                process.sums.iter().map(|sum| sum.calls).collect(),
            )
        });
        // It is as it was.
        let process = &capture.processes[0];
        assert!(process.calls.is_empty() && process.sums.is_empty());
        assert_eq!(process.forgotten, 0);
        found
    }

    #[test]
    fn the_newest_calls_of_all_parts_are_kept_and_the_others_counted() {
        let parts = [part(0..5), part(5..7), part(7..8)];
        let newest: Vec<u64> = (4..8).collect();
        assert_eq!(lent(&parts, 4), (newest.clone(), newest, 4, vec![4, 4]));
        let all: Vec<u64> = (0..8).collect();
        assert_eq!(lent(&parts, 8), (all.clone(), all, 0, Vec::new()));
        // A part that is larger than what is kept.
        assert_eq!(lent(&parts[..1], 1), (vec![4], vec![4], 4, vec![3, 2]));
        // Many small parts.
        let parts: Vec<Process> = (0..40).map(|at| part(at..at + 1)).collect();
        let mut last = LastCalls::default();
        parts.iter().for_each(|part| last.add(part, 3));
        assert!(last.extras.len() <= 7, "{}", last.extras.len());
        assert_eq!(lent(&parts, 3).1, [37, 38, 39]);
    }

    #[test]
    fn calls_from_an_open_one_on_are_kept_however_many_there_are() {
        let kept = |open: Option<usize>| {
            let mut part = part(0..9);
            for call in &mut part.calls {
                call.sealed = open != Some(call.ticket as usize);
            }
            let mut last = LastCalls::default();
            last.add(&part, 8);
            last.shrink(2);
            let extras = last.extras.iter().map(|extra| extra.bytes_sent);
            let tickets: Vec<u64> = last.calls.iter().map(|call| call.ticket).collect();
            assert_eq!(extras.collect::<Vec<_>>(), tickets);
            assert_eq!(last.left_out, 9 - tickets.len() as u64);
            tickets
        };
        assert_eq!(kept(None), [7, 8]);
        assert_eq!(kept(Some(8)), [7, 8]);
        assert_eq!(kept(Some(5)), [5, 6, 7, 8]);
        // So many are kept at most.
        assert_eq!(kept(Some(0)), [7, 8]);
    }

    #[test]
    fn an_operation_that_is_cut_apart_is_none() {
        let mut whole = part(0..6);
        let composite = |calls: [u32; 2]| Composite {
            function: crate::Name::default(),
            calls: calls.to_vec(),
            alone: true,
        };
        whole.composites = vec![composite([0, 1]), composite([2, 3]), composite([4, 5])];
        for (at, call) in whole.calls.iter_mut().enumerate() {
            call.composite = at as u32 / 2 + 1;
        }
        let mut last = LastCalls::default();
        last.add(&whole, 3);
        let composites: Vec<u32> = last.calls.iter().map(|call| call.composite).collect();
        assert_eq!(composites, [0, 1, 1]);
        assert_eq!(last.composites, [composite([1, 2])]);
        let composites = |last: &LastCalls| {
            let of = last.calls.iter().map(|call| call.composite);
            of.collect::<Vec<_>>()
        };
        last.calls.iter_mut().for_each(|call| call.sealed = true);
        last.shrink(2);
        assert_eq!(composites(&last), [1, 1]);
        assert_eq!(last.composites, [composite([0, 1])]);
        last.shrink(1);
        assert_eq!(composites(&last), [0]);
    }
}
