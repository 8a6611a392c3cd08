//! What nccl-tests (or `ncclscope bench`) printed, text or JSON: the mean time of a call, for each size.
//!
//! ```text
//! Using devices   rank, group, pid, host, GPU     a process for each pid, a communicator for each group
//! rows            function, size, time            a call on each rank for each side that was timed
//! ```
//!
//! [`bench::nccl_tests`] reads the file. A row stands for many calls, and only their mean is known, so it is
//! one call here. Calls have a length and no place in time.
//!
//! Rule: ranks are those that communicated with each other. Programs that did not know of each other have
//! communicators of their own. Which of them printed a row is not known, so they take turns.

use crate::found::{ByFile, Damage, OfJob};
use crate::json::Fault;
use crate::torch;
use crate::writer::{host_facts, Call, Communicator, Process};
use bench::table::{Device, Table, TableRow};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a file that are read.
const MOST_BYTES: u64 = 1 << 26;
/// Calls of all ranks of all files.
const MOST_CALLS: usize = 1 << 22;

/// Whether a key at the top of a JSON object is of such a file.
pub fn is_key(key: &str) -> bool {
    matches!(key, "out_of_bounds" | "average_bus_bandwidth")
}

/// Whether a text is such a file.
pub fn is_text(text: &str) -> bool {
    let head = [
        "Collective test starting:",
        "# nccl-tests version",
        "# Avg bus bandwidth",
    ];
    text.lines().any(|line| {
        head.iter().any(|words| line.contains(words))
            || line.contains("algbw") && line.contains("busbw")
    })
}

/// Reads the tables of a job.
#[derive(Debug, Default)]
pub struct Reader {
    processes: ByFile<Process>,
    problems: ByFile<Damage>,
    calls: usize,
}

impl OfJob for Reader {
    fn read(&mut self, file: &Path, input: Box<dyn Read + '_>) -> Result<Vec<Damage>, Fault> {
        let mut bytes = Vec::new();
        let mut input = input.take(MOST_BYTES);
        input.read_to_end(&mut bytes).map_err(Fault::Io)?;
        let table = bench::nccl_tests::read(&String::from_utf8_lossy(&bytes)).map_err(|error| {
            let text = format!("{error:#}");
            Fault::Io(io::Error::new(io::ErrorKind::InvalidData, text))
        })?;
        self.take(file, &table);
        Ok(Vec::new())
    }

    fn finish(self: Box<Self>) -> (ByFile<Process>, ByFile<Damage>) {
        (self.processes, self.problems)
    }
}

impl Reader {
    fn take(&mut self, file: &Path, table: &Table) {
        let mut problem = |expected: &str, found: String| {
            let damage = ("its figures".to_owned(), expected.to_owned(), found);
            self.problems.push((file.to_owned(), damage));
        };
        for about in &table.about {
            problem("one whole run of all ranks", about.clone());
        }
        if let Some(found) = table.wrong_data() {
            problem("right data", format!("{found}, which are left out"));
        }
        let wrong = table.wrong_sizes();
        let faults = faults(table);
        let is_right = |row: &&TableRow| !wrong.contains(&row.size);
        let rows: Vec<&TableRow> = table.rows.iter().filter(is_right).collect();
        let nccl = table
            .nccl_version
            .map_or(String::new(), bench::table::dotted);
        let mut runs: Vec<(usize, usize)> = rows.iter().map(|row| row.devices).collect();
        runs.dedup();
        let several = runs.len() > 1;
        for (number, run) in (0u64..).zip(runs) {
            let devices = table.devices.get(run.0..run.1).unwrap_or_default();
            let programs = programs(devices);
            let of_run = rows.iter().filter(|row| row.devices == run);
            // The first row of a size is taken for the first program's, and so on.
            let mut seen: HashMap<(Option<&str>, u64), usize> = HashMap::new();
            let mut by_program: Vec<Vec<&TableRow>> = vec![Vec::new(); programs.len()];
            for row in of_run {
                let key = (row.function.map(|function| function.name()), row.size);
                let nth = seen.entry(key).or_default();
                by_program[*nth % programs.len()].push(row);
                *nth += 1;
            }
            let mut facts = vec![("nccl", nccl.clone()), ("fault", faults.clone())];
            if several {
                facts.push(("run", (number + 1).to_string()));
            }
            for (at, (program, rows)) in (0u64..).zip(programs.iter().zip(&by_program)) {
                let key = (number, at);
                self.program(file, &facts, key, program, rows);
            }
        }
    }

    /// The processes of one program, all of whose ranks know each other.
    fn program(
        &mut self,
        file: &Path,
        of_run: &[(&'static str, String)],
        key: (u64, u64),
        devices: &[&Device],
        rows: &[&TableRow],
    ) {
        let facts = |of: Vec<(&'static str, String)>| {
            let mut facts = vec![
                ("mode", "nccl-tests".to_owned()),
                ("tool", "nccl-tests".to_owned()),
                ("timing", "stamps".to_owned()),
            ];
            facts.extend_from_slice(of_run);
            facts.extend(of);
            facts
        };
        if devices.is_empty() {
            // Nobody knows the ranks: one stands for all.
            let mut process = Process {
                facts: facts(host_facts(None, "")),
                communicators: vec![Communicator::default()],
                ..Process::default()
            };
            self.add(rows, 0, &mut process);
            self.processes.push((file.to_owned(), process));
            return;
        }
        let mut own: HashMap<(&str, u32), usize> = HashMap::new();
        let mut processes: Vec<Process> = Vec::new();
        for device in devices {
            let at = *own
                .entry((&device.hostname, device.pid))
                .or_insert_with(|| {
                    let mut of = host_facts(host(device), "");
                    of.push(("pid", device.pid.to_string()));
                    of.push(("rank", device.rank.to_string()));
                    processes.push(Process {
                        facts: facts(of),
                        ..Process::default()
                    });
                    processes.len() - 1
                });
            let group = devices.iter().filter(|other| other.group == device.group);
            let before = group.clone().filter(|other| other.rank < device.rank);
            let process = &mut processes[at];
            let communicator = process.communicators.len() as u32;
            process.communicators.push(Communicator {
                hash: hash(file, key, device.group),
                nranks: u32::try_from(group.count()).unwrap_or(0),
                rank: u32::try_from(before.count()).ok(),
                device: Some(device.device),
                ..Communicator::default()
            });
            self.add(rows, communicator, process);
        }
        let named = processes
            .into_iter()
            .map(|process| (file.to_owned(), process));
        self.processes.extend(named);
    }

    /// The calls of a rank.
    fn add(&mut self, rows: &[&TableRow], communicator: u32, process: &mut Process) {
        let mut seq: HashMap<&str, u64> = HashMap::new();
        for row in rows {
            let function = row.function.map_or("", |function| function.name());
            for side in row.sides() {
                let Some(us) = side.time_us.filter(|_| self.calls < MOST_CALLS) else {
                    continue;
                };
                self.calls += 1;
                let number = seq.entry(function).or_default();
                process.calls.push(Call {
                    communicator,
                    function,
                    datatype: torch::datatype(&row.datatype),
                    count: row.count,
                    root: u32::try_from(row.root).ok(),
                    seq: Some(*number),
                    length: Some((us * 1e3) as u64).filter(|ns| *ns > 0),
                    ..Call::default()
                });
                *number += 1;
            }
        }
    }
}

/// What makes the figures worth less than those of a whole run with right data, in sentences.
fn faults(table: &Table) -> String {
    let mut faults = Vec::new();
    if let Some(failed) = &table.failed {
        faults.push(format!("The run failed: {failed}."));
    }
    if let Some(said) = table.wrong_data() {
        let said = said.replacen('w', "W", 1);
        faults.push(format!("{said}: these figures are left out."));
    }
    if table.is_cut {
        faults.push(
            "The text ends before the average of the run: the run died, or lines are missing."
                .to_owned(),
        );
    }
    faults.join(" ")
}

/// The host of a GPU; some versions do not say it.
fn host(device: &Device) -> Option<String> {
    Some(device.hostname.clone()).filter(|host| !host.is_empty())
}

/// Programs that did not know of each other: each has a rank 0. They are told apart by their processes,
/// because a program without MPI is one process.
fn programs(devices: &[Device]) -> Vec<Vec<&Device>> {
    let firsts = devices.iter().filter(|device| device.rank == 0).count();
    if firsts < 2 {
        return vec![devices.iter().collect()];
    }
    let mut programs: Vec<Vec<&Device>> = Vec::new();
    let mut known: HashMap<(&str, u32), usize> = HashMap::new();
    for device in devices {
        let at = *known
            .entry((&device.hostname, device.pid))
            .or_insert_with(|| {
                programs.push(Vec::new());
                programs.len() - 1
            });
        programs[at].push(device);
    }
    programs
}

/// The same for all ranks of a group, and for no others.
fn hash(file: &Path, key: (u64, u64), group: u32) -> u64 {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    hasher.hash_one((file, key, group)).max(1)
}
