//! What was seen of a job's processes while they were there.
//!
//! Whether a process is stopped can be asked only while it is there, so a later look at the same capture
//! knows less. What was seen is kept in small files beside the trace files, one for each machine and each
//! [`Witness`]:
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
//! `run-60c74c8d.json` is of `ncclscope run`. It gives no verdict, so it lacks `hang`, `verdict` and
//! `sentence`. Its processes are those alone that were stopped, or that ended by a signal, with an error or
//! without ending their recording. Such a process has its `exit_status` or the `signal` that ended it, if
//! that could be asked, and `out_of_memory` if the kernel killed it for that. A process that was seen earlier
//! than the others has an `at_ns` of its own.
//!
//! [`Sighting::json`] makes such a file. When a capture is opened, [`read`] finds all of them, and gives each
//! [`Process`] what was seen of it last.
//!
//! Rule: a process's own evidence goes first. That it was stopped or gone counts only if it wrote nothing
//! after that. Once all are gone, that it was gone counts only if others on its machine wrote something after
//! that: whoever kills a job does not kill all at once, and somebody may look in between.

use crate::exit::{Exit, HowEnded};
use crate::life::Life;
use crate::problem::Problem;
use crate::process::Process;
use crate::Capture;
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The format.
const SCHEMA: &str = "ncclscope.sighting/1";
/// A folder of a host has one for each machine of its name: more are not ours.
const MOST: usize = 64;
/// A recorder writes the time 25 times a second. What it wrote so much later than it was looked at is newer,
/// ns.
const LATER_NS: i64 = 100_000_000;

/// Who looked at a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Witness {
    /// `ncclscope hang`, which also said whether the job hung.
    #[default]
    Hang,
    /// `ncclscope run`, which started the job.
    Run,
}

impl Witness {
    const ALL: [Witness; 2] = [Witness::Hang, Witness::Run];

    /// The verb of `ncclscope`, with which its files begin.
    pub fn verb(self) -> &'static str {
        match self {
            Witness::Hang => "hang",
            Witness::Run => "run",
        }
    }

    /// Whose file this is by its name.
    pub fn of_file(name: &str) -> Option<Witness> {
        let rest = name.strip_suffix(".json")?;
        let is_its = |of: &Witness| {
            let boot = rest.strip_prefix(of.verb());
            boot.is_some_and(|boot| boot.starts_with('-'))
        };
        Witness::ALL.into_iter().find(is_its)
    }
}

/// What one look at a job saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// Who looked.
    pub by: Witness,
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
    /// When it was looked at, ns since 1970; when it ended, if that is known.
    pub at_ns: i64,
    /// How it ended.
    pub how: Option<HowEnded>,
    /// As [`Exit::out_of_memory`].
    pub out_of_memory: bool,
}

/// What was seen of a process last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// When, ns since 1970.
    pub at_ns: i64,
    /// Whether it was there.
    pub life: Life,
    /// By whom.
    pub by: Witness,
}

const LIVES: [(Life, &str); 3] = [
    (Life::Running, "running"),
    (Life::Stopped, "stopped"),
    (Life::Gone, "gone"),
];

impl Looked {
    /// This process as `ncclscope hang` sees it now, if the system knows of it. If it was stopped when `hang`
    /// looked before, and now dies, it is still told so: the new file replaces the one that says it.
    pub fn at(process: &Process, now_ns: i64) -> Option<Looked> {
        let (life, at_ns) = match process.was_stopped() {
            Some(seen) if seen.by == Witness::Hang => (seen.life, seen.at_ns),
            // Another file says it.
            Some(_) => return None,
            None => (process.life, now_ns),
        };
        (life != Life::Unknown).then_some(Looked {
            life,
            at_ns,
            ..Looked::who(process)?
        })
    }

    /// This process, by its numbers.
    fn who(process: &Process) -> Option<Looked> {
        let number = |key: &str| process.fact(key).and_then(|v| v.parse().ok());
        Some(Looked {
            pid: process.pid,
            pid_start: number("pid_start")?,
            pid_namespace: number("pid_namespace")?,
            ..Looked::default()
        })
    }

    /// Its end.
    fn exit(&self) -> Option<Exit> {
        (self.life == Life::Gone).then_some(Exit {
            at_ns: self.at_ns,
            how: self.how,
            out_of_memory: self.out_of_memory,
        })
    }

    /// Whether both are of one process.
    pub fn is(&self, other: &Looked) -> bool {
        let numbers = |of: &Looked| (of.pid, of.pid_start, of.pid_namespace);
        numbers(self) == numbers(other)
    }
}

impl Sighting {
    /// The name of its file.
    pub fn name(&self) -> String {
        let digits = self.boot_id.chars().filter(char::is_ascii_hexdigit);
        let digits = digits.take(8).collect::<String>();
        format!("{}-{digits}.json", self.by.verb())
    }

    /// Its file.
    pub fn json(&self) -> Value {
        let name = |life: Life| LIVES.into_iter().find(|(l, _)| *l == life).map(|(_, n)| n);
        let process = |looked: &Looked| {
            let mut process = json!({
                "pid": looked.pid,
                "pid_start": looked.pid_start,
                "pid_namespace": looked.pid_namespace,
                "life": name(looked.life),
            });
            match looked.how {
                Some(HowEnded::Status(status)) => process["exit_status"] = status.into(),
                Some(HowEnded::Signal(signal)) => process["signal"] = signal.into(),
                None => {}
            }
            if looked.out_of_memory {
                process["out_of_memory"] = true.into();
            }
            if looked.at_ns != self.at_ns {
                process["at_ns"] = looked.at_ns.into();
            }
            process
        };
        let mut file = json!({
            "schema": SCHEMA,
            "at_ns": self.at_ns,
            "host": self.host,
            "boot_id": self.boot_id,
            "processes": self.processes.iter().map(process).collect::<Vec<_>>(),
        });
        if self.by == Witness::Hang {
            file["hang"] = self.hang.into();
            file["verdict"] = self.verdict.as_str().into();
            file["sentence"] = self.sentence.as_str().into();
        }
        file
    }

    /// The file of this name in `folder`; `None` if there is none, or if it can't be read.
    pub fn at(folder: &Path, name: &str) -> Option<Sighting> {
        let text = std::fs::read_to_string(folder.join(name)).ok()?;
        Sighting::parse(Witness::of_file(name)?, &text).ok()
    }

    /// From the text of a file of this witness.
    ///
    /// # Errors
    /// What was found in place of one.
    fn parse(by: Witness, text: &str) -> Result<Sighting, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match value["schema"].as_str() {
            Some(SCHEMA) => {}
            Some(other) => return Err(format!("{other}; a newer ncclscope may read it")),
            None => return Err("other JSON".to_owned()),
        }
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let at_ns = value["at_ns"].as_i64().ok_or("no time")?;
        let process = |of: &Value| {
            let number = |key: &str| of[key].as_u64();
            let life = of["life"].as_str()?;
            let byte = |key: &str| u8::try_from(number(key)?).ok();
            let status = byte("exit_status").map(HowEnded::Status);
            let signal = byte("signal").filter(|signal| (1..=64).contains(signal));
            Some(Looked {
                how: status.or_else(|| signal.map(HowEnded::Signal)),
                out_of_memory: of["out_of_memory"].as_bool().unwrap_or(false),
                pid: u32::try_from(number("pid")?).ok()?,
                pid_start: number("pid_start")?,
                pid_namespace: number("pid_namespace")?,
                life: LIVES.into_iter().find(|(_, name)| *name == life)?.0,
                at_ns: of["at_ns"].as_i64().unwrap_or(at_ns),
            })
        };
        let processes = value["processes"].as_array().into_iter().flatten();
        Ok(Sighting {
            by,
            file: PathBuf::new(),
            at_ns,
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
        for (name, by) in names(&root.join(&folder)) {
            let file = folder.join(name);
            let text = crate::files::text(&root.join(&file)).map_err(|error| error.to_string());
            match text.and_then(|text| Sighting::parse(by, &text)) {
                Ok(sighting) => capture.sightings.push(Sighting { file, ..sighting }),
                Err(found) => problems.push(Problem {
                    file,
                    place: "its content".into(),
                    expected: format!("JSON as `ncclscope {}` writes it", by.verb()),
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
    let mut newest_on: BTreeMap<String, i64> = BTreeMap::new();
    for process in processes.iter() {
        if let (Some(boot), Some(ns)) = (process.fact("boot_id"), process.clock.newest()) {
            let newest = newest_on.entry(boot.to_owned()).or_insert(ns);
            *newest = ns.max(*newest);
        }
    }
    let mut all = processes.iter();
    let is_over = all.all(|process| process.ended || process.life == Life::Gone);
    for process in processes {
        let of = |sighting: &&Sighting| process.fact("boot_id") == Some(&sighting.boot_id);
        let who = Looked::who(process);
        let looks = sightings.iter().filter(of).filter_map(|sighting| {
            let mut all = sighting.processes.iter();
            let looked = all.find(|looked| who.is_some_and(|who| who.is(looked)))?;
            Some((sighting.by, *looked))
        });
        let looks: Vec<(Witness, Looked)> = looks.collect();
        let by_run = looks.iter().filter(|(by, _)| *by == Witness::Run);
        process.exit = by_run.filter_map(|(_, looked)| looked.exit()).next();
        let seen = looks.iter().map(|(by, looked)| LastSeen {
            at_ns: looked.at_ns,
            life: looked.life,
            by: *by,
        });
        let newest = process.clock.newest();
        let all_there = process.fact("boot_id").and_then(|boot| newest_on.get(boot));
        let is_last = |seen: &LastSeen| {
            let later = seen.at_ns.saturating_add(LATER_NS);
            let newer = newest.is_some_and(|ns| ns > later);
            match seen.life {
                Life::Gone => !newer && (!is_over || all_there.is_some_and(|ns| *ns > later)),
                Life::Stopped => !newer,
                Life::Running | Life::Unknown => true,
            }
        };
        let said = said_by_other_tool(process);
        process.seen = seen.max_by_key(|seen| seen.at_ns).filter(is_last).or(said);
    }
    problems
}

/// What another tool says of a process that it could not reach any more: the fact `life`.
fn said_by_other_tool(process: &Process) -> Option<LastSeen> {
    process.other_tool()?;
    (process.fact("life") == Some("gone")).then_some(LastSeen {
        at_ns: process.clock.newest()?,
        life: Life::Gone,
        by: Witness::default(),
    })
}

/// The names of such files in a folder, and whose they are.
fn names(folder: &Path) -> Vec<(String, Witness)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let there = entries.map(|entry| entry.path());
    let files = there.chain(crate::packs::files(folder, &mut Vec::new()));
    let names = files.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()));
    let its = |name: String| Witness::of_file(&name).map(|by| (name, by));
    let mut names: Vec<(String, Witness)> = names.filter_map(its).collect();
    names.sort_by(|a, b| a.0.cmp(&b.0));
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
            by: Witness::Hang,
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
                at_ns: AT,
                ..Looked::default()
            }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (life, _) in LIVES {
            let kept = sighting(life);
            assert_eq!(kept.name(), "hang-60c74c8d.json");
            let text = kept.json().to_string();
            let read = Sighting::parse(Witness::Hang, &text).expect("read");
            let file = kept.file.clone();
            assert_eq!(Sighting { file, ..read }, kept);
        }
        for text in ["", "{}", "7", r#"{"schema": "ncclscope.sighting/2"}"#] {
            assert!(Sighting::parse(Witness::Hang, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_launcher_gives_no_verdict_and_each_process_may_have_a_time_of_its_own() {
        let mut kept = Sighting {
            by: Witness::Run,
            file: PathBuf::new(),
            verdict: String::new(),
            sentence: String::new(),
            ..sighting(Life::Stopped)
        };
        let earlier = Looked {
            pid: 8,
            at_ns: AT - 5,
            life: Life::Gone,
            how: Some(HowEnded::Signal(9)),
            out_of_memory: true,
            ..kept.processes[0]
        };
        let failed = Looked {
            pid: 9,
            how: Some(HowEnded::Status(3)),
            out_of_memory: false,
            ..earlier
        };
        kept.processes.extend([earlier, failed]);
        let end = |how, out_of_memory| Exit {
            at_ns: AT - 5,
            how: Some(how),
            out_of_memory,
        };
        assert_eq!(kept.processes[0].exit(), None);
        assert_eq!(earlier.exit(), Some(end(HowEnded::Signal(9), true)));
        assert_eq!(failed.exit(), Some(end(HowEnded::Status(3), false)));
        assert_eq!(kept.name(), "run-60c74c8d.json");
        let json = kept.json();
        assert!(json["verdict"].is_null() && json["sentence"].is_null());
        assert_eq!(Sighting::parse(Witness::Run, &json.to_string()), Ok(kept));
        assert_eq!(Witness::of_file("run-60c74c8d.json"), Some(Witness::Run));
        assert_eq!(Witness::of_file("hang-60c74c8d.json"), Some(Witness::Hang));
        for other in ["runs-1.json", "run-1.trace", "hung-1.json", "capture.json"] {
            assert_eq!(Witness::of_file(other), None, "{other}");
        }
    }

    /// What is seen of process 7, which wrote its last so long after it was looked at.
    fn seen(life: Life, after_ns: i64, change: impl Fn(&mut Process)) -> (Option<LastSeen>, usize) {
        seen_beside(life, [after_ns, after_ns], change)
    }

    /// The same beside another process, which wrote its last at another time.
    fn seen_beside(
        life: Life,
        [after_ns, other_after_ns]: [i64; 2],
        change: impl Fn(&mut Process),
    ) -> (Option<LastSeen>, usize) {
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
        let anchor = |after_ns: i64| Anchor {
            ticks: Ticks(1),
            realtime: (AT + after_ns) as u64,
            monotonic: 1,
        };
        let mut process = Process {
            file: "node/r0-p7-00000000.trace".into(),
            pid: 7,
            facts: facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            clock: Clock::new([anchor(after_ns)], true),
            ..Process::default()
        };
        change(&mut process);
        let other = Process {
            pid: 8,
            clock: Clock::new([anchor(other_after_ns)], true),
            ..process.clone()
        };
        let mut capture = Capture {
            processes: vec![process, other],
            ..Capture::default()
        };
        let problems = read(&mut capture, root.path());
        assert_eq!(capture.sightings, [kept]);
        (capture.processes[0].seen, problems.len())
    }

    #[test]
    fn a_process_that_wrote_after_it_was_stopped_went_on() {
        let as_it_is = |_: &mut Process| {};
        let of = |life| {
            Some(LastSeen {
                at_ns: AT,
                life,
                by: Witness::Hang,
            })
        };
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

    #[test]
    fn a_process_that_was_gone_while_all_were_killed_did_not_die_first() {
        let over = |process: &mut Process| process.life = Life::Gone;
        let life = |others_after_ns: i64, change: &dyn Fn(&mut Process)| {
            let (seen, _) = seen_beside(Life::Gone, [-900, others_after_ns], change);
            seen.map(|seen| seen.life)
        };
        assert_eq!(life(-500, &over), None);
        assert_eq!(life(1_000_000_000, &over), Some(Life::Gone));
        // The others may live.
        assert_eq!(life(-500, &|_| ()), Some(Life::Gone));
        // One that was stopped is still known to have been.
        let (seen, _) = seen_beside(Life::Stopped, [-900, -500], over);
        assert_eq!(seen.map(|seen| seen.life), Some(Life::Stopped));
    }
}
