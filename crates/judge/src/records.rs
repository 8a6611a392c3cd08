//! What a profiler wrote, as the same rows whatever its format.
//!
//! [`crate::readers`] fills [`Records`] with a [`Record`] for each row, in the order in which the profiler
//! says that the rows were made.
//!
//! Rule: this file knows no format. A reader imports it; it imports no reader.

use std::path::PathBuf;

/// What a row is, in a job that may have CUDA graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordKind {
    /// A call that was made and executed, or a row of a profiler that doesn't say.
    #[default]
    Call,
    /// A captured call.
    Template,
    /// An execution of a captured call.
    Replay,
}

/// One row of a profiler's output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Process.
    pub pid: Option<u32>,
    /// Rank as the profiler has it: the launcher's or the communicator's.
    pub rank: Option<u32>,
    /// NCCL's name of the function, whole operations where the profiler unites their pieces.
    pub function: String,
    /// By nccl-tests' convention; none if the profiler gives no size.
    pub bytes: Option<u64>,
    /// How many calls the row stands for.
    pub number: u64,
    /// Identity of the communicator within the output.
    pub communicator: Option<u64>,
    /// NCCL's sequence number, per communicator and function.
    pub seq: Option<u64>,
    /// How long the call took on the GPU, as the profiler says.
    pub time_ns: Option<u64>,
    /// What it is.
    pub kind: RecordKind,
    /// The sends and receives that the profiler united to this row, with their bytes. If the program made
    /// them itself, they are what it called.
    pub pieces: Vec<(&'static str, u64)>,
}

/// A profiler's output.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// `ncclscope capture`, `Inspector JSON`, `CoMMA JSON`, `ncclsee CSV`, `torch.profiler`, `Chrome trace`
    /// or `none`.
    pub format: String,
    /// The rows.
    pub rows: Vec<Record>,
    /// Rows that can't be read.
    pub unreadable: u64,
    /// Calls that the profiler itself says it lost; none if it doesn't say.
    pub admitted: Option<u64>,
    /// Files in no known format.
    pub foreign_files: Vec<PathBuf>,
}
