//! What bandwidths are held against: a rate, what a benchmark reached, what NCCL expects of its graphs, or
//! what the links in NCCL's topology carry.
//!
//! [`read`] takes what a user types after `--ceiling`, and [`check_machine`] refuses a benchmark of other
//! GPUs.
//!
//! Rule: a benchmark's figure is a ceiling for its own function, size and number of ranks only, and a graph's
//! for its own algorithm and number of ranks.

use crate::nccl_tests;
use crate::table::Table;
use analyze::efficiency::{Ceiling, GraphBandwidth, Reached};
use anyhow::{bail, Context, Result};
use setup::peak::peak;
use setup::topology::{self, Topology};
use std::collections::BTreeSet;
use std::path::Path;

/// A ceiling and the names of the GPUs on which it was measured; none for a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The ceiling.
    pub ceiling: Ceiling,
    /// GPUs by name, as the driver calls them.
    pub gpus: BTreeSet<String>,
}

/// Reads `450GB/s`, the file of a benchmark (nccl-tests' text or JSON, or `ncclscope bench --json`), NCCL's
/// graphs (`NCCL_GRAPH_DUMP_FILE`) or its topology (`NCCL_TOPO_DUMP_FILE`).
///
/// # Errors
/// What was expected.
pub fn read(given: &str) -> Result<Measured> {
    if let Some(rate) = units::gb_per_s(given) {
        return Ok(Measured {
            ceiling: Ceiling::Rate(rate, format!("--ceiling {given}")),
            gpus: BTreeSet::new(),
        });
    }
    let path = Path::new(given);
    if !path.exists() {
        bail!(
            "--ceiling `{given}` is neither a rate nor a file\n  hint: give the rate of a GPU's links in one \
             direction, such as 450GB/s, or the file of `ncclscope bench --json FILE`"
        );
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("reading `{given}`"))?;
    if text.trim_start().starts_with('<') {
        return Ok(Measured {
            ceiling: of_nccl(&text, given)?,
            gpus: BTreeSet::new(),
        });
    }
    let table = nccl_tests::read(&text).with_context(|| format!("reading `{given}`"))?;
    let reached = reached(&table);
    if reached.is_empty() {
        bail!(
            "`{given}` does not say of which function and how many ranks its figures are\n  hint: keep the \
             lines of nccl-tests that begin with #, or use `ncclscope bench --json FILE`"
        );
    }
    Ok(Measured {
        ceiling: Ceiling::Bench(reached, given.to_owned()),
        gpus: table.devices.into_iter().map(|d| d.device_info).collect(),
    })
}

/// Reads several, for a job on these GPUs.
///
/// # Errors
/// Those of [`read`] and [`check_machine`].
pub fn read_all(given: &[String], job: &[String]) -> Result<Vec<Ceiling>> {
    let one = |given: &String| {
        let measured = read(given)?;
        check_machine(&measured, job)?;
        Ok(measured.ceiling)
    };
    given.iter().map(one).collect()
}

/// Reads several for a job that is not known yet: [`check_machine`] must follow.
///
/// # Errors
/// Those of [`read`].
pub fn read_unchecked(given: &[String]) -> Result<Vec<Measured>> {
    given.iter().map(|given| read(given)).collect()
}

/// Of NCCL's graphs or of its topology.
fn of_nccl(text: &str, given: &str) -> Result<Ceiling> {
    let graphs: Vec<GraphBandwidth> = topology::graphs(text)
        .iter()
        .filter_map(GraphBandwidth::of)
        .collect();
    if !graphs.is_empty() {
        return Ok(Ceiling::NcclGraphs(graphs, given.to_owned()));
    }
    let links = Topology::read(text).ok().and_then(|topology| {
        let gpus = topology.devices.iter().filter(|device| device.is_gpu());
        let gpus: Vec<usize> = (0..gpus.count()).collect();
        let peak = peak(&topology, &gpus)?;
        let nranks = u32::try_from(gpus.len()).ok()?;
        Some(Ceiling::Links(nranks, peak, given.to_owned()))
    });
    links.with_context(|| {
        format!(
            "`{given}` has neither a graph within one node, of which NCCL expects a bandwidth, nor GPUs with \
             links of a known rate\n  hint: give the file that NCCL writes with NCCL_GRAPH_DUMP_FILE=FILE or \
             NCCL_TOPO_DUMP_FILE=FILE"
        )
    })
}

fn reached(table: &Table) -> Vec<Reached> {
    let sides = table.rows.iter().flat_map(|row| {
        let nranks = table.nranks_of(row);
        let of = move |busbw_gb_per_s| Some((row.function?, nranks?, row.size, busbw_gb_per_s));
        row.sides().filter_map(move |side| of(side.busbw?))
    });
    sides
        // Over one rank nothing is transferred.
        .filter(|(_, nranks, _, busbw)| *nranks > 1 && *busbw > 0.0)
        .map(|(function, nranks, bytes, busbw_gb_per_s)| Reached {
            function: function.name().to_owned(),
            nranks,
            bytes,
            busbw_gb_per_s,
        })
        .collect()
}

/// Refuses what was measured on other GPUs than the job's; `job` is as reports have it (`2 x NVIDIA H200`).
///
/// # Errors
/// Names both.
pub fn check_machine(measured: &Measured, job: &[String]) -> Result<()> {
    let known = |name: &&String| !name.is_empty();
    let gpus: Vec<&String> = measured.gpus.iter().filter(known).collect();
    if gpus.is_empty() || job.is_empty() {
        return Ok(());
    }
    if gpus
        .iter()
        .any(|gpu| job.iter().any(|of| of.ends_with(gpu.as_str())))
    {
        return Ok(());
    }
    let of = match &measured.ceiling {
        Ceiling::Bench(_, file) | Ceiling::NcclGraphs(_, file) | Ceiling::Links(.., file) => file,
        Ceiling::Rate(_, given) => given,
        Ceiling::Here(of) => &of.communicator,
    };
    bail!(
        "`{of}` was measured on {}, and this job ran on {}\n  hint: measure on the job's machine with \
         `ncclscope bench`, or give a rate (--ceiling 450GB/s)",
        gpus[0],
        job.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Using devices\n\
        #  Rank  0 Group  0 Pid  6899 on host device  0 [0000:04:00] NVIDIA H100\n\
        #  Rank  1 Group  0 Pid  6899 on host device  1 [0000:05:00] NVIDIA H100\n\
        # Collective test starting: all_reduce_perf\n\
        # size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n\
        1048576 262144 float sum -1 20.00 52.4 52.4 0 10.00 104.8 104.8 0\n";

    #[test]
    fn a_rate_or_a_benchmark_and_nothing_else() {
        let rate = read("450GB/s").expect("a rate").ceiling;
        assert_eq!(rate, Ceiling::Rate(450.0, "--ceiling 450GB/s".to_owned()));
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), TEXT).expect("written");
        let measured = read(file.path().to_str().expect("UTF-8")).expect("a benchmark");
        let Ceiling::Bench(reached, _) = &measured.ceiling else {
            panic!("{measured:?}");
        };
        let found: Vec<(u32, f64)> = reached
            .iter()
            .map(|r| (r.nranks, r.busbw_gb_per_s))
            .collect();
        assert_eq!(found, [(2, 52.4), (2, 104.8)]);
        assert!(read("no-such-file").is_err());
        let gpus = |name: &str| vec![format!("2 x {name}")];
        assert!(check_machine(&measured, &gpus("NVIDIA H100")).is_ok());
        assert!(check_machine(&measured, &[]).is_ok());
        let refused = check_machine(&measured, &gpus("NVIDIA H200")).expect_err("another machine");
        assert!(refused
            .to_string()
            .contains("NVIDIA H100, and this job ran on 2 x NVIDIA H200"));
    }
}
