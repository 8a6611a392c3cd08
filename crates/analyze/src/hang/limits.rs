//! From how long on a wait is a hang.
//!
//! A rank that computes for long, or writes a checkpoint, looks like one that will never come. [`Limits`] has
//! the two lengths that tell them apart, and [`ByTime`] is what the length of a wait says.
//!
//! Rule: a wait between the two limits is undecided, and so is a wait for a rank that still makes other
//! calls.

const SECOND: i64 = 1_000_000_000;
/// Waits up to this long are part of any job.
pub(super) const BRIEF_NS: i64 = 5 * SECOND;
/// A wait is a hang from here on, unless the user sets a limit; longer than checkpoints of a minute or two.
const PATIENCE_NS: i64 = 120 * SECOND;
/// A longer pause between two calls is no measure of what the job's ranks come back from.
pub(super) const LONGEST_PAUSE_NS: i64 = 24 * 3600 * SECOND;

/// What the length of a wait says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByTime {
    /// The wait is a hang.
    Hang,
    /// The wait is no hang so far.
    NoHang,
    /// Nothing yet: the wait is long, and long computing may still explain it.
    TooEarly,
    /// Nothing: the wait is long enough for a hang, but the rank that others wait for still makes other
    /// calls, or nothing newer of it is known.
    StillActive,
    /// Nothing: the length is not known.
    Unknown,
}

impl ByTime {
    /// Whether the wait is a hang; `None` if that is undecided.
    pub fn hang(self) -> Option<bool> {
        match self {
            ByTime::Hang => Some(true),
            ByTime::NoHang => Some(false),
            ByTime::TooEarly | ByTime::StillActive | ByTime::Unknown => None,
        }
    }
}

/// The lengths of a wait that decide.
pub(super) struct Limits {
    /// Up to this length a wait for ranks is no hang, ns. Never more than `brief_ns`: less if the job is over
    /// and its pace says more.
    pub short_ns: i64,
    /// Up to this length a wait is no hang, ns. Never more than `patience_ns`.
    pub brief_ns: i64,
    /// From this length on a wait is a hang, ns.
    pub patience_ns: i64,
}

impl Limits {
    /// The user's limit, or else limits that are longer than any pause which a rank of this job has come back
    /// from.
    pub fn new(after_ns: Option<i64>, longest_pause_ns: i64) -> Limits {
        let (brief_ns, patience_ns) = match after_ns {
            Some(after) => (after.min(BRIEF_NS), after),
            None => {
                let longest = longest_pause_ns.min(LONGEST_PAUSE_NS);
                (BRIEF_NS.max(longest), PATIENCE_NS.max(2 * longest))
            }
        };
        Limits {
            short_ns: brief_ns,
            brief_ns,
            patience_ns,
        }
    }

    /// The same for a job that is over: nothing follows, so a wait that is no pause by the job's pace tells
    /// something. `pace_ns` is the longest that may be one, and `longest_ns` the longest that was.
    pub fn at_the_end(self, pace_ns: Option<i64>, longest_ns: i64) -> Limits {
        let short_ns = pace_ns.map(|ns| ns.max(longest_ns).min(self.brief_ns));
        Limits {
            short_ns: short_ns.unwrap_or(self.brief_ns),
            ..self
        }
    }

    /// What a wait of this length is.
    pub fn by_time(&self, lasted: Option<i64>) -> ByTime {
        match lasted {
            // Any wait counts.
            None if self.patience_ns == 0 => ByTime::Hang,
            None => ByTime::Unknown,
            Some(ns) if ns >= self.patience_ns => ByTime::Hang,
            Some(ns) if ns <= self.short_ns => ByTime::NoHang,
            Some(_) => ByTime::TooEarly,
        }
    }

    /// What a wait for ranks is that are stopped: nobody gets on until they are let go, so it is never no
    /// hang.
    pub fn by_time_of_stopped(&self, lasted: Option<i64>) -> ByTime {
        match self.by_time(lasted) {
            ByTime::NoHang => ByTime::TooEarly,
            by_time => by_time,
        }
    }

    /// What an operation is that all ranks are in, at the moment that a dump shows: every job is in one most
    /// of the time, so a short one is undecided, even if any wait for a rank counts.
    pub fn by_time_of_moment(&self, lasted: Option<i64>) -> ByTime {
        match lasted {
            None => ByTime::Unknown,
            Some(ns) if ns >= self.patience_ns.max(PATIENCE_NS) => ByTime::Hang,
            Some(_) => ByTime::TooEarly,
        }
    }

    /// What a wait for ranks is that run: they have done nothing else for the time `away`, and others have
    /// waited for the time `waited`.
    pub fn by_time_of_ranks(&self, away: Option<i64>, waited: Option<i64>) -> ByTime {
        match (self.by_time(away), self.by_time(waited)) {
            (ByTime::NoHang, ByTime::Hang) => ByTime::StillActive,
            (ByTime::NoHang, _) => ByTime::NoHang,
            (ByTime::Hang, ByTime::Hang) => ByTime::Hang,
            (_, ByTime::Hang) => ByTime::StillActive,
            (_, ByTime::Unknown) => ByTime::Unknown,
            _ => ByTime::TooEarly,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_still_makes_calls_is_no_hang_however_long_others_wait() {
        let limits = Limits::new(Some(10 * SECOND), 0);
        let ranks = |away: i64, waited: i64| {
            limits.by_time_of_ranks(Some(away * SECOND), Some(waited * SECOND))
        };
        assert_eq!(ranks(20, 20), ByTime::Hang);
        assert_eq!(ranks(1, 20), ByTime::StillActive);
        assert_eq!(ranks(7, 20), ByTime::StillActive);
        assert_eq!(ranks(1, 7), ByTime::NoHang);
        assert_eq!(ranks(7, 7), ByTime::TooEarly);
        assert_eq!(limits.by_time_of_ranks(None, None), ByTime::Unknown);
    }

    #[test]
    fn a_wait_for_a_stopped_rank_is_never_no_hang() {
        let limits = Limits::new(None, 0);
        let stopped = |seconds: i64| limits.by_time_of_stopped(Some(seconds * SECOND)).hang();
        assert_eq!([1, 60, 120].map(stopped), [None, None, Some(true)]);
    }

    #[test]
    fn an_operation_that_all_are_in_is_no_hang_by_a_dump_of_that_moment() {
        let limits = Limits::new(Some(0), 0);
        let at = |seconds: Option<i64>| limits.by_time_of_moment(seconds.map(|s| s * SECOND));
        assert_eq!(at(Some(1)), ByTime::TooEarly);
        assert_eq!(at(Some(600)), ByTime::Hang);
        assert_eq!(at(None), ByTime::Unknown);
        // A rank that does not come is one, however long that lasts.
        assert_eq!(limits.by_time_of_ranks(None, None), ByTime::Hang);
    }

    #[test]
    fn limits_grow_with_the_pauses_that_the_job_has_come_back_from() {
        let usual = Limits::new(None, 0);
        assert_eq!((usual.brief_ns, usual.patience_ns), (BRIEF_NS, PATIENCE_NS));
        let paused = Limits::new(None, 100 * SECOND);
        assert_eq!(paused.by_time(Some(100 * SECOND)), ByTime::NoHang);
        assert_eq!(paused.by_time(Some(199 * SECOND)), ByTime::TooEarly);
        assert_eq!(paused.by_time(Some(200 * SECOND)), ByTime::Hang);
        // Damaged times must not make it wait for ever.
        assert_eq!(
            Limits::new(None, i64::MAX).patience_ns,
            2 * LONGEST_PAUSE_NS
        );
    }
}
