//! What a host costs a program that uses NCCL: its clocks, locks, sockets, memory, timers and GPUs.
//!
//! [`starts::run`] starts this program several times. Each start measures every [`item::Item`] once, in the
//! modules [`cpu`], [`sockets`], [`memory`], [`timers`], [`gpu`] and [`nvml`], on CPUs that [`place`] chose.
//! [`results`] puts the starts together, [`text`] prints them, [`compare`] finds the items in which two
//! hosts differ, and [`html`] is the page of that.
//!
//! Rule: the unit of repetition is a start, and never a call. Calls of one process share its CPU, its memory
//! and its moment, so they agree with each other more than two runs on one host do (T. Kalibera and R. Jones,
//! "Rigorous benchmarking in reasonable time", ISMM 2013). So every interval and every comparison is over
//! starts.
//!
//! Within a start, a batch of calls takes [`timing::BATCH`] at least, and the best of [`timing::BATCHES`]
//! batches counts: what disturbs a batch can only slow it (J. Chen and J. Revels, "Robust benchmarking in
//! noisy environments", 2016; lmbench does the same: L. McVoy and C. Staelin, "lmbench: portable tools for
//! performance analysis", USENIX 1996). Only of sleeps and wake-ups the median counts, because there the
//! disturbance is what is measured.

pub mod compare;
pub mod cpu;
pub mod facts;
pub mod gpu;
pub mod html;
pub mod item;
mod library;
pub mod memory;
pub mod nvml;
pub mod placement;
pub mod results;
pub mod sockets;
pub mod starts;
pub mod text;
pub mod timers;
pub mod timing;
