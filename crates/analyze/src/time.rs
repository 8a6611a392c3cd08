//! Lengths of time and moments, with the unit and the clock in the type.
//!
//! A [`Nanos`] is a length of time. A moment belongs to a clock: a [`HostTime`] to the clock of one host, and
//! a [`Moment`] to the reference's clock, on which the times of all hosts can be compared. Two moments of one
//! clock differ by a [`Nanos`]. Only [`ClockLine`](crate::clocks::ClockLine) turns a [`HostTime`] into a
//! [`Moment`], and back.
//!
//! A length is an `f64`, because most lengths end as sums, means and shares. Whole ns are exact up to 2^53,
//! which is 104 days. Lengths beyond that are rounded, but never overflow. A moment is an `i64`, because ns
//! since 1970 need more than 53 bits. Large arrays of times keep their integers, and make a [`Nanos`] of each
//! when they are read.
//!
//! Rule: a length is never NaN, and no other module converts between ns, µs, ms and seconds by hand. Fields
//! that are printed are plain numbers, and have their unit in the name.

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// A length of time, ns; may be negative.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Nanos(pub f64);

/// A moment on the reference's clock, ns since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Moment(pub i64);

/// A moment on the clock of one host, ns since 1970. Moments of different hosts can't be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct HostTime(pub i64);

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0.0);
    /// One µs.
    pub const US: Nanos = Nanos(1e3);
    /// One ms.
    pub const MS: Nanos = Nanos(1e6);
    /// One second.
    pub const SECOND: Nanos = Nanos(1e9);

    /// So many µs.
    #[inline]
    pub const fn from_us(us: f64) -> Nanos {
        Nanos(us * 1e3)
    }

    /// So many ms.
    #[inline]
    pub const fn from_ms(ms: f64) -> Nanos {
        Nanos(ms * 1e6)
    }

    /// So many seconds.
    #[inline]
    pub const fn from_seconds(seconds: f64) -> Nanos {
        Nanos(seconds * 1e9)
    }

    /// In µs.
    #[inline]
    pub const fn us(self) -> f64 {
        self.0 / 1e3
    }

    /// In ms.
    #[inline]
    pub const fn ms(self) -> f64 {
        self.0 / 1e6
    }

    /// In seconds.
    #[inline]
    pub const fn seconds(self) -> f64 {
        self.0 / 1e9
    }

    /// In whole ns, to the nearest; halves go away from 0.
    #[inline]
    pub fn whole(self) -> i64 {
        // Casts are instructions, and `round` is a call on x86-64 without SSE 4.1.
        let below = self.0 as i64;
        let rest = self.0 - below as f64;
        below.saturating_add(i64::from(rest >= 0.5) - i64::from(rest <= -0.5))
    }

    /// In whole ns, to the nearest; 0 if it is negative.
    #[inline]
    pub fn whole_unsigned(self) -> u64 {
        self.0.round() as u64
    }

    /// Without its sign.
    #[inline]
    pub fn abs(self) -> Nanos {
        Nanos(self.0.abs())
    }
}

/// The seconds of a printed field that is in µs.
#[inline]
pub const fn seconds_of_us(us: f64) -> f64 {
    us / 1e6
}

/// The µs of a printed field that is in seconds.
#[inline]
pub const fn us_of_seconds(seconds: f64) -> f64 {
    seconds * 1e6
}

/// By length, so that lengths can be sorted, and be keys.
impl Ord for Nanos {
    #[inline]
    fn cmp(&self, other: &Nanos) -> Ordering {
        // By the rule, there is no NaN. Unlike `total_cmp`, this takes 0 and -0 as equal.
        let order = self.0.partial_cmp(&other.0);
        order.unwrap_or_else(|| self.0.total_cmp(&other.0))
    }
}

impl PartialOrd for Nanos {
    #[inline]
    fn partial_cmp(&self, other: &Nanos) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Nanos {
    #[inline]
    fn eq(&self, other: &Nanos) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Nanos {}

impl From<u32> for Nanos {
    /// So many ns.
    #[inline]
    fn from(ns: u32) -> Nanos {
        Nanos(f64::from(ns))
    }
}

impl From<u64> for Nanos {
    /// So many ns.
    #[inline]
    fn from(ns: u64) -> Nanos {
        Nanos(ns as f64)
    }
}

impl From<i64> for Nanos {
    /// So many ns.
    #[inline]
    fn from(ns: i64) -> Nanos {
        Nanos(ns as f64)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    #[inline]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    #[inline]
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl Neg for Nanos {
    type Output = Nanos;
    #[inline]
    fn neg(self) -> Nanos {
        // Not -0 of 0, which would be printed so.
        Nanos(0.0 - self.0)
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl SubAssign for Nanos {
    #[inline]
    fn sub_assign(&mut self, other: Nanos) {
        self.0 -= other.0;
    }
}

impl Mul<f64> for Nanos {
    type Output = Nanos;
    #[inline]
    fn mul(self, times: f64) -> Nanos {
        Nanos(self.0 * times)
    }
}

impl Div<f64> for Nanos {
    type Output = Nanos;
    #[inline]
    fn div(self, by: f64) -> Nanos {
        Nanos(self.0 / by)
    }
}

/// What share of the other length it is.
impl Div for Nanos {
    type Output = f64;
    #[inline]
    fn div(self, by: Nanos) -> f64 {
        self.0 / by.0
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(all: I) -> Nanos {
        all.fold(Nanos::ZERO, Add::add)
    }
}

impl<'a> Sum<&'a Nanos> for Nanos {
    fn sum<I: Iterator<Item = &'a Nanos>>(all: I) -> Nanos {
        all.copied().sum()
    }
}

/// Two moments of one clock differ by a length, which may be added to a moment. What lies beyond the year
/// 2262 or before 1677, which only damaged files have, is moved to that end.
macro_rules! moment {
    ($name:ident) => {
        impl $name {
            /// So many seconds after 1970 began.
            #[inline]
            pub fn from_seconds(seconds: f64) -> $name {
                $name(Nanos::from_seconds(seconds).whole())
            }
        }

        impl Sub for $name {
            type Output = Nanos;
            #[inline]
            fn sub(self, other: $name) -> Nanos {
                Nanos::from(self.0.saturating_sub(other.0))
            }
        }

        impl Add<Nanos> for $name {
            type Output = $name;
            #[inline]
            fn add(self, length: Nanos) -> $name {
                $name(self.0.saturating_add(length.whole()))
            }
        }

        impl Sub<Nanos> for $name {
            type Output = $name;
            #[inline]
            fn sub(self, length: Nanos) -> $name {
                $name(self.0.saturating_sub(length.whole()))
            }
        }
    };
}

moment!(Moment);
moment!(HostTime);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment(1_790_000_000_123_456_789);

    #[test]
    fn whole_ns_are_exact_for_104_days() {
        let days = Nanos::from_seconds(104.0 * 24.0 * 3600.0);
        assert_eq!(NOW + days + Nanos(1.0) - NOW - days, Nanos(1.0));
        assert_eq!(((NOW + days) - NOW).whole(), 104 * 24 * 3_600_000_000_000);
        let many = (0..10_000_000u64).map(|i| Nanos::from(i * 37 % 1_000_003));
        let whole = (0..10_000_000u64).map(|i| i * 37 % 1_000_003);
        assert_eq!(many.sum::<Nanos>().whole_unsigned(), whole.sum::<u64>());
    }

    #[test]
    fn a_unit_is_converted_there_and_back() {
        let length = Nanos(1_234_567.0);
        assert_eq!((length.us(), length.ms()), (1_234.567, 1.234_567));
        assert_eq!(Nanos::from_us(1_234.567), length);
        assert_eq!(Nanos::from_ms(2.5), Nanos::US * 2_500.0);
        assert_eq!(Nanos::from_seconds(3.0).seconds(), 3.0);
        assert_eq!(Nanos::SECOND / Nanos::MS, 1_000.0);
    }

    #[test]
    fn whole_ns_are_the_nearest() {
        let halves = [0.5, 1.4, -0.5, -1.49, 2.5, -3.5, 0.499_999_999_999_999_94];
        let large = [1e15 + 0.5, -4e15, 9.3e18, -9.3e18, f64::INFINITY];
        for ns in halves.into_iter().chain(large) {
            assert_eq!(Nanos(ns).whole(), ns.round() as i64, "{ns}");
        }
    }

    #[test]
    fn moments_of_damaged_files_stay_in_range() {
        let (first, last) = (Moment(i64::MIN), Moment(i64::MAX));
        assert_eq!(last + Nanos::SECOND, last);
        assert_eq!(first - Nanos::SECOND, first);
        assert_eq!(Moment(5) + Nanos::from(u64::MAX), last);
        assert!((last - first).0 > 9.2e18);
        assert_eq!(HostTime(5) + Nanos(-7.4), HostTime(-2));
    }

    #[test]
    fn lengths_are_sorted_by_length_and_no_time_has_no_sign() {
        let mut lengths = [Nanos(3.0), -Nanos::MS, Nanos::ZERO, -Nanos(-1.0)];
        lengths.sort();
        assert_eq!(lengths, [Nanos(-1e6), Nanos(0.0), Nanos(1.0), Nanos(3.0)]);
        assert_eq!(Nanos(-0.0), Nanos::ZERO);
        assert!((-Nanos::ZERO).0.is_sign_positive());
        assert!([Nanos::ZERO; 0].iter().sum::<Nanos>().0.is_sign_positive());
        assert_eq!(Nanos(-2.0).whole_unsigned(), 0);
    }
}
