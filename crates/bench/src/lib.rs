//! A micro-benchmark of NCCL that times every call and nothing else.
//!
//! [`run`] measures a [`plan::Plan`] and gives a [`table::Table`]; [`nccl_tests::read`] gives the same from the output of
//! nccl-tests, and [`json`] writes either. The ranks are processes with one GPU each ([`worker`]); one process leads them
//! ([`lead`]) over sockets ([`link`], [`ranks`]). libnccl and libcuda are opened at run time ([`library`]).
//!
//! Rule: ranks make the same calls in the same order, because the lead alone decides.

pub mod calls;
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
pub mod table;
pub mod worker;

use anyhow::{anyhow, Result};
use calls::Calls;
use launcher::Place;
use lead::{Lead, Watch};
use plan::Plan;
use ranks::{Ranks, Trouble};
use std::fs::File;
use std::path::PathBuf;
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
    /// The run's name in it.
    pub run: String,
}

/// Measures. `None` is the result of every rank but the one that leads.
///
/// # Errors
/// [`Trouble::Setup`] when it can't begin, [`Trouble::Failed`] when a rank fails or hangs.
pub fn run(
    plan: &Plan,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<Option<Table>, Trouble> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut place = Place::detect(env);
    if let (Some(place), Some(port)) = (&mut place, settings.port) {
        place.port = port;
    }
    let setup = |place: &Place| Setup {
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

/// Starts one process for each GPU and leads them.
fn start_all(plan: &Plan, settings: &Settings, watch: &mut dyn Watch) -> Result<Table, Trouble> {
    let gpus = cuda::Cuda::open(settings.cuda.as_deref()).and_then(|cuda| cuda.devices());
    let gpus = gpus.map_err(Trouble::Setup)?;
    let wanted = settings.gpus.unwrap_or(gpus);
    if wanted > gpus {
        return Err(Trouble::Setup(anyhow!(
            "expected {wanted} GPUs (--gpus), found {gpus}"
        )));
    }
    plan.check_for(wanted)
        .map_err(|why| Trouble::Setup(anyhow!(why)))?;
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
) -> Result<Table, Trouble> {
    let calls = settings
        .parquet
        .as_deref()
        .map(|path| Calls::create(path, &settings.run));
    let lead = Lead {
        ranks,
        plan,
        calls: calls.transpose().map_err(Trouble::Setup)?,
        watch,
    };
    lead.run()
}
