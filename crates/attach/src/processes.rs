//! Processes from outside: who runs, who is whose child, and what a process says of itself in `/proc`.
//!
//! Rule: a pid alone names nobody. Who is watched is known by pid and start.

use capture::launcher;
use capture::printable::obeyed;
use std::collections::HashMap;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;

/// The pid name space of the machine itself, which sees those of all containers.
const MACHINE: u64 = 0xefff_fffc;

/// Whether this process numbers processes as the machine does, which is how the kernel's events number them.
pub fn sees_all() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|meta| meta.ino() == MACHINE)
}

/// Fields 2, 3, 4, 22, 23 and 52 of `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its short name. That of another program takes its place with `exec`.
    pub name: String,
    /// Its parent.
    pub parent: u32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
    /// Its address space, bytes: a library that is loaded makes it larger.
    pub bytes: u64,
    /// It has ended, and its parent has not asked for its status yet.
    pub ended: bool,
    /// A signal or a debugger has stopped it.
    pub stopped: bool,
    /// It waits for something else than a processor.
    pub waits: bool,
    /// It runs on a processor, or waits for one.
    pub runs: bool,
    /// Nothing can interrupt what it waits for: a disk, or a file system.
    pub waits_for_disk: bool,
    /// How it ended, as `wait` of the system gives it; 0 before.
    pub exit_code: i32,
}

/// Reads it, of a process or a thread; `None` if there is none.
pub fn stat(process: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command name may hold blanks; fields are counted from the parenthesis that closes it.
    let (head, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    Some(Stat {
        name: head.split_once('(')?.1.to_owned(),
        ended: matches!(*fields.first()?, "Z" | "X"),
        stopped: matches!(*fields.first()?, "T" | "t"),
        waits: matches!(*fields.first()?, "D" | "S"),
        runs: *fields.first()? == "R",
        waits_for_disk: *fields.first()? == "D",
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        bytes: fields.get(20)?.parse().ok()?,
        exit_code: fields
            .get(49)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0),
    })
}

/// The process that a number belongs to, if it is the number of one of its other threads.
pub fn of_thread(number: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{number}/status")).ok()?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    let process = process.trim().parse().ok()?;
    (process != number).then_some(process)
}

/// All processes that are seen from here, with their parents.
pub fn all() -> HashMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?.parent)))
        .collect()
}

/// Those of `all` that are among `roots`, or descend from one.
pub fn below(all: &HashMap<u32, u32>, roots: &[u32]) -> Vec<u32> {
    let is_below = |pid: &u32| {
        let mut at = *pid;
        // As many steps as there are processes end any circle.
        for _ in 0..=all.len() {
            if roots.contains(&at) {
                return true;
            }
            match all.get(&at) {
                Some(parent) => at = *parent,
                None => return false,
            }
        }
        false
    };
    let mut found: Vec<u32> = all.keys().copied().filter(is_below).collect();
    found.sort_unstable();
    found
}

/// The environment with which a process was started.
pub fn environment(process: u32) -> HashMap<String, String> {
    let bytes = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// The user that a process belongs to, also if the kernel keeps what is in `/proc` of it for root.
pub fn user(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The rank that a launcher gave a process.
pub fn rank(environment: &HashMap<String, String>) -> Option<String> {
    launcher::rank(&|name| environment.get(name).cloned())
}

/// What lies in a process's own memory. To read it may take as long as its file system takes to answer.
#[derive(Default)]
pub struct Memory {
    /// As [`environment`] has it.
    pub environment: HashMap<String, String>,
    /// With blanks between the words.
    pub command: String,
}

impl Memory {
    /// Reads it; empty if it may not be read.
    pub fn of(process: u32) -> Memory {
        let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Memory {
            environment: environment(process),
            command: command.trim().to_owned(),
        }
    }
}

/// The lines of the Process block that come from `/proc`, and the process's own number of itself.
pub fn facts(process: u32, start: u64, memory: &Memory) -> (String, u32) {
    let mut lines = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(lines, "{}={}", in_a_line(key), in_a_line(value));
    };
    let environment = &memory.environment;
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let namespace = std::fs::metadata(format!("/proc/{process}/ns/pid")).map_or(0, |m| m.ino());
    let pid = own_number(process);
    line("ncclscope", env!("CARGO_PKG_VERSION"));
    line("host", &capture::left::host().unwrap_or_default());
    line("boot_id", boot_id.unwrap_or_default().trim());
    line("pid", &pid.to_string());
    line("pid_start", &start.to_string());
    line("pid_namespace", &namespace.to_string());
    for (key, names) in launcher::FACTS {
        if let Some(value) = names.iter().find_map(|name| environment.get(*name)) {
            line(key, value);
        }
    }
    if let Some(rank) = rank(environment) {
        line("rank", &rank);
    }
    line("command", &memory.command);
    let mut variables: Vec<_> = environment
        .iter()
        .filter(|(k, _)| k.starts_with("NCCL"))
        .collect();
    variables.sort();
    for (name, value) in variables {
        line(&format!("env.{name}"), value);
    }
    (lines, pid)
}

/// Text of another user, as a part of one line: a variable's name may have line ends, as its value may, and
/// what a terminal obeys.
fn in_a_line(text: &str) -> String {
    let clean = |c: char| if obeyed(c) { ' ' } else { c };
    text.chars().map(clean).take(400).collect()
}

/// How a process numbers itself, in the innermost name space that it is in.
fn own_number(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let last = numbers.and_then(|numbers| numbers.split_ascii_whitespace().last());
    last.and_then(|number| number.parse().ok())
        .unwrap_or(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_another_user_commands_no_terminal() {
        assert_eq!(in_a_line("a\n\u{1b}[2Jb\u{202e}c\u{61c}d"), "a  [2Jb c d");
    }

    #[test]
    fn descendants_are_found_and_a_circle_ends() {
        let all = HashMap::from([(1, 0), (5, 1), (6, 5), (7, 6), (8, 1), (9, 10), (10, 9)]);
        assert_eq!(below(&all, &[5]), [5, 6, 7]);
        assert_eq!(below(&all, &[9]), [9, 10]);
        assert_eq!(below(&all, &[4]), [] as [u32; 0]);
    }

    #[test]
    fn a_process_says_who_it_is() {
        let me = std::process::id();
        let stat = stat(me).expect("this process");
        assert!(!stat.ended && stat.start > 0 && stat.parent > 0);
        assert!(stat.bytes > 1 << 20 && !stat.name.is_empty(), "{stat:?}");
        let (lines, pid) = facts(me, stat.start, &Memory::of(me));
        assert_eq!(pid, me);
        assert!(lines.contains(&format!("pid={me}\n")) && lines.contains("command="));
        assert!(all().contains_key(&me));
        assert_eq!(of_thread(me), None);
        // SAFETY: a plain call. Tests run on threads of their own.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        assert_eq!(of_thread(thread), Some(me).filter(|_| thread != me));
    }

    #[test]
    fn names_and_values_of_variables_forge_no_line() {
        let mut child = std::process::Command::new("sleep");
        let forged = [
            ("NCCL_A\nhost", "trusted"),
            ("NCCL_B", "x\rpid=1\nrank=5\u{1b}[31m"),
        ];
        let mut child = child
            .arg("60")
            .env_clear()
            .envs(forged)
            .spawn()
            .expect("started");
        let began = std::time::Instant::now();
        // Until it is the other program.
        while !environment(child.id()).contains_key("NCCL_A\nhost") {
            assert!(began.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
        let (lines, _) = facts(child.id(), 1, &Memory::of(child.id()));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(lines.contains("\nenv.NCCL_A host=trusted\n"), "{lines}");
        assert!(
            lines.contains("\nenv.NCCL_B=x pid=1 rank=5 [31m\n"),
            "{lines}"
        );
    }

    #[test]
    fn ranks_are_numbers() {
        let of = |value: &str| rank(&HashMap::from([("RANK".to_owned(), value.to_owned())]));
        assert_eq!(
            (of("3").as_deref(), of("x3"), of("")),
            (Some("3"), None, None)
        );
    }
}
