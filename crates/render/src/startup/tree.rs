//! The start of one process as a tree: a line for each part, and its parts below it, with their shares.
//!
//! Rule: all shares are of the whole. A part below [`LEAST`] of it is printed with `--all` only.

use super::{millis, used};
use crate::layout::{plural, Page, Table};
use analyze::spelling::{percent, size};
use analyze::startup::{DriverPart, InitPart, Whole, WholePart};

/// Less of the whole is not printed.
const LEAST: f64 = 0.01;
/// Parts of one part that are printed.
const MOST: usize = 5;

/// A part of the tree.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) time_s: f64,
    /// Of the whole.
    pub(crate) share: f64,
    /// It stands for calls of the driver.
    is_driver: bool,
    /// Its parts.
    pub(crate) below: Vec<Node>,
}

impl Node {
    /// Whether it or a part of it is to be printed.
    fn is_long(&self) -> bool {
        self.share >= LEAST || self.below.iter().any(Node::is_long)
    }
}

/// Whose start it is.
pub(crate) fn who(whole: &Whole) -> String {
    match whole.process.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!(
            "process {} on {}",
            tables::pid::shown(whole.process.pid),
            whole.process.host
        ),
    }
}

/// Writes the parts of a process's start, with their shares.
pub(super) fn tree(whole: &Whole, page: &mut Page) {
    page.title(&format!(
        "Start of {}, where it took longest (in its order, s; share of the whole)",
        who(whole)
    ));
    let mut table = Table::new(["part", "time", "share"], "<>>");
    let mut row = |depth: usize, name: &str, time_s: f64, share: f64| {
        let name = format!("{}{name}", "  ".repeat(depth));
        table.row([name, millis(time_s), percent(share)]);
    };
    let all = page.all;
    for part in nodes(whole) {
        row(0, &part.name, part.time_s, part.share);
        let mut left = if all { usize::MAX } else { MOST };
        let (mut more, mut more_s) = (0, 0.0);
        for node in part.below.iter().filter(|node| all || node.is_long()) {
            if left == 0 && !node.is_driver {
                more += 1;
                more_s += node.time_s;
                continue;
            }
            left = left.saturating_sub(usize::from(!node.is_driver));
            let lines = std::iter::once((1, node)).chain(node.below.iter().map(|below| (2, below)));
            lines
                .filter(|(_, line)| all || line.share >= LEAST)
                .for_each(|(depth, line)| row(depth, &line.name, line.time_s, line.share));
        }
        if more > 0 {
            let name = format!("{more} more (--all)");
            row(1, &name, more_s, more_s / whole.total_s);
        }
    }
    row(0, "total", whole.total_s, 1.0);
    page.table(&table, usize::MAX, "parts");
    for remark in remarks(whole) {
        page.line(&remark);
    }
}

/// The parts of a start, in their order: in each of them the calls of the driver, the inits of communicators
/// and the first uses.
pub(crate) fn nodes(whole: &Whole) -> Vec<Node> {
    let parts = whole.parts.iter().map(|part| {
        let mut below = driver_nodes(&part.driver_calls);
        below.extend(part.inits.iter().map(init_node));
        below.extend(use_nodes(part, whole.total_s));
        Node {
            name: named(part).to_owned(),
            time_s: part.time_s,
            share: part.share,
            is_driver: false,
            below,
        }
    });
    parts.collect()
}

fn named(part: &WholePart) -> &'static str {
    match part.part {
        "to_init" => "until NCCL's first init",
        "to_first_call" => "from there to the first call",
        "later_inits" => "inits of communicators after the first call",
        _ => "first uses, beyond later calls",
    }
}

/// An init with its phases.
fn init_node(init: &InitPart) -> Node {
    let of = plural(init.nranks.into(), "rank", "ranks");
    let id = init.communicator.as_deref().unwrap_or("unknown id");
    let phases = init.phases.iter().map(|phase| Node {
        name: phase.phase.to_owned(),
        time_s: phase.time_s,
        share: phase.share,
        is_driver: false,
        below: Vec::new(),
    });
    Node {
        name: format!("init of {id} ({of})"),
        time_s: init.time_s,
        share: init.share,
        is_driver: false,
        below: phases.chain(driver_nodes(&init.driver_calls)).collect(),
    }
}

/// First uses with what NCCL asked the driver for in them.
fn use_nodes(part: &WholePart, total_s: f64) -> Vec<Node> {
    let counted = part.first_uses.iter().filter(|of| of.first.in_start);
    let counted = counted.filter_map(|of| Some((of, of.first.longer_s?)));
    let nodes = counted.map(|(of, time_s)| Node {
        name: used(&of.first),
        time_s,
        share: time_s / total_s,
        is_driver: false,
        below: driver_nodes(&of.driver_calls),
    });
    nodes.collect()
}

fn driver_nodes(calls: &[DriverPart]) -> Vec<Node> {
    let nodes = calls.iter().map(|part| {
        let (one, several) = match part.counter.as_str() {
            "gpu_allocations" => ("GPU allocation", "GPU allocations"),
            "host_allocations" => ("host allocation", "host allocations"),
            "ipc_opens" => ("IPC open", "IPC opens"),
            "module_loads" => ("module load", "module loads"),
            "mappings" => ("memory mapping", "memory mappings"),
            counter => (counter, counter),
        };
        let who = match part.caller {
            Some("nccl") => "NCCL: ",
            Some(_) => "program: ",
            None => "",
        };
        let bytes = part
            .bytes
            .map_or(String::new(), |n| format!(", {}", size(n)));
        Node {
            name: format!("{who}{}{bytes}", plural(part.calls, one, several)),
            time_s: part.time_s,
            share: part.share,
            is_driver: true,
            below: Vec::new(),
        }
    });
    nodes.collect()
}

/// What the tree can't have, and how much memory of the host NCCL holds.
pub(crate) fn remarks(whole: &Whole) -> Vec<String> {
    let unknown = "Whether NCCL or the program called the driver is not known, because NCCL is no library of \
                   its own here.";
    let unknown = has_unknown_callers(whole).then(|| unknown.to_owned());
    let below = std::iter::once(below(whole).to_owned());
    below.chain(unknown).chain(host_memory(whole)).collect()
}

fn has_unknown_callers(whole: &Whole) -> bool {
    let of_parts = whole.parts.iter().flat_map(|part| {
        let inits = part.inits.iter().map(|init| &init.driver_calls);
        let uses = part.first_uses.iter().map(|of| &of.driver_calls);
        std::iter::once(&part.driver_calls).chain(inits).chain(uses)
    });
    of_parts.flatten().any(|calls| calls.caller.is_none())
}

/// What the tree can't have.
fn below(whole: &Whole) -> &'static str {
    if whole.has_driver_calls {
        "Calls of the CUDA driver are known from the moment at which NCCL's first init loaded the recorder: \
         behind the phase `graphs`. What is left of a part is calls before that, the host's own work, and \
         waits for other ranks."
    } else {
        "This capture has no single calls of the CUDA driver: the process has no driver, the recorder was \
         older, or NCCLSCOPE_GRAPHS was off."
    }
}

/// How much memory of the host NCCL holds.
fn host_memory(whole: &Whole) -> Option<String> {
    let pinned = whole.pinned_bytes?;
    if pinned + whole.shared_bytes.unwrap_or(0) == 0 {
        return None;
    }
    Some(match whole.shared_bytes {
        Some(shared) => format!(
            "NCCL page-locked {} of host memory in this process, and shares {} in /dev/shm with others. \
             `ncclscope memory` has what for.",
            size(pinned),
            size(shared)
        ),
        None => format!(
            "NCCL page-locked {} of host memory in this process from its first init on.",
            size(pinned)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Look;
    use analyze::first_uses::FirstUse;
    use analyze::startup::{PhasePart, UsePart};
    use analyze::subject::ProcessId;

    fn calls(caller: &'static str, counter: &str, time_s: f64) -> DriverPart {
        DriverPart {
            caller: Some(caller),
            counter: counter.to_owned(),
            calls: 12,
            bytes: (counter == "gpu_allocations").then_some(48 << 20),
            time_s,
            share: time_s / 10.0,
        }
    }

    fn first(function: &str, longer_s: f64) -> UsePart {
        UsePart {
            first: FirstUse {
                communicator: None,
                function: function.to_owned(),
                algorithm: None,
                protocol: None,
                peer: None,
                ranks: 1,
                longer_s: Some(longer_s),
                process: ProcessId {
                    rank: Some(3),
                    host: String::new(),
                    pid: 1,
                },

                first_s: longer_s,
                later_s: Some(0.0),
                same_kind: true,
                least_longer_s: None,
                in_start: true,
                call: Default::default(),
            },
            driver_calls: vec![calls("nccl", "gpu_allocations", longer_s / 2.0)],
        }
    }

    fn whole() -> Whole {
        let part = |part: &'static str, time_s: f64| WholePart {
            part,
            time_s,
            share: time_s / 10.0,
            inits: Vec::new(),
            first_uses: Vec::new(),
            driver_calls: Vec::new(),
        };
        Whole {
            process: ProcessId {
                rank: Some(3),
                host: "n1".to_owned(),
                pid: 7,
            },

            total_s: 10.0,
            parts: vec![
                WholePart {
                    inits: vec![InitPart {
                        communicator: Some("c1".to_owned()),
                        nranks: 8,
                        time_s: 2.0,
                        share: 0.2,
                        phases: vec![PhasePart {
                            phase: "kernels",
                            time_s: 1.5,
                            share: 0.15,
                        }],
                        driver_calls: Vec::new(),
                    }],
                    ..part("to_init", 4.0)
                },
                WholePart {
                    driver_calls: vec![
                        calls("program", "module_loads", 1.0),
                        calls("nccl", "ipc_opens", 0.05),
                    ],
                    ..part("to_first_call", 3.0)
                },
                WholePart {
                    first_uses: vec![
                        first("AllReduce", 1.0),
                        first("Broadcast", 0.5),
                        first("Reduce", 0.4),
                        first("Gather", 0.3),
                        first("Scatter", 0.3),
                        first("AllGather", 0.25),
                        first("Send", 0.05),
                    ],
                    ..part("first_uses", 3.0)
                },
            ],
            pinned_bytes: Some(1 << 20),
            shared_bytes: Some(9 << 20),
            has_driver_calls: true,
        }
    }

    fn text(whole: &Whole, all: bool) -> String {
        let mut page = Page::new(Look::default(), all);
        tree(whole, &mut page);
        let mut out = Vec::new();
        page.finish(&mut out).expect("in memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn each_part_has_what_is_below_it() {
        let page = text(&whole(), false);
        let lines: Vec<String> = (page.lines().skip(3))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .take_while(|line| !line.starts_with("total"))
            .collect();
        let expected = [
            "until NCCL's first init 4.000 40.0 %",
            "init of c1 (8 ranks) 2.000 20.0 %",
            "kernels 1.500 15.0 %",
            "from there to the first call 3.000 30.0 %",
            "program: 12 module loads 1.000 10.0 %",
            "first uses, beyond later calls 3.000 30.0 %",
            "first AllReduce 1.000 10.0 %",
            "NCCL: 12 GPU allocations, 48 MiB 0.500 5.0 %",
            "first Broadcast 0.500 5.0 %",
            "NCCL: 12 GPU allocations, 48 MiB 0.250 2.5 %",
            "first Reduce 0.400 4.0 %",
            "NCCL: 12 GPU allocations, 48 MiB 0.200 2.0 %",
            "first Gather 0.300 3.0 %",
            "NCCL: 12 GPU allocations, 48 MiB 0.150 1.5 %",
            "first Scatter 0.300 3.0 %",
            "NCCL: 12 GPU allocations, 48 MiB 0.150 1.5 %",
            "1 more (--all) 0.250 2.5 %",
        ];
        assert_eq!(lines, expected, "{page}");
        assert!(page.contains("page-locked 1 MiB of host memory"), "{page}");
        assert!(page.contains("shares 9 MiB in /dev/shm"), "{page}");
        let all = text(&whole(), true);
        assert!(all.contains("NCCL: 12 IPC opens"), "{all}");
        assert!(
            all.contains("first Send") && !all.contains("more (--all)"),
            "{all}"
        );
    }

    #[test]
    fn calls_that_may_be_anybody_s_have_no_name_before_them() {
        let mut whole = whole();
        assert!(!text(&whole, false).contains("is not known"));
        whole.parts[1].driver_calls[0].caller = None;
        let page = text(&whole, false);
        assert!(page.contains("\n    12 module loads "), "{page}");
        assert!(
            page.contains("Whether NCCL or the program called"),
            "{page}"
        );
    }

    #[test]
    fn a_capture_without_calls_of_the_driver_says_so() {
        let mut whole = whole();
        whole.has_driver_calls = false;
        (whole.pinned_bytes, whole.shared_bytes) = (Some(0), None);
        let page = text(&whole, false);
        assert!(
            page.contains("has no single calls of the CUDA driver"),
            "{page}"
        );
        assert!(!page.contains("page-locked"), "{page}");
    }
}
