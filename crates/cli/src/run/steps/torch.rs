//! Has the program's Python mark the steps of torch's optimizers.
//!
//! A folder in the capture, which is the first on the program's PYTHONPATH, has a `sitecustomize.py`. Python
//! runs it before the program. It waits until the program imports `torch.optim`, and then has torch call it
//! back. All it needs is beside it, because the program's Python need not have ncclscope's package.
//!
//! Rule: only this user can write into the folder, because its files run in the program.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folder in the capture. The recorder looks for this name on PYTHONPATH.
const FOLDER: &str = ".torch-steps";
/// Its files.
const FILES: [(&str, &str); 3] = [
    ("sitecustomize.py", include_str!("sitecustomize.py")),
    ("torch_steps.py", include_str!("torch_steps.py")),
    (
        "marks.py",
        include_str!("../../../../../python/ncclscope/_marks.py"),
    ),
];

/// Makes the folder in a capture, or takes the one that another rank's run has made.
///
/// # Errors
/// Why there can be none.
pub fn prepare(capture: &Path) -> io::Result<PathBuf> {
    let folder = capture.join(FOLDER);
    if folder.as_os_str().as_bytes().contains(&b':') {
        return Err(io::Error::other(
            "its name has a colon, which separates folders on PYTHONPATH",
        ));
    }
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let found = fs::symlink_metadata(&folder)?;
    let is_own = found.uid() == nix::unistd::geteuid().as_raw() && found.mode() & 0o022 == 0;
    if !found.is_dir() || !is_own {
        return Err(io::Error::other(format!(
            "`{}` is no folder that only you can write into",
            folder.display()
        )));
    }
    for (name, text) in FILES {
        // Others may be reading the file of another rank's run, which is the same.
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        file.write_all(text.as_bytes())?;
        file.persist(folder.join(name))?;
    }
    Ok(folder)
}

/// PYTHONPATH with the folder before what it is for the program so far.
pub fn python_path(folder: &Path, given: Option<&OsStr>) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    // An empty part is the current folder, so there is no colon without need.
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        path.push(":");
        path.push(given);
    }
    path
}

/// Removes the folder at the end of a run.
pub fn remove(capture: &Path) {
    let folder = capture.join(FOLDER);
    if fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
        let _ = fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_another_may_write_into_is_not_taken() {
        use std::os::unix::fs::PermissionsExt;
        let capture = tempfile::tempdir().expect("made");
        let folder = prepare(capture.path()).expect("made");
        // As the next rank's run finds it.
        assert_eq!(prepare(capture.path()).expect("taken"), folder);
        assert_eq!(fs::read_dir(&folder).expect("read").count(), FILES.len());
        let open = fs::Permissions::from_mode(0o770);
        fs::set_permissions(&folder, open).expect("set");
        assert!(prepare(capture.path()).is_err());
        remove(capture.path());
        std::os::unix::fs::symlink("/tmp", &folder).expect("made");
        assert!(prepare(capture.path()).is_err());
        remove(capture.path());
        assert!(fs::symlink_metadata(&folder).is_ok());
        assert!(prepare(&capture.path().join("a:b")).is_err());
    }

    #[test]
    fn what_was_on_the_path_stays_there() {
        let with = |given| python_path(Path::new("/c/x"), given);
        assert_eq!(with(None), "/c/x");
        assert_eq!(with(Some(OsStr::new(""))), "/c/x");
        assert_eq!(with(Some(OsStr::new("/a::/b"))), "/c/x:/a::/b");
    }
}
