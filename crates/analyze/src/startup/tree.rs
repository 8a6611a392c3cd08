//! The start of one process as a tree: its parts, the inits of communicators with NCCL's phases, first uses,
//! and below them what the driver was asked for.
//!
//! [`whole`] chooses the process that took longest. [`Calls`] has the calls of the driver that the recorder
//! noted in it ([`setup::timed_calls`]), and hands each of them out once.
//!
//! Rule: every share is of the whole. A part's time is what the clock showed, so the parts of a part may come
//! to less than it, and the rest is not known. If threads were in the driver at once, it counts once.

use super::ProcessRow;
use crate::coverage::Coverage;
use crate::first_uses::{self, FirstUse, START};
use crate::inits::{id, locals};
use crate::subject::ProcessId;
use crate::time::{HostTime, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use setup::log::{Init, PHASES};
use setup::timed_calls::TimedCall;
use std::collections::BTreeMap;
use tables::communicators::Local;
use tables::{Capture, Process};

/// The start of a process in parts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Whole {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// All parts together.
    pub total_s: f64,
    /// The parts, in their order.
    pub parts: Vec<WholePart>,
    /// Memory of the host that NCCL page-locked in this process, bytes: as its output says, or else as the
    /// recorder counted from its begin on. Null if neither is known.
    pub pinned_bytes: Option<u64>,
    /// Memory of the host that NCCL shares with other processes, bytes; null if its output is not recorded.
    pub shared_bytes: Option<u64>,
    /// Whether calls of the driver that may take long were noted one by one in this process.
    pub has_driver_calls: bool,
}

/// A part of the start of a process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WholePart {
    /// `to_init`, until NCCL first initialised its profiler plugin; `to_first_call`, from there to the first
    /// call; `first_uses`, what first uses took longer than later calls in the first minute of calls; or
    /// `later_inits`, inits of communicators in that minute.
    #[schemars(extend("enum" = ["to_init", "to_first_call", "first_uses", "later_inits"]))]
    pub part: &'static str,
    /// How long it took.
    pub time_s: f64,
    /// Its share of the total.
    pub share: f64,
    /// Inits of communicators in it, in their order; only with NCCL's output.
    pub inits: Vec<InitPart>,
    /// The first uses on this process, the longest first, for that part.
    pub first_uses: Vec<UsePart>,
    /// Calls of the driver in it and in no part of it, the longest first.
    pub driver_calls: Vec<DriverPart>,
}

/// The init of a communicator on the process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InitPart {
    /// The communicator; null if it is not known which one it is.
    pub communicator: Option<String>,
    /// Ranks in it.
    pub nranks: u32,
    /// How long it took, as NCCL says.
    pub time_s: f64,
    /// Its share of the total.
    pub share: f64,
    /// NCCL's phases that took some time, in their order.
    pub phases: Vec<PhasePart>,
    /// NCCL's calls of the driver in it, the longest first.
    pub driver_calls: Vec<DriverPart>,
}

/// A phase of an init.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhasePart {
    /// NCCL's name for it.
    #[schemars(extend("enum" = [
        "kernels", "alloc", "bootstrap", "allgathers", "topo", "graphs", "connections", "rest"
    ]))]
    pub phase: &'static str,
    /// How long it took.
    pub time_s: f64,
    /// Its share of the total.
    pub share: f64,
}

/// A first use on the process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UsePart {
    /// The use.
    #[serde(flatten)]
    pub first: FirstUse,
    /// What NCCL asked the driver for during the call, the longest first.
    pub driver_calls: Vec<DriverPart>,
}

/// Calls of the driver of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DriverPart {
    /// Who called: `nccl`, or `program`; null if NCCL is no library of its own, so that nobody knows.
    #[schemars(extend("enum" = ["nccl", "program", null]))]
    pub caller: Option<&'static str>,
    /// What was called, by the name of its counter, such as `ipc_opens` (`ncclscope explain` says what each
    /// is).
    pub counter: String,
    /// How many calls.
    pub calls: u64,
    /// Bytes that they allocated or mapped; null if they have none.
    pub bytes: Option<u64>,
    /// How long the process was in one of them.
    pub time_s: f64,
    /// That time's share of the total.
    pub share: f64,
}

/// NCCL's times are rounded to 10 ms, so an init may have begun this much earlier.
const ROUNDED: Nanos = Nanos::from_ms(5.0);

/// From when to when.
type Span = (HostTime, HostTime);

/// Calls of the driver that were not handed out yet.
struct Calls<'a> {
    left: Vec<&'a TimedCall>,
    /// Whether NCCL's calls are known from the program's.
    told_apart: bool,
    total_s: f64,
}

impl<'a> Calls<'a> {
    fn of(process: &'a Process, total_s: f64) -> Calls<'a> {
        let newest = process.setup.counts.last();
        Calls {
            left: process.setup.timed_calls.iter().collect(),
            told_apart: newest.is_none_or(|counts| counts.are_told_apart()),
            total_s,
        }
    }

    /// Takes out what began within that time: all, or only what NCCL asked for, if that is known.
    fn within(&mut self, span: Span, only_nccl: bool) -> Vec<DriverPart> {
        let only_nccl = only_nccl && self.told_apart;
        let fits = |call: &TimedCall| {
            (span.0..span.1).contains(&HostTime(call.at_ns)) && (call.by_nccl || !only_nccl)
        };
        let (taken, left) = self.left.iter().partition(|call| fits(call));
        self.left = left;
        self.parts(taken, span.1)
    }

    fn parts(&self, calls: Vec<&TimedCall>, until: HostTime) -> Vec<DriverPart> {
        let mut kinds: BTreeMap<(bool, &str), Vec<&TimedCall>> = BTreeMap::new();
        for call in calls {
            let kind = (call.by_nccl, call.of.as_str());
            kinds.entry(kind).or_default().push(call);
        }
        let parts = kinds.into_iter().map(|((by_nccl, counter), calls)| {
            let mut spans = Coverage::default();
            for call in &calls {
                let begin = HostTime(call.at_ns);
                let end = (begin + Nanos::from(call.took_ns)).min(until);
                spans.push(begin.0.max(0) as u64, end.0.max(0) as u64);
            }
            let time_s = Nanos::from(spans.union()).seconds();
            let bytes = calls
                .iter()
                .fold(0u64, |sum, c| sum.saturating_add(c.bytes));
            DriverPart {
                caller: (self.told_apart).then_some(if by_nccl { "nccl" } else { "program" }),
                counter: counter.to_owned(),
                calls: calls.len() as u64,
                bytes: (bytes > 0).then_some(bytes),
                time_s,
                share: time_s / self.total_s,
            }
        });
        let mut parts: Vec<DriverPart> = parts.collect();
        parts.sort_by(|a, b| b.time_s.total_cmp(&a.time_s));
        parts
    }
}

/// When NCCL made a communicator.
fn created(local: &Local) -> Option<HostTime> {
    local.created_ns.map(HostTime)
}

/// What is known of one process's start before it is put together.
struct Start<'a> {
    process: &'a Process,
    index: usize,
    row: &'a ProcessRow,
    /// When NCCL first initialised the plugin, and when the first call began.
    made: Option<HostTime>,
    called: Option<HostTime>,
    /// Inits with their phases, when they ended, and which communicators they made.
    inits: Vec<(&'a Init, HostTime, Option<&'a Local>)>,
}

impl<'a> Start<'a> {
    fn new(
        process: &'a Process,
        index: usize,
        row: &'a ProcessRow,
        uses: &first_uses::Gatherer,
    ) -> Start<'a> {
        let made = process.communicators.iter().filter_map(created);
        let inits = process.setup.inits.iter().zip(locals(process));
        let mut inits: Vec<_> = inits
            .filter_map(|(init, local)| {
                init.timings?;
                let said = init.completed_s.map(HostTime::from_seconds);
                let ended = said.or_else(|| created(local?))?;
                Some((init, ended, local))
            })
            .collect();
        inits.sort_by_key(|(_, ended, _)| *ended);
        Start {
            process,
            index,
            row,
            made: made.min(),
            called: uses.begun(index),
            inits,
        }
    }

    /// Inits that end within that time. That of the plugin comes shortly before the end of an init, which
    /// belongs to what is before.
    fn inits(&self, part: &str) -> Vec<(&'a Init, HostTime, Option<&'a Local>)> {
        let of = |ended: HostTime, local: Option<&Local>| {
            let made = local.and_then(created).unwrap_or(ended);
            match (self.made, self.called) {
                (Some(first), _) if made <= first => "to_init",
                (_, Some(called)) if made > called + START => "",
                (_, Some(called)) if made > called => "later_inits",
                _ => "to_first_call",
            }
        };
        let all = self.inits.iter().copied();
        all.filter(|(_, ended, local)| of(*ended, *local) == part)
            .collect()
    }

    fn parts(&self, uses: &first_uses::Gatherer) -> [(&'static str, Option<f64>); 4] {
        let row = self.row;
        let after_init = row.to_first_call_s.zip(row.to_init_s);
        let after_init = after_init.map(|(call, init)| (call - init).max(0.0));
        let later = self.inits("later_inits");
        let later = later
            .iter()
            .filter_map(|(init, ..)| Some(init.timings?.total_s));
        [
            ("to_init", row.to_init_s),
            ("to_first_call", after_init.or(row.to_first_call_s)),
            ("first_uses", Some(uses.in_start_s(self.index))),
            ("later_inits", Some(later.sum())),
        ]
    }

    fn total_s(&self, uses: &first_uses::Gatherer) -> f64 {
        let parts = self.parts(uses);
        parts.iter().filter_map(|(_, time_s)| *time_s).sum()
    }

    fn init_parts(&self, part: &str, capture: &Capture, calls: &mut Calls) -> Vec<InitPart> {
        let inits = self.inits(part).into_iter();
        let parts = inits.filter_map(|(init, ended, local)| {
            let timings = init.timings?;
            let begun = ended - Nanos::from_seconds(timings.total_s) - ROUNDED;
            // A thread that did not run for a while says late that its init is done.
            let said = init.started_s.map_or(begun, HostTime::from_seconds);
            let begun = begun.min(said);
            let phases = PHASES.iter().zip(timings.phases_s);
            Some(InitPart {
                communicator: local.and_then(|local| id(capture, self.index, local)),
                nranks: init.nranks,
                time_s: timings.total_s,
                share: timings.total_s / calls.total_s,
                phases: phases
                    .filter(|(_, time_s)| *time_s > 0.0)
                    .map(|(phase, time_s)| PhasePart {
                        phase,
                        time_s,
                        share: time_s / calls.total_s,
                    })
                    .collect(),
                driver_calls: calls.within((begun, ended), true),
            })
        });
        parts.collect()
    }

    /// Memory of the host that NCCL page-locked and shares.
    fn host_memory(&self) -> [Option<u64>; 2] {
        let said: Vec<_> = (self.process.setup.inits.iter())
            .filter(|init| !init.memory.steps.is_empty())
            .map(|init| init.memory.total())
            .collect();
        if said.is_empty() {
            let counts = self.process.setup.counts.last();
            let counts = counts.filter(|counts| counts.are_told_apart());
            return [counts.map(|counts| counts.get("nccl.host_bytes")), None];
        }
        let sum = |of: fn(&setup::memory::Sizes) -> u64| Some(said.iter().map(of).sum());
        [sum(|sizes| sizes.pinned), sum(|sizes| sizes.shared)]
    }
}

/// The start of the process where that took longest, in parts. `rows` are in the order of the capture.
pub(super) fn whole(
    capture: &Capture,
    rows: &[ProcessRow],
    uses: &first_uses::Gatherer,
) -> Option<Whole> {
    let all = capture.processes.iter().zip(rows).enumerate();
    let all = all.map(|(index, (process, row))| Start::new(process, index, row, uses));
    let totals = all.map(|start| {
        let total_s = start.total_s(uses);
        (start, total_s)
    });
    let (start, total_s) = totals.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    if total_s <= 0.0 {
        return None;
    }
    let mut calls = Calls::of(start.process, total_s);
    let mut parts = Vec::new();
    for (part, time_s) in start.parts(uses) {
        let Some(time_s) = time_s.filter(|time_s| *time_s > 0.0) else {
            continue;
        };
        let inits = start.init_parts(part, capture, &mut calls);
        let first_uses = match part {
            "first_uses" => uses.of_process(capture, start.index),
            _ => Vec::new(),
        };
        let first_uses = first_uses.into_iter().map(|first| {
            let (begun, took) = first.call;
            let driver_calls = calls.within((begun, begun + took), true);
            UsePart {
                first,
                driver_calls,
            }
        });
        let first_uses = first_uses.collect();
        let always = HostTime(i64::MIN);
        let span = match (part, start.made, start.called) {
            ("to_init", Some(made), _) => Some((always, made)),
            ("to_first_call", made, Some(called)) => Some((made.unwrap_or(always), called)),
            _ => None,
        };
        parts.push(WholePart {
            part,
            time_s,
            share: time_s / total_s,
            inits,
            first_uses,
            driver_calls: span.map_or(Vec::new(), |span| calls.within(span, false)),
        });
    }
    let [pinned_bytes, shared_bytes] = start.host_memory();
    let counts = start.process.setup.counts.last();
    Some(Whole {
        process: start.row.process.clone(),
        total_s,
        parts,
        pinned_bytes,
        shared_bytes,
        has_driver_calls: counts.is_some_and(|counts| counts.are_timed()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use setup::counts::Counts;
    use setup::log::Timings;
    use tables::{Call, Shape};

    const S: i64 = 1_000_000_000;
    const MS: i64 = 1_000_000;

    fn call(of: &str, by_nccl: bool, thread: u32, at_ns: i64, took_ms: u64) -> TimedCall {
        TimedCall {
            of: of.to_owned(),
            by_nccl,
            thread,
            at_ns,
            took_ns: took_ms * MS as u64,
            bytes: if of == "gpu_allocations" { 100 } else { 0 },
        }
    }

    /// A process that began at 10 s and made its communicator at 12 s. It made a second one until 13 s and
    /// called NCCL first at 14 s, for 250 ms.
    fn capture(told_apart: u64) -> Capture {
        let mut capture = Capture::default();
        let function = capture.names.intern("AllReduce");
        let ring = |ticket: u64, api_ns: i64, host_ns: i64| Call {
            ticket,
            api_ns,
            return_ns: api_ns + host_ns,
            sealed: true,
            ..Call::default()
        };
        let mut process = Process {
            rank: Some(3),
            shapes: vec![Shape {
                uid: 1,
                function,
                ..Shape::default()
            }],
            calls: vec![ring(0, 14 * S, 250 * MS), ring(1, 15 * S, 50 * MS)],
            facts: [("started", "12000000000"), ("process_age_ms", "2000")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Process::default()
        };
        for (uid, made, total_s) in [(1, 12, 1.5), (2, 13, 0.5)] {
            process.communicators.push(Local {
                uid,
                hash: u64::from(uid),
                nranks: 8,
                created_ns: Some(made * S),
                ..Local::default()
            });
            let mut phases_s = [0.0; PHASES.len()];
            phases_s[0] = total_s;
            process.setup.inits.push(Init {
                id: Some(u64::from(uid)),
                nranks: 8,
                timings: Some(Timings { total_s, phases_s }),
                ..Init::default()
            });
        }
        process.setup.counts.push(Counts {
            at_ns: 20 * S,
            of: [("told_apart", told_apart), ("timed", 1)]
                .map(|(name, n)| (name.to_owned(), n))
                .into(),
        });
        process.setup.timed_calls = vec![
            // In the second init; two threads at once.
            call("gpu_allocations", true, 1, 12_600 * MS, 100),
            call("gpu_allocations", true, 2, 12_650 * MS, 100),
            // The program's, meanwhile and later.
            call("module_loads", false, 3, 12_700 * MS, 200),
            call("module_loads", false, 3, 13_500 * MS, 100),
            // In the first call: NCCL's, and the program's of another thread. One goes on behind it.
            call("ipc_opens", true, 1, 14_010 * MS, 40),
            call("ipc_opens", true, 1, 14_240 * MS, 40),
            call("gpu_allocations", false, 3, 14_020 * MS, 5),
        ];
        capture.processes.push(process);
        capture
    }

    fn whole(told_apart: u64) -> Whole {
        let startup = crate::report(&capture(told_apart)).startup;
        startup.whole.expect("known")
    }

    /// Caller, counter, calls and ms.
    fn of(parts: &[DriverPart]) -> Vec<(&str, &str, u64, u64)> {
        let ms = |part: &DriverPart| (1e3 * part.time_s).round() as u64;
        let parts = parts.iter();
        let of = |p: &'_ DriverPart| (p.calls, ms(p));
        parts
            .map(|p| {
                let caller = p.caller.unwrap_or("-");
                (caller, p.counter.as_str(), of(p).0, of(p).1)
            })
            .collect()
    }

    #[test]
    fn each_call_of_the_driver_is_in_the_part_that_it_was_made_in() {
        let whole = whole(1);
        let parts: Vec<&str> = whole.parts.iter().map(|part| part.part).collect();
        assert_eq!(parts, ["to_init", "to_first_call", "first_uses"]);
        let [to_init, to_first_call, first_uses] = whole.parts.as_slice() else {
            panic!("{whole:?}");
        };
        // 2 s, 2 s, and what the first call took longer than the next one.
        assert!((whole.total_s - 4.2).abs() < 1e-9, "{whole:?}");
        assert_eq!((to_init.inits.len(), to_init.inits[0].time_s), (1, 1.5));
        assert_eq!(to_init.inits[0].phases[0].phase, "kernels");
        assert!(to_init.driver_calls.is_empty() && to_init.inits[0].driver_calls.is_empty());
        let init = &to_first_call.inits[0];
        assert_eq!(
            of(&init.driver_calls),
            [("nccl", "gpu_allocations", 2, 150)]
        );
        assert_eq!(init.driver_calls[0].bytes, Some(200));
        assert!((init.driver_calls[0].share - 0.15 / 4.2).abs() < 1e-9);
        assert_eq!(
            of(&to_first_call.driver_calls),
            [("program", "module_loads", 2, 300)]
        );
        let first = &first_uses.first_uses[0];
        assert_eq!(of(&first.driver_calls), [("nccl", "ipc_opens", 2, 50)]);
        assert_eq!(first.driver_calls[0].bytes, None);
        let shares: f64 = whole.parts.iter().map(|part| part.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        assert!(whole.has_driver_calls);
    }

    /// The first call in the second init begins 4 ms before what NCCL's rounded times say.
    #[test]
    fn an_init_begins_when_it_said_so_or_as_early_as_its_rounded_times_allow() {
        let calls = |of: &dyn Fn(&mut Init)| {
            let mut capture = capture(1);
            let process = &mut capture.processes[0];
            process.setup.timed_calls[0].at_ns = 12_496 * MS;
            of(&mut process.setup.inits[1]);
            let whole = crate::report(&capture).startup.whole.expect("known");
            whole.parts[1].inits[0].driver_calls[0].calls
        };
        assert_eq!(calls(&|_| ()), 2);
        // The thread did not run for 20 ms before it said that it was done.
        let late = |init: &mut Init| init.completed_s = Some(13.02);
        assert_eq!(calls(&late), 1);
        let said = |init: &mut Init| {
            late(init);
            init.started_s = Some(12.49);
        };
        assert_eq!(calls(&said), 2);
    }

    #[test]
    fn if_nobody_knows_who_called_a_first_use_has_all_calls() {
        let whole = whole(0);
        let first = &whole.parts[2].first_uses[0];
        assert_eq!(first.driver_calls.len(), 2);
        let all = whole.parts.iter().flat_map(|part| &part.driver_calls);
        let mut all = all.chain(&first.driver_calls);
        assert!(all.all(|part| part.caller.is_none()), "{whole:?}");
    }

    #[test]
    fn inits_behind_the_first_call_are_a_part() {
        let mut capture = capture(1);
        let process = &mut capture.processes[0];
        process.communicators[1].created_ns = Some(17 * S);
        let startup = crate::report(&capture).startup;
        let whole = startup.whole.expect("known");
        let last = whole.parts.last().expect("parts");
        assert_eq!(
            (last.part, last.time_s, last.inits.len()),
            ("later_inits", 0.5, 1)
        );
        // What comes a minute later is not of the start.
        capture.processes[0].communicators[1].created_ns = Some(80 * S);
        let startup = crate::report(&capture).startup;
        assert_eq!(startup.whole.expect("known").parts.len(), 3);
    }
}
