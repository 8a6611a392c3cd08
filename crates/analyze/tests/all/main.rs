//! The crate as its users call it: recorded, simulated and made-up jobs, and what is said of them.

mod clocks;
mod deaths;
mod figures;
mod loss;
mod one_sided;
mod parts;
mod pipelines;
mod recorded;
mod shapes;
mod spans;
mod standstill;
mod timeline;
mod windowed;
