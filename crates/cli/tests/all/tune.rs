//! What `ncclscope tune --json` prints, held to its schema.

use crate::built;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = include_str!("../../../render/schema/tune-1.json");

/// What was printed, held to the schema.
fn valid(printed: &[u8]) -> Value {
    let answer: Value = serde_json::from_slice(printed).expect("JSON");
    crate::schema::keeps_to(SCHEMA, &answer);
    answer
}

#[test]
fn json_of_runs_without_nccl_is_as_the_schema_says() {
    let folder = tempfile::tempdir().expect("a folder");
    // The sleep is what the setting changes; there is no NCCL, so the whole command is timed.
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args([
            "tune",
            "--try",
            "NAP=0.4,0.01",
            "--rounds",
            "4",
            "--json",
            "-o",
            "t",
            "--",
        ])
        .args(["sh", "-c", "sleep ${NAP:-0.2}"])
        .current_dir(&folder)
        .env_remove("NCCLSCOPE_RUN")
        .env(
            "NCCLSCOPE_PLUGIN",
            Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"),
        )
        .output()
        .expect("started");
    let answer = valid(&output.stdout);
    assert_eq!(answer["measure"], "process");
    assert_eq!(answer["runs"].as_array().map(Vec::len), Some(12));
    // Which one wins is a matter of time, and the machine may be busy.
    let mut names: Vec<&str> = answer["settings"]
        .as_array()
        .expect("settings")
        .iter()
        .map(|setting| setting["name"].as_str().unwrap_or_default())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["NAP=0.01", "NAP=0.4", "default"]);
}

/// What `ncclscope tune` says of a script that fake-nccl plays. Run n of an experiment has the seed
/// `play * 1000 + n`.
fn tuned(script: &str, options: &[&str], play: u64) -> (Option<i32>, Value) {
    tuned_by("exec \"$0\" play job", &[("job", script)], options, play)
}

/// The same with several scripts, one of which the shell's `command` has `$0` play.
fn tuned_by(
    command: &str,
    scripts: &[(&str, &str)],
    options: &[&str],
    play: u64,
) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, script) in scripts {
        std::fs::write(folder.path().join(name), script).expect("written");
    }
    std::fs::write(folder.path().join("runs"), "0").expect("written");
    let count = "n=$(cat runs); echo $((n + 1)) >runs; export FAKE_NCCL_SEED=$((PLAY * 1000 + n))";
    let run = format!("{count}; {command}");
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("tune")
        .args(options)
        .args(["--seed", "3", "--json", "-o", "t", "--", "sh", "-c", &run])
        .arg(built::folder().join("fake-nccl"))
        .current_dir(&folder)
        .env_remove("NCCLSCOPE_RUN")
        .env("NCCLSCOPE_PLUGIN", built::plugin())
        .env("PLAY", play.to_string())
        .output()
        .expect("started");
    (output.status.code(), valid(&output.stdout))
}

fn settings(answer: &Value) -> &Vec<Value> {
    answer["settings"].as_array().expect("settings")
}

/// The two ways to try settings, with the steps that a job then has.
const WAYS: [(&[&str], u32); 2] = [
    (&["--rounds", "4"], 24),
    (&["--within", "--block", "20"], 400),
];

/// A job of so many steps, whose times are those of the script and not of this machine.
fn job(steps: u32, ll: &str, tree: &str) -> String {
    format!(
        "ranks 2\nvirtual_time
        choice RING SIMPLE x1 ; choice RING LL x{ll} ; choice TREE SIMPLE x{tree} ; noise 5%
        repeat {steps} {{ sleep 1ms ; all_reduce 4MiB time=3ms ; all_reduce 1KiB time=10us ; sync }}"
    )
}

const BOTH: [&str; 4] = ["--setting", "NCCL_PROTO=LL", "--setting", "NCCL_ALGO=Tree"];

// `bench/tune_plays.sh` plays a hundred of these.
#[test]
fn plays_with_differences_are_ranked_right_and_those_without_have_no_winner() {
    for (way, steps) in WAYS {
        let options = [way, &BOTH].concat();
        for play in 1..=2 {
            let (status, answer) = tuned(&job(steps, "1.2", "0.8"), &options, play);
            let names = settings(&answer).iter().map(|of| of["name"].as_str());
            let order: Vec<&str> = names.flatten().collect();
            assert_eq!(status, Some(0), "{answer}");
            assert_eq!(order, ["NCCL_ALGO=Tree", "default", "NCCL_PROTO=LL"]);
            let (status, answer) = tuned(&job(steps, "1", "1"), &options, play + 10);
            assert_eq!(
                (status, &answer["winner"]),
                (Some(2), &Value::Null),
                "{answer}"
            );
        }
    }
}

#[test]
fn a_setting_that_breaks_the_job_is_not_judged_and_hides_no_other() {
    let whole = job(24, "1.2", "0.8");
    let of = |repeat: &str, end: &str| {
        let (head, _) = whole.split_once("repeat").expect("a script of steps");
        format!("{head}repeat {repeat}{end}")
    };
    let step = "{ sleep 1ms ; all_reduce 4MiB time=3ms ; all_reduce 1KiB time=10us ; sync }";
    let killed = of(&format!("10 {step}"), "\nrank 1 kill\nall_reduce 1KiB");
    let small = of(
        &format!("24 {step}").replace("4MiB time=3ms", "4KiB time=1ms"),
        "",
    );
    let two = "{ sleep 2ms ; repeat 2 { all_reduce 4MiB } ; repeat 2 { all_reduce 1KiB } ; sync }";
    let (half, twice) = (of(&format!("12 {step}"), ""), of(&format!("12 {two}"), ""));
    let scripts = [
        ("job", &whole),
        ("half", &half),
        ("killed", &killed),
        ("small", &small),
        ("twice", &twice),
    ];
    let scripts = scripts.map(|(name, script)| (name, script.as_str()));
    // All of them end with status 0, as behind a pipe.
    let command = "case \"$HOW\" in
        fails) exit 0 ;;
        '') exec \"$0\" play job ;;
        *) \"$0\" play \"$HOW\"; exit 0 ;;
        esac";
    let how = ["fails", "half", "killed", "small", "twice"].map(|how| format!("HOW={how}"));
    let mut options = vec!["--rounds", "4", "--setting", "NCCL_ALGO=Tree"];
    options.extend(how.iter().flat_map(|how| ["--setting", how.as_str()]));
    let (status, answer) = tuned_by(command, &scripts, &options, 1);
    assert_eq!(
        (status, &answer["measure"]),
        (Some(0), &"step".into()),
        "{answer}"
    );
    assert_eq!(answer["exports"][0], "export NCCL_ALGO=Tree", "{answer}");
    let left_out = |how: &str| {
        let setting = settings(&answer).iter().find(|of| of["name"] == how);
        let setting = setting.expect("tried");
        assert_eq!(setting["standing"], "not_judged", "{setting}");
        setting["left_out"].as_str().expect("a reason").to_owned()
    };
    for (how, why) in [
        (
            "HOW=fails",
            "Nothing was recorded, and there are captures of the default.",
        ),
        (
            "HOW=half",
            "It did other work: 48 NCCL calls, and the default 96. Look at `t/03-",
        ),
        ("HOW=killed", "It did other work: 4"),
        ("HOW=small", "It did other work: calls of 24"),
        (
            "HOW=twice",
            "It has steps of 4 calls, and the default steps of 2 calls.",
        ),
    ] {
        let said = left_out(how);
        assert!(said.starts_with(why), "{how}: {said}");
    }
    // One run shows it.
    let runs = answer["runs"].as_array().expect("runs").iter();
    assert!(runs.filter(|run| run["arm"] == 3).count() <= 2, "{answer}");
}

#[test]
fn within_one_run_a_rank_that_dies_is_no_result() {
    let script = "ranks 2\nvirtual_time\nchoice RING SIMPLE x1 ; choice TREE SIMPLE x0.5\n\
        repeat 100 { sleep 1ms ; all_reduce 1MiB time=12ms ; sync }\n\
        rank 1 kill\nrepeat 50 { sleep 10ms ; all_reduce 1MiB time=12ms }";
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("job"), script).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args([
            "tune",
            "--within",
            "--block",
            "10",
            "--try",
            "NCCL_ALGO=Tree",
        ])
        .args(["-o", "t", "--", "sh", "-c", "\"$0\" play job; true"])
        .arg(built::folder().join("fake-nccl"))
        .current_dir(&folder)
        .env_remove("NCCLSCOPE_RUN")
        .env("NCCLSCOPE_PLUGIN", built::plugin())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the job broke, though the program ended with status 0"),
        "{said}"
    );
    assert!(said.contains("Rank 1 (pid "), "{said}");
}

#[test]
fn a_play_in_virtual_time_is_the_same_again() {
    let options = [WAYS[1].0, &BOTH].concat();
    let play = || {
        let (_, answer) = tuned(&job(400, "1.2", "0.8"), &options, 7);
        let means = settings(&answer).iter().map(|of| of["mean_us"].as_f64());
        means
            .map(|mean| mean.map(f64::round))
            .collect::<Vec<Option<f64>>>()
    };
    assert_eq!(play(), play());
}

#[test]
fn a_captured_graph_keeps_the_setting_of_its_capture() {
    let script = |calls: &str| {
        format!(
            "ranks 2\nvirtual_time\nchoice RING SIMPLE x1 ; choice TREE SIMPLE x0.5
            graph g {{ all_reduce 4MiB time=3ms }}
            repeat 400 {{ sleep 1ms ; {calls} ; all_reduce 1MiB time=200us ; all_gather 1KiB ; sync }}"
        )
    };
    let against = |calls: &str| {
        let options = ["--within", "--block", "60", "--try", "NCCL_ALGO=Tree"];
        let (_, answer) = tuned(&script(calls), &options, 1);
        let settings = settings(&answer).clone();
        let tree = settings
            .into_iter()
            .find(|of| of["name"] == "NCCL_ALGO=Tree");
        let ratio = tree.expect("tried")["against"]["ratio"].as_f64();
        (
            ratio.expect("judged"),
            answer["notes"].to_string().contains("CUDA graphs keep"),
        )
    };
    // Called, the tree halves 3.2 ms of 4.2. Captured, the 3 ms are the same in every block.
    let (called, _) = against("all_reduce 4MiB time=3ms");
    assert!(called < 0.7, "{called}");
    let (captured, said) = against("replay g");
    assert!((0.93..1.0).contains(&captured), "{captured}");
    assert!(said);
}

#[test]
fn a_variable_of_the_user_s_beats_the_tuner() {
    let folder = tempfile::tempdir().expect("a folder");
    let forced = format!(
        "NCCL_ALGO=Ring exec {} tune \"$@\"",
        env!("CARGO_BIN_EXE_ncclscope")
    );
    std::fs::write(folder.path().join("job"), job(400, "1.2", "0.5")).expect("written");
    let output = Command::new("sh")
        .args([
            "-c", &forced, "sh", "--within", "--block", "20", "--json", "-o", "t",
        ])
        .args(["--try", "NCCL_ALGO=Tree", "--"])
        .arg(built::folder().join("fake-nccl"))
        .args(["play", "job"])
        .current_dir(&folder)
        .env_remove("NCCLSCOPE_RUN")
        .env("NCCLSCOPE_PLUGIN", built::plugin())
        .output()
        .expect("started");
    let answer = valid(&output.stdout);
    let tree = settings(&answer)
        .iter()
        .find(|of| of["name"] == "NCCL_ALGO=Tree");
    let tree = tree.expect("tried");
    let blocks = &tree["blocks"];
    assert_eq!(tree["standing"], "not_judged");
    assert!(
        blocks["blocks"].as_u64() > Some(0) && blocks["blocks"] == blocks["ignored"],
        "{tree}"
    );
    assert!(answer["notes"].to_string().contains("beats the tuner"));
    // What the calls used, by the capture: rings only.
    let report = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args(["report", "t/capture", "--json"])
        .current_dir(&folder)
        .output()
        .expect("started");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let used = report["operations"].as_array().expect("operations").iter();
    let used: std::collections::BTreeSet<&str> =
        used.filter_map(|of| of["algorithm"].as_str()).collect();
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["RING"]);
}

#[test]
fn json_of_blocks_is_as_the_schema_says() {
    let script = "ranks 2\nvirtual_time\nchoice RING SIMPLE x1 ; choice TREE SIMPLE x0.5\n\
        repeat 150 { sleep 1ms ; all_reduce 1MiB time=12ms ; all_gather 1MiB time=2ms ; sync }";
    let options = ["--within", "--block", "20", "--try", "NCCL_ALGO=Tree"];
    let options = [&options[..], &["--try", "NCCL_PROTO=Simple,LL"]].concat();
    let (_, answer) = tuned(script, &options, 1);
    assert_eq!(
        (&answer["way"], &answer["measure"]),
        (&"blocks".into(), &"step".into())
    );
    let ignored = |name: &str| {
        let of = settings(&answer)
            .iter()
            .find(|setting| setting["name"] == name)
            .expect("a setting");
        (of["blocks"]["ignored"].as_u64(), of["standing"].as_str())
    };
    assert_eq!(ignored("NCCL_ALGO=Tree NCCL_PROTO=Simple").0, Some(0));
    let (blocks, standing) = ignored("NCCL_ALGO=Tree NCCL_PROTO=LL");
    assert!(
        blocks > Some(0) && standing == Some("not_judged"),
        "{blocks:?} {standing:?}"
    );
}
