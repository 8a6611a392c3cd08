//! A program that calls an NCCL which does nothing, and does what it is told.

use crate::told::Told;
use attach::{Options, Targets};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder of examples: beside the tests.
pub fn examples() -> PathBuf {
    let me = std::env::current_exe().expect("a path");
    me.parent()
        .and_then(Path::parent)
        .expect("a folder")
        .join("examples")
}

/// The program, with a library of its own, so that no test sees another's calls.
pub struct Job {
    told: Told,
    pub folder: tempfile::TempDir,
}

impl Job {
    pub fn start() -> Job {
        Job::start_with("libnccl.so.2", &[])
    }

    pub fn start_with(library: &str, variables: &[(&str, &str)]) -> Job {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join(library);
        std::fs::copy(examples().join("libfake_nccl.so"), &library)
            .expect("`cargo build --examples`");
        let mut command = Command::new(examples().join("fake_job"));
        command.arg(&library).envs(variables.iter().copied());
        let told = Told::start(&mut command);
        Job { told, folder }
    }

    /// Whose NCCL is loaded.
    pub fn loaded() -> Job {
        let mut job = Job::start();
        job.tell("load");
        job
    }

    pub fn capture(&self) -> PathBuf {
        self.folder.path().join("capture")
    }

    pub fn options(&self) -> Options {
        Options {
            ring_bytes: 16 << 20,
            ..Options::new(Targets::Trees(vec![self.pid()]), self.capture())
        }
    }
}

impl Deref for Job {
    type Target = Told;

    fn deref(&self) -> &Told {
        &self.told
    }
}

impl DerefMut for Job {
    fn deref_mut(&mut self) -> &mut Told {
        &mut self.told
    }
}

/// A copy of the program that links NCCL statically, as `strip` and the like leave it.
pub fn stripped(folder: &Path, tool: &str, arguments: &[&str]) -> Option<PathBuf> {
    let to = folder.join("program");
    std::fs::copy(examples().join("fake_static"), &to).expect("copied");
    let status = Command::new(tool).args(arguments).arg(&to).status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no {tool}");
        return None;
    }
    Some(to)
}

/// A job that another program starts, such as one that makes it a container.
pub fn start_within(command: &mut Command, library: &str) -> Job {
    let folder = tempfile::tempdir().expect("a folder");
    let command = command
        .env("FOLDER", folder.path())
        .env("LIBRARY", library)
        .env("EXAMPLES", examples());
    let told = Told::start(command);
    Job { told, folder }
}

/// A job in name spaces of its own, as in a container: process numbers, network, and a file system in which
/// only it sees its NCCL. `None` if this machine does not allow that.
pub fn contained() -> Option<Job> {
    const INSIDE: &str = "mount -t tmpfs none $FOLDER && cp $EXAMPLES/libfake_nccl.so $LIBRARY && \
                          ip link set lo up && exec $EXAMPLES/fake_job $LIBRARY";
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--net", "--mount", "--fork", "--mount-proc"]);
    unshare.args(["--kill-child", "sh", "-c"]);
    let probe = Command::new("unshare")
        .args(["--pid", "--net", "--mount", "--fork", "--mount-proc"])
        .args(["sh", "-c", "ip link set lo up"])
        .stderr(Stdio::null())
        .status();
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine gives no name spaces to a test");
        return None;
    }
    let inside = INSIDE.replace("$LIBRARY", "$FOLDER/libnccl.so.2");
    let mut job = start_within(unshare.arg(inside), "");
    assert_eq!(job.tell("pid"), "1", "it has process numbers of its own");
    Some(job)
}

/// The process in the container, which is a child of the one that made it.
pub fn job_pid(job: &Job) -> u32 {
    let all = attach::processes::all();
    let child = all.iter().find(|(_, parent)| **parent == job.pid());
    *child.expect("a child").0
}
