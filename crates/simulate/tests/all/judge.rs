//! Reports on random jobs, held against the truth. [`told`] is the one place that reads a finding.

use analyze::Report;
use simulate::{score, Drawn, Matrix, Scored, Told, Verdict, Why};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// What a report says first about lost time.
pub fn told(report: &Report) -> Option<Told> {
    let kinds = ["late_rank", "stall", "slow_network"];
    let found = report.findings.iter().find(|f| kinds.contains(&f.kind))?;
    let number = |behind: &str| -> Option<usize> {
        let (_, rest) = found.sentence.split_once(behind)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let why = match found.kind {
        "slow_network" => Some(Why::Link),
        _ if found.sentence.contains("its host launche") => Some(Why::Host),
        _ if found.sentence.contains("its GPU ") => Some(Why::Gpu),
        _ => None,
    };
    Some(Told {
        ranks: number("Rank ")
            .or_else(|| number("rank "))
            .into_iter()
            .collect(),
        why,
        loss: found.wall_us.map(|us| us / 1e6),
        interval: found
            .wall_interval_us
            .map(|(low, high)| (low / 1e6, high / 1e6)),
    })
}

/// What the report on this seed's job is worth, and a few lines about it.
pub fn judge(seed: u64) -> (Scored, String) {
    let drawn = Drawn::new(seed);
    let outcome = drawn.play();
    let report = analyze::report(&outcome.played.capture_of(&drawn.evidence));
    let scored = score(&drawn, &outcome, told(&report).as_ref());
    let mut lines = format!(
        "{seed}: {:?}: {drawn}; {:.2} s, {:.2} s without; {}\n",
        scored.verdict, outcome.played.seconds, outcome.plain, scored.evidence
    );
    for culprit in &outcome.culprits {
        lines += &format!("    true: {}: {:.3} s\n", culprit.cause, culprit.loss);
    }
    lines += &format!("    told: {}\n", report.verdict);
    for finding in &report.findings {
        let interval = finding.wall_interval_us.map(|(a, b)| (a / 1e6, b / 1e6));
        lines += &format!("    found: {} {interval:.3?}\n", finding.sentence);
    }
    (scored, lines)
}

/// Judges the reports of all these seeds, on all cores. Beside the matrix, there are the lines of each seed
/// by number, and whether its report is right.
pub fn judge_all(seeds: Range<u64>) -> (Matrix, Vec<(u64, bool, String)>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new((Matrix::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return;
                }
                let (scored, lines) = judge(seed);
                let mut all = all.lock().expect("no thread panicked");
                all.0.add(&scored);
                all.1.push((seed, scored.verdict == Verdict::Right, lines));
            });
        }
    });
    let (matrix, mut lines) = all.into_inner().expect("no thread panicked");
    lines.sort();
    (matrix, lines)
}
