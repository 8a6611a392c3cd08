//! Jobs that hung on two H200, and were killed: `data/hangs`. In each, rank 1 went wrong.

use super::{begins, json};
use std::path::Path;

/// The folder, the kind of the verdict, whether the job hung (a wait of 12 s does not show it), and how the
/// sentence begins.
const HANGS: [(&str, &str, Option<bool>, &str); 12] = [
    (
        "stopped",
        "stopped",
        None,
        "Rank 1 was stopped by a signal or a debugger when `ncclscope hang` looked at *, and has not made \
         AllReduce of 1 MiB, call 17",
    ),
    (
        "killed",
        "dead",
        Some(true),
        "Rank 1 is dead (SIGKILL) and has not made AllReduce of 4 MiB, call 168 on",
    ),
    (
        "left",
        "dead",
        Some(true),
        "Rank 1 is dead (exit status 0) and has not made AllReduce of 4 MiB, call 168 on",
    ),
    (
        "loop",
        "missing",
        None,
        "Rank 1 has not made AllReduce of 4 MiB, call 168 on",
    ),
    (
        "full",
        "missing",
        None,
        "Rank 1 has not made AllReduce of 4 MiB, call 168 on",
    ),
    (
        "kernel",
        "not_begun",
        None,
        "The GPU of rank 1 has not begun AllReduce of 4 MiB, call 168 on communicator *: it is busy with \
         earlier work; rank 0 waits for",
    ),
    (
        "order",
        "mismatch",
        Some(true),
        "Rank 1 made Broadcast of 4 MiB before AllReduce of 4 MiB, call 168 on",
    ),
    (
        "skip",
        "mismatch",
        Some(true),
        "Rank 1 left out AllReduce of 4 MiB, call 168 on communicator *, which rank 0 made, and went on with \
         Broadcast of 4 MiB",
    ),
    (
        "crossed",
        "missing",
        None,
        "Rank 1 went on to AllReduce of 4 MiB, call 41 on communicator * without AllReduce of 4 MiB, call 41 \
         on communicator *, which rank 0 waits in for",
    ),
    (
        "sends",
        "missing",
        None,
        "Rank 1 went on to Send of 512 MiB on communicator * without Recv of 512 MiB on communicator *, from \
         rank 0, which rank 0 waits in for",
    ),
    (
        "graph",
        "missing",
        None,
        "Rank 1 went on to Broadcast of 4 MiB, call * on communicator * without launch 41 of a CUDA graph on \
         communicator *, which rank 0 waits in for",
    ),
    (
        "group",
        "missing",
        None,
        "Can't tell yet: rank 0 is inside of ncclCommSplit for * s, and rank 1 is not: each call ends",
    ),
];

#[test]
fn hangs_of_real_gpus_are_told_after_their_end() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/hangs");
    for (name, verdict, hang, sentence) in HANGS {
        let (_, answer) = json(&data.join(name), &[]);
        let said = answer["sentence"].as_str().unwrap_or_default();
        assert!(begins(said, sentence), "{name}: {answer:#}");
        assert_eq!(
            (answer["verdict"].as_str(), answer["hang"].as_bool()),
            (Some(verdict), hang),
            "{name}: {said}"
        );
        let blamed = answer["blamed"].as_array().expect("ranks");
        let ranks: Vec<_> = blamed.iter().map(|of| of["global_rank"].as_u64()).collect();
        // Two ranks with different calls: neither is in the majority.
        assert!(ranks.contains(&Some(1)), "{name}: {ranks:?}");
        assert!(
            ranks.len() == 1 || verdict == "mismatch",
            "{name}: {ranks:?}"
        );
    }
}
