//! Collectives that all made, in an order that can't end.
//!
//! Each rank made all calls, so no rank lacks one. But rank 0 made a call on communicator A before one on B,
//! and rank 1 the other way round: if a stream works off its calls in order, each waits behind the other.
//! [`crossed`] plays the collectives of all ranks like that, and says where the play stands still.
//!
//! Rule: calls on other streams may run side by side, and a job may always make them in such an order. So an
//! order counts only if nothing shows that calls behind such a place have ended.

use super::super::calls::{CaptureCalls, Lane};
use super::super::reached::{known, newest, Reached};
use super::{Lack, Wait, AHEAD};
use std::collections::{BTreeMap, HashMap};

/// Newest collectives of each rank that are played: enough for an order that comes again and again to show,
/// and few enough for long jobs.
const PLAYED: usize = 4 * AHEAD;

/// A collective: communicator and ordinal.
type Operation = (usize, u64);

/// A collective as one vertex made it.
#[derive(Clone, Copy)]
struct Made {
    operation: Operation,
    member: usize,
    call: u32,
    group: u64,
}

/// The collectives at which the play stands still, each as a wait of those that have come to it for those
/// that have not. Empty if it does not, or if calls behind such a place have ended.
pub(super) fn crossed(calls: &CaptureCalls) -> Vec<Wait> {
    let queues = queues(calls);
    let mut play = Play::new(&queues);
    play.run();
    let stuck: Vec<usize> = (0..queues.len())
        .filter(|vertex| !play.front(*vertex).is_empty())
        .collect();
    let mut by_operation: BTreeMap<Operation, Vec<usize>> = BTreeMap::new();
    for vertex in &stuck {
        for made in play
            .front(*vertex)
            .iter()
            .filter(|made| !play.is_done(made))
        {
            by_operation
                .entry(made.operation)
                .or_default()
                .push(*vertex);
        }
    }
    let has_ended = |vertex: &usize| {
        let (at, queue) = (play.next[*vertex], &queues[*vertex]);
        let process = |made: &Made| {
            let communicator = &calls.communicators[made.operation.0];
            communicator.ranks[made.member].process
        };
        let ended = |made: &Made| calls.reached(process(made), made.call) == Reached::Finished;
        queue.len() - at > AHEAD || queue[at..].iter().any(ended)
    };
    if stuck.iter().any(has_ended) {
        return Vec::new();
    }
    let wait = |(operation, at_front): (&Operation, &Vec<usize>)| {
        let (communicator, ordinal) = *operation;
        let ranks = &calls.communicators[communicator].ranks;
        let members = ranks.iter().enumerate();
        let made = members.filter_map(|(member, own)| {
            let call = own.call(Lane::Eager, ordinal)?;
            Some((at_front.contains(&own.vertex), (member, call)))
        });
        let (there, away): (Vec<_>, Vec<_>) = made.partition(|(is_there, _)| *is_there);
        let waiting: Vec<(usize, u32)> = there.into_iter().map(|(_, at)| at).collect();
        let times = waiting.iter().map(|at| calls.made(communicator, *at).0);
        Wait {
            communicator,
            lane: Lane::Eager,
            ordinal: Some(ordinal),
            lack: Lack::Start,
            waiting: waiting.iter().map(|(member, _)| *member).collect(),
            missing: away.into_iter().map(|(_, (member, _))| member).collect(),
            call: waiting[0],
            met: 0,
            is_crossed: true,
            may_have_ended: false,
            went_on: None,
            since: times.filter_map(|call| known(call.api_ns)).min(),
            calls: waiting,
        }
    };
    let waits: Vec<Wait> = by_operation.iter().map(wait).collect();
    // Without times the order of calls is not known.
    let timed = |wait: &Wait| {
        let time = |at: &(usize, u32)| newest(calls.made(wait.communicator, *at).0);
        wait.calls.iter().all(|at| time(at).is_some())
    };
    if waits.iter().all(timed) {
        waits
    } else {
        Vec::new()
    }
}

/// By vertex: the newest collectives, in the order in which it made them. Those that not all known members
/// of a communicator have among theirs are left out, and so are communicators of which not all is known.
fn queues(calls: &CaptureCalls) -> Vec<Vec<Made>> {
    let mut queues: Vec<Vec<Made>> = vec![Vec::new(); calls.vertices];
    let mut members: HashMap<usize, usize> = HashMap::new();
    for (index, communicator) in calls.communicators.iter().enumerate() {
        if communicator.is_over() || communicator.is_partial() || !communicator.is_shared() {
            continue;
        }
        members.insert(index, communicator.ranks.len());
        for (member, own) in communicator.ranks.iter().enumerate() {
            let all = &own.calls[Lane::Eager as usize];
            let from = all.len().saturating_sub(PLAYED);
            let base = own.base.unwrap_or(0);
            for (at, call) in all.iter().enumerate().skip(from) {
                let (made, _) = calls.made(index, (member, *call));
                queues[own.vertex].push(Made {
                    operation: (index, base + at as u64),
                    member,
                    call: *call,
                    group: made.group,
                });
            }
        }
    }
    let mut held: HashMap<Operation, usize> = HashMap::new();
    for queue in &mut queues {
        queue.sort_unstable_by_key(|made| made.call);
        queue.drain(..queue.len().saturating_sub(PLAYED));
        for made in queue.iter() {
            *held.entry(made.operation).or_default() += 1;
        }
    }
    for queue in &mut queues {
        queue.retain(|made| held[&made.operation] == members[&made.operation.0]);
    }
    queues
}

/// The state of the play.
struct Play<'q> {
    queues: &'q [Vec<Made>],
    /// By vertex: index of the first collective that has not ended.
    next: Vec<usize>,
    /// How many members have not come to a collective.
    away: HashMap<Operation, usize>,
}

impl<'q> Play<'q> {
    fn new(queues: &'q [Vec<Made>]) -> Play<'q> {
        let mut away: HashMap<Operation, usize> = HashMap::new();
        for made in queues.iter().flatten() {
            *away.entry(made.operation).or_default() += 1;
        }
        Play {
            queues,
            next: vec![0; queues.len()],
            away,
        }
    }

    /// The collectives that a vertex has come to: the first that has not ended, and those of its group.
    fn front(&self, vertex: usize) -> &'q [Made] {
        let rest = &self.queues[vertex][self.next[vertex]..];
        let group = rest.first().map_or(0, |made| made.group);
        let beside = rest
            .iter()
            .take_while(|made| group != 0 && made.group == group);
        &rest[..beside.count().max(1).min(rest.len())]
    }

    fn is_done(&self, made: &Made) -> bool {
        self.away[&made.operation] == 0
    }

    /// Ends every collective that all members have come to, until there is none.
    fn run(&mut self) {
        let mut owners: HashMap<Operation, Vec<usize>> = HashMap::new();
        let mut arrived: Vec<usize> = (0..self.queues.len()).collect();
        let mut waiting: HashMap<usize, usize> = HashMap::new();
        while let Some(vertex) = arrived.pop() {
            let front = self.front(vertex);
            if front.is_empty() {
                continue;
            }
            waiting.insert(vertex, front.len());
            for made in front {
                owners.entry(made.operation).or_default().push(vertex);
                let away = self.away.get_mut(&made.operation).expect("it is counted");
                *away -= 1;
                if *away > 0 {
                    continue;
                }
                for owner in owners.remove(&made.operation).unwrap_or_default() {
                    let left = waiting.get_mut(&owner).expect("it has a front");
                    *left -= 1;
                    if *left == 0 {
                        self.next[owner] += self.front(owner).len();
                        arrived.push(owner);
                    }
                }
            }
        }
    }
}
