//! `ncclscope serve`: what it serves, to whom, and that its counts are those of the report.

use crate::running::Job;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
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
        Serve::start_with(arguments, &[])
    }

    fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Serve {
        let mut command = ncclscope(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(arguments).stderr(Stdio::piped());
        command.envs(variables.iter().copied());
        let mut child = command.spawn().expect("started");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(lines.read_line(&mut line).expect("read") > 0, "no address");
            // What a collector answers may be told first, with its address.
            let own = line.strip_suffix("/metrics\n");
            let own = own.and_then(|line| line.split_once("http://"));
            if let Some((_, address)) = own.filter(|(_, address)| !address.contains('/')) {
                break address.to_owned();
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
        let announced = sum(&page, "ncclscope_announced_calls_total");
        assert_eq!(announced, counted("announced"), "{job}");
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

/// Waits until a job has a capture.
fn recorded(job: &Job) -> String {
    let begun = Instant::now();
    while !job.capture().is_dir() {
        assert!(begun.elapsed() < PATIENCE, "the job records nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    job.capture().display().to_string()
}

/// Asks again and again until the page is as it should be.
fn wait_for(serve: &Serve, what: &str, mut is_so: impl FnMut(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let (_, page) = serve.get("/metrics", "");
        if is_so(&page) {
            return page;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {page}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The value of each series of counters and histograms.
fn counters(page: &str) -> BTreeMap<&str, f64> {
    let mut is_counter = false;
    let mut all = BTreeMap::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            is_counter = rest.ends_with(" counter") || rest.ends_with(" histogram");
        }
        // Of times without a histogram, only the mean is known. They may be in other buckets later.
        if is_counter && !line.starts_with('#') && !line.contains("_bucket{") {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            all.insert(series, value.parse().expect("a number"));
        }
    }
    all
}

/// No counter is smaller than it was.
fn has_not_fallen(before: &str, after: &str) {
    let after = counters(after);
    for (series, value) in counters(before) {
        let now = after.get(series).copied();
        assert!(now >= Some(value), "{series}: {value}, then {now:?}");
    }
}

const MANY_KINDS: &str = "ranks 4\n\
    comm half split world every 2 name \"half\"\n\
    repeat 150 { all_reduce 1MiB x2 ; broadcast 64B ; all_gather 4KiB comm=half ; \
    group { send 2KiB to=+1 ; recv 2KiB from=-1 } ; all_to_all 64KiB ; sleep 5ms }\n";

/// Calls that a job announces with this script.
const ANNOUNCED: f64 = 4.0 * 150.0 * (2.0 + 1.0 + 1.0 + 2.0 + 8.0);

/// Watches a job from its middle on. At its end, counts are those of the report.
fn a_watched_job_is_counted_whole(settings: &[(&str, &str)]) {
    let mut job = Job::play(MANY_KINDS, settings);
    let folder = recorded(&job);
    let serve = Serve::start(&[&folder, "--span", "100ms", "--every", "100ms"]);
    let mut before = String::new();
    wait_for(&serve, "no call", |page| {
        has_not_fallen(&before, page);
        before = page.to_owned();
        sum(page, "ncclscope_calls_total") > 0.0
    });
    job.wait();
    let counted = report(&folder)["completeness"].clone();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let announced = number(&counted["announced"]);
    assert_eq!(announced, ANNOUNCED, "{settings:?}: {counted}");
    // Whoever watches sees calls before their files are removed, and counts them.
    let rotated = number(&counted["lost"]["rotated"]);
    let expected = number(&counted["recorded"]) + rotated;
    let page = wait_for(&serve, "not all", |page| {
        has_not_fallen(&before, page);
        before = page.to_owned();
        let calls = sum(page, "ncclscope_calls_total");
        assert!(calls <= announced, "{settings:?}: {calls} of {announced}");
        // What was in a file that was removed before it was read is known as a total.
        calls == expected && page.contains("ncclscope_job_state{state=\"ended\"} 1\n")
    });
    let timed = sum(&page, "ncclscope_gpu_seconds_count");
    // Stamps that turn out to be wrong later were counted, and so were calls of removed files.
    let exact = !settings.contains(&("NCCLSCOPE_TIMING", "stamps"));
    let reported = number(&counted["timed"]);
    assert!(
        timed == reported || (!exact && timed > reported),
        "{settings:?}: {timed}, {reported}"
    );
    let all = "le=\"+Inf\"";
    let buckets = page.lines().filter(|line| line.contains(all));
    let buckets = buckets.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert_eq!(buckets.sum::<f64>(), timed, "{settings:?}");
    for of_ranks in ["ncclscope_rank_calls_total", "ncclscope_calls_total"] {
        assert_eq!(sum(&page, of_ranks), expected, "{settings:?}: {of_ranks}");
    }
    assert_eq!(sum(&page, "ncclscope_rank_inflight_calls"), 0.0);
    let by_rank = sum(&page, "ncclscope_rank_gpu_seconds_total");
    let all = sum(&page, "ncclscope_gpu_seconds_sum");
    assert!((by_rank - all).abs() <= 1e-9 * all, "{by_rank} and {all}");
}

#[test]
fn a_job_that_is_watched_from_its_middle_on_is_counted_whole() {
    a_watched_job_is_counted_whole(&[("NCCLSCOPE_FLUSH", "0.05")]);
}

#[test]
fn a_job_with_stamps_is_counted_whole() {
    a_watched_job_is_counted_whole(&[("NCCLSCOPE_TIMING", "stamps")]);
}

#[test]
fn a_job_that_keeps_only_totals_is_counted_whole() {
    a_watched_job_is_counted_whole(&[
        ("NCCLSCOPE_MODE", "profile"),
        ("NCCLSCOPE_TIMING", "stamps"),
    ]);
}

#[test]
fn a_job_whose_files_are_removed_is_counted_whole() {
    a_watched_job_is_counted_whole(&[
        ("NCCLSCOPE_MAX_SIZE", "64KiB"),
        ("NCCLSCOPE_TIMING", "stamps"),
    ]);
}

#[test]
fn ranks_that_die_keep_their_counts() {
    let script = "ranks 2\nrepeat 40 { all_reduce 1MiB ; sleep 5ms }\nrank 1 kill\n\
        repeat 40 { all_reduce 1MiB ; sleep 5ms }\n";
    let job = Job::play(script, &[]);
    let folder = recorded(&job);
    let serve = Serve::start(&[&folder, "--every", "100ms"]);
    let died = "state=\"died\"} 1\n";
    let page = wait_for(&serve, "nobody died", |page| page.contains(died));
    let of_died = |page: &str| {
        let mut lines = page.lines();
        let line = lines.find(|line| line.starts_with("ncclscope_rank_calls_total{rank=\"1\""));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    assert_eq!(of_died(&page), Some(40.0), "{page}");
}

#[test]
fn a_folder_that_vanishes_is_said_and_takes_no_count_away() {
    let place = tempfile::tempdir().expect("a folder");
    let (here, away) = (place.path().join("capture"), place.path().join("away"));
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/ddp_late_host");
    let copied = Command::new("cp").arg("-r").arg(data).arg(&here).status();
    assert!(copied.expect("cp").success());
    let serve = Serve::start(&[&here.display().to_string(), "--every", "100ms"]);
    let readable = |page: &str| sum(page, "ncclscope_capture_readable");
    let (_, before) = serve.get("/metrics", "");
    assert_eq!(readable(&before), 1.0, "{before}");
    std::fs::rename(&here, &away).expect("moved");
    let page = wait_for(&serve, "still there", |page| readable(page) == 0.0);
    has_not_fallen(&before, &page);
    std::fs::rename(&away, &here).expect("moved");
    let page = wait_for(&serve, "not back", |page| readable(page) == 1.0);
    assert_eq!(counters(&before), counters(&page));
    // Now only one rank is away, as behind a file system that forgot it for a moment.
    std::fs::create_dir(&away).expect("made");
    for entry in std::fs::read_dir(here.join("vm")).expect("read").flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("r0-") {
            std::fs::rename(entry.path(), away.join(name)).expect("moved");
        }
    }
    let one = |page: &str| sum(page, "ncclscope_processes") == 1.0;
    let page = wait_for(&serve, "still there", one);
    for name in ["ncclscope_calls_total", "ncclscope_gpu_seconds_count"] {
        assert_eq!(sum(&page, name), sum(&before, name), "{name}");
    }
}

#[test]
fn dashboards_of_nccl_inspector_find_their_names() {
    let serve = Serve::start(&["ddp_late_host", "--names", "inspector", "--span", "1h"]);
    let (_, page) = serve.get("/metrics", "");
    is_well_formed(&page);
    let labels = "{version=\"v5.1\",slurm_job_id=\"unknown\",node=\"vm\",gpu=\"GPU1\",comm_name=";
    let own = |name: &str| {
        let mut lines = page.lines();
        let found = lines.find(|line| line.starts_with(&format!("{name}{labels}")));
        found
            .unwrap_or_else(|| panic!("{name} in {page}"))
            .to_owned()
    };
    for name in [
        "nccl_bus_bandwidth_gbs",
        "nccl_collective_exec_time_microseconds",
    ] {
        let line = own(name);
        let keys = [
            "n_nodes=",
            "nranks=",
            "collective=",
            "message_size=",
            "algo_proto=",
        ];
        let mut rest = line.as_str();
        for key in keys {
            let (_, after) = rest
                .split_once(key)
                .unwrap_or_else(|| panic!("{key} in {line}"));
            rest = after;
        }
        let value: f64 = line
            .rsplit(' ')
            .next()
            .expect("a value")
            .parse()
            .expect("a number");
        assert!(value > 0.0, "{line}");
    }
    assert!(!page.contains("ncclscope_"), "{page}");
}

#[test]
fn times_of_inspector_are_means_over_the_span() {
    let script = "ranks 2\nhosts 2\nall_reduce 4MiB algo=RING proto=SIMPLE time=2ms x3\n\
        all_reduce 4MiB algo=RING proto=SIMPLE time=4ms x1\n\
        group { send 2MiB to=+1 time=1ms ; recv 2MiB from=-1 time=1ms }\n";
    let mut job = Job::play(
        script,
        &[("NCCLSCOPE_TIMING", "stamps"), ("SLURM_JOB_ID", "42")],
    );
    job.wait();
    let folder = job.capture().display().to_string();
    let serve = Serve::start(&[&folder, "--names", "inspector"]);
    let (_, page) = serve.get("/metrics", "");
    let values = |name: &str, of: &str| -> Vec<f64> {
        let lines = page
            .lines()
            .filter(|line| line.starts_with(name) && line.contains(of));
        let lines = lines.filter(|line| line.contains("slurm_job_id=\"42\",node="));
        lines
            .map(|line| {
                line.rsplit(' ')
                    .next()
                    .expect("a value")
                    .parse()
                    .expect("a number")
            })
            .collect()
    };
    let of = "n_nodes=\"2\",nranks=\"2\",collective=\"AllReduce\",message_size=\"4-5MB\",\
        algo_proto=\"RING_SIMPLE\"";
    assert_eq!(
        values("nccl_collective_exec_time_microseconds", of),
        [2500.0],
        "{page}"
    );
    // 4 MiB in 2 ms are 2.097 GB/s, in 4 ms half of that; the factor of two ranks is 1.
    let geometric = 2.097_152 * 0.5f64.powf(0.25);
    for speed in values("nccl_bus_bandwidth_gbs", of) {
        assert!(
            (speed / geometric - 1.0).abs() < 1e-6,
            "{speed} for {geometric}"
        );
    }
}

/// A receiver of OTLP, which gives an answer to each request.
struct Collector {
    address: String,
    requests: std::sync::mpsc::Receiver<(String, Vec<u8>)>,
}

impl Collector {
    fn start(answer: impl Fn(usize) -> String + Send + 'static) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (send, requests) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let stream = stream.expect("a connection");
                let mut lines = BufReader::new(&stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if lines.read_line(&mut head).expect("a head") == 0 {
                        return;
                    }
                }
                let lower = head.to_ascii_lowercase();
                let length = lower.split("content-length: ").nth(1).expect("a length");
                let length: usize = length
                    .lines()
                    .next()
                    .expect("a line")
                    .parse()
                    .expect("a number");
                let mut body = vec![0; length];
                lines.read_exact(&mut body).expect("a body");
                let _ = (&stream).write_all(answer(n).as_bytes());
                if send.send((head, body)).is_err() {
                    return;
                }
            }
        });
        Collector { address, requests }
    }

    fn next(&self) -> (String, Vec<u8>) {
        self.requests.recv_timeout(PATIENCE).expect("a request")
    }
}

fn plain(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

#[test]
fn a_collector_gets_the_metrics_with_its_token_at_each_look() {
    let collector = Collector::start(|_| plain("200 OK"));
    let url = format!("http://{}", collector.address);
    let variables = [(
        "OTEL_EXPORTER_OTLP_HEADERS",
        "Authorization=Bearer%20secret",
    )];
    let _serve = Serve::start_with(
        &["slow_link", "--otlp", &url, "--every", "100ms"],
        &variables,
    );
    for _ in 0..2 {
        let (head, body) = collector.next();
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        let lower = head.to_ascii_lowercase();
        for field in [
            "content-type: application/x-protobuf\r\n",
            "content-encoding: gzip\r\n",
            "authorization: bearer secret\r\n",
        ] {
            assert!(lower.contains(field), "{field} in {head}");
        }
        let mut message = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&*body);
        reader.read_to_end(&mut message).expect("gzip");
        let text = String::from_utf8_lossy(&message);
        assert!(text.contains("ncclscope_gpu_seconds") && text.contains("service.name"));
    }
}

#[test]
fn a_collector_that_fails_stops_nothing() {
    let collector = Collector::start(|n| match n {
        0 => plain("503 Service Unavailable"),
        1 => "no answer at all".to_owned(),
        2 => "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx".to_owned(),
        3 => plain("302 Found\r\nLocation: http://127.0.0.1:1/"),
        _ => plain("200 OK"),
    });
    let url = format!("http://{}/otlp", collector.address);
    let serve = Serve::start(&["slow_link", "--otlp", &url, "--every", "100ms"]);
    for _ in 0..6 {
        let (head, _) = collector.next();
        assert!(head.starts_with("POST /otlp HTTP/1.1\r\n"), "{head}");
        assert_eq!(serve.get("/metrics", "").0, "200");
    }
}

#[test]
fn what_a_collector_refused_is_said() {
    let send = |status: &'static str| {
        let collector = Collector::start(move |_| plain(status));
        let url = format!("http://{}", collector.address);
        let done = ncclscope(&["serve", "slow_link", "--once", "--otlp", &url]).output();
        let done = done.expect("started");
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code(), text)
    };
    assert_eq!(send("200 OK").0, Some(0));
    let (status, text) = send("401 Unauthorized");
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{text}");
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
