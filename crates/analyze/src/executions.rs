//! Walks over what a process executed, once, for all analyses.
//!
//! A [`Walk`] deals the calls of one [`Process`] out as [`Execution`]s in the order of their tickets. A call
//! is an execution, and so are the pieces of an AlltoAll, Gather, Scatter or SendRecv together. Executions
//! that have everything but times in common share a [`Place`], so an analysis looks its row up once per place
//! and then by index.
//!
//! A process may come in parts, if none of its operations is made of several calls; [`Steps`] then goes from
//! walk to walk.
//!
//! Rule: every call of the process is in exactly one execution. Nothing is looked up or allocated per call.

use capture::live::{flag, Cause};
use std::collections::HashMap;
use tables::{Call, GpuTimes, Name, Process, Shape, Untimed};

/// All causes of [`Untimed`], each at its own number.
pub const CAUSES: [Untimed; 15] = [
    Untimed::NoStamp,
    Untimed::Fused,
    Untimed::Repeated,
    Untimed::Backwards,
    Untimed::Stale,
    Untimed::Desynchronised,
    Untimed::Negative,
    Untimed::Missing,
    Untimed::Unfinished,
    Untimed::SealedEarly,
    Untimed::Rowless,
    Untimed::Unsampled,
    Untimed::EarlyStop,
    Untimed::NoEvent,
    Untimed::InGraph,
];

/// Counts by [`CAUSES`].
pub type ByCause = [u64; CAUSES.len()];

/// What executions have in common.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Shape of the call, or of the first piece.
    pub shape: &'a Shape,
    /// Function of the operation.
    pub function: Name,
    /// Number of the rank and communicator in this process, from 0: one for each communicator the process
    /// told of.
    pub local: u32,
}

/// One rank's part in an operation, whole. Times are ns; what is not known is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// Index of its [`Place`].
    pub place: usize,
    /// As in [`Place`].
    pub shape: &'a Shape,
    /// The call, or the first piece.
    pub call: &'a Call,
    /// The call, or the piece that ended last on the GPU.
    pub last: &'a Call,
    /// Announced calls in it.
    pub pieces: u64,
    /// A template in a CUDA graph, which is not executed.
    pub captured: bool,
    /// The first execution on its communicator by this rank.
    pub warmup: bool,
    /// No call of its process is missing before it, as far as is known.
    pub whole: bool,
    /// Time on the GPU, or why there is none.
    pub gpu: Result<u64, Untimed>,
    /// From first start to last stop, where these are times of NCCL kernels, also of a batch: both known and
    /// in order.
    pub kernel: GpuTimes,
    /// From API entry to return on the host's clock.
    pub api: Option<(i64, i64)>,
    /// From API entry to the beginning of the launch.
    pub enqueue: Option<u64>,
    /// From the beginning of the launch to its end.
    pub launch: Option<u64>,
    /// Waits of the network proxy's steps, summed.
    pub proxy: Option<u64>,
    /// What it had on the network, where steps were recorded.
    pub network: Option<OnNetwork>,
}

/// What a call had on the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnNetwork {
    /// How long the network operation that was longest in the network's hands was there, ns.
    pub longest: u64,
    /// The peer of that one in the communicator.
    pub peer: Option<u32>,
    /// It sends; else it receives.
    pub sends: bool,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

impl Execution<'_> {
    /// Host time from API entry to return, ns.
    pub fn host(&self) -> Option<u64> {
        let (begin, end) = self.api?;
        u64::try_from(end.checked_sub(begin)?).ok()
    }
}

/// Calls of a process that never had a row.
fn rowless(process: &Process) -> u64 {
    let lost = process.counters.as_ref().map(|counters| &counters.lost);
    let of = |cause: &Cause| lost?.get(*cause as usize).copied();
    let all = Cause::WITHOUT_ROW.iter().filter_map(of);
    all.fold(0, u64::saturating_add)
}

/// How far a process was walked, where that takes several walks over a part each.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Whether something was executed, by [`Place::local`].
    begun: Vec<bool>,
    /// Whether some ticket is missing.
    gap: bool,
    calls: u64,
    tickets: u64,
}

impl Steps {
    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The highest ticket so far + 1, 0 without calls.
    pub fn tickets(&self) -> u64 {
        self.tickets
    }
}

/// The way through one process.
pub struct Walk<'a> {
    process: &'a Process,
    places: Vec<Place<'a>>,
    /// By composite.
    composite_places: Vec<usize>,
    locals: usize,
}

impl<'a> Walk<'a> {
    /// Prepares the way: the cost is in shapes and composites.
    pub fn new(process: &'a Process) -> Walk<'a> {
        let mut uids: HashMap<u32, u32> = HashMap::new();
        let mut places: Vec<Place> = Vec::with_capacity(process.shapes.len());
        for shape in &process.shapes {
            let next = uids.len() as u32;
            places.push(Place {
                shape,
                function: shape.function,
                local: *uids.entry(shape.uid).or_insert(next),
            });
        }
        let mut known: HashMap<(u32, Name), usize> = HashMap::new();
        let composite_places = process
            .composites
            .iter()
            .map(|composite| {
                let first = composite.calls.first().map_or(0, |index| *index as usize);
                let shape = process.calls.get(first).map_or(0, |call| call.shape);
                *known.entry((shape, composite.function)).or_insert_with(|| {
                    places.extend(places.get(shape as usize).copied().map(|place| Place {
                        function: composite.function,
                        ..place
                    }));
                    places.len().saturating_sub(1)
                })
            })
            .collect();
        Walk {
            process,
            places,
            composite_places,
            locals: uids.len(),
        }
    }

    /// The places; those of the process's shapes come first, in their order.
    pub fn places(&self) -> &[Place<'a>] {
        &self.places
    }

    /// Whether the process's GPU times are of CUDA events.
    pub fn has_events(&self) -> bool {
        matches!(self.process.fact("timing"), Some("auto" | "events"))
    }

    /// How many numbers [`Place::local`] can have.
    pub fn locals(&self) -> usize {
        self.locals
    }

    /// Hands every execution to `each`, by ticket. `steps` is of the part of the process that was walked
    /// before, or new.
    pub fn for_each(&self, steps: &mut Steps, mut each: impl FnMut(&Execution)) {
        let process = self.process;
        // Calls that never had a row took no ticket, so nothing tells where they were.
        let has_all = rowless(process) == 0;
        let has_first = process.begins_with_first_call();
        steps.begun.resize(self.locals, false);
        for (index, call) in process.calls.iter().enumerate() {
            // Tickets count up from 0; with one missing, the first call that is here need not be the first
            // there was.
            steps.gap |= call.ticket != steps.calls;
            steps.calls += 1;
            steps.tickets = call.ticket.saturating_add(1);
            let mut execution = match (call.composite as usize).checked_sub(1) {
                None => self.single(call),
                Some(composite) => {
                    let calls = &process.composites[composite].calls;
                    // Pieces are by ticket, so this comes once and before those of later operations.
                    if calls.first() != Some(&(index as u32)) {
                        continue;
                    }
                    self.composite(composite, call)
                }
            };
            execution.whole = has_all && !steps.gap;
            if !execution.captured {
                let local = self.places[execution.place].local as usize;
                execution.warmup = has_first && !steps.gap && !steps.begun[local];
                steps.begun[local] = true;
            }
            each(&execution);
        }
    }

    fn single(&self, call: &'a Call) -> Execution<'a> {
        let shape = &self.process.shapes[call.shape as usize];
        let gpu = call.gpu_ns(shape);
        Execution {
            place: call.shape as usize,
            shape,
            call,
            last: call,
            pieces: 1,
            captured: shape.is(flag::CAPTURED),
            warmup: false,
            whole: false,
            gpu,
            kernel: match gpu {
                Ok(_) | Err(Untimed::Fused) => call.gpu,
                Err(_) => GpuTimes::None,
            },
            api: api(call, shape),
            enqueue: enqueue(call, shape),
            launch: between(call.launch_start_ns, call.launch_end_ns),
            proxy: self.proxy(call),
            network: self.network(call),
        }
    }

    fn composite(&self, number: usize, first: &'a Call) -> Execution<'a> {
        let process = self.process;
        let composite = &process.composites[number];
        let shape = &process.shapes[first.shape as usize];
        let calls = || {
            let call = |index: &u32| &process.calls[*index as usize];
            composite.calls.iter().map(call)
        };
        let kernel = composite_kernel(process, &composite.calls, composite.alone);
        let api =
            calls()
                .map(|call| api(call, shape))
                .try_fold((i64::MAX, 0), |(begin, end), api| {
                    let (b, e) = api?;
                    Some((begin.min(b), end.max(e)))
                });
        Execution {
            place: self.composite_places[number],
            shape,
            call: first,
            last: calls().max_by_key(|call| call.gpu.stop()).unwrap_or(first),
            pieces: composite.calls.len() as u64,
            captured: shape.is(flag::CAPTURED),
            warmup: false,
            whole: false,
            gpu: kernel.and_then(|times| times.length().ok_or(Untimed::Negative)),
            kernel: kernel.unwrap_or_default(),
            api,
            enqueue: enqueue(first, shape),
            launch: between(first.launch_start_ns, first.launch_end_ns),
            proxy: calls()
                .filter_map(|call| self.proxy(call))
                .reduce(u64::saturating_add),
            network: calls()
                .filter_map(|call| self.network(call))
                .reduce(|a, b| OnNetwork {
                    sent: a.sent.saturating_add(b.sent),
                    received: a.received.saturating_add(b.received),
                    ..if b.longest > a.longest { b } else { a }
                }),
        }
    }

    fn network(&self, call: &Call) -> Option<OnNetwork> {
        let extra = (call.extra as usize).checked_sub(1)?;
        let extra = self.process.extras.get(extra)?;
        (extra.steps != 0).then(|| OnNetwork {
            longest: extra.longest_ns,
            peer: extra.longest_peer.checked_sub(1),
            sends: extra.longest_sends,
            sent: extra.bytes_sent,
            received: extra.bytes_received,
        })
    }

    fn proxy(&self, call: &Call) -> Option<u64> {
        let extra = self
            .process
            .extras
            .get((call.extra as usize).checked_sub(1)?)?;
        let waited = extra
            .waits_ns
            .iter()
            .fold(0, |a: u64, b| a.saturating_add(*b));
        (extra.steps != 0).then_some(waited)
    }
}

/// Host times of an API call. A replay and a call of a legacy ABI have no API call to measure.
fn api(call: &Call, shape: &Shape) -> Option<(i64, i64)> {
    let measured = !shape.is(flag::REPLAY) && !shape.is(flag::LEGACY);
    (measured && call.host_ns().is_some()).then_some((call.api_ns, call.return_ns))
}

fn between(begin: i64, end: i64) -> Option<u64> {
    if begin == 0 || end == 0 {
        return None;
    }
    u64::try_from(end.checked_sub(begin)?).ok()
}

/// From API entry to launch; without a launch that is the call's, to the event that says NCCL has enqueued
/// it.
fn enqueue(call: &Call, shape: &Shape) -> Option<u64> {
    if shape.is(flag::REPLAY) || shape.is(flag::LEGACY) {
        return None;
    }
    let end = match call.launch_start_ns {
        0 => call.enqueue_ns,
        launch => launch,
    };
    between(call.api_ns, end)
}

/// The GPU times of an operation of several calls: first start and last stop.
fn composite_kernel(process: &Process, calls: &[u32], alone: bool) -> Result<GpuTimes, Untimed> {
    let mut times = GpuTimes::None;
    for index in calls {
        let call = &process.calls[*index as usize];
        let shape = &process.shapes[call.shape as usize];
        let with_oneself = shape.peer.is_none() || shape.peer == shape.rank;
        match call.gpu_ns(shape) {
            // One batch that is one operation: its time is the operation's.
            Err(Untimed::Fused) if alone => {}
            // NCCL up to 2.30 launches nothing for the pair with oneself.
            Err(Untimed::NoStamp) if with_oneself && calls.len() > 1 => continue,
            Err(cause) => return Err(cause),
            Ok(_) => {}
        }
        // A piece that could not be moved to the host's clock, beside others that could.
        times = times.around(call.gpu).ok_or(Untimed::Missing)?;
    }
    match times {
        GpuTimes::None => Err(Untimed::NoStamp),
        times => Ok(times),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::composites::Composite;

    /// The only operation of a process, of pieces with these times; the peer of the first is the rank itself.
    fn operation(pieces: &[GpuTimes]) -> (Result<u64, Untimed>, GpuTimes) {
        let shape = |peer| Shape {
            rank: Some(0),
            peer: Some(peer),
            ..Shape::default()
        };
        let call = |(ticket, gpu): (usize, &GpuTimes)| Call {
            ticket: ticket as u64,
            shape: ticket as u32,
            gpu: *gpu,
            channels_started: u16::from(*gpu != GpuTimes::None),
            channels_stopped: u16::from(*gpu != GpuTimes::None),
            composite: 1,
            sealed: true,
            ..Call::default()
        };
        let process = Process {
            shapes: (0..pieces.len() as u32).map(shape).collect(),
            calls: pieces.iter().enumerate().map(call).collect(),
            composites: vec![Composite {
                function: Name::NONE,
                calls: (0..pieces.len() as u32).collect(),
                alone: true,
            }],
            ..Process::default()
        };
        let mut found = None;
        let walk = Walk::new(&process);
        walk.for_each(&mut Steps::default(), |execution| {
            found = Some((execution.gpu, execution.kernel));
        });
        found.expect("an operation")
    }

    #[test]
    fn pieces_are_one_time_on_the_clock_that_they_share() {
        let on_host = |start, stop, error| GpuTimes::OnHost { start, stop, error };
        let both = operation(&[on_host(100, 300, 5), on_host(200, 600, 9)]);
        assert_eq!(both, (Ok(500), on_host(100, 600, 9)));
        let stamps = operation(&[GpuTimes::stamps(7, 9), GpuTimes::stamps(3, 8)]);
        assert_eq!(stamps, (Ok(6), GpuTimes::stamps(3, 9)));
        // NCCL launches nothing for the pair with oneself, so that piece says nothing of the clock.
        let own = operation(&[GpuTimes::None, on_host(200, 600, 9)]);
        assert_eq!(own, (Ok(400), on_host(200, 600, 9)));
        let mixed = operation(&[GpuTimes::stamps(3, 8), on_host(200, 600, 9)]);
        assert_eq!(mixed, (Err(Untimed::Missing), GpuTimes::None));
    }
}
