//! The files of a capture as they are, for those who write a capture of one.

use crate::files::{self, TRACE};
use crate::packs;
use crate::problem::Problem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file of a capture, by itself or in a pack, compressed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeFile {
    /// Where it is in the capture, without the ending that says that it is compressed.
    pub name: PathBuf,
    path: PathBuf,
}

/// The files below `folder`, in order of their names. If there is one compressed and not, the latter counts,
/// as it does for all readers.
pub fn files(folder: &Path, problems: &mut Vec<Problem>) -> Vec<WholeFile> {
    let mut found: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    files::walk(folder, 0, problems, &mut |path| {
        if packs::number(path).is_some() {
            return;
        }
        let name = packs::without_zst(path);
        let name = name.strip_prefix(folder).unwrap_or(&name).to_owned();
        if !packs::is_compressed(path) || !found.contains_key(&name) {
            found.insert(name, path.to_owned());
        }
    });
    let found = found.into_iter();
    found.map(|(name, path)| WholeFile { name, path }).collect()
}

/// What the files of one process begin with, of one of them: its path without endings. `None` if it is no
/// file with calls.
pub fn process_of(file: &Path) -> Option<PathBuf> {
    files::split(file).map(|(stem, ..)| stem)
}

impl WholeFile {
    /// Its content, unpacked; as much as could be read if it is damaged, with a problem that says so.
    pub fn load(&self, problems: &mut Vec<Problem>) -> Vec<u8> {
        files::load(&self.path, TRACE, problems)
    }
}
