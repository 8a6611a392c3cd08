//! `attach --init`: what NCCL's init spent its time on, on libraries that have kept their symbols.

use ::attach::{Seen, Summary};
use std::fmt::Write;

/// Processes of the page, as all ranks do much the same.
const PROCESSES: usize = 2;

/// The section of the page.
pub fn page(page: &mut String, summary: &Summary) {
    let with: Vec<&Seen> = summary
        .processes
        .iter()
        .filter(|seen| !seen.inits.is_empty())
        .collect();
    for seen in with.iter().take(PROCESSES) {
        for (number, steps) in seen.inits.iter().enumerate() {
            let _ = writeln!(
                page,
                "Inside init {} of process {} (µs; `in others`: of it in the steps below)",
                number + 1,
                seen.pid
            );
            let _ = writeln!(
                page,
                "{:<40} {:<10} {:>6} {:>11} {:>11} {:>11}",
                "step", "part", "calls", "begins", "took", "in others"
            );
            for step in steps {
                let indented = format!("{:1$}{2}", "", 2 * step.depth, step.function);
                let us = |ns: u64| ns as f64 / 1e3;
                let _ = writeln!(
                    page,
                    "{indented:<40} {:<10} {:>6} {:>11.1} {:>11.1} {:>11.1}",
                    step.part.word(),
                    step.calls,
                    us(step.began_ns),
                    us(step.took_ns),
                    us(step.inner_ns)
                );
            }
            let _ = writeln!(page);
        }
    }
    if with.len() > PROCESSES {
        let more = with.len() - PROCESSES;
        let _ = writeln!(page, "Inits of {more} more processes: --json\n");
    }
}
