//! `ncclscope hang --watch` beside jobs that fake-nccl plays. No test asserts when something is told, only
//! that it is told.

use super::{begins, live_parts, play, Folder};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// A watch that runs, the lines that it prints, and those that it says on standard error.
struct Watching {
    child: Child,
    lines: Receiver<String>,
    said: Receiver<String>,
}

/// The lines of a pipe, as they come.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Watching {
    fn start(mut command: Command) -> Watching {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ncclscope runs");
        let (out, err) = (child.stdout.take(), child.stderr.take());
        Watching {
            child,
            lines: lines(out.expect("piped")),
            said: lines(err.expect("piped")),
        }
    }

    /// Of this capture, as JSON.
    fn of(capture: &Path, arguments: &[&str]) -> Watching {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
        command.arg("hang").arg(capture);
        command.args(["--watch", "--json", "--every", "200ms"]);
        command.args(arguments);
        Watching::start(command)
    }

    /// The next line that has this news.
    fn until(&self, news: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(LONG).expect(news);
            let line: Value = serde_json::from_str(&line).expect("JSON");
            crate::schema::keeps_to(render::hang::SCHEMA, &line);
            if line["news"] == news {
                return line;
            }
        }
    }

    /// What it says on standard error until this is in a line.
    fn until_said(&self, wanted: &str) -> Vec<String> {
        let mut said: Vec<String> = Vec::new();
        while !said.last().is_some_and(|line| line.contains(wanted)) {
            let line = self.said.recv_timeout(LONG);
            said.push(line.unwrap_or_else(|_| panic!("{wanted} is not in {said:#?}")));
        }
        said
    }

    /// Waits for its end: status and what it said on standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let said: Vec<String> = self.said.iter().collect();
        (self.child.wait().expect("ended"), said.join("\n"))
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

/// Ends a job that hangs.
fn end(folder: &Folder, mut job: Child, answer: &Value) {
    for rank in answer["communicators"][0]["ranks"]
        .as_array()
        .expect("ranks")
    {
        let _ = kill(pid(rank), Signal::SIGKILL);
    }
    let _ = job.kill();
    job.wait().expect("ended");
    assert!(!live_parts(&folder.capture()).is_empty());
}

fn pid(of: &Value) -> Pid {
    Pid::from_raw(of["pid"].as_u64().expect("a pid") as i32)
}

/// The evidence that a folder holds.
fn evidence(folder: &Path) -> Vec<Value> {
    let names = std::fs::read_dir(folder).expect("a folder").flatten();
    let names = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("hung-"));
    let read = |entry: std::fs::DirEntry| std::fs::read(entry.path()).expect("read");
    let all = names.map(|entry| serde_json::from_slice(&read(entry)).expect("JSON"));
    all.collect()
}

#[test]
fn a_stand_still_is_told_then_that_the_job_goes_on_and_the_watch_ends_with_the_job() {
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let script = folder.0.path().join("job");
    let job = "ranks 2\nall_reduce 1MiB x10\nsync\nrank 1 { sleep 9s }\nall_reduce 4MiB\nsync\n\
        repeat 30 { all_reduce 1MiB ; sync ; sleep 100ms }\n";
    std::fs::write(&script, job).expect("written");
    let program = Path::new(env!("CARGO_BIN_EXE_ncclscope"));
    // It may begin before there is a capture.
    let executed = folder.0.path().join("executed");
    let exec = format!("touch {}", executed.display());
    let watching = Watching::of(&folder.capture(), &["--exec", &exec]);
    watching.until_said("waiting for a capture in ");
    let status = Command::new(program)
        .args(["run", "--timing", "host", "-o"])
        .arg(folder.capture())
        .arg("--")
        .arg(program.with_file_name("fake-nccl"))
        .args(["play", "--timeout", "60"])
        .arg(&script)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("ncclscope runs");
    assert!(status.success());
    let stands = watching.until("stands_still");
    let wanted =
        "Rank 1 has not made AllReduce of 4 MiB, call 11 on communicator *, which rank 0 waits in for";
    assert!(
        begins(stands["sentence"].as_str().unwrap_or(""), wanted),
        "{stands:#}"
    );
    assert_eq!(
        (&stands["hang"], &stands["proof"]),
        (&Value::Null, &Value::Null)
    );
    let goes = watching.until("goes_on");
    assert!(
        goes["stood_still_s"].as_f64().expect("a time") >= 5.0,
        "{goes:#}"
    );
    let (status, said) = watching.end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(evidence(&folder.capture()).is_empty());
    assert!(!executed.exists(), "nothing is executed but for a hang");
}

#[test]
fn a_stopped_rank_is_a_hang_and_the_command_learns_of_it_once() {
    let script = "ranks 4\nlinger 100s\nall_reduce 1MiB x10\nsync\nrank 2 hang\nall_reduce 4MiB\n";
    let (folder, job) = play(script, "host");
    let seen = folder.0.path().join("seen");
    let exec = format!(
        "env | grep ^NCCLSCOPE_HANG_ | sort >> {}; echo done; exit 3",
        seen.display()
    );
    let watching = Watching::of(&folder.capture(), &["--exec", &exec]);
    let stands = watching.until("stands_still");
    let stopped = &stands["blamed"][0];
    kill(pid(stopped), Signal::SIGSTOP).expect("stopped");
    let hangs = watching.until("hangs");
    assert_eq!(
        (&hangs["proof"], &hangs["certain"]),
        (&"stopped".into(), &true.into())
    );
    assert_eq!(hangs["blamed"][0]["global_rank"], 2);
    let said = watching.until_said("exit status: 3");
    assert!(said.iter().any(|line| line == "done"), "{said:#?}");
    kill(pid(stopped), Signal::SIGCONT).expect("let go");
    kill(pid(stopped), Signal::SIGKILL).expect("killed");
    // It is told once, whatever becomes of the rank.
    std::thread::sleep(Duration::from_secs(3));
    assert!(watching.lines.try_recv().is_err());
    let kept = evidence(&folder.capture());
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0]["sentence"], hangs["sentence"]);
    watching.kill();
    let seen = std::fs::read_to_string(seen).expect("the command ran");
    let value = |name: &str| {
        let all = seen
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        all.collect::<Vec<&str>>()
    };
    let host = hangs["blamed"][0]["host"].as_str().expect("a host");
    assert_eq!(value("NCCLSCOPE_HANG_RANKS"), ["2"]);
    assert_eq!(value("NCCLSCOPE_HANG_HOSTS"), [host]);
    assert_eq!(value("NCCLSCOPE_HANG_PIDS"), [pid(stopped).to_string()]);
    assert_eq!(value("NCCLSCOPE_HANG_PROOF"), ["stopped"]);
    assert_eq!(
        value("NCCLSCOPE_HANG_SENTENCE"),
        [hangs["sentence"].as_str().expect("text")]
    );
    assert_eq!(
        value("NCCLSCOPE_HANG_CAPTURE"),
        [folder.capture().display().to_string()]
    );
    let file = value("NCCLSCOPE_HANG_EVIDENCE");
    assert!(Path::new(file[0]).is_file());
    end(&folder, job, &hangs);
}

#[test]
fn a_dead_rank_is_a_hang_also_in_a_folder_that_cannot_be_written() {
    let script = "ranks 4\nlinger 100s\nall_reduce 1MiB x10\nsync\nrank 1 kill\nbroadcast 4MiB\n";
    let (folder, job) = play(script, "host");
    let mut command = Command::new("/bin/sh");
    // No file may grow.
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
    command
        .arg(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("hang")
        .arg(folder.capture());
    command.args(["--watch", "--json", "--every", "200ms", "--exec"]);
    command.arg("echo \"ranks $NCCLSCOPE_HANG_RANKS in [$NCCLSCOPE_HANG_EVIDENCE]\"");
    let watching = Watching::start(command);
    let hangs = watching.until("hangs");
    assert_eq!(hangs["proof"], "dead");
    let wanted = "Rank 1 is dead and has not made Broadcast of 4 MiB, call 11 on communicator *, which ranks \
        0,2-3 wait in for";
    assert!(
        begins(hangs["sentence"].as_str().unwrap_or(""), wanted),
        "{hangs:#}"
    );
    watching.until_said("The evidence can't be kept: ");
    watching.until_said("ranks 1 in []");
    end(&folder, job, &hangs);
    watching.kill();
    assert!(evidence(&folder.capture()).is_empty());
}

#[test]
fn without_proof_it_is_a_hang_by_time_and_text_says_so() {
    let script = "ranks 2\nlinger 60s\nall_reduce 1MiB x10\nsync\nrank 1 hang\nall_reduce 4MiB\n";
    let (folder, job) = play(script, "host");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command.arg("hang").arg(folder.capture());
    command.args(["--watch", "--after", "8s", "--every", "200ms"]);
    let watching = Watching::start(command);
    let line = || watching.lines.recv_timeout(LONG).expect("a line");
    let (first, second) = (line(), line());
    let wanted =
        "20*-* *:*:* The job stands still. Rank 1 has not made AllReduce of 4 MiB, call 11 on \
        communicator *, which rank 0 waits in for";
    assert!(begins(&first, wanted), "{first}");
    let wanted =
        "20*-* *:*:* HANG: the job has stood still for longer than 8.00 s. Rank 1 has not made \
        AllReduce of 4 MiB, *Next: py-spy dump --pid *";
    assert!(begins(&second, wanted), "{second}");
    watching.kill();
    let (_, answer) = super::json(&folder.capture(), &[]);
    end(&folder, job, &answer);
}
