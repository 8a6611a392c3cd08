//! Findings are facts: no code reads their sentences back.

use std::path::{Path, PathBuf};

/// What code that compares or splits a sentence looks like.
const READS: [&str; 10] = [
    "sentence.starts_with(",
    "sentence.startsWith(",
    "sentence.startswith(",
    "sentence.split",
    "sentence.contains(",
    "sentence.includes(",
    "sentence ==",
    "sentence !=",
    "\"sentence\"] ==",
    " in found[\"sentence\"]",
];

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        if path.is_dir() && !matches!(name, "tests" | "target") {
            sources(&path, all);
        } else if [".rs", ".py", ".js"].iter().any(|end| name.ends_with(end)) && name != "tests.rs"
        {
            all.push(path);
        }
    }
}

#[test]
fn no_code_compares_or_splits_the_sentence_of_a_finding() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for folder in ["crates", "python/ncclscope", "bench", "examples"] {
        sources(&root.join(folder), &mut all);
    }
    assert!(all.len() > 300, "{}", all.len());
    let mut found = Vec::new();
    for path in all {
        let text = std::fs::read_to_string(&path).expect("a source");
        // Unit tests may read what is printed.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        let reads = |line: &&str| READS.iter().any(|read| line.contains(read));
        found.extend(
            code.lines()
                .filter(reads)
                .map(|l| format!("{}: {l}", path.display())),
        );
    }
    assert_eq!(found, [""; 0]);
}
