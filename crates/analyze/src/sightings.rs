//! What `ncclscope hang` said of the job while it ran.
//!
//! [`rows`] has the newest of each machine, unless the job can be asked itself.
//!
//! Rule: a row has its time, and whether the job went on after that.

use crate::moments::Zone;
use crate::time::HostTime;
use schemars::JsonSchema;
use serde::Serialize;
use tables::sightings::Witness;
use tables::Capture;

/// What `ncclscope hang` said.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Sighting")]
pub struct SightingRow {
    /// When, ns since 1970.
    pub at_ns: i64,
    /// On which host.
    pub host: String,
    /// Whether the job hung; null if that could not be told.
    pub hang: Option<bool>,
    /// The kind of the verdict, as `ncclscope hang --json` has it.
    pub verdict: String,
    /// The verdict.
    pub sentence: String,
    /// Whether ranks made calls after that.
    pub calls_since: bool,
    /// When, as people read it.
    #[serde(skip)]
    pub at: String,
}

impl SightingRow {
    /// Whether the job stood still then, and did nothing after that.
    pub fn still_holds(&self) -> bool {
        self.hang != Some(false) && !self.calls_since
    }
}

/// What was said of `capture`, of which the newest call was made at `newest`.
pub fn rows(capture: &Capture, newest: Option<HostTime>) -> Vec<SightingRow> {
    if capture
        .processes
        .iter()
        .any(|process| process.life.is_there())
    {
        return Vec::new();
    }
    let zone = Zone::of(capture);
    let row = |sighting: &tables::Sighting| SightingRow {
        at_ns: sighting.at_ns,
        host: sighting.host.clone(),
        hang: sighting.hang,
        verdict: sighting.verdict.clone(),
        sentence: sighting.sentence.clone(),
        calls_since: newest.is_some_and(|newest| newest > HostTime(sighting.at_ns)),
        at: zone.spelled(sighting.at_ns, 0),
    };
    // `ncclscope run` gives no verdict.
    let said = capture.sightings.iter();
    let said = said.filter(|sighting| sighting.by == Witness::Hang);
    said.map(row).collect()
}
