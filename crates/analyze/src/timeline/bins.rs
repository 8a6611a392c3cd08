//! Sums over time, in bins that grow with the run.
//!
//! [`Bins`] have a width of a power of two ns and begin at multiples of it, so two of them make one of the
//! next width exactly. When a time lies too far from the others, the width doubles until all fit into
//! [`MOST`] bins.
//!
//! What lasts is split over the bins by its share of time, in whole units. The part up to a moment is rounded
//! down, and a bin gets the difference of two such parts.
//!
//! Rule: the sums of all bins are what was added, and they are the same in whatever order it came.

/// Bins at most: a power of two.
pub(super) const MOST: usize = 512;
/// Bins are not narrower, ns: 1.024 µs.
pub(super) const LEAST_SHIFT: u32 = 10;

/// Which bins have something: one bit each.
pub(super) type Marks = [u64; MOST / 64];

/// Sums of `N` kinds over time, and marks.
#[derive(Clone, Debug)]
pub(super) struct Bins<const N: usize> {
    /// Bins are `1 << shift` ns wide.
    shift: u32,
    /// Numbers of the first and the last bin in use; `None` without any. They are less than [`MOST`] apart.
    used: Option<(i64, i64)>,
    /// First and last moment.
    range: Option<(i64, i64)>,
    /// By kind, then by bin number modulo [`MOST`]; empty of a kind that has nothing.
    sums: [Vec<u64>; N],
    /// By what is marked, by bin number modulo [`MOST`].
    marks: Vec<Option<Box<Marks>>>,
}

impl<const N: usize> Default for Bins<N> {
    fn default() -> Bins<N> {
        Bins {
            shift: LEAST_SHIFT,
            used: None,
            range: None,
            sums: std::array::from_fn(|_| Vec::new()),
            marks: Vec::new(),
        }
    }
}

fn slot(bin: i64) -> usize {
    bin.rem_euclid(MOST as i64) as usize
}

impl<const N: usize> Bins<N> {
    /// First and last moment that was seen.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        self.range
    }

    /// Makes room for the time between these moments.
    pub(super) fn see(&mut self, begin: i64, end: i64) {
        let (from, to) = self.range.unwrap_or((begin, begin));
        self.range = Some((from.min(begin), to.max(end)));
        let (mut low, mut high) = (begin >> self.shift, end.max(begin) >> self.shift);
        if let Some((from, to)) = self.used {
            (low, high) = (low.min(from), high.max(to));
        }
        while high.abs_diff(low) >= MOST as u64 {
            self.widen();
            (low, high) = (low >> 1, high >> 1);
        }
        self.used = Some((low, high));
    }

    fn widen(&mut self) {
        self.shift += 1;
        let Some((low, high)) = self.used else {
            return;
        };
        for sums in self.sums.iter_mut().filter(|sums| !sums.is_empty()) {
            let mut wider = vec![0u64; MOST];
            for bin in low..=high {
                let into = &mut wider[slot(bin >> 1)];
                *into = into.saturating_add(sums[slot(bin)]);
            }
            *sums = wider;
        }
        for marks in self.marks.iter_mut().flatten() {
            let mut wider = Marks::default();
            for bin in low..=high {
                let (from, to) = (slot(bin), slot(bin >> 1));
                wider[to / 64] |= (marks[from / 64] >> (from % 64) & 1) << (to % 64);
            }
            **marks = wider;
        }
        self.used = Some((low >> 1, high >> 1));
    }

    fn sums(&mut self, kind: usize) -> &mut Vec<u64> {
        let sums = &mut self.sums[kind];
        if sums.is_empty() {
            sums.resize(MOST, 0);
        }
        sums
    }

    /// Adds `amount` of `kind` at a moment.
    #[inline]
    pub(super) fn add(&mut self, kind: usize, at: i64, amount: u64) {
        self.see(at, at);
        let bin = slot(at >> self.shift);
        let sum = &mut self.sums(kind)[bin];
        *sum = sum.saturating_add(amount);
    }

    /// Adds `amount` of `kind` that is spread evenly from `begin` to `end`.
    #[inline]
    pub(super) fn spread(&mut self, kind: usize, begin: i64, end: i64, amount: u64) {
        self.see(begin, end);
        let shift = self.shift;
        let sums = self.sums(kind);
        split(begin, end, shift, amount, |bin, part| {
            let sum = &mut sums[slot(bin)];
            *sum = sum.saturating_add(part);
        });
    }

    /// Marks the bins between two moments.
    #[inline]
    pub(super) fn mark(&mut self, what: usize, begin: i64, end: i64) {
        self.see(begin, end);
        if self.marks.len() <= what {
            self.marks.resize(what + 1, None);
        }
        let marks = self.marks[what].get_or_insert_default();
        for bin in (begin >> self.shift)..=(end.max(begin) >> self.shift) {
            marks[slot(bin) / 64] |= 1 << (slot(bin) % 64);
        }
    }

    /// Hands every sum of `kind` that is not 0 to `each`, with the moment at which its bin begins.
    pub(super) fn each(&self, kind: usize, mut each: impl FnMut(i64, u64)) {
        let sums = &self.sums[kind];
        let bins = self.used.filter(|_| !sums.is_empty());
        for bin in bins.into_iter().flat_map(|(low, high)| low..=high) {
            if sums[slot(bin)] > 0 {
                each(bin << self.shift, sums[slot(bin)]);
            }
        }
    }

    /// Hands the moment at which each bin with this mark begins to `each`.
    pub(super) fn each_marked(&self, what: usize, mut each: impl FnMut(i64)) {
        let marks = self.marks.get(what).and_then(Option::as_ref);
        let Some((marks, (low, high))) = marks.zip(self.used) else {
            return;
        };
        for bin in low..=high {
            if marks[slot(bin) / 64] >> (slot(bin) % 64) & 1 == 1 {
                each(bin << self.shift);
            }
        }
    }

    /// How many things have marks, the unmarked before them included.
    pub(super) fn marked(&self) -> usize {
        self.marks.len()
    }
}

/// Hands the parts of `amount`, which is spread evenly from `begin` to `end`, to `each`, by the number of
/// their bin of `1 << shift` ns. They sum to `amount`.
pub(super) fn split(begin: i64, end: i64, shift: u32, amount: u64, mut each: impl FnMut(i64, u64)) {
    let (first, last) = (begin >> shift, end.max(begin) >> shift);
    if first == last {
        return each(first, amount);
    }
    let length = u128::from(end.abs_diff(begin));
    let mut so_far = 0;
    for bin in first..last {
        let until = u128::from(((bin + 1) << shift).abs_diff(begin));
        let upto = (u128::from(amount) * until / length) as u64;
        each(bin, upto - so_far);
        so_far = upto;
    }
    each(last, amount - so_far);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums(bins: &Bins<2>, kind: usize) -> Vec<(i64, u64)> {
        let mut found = Vec::new();
        bins.each(kind, |at, sum| found.push((at, sum)));
        found
    }

    fn marked(bins: &Bins<2>) -> Vec<i64> {
        let mut found = Vec::new();
        bins.each_marked(3, |at| found.push(at));
        found
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_order_changes_nothing(
            spans in prop::collection::vec((0i64..1 << 36, 0i64..1 << 30, 0u64..1 << 40), 1..60),
        ) {
            let fill = |spans: &mut dyn Iterator<Item = &(i64, i64, u64)>| {
                let mut bins = Bins::<2>::default();
                for (begin, length, amount) in spans {
                    bins.add(0, *begin, 1);
                    bins.spread(1, *begin, begin + length, *amount);
                    bins.mark(3, *begin, begin + length);
                }
                bins
            };
            let bins = fill(&mut spans.iter());
            let all: u64 = spans.iter().map(|(.., amount)| amount).sum();
            prop_assert_eq!(sums(&bins, 0).iter().map(|(_, n)| n).sum::<u64>(), spans.len() as u64);
            prop_assert_eq!(sums(&bins, 1).iter().map(|(_, n)| n).sum::<u64>(), all);
            let other = fill(&mut spans.iter().rev());
            prop_assert_eq!(sums(&bins, 0), sums(&other, 0));
            prop_assert_eq!(sums(&bins, 1), sums(&other, 1));
            prop_assert_eq!(marked(&bins), marked(&other));
        }
    }

    #[test]
    fn what_lasts_is_split_by_time() {
        let mut bins = Bins::<2>::default();
        // A quarter lies in the first bin, half in the second, and a quarter in the third.
        bins.spread(0, 512, 2560, 1000);
        assert_eq!(sums(&bins, 0), [(0, 250), (1024, 500), (2048, 250)]);
    }

    #[test]
    fn times_far_apart_share_wide_bins() {
        let mut bins = Bins::<2>::default();
        for at in [i64::MIN, -1, 0, i64::MAX] {
            bins.add(0, at, 1);
        }
        bins.spread(1, i64::MIN, i64::MAX, 1 << 20);
        bins.mark(3, 5, 5);
        assert_eq!(sums(&bins, 0).iter().map(|(_, n)| n).sum::<u64>(), 4);
        let halves = sums(&bins, 1);
        assert!(halves.len() > MOST / 2 && halves.len() <= MOST);
        assert_eq!(halves.iter().map(|(_, n)| n).sum::<u64>(), 1 << 20);
        assert_eq!(marked(&bins).len(), 1);
    }
}
