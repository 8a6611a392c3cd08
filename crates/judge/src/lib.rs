//! Holds profilers of NCCL against the work that they watched.
//!
//! A [`plan::Plan`] names the work and the profilers. [`trial::run`] does the work in rounds, each once without a profiler
//! and once under each in a random order, and asks of every run what was done ([`truth`]) and what the profiler wrote of
//! it ([`records`]). [`completeness`] and [`accuracy`] compare the two, [`overhead`] compares runs of the same round, and
//! a [`report::Report`] has the answers, which [`text`] prints.
//!
//! Rule: what was done is never taken from a profiler: it comes from the work itself or from a counter of its own.

pub mod accuracy;
mod cases;
pub mod completeness;
pub mod overhead;
pub mod plan;
mod process;
mod random;
mod readers;
pub mod records;
pub mod report;
pub mod text;
pub mod trial;
pub mod truth;
