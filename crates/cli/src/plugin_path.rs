//! `ncclscope plugin-path`: where the library that NCCL loads is.
//!
//! Rule: only the name that NCCL looks for counts (`libnccl-profiler-NAME.so`), so that the printed path also
//! works by short name with `LD_LIBRARY_PATH`.

use anyhow::{bail, Context};
use std::cmp::Reverse;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The library's file name.
pub const FILE: &str = "libnccl-profiler-ncclscope.so";

/// Print the path of the profiler plugin that NCCL loads
///
/// For jobs that set the environment themselves:
///
///   NCCL_PROFILER_PLUGIN=$(ncclscope plugin-path) NCCLSCOPE_OUT=DIR srun ...
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// Prints the path.
pub fn main(_: Args) -> anyhow::Result<ExitCode> {
    let plugin = find()?;
    crate::report::print(|out| writeln!(out, "{}", plugin.display()))
}

/// The plugin: what `NCCLSCOPE_PLUGIN` names, else the one that came with this executable.
///
/// # Errors
/// When there is none, with the places looked at.
pub fn find() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("NCCLSCOPE_PLUGIN").filter(|p| !p.is_empty()) {
        let path = std::path::absolute(&named)?;
        if !path.is_file() {
            bail!(
                "NCCLSCOPE_PLUGIN names `{}`, which is not a file\n  hint: unset it to use the plugin beside \
                ncclscope",
                path.display()
            );
        }
        return Ok(path);
    }
    installed(FILE).map_err(|error| {
        anyhow::anyhow!("{error}, and NCCLSCOPE_PLUGIN=/path/to/{FILE} names another")
    })
}

/// A library or program that came with this executable.
///
/// # Errors
/// When it is not there, with the places looked at.
pub fn installed(name: &str) -> anyhow::Result<PathBuf> {
    // The kernel's link, so a symbolic link to the executable finds what lies beside the real one.
    let executable = std::env::current_exe().context("this executable's own path can't be read")?;
    beside(executable.parent().unwrap_or(Path::new("/")), name)
}

fn beside(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let up = folder.parent().unwrap_or(folder);
    let places = [
        folder.join(name),
        up.join("lib").join(name),
        up.join("lib/ncclscope").join(name),
    ];
    let packages = packages(up).map(|packages| packages.join("ncclscope/lib").join(name));
    match places.iter().cloned().chain(packages).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!(
            "no {name} beside ncclscope; looked at {}, and in Python's packages there\n  hint: `make` in a \
            source tree builds it",
            places.map(|p| format!("`{}`", p.display())).join(", ")
        ),
    }
}

/// Where Python keeps packages when this executable is in the `bin` of `up`: those of the newest Python
/// first, then those of `pip install --target`.
fn packages(up: &Path) -> impl Iterator<Item = PathBuf> {
    let mut pythons: Vec<(u32, PathBuf)> = ["lib", "lib64"]
        .iter()
        .filter_map(|lib| std::fs::read_dir(up.join(lib)).ok())
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let minor = entry
                .file_name()
                .to_str()?
                .strip_prefix("python3.")?
                .parse()
                .ok()?;
            Some((minor, entry.path()))
        })
        .collect();
    // lib64 is often a link to lib, so lib stays before it.
    pythons.sort_by_key(|(minor, _)| Reverse(*minor));
    let of = |(_, python): (u32, PathBuf)| {
        ["site-packages", "dist-packages"].map(|name| python.join(name))
    };
    pythons.into_iter().flat_map(of).chain([up.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lib_folder_beside_bin_is_found_and_the_cargo_name_is_not() {
        let root = tempfile::tempdir().expect("a folder");
        let (bin, lib) = (root.path().join("bin"), root.path().join("lib"));
        std::fs::create_dir_all(&bin).expect("made");
        std::fs::create_dir_all(&lib).expect("made");
        std::fs::write(bin.join("libnccl_profiler_ncclscope.so"), "").expect("written");
        assert!(beside(&bin, FILE).is_err_and(|e| e.to_string().contains("hint: `make`")));
        std::fs::write(lib.join(FILE), "").expect("written");
        assert_eq!(beside(&bin, FILE).expect("found"), lib.join(FILE));
    }

    #[test]
    fn installed_with_pip_it_is_in_the_newest_python_s_package() {
        let root = tempfile::tempdir().expect("a folder");
        let place = |python: &str| {
            let folder = root.path().join(python).join("ncclscope/lib");
            std::fs::create_dir_all(&folder).expect("made");
            std::fs::write(folder.join(FILE), "").expect("written");
            folder.join(FILE)
        };
        let bin = root.path().join("bin");
        let target = place("");
        assert_eq!(beside(&bin, FILE).expect("found"), target);
        let old = place("lib/python3.9/site-packages");
        assert_eq!(beside(&bin, FILE).expect("found"), old);
        let new = place("lib/python3.11/dist-packages");
        assert_eq!(beside(&bin, FILE).expect("found"), new);
        std::os::unix::fs::symlink("lib", root.path().join("lib64")).expect("linked");
        assert_eq!(beside(&bin, FILE).expect("found"), new);
    }
}
