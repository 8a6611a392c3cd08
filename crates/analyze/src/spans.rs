//! A part of a run: some steps, the newest of it, or phases that the program marked.
//!
//! [`Part::keep`] finds from when to when that is on each process, and leaves the rest out. Steps are those
//! that the report on all of the run finds, so all ranks begin and end with the same step.
//!
//! Rule: a part that is not in the capture is an error that says what there is.

use crate::spelling::{plural, ranges};
use crate::steps::{agree, StepSource, Steps, StepsRow};
use crate::time::Nanos;
use std::fmt;
use std::ops::Range;
use tables::spans::Spans;
use tables::{Capture, Process};

/// Which part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These steps, from 0.
    Steps(Range<usize>),
    /// What began within so many ns before the newest call.
    Last(i64),
    /// All phases of this name.
    Phase(String),
}

/// Why a part can't be had, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPart {
    /// What was expected and found.
    pub said: String,
    /// The way out.
    pub hint: String,
}

impl fmt::Display for NoPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl std::error::Error for NoPart {}

/// The steps of `A..B`, `A..`, `..B` or `A`: from 0, and B is not among them.
///
/// # Errors
/// If it is none of these, or empty.
pub fn steps_of(text: &str) -> Result<Range<usize>, String> {
    let number = |text: &str, if_empty: usize| match text.trim() {
        "" => Ok(if_empty),
        text => text.parse::<usize>(),
    };
    let range = match text.split_once("..") {
        Some((from, to)) => number(from, 0).and_then(|from| Ok(from..number(to, usize::MAX)?)),
        None => text
            .trim()
            .parse()
            .map(|one: usize| one..one.saturating_add(1)),
    };
    let range = range.ok().filter(|range| !range.is_empty());
    range.ok_or_else(|| {
        "expected steps such as 100..200, 100.., ..50 or 42; they count from 0, and the one behind `..` is \
         not among them"
            .to_owned()
    })
}

impl Part {
    /// Leaves out all else of a capture.
    ///
    /// # Errors
    /// If the capture has no such part.
    pub fn keep(&self, capture: &mut Capture) -> Result<(), NoPart> {
        let (spans, said) = self.spans(capture)?;
        tables::spans::keep(capture, &spans);
        if self.begins_together() {
            tables::spans::begin_together(capture);
        }
        capture.part = Some(said);
        Ok(())
    }

    /// From when to when that is on each process of a capture, and which part it is, in words.
    ///
    /// # Errors
    /// If the capture has no such part.
    pub fn spans(&self, capture: &Capture) -> Result<(Vec<Spans>, String), NoPart> {
        match self {
            Part::Steps(asked) => of_steps(capture, asked),
            Part::Last(ns) => of_last(capture, *ns),
            Part::Phase(name) => of_phase(capture, name),
        }
    }

    /// Whether spans of it may begin within operations, whose calls are then left out on all ranks.
    pub fn begins_together(&self) -> bool {
        matches!(self, Part::Last(_))
    }
}

fn one(span: Range<i64>) -> Spans {
    [span].into()
}

fn of_steps(capture: &Capture, asked: &Range<usize>) -> Result<(Vec<Spans>, String), NoPart> {
    let report = crate::report(capture);
    let no = |said: String, hint: &str| NoPart {
        said,
        hint: hint.to_owned(),
    };
    let all = report.steps.as_ref().and_then(|steps| steps.reference());
    let Some((steps, n)) = report.steps.as_ref().zip(all.map(|row| row.each.len())) else {
        return Err(no(
            "expected a job with steps, found no pattern of calls that repeats".to_owned(),
            "`ncclscope.step()` marks them in the program, and `--last` needs none",
        ));
    };
    if asked.start >= n {
        return Err(no(
            format!("expected steps from 0 to {}, found {}", n - 1, asked.start),
            "the steps are those that `ncclscope report` counts",
        ));
    }
    let (from, to) = (asked.start, asked.end.min(n));
    let said = match to - from {
        1 => format!("step {from} of {n}"),
        _ => format!("steps {from} to {} of {n}", to - 1),
    };
    let said = format!("{said}{}", counting_otherwise(steps));
    let row = |process: &Process| steps.row_of(&process.host, process.pid);
    // What is between two steps belongs to neither, if the program says what a step is.
    let bounds = |row: &StepsRow| {
        let last = row.each.get(to.min(row.each.len()) - 1)?;
        let its_own = last.start_ns.zip(last.time_ns);
        let its_own = its_own.map(|(at, ns)| at.saturating_add_unsigned(ns));
        let next = row.each.get(to).and_then(|next| next.start_ns);
        Some((row.each.get(from)?.start_ns?, its_own.or(next)))
    };
    // A pattern may begin with another call on each rank, so all are cut at the same operations.
    let mut processes = capture.processes.iter();
    let reference = steps.reference();
    let at = processes.position(|process| {
        row(process).map(std::ptr::from_ref) == reference.map(std::ptr::from_ref)
    });
    let by_calls = || {
        let reference = reference.filter(|row| row.source == StepSource::Calls)?;
        let (begins, ends) = bounds(reference)?;
        let last = reference.each.last()?.start_ns?;
        let step = (ends.unwrap_or(last) - begins) / (to - from).max(1) as i64;
        // Steps without collectives of all ranks, as of launches of graphs, have none of them near.
        let cut = |moment: i64| {
            let all = tables::spans::together(capture, at?, moment)?;
            (all[at?] <= moment.saturating_add(step)).then_some(all)
        };
        let begins = cut(begins)?;
        let ends = match ends {
            Some(ends) => cut(ends)?,
            None => vec![i64::MAX; begins.len()],
        };
        let spans = begins.into_iter().zip(ends);
        Some(
            spans
                .map(|(from, to)| one(from..to))
                .collect::<Vec<Spans>>(),
        )
    };
    if let Some(spans) = by_calls() {
        return Ok((spans, said));
    }
    let of = |process: &Process| {
        let (begins, ends) = bounds(row(process)?)?;
        Some(begins..ends.unwrap_or(i64::MAX))
    };
    let found: Vec<Option<Range<i64>>> = capture.processes.iter().map(of).collect();
    let known = || found.iter().flatten();
    let begins = known().map(|span| span.start).min();
    let Some((begins, ends)) = begins.zip(known().map(|span| span.end).max()) else {
        return Err(no(
            "expected steps with times, found none".to_owned(),
            "`--last` needs no steps",
        ));
    };
    // Processes without steps of their own: while the others were in theirs.
    let or_all = |span: Option<Range<i64>>| one(span.unwrap_or(begins..ends));
    Ok((found.into_iter().map(or_all).collect(), said))
}

/// Which ranks have another number of steps than the one by which a part is cut; nothing if all agree.
fn counting_otherwise(steps: &Steps) -> String {
    let Some(reference) = steps.reference() else {
        return String::new();
    };
    let others = steps.rows.iter();
    let others: Vec<&StepsRow> = others
        .filter(|row| !agree(row.steps, reference.steps))
        .collect();
    let named = |rows: &[&StepsRow]| {
        let numbers: Option<Vec<u32>> = rows.iter().map(|row| row.process.rank).collect();
        match (numbers, rows) {
            (Some(numbers), [_]) => format!("rank {}", ranges(numbers)),
            (Some(numbers), _) => format!("ranks {}", ranges(numbers)),
            (None, _) => {
                let pids = rows
                    .iter()
                    .map(|row| format!("{} on {}", row.process.pid, row.process.host));
                format!("pid {}", pids.collect::<Vec<_>>().join(", "))
            }
        }
    };
    let counts = || others.iter().map(|row| row.steps);
    let Some((least, most)) = counts().min().zip(counts().max()) else {
        return String::new();
    };
    let found = if least == most {
        plural(least, "step", "steps")
    } else {
        format!("{least} to {most} steps")
    };
    let who = named(&[reference]);
    format!(
        " (as {who} counts them; on {} there are {found})",
        named(&others)
    )
}

fn of_last(capture: &Capture, ns: i64) -> Result<(Vec<Spans>, String), NoPart> {
    let calls = || capture.processes.iter().flat_map(|process| &process.calls);
    let newest = calls().map(|call| call.api_ns).max().filter(|at| *at != 0);
    let Some(newest) = newest else {
        return Err(NoPart {
            said: "expected calls with host times, found none".to_owned(),
            hint: "without `--last`, the report is of all of the run".to_owned(),
        });
    };
    let from = newest.saturating_sub(ns);
    let spans = capture.processes.iter().map(|_| one(from..i64::MAX));
    let said = format!("the last {}", crate::spelling::time(Nanos::from(ns).us()));
    Ok((spans.collect(), said))
}

fn of_phase(capture: &Capture, name: &str) -> Result<(Vec<Spans>, String), NoPart> {
    let spans: Vec<Spans> = capture
        .processes
        .iter()
        .map(|process| {
            let marks = &process.marks;
            let is_it = |of: u16| {
                marks
                    .names
                    .get(usize::from(of))
                    .is_some_and(|of| of == name)
            };
            let phases = marks.phases.iter().filter(|phase| is_it(phase.name));
            phases.map(|phase| phase.from..phase.to).collect()
        })
        .collect();
    let most = spans.iter().map(Vec::len).max().unwrap_or(0);
    if most == 0 {
        let marks = capture.processes.iter().map(|process| &process.marks);
        let mut names: Vec<String> = marks
            .flat_map(|marks| marks.names.iter().map(|name| format!("`{name}`")))
            .collect();
        names.sort();
        names.dedup();
        let found = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        return Err(NoPart {
            said: format!("expected a phase `{name}`, found {found}"),
            hint: "`ncclscope.phase(\"eval\")` marks phases in the program".to_owned(),
        });
    }
    let said = format!("{} `{name}`", plural(most as u64, "phase", "phases"));
    Ok((spans, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_written_as_ranges() {
        assert_eq!(steps_of("100..200"), Ok(100..200));
        assert_eq!(steps_of("..50"), Ok(0..50));
        assert_eq!(steps_of("7.."), Ok(7..usize::MAX));
        assert_eq!(steps_of("42"), Ok(42..43));
        for wrong in ["", "..0", "5..5", "9..2", "a..b", "1-5", "-1..3", "1..2..3"] {
            assert!(steps_of(wrong).is_err(), "{wrong}");
        }
    }
}
