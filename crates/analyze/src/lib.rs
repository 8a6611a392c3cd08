//! From tables to findings: pure functions, one file per question.
//!
//! An [`Analysis`] takes one process at a time ([`Analysis::add`]), so that no other process's calls need be
//! in memory. [`Analysis::merge`] puts together parts that were made of consecutive processes.
//! [`Analysis::finish`] asks every question and puts the answers into one [`Report`]. Its fields have the
//! names of the JSON report and of the tables that are printed. [`report`] does all this for a capture in
//! memory, [`report_from`] for one that need not be.
//!
//! Rule: a report is a function of the capture alone, so the same capture gives the same bytes, however it
//! was split. What is not known is `None`, which is null in JSON, and never 0. A pass over calls looks
//! nothing up and allocates nothing per call.

pub mod absent;
pub mod account;
pub mod algorithms;
pub mod arrivals;
pub mod attempts;
pub mod bandwidth;
pub mod behind;
pub mod benchmarks;
pub mod callers;
pub mod clocks;
pub mod completeness;
pub mod cost;
pub mod coverage;
pub mod critical_path;
pub mod deaths;
pub mod diff;
pub mod driver_calls;
pub mod efficiency;
pub mod environment;
pub mod estimate;
pub mod evidence;
pub mod executions;
pub mod exits;
pub mod findings;
pub mod first_uses;
#[cfg(test)]
mod fixtures;
pub mod functions;
pub mod graphs;
pub mod hang;
pub mod history;
pub mod how_far;
mod inits;
pub mod interval;
pub mod job;
pub mod jobs;
pub mod live;
pub mod matching;
pub mod memory;
pub mod mismatch;
pub mod models;
pub mod moments;
pub mod mpi;
mod nccl_costs;
pub mod network;
pub mod nodes;
pub mod notes;
pub mod operation_ids;
pub mod operations;
mod pages;
pub mod paths;
pub mod phases;
pub mod progress;
pub mod rank_time;
pub mod ranks;
pub mod recommendations;
pub mod roles;
pub mod sampled;
mod series;
pub mod settings;
pub mod sightings;
pub mod spans;
pub mod spelling;
pub mod standstill;
pub mod startup;
pub mod statistics;
pub mod steps;
pub mod stream_waits;
pub mod streams;
pub mod subject;
pub mod summary;
pub mod time;
pub mod timeline;
pub mod topology;
pub mod tune;
pub mod warmup;

use capture::live::flag;
use executions::{ByCause, Steps, Walk, CAUSES};
use tables::source::Shown;
use tables::{Capture, Process, ReadProgress, Source};

/// The format of [`Report`].
pub const SCHEMA: &str = "ncclscope.report/1";

/// Everything that `ncclscope report` says.
#[derive(Clone, Debug)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What matters most about this job. `render` makes sentences of this, of findings and of
    /// recommendations.
    pub verdict: summary::Verdict,
    /// What was recorded, and how.
    pub job: job::Job,
    /// What was announced, recorded and timed.
    pub completeness: completeness::Completeness,
    /// Ranks that died while others went on, the first first.
    pub deaths: Vec<deaths::Death>,
    /// Processes that ended by a signal or with an error, the first first.
    pub exits: Vec<exits::ExitRow>,
    /// When the last of them was killed, if all processes were.
    pub killed: Option<String>,
    /// That the job stood still when the recording ended; a finding says it.
    pub standstill: Option<standstill::Standstill>,
    /// How far each rank came, if one died or ranks stood still; pictures show it.
    pub how_far: Option<how_far::HowFar>,
    /// What `ncclscope hang` said while the job ran, the oldest first.
    pub sightings: Vec<sightings::SightingRow>,
    /// How much of the run each rank spent in NCCL, and which differ.
    pub ranks: ranks::Ranks,
    /// The communicators, by first use.
    pub communicators: Vec<job::CommunicatorRow>,
    /// Collectives against point-to-point.
    pub kinds: Vec<functions::KindRow>,
    /// What each function did in all, and the parts of its calls, largest time first.
    pub functions: Vec<functions::FunctionRow>,
    /// What each line of the program called, largest GPU time first; empty without recorded stacks.
    pub callers: Vec<callers::CallerRow>,
    /// Parts of calls by function and size (from one power of two to the next), most calls first.
    pub parts: Vec<functions::PartsRow>,
    /// What was done on the communicators, largest total time first.
    pub operations: Vec<operations::Operation>,
    /// The bandwidths of operations as shares of ceilings, in the order of `operations`.
    pub efficiency: Vec<efficiency::EfficiencyRow>,
    /// CUDA graphs with NCCL calls, most calls executed first.
    pub graphs: Vec<graphs::GraphRow>,
    /// From the start of the processes to their first calls; `ncclscope startup` prints it.
    pub startup: startup::Startup,
    /// Which way NCCL goes between ranks; `ncclscope paths` prints it.
    pub paths: setup::paths::Paths,
    /// What communicators hold of the GPUs' memory; `ncclscope memory` prints it.
    pub memory: memory::Memory,
    /// The links of the job's hosts; `ncclscope topo` prints them.
    pub topologies: Vec<topology::Host>,
    /// The first calls on the communicators, longest first.
    pub warmup: Vec<warmup::WarmupRow>,
    /// Which settings of algorithm and protocol took effect.
    pub settings: Vec<settings::SettingRow>,
    /// What the network did for them, most bytes first; empty where no call used it or it was not recorded.
    pub network: Vec<network::NetworkRow>,
    /// The run over time, in at most 256 buckets; null without a single time. docs/reference/report.md says
    /// what is counted where.
    pub timeline: Option<timeline::Timeline>,
    /// The steps of the job: as the program marked them, or calls that repeat; null without either. `step_us`
    /// is of the rank named.
    pub steps: Option<steps::Steps>,
    /// The phases that the program marked, the largest median time of a rank first.
    pub phases: Vec<steps::marked::PhaseRow>,
    /// The critical path of a step, over all ranks; null if no step has a GPU time of every call.
    pub critical_path: Option<critical_path::CriticalPath>,
    /// What the GPUs did, from kernel windows; null where there were none.
    pub streams: Option<streams::Streams>,
    /// Power, energy, CPU time, memory, disks and networks, from the node sampler of ncclscope run.
    pub nodes: nodes::Nodes,
    /// Time in MPI; null where no process was seen to call it.
    pub mpi: Option<mpi::Mpi>,
    /// What recording cost this job; null where no time passed between calls.
    pub cost: Option<cost::Cost>,
    /// How often the CUDA driver was called, by NCCL and by the program; null if no process counted.
    pub driver_calls: Option<driver_calls::DriverCalls>,
    /// Exposed communication, from streams that waited for calls; null where none was seen to wait.
    pub stream_waits: Option<stream_waits::StreamWaits>,
    /// Who waited and who was waited for; null where no operation has a GPU time on every rank. _rank_us:
    /// summed over ranks; _wall_us: of the wall.
    pub arrivals: Option<arrivals::Arrivals>,
    /// Where the wall time of the steps goes; null without steps.
    pub account: Option<account::Account>,
    /// How the hosts' clocks stand to each other; `None` for one host. `render` writes it, with its notes.
    pub clocks: Option<clocks::Clocks>,
    /// What the figures mean and what NCCL can't show.
    pub notes: Vec<notes::Note>,
    /// What was unsound. `render` writes it behind the notes.
    pub problems: Vec<job::Problem>,
    /// What costs wall time, and what to do, largest first.
    pub findings: Vec<findings::Finding>,
    /// What to do, the largest gain first.
    pub recommendations: Vec<recommendations::Recommendation>,
    /// What took most time, which is said at the end.
    pub summary: summary::Summary,
    /// The command that helps most.
    pub next: summary::Next,
    /// Whether this NCCL and these processes can have GPU times where they are asked for.
    pub times_exist: bool,
    /// The functions of NCCL that `ncclscope attach` left out, as `ncclAllReduce, ncclSend`.
    pub not_recorded: Option<String>,
    /// Why no call has a GPU time; `None` if some have one, or if that is not known.
    pub no_times: Option<notes::NoTimes>,
    /// Calls have GPU times, but it is known how long they ran, and of none when.
    pub only_lengths: bool,
}

impl Report {
    /// What late ranks cost has one price. If something else says it, the account has none.
    fn keep_one_price(&mut self) {
        if findings::settling(self.account.as_ref(), self.arrivals.as_ref()).is_none() {
            if let Some(account) = &mut self.account {
                account.answers.clear();
            }
            return;
        }
        for rank in self.arrivals.iter_mut().flat_map(|all| &mut all.ranks) {
            (rank.loss_wall_us, rank.loss_interval_us) = (None, None);
            (rank.loss_at_most_us, rank.with_other) = (None, None);
        }
    }
}

/// The report on a capture.
pub fn report(capture: &Capture) -> Report {
    report_with(capture, None)
}

/// The same; `given` are offsets of its hosts' clocks that take the place of what operations tell of them.
pub fn report_with(capture: &Capture, given: Option<clocks::Given>) -> Report {
    report_against(capture, given, Vec::new())
}

/// The same, with ceilings that the capture does not know.
pub fn report_against(
    capture: &Capture,
    given: Option<clocks::Given>,
    ceilings: Vec<efficiency::Ceiling>,
) -> Report {
    let mut analysis = Analysis {
        given,
        ceilings,
        ..Analysis::default()
    };
    for process in &capture.processes {
        analysis.add(capture, process);
    }
    analysis.standstill = standstill::of_capture(capture);
    analysis.finish(capture)
}

/// The same of a capture that need not fit in memory, made on all cores.
pub fn report_from(
    source: Source,
    given: Option<clocks::Given>,
    progress: &ReadProgress,
) -> Report {
    report_from_against(source, given, Vec::new(), progress)
}

/// [`report_against`] of such a capture.
pub fn report_from_against(
    source: Source,
    given: Option<clocks::Given>,
    ceilings: Vec<efficiency::Ceiling>,
    progress: &ReadProgress,
) -> Report {
    let kept_calls = standstill::kept_calls(source.capture());
    let new = || Analysis {
        kept_calls,
        ..Analysis::default()
    };
    let (analyses, mut capture) = source.fold(progress, new, Analysis::add_part);
    let mut analyses = analyses.into_iter();
    let mut all = analyses.next().unwrap_or_default();
    analyses.for_each(|later| all.merge(later));
    (all.given, all.ceilings) = (given, ceilings);
    all.standstill = std::mem::take(&mut all.last_calls).standstill(&mut capture);
    all.finish(&capture)
}

/// How the clocks of a capture's hosts stand to each other; `None` for one host.
pub fn clocks_of(capture: &Capture, given: Option<clocks::Given>) -> Option<clocks::Clocks> {
    if arrivals::hosts(capture).len() < 2 {
        return None;
    }
    let mut rows = operations::Gatherer::default();
    let mut matcher = matching::Matcher::default();
    let mut arrivals = arrivals::Gatherer::default();
    for process in &capture.processes {
        let walk = Walk::new(process);
        let rows = rows.plan(capture, &walk);
        let mut matching = matcher.plan(capture, &walk);
        let plan = arrivals.plan(capture, process, &walk);
        walk.for_each(&mut Steps::default(), |execution| {
            let row = (!execution.warmup).then_some(rows[execution.place]);
            let operation = matcher.add(&mut matching, execution, row);
            arrivals.add(&plan, execution, operation.zip(row));
        });
    }
    arrivals.clocks(capture, &matcher, given.as_ref())
}

/// What was gathered from the calls of some consecutive processes of a capture.
pub struct Analysis {
    completeness: completeness::Completeness,
    ranks: Vec<ranks::RankRow>,
    operations: operations::Gatherer,
    functions: functions::Gatherer,
    callers: callers::Gatherer,
    matcher: matching::Matcher,
    arrivals: arrivals::Gatherer,
    mismatch: mismatch::Gatherer,
    warmup: warmup::Gatherer,
    startup: startup::Gatherer,
    network: network::Gatherer,
    graphs: graphs::Gatherer,
    streams: streams::Gatherer,
    cost: cost::Gatherer,
    stream_waits: stream_waits::Gatherer,
    account: account::Gatherer,
    timeline: timeline::Gatherer,
    steps: Vec<steps::StepsRow>,
    phases: Vec<steps::marked::OfProcess>,
    evidence: evidence::Gatherer,
    silent: notes::Silent,
    kernel_phases: phases::Gatherer,
    jitter: nodes::jitter::Gatherer,
    /// The process of which a part was added and another follows.
    under_way: Option<UnderWay>,
    progress: progress::Gatherer,
    /// So many calls of each process are kept to its end, if [`report_from`] asks whether it stood still.
    kept_calls: usize,
    last_calls: standstill::Gatherer,
    /// What that says, or what a capture in memory says.
    standstill: Option<standstill::Standstill>,
    /// Offsets of hosts' clocks that somebody else knows.
    pub given: Option<clocks::Given>,
    /// Ceilings that somebody else knows. They replace those of the capture.
    pub ceilings: Vec<efficiency::Ceiling>,
}

/// What is gathered from one process before it can be told.
struct UnderWay {
    steps: Steps,
    matching: matching::ProcessMatches,
    arrivals: arrivals::Routes,
    mismatch: mismatch::ProcessCalls,
    ranks: ranks::Gatherer,
    pattern: steps::Gatherer,
    evidence: evidence::ProcessEvidence,
    progress: progress::ProcessProgress,
    first_calls: startup::FirstCalls,
    first_uses: first_uses::ProcessUses,
    timed: u64,
    captured: u64,
    untimed: ByCause,
    shown: graphs::Shown,
    in_windows: streams::WindowCalls,
    cost: cost::ProcessSpells,
    waits: stream_waits::ProcessWaits,
    launches: account::launches::ProcessLaunches,
    timeline: timeline::ProcessBins,
    jitter: nodes::jitter::ProcessCalls,
    last_calls: standstill::ProcessCalls,
}

impl Default for Analysis {
    fn default() -> Analysis {
        Analysis {
            completeness: completeness::Completeness::new(),
            ranks: Vec::new(),
            operations: operations::Gatherer::default(),
            functions: functions::Gatherer::default(),
            callers: callers::Gatherer::default(),
            matcher: matching::Matcher::default(),
            arrivals: arrivals::Gatherer::default(),
            mismatch: mismatch::Gatherer::default(),
            warmup: warmup::Gatherer::default(),
            startup: startup::Gatherer::default(),
            network: network::Gatherer::default(),
            graphs: graphs::Gatherer::default(),
            streams: streams::Gatherer::default(),
            cost: cost::Gatherer::default(),
            stream_waits: stream_waits::Gatherer::default(),
            account: account::Gatherer::default(),
            timeline: timeline::Gatherer::default(),
            steps: Vec::new(),
            phases: Vec::new(),
            evidence: evidence::Gatherer::default(),
            silent: notes::Silent::default(),
            kernel_phases: phases::Gatherer::default(),
            jitter: nodes::jitter::Gatherer::default(),
            under_way: None,
            progress: progress::Gatherer::default(),
            kept_calls: 0,
            last_calls: standstill::Gatherer::default(),
            standstill: None,
            given: None,
            ceilings: Vec::new(),
        }
    }
}

impl Analysis {
    /// Adds a process of `capture`, of which only names and communicators are looked at: its processes need
    /// not hold calls. Processes must come in the order of the capture.
    pub fn add(&mut self, capture: &Capture, process: &Process) {
        let shown = Shown {
            first: true,
            last: true,
        };
        self.add_part(capture, process, shown);
    }

    /// Adds a part of a process, as [`Source::fold`] shows it.
    pub fn add_part(&mut self, capture: &Capture, process: &Process, shown: Shown) {
        let walk = Walk::new(process);
        let rows = self.operations.plan(capture, &walk);
        let networks = self.network.plan(&walk);
        let functions: Vec<u32> = walk
            .places()
            .iter()
            .map(|place| {
                let bytes = capture.bytes_as(place.shape, place.function);
                self.functions.index(place.function, bytes)
            })
            .collect();
        let sites = self.callers.plan(&walk, &rows);
        if shown.first {
            self.under_way = Some(UnderWay {
                steps: Steps::default(),
                matching: self.matcher.plan(capture, &walk),
                arrivals: self.arrivals.plan(capture, process, &walk),
                mismatch: self.mismatch.plan(capture, &walk),
                ranks: ranks::Gatherer::new(capture, process, &walk),
                pattern: steps::Gatherer::default(),
                evidence: self.evidence.plan(capture, process),
                progress: progress::ProcessProgress::new(capture, &walk),
                first_calls: startup::FirstCalls::default(),
                first_uses: first_uses::ProcessUses::default(),
                timed: 0,
                captured: 0,
                untimed: [0; CAUSES.len()],
                shown: graphs::Shown::default(),
                in_windows: streams::WindowCalls::new(capture, process),
                cost: cost::ProcessSpells::new(process),
                waits: stream_waits::ProcessWaits::new(capture, process, &walk),
                launches: self.account.plan(capture, process, &walk),
                timeline: timeline::ProcessBins::new(capture, process, &walk, &rows),
                jitter: nodes::jitter::ProcessCalls::default(),
                last_calls: standstill::ProcessCalls::default(),
            });
        }
        let Some(mut now) = self.under_way.take() else {
            return;
        };
        let devices = streams::devices(process, walk.places());
        let threads = now.jitter.plan(capture, process, &walk);
        let uses = now.first_uses.plan(&walk);
        walk.for_each(&mut now.steps, |execution| {
            let place = execution.place;
            now.in_windows.add(process, &devices, execution);
            now.jitter.add(capture, threads[place], execution);
            now.cost.add(process, execution);
            let exposed = now.waits.add(execution);
            now.launches.add(process, execution);
            now.timeline.add(process, execution, exposed.unwrap_or(0));
            self.callers.add(sites[place], execution, exposed);
            self.operations.add(rows[place], execution);
            self.functions.add(functions[place], execution);
            self.network.add(networks[place], process, execution);
            now.ranks.add(walk.places()[place].local, execution);
            let of = &walk.places()[place];
            now.pattern.add(of.local, of.function, execution);
            now.progress.add(of.local, execution);
            let row = (!execution.warmup).then_some(rows[place]);
            let operation = self.matcher.add(&mut now.matching, execution, row);
            self.arrivals
                .add(&now.arrivals, execution, operation.zip(row));
            self.mismatch.add(&mut now.mismatch, execution);
            match execution.gpu {
                _ if execution.captured => now.captured += execution.pieces,
                Ok(_) => now.timed += execution.pieces,
                Err(cause) => now.untimed[cause as usize] += execution.pieces,
            }
            if execution.shape.is(flag::REPLAY) {
                now.shown.add(execution.shape);
            }
            now.first_uses.add(uses[place], execution);
            if execution.warmup {
                self.warmup.add(walk.places()[place].function, execution);
                now.first_calls.add(execution);
            }
        });
        now.last_calls.add(process, self.kept_calls, shown.last);
        self.silent.add(capture, process);
        self.kernel_phases.add(process);
        self.evidence.add(&mut now.evidence, process);
        if !shown.last {
            self.under_way = Some(now);
            return;
        }
        self.operations.add_totals(process, &rows);
        self.network.add_totals(process, &networks);
        for total in &process.totals {
            let shape = &process.shapes[total.shape as usize];
            if !shape.is(flag::CAPTURED) {
                // Counters of a damaged live part may be anything.
                let calls = total.folded.saturating_add(total.rowless);
                now.timed = now.timed.saturating_add(total.timed);
                let place = total.shape as usize;
                let local = walk.places()[place].local;
                now.ranks.add_counted(local, place, calls, total.timed);
                now.waits.add_counted(place, calls);
                now.timeline.add_counted(place, calls);
                let stamps = process.fact("timing") == Some("stamps");
                operations::untimed_in_totals(stamps, shape, total, &mut now.untimed);
            }
        }
        for (shape, calls) in graphs::without_rows(process, now.shown) {
            let local = walk.places()[shape as usize].local;
            self.operations.add_in_graphs(rows[shape as usize], calls);
            now.ranks.add_counted(local, shape as usize, calls, 0);
            now.waits.add_in_graphs(shape as usize, calls);
            now.timeline.add_counted(shape as usize, calls);
        }
        self.graphs.add(capture, process);
        let shown = self.streams.add(capture, process, now.in_windows);
        for kernel in &shown {
            let ns = u64::try_from(kernel.stop - kernel.start);
            if let Some((shape, ns)) = kernel.captured_as.zip(ns.ok()) {
                self.operations.time_in_graph(rows[shape as usize], ns);
            }
        }
        now.launches.show(process, &shown);
        self.cost.add(process, now.cost);
        self.stream_waits.add(process, now.waits);
        self.account.add(now.launches);
        self.evidence.end(now.evidence, process);
        let timeline = &mut now.timeline;
        let ranks = now.ranks.finish(process, |device, ns, intervals| {
            timeline.add_nccl(device, ns, |each| intervals.each(each));
        });
        self.ranks.extend(ranks);
        self.timeline.add(now.timeline);
        self.phases.extend(now.pattern.phases(process));
        self.steps.extend(now.pattern.finish(process));
        self.progress.add(capture, process, &walk, now.progress);
        self.startup.add(now.first_calls, now.first_uses);
        self.jitter.add(process, now.jitter);
        self.last_calls.add(now.last_calls);
        self.completeness
            .add(process, &now.steps, now.timed, &now.untimed, now.captured);
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Analysis) {
        self.completeness.merge(later.completeness);
        self.ranks.extend(later.ranks);
        let rows = self.operations.merge(later.operations);
        self.functions.merge(later.functions);
        self.callers.merge(later.callers, &rows);
        let sequences = self.matcher.merge(later.matcher, &rows);
        self.arrivals.merge(later.arrivals, &sequences, &rows);
        self.mismatch.merge(later.mismatch);
        self.warmup.merge(later.warmup);
        self.startup.merge(later.startup);
        self.network.merge(later.network);
        self.graphs.merge(later.graphs);
        self.streams.merge(later.streams);
        self.cost.merge(later.cost);
        self.stream_waits.merge(later.stream_waits);
        self.account.merge(later.account);
        self.timeline.merge(later.timeline, &rows);
        self.steps.extend(later.steps);
        self.phases.extend(later.phases);
        self.evidence.merge(later.evidence);
        self.silent.merge(later.silent);
        self.kernel_phases.merge(later.kernel_phases);
        self.progress.merge(later.progress);
        self.jitter.merge(later.jitter);
        self.last_calls.merge(later.last_calls);
    }

    /// The report. Of `capture`, everything but the calls of its processes is looked at.
    pub fn finish(self, capture: &Capture) -> Report {
        let mut operations = self.operations.finish(capture, &self.matcher);
        let costs = tables::costs::costs(capture.root());
        nccl_costs::of_operations(&mut operations, capture, &costs);
        let mut differing = self.mismatch.finish(capture);
        let only_lengths = self.arrivals.has_only_lengths();
        let one_in = self.arrivals.one_in();
        let given = self.given.as_ref();
        let (exposures, no_windows) = (self.streams.exposures(), self.streams.why_none());
        let mut streams = self.streams.finish(capture);
        let mut steps = steps::finish(self.steps, capture.processes.len());
        let (mut over, mut critical_path) = (None, None);
        let mut waits = callers::Waits::new();
        let gathered = self.timeline;
        let look = |of: &arrivals::over_time::OverTime, clocks: Option<&clocks::Clocks>| {
            of.waits_by_caller(&mut waits);
            critical_path = critical_path::find(of, steps.as_ref(), &operations);
            over = gathered.over(clocks);
            if let Some(over) = &mut over {
                over.look(of);
            }
        };
        let (mut arrivals, clocks) = self.arrivals.finish(capture, &self.matcher, given, look);
        // Files without a time of a call have no clocks.
        let is_timeless = ["nccl-tests", "ras"]
            .iter()
            .any(|mode| capture.has_mode(mode));
        let clocks = clocks.filter(|_| !is_timeless);
        let functions = self.functions.finish(capture, &operations);
        let parts = self.functions.parts(capture);
        let callers = self.callers.finish(capture, &operations, &waits);
        let kinds = functions::kinds(&functions);
        let ranks = ranks::finish(self.ranks);
        if let Some((streams, steps)) = streams.as_mut().zip(steps.as_ref()) {
            streams.with_steps(steps);
        }
        let mut completeness = self.completeness;
        let jobs = jobs::jobs(capture);
        let found = self.evidence.finish(capture);
        completeness.absent(absent::rows(capture, &jobs, &found), &found, capture);
        completeness.more_in_graphs(self.progress.unseen_in_graphs(capture));
        let mut processes = capture.processes.iter();
        completeness.has_remedies = processes.all(|of| of.other_tool().is_none());
        let warmup = self.warmup.finish(capture);
        let run_us = ranks.wall_us.map(|wall| wall.max);
        if let Some(arrivals) = &mut arrivals {
            arrivals::bound(arrivals, streams.as_ref(), run_us);
        }
        let stream_waits = self.stream_waits.finish(capture, streams.as_ref());
        let mut account = self.account.finish(streams.as_ref());
        if let Some(account) = &mut account {
            steps = account::settled::settle(steps, account, capture.processes.len());
            // Nobody else asks for them, and there are as many as ranks make steps.
            account.begins_ns = Vec::new();
        }
        let newest = self.progress.newest_time();
        let deaths = self.progress.deaths(capture);
        let exits = exits::rows(capture, |index| self.progress.last_call(index));
        let standstill = self.standstill;
        let how_far = self.progress.how_far(capture, &deaths, standstill.as_ref());
        let mut timeline = over.map(|over| {
            let (arrivals, waits) = (arrivals.as_ref(), stream_waits.as_ref());
            let in_windows = over.in_windows(&exposures, no_windows);
            let mut timeline = over.finish(&operations, arrivals, waits, steps.as_ref());
            timeline.exposed_in_windows = in_windows;
            timeline.mark_deaths(&deaths, clocks.as_ref());
            timeline
        });
        let nodes = nodes::nodes(
            capture,
            timeline.as_ref(),
            steps.as_ref(),
            clocks.as_ref(),
            self.jitter.finish(),
        );
        if let Some(timeline) = &mut timeline {
            let why_none = nodes.why_none;
            timeline.sampled =
                timeline::curves::curves(capture, timeline, clocks.as_ref(), why_none);
            timeline.mpi = mpi::curve(capture, timeline, clocks.as_ref());
        }
        let memory = memory::of_capture(capture);
        let mpi = mpi::mpi(capture, steps.as_ref());
        let driver_calls = driver_calls::of_capture(capture, steps.as_ref());
        let startup = self.startup.finish(capture);
        let topologies = topology::topologies(capture);
        let mut report = Report {
            schema: SCHEMA,
            verdict: summary::Verdict::default(),
            job: job::job(capture, &ranks, &jobs),
            completeness,
            sightings: sightings::rows(capture, newest),
            deaths,
            exits,
            killed: deaths::killed(capture),
            standstill,
            how_far,
            communicators: job::communicators(capture, &memory),
            memory,
            only_lengths,
            no_times: notes::no_times(capture, &operations),
            notes: notes::notes(
                capture,
                self.silent,
                self.kernel_phases.finish(capture),
                &operations,
            ),
            ranks,
            kinds,
            functions,
            callers,
            parts,
            settings: settings::settings(capture, &operations),
            network: self.network.finish(capture),
            graphs: self.graphs.finish(capture),
            timeline,
            steps,
            phases: steps::marked::finish(self.phases),
            critical_path,
            nodes,
            mpi,
            // It is one of all of the run.
            cost: self.cost.finish().filter(|_| capture.part.is_none()),
            driver_calls,
            stream_waits,
            streams,
            arrivals,
            account,
            clocks,
            problems: job::problems(capture),
            summary: summary::summary(&operations, &warmup),
            paths: paths::of_startup(&startup, &topologies),
            startup,
            topologies,
            warmup,
            efficiency: efficiency::rows(&operations),
            operations,
            next: summary::Next::View,
            findings: Vec::new(),
            recommendations: Vec::new(),
            not_recorded: notes::not_recorded(capture),
            times_exist: capture
                .processes
                .iter()
                .all(|p| notes::has_stamps(p) && p.fact("timing_because").is_none()),
        };
        let ceilings = efficiency::of_capture(capture, &report.topologies);
        efficiency::hold_against(&mut report.efficiency, &ceilings);
        efficiency::hold_against(&mut report.efficiency, &self.ceilings);
        report.notes.extend(notes::of_callers(&report.callers));
        let patterns = &capture.communication;
        let notes = notes::patterns::notes(patterns, report.streams.as_ref());
        report.notes.extend(notes);
        report.notes.extend(one_in.map(notes::Note::OneIn));
        let first_step = recommendations::warm_up_in_steps(&report);
        report.notes.extend(first_step);
        let wall_us = report.ranks.wall_us.map(|wall| wall.max);
        // Of calls that were not announced, each rank lacks others: what seems to be the same call is not.
        let compares = !report
            .completeness
            .unseen
            .contains_key(completeness::MASKED);
        if !compares {
            differing.clear();
        }
        let below_ceiling = findings::below_ceiling(&report, capture, &costs);
        report.findings = findings::findings(
            &report.deaths,
            report.standstill.as_ref(),
            report.account.as_ref().filter(|_| compares),
            report.arrivals.as_ref().filter(|_| compares),
            report.clocks.as_ref(),
            &differing,
            wall_us,
            report
                .completeness
                .in_graphs
                .filter(|_| summary::mostly_in_graphs(&report)),
            below_ceiling,
        );
        let links = findings::topology(&report.topologies, capture);
        report.findings.extend(links);
        report
            .findings
            .extend(findings::nccl_memory(&report.memory));
        findings::name(&mut report.findings, capture);
        findings::busy_gpu::add(
            &mut report.findings,
            report.account.as_ref(),
            report.streams.as_ref(),
            &report.nodes.gpus,
            capture,
        );
        findings::judge(&mut report, capture);
        report.recommendations = recommendations::recommendations(&report, capture, &costs);
        report.next = summary::next(&report);
        report.verdict = summary::verdict(&report);
        report.keep_one_price();
        report
    }
}

#[cfg(test)]
mod tests;
