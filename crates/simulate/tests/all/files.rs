//! A simulated capture on disk is the one in memory.

use crate::judge::told;
use crate::watcher::{trial, watch, Judged};
use analyze::standstill::hang_from;
use simulate::hanging::{Story, HANGS, PAUSES};
use simulate::{files, Drawn, Kind, Told};
use std::collections::BTreeSet;
use tables::{ReadProgress, Source};

#[test]
fn a_capture_on_disk_says_what_the_one_in_memory_does() {
    // Of each kind, the first that has few ranks.
    let kinds = [Kind::Ddp, Kind::Tensor, Kind::Experts, Kind::Decode];
    for kind in kinds {
        let few = |drawn: &Drawn| drawn.shape.kind == kind && drawn.ranks <= 4 && drawn.hosts == 1;
        let drawn = (1..).map(Drawn::new).find(few).expect("one of them");
        let capture = drawn.play().played.capture_of(&drawn.evidence);
        let folder = tempfile::tempdir().expect("a folder");
        files::write(&capture, folder.path()).expect("written");
        let read = tables::Capture::open(folder.path()).expect("it opens");
        assert!(read.problems.is_empty(), "{drawn}: {:?}", read.problems);
        for (a, b) in capture.processes.iter().zip(&read.processes) {
            assert_eq!(a.calls.len(), b.calls.len(), "{drawn}");
            assert_eq!(a.windows.list.len(), b.windows.list.len(), "{drawn}");
            let ran =
                |p: &tables::Process| p.windows.list.iter().map(|w| w.ran.len()).sum::<usize>();
            assert_eq!(ran(a), ran(b), "{drawn}");
            assert_eq!(a.graphs.launched(), b.graphs.launched(), "{drawn}");
            for (a, b) in a.calls.iter().zip(&b.calls) {
                assert!(
                    a.driver_waited_ns.abs_diff(b.driver_waited_ns) < 64,
                    "{drawn}: {a:?} {b:?}"
                );
            }
            let launches = a.graphs.launches.iter().zip(&b.graphs.launches);
            for (a, b) in launches {
                let times =
                    |of: &tables::graphs::Launch| of.gpu.map(|(start, ns)| (start - of.at, ns));
                assert_eq!(times(a), times(b), "{drawn}: {a:?} {b:?}");
            }
        }
        // Times between two kernels are kept in units of 16 ns.
        let [memory, disk] = [&capture, &read].map(|of| told(&analyze::report(of)));
        let of = |told: &Option<Told>| told.clone().map(|told| (told.ranks, told.why));
        assert_eq!(of(&memory), of(&disk), "{drawn}");
        let loss = |told: &Option<Told>| told.as_ref().and_then(|told| told.loss).unwrap_or(0.0);
        let (a, b) = (loss(&memory), loss(&disk));
        // If fewer kernels of windows are joined with calls, the interval is wider.
        let interval = disk.and_then(|told| told.interval);
        let holds = interval.is_some_and(|(low, high)| (low..high).contains(&a));
        assert!((a - b).abs() <= 0.02 * a || holds, "{drawn}: {a} {b}");
    }
}

#[test]
fn a_job_that_runs_is_judged_on_disk_as_in_memory() {
    let seeds = (1..=HANGS.len() as u64).map(|seed| trial(seed, true));
    let healthy = (1..=PAUSES.len() as u64).map(|seed| trial(seed, false));
    let mut stories: BTreeSet<Story> = BTreeSet::new();
    let mut kinds: BTreeSet<&str> = BTreeSet::new();
    for trial in seeds.chain(healthy) {
        let seen = watch(&trial);
        let (at, conditions, told) = &seen.judged;
        let folder = tempfile::tempdir().expect("a folder");
        let stage = trial.play();
        let capture = trial
            .write_as_of(&stage, *at, folder.path())
            .expect("written");
        let verdict = (told.hang, told.kind, "what was said");
        files::look(&capture, trial.at_ns(*at), verdict, folder.path()).expect("written");
        let read = tables::Capture::open(folder.path()).expect("it opens");
        assert!(read.problems.is_empty(), "{trial}: {:?}", read.problems);
        let progress = ReadProgress::default();
        let source = Source::open(folder.path(), &progress).expect("it opens");
        let (hang, _) = hang_from(source, conditions, &progress);
        let mut on_disk = Judged::new(&hang);
        // In a pause, ranks may lack several calls at once. Which of them is told, and of whom, depends on
        // milliseconds. That it is no hang does not.
        if matches!(trial.story, Story::Pauses(_)) {
            on_disk = Judged {
                hang: on_disk.hang,
                ..told.clone()
            };
        }
        assert_eq!(&on_disk, told, "{}", seen.lines);
        let report = analyze::report(&read);
        let said = report.sightings.iter().map(|row| row.hang);
        assert_eq!(said.collect::<Vec<_>>(), [told.hang], "{trial}");
        stories.insert(trial.story);
        kinds.insert(told.kind);
    }
    assert_eq!(stories.len(), HANGS.len() + PAUSES.len());
    // What is compared differs from job to job.
    assert!(kinds.len() > 5, "{kinds:?}");
}
