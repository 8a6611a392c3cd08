//! `ncclscope collect`: one task per node brings into the capture what is still on that node.
//!
//! First the live parts of dead processes, adopted as `ncclscope run` does; then, with `--into`, whole capture folders
//! that were written to a node's own disk.
//!
//! Rule: nothing is removed before it is safe elsewhere, and nothing that differs is ever written over.

use crate::run::adopt::{self, Here, Liveness, Outcome, Part};
use anyhow::{bail, Context};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::printable;

/// Bring into the capture what dead processes left on this node
///
/// Run one task per node, after the job:
///
///   srun --ntasks-per-node=1 ncclscope collect DIR
///   srun --ntasks-per-node=1 ncclscope collect /local/DIR --into /shared/DIR
///
/// It prints a line for each process that it adopted (adopted), that still runs (alive), whose
/// last part is on another node (elsewhere), or is lost since its last flush (gone).
///
/// Exit status: 0 done, 1 something could not be adopted or copied.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture folders; without any, whatever is on this node
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// Copy the captures' files into this folder, where other nodes' may be too
    #[arg(long, value_name = "DIR", requires = "folders")]
    into: Option<PathBuf>,
}

/// Collects.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    for folder in &args.folders {
        if !folder.is_dir() {
            bail!(
                "`{}` is not a folder\n  hint: give the capture folder as this node sees it",
                folder.display()
            );
        }
    }
    let mut collector = Collector {
        here: Here::ask(),
        alive: BTreeSet::new(),
        adopted: 0,
        elsewhere: 0,
        failed: 0,
    };
    collector.adopt_leftovers(&args.folders);
    let mut copied = 0;
    for folder in &args.folders {
        collector.adopt_named(folder);
        if let Some(into) = &args.into {
            copied += collector.copy(folder, into)?;
        }
    }
    let Collector {
        here,
        alive,
        adopted,
        elsewhere,
        failed,
    } = collector;
    let mut words = format!(
        "{}: {adopted} adopted, {} alive, {elsewhere} elsewhere",
        here.host,
        alive.len()
    );
    if args.into.is_some() {
        words.push_str(&format!(", {copied} files copied"));
    }
    if failed > 0 {
        words.push_str(&format!(", {failed} failed"));
    }
    let next = args.into.as_ref().or(args.folders.first());
    eprintln!(
        "{words}{}",
        next.map_or_else(String::new, |d| format!(
            "; next: ncclscope report {}",
            d.display()
        ))
    );
    Ok(ExitCode::from(u8::from(failed > 0)))
}

struct Collector {
    here: Here,
    /// Trace files that are still being written.
    alive: BTreeSet<PathBuf>,
    adopted: usize,
    elsewhere: usize,
    failed: usize,
}

impl Collector {
    /// Adopts the live parts in this node's memory and temporary folder that belong to `folders`, or all of them.
    fn adopt_leftovers(&mut self, folders: &[PathBuf]) {
        let wanted = |trace: &Path| match folders {
            // The recorder's own folder is the only evidence then that this is a capture.
            [] => trace
                .parent()
                .is_some_and(|parent| parent.is_dir() && adopt::inside(parent, trace).is_ok()),
            _ => folders
                .iter()
                .any(|folder| adopt::inside(folder, trace).is_ok()),
        };
        for left in adopt::leftovers(wanted) {
            self.adopt(&left.file, &left.part, &left.trace);
        }
    }

    /// Adopts the live parts that the trace files in `folder` name, and says which ones are out of reach.
    fn adopt_named(&mut self, folder: &Path) {
        for trace in adopt::traces(folder) {
            let process = adopt::process_of(&trace);
            let kept = adopt::part_at(&trace.with_extension("live"));
            let (Some(place), None) = (process.get("live"), kept) else {
                continue;
            };
            let snapshot = Part::of_snapshot(&trace.with_extension("snap"));
            if snapshot.as_ref().is_some_and(Part::ended) || self.alive.contains(&trace) {
                continue;
            }
            let host = process.get("host").map_or("?", String::as_str);
            // A node that was restarted has lost its memory, but not its disk.
            let on_this_node =
                process.get("boot_id") == Some(&self.here.boot_id) || host == self.here.host;
            if !on_this_node {
                self.elsewhere += 1;
                println!(
                    "elsewhere  {}  {}  {}",
                    printable(host),
                    trace.display(),
                    printable(place)
                );
                continue;
            }
            if place != "memfd" {
                if let Some(part) = adopt::part_at(Path::new(place)) {
                    self.adopt(Path::new(place), &part, &trace);
                    continue;
                }
            }
            if snapshot.is_some_and(|part| part.liveness(&self.here) != Liveness::Dead) {
                println!("alive      {}  {}", printable(host), trace.display());
                self.alive.insert(trace);
            } else {
                println!("gone       {}  {}", printable(host), trace.display());
            }
        }
    }

    fn adopt(&mut self, file: &Path, part: &Part, trace: &Path) {
        let host = part
            .process()
            .remove("host")
            .unwrap_or_else(|| self.here.host.clone());
        let host = printable(&host);
        match part.liveness(&self.here) {
            Liveness::Dead => {}
            Liveness::Alive => {
                println!("alive      {host}  {}", trace.display());
                self.alive.insert(trace.to_owned());
                return;
            }
            Liveness::Unknown => {
                println!(
                    "alive      {host}  {}  (or dead: another pid name space)",
                    trace.display()
                );
                self.alive.insert(trace.to_owned());
                return;
            }
        }
        match adopt::adopt(part, trace) {
            Ok(outcome) => {
                if let Outcome::Adopted(live) = outcome {
                    println!("adopted    {host}  {}", live.display());
                    self.adopted += 1;
                }
                if let Err(error) = std::fs::remove_file(file) {
                    eprintln!(
                        "`{}` is adopted but can't be removed: {error}",
                        file.display()
                    );
                }
            }
            Err(error) => {
                eprintln!("error: `{}` can't be adopted: {error:#}", file.display());
                self.failed += 1;
            }
        }
    }

    /// Copies the files of the capture `folder` to the same places below `into`; returns how many were new there.
    fn copy(&mut self, folder: &Path, into: &Path) -> anyhow::Result<usize> {
        let mut files = Vec::new();
        adopt::walk(folder, &mut |path| {
            let mark = path.file_name().is_some_and(|name| name == "capture.json");
            if mark
                || path
                    .extension()
                    .is_some_and(|e| ["trace", "snap", "live"].iter().any(|known| e == *known))
            {
                files.push(path.to_owned());
            }
            true
        });
        let mut copied = 0;
        for file in files {
            if self.alive.contains(&adopt::trace_of(&file)) {
                continue;
            }
            let below = file.strip_prefix(folder).context("walked from there")?;
            // The host's folder keeps nodes apart; a file without one gets this node's.
            let mark = below == Path::new("capture.json");
            let place = if below.components().count() > 1 || mark {
                into.join(below)
            } else {
                into.join(&self.here.host).join(below)
            };
            match copy_file(&file, &place) {
                Ok(Copied::New) => copied += 1,
                Ok(Copied::Same) => {}
                // Each node's run wrote one; the first to arrive stands for the job.
                Ok(Copied::Different) if mark => {}
                Ok(Copied::Different) => {
                    eprintln!(
                        "error: `{}` is there with other content than `{}`; left alone",
                        place.display(),
                        file.display()
                    );
                    self.failed += 1;
                }
                Err(error) => {
                    eprintln!(
                        "error: `{}` can't be copied to `{}`: {error}",
                        file.display(),
                        place.display()
                    );
                    self.failed += 1;
                }
            }
        }
        Ok(copied)
    }
}

enum Copied {
    New,
    Same,
    Different,
}

fn copy_file(from: &Path, to: &Path) -> io::Result<Copied> {
    if !to.exists() {
        let folder = to.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        io::copy(&mut adopt::open(from)?, &mut file)?;
        match file.persist_noclobber(to) {
            Ok(_) => return Ok(Copied::New),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error),
        }
    }
    Ok(if same(&mut adopt::open(from)?, &mut adopt::open(to)?)? {
        Copied::Same
    } else {
        Copied::Different
    })
}

fn same(a: &mut File, b: &mut File) -> io::Result<bool> {
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let n = a.read(&mut left)?;
        if n == 0 {
            return Ok(true);
        }
        b.read_exact(&mut right[..n])?;
        if left[..n] != right[..n] {
            return Ok(false);
        }
    }
}
