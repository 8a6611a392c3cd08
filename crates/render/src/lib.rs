//! Findings and tables to each output, one file each.
//!
//! Rule: a renderer decides how a figure looks and nothing else; every figure comes from `analyze` or
//! `tables`.

mod account;
pub mod batches;
mod bubbles;
pub(crate) mod callers;
pub mod chrome;
mod clocks;
pub(crate) mod counters;
mod critical_path;
pub mod cube;
pub mod diff_html;
pub mod diff_json;
pub mod diff_text;
mod driver_calls;
mod efficiency;
pub mod estimate;
pub mod events;
pub mod explain;
mod fields;
pub mod figures;
pub mod findings;
mod graphs;
pub mod hang;
pub mod history;
pub mod html;
mod idle;
pub mod json;
pub mod jsonl;
pub mod layout;
pub mod left_out;
pub mod memory;
pub mod metrics;
pub mod model;
mod mpi;
mod nodes;
pub mod otf2;
pub mod page;
pub mod parquet;
pub mod paths;
pub mod perfetto;
mod ranks;
pub(crate) mod recommendations;
mod replays;
pub mod startup;
mod steps;
mod stream_waits;
mod streams;
pub mod table;
pub mod text;
pub mod timeline;
pub mod top;
pub mod topo;
pub mod tune;
pub mod view;
mod waiting;
