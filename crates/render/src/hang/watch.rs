//! What `ncclscope hang --watch` tells: a line for each piece of news.

use super::answer::Answer;
use super::names::{seconds, span};
use analyze::hang::{Hang, News, Proof};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{Result, Write};

/// What a look adds to what was told before, as JSON: the answer of `ncclscope hang`, and what is new.
#[derive(Serialize, JsonSchema)]
pub struct WatchJson {
    /// Only with --watch: what this line adds to the one before.
    #[schemars(extend("enum" = ["stands_still", "hangs", "goes_on", "started_again"]))]
    news: &'static str,
    /// Only with --watch: why it is a hang; null: it is none.
    #[schemars(extend("enum" = ["dead", "left", "stopped", "calls", "time", null]))]
    proof: Option<&'static str>,
    /// Only with --watch: for how long the job stood still that goes on; null: it does not.
    stood_still_s: Option<f64>,
    #[serde(flatten)]
    answer: Answer,
}

/// Writes what is new as one line of JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(news: News, hang: &Hang, out: &mut impl Write) -> Result<()> {
    let (name, proof, stood_still_s) = match news {
        News::StandsStill => ("stands_still", None, None),
        News::Hangs(proof) => ("hangs", Some(proof.name()), None),
        News::GoesOn(ns) => ("goes_on", None, Some(seconds(ns))),
        News::StartedAgain(ns) => ("started_again", None, Some(seconds(ns))),
    };
    let line = WatchJson {
        news: name,
        proof,
        stood_still_s,
        answer: Answer::new(hang),
    };
    serde_json::to_writer(&mut *out, &line)?;
    writeln!(out)
}

/// What is new as one line of text, without the time of day: who is waited for, since when, and what is known
/// of that rank.
pub fn line(news: News, hang: &Hang) -> String {
    let answer = Answer::new(hang);
    let known = || {
        let does = super::doing::sentences(hang).take(2);
        let details = answer.details.iter().take(2).cloned().chain(does);
        details.fold(answer.sentence.clone(), |all, one| all + " " + &one)
    };
    match news {
        News::GoesOn(ns) => format!("The job goes on, after {}.", span(ns)),
        News::StartedAgain(ns) => format!(
            "The job was started again. It had stood still for {}.",
            span(ns)
        ),
        News::StandsStill => format!("The job stands still. {}", known()),
        News::Hangs(Proof::Time) => format!(
            "HANG: the job has stood still for longer than {}. {} Next: {}",
            span(hang.after),
            known(),
            answer.next
        ),
        News::Hangs(_) => format!("HANG: {} Next: {}", known(), answer.next),
    }
}
