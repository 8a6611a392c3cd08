//! What a running job waits for now.
//!
//! [`judge`] asks the questions of `ncclscope report` and `ncclscope hang` of the newest span of a capture. A
//! rank that became late a moment ago is late in a small part of that span, so its lateness can look like
//! chance. So if nobody is named, the newest half of the span is asked by itself, and then the newest
//! quarter.
//!
//! Rule: such a part may name a rank or a link, and only for a cost that matters. It never acquits one that
//! the whole span names.

use crate::account::{Account, MATTERS};
use crate::findings::{Finding, Kind};
use crate::hang::{hang, Conditions, Hang};
use crate::time::Nanos;
use crate::{report_with, Report};
use tables::tail::{leave_out_before, made};
use tables::Capture;

/// Findings that say what a running job waits for.
const KINDS: [Kind; 5] = [
    Kind::DeadRank,
    Kind::DifferingOperations,
    Kind::LateRank,
    Kind::SlowNetwork,
    Kind::Stall,
];

/// The newest parts of the span that are asked: one of so many.
const PARTS: [i64; 2] = [2, 4];

/// The judgement of a running job.
pub struct Live {
    /// The report on the span, or on its newest part.
    pub report: Report,
    /// Whether it hangs.
    pub hang: Hang,
    /// How long the newest part is, s, if the report is on that alone.
    pub recent_s: Option<f64>,
}

impl Live {
    /// The finding that matters now, if any.
    pub fn finding(&self) -> Option<&Finding> {
        let mut all = self.report.findings.iter();
        all.find(|finding| KINDS.contains(&finding.kind()))
    }
}

/// In fewer steps, one rank can be the last often enough by chance. In one of a hundred simulated healthy
/// jobs it was.
const LEAST_STEPS: u64 = 20;

/// Steps of the newest part that are shorter than this part of the span's are pieces of these: of few steps,
/// only what comes more often is seen to repeat. A rank that became late makes them longer.
const LEAST_OF_STEP: f64 = 0.5;

/// Whether a finding names somebody, for a cost that matters.
fn names(finding: &Finding) -> bool {
    let share = finding.loss.as_ref().and_then(|loss| {
        let run = loss.run_us.filter(|run| *run > 0.0)?;
        Some(loss.wall_us / run)
    });
    matches!(finding.kind(), Kind::LateRank | Kind::SlowNetwork)
        && !finding.subject.ranks.is_empty()
        && share.is_some_and(|share| share >= MATTERS)
}

/// Judges the newest span of a capture, and has `tell` say what there is to say of it. `tell` gets the calls
/// that the report is on, and is asked again if that is only the newest part. Afterwards the capture may have
/// lost its older calls.
pub fn judge<T>(capture: &mut Capture, tell: impl Fn(&Capture, &Live) -> T) -> T {
    let mut live = Live {
        report: report_with(capture, None),
        hang: hang(capture, &Conditions::default()),
        recent_s: None,
    };
    let told = tell(capture, &live);
    let is_open = match live.finding().map(Finding::kind) {
        None => true,
        // Steps that became longer can look like many stalls.
        Some(kind) => kind == Kind::Stall,
    };
    if live.hang.verdict.hang() == Some(true) || !is_open {
        return told;
    }
    let Some((first, last)) = made(capture) else {
        return told;
    };
    let step_us = |report: &Report| report.account.as_ref().map(Account::usual_us);
    let whole_us = step_us(&live.report);
    for parts in PARTS {
        let span = (last - first) / parts;
        leave_out_before(capture, last - span);
        live.report = report_with(capture, None);
        live.recent_s = Some(Nanos::from(span).seconds());
        let account = live.report.account.as_ref();
        let is_long = account.is_none_or(|account| account.steps >= LEAST_STEPS);
        let both = step_us(&live.report).zip(whole_us);
        let is_step = both.is_none_or(|(part, whole)| part >= LEAST_OF_STEP * whole);
        if is_long && is_step && live.finding().is_some_and(names) {
            return tell(capture, &live);
        }
    }
    told
}
