//! The plugin in a process, played through its own tables.

mod comm_memory;
mod communicator_calls;
mod communicators;
mod counts;
mod crowds;
mod ends;
mod forks;
mod gpu_events;
mod graphs;
mod hostile;
mod job;
mod late;
mod model;
mod mpi;
mod one_sided;
mod own_thread;
mod pins;
mod program;
mod returns;
mod rotation;
mod spec;
mod stacks;
mod step_ranges;
mod stream_waits;
mod taken_away;
mod windows;
