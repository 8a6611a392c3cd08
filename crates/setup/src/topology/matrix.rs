//! The matrix that `nvidia-smi topo -m` or `nvidia-smi topo -p2p` prints.

use super::pasted::{glued, links};
use super::{Device, Topology, Unreadable};
use crate::log_line::without_colours;
use std::collections::BTreeMap;

impl Topology {
    /// Of `nvidia-smi topo -m`, as it prints it with tabs, or as people paste it with blanks.
    pub(super) fn of_matrix(text: &str) -> Result<Topology, Unreadable> {
        // It underlines the heading on a terminal, and keeps doing so in files.
        let plain: Vec<_> = text.lines().map(without_colours).collect();
        let plain = plain.join("\n");
        let is_gpu = |word: &str| is_numbered(word, "GPU");
        let mut lines = plain.lines();
        let begins = |line: &&str| {
            let first = line.split_whitespace().next();
            first.is_some_and(|word| is_gpu(glued(word)[0]))
        };
        let heading = lines.find(begins);
        let heading = heading.ok_or(Unreadable::Other)?;
        // Devices, then columns with blanks in their names, of which `CPU Affinity` is the first. Cards are
        // `NIC0` or, before driver 510, have their own names.
        let is_column = |word: &&str| ["CPU", "NUMA"].contains(word);
        let names: Vec<&str> = heading
            .split_whitespace()
            .take_while(|w| !is_column(w))
            .flat_map(glued)
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
            let cell = if row.contains('\t') {
                row.trim_start().split('\t').nth(at)?.trim()
            } else {
                row.split_whitespace().nth(at)?
            };
            Some(cell.to_owned()).filter(|cell| !cell.is_empty() && cell != "N/A")
        };
        if rows.is_empty() {
            return Err(Unreadable::Other);
        }
        if let Some(card) = legend.keys().find(|card| !names.contains(card)) {
            // Cards of old drivers have their own names in the heading.
            if names.iter().any(|name| is_numbered(name, "NIC")) || names.iter().all(|n| is_gpu(n))
            {
                return Err(Unreadable::Legend {
                    card: (*card).to_owned(),
                });
            }
        }
        let mut links: Vec<Option<Vec<String>>> = Vec::new();
        for name in &names {
            let row = rows.get(name).map(|row| cells(row, name, names.len()));
            if row.is_none() && is_gpu(name) {
                return Err(Unreadable::NoRow {
                    device: (*name).to_owned(),
                });
            }
            links.push(row.transpose()?);
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
            let (title, own) = if is_gpu(name) || is_numbered(name, "NIC") {
                ((*name).to_owned(), legend.get(name))
            } else {
                let cards = topology.devices.iter().filter(|device| !device.is_gpu());
                (format!("NIC{}", cards.count()), Some(name))
            };
            let of = |name: &str, column_name: &str| column(rows.get(name)?, column_name);
            topology.devices.push(Device {
                name: title,
                label: own.map(|label| (*label).to_owned()),
                numa: of(name, "NUMA Affinity").and_then(|numa| numa.parse().ok()),
                cpus: of(name, "CPU Affinity"),
                ..Device::default()
            });
        }
        Ok(topology)
    }
}

/// What `nvidia-smi topo -p2p` says about a pair of GPUs, and what that means.
pub(super) const POSSIBLE: [(&str, &str); 7] = [
    ("OK", "possible"),
    ("CNS", "the chipset does not support it"),
    ("GNS", "the GPU does not support it"),
    ("TNS", "the topology does not support it"),
    ("NS", "not supported"),
    ("DR", "disabled by the driver's settings"),
    ("U", "unknown"),
];

/// The links of a row of the matrix.
fn cells(row: &str, device: &str, expected: usize) -> Result<Vec<String>, Unreadable> {
    // `NV18NV18` is two cells.
    let split = |word| match links(word) {
        Some(several) if several.len() > 1 => several,
        _ => vec![word],
    };
    let mut words = row.split_whitespace().skip(1).flat_map(split).peekable();
    let mut links = Vec::new();
    let is_cell = |word: &str| is_link(word) || POSSIBLE.iter().any(|(of, _)| *of == word);
    while let Some(link) = words.next_if(|word| links.len() < expected && is_cell(word)) {
        links.push(link.to_owned());
    }
    match (links.len(), words.peek()) {
        (found, _) if found == expected => Ok(links),
        // Text. CPUs have numbers.
        (_, Some(word)) if !word.contains(|c: char| c.is_ascii_digit()) => Err(Unreadable::Other),
        (found, _) => Err(Unreadable::Row {
            device: device.to_owned(),
            found,
            expected,
        }),
    }
}

/// Whether a word is this kind and a number, such as `GPU0`.
pub(super) fn is_numbered(word: &str, kind: &str) -> bool {
    let digits = word.strip_prefix(kind);
    digits.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether nvidia-smi calls a link so. `SOC` is `SYS` of old drivers.
pub(super) fn is_link(word: &str) -> bool {
    const LINKS: [&str; 8] = ["X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "N/A"];
    LINKS.contains(&word) || is_numbered(word, "NV")
}
