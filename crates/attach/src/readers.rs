//! Reads the files of watched processes on threads of their own.
//!
//! A file belongs to the user who runs the process. It may be huge, or lie on a file system that stops
//! answering. So the session never reads one: it asks, and takes answers when they are there. Each user has
//! a thread, so that nobody's files keep those of others waiting. If that thread is inside a read that does
//! not return, the user gets another one for the other processes. Whatever lies in a process's memory, as its
//! environment does, is read there too: a page of it may be one of such a file.

use crate::library::{self, Catalog, Library};
use crate::processes::{self, Memory};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A process, by number and start.
pub type Process = (u32, u64);

/// What was read of a process.
pub struct Answer {
    pub process: Process,
    /// Its libraries with NCCL, as [`library::find`] has them.
    pub found: io::Result<Vec<Arc<Library>>>,
    /// Why files of it with NCCL can't be used.
    pub troubles: Vec<String>,
    /// If it has NCCL.
    pub facts: Option<Facts>,
}

/// What a capture says of a process besides its calls.
pub struct Facts {
    /// Of its Process block.
    pub lines: String,
    /// Its own number of itself.
    pub own: u32,
    pub rank: Option<String>,
}

impl Facts {
    /// From its memory, as far as that was read.
    pub fn of((pid, start): Process, memory: &Memory) -> Facts {
        let (lines, own) = processes::facts(pid, start, memory);
        let rank = processes::rank(&memory.environment);
        Facts { lines, own, rank }
    }
}

/// Threads for a user at most: so many reads that do not return keep the user's other processes waiting.
const MOST_THREADS: usize = 8;
/// A read that takes so long and uses no processor may never return: a local disk answers within a second.
const STUCK: Duration = Duration::from_secs(2);

/// What a thread reads: since when, and the number of the thread.
type Reading = HashMap<Process, (Instant, u32)>;

/// The threads of a user.
#[derive(Clone)]
struct User {
    requests: Sender<Process>,
    queue: Arc<Mutex<Receiver<Process>>>,
    reading: Arc<Mutex<Reading>>,
    threads: usize,
}

/// Processes of a user that were asked for long ago and are not answered yet.
#[derive(Default)]
pub struct Late {
    /// They are being read.
    pub reading: Vec<u32>,
    /// They wait for those.
    pub waiting: Vec<u32>,
}

/// The threads, by their users.
pub struct Readers {
    symbols: Vec<PathBuf>,
    by_user: HashMap<u32, User>,
    /// What is not answered yet: of which user, and since when.
    asked: HashMap<Process, (u32, Instant)>,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readers {
    /// Without threads as yet. `symbols` are files for [`Catalog::with_symbols`].
    pub fn new(symbols: Vec<PathBuf>) -> Readers {
        let (sender, answers) = channel();
        Readers {
            symbols,
            by_user: HashMap::new(),
            asked: HashMap::new(),
            sender,
            answers,
        }
    }

    /// Asks for a process's libraries; false if an answer about it is still to come, or no thread can begin.
    pub fn ask(&mut self, process: Process) -> bool {
        if self.asked.contains_key(&process) {
            return false;
        }
        let user = processes::user(process.0).unwrap_or_default();
        if !self.by_user.contains_key(&user) {
            let (requests, queue) = channel();
            let of = User {
                requests,
                queue: Arc::new(Mutex::new(queue)),
                reading: Arc::default(),
                threads: 0,
            };
            if !self.begin(user, &of) {
                return false;
            }
            self.by_user.insert(user, User { threads: 1, ..of });
        }
        let is_sent = self.by_user[&user].requests.send(process).is_ok();
        if is_sent {
            self.asked.insert(process, (user, Instant::now()));
        }
        is_sent
    }

    /// Begins a thread for a user.
    fn begin(&self, user: u32, of: &User) -> bool {
        let (symbols, answers) = (self.symbols.clone(), self.sender.clone());
        let (queue, reading) = (of.queue.clone(), of.reading.clone());
        let read = move || {
            let mut catalog = Catalog::with_symbols(symbols);
            // SAFETY: a plain system call, for which glibc has had a function since 2.30 only.
            let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
            loop {
                let Ok(process) = locked(&queue).recv() else {
                    return;
                };
                locked(&reading).insert(process, (Instant::now(), thread));
                let found = library::find(process.0, &mut catalog);
                let has_nccl = found.as_ref().is_ok_and(|libraries| !libraries.is_empty());
                let facts = has_nccl.then(|| Facts::of(process, &Memory::of(process.0)));
                locked(&reading).remove(&process);
                let answer = Answer {
                    process,
                    found,
                    troubles: std::mem::take(&mut catalog.troubles),
                    facts,
                };
                if answers.send(answer).is_err() {
                    return;
                }
            }
        };
        // Nobody waits for the thread: at the end it may be inside a read that does not return.
        let thread = std::thread::Builder::new().name(format!("reader-{user}"));
        thread.spawn(read).is_ok()
    }

    /// Gives users whose threads are all inside reads that do not return another one.
    fn relieve(&mut self) {
        let stuck = |of: &User| {
            let reading = locked(&of.reading);
            let waits = |thread| processes::stat(thread).is_some_and(|stat| stat.waits);
            let stuck =
                |(since, thread): &(Instant, u32)| since.elapsed() >= STUCK && waits(*thread);
            reading.len() == of.threads && reading.values().all(stuck)
        };
        let users = self.by_user.iter();
        let in_need = users.filter(|(_, of)| of.threads < MOST_THREADS && stuck(of));
        let in_need: Vec<(u32, User)> = in_need.map(|(user, of)| (*user, of.clone())).collect();
        for (user, of) in in_need {
            if self.begin(user, &of) {
                let threads = of.threads + 1;
                self.by_user.insert(user, User { threads, ..of });
            }
        }
    }

    /// Whether the user of a process has a thread that is at something.
    pub fn is_busy_for(&self, process: u32) -> bool {
        let user = processes::user(process).unwrap_or_default();
        self.asked.values().any(|(of, _)| *of == user)
    }

    /// The next answer, if one is there within this time.
    fn next(&mut self, within: Duration) -> Option<Answer> {
        let answer = self.answers.recv_timeout(within).ok()?;
        self.asked.remove(&answer.process);
        Some(answer)
    }

    /// Answers until all are there, or that about `last`, or this time is over.
    pub fn until(&mut self, last: Option<Process>, within: Duration) -> Vec<Answer> {
        self.relieve();
        let until = Instant::now() + within;
        let mut answers = Vec::new();
        let is_over = |asked: &HashMap<Process, _>| match &last {
            Some(last) => !asked.contains_key(last),
            None => asked.is_empty(),
        };
        while !is_over(&self.asked) {
            let left = until.saturating_duration_since(Instant::now());
            match self.next(left) {
                Some(answer) => answers.push(answer),
                None => break,
            }
        }
        answers
    }

    /// Processes that were asked for so long ago and are not answered yet, by user.
    pub fn unanswered(&self, ago: Duration) -> BTreeMap<u32, Late> {
        let mut late: BTreeMap<u32, Late> = BTreeMap::new();
        for (process, (user, at)) in &self.asked {
            if at.elapsed() < ago {
                continue;
            }
            let of = late.entry(*user).or_default();
            let is_read = self
                .by_user
                .get(user)
                .is_some_and(|u| locked(&u.reading).contains_key(process));
            if is_read {
                &mut of.reading
            } else {
                &mut of.waiting
            }
            .push(process.0);
        }
        late
    }
}
