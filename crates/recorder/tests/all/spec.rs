//! SPEC.md has every key that a process writes about itself.

use crate::job::{flushed, Driver, Job};
use std::collections::BTreeSet;

#[test]
#[ignore = "played by the test below"]
fn job_that_says_who_it_is() {
    let mut comm = Driver::new(0x5e);
    comm.all_reduce(1);
    flushed();
    comm.finalize();
}

#[test]
fn every_key_of_a_process_is_in_the_spec() {
    let spec = include_str!("../../../capture/SPEC.md");
    let (_, table) = spec
        .split_once("| key | |\n|---|---|\n")
        .expect("a table of keys");
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    let keys = lines.flat_map(|line| line.split('|').nth(1).unwrap_or("").split('`'));
    let documented: BTreeSet<&str> = keys.map(str::trim).filter(|key| !key.is_empty()).collect();
    let mut written = BTreeSet::new();
    for timing in ["auto", "stamps"] {
        let mut job = Job::new(module_path!(), "job_that_says_who_it_is")
            .env("NCCLSCOPE_TIMING", timing)
            .env("NCCLSCOPE_FLUSH", "0.05")
            .env("WORLD_SIZE", "1")
            .env("LOCAL_RANK", "0")
            .env("SLURM_JOB_ID", "7");
        assert!(job.run().success());
        let facts = job.capture().processes[0].facts.clone();
        let keys = facts.into_keys().map(|key| match key.split_once('.') {
            Some(("env", _)) => "env.NAME".to_owned(),
            _ => key,
        });
        written.extend(keys);
    }
    let unknown: Vec<&String> = written
        .iter()
        .filter(|key| !documented.contains(key.as_str()))
        .collect();
    assert_eq!(unknown, [] as [&String; 0], "not in SPEC.md");
    // These need NCCL, a driver or GPUs, a machine without a driver, a tool that was asked for, or another
    // writer (`ncclscope attach`, or a reader of another tool's file).
    let maybe = "nccl driver driver_version gpus timing_because nccl_path nccl_build_id kernel \
                 not_recorded tool life as_of ends state said nvtx_because scorep_because \
                 steps_because first_calls host_name";
    let not_written = documented.iter().filter(|key| !written.contains(**key));
    let not_written: Vec<_> = not_written
        .filter(|key| !maybe.split(' ').any(|of| of == **key))
        .collect();
    assert_eq!(not_written, [] as [&&str; 0], "only in SPEC.md");
}
