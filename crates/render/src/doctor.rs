//! What `ncclscope doctor` finds, as JSON.

use schemars::JsonSchema;
use serde::Serialize;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing is wrong.
    Ok,
    /// It can't be found out.
    Unknown,
    /// Something will be missing or slow.
    Warn,
    /// Recording fails.
    Fail,
}

impl Status {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Unknown => "unknown",
            Status::Warn => "warn",
            Status::Fail => "fail",
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// What it is about, such as NCCL or the machine.
    pub area: &'static str,
    /// A name that stays the same; several checks may have it.
    #[serde(rename = "check")]
    pub name: &'static str,
    /// How it ended.
    pub status: Status,
    /// What was found.
    pub finding: String,
    /// What to do; null if the status is ok.
    pub remedy: Option<String>,
}

/// How much of something a release of NCCL tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Much {
    /// Nothing.
    No,
    /// A part.
    Partly,
    /// All.
    Yes,
}

impl Much {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Much::Yes => "yes",
            Much::Partly => "partly",
            Much::No => "no",
        }
    }
}

/// One thing that a profiler asks for, and what a release of NCCL tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Delivered {
    /// The thing.
    pub what: &'static str,
    /// How much of it.
    pub delivered: Much,
    /// What that means, or the way round it.
    pub how: &'static str,
}

/// An NCCL library.
#[derive(Serialize, JsonSchema)]
pub struct LibraryJson {
    /// Its path.
    pub path: String,
    /// How it was found.
    pub found_in: &'static str,
    /// NCCL's release; null if it does not tell.
    pub version: Option<String>,
    /// Version of the profiler ABI; null if it is not known.
    pub abi: Option<u8>,
    /// Whether this release was examined; false: the ABI is that of the release before.
    pub examined: Option<bool>,
    /// What the release tells a profiler.
    pub delivers: Vec<Delivered>,
}

/// What `ncclscope doctor --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct DoctorJson<'a> {
    schema: &'static str,
    /// The worst of the checks.
    status: Status,
    /// The checks, by area.
    checks: &'a [Check],
    /// The libraries found; empty if a capture was examined.
    nccl: Vec<LibraryJson>,
}

impl DoctorJson<'_> {
    /// Of all checks and libraries.
    pub fn new(checks: &[Check], nccl: Vec<LibraryJson>) -> DoctorJson<'_> {
        DoctorJson {
            schema: "ncclscope.doctor/1",
            status: checks.iter().map(|c| c.status).max().unwrap_or(Status::Ok),
            checks,
            nccl,
        }
    }
}
