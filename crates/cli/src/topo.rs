//! `ncclscope topo`: which links there are between GPUs and network cards, and which differ.

use crate::progress;
use crate::report::print;
use analyze::topology::{of_file, Host};
use anyhow::{bail, Context};
use setup::topology::{Topology, Unreadable};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::Source;

/// Say which links there are between GPUs and network cards, and what about them costs bandwidth
///
/// Reads the capture of `ncclscope run`, what `nvidia-smi topo -m` or `nvidia-smi topo -p2p r` printed, or
/// the file of NCCL_TOPO_DUMP_FILE. Two of them are compared: exit status 1 if a link differs.
///
///   ncclscope topo DIR
///   ncclscope topo before.txt after.txt
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture folder, or a file; `-` is standard input
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
                    writeln!(out)?;
                }
                render::topo::text(host, look, out)?;
            }
            Ok(())
        });
    };
    let others = read(other)?;
    let pairs = pairs(&found, &others);
    if pairs.is_empty() {
        bail!(
            "`{}` and `{}` have no host in common: {} and {}\n  hint: `ncclscope topo DIR` prints the links \
             of each",
            args.from.display(),
            other.display(),
            names(&found),
            names(&others)
        );
    }
    let mut differs = false;
    let status = print(|out| {
        for (at, (a, b)) in pairs.iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            let titles = [a.host.as_str(), b.host.as_str()];
            differs |= render::topo::difference(titles, &a.topology, &b.topology, look, out)?;
        }
        let mut before = "\n";
        for (path, hosts) in [(&args.from, &found), (other, &others)] {
            let is_compared = |host: &&Host| pairs.iter().any(|(a, b)| [a, b].contains(&host));
            let left: Vec<&Host> = hosts.iter().filter(|host| !is_compared(host)).collect();
            if !left.is_empty() {
                writeln!(out, "{before}Only in {}: {}.", path.display(), names(left))?;
                before = "";
            }
        }
        Ok(())
    })?;
    Ok(if differs { ExitCode::from(1) } else { status })
}

/// What is compared with what: hosts of one name. If there are none, one host is compared with each of the
/// others, whatever their names: a file with a capture, for example.
fn pairs<'a>(found: &'a [Host], others: &'a [Host]) -> Vec<(&'a Host, &'a Host)> {
    let each = || {
        found
            .iter()
            .flat_map(|a| others.iter().map(move |b| (a, b)))
    };
    let same: Vec<_> = each().filter(|(a, b)| a.host == b.host).collect();
    if same.is_empty() && (found.len() == 1 || others.len() == 1) {
        each().collect()
    } else {
        same
    }
}

fn names<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> String {
    let names: Vec<&str> = hosts.into_iter().map(|host| host.host.as_str()).collect();
    names.join(", ")
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
    let is_stdin = path == Path::new("-");
    let text = if is_stdin {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("`{}` can't be read", path.display()))?;
    let all = match Topology::read_all(&text) {
        Ok(all) => all,
        Err(why) => bail!("`{}`: {why}{}", path.display(), hint(&why)),
    };
    let file = if is_stdin {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let is_one = all.len() == 1;
    let name = |(number, (host, topology)): (usize, (Option<String>, Topology))| {
        let name = match host {
            _ if is_one => file.clone(),
            Some(host) => host,
            None => format!("{file} ({})", number + 1),
        };
        of_file(name, topology)
    };
    Ok(all.into_iter().enumerate().map(name).collect())
}

/// The way out.
fn hint(why: &Unreadable) -> &'static str {
    match why {
        Unreadable::Other => "",
        Unreadable::Xml => {
            "\n  hint: NCCL writes the file while it makes the first communicator; let the job get further"
        }
        Unreadable::Skeleton { .. } => {
            "\n  hint: NCCL completes it in a job: NCCL_TOPO_DUMP_FILE=topology.xml writes the whole one"
        }
        Unreadable::Graphs => {
            "\n  hint: `ncclscope topo DIR` prints the rings and trees of a capture of `ncclscope run`"
        }
        Unreadable::Row { .. } | Unreadable::NoRow { .. } | Unreadable::Legend { .. } => {
            "\n  hint: the text is cut, or a terminal has wrapped its lines; `nvidia-smi topo -m > topo.txt` \
             has them whole"
        }
    }
}
