//! The program as a user meets it.

mod attach;
mod bench;
mod built;
mod contracts;
mod docs;
mod findings;
mod hang;
mod hostbench;
mod licences;
mod looks;
mod models;
mod other_tools;
mod parts;
mod ranges;
mod run;
mod running;
mod schema;
mod serve;
mod sharing;
mod top;
mod tune;
