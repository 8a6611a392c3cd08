//! The union of very many intervals that come nearly in order.
//!
//! [`Coverage`] keeps the newest ones as they are, and of older ones their union, packed as differences: some
//! four bytes an interval. One that comes so late that it lies before the newest of the union is kept apart
//! until the end.
//!
//! Rule: the union is that of all intervals, whatever their order.

use capture::varint::{put, Reader};

/// Coverage that may still change places.
const NEW: usize = 1 << 14;

/// Coverage under way, in ns.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    new: Vec<(u64, u64)>,
    /// The last interval of the union of those before `new`, and the ones before it: gap and length by turns.
    last: Option<(u64, u64)>,
    packed: Vec<u8>,
    /// End of what is packed.
    packed_to: u64,
    late: Vec<(u64, u64)>,
    sum: u64,
    span: Option<(u64, u64)>,
}

impl Coverage {
    /// Adds an interval.
    #[inline]
    pub fn push(&mut self, begin: u64, end: u64) {
        self.sum = self.sum.saturating_add(end.saturating_sub(begin));
        let (first, last) = self.span.unwrap_or((begin, end));
        self.span = Some((first.min(begin), last.max(end)));
        if begin < end {
            self.new.push((begin, end));
            if self.new.len() == 2 * NEW {
                self.pack(NEW);
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.span.is_none()
    }

    /// The sum of all lengths.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// First begin and last end.
    pub fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// Length of the union.
    pub fn union(&mut self) -> u64 {
        let mut union = 0u64;
        self.each(|begin, end| union = union.saturating_add(end - begin));
        union
    }

    /// Hands the intervals of the union to `each`, in order: they don't meet.
    pub fn each(&mut self, mut each: impl FnMut(u64, u64)) {
        self.pack(self.new.len());
        let (mut at, mut reader) = (0, Reader::new(&self.packed));
        let packed = std::iter::from_fn(|| {
            let (gap, length) = (reader.get()?, reader.get()?);
            let begin = at + gap;
            at = begin + length;
            Some((begin, at))
        });
        let packed = packed.chain(self.last);
        if self.late.is_empty() {
            return packed.for_each(|(begin, end)| each(begin, end));
        }
        let mut all: Vec<(u64, u64)> = packed.chain(self.late.iter().copied()).collect();
        all.sort_unstable();
        let mut under_way: Option<(u64, u64)> = None;
        for (begin, end) in all {
            match &mut under_way {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                under_way => {
                    if let Some((begin, end)) = under_way.replace((begin, end)) {
                        each(begin, end);
                    }
                }
            }
        }
        under_way
            .into_iter()
            .for_each(|(begin, end)| each(begin, end));
    }

    /// Adds the first `n` of the new ones to the union.
    fn pack(&mut self, n: usize) {
        // Nearly in order already, which a stable sort uses.
        self.new.sort();
        for (begin, end) in self.new.drain(..n) {
            match &mut self.last {
                None => self.last = Some((begin, end)),
                Some(last) if begin < last.0 => self.late.push((begin, end)),
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                Some(last) => {
                    put(&mut self.packed, last.0 - self.packed_to);
                    put(&mut self.packed, last.1 - last.0);
                    self.packed_to = last.1;
                    *last = (begin, end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_gives_the_same_union() {
        // 90 of 100 ns each are covered, twice in the first half.
        let n = 5 * NEW as u64;
        let mut all: Vec<(u64, u64)> = (0..n).map(|i| (i * 100, i * 100 + 90)).collect();
        all.extend((0..n / 2).map(|i| (i * 100 + 20, i * 100 + 80)));
        let gather = |all: &[(u64, u64)]| {
            let mut coverage = Coverage::default();
            all.iter().for_each(|(a, b)| coverage.push(*a, *b));
            let (span, sum) = (coverage.span(), coverage.sum());
            (span, sum, coverage.union())
        };
        let expected = (Some((0, n * 100 - 10)), n * 90 + n / 2 * 60, n * 90);
        assert_eq!(gather(&all), expected);
        all.sort_unstable();
        assert_eq!(gather(&all), expected);
        all.reverse();
        assert_eq!(gather(&all), expected);
    }

    #[test]
    fn calls_at_the_same_time_count_once_and_garbage_does_no_harm() {
        let mut coverage = Coverage::default();
        assert!(coverage.is_empty());
        for (begin, end) in [(10, 20), (15, 18), (12, 30), (40, 50), (7, 3), (0, 1)] {
            coverage.push(begin, end);
        }
        assert_eq!(coverage.span(), Some((0, 50)));
        assert_eq!(coverage.union(), 31);
        let mut coverage = Coverage::default();
        for _ in 0..3 {
            coverage.push(0, u64::MAX);
            coverage.push(1, u64::MAX - 1);
        }
        assert_eq!((coverage.sum(), coverage.union()), (u64::MAX, u64::MAX));
    }
}
