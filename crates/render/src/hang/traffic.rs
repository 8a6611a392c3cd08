//! Words for the network of ranks that are in an operation which does not end.

use super::names::{process, span};
use analyze::hang::{Hang, StuckConnection, Traffic};
use analyze::spelling::size;

/// Connections that are told; more are counted.
const TOLD: usize = 3;

/// Sentences of what was seen; none if nobody looked, or if nothing stood out.
pub(super) fn sentences(hang: &Hang) -> Vec<String> {
    let Some(traffic) = &hang.traffic else {
        return Vec::new();
    };
    let connections = traffic.connections.iter().take(TOLD);
    let mut all: Vec<String> = connections.map(|of| connection(traffic, of)).collect();
    let more = traffic.connections.len().saturating_sub(TOLD);
    if more > 0 {
        all.push(format!(
            "The same holds for {more} more connections (--json)."
        ));
    }
    if !traffic.errors.is_empty() {
        let errors = traffic
            .errors
            .iter()
            .map(|(name, by)| format!("{name} by {by}"));
        let errors: Vec<String> = errors.collect();
        all.push(format!(
            "Counters of network adapters grew within {}: {}.",
            span(traffic.lasted),
            errors.join(", ")
        ));
    }
    all
}

fn connection(traffic: &Traffic, of: &StuckConnection) -> String {
    let who = process(of.number, of.pid);
    let through = of.interface.as_ref();
    let through = through.map_or(String::new(), |name| format!(" through {name}"));
    let peer = of
        .peer
        .map_or(String::new(), |rank| format!(" (rank {rank})"));
    let resent = match of.retransmits {
        0 => String::new(),
        1 => "; 1 segment of it was sent again".to_owned(),
        n => format!("; {n} segments of it were sent again"),
    };
    let full = if of.is_other_full {
        "; the other side takes no more, because its program does not read"
    } else {
        ""
    };
    format!(
        "The connection of {who}{through} to {}{peer} has {} to send, and nothing went on within \
         {}{resent}{full}.",
        of.remote,
        size(of.unsent),
        span(traffic.lasted)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_does_not_go_on_is_one_sentence() {
        let traffic = Traffic {
            lasted: analyze::time::Nanos::from_ms(300.0),
            ..Traffic::default()
        };
        let mut of = StuckConnection {
            number: Some(1),
            pid: 71,
            interface: Some("eth0".to_owned()),
            local: "10.0.0.1:4000".to_owned(),
            remote: "10.0.0.2:5000".to_owned(),
            peer: None,
            unsent: 1 << 20,
            retransmits: 5,
            is_other_full: false,
        };
        assert_eq!(
            connection(&traffic, &of),
            "The connection of rank 1 (pid 71) through eth0 to 10.0.0.2:5000 has 1 MiB to send, and nothing \
             went on within 300 ms; 5 segments of it were sent again."
        );
        (of.peer, of.retransmits, of.is_other_full) = (Some(2), 0, true);
        let text = connection(&traffic, &of);
        assert!(text.contains("to 10.0.0.2:5000 (rank 2) has"), "{text}");
        assert!(
            text.ends_with("; the other side takes no more, because its program does not read.")
        );
    }
}
