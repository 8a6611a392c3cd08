//! Sampled figures in the buckets of the timeline.
//!
//! A counter's rate in a bucket is what it grew by between the bucket's ends. A gauge is the mean of the
//! samples in the bucket. In a bucket without one, it is what lies between the samples around it.
//!
//! Rule: a bucket that was not sampled is null. Nodes whose clock differs are moved to the clock of the first
//! host, as calls are.

use super::Timeline;
use crate::clocks::{ClockLine, Clocks};
use crate::series::{at, climbing, NotSampled};
use crate::time::HostTime;
use capture::samples::{GPU_POWER, NODE_CPU, PROCESS_CPU};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use tables::nodes::Series;
use tables::Capture;

/// Sampled figures over time, a value for each bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "SampledCurves")]
pub struct Curves {
    /// Why all figures are null; null if some are not.
    #[serde(skip)]
    pub why_null: Option<NotSampled>,
    /// Power, watts, over GPUs.
    pub power_w: Option<SampledCurve>,
    /// Clock of the SMs, MHz, over GPUs.
    pub sm_mhz: Option<SampledCurve>,
    /// Sent over NVLink, bytes per second, over GPUs.
    pub nvlink_sent_bytes: Option<SampledCurve>,
    /// Received over NVLink, bytes per second, over GPUs.
    pub nvlink_received_bytes: Option<SampledCurve>,
    /// Sent over one NVLink, bytes per second, over links.
    pub nvlink_link_sent_bytes: Option<SampledCurve>,
    /// Received over one NVLink, bytes per second, over links.
    pub nvlink_link_received_bytes: Option<SampledCurve>,
    /// CPUs that were busy, over nodes.
    pub cpus_busy: Option<SampledCurve>,
    /// CPUs that the job kept busy, over nodes.
    pub job_cpus_busy: Option<SampledCurve>,
    /// Threads of the job that were ready and had no CPU, over nodes.
    pub job_threads_ready: Option<SampledCurve>,
    /// Read from disks, bytes per second, over nodes.
    pub disk_read_bytes: Option<SampledCurve>,
    /// Written to disks, bytes per second, over nodes.
    pub disk_written_bytes: Option<SampledCurve>,
    /// Sent by network interfaces and InfiniBand ports, bytes per second, over nodes.
    pub net_sent_bytes: Option<SampledCurve>,
    /// Received by network interfaces and InfiniBand ports, bytes per second, over nodes.
    pub net_received_bytes: Option<SampledCurve>,
}

/// A sampled figure, null in buckets that were not sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SampledCurve {
    /// Of the GPU or node with least.
    pub min: Vec<Option<f64>>,
    /// Mean over GPUs or nodes.
    pub mean: Vec<Option<f64>>,
    /// Of the GPU or node with most.
    pub max: Vec<Option<f64>>,
}

/// How a series becomes a curve.
#[derive(Clone, Copy)]
enum Drawn {
    /// Its value, by this unit.
    Value(f64),
    /// What it grows by in a second, by this unit.
    Rate(f64),
}

/// The figures in the buckets of `timeline`; `why_none` says why there are none.
pub(crate) fn curves(
    capture: &Capture,
    timeline: &Timeline,
    clocks: Option<&Clocks>,
    why_none: Option<NotSampled>,
) -> Curves {
    if let Some(why) = why_none {
        return Curves {
            why_null: Some(why),
            ..Curves::default()
        };
    }
    let curve = |names: &[&str], by_gpu: bool, drawn: Drawn| {
        let mut each: Vec<Vec<Option<f64>>> = Vec::new();
        for node in &capture.nodes {
            let edges = edges(timeline, &node.host, clocks);
            let series = node
                .series
                .iter()
                .filter(|series| names.contains(&series.name.as_str()));
            let mut groups: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
            for series in series {
                let of = if by_gpu { series.of.as_str() } else { "" };
                groups.entry(of).or_default().push(series);
            }
            each.extend(
                groups
                    .into_values()
                    .map(|series| sum(&series, &edges, drawn)),
            );
        }
        over(&each)
    };
    Curves {
        why_null: None,
        power_w: curve(&[GPU_POWER], true, Drawn::Value(1e3)),
        sm_mhz: curve(&["gpu_sm_mhz"], true, Drawn::Value(1.0)),
        nvlink_sent_bytes: curve(&["gpu_nvlink_sent_bytes"], true, Drawn::Rate(1.0)),
        nvlink_received_bytes: curve(&["gpu_nvlink_received_bytes"], true, Drawn::Rate(1.0)),
        nvlink_link_sent_bytes: curve(&["gpu_nvlink_link_sent_bytes"], true, Drawn::Rate(1.0)),
        nvlink_link_received_bytes: curve(
            &["gpu_nvlink_link_received_bytes"],
            true,
            Drawn::Rate(1.0),
        ),
        cpus_busy: curve(&[NODE_CPU], false, Drawn::Rate(1e6)),
        job_cpus_busy: curve(&[PROCESS_CPU], false, Drawn::Rate(1e6)),
        job_threads_ready: curve(&["process_ready_ns"], false, Drawn::Rate(1e9)),
        disk_read_bytes: curve(&["disk_read_bytes"], false, Drawn::Rate(1.0)),
        disk_written_bytes: curve(&["disk_written_bytes"], false, Drawn::Rate(1.0)),
        net_sent_bytes: curve(
            &["net_sent_bytes", "ib_sent_bytes"],
            false,
            Drawn::Rate(1.0),
        ),
        net_received_bytes: curve(
            &["net_received_bytes", "ib_received_bytes"],
            false,
            Drawn::Rate(1.0),
        ),
    }
}

/// Where buckets begin, and the last one ends, on the clock of a host.
pub(crate) fn edges(timeline: &Timeline, host: &str, clocks: Option<&Clocks>) -> Vec<HostTime> {
    let line = ClockLine::of(host, clocks);
    (0..=timeline.buckets)
        .map(|bucket| line.on_host(timeline.edge(bucket)))
        .collect()
}

/// Several series together, such as the processes of a node. Where one has nothing, as before its process
/// began, the others count.
fn sum(series: &[&Series], edges: &[HostTime], drawn: Drawn) -> Vec<Option<f64>> {
    let mut sums = vec![None; edges.len().saturating_sub(1)];
    for series in series {
        for (sum, value) in sums.iter_mut().zip(by_bucket(series, edges, drawn)) {
            *sum = value.map(|value| sum.unwrap_or(0.0) + value).or(*sum);
        }
    }
    sums
}

fn by_bucket<'a>(
    series: &'a Series,
    edges: &'a [HostTime],
    drawn: Drawn,
) -> impl Iterator<Item = Option<f64>> + 'a {
    let points = match drawn {
        Drawn::Rate(_) => climbing(&series.points),
        Drawn::Value(_) => series
            .points
            .iter()
            .map(|(at, value)| (HostTime(*at), *value as f64))
            .collect(),
    };
    edges.windows(2).map(move |edge| {
        let (from, to) = (edge[0], edge[1]);
        match drawn {
            Drawn::Rate(unit) => {
                let (first, last) = (points.first()?.0, points.last()?.0);
                // The part of the bucket that was sampled.
                let (from, to) = (from.max(first), to.min(last));
                if to <= from {
                    return None;
                }
                let grew = at(&points, to)? - at(&points, from)?;
                Some(grew / unit / (to - from).seconds())
            }
            Drawn::Value(unit) => {
                let begin = points.partition_point(|(at, _)| *at < from);
                let end = points.partition_point(|(at, _)| *at < to);
                let inside = &points[begin..end.max(begin)];
                let value = match inside.len() {
                    0 => at(&points, from + (to - from) / 2.0)?,
                    n => inside.iter().map(|(_, value)| value).sum::<f64>() / n as f64,
                };
                Some(value / unit)
            }
        }
    })
}

/// The least, the mean and the most of each bucket; `None` if no bucket has a value.
pub(crate) fn over(each: &[Vec<Option<f64>>]) -> Option<SampledCurve> {
    let buckets = each.first()?.len();
    let mut all = SampledCurve::default();
    for bucket in 0..buckets {
        let known: Vec<f64> = each.iter().filter_map(|of| of[bucket]).collect();
        let digits = |value: f64| format!("{value:.3e}").parse().unwrap_or(value);
        let pick = |of: fn(f64, f64) -> f64| known.iter().copied().reduce(of).map(digits);
        all.min.push(pick(f64::min));
        all.max.push(pick(f64::max));
        let sum = known.iter().copied().reduce(|a, b| a + b);
        all.mean
            .push(sum.map(|sum| digits(sum / known.len() as f64)));
    }
    all.mean.iter().any(Option::is_some).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    /// So many seconds after 1970 began.
    fn seconds<const N: usize>(all: [i64; N]) -> [HostTime; N] {
        all.map(|at| HostTime(at * S))
    }

    fn series(points: &[(i64, u64)]) -> Series {
        Series {
            points: points.to_vec(),
            ..Series::default()
        }
    }

    #[test]
    fn a_bucket_that_was_not_sampled_is_null() {
        let edges = seconds([0, 1, 2, 3, 4]);
        let counter = series(&[(S, 100), (3 * S, 500)]);
        let rates: Vec<_> = by_bucket(&counter, &edges, Drawn::Rate(1.0)).collect();
        assert_eq!(rates, [None, Some(200.0), Some(200.0), None]);
        let gauge = series(&[(S + 1, 4), (S + 2, 6), (3 * S, 8)]);
        let values: Vec<_> = by_bucket(&gauge, &edges, Drawn::Value(2.0)).collect();
        assert_eq!(
            (values[0], values[1], values[3]),
            (None, Some(2.5), Some(4.0))
        );
        assert!(values[2].is_some_and(|value| (3.0..4.0).contains(&value)));
    }

    #[test]
    fn processes_of_a_node_are_added_up() {
        let edges = seconds([0, 1, 2]);
        let (first, second) = (series(&[(0, 0), (2 * S, 2)]), series(&[(S, 0), (2 * S, 3)]));
        let sums = sum(&[&first, &second], &edges, Drawn::Rate(1.0));
        assert_eq!(sums, [Some(1.0), Some(4.0)]);
        let all = over(&[sums, vec![None, Some(2.0)]]).expect("values");
        assert_eq!(all.min, [Some(1.0), Some(2.0)]);
        assert_eq!(all.mean, [Some(1.0), Some(3.0)]);
        assert_eq!(all.max, [Some(1.0), Some(4.0)]);
        assert_eq!(over(&[vec![None, None]]), None);
    }
}
