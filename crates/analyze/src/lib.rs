//! From tables to findings: pure functions, one file per question.
//!
//! [`report`] asks them all and puts the answers into one [`Report`], whose fields are the names of the JSON report and of
//! the tables that are printed.
//!
//! Rule: a report is a function of the capture alone, so the same capture gives the same bytes. What is not known is
//! `None`, which is null in JSON, and never 0.

pub mod completeness;
pub mod diff;
pub mod environment;
pub mod executions;
pub mod interval;
pub mod job;
pub mod network;
pub mod notes;
pub mod operations;
pub mod roles;
pub mod statistics;

use serde::Serialize;
use tables::Capture;

/// The format of [`Report`].
pub const SCHEMA: &str = "ncclscope.report/1";

/// Everything that `ncclscope report` says.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What was recorded, and how.
    pub job: job::Job,
    /// What was announced, recorded and timed.
    pub completeness: completeness::Completeness,
    /// The communicators.
    pub communicators: Vec<job::CommunicatorRow>,
    /// What was done on them, largest total time first.
    pub operations: Vec<operations::Operation>,
    /// What the network did for them, most bytes first; empty where no call used it or it was not recorded.
    pub network: Vec<network::NetworkRow>,
    /// What the figures mean and what NCCL can't show.
    pub notes: Vec<String>,
    /// What was unsound.
    pub problems: Vec<job::ProblemRow>,
    /// Whether this NCCL can give GPU stamps where they are asked for.
    #[serde(skip)]
    pub stamps_exist: bool,
}

/// The report on a capture.
pub fn report(capture: &Capture) -> Report {
    let operations = operations::operations(capture);
    Report {
        schema: SCHEMA,
        job: job::job(capture),
        completeness: completeness::completeness(capture, &operations),
        communicators: job::communicators(capture),
        network: network::network(capture),
        notes: notes::notes(capture, &operations),
        problems: job::problems(capture),
        stamps_exist: capture.processes.iter().all(notes::has_stamps),
        operations: operations.into_rows(),
    }
}
