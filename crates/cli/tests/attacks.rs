//! The attacks in `scripts/attacks/`: each tries to break something, and holds if that fails.
//!
//! Every `NAME.sh` and `NAME.py` there is one test. The script is called as `NAME BIN WORK`. BIN is the
//! folder of the built programs, with the plugin under its own name. WORK is an empty folder for the script
//! alone, and is removed afterwards. Each `NAME.c` is compiled to `WORK/NAME` first (`cc`, with -ldl and
//! -lpthread).
//!
//! A script ends with status 0 if everything held, 77 if it can't be played here, and another one if
//! something broke. Its last line says what it saw. `NCCLSCOPE_ATTACKS=20` plays each one 20 times.
//!
//! Rule: a script tells what broke by states and counts, and never by how long something took, because tests
//! run on busy machines. Waits have bounds of a minute and more.

use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

/// Bound on one play of a script, in seconds.
const PATIENCE: &str = "600";
/// The status of a script that can't be played here.
const SKIPPED: i32 = 77;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/attacks");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of attacks")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let with = |endings: &[&str]| -> Vec<PathBuf> {
        let mut some = files.clone();
        some.retain(|file| {
            endings
                .iter()
                .any(|e| file.extension().is_some_and(|x| x == *e))
        });
        some
    };
    let sources = with(&["c"]);
    let rounds = std::env::var("NCCLSCOPE_ATTACKS").ok();
    let rounds: u32 = rounds.and_then(|text| text.parse().ok()).unwrap_or(1);
    let trial = |script: PathBuf| {
        let name = script.file_stem().unwrap_or_default().to_string_lossy();
        let sources = sources.clone();
        Trial::test(name.into_owned(), move || {
            (0..rounds).try_for_each(|_| play(&script, &sources).map_err(Failed::from))
        })
    };
    let trials = with(&["sh", "py"]).into_iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The built programs and the plugin, linked into `folder` under their own names.
fn programs(folder: &Path) {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_ncclscope"));
    let built = program.parent().expect("target/PROFILE");
    fs::create_dir(folder).expect("made");
    for entry in fs::read_dir(built).expect("listed").flatten() {
        let path = entry.path();
        if path.is_file() && path.extension().is_none_or(|e| e == "so") {
            // A plugin that is built is newer than its copy under its own name.
            let name = entry.file_name().to_string_lossy().into_owned();
            let _ = std::os::unix::fs::symlink(&path, folder.join(name));
        }
    }
    let plugin = built.join("libnccl_profiler_ncclscope.so");
    let named = folder.join("libnccl-profiler-ncclscope.so");
    let _ = fs::remove_file(&named);
    std::os::unix::fs::symlink(plugin, named).expect("linked");
}

/// Plays a script once.
fn play(script: &Path, sources: &[PathBuf]) -> Result<(), String> {
    let place = tempfile::tempdir().expect("a folder");
    let (bin, work) = (place.path().join("bin"), place.path().join("work"));
    programs(&bin);
    fs::create_dir(&work).expect("made");
    let text = fs::read_to_string(script).expect("a script");
    for source in sources {
        let name = source.file_stem().unwrap_or_default();
        if !text.contains(&*name.to_string_lossy()) {
            continue;
        }
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-o"]).arg(work.join(name));
        compiler.arg(source).args(["-ldl", "-lpthread"]);
        let done = compiler.output().map_err(|error| format!("cc: {error}"))?;
        if !done.status.success() {
            return Err(told(&done));
        }
    }
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", PATIENCE]).arg(script);
    command.arg(&bin).arg(&work).current_dir(&work);
    // The settings of whoever runs the tests are not the attack's.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NCCL") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).process_group(0);
    let done = command
        .output()
        .map_err(|error| format!("{}: {error}", script.display()))?;
    let told = told(&done);
    let last = told.trim_end().lines().last().unwrap_or_default();
    match done.status.code() {
        Some(0) => eprintln!("held: {last}"),
        Some(SKIPPED) => eprintln!("skipped: {last}"),
        _ => return Err(format!("{}\n{told}", done.status)),
    }
    Ok(())
}

/// What a program printed.
fn told(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}
