//! The contracts of `--json`: schemas and the classes of Python are made from the Rust types that are
//! printed, with their docstrings.
//!
//! `NCCLSCOPE_GOLDEN=write` (`make golden`) writes them anew. Tests compare them in both
//! directions, and others hold what is printed to them.

mod python;

use schemars::generate::SchemaSettings;
use schemars::transform::{transform_subschemas, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{json, Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A format of JSON.
pub struct Contract {
    /// The command that prints it.
    pub command: &'static str,
    /// `report/1` of `ncclscope.report/1`.
    format: &'static str,
    /// The folder of its schema.
    folder: &'static str,
    /// What prints it, and what holds for all of it.
    about: &'static str,
    /// Fields that only some of its lines have.
    optional: &'static [&'static str],
    schema: fn(bool) -> Value,
}

/// All that are made from Rust.
pub const ALL: [Contract; 21] = [
    Contract {
        command: "report",
        format: "report/1",
        folder: "crates/render/schema",
        about: "What `ncclscope report --json` prints. What is not known is null. Times are µs.",
        optional: &[],
        schema: of::<render::report_json::ReportJson<'static>>,
    },
    Contract {
        command: "list",
        format: "list/1",
        folder: "crates/render/schema",
        about: "What `ncclscope list --json` prints. null: not known.",
        optional: &[],
        schema: of::<render::list::List>,
    },
    Contract {
        command: "diff",
        format: "diff/1",
        folder: "crates/render/schema",
        about: "What `ncclscope diff A B --json` prints. What is not known is null. Times are µs.",
        optional: &[],
        schema: of::<render::diff_json::DiffJson<'static>>,
    },
    Contract {
        command: "diff A B C",
        format: "variants/1",
        folder: "crates/render/schema",
        about: "What `ncclscope diff A B C --json` prints, of more than two captures. What is not \
                known is null. Times are µs.",
        optional: &[],
        schema: of::<render::diff_json::VariantsJson<'static>>,
    },
    Contract {
        command: "diff A.txt B.txt",
        format: "bench-diff/1",
        folder: "crates/render/schema",
        about:
            "What `ncclscope diff A B --json` prints of two logs of nccl-tests. What is not known \
                is null.",
        optional: &[],
        schema: of::<render::benchmarks::BenchDiffJson<'static>>,
    },
    Contract {
        command: "history",
        format: "history/1",
        folder: "crates/render/schema",
        about: "What `ncclscope history --json` prints. null: not known, or not of this part.",
        optional: &[],
        schema: of::<analyze::history::History>,
    },
    Contract {
        command: "hang",
        format: "hang/1",
        folder: "crates/render/schema",
        about: "What `ncclscope hang --json` prints. null: not known, or there is none.",
        optional: &["news", "proof", "stood_still_s"],
        schema: of::<render::hang::watch::WatchJson>,
    },
    Contract {
        command: "top",
        format: "top/1",
        folder: "crates/render/schema",
        about:
            "What `ncclscope top --json` prints on each line. null: not known, or there is none.",
        optional: &[],
        schema: of::<render::top::Now>,
    },
    Contract {
        command: "startup",
        format: "startup/1",
        folder: "crates/render/schema",
        about: "What `ncclscope startup --json` prints. null: not known.",
        optional: &[],
        schema: of::<render::startup::StartupJson<'static>>,
    },
    Contract {
        command: "memory",
        format: "memory/1",
        folder: "crates/render/schema",
        about: "What `ncclscope memory --json` prints. null: not known.",
        optional: &[],
        schema: of::<render::memory::MemoryJson<'static>>,
    },
    Contract {
        command: "paths",
        format: "paths/1",
        folder: "crates/render/schema",
        about: "What `ncclscope paths --json` prints. null: not known.",
        optional: &[],
        schema: of::<setup::paths::Paths>,
    },
    Contract {
        command: "topo",
        format: "topo/1",
        folder: "crates/render/schema",
        about: "What `ncclscope topo --json` prints. null: not known.",
        optional: &[],
        schema: of::<render::topo::TopoJson<'static>>,
    },
    Contract {
        command: "model",
        format: "model/1",
        folder: "crates/render/schema",
        about: "What `ncclscope model --json` prints. What is not known is null.",
        optional: &[],
        schema: of::<render::model::Answer>,
    },
    Contract {
        command: "estimate",
        format: "estimate/1",
        folder: "crates/render/schema",
        about: "What `ncclscope estimate --json` prints. What is not known is null.",
        optional: &[],
        schema: of::<render::estimate::Answer>,
    },
    Contract {
        command: "tune",
        format: "tune/1",
        folder: "crates/render/schema",
        about: "What `ncclscope tune --json` prints. What is not known is null.",
        optional: &[],
        schema: of::<render::tune::Answer>,
    },
    Contract {
        command: "hostbench",
        format: "hostbench/1",
        folder: "crates/hostbench/schema",
        about: "What `ncclscope hostbench --json` writes. What is not known is null.",
        optional: &[],
        schema: of::<hostbench::results::Results>,
    },
    Contract {
        command: "hostbench diff",
        format: "hostbench-diff/1",
        folder: "crates/hostbench/schema",
        about: "What `ncclscope hostbench diff --json` prints.",
        optional: &[],
        schema: of::<hostbench::compare::Comparison>,
    },
    Contract {
        command: "judge",
        format: "judge/1",
        folder: "crates/judge/schema",
        about: "What `ncclscope judge --json` writes. What is not known is null.",
        optional: &[],
        schema: of::<judge::report::Report>,
    },
    Contract {
        command: "attach",
        format: "attach/1",
        folder: "crates/cli/schema",
        about: "What `ncclscope attach --json` prints. null: not known, or not asked for.",
        optional: &[],
        schema: of::<::attach::json::AttachJson<'static>>,
    },
    Contract {
        command: "doctor",
        format: "doctor/1",
        folder: "crates/cli/schema",
        about: "What `ncclscope doctor --json` prints.",
        optional: &[],
        schema: of::<render::doctor::DoctorJson<'static>>,
    },
    Contract {
        command: "bench",
        format: "bench/1",
        folder: "crates/bench/schema",
        about: "What `ncclscope bench --json` writes: nccl-tests' names, and ours beside them. Times are µs \
                unless the name says another unit, bandwidths GB/s. What is not known is null.",
        optional: &[],
        schema: of::<::bench::json::BenchJson<'static>>,
    },
];

/// The schema of a type as it is printed, with all that it holds in place, or with each type apart.
fn of<T: JsonSchema>(in_place: bool) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = in_place);
    let settings = settings.with_transform(Plain);
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Says what schemas of people say: an object has no other names, docstrings are plain text, and a type is
/// one of JSON.
#[derive(Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        object.remove("format");
        object.remove("title");
        if let Some(text) = object.get("description").and_then(Value::as_str) {
            let text = plain(text);
            object.insert("description".to_owned(), text.into());
        }
        if object.contains_key("properties") && !object.contains_key("additionalProperties") {
            object.insert("additionalProperties".to_owned(), false.into());
        }
        names_of_variants(object);
        text_of_variant(object);
        items_of_pair(object);
    }
}

/// A pair is an array of what both are; an index beside a figure is a number.
fn items_of_pair(object: &mut Map<String, Value>) {
    let Some(Value::Array(pair)) = object.remove("prefixItems") else {
        return;
    };
    let is_number = |of: &&Value| ["integer", "number"].iter().any(|kind| of["type"] == *kind);
    let same = pair.windows(2).all(|two| two[0] == two[1]);
    assert!(same || pair.iter().all(|of| is_number(&of)), "{pair:?}");
    let items = if same {
        pair[0].clone()
    } else {
        json!({ "type": "number" })
    };
    object.insert("items".to_owned(), items);
}

/// A docstring without Markdown's links, on one line.
fn plain(text: &str) -> String {
    let text = text.replace("[`", "`").replace("`]", "`");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A variant with a value is an object of one field, and its docstring is about this field.
fn text_of_variant(object: &mut Map<String, Value>) {
    for one in object
        .get_mut("oneOf")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let text = one["description"].clone();
        let fields = one.get_mut("properties").and_then(Value::as_object_mut);
        for field in fields.into_iter().flat_map(Map::values_mut) {
            let field = field.as_object_mut().expect("a schema");
            field.entry("description").or_insert_with(|| text.clone());
        }
    }
}

/// Variants with docstrings are a list of names, too; null is one of them.
fn names_of_variants(object: &mut Map<String, Value>) {
    for choice in ["oneOf", "anyOf"] {
        let Some(choices) = object.get(choice).and_then(Value::as_array) else {
            continue;
        };
        let mut names = Vec::new();
        for one in choices {
            match (&one["const"], &one["enum"], &one["type"]) {
                (Value::String(name), ..) => names.push(json!(name)),
                (_, Value::Array(some), _) => names.extend(some.iter().cloned()),
                (_, _, Value::String(kind)) if kind == "null" => names.push(Value::Null),
                _ => return,
            }
        }
        let kind = if names.contains(&Value::Null) {
            json!(["string", "null"])
        } else {
            json!("string")
        };
        object.remove(choice);
        object.insert("type".to_owned(), kind);
        object.insert("enum".to_owned(), names.into());
    }
}

impl Contract {
    fn path(&self) -> PathBuf {
        let name = format!("{}.json", self.format.replace('/', "-"));
        root().join(self.folder).join(name)
    }

    /// Its schema.
    pub fn schema(&self) -> Value {
        let title = format!("ncclscope.{}", self.format);
        let made = (self.schema)(true);
        let mut schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": title,
            "description": self.about,
        });
        let all = schema.as_object_mut().expect("an object");
        for (name, value) in made.as_object().into_iter().flatten() {
            all.entry(name.clone()).or_insert_with(|| value.clone());
        }
        schema["properties"]["schema"] = json!({ "const": title });
        if let Some(required) = schema["required"].as_array_mut() {
            required.retain(|name| !self.optional.iter().any(|optional| name == optional));
        }
        schema
    }
}

/// Writes `told` if that is asked for; else it must be there.
fn keep(path: &Path, told: &str) {
    if std::env::var("NCCLSCOPE_GOLDEN").is_ok_and(|asked| asked == "write") {
        fs::write(path, told).expect("written");
        return;
    }
    let there = fs::read_to_string(path).unwrap_or_default();
    assert!(there == told, "{}: `make golden` writes it", path.display());
}

#[test]
fn schemas_are_those_of_the_types_that_are_printed() {
    for contract in &ALL {
        let schema = serde_json::to_string_pretty(&contract.schema()).expect("JSON");
        keep(&contract.path(), &(schema + "\n"));
    }
}

#[test]
fn the_classes_of_python_are_those_of_the_report() {
    let told = python::module(&(ALL[0].schema)(false));
    keep(&root().join("python/ncclscope/report/_records.py"), &told);
}

/// The rows of tables.md for the objects that `declared` describes, which are rows of a table, too.
fn columns(declared: &Value) -> String {
    let mut told = String::from("| column | type | unit | meaning |\n|---|---|---|---|\n");
    for (name, value) in declared["properties"].as_object().into_iter().flatten() {
        let text = value["description"].as_str().unwrap_or_default();
        // A pair is two columns.
        let ends = match name.strip_suffix("interval_us") {
            Some(of) => vec![
                (format!("{of}low_us"), "Lower end."),
                (format!("{of}high_us"), "Upper end."),
            ],
            None if name == "when_us" => vec![
                ("from_us".to_owned(), "Begin."),
                ("to_us".to_owned(), "End."),
            ],
            None => vec![(name.clone(), "")],
        };
        let kinds = &value["type"];
        let is = |kind: &str| {
            kinds == kind
                || kinds
                    .as_array()
                    .is_some_and(|all| all.contains(&json!(kind)))
        };
        for (name, end) in ends {
            let column = render::batches::column_of(&name);
            let unit = if column.ends_with("_ns") { "ns" } else { "" };
            let kind = match () {
                () if unit == "ns" || is("integer") => "int",
                () if is("boolean") => "bool",
                () if is("number") => "float",
                () if is("object") => "numbers",
                // Lists are JSON arrays.
                () => "text",
            };
            let names = value["enum"]
                .as_array()
                .or(value["items"]["enum"].as_array());
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let names = if names.is_empty() {
                String::new()
            } else {
                format!(" {}.", names.join(", "))
            };
            let text = format!("{end} {text}{names}")
                .trim()
                .replace('|', "\\|")
                .replace("µs", "ns");
            told += &format!("| `{column}` | {kind} | {unit} | {text} |\n");
        }
    }
    told
}

#[test]
fn the_table_of_findings_has_the_fields_of_findings() {
    let page = root().join("docs/reference/tables.md");
    let text = fs::read_to_string(&page).expect("docs/reference/tables.md");
    let (before, section) = text.split_once("\n## findings\n").expect("a section");
    let (head, rest) = section.split_once("| column |").expect("a table");
    let (_, after) = rest.split_once("\n\n").expect("its end");
    let findings = &ALL[0].schema()["properties"]["findings"]["items"];
    let table = columns(findings);
    keep(
        &page,
        &format!("{before}\n## findings\n{head}{table}\n{after}"),
    );
}

#[test]
fn every_field_says_what_it_is() {
    let mut silent = Vec::new();
    for contract in &ALL {
        without_words(&contract.schema(), contract.format, &mut silent);
    }
    assert_eq!(silent, [""; 0]);
}

/// Gathers fields without a description.
fn without_words(schema: &Value, path: &str, silent: &mut Vec<String>) {
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let text = value["description"].as_str().unwrap_or_default();
        // Who reads JSON does not know names of Rust.
        let is_of_rust = ["::", "`None`", "As in `", "See `"]
            .iter()
            .any(|part| text.contains(part));
        if value.get("const").is_none() && text.is_empty() || is_of_rust {
            silent.push(format!("{path}: {text}"));
        }
        without_words(value, &path, silent);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            without_words(&schema[inner], path, silent);
        }
    }
    for choice in ["anyOf", "oneOf"] {
        for value in schema[choice].as_array().into_iter().flatten() {
            without_words(value, path, silent);
        }
    }
}
