//! What an NCCL profiler plugin must bear and do, line by line: the checklist of
//! docs/reference/conformance.md.
//!
//! A test `line_07_…` shows line 7. Most tests play a job in a child process. That is either an ignored test
//! of this binary ([`job!`]), which calls the tables in the rlib, or fake-nccl with the built plugin
//! ([`playing`]). The parent then reads the capture that was left ([`reading`]).
//!
//! Rule: every number that is compared was counted on the calling side ([`comm`]).

#[path = "../all/job/mod.rs"]
mod job;

/// A job: the ignored test `$test` of the same module plays it, in a process of its own.
macro_rules! job {
    ($test:ident) => {{
        // A job that no test plays would do nothing, with success.
        let _: fn() = $test;
        crate::job::Job::new(module_path!(), stringify!($test))
    }};
}

mod comm;
mod playing;
mod reading;

mod callbacks;
mod descriptors;
mod handles;
mod lifetime;
mod loading;
mod operations;
mod times;

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_line_of_the_page_names_tests_that_are_there() {
    let page = include_str!("../../../../docs/reference/conformance.md");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources = [
        "recorder/tests/conformance/loading.rs",
        "recorder/tests/conformance/lifetime.rs",
        "recorder/tests/conformance/descriptors.rs",
        "recorder/tests/conformance/handles.rs",
        "recorder/tests/conformance/callbacks.rs",
        "recorder/tests/conformance/times.rs",
        "recorder/tests/conformance/operations.rs",
        "recorder/tests/all/ends.rs",
        "recorder/tests/all/model.rs",
        "recorder/tests/all/pins.rs",
        "recorder/src/lock.rs",
        "tables/src/trust.rs",
    ];
    let sources = sources.map(|s| std::fs::read_to_string(root.join(s)).expect("read"));
    let items = fake_nccl::check::ITEMS.iter().map(|i| i.word);
    let faults = fake_nccl::script::FAULTS.iter().map(|f| f.1);
    let words: BTreeSet<&str> = items.chain(faults).collect();
    let mut lines = 0;
    for row in page.lines().filter(|l| l.starts_with("| ")).skip(1) {
        lines += 1;
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells[0], lines.to_string());
        let named: Vec<&str> = cells[2].split('`').skip(1).step_by(2).collect();
        assert!(named.iter().any(|n| n.starts_with("line")), "{row}");
        for name in named.into_iter().filter(|n| !n.contains('/')) {
            let test = sources.iter().any(|s| s.contains(&format!("fn {name}()")));
            let story = root.join(format!("cli/tests/stories/{name}.story"));
            assert!(
                test || words.contains(name) || story.is_file(),
                "no test {name}"
            );
        }
    }
    assert_eq!(lines, 38);
}
