//! What a plugin costs: the same callbacks to it and to an empty plugin, in turns.
//!
//! A case is a rate and a number of channels. Its process drives one communicator with one calling thread and one
//! progress thread. First slices of calls go to the plugin and to an empty plugin by turns, and the median difference of
//! neighbours is the plugin's cost; then a steady stretch goes to each alone, where every callback is timed for the tail, and
//! the processor time of threads that are not ours is the plugin's own.
//!
//! Rule: both plugins get the same events, those that the plugin's mask asks for, and both are timed by the same clock
//! reads, so whatever the driver costs is in both and cancels.

use crate::event::{Coll, Event, Handle, Seat, StateArgs};
use crate::output;
use crate::plugin::{Choice, Identity, Loader, Profiler, Table, Version};
use anyhow::{bail, Context};
use clap::Args;
use nccl_abi::event::*;
use nccl_abi::{state, v5};
use serde_json::{json, Value};
use std::ffi::{c_char, c_int, c_void};
use std::process::{Command, Stdio};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// As NCCL_PROFILER_PLUGIN.
    #[arg(long)]
    pub plugin: Option<String>,
    /// NCCL release to simulate.
    #[arg(long, default_value = "2.28.9", value_parser = parse_version)]
    pub nccl: Version,
    /// Calls per second; 0 is as fast as they go.
    #[arg(long, value_delimiter = ',', default_value = "10000,0")]
    pub rate: Vec<u64>,
    /// Channels of each call; two values give the cost of one more channel.
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    pub channels: Vec<u8>,
    /// Calls to each plugin in the alternating part.
    #[arg(long, default_value_t = 40_000)]
    pub calls: u64,
    /// Length of the steady part with each plugin.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Processes that run at once.
    #[arg(long, default_value_t = 1)]
    pub ranks: usize,
    /// Leave KernelCh out, whatever the plugin asks for.
    #[arg(long)]
    pub no_kernel_ch: bool,
    /// Network operations for each channel (2 steps each), where the plugin asks for them.
    #[arg(long)]
    pub proxy_ops: bool,
    /// One JSON line for each case.
    #[arg(long)]
    pub json: bool,
    /// Measure the one case here, in this process.
    #[arg(long, hide = true)]
    pub here: bool,
}

fn parse_version(text: &str) -> Result<Version, String> {
    let found = Version::parse(text).filter(|v| v.native_abi().is_some());
    found.ok_or_else(|| format!("expected one of {}", Version::known()))
}

/// Measures and prints. `Ok(false)` when a process failed.
///
/// # Errors
/// When the plugin can't be loaded.
pub fn run(settings: &Settings) -> anyhow::Result<bool> {
    if settings.here {
        output::line(case(settings)?)?;
        return Ok(true);
    }
    let program = std::env::current_exe()?;
    let mut previous: Option<(u64, Value)> = None;
    if !settings.json {
        output::line(format_args!(
            "{:>8} {:>4} {:>14} {:>14} {:>12} {:>10} {:>10} {:>10} {:>8} {:>8}",
            "calls/s",
            "ch",
            "call ns",
            "progress ns",
            "per channel",
            "p99.99 us",
            "max us",
            "(empty) us",
            "own CPU",
            "RSS MiB"
        ))?;
    }
    for rate in &settings.rate {
        for channels in &settings.channels {
            let mut children = Vec::new();
            for rank in 0..settings.ranks {
                let mut command = Command::new(&program);
                command
                    .args(["bench", "--here", "--nccl", &settings.nccl.to_string()])
                    .args([
                        "--rate",
                        &rate.to_string(),
                        "--channels",
                        &channels.to_string(),
                    ])
                    .args(["--calls", &settings.calls.to_string()])
                    .args(["--seconds", &settings.seconds.to_string()])
                    .args(settings.no_kernel_ch.then_some("--no-kernel-ch"))
                    .args(settings.proxy_ops.then_some("--proxy-ops"))
                    .env("RANK", rank.to_string())
                    .env("WORLD_SIZE", settings.ranks.to_string())
                    .env("LOCAL_RANK", rank.to_string())
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped());
                if let Some(plugin) = &settings.plugin {
                    command.env("NCCL_PROFILER_PLUGIN", plugin);
                }
                children.push(command.spawn()?);
            }
            let mut cases = Vec::new();
            for child in children {
                let output = child.wait_with_output()?;
                let text = String::from_utf8_lossy(&output.stdout);
                let line = text.lines().last().unwrap_or_default();
                if !output.status.success() {
                    bail!("a process of the measurement failed: {}", output.status);
                }
                cases.push(serde_json::from_str::<Value>(line).context("a process said nothing")?);
            }
            for (rank, mut case) in cases.into_iter().enumerate() {
                case["rank"] = json!(rank);
                let per_channel = previous.as_ref().and_then(|(at, before)| {
                    let more = u64::from(*channels).checked_sub(before["channels"].as_u64()?)?;
                    let cost = case["progress_ns"].as_f64()? - before["progress_ns"].as_f64()?;
                    (at == rate && more > 0).then(|| cost / more as f64)
                });
                case["per_channel_ns"] = json!(per_channel);
                if settings.json {
                    output::line(&case)?;
                } else {
                    print_row(&case)?;
                }
                if rank == 0 {
                    previous = Some((*rate, case));
                }
            }
        }
    }
    if !settings.json {
        output::line("Costs are medians ± half the middle half; an empty plugin's cost on the same events is subtracted.")?;
    }
    Ok(true)
}

fn print_row(case: &Value) -> std::io::Result<()> {
    let number = |value: &Value, digits: usize| match value.as_f64() {
        Some(n) => format!("{n:.digits$}"),
        None => "-".into(),
    };
    let rate = match case["rate"].as_u64() {
        Some(0) => "flat out".into(),
        rate => rate.unwrap_or(0).to_string(),
    };
    let spread = |value: &str, spread: &str| {
        format!("{} ± {}", number(&case[value], 0), number(&case[spread], 0))
    };
    output::line(format_args!(
        "{rate:>8} {:>4} {:>14} {:>14} {:>12} {:>10} {:>10} {:>10} {:>7}% {:>8}",
        number(&case["channels"], 0),
        spread("call_ns", "call_spread_ns"),
        spread("progress_ns", "progress_spread_ns"),
        number(&case["per_channel_ns"], 1),
        number(&case["p9999_us"], 1),
        number(&case["max_us"], 1),
        number(&case["empty_max_us"], 1),
        number(&case["own_cpu_percent"], 2),
        number(&case["rss_growth_mib"], 1),
    ))
}

static EMPTY_MASK: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" fn empty_init(
    context: *mut *mut c_void,
    _id: u64,
    mask: *mut c_int,
    _name: *const c_char,
    _nodes: c_int,
    _ranks: c_int,
    _rank: c_int,
    _logger: nccl_abi::Logger,
) -> c_int {
    // SAFETY: our own loader passes both places.
    unsafe {
        *context = std::ptr::without_provenance_mut(1);
        AtomicI32::from_ptr(mask).store(EMPTY_MASK.load(Relaxed), Relaxed);
    }
    0
}

unsafe extern "C" fn empty_start(
    _context: *mut c_void,
    handle: *mut *mut c_void,
    _descr: *mut v5::Descr,
) -> c_int {
    // SAFETY: our own driver passes a place for the handle.
    unsafe { *handle = std::ptr::without_provenance_mut(1) };
    0
}

unsafe extern "C" fn empty_stop(_handle: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn empty_state(
    _handle: *mut c_void,
    _state: u32,
    _args: *mut v5::StateArgs,
) -> c_int {
    0
}

/// A plugin whose callbacks return at once. Its ABI is whatever the seat says, but its `init` is of v5 and later.
static EMPTY: v5::Profiler = v5::Profiler {
    name: c"empty".as_ptr(),
    init: Some(empty_init),
    start_event: Some(empty_start),
    stop_event: Some(empty_stop),
    record_event_state: Some(empty_state),
    finalize: Some(empty_stop),
};

/// An operation on its way to the progress thread: its Coll handle, and whose it is.
struct Ring {
    slots: Box<[AtomicU64]>,
    head: AtomicU64,
    tail: AtomicU64,
}

const SLOTS: usize = 1 << 16;
/// Handles are 64 bits, so whose they are goes in a slot of its own.
const LANE: u64 = 2;

impl Ring {
    fn push(&self, lane: u64, handle: Handle) {
        let at = self.head.load(Relaxed);
        // Pairs with the Release in `pop`: the slot is read before it is written again.
        while at - self.tail.load(Acquire) >= SLOTS as u64 / LANE {
            std::hint::spin_loop();
        }
        let slot = (at * LANE) as usize % SLOTS;
        self.slots[slot].store(lane, Relaxed);
        self.slots[slot + 1].store(handle.0 as u64, Relaxed);
        // Pairs with the Acquire in `pop`.
        self.head.store(at + 1, Release);
    }

    fn pop(&self) -> Option<(usize, Handle)> {
        let at = self.tail.load(Relaxed);
        if at == self.head.load(Acquire) {
            return None;
        }
        let slot = (at * LANE) as usize % SLOTS;
        let found = (
            self.slots[slot].load(Relaxed) as usize,
            Handle(self.slots[slot + 1].load(Relaxed) as usize),
        );
        self.tail.store(at + 1, Release);
        Some(found)
    }

    fn drained(&self) -> bool {
        self.tail.load(Acquire) == self.head.load(Relaxed)
    }
}

/// Durations in bins of 16 ns, and beyond 16 µs of 1/64 of their magnitude.
struct Tail {
    bins: Vec<u64>,
    max: u64,
}

impl Tail {
    fn new() -> Self {
        Tail {
            bins: vec![0; 1024 + 64 * 50],
            max: 0,
        }
    }

    fn add(&mut self, ns: u64) {
        let bin = match ns {
            0..16384 => (ns / 16) as usize,
            _ => {
                let magnitude = 63 - ns.leading_zeros() as usize;
                1024 + (magnitude - 14) * 64 + ((ns >> (magnitude - 6)) & 63) as usize
            }
        };
        self.bins[bin] += 1;
        self.max = self.max.max(ns);
    }

    fn merge(&mut self, other: &Tail) {
        for (a, b) in self.bins.iter_mut().zip(&other.bins) {
            *a += b;
        }
        self.max = self.max.max(other.max);
    }

    /// Upper edge of the bin that holds this part of all.
    fn quantile(&self, q: f64) -> u64 {
        let all: u64 = self.bins.iter().sum();
        let mut left = (all as f64 * q).ceil() as u64;
        for (bin, n) in self.bins.iter().enumerate() {
            if *n >= left {
                let edge = match bin {
                    0..1024 => 16 * (bin as u64 + 1),
                    _ => {
                        let (magnitude, low) = ((bin - 1024) / 64 + 14, (bin - 1024) as u64 % 64);
                        (65 + low) << (magnitude - 6)
                    }
                };
                return edge.min(self.max);
            }
            left -= n;
        }
        self.max
    }
}

/// One plugin under the driver.
struct Lane {
    profiler: Profiler,
    mask: u64,
    seq: u64,
    channels: u8,
    proxy_ops: bool,
}

/// Times single callbacks, or doesn't.
trait Watch {
    fn callback(&mut self, call: impl FnOnce());
}

/// Not each for itself.
struct Blind;

impl Watch for Blind {
    #[inline]
    fn callback(&mut self, call: impl FnOnce()) {
        call();
    }
}

impl Watch for Tail {
    #[inline]
    fn callback(&mut self, call: impl FnOnce()) {
        let began = Instant::now();
        call();
        self.add(began.elapsed().as_nanos() as u64);
    }
}

impl Lane {
    /// The calling thread's callbacks of one AllReduce; the Coll handle.
    fn call(&mut self, watch: &mut impl Watch) -> Handle {
        let p = &self.profiler;
        let api = p.table.seat.abi >= 5;
        let start = |watch: &mut dyn FnMut(&mut dyn FnMut()), event: &Event, parent: Handle| {
            let mut handle = Handle::NULL;
            watch(&mut || {
                p.start(event, parent, 0, &mut handle);
            });
            handle
        };
        let mut each = |call: &mut dyn FnMut()| watch.callback(call);
        let mut group_api = Handle::NULL;
        let mut coll_api = Handle::NULL;
        if api && self.mask & 0x7fdf != 0 {
            let event = Event::GroupApi {
                captured: false,
                depth: 1,
            };
            group_api = start(&mut each, &event, Handle::NULL);
            each(&mut || {
                p.table
                    .state(group_api, state::GROUP_START_API_STOP, StateArgs::Null)
            });
            if self.mask & (COLL_API | COLL | PROXY_OP | PROXY_STEP | KERNEL_CH | CE_COLL) != 0 {
                let event = Event::CollApi {
                    func: c"AllReduce",
                    count: 262_144,
                    datatype: c"ncclFloat32",
                    root: 0,
                    stream: 0x7f00_0000_1000,
                    captured: false,
                    tag: 0,
                };
                coll_api = start(&mut each, &event, group_api);
                each(&mut || p.table.stop(coll_api));
            }
            each(&mut || {
                p.table
                    .state(group_api, state::GROUP_END_API_START, StateArgs::Null)
            });
            if self.mask & KERNEL_LAUNCH != 0 {
                let event = Event::KernelLaunch {
                    stream: 0x7f00_0000_1000,
                };
                let launch = start(&mut each, &event, group_api);
                each(&mut || p.table.stop(launch));
            }
        }
        let mut coll = Handle::NULL;
        let below = self.mask & (COLL | PROXY_OP | PROXY_STEP | KERNEL_CH) != 0;
        if below || self.mask & (GROUP | P2P) != 0 {
            let group = start(&mut each, &Event::Group, Handle::NULL);
            if below {
                let event = Event::Coll(Coll {
                    comm_name: std::ptr::null(),
                    comm_hash: 1,
                    seq: self.seq,
                    func: c"AllReduce",
                    send: 0x7f00_0000_0000,
                    recv: 0x7f00_1000_0000,
                    count: 262_144,
                    root: 0,
                    datatype: c"ncclFloat32",
                    channels: self.channels,
                    max_channels: self.channels,
                    warps: 16,
                    algo: c"RING",
                    proto: c"LL128",
                    group,
                    variant: None,
                    tag: 0,
                });
                coll = start(&mut each, &event, if api { coll_api } else { group });
                each(&mut || p.table.stop(coll));
            }
            each(&mut || p.table.stop(group));
        }
        self.seq += 1;
        if group_api != Handle::NULL {
            each(&mut || p.table.stop(group_api));
        }
        coll
    }

    /// Whether the progress thread has anything to do.
    fn progresses(&self) -> bool {
        self.kernel_ch() || (self.proxy_ops && self.mask & (PROXY_OP | PROXY_STEP) != 0)
    }

    fn kernel_ch(&self) -> bool {
        self.mask & KERNEL_CH != 0 && self.profiler.table.seat.abi >= 3
    }

    /// The progress thread's callbacks of one operation, which ran `at` on the GPU.
    fn progress(&self, coll: Handle, at: u64, watch: &mut impl Watch) {
        let p = &self.profiler;
        let mut handle = Handle::NULL;
        for channel in 0..self.channels {
            if self.kernel_ch() {
                let event = Event::KernelCh { channel, stamp: at };
                watch.callback(|| {
                    p.start(&event, coll, 0, &mut handle);
                });
                let args = StateArgs::KernelCh { stamp: at + 20_000 };
                watch.callback(|| p.table.state(handle, state::KERNEL_CH_STOP, args));
                watch.callback(|| p.table.stop(handle));
            }
            if self.proxy_ops && self.mask & (PROXY_OP | PROXY_STEP) != 0 {
                self.network(coll, channel, watch);
            }
        }
    }

    fn network(&self, coll: Handle, channel: u8, watch: &mut impl Watch) {
        let p = &self.profiler;
        let event = Event::ProxyOp {
            pid: std::process::id() as i32,
            channel,
            peer: 1,
            steps: 2,
            chunk: 1 << 19,
            send: true,
        };
        let mut op = Handle::NULL;
        watch.callback(|| {
            p.start(&event, coll, 0, &mut op);
        });
        watch.callback(|| {
            p.table
                .state(op, state::PROXY_OP_IN_PROGRESS, StateArgs::Null)
        });
        if self.mask & PROXY_STEP != 0 {
            for step in 0..2 {
                let mut handle = Handle::NULL;
                watch.callback(|| {
                    p.start(&Event::ProxyStep { step }, op, 0, &mut handle);
                });
                for value in [
                    state::PROXY_STEP_SEND_GPU_WAIT,
                    state::PROXY_STEP_SEND_PEER_WAIT,
                    state::PROXY_STEP_SEND_WAIT,
                ] {
                    let args = StateArgs::ProxyStep { bytes: 1 << 19 };
                    watch.callback(|| p.table.state(handle, value, args));
                }
                watch.callback(|| p.table.stop(handle));
            }
        }
        watch.callback(|| p.table.stop(op));
    }
}

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok());
    // SAFETY: a plain query.
    pages.unwrap_or(0) * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the struct it is given.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

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

fn case(settings: &Settings) -> anyhow::Result<Value> {
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
    EMPTY_MASK.store(mask as i32, Relaxed);
    let seat = Seat {
        abi: abi.max(5),
        ..profiler.table.seat
    };
    // SAFETY: EMPTY is whole and static.
    let empty = Loader::with_table(settings.nccl, unsafe { Table::new(seat, &EMPTY) });
    let mut empty = empty.init(&of).context("the empty plugin's init")?;
    empty.table.seat.abi = abi;
    let (rate, channels) = (settings.rate[0], settings.channels[0]);
    let lane = |profiler: Profiler| Lane {
        profiler,
        mask,
        seq: 0,
        channels,
        proxy_ops: settings.proxy_ops,
    };
    let under_test = profiler.clone();
    let mut lanes = [lane(empty), lane(profiler)];
    let shared = Shared {
        ring: Ring {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        },
        ended: AtomicBool::new(false),
        watched: AtomicBool::new(false),
        busy: Default::default(),
        cpu: AtomicU64::new(0),
    };
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

fn drive(settings: &Settings, rate: u64, lanes: &mut [Lane; 2], shared: &Shared) -> Measured {
    let gap = Duration::from_nanos(1_000_000_000u64.checked_div(rate).unwrap_or(0));
    let mut next = Instant::now();
    let mut pace = || {
        if rate > 0 {
            next = (next + gap).max(Instant::now() - gap);
            while Instant::now() < next {
                std::hint::spin_loop();
            }
        }
    };
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
                pace();
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
        while !shared.ring.drained() {
            std::thread::yield_now();
        }
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
    let mut line = json!({
        "rate": rate, "channels": settings.channels[0], "calls_measured": slices / 2 * slice, "slices": slices / 2,
        "call_ns": call, "call_spread_ns": call_spread,
        "progress_ns": progress, "progress_spread_ns": progress_spread,
    });
    shared.watched.store(true, Relaxed);
    let mut tails = [Tail::new(), Tail::new()];
    for (which, tail) in tails.iter_mut().enumerate() {
        let lane = &mut lanes[which];
        let posts = lane.progresses();
        let cpu = || {
            let ours = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID) + shared.cpu.load(Relaxed);
            cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(ours)
        };
        let (rss, own, began, seq) = (resident_bytes(), cpu(), Instant::now(), lane.seq);
        while began.elapsed().as_secs_f64() < settings.seconds {
            pace();
            let coll = lane.call(tail);
            if posts {
                shared.ring.push(which as u64, coll);
            }
        }
        while !shared.ring.drained() {
            std::thread::yield_now();
        }
        if which == 1 {
            let seconds = began.elapsed().as_secs_f64();
            line["steady_calls"] = json!(lane.seq - seq);
            line["steady_seconds"] = json!(seconds);
            line["own_cpu_percent"] = json!(cpu().saturating_sub(own) as f64 / seconds / 1e7);
            line["rss_growth_mib"] =
                json!(resident_bytes().saturating_sub(rss) as f64 / f64::from(1 << 20));
        }
    }
    Measured { line, tails }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_tail_are_within_a_bin() {
        let mut tail = Tail::new();
        for ns in 1..=100_000u64 {
            tail.add(ns);
        }
        for q in [0.1, 0.5, 0.99, 0.9999] {
            let (found, exact) = (tail.quantile(q) as f64, 100_000.0 * q);
            assert!(
                (found - exact).abs() <= (exact / 60.0).max(16.0),
                "{q}: {found}"
            );
        }
        assert_eq!(tail.quantile(1.0), 100_000);
        tail.add(u64::from(u32::MAX) * 1000);
        assert_eq!(tail.max, u64::from(u32::MAX) * 1000);
    }

    #[test]
    fn ring_keeps_order_and_lanes() {
        let ring = Ring {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        };
        for i in 0..100_000u64 {
            ring.push(i % 2, Handle(i as usize));
            assert_eq!(ring.pop(), Some(((i % 2) as usize, Handle(i as usize))));
        }
        assert!(ring.drained() && ring.pop().is_none());
    }
}
