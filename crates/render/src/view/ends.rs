//! Where the recording of a process ended before the run did, and until when open calls are drawn.
//!
//! Rule: a process without an end is either here to the end of the run, or ended its recording itself.

use crate::timeline::Timeline;
use analyze::deaths::Death;
use analyze::Report;
use tables::Process;

/// A recording that ends earlier than the last call by less ends with the run, ns: recorders write a time 25
/// times a second, and blocks once in a second.
const EARLY_NS: i64 = 2_000_000_000;

/// Where a recording ended.
pub(super) struct End {
    /// Its newest evidence, ns since 1970.
    pub(super) at: i64,
    /// What happened.
    pub(super) text: String,
}

/// By process, where its recording ended before the run did. `last` is the last moment of calls.
pub(super) fn marks(timeline: &Timeline<'_>, report: &Report, last: i64) -> Vec<Option<End>> {
    let processes = timeline.capture().processes.iter().enumerate();
    let end = |(index, process): (usize, &Process)| {
        if let Some(death) = death(report, process) {
            let how = if death.exited { "exited" } else { "died" };
            let after = match death.calls {
                0 => "before its first call".to_owned(),
                calls => format!("after call {calls}"),
            };
            return Some(End {
                at: timeline.on_one_clock(index, death.seen_ns),
                text: format!("{how} {after}"),
            });
        }
        let at = newest(timeline, index).filter(|at| at.saturating_add(EARLY_NS) < last)?;
        (!process.ended).then(|| End {
            at,
            text: "its recording ends here".to_owned(),
        })
    };
    processes.map(end).collect()
}

/// Until when open calls are drawn, by process: to its death, or else to the last moment that is known of the
/// run or of it.
pub(super) fn of_open(timeline: &Timeline<'_>, report: &Report) -> Vec<i64> {
    let spans = timeline.calls().flat_map(|placed| {
        let gpu = placed.gpu.map(|(slice, _)| slice.span.end);
        gpu.into_iter()
            .chain(placed.host.map(|slice| slice.span.end))
    });
    let last = spans.max().unwrap_or(0);
    let processes = timeline.capture().processes.iter().enumerate();
    let end = |(index, process): (usize, &Process)| match death(report, process) {
        Some(death) => timeline.on_one_clock(index, death.seen_ns),
        None => newest(timeline, index).map_or(last, |newest| newest.max(last)),
    };
    processes.map(end).collect()
}

fn death<'r>(report: &'r Report, process: &Process) -> Option<&'r Death> {
    let mut deaths = report.deaths.iter();
    deaths.find(|death| process.is(&death.process.host, death.process.pid))
}

/// The newest evidence of a process, which its recorder or one of its calls gave.
fn newest(timeline: &Timeline<'_>, index: usize) -> Option<i64> {
    let process = &timeline.capture().processes[index];
    let of_calls = process
        .calls
        .iter()
        .flat_map(|call| [call.api_ns, call.return_ns, call.launch_end_ns]);
    let newest = of_calls.chain(process.clock.newest()).max()?;
    (newest > 0).then(|| timeline.on_one_clock(index, newest))
}
