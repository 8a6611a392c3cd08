//! What other parts of the report know of each rank, in the rank's own row: how long it waited, how often it
//! was last, how much of its communication is exposed, and what it costs.

use super::{Finding, RankId};
use crate::ranks::Ranks;
use crate::subject::gpu;
use crate::Report;
use std::collections::HashMap;
use tables::Capture;

/// Host, process and CUDA device.
type Lane<'a> = (&'a str, u32, Option<u32>);

/// Fills in the last columns of the report's ranks, and reads everything else of it.
pub(crate) fn judge(report: &mut Report, capture: &Capture) {
    let mut ranks = std::mem::take(&mut report.ranks);
    let came = report.arrivals.iter().flat_map(|arrivals| &arrivals.ranks);
    let came = came.map(|of| ((&*of.process.host, of.process.pid, of.device), of));
    let came: HashMap<Lane<'_>, _> = came.collect();
    let exposed = exposed(report);
    for row in &mut ranks.rows {
        let lane = (&*row.process.host, row.process.pid, row.device);
        let came = came.get(&lane);
        row.operations = came.map(|of| of.operations);
        row.last = came.map(|of| of.last);
        let waited = came.and_then(|of| Some(report.arrivals.as_ref()?.waited_us(of)));
        // The first calls of communicators are in its time in NCCL, and not in this.
        row.waited_us = waited.map(|us| us.min(row.nccl_us.unwrap_or(us)));
        row.exposed_share = exposed.get(&lane).copied();
    }
    costs(&mut ranks, &report.findings);
    for row in &mut ranks.rows {
        let id = RankId::new(row.process.clone(), row.device);
        row.gpu = gpu(&id, capture);
    }
    report.ranks = ranks;
}

/// The share of exposed communication by rank: of kernel windows, or else of stream waits.
fn exposed(report: &Report) -> HashMap<Lane<'_>, f64> {
    let windows = report.streams.iter().flat_map(|streams| &streams.ranks);
    let windows: HashMap<Lane<'_>, f64> = windows
        .map(|of| {
            (
                (&*of.process.host, of.process.pid, Some(of.device)),
                of.exposed.share,
            )
        })
        .collect();
    if !windows.is_empty() {
        return windows;
    }
    let waits = report.stream_waits.iter().filter(|waits| waits.tells());
    waits
        .flat_map(|waits| &waits.ranks)
        .map(|of| {
            (
                (&*of.process.host, of.process.pid, of.device),
                of.share.share,
            )
        })
        .collect()
}

/// The largest loss of the findings that blame a rank alone.
fn costs(ranks: &mut Ranks, findings: &[Finding]) {
    for finding in findings {
        let [of] = &finding.subject.ranks[..] else {
            continue;
        };
        let Some(loss) = finding.wall_us() else {
            continue;
        };
        let process = ranks.rows.iter_mut();
        let process = process.filter(|row| {
            (row.process.pid, &row.process.host) == (of.process.pid, &of.process.host)
        });
        for row in process.filter(|row| of.device.is_none() || of.device == row.device) {
            row.loss_us = Some(row.loss_us.map_or(loss, |most| most.max(loss)));
        }
    }
}
