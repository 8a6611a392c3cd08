//! The stories: what ncclscope does with a job, each on one screen.
//!
//! A story is a file in `stories/`: a script for fake-nccl, then commands with what they print.
//!
//! ```text
//! # What this story shows.
//! ranks 2
//! all_reduce 1MiB x3
//! --- fake-nccl play job
//! announced 6, ABI v5
//! --- ncclscope report capture | grep recorded
//!   6 of 6 announced calls recorded, 0 timed.
//! ```
//!
//! Commands run by `sh` in a folder of their own where the script is the file `job`, with the built plugin as
//! `NCCL_PROFILER_PLUGIN` (in the folder `$PLUGINS`) and `NCCLSCOPE_OUT=capture`. What they print on stderr
//! follows, each line after `2| `; a status other than 0 comes last, as `[exit 3]`. `NCCLSCOPE_GOLDEN=write`
//! (`make golden`) rewrites what is expected.
//!
//! GPU times are the simulated job's and exact. What differs from run to run is masked ([`Masks`]): host
//! name, process ids, random parts of names, addresses, dates, and all times of the host.
//!
//! Rule: a story's numbers are not only compared with what was printed once. A capture that is there at the
//! end, or before `rm -r capture`, must hold as many announced calls as fake-nccl counted on its side. Each
//! is recorded, or lost by a cause.

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder of stories")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "story"))
        .collect();
    files.sort();
    let tools = Tools::gather();
    let trial = |file: PathBuf| {
        let name = file.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        Trial::test(name, move || tell(&file, tools).map_err(Failed::from))
    };
    libtest_mimic::run(&arguments, files.into_iter().map(trial).collect()).exit_code()
}

/// The programs and the plugin under their own names.
#[derive(Clone, Copy)]
struct Tools {
    bin: &'static Path,
    plugins: &'static Path,
}

impl Tools {
    fn gather() -> Tools {
        let folder = tempfile::tempdir().expect("a folder").keep();
        let (bin, plugins) = (folder.join("bin"), folder.join("plugins"));
        fs::create_dir(&bin).expect("made");
        fs::create_dir(&plugins).expect("made");
        let program = PathBuf::from(env!("CARGO_BIN_EXE_ncclscope"));
        let built = program.parent().expect("target/PROFILE");
        let plugin = std::env::var_os("NCCLSCOPE_PLUGIN").map_or_else(
            || {
                let places =
                    ["", "deps"].map(|f| built.join(f).join("libnccl_profiler_ncclscope.so"));
                let found = places.into_iter().find(|p| p.is_file());
                found.unwrap_or_default()
            },
            PathBuf::from,
        );
        let fake = built.join("fake-nccl");
        let tuner = built.join("libnccl_tuner_ncclscope.so");
        let nvml = built.join("examples/libfake_nvml.so");
        let log = built.join("examples/liblog_plugin.so");
        for needed in [&plugin, &fake, &tuner, &nvml, &log] {
            assert!(
                needed.is_file(),
                "expected the plugins, fake-nccl and examples in {}, found no {needed:?}; `make tests-built` \
                 builds them",
                built.display()
            );
        }
        let link = |from: &Path, to: PathBuf| std::os::unix::fs::symlink(from, to).expect("linked");
        link(&program, bin.join("ncclscope"));
        link(&fake, bin.join("fake-nccl"));
        link(&nvml, plugins.join("libfake_nvml.so"));
        link(&log, plugins.join("liblog_plugin.so"));
        // The machine may have GPUs, and a file that is no library hides its NVML.
        fs::create_dir(plugins.join("no-gpus")).expect("made");
        fs::write(plugins.join("no-gpus/libnvidia-ml.so.1"), "").expect("written");
        // A copy: dlopen knows libraries by file, and the default name must be a library of its own.
        for name in ["libnccl-profiler-ncclscope.so", "libnccl-profiler.so"] {
            fs::copy(&plugin, plugins.join(name)).expect("copied");
        }
        // They serve every story, so they live as long as this process.
        Tools {
            bin: Box::leak(bin.into_boxed_path()),
            plugins: Box::leak(plugins.into_boxed_path()),
        }
    }
}

/// Plays one story; the error is how it differs.
fn tell(file: &Path, tools: Tools) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|e| e.to_string())?;
    let mut parts = text.split("\n--- ");
    let script = parts.next().unwrap_or_default();
    let place = StoryFolder::new(script, tools);
    let masks = Masks::new();
    let mut told = script.to_owned();
    let mut announced = Some(0);
    for part in parts {
        let command = part.lines().next().unwrap_or_default();
        if command.starts_with("rm -r capture") {
            place.check(announced)?;
            announced = Some(0);
        }
        let printed = place.run(command);
        for line in printed.lines() {
            if let Some(line) = announcement(line) {
                announced = announced.zip(line).map(|(a, b)| a + b);
            }
        }
        told += &format!("\n--- {command}\n{}", masks.apply(&printed).trim_end());
    }
    told.push('\n');
    place.check(announced)?;
    if told == text {
        return Ok(());
    }
    if std::env::var("NCCLSCOPE_GOLDEN").is_ok_and(|v| v == "write") {
        return fs::write(file, told).map_err(|e| e.to_string());
    }
    Err(difference(&text, &told))
}

/// What fake-nccl counted, if this is its line; nothing in it when a process crashed before it could say.
fn announcement(line: &str) -> Option<Option<u64>> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line["schema"] != "fake-nccl.announced/1" {
        return None;
    }
    let crashed = line["processes"]
        .as_array()?
        .iter()
        .any(|p| p["announced"].is_null());
    Some(line["announced"].as_u64().filter(|_| !crashed))
}

/// A story's folder.
struct StoryFolder {
    folder: tempfile::TempDir,
    tools: Tools,
}

impl StoryFolder {
    fn new(script: &str, tools: Tools) -> StoryFolder {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("job"), script).expect("written");
        // The recorded jobs.
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
        std::os::unix::fs::symlink(data, folder.path().join("data")).expect("linked");
        StoryFolder { folder, tools }
    }

    /// What a command prints.
    fn run(&self, command: &str) -> String {
        let path = std::env::var("PATH").expect("set");
        let plugin = self.tools.plugins.join("libnccl-profiler-ncclscope.so");
        let output = Command::new("timeout")
            .args(["-k", "1", "60", "sh", "-c", command])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.tools.bin.display()))
            .env("LC_ALL", "C")
            .env("LD_LIBRARY_PATH", self.tools.plugins.join("no-gpus"))
            .env("PLUGINS", self.tools.plugins)
            .env("NCCL_PROFILER_PLUGIN", &plugin)
            .env("NCCLSCOPE_PLUGIN", &plugin)
            .env("NCCLSCOPE_OUT", "capture")
            // Any value does; this one is found again in what is left behind.
            .env("NCCLSCOPE_QUIET", self.folder.path())
            .output()
            .expect("started");
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if command.contains("jq ") {
            printed = whole_numbers(&printed);
        }
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            printed += &format!("2| {line}\n");
        }
        match output.status.code() {
            Some(0) => {}
            Some(124) => printed += "[still running after a minute]\n",
            Some(code) => printed += &format!("[exit {code}]\n"),
            None => printed += &format!("[{}]\n", output.status),
        }
        printed
    }

    /// Holds the capture, if there is one, against what fake-nccl counted, if it could.
    fn check(&self, announced: Option<u64>) -> Result<(), String> {
        let capture = tables::Capture::open(&self.folder.path().join("capture"));
        let (Ok(capture), Some(announced)) = (capture, announced) else {
            return Ok(());
        };
        let c = analyze::report(&capture).completeness;
        let lost: u64 = c.lost.values().sum();
        if c.announced == announced && c.recorded + lost == announced && c.adds_up {
            return Ok(());
        }
        Err(format!(
            "fake-nccl announced {announced} calls, the capture says {c:#?}"
        ))
    }
}

impl Drop for StoryFolder {
    /// Takes away the live parts that killed jobs, and jobs that could write no capture, leave on this
    /// machine.
    fn drop(&mut self) {
        let folder = format!("/dev/shm/ncclscope-{}", nix::unistd::geteuid());
        let mark = format!("NCCLSCOPE_QUIET={}\n", self.folder.path().display());
        for live in fs::read_dir(folder).into_iter().flatten().flatten() {
            // A process's facts stand in the first page. The rest is mostly room for growth.
            let mut head = Vec::new();
            let file = fs::File::open(live.path());
            let _ = file.and_then(|file| file.take(4096).read_to_end(&mut head));
            if head.windows(mark.len()).any(|w| w == mark.as_bytes()) {
                let _ = fs::remove_file(live.path());
            }
        }
    }
}

/// JSON with `2` for `2.0`: jq writes numbers as it read them since release 1.7, and shortened them before.
fn whole_numbers(printed: &str) -> String {
    let mut out = String::new();
    let mut pieces = printed.split(".0").peekable();
    while let Some(piece) = pieces.next() {
        out += piece;
        let Some(after) = pieces.peek() else {
            break;
        };
        let is_end = after.is_empty() || after.starts_with([',', ']', '}', '\n']);
        if !is_end || !out.ends_with(|c: char| c.is_ascii_digit()) {
            out += ".0";
        }
    }
    out
}

/// Replaces what differs from run to run.
struct Masks {
    host: String,
    /// Where the programs were built, in any folder of any machine.
    built: String,
}

impl Masks {
    fn new() -> Masks {
        let host = nix::unistd::gethostname().expect("a name");
        let program = Path::new(env!("CARGO_BIN_EXE_ncclscope"));
        let built = program.parent().expect("target/PROFILE");
        Masks {
            host: host.to_string_lossy().into_owned(),
            built: built.to_string_lossy().into_owned(),
        }
    }

    fn apply(&self, printed: &str) -> String {
        let lines: Vec<String> = printed.lines().map(|line| self.line(line)).collect();
        let mut out = String::new();
        let mut rest = lines.as_slice();
        while let Some((line, after)) = rest.split_first() {
            rest = after;
            // The end of a sentence that is masked.
            if line.starts_with("apart: they are in NCCL for no longer.") {
                continue;
            }
            out += line;
            out.push('\n');
            if line.starts_with("The run (") {
                let more = rest.iter().take_while(|l| l.ends_with(')')).count();
                rest[..more]
                    .iter()
                    .for_each(|line| out += &format!("{line}\n"));
                rest = &rest[more..];
                let rows = rest.iter().take_while(|l| !l.is_empty()).count();
                for row in &rest[..rows] {
                    let words: Vec<&str> = row.split_whitespace().collect();
                    out += &match words.first() {
                        Some(figure @ (&"wall" | &"step")) => format!("  {figure} <time>\n"),
                        _ => format!("  {}\n", words.join(" ")),
                    };
                }
                rest = &rest[rows..];
                continue;
            }
            if line.starts_with("  time     ") {
                let more = rest.iter().take_while(|l| l.starts_with("           "));
                rest = &rest[more.count()..];
            }
            let Some(table) = HOST_TIMES.iter().find(|t| line.starts_with(t.title)) else {
                continue;
            };
            let title_ends = out.trim_end().rfind('\n').map_or(0, |at| at + 1);
            let title = table.title_of(&out[title_ends..]);
            out.replace_range(title_ends.., &title);
            // The rest of a long title.
            let more = rest
                .iter()
                .take_while(|l| l.starts_with("  ") && l.ends_with(')'));
            for line in &rest[..more.count().min(1)] {
                out += &table.title_of(&format!("{line}\n"));
                rest = &rest[1..];
            }
            let rows = rest.iter().take_while(|l| !l.is_empty());
            let rows: Vec<&str> = rows.map(String::as_str).collect();
            rest = &rest[rows.len()..];
            out += &table.mask(&rows);
        }
        out
    }

    fn line(&self, line: &str) -> String {
        if let Some(announced) = announcement(line) {
            let line: Value = serde_json::from_str(line).expect("just read");
            let announced = announced.map_or("a crash".to_owned(), |n| n.to_string());
            let abi = match line["abi"].as_u64() {
                Some(abi) => format!("ABI v{abi}"),
                None => format!(
                    "no plugin: {}",
                    line["no_plugin"].as_str().unwrap_or_default()
                ),
            };
            return format!("announced {announced}, {abi}");
        }
        if line.contains("% of the host time in NCCL") {
            return "<function> of <size> took <n> % of the host time in NCCL: <s> over ranks in <n> calls."
                .to_owned();
        }
        if line.starts_with("  Recording cost this job: callbacks ") {
            return "  Recording cost this job: callbacks <n> % (estimated).".to_owned();
        }
        if line.starts_with("The run went from ") || line.starts_with("The run took as long ") {
            return "The run took <time> and <time>.".to_owned();
        }
        if line.starts_with("  time     ") {
            return "  time     <time>".to_owned();
        }
        let mut masked = without_gpus(line).to_owned();
        for (before, what, mask) in [
            (&*self.built, Run::Whole, "<folder>"),
            (&*self.host, Run::Whole, "<host>"),
            ("pid ", Run::Digits, "<pid>"),
            ("\"pid\": ", Run::Digits, "<pid>"),
            ("\"pid\":", Run::Digits, "<pid>"),
            ("\"t_ns\":", Run::Digits, "<ns>"),
            ("\"ticks\":", Run::Digits, "<ticks>"),
            ("-p", Run::PidAndSuffix, "<pid>-<id>"),
            ("\"0x", Run::Hex, "<address>"),
            ("ncclscope-0/", Run::Hex, "<id>"),
            ("20", Run::Date, "<date>"),
            ("20", Run::Moment, "<date>"),
            ("/tmp/", Run::Path, "<folder>"),
        ] {
            masked = replace(&masked, before, what, mask);
        }
        // A share of the wall.
        if let Some((before, rest)) = masked.split_once(" % of the time (median") {
            if let Some((before, share)) = before.rsplit_once(' ') {
                if share.parse::<f64>().is_ok() {
                    masked = format!("{before} <n> % of the time (median{rest}");
                }
            }
        }
        // A bound by the wall, of which it hangs whether that matters.
        for begins in [
            "Communication is no problem: GPUs stand still for it ",
            "GPUs stand still in communication ",
        ] {
            if let Some((before, after)) = masked.split_once(begins) {
                if after.contains(" % of the time at most, first calls") {
                    masked = format!(
                        "{before}GPUs stand still in communication for <n> % of the time at most …"
                    );
                }
            }
        }
        // Calls by the wall.
        if line.starts_with("  On average, a rank makes ") {
            let words = masked.split(' ');
            let words = words.map(|word| word.parse::<f64>().map_or(word, |_| "<n>"));
            masked = words.collect::<Vec<_>>().join(" ");
        }
        // What of the wall a finding costs.
        if let Some((before, after)) = masked.split_once(" costs this job ") {
            if let Some((_, why)) = after.split_once(':') {
                masked = format!("{before} costs this job <time> of <time>:{why}");
            }
        }
        masked
    }
}

/// The line of a job's software without what the kernel says of this machine's GPUs: `; 2 x NVIDIA H200`.
fn without_gpus(line: &str) -> &str {
    let is_of_software = line.trim_start().starts_with("software ");
    let gpus = line.find(" x NVIDIA ").filter(|_| is_of_software);
    let before = gpus.and_then(|at| line[..at].rfind("; "));
    before.map_or(line, |at| &line[..at])
}

/// What follows a word and is masked.
#[derive(Clone, Copy)]
enum Run {
    /// The word itself.
    Whole,
    Digits,
    /// Of at least 5 digits.
    Hex,
    /// `123-0a1b2c3d`.
    PidAndSuffix,
    /// The rest of `2025-01-31T12:34:56.789Z`.
    Date,
    /// The rest of `2025-01-31 12:34:56 UTC`, or with decimals, or with `+01:00`.
    Moment,
    /// `.tmpAbCdEf` and folders in it, up to the last slash.
    Path,
}

impl Run {
    /// How long it is at the beginning of `text`; 0 when it isn't there.
    fn len(self, text: &str) -> usize {
        let span = |is: fn(char) -> bool| text.find(|c| !is(c)).unwrap_or(text.len());
        match self {
            Run::Whole => 0,
            Run::Digits => span(|c| c.is_ascii_digit()),
            Run::Hex => Some(span(|c| c.is_ascii_hexdigit()))
                .filter(|n| *n >= 5)
                .unwrap_or(0),
            Run::PidAndSuffix => {
                let digits = span(|c| c.is_ascii_digit());
                let suffix = text[digits..].strip_prefix('-').unwrap_or_default();
                let hex = suffix.chars().take_while(|c| c.is_ascii_hexdigit()).count();
                if digits > 0 && hex == 8 {
                    digits + 1 + hex
                } else {
                    0
                }
            }
            Run::Date => {
                let len = span(|c| c.is_ascii_digit() || "-T:.Z+".contains(c));
                if text[..len].contains('T') && len > 15 {
                    text[..len].trim_end_matches('.').len()
                } else {
                    0
                }
            }
            Run::Moment => {
                let mut words = text.splitn(3, ' ');
                let shaped = |word: Option<&str>, shape: &str| {
                    let word = word.unwrap_or_default();
                    let digit = |c: char| if c.is_ascii_digit() { '0' } else { c };
                    word.chars().map(digit).eq(shape.chars())
                };
                let (day, clock) = (words.next(), words.next().unwrap_or_default());
                let whole = clock.split('.').next();
                if shaped(day, "00-00-00") && shaped(whole, "00:00:00") {
                    let zone = words.next().unwrap_or_default();
                    let is = |c: char| c.is_ascii_alphanumeric() || "+-".contains(c);
                    let len = zone.find(|c| !is(c)).unwrap_or(zone.len());
                    "00-00-00 ".len() + clock.len() + 1 + len
                } else {
                    0
                }
            }
            Run::Path => {
                let len = span(|c| !c.is_whitespace() && !"`'\",;:".contains(c));
                text[..len].rfind('/').unwrap_or(0)
            }
        }
    }
}

fn replace(text: &str, before: &str, what: Run, mask: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(before) {
        let after = &rest[at + before.len()..];
        let len = what.len(after);
        out += &rest[..at];
        match what {
            Run::Whole => out += mask,
            // The word is a part of what is masked.
            Run::Date | Run::Moment | Run::Path if len > 0 => out += mask,
            _ if len > 0 => {
                out += before;
                out += mask;
            }
            _ => out += before,
        }
        rest = &after[len..];
    }
    out + rest
}

/// A table with times of the host.
struct HostTimes {
    /// How its title begins.
    title: &'static str,
    /// Columns that are such times.
    columns: &'static [&'static str],
    /// What in the title has a unit that is chosen by such times.
    units: &'static [&'static str],
    /// The column of GPU times by which rows are ordered. Rows with equal GPU times are in order of host
    /// times, so they are sorted here.
    gpu: Option<&'static str>,
}

const HOST_TIMES: [HostTimes; 8] = [
    HostTimes {
        title: "Ranks (times in ",
        columns: &["nccl_%", "costs"],
        units: &[],
        gpu: None,
    },
    HostTimes {
        title: "Ranks (in API calls, times in ",
        columns: &["nccl", "nccl_%"],
        units: &["times"],
        gpu: None,
    },
    HostTimes {
        title: "Ranks (over ",
        columns: &["min", "median", "max"],
        units: &["times"],
        gpu: None,
    },
    HostTimes {
        title: "Functions (",
        columns: &["calls_per_s", "host"],
        units: &["host"],
        gpu: Some("gpu"),
    },
    HostTimes {
        title: "Parts of a call (",
        columns: &["api", "enqueue", "enqueue_%", "launch", "launch_%", "proxy"],
        units: &[],
        gpu: None,
    },
    HostTimes {
        title: "Operations by host time (",
        columns: &["sum", "mean", "min", "p50", "p95", "p99", "max"],
        units: &["sum", "mean to max"],
        // It has none.
        gpu: Some(""),
    },
    HostTimes {
        title: "Warm-up: ",
        columns: &["host_min", "host_p50", "host_max"],
        units: &["host"],
        gpu: Some("gpu_max"),
    },
    HostTimes {
        title: "Network (",
        columns: &[
            "send_gpu",
            "send_peer",
            "send_network",
            "recv_network",
            "recv_flush",
            "recv_gpu",
        ],
        units: &["waits"],
        gpu: None,
    },
];

/// Columns that are aligned left.
const LEFT: [&str; 8] = [
    "function",
    "host",
    "communicator",
    "comm",
    "type",
    "algorithm",
    "figure",
    "clock",
];

/// The line with `1 MiB` as one word, `1~MiB`.
fn joined(line: &str) -> String {
    let mut out = line.to_owned();
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        for end in [" ", "\n"] {
            out = format!("{out}\n").replace(&format!(" {unit}{end}"), &format!("~{unit}{end}"));
            out.truncate(out.trim_end_matches('\n').len());
        }
    }
    out
}

impl HostTimes {
    /// The title, without units that are chosen by host times.
    fn title_of(&self, title: &str) -> String {
        let mut out = title.to_owned();
        for before in self.units {
            for unit in ["µs", "ms", "s"] {
                for end in [";", ",", " ", ")", "\n"] {
                    let with = format!("{before} in {unit}{end}");
                    out = out.replace(&with, &format!("{before} in <unit>{end}"));
                }
            }
        }
        out
    }

    /// The table with these columns masked and laid out anew.
    fn mask(&self, lines: &[&str]) -> String {
        let names: Vec<&str> = lines
            .first()
            .map_or(vec![], |l| l.split_whitespace().collect());
        let lines: Vec<String> = lines.iter().map(|line| joined(line)).collect();
        // Sentences under the table, and the line that counts what is left out, stay.
        let is_row =
            |line: &&String| line.split_whitespace().count() == names.len() && !line.contains('…');
        let mut rows: Vec<Vec<&str>> = Vec::new();
        for line in lines.iter().filter(|l| is_row(l)) {
            let mut cells: Vec<&str> = line.split_whitespace().collect();
            let counts = cells[0] == "calls";
            for (column, cell) in cells.iter_mut().enumerate() {
                let host = self.columns.contains(&names[column]) && !counts;
                if host && !rows.is_empty() && *cell != "-" {
                    *cell = "·";
                }
            }
            rows.push(cells);
        }
        if let Some(gpu) = self.gpu {
            let column = names.iter().position(|name| *name == gpu);
            let same = |a: &Vec<&str>, b: &Vec<&str>| column.is_none_or(|c| a[c] == b[c]);
            let total = |row: &Vec<&str>| ["collective", "p2p", "all"].contains(&row[0]);
            let end = rows.iter().position(total).unwrap_or(rows.len());
            for group in rows[1.min(end)..end].chunk_by_mut(same) {
                group.sort();
            }
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..names.len()).map(|c| width(c).unwrap_or(0)).collect();
        let mut rows = rows.into_iter();
        let mut out = String::new();
        for line in &lines {
            let Some(row) = Some(line).filter(|l| is_row(l)).and_then(|_| rows.next()) else {
                out += &format!("{line}\n");
                continue;
            };
            let mut laid = " ".to_owned();
            for ((cell, width), name) in row.iter().zip(&widths).zip(&names) {
                let cell = cell.replace('~', " ");
                laid += &if LEFT.contains(name) {
                    format!(" {cell:<width$}")
                } else {
                    format!(" {cell:>width$}")
                };
            }
            out += laid.trim_end();
            out.push('\n');
        }
        out
    }
}

/// Both texts from the first line that differs.
fn difference(expected: &str, found: &str) -> String {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let pairs = expected.iter().zip(&found);
    let same = pairs.take_while(|(a, b)| a == b).count();
    let pairs = expected[same..]
        .iter()
        .rev()
        .zip(found[same..].iter().rev());
    let after = pairs.take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(3);
    let show = |lines: &[&str]| {
        let until = (lines.len() - after).min(from + 25);
        let lines = lines.iter().enumerate().take(until).skip(from);
        lines
            .map(|(n, l)| format!("{:>4} {l}\n", n + 1))
            .collect::<String>()
    };
    format!(
        "expected, from line {}:\n{}found:\n{}NCCLSCOPE_GOLDEN=write takes what was found; read the diff \
        like code",
        same + 1,
        show(&expected),
        show(&found)
    )
}
