//! The data that ranks send, and what must arrive.
//!
//! An element's value depends on its rank, its index and the case. Values repeat after [`PERIOD`] elements.
//! The period is a prime, so that data that NCCL moved by a whole chunk is noticed, whatever the chunk's
//! size. And because values repeat, buffers of gigabytes are filled and compared at the speed of a copy.
//!
//! Rule: every value and every partial reduction is exact in the datatype.

use crate::datatype::{Datatype, Reduction};

/// Elements after which the data repeat.
pub const PERIOD: usize = 65_521;

/// The data of one case.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Of the elements.
    pub datatype: Datatype,
    /// `None` for functions that don't reduce.
    pub reduction: Option<Reduction>,
    /// Ranks.
    pub ranks: u32,
    /// Differs from case to case, so that what an earlier one left is noticed.
    pub salt: u64,
}

impl Pattern {
    /// Element `index` of what `rank` sends.
    pub fn value(&self, rank: u32, index: usize) -> u32 {
        let index = (index % PERIOD) as u64;
        let limit = self.datatype.exact_up_to();
        let hash =
            mix(self.salt ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(rank) << 48));
        let up_to = |most: u32| (hash % (u64::from(most) + 1)) as u32;
        // Ranks whose turn it is, so that never more than `most` of them contribute.
        let turn = |most: u32| {
            let every = self.ranks.div_ceil(most);
            (index + u64::from(rank)).is_multiple_of(u64::from(every))
        };
        match self.reduction {
            Some(Reduction::Sum) if !turn(limit) => 0,
            Some(Reduction::Sum) => up_to((limit / self.ranks).max(1)),
            // At most three ranks contribute a 2.
            Some(Reduction::Prod) => 1 + u32::from(turn(3) && hash & 1 == 1),
            Some(Reduction::Max | Reduction::Min) | None => up_to(limit),
        }
    }

    /// The bytes of one period, or of as many elements as `needed`: what `source` sends, or all ranks reduced
    /// where it is `None`.
    pub fn period(&self, source: Option<u32>, needed: usize) -> Vec<u8> {
        let needed = needed.min(PERIOD);
        let mut bytes = Vec::with_capacity(needed * self.datatype.size());
        for index in 0..needed {
            let value = match (source, self.reduction) {
                (None, Some(reduction)) => {
                    reduction.of((0..self.ranks).map(|rank| self.value(rank, index)))
                }
                (source, _) => self.value(source.unwrap_or(0), index),
            };
            self.datatype.write(value, &mut bytes);
        }
        bytes
    }
}

/// Goes through `length` elements from `from` on in pieces: offset in bytes, and the bytes of a period to use
/// there.
pub fn pieces(
    period: &[u8],
    from: usize,
    length: usize,
    size: usize,
    mut each: impl FnMut(usize, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut done = 0;
    while done < length {
        let at = (from + done) % PERIOD;
        let elements = (PERIOD - at).min(length - done);
        each(done * size, &period[at * size..(at + elements) * size])?;
        done += elements;
    }
    Ok(())
}

/// Elements that differ.
pub fn differences(found: &[u8], expected: &[u8], size: usize) -> u64 {
    if found == expected {
        return 0;
    }
    let pairs = found.chunks(size).zip(expected.chunks(size));
    pairs.filter(|(a, b)| a != b).count() as u64
}

/// SplitMix64's finalizer.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_are_exact_whatever_the_datatype_and_the_ranks() {
        for name in Datatype::names().split(", ") {
            let datatype = Datatype::named(name).expect("a name");
            for ranks in [1, 2, 3, 8, 72, 1024] {
                for reduction in Reduction::ALL {
                    let pattern = Pattern {
                        datatype,
                        reduction: Some(reduction),
                        ranks,
                        salt: 7,
                    };
                    for index in 0..50 {
                        let values = (0..ranks).map(|rank| pattern.value(rank, index));
                        // Partial results are no larger than the whole one: no value is below 0, none of a
                        // product below 1.
                        let whole = reduction.of(values);
                        assert!(
                            whole <= datatype.exact_up_to(),
                            "{name} {ranks} {reduction:?}: {whole}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_missing_rank_and_a_shift_are_noticed() {
        let pattern = Pattern {
            datatype: Datatype::named("float").expect("a name"),
            reduction: Some(Reduction::Sum),
            ranks: 4,
            salt: 1,
        };
        let whole = pattern.period(None, PERIOD);
        let three = (0..PERIOD).map(|i| (0..3).map(|r| pattern.value(r, i)).sum::<u32>());
        let wrong = (0..PERIOD)
            .zip(three)
            .filter(|(i, sum)| whole[i * 4..][..4] != (*sum as f32).to_le_bytes())
            .count();
        assert!(wrong > PERIOD * 9 / 10, "{wrong}");
        let mut shifted = whole.clone();
        shifted.rotate_left(4 * 16384);
        assert!(differences(&shifted, &whole, 4) > PERIOD as u64 * 9 / 10);
    }

    #[test]
    fn pieces_cover_a_stretch_once() {
        let period: Vec<u8> = (0..PERIOD).map(|i| (i % 251) as u8).collect();
        let mut found = vec![0; 200_000];
        pieces(&period, 60_000, 200_000, 1, |at, bytes| {
            found[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        })
        .expect("no error");
        for (i, byte) in found.iter().enumerate() {
            assert_eq!(usize::from(*byte), (60_000 + i) % PERIOD % 251);
        }
    }
}
