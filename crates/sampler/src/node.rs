//! Figures of the node as a whole: CPU time, memory, disks, network interfaces and InfiniBand ports.
//!
//! Rule: only files below /proc and /sys are read, all of which any user may read. A file that is not there
//! brings no value.

use std::path::PathBuf;

/// µs of one tick of the kernel's clock for user programs.
fn tick_us() -> u64 {
    // SAFETY: asks for a constant.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000 / u64::try_from(per_second).unwrap_or(100).max(1)
}

/// Reads the node's figures.
pub struct Node {
    tick_us: u64,
    /// Device names of whole disks.
    disks: Vec<String>,
    /// Counters of InfiniBand ports: series, port, file, factor.
    ports: Vec<(&'static str, String, PathBuf, u64)>,
}

impl Default for Node {
    fn default() -> Node {
        Node::new()
    }
}

impl Node {
    /// Looks which devices there are.
    pub fn new() -> Node {
        let names = |folder: &str| -> Vec<String> {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut names: Vec<String> = entries
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect();
            names.sort();
            names
        };
        // Those that are made of others would count bytes twice.
        let is_made_up = |name: &String| {
            ["loop", "ram", "dm-", "md", "zram"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        let disks = names("/sys/block");
        let disks = disks.into_iter().filter(|name| !is_made_up(name)).collect();
        let mut ports = Vec::new();
        for adapter in names("/sys/class/infiniband") {
            let folder = PathBuf::from("/sys/class/infiniband")
                .join(&adapter)
                .join("ports");
            for port in names(&folder.to_string_lossy()) {
                // Data counters are in units of four bytes.
                let counters = [
                    ("ib_received_bytes", "port_rcv_data", 4),
                    ("ib_sent_bytes", "port_xmit_data", 4),
                    ("ib_wait_ticks", "port_xmit_wait", 1),
                ];
                for (series, file, factor) in counters {
                    let path = folder.join(&port).join("counters").join(file);
                    if path.exists() {
                        ports.push((series, format!("{adapter}/{port}"), path, factor));
                    }
                }
            }
        }
        Node {
            tick_us: tick_us(),
            disks,
            ports,
        }
    }

    /// Hands CPU time and memory to `each`: name, device, and value.
    pub fn read(&self, each: &mut impl FnMut(&'static str, &str, u64)) {
        if let Some((busy, waiting)) = first_line("/proc/stat").and_then(|line| cpu_ticks(&line)) {
            each("node_cpu_us", "", busy.saturating_mul(self.tick_us));
            each(
                "node_waiting_for_disk_us",
                "",
                waiting.saturating_mul(self.tick_us),
            );
        }
        if let Some(used) = text("/proc/meminfo").and_then(|text| memory_in_use(&text)) {
            each("node_memory_bytes", "", used);
        }
    }

    /// Hands bytes of devices to `each`.
    pub fn read_devices(&self, each: &mut impl FnMut(&'static str, &str, u64)) {
        for line in text("/proc/diskstats").unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let Some(name) = fields
                .get(2)
                .filter(|name| self.disks.iter().any(|d| d == *name))
            else {
                continue;
            };
            // The kernel counts in units of 512 bytes, whatever the disk has.
            for (series, place) in [("disk_read_bytes", 5), ("disk_written_bytes", 9)] {
                if let Some(sectors) = number(fields.get(place)) {
                    each(series, name, sectors.saturating_mul(512));
                }
            }
        }
        for line in text("/proc/net/dev").unwrap_or_default().lines() {
            let Some((name, fields)) = line.split_once(':') else {
                continue;
            };
            let name = name.trim();
            let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
            if name == "lo" {
                continue;
            }
            for (series, place) in [("net_received_bytes", 0), ("net_sent_bytes", 8)] {
                if let Some(bytes) = number(fields.get(place)) {
                    each(series, name, bytes);
                }
            }
        }
        for (series, port, path, factor) in &self.ports {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if let Ok(value) = text.trim().parse::<u64>() {
                each(series, port, value.saturating_mul(*factor));
            }
        }
    }
}

fn text(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The first line of a file that may be long: /proc/stat has one for each interrupt.
fn first_line(path: &str) -> Option<String> {
    use std::io::Read;
    let mut bytes = [0; 512];
    let n = std::fs::File::open(path).ok()?.read(&mut bytes).ok()?;
    let text = std::str::from_utf8(&bytes[..n]).ok()?;
    text.lines().next().map(str::to_owned)
}

fn number(field: Option<&&str>) -> Option<u64> {
    field?.parse().ok()
}

/// Ticks that CPUs were busy, and idle while a program waited for a disk.
fn cpu_ticks(line: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> = line
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice.
    let [user, nice, system, _, waiting, irq, softirq, ..] = fields[..] else {
        return None;
    };
    Some((user + nice + system + irq + softirq, waiting))
}

/// Bytes of memory that programs can't have.
fn memory_in_use(text: &str) -> Option<u64> {
    let of = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    let used = of("MemTotal:")?.checked_sub(of("MemAvailable:")?)?;
    used.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn busy_ticks_leave_out_idle_and_stolen_time() {
        let line = "cpu  100 20 30 5000 7 3 2 999 50 0";
        assert_eq!(cpu_ticks(line), Some((155, 7)));
        assert_eq!(cpu_ticks("cpu0 1 2 3"), None);
    }

    #[test]
    fn memory_in_use_is_what_programs_can_not_have() {
        let text = "MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:  400 kB\n";
        assert_eq!(memory_in_use(text), Some(600 * 1024));
        assert_eq!(memory_in_use("MemTotal:  1000 kB\n"), None);
    }

    #[test]
    fn this_node_has_a_cpu_and_memory() {
        let mut found = BTreeMap::new();
        let node = Node::new();
        node.read(&mut |name, _, value| {
            found.insert(name, value);
        });
        assert!(found["node_cpu_us"] > 0 && found["node_memory_bytes"] > 0);
        let mut devices = 0;
        node.read_devices(&mut |name, device, _| {
            assert!(!device.is_empty(), "{name}");
            devices += 1;
        });
        // A container without a network has none.
        assert_eq!(devices % 2, 0);
    }
}
