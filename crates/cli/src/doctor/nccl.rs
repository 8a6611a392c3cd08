//! The NCCL libraries of this machine, and what each release tells a profiler.
//!
//! [`find`] looks where programs get NCCL from; [`delivers`] has what is known of a release.
//!
//! Rule: if a release can't give something, that is no fault of this machine. So it stands in a table of its
//! own, with the way round if there is one, and fails no check.

use super::{Check, Checks, Machine, Status};
use nccl_abi::release;
use render::doctor::{Delivered, LibraryJson, Much};
use render::layout::Page;
use std::path::{Path, PathBuf};

/// An NCCL library.
#[derive(Clone, Debug)]
pub struct Library {
    /// Where it is.
    pub path: PathBuf,
    /// How it was found.
    pub place: &'static str,
    /// As ncclGetVersion gives it.
    pub version: Option<u32>,
    /// Why it does not open.
    error: Option<String>,
}

const FILES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// Where packages put it when the linker's cache does not know.
const FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/nccl/lib",
];
/// Prints where Python looks for packages.
const PYTHON: [&str; 3] = ["python3", "-c", "import sys; print('\\n'.join(sys.path))"];

/// The libraries, in the order in which programs are likely to take them.
pub fn find(machine: &Machine) -> Vec<Library> {
    let mut places: Vec<(PathBuf, &'static str)> = Vec::new();
    for folder in machine.folders("LD_LIBRARY_PATH") {
        places.extend(FILES.map(|file| (folder.join(file), "LD_LIBRARY_PATH")));
    }
    for folder in (machine.run)(&PYTHON)
        .unwrap_or_default()
        .lines()
        .filter(|l| l.starts_with('/'))
    {
        let folder = Path::new(folder).join("nvidia/nccl/lib");
        places.extend(FILES.map(|file| (folder.join(file), "python3's packages")));
    }
    let cache =
        (machine.run)(&["ldconfig", "-p"]).or_else(|| (machine.run)(&["/sbin/ldconfig", "-p"]));
    for line in cache.unwrap_or_default().lines() {
        let (name, path) = line.split_once("=>").unwrap_or((line, ""));
        if name.trim_start().starts_with("libnccl.so") {
            places.push((PathBuf::from(path.trim()), "the linker's cache"));
        }
    }
    for folder in FOLDERS {
        places.extend(FILES.map(|file| (Path::new(folder).join(file), "the system's folders")));
    }
    let mut seen = Vec::new();
    let mut libraries = Vec::new();
    for (path, place) in places {
        let Ok(real) = std::fs::canonicalize(machine.path(&path)) else {
            continue;
        };
        if seen.contains(&real) {
            continue;
        }
        let found = (machine.probe)(&real);
        seen.push(real);
        libraries.push(Library {
            path,
            place,
            version: found.version,
            error: found.error,
        });
    }
    libraries
}

/// `2.28.9`.
pub fn dotted(version: u32) -> String {
    // Before 2.9 a version was 2708 for 2.7.8.
    if version < 10_000 {
        return format!(
            "{}.{}.{}",
            version / 1000,
            version / 100 % 10,
            version % 100
        );
    }
    format!(
        "{}.{}.{}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

/// The profiler ABI of a release, and whether it was examined.
fn abi(version: u32) -> (Option<u8>, bool) {
    match release::native_abi(version) {
        Some(abi) => (Some(abi), true),
        // Between releases that were, the older one's is the likely one.
        None => {
            let older = release::ALL.iter().rev().find(|r| r.version < version);
            (older.map(|r| r.native_abi), false)
        }
    }
}

/// The checks.
pub fn checks(machine: &Machine, libraries: &[Library]) -> Vec<Check> {
    let mut checks = Checks::new("NCCL");
    let looked = "looked at LD_LIBRARY_PATH, python3's packages, the linker's cache and the system's folders";
    if libraries.is_empty() {
        checks.not(
            Status::Unknown,
            "nccl_found",
            format!("no NCCL found; {looked}"),
            "run this in the job's own environment (its virtual environment, container or modules); a \
             program that has NCCL linked into it (some PyTorch builds) must be 2.23 or newer: \
             torch.cuda.nccl.version() tells",
        );
    }
    for library in libraries {
        let at = format!("`{}` ({})", library.path.display(), library.place);
        match (library.version, &library.error) {
            (Some(version), _) if version < 22_300 => checks.not(
                Status::Fail,
                "nccl_version",
                format!("NCCL {} at {at} has no profiler interface", dotted(version)),
                "programs that use it can't be recorded: NCCL 2.23 or newer (pip install -U \
                nvidia-nccl-cu12, or a newer torch)",
            ),
            (Some(version), _) => {
                let what = match abi(version) {
                    (Some(abi), true) => format!("profiler ABI v{abi}"),
                    (Some(abi), false) => {
                        format!("not examined; its profiler ABI is likely v{abi}")
                    }
                    (None, _) => "not examined".to_owned(),
                };
                checks.ok(
                    "nccl_version",
                    format!("NCCL {} at {at}: {what}", dotted(version)),
                );
                cautions(machine, version, &mut checks);
            }
            (None, error) => checks.not(
                Status::Unknown,
                "nccl_version",
                format!(
                    "{at} does not tell its version: {}",
                    error.as_deref().unwrap_or(
                        "no \
                    ncclGetVersion"
                    )
                ),
                "see that it is whole and for this machine; programs that use it may not start",
            ),
        }
    }
    let mut versions: Vec<u32> = libraries.iter().filter_map(|l| l.version).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        let list: Vec<String> = versions.iter().map(|v| dotted(*v)).collect();
        checks.not(
            Status::Warn,
            "nccl_versions",
            format!("{} versions of NCCL: {}", versions.len(), list.join(", ")),
            "which one a program takes hangs on how it was built (torch takes its package's); the report's \
             first lines have the one that was used",
        );
    }
    checks.list
}

/// What this release does badly with the settings that are in the environment.
fn cautions(machine: &Machine, version: u32, checks: &mut Checks) {
    let path = machine
        .var("NCCL_PROFILER_PLUGIN")
        .is_some_and(|v| v.contains('/'));
    if version == 22_703 && path {
        checks.not(
            Status::Warn,
            "nccl_plugin_by_path",
            "NCCL 2.27.3 has trouble with plugins given by path (NVIDIA/nccl#1732)",
            "NCCL_PROFILER_PLUGIN=ncclscope, with the plugin's folder in LD_LIBRARY_PATH",
        );
    }
    if !machine.stamps() {
        return;
    }
    if version < 22_700 {
        checks.not(
            Status::Warn,
            "nccl_stamps",
            format!(
                "NCCLSCOPE_TIMING=stamps, and NCCL {} has no GPU stamps",
                dotted(version)
            ),
            "NCCL 2.27 or newer; unset NCCLSCOPE_TIMING until then",
        );
    } else if (23_100..23_200).contains(&version) {
        checks.not(
            Status::Warn,
            "nccl_stamps",
            "stamps cost more with NCCL 2.31 than with others: 4 to 13 % of an AllReduce of 128 KiB to 4 MiB \
             was reported (NVIDIA/nccl#2355)",
            "measure a step with and without; NCCL 2.32 has it mended",
        );
    }
    if version >= 22_900 && machine.var("NCCL_ALLGATHERV_ENABLE") != Some("0") {
        checks.not(
            Status::Warn,
            "nccl_broadcast",
            format!("NCCL {} announces no kernel for Broadcast; from 2.31 on the stamps of later calls are \
                wrong after one", dotted(version)),
            "NCCL_ALLGATHERV_ENABLE=0 in programs that broadcast",
        );
    }
}

/// What a release tells a profiler.
pub fn delivers(version: u32) -> Vec<Delivered> {
    use Much::{No, Partly, Yes};
    let from = |release: u32| version >= release;
    let all = [
        match version {
            0..22_300 => ("calls", No, "profiler plugins came with 2.23"),
            22_300..22_800 => ("calls", Partly, "as NCCL enqueues them; a communicator's size and the \
                caller's rank from 2.27 on"),
            _ => ("calls", Yes, "every API call of communicators with two or more ranks"),
        },
        if from(22_800) {
            ("host times", Yes, "API entry, launch and return")
        } else {
            ("host times", Partly, "enqueueing only; API calls are announced from 2.28 on")
        },
        match version {
            0..22_700 => ("GPU times", No, "stamps came with 2.27"),
            22_700..22_800 => (
                "GPU times",
                Partly,
                "with NCCLSCOPE_TIMING=stamps only, which starts a busy thread and takes 34 MB of /dev/shm \
                for each rank and communicator",
            ),
            _ => ("GPU times", Yes, "from CUDA events, within NCCLSCOPE_BUDGET"),
        },
        match version {
            0..22_900 => ("Broadcast", Yes, "as other collectives"),
            22_900..23_100 => ("Broadcast", Partly, "no algorithm; timed if it is alone in its group; \
                NCCL_ALLGATHERV_ENABLE=0 brings the rest back"),
            _ => (
                "Broadcast",
                Partly,
                "no algorithm; timed if it is alone in its group; NCCL's stamps of later calls can't be \
                trusted; NCCL_ALLGATHERV_ENABLE=0 avoids both",
            ),
        },
        if from(23_100) {
            ("AlltoAll, send to oneself", Yes, "as sends and receives, put together by ncclscope")
        } else {
            (
                "AlltoAll, send to oneself",
                Partly,
                "as sends and receives, put together by ncclscope; NCCL's stamps of later calls can't be \
                trusted after one",
            )
        },
        match version {
            0..22_800 => ("symmetric-memory kernels", No, "not announced before 2.28"),
            22_800..23_100 => ("symmetric-memory kernels", Partly, "no algorithm; timed if they are alone \
                in their group"),
            _ => ("symmetric-memory kernels", Yes, "with their variant; no replays"),
        },
        match version {
            0..22_800 => ("copy-engine collectives", No, "not announced before 2.28"),
            _ => ("copy-engine collectives", Partly, "timed if they are alone in their group"),
        },
        ("CUDA graphs", Yes, "captures, and every launch; times of a sample, from kernel windows"),
        ("network", Yes, "operations, bytes and waits of the proxies, between hosts; none within one"),
    ];
    let all = all.map(|(what, delivered, how)| Delivered {
        what,
        delivered,
        how,
    });
    all.into()
}

impl Library {
    pub fn to_json(&self) -> LibraryJson {
        let version = self.version;
        LibraryJson {
            path: self.path.display().to_string(),
            found_in: self.place,
            version: version.map(dotted),
            abi: version.and_then(|v| abi(v).0),
            examined: version.map(|v| abi(v).1),
            delivers: version.map(delivers).unwrap_or_default(),
        }
    }
}

/// The table of a release.
pub fn delivered(version: u32, page: &mut Page) {
    page.title(&format!("What NCCL {} tells a profiler", dotted(version)));
    for of in delivers(version) {
        let first = format!("  {:<26} {:<7} ", of.what, of.delivered.name());
        page.wrap(&first, &" ".repeat(37), of.how);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{fake, probe::Probe};
    use super::*;

    #[test]
    fn libraries_are_found_once_in_order() {
        let root = tempfile::tempdir().expect("a folder");
        let packages = "/venv/lib/python3.12/site-packages";
        fake::file(
            root.path(),
            &format!("{packages}/nvidia/nccl/lib/libnccl.so.2"),
            "22809",
        );
        fake::file(
            root.path(),
            "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
            "22203",
        );
        fake::file(root.path(), "/opt/nccl/lib/libnccl.so.2", "");
        let mut machine = fake::machine(
            root.path(),
            &[("LD_LIBRARY_PATH", "/opt/nccl/lib:/nowhere")],
        );
        machine.run = Box::new(move |words| match words[0] {
            "python3" => Some(format!("\n/usr/lib/python3\n{packages}\n")),
            "/sbin/ldconfig" => Some(
                "1 libs found\n\tlibnccl.so.2 (libc6,x86-64) => \
                /usr/lib/x86_64-linux-gnu/libnccl.so.2\n"
                    .to_owned(),
            ),
            _ => None,
        });
        machine.probe = Box::new(|path| Probe {
            version: std::fs::read_to_string(path).expect("a file").parse().ok(),
            ..Probe::default()
        });
        let found = find(&machine);
        let places: Vec<_> = found.iter().map(|l| (l.place, l.version)).collect();
        assert_eq!(
            places,
            [
                ("LD_LIBRARY_PATH", None),
                ("python3's packages", Some(22_809)),
                ("the linker's cache", Some(22_203)),
            ]
        );
        assert_eq!(
            fake::states(&checks(&machine, &found)),
            [
                ("nccl_version", "unknown"),
                ("nccl_version", "ok"),
                ("nccl_version", "fail"),
                ("nccl_versions", "warn"),
            ]
        );
        let nothing = fake::machine(Path::new("/nowhere"), &[]);
        assert_eq!(
            fake::states(&checks(&nothing, &find(&nothing))),
            [("nccl_found", "unknown")]
        );
    }

    #[test]
    fn a_release_warns_of_what_the_settings_ask() {
        let with = |version: u32, env: &[(&str, &str)]| {
            let machine = fake::machine(Path::new("/nowhere"), env);
            let mut checks = Checks::new("NCCL");
            cautions(&machine, version, &mut checks);
            checks.list.iter().map(|c| c.name).collect::<Vec<_>>()
        };
        let stamps = [("NCCLSCOPE_TIMING", "stamps")];
        assert_eq!(with(22_809, &stamps), [""; 0]);
        assert_eq!(with(22_605, &stamps), ["nccl_stamps"]);
        assert_eq!(with(23_102, &stamps), ["nccl_stamps", "nccl_broadcast"]);
        assert_eq!(
            with(23_203, &[stamps[0], ("NCCL_ALLGATHERV_ENABLE", "0")]),
            [""; 0]
        );
        assert_eq!(
            with(22_703, &[("NCCL_PROFILER_PLUGIN", "/x/y.so")]),
            ["nccl_plugin_by_path"]
        );
        assert_eq!(with(23_203, &[]), [""; 0]);
    }

    #[test]
    fn each_release_tells_at_least_what_the_one_before_told_but_for_broadcast() {
        for pair in release::ALL.windows(2) {
            for (old, new) in delivers(pair[0].version)
                .iter()
                .zip(delivers(pair[1].version))
            {
                assert_eq!(old.what, new.what);
                assert!(
                    old.what == "Broadcast" || old.delivered <= new.delivered,
                    "{} {}",
                    pair[1].version,
                    new.what
                );
            }
        }
        assert_eq!(
            (dotted(22_809), dotted(2708)),
            ("2.28.9".to_owned(), "2.7.8".to_owned())
        );
        assert_eq!(
            (abi(22_809), abi(22_808), abi(22_000)),
            ((Some(5), true), (Some(5), false), (None, false))
        );
    }
}
