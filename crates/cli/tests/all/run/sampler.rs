//! The node sampler of `ncclscope run`, with a stub of NVML (`crates/fake-cuda/examples/fake_nvml.rs`).

use crate::built;
use crate::run::place::{stderr, RunFolder};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn stub() -> PathBuf {
    let stub = built::folder().join("examples/libfake_nvml.so");
    assert!(
        stub.exists(),
        "expected {}, which `cargo build -p ncclscope-fake-cuda --examples` builds",
        stub.display()
    );
    stub
}

/// `run` of a script, in which `$FAKE play job` plays two ranks.
pub fn run(place: &RunFolder, script: &str) -> Command {
    let job = "ranks 2\nall_reduce 1MiB x3\n";
    fs::write(place.path().join("job"), job).expect("written");
    let mut command = place.ncclscope(&["run", "-o", "c", "--", "sh", "-c", script]);
    command
        .env("FAKE", built::folder().join("fake-nccl"))
        .env(
            "NCCLSCOPE_PLUGIN",
            built::folder().join("libnccl-profiler-ncclscope.so"),
        )
        .env("NCCLSCOPE_NVML", stub())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Files of samples in the capture.
fn samples(place: &RunFolder) -> Vec<PathBuf> {
    let folders = fs::read_dir(place.path().join("c"))
        .into_iter()
        .flatten()
        .flatten();
    let files =
        folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let files = files.map(|file| file.path());
    files
        .filter(|path| path.extension().is_some_and(|e| e == "samples"))
        .collect()
}

fn report(place: &RunFolder) -> serde_json::Value {
    let done: Output = place
        .ncclscope(&["report", "c", "--json"])
        .output()
        .expect("run");
    serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", stderr(&done)))
}

const A_SECOND_AND_A_HALF: &str = "\"$FAKE\" play job; sleep 1.5";

#[test]
fn the_energy_of_a_run_is_that_of_its_gpus() {
    let place = RunFolder::new();
    let done = run(&place, A_SECOND_AND_A_HALF).output().expect("run");
    assert!(done.status.success(), "{}", stderr(&done));
    let nodes = &report(&place)["nodes"];
    assert!(nodes["why_none"].is_null());
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{nodes:#}"));
    let gpus = nodes["gpus"].as_array().expect("GPUs");
    // The stub's GPUs draw 500 and 600 W. A loaded machine reads the counter some ms after the tick.
    for (gpu, watts) in gpus.iter().zip([500.0, 600.0]) {
        assert!(
            (number(&gpu["mean_w"]) - watts).abs() < 0.05 * watts,
            "{gpu:#}"
        );
        // At each end of a second and a half, it may stand still for a tenth of a second.
        assert!(number(&gpu["gap"]).abs() < 0.2, "{gpu:#}");
    }
    let energy = &nodes["energy"];
    assert_eq!(
        (gpus.len(), energy["source"].as_str()),
        (2, Some("counter"))
    );
    let watts = number(&energy["energy_j"]) / number(&energy["time_s"]);
    assert!((watts - 1100.0).abs() < 55.0, "{energy:#}");
    // What a GPU refuses is null, and not 0.
    assert!(gpus[0]["pcie_sent_bytes"].is_number() && gpus[1]["pcie_sent_bytes"].is_null());
    // 18 NVLinks, each of which sends 500 MB/s.
    let links = gpus[0]["nvlinks"].as_array().expect("NVLinks");
    assert_eq!((links.len(), links[17]["link"].as_u64()), (18, Some(17)));
    let rate = number(&links[17]["sent_bytes"]) / number(&nodes["rows"][0]["time_s"]);
    assert!((0.7..1.3).contains(&(rate / 512e6)), "{rate} {links:#?}");
    assert_eq!(gpus[1]["throttled"]["power_cap"].as_f64(), Some(1.0));
    let row = &nodes["rows"][0];
    assert!(
        number(&row["cpus_busy"]) > 0.0 && row["memory_bytes"].as_u64() > Some(0),
        "{row:#}"
    );
    for (format, name) in [("chrome", "x.json"), ("perfetto", "x.pftrace")] {
        let args = ["export", "c", "--to", format, "-o", name];
        assert!(place
            .ncclscope(&args)
            .output()
            .expect("run")
            .status
            .success());
        let mut trace = fs::read(place.path().join(name)).expect("written");
        if format == "perfetto" {
            let packed = std::mem::take(&mut trace);
            let mut packed = flate2::read::GzDecoder::new(&packed[..]);
            std::io::Read::read_to_end(&mut packed, &mut trace).expect("gzip");
        }
        let counter = b"Power, mean of GPUs";
        assert!(
            trace.windows(counter.len()).any(|at| at == counter),
            "{format}"
        );
    }
    let buckets = report(&place)["timeline"]["sampled"]["power_w"]["mean"].clone();
    assert!(buckets
        .as_array()
        .is_some_and(|all| all.iter().any(|w| w.as_f64() == Some(550.0))));
}

#[test]
fn without_nvml_the_rest_is_sampled_and_the_reason_is_said() {
    let place = RunFolder::new();
    for (library, why) in [
        ("/nowhere/libnvidia-ml.so.1", "can't be loaded"),
        ("", "driver is not loaded"),
    ] {
        let _ = fs::remove_dir_all(place.path().join("c"));
        let mut command = run(&place, A_SECOND_AND_A_HALF);
        match library {
            "" => command.env("FAKE_NVML_FAILS", "init"),
            library => command.env("NCCLSCOPE_NVML", library),
        };
        assert!(command.output().expect("run").status.success());
        let nodes = &report(&place)["nodes"];
        assert!(nodes["energy"].is_null() && nodes["gpus"].as_array().is_some_and(Vec::is_empty));
        let row = &nodes["rows"][0];
        assert!(
            row["why_no_gpu"]
                .as_str()
                .is_some_and(|said| said.contains(why)),
            "{row:#}"
        );
        assert!(
            row["cpus_busy"].as_f64() > Some(0.0) && row["energy_j"].is_null(),
            "{row:#}"
        );
    }
}

#[test]
fn without_an_energy_counter_the_power_is_integrated() {
    let place = RunFolder::new();
    let mut command = run(&place, A_SECOND_AND_A_HALF);
    assert!(command
        .env("FAKE_NVML_FAILS", "energy")
        .output()
        .expect("run")
        .status
        .success());
    let nodes = &report(&place)["nodes"];
    assert_eq!(nodes["energy"]["source"], "power");
    assert!(nodes["gpus"][0]["counter_j"].is_null() && nodes["gpus"][0]["gap"].is_null());
    let watts = nodes["gpus"][0]["mean_w"].as_f64();
    assert!(
        watts.is_some_and(|watts| (watts - 500.0).abs() < 1.0),
        "{watts:?}"
    );
}

#[test]
fn a_gpu_that_falls_off_its_bus_is_named_and_energies_still_add_up() {
    for (which, lost) in [("1", 1), ("all", 2)] {
        let place = RunFolder::new();
        let mut command = run(&place, "\"$FAKE\" play job; sleep 3");
        let done = command.env("FAKE_NVML_LOST", which).output();
        let done = done.expect("run");
        assert!(done.status.success(), "{}", stderr(&done));
        let report = report(&place);
        assert!(report["problems"].as_array().is_some_and(Vec::is_empty));
        let nodes = &report["nodes"];
        let gpus = nodes["gpus"].as_array().expect("GPUs");
        let after = gpus.iter().filter_map(|gpu| gpu["lost_after_s"].as_f64());
        let after: Vec<f64> = after.collect();
        assert_eq!(after.len(), lost, "{gpus:#?}");
        assert!(after.iter().all(|s| (0.1..1.5).contains(s)), "{after:?}");
        let energy = &nodes["energy"];
        let phases = energy["phases"].as_array().expect("phases").iter();
        let sum: f64 = phases.filter_map(|phase| phase["energy_j"].as_f64()).sum();
        let all = energy["energy_j"].as_f64().expect("energy");
        assert!(all > 100.0 && (sum - all).abs() < 1e-6 * all, "{energy:#}");
        let text = place.ncclscope(&["report", "c"]).output().expect("run");
        let text = String::from_utf8_lossy(&text.stdout);
        assert!(text.contains("gave no figures any more"), "{text}");
    }
}

#[test]
fn a_run_that_is_over_at_once_has_no_energy_but_a_report() {
    let place = RunFolder::new();
    // Shorter than a tick, and no call at all.
    for script in ["\"$FAKE\" play job", "true"] {
        let _ = fs::remove_dir_all(place.path().join("c"));
        assert!(run(&place, script).output().expect("run").status.success());
        let done = place.ncclscope(&["report", "c", "--all"]).output();
        let done = done.expect("run");
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(
            done.status.code().is_some_and(|code| code <= 2),
            "{}",
            stderr(&done)
        );
    }
}

#[test]
fn the_sampler_can_be_turned_off() {
    let place = RunFolder::new();
    let mut command = run(&place, A_SECOND_AND_A_HALF);
    assert!(command
        .env("NCCLSCOPE_SAMPLER", "off")
        .output()
        .expect("run")
        .status
        .success());
    assert_eq!(samples(&place), [] as [PathBuf; 0]);
    let nodes = &report(&place)["nodes"];
    assert!(nodes["why_none"]
        .as_str()
        .is_some_and(|why| why.contains("--no-sampler")));
}

#[test]
fn a_kill_of_run_leaves_whole_blocks() {
    let place = RunFolder::new();
    let mut child = run(&place, "\"$FAKE\" play job; exec sleep 60 2>/dev/null")
        .spawn()
        .expect("run");
    let begin = Instant::now();
    let long = |file: &PathBuf| fs::metadata(file).is_ok_and(|meta| meta.len() > 3000);
    while !samples(&place).iter().any(long) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no samples");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let report = report(&place);
    assert_eq!(
        report["problems"].as_array().map(Vec::len),
        Some(0),
        "{}",
        report["problems"]
    );
    assert!(report["nodes"]["energy"]["energy_j"].as_f64() > Some(0.0));
}

/// What `ncclscope topo --json` says of a run with four GPUs.
fn links(lacking: Option<&str>) -> serde_json::Value {
    let place = RunFolder::new();
    let mut command = run(&place, A_SECOND_AND_A_HALF);
    command.env("FAKE_NVML_GPUS", "4");
    command.envs(lacking.map(|gpu| ("FAKE_NVML_NO_NVLINK", gpu)));
    let done = command.output().expect("run");
    assert!(done.status.success(), "{}", stderr(&done));
    let args = ["topo", "c", "--json"];
    let told = place.ncclscope(&args).output().expect("run");
    let text = place.ncclscope(&["report", "c", "--all"]).output();
    let text = String::from_utf8_lossy(&text.expect("run").stdout).into_owned();
    assert!(text.contains("  GPU0      X NV18"), "{text}");
    let findings = report(&place)["findings"].clone();
    let kinds = findings.as_array().expect("findings").iter();
    let is_a_finding = kinds
        .clone()
        .any(|finding| finding["kind"] == "missing_nvlink");
    assert_eq!(is_a_finding, lacking.is_some(), "{findings:#}");
    serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{}", stderr(&told)))
}

#[test]
fn a_gpu_whose_nvlinks_are_down_is_named() {
    let told = links(Some("2"));
    let host = &told["hosts"][0];
    assert_eq!(host["links"][0][1], "NV18");
    assert_eq!(host["links"][0][2], "SYS");
    assert_eq!(host["devices"][1]["label"], "0000:19:00.0");
    let kinds = host["remarks"].as_array().expect("remarks").iter();
    assert!(kinds.clone().count() == 1 && kinds.clone().all(|r| r["kind"] == "missing_nvlink"));
    let whole = links(None);
    assert_eq!(whole["hosts"][0]["links"][0][2], "NV18");
    assert_eq!(
        whole["hosts"][0]["remarks"].as_array().map(Vec::len),
        Some(0)
    );
}

/// A CPU that this process may use, as `taskset` takes it.
fn a_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.expect("listed").trim();
    list.split([',', '-'])
        .next_back()
        .expect("a CPU")
        .to_owned()
}

/// Ranks on one CPU, for some seconds, with a program beside them that never sleeps.
fn beside_a_hog(place: &RunFolder) -> Command {
    let script = format!(
        "pinned() {{ exec taskset -c {} \"$@\"; }}
        pinned sh -c 'while :; do :; done' & hog=$!
        (pinned \"$FAKE\" play many --fast); status=$?
        kill $hog; exit $status",
        a_cpu()
    );
    let command = run(place, &script);
    let many = "ranks 2\nrepeat 200000 {\nall_reduce 1KiB\n}\n";
    fs::write(place.path().join("many"), many).expect("written");
    command
}

/// The rows of long calls, one for each rank, and how much of their time each was off its CPU.
fn long_calls(report: &serde_json::Value) -> Vec<(&serde_json::Value, f64)> {
    let rows = report["nodes"]["jitter"].as_array().expect("rows");
    let off = |row: &serde_json::Value| {
        ["preempted", "asleep"]
            .iter()
            .filter_map(|part| row[part].as_f64())
            .sum()
    };
    rows.iter().map(|row| (row, off(row))).collect()
}

#[test]
fn a_pinned_thread_beside_a_cpu_hog_is_off_its_cpu_in_its_long_calls() {
    if let Err(why) = sampler::switches::Switches::new() {
        eprintln!("skipped: {why}");
        return;
    }
    let place = RunFolder::new();
    let done = beside_a_hog(&place).output().expect("run");
    assert!(done.status.success(), "{}", stderr(&done));
    let report = report(&place);
    let rows = long_calls(&report);
    assert_eq!(rows.len(), 2, "{rows:#?}");
    for (row, off) in rows {
        assert_eq!(row["source"], "switches");
        assert!(row["long"].as_u64() > Some(10), "{row:#}");
        // Long calls have time in which the thread ran: 11 to 19 % in three of five runs on one machine.
        assert!(off > 0.5, "{row:#}");
        assert!(row["preempted"].as_f64() > Some(0.5), "{row:#}");
    }
    let text = place.ncclscope(&["report", "c"]).output().expect("run");
    let text = String::from_utf8_lossy(&text.stdout);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("of that time the scheduler ran other threads on its CPU"),
        "{text}"
    );
}

#[test]
fn without_records_of_switches_counters_bound_the_time_off_a_cpu() {
    let place = RunFolder::new();
    let mut command = beside_a_hog(&place);
    let done = command
        .env("NCCLSCOPE_SWITCHES", "off")
        .output()
        .expect("run");
    assert!(done.status.success(), "{}", stderr(&done));
    let report = report(&place);
    let rows = long_calls(&report);
    assert_eq!(rows.len(), 2, "{rows:#?}");
    for (row, off) in rows {
        assert_eq!(row["source"], "schedstat");
        assert!(row["asleep"].is_null() && off >= 0.9, "{row:#}");
    }
}

#[test]
fn what_the_sampler_saw_is_exported_as_rows() {
    let place = RunFolder::new();
    assert!(run(&place, A_SECOND_AND_A_HALF)
        .output()
        .expect("run")
        .status
        .success());
    let has_switches = sampler::switches::Switches::new().is_ok();
    for (table, column) in [("samples", "gpu_energy_mj"), ("switches", "preempted")] {
        let rows = format!("{table}.jsonl");
        let export = |to: &str, output: &str| {
            let args = ["export", "c", "--to", to, "--table", table, "-o", output];
            let done = place.ncclscope(&args).output().expect("run");
            assert!(done.status.success(), "{}", stderr(&done));
        };
        export("jsonl", &rows);
        export("parquet", table);
        let lines = fs::read_to_string(place.path().join(&rows)).expect("written");
        let file =
            fs::File::open(place.path().join(table).join("part-0.parquet")).expect("written");
        let reader = parquet::file::reader::SerializedFileReader::new(file).expect("Parquet");
        let of_file = parquet::file::reader::FileReader::metadata(&reader).file_metadata();
        assert_eq!(of_file.num_rows() as usize, lines.lines().count());
        if table == "samples" || has_switches {
            assert!(lines.contains(column), "{table}: {lines}");
        }
        for line in lines.lines() {
            let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(row["pid"].is_null(), table == "samples", "{line}");
        }
    }
}

#[test]
fn diff_compares_the_energy_of_runs() {
    let (short, long) = (RunFolder::new(), RunFolder::new());
    assert!(run(&short, A_SECOND_AND_A_HALF)
        .output()
        .expect("run")
        .status
        .success());
    let longer = "\"$FAKE\" play job; sleep 3";
    assert!(run(&long, longer).output().expect("run").status.success());
    let joules = |place: &RunFolder| report(place)["nodes"]["energy"]["energy_j"].as_f64();
    // On a busy machine the short one may take longer.
    let (short, long) = if joules(&short) > joules(&long) {
        (long, short)
    } else {
        (short, long)
    };
    let (a, b) = (short.path().join("c"), long.path().join("c"));
    let [a, b] = [a, b].map(|path| path.display().to_string());
    let diff = |args: &[&str]| {
        let done = short
            .ncclscope(&[&["diff", &a, &b], args].concat())
            .output()
            .expect("run");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let page: serde_json::Value = serde_json::from_str(&diff(&["--json"])).expect("JSON");
    let rows = page["run"].as_array().expect("figures");
    let row = rows
        .iter()
        .find(|row| row["figure"] == "energy_j")
        .expect("energy");
    assert_eq!(
        (row["a"].as_f64(), row["b"].as_f64()),
        (joules(&short), joules(&long))
    );
    assert!(row["b"].as_f64() > row["a"].as_f64(), "{row:#}");
    let text = diff(&[]);
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("energy "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" kJ") && line.contains('+'), "{line}");
}
