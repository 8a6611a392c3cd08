//! Records NCCL calls of processes that already run, from outside, by uprobes.
//!
//! ```text
//! job's thread ─▶ probe ─▶ program in the kernel ─▶ ring ─▶ session ─▶ calls ─▶ writer ─▶ capture
//!                   │      bpf/calls.bpf.c         ring.rs  session.rs calls.rs writer.rs
//!                   └────▶ perf event ─▶ ring of each CPU ──▶ (without BPF: perf_samples.rs)
//! ```
//!
//! A [`Session`] finds processes ([`processes`]) and their NCCL ([`library`]), sets probes ([`probes`]), and
//! takes events until it is ended. What it writes is a capture as the recorder's, without what only the
//! inside of NCCL and the GPU know: GPU times, algorithms, launches of CUDA graphs.
//!
//! On request, it also records what the scheduler did with threads in calls ([`sched`]), TCP connections
//! ([`net`]) and RDMA adapters ([`rdma`]), and steps inside NCCL's init ([`inner`]).
//!
//! Rule: nothing is left behind. Probes, programs and maps are descriptors of this process, so they go with
//! it, also if it is killed; for names of probes without BPF see `tracefs.rs`. The job is never stopped and
//! nothing is written into its memory, but for the probes that the kernel itself puts at the functions'
//! entries.

mod btf;
mod bytes;
pub mod calls;
pub mod cost;
pub mod event;
pub mod functions;
pub mod inner;
pub mod json;
pub mod library;
pub mod net;
mod object_file;
mod perf_ring;
mod perf_samples;
pub mod probes;
pub mod processes;
mod programs;
pub mod rdma;
mod readers;
mod ring;
mod samples;
pub mod sched;
mod session;
mod sys;
mod tracefs;
mod writer;

pub use session::{Options, Probed, Seen, Session, Summary, Targets};
pub use sys::Way;
