//! Recorded jobs with every kind of damage: every reader says what is sound and what isn't, and none panics
//! or spins.
//!
//! `NCCLSCOPE_DAMAGE_CASES` and `NCCLSCOPE_DAMAGE_SEED` make a long run of it (`make damage`); what it found
//! lies as seeds in [`FOUND`].

use crate::readers::{Damage, Files};
use nix::time::{clock_gettime, ClockId};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

const JOBS: [&str; 5] = [
    "graph_host_228",
    "threads_228",
    "calls_228",
    "zero_cta_232",
    "symmetric_230",
];

/// Jobs in the newest format; those above are of format 1.
const NEWEST: [&str; 2] = [
    "crates/tables/tests/format2/events",
    "crates/tables/tests/format2/graphs",
];

/// Seeds that once made a reader fail.
const FOUND: [u64; 3] = [3266, 1011659, 5000667];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

struct Jobs(Vec<Files>);

impl Jobs {
    fn read(names: &[&str]) -> Jobs {
        Jobs(
            names
                .iter()
                .map(|name| crate::readers::recorded(name))
                .collect(),
        )
    }

    /// Damages a job as the seed says and reads it; the processor time of this process meanwhile.
    fn damaged(&self, seed: u64) -> Duration {
        let mut damage = Damage::new(seed);
        let mut files = self.0[damage.below(self.0.len())].clone();
        let other = &self.0[damage.below(self.0.len())];
        let mut done = Vec::new();
        for _ in 0..=damage.below(4) {
            done.push(damage.files(&mut files, other));
        }
        let folder = tempfile::tempdir().expect("a folder");
        crate::readers::write(&files, folder.path());
        let began = processor_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            crate::readers::read(folder.path());
        }));
        assert!(outcome.is_ok(), "seed {seed}: {done:#?}");
        processor_time() - began
    }
}

/// What this process has used so far. A busy machine does not change it as it does wall time.
fn processor_time() -> Duration {
    let clock = ClockId::CLOCK_PROCESS_CPUTIME_ID;
    clock_gettime(clock).expect("Linux has it").into()
}

#[test]
fn damage_of_any_kind_is_read_in_bounded_time_without_a_panic() {
    let (jobs, newest) = (Jobs::read(&JOBS), Jobs::read(&NEWEST));
    let first = number("NCCLSCOPE_DAMAGE_SEED").unwrap_or(1);
    let cases = number("NCCLSCOPE_DAMAGE_CASES").unwrap_or(40);
    let mut slowest = (Duration::ZERO, 0);
    for seed in FOUND.into_iter().chain(first..first + cases) {
        let took = jobs.damaged(seed).max(newest.damaged(seed));
        slowest = slowest.max((took, seed));
        // The sound ones take some 0.1 s in a debug build, and other tests run beside it.
        assert!(took < Duration::from_secs(30), "seed {seed} took {took:?}");
    }
    eprintln!(
        "{cases} damaged captures read; the slowest, seed {}, took {:?}",
        slowest.1, slowest.0
    );
}

#[test]
fn a_trace_file_with_a_flipped_bit_gives_the_same_calls_or_says_what_is_wrong() {
    ["threads_228", NEWEST[0]].into_iter().for_each(flipped);
}

/// Flips bits of a job's trace file, one at a time.
fn flipped(job: &str) {
    let sound = crate::readers::recorded(job);
    let calls = |files: &Files| {
        let folder = tempfile::tempdir().expect("a folder");
        crate::readers::write(files, folder.path());
        let capture = tables::Capture::open(folder.path()).ok()?;
        let calls: Vec<String> = capture
            .rows()
            .map(|row| {
                let values = tables::calls::COLUMNS.iter().map(|c| (c.value)(&row));
                format!("{:?}", values.collect::<Vec<_>>())
            })
            .collect();
        Some((calls, capture.problems.len()))
    };
    let (expected, problems) = calls(&sound).expect("sound");
    assert_eq!(problems, 0);
    let name = sound
        .keys()
        .find(|n| n.ends_with(".trace"))
        .expect("a trace file")
        .clone();
    let mut damage = Damage::new(7);
    let mut named = 0;
    for _ in 0..60 {
        let mut files = sound.clone();
        let trace = files.get_mut(&name).expect("there");
        let at = damage.below(trace.len());
        let bit = damage.below(8);
        trace[at] ^= 1 << bit;
        match calls(&files) {
            None => named += 1,
            Some((found, 0)) => assert!(found == expected, "byte {at}, bit {bit}"),
            Some(_) => named += 1,
        }
    }
    // Only padding between blocks can change unseen.
    assert!(named > 50, "{named} of 60 flips were named");
}

#[test]
fn one_damaged_process_costs_the_others_nothing() {
    let sound = crate::readers::recorded("calls_228");
    let traces: Vec<String> = sound
        .keys()
        .filter(|n| n.ends_with(".trace"))
        .cloned()
        .collect();
    assert_eq!(traces.len(), 4);
    for name in &traces {
        let mut files = sound.clone();
        files.get_mut(name).expect("there").truncate(40);
        files.remove(&name.replace(".trace", ".snap"));
        let folder = tempfile::tempdir().expect("a folder");
        crate::readers::write(&files, folder.path());
        let outputs = crate::readers::read(folder.path()).expect("three are sound");
        let calls: usize = outputs
            .capture
            .processes
            .iter()
            .map(|p| p.calls.len())
            .sum();
        assert_eq!(calls, 120);
        assert!(outputs
            .capture
            .problems
            .iter()
            .any(|p| name.ends_with(p.file.file_name().and_then(|n| n.to_str()).unwrap_or("-"))));
        assert!(outputs.text.contains("Problems"), "{}", outputs.text);
    }
}

#[test]
fn what_the_fuzzer_is_begun_with_is_read_without_a_panic() {
    let corpus = crate::readers::corpus("damaged");
    assert!(corpus.len() > 10, "{} inputs", corpus.len());
    for (name, input) in corpus {
        let folder = tempfile::tempdir().expect("a folder");
        crate::readers::write(&crate::readers::of_input(&input), folder.path());
        let read = catch_unwind(AssertUnwindSafe(|| crate::readers::read(folder.path())));
        assert!(read.is_ok(), "{name}");
    }
}
