//! `ncclscope topo`: which links there are between GPUs and network cards, and which differ.

use crate::report::print;
use anyhow::{bail, Context};
use setup::topology::Topology;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Say which links there are between GPUs and network cards, and what about them costs bandwidth
///
/// Reads the capture of `ncclscope run`, what `nvidia-smi topo -m` printed, or the file of
/// NCCL_TOPO_DUMP_FILE. Two of them are compared: exit status 1 if a link differs.
///
///   ncclscope topo DIR
///   ncclscope topo before.txt after.txt
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture folder, or a file
    #[arg(value_name = "DIR|FILE")]
    from: PathBuf,
    /// Another one, to compare with
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints it.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let found = read(&args.from)?;
    let look = args.look.of_stdout();
    let Some(other) = &args.other else {
        return print(|out| {
            for (at, (name, topology)) in found.iter().enumerate() {
                if at > 0 {
                    std::io::Write::write_all(out, b"\n")?;
                }
                render::topo::text(name, topology, look, out)?;
            }
            Ok(())
        });
    };
    let others = read(other)?;
    let mut differs = false;
    let status = print(|out| {
        // By host, if both have it; two files are compared whatever their names.
        for (name, a) in &found {
            let same = others.iter().find(|(other, _)| other == name);
            let same = same.or_else(|| others.first().filter(|_| found.len() == 1));
            let Some((second, b)) = same else { continue };
            differs |= render::topo::difference([name, second], a, b, look, out)?;
        }
        Ok(())
    })?;
    Ok(if differs { ExitCode::from(1) } else { status })
}

/// The topologies of a capture by host, or that of a file.
fn read(path: &Path) -> anyhow::Result<Vec<(String, Topology)>> {
    if path.is_dir() {
        let found = tables::topologies(path);
        if found.is_empty() {
            bail!(
                "`{}` has no topology\n  hint: NCCL writes it under `ncclscope run`, on the host of rank 0, \
                 if `run` is on that host and NCCL_TOPO_DUMP_FILE is not set",
                path.display()
            );
        }
        return Ok(found);
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("`{}` can't be read", path.display()))?;
    let Some(topology) = Topology::read(&text) else {
        bail!(
            "expected the output of `nvidia-smi topo -m` or a file of NCCL_TOPO_DUMP_FILE, found something \
             else in `{}`",
            path.display()
        );
    };
    Ok(vec![(path.display().to_string(), topology)])
}
