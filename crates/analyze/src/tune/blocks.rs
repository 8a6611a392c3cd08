//! An experiment within one run: the job's steps, by the arm of the block that they were in.
//!
//! [`TunerLog`] reads what the tuner plugin kept in one process. [`judge`] holds the steps of that process
//! against it. A round has one block of each arm, and a block's value is the median of its steps. So blocks
//! are to [`super::rank`] what runs are: pairs of one round, whose slow changes cancel.
//!
//! Left out are:
//!
//! - steps that are not wholly in one block;
//! - the first two steps of a block, because the host is ahead of its GPU by about a step;
//! - the first round, in which NCCL makes the connections of an algorithm that it had not used;
//! - blocks in which NCCL ignored the arm: they are the default's.
//!
//! Rule: a step counts for an arm only if the block's calls got it.

use super::Trial;
use crate::steps::StepsRow;
use crate::time::{HostTime, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes before the first record; `crates/tuner/src/log.rs` draws the file.
const HEAD: usize = 4096;
const RECORD: usize = 32;
/// The first steps of a block that are left out.
const SETTLING: usize = 2;
/// Steps that a block has at least, beside these.
const LEAST_STEPS: usize = 3;

/// What the tuner kept in one process.
#[derive(Clone, Debug, PartialEq)]
pub struct TunerLog {
    /// Process.
    pub pid: u32,
    /// Arms, the default among them.
    pub arms: usize,
    /// Collectives of a block.
    pub block: u64,
    /// Whether NCCL_ALGO or NCCL_PROTO was set.
    pub forced: bool,
    /// The communicators that took part.
    pub communicators: BTreeMap<u32, Communicator>,
}

/// A communicator that took part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Communicator {
    /// Ranks.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// Its blocks in order.
    pub blocks: Vec<ArmBlock>,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArmBlock {
    /// When it began, ns since 1970.
    pub start_ns: i64,
    /// Its number.
    pub number: u64,
    /// Its arm.
    pub arm: usize,
    /// Calls in it that NCCL ignored the arm for; `None` of the last.
    pub refused: Option<u32>,
}

/// What became of an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ArmBlocks {
    /// Blocks that were whole.
    pub blocks: u64,
    /// Blocks in which NCCL ignored the setting for every call.
    pub ignored: u64,
    /// Steps that count.
    pub steps: u64,
}

/// The experiment of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// A value for each block that counts.
    pub trials: Vec<Trial>,
    /// By arm.
    pub arms: Vec<ArmBlocks>,
    /// Ranks and nodes of the communicator that was judged.
    pub size: Option<(u32, u32)>,
    /// Communicators that took part besides.
    pub others: usize,
}

impl TunerLog {
    /// Reads a file of the tuner's; `None` if it is none. What is damaged is left out.
    pub fn read(bytes: &[u8]) -> Option<TunerLog> {
        let head = bytes
            .get(..HEAD)
            .filter(|head| head.starts_with(b"NSTUNE01"))?;
        let mut log = TunerLog {
            pid: number(head, 8, 4) as u32,
            arms: number(head, 12, 4) as usize,
            block: number(head, 16, 8),
            forced: number(head, 28, 4) != 0,
            communicators: BTreeMap::new(),
        };
        if !(2..=64).contains(&log.arms) {
            return None;
        }
        for record in bytes[HEAD..].chunks_exact(RECORD) {
            let (a, b) = (number(record, 16, 8), number(record, 24, 8));
            let communicator = number(record, 8, 4) as u32;
            let arm = number(record, 14, 2) as usize;
            match number(record, 12, 2) {
                1 => {
                    let known = log.communicators.entry(communicator).or_default();
                    (known.ranks, known.nodes) = (b as u32, (b >> 32) as u32);
                }
                2 if arm < log.arms => {
                    let blocks = &mut log.communicators.entry(communicator).or_default().blocks;
                    if let Some(before) = blocks.last_mut() {
                        before.refused = Some(a as u32);
                    }
                    blocks.push(ArmBlock {
                        start_ns: number(record, 0, 8) as i64,
                        number: a >> 32,
                        arm,
                        refused: None,
                    });
                }
                _ => {}
            }
        }
        Some(log)
    }
}

/// Little-endian.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or(&[]);
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Holds the steps of the log's process against its blocks, on the communicator with most blocks.
pub fn judge(log: &TunerLog, steps: &StepsRow) -> Judged {
    let mut judged = Judged {
        arms: vec![ArmBlocks::default(); log.arms],
        others: log.communicators.len().saturating_sub(1),
        ..Judged::default()
    };
    let most = log.communicators.values().max_by_key(|of| of.blocks.len());
    let Some(communicator) = most else {
        return judged;
    };
    judged.size = Some((communicator.ranks, communicator.nodes));
    let mut steps = steps.each.iter().filter_map(|step| {
        let start = HostTime(step.start_ns?);
        Some((start, start + Nanos::from(step.time_ns?)))
    });
    let mut next = steps.next();
    for pair in communicator.blocks.windows(2) {
        let [block, after] = pair else { continue };
        let mut times: Vec<f64> = Vec::new();
        let [begun, until] = [block, after].map(|block| HostTime(block.start_ns));
        while let Some((start, end)) = next.filter(|(start, _)| *start < until) {
            if start >= begun && end <= until {
                times.push((end - start).us());
            }
            next = steps.next();
        }
        let of = &mut judged.arms[block.arm];
        of.blocks += 1;
        if block.arm != super::DEFAULT && u64::from(block.refused.unwrap_or(0)) >= log.block {
            of.ignored += 1;
            continue;
        }
        let round = block.number / log.arms as u64;
        if round == 0 || times.len() < SETTLING + LEAST_STEPS {
            continue;
        }
        let mut times = times.split_off(SETTLING);
        times.sort_by(f64::total_cmp);
        of.steps += times.len() as u64;
        judged.trials.push(Trial {
            round,
            arm: block.arm,
            time_us: times[times.len() / 2],
        });
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Step;
    use crate::subject::ProcessId;

    fn record(time: u64, kind: u16, arm: u16, a: u64, b: u64) -> Vec<u8> {
        let mut bytes = time.to_le_bytes().to_vec();
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(arm.to_le_bytes());
        bytes.extend(a.to_le_bytes());
        bytes.extend(b.to_le_bytes());
        bytes
    }

    /// Blocks of 1 s with these arms, each with what was refused in the block before.
    fn file(blocks: &[(u16, u64)]) -> Vec<u8> {
        let mut bytes = b"NSTUNE01".to_vec();
        bytes.extend(42u32.to_le_bytes());
        bytes.extend(2u32.to_le_bytes());
        bytes.extend(10u64.to_le_bytes());
        bytes.resize(HEAD, 0);
        bytes.extend(record(0, 1, 0, 7, 2 << 32 | 16));
        for (place, (arm, refused)) in blocks.iter().enumerate() {
            let place = place as u64;
            bytes.extend(record(
                place * 1_000_000_000,
                2,
                *arm,
                place << 32 | refused,
                10 * place,
            ));
        }
        bytes.extend([0; RECORD]);
        bytes
    }

    /// Ten steps in each second; in even seconds the host waits 20 ms between them.
    fn steps(seconds: i64) -> StepsRow {
        let step = |place: i64| Step {
            start_ns: Some(place * 100_000_000 + 5),
            time_ns: Some(if place / 10 % 2 == 0 {
                80_000_000
            } else {
                99_000_000
            }),
            communication_ns: None,
            end_ns: None,
        };
        StepsRow {
            process: ProcessId {
                rank: Some(0),
                host: "h".to_owned(),
                pid: 42,
            },

            source: Default::default(),
            steps: 10,
            calls: 1,
            equal_parts: 1,
            times_repeat: 1,
            calls_beyond: 0,
            step_us: None,
            communication_us: None,
            startup_us: None,
            between_us: None,
            times_ns: Vec::new(),
            on_gpu: false,
            each: (0..seconds * 10).map(step).collect(),
        }
    }

    #[test]
    fn steps_count_for_the_arm_of_their_block() {
        let log = TunerLog::read(&file(&[
            (0, 0),
            (1, 0),
            (0, 0),
            (1, 0),
            (0, 0),
            (1, 0),
            (0, 0),
        ]))
        .expect("a log");
        assert_eq!(
            (log.pid, log.block, log.arms, log.forced),
            (42, 10, 2, false)
        );
        let judged = judge(&log, &steps(7));
        assert_eq!(judged.size, Some((16, 2)));
        // The first round is warm-up, and the last block has no end.
        let times: Vec<_> = judged
            .trials
            .iter()
            .map(|t| (t.round, t.arm, t.time_us))
            .collect();
        assert_eq!(
            times,
            [(1, 0, 80e3), (1, 1, 99e3), (2, 0, 80e3), (2, 1, 99e3)]
        );
        assert_eq!(
            judged.arms[0],
            ArmBlocks {
                blocks: 3,
                ignored: 0,
                steps: 16
            }
        );
    }

    #[test]
    fn blocks_that_nccl_ignored_count_for_nobody() {
        // All ten calls of the blocks with arm 1.
        let blocks = [(0, 0), (1, 0), (0, 10), (1, 0), (0, 10), (1, 0), (0, 10)];
        let judged = judge(&TunerLog::read(&file(&blocks)).expect("a log"), &steps(7));
        assert!(judged.trials.iter().all(|trial| trial.arm == 0));
        assert_eq!((judged.arms[1].blocks, judged.arms[1].ignored), (3, 3));
    }

    #[test]
    fn a_job_without_steps_or_with_short_blocks_has_no_trials() {
        let log = TunerLog::read(&file(&[(0, 0), (1, 0), (0, 0), (1, 0)])).expect("a log");
        assert!(judge(&log, &steps(0)).trials.is_empty());
        let mut slow = steps(4);
        slow.each.retain(|step| {
            step.start_ns
                .is_some_and(|ns| ns % 300_000_000 < 100_000_000)
        });
        assert!(judge(&log, &slow).trials.is_empty());
    }

    #[test]
    fn what_is_no_log_is_none_and_a_cut_one_is_read_as_far_as_it_goes() {
        assert_eq!(TunerLog::read(b"NSTUNE01"), None);
        assert_eq!(TunerLog::read(&[0; HEAD]), None);
        let whole = file(&[(0, 0), (1, 0), (0, 0)]);
        let cut = TunerLog::read(&whole[..HEAD + 3 * RECORD - 5]).expect("a log");
        assert_eq!(cut.communicators[&0].blocks.len(), 1);
    }
}
