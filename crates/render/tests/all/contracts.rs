//! Names of findings are written once, in `crates/analyze/src/findings/facts.rs`: the schemas of JSON and the
//! classes of Python list the same names.
//!
//! `NCCLSCOPE_GOLDEN=write` (`make golden`) writes these lists anew. Names that are gone go from the lists,
//! and new ones are added, so this is a check in both directions.

use std::ops::Range;
use std::path::{Path, PathBuf};

const FACTS: &str = include_str!("../../../analyze/src/findings/facts.rs");
/// The Rust type that has the names, the field that they are in, and whether the field has more names.
const LISTS: [(&str, &str, bool); 4] = [
    ("Kind", "kind", false),
    ("Kind", "rule", true),
    ("Advice", "action", false),
    ("Method", "method", false),
];
const FILES: [&str; 3] = [
    "crates/render/schema/report-1.json",
    "crates/render/schema/diff-1.json",
    "python/ncclscope/report/_findings.py",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names of an enum's variants, from the arms of its `name`.
fn names(of: &str) -> Vec<String> {
    let arm = format!("{of}::");
    let arms = FACTS.lines().map(str::trim);
    let arms = arms.filter_map(|line| line.strip_prefix(&*arm)?.split_once(" => \""));
    arms.filter_map(|(_, name)| Some(name.strip_suffix("\",")?.to_owned()))
        .collect()
}

/// A list of quoted names in a file.
struct List {
    /// What is between its brackets.
    inside: Range<usize>,
    /// The field that it is of.
    field: String,
    names: Vec<String>,
    is_nullable: bool,
}

fn lists(text: &str) -> Vec<List> {
    let mut found = Vec::new();
    for (open, _) in text.match_indices('[') {
        let rest = &text[open + 1..];
        let Some(close) = rest
            .find(['[', ']'])
            .filter(|at| rest[*at..].starts_with(']'))
        else {
            continue;
        };
        let items = rest[..close].split(',').map(str::trim);
        let items: Vec<&str> = items.filter(|item| !item.is_empty()).collect();
        let quoted = |item: &&str| item.strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
        let names: Vec<String> = items.iter().filter_map(quoted).collect();
        let is_nullable = items.contains(&"null");
        if names.is_empty() || names.len() + usize::from(is_nullable) != items.len() {
            continue;
        }
        found.push(List {
            inside: open + 1..open + 1 + close,
            field: field(&text[..open]),
            names,
            is_nullable,
        });
    }
    found
}

/// The field whose list of names begins behind this text: `"kind": { … "enum": ` or `kind: Literal`.
fn field(before: &str) -> String {
    if let Some(declared) = before.strip_suffix(": Literal") {
        return declared.split_whitespace().last().unwrap_or("").to_owned();
    }
    let key = before.rsplit_once("\": {").map_or("", |(key, _)| key);
    key.rsplit_once('"').map_or("", |(_, key)| key).to_owned()
}

/// The list with these names, in the layout that it has.
fn laid_out(inside: &str, names: &[String], is_nullable: bool) -> String {
    let head = &inside[..inside.len() - inside.trim_start().len()];
    let tail = &inside[inside
        .trim_end_matches(|c: char| c.is_whitespace() || c == ',')
        .len()..];
    let between = match head {
        "" => ", ".to_owned(),
        head => format!(",{head}"),
    };
    let mut items: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    items.extend(is_nullable.then(|| "null".to_owned()));
    format!("{head}{}{tail}", items.join(&between))
}

#[test]
fn schemas_and_python_list_the_names_of_rust() {
    let rewrite = std::env::var("NCCLSCOPE_GOLDEN").is_ok_and(|asked| asked == "write");
    let mut seen = 0;
    for file in FILES {
        let path = root().join(file);
        let text = std::fs::read_to_string(&path).expect(file);
        let mut told = text.clone();
        // From the end, so that places before stay.
        for list in lists(&text).into_iter().rev() {
            for (of, field, more) in LISTS {
                let of = names(of);
                let known = list.names.iter().filter(|name| of.contains(name));
                // Others have fields of that name, too, such as a mark of the time line.
                if list.field != field || known.count() < 2 {
                    continue;
                }
                seen += 1;
                let rules = list.names.iter().filter(|name| more && !of.contains(name));
                let all: Vec<String> = of.iter().chain(rules).cloned().collect();
                let new = laid_out(&text[list.inside.clone()], &all, list.is_nullable);
                told.replace_range(list.inside.clone(), &new);
            }
        }
        if rewrite {
            std::fs::write(&path, &told).expect(file);
        } else {
            let what = "lists other names than facts.rs: `make golden` writes them";
            assert!(text == told, "{file} {what}");
        }
    }
    assert!(seen >= 8, "{seen} lists");
}

#[test]
fn a_list_keeps_its_layout() {
    let python =
        "    kind: Literal[\n        \"a\",\n        \"b\",\n    ]\n    cause: Literal[\"x\"]\n";
    let found = lists(python);
    assert_eq!(
        (found[0].field.as_str(), found[1].field.as_str()),
        ("kind", "cause")
    );
    let three: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
    let new = laid_out(&python[found[0].inside.clone()], &three, false);
    assert_eq!(
        new,
        "\n        \"a\",\n        \"b\",\n        \"c\",\n    "
    );
    let json = "\"kind\": {\n  \"enum\": [\n    \"a\",\n    null\n  ]\n}";
    let found = &lists(json)[0];
    assert_eq!((&*found.field, found.is_nullable), ("kind", true));
    let new = laid_out(&json[found.inside.clone()], &three, true);
    assert_eq!(new, "\n    \"a\",\n    \"b\",\n    \"c\",\n    null\n  ");
}
