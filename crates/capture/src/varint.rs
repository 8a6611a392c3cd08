//! Little-endian base-128 integers and columns of them.
//!
//! A column is one byte that names its coding, then its values; the writer tries the codings and keeps the
//! shortest. A column that is all zero costs that one byte, so a row may have many columns that most jobs
//! never use.

/// Appends `value`, 7 bits a byte, low bits first; 1 to 10 bytes.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put`] writes for `value`.
pub fn len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Maps signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 become 0, 1, 2, 3.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads from a byte slice; every method returns `None` at the end or on a value that is not well formed.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// One integer written by [`put`].
    pub fn get(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            let low = u64::from(byte & 0x7f);
            if shift == 63 && low > 1 {
                return None;
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        if n > self.bytes.len() {
            return None;
        }
        let (head, rest) = self.bytes.split_at(n);
        self.bytes = rest;
        Some(head)
    }

    /// A column of exactly `n` values written by [`put_column`], appended to `values`: all of them, or one
    /// that all have.
    pub fn column(&mut self, n: usize, values: &mut Vec<u64>) -> Option<Column> {
        let start = values.len();
        let tag = self.take(1)?[0];
        let each = match tag {
            ZERO => {
                values.push(0);
                false
            }
            SAME => {
                values.push(self.get()?);
                false
            }
            EACH => {
                // Each takes a byte at least, so a damaged `n` fills no more memory than there are bytes.
                let end = start.checked_add(n).filter(|_| n <= self.bytes.len())?;
                values.resize(end, 0);
                for value in &mut values[start..] {
                    *value = self.get_quick()?;
                }
                true
            }
            RUNS => {
                let end = start.checked_add(n)?;
                while values.len() < end {
                    let run = usize::try_from(self.get()?).ok()?;
                    if run == 0 || run > end - values.len() {
                        return None;
                    }
                    let value = self.get()?;
                    values.resize(values.len() + run, value);
                }
                true
            }
            _ => return None,
        };
        Some(Column {
            start,
            mask: if each { usize::MAX } else { 0 },
        })
    }

    /// Steps over a column of `n` values; whether any of them may be other than 0.
    pub fn skip_column(&mut self, n: usize) -> Option<bool> {
        match self.take(1)?[0] {
            ZERO => return Some(false),
            SAME => {
                self.get()?;
            }
            EACH => self.skip(n)?,
            RUNS => {
                let mut left = n as u64;
                while left > 0 {
                    let run = self.get()?;
                    self.get()?;
                    left = left.checked_sub(run).filter(|_| run != 0)?;
                }
            }
            _ => return None,
        }
        Some(true)
    }

    /// Steps over `n` integers.
    fn skip(&mut self, n: usize) -> Option<()> {
        let mut left = n;
        // An integer ends with the byte whose highest bit is clear.
        while let Some(word) = self.bytes.first_chunk::<8>() {
            let ends = (!u64::from_le_bytes(*word) & HIGH).count_ones() as usize;
            if ends >= left {
                break;
            }
            left -= ends;
            self.bytes = &self.bytes[8..];
        }
        (0..left).try_for_each(|_| self.get().map(drop))
    }

    /// As [`Reader::get`], without a branch for each byte: lengths of neighbours differ, and every wrong
    /// guess costs as much as a whole integer here.
    #[inline]
    fn get_quick(&mut self) -> Option<u64> {
        let Some(word) = self.bytes.first_chunk::<8>() else {
            return self.get();
        };
        let word = u64::from_le_bytes(*word);
        let ends = !word & HIGH;
        if ends == 0 {
            return self.get();
        }
        self.bytes = &self.bytes[(ends.trailing_zeros() / 8 + 1) as usize..];
        // What is up to the end, 7 bits a byte, moved together in three steps.
        let x = word & (ends ^ (ends - 1)) & !HIGH;
        let x = (x & 0x007f_007f_007f_007f) | (x & 0x7f00_7f00_7f00_7f00) >> 1;
        let x = (x & 0x0000_3fff_0000_3fff) | (x & 0x3fff_0000_3fff_0000) >> 2;
        Some((x & 0x0fff_ffff) | (x & 0x0fff_ffff_0000_0000) >> 4)
    }
}

/// The highest bit of each byte.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Where the values of a column are in the list that [`Reader::column`] appended to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Column {
    start: usize,
    /// 0 when one value stands for all.
    mask: usize,
}

impl Column {
    /// The value of a row.
    #[inline]
    pub fn at(self, values: &[u64], row: usize) -> u64 {
        values[self.start + (row & self.mask)]
    }

    /// Whether all values are 0.
    pub fn is_zero(self, values: &[u64]) -> bool {
        self.mask == 0 && values[self.start] == 0
    }
}

const ZERO: u8 = 0;
const SAME: u8 = 1;
const EACH: u8 = 2;
const RUNS: u8 = 3;

/// Appends `values` in the shortest of the four codings.
pub fn put_column(out: &mut Vec<u8>, values: &[u64]) {
    let Some(&first) = values.first() else {
        out.push(ZERO);
        return;
    };
    let (mut each, mut runs) = (0, 0);
    let (mut previous, mut run) = (first, 0u64);
    for &value in values {
        each += len(value);
        if value == previous {
            run += 1;
        } else {
            runs += len(run) + len(previous);
            (previous, run) = (value, 1);
        }
    }
    runs += len(run) + len(previous);
    if run as usize == values.len() {
        if first == 0 {
            out.push(ZERO);
        } else {
            out.push(SAME);
            put(out, first);
        }
    } else if runs < each {
        out.push(RUNS);
        for run in values.chunk_by(|a, b| a == b) {
            put(out, run.len() as u64);
            put(out, run[0]);
        }
    } else {
        out.push(EACH);
        for &value in values {
            put(out, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_round_trip(values in prop::collection::vec(prop_oneof![Just(0u64), 0..5u64, any::<u64>(),
            (0u32..64).prop_map(|shift| u64::MAX >> shift)], 0..200)) {
            let mut out = Vec::new();
            put_column(&mut out, &values);
            let mut reader = Reader::new(&out);
            let mut skipped = reader.clone();
            let mut found = vec![7];
            let column = reader.column(values.len(), &mut found).expect("well formed");
            prop_assert_eq!(reader.remaining(), 0);
            for (row, value) in values.iter().enumerate() {
                prop_assert_eq!(column.at(&found, row), *value);
            }
            let some = values.iter().any(|v| *v != 0);
            prop_assert_eq!(skipped.skip_column(values.len()), Some(some));
            prop_assert_eq!(skipped.remaining(), 0);
            prop_assert_eq!(column.is_zero(&found), !some);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100),
            n in 0usize..300) {
            let _ = Reader::new(&bytes).column(n, &mut Vec::new());
            let _ = Reader::new(&bytes).skip_column(n);
        }

        #[test]
        fn zigzag_round_trips(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn length_is_what_put_writes() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::MAX / 2, u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), len(value), "{value:#x}");
        }
    }
}
