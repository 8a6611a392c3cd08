//! The first calls of the driver that may take long, one by one, as the recorder notes them
//! ([`crate::recorded`]).
//!
//! A line has calls of one kind by one thread. Each has its distance from the line's first, how long it took,
//! both in ns, and its bytes:
//!
//! ```text
//! ncclscope timed_calls of=nccl.ipc_opens thread=4711 at_ns=1795413000000000000 calls=0:12000:0,90000:9000:0
//! ```
//!
//! Rule: a line with a word that is no number is left out as a whole.

/// What stands before the name of what NCCL called, and not the program.
const OF_NCCL: &str = "nccl.";

/// How a line goes on behind [`crate::recorded::OWN`].
pub const TIMED_CALLS: &str = "timed_calls ";

/// A call of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedCall {
    /// As what it is counted, such as `ipc_opens`.
    pub of: String,
    /// Whether NCCL called, and not the program.
    pub by_nccl: bool,
    /// The calling thread, by Linux's number.
    pub thread: u32,
    /// When it was called, ns since 1970.
    pub at_ns: i64,
    /// How long it took, ns.
    pub took_ns: u64,
    /// Bytes that were allocated or mapped; 0 if it has none.
    pub bytes: u64,
}

/// From what stands behind [`TIMED_CALLS`]; `None` if it is not well formed.
pub fn parse(text: &str) -> Option<Vec<TimedCall>> {
    let word = |name: &str| {
        let words = text.split_ascii_whitespace();
        let mut words = words.filter_map(|word| word.split_once('='));
        words.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let of = word("of")?;
    let by_nccl = of.starts_with(OF_NCCL);
    let of = of.strip_prefix(OF_NCCL).unwrap_or(of);
    let thread = word("thread")?.parse().ok()?;
    let first: i64 = word("at_ns")?.parse().ok()?;
    let calls = word("calls")?.split(',').map(|call| {
        let mut numbers = call.split(':').map(|number| number.parse::<u64>().ok());
        Some(TimedCall {
            of: of.to_owned(),
            by_nccl,
            thread,
            at_ns: first.checked_add_unsigned(numbers.next()??)?,
            took_ns: numbers.next()??,
            bytes: numbers.next()??,
        })
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_line_are_read_and_a_broken_line_has_none() {
        let text = "of=nccl.ipc_opens thread=7 new=x at_ns=100 calls=0:12:0,30:9:64";
        let calls = parse(text).expect("well formed");
        let of: Vec<_> = calls
            .iter()
            .map(|c| (c.at_ns, c.took_ns, c.bytes))
            .collect();
        assert_eq!(of, [(100, 12, 0), (130, 9, 64)]);
        assert!(calls
            .iter()
            .all(|c| c.by_nccl && c.thread == 7 && c.of == "ipc_opens"));
        let own = parse("of=module_loads thread=7 at_ns=1 calls=0:1:0").expect("well formed");
        assert!(!own[0].by_nccl);
        for broken in [
            "of=x thread=7 at_ns=1 calls=0:1",
            "of=x thread=7 at_ns=1 calls=",
            "of=x thread=7 calls=0:1:1",
            "of=x thread=7 at_ns=9223372036854775807 calls=1:1:1",
        ] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
