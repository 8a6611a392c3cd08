//! `ncclscope paths`: which way NCCL goes between ranks, and why not the fast one.

use crate::progress;
use crate::report::{hinted, print};
use crate::run::NCCL_LOGS;
use crate::startup::{of_files, of_folder};
use anyhow::{bail, Context};
use setup::paths::Paths;
use setup::topology::Topology;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::Source;

/// Say which way NCCL goes between ranks (P2P, shared memory, which network card), and why not a faster one
///
/// Reads what NCCL printed with NCCL_DEBUG=INFO, of one rank or of all in any mixture, or a capture that was
/// recorded with NCCLSCOPE_NCCL_LOG=on:
///
///   ncclscope paths slurm-1234.out
///   ncclscope paths --topo topo.txt worker-*.log
///   ncclscope paths DIR
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture folder, or files with NCCL's debug output; `-` is standard input
    #[arg(required = true, value_name = "DIR|FILE")]
    from: Vec<PathBuf>,
    /// Links of the hosts, if all are alike: `nvidia-smi topo -m`, or a file of NCCL_TOPO_DUMP_FILE
    #[arg(long, value_name = "FILE")]
    topo: Option<PathBuf>,
    /// Print JSON (ncclscope.paths/1) instead of text
    #[arg(long)]
    json: bool,
    /// Print each pair of ranks
    #[arg(long, conflicts_with = "json")]
    all: bool,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints it. Exit status 2 if neither a connection nor a network is known.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let topology = args.topo.as_deref().map(topology).transpose()?;
    let paths = match args.from.as_slice() {
        [capture] if capture.is_dir() => of_capture(capture, topology.as_ref())?,
        files => analyze::paths::of_said(&of_files(files)?, topology.as_ref()),
    };
    let is_known = !paths.networks.is_empty() || paths.alone > 0;
    if paths.communicators.is_empty() && !is_known {
        let shown: Vec<String> = args.from.iter().map(|f| f.display().to_string()).collect();
        bail!(
            "expected lines `Channel 00/0 : 0[0] -> 1[1] via …` of NCCL, found none in `{}`\n  hint: NCCL \
             prints them with NCCL_DEBUG=INFO, when ranks connect: in the init, or from 2.22 on in the first \
             calls; or record with `NCCLSCOPE_NCCL_LOG=on ncclscope run`",
            shown.join("`, `")
        );
    }
    print(|out| {
        if args.json {
            render::paths::json(&paths, out)
        } else {
            render::paths::text(&paths, args.all, args.look.of_stdout(), out)
        }
    })
}

/// Of a capture, with the output of processes that never loaded the recorder.
fn of_capture(capture: &Path, topology: Option<&Topology>) -> anyhow::Result<Paths> {
    let said = of_folder(&capture.join(NCCL_LOGS))?;
    let source = progress::show("reading", |progress| Source::open(capture, progress));
    match source {
        Ok(source) if said.inits.is_empty() && topology.is_none() => {
            Ok(progress::show("reading", |progress| {
                analyze::report_from(source, None, progress).paths
            }))
        }
        Ok(source) => {
            let startup = progress::show("reading", |progress| {
                analyze::report_from(source, None, progress).startup
            });
            let mut said = said;
            said.inits.extend(startup.inits.iter().cloned());
            for (host, facts) in startup.hosts {
                said.hosts.entry(host).or_default().merge(facts);
            }
            Ok(analyze::paths::of_said(&said, topology))
        }
        Err(_) if !said.inits.is_empty() => Ok(analyze::paths::of_said(&said, topology)),
        Err(error) => Err(hinted(error)),
    }
}

fn topology(file: &Path) -> anyhow::Result<Topology> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("`{}` can't be read", file.display()))?;
    match Topology::read(&text) {
        Ok(topology) => Ok(topology),
        Err(why) => bail!("`{}`: {why}", file.display()),
    }
}
