//! Random callback programs at all seven ABIs: nothing crashes, no panic is caught, and every call is
//! accounted for.
//!
//! A case is a few programs (`program`), played in a child process by one thread each; the parent reads what
//! was left. Cases that failed once are kept by proptest beside this file. `fuzz/` runs the same programs
//! under a coverage-guided fuzzer with the address sanitizer, from the corpus that a test here plays too.

use crate::job::Job;
use capture::live::Odd;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

#[test]
#[ignore = "played by the tests below"]
fn job_random_programs() {
    let text = std::env::var("PROGRAMS").expect("set");
    let byte = |pair: &[u8]| {
        let digits = std::str::from_utf8(pair).expect("hex digits");
        u8::from_str_radix(digits, 16).expect("hex digits")
    };
    let programs = text.split(' ').filter(|p| !p.is_empty());
    let programs: Vec<Vec<u8>> = programs
        .map(|p| p.as_bytes().chunks(2).map(byte).collect())
        .collect();
    let announced: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = programs
            .iter()
            .map(|program| scope.spawn(|| crate::program::play(program)))
            .collect();
        let joined = threads.into_iter().map(|t| t.join());
        joined.map(|t| t.expect("no panic")).collect()
    });
    let least: u64 = announced.iter().map(|a| a.least).sum();
    let most: u64 = announced.iter().map(|a| a.most).sum();
    let out = std::env::var("ANNOUNCED").expect("set");
    std::fs::write(out, format!("{least} {most}")).expect("written");
    // SAFETY: ends the process as a job that destroys nothing does: some programs leave communicators open.
    unsafe { libc::exit(0) };
}

/// Plays the programs, and checks what they left.
fn check(programs: &[Vec<u8>], mode: &str, timing: &str) -> Result<(), TestCaseError> {
    let hex = |p: &Vec<u8>| p.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let text: Vec<String> = programs.iter().map(hex).collect();
    let counted = tempfile::NamedTempFile::new().expect("a file");
    let mut job = Job::new(module_path!(), "job_random_programs")
        .env("PROGRAMS", &text.join(" "))
        .env("ANNOUNCED", counted.path().to_str().expect("text"))
        .env("NCCLSCOPE_MODE", mode)
        .env("NCCLSCOPE_TIMING", timing)
        .env("NCCLSCOPE_MEMORY", "1MiB");
    let (status, said) = job.run_saying();
    prop_assert!(status.success(), "{status}: {said}");
    let counted = std::fs::read_to_string(counted.path()).expect("written");
    let mut counted = counted
        .split(' ')
        .map(|n| n.parse::<u64>().expect("a number"));
    let (least, most) = (counted.next().unwrap_or(0), counted.next().unwrap_or(0));
    let capture = job.capture();
    prop_assert_eq!(&capture.problems, &[]);
    prop_assert_eq!(capture.processes.len(), 1);
    let counters = capture.processes[0].counters.as_ref();
    prop_assert_eq!(
        counters.map(|c| c.odd[Odd::Panic as usize]),
        Some(0),
        "{}",
        said
    );
    let c = analyze::report(&capture).completeness;
    let lost: u64 = c.lost.values().sum();
    prop_assert!(c.adds_up && c.recorded + lost == c.announced, "{c:#?}");
    prop_assert!(
        (least..=most).contains(&c.announced),
        "{least} to {most} announced: {c:#?}"
    );
    Ok(())
}

#[test]
fn what_the_fuzzer_is_begun_with_breaks_nothing_and_loses_nothing() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/callbacks");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("a corpus")
        .map(|file| file.expect("listed").path())
        .collect();
    files.sort();
    assert!(files.len() > 10, "{} programs", files.len());
    let programs: Vec<_> = files
        .iter()
        .map(|file| std::fs::read(file).expect("read"))
        .collect();
    for (i, programs) in programs.chunks(4).enumerate() {
        let timing = ["host", "stamps"][i % 2];
        let result = check(programs, "trace", timing);
        assert!(
            result.is_ok(),
            "{:?}: {result:?}",
            &files[4 * i..4 * i + programs.len()]
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // A child process each.
        cases: std::env::var("NCCLSCOPE_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(48),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        // A step is a process; what is left is small enough to look at.
        max_shrink_iters: 100,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_programs_break_nothing_and_lose_nothing(
        programs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..5),
        mode in prop::sample::select(vec!["trace", "profile", "full", "callbacks"]),
        timing in prop::sample::select(vec!["host", "stamps"]),
    ) {
        check(&programs, mode, timing)?;
    }
}
