//! `attach --net`: TCP connections by process and peer, and counters of RDMA adapters.

use ::attach::net::Connection;
use ::attach::{Seen, Summary};
use std::fmt::Write;

/// Connections of the table.
const ROWS: usize = 16;

/// `3.91 MiB`: three digits.
fn size(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    let value = bytes as f64 / unit as f64;
    let digits = match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {name}")
}

fn bytes(connection: &Connection) -> u64 {
    let since = connection.since();
    since.sent + since.received
}

/// Its process, or its rank.
fn name(seen: Option<&Seen>) -> String {
    match seen {
        Some(Seen {
            rank: Some(rank), ..
        }) => format!("rank {rank}"),
        Some(seen) => format!("process {}", seen.pid),
        None => "?".into(),
    }
}

/// The sections of the page.
pub fn page(page: &mut String, summary: &Summary) {
    let Some(connections) = &summary.connections else {
        return;
    };
    let mut used: Vec<&Connection> = connections.iter().filter(|c| bytes(c) > 0).collect();
    used.sort_by_key(|c| std::cmp::Reverse(bytes(c)));
    if connections.is_empty() {
        let _ = writeln!(page, "No TCP connection was seen.\n");
    } else if used.is_empty() {
        let _ = writeln!(
            page,
            "No data went over TCP: {} connections, all idle.\n",
            connections.len()
        );
    } else {
        let _ = writeln!(
            page,
            "TCP connections (most bytes first; {} of {} carried data)",
            used.len(),
            connections.len()
        );
        let _ = writeln!(
            page,
            "{:<13} {:<22} {:>11} {:>11} {:>8} {:>9} {:>9} {:>11} {:>7}",
            "from", "to", "sent", "received", "resent", "rtt µs", "most µs", "queue", "calls"
        );
    }
    for connection in used.iter().take(ROWS) {
        let since = connection.since();
        let peer = match connection.peer {
            Some(peer) => name(summary.of(peer)),
            None => connection.remote.to_string(),
        };
        let _ = writeln!(
            page,
            "{:<13} {peer:<22} {:>11} {:>11} {:>8} {:>9} {:>9} {:>11} {:>7}",
            name(summary.of(connection.process)),
            size(since.sent),
            size(since.received),
            since.retransmits,
            connection.mean_rtt(),
            connection.most_rtt,
            size(connection.most_send_queue),
            connection.calls
        );
    }
    if used.len() > ROWS {
        let _ = writeln!(page, "and {} more: --json", used.len() - ROWS);
    }
    if !used.is_empty() {
        let _ = writeln!(
            page,
            "Calls: those that the process made while the connection carried data.\nConnections of the \
             program itself, such as TCPStore and Gloo, are in the list, too.\n"
        );
    }
    for port in summary.ports.iter().flatten() {
        let moved = port.moved.iter().map(|(name, by)| format!("{name} {by}"));
        let moved = moved.collect::<Vec<_>>().join(", ");
        let users = summary.processes.iter().filter(|seen| {
            let adapter = port.name.split('/').next();
            seen.adapters
                .iter()
                .any(|own| Some(own.as_str()) == adapter)
        });
        let users: Vec<String> = users.map(|seen| name(Some(seen))).collect();
        let users = if users.is_empty() {
            String::new()
        } else {
            format!(", open in {}", users.join(", "))
        };
        let moved = if moved.is_empty() {
            "nothing moved"
        } else {
            &moved
        };
        let _ = writeln!(page, "RDMA port {}{users}: {moved}.", port.name);
    }
}
