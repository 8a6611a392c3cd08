//! Writes how often the driver was called ([`crate::counts`]), how often NCCL's proxy threads woke up, and
//! what NCCL counts of its memory ([`crate::comm_memory`]).
//!
//! A line has all counts since the recorder began, and when they were read. So any two lines give what was
//! done between them. Lines come every second at first, and seldom in a long job ([`pause`]).
//!
//! NCCL names its threads if `NCCL_SET_THREAD_NAME` is set, as `ncclscope run` does. The kernel counts how
//! often each slept and woke up.
//!
//! Rule: a file of the kernel's is read here, in the recorder's thread, and never in a thread of the job's.

use super::Writer;
use crate::{clock, counts};
use capture::block::BlockKind;
use capture::counts::{Count, NAMES, OF_NCCL};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How NCCL names the threads that move its data: `NCCL Progress 0`.
const PROXY: &str = "NCCL Progress";
/// NCCL names a thread after it has begun to run, so one without a name of NCCL's is looked at so often.
const LOOKS: u8 = 2;

/// What was written.
#[derive(Default)]
pub(super) struct Written {
    /// Counts when the recorder began: those of the parent in a forked child. By whether NCCL called.
    base: [counts::Totals; 2],
    since: Option<Instant>,
    newest: Option<Instant>,
    /// The counts of the newest line.
    line: String,
    threads: Threads,
}

/// Until the next line, in a job that is so old: 60 lines, then 60, then one a minute.
fn pause(age: Duration) -> Duration {
    match age.as_secs() {
        0..60 => Duration::from_secs(1),
        60..660 => Duration::from_secs(10),
        _ => Duration::from_secs(60),
    }
}

impl Written {
    pub(super) fn new() -> Written {
        Written {
            base: [counts::totals(false), counts::totals(true)],
            ..Written::default()
        }
    }

    /// All counts but those that are 0: ` name=value` each, with `nccl.` before the names of NCCL's. Times
    /// are counted in ticks, and stand there in ns.
    fn counts(&mut self, ns_per_tick: f64) -> String {
        let mut line = format!(
            " timed=1 told_apart={}",
            u8::from(counts::nccl_is_told_apart())
        );
        for (prefix, nccl) in [("", false), (OF_NCCL, true)] {
            let base = self.base[usize::from(nccl)];
            let totals = counts::totals(nccl).into_iter().zip(base);
            for (number, (count, base)) in totals.enumerate() {
                let mut grown = count - base;
                if Count::is_time(number) {
                    grown = (grown as f64 * ns_per_tick) as u64;
                }
                if grown != 0 {
                    let _ = write!(line, " {prefix}{}={grown}", NAMES[number]);
                }
            }
        }
        let folder = Path::new("/proc/self/task");
        self.threads.look(folder);
        if let Some((proxies, wakeups)) = self.threads.proxies(folder) {
            let _ = write!(line, " proxies={proxies} proxy_wakeups={wakeups}");
        }
        line
    }
}

impl Writer {
    /// Stages the counts if it is time for them, or if the job ends.
    pub(super) fn write_counts(&mut self, end: bool) {
        crate::comm_memory::written(|line| {
            self.block(BlockKind::Setup, |out| out.extend(line.as_bytes()))
        });
        let now = Instant::now();
        let mut written = std::mem::take(&mut self.counts);
        let age = now - *written.since.get_or_insert(now);
        // Flushes are not to the millisecond.
        let tolerance = Duration::from_millis(50);
        let is_due = |newest: Instant| now - newest + tolerance >= pause(age);
        if self.recorder.settings.graphs && (end || written.newest.is_none_or(is_due)) {
            let line = written.counts(self.ns_per_tick);
            if line != written.line {
                let at_ns = clock::nanoseconds(libc::CLOCK_REALTIME);
                let whole = format!("ncclscope counts at_ns={at_ns}{line}\n");
                if self.block(BlockKind::Setup, |out| out.extend(whole.as_bytes())) {
                    written.line = line;
                }
            }
            written.newest = Some(now);
        }
        self.counts = written;
    }
}

/// Threads of the process, as far as they are NCCL's proxies.
#[derive(Default)]
struct Threads {
    /// Those that there were at the last look: how often the name was looked at. A proxy's is looked at no
    /// more.
    looked: HashMap<u32, u8>,
    /// How often each proxy slept and woke up.
    proxies: HashMap<u32, u64>,
    /// Proxies that ended, and how often they woke up.
    ended: (usize, u64),
}

impl Threads {
    /// Looks for new ones in the kernel's folder of threads.
    fn look(&mut self, folder: &Path) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        // A program may make threads all the time, so what has ended is forgotten.
        let before = std::mem::take(&mut self.looked);
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let looked = before.get(&thread).copied().unwrap_or(0);
            let looks = self.looked.entry(thread).or_insert(looked);
            if *looks >= LOOKS {
                continue;
            }
            *looks += 1;
            let name = std::fs::read_to_string(entry.path().join("comm"));
            if name.is_ok_and(|name| name.starts_with(PROXY)) {
                *looks = LOOKS;
                self.proxies.insert(thread, 0);
            }
        }
    }

    /// How many proxies there were, and how often they woke up, those that ended included.
    fn proxies(&mut self, folder: &Path) -> Option<(usize, u64)> {
        let ended = &mut self.ended;
        self.proxies.retain(|thread, wakeups| {
            let status = std::fs::read_to_string(folder.join(format!("{thread}/status")));
            match status.ok().and_then(|status| slept(&status)) {
                Some(now) => {
                    *wakeups = now;
                    true
                }
                None => {
                    *ended = (ended.0 + 1, ended.1 + *wakeups);
                    false
                }
            }
        });
        let number = self.ended.0 + self.proxies.len();
        let wakeups = self.ended.1 + self.proxies.values().sum::<u64>();
        (number > 0).then_some((number, wakeups))
    }
}

/// How often a thread slept, as the kernel says in `/proc/PID/task/TID/status`.
fn slept(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_job_has_few_lines() {
        let seconds = |age: u64| pause(Duration::from_secs(age)).as_secs();
        assert_eq!([seconds(0), seconds(59)], [1, 1]);
        assert_eq!([seconds(60), seconds(659), seconds(660)], [10, 10, 60]);
    }

    #[test]
    fn a_thread_with_nccl_s_name_is_a_proxy_and_its_sleeps_count() {
        let (tell, hear) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let proxy = std::thread::Builder::new()
            .name("NCCL Progress 3".to_owned())
            .spawn(move || {
                tell.send(()).expect("heard");
                for () in wait {
                    std::thread::sleep(Duration::from_millis(1));
                    tell.send(()).expect("heard");
                }
            });
        hear.recv().expect("it runs");
        let mut threads = Threads::default();
        let folder = Path::new("/proc/self/task");
        threads.look(folder);
        let (number, before) = threads.proxies(folder).expect("one");
        let thread = *threads.proxies.keys().next().expect("one");
        assert_eq!(number, 1);
        for _ in 0..20 {
            go.send(()).expect("heard");
            hear.recv().expect("it slept");
        }
        let (_, after) = threads.proxies(folder).expect("one");
        assert!(after >= before + 20, "{before} to {after}");
        drop(go);
        proxy.expect("made").join().expect("ended");
        // What it did stays counted, and the thread is forgotten.
        assert_eq!(threads.proxies(folder), Some((1, after)));
        assert!(threads.proxies.is_empty());
        threads.look(folder);
        assert!(!threads.looked.contains_key(&thread));
    }
}
