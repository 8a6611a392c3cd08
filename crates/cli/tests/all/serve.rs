//! `ncclscope serve`: what it serves, to whom, and that its counts are those of the report.

use crate::running::Job;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No test waits longer.
const PATIENCE: Duration = Duration::from_secs(50);

fn ncclscope(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command.args(arguments);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data"));
    command
}

struct Serve {
    child: Child,
    address: String,
}

impl Serve {
    fn start(arguments: &[&str]) -> Serve {
        let mut command = ncclscope(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(arguments).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(lines.read_line(&mut line).expect("read") > 0, "no address");
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split('/').next().expect("an address").to_owned();
            }
        };
        // Whoever writes to a pipe that nobody reads waits.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Serve { child, address }
    }

    /// The status and the body of a page.
    fn get(&self, path: &str, fields: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        let host = &self.address;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head[9..12].to_owned(), body.to_owned())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of all samples of a name.
fn sum(page: &str, name: &str) -> f64 {
    let own = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_own = rest.starts_with('{') || rest.starts_with(' ');
        is_own.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    own.sum()
}

fn report(capture: &str) -> Value {
    let done = ncclscope(&["report", capture, "--json"]).output();
    serde_json::from_slice(&done.expect("started").stdout).expect("JSON")
}

/// Every line is a comment of its family, or a sample of the family that was begun last.
fn is_well_formed(page: &str) {
    let mut family = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().expect("a name");
        }
        let name = match line.strip_prefix("# ") {
            Some("EOF") => continue,
            Some(rest) => rest.split(' ').nth(1).expect("a name"),
            None => line.split(['{', ' ']).next().expect("a name"),
        };
        assert!(name.starts_with(family), "{line} in {family}");
    }
}

#[test]
fn counts_and_histograms_are_those_of_the_report() {
    for job in ["ddp_late_host", "killed_228", "slow_link"] {
        let serve = Serve::start(&[job]);
        let (status, page) = serve.get("/metrics", "");
        assert_eq!(status, "200");
        assert!(page.ends_with("# EOF\n"), "{page}");
        is_well_formed(&page);
        let completeness = &report(job)["completeness"];
        let counted = |name: &str| completeness[name].as_f64().expect("a number");
        assert_eq!(
            sum(&page, "ncclscope_calls_total"),
            counted("recorded"),
            "{job}"
        );
        assert_eq!(
            sum(&page, "ncclscope_gpu_seconds_count"),
            counted("timed"),
            "{job}"
        );
        let recorded = sum(&page, "ncclscope_recorded_calls_total");
        assert_eq!(recorded, counted("recorded"), "{job}");
    }
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let all = text.match_indices("ncclscope_").map(|(at, _)| &text[at..]);
    all.map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or(rest))
        .collect()
}

#[test]
fn alerts_dashboard_and_page_have_the_names_that_are_served() {
    let serve = Serve::start(&["ddp_late_host"]);
    let (_, page) = serve.get("/metrics", "");
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: Vec<(&str, &str)> = types.filter_map(|rest| rest.split_once(' ')).collect();
    let mut served: BTreeSet<String> = BTreeSet::new();
    for (name, kind) in &families {
        served.insert(match *kind {
            "counter" => format!("{name}_total"),
            "histogram" => format!("{name}_bucket"),
            _ => (*name).to_owned(),
        });
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("read");
    for file in ["ncclscope.rules.yml", "grafana-dashboard.json"] {
        let text = read(&format!("examples/prometheus/{file}"));
        let used = names(&text);
        assert!(used.len() > 5, "{used:?}");
        let unknown: Vec<&&str> = used
            .iter()
            .filter(|name| !served.contains(**name))
            .collect();
        assert_eq!(unknown, [&""; 0], "{file}");
    }
    let described = read("docs/reference/serve.md");
    let described = names(&described);
    let own: BTreeSet<&str> = families.iter().map(|(name, _)| *name).collect();
    assert_eq!(described, own);
}

#[test]
fn the_straggler_of_the_report_is_a_series() {
    let serve = Serve::start(&["ddp_late_host"]);
    let (_, page) = serve.get("/metrics", "");
    let late = "ncclscope_straggler_cost_ratio{rank=\"1\",host=\"vm\",kind=\"late_rank\"} 0.1";
    assert!(page.contains(late), "{page}");
    assert!(page.contains("ncclscope_hang 0\n"), "{page}");
}

#[test]
fn a_job_that_is_watched_from_its_middle_on_is_counted_whole() {
    let script = "ranks 2\nrepeat 300 { all_reduce 1MiB x3 ; broadcast 64B ; sleep 10ms }\n";
    let mut job = Job::play(script, &[("NCCLSCOPE_FLUSH", "0.05")]);
    let folder = job.capture().display().to_string();
    let begun = Instant::now();
    while !job.capture().is_dir() {
        assert!(begun.elapsed() < PATIENCE, "the job records nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let serve = Serve::start(&[&folder, "--span", "100ms", "--every", "100ms"]);
    job.wait();
    let counted = report(&folder)["completeness"].clone();
    let recorded = counted["recorded"].as_f64().expect("a number");
    assert_eq!(recorded, 2.0 * 300.0 * 4.0, "{counted}");
    let begun = Instant::now();
    loop {
        let (_, page) = serve.get("/metrics", "");
        let calls = sum(&page, "ncclscope_calls_total");
        assert!(calls <= recorded, "{calls} of {recorded}");
        if calls == recorded {
            let timed = counted["timed"].as_f64().expect("a number");
            assert_eq!(sum(&page, "ncclscope_gpu_seconds_count"), timed);
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{calls} of {recorded}: {page}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn only_those_with_the_token_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").expect("written");
    let serve = Serve::start(&["slow_link", "--token-file", &file.display().to_string()]);
    let (status, page) = serve.get("/metrics", "");
    assert_eq!(
        (status.as_str(), page.contains("ncclscope_")),
        ("401", false),
        "{page}"
    );
    let (status, page) = serve.get("/metrics", "Authorization: Bearer 0123456789abcdef\r\n");
    assert_eq!(
        (status.as_str(), page.contains("ncclscope_")),
        ("200", true),
        "{page}"
    );
}

#[test]
fn an_address_that_others_can_reach_needs_a_token() {
    let done = ncclscope(&["serve", "slow_link", "--listen", "0.0.0.0:0"])
        .output()
        .expect("started");
    assert_eq!(done.status.code(), Some(2));
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(text.contains("--token-file"), "{text}");
}

#[test]
fn a_file_for_node_exporter_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("job.prom");
    let path = file.display().to_string();
    let done = ncclscope(&["serve", "slow_link", "--textfile", &path, "--once"]).status();
    assert!(done.expect("started").success());
    let page = std::fs::read_to_string(&file).expect("written");
    is_well_formed(&page);
    assert!(
        page.contains("# TYPE ncclscope_calls_total counter\n"),
        "{page}"
    );
    assert!(
        !page.contains("# EOF") && !page.contains("# UNIT"),
        "{page}"
    );
    let others = std::fs::read_dir(folder.path()).expect("read").count();
    assert_eq!(others, 1);
}
