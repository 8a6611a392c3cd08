//! What fields of JSON mean, by the schemas, which are made from the docstrings of the types.
//!
//! Rule: what a docstring says is said nowhere else. Heads of columns, in pages and in `ncclscope explain`,
//! have their texts from here.

use serde_json::{json, Value};
use std::sync::OnceLock;

/// The schema of a report.
pub const REPORT: &str = include_str!("../schema/report-1.json");

/// Names of schemas, their texts, and what these are once they are asked for.
#[rustfmt::skip]
static SCHEMAS: [(&str, &str, OnceLock<Value>); 5] = [
    ("report", REPORT, OnceLock::new()),
    ("bench-diff", include_str!("../schema/bench-diff-1.json"), OnceLock::new()),
    ("history", include_str!("../schema/history-1.json"), OnceLock::new()),
    ("memory", include_str!("../schema/memory-1.json"), OnceLock::new()),
    ("model", include_str!("../schema/model-1.json"), OnceLock::new()),
];

/// What a field is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// In sentences, without the unit: the head of a column has its own.
    pub text: String,
    /// When a row has none.
    pub none: String,
}

impl Meaning {
    /// The text behind a word and a colon.
    pub fn after_a_colon(&self) -> String {
        let mut chars = self.text.chars();
        let first = chars.next().map(|first| first.to_ascii_lowercase());
        let rest = chars.as_str();
        // `GPU` stays as it is.
        match first.filter(|_| rest.starts_with(|c: char| !c.is_ascii_uppercase())) {
            Some(first) => format!("{first}{rest}"),
            None => self.text.clone(),
        }
    }
}

/// Why a row has none if its field can be null and does not say why, or can't be.
const NOT_KNOWN: &str = "not known";
const NONE: &str = "none";

/// What `path` is, in elements of the list `rows` of this schema. Names are joined by dots, and a number is a
/// place in a pair; `None` if there is no such field.
pub fn of(schema: &str, rows: &str, path: &str) -> Option<Meaning> {
    let (_, text, parsed) = SCHEMAS.iter().find(|(name, ..)| *name == schema)?;
    let mut at = parsed.get_or_init(|| serde_json::from_str(text).unwrap_or_default());
    for name in rows.split('.').filter(|name| !name.is_empty()) {
        at = inside(at, name)?;
    }
    let (mut texts, mut none) = (Vec::new(), None);
    let mut may_be_null = false;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let end = match name {
            "0" => Some("Lower end."),
            "1" => Some("Upper end."),
            "length" => Some(""),
            _ => None,
        };
        if let Some(end) = end {
            texts.push(end.to_owned());
            break;
        }
        at = inside(at, name)?;
        may_be_null |= at["type"]
            .as_array()
            .is_some_and(|kinds| kinds.contains(&json!("null")));
        // How many have a figure is said of the number only, and a share of something is that.
        let is_said = match names.peek() {
            Some(&"n") => false,
            None if name == "share" => texts.is_empty(),
            _ => true,
        };
        let (text, why) = parts(at["description"].as_str()?);
        none = why.or(none);
        if is_said {
            texts.push(text);
        }
    }
    let mut text = texts.join(" ").trim().to_owned();
    for unit in [", µs of the wall", ", µs", ", bytes", ", 0 to 1"] {
        text = text.replace(unit, "");
    }
    let none = none.unwrap_or_else(|| if may_be_null { NOT_KNOWN } else { NONE }.to_owned());
    Some(Meaning { text, none })
}

/// The field of an object, or of the objects in a list.
fn inside<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = |of: &'a Value| of["properties"].get(name);
    fields(schema)
        .or_else(|| fields(&schema["items"]))
        .or_else(|| {
            let kinds = schema["anyOf"].as_array()?;
            kinds.iter().find_map(|kind| inside(kind, name))
        })
}

/// What a description says, and when it says that there is none: `Its host; null if it is not known.`
fn parts(description: &str) -> (String, Option<String>) {
    let begins = ["; null ", ". Null ", ": null "].into_iter();
    let Some(at) = begins.filter_map(|begin| description.find(begin)).min() else {
        return (description.to_owned(), None);
    };
    let clause = &description[at + "; null ".len()..];
    let ends = [". ", "; "].into_iter();
    let end = ends.filter_map(|end| clause.find(end)).min();
    let (clause, rest) = clause.split_at(end.unwrap_or(clause.len()));
    let rest = rest.trim_start_matches([';', '.']);
    let text = format!("{}.{rest}", &description[..at]);
    (text, Some(format!("none {}", clause.trim_end_matches('.'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_says_what_a_field_is_and_when_there_is_none() {
        for (description, text, none) in [
            ("Its host.", "Its host.", None),
            (
                "Its host; null if it is lost.",
                "Its host.",
                Some("none if it is lost"),
            ),
            (
                "One. Null without steps. Two.",
                "One. Two.",
                Some("none without steps"),
            ),
        ] {
            assert_eq!(
                parts(description),
                (text.to_owned(), none.map(str::to_owned))
            );
        }
    }

    #[test]
    fn a_field_of_a_field_says_both() {
        let text = |path| of("report", "graphs", path).map(|found| found.text);
        let median = text("launches_per_second.median").expect("a field");
        assert!(median.starts_with("Launches a second"), "{median}");
        assert!(median.ends_with("Median (nearest rank)."), "{median}");
        assert_eq!(text("launches_per_second.middle"), None);
        let from = of("report", "kinds", "sum_interval_us.0").expect("a pair");
        assert!(from.text.ends_with("Lower end."), "{}", from.text);
        assert!(!from.text.contains("µs"), "{}", from.text);
    }
}
