//! Bandwidths by the conventions of nccl-tests.
//!
//! `algbw` is bytes by time, `busbw` is `algbw` times [`factor`], so that it compares with what a link moves
//! whatever the number of ranks. [`Bandwidth::of`] takes the size and the time, and refuses what these
//! contradict.
//!
//! Rule: a bandwidth is a finite number above 0 or it is `None` with a reason; never infinite.
//!
//! Source: doc/PERFORMANCE.md of <https://github.com/NVIDIA/nccl-tests>.

use schemars::JsonSchema;
use serde::Serialize;

/// No GPU to date moves more over all its links in one direction: twice 1800 GB/s, because in-switch
/// reductions (NVLS) may reach up to twice a link's bandwidth.
pub const BUSBW_LIMIT_GB_PER_S: f64 = 3600.0;

/// One GB/s, in bytes per µs.
pub(crate) const BYTES_PER_US_AT_GB_PER_S: f64 = 1e3;

/// Functions with a factor, and the factor in words.
pub const FACTORS: [(&str, &str); 11] = [
    ("AllReduce", "2(n-1)/n"),
    ("ReduceScatter", "(n-1)/n"),
    ("AllGather", "(n-1)/n"),
    ("Broadcast", "1"),
    ("Reduce", "1"),
    ("AlltoAll", "(n-1)/n"),
    ("Gather", "(n-1)/n"),
    ("Scatter", "(n-1)/n"),
    ("SendRecv", "1"),
    ("Send", "1"),
    ("Recv", "1"),
];

/// `busbw` by `algbw` of a function over `nranks` ranks; `None` for one that nccl-tests does not know, and
/// where `nranks` is needed and not known.
pub fn factor(function: &str, nranks: Option<u32>) -> Option<f64> {
    let (_, words) = FACTORS.iter().find(|(name, _)| *name == function)?;
    let n = || nranks.filter(|n| *n > 0).map(f64::from);
    match *words {
        "1" => Some(1.0),
        "(n-1)/n" => n().map(|n| (n - 1.0) / n),
        _ => n().map(|n| 2.0 * (n - 1.0) / n),
    }
}

/// Bandwidths in GB/s (10⁹ bytes a second).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bandwidth {
    /// Bytes by time.
    pub algbw_gb_per_s: Option<f64>,
    /// `algbw` times the function's factor.
    pub busbw_gb_per_s: Option<f64>,
}

impl Bandwidth {
    /// Of `bytes` in `us`.
    ///
    /// # Errors
    /// Why the size and the time can't both be right.
    pub fn of(
        function: &str,
        nranks: Option<u32>,
        bytes: u64,
        us: f64,
    ) -> Result<Bandwidth, String> {
        if bytes == 0 {
            return Ok(Bandwidth::default());
        }
        if us.is_nan() || us <= 0.0 {
            return Err(format!("{bytes} bytes in a time of {us} µs"));
        }
        let algbw = bytes as f64 / us / BYTES_PER_US_AT_GB_PER_S;
        // Over one rank nothing is transferred.
        let busbw = factor(function, nranks)
            .map(|factor| algbw * factor)
            .filter(|busbw| *busbw > 0.0);
        if let Some(busbw) = busbw.filter(|busbw| *busbw > BUSBW_LIMIT_GB_PER_S) {
            return Err(format!(
                "{bytes} bytes in {us} µs would be {busbw:.0} GB/s; no GPU's links move \
                {BUSBW_LIMIT_GB_PER_S}"
            ));
        }
        Ok(Bandwidth {
            algbw_gb_per_s: Some(algbw),
            busbw_gb_per_s: busbw,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_nccl_tests() {
        for (function, n, expected) in [
            ("AllReduce", 8, 1.75),
            ("ReduceScatter", 8, 0.875),
            ("AllGather", 4, 0.75),
            ("AlltoAll", 2, 0.5),
            ("Gather", 4, 0.75),
            ("Scatter", 4, 0.75),
            ("Broadcast", 8, 1.0),
            ("Reduce", 8, 1.0),
            ("SendRecv", 8, 1.0),
        ] {
            assert_eq!(factor(function, Some(n)), Some(expected), "{function}");
        }
        assert_eq!(factor("AllReduce", None), None);
        assert_eq!(factor("Broadcast", None), Some(1.0));
        assert_eq!(factor("Bcast", Some(2)), None);
    }

    #[test]
    fn size_and_time_give_both_figures() {
        let found = Bandwidth::of("AllReduce", Some(4), 1_000_000, 10.0);
        let expected = Bandwidth {
            algbw_gb_per_s: Some(100.0),
            busbw_gb_per_s: Some(150.0),
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn one_rank_has_no_bus_bandwidth() {
        let found = Bandwidth::of("AllReduce", Some(1), 1_000, 1.0).expect("sound");
        assert_eq!(
            (found.algbw_gb_per_s, found.busbw_gb_per_s),
            (Some(1.0), None)
        );
        assert_eq!(
            Bandwidth::of("AllReduce", Some(1), 0, 1.0),
            Ok(Bandwidth::default())
        );
    }

    #[test]
    fn what_size_and_time_contradict_is_refused() {
        for us in [0.0, -1.0, f64::NAN] {
            assert!(Bandwidth::of("AllReduce", Some(2), 8, us).is_err(), "{us}");
        }
        let refused = Bandwidth::of("AllReduce", Some(2), 1 << 30, 10.0);
        assert!(refused.is_err_and(|why| why.contains("107374 GB/s")));
    }
}
