//! Has NCCL write the topology that it found, and the rings and trees that it made of it, into the capture.
//!
//! NCCL writes them from rank 0 of each communicator, and the last one stays. Behind a launcher, the first
//! rank of each host does it, so that there is a file for each host.
//!
//! Rule: variables that the user has set stay as they are.

use super::adopt::Here;
use super::job::Job;
use super::launcher::Launcher;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tables::TOPOLOGY_FILE;

/// The variables for the program; none if it runs on other hosts, on which the folder may not be.
pub fn variables(
    capture: &Path,
    job: Option<&Job>,
    launcher: Launcher,
    env: impl Fn(&str) -> Option<String>,
) -> Vec<(String, OsString)> {
    if launcher.leaves_host() {
        return Vec::new();
    }
    let Ok(capture) = capture.canonicalize() else {
        return Vec::new();
    };
    let [topology, graphs] = files(&capture);
    let mut all = Vec::new();
    for (kind, file) in [("TOPO", topology), ("GRAPH", graphs)] {
        let (name, rank) = (
            format!("NCCL_{kind}_DUMP_FILE"),
            format!("NCCL_{kind}_DUMP_FILE_RANK"),
        );
        if env(&name).is_some() || env(&rank).is_some() {
            continue;
        }
        if let (Some(job), Launcher::None) = (job, launcher) {
            let local = ["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"];
            match local.iter().find_map(|name| env(name)).as_deref() {
                Some("0") => all.push((rank, job.rank.clone().into())),
                Some(_) => continue,
                None => {}
            }
        }
        all.push((name, file.into()));
    }
    all
}

/// Topology, and rings and trees, of this host.
fn files(capture: &Path) -> [PathBuf; 2] {
    let host = Here::ask().host;
    let host: String = host
        .chars()
        .map(|c| if c == '/' { '_' } else { c })
        .collect();
    let (begin, end) = TOPOLOGY_FILE;
    [
        capture.join(format!("{begin}{host}{end}")),
        capture.join(format!("graphs-{host}.xml")),
    ]
}

/// Removes them from a capture in which nothing was recorded.
pub fn remove(capture: &Path) {
    for file in files(capture) {
        let _ = std::fs::remove_file(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(job: Option<&Job>, launcher: Launcher, vars: &[(&str, &str)]) -> Vec<String> {
        let env = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = variables(Path::new("/"), job, launcher, env);
        found.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn the_first_rank_of_a_host_writes() {
        let both = ["NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"];
        assert_eq!(names(None, Launcher::None, &[]), both);
        assert!(names(None, Launcher::Srun, &[]).is_empty());
        let own = [("NCCL_TOPO_DUMP_FILE", "/x.xml")];
        assert_eq!(names(None, Launcher::None, &own), both[1..]);
        let job = Job {
            rank: "8".to_owned(),
            key: "slurm-1.0".to_owned(),
            member: "8".to_owned(),
        };
        assert_eq!(
            names(Some(&job), Launcher::None, &[("SLURM_LOCALID", "0")]).len(),
            4
        );
        assert!(names(Some(&job), Launcher::None, &[("SLURM_LOCALID", "3")]).is_empty());
    }
}
