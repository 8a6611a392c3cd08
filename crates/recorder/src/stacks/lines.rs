//! The line of an instruction, by the table that CPython keeps beside the code.
//!
//! Each release line has a table of its own: `co_lnotab` up to 3.9, `co_linetable` in 3.10, and the location
//! table from 3.11 on. CPython's `Objects/lnotab_notes.txt` and `Objects/locations.md` describe them.
//!
//! Rule: a table may be any bytes. What is not well formed gives no line, and never a wrong turn.

/// Which table a release has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// 3.9: pairs of an address's and a line's increment.
    Lnotab,
    /// 3.10: pairs of a range's length and its line's increment; −128 is a range without a line.
    Ranges,
    /// 3.11 and later: entries of one or more bytes, the first with its highest bit set.
    Locations,
}

/// Bytes of a table that are looked at.
pub const MOST: usize = 64 << 10;

impl Lines {
    /// The line of the instruction that begins `at` bytes into the code. `first` is the function's first
    /// line. `None` if it has none, or the table ends before.
    pub fn line(self, first: i32, at: u32, bytes: impl Iterator<Item = u8>) -> Option<u32> {
        let at = i64::from(at);
        let first = i64::from(first);
        let line = match self {
            Lines::Lnotab => lnotab(first, at, bytes),
            Lines::Ranges => ranges(first, at, bytes),
            Lines::Locations => locations(first, at, bytes),
        };
        u32::try_from(line?).ok().filter(|line| *line != 0)
    }
}

fn lnotab(mut line: i64, at: i64, mut bytes: impl Iterator<Item = u8>) -> Option<i64> {
    let mut address = 0;
    // The last entry has no end: what is behind it is in its line.
    while let (Some(step), Some(lines)) = (bytes.next(), bytes.next()) {
        address += i64::from(step);
        if address > at {
            break;
        }
        line += i64::from(lines as i8);
    }
    Some(line)
}

fn ranges(mut line: i64, at: i64, mut bytes: impl Iterator<Item = u8>) -> Option<i64> {
    let mut end = 0;
    while let (Some(length), Some(lines)) = (bytes.next(), bytes.next()) {
        end += i64::from(length);
        let lines = lines as i8;
        let has_line = lines != i8::MIN;
        if has_line {
            line += i64::from(lines);
        }
        if at < end {
            return has_line.then_some(line);
        }
    }
    None
}

fn locations(mut line: i64, at: i64, bytes: impl Iterator<Item = u8>) -> Option<i64> {
    let mut bytes = bytes.peekable();
    let mut end = 0;
    while let Some(head) = bytes.next() {
        if head & 0x80 == 0 {
            return None;
        }
        // In code units of two bytes.
        end += 2 * (i64::from(head & 7) + 1);
        let code = head >> 3 & 15;
        line += match code {
            // Short forms, for code in the line before.
            0..=9 => 0,
            // One line, and its columns in two bytes.
            10..=12 => i64::from(code - 10),
            // A line without columns, and the long form: both begin with the line.
            13 | 14 => signed(&mut bytes)?,
            _ => 0,
        };
        if at < end {
            return (code != 15).then_some(line);
        }
        // The rest of the entry. Only the first byte of an entry has the highest bit.
        while bytes.next_if(|byte| byte & 0x80 == 0).is_some() {}
    }
    None
}

/// A number in units of 6 bits, the lowest first. Its lowest bit is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..36).step_by(6) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            let size = (value >> 1) as i64;
            return Some(if value & 1 != 0 { -size } else { size });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(lines: Lines, first: i32, at: u32, bytes: &[u8]) -> Option<u32> {
        lines.line(first, at, bytes.iter().copied())
    }

    /// Tables of the two older kinds for this function, which begins in line 1:
    ///
    /// ```python
    /// def f(x):
    ///     a = 1
    ///     for i in x:
    ///         a += g(
    ///             i,
    ///         )
    ///     return a
    /// ```
    #[test]
    fn a_call_over_several_lines_is_in_the_right_one() {
        let lnotab = [0, 1, 4, 1, 8, 1, 4, 1, 2, 255, 8, 3];
        let old = [
            (0, 2),
            (3, 2),
            (4, 3),
            (11, 3),
            (12, 4),
            (16, 5),
            (18, 4),
            (25, 4),
            (26, 7),
            (90, 7),
        ];
        for (at, expected) in old {
            assert_eq!(line(Lines::Lnotab, 1, at, &lnotab), Some(expected), "{at}");
        }
        let ranges = [4, 1, 8, 1, 4, 1, 2, 1, 8, 255, 2, 128, 4, 3];
        let newer = [
            (0, Some(2)),
            (4, Some(3)),
            (12, Some(4)),
            (16, Some(5)),
            (18, Some(4)),
            (26, None),
        ];
        for (at, expected) in newer {
            assert_eq!(line(Lines::Ranges, 1, at, &ranges), expected, "{at}");
        }
        assert_eq!(line(Lines::Ranges, 1, 28, &ranges), Some(7));
        assert_eq!(line(Lines::Ranges, 1, 32, &ranges), None);
    }

    #[test]
    fn every_form_of_a_location_is_read() {
        let entry = |code: u8, units: u8| 0x80 | code << 3 | (units - 1);
        let table = [
            // 0: line +0, short; 2: line +1 with columns; 6: −2, no columns; 8: +40, long; 10: none; 12: +2.
            &[entry(0, 1), 0x12][..],
            &[entry(11, 2), 4, 9],
            &[entry(13, 1), 5],
            &[entry(14, 1), 16 | 64, 1, 0, 3, 7],
            &[entry(15, 1)],
            &[entry(12, 8), 0, 0],
        ]
        .concat();
        let lines: Vec<Option<u32>> = [0, 2, 5, 6, 8, 10, 12, 27, 28]
            .iter()
            .map(|at| line(Lines::Locations, 10, *at, &table))
            .collect();
        let expected = [10, 11, 11, 9, 49, 0, 51, 51, 0].map(|line| Some(line).filter(|l| *l != 0));
        assert_eq!(lines, expected);
    }

    #[test]
    fn any_bytes_give_a_line_or_none() {
        for seed in 0..2000u32 {
            let bytes: Vec<u8> = (0..seed % 40)
                .map(|i| (seed.wrapping_mul(2_654_435_761).rotate_left(i) >> 7) as u8)
                .collect();
            for lines in [Lines::Lnotab, Lines::Ranges, Lines::Locations] {
                for at in [0, 2, 1000, u32::MAX] {
                    let _ = line(lines, (seed as i32).wrapping_mul(12_345_678), at, &bytes);
                }
            }
        }
    }
}
