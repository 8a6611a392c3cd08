//! How figures are spelled for people: one way for a size, a time, a share and a datatype, in every output.
//!
//! Rule: three significant digits, the largest unit that the figure fills, and a blank before the unit. JSON
//! and tables for programs have the exact figures instead.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Three significant digits; whole numbers of four digits and more keep them all.
pub fn three(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0" } else { "-" }.to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let scale = 10f64.powi((2 - magnitude).clamp(0, 300));
    let rounded = match (value * scale).round() / scale {
        rounded if rounded.is_finite() => rounded,
        _ => value,
    };
    let magnitude = rounded.abs().log10().floor() as i32;
    let digits = usize::try_from(2 - magnitude).unwrap_or(0).min(9);
    let text = format!("{rounded:.digits$}");
    match text.trim_matches(['-', '0', '.']) {
        "" => "0".to_owned(),
        _ => text,
    }
}

/// µs as users say them: `12.3 µs`, `247 ms`, `3.05 s`.
pub fn time(us: f64) -> String {
    let (unit, name) = match us.abs() {
        us if us >= 999_500.0 => (1e6, "s"),
        us if us >= 999.5 => (1e3, "ms"),
        _ => (1.0, "µs"),
    };
    format!("{} {name}", three(us / unit))
}

/// From one time to another, in one unit: `2.94 to 3.16 s`.
pub fn times(low_us: f64, high_us: f64) -> String {
    let (low, high) = (time(low_us), time(high_us));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// A size as users of nccl-tests say it: `64 KiB`, `3.91 MiB`. What is exact has no zeros at its end.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let shown = |unit: usize| three(bytes as f64 / (1u64 << (10 * unit)) as f64);
    let mut unit = (0..UNITS.len())
        .rev()
        .find(|unit| bytes >> (10 * unit) > 0)
        .unwrap_or(0);
    // 1023.9 KiB are 1 MiB.
    if unit + 1 < UNITS.len() && shown(unit) == "1024" {
        unit += 1;
    }
    let mut text = shown(unit);
    // Three digits say exactly this many bytes.
    let exact = text
        .parse::<f64>()
        .map(|n| n * (1u64 << (10 * unit)) as f64);
    if text.contains('.') && exact == Ok(bytes as f64) {
        text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{text} {}", UNITS[unit])
}

/// Two sizes that differ, in bytes where three digits would not show that.
pub fn sizes_apart(a: u64, b: u64) -> (String, String) {
    let apart = a.abs_diff(b) as f64 / a.max(b).max(1) as f64;
    if a != b && apart < 0.01 {
        (format!("{a} B"), format!("{b} B"))
    } else {
        (size(a), size(b))
    }
}

/// How the sizes in one table are spelled: in bytes where several would read the same.
pub struct Sizes(BTreeMap<u64, String>);

impl Sizes {
    /// For a table with these sizes.
    pub fn of(bytes: impl IntoIterator<Item = u64>) -> Sizes {
        let mut alike: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for bytes in bytes {
            alike.entry(size(bytes)).or_default().insert(bytes);
        }
        let in_bytes = alike.into_values().filter(|of| of.len() > 1).flatten();
        Sizes(in_bytes.map(|of| (of, format!("{of} B"))).collect())
    }

    /// One of them.
    pub fn spell(&self, bytes: u64) -> String {
        self.0.get(&bytes).cloned().unwrap_or_else(|| size(bytes))
    }
}

/// With a capital first letter.
pub fn capital(text: impl AsRef<str>) -> String {
    let mut letters = text.as_ref().chars();
    let first = letters.next();
    first
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}

/// `1 call`, `2 calls`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A share of 1 as `27.3 %`, never with more than one digit behind the point.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        p if p.abs() >= 99.95 => format!("{p:.0} %"),
        p => format!("{p:.1} %"),
    }
}

/// By how much something is off what was expected: in %, and as a factor where it is twice as much or more.
pub fn off(share: f64) -> String {
    if share >= 1.0 {
        format!("a factor of {}", three(1.0 + share))
    } else {
        percent(share)
    }
}

/// A datatype as frameworks spell it: `float32`, `bfloat16`, `float8e4m3`.
pub fn datatype(nccl: &str) -> String {
    nccl.trim_start_matches("nccl").to_ascii_lowercase()
}

/// A word of a command line, in quotes if the shell would not take it for one word.
pub fn word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,#~".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', "'\\''")).into()
    }
}

/// Numbers in few words: `0-7`, `0-56:8` for every eighth, `0,1,5`.
pub fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let numbers: Vec<u32> = numbers
        .into_iter()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut parts = Vec::new();
    let mut rest = numbers.as_slice();
    while let Some(first) = rest.first() {
        let step = rest.get(1).map_or(1, |second| second - first);
        let run = 1 + rest.windows(2).take_while(|w| w[1] - w[0] == step).count();
        // Two numbers that are no neighbours make no series.
        let run = if run < 3 && step != 1 { 1 } else { run };
        let last = rest[run - 1];
        parts.push(match (run, step) {
            (1, _) => first.to_string(),
            (_, 1) => format!("{first}-{last}"),
            _ => format!("{first}-{last}:{step}"),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_in_few_words() {
        for (numbers, expected) in [
            (&[][..], ""),
            (&[3], "3"),
            (&[0, 1], "0-1"),
            (&[0, 1, 2, 3], "0-3"),
            (&[0, 8, 16, 24], "0-24:8"),
            (&[0, 8], "0,8"),
            (&[0, 1, 2, 8, 9, 10], "0-2,8-10"),
            (&[5, 7, 8, 9], "5,7-9"),
            (&[2, 1, 1, 0], "0-2"),
        ] {
            assert_eq!(ranges(numbers.iter().copied()), expected);
        }
    }

    #[test]
    fn figures_are_spelled_as_the_table_says() {
        // The page's scripts spell by the same table (python/tests/test_html.py).
        let table: serde_json::Value = serde_json::from_str(include_str!("spelling.json")).unwrap();
        let spell = |by: &str, value: &serde_json::Value| match by {
            "three" => three(value.as_f64().unwrap()),
            "time" => time(value.as_f64().unwrap()),
            "size" => size(value.as_u64().unwrap()),
            "percent" => percent(value.as_f64().unwrap()),
            "datatype" => datatype(value.as_str().unwrap()),
            other => panic!("{other}"),
        };
        for (by, rows) in table.as_object().unwrap() {
            for row in rows.as_array().unwrap() {
                assert_eq!(spell(by, &row[0]), row[1].as_str().unwrap(), "{by} {row}");
            }
        }
        assert_eq!(three(f64::NAN), "-");
        assert_eq!(times(2_940_000.0, 3_161_000.0), "2.94 to 3.16 s");
        assert_eq!(times(940_000.0, 3_161_000.0), "940 ms to 3.16 s");
    }

    #[test]
    fn sizes_that_differ_look_different() {
        let text = |a, b| {
            let (a, b) = sizes_apart(a, b);
            format!("{a} and {b}")
        };
        assert_eq!(text(1 << 20, 1 << 21), "1 MiB and 2 MiB");
        assert_eq!(text(1 << 20, (1 << 20) + 4), "1048576 B and 1048580 B");
    }

    #[test]
    fn sizes_of_a_table_that_differ_look_different() {
        let all = [33_570_816, 33_562_624, 33_570_816, 8192];
        let sizes = Sizes::of(all);
        let spelled = all.map(|bytes| sizes.spell(bytes));
        assert_eq!(spelled, ["33570816 B", "33562624 B", "33570816 B", "8 KiB"]);
    }

    #[test]
    fn datatypes_are_spelled_in_full() {
        assert_eq!(datatype("ncclFloat32"), "float32");
        assert_eq!(datatype("ncclBfloat16"), "bfloat16");
        assert_eq!(datatype("ncclFloat8e4m3"), "float8e4m3");
        assert_eq!(datatype("Unknown"), "unknown");
    }
}
