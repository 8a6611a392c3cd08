//! What the words of a report mean, and what NCCL's functions, algorithms and protocols are good for.
//!
//! `ncclscope report --explain` prints [`DEFINITIONS`], `ncclscope explain WORD` what [`explain`] finds, and
//! a report takes the way out of each cause from [`remedy`]: one text for all.
//!
//! Rule: every cause that a report can name is here, and every algorithm and protocol that NCCL names to a
//! profiler.

use crate::findings::about;
use crate::meanings;
use analyze::algorithms::{algorithms_of, functions_of};
use analyze::bandwidth::FACTORS;
use analyze::findings::Kind;
use std::sync::LazyLock;

mod columns;
mod events;
mod verbs;

pub use columns::{COLUMNS, FIELDS, ODD, RULES};
pub use events::{EVENTS, STATES};
pub use verbs::VERBS;

/// A word and its meaning in a few sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// As reports write it.
    pub name: &'static str,
    /// What it is and, for a cause, what to do.
    pub text: &'static str,
}

const fn word(name: &'static str, text: &'static str) -> Word {
    Word { name, text }
}

/// The definitions behind a report's figures.
pub const DEFINITIONS: &[Word] = &[
    word("announced", "CollApi and P2pApi starts (Coll and P2p before NCCL 2.28), and graph replays where \
        NCCL shows them. Others that ran in CUDA graphs are counted by launches, apart from these. The sends \
        and receives of an AlltoAll count one by one here."),
    word("recorded",
        "announced calls that have a row, or a count in the totals where only totals were asked for."),
    word("timed", "calls with a GPU time that can be believed."),
    word("calls", "executions in an operation, one rank's part each, warm-ups included; \
        `12+3c` are 12 and 3 captured into CUDA graphs."),
    word("warm-up", "the first call of each rank on a communicator: NCCL connects ranks and loads kernels \
        then. Counted in `calls`, in no statistics, and shown apart. Where calls before it are lost, or \
        calls were only counted in totals, it is not told apart."),
    word("bytes", "by the convention of nccl-tests: count × type size; × ranks for AllGather, ReduceScatter, \
        AlltoAll, Gather and Scatter."),
    word("GPU time",
        "from stamps: first channel's start to last channel's stop on one rank, waiting for peers included."),
    word("host time", "from API entry to return on the calling thread."),
    word("sum over ranks", "the plain sum of calls' times on all ranks; calls at the same time count each, \
        so it may exceed the run."),
    word("share of the run", "union of a rank's NCCL intervals (kernels; without GPU times the API calls) \
        over its wall time, from its first communicator to the last thing seen: never above 100 %."),
    word("percentile", "nearest rank, so a value that was observed; p50 is the median, of an even number the \
        mean of the two in the middle. p95 is the value at position ⌈0.95 n⌉ of the sorted n. p99 is given \
        from 100 calls on. Calls counted without rows give percentiles from a histogram with an error of at \
        most 1 %, and so do the parts of a call."),
    word("shortest", "GPU time of an operation's shortest rank. The rank that comes last waits for nobody, \
        so this is close to the transfer (a lower bound for Broadcast and Scatter, whose root may be done \
        before the others have their data). Only operations with a GPU time on every rank of the \
        communicator count; they are matched by NCCL's sequence number, else by their order. In a \
        table of start-up: the shortest time that any rank spent in the phase. In a table of first uses: the \
        least by which a rank's call took longer."),
    word("algbw", "bytes by the median of `shortest`, in GB/s (10⁹ bytes a second)."),
    word("busbw", "algbw × factor, which makes it comparable with what a link moves: AllReduce 2(n-1)/n; \
        AllGather, ReduceScatter, AlltoAll, Gather, Scatter (n-1)/n; Broadcast, Reduce, SendRecv 1; n ranks. \
        None over one rank, where nothing moves."),
    word("call_busbw", "busbw as the program saw it: by the mean time over an operation's ranks (the median \
        operation's), so waiting for late ranks is in it. Sends and receives have only this, \
        by the median call."),
    word("refused", "a bandwidth that its own size and time contradict: a time of 0 or less, or a busbw \
        above 3600 GB/s, twice what any GPU's links move one way. \
        It is null and the reason stands in `bandwidth_refused`."),
    word("api", "part of a call: API entry to return."),
    word("enqueue", "part of a call: API entry to the beginning of the kernel launch, or to the event that \
        tells of enqueueing where no launch is known to be the call's."),
    word("launch", "part of a call: beginning to end of the kernel launch on the host."),
    word("enqueue_%", "mean of `enqueue` as a share of the mean of `api`, if the same calls have both."),
    word("launch_%", "mean of `launch` as a share of the mean of `api`, if the same calls have both."),
    word("kernel", "part of a call: its GPU time."),
    word("proxy", "part of a call: waits of the network proxy's steps, summed over steps and channels, \
        so it may exceed the call."),
    word("outlier", "a rank whose figure (calls, calls without a GPU time, time in NCCL) is more than 5 \
        scaled median deviations and 10 % away from the median over ranks. Less time in NCCL than the others \
        means that they wait for this rank."),
    word("network", "ops and steps are those of the network proxies (stopped/started where not all stopped) \
        as NCCL tells them; `calls` used the network, sends and receives one by one. send_gpu: a send's step \
        waits for the GPU's data; send_peer: for the receiver; send_network: for the network; recv_network: \
        waits for data; recv_flush: for the flush; recv_gpu: for the GPU to take it."),
    word("critical path", "the chain of work and transfers, over all ranks, that a step's time consists \
        of. It goes back from the end of the step's last operation: through the transfer to the rank that \
        arrived last, through that rank's work to the operation that the work waited for, and so on. Work \
        ends with the launch of the next call (`launched then`), or the call was launched long before and \
        the GPU was still busy (`GPU was busy`). Waiting is never on it. A step is from the end of the step \
        before to its own end. Making something on the path shorter saves at most its time, because another \
        chain may be nearly as long. Only steps in which every call was timed count. Sends and receives are \
        not followed to their peers."),
    word("clocks", "of several hosts: the clock of one less that of the first rank's host, µs. low and high \
        are proved, by operations that no rank can leave before the last has arrived; offset is what it is \
        if all ranks leave these together (`common ends`), moved into the bounds where it lies outside \
        (`bounds`), or what `--offsets` says (`given`). See docs/concepts/clocks.md."),
];

/// Why calls are lost, what to do.
pub const LOST: &[Word] = &[
    word("rows_full", "no free row: as many calls were open, or waited to be written, as the live part can \
        hold. If NCCLSCOPE_MEMORY is set, leave it out: the default of 64MiB is the most. If it is not, see \
        that `/dev/shm` has room, and that the recorder's thread (`ncclscope`) gets time on a core: it makes \
        rows free again. These calls are counted in the totals."),
    word("size_limit", "the trace file was full, and in mode `callbacks` the first calls are kept: a larger \
        NCCLSCOPE_MAX_SIZE lets it grow; they are counted in the totals."),
    word("rotated", "in trace files that were removed for newer ones: a larger NCCLSCOPE_MAX_SIZE keeps \
        more; they are counted in the totals."),
    word("write_failed", "the trace file could not be written: see the disk behind NCCLSCOPE_OUT; \
        they are counted in the totals."),
    word("totals_full",
        "the totals were full: they hold 512 kinds of calls, by communicator, function, datatype and size. \
        Only calls without a row need them: NCCLSCOPE_MODE=trace keeps rows. They are counted here only."),
    word("communicators_full", "made on a communicator that found no room in the live part: see the space in \
        `/dev/shm`. These calls are counted here only."),
    word("stale_context", "made on a communicator that NCCL had ended, or never announced: please report it. \
        These calls are counted here only."),
    word("ring_full", "too fast for `ncclscope attach`: a larger --buffer has more room. \
        These calls are counted here only."),
    word("damaged", "in files or blocks that are damaged or missing, see Problems."),
    word("elsewhere",
        "after the last flush, on the hosts named under Problems: `ncclscope collect` there brings them."),
    word("running", "in the memory of the job, which still runs: \
        `ncclscope run` takes them into the capture when it ends."),
    word("gone", "after the last flush, and lost with the memory of their process: a smaller NCCLSCOPE_FLUSH \
        loses fewer, and `ncclscope run` keeps them."),
    word("moving",
        "moved from rows to totals while the report read them, because the job runs: run it again."),
    word("in_birth", "begun at the very moment when the process ended or was stopped, \
        at most one a thread: nothing to do."),
    word("unexplained", "neither recorded nor counted as lost: the figures do not add up, please report it."),
];

/// Why recorded calls have no GPU time, and what to do.
pub const UNTIMED: &[Word] = &[
    word("captured", "templates in a CUDA graph, not executed; replays are calls of their own."),
    word("no_stamp", "NCCL delivered no GPU stamp, and no CUDA events lie around its launch. With \
        NCCLSCOPE_TIMING=stamps, copy engines, symmetric kernels and silent Broadcasts have none (see \
        Notes); with events, graph replays and what NCCL launches without saying so; with host, all. Nor has \
        a call that never began, or that lost its row before it began (rows ran short, \
        see `ncclscope explain rows_full`)."),
    word("fused", "launched in one batch with other operations, whose stamps are the batch's: \
        only ungrouped calls are timed one by one."),
    word("repeated", "another call's stamp was delivered: NCCL keeps the last 64 stamps of a channel, and \
        many small calls in flight outrun it; a synchronisation between bursts keeps them apart."),
    word("backwards", "the stamps overlap another launch's on the same channel: NCCL keeps the last 64 \
        stamps of a channel, and many small calls in flight outrun it; \
        a synchronisation between bursts keeps them apart."),
    word("stale", "the stamps are older than the launch, so another kernel's or from before a step of the \
        GPU's clock: nothing to do; host times are sound."),
    word("desynchronised", "made after a call that puts NCCL's count of stamps out of step (a send to itself \
        up to 2.30, a Broadcast from 2.31 on): avoid that send, or set NCCL_ALLGATHERV_ENABLE=0."),
    word("negative", "the stop stamp is before the start: NCCL delivered stamps of two calls; a \
        synchronisation between bursts keeps them apart."),
    word("missing", "some channel's stamp was zero or did not come: nothing to do; host times are sound."),
    word("unfinished", "not ended when the recording did: the job was killed, hangs there, still runs, or \
        left by _exit() before NCCL had told of the end."),
    word("unsampled", "left out of the sample, to keep the cost of timing within NCCLSCOPE_BUDGET: totals \
        and means are estimated from the calls that were timed and carry their interval. \
        NCCLSCOPE_TIMING=events times every launch."),
    word("early_stop", "NCCL stamps the end of a send or receive, and of TREE and NVLS, by a warp that does \
        not wait for the others: it may be hundreds of us too early (seen on H200). \
        NCCLSCOPE_TIMING=auto or events times them."),
    word("no_event", "the CUDA events around its launch told no time: the process ended within 0.1 s of it, \
        CUDA reported an error, or the GPU's clock stepped. Host times are sound. Of a file of another tool: \
        it has no GPU time of the call, as a trace without its kernel."),
    word("in_graph", "executed in a launch of a CUDA graph: the launch is counted, NCCL does not show its \
        calls one by one, and no kernel window had this one."),
    word("sealed_early", "its row was written before its end was seen: rows ran short (see \
        `ncclscope explain rows_full`), its communicator or process ended first, or NCCL did not tell of \
        it."),
    word("rowless",
        "in totals, without a time: mode trace and a larger NCCLSCOPE_MAX_SIZE keep rows. If calls are lost \
        as rows_full, `ncclscope explain rows_full` says what helps."),
];

/// Why calls that ran in CUDA graphs were not counted, what to do.
pub const UNSEEN: &[Word] = &[
    word("mask_changed", "processes in which somebody else changed the mask of NCCL's profiler, for example \
        with `ncclras CONTROL PROFILER_MASK none`. From then on NCCL makes calls that it does not announce, \
        so they can't be recorded. Set the mask back, or make a new communicator: each one sets the mask \
        again."),
    word("one_sided", "calls of ncclPutSignal, ncclSignal and ncclWaitSignal. NCCL tells no profiler of \
        them, so they have no row and no time: they are counted where the program calls them. What a GPU's \
        own code sends (NCCL's device API, NVSHMEM) is not even counted."),
    word("graphs_not_watched", "processes that captured calls and whose graph launches were not watched: \
        NCCLSCOPE_GRAPHS=off was set, or the CUDA driver was not found."),
    word("graphs_never_launched", "executable graphs with captured calls of which no launch was seen. The \
        program may not have launched them, or it launches them in a way that the recorder does not see: \
        through a pointer on its heap, or from a library that it loaded later."),
    word("graphs_more_in_windows", "launches of graphs with captured calls that kernel windows show, beyond \
        those that were seen. So the program also launches graphs in a way that the recorder does not see: \
        through a pointer on its heap, or from a library that it loaded later. Outside of windows, there may \
        be more of them."),
    word("graphs_more_on_others", "calls that other ranks executed on the same communicators, beyond those \
        of a rank that captured calls into graphs. Some of this rank's launches were not seen: they were \
        made through a pointer on the program's heap, or from a library that it loaded later."),
    word("graphs_found_late", "processes in which a library launches graphs that the recorder found only \
        after the graphs had been made: launches before that may be missing."),
    word("graphs_unplaced", "graphs with captured calls that were not instantiated in the recorder's sight: \
        the program gave them up, or it calls the driver through pointers that the recorder did not find. \
        If they should have run, please report which program that is."),
    word("graphs_full",
        "executable graphs whose newest launches may be missing. Launches of 65 536 graphs at a time, and of \
        fewer if /dev/shm is full, are counted where a killed process leaves them. Those of other graphs \
        reach the capture once a second and when the process ends. Or there was no memory for a graph."),
    word("graphs_uncountable", "launches of graphs of which a part runs as often as the GPU decides \
        (conditional nodes, launches by the GPU), or was replaced after they were made: \
        how often those calls ran can't be known."),
    word("graphs_lost", "launches of graphs whose contents were in damaged blocks, see Problems."),
    word("graphs_no_evidence", "processes that captured calls, of which nothing here says how often they \
        ran: an older recorder, or its live part is elsewhere (`ncclscope collect` on its host brings it)."),
];

/// The way out of a cause of loss, of a missing time or of executions that were not counted.
pub fn remedy(cause: &str) -> Option<&'static str> {
    let all = LOST.iter().chain(UNTIMED).chain(UNSEEN);
    all.into_iter().find(|w| w.name == cause).map(|w| w.text)
}

const ALGORITHMS: &[Word] = &[
    word("RING", "every rank passes pieces on to the next. Moves the fewest bytes over each link, \
        so it is the one for large sizes; its latency grows with the number of ranks. \
        Best on one node or a few."),
    word("TREE", "reduces up and broadcasts down two binary trees over the nodes, a chain within \
        each. Latency grows with the logarithm of the nodes, so it is the one for small and medium sizes \
        over many nodes; a ring moves large sizes faster on few."),
    word("COLLNET_DIRECT", "the network's switches reduce (SHARP); the GPUs of a node hand each \
        other their parts directly over NVLink. For large sizes over many nodes; \
        needs a CollNet plugin and switches that can."),
    word("COLLNET_CHAIN", "the network's switches reduce (SHARP); the GPUs of a node form a chain. \
        For nodes without all-to-all NVLink; needs a CollNet plugin and switches that can."),
    word("NVLS", "the NVSwitch reduces and multicasts (NVLink SHARP), so each GPU sends and \
        receives a piece once. Largest bandwidth within an NVLink domain with few SMs busy; needs Hopper \
        or newer with NVSwitch. busbw may exceed the link's own figure, \
        because the switch does a part of the work."),
    word("NVLS_TREE", "NVLS within each node and a tree between nodes. For medium to large sizes \
        over several nodes with NVSwitch."),
    word("PAT", "parallel aggregated trees: a logarithmic number of steps, small pieces sent \
        together. For small sizes over many nodes with one GPU each; NCCL 2.23 on."),
];

const PROTOCOLS: &[Word] = &[
    word(
        "LL",
        "low latency: each 8-byte store carries 4 bytes of data and a flag, so nothing has to be \
        synchronised, at half of the bandwidth or less. For small sizes, up to some tens of KiB.",
    ),
    word(
        "LL128",
        "low latency in 128-byte lines, 120 bytes of data and a flag: most of the bandwidth at \
        nearly LL's latency. For medium sizes over NVLink; needs 128-byte stores that stay whole, \
        which not every machine keeps.",
    ),
    word(
        "SIMPLE",
        "whole chunks with a synchronisation after each: all of the bandwidth, and some µs of \
        latency a step. For large sizes, from about a MiB on.",
    ),
];

const FUNCTIONS: &[Word] = &[
    word(
        "AllReduce",
        "every rank gets the reduction of all ranks' buffers.",
    ),
    word(
        "AllGather",
        "every rank gets all ranks' buffers, one after the other.",
    ),
    word(
        "ReduceScatter",
        "each rank gets its part of the reduction of all ranks' buffers.",
    ),
    word(
        "Broadcast",
        "every rank gets the root's buffer. NCCL 2.29 on announces it at the API only, so it \
        has no algorithm or GPU time (NCCL_ALLGATHERV_ENABLE=0 brings them back).",
    ),
    word(
        "Reduce",
        "the root gets the reduction of all ranks' buffers.",
    ),
    word(
        "AlltoAll",
        "every rank sends a part to every rank. NCCL announces it as sends and receives; \
        reports put it together.",
    ),
    word(
        "Gather",
        "the root gets all ranks' buffers. NCCL announces it as sends and receives; \
        reports put it together.",
    ),
    word(
        "Scatter",
        "each rank gets its part of the root's buffer. NCCL announces it as sends and receives; \
        reports put it together.",
    ),
    word(
        "SendRecv",
        "one send and one receive in a group, as nccl-tests' sendrecv_perf makes them.",
    ),
    word(
        "Send",
        "a send by itself. The other rank's Recv must come, or it never ends.",
    ),
    word(
        "Recv",
        "a receive by itself. The other rank's Send must come, or it never ends.",
    ),
];

/// The kinds of findings, as their own files explain them.
fn findings() -> Vec<Word> {
    let all = Kind::ALL.iter();
    all.map(|kind| word(kind.name(), about(*kind))).collect()
}

/// Heads of columns that are fields of JSON.
fn fields() -> Vec<Word> {
    static TEXTS: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
        let all = FIELDS.iter().flat_map(|(schema, rows, heads)| {
            heads.iter().map(move |(name, path)| {
                let meaning = meanings::of(schema, rows, path).unwrap_or_default();
                (*name, meaning.after_a_colon())
            })
        });
        all.collect()
    });
    TEXTS.iter().map(|(name, text)| word(name, text)).collect()
}

/// What a head that is no field of JSON means.
pub fn head(name: &str) -> Option<&'static str> {
    let mut all = DEFINITIONS.iter().chain(COLUMNS).chain(VERBS);
    all.find(|w| w.name == name).map(|w| w.text)
}

/// A name in the letters that count.
pub fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_ascii_alphanumeric());
    letters.collect::<String>().to_uppercase()
}

/// The words of the documentation, with what they mean: rows of its page.
fn of_the_page() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = include_str!("../../../docs/reference/words.md").lines();
    let rows = rows.filter_map(|line| {
        line.strip_prefix("| ")?
            .strip_suffix(" |")?
            .split_once(" | ")
    });
    rows.filter(|(name, _)| *name != "word")
        .flat_map(|(names, meaning)| names.split(", ").map(move |name| (name, meaning)))
}

/// A word's title and the paragraphs about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The word, or the words, as reports write them.
    pub title: String,
    /// A paragraph for each.
    pub paragraphs: Vec<String>,
}

/// What `word` means: an algorithm, a protocol, both (`RING_LL`, `RING/LL`), a function, a cause or a word of
/// the report. Case and punctuation don't count.
pub fn explain(word: &str) -> Option<Explanation> {
    let wanted = plain(word);
    let algorithm = |a: &Word| {
        format!(
            "{}: {} It is there for {}.",
            a.name,
            a.text,
            functions_of(a.name).join(", ")
        )
    };
    let plainly = |w: &Word| format!("{}: {}", w.name, w.text);
    let one = |w: &Word, text: String| {
        Some(Explanation {
            title: w.name.to_owned(),
            paragraphs: vec![text],
        })
    };
    if let Some(a) = ALGORITHMS.iter().find(|a| plain(a.name) == wanted) {
        return one(a, algorithm(a));
    }
    if let Some(p) = PROTOCOLS.iter().find(|p| plain(p.name) == wanted) {
        return one(p, plainly(p));
    }
    if let Some(f) = FUNCTIONS.iter().find(|f| plain(f.name) == wanted) {
        let factor = FACTORS.iter().find(|(name, _)| *name == f.name);
        let mut text = plainly(f);
        if let Some((_, factor)) = factor {
            text += &format!(" busbw is algbw × {factor}");
            text += if factor.contains('n') {
                ", n ranks."
            } else {
                "."
            };
        }
        let algorithms = algorithms_of(f.name);
        if !algorithms.is_empty() {
            text += &format!(" Algorithms: {}.", algorithms.join(", "));
        }
        return one(f, text);
    }
    let others = LOST.iter().chain(UNTIMED).chain(UNSEEN).chain(ODD);
    let findings = findings();
    let others = others.chain(DEFINITIONS).chain(&findings).chain(RULES);
    let fields = fields();
    let others = others.chain(COLUMNS).chain(&fields).chain(VERBS);
    let is_wanted = |w: &&Word| plain(w.name) == wanted;
    // `run_s` and `runs` differ by their spelling only.
    let exact = others.clone().find(|w| w.name == word);
    let other = exact.or_else(|| others.into_iter().find(is_wanted));
    // An event may have the name of a column.
    if let Some(w) = EVENTS.iter().chain(STATES).find(is_wanted) {
        let both = [Some(w), other].into_iter().flatten();
        return Some(Explanation {
            title: w.name.to_owned(),
            paragraphs: both.map(plainly).collect(),
        });
    }
    // A word with several meanings has several rows.
    let rows: Vec<String> = of_the_page()
        .filter(|(name, _)| plain(name) == wanted)
        .map(|(name, meaning)| format!("{name}: {}.", meaning.replace('`', "")))
        .collect();
    if let Some(w) = other {
        return Some(Explanation {
            title: w.name.to_owned(),
            paragraphs: [plainly(w)].into_iter().chain(rows).collect(),
        });
    }
    if let Some([name, because, change]) = setup::paths::kinds().find(|of| plain(of[0]) == wanted) {
        return Some(Explanation {
            title: name.to_owned(),
            paragraphs: vec![format!("{name}: {because}. {change}")],
        });
    }
    let mut names = of_the_page().map(|(name, _)| name);
    if let Some(name) = names.find(|name| plain(name) == wanted) {
        return Some(Explanation {
            title: name.to_owned(),
            paragraphs: rows,
        });
    }
    ALGORITHMS.iter().find_map(|a| {
        let rest = wanted.strip_prefix(&plain(a.name))?;
        let p = PROTOCOLS.iter().find(|p| plain(p.name) == rest)?;
        Some(Explanation {
            title: format!("{}/{}", a.name, p.name),
            paragraphs: vec![algorithm(a), plainly(p)],
        })
    })
}

/// All words that [`explain`] knows but pairs, by what they are.
pub fn known() -> Vec<(&'static str, Vec<&'static str>)> {
    let names = |words: &[Word]| words.iter().map(|w| w.name).collect();
    let mut known: Vec<(&str, Vec<&str>)> = vec![
        ("algorithms", names(ALGORITHMS)),
        ("protocols", names(PROTOCOLS)),
        ("functions", names(FUNCTIONS)),
        (
            "causes",
            [names(LOST), names(UNTIMED), names(UNSEEN), names(ODD)].concat(),
        ),
        ("findings", [names(&findings()), names(RULES)].concat()),
        ("events", [names(EVENTS), names(STATES)].concat()),
        (
            "reasons of `ncclscope paths`",
            setup::paths::kinds().map(|[name, ..]| name).collect(),
        ),
        ("words", names(DEFINITIONS)),
        (
            "columns",
            [names(COLUMNS), names(&fields()), names(VERBS)].concat(),
        ),
    ];
    let others: Vec<String> = known
        .iter()
        .flat_map(|(_, words)| words.iter().map(|word| plain(word)))
        .collect();
    let of_the_page = of_the_page().map(|(name, _)| name);
    let mut of_the_page: Vec<_> = of_the_page
        .filter(|name| !others.contains(&plain(name)))
        .collect();
    of_the_page.dedup();
    known.push(("words of the documentation", of_the_page));
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_understood_however_written() {
        for (written, title) in [
            ("RING_LL", "RING/LL"),
            ("ring/ll128", "RING/LL128"),
            ("NVLS_TREE_SIMPLE", "NVLS_TREE/SIMPLE"),
            ("NVLSTree", "NVLS_TREE"),
            ("CollnetDirect simple", "COLLNET_DIRECT/SIMPLE"),
            ("allreduce", "AllReduce"),
            ("stale", "stale"),
            ("Kernel window", "kernel window"),
            ("what-if replay", "what-if replay"),
            ("what if", "what-if"),
            ("load balance", "load balance"),
            ("serialisation", "serialisation"),
            ("parallel efficiency", "parallel efficiency"),
            ("coverage", "coverage"),
            ("attempt", "attempt"),
            ("overlap", "overlap"),
            ("straggler", "straggler"),
            ("phb", "PHB"),
        ] {
            assert_eq!(explain(written).expect(written).title, title);
        }
        for unknown in ["", "RING_LL64", "LL_RING", "ringing"] {
            assert_eq!(explain(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_head_has_one_meaning() {
        let fields = fields();
        let all = DEFINITIONS
            .iter()
            .chain(COLUMNS)
            .chain(&fields)
            .chain(VERBS);
        let mut names = std::collections::BTreeSet::new();
        for of in all {
            assert!(!of.text.is_empty() && names.insert(of.name), "{}", of.name);
        }
    }

    #[test]
    fn every_word_leads_to_itself() {
        for (_, words) in known() {
            for word in words {
                assert_eq!(explain(word).expect(word).title, word);
            }
        }
    }

    #[test]
    fn every_cause_has_a_way_out() {
        let causes = capture::live::CAUSES
            .into_iter()
            // These calls have rows; it is counted as odd.
            .filter(|cause| *cause != "templates_full")
            .chain(analyze::executions::CAUSES.map(|c| c.name()))
            .chain(analyze::graphs::UNSEEN)
            .chain([
                analyze::completeness::MASKED,
                analyze::completeness::ONE_SIDED,
            ])
            .chain([
                "captured",
                "damaged",
                "elsewhere",
                "running",
                "gone",
                "rotated",
                "moving",
                "in_birth",
                "unexplained",
            ]);
        for cause in causes {
            assert!(remedy(cause).is_some(), "{cause}");
        }
    }
}
