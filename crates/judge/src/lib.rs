//! Holds profilers of NCCL against the work that they watched.
//!
//! A [`plan::Plan`] names the work and the profilers. [`trial::run`] does the work in rounds: once without a
//! profiler, and once under each profiler in a random order. It asks of every run what was done ([`truth`]),
//! and what the profiler wrote of it ([`readers`] give [`records`]). [`completeness`] and [`accuracy`]
//! compare the two, and [`overhead`] compares the runs of a round. A [`report::Report`] has the answers, and
//! [`text`] prints them.
//!
//! Rule: what was done is never taken from a profiler. It comes from the work itself, or from judge's own
//! counter.

pub mod accuracy;
mod beside;
mod cases;
pub mod completeness;
pub mod distribution;
pub mod html;
pub mod overhead;
pub mod plan;
mod process;
mod random;
pub mod readers;
pub mod records;
pub mod report;
mod silent;
pub mod text;
pub mod trial;
pub mod truth;
