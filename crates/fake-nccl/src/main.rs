//! `fake-nccl`: plays a job to a profiler plugin.
//!
//! Data goes to standard output, everything else to standard error. Exit status: 0 as the script says, 1 a
//! process ended otherwise or a check failed, 2 the job could not be played.

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fake_nccl::plugin::Version;
use fake_nccl::{
    bench, check, machine, output, play, processes, rank_process, replay, tell, Options,
};
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::Relaxed};
use std::time::Duration;

/// Plays a job at the C ABI of an NCCL profiler plugin, without a GPU.
#[derive(Parser)]
#[command(name = "fake-nccl", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play a script; prints what was announced as one JSON line.
    Play {
        /// The script; `-` reads standard input.
        script: PathBuf,
        #[command(flatten)]
        how: PlayArgs,
        /// NCCL release to simulate, where it isn't the script's.
        #[arg(long, value_parser = version)]
        nccl: Option<Version>,
        /// Take symbols above this ABI as absent, to try a plugin behind NCCL's shims.
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=i64::from(nccl_abi::NEWEST)))]
        abi: Option<u8>,
        /// Don't wait for the script's times; GPU stamps then run ahead of the host's clock.
        #[arg(long)]
        fast: bool,
        /// All ranks as threads of one process.
        #[arg(long)]
        ranks_in_process: bool,
    },
    /// Replay a `callbacks` capture; prints what was announced as one JSON line.
    Replay {
        /// A capture folder, or one `.trace` or `.trace.zst` file.
        capture: PathBuf,
        #[command(flatten)]
        how: PlayArgs,
        /// Keep the recorded times between calls, or go as fast as the plugin does.
        #[arg(long, value_enum, default_value = "fast")]
        pace: Pace,
    },
    /// Measure what a plugin costs, an empty plugin's cost subtracted.
    Bench(bench::Settings),
    /// Play hostile sequences to a plugin on each ABI it exports; prints pass or fail.
    Check {
        /// As NCCL_PROFILER_PLUGIN.
        #[arg(long)]
        plugin: Option<String>,
        /// Only this ABI.
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=i64::from(nccl_abi::NEWEST)))]
        abi: Option<u8>,
        /// Only this item.
        #[arg(long)]
        item: Option<String>,
        /// One JSON line for each item.
        #[arg(long)]
        json: bool,
    },
    /// A process of a job, which gets its order on standard input.
    #[command(name = processes::RANK_PROCESS, hide = true)]
    RankProcess,
    /// A process of a check.
    #[command(name = check::ITEM_PROCESS, hide = true)]
    ItemProcess {
        /// Which.
        item: String,
        /// At which ABI.
        abi: u8,
    },
}

#[derive(Args)]
struct PlayArgs {
    /// As NCCL_PROFILER_PLUGIN: a path, a short name, `none` or STATIC_PLUGIN.
    #[arg(long)]
    plugin: Option<String>,
    /// Print what the plugin logs at INFO.
    #[arg(long, short)]
    verbose: bool,
    /// Kill what still runs after so many seconds.
    #[arg(long, value_parser = seconds)]
    timeout: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Pace {
    Real,
    Fast,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    match seconds {
        Some(Ok(time)) => Ok(time),
        _ => Err("expected a number of seconds".to_owned()),
    }
}

fn version(text: &str) -> Result<Version, String> {
    let found = Version::parse(text).filter(|v| v.native_abi().is_some());
    found.ok_or_else(|| format!("expected one of {}", Version::known()))
}

static VERSION: AtomicI32 = AtomicI32::new(22809);

/// As NCCL has it, for plugins that ask.
///
/// # Safety
/// `version` must be null or point to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut i32) -> i32 {
    if version.is_null() {
        return nccl_abi::result::INVALID_ARGUMENT;
    }
    // SAFETY: by the caller.
    unsafe { version.write(VERSION.load(Relaxed)) };
    nccl_abi::result::SUCCESS
}

/// The C library's, with the wall clock of the host that the script says, and with the script's time on
/// threads that play a script in virtual time.
///
/// # Safety
/// As the C library's: `time` must point to a timespec.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    type Real = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if let Some(ns) = machine::shown(clock) {
        let ahead = match clock {
            libc::CLOCK_REALTIME => machine::clock_ns(),
            _ => 0,
        };
        let ns = ns.saturating_add_signed(ahead);
        // SAFETY: by the caller.
        let time = unsafe { &mut *time };
        time.tv_sec = (ns / 1_000_000_000) as libc::time_t;
        time.tv_nsec = (ns % 1_000_000_000) as libc::c_long;
        return 0;
    }
    let mut real = REAL.load(Relaxed);
    if real.is_null() {
        // SAFETY: the name is a C string. Two threads that both ask find the same.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
        if real.is_null() {
            return -1;
        }
        REAL.store(real, Relaxed);
    }
    // SAFETY: the C library's function of this name has this type.
    let real: Real = unsafe { std::mem::transmute::<*mut c_void, Real>(real) };
    // SAFETY: by the caller.
    let result = unsafe { real(clock, time) };
    let ahead = machine::clock_ns();
    if result == 0 && clock == libc::CLOCK_REALTIME && ahead != 0 {
        // SAFETY: by the caller, and it was filled in.
        let time = unsafe { &mut *time };
        let ns = time.tv_nsec + ahead;
        time.tv_sec += ns.div_euclid(1_000_000_000);
        time.tv_nsec = ns.rem_euclid(1_000_000_000);
    }
    result
}

/// The C library's, with the name of the host that the script says.
///
/// # Safety
/// As the C library's: `name` must have room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostname(name: *mut c_char, len: usize) -> c_int {
    let mut system = std::mem::MaybeUninit::<libc::utsname>::zeroed();
    let from = match machine::name() {
        Some(name) => name.as_ptr(),
        // SAFETY: uname fills it in.
        None if unsafe { libc::uname(system.as_mut_ptr()) } == 0 => {
            // SAFETY: all zeros are a utsname, and uname has filled it in.
            unsafe { (*system.as_ptr()).nodename.as_ptr() }
        }
        None => return -1,
    };
    // SAFETY: both names end with a 0, and `name` has room for `len` bytes by the caller.
    unsafe {
        if libc::strlen(from) >= len {
            *libc::__errno_location() = libc::ENAMETOOLONG;
            return -1;
        }
        libc::strcpy(name, from);
    }
    0
}

/// Says what is wrong with the arguments, which clap repeats as they are.
fn refuse(error: clap::Error) -> ! {
    let plain = error.render().to_string();
    if tables::printable_lines(&plain) == plain {
        error.exit();
    }
    tell!("{}", plain.trim_end());
    std::process::exit(error.exit_code())
}

fn main() -> ExitCode {
    match run(Cli::try_parse().unwrap_or_else(|error| refuse(error))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            tell!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<bool> {
    match cli.command {
        Command::Play {
            script,
            how,
            nccl,
            abi,
            fast,
            ranks_in_process,
        } => {
            let source = if script.as_os_str() == "-" {
                std::io::read_to_string(std::io::stdin())?
            } else {
                std::fs::read_to_string(&script)
                    .with_context(|| format!("could not read `{}`", script.display()))?
            };
            if ranks_in_process {
                let asked = fake_nccl::Script::parse(&source)?.nccl;
                VERSION.store(nccl.unwrap_or(asked).0 as i32, Relaxed);
            }
            let options = Options {
                nccl,
                highest_abi: abi.unwrap_or(0),
                fast,
                in_process: ranks_in_process,
                ..how.into()
            };
            announce(play(&source, &options).with_context(|| format!("`{}`", script.display()))?)
        }
        Command::Replay { capture, how, pace } => {
            announce(replay::replay(&capture, &how.into(), pace == Pace::Real)?)
        }
        Command::Bench(settings) => bench::run(&settings),
        Command::Check {
            plugin,
            abi,
            item,
            json,
        } => {
            let selection = check::Selection {
                plugin,
                abi,
                item,
                program: std::env::current_exe().ok(),
            };
            let mut printed = Ok(());
            let results = check::check(&selection, |verdict| {
                let line = if json {
                    output::line(verdict.to_json())
                } else {
                    output::line(verdict)
                };
                if printed.is_ok() {
                    printed = line;
                }
            })?;
            printed?;
            let failed = results.iter().filter(|r| r.failed()).count();
            tell!("{} of {} passed", results.len() - failed, results.len());
            Ok(failed == 0)
        }
        Command::RankProcess => {
            rank_process::rank_process(|v| VERSION.store(v.0 as i32, Relaxed)).map(|()| true)
        }
        Command::ItemProcess { item, abi } => check::item_process(&item, abi),
    }
}

impl From<PlayArgs> for Options {
    fn from(how: PlayArgs) -> Options {
        Options {
            plugin: how.plugin,
            verbose: how.verbose,
            timeout: how.timeout,
            program: std::env::current_exe().ok(),
            ..Options::default()
        }
    }
}

fn announce(outcome: play::Outcome) -> anyhow::Result<bool> {
    if let Err(why) = &outcome.abi {
        tell!("fake-nccl: no plugin: {why}");
    }
    for process in outcome.processes.iter().filter(|p| !p.expected) {
        tell!(
            "fake-nccl: rank {} (pid {}) ended with {}, which the script didn't ask for",
            process.rank,
            process.pid,
            process.ended
        );
    }
    output::line(outcome.to_json())?;
    Ok(outcome.as_expected())
}
