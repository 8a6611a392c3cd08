//! Counters of InfiniBand and RoCE adapters, for `--net`: which of them moved while the session ran.
//!
//! ```text
//! /sys/class/infiniband/ADAPTER/ports/PORT/counters/*      data, errors, waiting: as the standard has them
//! /sys/class/infiniband/ADAPTER/ports/PORT/hw_counters/*   retransmits, congestion: as the driver names them
//! /sys/class/infiniband_verbs/uverbsN/ibdev                which adapter /dev/infiniband/uverbsN is
//! ```
//!
//! The data of RDMA bypasses the kernel, so there are no counters by connection. A process is known to use an
//! adapter if it has the adapter's device open.
//!
//! Rule: a counter is handed out with its own name. Data counters, which the standard has in units of four
//! bytes, become bytes.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// By adapter and port (`mlx5_0/1`), then by name.
type Values = BTreeMap<String, BTreeMap<String, u64>>;

/// Counters that moved, of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Port {
    /// Adapter and port, such as `mlx5_0/1`.
    #[serde(rename = "port")]
    pub name: String,
    /// By how much each counter grew, by the driver's name.
    pub moved: BTreeMap<String, u64>,
}

/// Reads counters at the begin and at the end.
pub struct Adapters {
    root: PathBuf,
    before: Values,
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn values(root: &Path) -> Values {
    let mut values = Values::new();
    let adapters = root.join("class/infiniband");
    for adapter in names(&adapters) {
        let ports = adapters.join(&adapter).join("ports");
        for port in names(&ports) {
            let of = values.entry(format!("{adapter}/{port}")).or_default();
            for folder in ["counters", "hw_counters"] {
                let folder = ports.join(&port).join(folder);
                for name in names(&folder) {
                    let Some(value) = number(&folder.join(&name)) else {
                        continue;
                    };
                    match name
                        .strip_suffix("_data")
                        .filter(|_| folder.ends_with("counters"))
                    {
                        Some(kind @ ("port_rcv" | "port_xmit")) => {
                            of.insert(format!("{kind}_bytes"), value.saturating_mul(4));
                        }
                        _ => {
                            of.insert(name, value);
                        }
                    }
                }
            }
        }
    }
    values
}

impl Adapters {
    /// Reads the counters of this machine.
    pub fn new() -> Adapters {
        Adapters::below("/sys".into())
    }

    /// The same of a copy of `/sys`.
    pub fn below(root: PathBuf) -> Adapters {
        let before = values(&root);
        Adapters { root, before }
    }

    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        !self.before.is_empty()
    }

    /// What moved since the begin.
    pub fn moved(&self) -> Vec<Port> {
        let port = |(name, after): (String, BTreeMap<String, u64>)| {
            let before = self.before.get(&name);
            let grown = after.into_iter().filter_map(|(counter, value)| {
                let first = before.and_then(|values| values.get(&counter)).copied();
                let by = value.checked_sub(first?).filter(|by| *by > 0)?;
                Some((counter, by))
            });
            Port {
                moved: grown.collect(),
                name,
            }
        };
        values(&self.root).into_iter().map(port).collect()
    }

    /// The adapters that a process has open, by name.
    pub fn of_process(&self, pid: u32) -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
        let links = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok());
        self.of_files(links)
    }

    fn of_files(&self, files: impl Iterator<Item = PathBuf>) -> Vec<String> {
        let adapter = |file: PathBuf| {
            let device = file.to_str()?.strip_prefix("/dev/infiniband/")?.to_owned();
            let verbs = self.root.join("class/infiniband_verbs").join(device);
            let name = std::fs::read_to_string(verbs.join("ibdev")).ok()?;
            Some(name.trim().to_owned())
        };
        let mut found: Vec<String> = files.filter_map(adapter).collect();
        found.sort();
        found.dedup();
        found
    }
}

impl Default for Adapters {
    fn default() -> Adapters {
        Adapters::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_moved_are_handed_out_in_bytes() {
        let root = tempfile::tempdir().expect("a folder");
        let port = root.path().join("class/infiniband/rxe0/ports/1");
        let put = |name: &str, value: &str| {
            let file = port.join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(file, value).expect("written");
        };
        put("counters/port_xmit_data", "100\n");
        put("counters/port_rcv_errors", "7\n");
        put("counters/VL15_dropped", "N/A (no PMA)\n");
        put("hw_counters/retry_exceeded_err", "0\n");
        let verbs = root.path().join("class/infiniband_verbs/uverbs0");
        std::fs::create_dir_all(&verbs).expect("made");
        std::fs::write(verbs.join("ibdev"), "rxe0\n").expect("written");
        let adapters = Adapters::below(root.path().to_owned());
        assert!(adapters.are_there());
        put("counters/port_xmit_data", "350\n");
        put("hw_counters/retry_exceeded_err", "2\n");
        let moved = [("port_xmit_bytes", 1000), ("retry_exceeded_err", 2)];
        let moved = moved.map(|(name, by)| (name.to_owned(), by));
        let expected = Port {
            name: "rxe0/1".to_owned(),
            moved: moved.into_iter().collect(),
        };
        assert_eq!(adapters.moved(), [expected]);
        let files = ["/dev/infiniband/uverbs0", "/dev/nvidia0", "socket:[1]"];
        let found = adapters.of_files(files.into_iter().map(PathBuf::from));
        assert_eq!(found, ["rxe0"]);
    }

    #[test]
    fn a_machine_without_adapters_has_none() {
        let root = tempfile::tempdir().expect("a folder");
        let adapters = Adapters::below(root.path().to_owned());
        assert!(!adapters.are_there() && adapters.moved().is_empty());
    }
}
