//! What a host is: the settings and parts that explain why its figures are as they are.
//!
//! Rule: facts are compared word by word, so none of them changes from run to run on one host.

use crate::placement::{allowed, nodes};
use crate::sockets;
use std::fs;

/// Facts by name, in the order of printing.
pub fn read() -> Vec<(String, String)> {
    let file = |path: &str| fs::read_to_string(path).map_or(String::new(), |t| t.trim().to_owned());
    let chosen = |path: &str| {
        // One of several words, in brackets.
        let text = file(path);
        let inside = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        inside.map_or(String::new(), |(word, _)| word.to_owned())
    };
    let cpu = file("/proc/cpuinfo");
    let model = ["model name", "CPU part"].iter().find_map(|name| {
        let line = cpu.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let system = "/sys/devices/system";
    let granted = sockets::granted().map_or(String::new(), |bytes| {
        format!("{} of {} bytes", bytes, sockets::TUNED)
    });
    let all = [
        ("CPU", model.unwrap_or_default()),
        ("CPUs that may be used", allowed().len().to_string()),
        ("NUMA nodes", nodes().len().max(1).to_string()),
        ("kernel", file("/proc/sys/kernel/osrelease")),
        (
            "clock source",
            file(&format!(
                "{system}/clocksource/clocksource0/current_clocksource"
            )),
        ),
        (
            "frequency governor",
            file(&format!("{system}/cpu/cpu0/cpufreq/scaling_governor")),
        ),
        (
            "transparent huge pages",
            chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        ),
        ("reserved huge pages", file("/proc/sys/vm/nr_hugepages")),
        ("NUMA balancing", file("/proc/sys/kernel/numa_balancing")),
        ("tuned socket buffers granted", granted),
    ];
    all.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// How long the CPUs are watched.
const WATCHED: std::time::Duration = std::time::Duration::from_millis(100);

/// The share of the CPUs that work: others' work, if it is asked between starts. `None` without /proc/stat.
pub fn busy_share() -> Option<f64> {
    let ticks = || ticks(&fs::read_to_string("/proc/stat").ok()?);
    let (busy, all) = ticks()?;
    std::thread::sleep(WATCHED);
    let (busy_then, all_then) = ticks()?;
    (all_then > all).then(|| busy_then.saturating_sub(busy) as f64 / (all_then - all) as f64)
}

/// Ticks of all CPUs together: those with work, another guest's among them, and all.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user's.
    let ticks = line.split_whitespace().take(8).map(|n| n.parse().ok());
    let ticks: Vec<u64> = ticks.collect::<Option<_>>()?;
    let idle = ticks.get(3)? + ticks.get(4)?;
    let all = ticks.iter().sum();
    Some((u64::saturating_sub(all, idle), all))
}

/// The host's name.
pub fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_idle_time_of_the_cpus_are_told_apart() {
        let stat = "cpu  10 1 4 100 5 2 3 7 2 0\ncpu0 10 1 4 100 5 2 3 7 2 0\n";
        assert_eq!(ticks(stat), Some((27, 132)));
        assert_eq!(ticks("intr 1\n"), None);
        assert!(busy_share().is_none_or(|share| (0.0..=1.0).contains(&share)));
    }
}
