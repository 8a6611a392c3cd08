//! What may be loaded into a trainer is pinned: dependencies, exported symbols, the newest glibc symbol.

use object::elf;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::process::Command;

/// The portable builds that `make test` made: x86-64 and aarch64.
fn portable_plugins() -> Vec<String> {
    let paths = std::env::var("NCCLSCOPE_PORTABLE_PLUGINS").unwrap_or_default();
    paths
        .split(':')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn dependencies_are_the_checked_in_list() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "-p",
            "ncclscope-recorder",
            "-e",
            "normal",
            "--prefix",
            "none",
            "--target",
            "all",
            "--format",
            "{p}",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo tree runs");
    let names: BTreeSet<String> = String::from_utf8_lossy(&tree.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "ncclscope-recorder")
        .map(str::to_owned)
        .collect();
    let pinned = include_str!("../../dependencies.txt");
    let pinned: BTreeSet<String> = pinned
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(str::to_owned)
        .collect();
    assert_eq!(
        names, pinned,
        "a new dependency of the recorder is a line in dependencies.txt and a sentence \
        in the commit"
    );
}

#[test]
fn a_release_that_adds_a_pointer_to_a_table_finds_null() {
    for abi in 1..=nccl_abi::NEWEST {
        // SAFETY: an exported constant.
        let words = unsafe { *crate::job::words(abi) };
        let (table, spare) = words.split_at(6);
        assert!(table.iter().all(|word| *word != 0), "{abi}: {words:x?}");
        assert_eq!(spare, [0; 10], "{abi}");
    }
}

#[test]
fn portable_plugins_export_the_seven_symbols_and_need_glibc_2_17_at_most() {
    let plugins = portable_plugins();
    if plugins.is_empty() {
        eprintln!("no portable builds given; `make test` makes them");
    }
    for path in plugins {
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let exported: BTreeSet<&str> = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition())
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        let mut expected = BTreeSet::from(nccl_abi::SYMBOLS);
        // NVTX looks this one up.
        expected.insert("InitializeInjectionNvtx2");
        assert_eq!(exported, expected, "{path}");
        for symbol in nccl_abi::SYMBOLS {
            let found = file
                .dynamic_symbols()
                .find(|s| s.name() == Ok(symbol))
                .expect("exported");
            assert_eq!(found.size(), 128, "{path}: {symbol}");
        }
        let newest = glibc_versions(&bytes)
            .into_iter()
            .max()
            .expect("it links to glibc");
        assert!(
            newest <= (2, 17),
            "{path} needs GLIBC_{}.{}",
            newest.0,
            newest.1
        );
        let missing = unknown_to_glibc(&bytes);
        assert!(missing.is_empty(), "{path} needs {missing:?}");
    }
}

/// What the file needs and no version of a library is named for: functions that the glibc it was linked for
/// does not have. Where they are not, the file can't be loaded.
fn unknown_to_glibc(bytes: &[u8]) -> Vec<String> {
    let file: ElfFile64 = ElfFile64::parse(bytes).expect("an ELF file");
    let endian = file.endian();
    let table = file.elf_section_table();
    let versions = table.versions(endian, bytes).expect("versions");
    let versions = versions.expect("it links to glibc");
    let needed = file.dynamic_symbols().filter(|symbol| {
        let index = versions.version_index(endian, symbol.index());
        let is_known = index.index() > elf::VER_NDX_GLOBAL;
        symbol.is_undefined() && !symbol.is_weak() && !is_known
    });
    let names = needed.filter_map(|symbol| symbol.name().ok());
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// The plugin talks to nobody, and starts no program.
#[test]
fn plugins_import_nothing_that_starts_programs_or_talks_to_others() {
    let named = std::env::var("NCCLSCOPE_PLUGIN").ok();
    for path in portable_plugins().into_iter().chain(named) {
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let refused = [
            "exec",
            "posix_spawn",
            "fork",
            "vfork",
            "system",
            "popen",
            "socket",
            "connect",
            "bind",
            "listen",
            "accept",
            "getaddrinfo",
            "gethostby",
            "send",
            "recv",
            "ptrace",
        ];
        for symbol in file.dynamic_symbols().filter(|s| s.is_undefined()) {
            let name = symbol.name().unwrap_or_default();
            let found = refused.iter().find(|r| name.starts_with(**r));
            assert_eq!(found, None, "{path} imports {name}");
        }
    }
}

/// Every GLIBC_x.y that the file names.
fn glibc_versions(bytes: &[u8]) -> Vec<(u32, u32)> {
    let mut versions = Vec::new();
    for (at, window) in bytes.windows(6).enumerate() {
        if window != b"GLIBC_" {
            continue;
        }
        let text: String = bytes[at + 6..]
            .iter()
            .take(10)
            .take_while(|b| **b != 0)
            .map(|b| *b as char)
            .collect();
        let mut parts = text.split('.').map(|part| part.parse::<u32>());
        if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) {
            versions.push((major, minor));
        }
    }
    versions
}
