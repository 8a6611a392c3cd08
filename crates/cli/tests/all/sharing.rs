//! `export --anonymous`: the same findings, and none of the old names.

use crate::built;
use analyze::findings::Finding;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use tables::whole;
use tables::Capture;

fn recorded(name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    data.join(name)
}

fn export(capture: &Path, options: &[&str], to: &Path) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("export")
        .arg(capture)
        .args(options)
        .arg("-o")
        .arg(to)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.success(), said)
}

fn opened(capture: &Path) -> Capture {
    Capture::open(capture).expect("it opens")
}

/// What a finding says, but for names.
fn told(finding: &Finding) -> String {
    let ranks = finding.subject.ranks.iter();
    let ranks: Vec<_> = ranks.map(|of| (of.process.rank, of.device)).collect();
    let (kind, loss) = (finding.kind(), &finding.loss);
    format!("{kind:?} {ranks:?} {loss:?}")
}

fn findings(capture: &Capture) -> Vec<String> {
    let report = analyze::report(capture);
    let account = report.account.map(|account| account.wall_us);
    let found = report.findings.iter().map(told);
    found.chain([format!("{account:?}")]).collect()
}

/// All bytes of a capture, unpacked, and the names of its files.
fn bytes(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for file in whole::files(folder, &mut Vec::new()) {
        all.extend(file.name.as_os_str().as_encoded_bytes());
        all.push(b'\n');
        all.extend(file.load(&mut Vec::new()));
    }
    all
}

fn has(bytes: &[u8], name: &str) -> bool {
    bytes
        .windows(name.len())
        .any(|part| part == name.as_bytes())
}

/// Names in a capture that are long enough not to be there by chance.
fn names(capture: &Capture) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |name: &str| {
        names.extend((name.len() >= 6).then(|| name.to_owned()));
    };
    for process in &capture.processes {
        for (key, value) in &process.facts {
            match key.as_str() {
                "boot_id" | "live" | "trace" | "command" => add(value),
                key if key.starts_with("env.") && value.contains('/') => add(value),
                _ => {}
            }
            let words = value.split([' ', '/']).filter(|word| word.ends_with(".py"));
            words.for_each(&mut add);
        }
    }
    for node in &capture.nodes {
        node.gpus().for_each(|(uuid, _)| add(uuid));
    }
    let words = capture.job["command"].as_array().into_iter().flatten();
    let words = words.filter_map(|word| word.as_str());
    words.filter(|word| word.contains('/')).for_each(&mut add);
    let communicators = capture.communicators.iter();
    communicators
        .filter_map(|of| of.name.as_deref())
        .for_each(&mut add);
    names
}

#[test]
fn recorded_jobs_without_names_give_the_same_findings() {
    for name in [
        "decode_slow_gpu",
        "ddp_slow_host",
        "ddp_checkpoints",
        "engines_232",
        "everything_228",
        "grid_slow_host",
        "killed_228",
        "megatron_late_gpu",
        "restarted_228",
        "shared_two_hosts_228",
        "slow_link",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("shared");
        let (is_written, said) = export(&recorded(name), &["--anonymous"], &to);
        assert!(is_written, "{name}: {said}");
        let (before, after) = (opened(&recorded(name)), opened(&to));
        assert_eq!(findings(&after), findings(&before), "{name}");
        assert!(after.processes.iter().all(|p| p.host == "host-1"), "{name}");
        let (old, new) = (bytes(&recorded(name)), bytes(&to));
        for of in names(&before) {
            assert!(!has(&new, &of), "{name}: {of}");
            // Of the facts in a live part, too: the names were really there.
            assert!(has(&old, &of) || of.starts_with("GPU-"), "{name}: {of}");
        }
        assert!(!has(&new, "host=vm") && !has(&new, "] vm:"), "{name}");
    }
}

/// The findings of a part of a capture, as `report` has them with the same option.
fn findings_of_part(capture: &Path, part: &analyze::spans::Part) -> Vec<String> {
    let mut opened = Capture::open_attempt(capture, tables::Which::Last).expect("it opens");
    part.keep(&mut opened).expect("it has the part");
    let report = analyze::report(&opened);
    let told = report.findings.iter().map(told);
    told.chain([report.job.part.unwrap_or_default()]).collect()
}

#[test]
fn a_part_of_a_job_without_names_gives_the_same_findings() {
    use analyze::spans::Part;
    let steps = || (Part::Steps(2..40), ["--anonymous", "--steps", "2..40"]);
    let last = || (Part::Last(2_000_000_000), ["--anonymous", "--last", "2s"]);
    let mut found = 0;
    for (name, (part, options)) in [
        ("ddp_slow_host", last()),
        ("ddp8_two_hosts", steps()),
        ("decode_slow_gpu", last()),
        ("eager_busier_gpu", steps()),
        ("everything_228", last()),
        ("megatron_late_gpu", steps()),
        ("mix_two_hosts_228", last()),
        ("pipe_slow_gpu", steps()),
        ("restarted_228", last()),
        ("slow_link", last()),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("shared");
        let (is_written, said) = export(&recorded(name), &options, &to);
        assert!(is_written, "{name}: {said}");
        let before = findings_of_part(&recorded(name), &part);
        let after = opened(&to);
        let report = analyze::report(&after);
        let part = report.job.part.clone().unwrap_or_default();
        let told: Vec<String> = report.findings.iter().map(told).chain([part]).collect();
        assert_eq!(told, before, "{name}");
        found += before.len() - 1;
        // The same if calls stay in the files until they are asked for.
        let source = tables::Source::open(&to, &Default::default()).expect("it opens");
        let from = analyze::report_from(source, None, &Default::default());
        assert_eq!(from.findings.len(), report.findings.len(), "{name}");
        assert_eq!(from.job.part, report.job.part, "{name}");
        assert!(after.processes.iter().all(|p| p.host == "host-1"), "{name}");
        let new = bytes(&to);
        for of in names(&opened(&recorded(name))) {
            assert!(!has(&new, &of), "{name}: {of}");
        }
    }
    assert!(found > 4, "{found} findings");
    // Collected or made anonymous again, it is the same part.
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (_, options) = steps();
    export(&recorded("megatron_late_gpu"), &options, &at("shared"));
    export(&at("shared"), &["--anonymous"], &at("again"));
    let collected = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("collect")
        .arg(at("shared"))
        .arg("--into")
        .arg(at("collected"))
        .output();
    let said = String::from_utf8_lossy(&collected.expect("it runs").stderr).into_owned();
    let told = findings(&opened(&at("shared")));
    assert_eq!(findings(&opened(&at("again"))), told);
    assert_eq!(findings(&opened(&at("collected"))), told, "{said}");
}

#[test]
fn stacks_logs_and_samples_lose_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("shared");
    export(&recorded("everything_228"), &["--anonymous"], &to);
    let (old, new) = (bytes(&recorded("everything_228")), bytes(&to));
    for name in [
        "gpu/everything.py",
        "c0a31a1b-78b6",
        "GPU-630a5927-60a0",
        "/tmp/t/everything",
    ] {
        assert!(has(&old, name) && !has(&new, name), "{name}");
    }
    // Functions of the program, and of the library that it calls.
    let caller = |capture: &Capture| {
        let callers = analyze::report(capture).callers;
        let lines = callers.iter().filter_map(|row| row.caller.clone());
        lines.collect::<Vec<_>>()
    };
    let (before, after) = (
        caller(&opened(&recorded("everything_228"))),
        caller(&opened(&to)),
    );
    assert!(before
        .iter()
        .any(|line| line.ends_with("everything.py:28 train")));
    assert!(
        after.iter().any(|line| line.contains(":28 function-")),
        "{after:?}"
    );
    assert!(
        !after.iter().any(|line| line.contains("train")),
        "{after:?}"
    );
}

#[test]
fn other_files_of_a_capture_lose_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("capture/vm")).expect("made");
    let files = whole::files(&recorded("ddp_slow_host"), &mut Vec::new());
    for file in &files {
        let to = at("capture").join(&file.name);
        std::fs::write(to, file.load(&mut Vec::new())).expect("written");
    }
    let trace = files
        .iter()
        .find(|file| file.name.extension().is_some_and(|end| end == "trace"));
    let stem = trace.expect("a trace file").name.with_extension("marks");
    let write = |name: &Path, text: &str| {
        std::fs::write(at("capture").join(name), text).expect("written");
    };
    write(
        &stem,
        "{\"schema\":\"ncclscope.marks/1\",\"clock\":\"CLOCK_MONOTONIC\",\"pid\":1}\n\
         [\"phase\",\"oppenheimer\",120,150]\n[\"phase\",\"forward\",150,160]\n",
    );
    write(
        Path::new("communication-kernels.txt"),
        "elementwise_kernel   manhattan\n",
    );
    write(Path::new("notes.txt"), "of mallory");
    write(
        Path::new("vm/hang-8940a867.json"),
        r#"{"schema": "ncclscope.sighting/1", "at_ns": 1795344261832000000, "host": "trinity-01",
            "boot_id": "8940a867-55d7-48bb-b052-3ed2d9d7850a", "hang": true, "verdict": "stopped",
            "sentence": "Rank 2 on trinity-01 is stopped by /home/mallory/gdb.", "processes": []}"#,
    );
    let (is_written, said) = export(&at("capture"), &["--anonymous"], &at("shared"));
    assert!(
        is_written && said.contains("`notes.txt` is left out"),
        "{said}"
    );
    let (old, new) = (bytes(&at("capture")), bytes(&at("shared")));
    for name in [
        "oppenheimer",
        "elementwise_kernel",
        "manhattan",
        "mallory",
        "trinity-01",
        "8940a867",
    ] {
        assert!(has(&old, name) && !has(&new, name), "{name}");
    }
    let (before, after) = (opened(&at("capture")), opened(&at("shared")));
    assert_eq!(
        after.sightings[0].sentence,
        "Rank 2 on host-1 is stopped by /path-1"
    );
    assert_eq!(findings(&after), findings(&before));
    // Kernels of the user's pattern still count as communication.
    let others = |capture: &Capture| {
        let streams = analyze::report(capture).streams.expect("windows");
        streams
            .other_communication
            .iter()
            .map(|of| of.kernels)
            .collect::<Vec<_>>()
    };
    assert_eq!(others(&after), others(&before));
    assert!(!others(&after).is_empty());
    // A packed capture is the same capture.
    let packed = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("collect")
        .arg(at("capture"))
        .arg("--pack")
        .output();
    assert!(packed.expect("it runs").status.success());
    let (is_written, said) = export(&at("capture"), &["--anonymous"], &at("again"));
    assert!(is_written, "{said}");
    assert_eq!(findings(&opened(&at("again"))), findings(&before));
}

/// Plays a script or a capture, recorded with the variables of `mode`; what fake-nccl said.
fn play(what: &[&str], job: &Path, out: &Path, mode: &[(&str, &str)]) -> String {
    let played = Command::new(built::folder().join("fake-nccl"))
        .args(what)
        .arg(job)
        .env("NCCL_PROFILER_PLUGIN", built::plugin())
        .env("NCCLSCOPE_OUT", out)
        .env("NCCLSCOPE_TIMING", "stamps")
        .envs(mode.iter().copied())
        .output()
        .expect("`make debug` builds it");
    let said = String::from_utf8_lossy(&played.stderr).into_owned();
    assert!(played.status.success(), "{}: {said}", job.display());
    said
}

/// How many calls are in a capture.
fn calls(capture: &Capture) -> u64 {
    let all = capture.processes.iter();
    all.map(|process| process.calls.len() as u64).sum()
}

/// Of what fake-nccl said, how many calls are not played.
fn left_out(said: &str) -> u64 {
    let lines = said
        .lines()
        .filter_map(|line| line.strip_prefix("fake-nccl: "));
    let lines = lines.filter(|line| line.contains(" calls of ") || line.contains(" calls that "));
    lines
        .filter(|line| line.ends_with("are not played"))
        .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

#[test]
fn recorded_jobs_without_names_are_played_as_with_names() {
    // Who is found in the job, and again in what is played of it.
    for (name, options, rank) in [
        ("ddp_checkpoints", &[][..], Some(0)),
        ("deepspeed_late_host", &[][..], Some(0)),
        ("grid_slow_host", &["--steps", "2..40"][..], None),
        ("megatron_late_host", &[][..], Some(0)),
        ("megatron_late_host", &["--steps", "10..90"][..], Some(0)),
        ("pipe_slow_gpu", &["--steps", "10"][..], None),
        ("decode_slow_gpu", &[][..], None),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (is_written, said) = export(
            &recorded(name),
            &[&["--anonymous"], options].concat(),
            &at("shared"),
        );
        assert!(is_written, "{name}: {said}");
        let shared = opened(&at("shared"));
        let said = play(&["replay"], &at("shared"), &at("again"), &[]);
        let again = opened(&at("again"));
        assert_eq!(
            calls(&again) + left_out(&said),
            calls(&shared),
            "{name}: {said}"
        );
        assert!(
            calls(&again) > 5 * left_out(&said) || name.starts_with("decode"),
            "{name}: {said}"
        );
        let first = |capture: &Capture| {
            let report = analyze::report(capture);
            let found = report.findings.first()?;
            Some((found.kind(), found.subject.ranks.first()?.process.rank))
        };
        if rank.is_some() {
            assert_eq!(
                first(&again).map(|found| found.1),
                Some(rank),
                "{name} {options:?}"
            );
            assert_eq!(first(&again), first(&shared), "{name} {options:?}");
        }
        // With names it is the same job.
        if options.is_empty() {
            let said_of_named = play(&["replay"], &recorded(name), &at("named"), &[]);
            assert_eq!(left_out(&said_of_named), left_out(&said), "{name}");
            // A run ends with the processes, which end when the machine lets them.
            let prices = |capture: &Capture| {
                let found = analyze::report(capture).findings.into_iter();
                let found = found.map(|finding| {
                    let ms = finding
                        .loss
                        .as_ref()
                        .map(|loss| (loss.wall_us / 1e3).round());
                    let ranks = finding.subject.ranks.iter().map(|of| of.process.rank);
                    format!(
                        "{:?} {:?} {ms:?}",
                        finding.kind(),
                        ranks.collect::<Vec<_>>()
                    )
                });
                found.collect::<Vec<_>>()
            };
            assert_eq!(prices(&opened(&at("named"))), prices(&again), "{name}");
        }
    }
}

#[test]
fn a_job_that_was_killed_is_played_up_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    export(&recorded("killed_228"), &["--anonymous"], &at("shared"));
    let said = play(
        &["replay", "--pace", "real"],
        &at("shared"),
        &at("again"),
        &[],
    );
    let (shared, again) = (opened(&at("shared")), opened(&at("again")));
    let dead = |capture: &Capture| {
        let deaths = analyze::report(capture).deaths;
        let all = deaths
            .into_iter()
            .map(|of| (of.process.rank, of.exited, of.left));
        all.collect::<Vec<_>>()
    };
    assert!(!dead(&shared).is_empty());
    assert_eq!(dead(&again), dead(&shared), "{said}");
}

#[test]
fn a_played_job_without_names_can_be_played_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mode = [
        ("NCCLSCOPE_MODE", "callbacks"),
        ("NCCL_SECRET_PROJECT", "manhattan-trinity"),
    ];
    let play = |what: &[&str], job: &Path, out: &Path| self::play(what, job, out, &mode);
    let script = "ranks 4\nvirtual_time\ncomm secret ranks 0..3 name \"oppenheimer\"\n\
                  repeat 60 {\nrank 2 late 10ms\nall_reduce 1MiB comm=secret\nsync\n}\n";
    std::fs::write(at("secret-job"), script).expect("written");
    play(&["play"], &at("secret-job"), &at("capture"));
    let (is_written, said) = export(&at("capture"), &["--anonymous"], &at("shared"));
    assert!(is_written, "{said}");
    let (old, new) = (bytes(&at("capture")), bytes(&at("shared")));
    for name in ["manhattan-trinity", "oppenheimer"] {
        assert!(has(&old, name), "{name}");
        assert!(!has(&new, name), "{name}");
    }
    let before = findings(&opened(&at("capture")));
    assert!(
        before[0].contains("LateRank") && before[0].contains("(Some(2)"),
        "{before:?}"
    );
    assert_eq!(findings(&opened(&at("shared"))), before);
    // Both can be played again, and whoever was late is late.
    for name in ["capture", "shared"] {
        play(
            &["replay", "--pace", "real"],
            &at(name),
            &at(&format!("again-{name}")),
        );
        let again = findings(&opened(&at(&format!("again-{name}"))));
        assert!(
            again[0].contains("LateRank") && again[0].contains("(Some(2)"),
            "{again:?}"
        );
    }
}

#[test]
fn ten_steps_of_a_job_in_the_default_mode_can_be_played_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let play = |what: &[&str], job: &Path, out: &Path| self::play(what, job, out, &[]);
    // A step is an AllReduce of all, sends along a pipeline, and a ReduceScatter.
    let script = "ranks 4\nvirtual_time\ncomm secret ranks 0..3 name \"oppenheimer\"\n\
                  repeat 60 {\nrank 2 late 10ms\nall_reduce 1MiB comm=secret time=200us\n\
                  group {\nsend 1MiB comm=secret to=+1 time=90us\n\
                  recv 1MiB comm=secret from=-1 time=90us\n}\n\
                  reduce_scatter 2MiB bf16 comm=secret time=300us\nsync\n}\n";
    std::fs::write(at("secret-job"), script).expect("written");
    play(&["play"], &at("secret-job"), &at("capture"));
    let options = ["--anonymous", "--steps", "10..40"];
    let (is_written, said) = export(&at("capture"), &options, &at("shared"));
    assert!(is_written, "{said}");
    assert!(!has(&bytes(&at("shared")), "oppenheimer"));
    let is_late = |of: &[String]| of[0].contains("LateRank") && of[0].contains("(Some(2)");
    let before = findings(&opened(&at("shared")));
    assert!(is_late(&before), "{before:?}");
    let said = play(&["replay"], &at("shared"), &at("again"));
    assert!(!said.contains("are not played"), "{said}");
    let again = opened(&at("again"));
    assert!(is_late(&findings(&again)), "{:?}", findings(&again));
    assert!(again.processes.iter().all(|of| of.calls.len() == 120));
    assert_eq!(calls(&again), calls(&opened(&at("shared"))));
    // The operations take as long as before.
    let took = |of: &Capture| {
        let report = analyze::report(of);
        let steps = report.steps.expect("steps");
        steps.reference().expect("a rank").each[5]
            .time_ns
            .expect("known")
            / 100_000
    };
    assert!(took(&again).abs_diff(took(&opened(&at("shared")))) <= 1);
}

#[test]
fn nothing_of_others_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("shared");
    let written = |options: &[&str]| export(&recorded("calls_228"), options, &to);
    assert!(written(&["--anonymous"]).0);
    let (is_written, said) = written(&["--anonymous"]);
    assert!(!is_written && said.contains("in it"), "{said}");
    assert!(written(&["--anonymous", "--force"]).0);
    std::fs::write(to.join("thesis.tex"), "x").expect("written");
    assert!(!written(&["--anonymous", "--force"]).0);
    assert!(to.join("thesis.tex").is_file());
    let (is_written, said) = export(&recorded("calls_228"), &["--anonymous", "--to", "csv"], &to);
    assert!(
        !is_written && said.contains("cannot be used with"),
        "{said}"
    );
}
