//! Why the GPU of a late rank is busy: what kernel windows say of it and the others, and their clocks.

use super::{Advice, Cause, Evidence, Finding, Kind, RankId};
use crate::account::Account;
use crate::nodes::{GpuRow, Throttle};
use crate::statistics::median;
use crate::streams::{Busier, MoreOften, Streams, MOST};
use crate::subject::{gpu, plain_uuid};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use tables::Capture;

/// What makes a GPU busier than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BusierBy {
    /// It runs kernels more often: the program's doing.
    MoreKernels,
    /// The same kernels take longer on it: the machine's doing, or that of more data.
    LongerKernels,
}

/// Why a GPU is busy for longer than others.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyGpu {
    /// What most of it is.
    pub by: BusierBy,
    /// What it is held against: the only other GPU's rank, or the median of several.
    pub other: Option<Option<u32>>,
    /// The share of the time that it computes more by more kernels, and by longer ones.
    pub share: (f64, f64),
    /// The kernel that it runs more often, if that is most of it.
    pub kernel: Option<MoreOften>,
    /// By how many times the kernels that the others run too take as long on it.
    pub pace: Option<f64>,
    /// The clock of its SMs and the median of the others', MHz, if they were sampled.
    pub sm_mhz: Option<(f64, f64)>,
    /// What held its clock down in most samples, and the others' in fewer.
    pub throttled: Vec<Throttle>,
}

impl BusyGpu {
    /// Whether the lower clock explains most of how much longer kernels take.
    pub fn is_slowed_by_clock(&self) -> bool {
        let of = self.pace.zip(self.sm_mhz);
        of.is_some_and(|(pace, (own, others))| {
            own > 0.0 && pace > 1.0 && others / own - 1.0 >= MOST * (pace - 1.0)
        })
    }
}

impl Finding {
    /// Why the GPU of a late rank is busy, if kernel windows show it.
    pub fn busy_gpu(&self) -> Option<&BusyGpu> {
        match &self.evidence {
            Evidence::Late(late) => late.busy_gpu.as_ref(),
            _ => None,
        }
    }
}

/// Adds it to ranks that are late because their GPUs are busy, where it explains most of what they cost.
/// `gpus` are all of the nodes, those too that the job does not use.
pub fn add(
    found: &mut [Finding],
    account: Option<&Account>,
    streams: Option<&Streams>,
    gpus: &[GpuRow],
    capture: &Capture,
) {
    let Some(streams) = streams else { return };
    let used = streams.ranks.iter().filter_map(|row| {
        let id = RankId::new(row.process.clone(), Some(row.device));
        Some(plain_uuid(&gpu(&id, capture)?))
    });
    let used: BTreeSet<String> = used.collect();
    let is_used = |gpu: &&GpuRow| used.contains(&plain_uuid(&gpu.uuid));
    let gpus: Vec<&GpuRow> = gpus.iter().filter(is_used).collect();
    for finding in found {
        if finding.kind() != Kind::LateRank || finding.cause != Some(Cause::Gpu) {
            continue;
        }
        let (Some(id), Some(loss)) = (finding.subject.rank(), &finding.loss) else {
            continue;
        };
        let row = streams.ranks.iter().find(|row| {
            row.process.host == id.process.host
                && row.process.pid == id.process.pid
                && id.device.is_none_or(|of| of == row.device)
        });
        let busier = row.and_then(|row| row.busier.as_ref());
        // Windows show steps, and the loss is one of steps.
        let wall_us = account.map(|account| account.wall_us).or(loss.run_us);
        let lost = wall_us.map(|wall| loss.wall_us / wall);
        let (Some(busier), Some(lost)) = (busier, lost) else {
            continue;
        };
        if !busier.explains(lost) || busier.computes() < busier.idle {
            continue;
        }
        let of = explained(busier, id.gpu.as_deref(), &gpus);
        let Evidence::Late(late) = &mut finding.evidence else {
            continue;
        };
        if finding.advice == Advice::CompareGpu {
            finding.advice = match of.by {
                BusierBy::MoreKernels => Advice::FindKernels,
                BusierBy::LongerKernels => Advice::CheckGpu,
            };
        }
        late.busy_gpu = Some(of);
    }
}

fn explained(busier: &Busier, uuid: Option<&str>, gpus: &[&GpuRow]) -> BusyGpu {
    let is_own = |gpu: &&GpuRow| uuid.is_some_and(|uuid| plain_uuid(&gpu.uuid) == plain_uuid(uuid));
    let own = gpus.iter().copied().find(is_own);
    let of_others = |pick: &dyn Fn(&GpuRow) -> Option<f64>| {
        let others = gpus.iter().copied().filter(|gpu| !is_own(gpu));
        let mut values: Vec<f64> = others.filter_map(pick).collect();
        values.sort_by(f64::total_cmp);
        median(&values)
    };
    let held = |gpu: &GpuRow, why: Throttle| gpu.throttled.get(&why).copied().unwrap_or(0.0);
    let throttled = own.map_or(Vec::new(), |own| {
        let most = own.throttled.iter().filter(|(_, share)| **share > MOST);
        let more = most.filter(|(reason, share)| {
            of_others(&|gpu| Some(held(gpu, **reason))).is_some_and(|others| **share > others)
        });
        more.map(|(reason, _)| *reason).collect()
    });
    BusyGpu {
        by: if busier.more >= busier.longer {
            BusierBy::MoreKernels
        } else {
            BusierBy::LongerKernels
        },
        other: busier.other,
        share: (busier.more, busier.longer),
        kernel: busier
            .kernel
            .clone()
            .filter(|kernel| kernel.share >= MOST * busier.more),
        pace: busier.pace,
        sm_mhz: own
            .and_then(|own| own.sm_mhz)
            .zip(of_others(&|gpu| gpu.sm_mhz)),
        throttled,
    }
}
