//! Every dependency, those of tests too, comes from crates.io and has a licence that `deny.toml` allows.
//!
//! `make deny` asks the same and more of `cargo-deny`, which takes minutes to build; this runs with all
//! tests.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// The licences that `deny.toml` allows.
fn allowed() -> BTreeSet<&'static str> {
    let file = include_str!("../../../../deny.toml");
    let (_, list) = file.split_once("allow = [").expect("a list");
    let (list, _) = list.split_once(']').expect("its end");
    list.split(',')
        .map(|name| name.trim().trim_matches('"'))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Whether an SPDX expression holds with these licences: alternatives, all of which may be asked for with
/// AND.
fn holds(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let any = |alternatives: &str| {
        // The slash is an older way to write OR.
        let names = alternatives
            .split(" OR ")
            .flat_map(|name| name.split('/'))
            .map(|name| name.trim().trim_matches(['(', ')']));
        names.into_iter().any(|name| allowed.contains(name))
    };
    expression.split(" AND ").all(any)
}

#[test]
fn dependencies_are_of_crates_io_and_have_an_allowed_licence() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .args(["--filter-platform", "aarch64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    let said = String::from_utf8_lossy(&metadata.stderr);
    assert!(metadata.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 50, "{}", packages.len());
    let allowed = allowed();
    for package in packages {
        let (name, source) = (&package["name"], &package["source"]);
        let ours = source.is_null();
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        assert!(ours || source == registry, "{name} is from {source}");
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(
            holds(licence, &allowed),
            "{name} has the licence {licence}, which deny.toml does not allow"
        );
    }
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    let allowed = BTreeSet::from(["MIT", "Zlib"]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("(MIT OR GPL-3.0) AND Zlib", true),
        ("(MIT OR GPL-3.0) AND GPL-2.0", false),
        ("MIT AND GPL-2.0", false),
    ] {
        assert_eq!(holds(expression, &allowed), expected, "{expression}");
    }
}
