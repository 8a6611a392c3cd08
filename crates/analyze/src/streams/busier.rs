//! Why a GPU computes for longer than the others: it runs kernels more often, or the same kernels take longer
//! on it. The first is the program's doing; the second the machine's, or that of more data. If nothing runs
//! there instead, its host is late.
//!
//! [`all`] holds each GPU against the median of the others, name by name. A kernel runs n times in a second
//! of windows and takes d each time, and n₀ times d₀ on the others. So it takes n d − n₀ d₀ more of the time:
//! (n − n₀) d for running more often, and n₀ (d − d₀) for taking longer.
//!
//! Rule: ranks live through the same time, so what a second of one holds is held against a second of another.
//! How often is one figure in all places: runs in a second of all windows, by the same of the others.

use super::kernel_rows::computing;
use super::lane::Lane;
use crate::time::Nanos;
use std::collections::BTreeMap;

/// Most of something: more than all the rest together.
pub const MOST: f64 = 0.5;

/// How a GPU's computing differs from that of the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Busier {
    /// The only other GPU with windows; `None` if there are several, and the others are their median.
    pub other: Option<Option<u32>>,
    /// The share of the time that nothing runs on it, beyond that of the others.
    pub idle: f64,
    /// The share of the time that kernels take because it runs them more often.
    pub more: f64,
    /// The share of the time that they take because each takes longer.
    pub longer: f64,
    /// The kernel with the largest part of `more`.
    pub kernel: Option<MoreOften>,
    /// By how many times the kernels that the others run too take as long on it; `None` if there are none.
    pub pace: Option<f64>,
}

impl Busier {
    /// The share of the time that it computes beyond the others.
    pub fn computes(&self) -> f64 {
        self.more + self.longer
    }

    /// Whether windows show most of a loss: a rank that is late communicates for less of the time than the
    /// others, by what it computes or idles more. `lost` is the part of the time that the others lose by it.
    pub fn explains(&self, lost: f64) -> bool {
        self.computes() + self.idle >= MOST * lost
    }
}

/// A kernel that a GPU runs more often than the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MoreOften {
    /// Its name.
    pub name: String,
    /// The share of the time that it takes by that.
    pub share: f64,
    /// How often it runs in a second, here and on the others.
    pub per_s: (f64, f64),
}

/// How much of a second a kernel takes on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rate {
    /// How often it runs.
    per_s: f64,
    /// The share of the time.
    share: f64,
}

/// The values of all GPUs, of which zeros are only counted.
struct Sorted {
    zeros: usize,
    /// Ascending.
    others: Vec<f64>,
}

impl Sorted {
    fn of(values: impl Iterator<Item = f64>, gpus: usize) -> Sorted {
        let mut others: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        others.sort_by(f64::total_cmp);
        Sorted {
            zeros: gpus - others.len(),
            others,
        }
    }

    /// Their median without one of them.
    fn median_without(&self, one: f64) -> f64 {
        let gone = if one > 0.0 {
            self.zeros + self.others.partition_point(|value| *value < one)
        } else {
            0
        };
        let left = self.zeros + self.others.len() - 1;
        let at = |index: usize| {
            let index = index + usize::from(index >= gone);
            index
                .checked_sub(self.zeros)
                .map_or(0.0, |index| self.others[index])
        };
        0.5 * (at((left - 1) / 2) + at(left / 2))
    }
}

/// Of each of these GPUs that have windows, in their order; `None` if it is the only one.
pub fn all(lanes: &[Lane]) -> Vec<Option<Busier>> {
    let lanes: Vec<&Lane> = lanes
        .iter()
        .filter(|lane| !lane.windows.is_empty())
        .collect();
    if lanes.len() < 2 {
        return vec![None; lanes.len()];
    }
    let mut by_name: BTreeMap<&str, Vec<(usize, Rate)>> = BTreeMap::new();
    for (index, lane) in lanes.iter().enumerate() {
        let seen = lane.seen().max(Nanos(1.0));
        for (name, kernels, time) in computing(lane) {
            let rate = Rate {
                per_s: kernels as f64 / seen.0 * Nanos::SECOND.0,
                share: time / seen,
            };
            by_name.entry(name).or_default().push((index, rate));
        }
    }
    let empty: Vec<f64> = lanes.iter().map(|lane| idle(lane)).collect();
    let sorted = Sorted::of(empty.iter().copied(), lanes.len());
    let mut found: Vec<Of> = empty
        .iter()
        .map(|own| Of {
            idle: own - sorted.median_without(*own),
            ..Of::default()
        })
        .collect();
    for (name, rates) in &by_name {
        let often = Sorted::of(rates.iter().map(|(_, rate)| rate.per_s), lanes.len());
        let long = Sorted::of(rates.iter().map(|(_, rate)| rate.share), lanes.len());
        let mut own = vec![Rate::default(); lanes.len()];
        for (index, rate) in rates {
            own[*index] = *rate;
        }
        for (of, own) in found.iter_mut().zip(own) {
            let others = Rate {
                per_s: often.median_without(own.per_s),
                share: long.median_without(own.share),
            };
            of.add(name, own, others);
        }
    }
    let others = |index: usize| match lanes[..] {
        [first, second] => Some([second, first][index].process.rank),
        _ => None,
    };
    let found = found.into_iter().enumerate();
    let found = found.map(|(index, of)| Some(of.busier(others(index))));
    found.collect()
}

/// The share of the time in which nothing ran.
fn idle(lane: &Lane) -> f64 {
    let idle: Nanos = lane.windows.iter().map(|window| window.seen.idle()).sum();
    idle / lane.seen().max(Nanos(1.0))
}

/// What is summed up of a GPU.
#[derive(Default)]
struct Of<'a> {
    idle: f64,
    more: f64,
    longer: f64,
    most: Option<(&'a str, f64, (f64, f64))>,
    /// Kernels that others run too: as often as there, what they take here, and what they take there.
    same: (f64, f64),
}

impl<'a> Of<'a> {
    fn add(&mut self, name: &'a str, own: Rate, others: Rate) {
        let longer = if own.per_s > 0.0 && others.per_s > 0.0 {
            let here = others.per_s * own.share / own.per_s;
            self.same.0 += here;
            self.same.1 += others.share;
            here - others.share
        } else {
            0.0
        };
        let more = own.share - others.share - longer;
        self.longer += longer;
        self.more += more;
        if self.most.is_none_or(|(_, most, _)| more > most) {
            self.most = Some((name, more, (own.per_s, others.per_s)));
        }
    }

    fn busier(self, other: Option<Option<u32>>) -> Busier {
        let kernel = self.most.filter(|(_, share, _)| *share > 0.0);
        Busier {
            other,
            idle: self.idle,
            more: self.more,
            longer: self.longer,
            kernel: kernel.map(|(name, share, per_s)| MoreOften {
                name: name.to_owned(),
                share,
                per_s,
            }),
            pace: (self.same.1 > 0.0).then(|| self.same.0 / self.same.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_s: f64, each: f64) -> Rate {
        Rate {
            per_s,
            share: per_s * each,
        }
    }

    #[test]
    fn what_a_gpu_computes_more_is_divided_exactly() {
        // 300 runs of 1 ms in place of 100, and 50 of 4 ms in place of 50 of 2 ms.
        let mut of = Of::default();
        of.add("more", rate(300.0, 1e-3), rate(100.0, 1e-3));
        of.add("longer", rate(50.0, 4e-3), rate(50.0, 2e-3));
        of.add("less", rate(0.0, 0.0), rate(10.0, 1e-3));
        let found = of.busier(Some(Some(0)));
        assert!((found.more - (0.2 - 0.01)).abs() < 1e-12, "{found:?}");
        assert!((found.longer - 0.1).abs() < 1e-12, "{found:?}");
        let kernel = found.kernel.as_ref().expect("a kernel");
        assert_eq!(
            (kernel.name.as_str(), kernel.per_s),
            ("more", (300.0, 100.0))
        );
        assert!((found.pace.expect("a pace") - 1.5).abs() < 1e-12);
        assert!(found.explains(0.5) && !found.explains(0.6));
    }

    #[test]
    fn others_are_the_median_without_the_gpu_itself() {
        let of = Sorted::of([3.0, 1.0, 5.0, 0.0].into_iter(), 5);
        // Of 0, 0, 1, 3, 5 without one of them.
        for (own, median) in [(5.0, 0.5), (3.0, 0.5), (1.0, 1.5), (0.0, 2.0)] {
            assert_eq!(of.median_without(own), median, "{own}");
        }
        let two = Sorted::of([4.0].into_iter(), 2);
        assert_eq!(
            (two.median_without(4.0), two.median_without(0.0)),
            (0.0, 4.0)
        );
    }
}
