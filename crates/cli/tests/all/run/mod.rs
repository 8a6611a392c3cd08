//! `ncclscope run`, `collect` and `plugin-path` as a user meets them, with a test client in the recorder's
//! place.

mod adoption;
mod client;
mod collect;
mod folder;
mod mpi;
mod packing;
mod place;
mod program;
mod sampler;
