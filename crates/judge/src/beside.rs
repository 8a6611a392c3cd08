//! What a profiler writes where the program runs.
//!
//! A case of the benchmark runs in a folder of its own, so all that is new there is the profiler's. A command
//! of the user's runs where the user is. What is new there, and begins with the profiler's name, is the
//! profiler's: `libncclsee.so` writes `ncclsee_DATE/`.
//!
//! Rule: nothing that was there before, and nothing with another name, is touched.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Shorter names may begin anybody's files.
const LEAST_NAME: usize = 4;

/// What was in a folder before a run.
pub struct Beside {
    folder: PathBuf,
    name: String,
    before: BTreeSet<OsString>,
}

impl Beside {
    /// Of the files of this plugin; `None` if its name says too little.
    pub fn new(folder: &Path, plugin: &str) -> Option<Beside> {
        let name = Path::new(plugin).file_stem()?.to_str()?;
        let name = name.strip_prefix("lib").unwrap_or(name);
        let name = name.strip_prefix("nccl-profiler-").unwrap_or(name);
        (name.len() >= LEAST_NAME).then(|| Beside {
            folder: folder.to_owned(),
            name: name.to_owned(),
            before: entries(folder),
        })
    }

    /// Moves what is new to the profiler's other files.
    ///
    /// # Errors
    /// If it can't be moved.
    pub fn take(self, out: &Path) -> io::Result<()> {
        let new = entries(&self.folder);
        let new = new.difference(&self.before);
        let is_its = |name: &&OsString| {
            name.to_str()
                .is_some_and(|text| text.starts_with(&self.name))
        };
        for name in new.filter(is_its) {
            move_to(&self.folder.join(name), &out.join(name))?;
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// Moves a file or a folder, also to another file system.
fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    if std::fs::rename(from, to).is_ok() {
        return Ok(());
    }
    if from.symlink_metadata()?.is_dir() {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let name = entry?.file_name();
            move_to(&from.join(&name), &to.join(&name))?;
        }
        return std::fs::remove_dir(from);
    }
    std::fs::copy(from, to)?;
    std::fs::remove_file(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_and_has_the_plugin_s_name_is_taken() {
        let place = tempfile::tempdir().expect("a folder");
        let (here, out) = (place.path().join("here"), place.path().join("out"));
        std::fs::create_dir_all(here.join("ncclsee_old")).expect("made");
        std::fs::create_dir_all(&out).expect("made");
        let beside = Beside::new(&here, "/p/libncclsee.so").expect("a name");
        std::fs::create_dir_all(here.join("ncclsee_new")).expect("made");
        std::fs::write(here.join("ncclsee_new/rank0.csv"), "a").expect("written");
        std::fs::write(here.join("model.pt"), "b").expect("written");
        beside.take(&out).expect("moved");
        assert_eq!(
            std::fs::read_to_string(out.join("ncclsee_new/rank0.csv")).expect("it is there"),
            "a"
        );
        let left: Vec<OsString> = entries(&here).into_iter().collect();
        assert_eq!(left, ["model.pt", "ncclsee_old"]);
    }

    #[test]
    fn a_plugin_s_name_is_that_of_its_file() {
        let name = |plugin: &str| Beside::new(Path::new("/nowhere"), plugin).map(|of| of.name);
        assert_eq!(
            name("/a/libnccl-profiler-inspector.so"),
            Some("inspector".into())
        );
        assert_eq!(name("example"), Some("example".into()));
        assert_eq!(name("/a/libx.so"), None);
        assert_eq!(name(""), None);
    }
}
