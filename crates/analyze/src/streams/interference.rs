//! How much longer kernels take beside communication than the same kernels take without.
//!
//! Two kernels are the same if they have the same name, the same size, and the same two kernels before them
//! on the stream. Name and size alone do not do: a matrix product of another layer's shape often has both. A
//! rank that waits all the time has none without communication; then it is compared with the same kernels of
//! the other ranks.
//!
//! Beside a kernel of NCCL that waits it is another ratio than beside one that moves data: both take
//! streaming multiprocessors away, and only the second takes memory bandwidth.

use super::intervals::{length, Span, Union};
use super::kinds::{Does, Names};
use crate::time::Nanos;
use capture::windows::ActivityKind;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use tables::windows::GpuActivity;

/// So many without communication are compared at least.
const LEAST: u64 = 3;
/// A kernel is beside communication if so much of it is, and without it if no more than the rest is.
const MOSTLY: f64 = 0.9;

/// A kernel that computed: which are the same, and when it ran.
pub type Computed = (u64, Span);

/// The kernels of a device that computed within `known`, of what ran on it. At a window's beginning a kernel
/// of NCCL may still run that was launched before it, and is in no record: what computes beside that one
/// would count as alone.
pub fn computed(ran: &[GpuActivity], names: &Names, known: Span) -> Vec<Computed> {
    // Ids of names are a process's own.
    let mut before: HashMap<u32, [(&str, u64); 2]> = HashMap::new();
    let mut all = Vec::new();
    for r in ran.iter().filter(|r| r.kind == ActivityKind::Kernel) {
        let mut same = DefaultHasher::new();
        let this = (names.name(r.name), r.size);
        let previous = before.entry(r.stream).or_default();
        (this, *previous).hash(&mut same);
        *previous = [this, previous[0]];
        let inside = known.0 <= r.start && r.end <= known.1;
        if inside && names.does(r.name) == Does::Computes && r.start < r.end {
            all.push((same.finish(), (r.start, r.end)));
        }
    }
    all
}

/// What kernels took, and what the same take without communication.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slowed {
    /// What they took.
    pub took: Nanos,
    /// What the same take.
    pub alone: Nanos,
}

impl Slowed {
    /// How many times as long they took; `None` where nothing can be compared.
    pub fn ratio(&self) -> Option<f64> {
        (self.alone > Nanos::ZERO).then(|| self.took / self.alone)
    }

    /// Which part of what they took was lost.
    pub fn lost(&self) -> f64 {
        self.ratio()
            .map_or(0.0, |ratio| (1.0 - 1.0 / ratio).max(0.0))
    }
}

/// What kernels take without communication: by which are the same, number and sum.
/// In order, because sums of floats must be the same each time.
pub type Alone = BTreeMap<u64, (u64, Nanos)>;

fn share(of: &Union, span: Span) -> f64 {
    of.covers(span) / length(span)
}

/// What the kernels of windows take without communication: windows' kernels, and when they communicate.
pub fn alone<'a>(windows: impl Iterator<Item = (&'a [Computed], &'a Union)>) -> Alone {
    let mut alone = Alone::new();
    for (kernels, communicates) in windows {
        for (same, span) in kernels {
            if share(communicates, *span) <= 1.0 - MOSTLY {
                let sum = alone.entry(*same).or_default();
                *sum = (sum.0 + 1, sum.1 + length(*span));
            }
        }
    }
    alone.retain(|_, (n, _)| *n >= LEAST);
    alone
}

/// What the kernels of windows take, whatever ran beside them.
pub fn taken<'a>(windows: impl Iterator<Item = &'a [Computed]>) -> Alone {
    let mut taken = Alone::new();
    for (same, span) in windows.flatten() {
        let sum = taken.entry(*same).or_default();
        *sum = (sum.0 + 1, sum.1 + length(*span));
    }
    taken.retain(|_, (n, _)| *n >= LEAST);
    taken
}

/// Kernels of windows that ran beside these spans, against what the same take in the first of `than` that
/// has them.
pub fn slowed<'a>(
    windows: impl Iterator<Item = (&'a [Computed], &'a Union)>,
    than: &[&Alone],
) -> Slowed {
    let mut slowed = Slowed::default();
    for (kernels, when) in windows {
        for (same, span) in kernels {
            if share(when, *span) < MOSTLY {
                continue;
            }
            if let Some((n, sum)) = than.iter().find_map(|than| than.get(same)) {
                slowed.took += length(*span);
                slowed.alone += *sum / *n as f64;
            }
        }
    }
    slowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_run_beside_an_unseen_kernel_is_not_compared() {
        // A kernel of NCCL from before the window ends at 30: until the next of its stream, nothing is known.
        let gemm = |at: i64, took: i64| GpuActivity {
            device: 0,
            start: at,
            end: at + took,
            name: 1,
            stream: 7,
            correlation: 0,
            graph: 0,
            node: 0,
            kind: ActivityKind::Kernel,
            size: 1,
        };
        let ran: Vec<GpuActivity> = (0..10)
            .map(|i| gemm(10 * i, if i < 3 { 9 } else { 5 }))
            .collect();
        let names = Names::new(&["", "gemm"].map(String::from), &[]);
        let known = computed(&ran, &names, (40, 100));
        assert_eq!(known.len(), 6);
        let alone = alone([(&known[..], &Union::default())].into_iter());
        assert_eq!(alone.values().collect::<Vec<_>>(), [&(6, Nanos(30.0))]);
    }

    #[test]
    fn the_same_kernels_are_compared() {
        // One kind takes 10 alone and 13 beside; the other is always beside.
        let kernels: Vec<Computed> = (0..10)
            .flat_map(|i| {
                let (at, long) = (100 * i, if i < 5 { 10 } else { 13 });
                [(1, (at, at + long)), (2, (500 + at, 500 + at + 40))]
            })
            .collect();
        let communicates = Union::of(vec![(490, 2000)]);
        let own = alone([(&kernels[..], &communicates)].into_iter());
        let beside = || [(&kernels[..], &communicates)].into_iter();
        let slowed = |others: &Alone| super::slowed(beside(), &[&own, others]);
        let of_own = slowed(&Alone::new());
        assert_eq!((of_own.took, of_own.alone), (Nanos(65.0), Nanos(50.0)));
        assert_eq!(of_own.ratio(), Some(1.3));
        // The other kind is compared with another rank's.
        let others = [(1, (9, Nanos(9.0))), (2, (4, Nanos(80.0)))];
        let of_others = slowed(&Alone::from(others));
        assert_eq!(
            (of_others.took, of_others.alone),
            (Nanos(465.0), Nanos(250.0))
        );
        assert_eq!(Slowed::default().ratio(), None);
    }
}
