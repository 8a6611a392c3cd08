//! GPU times from CUDA events: one recorded before a kernel's launch and one behind it, in stream order.
//!
//! Each communicator has a ring of event pairs, made at its init in the context that is current there. The launching
//! thread takes the next pair, records its two events and goes on: [`Ring::begin`] and [`Ring::end`]. The recorder's
//! thread asks for the oldest ones, in order, and keeps their times: [`Poller`]. No other thread calls CUDA, and nothing
//! is ever waited for in a callback.
//!
//! Times are told on the host's clock. An event on a stream of our own, which is always idle, is bracketed by two host
//! reads now and then (an anchor); `cuEventElapsedTime` to the newest anchor gives the rest, with an error that is half the
//! bracket, what two clocks may drift apart until then ([`DRIFT`]), and what a float can tell.
//!
//! Rule: the first failure of CUDA that is not a capture's ends this for the whole process. A sticky error belongs to the
//! program, which must be the one to see it, and a driver that shuts down must not be called.

mod anchor;
mod poller;
mod ring;
mod sampling;

pub use anchor::HostClock;
pub use poller::Poller;
pub use ring::{Ring, Rings, Timed, PAIRS};
pub use sampling::Switch;
