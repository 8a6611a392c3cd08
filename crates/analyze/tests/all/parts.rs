//! A report is the same bytes however the capture is read: whole or in parts, on one thread or several.

#[path = "../../../tables/examples/synthesize/job.rs"]
mod job;

use tables::source::ReadOptions;
use tables::{Capture, Process, ReadProgress, Source};

fn written(report: &analyze::Report) -> String {
    format!("{report:#?}")
}

#[test]
fn the_same_capture_gives_the_same_report_however_it_is_read() {
    for stamps in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        job::write(folder.path(), 3, 12_000, stamps).expect("written");
        let capture = Capture::open(folder.path()).expect("a capture");
        let tickets = |p: &Process| p.calls.iter().map(|c| c.ticket).collect::<Vec<_>>();
        for process in &capture.processes {
            assert_eq!(tickets(process), (0..12_000).collect::<Vec<u64>>());
        }
        let whole = written(&analyze::report(&capture));
        for threads in [1, 2, 5] {
            for (few, part) in [(1 << 20, 1 << 20), (0, 1 << 20), (0, 3_000), (0, 500)] {
                let how = ReadOptions {
                    threads,
                    whole: few,
                    part,
                    ..ReadOptions::default()
                };
                let progress = ReadProgress::default();
                let source = Source::open_as(folder.path(), &progress, how).expect("a capture");
                let report = analyze::report_from(source, None, &progress);
                assert_eq!(written(&report), whole, "{how:?}, stamps {stamps}");
            }
        }
    }
}
