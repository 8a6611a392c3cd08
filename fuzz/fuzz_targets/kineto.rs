//! Traces of torch.profiler with any content.
#![no_main]

include!("reader.rs");

fuzz_target!(|input: &[u8]| read(convert::Kind::Kineto, input));
