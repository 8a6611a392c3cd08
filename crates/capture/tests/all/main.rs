//! Files of each format, byte by byte.

mod format1;
mod format2;
mod records;
mod spec_example;
mod spec_offsets;
