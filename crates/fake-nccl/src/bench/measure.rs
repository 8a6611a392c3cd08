//! Measures one case in this process.

use super::empty::{EMPTY, EMPTY_MASK};
use super::lane::Lane;
use super::resources::{cpu_ns, resident_bytes};
use super::ring::{Ring, SLOTS};
use super::settings::Settings;
use super::tail::{Blind, Tail};
use crate::event::Seat;
use crate::plugin::{Choice, Identity, Loader, PluginContext, Table};
use anyhow::Context;
use nccl_abi::event::KERNEL_CH;
use serde_json::{json, Value};
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::time::{Duration, Instant};

/// Median of the differences of neighbouring slices, and half the range of their middle half.
///
/// Neighbours share whatever else the machine was doing, so the pair's difference drifts less than either.
fn cost([empty, plugin]: [Vec<f64>; 2]) -> (f64, f64) {
    let pairs = plugin.iter().zip(&empty);
    let mut costs: Vec<f64> = pairs.map(|(plugin, empty)| plugin - empty).collect();
    costs.sort_by(f64::total_cmp);
    let at = |part: usize| costs.get(costs.len() * part / 4).copied().unwrap_or(0.0);
    (at(2), (at(3) - at(1)) / 2.0)
}

/// What the progress thread is doing, and what it has found.
struct Shared {
    ring: Ring,
    ended: AtomicBool,
    watched: AtomicBool,
    /// By lane: nanoseconds and operations since last taken.
    busy: [[AtomicU64; 2]; 2],
    cpu: AtomicU64,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            ring: Ring {
                slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
                head: AtomicU64::new(0),
                tail: AtomicU64::new(0),
            },
            ended: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            busy: Default::default(),
            cpu: AtomicU64::new(0),
        }
    }

    /// Waits until the progress thread has done all it was given.
    fn catch_up(&self) {
        while !self.ring.drained() {
            std::thread::yield_now();
        }
    }
}

/// Measures the one case that the settings have, in this process.
pub(super) fn case(settings: &Settings) -> anyhow::Result<Value> {
    let loader = Loader::new(Choice {
        version: settings.nccl,
        plugin: settings
            .plugin
            .clone()
            .or_else(|| std::env::var("NCCL_PROFILER_PLUGIN").ok()),
        highest_abi: u8::MAX,
        log_level: nccl_abi::log::LEVEL_WARN,
    });
    let rank = std::env::var("RANK").ok().and_then(|r| r.parse().ok());
    let of = Identity {
        name: None,
        hash: 1,
        nodes: 1,
        ranks: settings.ranks.max(rank.unwrap_or(0) as usize + 1).max(2) as i32,
        rank: rank.unwrap_or(0),
    };
    let profiler = loader.init(&of);
    let abi = loader.abi()?;
    let profiler = profiler.context("the plugin's init failed")?;
    let mut mask = profiler.mask();
    if settings.no_kernel_ch {
        mask &= !KERNEL_CH;
    }
    let empty = empty(settings, &of, &profiler, abi, mask)?;
    let (rate, channels) = (settings.rate[0], settings.channels[0]);
    let lane = |profiler: PluginContext| Lane {
        profiler,
        mask,
        seq: 0,
        channels,
        proxy_ops: settings.proxy_ops,
    };
    let under_test = profiler.clone();
    let mut lanes = [lane(empty), lane(profiler)];
    let shared = Shared::new();
    let followers = [0, 1].map(|i| Lane {
        profiler: lanes[i].profiler.clone(),
        ..lanes[i]
    });
    let (mut result, tails) = std::thread::scope(|scope| {
        let progress = scope.spawn(|| follow(&shared, &followers));
        let result = drive(settings, rate, &mut lanes, &shared);
        shared.ended.store(true, Release);
        (result, progress.join())
    });
    let tails = tails.map_err(|_| anyhow::anyhow!("the progress thread panicked"))?;
    for (key, tail) in [("empty_", &tails[0]), ("", &tails[1])] {
        let calling = &result.tails[usize::from(key.is_empty())];
        let mut both = Tail::new();
        both.merge(calling);
        both.merge(tail);
        result.line[format!("{key}p9999_us")] = json!(both.quantile(0.9999) as f64 / 1e3);
        result.line[format!("{key}max_us")] = json!(both.max as f64 / 1e3);
    }
    loader.finalize(under_test);
    result.line["abi"] = json!(abi);
    result.line["mask"] = json!(format!("{mask:#x}"));
    result.line["announced"] = json!(lanes[1].seq);
    Ok(result.line)
}

/// An empty plugin's link, that gets the events of `mask` at the ABI of the plugin under test.
fn empty(
    settings: &Settings,
    of: &Identity,
    profiler: &PluginContext,
    abi: u8,
    mask: u64,
) -> anyhow::Result<PluginContext> {
    EMPTY_MASK.store(mask as i32, Relaxed);
    let seat = Seat {
        abi: abi.max(5),
        ..profiler.table.seat
    };
    // SAFETY: EMPTY is whole and static.
    let empty = Loader::with_table(settings.nccl, unsafe { Table::new(seat, &EMPTY) });
    let mut empty = empty.init(of).context("the empty plugin's init")?;
    empty.table.seat.abi = abi;
    Ok(empty)
}

/// What the calling thread found.
struct Measured {
    line: Value,
    tails: [Tail; 2],
}

/// The progress thread: takes operations as they come, and yields while there are none.
fn follow(shared: &Shared, lanes: &[Lane; 2]) -> [Tail; 2] {
    let mut tails = [Tail::new(), Tail::new()];
    let mut stamp = 1_700_000_000_000_000_000u64;
    let mut since_cpu = 0;
    while !shared.ended.load(Acquire) {
        let Some((lane, coll)) = shared.ring.pop() else {
            shared
                .cpu
                .store(cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID), Relaxed);
            std::thread::yield_now();
            continue;
        };
        stamp += 32_000;
        if shared.watched.load(Relaxed) {
            lanes[lane].progress(coll, stamp, &mut tails[lane]);
        } else {
            let began = Instant::now();
            lanes[lane].progress(coll, stamp, &mut Blind);
            let took = began.elapsed().as_nanos() as u64;
            let [ns, ops] = &shared.busy[lane];
            ns.fetch_add(took, Relaxed);
            ops.fetch_add(1, Relaxed);
        }
        since_cpu += 1;
        if since_cpu % 64 == 0 {
            shared
                .cpu
                .store(cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID), Relaxed);
        }
    }
    tails
}

/// The calling thread: what calls cost, and then the steady stretches.
fn drive(settings: &Settings, rate: u64, lanes: &mut [Lane; 2], shared: &Shared) -> Measured {
    let mut pace = Pace::new(rate);
    let mut line = alternate(settings, &mut pace, lanes, shared);
    shared.watched.store(true, Relaxed);
    let mut tails = [Tail::new(), Tail::new()];
    for (which, tail) in tails.iter_mut().enumerate() {
        let steady = steady(settings, &mut pace, which, &mut lanes[which], tail, shared);
        // Of the empty plugin only the tail is shown.
        if let (1, Value::Object(steady)) = (which, steady) {
            line.as_object_mut().expect("an object").extend(steady);
        }
    }
    Measured { line, tails }
}

/// Keeps so many calls a second.
struct Pace {
    rate: u64,
    gap: Duration,
    next: Instant,
}

impl Pace {
    fn new(rate: u64) -> Pace {
        Pace {
            rate,
            gap: Duration::from_nanos(1_000_000_000u64.checked_div(rate).unwrap_or(0)),
            next: Instant::now(),
        }
    }

    /// Spins until the next call is due; not at all at rate 0.
    #[inline]
    fn wait(&mut self) {
        if self.rate > 0 {
            self.next = (self.next + self.gap).max(Instant::now() - self.gap);
            while Instant::now() < self.next {
                std::hint::spin_loop();
            }
        }
    }
}

/// Slices of calls to the empty plugin and to the one under test by turns: what a call and its progress cost.
fn alternate(
    settings: &Settings,
    pace: &mut Pace,
    lanes: &mut [Lane; 2],
    shared: &Shared,
) -> Value {
    let rate = pace.rate;
    let slice = match rate {
        0 => 4096,
        rate => (rate / 20).max(16),
    };
    let slices = (settings.calls / slice).max(8) * 2;
    let mut calls: [Vec<f64>; 2] = Default::default();
    let mut progress: [Vec<f64>; 2] = Default::default();
    for turn in 0..slices {
        let which = (turn % 2) as usize;
        let lane = &mut lanes[which];
        let posts = lane.progresses();
        let mut spent = Duration::ZERO;
        let began = Instant::now();
        for _ in 0..slice {
            let coll = if rate > 0 {
                pace.wait();
                let began = Instant::now();
                let coll = lane.call(&mut Blind);
                spent += began.elapsed();
                coll
            } else {
                lane.call(&mut Blind)
            };
            if posts {
                shared.ring.push(which as u64, coll);
            }
        }
        if rate == 0 {
            spent = began.elapsed();
        }
        shared.catch_up();
        // The first turn of each warms up.
        if turn >= 2 {
            calls[which].push(spent.as_nanos() as f64 / slice as f64);
        }
        let [ns, ops] = &shared.busy[which];
        let (ns, ops) = (ns.swap(0, Relaxed), ops.swap(0, Relaxed));
        if turn >= 2 && ops > 0 {
            progress[which].push(ns as f64 / ops as f64);
        }
    }
    let ((call, call_spread), (progress, progress_spread)) = (cost(calls), cost(progress));
    json!({
        "rate": rate, "channels": settings.channels[0], "calls_measured": slices / 2 * slice,
        "slices": slices / 2,
        "call_ns": call, "call_spread_ns": call_spread,
        "progress_ns": progress, "progress_spread_ns": progress_spread,
    })
}

/// A stretch of calls to one plugin, with every callback timed: how many, and what the plugin used meanwhile.
fn steady(
    settings: &Settings,
    pace: &mut Pace,
    which: usize,
    lane: &mut Lane,
    tail: &mut Tail,
    shared: &Shared,
) -> Value {
    let posts = lane.progresses();
    let cpu = || {
        let ours = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID) + shared.cpu.load(Relaxed);
        cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(ours)
    };
    let (rss, own, began, seq) = (resident_bytes(), cpu(), Instant::now(), lane.seq);
    while began.elapsed().as_secs_f64() < settings.seconds {
        pace.wait();
        let coll = lane.call(tail);
        if posts {
            shared.ring.push(which as u64, coll);
        }
    }
    shared.catch_up();
    let seconds = began.elapsed().as_secs_f64();
    let own = cpu().saturating_sub(own) as f64;
    let grown = resident_bytes().saturating_sub(rss) as f64;
    json!({
        "steady_calls": lane.seq - seq,
        "steady_seconds": seconds,
        "own_cpu_percent": own / seconds / 1e7,
        "rss_growth_mib": grown / f64::from(1 << 20),
    })
}
