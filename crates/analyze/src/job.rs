//! What was recorded, by whom and how.

use serde::Serialize;
use std::collections::BTreeSet;
use tables::{Capture, LiveSource, Process};

/// The job of a capture.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    /// Where the capture is.
    pub capture: String,
    /// Its id, where `ncclscope run` made it.
    pub id: Option<String>,
    /// The command that was run.
    pub command: Option<String>,
    /// Start, RFC 3339.
    pub started: Option<String>,
    /// End, RFC 3339.
    pub ended: Option<String>,
    /// What the command returned.
    pub exit_status: Option<i64>,
    /// Hosts by name.
    pub hosts: Vec<String>,
    /// Processes with a trace.
    pub nprocesses: usize,
    /// Ranks that the launcher spoke of.
    pub world_size: Option<u32>,
    /// torchrun restarts that were recorded.
    pub restarts: u32,
    /// Versions of NCCL.
    pub nccl: Vec<String>,
    /// Recording modes.
    pub mode: Vec<String>,
    /// Time sources asked for.
    pub timing: Vec<String>,
}

/// A communicator in a report.
#[derive(Clone, Debug, Serialize)]
pub struct CommunicatorRow {
    /// Unique in the capture.
    pub communicator: String,
    /// Name given by the program.
    pub name: Option<String>,
    /// Ranks.
    pub nranks: Option<u32>,
    /// Nodes.
    pub nnodes: Option<u32>,
    /// Communicator it was made from, where that is proved.
    pub parent: Option<String>,
    /// Why that is the parent.
    pub parent_evidence: Option<String>,
    /// Ranks in the capture.
    pub members: Vec<MemberRow>,
}

/// One rank of a communicator in a report.
#[derive(Clone, Debug, Serialize)]
pub struct MemberRow {
    /// Its rank in the communicator.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// The launcher's rank.
    pub global_rank: Option<u32>,
}

/// Something unsound in a report.
#[derive(Clone, Debug, Serialize)]
pub struct ProblemRow {
    /// The file.
    pub file: String,
    /// Where in it.
    pub place: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// What a fact is over all processes.
fn all(capture: &Capture, fact: impl Fn(&Process) -> Option<String>) -> Vec<String> {
    capture
        .processes
        .iter()
        .filter_map(fact)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The job.
pub fn job(capture: &Capture) -> Job {
    let fact = |key: &'static str| all(capture, |p| p.fact(key).map(str::to_owned));
    let text = |key: &str| {
        capture
            .job
            .get(key)
            .and_then(|v| v.as_str())
            .map(str::to_owned)
    };
    let words = capture.job.get("command").and_then(|v| v.as_array());
    let command = words.map(|words| {
        words
            .iter()
            .filter_map(|w| w.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    });
    let sizes = capture
        .processes
        .iter()
        .filter_map(|p| p.fact("world_size")?.parse().ok());
    Job {
        capture: capture.path.display().to_string(),
        id: text("id"),
        command: command.or_else(|| fact("command").into_iter().next()),
        started: text("started"),
        ended: text("ended"),
        exit_status: capture.job.get("exit_status").and_then(|v| v.as_i64()),
        hosts: all(capture, |p| (!p.host.is_empty()).then(|| p.host.clone())),
        nprocesses: capture.processes.len(),
        world_size: sizes.max(),
        restarts: capture
            .processes
            .iter()
            .map(|p| p.restart)
            .max()
            .unwrap_or(0),
        nccl: fact("nccl"),
        mode: fact("mode"),
        timing: fact("timing"),
    }
}

/// The communicators.
pub fn communicators(capture: &Capture) -> Vec<CommunicatorRow> {
    let row = |communicator: &tables::Communicator| CommunicatorRow {
        communicator: communicator.id.clone(),
        name: communicator.name.clone(),
        nranks: communicator.nranks,
        nnodes: communicator.nnodes,
        parent: communicator
            .parent
            .as_ref()
            .map(|p| capture.communicators[p.communicator].id.clone()),
        parent_evidence: communicator.parent.as_ref().map(|p| p.evidence.clone()),
        members: communicator
            .members
            .iter()
            .map(|member| {
                let process = &capture.processes[member.process];
                MemberRow {
                    rank: member.rank,
                    host: process.host.clone(),
                    pid: process.pid,
                    global_rank: process.rank,
                }
            })
            .collect(),
    };
    capture.communicators.iter().map(row).collect()
}

/// What was unsound, and whose last calls are elsewhere.
pub fn problems(capture: &Capture) -> Vec<ProblemRow> {
    let mut rows: Vec<ProblemRow> = capture
        .problems
        .iter()
        .map(|p| ProblemRow {
            file: p.file.display().to_string(),
            place: p.place.clone(),
            expected: p.expected.clone(),
            found: p.found.clone(),
        })
        .collect();
    for process in capture
        .processes
        .iter()
        .filter(|p| p.live == LiveSource::None)
    {
        let place = match process.fact("live") {
            Some("memfd") => format!("with `ncclscope run` on {}", process.host),
            Some(path) => format!("{path} on {}", process.host),
            None => "no place that is known".to_owned(),
        };
        rows.push(ProblemRow {
            file: process.file.display().to_string(),
            place: format!("live part of {}", process.title()),
            expected: "the calls since the last flush, in a file beside it".into(),
            found: format!("them in {place}; `ncclscope collect` there brings them"),
        });
    }
    rows
}
