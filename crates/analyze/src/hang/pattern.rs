//! The order in which a rank makes its calls: what comes next, and what came as never before.

use super::judge::Judge;
use super::waits::Wait;

impl Judge<'_> {
    /// Whether a rank came to the call that it waits in by another way than ever before, since its last call where
    /// others wait for it.
    pub(super) fn is_astray(
        &self,
        (index, waiting, _): (usize, usize, usize),
        (lacked, _, missing): (usize, usize, usize),
    ) -> bool {
        let wait = &self.waits[index];
        let own = &self.calls.communicators[wait.communicator].ranks[waiting];
        let call = match wait.ordinal {
            Some(ordinal) => own.call(wait.lane, ordinal),
            None => (wait.call.0 == waiting).then_some(wait.call.1),
        };
        let lacked = &self.waits[lacked];
        let ranks = &self.calls.communicators[lacked.communicator].ranks;
        let there = &ranks[missing];
        let before: Vec<u32> = match lacked.ordinal {
            Some(_) => there.calls[lacked.lane as usize].clone(),
            None => {
                let (_, shape) = self.calls.made(lacked.communicator, lacked.call);
                let send = self.capture.names.get(shape.function) != Some("Send");
                let peer = ranks[lacked.call.0].rank;
                let last = peer
                    .zip(lacked.met.checked_sub(1))
                    .and_then(|(peer, number)| there.pair(send, peer, number));
                last.into_iter().collect()
            }
        };
        let Some(call) = call else {
            return false;
        };
        let before = before.into_iter().filter(|b| *b < call).max();
        self.strayed(own.process, before, call)
    }

    /// Whether any call after `from`, up to and with `to`, is new.
    pub(super) fn strayed(&self, process: usize, from: Option<u32>, to: u32) -> bool {
        let from = from.map_or(0, |from| from + 1).max(to.saturating_sub(1000));
        (from..=to).any(|call| self.is_new(process, call as usize))
    }

    /// The call that a process's last calls were followed by before: the one after the longest stretch of earlier calls
    /// that equals its last ones.
    pub(super) fn expected(&self, process: usize) -> Option<u32> {
        let process = &self.capture.processes[process];
        let what = |index: usize| {
            let call = &process.calls[index];
            let shape = &process.shapes[call.shape as usize];
            (
                shape.uid,
                shape.function,
                shape.count,
                shape.datatype,
                shape.peer,
                shape.root,
            )
        };
        let last = process.calls.len().checked_sub(1)?;
        let alike = |index: usize| {
            let back = 0..(index + 1).min(64);
            back.take_while(|back| what(index - back) == what(last - back))
                .count()
        };
        let earlier = (0..last)
            .rev()
            .take(10_000)
            .map(|index| (alike(index), index));
        let (length, index) = earlier.max_by_key(|(length, index)| (*length, *index))?;
        (length > 0).then_some(index as u32 + 1)
    }

    /// Whether a wait is for the call that this process is expected to make next.
    pub(super) fn is_expected(&self, wait: &Wait, process: usize) -> bool {
        let Some(expected) = self.expected(process) else {
            return false;
        };
        let of = &self.capture.processes[process];
        let theirs = &of.shapes[of.calls[expected as usize].shape as usize];
        let (_, ours) = self.calls.made(wait.communicator, wait.call);
        let communicator = Some(wait.communicator as u32);
        let half = if wait.ordinal.is_some() {
            theirs.function == ours.function
        } else {
            theirs.peer == self.calls.communicators[wait.communicator].ranks[wait.call.0].rank
        };
        half && theirs.communicator == communicator && theirs.count == ours.count
    }

    /// Whether a call follows another than each such call before did, or is followed by it for the first time.
    pub(super) fn is_new(&self, process: usize, call: usize) -> bool {
        let process = &self.capture.processes[process];
        let what = |index: usize| {
            let shape = &process.shapes[process.calls[index].shape as usize];
            (
                shape.uid,
                shape.function,
                shape.count,
                shape.datatype,
                shape.peer,
                shape.root,
            )
        };
        if call < 2 {
            return false;
        }
        let (this, before) = (what(call), what(call - 1));
        let recent = || (1..call).rev().take(100_000);
        let mut same = recent().filter(|i| what(*i) == this).take(1000).peekable();
        let mut after = recent()
            .filter(|i| what(*i - 1) == before)
            .take(1000)
            .peekable();
        same.peek().is_some() && same.all(|i| what(i - 1) != before)
            || after.peek().is_some() && after.all(|i| what(i) != this)
    }
}
