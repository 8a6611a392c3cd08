//! `ncclscope diff` of two logs of nccl-tests or files of `ncclscope bench`.

use super::Args;
use crate::report::print;
use analyze::benchmarks::{compare, Benchmark, BenchmarkDiff, BenchmarkRow, BenchmarkRun, Said};
use analyze::diff::Criterion;
use anyhow::{bail, Context};
use bench::table::Table;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// Whether a path is such a log.
pub(super) fn is_log(path: &Path) -> bool {
    path.is_file() && convert::kind(path) == Some(convert::Kind::NcclTests)
}

/// Prints the comparison; the exit status is that of `--fail-on`.
pub(super) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let given = [&args.a.path, &args.b.path];
    anyhow::ensure!(
        args.more.is_empty(),
        "two logs of nccl-tests are compared at a time, and there are {}\n  hint: compare them two by two",
        2 + args.more.len()
    );
    if let Some(other) = given.iter().find(|path| !is_log(path)) {
        bail!(
            "`{}` is no log of nccl-tests, and the other one is\n  hint: compare two logs, or two captures",
            other.display()
        );
    }
    anyhow::ensure!(
        args.html.is_none() && !args.markdown,
        "two logs of nccl-tests are compared as text or as JSON (--json)"
    );
    let (a, b) = (read(given[0])?, read(given[1])?);
    let mut ceilings = Vec::new();
    for side in [&a, &b] {
        for ceiling in bench::ceiling::read_all(&args.ceiling, &side.run.gpus)? {
            if !ceilings.contains(&ceiling) {
                ceilings.push(ceiling);
            }
        }
    }
    let diff = compare(&a, &b, &ceilings);
    let status = status(&diff, &args.fail_on)?;
    print(|out| {
        if args.json {
            render::benchmarks::json(&diff, out)
        } else {
            render::benchmarks::text(&diff, args.all, args.look.of_stdout(), out)
        }
    })?;
    Ok(ExitCode::from(status))
}

/// What `--fail-on` says of it.
fn status(diff: &BenchmarkDiff, criteria: &[Criterion]) -> anyhow::Result<u8> {
    let mut status = 0;
    for criterion in criteria {
        let failed = match criterion {
            Criterion::Slower(by) | Criterion::NcclSlower(by) => {
                let beyond = |low: Option<f64>| low.is_some_and(|low| low > 1.0 + by);
                if diff.parts.iter().any(|part| beyond(part.ratio_low)) {
                    Some(true)
                } else {
                    let known = diff.parts.iter().any(|part| part.said != Said::Unknown);
                    known.then_some(false)
                }
            }
            Criterion::Missing => Some(diff.a.alone > 0),
            Criterion::Incomplete => {
                let is_bad =
                    |run: &BenchmarkRun| run.failed.is_some() || !run.wrong_sizes.is_empty();
                Some(is_bad(&diff.a.run) || is_bad(&diff.b.run))
            }
            Criterion::Environment | Criterion::Algorithm => bail!(
                "a log of nccl-tests does not have what --fail-on {criterion} asks for\n  hint: record both \
                 runs with `ncclscope run`"
            ),
        };
        status = match failed {
            Some(true) => 1,
            None if status == 0 => 2,
            _ => status,
        };
    }
    Ok(status)
}

fn read(path: &Path) -> anyhow::Result<Benchmark> {
    let bytes = std::fs::read(path).with_context(|| format!("reading `{}`", path.display()))?;
    let table = bench::nccl_tests::read(&String::from_utf8_lossy(&bytes))
        .with_context(|| format!("reading `{}`", path.display()))?;
    Ok(of_table(&table, path))
}

fn of_table(table: &Table, path: &Path) -> Benchmark {
    let mut gpus: BTreeMap<&str, u64> = BTreeMap::new();
    for device in &table.devices {
        *gpus.entry(&device.device_info).or_default() += 1;
    }
    let row = |row: &bench::table::TableRow| BenchmarkRow {
        function: row.function.map(|function| function.name().to_owned()),
        nranks: table.nranks_of(row),
        datatype: row.datatype.clone(),
        bytes: row.size,
        times_us: row.sides().filter_map(|side| side.time_us).collect(),
        busbw: row.sides().filter_map(|side| side.busbw).collect(),
    };
    Benchmark {
        run: BenchmarkRun {
            file: path.display().to_string(),
            gpus: gpus
                .into_iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, n)| format!("{n} x {name}"))
                .collect(),
            nccl: table.nccl_version.map(bench::table::dotted),
            average_gb_per_s: table.read_average,
            failed: table.failed.clone(),
            wrong_sizes: table.wrong_sizes(),
            about: table.about.clone(),
        },
        rows: table.rows.iter().map(row).collect(),
    }
}
