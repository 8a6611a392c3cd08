//! Driver, GPUs, memory, disk, clock and limits.
//!
//! Rule: a machine without GPUs is one to look at captures on, so that is `unknown`, not `fail`.

use super::{nccl::Library, Check, Checks, Machine, Status};
use std::path::{Path, PathBuf};
use tables::printable;

/// What each rank takes of /dev/shm for stamps, up to NCCL 2.30.
const STAMPS_SHM: u64 = 34_210_176;
/// A rank's live part where NCCLSCOPE_MEMORY says nothing.
const LIVE_PART: u64 = 4_411_392;
/// What the recorder leaves to NCCL in /dev/shm.
const LEFT_TO_NCCL: u64 = 48 << 20;
/// The least that a capture should have to grow into.
const CAPTURE_SPACE: u64 = 1 << 30;

/// The checks.
pub fn checks(machine: &Machine, libraries: &[Library]) -> Vec<Check> {
    let mut checks = Checks::new("Machine");
    platform(machine, &mut checks);
    driver(machine, &mut checks);
    shared_memory(machine, libraries, &mut checks);
    own_folders(machine, &mut checks);
    output(machine, &mut checks);
    clock(machine, &mut checks);
    limits(machine, &mut checks);
    left_behind(machine, &mut checks);
    surroundings(machine, &mut checks);
    checks.list
}

/// There is no ncclscope for another system, so this one runs on Linux.
fn platform(machine: &Machine, checks: &mut Checks) {
    let kernel = machine
        .read("/proc/sys/kernel/osrelease")
        .unwrap_or_default();
    let arch = std::env::consts::ARCH;
    let wsl = kernel.to_lowercase().contains("microsoft");
    match (arch, wsl) {
        ("x86_64", false) => checks.ok("platform", "Linux on x86-64"),
        ("x86_64", true) => checks.ok("platform", "Linux on x86-64, in Windows (WSL2, not tested)"),
        ("aarch64", _) => checks.ok("platform", "Linux on aarch64 (not tested on GPUs)"),
        (other, _) => checks.not(
            Status::Warn,
            "platform",
            format!("Linux on {other}, for which ncclscope was never tried"),
            "use Linux on x86-64 or aarch64 (docs/reference/support.md)",
        ),
    }
}

fn driver(machine: &Machine, checks: &mut Checks) {
    let version = machine.read("/proc/driver/nvidia/version");
    let version = version.as_deref().and_then(|text| {
        let line = text.lines().next()?;
        line.split_whitespace()
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
    });
    let wsl = machine.path("/dev/dxg").exists();
    let Some(version) = version else {
        if wsl {
            checks.ok("driver", "GPUs by way of Windows (WSL2)");
            return;
        }
        checks.not(
            Status::Unknown,
            "driver",
            "no NVIDIA driver here: what needs GPUs is not checked",
            "run this on a node with GPUs: srun -N 1 --gpus 1 ncclscope doctor",
        );
        return;
    };
    let devices = machine.gpus();
    let closed = devices
        .iter()
        .filter(|name| std::fs::File::open(machine.path(Path::new("/dev").join(name))).is_err());
    let closed = closed.count();
    let there = std::fs::read_dir(machine.path("/proc/driver/nvidia/gpus"))
        .map_or(0, |gpus| gpus.flatten().count());
    let gpus = format!(
        "NVIDIA driver {version}, {there} GPUs, {} of them as devices here",
        devices.len()
    );
    if devices.is_empty() {
        checks.not(
            Status::Fail,
            "driver",
            gpus,
            "this container or job was given no GPU: docker run --gpus all, srun --gpus N",
        );
    } else if closed > 0 {
        checks.not(
            Status::Fail,
            "driver",
            format!("{gpus}; {closed} can't be opened"),
            "see the permissions of /dev/nvidia* and what GPUs the job was given",
        );
    } else {
        checks.ok("driver", gpus);
    }
    if machine
        .env
        .get("CUDA_VISIBLE_DEVICES")
        .is_some_and(|v| v.trim().is_empty() || v.trim() == "-1")
    {
        checks.not(
            Status::Warn,
            "visible_gpus",
            "CUDA_VISIBLE_DEVICES hides all GPUs",
            "unset it, or name the GPUs: 0,1,2,3",
        );
    }
}

fn shared_memory(machine: &Machine, libraries: &[Library], checks: &mut Checks) {
    const NAME: &str = "shared_memory";
    let remedy =
        "docker run --ipc=host or --shm-size=8g; on a host, mount -o remount,size=50% /dev/shm";
    let place = machine.path("/dev/shm");
    let Some(space) = Some(&place)
        .filter(|p| p.is_dir())
        .and_then(|p| (machine.space)(p))
    else {
        checks.not(
            Status::Fail,
            NAME,
            "no /dev/shm: NCCL's ranks on one host talk through it",
            remedy,
        );
        return;
    };
    // As many ranks as GPUs; eight where there is none to count.
    let ranks = match machine.gpus().len() as u64 {
        0 => 8,
        n => n,
    };
    let old = |version: u32| (22_700..23_100).contains(&version);
    let costly = machine.stamps() && libraries.iter().any(|l| l.version.is_none_or(old));
    let each = LIVE_PART + if costly { STAMPS_SHM } else { 0 };
    let need = ranks * each + LEFT_TO_NCCL;
    let has = format!(
        "/dev/shm has {} of {} free",
        rounded(space.free),
        rounded(space.total)
    );
    let wants = format!(
        "{ranks} ranks want {}{}",
        rounded(need),
        if costly {
            ": up to NCCL 2.30, stamps take 34 MB a rank and communicator of it"
        } else {
            ""
        }
    );
    if space.free >= need {
        checks.ok(NAME, format!("{has}; {wants}"));
    } else if costly {
        let finding = format!("{has}; {wants}, and NCCL crashes where it runs out");
        checks.not(
            Status::Fail,
            NAME,
            finding,
            format!("{remedy}; or NCCLSCOPE_TIMING=host"),
        );
    } else {
        checks.not(Status::Warn, NAME, format!("{has}; {wants}"), remedy);
    }
}

/// The folders in which open calls live have names that anybody can make first.
fn own_folders(machine: &Machine, checks: &mut Checks) {
    // SAFETY: always succeeds.
    let uid = unsafe { libc::geteuid() };
    let local = machine.env.get("TMPDIR").filter(|place| !place.is_empty());
    for place in ["/dev/shm", local.map_or("/tmp", String::as_str)] {
        let folder = format!("{place}/{}", capture::left::folder_of(uid));
        if let Some(why) = capture::left::why_not_ours(&machine.path(&folder), uid) {
            checks.not(
                Status::Warn,
                "own_folder",
                format!(
                    "`{}` {why}, so recorders make one with another name beside it",
                    printable(&folder)
                ),
                "ask its owner or root to remove it; calls are recorded all the same",
            );
        }
    }
}

fn rounded(bytes: u64) -> String {
    match bytes {
        0..0x4000_0000 => format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// The folder that captures go to: the part of NCCLSCOPE_OUT that does not hang on the process.
fn output_folder(machine: &Machine) -> PathBuf {
    let pattern = machine.var("NCCLSCOPE_OUT").unwrap_or(".");
    let fixed = pattern.split('%').next().unwrap_or_default();
    let folder = if fixed.len() == pattern.len() {
        fixed
    } else {
        fixed.rfind('/').map_or(".", |at| &fixed[..at + 1])
    };
    std::path::absolute(folder).unwrap_or_else(|_| PathBuf::from(folder))
}

fn output(machine: &Machine, checks: &mut Checks) {
    const NAME: &str = "output";
    let wanted = output_folder(machine);
    let there = wanted
        .ancestors()
        .find(|folder| machine.path(folder).is_dir());
    let there = there.unwrap_or(Path::new("/")).to_owned();
    let shown = format!("captures go to `{}`", wanted.display());
    let remedy =
        "`ncclscope run -o DIR` or NCCLSCOPE_OUT=DIR with a folder that all ranks can write to";
    // A folder that is not there is made on the way.
    if let Err(error) = tempfile::tempfile_in(machine.path(&there)) {
        let finding = format!(
            "{shown}, and `{}` can't be written to: {error}",
            there.display()
        );
        checks.not(Status::Fail, NAME, finding, remedy);
        return;
    }
    match (machine.space)(&machine.path(&there)) {
        Some(space) if space.free < CAPTURE_SPACE => checks.not(
            Status::Warn,
            NAME,
            format!(
                "{shown}, with {} free; a rank writes 100 bytes a call, and NCCLSCOPE_MAX_SIZE at most",
                rounded(space.free)
            ),
            format!("{remedy}; NCCLSCOPE_MODE=profile writes totals only"),
        ),
        Some(space) => checks.ok(
            NAME,
            format!("{shown}, where {} is free", rounded(space.free)),
        ),
        None => checks.ok(NAME, format!("{shown}, which can be written to")),
    }
}

fn clock(machine: &Machine, checks: &mut Checks) {
    if cfg!(target_arch = "aarch64") {
        checks.ok("clock", "times are read from the CPU's own counter");
        return;
    }
    match machine.read("/sys/devices/system/clocksource/clocksource0/current_clocksource").as_deref() {
        Some("tsc") => checks.ok("clock", "the kernel trusts the time stamp counter, and so does the \
            recorder"),
        Some(source) => checks.not(
            Status::Warn,
            "clock",
            format!("the kernel's clock is `{source}`, so each time costs a kernel call or a slow register \
                in place of a few ns"),
            "see `dmesg | grep -i tsc` for why it does not trust the time stamp counter; in a virtual \
            machine, ask for it to be passed on",
        ),
        None => checks.not(
            Status::Unknown,
            "clock",
            "the kernel does not tell its clock",
            "nothing to do: the recorder takes CLOCK_MONOTONIC",
        ),
    }
}

fn limits(machine: &Machine, checks: &mut Checks) {
    let (files, length) = machine.limits;
    if files < 1024 {
        checks.not(
            Status::Warn,
            "open_files",
            format!("{files} open files are allowed; NCCL opens many for each peer"),
            "ulimit -n 65536",
        );
    } else {
        checks.ok("open_files", format!("{files} open files are allowed"));
    }
    if length < CAPTURE_SPACE {
        checks.not(
            Status::Warn,
            "file_size",
            format!("files may grow to {} only", rounded(length)),
            "ulimit -f unlimited; beyond it calls are counted in totals",
        );
    }
}

/// Live parts that `ncclscope collect` has not brought into their captures yet.
fn left_behind(machine: &Machine, checks: &mut Checks) {
    let bytes: u64 = machine.left.iter().map(|(_, bytes)| bytes).sum();
    let Some((folder, _)) = machine.left.first() else {
        return;
    };
    let folder = printable(&folder.to_string_lossy()).into_owned();
    checks.not(
        Status::Warn,
        "left_behind",
        format!(
            "{} processes that were killed have their newest calls in {} of this node's memory, the first of \
            them of `{folder}`",
            machine.left.len(),
            rounded(bytes)
        ),
        format!("`ncclscope collect {folder}` brings them into the capture; without a folder, all of them"),
    );
}

fn surroundings(machine: &Machine, checks: &mut Checks) {
    let kernel = machine
        .read("/proc/sys/kernel/osrelease")
        .unwrap_or_else(|| "not known".to_owned());
    let cgroup = machine.read("/proc/1/cgroup").unwrap_or_default();
    let marks = ["docker", "containerd", "kubepods", "lxc", "podman"];
    let files = ["/.dockerenv", "/run/.containerenv", "/.singularity.d"];
    let contained = files.iter().any(|file| machine.path(file).exists())
        || marks.iter().any(|mark| cgroup.contains(mark))
        || machine.var("SINGULARITY_NAME").is_some()
        || machine.var("APPTAINER_NAME").is_some();
    checks.ok(
        "kernel",
        if contained {
            format!("Linux {kernel}, in a container: plugin and capture folder must be in it")
        } else {
            format!("Linux {kernel}")
        },
    );
}

#[cfg(test)]
mod tests {
    use super::super::{fake, Space};
    use super::*;

    fn library(version: u32) -> Library {
        let root = tempfile::tempdir().expect("a folder");
        fake::file(root.path(), "/opt/libnccl.so.2", "");
        let mut machine = fake::machine(root.path(), &[("LD_LIBRARY_PATH", "/opt")]);
        machine.probe = Box::new(move |_| super::super::probe::Probe {
            version: Some(version),
            ..Default::default()
        });
        super::super::nccl::find(&machine).remove(0)
    }

    fn gpu_node(root: &Path) {
        let version =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release \
            Build\nGCC version: 13\n";
        fake::file(root, "/proc/driver/nvidia/version", version);
        for gpu in ["0000:18:00.0", "0000:2a:00.0"] {
            fake::file(
                root,
                &format!("/proc/driver/nvidia/gpus/{gpu}/information"),
                "",
            );
        }
        fake::file(root, "/dev/shm/x", "");
    }

    #[test]
    fn a_gpu_node_is_fine_and_one_without_devices_is_not() {
        let root = tempfile::tempdir().expect("a folder");
        gpu_node(root.path());
        let driver = |env: &[(&str, &str)]| {
            let found = checks(&fake::machine(root.path(), env), &[]);
            fake::one(&found, "driver").clone()
        };
        let none = driver(&[]);
        assert_eq!(none.status, Status::Fail);
        assert_eq!(
            none.finding,
            "NVIDIA driver 580.159.04, 2 GPUs, 0 of them as devices here"
        );
        for device in ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"] {
            fake::file(root.path(), &format!("/dev/{device}"), "");
        }
        assert_eq!(driver(&[]).status, Status::Ok);
        let hidden = checks(
            &fake::machine(root.path(), &[("CUDA_VISIBLE_DEVICES", "")]),
            &[],
        );
        assert_eq!(fake::one(&hidden, "visible_gpus").status, Status::Warn);
    }

    #[test]
    fn a_folder_of_open_calls_that_somebody_else_made_is_named() {
        let root = tempfile::tempdir().expect("a folder");
        fake::file(root.path(), "/dev/shm/x", "");
        let own = || -> Vec<Check> {
            let mut all = checks(&fake::machine(root.path(), &[("TMPDIR", "/var/tmp")]), &[]);
            all.retain(|check| check.name == "own_folder");
            all
        };
        assert!(own().is_empty());
        // SAFETY: always succeeds.
        let name = capture::left::folder_of(unsafe { libc::geteuid() });
        fake::file(root.path(), &format!("/var/tmp/{name}"), "");
        let found = own();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].status, Status::Warn);
        let expected = format!("`/var/tmp/{name}` is no folder");
        assert!(
            found[0].finding.starts_with(&expected),
            "{}",
            found[0].finding
        );
    }

    #[test]
    fn a_machine_without_a_gpu_is_not_known_and_wsl_is_fine() {
        let root = tempfile::tempdir().expect("a folder");
        fake::file(root.path(), "/dev/shm/x", "");
        let driver = || fake::one(&checks(&fake::machine(root.path(), &[]), &[]), "driver").status;
        assert_eq!(driver(), Status::Unknown);
        fake::file(root.path(), "/dev/dxg", "");
        assert_eq!(driver(), Status::Ok);
    }

    #[test]
    fn linux_in_windows_is_told_from_linux() {
        let root = tempfile::tempdir().expect("a folder");
        let said = || {
            let found = checks(&fake::machine(root.path(), &[]), &[]);
            fake::one(&found, "platform").finding.clone()
        };
        assert!(said().starts_with("Linux on ") && !said().contains("WSL2"));
        let kernel = "5.15.167.4-microsoft-standard-WSL2\n";
        fake::file(root.path(), "/proc/sys/kernel/osrelease", kernel);
        assert!(cfg!(target_arch = "aarch64") || said().contains("WSL2"));
    }

    #[test]
    fn dockers_64_mib_of_shared_memory_are_too_little_for_stamps() {
        let root = tempfile::tempdir().expect("a folder");
        gpu_node(root.path());
        fake::file(root.path(), "/dev/nvidia0", "");
        fake::file(root.path(), "/dev/nvidia1", "");
        let state = |free: u64, timing: &str, nccl: u32| {
            let mut machine = fake::machine(root.path(), &[("NCCLSCOPE_TIMING", timing)]);
            let total = 64 << 20;
            machine.space = Box::new(move |_| Some(Space { total, free }));
            fake::one(&checks(&machine, &[library(nccl)]), "shared_memory").status
        };
        assert_eq!(state(64 << 20, "host", 22_809), Status::Ok);
        assert_eq!(state(64 << 20, "stamps", 22_809), Status::Fail);
        assert_eq!(state(64 << 20, "stamps", 23_203), Status::Ok);
        assert_eq!(state(16 << 20, "host", 22_809), Status::Warn);
    }

    #[test]
    fn the_output_folder_is_the_part_that_is_known() {
        let folder = |out: &str| {
            output_folder(&fake::machine(
                Path::new("/nowhere"),
                &[("NCCLSCOPE_OUT", out)],
            ))
        };
        assert_eq!(folder("/scratch/%j/%r"), Path::new("/scratch/"));
        assert_eq!(folder("/scratch/run-%j"), Path::new("/scratch/"));
        assert_eq!(folder("/scratch/run"), Path::new("/scratch/run"));
        assert_eq!(folder("%j"), folder("."));
        let root = tempfile::tempdir().expect("a folder");
        fake::file(root.path(), "/scratch/x", "");
        let machine = fake::machine(root.path(), &[("NCCLSCOPE_OUT", "/scratch/new/%j")]);
        assert_eq!(
            fake::one(&checks(&machine, &[]), "output").status,
            Status::Ok
        );
        assert!(!root.path().join("scratch/new").exists());
    }

    #[test]
    fn slow_clocks_and_small_limits_warn() {
        let root = tempfile::tempdir().expect("a folder");
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        fake::file(root.path(), source, "hpet\n");
        fake::file(root.path(), "/.dockerenv", "");
        let mut machine = fake::machine(root.path(), &[]);
        machine.limits = (256, 1 << 20);
        machine.left = vec![(PathBuf::from("/scratch/run"), 5 << 20); 2];
        let found = checks(&machine, &[]);
        for name in ["open_files", "file_size", "left_behind"] {
            assert_eq!(fake::one(&found, name).status, Status::Warn, "{name}");
        }
        let left = &fake::one(&found, "left_behind").finding;
        assert!(
            left.starts_with("2 processes") && left.contains("10 MiB"),
            "{left}"
        );
        assert!(cfg!(target_arch = "aarch64") || fake::one(&found, "clock").status == Status::Warn);
        assert_eq!(fake::one(&found, "shared_memory").status, Status::Fail);
        assert!(fake::one(&found, "kernel").finding.contains("container"));
    }
}
