//! `ncclscope topo`: which links there are between GPUs and network cards, and which differ.

use crate::progress;
use crate::report::print;
use analyze::topology::{of_file, Host};
use anyhow::{bail, Context};
use setup::topology::Topology;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::Source;

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
    /// Print JSON (ncclscope.topo/1) instead of text
    #[arg(long, conflicts_with = "other")]
    json: bool,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints it.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let found = read(&args.from)?;
    let look = args.look.of_stdout();
    let Some(other) = &args.other else {
        return print(|out| {
            if args.json {
                return render::topo::json(&found, out);
            }
            for (at, host) in found.iter().enumerate() {
                if at > 0 {
                    std::io::Write::write_all(out, b"\n")?;
                }
                render::topo::text(host, look, out)?;
            }
            Ok(())
        });
    };
    let others = read(other)?;
    let mut differs = false;
    let status = print(|out| {
        // By host, if both have it; two files are compared whatever their names.
        for a in &found {
            let same = others.iter().find(|other| other.host == a.host);
            let same = same.or_else(|| others.first().filter(|_| found.len() == 1));
            let Some(b) = same else { continue };
            let names = [a.host.as_str(), b.host.as_str()];
            differs |= render::topo::difference(names, &a.topology, &b.topology, look, out)?;
        }
        Ok(())
    })?;
    Ok(if differs { ExitCode::from(1) } else { status })
}

/// The topologies of a capture by host, or that of a file.
fn read(path: &Path) -> anyhow::Result<Vec<Host>> {
    if path.is_dir() {
        let capture = progress::show("reading", |progress| Source::open(path, progress));
        let found = match capture {
            Ok(capture) => progress::show("reading", |progress| {
                analyze::report_from(capture, None, progress).topologies
            }),
            // Nothing was recorded, but NCCL or the sampler may have spoken.
            Err(_) => tables::topologies(path)
                .into_iter()
                .map(|(host, topology)| of_file(host, topology))
                .collect(),
        };
        if found.is_empty() {
            bail!(
                "`{}` has no topology\n  hint: under `ncclscope run`, its sampler asks NVML for it, and NCCL \
                 writes it on the host of rank 0 if NCCL_TOPO_DUMP_FILE is not set",
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
    Ok(vec![of_file(path.display().to_string(), topology)])
}
