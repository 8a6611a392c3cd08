//! `ncclscope tune`: which setting makes a program faster, proved over rounds of runs.
//!
//! [`arms`] makes the settings of the options. `Experiment` runs the program once a round under each of them,
//! in a random order, each time by `ncclscope run`. What the captures say, `analyze::tune` ranks. With
//! `--within` the program runs once, and [`within`] has the tuner plugin try the settings in blocks of calls.
//!
//! Rule: a setting that NCCL did not use, or under which the program did other work, is never named the
//! winner, and neither is one that the noise could have made.

mod arms;
mod process;
mod within;

pub use within::PLUGIN as TUNER;

use crate::report::{open, print};
use analyze::tune::blocks::{self, Judged};
use analyze::tune::{order, rank, RunSeen, Trial, Used, DEFAULT, LEAST_ROUNDS};
use analyze::Report;
use anyhow::{bail, Context};
use arms::Arm;
use bench::stop;
use render::tune::{other_work, Answer, AskedRow, RunRow, Setting};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Find the NCCL setting that makes your job faster, and prove it
///
///   ncclscope tune --try NCCL_ALGO=Ring,Tree --try NCCL_PROTO=LL,Simple --rounds 5 -- torchrun train.py
///   ncclscope tune --within --try NCCL_ALGO=Ring,Tree --try NCCL_PROTO=LL,Simple -- torchrun train.py
///   ncclscope tune --setting 'NCCL_MIN_NCHANNELS=16 NCCL_NTHREADS=256' -- srun python train.py
///
/// Runs the program once a round with each setting and once with the default, in a random order, and ranks
/// the settings by the time of a step. Several --try are tried in all combinations. A comma in a value is
/// written `\,`.
///
/// With --within the program runs once. A tuner plugin switches the settings by blocks of calls, on all ranks
/// alike, and the steps of the blocks are compared.
///
/// Exit status: 0 a setting is faster than the default, or the default is faster than all of them, 2 the
/// difference can't be told from noise, or wrong usage, 130 after ^C.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// A variable and the values to try; several are combined
    #[arg(long = "try", value_name = "NAME=VALUE,...", value_parser = arms::tried)]
    tries: Vec<arms::Tried>,

    /// Variables to try together, as one setting
    #[arg(long = "setting", value_name = "NAME=VALUE ...", value_parser = arms::setting)]
    settings: Vec<arms::Variables>,

    /// Rounds; each has one run with every setting
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(LEAST_ROUNDS as u64..=1000))]
    rounds: u64,

    /// Try the settings within one run: NCCL_ALGO, NCCL_PROTO and NCCL_MAX_NCHANNELS
    #[arg(long)]
    within: bool,

    /// Collectives of a block; a block should have ten steps or more
    #[arg(long, value_name = "N", default_value_t = 200, requires = "within",
        value_parser = clap::value_parser!(u64).range(1..))]
    block: u64,

    /// Only calls of this function, like all_reduce
    #[arg(long, value_name = "NAME", requires = "within", value_parser = within::function)]
    function: Option<String>,

    /// Only calls of these bytes, like 64K..4M
    #[arg(long, value_name = "MIN..MAX", requires = "within", value_parser = within::bytes)]
    bytes: Option<(u64, u64)>,

    /// Folder for the captures, new or empty [default: a new one here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Seconds after which a run is ended
    #[arg(long, value_name = "S", default_value_t = 3600.0)]
    timeout: f64,

    /// Seed of the order of runs [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Print JSON (ncclscope.tune/1) instead of text
    #[arg(long)]
    json: bool,

    /// Write a page too: changes with their intervals, how times are spread, what NCCL ran, energy
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    look: crate::look::Look,

    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the rounds, and prints the ranking.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let arms = arms::all(&args.tries, &args.settings);
    if arms.len() < 2 {
        bail!("expected something to try\n  hint: --try NCCL_ALGO=Ring,Tree");
    }
    if !(args.timeout > 0.0 && args.timeout < 1e9) {
        bail!(
            "--timeout: expected seconds above 0, found `{}`",
            args.timeout
        );
    }
    if std::env::var_os("NCCLSCOPE_RUN").is_some() {
        bail!("this is already under an `ncclscope run`\n  hint: start `ncclscope tune` outside of it");
    }
    if let Some(file) = &args.html {
        bench::writable(file)?;
    }
    if args.within {
        return one_run(args, &arms);
    }
    let folder = folder(args.output.as_deref())?;
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut experiment = Experiment {
        failed: vec![None; arms.len()],
        arms,
        folder,
        seed: args
            .seed
            .unwrap_or_else(|| clock.map_or(0, |d| d.as_nanos() as u64)),
        timeout: Duration::from_secs_f64(args.timeout),
        command: args.command,
        runs: Vec::new(),
    };
    stop::watch();
    let mut rounds = 0;
    'rounds: for round in 0..args.rounds {
        for arm in order(experiment.seed, round, experiment.arms.len()) {
            if stop::asked().is_some() {
                break 'rounds;
            }
            // One run shows that a setting fails, or that it changes nothing. More would only cost time.
            if round == 0 || experiment.left_out(arm).is_none() {
                experiment.run(round, arm, args.rounds)?;
            }
        }
        rounds = round + 1;
    }
    let answer = experiment.answer(rounds);
    show(&answer, args.json, args.html.as_deref(), &args.look)
}

/// Prints the answer; the exit status is its.
fn show(
    answer: &Answer,
    json: bool,
    html: Option<&Path>,
    look: &crate::look::Look,
) -> anyhow::Result<ExitCode> {
    if let Some(path) = html {
        let mut page = Vec::new();
        render::tune_html::write(answer, &mut page)?;
        std::fs::write(path, page)
            .with_context(|| format!("could not write `{}`", path.display()))?;
    }
    print(|out| {
        if json {
            render::tune::json(answer, out)
        } else {
            render::tune::text(answer, look.of_stdout(), out)
        }
    })?;
    Ok(match (stop::asked(), answer.winner) {
        (Some(signal), _) => ExitCode::from(128 + signal as u8),
        (None, Some(_)) => ExitCode::SUCCESS,
        (None, None) => ExitCode::from(2),
    })
}

/// Runs the program once, with the settings in blocks of calls.
fn one_run(args: Args, arms: &[Arm]) -> anyhow::Result<ExitCode> {
    if let Some(other) = std::env::var_os("NCCL_TUNER_PLUGIN").filter(|other| !other.is_empty()) {
        bail!(
            "NCCL_TUNER_PLUGIN is `{}`, and NCCL loads one tuner\n  hint: unset it, or leave --within out",
            other.display()
        );
    }
    if arms.len() > 16 {
        bail!(
            "--within tries 15 settings at most, found {}",
            arms.len() - 1
        );
    }
    let plugin = crate::plugin_path::installed(within::PLUGIN)?;
    let wishes: Vec<within::Wish> = arms
        .iter()
        .map(within::Wish::of)
        .collect::<Result<_, _>>()?;
    let calls = within::CallFilter {
        function: args.function.clone(),
        bytes: args.bytes,
    };
    let folder = folder(args.output.as_deref())?;
    let seed = args.seed.unwrap_or(1);
    let plan = within::plan(&wishes[1..], &calls, args.block, seed, &folder)?;
    let (capture, log) = (folder.join("capture"), folder.join("output.txt"));
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run").arg("-o").arg(&capture);
    let plugin = format!("NCCL_TUNER_PLUGIN={}", plugin.display());
    for variable in [plugin, format!("NCCLSCOPE_TUNE={plan}")] {
        command.arg("--env").arg(variable);
    }
    command.arg("--").args(&args.command);
    stop::watch();
    let ran = process::run(command, &log, Duration::from_secs_f64(args.timeout))?;
    if let (Some(why), None) = (&ran.failed, stop::asked()) {
        bail!(
            "the program failed: {why} (`{}`)\n  hint: see that it runs by itself",
            log.display()
        );
    }
    let capture = open(&capture)?;
    let report = analyze::report(&capture);
    if let Some(death) = report.deaths.first() {
        bail!(
            "the job broke, though the program ended with status 0 (`{}`): {}\n  hint: see that it runs by \
             itself, and then which setting breaks it, without --within",
            log.display(),
            render::findings::died(death)
        );
    }
    let steps = report.steps.as_ref().and_then(|steps| steps.reference());
    let Some(steps) = steps else {
        bail!(no_steps(&report));
    };
    let path = within::log(&folder, &steps.process.host, steps.process.pid);
    let blocks = std::fs::read(&path)
        .ok()
        .and_then(|bytes| blocks::TunerLog::read(&bytes));
    let Some(blocks) = blocks else {
        bail!(
            "there is no log of blocks (`{}`): NCCL has not loaded the tuner\n  hint: NCCL_DEBUG=INFO with \
             NCCL_DEBUG_SUBSYS=INIT,TUNING says why; across hosts, -o needs a folder that all of them share",
            path.display()
        );
    };
    let judged = blocks::judge(&blocks, steps);
    let mut answer = of_blocks(&folder, arms, &judged, seed);
    let called = report.operations.iter();
    let called = called.filter_map(|operation| operation.function.clone());
    let called: Vec<String> = called.collect();
    let winner = answer.winner.filter(|winner| *winner != DEFAULT);
    if let Some((winner, (ranks, nodes))) = winner.zip(judged.size) {
        match wishes[winner].csv(&calls, &called, ranks, nodes) {
            Some(lines) => {
                let path = folder.join(within::CSV);
                std::fs::write(&path, lines).with_context(|| format!("`{}`", path.display()))?;
                answer.csv = Some(path.display().to_string());
            }
            None => answer.notes.push(
                "NVIDIA's tuner file needs an algorithm and a protocol, so there is none."
                    .to_owned(),
            ),
        }
    }
    // Variables hold for all calls, and the experiment was about some of them.
    if calls != within::CallFilter::default() {
        answer.exports.clear();
    }
    if blocks.forced {
        let note = "NCCL_ALGO or NCCL_PROTO is set, and beats the tuner: unset it to try more.";
        answer.notes.push(note.to_owned());
    }
    if has_captured(&report) {
        answer.notes.push(CAPTURED.to_owned());
    }
    if judged.others > 0 {
        answer.notes.push(format!(
            "{} more communicators of this size had blocks of their own, which are noise here.",
            judged.others
        ));
    }
    show(&answer, args.json, args.html.as_deref(), &args.look)
}

/// The answer from blocks of one run.
fn of_blocks(folder: &Path, arms: &[Arm], judged: &Judged, seed: u64) -> Answer {
    let left_out = |arm: usize| {
        let of = judged.arms.get(arm).copied().unwrap_or_default();
        (arm != DEFAULT && of.blocks > 0 && of.ignored == of.blocks)
            .then(|| "NCCL can't run it here, or NCCL_ALGO or NCCL_PROTO forbids it.".to_owned())
    };
    let is_judged: Vec<bool> = (0..arms.len()).map(|arm| left_out(arm).is_none()).collect();
    let ranking = rank(&is_judged, &judged.trials);
    let names: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
    let settings = ranking.arms.iter().map(|ranked| Setting {
        name: names[ranked.arm].clone(),
        folder: folder.display().to_string(),
        left_out: left_out(ranked.arm),
        asked: Vec::new(),
        blocks: judged.arms.get(ranked.arm).copied(),
        times_us: times_of(&judged.trials, ranked.arm),
        used: Vec::new(),
        energy_j: None,
        ranked: ranked.clone(),
    });
    let mut answer = Answer {
        schema: render::tune::SCHEMA,
        way: "blocks",
        summary: String::new(),
        measure: (!judged.trials.is_empty()).then_some("step"),
        rounds: ranking.arms.iter().map(|of| of.trials).max().unwrap_or(0),
        seed,
        winner: None,
        as_fast: Vec::new(),
        rounds_needed: None,
        exports: exports(ranking.winner.map(|arm| &arms[arm])),
        csv: None,
        notes: Vec::new(),
        settings: settings.collect(),
        runs: Vec::new(),
    };
    answer.say(&names, &ranking);
    answer
}

/// The times of an arm, µs.
fn times_of(trials: &[Trial], arm: usize) -> Vec<f64> {
    let of_arm = trials.iter().filter(|trial| trial.arm == arm);
    of_arm.map(|trial| trial.time_us).collect()
}

/// Lines for a shell that set the winner.
fn exports(winner: Option<&Arm>) -> Vec<String> {
    let variables = winner.into_iter().flat_map(|arm| &arm.variables);
    let line = |(name, value): &(String, String)| {
        format!("export {name}={}", analyze::spelling::word(value))
    };
    variables.map(line).collect()
}

const CAPTURED: &str =
    "Calls in CUDA graphs keep the setting of the block in which they were captured.";

/// Why blocks can't be compared, and the way out.
fn no_steps(report: &Report) -> String {
    let captured = if has_captured(report) {
        format!("\n  hint: {CAPTURED}")
    } else {
        String::new()
    };
    format!(
        "the capture has no steps, and blocks are compared by nothing else{captured}\n  hint: leave --within \
         out; then whole runs are compared"
    )
}

/// Whether calls were captured into CUDA graphs.
fn has_captured(report: &Report) -> bool {
    report
        .operations
        .iter()
        .any(|row| row.captured.unwrap_or(0) > 0)
}

/// A folder of its own in `parent`, whatever starts in the same second.
fn own_folder(parent: &Path, name: &str) -> anyhow::Result<PathBuf> {
    for number in 1.. {
        let path = parent.join(match number {
            1 => name.to_owned(),
            n => format!("{name}-{n}"),
        });
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "`{}` can't be made; name another folder with -o",
                        path.display()
                    )
                })
            }
        }
    }
    unreachable!("numbers have no end")
}

/// The folder of the captures, which is new or empty.
fn folder(output: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Some(path) = output.map(Path::to_owned) else {
        let name = jiff::Zoned::now().strftime("ncclscope-tune-%Y%m%d-%H%M%S");
        return own_folder(Path::new(""), &name.to_string());
    };
    let shown = path.display();
    std::fs::create_dir_all(&path).with_context(|| format!("`{shown}` can't be made"))?;
    let mut entries =
        std::fs::read_dir(&path).with_context(|| format!("`{shown}` can't be read"))?;
    if entries.next().is_some() {
        bail!("`{shown}` is not empty\n  hint: name a new folder with -o");
    }
    Ok(path)
}

/// Which time of runs is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Measure {
    /// The median of steps that have so many calls.
    Step { calls: Option<u64> },
    /// From the first communicator to the last call.
    Wall,
    /// From the start of the command to its end.
    Process,
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Measure::Step { .. } => "step",
            Measure::Wall => "wall",
            Measure::Process => "process",
        }
    }

    /// This time of a run, µs.
    fn of(self, run: &Run) -> Option<f64> {
        match self {
            Measure::Step { calls } => run.step_of(calls),
            Measure::Wall => run.seen.wall_us,
            Measure::Process => Some(run.process_us),
        }
    }

    /// Why a run does not have it.
    fn lacks(self, run: &Run) -> Option<String> {
        if self.of(run).is_some() {
            return None;
        }
        let (own, default) = match self {
            Measure::Step { calls } => (run.seen.step_calls, calls),
            _ => return Some("There is no time from a first communicator on.".to_owned()),
        };
        let steps = |calls: Option<u64>| match calls {
            Some(calls) => format!("steps of {calls} calls"),
            None => "no steps".to_owned(),
        };
        let (own, default) = (steps(own), steps(default));
        Some(format!("It has {own}, and the default {default}."))
    }
}

/// Runs of one program under several settings.
struct Experiment {
    arms: Vec<Arm>,
    folder: PathBuf,
    seed: u64,
    timeout: Duration,
    command: Vec<OsString>,
    /// By arm: why it is not run any more.
    failed: Vec<Option<String>>,
    runs: Vec<Run>,
}

/// One run.
struct Run {
    round: u64,
    arm: usize,
    capture: Option<PathBuf>,
    /// What the program printed.
    log: PathBuf,
    failed: Option<String>,
    process_us: f64,
    seen: RunSeen,
}

impl Experiment {
    /// Runs the program once. If that fails without any setting, nothing can be compared.
    fn run(&mut self, round: u64, arm: usize, rounds: u64) -> anyhow::Result<()> {
        let of = &self.arms[arm];
        let place = self.folder.join(&of.folder);
        std::fs::create_dir_all(&place).with_context(|| format!("`{}`", place.display()))?;
        let capture = place.join(format!("round-{:02}", round + 1));
        let log = place.join(format!("output-{:02}.txt", round + 1));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("run").arg("-o").arg(&capture);
        for (name, value) in &of.variables {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        command.arg("--").args(&self.command);
        let ran = process::run(command, &log, self.timeout)?;
        let seen = if capture.is_dir() {
            let capture = open(&capture)?;
            RunSeen::of(&capture, &analyze::report(&capture), &of.variables)
        } else {
            RunSeen::default()
        };
        let took = seen
            .step_us
            .map(|us| format!("step {}", analyze::spelling::time(us)));
        let took = took.unwrap_or_else(|| analyze::spelling::time(ran.wall.as_secs_f64() * 1e6));
        let said = ran.failed.clone().unwrap_or(took);
        tell!(
            "ncclscope: round {} of {rounds}, {}: {said}",
            round + 1,
            of.name
        );
        if stop::asked().is_some() {
            return Ok(());
        }
        if let Some(why) = &ran.failed {
            let why = format!("It failed: {why} (`{}`).", log.display());
            if arm == DEFAULT {
                bail!("without any setting, the program failed: {why}\n  hint: see that it runs by itself");
            }
            self.failed[arm] = Some(why);
        }
        self.runs.push(Run {
            round,
            arm,
            capture: Some(capture).filter(|capture| capture.is_dir()),
            log,
            failed: ran.failed,
            process_us: ran.wall.as_secs_f64() * 1e6,
            seen,
        });
        Ok(())
    }

    /// Runs of an arm that did not fail.
    fn sound(&self, arm: usize) -> impl Iterator<Item = &Run> {
        let of = move |run: &&Run| run.arm == arm && run.failed.is_none();
        self.runs.iter().filter(of)
    }

    /// The measure that all runs of the default have. Steps of different patterns can't be compared.
    fn measure(&self) -> Measure {
        let default: Vec<&Run> = self.sound(DEFAULT).collect();
        let Some(first) = default.first() else {
            return Measure::Process;
        };
        let steps = Measure::Step {
            calls: first.seen.step_calls,
        };
        let all_have = |measure: &Measure| default.iter().all(|run| measure.of(run).is_some());
        let found = [steps, Measure::Wall].into_iter().find(all_have);
        found.unwrap_or(Measure::Process)
    }

    fn answer(self, rounds: u64) -> Answer {
        let measure = self.measure();
        let is_fit: Vec<bool> = (0..self.arms.len())
            .map(|arm| self.unfit(arm).is_none())
            .collect();
        let fit = self.runs.iter().filter(|run| is_fit[run.arm]);
        let trials = fit.filter_map(|run| {
            Some(Trial {
                round: run.round,
                arm: run.arm,
                time_us: measure.of(run)?,
            })
        });
        let trials: Vec<Trial> = trials.collect();
        let left_out: Vec<Option<String>> =
            (0..self.arms.len()).map(|arm| self.left_out(arm)).collect();
        let judged: Vec<bool> = left_out.iter().map(Option::is_none).collect();
        let ranking = rank(&judged, &trials);
        let names: Vec<String> = self.arms.iter().map(|arm| arm.name.clone()).collect();
        let settings = ranking.arms.iter().map(|ranked| {
            let arm = ranked.arm;
            Setting {
                name: names[arm].clone(),
                folder: self
                    .folder
                    .join(&self.arms[arm].folder)
                    .display()
                    .to_string(),
                left_out: left_out[arm].clone(),
                asked: self.asked(arm).iter().map(AskedRow::of).collect(),
                blocks: None,
                times_us: times_of(&trials, arm),
                used: self.used(arm),
                energy_j: self.energy(arm),
                ranked: ranked.clone(),
            }
        });
        let mut answer = Answer {
            schema: render::tune::SCHEMA,
            way: "runs",
            notes: Vec::new(),
            csv: None,
            summary: String::new(),
            measure: (!self.runs.is_empty()).then_some(measure.name()),
            rounds,
            seed: self.seed,
            winner: None,
            as_fast: Vec::new(),
            rounds_needed: None,
            exports: exports(ranking.winner.map(|arm| &self.arms[arm])),
            settings: settings.collect(),
            runs: self.runs.iter().map(Run::row).collect(),
        };
        answer.say(&names, &ranking);
        answer
    }

    /// What an arm's runs called.
    fn used(&self, arm: usize) -> Vec<String> {
        let used = self
            .sound(arm)
            .flat_map(|run| run.seen.used.iter().cloned());
        used.collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// The energy of an arm's runs, mean, J.
    fn energy(&self, arm: usize) -> Option<f64> {
        let of_runs: Vec<f64> = self
            .sound(arm)
            .filter_map(|run| run.seen.energy_j)
            .collect();
        (!of_runs.is_empty()).then(|| of_runs.iter().sum::<f64>() / of_runs.len() as f64)
    }

    /// Why the times of an arm's runs say nothing.
    fn unfit(&self, arm: usize) -> Option<String> {
        if arm == DEFAULT {
            return None;
        }
        if let Some(why) = &self.failed[arm] {
            return Some(why.clone());
        }
        let default = self.sound(DEFAULT).filter_map(|run| run.seen.work.clone());
        let default: Vec<analyze::tune::Work> = default.collect();
        let differs = |run: &Run| match &run.seen.work {
            Some(work) => work.differs(&default).as_ref().map(other_work),
            None if default.is_empty() => None,
            None => Some("Nothing was recorded, and there are captures of the default.".to_owned()),
        };
        let measure = self.measure();
        self.sound(arm).find_map(|run| {
            let why = differs(run).or_else(|| measure.lacks(run))?;
            Some(format!("{why} Look at `{}`.", run.log.display()))
        })
    }

    /// Why an arm is not judged.
    fn left_out(&self, arm: usize) -> Option<String> {
        if arm == DEFAULT {
            return None;
        }
        if let Some(why) = self.unfit(arm) {
            return Some(why);
        }
        if self.asked(arm).iter().any(|asked| asked.used == Used::No) {
            return Some("Asked but not used.".to_owned());
        }
        // NCCL tells of these two alone whether they changed anything.
        let told = |(name, _): &(String, String)| name == "NCCL_ALGO" || name == "NCCL_PROTO";
        let used = |arm: usize| {
            self.runs
                .iter()
                .find(|run| run.arm == arm)
                .map(|run| &run.seen.used)
        };
        let same = used(arm).is_some_and(|of| !of.is_empty() && Some(of) == used(DEFAULT));
        (same && self.arms[arm].variables.iter().all(told))
            .then(|| "NCCL chooses the same by itself.".to_owned())
    }

    /// What became of an arm's variables: the worst over its runs.
    fn asked(&self, arm: usize) -> Vec<analyze::tune::AskedSetting> {
        let mut worst: Vec<analyze::tune::AskedSetting> = Vec::new();
        for run in self.runs.iter().filter(|run| run.arm == arm) {
            for asked in &run.seen.asked {
                match worst
                    .iter_mut()
                    .find(|known| known.variable == asked.variable)
                {
                    Some(known) if asked.used > known.used => known.clone_from(asked),
                    Some(_) => {}
                    None => worst.push(asked.clone()),
                }
            }
        }
        worst
    }
}

impl Run {
    /// The median of its steps, if they have so many calls.
    fn step_of(&self, calls: Option<u64>) -> Option<f64> {
        self.seen.step_us.filter(|_| self.seen.step_calls == calls)
    }

    fn row(&self) -> RunRow {
        RunRow {
            round: self.round + 1,
            arm: self.arm,
            capture: self.capture.as_ref().map(|path| path.display().to_string()),
            failed: self.failed.clone(),
            step_us: self.seen.step_us,
            wall_us: self.seen.wall_us,
            process_us: self.process_us,
            calls: self.seen.work.as_ref().map(|work| work.calls),
            bytes: self.seen.work.as_ref().and_then(|work| work.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_start_in_one_second_have_a_folder_each() {
        let parent = tempfile::tempdir().expect("a folder");
        let made = |_| own_folder(parent.path(), "ncclscope-tune-1").expect("made");
        let names: Vec<_> = (0..3).map(made).collect();
        let names: Vec<_> = names.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(
            names,
            [
                "ncclscope-tune-1",
                "ncclscope-tune-1-2",
                "ncclscope-tune-1-3"
            ]
        );
        let missing = own_folder(&parent.path().join("not/there"), "x").expect_err("no parent");
        assert!(format!("{missing:#}").contains("-o"), "{missing:#}");
    }
}
