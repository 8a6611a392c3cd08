//! Where NCCL is: in a library, in several, or in the program itself.

use crate::job::{examples, start_within, stripped, Job};
use crate::session::{attached, during, during_with, read};
use attach::{Options, Targets};
use std::io::Write;
use std::path::Path;
use std::process::Command;

#[test]
fn each_of_several_copies_of_the_library_is_recorded() {
    let mut job = Job::start();
    // A copy that has another name: what counts is what a library exports.
    let other = job.folder.path().join("libinference-engine.so");
    std::fs::copy(examples().join("libfake_nccl.so"), &other).expect("copied");
    job.tell("load");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during_with(&mut session, &mut job, |job, probed| {
        job.tell("loop 1 100");
        job.tell(&format!("also {}", other.display()));
        probed(1, 2);
        job.tell("loop 1 50");
    });
    let summary = session.finish();
    assert_eq!(summary.processes[0].counts.all(), 150);
    let libraries = &summary.libraries;
    let paths: Vec<&str> = libraries.iter().map(|l| l.path.as_str()).collect();
    assert_eq!(paths.len(), 2);
    assert_eq!(paths[1], other.to_str().expect("text"));
    // Both are one build.
    assert_eq!(libraries[0].build_id, libraries[1].build_id);
    assert!(libraries[0].build_id.len() >= 16, "{libraries:?}");
    let capture = read(&job.capture());
    let build = capture.processes[0].fact("nccl_build_id");
    assert_eq!(build, Some(libraries[0].build_id.as_str()));
}

#[test]
fn a_library_is_read_without_the_probes_of_another_session() {
    if !attach::processes::sees_all() {
        return eprintln!("skipped: a container has process numbers of its own");
    }
    let mut job = Job::loaded();
    let all = Options {
        targets: Targets::All,
        folder: job.folder.path().join("all"),
        ..job.options()
    };
    let Some(_other) = attached(all) else {
        return;
    };
    let mut session = attached(job.options()).expect("as the other one");
    assert_eq!(session.libraries()[0].slow, [""; 0]);
    during(&mut session, &mut job, |job| job.tell("loop 1 10"));
    assert_eq!(session.finish().processes[0].counts.all(), 10);
}

#[test]
fn a_program_that_links_nccl_statically_is_recorded() {
    let mut command = Command::new(examples().join("fake_static"));
    let mut job = start_within(&mut command, "");
    job.tell("loop 10");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 1234"));
    let summary = session.finish();
    assert_eq!(summary.processes[0].counts.all(), 1234);
    let path = examples().join("fake_static");
    assert_eq!(summary.libraries[0].path, path.to_str().expect("text"));
}

#[test]
fn a_stripped_program_says_what_it_needs_and_is_recorded_with_its_symbols() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = examples().join("fake_static");
    for id in [true, false] {
        let more: &[&str] = if id {
            &[]
        } else {
            &["-R", ".note.gnu.build-id"]
        };
        let arguments = [&["-s"], more].concat();
        let Some(program) = stripped(folder.path(), "strip", &arguments) else {
            return;
        };
        // Another build has other code; the program itself has no symbols; the third is the right one.
        let wrong = examples().join("fake_job");
        for (symbols, works) in [
            (vec![], false),
            (vec![wrong.clone(), program.clone()], false),
            (vec![wrong, whole.clone()], true),
        ] {
            let mut job = start_within(&mut Command::new(&program), "");
            job.tell("loop 1");
            let options = Options {
                symbols,
                ..job.options()
            };
            let Some(mut session) = attached(options.clone()) else {
                return;
            };
            during(&mut session, &mut job, |job| job.tell("loop 1234"));
            let troubles = session.troubles().concat();
            let summary = session.finish();
            let made: u64 = summary.processes.iter().map(|p| p.counts.all()).sum();
            assert_eq!(made, if works { 1234 } else { 0 }, "{troubles}");
            assert_eq!(
                troubles.contains("NCCL 2.99.1 built in"),
                !works,
                "{troubles}"
            );
            assert_eq!(troubles.contains("--symbols"), !works, "{troubles}");
            let others = if options.symbols.len() == 2 && !works {
                1
            } else {
                0
            };
            assert_eq!(
                troubles.matches("another build").count(),
                others,
                "{troubles}"
            );
        }
    }
}

#[test]
fn a_debug_file_is_found_by_build_id_also_where_only_the_process_sees_it() {
    const FOLDER: &str = "/usr/lib/debug";
    if !Path::new(FOLDER).is_dir() {
        return eprintln!("skipped: no {FOLDER}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = stripped(folder.path(), "strip", &["-s"]) else {
        return;
    };
    let whole = examples().join("fake_static");
    let mut job = start_within(&mut Command::new(&whole), "");
    job.tell("loop 1");
    let Some(session) = attached(job.options()) else {
        return;
    };
    let id = session.finish().libraries[0].build_id.clone();
    let (first, rest) = id.split_at(2);
    let script = format!(
        "mount -t tmpfs none {FOLDER} && mkdir -p {FOLDER}/.build-id/{first} && objcopy --only-keep-debug \
         {} {FOLDER}/.build-id/{first}/{rest}.debug && exec {}",
        whole.display(),
        program.display(),
    );
    let mut unshare = Command::new("unshare");
    let mut job = start_within(unshare.args(["--mount", "sh", "-c", &script]), "");
    if writeln!(job.input, "loop 1").is_err() || job.answer() != "done" {
        return eprintln!("skipped: this machine gives no name spaces to a test");
    }
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 77"));
    assert_eq!(session.finish().processes[0].counts.all(), 77);
}

#[test]
fn a_library_that_was_removed_since_is_found() {
    let mut job = Job::loaded();
    std::fs::remove_file(job.folder.path().join("libnccl.so.2")).expect("removed");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 1 77"));
    assert_eq!(session.finish().processes[0].counts.all(), 77);
}
