//! The matrix that `nvidia-smi topo -m` prints.

use super::{Device, Topology};
use crate::peak::Rates;
use std::collections::BTreeMap;

impl Topology {
    /// Of `nvidia-smi topo -m`, as it prints it with tabs, or as people paste it with blanks.
    pub(super) fn of_matrix(text: &str) -> Option<Topology> {
        // It underlines the heading on a terminal, and keeps doing so in files.
        let plain = text.replace("\u{1b}[4m", "").replace("\u{1b}[0m", "");
        let is_gpu = |word: &str| is_numbered(word, "GPU");
        let mut lines = plain.lines();
        let heading = lines.find(|line| line.split_whitespace().next().is_some_and(is_gpu))?;
        // Devices, then columns with blanks in their names, of which `CPU Affinity` is the first. Cards are
        // `NIC0` or, before driver 510, have their own names.
        let is_column = |word: &&str| ["CPU", "NUMA"].contains(word);
        let names: Vec<&str> = heading
            .split_whitespace()
            .take_while(|w| !is_column(w))
            .collect();
        let mut columns: Vec<(usize, &str)> = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
            .into_iter()
            .filter_map(|column| Some((heading.find(column)?, column)))
            .collect();
        columns.sort_unstable();
        // `GPU NUMA ID` begins with a word like a device's.
        let names: Vec<&str> = names.into_iter().filter(|name| *name != "GPU").collect();
        let mut rows: BTreeMap<&str, &str> = BTreeMap::new();
        let mut legend: BTreeMap<&str, &str> = BTreeMap::new();
        for line in lines {
            if let Some((name, label)) = line.trim().split_once(':') {
                if is_numbered(name, "NIC") {
                    legend.insert(name, label.trim());
                    continue;
                }
            }
            let first = line.split_whitespace().next();
            if let Some(name) = first.filter(|first| names.contains(first)) {
                // Another matrix may follow.
                rows.entry(name).or_insert(line);
            }
        }
        let column = |row: &str, name: &str| {
            let place = columns.iter().position(|(_, column)| *column == name)?;
            let at = 1 + names.len() + place;
            // With tabs, a cell may be empty.
            let cell = match row.contains('\t') {
                true => row.trim_start().split('\t').nth(at)?.trim(),
                false => row.split_whitespace().nth(at)?,
            };
            Some(cell.to_owned()).filter(|cell| !cell.is_empty() && cell != "N/A")
        };
        let mut links: Vec<Option<Vec<String>>> = Vec::new();
        for name in &names {
            let row = rows
                .get(name)
                .map(|row| row.split_whitespace().skip(1).take(names.len()));
            let row: Option<Vec<String>> = row.map(|row| row.map(str::to_owned).collect());
            // `topo -p2p` has a matrix of what is possible instead of links.
            if row
                .iter()
                .any(|row| row.len() != names.len() || !row.iter().all(|l| is_link(l)))
            {
                return None;
            }
            links.push(row);
        }
        if links.iter().all(Option::is_none) {
            return None;
        }
        // A link has a cell at both of its ends, and people paste the rows of GPUs alone.
        let link = |a: usize, b: usize| {
            let cell = |a: usize, b: usize| links[a].as_ref().map(|row| row[b].clone());
            let known = cell(a, b).or_else(|| cell(b, a));
            known.unwrap_or_else(|| if a == b { "X" } else { "-" }.to_owned())
        };
        let all = 0..names.len();
        let mut topology = Topology {
            links: all
                .clone()
                .map(|a| all.clone().map(|b| link(a, b)).collect())
                .collect(),
            ..Topology::default()
        };
        for name in &names {
            let (title, own) = match is_gpu(name) || is_numbered(name, "NIC") {
                true => ((*name).to_owned(), legend.get(name)),
                false => {
                    let cards = topology.devices.iter().filter(|device| !device.is_gpu());
                    (format!("NIC{}", cards.count()), Some(name))
                }
            };
            let of = |name: &str, column_name: &str| column(rows.get(name)?, column_name);
            topology.devices.push(Device {
                name: title,
                label: own.map(|label| (*label).to_owned()),
                numa: of(name, "NUMA Affinity").and_then(|numa| numa.parse().ok()),
                cpus: of(name, "CPU Affinity"),
                rates: Rates::default(),
            });
        }
        Some(topology)
    }
}

/// Whether a word is this kind and a number, such as `GPU0`.
fn is_numbered(word: &str, kind: &str) -> bool {
    let digits = word.strip_prefix(kind);
    digits.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether nvidia-smi calls a link so. `SOC` is `SYS` of old drivers.
fn is_link(word: &str) -> bool {
    const LINKS: [&str; 8] = ["X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "N/A"];
    LINKS.contains(&word) || is_numbered(word, "NV")
}
