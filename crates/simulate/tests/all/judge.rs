//! Reports on random jobs, held against the truth. [`told`] is the one place that reads a finding.

use analyze::account::{Account, RankAccount};
use analyze::findings::{BusierBy, Cause, Evidence, Kind};
use analyze::summary::Lead;
use analyze::Report;
use simulate::{score, Drawn, Matrix, Outcome, Scored, StepsAre, Told, ToldSteps, Verdict, Why};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// What a report says first about lost time.
pub fn told(report: &Report) -> Option<Told> {
    let kinds = [Kind::LateRank, Kind::Stall, Kind::SlowNetwork];
    let mut findings = report.findings.iter();
    let found = findings.find(|finding| kinds.contains(&finding.kind()))?;
    let in_turns = matches!(&found.evidence, Evidence::Unequal(by) if by.in_turns);
    let why = match (found.kind(), found.cause) {
        _ if in_turns => Some(Why::InTurns),
        (Kind::SlowNetwork, _) => Some(Why::Link),
        (_, Some(Cause::Host)) => Some(Why::Host),
        (_, Some(Cause::Gpu)) => Some(Why::Gpu),
        _ => None,
    };
    let ranks = found.subject.ranks.iter().filter_map(|id| id.process.rank);
    let interval = found.loss.as_ref().and_then(|loss| loss.interval_us);
    Some(Told {
        ranks: ranks.map(|rank| rank as usize).collect(),
        why,
        loss: found.wall_us().map(|us| us / 1e6),
        interval: interval.map(|(low, high)| (low / 1e6, high / 1e6)),
        more_kernels: match &found.evidence {
            Evidence::Late(late) => {
                let of = late.busy_gpu.as_ref();
                of.map(|of| of.by == BusierBy::MoreKernels)
            }
            _ => None,
        },
    })
}

/// What a report says of the steps.
fn told_steps(report: &Report) -> Option<ToldSteps> {
    let steps = report.steps.as_ref()?;
    let row = steps.reference()?;
    let all = steps.step_us?;
    Some(ToldSteps {
        n: all.n,
        mean: all.mean / 1e6,
        times_repeat: row.times_repeat,
        equal_parts: row.equal_parts,
    })
}

/// What the account of time says, if it says that it matters. Only the command asks for it.
#[allow(dead_code)]
pub fn told_by_account(report: &Report) -> Option<Told> {
    let account = report.account.as_ref()?;
    let answer = account.late().next()?;
    let (low, high) = answer.interval_us;
    let ranks = answer
        .ranks
        .iter()
        .filter_map(|at| account.ranks[*at].process.rank);
    Some(Told {
        ranks: ranks.map(|rank| rank as usize).collect(),
        why: match answer.cause {
            _ if answer.ranks.is_empty() => Some(Why::InTurns),
            Cause::Host => Some(Why::Host),
            Cause::Gpu => Some(Why::Gpu),
            Cause::Unknown => None,
        },
        loss: Some(answer.loss_us / 1e6),
        interval: Some((low / 1e6, high / 1e6)),
        more_kernels: None,
    })
}

/// What the account of time knows, in one line.
fn known(account: &Account) -> String {
    let wall = account.wall_us;
    let range = |of: &dyn Fn(&RankAccount) -> f64| {
        let shares = account.ranks.iter().map(|rank| 100.0 * of(rank));
        let (low, high) = shares.fold((f64::INFINITY, 0.0f64), |(low, high), share| {
            (low.min(share), high.max(share))
        });
        format!("{low:.1} to {high:.1}")
    };
    let answers = account.answers.iter().map(|answer| {
        let (low, high) = answer.interval_us;
        let who = answer
            .ranks
            .iter()
            .filter_map(|at| account.ranks[*at].process.rank);
        format!(
            "; {:?} costs {:.3} ({:.3} to {:.3}) s by {:?}, {:?}",
            who.collect::<Vec<u32>>(),
            answer.loss_us / 1e6,
            low / 1e6,
            high / 1e6,
            answer.source,
            answer.cause,
        )
    });
    let links = account.slow_links.iter().map(|slow| {
        let ((took, usual), when) = (slow.transfer_us, slow.when_us.unwrap_or_default());
        format!(
            "; link of {} ranks costs {:.3} s: {:.0} and {:.0} us, {:?}, {:.1} to {:.1} s",
            slow.ranks.len(),
            slow.loss_us / 1e6,
            took,
            usual,
            slow.transfers,
            when.0 / 1e6,
            when.1 / 1e6,
        )
    });
    format!(
        "    account: {} steps of {:.2} s, settles: {}, together: {:.2?}, waits {} %, transfer {} %, unknown \
         {} %, known of {} %{}\n",
        account.steps,
        wall / 1e6,
        account.settles,
        account.together_share,
        range(&|rank| rank.wait_us / wall),
        range(&|rank| rank.transfer_us / wall),
        range(&|rank| rank.unknown_us / wall),
        range(&|rank| rank.known_share),
        answers.chain(links).collect::<String>(),
    )
}

/// What reads a report.
pub type Reader = fn(&Report) -> Option<Told>;

/// What the late host of the verdict costs of the steps, between nothing and the most; `None` if somebody
/// else is late.
fn most_by_host(report: &Report, outcome: &Outcome) -> Option<(f64, f64)> {
    let account = report.account.as_ref()?;
    let late = account.late_host?;
    let rank = account.ranks[late.rank].process.rank? as usize;
    let is_true = outcome
        .culprits
        .iter()
        .any(|culprit| culprit.ranks == [rank]);
    is_true.then_some((0.0, late.most_us / account.wall_us))
}

/// What the report on this seed's job is worth, and a few lines about it.
pub fn judge(seed: u64, reader: Reader) -> (Scored, String) {
    let drawn = Drawn::new(seed);
    let outcome = drawn.play();
    let report = analyze::report(&outcome.played.capture_of(&drawn.evidence));
    let told = reader(&report);
    let still = match report.verdict.lead {
        Lead::LateHost => most_by_host(&report, &outcome),
        _ => analyze::summary::still_between(&report),
    };
    let steps = StepsAre::new(told_steps(&report), &outcome.played);
    let scored = score(&drawn, &outcome, told.as_ref(), still, steps);
    let mut lines = format!(
        "{seed}: {:?}: {drawn}; {:.2} s, {:.2} s without; {}\n",
        scored.verdict, outcome.played.seconds, outcome.plain, scored.evidence
    );
    for culprit in &outcome.culprits {
        lines += &format!("    true: {}: {:.3} s\n", culprit.cause, culprit.loss);
    }
    lines += &format!("    steps: {steps:?}, {:?}\n", told_steps(&report));
    lines += &format!("    told: {told:?}, still: {still:.3?}\n");
    lines += &format!("    lead: {:?}\n", report.verdict.lead);
    if let Some(late) = report
        .account
        .as_ref()
        .and_then(|account| account.late_host)
    {
        lines += &format!("    host at most: {late:?}\n");
    }
    if let Some(account) = &report.account {
        lines += &known(account);
    }
    for finding in &report.findings {
        let loss = finding.wall_us().unwrap_or(0.0) / 1e6;
        let (kind, cause) = (finding.kind(), finding.cause);
        lines += &format!("    found: {kind:?}, {cause:?}: {loss:.3} s\n");
    }
    (scored, lines)
}

/// Judges the reports of all these seeds, on all cores. Beside the matrix, there are the lines of each seed
/// by number, and whether its report is right.
pub fn judge_all(seeds: Range<u64>, reader: Reader) -> (Matrix, Vec<(u64, bool, String)>) {
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
                let (scored, lines) = judge(seed, reader);
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
