//! What `ncclscope hang` saw of a job while processes of it were there.
//!
//! Whether a process is stopped can be asked only while it is there, so a later look at the same capture
//! knows less. What was seen is kept in a small file beside the trace files, one for each machine that `hang`
//! was run on:
//!
//! ```text
//! hang-60c74c8d.json     the first 8 hex digits of the machine's boot id
//! {
//!   "schema": "ncclscope.sighting/1",
//!   "at_ns": 1795344261832000000,                   when, ns since 1970
//!   "host": "node-1", "boot_id": "60c74c8d-...",    where
//!   "hang": true,                                   what it said then, as `hang --json` has it
//!   "verdict": "stopped",
//!   "sentence": "Rank 2 is stopped by ...",
//!   "processes": [{"pid": 19884, "pid_start": 1203, "pid_namespace": 4026531836, "life": "stopped"}, ...]
//! }
//! ```
//!
//! [`Sighting::json`] makes it, and `hang` writes it in place of an older one. When a capture is opened,
//! [`read`] finds all of them, and gives each [`Process`] what was seen of it last.
//!
//! Rule: a process's own evidence goes first. That it was stopped or gone counts only if it wrote nothing
//! after that.

use crate::life::Life;
use crate::problem::Problem;
use crate::process::Process;
use crate::Capture;
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The format.
const SCHEMA: &str = "ncclscope.sighting/1";
/// A folder of a host has one for each machine of its name: more are not ours.
const MOST: usize = 64;
/// A recorder writes the time 25 times a second. What it wrote so much later than it was looked at is newer,
/// ns.
const LATER_NS: i64 = 100_000_000;

/// What one look at a job saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The file, relative to the capture.
    pub file: PathBuf,
    /// When, ns since 1970.
    pub at_ns: i64,
    /// From which host.
    pub host: String,
    /// Which boot of it.
    pub boot_id: String,
    /// Whether the job hung; `None` if that could not be told.
    pub hang: Option<bool>,
    /// The kind of the verdict.
    pub verdict: String,
    /// The verdict.
    pub sentence: String,
    /// The processes that could be asked for.
    pub processes: Vec<Looked>,
}

/// A process that was looked at, and what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Its number.
    pub pid: u32,
    /// When it started, as in /proc.
    pub pid_start: u64,
    /// Where its number counts.
    pub pid_namespace: u64,
    /// Whether it was there.
    pub life: Life,
}

/// What was seen of a process last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// When, ns since 1970.
    pub at_ns: i64,
    /// Whether it was there.
    pub life: Life,
}

const LIVES: [(Life, &str); 3] = [
    (Life::Running, "running"),
    (Life::Stopped, "stopped"),
    (Life::Gone, "gone"),
];

impl Looked {
    /// This process, if the system knows of it.
    pub fn at(process: &Process) -> Option<Looked> {
        let number = |key: &str| process.fact(key).and_then(|v| v.parse().ok());
        (process.life != Life::Unknown).then_some(Looked {
            pid: process.pid,
            pid_start: number("pid_start")?,
            pid_namespace: number("pid_namespace")?,
            life: process.life,
        })
    }

    fn is(&self, process: &Process) -> bool {
        Looked::at(&Process {
            // Whether it is known now does not matter.
            life: self.life,
            pid: process.pid,
            facts: process.facts.clone(),
            ..Process::default()
        }) == Some(*self)
    }
}

impl Sighting {
    /// The name of its file.
    pub fn name(&self) -> String {
        let digits = self.boot_id.chars().filter(char::is_ascii_hexdigit);
        format!("hang-{}.json", digits.take(8).collect::<String>())
    }

    /// Its file.
    pub fn json(&self) -> Value {
        let name = |life: Life| LIVES.into_iter().find(|(l, _)| *l == life).map(|(_, n)| n);
        let process = |looked: &Looked| {
            json!({
                "pid": looked.pid,
                "pid_start": looked.pid_start,
                "pid_namespace": looked.pid_namespace,
                "life": name(looked.life),
            })
        };
        json!({
            "schema": SCHEMA,
            "at_ns": self.at_ns,
            "host": self.host,
            "boot_id": self.boot_id,
            "hang": self.hang,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "processes": self.processes.iter().map(process).collect::<Vec<_>>(),
        })
    }

    /// From its file's text.
    ///
    /// # Errors
    /// What was found in place of one.
    fn parse(text: &str) -> Result<Sighting, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match value["schema"].as_str() {
            Some(SCHEMA) => {}
            Some(other) => return Err(format!("{other}; a newer ncclscope may read it")),
            None => return Err("other JSON".to_owned()),
        }
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let process = |of: &Value| {
            let number = |key: &str| of[key].as_u64();
            let life = of["life"].as_str()?;
            Some(Looked {
                pid: u32::try_from(number("pid")?).ok()?,
                pid_start: number("pid_start")?,
                pid_namespace: number("pid_namespace")?,
                life: LIVES.into_iter().find(|(_, name)| *name == life)?.0,
            })
        };
        let processes = value["processes"].as_array().into_iter().flatten();
        Ok(Sighting {
            file: PathBuf::new(),
            at_ns: value["at_ns"].as_i64().ok_or("no time")?,
            host: text("host"),
            boot_id: text("boot_id"),
            hang: value["hang"].as_bool(),
            verdict: text("verdict"),
            sentence: text("sentence"),
            processes: processes.filter_map(process).collect(),
        })
    }
}

/// The folders with trace files of these processes, relative to the capture.
pub fn folders<'a>(processes: impl Iterator<Item = &'a Process>) -> BTreeSet<PathBuf> {
    let folders = processes.filter_map(|process| process.file.parent());
    folders.map(Path::to_owned).collect()
}

/// Reads what was kept below `root`, the oldest first, and gives it to the processes.
pub(crate) fn read(capture: &mut Capture, root: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    for folder in folders(capture.processes.iter()) {
        for name in names(&root.join(&folder)) {
            let file = folder.join(name);
            let text = crate::files::text(&root.join(&file)).map_err(|error| error.to_string());
            match text.and_then(|text| Sighting::parse(&text)) {
                Ok(sighting) => capture.sightings.push(Sighting { file, ..sighting }),
                Err(found) => problems.push(Problem {
                    file,
                    place: "its content".into(),
                    expected: "JSON as `ncclscope hang` writes it".into(),
                    found,
                }),
            }
        }
    }
    let Capture {
        sightings,
        processes,
        ..
    } = capture;
    sightings.sort_by(|a, b| (a.at_ns, &a.file).cmp(&(b.at_ns, &b.file)));
    for process in processes {
        let of = |sighting: &&Sighting| process.fact("boot_id") == Some(&sighting.boot_id);
        let mut seen = sightings.iter().filter(of).filter_map(|sighting| {
            let looked = sighting.processes.iter().find(|l| l.is(process))?;
            Some(LastSeen {
                at_ns: sighting.at_ns,
                life: looked.life,
            })
        });
        let newest = process.clock.newest();
        let is_last = |seen: &LastSeen| {
            let newer = newest.is_some_and(|ns| ns > seen.at_ns.saturating_add(LATER_NS));
            seen.life == Life::Running || !newer
        };
        let said = said_by_other_tool(process);
        process.seen = seen.next_back().filter(is_last).or(said);
    }
    problems
}

/// What another tool says of a process that it could not reach any more: the fact `life`.
fn said_by_other_tool(process: &Process) -> Option<LastSeen> {
    process.other_tool()?;
    (process.fact("life") == Some("gone")).then_some(LastSeen {
        at_ns: process.clock.newest()?,
        life: Life::Gone,
    })
}

/// The names of such files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let there = entries.map(|entry| entry.path());
    let files = there.chain(crate::packs::files(folder, &mut Vec::new()));
    let names = files.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with("hang-") && name.ends_with(".json"))
        .collect();
    names.sort();
    names.truncate(MOST);
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Anchor, Clock};
    use capture::rows::Ticks;

    const AT: i64 = 1_800_000_000_000_000_000;

    fn sighting(life: Life) -> Sighting {
        Sighting {
            file: "node/hang-60c74c8d.json".into(),
            at_ns: AT,
            host: "node".into(),
            boot_id: "60c74c8d-687774df458d".into(),
            hang: None,
            verdict: "stopped".into(),
            sentence: "Rank 2 is stopped.".into(),
            processes: vec![Looked {
                pid: 7,
                pid_start: 5,
                pid_namespace: 3,
                life,
            }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (life, _) in LIVES {
            let kept = sighting(life);
            assert_eq!(kept.name(), "hang-60c74c8d.json");
            let read = Sighting::parse(&kept.json().to_string()).expect("read");
            let file = kept.file.clone();
            assert_eq!(Sighting { file, ..read }, kept);
        }
        for text in ["", "{}", "7", r#"{"schema": "ncclscope.sighting/2"}"#] {
            assert!(Sighting::parse(text).is_err(), "{text}");
        }
    }

    /// What is seen of process 7, which wrote its last so long after it was looked at.
    fn seen(life: Life, after_ns: i64, change: impl Fn(&mut Process)) -> (Option<LastSeen>, usize) {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("node")).expect("made");
        let kept = sighting(life);
        let file = root.path().join(&kept.file);
        std::fs::write(file, kept.json().to_string()).expect("written");
        let other = root.path().join("node/hang-x.json");
        std::fs::write(other, "nothing").expect("written");
        let facts = [
            ("boot_id", "60c74c8d-687774df458d"),
            ("pid_start", "5"),
            ("pid_namespace", "3"),
        ];
        let anchor = Anchor {
            ticks: Ticks(1),
            realtime: (AT + after_ns) as u64,
            monotonic: 1,
        };
        let mut process = Process {
            file: "node/r0-p7-00000000.trace".into(),
            pid: 7,
            facts: facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            clock: Clock::new([anchor], true),
            ..Process::default()
        };
        change(&mut process);
        let mut capture = Capture {
            processes: vec![process],
            ..Capture::default()
        };
        let problems = read(&mut capture, root.path());
        assert_eq!(capture.sightings, [kept]);
        (capture.processes[0].seen, problems.len())
    }

    #[test]
    fn a_process_that_wrote_after_it_was_stopped_went_on() {
        let as_it_is = |_: &mut Process| {};
        let of = |life| Some(LastSeen { at_ns: AT, life });
        assert_eq!(seen(Life::Stopped, -500, as_it_is), (of(Life::Stopped), 1));
        assert_eq!(seen(Life::Gone, -500, as_it_is).0, of(Life::Gone));
        assert_eq!(seen(Life::Stopped, 1_000_000_000, as_it_is).0, None);
        assert_eq!(
            seen(Life::Running, 1_000_000_000, as_it_is).0,
            of(Life::Running)
        );
        // Another process with this number.
        let later = |process: &mut Process| {
            process.facts.insert("pid_start".into(), "6".into());
        };
        assert_eq!(seen(Life::Stopped, -500, later).0, None);
        let elsewhere = |process: &mut Process| {
            process.facts.insert("boot_id".into(), "x".into());
        };
        assert_eq!(seen(Life::Stopped, -500, elsewhere).0, None);
    }
}
