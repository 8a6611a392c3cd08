//! What kernel windows of recorded jobs in `data/` say beside who is late.

use analyze::{report, Report};
use std::path::{Path, PathBuf};
use tables::Capture;

fn recorded(name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    data.join(name)
}

fn report_on(capture: &Path) -> Report {
    report(&Capture::open(capture).expect("it opens"))
}

/// The same files in a folder of their own.
fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copied(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

#[test]
fn a_job_that_mostly_communicates_without_nccl_is_told_so_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("job");
    copied(&recorded("decode_plain"), &capture);
    let before = report_on(&capture);
    assert!(!before.verdict.contains("NCCL's"), "{}", before.verdict);
    // The job's matrix products stand for a library that the report does not know.
    std::fs::write(
        capture.join(tables::communication::FILE),
        "# test\nnvjet our collectives\n",
    )
    .expect("written");
    let after = report_on(&capture);
    let begins = "Most of this job's communication is not NCCL's: ";
    assert!(after.verdict.starts_with(begins), "{}", after.verdict);
    let of = |report: Report| report.streams.expect("windows");
    let (before, after) = (of(before), of(after));
    assert_eq!(before.other_communication.len(), 0);
    assert_eq!(after.other_communication[0].library, "our collectives");
    for (before, after) in before.ranks.iter().zip(&after.ranks) {
        assert!(after.exposed.share > before.exposed.share + 0.2);
        assert!(after.computing.share < before.computing.share);
    }
    let is_ours = |kernel: &&analyze::streams::KernelRow| kernel.name.contains("nvjet");
    let ours: Vec<_> = after.kernels.iter().filter(is_ours).collect();
    assert!(!ours.is_empty() && ours.iter().all(|kernel| kernel.kind == "communication"));
}
