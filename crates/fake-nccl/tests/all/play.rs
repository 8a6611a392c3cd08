//! Scripts played to the log plugin: which events came, in which order, from which threads, with which
//! parents.

use crate::common::{log_plugin, program, Log};
use fake_nccl::play::Outcome;
use fake_nccl::{play, Options};

fn played(source: &str, mask: &str, change: impl FnOnce(&mut Options)) -> (Outcome, Vec<Log>) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options {
        plugin: Some(log_plugin()),
        program: Some(program()),
        fast: true,
        env: vec![
            ("LOG_PLUGIN_OUT".into(), folder.path().display().to_string()),
            ("LOG_PLUGIN_MASK".into(), mask.into()),
        ],
        ..Options::default()
    };
    change(&mut options);
    let outcome = play(source, &options).unwrap();
    (outcome, Log::all(folder.path()))
}

fn with(source: &str, mask: &str) -> (Outcome, Vec<Log>) {
    played(source, mask, |_| {})
}

#[test]
fn eager_all_reduce_comes_in_order_from_the_right_threads() {
    let (outcome, logs) = with("ranks 2\nall_reduce 1KiB", "fdf");
    assert!(outcome.as_expected());
    assert_eq!(outcome.announced().total(), 2);
    assert_eq!(logs.len(), 2);
    let log = &logs[1];
    let caller = &log.calls("init")[0]["thread"];
    let on_caller: Vec<_> = log
        .0
        .iter()
        .filter(|l| l["thread"] == *caller)
        .cloned()
        .collect();
    assert_eq!(
        Log(on_caller).story(),
        [
            "init",
            "start GroupApi",
            "state GroupStartApiStop",
            "start CollApi",
            "stop CollApi",
            "state GroupEndApiStart",
            "start KernelLaunch",
            "stop KernelLaunch",
            "start Group",
            "start Coll",
            "stop Coll",
            "stop Group",
            "stop GroupApi",
            "finalize",
        ]
    );
    let elsewhere: Vec<_> = log
        .0
        .iter()
        .filter(|l| l["thread"] != *caller)
        .cloned()
        .collect();
    let story = Log(elsewhere).story();
    assert_eq!(
        story,
        ["start KernelCh", "state KernelChStop", "stop ?"].map(|s| s.replace('?', "KernelCh"))
    );
    let coll = log.starts("Coll")[0];
    assert_eq!(log.by_handle(&coll["parent"]).unwrap()["type"], "CollApi");
    assert_eq!(
        log.by_handle(&coll["parent_group"]).unwrap()["type"],
        "Group"
    );
    assert_eq!(log.starts("KernelCh")[0]["parent"], coll["handle"]);
    assert_eq!(coll["rank"], 1);
    assert_eq!(
        log.starts("CollApi")[0]["rank"],
        0,
        "not filled in before 2.32"
    );
}

#[test]
fn only_kernel_ch_brings_all_its_ancestors() {
    let (_, logs) = with("ranks 2\nall_reduce 1KiB", "40");
    for kind in ["GroupApi", "CollApi", "Group", "Coll", "KernelCh"] {
        assert_eq!(logs[0].starts(kind).len(), 1, "{kind}");
    }
    assert!(logs[0].starts("KernelLaunch").is_empty());
    let (_, logs) = with("ranks 2\nall_reduce 1KiB", "600");
    assert!(logs[0].starts("Coll").is_empty() && logs[0].starts("Group").is_empty());
    assert_eq!(logs[0].starts("CollApi").len(), 1);
}

#[test]
fn lateness_shows_in_the_stamps_and_only_there() {
    let source = "ranks 2\nrank 1 late 5ms\nall_reduce 1KiB time=100us channels=4";
    let durations = || {
        let (_, logs) = with(source, "40");
        let duration = |log: &Log| {
            let channels = log.starts("KernelCh");
            assert_eq!(channels.len(), 4);
            let stops = channels.iter().map(|k| log.gpu_stop(&k["handle"]).unwrap());
            let starts = channels.iter().map(|k| k["p_timer"].as_u64().unwrap());
            assert!(starts.clone().chain(stops.clone()).all(|s| s % 32 == 0));
            stops.max().unwrap() - starts.min().unwrap()
        };
        [duration(&logs[0]), duration(&logs[1])]
    };
    let [early, late] = durations();
    assert!(
        late.abs_diff(100_000) <= 32 && early.abs_diff(5_100_000) <= 32,
        "{early} {late}"
    );
    assert_eq!(durations(), [early, late], "same script, same durations");
}

#[test]
fn grouped_send_recv_share_their_stamps_and_have_no_sequence() {
    let (outcome, logs) = with(
        "ranks 3\ngroup { send 1KiB to=+1 ; recv 1KiB from=-1 }",
        "fff",
    );
    assert_eq!(outcome.announced().functions["Send"], 3);
    let log = &logs[0];
    let p2p = log.starts("P2p");
    assert_eq!(
        (&p2p[0]["func"], &p2p[0]["peer"]),
        (&"Send".into(), &1.into())
    );
    assert_eq!(
        (&p2p[1]["func"], &p2p[1]["peer"]),
        (&"Recv".into(), &2.into())
    );
    assert_eq!(log.starts("GroupApi")[0]["group_depth"], 2);
    let kernels = log.starts("KernelCh");
    assert_eq!(kernels[0]["p_timer"], kernels[1]["p_timer"]);
}

#[test]
fn all_to_all_is_sends_and_receives_and_its_self_pair_is_odd() {
    let (outcome, logs) = with("ranks 4\nall_to_all 4KiB", "fff");
    assert_eq!(outcome.announced().total(), 4 * 8);
    assert_eq!(logs[0].starts("P2pApi").len(), 8);
    assert_eq!(logs[0].starts("P2p").len(), 8);
    // The self pair has channels and no KernelCh.
    assert_eq!(logs[0].starts("KernelCh").len(), 6);
    let operation = outcome.announced().operations.into_iter().next().unwrap();
    assert_eq!(operation.0.function, "AlltoAll");
    assert_eq!((operation.1.calls, operation.1.announced), (4, 32));
    let (_, logs) = with("ranks 4\nall_to_all 4KiB inplace", "fff");
    assert_eq!(
        (logs[0].starts("P2pApi").len(), logs[0].starts("P2p").len()),
        (8, 6)
    );
    let (_, logs) = with("ranks 4\ngather 4KiB root=1 ; scatter 4KiB", "600");
    assert_eq!(logs[1].starts("P2pApi").len(), 5 + 1);
    assert_eq!(logs[0].starts("P2pApi").len(), 1 + 5);
}

#[test]
fn all_gather_and_broadcast_are_bytes_in_coll_and_not_in_coll_api() {
    let (_, logs) = with("ranks 2\nall_gather 1KiB bf16\nbroadcast 1KiB f64", "fff");
    let colls = logs[0].starts("Coll");
    let apis = logs[0].starts("CollApi");
    assert_eq!(
        (&colls[0]["count"], &colls[0]["datatype"]),
        (&512.into(), &"ncclInt8".into())
    );
    assert_eq!(
        (&apis[0]["count"], &apis[0]["datatype"]),
        (&256.into(), &"ncclBfloat16".into())
    );
    assert_eq!(&colls[1]["count"], 1024);
}

#[test]
fn broadcast_since_2_29_is_an_api_call_only() {
    let (outcome, logs) = with(
        "nccl 2.30.7\nranks 2\nbroadcast 1KiB\nall_reduce 1KiB",
        "fff",
    );
    assert_eq!(outcome.announced().total(), 4);
    assert_eq!(logs[0].starts("CollApi").len(), 2);
    let colls = logs[0].starts("Coll");
    assert_eq!((colls.len(), &colls[0]["func"]), (1, &"AllReduce".into()));
    let (_, logs) = played("nccl 2.30.7\nranks 2\nbroadcast 1KiB", "fff", |o| {
        o.env.push(("NCCL_ALLGATHERV_ENABLE".into(), "0".into()));
    });
    assert_eq!(logs[0].starts("Coll").len(), 1);
}

#[test]
fn each_release_calls_its_own_abi_and_an_older_plugin_through_a_shim() {
    let releases = [
        ("2.23.4", 1),
        ("2.25.1", 2),
        ("2.26.6", 3),
        ("2.27.7", 4),
        ("2.28.9", 5),
        ("2.30.7", 6),
        ("2.32.3", 7),
    ];
    for (release, abi) in releases {
        let source = format!(
            "nccl {release}\nranks 2\nall_reduce 1KiB\n\
             group {{ send 1KiB to=+1 ; recv 1KiB from=-1 }}"
        );
        let (outcome, logs) = with(&source, "ffff");
        assert_eq!(outcome.abi, Ok(abi), "{release}");
        assert_eq!(outcome.announced().total(), 6, "{release}");
        assert_eq!(logs[0].starts("Coll").len(), 1, "{release}");
        for older in 1..abi {
            let (outcome, logs) = played(&source, "ffff", |o| o.highest_abi = older);
            assert_eq!(outcome.abi, Ok(older), "{release} as v{older}");
            assert_eq!(outcome.announced().total(), 6, "{release} as v{older}");
            let coll = logs[0].starts("Coll")[0];
            let parent = logs[0].by_handle(&coll["parent"]).unwrap();
            assert_eq!(parent["type"], if older < 5 { "Group" } else { "CollApi" });
            assert_eq!(logs[0].starts("KernelCh").is_empty(), older < 3);
        }
    }
}

#[test]
fn v4_behind_a_shim_gets_poison_for_the_channels_of_a_send() {
    let source = "ranks 2\ngroup { send 1KiB to=+1 ; recv 1KiB from=-1 }";
    let (_, logs) = played(source, "ff", |o| o.highest_abi = 4);
    let raw = logs[0].starts("P2p")[0]["raw"].as_str().unwrap();
    assert_eq!(&raw[120..122], "a5");
    let (_, logs) = with(&format!("nccl 2.27.7\n{source}"), "ff");
    let raw = logs[0].starts("P2p")[0]["raw"].as_str().unwrap();
    assert_eq!(&raw[120..122], "01");
    assert_eq!(
        &raw[2..16],
        "a5a5a5a5a5a5a5",
        "the bytes beside a one-byte type"
    );
}

#[test]
fn graph_replays_come_from_a_host_callback_thread_with_the_captured_parent() {
    let source = "ranks 2\ngraph g { all_reduce 1KiB x3 }\nreplay g x5";
    let (outcome, logs) = with(source, "fdf");
    let announced = outcome.announced();
    assert_eq!((announced.total(), announced.replays()), (2 * (3 + 15), 30));
    let log = &logs[0];
    assert_eq!(log.starts("CollApi").len(), 3);
    assert!(log
        .starts("CollApi")
        .iter()
        .all(|c| c["graph_captured"] == 1));
    let colls = log.starts("Coll");
    assert_eq!(colls.len(), 15);
    assert!(colls
        .iter()
        .all(|c| c["thread"] != log.calls("init")[0]["thread"]));
    assert_eq!(
        log.by_handle(&colls[14]["parent"]).unwrap()["type"],
        "CollApi"
    );
    assert_eq!(log.starts("KernelCh").len(), 15);
    // Without KernelCh or network the replays stay unseen, and Coll comes once, at capture.
    let (outcome, logs) = with(source, "2");
    assert_eq!(outcome.announced().replays(), 0);
    assert_eq!(logs[0].starts("Coll").len(), 3);
}

#[test]
fn two_hosts_bring_network_events() {
    let (_, logs) = with("ranks 4\nhosts 2\nall_reduce 4MiB channels=2", "1f");
    assert_eq!(logs[0].calls("init")[0]["nodes"], 2);
    // Rank 1 sends to the other host, rank 2 receives from it; ranks 3 and 0 likewise.
    let (sender, receiver) = (&logs[1], &logs[2]);
    let ops = sender.starts("ProxyOp");
    assert_eq!(ops.len(), 2);
    assert_eq!(
        (&ops[0]["is_send"], &ops[0]["peer"]),
        (&1.into(), &2.into())
    );
    assert_eq!(receiver.starts("ProxyOp")[0]["is_send"], 0);
    let steps = sender.starts("ProxyStep");
    assert!(
        !steps.is_empty()
            && steps
                .iter()
                .all(|s| sender.by_handle(&s["parent"]).unwrap()["type"] == "ProxyOp")
    );
    assert_eq!(sender.by_handle(&ops[0]["parent"]).unwrap()["type"], "Coll");
    let (_, logs) = with("ranks 4\nall_reduce 4MiB channels=2", "1f");
    assert!(logs.iter().all(|l| l.starts("ProxyOp").is_empty()));
}

#[test]
fn kernel_ch_moves_to_a_thread_of_its_own_in_2_31() {
    for (release, apart) in [("2.30.7", false), ("2.31.2", true)] {
        let source = format!("nccl {release}\nranks 2\nhosts 2\nall_reduce 1MiB");
        let (_, logs) = with(&source, "48");
        let kernel = &logs[0].starts("KernelCh")[0]["thread"];
        let network = &logs[0].starts("ProxyOp")[0]["thread"];
        assert_eq!(kernel != network, apart, "{release}");
    }
}

#[test]
fn symmetric_and_copy_engine_collectives_follow_the_release() {
    let source = |release| {
        format!("nccl {release}\nranks 2\nall_reduce 1MiB symmetric tag=9\nall_gather 1MiB ce")
    };
    let (_, logs) = with(&source("2.28.9"), "ffff");
    assert_eq!(
        (
            logs[0].starts("CollApi").len(),
            logs[0].starts("Coll").len()
        ),
        (2, 0)
    );
    let (_, logs) = with(&source("2.30.7"), "ffff");
    assert_eq!(logs[0].starts("Coll").len(), 0);
    let ce = logs[0].starts("CeColl");
    assert_eq!(
        (
            ce.len(),
            logs[0].starts("CeSync").len(),
            logs[0].starts("CeBatch").len()
        ),
        (1, 2, 1)
    );
    assert_eq!(
        logs[0].by_handle(&ce[0]["parent"]).unwrap()["func"],
        "AllGather"
    );
    let (_, logs) = with(&source("2.32.3"), "ffff");
    let coll = logs[0].starts("Coll")[0];
    assert_eq!(
        (&coll["is_sym_coll"], &coll["proto"], &coll["user_tag"]),
        (&1.into(), &"".into(), &9.into())
    );
    assert!(coll["kernel_variant"]
        .as_str()
        .unwrap()
        .starts_with("AllReduce"));
    let phases = logs[0].starts("KernelPhase");
    assert_eq!(phases.len(), 3 * logs[0].starts("KernelCh").len());
    assert_eq!(
        logs[0].by_handle(&phases[0]["parent"]).unwrap()["type"],
        "KernelCh"
    );
    // Behind the v5 shim of 2.30 the copy engines are silent.
    let (_, logs) = played(&source("2.30.7"), "ffff", |o| o.highest_abi = 5);
    assert!(logs[0].starts("CeColl").is_empty());
}

#[test]
fn one_thread_with_several_gpus_shares_the_group_of_its_first_communicator() {
    let (outcome, logs) = with("ranks 4\nper_process 2\none_thread\nall_reduce 1KiB", "fdf");
    assert_eq!((logs.len(), outcome.announced().total()), (2, 4));
    let log = &logs[0];
    assert_eq!(log.calls("init").len(), 2);
    let group = log.starts("GroupApi");
    assert_eq!(
        (group.len(), &group[0]["context"], &group[0]["group_depth"]),
        (1, &1.into(), &2.into())
    );
    let apis = log.starts("CollApi");
    assert_eq!(
        (apis.len(), &apis[1]["context"], &apis[1]["parent"]),
        (2, &2.into(), &group[0]["handle"])
    );
    let (_, logs) = with("ranks 4\nper_process 4\nall_reduce 1KiB", "fdf");
    let threads: std::collections::HashSet<_> = logs[0]
        .starts("CollApi")
        .iter()
        .map(|c| c["thread"].to_string())
        .collect();
    assert_eq!(threads.len(), 4);
}

#[test]
fn split_communicators_have_hashes_and_ranks_of_their_own() {
    let source = "ranks 4\ncomm all name \"everyone\"\ncomm tp split all every 2\n\
                  all_reduce 1KiB comm=tp\nall_reduce 1KiB comm=all";
    let (outcome, logs) = with(source, "600");
    let inits: Vec<_> = logs.iter().map(|l| l.calls("init")).collect();
    assert_eq!(inits[0][0]["name"], "everyone");
    let hash = |rank: usize, comm: usize| inits[rank][comm]["hash"].clone();
    assert!(hash(0, 1) == hash(1, 1) && hash(2, 1) == hash(3, 1) && hash(0, 1) != hash(2, 1));
    assert_eq!(inits[3][1]["ranks"], 2);
    let sizes: Vec<usize> = outcome
        .announced()
        .operations
        .keys()
        .map(|o| o.nranks)
        .collect();
    assert_eq!(sizes.iter().filter(|n| **n == 2).count(), 2);
}

#[test]
fn communicators_that_share_have_one_proxy_thread() {
    for (word, threads) in [("share", 1), ("", 3)] {
        let source = format!(
            "ranks 4\nhosts 2\ncomm all\ncomm odd split all stride 2 {word}\n\
             comm less shrink all without 3 {word}\nall_reduce 1MiB comm=all x2\n\
             all_reduce 1MiB comm=odd x2\nrank 0..2 {{ all_reduce 1MiB comm=less x2 }}\n\
             destroy all\nall_reduce 1MiB comm=odd"
        );
        let (_, logs) = with(&source, "3f");
        let ops = logs[0].starts("ProxyOp");
        let contexts: std::collections::HashSet<_> = ops.iter().map(|op| &op["context"]).collect();
        let proxies: std::collections::HashSet<_> = ops.iter().map(|op| &op["thread"]).collect();
        assert_eq!((contexts.len(), proxies.len()), (3, threads), "{word}");
        // The thread outlives the communicator that made it, and what it controls is still that one's.
        let controls: std::collections::HashSet<_> = logs[0]
            .starts("ProxyCtrl")
            .iter()
            .map(|c| c["context"].clone())
            .collect();
        assert_eq!(controls.len(), threads, "{word}");
        // All that was started has stopped.
        let story = logs[0].story();
        let count = |what: &str| story.iter().filter(|line| *line == what).count();
        assert_eq!(count("start ProxyOp"), count("stop ProxyOp"));
    }
}

#[test]
fn one_rank_or_nothing_to_move_makes_no_event() {
    let (outcome, logs) = with("ranks 1\nall_reduce 1KiB", "fff");
    assert_eq!(outcome.announced().total(), 0);
    assert!(logs[0].calls("start").is_empty());
    let (_, logs) = with("ranks 2\nall_reduce 0", "fff");
    assert!(logs[0].calls("start").is_empty());
}

#[test]
fn plugin_is_unloaded_with_its_last_communicator_and_loaded_again() {
    let (outcome, logs) = with(
        "ranks 2\nall_reduce 1KiB\nreinit world\nall_reduce 1KiB",
        "600",
    );
    assert_eq!(outcome.announced().total(), 4);
    let story = logs[0].story();
    let count = |what: &str| story.iter().filter(|s| *s == what).count();
    assert_eq!((count("init"), count("finalize")), (2, 2));
    // A library that was really unloaded counts its contexts from 1 again.
    assert_eq!(logs[0].calls("init")[1]["context"], 1);
}

#[test]
fn ranks_end_as_the_script_says_and_the_rest_waits_to_be_killed() {
    let ends = [
        ("kill", "signal 9"),
        ("exit 3", "exit 3"),
        ("_exit 4", "exit 4"),
        ("abort", "signal 6"),
        ("hang", "signal 15"),
        ("hang_inside", "signal 15"),
    ];
    for (act, ended) in ends {
        let source = format!("ranks 2\nall_reduce 1KiB x5\nrank 1 {act}\nall_reduce 1KiB x5");
        let (outcome, logs) = with(&source, "640");
        assert!(outcome.as_expected(), "{act}: {outcome:?}");
        assert_eq!(outcome.processes[1].ended, ended, "{act}");
        assert_eq!(outcome.processes[0].ended, "signal 15", "{act}");
        let announced: Vec<u64> = outcome
            .processes
            .iter()
            .map(|p| p.announced.as_ref().unwrap().total())
            .collect();
        let inside = u64::from(act == "hang_inside");
        assert_eq!(announced, [10, 5 + inside], "{act}");
        assert!(logs[1].calls("finalize").is_empty());
        // The survivor's first open kernel started and never stopped; those behind it never started.
        assert_eq!(logs[0].starts("KernelCh").len(), 6, "{act}");
        let stopped = logs[0]
            .calls("state")
            .iter()
            .filter(|s| s["state"] == "KernelChStop")
            .count();
        assert_eq!(stopped, 5, "{act}");
        assert_eq!(logs[1].starts("CollApi").len() as u64, 5 + inside, "{act}");
    }
}

#[test]
fn timeout_kills_what_still_runs_and_says_so() {
    let (outcome, _) = played("ranks 2\nsleep 100s\nall_reduce 1KiB", "600", |o| {
        o.fast = false;
        o.timeout = Some(std::time::Duration::from_millis(300));
    });
    assert!(!outcome.as_expected());
    assert!(outcome.processes.iter().all(|p| p.ended == "signal 9"));
}

#[test]
fn fork_and_no_destroy() {
    let (outcome, logs) = with(
        "ranks 2\nall_reduce 1KiB\nrank 0 fork\nall_reduce 1KiB\nno_destroy",
        "640",
    );
    assert!(outcome.as_expected());
    assert_eq!(outcome.announced().total(), 4);
    assert!(logs.iter().all(|l| l.calls("finalize").is_empty()));
    assert_eq!(
        logs[0]
            .calls("state")
            .iter()
            .filter(|s| s["state"] == "KernelChStop")
            .count(),
        2
    );
}

#[test]
fn faults_announce_nothing() {
    for (_, word, _) in fake_nccl::script::FAULTS {
        for abi in [1, 4, 7] {
            let source =
                format!("nccl 2.32.3\nranks 2\nall_reduce 1KiB\nfault {word}\nall_reduce 1KiB");
            let (outcome, logs) = played(&source, "ffff", |o| o.highest_abi = abi);
            assert!(outcome.as_expected(), "{word}");
            assert_eq!(outcome.announced().total(), 4, "{word}");
            let announcing = if abi < 5 { "Coll" } else { "CollApi" };
            let mut told = logs[0].starts(announcing);
            told.retain(|c| c["context"] == 1);
            assert_eq!(told.len(), 2, "{word} v{abi}");
        }
    }
}

#[test]
fn ranks_as_threads_of_this_process() {
    let options = Options {
        plugin: Some("none".into()),
        in_process: true,
        fast: true,
        ..Options::default()
    };
    let outcome = play("ranks 4\nall_reduce 1KiB x10", &options).unwrap();
    assert_eq!(outcome.abi, Err("NCCL_PROFILER_PLUGIN is `none`".into()));
    let announced = outcome.announced();
    assert_eq!(announced.total(), 0);
    assert_eq!(announced.operations.values().next().unwrap().calls, 40);
    let error = play("ranks 2\nall_reduce 1KiB\nrank 1 kill", &options).unwrap_err();
    assert!(error.to_string().contains("inside one process"));
}

#[test]
fn plugin_is_found_by_short_name_default_name_and_in_the_program() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libnccl-profiler-mine.so", "libnccl-profiler.so"] {
        std::fs::copy(log_plugin(), folder.path().join(name)).unwrap();
    }
    let path = (
        "LD_LIBRARY_PATH".to_string(),
        folder.path().display().to_string(),
    );
    for (value, variable) in [
        ("mine", path.clone()),
        ("", path),
        ("STATIC_PLUGIN", ("LD_PRELOAD".into(), log_plugin())),
    ] {
        let (outcome, _) = played("ranks 2\nall_reduce 1KiB", "600", |o| {
            o.plugin = Some(value.into());
            o.env.push(variable);
        });
        assert_eq!(outcome.abi, Ok(5), "{value}");
        assert_eq!(outcome.announced().total(), 2, "{value}");
    }
    let (outcome, _) = played("ranks 2\nall_reduce 1KiB", "600", |o| {
        o.plugin = Some("nowhere".into())
    });
    assert!(outcome
        .abi
        .unwrap_err()
        .contains("libnccl-profiler-nowhere.so"));
}

#[test]
fn paced_calls_keep_real_time() {
    let began = std::time::Instant::now();
    let (outcome, _) = played(
        "ranks 1\ncomm a ranks 0\nrate 100/s\nall_reduce 1KiB x20",
        "600",
        |o| o.fast = false,
    );
    assert!(outcome.as_expected());
    assert!(began.elapsed().as_millis() >= 190);
}

#[test]
fn stamps_lie_between_launch_and_callback() {
    let (_, logs) = played("ranks 2\nall_reduce 1KiB x50", "640", |o| o.fast = false);
    let log = &logs[0];
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    let stamps: Vec<u64> = log
        .starts("KernelCh")
        .iter()
        .map(|k| k["p_timer"].as_u64().unwrap())
        .collect();
    assert_eq!(stamps.len(), 50);
    assert!(stamps.is_sorted() && stamps.iter().all(|s| *s < now && *s > now - 60_000_000_000));
}

#[test]
fn in_virtual_time_clocks_show_the_script_s_time_and_nobody_waits() {
    let script = "ranks 2
        virtual_time
        all_reduce 1KiB time=40us
        sleep 1000s
        all_reduce 1KiB time=40us
        sync
        all_reduce 1KiB";
    // When each call began, since the first.
    let calls = || {
        let (outcome, logs) = played(script, "200", |options| {
            options.fast = false;
            options.env.push(("LOG_PLUGIN_CLOCK".into(), "1".into()));
        });
        assert!(outcome.as_expected());
        let of = |log: &Log| {
            let starts = log.calls("start");
            let at: Vec<i64> = starts
                .iter()
                .map(|line| line["clock_ns"].as_i64().unwrap())
                .collect();
            // A call by itself is a group, which starts before it.
            let calls = at.iter().skip(1).step_by(2);
            calls.map(|ns| ns - at[1]).collect::<Vec<i64>>()
        };
        logs.iter().map(of).collect::<Vec<_>>()
    };
    let first = calls();
    assert_eq!(first, calls());
    for rank in first {
        // A call takes 10 us of the host, and the sync is over 5 us of launching and 40 us after it.
        let [_, second, third] = rank[..] else {
            panic!("{rank:?}")
        };
        let near = |ns: i64, expected: i64| (ns - expected).abs() < 1000;
        assert!(near(second, 1_000_000_010_000), "{rank:?}");
        assert!(near(third - second, 55_000), "{rank:?}");
    }
}

#[test]
fn a_process_s_own_clocks_are_not_set() {
    let options = Options {
        in_process: true,
        ..Options::default()
    };
    let error = play("virtual_time\nall_reduce 1KiB", &options).unwrap_err();
    assert!(error.to_string().contains("expected no virtual_time"));
}
