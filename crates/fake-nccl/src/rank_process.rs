//! A process of a played or a replayed job: takes its order, and does it.

use crate::control::Control;
use crate::plugin::Version;
use crate::{play, replay};
use anyhow::Context;

/// What a rank's process does: everything after [`crate::processes::RANK_PROCESS`] on the command line.
/// `told` is called with the release to simulate, before the plugin is loaded.
///
/// # Errors
/// When the starting process is gone or speaks otherwise.
pub fn rank_process(told: impl Fn(Version)) -> anyhow::Result<()> {
    let control = Control::from_stdin()?;
    let order = control.receive()?;
    if let Some(order) = order.get("replay") {
        return replay::process(&control, order, told);
    }
    let order = order
        .get("play")
        .context("expected an order to play or replay")?;
    play::process(control, order, told)
}
