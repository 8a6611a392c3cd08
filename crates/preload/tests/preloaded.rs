//! The counter in a program that calls a mock of NCCL, opened at run time and linked.

use counter::{CallCount, CounterFile};
use std::path::{Path, PathBuf};
use std::process::Command;

fn built() -> PathBuf {
    let tests = std::env::current_exe().expect("a path");
    tests.ancestors().nth(2).expect("target/PROFILE").to_owned()
}

fn library() -> PathBuf {
    let places = ["deps", ""].map(|f| built().join(f).join("libncclscope_counter.so"));
    let found = places.iter().find(|p| p.is_file());
    found
        .unwrap_or_else(|| panic!("expected one of {places:?}"))
        .clone()
}

/// Runs the program; what each process counted, the parent first.
fn run(linked: bool, preload: bool, folder: &Path) -> Vec<CounterFile> {
    let examples = built().join("examples");
    // The name by which a libnccl is known.
    let nccl = folder.join("libnccl.so.2");
    std::fs::copy(examples.join("libmock_nccl.so"), &nccl).expect("copied");
    let counts = folder.join("counts");
    std::fs::create_dir_all(&counts).expect("made");
    let mut command = Command::new(examples.join("mock_program"));
    command
        .arg(&nccl)
        .env("RANK", "5")
        .env(counter::FOLDER, &counts);
    if linked {
        command.arg(examples.join("libmock_user.so"));
    }
    if preload {
        command.env("LD_PRELOAD", library());
    }
    let output = command.output().expect("started");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && printed == "ok\n",
        "{printed}{errors}"
    );
    let files = std::fs::read_dir(counts).expect("listed");
    let mut tables: Vec<CounterFile> = files
        .map(|f| {
            CounterFile::read(&std::fs::read(f.expect("a file").path()).expect("read"))
                .expect("sound")
        })
        .collect();
    tables.sort_by_key(|t| std::cmp::Reverse(t.rows.len()));
    tables
}

fn numbers(table: &CounterFile) -> Vec<(&'static str, u64, u64, u64)> {
    let mut rows: Vec<_> = table
        .rows
        .iter()
        .map(|r: &CallCount| (r.function, r.datatype_size, r.count, r.number))
        .collect();
    rows.sort_unstable();
    rows
}

#[test]
fn a_program_that_opens_nccl_is_counted_call_by_call_and_a_fork_for_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = run(false, true, folder.path());
    assert_eq!(tables.len(), 2);
    let expected = [
        ("AllGather", 2, 64, 1),
        ("AllReduce", 4, 256, 100),
        ("AlltoAll", 4, 64, 1),
    ];
    assert_eq!(numbers(&tables[0]), expected);
    assert_eq!(numbers(&tables[1]), [("AllReduce", 4, 512, 1)]);
    assert_ne!(tables[0].pid, tables[1].pid);
    let row = tables[0].rows[0];
    assert_eq!(
        (tables[0].rank, row.nranks, row.rank),
        (Some(5), 8, Some(3))
    );
}

#[test]
fn a_library_that_is_linked_with_nccl_is_counted_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = run(true, true, folder.path());
    assert!(numbers(&tables[0]).contains(&("AllReduce", 2, 1000, 20)));
    assert_eq!(numbers(&tables[0]).len(), 4);
}

#[test]
fn a_fork_during_the_first_count_leaves_the_child_free_to_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let examples = built().join("examples");
    let nccl = folder.path().join("libnccl.so.2");
    std::fs::copy(examples.join("libmock_nccl.so"), &nccl).expect("copied");
    let output = Command::new(examples.join("mock_program"))
        .arg(&nccl)
        .arg("--fork-in-first-count")
        // There is no such folder, which the counter says.
        .env(counter::FOLDER, folder.path().join("none"))
        .env("LD_PRELOAD", library())
        .output()
        .expect("started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
}

#[test]
fn a_file_that_the_program_opened_in_place_of_its_standard_error_gets_no_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let examples = built().join("examples");
    let nccl = folder.path().join("libnccl.so.2");
    std::fs::copy(examples.join("libmock_nccl.so"), &nccl).expect("copied");
    let own = folder.path().join("own");
    let run = |arguments: &[&Path]| {
        let output = Command::new(examples.join("mock_program"))
            .arg(&nccl)
            .args(arguments)
            .env(counter::FOLDER, folder.path().join("none"))
            .env("LD_PRELOAD", library())
            .output()
            .expect("started");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(run(&[]).starts_with("ncclscope counter: can't count in"));
    assert_eq!(run(&[Path::new("--own-error-file"), &own]), "");
    assert_eq!(std::fs::read_to_string(own).expect("read"), "");
}

#[test]
fn without_the_library_nothing_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(run(false, false, folder.path()).is_empty());
}
