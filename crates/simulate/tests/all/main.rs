//! Random jobs of which all is known, and what the report says of them.

mod files;
mod judge;
mod live;
mod random_jobs;
mod real_jobs;
