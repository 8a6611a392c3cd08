//! `ncclscope run`, `collect` and `plugin-path` as a user meets them, with a test client in the recorder's place.
//!
//! The client is this test binary again: `plays_the_recorder` does what the variable `PLAY` says, in a process of its
//! own that can be killed.

use capture::live::{row_state, Image, Layout, View, MAGIC};
use capture::{block, snapshot};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering::Relaxed;

const CALLS: u64 = 5;

/// A folder to work in, with a file that stands for the plugin.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a folder"));
        fs::write(place.path().join("plugin.so"), "").expect("written");
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command, away from launchers' variables that the tests themselves may run under.
    fn ncclscope(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
        // Under nohup, or started in the background by a script, tests begin with signals ignored, and no shell can
        // trap what was ignored when it started.
        // SAFETY: signal() is safe to call between fork and exec.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || {
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        command.args(args).current_dir(self.path()).env_clear();
        command
            .env("PATH", std::env::var_os("PATH").expect("set"))
            .env("NCCLSCOPE_PLUGIN", self.path().join("plugin.so"));
        command.env("CLIENT", std::env::current_exe().expect("known"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.ncclscope(&[&["run"], args].concat())
            .output()
            .expect("started")
    }

    /// Runs a shell script that calls the client as `play`.
    fn run_playing(&self, script: &str) -> Output {
        let play = "play() { PLAY=$1 \"$CLIENT\" --exact plays_the_recorder --ignored --nocapture >/dev/null; }";
        self.run(&["-o", "c", "--", "sh", "-c", &format!("{play}\n{script}")])
    }

    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let folder = self.path().join("c/host0");
        let mut found: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        found.retain(|p| p.extension().is_some_and(|e| e == ending));
        found
    }

    fn mark(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.path().join("c/capture.json")).expect("there"))
            .expect("JSON")
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

// The client.

/// The image of a process with five calls, one of them open unless it ended.
fn image(trace: &Path, ended: bool) -> Image {
    let layout = Layout::for_memory(0);
    let image = Image::zeroed(layout.bytes());
    // SAFETY: the image is zeroed, aligned, as long as the layout says, and outlives the view.
    let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
    let header = view.header();
    let stat = fs::read_to_string("/proc/self/stat").expect("read");
    let start = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
    header.trace_id.store(trace_id(), Relaxed);
    header.pid.store(std::process::id(), Relaxed);
    header.pid_start.store(start.expect("a number"), Relaxed);
    header.pid_namespace.store(
        fs::metadata("/proc/self/ns/pid").expect("read").ino(),
        Relaxed,
    );
    header.born.store(CALLS, Relaxed);
    header.state.store(u32::from(ended), Relaxed);
    view.rows()[7].word.store(
        if ended {
            row_state::FREE
        } else {
            7 << 2 | row_state::ALIVE
        },
        Relaxed,
    );
    let process = process(trace);
    for (to, from) in header.process.iter().zip(process.bytes()) {
        to.store(from, Relaxed);
    }
    header.process_len.store(process.len() as u32, Relaxed);
    header.magic.store(MAGIC, Relaxed);
    image
}

fn trace_id() -> u64 {
    u64::from(std::process::id()) << 8 | 1
}

fn process(trace: &Path) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    format!(
        "host=host0\nboot_id={}\nlive=/nowhere\ntrace={}\n",
        boot.trim(),
        trace.display()
    )
}

fn bytes(image: &Image) -> Vec<u8> {
    let bytes = Layout::for_memory(0).bytes();
    image
        .words()
        .iter()
        .flat_map(|word| word.load(Relaxed).to_le_bytes())
        .take(bytes)
        .collect()
}

/// Puts `image` where the recorder has its live part.
fn leave(image: &Image) {
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(shared_memory())
        .expect("made");
    let name = format!("r0-p{}-{:016x}.live", std::process::id(), trace_id());
    fs::write(shared_memory().join(name), bytes(image)).expect("written");
}

fn write_trace(trace: &Path) {
    fs::create_dir_all(trace.parent().expect("a folder")).expect("made");
    let mut bytes = block::file_header(trace_id()).to_vec();
    let start = block::begin(&mut bytes);
    bytes.extend(process(trace).bytes());
    block::finish(&mut bytes, start, block::Kind::Process, 0);
    fs::write(trace, bytes).expect("written");
}

fn write_snapshot(image: &Image, path: &Path) {
    let mut out = Vec::new();
    let size = Layout::for_memory(0).bytes();
    snapshot::begin(&mut out);
    snapshot::span(&mut out, 0, &image.words()[..size / 8]);
    snapshot::finish(&mut out, 0, size);
    fs::write(path, out).expect("written");
}

fn shared_memory() -> PathBuf {
    PathBuf::from(format!("/dev/shm/ncclscope-{}", nix::unistd::geteuid()))
}

fn die() -> ! {
    kill(Pid::this(), Signal::SIGKILL).expect("sent");
    unreachable!("killed")
}

#[test]
#[ignore = "the client of the other tests"]
fn plays_the_recorder() {
    let play = std::env::var("PLAY").unwrap_or_default();
    let Ok(out) = std::env::var("NCCLSCOPE_OUT") else {
        return;
    };
    let trace = PathBuf::from(format!(
        "{out}/host0/r0-p{}-{:08x}.trace",
        std::process::id(),
        trace_id() as u32
    ));
    match play.as_str() {
        "killed" => {
            write_trace(&trace);
            leave(&image(&trace, false));
            die();
        }
        "killed-before-its-trace-file" => {
            leave(&image(&trace, false));
            die();
        }
        "ended" => {
            write_trace(&trace);
            let image = image(&trace, true);
            leave(&image);
            write_snapshot(&image, &trace.with_extension("snap"));
        }
        other => panic!("no such play: {other}"),
    }
}

// Running.

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
    let place = Place::new();
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
fn a_folder_that_cannot_be_marked_is_refused_and_not_left_behind() {
    let place = Place::new();
    let mut run = place.ncclscope(&["run", "-o", "c", "--", "true"]);
    let refused = without_file_sizes(&mut run).output().expect("started");
    assert_eq!(refused.status.code(), Some(2), "{:?}", refused.status);
    assert!(
        stderr(&refused).contains("capture.json`: File too large"),
        "{}",
        stderr(&refused)
    );
    assert!(!place.path().join("c").exists());
}

#[test]
fn a_limit_of_file_sizes_ends_the_program_alone() {
    let place = Place::new();
    // The program takes the limit for itself and for `run`, its parent, which then can't write the end into capture.json.
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
    let place = Place::new();
    let done = place.run(&["-o", "c", "--", "sh", "-c", "cat; echo words >&2; exit 7"]);
    assert_eq!(done.status.code(), Some(7));
    assert_eq!(stdout(&done), "");
    let lines: Vec<String> = stderr(&done).lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "words");
    assert!(
        lines[1].starts_with("ncclscope: capture in c: 0 processes"),
        "{lines:?}"
    );
    assert!(
        lines[1].ends_with("next: ncclscope report c") && lines.len() == 2,
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
    let place = Place::new();
    let mut run = place.ncclscope(&["run", "cat"]);
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
    let place = Place::new();
    let script = "echo $NCCL_PROFILER_PLUGIN $NCCLSCOPE_OUT $NCCLSCOPE_MODE $NCCLSCOPE_TIMING; \
                  echo $NCCLSCOPE_RUN";
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
    let done = Place::new().run(&["--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(done.status.code(), Some(128 + 11));
}

#[test]
fn a_broken_pipe_is_ignored_by_the_program_if_by_the_caller() {
    let place = Place::new();
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
        fs::remove_dir_all(place.path().join("c")).expect("removed");
    }
}

#[test]
fn signals_reach_the_program_once() {
    let place = Place::new();
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
    let place = Place::new();
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
    let place = Place::new();
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
    let place = Place::new();
    let missing = place.run(&["-o", "c", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("`no-such-program`: command not found"));
    let refused = place.run(&["-o", "c", "--", "./plugin.so"]);
    assert_eq!(refused.status.code(), Some(126));
    assert!(stderr(&refused).contains("`./plugin.so` can't be run"));
    assert!(!place.path().join("c").exists());
}

// The folder.

#[test]
fn a_folder_with_a_capture_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path().join("c")).expect("made");
    assert!(
        place.run(&["-o", "c", "true"]).status.success(),
        "an empty folder will do"
    );
    let again = place.run(&["-o", "c", "echo", "ran"]);
    assert_eq!(
        (again.status.code(), stdout(&again).as_str()),
        (Some(2), "")
    );
    assert!(
        stderr(&again).contains("`c` holds another capture (`c/capture.json`)")
            && stderr(&again).contains("hint: ")
    );
    let above = place.run(&["-o", ".", "echo", "ran"]);
    assert_eq!(above.status.code(), Some(2), "a capture lies beneath");
    fs::create_dir_all(place.path().join("d/host")).expect("made");
    fs::write(place.path().join("d/host/r0-p1-00000000.trace"), "").expect("written");
    assert!(stderr(&place.run(&["-o", "d", "true"])).contains("d/host/r0-p1-00000000.trace"));
    assert!(!place.path().join("d/capture.json").exists());
}

#[test]
fn a_pattern_needs_a_folder_of_its_own() {
    let done = Place::new().run(&["-o", "x-%p", "true"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        stderr(&done).contains("hint: ") && stderr(&done).contains("captures/x-%p"),
        "{}",
        stderr(&done)
    );
}

#[test]
fn ranks_that_a_launcher_started_share_a_folder() {
    let place = Place::new();
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
    assert!(
        stderr(&again).contains("earlier capture of this job and rank"),
        "{}",
        stderr(&again)
    );
    assert!(stderr(&rank("0", "1", &["-o", "c"])).contains("holds another capture"));
    // Without -o all ranks come to the same names, one for each program they run.
    let here = place.path().display();
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

// Other tools and launchers.

#[test]
fn another_plugin_is_refused_unless_it_is_to_be_replaced() {
    let place = Place::new();
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
    let place = Place::new();
    let done = place.run(&["--", env!("CARGO_BIN_EXE_ncclscope"), "run", "true"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(stderr(&done).contains("already under an `ncclscope run`"));
}

/// A launcher of that name that prints its arguments, one a line.
fn fake_launcher(place: &Place, name: &str, version: &str) -> String {
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
    let place = Place::new();
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
    let place = Place::new();
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
    let place = Place::new();
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

// Adoption.

fn assert_adopted(place: &Place, count: usize) {
    let live = place.files("live");
    assert_eq!((live.len(), place.files("trace").len()), (count, count));
    for live in live {
        let bytes = fs::read(&live).expect("read");
        assert_eq!(bytes.len(), Layout::for_memory(0).bytes());
        let image = Image::copy(&bytes);
        let view = image.view().expect("a live part");
        assert_eq!(view.rows()[7].word.load(Relaxed), 7 << 2 | row_state::ALIVE);
        let trace = fs::read(live.with_extension("trace")).expect("there");
        assert_eq!(
            block::trace_id(&trace),
            Ok(view.header().trace_id.load(Relaxed))
        );
        assert_eq!(fs::metadata(&live).expect("there").mode() & 0o777, 0o600);
        assert!(
            fs::metadata(&live).expect("there").blocks() * 512 < bytes.len() as u64,
            "zeros are holes"
        );
    }
}

#[test]
fn a_killed_process_among_others_leaves_its_live_part() {
    let place = Place::new();
    let done = place.run_playing("play killed & play killed & play ended & wait; exit 0");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(
        stderr(&done).ends_with("capture in c: 3 processes, 15 calls; next: ncclscope report c\n"),
        "{}",
        stderr(&done)
    );
    assert_eq!(
        (
            place.files("live").len(),
            place.files("trace").len(),
            place.files("snap").len()
        ),
        (2, 3, 1)
    );
}

#[test]
fn the_killed_program_itself_leaves_its_live_part() {
    let place = Place::new();
    let done = place.run_playing(
        "PLAY=killed exec \"$CLIENT\" --exact plays_the_recorder --ignored --nocapture",
    );
    assert_eq!(done.status.code(), Some(128 + 9));
    assert_adopted(&place, 1);
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

#[test]
fn a_process_killed_before_its_trace_file_was_made_gets_one() {
    let place = Place::new();
    place.run_playing("play killed-before-its-trace-file");
    assert_adopted(&place, 1);
}

#[test]
fn what_dies_while_the_program_runs_does_not_stay_in_memory() {
    let place = Place::new();
    // Until the capture has it. The program would otherwise never end.
    let script =
        "play killed; while ! ls c/host0/*.live >/dev/null 2>&1; do sleep 0.05; done; exit 0";
    let done = place.run_playing(script);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_adopted(&place, 1);
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

#[test]
fn a_kill_of_run_together_with_its_ranks_loses_nothing() {
    let place = Place::new();
    let built = Path::new(env!("CARGO_BIN_EXE_ncclscope"));
    let built = built.parent().expect("target/PROFILE");
    let (fake, plugin) = (
        built.join("fake-nccl"),
        built.join("libnccl-profiler-ncclscope.so"),
    );
    assert!(
        fake.is_file() && plugin.is_file(),
        "`make debug` builds them"
    );
    fs::write(
        place.path().join("job"),
        "ranks 2\nall_reduce 1KiB x177\nsleep 60s\nall_reduce 4KiB",
    )
    .expect("written");
    // The whole process group, as a terminal, a batch system or a container's end would.
    let script = "$FAKE play job & while [ ! -e go ]; do sleep 0.05; done; kill -9 0";
    let mut command = place.ncclscope(&["run", "-o", "c", "--", "sh", "-c", script]);
    command
        .env("FAKE", fake)
        .env("NCCLSCOPE_PLUGIN", plugin)
        // Nothing is in the folder but what was written first.
        .env("NCCLSCOPE_FLUSH", "3600")
        .env("NCCLSCOPE_TIMING", "host")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().expect("started");
    let completeness = || {
        let done = place
            .ncclscope(&["report", "c", "--json"])
            .output()
            .expect("started");
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
        report["completeness"].clone()
    };
    let began = std::time::Instant::now();
    while completeness()["announced"] != 2 * 177 && began.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fs::write(place.path().join("go"), "").expect("written");
    let status = child.wait().expect("ended");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
    let left = in_shared_memory(&place).len();
    let found = completeness();
    let collected = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!((left, collected.status.code()), (2, Some(0)), "{found}");
    for found in [found, completeness()] {
        let counts = ["announced", "recorded"].map(|key| found[key].as_u64());
        assert_eq!(counts, [Some(2 * 177); 2], "{found}");
        assert_eq!(found["lost"], serde_json::json!({}), "{found}");
    }
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

/// Live parts in shared memory that belong to `place`.
fn in_shared_memory(place: &Place) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(shared_memory())
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    let here = place.path().to_string_lossy().into_owned();
    found.retain(|p| {
        // Other jobs of this machine make theirs meanwhile, which begin empty.
        let head = fs::read(p).map(|bytes| bytes.get(..4096).map(<[u8]>::to_vec));
        head.is_ok_and(|h| h.is_some_and(|h| String::from_utf8_lossy(&h).contains(&here)))
    });
    found
}

/// A process that no `ncclscope run` watched, killed.
fn killed_alone(place: &Place) {
    let mut client = Command::new(std::env::current_exe().expect("known"));
    client
        .args(["--exact", "plays_the_recorder", "--ignored"])
        .env("PLAY", "killed");
    client
        .env("NCCLSCOPE_OUT", place.path().join("c"))
        .output()
        .expect("started");
}

#[test]
fn collect_adopts_what_no_run_was_there_for() {
    let place = Place::new();
    killed_alone(&place);
    assert_eq!(
        (place.files("live").len(), in_shared_memory(&place).len()),
        (0, 1)
    );
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(
        stdout(&done).starts_with("adopted    host0  ") && stdout(&done).ends_with(".live\n"),
        "{}",
        stdout(&done)
    );
    assert_adopted(&place, 1);
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
    let again = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!(
        (again.status.code(), stdout(&again).as_str()),
        (Some(0), "")
    );
}

#[test]
fn collect_names_the_host_that_has_the_rest() {
    let place = Place::new();
    let trace = place.path().join("c/host0/r1-p1-00000000.trace");
    fs::create_dir_all(trace.parent().expect("a folder")).expect("made");
    let mut bytes = block::file_header(5).to_vec();
    let start = block::begin(&mut bytes);
    bytes.extend(b"host=far\nboot_id=other\nlive=/dev/shm/ncclscope-1/x.live\n");
    block::finish(&mut bytes, start, block::Kind::Process, 0);
    fs::write(&trace, bytes).expect("written");
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    let line = "elsewhere  far  c/host0/r1-p1-00000000.trace  /dev/shm/ncclscope-1/x.live\n";
    assert_eq!(
        (done.status.code(), stdout(&done).as_str()),
        (Some(0), line)
    );
}

#[test]
fn collect_copies_into_a_shared_folder_and_over_nothing() {
    let place = Place::new();
    killed_alone(&place);
    let collect = || {
        place
            .ncclscope(&["collect", "c", "--into", "shared"])
            .output()
            .expect("started")
    };
    let done = collect();
    assert!(
        stderr(&done).contains("1 adopted") && stderr(&done).contains("2 files copied"),
        "{}",
        stderr(&done)
    );
    let trace = &place.files("trace")[0];
    let copy = place
        .path()
        .join("shared/host0")
        .join(trace.file_name().expect("named"));
    assert_eq!(
        fs::read(trace).expect("there"),
        fs::read(&copy).expect("there")
    );
    assert!(copy.with_extension("live").exists());
    assert!(stderr(&collect()).contains("0 files copied"));
    fs::write(&copy, "other").expect("written");
    let refused = collect();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("other content"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(fs::read(&copy).expect("there"), b"other");
}

#[test]
fn collect_names_a_process_that_runs_once() {
    let place = Place::new();
    let trace = place.path().join("c/host0/r0-p1-aa.trace");
    write_trace(&trace);
    // This test's own process is the writer.
    let image = image(&trace, false);
    write_snapshot(&image, &trace.with_extension("snap"));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(shared_memory())
        .expect("made");
    let live = shared_memory().join(format!("r0-p{}-once.live", std::process::id()));
    fs::write(&live, bytes(&image)).expect("written");
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    fs::remove_file(live).expect("left alone");
    let line = format!("alive      host0  {}\n", trace.display());
    assert_eq!(
        (done.status.code(), stdout(&done)),
        (Some(0), line),
        "{}",
        stderr(&done)
    );
    assert!(stderr(&done).contains("0 adopted, 1 alive"));
}

#[test]
fn what_a_folder_cannot_take_is_said_once_and_collected_into_another() {
    let place = Place::new();
    killed_alone(&place);
    let trace = &place.files("trace")[0];
    // Nobody, root neither, can put a file in the place of a folder.
    let taken = trace.with_extension("live");
    fs::create_dir_all(taken.join("in the way")).expect("made");
    let collect = |args: &[&str]| place.ncclscope(args).output().expect("started");
    let refused = collect(&["collect", "c"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert_eq!(said.matches("can't be adopted").count(), 1, "{said}");
    assert!(said.contains("1 failed"), "{said}");
    assert_eq!(in_shared_memory(&place).len(), 1);

    let done = collect(&["collect", "c", "--into", "shared"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(stderr(&done).contains("1 adopted"), "{}", stderr(&done));
    let name = taken.file_name().expect("named");
    assert!(place.path().join("shared/host0").join(name).is_file());
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

#[test]
fn what_cannot_be_printed_stops_nothing() {
    let place = Place::new();
    killed_alone(&place);
    let full = || {
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("there")
    };
    let run = |args: &[&str]| {
        let mut command = place.ncclscope(args);
        command.stdout(full()).output().expect("started")
    };
    for args in [&["collect", "c"][..], &["plugin-path"]] {
        let done = run(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {}", stderr(&done));
        assert!(
            stderr(&done).contains("error: writing the output: No space left"),
            "{args:?}: {}",
            stderr(&done)
        );
    }
    assert_adopted(&place, 1);
}

#[test]
fn names_in_a_shared_folder_cannot_command_the_terminal() {
    let place = Place::new();
    let trace = place.path().join("c/host0/\u{1b}[31mr1.trace");
    write_trace(&trace);
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!(
        stdout(&done),
        "gone       host0  c/host0/\\u{1b}[31mr1.trace\n"
    );
}

#[test]
fn live_parts_without_a_capture_folder_are_named_and_stay() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: no shared memory of its own is permitted here");
        return;
    }
    let place = Place::new();
    let script = "\"$CLIENT\" --exact plays_the_recorder --ignored >/dev/null 2>&1; rm -r c; \
                  \"$0\" collect; mkdir c; \"$0\" collect c";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, env!("CARGO_BIN_EXE_ncclscope")])
        .current_dir(place.path());
    shell
        .env("CLIENT", std::env::current_exe().expect("known"))
        .env("PLAY", "killed")
        .env("TMPDIR", place.path())
        .env("NCCLSCOPE_OUT", place.path().join("c"));
    // What others have in shared memory is not to be collected here.
    let alone = || {
        let check = |result: i32| match result {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        let (none, shm) = (c"none".as_ptr(), c"/dev/shm".as_ptr());
        let (null, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        // SAFETY: system calls on constants.
        unsafe {
            check(libc::unshare(libc::CLONE_NEWNS))?;
            check(libc::mount(none, c"/".as_ptr(), null, private, null.cast()))?;
            check(libc::mount(none, shm, c"tmpfs".as_ptr(), 0, null.cast()))
        }
    };
    // SAFETY: as above, and nothing is allocated.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut shell, alone) };
    let Ok(done) = shell.output() else {
        eprintln!("skipped: no shared memory of its own is permitted here");
        return;
    };
    let (out, said) = (stdout(&done), stderr(&done));
    let lines: Vec<&str> = out.lines().collect();
    let [stray, adopted] = lines[..] else {
        panic!("{out}{said}")
    };
    let folder = place.path().join("c");
    let way_out = format!("run `ncclscope collect {}`", folder.display());
    assert!(
        stray.starts_with("stray      host0  /dev/shm/ncclscope-0/r0-p"),
        "{stray}"
    );
    assert!(stray.contains(&way_out), "{stray}");
    assert!(said.contains("0 elsewhere, 1 stray"), "{said}");
    assert!(adopted.starts_with("adopted    host0  "), "{adopted}");
}
