//! Reads the files of watched processes on threads of their own.
//!
//! A file belongs to the user who runs the process. It may be huge, or lie on a file system that stops
//! answering. So the session never reads one: it asks, and takes answers when they are there. Each user has
//! a thread, so that nobody's files keep those of others waiting. Whatever lies in a process's memory, as its
//! environment does, is read there too: a page of it may be one of such a file.

use crate::library::{self, Catalog, Library};
use crate::processes::{self, Memory};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
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

/// The threads, by their users.
pub struct Readers {
    symbols: Vec<PathBuf>,
    by_user: HashMap<u32, Sender<Process>>,
    /// What is not answered yet: of which user, and since when.
    asked: HashMap<Process, (u32, Instant)>,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
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
        let thread = self.by_user.get(&user);
        let Some(thread) = thread.cloned().or_else(|| self.begin(user)) else {
            return false;
        };
        let is_sent = thread.send(process).is_ok();
        if is_sent {
            self.asked.insert(process, (user, Instant::now()));
        }
        is_sent
    }

    fn begin(&mut self, user: u32) -> Option<Sender<Process>> {
        let (requests, of_user) = channel::<Process>();
        let (symbols, answers) = (self.symbols.clone(), self.sender.clone());
        let read = move || {
            let mut catalog = Catalog::with_symbols(symbols);
            for process in of_user {
                let found = library::find(process.0, &mut catalog);
                let has_nccl = found.as_ref().is_ok_and(|libraries| !libraries.is_empty());
                let facts = has_nccl.then(|| Facts::of(process, &Memory::of(process.0)));
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
        std::thread::Builder::new()
            .name(format!("reader-{user}"))
            .spawn(read)
            .ok()?;
        self.by_user.insert(user, requests.clone());
        Some(requests)
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

    /// Processes that were asked for so long ago and are not answered yet.
    pub fn unanswered(&self, ago: Duration) -> impl Iterator<Item = u32> + '_ {
        let late = self
            .asked
            .iter()
            .filter(move |(_, (_, at))| at.elapsed() >= ago);
        late.map(|((pid, _), _)| *pid)
    }
}
