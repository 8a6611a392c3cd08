//! The links between the GPUs and network cards of a host, as text.

use crate::layout::{plural, Look, Page, Style, Table};
use setup::topology::{compare, remarks, Change, Topology};
use std::io::{Result, Write};

/// Writes one host's topology: what costs bandwidth, then the matrix and the devices.
///
/// # Errors
/// Those of `out`.
pub fn text(title: &str, topology: &Topology, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, true);
    let remarks = remarks(topology);
    let gpus = topology.devices.iter().filter(|d| d.is_gpu()).count();
    let cards = topology.devices.len() - gpus;
    let there = format!(
        "{title}: {} and {}",
        plural(gpus as u64, "GPU", "GPUs"),
        plural(cards as u64, "network card", "network cards")
    );
    let answer = match remarks.is_empty() {
        true => format!("{there}; no link stands out."),
        false => format!(
            "{there}; {} about its links:",
            plural(remarks.len() as u64, "remark", "remarks")
        ),
    };
    page.styled(
        if remarks.is_empty() {
            Style::Good
        } else {
            Style::Bad
        },
        &answer,
    );
    for remark in &remarks {
        page.line(remark);
    }
    page.title(
        "Links (NV: number of NVLinks; PIX, PXB: one PCIe switch, several; PHB: a socket's host bridge; \
         NODE: several of them; SYS: between sockets)",
    );
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
    page.finish(out)
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
