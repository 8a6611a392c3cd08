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
    /// A network plugin loaded, and found nothing that it can use.
    PluginFoundNone,
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
    /// What NCCL takes several cards together for, by network and number: `mlx5_3+mlx5_4`.
    pub merged: BTreeMap<(String, u32), String>,
    /// What the network plugin calls its cards, and how many it found.
    pub plugin_cards: Option<(String, u32)>,
    /// The network that NCCL chose between hosts, by its name: `IB`, `Socket`, or a plugin's.
    pub network: Option<String>,
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
        // NCCL has the second form for names of cards and interfaces.
        let setting = text
            .split_once(" set by environment to ")
            .or_else(|| text.split_once(" set to "))
            .filter(|(name, _)| name.starts_with("NCCL_") && !name.contains(' '));
        if let Some((name, value)) = setting {
            if self.env.len() < MOST {
                let value = value.trim_end_matches('.').trim().to_owned();
                self.env.insert(name.to_owned(), value);
            }
        } else if let Some((network, cards)) = text
            .strip_prefix("NET/")
            .and_then(|rest| rest.split_once(" : Using ").or(rest.split_once(": Using ")))
        {
            self.cards(network.trim(), cards);
        } else if let Some((network, number, name)) = merged(text) {
            if self.merged.len() < MOST {
                let card = (network.to_owned(), number);
                self.merged.insert(card, name.to_owned());
            }
        } else if let Some(name) = chosen(text) {
            self.network = Some(name.to_owned());
        } else if let Some(found) = plugin_cards(text) {
            self.plugin_cards = Some(found);
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

    /// A card as NCCL itself lists it. NVIDIA's plugin (`IBext`) has the cards of `IB`.
    pub fn listed(&self, network: &str, number: u32) -> Option<&Card> {
        let built_in = if network.starts_with("IB") {
            "IB"
        } else {
            network
        };
        let mut names = [network, built_in].into_iter();
        names.find_map(|of| self.cards.get(&(of.to_owned(), number)))
    }

    /// The name of a card of a network, if it is known.
    pub fn card(&self, network: &str, number: u32) -> Option<String> {
        let of_plugin = || {
            let (kind, n) = self.plugin_cards.as_ref()?;
            (!IN_NCCL.contains(&network) && number < *n).then(|| format!("{kind} {number}"))
        };
        let listed = self.listed(network, number).map(|card| card.name.clone());
        let merged = || self.merged.get(&(network.to_owned(), number)).cloned();
        listed.or_else(merged).or_else(of_plugin)
    }

    /// The names of all cards of a network, as far as they are known.
    pub fn cards_of(&self, network: &str) -> Vec<String> {
        // Cards have numbers from 0 on, and those of several cards together come behind them.
        let is_one = |number: &u32| !self.merged.contains_key(&(network.to_owned(), *number));
        let numbers = (0..MOST as u32).take_while(is_one);
        let all = numbers.map_while(|number| self.card(network, number));
        all.collect()
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

    /// Adds what another process of the host said.
    pub fn merge(&mut self, other: HostFacts) {
        self.env.extend(other.env);
        self.cards.extend(other.cards);
        self.merged.extend(other.merged);
        self.plugin_cards = other.plugin_cards.or(self.plugin_cards.take());
        self.network = other.network.or(self.network.take());
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

/// Networks that NCCL has by itself. All others are a plugin's.
const IN_NCCL: [&str; 2] = ["IB", "Socket"];

/// `NET/IB : Made virtual device [10] name=mlx5_3+mlx5_4 speed=200000 ndevs=2`; nothing for a single card.
fn merged(text: &str) -> Option<(&str, u32, &str)> {
    let (network, rest) = text
        .strip_prefix("NET/")?
        .split_once(" : Made virtual device [")?;
    let (number, rest) = rest.split_once("] name=")?;
    let name = rest.split_whitespace().next()?;
    let number = number.parse().ok()?;
    name.contains('+').then_some((network.trim(), number, name))
}

/// `Using network IB`; from 2.27 on also `Assigned NET plugin IB to comm`.
fn chosen(text: &str) -> Option<&str> {
    let assigned = text.strip_prefix("Assigned NET plugin ");
    let name = match assigned.and_then(|rest| rest.strip_suffix(" to comm")) {
        Some(name) => name,
        None => text.strip_prefix("Using network ")?,
    };
    Some(name.trim()).filter(|name| !name.is_empty())
}

/// `NET/OFI Selected Provider is efa (found 4 nics)`.
fn plugin_cards(text: &str) -> Option<(String, u32)> {
    let (_, rest) = text.strip_prefix("NET/")?.split_once("rovider is ")?;
    let kind = rest
        .split([' ', ','])
        .next()
        .filter(|kind| !kind.is_empty())?;
    let (_, count) = rest.split_once("(found ")?;
    let count = count.split_once(' ')?.0.parse().ok()?;
    Some((kind.to_owned(), count))
}

/// Whether a network plugin says that it found nothing: `NET/OFI No eligible providers were found`.
fn is_without_device(text: &str) -> bool {
    let name = text
        .strip_prefix("NET/")
        .and_then(|rest| rest.split([' ', ':', '/']).next());
    let is_of_plugin = name.is_some_and(|name| name != "Plugin" && !IN_NCCL.contains(&name));
    let text = text.to_ascii_lowercase();
    let says = [
        "no eligible",
        "no device",
        "no provider",
        "couldn't find",
        "could not find",
        "unable to find",
    ];
    is_of_plugin && says.iter().any(|what| text.contains(what))
        || is_of_plugin
            && text.contains("init")
            && (text.contains("failed") || text.contains("failing"))
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
    if is_without_device(text) {
        return Some(Mark::PluginFoundNone);
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
        let of = |name: &str| found.env.get(name).map(String::as_str);
        let read = [of("NCCL_P2P_DISABLE"), of("NCCL_SOCKET_IFNAME")];
        assert_eq!(read, [Some("1"), Some("eth0")]);
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
    fn cards_of_plugins_have_names() {
        let ofi = facts(&["NET/OFI Selected Provider is efa (found 4 nics)"]);
        let name = |number| ofi.card("AWS Libfabric", number);
        assert_eq!((name(3).as_deref(), name(4)), (Some("efa 3"), None));
        assert_eq!(ofi.card("Socket", 0), None);
        assert_eq!(ofi.cards_of("AWS Libfabric").len(), 4);
        let ofi =
            facts(&["NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)"]);
        assert_eq!(ofi.plugin_cards, Some(("efa".to_owned(), 16)));
        let ib =
            facts(&["NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"]);
        assert_eq!(ib.card("IBext_v8", 1).as_deref(), Some("mlx5_1"));
        assert_eq!(ib.cards_of("IBext_v8"), ["mlx5_0", "mlx5_1"]);
        let merged = facts(&[
            "NET/IB : Made virtual device [0] name=mlx5_0 speed=100000 ndevs=1",
            "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB lo:127.0.0.1<0>",
            "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=200000 ndevs=2",
        ]);
        assert_eq!(merged.card("IB", 2).as_deref(), Some("mlx5_0+mlx5_1"));
        assert_eq!(merged.cards_of("IB"), ["mlx5_0", "mlx5_1"]);
        assert_eq!(
            facts(&["NCCL_IB_HCA set to mlx5_9"]).env["NCCL_IB_HCA"],
            "mlx5_9"
        );
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
                "NET/OFI No eligible providers were found",
                Some(Mark::PluginFoundNone),
            ),
            (
                "NET/OFI aws-ofi-nccl initialization failed",
                Some(Mark::PluginFoundNone),
            ),
            ("NET/OFI Initializing aws-ofi-nccl 1.7.4-aws", None),
            (
                "NET/Plugin : libcuda.so.9: cannot open shared object file",
                Some(Mark::PluginFailed),
            ),
        ] {
            assert_eq!(mark(text), expected, "{text}");
        }
    }
}
