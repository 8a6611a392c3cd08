//! The links between the GPUs and network cards of a host, as text.

use crate::layout::{plural, Look, Page, Style, Table};
use analyze::topology::{Host, SCHEMA as FORMAT};
use schemars::JsonSchema;
use serde::Serialize;
use setup::topology::{compare, Change, GraphChoice, Topology, MISSING_NVLINK};
use std::io::{Result, Write};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/topo-1.json");

const LINKS: &str =
    "Links (NV: number of NVLinks; PIX, PXB: one PCIe switch, several; PHB: a socket's host \
                     bridge; NODE: several of them; SYS: between sockets)";

const P2P: &str = "Whether a GPU can reach another's memory (OK, or why not)";

/// What `ncclscope topo --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct TopoJson<'a> {
    schema: &'static str,
    /// The hosts of which the topology is known.
    hosts: &'a [Host],
}

/// Writes hosts as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(hosts: &[Host], out: &mut impl Write) -> Result<()> {
    let all = TopoJson {
        schema: FORMAT,
        hosts,
    };
    crate::json::pretty(&all, out)
}

/// Writes one host's topology: what costs bandwidth, then the matrix and the devices.
///
/// # Errors
/// Those of `out`.
pub fn text(host: &Host, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, true);
    let (title, topology, remarks) = (&host.host, &host.topology, &host.remarks);
    let gpus = topology.devices.iter().filter(|d| d.is_gpu()).count();
    let cards = topology.devices.len() - gpus;
    let there = format!(
        "{title}: {} and {}",
        plural(gpus as u64, "GPU", "GPUs"),
        plural(cards as u64, "network card", "network cards")
    );
    let answer = if !remarks.is_empty() {
        format!(
            "{there}; {} about its links:",
            plural(remarks.len() as u64, "remark", "remarks")
        )
    } else if topology.is_of_p2p() {
        format!("{there}; all can reach each other's memory.")
    } else {
        format!("{there}; no link stands out.")
    };
    page.styled(
        if remarks.is_empty() {
            Style::Good
        } else {
            Style::Bad
        },
        &answer,
    );
    for remark in remarks {
        page.line(&remark.sentence);
    }
    for fact in &host.facts {
        page.line(fact);
    }
    if remarks.iter().any(|remark| remark.kind == MISSING_NVLINK) {
        page.gap();
        page.next("nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager");
    }
    page.title(if topology.is_of_p2p() { P2P } else { LINKS });
    matrix(topology, &mut page)?;
    page.title("Devices");
    let mut table = Table::new(["device", "label", "numa", "cpus"], "<<><");
    for device in &topology.devices {
        table.row([
            device.name.clone(),
            device.label.clone().unwrap_or_else(|| "-".to_owned()),
            device.numa.map_or("-".to_owned(), |numa| numa.to_string()),
            device.cpus.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    page.table(&table, usize::MAX, "devices");
    channels(&host.graphs, &mut page);
    page.finish(out)
}

/// The section of a report: what stands out, and one host, which stands for all that are like it.
pub(crate) fn section(hosts: &[Host], page: &mut Page) {
    let odd = hosts.iter().find(|host| !host.remarks.is_empty());
    let Some(shown) = odd.or(hosts.first().filter(|_| page.all)) else {
        return;
    };
    page.title("Topology (`ncclscope topo` has all hosts)");
    for host in hosts {
        for remark in &host.remarks {
            page.line(&format!("{}: {}", host.host, remark.sentence));
        }
    }
    let same = |host: &&Host| compare(&host.topology, &shown.topology).is_empty();
    let others = match hosts.iter().filter(same).count() {
        0 | 1 => String::new(),
        n => format!(", and of {} like it", plural(n as u64 - 1, "host", "hosts")),
    };
    page.line(&format!("Links of {}{others}:", shown.host));
    // The page is in memory.
    let _ = matrix(&shown.topology, page);
    channels(&shown.graphs, page);
}

/// Rings, trees and others, by channels that go the same way.
fn channels(graphs: &[GraphChoice], page: &mut Page) {
    let ways = ways(graphs);
    if ways.is_empty() {
        return;
    }
    page.title("Rings and trees by channel (of the communicator that was made last)");
    let mut table = Table::new(["graph", "channels", "gb_per_s", "links", "way"], "<>><<");
    for way in ways {
        table.row(way);
    }
    page.table(&table, usize::MAX, "ways");
}

/// Of each graph and way: its name, how many channels go that way, GB/s of one, the kind of links, the way.
pub(crate) fn ways(graphs: &[GraphChoice]) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    for graph in graphs {
        let mut ways: Vec<(&Vec<String>, usize)> = Vec::new();
        for channel in &graph.channels {
            match ways.iter_mut().find(|(way, _)| *way == channel) {
                Some((_, n)) => *n += 1,
                None => ways.push((channel, 1)),
            }
        }
        for (way, n) in ways {
            rows.push([
                graph.name.clone(),
                n.to_string(),
                graph.gb_per_s.map_or("-".to_owned(), |bw| bw.to_string()),
                graph.links.clone().unwrap_or_else(|| "-".to_owned()),
                way.join(" "),
            ]);
        }
    }
    rows
}

fn matrix(topology: &Topology, page: &mut Page) -> Result<()> {
    // As wide as it is: a matrix without columns says nothing.
    let width = |column: usize| {
        let cells = topology.links.iter().map(|row| row[column].len());
        cells
            .chain([topology.devices[column].name.len()])
            .max()
            .unwrap_or(0)
    };
    let line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells
            .enumerate()
            .map(|(at, cell)| format!(" {cell:>0$}", width(at)));
        format!("  {first:<6}{}\n", cells.collect::<String>())
    };
    let heading = line("", &mut topology.devices.iter().map(|d| d.name.as_str()));
    page.write_all(heading.as_bytes())?;
    for (device, links) in topology.devices.iter().zip(&topology.links) {
        let row = line(&device.name, &mut links.iter().map(String::as_str));
        page.write_all(row.as_bytes())?;
    }
    Ok(())
}

/// Writes which links differ between two hosts, or two states of one. Returns whether any does.
///
/// # Errors
/// Those of `out`.
pub fn difference(
    names: [&str; 2],
    a: &Topology,
    b: &Topology,
    look: Look,
    out: &mut impl Write,
) -> Result<bool> {
    let changes = compare(a, b);
    let mut page = Page::new(look, true);
    let [first, second] = names;
    if changes.is_empty() {
        page.styled(
            Style::Good,
            &format!("{first} and {second} have the same links."),
        );
    } else {
        let n = plural(changes.len() as u64, "link differs", "links differ");
        page.styled(
            Style::Bad,
            &format!("{n} between {first} (A) and {second} (B)."),
        );
        page.title("Links that differ");
        let mut table = Table::new(["from", "to", "a", "b"], "<<<<");
        for Change { from, to, a, b } in changes.iter().cloned() {
            let link = |link: Option<String>| link.unwrap_or_else(|| "-".to_owned());
            table.row([from, to, link(a), link(b)]);
        }
        page.table(&table, usize::MAX, "links");
    }
    page.finish(out)?;
    Ok(!changes.is_empty())
}
