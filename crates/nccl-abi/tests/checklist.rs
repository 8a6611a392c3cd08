//! A new ABI version is a file `src/vN.rs` of this crate. This test then says what else has to know it.
//!
//! [`PLACES`] are all files that name the newest version in code. Each must name it; so with a new version,
//! the failure is the list of what is to be done. No other file may name it: what asks for all versions asks
//! [`nccl_abi::NEWEST`].

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files from the root of the repository, and a text that each must have; @ stands for the newest version.
const PLACES: [(&str, &str); 18] = [
    // Layouts, and what a release looks up.
    (
        "crates/nccl-abi/src/v@.rs",
        "plugin_struct!(\"ncclProfiler_v@\")",
    ),
    ("crates/nccl-abi/src/lib.rs", "pub mod v@;"),
    ("crates/nccl-abi/src/lib.rs", "\"ncclProfiler_v@\","),
    ("crates/nccl-abi/src/release.rs", ", @),"),
    // The recorder.
    ("crates/recorder/src/abi.rs", "mod v@;"),
    ("crates/recorder/src/abi/v@.rs", "ncclProfiler_v@,"),
    (
        "crates/recorder/tests/all/job/mod.rs",
        "static ncclProfiler_v@:",
    ),
    // Plugins for tests and measurements.
    ("crates/empty-plugin/src/lib.rs", "version!(v@,"),
    (
        "crates/fake-nccl/examples/log_plugin.rs",
        "version! { v@, @,",
    ),
    // fake-nccl, which writes descriptors byte by byte.
    (
        "crates/fake-nccl/src/event/descr.rs",
        "size_of::<v@::Descr>()",
    ),
    (
        "crates/fake-nccl/src/event/descr.rs",
        "self.v@(event, parent, rank)",
    ),
    (
        "crates/fake-nccl/src/event/offsets.rs",
        "(@, event::COLL) =>",
    ),
    // Readers of recorded callbacks.
    ("crates/render/src/fields.rs", "v@ @ => coll:"),
    // Words.
    ("crates/recorder/src/lib.rs", "v1 to v@"),
    (
        "docs/reference/conformance.md",
        "`ncclProfiler_v1` to `ncclProfiler_v@`",
    ),
    ("docs/reference/support.md", "| v@ |"),
    ("ARCHITECTURE.md", "v1 to v@"),
    ("CHANGELOG.md", "profiler ABI v1 to v@"),
];

/// Files that name the newest version for a reason of their own, and need no change with a new one.
const NOT_PLACES: [&str; 4] = [
    // What came with v7, in words.
    "crates/render/src/words/events.rs",
    // What all versions have.
    "crates/tables/src/events.rs",
    // A table without its newest symbols.
    "crates/fake-nccl/tests/all/chained.rs",
    "crates/nccl-abi/tests/static_tables.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The versions that have a file.
fn versions() -> BTreeSet<u8> {
    let files = fs::read_dir(root().join("crates/nccl-abi/src")).expect("the crate's sources");
    let version = |file: fs::DirEntry| {
        let name = file.file_name().into_string().ok()?;
        name.strip_prefix('v')?.strip_suffix(".rs")?.parse().ok()
    };
    files
        .filter_map(|file| version(file.expect("an entry")))
        .collect()
}

/// All files of Rust below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Whether code, and no comment, names a version.
fn names(text: &str, version: u8) -> bool {
    let words = [format!("v{version}"), format!("ncclProfiler_v{version}")];
    let range = format!("1..={version}");
    text.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default();
        let mut tokens = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        tokens.any(|token| words.iter().any(|word| word == token)) || code.contains(&range)
    })
}

#[test]
fn whatever_must_know_the_newest_version_knows_it() {
    let versions = versions();
    let newest = *versions.last().expect("versions");
    let all: Vec<u8> = versions.into_iter().collect();
    assert_eq!(
        all,
        (1..=newest).collect::<Vec<u8>>(),
        "a version without a file"
    );
    let n = newest.to_string();
    let lacks = |(file, text): &(&str, &str)| {
        let (file, text) = (file.replace('@', &n), text.replace('@', &n));
        let whole = fs::read_to_string(root().join(&file)).unwrap_or_default();
        (!whole.contains(&text)).then(|| format!("{file}: {text}"))
    };
    let missing: Vec<String> = PLACES.iter().filter_map(lacks).collect();
    assert!(
        missing.is_empty(),
        "ABI v{n} is not known everywhere. CONTRIBUTING.md has the steps. These lack something:\n{}",
        missing.join("\n")
    );
    assert_eq!(nccl_abi::NEWEST, newest);
    assert!(nccl_abi::release::ALL
        .iter()
        .any(|r| r.native_abi == newest));
}

#[test]
fn nothing_else_names_the_newest_version() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let n = nccl_abi::NEWEST;
    let known: BTreeSet<String> = PLACES
        .iter()
        .map(|(file, _)| file.replace('@', &n.to_string()))
        .chain(NOT_PLACES.map(str::to_owned))
        .collect();
    let root = root();
    let others: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let name = file
                .strip_prefix(&root)
                .ok()?
                .to_string_lossy()
                .into_owned();
            // NCCL's tuner plugins have versions of their own.
            let is_other = name.contains("tuner") || name.ends_with("nccl-abi/tests/checklist.rs");
            let text = fs::read_to_string(file).ok()?;
            (!is_other && !known.contains(&name) && names(&text, n)).then_some(name)
        })
        .collect();
    assert!(
        others.is_empty(),
        "These name ABI v{n} in code. They can ask nccl_abi::NEWEST, or belong on the list: {others:#?}"
    );
}
