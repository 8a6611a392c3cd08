//! Jobs that are watched while they run: who is named when a rank becomes late, and that nobody else is.
//!
//! The run stands for the minute at which `ncclscope top` looks. A fault that begins at four fifths of it is
//! 12 s old at the end, and one that begins at two thirds of it 20 s.

use analyze::live::{judge, Live};
use simulate::{Cause, Does, Drawn, When};

/// Of a hundred jobs, those in which the late rank is named. It may only go up.
const RIGHT: usize = 82;
/// Likewise, those in which somebody else is, in one of two looks. It may only go down.
const WRONG: usize = 5;
/// Jobs of more ranks take long to play.
const MOST_RANKS: usize = 16;

/// Who is blamed.
#[derive(Debug)]
struct Named {
    ranks: Vec<u32>,
    /// Only the newest part of the run says so.
    is_recent: bool,
}

/// Who is blamed at the end of a job with these causes.
fn named(drawn: &Drawn, causes: &[Cause]) -> Option<Named> {
    let mut capture = drawn.play_by(causes).capture_of(&drawn.evidence);
    judge(&mut capture, |_, live: &Live| {
        let ranks = &live.finding()?.subject.ranks;
        Some(Named {
            ranks: ranks.iter().filter_map(|id| id.process.rank).collect(),
            is_recent: live.recent_s.is_some(),
        })
    })
}

/// Jobs of which all ranks and their GPU times are there.
fn jobs(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Drawn> {
    let all = seeds.map(Drawn::new);
    let is_wanted = |drawn: &Drawn| {
        let evidence = &drawn.evidence;
        evidence.absent.is_none() && evidence.events && drawn.ranks <= MOST_RANKS
    };
    all.filter(is_wanted)
}

#[test]
fn a_rank_that_becomes_late_is_named() {
    let (mut right, mut wrong, mut recent, mut all) = (0, 0, 0, 0);
    for drawn in jobs(1..60) {
        let plain = drawn.play_by(&[]).seconds;
        let step_us = 1e6 * plain / drawn.steps as f64;
        let rank = drawn.seed as usize % drawn.ranks;
        let cause = |when| Cause {
            rank,
            does: Does::Extra(0.5 * step_us),
            when,
        };
        // What costs nothing, because others are still later, need not be told.
        let costs = drawn.play_by(&[cause(When::Always)]).seconds - plain;
        if costs < 0.2 * plain {
            continue;
        }
        all += 1;
        // `top` looks again and again.
        let looks = [0.8, 0.6667].map(|since| named(&drawn, &[cause(When::Part(since, 1.0))]));
        let is_right = |of: &Named| of.ranks.contains(&(rank as u32));
        let named: Vec<&Named> = looks.iter().flatten().collect();
        if let Some(first) = named.iter().find(|of| is_right(of)) {
            right += 1;
            recent += usize::from(first.is_recent);
        }
        let is_wrong = named.iter().any(|of| !is_right(of));
        wrong += usize::from(is_wrong);
        if is_wrong || named.is_empty() {
            println!("{}: {drawn}: {looks:?} for {rank}", drawn.seed);
        }
    }
    println!("{right} of {all} named, {recent} by the newest part alone; {wrong} others");
    assert!(right * 100 >= all * RIGHT, "{right} of {all}");
    assert!(wrong * 100 <= all * WRONG, "{wrong} of {all}");
    // Without that part, few are.
    assert!(recent * 2 > right, "{recent} of {right}");
}

/// The report blames a stage of some healthy pipelines, and that is not judged here.
#[test]
fn the_newest_part_of_a_healthy_job_blames_nobody() {
    for drawn in jobs(1..60) {
        let found = named(&drawn, &[]);
        let is_recent = found.as_ref().is_some_and(|of| of.is_recent);
        assert!(!is_recent, "{}: {drawn}: {found:?}", drawn.seed);
    }
}
