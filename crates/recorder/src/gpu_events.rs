//! GPU times from CUDA events: one event is recorded before a kernel's launch and one behind it, in stream
//! order.
//!
//! - `ring`: each communicator has a [`Ring`] of event pairs, made at its init in the context that is current
//!   there. The launching thread takes the next pair, records its two events and goes on: [`Ring::begin`] and
//!   [`Ring::end`].
//! - The first stream that is made to wait for a timed launch gets an event just before it waits
//!   ([`crate::stream_waits`], [`Ring::awaited`]). From it the poller knows how long that stream stood still.
//! - `sampling`: before that, the launching thread asks the [`Switch`] whether this launch is in the sample.
//!   The poller sets how sparse the sample is, so that timing keeps to its budget.
//! - `poller`: a thread of the recorder's (`writer::gpu_thread`) asks for the oldest pairs of each ring, in
//!   order, and keeps their times: [`Poller::poll`].
//!   A launch that stays under way for a second is asked how far the GPU has come with it, for `hang`.
//! - `lead`: from these times it is seen whether the host is ahead of its GPU.
//! - `anchor`: times are on the host's clock. Now and then the poller records an event on a stream
//!   of our own, which is always idle, between two reads of the host's clock (an anchor).
//!   `cuEventElapsedTime` to the newest anchor gives the rest. The error of a time is half the bracket, what
//!   the two clocks may drift apart until then, and what a float can tell.
//!
//! So a time goes from the launching thread to the ring as two recorded events, and from the poller back to
//! the ring as a `Span`. When an anchor behind it has confirmed it, the writer joins it with the row
//! (`Ring::span`).
//!
//! No other thread calls CUDA for this but those that make streams wait. A callback never waits.
//!
//! Rule: the first failure of CUDA that is not a capture's ends this for the whole process. A sticky error
//! belongs to the program, which must be the first to see it. A driver that shuts down must not be called.

mod anchor;
mod lead;
mod poller;
mod ring;
mod sampling;

pub use anchor::HostClock;
pub use poller::Poller;
pub use ring::{Awaited, Ring, Rings, Timed, Waited, PAIRS};
pub use sampling::Switch;
