//! What this runs inside of: a batch job, a pod, a container, a launcher; and what is missing there.
//!
//! Rule: only variables and files that the surroundings themselves leave are evidence.

use super::{Check, Checks, Machine, Status};
use std::path::Path;

/// File systems that no other node sees.
const LOCAL: [&str; 8] = [
    "tmpfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs",
];

/// The checks.
pub fn checks(machine: &Machine) -> Vec<Check> {
    let mut checks = Checks::new("Surroundings");
    let number = |name: &str| {
        machine
            .var(name)
            .and_then(|value| value.trim().parse::<u64>().ok())
    };
    let mut nodes = 1;
    if let Some(job) = machine.var("SLURM_JOB_ID") {
        nodes = number("SLURM_JOB_NUM_NODES")
            .or(number("SLURM_NNODES"))
            .unwrap_or(1);
        let restart = number("SLURM_RESTART_COUNT").unwrap_or(0);
        checks.ok("slurm", format!("in Slurm's job {job}, {nodes} nodes"));
        if restart > 0 {
            checks.not(
                Status::Warn,
                "slurm_restart",
                format!("the job was requeued, start {}: `%j` is the folder of its first start", restart + 1),
                "-o captures/${SLURM_JOB_ID}-${SLURM_RESTART_COUNT}, as in examples/slurm/train.sbatch",
            );
        }
    }
    let is_pod = machine.var("KUBERNETES_SERVICE_HOST").is_some();
    let marks = ["/.dockerenv", "/run/.containerenv"];
    let is_container = is_pod || marks.iter().any(|mark| machine.path(mark).exists());
    if is_pod {
        checks.ok("kubernetes", "in a pod of Kubernetes");
    } else if is_container {
        checks.ok("container", "in a container");
    }
    if machine.var("TORCHELASTIC_RUN_ID").is_some() {
        let local = number("LOCAL_WORLD_SIZE").unwrap_or(1).max(1);
        nodes = nodes.max(number("WORLD_SIZE").unwrap_or(1) / local);
        checks.ok(
            "torchrun",
            "under torchrun: each restart has a folder `restart-N` in the capture",
        );
    }
    if machine.var("RAY_JOB_ID").is_some() || machine.var("RAY_ADDRESS").is_some() {
        checks.ok(
            "ray",
            "in a job of Ray: workers take the recorder's variables from `runtime_env`",
        );
    }
    let ranks = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE"];
    if let Some(ranks) = ranks.iter().find_map(|name| number(name)) {
        checks.ok("mpi", format!("under an MPI launcher, {ranks} ranks"));
    }
    let Some(out) = machine.var("NCCLSCOPE_OUT") else {
        return checks.list;
    };
    let Some((place, kind)) = file_system(machine, Path::new(out)) else {
        return checks.list;
    };
    if nodes > 1 && LOCAL.contains(&&*kind) {
        checks.not(
            Status::Warn,
            "shared_folder",
            format!("NCCLSCOPE_OUT is on {place} ({kind}), and {nodes} nodes do not share that"),
            "a folder on a shared file system; or `ncclscope collect DIR --into SHARED` on each node",
        );
    } else if is_container && kind == "overlay" {
        checks.not(
            Status::Warn,
            "kept_folder",
            "NCCLSCOPE_OUT is on the container's own file system, which goes with the container",
            "a folder on a volume, as in examples/kubernetes/job.yaml",
        );
    } else {
        checks.ok("folder", format!("NCCLSCOPE_OUT is on {place} ({kind})"));
    }
    checks.list
}

/// Where the file system of this path is mounted, and its type: the longest mount point of which the path is
/// below, and of equals the last, which covers the others.
fn file_system(machine: &Machine, path: &Path) -> Option<(String, String)> {
    let path = std::path::absolute(path).ok()?;
    let mounts = machine.read("/proc/self/mountinfo")?;
    let found = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        // Blanks in names are written as \040.
        let place = before.split(' ').nth(4)?.replace("\\040", " ");
        let kind = after.split(' ').next()?.to_owned();
        path.starts_with(&place).then_some((place, kind))
    });
    found.max_by_key(|(place, _)| place.len())
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;

    fn told(env: &[(&str, &str)], files: &[&str]) -> Vec<(&'static str, Status)> {
        let root = tempfile::tempdir().expect("a folder");
        let mounts = "1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /mnt/my\\040disk rw - xfs /dev/sda rw\n\
                      3 1 0:3 / /shared rw shared:1 - lustre a@tcp:/b rw\n";
        fake::file(root.path(), "/proc/self/mountinfo", mounts);
        files
            .iter()
            .for_each(|file| fake::file(root.path(), file, ""));
        let machine = fake::machine(root.path(), env);
        checks(&machine)
            .iter()
            .map(|check| (check.name, check.status))
            .collect()
    }

    #[test]
    fn each_is_known_by_what_it_leaves() {
        assert_eq!(told(&[], &[]), []);
        let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "4")];
        assert_eq!(told(&slurm, &[]), [("slurm", Status::Ok)]);
        assert_eq!(told(&[], &["/.dockerenv"]), [("container", Status::Ok)]);
        assert_eq!(
            told(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")], &[]),
            [("kubernetes", Status::Ok)]
        );
        assert_eq!(
            told(&[("TORCHELASTIC_RUN_ID", "none")], &[]),
            [("torchrun", Status::Ok)]
        );
        assert_eq!(
            told(&[("RAY_JOB_ID", "01000000")], &[]),
            [("ray", Status::Ok)]
        );
        assert_eq!(
            told(&[("OMPI_COMM_WORLD_SIZE", "8")], &[]),
            [("mpi", Status::Ok)]
        );
    }

    #[test]
    fn a_folder_that_other_nodes_do_not_see_is_a_warning() {
        let on = |nodes: &str, out: &str| {
            let env = [
                ("SLURM_JOB_ID", "7"),
                ("SLURM_NNODES", nodes),
                ("NCCLSCOPE_OUT", out),
            ];
            told(&env, &[])[1]
        };
        assert_eq!(on("4", "/shared/captures"), ("folder", Status::Ok));
        assert_eq!(
            on("4", "/mnt/my disk/captures"),
            ("shared_folder", Status::Warn)
        );
        assert_eq!(on("1", "/mnt/my disk/captures"), ("folder", Status::Ok));
        let pod = [
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("NCCLSCOPE_OUT", "/captures"),
        ];
        assert_eq!(told(&pod, &[])[1], ("kept_folder", Status::Warn));
        let requeued = [("SLURM_JOB_ID", "7"), ("SLURM_RESTART_COUNT", "1")];
        assert_eq!(told(&requeued, &[])[1], ("slurm_restart", Status::Warn));
    }
}
