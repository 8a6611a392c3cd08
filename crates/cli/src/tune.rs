//! `ncclscope tune`: which setting makes a program faster, proved over rounds of runs.
//!
//! [`arms`] makes the settings of the options. `Experiment` runs the program once a round under each of them,
//! in a random order, each time by `ncclscope run`. What the captures say, `analyze::tune` ranks.
//!
//! Rule: a setting that NCCL did not use is never named the winner, and neither is one that the noise could
//! have made.

mod arms;
mod process;

use crate::report::{open, print};
use analyze::tune::{order, rank, Seen, Trial, Used, DEFAULT};
use anyhow::{bail, Context};
use arms::Arm;
use bench::stop;
use render::tune::{Answer, RunRow, Setting};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Find the NCCL setting that makes your job faster, and prove it
///
///   ncclscope tune --try NCCL_ALGO=Ring,Tree --try NCCL_PROTO=LL,Simple --rounds 5 -- torchrun train.py
///   ncclscope tune --setting 'NCCL_MIN_NCHANNELS=16 NCCL_NTHREADS=256' -- srun python train.py
///
/// Runs the program once a round with each setting and once with the default, in a random order, and ranks
/// the settings by the time of a step. Several --try are tried in all combinations. A comma in a value is
/// written `\,`.
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
        value_parser = clap::value_parser!(u64).range(2..=1000))]
    rounds: u64,

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
    print(|out| match args.json {
        true => render::tune::json(&answer, out),
        false => render::tune::text(&answer, args.look.of_stdout(), out),
    })?;
    Ok(match (stop::asked(), answer.winner) {
        (Some(signal), _) => ExitCode::from(128 + signal as u8),
        (None, Some(_)) => ExitCode::SUCCESS,
        (None, None) => ExitCode::from(2),
    })
}

/// The folder of the captures, which is new or empty.
fn folder(output: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match output {
        Some(path) => path.to_owned(),
        None => jiff::Zoned::now()
            .strftime("ncclscope-tune-%Y%m%d-%H%M%S")
            .to_string()
            .into(),
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

/// A time that runs have, with its name.
type Measure = (&'static str, fn(&Run) -> Option<f64>);

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
    failed: Option<String>,
    process_us: f64,
    seen: Seen,
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
        let seen = match capture.is_dir() {
            true => {
                let capture = open(&capture)?;
                Seen::of(&capture, &analyze::report(&capture), &of.variables)
            }
            false => Seen::default(),
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
            failed: ran.failed,
            process_us: ran.wall.as_secs_f64() * 1e6,
            seen,
        });
        Ok(())
    }

    /// The measure that all runs have. Steps of different patterns can't be compared.
    fn measure(&self) -> Option<Measure> {
        let sound = || self.runs.iter().filter(|run| run.failed.is_none());
        let first = sound().next()?;
        let steps =
            |run: &Run| run.seen.step_us.is_some() && run.seen.step_calls == first.seen.step_calls;
        if sound().all(steps) {
            return Some(("step", |run| run.seen.step_us));
        }
        if sound().all(|run| run.seen.wall_us.is_some()) {
            return Some(("wall", |run| run.seen.wall_us));
        }
        Some(("process", |run| Some(run.process_us)))
    }

    fn answer(self, rounds: u64) -> Answer {
        let measure = self.measure();
        let trials = self.runs.iter().filter(|run| run.failed.is_none());
        let trials = trials.filter_map(|run| {
            let time_us = measure.and_then(|(_, of)| of(run))?;
            Some(Trial {
                round: run.round,
                arm: run.arm,
                time_us,
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
                asked: self.asked(arm),
                ranked: ranked.clone(),
            }
        });
        let exports = ranking
            .winner
            .into_iter()
            .flat_map(|arm| &self.arms[arm].variables);
        let exports = exports
            .map(|(name, value)| format!("export {name}={}", analyze::spelling::word(value)));
        let mut answer = Answer {
            schema: render::tune::SCHEMA,
            summary: String::new(),
            measure: measure.map(|(name, _)| name),
            rounds,
            seed: self.seed,
            winner: None,
            as_fast: Vec::new(),
            rounds_needed: None,
            exports: exports.collect(),
            settings: settings.collect(),
            runs: self.runs.iter().map(Run::row).collect(),
        };
        answer.say(&names, &ranking);
        answer
    }

    /// Why an arm is not judged.
    fn left_out(&self, arm: usize) -> Option<String> {
        if arm == DEFAULT {
            return None;
        }
        if let Some(why) = &self.failed[arm] {
            return Some(why.clone());
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
    fn asked(&self, arm: usize) -> Vec<analyze::tune::Asked> {
        let mut worst: Vec<analyze::tune::Asked> = Vec::new();
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
    fn row(&self) -> RunRow {
        RunRow {
            round: self.round + 1,
            arm: self.arm,
            capture: self.capture.as_ref().map(|path| path.display().to_string()),
            failed: self.failed.clone(),
            step_us: self.seen.step_us,
            wall_us: self.seen.wall_us,
            process_us: self.process_us,
        }
    }
}
