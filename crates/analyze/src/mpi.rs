//! Time in MPI: how long each rank's threads were inside of MPI, in what, and per step.
//!
//! [`mpi`] makes a [`Mpi`] of what recorders saw ([`tables::mpi`]). How much of a GPU's idle time its host
//! spent in MPI is in [`crate::streams::idle`].
//!
//! Rule: sums by function are of all calls that were seen. A step's time is from the calls that have times;
//! a call that began before a step counts in it from the step's begin on.

use crate::clocks::Clocks;
use crate::steps::Steps;
use crate::subject::ProcessId;
use crate::time::{seconds_of_us, HostTime, Nanos};
use crate::timeline::curves::{edges, over, SampledCurve};
use crate::timeline::Timeline;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Capture, Process};

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Mpi {
    /// By rank, those that called MPI.
    pub rows: Vec<MpiRow>,
    /// By function over all processes, the longest time first.
    pub functions: Vec<MpiFunction>,
}

/// Time in MPI of a process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MpiRow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// For how long calls were seen, s: from the process's first communicator on.
    pub seen_s: f64,
    /// Calls of functions of MPI that were over: from C, Python and Fortran, the outermost ones only.
    pub calls: u64,
    /// Time in MPI, summed over threads, µs.
    pub time_us: f64,
    /// Time in MPI as a share of the time since the first communicator; more than 1 if several threads were
    /// inside.
    pub share: f64,
    /// Collectives that were over, and their time with that of those that were not, µs; by function.
    #[serde(skip)]
    pub collectives: BTreeMap<String, (u64, f64)>,
    /// Time in sends, receives and probes, µs.
    pub point_to_point_us: f64,
    /// Time in collectives, and in what makes communicators, µs.
    pub collective_us: f64,
    /// Time in waits and tests for what was begun before, µs.
    pub waits_us: f64,
    /// Time in one-sided operations and their synchronisation, µs.
    pub one_sided_us: f64,
    /// Time in functions for files, µs.
    pub files_us: f64,
    /// Start and end of MPI, µs.
    pub other_us: f64,
    /// Mean time in MPI of a step, µs; null without steps.
    pub step_us: Option<f64>,
    /// The time in MPI of a step as a share of the mean step; null without steps.
    pub step_share: Option<f64>,
    /// The function that a thread was inside of when the process was last seen; null if none was.
    pub open: Option<String>,
    /// For how long, µs.
    pub open_us: Option<f64>,
    /// Calls whose times are not known: they are in no step and in no idle time.
    pub untimed: u64,
}

/// A function of MPI.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MpiFunction {
    /// Its name in `mpi.h`.
    pub function: String,
    /// Calls of all processes.
    pub calls: u64,
    /// Their time, µs.
    pub time_us: f64,
    /// Mean, µs.
    pub mean_us: f64,
    /// Processes that called it.
    pub ranks: u64,
}

/// The rank for which the others waited in collectives of MPI: it came last, so it was inside for the
/// shortest time.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitedFor {
    /// The launcher's rank.
    pub rank: u32,
    /// The function, if it was so in one only; null for all collectives together.
    pub function: Option<String>,
    /// Its time there, µs.
    pub time_us: f64,
    /// The others' times, µs: the shortest and the longest.
    pub others_us: (f64, f64),
    /// The longest as a share of that rank's time seen.
    pub share: f64,
}

impl Mpi {
    /// Which rank the others waited for, if one rank alone was there for clearly less time than all others:
    /// at most half of the shortest of theirs. In all collectives together, or else in the function in which
    /// most was waited: a rank that works before one of them may be in time for the rest. `world` is how
    /// many ranks the job has.
    ///
    /// `None` also if ranks differ in how many collectives they made, or if a rank is not here: it may be the
    /// one.
    pub fn waited_for(&self, world: Option<u32>) -> Option<WaitedFor> {
        let ranks: Option<BTreeSet<u32>> = self.rows.iter().map(|row| row.process.rank).collect();
        let is_whole =
            ranks?.len() == self.rows.len() && world == u32::try_from(self.rows.len()).ok();
        if !is_whole {
            return None;
        }
        let functions = self.rows.iter().flat_map(|row| row.collectives.keys());
        let functions: BTreeSet<&String> = functions.collect();
        let in_one = functions
            .into_iter()
            .filter_map(|function| self.waited_for_in(Some(function)));
        self.waited_for_in(None)
            .or_else(|| in_one.max_by(|a, b| a.others_us.0.total_cmp(&b.others_us.0)))
    }

    fn waited_for_in(&self, function: Option<&String>) -> Option<WaitedFor> {
        let of = |row: &MpiRow| {
            let all = row.collectives.iter();
            let all = all.filter(|(name, _)| function.is_none_or(|function| function == *name));
            all.fold((0, 0.0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1))
        };
        let mut rows: Vec<(u64, f64, &MpiRow)> = self
            .rows
            .iter()
            .map(|row| {
                let (calls, us) = of(row);
                (calls, us, row)
            })
            .collect();
        let least = rows.iter().map(|row| row.0).min()?;
        let most = rows.iter().map(|row| row.0).max()?;
        // One more may be under way.
        if least == 0 || most - least > 1 {
            return None;
        }
        rows.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (last, second, longest) = (rows[0], *rows.get(1)?, *rows.last()?);
        (last.1 <= second.1 / 2.0).then_some(WaitedFor {
            rank: last.2.process.rank?,
            function: function.cloned(),
            time_us: last.1,
            others_us: (second.1, longest.1),
            share: seconds_of_us(longest.1) / longest.2.seen_s,
        })
    }
}

/// What a function is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    PointToPoint,
    Collective,
    Waits,
    OneSided,
    Files,
    Other,
}

/// The kind of a function, by its name.
fn kind(name: &str) -> Purpose {
    let name = name.strip_prefix("MPI_").unwrap_or(name);
    let name = name.strip_suffix("_c").unwrap_or(name);
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    let one_sided = [
        "Put",
        "Get",
        "Accumulate",
        "Fetch_and_op",
        "Compare_and_swap",
        "Rput",
        "Rget",
        "Raccumulate",
    ];
    let lower = name.to_ascii_lowercase();
    let ends = |words: &[&str]| words.iter().any(|word| lower.ends_with(word));
    match name {
        "Init" | "Init_thread" | "Finalize" => Purpose::Other,
        _ if begins(&["File_"]) => Purpose::Files,
        _ if begins(&["Win_"]) || one_sided.contains(&name) || ends(&["et_accumulate"]) => {
            Purpose::OneSided
        }
        _ if begins(&["Wait", "Test", "Request_"]) => Purpose::Waits,
        _ if begins(&["Start"]) || ends(&["send", "recv", "recv_replace", "probe"]) => {
            Purpose::PointToPoint
        }
        _ => Purpose::Collective,
    }
}

/// Time in MPI of all processes; `None` if none called MPI.
pub(crate) fn mpi(capture: &Capture, steps: Option<&Steps>) -> Option<Mpi> {
    let mut rows: Vec<MpiRow> = capture
        .processes
        .iter()
        .filter_map(|process| row(process, steps))
        .collect();
    rows.sort_by_key(|row| {
        (
            row.process.rank.is_none(),
            row.process.rank,
            row.process.pid,
        )
    });
    let mut functions: BTreeMap<&str, MpiFunction> = BTreeMap::new();
    for of in capture
        .processes
        .iter()
        .flat_map(|process| &process.mpi.functions)
    {
        let sum = functions.entry(&of.name).or_insert_with(|| MpiFunction {
            function: of.name.clone(),
            calls: 0,
            time_us: 0.0,
            mean_us: 0.0,
            ranks: 0,
        });
        sum.calls += of.calls;
        sum.time_us += Nanos::from(of.ns).us();
        sum.ranks += 1;
    }
    let mut functions: Vec<MpiFunction> = functions.into_values().collect();
    for of in &mut functions {
        of.mean_us = of.time_us / of.calls.max(1) as f64;
    }
    functions.sort_by(|a, b| b.time_us.total_cmp(&a.time_us));
    (!rows.is_empty()).then_some(Mpi { rows, functions })
}

fn row(process: &Process, steps: Option<&Steps>) -> Option<MpiRow> {
    let mpi = &process.mpi;
    let (from, to) = mpi.seen?;
    let open = mpi.spans.iter().filter(|span| span.open);
    let open = open.max_by_key(|span| (span.inside, std::cmp::Reverse(span.thread)));
    let mut by_kind: Vec<(Purpose, f64)> = (mpi.functions.iter())
        .map(|of| (kind(&of.name), Nanos::from(of.ns).us()))
        .collect();
    // What was not over is in no sum.
    by_kind.extend(
        (mpi.spans.iter().filter(|span| span.open))
            .map(|span| (kind(mpi.name(span)), Nanos::from(span.inside).us())),
    );
    let of = |wanted: Purpose| {
        let of = by_kind.iter().filter(|(kind, _)| *kind == wanted);
        of.map(|(_, us)| us).sum::<f64>()
    };
    let time_us: f64 = by_kind.iter().map(|(_, us)| us).sum();
    let (step_us, step_share) = match steps.and_then(|steps| in_steps(process, steps)) {
        Some((us, share)) => (Some(us), Some(share)),
        None => (None, None),
    };
    let mut collectives: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    let over = mpi.functions.iter();
    let over = over.map(|of| (of.name.as_str(), of.calls, Nanos::from(of.ns).us()));
    let open_now = mpi.spans.iter().filter(|span| span.open);
    let open_now = open_now.map(|span| (mpi.name(span), 0, Nanos::from(span.inside).us()));
    for (name, calls, us) in over.chain(open_now) {
        if kind(name) == Purpose::Collective {
            let of = collectives.entry(name.to_owned()).or_default();
            *of = (of.0 + calls, of.1 + us);
        }
    }
    let seen = (HostTime(to) - HostTime(from)).max(Nanos(1.0));
    Some(MpiRow {
        process: ProcessId::of(process),
        seen_s: seconds_of_us(seen.us()),
        calls: mpi.functions.iter().map(|of| of.calls).sum(),
        time_us,
        share: time_us / seen.us(),
        collectives,
        point_to_point_us: of(Purpose::PointToPoint),
        collective_us: of(Purpose::Collective),
        waits_us: of(Purpose::Waits),
        one_sided_us: of(Purpose::OneSided),
        files_us: of(Purpose::Files),
        other_us: of(Purpose::Other),
        step_us,
        step_share,
        open: open.map(|span| mpi.name(span).to_owned()),
        open_us: open.map(|span| Nanos::from(span.inside).us()),
        untimed: mpi.lost + mpi.untimed,
    })
}

/// Mean time in MPI of a step, µs, and its share of the step.
fn in_steps(process: &Process, steps: &Steps) -> Option<(f64, f64)> {
    let row = steps.row_of(&process.host, process.pid)?;
    let spans = row.each.iter().filter_map(|step| {
        let from = HostTime(step.start_ns?);
        Some((from, from + Nanos::from(step.time_ns?)))
    });
    let mut threads: Vec<u32> = process
        .mpi
        .spans
        .iter()
        .map(|span| span.thread.unwrap_or(0))
        .collect();
    threads.dedup();
    let (mut inside, mut length, mut n) = (Nanos::ZERO, Nanos::ZERO, 0.0);
    for (from, to) in spans {
        length += to - from;
        n += 1.0;
        for thread in &threads {
            let parts = process.mpi.between(*thread, (from.0, to.0));
            let parts = parts.map(|(part, share)| (HostTime(part.1) - HostTime(part.0)) * share);
            inside += parts.sum();
        }
    }
    (length > Nanos::ZERO).then(|| ((inside / n).us(), inside / length))
}

/// Which part of the time threads of a process were inside of MPI, by bucket of `timeline`, over processes;
/// null where none was seen. Two threads that are inside all the time are 2.
pub(crate) fn curve(
    capture: &Capture,
    timeline: &Timeline,
    clocks: Option<&Clocks>,
) -> Option<SampledCurve> {
    let of = |process: &Process| {
        let edges = edges(timeline, &process.host, clocks);
        inside(&process.mpi, &edges)
    };
    over(&capture.processes.iter().filter_map(of).collect::<Vec<_>>())
}

/// Which part of the time threads were inside between each edge and the next; `None` where that was not seen.
fn inside(mpi: &tables::mpi::Mpi, edges: &[HostTime]) -> Option<Vec<Option<f64>>> {
    let (from, to) = mpi.seen?;
    let common = |edge: &[HostTime], (from, to): (HostTime, HostTime)| {
        (edge[1].min(to) - edge[0].max(from)).max(Nanos::ZERO)
    };
    let mut inside = vec![Nanos::ZERO; edges.len().saturating_sub(1)];
    for span in &mpi.spans {
        let (begin, end) = (HostTime(span.from), HostTime(span.to));
        // Several calls may be one span.
        let share = Nanos::from(span.inside) / (end - begin).max(Nanos(1.0));
        let after = edges.partition_point(|edge| *edge <= begin);
        let buckets = edges.windows(2).zip(&mut inside);
        let buckets = buckets.skip(after.saturating_sub(1));
        for (edge, inside) in buckets.take_while(|(edge, _)| edge[0] < end) {
            *inside += common(edge, (begin, end)) * share;
        }
    }
    let shares = edges.windows(2).zip(inside).map(|(edge, inside)| {
        let seen = common(edge, (HostTime(from), HostTime(to)));
        (seen > Nanos::ZERO).then(|| inside / seen)
    });
    Some(shares.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::{Step, StepsRow};
    use tables::mpi::{MpiFunction, MpiSpan};

    #[test]
    fn each_function_has_its_kind() {
        let expected = [
            (
                Purpose::PointToPoint,
                "Send Isend_c Recv Irecv Sendrecv Sendrecv_replace Iprobe Mprobe Start",
            ),
            (
                Purpose::PointToPoint,
                "Startall Mrecv Imrecv_c Isendrecv_replace_c Rsend Ssend Bsend",
            ),
            (
                Purpose::Collective,
                "Barrier Bcast_c Allreduce Gather Igatherv Neighbor_alltoallw Comm_split",
            ),
            (
                Purpose::Collective,
                "Reduce_scatter_block Iexscan Comm_dup Cart_create Scatter Scan",
            ),
            (
                Purpose::Waits,
                "Wait Waitall Test Testsome Request_get_status",
            ),
            (
                Purpose::OneSided,
                "Put Get Get_accumulate Rget_accumulate_c Win_fence Fetch_and_op Rput",
            ),
            (
                Purpose::Files,
                "File_open File_write_at_all_c File_iread File_read_all_begin",
            ),
            (Purpose::Other, "Init Init_thread Finalize"),
        ];
        for (wanted, names) in expected {
            for name in names.split(' ') {
                assert_eq!(kind(&format!("MPI_{name}")), wanted, "{name}");
            }
        }
    }

    const MS: i64 = 1_000_000;

    fn span(thread: u32, from: i64, to: i64, inside: i64, open: bool) -> MpiSpan {
        MpiSpan {
            thread: Some(thread),
            from: from * MS,
            to: to * MS,
            inside: inside * MS,
            calls: 1,
            function: u16::from(open),
            open,
        }
    }

    fn process() -> Process {
        Process {
            pid: 7,
            rank: Some(3),
            host: "node".to_owned(),
            mpi: tables::mpi::Mpi {
                seen: Some((0, 1_000 * MS)),
                names: ["MPI_Barrier", "MPI_Recv"].map(String::from).to_vec(),
                functions: vec![
                    MpiFunction {
                        name: "MPI_Barrier".to_owned(),
                        calls: 4,
                        ns: 65 * MS as u64,
                    },
                    MpiFunction {
                        name: "MPI_Wait".to_owned(),
                        calls: 1,
                        ns: 5 * MS as u64,
                    },
                ],
                spans: vec![
                    span(8, 100, 130, 30, false),
                    span(8, 190, 220, 15, false),
                    span(9, 350, 370, 20, false),
                    span(9, 950, 1_000, 50, true),
                ],
                lost: 2,
                untimed: 1,
            },
            ..Process::default()
        }
    }

    #[test]
    fn time_in_steps_is_what_lies_in_them() {
        let step = |start: i64| Step {
            start_ns: Some(start * MS),
            time_ns: Some(100 * MS as u64),
            communication_ns: None,
            end_ns: None,
        };
        let steps = Steps {
            source: Default::default(),
            rank: Some(3),
            step_us: None,
            steps: None,
            calls: None,
            communication_us: None,
            startup_us: None,
            between_us: None,
            without: 0,
            unlike: Vec::new(),
            times_ns: Vec::new(),
            rows: vec![StepsRow {
                process: ProcessId {
                    rank: Some(3),
                    host: "node".to_owned(),
                    pid: 7,
                },
                source: Default::default(),
                steps: 2,
                calls: 4,
                equal_parts: 1,
                times_repeat: 1,
                calls_beyond: 0,
                step_us: None,
                communication_us: None,
                startup_us: None,
                between_us: None,
                times_ns: Vec::new(),
                on_gpu: false,
                each: vec![step(110), step(300)],
            }],
        };
        let capture = Capture {
            processes: vec![process()],
            ..Capture::default()
        };
        let all = mpi(&capture, Some(&steps)).expect("MPI was loaded");
        let row = &all.rows[0];
        // 20 ms of the first span, 20 of 30 ms of the second, of which half was inside; and all of the third.
        assert_eq!(row.step_us, Some(25_000.0));
        assert_eq!(row.step_share, Some(0.25));
        assert_eq!((row.calls, row.untimed, row.seen_s), (5, 3, 1.0));
        assert_eq!((row.collective_us, row.waits_us), (65_000.0, 5_000.0));
        // It is still in MPI_Recv.
        assert_eq!(
            (row.point_to_point_us, row.open.as_deref()),
            (50_000.0, Some("MPI_Recv"))
        );
        assert_eq!((row.time_us, row.share), (120_000.0, 0.12));
        assert_eq!(all.functions[0].function, "MPI_Barrier");
        assert_eq!(all.functions[0].mean_us, 16_250.0);
    }

    #[test]
    fn the_rank_that_comes_last_is_waited_for() {
        let mpi = |rows: &[(u32, u64, i64)]| {
            let process = |(rank, calls, ms): &(u32, u64, i64)| Process {
                rank: Some(*rank),
                mpi: tables::mpi::Mpi {
                    seen: Some((0, 1_000 * MS)),
                    functions: vec![MpiFunction {
                        name: "MPI_Allreduce".to_owned(),
                        calls: *calls,
                        ns: (*ms * MS) as u64,
                    }],
                    ..tables::mpi::Mpi::default()
                },
                ..Process::default()
            };
            let capture = Capture {
                processes: rows.iter().map(process).collect(),
                ..Capture::default()
            };
            mpi(&capture, None).expect("MPI was loaded")
        };
        let found = mpi(&[(0, 40, 700), (1, 40, 3), (2, 41, 650)]).waited_for(Some(3));
        let found = found.expect("rank 1 is late");
        assert_eq!((found.rank, found.time_us, found.share), (1, 3_000.0, 0.7));
        assert_eq!(found.others_us, (650_000.0, 700_000.0));
        // In turn; another number of calls; a rank that is not here.
        for (rows, world) in [
            ([(0, 40, 700), (1, 40, 400), (2, 40, 650)], 3),
            ([(0, 40, 700), (1, 10, 3), (2, 40, 650)], 3),
            ([(0, 40, 700), (1, 40, 3), (2, 40, 650)], 4),
        ] {
            assert_eq!(mpi(&rows).waited_for(Some(world)), None, "{rows:?}");
        }
    }

    #[test]
    fn a_rank_that_is_late_to_one_kind_of_collective_is_waited_for_there() {
        let process = |(rank, barrier, allreduce): (u32, u64, u64)| {
            let function = |(name, ms): (&str, u64)| MpiFunction {
                name: name.to_owned(),
                calls: 60,
                ns: ms * MS as u64,
            };
            Process {
                rank: Some(rank),
                mpi: tables::mpi::Mpi {
                    seen: Some((0, 2_000 * MS)),
                    functions: [("MPI_Barrier", barrier), ("MPI_Allreduce", allreduce)]
                        .map(function)
                        .into(),
                    ..tables::mpi::Mpi::default()
                },
                ..Process::default()
            }
        };
        // Of all collectives together, rank 1 has more than half of the others' time.
        let capture = Capture {
            processes: [(0, 986, 480), (1, 296, 503), (2, 1221, 470)]
                .map(process)
                .into(),
            ..Capture::default()
        };
        let found = mpi(&capture, None).and_then(|mpi| mpi.waited_for(Some(3)));
        let found = found.expect("rank 1 is late");
        assert_eq!((found.rank, found.time_us), (1, 296_000.0));
        assert_eq!(found.function.as_deref(), Some("MPI_Barrier"));
    }

    #[test]
    fn a_job_without_mpi_has_none() {
        let capture = Capture {
            processes: vec![Process::default()],
            ..Capture::default()
        };
        assert_eq!(mpi(&capture, None), None);
    }

    #[test]
    fn time_in_mpi_is_divided_over_buckets() {
        let span = |from: i64, to: i64, inside: i64| MpiSpan {
            from,
            to,
            inside,
            ..MpiSpan::default()
        };
        let mpi = tables::mpi::Mpi {
            seen: Some((50, 350)),
            // The second is several calls, inside for half of the time.
            spans: vec![span(60, 150, 90), span(200, 300, 50)],
            ..tables::mpi::Mpi::default()
        };
        let found = inside(&mpi, &[0, 100, 200, 300, 400, 500].map(HostTime)).expect("it was seen");
        let wanted = [Some(0.8), Some(0.5), Some(0.5), Some(0.0), None];
        for (found, wanted) in found.iter().zip(wanted) {
            assert_eq!(found.map(|of| (of * 1e6).round() / 1e6), wanted);
        }
        assert_eq!(
            inside(&tables::mpi::Mpi::default(), &[0, 100].map(HostTime)),
            None
        );
    }
}
