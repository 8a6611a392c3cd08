//! The tuner as NCCL calls it, through each version's table.

use nccl_abi::tuner::IGNORE;
use nccl_tuner_ncclscope as tuner;
use std::ffi::c_void;
use std::process::Command;

const ALGORITHMS: usize = 7;
const PROTOCOLS: usize = 3;

/// NCCL's table for an AllReduce: trees and rings by LL and Simple; the ring by Simple is cheapest.
fn costs() -> [f32; ALGORITHMS * PROTOCOLS] {
    let mut costs = [IGNORE; ALGORITHMS * PROTOCOLS];
    (costs[0], costs[2], costs[3], costs[5]) = (5.0, 4.0, 3.0, 2.0);
    costs
}

/// What NCCL takes: the cheapest that is not ignored.
fn taken(costs: &[f32]) -> usize {
    let places = (0..costs.len()).filter(|place| costs[*place] != IGNORE);
    places
        .min_by(|a, b| costs[*a].total_cmp(&costs[*b]))
        .expect("an entry")
}

/// What one rank of a job gets for each of `calls` collectives, by version.
fn rank(version: u32, calls: usize) -> Vec<(usize, i32)> {
    let mut context: *mut c_void = std::ptr::null_mut();
    let null = std::ptr::null_mut();
    // SAFETY: the tables are called as NCCL calls them, with places on this stack.
    unsafe {
        match version {
            2 => tuner::TUNER_V2.init.expect("set")(4, 1, None, &mut context),
            3 => tuner::TUNER_V3.init.expect("set")(4, 1, None, &mut context),
            4 => tuner::TUNER_V4.init.expect("set")(4, 1, None, &mut context),
            5 => tuner::TUNER_V5.init.expect("set")(&mut context, 9, 4, 1, None, null, null),
            6 => tuner::TUNER_V6.init.expect("set")(&mut context, 9, 4, 1, None, null, null),
            _ => tuner::TUNER_V7.init.expect("set")(&mut context, 9, 4, 1, None, null, null),
        };
        let made = (0..calls).map(|_| {
            let mut table = costs();
            let before = table;
            let (mut channels, mut algorithm, mut protocol) = (0, -1, -1);
            let (rows, columns) = (ALGORITHMS as i32, PROTOCOLS as i32);
            let costs = table.as_mut_ptr();
            let later = match version {
                4 => tuner::TUNER_V4.get_coll_info,
                5 => tuner::TUNER_V5.get_coll_info,
                6 => tuner::TUNER_V6.get_coll_info,
                _ => tuner::TUNER_V7.get_coll_info,
            };
            match version {
                2 => tuner::TUNER_V2.get_coll_info.expect("set")(
                    context,
                    4,
                    1 << 20,
                    0,
                    0,
                    1,
                    &mut algorithm,
                    &mut protocol,
                    &mut channels,
                ),
                3 => tuner::TUNER_V3.get_coll_info.expect("set")(
                    context,
                    4,
                    1 << 20,
                    1,
                    costs,
                    rows,
                    columns,
                    &mut channels,
                ),
                _ => later.expect("set")(
                    context,
                    4,
                    1 << 20,
                    1,
                    costs,
                    rows,
                    columns,
                    0,
                    &mut channels,
                ),
            };
            for (place, cost) in before.iter().enumerate() {
                assert!(
                    *cost != IGNORE || table[place] == IGNORE,
                    "v{version} {place}"
                );
            }
            let place = match (version, algorithm) {
                (2, -1) => taken(&table),
                (2, _) => algorithm as usize * PROTOCOLS + protocol as usize,
                _ => taken(&table),
            };
            (place, channels)
        });
        let made = made.collect();
        match version {
            2 => tuner::TUNER_V2.end.expect("set")(context),
            5 => tuner::TUNER_V5.end.expect("set")(context),
            _ => tuner::TUNER_V7.end.expect("set")(context),
        };
        made
    }
}

/// Runs a test of this file in a process of its own, with this experiment and these variables.
fn with(test: &str, words: &str, out: &str, variables: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("NCCLSCOPE_TUNE", format!("{words} out={out}"))
        .envs(variables.iter().copied())
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

const ARMS: &str = "arms=RING/LL;TREE/SIMPLE/8 block=5";

#[test]
fn every_version_gives_every_arm_in_blocks_and_all_ranks_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    with("in_blocks", ARMS, &folder.path().display().to_string(), &[]);
    let logs = std::fs::read_dir(&folder).expect("the folder");
    let logs: Vec<_> = logs.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(logs.len(), 1);
    let log = std::fs::read(&logs[0]).expect("read");
    assert_eq!(log[..8], tuner::log::MAGIC);
    // Six versions, twice: a communicator, and 12 blocks.
    let record =
        |place: usize| &log[tuner::log::HEAD + place * tuner::log::RECORD..][..tuner::log::RECORD];
    let kinds: Vec<u8> = (0..200).map(|place| record(place)[12]).collect();
    let of = |kind: u8| kinds.iter().filter(|known| **known == kind).count();
    assert_eq!((of(1), of(2), of(0)), (12, 12 * 12, 200 - 12 * 13));
}

#[test]
#[ignore = "its variables are those of the process"]
fn in_blocks() {
    for version in 2..=7 {
        let calls = rank(version, 3 * 5 * 4);
        assert_eq!(rank(version, 3 * 5 * 4), calls, "v{version}");
        for round in calls.chunks(15) {
            let blocks: Vec<(usize, i32)> = round.chunks(5).map(|block| block[0]).collect();
            assert!(round
                .chunks(5)
                .all(|block| block.iter().all(|call| *call == block[0])));
            let mut sorted = blocks;
            sorted.sort_unstable();
            // TREE with Simple and 8 channels, RING with LL, and the default.
            assert_eq!(sorted, [(2, 8), (3, 0), (5, 0)], "v{version}");
        }
    }
}

#[test]
fn what_nccl_ignores_is_not_asked_for() {
    with(
        "ignored",
        "arms=NVLS/SIMPLE;RING/LL128;-/LL128 block=1",
        "/nowhere",
        &[],
    );
}

#[test]
#[ignore = "its variables are those of the process"]
fn ignored() {
    for version in 2..=7 {
        assert!(
            rank(version, 40).iter().all(|call| *call == (5, 0)),
            "v{version}"
        );
    }
}

#[test]
fn a_variable_of_the_user_beats_version_2() {
    with(
        "forced",
        "arms=RING/LL block=1",
        "/nowhere",
        &[("NCCL_ALGO", "Tree")],
    );
}

#[test]
#[ignore = "its variables are those of the process"]
fn forced() {
    // From version 3 on NCCL's table says it, as in `ignored`.
    assert!(rank(2, 40).iter().all(|call| *call == (5, 0)));
}

#[test]
fn without_an_experiment_or_a_log_the_job_goes_on() {
    with("nothing_is_tried", "arms=RING/FAST", "/nowhere", &[]);
    // A rank whose log can't be written decides as the others do.
    with("in_blocks", ARMS, "/nowhere/at/all", &[]);
}

#[test]
#[ignore = "its variables are those of the process"]
fn nothing_is_tried() {
    for version in 2..=7 {
        assert!(
            rank(version, 40).iter().all(|call| *call == (5, 0)),
            "v{version}"
        );
    }
}

#[test]
fn nccl_s_costs_are_kept_with_and_without_an_experiment() {
    let u32_at = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    let u64_at = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    for (test, words) in [("nothing_is_tried", ""), ("in_blocks", ARMS)] {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().display().to_string();
        with(test, words, &place, &[("NCCLSCOPE_COSTS", &place)]);
        let entries = std::fs::read_dir(&folder).expect("the folder");
        let mut paths = entries.map(|entry| entry.expect("an entry").path());
        let path = paths.find(|path| path.extension().is_some_and(|e| e == "bin"));
        let file = std::fs::read(path.expect("kept")).expect("read");
        assert_eq!(file[..8], tuner::costs::MAGIC);
        let records = file[tuner::costs::HEAD..].chunks_exact(tuner::costs::RECORD);
        let mut found: Vec<(u64, u32, u32)> = Vec::new();
        for record in records.filter(|record| u32_at(record, 44) == 1) {
            assert_eq!((u64_at(record, 16), u32_at(record, 24)), (1 << 20, 4));
            assert_eq!(u32_at(record, 56) as usize, ALGORITHMS);
            // As NCCL gave them, whatever the experiment makes of them.
            for (at, cost) in costs().iter().enumerate() {
                assert_eq!(f32::from_bits(u32_at(record, 64 + 4 * at)), *cost);
            }
            found.push((
                u64_at(record, 8),
                u32_at(record, 40),
                u64_at(record, 48) as u32,
            ));
        }
        found.sort_unstable();
        // Version 3 does not tell of buffers, version 4 not the id, and version 2 has no costs.
        let each = if words.is_empty() { 40 } else { 2 * 60 };
        assert_eq!(found, [(0, 0, each), (0, 2, each), (9, 0, 3 * each)]);
    }
}
