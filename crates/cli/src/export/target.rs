//! Where an export is written to: nothing is overwritten unless the user said so, and nothing but an earlier
//! export is ever removed.

use anyhow::{bail, Context};
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
    let mut old = Vec::new();
    for entry in path
        .read_dir()
        .with_context(|| format!("`{shown}` can't be listed"))?
    {
        let entry = entry?;
        if !is_ours(&entry) {
            bail!(
                "`{shown}`: expected a new or an empty folder, found one with files in it, such as `{}`\
                 \n  hint: name another one with `-o FOLDER`",
                entry.file_name().to_string_lossy()
            );
        }
        old.push(entry.path());
    }
    // Files of an earlier export would be read together with the new ones.
    if !old.is_empty() && !force {
        bail!(
            "`{shown}`: expected a new or an empty folder, found an earlier export\
             \n  hint: name another one with `-o FOLDER`, or replace the files with `--force`"
        );
    }
    for path in old {
        let removed = if path.is_dir() {
            std::fs::remove_file(path.join(PART)).and_then(|()| std::fs::remove_dir(&path))
        } else {
            std::fs::remove_file(&path)
        };
        removed.with_context(|| format!("`{}` can't be replaced", path.display()))?;
    }
    Ok(())
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

const PART: &str = "part-0.parquet";

/// Whether an export writes files of this name and kind.
fn is_ours(entry: &std::fs::DirEntry) -> bool {
    let name = entry.file_name();
    let Some(name) = name.to_str() else {
        return false;
    };
    let Ok(kind) = entry.file_type() else {
        return false;
    };
    if kind.is_dir() {
        let only_part = |folder: std::fs::ReadDir| {
            let mut names = folder.map(|entry| entry.map(|entry| entry.file_name()));
            names.all(|name| name.is_ok_and(|name| name == PART))
        };
        return name.starts_with("communicator=") && entry.path().read_dir().is_ok_and(only_part);
    }
    let is_table = || {
        let (table, end) = name.split_once('.').unwrap_or((name, ""));
        let is_table = render::table::Table::of_name(table).is_some();
        is_table && ["parquet", "csv", "jsonl"].contains(&end)
    };
    let is_part = || name.starts_with("part-") && name.ends_with(".parquet");
    let is_rank = || name.starts_with("rank-") && name.ends_with(".json.gz");
    kind.is_file() && (is_table() || is_part() || is_rank())
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
