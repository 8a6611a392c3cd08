//! What kernels lose beside kernels of NCCL that wait.
//!
//! A kernel of NCCL that waits for a late rank keeps multiprocessors busy, so what computes beside it takes
//! longer. [`waiting_slows`] says by how much, for each GPU. [`crate::account`] makes a price of that.
//!
//! Rule: nothing waits on the lane that came last, and its kernels run beside transfers as those of the
//! others would. So they are compared with its own first.

use super::interference::{slowed, taken, Alone};
use super::intervals::Union;
use super::lane::Lane;
use super::waiting::Waits;

/// By lane: which part of the time of its kernels is lost beside kernels of NCCL that wait; `None` if none
/// can be compared. They are compared with those of the lane that came last most often. `alone` is what
/// kernels of a lane take without communication, and `all` what kernels of any lane take.
pub fn waiting_slows(
    lanes: &[Lane],
    waits: &Waits,
    alone: &[Alone],
    all: &Alone,
) -> Vec<Option<f64>> {
    // Of equals the first, so that a report is the same each time.
    let last = waits.last.iter();
    let last = last.max_by_key(|(lane, times)| (**times, std::cmp::Reverse(**lane)));
    let last = last.map_or(0, |(lane, _)| *lane);
    let of_last = lanes.get(last).map_or(&[][..], |lane| &lane.windows);
    let taken = taken(of_last.iter().map(|window| &window.computed[..]));
    let nothing = Union::default();
    let lost = |lane: usize| {
        let when = waits.waiting.get(&lane).unwrap_or(&nothing);
        let windows = lanes[lane].windows.iter();
        let windows = windows.map(|window| (&window.computed[..], when));
        let slowed = slowed(windows, &[&taken, &alone[lane], all]);
        slowed.ratio().map(|_| slowed.lost())
    };
    (0..lanes.len()).map(lost).collect()
}
