//! `ncclscope mcp`: what captures say, for agents, over the Model Context Protocol on standard input and
//! output.
//!
//! Each tool is a verb that only reads. A call runs this executable again with `--json` or as text, so a tool
//! says what the command says, and a capture that is too large for memory ends that process and not this one.
//!
//! Rule: nothing is written, nothing listens, and no path outside of the served folder is read.

use anyhow::Context;
use serde_json::{json, Value};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Answer questions of an agent about captures, over the Model Context Protocol (MCP) on stdio
///
///   claude mcp add ncclscope -- ncclscope mcp /path/to/captures
///
/// The agent gets tools that only read: list, report, report_json, hang, diff, history, doctor, explain. They
/// say what the verbs of these names say. Only captures in FOLDER and below can be read, and nothing leaves
/// the machine but through the agent.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Where captures are
    #[arg(default_value = ".", value_name = "FOLDER")]
    folder: PathBuf,
}

/// Versions of the protocol that are spoken, the newest first.
const VERSIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];
/// A line of a client is no longer.
const LONGEST: u64 = 1 << 20;
/// Characters of an answer: an agent's context is small.
const MOST: usize = 60_000;

const INSTRUCTIONS: &str = "ncclscope records the NCCL calls of distributed GPU jobs. Begin with `list`, \
    then `report` of one capture: its first line is the verdict, its last line the next step. Use `hang` if \
    the job makes no progress, `diff` to compare two runs, `history` for many. `report_json` gives exact \
    figures of one section. If a report says that something is not known, say so too, and do not guess. \
    `explain` defines words of a report.";

/// A tool: its name, what it is for, and its arguments, each with its meaning. All are strings; those of
/// `arguments` are needed.
struct Tool {
    name: &'static str,
    about: &'static str,
    arguments: &'static [(&'static str, &'static str)],
    optional: &'static [(&'static str, &'static str)],
}

const CAPTURE: (&str, &str) = ("capture", "a capture's folder, as `list` gives it");

const TOOLS: [Tool; 8] = [
    Tool {
        name: "list",
        about: "The captures, the newest first: when, command, ranks, state, verdict. `more` says how many \
            are left out.",
        arguments: &[],
        optional: &[("most", "how many at most; 20 without it")],
    },
    Tool {
        name: "report",
        about: "What a capture says: is every call recorded, what does communication cost, which rank, GPU \
            or link does the job wait for, and what to do.",
        arguments: &[CAPTURE],
        optional: &[(
            "detail",
            "`all` for every section and row, `kernels` to compare the kernels of the ranks",
        )],
    },
    Tool {
        name: "report_json",
        about: "One section of the report with all figures, as JSON: verdict, findings, recommendations, \
            steps, phases, account, ranks, operations, completeness, job, notes and others. Units are in \
            the names.",
        arguments: &[CAPTURE, ("section", "the section's name")],
        optional: &[],
    },
    Tool {
        name: "hang",
        about: "Does the job hang, and which rank do the others wait for?",
        arguments: &[CAPTURE],
        optional: &[],
    },
    Tool {
        name: "diff",
        about: "What became slower or faster from one run to another, and what changed around it.",
        arguments: &[("before", "the first capture's folder"), ("after", "the second capture's folder")],
        optional: &[],
    },
    Tool {
        name: "history",
        about: "Over many runs: which rank, host, GPU or link was to blame again and again.",
        arguments: &[("captures", "captures' folders, separated by line ends")],
        optional: &[],
    },
    Tool {
        name: "doctor",
        about: "Why is a capture empty or partial?",
        arguments: &[CAPTURE],
        optional: &[],
    },
    Tool {
        name: "explain",
        about: "What a word of a report means, such as `early_stop`, `busbw` or RING_LL.",
        arguments: &[("word", "the word")],
        optional: &[],
    },
];

/// Serves until standard input ends.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let root = args.folder.canonicalize().with_context(|| {
        format!(
            "`{}` can't be opened\n  hint: name the folder in which captures are",
            args.folder.display()
        )
    })?;
    let mut input = std::io::stdin().lock();
    let mut out = std::io::stdout().lock();
    loop {
        let mut line = Vec::new();
        let read = std::io::Read::take(&mut input, LONGEST).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = match serde_json::from_slice::<Value>(&line) {
            Ok(asked) => answer(&asked, &root),
            Err(error) => Some(failed(&Value::Null, -32700, &format!("no JSON: {error}"))),
        };
        if let Some(answer) = answer {
            if writeln!(out, "{answer}")
                .and_then(|()| out.flush())
                .is_err()
            {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

fn failed(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// The answer to a message; none to a notification.
fn answer(asked: &Value, root: &Path) -> Option<Value> {
    let id = asked.get("id")?;
    let parameters = &asked["params"];
    let result = match asked["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let wanted = parameters["protocolVersion"].as_str().unwrap_or_default();
            let version = VERSIONS
                .iter()
                .find(|v| **v == wanted)
                .unwrap_or(&VERSIONS[0]);
            json!({
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "ncclscope", "version": env!("CARGO_PKG_VERSION")},
                "instructions": INSTRUCTIONS,
            })
        }
        "ping" => json!({}),
        "tools/list" => json!({"tools": TOOLS.iter().map(described).collect::<Vec<_>>()}),
        "tools/call" => {
            let name = parameters["name"].as_str().unwrap_or_default();
            let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
                return Some(failed(id, -32602, &format!("there is no tool `{name}`")));
            };
            let (text, is_error) = match call(tool, &parameters["arguments"], root) {
                Ok(text) => (text, false),
                Err(why) => (why, true),
            };
            json!({"content": [{"type": "text", "text": text}], "isError": is_error})
        }
        other => return Some(failed(id, -32601, &format!("there is no method `{other}`"))),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn described(tool: &Tool) -> Value {
    let of = |(name, about): &(&str, &str)| {
        (
            (*name).to_owned(),
            json!({"type": "string", "description": about}),
        )
    };
    let all = tool.arguments.iter().chain(tool.optional);
    let properties: serde_json::Map<String, Value> = all.map(of).collect();
    let names: Vec<&str> = tool.arguments.iter().map(|(name, _)| *name).collect();
    json!({
        "name": tool.name,
        "description": tool.about,
        "inputSchema": {"type": "object", "properties": properties, "required": names},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    })
}

/// What the tool says, or why it can't.
fn call(tool: &Tool, arguments: &Value, root: &Path) -> Result<String, String> {
    let optional = |name: &str| {
        let value = arguments[name].as_str().map(str::trim);
        value.filter(|text| !text.is_empty())
    };
    let argument = |name: &str| {
        optional(name).ok_or_else(|| format!("the argument `{name}` is missing: {}", tool.about))
    };
    let capture = |name: &str| inside(root, argument(name)?);
    let text = |words: &[&str]| verb(root, words);
    match tool.name {
        "list" => {
            let most = optional("most").unwrap_or("20");
            text(&["list", "--json", &format!("--most={most}"), "."])
        }
        "report" => {
            let capture = capture("capture")?;
            match optional("detail") {
                None => text(&["report", &capture]),
                Some(detail @ ("all" | "kernels")) => {
                    text(&["report", &format!("--{detail}"), &capture])
                }
                Some(other) => Err(format!("`detail` is `all` or `kernels`, and not `{other}`")),
            }
        }
        "hang" => text(&["hang", &capture("capture")?]),
        "doctor" => text(&["doctor", &capture("capture")?]),
        "diff" => text(&["diff", &capture("before")?, &capture("after")?]),
        "history" => {
            let paths = argument("captures")?
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty());
            let paths: Vec<String> = paths
                .map(|path| inside(root, path))
                .collect::<Result<_, _>>()?;
            let words: Vec<&str> = ["history"]
                .into_iter()
                .chain(paths.iter().map(|path| &**path))
                .collect();
            text(&words)
        }
        // A word is never an option.
        "explain" => text(&["explain", "--", argument("word")?]),
        _ => {
            let (path, section) = (capture("capture")?, argument("section")?);
            let whole = run(root, &["report", "--json", &path])?;
            let report: Value = serde_json::from_str(&whole).map_err(|error| error.to_string())?;
            match report.get(section) {
                Some(found) => Ok(cut(format!("{found:#}"))),
                None => {
                    let names = report.as_object().into_iter().flatten();
                    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
                    let names = names.join(", ");
                    Err(format!(
                        "there is no section `{section}`; there are {names}"
                    ))
                }
            }
        }
    }
}

/// A path of the agent as an argument: it must be in the served folder, whatever links say.
fn inside(root: &Path, path: &str) -> Result<String, String> {
    let found = root.join(path).canonicalize();
    match found {
        Ok(found) if found.starts_with(root) => Ok(found.to_string_lossy().into_owned()),
        Ok(_) => Err(format!(
            "`{path}` is not in the folder that is served: see `list`"
        )),
        Err(error) => Err(format!("`{path}` can't be opened: {error}: see `list`")),
    }
}

fn verb(root: &Path, words: &[&str]) -> Result<String, String> {
    run(root, words).map(cut)
}

/// What this executable prints if it is called so. Its exit status may be an answer, so it counts as an error
/// only if nothing was printed.
fn run(root: &Path, words: &[&str]) -> Result<String, String> {
    let executable = std::env::current_exe().map_err(|error| error.to_string())?;
    let done = Command::new(executable)
        .args(words)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if text.trim().is_empty() {
        return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
    }
    Ok(text)
}

/// At most [`MOST`] characters, with a line that says what is missing.
fn cut(text: String) -> String {
    if text.chars().count() <= MOST {
        return text;
    }
    let kept: String = text.chars().take(MOST).collect();
    format!(
        "{kept}\n… cut here: {} characters are left out",
        text.chars().count() - MOST
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_served_folder_is_read() {
        let root = tempfile::tempdir().expect("a folder");
        let served = root
            .path()
            .join("served")
            .canonicalize()
            .unwrap_or_else(|_| {
                std::fs::create_dir_all(root.path().join("served/run")).expect("made");
                root.path().join("served").canonicalize().expect("there")
            });
        std::os::unix::fs::symlink("/etc", served.join("link")).expect("made");
        assert!(inside(&served, "run").is_ok());
        for path in ["..", "/etc/passwd", "link", "run/../../served/../x", "none"] {
            assert!(inside(&served, path).is_err(), "{path}");
        }
    }

    #[test]
    fn messages_are_answered_by_the_protocol() {
        let root = Path::new("/");
        let ask = |text: &str| answer(&serde_json::from_str(text).expect("JSON"), root);
        assert_eq!(
            ask(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            None
        );
        let hello = r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#;
        assert_eq!(
            ask(hello).expect("answered")["result"]["protocolVersion"],
            "2025-03-26"
        );
        let newer = r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2099-01-01"}}"#;
        assert_eq!(
            ask(newer).expect("answered")["result"]["protocolVersion"],
            VERSIONS[0]
        );
        assert_eq!(
            ask(r#"{"id":"a","method":"other"}"#).expect("answered")["error"]["code"],
            -32601
        );
        let missing = r#"{"id":2,"method":"tools/call","params":{"name":"report","arguments":{}}}"#;
        assert_eq!(ask(missing).expect("answered")["result"]["isError"], true);
        let unknown = r#"{"id":2,"method":"tools/call","params":{"name":"rm"}}"#;
        assert_eq!(ask(unknown).expect("answered")["error"]["code"], -32602);
    }
}
