//! What the threads of the job did on the host: ran, were ready without a CPU, waited for a disk, or were
//! blocked.
//!
//! The sampler watches the main thread of each process and the threads that ran most. Those that call NCCL
//! are known from the calls themselves. If the GPU is idle, one of them is late with its launches. What it
//! did says why:
//!
//! - it *ran*: Python or a library kept it busy;
//! - it was *ready*: the scheduler gave its CPU to others;
//! - it waited for a *disk*;
//! - it was *blocked*: for a lock, a socket, another thread, or the GPU.
//!
//! Rule: running and ready are counted by the kernel. Waiting for a disk is seen at samples, and what is left
//! is blocked.

use crate::series::{at, climbing};
use crate::subject::ProcessId;
use crate::time::{HostTime, Nanos};
use capture::samples::{THREAD_IN_IO, THREAD_READY, THREAD_RUNNING};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use tables::{Capture, Node, Process};

/// A thread of the job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ThreadRow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// Number of the thread.
    pub tid: u32,
    /// Its name, of 15 letters at most.
    pub name: String,
    /// Whether NCCL calls come from this thread.
    pub calls_nccl: bool,
    /// For how long it was watched.
    pub time_s: f64,
    /// Share of the time in which the thread ran: Python or a library kept it busy.
    pub running: f64,
    /// Share of the time in which it was ready, and no CPU was free for it.
    pub ready: f64,
    /// Share of the time in which it waited for a disk, by the samples.
    pub in_io: f64,
    /// Share of the time in which it waited for anything else: a lock, a socket, another thread, or the GPU.
    pub blocked: f64,
}

/// A thread that was watched for less is left out.
const LEAST: Nanos = Nanos::from_ms(500.0);

/// All threads that were watched, by rank, those that call NCCL first.
pub(super) fn rows(capture: &Capture) -> Vec<ThreadRow> {
    let mut rows: Vec<ThreadRow> = capture
        .nodes
        .iter()
        .flat_map(|node| of_node(capture, node))
        .collect();
    rows.sort_by(|a, b| {
        let order = |row: &ThreadRow| {
            (
                row.process.rank.is_none(),
                row.process.rank,
                !row.calls_nccl,
            )
        };
        order(a)
            .cmp(&order(b))
            .then(b.running.total_cmp(&a.running))
            .then((a.process.pid, a.tid).cmp(&(b.process.pid, b.tid)))
    });
    rows
}

fn of_node<'a>(capture: &'a Capture, node: &'a Node) -> impl Iterator<Item = ThreadRow> + 'a {
    node.named(THREAD_RUNNING).filter_map(|running| {
        let mut parts = running.of.splitn(3, '/');
        let pid: u32 = parts.next()?.parse().ok()?;
        let tid: u32 = parts.next()?.parse().ok()?;
        let name = parts.next()?.to_owned();
        let process = capture
            .processes
            .iter()
            .find(|p| p.pid == pid && p.host == node.host);
        let (from, to) = (running.points.first()?.0, running.points.last()?.0);
        let (from, to) = (HostTime(from), HostTime(to));
        let seen = to - from;
        if seen < LEAST {
            return None;
        }
        let share = |points: &[(i64, u64)]| {
            let points = climbing(points);
            let grew = at(&points, to)? - at(&points, from)?;
            Some((Nanos(grew) / seen).clamp(0.0, 1.0))
        };
        let ran = share(&running.points)?;
        let ready = share(&node.of(THREAD_READY, &running.of)?.points)?.min(1.0 - ran);
        let in_io = node.of(THREAD_IN_IO, &running.of).map_or(0.0, |series| {
            let seen = series.points.iter().filter(|(_, is)| *is != 0).count();
            seen as f64 / series.points.len() as f64
        });
        let in_io = in_io.min(1.0 - ran - ready);
        Some(ThreadRow {
            process: ProcessId {
                rank: process.and_then(|process| process.rank),
                host: node.host.clone(),
                pid,
            },

            tid,
            name,
            calls_nccl: process.is_some_and(|process| callers(process).contains(&tid)),
            time_s: seen.seconds(),
            running: ran,
            ready,
            in_io,
            blocked: 1.0 - ran - ready - in_io,
        })
    })
}

/// The threads of a process that call NCCL.
fn callers(process: &Process) -> BTreeSet<u32> {
    process
        .shapes
        .iter()
        .filter_map(|shape| shape.thread)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::nodes::Series;
    use tables::Shape;

    const S: i64 = 1_000_000_000;

    #[test]
    fn a_thread_is_running_ready_in_io_or_blocked() {
        let of = "7/9/pt_autograd_0";
        let series = |name: &str, points: &[(i64, u64)]| Series {
            name: name.to_owned(),
            of: of.to_owned(),
            points: points.to_vec(),
        };
        let capture = Capture {
            nodes: vec![Node {
                host: "node".to_owned(),
                series: vec![
                    series(THREAD_RUNNING, &[(0, 0), (10 * S, 4 * S as u64)]),
                    series(THREAD_READY, &[(0, 5), (10 * S, 3 * S as u64 + 5)]),
                    series(THREAD_IN_IO, &[(0, 0), (1, 0), (2, 0), (3, 1), (4, 0)]),
                ],
                ..Node::default()
            }],
            processes: vec![Process {
                pid: 7,
                rank: Some(3),
                host: "node".to_owned(),
                shapes: vec![Shape {
                    thread: Some(9),
                    ..Shape::default()
                }],
                ..Process::default()
            }],
            ..Capture::default()
        };
        let rows = rows(&capture);
        assert_eq!(
            (rows[0].process.rank, rows[0].tid, rows[0].calls_nccl),
            (Some(3), 9, true)
        );
        let shares = [
            rows[0].running,
            rows[0].ready,
            rows[0].in_io,
            rows[0].blocked,
        ];
        let near = |(a, b): (&f64, f64)| (a - b).abs() < 1e-9;
        assert!(
            shares.iter().zip([0.4, 0.3, 0.2, 0.1]).all(near),
            "{shares:?}"
        );
    }
}
