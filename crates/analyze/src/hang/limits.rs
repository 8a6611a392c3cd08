//! From how long on a wait is a hang.
//!
//! A rank that computes for long, or writes a checkpoint, looks like one that will never come. [`Limits`] has
//! the two lengths that tell them apart, and [`ByTime`] is what the length of a wait says.
//!
//! Rule: a wait between the two limits is undecided, and so is a wait for a rank that still makes other
//! calls.

use crate::time::Nanos;
/// Waits up to this long are part of any job.
pub(super) const BRIEF: Nanos = Nanos::from_seconds(5.0);
/// A wait is a hang from here on, unless the user sets a limit; longer than checkpoints of a minute or two.
const PATIENCE: Nanos = Nanos::from_seconds(120.0);
/// A longer pause between two calls is no measure of what the job's ranks come back from.
pub(super) const LONGEST_PAUSE: Nanos = Nanos::from_seconds(24.0 * 3600.0);

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
    /// Up to this length a wait for ranks is no hang. Never more than `brief`: less if the job is over
    /// and its pace says more.
    pub short: Nanos,
    /// Up to this length a wait is no hang. Never more than `patience`.
    pub brief: Nanos,
    /// From this length on a wait is a hang.
    pub patience: Nanos,
}

impl Limits {
    /// The user's limit, or else limits that are longer than any pause which a rank of this job has come back
    /// from.
    pub fn new(after: Option<Nanos>, longest_pause: Nanos) -> Limits {
        let (brief, patience) = match after {
            Some(after) => (after.min(BRIEF), after),
            None => {
                let longest = longest_pause.min(LONGEST_PAUSE);
                (BRIEF.max(longest), PATIENCE.max(longest * 2.0))
            }
        };
        Limits {
            short: brief,
            brief,
            patience,
        }
    }

    /// The same for a job that is over: nothing follows, so a wait that is no pause by the job's pace tells
    /// something. `pace` is the longest that may be one, and `longest` the longest that was.
    pub fn at_the_end(self, pace: Option<Nanos>, longest: Nanos) -> Limits {
        let short = pace.map(|pace| pace.max(longest).min(self.brief));
        Limits {
            short: short.unwrap_or(self.brief),
            ..self
        }
    }

    /// What a wait of this length is.
    pub fn by_time(&self, lasted: Option<Nanos>) -> ByTime {
        match lasted {
            // Any wait counts.
            None if self.patience == Nanos::ZERO => ByTime::Hang,
            None => ByTime::Unknown,
            Some(ns) if ns >= self.patience => ByTime::Hang,
            Some(ns) if ns <= self.short => ByTime::NoHang,
            Some(_) => ByTime::TooEarly,
        }
    }

    /// What a wait for ranks is that are stopped: nobody gets on until they are let go, so it is never no
    /// hang.
    pub fn by_time_of_stopped(&self, lasted: Option<Nanos>) -> ByTime {
        match self.by_time(lasted) {
            ByTime::NoHang => ByTime::TooEarly,
            by_time => by_time,
        }
    }

    /// What an operation is that all ranks are in, at the moment that a dump shows: every job is in one most
    /// of the time, so a short one is undecided, even if any wait for a rank counts.
    pub fn by_time_of_moment(&self, lasted: Option<Nanos>) -> ByTime {
        match lasted {
            None => ByTime::Unknown,
            Some(ns) if ns >= self.patience.max(PATIENCE) => ByTime::Hang,
            Some(_) => ByTime::TooEarly,
        }
    }

    /// What a wait for ranks is that run: they have done nothing else for the time `away`, and others have
    /// waited for the time `waited`.
    pub fn by_time_of_ranks(&self, away: Option<Nanos>, waited: Option<Nanos>) -> ByTime {
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

    /// So many seconds.
    fn s(seconds: i64) -> Nanos {
        Nanos::SECOND * seconds as f64
    }

    #[test]
    fn a_rank_that_still_makes_calls_is_no_hang_however_long_others_wait() {
        let limits = Limits::new(Some(s(10)), Nanos::ZERO);
        let ranks =
            |away: i64, waited: i64| limits.by_time_of_ranks(Some(s(away)), Some(s(waited)));
        assert_eq!(ranks(20, 20), ByTime::Hang);
        assert_eq!(ranks(1, 20), ByTime::StillActive);
        assert_eq!(ranks(7, 20), ByTime::StillActive);
        assert_eq!(ranks(1, 7), ByTime::NoHang);
        assert_eq!(ranks(7, 7), ByTime::TooEarly);
        assert_eq!(limits.by_time_of_ranks(None, None), ByTime::Unknown);
    }

    #[test]
    fn a_wait_for_a_stopped_rank_is_never_no_hang() {
        let limits = Limits::new(None, Nanos::ZERO);
        let stopped = |seconds: i64| limits.by_time_of_stopped(Some(s(seconds))).hang();
        assert_eq!([1, 60, 120].map(stopped), [None, None, Some(true)]);
    }

    #[test]
    fn an_operation_that_all_are_in_is_no_hang_by_a_dump_of_that_moment() {
        let limits = Limits::new(Some(Nanos::ZERO), Nanos::ZERO);
        let at = |seconds: Option<i64>| limits.by_time_of_moment(seconds.map(s));
        assert_eq!(at(Some(1)), ByTime::TooEarly);
        assert_eq!(at(Some(600)), ByTime::Hang);
        assert_eq!(at(None), ByTime::Unknown);
        // A rank that does not come is one, however long that lasts.
        assert_eq!(limits.by_time_of_ranks(None, None), ByTime::Hang);
    }

    #[test]
    fn limits_grow_with_the_pauses_that_the_job_has_come_back_from() {
        let usual = Limits::new(None, Nanos::ZERO);
        assert_eq!((usual.brief, usual.patience), (BRIEF, PATIENCE));
        let paused = Limits::new(None, s(100));
        assert_eq!(paused.by_time(Some(s(100))), ByTime::NoHang);
        assert_eq!(paused.by_time(Some(s(199))), ByTime::TooEarly);
        assert_eq!(paused.by_time(Some(s(200))), ByTime::Hang);
        // Damaged times must not make it wait for ever.
        assert_eq!(
            Limits::new(None, Nanos::from(i64::MAX)).patience,
            LONGEST_PAUSE * 2.0
        );
    }
}
