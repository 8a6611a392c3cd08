//! What a process says of itself in its capture: the facts of its Process block.

use crate::cuda;
use crate::recorder::Recorder;
use crate::settings::{host, Timing};
use capture::launcher;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Field 22 of /proc/self/stat: when the process started, in clock ticks since boot; 0 when it can't be read.
pub fn pid_start() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command name may hold blanks; fields are counted from the parenthesis that closes it.
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after
        .split_ascii_whitespace()
        .nth(19)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}

/// How long ago that was, ms.
fn process_age_ms(pid_start: u64) -> Option<u64> {
    // SAFETY: a plain call that asks for a constant.
    let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let now_ms = crate::clock::nanoseconds(libc::CLOCK_BOOTTIME) / 1_000_000;
    now_ms.checked_sub(pid_start.checked_mul(1000)?.checked_div(ticks)?)
}

/// System and processor. Windows lets Linux run beside it as WSL2, whose kernel names its maker.
fn platform(proc: &Path) -> String {
    let arch = std::env::consts::ARCH;
    let kernel = std::fs::read_to_string(proc.join("sys/kernel/osrelease"));
    if kernel.is_ok_and(|name| name.to_lowercase().contains("microsoft")) {
        format!("Linux {arch}, WSL2")
    } else {
        format!("Linux {arch}")
    }
}

/// Inode of the pid name space; 0 when it can't be read.
pub fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino())
}

/// The time zone of the process: its offset from UTC now, such as `+05:30`, and its name.
fn zone() -> Option<(String, String)> {
    // SAFETY: a struct of numbers and a pointer, which may be null.
    let mut broken_down: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are variables of ours.
    let done = unsafe { libc::localtime_r(&libc::time(std::ptr::null_mut()), &mut broken_down) };
    if done.is_null() {
        return None;
    }
    let minutes = broken_down.tm_gmtoff / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
    let offset = format!("{sign}{hours:02}:{minutes:02}");
    // `Europe/Berlin` says more than `CET`.
    let variable = std::env::var("TZ").ok();
    let place = match &variable {
        Some(text) => Some(text.trim_start_matches(':')).filter(|text| text.contains('/')),
        None => None,
    };
    let place = place.map(str::to_owned).or_else(|| {
        let link = std::fs::read_link("/etc/localtime").ok();
        let link = link.filter(|_| variable.is_none())?;
        let (_, place) = link.to_str()?.split_once("zoneinfo/")?;
        Some(place.to_owned())
    });
    let name = place.or_else(|| {
        let name = broken_down.tm_zone;
        // SAFETY: libc's abbreviation of the zone, which it keeps.
        let name = (!name.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(name) });
        Some(name?.to_string_lossy().into_owned())
    });
    Some((offset, name.unwrap_or_default()))
}

/// The Process block: who writes this trace. The header's own fields come first.
pub fn process_lines(recorder: &Recorder, live: &str, started: u64) -> String {
    use std::fmt::Write;
    let mut lines = String::new();
    let mut line = |key: &str, value: &str| {
        let value: String = value
            .chars()
            .map(|c| if c == '\n' || c == '\r' { ' ' } else { c })
            .take(400)
            .collect();
        let _ = writeln!(lines, "{key}={value}");
    };
    let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let settings = &recorder.settings;
    line("ncclscope", env!("CARGO_PKG_VERSION"));
    line("host", &host());
    line(
        "boot_id",
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
            .trim(),
    );
    line("platform", &platform(Path::new("/proc")));
    line("pid", &std::process::id().to_string());
    let header = recorder.header();
    line("pid_start", &header.pid_start.load(Relaxed).to_string());
    if let Some(ms) = process_age_ms(header.pid_start.load(Relaxed)) {
        line("process_age_ms", &ms.to_string());
    }
    line(
        "pid_namespace",
        &header.pid_namespace.load(Relaxed).to_string(),
    );
    for (key, names) in launcher::FACTS {
        if let Some(value) = names.iter().find_map(|name| var(name)) {
            line(key, &value);
        }
    }
    if let Some(rank) = launcher::rank(&var) {
        line("rank", &rank);
    }
    line("mode", &format!("{:?}", settings.mode).to_lowercase());
    let events = matches!(settings.timing, Timing::Auto | Timing::Events);
    if events && recorder.driver().is_none() {
        line("timing", "host");
        line("timing_because", "the process has no CUDA driver");
    } else {
        line("timing", &format!("{:?}", settings.timing).to_lowercase());
    }
    if settings.timing == Timing::Auto {
        line("budget", &format!("{} %", settings.budget * 100.0));
    }
    for none in &recorder.no_ranges {
        line(none.fact(), &none.why);
    }
    if let Some(why) = &recorder.no_steps {
        line("steps_because", why);
    }
    if settings.stacks {
        line("stacks", "on");
        if let Some(python) = crate::stacks::python_version() {
            line("python", &python);
        }
    }
    line("mask", &format!("{:#x}", recorder.mask()));
    if let Some(version) = cuda::nccl_version() {
        line(
            "nccl",
            &format!(
                "{}.{}.{}",
                version / 10_000,
                version / 100 % 100,
                version % 100
            ),
        );
    }
    if let Some(version) = cuda::driver_version() {
        line(
            "driver",
            &format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
        );
    }
    if let Some((offset, name)) = zone() {
        line("utc_offset", &offset);
        line("zone", &name);
    }
    line("clock", recorder.clock.name());
    line("live", live);
    line("trace", &format!("{}.trace", recorder.names.stem.display()));
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command: Vec<String> = command
        .split(|b| *b == 0)
        .filter(|a| !a.is_empty())
        .map(|a| String::from_utf8_lossy(a).into_owned())
        .collect();
    line("command", &command.join(" "));
    line("started", &started.to_string());
    let mut variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        })
        .filter(|(name, _)| name.starts_with("NCCL") && !settings.nccl_log.is_of_run(name))
        .collect();
    variables.sort();
    for (name, value) in variables {
        line(&format!("env.{name}"), &value);
    }
    // The header keeps so much; a cut line at the end is dropped.
    let room = std::mem::size_of_val(&recorder.header().process);
    if lines.len() > room {
        let mut cut = room;
        while !lines.is_char_boundary(cut) {
            cut -= 1;
        }
        let end = lines[..cut].rfind('\n').map_or(0, |at| at + 1);
        lines.truncate(end);
    }
    lines
}

/// Lines with the driver's version and the models of this host's GPUs, from the kernel module and without
/// CUDA. Empty if the module does not say.
pub fn host_gpus(proc: &Path) -> String {
    use std::fmt::Write;
    let mut lines = String::new();
    let text = std::fs::read_to_string(proc.join("version")).unwrap_or_default();
    let numbered =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    let mut words = text.lines().next().unwrap_or("").split_whitespace();
    if let Some(version) = words.find(numbered) {
        let _ = writeln!(lines, "driver_version={version}");
    }
    let mut models: BTreeMap<String, usize> = BTreeMap::new();
    let gpus = std::fs::read_dir(proc.join("gpus"));
    for gpu in gpus.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(gpu.path().join("information")).unwrap_or_default();
        if let Some(model) = text.lines().find_map(|line| line.strip_prefix("Model:")) {
            *models.entry(model.trim().to_owned()).or_insert(0) += 1;
        }
    }
    if !models.is_empty() {
        let models: Vec<String> = models
            .iter()
            .map(|(model, n)| format!("{n} x {model}"))
            .collect();
        let _ = writeln!(lines, "gpus={}", models.join(", "));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_platform_tells_linux_beside_windows() {
        let folder = std::env::temp_dir().join(format!("ncclscope-kernel-{}", std::process::id()));
        let arch = std::env::consts::ARCH;
        assert_eq!(platform(&folder), format!("Linux {arch}"));
        std::fs::create_dir_all(folder.join("sys/kernel")).expect("made");
        let kernel = "5.15.167.4-microsoft-standard-WSL2\n";
        std::fs::write(folder.join("sys/kernel/osrelease"), kernel).expect("written");
        assert_eq!(platform(&folder), format!("Linux {arch}, WSL2"));
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn driver_and_gpus_are_read_where_the_kernel_module_tells_them() {
        let folder = std::env::temp_dir().join(format!("ncclscope-gpus-{}", std::process::id()));
        assert_eq!(host_gpus(&folder), "");
        for gpu in ["0000:01:00.0", "0000:02:00.0"] {
            let gpu = folder.join("gpus").join(gpu);
            std::fs::create_dir_all(&gpu).expect("made");
            let text = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 57\n";
            std::fs::write(gpu.join("information"), text).expect("written");
        }
        let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  \
                       Release Build\nGCC version: 12.3.0\n";
        std::fs::write(folder.join("version"), version).expect("written");
        let found = host_gpus(&folder);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(found, "driver_version=580.95.05\ngpus=2 x NVIDIA H200\n");
    }
}
