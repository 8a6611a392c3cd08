//! The folder of a capture, and other tools and launchers: what is refused, shared, or passed on.

use crate::run::place::{stderr, stdout, RunFolder};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_folder_with_a_capture_is_left_alone_and_the_job_runs() {
    let place = RunFolder::new();
    fs::create_dir(place.path().join("c")).expect("made");
    // As if the recorder had been there.
    let script =
        "mkdir $NCCLSCOPE_OUT/host0; : > $NCCLSCOPE_OUT/host0/r0-p1-00000000.trace; echo ran";
    let run = |folder: &str| place.run(&["-o", folder, "sh", "-c", script]);
    assert!(run("c").status.success(), "an empty folder will do");
    for turn in ["c-2", "c-3"] {
        let again = run("c");
        assert_eq!(
            (again.status.code(), stdout(&again).as_str()),
            (Some(0), "ran\n")
        );
        let said = stderr(&again);
        let why =
            format!("`c` holds another capture (`c/capture.json`), so this capture is in `{turn}`");
        assert!(said.contains(&why), "{said}");
        assert!(
            said.contains(&format!("next: ncclscope report {turn}")),
            "{said}"
        );
        assert!(place.path().join(turn).join("capture.json").is_file());
    }
    // A capture lies beneath, and this folder has no name to which a number could be added.
    let above = run(".");
    assert_eq!(above.status.code(), Some(0), "{}", stderr(&above));
    assert!(
        stderr(&above).contains("so this capture is in `ncclscope-"),
        "{}",
        stderr(&above)
    );
    fs::create_dir_all(place.path().join("d/host")).expect("made");
    fs::write(place.path().join("d/host/r0-p1-00000000.trace"), "").expect("written");
    // A mark that nobody can read is another capture's too.
    fs::create_dir_all(place.path().join("e/capture.json")).expect("made");
    for (folder, what) in [
        ("d", "d/host/r0-p1-00000000.trace"),
        ("e", "e/capture.json"),
    ] {
        let done = run(folder);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        assert!(stderr(&done).contains(what), "{}", stderr(&done));
    }
    assert!(!place.path().join("d/capture.json").exists());
}

#[test]
fn what_is_no_folder_or_cannot_be_written_never_keeps_the_job_from_running() {
    let place = RunFolder::new();
    fs::write(place.path().join("file"), "mine").expect("written");
    std::os::unix::fs::symlink("nowhere", place.path().join("dangling")).expect("made");
    // As if the recorder had been there.
    let script =
        "mkdir $NCCLSCOPE_OUT/host0; : > $NCCLSCOPE_OUT/host0/r0-p1-00000000.trace; echo ran; exit 3";
    for (folder, why, own) in [
        ("file", "is no folder", "file-2"),
        (
            "dangling",
            "is a link that leads to no folder",
            "dangling-2",
        ),
        ("file/below", "can't be made", "ncclscope-"),
        ("/proc/nowhere", "can't be made", "ncclscope-"),
    ] {
        let done = place.run(&["-o", folder, "sh", "-c", script]);
        let said = stderr(&done);
        assert_eq!(
            (done.status.code(), &*stdout(&done)),
            (Some(3), "ran\n"),
            "{said}"
        );
        assert!(said.contains(&format!("note: `{folder}` {why}")), "{said}");
        assert!(
            said.contains(&format!("so this capture is in `{own}")),
            "{said}"
        );
    }
    let kept = fs::read_to_string(place.path().join("file"));
    assert_eq!(kept.expect("still a file"), "mine");
}

#[test]
fn a_pattern_needs_a_folder_of_its_own() {
    let done = RunFolder::new().run(&["-o", "x-%p", "true"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        stderr(&done).contains("hint: ") && stderr(&done).contains("captures/x-%p"),
        "{}",
        stderr(&done)
    );
}

#[test]
fn ranks_that_a_launcher_started_share_a_folder() {
    let place = RunFolder::new();
    let rank = |rank: &str, step: &str, output: &[&str]| {
        let mut run = place
            .ncclscope(&[&["run"], output, &["--", "sh", "-c", "echo $NCCLSCOPE_OUT"]].concat());
        run.envs([
            ("SLURM_JOB_ID", "9"),
            ("SLURM_STEP_ID", step),
            ("SLURM_PROCID", rank),
        ]);
        run.output().expect("started")
    };
    for r in ["0", "1"] {
        assert_eq!(rank(r, "0", &["-o", "c"]).status.code(), Some(0));
    }
    assert_eq!(place.mark()["job"], "slurm-9.0");
    let again = rank("1", "0", &["-o", "c"]);
    let here = place.path().display();
    assert_eq!(stdout(&again), format!("{here}/c-2\n"));
    assert!(
        stderr(&again).contains("earlier capture of this job and rank"),
        "{}",
        stderr(&again)
    );
    // Its other rank comes to the same folder, and another step to one of its own.
    for (r, step, folder) in [("0", "0", "c-2"), ("0", "1", "c-3"), ("1", "1", "c-3")] {
        let done = rank(r, step, &["-o", "c"]);
        assert_eq!(
            stdout(&done),
            format!("{here}/{folder}\n"),
            "{}",
            stderr(&done)
        );
    }
    // Without -o all ranks come to the same names, one for each program they run.
    for (r, suffix) in [("0", ""), ("1", ""), ("1", "-2"), ("0", "-2")] {
        assert_eq!(
            stdout(&rank(r, "0", &[])),
            format!("{here}/ncclscope-slurm-9.0{suffix}\n")
        );
    }
    assert_eq!(
        stdout(&rank("5", "0", &["-o", "each/%j/%r"])),
        format!("{here}/each/9/5\n")
    );
}

#[test]
fn another_plugin_is_refused_unless_it_is_to_be_replaced() {
    let place = RunFolder::new();
    let run = |args: &[&str]| {
        place
            .ncclscope(args)
            .env("NCCL_PROFILER_PLUGIN", "inspector")
            .output()
            .expect("started")
    };
    let refused = run(&["run", "echo", "ran"]);
    assert_eq!(
        (refused.status.code(), stdout(&refused).as_str()),
        (Some(2), "")
    );
    assert!(
        stderr(&refused).contains("`inspector`") && stderr(&refused).contains("--replace-plugin")
    );
    let replaced = run(&[
        "run",
        "--replace-plugin",
        "sh",
        "-c",
        "echo $NCCL_PROFILER_PLUGIN",
    ]);
    assert_eq!(
        stdout(&replaced),
        format!("{}/plugin.so\n", place.path().display())
    );
    assert!(stderr(&replaced).contains("`inspector` is replaced"));
}

#[test]
fn a_run_within_a_run_is_refused() {
    let place = RunFolder::new();
    let done = place.run(&["--", env!("CARGO_BIN_EXE_ncclscope"), "run", "true"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(stderr(&done).contains("already under an `ncclscope run`"));
}

/// A launcher of that name that prints its arguments, one a line.
fn fake_launcher(place: &RunFolder, name: &str, version: &str) -> String {
    let path = place.path().join(name);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo '{version}' && exit\nprintf '%s\\n' \"$@\"\n"
    );
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    format!("./{name}")
}

#[test]
fn mpirun_is_told_to_pass_the_variables() {
    let place = RunFolder::new();
    let open = fake_launcher(&place, "mpirun", "mpirun (Open MPI) 4.1.6");
    let mut run = place.ncclscope(&[
        "run", "--mode", "trace", "-o", "c", "--", &open, "-np", "2", "train",
    ]);
    let out = stdout(&run.env("NCCLSCOPE_FLUSH", "2").output().expect("started"));
    let words: Vec<&str> = out.lines().collect();
    for name in [
        "NCCL_PROFILER_PLUGIN",
        "NCCLSCOPE_OUT",
        "NCCLSCOPE_MODE",
        "NCCLSCOPE_RUN",
        "NCCLSCOPE_FLUSH",
    ] {
        assert!(
            words.windows(2).any(|w| w == ["-x", name]),
            "{name}: {words:?}"
        );
    }
    assert_eq!(words[words.len() - 3..], ["-np", "2", "train"]);
    let hydra = fake_launcher(&place, "mpiexec", "HYDRA build details:");
    let out = stdout(&place.run(&["-o", "d", "--", &hydra, "train"]));
    let value = format!("{}/d", place.path().display());
    let words: Vec<&str> = out.lines().collect();
    assert!(
        words
            .windows(3)
            .any(|w| w == ["-genv", "NCCLSCOPE_OUT", &value]),
        "{words:?}"
    );
}

#[test]
fn srun_export_lists_are_extended() {
    let place = RunFolder::new();
    let srun = fake_launcher(&place, "srun", "slurm 24.05");
    let done = place.run(&[
        "-o",
        "c",
        "--",
        &srun,
        "--export=PATH",
        "train",
        "--export=x",
    ]);
    let out = stdout(&done);
    assert!(
        out.starts_with("--export=PATH,NCCL_PROFILER_PLUGIN,NCCLSCOPE_OUT,"),
        "{out}"
    );
    assert!(out.ends_with("\ntrain\n--export=x\n"), "{out}");
    assert!(stderr(&done).starts_with("ncclscope: note: srun --export was extended"));
}

#[test]
fn plugin_path_prints_an_absolute_path() {
    let place = RunFolder::new();
    let done = place
        .ncclscope(&["plugin-path"])
        .env("NCCLSCOPE_PLUGIN", "plugin.so")
        .output()
        .expect("started");
    assert_eq!(
        stdout(&done),
        format!("{}/plugin.so\n", place.path().display())
    );
    let missing = place
        .ncclscope(&["plugin-path"])
        .env("NCCLSCOPE_PLUGIN", "gone.so")
        .output()
        .expect("started");
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        stderr(&missing).contains("gone.so` which is not a file")
            || stderr(&missing).contains("gone.so`, which")
    );
}
