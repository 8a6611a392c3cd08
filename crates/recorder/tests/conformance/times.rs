//! Lines 28 to 32: GPU times, and the stamps that can not be right.

use crate::job::{recorded, Driver};
use crate::playing::{at, played};
use crate::reading::{calls, complete};
use nccl_abi::{event, state};
use tables::{Call, Capture, GpuTimes, Shape, Untimed};

#[test]
fn line_28_gpu_and_host_times_are_never_mixed() {
    let script = |offset: &str| format!("ranks 2\n{offset}\nrepeat 20 {{ all_reduce 1MiB }}");
    let env = [("NCCLSCOPE_TIMING", "stamps")];
    let (_, plain) = played(&script(""), &env, at(5));
    // Clocks that are off by more than the job lasts, each its own way.
    let (_, apart) = played(
        &script("gpu_offset 0 -3600s\ngpu_offset 1 86400s"),
        &env,
        at(5),
    );
    let durations = |capture: &Capture| -> Vec<_> {
        calls(capture, "AllReduce")
            .iter()
            .map(|(c, s)| c.gpu_ns(s))
            .collect()
    };
    assert_eq!(durations(&plain).len(), 40);
    assert_eq!(durations(&plain), durations(&apart));
    assert!(durations(&plain).iter().all(Result::is_ok));
    let report = |capture| {
        serde_json::to_value(analyze::report(capture).operations[0].time_us).expect("JSON")
    };
    assert_eq!(report(&plain), report(&apart));
    // A call's host times lie in this minute, its stamps do not.
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_nanos() as i64;
    for (call, _) in calls(&apart, "AllReduce") {
        assert!((now - call.api_ns).abs() < 600_000_000_000);
        let start = call.gpu.start().expect("a stamp");
        assert!((now - start as i64).abs() > 3_000_000_000_000);
    }
}

#[test]
#[ignore = "played by line 29"]
fn job_line_29() {
    let mut comm = Driver::new(0x29);
    // Start and stop of one channel of calls that follow each other, each a group of its own.
    let stamps = [
        (10_000, 11_000),
        (12_000, 11_500),
        (20_000, 21_000),
        (20_000, 21_000),
        (15_000, 16_000),
        (0, 30_000),
        (40_000, 0),
        (50_000, 51_000),
    ];
    for (i, (start, stop)) in stamps.into_iter().enumerate() {
        let group = comm.group(false);
        let api = comm.coll_api(group, i + 1, false);
        let coll = comm.coll(api, i + 1, 1);
        comm.stop(group);
        let kernel = comm.start(event::KERNEL_CH, coll, |u| {
            u.kernel_ch.channel_id = 0;
            u.kernel_ch.p_timer = start;
        });
        comm.state(kernel, state::KERNEL_CH_STOP, Some(stop));
        comm.stop(kernel);
    }
    comm.finalize();
}

#[test]
fn line_29_stamps_that_can_not_be_right_taint_their_call_and_are_counted() {
    let mut job = job!(job_line_29).env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 8);
    let verdicts: Vec<_> = calls(&capture, "AllReduce")
        .iter()
        .map(|(c, s)| c.gpu_ns(s))
        .collect();
    assert_eq!(
        verdicts,
        [
            Ok(1000),
            Err(Untimed::Negative),
            Ok(1000),
            Err(Untimed::Repeated),
            Err(Untimed::Backwards),
            Err(Untimed::Missing),
            Err(Untimed::SealedEarly),
            Ok(1000),
        ]
    );
    let counted = analyze::report(&capture).completeness.untimed;
    assert_eq!(counted.values().sum::<u64>(), 5, "{counted:?}");
}

#[test]
#[ignore = "played by line 30"]
fn job_line_30() {
    let mut comm = Driver::new(0x30);
    let group = comm.group(false);
    let apis: Vec<_> = (0..4).map(|i| comm.coll_api(group, i + 1, false)).collect();
    let colls: Vec<_> = apis
        .iter()
        .enumerate()
        .map(|(i, api)| comm.coll(*api, i + 1, 1))
        .collect();
    comm.stop(group);
    for coll in colls {
        let kernel = comm.start(event::KERNEL_CH, coll, |u| {
            u.kernel_ch.channel_id = 0;
            u.kernel_ch.p_timer = 5000;
        });
        comm.state(kernel, state::KERNEL_CH_STOP, Some(9000));
        comm.stop(kernel);
    }
    comm.finalize();
}

#[test]
fn line_30_equal_stamps_of_siblings_are_a_fused_batch() {
    let mut job = job!(job_line_30).env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 4);
    for (call, shape) in calls(&capture, "AllReduce") {
        assert_eq!(call.gpu_ns(shape), Err(Untimed::Fused));
    }
}

#[test]
#[ignore = "played by line 31"]
fn job_line_31() {
    let mut comm = Driver::new(0x31);
    for (count, told, kernels) in [(1, 0, 3), (2, 0, 0), (3, 4, 0), (4, 4, 4)] {
        for _ in 0..10 {
            let group = comm.group(false);
            let api = comm.coll_api(group, count, false);
            let coll = comm.coll(api, count, told);
            comm.stop(group);
            comm.kernel(coll, kernels);
        }
    }
    // Seconds, until a part that never comes is given up; then a kill, so nothing is hurried.
    recorded(|p| p.calls.len() == 40 && p.calls.iter().all(|c| c.sealed));
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn line_31_a_call_completes_whatever_its_channels_say() {
    let mut job = job!(job_line_31)
        .env("NCCLSCOPE_TIMING", "stamps")
        .env("NCCLSCOPE_FLUSH", "0.1");
    job.run();
    let capture = job.capture();
    complete(&capture, 40);
    let all = calls(&capture, "AllReduce");
    let of = |count, is: &dyn Fn(&Call, &Shape) -> bool| {
        all.iter()
            .filter(|(c, s)| s.count == count && is(c, s))
            .count()
    };
    // CollNet and NVLS over nodes say 0 channels and have kernels; others have none of either.
    assert_eq!(
        of(1, &|c, s| c.sealed
            && c.channels_stopped == 3
            && c.gpu_ns(s).is_ok()),
        10
    );
    assert_eq!(
        of(2, &|c, s| c.sealed && c.gpu_ns(s) == Err(Untimed::NoStamp)),
        10
    );
    assert_eq!(
        of(3, &|c, s| c.sealed && c.gpu_ns(s) == Err(Untimed::NoStamp)),
        10
    );
    assert_eq!(of(4, &|c, s| c.sealed && c.gpu_ns(s).is_ok()), 10);
}

#[test]
#[ignore = "played by line 32"]
fn job_line_32() {
    let mut comm = Driver::new(0x32);
    let group = comm.group(false);
    let api = comm.coll_api(group, 1, false);
    let coll = comm.coll(api, 1, 3);
    comm.stop(group);
    for (channel, start, stop) in [(0, 1500, 2500), (1, 1000, 2000), (2, 1200, 9000)] {
        let kernel = comm.start(event::KERNEL_CH, coll, |u| {
            u.kernel_ch.channel_id = channel;
            u.kernel_ch.p_timer = start;
        });
        comm.state(kernel, state::KERNEL_CH_STOP, Some(stop));
        comm.stop(kernel);
    }
    comm.finalize();
}

#[test]
fn line_32_gpu_time_is_first_start_to_last_stop() {
    let mut job = job!(job_line_32).env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    let (call, shape) = calls(&capture, "AllReduce")[0];
    assert_eq!(
        (call.gpu, call.gpu_ns(shape)),
        (GpuTimes::stamps(1000, 9000), Ok(8000))
    );
    // TREE, NVLS and send/receive end before their stamp of the end says so; they have no time that can be
    // believed.
    let stamped = |script: &str, mode| {
        let env = [("NCCLSCOPE_TIMING", "stamps"), ("NCCLSCOPE_MODE", mode)];
        let (_, capture) = played(script, &env, at(5));
        analyze::report(&capture).completeness
    };
    let early = |script: &str| {
        // Calls that are counted in totals only are judged by the recorder.
        assert_eq!(
            stamped(script, "profile").timed,
            stamped(script, "trace").timed
        );
        let c = stamped(script, "trace");
        (c.timed, c.untimed.get("early_stop").copied().unwrap_or(0))
    };
    assert_eq!(early("ranks 2\nall_reduce 1KiB algo=TREE"), (0, 2));
    assert_eq!(early("ranks 2\nall_reduce 1KiB algo=NVLS"), (0, 2));
    let pair = "ranks 2\ngroup { send 1KiB to=+1 ; recv 1KiB from=-1 }";
    assert_eq!(early(pair).0, 0);
    assert_eq!(early("ranks 2\nall_reduce 1KiB algo=RING"), (2, 0));
}

#[test]
fn stamps_after_a_call_that_spoils_them_have_no_time() {
    let timed = |script: &str, mode| {
        let env = [("NCCLSCOPE_TIMING", "stamps"), ("NCCLSCOPE_MODE", mode)];
        let (_, capture) = played(script, &env, fake_nccl::Options::default());
        let report = analyze::report(&capture);
        let of = |o: &analyze::operations::Operation| o.function.as_deref() == Some("AllReduce");
        let operations = report.operations.iter().filter(|o| of(o));
        operations.map(|o| o.timed).sum::<u64>()
    };
    // All ranks' calls before it; none behind it.
    for (release, spoiler, expected) in [
        ("2.28.9", "all_to_all 4KiB", 6),
        ("2.32.3", "all_to_all 4KiB", 14),
        ("2.32.3", "broadcast 4KiB", 6),
        ("2.28.9", "broadcast 4KiB", 14),
    ] {
        let script =
            format!("ranks 2\nnccl {release}\nall_reduce 4KiB x3\n{spoiler}\nall_reduce 4KiB x4");
        for mode in ["trace", "profile"] {
            assert_eq!(timed(&script, mode), expected, "{mode}: {script}");
        }
    }
}
