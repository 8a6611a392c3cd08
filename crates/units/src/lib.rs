//! Sizes and times as users write them, in settings, options and files.
//!
//! Rule: one word means the same wherever it is read, in the job and on the command line. Limits, and what to
//! say of a value that is none, are the caller's. Nothing here depends on anything, because it is linked into
//! the plugin.

/// The bytes of `1024`, `1K`, `8MiB`, `1.5G` or `2tb`: powers of 1024 whatever the spelling, as in
/// nccl-tests. Blanks around it do not count, and fractions only where they are whole bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let places = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    if !number.contains('.') {
        return Some(whole);
    }
    let part = u128::from(fraction.parse::<u64>().ok()?) << shift;
    let more = (part % u128::from(places) == 0).then_some(part / u128::from(places))?;
    whole.checked_add(u64::try_from(more).ok()?)
}

/// The nanoseconds of `10s`, `1.5 ms`, `100us` or `5min`; never negative, never infinite. A number alone
/// counts in `bare` nanoseconds, where that is allowed.
pub fn nanos(text: &str, bare: Option<f64>) -> Option<f64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim_start() {
        "" => bare?,
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    Some(number * unit).filter(|ns| ns.is_finite())
}

/// The GB/s (10⁹ bytes a second) of `450GB/s`, `1.8 TB/s` or `400Gbit/s`. Rates count in powers of ten, as
/// links and nccl-tests do. `b` and `bit` are bits, `B` is bytes.
pub fn gb_per_s(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start().strip_suffix("/s")?;
    let (prefix, bytes) = match (
        unit.strip_suffix("bit").or(unit.strip_suffix('b')),
        unit.strip_suffix('B'),
    ) {
        (Some(prefix), _) => (prefix, 1.0 / 8.0),
        (_, Some(prefix)) => (prefix, 1.0),
        _ => return None,
    };
    let scale = match prefix {
        "M" => 1e-3,
        "G" => 1.0,
        "T" => 1e3,
        _ => return None,
    };
    Some(number * bytes * scale).filter(|rate| rate.is_finite() && *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_count_in_powers_of_ten() {
        for (text, expected) in [
            ("450GB/s", 450.0),
            (" 1.8 TB/s ", 1800.0),
            ("400Gbit/s", 50.0),
            ("400Gb/s", 50.0),
            ("500MB/s", 0.5),
        ] {
            assert_eq!(gb_per_s(text), Some(expected), "{text}");
        }
        for text in [
            "", "450", "450GB", "GB/s", "0GB/s", "-1GB/s", "450gB/s", "450GiB/s", "4 bit/s",
        ] {
            assert_eq!(gb_per_s(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_count_in_powers_of_1024() {
        for (text, expected) in [
            ("8", 8),
            (" 8B ", 8),
            ("1K", 1 << 10),
            ("1KiB", 1 << 10),
            ("2mb", 2 << 20),
            ("1G", 1 << 30),
            ("3TiB", 3 << 40),
            ("1.5K", 1536),
            ("0.25GiB", 1 << 28),
            ("1.0", 1),
        ] {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "K",
            "MiB",
            "1X",
            "-1",
            "+1",
            "1.5",
            "1.0001K",
            "1.2.3K",
            ".K",
            "1.K",
            ".5K",
            "1 K",
            "0x10",
            "1e6",
            "99999999999G",
            "99999999999999999999",
            "1µ",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_a_unit_or_the_callers() {
        for (text, expected) in [
            ("7ns", 7.0),
            ("100us", 100e3),
            ("2µs", 2e3),
            ("500ms", 500e6),
            (" 1.5 s ", 1.5e9),
            ("3", 3e9),
            ("1.5min", 90e9),
            ("2h", 7200e9),
            ("0s", 0.0),
        ] {
            assert_eq!(nanos(text, Some(1e9)), Some(expected), "{text}");
        }
        assert_eq!(nanos("3", None), None);
        let long = "9".repeat(400);
        for text in [
            "",
            "s",
            "-1s",
            "5 parsecs",
            "1e9s",
            "NaN",
            "inf",
            "1.2.3s",
            &long,
        ] {
            assert_eq!(nanos(text, Some(1e9)), None, "{text}");
        }
    }
}
