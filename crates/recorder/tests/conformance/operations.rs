//! Lines 33 to 38: what a report makes of the calls: bytes, composites, replays, keys and counters.

use crate::comm::ABIS;
use crate::playing::{at, played};
use crate::reading::complete;
use capture::live::flag;
use std::collections::{BTreeMap, BTreeSet};
use tables::Untimed;

#[test]
fn line_33_bytes_follow_nccl_tests_at_every_version_and_type() {
    let script = "ranks 4\n\
        all_reduce 4000 f32 ; all_reduce 4000 u8 ; all_gather 4000 f16 ; all_gather 4000 u8\n\
        reduce_scatter 4000 f64 ; broadcast 4000 f32 ; broadcast 4000 i64 ; reduce 4000 bf16";
    for abi in [4, 5, 6, 7] {
        let (outcome, capture) = played(script, &[], at(abi));
        // fake-nccl knows what the program asked for; the datatype may be lost on the way (bytes as Int8
        // below v5).
        let expected: u64 = outcome
            .announced()
            .operations
            .iter()
            .map(|(o, times)| o.bytes * times.announced)
            .sum();
        let operations = analyze::report(&capture).operations;
        let found: u64 = operations
            .iter()
            .map(|o| o.bytes.expect("known") * o.calls)
            .sum();
        assert_eq!(found, expected, "v{abi}");
        assert!(
            operations.iter().all(|o| o.bytes == Some(4000)),
            "v{abi}: {operations:#?}"
        );
    }
}

#[test]
fn line_34_rooted_and_all_to_all_operations_are_put_together() {
    let script =
        "ranks 3\nall_to_all 3000 i8 x5\ngather 3000 i8 root=1 x4\nscatter 3000 i8 root=2 x3";
    let (outcome, capture) = played(script, &[], at(5));
    complete(&capture, outcome.announced().total());
    let found: BTreeMap<_, _> = analyze::report(&capture)
        .operations
        .into_iter()
        .map(|o| {
            (
                o.function.expect("named"),
                (o.bytes.expect("known"), o.calls),
            )
        })
        .collect();
    let expected =
        [("AlltoAll", 15), ("Gather", 12), ("Scatter", 9)].map(|(f, n)| (f.to_owned(), (3000, n)));
    assert_eq!(found, BTreeMap::from(expected));
    // Sends and receives have no sequence number of NCCL's; their order in a process is that of their
    // tickets.
    for p in &capture.processes {
        assert!(p.calls.iter().all(|c| c.seq == 0));
        assert!(p
            .calls
            .windows(2)
            .all(|pair| pair[0].ticket < pair[1].ticket));
    }
}

#[test]
fn line_35_calls_known_by_their_api_event_only_have_host_times_and_no_gpu_time() {
    for (abi, calls_of) in [
        (5, "all_reduce 1KiB symmetric x3\nall_gather 1KiB ce x3"),
        (6, "broadcast 1KiB x3\nall_gather 1KiB ce x3"),
    ] {
        let script = format!("ranks 2\n{calls_of}");
        let (_, capture) = played(&script, &[("NCCLSCOPE_TIMING", "stamps")], at(abi));
        complete(&capture, 12);
        for p in &capture.processes {
            for call in &p.calls {
                let shape = &p.shapes[call.shape as usize];
                assert_eq!(call.gpu_ns(shape), Err(Untimed::NoStamp), "v{abi}");
                assert!(call.host_ns().is_some_and(|ns| ns > 0), "v{abi}");
            }
        }
        let operations = analyze::report(&capture).operations;
        assert!(operations
            .iter()
            .all(|o| o.time_us.is_none() && o.host_us.is_some() && o.timed == 0));
    }
}

#[test]
fn line_36_replays_are_executions_of_their_template() {
    let script =
        "ranks 2\ngraph g { all_reduce 1KiB ; all_reduce 2KiB }\nreplay g x6\nall_reduce 1KiB";
    let (outcome, capture) = played(script, &[("NCCLSCOPE_TIMING", "stamps")], at(5));
    complete(&capture, outcome.announced().total());
    for p in &capture.processes {
        let of = |f: u8| {
            p.calls
                .iter()
                .filter(move |c| p.shapes[c.shape as usize].is(f))
        };
        assert_eq!(
            (of(flag::CAPTURED).count(), of(flag::REPLAY).count()),
            (2, 12)
        );
        // A replay's template, not its sequence number, says what it is.
        for replay in of(flag::REPLAY) {
            let count = p.shapes[replay.shape as usize].count;
            assert_eq!(replay.template, (count / 256) as u32);
        }
    }
    // See also `ten_thousand_captured_calls_name_all_of_their_replays`.
}

#[test]
fn line_37_the_same_call_has_the_same_key_on_every_rank() {
    let script = "ranks 4\ncomm dp hash 0x37\n\
        repeat 5 { all_reduce 1KiB comm=dp ; reduce 1KiB comm=dp ; all_reduce 2KiB comm=dp symmetric }\n\
        reinit dp\nall_reduce 1KiB comm=dp x2";
    let (_, capture) = played(script, &[], at(5));
    // A communicator that is made again is another one, though its hash and its sequence numbers begin alike.
    let ids: Vec<&str> = capture
        .communicators
        .iter()
        .map(|c| c.id.as_str())
        .collect();
    assert_eq!(ids, ["0000000000000037", "0000000000000037#2"]);
    let mut ranks_of = BTreeMap::new();
    for p in &capture.processes {
        let mut silent = BTreeMap::new();
        for call in &p.calls {
            let s = &p.shapes[call.shape as usize];
            let function = capture.names.get(s.function).expect("named");
            // NCCL numbers what it announces; of what it doesn't, the order on the communicator is the
            // number.
            let number = if call.seq != 0 {
                (true, call.seq)
            } else {
                let next = silent.entry(s.communicator).or_insert(0);
                *next += 1;
                (false, *next)
            };
            let key = (s.communicator, s.nranks, function, number);
            ranks_of
                .entry(key)
                .or_insert_with(Vec::new)
                .push((s.rank, s.count));
        }
    }
    assert_eq!(ranks_of.len(), 17);
    for (key, of) in ranks_of {
        let ranks: BTreeSet<_> = of.iter().map(|(rank, _)| *rank).collect();
        let counts: BTreeSet<_> = of.iter().map(|(_, count)| *count).collect();
        assert_eq!((of.len(), ranks.len(), counts.len()), (4, 4, 1), "{key:?}");
    }
}

#[test]
fn line_38_every_counter_of_the_recorder_is_in_the_report() {
    // At each ABI, every fault of fake-nccl between calls that must come out whole.
    let faults: String = fake_nccl::script::FAULTS
        .iter()
        .map(|f| format!("fault {}\n", f.1))
        .collect();
    let script = format!("ranks 2\nall_reduce 1KiB x5\n{faults}all_reduce 1KiB x5");
    let mut seen = BTreeSet::new();
    for abi in ABIS {
        let (outcome, capture) = played(&script, &[("NCCLSCOPE_TIMING", "stamps")], at(abi));
        assert_eq!(outcome.abi, Ok(abi));
        assert_eq!(outcome.announced().total(), 20, "v{abi}");
        complete(&capture, 20);
        seen.extend(analyze::report(&capture).completeness.odd.into_keys());
    }
    for counted in [
        "foreign_handle",
        "null_handle",
        "unknown_type",
        "unknown_state",
        "stale_context",
        "foreign_pid",
        "orphan",
    ] {
        assert!(seen.contains(counted), "{counted} is not among {seen:?}");
    }
}
