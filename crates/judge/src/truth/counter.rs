//! Calls done as the preloaded counter saw them, in any program that uses NCCL.
//!
//! [`preload`] puts the library into a command's environment. Each process then counts its calls in a file;
//! the counter's own crate has the file's layout.
//!
//! Rule: a file of another version, or one that was too small for all kinds of calls, is an error: a wrong
//! truth is worse than none.

use super::{Graphs, Key, Truth};
use anyhow::{bail, Context};
use counter::CounterFile;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// Has every process of `command` count its calls in `folder`.
pub fn preload(command: &mut Command, library: &Path, folder: &Path) {
    let mut preload = library.as_os_str().to_owned();
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|p| !p.is_empty()) {
        preload.push(":");
        preload.push(before);
    }
    command
        .env("LD_PRELOAD", preload)
        .env(counter::FOLDER, folder);
}

/// Reads what the processes counted.
///
/// # Errors
/// When there is nothing to read, or a file isn't whole.
pub fn read(folder: &Path) -> anyhow::Result<Truth> {
    let mut truth = Truth {
        graphs: Graphs::Templates,
        whole: true,
        ..Truth::default()
    };
    let mut nranks: HashMap<u32, u64> = HashMap::new();
    let mut files: Vec<_> = std::fs::read_dir(folder)?
        .filter_map(|e| Some(e.ok()?.path()))
        .collect();
    files.sort();
    for file in files {
        let at = || format!("`{}`", file.display());
        let bytes = std::fs::read(&file).with_context(at)?;
        let table = CounterFile::read(&bytes)
            .map_err(anyhow::Error::msg)
            .with_context(at)?;
        if table.lost > 0 {
            bail!(
                "{}: {} calls had no room in the counter's table",
                at(),
                table.lost
            );
        }
        for row in table.rows {
            let Some(rank) = table.rank.or(row.rank) else {
                bail!("{}: a call's rank is not known", at());
            };
            truth.ranks.insert(table.pid, rank);
            *nranks.entry(row.nranks).or_default() += row.number;
            let per_rank = row.count.saturating_mul(row.datatype_size);
            let nranks = Some(row.nranks).filter(|nranks| *nranks > 0);
            let Some(bytes) = tables::calls::bytes(row.function, "ncclInt8", per_rank, nranks)
            else {
                bail!("{}: the size of a communicator is not known", at());
            };
            let key = Key {
                function: row.function.to_owned(),
                bytes,
                rank,
            };
            truth.add(key, row.number);
        }
    }
    if truth.calls.is_empty() {
        bail!("the counter saw no NCCL call (with NCCL linked in statically, a program can't be counted)");
    }
    // Of use where one communicator size is all there is.
    truth.nranks = (nranks.len() == 1)
        .then(|| nranks.into_keys().next())
        .flatten();
    Ok(truth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use counter::{CallShape, Counter};

    fn kind(function: u32, nranks: u32, count: u64) -> CallShape {
        CallShape {
            function,
            datatype: 7,
            nranks,
            rank: 1,
            count,
        }
    }

    fn name(function: &str) -> u32 {
        let found = counter::FUNCTIONS.iter().position(|f| *f == function);
        found.expect("known") as u32
    }

    #[test]
    fn processes_are_added_up_in_nccl_tests_sizes() {
        let folder = tempfile::tempdir().expect("a folder");
        for (pid, rank) in [(41, 0), (42, 1), (43, 1)] {
            let counter = Counter::create(folder.path(), pid, Some(rank)).expect("made");
            for _ in 0..3 {
                counter.count(&kind(name("AllReduce"), 8, 256));
            }
            counter.count(&kind(name("AllGather"), 8, 256));
        }
        let truth = read(folder.path()).expect("sound");
        let number = |function: &str, bytes, rank| {
            let function = function.to_owned();
            truth.calls[&Key {
                function,
                bytes,
                rank,
            }]
                .number
        };
        assert_eq!(
            (number("AllReduce", 1024, 0), number("AllReduce", 1024, 1)),
            (3, 6)
        );
        assert_eq!(number("AllGather", 8192, 1), 2);
        assert_eq!(
            (truth.nranks, truth.ranks[&43], truth.whole),
            (Some(8), 1, true)
        );
    }

    #[test]
    fn what_is_not_known_is_no_truth() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = || read(folder.path()).expect_err("an error").to_string();
        assert!(error().contains("saw no NCCL call"));
        let counter = Counter::create(folder.path(), 41, None).expect("made");
        // A size that does not depend on the communicator's, and no rank of the launcher's.
        counter.count(&kind(name("AllReduce"), 0, 256));
        assert_eq!(read(folder.path()).expect("sound").total(), 1);
        counter.count(&kind(name("AllGather"), 0, 256));
        assert!(error().contains("size of a communicator"), "{}", error());
        std::fs::write(folder.path().join("x.counts"), "no counts").expect("written");
        assert!(read(folder.path()).is_err());
    }
}
