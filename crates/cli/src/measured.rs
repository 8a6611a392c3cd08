//! Measurements for `model` and `estimate`: from captures, from `ncclscope bench --json` and from nccl-tests.

use crate::progress;
use analyze::models::{of_operations, Measurement, Subject};
use analyze::Report;
use anyhow::{bail, Context};
use bench::table::Table;
use std::path::{Path, PathBuf};
use tables::Which;

/// How tables that do not say it are to be read.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    /// Function, as captures name it.
    pub function: Option<String>,
    /// Algorithm of tables of benchmarks.
    pub algorithm: Option<String>,
    /// Ranks.
    pub nranks: Option<u32>,
}

/// What was read from one path.
pub struct Measured {
    /// The measurements.
    pub rows: Vec<Measurement>,
    /// The report, if it is a capture.
    pub report: Option<Report>,
}

/// Reads a capture or a benchmark's table.
///
/// # Errors
/// What was expected, and what to do.
pub fn read(path: &Path, assumed: &Assumed) -> anyhow::Result<Measured> {
    if path.is_file() {
        let text = std::fs::read(path).with_context(|| format!("reading `{}`", path.display()))?;
        // A trace file is no text.
        if let Ok(text) = String::from_utf8(text) {
            let table = bench::nccl_tests::read(&text);
            let table = table.with_context(|| format!("reading `{}`", path.display()))?;
            let rows = of_table(&table, assumed, path)?;
            return Ok(Measured { rows, report: None });
        }
    }
    let report = progress::show("reading", |progress| {
        let (source, _held) = crate::report::source(path, progress, Which::Last)?;
        anyhow::Ok(analyze::report_from(source, None, progress))
    })?;
    Ok(Measured {
        rows: of_operations(&report.operations, &report.communicators),
        report: Some(report),
    })
}

/// Reads several, one after the other.
///
/// # Errors
/// As [`read`].
pub fn read_all(paths: &[PathBuf], assumed: &Assumed) -> anyhow::Result<Vec<Measurement>> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(read(path, assumed)?.rows);
    }
    Ok(all)
}

fn of_table(table: &Table, assumed: &Assumed, path: &Path) -> anyhow::Result<Vec<Measurement>> {
    if let Some(found) = bench::table::together(&table.devices) {
        anyhow::ensure!(
            found.nranks > 1 || found.runs < 2,
            "`{}` has {} runs of one rank each, which communicated nothing\n  hint: build nccl-tests \
             with MPI=1",
            path.display(),
            found.runs
        );
    }
    if let Some(why) = &table.failed {
        tell!("warning: `{}`: the run failed: {why}", path.display());
    }
    if let Some(said) = table.wrong_data() {
        tell!("warning: `{}`: {said}, which are left out", path.display());
    }
    let wrong = table.wrong_sizes();
    let mut rows = Vec::new();
    for row in table.rows.iter().filter(|row| !wrong.contains(&row.size)) {
        let Some(nranks) = table.nranks_of(row).or(assumed.nranks) else {
            bail!(
                "`{}` does not say over how many ranks it was measured\n  hint: say it with \
                 --measured-ranks N",
                path.display()
            );
        };
        let named = row.function.map(|function| function.name().to_owned());
        let Some(function) = named.or_else(|| assumed.function.clone()) else {
            bail!(
                "`{}` does not say which function it measured\n  hint: say it with --function all_reduce",
                path.display()
            );
        };
        let side = row.out_of_place.as_ref().or(row.in_place.as_ref());
        let Some(time_us) = side.and_then(|side| side.time_us) else {
            continue;
        };
        rows.push(Measurement {
            of: Subject {
                communicator: None,
                function,
                algorithm: assumed.algorithm.clone(),
                protocol: None,
                nranks,
                nnodes: None,
            },
            bytes: row.size,
            time_us,
            nccl_us: None,
        });
    }
    Ok(rows)
}

/// A function as users type it (`all_reduce`) or as captures name it.
pub fn function(text: &str) -> anyhow::Result<String> {
    let known = bench::function::Function::named(text).map(|function| function.name().to_owned());
    let p2p = ["Send", "Recv"]
        .into_iter()
        .find(|name| name.eq_ignore_ascii_case(text));
    match known.or(p2p.map(str::to_owned)) {
        Some(name) => Ok(name),
        None => {
            let names = bench::function::Function::ALL.map(|function| function.option());
            bail!("expected one of {}, found `{text}`", names.join(", "))
        }
    }
}

/// A size as users type it.
pub fn size(text: &str) -> anyhow::Result<u64> {
    match units::bytes(text) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => bail!("expected a size such as 64MiB, found `{text}`"),
    }
}

/// A time in µs, as users type it.
pub fn micros(text: &str) -> anyhow::Result<f64> {
    match units::nanos(text, None).filter(|ns| *ns > 0.0) {
        Some(ns) => Ok(ns / 1e3),
        None => bail!("expected a time such as 120ms, found `{text}`"),
    }
}
