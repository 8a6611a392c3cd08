//! Jobs of fake-nccl, and items of `fake-nccl check`, with the built plugin.

use crate::job::release;
use std::path::PathBuf;
use std::time::Duration;
use tables::Capture;

/// Something that cargo built beside this test.
pub fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("known");
    let folder = exe.ancestors().nth(2).expect("target/PROFILE");
    let places = ["", "deps"].map(|f| folder.join(f).join(name));
    let found = places.into_iter().find(|p| p.is_file());
    found.unwrap_or_else(|| panic!("no {name} in {}; `make debug` builds it", folder.display()))
}

pub fn plugin() -> PathBuf {
    let named = std::env::var_os("NCCLSCOPE_PLUGIN").map(PathBuf::from);
    named.unwrap_or_else(|| built("libnccl_profiler_ncclscope.so"))
}

/// A job of fake-nccl with the built plugin.
pub fn played(
    script: &str,
    env: &[(&str, &str)],
    options: fake_nccl::Options,
) -> (fake_nccl::play::Outcome, Capture) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all: Vec<(String, String)> = vec![
        (
            "NCCLSCOPE_OUT".into(),
            folder.path().join("c").display().to_string(),
        ),
        ("NCCLSCOPE_QUIET".into(), "1".into()),
    ];
    all.extend(env.iter().map(|(k, v)| ((*k).into(), (*v).into())));
    let options = fake_nccl::Options {
        plugin: Some(plugin().display().to_string()),
        program: Some(built("fake-nccl")),
        timeout: Some(Duration::from_secs(60)),
        env: all,
        ..options
    };
    let outcome = fake_nccl::play(script, &options).expect("played");
    assert!(outcome.as_expected(), "{:#?}", outcome.processes);
    let capture = Capture::open(&folder.path().join("c")).unwrap_or_else(|e| panic!("{e}"));
    (outcome, capture)
}

pub fn at(abi: u8) -> fake_nccl::Options {
    fake_nccl::Options {
        nccl: Some(release(abi)),
        ..Default::default()
    }
}

/// An item of `fake-nccl check`, at every ABI.
#[track_caller]
pub fn checked(item: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    // Each item is a process with this one's environment; its capture is of no interest.
    let output = std::process::Command::new(built("fake-nccl"))
        .args(["check", "--json", "--item", item, "--plugin"])
        .arg(plugin())
        .env("NCCLSCOPE_OUT", folder.path())
        .current_dir(folder.path())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().count(), 7, "{said}");
}
