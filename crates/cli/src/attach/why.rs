//! `attach --sched`: why calls took long, as the scheduler saw their threads.

use ::attach::sched::{Long, Parts, Sum};
use ::attach::{Seen, Summary};
use std::fmt::Write;

/// Rows of the table.
const ROWS: usize = 12;
/// Longest calls that are named.
const LONGEST: usize = 5;

fn share(part: u64, of: &Parts) -> f64 {
    part as f64 / of.took.max(1) as f64
}

/// Shares of a call's time: running, asleep, in the run queue, soft interrupts.
fn shares(parts: &Parts) -> [f64; 4] {
    [parts.ran(), parts.asleep, parts.queued, parts.softirq].map(|part| share(part, parts))
}

/// What most of the time of a call went into.
fn cause(parts: &Parts) -> &'static str {
    const WORDS: [&str; 4] = ["running", "asleep", "in the run queue", "soft interrupts"];
    let shares = shares(parts);
    let most = (0..WORDS.len()).max_by(|a, b| shares[*a].total_cmp(&shares[*b]));
    WORDS[most.unwrap_or(0)]
}

/// The section of the page.
pub fn page(page: &mut String, summary: &Summary) {
    if !summary.sched {
        return;
    }
    let sums = |seen: &Seen| -> Vec<(u32, &'static str, u32, Sum)> {
        let of = seen.sums.iter();
        of.map(|((function, thread), sum)| (seen.pid, *function, *thread, *sum))
            .collect()
    };
    let mut rows: Vec<_> = summary.processes.iter().flat_map(sums).collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.3.parts.took));
    let _ = writeln!(
        page,
        "What threads did in their calls (most time first; off the CPU for less than 20 µs counts as \
         running)"
    );
    let _ = writeln!(
        page,
        "{:>8}  {:<20} {:>8} {:>8} {:>10} {:>8} {:>8} {:>9} {:>8} {:>11}",
        "process",
        "function",
        "thread",
        "calls",
        "total ms",
        "running",
        "asleep",
        "run queue",
        "softirq",
        "longest µs"
    );
    for (pid, function, thread, sum) in rows.iter().take(ROWS) {
        let [running, asleep, queued, softirq] = shares(&sum.parts).map(|share| share * 100.0);
        let _ = writeln!(
            page,
            "{pid:>8}  {function:<20} {thread:>8} {:>8} {:>10.1} {running:>6.1} % {asleep:>6.1} % \
             {queued:>7.1} % {softirq:>6.1} % {:>11.1}",
            sum.calls,
            sum.parts.took as f64 / 1e6,
            sum.longest as f64 / 1e3
        );
    }
    if rows.len() > ROWS {
        let _ = writeln!(page, "{:>8}  and {} more: --json", "", rows.len() - ROWS);
    }
    let longest = |seen: &Seen| -> Vec<(u32, Long)> {
        seen.longest.iter().map(|long| (seen.pid, *long)).collect()
    };
    let mut longest: Vec<_> = summary.processes.iter().flat_map(longest).collect();
    longest.sort_by_key(|(_, long)| std::cmp::Reverse(long.parts.took));
    for (pid, long) in longest.iter().take(LONGEST) {
        let verb = if long.open { "runs since" } else { "took" };
        let most = cause(&long.parts);
        let part = shares(&long.parts).into_iter().fold(0.0, f64::max) * 100.0;
        let _ = writeln!(
            page,
            "{} of process {pid} {verb} {:.3} ms: {part:.0} % {most}.",
            long.function,
            long.parts.took as f64 / 1e6,
        );
    }
    let _ = writeln!(page);
}
