//! Finds files of other tools, says what they are, and opens them, packed or not.

use crate::json::{Json, Kind as Token};
use crate::writer::{host_facts, Process};
use crate::{flight, inspector, kineto, nccl_tests, nsys, pickle, ras};
use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// Bytes of a file that say what it is.
const LOOKED_AT: u64 = 16 << 20;

/// The same of a text.
const TEXT_LOOKED_AT: u64 = 1 << 20;

/// What another tool wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A trace of torch.profiler.
    Kineto,
    /// A dump of PyTorch's flight recorder.
    FlightRecorder,
    /// A file of NCCL Inspector.
    Inspector,
    /// What nccl-tests or `ncclscope bench` printed.
    NcclTests,
    /// An SQLite export of Nsight Systems.
    Nsys,
    /// An answer of NCCL's RAS.
    Ras,
}

impl Kind {
    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Kineto => "a trace of torch.profiler",
            Kind::FlightRecorder => "a dump of PyTorch's flight recorder",
            Kind::Inspector => "a file of NCCL Inspector",
            Kind::NcclTests => "a table of nccl-tests",
            Kind::Nsys => "an SQLite export of Nsight Systems",
            Kind::Ras => "an answer of NCCL's RAS",
        }
    }

    /// What to do if such a file has nothing of use.
    pub fn hint(self) -> &'static str {
        match self {
            Kind::Kineto => {
                "profile with ProfilerActivity.CPU and ProfilerActivity.CUDA while the job trains, and give \
                the folder with the traces of all ranks"
            }
            Kind::FlightRecorder => {
                "set TORCH_FR_BUFFER_SIZE=2000 before the job, and give the folder with the dumps of all \
                ranks"
            }
            Kind::Inspector => {
                "set NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500 and NCCL_INSPECTOR_DUMP_VERBOSE=1 \
                before the job, and give the folder with the files of all processes"
            }
            Kind::NcclTests => "give what one of its programs printed, from its first line to its last",
            Kind::Nsys => {
                "profile with `nsys profile --trace=cuda,nvtx`, and export with `nsys export --type sqlite`; \
                give the folder with the exports of all ranks"
            }
            Kind::Ras => "ask with `ncclras -f json` (NCCL 2.28.7) or `ncclras -v` while the job runs",
        }
    }
}

/// A file of another tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
}

/// Opens a file, unpacked if it is packed by gzip.
///
/// # Errors
/// If it can't be read.
pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no regular file",
        ));
    }
    let mut magic = [0; 2];
    let packed = file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    file.rewind()?;
    Ok(if packed {
        Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file)))
    } else {
        Box::new(file)
    })
}

/// The files at a path by name: itself, or those in a folder.
pub fn files(path: &Path, most: usize) -> Vec<File> {
    let mut paths = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().take(most);
        paths = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.sort();
    }
    let kind = |path: PathBuf| kind(&path).map(|kind| File { path, kind });
    paths.into_iter().filter_map(kind).collect()
}

/// Files of a folder that have no content of a tool, and names like those that have: they differ in numbers
/// alone, as the files of ranks do.
pub fn left_out(path: &Path, most: usize, files: &[File]) -> Vec<PathBuf> {
    let pattern = |path: &Path| -> Option<String> {
        let name = path.file_name()?.to_str()?;
        let mut pattern = String::new();
        for c in name.chars() {
            match c.is_ascii_digit() {
                true if pattern.ends_with('0') => {}
                true => pattern.push('0'),
                false => pattern.push(c),
            }
        }
        pattern.contains('0').then_some(pattern)
    };
    let known: HashSet<String> = files
        .iter()
        .filter_map(|file| pattern(&file.path))
        .collect();
    let there: HashSet<&Path> = files.iter().map(|file| file.path.as_path()).collect();
    let entries = std::fs::read_dir(path).into_iter().flatten().take(most);
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_like = |path: &PathBuf| {
        !there.contains(path.as_path())
            && path.is_file()
            && pattern(path).is_some_and(|pattern| known.contains(&pattern))
    };
    let mut found: Vec<PathBuf> = paths.filter(is_like).collect();
    found.sort();
    found
}

/// What a file is; `None` if it is of no tool that is known.
pub fn kind(path: &Path) -> Option<Kind> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut beginning = Vec::new();
    open(path).ok()?.take(16).read_to_end(&mut beginning).ok()?;
    if beginning == nsys::MAGIC {
        return Some(Kind::Nsys);
    }
    if pickle::is_pickle(&beginning) {
        return Some(Kind::FlightRecorder);
    }
    let mut json = Json::new(open(path).ok()?.take(LOOKED_AT));
    let (mut first, mut key) = (true, String::new());
    match json.kind().ok()? {
        Token::Object => {}
        // `[1,0]<stdout>:` or `[node-1:0] ` of a launcher before a line of text begins so, too.
        Token::Array => return list(&mut json).or_else(|| text(path)),
        _ => return text(path),
    }
    json.enter().ok()?;
    while json.key(&mut first, &mut key).ok()? {
        if kineto::is_key(&key) {
            return Some(Kind::Kineto);
        }
        if flight::is_key(&key) {
            return Some(Kind::FlightRecorder);
        }
        if inspector::is_key(&key) {
            return Some(Kind::Inspector);
        }
        if nccl_tests::is_key(&key) {
            return Some(Kind::NcclTests);
        }
        if ras::is_key(&key) {
            return Some(Kind::Ras);
        }
        json.skip().ok()?;
    }
    None
}

/// What a text is.
fn text(path: &Path) -> Option<Kind> {
    let mut bytes = Vec::new();
    open(path)
        .ok()?
        .take(TEXT_LOOKED_AT)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8_lossy(&bytes);
    match () {
        () if ras::is_text(&text) => Some(Kind::Ras),
        () if nccl_tests::is_text(&text) => Some(Kind::NcclTests),
        () => None,
    }
}

/// What a list is, by its first element.
fn list<R: Read>(json: &mut Json<R>) -> Option<Kind> {
    let (mut first, mut key) = (true, String::new());
    json.enter().ok()?;
    json.element(&mut first).ok()?;
    if json.kind().ok()? != Token::Object {
        return None;
    }
    let mut first = true;
    json.enter().ok()?;
    while json.key(&mut first, &mut key).ok()? {
        match key.as_str() {
            // One of Chrome's events.
            "ph" => return Some(Kind::Kineto),
            key if inspector::is_key(key) => return Some(Kind::Inspector),
            _ => json.skip().ok()?,
        }
    }
    None
}

/// Which processes ran on one host.
///
/// If a file does not say its host, its rank and its GPU do: launchers number ranks along the GPUs of a host,
/// so rank 9 on GPU 1 is on the host of rank 8 on GPU 0. Two that have the same number and GPU are on two.
#[derive(Debug, Default)]
pub struct Hosts {
    by_process: Vec<Host>,
}

/// Which host a process ran on.
#[derive(Debug)]
enum Host {
    /// A file says it.
    Named(String),
    /// The one of this rank, by its rank and its GPU.
    OfRank(u32),
    /// Nobody knows.
    Unknown,
}

impl Hosts {
    /// Notes what a process knows, and completes its facts.
    pub fn add(
        &mut self,
        file: &Path,
        process: &mut Process,
        rank: Option<u32>,
        host: Option<String>,
        devices: &[u32],
    ) {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let (named_host, named_pid, mut named_rank) = said_by(name.as_deref().unwrap_or(""));
        if process
            .facts
            .iter()
            .any(|fact| *fact == ("mode", "flight-recorder".to_owned()))
        {
            // `_dump_3`: PyTorch appends the rank to what the user says.
            named_rank = named_rank.or_else(|| name.as_deref().and_then(last_number));
        }
        let rank = rank.or(named_rank);
        let has = |facts: &[(&str, String)], key| facts.iter().any(|(known, _)| *known == key);
        for (key, value) in [("rank", rank), ("pid", named_pid)] {
            if let Some(value) = value.filter(|_| !has(&process.facts, key)) {
                process.facts.push((key, value.to_string()));
            }
        }
        let by_rank = || match (rank, devices) {
            (Some(rank), [device]) => rank.checked_sub(*device),
            _ => None,
        };
        let named = host.or(named_host).map(Host::Named);
        let guessed = || by_rank().map(Host::OfRank);
        let host = named.or_else(guessed).unwrap_or(Host::Unknown);
        self.by_process.push(host);
    }

    /// Tells all processes their hosts, in the order in which they came.
    pub fn name<'a>(&self, processes: impl Iterator<Item = &'a mut Process>) {
        let mut unknown = 0;
        // How many processes of this rank seem to be on the host of that one.
        let mut taken: HashMap<(u32, String), u32> = HashMap::new();
        for (process, host) in processes.zip(&self.by_process) {
            let facts = match host {
                Host::Named(host) => host_facts(Some(host.clone()), ""),
                Host::OfRank(first) => {
                    let rank = process.fact("rank").unwrap_or_default().to_owned();
                    let n = taken.entry((*first, rank)).or_insert(0);
                    *n += 1;
                    let more = match *n {
                        1 => String::new(),
                        n => format!(" ({n})"),
                    };
                    host_facts(Some(format!("host of rank {first}{more}")), "")
                }
                Host::Unknown => {
                    unknown += 1;
                    host_facts(None, &format!(" {unknown}"))
                }
            };
            process.facts.extend(facts);
        }
    }
}

/// Host, pid and rank, as far as the name of a file says them: `HOST_PID.TIME.pt.trace.json` of
/// `tensorboard_trace_handler`, `rank3.json`, `trace-rank-3.json.gz`.
fn said_by(name: &str) -> (Option<String>, Option<u32>, Option<u32>) {
    let lower = name.to_ascii_lowercase();
    let rank = lower.find("rank").and_then(|at| {
        let rest = lower[at + 4..].trim_start_matches(['-', '_', '.', '=']);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok()
    });
    let worker = name.split_once(".pt.trace.json").and_then(|(stem, _)| {
        let (worker, time) = stem.rsplit_once('.')?;
        let (host, pid) = worker.rsplit_once('_')?;
        let is_time = time.len() > 9 && time.bytes().all(|b| b.is_ascii_digit());
        Some((host.to_owned(), pid.parse().ok()?)).filter(|_| is_time)
    });
    match worker {
        // `worker_rank_0.TIME.pt.trace.json` ends in the rank, and has no pid.
        Some((host, _)) if host.to_ascii_lowercase().ends_with("rank") => (None, None, rank),
        Some((host, pid)) => (Some(host), Some(pid), rank),
        None => (None, None, rank),
    }
}

/// The number at the end of a name, before what stands for its format.
fn last_number(name: &str) -> Option<u32> {
    let stem = name.split('.').next().unwrap_or(name);
    let digits = stem.bytes().rev().take_while(u8::is_ascii_digit).count();
    stem[stem.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_who_wrote_them() {
        assert_eq!(
            said_by("node_a_4711.1712195495520871123.pt.trace.json.gz"),
            (Some("node_a".to_owned()), Some(4711), None)
        );
        assert_eq!(said_by("trace-rank-12.json"), (None, None, Some(12)));
        assert_eq!(
            said_by("rank_3.Jul_15.1074.pt.trace.json"),
            (None, None, Some(3))
        );
        assert_eq!(
            said_by("graph_capture_rank_3.1773709742341309550.pt.trace.json.gz"),
            (None, None, Some(3))
        );
        assert_eq!(said_by("trace.json"), (None, None, None));
    }

    #[test]
    fn ranks_and_gpus_say_which_processes_share_a_host() {
        let mut hosts = Hosts::default();
        let mut processes: Vec<Process> = (0..5).map(|_| Process::default()).collect();
        let all = [
            (Some(0), 0),
            (Some(1), 1),
            (Some(9), 1),
            (Some(1), 0),
            (None, 0),
        ];
        for (process, (rank, device)) in processes.iter_mut().zip(all) {
            hosts.add(Path::new("trace.json"), process, rank, None, &[device]);
        }
        hosts.name(processes.iter_mut());
        let host = |process: &Process| process.facts.last().expect("its host").1.clone();
        let hosts: Vec<String> = processes.iter().map(host).collect();
        assert_eq!(
            hosts,
            [
                "host of rank 0",
                "host of rank 0",
                "host of rank 8",
                "host of rank 1",
                "unknown host 1"
            ]
        );
    }
}
