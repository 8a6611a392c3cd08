//! Words for what is unsound in a capture.

use analyze::job::{LastCalls, Place, Problem};
use schemars::JsonSchema;
use serde::Serialize;

/// Something unsound in a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
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

/// Each of them.
pub fn rows(of: &[Problem]) -> Vec<ProblemRow> {
    of.iter().map(row).collect()
}

fn row(of: &Problem) -> ProblemRow {
    match of {
        Problem::InFile(of) => ProblemRow {
            file: of.file.display().to_string(),
            place: of.place.clone(),
            expected: of.expected.clone(),
            found: of.found.clone(),
        },
        Problem::LastCalls { file, process, are } => ProblemRow {
            file: file.display().to_string(),
            place: format!("live part of {process}"),
            expected: "the calls since the last flush, in a file beside it".to_owned(),
            found: last_calls(are),
        },
    }
}

/// Where the last calls of a process are, to follow "found".
fn last_calls(of: &LastCalls) -> String {
    match of {
        LastCalls::Nowhere => {
            "none, or none that can be read; calls that were open at the end may be missing"
                .to_owned()
        }
        LastCalls::Unknown => {
            "nothing; what says where they were is damaged or missing too".to_owned()
        }
        LastCalls::In(of) => {
            format!(
                "them in {}; `ncclscope collect` there brings them",
                place(of)
            )
        }
        LastCalls::Running => {
            "them in the memory of the job, which still runs; they come with its end".to_owned()
        }
        LastCalls::Lost(of) => {
            format!(
                "nothing; they were in {}, which is gone, and are lost",
                place(of)
            )
        }
    }
}

fn place(of: &Place) -> String {
    match of {
        Place::Run(host) => format!("with `ncclscope run` on {host}"),
        Place::File(path, host) => format!("{path} on {host}"),
        Place::Unknown => "no place that is known".to_owned(),
    }
}

/// One of them in a line.
pub(crate) fn line(of: &ProblemRow) -> String {
    format!(
        "{}, {}: expected {}, found {}",
        of.file, of.place, of.expected, of.found
    )
}
