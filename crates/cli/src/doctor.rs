//! `ncclscope doctor`: what this machine, NCCL, driver and launcher can deliver, and why a capture is empty
//! or partial.
//!
//! Each area has a file and gives [`Check`]s: [`plugin`], [`nccl`], [`machine`], [`variables`],
//! [`launchers`], [`surroundings`], and [`capture`] for a capture that was made. They ask a [`Machine`],
//! which is this one, or in tests one of files in a folder.
//!
//! Rule: a check that is not `ok` says what to do. What can't be found out is `unknown`, never `ok`; only
//! `fail` makes the exit status 1.

mod attach;
mod capture;
mod launchers;
mod machine;
mod nccl;
mod plugin;
mod probe;
mod surroundings;
mod variables;

pub(crate) use plugin::several as several_plugins;
pub use variables::misspelt;

use crate::report::print;
use crate::run::adopt;
use render::doctor::{Check, DoctorJson, Status};
use render::layout::{Look, Page, Style};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Say what can be recorded here, before the run; or why a capture is empty or partial
///
///   ncclscope doctor              this machine, in the environment of the job
///   srun -N 4 ncclscope doctor    every node of it
///   ncclscope doctor DIR          a capture
///
/// Exit status: 0 nothing fails, 1 something does, 2 wrong usage.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture to examine, in place of this machine
    capture: Option<PathBuf>,
    /// Print JSON (ncclscope.doctor/1) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    look: crate::look::Look,
    /// Opens a library and prints what it is; run by the doctor itself, because a library may crash or hang
    #[arg(long, hide = true, value_name = "LIBRARY")]
    probe: Option<PathBuf>,
}

/// The checks of one area, in the making.
struct Checks {
    area: &'static str,
    list: Vec<Check>,
}

impl Checks {
    fn new(area: &'static str) -> Checks {
        Checks {
            area,
            list: Vec::new(),
        }
    }

    fn ok(&mut self, name: &'static str, finding: impl Into<String>) {
        self.add(name, Status::Ok, finding.into(), None);
    }

    fn not(
        &mut self,
        status: Status,
        name: &'static str,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(name, status, finding.into(), Some(remedy.into()));
    }

    fn add(&mut self, name: &'static str, status: Status, finding: String, remedy: Option<String>) {
        self.list.push(Check {
            area: self.area,
            name,
            status,
            finding,
            remedy,
        });
    }
}

/// Total and free bytes of a file system.
#[derive(Clone, Copy, Debug)]
struct Space {
    total: u64,
    free: u64,
}

/// Runs a program.
type Output = Box<dyn Fn(&[&str]) -> Option<String>>;
/// Asks for the space around a path.
type SpaceOf = Box<dyn Fn(&Path) -> Option<Space>>;

/// What is asked. Paths are below `root`.
struct Machine {
    root: PathBuf,
    env: BTreeMap<String, String>,
    /// Standard output of a program; nothing when it can't be run, fails or does not end.
    run: Output,
    /// What a library is.
    probe: Box<dyn Fn(&Path) -> probe::Probe>,
    space: SpaceOf,
    /// Soft limits of open files and of a file's size.
    limits: (u64, u64),
    /// The live parts of dead processes that are still here: the captures' folders, and bytes of memory.
    left: Vec<(PathBuf, u64)>,
}

impl Machine {
    /// This one.
    fn here() -> Machine {
        use nix::sys::resource::{getrlimit, Resource};
        let limit = |of| getrlimit(of).map_or(u64::MAX, |(soft, _)| soft);
        Machine {
            root: PathBuf::from("/"),
            env: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((
                        name.into_string().ok()?,
                        value.to_string_lossy().into_owned(),
                    ))
                })
                .collect(),
            run: Box::new(|words| probe::output(words, Duration::from_secs(20))),
            probe: Box::new(probe::in_a_child),
            space: Box::new(|path| {
                let stat = nix::sys::statvfs::statvfs(path).ok()?;
                // Their types differ from platform to platform.
                #[allow(clippy::unnecessary_cast)]
                let bytes = |blocks: u64| blocks.saturating_mul(stat.fragment_size() as u64);
                #[allow(clippy::unnecessary_cast)]
                Some(Space {
                    total: bytes(stat.blocks() as u64),
                    free: bytes(stat.blocks_available() as u64),
                })
            }),
            limits: (
                limit(Resource::RLIMIT_NOFILE),
                limit(Resource::RLIMIT_FSIZE),
            ),
            left: left_behind(),
        }
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn read(&self, path: &str) -> Option<String> {
        let bytes = std::fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A variable that is set and not empty.
    fn var(&self, name: &str) -> Option<&str> {
        self.env
            .get(name)
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// The folders of a variable like PATH.
    fn folders(&self, name: &str) -> Vec<PathBuf> {
        let list = self.var(name).unwrap_or_default();
        std::env::split_paths(list)
            .filter(|p| !p.as_os_str().is_empty())
            .collect()
    }

    /// A program on PATH.
    fn which(&self, name: &str) -> Option<PathBuf> {
        let places = self
            .folders("PATH")
            .into_iter()
            .map(|folder| folder.join(name));
        places.into_iter().find(|file| self.path(file).is_file())
    }

    /// Whether GPU stamps are asked for.
    fn stamps(&self) -> bool {
        self.var("NCCLSCOPE_TIMING")
            .is_some_and(|t| t.trim().eq_ignore_ascii_case("stamps"))
    }

    /// The names of the GPUs that this host, container or job has as devices.
    fn gpus(&self) -> Vec<String> {
        let number = |name: &String| {
            let rest = name.strip_prefix("nvidia").unwrap_or_default();
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())
        };
        let entries = std::fs::read_dir(self.path("/dev"))
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|e| e.file_name().into_string().ok());
        names.filter(number).collect()
    }
}

/// The live parts that dead processes of this user left on this node.
fn left_behind() -> Vec<(PathBuf, u64)> {
    let here = adopt::Here::ask();
    let dead = |left: &adopt::Leftover| left.left.liveness(&here) == adopt::Liveness::Dead;
    let leftovers = adopt::leftovers(|_, _| true).into_iter().filter(dead);
    let described = leftovers.map(|left| {
        // DIR/HOST/NAME.trace.
        let folder = left.trace.parent().and_then(Path::parent);
        let bytes = left.file.metadata().map_or(0, |m| m.blocks() * 512);
        (folder.unwrap_or(&left.trace).to_owned(), bytes)
    });
    described.collect()
}

/// Examines and prints.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(library) = &args.probe {
        let found = probe::here(library).to_json();
        return crate::report::print(|out| writeln!(out, "{found}"));
    }
    let (checks, libraries, next) = match &args.capture {
        Some(folder) => {
            let (checks, next) = capture::checks(folder);
            (checks, Vec::new(), next)
        }
        None => {
            let machine = Machine::here();
            let libraries = nccl::find(&machine);
            let plugin = crate::plugin_path::find();
            let mut checks =
                plugin::checks(&machine, plugin.as_deref().map_err(|e| format!("{e:#}")));
            checks.extend(nccl::checks(&machine, &libraries));
            checks.extend(machine::checks(&machine, &libraries));
            checks.extend(variables::checks(&machine));
            checks.extend(launchers::checks(&machine));
            checks.extend(surroundings::checks(&machine));
            checks.extend(attach::checks());
            (
                checks,
                libraries,
                "ncclscope run -o DIR -- COMMAND; then ncclscope doctor DIR if something is \
                missing"
                    .to_owned(),
            )
        }
    };
    print(|out| {
        if args.json {
            let json = serde_json::to_string_pretty(&to_json(&checks, &libraries))?;
            writeln!(out, "{}", render::json::printable(&json))
        } else {
            page(&checks, &libraries, &next, args.look.of_stdout()).finish(out)
        }
    })?;
    let failed = checks.iter().any(|c| c.status == Status::Fail);
    Ok(ExitCode::from(u8::from(failed)))
}

fn to_json<'a>(checks: &'a [Check], libraries: &[nccl::Library]) -> DoctorJson<'a> {
    DoctorJson::new(
        checks,
        libraries.iter().map(nccl::Library::to_json).collect(),
    )
}

/// The checks by area, what each release of NCCL delivers, and how many checks there are of each status.
fn page(checks: &[Check], libraries: &[nccl::Library], next: &str, look: Look) -> Page {
    let mut page = Page::new(look, true);
    let mut area = "";
    for check in checks {
        if check.area != area {
            area = check.area;
            page.styled(Style::Title, area);
        }
        let style = match check.status {
            Status::Ok => Style::Good,
            Status::Warn | Status::Unknown => Style::Open,
            Status::Fail => Style::Bad,
        };
        let first = format!("  {:<7} ", check.status.name());
        page.labelled(style, &first, "          ", &check.finding);
        if let Some(remedy) = &check.remedy {
            page.wrap("          remedy: ", "            ", remedy);
        }
    }
    let mut versions: Vec<u32> = libraries.iter().filter_map(|l| l.version).collect();
    versions.sort_unstable();
    versions.dedup();
    for version in versions {
        nccl::delivered(version, &mut page);
    }
    let count = |status: Status| checks.iter().filter(|c| c.status == status).count();
    let counts: Vec<String> = [Status::Fail, Status::Warn, Status::Unknown, Status::Ok]
        .into_iter()
        .filter(|status| count(*status) > 0)
        .map(|status| format!("{} {}", count(status), status.name()))
        .collect();
    page.gap();
    page.wrap("", "", &format!("{}.", counts.join(", ")));
    page.next(next);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_to_its_schema_and_the_worst_check_is_the_status() {
        let root = tempfile::tempdir().expect("a folder");
        fake::file(root.path(), "/opt/libnccl.so.2", "");
        let mut machine = fake::machine(root.path(), &[("LD_LIBRARY_PATH", "/opt")]);
        machine.probe = Box::new(|_| probe::Probe {
            version: Some(22_809),
            ..probe::Probe::default()
        });
        let libraries = nccl::find(&machine);
        let mut found = nccl::checks(&machine, &libraries);
        found.extend(machine::checks(&machine, &libraries));
        let json = serde_json::to_value(to_json(&found, &libraries)).expect("JSON");
        let schema = serde_json::from_str(include_str!("../schema/doctor-1.json")).expect("JSON");
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let errors: Vec<String> = validator
            .iter_errors(&json)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
        // There is no /dev/shm in that folder.
        assert_eq!(json["status"], "fail");
        assert_eq!(json["nccl"][0]["version"], "2.28.9");
    }

    #[test]
    fn every_check_that_is_not_ok_has_a_remedy() {
        let nowhere = fake::machine(
            Path::new("/nowhere"),
            &[("NCCL_PROFILER_PLUGIN", "none"), ("NCCLSCOPE_X", "1")],
        );
        let mut found = plugin::checks(&nowhere, Err("none".to_owned()));
        found.extend(nccl::checks(&nowhere, &[]));
        found.extend(machine::checks(&nowhere, &[]));
        found.extend(variables::checks(&nowhere));
        found.extend(launchers::checks(&nowhere));
        for check in &found {
            assert_eq!(
                check.remedy.is_none(),
                check.status == Status::Ok,
                "{check:?}"
            );
        }
        assert!(found.iter().any(|c| c.status == Status::Fail));
    }
}

#[cfg(test)]
mod fake {
    use super::*;

    /// A machine whose files lie in `root`, where no program runs and no library opens.
    pub fn machine(root: &Path, env: &[(&str, &str)]) -> Machine {
        Machine {
            root: root.to_owned(),
            env: env
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            run: Box::new(|_| None),
            probe: Box::new(|_| probe::Probe {
                error: Some("not opened".to_owned()),
                ..probe::Probe::default()
            }),
            space: Box::new(|_| {
                Some(Space {
                    total: 64 << 30,
                    free: 32 << 30,
                })
            }),
            limits: (65_536, u64::MAX),
            left: Vec::new(),
        }
    }

    /// Puts a file into the machine.
    pub fn file(root: &Path, path: &str, text: &str) {
        let path = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    /// Names and states of checks.
    pub fn states(checks: &[Check]) -> Vec<(&'static str, &'static str)> {
        checks.iter().map(|c| (c.name, c.status.name())).collect()
    }

    /// The check of this name.
    pub fn one<'a>(checks: &'a [Check], name: &str) -> &'a Check {
        checks.iter().find(|c| c.name == name).expect("the check")
    }
}
