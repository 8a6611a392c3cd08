//! Puts the ES modules of a page into one script.
//!
//! A page must open from a file, without a network, and runs only scripts whose hashes its policy lists. So
//! its modules can't be files beside it. [`bundle`] writes the modules that an entry imports into one scope,
//! each after those that it imports, and leaves out `import` and `export`. So a module means the same in a
//! page, in a test and for a linter.
//!
//! Rule: what this does not understand is an error of the build. It knows `import { a, b } from "./c.js";`,
//! `import "./c.js";` and `export` before a declaration. Names at the top of modules must differ, because
//! they share a scope.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// One script, and the files that it is made of.
#[derive(Debug)]
pub struct Bundle {
    pub script: String,
    pub files: Vec<PathBuf>,
}

/// What a module has at its top, and the rest of it.
struct Module {
    /// Paths, and the names that are wanted of each.
    imports: Vec<(PathBuf, Vec<String>)>,
    exported: BTreeSet<String>,
    declared: Vec<String>,
    body: String,
}

/// The script of an entry: a module that others do not import.
///
/// # Errors
/// If a module can't be read, or breaks the rule above.
pub fn bundle(entry: &Path) -> Result<Bundle, String> {
    let mut all = Gathered::default();
    all.add(entry)?;
    let script: String = all.order.iter().map(|(_, body)| body.as_str()).collect();
    if script.contains("</script") || script.contains("<!--") {
        return Err(format!(
            "{}: the script would end its element",
            entry.display()
        ));
    }
    let files = all.order.into_iter().map(|(path, _)| path).collect();
    Ok(Bundle { script, files })
}

#[derive(Default)]
struct Gathered {
    /// Modules that are being added: each imports the next.
    open: Vec<PathBuf>,
    exported: BTreeMap<PathBuf, BTreeSet<String>>,
    /// By name, the module that declares it.
    declared: BTreeMap<String, PathBuf>,
    order: Vec<(PathBuf, String)>,
}

impl Gathered {
    fn add(&mut self, path: &Path) -> Result<(), String> {
        if self.exported.contains_key(path) {
            return Ok(());
        }
        let at = path.display();
        if self.open.iter().any(|open| open == path) {
            return Err(format!("{at}: it imports itself, over other modules"));
        }
        self.open.push(path.to_owned());
        let text = std::fs::read_to_string(path).map_err(|error| format!("{at}: {error}"))?;
        let module = parse(path, &text).map_err(|what| format!("{at}: {what}"))?;
        for (from, names) in module.imports {
            self.add(&from)?;
            let exported = &self.exported[&from];
            if let Some(name) = names.iter().find(|name| !exported.contains(*name)) {
                return Err(format!("{at}: {} does not export `{name}`", from.display()));
            }
        }
        for name in module.declared {
            if let Some(other) = self.declared.get(&name) {
                return Err(format!(
                    "{at}: `{name}` is declared in {}, too",
                    other.display()
                ));
            }
            self.declared.insert(name, path.to_owned());
        }
        self.open.pop();
        self.exported.insert(path.to_owned(), module.exported);
        self.order.push((path.to_owned(), module.body));
        Ok(())
    }
}

fn parse(path: &Path, text: &str) -> Result<Module, String> {
    let mut module = Module {
        imports: Vec::new(),
        exported: BTreeSet::new(),
        declared: Vec::new(),
        body: String::new(),
    };
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("import") {
            let mut statement = line.to_owned();
            while !statement.ends_with(';') {
                statement += lines.next().ok_or("an `import` without an end")?;
            }
            module.imports.push(imported(path, &statement)?);
            continue;
        }
        let bare = line.strip_prefix("export ");
        let names = declared(bare.unwrap_or(line), &mut lines.clone());
        if bare.is_some() {
            if names.is_empty() {
                return Err(format!("`{line}` is not `export` before a declaration"));
            }
            module.exported.extend(names.iter().cloned());
        }
        module.declared.extend(names);
        module.body += bare.unwrap_or(line);
        module.body.push('\n');
    }
    Ok(module)
}

/// The module that a statement imports, and the names that it wants.
fn imported(path: &Path, statement: &str) -> Result<(PathBuf, Vec<String>), String> {
    let wrong = || format!("`{statement}` is not `import {{ a, b }} from \"./c.js\";`");
    let rest = statement.strip_prefix("import ").ok_or_else(wrong)?;
    let (names, from) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once("} from ").ok_or_else(wrong)?,
        None => ("", rest),
    };
    let from = from
        .strip_prefix('"')
        .and_then(|from| from.strip_suffix("\";"));
    let from = from
        .filter(|from| from.starts_with('.'))
        .ok_or_else(wrong)?;
    let names: Vec<String> = names
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    if names.iter().any(|name| name.contains(' ')) {
        return Err(wrong());
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    Ok((plain(&folder.join(from)), names))
}

/// The path without `.` and `..`, so that each module has one name.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The names that a line at the top of a module declares. What stands inside of something is indented.
fn declared<'a>(line: &str, rest: &mut impl Iterator<Item = &'a str>) -> Vec<String> {
    let kinds = ["const ", "let ", "class ", "async function ", "function "];
    let Some(after) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else {
        return Vec::new();
    };
    let close = match after.chars().next() {
        Some('{') => '}',
        Some('[') => ']',
        _ => {
            let end = after.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
            return vec![after[..end.unwrap_or(after.len())].to_owned()];
        }
    };
    // Parts of a value: `const { a, b: c } = …`.
    let mut parts = after[1..].to_owned();
    while !parts.contains(close) {
        let Some(next) = rest.next() else { break };
        parts += next;
    }
    let parts = parts.split(close).next().unwrap_or("");
    let name = |part: &str| {
        let part = part.split('=').next().unwrap_or("");
        part.rsplit([':', '.'])
            .next()
            .unwrap_or("")
            .trim()
            .to_owned()
    };
    parts
        .split(',')
        .map(name)
        .filter(|name| !name.is_empty())
        .collect()
}
