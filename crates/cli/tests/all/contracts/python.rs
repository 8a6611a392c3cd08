//! The classes of the Python package, from the schema of the report with each type apart.

use serde_json::Value;
use std::collections::BTreeSet;

/// Columns of a line.
const WIDTH: usize = 110;
const INDENT: &str = "    ";

/// The module with a class for each object of `report`, those that others hold before them.
pub fn module(report: &Value) -> String {
    let mut classes = Classes {
        types: &report["$defs"],
        done: BTreeSet::new(),
        text: String::new(),
    };
    classes.class("ReportFields", report);
    let Classes { done, text, .. } = classes;
    let names = done
        .iter()
        .map(|name| format!("{INDENT}\"{name}\",\n"))
        .collect::<String>();
    format!(
        "\"\"\"The objects of a report: ``make golden`` writes this file from the Rust types that are \
         printed.\"\"\"\n\nfrom __future__ import annotations\n\nfrom ._record import Record\n\n\
         TYPE_CHECKING = False\nif TYPE_CHECKING:\n{INDENT}from typing import Literal\n\n\
         __all__ = [\n{names}]\n{text}"
    )
}

struct Classes<'a> {
    types: &'a Value,
    done: BTreeSet<String>,
    text: String,
}

impl Classes<'_> {
    /// Writes a class, and before it those of its fields.
    fn class(&mut self, name: &str, of: &Value) {
        if !self.done.insert(name.to_owned()) {
            return;
        }
        let fields: Vec<_> = of["properties"].as_object().into_iter().flatten().collect();
        let mut parts = Vec::new();
        for (field, value) in &fields {
            if let Some(part) = record(value, self.types) {
                self.class(&part, &self.types[&part]);
                parts.push(format!("\"{field}\": {part}"));
            }
        }
        let mut text = format!("\n\nclass {name}(Record):\n");
        docstring(&mut text, &of["description"]);
        text += "\n";
        if !parts.is_empty() {
            list(&mut text, "_parts = {", &parts, "}");
        }
        text += &format!("{INDENT}__slots__ = ()\n");
        for (field, value) in &fields {
            annotation(&mut text, field, value, self.types);
            docstring(&mut text, &value["description"]);
        }
        self.text += &text;
    }
}

/// Writes what stands between brackets on one line, or on one each.
fn list(text: &mut String, open: &str, items: &[String], close: &str) {
    let line = format!("{INDENT}{open}{}{close}\n", items.join(", "));
    if line.chars().count() <= WIDTH + 1 {
        *text += &line;
        return;
    }
    *text += &format!("{INDENT}{open}\n");
    for item in items {
        *text += &format!("{INDENT}{INDENT}{item},\n");
    }
    *text += &format!("{INDENT}{close}\n");
}

fn annotation(text: &mut String, field: &str, value: &Value, types: &Value) {
    let (kind, may_lack) = kind(value, types);
    let lacks = if may_lack { " | None" } else { "" };
    // Names of a list that is too long stand on a line each.
    if let Some((before, names)) = kind.split_once("Literal[") {
        let names: Vec<String> = names
            .trim_end_matches(']')
            .split(", ")
            .map(str::to_owned)
            .collect();
        let close = "]".repeat(1 + before.matches('[').count());
        list(
            text,
            &format!("{field}: {before}Literal["),
            &names,
            &format!("{close}{lacks}"),
        );
        return;
    }
    *text += &format!("{INDENT}{field}: {kind}{lacks}\n");
}

fn docstring(text: &mut String, description: &Value) {
    let Some(words) = description.as_str() else {
        return;
    };
    let words = words.replace('\\', "\\\\").replace('`', "``");
    let mut lines = vec![format!("{INDENT}\"\"\"")];
    for word in words.split(' ') {
        let line = lines.last_mut().expect("one");
        // The quotes that end it fit on any line.
        let is_first = line.ends_with("\"\"\"") || line.trim().is_empty();
        let more = if is_first {
            word.to_owned()
        } else {
            format!(" {word}")
        };
        if line.chars().count() + more.chars().count() + 3 > WIDTH {
            lines.push(format!("{INDENT}{word}"));
        } else {
            line.push_str(&more);
        }
    }
    *text += &format!("{}\"\"\"\n", lines.join("\n"));
}

/// The type that a value refers to, and whether it may be null.
fn referred<'a>(value: &'a Value, types: &'a Value) -> Option<(&'a str, &'a Value, bool)> {
    if let Some(name) = value["$ref"]
        .as_str()
        .and_then(|path| path.rsplit('/').next())
    {
        return Some((name, &types[name], false));
    }
    let choices = value["anyOf"].as_array()?;
    let (name, of, _) = choices.iter().find_map(|choice| referred(choice, types))?;
    Some((
        name,
        of,
        choices.iter().any(|choice| choice["type"] == "null"),
    ))
}

/// The class of the objects that a field holds.
fn record(value: &Value, types: &Value) -> Option<String> {
    if let Some((name, of, _)) = referred(value, types) {
        return of["properties"].is_object().then(|| name.to_owned());
    }
    record(value.get("items")?, types)
}

/// The type of a value in Python, and whether it may be None.
fn kind(value: &Value, types: &Value) -> (String, bool) {
    if let Some((name, of, may_lack)) = referred(value, types) {
        if of["properties"].is_object() {
            return (name.to_owned(), may_lack);
        }
        let (kind, lacks) = kind(of, types);
        return (kind, may_lack || lacks);
    }
    let names = match (value["enum"].as_array(), value.get("const")) {
        (Some(names), _) => Some(names.clone()),
        (None, one) => one.map(|one| vec![one.clone()]),
    };
    if let Some(names) = names {
        let texts: Vec<String> = names
            .iter()
            .filter_map(Value::as_str)
            .map(|name| format!("\"{name}\""))
            .collect();
        return (
            format!("Literal[{}]", texts.join(", ")),
            names.contains(&Value::Null),
        );
    }
    let all = match &value["type"] {
        Value::String(one) => vec![one.as_str()],
        all => all
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect(),
    };
    let one = all.iter().find(|kind| **kind != "null");
    let of_items = |items: &Value| {
        let (kind, may_lack) = kind(items, types);
        format!("{kind}{}", if may_lack { " | None" } else { "" })
    };
    let name = match one.copied() {
        Some("string") => "str".to_owned(),
        Some("integer") => "int".to_owned(),
        Some("number") => "float".to_owned(),
        Some("boolean") => "bool".to_owned(),
        Some("array") => {
            format!("list[{}]", of_items(&value["items"]))
        }
        Some("object") => format!("dict[str, {}]", of_items(&value["additionalProperties"])),
        other => panic!("{other:?} has no type in Python"),
    };
    (name, all.contains(&"null"))
}
