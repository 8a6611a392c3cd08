//! What the account of the steps says, in words.

use super::words::{costs, interval, rank, who};
use super::Figures;
use analyze::account::{Account, Open, Source, LEAST_HALF, MATTERS};
use analyze::findings::{Cause, Finding, InSteps, Loss, Unequal};
use analyze::spelling::{percent, plural, time, times};

/// The verdict if no rank costs so much that it matters.
pub(crate) fn nobody(account: &Account) -> String {
    let (low, high) = account.still().unwrap_or_default();
    let shares = if percent(low) == percent(high) {
        percent(high)
    } else {
        let low = percent(low);
        format!("{} to {}", low.trim_end_matches(" %"), percent(high))
    };
    if high < MATTERS {
        return format!(
            "Communication is no problem: GPUs stand still for it for {shares} of the steps' time."
        );
    }
    let first = account.answers.first();
    let one = first.and_then(|answer| Some((answer, account.ranks.get(*answer.ranks.first()?)?)));
    let costs = one.map_or(String::new(), |(answer, of)| {
        let id = of.id();
        let who = super::words::lower(&rank(&id));
        let (least, most) = answer.interval_us;
        if most < MATTERS * account.wall_us {
            format!(
                " Late ranks cost little: {who} costs most, {} at most.",
                time(most.max(0.0))
            )
        } else {
            format!(
                " {} costs most, {}: its lateness differs from step to step, or few steps show it.",
                rank(&id),
                times(least.max(0.0), most)
            )
        }
    });
    format!(
        "No rank holds this job up. Communication stops computing for {shares} of the steps' time.{costs}"
    )
}

/// The verdict if who is late is not known, but one host is later than all others.
pub(crate) fn late_host(account: &Account) -> Option<String> {
    let late = account.late_host?;
    let of = account.ranks.get(late.rank)?;
    let each = time(late.later_us / account.steps.max(1) as f64);
    let why = if late.by_work {
        format!("its host works {each} longer in each step than any other")
    } else {
        format!("its host begins each step {each} after all others")
    };
    let unknown = match account.open? {
        Open::Absent(_) => "not all ranks are in this capture",
        Open::Graphs | Open::InGraphs => "calls in CUDA graphs were not timed",
        Open::Hidden => "it was not recorded what GPUs computed beside communication",
        Open::Apart => "too few calls were timed",
    };
    Some(format!(
        "{} costs this job {} of {} at most: {why}. How long GPUs waited for it is not known, because \
         {unknown}.",
        rank(&of.id()),
        time(late.most_us),
        time(account.wall_us),
    ))
}

/// That ranks have more work than others.
pub(super) fn unequal(of: &Finding, by: &Unequal) -> String {
    let cost = of
        .loss
        .as_ref()
        .map_or("cost time".to_owned(), |loss| costs(loss, true));
    let several = by.in_turns || of.subject.ranks.len() > 1;
    let cost = if several {
        cost.replacen("costs", "cost", 1)
    } else {
        cost
    };
    if by.in_turns {
        return format!(
            "Ranks that are late in turns {cost}: another one has more work in each step."
        );
    }
    let why = match of.cause {
        Some(Cause::Host) if several => "their hosts launch late",
        Some(Cause::Host) => "its host launches late",
        _ if several => "they have more work than the others",
        _ => "it has more work than the others",
    };
    format!("{} {cost}: {why}.", who(of))
}

/// What that rests on.
pub(super) fn replayed(of: &Finding, by: &Unequal) -> String {
    let interval = of.loss.as_ref().map_or(String::new(), interval);
    let ranks = plural(by.ranks, "rank", "ranks");
    let steps = plural(by.steps, "step", "steps");
    let steps = format!("{steps} of {} in all", time(by.wall_us));
    match by.source {
        Source::Waits if by.in_turns => format!(
            "Another rank comes last from step to step in the operations of {ranks}, and later than by \
             noise. For so long the others' GPUs stood still, in {steps}. Interval: {interval}."
        ),
        Source::Sample if by.in_turns => format!(
            "Another rank comes last from step to step, and later than by noise. A step in which each of \
             {ranks} has its average work, played over the dependencies of their operations, is shorter than \
             the steps were: {steps}. The cost is an estimate. Interval: {interval}."
        ),
        _ => format!(
            "The run was played again over the dependencies of the operations of {ranks}, with equal work on \
             these ranks: {steps}. The cost is an estimate. Interval: {interval}."
        ),
    }
}

/// How much longer a host may work than another and be called as quick, as a part of a step: hosts of healthy
/// jobs differ by so much from run to run (bench/README.md).
const AS_QUICK: f64 = 0.1;

/// What says that the host or the GPU is why it is late; with a space before it.
fn why(of: &InSteps, cause: Option<Cause>) -> String {
    let step = of.wall_us / of.steps.max(1) as f64;
    let passed = of.launched_share.map(percent);
    let works = |longer: f64| match longer {
        longer if longer >= AS_QUICK * step => {
            format!("works {} longer in each step", time(longer))
        }
        _ => "works no longer in a step".to_owned(),
    };
    match (cause, passed, of.host_longer_us) {
        (Some(Cause::Host), Some(passed), Some(longer)) if longer > 0.0 => format!(
            " When its host launched, {passed} of what the others waited had passed, and it works {} longer \
             in each step than the host of who waits.",
            time(longer)
        ),
        (Some(Cause::Gpu), Some(passed), Some(longer)) if of.launched_share >= Some(0.5) => format!(
            " Its host launched when {passed} of what the others waited had passed, but it {} than the host \
             of who waits: it waits for its own GPU.",
            works(longer)
        ),
        (Some(Cause::Host | Cause::Gpu), Some(passed), _) => {
            format!(" When its host launched, {passed} of what the others waited had passed.")
        }
        _ => String::new(),
    }
}

/// What a price rests on, and the cause.
pub(super) fn basis(of: &InSteps, loss: &Loss, cause: Option<Cause>) -> String {
    let (own, others) = of.still;
    let stalls = match of.stalls {
        0 => String::new(),
        n => format!(
            " {} cost {} of that.",
            plural(n, "stalled step", "stalled steps"),
            time(of.stalls_us)
        ),
    };
    // Less is within the error of any price.
    let slowing = if of.slowing_us >= LEAST_HALF * loss.wall_us && of.slowing_us > 0.0 {
        format!(
            " About {} of the cost is what their kernels lose beside calls that wait for it.",
            time(of.slowing_us)
        )
    } else {
        String::new()
    };
    let mean = time(of.wall_us / of.steps.max(1) as f64);
    let steps = plural(of.steps, "step", "steps");
    let hosts = of.hosts_need_us.map_or(String::new(), |step| {
        format!(
            " Without it, a step would still take about {}: hosts need that long.",
            time(step)
        )
    });
    let cost = format!(
        "Interval of the cost: {}.{hosts}{slowing}{stalls}",
        interval(loss)
    );
    if percent(of.timed) == percent(0.0) {
        return format!(
            "By the hosts' times of {steps} of {mean}. How long GPUs stood still in communication is not \
             known, because a rank has no GPU time of any call. {cost}"
        );
    }
    format!(
        "In {steps} of {mean}, the others' GPUs stood still in communication for {} of the time, and this \
         rank's for {}. That is known of {} of the calls or more.{} {cost}",
        percent(others),
        percent(own),
        percent(of.timed),
        why(of, cause),
    )
}

/// What it rests on, in numbers.
pub(super) fn figures(by: &Unequal) -> Figures {
    vec![
        ("ranks", by.ranks as f64),
        ("steps", by.steps as f64),
        ("steps_us", by.wall_us),
        ("in_turns", f64::from(u8::from(by.in_turns))),
    ]
}

/// What the account of the steps says about a rank, in numbers.
pub(super) fn in_steps(of: &InSteps) -> Figures {
    let mut all = vec![
        ("steps", of.steps as f64),
        ("steps_us", of.wall_us),
        ("stalls", of.stalls as f64),
        ("stalls_us", of.stalls_us),
        ("slowing_us", of.slowing_us),
        ("own_still_share", of.still.0),
        ("others_still_share", of.still.1),
        ("timed_share", of.timed),
    ];
    let why = [
        ("launched_share", of.launched_share),
        ("host_longer_us", of.host_longer_us),
        ("hosts_need_us", of.hosts_need_us),
    ];
    all.extend(
        why.into_iter()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    all
}
