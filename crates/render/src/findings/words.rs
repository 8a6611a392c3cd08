//! Parts of sentences that several kinds of findings have in common.

use super::busy_gpu;
use analyze::arrivals::RankArrivals;
use analyze::findings::{Advice, Evidence, Finding, Loss, RankId};
use analyze::spelling::{time, times};

/// What waits and arrivals rest on.
pub(crate) const BASIS: &str =
    "shortest GPU time of each operation, as if it ended on all ranks at once";

/// Ranks of a group that are named one by one.
const MOST_NAMED: usize = 8;

/// A rank as sentences begin with it.
pub(super) fn rank(of: &RankId) -> String {
    match (of.process.rank, of.device) {
        (Some(number), None) => format!("Rank {number}"),
        (Some(number), Some(device)) => {
            format!("Rank {number} (GPU {device} on {})", of.process.host)
        }
        (None, _) => format!(
            "Pid {} on {}",
            tables::pid::shown(of.process.pid),
            of.process.host
        ),
    }
}

/// The rank of a row, as sentences begin with it.
pub(super) fn rank_of(row: &RankArrivals) -> String {
    rank(&row.id())
}

/// The rank that is to blame, as sentences begin with it.
pub(super) fn who(of: &Finding) -> String {
    let number = |id: &RankId| {
        id.process
            .rank
            .map_or("?".to_owned(), |rank| rank.to_string())
    };
    match &of.subject.ranks[..] {
        [] => "A rank".to_owned(),
        [one] => rank(one),
        [first, .., last] if of.subject.ranks.len() > MOST_NAMED => {
            let n = of.subject.ranks.len();
            format!(
                "A group of {n} ranks ({} to {})",
                number(first),
                number(last)
            )
        }
        several => {
            let numbers: Vec<String> = several.iter().map(number).collect();
            format!("Ranks {}", numbers.join(", "))
        }
    }
}

/// A sentence for the middle of another one.
pub(super) fn lower(sentence: &str) -> String {
    let mut sentence = sentence.to_owned();
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    sentence
}

/// In how many operations a rank came last.
pub(super) fn arrived_last(last: u64, of: u64) -> String {
    if last == of {
        format!("arrived last in all {of} operations")
    } else {
        format!("arrived last in {last} of {of} operations")
    }
}

/// What the job loses, of how much. An estimate that may be more than twice as much is no figure: both ends
/// are said.
pub(super) fn costs(loss: &Loss, is_estimate: bool) -> String {
    let of = loss
        .run_us
        .map_or(String::new(), |wall| format!(" of {}", time(wall)));
    let us = loss.wall_us;
    if loss.untimed_in_graphs.is_some() {
        return format!("costs this job {} or more{of}", time(us));
    }
    match loss.interval_us {
        Some((low, high)) if is_estimate && high > 2.0 * us => {
            format!("costs this job {}{of}", times(low, high))
        }
        _ if is_estimate => format!("costs this job about {}{of}", time(us)),
        _ => format!("costs this job {}{of}", time(us)),
    }
}

/// What bounds an estimate.
pub(super) fn estimate(loss: &Loss) -> String {
    let most = loss
        .at_most_us
        .map_or(String::new(), |us| format!(", and {} at most", time(us)));
    format!("The cost is an estimate{most}: too few compute kernels were recorded to measure it.")
}

/// The interval of a loss.
pub(super) fn interval(loss: &Loss) -> String {
    let known = loss.interval_us;
    known.map_or(String::new(), |(low, high)| times(low, high))
}

/// `rank 3 on n1`, or a rank without a number.
pub(super) fn rank_on(rank: Option<u32>, host: &str) -> String {
    match rank {
        Some(rank) => format!("rank {rank} on {host}"),
        None => format!("a rank on {host}"),
    }
}

/// What to do about a finding.
pub(super) fn advice(of: &Finding) -> String {
    let by_account = match &of.evidence {
        Evidence::Late(late) => late.steps.is_some(),
        Evidence::Stalls(stalls) => stalls.steps.is_some(),
        _ => false,
    };
    let did = match &of.evidence {
        Evidence::Stalls(stalls) if stalls.at_start => "while the job started",
        _ => "then",
    };
    let text = match of.advice {
        Advice::SeeHowItEnded => return super::dead_rank::advice(of),
        Advice::SeeWhatItDid => return super::standstill::advice(of),
        Advice::ProfileHost => {
            "Look at what its process does before the calls: data loading, Python, a busy or throttled CPU \
             (py-spy top)."
        }
        Advice::ProfileRank => {
            "Look at what this rank does before its calls: data loading, Python, other GPU work."
        }
        Advice::FindKernels => {
            let pid = of.subject.rank().map_or("?".to_owned(), |id| tables::pid::shown(id.process.pid));
            return busy_gpu::find_kernels(of.busy_gpu(), &pid);
        }
        Advice::CheckGpu => {
            let device = of.subject.rank().and_then(|id| id.device);
            return busy_gpu::check_gpu(of.busy_gpu(), device);
        }
        Advice::CompareKernels => {
            "Look for kernels that its process runs more often or for longer than the others (report \
             --kernels). All ranks share this GPU, so its clocks are not the reason."
        }
        Advice::CompareGpu if by_account => {
            "Compare its GPU with another's: extra kernels (report --kernels), clocks, temperature \
             (nvidia-smi -q -d PERFORMANCE)."
        }
        Advice::CompareGpu => {
            "Compare its GPU with another's: extra kernels, clocks, temperature (nvidia-smi -q -d \
             PERFORMANCE)."
        }
        Advice::EqualWork => {
            "Give all ranks as much work in each step: sequences of equal length, or micro-batches that are \
             balanced by their work."
        }
        Advice::SeeStallOnHost => {
            return format!(
                "Look at what its process did {did}: loading data, compiling, a checkpoint, evaluation, \
                 garbage collection."
            )
        }
        Advice::SeeStallOnGpu => {
            return format!("Look at what its GPU ran {did} (ncclscope export --to perfetto).")
        }
        Advice::CheckNetwork => {
            "Look at the two hosts' NICs and what is between them: speed and errors (ibstat, perfquery, \
             ethtool -S), cable, congestion; and whether the receiving host's CPUs are free for NCCL's \
             proxy thread."
        }
        Advice::CheckGpuPath => {
            "Look at the way from this host's NIC to its GPU: nvidia-smi topo -m, the PCIe links' width and \
             speed (lspci -vv), ACS."
        }
        Advice::RaiseBandwidth => {
            "Check what may be the reason, one by one: unset variables, `ncclscope tune -- COMMAND` for \
             protocols and channels, `ncclscope paths` for the way between ranks. Measure again with \
             `--ceiling`."
        }
        Advice::SameSettings => {
            "Make the same calls on all ranks, with the same NCCL and the same settings of it."
        }
        Advice::SameOrder => {
            "Make the same calls in the same order on all ranks: what these do is not defined, and they may \
             hang."
        }
        Advice::CheckClocks => {
            "Look at what sets the clocks of these hosts (chronyc tracking, journalctl -u chronyd, ptp4l), \
             and when: a step, or a correction that is faster than that."
        }
        Advice::ShareBuffers => {
            "Make fewer communicators, or split them with `splitShare`, which shares their buffers. \
             NCCL_MAX_NCHANNELS and NCCL_BUFFSIZE make each smaller, and may cost bandwidth. `ncclscope \
             memory` says which communicator takes what."
        }
        Advice::CheckNvlink => {
            "Ask for the state of the links (`nvidia-smi nvlink -s`, `dmesg` for Xid 74), and take the node \
             out until they are up."
        }
        Advice::UseNearCards => {
            "Give the job the cards that are beside its GPUs (NCCL_IB_HCA, or the devices of the container), \
             and see that a virtual machine shows the real PCI tree."
        }
        Advice::BindCpus => {
            "Bind each rank to the CPUs beside its GPU: `srun --cpu-bind`, `mpirun --bind-to numa`, \
             `numactl`, or `torchrun --numa-binding=node`."
        }
    };
    text.to_owned()
}
