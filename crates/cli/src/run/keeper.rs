//! Keeps what the program's processes leave: while it runs, and when it has ended.
//!
//! A [`Keeper`] is a thread. Now and then it looks for live parts of this capture on this node that belong to
//! dead processes, and adopts them. So a job that is restarted many times does not fill this node's memory.
//! Between these looks it keeps which processes are stopped, and how they ended ([`States`]).
//!
//! Rule: nothing is lost when this process dies with the program. The live parts are files that belong to
//! nobody, and `ncclscope collect` finds them.

use super::adopt::{self, Here, LivePart, Liveness, Outcome};
use super::apart;
use super::states::States;
use std::collections::BTreeSet;
use std::io::{pipe, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tables::exit::HowEnded;

/// Between two looks for live parts while the program runs.
const EVERY: Duration = Duration::from_secs(5);
/// Between two looks at the states of processes.
const STATES_EVERY: Duration = Duration::from_secs(1);
/// How long the end of the program is waited for in processes that outlive it: a launcher may return while
/// its last workers are being torn down.
const GRACE: Duration = Duration::from_secs(5);

/// What became of the processes that were seen.
#[derive(Default)]
pub struct Tally {
    /// Live parts written.
    pub adopted: Vec<PathBuf>,
    /// Live parts that could not be, and why.
    pub failed: Vec<String>,
    /// Processes that went on after the program's end; only their flushed part is kept.
    pub alive: usize,
}

impl Tally {
    /// Adopts `part` and notes what became of it; true when the capture has all of it.
    fn adopt(&mut self, part: &LivePart, trace: &Path) -> bool {
        match adopt::adopt(part, trace) {
            Ok(Outcome::Adopted(path)) => self.adopted.push(path),
            Ok(Outcome::Whole) => {}
            Err(error) => {
                self.failed.push(format!("{error:#}"));
                return false;
            }
        }
        true
    }
}

/// The thread.
pub struct Keeper {
    capture: PathBuf,
    began_ns: i64,
    ended: Option<PipeWriter>,
    /// `None` where there could be no thread.
    thread: Option<JoinHandle<States>>,
}

impl Keeper {
    /// Begins to keep what processes that write into `capture` leave.
    pub fn start(capture: &Path) -> Keeper {
        let began_ns = Here::ask().now_ns;
        let folder = capture.to_owned();
        let (program, ended) = pipe().ok().unzip();
        let thread = program.and_then(|program| {
            let thread = std::thread::Builder::new().name("keeper".into());
            let keep = move || keep(&folder, began_ns, &program);
            thread.spawn(keep).ok()
        });
        Keeper {
            capture: capture.to_owned(),
            began_ns,
            ended,
            thread,
        }
    }

    /// Adopts what is left, once the program, whose pid this is, has ended in this way: waits until none of
    /// its processes is there, or [`GRACE`] is over.
    pub fn finish(self, program: Option<(u32, HowEnded)>) -> Tally {
        drop(self.ended);
        let states = self.thread.and_then(|thread| thread.join().ok());
        if let Some((mut states, (pid, how))) = states.zip(program) {
            states.told(pid, how);
        }
        let here = Here::ask();
        let deadline = Instant::now() + GRACE;
        loop {
            let (tally, recording) = look(&self.capture, self.began_ns, &here);
            if recording == 0 || Instant::now() >= deadline {
                return tally;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Looks now and then, until the program has ended. What can't be adopted is tried again, and said at the
/// end.
fn keep(capture: &Path, began_ns: i64, program: &PipeReader) -> States {
    apart::sweep();
    let here = Here::ask();
    let mut states = States::new(here.clone());
    let mut known = BTreeSet::new();
    let mut looked = Instant::now();
    loop {
        let has_ended = states.wait(program.as_fd(), STATES_EVERY);
        // Before live parts of the dead are adopted and removed.
        states.look();
        if has_ended {
            return states;
        }
        let mut new =
            adopt::new_leftovers(&mut known, |trace| adopt::inside(capture, trace).is_ok());
        new.retain(|new| new.left.liveness(&here) == Liveness::Alive);
        states.add(&new);
        if looked.elapsed() >= EVERY {
            looked = Instant::now();
            look(capture, began_ns, &here);
        }
    }
}

/// Adopts the live parts of dead processes, and counts the others. Beside it is how many of these are known
/// to be there.
///
/// A process that died before the program began, and whose trace file is gone, is of an earlier job that had
/// a folder of this name.
fn look(capture: &Path, began_ns: i64, here: &Here) -> (Tally, usize) {
    let (mut tally, mut recording) = (Tally::default(), 0);
    for leftover in adopt::leftovers(|_, trace| adopt::inside(capture, trace).is_ok()) {
        let liveness = leftover.left.liveness(here);
        if liveness != Liveness::Dead {
            tally.alive += 1;
            recording += usize::from(liveness == Liveness::Alive);
            continue;
        }
        let is_earlier = |part: &LivePart| {
            part.seen_ns()
                .is_some_and(|seen| 0 < seen && seen < began_ns)
                && !adopt::is_there(&leftover.trace)
        };
        let part = leftover.part().filter(|part| !is_earlier(part));
        if part.is_some_and(|part| tally.adopt(&part, &leftover.trace)) {
            // It is in the capture now; memory is worth having back.
            let _ = std::fs::remove_file(&leftover.file);
        }
    }
    (tally, recording)
}
