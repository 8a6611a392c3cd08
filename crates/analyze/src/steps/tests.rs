//! Patterns that are steps, and those that are not.

use super::*;

/// Calls by letter, made a millisecond apart and `pause` after each `|`.
fn calls(text: &str, pause: i64) -> (Vec<Item>, Vec<u32>) {
    let (mut items, mut time) = (Vec::new(), 1);
    for letter in text.chars() {
        match letter {
            '|' => time += pause,
            _ => {
                time += 1_000_000;
                items.push(Item {
                    symbol: letter as u32,
                    kind: letter as u32,
                    time,
                    kernel: (time as u64, time as u64 + 400_000),
                });
            }
        }
    }
    let symbols = items.iter().map(|item| item.symbol).collect();
    (items, symbols)
}

fn row(text: &str) -> Option<StepsRow> {
    let (items, _) = calls(text, 5_000_000);
    let gatherer = Gatherer {
        items,
        ..Gatherer::default()
    };
    gatherer.finish(&Process::default())
}

#[test]
fn steps_are_counted_through_start_up_and_evaluation() {
    let step = "|abcad";
    let ten = step.repeat(10);
    let text = format!("xyxxz{ten}eeef{ten}eeef{ten}eeef{ten}eeef{ten}");
    let found = row(&text).expect("steps");
    assert_eq!((found.steps, found.calls), (50, 5));
    let time = found.step_us.expect("times");
    assert_eq!((time.n, time.p50, time.max), (45, Some(1e4), Some(1e4)));
    let communication = found.communication_us.expect("times");
    assert_eq!((communication.n, communication.p50), (50, Some(2e3)));
    // Five calls and a pause come before the first step, and four calls in each evaluation.
    assert_eq!(found.startup_us, Some(1e4));
    assert_eq!(found.between_us, Some(4.0 * 4e3));
}

#[test]
fn layers_are_no_steps() {
    let forward = "a".repeat(24);
    let text = format!("|{forward}b").repeat(20);
    assert_eq!(row(&text).map(|r| (r.steps, r.calls)), Some((20, 25)));
    let text = format!("|{}{}c", "a".repeat(12), "ab".repeat(12)).repeat(20);
    assert_eq!(row(&text).map(|r| (r.steps, r.calls)), Some((20, 37)));
}

#[test]
fn steps_of_few_calls_between_evaluations_are_steps() {
    // Two equal buckets and another, and metrics are gathered after 20 steps: 3 or 10 times.
    for times in [3, 10] {
        let text = format!("xyxx{}", format!("{}|g", "|||aab".repeat(20)).repeat(times));
        let found = row(&text).map(|r| (r.steps as usize, r.calls));
        assert_eq!(found, Some((20 * times, 3)), "{times}");
    }
    // One call in a step.
    let text = format!("xyxx{}", format!("{}|g", "||a".repeat(20)).repeat(3));
    assert_eq!(row(&text).map(|r| (r.steps, r.calls)), Some((60, 1)));
}

#[test]
fn layers_are_told_from_steps_by_where_they_are_slow() {
    // 25 calls, of which the last is another. The host takes so many µs before each, and up to a fifth more.
    let found = |before: &dyn Fn(usize) -> i64| {
        let mut noise = 1u32;
        let calls = (0..60 * 25).map(|n| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let us = before(n % 25);
            let symbol = if n % 25 == 24 { 2 } else { 1 };
            (symbol, us + us * i64::from(noise >> 24) / 1280)
        });
        of_one_kind(calls).map(|r| (r.steps, r.calls))
    };
    // Ring attention: twelve layers forward and back, then a sum over all gradients.
    let layers = |place| match place {
        0 => 3200,
        12 => 2500,
        1..=11 => 1300,
        _ => 1600,
    };
    assert_eq!(found(&layers), Some((60, 25)));
    // Steps of one call. After 24 of them metrics are summed, and the next step takes longer.
    let steps = |place| match place {
        0 => 2000,
        24 => 100,
        _ => 1500,
    };
    assert_eq!(found(&steps), Some((60 * 24, 1)));
}

#[test]
fn calls_whose_sizes_differ_each_time_have_the_steps_of_their_kinds() {
    // Experts with a router: four layers tell how many tokens go where, send as many, and have them back.
    let layer = ["n", "t", "t"].concat().repeat(4);
    let text = format!("|{layer}{}g", "t".repeat(8)).repeat(30);
    let (mut items, _) = calls(&text, 5_000_000);
    let mut size = 1000;
    for item in items.iter_mut().filter(|item| item.kind == 't' as u32) {
        size += 1;
        item.symbol = size;
    }
    let gatherer = Gatherer {
        items,
        ..Gatherer::default()
    };
    let found = gatherer.finish(&Process::default());
    assert_eq!(found.map(|r| (r.steps, r.calls)), Some((30, 21)));
}

#[test]
fn a_pattern_within_a_step_is_no_step() {
    // Buckets of DDP with equal layers: `bcd` comes three times in a step, and most of the time is
    // elsewhere.
    let text = "|abcdbcdbcde".repeat(20).replace('|', "||||");
    assert_eq!(row(&text).map(|r| (r.steps, r.calls)), Some((20, 11)));
}

/// Steps of three calls. `at` says when the host makes a step and when the GPU begins it, ns after the first.
fn steps_of_three(steps: i64, at: impl Fn(i64) -> (i64, i64)) -> StepsRow {
    let (mut items, _) = calls(&"abc".repeat(steps as usize), 0);
    for (index, item) in items.iter_mut().enumerate() {
        let (step, place) = (index as i64 / 3, index as i64 % 3);
        let (host, gpu) = at(step);
        item.time = 1_000_000_000 + host + place * 10_000;
        let begin = (1_000_000_000 + gpu + place * 1_000_000) as u64;
        item.kernel = (begin, begin + 500_000);
    }
    // Some are not timed.
    for item in items.iter_mut().step_by(5) {
        item.kernel = (0, 0);
    }
    let gatherer = Gatherer {
        items,
        ..Gatherer::default()
    };
    let found = gatherer.finish(&Process::default()).expect("steps");
    assert_eq!((found.steps, found.calls), (steps as u64, 3));
    found
}

#[test]
fn a_host_that_runs_ahead_does_not_make_steps_shorter() {
    let p50 = |of: &StepsRow| of.step_us.and_then(|times| times.p50);
    // A host asks for ten steps within 1 ms, and then waits until the GPU is done with them after 40 ms.
    let in_tens = |step| {
        (
            step / 10 * 40_000_000 + step % 10 * 100_000,
            step * 4_000_000,
        )
    };
    assert_eq!(p50(&steps_of_three(200, in_tens)), Some(4000.0));
    // One that needs 10.5 ms for a step of 12 ms, with much room in its queue.
    let little = |step| (step * 10_500_000, step * 12_000_000);
    assert_eq!(p50(&steps_of_three(100, little)), Some(12_000.0));
    // One that waits for each step, and stops once for five steps, is not ahead.
    let host = |step| step * 4_000_000 + i64::from(step > 50) * 20_000_000;
    let stops = steps_of_three(100, |step| (host(step), host(step - 1) + 4_000_000));
    assert!(!stops.on_gpu);
    assert_eq!(p50(&stops), Some(4000.0));
}

#[test]
fn a_step_begins_after_its_longest_pause() {
    let text = format!("bc{}|a", "|abc".repeat(20));
    let (items, symbols) = calls(&text, 5_000_000);
    let period = paused_periods(&items, &symbols)[0];
    let found = Period::new(&items, &symbols, period).expect("a pattern");
    let word = found.pattern.iter();
    let word: String = word.filter_map(|symbol| char::from_u32(*symbol)).collect();
    assert_eq!(word, "abc");
}

#[test]
fn where_nothing_repeats_there_are_no_steps() {
    assert!(row("").is_none());
    assert!(row("abcdefgh").is_none());
    let sweep: String = ('a'..='j').map(|c| c.to_string().repeat(20)).collect();
    assert!(row(&sweep).is_none());
    // A sequence that does not repeat (Thue and Morse's, squared letters by place).
    let odd: String = (0..300u32)
        .map(|i| char::from(b'a' + (i * i * 7 % 23 + i % 3) as u8))
        .collect();
    let found = row(&odd);
    assert!(found.is_none_or(|r| r.calls == 69), "{:?}", row(&odd));
}

/// Calls of one kind, so many µs after each other, by their sizes.
fn of_one_kind(calls: impl IntoIterator<Item = (u32, i64)>) -> Option<StepsRow> {
    let mut time = 1_000_000_000;
    let item = |(symbol, us): (u32, i64)| {
        time += us * 1_000;
        Item {
            symbol,
            kind: 7,
            time,
            kernel: (time as u64, time as u64 + 400_000),
        }
    };
    let gatherer = Gatherer {
        items: calls.into_iter().map(item).collect(),
        ..Gatherer::default()
    };
    gatherer.finish(&Process::default())
}

#[test]
fn steps_of_one_call_that_repeats_are_its_bursts() {
    // Four calls that warm up, then 60 steps of four, 50 ms apart. In the middle, one takes longer to
    // come than usual.
    let warm_up = [(1, 0), (1, 900), (1, 20), (1, 20)];
    let step = |n: i64| {
        [
            (1, 50_000),
            (1, 20 + n % 7),
            (1, if n == 30 { 900 } else { 25 }),
            (1, 22),
        ]
    };
    let found = of_one_kind(warm_up.into_iter().chain((0..60).flat_map(step)));
    let found = found.expect("steps");
    assert_eq!((found.steps, found.calls), (60, 4));
    let p50 = found.step_us.and_then(|s| s.p50).expect("times");
    assert!((50_060.0..50_080.0).contains(&p50), "{p50}");
    assert!(found.startup_us.is_some_and(|us| us > 50_000.0));
    // The same if no two calls have one size, and with a checkpoint after each ten steps.
    let sizes = (0..240u32).map(|n| n * n % 251);
    let pause = |n: i64| match (n % 4, n % 40) {
        (0, 0) => 2_000_000,
        (0, _) => 50_000,
        _ => 20,
    };
    let found = of_one_kind(sizes.zip((0..).map(pause)));
    assert_eq!(found.map(|r| (r.steps, r.calls)), Some((59, 4)));
}

#[test]
fn calls_at_random_have_no_steps() {
    // A linear congruential generator: the same numbers in each run.
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..40 {
        // From one call that repeats to many sizes, and pauses of two lengths or of all.
        let sizes = 1 + u64::from(round % 5 == 4) * 6;
        let calls: Vec<(u32, i64)> = (0..2_000)
            .map(|_| {
                let us = match round % 4 {
                    0 => 20 + 50_000 * i64::from(random(4) == 0),
                    1 => 20 + 50_000 * i64::from(random(2) == 0),
                    2 => 10 << random(14),
                    _ => 20 + (random(1_000) * random(1_000)) as i64 / 10,
                };
                (random(sizes) as u32, us)
            })
            .collect();
        // Calls that follow each other 1 ms apart are steps of one call.
        let found = of_one_kind(calls).filter(|row| row.calls > 1);
        assert!(found.is_none(), "{round}: {found:?}");
    }
    // Few calls that differ, some ms apart: any two in a row come again often.
    for round in 0..200 {
        let (different, length) = (2 + round % 4, 40 + 13 * round);
        let calls: Vec<(u32, i64)> = (0..length)
            .map(|_| {
                (
                    random(different) as u32,
                    5_000 + 15_000 * i64::from(random(3) == 0),
                )
            })
            .collect();
        let found = of_one_kind(calls).filter(|row| row.calls > 1);
        assert!(found.is_none(), "{round}: {found:?}");
    }
}

#[test]
fn launches_of_graphs_are_steps_if_calls_are_none() {
    let launches = |graph: fn(u32) -> u32, per_step: i64| {
        let mut process = Process::default();
        let launch = |n: u32| tables::graphs::Launch {
            graph: graph(n),
            at: 1_000_000_000
                + i64::from(n) / per_step * 8_000_000
                + i64::from(n) % per_step * 30_000,
            took: 10_000,
            stream: 0,
            gpu: None,
        };
        process.graphs.launches = (0..200).map(launch).collect();
        let found = Gatherer::default().finish(&process);
        found.map(|row| (row.steps, row.calls, row.step_us.and_then(|s| s.p50)))
    };
    let steps = |n, calls| Some((n, calls, Some(8_000.0)));
    // One graph, and a graph for each batch size.
    assert_eq!(launches(|_| 1, 1), steps(200, 1));
    assert_eq!(
        launches(
            |n| 1 + (n.wrapping_mul(n).wrapping_mul(0x9E37_79B1) >> 25) % 13,
            1
        ),
        steps(200, 1)
    );
    // A graph for each of four parts of a model, and all alike.
    assert_eq!(launches(|n| 1 + n % 4, 4), steps(50, 4));
    assert_eq!(launches(|_| 1, 4).map(|(_, calls, _)| calls), Some(4));
    assert_eq!(launches(|n| n / 300, 200), None);
}

#[test]
fn prompts_of_a_server_are_no_steps() {
    // A token is a launch of a graph of one of five batch sizes. Now and then a prompt makes 24 calls.
    let (mut items, mut process) = (Vec::new(), Process::default());
    let mut chance = 1u32;
    for n in 0..2000 {
        let at = 1_000_000_000 + n * 2_000_000;
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let drawn = chance >> 16;
        if drawn.is_multiple_of(10) {
            items.extend((0..24).map(|call| Item {
                symbol: 1,
                kind: 1,
                time: at + call * 20_000,
                kernel: (0, 0),
            }));
        } else {
            process.graphs.launches.push(tables::graphs::Launch {
                graph: drawn / 10 % 5,
                at,
                took: 10_000,
                stream: 0,
                gpu: None,
            });
        }
    }
    let gatherer = Gatherer {
        items,
        ..Gatherer::default()
    };
    let found = gatherer.finish(&process).map(|row| (row.steps, row.calls));
    assert_eq!(found, None);
}

#[test]
fn the_search_finds_words_that_overlap_themselves_once() {
    let text: Vec<u32> = vec![1, 1, 2, 1, 1, 2, 1, 1, 1, 2, 1, 1];
    assert_eq!(occurrences(&text, &[1, 1, 2, 1, 1]), [0, 7]);
    assert_eq!(occurrences(&text, &[1]).len(), 9);
}

#[test]
fn the_set_up_ends_where_calls_begin_to_repeat() {
    let step = |symbols: &mut Vec<u32>| symbols.extend([1, 1, 1, 2, 3, 4]);
    let steps = |n: usize| {
        let mut symbols = Vec::new();
        (0..n).for_each(|_| step(&mut symbols));
        symbols
    };
    assert_eq!(pattern::first_repeated(&steps(40)), 0);
    // 100 calls of a set-up that repeats itself a little, then steps with an odd call between some.
    let mut symbols: Vec<u32> = (0..100).map(|call| 100 + call % 25).collect();
    for _ in 0..6 {
        symbols.extend(steps(10));
        symbols.push(9);
    }
    let first = pattern::first_repeated(&symbols);
    assert!((100..106).contains(&first), "{first}");
    let all_different: Vec<u32> = (0..300).collect();
    assert_eq!(pattern::first_repeated(&all_different), 0);
    assert_eq!(pattern::first_repeated(&[]), 0);
}

#[test]
fn a_pattern_that_is_the_same_calls_several_times_says_so() {
    for (word, parts) in [
        ("abab", 2),
        ("aba", 1),
        ("aaaa", 4),
        ("abcabcab", 1),
        ("a", 1),
    ] {
        let word: Vec<u32> = word.chars().map(u32::from).collect();
        assert_eq!(pattern::equal_parts(&word), parts, "{word:?}");
    }
}

#[test]
fn micro_batches_show_by_their_times() {
    let found = row(&"abc|abc||||".repeat(60)).expect("steps");
    assert_eq!((found.calls, found.times_repeat), (3, 2));
    let found = row(&"abc|".repeat(120)).expect("steps");
    assert_eq!((found.calls, found.times_repeat), (3, 1));
}

#[test]
fn small_micro_batches_show_beside_slow_swings() {
    // A clock that swings by 5 % within 40 steps, 3 % of noise, and every second step 8 % longer.
    let mut seed = 1u64;
    let mut noise = || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 40) as f64 / f64::from(1 << 24) - 0.5
    };
    let mut times = |longer: f64| -> Vec<f64> {
        let time = |step: i32| {
            let swing = 0.05 * (f64::from(step) / 40.0 * std::f64::consts::TAU).sin();
            40e6 * (1.0 + swing + 0.06 * noise() + longer * f64::from(step % 2))
        };
        (0..250).map(time).collect()
    };
    assert_eq!(pattern::repeat_after(&times(0.08)), 2);
    assert_eq!(pattern::repeat_after(&times(0.0)), 1);
    assert_eq!(pattern::repeat_after(&times(0.005)), 1);
}

#[test]
fn ranks_with_other_steps_are_told() {
    let other = row(&"abc|".repeat(120)).expect("steps");
    let most = || row(&"abcd|".repeat(30)).expect("steps");
    let found = finish(vec![other, most(), most()], 3).expect("steps");
    assert_eq!(found.unlike, [0]);
    assert_eq!(found.reference().map(|row| row.calls), Some(4));
    let alike = finish(vec![most(), most()], 2).expect("steps");
    assert!(alike.unlike.is_empty());
}
