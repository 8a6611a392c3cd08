//! What to change by a rule that is no finding, and what that rests on, in words.

use analyze::recommendations::{
    Action, FewP2p, Grounds, LlChosen, OverriddenBy, Transport, Useless,
};
use analyze::spelling::{percent, ranges, size, three, time};

/// What to change.
pub(crate) fn action(of: &Action) -> String {
    match of {
        Action::AvoidLl {
            function,
            bytes,
            chosen,
        } => without_ll(&format!("{function} at {}", size(*bytes)), chosen),
        Action::JoinSmallCalls { function } => format!(
            "Join small {function} calls into buckets of up to 25 MB: a larger DDP bucket, FSDP units of \
             more layers, or one flat buffer. Only calls that do not wait for each other can be joined."
        ),
        Action::Overlap => "Overlap communication with computing: start it earlier (smaller DDP buckets, \
            FSDP prefetch), on a stream of its own, and wait for it later. Of a decode step, which has \
            nothing to overlap with, make it shorter instead."
            .to_owned(),
        Action::RegisterBuffers => "Register the buffers of large collectives: allocate them with \
            ncclMemAlloc and call ncclCommRegister (PyTorch: a MemPool with the backend's allocator, and \
            register_mem_pool), or put the calls into CUDA graphs. NVLS then reads and writes them without \
            a copy."
            .to_owned(),
        Action::LeaveOutP2p => "If these sends and receives are not meant, leave them out, or use a \
            collective that the job makes anyway. `ncclscope run --stacks` records which line makes them."
            .to_owned(),
        Action::ShortenPhase { phase } => format!(
            "Make the phase `{phase}` of NCCL's init shorter: `ncclscope startup` says what helps, and has \
             each rank."
        ),
        Action::AllowTransport {
            variable,
            transport,
        } => {
            let why = match transport {
                Transport::PeerToPeer => {
                    "GPUs of a node reach each other directly, over NVLink or PCIe"
                }
                Transport::SharedMemory => {
                    "ranks of a node that have no direct way use shared memory, not the network"
                }
                Transport::Rdma => "nodes reach each other over InfiniBand or RoCE, not over TCP",
            };
            format!("Unset {variable}: without it, {why}.")
        }
        Action::AllowRegistration => "Unset NCCL_GRAPH_REGISTER: without it, NCCL registers the buffers of \
            calls in CUDA graphs, and where the hardware can, data goes from buffer to buffer without a copy."
            .to_owned(),
        Action::LessDebugOutput => "Set NCCL_DEBUG=WARN: more output is for the search of an error, and is \
            written by the threads that make the calls."
            .to_owned(),
        Action::DropSetting {
            variable,
            value,
            functions,
            by,
        } => {
            let functions = functions.join(", ");
            match by {
                OverriddenBy::Property => format!(
                    "Unset {variable}={value}, or set it for single functions: NCCL used something else for \
                     {functions}."
                ),
                OverriddenBy::Tuner => format!(
                    "Run without the tuner plugin to see if it overrides {variable}={value}: NCCL used \
                     something else for {functions}."
                ),
                OverriddenBy::Unknown => format!(
                    "Don't rely on {variable}={value}: NCCL used something else for {functions}."
                ),
            }
        }
        Action::UnsetUseless(Useless::MinChannels { variable, most, .. }) => format!(
            "Unset {variable}, or set it to {most} at most: NCCL used fewer channels than it asks for."
        ),
        Action::UnsetUseless(Useless::BufferSize { .. }) => {
            "Unset NCCL_BUFFSIZE: it is the buffer of Simple, a protocol that no call used.".to_owned()
        }
        Action::UnsetUseless(Useless::GdrLevel { .. }) => {
            "Unset NCCL_NET_GDR_LEVEL here: it is of the way between a GPU and a NIC.".to_owned()
        }
    }
}

/// How `calls` do without LL: it depends on who chose it.
fn without_ll(calls: &str, chosen: &LlChosen) -> String {
    match chosen {
        LlChosen::BySetting { value } => format!(
            "Take LL out of NCCL_PROTO={value}, so that NCCL chooses the protocol of {calls}."
        ),
        LlChosen::AsAllowed { value } => format!(
            "NCCL_PROTO={value} leaves LL to NCCL, which chose it for {calls}. Leave LL out, too, and \
             compare."
        ),
        LlChosen::ByTuner { variable, value } => format!(
            "Look at the tuner ({variable}={value}): it may have chosen LL for {calls}. Run without it to \
             compare."
        ),
        LlChosen::ByNccl { command } => format!(
            "NCCL chose LL for {calls} by itself. Measure the others: `ncclscope tune -- {}`.",
            command.as_deref().unwrap_or("…")
        ),
    }
}

/// What a rule of its own rests on.
pub(crate) fn grounds(of: &Grounds) -> String {
    match of {
        Grounds::UsedLl {
            calls,
            bytes,
            busbw_gb_per_s,
        } => {
            let than = busbw_gb_per_s.map_or(String::new(), |(here, best)| {
                format!(
                    " It reached {} GB/s, and another protocol {} GB/s.",
                    three(here),
                    three(best)
                )
            });
            format!(
                "{calls} calls of {} used LL, which sends a flag with every four bytes of data, so half of \
                 what it moves is flags.{than}",
                size(*bytes)
            )
        }
        Grounds::SmallCalls {
            function,
            calls,
            in_steps,
            bytes,
            latency_us,
            residual_p50_share,
        } => format!(
            "{} {function} calls of {} on average in {}. By the model of these calls, {} of each is latency \
             (median residual {}).",
            three(*calls),
            size(*bytes),
            if *in_steps { "each step" } else { "the run" },
            time(*latency_us),
            percent(*residual_p50_share)
        ),
        Grounds::Exposed {
            least_share,
            by_windows,
            knows_waiting,
        } => {
            let (seen, beside) = if *by_windows {
                (
                    "In kernel windows, GPUs communicate",
                    " while nothing computes",
                )
            } else {
                (
                    "By stream waits, compute streams stand still for communication",
                    "",
                )
            };
            let waiting = if *knows_waiting {
                "waiting for late ranks left out"
            } else {
                "and how much of that is waiting for late ranks is not known"
            };
            format!(
                "{seen} for {} of the time or more{beside}, {waiting}.",
                percent(*least_share)
            )
        }
        Grounds::Unregistered {
            calls,
            function,
            bytes,
            most,
        } => format!(
            "NVLS can run here, and NCCL said of {calls} calls of 1 MiB and more that their buffers were not \
             registered: {most} of them were {function} of {}.",
            size(*bytes)
        ),
        Grounds::FewP2p(of) => few_p2p(of),
        Grounds::Phase {
            us,
            rank,
            nranks,
            init_us,
        } => format!(
            "It took {} on rank {rank}, on the critical path of the init of {nranks} ranks, which took {}.",
            time(*us),
            time(*init_us),
        ),
        Grounds::TurnedOff {
            variable,
            value,
            transport,
        } => {
            let which = if transport.is_in_a_node() {
                "with several ranks on a node"
            } else {
                "over several nodes"
            };
            format!("{variable}={value} was set, and this job has communicators {which}.")
        }
        Grounds::UnregisteredGraphs => {
            "NCCL_GRAPH_REGISTER=0 was set, and this job has CUDA graphs with NCCL calls.".to_owned()
        }
        Grounds::DebugLevel(level) => format!("NCCL_DEBUG={level} was set."),
        Grounds::Overridden(rows) => {
            let summaries: Vec<String> = rows.iter().map(crate::settings::summary).collect();
            summaries.join(" ")
        }
        Grounds::Useless(useless) => was_set(useless),
    }
}

fn few_p2p(of: &FewP2p) -> String {
    let by = match &of.ranks {
        Some(numbers) => format!(" by ranks {}", ranges(numbers.clone())),
        None => String::new(),
    };
    format!(
        "There are {} sends and receives{by} in a job of {} collective calls. The first on a pair of ranks \
         connects it, which takes long.",
        of.p2p, of.collective
    )
}

fn was_set(useless: &Useless) -> String {
    let variable = useless.variable();
    match useless {
        Useless::MinChannels { asked, most, .. } => {
            format!("{variable}={asked} was set, and no call used more than {most} channels.")
        }
        Useless::BufferSize { value } => format!(
            "{variable}={value} was set, and every call with a known protocol used another."
        ),
        Useless::GdrLevel { value } => format!(
            "{variable}={value} was set, all communicators are in one node, and no call used the network."
        ),
    }
}
