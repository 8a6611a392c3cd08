//! Offsets of hosts' clocks that somebody else knows, such as a PTP daemon.
//!
//! A [`Given`] is read from a file (CSV or JSON: host, offset_ns, error_ns), or says that all clocks agree to
//! so much. It takes the place of the estimate; operations are still held against it.

use crate::time::Nanos;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Offsets that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// Clocks of any two hosts differ by no more than this.
    Within(Nanos),
    /// By host: its clock less the right time, and the error of that.
    Hosts(BTreeMap<String, (Nanos, Nanos)>),
}

/// Why a text holds no offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenError {
    said: String,
    hint: &'static str,
}

impl GivenError {
    fn of_rows(said: String) -> GivenError {
        GivenError {
            said,
            hint: "`host,offset_ns,error_ns` in CSV or JSON; see docs/concepts/clocks.md",
        }
    }

    /// The way out.
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

impl fmt::Display for GivenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl std::error::Error for GivenError {}

/// Offsets and errors are below this: 292 years would overflow.
const MOST_NS: i64 = i64::MAX / 4;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenOffset {
    host: String,
    offset_ns: i64,
    error_ns: i64,
}

impl Given {
    /// What `--offsets` names: a file, or `within=` and a time.
    ///
    /// # Errors
    /// Where there is no such file, or it holds none.
    pub fn read(named: &Path) -> Result<Given, GivenError> {
        if let Some(time) = named.to_str().and_then(|text| text.strip_prefix("within=")) {
            return Given::within(time);
        }
        let text = std::fs::read_to_string(named).map_err(|error| GivenError {
            said: format!("`{}` can't be read: {error}", named.display()),
            hint: "name a file of host, offset_ns and error_ns, or say `within=100us`",
        })?;
        Given::parse(&text).map_err(|error| GivenError {
            said: format!("`{}`: {error}", named.display()),
            ..error
        })
    }

    /// Clocks that agree to `time`: a number and one of ns, us, ms and s.
    ///
    /// # Errors
    /// Where it is none.
    pub fn within(time: &str) -> Result<Given, GivenError> {
        let ns = units::nanos(time, None);
        match ns.filter(|ns| *ns < MOST_NS as f64) {
            Some(ns) => Ok(Given::Within(Nanos(ns.ceil()))),
            None => Err(GivenError {
                said: format!("expected a time like `within=100us`, found `{time}`"),
                hint: "ns, us, ms and s are units",
            }),
        }
    }

    /// What a file holds: a JSON list of objects, or CSV with a row for each host; both with host, offset_ns
    /// and error_ns.
    ///
    /// # Errors
    /// Where it is neither, names a host twice, or has an error below 0.
    pub fn parse(text: &str) -> Result<Given, GivenError> {
        let rows = if text.trim_start().starts_with(['[', '{']) {
            serde_json::from_str(text).map_err(|error| {
                GivenError::of_rows(format!(
                    "line {}: expected a list of {{\"host\": \"node-1\", \"offset_ns\": -1200, \"error_ns\": \
                    300}}, found {error}",
                    error.line()
                ))
            })?
        } else {
            csv(text)?
        };
        let mut hosts = BTreeMap::new();
        for GivenOffset {
            host,
            offset_ns,
            error_ns,
        } in rows
        {
            let sound = -MOST_NS..MOST_NS;
            if error_ns < 0 || !sound.contains(&error_ns) || !sound.contains(&offset_ns) {
                return Err(GivenError::of_rows(format!(
                    "host `{host}`: expected an error of 0 or more and an offset that is one, found \
                    {offset_ns} ± {error_ns} ns"
                )));
            }
            let of = (Nanos::from(offset_ns), Nanos::from(error_ns));
            if hosts.insert(host.clone(), of).is_some() {
                return Err(GivenError::of_rows(format!(
                    "host `{host}`: expected one row, found two"
                )));
            }
        }
        if hosts.is_empty() {
            return Err(GivenError::of_rows(
                "expected a row for each host, found none".into(),
            ));
        }
        Ok(Given::Hosts(hosts))
    }

    /// The clock of `host` less that of `base`, and the error of that.
    pub(crate) fn between(&self, base: &str, host: &str) -> Option<(Nanos, Nanos)> {
        match self {
            Given::Within(error) => Some((Nanos::ZERO, *error)),
            Given::Hosts(hosts) => {
                let ((base, base_error), (host, error)) = (hosts.get(base)?, hosts.get(host)?);
                Some((*host - *base, *base_error + *error))
            }
        }
    }

    /// Hosts that are none of these.
    pub(super) fn unknown(&self, known: &[String]) -> Vec<&str> {
        match self {
            Given::Within(_) => Vec::new(),
            Given::Hosts(hosts) => hosts
                .keys()
                .filter(|host| !known.contains(host))
                .map(String::as_str)
                .collect(),
        }
    }
}

fn csv(text: &str) -> Result<Vec<GivenOffset>, GivenError> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if line.is_empty() || fields == ["host", "offset_ns", "error_ns"] {
            continue;
        }
        let row = match &fields[..] {
            [host, offset, error] if !host.is_empty() => {
                let times = (offset.parse().ok()).zip(error.parse().ok());
                times.map(|(offset_ns, error_ns)| GivenOffset {
                    host: (*host).to_owned(),
                    offset_ns,
                    error_ns,
                })
            }
            _ => None,
        };
        rows.push(row.ok_or_else(|| {
            GivenError::of_rows(format!(
                "line {}: expected `host,offset_ns,error_ns` with whole numbers, found `{line}`",
                number + 1
            ))
        })?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_either_kind_says_the_same() {
        let csv = Given::parse(
            "# ptp4l, 12:00\nhost, offset_ns, error_ns\na,-1200,300\n\nb,50,10 # fine\n",
        );
        let json = Given::parse(
            r#"[{"host": "b", "offset_ns": 50, "error_ns": 10},
                {"host": "a", "offset_ns": -1200, "error_ns": 300}]"#,
        );
        assert_eq!(csv, json);
        let given = csv.expect("offsets");
        assert_eq!(given.between("a", "b"), Some((Nanos(1250.0), Nanos(310.0))));
        assert_eq!(given.between("a", "c"), None);
        assert_eq!(given.unknown(&["b".into()]), ["a"]);
    }

    #[test]
    fn what_is_no_offset_is_said_with_its_line() {
        let error = |text: &str| Given::parse(text).expect_err("an error").to_string();
        assert_eq!(
            error("a,1,2\nb,1.5,2"),
            "line 2: expected `host,offset_ns,error_ns` with whole numbers, found `b,1.5,2`"
        );
        assert!(error("a,1,2\na,1,2").contains("found two"));
        assert!(error("a,1,-2").contains("an error of 0 or more"));
        assert!(error("").contains("found none"));
        assert!(error("[{\"host\": 3}]").starts_with("line 1: expected a list of"));
        assert!(error("a,9223372036854775807,0").contains("an offset that is one"));
    }

    #[test]
    fn clocks_that_agree_to_so_much() {
        assert_eq!(Given::within("100us"), Ok(Given::Within(Nanos::US * 100.0)));
        assert_eq!(
            Given::within("1.5ms"),
            Ok(Given::Within(Nanos::US * 1_500.0))
        );
        for odd in ["", "100", "us", "-1us", "NaNs", "1e300s", "1d"] {
            assert!(Given::within(odd).is_err(), "{odd}");
        }
    }
}
