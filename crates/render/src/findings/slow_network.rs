//! That a link of the network is slower than the others.

use super::words::{costs, estimate, interval, rank_on};
use super::Figures;
use analyze::findings::{Finding, SlowLink, Way};
use analyze::spelling::{three, time};

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "a link of the network whose data takes half as long again as on the other links of its communicator, \
    or longer, and costs the run 1 % or more; or a communicator whose transfers take so much longer in a \
    part of the run, or than those of others, and cost 5 % or more.";

fn sends(of: &Finding) -> bool {
    of.subject.way != Some(Way::RecvFlush)
}

/// The communicator whose transfers are slow, if no state of the network tells which way.
fn transfers(of: &Finding) -> Option<String> {
    let communicator = of.subject.communicator.as_ref();
    let communicator = communicator.filter(|_| of.subject.way.is_none())?;
    let name = communicator.name.as_ref().unwrap_or(&communicator.id);
    Some(format!("The network of communicator {name}"))
}

/// When it is slow.
fn when(of: &Finding) -> String {
    of.when_us.map_or(String::new(), |(from, to)| {
        format!(" from {} to {} of the run", time(from), time(to))
    })
}

/// The link.
pub(super) fn subject(of: &Finding) -> String {
    if let Some(transfers) = transfers(of) {
        return transfers;
    }
    let this = of.subject.rank().map(|rank| match rank.process.rank {
        Some(number) => format!("rank {number} on {}", rank.process.host),
        None => format!(
            "pid {} on {}",
            tables::pid::shown(rank.process.pid),
            rank.process.host
        ),
    });
    let this = this.unwrap_or_default();
    let peer = of.subject.peer.as_ref();
    let peer = peer.map_or("other hosts".to_owned(), |peer| {
        rank_on(peer.rank, &peer.host)
    });
    if sends(of) {
        format!("The network from {this} to {peer}")
    } else {
        format!("What {this} receives from {peer}")
    }
}

/// How much slower it is.
fn why(of: &Finding, link: &SlowLink) -> String {
    let slower = match link.held_us / link.others_us.max(f64::MIN_POSITIVE) {
        ratio if ratio < 1000.0 => format!("{} times", three(ratio)),
        _ => "over 1000 times".to_owned(),
    };
    if transfers(of).is_some() {
        let than = match of.when_us {
            Some(_) => "at other times",
            None => "on other communicators",
        };
        return format!("its transfers take {slower} as long as {than}{}", when(of));
    }
    if sends(of) {
        format!("its data takes {slower} as long as on the other links")
    } else {
        format!("it is flushed to the GPU in {slower} the time of the other links")
    }
}

/// The claim.
pub(super) fn sentence(of: &Finding, link: &SlowLink) -> String {
    let costs = of.loss.as_ref().map(|loss| costs(loss, true));
    let costs = costs.unwrap_or("is slow".to_owned());
    format!("{} {costs}: {}.", subject(of), why(of, link))
}

/// What is wrong.
pub(super) fn cause(of: &Finding, link: &SlowLink) -> String {
    format!("{} is slow: {}", subject(of), why(of, link))
}

/// What it rests on.
pub(super) fn evidence(of: &Finding, link: &SlowLink) -> String {
    if transfers(of).is_some() {
        let slow = (
            link.held_us / link.operations.max(1) as f64,
            link.others_us / link.operations.max(1) as f64,
        );
        return format!(
            "In {} operations that were timed on all ranks{}, a transfer takes {} on average, and {} \
             elsewhere: that is the time behind the arrival of the last rank. Only what keeps all ranks from \
             computing counts. Interval of the cost: {}.",
            link.operations,
            when(of),
            time(slow.0),
            time(slow.1),
            of.loss.as_ref().map_or(String::new(), interval),
        );
    }
    let mean = |us: f64| time(us / link.operations.max(1) as f64);
    let communicator = of.subject.communicator.as_ref();
    let way = if sends(of) { "sent" } else { "received" };
    let cost = of.loss.as_ref().map_or(String::new(), |loss| {
        format!(" {} 95 % interval: {}.", estimate(loss), interval(loss))
    });
    format!(
        "In {} operations of communicator {}, its data was in {} for {} on average, and for {} at the \
         median of the other ranks that {way} as many bytes in the same operation. Waiting for a GPU or for \
         the other side is not in that. A transfer takes {}.{cost}",
        link.operations,
        communicator.map_or("that is not known", |of| of.id.as_str()),
        of.subject.way.map_or("the network", Way::name),
        mean(link.held_us),
        mean(link.others_us),
        mean(link.transfer_us),
    )
}

/// What it rests on, in numbers.
pub(super) fn figures(of: &SlowLink) -> Figures {
    vec![
        ("operations", of.operations as f64),
        ("transfer_us", of.transfer_us),
        ("held_us", of.held_us),
        ("others_us", of.others_us),
    ]
}
