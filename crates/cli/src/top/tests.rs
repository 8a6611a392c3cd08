//! Screens of made-up looks, and what keys do.

use super::screen::{text, Glyphs};
use super::state::{Sort, State, View};
use analyze::subject::ProcessId;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use render::top::{InFlight, Now, Part, RankNow, Share};

fn row(rank: u32, wait: f64) -> RankNow {
    RankNow {
        process: ProcessId {
            rank: Some(rank),
            host: format!("a-long-name-node{:02}", rank / 4),
            pid: 100 + rank,
        },
        device: Some(rank % 4),
        state: if wait > 0.1 { "waits" } else { "runs" },
        parts: vec![
            Share {
                part: Part::WorkOrHost,
                share: 0.7 - wait,
            },
            Share {
                part: Part::Transfer,
                share: 0.3,
            },
            Share {
                part: Part::Waiting,
                share: wait,
            },
            Share {
                part: Part::Unknown,
                share: 0.0,
            },
        ],
        source: Some("account"),
        wait_share: Some(wait),
        waits_for: (wait > 0.1).then_some(5),
        cost_step_us: None,
        call: Some(4000),
        power_w: Some(500.0 + f64::from(rank)),
        sm_mhz: Some(1980.0),
        lost: 0,
        lost_for_good: 0,
    }
}

/// A look at `ranks` ranks, of which the sixth is late.
fn look(ranks: u32, at_s: i64) -> Now {
    let mut rows: Vec<RankNow> = (0..ranks).map(|rank| row(rank, 0.2)).collect();
    rows[5] = RankNow {
        state: "late",
        waits_for: None,
        cost_step_us: Some(53_000.0),
        ..row(5, 0.0)
    };
    Now {
        schema: "ncclscope.top/1",
        capture: "run-1".to_owned(),
        at_ns: Some(at_s * 1_000_000_000),
        at_clock: Some(format!("14:02:{:02}", at_s % 60)),
        age_s: Some(0.5),
        state: "live",
        span_s: Some(60.0),
        recent_s: None,
        job: Some("run-1".to_owned()),
        processes: ranks.into(),
        nodes: u64::from(ranks.div_ceil(4)),
        verdict: "late_rank",
        sentence: "Rank 5 (GPU 1 on node01) costs this job 13.5 s of 60 s: its host launches late."
            .to_owned(),
        remark: Some("GPUs stood still for NCCL in 47 % of the steps.".to_owned()),
        culprits: vec![ProcessId {
            rank: Some(5),
            host: "a-long-name-node01".to_owned(),
            pid: 105,
        }],
        cost_share: Some(0.22),
        cost_step_us: Some(53_000.0),
        hang: Some(false),
        step_us: Some(236_000.0),
        steps_per_s: Some(4.24),
        calls_per_s: Some(700.0),
        ranks: rows,
        operations: Vec::new(),
        links: Vec::new(),
        in_flight: InFlight {
            calls: 31,
            oldest_s: Some(0.23),
            function: Some("AllReduce".to_owned()),
            bytes: Some(26_214_400),
            ranks: Some("0-4,6-7".to_owned()),
        },
        power_w: Some(4100.0),
        announced: 56_000,
        recorded: 56_000,
        lost: std::collections::BTreeMap::new(),
        recording_share: Some(0.006),
        view_share: Some(0.001),
    }
}

fn state(ranks: u32) -> State {
    let mut state = State::new(false, Glyphs::UNICODE);
    state.add(look(ranks, 1));
    state
}

fn press(state: &mut State, code: KeyCode) -> bool {
    state.key(KeyEvent::from(code))
}

/// The ranks of the rows, from above.
fn shown(page: &str) -> Vec<u32> {
    let rows = page.lines().skip_while(|line| !line.starts_with("rank "));
    let number = |line: &str| line.get(..4)?.trim().parse().ok();
    rows.skip(1).map_while(number).collect()
}

#[test]
fn everything_has_a_place_on_80_by_24() {
    let page = text(&state(8), 80, 24);
    assert!(page.lines().count() <= 24, "{page}");
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    assert!(
        page.starts_with("run-1 · 8 processes, 2 nodes · step 236 ms · 4.24 steps/s"),
        "{page}"
    );
    assert!(
        page.lines()
            .next()
            .is_some_and(|line| line.ends_with("live 14:02:01")),
        "{page}"
    );
    // The culprit is the first.
    assert_eq!(shown(&page), [5, 0, 1, 2, 3, 4, 6, 7], "{page}");
    for has in [
        "costs this job 13.5 s",
        "…ode01:1",
        "53.0 ms",
        "in flight 31 calls, oldest 230 ms (AllReduce 25 MiB, ranks 0-4,6-7)",
        "power     4.10 kW",
        "lost 0 of 56000 calls · recording costs 0.6 % · this view 0.1 % of a CPU",
        "q quit  s sort (price)",
    ] {
        assert!(page.contains(has), "{has}: {page}");
    }
    // A bar is exactly as wide as its column.
    let bars: Vec<usize> = page
        .lines()
        .filter(|line| line.contains("▒▒"))
        .map(|line| line.chars().filter(|c| "╌▒░?".contains(*c)).count())
        .collect();
    assert_eq!(bars.len(), 8);
    assert!(bars.windows(2).all(|pair| pair[0] == pair[1]), "{bars:?}");
}

#[test]
fn rows_that_do_not_fit_are_summed_up() {
    let page = text(&state(512), 80, 24);
    assert!(page.lines().count() <= 24, "{page}");
    let ranks = shown(&page);
    assert_eq!(ranks.first(), Some(&5));
    assert!(
        page.contains(&format!(
            "{} more ranks, waiting 20 to 20%",
            512 - ranks.len()
        )),
        "{page}"
    );
}

#[test]
fn no_size_of_a_terminal_is_too_small() {
    for (width, height) in [(1, 1), (10, 3), (40, 10), (79, 23), (300, 100)] {
        for view in [
            View::Ranks,
            View::Nodes,
            View::Links,
            View::Hang,
            View::Details,
            View::Help,
        ] {
            let mut state = state(16);
            state.view = view;
            let page = text(&state, width, height);
            assert!(
                page.lines()
                    .all(|line| line.chars().count() <= usize::from(width)),
                "{page}"
            );
        }
    }
    assert!(text(&State::new(false, Glyphs::ASCII), 80, 24).contains("Nothing was recorded"));
}

#[test]
fn rows_are_sorted_filtered_and_paused_by_keys() {
    let mut state = state(8);
    press(&mut state, KeyCode::Char('s'));
    press(&mut state, KeyCode::Char('s'));
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(state.sort, Sort::Power);
    assert_eq!(shown(&text(&state, 80, 24)), [5, 7, 6, 4, 3, 2, 1, 0]);
    for letter in "/node00".chars() {
        press(&mut state, KeyCode::Char(letter));
    }
    press(&mut state, KeyCode::Enter);
    assert_eq!(shown(&text(&state, 80, 24)), [3, 2, 1, 0]);
    // Esc takes the filter away first, and ends then.
    assert!(press(&mut state, KeyCode::Esc));
    for at in 2..30 {
        state.add(look(8, at));
    }
    press(&mut state, KeyCode::Left);
    assert!(text(&state, 80, 24).contains("paused 14:02:19"));
    state.add(look(8, 30));
    assert!(text(&state, 80, 24).contains("paused 14:02:19"));
    press(&mut state, KeyCode::End);
    assert!(text(&state, 80, 24).contains("live 14:02:30"));
    assert!(!press(&mut state, KeyCode::Esc));
}

#[test]
fn memory_is_bounded_however_long_it_runs() {
    let mut state = state(8);
    for at in 0..2000 {
        state.add(look(8, at));
    }
    assert_eq!(state.looks.len(), 600);
    let mut state = self::state(4000);
    for at in 0..100 {
        state.add(look(4000, at));
    }
    assert!(state.looks.len() <= 50, "{}", state.looks.len());
}
