//! Finds where the calls of a trace stand in a capture of the same run, by order, size and time.
//!
//! ```text
//! capture   … AR 4M   AG 1M   RS 1M   AR 4M   AG 1M   RS 1M   AR 4M …
//! trace                               AR 4M   AG 1M   RS 1M
//!                                     ◀── offset: median of (trace - capture), error: what 95 % are off by
//! ```
//!
//! A trace has a part of the run's calls, one after the other. [`join`] tries every place at which function
//! and size of all pairs agree. A job repeats its steps, so there are many of these. In the right place both
//! tools saw the same moments, so times differ by a constant; in any other one they differ by how much steps
//! vary.
//!
//! Rule: a join is refused if nothing shows that it is right. Calls must fit; the error must be less than
//! half of the time between two calls, or the next call would fit as well; the second-best place must be
//! worse by a factor; and clocks of one run can't be minutes apart.

/// A call as both tools see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// NCCL's function.
    pub function: String,
    /// Bytes, if they are known.
    pub bytes: Option<u64>,
    /// When the program called, ns since 1970.
    pub at: i64,
}

/// Where a trace stands in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The capture's call that is the trace's first.
    pub first: usize,
    /// Pairs: all calls of the trace.
    pub pairs: usize,
    /// Added to a time of the capture, it is one of the trace, ns.
    pub offset_ns: i64,
    /// 95 % of the pairs are off by no more than that, ns.
    pub error_ns: i64,
}

/// Why there is no join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unjoined {
    /// One of them has too few calls: so many.
    TooFew(usize),
    /// Nowhere do function and size of all calls fit.
    OtherCalls,
    /// They fit, and the clocks would be so far apart, ns.
    OtherTime(i64),
    /// They fit, and the times differ by so much, ns, when calls are so far apart, ns.
    Unclear(i64, i64),
}

/// Fewer pairs prove nothing.
const LEAST: usize = 8;
/// Clocks of one run are set to the same time.
const MOST_APART_NS: i64 = 60_000_000_000;
/// The second-best place must be this much worse.
const CLEARER: i64 = 2;
/// Pairs that tell how far a place is off, before the best ones are asked for all.
const SAMPLE: usize = 64;

/// Joins; both are in the order of their calls.
///
/// # Errors
/// Why they do not belong together.
pub fn join(capture: &[Made], trace: &[Made]) -> Result<Joined, Unjoined> {
    let fewest = capture.len().min(trace.len());
    if fewest < LEAST {
        return Err(Unjoined::TooFew(fewest));
    }
    let fits = |a: &Made, b: &Made| {
        let sizes = a.bytes.zip(b.bytes);
        a.function == b.function && sizes.is_none_or(|(a, b)| a == b)
    };
    let places = 0..=capture.len().saturating_sub(trace.len());
    let of = |first: usize| capture[first..].iter().zip(trace);
    let all_fit =
        |first: &usize| capture.len() >= trace.len() && of(*first).all(|(a, b)| fits(a, b));
    let step = (trace.len() / SAMPLE).max(1);
    let mut found: Vec<(i64, usize)> = places
        .filter(all_fit)
        .map(|first| (spread(of(first).step_by(step)).1, first))
        .collect();
    if found.is_empty() {
        return Err(Unjoined::OtherCalls);
    }
    found.sort_unstable();
    let (_, first) = found[0];
    let (offset_ns, error_ns) = spread(of(first));
    let mut gaps: Vec<i64> = trace.windows(2).map(|two| two[1].at - two[0].at).collect();
    gaps.sort_unstable();
    let gap = gaps[gaps.len() / 2];
    if offset_ns.abs() > MOST_APART_NS {
        return Err(Unjoined::OtherTime(offset_ns));
    }
    let second = found.get(1).map(|(_, first)| spread(of(*first)).1);
    let is_clear = second.is_none_or(|second| second >= CLEARER.saturating_mul(error_ns.max(1)));
    if 2 * error_ns >= gap || !is_clear {
        return Err(Unjoined::Unclear(error_ns, gap));
    }
    Ok(Joined {
        first,
        pairs: trace.len(),
        offset_ns,
        error_ns,
    })
}

/// The median difference of times, and what 95 % of the pairs are off it by at most.
fn spread<'a>(pairs: impl Iterator<Item = (&'a Made, &'a Made)>) -> (i64, i64) {
    let mut apart: Vec<i64> = pairs.map(|(a, b)| b.at.saturating_sub(a.at)).collect();
    apart.sort_unstable();
    let median = apart[apart.len() / 2];
    let mut off: Vec<i64> = apart
        .iter()
        .map(|d| d.saturating_sub(median).saturating_abs())
        .collect();
    off.sort_unstable();
    (median, off[(off.len() * 95 / 100).min(off.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of three calls; each step takes another time.
    fn job(steps: usize, began: i64, seed: u64) -> Vec<Made> {
        let (mut at, mut state) = (began, seed);
        let mut made = Vec::new();
        for _ in 0..steps {
            for (function, bytes) in [
                ("AllReduce", 4096),
                ("AllGather", 64),
                ("ReduceScatter", 64),
            ] {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                at += 3_000_000 + (state >> 44) as i64;
                made.push(Made {
                    function: function.to_owned(),
                    bytes: Some(bytes),
                    at,
                });
            }
        }
        made
    }

    /// The same moments as another tool sees them.
    fn seen(of: &[Made], by: i64) -> Vec<Made> {
        let late = |(index, call): (usize, &Made)| Made {
            at: call.at + by + 700 * (index as i64 % 5),
            ..call.clone()
        };
        of.iter().enumerate().map(late).collect()
    }

    #[test]
    fn a_part_of_a_run_is_found_where_it_was() {
        let capture = job(200, 1_790_857_026_000_000_000, 1);
        let trace = seen(&capture[300..360], 40_000);
        let found = join(&capture, &trace).expect("joined");
        assert_eq!((found.first, found.pairs), (300, 60));
        assert!((40_000..43_000).contains(&found.offset_ns), "{found:?}");
        assert!(found.error_ns < 3_000, "{found:?}");
    }

    #[test]
    fn sizes_that_the_trace_does_not_know_fit() {
        let capture = job(50, 0, 2);
        let mut trace = seen(&capture[30..90], 5);
        trace.iter_mut().for_each(|call| call.bytes = None);
        assert_eq!(join(&capture, &trace).map(|found| found.first), Ok(30));
    }

    #[test]
    fn another_run_is_refused() {
        let capture = job(200, 1_790_857_026_000_000_000, 1);
        // The same program a little later, and an hour later.
        let later = job(20, 1_790_857_026_400_000_000, 9);
        assert!(matches!(join(&capture, &later), Err(Unjoined::Unclear(..))));
        let hour = seen(&capture[300..360], 3_600_000_000_000);
        assert!(matches!(join(&capture, &hour), Err(Unjoined::OtherTime(_))));
        // Another program.
        let mut other = seen(&capture[300..360], 0);
        other[7].bytes = Some(5);
        assert_eq!(join(&capture, &other), Err(Unjoined::OtherCalls));
        assert_eq!(join(&capture, &other[..3]), Err(Unjoined::TooFew(3)));
        assert_eq!(join(&other[..9], &capture), Err(Unjoined::OtherCalls));
    }
}
