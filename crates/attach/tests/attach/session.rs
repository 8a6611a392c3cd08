//! Sessions that attach to a job, what they recorded, and what they leave in its memory.

use crate::job::Job;
use attach::{Options, Session, Summary};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tables::{Capture, ReadProgress, Source};

/// `None` if probes can't be had here, with the reason on standard error.
pub fn attached(options: Options) -> Option<Session> {
    match Session::start(options) {
        Ok(session) => Some(session),
        Err(refusal) => {
            eprintln!("skipped: {refusal}");
            None
        }
    }
}

/// A session that uses no BPF.
pub fn without_bpf(options: Options) -> Option<Session> {
    attached(Options {
        way: Some(attach::Way::Samples),
        ..options
    })
}

/// Takes events for as long as another thread does something with the job.
pub fn during<T: Send>(
    session: &mut Session,
    job: &mut Job,
    act: impl FnOnce(&mut Job) -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| act(job));
        session.run(|_| acting.is_finished());
        acting.join().expect("acted")
    })
}

/// The same. `act` can wait until so many processes are watched, and until so many libraries have probes.
pub fn during_with<T: Send>(
    session: &mut Session,
    job: &mut Job,
    act: impl FnOnce(&mut Job, &dyn Fn(usize, usize)) -> T + Send,
) -> T {
    let (watched, probed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            act(job, &|processes, libraries| {
                wait_for(|| {
                    watched.load(Relaxed) >= processes && probed.load(Relaxed) >= libraries
                });
            })
        });
        session.run(|session| {
            watched.store(session.watched().count(), Relaxed);
            probed.store(session.libraries().len(), Relaxed);
            acting.is_finished()
        });
        acting.join().expect("acted")
    })
}

pub fn read(folder: &Path) -> Capture {
    let source = Source::open(folder, &ReadProgress::default()).expect("a capture");
    source.load(&ReadProgress::default())
}

pub fn calls(summary: &Summary, function: &str) -> Vec<(u32, u64)> {
    let all = summary.processes.iter().flat_map(|seen| &seen.counts.calls);
    all.filter(|((name, _), _)| *name == function)
        .map(|((_, thread), n)| (*thread, *n))
        .collect()
}

/// That each of these threads made `n` AllReduces, as [`calls`] has it. The job answers with their ids.
pub fn each(ids: &str, n: u64) -> Vec<(u32, u64)> {
    threads(ids).into_iter().map(|id| (id, n)).collect()
}

pub fn threads(line: &str) -> Vec<u32> {
    let mut ids: Vec<u32> = line
        .split(' ')
        .map(|id| id.parse().expect("a number"))
        .collect();
    ids.sort_unstable();
    ids
}

/// Bytes of a process's memory.
pub fn memory(pid: u32, at: u64) -> u8 {
    use std::os::unix::fs::FileExt;
    let mut byte = [0];
    let file = std::fs::File::open(format!("/proc/{pid}/mem")).expect("opened");
    file.read_exact_at(&mut byte, at).expect("read");
    byte[0]
}

/// Waits until something holds. The test of `--all` may have probes in this job, too, for a while.
pub fn wait_for(holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "it never comes to hold");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where a function is in a process's memory.
pub fn address(pid: u32, library: &Path) -> u64 {
    let mut catalog = attach::library::Catalog::default();
    let found = attach::library::find(pid, &mut catalog).expect("mappings");
    let offset = found[0].places[&0].offset;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("mappings");
    let line = maps
        .lines()
        .find(|line| line.ends_with(library.to_str().expect("text")) && line.contains("r-xp"));
    let mut words = line.expect("mapped").split_ascii_whitespace();
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("hex");
    let start = hex(words
        .next()
        .and_then(|r| r.split('-').next())
        .expect("a range"));
    start + offset - hex(words.nth(1).expect("an offset"))
}
