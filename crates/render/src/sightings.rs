//! What `ncclscope hang` said of a job while it ran, in words.

use analyze::hang::VerdictKind;
use analyze::sightings::SightingRow;

/// It, with its time, as a sentence or several.
pub(crate) fn sentence(of: &SightingRow) -> String {
    with(of, &format!("said: {}", of.sentence))
}

/// The same beside a verdict of this kind, which is not said twice.
pub(crate) fn beside(of: &SightingRow, verdict: VerdictKind) -> String {
    if verdict.agrees(of) {
        with(of, "said the same.")
    } else {
        sentence(of)
    }
}

fn with(of: &SightingRow, said: &str) -> String {
    let since = if of.calls_since {
        " Ranks made calls after that."
    } else {
        ""
    };
    let (at, host) = (&of.at, &of.host);
    format!("`ncclscope hang` looked at {at} on {host}, while the job was there, and {said}{since}")
}
