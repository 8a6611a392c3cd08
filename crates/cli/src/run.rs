//! `ncclscope run`: runs a program with the recorder in it, and keeps what its processes leave.
//!
//! [`folder`] has the capture folder, and [`launcher`] gets the recorder's variables through srun and mpirun.
//! [`child`] runs the program. [`keeper`] and [`adopt`] keep what its dead processes left on this host, and
//! [`states`] which were stopped, and how they ended ([`process_end`]).
//! [`nccl_log`] has NCCL say what its set-up costs. [`costs`] has NCCL's own estimates recorded. [`steps`]
//! has NVTX or torch tell the program's steps. [`topology`] has NCCL write what it found of the machine.
//! [`job`] tells whether this is one of many runs that a launcher started, which then share a folder.
//!
//! Rule: the program sees the same streams, terminal, signals and exit status as without us.

use crate::doctor;
use crate::plugin_path;
use anyhow::bail;
use clap::ValueEnum;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tables::printable;

pub mod adopt;
pub mod apart;
mod child;
mod costs;
pub mod folder;
mod job;
mod keeper;
pub mod launcher;
mod nccl_log;
pub mod owner;
mod process_end;
mod states;
mod steps;
mod topology;

pub use nccl_log::{host_in_log, of_process as nccl_log_of, FOLDER as NCCL_LOGS};
pub use steps::asked as steps_asked;

use folder::{Folder, Name};
use keeper::{Keeper, Tally};
use launcher::Launcher;
use sampler::Sampler;

/// Run a program and record its NCCL calls
///
/// Prefix the launcher or the program; the exit status is the program's (128+n for signal n):
///
///   ncclscope run -- torchrun --nproc-per-node 8 train.py
///   ncclscope run -o DIR -- srun -N 4 python train.py
///   srun -N 4 ncclscope run -o DIR -- python train.py
///
/// The capture is a folder, `ncclscope-DATE-TIME-XXXX` in the current one if -o names no other.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// What to keep [default: NCCLSCOPE_MODE, else trace]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<Mode>,

    /// Where GPU times come from [default: NCCLSCOPE_TIMING, else auto]
    #[arg(long, value_enum, value_name = "SOURCE")]
    timing: Option<Timing>,

    /// Record which line of the program makes each call [default: NCCLSCOPE_STACKS, else off]
    #[arg(long)]
    stacks: bool,

    /// Read the program's steps: `torch`, from the optimizers of torch; `nvtx`, from the NVTX ranges that
    /// frameworks push, or those called NAME (`*` at its end: any rest) [default: NCCLSCOPE_STEPS, else off]
    #[arg(long, value_name = "torch|nvtx[:NAME]", value_parser = steps::asked)]
    steps: Option<String>,

    /// Leave out the node sampler: power, energy, CPU time and the like [default: NCCLSCOPE_SAMPLER, else it
    /// runs]
    #[arg(long)]
    no_sampler: bool,

    /// Capture folder; a new one beside it if it holds another capture; %h host, %r rank, %j job, %p process
    /// [default: NCCLSCOPE_OUT, else a new folder here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Set a variable for the program, through srun and mpirun too; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,

    /// Record even though NCCL_PROFILER_PLUGIN names another plugin, in its place
    #[arg(long)]
    replace_plugin: bool,

    /// Record even though NCCL_PROFILER_PLUGIN names another plugin, which runs behind ncclscope, at its own
    /// risk and cost (NCCLSCOPE_CHAIN)
    #[arg(long, conflicts_with = "replace_plugin")]
    keep_plugin: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// As `NCCLSCOPE_MODE`.
#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Totals and histograms
    Profile,
    /// A row per call
    Trace,
    /// A row per call with buffers and phases
    Full,
    /// A row per call, and every callback with all its fields
    Callbacks,
}

/// As `NCCLSCOPE_TIMING`.
#[derive(Clone, Copy, ValueEnum)]
enum Timing {
    /// CUDA events around as many launches as NCCLSCOPE_BUDGET allows
    Auto,
    /// CUDA events around every launch
    Events,
    /// GPU timestamps that NCCL takes
    Stamps,
    /// Host times only
    Host,
}

/// Runs the program.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let before = child::outlive_size_limit()?;
    let plugin = plugin_path::find()?;
    let env = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    if env("NCCLSCOPE_RUN").is_some() {
        bail!(
            "this is already under an `ncclscope run`, which records its programs\n  hint: leave one of the \
             two out, or unset NCCLSCOPE_RUN and NCCLSCOPE_OUT"
        );
    }
    let mut notes = Vec::new();
    let with_it = match (args.keep_plugin, args.replace_plugin) {
        (true, _) => WithOther::Keep,
        (_, true) => WithOther::Replace,
        _ => WithOther::Refuse,
    };
    let other = other_plugin(
        &plugin,
        env("NCCL_PROFILER_PLUGIN"),
        env("LD_LIBRARY_PATH"),
        with_it,
    )?;
    let kept = other.as_ref().filter(|_| args.keep_plugin);
    let kept = kept.map(|other| (CHAIN.to_owned(), other.into()));
    notes.extend(other.as_ref().map(|other| match kept {
        Some(_) => format!("the profiler plugin `{other}` runs behind ncclscope's"),
        None => format!("the profiler plugin `{other}` is replaced"),
    }));

    notes.extend(doctor::misspelt());
    notes.extend(nccl_log::shared_file(env("NCCL_DEBUG_FILE").as_deref()));

    let launcher = Launcher::of(&args.command[0]);
    let job = job::Job::detect(env);
    let output = args
        .output
        .or_else(|| env("NCCLSCOPE_OUT").map(PathBuf::from));
    let name = output.map(|output| Name::of(&output, job.as_ref(), launcher));
    // What a disk can't take must not keep the job from running.
    let mut folder = match Folder::prepare(name.transpose()?, job.as_ref(), &args.command) {
        Ok(folder) => folder,
        Err(error) => {
            tell!(
                "ncclscope: warning: nothing will be recorded, because no capture folder can be made: {}",
                printable(&format!("{error:#}"))
            );
            let mut command = Command::new(&args.command[0]);
            let started = child::Signals::block(before)?.run(command.args(&args.command[1..]));
            return Ok(started.map_or_else(
                |error| not_started(&args.command[0], &error),
                |(_, how)| ExitCode::from(how.status()),
            ));
        }
    };

    notes.extend(folder.note.take());

    // Blocked before there is a second thread, and so that no signal ends us between here and the program's
    // start.
    let signals = child::Signals::block(before)?;
    let mut variables = vec![
        ("NCCL_PROFILER_PLUGIN".to_owned(), plugin.into_os_string()),
        ("NCCLSCOPE_OUT".to_owned(), folder.out.clone().into()),
        ("NCCLSCOPE_RUN".to_owned(), folder.path.clone().into()),
    ];
    variables.extend(kept);
    variables.extend(
        args.env
            .into_iter()
            .map(|(name, value)| (name, value.into())),
    );
    let mut given = |name: &str, value: Option<clap::builder::PossibleValue>| {
        variables.extend(value.map(|v| (name.to_owned(), v.get_name().into())));
    };
    given(
        "NCCLSCOPE_MODE",
        args.mode.and_then(|m| m.to_possible_value()),
    );
    given(
        "NCCLSCOPE_TIMING",
        args.timing.and_then(|t| t.to_possible_value()),
    );
    if args.stacks {
        variables.push(("NCCLSCOPE_STACKS".to_owned(), "on".into()));
    }
    let given = |name: &str| {
        let set = variables.iter().rev().find(|(set, _)| set == name);
        set.and_then(|(_, value)| value.to_str().map(str::to_owned))
            .or_else(|| env(name))
    };
    let is_given = |name: &str, value: &str| given(name).is_some_and(|given| given == value);
    if is_given("NCCLSCOPE_STACKS", "on") && is_given("NCCLSCOPE_MODE", "profile") {
        let note = "no stacks are recorded in mode profile, which keeps no calls; use --mode trace";
        notes.push(note.to_owned());
    }
    let plugin = &variables[0].1;
    let steps = steps::variables(args.steps, plugin, &folder.path, given, &mut notes);
    // What `--env` says of PYTHONPATH is in it.
    variables.retain(|(name, _)| steps.iter().all(|(set, _)| set != name));
    variables.extend(steps);
    let nccl_log = nccl_log::NcclLogFiles::prepare(env)?;
    variables.extend(topology::variables(
        &folder.path,
        job.as_ref(),
        launcher,
        env,
    ));
    variables.extend(nccl_log.iter().flat_map(nccl_log::NcclLogFiles::variables));
    if env("NCCL_SET_THREAD_NAME").is_none() {
        // So that the proxy threads are known.
        variables.push(("NCCL_SET_THREAD_NAME".to_owned(), "1".into()));
    }
    variables.extend(costs::variables(&folder.path, env, &mut notes)?);
    // Launchers are also told of the settings that come from the caller.
    for (name, value) in std::env::vars_os() {
        if let Some(name) = name
            .to_str()
            .filter(|n| n.starts_with("NCCLSCOPE_") && *n != "NCCLSCOPE_PLUGIN")
        {
            if !variables.iter().any(|(known, _)| known == name) {
                variables.push((name.to_owned(), value));
            }
        }
    }

    let (arguments, note) = launcher.arguments(&args.command, &variables);
    notes.extend(note);
    let mut command = Command::new(&arguments[0]);
    command
        .args(&arguments[1..])
        .envs(variables.iter().map(|(name, value)| (name, value)));
    let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
    if let Some(list) = launcher.slurm_export_env(env("SLURM_EXPORT_ENV").as_deref(), &names) {
        command.env("SLURM_EXPORT_ENV", list);
        notes.push("SLURM_EXPORT_ENV was extended by ncclscope's variables".to_owned());
    }
    if !notes.is_empty() {
        tell!("ncclscope: note: {}", printable(&notes.join("; ")));
    }

    let keeper = Keeper::start(&folder.path);
    let is_off = args.no_sampler || env("NCCLSCOPE_SAMPLER").is_some_and(|value| value == "off");
    let settings = || sampler::Settings {
        nvml: std::env::var_os("NCCLSCOPE_NVML").filter(|path| !path.is_empty()),
        switches: env("NCCLSCOPE_SWITCHES").is_none_or(|value| value != "off"),
    };
    let sampler = (!is_off).then(|| Sampler::start(&folder.path, settings()));
    let started = signals.run(&mut command);
    // Before the folder is looked at or given up: the sampler writes its last values into it.
    let sampled = sampler.and_then(Sampler::finish).unwrap_or_default();
    let (pid, how) = match started {
        Ok(ended) => ended,
        Err(error) => {
            keeper.finish(None);
            steps::remove(&folder.path);
            folder.abandon();
            return Ok(not_started(&arguments[0], &error));
        }
    };
    let status = how.status();
    let mut tally = keeper.finish(Some((pid, how)));
    nccl_log.iter().for_each(|log| log.adopt(&folder.path));
    if adopt::traces(&folder.path).is_empty() {
        topology::remove(&folder.path);
        costs::remove(&folder.path);
    }
    // Processes that go on may start others, and so may other ranks.
    if tally.alive == 0 && !folder.shared {
        steps::remove(&folder.path);
    }
    if folder.is_empty() && tally.alive == 0 && tally.failed.is_empty() {
        folder.abandon();
        tell!("ncclscope: {}", nothing(status, &args.command));
        return Ok(ExitCode::from(status));
    }
    if let Some((file, blocks)) = sampled.written {
        if let Err(error) = folder.sampled(&file, blocks) {
            tally.failed.push(format!("`{}`: {error}", file.display()));
        }
    }
    if let Some(why) = sampled.missing {
        tell!(
            "ncclscope: warning: this node was not sampled: {}",
            printable(&why)
        );
    }
    if let Err(error) = folder.end(Some(status)) {
        tally
            .failed
            .push(format!("`{}/capture.json`: {error}", folder.path.display()));
    }
    if folder.is_creator() || !tally.failed.is_empty() {
        tell!("ncclscope: {}", last_words(&folder, &tally));
    }
    Ok(ExitCode::from(status))
}

/// `NAME=VALUE`.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    let named = |name: &str| {
        let sound = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(sound)
    };
    match text.split_once('=') {
        Some((name, value)) if named(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, like NCCL_ALGO=Ring".to_owned()),
    }
}

/// The recorder's setting for another plugin.
const CHAIN: &str = "NCCLSCOPE_CHAIN";

/// What becomes of another plugin that is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WithOther {
    /// That is an error, because nobody said what to do.
    Refuse,
    /// Ours records in its place.
    Replace,
    /// It runs behind ours.
    Keep,
}

/// Another profiler plugin in the program's environment, by name or path.
fn other_plugin(
    ours: &Path,
    named: Option<String>,
    library_path: Option<String>,
    with_it: WithOther,
) -> anyhow::Result<Option<String>> {
    if let Some(named) = named.filter(|n| n != "none") {
        if let Some(libraries) = doctor::several_plugins(&named) {
            bail!(
                "NCCL_PROFILER_PLUGIN is `{named}`. NCCL takes that as the name of one library, and loads \
                 none of these {libraries}\n  hint: name one library there, and use `ncclscope run \
                 --keep-plugin ...`"
            );
        }
        let file = Path::new(&named).file_name().unwrap_or_default();
        let is_ours =
            named == "ncclscope" || file == plugin_path::FILE || Path::new(&named) == ours;
        if !is_ours && with_it == WithOther::Refuse {
            bail!(
                "NCCL_PROFILER_PLUGIN is `{named}`, and NCCL loads one profiler plugin\n  hint: \
                 `ncclscope run --keep-plugin ...` runs it behind ncclscope's, `--replace-plugin` records \
                 in its place; or unset it"
            );
        }
        return Ok((!is_ours).then_some(named));
    }
    Ok(library_path.and_then(|list| {
        std::env::split_paths(&list)
            .map(|place| place.join("libnccl-profiler.so"))
            .find(|file| file.exists())
            .map(|file| file.display().to_string())
    }))
}

/// Says why the program did not start, and gives the shells' exit status for that.
fn not_started(program: &OsString, error: &io::Error) -> ExitCode {
    let program = program.to_string_lossy();
    let (status, text) = match error.kind() {
        io::ErrorKind::NotFound => (127, format!("`{program}`: command not found")),
        _ => (126, format!("`{program}` can't be run: {error}")),
    };
    tell!("error: {text}\n  hint: see that it runs without `ncclscope run --`");
    ExitCode::from(status)
}

/// The lines at the end of a run that recorded nothing, and whose folder is gone.
fn nothing(status: u8, command: &[OsString]) -> String {
    let (why, next) = match status {
        0 => (
            "no process of the program loaded NCCL's profiler plugin. Did it use NCCL, from 2.23 on, \
             on more than one GPU?"
                .to_owned(),
            "ncclscope doctor".to_owned(),
        ),
        status => {
            let quoted = |word: &OsString| match word.to_string_lossy() {
                plain if !plain.contains([' ', '\'', '"', '$', ';']) => plain.into_owned(),
                other => format!("'{}'", other.replace('\'', "'\\''")),
            };
            let words: Vec<String> = command.iter().map(quoted).collect();
            (
                format!("the program ended with status {status} before it loaded NCCL's profiler plugin"),
                format!("{}   (see that it runs by itself)", printable(&words.join(" "))),
            )
        }
    };
    format!("nothing was recorded, so there is no capture: {why}\n  next: {next}")
}

/// The line at the end: what there is, what is missing, what to do next.
fn last_words(folder: &Folder, tally: &Tally) -> String {
    let shown = folder.shown.display();
    let mut next = "report";
    let mut words = format!("capture in {shown}");
    if folder.shared {
        words.push_str(" (shared by the job's ranks)");
        if adopt::traces(&folder.path).is_empty() {
            words.push_str(": nothing in it up to now");
            next = "doctor";
        }
    } else {
        let traces = adopt::traces(&folder.path);
        // A process that could not leave a live part is still writing it, or writes it on another host.
        let calls: Vec<Option<u64>> = traces
            .iter()
            .map(|trace| {
                let kept = adopt::part_at(&trace.with_extension("live"));
                Some(
                    kept.or_else(|| adopt::LivePart::of_snapshot(&trace.with_extension("snap")))?
                        .announced(),
                )
            })
            .collect();
        let known = calls
            .iter()
            .flatten()
            .fold(0, |sum: u64, n| sum.saturating_add(*n));
        if known == 0 && !calls.contains(&None) {
            next = "doctor";
        }
        words.push_str(&match traces.len() {
            0 => ": no process is in it, because none loaded NCCL's profiler plugin, or the plugin could not \
                  record and has said why"
                .to_owned(),
            n => format!(
                ": {n} process{}, {}{known} calls",
                if n == 1 { "" } else { "es" },
                if calls.contains(&None) {
                    "at least "
                } else {
                    ""
                }
            ),
        });
    }
    if tally.alive > 0 {
        words.push_str(&format!(
            "; {} still running, kept up to their last flush",
            tally.alive
        ));
    }
    if let Some(first) = tally.failed.first() {
        words.push_str(&format!(
            "; {} could not be kept whole: {first}",
            tally.failed.len()
        ));
    }
    format!("{words}; next: ncclscope {next} {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_plugins_are_refused_replaced_or_ours() {
        let check = |named: &str, with_it| {
            other_plugin(
                Path::new("/x/ours.so"),
                Some(named.to_owned()),
                None,
                with_it,
            )
        };
        use WithOther::{Keep, Refuse, Replace};
        assert!(check("inspector", Refuse).is_err_and(|e| {
            ["--replace-plugin", "--keep-plugin"]
                .iter()
                .all(|option| e.to_string().contains(option))
        }));
        for with_it in [Replace, Keep] {
            let other = check("inspector", with_it).expect("no error");
            assert_eq!(other.as_deref(), Some("inspector"));
            // NCCL would load none of them.
            for list in ["ncclscope,inspector", "/x/ours.so:/y/b.so", "a.so b.so"] {
                assert!(check(list, with_it).is_err_and(|e| e.to_string().contains("these 2")));
            }
        }
        for fine in [
            "none",
            "ncclscope",
            "/x/ours.so",
            "/y/libnccl-profiler-ncclscope.so",
        ] {
            assert!(
                check(fine, Refuse).is_ok_and(|other| other.is_none()),
                "{fine}"
            );
        }
    }

    #[test]
    fn a_default_plugin_on_the_library_path_is_noted() {
        let place = tempfile::tempdir().expect("a folder");
        std::fs::write(place.path().join("libnccl-profiler.so"), "").expect("written");
        let path = format!("/nowhere:{}", place.path().display());
        let other = other_plugin(Path::new("/x"), None, Some(path), WithOther::Refuse);
        let other = other.expect("no error").expect("one");
        assert!(other.ends_with("libnccl-profiler.so"));
    }
}
