//! Random jobs of which all is known, and what the report says of them.

mod files;
mod hangs;
mod judge;
mod live;
mod random_jobs;
mod real_jobs;
mod time_in_nccl;
mod watcher;
