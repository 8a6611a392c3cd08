//! One rank: it does what the lead orders, on one GPU.
//!
//! A second thread tells the lead where the rank is, even while the first one is stuck in NCCL. It ends the
//! process when the lead is gone.
//!
//! Rule: between the start and the end of what is timed there are NCCL's calls, event records and clock
//! readings, and nothing else.

use crate::cuda::{Address, Cuda, Event, Graph, Stream};
use crate::datatype::Reduction;
use crate::function::{Function, Shape};
use crate::launcher::RankPlace;
use crate::link::{
    hex, unhex, Batch, Case, Device, Hello, Link, Order, Progress, Reply, Stage, BEAT,
};
use crate::meet::{now, Meet};
use crate::nccl::{Call, Communicator, Nccl, UniqueId};
use crate::pattern::{differences, pieces, Pattern};
use crate::plan::{Mode, Plan};
use anyhow::{anyhow, bail, Context, Result};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::Relaxed};

/// What a rank needs to know beforehand.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is to be measured.
    pub plan: Plan,
    /// Which rank it is.
    pub place: RankPlace,
    /// NCCL's path or name.
    pub nccl: OsString,
    /// The driver's path.
    pub cuda: Option<PathBuf>,
}

/// Where a rank is, for its other thread.
#[derive(Default)]
struct Position {
    stage: AtomicU8,
    step: AtomicU64,
    /// Nothing more is to be done, so the lead may go.
    over: AtomicBool,
}

impl Position {
    fn at(&self, stage: Stage) {
        self.stage.store(stage as u8, Relaxed);
    }

    fn progress(&self) -> Progress {
        Progress {
            stage: Stage::ALL[usize::from(self.stage.load(Relaxed))],
            step: self.step.load(Relaxed),
        }
    }
}

const GONE: &str = "rank 0 has ended the run; it says why";

/// Serves the lead at the other end of the socket until it says `End`. `alone` is whether this process is
/// nothing else, and so ends when the lead is gone.
///
/// # Errors
/// What went wrong; the lead has been told.
pub fn serve(setup: &Setup, socket: File, alone: bool) -> Result<()> {
    let fd = socket.as_raw_fd();
    let link = Link::new(socket)?;
    let position = Position::default();
    std::thread::scope(|scope| {
        scope.spawn(|| watch(fd, &link, &position, alone));
        let done = work(setup, &link, &position);
        if let Err(error) = &done {
            // The lead may be gone already.
            let _ = link.say(&Reply::Failed(format!("{error:#}")));
        }
        position.over.store(true, Relaxed);
        done
    })
}

/// Tells where the rank is; returns when it is over.
fn watch(fd: i32, link: &Link, position: &Position, alone: bool) {
    while !position.over.load(Relaxed) {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: one entry, of a socket that outlives this thread.
        let ready = unsafe { libc::poll(&mut poll, 1, BEAT.as_millis() as i32) };
        if ready > 0 {
            if alone && !position.over.load(Relaxed) {
                // Without exit handlers, as the other thread may be anywhere, and CUDA's may wait for a GPU
                // that hangs. SAFETY: ends the process.
                unsafe { libc::_exit(1) };
            }
            return;
        }
        let progress = position.progress();
        if progress.stage != Stage::Idle {
            // If it can't be said, the next poll tells why.
            let _ = link.say(&Reply::Progress(progress));
        }
    }
}

fn work(setup: &Setup, link: &Link, position: &Position) -> Result<()> {
    let RankPlace {
        rank,
        ranks,
        local,
        job,
        ..
    } = &setup.place;
    if let Some(per) = setup.plan.hostid_per {
        std::env::set_var("NCCL_HOSTID", format!("ncclscope-bench-{}", rank / per));
    }
    link.say(&Reply::Hello(Box::new(Hello {
        rank: *rank,
        ranks: *ranks,
        job: job.clone(),
        pid: std::process::id(),
        host: host(),
        memory: memory(),
        plan: setup.plan.clone(),
    })))?;
    let Some(Order::Open) = link.order() else {
        bail!("{GONE}");
    };
    position.at(Stage::Opening);
    let cuda = Cuda::open(setup.cuda.as_deref())?;
    let devices = cuda.devices()?;
    // Launchers that give each process its own GPU hide the others.
    let device = if devices == 1 { 0 } else { *local };
    if device >= devices {
        bail!("expected a GPU of its own for rank {rank}, number {local} on this host, found {devices} GPUs");
    }
    let (name, bus) = cuda.use_device(device)?;
    let nccl = Nccl::open(&setup.nccl)?;
    let id = match rank {
        0 => Some(hex(&nccl.unique_id()?.0)),
        _ => None,
    };
    let grouped = Function::ALL
        .into_iter()
        .filter(|f| !nccl.has(*f))
        .collect();
    position.at(Stage::Idle);
    link.say(&Reply::Opened(Box::new(Device {
        device,
        bus,
        name,
        nccl: nccl.version,
        grouped,
        id,
    })))?;

    let Some(Order::Init {
        id,
        token,
        local,
        locals,
        hosts,
    }) = link.order()
    else {
        bail!("{GONE}");
    };
    position.at(Stage::Opening);
    // In nccl-tests' order, and as they are given: AllGather of 1 GiB takes 2 % longer where they were filled
    // with zeros before (bench/README.md).
    let bytes = setup.plan.largest(*ranks);
    let buffer = || {
        nccl.allocate(bytes)
            .and_then(|address| address.map_or_else(|| cuda.allocate(bytes), Ok))
            .with_context(|| format!("two buffers of {bytes} bytes, for the largest size"))
    };
    let buffers = (buffer()?, buffer()?);
    position.at(Stage::Init);
    let id: Option<[u8; 128]> = unhex(&id).and_then(|id| id.try_into().ok());
    let id = UniqueId(id.context("the communicator's id is not what ncclGetUniqueId gives")?);
    let communicator = nccl.init(id, *rank, *ranks)?;
    let mut worker = Worker {
        plan: &setup.plan,
        rank: *rank,
        ranks: *ranks,
        several_hosts: hosts > 1,
        meet: Meet::open(&token, local, locals)?,
        stream: cuda.stream()?,
        events: (cuda.event()?, cuda.event()?),
        buffers,
        bytes,
        cuda: &cuda,
        communicator,
        position,
        case: None,
        graph: None,
        made: 0,
    };
    position.at(Stage::Idle);
    link.say(&Reply::Done)?;
    while let Some(order) = link.order() {
        let answer = match order {
            Order::Prepare(case) => {
                // By now all have answered, so all have it open.
                if local == 0 {
                    worker.meet.remove_name();
                }
                worker.prepare(case)?;
                Reply::Done
            }
            Order::Run { timed, steps } => Reply::Ran(worker.run(timed, steps)?),
            Order::Check => Reply::Checked(worker.check()?),
            Order::End => {
                worker.end()?;
                position.over.store(true, Relaxed);
                link.say(&Reply::Done)?;
                return Ok(());
            }
            Order::Open | Order::Init { .. } => bail!("the lead says {order:?} a second time"),
        };
        position.at(Stage::Idle);
        link.say(&answer)?;
    }
    bail!("{GONE}")
}

struct Worker<'a> {
    plan: &'a Plan,
    rank: u32,
    ranks: u32,
    several_hosts: bool,
    cuda: &'a Cuda,
    communicator: Communicator<'a>,
    stream: Stream,
    events: (Event, Event),
    /// Two of `bytes` each.
    buffers: (Address, Address),
    bytes: usize,
    meet: Meet,
    position: &'a Position,
    case: Option<(Case, Shape)>,
    graph: Option<Graph>,
    /// Calls since the case began.
    made: u64,
}

impl Worker<'_> {
    /// Fills the buffers and makes one call, in which NCCL sets up what it needs.
    fn prepare(&mut self, case: Case) -> Result<()> {
        self.position.step.store(0, Relaxed);
        self.drop_graph()?;
        let shape = self.plan.shape(case.function, case.bytes, self.ranks);
        self.case = Some((case, shape));
        self.made = 0;
        // As in nccl-tests, the buffers stay as they are where nobody looks at them.
        if self.plan.check {
            self.fill()?;
        }
        self.one_call()?;
        if self.plan.graph > 0 {
            let calls = || {
                (0..self.plan.graph).try_for_each(|g| self.group(u64::from(g * self.plan.group)))
            };
            self.graph = Some(self.cuda.capture(self.stream, calls)?);
        }
        Ok(())
    }

    fn case(&self) -> Result<(Case, Shape)> {
        self.case.context("the lead has named no case")
    }

    fn call_of(&self, shape: Shape) -> Call {
        Call {
            shape,
            datatype: self.plan.datatype,
            reduction: self.plan.reduction,
            stream: self.stream,
        }
    }

    /// Addresses of call number `index`: small buffers walk through the large ones, as in nccl-tests, so that
    /// they are not always in the cache.
    fn addresses(&self, case: Case, shape: Shape, index: u64) -> (Address, Address) {
        let size = self.plan.datatype.size();
        let stride = (shape.elements * size).next_multiple_of(16).max(16);
        let places = (self.bytes / stride).max(1) as u64;
        let shift = index % places * stride as u64;
        let at = |base: Address, element: usize| base + shift + (element * size) as u64;
        if case.in_place {
            (
                at(self.buffers.1, shape.send_at(self.rank)),
                at(self.buffers.1, shape.receive_at(self.rank)),
            )
        } else {
            (at(self.buffers.0, 0), at(self.buffers.1, 0))
        }
    }

    /// Makes the calls of one group, the first of which is number `index`.
    fn group(&self, index: u64) -> Result<()> {
        let (case, shape) = self.case()?;
        let call = self.call_of(shape);
        let one = |index: u64| {
            let (send, recv) = self.addresses(case, shape, index);
            self.communicator.call(&call, send, recv)
        };
        match u64::from(self.plan.group) {
            1 => one(index),
            many => self
                .communicator
                .group(|| (index..index + many).try_for_each(one)),
        }
    }

    fn step(&mut self) -> Result<()> {
        let index = self.made;
        self.made += self.plan.calls_per_step();
        match &self.graph {
            Some(graph) => self.cuda.launch(graph, self.stream),
            None => self.group(index),
        }
    }

    /// One call at the buffers' beginning, and its end.
    fn one_call(&mut self) -> Result<()> {
        let (case, shape) = self.case()?;
        let (send, recv) = self.addresses(case, shape, 0);
        self.position.at(Stage::Calling);
        self.communicator.call(&self.call_of(shape), send, recv)?;
        self.wait_for_stream()
    }

    fn wait_for_stream(&self) -> Result<()> {
        self.position.at(Stage::Gpu);
        self.wait(|| self.cuda.is_done(self.stream))
    }

    fn wait(&self, until: impl Fn() -> Result<bool>) -> Result<()> {
        let mut looks = 0u32;
        while !until()? {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(4096) {
                self.communicator.check_async()?;
            }
            if looks.is_multiple_of(64) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Waits until the ranks start together.
    fn together(&mut self) -> Result<()> {
        self.position.at(Stage::Meeting);
        if self.several_hosts {
            // Between hosts only NCCL itself is quick enough: a call of one element, outside what is timed.
            let shape = self.plan.shape(
                Function::AllReduce,
                self.plan.datatype.size() as u64,
                self.ranks,
            );
            let call = Call {
                reduction: Reduction::Sum,
                ..self.call_of(shape)
            };
            self.communicator
                .call(&call, self.buffers.0, self.buffers.0)?;
            self.wait(|| self.cuda.is_done(self.stream))?;
        }
        self.meet.start();
        Ok(())
    }

    fn run(&mut self, timed: bool, steps: u64) -> Result<Batch> {
        self.position.step.store(0, Relaxed);
        let mut batch = Batch::default();
        // Nothing is allocated between calls.
        batch.start.reserve(steps as usize);
        batch.host.reserve(steps as usize);
        match (timed, self.plan.mode) {
            (true, Mode::Single) => {
                batch.gpu.reserve(steps as usize);
                for _ in 0..steps {
                    self.together()?;
                    let began = now();
                    self.timed(&mut batch)?;
                    self.position.at(Stage::Gpu);
                    self.wait(|| self.cuda.has_passed(self.events.1))?;
                    batch.wall += now() - began;
                    let gpu = self.cuda.between(self.events.0, self.events.1)?;
                    batch.gpu.push(gpu);
                    batch.gpu_total += gpu;
                }
            }
            (true, Mode::BackToBack) => {
                self.together()?;
                self.cuda.record(self.events.0, self.stream)?;
                self.steps(&mut batch, steps, |rank| {
                    rank.cuda.record(rank.events.1, rank.stream)
                })?;
                batch.gpu_total = self.cuda.between(self.events.0, self.events.1)?;
            }
            (false, _) => self.steps(&mut batch, steps, |_| Ok(()))?,
        }
        Ok(batch)
    }

    /// One step between two events.
    fn timed(&mut self, batch: &mut Batch) -> Result<()> {
        self.cuda.record(self.events.0, self.stream)?;
        self.next_step(batch, now())?;
        self.cuda.record(self.events.1, self.stream)
    }

    /// One step that begins at this time; returns when its calls have returned.
    fn next_step(&mut self, batch: &mut Batch, began: i64) -> Result<i64> {
        self.position.step.fetch_add(1, Relaxed);
        self.position.at(Stage::Calling);
        self.step()?;
        let ended = now();
        batch.start.push(began);
        batch.host.push(ended - began);
        Ok(ended)
    }

    /// Steps without a wait between them, `last` after them, and their end: the end of one is the beginning
    /// of the next, which saves a clock reading.
    fn steps(
        &mut self,
        batch: &mut Batch,
        steps: u64,
        last: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let began = now();
        let mut next = began;
        for _ in 0..steps {
            next = self.next_step(batch, next)?;
        }
        last(self)?;
        self.wait_for_stream()?;
        batch.wall = now() - began;
        Ok(())
    }

    fn pattern(&self, case: Case) -> Pattern {
        Pattern {
            datatype: self.plan.datatype,
            reduction: case.function.reduces().then_some(self.plan.reduction),
            ranks: self.ranks,
            salt: case.number,
        }
    }

    /// Puts this rank's data into the send buffer, and what can't be right into the receive buffer.
    fn fill(&self) -> Result<()> {
        self.position.at(Stage::Data);
        let (case, shape) = self.case()?;
        let size = self.plan.datatype.size();
        let (send, _) = self.addresses(case, shape, 0);
        self.cuda
            .fill(self.buffers.1, 0xA5, shape.elements * size)?;
        let period = self.pattern(case).period(Some(self.rank), shape.sent());
        pieces(&period, 0, shape.sent(), size, |at, bytes| {
            self.cuda.to_device(send + at as u64, bytes)
        })?;
        self.cuda.synchronize()
    }

    /// Makes one call on fresh data and counts elements that are wrong.
    fn check(&mut self) -> Result<u64> {
        let (case, shape) = self.case()?;
        self.fill()?;
        self.one_call()?;
        self.position.at(Stage::Data);
        let size = self.plan.datatype.size();
        let (_, recv) = self.addresses(case, shape, 0);
        let pattern = self.pattern(case);
        let mut wrong = 0;
        let mut found = Vec::new();
        for block in shape.received(self.rank) {
            let period = pattern.period(block.source, block.from + block.length);
            let start = recv + (block.at * size) as u64;
            pieces(&period, block.from, block.length, size, |at, expected| {
                found.resize(expected.len(), 0);
                self.cuda.to_host(&mut found, start + at as u64)?;
                wrong += differences(&found, expected, size);
                Ok(())
            })?;
        }
        Ok(wrong)
    }

    fn drop_graph(&mut self) -> Result<()> {
        match self.graph.take() {
            Some(graph) => self.cuda.destroy(graph),
            None => Ok(()),
        }
    }

    fn end(mut self) -> Result<()> {
        self.position.at(Stage::Destroy);
        self.drop_graph()?;
        self.communicator.destroy()
    }
}

/// The host's name.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// The same for processes that can share memory: containers of one host may not.
fn memory() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let device = std::fs::metadata("/dev/shm").map(|m| m.dev());
    format!("{}/{}", boot.trim(), device.unwrap_or_default())
}

/// A name that no other run has.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn token() -> Result<String> {
    let mut bytes = [0u8; 8];
    let mut random = File::open("/dev/urandom").map_err(|e| anyhow!("/dev/urandom: {e}"))?;
    std::io::Read::read_exact(&mut random, &mut bytes)?;
    Ok(hex(&bytes))
}
