//! Names and lines of return addresses, from the files of programs and libraries.
//!
//! [`Symbols::at`] opens the file of a [`Module`], if it is here and of the same build. Debug information
//! gives function, file and line, inlined functions included. Without it, the table of symbols gives the
//! function. What neither has is an offset, and the text says why.
//!
//! Rule: a capture may name any path. Only files are opened, and what is wrong with one is no error.

use addr2line::Loader;
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Mutex;

/// A program or library of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Module {
    /// Its file.
    pub path: String,
    /// Its build id; empty without one.
    pub build_id: Vec<u8>,
}

impl Module {
    /// Its file's name.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether it is a shared library by its name.
    pub fn is_library(&self) -> bool {
        let name = self.name();
        name.ends_with(".so") || name.contains(".so.")
    }

    /// Whether it is NCCL or this recorder.
    pub fn is_nccl(&self) -> bool {
        let name = self.name();
        let ours = ["nccl-profiler-ncclscope", "nccl_profiler_ncclscope"];
        name.starts_with("libnccl.so") || ours.iter().any(|ours| name.contains(ours))
    }

    /// Whether it is a Python interpreter.
    pub fn is_python(&self) -> bool {
        self.name().starts_with("python") || self.name().starts_with("libpython")
    }

    /// Whether it is C's library, which begins every thread.
    pub fn is_runtime(&self) -> bool {
        let names = [
            "libc.so",
            "libc-",
            "libpthread",
            "ld-linux",
            "linux-vdso",
            "ld-musl",
        ];
        names.iter().any(|name| self.name().starts_with(name))
    }
}

/// A file that was opened, or why it was not.
type Opened = Result<Loader, &'static str>;

/// Files that were opened.
#[derive(Default)]
pub struct Symbols {
    files: BTreeMap<Module, Option<Opened>>,
    /// Names of functions by module and address.
    names: BTreeMap<(Module, u64), String>,
}

/// What was found before: the ranks of a job have the same programs.
static FOUND: Mutex<Option<Known>> = Mutex::new(None);
/// By module and address.
type Known = HashMap<(Module, u64), Vec<String>>;
/// Texts that are kept.
const MOST: usize = 100_000;
/// Larger files are no programs.
const LARGEST: u64 = 8 << 30;

impl Symbols {
    /// Looks up the functions that these addresses are in, with one pass over the module's symbols.
    pub fn look(&mut self, module: &Module, mut addresses: Vec<u64>) {
        let open = || {
            let file = is_file(&module.path).then(|| std::fs::File::open(&module.path));
            Some(object::ReadCache::new(file?.ok()?))
        };
        let Some(cache) = open() else { return };
        let Ok(file) = object::File::parse(&cache) else {
            return;
        };
        addresses.sort_unstable();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            // The nearest symbol before an address says nothing: the function may have none.
            let range = symbol.address()..symbol.address().saturating_add(symbol.size());
            if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
                continue;
            }
            let first = addresses.partition_point(|address| *address < range.start);
            let inside = addresses[first..].iter().take_while(|a| range.contains(a));
            for address in inside {
                let name = symbol.name().unwrap_or("");
                if name.is_empty() {
                    continue;
                }
                let name = addr2line::demangle_auto(name.into(), None).into_owned();
                let names = &mut self.names;
                names.entry((module.clone(), *address)).or_insert(name);
            }
        }
    }

    /// What is at an address of a module's file, innermost first. `at` is in the call, `back` behind it.
    pub fn at(&mut self, module: &Module, at: u64, back: u64) -> Vec<String> {
        let mut found = FOUND.lock().unwrap_or_else(|p| p.into_inner());
        let found = found.get_or_insert_default();
        let key = (module.clone(), at);
        if let Some(texts) = found.get(&key) {
            return texts.clone();
        }
        let file = self.files.entry(module.clone()).or_insert(None);
        let file = file.get_or_insert_with(|| open(module));
        let name = self.names.get(&key).map(String::as_str);
        let texts = texts(module, file, name, at, back);
        if found.len() < MOST {
            found.insert(key, texts.clone());
        }
        texts
    }
}

/// Whether there is a file of the size of a program. A pipe or device may never end.
fn is_file(path: &str) -> bool {
    let there = std::fs::metadata(path);
    Path::new(path).is_absolute()
        && there.is_ok_and(|there| there.is_file() && there.len() < LARGEST)
}

fn open(module: &Module) -> Opened {
    let path = Path::new(&module.path);
    if !is_file(&module.path) {
        return Err("its file is not here");
    }
    let loader = Loader::new(path).map_err(|_| "its file is no program")?;
    if !module.build_id.is_empty() {
        // Only the headers are read, because libraries may have gigabytes.
        let file = std::fs::File::open(path).map_err(|_| "its file can't be read")?;
        let cache = object::ReadCache::new(file);
        let file = object::File::parse(&cache).map_err(|_| "its file is no program")?;
        if file.build_id().ok().flatten() != Some(&module.build_id) {
            return Err("another build of it is here");
        }
    }
    Ok(loader)
}

fn texts(module: &Module, file: &Opened, name: Option<&str>, at: u64, back: u64) -> Vec<String> {
    let offset = |why: &str| vec![format!("{}+{back:#x} ({why})", module.name())];
    let loader = match file {
        Ok(loader) => loader,
        Err(why) => return offset(why),
    };
    let mut found = Vec::new();
    if let Ok(mut frames) = loader.find_frames(at) {
        while let Ok(Some(frame)) = frames.next() {
            let place = frame.location.and_then(|place| {
                let file = place.file?;
                Some(match place.line {
                    Some(line) => format!("{file}:{line}"),
                    None => format!("{file}:?"),
                })
            });
            let name = frame.function.and_then(|function| {
                let name = function.demangle().ok()?;
                Some(name.into_owned())
            });
            match (place, name) {
                (Some(place), Some(name)) => found.push(format!("{place} {name}")),
                (Some(place), None) => found.push(place),
                _ => {}
            }
        }
    }
    if !found.is_empty() {
        return found
            .iter()
            .map(|text| crate::printable(text).into_owned())
            .collect();
    }
    match name {
        Some(name) => vec![format!("{} in {}", crate::printable(name), module.name())],
        None => offset("no symbols"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str, build_id: &[u8]) -> Module {
        Module {
            path: path.to_owned(),
            build_id: build_id.to_vec(),
        }
    }

    #[test]
    fn what_can_not_be_named_says_why() {
        let mut symbols = Symbols::default();
        let own = std::env::current_exe().expect("a path");
        let own = own.to_str().expect("text");
        for (module, why) in [
            (
                module("/nowhere/libx.so", &[]),
                "libx.so+0x10 (its file is not here)",
            ),
            (module("/dev/zero", &[]), "zero+0x10 (its file is not here)"),
            (
                module("/etc/passwd", &[]),
                "passwd+0x10 (its file is no program)",
            ),
        ] {
            assert_eq!(symbols.at(&module, 0xf, 0x10), [why]);
        }
        let other = symbols.at(&module(own, &[1, 2]), 0xf, 0x10);
        assert!(
            other[0].ends_with("+0x10 (another build of it is here)"),
            "{other:?}"
        );
    }

    #[test]
    fn modules_are_known_by_their_names() {
        let of = |path: &str| {
            let module = module(path, &[]);
            [
                module.is_library(),
                module.is_nccl(),
                module.is_python(),
                module.is_runtime(),
            ]
        };
        assert_eq!(of("/v/libnccl.so.2"), [true, true, false, false]);
        assert_eq!(
            of("/v/libnccl-profiler-ncclscope.so"),
            [true, true, false, false]
        );
        assert_eq!(of("/usr/lib/libc.so.6"), [true, false, false, true]);
        assert_eq!(of("/usr/bin/python3.12"), [false, false, true, false]);
        assert_eq!(of("/home/me/train"), [false; 4]);
    }
}
