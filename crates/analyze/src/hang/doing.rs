//! What the system shows of the threads that others wait for. Whoever looks at a running job fills it in.

/// What a thread of a rank does now: the one that made its newest call of NCCL, or the first of the process
/// if that one has ended or is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    /// The rank's number for people.
    pub number: Option<u32>,
    /// Its process.
    pub pid: u32,
    /// It is the thread that made the newest call.
    pub calls_nccl: bool,
    /// It runs Python, in which one thread at a time has the lock of the interpreter.
    pub is_python: bool,
    /// What the thread does; `None` if that can't be told.
    pub does: Option<Does>,
    /// Another thread that runs meanwhile, if this one waits for a thread.
    pub runs: Option<String>,
    /// Where it stands in its Python program, by py-spy.
    pub stands: Option<Stands>,
}

/// Where a thread of a Python program stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stands {
    /// Its newest frames, the innermost first, like `step (train.py:33)`.
    pub frames: Vec<String>,
    /// Another thread that has the interpreter's lock.
    pub lock_is_with: Option<String>,
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Does {
    /// It runs on a CPU, or waits for one.
    Runs,
    /// It sleeps for a time that it chose.
    Sleeps,
    /// It waits for a file system, for this file if that is known.
    WaitsForFile(Option<String>),
    /// It waits for a lock or another thread.
    WaitsForThread,
    /// It waits for a connection or a pipe.
    WaitsForConnection,
    /// It waits for a child process.
    WaitsForChild,
    /// It is inside of the GPU's driver.
    InDriver,
}

impl Does {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Does::Runs => "runs",
            Does::Sleeps => "sleeps",
            Does::WaitsForFile(_) => "waits_for_file",
            Does::WaitsForThread => "waits_for_thread",
            Does::WaitsForConnection => "waits_for_connection",
            Does::WaitsForChild => "waits_for_child",
            Does::InDriver => "in_driver",
        }
    }

    /// The file, if it waits for one that is known.
    pub fn file(&self) -> Option<&str> {
        match self {
            Does::WaitsForFile(file) => file.as_deref(),
            _ => None,
        }
    }
}
