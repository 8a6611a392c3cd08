//! Where each finding is on the time line: its pin, and the link beside it.
//!
//! Rule: every finding of the report is here, in its order. One that holds for the whole run, such as on the
//! topology, has no moment.

use super::View;
use crate::timeline::Span;
use analyze::findings::{Evidence, Finding};
use serde_json::{json, Value};

/// A place on the time line: where its pin is, and what is shown of it.
struct Place {
    at_us: f64,
    shown_us: Option<(f64, f64)>,
}

impl Place {
    fn at(at_us: f64) -> Place {
        Place {
            at_us,
            shown_us: None,
        }
    }
}

/// The findings with their places; and deaths that have no finding of their own.
pub(super) fn of(view: &View<'_>) -> Vec<Value> {
    let pin = |text: String, place: Option<Place>| {
        let shown_us = place.as_ref().and_then(|place| place.shown_us);
        json!({
            "text": text,
            "at_us": place.map(|place| place.at_us),
            "from_us": shown_us.map(|(from, _)| from),
            "to_us": shown_us.map(|(_, to)| to),
        })
    };
    let findings = view.report.findings.iter();
    let texts: Vec<String> = findings.clone().map(crate::findings::sentence).collect();
    let deaths = view.report.deaths.iter().filter_map(|death| {
        let text = crate::findings::died(death);
        let at_us = dead(view, &death.process.host, death.process.pid)?;
        (!texts.contains(&text)).then(|| pin(text, Some(Place::at(at_us))))
    });
    let deaths: Vec<Value> = deaths.collect();
    let pins = findings.zip(texts);
    let pins = pins.map(|(finding, text)| pin(text, place(view, finding)));
    pins.chain(deaths).collect()
}

fn place(view: &View<'_>, of: &Finding) -> Option<Place> {
    match &of.evidence {
        Evidence::Death { death, .. } => {
            dead(view, &death.process.host, death.process.pid).map(Place::at)
        }
        Evidence::Standstill(found) => {
            let begin = view.base_ns + view.length_ns - found.lasted.whole();
            Some(Place::at(view.us(begin.max(view.base_ns))))
        }
        Evidence::Stalls(_) => most_held_up(view, of).or_else(|| longest_step(view, of)),
        Evidence::Late(_) | Evidence::Unequal(_) | Evidence::Link(_) => typical(view)
            .or_else(|| most_held_up(view, of))
            .or_else(|| first_wait(view))
            .or_else(|| median_step(view, of)),
        Evidence::Clocks { between_s, .. } => Some(Place::at(1e6 * between_s.0)),
        // Others are of no moment.
        _ => None,
    }
}

/// Where a process died, µs.
fn dead(view: &View<'_>, host: &str, pid: u32) -> Option<f64> {
    let processes = &view.timeline.capture().processes;
    let index = processes
        .iter()
        .position(|process| (&*process.host, process.pid) == (host, pid))?;
    Some(view.us(view.ends[index].as_ref()?.at))
}

/// The longest wait of the typical step.
fn typical(view: &View<'_>) -> Option<Place> {
    let (step, wait) = (view.typical?, view.typical_wait?);
    Some(Place {
        at_us: view.us(wait.begin + (wait.end - wait.begin) / 2),
        shown_us: Some(around(view, step)),
    })
}

/// Where operations waited longest for the rank that is blamed.
fn most_held_up(view: &View<'_>, of: &Finding) -> Option<Place> {
    let over_time = view.report.timeline.as_ref()?;
    let blamed = of.subject.rank()?;
    let mut late = over_time.late.iter();
    let late = late.find(|late| {
        (late.process.pid, &late.process.host) == (blamed.process.pid, &blamed.process.host)
    })?;
    let most = late.held_up_us.iter().copied().fold(0.0, f64::max);
    let bucket = late.held_up_us.iter().position(|us| *us == most)?;
    let late_us = view.us(over_time.begin_ns);
    Some(Place::at(
        late_us + (bucket as f64 + 0.5) * over_time.bucket_us,
    ))
}

/// The longest wait of the finding.
fn first_wait(view: &View<'_>) -> Option<Place> {
    let wait = &view.seen[*view.worst.first()? as usize];
    Some(Place {
        at_us: view.us(wait.span.begin + wait.length_ns() / 2),
        shown_us: Some(around(view, wait.span)),
    })
}

fn longest_step(view: &View<'_>, of: &Finding) -> Option<Place> {
    step(view, of, |times| {
        times.into_iter().max_by_key(|(_, ns)| *ns)
    })
}

fn median_step(view: &View<'_>, of: &Finding) -> Option<Place> {
    step(view, of, |mut times| {
        times.sort_by_key(|(_, ns)| *ns);
        times.get(times.len() / 2).copied()
    })
}

/// A step of the rank that is blamed, by the times at which steps begin and how long they are.
fn step(
    view: &View<'_>,
    of: &Finding,
    which: impl FnOnce(Vec<(i64, u64)>) -> Option<(i64, u64)>,
) -> Option<Place> {
    let blamed = of.subject.rank();
    let steps = view.report.steps.as_ref()?;
    let is_own = |row: &&analyze::steps::StepsRow| {
        blamed.is_some_and(|of| {
            (of.process.pid, &of.process.host) == (row.process.pid, &row.process.host)
        })
    };
    let own = steps
        .rows
        .iter()
        .find(is_own)
        .or_else(|| steps.reference())?;
    let times = own.each.iter();
    let times = times.filter_map(|step| Some((step.start_ns?, step.time_ns?)));
    let (begin, length) = which(times.collect())?;
    let processes = &view.timeline.capture().processes;
    let index = processes
        .iter()
        .position(|process| (process.pid, &process.host) == (own.process.pid, &own.process.host))?;
    let begin = view.timeline.on_one_clock(index, begin);
    let span = Span {
        begin,
        end: begin + length as i64,
    };
    Some(Place {
        at_us: view.us(begin + length as i64 / 2),
        shown_us: Some(around(view, span)),
    })
}

/// A span with a bit of what is around it, µs.
fn around(view: &View<'_>, span: Span) -> (f64, f64) {
    let more = (span.end - span.begin) / 20 + 1;
    (view.us(span.begin - more), view.us(span.end + more))
}
