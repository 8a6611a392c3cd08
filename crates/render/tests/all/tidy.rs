//! Facts are not words: `analyze` has no text for people, and no code reads sentences back. Times have a
//! type, so only its module converts units.

use std::collections::{BTreeMap, BTreeSet};
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

/// The strings in this code, without comments, and without what `expect` says of a bug; what a backslash
/// joins is one.
fn strings(code: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code: Vec<&str> = code.lines().filter(is_code).collect();
    let code = code.join("\n").replace("'\"'", "");
    let mut all = Vec::new();
    let mut rest = code.as_str();
    while let Some((before, behind)) = rest.split_once('"') {
        let mut text = String::new();
        let mut behind = behind.chars();
        while let Some(c) = behind.next().filter(|c| *c != '"') {
            text.push(c);
            if c == '\\' {
                text.extend(behind.next());
            }
        }
        rest = behind.as_str();
        if !before.trim_end().ends_with(".expect(") {
            all.push(text);
        }
    }
    all
}

/// How many words are in a string, without what is filled in.
fn words(text: &str) -> usize {
    let filled = text.split('{').enumerate().map(|(at, part)| match at {
        0 => part,
        _ => part.split_once('}').map_or("", |(_, behind)| behind),
    });
    let text: Vec<&str> = filled.collect();
    let text = text.join(" ");
    let has_letter = |word: &&str| word.chars().any(char::is_alphabetic);
    text.split_whitespace().filter(has_letter).count()
}

/// Texts that stay in `analyze`: the file, how they begin (all of the file if that is empty), and why.
const STAY: [(&str, &str, &str); 12] = [
    ("bandwidth.rs", "", "errors"),
    ("clocks/given.rs", "", "errors of a file that a user wrote"),
    ("diff.rs", "ratio = B / A", "a formula"),
    ("diff/verdict.rs", "expected ", "errors of an option"),
    ("environment.rs", "nodes of ", "the key of a fact"),
    (
        "estimate.rs",
        "measured at ",
        "what a formula was fitted to",
    ),
    (
        "hang/decide.rs",
        "launch {}",
        "stands for the name of a function",
    ),
    ("models.rs", "{} sizes", "what a formula was fitted to"),
    ("models.rs", "; {", "what a formula was fitted to"),
    (
        "roles.rs",
        "",
        "names of ways to pair roles, as JSON has them",
    ),
    (
        "spans.rs",
        "",
        "errors of an option, and the names of parts of a run",
    ),
    ("streams/kinds.rs", "", "names of libraries"),
];

/// The sources of `analyze` by their paths in it, without their tests.
fn code_of_analyze() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../analyze/src");
    let mut all = Vec::new();
    sources(&root, &mut all);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        let file = path.strip_prefix(&root).expect("inside");
        (file.display().to_string(), code.to_owned())
    };
    all.into_iter().map(read).collect()
}

#[test]
fn analyze_has_no_sentences() {
    let all = code_of_analyze();
    assert!(all.len() > 80, "{}", all.len());
    let mut found = Vec::new();
    let mut unused: BTreeSet<(&str, &str, &str)> = STAY.into_iter().collect();
    for (file, code) in all {
        for text in strings(&code).into_iter().filter(|text| words(text) >= 5) {
            let stays = |of: &&(&str, &str, &str)| of.0 == file && text.starts_with(of.1);
            match STAY.iter().find(stays) {
                Some(of) => {
                    unused.remove(of);
                }
                None => found.push(format!("{file}: {text}")),
            }
        }
    }
    assert_eq!(found, [""; 0], "words for people belong into render");
    assert_eq!(unused, BTreeSet::new(), "exceptions that are over");
}

/// Whether a line multiplies or divides by the ratio of two units of time.
fn converts(line: &str) -> bool {
    let ratios = ["1e3", "1e6", "1e9", "1e-3", "1e-6", "1e-9"];
    let by = |ratio: &&str| {
        let signs = ["* ", "/ "].iter();
        let [before, after] = [format!("{ratio} * "), format!("{ratio} / ")];
        let mut behind = signs.map(|sign| format!("{sign}{ratio}"));
        line.contains(&before) || line.contains(&after) || behind.any(|by| line.contains(&by))
    };
    !line.trim_start().starts_with("//") && ratios.iter().any(by)
}

#[test]
fn one_module_of_analyze_converts_units_of_time() {
    let mut found = Vec::new();
    for (file, code) in code_of_analyze() {
        let module = file.split('/').next().unwrap_or(&file);
        let module = module.trim_end_matches(".rs");
        for line in code.lines().filter(|line| converts(line)) {
            if module != "time" {
                found.push(format!("{file}: {line}"));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn conversions_are_found_in_code() {
    for line in [
        "ns as f64 / 1e3",
        "let s = 1e-9 * ns;",
        "(us * 1e3)",
        "1e6 / x",
    ] {
        assert!(converts(line), "{line}");
    }
    for line in ["// ns / 1e3", "x * 1e4", "const GB: f64 = 1e9;"] {
        assert!(!converts(line), "{line}");
    }
}

#[test]
fn strings_are_found_in_code() {
    let code =
        "/// A \"comment\".\nlet a = (\"one\", '\"', \"two \\\"2\\\"\").expect(\"a bug\");\n";
    assert_eq!(strings(code), ["one", "two \\\"2\\\""]);
    assert_eq!(words("no {what} in {} is – here \\\n now"), 5);
}

/// The modules of a folder, and which others each of them names behind `from`: `crate::` for those of a
/// crate, `super::` for the children of a module, which are looked at without their own children.
fn uses(source: &Path, from: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut files = Vec::new();
    sources(source, &mut files);
    let module = |path: &Path| {
        let inside = path.strip_prefix(source).expect("inside");
        let first = inside.iter().next().expect("a name").to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    };
    if from == "super::" {
        files.retain(|path| path.parent() == Some(source));
    }
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in &files {
        let text = std::fs::read_to_string(path).expect("a source");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        let lines = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        let used = all.entry(module(path)).or_default();
        for rest in code.split(from).skip(1) {
            // `crate::a::B`, or `crate::{a::B, c}`.
            let list = match rest.strip_prefix('{') {
                Some(list) => list.split(';').next().unwrap_or(""),
                None => rest
                    .split(|c: char| c != '_' && !c.is_alphanumeric())
                    .next()
                    .unwrap_or(""),
            };
            let names = list.split(|c: char| c != '_' && !c.is_alphanumeric());
            used.extend(names.map(str::to_owned));
        }
    }
    all.remove("lib");
    let names: BTreeSet<String> = all.keys().cloned().collect();
    for (name, used) in &mut all {
        used.retain(|of| of != name && names.contains(of));
    }
    all
}

/// A way from a module back to itself, if there is one.
fn circle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    // Modules that use no module that is left are in no circle.
    let mut left = uses.clone();
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        let before = left.len();
        left.retain(|_, used| used.iter().any(|of| names.contains(of)));
        if left.len() == before {
            break;
        }
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let used = &left[way.last().expect("one")];
        let next = used
            .iter()
            .find(|of| left.contains_key(*of))
            .expect("one is left")
            .clone();
        if let Some(at) = way.iter().position(|of| *of == next) {
            way.drain(..at);
            way.push(next);
            return Some(way);
        }
        way.push(next);
    }
}

#[test]
fn modules_of_analyze_and_render_have_no_circles() {
    for name in ["analyze", "render"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{name}/src"));
        let uses = uses(&source, "crate::");
        assert!(
            uses.len() > 50 && uses.values().any(|used| used.len() > 5),
            "{uses:?}"
        );
        assert_eq!(circle(&uses), None, "in {name}");
    }
}

#[test]
fn children_of_large_modules_have_no_circles() {
    for name in ["arrivals", "findings", "streams"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../analyze/src/{name}"));
        let uses = uses(&folder, "super::");
        assert!(uses.len() > 8, "{uses:?}");
        assert_eq!(circle(&uses), None, "in {name}");
    }
}

#[test]
fn a_circle_is_found() {
    let uses = |all: &[(&str, &[&str])]| {
        let all = all.iter().map(|(name, used)| {
            let used = used.iter().map(|of| (*of).to_owned()).collect();
            ((*name).to_owned(), used)
        });
        all.collect::<BTreeMap<String, BTreeSet<String>>>()
    };
    assert_eq!(
        circle(&uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])),
        None
    );
    let way = circle(&uses(&[
        ("a", &["b"]),
        ("b", &["c"]),
        ("c", &["b", "d"]),
        ("d", &[]),
    ]));
    assert_eq!(way.expect("a circle"), ["b", "c", "b"]);
}
