//! The plugin: is it there, does it open, does it have all symbols, and would NCCL take it?

use super::{Check, Checks, Machine, Status};
use crate::plugin_path::FILE;
use std::path::{Path, PathBuf};

/// The checks; `plugin` is where it was found, or why not.
pub fn checks(machine: &Machine, plugin: Result<&Path, String>) -> Vec<Check> {
    let mut checks = Checks::new("Plugin");
    match &plugin {
        Err(why) => {
            let (finding, remedy) = why
                .split_once("\n  hint: ")
                .unwrap_or((why, "reinstall ncclscope"));
            checks.not(Status::Fail, "plugin_found", finding, remedy);
        }
        Ok(path) => opened(machine, path, &mut checks),
    }
    named(machine, plugin.as_ref().ok().copied(), &mut checks);
    checks.list
}

fn opened(machine: &Machine, path: &Path, checks: &mut Checks) {
    let found = (machine.probe)(path);
    if let Some(error) = found.error {
        let remedy = if error.contains("GLIBC") {
            "this system's C library is older than the one it was built with: `make portable` builds one for \
            glibc 2.17"
        } else if error.contains("ELF") || error.contains("cannot open shared object") {
            "it is not a library for this machine: install ncclscope for this architecture, and see that the \
            file is whole"
        } else {
            "see that the file is whole and readable; reinstall ncclscope"
        };
        checks.not(
            Status::Fail,
            "plugin_opens",
            format!("`{}` does not open: {error}", path.display()),
            remedy,
        );
        return;
    }
    let missing: Vec<&str> = nccl_abi::SYMBOLS
        .into_iter()
        .filter(|s| !found.symbols.iter().any(|f| f == s))
        .collect();
    if missing.is_empty() {
        let all = nccl_abi::SYMBOLS.len();
        checks.ok(
            "plugin_opens",
            format!(
                "`{}` opens and has all {all} profiler symbols",
                path.display()
            ),
        );
    } else {
        checks.not(
            Status::Fail,
            "plugin_opens",
            format!("`{}` opens and lacks {}", path.display(), missing.join(", ")),
            "it is not this ncclscope's plugin: name the right one with NCCLSCOPE_PLUGIN, or reinstall \
            ncclscope",
        );
    }
}

/// How many libraries a value of NCCL_PROFILER_PLUGIN lists, if it lists several. A path with one of these
/// separators may be there.
pub(crate) fn several(value: &str) -> Option<usize> {
    let words = value.split([',', ':', ';', ' ']).filter(|w| !w.is_empty());
    let libraries = words.count();
    (libraries > 1 && !Path::new(value).exists()).then_some(libraries)
}

/// What NCCL_PROFILER_PLUGIN would make NCCL do, without `ncclscope run`.
fn named(machine: &Machine, ours: Option<&Path>, checks: &mut Checks) {
    const NAME: &str = "profiler_plugin_variable";
    let set_it =
        "use `ncclscope run`, which sets it, or NCCL_PROFILER_PLUGIN=$(ncclscope plugin-path)";
    let Some(value) = machine.var("NCCL_PROFILER_PLUGIN") else {
        let default = in_library_path(machine, "libnccl-profiler.so");
        match default {
            Some(file) => checks.not(
                Status::Warn,
                NAME,
                format!(
                    "NCCL_PROFILER_PLUGIN is not set, and NCCL would load `{}` by \
                    default",
                    file.display()
                ),
                set_it,
            ),
            None => checks.ok(
                NAME,
                "NCCL_PROFILER_PLUGIN is not set: `ncclscope run` sets it; without it \
                nothing is recorded",
            ),
        }
        return;
    };
    let fail = |checks: &mut Checks, finding: String, remedy: &str| {
        checks.not(Status::Fail, NAME, finding, remedy);
    };
    let is = format!("NCCL_PROFILER_PLUGIN is `{value}`");
    if value.eq_ignore_ascii_case("none") {
        return fail(
            checks,
            format!("{is}: NCCL loads no profiler plugin"),
            "unset it; `ncclscope run` sets its own",
        );
    }
    if let Some(libraries) = several(value) {
        return fail(
            checks,
            format!(
                "{is}: NCCL takes that as the name of one library, and loads none of these {libraries}"
            ),
            "use `ncclscope run`, and name the other plugin in NCCLSCOPE_CHAIN",
        );
    }
    // NCCL compares as many characters as the value has.
    if "STATIC_PLUGIN".starts_with(&value.to_ascii_uppercase()) {
        return fail(
            checks,
            format!("{is}: NCCL takes that as STATIC_PLUGIN and looks in the program itself"),
            set_it,
        );
    }
    if value.len() > 254 {
        let finding = format!(
            "NCCL_PROFILER_PLUGIN has {} characters; NCCL reads 254",
            value.len()
        );
        return fail(
            checks,
            finding,
            "use a shorter path, or `ncclscope` with the folder in LD_LIBRARY_PATH",
        );
    }
    let file = if value.contains('/') {
        let path = PathBuf::from(value);
        if !machine.path(&path).is_file() {
            let remedy = format!("{set_it}; on other hosts the path must be there too");
            return fail(checks, format!("{is}, which is not a file"), &remedy);
        }
        path
    } else {
        let names = [value.to_owned(), format!("libnccl-profiler-{value}.so")];
        match names.iter().find_map(|name| in_library_path(machine, name)) {
            Some(path) => path,
            None => {
                checks.not(
                    Status::Unknown,
                    NAME,
                    format!(
                        "{is}: neither `{}` nor `{}` is in LD_LIBRARY_PATH",
                        names[0], names[1]
                    ),
                    format!("unless the system's library folders have it: {set_it}"),
                );
                return;
            }
        }
    };
    let same = |a: &Path, b: &Path| {
        let real = |p: &Path| std::fs::canonicalize(machine.path(p)).ok();
        a == b || (real(a).is_some() && real(a) == real(b))
    };
    if file.file_name().is_some_and(|name| name == FILE)
        || ours.is_some_and(|ours| same(ours, &file))
    {
        checks.ok(NAME, format!("{is}: ncclscope's"));
    } else {
        fail(
            checks,
            format!("{is}: another plugin, and NCCL loads one"),
            "`ncclscope run --keep-plugin` runs it behind ncclscope's, and `--replace-plugin` replaces it",
        );
    }
}

fn in_library_path(machine: &Machine, name: &str) -> Option<PathBuf> {
    let places = machine
        .folders("LD_LIBRARY_PATH")
        .into_iter()
        .map(|folder| folder.join(name));
    places.into_iter().find(|file| machine.path(file).is_file())
}

#[cfg(test)]
mod tests {
    use super::super::{fake, probe::Probe};
    use super::*;

    fn state(env: &[(&str, &str)]) -> (&'static str, String) {
        let root = tempfile::tempdir().expect("a folder");
        fake::file(root.path(), "/opt/libnccl-profiler-ncclscope.so", "");
        fake::file(root.path(), "/opt/libnccl-profiler-inspector.so", "");
        fake::file(root.path(), "/auto/libnccl-profiler.so", "");
        let machine = fake::machine(root.path(), env);
        let checks = checks(&machine, Err("no plugin\n  hint: name it".to_owned()));
        assert_eq!(checks[0].remedy.as_deref(), Some("name it"));
        let check = fake::one(&checks, "profiler_plugin_variable");
        assert_eq!(check.remedy.is_none(), check.status == Status::Ok);
        (check.status.name(), check.finding.clone())
    }

    #[test]
    fn every_value_of_the_variable_is_told() {
        let named = |value: &str| {
            state(&[
                ("NCCL_PROFILER_PLUGIN", value),
                ("LD_LIBRARY_PATH", "/x:/opt"),
            ])
            .0
        };
        let cases = [
            ("/opt/libnccl-profiler-ncclscope.so", "ok"),
            ("ncclscope", "ok"),
            ("libnccl-profiler-ncclscope.so", "ok"),
            ("", "ok"),
            ("/opt/libnccl-profiler-inspector.so", "fail"),
            ("inspector", "fail"),
            ("/nowhere/libnccl-profiler-ncclscope.so", "fail"),
            ("none", "fail"),
            ("NONE", "fail"),
            ("static", "fail"),
            ("elsewhere", "unknown"),
            ("ncclscope,inspector", "fail"),
            ("/opt/libnccl-profiler-ncclscope.so:/opt/b.so", "fail"),
        ];
        for (value, expected) in cases {
            assert_eq!(named(value), expected, "{value}");
        }
        assert_eq!(named(&"x".repeat(300)), "fail");
        assert_eq!(state(&[("LD_LIBRARY_PATH", "/auto")]).0, "warn");
    }

    #[test]
    fn a_plugin_that_is_another_or_too_new_fails() {
        let root = tempfile::tempdir().expect("a folder");
        let with = |probe: Probe| {
            let mut machine = fake::machine(root.path(), &[]);
            machine.probe = Box::new(move |_| probe.clone());
            fake::one(&checks(&machine, Ok(Path::new("/p.so"))), "plugin_opens").clone()
        };
        let all = nccl_abi::SYMBOLS.map(str::to_owned).to_vec();
        let fine = with(Probe {
            symbols: all.clone(),
            ..Probe::default()
        });
        assert_eq!(fine.status, Status::Ok);
        let old = with(Probe {
            symbols: all[..3].to_vec(),
            ..Probe::default()
        });
        assert!(
            old.finding.contains("lacks ncclProfiler_v4, "),
            "{}",
            old.finding
        );
        let glibc = with(Probe {
            error: Some("/lib/libc.so.6: version `GLIBC_2.99' not found".to_owned()),
            ..Probe::default()
        });
        assert!(glibc.remedy.is_some_and(|r| r.contains("make portable")));
    }
}
