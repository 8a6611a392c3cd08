//! Where an export is written to: nothing is overwritten unless the user said so, and nothing but an earlier
//! export is ever removed.

use anyhow::{bail, Context};
use render::dataset;
use render::table::Table;
use std::path::{Path, PathBuf};

/// A name that ends in `/` says that a folder is meant before there is one.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Fails if something is there already that must stay. With `force`, removes the files of an earlier export
/// from a folder; a file is replaced when it is written.
///
/// # Errors
/// If something is there; if it is the capture; and if a file can't be removed.
pub fn check(path: &Path, capture: &Path, force: bool) -> anyhow::Result<()> {
    let Ok(found) = path.metadata() else {
        return Ok(());
    };
    let shown = path.display();
    let is_same = match (path.canonicalize(), capture.canonicalize()) {
        (Ok(path), Ok(capture)) => path == capture,
        _ => false,
    };
    if is_same {
        bail!("`{shown}` is the capture itself\n  hint: name another place with `-o`");
    }
    if !found.is_dir() {
        // A pipe or a device holds nothing that could be lost.
        if found.is_file() && !force {
            bail!("`{shown}` is there already\n  hint: name another file, or replace it with `--force`");
        }
        return Ok(());
    }
    let mut old = Old::default();
    if let Some(other) = old.gather(path, Inside::Export)? {
        let other = other.strip_prefix(path).unwrap_or(&other);
        bail!(
            "`{shown}`: expected a new or an empty folder, found one with files in it, such as `{}`\
             \n  hint: name another one with `-o FOLDER`",
            other.display()
        );
    }
    // Files of an earlier export would be read together with the new ones.
    if !old.is_empty() && !force {
        bail!(
            "`{shown}`: expected a new or an empty folder, found an earlier export\
             \n  hint: name another one with `-o FOLDER`, or replace the files with `--force`"
        );
    }
    old.remove()
}

/// What an earlier export wrote.
#[derive(Default)]
struct Old {
    files: Vec<PathBuf>,
    /// Those inside of others are behind them.
    folders: Vec<PathBuf>,
}

/// What a folder is, by its name and place.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    /// The one that the user named.
    Export,
    /// A part of a data set.
    DataSet,
}

impl Old {
    /// Adds what is in a folder and below. Returns the first path that no export writes.
    fn gather(&mut self, folder: &Path, inside: Inside) -> anyhow::Result<Option<PathBuf>> {
        let entries = folder.read_dir();
        let entries = entries.with_context(|| format!("`{}` can't be listed", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            match kind(&entry, inside) {
                Some(Kind::File) => self.files.push(path),
                Some(Kind::Folder) => {
                    self.folders.push(path.clone());
                    if let Some(other) = self.gather(&path, Inside::DataSet)? {
                        return Ok(Some(other));
                    }
                }
                None => return Ok(Some(path)),
            }
        }
        Ok(None)
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.folders.is_empty()
    }

    fn remove(self) -> anyhow::Result<()> {
        let files = self
            .files
            .iter()
            .map(|path| (path, std::fs::remove_file(path)));
        // Lazily, so that a folder is removed when all that was in it is gone.
        let folders = self.folders.iter().rev();
        let folders = folders.map(|path| (path, std::fs::remove_dir(path)));
        for (path, removed) in files.chain(folders) {
            removed.with_context(|| format!("`{}` can't be replaced", path.display()))?;
        }
        Ok(())
    }
}

/// The anchor file of an OTF2 archive: the file that was named, or one in the folder that was named.
pub fn anchor(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|e| e == "otf2") && !path.is_dir() {
        path.to_owned()
    } else {
        path.join("traces.otf2")
    }
}

/// As [`check`], for the files of an OTF2 archive.
///
/// # Errors
/// If one of them is there; and if a file can't be removed.
pub fn check_archive(anchor: &Path, force: bool) -> anyhow::Result<()> {
    let [anchor, definitions, folder] = render::otf2::files(anchor);
    for path in [&anchor, &definitions, &folder] {
        if path.symlink_metadata().is_ok() && !force {
            bail!(
                "`{}` is there already\
                 \n  hint: name another file, or replace the archive with `--force`",
                path.display()
            );
        }
    }
    let Ok(entries) = folder.read_dir() else {
        return Ok(());
    };
    let mut old = Vec::new();
    for entry in entries {
        let path = entry?.path();
        // The names of locations are numbers.
        let is_number = path.file_stem().is_some_and(|name| {
            name.to_str()
                .is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
        });
        let is_ours = path
            .extension()
            .is_some_and(|end| end == "evt" || end == "def");
        if !(is_number && is_ours && path.is_file()) {
            bail!(
                "`{}`: expected the files of an OTF2 archive, found `{}`\n  hint: name another file",
                folder.display(),
                path.display()
            );
        }
        old.push(path);
    }
    for path in old {
        std::fs::remove_file(&path)
            .with_context(|| format!("`{}` can't be replaced", path.display()))?;
    }
    Ok(())
}

enum Kind {
    File,
    Folder,
}

/// What an export writes under this name, if it does.
fn kind(entry: &std::fs::DirEntry, inside: Inside) -> Option<Kind> {
    let name = entry.file_name();
    let name = name.to_str()?;
    // Links are followed nowhere.
    let found = entry.file_type().ok()?;
    let is_export = inside == Inside::Export;
    if found.is_dir() {
        let is_table = is_export && Table::of_name(name).is_some();
        return (dataset::is_folder(name) || is_table).then_some(Kind::Folder);
    }
    let is_table = || {
        let (table, end) = name.split_once('.').unwrap_or((name, ""));
        Table::of_name(table).is_some() && ["parquet", "csv", "jsonl"].contains(&end)
    };
    let is_rank = || name.starts_with("rank-") && name.ends_with(".json.gz");
    let is_ours = dataset::is_part(name) || is_export && (is_table() || is_rank());
    (found.is_file() && is_ours).then_some(Kind::File)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_an_earlier_export_is_replaced_and_only_with_force() {
        let home = tempfile::tempdir().expect("a folder");
        let (out, capture) = (home.path().join("out"), home.path().join("capture"));
        fs::create_dir_all(out.join("communicator=ab")).expect("made");
        fs::write(out.join("communicator=ab/part-0.parquet"), "x").expect("written");
        fs::write(out.join("calls.csv"), "x").expect("written");
        let day = out.join("calls/host=a/day=2026-11-27");
        fs::create_dir_all(&day).expect("made");
        fs::write(day.join("part-12.parquet"), "x").expect("written");
        assert!(check(&out, &capture, false).is_err());
        check(&out, &capture, true).expect("replaced");
        assert_eq!(out.read_dir().expect("listed").count(), 0);
        fs::write(out.join("thesis.tex"), "x").expect("written");
        assert!(check(&out, &capture, true).is_err());
        assert!(out.join("thesis.tex").exists());
    }

    #[test]
    fn a_folder_named_like_ours_with_other_files_stays() {
        let home = tempfile::tempdir().expect("a folder");
        let inner = home.path().join("communicator=ab");
        fs::create_dir_all(&inner).expect("made");
        fs::write(inner.join("mine"), "x").expect("written");
        assert!(check(home.path(), Path::new("none"), true).is_err());
        assert!(inner.join("mine").exists());
    }

    #[test]
    fn a_data_set_with_other_files_or_links_stays() {
        let home = tempfile::tempdir().expect("a folder");
        let (out, mine) = (home.path().join("out"), home.path().join("mine"));
        let day = out.join("calls/host=a/day=2026-11-27");
        fs::create_dir_all(&day).expect("made");
        fs::create_dir(&mine).expect("made");
        for folder in [&day, &mine] {
            fs::write(folder.join("part-0.parquet"), "x").expect("written");
        }
        let refused = || {
            let said = check(&out, Path::new("none"), true).expect_err("not ours");
            assert!(day.join("part-0.parquet").exists() && mine.join("part-0.parquet").exists());
            said.to_string()
        };
        std::os::unix::fs::symlink(&mine, out.join("calls/host=b")).expect("linked");
        assert!(refused().contains("such as `calls/host=b`"));
        fs::remove_file(out.join("calls/host=b")).expect("removed");
        fs::write(out.join("calls/calls.csv"), "x").expect("written");
        assert!(refused().contains("such as `calls/calls.csv`"));
        fs::remove_file(out.join("calls/calls.csv")).expect("removed");
        check(&out, Path::new("none"), true).expect("all of it is ours");
        assert_eq!(out.read_dir().expect("listed").count(), 0);
    }

    #[test]
    fn an_archive_is_replaced_only_with_force_and_only_if_it_is_one() {
        let home = tempfile::tempdir().expect("a folder");
        let file = anchor(home.path());
        assert!(file.ends_with("traces.otf2"));
        check_archive(&file, false).expect("nothing is there");
        fs::create_dir(home.path().join("traces")).expect("made");
        fs::write(home.path().join("traces/0.evt"), "x").expect("written");
        assert!(check_archive(&file, false).is_err());
        check_archive(&file, true).expect("replaced");
        assert!(!home.path().join("traces/0.evt").exists());
        fs::write(home.path().join("traces/mine.def"), "x").expect("written");
        assert!(check_archive(&file, true).is_err());
    }

    #[test]
    fn the_capture_is_never_replaced() {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join("rank-0.trace");
        fs::write(&file, "x").expect("written");
        assert!(check(&file, &file, true).is_err());
        assert!(check(&file, home.path(), false).is_err());
        check(&file, home.path(), true).expect("the user said so");
    }
}
