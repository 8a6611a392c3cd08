//! What a reader found in one file, or in all files of a job.

use crate::json::Fault;
use crate::writer::Process;
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use tables::Problem;

/// Place, expected, found.
pub type Damage = (String, String, String);
/// Something of each file.
pub type ByFile<T> = Vec<(PathBuf, T)>;

/// A reader that takes all files of a job, because a file may be about several processes.
pub trait OfJob {
    /// Takes in what `input`, which is `file`, hands out; returns what was wrong with it.
    ///
    /// # Errors
    /// If the file can't be read.
    fn read(&mut self, file: &Path, input: Box<dyn Read + '_>) -> Result<Vec<Damage>, Fault>;

    /// A process for each that was seen, with the first file that had it, and what was wrong with these.
    fn finish(self: Box<Self>) -> (ByFile<Process>, ByFile<Damage>);
}

/// What a file had, and what was wrong with it.
#[derive(Debug, Default)]
pub struct Found {
    /// For the capture.
    pub process: Process,
    /// CUDA's numbers of the GPUs on which something ran.
    pub devices: Vec<u32>,
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Name of the host.
    pub host: Option<String>,
    /// Where reading ended before the file did, and what was there: place, expected, found.
    pub damage: Vec<Damage>,
}

/// What was wrong with a file, for the capture.
pub fn problems(file: &Path, damage: Vec<Damage>) -> Vec<Problem> {
    let problem = |(place, expected, found)| Problem {
        file: file.to_owned(),
        place,
        expected,
        found,
    };
    damage.into_iter().map(problem).collect()
}

/// Tells each process its rank in the job: that in the largest communicator, if all processes are in it once.
pub fn ranks_of_largest(processes: &mut [(PathBuf, Process)]) {
    let mut largest: Option<(u32, u64)> = None;
    for communicator in processes.iter().flat_map(|(_, of)| &of.communicators) {
        let size = (communicator.nranks, communicator.hash);
        if communicator.hash != 0 && largest.is_none_or(|known| size > known) {
            largest = Some(size);
        }
    }
    let Some((nranks, hash)) = largest else {
        return;
    };
    let (mut found, mut taken) = (Vec::new(), HashSet::new());
    for (_, process) in processes.iter() {
        let mut mine = process.communicators.iter().filter(|of| of.hash == hash);
        match (mine.next().and_then(|of| of.rank), mine.next()) {
            (Some(rank), None) if taken.insert(rank) => found.push(rank),
            _ => return,
        }
    }
    for ((_, process), rank) in processes.iter_mut().zip(found) {
        process.facts.push(("rank", rank.to_string()));
        process.facts.push(("world_size", nranks.to_string()));
    }
}
