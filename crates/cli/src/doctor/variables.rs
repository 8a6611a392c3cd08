//! NCCLSCOPE_* and NCCL's own variables: names that do not exist, values that can't be used, and what else
//! decides.
//!
//! The recorder reads its settings by itself, in the job; [`SETTINGS`] is the table of
//! `docs/reference/settings.md`, and a test holds the two together.

use super::{Check, Checks, Machine, Status};
use capture::limits::{MAX_SIZE, MEMORY};
use std::ops::RangeInclusive;
use strsim::osa_distance;

/// What a setting takes.
enum Takes {
    /// One of these words.
    Words(&'static [&'static str]),
    /// Bytes from, to.
    Bytes(RangeInclusive<u64>),
    /// Seconds from, to.
    Seconds(f64, f64),
    /// Percent from, to; the sign may be left out.
    Percent(f64, f64),
    /// A list of NCCL's events, or all of them.
    Events,
    /// Where the program's steps are read from.
    Steps,
    /// Anything.
    Any,
}

/// The settings of recorder and command.
const SETTINGS: [(&str, Takes); 29] = [
    ("NCCLSCOPE_OUT", Takes::Any),
    (
        "NCCLSCOPE_MODE",
        Takes::Words(&["profile", "trace", "full", "callbacks"]),
    ),
    (
        "NCCLSCOPE_TIMING",
        Takes::Words(&["auto", "events", "stamps", "host"]),
    ),
    ("NCCLSCOPE_BUDGET", Takes::Percent(0.01, 100.0)),
    ("NCCLSCOPE_GRAPHS", Takes::Words(&["count", "off"])),
    ("NCCLSCOPE_WINDOWS", Takes::Words(&["auto", "on", "off"])),
    ("NCCLSCOPE_WAITS", Takes::Words(&["on", "off"])),
    ("NCCLSCOPE_MPI", Takes::Words(&["on", "off"])),
    ("NCCLSCOPE_STACKS", Takes::Words(&["on", "off"])),
    ("NCCLSCOPE_NVTX", Takes::Words(&["on", "off", "1", "0"])),
    ("NCCLSCOPE_SCOREP", Takes::Words(&["on", "off", "1", "0"])),
    ("NCCLSCOPE_STEPS", Takes::Steps),
    ("NCCLSCOPE_CHAIN", Takes::Any),
    ("NCCLSCOPE_SAMPLER", Takes::Words(&["on", "off"])),
    ("NCCLSCOPE_NVML", Takes::Any),
    ("NCCLSCOPE_SWITCHES", Takes::Words(&["on", "off"])),
    ("NCCLSCOPE_NCCL_LOG", Takes::Any),
    ("NCCLSCOPE_COSTS", Takes::Any),
    ("NCCLSCOPE_NET", Takes::Words(&["steps", "ops", "off"])),
    ("NCCLSCOPE_EVENTS", Takes::Events),
    ("NCCLSCOPE_FLUSH", Takes::Seconds(0.05, 3600.0)),
    ("NCCLSCOPE_MEMORY", Takes::Bytes(MEMORY)),
    ("NCCLSCOPE_MAX_SIZE", Takes::Bytes(MAX_SIZE)),
    ("NCCLSCOPE_QUIET", Takes::Any),
    ("NCCLSCOPE_STAMPS", Takes::Words(&["replayed"])),
    ("NCCLSCOPE_CLOCK", Takes::Words(&["auto", "system"])),
    ("NCCLSCOPE_RUN", Takes::Any),
    ("NCCLSCOPE_TUNE", Takes::Any),
    ("NCCLSCOPE_PLUGIN", Takes::Any),
];

/// The checks.
pub fn checks(machine: &Machine) -> Vec<Check> {
    let mut checks = Checks::new("Variables");
    let mut set = 0;
    for (name, value) in machine
        .env
        .iter()
        .filter(|(name, _)| name.starts_with("NCCLSCOPE"))
    {
        set += 1;
        let Some((_, takes)) = SETTINGS.iter().find(|(known, _)| known == name) else {
            let remedy = match nearest(name) {
                Some(known) => format!("{known}? docs/reference/settings.md has them all"),
                None => "docs/reference/settings.md has the names".to_owned(),
            };
            checks.not(
                Status::Warn,
                "setting",
                format!("{name} is no setting, and nothing reads it"),
                remedy,
            );
            continue;
        };
        if let Some(expected) = expected(takes, value) {
            let finding = format!("{name}={value} can't be used; the default is taken");
            checks.not(Status::Warn, "setting", finding, expected);
        }
    }
    if checks.list.is_empty() {
        checks.ok(
            "setting",
            match set {
                0 => "no NCCLSCOPE_* variable is set: the defaults count".to_owned(),
                1 => "1 NCCLSCOPE_* variable is set, to what can be used".to_owned(),
                n => format!("{n} NCCLSCOPE_* variables are set, to what can be used"),
            },
        );
    }
    if let Some(mask) = machine.var("NCCL_PROFILE_EVENT_MASK") {
        checks.not(
            Status::Warn,
            "event_mask",
            format!(
                "NCCL_PROFILE_EVENT_MASK is `{mask}`: NVIDIA's example plugin reads it, ncclscope does not"
            ),
            "NCCLSCOPE_TIMING and NCCLSCOPE_NET choose the events",
        );
    }
    configured(machine, &mut checks);
    match machine.var("NCCL_DEBUG") {
        Some(level) if ["INFO", "TRACE"].contains(&level.to_ascii_uppercase().as_str()) => {
            checks.ok("nccl_debug", format!(
                "NCCL_DEBUG is {level}: NCCL's log names the profiler plugin that it loads"
            ));
        }
        _ => checks.ok("nccl_debug",
            "NCCL_DEBUG=INFO would let NCCL's log name the profiler plugin that it loads, or why not"),
    }
    checks.list
}

/// The setting that `name` may have been meant to be.
fn nearest(name: &str) -> Option<&'static str> {
    let known = SETTINGS.iter().map(|(known, _)| *known);
    let near = known.min_by_key(|known| osa_distance(known, name))?;
    let far = osa_distance(near, name);
    // All settings begin alike, so half of the rest must be right.
    let rest = near.trim_start_matches("NCCLSCOPE_").len();
    (far <= 3 && 2 * far <= rest).then_some(near)
}

/// A sentence for each variable of this process's environment that looks like a setting and is none.
pub fn misspelt() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    misspelt_of(names)
}

fn misspelt_of(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_known = |name: &String| SETTINGS.iter().any(|(known, _)| known == name);
    let mut wrong: Vec<String> = names
        .filter(|name| name.starts_with("NCCLSCOPE") && !is_known(name))
        .collect();
    wrong.sort();
    let told = |name: &String| {
        let shown = tables::printable(name);
        match nearest(name) {
            Some(near) => format!("{shown} is no setting and has no effect: {near} is one"),
            None => {
                format!("{shown} is no setting and has no effect (`ncclscope doctor` checks them)")
            }
        }
    };
    wrong.iter().map(told).collect()
}

/// NCCL's own files with variables.
fn configured(machine: &Machine, checks: &mut Checks) {
    let home = machine.var("HOME").map(|home| format!("{home}/.nccl.conf"));
    let named = machine.var("NCCL_CONF_FILE").map(str::to_owned);
    for file in named
        .into_iter()
        .chain(home)
        .chain(["/etc/nccl.conf".to_owned()])
    {
        let text = machine.read(&file).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("NCCL_PROFILER_PLUGIN="));
        if let Some(plugin) = line.filter(|_| machine.var("NCCL_PROFILER_PLUGIN").is_none()) {
            checks.not(
                Status::Warn,
                "nccl_conf",
                format!("`{file}` sets NCCL_PROFILER_PLUGIN to `{plugin}`"),
                "`ncclscope run` sets the variable, which counts before the file; \
                 without `run` the file does",
            );
        }
    }
}

/// What the value should be, if it can't be used.
fn expected(takes: &Takes, value: &str) -> Option<String> {
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    match takes {
        Takes::Any => None,
        Takes::Events => {
            let is_one = |name: &str| {
                let mut names = nccl_abi::event::ALL.iter().map(|event| event.name);
                name.eq_ignore_ascii_case("all") || names.any(|n| n.eq_ignore_ascii_case(name))
            };
            let fits = value.split(',').all(|name| is_one(name.trim()));
            (!fits).then(|| "`all`, or a list such as KernelCh,KernelPhase".to_owned())
        }
        Takes::Steps => {
            let fits = crate::run::steps_asked(value).is_ok();
            (!fits).then(|| "`torch`, `nvtx`, `nvtx:NAME` or `off`".to_owned())
        }
        Takes::Words(words) => {
            let fits = words.iter().any(|word| word.eq_ignore_ascii_case(value));
            (!fits).then(|| format!("one of {}", words.join(", ")))
        }
        Takes::Seconds(from, to) => {
            let fits = value
                .parse::<f64>()
                .is_ok_and(|s| (*from..=*to).contains(&s));
            (!fits).then(|| format!("seconds from {from} to {to}"))
        }
        Takes::Percent(from, to) => {
            let number = value.trim_end_matches('%').trim().parse::<f64>();
            let fits = number.is_ok_and(|n| (*from..=*to).contains(&n));
            (!fits).then(|| format!("a percentage from {from} to {to}"))
        }
        Takes::Bytes(limits) => {
            let fits = units::bytes(value).is_some_and(|n| limits.contains(&n));
            let (from, to) = (limits.start(), limits.end());
            let size = |n: u64| analyze::spelling::size(n).replace(' ', "");
            (!fits).then(|| format!("a size from {} to {}, like 64MiB", size(*from), size(*to)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;
    use std::path::Path;

    fn warned(env: &[(&str, &str)]) -> Vec<(String, String)> {
        let found = checks(&fake::machine(Path::new("/nowhere"), env));
        found
            .into_iter()
            .filter(|c| c.status != Status::Ok)
            .map(|c| (c.finding, c.remedy.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn values_that_cannot_be_used_and_names_that_do_not_exist_are_told() {
        let found = warned(&[
            ("NCCLSCOPE_MODE", "tarce"),
            ("NCCLSCOPE_MEMORY", "1PB"),
            ("NCCLSCOPE_FLUSH", "soon"),
            ("NCCLSCOPE_TIMMING", "stamps"),
            ("NCCLSCOPE_TIMING", "Stamps"),
            ("NCCLSCOPE_STEPS", "jax"),
            ("NCCLSCOPE_EVENTS", "all,Kernels"),
        ]);
        let remedies: Vec<&str> = found.iter().map(|(_, remedy)| remedy.as_str()).collect();
        assert_eq!(
            remedies,
            [
                "`all`, or a list such as KernelCh,KernelPhase",
                "seconds from 0.05 to 3600",
                "a size from 1MiB to 64MiB, like 64MiB",
                "one of profile, trace, full, callbacks",
                "`torch`, `nvtx`, `nvtx:NAME` or `off`",
                "NCCLSCOPE_TIMING? docs/reference/settings.md has them all",
            ]
        );
        assert!(warned(&[
            ("NCCLSCOPE_MAX_SIZE", "2g"),
            ("NCCLSCOPE_NET", ""),
            ("NCCLSCOPE_STEPS", "nvtx:train"),
            ("NCCLSCOPE_EVENTS", "kernelch, ProxyCtrl"),
            ("NCCLSCOPE_OUT", "x")
        ])
        .is_empty());
        assert_eq!(warned(&[("NCCL_PROFILE_EVENT_MASK", "127")]).len(), 1);
    }

    #[test]
    fn misspelt_names_are_told_with_the_nearest_right_one() {
        let names = [
            "NCCLSCOPE_TIMMING",
            "NCCLSCOPE_MODE",
            "PATH",
            "NCCLSCOPE_COLOUR",
            "NCCLSCOPEOUT",
        ];
        assert_eq!(
            misspelt_of(names.into_iter().map(str::to_owned)),
            [
                "NCCLSCOPEOUT is no setting and has no effect: NCCLSCOPE_OUT is one",
                "NCCLSCOPE_COLOUR is no setting and has no effect (`ncclscope doctor` checks them)",
                "NCCLSCOPE_TIMMING is no setting and has no effect: NCCLSCOPE_TIMING is one",
            ]
        );
    }

    #[test]
    fn a_plugin_in_nccls_own_files_is_told() {
        let root = tempfile::tempdir().expect("a folder");
        fake::file(
            root.path(),
            "/etc/nccl.conf",
            "NCCL_DEBUG=INFO\nNCCL_PROFILER_PLUGIN=inspector\n",
        );
        let found = checks(&fake::machine(root.path(), &[]));
        assert_eq!(fake::one(&found, "nccl_conf").status, Status::Warn);
    }

    #[test]
    fn the_table_is_that_of_the_documentation() {
        let text = std::fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/settings.md"),
        )
        .expect("the page");
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("| `NCCLSCOPE_"))
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        let documented: Vec<&str> = rows.iter().map(|row| row[1].trim_matches('`')).collect();
        let known: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
        assert_eq!(documented, known);
        for (row, (name, takes)) in rows.iter().zip(&SETTINGS) {
            match takes {
                Takes::Words(words) => {
                    assert_eq!(row[2].replace('`', ""), words.join(", "), "{name}")
                }
                Takes::Seconds(from, to) => {
                    assert_eq!(row[2], format!("seconds, {from} to {to}"), "{name}")
                }
                Takes::Percent(from, to) => {
                    assert_eq!(row[2], format!("{from} to {to}, percent"), "{name}")
                }
                Takes::Bytes(limits) => {
                    let ends: Vec<Option<u64>> = row[2].split(" to ").map(units::bytes).collect();
                    assert_eq!(ends, [Some(*limits.start()), Some(*limits.end())], "{name}");
                }
                Takes::Steps => assert_eq!(row[2], "`torch`, `nvtx`, `nvtx:NAME`, `off`", "{name}"),
                Takes::Events | Takes::Any => {}
            }
        }
    }
}
