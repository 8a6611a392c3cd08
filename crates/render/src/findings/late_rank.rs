//! That the others wait for a rank, as a habit.

use super::words::{arrived_last, costs, estimate, interval, rank_of, who, BASIS};
use super::{account, busy_gpu, Figures};
use analyze::arrivals::{inherited as all_inherited, Arrivals, InheritedFrom};
use analyze::findings::{Cause, ClockProof, Finding, Late, LateByArrivals, Loss};
use analyze::spelling::{capital, percent, time, times};
use analyze::Report;

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "a rank that the others wait for: it comes late more than chance gives, and the run loses 1 % or more \
    by it. Its host launches late, or its GPU is busy with other work.";

/// Communicators that are named of a rank.
const MOST_NAMED: usize = 2;

/// The claim.
pub(super) fn sentence(of: &Finding, late: &Late) -> String {
    let Some(loss) = &of.loss else {
        return format!("{} is late: {}.", who(of), why(of, late));
    };
    let cost = costs(loss, true);
    format!("{} {cost}: {}.", who(of), why(of, late))
}

/// What is wrong.
pub(super) fn cause(of: &Finding, late: &Late) -> String {
    format!("{} is late: {}", who(of), why(of, late))
}

/// Which operations a rank is late to, of those that it is in.
fn late_to(late: &Late) -> String {
    let of = late.operations as f64;
    let one = if late.in_sends {
        "operation"
    } else {
        "collective"
    };
    match late.last as f64 {
        last if last >= 0.95 * of => format!("every {one}"),
        last if last >= 0.5 * of => format!("most {one}s"),
        last if last >= 0.2 * of => format!("many {one}s"),
        _ => format!("some {one}s"),
    }
}

fn why(of: &Finding, late: &Late) -> String {
    let to = late_to(late);
    match of.cause {
        Some(Cause::Host) => format!("its host launches {to} late"),
        Some(Cause::Gpu) => late.busy_gpu.as_ref().map_or_else(
            || format!("its GPU is busy with other work before {to}"),
            busy_gpu::why,
        ),
        _ => format!("it comes late to {to}, and why is not known"),
    }
}

/// What it rests on.
pub(super) fn evidence(of: &Finding, late: &Late) -> String {
    let Some(loss) = &of.loss else {
        return format!("It {}.", arrived_last(late.last, late.operations));
    };
    let both = with_other(late)
        + &late
            .busy_gpu
            .as_ref()
            .map_or(String::new(), busy_gpu::evidence);
    if let Some(arrivals) = &late.arrivals {
        return by_arrivals(late, arrivals, loss) + &both;
    }
    let arrived = arrived_last(late.last, late.of_all);
    match &late.steps {
        Some(steps) => format!(
            "It {arrived}. {}{}{both}",
            account::basis(steps, loss, of.cause),
            proved(&late.clocks)
        ),
        None => format!("It {arrived}.{both}"),
    }
}

fn by_arrivals(late: &Late, by: &LateByArrivals, loss: &Loss) -> String {
    let more = loss.untimed_in_graphs.map_or(String::new(), |calls| {
        format!(
            " That is of calls with times: {calls} calls in CUDA graphs have none, and what it costs there \
             comes on top."
        )
    });
    let inherited = if by.inherited.is_empty() {
        String::new()
    } else {
        format!(
            " Beside that it was late because of other operations: {}.",
            inherited_from(&by.inherited)
        )
    };
    format!(
        "It {} and held them up for {}; other work may hide a part of that. The others waited {} for it, \
         summed over ranks. {} 95 % interval: {}. Basis: {}.{more}{inherited}",
        arrived_last(late.last, late.operations),
        time(by.held_up_us),
        time(by.waited_rank_us),
        estimate(loss),
        interval(loss),
        basis(by, &late.clocks),
    )
}

/// What clocks say beside the account; nothing if no operation was over hosts.
fn proved(by: &ClockProof) -> String {
    match by.operations {
        0 => String::new(),
        _ => {
            format!(" {}.", capital(by_clocks(by)))
        }
    }
}

/// What it rests on that this rank arrived last.
fn basis(of: &LateByArrivals, clocks: &ClockProof) -> String {
    let sample = of.sampled.map_or(String::new(), |share| {
        format!("; {} of all operations were timed", percent(share))
    });
    let proved = clocks.proved.unwrap_or(0);
    let by = match clocks.operations {
        0 => BASIS.to_owned(),
        of if 2 * proved >= of && proved > 0 => {
            format!("{}; how much that costs: {BASIS}", by_clocks(clocks))
        }
        _ => format!("{BASIS}; {}", by_clocks(clocks)),
    };
    by + &sample
}

/// What clocks prove of operations over hosts.
fn by_clocks(by: &ClockProof) -> String {
    let of = by.operations;
    match by.proved {
        Some(proved) if 2 * proved >= of => format!(
            "the hosts' clocks prove that it came last in {proved} of {of} operations over hosts, by {} or \
             more in all",
            time(by.late_us)
        ),
        Some(proved) => format!(
            "the hosts' clocks prove it in {proved} of {of} operations over hosts only"
        ),
        None => "nothing bounds the offset of the hosts' clocks".to_owned(),
    }
}

/// What a rank costs together with another one that is late too.
fn with_other(late: &Late) -> String {
    late.with_other.map_or(String::new(), |(other, both)| {
        let other = other.map_or("another rank".to_owned(), |rank| format!("rank {rank}"));
        format!(
            " This is with {other} as late as it is: it is late, too. With both in time the job would take \
             about {} less.",
            time(both)
        )
    })
}

/// Where lateness came from, largest first.
fn inherited_from(from: &[InheritedFrom]) -> String {
    let named = from.iter().take(MOST_NAMED).map(one_source);
    let named: Vec<String> = named.collect();
    let more = match from.len() - named.len() {
        0 => String::new(),
        more => format!("; the rest from {more} more"),
    };
    named.join("; ") + &more
}

/// From where, and how much of it was waiting for whom.
fn one_source(of: &InheritedFrom) -> String {
    let label = match (&of.communicator, &of.name) {
        (Some(id), Some(name)) => format!("communicator {id} ({name})"),
        (Some(id), None) => format!("communicator {id}"),
        (None, _) => "a communicator that is not known".to_owned(),
    };
    let of_it = 100.0 * of.waiting_rank_us / of.cost_rank_us;
    let there = match of.waited_for {
        Some(rank) => format!("where it waited for rank {rank}"),
        None => "where it waited for others".to_owned(),
    };
    let doing = if of.waiting_rank_us >= 0.5 * of.cost_rank_us {
        format!("{there} ({of_it:.0} % of that)")
    } else {
        match of.network_rank_us {
            Some(us) if us >= 0.5 * of.cost_rank_us => format!(
                "where it moved bytes ({:.0} % of that in the network's hands)",
                100.0 * us / of.cost_rank_us
            ),
            _ => "where it moved bytes".to_owned(),
        }
    };
    format!("{} from {label}, {doing}", time(of.cost_rank_us))
}

/// Ranks whose lateness is mostly another's, where that matters: a sentence each.
pub(crate) fn inherited(arrivals: &Arrivals) -> Vec<String> {
    let ranks = all_inherited(arrivals).into_iter();
    ranks
        .map(|rank| {
            format!(
                "{} was late mostly because of other operations: of {} of waiting for it, {}.",
                rank_of(rank),
                time(rank.cost_rank_us),
                inherited_from(&rank.inherited_from),
            )
        })
        .collect()
}

/// Ranks that are late and cost the run nothing that can be told from zero: a sentence each.
pub(crate) fn hidden(report: &Report) -> Vec<String> {
    let Some(arrivals) = &report.arrivals else {
        return Vec::new();
    };
    let wall_us = report.ranks.wall_us.map(|wall| wall.max);
    let ranks = analyze::findings::hidden(arrivals, wall_us);
    let say = |rank: &analyze::arrivals::RankArrivals| {
        let interval = rank.loss_interval_us.map_or(String::new(), |(low, high)| {
            format!(" (95 % interval {})", times(low, high))
        });
        format!(
            "{} {} and held them up for {}. Other work hides that: on time, it would save the job \
             {}{interval}.",
            rank_of(rank),
            arrived_last(rank.last, rank.operations),
            time(rank.saving_wall_us),
            time(rank.loss_wall_us.unwrap_or(0.0)),
        )
    };
    ranks.into_iter().map(say).collect()
}

/// What it rests on, in numbers.
pub(super) fn figures(late: &Late) -> Figures {
    let mut all = vec![
        ("last", late.last as f64),
        ("operations", late.operations as f64),
    ];
    all.extend(late.with_other.map(|(_, us)| ("with_other_us", us)));
    all.extend(late.steps.iter().flat_map(account::in_steps));
    if let Some(proved) = late.clocks.proved {
        all.push(("last_over_hosts", late.clocks.operations as f64));
        all.push(("last_proved", proved as f64));
    }
    if let Some(by) = &late.arrivals {
        all.push(("held_up_us", by.held_up_us));
        all.push(("waited_rank_us", by.waited_rank_us));
        all.extend(by.sampled.map(|share| ("sampled_share", share)));
    }
    if let Some(of) = &late.busy_gpu {
        all.push(("more_kernels_share", of.share.0));
        all.push(("longer_kernels_share", of.share.1));
        if let Some(kernel) = &of.kernel {
            all.push(("kernel_per_s", kernel.per_s.0));
            all.push(("kernel_per_s_on_others", kernel.per_s.1));
        }
        all.extend(of.pace.map(|pace| ("kernels_take_times", pace)));
        if let Some((own, others)) = of.sm_mhz {
            all.push(("sm_mhz", own));
            all.push(("sm_mhz_of_others", others));
        }
    }
    all
}
