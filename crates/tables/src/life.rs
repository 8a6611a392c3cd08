//! Whether the process that recorded is still there, and where its newest calls are if they are not here.
//!
//! Rule: a pid means something only on its own boot of its own host and in its own pid name space. Elsewhere
//! nothing is known: another host may have the same name.

use crate::process::LiveSource;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Whether a process is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It runs on this host.
    Running,
    /// It ran on this host and does not any more.
    Gone,
    /// It ran on another host, on an earlier boot, or in another container.
    #[default]
    Unknown,
}

/// Where the calls of a process since its last flush are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Newest {
    /// Here: its live part was read, or it ended after it had written everything.
    #[default]
    Here,
    /// With the process or with `ncclscope run`, which still runs.
    Running,
    /// In a file on another host, as far as is known here.
    Elsewhere,
    /// Nowhere: the process is gone, and so is its live part.
    Gone,
    /// In a live part that is here and can't be read.
    Unreadable,
    /// Nothing says where the live part was.
    Unknown,
}

/// This host, as process blocks name it.
struct Here {
    boot_id: String,
    pid_namespace: u64,
}

impl Here {
    fn ask() -> Here {
        use std::os::unix::fs::MetadataExt;
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Here {
            boot_id: boot_id.unwrap_or_default().trim().to_owned(),
            pid_namespace: std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino()),
        }
    }

    /// Whether these facts are of a process of this boot of this host.
    fn is_of(&self, facts: &BTreeMap<String, String>) -> bool {
        !self.boot_id.is_empty() && facts.get("boot_id") == Some(&self.boot_id)
    }
}

/// Where the live part is on this host, if it was left on this host since it was started.
pub(crate) fn place_here(facts: &BTreeMap<String, String>) -> Option<PathBuf> {
    let path = facts.get("live").filter(|path| path.starts_with('/'))?;
    Here::ask().is_of(facts).then(|| PathBuf::from(path))
}

/// Whether the process of these facts is still there.
pub(crate) fn life(facts: &BTreeMap<String, String>) -> Life {
    let here = Here::ask();
    let number = |key: &str| facts.get(key).and_then(|v| v.parse::<u64>().ok());
    let known = (
        number("pid"),
        number("pid_start").filter(|start| *start != 0),
    );
    let (Some(pid), Some(start)) = known else {
        return Life::Unknown;
    };
    if !here.is_of(facts) || number("pid_namespace") != Some(here.pid_namespace) {
        return Life::Unknown;
    }
    match runs(pid, start) {
        true => Life::Running,
        false => Life::Gone,
    }
}

/// Whether process `pid` runs and is the one that started at `start`.
fn runs(pid: u64, start: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The command may hold anything, but for the last parenthesis; the state is field 3 and the start time
    // field 22.
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return false;
    };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let same = fields.get(19).and_then(|field| field.parse().ok()) == Some(start);
    // A first thread that has ended is a zombie too while other threads of the process go on.
    let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    same && (!matches!(fields.first(), Some(&"Z" | &"X")) || tasks() > 1)
}

/// What is known of a process when its files were read.
pub(crate) struct Evidence<'a> {
    pub facts: &'a BTreeMap<String, String>,
    pub life: Life,
    pub source: LiveSource,
    /// Its recorder wrote everything at its end.
    pub ended: bool,
    /// There is a live part that can't be read.
    pub unreadable: bool,
    /// Whether `ncclscope run` wrote down the end of the job; nothing if it did not make the capture.
    pub job_ended: Option<bool>,
}

/// Where the newest calls are.
pub(crate) fn newest(of: &Evidence) -> Newest {
    let is_here = Here::ask().is_of(of.facts);
    let place = of.facts.get("live").map(String::as_str);
    match (of.source, place) {
        (LiveSource::Adopted | LiveSource::Here, _) => Newest::Here,
        _ if of.ended => Newest::Here,
        _ if of.unreadable => Newest::Unreadable,
        _ if of.life == Life::Running => Newest::Running,
        (_, None | Some("")) => Newest::Unknown,
        // `ncclscope run` holds it, and takes it into the capture when the job ends.
        (_, Some("memfd")) => match of.job_ended {
            Some(false) => Newest::Running,
            _ if is_here => Newest::Gone,
            Some(true) => Newest::Gone,
            None => Newest::Elsewhere,
        },
        _ if is_here => Newest::Gone,
        _ => Newest::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        list.iter().map(owned).collect()
    }

    #[test]
    fn where_the_newest_calls_are() {
        let here = Here::ask().boot_id;
        let case = |boot: &str, live: &str, change: &dyn Fn(&mut Evidence)| {
            let facts = facts(&[("boot_id", boot), ("live", live)]);
            let mut evidence = Evidence {
                facts: &facts,
                life: Life::Unknown,
                source: LiveSource::Snapshot,
                ended: false,
                unreadable: false,
                job_ended: None,
            };
            change(&mut evidence);
            newest(&evidence)
        };
        let path = "/dev/shm/ncclscope-0/x.live";
        let as_it_is = |_: &mut Evidence| {};
        assert_eq!(case("other", path, &as_it_is), Newest::Elsewhere);
        assert_eq!(case(&here, path, &as_it_is), Newest::Gone);
        assert_eq!(case("other", "", &as_it_is), Newest::Unknown);
        assert_eq!(case("other", "memfd", &as_it_is), Newest::Elsewhere);
        for live in [path, "memfd"] {
            assert_eq!(
                case(&here, live, &|e| e.life = Life::Running),
                Newest::Running
            );
            assert_eq!(case("other", live, &|e| e.ended = true), Newest::Here);
            assert_eq!(
                case("other", live, &|e| e.unreadable = true),
                Newest::Unreadable
            );
            assert_eq!(
                case("other", live, &|e| e.source = LiveSource::Here),
                Newest::Here
            );
        }
        // While `ncclscope run` runs it has it, and after its end it has taken it into the capture or never
        // had it.
        for boot in ["other", &here] {
            let ended = |ended: bool| case(boot, "memfd", &|e| e.job_ended = Some(ended));
            assert_eq!((ended(false), ended(true)), (Newest::Running, Newest::Gone));
        }
    }

    #[test]
    fn this_process_runs_and_another_hosts_may() {
        let own = std::fs::read_to_string("/proc/self/stat").expect("read");
        let start = own.rsplit_once(')').expect("fields").1;
        let start = start.split_whitespace().nth(19).expect("start");
        let here = Here::ask();
        let of = |pid: &str, boot: &str, namespace: u64| {
            life(&facts(&[
                ("pid", pid),
                ("pid_start", start),
                ("boot_id", boot),
                ("pid_namespace", &namespace.to_string()),
            ]))
        };
        let pid = std::process::id().to_string();
        assert_eq!(of(&pid, &here.boot_id, here.pid_namespace), Life::Running);
        assert_eq!(
            of("4294967295", &here.boot_id, here.pid_namespace),
            Life::Gone
        );
        assert_eq!(of(&pid, "other", here.pid_namespace), Life::Unknown);
        assert_eq!(of(&pid, &here.boot_id, 1), Life::Unknown);
    }
}
