//! Small jobs with known costs, savings and reasons.

use super::*;
use crate::fixtures::{communicator, gather, Random};
use crate::matching::Matcher;
use tables::communicators::Local;
use tables::{Call, Capture, GpuTimes, Process, Shape};

/// Communicator, start and stop in ns.
type Kernel = (usize, u64, u64);

/// A job whose communicators have these members, where each rank has these kernels, in order. A kernel's
/// launch is `launched` before its start on that rank.
fn job(members: &[&[usize]], kernels: &[Vec<Kernel>], launched: &[u64]) -> Arrivals {
    let (found, one_in) = gathered(members, kernels, launched, vec![Gatherer::default()]);
    assert_eq!(one_in, None);
    found.expect("operations")
}

/// The same, by these gatherers, each of one rank and the last of all others; and of how many operations one
/// is kept.
fn gathered(
    members: &[&[usize]],
    kernels: &[Vec<Kernel>],
    launched: &[u64],
    mut gatherers: Vec<Gatherer>,
) -> (Option<Arrivals>, Option<u64>) {
    let mut capture = Capture::default();
    let function = capture.names.intern("AllReduce");
    for (index, members) in members.iter().enumerate() {
        capture.communicators.push(communicator(index, members));
    }
    let mut matcher = Matcher::default();
    let uids = 0..members.len() as u32;
    for (rank, kernels) in kernels.iter().enumerate() {
        let call = |(ticket, (on, start, stop)): (usize, &Kernel)| Call {
            ticket: ticket as u64,
            shape: *on as u32,
            launch_start_ns: (start - launched.get(rank).unwrap_or(start)) as i64,
            gpu: GpuTimes::stamps(*start, *stop),
            channels_started: 1,
            channels_stopped: 1,
            sealed: true,
            ..Call::default()
        };
        let local = |uid| Local {
            uid,
            ..Local::default()
        };
        let shape = |uid| Shape {
            uid,
            communicator: Some(uid),
            function,
            ..Shape::default()
        };
        let process = Process {
            rank: Some(rank as u32),
            communicators: uids.clone().map(local).collect(),
            shapes: uids.clone().map(shape).collect(),
            calls: kernels.iter().enumerate().map(call).collect(),
            ..Process::default()
        };
        let of = rank.min(gatherers.len() - 1);
        gather(&capture, &process, &mut matcher, &mut gatherers[of]);
    }
    let mut gatherers = gatherers.into_iter();
    let mut gatherer = gatherers.next().expect("a gatherer");
    let same: Vec<u32> = (0..64).collect();
    gatherers.for_each(|later| gatherer.merge(later, &same, &same));
    let one_in = gatherer.one_in();
    let (found, _) = gatherer.finish(&capture, &matcher, None, |_, _| ());
    (found, one_in)
}

#[test]
fn one_kernel_more_than_are_kept_leaves_half_of_the_operations() {
    // Rank 0 waits 200 ns in each operation. Transfers take 100.
    let kernels: Vec<Vec<Kernel>> = [300, 100]
        .map(|ns| {
            (1..=1000)
                .map(|at| (0, at * 1000 - ns, at * 1000))
                .collect()
        })
        .to_vec();
    let of = |most, gatherers| {
        let gatherers = (0..gatherers).map(|_| Gatherer::keeping(most));
        gathered(&[&[0, 1]], &kernels, &[], gatherers.collect())
    };
    let (all, one_in) = of(2000, 1);
    let all = all.expect("operations");
    assert_eq!((all.operations, one_in), (1000, None));
    assert!(all.sampled.is_none());
    for (most, one_in) in [(1999, 2), (400, 8)] {
        let (found, told) = of(most, 1);
        assert_eq!(told, Some(one_in));
        let found = found.expect("operations");
        // The same ones on both ranks, so each is whole.
        let kept = found.operations as f64;
        assert!((kept * one_in as f64 / 1000.0 - 1.0).abs() < 0.2, "{kept}");
        assert!(2 * found.operations <= most as u64);
        assert!((found.wait_rank_us - 0.2 * kept).abs() < 1e-6);
        let sampled = found.sampled.as_ref().expect("a sample");
        assert_eq!(sampled.operations, 1000);
        assert!((sampled.wait_rank_us / all.wait_rank_us - 1.0).abs() < 1e-9);
        // However ranks were shared out among gatherers.
        let (again, told) = of(most, 2);
        let again = again.expect("operations");
        assert_eq!((again.operations, told), (found.operations, Some(one_in)));
        assert_eq!(again.sampled, found.sampled);
    }
}

/// Operations of all ranks, one a millisecond, in which ranks arrive so long after its beginning, ns.
fn one_communicator(late: &[Vec<u64>]) -> Arrivals {
    let members: Vec<usize> = (0..late.len()).collect();
    let kernels: Vec<Vec<Kernel>> = late
        .iter()
        .map(|late| {
            let kernel = |(i, late): (usize, &u64)| {
                let begin = 1_000_000 * (i as u64 + 1);
                (0, begin + late, begin + 900_000)
            };
            late.iter().enumerate().map(kernel).collect()
        })
        .collect();
    job(&[&members], &kernels, &[])
}

fn of(arrivals: &Arrivals, rank: u32) -> &RankArrivals {
    let mut ranks = arrivals.ranks.iter();
    ranks.find(|r| r.process.rank == Some(rank)).expect("there")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * a.abs().max(1.0)
}

#[test]
fn costs_sum_to_waits_and_follow_their_ranks() {
    let mut random = Random(5);
    for n in [2usize, 3, 8, 33] {
        let late: Vec<Vec<u64>> = (0..n)
            .map(|_| (0..20).map(|_| random.below(50_000)).collect())
            .collect();
        let straight = one_communicator(&late);
        let turned: Vec<Vec<u64>> = (0..n).map(|r| late[(r + 1) % n].clone()).collect();
        let turned = one_communicator(&turned);
        let cost: f64 = straight.ranks.iter().map(|r| r.cost_rank_us).sum();
        let wait: f64 = straight.ranks.iter().map(|r| r.wait_rank_us).sum();
        let saving: f64 = straight.ranks.iter().map(|r| r.saving_wall_us).sum();
        assert!(close(cost, wait) && close(wait, straight.wait_rank_us));
        // On one communicator nothing is inherited.
        assert!(close(saving, straight.saving_wall_us));
        assert!(straight.ranks.iter().all(|r| r.inherited_rank_us == 0.0));
        for r in 0..n {
            let (a, b) = (of(&straight, ((r + 1) % n) as u32), of(&turned, r as u32));
            assert!(close(a.cost_rank_us, b.cost_rank_us));
            assert!(close(a.saving_wall_us, b.saving_wall_us));
        }
    }
}

#[test]
fn those_not_there_share_the_wait_for_them() {
    let found = one_communicator(&[vec![0, 0], vec![6_000, 6_000], vec![8_000, 8_000]]);
    assert_eq!(found.operations, 2);
    assert_eq!(of(&found, 0).cost_rank_us, 0.0);
    // 1 rank waits 6 µs for two, then 2 ranks wait 2 µs for one.
    assert_eq!(of(&found, 1).cost_rank_us, 2.0 * 3.0);
    assert_eq!(of(&found, 2).cost_rank_us, 2.0 * (3.0 + 4.0));
    assert_eq!(of(&found, 2).saving_wall_us, 2.0 * 2.0);
    assert_eq!(found.transfer_wall_us, 2.0 * 892.0);
}

#[test]
fn a_delay_is_charged_once_where_it_arose() {
    // A grid: rows (0, 1) and (2, 3), columns (0, 2) and (1, 3). Rank 0 comes 100 µs late to its row, so that
    // both of the row come late to their columns, where the others wait since 10 µs.
    let groups: [&[usize]; 4] = [&[0, 1], &[2, 3], &[0, 2], &[1, 3]];
    let mut kernels: Vec<Vec<Kernel>> = vec![Vec::new(); 4];
    for i in 1..=30 {
        let begin = 1_000_000 * i;
        kernels[0].push((0, begin + 100_000, begin + 110_000));
        kernels[1].push((0, begin, begin + 110_000));
        for rank in [2, 3] {
            kernels[rank].push((1, begin, begin + 10_000));
            kernels[rank].push((rank, begin + 10_000, begin + 120_000));
        }
        kernels[0].push((2, begin + 110_000, begin + 120_000));
        kernels[1].push((3, begin + 110_000, begin + 120_000));
    }
    let found = job(&groups, &kernels, &[]);
    assert!(close(of(&found, 0).saving_wall_us, 30.0 * 100.0));
    let victim = of(&found, 1);
    assert!(close(victim.cost_rank_us, 30.0 * 100.0));
    assert!(close(victim.inherited_rank_us, victim.cost_rank_us));
    assert_eq!(victim.saving_wall_us, 0.0);
    assert!(close(found.wait_rank_us, 30.0 * 300.0));
}

#[test]
fn lateness_to_two_operations_at_a_time_counts_once() {
    // Two streams: rank 1 is 200 µs late to both.
    let groups: [&[usize]; 2] = [&[0, 1], &[0, 1]];
    let mut kernels: Vec<Vec<Kernel>> = vec![Vec::new(); 2];
    for i in 1..=30 {
        let begin = 1_000_000 * i;
        kernels[0].push((0, begin, begin + 210_000));
        kernels[0].push((1, begin + 5_000, begin + 215_000));
        kernels[1].push((0, begin + 200_000, begin + 210_000));
        kernels[1].push((1, begin + 205_000, begin + 215_000));
    }
    let found = job(&groups, &kernels, &[]);
    assert!(
        close(of(&found, 1).saving_wall_us, 30.0 * 200.0),
        "{found:?}"
    );
    assert!(close(found.saving_wall_us, 30.0 * 400.0));
}

#[test]
fn a_late_launch_and_a_busy_gpu_are_told_apart() {
    let late = |launched: [u64; 2]| {
        let kernels =
            |late: u64| (1..=20).map(move |i| (0, 1_000_000 * i + late, 1_000_000 * i + 60_000));
        job(
            &[&[0, 1]],
            &[kernels(0).collect(), kernels(50_000).collect()],
            &launched,
        )
    };
    let (busy, host) = (late([5_000, 55_000]), late([5_000, 5_000]));
    let why = |found: &Arrivals| (of(found, 1).gpu_busy_us, of(found, 1).launched_late_us);
    assert_eq!(why(&busy), (Some(1000.0), Some(0.0)));
    assert_eq!(why(&host), (Some(0.0), Some(1000.0)));
}

#[test]
fn a_rank_that_is_late_more_than_others_is_told_from_chance() {
    let mut random = Random(11);
    let mut late: Vec<Vec<u64>> = (0..8)
        .map(|_| (0..400).map(|_| random.below(20_000)).collect())
        .collect();
    let healthy = one_communicator(&late);
    let least = healthy
        .ranks
        .iter()
        .filter_map(|r| r.saving_p)
        .reduce(f64::min);
    assert!(least > Some(0.001 / 8.0), "{least:?}");
    late[3].iter_mut().for_each(|late| *late += 15_000);
    let late = one_communicator(&late);
    let first = &late.ranks[0];
    assert_eq!(first.process.rank, Some(3));
    assert!(first.saving_p < Some(1e-4));
    let (low, high) = first.saving_interval_us.expect("an interval");
    assert!(low > 0.0 && (low..=high).contains(&first.saving_wall_us));
}

#[test]
fn inherited_lateness_names_the_communicator_it_came_from() {
    // Rank 0 comes 90 µs late to the pair of communicator 0, then rank 1 is 40 µs longer in one of its own,
    // alone, so both bring lateness to communicator 1, where rank 2 waits.
    let groups: [&[usize]; 3] = [&[0, 1], &[1, 2], &[1]];
    let mut kernels: Vec<Vec<Kernel>> = vec![Vec::new(); 3];
    for i in 1..=30 {
        let begin = 1_000_000 * i;
        kernels[0].push((0, begin + 90_000, begin + 100_000));
        kernels[1].push((0, begin, begin + 100_000));
        kernels[1].push((2, begin + 100_000, begin + 140_000));
        // 60 µs of its own.
        kernels[1].push((1, begin + 200_000, begin + 250_000));
        kernels[2].push((1, begin, begin + 250_000));
    }
    let found = job(&groups, &kernels, &[]);
    let rank = of(&found, 1);
    // 200 µs late: 10 µs longer than it waited for rank 0 in communicator 0, 40 µs in 2, 60 µs in none.
    assert!(close(rank.cost_rank_us, 30.0 * 200.0));
    assert!(close(rank.inherited_rank_us, 30.0 * 140.0));
    let from: Vec<_> = rank
        .inherited_from
        .iter()
        .map(|from| (from.communicator.as_deref(), from.waited_for))
        .collect();
    assert_eq!(from, [(Some("0"), Some(0)), (Some("2"), None)]);
    let costs = rank.inherited_from.iter().map(|from| from.cost_rank_us);
    assert!(costs
        .zip([30.0 * 100.0, 30.0 * 40.0])
        .all(|(a, b)| close(a, b)));
    assert!(close(rank.inherited_from[0].waiting_rank_us, 30.0 * 90.0));
    assert_eq!(rank.inherited_from[1].waiting_rank_us, 0.0);
    let late: Vec<_> = inherited(&found)
        .iter()
        .map(|rank| rank.process.rank)
        .collect();
    assert_eq!(late, [Some(1)]);
    assert!(of(&found, 0).inherited_from.is_empty());
}

#[test]
fn lateness_from_two_kernels_at_a_time_is_inherited_once() {
    let groups: [&[usize]; 3] = [&[0], &[0], &[0, 1]];
    let mut kernels: Vec<Vec<Kernel>> = vec![Vec::new(); 2];
    for i in 1..=30 {
        let begin = 1_000_000 * i;
        kernels[0].push((0, begin, begin + 80_000));
        kernels[0].push((1, begin + 20_000, begin + 100_000));
        kernels[0].push((2, begin + 100_000, begin + 150_000));
        kernels[1].push((2, begin, begin + 150_000));
    }
    let found = job(&groups, &kernels, &[]);
    let rank = of(&found, 0);
    let from: Vec<f64> = rank.inherited_from.iter().map(|f| f.cost_rank_us).collect();
    assert!(close(from[0], 30.0 * 80.0) && close(from[1], 30.0 * 20.0));
    assert!(close(rank.inherited_rank_us, rank.cost_rank_us));
}
