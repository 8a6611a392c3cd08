//! Arithmetic on sampled figures: how much a counter grew, and the energy of a GPU between two moments.
//!
//! Rule: between two samples, counters are taken as linear. Outside of what was sampled, nothing is known.

use crate::time::{HostTime, Nanos};
use capture::samples::{GPU_ENERGY, GPU_POWER};
use tables::nodes::Series;
use tables::Node;

/// Why no node was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSampled {
    /// The sampler of `ncclscope run` was off, or the run was too short for it.
    Off,
    /// The job was not started by `ncclscope run`.
    NotRun,
}

/// A moment so shortly outside of what was sampled is taken for its edge: two ticks.
const EDGE: Nanos = Nanos::from_ms(200.0);
/// Counters of energy are in mJ, and power is in mW.
pub(super) const MJ_PER_J: f64 = 1e3;
pub(super) const MW_PER_W: f64 = 1e3;

/// How much a counter grew. One that was set back (its process or driver began anew) goes on from there.
pub(super) fn grown(series: &Series) -> Option<u64> {
    let pairs = series.points.windows(2);
    (!series.points.is_empty()).then(|| {
        pairs.fold(0u64, |sum, pair| {
            sum.saturating_add(pair[1].1.saturating_sub(pair[0].1))
        })
    })
}

/// A counter at a moment; `None` outside of what was sampled.
pub(super) fn at(points: &[(HostTime, f64)], moment: HostTime) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    if moment < first.0 {
        return (first.0 - moment <= EDGE).then_some(first.1);
    }
    if moment >= last.0 {
        return (moment - last.0 <= EDGE).then_some(last.1);
    }
    let behind = points.partition_point(|(at, _)| *at <= moment);
    let (a, b) = (points[behind - 1], points[behind]);
    let share = (moment - a.0) / (b.0 - a.0).max(Nanos(1.0));
    Some(a.1 + share * (b.1 - a.1))
}

/// A counter's points, as it would be had it never been set back.
pub(super) fn climbing(points: &[(i64, u64)]) -> Vec<(HostTime, f64)> {
    let mut sum = 0.0;
    let mut before = points.first().map_or(0, |(_, value)| *value);
    let climb = |(at, value): &(i64, u64)| {
        sum += value.saturating_sub(before) as f64;
        before = *value;
        (HostTime(*at), sum)
    };
    points.iter().map(climb).collect()
}

/// The energy of one GPU over time.
pub(super) struct Meter {
    /// When, and the joules since the first sample: the counter's, or those of the power.
    joules: Vec<(HostTime, f64)>,
    /// By the power alone, over the time of the counter.
    by_power: Option<Vec<(HostTime, f64)>>,
    /// Whether the GPU has a counter.
    pub is_counter: bool,
}

impl Meter {
    /// Of the GPU with this UUID; `None` if neither energy nor power was read twice.
    pub fn of(node: &Node, uuid: &str) -> Option<Meter> {
        let points = |name| {
            let series = node.of(name, uuid)?;
            (series.points.len() > 1).then_some(series.points.as_slice())
        };
        let counter = points(GPU_ENERGY).map(|points| {
            let joules = |(at, mj): (HostTime, f64)| (at, mj / MJ_PER_J);
            climbing(points).into_iter().map(joules).collect::<Vec<_>>()
        });
        let by_power = points(GPU_POWER).map(|points| {
            let mut sum = 0.0;
            let mut joules = vec![(HostTime(points[0].0), 0.0)];
            for pair in points.windows(2) {
                let [from, to] = [pair[0].0, pair[1].0].map(HostTime);
                sum += (pair[0].1 as f64 + pair[1].1 as f64) / 2e3 * (to - from).seconds();
                joules.push((to, sum));
            }
            joules
        });
        let is_counter = counter.is_some();
        Some(Meter {
            joules: counter.or_else(|| by_power.clone())?,
            by_power,
            is_counter,
        })
    }

    /// Joules from one moment to another; `None` if they were not sampled.
    pub fn between(&self, from: HostTime, to: HostTime) -> Option<f64> {
        Some(at(&self.joules, to)? - at(&self.joules, from)?)
    }

    /// Joules that were sampled between two moments; 0 if nothing was.
    pub fn within(&self, from: HostTime, to: HostTime) -> f64 {
        let Some((first, last)) = self.span() else {
            return 0.0;
        };
        let (from, to) = (from.clamp(first, last), to.clamp(first, last));
        self.between(from, to).map_or(0.0, |joules| joules.max(0.0))
    }

    /// When it was sampled first and last.
    pub fn span(&self) -> Option<(HostTime, HostTime)> {
        Some((self.joules.first()?.0, self.joules.last()?.0))
    }

    /// Joules in all, and the time.
    pub fn all(&self) -> Option<(f64, Nanos)> {
        let (first, last) = (self.joules.first()?, self.joules.last()?);
        Some((last.1 - first.1, last.0 - first.0))
    }

    /// Joules in all by the power alone, over the time of the counter.
    pub fn integrated(&self) -> Option<f64> {
        let (from, to) = (self.joules.first()?.0, self.joules.last()?.0);
        let of = self.by_power.as_ref()?;
        Some(at(of, to)? - at(of, from)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(series: &[(&str, &[(i64, u64)])]) -> Node {
        let series = series.iter().map(|(name, points)| Series {
            name: (*name).to_owned(),
            of: "GPU-1".to_owned(),
            points: points.to_vec(),
        });
        Node {
            series: series.collect(),
            ..Node::default()
        }
    }

    const S: i64 = 1_000_000_000;

    #[test]
    fn energy_between_two_samples_is_linear() {
        let node = node(&[(GPU_ENERGY, &[(0, 5_000), (10 * S, 15_000)])]);
        let meter = Meter::of(&node, "GPU-1").expect("a counter");
        let at = |seconds: i64| HostTime(seconds * S);
        assert_eq!(meter.between(at(2), at(4)), Some(2.0));
        assert_eq!(meter.all(), Some((10.0, Nanos::SECOND * 10.0)));
        assert_eq!(meter.between(at(2), at(11)), None);
        assert_eq!(meter.within(at(8), at(20)), 2.0);
        assert_eq!(meter.within(at(11), at(20)), 0.0);
        assert_eq!(meter.integrated(), None);
    }

    #[test]
    fn without_a_counter_the_power_is_integrated() {
        let node = node(&[(GPU_POWER, &[(0, 100_000), (2 * S, 300_000)])]);
        let meter = Meter::of(&node, "GPU-1").expect("power");
        assert!(!meter.is_counter);
        assert_eq!(meter.all(), Some((400.0, Nanos::SECOND * 2.0)));
        assert_eq!(meter.integrated(), Some(400.0));
    }

    #[test]
    fn a_counter_that_begins_anew_goes_on() {
        let points = [(0, 50), (1, 70), (2, 5), (3, 9)];
        let climbed = [(0, 0.0), (1, 20.0), (2, 20.0), (3, 24.0)];
        assert_eq!(
            climbing(&points),
            climbed.map(|(at, value)| (HostTime(at), value))
        );
        let series = Series {
            points: points.to_vec(),
            ..Series::default()
        };
        assert_eq!(grown(&series), Some(24));
    }
}
