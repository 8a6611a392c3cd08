//! Families as text: OpenMetrics 1.0, or Prometheus's text format 0.0.4.

use super::{Family, Kind, Value};
use std::fmt::Write;
use tables::sums::BOUNDS_NS;

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's text format 0.0.4.
    Text,
}

impl Format {
    /// The media type.
    pub fn kind(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes families.
pub fn text(families: &[Family], format: Format) -> String {
    let mut page = String::new();
    for family in families {
        of_family(&mut page, family, format);
    }
    if format == Format::OpenMetrics {
        page.push_str("# EOF\n");
    }
    page
}

/// Writing to a string can't fail.
fn of_family(page: &mut String, family: &Family, format: Format) {
    let Family {
        name, unit, help, ..
    } = family;
    let (kind, suffix) = match family.kind {
        Kind::Gauge => ("gauge", ""),
        Kind::Counter => ("counter", "_total"),
        Kind::Histogram => ("histogram", ""),
    };
    // The older format names a counter as its samples are named.
    let named = match format {
        Format::OpenMetrics => "",
        Format::Text => suffix,
    };
    let _ = writeln!(page, "# TYPE {name}{named} {kind}");
    if format == Format::OpenMetrics && !unit.is_empty() {
        let _ = writeln!(page, "# UNIT {name} {unit}");
    }
    let _ = writeln!(page, "# HELP {name}{named} {help}");
    for sample in &family.samples {
        let labels = labels(&sample.labels);
        let mut line = |suffix: &str, more: &str, value: &dyn std::fmt::Display| {
            let comma = if labels.is_empty() || more.is_empty() {
                ""
            } else {
                ","
            };
            let _ = if labels.is_empty() && more.is_empty() {
                writeln!(page, "{name}{suffix} {value}")
            } else {
                writeln!(page, "{name}{suffix}{{{labels}{comma}{more}}} {value}")
            };
        };
        match &sample.value {
            Value::Count(count) => line(suffix, "", count),
            Value::Number(number) => line(suffix, "", number),
            Value::Times {
                buckets,
                count,
                sum_ns,
            } => {
                let mut below = 0;
                for (bound, n) in BOUNDS_NS.iter().zip(buckets) {
                    below += n;
                    let le = canonical(*bound as f64 / 1e9);
                    line("_bucket", &format!("le=\"{le}\""), &below);
                }
                line("_bucket", "le=\"+Inf\"", count);
                line("_count", "", count);
                line("_sum", "", &(*sum_ns as f64 / 1e9));
            }
        }
    }
}

fn labels(labels: &[(&'static str, String)]) -> String {
    let mut all = String::new();
    for (key, value) in labels {
        let comma = if all.is_empty() { "" } else { "," };
        let _ = write!(all, "{comma}{key}=\"");
        for letter in value.chars() {
            match letter {
                '\\' => all.push_str("\\\\"),
                '"' => all.push_str("\\\""),
                '\n' => all.push_str("\\n"),
                other => all.push(other),
            }
        }
        all.push('"');
    }
    all
}

/// A bound as OpenMetrics wants it spelled, so that the same bound has the same label everywhere: `1.0`,
/// `0.001`, `1e-05`.
fn canonical(bound: f64) -> String {
    if bound >= 1e-4 {
        return format!("{bound:?}");
    }
    let text = format!("{bound:e}");
    match text.split_once("e-") {
        Some((mantissa, exponent)) => format!("{mantissa}e-{exponent:0>2}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_spelled_as_openmetrics_wants_them() {
        let spelled = [1e-5, 3e-5, 1e-4, 0.003, 1.0, 10.0].map(canonical);
        assert_eq!(
            spelled,
            ["1e-05", "3e-05", "0.0001", "0.003", "1.0", "10.0"]
        );
    }

    #[test]
    fn a_histogram_has_all_counts_below_each_bound() {
        let mut buckets = vec![0; BOUNDS_NS.len() + 1];
        (buckets[0], buckets[2], buckets[12]) = (1, 2, 4);
        let mut family = Family::new("x_seconds", Kind::Histogram, "seconds", "X.");
        let value = Value::Times {
            buckets,
            count: 7,
            sum_ns: 1_500_000_000,
        };
        family.add(&[("f", "a\"b\\")], value);
        let page = text(&[family], Format::OpenMetrics);
        let has = |line: &str| assert!(page.contains(line), "{line} in {page}");
        has("# TYPE x_seconds histogram\n# UNIT x_seconds seconds\n# HELP x_seconds X.\n");
        has("x_seconds_bucket{f=\"a\\\"b\\\\\",le=\"1e-05\"} 1\n");
        has(",le=\"3e-05\"} 1\n");
        has(",le=\"10.0\"} 3\n");
        has(",le=\"+Inf\"} 7\n");
        has("x_seconds_count{f=\"a\\\"b\\\\\"} 7\n");
        has("x_seconds_sum{f=\"a\\\"b\\\\\"} 1.5\n# EOF\n");
    }
}
