//! What NCCL says of a host: settings, network cards, and why it does without something.
//!
//! Rule: each fact keeps the first line that says so, as evidence.

use crate::log_line::LogLine;
use std::collections::BTreeMap;

/// Why NCCL does without something, in the words of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The library of InfiniBand and RoCE did not open.
    NoVerbs,
    /// NCCL found no InfiniBand or RoCE device.
    NoDevice,
    /// A network plugin was there and did not load.
    PluginFailed,
    /// The driver does not let GPUs reach each other's memory.
    NoP2p,
    /// The network card can't reach the GPUs' memory: a module or DMA-BUF is missing.
    NoGdr,
    /// The card is too far from the GPU for GPU Direct RDMA.
    FarForGdr,
}

/// A network card, or an interface for sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its name, such as `mlx5_0` or `eth0`.
    pub name: String,
    /// `IB` or `RoCE`; empty for others.
    pub link: String,
}

/// What is known about a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// NCCL's variables that are set, with their values.
    pub env: BTreeMap<String, String>,
    /// Cards by network (`IB`, `Socket`) and NCCL's number.
    pub cards: BTreeMap<(String, u32), Card>,
    /// What was said, and by which line.
    pub marks: BTreeMap<Mark, String>,
    /// The slowest PCIe link of a GPU that NCCL found, GB/s, and the GPU's line.
    pub slowest_pci: Option<(f64, String)>,
}

/// Settings or cards of a host, at most. A damaged line may have any.
const MOST: usize = 1024;

impl HostFacts {
    /// Takes a line, which may be a warning.
    pub fn add(&mut self, line: &LogLine) {
        let text = line.text.trim();
        if let Some((name, value)) = text.split_once(" set by environment to ") {
            if name.starts_with("NCCL_") && !name.contains(' ') && self.env.len() < MOST {
                let value = value.trim_end_matches('.').trim().to_owned();
                self.env.insert(name.to_owned(), value);
            }
        } else if let Some((network, cards)) = text
            .strip_prefix("NET/")
            .and_then(|rest| rest.split_once(" : Using ").or(rest.split_once(": Using ")))
        {
            self.cards(network.trim(), cards);
        } else if let Some(mark) = mark(text) {
            self.marks.entry(mark).or_insert_with(|| text.to_owned());
        } else if text.contains("PCI[") && text.contains(" - GPU/") {
            self.pci(text);
        }
    }

    /// `[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`, or `[0]eth0:10.0.0.1<0>`.
    fn cards(&mut self, network: &str, text: &str) {
        let text = text.split(';').next().unwrap_or(text);
        for word in text.split_whitespace() {
            let Some((number, card)) = word.strip_prefix('[').and_then(|w| w.split_once(']'))
            else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            let (name, rest) = card.split_once(':').unwrap_or((card, ""));
            let link = rest.split_once('/').map_or("", |(_, link)| link);
            if !name.is_empty() && self.cards.len() < MOST {
                let card = Card {
                    name: name.to_owned(),
                    link: link.to_owned(),
                };
                self.cards.insert((network.to_owned(), number), card);
            }
        }
    }

    /// `+ PCI[48.0] - GPU/0-60 (0)`.
    fn pci(&mut self, text: &str) {
        let speed = text.split_once("PCI[").and_then(|(_, rest)| {
            let speed: f64 = rest.split_once(']')?.0.parse().ok()?;
            (speed.is_finite() && speed > 0.0).then_some(speed)
        });
        let is_slower = |slowest: &Option<(f64, String)>, speed: f64| {
            slowest.as_ref().is_none_or(|(slowest, _)| speed < *slowest)
        };
        if let Some(speed) = speed.filter(|speed| is_slower(&self.slowest_pci, *speed)) {
            self.slowest_pci = Some((speed, text.to_owned()));
        }
    }

    /// Whether a variable is set to a number other than 0.
    pub fn is_on(&self, name: &str) -> bool {
        let value = self.env.get(name).map(|value| value.parse::<i64>());
        value.is_some_and(|value| value.is_ok_and(|value| value != 0))
    }

    /// Adds what another process of the host said.
    pub fn merge(&mut self, other: HostFacts) {
        self.env.extend(other.env);
        self.cards.extend(other.cards);
        for (mark, line) in other.marks {
            self.marks.entry(mark).or_insert(line);
        }
        let slower = other.slowest_pci.filter(|(speed, _)| {
            let mine = self.slowest_pci.as_ref();
            mine.is_none_or(|(mine, _)| speed < mine)
        });
        self.slowest_pci = slower.or(self.slowest_pci.take());
    }
}

/// What a line says that NCCL does without.
fn mark(text: &str) -> Option<Mark> {
    let has = |part: &str| text.contains(part);
    if has("Failed to open libibverbs") {
        return Some(Mark::NoVerbs);
    }
    if has("NET/IB : No device found") || has("NET/IB: No device found") {
        return Some(Mark::NoDevice);
    }
    if has("P2P is disabled between") || has("Could not enable P2P between") {
        return Some(Mark::NoP2p);
    }
    if has("GPU Direct RDMA Disabled for") {
        return if has("distance ") {
            Some(Mark::FarForGdr)
        } else {
            (!has("NET/Socket")).then_some(Mark::NoGdr)
        };
    }
    let is_plugin = text.starts_with("NET/Plugin") || has("libnccl-net");
    let is_absent = has("Could not find") || has("No such file") || has("No plugin found");
    let is_failure = has("undefined symbol") || has("cannot open shared object") || has("failed");
    (is_plugin && is_failure && !is_absent).then_some(Mark::PluginFailed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lines: &[&str]) -> HostFacts {
        let mut facts = HostFacts::default();
        for text in lines {
            let line = format!("n0:1:1 [0] NCCL INFO {text}");
            facts.add(&LogLine::parse(&line).expect("a line"));
        }
        facts
    }

    #[test]
    fn settings_cards_and_reasons_are_read() {
        let found = facts(&[
            "NCCL_P2P_DISABLE set by environment to 1.",
            "NCCL_SOCKET_IFNAME set by environment to eth0",
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "NET/Socket : Using [0]eth0:10.0.0.1<0>",
            "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
            "NET/Plugin: Could not find: libnccl-net.so",
            "  + PCI[12.0] - GPU/0-1000 (0)",
            "  + PCI[0.2] - GPU/0-2000 (1)",
        ]);
        assert!(found.is_on("NCCL_P2P_DISABLE") && !found.is_on("NCCL_SOCKET_IFNAME"));
        let card = |network: &str, number| found.cards.get(&(network.to_owned(), number));
        assert_eq!(
            card("IB", 1).map(|c| (c.name.as_str(), c.link.as_str())),
            Some(("mlx5_1", "RoCE"))
        );
        assert_eq!(card("Socket", 0).map(|c| c.name.as_str()), Some("eth0"));
        assert_eq!(found.cards.len(), 3);
        assert_eq!(
            found.marks.keys().copied().collect::<Vec<_>>(),
            [Mark::NoGdr]
        );
        assert_eq!(found.slowest_pci.map(|(speed, _)| speed), Some(0.2));
    }

    #[test]
    fn what_nccl_does_without_is_told_apart() {
        for (text, expected) in [
            ("Failed to open libibverbs.so[.1]", Some(Mark::NoVerbs)),
            ("NET/IB : No device found.", Some(Mark::NoDevice)),
            (
                "P2P is disabled between connected GPUs 1 and 0. You can",
                Some(Mark::NoP2p),
            ),
            (
                "GPU Direct RDMA Disabled for GPU/0-1 - NET/0-0 (distance 5 > 4)",
                Some(Mark::FarForGdr),
            ),
            (
                "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
                None,
            ),
            ("NET/Plugin: Could not find: libnccl-net.so", None),
            (
                "NET/Plugin : libcuda.so.9: cannot open shared object file",
                Some(Mark::PluginFailed),
            ),
        ] {
            assert_eq!(mark(text), expected, "{text}");
        }
    }
}
