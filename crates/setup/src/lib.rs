//! Reads what NCCL, the driver and the kernel say about start-up, topology and memory.
//!
//! [`log_line`] takes a line of NCCL's debug output apart, whoever printed it. [`log`] reads such lines into
//! [`log::Init`]s, one for each communicator and rank, and [`warnings`]. [`startup`] puts those of all ranks
//! together: which phase took long, on which rank, and for whom the others waited. [`memory`] has what NCCL
//! allocated for each of them, and [`fn@paths::paths`] which way they are connected. [`recorded`] reads what
//! the recorder kept of them in a capture: also how often the driver was called ([`counts`]), calls of it
//! that may take long ([`timed_calls`]), and what NCCL counts as its memory ([`comm_memory`]).
//!
//! [`topology`] has the links between the GPUs and network cards of a host, from `nvidia-smi topo -m` or from
//! NCCL's own file ([`xml`]), and [`peak`] what they carry at most.
//!
//! Rule: parsers never panic and never guess. A line that they don't know is no line.

pub mod comm_memory;
pub mod counts;
pub mod failure;
pub mod late;
pub mod log;
pub mod log_line;
pub mod memory;
pub mod paths;
pub mod peak;
pub mod recorded;
pub mod startup;
pub mod timed_calls;
pub mod topology;
pub mod warnings;
pub mod xml;
