//! What communication costs a forward pass, as text and JSON.

use crate::layout::{Look, Page, Style};
use analyze::estimate::{Estimate, Pass};
use analyze::spelling::{percent, size, three, time, times};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{Result, Write};

/// The format of [`json`].
pub const SCHEMA: &str = "ncclscope.estimate/1";

/// What `ncclscope estimate` says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What was read.
    pub source: String,
    /// The function that was asked for.
    pub function: String,
    /// Forward passes of a capture, medians over ranks.
    pub measured: Vec<Pass>,
    /// Whether an estimate was asked for.
    #[serde(skip)]
    pub asked: bool,
    /// What was computed; null if nothing was asked for, or it can't be told.
    pub estimate: Option<Estimate>,
}

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(answer: &Answer, out: &mut impl Write) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer)?;
    writeln!(out)
}

/// Writes it as text.
///
/// # Errors
/// Those of `out`.
pub fn text(answer: &Answer, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, true);
    let mut passes = answer.measured.iter();
    match (&answer.estimate, answer.asked) {
        (Some(estimate), _) => estimated(estimate, &mut page),
        (None, true) => page.styled(Style::Bad, &format!(
            "What {} costs can't be told: {} has neither this size nor three other sizes of it, on the ranks \
             that were asked for.",
            answer.function, answer.source
        )),
        (None, false) => match passes.next() {
            Some(first) => page.styled(Style::Good, &pass(first)),
            None => page.styled(Style::Bad, &format!(
                "{} shows no forward pass: neither steps nor CUDA graphs in kernel windows have times.",
                answer.source
            )),
        },
    }
    for each in passes {
        page.wrap("", "", &pass(each));
        let why = answer.estimate.as_ref();
        if let Some(why) = why.and_then(|estimate| why_apart(estimate, each)) {
            page.wrap("", "", &why);
        }
    }
    page.finish(out)
}

/// An estimate that is further than this part from what was measured needs a reason.
const APART: f64 = 0.1;

/// Why the estimate is another time than that of a measured pass; `None` if it is the same.
fn why_apart(of: &Estimate, pass: &Pass) -> Option<String> {
    let ratio = of.communication_us / pass.communication_us;
    if (ratio - 1.0).abs() <= APART {
        return None;
    }
    Some(if of.calls != pass.calls {
        format!(
            "That is not the estimate's time: this {} has {}, of any function and size, and the estimate {}.",
            pass.kind,
            crate::layout::plural(pass.calls, "call", "calls"),
            of.calls
        )
    } else if ratio < 1.0 {
        format!(
            "That is more than the estimate: calls of this {} may be of other sizes, and wait for late \
             ranks, which the estimate leaves out.",
            pass.kind
        )
    } else {
        format!(
            "That is less than the estimate: calls of this {} may be of other sizes, and overlap.",
            pass.kind
        )
    })
}

fn pass(of: &Pass) -> String {
    let what = match of.kind {
        "replay" => "replay of the CUDA graph (one token of a decode loop)",
        _ => "step",
    };
    let exposed = of
        .exposed_us
        .zip(of.exposed_share)
        .map_or(String::new(), |(us, share)| {
            format!("; exposed {}, {}", time(us), percent(share))
        });
    format!(
        "Measured, one {what}: {} calls, {} of communication in {}, {} of the time{exposed} (n = {}).",
        of.calls,
        time(of.communication_us),
        time(of.time_us),
        percent(of.communication_share),
        of.seen
    )
}

fn estimated(of: &Estimate, page: &mut Page) {
    let interval = of
        .communication_interval_us
        .map_or(String::new(), |(low, high)| {
            format!(" [{}]", times(low, high))
        });
    page.styled(
        Style::Good,
        &format!(
            "{} of {} over {} ranks cost a forward pass {}{interval}, if nothing runs beside them.",
            crate::layout::plural(of.calls, "call", "calls"),
            of.function,
            of.nranks,
            time(of.communication_us)
        ),
    );
    page.line(&format!(
        "One {} of {} takes {}, {}{}.",
        of.function,
        size(of.bytes),
        time(of.call_us),
        match of.source {
            "model" => "by a model of ",
            _ => "",
        },
        of.basis
    ));
    match (of.ttft_share, of.ttft_us) {
        (None, Some(ttft)) => page.wrap("", "", &format!(
            "That is longer than the time to first token of {}: such a pass would hide communication behind \
             computing, or have faster calls than these.",
            time(ttft)
        )),
        (Some(share), Some(ttft)) => page.line(&format!(
            "That is {} of the time to first token of {}.",
            percent(share),
            time(ttft)
        )),
        (_, None) => page.line("Its share of the time to first token needs that time: --ttft 120ms."),
    }
    if let Some(((ratio, us), nranks)) = of
        .baseline_ratio
        .zip(of.baseline_call_us)
        .zip(of.baseline_nranks)
    {
        page.line(&format!(
            "It takes {} times as long as over {} ({}).",
            three(ratio),
            crate::layout::plural(nranks.into(), "rank", "ranks"),
            time(us)
        ));
    }
}
