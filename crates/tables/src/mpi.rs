//! Time in MPI of a process: how often and for how long its threads were inside, and when.
//!
//! [`Gathered`] puts the blocks together. Times are realtime ns, on the same clock as calls.
//!
//! Rule: sums are of all calls that were seen. Spans may lack some, which [`Mpi::lost`] counts. After the
//! newest block nothing happened in MPI: a thread that was inside then is so until the recorder's newest
//! time.

use crate::clock::Clock;
use capture::mpi::{self, MpiCalls};
use std::collections::{BTreeMap, HashMap};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mpi {
    /// From when to when calls were seen; `None` if the process was not seen to call MPI, or has no clock.
    pub seen: Option<(i64, i64)>,
    /// Names of functions, by the numbers of spans.
    pub names: Vec<String>,
    /// By function, the longest time first.
    pub functions: Vec<MpiFunction>,
    /// When threads were inside, by thread and begin. What was open at the end is in here, too.
    pub spans: Vec<MpiSpan>,
    /// Calls that are in `functions` and in no span: there was no room for them, or their trace file is gone.
    pub lost: u64,
    /// Calls of threads beyond those that have times; in neither.
    pub untimed: u64,
}

/// All calls of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpiFunction {
    /// As in `mpi.h`.
    pub name: String,
    /// How many, without those that were still open.
    pub calls: u64,
    /// Time inside, ns.
    pub ns: u64,
}

/// One call, or several of one thread within 100 µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpiSpan {
    /// Linux's number of the thread.
    pub thread: Option<u32>,
    /// From when.
    pub from: i64,
    /// To when; of an open call, until when it was seen.
    pub to: i64,
    /// Time inside, ns; no more than from begin to end.
    pub inside: i64,
    /// How many calls.
    pub calls: u32,
    /// Index of the first one's function in [`Mpi::names`].
    pub function: u16,
    /// It was not over when the process was last seen.
    pub open: bool,
}

impl Mpi {
    /// The function of a span.
    pub fn name(&self, span: &MpiSpan) -> &str {
        self.names
            .get(usize::from(span.function))
            .map_or("", String::as_str)
    }

    /// The part of the spans of one thread between two moments: from when to when, and which share of that
    /// was inside.
    pub fn between(
        &self,
        thread: u32,
        (from, to): (i64, i64),
    ) -> impl Iterator<Item = ((i64, i64), f64)> + '_ {
        let key = |span: &MpiSpan| span.thread.unwrap_or(0);
        let first = self.spans.partition_point(|span| key(span) < thread);
        let end = self.spans.partition_point(|span| key(span) <= thread);
        let of = &self.spans[first..end];
        let first = of.partition_point(|span| span.to <= from);
        let of = of[first..].iter().take_while(move |span| span.from < to);
        of.map(move |span| {
            let length = (span.to - span.from).max(1) as f64;
            let part = (span.from.max(from), span.to.min(to));
            (part, (span.inside as f64 / length).min(1.0))
        })
    }
}

/// What the blocks of a process have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    /// The newest block, without its records and sums.
    newest: mpi::Mpi,
    /// The newest sum of each function.
    sums: BTreeMap<u32, mpi::FunctionSum>,
    records: Vec<MpiCalls>,
}

impl Gathered {
    /// Forgets all but the newest records.
    pub(crate) fn keep_newest(&mut self, records: usize) {
        let old = self.records.len().saturating_sub(records);
        self.records.drain(..old);
    }

    /// Takes a block; false if it is not well formed.
    pub(crate) fn of_block(&mut self, payload: &[u8]) -> bool {
        let Some(mut block) = mpi::read(payload) else {
            return false;
        };
        self.records.append(&mut block.records);
        for sum in std::mem::take(&mut block.sums) {
            // Blocks come in any order, and calls only grow.
            let known = self.sums.entry(sum.function).or_default();
            if sum.calls >= known.calls {
                *known = sum;
            }
        }
        if block.now >= self.newest.now {
            self.newest = block;
        }
        true
    }

    pub(crate) fn finish(self, clock: &Clock) -> Mpi {
        let Gathered {
            newest,
            sums,
            records,
        } = self;
        let ends = clock.realtime(newest.since).zip(clock.realtime(newest.now));
        let Some((since, now)) = ends else {
            return Mpi::default();
        };
        let seen = (since, now.max(clock.newest().unwrap_or(now)));
        let printable = |name: &str| crate::printable(name).into_owned();
        // The last one is for what is not known.
        let mut names: Vec<String> = sums.values().map(|sum| printable(&sum.name)).collect();
        names.push(String::new());
        let numbers: HashMap<u32, u16> = (sums.values().zip(0..))
            .map(|(sum, at)| (sum.function, at))
            .collect();
        let unknown = names.len() as u16 - 1;
        let mut functions: Vec<MpiFunction> = (sums.values())
            .map(|sum| MpiFunction {
                name: printable(&sum.name),
                calls: sum.calls,
                ns: clock.duration(sum.ticks).unwrap_or(0),
            })
            .collect();
        functions.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.name.cmp(&b.name)));
        let thread = |number: u32| Some(number).filter(|number| *number != 0);
        let closed = records.iter().filter_map(|record| {
            let (from, to) = (clock.realtime(record.from)?, clock.realtime(record.to)?);
            let inside = i64::try_from(clock.duration(record.inside)?).ok()?;
            Some(MpiSpan {
                thread: thread(record.thread),
                from,
                to,
                // Both are rounded.
                inside: match record.calls {
                    1 => to - from,
                    _ => inside.min(to - from),
                },
                calls: record.calls,
                function: numbers.get(&record.function).copied().unwrap_or(unknown),
                open: false,
            })
        });
        let mut spans: Vec<MpiSpan> = closed.collect();
        let in_spans: u64 = spans.iter().map(|span| u64::from(span.calls)).sum();
        let calls: u64 = sums.values().map(|sum| sum.calls).sum();
        spans.extend(newest.open.iter().filter_map(|open| {
            let from = clock.realtime(open.since)?;
            let name = printable(&open.name);
            let known = names.iter().position(|of| *of == name);
            let function = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            Some(MpiSpan {
                thread: thread(open.thread),
                from,
                to: seen.1.max(from),
                inside: (seen.1 - from).max(0),
                calls: 1,
                function: u16::try_from(function).unwrap_or(unknown),
                open: true,
            })
        }));
        spans.sort_by_key(|span| (span.thread.unwrap_or(0), span.from, span.to));
        Mpi {
            seen: Some(seen),
            names,
            functions,
            spans,
            lost: calls.saturating_sub(in_spans),
            untimed: newest.unseated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Anchor;
    use capture::mpi::{put_mpi, FunctionSum, ThreadInside};
    use capture::rows::Ticks;

    /// A clock of ns, on which tick 0 is the year 1970.
    fn clock() -> Clock {
        let anchor = Anchor {
            ticks: Ticks(1),
            realtime: 1,
            monotonic: 1,
        };
        Clock::new([anchor], true)
    }

    fn block(now: u64, calls: u64, records: &[(u32, u64, u64, u64, u32)]) -> Vec<u8> {
        let record = |(thread, from, to, inside, calls): &(u32, u64, u64, u64, u32)| MpiCalls {
            thread: *thread,
            from: Ticks(*from),
            to: Ticks(*to),
            inside: *inside,
            calls: *calls,
            function: 7,
        };
        let mut payload = Vec::new();
        let mpi = mpi::Mpi {
            since: Ticks(10),
            now: Ticks(now),
            sums: vec![FunctionSum {
                function: 7,
                calls,
                ticks: 10 * calls,
                name: "MPI_Wait".to_owned(),
            }],
            open: vec![ThreadInside {
                thread: 5,
                since: Ticks(now - 40),
                name: "MPI_Recv".to_owned(),
            }],
            records: records.iter().map(record).collect(),
            ..mpi::Mpi::default()
        };
        put_mpi(&mut payload, &mpi);
        payload
    }

    #[test]
    fn records_of_all_blocks_and_sums_of_the_newest() {
        let mut gathered = Gathered::default();
        assert!(gathered.of_block(&block(500, 4, &[(9, 100, 200, 60, 3), (5, 30, 50, 20, 1)])));
        assert!(gathered.of_block(&block(900, 5, &[(9, 600, 700, 100, 1)])));
        let mpi = gathered.finish(&clock());
        assert_eq!(mpi.seen, Some((10, 900)));
        let sum = &mpi.functions[0];
        assert_eq!((sum.name.as_str(), sum.calls, sum.ns), ("MPI_Wait", 5, 50));
        let names: Vec<&str> = mpi.spans.iter().map(|of| mpi.name(of)).collect();
        assert_eq!(names, ["MPI_Wait", "MPI_Recv", "MPI_Wait", "MPI_Wait"]);
        // The call that was open at the first block is over by the second, or was given up.
        let spans: Vec<_> = mpi
            .spans
            .iter()
            .map(|of| (of.thread, of.from, of.to, of.inside, of.open))
            .collect();
        let expected = [
            (Some(5), 30, 50, 20, false),
            (Some(5), 860, 900, 40, true),
            (Some(9), 100, 200, 60, false),
            (Some(9), 600, 700, 100, false),
        ];
        assert_eq!(spans, expected);
        let parts: Vec<_> = mpi.between(9, (150, 650)).collect();
        assert_eq!(parts, [((150, 200), 0.6), ((600, 650), 1.0)]);
        assert_eq!(mpi.between(6, (0, 1_000)).count(), 0);
        assert!(!Gathered::default().of_block(&[1, 2]));
    }

    #[test]
    fn a_process_without_mpi_has_none() {
        assert_eq!(Gathered::default().finish(&clock()), Mpi::default());
    }
}
