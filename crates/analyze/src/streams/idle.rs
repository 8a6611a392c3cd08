//! Why a GPU was idle: what the thread that launches on it did meanwhile.
//!
//! [`add`] takes one window of a GPU. For each stretch in which nothing ran, the thread that launched what
//! came next is known from what the driver was asked for. The node sampler saw when that thread was off its
//! CPU ([`tables::nodes::Switches`]), or how its counters grew between two ticks. [`Parts`] sums up, and
//! [`Parts::causes`] gives shares of the time. Time in MPI comes from the recorder itself
//! ([`tables::mpi`]), also without a sampler.
//!
//! Rule: the causes and what is not known are all of the idle time. A stretch in which the thread was not
//! watched is not known.

use super::intervals::{length, Span, Union};
use super::window::Seen;
use crate::time::Nanos;
use capture::samples::{THREAD_IN_IO, THREAD_READY, THREAD_RUNNING};
use capture::windows::DriverCallKind;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use tables::nodes::{Series, Switches};
use tables::windows::{DriverCall, GpuActivity, Window};
use tables::{Capture, Node, Process};

/// What a GPU's host did while the GPU was idle: shares of the time that windows show. Together they are
/// `idle`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct IdleCauses {
    /// `switches`: the kernel's records of context switches. `schedstat`: its counters, read at ticks. `mpi`:
    /// time in MPI alone is known.
    #[schemars(extend("enum" = ["switches", "schedstat", "mpi"]))]
    pub source: &'static str,
    /// The launching thread was in MPI, whatever it did there.
    pub mpi: f64,
    /// It ran, and neither in MPI nor in the driver: Python or a library kept it busy.
    pub program: f64,
    /// It was in calls of CUDA's driver, and ran.
    pub driver: f64,
    /// It was ready, and the scheduler ran others.
    pub preempted: f64,
    /// It waited for a disk, by the samples of its state.
    pub disk: f64,
    /// It waited for a lock, a socket, another thread, or the GPU.
    pub blocked: f64,
    /// It was not watched.
    pub unknown: f64,
    /// Mean time of a step of this process, µs: a share times that is the time per step. Null without steps.
    pub step_us: Option<f64>,
}

/// Idle time by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    mpi: Nanos,
    program: Nanos,
    driver: Nanos,
    preempted: Nanos,
    disk: Nanos,
    blocked: Nanos,
    unknown: Nanos,
    /// Of these, from counters.
    counted: Nanos,
}

impl Parts {
    pub fn add(&mut self, other: Parts) {
        self.mpi += other.mpi;
        self.program += other.program;
        self.driver += other.driver;
        self.preempted += other.preempted;
        self.disk += other.disk;
        self.blocked += other.blocked;
        self.unknown += other.unknown;
        self.counted += other.counted;
    }

    fn known(&self) -> Nanos {
        self.mpi + self.program + self.driver + self.preempted + self.disk + self.blocked
    }

    /// So much of it.
    fn times(self, share: f64) -> Parts {
        Parts {
            mpi: self.mpi * share,
            program: self.program * share,
            driver: self.driver * share,
            preempted: self.preempted * share,
            disk: self.disk * share,
            blocked: self.blocked * share,
            unknown: self.unknown * share,
            counted: self.counted * share,
        }
    }

    /// Shares of the time of windows that are so long together. `None` if the host was not watched.
    pub fn causes(&self, seen: Nanos) -> Option<IdleCauses> {
        if self.known() <= Nanos::ZERO || seen <= Nanos::ZERO {
            return None;
        }
        let share = |part: Nanos| part / seen;
        Some(IdleCauses {
            source: match self.known() - self.mpi {
                Nanos(0.0) => "mpi",
                watched if self.counted * 2.0 > watched => "schedstat",
                _ => "switches",
            },
            mpi: share(self.mpi),
            program: share(self.program),
            driver: share(self.driver),
            preempted: share(self.preempted),
            disk: share(self.disk),
            blocked: share(self.blocked),
            unknown: share(self.unknown),
            step_us: None,
        })
    }
}

/// A thread, as the sampler saw it.
struct Thread<'a> {
    switches: Option<&'a Switches>,
    running: Option<&'a Series>,
    ready: Option<&'a Series>,
    /// Of the time in which it slept: it waited for a disk.
    disk: f64,
    /// When it was in the driver.
    asked: Union,
}

/// What the host did while the GPU with these records was idle.
pub(super) fn parts(
    capture: &Capture,
    process: &Process,
    window: &Window,
    seen: &Seen,
    ran: &[GpuActivity],
) -> Parts {
    let node = capture.nodes.iter().find(|node| node.host == process.host);
    let busy = Union::of(ran.iter().map(|r| (r.start, r.end)).collect());
    let idle = Union::of(vec![seen.span]).without(&busy);
    let mut launches: Vec<&DriverCall> = (window.asked.iter())
        .filter(|a| {
            matches!(
                a.kind,
                DriverCallKind::Launch | DriverCallKind::LaunchGraph | DriverCallKind::Copy
            )
        })
        .collect();
    launches.sort_by_key(|asked| asked.at);
    let mut threads: HashMap<u32, Thread> = HashMap::new();
    let mut all = Parts::default();
    for span in idle.spans() {
        // The GPU runs what was launched last before it was busy again.
        let launch = launches.partition_point(|asked| asked.at <= span.1);
        let by = launch.checked_sub(1).map(|at| launches[at].thread);
        let Some(tid) = by else {
            all.unknown += length(*span);
            continue;
        };
        let thread = node.map(|node| {
            let thread = threads.entry(tid);
            &*thread.or_insert_with(|| thread_of(node, process.pid, tid, window))
        });
        let did = |span: Span| match thread {
            Some(thread) => thread.between(span),
            None => Parts {
                unknown: length(span),
                ..Parts::default()
            },
        };
        // In MPI first, and what is left by what the thread did.
        let mut at = span.0;
        for (part, inside) in process.mpi.between(tid, *span) {
            all.add(did((at.min(part.0), part.0)));
            all.mpi += length(part) * inside;
            all.add(did(part).times(1.0 - inside));
            at = part.1;
        }
        all.add(did((at, span.1)));
    }
    all
}

fn thread_of<'a>(node: &'a Node, pid: u32, tid: u32, window: &Window) -> Thread<'a> {
    let prefix = format!("{pid}/{tid}/");
    let series = |name: &'static str| {
        let mut named = node.series.iter().filter(move |series| series.name == name);
        named.find(|series| series.of.starts_with(&prefix))
    };
    let (running, ready) = (series(THREAD_RUNNING), series(THREAD_READY));
    let of = window.asked.iter().filter(|asked| asked.thread == tid);
    let asked = of.map(|asked| (asked.at, asked.at.saturating_add_unsigned(asked.took)));
    let grown = |series: Option<&Series>| {
        let points = &series?.points;
        Some((points.last()?.1).saturating_sub(points.first()?.1) as f64)
    };
    let length = running.and_then(|of| Some((of.points.last()?.0 - of.points.first()?.0) as f64));
    // Samples of the state say how much of all time was a wait for a disk, counters how much it slept.
    let disk = series(THREAD_IN_IO)
        .zip(length)
        .and_then(|(in_io, length)| {
            let seen = in_io.points.iter().filter(|(_, is)| *is != 0).count();
            let slept = length - grown(running)? - grown(ready)?;
            Some(seen as f64 / in_io.points.len() as f64 * length / slept)
        });
    Thread {
        switches: node
            .switches
            .iter()
            .find(|of| of.thread() == Some((pid, tid))),
        running,
        ready,
        disk: disk
            .filter(|share| share.is_finite())
            .unwrap_or(0.0)
            .clamp(0.0, 1.0),
        asked: Union::of(asked.collect()),
    }
}

impl Thread<'_> {
    fn between(&self, span: Span) -> Parts {
        let length = length(span);
        if length <= Nanos::ZERO {
            return Parts::default();
        }
        let switches = self
            .switches
            .filter(|switches| switches.covers(span.0, span.1));
        let (preempted, slept) = match (switches, self.counted(span)) {
            (Some(switches), _) => {
                let [preempted, slept] = switches.off_between(span.0, span.1);
                (Nanos::from(preempted), Nanos::from(slept))
            }
            (None, Some(counted)) => counted,
            (None, None) => {
                return Parts {
                    unknown: length,
                    ..Parts::default()
                }
            }
        };
        let ran = (length - preempted - slept).max(Nanos::ZERO);
        // A thread that sleeps in the driver is blocked; how much it ran there is not counted apart.
        let in_driver = self.asked.covers(span);
        let driver = (in_driver - self.off_in_driver(switches, span)).clamp(Nanos::ZERO, ran);
        Parts {
            mpi: Nanos::ZERO,
            program: ran - driver,
            driver,
            preempted,
            disk: slept * self.disk,
            blocked: slept * (1.0 - self.disk),
            unknown: Nanos::ZERO,
            counted: if switches.is_none() {
                length
            } else {
                Nanos::ZERO
            },
        }
    }

    /// Time in a span in which the thread was off its CPU within the driver.
    fn off_in_driver(&self, switches: Option<&Switches>, span: Span) -> Nanos {
        let Some(switches) = switches else {
            return Nanos::ZERO;
        };
        let asked = self.asked.within(span);
        let off = asked
            .spans()
            .iter()
            .map(|of| switches.off_between(of.0, of.1));
        off.map(|[preempted, slept]| Nanos::from(preempted + slept))
            .sum()
    }

    /// By counters: ready, and asleep, as they grew between the ticks around a span.
    fn counted(&self, span: Span) -> Option<(Nanos, Nanos)> {
        let ran = growth(&self.running?.points, span)?;
        let ready = growth(&self.ready?.points, span)?.min(1.0 - ran);
        let length = length(span);
        Some((length * ready, length * (1.0 - ran - ready)))
    }
}

/// By how much of the time a counter of ns grew between the ticks around a span, 0 to 1.
fn growth(points: &[(i64, u64)], span: Span) -> Option<f64> {
    let first = points
        .partition_point(|(at, _)| *at <= span.0)
        .checked_sub(1)?;
    let last = points.partition_point(|(at, _)| *at < span.1);
    let (a, b) = (points[first], points.get(last)?);
    let grown = b.1.saturating_sub(a.1) as f64 / (b.0 - a.0).max(1) as f64;
    Some(grown.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::windows::ActivityKind;
    use tables::nodes::Off;

    const US: i64 = 1_000;
    const BEGIN: i64 = 1_000_000_000;

    fn at(us: i64) -> i64 {
        BEGIN + us * US
    }

    fn kernel(from: i64, to: i64) -> GpuActivity {
        GpuActivity {
            kind: ActivityKind::Kernel,
            start: at(from),
            end: at(to),
            name: 0,
            device: 0,
            stream: 0,
            correlation: 0,
            graph: 0,
            node: 0,
            size: 0,
        }
    }

    fn launch(us: i64, took: u64, thread: u32) -> DriverCall {
        DriverCall {
            at: at(us),
            took: took * US as u64,
            kind: DriverCallKind::Launch,
            thread,
            stream: 0,
            object: 0,
        }
    }

    fn seen() -> Seen {
        Seen {
            span: (at(0), at(1_000)),
            ..Seen::default()
        }
    }

    fn on(node: Node, asked: Vec<DriverCall>, ran: &[GpuActivity]) -> Parts {
        let capture = Capture {
            nodes: vec![node],
            ..Capture::default()
        };
        let process = Process {
            pid: 7,
            host: "node".to_owned(),
            ..Process::default()
        };
        let window = Window {
            asked,
            ..Window::default()
        };
        parts(&capture, &process, &window, &seen(), ran)
    }

    #[test]
    fn idle_time_is_what_the_launching_thread_did() {
        let off = |from, to, preempted| Off {
            from: at(from) as u64,
            to: at(to) as u64,
            preempted,
        };
        let switches = |tid: u32, off: Vec<Off>| Switches {
            of: format!("7/{tid}/python"),
            spans: vec![(at(-50), at(900))],
            off,
        };
        let node = Node {
            host: "node".to_owned(),
            switches: vec![
                switches(7, vec![off(0, 400, false)]),
                switches(9, vec![off(120, 180, true), off(500, 560, false)]),
            ],
            ..Node::default()
        };
        // Idle from 100 to 300 and from 400 to 600, which thread 9 ended, and from 950 to 1000, when it was
        // no longer watched. The other thread launches nothing then.
        let asked = vec![
            launch(-10, 5, 7),
            launch(290, 10, 9),
            launch(595, 5, 9),
            launch(990, 5, 9),
        ];
        let ran = [kernel(0, 100), kernel(300, 400), kernel(600, 950)];
        let parts = on(node, asked, &ran);
        let expected = Parts {
            mpi: Nanos::ZERO,
            program: Nanos::US * 265.0,
            driver: Nanos::US * 15.0,
            preempted: Nanos::US * 60.0,
            disk: Nanos::ZERO,
            blocked: Nanos::US * 60.0,
            unknown: Nanos::US * 50.0,
            counted: Nanos::ZERO,
        };
        assert_eq!(parts, expected);
        let causes = parts.causes(Nanos::MS).expect("watched");
        assert_eq!(
            (causes.source, causes.preempted, causes.unknown),
            ("switches", 0.06, 0.05)
        );
    }

    #[test]
    fn counters_and_states_are_taken_without_records() {
        let series = |name: &str, points: &[(i64, u64)]| Series {
            name: name.to_owned(),
            of: "7/9/python".to_owned(),
            points: points.to_vec(),
        };
        let ns = |us: u64| us * US as u64;
        let node = Node {
            host: "node".to_owned(),
            series: vec![
                series(THREAD_RUNNING, &[(at(-1_000), 0), (at(1_000), ns(1_000))]),
                series(THREAD_READY, &[(at(-1_000), 0), (at(1_000), ns(600))]),
                series(
                    THREAD_IN_IO,
                    &[
                        (at(-1_000), 0),
                        (at(-500), 1),
                        (at(0), 0),
                        (at(500), 0),
                        (at(1_000), 0),
                    ],
                ),
            ],
            ..Node::default()
        };
        let parts = on(
            node,
            vec![launch(300, 0, 9)],
            &[kernel(0, 100), kernel(300, 1_000)],
        );
        // Of 200 us it ran half, was ready for three tenths, and slept a fifth: all of that for the disk.
        let near = |a: Nanos, us: f64| (a - Nanos::from_us(us)).abs() < Nanos(1.0);
        assert!(
            near(parts.program, 100.0) && near(parts.preempted, 60.0),
            "{parts:?}"
        );
        assert!(
            near(parts.disk, 40.0) && near(parts.blocked, 0.0),
            "{parts:?}"
        );
        assert_eq!(
            parts.causes(Nanos::MS).map(|causes| causes.source),
            Some("schedstat")
        );
    }

    #[test]
    fn in_mpi_comes_before_what_the_thread_did_there() {
        let off = |from, to, preempted| Off {
            from: at(from) as u64,
            to: at(to) as u64,
            preempted,
        };
        let node = Node {
            host: "node".to_owned(),
            switches: vec![Switches {
                of: "7/9/python".to_owned(),
                spans: vec![(at(-50), at(2_000))],
                // In MPI, and after it.
                off: vec![off(130, 150, false), off(220, 240, true)],
            }],
            ..Node::default()
        };
        let call = |from: i64, to: i64, inside: i64, thread| tables::mpi::MpiSpan {
            thread: Some(thread),
            from: at(from),
            to: at(to),
            inside: inside * US,
            ..tables::mpi::MpiSpan::default()
        };
        let process = |node: &str| Process {
            pid: 7,
            host: node.to_owned(),
            mpi: tables::mpi::Mpi {
                // One call from before the GPU was idle, and several of which half was inside.
                spans: vec![
                    call(150, 290, 140, 8),
                    call(80, 200, 120, 9),
                    call(250, 290, 20, 9),
                ],
                ..tables::mpi::Mpi::default()
            },
            ..Process::default()
        };
        let capture = Capture {
            nodes: vec![node],
            ..Capture::default()
        };
        let window = Window {
            asked: vec![launch(-10, 5, 8), launch(299, 1, 9)],
            ..Window::default()
        };
        let ran = [kernel(0, 100), kernel(300, 1_000)];
        let of = |host: &str| parts(&capture, &process(host), &window, &seen(), &ran);
        let known = of("node");
        let expected = Parts {
            mpi: Nanos::US * 120.0,
            program: Nanos::US * 59.0,
            driver: Nanos::US,
            preempted: Nanos::US * 20.0,
            ..Parts::default()
        };
        assert_eq!(known, expected);
        // Without a sampler, the rest is not known.
        let unwatched = of("another");
        assert_eq!(
            (unwatched.mpi, unwatched.unknown),
            (Nanos::US * 120.0, Nanos::US * 80.0)
        );
        let causes = unwatched.causes(Nanos::MS).expect("MPI is known");
        assert_eq!((causes.source, causes.mpi), ("mpi", 0.12));
    }

    #[test]
    fn without_a_sampler_nothing_is_known() {
        let node = Node {
            host: "another".to_owned(),
            ..Node::default()
        };
        let parts = on(
            node,
            vec![launch(300, 0, 9)],
            &[kernel(0, 100), kernel(300, 1_000)],
        );
        assert_eq!(parts.unknown, Nanos::US * 200.0);
        assert_eq!(parts.causes(Nanos::MS), None);
    }
}
