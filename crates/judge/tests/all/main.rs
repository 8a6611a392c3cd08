//! Profilers of which the truth is known, judged.

mod lossy;
mod timed;
