//! That the clocks of two hosts moved against each other.

use super::Figures;
use analyze::findings::Finding;
use analyze::spelling::time;

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "the clocks of two hosts moved against each other while the job ran: one was set or corrected.";

/// The claim.
pub(super) fn sentence(of: &Finding, least_us: f64, (from_s, until_s): (f64, f64)) -> String {
    let host = |at: usize| of.subject.hosts.get(at).map_or("a host", String::as_str);
    format!(
        "The clocks of {} and {} moved against each other by {} or more, between {from_s:.1} s and \
         {until_s:.1} s: one was set or corrected, or a time is wrong.",
        host(0),
        host(1),
        time(least_us),
    )
}

/// What it rests on.
pub(super) fn evidence(more: usize, frequency_error_ppm: f64) -> String {
    let more = match more {
        0 => String::new(),
        n => format!("; so do {n} other windows"),
    };
    format!(
        "No offset of the clocks fits all operations of that time, if they run apart by \
         {frequency_error_ppm:.0} ppm at most{more}. Times before and after are kept apart."
    )
}

/// What it rests on, in numbers.
pub(super) fn figures(
    least_us: f64,
    (from_s, until_s): (f64, f64),
    more: usize,
    frequency_error_ppm: f64,
) -> Figures {
    vec![
        ("least_us", least_us),
        ("from_s", from_s),
        ("until_s", until_s),
        ("more", more as f64),
        ("frequency_error_ppm", frequency_error_ppm),
    ]
}
