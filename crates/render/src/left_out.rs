//! What an export of calls leaves out, in sentences.
//!
//! Rule: an export that lacks calls of the job says so, with their number and the table that has them.

use analyze::Report;
use capture::live::Odd;
use tables::Capture;

/// A sentence for each kind of call that the job made and that has no row or slice of its own.
pub fn calls(report: &Report) -> Vec<String> {
    let completeness = &report.completeness;
    let mut said = Vec::new();
    let in_graphs = completeness.graph_launches.zip(completeness.in_graphs);
    if let Some((launches, in_graphs)) = in_graphs.filter(|(_, calls)| *calls > 0) {
        said.push(format!(
            "{in_graphs} calls are left out, which {launches} launches of CUDA graphs executed\
             \n  hint: `--table graph_launches` has a row for each launch, and `--table graphs` their calls"
        ));
    }
    if !completeness.unseen.is_empty() {
        said.push(
            "calls in CUDA graphs that were not seen are left out, and their number is not known\
             \n  hint: `ncclscope report` says why"
                .to_owned(),
        );
    }
    let announced = completeness
        .announced
        .saturating_add(completeness.missing_at_least);
    let lacking = announced.saturating_sub(completeness.recorded);
    if lacking > 0 {
        let causes: Vec<&str> = completeness.lost.keys().map(String::as_str).collect();
        let why = if causes.is_empty() {
            String::new()
        } else {
            format!(" ({})", causes.join(", "))
        };
        said.push(format!(
            "{lacking} of {announced} announced calls are left out, because no row of theirs is here{why}\
             \n  hint: `ncclscope report` counts them"
        ));
    }
    said
}

/// A sentence if callbacks were made that are not in the capture.
pub fn callbacks(capture: &Capture) -> Option<String> {
    let counters = capture
        .processes
        .iter()
        .filter_map(|process| process.counters.as_ref());
    let dropped = counters.filter_map(|of| of.odd.get(Odd::CallbacksDropped as usize));
    let dropped = dropped.fold(0, |all: u64, n| all.saturating_add(*n));
    (dropped > 0).then(|| {
        format!(
            "{dropped} callbacks are left out, because the files of their processes were full\
             \n  hint: NCCLSCOPE_MAX_SIZE is their size; calls have rows in any case"
        )
    })
}
