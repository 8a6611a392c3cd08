//! What the program under `ncclscope run` gets and gives: streams, exit status, signals, variables.

use crate::run::place::{stderr, stdout, RunFolder};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// As `ulimit -f`: no file may be written to.
fn without_file_sizes(command: &mut Command) -> &mut Command {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: one system call.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, move || {
            match libc::setrlimit(libc::RLIMIT_FSIZE, &none) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    }
}

#[test]
fn a_standard_error_that_is_full_or_closed_changes_nothing_for_the_program() {
    let place = RunFolder::new();
    // With a note before the start and a line at the end.
    fs::write(place.path().join("libnccl-profiler.so"), "").expect("written");
    let full = || {
        Stdio::from(
            File::options()
                .write(true)
                .open("/dev/full")
                .expect("there"),
        )
    };
    let closed = || {
        let (reader, writer) = nix::unistd::pipe().expect("made");
        drop(reader);
        Stdio::from(writer)
    };
    for (name, stderr) in [("full", full()), ("closed", closed())] {
        let mut run = place.ncclscope(&["run", "-o", name, "--", "sh", "-c", "echo ran; exit 5"]);
        run.env("LD_LIBRARY_PATH", place.path()).stderr(stderr);
        let done = run.output().expect("started");
        assert_eq!(
            (done.status.code(), stdout(&done).as_str()),
            (Some(5), "ran\n"),
            "{name}"
        );
    }
}

#[test]
fn where_no_folder_can_be_marked_the_job_runs_and_none_is_left_behind() {
    let place = RunFolder::new();
    let mut run = place.ncclscope(&["run", "-o", "c", "--", "sh", "-c", "echo ran; exit 5"]);
    let done = without_file_sizes(&mut run).output().expect("started");
    assert_eq!((done.status.code(), &*stdout(&done)), (Some(5), "ran\n"));
    let said = stderr(&done);
    assert!(said.contains("nothing will be recorded"), "{said}");
    assert!(said.contains("capture.json`: File too large"), "{said}");
    assert!(!place.path().join("c").exists());
}

#[test]
fn a_limit_of_file_sizes_ends_the_program_alone() {
    let place = RunFolder::new();
    // The program takes the limit for itself and for `run`, its parent, which then can't write the end into
    // capture.json.
    let script = "prlimit --pid $PPID --fsize=0 && ulimit -f 0 && echo into a file > file";
    let done = place.run(&["-o", "c", "--", "sh", "-c", script]);
    let said = stderr(&done);
    if said.contains("prlimit") {
        eprintln!("skipped: {said}");
        return;
    }
    assert_eq!(done.status.code(), Some(128 + libc::SIGXFSZ), "{said}");
    assert!(said.contains("capture.json`: File too large"), "{said}");
}

#[test]
fn exit_status_and_streams_are_the_programs() {
    let place = RunFolder::new();
    // Something is in the folder, so it stays.
    let script = "cat; echo words >&2; mkdir $NCCLSCOPE_OUT/host0; exit 7";
    let done = place.run(&["-o", "c", "--", "sh", "-c", script]);
    assert_eq!(done.status.code(), Some(7));
    assert_eq!(stdout(&done), "");
    let lines: Vec<String> = stderr(&done).lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "words");
    assert!(
        lines[1].starts_with("ncclscope: capture in c: no process is in it"),
        "{lines:?}"
    );
    assert!(
        lines[1].ends_with("next: ncclscope doctor c") && lines.len() == 2,
        "{lines:?}"
    );
    let mark = place.mark();
    assert_eq!(
        (&mark["schema"], &mark["exit_status"]),
        (&"ncclscope.capture/1".into(), &7.into())
    );
    assert_eq!(mark["command"][0], "sh");
    assert!(
        mark["id"].as_str().is_some_and(|id| id.len() == 16)
            && mark["started"].is_string()
            && mark["ended"].is_string()
    );
    assert_eq!(
        fs::metadata(place.path().join("c")).expect("there").mode() & 0o777,
        0o700
    );
}

#[test]
fn input_and_output_pass_untouched() {
    let place = RunFolder::new();
    let mut run = place.ncclscope(&["run", "sh", "-c", "cat; mkdir $NCCLSCOPE_OUT/host0"]);
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    run.stdin
        .take()
        .expect("piped")
        .write_all(b"a\0b")
        .expect("written");
    assert_eq!(run.wait_with_output().expect("ended").stdout, b"a\0b");
    let named: Vec<_> = fs::read_dir(place.path())
        .expect("read")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert!(
        named
            .iter()
            .any(|n| n.to_string_lossy().starts_with("ncclscope-2")),
        "{named:?}"
    );
}

#[test]
fn the_program_gets_the_recorders_variables() {
    let place = RunFolder::new();
    let script = "echo $NCCL_PROFILER_PLUGIN $NCCLSCOPE_OUT $NCCLSCOPE_MODE $NCCLSCOPE_TIMING; \
                  echo $NCCLSCOPE_RUN; mkdir $NCCLSCOPE_RUN/host0";
    let done = place.run(&[
        "--mode", "full", "--timing", "stamps", "-o", "c%%d/%p", "--", "sh", "-c", script,
    ]);
    let here = place.path().display();
    assert_eq!(
        stdout(&done),
        format!("{here}/plugin.so {here}/c%%d/%p full stamps\n{here}/c%d\n"),
        "{}",
        stderr(&done)
    );
    assert!(place.path().join("c%d/capture.json").exists());
}

#[test]
fn a_program_killed_by_a_signal_gives_128_and_its_number() {
    let done = RunFolder::new().run(&["--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(done.status.code(), Some(128 + 11));
}

#[test]
fn a_broken_pipe_is_ignored_by_the_program_if_by_the_caller() {
    let place = RunFolder::new();
    let script = "kill -PIPE $$; echo still here";
    for (caller, status) in [("", 128 + libc::SIGPIPE), ("trap '' PIPE; ", 0)] {
        let command = format!("{caller}exec \"$0\" run -o c -- sh -c '{script}'");
        let mut run = Command::new("sh");
        run.args(["-c", &command, env!("CARGO_BIN_EXE_ncclscope")]);
        run.current_dir(place.path())
            .env_remove("NCCL_PROFILER_PLUGIN")
            .env("NCCLSCOPE_PLUGIN", place.path().join("plugin.so"));
        let done = run.output().expect("started");
        let said = stdout(&done);
        assert_eq!(done.status.code(), Some(status), "{caller}: {said}");
        assert_eq!(said == "still here\n", status == 0, "{caller}: {said}");
        assert!(!place.path().join("c").exists(), "nothing was recorded");
    }
}

#[test]
fn signals_reach_the_program_once() {
    let place = RunFolder::new();
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGQUIT,
    ] {
        let name = signal.as_str().trim_start_matches("SIG");
        let script = format!(
            "trap 'echo got' {name}; trap 'exit 42' CONT; echo ready; while :; do sleep 0.01; done"
        );
        let mut run = place.ncclscope(&["run", "--", "sh", "-c", &script]);
        let mut run = run
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let pid = Pid::from_raw(run.id() as i32);
        let mut lines = BufReader::new(run.stdout.take().expect("piped"))
            .lines()
            .map(|l| l.expect("text"));
        assert_eq!(lines.next().as_deref(), Some("ready"));
        kill(pid, signal).expect("sent");
        assert_eq!(lines.next().as_deref(), Some("got"));
        kill(pid, Signal::SIGCONT).expect("sent");
        assert_eq!(lines.next(), None);
        assert_eq!(run.wait().expect("ended").code(), Some(42));
    }
}

#[test]
fn an_interrupt_from_the_terminal_is_not_delivered_twice() {
    let place = RunFolder::new();
    let terminal = nix::pty::openpty(None, None).expect("opened");
    let end = || Stdio::from(terminal.slave.try_clone().expect("copied"));
    let script =
        "trap 'echo got' INT; trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done";
    let mut run = place.ncclscope(&["run", "--", "sh", "-c", script]);
    run.stdin(end()).stdout(end()).stderr(Stdio::null());
    let lead_session = || {
        nix::unistd::setsid()?;
        // SAFETY: a plain call; descriptor 0 is the terminal, which becomes the session's.
        nix::errno::Errno::result(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) })?;
        Ok(())
    };
    // SAFETY: two system calls, no allocation.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut run, lead_session) };
    let mut run = run.spawn().expect("started");
    let mut keyboard = File::from(terminal.master);
    let screen = BufReader::new(keyboard.try_clone().expect("copied")).lines();
    let mut lines = screen.map(|l| l.expect("text").trim_end().to_owned());
    assert_eq!(lines.next().as_deref(), Some("ready"));
    keyboard.write_all(b"\x03").expect("typed");
    // The terminal echoes what was typed.
    assert_eq!(lines.next().as_deref(), Some("^Cgot"));
    kill(Pid::from_raw(run.id() as i32), Signal::SIGTERM).expect("sent");
    assert_eq!(run.wait().expect("ended").code(), Some(4));
    keyboard.write_all(b"end\n").expect("typed");
    assert_eq!(lines.next().as_deref(), Some("end"), "a second one came");
}

#[test]
fn a_program_that_signals_its_group_is_signalled_once() {
    let place = RunFolder::new();
    // The sender lives on, so that it can be told to be the program's own.
    let sender = "sh -c 'trap \"\" USR1; kill -USR1 0; exec sleep 5' >/dev/null 2>&1 &";
    let script = format!("trap 'echo got' USR1\n{sender}\nwait; sleep 0.2; exit 3");
    let mut run = place.ncclscope(&["run", "--", "sh", "-c", &script]);
    // A group of its own, which the tests are not in.
    std::os::unix::process::CommandExt::process_group(&mut run, 0);
    let done = run.output().expect("started");
    assert_eq!(
        (stdout(&done).as_str(), done.status.code()),
        ("got\n", Some(3)),
        "{}",
        stderr(&done)
    );
}

#[test]
fn what_cannot_be_run_is_said_as_shells_do_and_leaves_no_folder() {
    let place = RunFolder::new();
    let missing = place.run(&["-o", "c", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("`no-such-program`: command not found"));
    let refused = place.run(&["-o", "c", "--", "./plugin.so"]);
    assert_eq!(refused.status.code(), Some(126));
    assert!(stderr(&refused).contains("`./plugin.so` can't be run"));
    assert!(!place.path().join("c").exists());
}

#[test]
fn a_run_that_recorded_nothing_leaves_no_folder_and_says_what_to_do() {
    let place = RunFolder::new();
    for (command, status, next) in [
        (&["true"][..], 0, "\n  next: ncclscope doctor\n"),
        (
            &["sh", "-c", "exit 3"],
            3,
            "\n  next: sh -c 'exit 3'   (see that it runs by itself)\n",
        ),
    ] {
        for output in [&["-o", "c"][..], &[]] {
            let done = place.run(&[output, &["--"], command].concat());
            assert_eq!(done.status.code(), Some(status));
            let said = stderr(&done);
            assert!(
                said.starts_with("ncclscope: nothing was recorded, so there is no capture: "),
                "{said}"
            );
            assert!(said.ends_with(next), "{said}");
        }
    }
    let left: Vec<_> = fs::read_dir(place.path())
        .expect("there")
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "the plugin alone: {left:?}");
    // A folder of the user's own, in which the capture was to be, stays and is as it was.
    fs::create_dir(place.path().join("mine")).expect("made");
    fs::write(place.path().join("mine/notes"), "").expect("written");
    let done = place.run(&["-o", "mine", "--", "true"]);
    assert_eq!(done.status.code(), Some(0));
    let left: Vec<_> = fs::read_dir(place.path().join("mine"))
        .expect("there")
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn misspelt_settings_are_named_before_the_program_starts() {
    let place = RunFolder::new();
    let mut run = place.ncclscope(&["run", "-o", "c", "--", "sh", "-c", "echo started >&2"]);
    let done = run
        .env("NCCLSCOPE_TIMMING", "stamps")
        .env("NCCLSCOPE_QUIET", "1")
        .output()
        .expect("started");
    let said = stderr(&done);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[..2],
        ["ncclscope: note: NCCLSCOPE_TIMMING is no setting and has no effect: NCCLSCOPE_TIMING is one",
            "started"]
    );
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn stacks_that_mode_profile_does_not_keep_are_noted() {
    let place = RunFolder::new();
    for (options, mode, is_noted) in [
        (["--stacks", "--mode=profile"], "trace", true),
        (["--stacks", "--stacks"], "profile", true),
        (["--stacks", "--mode=trace"], "profile", false),
        (["--env=NCCLSCOPE_STACKS=on"; 2], "profile", true),
        (["--env=NCCLSCOPE_STACKS=on"; 2], "trace", false),
    ] {
        let mut options = options.to_vec();
        options.dedup();
        let run = [&["run", "-o", "c"], &options[..], &["--", "true"]].concat();
        let done = place.ncclscope(&run).env("NCCLSCOPE_MODE", mode).output();
        let said = stderr(&done.expect("started"));
        assert_eq!(
            said.contains("no stacks are recorded in mode profile"),
            is_noted,
            "{said}"
        );
    }
}

#[test]
fn with_steps_torch_python_finds_a_folder_of_the_capture_first() {
    let place = RunFolder::new();
    // As a Python sees it. Something is in the capture, so it stays.
    let program =
        "echo $NCCLSCOPE_STEPS $PYTHONPATH; ls -A c/.torch-steps; stat -c %a c/.torch-steps; \
                   mkdir c/host0";
    let mut run = place.ncclscope(&["run", "-o", "c", "--steps", "torch"]);
    run.args(["--env", "PYTHONPATH=/mine:/yours"]);
    let done = run.args(["--", "sh", "-c", program]).output();
    let done = done.expect("started");
    let folder = place.path().join("c/.torch-steps");
    let path = format!("torch {}:/mine:/yours", folder.display());
    let lines = [
        &path,
        "marks.py",
        "sitecustomize.py",
        "torch_steps.py",
        "700",
    ];
    assert_eq!(stdout(&done).lines().collect::<Vec<_>>(), lines);
    assert!(!folder.exists() && place.mark()["ended"].is_string());
    // A run that records nothing leaves nothing, and one that can't start either.
    for program in ["true", "/nowhere"] {
        place.run(&["-o", "none", "--steps", "torch", "--", program]);
        assert!(!place.path().join("none").exists(), "{program}");
    }
}

#[test]
fn without_a_folder_for_python_the_program_runs_and_a_note_says_so() {
    let place = RunFolder::new();
    let program = "echo $NCCLSCOPE_STEPS \"<$PYTHONPATH>\"";
    let done = place.run(&["-o", "a:b", "--steps", "torch", "--", "sh", "-c", program]);
    assert_eq!(stdout(&done), "off <>\n");
    let said = stderr(&done);
    assert!(
        said.contains("no steps are read from torch's optimizers"),
        "{said}"
    );
    assert!(said.contains("colon"), "{said}");
}

#[test]
fn without_steps_torch_python_finds_what_it_found() {
    let place = RunFolder::new();
    for options in [&[][..], &["--steps", "nvtx"]] {
        let program = ["--", "sh", "-c", "echo ${PYTHONPATH-unset}; ls -d c/.t*"];
        let done = place.run(&[&["-o", "c"], options, &program].concat());
        assert_eq!(stdout(&done), "unset\n");
    }
}
