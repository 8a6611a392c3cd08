//! Opens a capture, repairs it, matches ranks, and hands out columns.
//!
//! [`Capture::open`] takes a capture folder, the folder of one host or one trace file. It reads every
//! [`Process`] with its [`calls`], unites what they say of communicators ([`communicators`]), and puts
//! operations together that NCCL announces in pieces ([`composites`]). A [`Source`] does the same for
//! captures that need not fit in memory.
//!
//! Rule: a damaged capture is still a capture. Reading never fails on content and never panics: everything
//! unsound is left out and becomes a [`Problem`]. Only a path without any process is an error.

pub mod attempts;
mod births;
mod callbacks;
pub mod calls;
pub mod clock;
pub mod columns;
pub mod communication;
pub mod communicators;
pub mod composites;
pub mod costs;
pub mod events;
pub mod exit;
mod files;
mod gpu_clock;
pub mod graphs;
pub mod jobs;
pub mod last_calls;
pub mod life;
pub mod lineage;
mod machines;
pub mod marks;
pub mod mpi;
pub mod names;
pub mod net_ops;
pub mod nodes;
pub mod on_gpu;
pub mod packs;
pub mod parallel;
pub mod part;
pub mod pid;
mod problem;
pub mod process;
mod reading;
mod rotation;
pub mod sightings;
pub mod source;
pub mod spans;
pub mod stacks;
pub mod sums;
mod symbols;
pub mod tail;
mod topologies;
mod trace;
mod trust;
mod unfinished;
pub mod whole;
pub mod windows;

pub use attempts::{Attempt, Which};
pub use calls::{Call, GpuTimes, Shape, Untimed};
pub use capture::printable::{obeyed, printable, printable_lines};
pub use communicators::Communicator;
pub use graphs::Graphs;
pub use last_calls::LastCalls;
pub use life::{Life, Newest};
pub use names::{Name, Names};
pub use net_ops::NetOp;
pub use nodes::Node;
pub use on_gpu::OnGpu;
pub use problem::Problem;
pub use process::{LiveSource, NetTotal, Process, Total};
pub use sightings::Sighting;
pub use source::{ReadProgress, Source};
pub use tail::Tail;
pub use topologies::{
    all_graphs, of_nccl as topologies_of_nccl, of_nodes as topologies_of, topologies, TOPOLOGY_FILE,
};
pub use windows::Windows;

use std::fmt;
use std::path::{Path, PathBuf};

/// A capture in memory.
#[derive(Debug, Default)]
pub struct Capture {
    /// Where it is.
    pub path: PathBuf,
    /// `capture.json`, written by `ncclscope run`; null without one.
    pub job: serde_json::Value,
    /// Its processes, by restart, rank and path.
    pub processes: Vec<Process>,
    /// The attempts of its job, the oldest first; see [`attempts`].
    pub attempts: Vec<Attempt>,
    /// The number of the attempt that was read; `None` if all were.
    pub attempt: Option<u32>,
    /// Which part of the run is here, in words; `None` if it is all.
    pub part: Option<String>,
    /// Its communicators, by first use.
    pub communicators: Vec<Communicator>,
    /// What `ncclscope hang` saw while it ran, the oldest first.
    pub sightings: Vec<Sighting>,
    /// What the sampler saw of its nodes, by host.
    pub nodes: Vec<Node>,
    /// Kernels that communicate beside NCCL, as the user says.
    pub communication: Vec<communication::Pattern>,
    /// Names of functions, datatypes and the like.
    pub names: Names,
    /// Processes with files here in which nothing is sound.
    pub unreadable: Vec<Unreadable>,
    /// What was unsound.
    pub problems: Vec<Problem>,
}

/// A process of which there are files, and nothing in them is sound. All that is known is what their names
/// say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// The file, relative to the capture.
    pub file: PathBuf,
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host name.
    pub host: String,
    /// Process id, 0 when not known.
    pub pid: u32,
    /// Number of the torchrun restart, 0 for the first start.
    pub restart: u32,
    /// What was found in place of a trace.
    pub found: String,
}

/// Why there is no capture.
#[derive(Debug)]
pub enum OpenError {
    /// Nothing is at this path.
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// This user may not see what is there.
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file that has no trace file's name, or no folder and no file at all.
    OtherFile {
        /// The path.
        path: PathBuf,
    },
    /// The job has no attempt of this number.
    NoAttempt {
        /// The path.
        path: PathBuf,
        /// The number that was asked for.
        asked: u32,
        /// How many attempts there are.
        of: usize,
    },
    /// A folder around captures that have nothing to do with each other.
    SeveralCaptures {
        /// The path.
        path: PathBuf,
        /// The captures below it.
        captures: Vec<PathBuf>,
    },
    /// No trace file in it can be read.
    NoTrace {
        /// The path.
        path: PathBuf,
        /// What was wrong with those that are there.
        problems: Vec<Problem>,
    },
}

/// Captures that an error names.
const CAPTURES_NAMED: usize = 3;

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotFound { path } => {
                write!(
                    f,
                    "`{}`: expected a capture folder or a trace file, found nothing",
                    path.display()
                )
            }
            OpenError::Unreadable { path, error } => {
                write!(
                    f,
                    "`{}`: expected a capture that can be read, found: {error}",
                    path.display()
                )
            }
            OpenError::OtherFile { path } => {
                write!(
                    f,
                    "`{}`: expected a capture folder or a trace file, found something else",
                    path.display()
                )
            }
            OpenError::NoAttempt { path, asked, of } => {
                write!(
                    f,
                    "`{}`: expected an attempt from 1 to {of}, found {asked}",
                    path.display()
                )
            }
            OpenError::SeveralCaptures { path, captures } => {
                let named = captures.iter().take(CAPTURES_NAMED);
                let named: Vec<String> = named.map(|of| format!("`{}`", of.display())).collect();
                let more = captures.len().saturating_sub(CAPTURES_NAMED);
                write!(
                    f,
                    "`{}`: expected one capture, found {} of different runs: {}",
                    path.display(),
                    captures.len(),
                    named.join(", ")
                )?;
                match more {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            OpenError::NoTrace { path, problems } => {
                write!(
                    f,
                    "`{}`: expected a capture with a readable trace file, found ",
                    path.display()
                )?;
                if problems.is_empty() {
                    return write!(f, "no trace file");
                }
                write!(f, "none that is sound")?;
                problems
                    .iter()
                    .take(5)
                    .try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// What helps who may not read a capture.
const PRIVATE: &str = "only the user who ran the job may read its capture; read it as that user";

impl OpenError {
    /// The way out, in words.
    pub fn hint(&self) -> String {
        match self {
            OpenError::NotFound { .. } => {
                "`ncclscope run -o DIR -- COMMAND` records one into DIR".to_owned()
            }
            OpenError::Unreadable { .. } => PRIVATE.to_owned(),
            OpenError::OtherFile { path } if packs::number(path).is_some() => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                format!("it is a pack; give the folder that it is in: `{}`", folder.display())
            }
            OpenError::OtherFile { .. } => {
                "give the capture folder, or a file in it that ends in `.trace`".to_owned()
            }
            OpenError::NoAttempt { .. } => {
                "leave out `--attempt` to read the last attempt".to_owned()
            }
            OpenError::SeveralCaptures { path, .. } => format!(
                "`ncclscope list {}` lists them; name one of them",
                path.display()
            ),
            OpenError::NoTrace { problems, .. }
                if problems.iter().any(|p| p.expected == files::LISTED) =>
            {
                PRIVATE.to_owned()
            }
            OpenError::NoTrace { problems, path } if problems.is_empty() => format!(
                "`ncclscope doctor {}` says why; a trace file appears with the first communicator of a \
                process",
                path.display()
            ),
            OpenError::NoTrace { path, .. } => format!(
                "`ncclscope collect {}` on the hosts of the job may bring what these files lack",
                path.display()
            ),
        }
    }
}

impl Capture {
    /// Opens the capture at `path`: a capture folder, the folder of a host, or one trace file.
    ///
    /// # Errors
    /// When there is nothing to read; never for damage.
    pub fn open(path: &Path) -> Result<Capture, OpenError> {
        Capture::open_attempt(path, Which::All)
    }

    /// As [`Capture::open`], but one attempt of a job that was started again.
    ///
    /// # Errors
    /// As there, and if there is no such attempt.
    pub fn open_attempt(path: &Path, which: Which) -> Result<Capture, OpenError> {
        let progress = ReadProgress::default();
        Ok(Source::open_attempt(path, &progress, which)?.load(&progress))
    }

    /// The bytes of an operation of this shape by nccl-tests' convention, under its own function name.
    pub fn bytes(&self, shape: &Shape) -> Option<u64> {
        self.bytes_as(shape, shape.function)
    }

    /// The bytes of an operation `function` whose pieces have this shape.
    pub fn bytes_as(&self, shape: &Shape, function: Name) -> Option<u64> {
        let text = |name| self.names.get(name).unwrap_or("");
        calls::bytes(
            text(function),
            text(shape.datatype),
            shape.count,
            shape.nranks,
        )
    }

    /// The rows of the table of calls, process by process; [`calls::COLUMNS`] are its columns. Which calls
    /// are one operation is not known here: nothing was matched.
    pub fn rows(&self) -> impl Iterator<Item = calls::CallRef<'_>> {
        self.processes
            .iter()
            .enumerate()
            .flat_map(move |(index, process)| {
                process.calls.iter().map(move |call| {
                    let shape = &process.shapes[call.shape as usize];
                    calls::CallRef {
                        capture: self,
                        process,
                        index,
                        call,
                        shape,
                        operation: None,
                    }
                })
            })
    }

    /// The process with this id on this host.
    pub fn process_of(&self, host: &str, pid: u32) -> Option<&Process> {
        self.processes.iter().find(|process| process.is(host, pid))
    }

    /// Whether the processes recorded callbacks rather than calls alone.
    pub fn has_mode(&self, mode: &str) -> bool {
        self.processes.iter().any(|p| p.fact("mode") == Some(mode))
    }

    pub(crate) fn absolute(&self, process: &Process) -> PathBuf {
        self.root().join(&process.file)
    }

    /// What files are named relative to.
    pub fn root(&self) -> &Path {
        if self.path.is_dir() {
            &self.path
        } else {
            self.path.parent().unwrap_or(Path::new(""))
        }
    }

    /// That `capture.json` is not here though `ncclscope run` wrote one. `problems` are those that are known.
    pub(crate) fn miss_job(&self, problems: &[Problem]) -> Option<Problem> {
        let is_under_run = |process: &Process| {
            let folder = process.fact("env.NCCLSCOPE_RUN");
            folder.is_some_and(|folder| !folder.is_empty())
        };
        let is_missing = self.path.is_dir()
            && self.job.is_null()
            && !problems.iter().any(|problem| problem.file.ends_with(MARK))
            && self.processes.iter().any(is_under_run);
        is_missing.then(|| Problem {
            file: MARK.into(),
            place: "the file".into(),
            expected: "what `ncclscope run` wrote".into(),
            found: "no such file: the job's start, end and exit status are not known, and whether samples of \
                    its nodes are missing"
                .into(),
        })
    }

    fn read_job(&mut self) {
        let folder = if self.path.is_dir() {
            Some(self.path.as_path())
        } else {
            None
        };
        // The folder of one host lies in the capture's.
        let places = folder
            .into_iter()
            .flat_map(|folder| [Some(folder), folder.parent()])
            .flatten();
        for folder in places {
            match job(folder) {
                Ok(None) => continue,
                Ok(Some(job)) => self.job = job,
                Err(problem) => self.problems.push(problem),
            }
            return;
        }
    }
}

/// What `ncclscope run` writes about a job.
const MARK: &str = "capture.json";

/// What `capture.json` in `folder` says of the job; `None` if there is none.
///
/// # Errors
/// What is unsound about it: it can't be read, is no regular file, is no JSON, or has not the checksum that
/// it was written with.
pub fn job(folder: &Path) -> Result<Option<serde_json::Value>, Problem> {
    job_of(&folder.join(MARK))
}

/// The same of a file of that kind.
fn job_of(file: &Path) -> Result<Option<serde_json::Value>, Problem> {
    let unsound = |place: String, found: String| Problem {
        file: file.to_owned(),
        place,
        expected: "JSON as `ncclscope run` writes it".into(),
        found,
    };
    let text = match files::text(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unsound("its content".into(), error.to_string())),
    };
    if capture::mark::is_sound(&text) == Some(false) {
        let mut problem = unsound("its content".into(), "another content".into());
        problem.expected = "its checksum".into();
        return Err(problem);
    }
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| unsound(format!("line {}", error.line()), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_of_a_job_is_damage_and_no_file_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(job(folder.path()), Ok(None));
        std::fs::write(folder.path().join(MARK), "").expect("written");
        assert!(job(folder.path()).is_err());
    }

    #[test]
    fn what_run_wrote_is_missed_where_it_wrote_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let capture = |variable: Option<&str>| {
            let facts = variable.map(|of| ("env.NCCLSCOPE_RUN".to_owned(), of.to_owned()));
            Capture {
                path: folder.path().to_owned(),
                processes: vec![Process {
                    facts: facts.into_iter().collect(),
                    ..Process::default()
                }],
                ..Capture::default()
            }
        };
        let missed = capture(Some("/x")).miss_job(&[]).expect("it is not there");
        assert_eq!(missed.file, Path::new("capture.json"));
        assert!(
            missed.found.contains("exit status are not known"),
            "{missed}"
        );
        // Recorded without `run`.
        assert_eq!(capture(None).miss_job(&[]), None);
        // It is there and damaged, which is said already.
        assert_eq!(capture(Some("/x")).miss_job(&[missed]), None);
        let mut there = capture(Some("/x"));
        there.job = serde_json::json!({ "id": "1" });
        assert_eq!(there.miss_job(&[]), None);
    }
}
