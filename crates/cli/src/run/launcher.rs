//! Launchers as the program of `ncclscope run`: how the recorder's variables get to the ranks they start.
//!
//! Rule: only a launcher's own options are changed, and only where it would else drop the variables; the
//! program's arguments are never touched.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// What kind of program a command starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Slurm's: passes the environment on unless told otherwise.
    Srun,
    /// Open MPI's mpirun: passes on what `-x` names.
    OpenMpi,
    /// Hydra, the mpirun of MPICH and Intel MPI: passes on what `-genv` sets.
    Hydra,
    /// Another mpirun.
    UnknownMpi,
    /// Flux: passes the environment on.
    Flux,
    /// torchrun and its like: local processes, each with a rank of its own.
    Local,
    /// None that is known: the program itself.
    None,
}

impl Launcher {
    /// By the name of the command; an mpirun is asked what it is, so call this before signals are blocked.
    pub fn of(command: &OsStr) -> Launcher {
        let name = Path::new(command).file_name().and_then(OsStr::to_str);
        match name.unwrap_or_default() {
            "srun" => Launcher::Srun,
            "mpirun" | "mpiexec" | "orterun" | "prterun" | "mpiexec.hydra" => mpi(command),
            "flux" => Launcher::Flux,
            "torchrun" | "accelerate" | "deepspeed" => Launcher::Local,
            _ => Launcher::None,
        }
    }

    /// Whether it starts processes on other hosts.
    pub fn leaves_host(self) -> bool {
        !matches!(self, Launcher::Local | Launcher::None)
    }

    /// The command with what this launcher needs to pass `variables` on, and a note for the user where that
    /// changed one of their options.
    pub fn arguments(
        self,
        command: &[OsString],
        variables: &[(String, OsString)],
    ) -> (Vec<OsString>, Option<String>) {
        let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
        let mut changed = command.to_vec();
        let mut note = None;
        match self {
            Launcher::Srun => {
                if let Some(extended) = srun_export(command, &names) {
                    changed = extended;
                    note = Some("srun --export was extended by ncclscope's variables".to_owned());
                }
            }
            Launcher::OpenMpi => {
                let options = names.iter().flat_map(|name| ["-x".into(), name.into()]);
                changed.splice(1..1, options);
            }
            Launcher::Hydra => {
                let option = |(name, value): &(String, OsString)| {
                    ["-genv".into(), name.into(), value.clone()]
                };
                changed.splice(1..1, variables.iter().flat_map(option));
            }
            Launcher::UnknownMpi => {
                note = Some(format!(
                    "unknown mpirun: see that it passes on {}",
                    names.join(" ")
                ));
            }
            Launcher::Flux | Launcher::Local | Launcher::None => {}
        }
        (changed, note)
    }

    /// What `SLURM_EXPORT_ENV` (srun's `--export` by environment, left by `sbatch --export`) must be for srun
    /// to pass the variables on, if something else than `value`.
    pub fn slurm_export_env(self, value: Option<&str>, names: &[&str]) -> Option<String> {
        value
            .filter(|_| self == Launcher::Srun)
            .and_then(|list| extended(list, names))
    }
}

/// Asks an mpirun what it is.
fn mpi(command: &OsStr) -> Launcher {
    let mut asked = Command::new(command);
    let asked = asked
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = asked
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let says = |names: [&str; 3]| names.iter().any(|name| text.contains(name));
    if says(["Open MPI", "OpenRTE", "PRRTE"]) {
        Launcher::OpenMpi
    } else if says(["HYDRA", "Hydra", "Intel(R) MPI"]) {
        Launcher::Hydra
    } else {
        Launcher::UnknownMpi
    }
}

/// srun's short options that take a value, which may be the next argument.
const SRUN_SHORT: &str = "AbBcCdDeFGiJLmMnNopqrStTwWx";
/// srun's long options that take none; every other one without `=` has its value in the next argument.
const SRUN_FLAGS: [&str; 24] = [
    "contiguous",
    "debugger-test",
    "disable-status",
    "exact",
    "exclusive",
    "get-user-env",
    "help",
    "hold",
    "immediate",
    "interactive",
    "kill-on-bad-exit",
    "label",
    "multi-prog",
    "no-allocate",
    "no-kill",
    "overcommit",
    "overlap",
    "oversubscribe",
    "preserve-env",
    "pty",
    "quiet",
    "spread-job",
    "unbuffered",
    "verbose",
];

/// The srun command with its `--export` extended, when it has one that would drop the variables.
fn srun_export(command: &[OsString], names: &[&str]) -> Option<Vec<OsString>> {
    let mut changed = command.to_vec();
    let mut at = 1;
    while let Some(argument) = command.get(at).and_then(|a| a.to_str()) {
        // The program starts at the first argument that is no option.
        let option = argument
            .strip_prefix('-')
            .filter(|rest| !rest.is_empty() && *rest != "-")?;
        let Some(long) = option.strip_prefix('-') else {
            let takes_next = option.len() == 1 && SRUN_SHORT.contains(option);
            at += 1 + usize::from(takes_next);
            continue;
        };
        if let Some(value) = long.strip_prefix("export=") {
            changed[at] = format!("--export={}", extended(value, names)?).into();
            return Some(changed);
        }
        if long == "export" {
            changed[at + 1] = extended(command.get(at + 1)?.to_str()?, names)?.into();
            return Some(changed);
        }
        at += 1 + usize::from(!long.contains('=') && !SRUN_FLAGS.contains(&long));
    }
    None
}

/// An `--export` list with the variables in it; `None` when they pass as it is.
fn extended(list: &str, names: &[&str]) -> Option<String> {
    let names = names.join(",");
    match list {
        "NONE" | "NIL" | "" => Some(names),
        _ if list.split(',').any(|entry| entry == "ALL") => None,
        _ => Some(format!("{list},{names}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn srun(line: &str) -> Option<String> {
        let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        srun_export(&command, &["A", "B"])
            .map(|c| c.join(OsStr::new(" ")).into_string().expect("UTF-8"))
    }

    #[test]
    fn srun_export_is_extended_and_the_programs_options_are_not() {
        assert_eq!(
            srun("srun --export=PATH -n 8 a"),
            Some("srun --export=PATH,A,B -n 8 a".to_owned())
        );
        assert_eq!(
            srun("srun -n 8 -lu --pty --export NONE a"),
            Some("srun -n 8 -lu --pty --export A,B a".to_owned())
        );
        assert_eq!(srun("srun --ntasks 8 --export=ALL,X=1 a"), None);
        assert_eq!(srun("srun -n 8 a --export=PATH"), None);
        assert_eq!(srun("srun --ntasks 8 a --export=PATH"), None);
        assert_eq!(srun("srun --label a --export=PATH"), None);
        assert_eq!(srun("srun -N2 -- a --export=PATH"), None);
    }

    #[test]
    fn sbatch_export_reaches_srun_by_environment() {
        assert_eq!(
            Launcher::of(OsStr::new("/usr/bin/srun"))
                .slurm_export_env(Some("NONE"), &["A"])
                .as_deref(),
            Some("A")
        );
        assert_eq!(Launcher::Srun.slurm_export_env(Some("ALL"), &["A"]), None);
        assert_eq!(Launcher::None.slurm_export_env(Some("NONE"), &["A"]), None);
    }
}
