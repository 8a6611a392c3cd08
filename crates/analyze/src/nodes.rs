//! What the node sampler saw around the calls: power and energy, and what the hosts did.
//!
//! [`nodes`] makes a [`Nodes`] of a capture's samples. [`energy`] has the job's energy by phase and by what
//! the time was spent on, and [`curves`] the figures over time. [`threads`] says what the threads that call
//! NCCL did, and [`jitter`] what they did in calls that took long.
//!
//! Rule: without a sampler or without NVML, figures are null, and a [`NotSampled`] says why. Energy is what
//! the GPU's own counter says; the power, integrated over time, stands beside it as a check.

pub mod energy;
pub mod jitter;
pub mod threads;

use crate::clocks::Clocks;
pub use crate::series::NotSampled;
use crate::series::{grown, Meter, MJ_PER_J, MW_PER_W};
use crate::steps::Steps;
use crate::time::{HostTime, Nanos};
use crate::timeline::Timeline;
use capture::samples::{GPU_ENERGY, GPU_POWER, NODE_CPU, PROCESS_CPU, SAMPLER_CPU};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use tables::{Capture, Node};

/// Power, energy, CPU time, memory, disks and networks of the job's nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Nodes {
    /// Why there are no samples; null if there are some.
    #[serde(skip)]
    pub why_none: Option<NotSampled>,
    /// Energy of the job's GPUs; null if no GPU was sampled.
    pub energy: Option<energy::Energy>,
    /// By host.
    pub rows: Vec<NodeRow>,
    /// By host, in the order of NVML.
    pub gpus: Vec<GpuRow>,
    /// What threads of the job did, by rank, those that call NCCL first.
    pub threads: Vec<threads::ThreadRow>,
    /// Calls that took long on the host, and what their threads did meanwhile, by rank.
    pub jitter: Vec<jitter::JitterRow>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeRow {
    /// Host.
    pub host: String,
    /// From the first sample to the last.
    pub time_s: f64,
    /// GPUs that were sampled.
    pub gpus: u64,
    /// Why none was; null if some were.
    pub why_no_gpu: Option<String>,
    /// Energy of its GPUs, joules; null if not known.
    pub energy_j: Option<f64>,
    /// Mean power of its GPUs together, watts; null if not known.
    pub mean_w: Option<f64>,
    /// CPUs that were busy with any program, on average.
    pub cpus_busy: Option<f64>,
    /// CPUs that the job's processes kept busy, on average.
    pub job_cpus_busy: Option<f64>,
    /// CPUs of the node that the sampler may use.
    pub cpus: Option<u64>,
    /// Threads of the job that were ready and had no CPU, on average.
    pub job_threads_ready: Option<f64>,
    /// Memory of the node that programs can't have, at most, bytes.
    pub memory_bytes: Option<u64>,
    /// Bytes read from disks.
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to disks.
    pub disk_written_bytes: Option<u64>,
    /// Received by network interfaces, bytes.
    pub net_received_bytes: Option<u64>,
    /// Sent by network interfaces, bytes.
    pub net_sent_bytes: Option<u64>,
    /// Received by InfiniBand ports, bytes.
    pub ib_received_bytes: Option<u64>,
    /// Sent by InfiniBand ports, bytes.
    pub ib_sent_bytes: Option<u64>,
    /// CPU time of the sampler, as a share of one core.
    pub sampler_share: Option<f64>,
    /// Time that the sampler spent in NVML, as a share.
    pub sampler_in_nvml_share: Option<f64>,
    /// Ticks that the sampler left out.
    pub sampler_late_ticks: Option<u64>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GpuRow {
    /// Host.
    pub host: String,
    /// The GPU's UUID; text shows its beginning.
    pub uuid: String,
    /// Its product name.
    pub name: String,
    /// Energy by its counter, joules; null if it has none.
    pub counter_j: Option<f64>,
    /// Energy by its power, integrated over the same time, joules; null if the GPU does not tell.
    pub integrated_j: Option<f64>,
    /// By which share that is more than the counter's; null if one of both is not known.
    pub gap: Option<f64>,
    /// Mean power by its energy, watts; null if the GPU does not tell.
    pub mean_w: Option<f64>,
    /// Largest power that was read, watts. NVML gives a mean over a second on most GPUs.
    pub max_w: Option<f64>,
    /// Mean clock of its multiprocessors (SMs), MHz.
    pub sm_mhz: Option<f64>,
    /// Share of the samples in which clocks were held down, by reason.
    pub throttled: BTreeMap<Throttle, f64>,
    /// Highest temperature, degrees Celsius.
    pub temperature_c: Option<u64>,
    /// From the node's first sample to the last that this GPU gave, if it gave none any more while the node
    /// was sampled on; else null.
    pub lost_after_s: Option<f64>,
    /// Memory in use at most, bytes.
    pub memory_bytes: Option<u64>,
    /// Mean share of the time in which a kernel ran, as NVML has it.
    pub busy: Option<f64>,
    /// Sent over its NVLinks, bytes.
    pub nvlink_sent_bytes: Option<u64>,
    /// Received over its NVLinks, bytes.
    pub nvlink_received_bytes: Option<u64>,
    /// What each of its NVLinks carried; empty where that was not sampled.
    pub nvlinks: Vec<LinkRow>,
    /// Sent over PCIe, bytes.
    pub pcie_sent_bytes: Option<u64>,
    /// Received over PCIe, bytes.
    pub pcie_received_bytes: Option<u64>,
}

/// One NVLink of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkRow {
    /// Its number on the GPU.
    pub link: u32,
    /// Sent over it, bytes.
    pub sent_bytes: Option<u64>,
    /// Received over it, bytes.
    pub received_bytes: Option<u64>,
}

/// A GPU that gave no figure for so long before the node's last sample has gone: ten ticks. All sources are
/// read in the last one.
const GONE: Nanos = Nanos::SECOND;

/// Why the clocks of a GPU are held down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Throttle {
    /// The hardware slows it: power brake or temperature.
    HardwareSlowdown,
    /// The hardware does, for its temperature.
    HardwareThermal,
    /// It would exceed its power limit.
    PowerCap,
    /// The driver slows it for its temperature.
    SoftwareThermal,
    /// Another GPU of its group is slower.
    SyncBoost,
}

impl Throttle {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Throttle::HardwareSlowdown => "hardware_slowdown",
            Throttle::HardwareThermal => "hardware_thermal",
            Throttle::PowerCap => "power_cap",
            Throttle::SoftwareThermal => "software_thermal",
            Throttle::SyncBoost => "sync_boost",
        }
    }
}

/// NVML's reasons for low clocks that are no choice of the user: bits, and what they mean.
const THROTTLED: [(u64, Throttle); 5] = [
    (0x4, Throttle::PowerCap),
    (0x8 | 0x80, Throttle::HardwareSlowdown),
    (0x20, Throttle::SoftwareThermal),
    (0x40, Throttle::HardwareThermal),
    (0x10, Throttle::SyncBoost),
];

/// Everything that samples say of the job. `timeline` and `steps` are those of the report.
pub fn nodes(
    capture: &Capture,
    timeline: Option<&Timeline>,
    steps: Option<&Steps>,
    clocks: Option<&Clocks>,
    jitter: Vec<jitter::JitterRow>,
) -> Nodes {
    if capture.nodes.is_empty() {
        return Nodes {
            why_none: Some(why_none(capture)),
            ..Nodes::default()
        };
    }
    Nodes {
        why_none: None,
        energy: energy::energy(capture, timeline, steps, clocks),
        rows: capture.nodes.iter().map(row).collect(),
        gpus: capture.nodes.iter().flat_map(gpus).collect(),
        threads: threads::rows(capture),
        jitter,
    }
}

fn why_none(capture: &Capture) -> NotSampled {
    if capture.job.is_object() {
        NotSampled::Off
    } else {
        NotSampled::NotRun
    }
}

/// The sum of what all series of a name grew by; `None` without one.
fn sum(node: &Node, name: &str) -> Option<u64> {
    let grown = node.named(name).filter_map(grown);
    grown.reduce(u64::saturating_add)
}

fn highest(points: &[(i64, u64)]) -> Option<u64> {
    points.iter().map(|(_, value)| *value).max()
}

fn mean(points: &[(i64, u64)]) -> Option<f64> {
    let sum: f64 = points.iter().map(|(_, value)| *value as f64).sum();
    (!points.is_empty()).then(|| sum / points.len() as f64)
}

fn row(node: &Node) -> NodeRow {
    let time = node
        .span()
        .map_or(Nanos::ZERO, |(from, to)| HostTime(to) - HostTime(from));
    let seconds = time.seconds();
    let per_second = |sum: Option<u64>, unit: f64| {
        sum.filter(|_| seconds > 0.0)
            .map(|sum| sum as f64 / unit / seconds)
    };
    let used: Vec<f64> = node
        .gpus()
        .filter_map(|(uuid, _)| Meter::of(node, uuid)?.all().map(|(joules, _)| joules))
        .collect();
    let energy_j = (!used.is_empty()).then(|| used.iter().sum::<f64>());
    NodeRow {
        host: node.host.clone(),
        time_s: seconds,
        gpus: node.gpus().count() as u64,
        why_no_gpu: node.fact("nvml_missing").map(str::to_owned),
        energy_j,
        mean_w: energy_j
            .filter(|_| seconds > 0.0)
            .map(|joules| joules / seconds),
        cpus_busy: per_second(sum(node, NODE_CPU), 1e6),
        job_cpus_busy: per_second(sum(node, PROCESS_CPU), 1e6),
        cpus: node.fact("cpus").and_then(|cpus| cpus.parse().ok()),
        job_threads_ready: per_second(sum(node, "process_ready_ns"), 1e9),
        memory_bytes: node
            .of("node_memory_bytes", "")
            .and_then(|series| highest(&series.points)),
        disk_read_bytes: sum(node, "disk_read_bytes"),
        disk_written_bytes: sum(node, "disk_written_bytes"),
        net_received_bytes: sum(node, "net_received_bytes"),
        net_sent_bytes: sum(node, "net_sent_bytes"),
        ib_received_bytes: sum(node, "ib_received_bytes"),
        ib_sent_bytes: sum(node, "ib_sent_bytes"),
        sampler_share: per_second(sum(node, SAMPLER_CPU), 1e6),
        sampler_in_nvml_share: node
            .named("sampler_gpu_us")
            .next()
            .and_then(|_| per_second(sum(node, "sampler_gpu_us"), 1e6)),
        sampler_late_ticks: node
            .of("sampler_late_ticks", "")
            .and_then(|series| series.points.last())
            .map(|(_, ticks)| *ticks),
    }
}

/// When a GPU gave its last figure, if that was long before the node's last sample, s after the first.
///
/// A run that was killed has no last tick. Then figures are as old as they are seldom.
fn lost_after(node: &Node, uuid: &str) -> Option<f64> {
    let (begin, end) = node.span()?;
    let (begin, end) = (HostTime(begin), HostTime(end));
    let own = [GPU_ENERGY, GPU_POWER];
    let mut series = own.iter().filter_map(|name| node.of(name, uuid));
    let points = &series.next()?.points;
    let last = HostTime(points.last()?.0);
    let pauses = points.windows(2);
    let pauses = pauses.map(|pair| HostTime(pair[1].0) - HostTime(pair[0].0));
    let usual = pauses.max().unwrap_or_default();
    (end - last > GONE.max(usual * 2.0)).then(|| (last - begin).seconds())
}

/// What the links of a GPU carried, by number.
fn nvlinks(node: &Node, uuid: &str) -> Vec<LinkRow> {
    let mut links: BTreeMap<u32, [Option<u64>; 2]> = BTreeMap::new();
    let names = [
        "gpu_nvlink_link_sent_bytes",
        "gpu_nvlink_link_received_bytes",
    ];
    for (way, name) in names.into_iter().enumerate() {
        for series in node.named(name) {
            let of = series.of.rsplit_once('/').filter(|(of, _)| *of == uuid);
            if let Some(link) = of.and_then(|(_, link)| link.parse().ok()) {
                links.entry(link).or_default()[way] = grown(series);
            }
        }
    }
    let links = links.into_iter();
    links
        .map(|(link, [sent_bytes, received_bytes])| LinkRow {
            link,
            sent_bytes,
            received_bytes,
        })
        .collect()
}

fn gpus(node: &Node) -> impl Iterator<Item = GpuRow> + '_ {
    node.gpus().map(|(uuid, name)| {
        let points = |name: &str| node.of(name, uuid).map(|series| series.points.as_slice());
        let grew = |name: &str| node.of(name, uuid).and_then(grown);
        let meter = Meter::of(node, uuid);
        let counter_j = grew(GPU_ENERGY).map(|mj| mj as f64 / MJ_PER_J);
        let integrated_j = meter.as_ref().and_then(Meter::integrated);
        let all = meter.as_ref().and_then(Meter::all);
        let gap = counter_j
            .zip(integrated_j)
            .filter(|(counter, _)| *counter > 0.0)
            .map(|(counter, integrated)| integrated / counter - 1.0);
        let throttle = points("gpu_throttle").unwrap_or_default();
        let throttled = THROTTLED.iter().filter_map(|(bits, reason)| {
            let held = throttle
                .iter()
                .filter(|(_, value)| value & bits != 0)
                .count();
            (held > 0).then(|| (*reason, held as f64 / throttle.len() as f64))
        });
        GpuRow {
            host: node.host.clone(),
            uuid: uuid.to_owned(),
            name: name.to_owned(),
            counter_j,
            integrated_j,
            gap,
            mean_w: all
                .filter(|(_, time)| *time > Nanos::ZERO)
                .map(|(joules, time)| joules / time.seconds()),
            max_w: points(GPU_POWER)
                .and_then(highest)
                .map(|mw| mw as f64 / MW_PER_W),
            sm_mhz: points("gpu_sm_mhz").and_then(mean),
            throttled: throttled.collect(),
            temperature_c: points("gpu_temperature_c").and_then(highest),
            lost_after_s: lost_after(node, uuid),
            memory_bytes: points("gpu_memory_bytes").and_then(highest),
            busy: points("gpu_busy_percent")
                .and_then(mean)
                .map(|percent| percent / 100.0),
            nvlink_sent_bytes: grew("gpu_nvlink_sent_bytes"),
            nvlink_received_bytes: grew("gpu_nvlink_received_bytes"),
            nvlinks: nvlinks(node, uuid),
            pcie_sent_bytes: grew("gpu_pcie_sent_bytes"),
            pcie_received_bytes: grew("gpu_pcie_received_bytes"),
        }
    })
}
