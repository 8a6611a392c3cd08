//! The ranks as their lead sees them: a socket each, what they said of themselves, and where they are.
//!
//! Rule: no wait is longer than the time limit, and an error names the rank that it is about.

use crate::launcher::RankPlace;
use crate::link::{line, take, Hello, Order, Progress, Reply, Stage};
use crate::plan::Plan;
use crate::stop;
use anyhow::{anyhow, Result};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

/// A rank that says nothing for so long does not run any more.
const SILENT: Duration = Duration::from_secs(2);

/// For a rank to exit after its last answer.
const TEARDOWN: Duration = Duration::from_secs(10);

/// Why a run ended early.
#[derive(Debug)]
pub enum Trouble {
    /// It could not begin: usage, machine or environment.
    Setup(anyhow::Error),
    /// It began, and a rank failed or hung.
    Failed(String),
    /// This signal asked for its end.
    Stopped(i32),
}

impl Trouble {
    /// What fails before there is a communicator can be put right by the user.
    pub fn into_setup(self) -> Trouble {
        match self {
            Trouble::Failed(why) => Trouble::Setup(anyhow!(why)),
            other => other,
        }
    }

    /// What a rank met on its own.
    pub fn into_failed(error: anyhow::Error) -> Trouble {
        Trouble::Failed(format!("{error:#}"))
    }
}

struct Rank {
    socket: File,
    buffer: Vec<u8>,
    hello: Option<Hello>,
    answer: Option<Reply>,
    progress: Progress,
    seen: Instant,
    ended: bool,
    /// If we started it.
    child: Option<Child>,
}

/// All ranks, in order.
pub struct Ranks {
    ranks: Vec<Rank>,
    limit: Duration,
    /// Whether all have ended by themselves, or are about to.
    over: bool,
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            if let Some(child) = &mut rank.child {
                if !self.over {
                    // An error is that it has ended already.
                    let _ = child.kill();
                }
                // Libraries may take their time to end; not for ever.
                let end = Instant::now() + TEARDOWN;
                while matches!(child.try_wait(), Ok(None)) {
                    if Instant::now() > end {
                        let _ = child.kill();
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
}

impl Ranks {
    /// Over sockets whose other ends are ranks in any order; waits for their names.
    ///
    /// # Errors
    /// When one does not come in time, or has another plan than rank 0.
    pub fn gather(
        sockets: Vec<(File, Option<Child>)>,
        listener: Option<(TcpListener, &RankPlace)>,
        count: u32,
        plan: &Plan,
        limit: Duration,
    ) -> Result<Ranks, Trouble> {
        let mut all = Ranks {
            ranks: sockets
                .into_iter()
                .map(|(socket, child)| Rank::new(socket, child))
                .collect(),
            limit,
            over: false,
        };
        let end = Instant::now() + limit;
        while all.ranks.iter().filter(|r| r.hello.is_some()).count() < count as usize {
            if let Some(signal) = stop::asked() {
                return Err(Trouble::Stopped(signal));
            }
            if Instant::now() > end {
                let came: Vec<u32> = all
                    .ranks
                    .iter()
                    .filter_map(|r| Some(r.hello.as_ref()?.rank))
                    .collect();
                let missing = (0..count).filter(|rank| !came.contains(rank));
                return Err(Trouble::Setup(anyhow!(
                    "{} did not come within {} s\n  hint: every rank needs the same command; --timeout TIME \
                    waits longer",
                    named(missing),
                    limit.as_secs_f64()
                )));
            }
            if let Some((listener, _)) = &listener {
                let accepts = readable(&[listener.as_raw_fd()], Duration::ZERO);
                if accepts[0] {
                    let (stream, _) = listener.accept().map_err(|e| Trouble::Setup(e.into()))?;
                    // Small answers at once; without it they only come later.
                    let _ = stream.set_nodelay(true);
                    all.ranks
                        .push(Rank::new(OwnedFd::from(stream).into(), None));
                }
            }
            all.listen(Duration::from_millis(20));
            for rank in &mut all.ranks {
                match rank.answer.take() {
                    Some(Reply::Hello(hello)) => rank.hello = Some(*hello),
                    Some(Reply::Failed(why)) if rank.hello.is_some() || rank.child.is_some() => {
                        return Err(Trouble::Setup(anyhow!(why)));
                    }
                    // No rank begins with anything else.
                    Some(_) => rank.ended = true,
                    _ if rank.ended && rank.child.is_some() => {
                        return Err(Trouble::Setup(anyhow!(
                            "a rank ended at once{}",
                            rank.status()
                        )));
                    }
                    _ => {}
                }
            }
            // Whoever connects and is no rank of this job is sent away.
            let job = listener.as_ref().map(|(_, place)| &place.job);
            all.ranks.retain(|rank| match &rank.hello {
                Some(hello) => job.is_none_or(|job| hello.job == *job),
                None => !rank.ended,
            });
        }
        all.ranks.retain(|rank| rank.hello.is_some());
        all.ranks
            .sort_by_key(|rank| rank.hello.as_ref().map(|h| h.rank));
        all.agree(count, plan)?;
        Ok(all)
    }

    /// That all are of one job and have one plan.
    fn agree(&self, count: u32, plan: &Plan) -> Result<(), Trouble> {
        let wrong = |why: String| Err(Trouble::Setup(anyhow!(why)));
        for (index, hello) in self.hellos().enumerate() {
            let Hello { rank, ranks, .. } = hello;
            if *ranks != count {
                return wrong(format!(
                    "rank {rank} on {} is one of {ranks} ranks, rank 0 one of {count}\n  hint: all need the \
                     same number of ranks (WORLD_SIZE under torchrun)",
                    hello.host
                ));
            }
            if *rank != index as u32 {
                return wrong(format!(
                    "expected ranks 0 to {} once each, found rank {rank} on {} where rank {index} \
                     belongs\n  hint: two processes have the same rank, or an earlier run's port is used \
                     again; --port P names another",
                    count - 1,
                    hello.host
                ));
            }
            if let Some(difference) = hello.plan.difference(plan) {
                return wrong(format!(
                    "rank {rank} on {} is to measure something else: {difference}\n  hint: every rank needs \
                    the same options",
                    hello.host
                ));
            }
        }
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// What they said of themselves, in order.
    pub fn hellos(&self) -> impl Iterator<Item = &Hello> + Clone {
        self.ranks.iter().filter_map(|rank| rank.hello.as_ref())
    }

    /// The ranks of each host, or rather of each that share memory.
    pub fn hosts(&self) -> Vec<Vec<u32>> {
        let mut hosts: Vec<(&str, &str, Vec<u32>)> = Vec::new();
        for hello in self.hellos() {
            let host = hosts
                .iter_mut()
                .find(|(host, memory, _)| *host == hello.host && *memory == hello.memory);
            match host {
                Some((_, _, members)) => members.push(hello.rank),
                None => hosts.push((&hello.host, &hello.memory, vec![hello.rank])),
            }
        }
        hosts.into_iter().map(|(_, _, members)| members).collect()
    }

    /// Has all end.
    ///
    /// # Errors
    /// When one hangs in it.
    pub fn end(&mut self) -> Result<(), Trouble> {
        self.ask_all(Order::End, "ncclCommDestroy", Duration::ZERO)?;
        self.over = true;
        Ok(())
    }

    /// Gives all the same order and waits for their answers, `more` longer than the time limit.
    ///
    /// # Errors
    /// When a rank fails, ends or does not answer in time.
    pub fn ask_all(
        &mut self,
        order: Order,
        doing: &str,
        more: Duration,
    ) -> Result<Vec<Reply>, Trouble> {
        let orders = vec![order; self.ranks.len()];
        self.ask(orders, doing, more)
    }

    /// Gives each its order and waits for their answers.
    ///
    /// # Errors
    /// When a rank fails, ends or does not answer in time.
    pub fn ask(
        &mut self,
        orders: Vec<Order>,
        doing: &str,
        more: Duration,
    ) -> Result<Vec<Reply>, Trouble> {
        let began = Instant::now();
        for (rank, order) in self.ranks.iter_mut().zip(orders) {
            rank.answer = None;
            rank.progress = Progress::default();
            rank.seen = began;
            // One that is gone is noticed below.
            let _ = line(&order).and_then(|line| rank.socket.write_all(&line));
        }
        while self.ranks.iter().any(|rank| rank.answer.is_none()) {
            self.listen(Duration::from_millis(100));
            // Before what ranks say: a signal to all of them ends them too.
            if let Some(signal) = stop::asked() {
                return Err(Trouble::Stopped(signal));
            }
            let failed = self.ranks.iter().find_map(|rank| match &rank.answer {
                Some(Reply::Failed(why)) => {
                    Some(format!("{} failed in {doing}: {why}", rank.name()))
                }
                _ => None,
            });
            if let Some(why) = failed {
                return Err(Trouble::Failed(why));
            }
            if let Some(rank) = self
                .ranks
                .iter_mut()
                .find(|rank| rank.ended && rank.answer.is_none())
            {
                let why = format!("{} ended in {doing}{}", rank.name(), rank.status());
                return Err(Trouble::Failed(why));
            }
            if began.elapsed() > self.limit + more
                && self.ranks.iter().any(|rank| rank.answer.is_none())
            {
                return Err(Trouble::Failed(self.hang(doing, began.elapsed())));
            }
        }
        Ok(self
            .ranks
            .iter()
            .filter_map(|rank| rank.answer.clone())
            .collect())
    }

    /// Reads what has come, waiting `patience` for something.
    fn listen(&mut self, patience: Duration) {
        let mut open: Vec<&mut Rank> = self.ranks.iter_mut().filter(|rank| !rank.ended).collect();
        let sockets: Vec<i32> = open.iter().map(|rank| rank.socket.as_raw_fd()).collect();
        if sockets.is_empty() {
            return std::thread::sleep(patience);
        }
        for (rank, ready) in open.iter_mut().zip(readable(&sockets, patience)) {
            if ready {
                rank.read();
            }
        }
    }

    /// Who hangs, in words: the ranks that others wait for.
    fn hang(&self, doing: &str, waited: Duration) -> String {
        let mut text = format!("{doing} has not ended for {:.0} s: ", waited.as_secs_f64());
        let late: Vec<&Rank> = self
            .ranks
            .iter()
            .filter(|rank| rank.answer.is_none())
            .collect();
        // Who waits for the GPU, or to start together, has done its part.
        let waits = |rank: &&Rank| {
            !rank.is_silent() && matches!(rank.progress.stage, Stage::Gpu | Stage::Meeting)
        };
        let least = late
            .iter()
            .map(|rank| rank.progress.step)
            .min()
            .unwrap_or(0);
        let all_inside =
            || late.len() == self.ranks.len() && late.iter().all(|r| r.progress.step == least);
        let mut culprits: Vec<&&Rank> = late.iter().filter(|rank| !waits(rank)).collect();
        if culprits.is_empty() && !all_inside() {
            culprits = late
                .iter()
                .filter(|rank| rank.progress.step == least)
                .collect();
        }
        if culprits.is_empty() || culprits.len() == self.ranks.len() {
            text += &format!(
                "all ranks are in it, at step {least}; the GPUs or the network make no progress"
            );
            return text + HANG_HINT;
        }
        let said: Vec<String> = culprits
            .iter()
            .map(|rank| format!("{} {}", rank.name(), rank.place()))
            .collect();
        text += &said.join("; ");
        let others = late
            .iter()
            .filter(|rank| !culprits.iter().any(|c| std::ptr::eq(*c, *rank)));
        let others: Vec<u32> = others
            .filter_map(|rank| Some(rank.hello.as_ref()?.rank))
            .collect();
        if !others.is_empty() {
            text += &format!("; {} wait for it", named(others.into_iter()));
        }
        text + HANG_HINT
    }
}

const HANG_HINT: &str = "\n  hint: --timeout TIME waits longer; NCCL_DEBUG=INFO shows what NCCL says; \
                         `ncclscope run` in front of this command keeps evidence for `ncclscope hang`";

impl Rank {
    fn new(socket: File, child: Option<Child>) -> Rank {
        Rank {
            socket,
            buffer: Vec::new(),
            hello: None,
            answer: None,
            progress: Progress::default(),
            seen: Instant::now(),
            ended: false,
            child,
        }
    }

    /// Reads what is there.
    fn read(&mut self) {
        let mut bytes = vec![0; 1 << 16];
        match self.socket.read(&mut bytes) {
            Ok(0) | Err(_) => self.ended = true,
            Ok(length) => {
                self.buffer.extend_from_slice(&bytes[..length]);
                self.seen = Instant::now();
                // A long answer comes in many pieces, and is looked at once.
                if !bytes[..length].contains(&b'\n') {
                    return;
                }
            }
        }
        while let Some(said) = take(&mut self.buffer) {
            match said {
                Ok(Reply::Progress(progress)) => self.progress = progress,
                Ok(answer) => self.answer = Some(answer),
                Err(_) => self.ended = true,
            }
        }
    }

    fn is_silent(&self) -> bool {
        self.seen.elapsed() > SILENT
    }

    fn name(&self) -> String {
        match &self.hello {
            Some(hello) => format!("rank {} (pid {} on {})", hello.rank, hello.pid, hello.host),
            None => "a rank".to_owned(),
        }
    }

    /// Where it is, as the end of a sentence.
    fn place(&self) -> String {
        let step = self.progress.step;
        if self.is_silent() {
            return format!(
                "gives no sign of life since {:.0} s (stopped?)",
                self.seen.elapsed().as_secs_f64()
            );
        }
        match self.progress.stage {
            Stage::Idle => "has not begun".to_owned(),
            Stage::Opening => "is opening NCCL and the GPU".to_owned(),
            Stage::Init => "is in ncclCommInitRank".to_owned(),
            Stage::Data => "is copying data to or from the GPU".to_owned(),
            Stage::Meeting => format!("waits to start step {}", step + 1),
            Stage::Calling => format!(
                "is inside the NCCL call of step {}, which does not return",
                step.max(1)
            ),
            Stage::Gpu => format!("waits for the GPU in step {}", step.max(1)),
            Stage::Destroy => "is in ncclCommDestroy".to_owned(),
        }
    }

    /// How the process ended, where we can know.
    fn status(&mut self) -> String {
        let Some(child) = &mut self.child else {
            return String::new();
        };
        match child.wait() {
            Ok(status) => format!(" ({status})"),
            Err(_) => String::new(),
        }
    }
}

/// Which of the sockets have something to read, or are closed.
fn readable(sockets: &[i32], patience: Duration) -> Vec<bool> {
    let entry = |fd: &i32| libc::pollfd {
        fd: *fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls: Vec<libc::pollfd> = sockets.iter().map(entry).collect();
    // SAFETY: as many entries as it is told.
    unsafe {
        libc::poll(
            polls.as_mut_ptr(),
            polls.len() as libc::nfds_t,
            patience.as_millis() as i32,
        )
    };
    polls.iter().map(|poll| poll.revents != 0).collect()
}

/// `rank 3`, `ranks 0-2,5`.
fn named(ranks: impl Iterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let one = matches!(ranges[..], [(a, b)] if a == b);
    let text: Vec<String> = ranges
        .iter()
        .map(|(a, b)| {
            if a == b {
                a.to_string()
            } else {
                format!("{a}-{b}")
            }
        })
        .collect();
    format!("rank{} {}", if one { "" } else { "s" }, text.join(","))
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn ranks_are_named_in_ranges() {
        assert_eq!(named([3].into_iter()), "rank 3");
        assert_eq!(named([0, 1, 2, 5].into_iter()), "ranks 0-2,5");
        assert_eq!(named([0, 2].into_iter()), "ranks 0,2");
    }
}
