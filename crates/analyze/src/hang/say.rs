//! The verdict in words.
//!
//! Rule: the first sentence names ranks and the call, or says what is missing that would tell. It is true as it stands,
//! whatever a missing file may hold.

use super::calls::{CommunicatorCalls, Lane};
use super::judge::{Found, Judge};
use super::mismatch::{How, Mismatch};
use super::roots::{Cause, Half};
use super::wait_for::Root;
use super::waits::{Lack, Stall, Wait};
use super::{CallRow, State, Verdict};
use crate::job::ranges;
use crate::summary::size;
use capture::live::WAITS;
use std::collections::BTreeSet;

/// More ranks than these are counted, not named.
const NAMED: usize = 64;

impl Judge<'_> {
    /// The launcher's ranks of ranks, where they are known and tell them apart, else their ranks in the communicator.
    pub(super) fn numbers(&self, communicator: usize, ranks: &[usize]) -> String {
        let of = &self.calls.communicators[communicator];
        match self.by_launcher(of) {
            true => ranges(
                ranks
                    .iter()
                    .filter_map(|s| self.capture.processes[of.ranks[*s].process].rank),
            ),
            false => ranges(ranks.iter().filter_map(|s| of.ranks[*s].rank)),
        }
    }

    /// Whether every member's process has a rank of its own.
    fn by_launcher(&self, communicator: &CommunicatorCalls) -> bool {
        let ranks: BTreeSet<_> = communicator
            .ranks
            .iter()
            .filter_map(|s| {
                let process = &self.capture.processes[s.process];
                Some((process.rank?, process.restart))
            })
            .collect();
        ranks.len() == communicator.ranks.len()
    }

    /// `rank 3`, `ranks 3 and 5`, `rank 1 of communicator x`, `pid 71 on vertex-2`.
    pub(super) fn ranks(&self, communicator: usize, ranks: &[usize]) -> String {
        let of = &self.calls.communicators[communicator];
        let numbers = self.numbers(communicator, ranks);
        if numbers.is_empty() {
            let title = |s: &usize| {
                let process = &self.capture.processes[of.ranks[*s].process];
                format!("pid {} on {}", process.pid, process.host)
            };
            let titles: Vec<String> = ranks.iter().take(8).map(title).collect();
            return titles.join(", ");
        }
        let plural = if ranks.len() > 1 { "ranks" } else { "rank" };
        match self.by_launcher(of) {
            true => format!("{plural} {numbers}"),
            false => format!("{plural} {numbers} of {}", self.communicator(communicator)),
        }
    }

    fn communicator(&self, communicator: usize) -> String {
        let communicator = &self.capture.communicators[communicator];
        match &communicator.name {
            Some(name) => format!("communicator {} ({name})", communicator.id),
            None => format!("communicator {}", communicator.id),
        }
    }

    /// `AllReduce of 1 MiB, call 58 on communicator x`.
    fn call(&self, communicator: usize, call: &CallRow) -> String {
        let function = call.function.as_deref().unwrap_or("a call");
        let replay = if call.replay { "replay of " } else { "" };
        let bytes = call
            .bytes
            .map_or(String::new(), |b| format!(" of {}", size(b)));
        let on = self.communicator(communicator);
        match (call.number, call.seq) {
            (Some(number), _) => format!("{replay}{function}{bytes}, call {number} on {on}"),
            (None, Some(seq)) => {
                format!("{replay}{function}{bytes}, sequence number {seq} on {on}")
            }
            (None, None) => format!("{replay}{function}{bytes} on {on}"),
        }
    }

    /// The call that those who lack it should have made: a send's other half is a receive.
    fn lacking(&self, wait: &Wait) -> CallRow {
        let mut row = self.call_row(wait.communicator, wait.call, wait.ordinal, wait.lane);
        let other = match row.function.as_deref() {
            Some("Send") => Some("Recv"),
            Some("Recv") => Some("Send"),
            _ => None,
        };
        if let Some(other) = other {
            row.function = Some(other.to_owned());
            row.peer = self.calls.communicators[wait.communicator].ranks[wait.call.0].rank;
        }
        row
    }

    fn named(&self, communicator: usize, row: &CallRow) -> String {
        let call = self.call(communicator, row);
        let ranks = &self.calls.communicators[communicator].ranks;
        let other = row
            .peer
            .and_then(|peer| ranks.iter().position(|s| s.rank == Some(peer)));
        match (other, row.function.as_deref()) {
            (Some(other), Some("Recv")) => {
                format!("{call}, from {}", self.ranks(communicator, &[other]))
            }
            (Some(other), Some("Send")) => {
                format!("{call}, to {}", self.ranks(communicator, &[other]))
            }
            _ => call,
        }
    }

    pub(super) fn say_mismatch(
        &self,
        mismatch: &Mismatch,
        hang: Option<bool>,
        lasted: Option<i64>,
    ) -> Found {
        let Mismatch {
            communicator,
            ordinal,
            most,
            odd,
            tied,
            how,
        } = mismatch;
        let of = &self.calls.communicators[*communicator];
        let row = |member: usize, ordinal: u64| {
            let call = of.ranks[member].call(Lane::Eager, ordinal)?;
            Some(self.call_row(*communicator, (member, call), Some(ordinal), Lane::Eager))
        };
        let short = |row: Option<CallRow>| {
            let Some(row) = row else {
                return "another call".to_owned();
            };
            let bytes = row
                .bytes
                .map_or(String::new(), |b| format!(" of {}", size(b)));
            let function = row.function.as_deref().unwrap_or("a call");
            format!("{function}{bytes}")
        };
        let expected = row(most[0], *ordinal);
        let call = expected
            .as_ref()
            .map_or("a call".to_owned(), |row| self.call(*communicator, row));
        let (odd_ranks, most_ranks) = (
            self.ranks(*communicator, odd),
            self.ranks(*communicator, most),
        );
        let ours = row(odd[0], *ordinal);
        let sentence = match how {
            How::LeftOut => format!(
                "{odd_ranks} left out {call}, which {most_ranks} made, and went on with {}.",
                short(ours.clone())
            ),
            How::Swapped => format!(
                "{odd_ranks} made {} before {call}, which {most_ranks} made first.",
                short(ours.clone())
            ),
            How::Differs => format!(
                "{odd_ranks} made {} where {most_ranks} made {call}.",
                short(ours.clone())
            ),
        };
        let mut details = Vec::new();
        if let (Some(a), Some(b)) = (&ours, &expected) {
            let mut differ = Vec::new();
            let text = |t: &Option<String>| t.clone().unwrap_or("none".to_owned());
            if a.function != b.function {
                differ.push(format!(
                    "function {} and {}",
                    text(&a.function),
                    text(&b.function)
                ));
            }
            if a.bytes != b.bytes {
                let bytes = |b: Option<u64>| b.map_or("unknown".to_owned(), size);
                differ.push(format!("size {} and {}", bytes(a.bytes), bytes(b.bytes)));
            }
            if a.datatype != b.datatype {
                differ.push(format!(
                    "datatype {} and {}",
                    text(&a.datatype),
                    text(&b.datatype)
                ));
            }
            if a.root != b.root {
                let root = |r: Option<u32>| r.map_or("none".to_owned(), |r| r.to_string());
                differ.push(format!("root {} and {}", root(a.root), root(b.root)));
            }
            details.push(format!("They differ in {}.", differ.join(", ")));
        }
        match (hang, lasted) {
            (Some(true), Some(ns)) => {
                details.push(format!("None of them has made a call for {}.", span(ns)))
            }
            // Of a job that was ended the evidence ends there.
            (_, Some(ns)) => details.push(format!(
                "Some of them made a call {} before the newest evidence, so whether the job hangs can't be told from it.",
                span(ns)
            )),
            (_, None) => details.push(
                "When they made calls is not known, so whether the job hangs can't be told."
                    .to_owned(),
            ),
        }
        self.mention_absent(*communicator, &mut details);
        Found {
            verdict: Verdict::Mismatch,
            hang,
            certain: !of.is_partial(),
            sentence: capital(sentence),
            details,
            blamed: odd
                .iter()
                .chain(most.iter().filter(|_| *tied))
                .map(|member| (*communicator, *member))
                .collect(),
            call: expected,
            waited_ns: lasted,
            net_ops: Vec::new(),
            cause: None,
        }
    }

    pub(super) fn say_root(
        &self,
        root: &Root,
        roots: &[Root],
        verdict: Verdict,
        hang: Option<bool>,
        others_ns: Option<i64>,
        blind: Option<usize>,
    ) -> Found {
        let wait = &self.waits[root.index];
        let communicator = wait.communicator;
        let row = self.lacking(wait);
        let call = self.named(communicator, &row);
        let who = self.ranks(communicator, &root.ranks);
        let many = root.ranks.len() > 1;
        let has = if many { "have" } else { "has" };
        let waiting = match self.ranks(communicator, &wait.waiting) {
            ranks if wait.waiting.len() <= NAMED => ranks,
            _ => format!("{} ranks", wait.waiting.len()),
        };
        let time = others_ns.map_or(String::new(), |ns| format!(" for {}", span(ns)));
        let wait_s = if wait.waiting.len() > 1 {
            "wait"
        } else {
            "waits"
        };
        let then = match wait.lack {
            Lack::Call => format!("{has} not made {call}, which {waiting} {wait_s} in{time}"),
            Lack::Launch => format!(
                "{} inside {call}, and {has} not launched it; {waiting} {wait_s}{time}",
                if many { "are" } else { "is" }
            ),
            Lack::Start => format!(
                "{has} launched {call}, and the GPU has not begun it; {waiting} {wait_s}{time}"
            ),
        };
        let first = &self.calls.communicators[communicator].ranks[root.ranks[0]];
        let process = &self.capture.processes[first.process];
        let is = if many { "are" } else { "is" };
        let mut details = Vec::new();
        let sentence = match verdict {
            Verdict::Dead => format!("{who} {is} dead and {then}."),
            Verdict::Left if self.states[first.process] == State::Ended => {
                format!("{who} {has} ended without this: it {then}.")
            }
            Verdict::Left => format!("{who} {has} destroyed the communicator and {then}."),
            Verdict::Stopped => {
                format!("No hang: {who} {is} stopped by a signal or a debugger, and {then}.")
            }
            Verdict::Silent => {
                let last = self.ago(self.evidence[first.process]);
                format!(
                    "{who} on {} {has} written nothing{}: as far as is known, {who} {then}.",
                    process.host,
                    last.map_or(String::new(), |ns| format!(" for {}", span(ns)))
                )
            }
            _ if hang == Some(false) => {
                format!("No hang so far: {who} {then}.")
            }
            _ => format!("{who} {then}."),
        };
        match verdict {
            Verdict::Stopped => details.push(format!(
                "`kill -CONT {}` on {} lets it go on.",
                process.pid, process.host
            )),
            Verdict::Dead | Verdict::Left => {
                details.push(self.last_words(communicator, root.ranks[0]));
            }
            Verdict::Silent => details.push(format!(
                "Whether pid {} lives can only be asked on {}; ask there.",
                process.pid, process.host
            )),
            _ => {
                details.push(self.last_words(communicator, root.ranks[0]));
                details.extend(self.when(hang, others_ns));
            }
        }
        if self.may_lack_more(wait, root.ranks[0]) {
            details.push(capital(format!(
                "{who} may lack an earlier call with ranks that are not in the capture."
            )));
        }
        if let Lack::Start = wait.lack {
            details.push("Work that was given to that GPU before keeps it busy.".to_owned());
        }
        let others: Vec<String> = roots
            .iter()
            .filter(|other| other.index != root.index)
            .map(|other| {
                let wait = &self.waits[other.index];
                let call = self.named(wait.communicator, &self.lacking(wait));
                let lack = if other.ranks.len() > 1 {
                    "lack"
                } else {
                    "lacks"
                };
                format!(
                    "{} {lack} {call}",
                    self.ranks(wait.communicator, &other.ranks)
                )
            })
            .collect();
        if !others.is_empty() {
            let more = others.len().saturating_sub(4);
            let mut text = others.into_iter().take(4).collect::<Vec<_>>().join("; ");
            if more > 0 {
                text += &format!("; and {more} more");
            }
            details.push(format!("Others wait apart from this: {text}."));
        }
        self.mention_absent(communicator, &mut details);
        let sentence = match blind {
            Some(index) if verdict != Verdict::Silent && hang != Some(false) => {
                let unknown = self.unknown(index);
                let text = sentence.trim_end_matches('.');
                format!("{text}, unless it waits itself for {unknown}.")
            }
            _ => sentence,
        };
        Found {
            verdict,
            hang,
            certain: blind.is_none()
                && verdict != Verdict::Silent
                && !self.may_lack_more(wait, root.ranks[0]),
            sentence: capital(sentence),
            details,
            blamed: root
                .ranks
                .iter()
                .map(|member| (communicator, *member))
                .collect(),
            call: Some(row),
            waited_ns: others_ns,
            net_ops: Vec::new(),
            cause: None,
        }
    }

    /// Ranks of a communicator of which not all is known.
    fn unknown(&self, index: usize) -> String {
        let communicator = &self.calls.communicators[index];
        if !communicator.absent.is_empty() {
            let text = ranges(communicator.absent.iter().copied());
            let plural = if communicator.nabsent > 1 {
                "ranks"
            } else {
                "rank"
            };
            return format!("the absent {plural} {text} of {}", self.communicator(index));
        }
        if communicator.nabsent > 0 {
            return format!(
                "{} absent ranks of {}",
                communicator.nabsent,
                self.communicator(index)
            );
        }
        let ranks: Vec<usize> = (0..communicator.ranks.len())
            .filter(|s| communicator.ranks[*s].base.is_none())
            .collect();
        if ranks.is_empty() {
            return format!("ranks of {} with lost rows", self.communicator(index));
        }
        self.ranks(index, &ranks)
    }

    fn mention_absent(&self, index: usize, details: &mut Vec<String>) {
        let communicator = &self.calls.communicators[index];
        if communicator.nabsent > 0 {
            details.push(format!(
                "What {} did is not known: nothing of it is in the capture.",
                self.unknown(index)
            ));
        }
    }

    /// When a wait counts as a hang.
    fn when(&self, hang: Option<bool>, lasted: Option<i64>) -> Option<String> {
        let patience = span(self.patience_ns);
        match (hang, lasted) {
            (Some(true), _) => None,
            (Some(false), _) => Some(format!("A wait counts as a hang from {patience} on.")),
            (None, None) => Some("How long is not known: its times are not.".to_owned()),
            (None, Some(ns)) if ns < self.patience_ns => Some(format!(
                "Long computing, or a checkpoint, looks the same: from {patience} on it counts as a hang (--after)."
            )),
            (None, Some(_)) => Some(
                "The rank still makes other calls, or nothing newer of it is known, so whether this is a hang can't be told yet."
                    .to_owned(),
            ),
        }
    }

    /// The last that is known of a member.
    fn last_words(&self, communicator: usize, member: usize) -> String {
        let state = self.rank_state(communicator, member);
        let who = self.ranks(communicator, &[member]);
        let at = format!("pid {} on {}", state.pid, state.host);
        match &state.entered {
            Some(row) => {
                let how = match (&state.finished, &state.started, &state.launched) {
                    (Some(f), ..) if f.age_s == row.age_s && f.seq == row.seq => "ended on its GPU",
                    (_, Some(s), _) if s.age_s == row.age_s && s.seq == row.seq => {
                        "begun on its GPU"
                    }
                    (.., Some(l)) if l.age_s == row.age_s && l.seq == row.seq => "launched",
                    _ => "entered",
                };
                let ago = row.age_s.map_or(String::new(), |s| {
                    format!(", {} ago", span((s * 1e9) as i64))
                });
                format!(
                    "The last call of {who} there ({at}) is {}: {how}{ago}.",
                    self.call(communicator, row)
                )
            }
            None => format!("No call of {who} ({at}) on this communicator is known."),
        }
    }

    pub(super) fn say_stall(
        &self,
        stall: &Stall,
        dead: Option<usize>,
        stopped: Option<usize>,
        hang: Option<bool>,
        lasted: Option<i64>,
    ) -> Found {
        let communicator = &self.calls.communicators[stall.communicator];
        let net_ops = self.net_ops(stall);
        let row = self.stalled_call(stall, &net_ops);
        let call = self.call(stall.communicator, &row);
        let time = lasted.map_or(String::new(), |ns| format!(" for {}", span(ns)));
        let all = if communicator.is_partial() {
            format!("All {} ranks that are known", communicator.ranks.len())
        } else {
            format!("All {} ranks", communicator.ranks.len())
        };
        let mut details = Vec::new();
        let mut verdict = Verdict::NoProgress;
        let mut blamed = Vec::new();
        let root = net_ops.roots.first();
        let unclear = root.is_some_and(|root| match root.cause {
            Cause::Unknown => true,
            // It may not have come to its half yet.
            Cause::Network | Cause::Receiver => matches!(root.half, Half::Closed | Half::None),
            _ => root.inferred,
        });
        let op = root.map(|root| self.say_net_op(stall, &net_ops, root, &call));
        let not_ended = match stall.ordinal {
            Some(_) => format!("{all} are in {call}, and it has not ended{time}"),
            None => {
                let open = net_ops.all.iter().map(|open| open.member);
                let ranks: BTreeSet<usize> = open.chain([stall.call.0]).collect();
                let ranks: Vec<usize> = ranks.into_iter().collect();
                let who = capital(are(&self.ranks(stall.communicator, &ranks), ranks.len()));
                format!("{who} in {call}, and it has not ended{time}")
            }
        };
        let sentence = if let Some(member) = dead {
            verdict = Verdict::Dead;
            blamed.push((stall.communicator, member));
            format!(
                "{} is dead; {all} were in {call}, and it has not ended{time}.",
                self.ranks(stall.communicator, &[member])
            )
        } else if let Some(member) = stopped {
            verdict = Verdict::Stopped;
            blamed.push((stall.communicator, member));
            format!(
                "No hang: {} is stopped by a signal or a debugger while {all} are in {call}.",
                self.ranks(stall.communicator, &[member])
            )
        } else if hang == Some(false) {
            format!("No hang: {all} are in {call}, and it goes on{time}.")
        } else if communicator.is_partial() {
            verdict = Verdict::Unknown;
            details.extend(op);
            format!(
                "{not_ended}; what {} did is not known.",
                self.unknown(stall.communicator)
            )
        } else if stall.inside {
            format!("{all} are inside {call}, and none has launched it{time}.")
        } else if let (Some(op), Some(root)) = (op, root) {
            blamed.extend(
                root.ranks
                    .iter()
                    .map(|member| (stall.communicator, *member)),
            );
            details.push(format!("{not_ended}."));
            op
        } else {
            format!("{not_ended}.")
        };
        if !matches!(verdict, Verdict::Dead | Verdict::Stopped) {
            match net_ops.all.is_empty() {
                true => details.extend(self.network(stall)),
                false => details.extend(self.say_other_net_ops(stall, &net_ops)),
            }
            details.extend(self.when(hang, lasted));
        }
        Found {
            verdict,
            hang: if verdict == Verdict::Unknown {
                None
            } else {
                hang
            },
            certain: verdict != Verdict::Unknown && !unclear,
            sentence: capital(sentence),
            details,
            blamed,
            call: Some(row),
            waited_ns: lasted,
            net_ops: self.net_op_rows(stall, &net_ops),
            cause: root.map(|root| root.cause),
        }
    }

    /// What the network did for a stalled operation: who is behind, and in which waits.
    fn network(&self, stall: &Stall) -> Vec<String> {
        let communicator = &self.calls.communicators[stall.communicator];
        let Some(ordinal) = stall.ordinal else {
            return Vec::new();
        };
        let of = |(member, own): (usize, &super::calls::RankCalls)| {
            let process = &self.capture.processes[own.process];
            let call = &process.calls[own.call(stall.lane, ordinal)? as usize];
            let extra = process.extras.get((call.extra as usize).checked_sub(1)?)?;
            (extra.ops_started > 0).then_some((member, extra))
        };
        let all: Vec<_> = communicator
            .ranks
            .iter()
            .enumerate()
            .filter_map(of)
            .collect();
        if all.is_empty() {
            return Vec::new();
        }
        let open: Vec<usize> = all
            .iter()
            .filter(|(_, e)| e.ops_started > e.ops_stopped)
            .map(|(member, _)| *member)
            .collect();
        let mut said = Vec::new();
        if !open.is_empty() {
            said.push(format!(
                "The network has unfinished operations for it on {}.",
                self.ranks(stall.communicator, &open)
            ));
        }
        let Some((member, least)) = all
            .iter()
            .min_by_key(|(_, e)| e.bytes_sent + e.bytes_received)
        else {
            return said;
        };
        let longest = WAITS
            .iter()
            .zip(least.waits_ns)
            .max_by_key(|(_, ns)| *ns)
            .filter(|(_, ns)| *ns > 0);
        let wait = longest.map_or(String::new(), |(name, ns)| {
            format!(
                ", and its finished steps waited longest in {name} ({})",
                span(ns as i64)
            )
        });
        said.push(format!(
            "{} moved least: {} sent, {} received in {} steps{wait}.",
            capital(self.ranks(stall.communicator, &[*member])),
            size(least.bytes_sent),
            size(least.bytes_received),
            least.steps
        ));
        said.push("Which step waits now, and for which peer, is not recorded.".to_owned());
        said
    }

    /// `steps` are (wait, member that waits, member that it waits for), round the ring.
    pub(super) fn say_cycle(
        &self,
        steps: &[(usize, usize, usize)],
        hang: Option<bool>,
        lasted: Option<i64>,
    ) -> Found {
        let parts: Vec<String> = steps
            .iter()
            .map(|(index, waiting, missing)| {
                let wait = &self.waits[*index];
                let row = self.call_row(wait.communicator, wait.call, wait.ordinal, wait.lane);
                format!(
                    "{} is in {} and waits for {}",
                    self.ranks(wait.communicator, &[*waiting]),
                    self.call(wait.communicator, &row),
                    self.ranks(wait.communicator, &[*missing])
                )
            })
            .collect();
        let time = lasted.map_or(String::new(), |ns| format!(", for {}", span(ns)));
        let start = if hang == Some(false) {
            "No hang so far, but a cycle"
        } else {
            "A cycle"
        };
        let mut details: Vec<String> = self.when(hang, lasted).into_iter().collect();
        details.push(
            "Each may lie behind the other on a stream: calls on several communicators need one order on all ranks."
                .to_owned(),
        );
        let partial = steps.iter().any(|(wait, ..)| {
            self.calls.communicators[self.waits[*wait].communicator].is_partial()
        });
        let first = steps.first().map(|(index, ..)| {
            let wait = &self.waits[*index];
            self.call_row(wait.communicator, wait.call, wait.ordinal, wait.lane)
        });
        Found {
            verdict: Verdict::Cycle,
            hang,
            certain: !partial,
            sentence: format!("{start}: {}{time}.", parts.join("; ")),
            details,
            blamed: steps
                .iter()
                .map(|(index, waiting, _)| (self.waits[*index].communicator, *waiting))
                .collect(),
            call: first,
            waited_ns: lasted,
            net_ops: Vec::new(),
            cause: None,
        }
    }

    /// A cycle in which one rank, at `step`, came by another way than ever before; the rank at `before` waits for it.
    pub(super) fn say_astray(
        &self,
        steps: &[(usize, usize, usize)],
        step: usize,
        before: usize,
        hang: Option<bool>,
        lasted: Option<i64>,
    ) -> Found {
        let cycle = self.say_cycle(steps, hang, lasted);
        let (index, waiting, _) = steps[step];
        let own = &self.waits[index];
        let lacked = &self.waits[steps[before].0];
        let row = self.lacking(lacked);
        let made = self.call_row(own.communicator, own.call, own.ordinal, own.lane);
        let who = self.ranks(own.communicator, &[waiting]);
        let start = if hang == Some(false) {
            "No hang so far, but "
        } else {
            ""
        };
        let sentence = format!(
            "{start}{who} went on to {} without {}, which {} {} in{}.",
            self.call(own.communicator, &made),
            self.named(lacked.communicator, &row),
            self.ranks(lacked.communicator, &lacked.waiting),
            if lacked.waiting.len() > 1 {
                "wait"
            } else {
                "waits"
            },
            lasted.map_or(String::new(), |ns| format!(" for {}", span(ns)))
        );
        let mut details = vec![
            format!("Every time before, {who} came to that call after another one."),
            cycle.sentence,
        ];
        details.extend(cycle.details);
        Found {
            verdict: Verdict::Missing,
            sentence: capital(sentence),
            details,
            blamed: vec![(own.communicator, waiting)],
            call: Some(row),
            ..cycle
        }
    }

    /// Nobody is seen to wait. `odd` are the dead, stopped and silent processes of communicators that are not over.
    pub(super) fn say_quiet(
        &self,
        over: bool,
        lasted: Option<i64>,
        brief: bool,
        odd: [BTreeSet<usize>; 3],
        open: &[(usize, &CommunicatorCalls)],
    ) -> Found {
        let titles = |processes: &BTreeSet<usize>| {
            let ranks: Option<Vec<u32>> = processes
                .iter()
                .map(|p| self.capture.processes[*p].rank)
                .collect();
            match ranks {
                Some(ranks) if ranks.len() > 1 => format!("ranks {}", ranges(ranks)),
                _ => {
                    let titles = processes.iter().take(8);
                    let titles: Vec<String> =
                        titles.map(|p| self.capture.processes[*p].title()).collect();
                    titles.join(", ")
                }
            }
        };
        let last = lasted.map_or("at an unknown time".to_owned(), |ns| {
            format!("{} ago", span(ns))
        });
        let [dead, stopped, silent] = odd;
        let ranks: usize = open.iter().map(|(_, p)| p.ranks.len()).max().unwrap_or(0);
        let absent = open.iter().find(|(_, p)| p.is_partial());
        let (verdict, hang, sentence) = if over {
            let text = "No hang: all communicators that are in the capture have ended.";
            (Verdict::NoHang, Some(false), text.to_owned())
        } else if !stopped.is_empty() {
            let text = format!(
                "No hang: {} stopped by a signal or a debugger.",
                are(&titles(&stopped), stopped.len())
            );
            (Verdict::Stopped, Some(false), text)
        } else if !dead.is_empty() {
            let text = format!(
                "Can't tell: {} dead, and nobody is seen to wait for it; the newest call was {last}.",
                are(&titles(&dead), dead.len())
            );
            (Verdict::Unknown, None, text)
        } else if brief {
            let text = format!("No hang: nobody waits for another; the newest call was {last}.");
            (Verdict::NoHang, Some(false), text)
        } else if !silent.is_empty() {
            let text = format!(
                "Can't tell: {} written nothing for long, and nobody is seen to wait for it; the newest call was {last}.",
                have(&titles(&silent), silent.len())
            );
            (Verdict::Silent, None, text)
        } else if let Some((index, communicator)) = absent.copied() {
            let text = format!(
                "Can't tell: the {} known ranks of {} have made the same calls, the newest {last}; what {} did is not known.",
                communicator.ranks.len(),
                self.communicator(index),
                self.unknown(index)
            );
            (Verdict::Unknown, None, text)
        } else {
            let text = format!(
                "Can't tell: all {ranks} ranks have made the same calls, the newest {last}, and whether their GPUs have ended them is not recorded."
            );
            (Verdict::Unknown, None, text)
        };
        let mut details = Vec::new();
        if hang.is_none() && silent.is_empty() && dead.is_empty() {
            details.push(
                "A job that computes or is idle looks the same. GPU times (NCCLSCOPE_TIMING) show which calls have ended."
                    .to_owned(),
            );
        }
        Found {
            verdict,
            hang,
            certain: hang.is_some(),
            sentence: capital(sentence),
            details,
            blamed: Vec::new(),
            call: None,
            waited_ns: None,
            net_ops: Vec::new(),
            cause: None,
        }
    }

    pub(super) fn next(&self, found: &Found) -> String {
        let folder = self.capture.path.display();
        let process = found.blamed.first().map(|(communicator, member)| {
            let member = &self.calls.communicators[*communicator].ranks[*member];
            &self.capture.processes[member.process]
        });
        match (found.verdict, process) {
            (Verdict::NoHang, _) => format!("ncclscope report {folder}"),
            (Verdict::Stopped, Some(process)) => format!("kill -CONT {}", process.pid),
            (Verdict::Missing | Verdict::Inside | Verdict::NotBegun, Some(process)) => {
                format!("py-spy dump --pid {} (on {})", process.pid, process.host)
            }
            (Verdict::Silent | Verdict::Unknown, _) => format!("ncclscope collect {folder}"),
            _ => format!("ncclscope hang {folder} --json"),
        }
    }
}

fn are(text: &str, n: usize) -> String {
    format!("{text} {}", if n > 1 { "are" } else { "is" })
}

fn have(text: &str, n: usize) -> String {
    format!("{text} {}", if n > 1 { "have" } else { "has" })
}

pub(super) fn capital(text: String) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => text,
    }
}

/// A length of time in few digits.
pub(super) fn span(ns: i64) -> String {
    let s = ns as f64 / 1e9;
    if s < 0.0995 {
        format!("{:.0} ms", s * 1e3)
    } else if s < 9.95 {
        format!("{s:.1} s")
    } else if s < 119.5 {
        format!("{s:.0} s")
    } else if s < 7170.0 {
        format!("{:.0} min", s / 60.0)
    } else {
        format!("{:.1} h", s / 3600.0)
    }
}
