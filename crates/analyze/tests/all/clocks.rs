//! Recorded jobs whose ranks were two simulated hosts (`NCCL_HOSTID`) of one machine: their clocks are the
//! same, so every bound holds 0.

use std::path::Path;
use tables::Capture;

#[test]
fn of_one_machine_taken_for_two_hosts_the_offset_is_0() {
    for job in ["ddp8_two_hosts", "mix_two_hosts_228"] {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
        let mut capture = Capture::open(&data.join(job)).expect("the recorded job opens");
        for process in &mut capture.processes {
            let id = process.fact("env.NCCL_HOSTID").expect("a simulated host");
            process.host = id.to_owned();
        }
        let report = analyze::report(&capture);
        let clocks = report.clocks.as_ref().expect("two hosts");
        println!("{job}: {clocks:?}");
        assert!(clocks.steps.is_empty(), "{job}: {:?}", clocks.steps);
        let [row] = &clocks.hosts[..] else {
            panic!("{job}: {:?}", clocks.hosts);
        };
        let (low, high) = row.low_us.zip(row.high_us).expect("bounds");
        assert!(low <= 0.0 && 0.0 <= high, "{job}: {row:?}");
        let estimate = row.offset_us.expect("an estimate");
        assert!((low..=high).contains(&estimate), "{job}: {row:?}");
        // On its own the same function says the same.
        let alone = analyze::clocks_of(&capture, None).expect("two hosts");
        assert_eq!(&alone.hosts, &clocks.hosts);
        assert_eq!(alone.lines, clocks.lines);
    }
}
