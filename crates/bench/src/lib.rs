//! A micro-benchmark of NCCL that times every call and nothing else.
//!
//! [`run`] measures a [`plan::Plan`] and gives a [`table::Table`]; [`nccl_tests::read`] gives the same from
//! the output of nccl-tests, and [`json`] writes either. The ranks are processes with one GPU each
//! ([`worker`]); one process leads them ([`lead`]) over sockets ([`link`], [`ranks`]). libnccl and libcuda
//! are opened at run time ([`library`]).
//!
//! Rule: ranks make the same calls in the same order, because the lead alone decides.

pub mod calls;
pub mod ceiling;
pub mod cuda;
pub mod datatype;
pub mod function;
pub mod json;
pub mod launcher;
pub mod lead;
pub mod library;
pub mod link;
pub mod meet;
pub mod nccl;
pub mod nccl_tests;
pub mod pattern;
pub mod plan;
pub mod ranks;
pub mod stop;
pub mod summary;
pub mod table;
pub mod worker;

use anyhow::{anyhow, Context, Result};
use calls::CallsFile;
use launcher::RankPlace;
use lead::{Ended, Lead, Watch};
use plan::Plan;
use ranks::{Ranks, Trouble};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;
use table::Table;
use worker::Setup;

/// Where and how to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// One process for each of so many GPUs of this machine; `None` is what the launcher says, or all GPUs.
    pub gpus: Option<u32>,
    /// NCCL's path; `None` finds it.
    pub nccl: Option<PathBuf>,
    /// The driver's path.
    pub cuda: Option<PathBuf>,
    /// Port of rank 0 under a launcher; `None` is the one after MASTER_PORT, or 29511.
    pub port: Option<u16>,
    /// Longer than this no answer takes.
    pub limit: Duration,
    /// File for every call.
    pub parquet: Option<PathBuf>,
    /// File that the caller will write: one that can't be written is noticed before, not after.
    pub json: Option<PathBuf>,
    /// The run's name in it.
    pub run: String,
}

/// Measures. `None` is the result of every rank but the one that leads.
///
/// # Errors
/// [`Trouble::Setup`] when it can't begin, [`Trouble::Failed`] when a rank fails or hangs,
/// [`Trouble::Stopped`] on SIGINT or SIGTERM; with the rows until then.
pub fn run(
    plan: &Plan,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<Option<Table>, Box<Ended>> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut place = match RankPlace::detect(env) {
        // What it says does not matter then.
        Err(_) if settings.gpus.is_some() => None,
        found => found.map_err(Trouble::Setup)?,
    };
    if let (Some(place), Some(port)) = (&mut place, settings.port) {
        place.port = port;
    }
    let setup = |place: &RankPlace| Setup {
        plan: plan.clone(),
        place: place.clone(),
        nccl: library::find_nccl(settings.nccl.as_deref()),
        cuda: settings.cuda.clone(),
    };
    if let Some(socket) = launcher::inherited() {
        let place = place.ok_or_else(|| {
            Trouble::Setup(anyhow!(
                "expected RANK and WORLD_SIZE beside the socket of a rank"
            ))
        })?;
        // What went wrong is told by the lead.
        let _ = worker::serve(&setup(&place), socket, true);
        return Ok(None);
    }
    // A job of one process is none: a batch script looks like it too.
    match place.filter(|place| settings.gpus.is_none() && place.ranks > 1) {
        None => start_all(plan, settings, watch).map(Some),
        Some(place) if place.rank > 0 => {
            let socket = place.connect(settings.limit).map_err(Trouble::Setup)?;
            worker::serve(&setup(&place), socket, true).map_err(Trouble::into_failed)?;
            Ok(None)
        }
        Some(place) => {
            let listener = place.listen().map_err(Trouble::Setup)?;
            stop::watch();
            let (ours, theirs) = launcher::pair().map_err(Trouble::Setup)?;
            let setup = setup(&place);
            // Not joined: a rank that hangs must not keep us.
            std::thread::spawn(move || worker::serve(&setup, theirs, false));
            let sockets = vec![(ours, None)];
            let listener = Some((listener, &place));
            let ranks = Ranks::gather(sockets, listener, place.ranks, plan, settings.limit)?;
            lead(ranks, plan, settings, watch).map(Some)
        }
    }
}

/// Measures so many times, each time in new processes, and gives the means with how far the starts differ.
///
/// # Errors
/// As [`run`], with the starts until then; and if a launcher started the ranks, which only it can do again.
pub fn run_starts(
    plan: &Plan,
    settings: &Settings,
    starts: u32,
    watch: &mut dyn Watch,
) -> Result<Option<Table>, Box<Ended>> {
    if starts == 1 {
        return run(plan, settings, watch);
    }
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let place = RankPlace::detect(env).ok().flatten();
    let is_of_launcher = place.is_some_and(|place| place.ranks > 1) && settings.gpus.is_none();
    if is_of_launcher && env(launcher::LINK).is_none() {
        let why = anyhow!(
            "expected ranks that bench starts by itself for --starts, found those of a launcher\n  hint: \
             --gpus N starts them here; else run the launcher several times, and compare the files of --json"
        );
        return Err(Trouble::Setup(why).into());
    }
    let mut tables = Vec::new();
    for number in 0..starts {
        let mut quiet = OneStart {
            watch,
            number,
            starts,
        };
        match run(plan, settings, &mut quiet) {
            Ok(Some(table)) => tables.push(table),
            Ok(None) => return Ok(None),
            Err(mut ended) => {
                if let Some(whole) = summary::of_starts(&tables) {
                    ended.table = whole;
                }
                return Err(ended);
            }
        }
    }
    let all = summary::of_starts(&tables);
    if let Some(all) = &all {
        watch.print(&all.text());
    }
    Ok(all)
}

/// Follows one of several starts: its rows are printed at the end, with those of the others.
struct OneStart<'a> {
    watch: &'a mut dyn Watch,
    number: u32,
    starts: u32,
}

impl Watch for OneStart<'_> {
    fn at(&mut self, what: &str, done: u64, of: u64) {
        let what = format!("start {} of {}: {what}", self.number + 1, self.starts);
        self.watch.at(&what, done, of);
    }

    fn print(&mut self, _text: &str) {}

    fn note(&mut self, text: &str) {
        self.watch
            .note(&format!("start {}: {text}", self.number + 1));
    }
}

/// Starts one process for each GPU and leads them.
fn start_all(plan: &Plan, settings: &Settings, watch: &mut dyn Watch) -> Result<Table, Box<Ended>> {
    let gpus = cuda::Cuda::open(settings.cuda.as_deref()).and_then(|cuda| cuda.devices());
    let gpus = gpus.map_err(Trouble::Setup)?;
    let wanted = settings.gpus.unwrap_or(gpus);
    if wanted > gpus {
        let why = anyhow!("expected {wanted} GPUs (--gpus), found {gpus}");
        return Err(Trouble::Setup(why).into());
    }
    plan.check_for(wanted)
        .map_err(|why| Trouble::Setup(anyhow!(why)))?;
    stop::watch();
    // Found once for all of them.
    let nccl = settings.nccl.is_none().then(|| library::find_nccl(None));
    let start = |rank| {
        launcher::start(rank, wanted, nccl.as_deref()).map(|(child, socket)| (socket, Some(child)))
    };
    let sockets: Result<Vec<(File, Option<Child>)>> = (0..wanted).map(start).collect();
    let sockets = sockets.map_err(Trouble::Setup)?;
    let ranks = Ranks::gather(sockets, None, wanted, plan, settings.limit)?;
    lead(ranks, plan, settings, watch)
}

fn lead(
    ranks: Ranks,
    plan: &Plan,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<Table, Box<Ended>> {
    let json = settings.json.as_deref().map_or(Ok(()), writable);
    json.map_err(Trouble::Setup)?;
    let calls = settings
        .parquet
        .as_deref()
        .map(|path| CallsFile::create(path, &settings.run));
    let lead = Lead {
        ranks,
        plan,
        calls: calls.transpose().map_err(Trouble::Setup)?,
        watch,
    };
    lead.run()
}

/// Tries a file that is written later; leaves it as it is.
///
/// # Errors
/// That it can't be written.
pub fn writable(path: &Path) -> Result<()> {
    let named = || format!("`{}` can't be written", path.display());
    let new = match std::fs::metadata(path) {
        // A pipe's reader would take our trial for all there is.
        Ok(found) if !found.is_file() && !found.is_dir() => return Ok(()),
        found => found.is_err(),
    };
    let mut options = File::options();
    options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .with_context(named)?;
    if new {
        std::fs::remove_file(path).with_context(named)?;
    }
    Ok(())
}
