//! The recorder's settings: `NCCLSCOPE_*` variables, read once at the first init.
//! `docs/reference/settings.md` is the user's table.
//!
//! A value that can't be used gives one line on stderr that names the variable, what it may be and what is
//! used instead.

use crate::step_ranges;
use crate::torch_steps;
use capture::launcher;
pub use capture::left::file_name;
use capture::limits::{MAX_SIZE, MEMORY};
use nccl_abi::event;
use std::ffi::OsString;
use std::ops::RangeInclusive;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Totals and histograms.
    Profile,
    /// A row per call.
    Trace,
    /// A row per call with buffers and phases.
    Full,
    /// As `Trace`, and every callback with all its fields.
    Callbacks,
}

/// Where GPU times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// CUDA events around as many launches as the budget allows.
    Auto,
    /// CUDA events around every launch.
    Events,
    /// NCCL's kernel events.
    Stamps,
    /// Nowhere: host times only.
    Host,
}

/// How much of the network is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// Operations, bytes and waits.
    Steps,
    /// Operations only.
    Ops,
    /// Nothing.
    Off,
}

/// When there are kernel windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// If the job can afford CUPTI ([`crate::windows::price`]).
    Auto,
    /// Whatever it costs.
    On,
    Off,
}

/// Where NCCL's debug output goes, if that is a file that can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NcclLog {
    /// How the file's path begins; the rest has patterns that NCCL expands. Nothing if it is not to be read.
    pub prefix: Option<String>,
    /// `ncclscope run` chose the file and the level, and nobody else wants the file.
    pub is_ours: bool,
}

impl NcclLog {
    /// `NCCLSCOPE_NCCL_LOG` is the beginning of the path that `ncclscope run` chose, or `off`. Without it,
    /// the user's own file is read, if there is one.
    fn read(var: impl Fn(&str) -> Option<String>) -> NcclLog {
        let chosen = var("NCCLSCOPE_NCCL_LOG").filter(|v| !v.eq_ignore_ascii_case("on"));
        let file = var("NCCL_DEBUG_FILE");
        match (chosen, file) {
            (Some(off), _) if off.eq_ignore_ascii_case("off") => NcclLog::default(),
            (Some(prefix), Some(file)) if file.starts_with(&prefix) => NcclLog {
                prefix: Some(prefix),
                is_ours: true,
            },
            (_, file) => NcclLog {
                prefix: file.and_then(|f| Some(f.split('%').next()?.to_owned())),
                is_ours: false,
            },
        }
        .checked()
    }

    /// Without a beginning that would fit any file.
    fn checked(self) -> NcclLog {
        match &self.prefix {
            Some(prefix) if prefix.trim_matches(['/', '.']).is_empty() => NcclLog::default(),
            _ => self,
        }
    }

    /// Whether `ncclscope run` set this variable for itself.
    pub fn is_of_run(&self, name: &str) -> bool {
        self.is_ours && (name.starts_with("NCCL_DEBUG") || name == "NCCLSCOPE_NCCL_LOG")
    }
}

/// All settings.
#[derive(Clone, Debug)]
pub struct Settings {
    pub out: String,
    pub mode: Mode,
    pub timing: Timing,
    /// Share of the GPU's time that `Timing::Auto` may take.
    pub budget: f64,
    pub net: Net,
    /// Events to ask NCCL for beside those that the other settings need; of [`Mode::Callbacks`] only.
    pub events: u32,
    /// Whether launches of CUDA graphs are counted.
    pub graphs: bool,
    pub windows: When,
    /// Whether streams that wait for timed calls are timed, too.
    pub waits: bool,
    /// Whether time in MPI is recorded.
    pub mpi: bool,
    /// Whether each call's stack is recorded.
    pub stacks: bool,
    /// Whether tools that take NVTX ranges get one for each call.
    pub nvtx: bool,
    /// Whether each call is a region of Score-P.
    pub scorep: bool,
    /// Whether the program's steps are read from its NVTX ranges.
    pub steps: bool,
    /// Whether the program's Python marks those of torch's optimizers.
    pub torch_steps: bool,
    /// Another profiler plugin, to be loaded behind this one.
    pub chain: Option<String>,
    /// Where NCCL's debug output goes.
    pub nccl_log: NcclLog,
    /// Seconds between flushes; `None` lets the file system decide.
    pub flush: Option<f64>,
    /// Whether callbacks read the system's clock, and not the CPU's counter.
    pub system_clock: bool,
    /// Bytes of the live part.
    pub memory: usize,
    /// Bytes of the trace file at most.
    pub max_size: u64,
    /// Lines for stderr about values that were not used.
    pub complaints: Vec<String>,
    /// Lines for stderr about what else the values mean, for one rank to say.
    pub notes: Vec<String>,
}

impl Settings {
    /// From the process's environment.
    pub fn from_env() -> Settings {
        let mut settings = Settings::read(|name| std::env::var(name).ok());
        settings.complaints.extend(not_text(std::env::vars_os()));
        settings
    }

    /// From any environment.
    pub fn read(var: impl Fn(&str) -> Option<String>) -> Settings {
        let mut complaints = Vec::new();
        let var = |name: &str| var(name).filter(|v| !v.is_empty());
        let mut choose = |name: &str, default: &str, options: &[&str]| -> usize {
            let default_at = options.iter().position(|o| *o == default).unwrap_or(0);
            let Some(value) = var(name) else {
                return default_at;
            };
            options
                .iter()
                .position(|o| o.eq_ignore_ascii_case(value.trim()))
                .unwrap_or_else(|| {
                    complaints.push(format!(
                        "{name}={value} is none of {}; using {default}",
                        options.join(", ")
                    ));
                    default_at
                })
        };
        let mode = [Mode::Profile, Mode::Trace, Mode::Full, Mode::Callbacks][choose(
            "NCCLSCOPE_MODE",
            "trace",
            &["profile", "trace", "full", "callbacks"],
        )];
        let timing = [Timing::Auto, Timing::Events, Timing::Stamps, Timing::Host][choose(
            "NCCLSCOPE_TIMING",
            "auto",
            &["auto", "events", "stamps", "host"],
        )];
        let net = [Net::Steps, Net::Ops, Net::Off]
            [choose("NCCLSCOPE_NET", "steps", &["steps", "ops", "off"])];
        let graphs = choose("NCCLSCOPE_GRAPHS", "count", &["count", "off"]) == 0;
        let windows = [When::Auto, When::On, When::Off]
            [choose("NCCLSCOPE_WINDOWS", "auto", &["auto", "on", "off"])];
        // Totals have no place for what ran when.
        let windows = if mode == Mode::Profile {
            When::Off
        } else {
            windows
        };
        let waits = choose("NCCLSCOPE_WAITS", "on", &["on", "off"]) == 0
            && matches!(timing, Timing::Auto | Timing::Events);
        let mpi = choose("NCCLSCOPE_MPI", "on", &["on", "off"]) == 0;
        let stacks =
            choose("NCCLSCOPE_STACKS", "off", &["on", "off"]) == 0 && mode != Mode::Profile;
        let mut on = |name: &str| matches!(choose(name, "off", &["on", "off", "1", "0"]), 0 | 2);
        let (nvtx, scorep) = (on("NCCLSCOPE_NVTX"), on("NCCLSCOPE_SCOREP"));
        let system_clock = choose("NCCLSCOPE_CLOCK", "auto", &["auto", "system"]) == 1;
        let steps = var("NCCLSCOPE_STEPS").is_some_and(|value| match step_ranges::asked(&value) {
            Ok(names) => names.is_some(),
            Err(expected) => {
                complaints.push(format!(
                    "NCCLSCOPE_STEPS={value} is none of {expected}; using off"
                ));
                false
            }
        });
        let torch_steps = var("NCCLSCOPE_STEPS").is_some_and(|value| torch_steps::is_asked(&value));
        let chain = var("NCCLSCOPE_CHAIN");
        let nccl_log = NcclLog::read(var);
        let (events, complaint) =
            var("NCCLSCOPE_EVENTS").map_or((0, None), |v| more_events(&v, mode));
        complaints.extend(complaint);
        let mut size = |name: &str, default: u64, limits: RangeInclusive<u64>| -> u64 {
            let Some(value) = var(name) else {
                return default;
            };
            match units::bytes(&value) {
                Some(size) if limits.contains(&size) => size,
                _ => {
                    complaints.push(format!(
                        "{name}={value} is not a size from {} to {} (like 64MiB); using {}",
                        print_bytes(*limits.start()),
                        print_bytes(*limits.end()),
                        print_bytes(default)
                    ));
                    default
                }
            }
        };
        let memory = size("NCCLSCOPE_MEMORY", *MEMORY.end(), MEMORY) as usize;
        let max_size = size("NCCLSCOPE_MAX_SIZE", 8 << 30, MAX_SIZE);
        let budget = var("NCCLSCOPE_BUDGET").map_or(BUDGET, |value| {
            let percent = value.trim().trim_end_matches('%').trim().parse::<f64>();
            match percent {
                Ok(percent) if (0.01..=100.0).contains(&percent) => percent / 100.0,
                _ => {
                    complaints.push(format!(
                        "NCCLSCOPE_BUDGET={value} is not a percentage from 0.01 to 100; using 1"
                    ));
                    BUDGET
                }
            }
        });
        let flush = var("NCCLSCOPE_FLUSH").and_then(|value| match value.trim().parse::<f64>() {
            Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Some(seconds),
            _ => {
                complaints.push(format!(
                    "NCCLSCOPE_FLUSH={value} is not a number of seconds from 0.05 to \
                    3600; using the default"
                ));
                None
            }
        });
        let job = [
            "SLURM_JOB_ID",
            "PBS_JOBID",
            "LSB_JOBID",
            "FLUX_JOB_ID",
            "JOB_ID",
        ]
        .iter()
        .find_map(|name| var(name));
        // A communicator's own rank may be a tensor-parallel one.
        let rank = launcher::rank(&var);
        let expand = |pattern: &str| expand(pattern, rank.as_deref(), job.as_deref());
        // Readers are told the path in a line of text.
        let is_path = |value: &String| {
            let usable = !value.contains(char::is_control);
            if !usable {
                complaints.push(format!(
                    "NCCLSCOPE_OUT={value} has control characters; using {OUT}"
                ));
            }
            usable
        };
        let out = var("NCCLSCOPE_OUT").filter(is_path);
        let out = expand(out.as_deref().unwrap_or(OUT));
        Settings {
            out,
            mode,
            timing,
            budget,
            net,
            events,
            graphs,
            windows,
            waits,
            mpi,
            stacks,
            nvtx,
            scorep,
            steps,
            torch_steps,
            chain,
            nccl_log,
            flush,
            system_clock,
            memory,
            max_size,
            complaints,
            notes: Vec::new(),
        }
    }

    /// Whether launches are timed by CUDA events.
    pub fn times_by_events(&self) -> bool {
        matches!(self.timing, Timing::Auto | Timing::Events)
    }

    /// The events to ask NCCL for.
    pub fn mask(&self) -> u32 {
        use event::*;
        let mut mask = COLL | P2P | COLL_API | P2P_API | KERNEL_LAUNCH | CE_COLL;
        match self.net {
            Net::Steps => mask |= PROXY_OP | PROXY_STEP,
            Net::Ops => mask |= PROXY_OP,
            Net::Off => {}
        }
        if self.timing == Timing::Stamps {
            mask |= KERNEL_CH;
            if self.mode == Mode::Full {
                mask |= KERNEL_PHASE;
            }
        }
        if self.mode == Mode::Callbacks {
            // Whatever costs the job's streams nothing.
            mask |= GROUP | GROUP_API | CE_SYNC | CE_BATCH;
            if self.net == Net::Steps {
                mask |= PROXY_CTRL | NET_PLUGIN;
            }
        }
        mask as u32 | self.events
    }

    /// The events to ask this release of NCCL for: without those that crash it. Notes which these are, and
    /// what those that remain cost.
    pub fn mask_for(&mut self, nccl: Option<i32>) -> u32 {
        let mut mask = self.mask();
        for crash in &CRASHES {
            if mask & crash.event as u32 != 0 && nccl == Some(crash.nccl) {
                mask &= !(crash.event as u32);
                let name = event::name(crash.event).unwrap_or("?");
                self.notes
                    .push(format!("{name} events are left out: {}", crash.why));
            }
        }
        if mask & self.events & (event::KERNEL_CH | event::KERNEL_PHASE) as u32 != 0 {
            self.notes.push(COST.to_owned());
        }
        mask
    }
}

/// The events that crash this release of NCCL.
pub fn crashing(nccl: Option<i32>) -> u32 {
    let here = CRASHES.iter().filter(|crash| nccl == Some(crash.nccl));
    here.fold(0, |all, crash| all | crash.event as u32)
}

/// An event that crashes a release of NCCL.
struct Crash {
    /// As ncclGetVersion gives it.
    nccl: i32,
    event: u64,
    why: &'static str,
}

/// All of these.
const CRASHES: [Crash; 1] = [Crash {
    nccl: 23102,
    event: event::KERNEL_PHASE,
    why: "they made NCCL 2.31.2 crash",
}];

/// What the events cost that `callbacks` mode does not ask for by itself.
const COST: &str = "NCCLSCOPE_EVENTS has kernel events: each channel of each kernel stamps its start and its \
                    end, NCCL up to 2.30 takes 34 MB of /dev/shm per communicator and rank for them and \
                    starts its proxy thread, and a captured CUDA graph gets a host node for each launch";

/// The events of a list such as `KernelCh,KernelPhase` or of `all`, and what is wrong with it.
fn more_events(value: &str, mode: Mode) -> (u32, Option<String>) {
    let all = event::ALL.iter().fold(0, |all, event| all | event.bit);
    let known = |name: &str| {
        let is = |event: &&event::EventType| event.name.eq_ignore_ascii_case(name);
        let one = || event::ALL.iter().find(is).map(|event| event.bit);
        if name.eq_ignore_ascii_case("all") {
            Some(all)
        } else {
            one()
        }
    };
    if mode != Mode::Callbacks {
        let line =
            format!("NCCLSCOPE_EVENTS={value} has no effect without NCCLSCOPE_MODE=callbacks");
        return (0, Some(line));
    }
    let names = value
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let (mut bits, mut unknown) = (0, Vec::new());
    for name in names {
        match known(name) {
            Some(bit) => bits |= bit,
            None => unknown.push(name),
        }
    }
    let complaint = (!unknown.is_empty()).then(|| {
        let names: Vec<&str> = event::ALL.iter().map(|event| event.name).collect();
        let unknown = unknown.join(", ");
        format!(
            "NCCLSCOPE_EVENTS: {unknown} is none of all, {}; left out",
            names.join(", ")
        )
    });
    (bits as u32, complaint)
}

/// A line for each of our variables whose value is not text, and is not used therefore.
fn not_text(vars: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    vars.filter(|(name, value)| {
        name.as_encoded_bytes().starts_with(b"NCCLSCOPE_") && value.to_str().is_none()
    })
    .map(|(name, value)| {
        format!(
            "{}={} is not UTF-8; using the default",
            name.to_string_lossy(),
            value.to_string_lossy()
        )
    })
    .collect()
}

/// A folder for the batch job, or for the ranks of one launcher.
const OUT: &str = "ncclscope-%j";

/// 1 %.
const BUDGET: f64 = 0.01;

fn expand(pattern: &str, rank: Option<&str>, job: Option<&str>) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('h') => out.push_str(&file_name(&host())),
            Some('p') => out.push_str(&std::process::id().to_string()),
            Some('r') => {
                out.push_str(&rank.map_or_else(|| format!("p{}", std::process::id()), file_name))
            }
            // Ranks of one node share their launcher where there is no batch system.
            Some('j') => out.push_str(&job.map_or_else(
                || format!("p{}", std::os::unix::process::parent_id()),
                file_name,
            )),
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

/// This host's name.
pub fn host() -> String {
    capture::left::host().unwrap_or_else(|| "unknown-host".to_owned())
}

fn print_bytes(bytes: u64) -> String {
    for (unit, name) in [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(vars: &[(&str, &str)]) -> Settings {
        Settings::read(|name| {
            vars.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn nothing_set_gives_the_defaults() {
        let s = settings(&[("SLURM_JOB_ID", "42")]);
        assert_eq!(
            (s.mode, s.timing, s.budget, s.net, s.memory),
            (Mode::Trace, Timing::Auto, 0.01, Net::Steps, 64 << 20)
        );
        assert_eq!(s.out, "ncclscope-42");
        assert!(s.complaints.is_empty());
        assert_eq!(s.mask(), 0x1e1e);
    }

    #[test]
    fn callbacks_mode_asks_for_all_that_costs_the_streams_nothing() {
        let mask = |vars: &[(&str, &str)]| {
            let mode = [("NCCLSCOPE_MODE", "callbacks")];
            settings(&[&mode, vars].concat()).mask()
        };
        let kernel = (event::KERNEL_CH | event::KERNEL_PHASE) as u32;
        assert_eq!(mask(&[]), 0xffff & !kernel);
        assert_eq!(mask(&[("NCCLSCOPE_EVENTS", "all")]), 0xffff);
        let one = [("NCCLSCOPE_EVENTS", "coll, kernelch")];
        assert_eq!(mask(&one), 0xffff & !event::KERNEL_PHASE as u32);
        // Without steps, nothing that makes NCCL tell of them.
        let network = event::PROXY_STEP | event::PROXY_CTRL | event::NET_PLUGIN;
        let ops = mask(&[("NCCLSCOPE_NET", "ops")]);
        assert_eq!(ops, 0xffff & !kernel & !network as u32);
        // All means all.
        assert_eq!(
            mask(&[("NCCLSCOPE_NET", "off"), ("NCCLSCOPE_EVENTS", "all")]),
            0xffff
        );
    }

    #[test]
    fn events_that_are_no_use_give_a_line() {
        let s = settings(&[("NCCLSCOPE_EVENTS", "all")]);
        assert_eq!((s.mask(), s.complaints.len()), (0x1e1e, 1));
        let mode = ("NCCLSCOPE_MODE", "callbacks");
        let s = settings(&[mode, ("NCCLSCOPE_EVENTS", "KernelCh,Kernels")]);
        assert_eq!(s.events, event::KERNEL_CH as u32);
        assert!(
            s.complaints[0].starts_with("NCCLSCOPE_EVENTS: Kernels is none of all, Group, Coll")
        );
    }

    #[test]
    fn an_event_that_crashes_a_release_is_left_out_there() {
        let all = [("NCCLSCOPE_MODE", "callbacks"), ("NCCLSCOPE_EVENTS", "all")];
        let left_out = "KernelPhase events are left out: they made NCCL 2.31.2 crash";
        let asked = |vars: &[(&str, &str)], nccl| {
            let mut settings = settings(vars);
            (settings.mask_for(nccl), settings.notes)
        };
        let (mask, notes) = asked(&all, Some(23102));
        assert_eq!(mask, 0xffff & !event::KERNEL_PHASE as u32);
        assert_eq!(notes, [left_out, COST]);
        for nccl in [None, Some(23203)] {
            assert_eq!(asked(&all, nccl), (0xffff, vec![COST.to_owned()]));
        }
        let full = [("NCCLSCOPE_MODE", "full"), ("NCCLSCOPE_TIMING", "stamps")];
        let (mask, notes) = asked(&full, Some(23102));
        assert_eq!(
            (mask & event::KERNEL_PHASE as u32, &*notes),
            (0, &[left_out.to_owned()][..])
        );
        // Nothing is said about what nobody asked for.
        assert!(asked(&[("NCCLSCOPE_MODE", "callbacks")], Some(23102))
            .1
            .is_empty());
    }

    #[test]
    fn a_bad_value_gives_one_line_and_the_default() {
        let s = settings(&[
            ("NCCLSCOPE_MODE", "tarce"),
            ("NCCLSCOPE_MEMORY", "1PB"),
            ("NCCLSCOPE_FLUSH", "soon"),
            ("NCCLSCOPE_BUDGET", "lots"),
            ("NCCLSCOPE_MAX_SIZE", "7"),
            ("NCCLSCOPE_OUT", "a\nb"),
            ("SLURM_JOB_ID", "42"),
        ]);
        assert_eq!(s.out, "ncclscope-42");
        assert_eq!(
            (s.mode, s.memory, s.flush, s.budget, s.max_size),
            (Mode::Trace, 64 << 20, None, 0.01, 8 << 30)
        );
        assert_eq!(
            s.complaints,
            [
                "NCCLSCOPE_MODE=tarce is none of profile, trace, full, callbacks; using trace",
                "NCCLSCOPE_MEMORY=1PB is not a size from 1MiB to 64MiB (like 64MiB); using 64MiB",
                "NCCLSCOPE_MAX_SIZE=7 is not a size from 64KiB to 1024TiB (like 64MiB); using 8GiB",
                "NCCLSCOPE_BUDGET=lots is not a percentage from 0.01 to 100; using 1",
                "NCCLSCOPE_FLUSH=soon is not a number of seconds from 0.05 to 3600; using the default",
                "NCCLSCOPE_OUT=a\nb has control characters; using ncclscope-%j",
            ]
        );
    }

    #[test]
    fn what_is_not_text_is_said() {
        use std::os::unix::ffi::OsStringExt;
        let var = |name: &str, value: &[u8]| (name.into(), OsString::from_vec(value.to_vec()));
        let vars = [
            var("NCCLSCOPE_OUT", b"caf\xe9"),
            var("NCCLSCOPE_NET", b"off"),
            var("HOME", b"\xff"),
        ];
        assert_eq!(
            not_text(vars.into_iter()),
            ["NCCLSCOPE_OUT=caf\u{fffd} is not UTF-8; using the default"]
        );
    }

    #[test]
    fn numbers_out_of_range_are_no_settings() {
        let bad = [
            (
                "NCCLSCOPE_BUDGET",
                &["abc", "0", "-1", "200 %", "NaN", "inf", "1e-9", "%"][..],
            ),
            ("NCCLSCOPE_FLUSH", &["0", "-1", "NaN", "inf", "1e9", "1s"]),
            (
                "NCCLSCOPE_MEMORY",
                &[
                    "0",
                    "-1MiB",
                    "65MiB",
                    "4 MB or so",
                    "1e6",
                    "99999999999999999999",
                ],
            ),
            (
                "NCCLSCOPE_MAX_SIZE",
                &["63KiB", "1025TiB", "MiB", "18446744073709551615TiB"],
            ),
        ];
        for (name, values) in bad {
            for value in values {
                let s = settings(&[(name, value)]);
                assert_eq!(s.complaints.len(), 1, "{name}={value}");
                let used = (s.budget, s.flush, s.memory, s.max_size);
                assert_eq!(used, (0.01, None, 64 << 20, 8 << 30), "{name}={value}");
            }
        }
    }

    #[test]
    fn nccl_s_log_is_read_from_the_file_that_run_or_the_user_chose() {
        let log = |vars: &[(&str, &str)]| settings(vars).nccl_log;
        let ours = [
            ("NCCLSCOPE_NCCL_LOG", "/dev/shm/ncclscope-1."),
            ("NCCL_DEBUG_FILE", "/dev/shm/ncclscope-1.%h.%p"),
        ];
        let found = log(&ours);
        assert_eq!(
            (found.prefix.as_deref(), found.is_ours),
            (Some("/dev/shm/ncclscope-1."), true)
        );
        assert!(found.is_of_run("NCCL_DEBUG_SUBSYS") && !found.is_of_run("NCCL_ALGO"));
        let user = [("NCCL_DEBUG_FILE", "logs/nccl.%h.%p.txt")];
        let found = log(&user);
        assert_eq!(
            (found.prefix.as_deref(), found.is_ours),
            (Some("logs/nccl."), false)
        );
        assert!(!found.is_of_run("NCCL_DEBUG"));
        let off = ("NCCLSCOPE_NCCL_LOG", "off");
        for none in [
            &[][..],
            &[off],
            &[off, user[0]],
            &[("NCCL_DEBUG_FILE", "/%h")],
        ] {
            assert_eq!(log(none), NcclLog::default(), "{none:?}");
        }
    }

    #[test]
    fn a_budget_is_a_percentage() {
        for (text, share) in [("2", 0.02), ("0.5%", 0.005), (" 10 % ", 0.1)] {
            let s = settings(&[("NCCLSCOPE_BUDGET", text)]);
            assert!((s.budget - share).abs() < 1e-12 && s.complaints.is_empty());
        }
    }

    #[test]
    fn patterns_expand_and_stay_inside_the_folder() {
        let s = settings(&[
            ("NCCLSCOPE_OUT", "/x/%j/%r-%%-%q"),
            ("RANK", "7"),
            ("SLURM_JOB_ID", "../up"),
        ]);
        assert_eq!(s.out, "/x/.._up/7-%-%q");
        assert_eq!(
            settings(&[("NCCLSCOPE_OUT", "%r")]).out,
            format!("p{}", std::process::id())
        );
        assert_eq!(file_name(".."), "_..");
    }

    #[test]
    fn stamps_ask_for_kernel_events() {
        assert_eq!(
            settings(&[("NCCLSCOPE_TIMING", "stamps"), ("NCCLSCOPE_NET", "off")]).mask(),
            0x1e46
        );
        assert_eq!(
            settings(&[("NCCLSCOPE_TIMING", "stamps"), ("NCCLSCOPE_MODE", "full")]).mask(),
            0x9e5e
        );
    }
}
