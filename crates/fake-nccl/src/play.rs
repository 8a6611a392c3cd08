//! Plays a script: one process for each rank, or threads of this one.
//!
//! [`play`] starts the processes ([`crate::processes`]) and gathers what each announced. A process runs a `Driver` per
//! thread, which walks the script's statements, asks the [`Schedule`] what its ranks do and when, and has a
//! [`Launcher`] do it.
//!
//! Rule: a process says what it announced before it does anything that may end it, so the count is right also for a rank
//! that kills itself.

use crate::announced::Announced;
use crate::control::{realtime_ns, Control};
use crate::fault;
use crate::lock::lock;
use crate::machine;
use crate::nccl::{comm_name, Captured, Communicator, Launcher, Mode, Origin, Task, Timeline};
use crate::plugin::{Choice, Identity, Loader, Version};
use crate::processes::{beside, run_processes, Start, RANK_PROCESS, STAMPS};
use crate::schedule::{self, instance, Kernel, Part, Schedule};
use crate::script::{Act, Call, Script, Statement};
use anyhow::bail;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::process::Command;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

pub use crate::outcome::{Outcome, Process};
pub use crate::processes::Options;

/// Plays a script, with source `source`, and waits for its end.
///
/// # Errors
/// The script's own error, or a process that can't be started.
pub fn play(source: &str, options: &Options) -> anyhow::Result<Outcome> {
    let mut script = Script::parse(source)?;
    script.nccl = options.nccl.unwrap_or(script.nccl);
    if options.in_process {
        return play_here(script, options);
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => beside("fake-nccl")?,
    };
    let mut starts = Vec::new();
    for first in (0..script.ranks).step_by(script.per_process) {
        let local = script.host(first);
        let local_rank = (0..first).filter(|r| script.host(*r) == local).count();
        let mut command = Command::new(&program);
        command
            .arg(RANK_PROCESS)
            .env("RANK", first.to_string())
            .env("WORLD_SIZE", script.ranks.to_string())
            .env("LOCAL_RANK", local_rank.to_string());
        // Whose hosts have clocks of their own, the stamps are of the same time as the launches.
        if script.host_clock_ns.is_empty() {
            command.env(STAMPS.0, STAMPS.1);
        }
        if let Some(plugin) = &options.plugin {
            command.env("NCCL_PROFILER_PLUGIN", plugin);
        }
        if script.hosts > 1 {
            // As whoever lets NCCL take one machine for several.
            command.env("NCCL_HOSTID", format!("host-{local}"));
        }
        command.envs(options.env.iter().map(|(k, v)| (k, v)));
        let order = json!({
            "play": {
                "script": source, "first": first, "nccl": script.nccl.0, "highest_abi": options.highest_abi,
                "fast": options.fast, "verbose": options.verbose,
            }
        });
        starts.push(Start {
            rank: first,
            command,
            order,
        });
    }
    let (abi, processes) = run_processes(
        starts,
        options.timeout,
        Duration::from_nanos(script.linger_ns),
    )?;
    Ok(Outcome {
        nccl: script.nccl,
        abi,
        processes,
    })
}

/// What a process of a played script does.
pub(crate) fn process(
    control: Control,
    order: &Value,
    told: impl Fn(Version),
) -> anyhow::Result<()> {
    let mut script = Script::parse(order["script"].as_str().unwrap_or_default())?;
    script.nccl = Version(order["nccl"].as_u64().unwrap_or_default() as u32);
    told(script.nccl);
    let flag = |key: &str| order[key].as_bool().unwrap_or(false);
    let loader = Loader::new(Choice {
        version: script.nccl,
        plugin: std::env::var("NCCL_PROFILER_PLUGIN").ok(),
        highest_abi: highest(order["highest_abi"].as_u64().unwrap_or(0) as u8),
        log_level: log_level(flag("verbose")),
    });
    let ranks = script.process_ranks(order["first"].as_u64().unwrap_or(0) as usize);
    let host = script.host(ranks.start);
    if let Some(clock_ns) = script.host_clock_ns.get(host) {
        machine::be(host, *clock_ns);
    }
    let job = Job::new(script, loader, Some(control), flag("fast"));
    match job.run(ranks) {
        Flow::Continue(()) => {
            job.report(None);
            Ok(())
        }
        Flow::Break(Stuck) => {
            job.report(None);
            if let Some(control) = &job.control {
                control.say(&json!({"stuck": true}));
            }
            loop {
                std::thread::park();
            }
        }
    }
}

fn highest(limit: u8) -> u8 {
    if limit == 0 {
        u8::MAX
    } else {
        limit
    }
}

fn log_level(verbose: bool) -> i32 {
    if verbose {
        nccl_abi::log::LEVEL_INFO
    } else {
        nccl_abi::log::LEVEL_WARN
    }
}

fn play_here(script: Script, options: &Options) -> anyhow::Result<Outcome> {
    if ends_process(&script.body) {
        bail!("expected no kill, exit, _exit, abort or fork in a script played inside one process");
    }
    let plugin = options.plugin.clone();
    let loader = Loader::new(Choice {
        version: script.nccl,
        plugin: plugin.or_else(|| std::env::var("NCCL_PROFILER_PLUGIN").ok()),
        highest_abi: highest(options.highest_abi),
        log_level: log_level(options.verbose),
    });
    let ranks = 0..script.ranks;
    let job = Job::new(script, loader, None, options.fast);
    let stuck = job.run(ranks).is_break();
    let announced = lock(&job.announced).clone();
    Ok(Outcome {
        nccl: job.script.nccl,
        abi: job
            .abi
            .get()
            .cloned()
            .unwrap_or(Err("no communicator".into())),
        processes: vec![Process {
            rank: 0,
            pid: std::process::id(),
            ended: if stuck { "stuck" } else { "played" }.into(),
            expected: true,
            announced: Some(announced),
        }],
    })
}

fn ends_process(body: &[Statement]) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Rank(_, act) => matches!(
            act,
            Act::Kill | Act::Exit(_) | Act::QuickExit(_) | Act::Abort | Act::Fork
        ),
        Statement::Repeat(_, body) | Statement::Only(_, body) => ends_process(body),
        _ => false,
    })
}

/// A thread that waits for ever.
struct Stuck;

type Flow = ControlFlow<Stuck>;

/// One process's part of a job.
struct Job {
    script: Script,
    loader: Loader,
    announced: Arc<Mutex<Announced>>,
    origin: Arc<OnceLock<Origin>>,
    abi: OnceLock<Result<u8, String>>,
    control: Option<Control>,
    fast: bool,
}

impl Job {
    fn new(script: Script, loader: Loader, control: Option<Control>, fast: bool) -> Job {
        Job {
            script,
            loader,
            announced: Arc::default(),
            origin: Arc::default(),
            abi: OnceLock::new(),
            control,
            fast,
        }
    }

    /// Plays these ranks: one thread each, or one for all.
    fn run(&self, ranks: Range<usize>) -> Flow {
        let teams: Vec<Vec<usize>> = match self.script.one_thread {
            true => vec![ranks.collect()],
            false => ranks.map(|rank| vec![rank]).collect(),
        };
        let barrier = Barrier::new(teams.len());
        let flows: Vec<Flow> = std::thread::scope(|scope| {
            let threads: Vec<_> = teams
                .into_iter()
                .map(|mine| {
                    let barrier = &barrier;
                    scope.spawn(move || Driver::new(self, mine).run(barrier))
                })
                .collect();
            let joined = threads.into_iter().map(|t| t.join());
            joined
                .map(|flow| flow.unwrap_or(Flow::Break(Stuck)))
                .collect()
        });
        match flows.iter().any(Flow::is_break) {
            true => Flow::Break(Stuck),
            false => Flow::Continue(()),
        }
    }

    /// Waits for the other processes; called by one thread, when the first communicators stand.
    fn begin(&self) {
        let abi = self.loader.abi().map_err(|why| why.to_string());
        let begin = match &self.control {
            Some(control) => control.begin(abi.clone()).unwrap_or_else(|_| realtime_ns()),
            None => realtime_ns() + 1_000_000,
        };
        let _ = self.abi.set(abi);
        // The others begin by a clock that is not off.
        let now = realtime_ns().saturating_add_signed(machine::clock_ns().saturating_neg());
        let left = Duration::from_nanos(begin.saturating_sub(now));
        let origin = Origin {
            host: (!self.fast).then(|| Instant::now() + left),
            realtime_ns: begin,
        };
        let _ = self.origin.set(origin);
    }

    /// Says what was announced, and how the process is about to end if not by itself.
    fn report(&self, ending: Option<String>) {
        if let Some(control) = &self.control {
            control.say(&json!({"result": lock(&self.announced).to_json(), "ending": ending}));
        }
    }
}

/// Work for the thread on which the CUDA driver runs host callbacks.
type HostCallback = Box<dyn FnOnce() + Send>;

/// A captured graph: its groups with the calls they were made of.
type Graph = Vec<(Vec<Call>, Arc<Captured>)>;

/// One thread of the job and the ranks it drives.
struct Driver<'j> {
    job: &'j Job,
    schedule: Schedule<'j>,
    mine: Vec<usize>,
    launcher: Launcher,
    /// By script communicator and rank: index in the launcher.
    open: HashMap<(usize, usize), usize>,
    graphs: HashMap<usize, Graph>,
    host_callbacks: Option<(Sender<HostCallback>, std::thread::JoinHandle<()>)>,
    fault_seed: u64,
}

impl<'j> Driver<'j> {
    fn new(job: &'j Job, mine: Vec<usize>) -> Self {
        Driver {
            job,
            schedule: Schedule::new(&job.script),
            mine,
            launcher: Launcher {
                comms: Vec::new(),
                announced: job.announced.clone(),
            },
            open: HashMap::new(),
            graphs: HashMap::new(),
            host_callbacks: None,
            fault_seed: 0,
        }
    }

    fn run(mut self, barrier: &Barrier) -> Flow {
        let script = &self.job.script;
        let everyone = vec![true; script.ranks];
        let first = script
            .body
            .iter()
            .take_while(|s| matches!(s, Statement::Create(_)));
        let first = first.count();
        self.statements(&script.body[..first], &everyone)?;
        if barrier.wait().is_leader() {
            self.job.begin();
        }
        barrier.wait();
        self.statements(&script.body[first..], &everyone)?;
        self.drain_host_callbacks();
        if self.mine.iter().any(|r| self.schedule.stuck(*r)) {
            // Whether it would destroy or only synchronise, it waits for its GPU.
            return Flow::Break(Stuck);
        }
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_unstable();
        for (_, index) in open {
            if script.destroy {
                self.launcher.comms[index].destroy(&self.job.loader);
            } else {
                self.launcher.comms[index].drain();
            }
        }
        Flow::Continue(())
    }

    fn statements(&mut self, body: &'j [Statement], who: &[bool]) -> Flow {
        for statement in body {
            self.statement(statement, who)?;
        }
        Flow::Continue(())
    }

    fn statement(&mut self, statement: &'j Statement, who: &[bool]) -> Flow {
        match statement {
            Statement::Group { calls, explicit } => self.group(calls, *explicit, who)?,
            Statement::Repeat(times, body) => {
                for _ in 0..*times {
                    self.statements(body, who)?;
                }
            }
            Statement::Only(ranks, body) => {
                let mut these = vec![false; who.len()];
                for rank in ranks {
                    these[*rank] = who[*rank];
                }
                self.statements(body, &these)?;
            }
            Statement::Rank(ranks, act) => {
                for rank in ranks {
                    self.act(*rank, *act)?;
                }
            }
            Statement::Graph(id, body) => {
                let mut graph = Vec::new();
                self.capture(body, who, &mut graph);
                self.graphs.insert(*id, graph);
            }
            Statement::Replay(id, times) => {
                for _ in 0..*times {
                    self.replay(*id, who);
                }
            }
            Statement::Sleep(by) => self.schedule.sleep(who, *by),
            Statement::Compute(time) => self.schedule.compute(who, *time),
            Statement::Join => self.schedule.join(who),
            Statement::Pace(gap) => self.schedule.pace(*gap),
            Statement::Sync => {
                self.schedule.sync(who);
                self.drain_host_callbacks();
                for rank in self.mine.clone() {
                    if self.schedule.gone(rank) {
                        return Flow::Break(Stuck);
                    }
                    self.wait_host(rank);
                }
            }
            Statement::Create(id) => self.create(*id, who),
            Statement::Destroy(id) => self.destroy(*id, who)?,
            Statement::Reinit(id) => {
                self.destroy(*id, who)?;
                self.create(*id, who);
            }
            Statement::Fault(fault) => {
                self.fault_seed += 1;
                let mine = self.mine.iter().filter(|r| who[**r]);
                for rank in mine {
                    let open = self.open.iter().filter(|((_, r), _)| r == rank);
                    let comm = open.min().map(|(_, index)| &self.launcher.comms[*index]);
                    if let Some(profiler) = comm.and_then(|c| c.profiler.as_ref()) {
                        fault::play(*fault, profiler, self.fault_seed);
                    }
                }
            }
        }
        Flow::Continue(())
    }

    fn wait_host(&self, rank: usize) {
        self.timeline(rank).wait_host(self.schedule.host[rank]);
    }

    fn timeline(&self, rank: usize) -> Timeline {
        Timeline {
            origin: self.job.origin.clone(),
            lead_ns: self.job.script.lead_ns,
            offset_ns: self.job.script.gpu_offset_ns[rank],
        }
    }

    fn create(&mut self, id: usize, who: &[bool]) {
        let script = &self.job.script;
        let comm = &script.comms[id];
        for rank in self.mine.clone() {
            let Some((at, index)) = instance(script, id, rank).filter(|_| who[rank]) else {
                continue;
            };
            let of = &comm.instances[at];
            let identity = Identity {
                name: comm_name(comm.label.as_deref()),
                hash: of.hash,
                nodes: schedule::nodes(script, &of.members) as i32,
                ranks: of.members.len() as i32,
                rank: index as i32,
            };
            let hosts = of.members.iter().map(|m| script.host(*m)).collect();
            let made = Communicator::init(
                &self.job.loader,
                id,
                &comm.name,
                identity,
                hosts,
                self.timeline(rank),
            );
            self.open.insert((id, rank), self.launcher.comms.len());
            self.launcher.comms.push(Arc::new(made));
        }
    }

    fn destroy(&mut self, id: usize, who: &[bool]) -> Flow {
        self.drain_host_callbacks();
        for rank in self.mine.clone() {
            if !who[rank] {
                continue;
            }
            if let Some(index) = self.open.remove(&(id, rank)) {
                if self.schedule.stuck(rank) {
                    return Flow::Break(Stuck);
                }
                self.launcher.comms[index].destroy(&self.job.loader);
            }
        }
        Flow::Continue(())
    }

    /// What my ranks launch in the group that the schedule was given last.
    fn tasks(&self, calls: &[Call], launched: bool) -> Vec<Task> {
        let script = &self.job.script;
        let mut tasks = Vec::new();
        for call in calls {
            for rank in &self.mine {
                if self.schedule.part(*rank) == Part::None {
                    continue;
                }
                let Some(index) = self.open.get(&(call.comm, *rank)) else {
                    continue;
                };
                let kernel = match launched {
                    true => self.schedule.kernel(call.comm, *rank),
                    false => Kernel::default(),
                };
                let members = instance(script, call.comm, *rank)
                    .map(|(at, _)| &script.comms[call.comm].instances[at].members);
                tasks.push(Task {
                    comm: *index,
                    call: *call,
                    kernel,
                    time: members.map_or(0, |m| schedule::time(script, call, m)),
                });
            }
        }
        tasks
    }

    fn group(&mut self, calls: &[Call], explicit: bool, who: &[bool]) -> Flow {
        self.schedule.group(who, calls);
        let tasks = self.tasks(calls, true);
        if tasks.is_empty() {
            return Flow::Continue(());
        }
        let mut inside = false;
        for rank in &self.mine {
            match self.schedule.part(*rank) {
                Part::None => {}
                Part::Calls(at) => self.timeline(*rank).wait_host(at),
                Part::Inside(at) => {
                    self.timeline(*rank).wait_host(at);
                    inside = true;
                }
            }
        }
        // Several GPUs of one thread need a group of the caller's.
        let explicit = explicit || self.mine.len() > 1;
        if inside {
            self.launcher.group(&tasks, explicit, Mode::Inside);
            return Flow::Break(Stuck);
        }
        self.launcher.group(&tasks, explicit, Mode::Eager);
        Flow::Continue(())
    }

    fn capture(&mut self, body: &'j [Statement], who: &[bool], graph: &mut Graph) {
        for statement in body {
            match statement {
                Statement::Group { calls, explicit } => {
                    self.schedule.capture(who, calls);
                    let tasks = self.tasks(calls, false);
                    let explicit = *explicit || self.mine.len() > 1;
                    let captured = self.launcher.group(&tasks, explicit, Mode::Capture);
                    graph.push((calls.clone(), Arc::new(captured)));
                }
                Statement::Repeat(times, body) => {
                    for _ in 0..*times {
                        self.capture(body, who, graph);
                    }
                }
                // The parser lets nothing else into a graph.
                _ => {}
            }
        }
    }

    fn replay(&mut self, id: usize, who: &[bool]) {
        let Some(graph) = self.graphs.get(&id).cloned() else {
            return;
        };
        for (calls, captured) in graph {
            self.schedule.group(who, &calls);
            let Some(rank) = self.mine.iter().copied().find(|r| who[*r]) else {
                continue;
            };
            if self.schedule.part(rank) == Part::None {
                continue;
            }
            self.wait_host(rank);
            let mut kernels = HashMap::new();
            for ((comm, rank), index) in &self.open {
                kernels.insert(*index, self.schedule.kernel(*comm, *rank));
            }
            let (launcher, timeline) = (self.launcher.clone(), self.timeline(rank));
            let launched = self.schedule.host[rank];
            self.host_callback(Box::new(move || {
                timeline.wait_gpu(launched);
                launcher.replay(&captured, |index| {
                    kernels.get(&index).copied().unwrap_or_default()
                });
            }));
        }
    }

    fn host_callback(&mut self, work: HostCallback) {
        let (sender, _) = self.host_callbacks.get_or_insert_with(|| {
            let (sender, works) = channel::<HostCallback>();
            let run = move || works.into_iter().for_each(|work| work());
            let thread = std::thread::Builder::new().name("cuda-EvtHandlr".into());
            (sender, thread.spawn(run).expect("a thread"))
        });
        // The thread only ends when the sender is dropped.
        let _ = sender.send(work);
    }

    fn drain_host_callbacks(&mut self) {
        if let Some((sender, thread)) = self.host_callbacks.take() {
            drop(sender);
            let _ = thread.join();
        }
    }

    fn act(&mut self, rank: usize, act: Act) -> Flow {
        if self.schedule.gone(rank) {
            return Flow::Continue(());
        }
        self.schedule.act(rank, act);
        if !self.mine.contains(&rank) {
            return Flow::Continue(());
        }
        let ends = match act {
            Act::Late(_)
            | Act::Slow(_)
            | Act::Skip
            | Act::HangInside
            | Act::Stuck(_)
            | Act::Drag(_) => {
                return Flow::Continue(());
            }
            Act::Fork => None,
            Act::Hang => return Flow::Break(Stuck),
            Act::Kill => Some("signal 9".into()),
            Act::Abort => Some("signal 6".into()),
            Act::Exit(status) | Act::QuickExit(status) => Some(format!("exit {status}")),
        };
        self.drain_host_callbacks();
        self.wait_host(rank);
        if ends.is_some() {
            self.job.report(ends);
        }
        // SAFETY: each is a plain system or C library call without memory of ours; the child of the fork makes no call but
        // `exit`, whose handlers are the very thing under test.
        unsafe {
            match act {
                Act::Kill => {
                    libc::kill(libc::getpid(), libc::SIGKILL);
                }
                Act::Abort => libc::abort(),
                Act::Exit(status) => libc::exit(status),
                Act::QuickExit(status) => libc::_exit(status),
                _ => match libc::fork() {
                    0 => libc::exit(0),
                    child => {
                        libc::waitpid(child, std::ptr::null_mut(), 0);
                    }
                },
            }
        }
        Flow::Continue(())
    }
}
