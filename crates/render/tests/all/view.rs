//! What the viewer begins with: a lane for each rank, a place for each finding, and the waits that it leads
//! to.

use analyze::findings::Kind;
use analyze::Report;
use render::timeline::Timeline;
use render::view::View;
use serde_json::Value;
use std::path::Path;
use tables::Capture;

fn with<T>(job: &str, look: impl FnOnce(&View<'_>, &Report) -> T) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let capture = Capture::open(&folder.join(job)).expect("a recorded job");
    let report = analyze::report(&capture);
    let timeline = Timeline::trimmed(&capture, report.clocks.as_ref());
    look(&View::new(&timeline, &report), &report)
}

/// The first call that "Longest wait" shows.
fn longest_wait(view: &View<'_>) -> Option<Value> {
    view.call(view.other(usize::MAX, "worst")?)
}

#[test]
fn a_dead_rank_without_calls_has_a_lane_and_its_end() {
    with("killed_228", |view, _| {
        let data = view.data();
        let lanes = data["lanes"].as_array().expect("lanes");
        let of = |rank: u64| lanes.iter().filter(move |lane| lane["rank"] == rank);
        assert!((0..4).all(|rank| of(rank).count() > 0), "{lanes:?}");
        let dead = of(1).next().expect("a lane");
        assert_eq!(dead["ended"]["text"], "died after call 1000", "{dead}");
        let at_us = dead["ended"]["at_us"].as_f64().expect("a time");
        let length_us = data["length_us"].as_f64().expect("a length");
        assert!((0.0..=length_us).contains(&at_us), "{at_us} of {length_us}");
        // The others ended with the run.
        assert!(of(0).all(|lane| lane["ended"].is_null()), "{lanes:?}");
    });
}

#[test]
fn every_finding_has_its_place() {
    for job in [
        "slow_host",
        "slow_link",
        "ddp_checkpoints",
        "decode_graphs_gpu",
        "decode_graphs_host",
        "pipe_slow_gpu",
        "short_pipe_stage",
        "killed_228",
    ] {
        with(job, |view, report| {
            let data = view.data();
            let pins = data["findings"].as_array().expect("findings");
            assert_eq!(pins.len(), report.findings.len(), "{job}");
            for (pin, finding) in pins.iter().zip(&report.findings) {
                let holds_always = matches!(
                    finding.kind(),
                    Kind::NcclMemory | Kind::MissingNvlink | Kind::FarNetworkCard | Kind::FarCpus
                );
                assert!(holds_always || pin["at_us"].is_f64(), "{job}: {pin}");
            }
        });
    }
}

#[test]
fn the_longest_wait_is_one_for_the_rank_that_is_blamed() {
    for job in [
        "slow_host",
        "ddp_late_host",
        "fsdp2_slow_gpu",
        "megatron_late_host",
        "deepspeed_late_host",
    ] {
        with(job, |view, report| {
            let blamed = report.findings[0].rank();
            let call = longest_wait(view).expect("a wait");
            let data = view.data();
            let ranks = call["ranks"].as_array().expect("ranks");
            let last = ranks.last().expect("a last one");
            let lane = last["lane"].as_u64().expect("a lane") as usize;
            let last = data["lanes"][lane]["rank"].as_u64();
            assert_eq!(last, blamed.map(u64::from), "{job}: {call}");
            // Neither of the start-up, nor behind the last step.
            let steps = data["steps"]["begins_us"].as_array().expect("steps");
            let begin = call["begin_us"].as_f64();
            let (first, end) = (steps[1].as_f64(), data["length_us"].as_f64());
            assert!(begin > first && begin < end, "{job}: {call}");
        });
    }
}

#[test]
fn kernels_in_windows_show_what_they_waited() {
    // In graphs, eager with calls on two streams, and in a pipeline.
    for job in ["decode_slow_gpu", "fsdp2_slow_gpu", "pipe_slow_gpu"] {
        with(job, |view, report| {
            let data = view.data();
            let lanes = data["lanes"].as_array().expect("lanes");
            let (from, to) = view.typical_us().expect("a typical step");
            // Waiting in kernels of a rank's lanes, and how much of all their time is known.
            let waited = |rank: u64| {
                let of_rank = (0u32..).zip(lanes).filter(|(_, lane)| {
                    lane["rank"] == rank && lane["kernels"].as_bool() == Some(true)
                });
                let of_rank: Vec<u32> = of_rank.map(|(number, _)| number).collect();
                let found = view.calls(&of_rank, from, to, usize::MAX);
                let rows = found["calls"].as_array().expect("kernels");
                let mut sums = [0.0; 3];
                for row in rows.iter().filter(|row| row[6] == "nccl_kernel") {
                    let figure = |of: usize| row[of].as_f64().expect("a figure");
                    let (begin, end) = (figure(2), figure(2) + figure(3));
                    let inside = |until: f64| (until.min(to) - begin.max(from)).max(0.0);
                    if let Some(transfer) = row[4].as_f64() {
                        sums[0] += inside(end - transfer);
                        sums[1] += inside(end);
                    }
                    sums[2] += inside(end);
                }
                sums
            };
            assert_eq!(report.findings[0].rank(), Some(1), "{job}");
            let (waits, late) = (waited(0), waited(1));
            assert!(waits[1] > 0.9 * waits[2], "{job}: {waits:?}");
            assert!(waits[0] > 0.2 * (to - from), "{job}: {waits:?}");
            assert!(late[0] < 0.5 * waits[0], "{job}: {waits:?} {late:?}");
        });
    }
}

#[test]
fn without_calls_that_waited_it_leads_to_what_is_known() {
    // In a job that stood still, to a call that did not end.
    with("killed_228", |view, report| {
        assert!(report.findings[0].kind().is_broken());
        let call = longest_wait(view).expect("an open call");
        assert_eq!(call["kind"], "open", "{call}");
    });
    // Without GPU times, no wait is known.
    with("phases_232", |view, _| {
        assert_eq!(longest_wait(view), None);
        assert_eq!(view.data()["waits"], 0);
    });
}
