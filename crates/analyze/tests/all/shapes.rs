//! What a straggler costs jobs of many shapes, beside the truth: the same job without it.

use analyze::account::{Open, MATTERS};
use analyze::findings::{Cause, Evidence, Finding, Kind, Late, Method};
use analyze::report;
use analyze::summary::{BoundedBy, HowLong, Lead, Still};
use simulate::scripts::*;
use simulate::{held_out, play, Job, Step};

/// What a job of this shape told in this many plays: the late rank's findings, and the truth, s.
struct Told {
    truth: f64,
    finding: Finding,
    loss: f64,
    interval: (f64, f64),
}

/// Plays a job with and without the straggler; `windows` says whether ranks have kernel windows.
fn told(
    shape: (&str, Script, usize, usize),
    windows: bool,
    seed: u64,
    late: &dyn Fn(&mut Step),
) -> Vec<Told> {
    told_with(shape, &|_| windows, seed, late)
}

/// The same if `windows` says it of each rank.
fn told_with(
    (name, script, ranks, steps): (&str, Script, usize, usize),
    windows: &dyn Fn(usize) -> bool,
    seed: u64,
    late: &dyn Fn(&mut Step),
) -> Vec<Told> {
    let job = Job {
        noise: 0.1,
        of_steps: 0.03,
        ..Job::new(comms(name, ranks), steps, &script)
    };
    let plain = play(&job, seed, None);
    let found = report(&plain.capture(windows)).findings;
    let false_ones: Vec<&Finding> = found.iter().filter(is_late).collect();
    assert_eq!(false_ones, [] as [&Finding; 0], "{name}, unslowed");
    let slowed = play(&job, seed, Some(late));
    let found = report(&slowed.capture(windows)).findings;
    let late = found.into_iter().filter(|f| is_late(&f));
    late.map(|f| {
        let loss = f.loss.as_ref().expect("a loss");
        let (low, high) = loss.interval_us.expect("an interval");
        Told {
            truth: slowed.seconds - plain.seconds,
            loss: loss.wall_us / 1e6,
            interval: (low / 1e6, high / 1e6),
            finding: f,
        }
    })
    .collect()
}

fn is_late(finding: &&Finding) -> bool {
    finding.kind() == Kind::LateRank
}

fn sleeps(step: &mut Step) {
    if step.rank == 1 {
        step.sleeps(40_000.0);
    }
}

fn busy(step: &mut Step) {
    if step.rank == 1 {
        step.extra(5_000.0);
    }
}

/// Rank 1 is blamed for this reason, within 15 % of the truth.
fn is_close(found: &[Told], why: Cause) {
    is_within(found, why, 0.15);
}

/// The same, of a loss that is off by less than this part.
fn is_within(found: &[Told], why: Cause, most: f64) {
    let [one] = found else {
        panic!("{:?}", found.iter().map(|f| &f.finding).collect::<Vec<_>>());
    };
    let says = (one.finding.rank(), one.finding.cause);
    assert_eq!(says, (Some(1), Some(why)), "{:?}", one.finding);
    let off = one.loss / one.truth - 1.0;
    assert!(
        off.abs() < most,
        "{:?}, and it is {} s",
        one.finding,
        one.truth
    );
}

const PIPELINES: [(&str, Script, usize, usize); 3] = [
    ("one_f_one_b", one_f_one_b, 2, 100),
    ("one_f_one_b", one_f_one_b, 4, 100),
    ("interleaved", interleaved, 4, 100),
];

#[test]
fn a_late_host_of_a_pipeline_costs_what_it_costs_in_windows() {
    for shape in PIPELINES {
        let found = told(shape, true, 1, &sleeps);
        is_close(&found, Cause::Host);
        let (low, high) = found[0].interval;
        assert!(low <= found[0].truth && found[0].truth <= high);
    }
}

#[test]
fn a_late_host_of_a_pipeline_without_windows_is_estimated() {
    for shape in PIPELINES {
        let found = told(shape, false, 1, &sleeps);
        is_close(&found, Cause::Host);
        let loss = found[0].finding.loss.as_ref().expect("a loss");
        assert_eq!(loss.method, Method::WhatIf, "{loss:?}");
        let (low, high) = found[0].interval;
        assert!(low <= found[0].truth && found[0].truth <= high);
    }
}

#[test]
fn a_late_host_that_never_waits_delays_all_that_follows() {
    let sleeps = |step: &mut Step| {
        if step.rank == 1 {
            step.sleeps(70_000.0);
        }
    };
    for ranks in [2, 4] {
        let shape = ("zero3_slow_hosts", zero3_slow_hosts as Script, ranks, 70);
        let found = told(shape, false, 1, &sleeps);
        is_close(&found, Cause::Host);
        let (low, high) = found[0].interval;
        assert!(low <= found[0].truth && found[0].truth <= high);
    }
}

/// A layer's host asks its GPU which expert each token goes to, and so it launches after it.
fn routed(step: &mut Step) {
    step.host(400.0);
    step.straggler();
    for _ in 0..6 {
        step.host(300.0);
        step.compute("router", 500.0);
        step.sync(0);
        step.collective(0, "AlltoAll", 4 << 20, 150.0, 0);
        step.compute("expert", 900.0);
    }
    step.collective(0, "AllReduce", 32 << 20, 800.0, 0);
    step.sync(0);
}

#[test]
fn a_host_that_waits_for_its_late_gpu_is_not_to_blame() {
    let shape = ("routed", routed as Script, 2, 200);
    is_close(&told(shape, false, 1, &busy), Cause::Gpu);
    is_close(&told(shape, false, 1, &sleeps), Cause::Host);
}

/// A token of a decode loop: one CUDA graph, of which only windows show times, and then the host reads what
/// it made.
fn token(step: &mut Step) {
    step.host(200.0);
    step.straggler();
    step.graph(|step| {
        for _ in 0..8 {
            step.compute("layer", 100.0);
            step.collective(0, "AllReduce", 64 << 10, 15.0, 0);
        }
    });
    step.sync(0);
}

#[test]
fn where_graphs_hide_who_waits_a_late_host_has_a_bound() {
    let job = Job::new(comms("token", 2), 300, &(token as Script));
    let sleeps = |step: &mut Step| {
        if step.rank == 1 {
            step.sleeps(700.0);
        }
    };
    // As recorded when launches of graphs were not timed.
    let report_on = |late: Option<&dyn Fn(&mut Step)>| {
        let played = play(&job, 1, late);
        let mut capture = played.capture(&|_| false);
        for process in &mut capture.processes {
            process
                .graphs
                .launches
                .iter_mut()
                .for_each(|of| of.gpu = None);
        }
        (report(&capture), played.seconds)
    };
    let (plain, before) = report_on(None);
    let account = plain.account.expect("steps");
    assert!(
        !account.settles && account.late_host.is_none(),
        "{account:?}"
    );
    let (slowed, after) = report_on(Some(&sleeps));
    assert_eq!(slowed.verdict.lead, Lead::LateHost);
    let late = slowed
        .account
        .and_then(|account| account.late_host)
        .expect("late");
    // The host waits between launches of graphs, where its time in the driver is not known.
    assert_eq!((late.rank, late.by_work), (1, false));
    let loss = (after - before) * 1e6;
    assert!(
        (0.95..1.1).contains(&(late.most_us / loss)),
        "{late:?} of {loss}"
    );
}

#[test]
fn launches_of_graphs_show_who_comes_to_them_late() {
    for ranks in [2, 4] {
        let shape = ("token", token as Script, ranks, 300);
        let late = |step: &mut Step| {
            if step.rank == 1 {
                step.sleeps(700.0);
            }
        };
        is_close(&told(shape, false, 1, &late), Cause::Host);
        let late = |step: &mut Step| {
            if step.rank == 1 {
                step.extra(500.0);
            }
        };
        is_close(&told(shape, false, 2, &late), Cause::Gpu);
    }
}

#[test]
fn nobody_comes_late_to_the_graphs_of_a_healthy_job() {
    let job = Job::new(comms("token", 2), 300, &(token as Script));
    let found = report(&play(&job, 1, None).capture(&|_| false));
    let Lead::Still(Still {
        how_long: HowLong::Bounded(bounded),
        ..
    }) = found.verdict.lead
    else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(bounded.by, BoundedBy::Account(Open::InGraphs));
    assert!(bounded.between.0 < MATTERS, "{bounded:?}");
    let account = found.account.expect("steps");
    // What is in the graphs is not known.
    assert!(account.efficiencies.is_none() && !account.settles);
    assert!(account
        .ranks
        .iter()
        .all(|of| of.unknown_us > 0.5 * account.wall_us));
}

#[test]
fn if_calls_were_not_announced_ranks_are_not_compared() {
    let job = Job::new(comms("ddp", 2), 200, &(ddp as Script));
    let mut capture = play(&job, 1, Some(&busy)).capture(&|_| true);
    assert!(report(&capture).findings.iter().any(|of| is_late(&of)));
    // Somebody took the events of calls of collectives away.
    let masks = &mut capture.processes[0].setup.masks;
    masks.push(Default::default());
    masks[0].missing = 1 << 9;
    assert_eq!(report(&capture).findings, []);
}

#[test]
fn what_a_pipelines_bubble_hides_costs_nothing() {
    // The last stage is done with a step before the first one is.
    for windows in [true, false] {
        for seed in 1..=3 {
            let found = told(PIPELINES[0], windows, seed, &busy);
            assert!(found.is_empty(), "{:?}", found[0].finding);
        }
    }
}

#[test]
fn operations_that_are_all_alike_show_by_stream_waits_what_work_depends_on() {
    // All buckets have one size, and hosts are so far ahead that the GPUs' pace is theirs.
    for shape in [
        ("ddp", ddp as Script, 2, 200),
        ("ddp", ddp, 8, 200),
        ("accumulation", accumulation, 4, 200),
    ] {
        is_close(&told(shape, false, 1, &busy), Cause::Gpu);
    }
    is_close(&told(("ddp", ddp, 2, 200), false, 1, &sleeps), Cause::Host);
}

#[test]
fn a_busier_gpu_costs_what_it_costs_without_windows() {
    for (shape, seed) in [
        (("ddp", ddp as Script, 2, 200), 1),
        (("ddp", ddp, 8, 200), 2),
        (("accumulation", accumulation, 4, 200), 3),
        (("zero3", zero3, 4, 200), 4),
        (("tensor_data", tensor_data, 4, 150), 5),
        (("experts", experts, 4, 150), 6),
    ] {
        let found = told(shape, false, seed, &busy);
        is_close(&found, Cause::Gpu);
        let (low, high) = found[0].interval;
        let (truth, finding) = (found[0].truth, &found[0].finding);
        assert!(
            low <= truth && truth <= high,
            "{finding:?}: {low} to {high}, and it is {truth}"
        );
        assert!(high - low < 0.8 * truth, "{finding:?}: {low} to {high}");
    }
}

#[test]
fn what_two_late_ranks_cost_together_is_said() {
    let shape = ("ddp", ddp as Script, 4, 200);
    let two = |step: &mut Step| {
        if step.rank < 2 {
            step.extra([3_000.0, 6_000.0][step.rank]);
        }
    };
    let other_alone = |step: &mut Step| {
        if step.rank == 0 {
            step.extra(3_000.0);
        }
    };
    for windows in [true, false] {
        let found = told(shape, windows, 1, &two);
        let [one] = &found[..] else {
            panic!("{} findings", found.len());
        };
        // What rank 1 costs while rank 0 stays as it is.
        let truth = one.truth - told(shape, windows, 1, &other_alone)[0].truth;
        assert_eq!(one.finding.rank(), Some(1), "{:?}", one.finding);
        assert!(
            (one.loss / truth - 1.0).abs() < 0.15,
            "{} of {truth}",
            one.loss
        );
        let Evidence::Late(late) = &one.finding.evidence else {
            panic!("{:?}", one.finding);
        };
        let (other, both_us) = late.with_other.expect("rank 0 is late, too");
        assert_eq!(other, Some(0));
        let seconds = both_us / 1e6;
        assert!(
            (seconds / one.truth - 1.0).abs() < 0.15,
            "{seconds} s, and it is {} s",
            one.truth
        );
    }
    let alone = told(shape, false, 1, &busy);
    let is_alone = |late: &Late| late.with_other.is_none();
    assert!(matches!(&alone[0].finding.evidence, Evidence::Late(late) if is_alone(late)));
}

/// In each of these seeds the truth is in the interval, and what is told is within 15 % of it.
fn holds_in_windows(shape: (&str, Script, usize, usize), late: &dyn Fn(&mut Step), why: Cause) {
    for seed in 1..=4 {
        let found = told(shape, true, seed, late);
        is_close(&found, why);
        let ((low, high), truth) = (found[0].interval, found[0].truth);
        assert!(
            low <= truth && truth <= high,
            "{:?}, {low} to {high} s, and it is {truth} s",
            found[0].finding
        );
    }
}

#[test]
fn waiting_that_is_passed_on_over_three_kinds_of_communicators_costs_what_it_costs() {
    let shape = ("three_ways", three_ways as Script, 8, 200);
    holds_in_windows(shape, &busy, Cause::Gpu);
    holds_in_windows(shape, &sleeps, Cause::Host);
}

/// As where another profiler has rank 1 to itself.
fn but_rank_1(rank: usize) -> bool {
    rank != 1
}

#[test]
fn a_late_host_of_a_pipeline_is_known_though_its_rank_alone_has_no_windows() {
    for shape in [PIPELINES[0], PIPELINES[1]] {
        for seed in 1..=2 {
            let found = told_with(shape, &but_rank_1, seed, &sleeps);
            // What of its waiting the other would have had anyway is not known.
            is_within(&found, Cause::Host, 0.25);
        }
    }
}

/// The jobs of this name among those that no rule was made with.
fn held_out_of(name: &str) -> Vec<(&'static str, Script, usize, usize)> {
    let mut scripts = held_out::scripts();
    scripts.retain(|(of, ..)| *of == name);
    assert!(!scripts.is_empty(), "{name}");
    scripts
}

#[test]
fn transfers_that_queue_behind_a_late_one_cost_what_they_cost() {
    for shape in held_out_of("slow_link") {
        holds_in_windows(shape, &busy, Cause::Gpu);
        holds_in_windows(shape, &sleeps, Cause::Host);
    }
}

#[test]
fn a_late_host_that_holds_up_another_node_costs_what_it_costs() {
    let [shape] = held_out_of("two_nodes")[..] else {
        panic!("one");
    };
    for seed in 1..=4 {
        is_close(&told(shape, true, seed, &sleeps), Cause::Host);
    }
}

#[test]
fn a_late_rank_of_a_ring_costs_what_it_costs() {
    let [shape] = held_out_of("ring")[..] else {
        panic!("one");
    };
    holds_in_windows(shape, &busy, Cause::Gpu);
    holds_in_windows(shape, &sleeps, Cause::Host);
}

#[test]
fn hosts_that_are_hardly_faster_than_their_gpus_bound_what_a_busy_one_costs() {
    let shape = ("host_bound", host_bound as Script, 4, 1000);
    holds_in_windows(shape, &busy, Cause::Gpu);
}

#[test]
fn a_checkpoint_of_another_rank_hides_nobody() {
    is_close(
        &told(("checkpoint", checkpoint, 4, 300), true, 1, &busy),
        Cause::Gpu,
    );
}

#[test]
fn steps_of_different_sizes_have_no_cycles_and_windows_tell_all_the_same() {
    let found = told(("sizes", sizes, 4, 300), true, 1, &sleeps);
    is_close(&found, Cause::Host);
    let (low, high) = found[0].interval;
    assert!(low <= found[0].truth && found[0].truth <= high);
}

#[test]
fn a_rank_that_is_late_now_and_then_costs_what_it_costs() {
    let now_and_then = |step: &mut Step| {
        if step.rank == 1 && step.number % 10 == 3 {
            step.extra(40_000.0);
        }
    };
    let found = told(("sizes", sizes, 4, 300), true, 1, &now_and_then);
    is_close(&found, Cause::Gpu);
}

#[test]
fn a_loss_is_no_more_than_the_others_stood_still() {
    // A tensor-parallel pair within data parallelism: windows of ranks show different operations.
    for seed in 1..=3 {
        for found in told(("tensor_data", tensor_data, 4, 250), true, seed, &sleeps) {
            assert!(
                found.loss < 1.15 * found.truth,
                "{:?}, and it is {} s",
                found.finding,
                found.truth
            );
        }
    }
}

#[test]
fn noise_blames_one_rank_in_a_hundred_jobs_at_most() {
    let shapes: [(&str, Script, usize, usize); 5] = [
        ("ddp", ddp, 2, 60),
        ("accumulation", accumulation, 3, 40),
        ("tensor_data", tensor_data, 4, 40),
        ("experts", experts, 4, 30),
        ("one_f_one_b", one_f_one_b, 2, 30),
    ];
    let mut found = Vec::new();
    for number in 0..100 {
        let (name, script, ranks, steps) = shapes[number % shapes.len()];
        let job = Job {
            noise: 0.1,
            of_steps: 0.1,
            ..Job::new(comms(name, ranks), steps, &script)
        };
        let played = play(&job, number as u64 + 1000, None);
        let report = report(&played.capture(&|_| number % 2 == 0));
        let late = report.findings.into_iter().filter(|f| is_late(&f));
        found.extend(late.map(|f| (name, f)));
    }
    assert!(found.len() <= 1, "{found:?}");
}

/// What the findings rest on.
fn look(report: &analyze::Report) {
    if let Some(arrivals) = &report.arrivals {
        for rank in &arrivals.ranks {
            println!(
                "      arrivals of {:?}: last {} of {}, saving {:.3} ms {:?} p {:?}, excess {:.3}",
                rank.process.rank,
                rank.last,
                rank.operations,
                rank.saving_wall_us / 1e3,
                rank.saving_interval_us,
                rank.saving_p,
                rank.excess_wall_us / 1e3,
            );
        }
    }
    if let Some(account) = &report.account {
        println!(
            "      account: settles {}, {:?}",
            account.settles, account.answers
        );
    }
    for finding in &report.findings {
        println!("      {:?}", finding.evidence);
    }
    for bubble in report.streams.iter().flat_map(|s| &s.bubbles) {
        println!(
            "      bubble of {:?}: {:.3} {:?}",
            bubble.process.rank,
            bubble.bubble.share,
            bubble
                .waits_for
                .iter()
                .map(|f| (
                    f.process.rank,
                    f.late_sender_us,
                    f.late_receiver_us,
                    f.behind_us
                ))
                .collect::<Vec<_>>()
        );
    }
    let Some(streams) = &report.streams else {
        println!("      no streams");
        return;
    };
    println!(
        "      tells who: {}, {} windows, {} operations, {:.0} ms in common",
        streams.tells_who(),
        streams.windows,
        streams.operations,
        streams.common_us / 1e3
    );
    for rank in &streams.ranks {
        println!(
            "      rank {:?}: computing {:.3} beside {:.3} exposed {:.3} idle {:.3} waiting {:.3?} host {:?}",
            rank.process.rank,
            rank.computing.share,
            rank.beside.share,
            rank.exposed.share,
            rank.idle.share,
            rank.exposed_waiting,
            rank.host_waited.map(|h| (h.share, h.interval)),
        );
    }
}

#[test]
#[ignore = "a table to look at: SHAPES=ddp STRAGGLERS=gpu SEEDS=4 NOISE=10 WITHOUT=1"]
fn table() {
    let env = |name: &str| std::env::var(name).ok();
    let seeds: u64 = env("SEEDS").and_then(|s| s.parse().ok()).unwrap_or(2);
    let noise: f64 = env("NOISE").and_then(|s| s.parse().ok()).unwrap_or(10.0) / 100.0;
    let of_steps: f64 = env("OF_STEPS").and_then(|s| s.parse().ok()).unwrap_or(3.0) / 100.0;
    let without: Vec<usize> = env("WITHOUT").map_or(Vec::new(), |w| {
        w.split(',').filter_map(|r| r.parse().ok()).collect()
    });
    let verbose = env("VERBOSE").is_some();
    let all_without = env("WITHOUT").is_some_and(|w| w == "all");
    let chosen =
        |name: &str, env: Option<String>| env.is_none_or(|of| of.split(',').any(|of| of == name));
    let first: u64 = env("FIRST").and_then(|s| s.parse().ok()).unwrap_or(1);
    // Shapes that no rule was made with are only shown if they are asked for.
    let shapes = match env("HELD_OUT") {
        Some(_) => held_out::scripts(),
        None => scripts(),
    };
    for (shape, script, ranks, steps) in shapes {
        if !chosen(shape, env("SHAPES")) && !chosen(&format!("{shape}{ranks}"), env("SHAPES")) {
            continue;
        }
        let job = Job {
            noise,
            of_steps,
            ..Job::new(comms(shape, ranks), steps, &script)
        };
        let with = |rank: usize| !all_without && !without.contains(&rank);
        let mut plain = Vec::new();
        let mut false_ones = 0;
        for seed in first..first + seeds {
            let played = play(&job, seed, None);
            plain.push(played.seconds);
            let report = report(&played.capture(&with));
            let late: Vec<_> = report.findings.iter().filter(is_late).collect();
            if !late.is_empty() {
                false_ones += 1;
                if verbose {
                    late.iter().for_each(|f| println!("    {f:?}"));
                }
            }
        }
        let mean = plain.iter().sum::<f64>() / plain.len() as f64;
        println!("{shape} {ranks}: {mean:.2} s, {:.1} ms a step; unslowed: {false_ones} of {seeds} with a \
                  finding", 1e3 * mean / steps as f64);
        for Straggler {
            name,
            rank,
            host,
            late,
            stays,
        } in stragglers()
        {
            if !chosen(name, env("STRAGGLERS")) {
                continue;
            }
            let (mut truths, mut told, mut inside, mut none, mut other, mut reason) =
                (0.0, 0.0, 0, 0, 0, 0);
            let (mut half, mut more, mut found, mut close) = (0.0, 0, 0, 0);
            for seed in first..first + seeds {
                let played = play(&job, seed, Some(&late));
                let both = played.seconds - plain[(seed - first) as usize];
                let truth = played.seconds - play(&job, seed, Some(&stays)).seconds;
                truths += truth;
                let report = report(&played.capture(&with));
                let late: Vec<_> = report.findings.iter().filter(is_late).collect();
                if verbose {
                    println!("    seed {seed} truth {truth:.3}, without any straggler {both:.3}");
                    look(&report);
                    late.iter().for_each(|f| println!("    {f:?}"));
                }
                more += usize::from(late.len() > 1);
                let Some(first) = late.first() else {
                    none += 1;
                    continue;
                };
                if rank.is_none() || first.rank() != rank {
                    other += 1;
                    continue;
                }
                found += 1;
                let says_host = first.cause == Some(Cause::Host);
                reason += usize::from(says_host != host);
                let us = first.wall_us().unwrap_or(0.0) / 1e6;
                told += us;
                close += usize::from((us / truth - 1.0).abs() < 0.15);
                if let Some((low, high)) = first.loss.as_ref().and_then(|loss| loss.interval_us) {
                    inside += usize::from(low / 1e6 <= truth && truth <= high / 1e6);
                    half += (high - low) / 2.0 / 1e6 / us;
                }
            }
            let n = f64::from(found).max(1.0);
            println!(
                "  {name:12} truth {:6.3} told {:6.3} within 15 %: {close} inside: {inside} of {found}, \
                 ±{:3.0} %; none {none}, other rank {other}, other reason {reason}, more than one {more}",
                truths / seeds as f64,
                told / n,
                100.0 * half / n,
            );
        }
    }
}

#[test]
#[ignore = "recorded jobs to look at: JOBS=ddp_late_host"]
fn recorded() {
    let jobs = std::env::var("JOBS").unwrap_or_default();
    for name in jobs.split(',') {
        let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
        let mut capture = tables::Capture::open(&data.join(name)).expect("a recorded job");
        if std::env::var("WITHOUT").is_ok_and(|of| of == "all") {
            capture
                .processes
                .iter_mut()
                .for_each(|p| p.windows.list.clear());
        }
        let report = report(&capture);
        println!("{name}");
        if std::env::var("VERBOSE").is_ok() {
            look(&report);
        }
        for finding in &report.findings {
            println!("    {finding:?}");
        }
    }
}
