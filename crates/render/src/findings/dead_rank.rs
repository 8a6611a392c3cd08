//! That a rank died or left while others went on.

use super::Figures;
use crate::behind;
use crate::hang::UNSEEN_END;
use analyze::deaths::Death;
use analyze::findings::{Evidence, Finding};
use analyze::spelling::{ranges, size, time};

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "a rank whose recording has no end and stops before the others': it died, and they wait for it.";

/// Who died, when and after which call, and who is left.
pub fn died(of: &Death) -> String {
    let who = match of.process.rank {
        Some(rank) => format!(
            "Rank {rank} (pid {} on {})",
            of.process.pid, of.process.host
        ),
        None => format!("Pid {} on {}", of.process.pid, of.process.host),
    };
    let when = &of.seen;
    let last = match (&of.last_function, of.last_bytes) {
        (Some(function), Some(bytes)) => format!(" ({function} of {})", size(bytes)),
        (Some(function), None) => format!(" ({function})"),
        (None, _) => String::new(),
    };
    let left = ranges(of.left.iter().copied());
    let left = match (&of.left[..], of.process.rank) {
        ([_], Some(_)) => format!("rank {left} waits"),
        (_, Some(_)) => format!("ranks {left} wait"),
        (_, None) => format!("pids {left} wait"),
    };
    let made = match of.calls {
        0 => format!("before its first call on communicator {}", of.communicator),
        calls => format!(
            "after call {calls}{last} on communicator {}",
            of.communicator
        ),
    };
    let next = of.calls.saturating_add(1);
    let died = if of.exited { "exited" } else { "died" };
    let way = of.exit.filter(|exit| exit.how.is_some());
    let way = way.map_or(String::new(), |exit| format!(" ({exit})"));
    format!("{who} {died}{way} at {when}, {made}; {left} for it in call {next}.")
}

/// What it rests on; so many more died.
pub(super) fn evidence(death: &Death, more: usize) -> String {
    let also = match more {
        0 => String::new(),
        more => format!("; {more} more ranks died"),
    };
    let inside = death.inside.as_ref();
    let inside = inside.map_or(String::new(), |of| format!("; {}", behind::inside(of)));
    let unseen = death.has_unseen_end.then(|| format!(" {UNSEEN_END}"));
    let unseen = unseen.unwrap_or_default();
    format!(
        "Its recording {} {} before that of the others{also}{inside}.{unseen}",
        if death.exited {
            "ends"
        } else {
            "has no end, and stops"
        },
        time(death.before_others_ns as f64 / 1e3)
    )
}

/// What to do.
pub(super) fn advice(of: &Finding) -> String {
    let (pid, host) = of.subject.rank().map_or((0, ""), |rank| {
        (rank.process.pid, rank.process.host.as_str())
    });
    if matches!(&of.evidence, Evidence::Death { death, .. } if death.inside.is_some()) {
        return format!(
            "Try the job without NCCLSCOPE_CHAIN: pid {pid} on {host} was inside the other profiler plugin. \
             Its own log, and `dmesg` there, may say more."
        );
    }
    if matches!(&of.evidence, Evidence::Death { death, .. } if death.out_of_memory) {
        return format!(
            "Have pid {pid} on {host} need less memory of the host (fewer workers that load data, smaller \
             buffers), or ask for more (Slurm: --mem). `dmesg` there names what took it."
        );
    }
    if matches!(&of.evidence, Evidence::Death { death, .. } if death.exited) {
        return format!(
            "Look at the end of the log of pid {pid} on {host}: an exception, an exit, or less work than the \
             others had. `ncclscope hang` shows how far each rank came."
        );
    }
    format!(
        "Look at how pid {pid} on {host} ended: in its own log, and in `dmesg` there (out of memory, Xid). \
         `ncclscope hang` shows how far each rank came."
    )
}

/// What it rests on, in numbers.
pub(super) fn figures(death: &Death, more: usize) -> Figures {
    vec![
        ("before_others_us", death.before_others_ns as f64 / 1e3),
        ("calls", death.calls as f64),
        ("most_calls", death.most_calls as f64),
        ("more", more as f64),
    ]
}
