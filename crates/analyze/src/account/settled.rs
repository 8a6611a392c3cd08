//! One kind of steps of the pattern of calls and of the account.

use super::{Account, RankAccount};
use crate::steps::{agree, alike, finish, statistics};
use crate::steps::{Step, StepSource, Steps, StepsRow, ALIKE, LEAST_US};

/// One kind of steps from the pattern of calls and the account, so that a report has not two.
///
/// If both have the same steps, it is those of the pattern with the times of the account. Ranks whose pattern
/// is another one have none. If no rank has the same, it is the steps of the account: they are the same for
/// all ranks, and rest on when calls ran. But these are none: equal parts of a pattern; and, by hosts alone
/// or of a single call, what comes again within a millisecond. Steps that the program marked stay as they
/// are.
pub fn settle(steps: Option<Steps>, account: &Account, processes: usize) -> Option<Steps> {
    let all = account.steps + account.skipped;
    let is_marked = |row: &StepsRow| row.source == StepSource::Program;
    let is_same = |row: &StepsRow| agree(row.steps, all) || alike(row.steps, all);
    let has_part = |row: &StepsRow| {
        row.equal_parts > 1 && all as f64 * ALIKE >= (row.steps * row.equal_parts) as f64
    };
    let had = steps.as_ref().map_or(&[][..], |steps| &steps.rows);
    let has_other = !had.iter().any(is_same);
    // The same call again and again may be a step, or any part of one, and so may any calls in a loop.
    let one_call = account.launches.iter().all(|n| *n <= 1);
    let is_loop = (one_call || account.by_hosts) && account.usual_us() < LEAST_US;
    let tells_less = is_loop || had.iter().any(has_part);
    if had.iter().any(is_marked) || has_other && tells_less {
        return steps;
    }
    let rows = if has_other {
        rows_of(account)
    } else {
        let mut rows = steps.map_or_else(Vec::new, |steps| steps.rows);
        rows.retain(is_same);
        // A host that waits for its GPU now and then, to log, does not make the GPU's steps longer. An
        // optimizer behind several micro-batches does.
        if let Some(repeat) = account.times_repeat() {
            rows.iter_mut().for_each(|row| row.times_repeat = repeat);
        }
        // The pattern may say so itself, by its calls.
        let is_whole = |row: &&mut StepsRow| row.equal_parts == 1;
        rows.iter_mut()
            .filter(is_whole)
            .for_each(|row| row.equal_parts = account.equal_parts);
        rows
    };
    finish(rows, processes).map(|steps| Steps {
        step_us: statistics(&account.walls_ns),
        times_ns: account.walls_ns.clone(),
        ..steps
    })
}

/// The steps of the account, rank by rank.
fn rows_of(account: &Account) -> Vec<StepsRow> {
    let times_repeat = account.times_repeat().unwrap_or(1);
    let step_us = statistics(&account.walls_ns);
    let of_rank = |(at, rank): (usize, &RankAccount)| {
        let begins = &account.begins_ns[at];
        let step = |of: &[i64]| Step {
            start_ns: Some(of[0]),
            time_ns: u64::try_from(of[1] - of[0]).ok(),
            communication_ns: None,
            end_ns: None,
        };
        StepsRow {
            process: rank.process.clone(),
            source: StepSource::Calls,
            steps: account.steps,
            calls: account.launches[at],
            equal_parts: account.equal_parts,
            times_repeat,
            calls_beyond: 0,
            step_us,
            communication_us: None,
            startup_us: None,
            between_us: Some(0.0),
            each: begins.windows(2).map(step).collect(),
            times_ns: account.walls_ns.clone(),
            on_gpu: true,
        }
    };
    account.ranks.iter().enumerate().map(of_rank).collect()
}
