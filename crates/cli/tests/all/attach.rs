//! `ncclscope attach` as users run it: against the fake job of `crates/attach/examples`. Skipped with the
//! reason if this machine allows no probes.

#![cfg(target_arch = "x86_64")]

#[path = "../../../attach/tests/attach/told.rs"]
mod told;

use crate::schema::keeps_to;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use told::Told;

const SCHEMA: &str = include_str!("../../schema/attach-1.json");

/// A file that `cargo build -p ncclscope-attach --examples` builds.
fn example(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_ncclscope"));
    let path = program
        .parent()
        .expect("a folder")
        .join("examples")
        .join(name);
    assert!(
        path.exists(),
        "`cargo build -p ncclscope-attach --examples` builds {name}"
    );
    path
}

/// The fake job, as one of two ranks.
fn job(library: &Path, rank: &str) -> Told {
    let mut command = Command::new(example("fake_job"));
    command.arg(library);
    Told::start(command.envs([("RANK", rank), ("WORLD_SIZE", "2")]))
}

fn ncclscope(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_ncclscope");
    let output = Command::new(program).args(arguments).output();
    output.expect("started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `attach` with these options while `act` has the jobs do something; `None` if it can't work here.
fn attached(arguments: &[&str], act: impl FnOnce()) -> Option<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    attached_by(command.arg("attach").args(arguments), act)
}

/// The same, with a command that starts it.
fn attached_by(command: &mut Command, act: impl FnOnce()) -> Option<Output> {
    let mut attach = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut said = Vec::new();
    let mut errors = BufReader::new(attach.stderr.take().expect("piped"));
    loop {
        let mut line = String::new();
        if errors.read_line(&mut line).expect("text") == 0 {
            attach.wait().expect("ended");
            eprintln!("skipped: {}", said.concat());
            return None;
        }
        said.push(line.clone());
        // It is printed once probes are there.
        if line.contains("a recorded call costs") {
            break;
        }
    }
    act();
    std::thread::sleep(Duration::from_millis(300));
    // SAFETY: a process of this test.
    unsafe { libc::kill(attach.id() as i32, libc::SIGINT) };
    let mut output = attach.wait_with_output().expect("ended");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut errors, &mut rest).expect("text");
    output.stderr = (said.concat() + &rest).into_bytes();
    Some(output)
}

#[test]
fn everything_that_attach_prints_is_in_its_schema_and_in_the_report() {
    let place = tempfile::tempdir().expect("a folder");
    let library = example("libfake_nccl.so");
    let copy = place.path().join("libnccl.so.2");
    std::fs::copy(library, &copy).expect("copied");
    let mut jobs = ["0", "1"].map(|rank| job(&copy, rank));
    for job in &mut jobs {
        job.tell("load");
    }
    let port = jobs[0].tell("listen");
    jobs[1].tell(&format!("connect {port}"));
    let pids = jobs.each_ref().map(|job| job.pid().to_string());
    for json in [true, false] {
        let folder = place.path().join(if json { "json" } else { "text" });
        let shown = folder.to_str().expect("text");
        let mut arguments = vec!["-o", shown, "--sched", "--net", "--init", "--slow"];
        arguments.extend(json.then_some("--json"));
        arguments.extend(pids.each_ref().map(String::as_str));
        let run = attached(&arguments, || {
            for (rank, job) in jobs.iter_mut().enumerate() {
                job.tell(&format!("init 2 {rank}"));
                job.tell("loop 2 100");
                job.tell("long 78 0");
            }
            jobs[1].tell("send 4000");
            jobs[0].tell("receive 4000");
            // Connections are asked for twice a second.
            std::thread::sleep(Duration::from_millis(700));
        });
        let Some(output) = run else { return };
        let page = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        if json {
            let answer: Value = serde_json::from_str(&page).expect("JSON");
            keeps_to(SCHEMA, &answer);
            let processes = answer["processes"].as_array().expect("processes");
            assert_eq!(processes.len(), 2);
            for process in processes {
                assert_eq!(process["inits"][0].as_array().map(Vec::len), Some(3));
                let longest = process["sched"]["longest"].as_array().expect("rows");
                let asleep = longest
                    .iter()
                    .filter(|call| call["function"] == "ncclAllReduce");
                let asleep = asleep.filter_map(|call| call["asleep_us"].as_f64());
                assert!(asleep.fold(0.0, f64::max) > 29_000.0, "{longest:?}");
            }
            let connections = answer["net"]["connections"].as_array().expect("an array");
            let sent = connections
                .iter()
                .find(|c| c["rank"] == "1")
                .expect("rank 1");
            assert_eq!(
                (&sent["sent_bytes"], &sent["peer_rank"]),
                (&4000.into(), &"0".into())
            );
        } else {
            for part in [
                "Recorded 404 calls of 2 processes",
                "What threads did in their calls",
                "asleep.",
                "TCP connections (most bytes first;",
                "3.91 KiB",
                "Inside init 1 of process",
                "  bootstrapAllGather",
            ] {
                assert!(page.contains(part), "{part}:\n{page}");
            }
            let wide = page.lines().find(|line| line.chars().count() > 110);
            assert_eq!(wide, None);
        }
        // The report knows the same of the calls that took long.
        let report = ncclscope(&["report", "--json", shown]);
        let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let jitter = report["nodes"]["jitter"].as_array().expect("rows");
        let rows = jitter.iter().filter(|row| row["source"] == "switches");
        let asleep = rows
            .filter(|row| row["asleep"].as_f64() > Some(0.5))
            .count();
        assert!(asleep >= 2, "{jitter:?}");
    }
}

#[test]
fn without_privileges_the_way_out_is_named() {
    let place = tempfile::tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path(), open).expect("open to all");
    let program = place.path().join("ncclscope");
    std::fs::copy(env!("CARGO_BIN_EXE_ncclscope"), &program).expect("copied");
    // SAFETY: a plain call.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root can become another user");
    }
    let mut command = Command::new(&program);
    let command = command.args(["attach", "--all", "--for", "1s"]);
    let output = command
        .current_dir(place.path())
        .uid(65534)
        .gid(65534)
        .output();
    let output = output.expect("started");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(text(&output.stdout), "");
    let is_sandbox = said.contains("gVisor") || said.contains("lockdown");
    if !is_sandbox {
        for part in [
            "CAP_BPF and CAP_PERFMON missing",
            "sudo",
            "setcap",
            "ncclscope run",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    // And no folder of a capture that has nothing.
    let left: Vec<_> = std::fs::read_dir(place.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn two_capabilities_are_enough() {
    let place = tempfile::tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path(), open).expect("open to all");
    let copy = |from: &Path, name: &str| {
        let to = place.path().join(name);
        std::fs::copy(from, &to).expect("copied");
        to
    };
    let program = copy(Path::new(env!("CARGO_BIN_EXE_ncclscope")), "ncclscope");
    let library = copy(&example("libfake_nccl.so"), "libnccl.so.2");
    let mut job = job(&library, "0");
    job.tell("load");
    let become_nobody = |capabilities: &str, command: &[&str]| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        for set in ["--inh-caps", "--ambient-caps"] {
            setpriv.arg(format!("{set}={capabilities}"));
        }
        setpriv.args(command).current_dir(place.path());
        setpriv
    };
    let status = become_nobody("+bpf,+perfmon", &["true"]).status();
    if !status.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no setpriv, or this user may not give capabilities");
    }
    let program = program.to_str().expect("text");
    for (capabilities, knows_rank) in [
        ("+bpf,+perfmon", false),
        ("+bpf,+perfmon,+sys_ptrace,+dac_read_search", true),
    ] {
        let pid = job.pid().to_string();
        let mut attach = become_nobody(
            capabilities,
            &[program, "attach", &pid, "--sched", "--json"],
        );
        let run = attached_by(&mut attach, || drop(job.tell("loop 2 100")));
        let Some(output) = run else { continue };
        let said = text(&output.stderr);
        // Kernels before 6.6, and those where these two don't make mappings readable, say what helps.
        if output.status.code() == Some(2) || said.contains("CAP_SYS_PTRACE helps") {
            eprintln!("skipped with {capabilities}: {said}");
            continue;
        }
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let process = &answer["processes"][0];
        let calls = process["calls"].as_array().expect("rows");
        let made: u64 = calls.iter().filter_map(|row| row["calls"].as_u64()).sum();
        let probes = &answer["probes"];
        assert_eq!((made, probes), (200, &"uprobe_multi".into()), "{said}");
        assert_eq!(process["rank"] == "0", knows_rank, "{process}");
    }
}

/// What BPF has in the kernel: the name of a kind in `/proc/PID/fdinfo`, and the command of the system call
/// `bpf` that goes from one number to the next.
const KINDS: [(&str, i32); 3] = [("prog_id", 11), ("map_id", 12), ("link_id", 31)];

/// Numbers of all objects of a kind that are in the kernel, as `bpftool` finds them. Pinned ones are among
/// them. `None` if this user may not ask.
fn in_the_kernel(next: i32) -> Option<Vec<u32>> {
    let mut all = vec![];
    loop {
        // start_id, next_id, open_flags.
        let mut attributes = [all.last().copied().unwrap_or(0u32), 0, 0];
        // SAFETY: the kernel writes the second number of the block, which is as long as said.
        let done = unsafe { libc::syscall(libc::SYS_bpf, next, attributes.as_mut_ptr(), 12) };
        match (done, std::io::Error::last_os_error().raw_os_error()) {
            (0, _) => all.push(attributes[1]),
            (_, Some(libc::ENOENT)) => return Some(all),
            _ => return None,
        }
    }
}

/// Numbers of what a process holds, by kind.
fn held(process: u32) -> [Vec<u32>; 3] {
    let folder = std::fs::read_dir(format!("/proc/{process}/fdinfo")).expect("readable");
    let files = folder.flatten().map(|entry| entry.path());
    let lines: Vec<String> = files
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    KINDS.map(|(name, _)| {
        let lines = lines.iter().flat_map(|text| text.lines());
        let of = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let mut numbers: Vec<u32> = of.filter_map(|number| number.trim().parse().ok()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    })
}

#[test]
fn no_program_map_or_link_remains_after_a_kill() {
    if KINDS.iter().any(|(_, next)| in_the_kernel(*next).is_none()) {
        return eprintln!("skipped: this user may not ask what BPF has in the kernel");
    }
    let place = tempfile::tempdir().expect("a folder");
    let copy = place.path().join("libnccl.so.2");
    std::fs::copy(example("libfake_nccl.so"), &copy).expect("copied");
    let mut job = job(&copy, "0");
    job.tell("load");
    let folder = place.path().join("capture");
    let mut attach = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args([
            "attach",
            &job.pid().to_string(),
            "--sched",
            "--net",
            "--init",
            "-o",
        ])
        .arg(&folder)
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let lines = BufReader::new(attach.stderr.take().expect("piped")).lines();
    let mut lines = lines.map_while(Result::ok);
    if !lines.any(|line| line.contains("a recorded call costs")) {
        attach.wait().expect("ended");
        return eprintln!("skipped: no probes here");
    }
    let mut left = held(attach.id());
    // Entry and return, their links, and those of the scheduler: its programs are held by their links alone.
    let least = [2, 5, 4];
    for ((held, least), (name, next)) in left.iter().zip(least).zip(KINDS) {
        assert!(held.len() >= least, "{name}: {held:?}");
        let all = in_the_kernel(next).expect("listed");
        assert!(
            held.iter().all(|id| all.contains(id)),
            "{name}: {held:?} of {all:?}"
        );
    }
    job.tell("loop 1 100");
    attach.kill().expect("killed");
    attach.wait().expect("ended");
    // The kernel takes them away a moment after the process. Tests beside this one have others.
    for _ in 0..200 {
        for (held, (_, next)) in left.iter_mut().zip(KINDS) {
            let all = in_the_kernel(next).expect("listed");
            held.retain(|id| all.contains(id));
        }
        if left.iter().all(Vec::is_empty) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(left.iter().all(Vec::is_empty), "{left:?}");
    job.tell("loop 1 100");
}

/// Has the kernel refuse the system call `bpf` to a program, as containers do.
fn forbid_bpf(command: &mut Command) {
    // struct sock_filter: load the number of the call; if it is bpf, fail with EPERM; else go on.
    let filter = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let fail = 0x0005_0000 | libc::EPERM as u32;
    let mut program = [
        filter(0x20, 0, 0, 0),
        filter(0x15, 0, 1, libc::SYS_bpf as u32),
        filter(0x06, 0, 0, fail),
        filter(0x06, 0, 0, 0x7fff_0000),
    ];
    let set = move || {
        let filters = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: the filter lives through the calls.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, 2, &filters) == 0
        };
        if done {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: system calls alone.
    unsafe { command.pre_exec(set) };
}

#[test]
fn where_bpf_is_forbidden_perf_events_are_used_and_doctor_says_so_before() {
    let place = tempfile::tempdir().expect("a folder");
    let copy = place.path().join("libnccl.so.2");
    std::fs::copy(example("libfake_nccl.so"), &copy).expect("copied");
    let mut job = job(&copy, "0");
    job.tell("load");
    let without = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        forbid_bpf(&mut command);
        command
    };
    let doctor = without(&["doctor", "--json"]).output().expect("a filter");
    let doctor: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("rows");
    let check = checks
        .iter()
        .find(|check| check["check"] == "attach")
        .expect("a check");
    let finding = check["finding"].as_str().expect("text");
    if !finding.contains("works here") {
        return eprintln!("skipped: {finding}");
    }
    assert!(finding.contains("perf events without BPF"), "{finding}");
    let pid = job.pid().to_string();
    let sched = without(&["attach", &pid, "--sched", "--for", "1s"])
        .output()
        .expect("ran");
    let said = text(&sched.stderr);
    assert_eq!(sched.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--sched can't work here: it needs BPF"),
        "{said}"
    );

    let folder = place.path().join("capture");
    let shown = folder.to_str().expect("text");
    let mut attach = without(&["attach", &pid, "-o", shown, "--json", "--init"])
        .spawn()
        .expect("ran");
    let mut errors = BufReader::new(attach.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("a recorded call costs") {
        line.clear();
        assert!(errors.read_line(&mut line).expect("text") > 0, "it ended");
    }
    job.tell("init 2 0");
    job.tell("loop 2 100");
    // SAFETY: a process of this test.
    unsafe { libc::kill(attach.id() as i32, libc::SIGINT) };
    let output = attach.wait_with_output().expect("ended");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    keeps_to(SCHEMA, &answer);
    assert_eq!(answer["probes"], "perf_samples");
    let calls = answer["processes"][0]["calls"].as_array().expect("rows");
    let reduces = calls
        .iter()
        .filter(|row| row["function"] == "ncclAllReduce");
    let made: u64 = reduces.filter_map(|row| row["calls"].as_u64()).sum();
    assert_eq!(made, 200);
    assert_eq!(
        answer["processes"][0]["inits"][0].as_array().map(Vec::len),
        Some(3)
    );
}

#[test]
fn the_report_speaks_of_the_job_and_not_of_attach() {
    let place = tempfile::tempdir().expect("a folder");
    let copy = place.path().join("libnccl.so.2");
    std::fs::copy(example("libfake_nccl.so"), &copy).expect("copied");
    for ends in [false, true] {
        let mut job = job(&copy, "0");
        job.tell("load");
        let folder = place.path().join(if ends { "ended" } else { "went on" });
        let shown = folder.to_str().expect("text");
        let pid = job.pid().to_string();
        let output = attached(&[&pid, "-o", shown], || {
            job.tell("loop 1 5");
            if ends {
                job.child.kill().expect("killed");
                job.child.wait().expect("ended");
                // Processes are looked at five times a second.
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        if output.is_none() {
            return;
        }
        let report = ncclscope(&["report", "--json", shown]);
        let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let job = &report["job"];
        assert_eq!(job["exit_status"], Value::Null);
        let command = job["command"].as_str().expect("text");
        assert!(
            command.contains("fake_job") && !command.contains("attach "),
            "{command}"
        );
        let page = text(&ncclscope(&["report", "--all", shown]).stdout);
        for part in ["launch to exit", "exit status"] {
            assert!(!page.contains(part), "{part}:\n{page}");
        }
        assert!(page.contains("recorded from outside for"), "{page}");
        let end = if ends {
            "All processes ended while they were recorded"
        } else {
            "The job went on when the recording ended"
        };
        assert!(page.contains(end), "{page}");
    }
}

/// A real libnccl.so.2: `NCCLSCOPE_REAL_NCCL` names it, or Python has the package.
fn real_nccl() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("NCCLSCOPE_REAL_NCCL") {
        return Some(path.into());
    }
    let find = "import nvidia.nccl as n; print(list(n.__path__)[0] + '/lib/libnccl.so.2')";
    let output = Command::new("python3").args(["-c", find]).output().ok()?;
    let path = PathBuf::from(text(&output.stdout).trim());
    path.exists().then_some(path)
}

/// Two Python threads that call AllReduce. Without a GPU, each call fails and still counts.
const LOOP: &str = "
import ctypes, json, sys, threading
call = ctypes.CDLL(sys.argv[1]).ncclAllReduce
call.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t, ctypes.c_int, ctypes.c_int] + [ctypes.c_void_p] * 2
print('ready', flush=True)
sys.stdin.readline()
made = {}
def work():
    codes = made.setdefault(threading.get_native_id(), {})
    for _ in range(50000):
        code = call(None, None, 1024, 7, 0, None, None)
        codes[code] = codes.get(code, 0) + 1
threads = [threading.Thread(target=work) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(made), flush=True)
sys.stdin.readline()
";

#[test]
fn calls_of_python_threads_of_the_real_library_are_counted_exactly() {
    let Some(library) = real_nccl() else {
        return eprintln!("skipped: no libnccl.so.2 here; NCCLSCOPE_REAL_NCCL can name one");
    };
    let place = tempfile::tempdir().expect("a folder");
    let mut job = Told::start(Command::new("python3").args(["-c", LOOP]).arg(library));
    assert_eq!(job.answer(), "ready");
    let folder = place.path().join("capture");
    let shown = folder.to_str().expect("text");
    let pid = job.pid().to_string();
    let mut made = String::new();
    let arguments = [&pid, "-o", shown, "--json", "--buffer", "128MiB", "--init"];
    let Some(output) = attached(&arguments, || made = job.tell("go")) else {
        return;
    };
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let process = &answer["processes"][0];
    assert_eq!(process["lost"], 0);
    for (thread, codes) in made.as_object().expect("threads") {
        let calls = process["calls"].as_array().expect("rows");
        let thread: u64 = thread.parse().expect("a number");
        let row = calls.iter().find(|row| row["thread"] == thread);
        let row = row.expect("the thread");
        assert_eq!(
            (&row["function"], &row["calls"]),
            (&"ncclAllReduce".into(), &50_000.into())
        );
        for (code, n) in codes.as_object().expect("codes") {
            // Both threads have the same code.
            assert_eq!(process["failed"][code], 2 * n.as_u64().expect("a number"));
        }
    }
    // Libraries of Python packages have kept their symbols.
    let steps = answer["libraries"][0]["init_steps"].as_u64();
    assert!(steps > Some(20), "{answer:#}");
    // The report has a histogram of the same calls.
    let report = ncclscope(&["report", "--json", shown]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let complete = &report["completeness"];
    assert_eq!(complete["recorded"], 100_000, "{complete}");
    let operation = &report["operations"][0];
    assert_eq!(operation["calls"], 100_000);
    assert!(
        operation["host_us"]["p50"].as_f64() > Some(0.0),
        "{operation}"
    );
}
