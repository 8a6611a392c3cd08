//! Captures as tables, damaged ones included.

mod damage;
mod docs;
mod formats;
mod machines;
mod rotated;
mod source;
mod tail;
