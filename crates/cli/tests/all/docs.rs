//! The documentation holds: its commands print what it shows, its links lead somewhere, and its lines fit.
//!
//! A fenced block with lines that begin with `$ ` is a session. Its commands run by `sh`, block after block,
//! in one folder for each page. There `data` is the repository's folder of recorded jobs, and `ncclscope` and
//! `fake-nccl` are those that were built. What a command prints on standard output must follow it; a line
//! with nothing but `…` stands for any number of lines. `NCCLSCOPE_GOLDEN=write` (`make golden`) rewrites
//! what is shown.

use crate::{built, contracts};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("the repository")
}

fn rewrite() -> bool {
    std::env::var("NCCLSCOPE_GOLDEN").is_ok_and(|v| v == "write")
}

/// Folders that a build fills, or that hold no text of ours.
const SKIPPED: [&str; 6] = [
    "target",
    "data",
    "dist",
    "node_modules",
    "__pycache__",
    "venv",
];

/// The files of the repository with one of these endings.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') && name != ".github" || SKIPPED.contains(&&*name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if endings.iter().any(|e| name.ends_with(e)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<PathBuf> {
    let mut pages = files(&[".md"]);
    pages.push(root().join("data/README.md"));
    pages
}

#[test]
fn commands_of_the_pages_print_what_the_pages_show() {
    let mut pages = pages();
    pages.retain(|page| {
        let text = fs::read_to_string(page).expect("read");
        text.lines().any(|line| line.starts_with("$ "))
    });
    assert!(pages.len() >= 5, "{pages:?}");
    let next = std::sync::Mutex::new(pages);
    let take = || next.lock().ok().and_then(|mut pages| pages.pop());
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while let Some(page) = take() {
                    play(&page);
                }
            });
        }
    });
}

/// Runs the commands of one page.
fn play(page: &Path) {
    let text = fs::read_to_string(page).expect("read");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(root().join("data"), folder.path().join("data")).expect("linked");
    let (mut shown, mut told) = (Vec::new(), Vec::new());
    let (mut fenced, mut command) = (false, None);
    // The end of a block, or the next command, ends what a command printed.
    for line in text.lines() {
        let fence = line.starts_with("```");
        if fence || line.starts_with("$ ") {
            if let Some(command) = command.take() {
                let printed = run(command, folder.path());
                let printed: Vec<&str> = printed.lines().collect();
                let lines = if fits(&shown, &printed) {
                    std::mem::take(&mut shown)
                } else {
                    shortened(&std::mem::take(&mut shown), &printed)
                };
                told.extend(lines.iter().map(|l| (*l).to_owned()));
            }
        }
        fenced ^= fence;
        if fenced && line.starts_with("$ ") {
            command = line.strip_prefix("$ ");
        } else if command.is_some() {
            shown.push(line);
            continue;
        }
        told.push(line.to_owned());
    }
    let told = told.join("\n") + "\n";
    if told != text && rewrite() {
        fs::write(page, &told).expect("written");
    } else {
        similar(page, &text, &told);
    }
}

/// What a command prints on standard output; its standard error is shown if the test fails.
fn run(command: &str, folder: &Path) -> String {
    let (built, plugin) = (built::folder(), built::plugin());
    for needed in [&plugin, &built.join("fake-nccl")] {
        assert!(needed.is_file(), "no {needed:?}; `make debug` builds it");
    }
    let path = std::env::var("PATH").expect("set");
    let output = Command::new("timeout")
        .args(["-k", "1", "60", "sh", "-c", command])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:{path}", built.display()))
        .env("LC_ALL", "C")
        .env("NCCLSCOPE_PLUGIN", plugin)
        .output()
        .expect("started");
    eprintln!("$ {command}\n{}", String::from_utf8_lossy(&output.stderr));
    let status = output.status;
    let is_hang = command.starts_with("ncclscope hang ") && status.code() == Some(1);
    assert!(status.success() || is_hang, "{command}: {status}");
    // A blank line at the end shows nothing.
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

/// Whether these lines were printed, where `…` stands for any number of them.
fn fits(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|n| fits(rest, &printed[n..])),
        Some((line, rest)) => {
            printed
                .first()
                .is_some_and(|p| p.trim_end() == line.trim_end())
                && fits(rest, &printed[1..])
        }
    }
}

/// What was printed, without what the page leaves out. Parts that it shows have as many lines as before, and
/// begin with the same words.
fn shortened<'a>(shown: &[&'a str], printed: &[&'a str]) -> Vec<&'a str> {
    let words = |line: &str| {
        line.split(' ')
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    let mut rest = printed;
    for (n, part) in shown.split(|line| *line == "…").enumerate() {
        let begins = part.first().map(|first| words(first));
        let from = match begins {
            Some(begins) if n > 0 => rest.iter().position(|line| words(line) == begins),
            _ => Some(0),
        };
        let Some(from) = from else {
            return printed.to_vec();
        };
        if n > 0 {
            lines.push("…");
        }
        let to = rest.len().min(from + part.len());
        lines.extend(&rest[from..to]);
        rest = &rest[to..];
    }
    if fits(&lines, printed) {
        lines
    } else {
        printed.to_vec()
    }
}

#[test]
fn omitted_lines_are_any_number_and_others_are_exact() {
    assert!(fits(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(fits(&["a", "…"], &["a"]));
    assert!(!fits(&["a", "…", "d"], &["a", "b"]));
    assert!(!fits(&["a"], &["a", "b"]));
    assert!(!fits(&[], &["a"]));
    let printed = ["a", "b 2", "c", "d e 3", "f", "g"];
    assert_eq!(
        shortened(&["b 1", "…", "d e 1", "…"], &printed[1..]),
        ["b 2", "…", "d e 3", "…"]
    );
    assert_eq!(shortened(&["a", "…", "x"], &printed), printed);
}

fn similar(page: &Path, shown: &str, told: &str) {
    let differs = shown.lines().zip(told.lines()).position(|(a, b)| a != b);
    let at = differs.unwrap_or(shown.lines().count().min(told.lines().count()));
    let part = |text: &str| -> String {
        text.lines()
            .skip(at)
            .take(20)
            .map(|l| format!("{l}\n"))
            .collect()
    };
    assert!(
        shown == told,
        "{}:{}: the page has\n{}and it should be\n{}`make golden` rewrites the page; read the diff like code",
        page.display(),
        at + 1,
        part(shown),
        part(told)
    );
}

#[test]
fn the_page_of_the_command_line_is_what_help_prints() {
    let page = root().join("docs/reference/cli.md");
    let text = fs::read_to_string(&page).expect("docs/reference/cli.md");
    let (head, _) = text.split_once("\n## ").expect("a section");
    let help = |arguments: &[&str]| {
        // Not on a terminal, lines are wrapped at 100 columns.
        let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
            .args(arguments)
            .output();
        let text = String::from_utf8(output.expect("started").stdout).expect("UTF-8");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        text
    };
    let all = help(&["--help"]);
    // In groups, above the options: a line for each verb, and one for its example.
    let verbs = all.lines().take_while(|l| *l != "Options:");
    let verbs = verbs.filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    let verbs: Vec<&str> = verbs.filter_map(|l| l.split_whitespace().next()).collect();
    assert!(verbs.len() > 8, "{verbs:?}");
    let mut told = head.to_owned();
    let mut section = |title: &str, text: &str| {
        let text: String = text
            .lines()
            .map(|l| format!("{}\n", l.trim_end()))
            .collect();
        told += &format!("\n## {title}\n\n```text\n{text}```\n");
    };
    section("ncclscope", &all);
    for verb in verbs {
        section(&format!("ncclscope {verb}"), &help(&[verb, "--help"]));
    }
    if rewrite() {
        fs::write(&page, &told).expect("written");
    } else {
        similar(&page, &text, &told);
    }
}

/// All schemas, by command. Other tests hold the printed JSON to them.
fn schemas() -> Vec<(&'static str, Value)> {
    let all = contracts::ALL.iter();
    all.map(|of| (of.command, of.schema())).collect()
}

#[test]
fn the_page_of_json_has_every_name_of_the_schemas() {
    let page = root().join("docs/reference/json.md");
    let text = fs::read_to_string(&page).expect("docs/reference/json.md");
    let (head, _) = text.split_once("\n## ncclscope ").expect("a section");
    let mut told = head.to_owned();
    for (verb, schema) in schemas() {
        let mut rows = Vec::new();
        names(&schema, "", &mut rows);
        assert!(rows.len() > 3, "{verb}");
        let title = schema["title"].as_str().unwrap_or_default();
        told += &format!("\n## ncclscope {verb} --json\n\nThe format is `{title}`.\n");
        told += "\n| name | type | |\n|---|---|---|\n";
        for [name, kind, text] in rows {
            told += &format!("| `{name}` | {kind} | {text} |\n");
        }
    }
    if rewrite() {
        fs::write(&page, &told).expect("written");
    } else {
        similar(&page, &text, &told);
    }
}

/// Ends of names that say a unit, and of names of shares of one.
const UNITS: [&str; 13] = [
    "_us",
    "_ns",
    "_s",
    "_gb_per_s",
    "_per_s",
    "bytes",
    "_ppm",
    "_j",
    "_w",
    "_mhz",
    "_c",
    "_j_per_gb",
    "_hours",
];
const SHARES: [&str; 8] = [
    "share",
    "ratio",
    "percent",
    "interval",
    "_error",
    "_p",
    "_of_calls",
    "_of_time",
];
/// Names of what is counted.
const COUNTS: [&str; 15] = [
    "calls",
    "collectives",
    "sends",
    "recvs",
    "untimed",
    "steps",
    "visits",
    "launches_of_a_rank",
    "launches_per_second",
    "nccl_per_step",
    "program_per_step",
    "cpus_busy",
    "job_cpus_busy",
    "job_threads_ready",
    "confidence",
];

#[test]
fn every_number_of_the_schemas_names_its_unit() {
    let mut nameless = Vec::new();
    for (verb, schema) in schemas() {
        numbers(&schema, &mut Vec::new(), "", &mut |names, text| {
            let is = |ends: &[&str], name: &String| ends.iter().any(|end| name.ends_with(end));
            let unit = names
                .iter()
                .any(|name| is(&UNITS, name) || COUNTS.contains(&name.as_str()));
            let share = names.iter().rev().take(2).any(|name| is(&SHARES, name));
            let said = ["µs", "unit", "share", "part of"]
                .iter()
                .any(|word| text.to_lowercase().contains(word));
            if !unit && !share && !said {
                nameless.push(format!("{verb}: {}", names.join(".")));
            }
        });
    }
    assert_eq!(nameless, [""; 0]);
}

/// Calls `each` with the names that lead to each number of a schema, and with what it says of the last.
fn numbers(
    schema: &Value,
    names: &mut Vec<String>,
    text: &str,
    each: &mut dyn FnMut(&[String], &str),
) {
    let text = format!(
        "{text} {}",
        schema["description"].as_str().unwrap_or_default()
    );
    let kinds = &schema["type"];
    let is_number = |kind: &Value| kind == "number";
    if is_number(kinds)
        || kinds
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(is_number))
    {
        each(names, &text);
    }
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        names.push(name.clone());
        let of_object = schema["description"].as_str().unwrap_or_default();
        numbers(value, names, of_object, each);
        names.pop();
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            numbers(&schema[inner], names, &text, each);
        }
    }
    for choice in ["anyOf", "oneOf"] {
        for value in schema[choice].as_array().into_iter().flatten() {
            numbers(value, names, &text, each);
        }
    }
}

/// Name, type and description of what an object of this schema has, in its order.
fn names(schema: &Value, before: &str, rows: &mut Vec<[String; 3]>) {
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{before}{name}");
        let text = value["description"].as_str().unwrap_or_default();
        rows.push([path.clone(), kind(value), text.replace('|', "\\|")]);
        inner(value, &path, rows);
    }
}

fn inner(value: &Value, path: &str, rows: &mut Vec<[String; 3]>) {
    names(value, &format!("{path}."), rows);
    if value["items"].is_object() {
        inner(&value["items"], &format!("{path}[]"), rows);
    }
    if value["additionalProperties"].is_object() {
        inner(&value["additionalProperties"], &format!("{path}.*"), rows);
    }
    for choice in ["anyOf", "oneOf"] {
        for value in value[choice].as_array().into_iter().flatten() {
            inner(value, path, rows);
        }
    }
}

/// The type of a value in words.
fn kind(value: &Value) -> String {
    let any = value["anyOf"].as_array().or(value["oneOf"].as_array());
    if let Some(any) = any {
        let kinds: Vec<String> = any.iter().map(kind).collect();
        return kinds.join(" or ");
    }
    if let Some(one) = value.get("const") {
        return format!("`{one}`");
    }
    if let Some(words) = value["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
        return words.join(", ");
    }
    let kinds: Vec<&str> = match &value["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    let of = |kind: &&str| match *kind {
        "array" if value["items"].is_object() => {
            format!("array of {}", self::kind(&value["items"]))
        }
        "object" if value["additionalProperties"].is_object() => {
            format!("object of {}", self::kind(&value["additionalProperties"]))
        }
        kind => kind.to_owned(),
    };
    let kinds: Vec<String> = kinds.iter().map(of).collect();
    kinds.join(" or ")
}

/// What GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    text.chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut dead = Vec::new();
    let mut links = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("read");
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
        {
            let target = target.0;
            if target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let to = match path {
                "" => page.clone(),
                path => page.parent().expect("a folder").join(path),
            };
            let has = |to: &Path| {
                let text = fs::read_to_string(to).unwrap_or_default();
                let headings = text.lines().filter(|l| l.starts_with('#'));
                headings.map(anchor).any(|a| a == heading)
            };
            if !to.exists() || !heading.is_empty() && !has(&to) {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(links > 100, "{links} links");
    assert!(dead.is_empty(), "{dead:#?}");
}

/// Pages that mention a path of the documentation, in code, comments and messages.
#[test]
fn paths_of_pages_that_code_names_are_there() {
    let mut missing = BTreeSet::new();
    for file in files(&[
        ".rs", ".py", ".pyi", ".sh", ".md", ".toml", ".json", "Makefile",
    ]) {
        let text = fs::read_to_string(&file).expect("read");
        for (at, _) in text.match_indices("docs/") {
            let before = text[..at].chars().next_back();
            let path: String = text[at..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || "/-_.".contains(*c))
                .collect();
            let ours = path.ends_with(".md")
                && !before.is_some_and(|c| c.is_alphanumeric() || "-_.".contains(c));
            if ours && !root().join(&path).is_file() {
                missing.insert(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Source files that pages name in code, such as `recorder/rows.rs`: by their path, or the end of it.
#[test]
fn files_that_pages_name_are_there() {
    let endings = [".rs", ".py", ".sh", ".md", ".js", ".story", ".yml", ".c"];
    // Files that a recipe makes, and a script of the user.
    let placeholders = ["NAME", "v8.rs", "what_it_shows", "train.py"];
    let mut there = files(&endings);
    there.extend(pages());
    let (mut missing, mut found) = (BTreeSet::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).expect("read");
        // What is between two backticks is every second part.
        for name in text.split('`').skip(1).step_by(2) {
            let path = |c: char| c.is_alphanumeric() || "/-_.".contains(c);
            let is_file = endings.iter().any(|e| name.ends_with(e)) && name.chars().all(path);
            if !is_file || placeholders.iter().any(|p| name.contains(p)) {
                continue;
            }
            found += 1;
            if !there.iter().any(|file| file.ends_with(name)) {
                missing.insert(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(found > 100, "{found} files");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The longest line of code, comment or text, in characters.
const COLUMNS: usize = 110;

/// Lines fit on half a screen. Apart from these: tables; lines with an address, or with a picture, which
/// can't be broken; fenced blocks of pages, which show what a command prints; and recorded data and
/// goldens, which are in files of other endings.
#[test]
fn lines_fit() {
    let mut long = Vec::new();
    let code = [
        ".rs", ".py", ".pyi", ".sh", ".js", ".css", ".html", ".c", ".toml", ".yml", "Makefile",
    ];
    for file in files(&code).into_iter().chain(pages()) {
        let text = fs::read_to_string(&file).expect("read");
        let page = file.extension().is_some_and(|e| e == "md");
        let mut fenced = false;
        for (n, line) in text.lines().enumerate() {
            fenced ^= page && line.starts_with("```");
            let content = line.trim_start_matches(['/', '!', '#', ' ']);
            let exempt = fenced
                || content.starts_with('|')
                || line.contains("://")
                || page && line.starts_with("![");
            if line.chars().count() > COLUMNS && !exempt {
                long.push(format!("{}:{}", file.display(), n + 1));
            }
        }
    }
    assert!(
        long.is_empty(),
        "{} lines over {COLUMNS} columns: {long:#?}",
        long.len()
    );
}

/// What git leaves in a file if a merge is not finished.
#[test]
fn no_page_has_marks_of_a_merge() {
    let mut marked = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("read");
        let is_mark = |line: &&str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
        if text.lines().any(|line| is_mark(&line)) {
            marked.push(page);
        }
    }
    assert!(marked.is_empty(), "{marked:#?}");
}

#[test]
fn no_page_has_two_versions_of_a_passage() {
    let is_mark = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|m| line.starts_with(m));
    for page in pages() {
        let text = fs::read_to_string(&page).expect("read");
        let mark = text.lines().position(is_mark);
        assert_eq!(mark.map(|n| n + 1), None, "{}", page.display());
    }
}

#[test]
fn the_readme_s_picture_names_every_verb() {
    let picture = fs::read_to_string(root().join("docs/picture.svg")).expect("read");
    let words: BTreeSet<&str> = picture.split(|c: char| !c.is_alphanumeric()).collect();
    let help = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("--help")
        .output();
    let help = String::from_utf8(help.expect("started").stdout).expect("UTF-8");
    // A verb stands after two spaces, with what it does behind it.
    let verbs = help.lines().filter_map(|line| {
        let rest = line.strip_prefix("  ")?;
        rest.starts_with(|c: char| c.is_ascii_lowercase())
            .then(|| rest.split(' ').next())?
    });
    let verbs: Vec<&str> = verbs.collect();
    assert!(verbs.len() > 20, "{verbs:?}");
    // These set up a shell or a job.
    let small = ["plugin-path", "completions", "man"];
    let absent: Vec<&&str> = verbs
        .iter()
        .filter(|v| !words.contains(**v) && !small.contains(v))
        .collect();
    assert!(absent.is_empty(), "{absent:?}");
}

/// What scripts/pictures.py wrote into a PNG: a command's arguments, and what it printed first.
fn description(picture: &Path) -> Option<(String, String)> {
    const CHUNK: &[u8] = b"iTXtncclscope\0\0\0\0\0";
    let bytes = fs::read(picture).expect("read");
    let at = bytes.windows(CHUNK.len()).position(|part| part == CHUNK)?;
    let len = u32::from_be_bytes(bytes[at - 4..at].try_into().expect("four")) as usize;
    let text = String::from_utf8(bytes[at + CHUNK.len()..at + 4 + len].to_vec()).expect("UTF-8");
    let (arguments, said) = text.split_once('\n')?;
    Some((arguments.to_owned(), said.to_owned()))
}

#[test]
fn pictures_show_what_the_tool_says() {
    let mut shown = 0;
    for folder in ["docs", "docs/gallery"] {
        for entry in fs::read_dir(root().join(folder)).expect("listed") {
            let path = entry.expect("an entry").path();
            // Experiments are measured anew by whoever makes their pictures, so each has other times.
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.extension().is_none_or(|e| e != "png") || name.starts_with("tune") {
                continue;
            }
            let (arguments, said) = description(&path)
                .unwrap_or_else(|| panic!("`make screenshot` writes {}", path.display()));
            let told = run(&format!("ncclscope {arguments}"), root());
            let told = told.split("\n\n").next().unwrap_or_default();
            assert_eq!(said, told, "`make screenshot` renews {}", path.display());
            shown += 1;
        }
    }
    assert!(shown >= 6, "{shown} pictures");
}

#[test]
fn first_pictures_of_pages_are_what_the_command_writes() {
    let text = |page: &str| fs::read_to_string(root().join(page)).expect("read");
    let (readme, gallery) = (text("README.md"), text("docs/gallery.md"));
    let held = |page: &str, named: &str, file: &str, job: &str, theme: &str| {
        assert!(page.contains(named), "{named}");
        let told = run(
            &format!("ncclscope report data/{job} --svg - --theme {theme}"),
            root(),
        ) + "\n";
        let file = root().join(file);
        if rewrite() {
            fs::write(&file, &told).expect("written");
        }
        similar(&file, &fs::read_to_string(&file).unwrap_or_default(), &told);
    };
    for theme in ["light", "dark"] {
        let file = format!("docs/first-{theme}.svg");
        held(&readme, &file, &file, "fsdp2_slow_gpu", theme);
    }
    for job in [
        "ddp_late_host",
        "decode_slow_gpu",
        "slow_link",
        "killed_228",
    ] {
        let named = format!("gallery/{job}.svg");
        held(&gallery, &named, &format!("docs/{named}"), job, "light");
    }
}
