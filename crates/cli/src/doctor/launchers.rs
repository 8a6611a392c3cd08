//! Which launchers there are, and whether they pass the recorder's variables on.

use super::{Check, Checks, Machine, Status};
use crate::run::launcher::Launcher;
use std::ffi::OsStr;

/// The checks.
pub fn checks(machine: &Machine) -> Vec<Check> {
    let mut checks = Checks::new("Launchers");
    for name in ["torchrun", "srun", "mpirun", "mpiexec", "flux"] {
        let Some(path) = machine.which(name) else {
            continue;
        };
        let launcher = Launcher::of(path.as_os_str());
        one(machine, name, launcher, &mut checks);
    }
    if checks.list.is_empty() {
        checks.ok(
            "launcher",
            "none of torchrun, srun, mpirun, mpiexec, flux on PATH; `ncclscope run -- \
            python …` needs none",
        );
    }
    if machine.var("NCCLSCOPE_RUN").is_some() {
        checks.not(
            Status::Warn,
            "under_run",
            "this is already under an `ncclscope run`",
            "a second one inside it refuses to start: leave one of the two out",
        );
    }
    checks.list
}

fn one(machine: &Machine, name: &str, launcher: Launcher, checks: &mut Checks) {
    match launcher {
        Launcher::Srun => {
            let value = machine.var("SLURM_EXPORT_ENV");
            match launcher.slurm_export_env(value, &["NCCL_PROFILER_PLUGIN"]) {
                Some(_) => checks.not(
                    Status::Warn,
                    "launcher",
                    format!("srun: SLURM_EXPORT_ENV is `{}`, so it passes no other variables \
                        on", value.unwrap_or("")),
                    "`ncclscope run -- srun …` extends it; without `run`, use srun --export=ALL",
                ),
                None => checks.ok("launcher", "srun passes the environment on; `ncclscope run` extends an \
                    --export that would not"),
            }
        }
        Launcher::OpenMpi => checks.ok("launcher", format!("{name} is Open MPI's: `ncclscope run` adds -x \
            for its variables")),
        Launcher::Hydra => checks.ok("launcher", format!("{name} is MPICH's or Intel's: `ncclscope run` adds \
            -genv for its variables")),
        Launcher::UnknownMpi => checks.not(
            Status::Warn,
            "launcher",
            format!("{name} does not say whose it is"),
            "see that it passes NCCL_PROFILER_PLUGIN and NCCLSCOPE_* on, or put `ncclscope run` behind it",
        ),
        Launcher::Flux => checks.ok("launcher", "flux passes the environment on"),
        Launcher::Local | Launcher::None => {
            debug_assert_eq!(Launcher::of(OsStr::new(name)), launcher);
            checks.ok("launcher", format!("{name} starts local processes, which inherit the environment"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;

    #[test]
    fn launchers_on_path_are_told_and_a_closed_export_warns() {
        let root = tempfile::tempdir().expect("a folder");
        fake::file(root.path(), "/bin/srun", "");
        fake::file(root.path(), "/bin/torchrun", "");
        let states = |env: &[(&str, &str)]| {
            let machine = fake::machine(root.path(), env);
            checks(&machine)
                .iter()
                .map(|c| c.status)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            states(&[("PATH", "/usr/bin:/bin")]),
            [Status::Ok, Status::Ok]
        );
        assert_eq!(
            states(&[("PATH", "/bin"), ("SLURM_EXPORT_ENV", "NONE")]),
            [Status::Ok, Status::Warn]
        );
        assert_eq!(
            states(&[("NCCLSCOPE_RUN", "/x")]),
            [Status::Ok, Status::Warn]
        );
    }
}
