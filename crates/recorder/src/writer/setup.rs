//! Keeps what NCCL said about its set-up, how long the recorder's own inits took, and on which CPUs the
//! process may run.
//!
//! NCCL writes its debug output into a file if it is asked to: by `ncclscope run`, or by the user. NCCL has
//! that file open, so its descriptor is found in `/proc/self/fd`, whatever its name became. A file of ours is
//! removed from its folder as soon as it is open here too. So nothing is left behind, however the job ends.
//!
//! Rule: a user's file is only read.

use super::Writer;
use crate::kept_file::KeptFile;
use crate::settings::NcclLog;
use capture::block::BlockKind;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a block at most.
const MOST: usize = 32 << 10;
/// Bytes that are kept of a process. A job with `NCCL_DEBUG_SUBSYS=ALL` writes without end.
const MOST_IN_ALL: u64 = 4 << 20;
/// Looks for the file at most: NCCL has it open before it loads the plugin.
const LOOKS: u32 = 8;

/// How far it is kept.
#[derive(Default)]
pub(super) struct Kept {
    /// NCCL's file, once it was found.
    file: Option<KeptFile>,
    looks: u32,
    /// CPUs that are written.
    cpus: Option<String>,
    /// Bytes of it that are kept.
    at: u64,
}

impl Writer {
    /// Stages what is new.
    pub(super) fn write_setup(&mut self) {
        let init_ns = &self.recorder.writer.init_ns;
        let took = init_ns.swap(0, Relaxed);
        if took != 0 {
            let line = format!("ncclscope plugin_init_ns={took}\n");
            if !self.block(BlockKind::Setup, |out| out.extend(line.as_bytes())) {
                init_ns.fetch_add(took, Relaxed);
            }
        }
        let mut kept = std::mem::take(&mut self.setup);
        let cpus = allowed(Path::new("/proc/self/status"));
        if cpus != kept.cpus {
            if let Some(list) = &cpus {
                let line = format!("ncclscope cpus={list}\n");
                if self.block(BlockKind::Setup, |out| out.extend(line.as_bytes())) {
                    kept.cpus = cpus;
                }
            }
        }
        if kept.file.is_none() && kept.looks < LOOKS {
            kept.looks += 1;
            kept.file = find(&self.recorder.settings.nccl_log, Path::new("/proc/self/fd"));
        }
        if let Some(file) = &mut kept.file {
            while let Some(lines) = next_lines(file, kept.at) {
                if !self.block(BlockKind::Setup, |out| out.extend(&lines)) {
                    break;
                }
                kept.at += lines.len() as u64;
            }
        }
        self.setup = kept;
    }
}

/// CPUs on which the main thread may run. NCCL binds the thread that makes a communicator and frees it again,
/// so only the newest list counts.
fn allowed(status: &Path) -> Option<String> {
    let text = std::fs::read_to_string(status).ok()?;
    let mut lines = text.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list.trim().to_owned())
}

/// The next whole lines behind `at`. A line that is longer than a block comes in pieces.
fn next_lines(file: &mut KeptFile, at: u64) -> Option<Vec<u8>> {
    if at >= MOST_IN_ALL {
        return None;
    }
    let mut lines = vec![0; MOST];
    let read = file.read_at(&mut lines, at).ok()?;
    lines.truncate(read);
    let end = lines.iter().rposition(|byte| *byte == b'\n');
    match end {
        Some(end) => lines.truncate(end + 1),
        None if read < MOST => return None,
        None => {}
    }
    Some(lines)
}

/// Opens the file into which NCCL writes, through its descriptor in `descriptors`.
fn find(log: &NcclLog, descriptors: &Path) -> Option<KeptFile> {
    let prefix = log.prefix.as_deref()?;
    // The kernel names files by whole paths.
    let whole = if prefix.starts_with('/') {
        prefix.to_owned()
    } else {
        format!("/{prefix}")
    };
    let fits = |target: &Path| {
        let target = target.to_string_lossy();
        if prefix.starts_with('/') {
            target.starts_with(&whole)
        } else {
            target.contains(&whole)
        }
    };
    for entry in std::fs::read_dir(descriptors).ok()?.flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else {
            continue;
        };
        if !fits(&target) {
            continue;
        }
        // Not of a pipe, whose opening may wait.
        if !std::fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        let Ok(file) = KeptFile::read_only(&entry.path()) else {
            continue;
        };
        if log.is_ours {
            let _ = std::fs::remove_file(&target);
        }
        return Some(file);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("ncclscope-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        folder
    }

    #[test]
    fn nccl_s_file_is_found_by_its_descriptor_and_removed_if_it_is_ours() {
        let folder = folder("log");
        let path = folder.join("log.host.1");
        let mut written = File::create(&path).expect("made");
        written.write_all(b"one\ntwo\nthr").expect("written");
        let prefix = folder.join("log.").to_string_lossy().into_owned();
        let log = |is_ours| NcclLog {
            prefix: Some(prefix.clone()),
            is_ours,
        };
        let descriptors = Path::new("/proc/self/fd");
        assert!(find(&log(false), descriptors).is_some());
        assert!(path.exists());
        let mut file = find(&log(true), descriptors).expect("found");
        assert!(!path.exists());
        // Whole lines only, and what NCCL writes later is there too.
        let lines = next_lines(&mut file, 0).expect("lines");
        assert_eq!(lines, b"one\ntwo\n");
        assert_eq!(next_lines(&mut file, lines.len() as u64), None);
        written.write_all(b"ee\n").expect("written");
        assert_eq!(
            next_lines(&mut file, lines.len() as u64).as_deref(),
            Some(&b"three\n"[..])
        );
        assert_eq!(next_lines(&mut file, MOST_IN_ALL), None);
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn the_process_s_cpus_are_read() {
        let list = allowed(Path::new("/proc/self/status")).expect("a list");
        assert!(list.starts_with(|c: char| c.is_ascii_digit()), "{list}");
        assert_eq!(allowed(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_relative_path_is_found_below_the_folder_that_the_job_was_in() {
        let folder = folder("relative");
        let _written = File::create(folder.join("mine.1.txt")).expect("made");
        let name = folder
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let log = NcclLog {
            prefix: Some(format!("{name}/mine.")),
            is_ours: false,
        };
        assert!(find(&log, Path::new("/proc/self/fd")).is_some());
        assert!(find(&NcclLog::default(), Path::new("/proc/self/fd")).is_none());
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_line_without_end_comes_in_pieces() {
        let folder = folder("long");
        let path = folder.join("long");
        std::fs::write(&path, vec![b'x'; MOST + 7]).expect("written");
        let mut file = KeptFile::read_only(&path).expect("opened");
        assert_eq!(next_lines(&mut file, 0).map(|l| l.len()), Some(MOST));
        assert_eq!(next_lines(&mut file, MOST as u64), None);
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
