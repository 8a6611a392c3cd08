//! `ncclscope collect`: one task per node brings into the capture what is still on that node.
//!
//! First the live parts of dead processes, adopted as `ncclscope run` does; then, with `--into`, whole
//! capture folders that were written to a node's own disk. With `--pack`, the files of a folder go into one
//! zip archive ([`pack`]).
//!
//! Rule: nothing is removed before it is safe elsewhere, and nothing that differs is ever written over.

mod pack;

pub use pack::is_compressible;

use crate::run::adopt::{self, same_for_all, Here, Left, LivePart, Liveness, Named, Outcome};
use crate::run::apart;
use crate::run::owner::as_owner;
use anyhow::{bail, Context};
use nix::fcntl::{AtFlags, AT_FDCWD};
use nix::unistd::{faccessat, geteuid, getuid, AccessFlags};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::sightings::Witness;
use tables::{packs, printable, Life};

/// Bring into the capture what dead processes left on this node
///
/// Run one task per node, after the job:
///
///   srun --ntasks=$SLURM_NNODES --ntasks-per-node=1 ncclscope collect DIR
///   srun --ntasks=$SLURM_NNODES --ntasks-per-node=1 ncclscope collect /local/DIR --into /shared/DIR
///   srun --ntasks=$SLURM_NNODES --ntasks-per-node=1 ncclscope collect DIR --pack
///
/// It prints a line for each process: adopted now (adopted), still running (alive), last part on another node
/// (elsewhere), or everything since the last flush lost (gone).
///
/// Without DIR, it lists what your dead processes left on this node, and changes nothing: parts that wait for
/// their capture to be collected (waiting), and parts whose capture folder is not there (stray). With --all,
/// it adopts those that wait.
///
/// If root collects a capture of somebody else, it does so with the rights of the folder's owner, and
/// everything new belongs to this owner.
///
/// Exit status: 0 done, 1 something could not be adopted or copied, or is gone.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture folders; without any, what is on this node is listed
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// Adopt into all of your captures what your dead processes left on this node
    #[arg(long, conflicts_with = "folders")]
    all: bool,

    /// Copy the captures' files into this folder, where other nodes' may be too
    #[arg(long, value_name = "DIR", requires = "folders")]
    into: Option<PathBuf>,

    /// Put the files of each host into one compressed archive, pack-N.zip, which all verbs read
    ///
    /// Files of processes that may still run stay as they are. Without --into, a file is removed after the
    /// whole pack was written and read back.
    #[arg(long, requires = "folders")]
    pack: bool,

    /// Only remove what no capture needs: what `run` and `collect` do in a process of its own
    #[arg(long, hide = true, exclusive = true)]
    sweep: bool,

    /// Only print the nearest folder of this trace file that is there: `run` and `collect` ask this
    #[arg(long, hide = true, exclusive = true, value_name = "FILE")]
    nearest: Option<PathBuf>,
}

/// Collects.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    if args.sweep {
        adopt::sweep();
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(trace) = &args.nearest {
        apart::say_nearest(trace)?;
        return Ok(ExitCode::SUCCESS);
    }
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
        refused: BTreeMap::new(),
        adopted: 0,
        waiting: 0,
        elsewhere: BTreeSet::new(),
        gone: 0,
        strays: 0,
        failed: 0,
        packed: args.pack.then(Packed::default),
        output: Ok(()),
    };
    let mut copied = 0;
    match (&args.folders[..], args.all) {
        ([], true) => {
            collector.adopt_leftovers(None);
            apart::sweep();
        }
        ([], false) => collector.list_leftovers(),
        _ => {}
    }
    for folder in &args.folders {
        copied += as_owner(folder, || collector.collect(folder, args.into.as_deref()))??;
    }
    for refused in collector.refused.values() {
        tell!(
            "error: `{}` can't be adopted: {}",
            shown(&refused.file),
            refused.why
        );
    }
    let Collector {
        here,
        alive,
        refused,
        adopted,
        waiting,
        elsewhere,
        gone,
        strays,
        failed,
        packed,
        output,
    } = collector;
    let failed = failed + refused.len();
    let mut words = format!(
        "{}: {adopted} adopted, {} alive, {} elsewhere",
        here.host,
        alive.len(),
        elsewhere.len()
    );
    if gone > 0 {
        words.push_str(&format!(", {gone} gone"));
    }
    if strays > 0 {
        words.push_str(&format!(", {strays} stray"));
    }
    if args.into.is_some() {
        words.push_str(&format!(", {copied} files copied"));
    }
    if let Some(packed) = &packed {
        words.push_str(&packed.sentence());
    }
    if failed > 0 {
        words.push_str(&format!(", {failed} failed"));
    }
    if waiting > 0 {
        words.push_str(&format!(
            ", {waiting} waiting\n  next: `ncclscope collect DIR` or `ncclscope collect --all`"
        ));
    }
    let next = args.into.as_ref().or(args.folders.first());
    tell!(
        "{words}{}",
        next.map_or_else(String::new, |folder| {
            // A capture without a trace file can't be reported.
            let is_empty = adopt::traces(folder).is_empty();
            let verb = if is_empty && packed.as_ref().is_none_or(|packed| packed.files == 0) {
                "doctor"
            } else {
                "report"
            };
            format!("; next: ncclscope {verb} {}", shown(folder))
        })
    );
    output.context("writing the output")?;
    Ok(ExitCode::from(u8::from(failed + gone > 0)))
}

/// Whatever a path holds, for a terminal.
fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

/// Whether the folder of a trace file is there: if no capture was named, only that shows that there is one.
fn has_folder(trace: &Path) -> bool {
    let folder = trace.parent();
    folder.is_some_and(|folder| folder.is_dir() && adopt::inside(folder, trace).is_ok())
}

struct Collector {
    here: Here,
    /// Trace files that are still being written, each by [`same_for_all`].
    alive: BTreeSet<PathBuf>,
    /// Live parts that their captures could not take, by trace file.
    refused: BTreeMap<PathBuf, Refused>,
    adopted: usize,
    /// Live parts of dead processes that were listed, and not adopted.
    waiting: usize,
    /// Trace files whose processes left something on other nodes.
    elsewhere: BTreeSet<PathBuf>,
    /// Processes whose live parts are nowhere any more.
    gone: usize,
    strays: usize,
    /// Files that could not be copied or packed.
    failed: usize,
    /// What was packed, if it was asked for.
    packed: Option<Packed>,
    /// The first failure of standard output, whose reader may go: what was begun is brought to its end.
    output: io::Result<()>,
}

/// What was packed in all.
#[derive(Default)]
struct Packed {
    files: usize,
    bytes: u64,
    packed_bytes: u64,
    /// Processes whose files were left as they are, because they may still run.
    left: BTreeSet<PathBuf>,
}

impl Packed {
    /// For the last line.
    fn sentence(&self) -> String {
        let mut words = format!(", {} files packed", self.files);
        if self.files > 0 {
            let [from, to] = [self.bytes, self.packed_bytes].map(analyze::spelling::size);
            words.push_str(&format!(" ({from} into {to})"));
        }
        if !self.left.is_empty() {
            words.push_str(&format!(
                ", {} processes not packed, because they may still run",
                self.left.len()
            ));
        }
        words
    }
}

/// A dead process's live part that is still where the process left it.
struct Refused {
    file: PathBuf,
    why: String,
    /// The part itself names the capture, whose folder could not take it.
    is_own: bool,
}

impl Refused {
    /// A part that no other folder takes either.
    fn for_good(file: PathBuf, why: String) -> Refused {
        Refused {
            file,
            why,
            is_own: false,
        }
    }
}

impl Collector {
    /// Brings what this node has into the capture `folder`, and copies that `into` another folder; returns
    /// how many files were copied.
    fn collect(&mut self, folder: &Path, into: Option<&Path>) -> anyhow::Result<usize> {
        self.adopt_leftovers(Some(folder));
        self.adopt_named(folder);
        let copied = match into {
            Some(into) => self.copy(folder, into)?,
            None if self.packed.is_some() => {
                self.pack(folder)?;
                0
            }
            None => 0,
        };
        apart::sweep();
        Ok(copied)
    }

    /// Adopts the live parts in this node's memory and temporary folder that belong to `folder`, or all of
    /// this user.
    fn adopt_leftovers(&mut self, folder: Option<&Path>) {
        let strays = RefCell::new(Vec::new());
        let wanted = |file: &Path, trace: &Path| match folder {
            None => {
                let there = has_folder(trace);
                if !there {
                    strays
                        .borrow_mut()
                        .push((file.to_owned(), trace.to_owned()));
                }
                there
            }
            Some(folder) => adopt::inside(folder, trace).is_ok(),
        };
        for left in adopt::leftovers(wanted) {
            self.adopt(left.file, &left.left, &left.trace);
        }
        for (file, trace) in strays.into_inner() {
            self.stray(&file, &trace);
        }
    }

    /// Says what [`Collector::adopt_leftovers`] would do with each live part of this user, and does nothing.
    fn list_leftovers(&mut self) {
        for left in adopt::leftovers(|_, _| true) {
            if !has_folder(&left.trace) {
                self.stray(&left.file, &left.trace);
            } else if !self.runs(&left.left, &left.trace) {
                self.waiting += 1;
                let host = self.host_of(&left.left);
                self.say(&format!("waiting    {host}  {}", shown(&left.trace)));
            }
        }
    }

    /// Says that a live part's capture folder is not there, and how to have the part all the same.
    fn stray(&mut self, file: &Path, trace: &Path) {
        let Some(left) = Left::at(file) else {
            return;
        };
        if self.runs(&left, trace) {
            return;
        }
        self.strays += 1;
        let host = self.host_of(&left);
        // DIR/HOST/NAME.trace.
        let folder = shown(trace.parent().and_then(Path::parent).unwrap_or(trace));
        self.say(&format!(
            "stray      {host}  {}  (there is no {folder}: make it and run `ncclscope collect {folder}`, or \
            remove this file)",
            shown(file)
        ));
    }

    /// Adopts the live parts that the trace files in `folder` name, and says which ones are out of reach.
    fn adopt_named(&mut self, folder: &Path) {
        for trace in adopt::traces(folder) {
            let process = adopt::process_of(&trace);
            let live = trace.with_extension("live");
            let is_kept = adopt::part_at(&live).is_some() || packs::content(&live).is_ok();
            let Some(place) = process.get("live").filter(|_| !is_kept) else {
                continue;
            };
            let unreadable = match adopt::open(&live) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => Some(error.to_string()),
                // It was adopted already, and is damaged.
                Ok(_) => Some("it is no live part".to_owned()),
            };
            if let Some(why) = unreadable {
                let why = format!("it is in the capture, and can't be read ({why})");
                let refused = Refused::for_good(live, why);
                let known = self.refused.entry(same_for_all(&trace));
                known.or_insert(refused);
                continue;
            }
            let snapshot = LivePart::of_snapshot(&trace.with_extension("snap"));
            let known = same_for_all(&trace);
            if snapshot.as_ref().is_some_and(LivePart::ended)
                || self.alive.contains(&known)
                || self.refused.contains_key(&known)
            {
                continue;
            }
            let host = process.get("host").map_or("?", String::as_str);
            // A node that was restarted has lost its memory, but not its disk.
            let same_boot = process.get("boot_id") == Some(&self.here.boot_id);
            // A container may have had a memory of its own, which can't be seen from outside.
            let namespace = process.get("pid_namespace").and_then(|of| of.parse().ok());
            let beside = namespace.is_none_or(|of: u64| of == self.here.pid_namespace);
            let same_boot = same_boot && (beside || Path::new(place).exists());
            let seen = snapshot.as_ref().and_then(LivePart::seen_ns);
            let on_this_node = same_boot || self.here.was_restarted_since(Some(host), seen);
            let host = printable(host);
            if !on_this_node {
                self.elsewhere.insert(known);
                self.say(&format!(
                    "elsewhere  {host}  {}  {}",
                    shown(&trace),
                    printable(place)
                ));
                continue;
            }
            if place != "memfd" {
                match adopt::named(Path::new(place), &trace) {
                    Named::Part(left) => {
                        self.adopt(PathBuf::from(place), &left, &trace);
                        continue;
                    }
                    Named::Foreign(why) => {
                        let file = PathBuf::from(place);
                        let why = format!("`{}` names it, and {why}", shown(&trace));
                        self.refused.insert(known, Refused::for_good(file, why));
                        continue;
                    }
                    Named::Absent => {}
                }
            }
            if snapshot.is_some_and(|part| part.left().liveness(&self.here) != Liveness::Dead) {
                self.say(&format!("alive      {host}  {}", shown(&trace)));
                self.alive.insert(known);
            } else {
                self.gone += 1;
                self.say(&format!("gone       {host}  {}", shown(&trace)));
            }
        }
    }

    fn host_of(&self, left: &Left) -> String {
        let host = left.facts.get("host");
        printable(host.unwrap_or(&self.here.host)).into_owned()
    }

    /// Whether the writer of a live part may still be there, which is then said.
    fn runs(&mut self, left: &Left, trace: &Path) -> bool {
        let why = match left.liveness(&self.here) {
            Liveness::Dead => return false,
            Liveness::Alive => "",
            Liveness::Unknown => match tables::life::of_facts(&left.facts) {
                // It was in a container, which is seen from here.
                Life::Gone => return false,
                Life::Running | Life::Stopped => "",
                Life::Unknown => "  (or dead: another host or pid name space)",
            },
        };
        let host = self.host_of(left);
        self.say(&format!("alive      {host}  {}{why}", shown(trace)));
        self.alive.insert(same_for_all(trace));
        true
    }

    fn adopt(&mut self, file: PathBuf, left: &Left, trace: &Path) {
        if self.runs(left, trace) {
            return;
        }
        if let Err(error) = self.adopt_dead(&file, trace) {
            let why = printable(&format!("{error:#}")).into_owned();
            let refused = Refused {
                file,
                why,
                is_own: true,
            };
            self.refused.insert(same_for_all(trace), refused);
        }
    }

    /// Adopts the part in `file` of a process that is dead, and removes the file.
    fn adopt_dead(&mut self, file: &Path, trace: &Path) -> anyhow::Result<()> {
        let part = adopt::part_at(file).context("it holds no live part any more")?;
        if let Outcome::Adopted(live) = adopt::adopt(&part, trace)? {
            let host = self.host_of(&part.left());
            self.say(&format!("adopted    {host}  {}", shown(&live)));
            self.adopted += 1;
        }
        if let Err(error) = std::fs::remove_file(file) {
            tell!("`{}` is adopted but can't be removed: {error}", shown(file));
        }
        Ok(())
    }

    /// One line on standard output.
    fn say(&mut self, line: &str) {
        match writeln!(io::stdout(), "{line}") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe && self.output.is_ok() => {
                self.output = Err(error);
            }
            _ => {}
        }
    }

    /// Copies the files of the capture `folder` to the same places below `into`; returns how many were new
    /// there.
    fn copy(&mut self, folder: &Path, into: &Path) -> anyhow::Result<usize> {
        if let Err(error) = may_write_to(into) {
            let into = shown(into);
            tell!("error: nothing can be copied into `{into}`: {error}");
            // Root copies with the rights of the capture's owner, so that no link leads it elsewhere.
            if geteuid() != getuid() {
                tell!(
                    "  hint: `{}` belongs to user {}, with whose rights it is copied: choose a folder that \
                    this user may write to",
                    shown(folder),
                    geteuid()
                );
            }
            self.failed += 1;
            return Ok(0);
        }
        let mut files = Vec::new();
        adopt::walk(folder, &mut |path| {
            if is_account(path) || pack::is_packable(path) {
                files.push(path.to_owned());
            }
            true
        });
        let mut copied = 0;
        let mut to_pack: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for file in files {
            if self.alive.contains(&same_for_all(&adopt::trace_of(&file))) {
                continue;
            }
            let below = file.strip_prefix(folder).context("walked from there")?;
            let place = self.place(below, into);
            if self.packed.is_some() && pack::is_packable(&file) {
                let target = place.parent().unwrap_or(into).to_owned();
                to_pack.entry(target).or_default().push(file);
                continue;
            }
            match copy_file(&file, &place) {
                Ok(Copied::New) => copied += 1,
                Ok(Copied::Same) => {}
                // Each node's run wrote one; the first to arrive stands for the job. What `ncclscope hang`
                // saw is written anew by each look.
                Ok(Copied::Different) if is_account(below) => {}
                Ok(Copied::Different) => {
                    tell!(
                        "error: `{}` is there with other content than `{}`; left alone",
                        shown(&place),
                        shown(&file)
                    );
                    self.failed += 1;
                }
                Err(error) => {
                    tell!(
                        "error: `{}` can't be copied to `{}`: {error}",
                        shown(&file),
                        shown(&place)
                    );
                    self.failed += 1;
                }
            }
        }
        for (target, files) in to_pack {
            make_folder(&target)?;
            self.pack_into(&target, &files, false);
        }
        // What a full or read-only folder could not take.
        let from = folder.canonicalize()?;
        for (trace, mut refused) in std::mem::take(&mut self.refused) {
            let below = trace.strip_prefix(&from).ok().filter(|_| refused.is_own);
            let place = below.map(|below| self.place(below, into));
            let adopted = place.map(|place| self.adopt_dead(&refused.file, &place));
            if let Some(Err(error)) = &adopted {
                refused.why = printable(&format!("{error:#}")).into_owned();
            }
            if !matches!(adopted, Some(Ok(()))) {
                self.refused.insert(trace, refused);
            }
        }
        Ok(copied)
    }

    /// Packs the files of each folder of the capture `folder`, but for those of processes that may still run.
    fn pack(&mut self, folder: &Path) -> anyhow::Result<()> {
        let job = tables::job(folder).ok().flatten();
        let has_ended = job.is_some_and(|job| !job["ended"].is_null());
        let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        adopt::walk(folder, &mut |path| {
            if pack::is_packable(path) || packs::number(path).is_some() {
                let parent = path.parent().unwrap_or(folder).to_owned();
                let files = folders.entry(parent).or_default();
                files.extend(pack::is_packable(path).then(|| path.to_owned()));
            }
            true
        });
        let mut known = BTreeMap::new();
        for (folder, mut files) in folders {
            files.retain(|file| {
                let trace = adopt::trace_of(&packs::without_zst(file));
                let is_over = || self.is_over(file, &trace, has_ended);
                // Nobody appends to a compressed file.
                let is_settled = is_account(file) || packs::is_compressed(file);
                is_settled || *known.entry(same_for_all(&trace)).or_insert_with(is_over)
            });
            self.pack_into(&folder, &files, true);
        }
        let left = known.into_iter().filter(|(trace, is_over)| {
            !is_over && !self.alive.contains(trace) && !self.elsewhere.contains(trace)
        });
        let left: BTreeSet<PathBuf> = left.map(|(trace, _)| trace).collect();
        if let Some(packed) = &mut self.packed {
            packed.left.extend(left);
        }
        Ok(())
    }

    /// Whether nobody writes to the files of a process any more, and nothing of it is elsewhere. `file` is
    /// one of them, `trace` is its first trace file.
    fn is_over(&self, file: &Path, trace: &Path, has_ended: bool) -> bool {
        let known = same_for_all(trace);
        if self.alive.contains(&known)
            || self.elsewhere.contains(&known)
            || self.refused.contains_key(&known)
        {
            return false;
        }
        if file.extension().is_some_and(|e| e == "samples") {
            let facts = adopt::process_of(file);
            let number = |key: &str| facts.get(key).and_then(|of| of.parse::<u64>().ok());
            let is_here = facts.get("boot_id") == Some(&self.here.boot_id)
                && number("pid_namespace") == Some(self.here.pid_namespace);
            // A sampler does not say when it began, so another process may have its pid by now.
            let is_there = |pid| Path::new(&format!("/proc/{pid}")).exists();
            return match number("pid").filter(|_| is_here) {
                Some(pid) => !is_there(pid),
                None => has_ended,
            };
        }
        let facts = adopt::process_of(trace);
        match tables::life::of_facts(&facts) {
            Life::Running | Life::Stopped => false,
            Life::Gone => true,
            // Only what a dead process left is adopted.
            Life::Unknown => has_ended || adopt::part_at(&trace.with_extension("live")).is_some(),
        }
    }

    /// Packs files into `folder`, and says what came of it.
    fn pack_into(&mut self, folder: &Path, files: &[PathBuf], remove: bool) {
        let done = pack::pack(folder, files, remove).unwrap_or_else(|error| pack::Packed {
            failed: vec![(folder.to_owned(), format!("{error:#}"))],
            ..pack::Packed::default()
        });
        if let Some(pack) = &done.pack {
            self.say(&format!(
                "packed     {}  {}  ({} files)",
                printable(&self.here.host),
                shown(pack),
                done.files
            ));
        }
        for (file, why) in &done.failed {
            tell!(
                "error: `{}` can't be packed: {}",
                shown(file),
                printable(why)
            );
        }
        self.failed += done.failed.len();
        if let Some(packed) = &mut self.packed {
            packed.files += done.files;
            packed.bytes += done.bytes;
            packed.packed_bytes += done.packed_bytes;
        }
    }

    /// Where a file that is at `below` in its capture goes. The host's folder keeps nodes apart; a file
    /// without one gets this node's.
    fn place(&self, below: &Path, into: &Path) -> PathBuf {
        if below.components().count() > 1 || pack::is_job(below) {
            into.join(below)
        } else {
            into.join(&self.here.host).join(below)
        }
    }
}

/// Whether a file is about the job, and not a process's.
fn is_account(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| pack::is_job(path) || Witness::of_file(name).is_some())
}

enum Copied {
    New,
    Same,
    Different,
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes the folder if it is not there, and asks whether files can be made in it.
fn may_write_to(folder: &Path) -> io::Result<()> {
    make_folder(folder)?;
    let access = AccessFlags::W_OK | AccessFlags::X_OK;
    Ok(faccessat(AT_FDCWD, folder, access, AtFlags::AT_EACCESS)?)
}

fn copy_file(from: &Path, to: &Path) -> io::Result<Copied> {
    if !to.exists() {
        let folder = to.parent().unwrap_or(Path::new("/"));
        make_folder(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        io::copy(&mut adopt::open(from)?, &mut file)?;
        match file.persist_noclobber(to) {
            Ok(_) => return Ok(Copied::New),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error),
        }
    }
    Ok(if pack::same(adopt::open(from)?, adopt::open(to)?)? {
        Copied::Same
    } else {
        Copied::Different
    })
}
