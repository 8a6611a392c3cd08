//! Does what a plan says.
//!
//! Every round runs a [`Case`] once without a profiler and once under each, in a random order. A run has a
//! folder: `out` for the profiler's files, and beside it what the work prints and counts.
//!
//! Rule: a run that fails gives no figure. The report's notes name it, and its round has no pair for that
//! profiler. A case that fails without a profiler too is not run again.

use crate::accuracy::{self, percentile, Times};
use crate::beside::Beside;
use crate::cases::{cases, Case, EventCase, Source, SMALL};
use crate::completeness::{self, Counts};
use crate::distribution::Distribution;
use crate::overhead::overhead;
use crate::plan::{JudgePlan, Profiler, OUT};
use crate::process::{self, RunOutcome};
use crate::random::Random;
use crate::readers;
use crate::records::Told;
use crate::report::*;
use crate::silent;
use crate::truth::{self, Key, Truth};
use anyhow::{bail, Context};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What one run came to.
#[derive(Default)]
struct Run {
    /// None of one that failed, or was left out.
    ran: Option<RunOutcome>,
    failed: bool,
    figures: BTreeMap<(String, &'static str), f64>,
    callbacks: Vec<Value>,
    output_bytes: u64,
    done: Option<u64>,
    /// Ranks of the work, as far as it says.
    ranks: Option<u32>,
    /// Sums over ranks of the work's own times and of the profiler's, ns.
    own_ns: Option<f64>,
    told: Option<Told>,
    /// Calls that the profiler has a time of.
    timed: u64,
    /// What a small call took on its thread and on the others, µs.
    took_us: Option<[f64; 2]>,
}

/// Of one profiler in one case, all rounds.
#[derive(Default)]
struct Sum {
    judged: bool,
    format: String,
    by: BTreeMap<Key, Counts>,
    nameless: u64,
    admitted: Option<u64>,
    unreadable: u64,
    by_pieces: Vec<String>,
    /// Why nothing matches, of the last run in which nothing did.
    why: Option<String>,
    times: BTreeMap<(String, u64), Times>,
    /// The work's own times of its calls by function and size, ns; also without a profiler.
    own: BTreeMap<(String, u64), Vec<f64>>,
    runs: Vec<Run>,
}

/// Runs everything. `told` hears how many runs are done, and of how many.
///
/// # Errors
/// When a folder can't be made or a program can't be started; not when a run fails.
pub fn run(plan: &JudgePlan, told: &mut dyn FnMut(u64, u64)) -> anyhow::Result<Report> {
    let temporary;
    let folder = match &plan.folder {
        Some(folder) => folder.as_path(),
        None => {
            temporary = tempfile::Builder::new()
                .prefix("ncclscope-judge-")
                .tempdir()?;
            temporary.path()
        }
    };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("could not make `{}`", folder.display()))?;
    if std::fs::read_dir(folder)?.next().is_some() {
        bail!(
            "expected a new or an empty folder for the runs' files, found some in `{}`, \
             which would be taken for this run's",
            folder.display()
        );
    }
    let folder = std::path::absolute(folder)?;
    let profilers: Vec<Profiler> = std::iter::once(Profiler::none())
        .chain(plan.profilers.iter().cloned())
        .collect();
    let cases = cases(plan, &folder)?;
    let mut report = Report {
        schema: "ncclscope.judge/1",
        work: plan.work.name().into(),
        rounds: plan.rounds,
        seed: plan.seed,
        limit: plan.limit,
        confidence: analyze::interval::CONFIDENCE,
        ..Report::default()
    };
    let mut random = Random(plan.seed);
    let all = cases.len() as u64 * u64::from(plan.rounds) * profilers.len() as u64;
    let mut done = 0;
    for (number, case) in cases.iter().enumerate() {
        let mut sums: Vec<Sum> = profilers.iter().map(|_| Sum::default()).collect();
        'rounds: for round in 0..plan.rounds {
            for index in random.order(profilers.len()) {
                let profiler = &profilers[index];
                told(done, all);
                done += 1;
                let place = folder.join(format!("case-{number}/round-{round}/{index}"));
                let run = one(
                    plan,
                    case,
                    profiler,
                    &place,
                    &mut sums[index],
                    &mut report.notes,
                )?;
                if (plan.stopped)() {
                    bail!("stopped after {done} of {all} runs");
                }
                sums[index].runs.push(run);
                if plan.folder.is_none() {
                    // A flood leaves gigabytes.
                    let _ = std::fs::remove_dir_all(&place);
                }
                let alone = &sums[0].runs;
                if !alone.is_empty() && alone.iter().all(|run| run.failed) {
                    report.notes.push(format!(
                        "{}: not run any more, as it fails without a profiler",
                        case.name
                    ));
                    break 'rounds;
                }
            }
        }
        done = (number as u64 + 1) * u64::from(plan.rounds) * profilers.len() as u64;
        for (index, (profiler, sum)) in profilers.iter().zip(&mut sums).enumerate() {
            if sum.is_silent() && sum.why.is_none() {
                let place = folder.join(format!("case-{number}/log/{index}"));
                sum.why = Some(with_log(plan, case, profiler, &place)?);
            }
        }
        summarise(plan, case, &profilers, sums, &mut report);
    }
    let mut seen = std::collections::HashSet::new();
    report.notes.retain(|note| seen.insert(note.clone()));
    Ok(report)
}

impl Sum {
    /// Whether there were calls to record, and none has a record.
    fn is_silent(&self) -> bool {
        let done = self.by.values().any(|counts| counts.done > 0);
        self.judged && done && self.by.values().all(|counts| counts.matched == 0)
    }
}

/// What starts a run in `place`.
fn command(case: &Case, profiler: &Profiler, place: &Path) -> anyhow::Result<Command> {
    let out = place.join("out");
    std::fs::create_dir_all(&out).with_context(|| format!("could not make `{}`", out.display()))?;
    let mut command = Command::new(&case.program);
    command.args(&case.args);
    environment(&mut command, profiler, &out);
    if matches!(case.source, Source::Timed) {
        command.arg("--parquet").arg(place.join("calls.parquet"));
    }
    // Some profilers write where the program runs. A command of the user's may need its own place.
    if !matches!(case.source, Source::Counted { .. }) {
        command.current_dir(&out);
    }
    Ok(command)
}

/// What the profiler of a command of the user's may write beside it.
fn beside(case: &Case, profiler: &Profiler) -> Option<Beside> {
    let plugin = profiler.plugin.as_deref().filter(|_| profiler.records)?;
    let is_users = matches!(case.source, Source::Counted { .. });
    Beside::new(&std::env::current_dir().ok()?, plugin).filter(|_| is_users)
}

/// One more run of a profiler that left nothing, with NCCL's log: what that says of it.
fn with_log(
    plan: &JudgePlan,
    case: &Case,
    profiler: &Profiler,
    place: &Path,
) -> anyhow::Result<String> {
    let mut command = command(case, profiler, place)?;
    silent::with_log(&mut command, place);
    let beside = beside(case, profiler);
    process::run(command, place, plan.timeout, plan.stopped)?;
    if let Some(beside) = beside {
        beside.take(&place.join("out"))?;
    }
    // For what it leaves in shared memory.
    readers::read(&place.join("out"), None, plan.folder.is_some())?;
    let plugin = profiler.plugin.as_deref().unwrap_or_default();
    let why = silent::asks_nccl(place, &profiler.name, plugin);
    if plan.folder.is_none() {
        let _ = std::fs::remove_dir_all(place);
    }
    Ok(why)
}

/// One run, its output judged into `sum`.
fn one(
    plan: &JudgePlan,
    case: &Case,
    profiler: &Profiler,
    place: &Path,
    sum: &mut Sum,
    notes: &mut Vec<String>,
) -> anyhow::Result<Run> {
    if matches!(case.source, Source::Callbacks) && profiler.plugin.is_none() {
        return Ok(Run::default());
    }
    if let Source::Events(of) = &case.source {
        if !profiler
            .mask
            .is_none_or(|mask| has_events(&of.release, mask))
        {
            return Ok(Run::default());
        }
    }
    let out = place.join("out");
    let counts = place.join("counts");
    let mut command = command(case, profiler, place)?;
    let counted = match case.source {
        Source::Counted { .. } => true,
        Source::Timed => plan.check_counter,
        _ => false,
    };
    if let Some(counter) = plan.counter.as_ref().filter(|_| counted) {
        std::fs::create_dir_all(&counts)?;
        truth::counter::preload(&mut command, counter, &counts);
    }
    let beside = beside(case, profiler);
    let ran = process::run(command, place, plan.timeout, plan.stopped)?;
    if let Some(beside) = beside {
        beside.take(&out)?;
    }
    let who = format!("{} under {}", case.name, profiler.name);
    let mut run = Run::default();
    if let Some(why) = &ran.failed {
        notes.push(format!("{who} failed: {why}{}", last_words(place)));
        run.failed = true;
        if profiler.records {
            // For what it leaves in shared memory.
            readers::read(&out, None, plan.folder.is_some())?;
        }
        return Ok(run);
    }
    let lines = || ran.stdout.lines().rev();
    let truth = match &case.source {
        Source::Announced | Source::Events(_) => {
            let line = lines().find_map(|l| serde_json::from_str::<Value>(l).ok());
            if let (Source::Events(_), Some(line)) = (&case.source, &line) {
                run.took_us = took_us(&line["took"]);
            }
            if let Some(why) = line.as_ref().and_then(|l| l["no_plugin"].as_str()) {
                if profiler.plugin.is_some() {
                    notes.push(format!("{who} had no plugin: {why}"));
                }
            }
            line.and_then(|line| truth::from_fake_nccl(&line))
        }
        Source::Callbacks => {
            run.callbacks = lines()
                .filter_map(|l| serde_json::from_str(l).ok())
                .collect();
            None
        }
        Source::Timed => match truth::bench::read(&place.join("calls.parquet")) {
            Ok(bench) => {
                let figures = bench.figures.into_iter();
                run.figures = figures.map(|(what, us)| ((what, "us"), us)).collect();
                if counted {
                    notes.extend(counter_against(&bench.truth, &counts, &case.name));
                }
                Some(bench.truth)
            }
            Err(error) => {
                notes.push(format!("{who}: {error:#}"));
                None
            }
        },
        Source::Counted { steps } => {
            let mut steps = if *steps {
                step_times(&ran.stdout)
            } else {
                Vec::new()
            };
            run.figures = match percentile(&mut steps, 50) {
                Some(ms) => [(("step".into(), "ms"), ms)].into(),
                None => [(("whole run".into(), "s"), ran.wall_s)].into(),
            };
            plan.counter
                .as_ref()
                .and_then(|_| match truth::counter::read(&counts) {
                    Ok(truth) => Some(truth),
                    Err(error) => {
                        notes.push(format!("{who}: {error:#}"));
                        None
                    }
                })
        }
    };
    run.done = truth.as_ref().map(Truth::total);
    if let Some(truth) = &truth {
        own_times(truth, &mut run, sum);
    }
    let mut files = Vec::new();
    readers::list(&out, &mut files)?;
    let sizes = files.iter().filter_map(|f| Some(f.metadata().ok()?.len()));
    run.output_bytes = sizes.sum();
    run.ran = Some(ran);
    if let (true, Some(truth)) = (profiler.records, &truth) {
        judge(plan, truth, &out, sum, &mut run, &who, notes)?;
    } else if profiler.records && matches!(case.source, Source::Callbacks) {
        // Read for what it leaves in shared memory.
        readers::read(&out, None, plan.folder.is_some())?;
    }
    Ok(run)
}

/// What the counter saw of the functions that the benchmark says it called.
fn counter_against(bench: &Truth, counts: &Path, case: &str) -> Vec<String> {
    let counted = match truth::counter::read(counts) {
        Ok(counted) => counted,
        Err(error) => return vec![format!("{case}: {error:#}")],
    };
    let by_function = |truth: &Truth| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (key, calls) in &truth.calls {
            *sums.entry(key.function.clone()).or_default() += calls.number;
        }
        sums
    };
    let counted = by_function(&counted);
    let saw = |function: &str| counted.get(function).copied().unwrap_or(0);
    let (mut united, mut sends) = (Vec::new(), 0);
    let mut notes = Vec::new();
    for (function, made) in by_function(bench) {
        // Over all ranks, as many sends as receives: one for each rank and call, or one for each rank and
        // other rank.
        let pieces = match &*function {
            "SendRecv" | "Gather" | "Scatter" => made,
            "AlltoAll" => made * u64::from(bench.nranks.unwrap_or(1)),
            _ => 0,
        };
        if pieces > 0 && saw(&function) == 0 {
            united.push(function);
            sends += pieces;
            continue;
        }
        let saw = saw(&function);
        notes.push(format!(
            "{case}: of {function}, the benchmark made {made} calls and the counter saw {saw}"
        ));
    }
    if !united.is_empty() {
        let (sent, received) = (saw("Send"), saw("Recv"));
        notes.push(format!(
            "{case}: of {}, the benchmark made {sends} sends and as many receives, \
             and the counter saw {sent} and {received}",
            united.join(", ")
        ));
    }
    notes
}

fn judge(
    plan: &JudgePlan,
    truth: &Truth,
    out: &Path,
    sum: &mut Sum,
    run: &mut Run,
    who: &str,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    let records = readers::read(out, truth.nranks, plan.folder.is_some())?;
    run.timed += records.timed();
    run.told = records.told();
    if let Some(file) = records.foreign_files.first() {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        notes.push(format!(
            "{who} left {} in no format that is read here, such as `{name}`",
            render::layout::plural(records.foreign_files.len() as u64, "file", "files")
        ));
    }
    let judged = completeness::judge(truth, &records);
    if judged.by.values().all(|counts| counts.matched == 0) {
        sum.why = silent::what_was_left(truth, &records);
    }
    accuracy::collect(truth, &judged, &mut sum.times);
    sum.judged = true;
    if sum.format.is_empty() || sum.format == "none" {
        sum.format = records.format.clone();
    }
    for (key, counts) in &judged.by {
        sum.by.entry(key.clone()).or_default().add(counts);
    }
    sum.nameless += judged.nameless;
    sum.unreadable += records.unreadable;
    if let Some(admitted) = records.admitted {
        *sum.admitted.get_or_insert(0) += admitted;
    }
    for function in judged.by_pieces {
        if !sum.by_pieces.contains(&function) {
            sum.by_pieces.push(function);
        }
    }
    Ok(())
}

/// Keeps the work's own times.
fn own_times(truth: &Truth, run: &mut Run, sum: &mut Sum) {
    let ranks: std::collections::BTreeSet<u32> = truth.calls.keys().map(|key| key.rank).collect();
    run.ranks = u32::try_from(ranks.len()).ok().filter(|ranks| *ranks > 0);
    for (key, calls) in &truth.calls {
        let times = calls.each.iter().filter_map(|call| call.time_ns);
        for ns in times {
            let ns = ns as f64;
            *run.own_ns.get_or_insert(0.0) += ns;
            let place = (key.function.clone(), key.bytes);
            sum.own.entry(place).or_default().push(ns);
        }
    }
}

fn environment(command: &mut Command, profiler: &Profiler, out: &Path) {
    let out = out.display().to_string();
    command
        .env(
            "NCCL_PROFILER_PLUGIN",
            profiler.plugin.as_deref().unwrap_or("none"),
        )
        // Where the profilers known here are told to write.
        .env("NCCLSCOPE_OUT", &out)
        .env("NCCLSCOPE_QUIET", "1")
        .env("NCCL_INSPECTOR_DUMP_DIR", &out);
    for (key, value) in &profiler.env {
        command.env(key, value.replace(OUT, &out));
    }
}

/// Times of steps in ms: the lines that are a number and nothing else.
fn step_times(stdout: &str) -> Vec<f64> {
    let numbers = stdout.lines().filter_map(|line| line.trim().parse().ok());
    numbers
        .filter(|ms: &f64| ms.is_finite() && *ms > 0.0)
        .collect()
}

/// The last line that a failed run wrote to stderr, if it did.
fn last_words(place: &Path) -> String {
    let bytes = std::fs::read(place.join("stderr")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().find(|l| !l.trim().is_empty());
    last.map_or(String::new(), |line| format!(": {}", line.trim()))
}

fn summarise(
    plan: &JudgePlan,
    case: &Case,
    profilers: &[Profiler],
    sums: Vec<Sum>,
    report: &mut Report,
) {
    let median = |values: &mut dyn Iterator<Item = f64>| {
        let mut values: Vec<f64> = values.collect();
        percentile(&mut values, 50)
    };
    let alone = &sums[0].runs;
    for (profiler, sum) in profilers.iter().zip(&sums).skip(1) {
        let mut figures: Vec<&(String, &str)> =
            sum.runs.iter().flat_map(|run| run.figures.keys()).collect();
        figures.sort_unstable();
        figures.dedup();
        for figure in figures {
            let both = alone.iter().zip(&sum.runs);
            let pairs: Vec<(f64, f64)> = both
                .filter_map(|(a, b)| Some((*a.figures.get(figure)?, *b.figures.get(figure)?)))
                .collect();
            report
                .overhead
                .extend(overhead(&pairs, plan.limit).map(|overhead| OverheadOf {
                    profiler: profiler.name.clone(),
                    case: case.name.clone(),
                    figure: figure.0.clone(),
                    unit: figure.1.into(),
                    overhead,
                }));
        }
        if let Source::Events(of) = &case.source {
            report
                .event_costs
                .extend(event_cost(of, &profiler.name, alone, &sum.runs));
        }
        report
            .callbacks
            .extend(callbacks(&profiler.name, &sum.runs));
    }
    for (profiler, sum) in profilers.iter().zip(&sums) {
        let ran = || sum.runs.iter().filter_map(|run| run.ran.as_ref());
        let (Some(wall_s), Some(cpu_s), Some(peak)) = (
            median(&mut ran().map(|r| r.wall_s)),
            median(&mut ran().map(|r| r.cpu_s)),
            median(&mut ran().map(|r| r.peak_bytes as f64)),
        ) else {
            continue;
        };
        let done: u64 = sum.runs.iter().filter_map(|run| run.done).sum();
        let bytes: u64 = sum.runs.iter().map(|run| run.output_bytes).sum();
        report.resources.push(Resources {
            profiler: profiler.name.clone(),
            case: case.name.clone(),
            wall_s,
            cpu_s,
            peak_mib: peak / f64::from(1 << 20),
            output_bytes_per_call: (profiler.plugin.is_some() && done > 0)
                .then(|| bytes as f64 / done as f64),
        });
    }
    for (profiler, sum) in profilers.iter().zip(&sums) {
        distributions(profiler, case, sum, report);
        report
            .communication
            .extend(communication(profiler, case, sum));
    }
    for (profiler, sum) in profilers.iter().zip(sums) {
        if !sum.judged {
            continue;
        }
        let mut functions: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (key, counts) in &sum.by {
            let of = functions.entry(&key.function).or_default();
            *of = (of.0 + counts.done, of.1 + counts.matched);
        }
        for (function, (done, matched)) in functions.into_iter().filter(|(_, (done, _))| *done > 0)
        {
            report.recorded.push(RecordedOf {
                profiler: profiler.name.clone(),
                case: case.name.clone(),
                function: function.to_owned(),
                done,
                matched,
                recorded_percent: matched as f64 * 100.0 / done as f64,
            });
        }
        let why = sum.why.clone().filter(|_| sum.is_silent());
        let mut counts = Counts {
            found: sum.nameless,
            foreign: sum.nameless,
            ..Counts::default()
        };
        sum.by.values().for_each(|c| counts.add(c));
        report.completeness.push(CompletenessOf {
            profiler: profiler.name.clone(),
            case: case.name.clone(),
            format: sum.format,
            counts,
            recorded_percent: (counts.done > 0)
                .then(|| counts.matched as f64 * 100.0 / counts.done as f64),
            admitted: sum.admitted,
            unreadable: sum.unreadable,
            nameless: sum.nameless,
            why,
            by_pieces: sum.by_pieces,
            by: sum
                .by
                .into_iter()
                .map(|(key, counts)| CompletenessBy {
                    function: key.function,
                    bytes: key.bytes,
                    rank: key.rank,
                    counts,
                })
                .collect(),
        });
        for ((function, bytes), times) in sum.times {
            report
                .accuracy
                .extend(times.accuracy().map(|accuracy| AccuracyOf {
                    profiler: profiler.name.clone(),
                    case: case.name.clone(),
                    function,
                    bytes,
                    accuracy,
                }));
        }
    }
}

/// Whether a release of NCCL has any of these events.
fn has_events(release: &str, mask: u64) -> bool {
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0);
    let version = next() * 10_000 + next() * 100 + next();
    let known = nccl_abi::release::ALL
        .iter()
        .find(|of| of.version == version);
    let events = known.and_then(|of| nccl_abi::event::known(of.native_abi));
    events.is_none_or(|events| events & mask != 0)
}

/// What a group of calls took by `fake-nccl`'s count, on its thread and on the others, µs.
fn took_us(took: &Value) -> Option<[f64; 2]> {
    let groups = took["groups"].as_f64().filter(|groups| *groups > 0.0)?;
    let each = |key: &str| Some(took[key].as_f64()? / groups / 1e3);
    Some([each("calls_ns")?, each("other_ns")?])
}

/// Processor time that small calls take more under a profiler, of pairs of a round.
fn event_cost(of: &EventCase, profiler: &str, alone: &[Run], runs: &[Run]) -> Option<EventCost> {
    let both = alone.iter().zip(runs);
    let pairs: Vec<[[f64; 2]; 2]> = both
        .filter_map(|(without, with)| Some([without.took_us?, with.took_us?]))
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let without =
        |at: usize| -> Vec<f64> { pairs.iter().map(|[without, _]| without[at]).collect() };
    let more = |at: usize| -> Vec<f64> {
        pairs
            .iter()
            .map(|[without, with]| with[at] - without[at])
            .collect()
    };
    let interval = |at: usize| analyze::interval::of_runs(&more(at)).map(|of| (of.low, of.high));
    Some(EventCost {
        profiler: profiler.to_owned(),
        function: of.function.to_owned(),
        bytes: SMALL,
        hosts: of.hosts,
        release: of.release.clone(),
        pairs: pairs.len() as u64,
        call_us: mean(&without(0)),
        call_more_us: mean(&more(0)),
        call_more_interval_us: interval(0),
        threads_us: mean(&without(1)),
        threads_more_us: mean(&more(1)),
        threads_more_interval_us: interval(1),
    })
}

/// How the times of one profiler's runs are spread.
fn distributions(profiler: &Profiler, case: &Case, sum: &Sum, report: &mut Report) {
    let own = sum.own.iter().map(|(place, times)| (place, "bench", times));
    let told = sum
        .times
        .iter()
        .map(|(place, times)| (place, "profiler", &times.told));
    for ((function, bytes), by, times) in own.chain(told) {
        let Some(distribution) = Distribution::of(times.iter().copied()) else {
            continue;
        };
        report.distributions.push(DistributionOf {
            profiler: profiler.name.clone(),
            case: case.name.clone(),
            function: function.clone(),
            bytes: *bytes,
            by,
            distribution,
        });
    }
}

/// Communication time beside the time of the run; `None` if neither the work nor the profiler has times.
fn communication(profiler: &Profiler, case: &Case, sum: &Sum) -> Option<CommunicationOf> {
    let median = |of: &dyn Fn(&Run) -> Option<f64>| {
        let mut values: Vec<f64> = sum.runs.iter().filter_map(of).collect();
        percentile(&mut values, 50)
    };
    // Times are summed over ranks.
    let seconds = |ns: Option<f64>, run: &Run| Some(ns? / 1e9 / f64::from(run.ranks?));
    let of = |run: &Run| seconds(run.told.map(|told| told.ns), run);
    let told_s = median(&of);
    let own_s = median(&|run| seconds(run.own_ns, run));
    let wall_s = median(&|run| Some(run.ran.as_ref()?.wall_s))?;
    if told_s.is_none() && own_s.is_none() {
        return None;
    }
    let timed: u64 = sum.runs.iter().map(|run| run.timed).sum();
    let done: u64 = sum.runs.iter().filter_map(|run| run.done).sum();
    Some(CommunicationOf {
        profiler: profiler.name.clone(),
        case: case.name.clone(),
        told_s,
        told_interval_s: told_s.and_then(|told_s| {
            let each: Vec<f64> = sum.runs.iter().filter_map(of).collect();
            let scatter = |run: &Run| seconds(run.told.map(|told| told.variance.sqrt()), run);
            told_interval(told_s, &each, sum.runs.iter().filter_map(scatter))
        }),
        timed_percent: (sum.judged && done > 0).then(|| timed as f64 * 100.0 / done as f64),
        own_s,
        wall_s,
        told_share_of_wall: told_s.map(|told| told / wall_s),
    })
}

/// Within which bounds a sum of times is at 95 %, s: rounds differ, and in each of them calls have no time.
/// `None` if one round timed all of its calls, which says nothing of the next one.
fn told_interval(
    told_s: f64,
    each: &[f64],
    scatter: impl Iterator<Item = f64>,
) -> Option<(f64, f64)> {
    let rounds = analyze::interval::of_runs(each).map_or(0.0, |of| (of.high - of.low) / 2.0);
    let variance: f64 = scatter.map(|s| s * s).sum();
    let sample = 1.96 * variance.sqrt() / each.len() as f64;
    let half = rounds.hypot(sample);
    (half > 0.0).then(|| ((told_s - half).max(0.0), told_s + half))
}

/// The lines of `fake-nccl bench` of all rounds, by rate and channels.
fn callbacks(profiler: &str, runs: &[Run]) -> Vec<Callbacks> {
    let mut cases: BTreeMap<(u64, u64), Vec<&Value>> = BTreeMap::new();
    for line in runs.iter().flat_map(|run| &run.callbacks) {
        if let (Some(rate), Some(channels)) = (line["rate"].as_u64(), line["channels"].as_u64()) {
            cases.entry((rate, channels)).or_default().push(line);
        }
    }
    let summed = cases.into_iter().filter_map(|((rate, channels), lines)| {
        let values = |name: &str| -> Vec<f64> {
            lines
                .iter()
                .filter_map(|line| line[name].as_f64())
                .collect()
        };
        let median = |name: &str| percentile(&mut values(name), 50);
        let largest = |name: &str| values(name).into_iter().reduce(f64::max);
        let interval =
            |name: &str| analyze::interval::of_runs(&values(name)).map(|i| (i.low, i.high));
        Some(Callbacks {
            profiler: profiler.to_owned(),
            rate,
            channels,
            call_ns: median("call_ns")?,
            call_interval_ns: interval("call_ns"),
            progress_ns: median("progress_ns")?,
            progress_interval_ns: interval("progress_ns"),
            p9999_us: median("p9999_us")?,
            max_us: largest("max_us")?,
            own_cpu_percent: median("own_cpu_percent")?,
            rss_growth_mib: largest("rss_growth_mib")?,
        })
    });
    summed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_events_cost_is_a_mean_of_pairs_with_its_interval() {
        let of = EventCase {
            function: "AllReduce",
            hosts: 2,
            release: "2.28.9".into(),
        };
        let run = |call: f64| Run {
            took_us: Some([call, 1.0]),
            ..Run::default()
        };
        let alone = [run(2.0), run(3.0), run(2.5), Run::default()];
        let under = [run(2.5), run(3.6), run(2.9), run(9.0)];
        let cost = event_cost(&of, "empty Coll", &alone, &under).expect("pairs");
        assert_eq!((cost.pairs, cost.call_us), (3, 2.5));
        assert!((cost.call_more_us - 0.5).abs() < 1e-9, "{cost:?}");
        let (low, high) = cost.call_more_interval_us.expect("three pairs");
        assert!(
            (0.2..0.5).contains(&low) && (0.5..0.8).contains(&high),
            "{cost:?}"
        );
        assert_eq!(cost.threads_more_interval_us, Some((0.0, 0.0)));
        assert!(event_cost(&of, "x", &alone, &[]).is_none());
    }

    #[test]
    fn a_release_has_the_events_of_its_interface() {
        use nccl_abi::event::{COLL, COLL_API, KERNEL_CH};
        assert!(has_events("2.28.9", COLL_API) && has_events("2.27.7", COLL | COLL_API));
        assert!(!has_events("2.27.7", COLL_API) && !has_events("2.25.1", KERNEL_CH));
    }

    #[test]
    fn steps_are_the_lines_that_are_numbers() {
        assert_eq!(
            step_times(
                "loss 0.3
 12.5 
13
NaN
-1
step 4
"
            ),
            [12.5, 13.0]
        );
    }
}
