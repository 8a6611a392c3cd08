//! Calls done as the preloaded counter saw them, in any program that uses NCCL.
//!
//! [`preload`] puts the library into a command's environment; each process then counts its calls in a file, whose layout
//! is in the counter's own crate.
//!
//! Rule: a file of another version, or one that was too small for all kinds of calls, is an error: a wrong truth is worse
//! than none.

use super::{Graphs, Key, Truth};
use anyhow::{bail, Context};
use counter::Table;
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
        let table = Table::read(&bytes)
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
            let per_rank = (row.function.to_owned(), row.count, row.datatype_size);
            let bytes = per_rank.1.saturating_mul(per_rank.2);
            let bytes = tables::calls::bytes(row.function, "ncclInt8", bytes, Some(row.nranks));
            let key = Key {
                function: per_rank.0,
                bytes: bytes.unwrap_or(0),
                rank,
            };
            truth.add(key, row.number);
        }
    }
    if truth.calls.is_empty() {
        bail!("the counter saw no NCCL call\n  hint: a program with NCCL linked in statically can't be counted");
    }
    // Of use where one communicator size is all there is.
    truth.nranks = (nranks.len() == 1)
        .then(|| nranks.into_keys().next())
        .flatten();
    Ok(truth)
}
