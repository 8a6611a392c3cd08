//! Dumps of PyTorch's flight recorder with any content.
#![no_main]

include!("reader.rs");

fuzz_target!(|input: &[u8]| read(convert::Kind::FlightRecorder, input));
