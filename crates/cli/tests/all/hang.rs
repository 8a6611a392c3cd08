//! `ncclscope hang` on jobs that fake-nccl plays, while they run and after their end: two dozen plays at
//! once, each with what the first sentence must say.

mod recorded;
mod watch;

use crate::built;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A play: script, lines that the answer after the end must begin with, and the exit status.
struct Play {
    name: &'static str,
    script: &'static str,
    says: &'static str,
    status: i32,
}

/// Each with `linger 2s`, so that a wait lasts longer than the limit of 1 s.
const PLAYS: &[Play] = &[
    Play {
        name: "outside",
        script: "all_reduce 1MiB x10\nsync\nrank 2 hang\nall_reduce 4MiB\nsync",
        says: "Rank 2 has not made AllReduce of 4 MiB, call 11 on communicator *, which ranks 0-1,3 wait in \
            for",
        status: 1,
    },
    Play {
        name: "two_outside",
        script: "all_reduce 1MiB x10\nsync\nrank 1,2 hang\nall_gather 4MiB\nsync",
        says: "Ranks 1-2 have not made AllGather of 4 MiB, call 11 on communicator *, which ranks 0,3 wait \
            in for",
        status: 1,
    },
    Play {
        name: "inside",
        script: "all_reduce 1MiB x10\nrank 3 hang_inside\nall_reduce 4MiB\nsync",
        says: "Rank 3 is inside AllReduce of 4 MiB, call 11 on communicator *, and has not launched it; \
            ranks 0-2 wait for",
        status: 1,
    },
    Play {
        name: "killed",
        script: "all_reduce 1MiB x10\nsleep 400ms\nrank 1 kill\nbroadcast 4MiB\nsync",
        says: "Rank 1 is dead and has not made Broadcast of 4 MiB, call 11 on communicator *, which ranks \
            0,2-3 wait in for",
        status: 1,
    },
    Play {
        name: "killed_and_the_launcher_ended_the_others",
        script: "all_reduce 1MiB x10\nsleep 400ms\nrank 1 kill\nbroadcast 4MiB\nsync",
        says: "Rank 1 is dead and has not made Broadcast of 4 MiB, call 11 on communicator *, which ranks \
            0,2-3 wait in for * ms",
        status: 1,
    },
    Play {
        name: "aborted",
        script: "all_reduce 1MiB x10\nrank 0 abort\nreduce_scatter 4MiB\nsync",
        says: "Rank 0 is dead and has not made ReduceScatter of 4 MiB, call 11 on communicator *, which \
            ranks 1-3 wait in for",
        status: 1,
    },
    Play {
        name: "exited",
        script: "all_reduce 1MiB x10\nrank 1 exit\nall_reduce 4MiB\nsync",
        says: "Rank 1 has ended, and has not made AllReduce of 4 MiB, call 11 on communicator *, which ranks \
            0,2-3 wait in for",
        status: 1,
    },
    Play {
        name: "ranks_that_ended",
        script: "all_reduce 1MiB x10\nrank 1,3 exit\nall_reduce 4MiB\nsync",
        says: "Ranks 1,3 have ended, and have not made AllReduce of 4 MiB, call 11 on communicator *, which \
            ranks 0,2 wait in for",
        status: 1,
    },
    // Megatron-LM#107: all ranks made both calls, in another order of two communicators.
    Play {
        name: "crossed_communicators",
        script: "comm tp split world every 2\ncomm dp split world stride 2\n\
            repeat 20 { all_reduce 1MiB comm=tp ; all_reduce 1MiB comm=dp }\n\
            rank 0,3 { all_reduce 1MiB comm=tp ; all_reduce 1MiB comm=dp }\n\
            rank 1,2 { all_reduce 1MiB comm=dp ; all_reduce 1MiB comm=tp }\nsync",
        says: "Ranks 1-2 made calls on several communicators in another order than before, so ranks wait \
            for each other, for",
        status: 1,
    },
    Play {
        name: "alltoall_skipped",
        script: "all_reduce 1MiB x10\nrank 0..1,3 { all_to_all 1MiB }\nall_reduce 4MiB\nsync",
        says: "Rank 2 left out AlltoAll of 1 MiB *",
        status: 1,
    },
    Play {
        name: "two_hosts_alltoall_skipped",
        script: "all_reduce 1MiB x10\nrank 2 skip\nall_to_all 1MiB\nall_reduce 4MiB\nsync",
        says: "Rank 2 left out AlltoAll of 1 MiB *",
        status: 1,
    },
    Play {
        name: "skipped",
        script: "all_reduce 1MiB x10\nrank 2 skip\nall_reduce 4MiB\nall_gather 2MiB\nsync",
        says: "Rank 2 left out AllReduce of 4 MiB, call 11 on communicator *, which ranks 0-1,3 made, and \
            went on with AllGather of 2 MiB.",
        status: 1,
    },
    Play {
        name: "skipped_last",
        script: "all_reduce 1MiB x10\nsync\nrank 2 skip\nall_reduce 4MiB\nsync",
        says: "Rank 2 has ended, and has not made AllReduce of 4 MiB, call 11 on communicator *, which ranks \
            0-1,3 wait in for",
        status: 1,
    },
    Play {
        name: "two_hosts_skipped_before_a_ring",
        script: "all_reduce 1MiB x10\nrank 2 skip\nall_reduce 4MiB\ngroup { send 1MiB to=+1 ; recv 1MiB \
            from=-1 }\nrepeat 3 { all_reduce 4MiB ; group { send 1MiB to=+1 ; recv 1MiB from=-1 } }\nsync",
        says: "Rank 2 went on to SendRecv of 1 MiB on communicator * without AllReduce of 4 MiB, call 11 on \
            communicator *, which ranks 0-1,3 wait in for",
        status: 1,
    },
    Play {
        name: "two_hosts_skipped_before_sends_in_a_row",
        script: "all_reduce 1MiB x10\nrank 2 skip\nall_reduce 4MiB\nrank 0 { send 1MiB to=+1 ; recv 1MiB \
            from=-1 }\nrank 1..3 { recv 1MiB from=-1 ; send 1MiB to=+1 }\nall_reduce 4MiB\nrank 0 { send \
            1MiB to=+1 ; recv 1MiB from=-1 }\nrank 1..3 { recv 1MiB from=-1 ; send 1MiB to=+1 \
            }\nall_reduce 4MiB\nsync",
        says: "Rank 2 went on to Recv of 1 MiB on communicator * without AllReduce of 4 MiB, call 11 on \
            communicator *, which ranks 0-1,3 wait in for",
        status: 1,
    },
    Play {
        name: "other_size",
        script: "all_reduce 1MiB x10\nrank 0,1,3 { all_reduce 4MiB }\nrank 2 { all_reduce 2MiB }\nsync",
        says: "Rank 2 made AllReduce of 2 MiB where ranks 0-1,3 made AllReduce of 4 MiB, call 11 on \
            communicator *.",
        status: 1,
    },
    // pytorch#140563: sizes that three digits do not tell apart.
    Play {
        name: "other_size_by_little",
        script: "all_reduce 1MiB x10\nrank 0,1,3 { all_gather 32768 }\nrank 2 { all_gather 32800 }\nsync",
        says: "Rank 2 made AllGather of 32800 B where ranks 0-1,3 made AllGather of 32768 B, call 11 on \
            communicator *.",
        status: 1,
    },
    Play {
        name: "other_function",
        script: "all_reduce 1MiB x10\nrank 0,1,3 { all_reduce 4MiB }\nrank 2 { broadcast 4MiB }\nsync",
        says: "Rank 2 made Broadcast of 4 MiB where ranks 0-1,3 made AllReduce of 4 MiB, call 11 on \
            communicator *.",
        status: 1,
    },
    Play {
        name: "other_datatype",
        script: "all_reduce 1MiB x10\nrank 0,1,3 { all_reduce 4MiB bf16 }\nrank 2 { all_reduce 4MiB f16 \
            }\nsync",
        says: "Rank 2 made AllReduce of 4 MiB (float16) where ranks 0-1,3 made AllReduce of 4 MiB \
            (bfloat16), call 11 on communicator *.",
        status: 1,
    },
    Play {
        name: "other_root",
        script: "broadcast 1MiB x10\nrank 0,1,3 { broadcast 4MiB root=0 }\nrank 2 { broadcast 4MiB root=2 \
            }\nsync",
        says: "Rank 2 made Broadcast of 4 MiB (root 2) where ranks 0-1,3 made Broadcast of 4 MiB (root 0), \
            call 11 on communicator *.",
        status: 1,
    },
    Play {
        name: "other_order",
        script: "all_reduce 1MiB x10\nrank 0,1,3 { all_reduce 4MiB ; all_gather 2MiB }\nrank 2 { all_gather \
            2MiB ; all_reduce 4MiB }\nsync",
        says: "Rank 2 made AllGather of 2 MiB before AllReduce of 4 MiB, call 11 on communicator *, which \
            ranks 0-1,3 made first.",
        status: 1,
    },
    Play {
        name: "other_order_of_two_communicators",
        script: "comm a ranks 0..3\ncomm b ranks 0..3\nrepeat 5 { all_reduce 4MiB comm=a ; all_gather 2MiB \
            comm=b }\nsync\nrank 0,1,3 { all_reduce 4MiB comm=a }\nrank 2 { all_gather 2MiB comm=b }\nsync",
        says: "Rank 2 went on to AllGather of 2 MiB, call 6 on communicator * without AllReduce of 4 MiB, \
            call 6 on communicator *, which ranks 0-1,3 wait in for",
        status: 1,
    },
    Play {
        name: "cycle",
        script: "comm a ranks 0..3\ncomm b ranks 0,1\nrank 0,2,3 { all_reduce 4MiB comm=a }\nrank 1 { \
            all_gather 2MiB comm=b }\nsync",
        says: "A cycle: rank 0 is in AllReduce of 4 MiB, call 1 on communicator * and waits for rank 1; rank \
            1 is in AllGather of 2 MiB, call 1 on communicator * and waits for rank 0, for",
        status: 1,
    },
    Play {
        name: "chain",
        script: "comm pair split world every 2\nrepeat 5 { all_reduce 1MiB comm=pair ; all_reduce 4MiB \
            }\nsync\nrank 3 hang\nrank 0,1,2 { all_reduce 1MiB comm=pair }\nrank 0,1 { all_reduce 4MiB \
            }\nsync",
        says: "Rank 3 has not made AllReduce of 1 MiB, call 6 on communicator *, which rank 2 waits in for",
        status: 1,
    },
    Play {
        name: "receive_without_send",
        script: "all_reduce 1MiB x10\nrank 0 hang\nrank 0 { send 1MiB to=1 }\nrank 1 { recv 1MiB from=0 \
            }\nall_reduce 4MiB\nsync",
        says: "Rank 0 has not made *",
        status: 1,
    },
    Play {
        name: "alltoall",
        script: "all_reduce 1MiB x10\nrank 1 hang\nall_to_all 1MiB\nsync",
        says: "Rank 1 has not made AlltoAll of 1 MiB on communicator *, which ranks 0,2-3 wait in for",
        status: 1,
    },
    Play {
        name: "two_hosts",
        script: "all_reduce 1MiB x10\nrank 2 hang\nall_reduce 4MiB\nsync",
        says: "Rank 2 has not made AllReduce of 4 MiB, call 11 on communicator *, which ranks 0-1,3 wait in \
            for",
        status: 1,
    },
    Play {
        name: "net_link",
        script: "all_reduce 1MiB x10\nsync\nrank 1 stuck send_network step=5 channel=1\nrank 2 stuck \
            recv_network step=5 channel=1\nall_reduce 64MiB channels=2\nall_reduce 1MiB x3\nsync",
        says: "Rank 2's receive from rank 1 on channel 1 of AllReduce of 64 MiB, call 11 on communicator *, \
            has waited for the network (RecvWait) for *, 5 of 64 steps done; rank 1's send waits for the \
            network (SendWait), 5 done: look at the path between the two (NIC, link, NCCL_IB_*, \
            NCCL_SOCKET_*).",
        status: 1,
    },
    Play {
        name: "net_unseen_receive",
        script: "all_reduce 1MiB x10\nsync\nrank 3 stuck send_peer step=5\nrank 0 stuck recv_network \
            step=5\nall_reduce 64MiB channels=2\nsync",
        says: "Rank 0's receive from rank 3 on channel 0 of AllReduce of 64 MiB, call 11 on communicator *, \
            has waited for the network (RecvWait) for *; rank 3's send waits for its peer to be ready \
            (SendPeerWait), 5 done: look at the path",
        status: 1,
    },
    Play {
        name: "net_receiver",
        script: "all_reduce 1MiB x10\nsync\nrank 1 stuck send_peer\nrank 2 stuck recv_queued\nall_reduce \
            64MiB channels=2\nsync",
        says: "Rank 2's receive from rank 1 on channel 0 of AllReduce of 64 MiB, call 11 on communicator *, \
            has not been begun for *; rank 1's send waits for its peer to be ready (SendPeerWait), 0 done: \
            look at the network proxy of rank 2 on ",
        status: 1,
    },
    Play {
        name: "net_gpu",
        script: "all_reduce 1MiB x10\nsync\nrank 2 stuck recv_gpu step=5\nrank 3 stuck send_gpu step=5\nrank \
            0 stuck recv_network step=5\nall_reduce 64MiB channels=2\nsync",
        says: "A GPU of ranks 2-3 on * holds up AllReduce of 64 MiB, call 11 on communicator *, not the \
            network: rank * on channel 0 has waited for its GPU",
        status: 1,
    },
    Play {
        name: "net_flush",
        script: "all_reduce 1MiB x10\nsync\nrank 2 stuck recv_flush step=5\nall_reduce 64MiB \
            channels=2\nsync",
        says: "Rank 2's receive from rank 1 on channel 0 of AllReduce of 64 MiB, call 11 on communicator *, \
            has waited for the flush to its GPU (RecvFlushWait) for *: the data is there, look at PCIe and \
            GPUDirect RDMA on *",
        status: 1,
    },
    Play {
        name: "net_send",
        script: "all_reduce 1MiB x10\nsync\nrank 1 stuck send_network\nrank 2 stuck recv_network\nrank 1 { \
            send 64MiB to=2 }\nrank 2 { recv 64MiB from=1 }\nsync",
        says: "Rank 2's receive from rank 1 on channel 6 of Recv of 64 MiB on communicator *, has waited for \
            the network (RecvWait) for *; rank 1's send waits for the network (SendWait), 0 done: look at \
            the path",
        status: 1,
    },
    Play {
        name: "net_abi_3",
        script: "all_reduce 1MiB x10\nsync\nrank 1 stuck send_peer\nrank 2 stuck recv_network\nall_reduce \
            64MiB channels=2\nsync",
        says: "All 4 ranks are in AllReduce of 64 MiB, call 11 on communicator *, and it has not ended for",
        status: 1,
    },
    Play {
        name: "abi_4",
        script: "all_reduce 1MiB x10\nrank 2 hang\nall_reduce 4MiB\nsync",
        says: "Rank 2 has not made AllReduce of 4 MiB, call 11 on communicator *, which ranks 0-1,3 wait in \
            for",
        status: 1,
    },
    Play {
        name: "stamps",
        script: "all_reduce 1MiB x10\nsync\nrank 2 hang\nall_reduce 4MiB\nsync",
        says: "Rank 2 has not made AllReduce of 4 MiB, call 11 on communicator *, which ranks 0-1,3 wait in \
            for",
        status: 1,
    },
    Play {
        name: "healthy",
        script: "all_reduce 1MiB x10\ngroup { send 1MiB to=+1 ; recv 1MiB from=-1 }\nall_to_all 1MiB",
        says: "No hang: all communicators that are in the capture have ended.",
        status: 0,
    },
    Play {
        name: "healthy_with_long_computing",
        script: "all_reduce 1MiB x10\nsleep 3s\nall_reduce 1MiB",
        says: "No hang: all communicators that are in the capture have ended.",
        status: 0,
    },
    Play {
        name: "healthy_and_not_destroyed",
        script: "all_reduce 1MiB x10\nall_gather 4MiB\nno_destroy",
        says: "No hang: ",
        status: 0,
    },
];

struct Folder(tempfile::TempDir);

impl Folder {
    fn capture(&self) -> PathBuf {
        self.0.path().join("capture")
    }
}

impl Drop for Folder {
    /// Killed ranks leave their live parts in memory, for `ncclscope collect`.
    fn drop(&mut self) {
        for live in live_parts(&self.capture()) {
            let _ = std::fs::remove_file(live);
        }
    }
}

/// The live parts that a capture's trace files name.
fn live_parts(capture: &Path) -> Vec<PathBuf> {
    let files = walk(capture).into_iter();
    let traces = files.filter(|file| file.extension().is_some_and(|e| e == "trace"));
    let live = |trace: PathBuf| {
        let bytes = std::fs::read(trace).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.split("live=").nth(1)?.lines().next()?;
        Some(PathBuf::from(line))
    };
    traces.filter_map(live).collect()
}

/// Starts fake-nccl with this script.
fn play(script: &str, timing: &str) -> (Folder, Child) {
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let job = folder.0.path().join("job");
    std::fs::write(&job, script).expect("written");
    let child = Command::new(built::folder().join("fake-nccl"))
        .args(["play", "--timeout", "60"])
        .arg(&job)
        .env("NCCL_PROFILER_PLUGIN", built::plugin())
        .env("NCCLSCOPE_OUT", folder.capture())
        .env("NCCLSCOPE_TIMING", timing)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("fake-nccl, which `make debug` builds");
    (folder, child)
}

fn ask(capture: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("hang")
        .arg(capture)
        .args(arguments)
        .output()
        .expect("ncclscope runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap_or(-1), text)
}

fn json(capture: &Path, arguments: &[&str]) -> (i32, Value) {
    let all: Vec<&str> = arguments.iter().chain(&["--json"]).copied().collect();
    let (status, text) = ask(capture, &all);
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// Whether `text` begins with `pattern`, where `*` stands for anything.
fn begins(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or("")) else {
        return false;
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Starts fake-nccl with the script of a play.
fn start(p: &Play) -> (Folder, Child) {
    let first = match p.name {
        name if name.starts_with("two_hosts") => "ranks 4\nhosts 2\nlinger 2s\n",
        "killed_and_the_launcher_ended_the_others" => "ranks 4\nlinger 400ms\n",
        "net_abi_3" => "nccl 2.26.6\nranks 4\nhosts 2\nlinger 2s\n",
        name if name.starts_with("net_") => "ranks 4\nhosts 2\nlinger 2s\n",
        "abi_4" => "nccl 2.27.7\nranks 4\nlinger 2s\n",
        _ => "ranks 4\nlinger 2s\n",
    };
    let timing = if p.name == "stamps" { "stamps" } else { "host" };
    play(&format!("{first}{}\n", p.script), timing)
}

/// What was said of a play that has ended, where that is not what it should be.
fn wrong(p: &Play, (folder, mut child): (Folder, Child)) -> Option<String> {
    child.wait().expect("played");
    let (status, answer) = json(&folder.capture(), &["--after", "1s"]);
    let sentence = answer["sentence"].as_str().unwrap_or("nothing");
    if !begins(sentence, p.says) || status != p.status {
        return Some(format!("{}: [{status}] {sentence}", p.name));
    }
    // What `report` says first is the same, but for its own words on ranks that died or left.
    let (status, hang) = json(&folder.capture(), &[]);
    let own_words = status == 0 || matches!(hang["verdict"].as_str(), Some("dead" | "left"));
    let sentence = hang["sentence"].as_str().unwrap_or("nothing");
    let report = report(&folder.capture());
    let first = one_line(report.split("\n\n").next().unwrap_or_default());
    // Line 1 says what differs, and nothing says it again.
    let once = hang["verdict"] != "mismatch" || !one_line(&report).contains("They differ in");
    let right = (own_words || first.starts_with(sentence)) && once;
    (!right).then(|| format!("{}: [{status}] {sentence} In the report: {report}", p.name))
}

/// The report as text.
fn report(capture: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("report")
        .arg(capture)
        .output()
        .expect("ncclscope runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn plays_after_their_end() {
    let mut failed = Vec::new();
    // A few at a time, so that a small machine does not make processes late by more than they tell.
    for plays in PLAYS.chunks(8) {
        let playing: Vec<_> = plays.iter().map(|p| (p, start(p))).collect();
        let wrong = |(p, played)| wrong(p, played).map(|said| (p, said));
        failed.extend(playing.into_iter().filter_map(wrong));
    }
    // Where others keep the machine busy, a process may die before it has written a word. Alone it has the
    // time.
    for (p, said) in failed {
        let alone = (0..2).map(|_| wrong(p, start(p)));
        let alone: Vec<String> = alone.take_while(Option::is_some).flatten().collect();
        assert!(alone.len() < 2, "{said}, then {alone:?}");
    }
}

/// Asks until the answer is as wanted, at most 20 s.
fn until(folder: &Folder, arguments: &[&str], wanted: impl Fn(i32, &Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let (status, answer) = json(&folder.capture(), arguments);
        if wanted(status, &answer) {
            return answer;
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "[{status}] {answer:#}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_running_job_is_looked_at_while_it_hangs() {
    let script = "ranks 4\nlinger 30s\nall_reduce 1MiB x10\nsync\nrank 2 hang\nall_reduce 4MiB\n";
    let (folder, mut child) = play(script, "host");
    let answer = until(&folder, &["--after", "1s"], |status, _| status == 1);
    let wanted = "Rank 2 has not made AllReduce of 4 MiB, call 11 on communicator *, which ranks 0-1,3 wait \
        in for";
    assert!(
        begins(answer["sentence"].as_str().unwrap_or(""), wanted),
        "{answer:#}"
    );
    assert_eq!(answer["verdict"], "missing");
    assert_eq!(answer["certain"], true);
    assert_eq!(answer["blamed"][0]["global_rank"], 2);
    assert_eq!(answer["blamed"][0]["state"], "running");
    // The same wait is no hang by the usual limit, and the rank is named all the same.
    let (status, patient) = json(&folder.capture(), &[]);
    assert_ne!(status, 1, "{patient:#}");
    assert_eq!(patient["blamed"][0]["global_rank"], 2);
    // A rank that is stopped holds the job up like one that does not come.
    let pid = answer["blamed"][0]["pid"].as_u64().expect("a pid") as i32;
    let pid = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(pid, nix::sys::signal::SIGSTOP).expect("stopped");
    let stopped = until(&folder, &["--after", "1s"], |_, a| {
        a["verdict"] == "stopped"
    });
    assert_eq!(stopped["hang"], true);
    // Long computing is no explanation, so it is never "No hang".
    let (status, early) = json(&folder.capture(), &["--after", "500s"]);
    assert_eq!((status, &early["hang"]), (2, &Value::Null), "{early:#}");
    let wanted = "Rank 2 is stopped by a signal or a debugger, and has not made AllReduce";
    assert!(
        begins(stopped["sentence"].as_str().unwrap_or(""), wanted),
        "{stopped:#}"
    );
    nix::sys::signal::kill(pid, nix::sys::signal::SIGCONT).expect("let go");
    until(&folder, &["--after", "1s"], |_, a| {
        a["verdict"] == "missing"
    });
    // Dead, it is a hang at once.
    nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL).expect("killed");
    let dead = until(&folder, &[], |_, a| a["verdict"] == "dead");
    assert_eq!(dead["hang"], true);
    child.kill().expect("ended");
    child.wait().expect("ended");
    for process in answer["communicators"][0]["ranks"]
        .as_array()
        .expect("ranks")
    {
        let pid = nix::unistd::Pid::from_raw(process["pid"].as_u64().expect("a pid") as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
    }
}

/// The processes of a job, by rank.
fn pids(answer: &Value) -> Vec<nix::unistd::Pid> {
    let ranks = answer["communicators"][0]["ranks"].as_array();
    let pid = |rank: &Value| rank["pid"].as_u64().expect("a pid") as i32;
    let ranks = ranks.expect("ranks").iter();
    ranks.map(|r| nix::unistd::Pid::from_raw(pid(r))).collect()
}

#[test]
fn what_was_seen_while_the_job_ran_is_known_after_its_end() {
    use nix::sys::signal::{kill, Signal};
    let script = "ranks 4\nlinger 30s\nall_reduce 1MiB x10\nsync\nrank 2 hang\nall_reduce 4MiB\n";
    let (folder, mut child) = play(script, "host");
    let capture = folder.capture();
    let hangs = until(&folder, &["--after", "1s"], |status, _| status == 1);
    assert_eq!(hangs["sightings"], serde_json::json!([]));
    let pids = pids(&hangs);
    kill(pids[2], Signal::SIGSTOP).expect("stopped");
    let said = until(&folder, &["--after", "1s"], |_, a| {
        a["verdict"] == "stopped"
    });
    // A launcher needs longer than a recorder may be silent, before it ends all.
    std::thread::sleep(Duration::from_millis(2500));
    for pid in pids {
        kill(pid, Signal::SIGKILL).expect("killed");
    }
    child.wait().expect("ended");
    let dead = until(&folder, &["--after", "1s"], |_, a| {
        a["sightings"] != serde_json::json!([])
    });
    let wanted = "Rank 2 was stopped by a signal or a debugger when `ncclscope hang` looked at 20*, and has \
        not made AllReduce";
    let sentence = dead["sentence"].as_str().unwrap_or("");
    assert!(begins(sentence, wanted), "{dead:#}");
    assert_eq!(
        (&dead["verdict"], &dead["hang"]),
        (&said["verdict"], &said["hang"])
    );
    let kept = &dead["sightings"][0];
    assert_eq!(
        (&kept["sentence"], &kept["verdict"]),
        (&said["sentence"], &said["verdict"])
    );
    assert_eq!(kept["calls_since"], false);
    assert_eq!(dead["blamed"][0]["state"], "dead");
    let details = dead["details"].to_string();
    assert!(details.contains("and said the same."), "{details}");
    // A report does not say that it died first, and says the same once.
    let report = one_line(&report(&capture));
    assert!(begins(&report, wanted), "{report}");
    assert!(report.contains("and said the same."), "{report}");
    assert_eq!(report.matches("has not made AllReduce").count(), 1);
    assert!(!report.contains("died at"), "{report}");
}

/// `ncclscope run` into this folder, up to the program that it runs.
fn quiet_run(folder: &Folder, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command
        .arg("run")
        .args(options)
        .arg("-o")
        .arg(folder.capture())
        .arg("--")
        .env("NCCLSCOPE_PLUGIN", built::plugin())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Ends `ncclscope run` and what it runs.
fn end_run(mut child: Child) {
    let run = nix::unistd::Pid::from_raw(child.id() as i32);
    let _ = nix::sys::signal::kill(run, nix::sys::signal::SIGTERM);
    child.wait().expect("ended");
}

/// Starts `ncclscope run` with a script that fake-nccl plays, in a process group of its own.
fn run(script: &str) -> (Folder, Child) {
    use std::os::unix::process::CommandExt;
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let job = folder.0.path().join("job");
    std::fs::write(&job, script).expect("written");
    let child = quiet_run(&folder, &["--no-sampler"])
        .arg(built::folder().join("fake-nccl"))
        .args(["play", "--timeout", "60"])
        .arg(&job)
        .env("NCCLSCOPE_TIMING", "host")
        .process_group(0)
        .spawn()
        .expect("ncclscope runs");
    (folder, child)
}

/// What `ncclscope run` kept of processes, once it is as wanted.
fn seen_by_run(folder: &Folder, wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    let mut kept = Value::Null;
    loop {
        let is_its = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("run-") && name.ends_with(".json")
        };
        if let Some(file) = walk(&folder.capture()).into_iter().find(is_its) {
            let text = std::fs::read(file).expect("read");
            kept = serde_json::from_slice(&text).expect("JSON");
            if wanted(&kept) {
                return kept;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{kept:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The process of a rank, by the name of its trace file.
fn pid_of(folder: &Folder, rank: u32) -> nix::unistd::Pid {
    let pid = |file: PathBuf| {
        let name = file.file_name()?.to_str()?.to_owned();
        let rest = name.strip_prefix(&format!("r{rank}-p"))?;
        rest.split('-').next()?.parse().ok()
    };
    let pid = walk(&folder.capture()).into_iter().find_map(pid);
    nix::unistd::Pid::from_raw(pid.expect("a trace file"))
}

/// Kills a whole job with its `ncclscope run`, as a batch system does.
fn kill_all(child: &mut Child) {
    use nix::sys::signal::{killpg, Signal};
    let group = nix::unistd::Pid::from_raw(child.id() as i32);
    killpg(group, Signal::SIGKILL).expect("killed");
    child.wait().expect("ended");
}

/// Asks no process of a job, and once all are gone.
fn after_the_end(folder: &Folder) -> Value {
    until(folder, &["--after", "1s"], |_, answer| {
        let ranks = answer["communicators"][0]["ranks"].as_array();
        ranks.is_some_and(|ranks| ranks.iter().all(|rank| rank["state"] == "dead"))
    })
}

#[test]
fn run_keeps_who_was_stopped_for_the_time_after_a_kill_of_all() {
    use nix::sys::signal::{kill, Signal};
    let script = "ranks 4\nlinger 60s\nall_reduce 1MiB x10\nsync\nrank 2 hang\nall_reduce 4MiB\n";
    let (folder, mut child) = run(script);
    until_calls(&folder, 43);
    kill(pid_of(&folder, 2), Signal::SIGSTOP).expect("stopped");
    let kept = seen_by_run(&folder, |_| true);
    let processes = kept["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 1, "{kept:#}");
    assert_eq!(processes[0]["pid"], pid_of(&folder, 2).as_raw());
    assert_eq!(processes[0]["life"], "stopped");
    kill_all(&mut child);
    let dead = after_the_end(&folder);
    let wanted =
        "Rank 2 was stopped by a signal or a debugger when `ncclscope run` looked at 20*, and has \
        not made AllReduce";
    let sentence = dead["sentence"].as_str().unwrap_or("");
    assert!(begins(sentence, wanted), "{dead:#}");
    assert_eq!(dead["verdict"], "stopped");
    let report = one_line(&report(&folder.capture()));
    assert!(begins(&report, wanted), "{report}");
    assert!(!report.contains("died at"), "{report}");
}

#[test]
fn a_rank_that_was_let_go_is_not_said_to_be_stopped() {
    use nix::sys::signal::{kill, Signal};
    let script = "ranks 4\nlinger 60s\nall_reduce 1MiB x10\nsync\nrank 2 hang\nall_reduce 4MiB\n";
    let (folder, mut child) = play(script, "host");
    let hangs = until(&folder, &["--after", "1s"], |status, _| status == 1);
    let pids = pids(&hangs);
    kill(pids[2], Signal::SIGSTOP).expect("stopped");
    until(&folder, &["--after", "1s"], |_, a| {
        a["verdict"] == "stopped"
    });
    kill(pids[2], Signal::SIGCONT).expect("let go");
    // It writes the time again.
    std::thread::sleep(Duration::from_millis(1000));
    for pid in pids {
        kill(pid, Signal::SIGKILL).expect("killed");
    }
    child.wait().expect("ended");
    let dead = after_the_end(&folder);
    assert_eq!(dead["verdict"], "missing", "{dead:#}");
}

#[test]
fn only_a_death_that_somebody_saw_is_told_from_a_stop() {
    use nix::sys::signal::{kill, Signal};
    let caveat = "Nobody saw this end";
    let script = "ranks 4\nlinger 3s\nall_reduce 1MiB x10\nsync\nrank 1 kill\nall_reduce 4MiB\n";
    let (folder, mut child) = play(script, "host");
    child.wait().expect("played");
    let unseen = after_the_end(&folder);
    assert_eq!(unseen["verdict"], "dead", "{unseen:#}");
    assert!(unseen["details"].to_string().contains(caveat), "{unseen:#}");
    let text = one_line(&report(&folder.capture()));
    assert!(text.contains("died at") && text.contains(caveat), "{text}");

    let script = "ranks 4\nlinger 60s\nall_reduce 1MiB x10\nsync\nrank 1 hang\nall_reduce 4MiB\n";
    let (folder, mut child) = run(script);
    until_calls(&folder, 43);
    // `ncclscope run` looks for new processes as often as it writes what it keeps of a stopped one again. So
    // it knows all of them once it has written of that one three times.
    let [dies, pauses] = [1, 2].map(|rank| pid_of(&folder, rank));
    kill(pauses, Signal::SIGSTOP).expect("stopped");
    let newest = |kept: &Value| kept["at_ns"].as_i64();
    let first = newest(&seen_by_run(&folder, |_| true));
    let second = newest(&seen_by_run(&folder, |kept| newest(kept) > first));
    seen_by_run(&folder, |kept| newest(kept) > second);
    kill(pauses, Signal::SIGCONT).expect("let go");
    kill(dies, Signal::SIGKILL).expect("killed");
    let is_gone = |of: &Value| of["pid"] == dies.as_raw() && of["life"] == "gone";
    seen_by_run(&folder, |kept| {
        let processes = kept["processes"].as_array();
        processes.is_some_and(|all| all.iter().any(is_gone))
    });
    until(&folder, &["--after", "1s"], |_, live| {
        live["verdict"] == "dead"
    });
    // The others write the time again.
    std::thread::sleep(Duration::from_millis(2500));
    kill_all(&mut child);
    let seen = after_the_end(&folder);
    let wanted = "Rank 1 is dead (SIGKILL) and has not made AllReduce of 4 MiB";
    let sentence = seen["sentence"].as_str().unwrap_or("");
    assert!(begins(sentence, wanted), "{seen:#}");
    assert!(!seen["details"].to_string().contains(caveat), "{seen:#}");
    let text = one_line(&report(&folder.capture()));
    assert!(
        text.contains("died (SIGKILL) at") && !text.contains(caveat),
        "{text}"
    );
}

#[test]
fn what_the_thread_does_that_others_wait_for_is_told() {
    let script = "ranks 4\nlinger 60s\nall_reduce 1MiB x10\nsync\nrank 2 hang\nall_reduce 4MiB\n";
    let (folder, mut child) = play(script, "host");
    let waits = |status: i32, answer: &Value| {
        status == 1 && answer["doing"][0]["does"] == "waits_for_thread"
    };
    let answer = until(&folder, &["--after", "1s"], waits);
    let pid = pids(&answer)[2];
    assert_eq!(answer["doing"][0]["pid"], pid.as_raw());
    // The thread that called has ended.
    let said =
        format!("The first thread of rank 2 (pid {pid}) waits for a lock, or for another thread.");
    let details = answer["details"].to_string();
    assert!(details.contains(&said), "{details}");
    for pid in pids(&answer) {
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
    }
    child.wait().expect("ended");
    // Nobody can look any more.
    assert_eq!(
        after_the_end(&folder)["doing"].as_array().map(Vec::len),
        Some(0)
    );
}

/// The calls that a running job has made.
fn calls(folder: &Folder) -> usize {
    let capture = tables::Capture::open(&folder.capture()).ok();
    let all = capture.map_or(Vec::new(), |capture| capture.processes);
    all.iter().map(|process| process.calls.len()).sum()
}

/// Waits until a running job has made so many calls.
fn until_calls(folder: &Folder, wanted: usize) {
    let began = Instant::now();
    while calls(folder) < wanted {
        assert!(began.elapsed() < Duration::from_secs(60), "no calls");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A link that stops, of two hosts.
const LINK: &str =
    "ranks 2\nhosts 2\nlinger 30s\nall_reduce 1MiB x10\nsync\nrank 0 stuck send_network \
    step=5 channel=1\nrank 1 stuck recv_network step=5 channel=1\nall_reduce 64MiB channels=2\n";

/// Plays a script on simulated GPUs until the answer is as wanted, then kills the job and asks once more.
/// Returns both answers.
fn on_gpus(script: &str, wanted: impl Fn(i32, &Value) -> bool) -> [Value; 2] {
    let (folder, mut child) = play(script, "auto");
    let live = until(&folder, &["--after", "1s"], wanted);
    child.kill().expect("killed");
    child.wait().expect("ended");
    for pid in pids(&live) {
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
    }
    let gone = |_: i32, answer: &Value| {
        let ranks = answer["communicators"][0]["ranks"].as_array();
        ranks.is_some_and(|ranks| ranks.iter().all(|rank| rank["state"] == "dead"))
    };
    [live, until(&folder, &["--after", "1s"], gone)]
}

#[test]
fn a_gpu_that_is_busy_with_other_work_is_named_live_and_after_sigkill() {
    for ranks in [2, 4] {
        let last = ranks - 1;
        let script = format!(
            "ranks {ranks}\ncuda\nall_reduce 1MiB x10\nsync\nrank {last} {{ compute 60s }}\n\
             all_reduce 4MiB\nsync\n"
        );
        let others = match ranks {
            2 => "rank 0 waits",
            _ => "ranks 0-2 wait",
        };
        let wanted = format!(
            "The GPU of rank {last} has not begun AllReduce of 4 MiB, call 11 on communicator *: it is busy \
             with earlier work; {others} for"
        );
        // Each process is asked by a thread of its own, so the ranks that wait are not all known at once.
        let is_named = |status: i32, answer: &Value| {
            status == 1 && begins(answer["sentence"].as_str().unwrap_or(""), &wanted)
        };
        for answer in on_gpus(&script, is_named) {
            assert!(is_named(1, &answer), "{answer:#}");
            assert_eq!(answer["verdict"], "not_begun");
            assert_eq!(answer["certain"], true);
            assert_eq!(answer["blamed"][0]["global_rank"], last);
            assert_eq!(answer["waits"][0]["lack"], "start");
        }
    }
}

#[test]
fn a_rank_that_waits_itself_is_not_blamed_by_those_that_wait_for_it() {
    // Rank 7's GPU is busy before a call with rank 6, whose host waits for that call. Ranks 0, 2 and 4 wait
    // for rank 6, and ranks 1, 3 and 5 for rank 7.
    let script = "ranks 8\ncuda\ncomm pair split world every 2\ncomm cross split world stride 2\n\
        all_reduce 1MiB x10\nsync\nrank 7 { compute 60s }\nall_reduce 4MiB comm=pair\n\
        rank 6,7 { sync }\nall_reduce 2MiB comm=cross\nsync\n";
    let wanted =
        "The GPU of rank 7 has not begun AllReduce of 4 MiB, call 1 on communicator *: it is busy \
        with earlier work; rank 6 waits for";
    let is_named = |status: i32, answer: &Value| {
        status == 1 && begins(answer["sentence"].as_str().unwrap_or(""), wanted)
    };
    for answer in on_gpus(script, is_named) {
        assert!(is_named(1, &answer), "{answer:#}");
        let blamed = answer["blamed"].as_array().expect("ranks");
        assert_eq!(blamed.len(), 1, "{answer:#}");
    }
}

#[test]
fn gpus_that_all_compute_are_no_hang() {
    let script = "ranks 2\ncuda\nall_reduce 1MiB x10\nsync\ncompute 60s\nall_reduce 4MiB\nsync\n";
    let (folder, mut child) = play(script, "auto");
    let patient = until(&folder, &[], |_, answer| {
        let sentence = answer["sentence"].as_str().unwrap_or("");
        sentence.contains("call 11 on communicator")
    });
    assert_eq!(patient["hang"], false, "{patient:#}");
    child.kill().expect("killed");
    child.wait().expect("ended");
    for pid in pids(&patient) {
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
    }
}

#[test]
fn what_network_operations_wait_for_is_known_while_they_hang_after_sigkill_and_from_snapshots() {
    let (folder, mut child) = play(LINK, "host");
    let says = "Rank 1's receive from rank 0 on channel 1 of AllReduce of 64 MiB, call 11 on communicator *, \
        has waited for the network (RecvWait) for *, 5 of 64 steps done; rank 0's send waits for the network \
        (SendWait), 5 done: look at the path";
    let right = |status: i32, answer: &Value| {
        let stuck = &answer["net_ops"][0];
        status == 1
            && begins(answer["sentence"].as_str().unwrap_or(""), says)
            && answer["verdict"] == "no_progress"
            && answer["cause"] == "network"
            && answer["certain"] == true
            && answer["blamed"].as_array().map_or(0, Vec::len) == 2
            && stuck["global_rank"] == 1
            && stuck["direction"] == "receive"
            && stuck["peer"] == 0
            && stuck["channel"] == 1
            && stuck["state"] == "recv_network"
            && (stuck["steps_done"].as_u64(), stuck["steps"].as_u64()) == (Some(5), Some(64))
            && answer["net_ops"].as_array().map_or(0, Vec::len) == 4
    };
    let hangs = until(&folder, &["--after", "1s"], right);
    // Snapshots of both, taken since it hangs.
    std::thread::sleep(Duration::from_millis(4000));
    for rank in hangs["communicators"][0]["ranks"]
        .as_array()
        .expect("ranks")
    {
        let pid = nix::unistd::Pid::from_raw(rank["pid"].as_u64().expect("a pid") as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL).expect("killed");
    }
    child.wait().expect("ended");
    let (status, dead) = json(&folder.capture(), &["--after", "1s"]);
    assert!(right(status, &dead), "[{status}] {dead:#}");
    // As on another host: without the live parts.
    let live = live_parts(&folder.capture());
    assert_eq!(live.len(), 2);
    for live in live {
        std::fs::remove_file(live).expect("removed");
    }
    let (status, far) = json(&folder.capture(), &["--after", "1s"]);
    assert!(right(status, &far), "[{status}] {far:#}");
}

/// The files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn the_answer_keeps_to_its_schema() {
    keeps_to_its_schema("ranks 2\nlinger 1s\nall_reduce 1MiB x10\nrank 1 hang\nall_reduce 4MiB\n");
    keeps_to_its_schema(&LINK.replace("30s", "1s"));
}

fn keeps_to_its_schema(script: &str) {
    let (folder, mut child) = play(script, "stamps");
    child.wait().expect("played");
    let (_, answer) = json(&folder.capture(), &["--after", "500ms"]);
    crate::schema::keeps_to(render::hang::SCHEMA, &answer);
    let (_, text) = ask(&folder.capture(), &["--after", "500ms"]);
    assert!(
        text.lines().all(|line| line.chars().count() <= 120),
        "{text}"
    );
}

#[test]
fn ranks_whose_calls_have_all_ended_wait_for_nobody() {
    let script = "ranks 4\nall_reduce 1MiB x10\nsync\nsleep 25s\nall_reduce 1MiB\nsync\n";
    let (folder, mut child) = play(script, "stamps");
    // Long enough not to be active any more.
    let answer = until(&folder, &[], |_, answer| {
        let sentence = answer["sentence"].as_str().unwrap_or("");
        sentence.contains("ranks have made the same calls")
    });
    child.kill().expect("ended");
    child.wait().expect("ended");
    let sentence = answer["sentence"].as_str().unwrap_or("");
    let wanted =
        "No hang: nobody waits in NCCL. All 4 ranks have made the same calls, the newest *";
    assert!(begins(sentence, wanted), "{answer:#}");
    assert_eq!(answer["hang"], false);
}

#[test]
fn a_rank_without_a_file_is_missed_where_nccl_tells_no_size() {
    let script = "nccl 2.26.6\nranks 4\nlinger 2s\nall_reduce 1MiB x10\nrank 2 hang\nall_reduce 4MiB\nsync\n";
    let (folder, mut child) = play(script, "host");
    child.wait().expect("ended");
    for file in walk(&folder.capture()) {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("r2-") {
            std::fs::remove_file(file).expect("removed");
        }
    }
    let (status, answer) = json(&folder.capture(), &["--after", "1s"]);
    let sentence = answer["sentence"].as_str().unwrap_or("");
    assert_eq!(
        (status, &answer["certain"]),
        (2, &Value::Bool(false)),
        "{answer:#}"
    );
    assert!(sentence.contains("1 absent rank"), "{answer:#}");
}

/// Four ranks: three have mapped a file that is called like NCCL's library, and rank 2 has not.
const BEFORE_FIRST: &str = "for r in 0 1 2 3; do if [ $r = 2 ]; then RANK=$r sleep 60 & else \
    RANK=$r python3 -c 'import mmap,sys,time; f=open(sys.argv[1],\"rb\"); \
    m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ); time.sleep(60)' $1 & fi; done; wait";

#[test]
fn a_rank_that_is_gone_before_the_first_communicator_is_missed() {
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    // torchrun's second machine, whose third rank has ended.
    let script = "export LOCAL_WORLD_SIZE=3 WORLD_SIZE=6; for r in 0 1; do LOCAL_RANK=$r \
        RANK=$((3+r)) sleep 60 & done; wait";
    let child = quiet_run(&folder, &["--no-sampler"])
        .args(["bash", "-c", script])
        .spawn()
        .expect("ncclscope runs");
    let says =
        "Can't tell: rank 5 has no process on this machine any more, or never had one, and the \
        others may wait for it. None here has made a communicator";
    let named = |_: i32, answer: &Value| {
        let two = answer["details"]
            .to_string()
            .contains("None of them has loaded NCCL.");
        two && begins(answer["sentence"].as_str().unwrap_or(""), says)
    };
    let answer = until(&folder, &[], named);
    assert!(answer["hang"].is_null(), "{answer:#}");
    end_run(child);
}

#[test]
fn a_job_that_has_made_no_communicator_can_be_asked() {
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let library = folder.0.path().join("libnccl.so.2");
    std::fs::write(&library, "nothing").expect("written");
    let child = quiet_run(&folder, &[])
        .args(["bash", "-c", BEFORE_FIRST, "job"])
        .arg(&library)
        .spawn()
        .expect("ncclscope runs");
    let says =
        "Can't tell: rank 2 has not loaded NCCL, and 3 others have, so they may wait for it.";
    let named = |_: i32, answer: &Value| begins(answer["sentence"].as_str().unwrap_or(""), says);
    let answer = until(&folder, &[], named);
    let blamed = answer["blamed"].as_array().expect("processes");
    assert_eq!(blamed.len(), 1, "{answer:#}");
    assert_eq!(blamed[0]["global_rank"], 2);
    assert!(answer["hang"].is_null());
    let stopped = nix::unistd::Pid::from_raw(blamed[0]["pid"].as_i64().expect("a pid") as i32);
    nix::sys::signal::kill(stopped, nix::sys::signal::SIGSTOP).expect("stopped");
    let says = "Can't tell: rank 2 is stopped by a signal or a debugger, and no process";
    let named = |_: i32, answer: &Value| begins(answer["sentence"].as_str().unwrap_or(""), says);
    let answer = until(&folder, &[], named);
    assert_eq!(answer["next"], format!("kill -CONT {stopped}"));
    let (_, text) = ask(&folder.capture(), &[]);
    assert!(text.contains("NCCL is loaded in ranks 0-1,3."), "{text}");
    let _ = nix::sys::signal::kill(stopped, nix::sys::signal::SIGKILL);
    end_run(child);
    // Nobody is there any more.
    let (status, text) = ask(&folder.capture(), &[]);
    assert_eq!((status, text.as_str()), (2, ""));
}

/// Four ranks that have mapped NCCL's library. By NCCL's log, all but rank 2 have begun an init.
const IN_INIT: &str = "trap 'kill $(jobs -p)' TERM; for r in 0 1 2 3; do RANK=$r python3 -c '
import mmap,os,socket,sys,time
f=open(sys.argv[1],\"rb\"); m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)
host, pid, r = socket.gethostname().split(\".\")[0], os.getpid(), int(os.environ[\"RANK\"])
name = os.environ[\"NCCL_DEBUG_FILE\"].replace(\"%h\", host).replace(\"%p\", str(pid))
line = f\"[{time.time():.6f}] {host}:{pid}:{pid} [{r}] NCCL INFO [Rank {r}] ncclCommInitRankConfig \" \\
    f\"comm 0x1{r} rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId {r}000 commId 0xa - Init START\"
said = \"Using network Socket\" if sys.argv[2] == \"INFO\" else \"\"
early = f\"{host}:{pid}:{pid} [{r}] NCCL INFO {said}\\n\" if said else \"NCCL version 2.28.9\\n\"
open(name, \"w\").write(early if r == 2 else line + \"\\n\")
time.sleep(60)' $1 $2 & done; wait; wait";

#[test]
fn nccls_log_shows_who_is_missing_in_the_first_init() {
    for is_ours in [true, false] {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        let library = folder.0.path().join("libnccl.so.2");
        std::fs::write(&library, "nothing").expect("written");
        let mut command = quiet_run(&folder, &["--no-sampler"]);
        command
            .args(["bash", "-c", IN_INIT, "job"])
            .arg(&library)
            .arg("INFO");
        // What `ncclscope run` sets, or what the user has set.
        if is_ours {
            command.env("NCCLSCOPE_NCCL_LOG", "on");
        } else {
            command.env("NCCL_DEBUG_FILE", folder.0.path().join("log.%h.%p"));
        }
        let child = command.spawn().expect("ncclscope runs");
        let says = "Rank 2 has not begun to make a communicator, and ranks 0-1,3 have been in the init of a \
            communicator for * (NCCL's log).";
        let hangs = |status: i32, _: &Value| status == 1;
        let answer = until(&folder, &["--after", "100ms"], hangs);
        let sentence = answer["sentence"].as_str().unwrap_or("");
        assert!(begins(sentence, says), "{answer:#}");
        assert_eq!(
            (&answer["verdict"], &answer["certain"]),
            (&"missing".into(), &false.into())
        );
        assert_eq!(answer["blamed"][0]["global_rank"], 2);
        assert!(answer["waited_s"].as_f64() > Some(0.1), "{answer:#}");
        let wait = &answer["waits"][0];
        assert_eq!(
            (&wait["waiting"], &wait["missing"]),
            (&"0-1,3".into(), &"2".into())
        );
        // It may still come.
        let (status, text) = ask(&folder.capture(), &[]);
        assert!(
            status == 2 && text.starts_with("Can't tell: rank 2 has not begun"),
            "{text}"
        );
        end_run(child);
        let (status, text) = ask(&folder.capture(), &[]);
        if is_ours {
            let says = "Can't tell: no process of this job runs on this machine any more";
            assert!(status == 2 && text.starts_with(says), "{text}");
            let log = "NCCL's log: Rank 2 never came to the";
            assert!(text.contains(log), "{text}");
        } else {
            // Nothing of it is in the capture.
            assert_eq!((status, text.as_str()), (2, ""));
        }
    }
}

#[test]
fn a_rank_whose_log_is_quieter_makes_no_hang_before_the_first_communicator() {
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let library = folder.0.path().join("libnccl.so.2");
    std::fs::write(&library, "nothing").expect("written");
    let child = quiet_run(&folder, &["--no-sampler"])
        .args(["bash", "-c", IN_INIT, "job"])
        .arg(&library)
        .arg("WARN")
        .env("NCCLSCOPE_NCCL_LOG", "on")
        .spawn()
        .expect("ncclscope runs");
    let waits = |_: i32, answer: &Value| answer["waited_s"].as_f64() > Some(0.3);
    let answer = until(&folder, &["--after", "100ms"], waits);
    let sentence = answer["sentence"].as_str().unwrap_or("");
    assert!(
        begins(sentence, "Can't tell: rank 2 has not begun"),
        "{answer:#}"
    );
    assert!(answer["hang"].is_null());
    end_run(child);
}
