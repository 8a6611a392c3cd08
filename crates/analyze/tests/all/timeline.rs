//! The run over time sums to what the report's tables say, for recorded jobs.

use analyze::timeline::{Buckets, Curve, Timeline};
use analyze::Report;
use std::path::Path;
use tables::Capture;

fn data() -> impl Iterator<Item = (String, Capture)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let mut jobs: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        // `hangs` is a folder of captures.
        .filter(|path| path.is_dir() && !path.ends_with("hangs"))
        .collect();
    jobs.sort();
    jobs.into_iter().map(|path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), Capture::open(&path).expect("it opens"))
    })
}

fn sum(curve: &Curve) -> f64 {
    curve.sum.iter().sum()
}

fn is_close(a: f64, b: f64) -> bool {
    // Each bucket is rounded to a ns.
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()) + 0.001 * 256.0
}

fn curves(timeline: &Timeline) -> Vec<&Curve> {
    let t = timeline;
    let certain = [&t.calls, &t.collectives, &t.sends, &t.recvs];
    let others = [
        &t.untimed,
        &t.bytes,
        &t.nccl,
        &t.bytes_sent,
        &t.bytes_received,
        &t.waiting,
        &t.transfer,
        &t.exposed,
        &t.nic,
    ];
    certain
        .into_iter()
        .chain(others.into_iter().flatten())
        .collect()
}

fn check(name: &str, report: &Report) {
    let timeline = report.timeline.as_ref().expect(name);
    assert_eq!(timeline.ranks as usize, report.ranks.rows.len(), "{name}");
    let calls = |of: &dyn Fn(&analyze::operations::Operation) -> bool| -> f64 {
        let rows = report.operations.iter().filter(|row| of(row));
        rows.map(|row| row.calls as f64).sum()
    };
    let function = |row: &analyze::operations::Operation, names: [&str; 2]| {
        row.function.as_deref().is_some_and(|f| names.contains(&f))
    };
    let without = timeline.without_time as f64;
    assert_eq!(sum(&timeline.calls) + without, calls(&|_| true), "{name}");
    if without == 0.0 {
        let sent = calls(&|row| function(row, ["Send", "SendRecv"]));
        let received = calls(&|row| function(row, ["Recv", "SendRecv"]));
        assert_eq!(
            sum(&timeline.collectives),
            calls(&|row| !row.is_p2p()),
            "{name}"
        );
        assert_eq!(
            (sum(&timeline.sends), sum(&timeline.recvs)),
            (sent, received),
            "{name}"
        );
        let bytes = report
            .operations
            .iter()
            .filter_map(|row| Some(row.bytes? * row.calls));
        let over_time = timeline.bytes.as_ref().expect("sizes");
        assert_eq!(sum(over_time), bytes.sum::<u64>() as f64, "{name}");
    }
    let nccl: f64 = report.ranks.rows.iter().filter_map(|row| row.nccl_us).sum();
    let over_time = timeline.nccl.as_ref().map_or(0.0, sum);
    assert!(is_close(over_time, nccl), "{name}: {over_time} and {nccl}");
    let waited = timeline.waiting.as_ref().map(sum);
    let expected = report
        .arrivals
        .as_ref()
        .map(|arrivals| arrivals.wait_rank_us);
    assert_eq!(waited.is_some(), expected.is_some(), "{name}");
    assert!(
        is_close(waited.unwrap_or(0.0), expected.unwrap_or(0.0)),
        "{name}: {waited:?}, {expected:?}"
    );
    if let (Some(arrivals), [one]) = (&report.arrivals, &report.communicators[..]) {
        let ranks = f64::from(one.nranks.expect("known"));
        let transfer = timeline.transfer.as_ref().map_or(0.0, sum);
        assert!(
            is_close(transfer, ranks * arrivals.transfer_wall_us),
            "{name}: {transfer}"
        );
    }
    if let Some(waits) = &report.stream_waits {
        let exposed: f64 = waits.ranks.iter().map(|rank| rank.exposed.sum_us).sum();
        let over_time = timeline.exposed.as_ref().map_or(0.0, sum);
        assert!(
            is_close(over_time, exposed),
            "{name}: {over_time} and {exposed}"
        );
        // No GPU stands still for longer than there is time.
        let most = timeline.exposed.iter().flat_map(|curve| &curve.max);
        let most = most.fold(0.0, |most: f64, share| most.max(*share));
        assert!(most <= 1.001, "{name}: {most}");
    }
    check_windows(name, report, timeline);
    if let (Some(sent), 0.0) = (&timeline.bytes_sent, without) {
        let all = report.network.iter().filter_map(|row| row.bytes_sent);
        assert_eq!(sum(sent), all.sum::<u64>() as f64, "{name}");
    }
    for curve in curves(timeline) {
        for values in [&curve.sum, &curve.min, &curve.mean, &curve.max] {
            assert_eq!(values.len() as u64, timeline.buckets, "{name}");
        }
        for ((min, mean), max) in curve.min.iter().zip(&curve.mean).zip(&curve.max) {
            // Each is rounded to four digits.
            assert!(
                *min <= mean * 1.001 && *mean <= max * 1.001,
                "{name}: {min} {mean} {max}"
            );
        }
    }
    check_active(name, report, timeline);
}

/// What windows show sums to the table of ranks, and a bucket without a window says why.
fn check_windows(name: &str, report: &Report, timeline: &Timeline) {
    let of = &timeline.exposed_in_windows;
    let ranks = || report.streams.iter().flat_map(|streams| &streams.ranks);
    let seen: f64 = ranks().map(|rank| rank.seen_us).sum();
    let exposed: f64 = ranks().map(|rank| rank.exposed.share * rank.seen_us).sum();
    let over_time: f64 = of.exposed_us.iter().flatten().sum();
    assert!(is_close(of.seen_us.iter().sum(), seen), "{name}: {seen}");
    assert!(
        is_close(over_time, exposed),
        "{name}: {over_time} and {exposed}"
    );
    let known = of.exposed_us.iter().flatten().count();
    assert_eq!(
        known,
        of.seen_us.iter().filter(|us| **us > 0.0).count(),
        "{name}"
    );
    assert_eq!(known < of.seen_us.len(), of.why_null.is_some(), "{name}");
}

/// Rows are active where the curve of calls says that something was called, and nowhere else.
fn check_active(name: &str, report: &Report, timeline: &Timeline) {
    let active = &timeline.active;
    assert_eq!(active.operations.len(), report.operations.len(), "{name}");
    assert_eq!(active.ranks.len(), report.ranks.rows.len(), "{name}");
    let is = |of: &Buckets, bucket: usize| of[bucket / 64] >> (bucket % 64) & 1 == 1;
    for (bucket, calls) in timeline.calls.sum.iter().enumerate() {
        for rows in [&active.operations, &active.ranks] {
            let some = rows.iter().any(|of| is(of, bucket));
            assert!(
                some || *calls == 0.0,
                "{name}: bucket {bucket} has {calls} calls"
            );
        }
    }
    for (row, of) in report.operations.iter().zip(&active.operations) {
        // Captured calls alone are no activity.
        let any = of.iter().any(|bits| *bits != 0);
        assert!(
            any || row.calls == 0 || timeline.without_time > 0,
            "{name}: {row:?}"
        );
    }
}

#[test]
fn buckets_sum_to_the_tables() {
    let (mut waited, mut sent, mut exposed) = (0, 0, 0);
    for (name, capture) in data() {
        let report = analyze::report(&capture);
        check(&name, &report);
        let timeline = report.timeline.expect("checked");
        // A long run is in at least half as many buckets as there may be.
        assert!(
            (128..=256).contains(&timeline.buckets),
            "{name}: {}",
            timeline.buckets
        );
        waited += u32::from(timeline.waiting.is_some_and(|c| sum(&c) > 0.0));
        sent += u32::from(timeline.bytes_sent.is_some_and(|c| sum(&c) > 0.0));
        exposed += u32::from(timeline.exposed.is_some_and(|c| sum(&c) > 0.0));
    }
    assert!(
        waited > 10 && sent > 0 && exposed > 0,
        "{waited} {sent} {exposed}"
    );
}

#[test]
fn calls_without_a_gpu_time_are_seen_in_their_buckets() {
    let (_, capture) = data()
        .find(|(name, _)| name == "ddp_slow_gpu")
        .expect("it is there");
    let report = analyze::report(&capture);
    let timeline = report.timeline.as_ref().expect("a timeline");
    let untimed = timeline.untimed.as_ref().expect("GPU times");
    let without: u64 = report.completeness.untimed.values().sum();
    assert_eq!((sum(untimed), without), (1128.0, 1128));
    // In a quiet spell no call is timed, which is no time without communication.
    let quiet = (0..timeline.buckets as usize)
        .filter(|b| timeline.calls.sum[*b] > 20.0 && untimed.sum[*b] == timeline.calls.sum[*b]);
    assert!(quiet.count() >= 4);
}

#[test]
fn the_rank_that_is_late_is_held_against_the_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/slow_host");
    let report = analyze::report(&Capture::open(&folder).expect("it opens"));
    let timeline = report.timeline.expect("times");
    let [late] = &timeline.late[..] else {
        panic!("one rank is late: {:?}", timeline.late);
    };
    let arrivals = report.arrivals.expect("times on all ranks");
    assert_eq!(report.findings[0].rank(), late.process.rank);
    let held_up: f64 = late.held_up_us.iter().sum();
    assert!(held_up > 0.5 * arrivals.saving_wall_us, "{held_up}");
    let steps = timeline.steps.expect("a job with steps");
    assert!(steps.begins_us.windows(2).all(|pair| pair[0] < pair[1]));
    let width = timeline.bucket_us * timeline.buckets as f64;
    assert!(steps.begins_us.iter().all(|at| (0.0..=width).contains(at)));
}
