//! Scripts and recorded jobs, played through plugins.

mod chained;
mod common;
mod every_event;
mod play;
mod program;
mod recorded_jobs;
mod replay;
