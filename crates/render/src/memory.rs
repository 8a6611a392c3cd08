//! The memory that NCCL holds, as text: how much, of which communicator, and what it was allocated for.

use crate::layout::{plural, Look, Page, Style, Table};
use analyze::memory::{ByNvml, CommunicatorMemory, Memory, Note, Projection, RankMemory};
use analyze::spelling::{percent, size};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{Result, Write};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/memory-1.json");

/// Communicators that are printed, the largest first.
const COMMUNICATORS: usize = 8;

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(memory: &Memory, out: &mut impl Write) -> Result<()> {
    let notes = notes(memory).collect();
    crate::json::pretty(&MemoryJson { memory, notes }, out)
}

/// What NCCL holds, with the words of its notes, as JSON has it.
#[derive(Serialize, JsonSchema)]
pub struct MemoryJson<'a> {
    #[serde(flatten)]
    memory: &'a Memory,
    /// What is not known, and why.
    notes: Vec<String>,
}

/// Writes it as a page of text.
///
/// # Errors
/// Those of `out`.
pub fn text(memory: &Memory, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, all);
    page.styled(
        Style::Open,
        &sentence(memory).unwrap_or_else(|| "NCCL's memory is not known.".to_owned()),
    );
    if let Some(projection) = &memory.projection {
        page.title("Projection (a model)");
        page.line(&projected(projection));
    }
    ranks(memory, &mut page);
    if let Some(rank) = memory
        .communicators
        .first()
        .and_then(|row| row.ranks.first())
    {
        steps(rank, &mut page);
        connections(rank, &mut page);
    }
    gpus(memory, &mut page);
    for note in notes(memory) {
        page.gap();
        page.wrap("", "", &note);
    }
    page.finish(out)
}

/// The notes, a sentence or several each.
fn notes(memory: &Memory) -> impl Iterator<Item = String> + '_ {
    memory.notes.iter().filter_map(note)
}

/// What the figures mean, or why some are not known; `None` if nothing is to be said of a failure.
fn note(of: &Note) -> Option<String> {
    let text = match of {
        Note::OnlyCounted => {
            "NCCL was asked for what it counts (`ncclCommMemStats`), and that is all that is known of some \
             communicators. `NCCLSCOPE_NCCL_LOG=on ncclscope run` records what they allocate it for, and \
             memory of the host."
        }
        Note::UnseenFrees => {
            "Frees are unseen: NCCL says what it allocates, and not what it frees. So these figures may be \
             too large. They hold neither GPU memory of NCCL's kernels nor the program's own buffers."
        }
        Note::SharedBuffers => {
            "Some communicators share their buffers (`splitShare`). NCCL counts them together, so `counted` \
             of each is that of all of them."
        }
        Note::NotSaid => {
            "NCCL said nothing of its allocations. It does so with NCCL_DEBUG=INFO and the subsystems INIT \
             and ALLOC."
        }
        Note::NotRecorded => {
            "The memory that NCCL holds is not recorded. `NCCLSCOPE_NCCL_LOG=on ncclscope run` records it; \
             from NCCL 2.29.7 on, what NCCL itself counts, too (docs/guides/memory.md)."
        }
        Note::NoProjection => {
            "What more ranks would take can't be said: it is not known what the memory was allocated for. \
             `NCCLSCOPE_NCCL_LOG=on ncclscope run` records that."
        }
        Note::Nvml(by) => return Some(nvml(by)),
        Note::Unowned(sizes) => {
            return Some(format!(
                "NCCL allocated {} of GPU memory, {} pinned and {} in /dev/shm for communicators that its \
                 output does not tell apart.",
                size(sizes.gpu),
                size(sizes.pinned),
                size(sizes.shared)
            ))
        }
        Note::Lone {
            communicators,
            are_equal,
            most_bytes,
        } => {
            let up_to = if *are_equal { "" } else { "up to " };
            return Some(format!(
                "{} of one rank hold {up_to}{} of GPU memory each, although they have no peer.",
                plural(*communicators, "communicator", "communicators"),
                size(*most_bytes)
            ));
        }
        Note::InitFailed(startup) => return crate::startup::sentence(startup),
    };
    Some(text.to_owned())
}

/// How far NVML confirms the figures.
fn nvml(by: &ByNvml) -> String {
    let (agree, known) = (by.agree, by.known);
    let mut note =
        format!("NVML's change agrees within 10 % for {agree} of {known} ranks of communicators.");
    if let Some(more) = by.more_for_first {
        note += &format!(
            " For the first communicator of a process it is {} more (median): CUDA loads NCCL's kernels \
             then.",
            size(more)
        );
    }
    if let Some(more) = by.more_for_others {
        note += &format!(" For others it is {} more (median).", size(more));
    }
    if agree < known {
        note += " What the program itself allocated meanwhile is in it, too.";
    }
    note
}

/// The answer, if anything is known.
fn sentence(memory: &Memory) -> Option<String> {
    let row = memory.communicators.first()?;
    let rank = row.ranks.first()?;
    let init = match rank.init_gpu_bytes {
        None => String::new(),
        Some(init) if init == rank.gpu_bytes => ": all of it in its init".to_owned(),
        Some(init) => format!(
            ": {} in its init, and the rest when it was first used",
            size(init)
        ),
    };
    let mut sentence = format!(
        "The largest communicator ({}) took {} of GPU memory on rank {}{init}.",
        plural(row.nranks.into(), "rank", "ranks"),
        size(rank.gpu_bytes),
        rank.rank,
    );
    let shares = memory.gpus.iter().filter_map(|gpu| Some((gpu.share?, gpu)));
    if let Some((share, gpu)) = shares.reduce(|a, b| if b.0 > a.0 { b } else { a }) {
        sentence += &format!(
            " {} together took {} of a GPU's memory.",
            plural(gpu.communicators.into(), "communicator", "communicators"),
            percent(share)
        );
    }
    Some(sentence)
}

fn projected(p: &Projection) -> String {
    let share = p.share.map_or(String::new(), |share| {
        format!(", {} of the GPU's memory", percent(share))
    });
    let mut projected = format!(
        "{} of {} would take {} of each GPU{share}.",
        plural(p.communicators.into(), "communicator", "communicators"),
        plural(p.nranks.into(), "rank", "ranks"),
        size(p.gpu_bytes),
    );
    let parts = (p.init_gpu_bytes, p.collectives_gpu_bytes, p.pairs_gpu_bytes);
    if let (Some(init), Some(collectives), Some(pairs)) = parts {
        projected += &format!(
            " One takes {} in its init, {} for collectives, and {} for sends to and receives from all \
             others.",
            size(init),
            size(collectives),
            size(pairs),
        );
    }
    projected
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

fn id(row: &CommunicatorMemory) -> String {
    row.communicator.clone().unwrap_or_else(|| "-".to_owned())
}

fn ranks(memory: &Memory, page: &mut Page) {
    if memory.communicators.is_empty() {
        return;
    }
    page.title(
        "Communicators (largest first, MiB; of each its largest rank, all ranks with --all)",
    );
    let names = [
        "communicator",
        "nranks",
        "rank",
        "host",
        "gpu",
        "at_init",
        "gpu_memory",
        "counted",
        "nvml",
        "pinned",
        "shared",
    ];
    let mut table = Table::new(names, "<>><>>>>>>>");
    table.squeeze = &["host", "pinned", "shared"];
    for row in &memory.communicators {
        let shown = if page.all { row.ranks.len() } else { 1 };
        for rank in row.ranks.iter().take(shown) {
            table.row([
                id(row),
                row.nranks.to_string(),
                rank.rank.to_string(),
                rank.host.clone(),
                rank.device
                    .map_or("-".to_owned(), |device| device.to_string()),
                rank.init_gpu_bytes.map_or("-".to_owned(), mib),
                mib(rank.gpu_bytes),
                rank.counted
                    .map_or("-".to_owned(), |counted| mib(counted.most_gpu_bytes)),
                rank.nvml_bytes.map_or("-".to_owned(), |bytes| {
                    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
                }),
                mib(rank.pinned_bytes),
                mib(rank.shared_bytes),
            ]);
        }
    }
    page.table(&table, COMMUNICATORS, "rows");
}

fn steps(rank: &RankMemory, page: &mut Page) {
    page.title(&format!(
        "What rank {} of the largest allocated it for (in order of time, MiB)",
        rank.rank
    ));
    let mut table = Table::new(["step", "gpu_memory", "pinned", "shared"], "<>>>");
    for step in &rank.steps {
        table.row([
            step.step.clone(),
            mib(step.gpu_bytes),
            mib(step.pinned_bytes),
            mib(step.shared_bytes),
        ]);
    }
    page.table(&table, usize::MAX, "steps");
}

fn connections(rank: &RankMemory, page: &mut Page) {
    if rank.connections.is_empty() {
        return;
    }
    page.title("Its connections (modelled: by NCCL's sizes of buffers, MiB)");
    let names = [
        "used_for", "way", "peers", "channels", "outgoing", "incoming", "modelled",
    ];
    let mut table = Table::new(names, "<<>>>>>");
    for row in &rank.connections {
        table.row([
            row.used_for.to_owned(),
            row.way.clone(),
            row.peers.to_string(),
            row.channels.to_string(),
            row.outgoing.to_string(),
            row.incoming.map_or("-".to_owned(), |n| n.to_string()),
            row.modelled_gpu_bytes.map_or("-".to_owned(), mib),
        ]);
    }
    page.table(&table, usize::MAX, "connections");
}

fn gpus(memory: &Memory, page: &mut Page) {
    if memory.gpus.is_empty() {
        return;
    }
    page.title("GPUs (when the communicators on it held most, MiB)");
    let names = [
        "host",
        "gpu",
        "communicators",
        "gpu_memory",
        "of",
        "share_%",
    ];
    let mut table = Table::new(names, "<<>>>>");
    for gpu in &memory.gpus {
        table.row([
            gpu.host.clone(),
            gpu.gpu.clone(),
            gpu.communicators.to_string(),
            mib(gpu.gpu_bytes),
            gpu.total_bytes.map_or("-".to_owned(), mib),
            gpu.share
                .map_or("-".to_owned(), |share| format!("{:.2}", share * 100.0)),
        ]);
    }
    page.table(&table, COMMUNICATORS, "GPUs");
}
