//! Has NCCL say what its set-up costs, without disturbing what the user has NCCL say.
//!
//! NCCL tells the phases of each init at level INFO. [`NcclLogFiles::prepare`] chooses a file for that, in
//! memory, and [`NcclLogFiles::variables`] are those that have NCCL write there. The recorder in each process
//! takes the lines into the capture and removes the file. [`NcclLogFiles::adopt`] keeps the files of
//! processes that never reached the recorder, for example because they hang in NCCL's init.
//!
//! Rule: who has set one of NCCL's variables for debug output, in the environment or in a configuration file,
//! gets what was asked for, and nothing of ours.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Where NCCL writes: in memory, and there on every Linux that NCCL runs on, because NCCL needs it itself.
const PLACE: &str = "/dev/shm";
/// Folder of the capture for files that no recorder took.
pub const FOLDER: &str = "nccl-log";
/// What NCCL shall say: phases, rings and trees; the machine and the search; allocations on the GPU; and the
/// ends of communicators, which are a subsystem from 2.30 on. Releases pass over names that they don't know.
const SUBSYSTEMS: &str = "INIT,GRAPH,ALLOC,DESTROY";
/// Seconds since 1970, with µs. NCCL makes blanks of underscores.
const STAMP: &str = "[%s.%6f]_";

/// The files of one run.
pub struct NcclLogFiles {
    /// How their paths begin.
    prefix: String,
}

impl NcclLogFiles {
    /// Chooses the files, if that is asked for and nobody has set NCCL's debug output already.
    ///
    /// # Errors
    /// When there is no randomness to be had.
    pub fn prepare(env: impl Fn(&str) -> Option<String>) -> io::Result<Option<NcclLogFiles>> {
        let is_asked = env("NCCLSCOPE_NCCL_LOG").is_some_and(|v| v.eq_ignore_ascii_case("on"));
        let is_set = std::env::vars_os().any(|(name, _)| is_debug(&name.to_string_lossy()));
        if !is_asked || is_set || configured(&env) || !Path::new(PLACE).is_dir() {
            return Ok(None);
        }
        let mut random = [0; 8];
        io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut random)?;
        let random = u64::from_le_bytes(random);
        Ok(Some(NcclLogFiles {
            prefix: format!("{PLACE}/ncclscope-log-{random:016x}."),
        }))
    }

    /// The variables for the program.
    pub fn variables(&self) -> Vec<(String, OsString)> {
        let file = format!("{}%h.%p", self.prefix);
        [
            ("NCCLSCOPE_NCCL_LOG", self.prefix.as_str()),
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", SUBSYSTEMS),
            ("NCCL_DEBUG_FILE", &file),
            ("NCCL_DEBUG_TIMESTAMP_LEVELS", "INFO"),
            ("NCCL_DEBUG_TIMESTAMP_FORMAT", STAMP),
        ]
        .map(|(name, value)| (name.to_owned(), value.into()))
        .to_vec()
    }

    /// Moves the files that are left on this host into the capture, or removes them if there is none.
    pub fn adopt(&self, capture: &Path) {
        for file in self.left() {
            let name = file.to_string_lossy();
            let name = name.strip_prefix(&self.prefix).unwrap_or_default();
            let folder = capture.join(FOLDER);
            // A process that only loaded NCCL has nothing to say.
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.contains("Init START") && capture.is_dir() {
                let _ = std::fs::create_dir(&folder);
                let _ = std::fs::write(folder.join(format!("{name}.txt")), text);
            }
            let _ = std::fs::remove_file(file);
        }
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(PLACE).into_iter().flatten().flatten();
        let ours = |path: &PathBuf| path.to_string_lossy().starts_with(&self.prefix);
        entries.map(|entry| entry.path()).filter(ours).collect()
    }
}

/// The file that NCCL writes of a process with this environment, if any: ours, or one that the user asked
/// for.
pub fn of_process(pid: u32, host: &str, environment: &HashMap<String, String>) -> Option<PathBuf> {
    let name = environment
        .get("NCCL_DEBUG_FILE")
        .filter(|name| !name.is_empty())?;
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let file = |host: &str| folder.join(name.replace("%h", host).replace("%p", &pid.to_string()));
    // It can write into a terminal or a pipe, too.
    let is_file = |file: &PathBuf| file.metadata().is_ok_and(|of| of.is_file());
    [file(host_in_log(host)), file(host)]
        .into_iter()
        .find(is_file)
}

/// A host's name as NCCL has it: without the domain.
pub fn host_in_log(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

/// A note if all processes of a host are to write into one file, where their lines run into each other.
/// `/dev/stderr` is fine.
pub fn shared_file(file: Option<&str>) -> Option<String> {
    let file = file.filter(|file| !file.contains("%p") && !file.starts_with("/dev/std"))?;
    Some(format!(
        "NCCL_DEBUG_FILE={file} is one file for all processes of a host, so lines are lost; \
         NCCL_DEBUG_FILE={file}.%h.%p gives each its own"
    ))
}

/// Whether a variable says what NCCL shall say, or where.
fn is_debug(name: &str) -> bool {
    name.starts_with("NCCL_DEBUG") || name == "NCCL_WARN_ENABLE_DEBUG_INFO"
}

/// Whether one of NCCL's configuration files sets such a variable.
fn configured(env: impl Fn(&str) -> Option<String>) -> bool {
    let home = env("HOME").map(|home| format!("{home}/.nccl.conf"));
    let files = [
        env("NCCL_CONF_FILE"),
        home,
        Some("/etc/nccl.conf".to_owned()),
    ];
    let texts = files.into_iter().flatten().map(std::fs::read_to_string);
    texts.flatten().any(|text| sets_debug(&text))
}

/// Whether a configuration file does.
fn sets_debug(text: &str) -> bool {
    let names = text.lines().filter_map(|line| line.split_once('='));
    names.into_iter().any(|(name, _)| is_debug(name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_file_that_sets_debug_output_is_seen() {
        assert!(sets_debug("# mine\nNCCL_ALGO=Ring\n NCCL_DEBUG=WARN\n"));
        assert!(!sets_debug("# NCCL_DEBUG\nNCCL_ALGO=Ring\n"));
    }

    #[test]
    fn one_file_for_all_processes_gets_a_note() {
        for fine in [None, Some("x.%h.%p"), Some("/dev/stderr")] {
            assert_eq!(shared_file(fine), None, "{fine:?}");
        }
        let note = shared_file(Some("/tmp/nccl.log")).expect("a note");
        assert!(
            note.contains("NCCL_DEBUG_FILE=/tmp/nccl.log.%h.%p"),
            "{note}"
        );
    }

    #[test]
    fn files_that_no_recorder_took_are_kept_if_an_init_began() {
        let random = std::process::id();
        let log = NcclLogFiles {
            prefix: format!("{PLACE}/ncclscope-log-test-{random}."),
        };
        let capture = tempfile::tempdir().expect("a folder");
        let file = |name: &str| PathBuf::from(format!("{}{name}", log.prefix));
        std::fs::write(file("n1.7"), "n1:7:7 [0] NCCL INFO x - Init START\n").expect("written");
        std::fs::write(file("n1.8"), "n1:8:8 [0] NCCL INFO hello\n").expect("written");
        log.adopt(capture.path());
        assert!(log.left().is_empty());
        let kept = std::fs::read_dir(capture.path().join(FOLDER)).expect("a folder");
        let kept: Vec<OsString> = kept.flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(kept, ["n1.7.txt"]);
    }
}
