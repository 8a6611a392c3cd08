//! Opens files of other tools as captures.
//!
//! ```text
//! TRACE.json[.gz] ... ──▶ kineto ──▶ order ──▶ writer ──▶ a capture in a temporary folder ──▶ tables
//!   what it is: [`kind`]   a file each          blocks, as the recorder writes them
//! ```
//!
//! [`open`] takes a capture, a file of another tool, or a folder with such files of several ranks. It gives a
//! [`Source`] in each case, so all that reads captures reads these files. `docs/reference/other-tools.md`
//! says what each kind of file can know.
//!
//! Rule: what a file does not say is not known in the capture either. Traces are read piece by piece, so
//! memory grows with calls and kernels and not with the size of the file.

pub mod flight;
pub mod found;
pub mod inspector;
pub mod join;
pub mod json;
pub mod kineto;
pub mod nccl_tests;
pub mod nsys;
pub mod order;
pub mod pickle;
pub mod ras;
pub mod torch;
pub mod value;
pub mod writer;

mod input;
mod trace_end;

pub use input::{kind, open as unpacked, Kind};
pub use trace_end::{trace_end, TraceEnd};

use found::{Found, OfJob};
use json::Fault;
use std::fmt;
use std::path::{Path, PathBuf};
use tables::{OpenError, Problem, ReadProgress, Source, Which};
use tempfile::TempDir;
use writer::Process;

/// Files of a folder that are looked at.
const MOST_FILES: usize = 65_536;
/// Calls of files that all calls of a job may be in, 200 bytes each. What follows is left out, and that is
/// said.
const MOST_CALLS: usize = 1 << 23;

/// Why a path can't be opened.
#[derive(Debug)]
pub enum Error {
    /// It is no capture, and of no other tool.
    Open(OpenError),
    /// It is of another tool, and can't be used.
    Other {
        /// The file or folder.
        path: PathBuf,
        /// What it is.
        kind: Kind,
        /// What was found.
        found: String,
    },
    /// The capture that is made of it can't be written.
    Unwritable(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Open(error) => error.fmt(f),
            Error::Other { path, kind, found } => {
                let (path, kind) = (path.display(), kind.title());
                if found.contains("expected ") {
                    // It says itself what is wrong with it.
                    return write!(f, "`{path}` is {kind}: {found}");
                }
                write!(
                    f,
                    "`{path}`: expected {kind} with NCCL calls, found {found}"
                )
            }
            Error::Unwritable(error) => {
                let folder = std::env::temp_dir();
                write!(f, "`{}` can't be written: {error}", folder.display())
            }
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The way out, in words.
    pub fn hint(&self) -> String {
        match self {
            Error::Open(error) => error.hint(),
            Error::Other { kind, .. } => kind.hint().to_owned(),
            Error::Unwritable(_) => {
                "a file of another tool is converted into a folder there; TMPDIR names another place"
                    .to_owned()
            }
        }
    }
}

/// Keeps the files of a [`Source`] for as long as its calls are read.
#[derive(Debug, Default)]
pub struct Held(Option<TempDir>);

impl Held {
    /// Whether the source is of another tool.
    pub fn is_converted(&self) -> bool {
        self.0.is_some()
    }
}

/// Opens a capture, one attempt if the job was started again, or what another tool wrote.
///
/// # Errors
/// If there is neither.
pub fn open(path: &Path, progress: &ReadProgress, which: Which) -> Result<(Source, Held), Error> {
    let error = match Source::open_attempt(path, progress, which) {
        Ok(source) => return Ok((source, Held::default())),
        Err(error) => error,
    };
    let may_be_other = match &error {
        OpenError::OtherFile { .. } => path.is_file(),
        OpenError::NoTrace { problems, .. } => problems.is_empty() && path.is_dir(),
        _ => false,
    };
    let files = if may_be_other {
        input::files(path, MOST_FILES)
    } else {
        Vec::new()
    };
    let Some(kind) = files.first().map(|file| file.kind) else {
        return Err(Error::Open(error));
    };
    let folder = tempfile::Builder::new().prefix("ncclscope-").tempdir();
    let folder = folder.map_err(Error::Unwritable)?;
    let problems = convert(path, kind, &files, folder.path())?;
    let mut source = Source::open(folder.path(), progress).map_err(Error::Open)?;
    source.call_it(path.to_owned(), problems);
    Ok((source, Held(Some(folder))))
}

/// What became of the groups that no file names.
fn unnamed(processes: &[Process]) -> String {
    let n = processes.len();
    let is_one = processes
        .iter()
        .flat_map(|of| &of.communicators)
        .all(|of| of.hash != 0);
    if is_one {
        format!(
            "no names of process groups: the calls of all {n} files end together, and are taken for those of \
             one group"
        )
    } else {
        "no names of process groups, and calls that do not end together: who waited for whom is not known"
            .to_owned()
    }
}

/// Converts files of one kind into a capture in `folder`.
fn convert(
    path: &Path,
    kind: Kind,
    files: &[input::File],
    folder: &Path,
) -> Result<Vec<Problem>, Error> {
    let mut problems = Vec::new();
    let mut processes: Vec<(PathBuf, Process)> = Vec::new();
    let mut hosts = input::Hosts::default();
    let mut of_job: Option<Box<dyn OfJob>> = match kind {
        Kind::Inspector => Some(Box::new(inspector::Reader::new(MOST_CALLS))),
        Kind::NcclTests => Some(Box::new(nccl_tests::Reader::default())),
        Kind::Nsys => Some(Box::new(nsys::Reader::default())),
        Kind::Ras => Some(Box::new(ras::Reader::default())),
        Kind::Kineto | Kind::FlightRecorder => None,
    };
    for file in files {
        if file.kind != kind {
            problems.push(Problem {
                file: file.path.clone(),
                place: "its content".into(),
                expected: format!("{}, as the other files", kind.title()),
                found: format!("{}, which is left out", file.kind.title()),
            });
            continue;
        }
        let read = input::open(&file.path).map_err(Fault::Io);
        let read = read.and_then(|input| match (&mut of_job, kind) {
            (Some(reader), _) => reader.read(&file.path, input).map(|damage| Found {
                damage,
                ..Found::default()
            }),
            (None, Kind::FlightRecorder) => flight::read(input),
            (None, _) => kineto::read(input),
        });
        match read {
            Ok(found) if of_job.is_some() => {
                problems.extend(found::problems(&file.path, found.damage));
            }
            Ok(mut found) => {
                problems.extend(found::problems(&file.path, found.damage));
                hosts.add(
                    &file.path,
                    &mut found.process,
                    found.rank,
                    found.host,
                    &found.devices,
                );
                processes.push((file.path.clone(), found.process));
            }
            Err(error) => problems.push(Problem {
                file: file.path.clone(),
                place: "its content".into(),
                expected: "a file that can be read".into(),
                found: error.to_string(),
            }),
        }
    }
    for file in input::left_out(path, MOST_FILES, files) {
        problems.push(Problem {
            file,
            place: "its content".into(),
            expected: format!("{}, as in files with such a name", kind.title()),
            found: "no beginning of one, so nothing of it is here".into(),
        });
    }
    let is_named = of_job.is_some();
    if let Some(reader) = of_job {
        let (seen, damage) = reader.finish();
        processes.extend(seen);
        for (file, damage) in damage {
            problems.extend(found::problems(&file, vec![damage]));
        }
    }
    let other = |found: String| Error::Other {
        path: path.to_owned(),
        kind,
        found,
    };
    let has_something = |(_, process): &(PathBuf, Process)| {
        // RAS names ranks of which it knows no more.
        kind == Kind::Ras || !process.calls.is_empty() || !process.kernels.is_empty()
    };
    if !processes.iter().any(has_something) {
        let damaged = problems.first().map(|problem| {
            let at_all = problem.file == path && problem.place == "its content";
            if at_all {
                problem.found.clone()
            } else {
                problem.to_string()
            }
        });
        return Err(other(damaged.unwrap_or_else(|| "none".to_owned())));
    }
    if !is_named {
        hosts.name(processes.iter_mut().map(|(_, process)| process));
    }
    let (paths, mut processes): (Vec<PathBuf>, Vec<Process>) = processes.into_iter().unzip();
    let unmatched = match kind {
        Kind::Kineto => {
            let is_joined = order::join_unnamed(&mut processes);
            let mut unmatched = order::number(&mut processes);
            if is_joined {
                if order::split_unnamed(&mut processes) {
                    unmatched.clear();
                }
                unmatched.push((0, unnamed(&processes)));
            }
            unmatched
        }
        Kind::Nsys => order::number(&mut processes),
        Kind::FlightRecorder => {
            flight::complete(&mut processes, &paths);
            Vec::new()
        }
        // NCCL's own numbers.
        Kind::Inspector | Kind::NcclTests | Kind::Ras => Vec::new(),
    };
    for (at, text) in unmatched {
        problems.push(Problem {
            file: paths[at].clone(),
            place: "its calls".into(),
            expected: "the calls of the same run as in the other files".into(),
            found: text,
        });
    }
    for (number, process) in (1..).zip(&mut processes) {
        let pid = process.fact("pid").and_then(|pid| pid.parse().ok());
        if pid.and_then(tables::pid::known).is_none() {
            // Host and pid tell processes apart.
            let pid = tables::pid::UNKNOWN.saturating_add(number);
            process.facts.retain(|(key, _)| *key != "pid");
            process.facts.push(("pid", pid.to_string()));
        }
        if kind == Kind::Ras {
            process.facts.push(("p2p", "unknown".to_owned()));
        }
        if kind != Kind::Inspector || !inspector::has_first_calls(process) {
            process.facts.push(("first_calls", "unknown".to_owned()));
        }
    }
    for (number, (path, process)) in paths.iter().zip(&processes).enumerate() {
        writer::write(folder, number, path, process).map_err(Error::Unwritable)?;
    }
    Ok(problems)
}
